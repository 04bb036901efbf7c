#!/bin/bash
# Runs of cuda_gpt against each other, by the checksums that it prints: the same bits under every seed of
# the schedule, with a graph, with several streams; other bits for each kernel with atomics; bad options.
#
# usage: runs.sh BUILD   BUILD: a build folder, or none for a real GPU (no seeds there)
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)
gpt=${2:-$build/bin/cuda_gpt}
. "$here/../softgpu/programs/env.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
job=(--layers 1 --width 32 --heads 2 --batch 4 --context 64 --steps 2)
failed=0

bad() {
    echo "wrong: $*"
    failed=1
}

# sum SEED OPTIONS... - the checksums of that run
sum() {
    local seed=$1
    shift
    if ! run_seeded "$seed" "$gpt" "${job[@]}" "$@" >"$work/out" 2>"$work/err"; then
        echo "status of: SOFTGPU_SEED=$seed $gpt ${job[*]} $*" >&2
        cat "$work/err" >&2
        exit 1
    fi
    tail -n 1 "$work/out" | grep '^checksum parameters [0-9a-f]* losses [0-9a-f]*$'
}

run_seeded 1 "$gpt" --steps 1 >"$work/out" 2>"$work/err" || {
    if [ "$build" = none ]; then
        echo "skipped: $(cat "$work/err")"
        exit 77
    fi
    cat "$work/err"
    exit 1
}

want=$(sum 1) || exit 1
for seed in 2 3; do
    [ "$(sum $seed)" = "$want" ] || bad "seed $seed: other bits"
    [ "$(sum $seed --streams 4)" = "$want" ] || bad "--streams 4, seed $seed: other bits"
done
[ "$(sum 4 --graph)" = "$want" ] || bad "--graph, seed $seed: other bits"
[ "$(sum 5 --graph --streams 3)" = "$want" ] || bad "--graph --streams 3: other bits"
[ "$(sum 2 --seed 2)" != "$want" ] || bad "--seed 2: the same bits"
parameters=$(cut -d' ' -f3 <<<"$want")
[ "$(sum 3 --print-every 2 | cut -d' ' -f3)" = "$parameters" ] || bad "--print-every 2: other parameters"
[ "$(grep -c '^step' "$work/out")" = 2 ] || bad "--print-every 2 did not print steps 0 and 1 (the last)"
sum 4 --save "$work/a" >"$work/null"
sum 5 --save "$work/b" --graph >"$work/null"
cmp "$work/a" "$work/b" || bad "--save: other bits"
floats=$(grep -o '[0-9]* parameters' "$work/out" | cut -d' ' -f1)
[ "$(stat -c %s "$work/a")" = $((4 * floats)) ] || bad "--save: not $floats floats"

# each kernel with atomics: some seeds, other bits; one seed, the same (a GPU promises neither)
if [ "$build" != none ]; then
    for kernel in matmul attention layernorm gelu crossentropy adamw embedding; do
        steps=1
        [ $kernel = adamw ] && steps=4 # its first update does not depend on the gradients' scale
        for seed in 1 2 3; do
            sum $seed --steps $steps --atomics $kernel || exit 1
        done >"$work/sums"
        [ "$(sort -u "$work/sums" | wc -l)" -gt 1 ] || bad "--atomics $kernel: three seeds, the same bits"
    done
    first=$(sum 1 --atomics all --graph --streams 3) || exit 1
    [ "$(sum 1 --atomics all --graph --streams 3)" = "$first" ] || bad "--atomics all: one seed, other bits"
    [ "$(sum 2 --atomics all --graph --streams 3)" != "$first" ] || bad "--atomics all: two seeds, the same bits"
fi

# a strict device finds nothing: no race, no byte read that was not written, no leak
if [ "$build" != none ]; then
    for options in "--atomics all" "--graph --streams 4"; do
        rm -f "$work/report"
        # shellcheck disable=SC2086
        env -u LD_LIBRARY_PATH timeout 120 "$build/bin/softgpu" run --strict report --races --report "$work/report" -- \
            "$gpt" "${job[@]}" --batch 2 $options >"$work/out" 2>&1 || bad "status under --strict: $options"
        tail -n 1 "$work/report" | grep -q '"summary":true,"findings":0,' || bad "--strict: $(grep '"finding"' "$work/report" | head -n 1)"
    done
fi

# refuses TEXT OPTIONS... - status 2 and one line with TEXT
refuses() {
    local text=$1 status=0
    shift
    run_seeded 1 "$gpt" "$@" >"$work/out" 2>"$work/err" || status=$?
    [ $status = 2 ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -qF -- "$text" "$work/err" && return
    bad "status $status, not 2 with '$text': $*"
    cat "$work/err"
}
refuses "--heads 3 does not divide --width 64" --heads 3
refuses "is 4 a head" --width 16
refuses "is 128 a head" --width 128 --heads 1
refuses "--steps wants a number from 1 to 1000000000, not '0'" --steps 0
refuses "not 'x4'" --layers x4
refuses "not '4x'" --layers=4x
refuses "--streams wants a number from 1 to 8" --streams 9
refuses "--seed wants a number, 0 or greater, not '-1'" --seed=-1
refuses "--lr wants a number above 0, not 'nan'" --lr nan
refuses "'relu' is not one of matmul, attention" --atomics gelu,relu
refuses "'' is not one of" --atomics gelu,
refuses "neither small nor gpu" --preset big
refuses "'--steps' wants a value" --steps
refuses "no option '--step-count'" --step-count 3
refuses "'more' is not an option" more
refuses "more than 1048576 characters" --batch 65535 --context 65536
status=0
run_seeded 1 "$gpt" "${job[@]}" --save "$work/none/file" >"$work/out" 2>"$work/err" || status=$?
[ $status = 1 ] && grep -q "cannot write" "$work/err" || bad "--save into no folder: status $status"
run_seeded 1 "$gpt" --help | grep -q '^  --atomics LIST' || bad "--help"

[ $failed = 0 ] && echo "ok the same bits, or others, as said"
exit $failed
