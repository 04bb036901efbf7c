#!/bin/bash
# A program whose last line depends on the order of things that the API leaves unordered: the same
# line for the same seed, more than one line over twenty seeds.
#
# usage: order.sh BUILD PROGRAM
set -u
build=$1
program=$2
. "$(dirname "$0")/env.sh"

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for seed in $(seq 1 20); do
    line=$(run_seeded "$seed" "$program") || exit
    again=$(run_seeded "$seed" "$program") || exit
    if [ "$line" != "$again" ]; then
        echo "seed $seed: '$line', then '$again'"
        exit 1
    fi
    echo "$line" >>"$lines"
done
different=$(sort -u "$lines" | wc -l)
if [ "$different" -lt 2 ]; then
    echo "20 seeds, one result: $(head -n 1 "$lines")"
    exit 1
fi
echo "ok $different results over 20 seeds, one for each seed"
