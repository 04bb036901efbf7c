#!/bin/bash
# cuda_gpt under `twinbit run`: the same output as without, equal traces under two schedules with graphs and
# side streams, by both taps; and of each kernel with atomics, twinbit diff names that kernel, and nothing
# that only follows.
#
# usage: recorded.sh BUILD
set -u
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

bad() {
    echo "wrong: $*"
    failed=1
}

# record NAME SEED RUN-OPTIONS... -- JOB-OPTIONS... - its output in NAME.out, what twinbit says in NAME.err
record() {
    local name=$1 seed=$2 options=()
    shift 2
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    SOFTGPU_SEED=$seed "$build/bin/twinbit" run --force --device softgpu ${options[@]+"${options[@]}"} -o "$name.twinbit" -- \
        "$build/bin/cuda_gpt" --layers 1 --width 32 --heads 2 --batch 4 --steps 2 "$@" >"$name.out" 2>"$name.err" && return
    echo "failed: $name: $*"
    cat "$name.err"
    exit 1
}

# verdict - of a and b: status in $status, report in report
verdict() {
    status=0
    "$build/bin/twinbit" diff a.twinbit b.twinbit >report 2>&1 || status=$?
}

"$build/bin/softgpu" run -- "$build/bin/cuda_gpt" --layers 1 --width 32 --heads 2 --batch 4 --steps 2 >plain.out || exit 1
for tap in shim cupti; do
    for options in "" "--graph" "--streams 3" "--graph --streams 3"; do
        # shellcheck disable=SC2086
        record a 1 --tap $tap -- $options
        # shellcheck disable=SC2086
        record b 2 --tap $tap --inputs -- $options
        cmp plain.out a.out && cmp plain.out b.out || bad "$tap, $options: other output when recorded"
        "$build/bin/twinbit" show b.twinbit summary >summary
        grep -q "^coverage  *0 not covered, 0 unseen writers" summary && grep -q "^lost  *0$" summary ||
            bad "$tap, $options: $(grep -E '^(coverage|lost)' summary)"
        verdict
        [ "$status" -eq 0 ] || bad "$tap, $options: $(grep -E '^(DIV|UNK)' report)"
    done
done

# names KERNEL VARIANT - the first root is this kernel with atomics, for the reason that it has them
names() {
    record a 1 -- --atomics "$2"
    for seed in 2 3 4 5; do
        record b $seed -- --atomics "$2"
        verdict
        [ "$status" -eq 0 ] || break
    done
    [ "$status" -eq 1 ] && grep -qE "^DIVERGED.*, $1#[0-9]+, " report && grep -q "^ *cause *accumulation order" report ||
        bad "--atomics $2: $(grep -E '^(IDE|DIV|UNK)|cause' report)"
    if grep -E '^ *(also|[0-9]+\.) ' report | grep -vq _atomic#; then
        bad "--atomics $2: a kernel without atomics is blamed: $(grep -A9 '^ *also' report)"
    fi
}
names matmul_forward_atomic matmul
names attention_backward_atomic attention
names layernorm_backward_params_atomic layernorm
names gelu_backward_atomic gelu
names crossentropy_atomic crossentropy
names adamw_squares_atomic adamw
names embedding_backward_atomic embedding

[ $failed = 0 ] && echo "ok recorded as it ran, and every kernel named"
exit $failed
