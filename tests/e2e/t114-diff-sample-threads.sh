# timeout: 600
# --sample: equal runs with equal seeds choose the same launches, whichever thread of the host comes first; a seed of its own
# chooses others; of the launches of one thread about the share that was asked for
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_threads
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
taps=(shim)
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then taps+=(cupti); fi

record() { # record TRACE SEED OPTIONS... -- CASE
    local trace=$1 seed=$2
    shift 2
    expect 0 env SOFTGPU_SEED="$seed" "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@"
}

launches() { # launches TRACE - how many were recorded
    expect 0 "$TWINBIT" show "$1" events
    grep -c 'forward:/\(fill\|more\|both\)#' out || true
}

for tap in "${taps[@]}"; do
    for case in numbers own queries; do
        record 1 1 --tap "$tap" --sample 0.5 --seed 3 -- "$TOOL" $case
        for run in 2 3 4 5 6; do
            record $run $run --tap "$tap" --sample 0.5 --seed 3 -- "$TOOL" $case
            expect 0 "$TWINBIT" diff 1 $run
        done
    done
    # 4 threads that launch two kernels 8 times each
    all=0
    for seed in 1 2 3 4 5 6 7 8; do
        record $seed 1 --tap "$tap" --sample 0.25 --seed $seed -- "$TOOL" numbers
        n=$(launches $seed)
        [ "$n" -lt 64 ] || fail "all were recorded ($tap, seed $seed)"
        all=$((all + n))
    done
    [ $all -ge 64 ] && [ $all -le 192 ] || fail "$all of 512 were recorded, instead of about 128 ($tap)"
    status=0
    "$TWINBIT" diff 1 2 >out || status=$?
    [ $status -ne 0 ] || fail "two seeds chose the same ($tap)"
done
