#!/bin/bash
# Runs the programs of tests/softgpu/programs with cross.c preloaded and adds up what it found. Fails
# if a program fails, if an access is not explained, or if too few kernels are fully known.
#
# usage: cross.sh BUILD TOOL SOURCES PROGRAMS   folders of the .cu files and of what was built of them
set -u
build=$1
tool=$2
sources=$3
programs=$4
least=95 # percent of the kernels
. "$sources/env.sh"

out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=0
skipped=0
for source in "$sources"/*.cu; do
    name=$(basename "$source" .cu)
    [ "$name" = launch_callbacks ] && continue # it is a tool itself, and there can be one
    eval "settings=($(sed -n 's/^\/\/ env: //p' "$source"))"
    env "${settings[@]}" KI_CROSS_OUT="$out" LD_PRELOAD="${preload:+$preload:}$tool" SOFTGPU_SEED=1 \
        timeout "${SOFTGPU_TEST_TIMEOUT:-60}" "$programs/$name" > /dev/null
    status=$?
    case $status in
    0) ;;
    77) skipped=$((skipped + 1)) ;;
    *)
        echo "$name ends with $status"
        failed=$((failed + 1))
        ;;
    esac
done
awk -v skipped="$skipped" -v least="$least" '
    { programs++; kernels += $2; known += $3; launches += $4; writes += $5; reads += $6; unknown += $7; wrong += $8 }
    $8 > 0 { print $1 ": " $8 " accesses not explained" }
    END {
        if (!programs) { print "no program launched a kernel"; exit 1 }
        printf "%d programs (%d skipped), %d kernels, %d (%.1f %%) fully known\n", programs, skipped, kernels, known,
            100 * known / kernels
        printf "%d launches, %d writes, %d reads: %d behind unknown pointers of kernels that say so, %d not explained\n",
            launches, writes, reads, unknown, wrong
        exit wrong > 0 || 100 * known < least * kernels
    }' "$out" || failed=$((failed + 1))
exit $((failed > 0))
