# timeout: 300
# two streams on parts of one allocation that do not meet, and a sum by atomics in one part: that is the cause, not a race
# with the other stream, whose pointer leads elsewhere; and a fingerprint that may be torn is no second root
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_threads
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
taps=(shim)
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then taps+=(cupti); fi

record() { # record TRACE SEED TAP CASE... - standard output into TRACE.out
    local trace=$1 seed=$2 tap=$3
    shift 3
    expect 0 env SOFTGPU_SEED="$seed" "$TWINBIT" run --device softgpu --quiet --force --tap "$tap" -o "$trace" -- "$TOOL" "$@"
    mv out "$trace.out"
}

for tap in "${taps[@]}"; do
    record 1 1 "$tap" halves
    parted=0
    for seed in 2 3 4 5; do
        record "$seed" "$seed" "$tap" halves
        if cmp -s 1.out "$seed.out"; then continue; fi
        parted=1
        expect 1 "$TWINBIT" diff 1 "$seed"
        contains out "DIVERGED  1 root"
        contains out "cause       accumulation order"
        matches out '^  event  *0/.*/main/0/forward:/sum#0$'
        lacks out "likely: both begin"
    done
    [ $parted = 1 ] || fail "halves ($tap): all seeds give the same result"

    # a number of one thread differs, and earlier fingerprints of another one may be torn
    record free 1 "$tap" numbers
    for run in 2 3 4 5 6 7; do
        record "$run" $run "$tap" numbers 2
        expect 1 "$TWINBIT" diff free "$run"
        contains out "DIVERGED  1 root"
        lacks out "nothing else differs, here or later"
    done
done
