# a copy to the host in a graph, and a kernel on another branch that writes what it reads: its fingerprint is of before the
# copy, so runs whose results differ are never identical, and no run is called so that may be one of them
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_shared
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"

record() { # record SEED TRACE OPTIONS... -- CASE... - standard output in ./out
    local seed=$1 trace=$2
    shift 2
    expect 0 env SOFTGPU_SEED="$seed" "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@"
}

for options in "" --inputs; do
    other=
    # shellcheck disable=SC2086 # none or one
    record 1 a.twinbit $options -- "$TOOL" branch
    mv out first
    for seed in 2 3 4 5 6 7 8; do
        # shellcheck disable=SC2086
        record $seed b.twinbit $options -- "$TOOL" branch
        cmp -s first out || other=$seed
        expect 3 "$TWINBIT" diff a.twinbit b.twinbit
    done
    [ -n "$other" ] || fail "all seeds give the same result"
done
record 1 a.twinbit -- "$TOOL" branch
record 2 b.twinbit -- "$TOOL" branch
expect 3 "$TWINBIT" diff a.twinbit b.twinbit
contains out "UNKNOWN  copy to the host: another stream or node of a graph may write there meanwhile"
contains out "another stream or node of a graph may write what it brings to the host: the fingerprint may be torn"

# nobody else writes there: equal runs are identical
record 1 a.twinbit -- "$TOOL" both graph
record 1 b.twinbit -- "$TOOL" both graph
expect 0 "$TWINBIT" diff a.twinbit b.twinbit
