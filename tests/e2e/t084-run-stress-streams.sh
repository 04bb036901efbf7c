# --stress and the streams of a GPU: with the software device's own order held still, a wait that is missing shows under
# stress and not without; where it is there nothing shows; a job that is captured, copies and waits is as it is.
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_streams
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
run() { "$TWINBIT" run --quiet --force -o s.twinbit --device softgpu "$@"; }

taps=("--tap shim")
if [ -n "$(find "$TB_BUILD_DIR/softgpu/lib" -name 'libcupti.so*' 2>/dev/null)" ]; then
    taps+=("--tap cupti")
fi

# with nothing that orders the two launches: under each seed all runs are alike, and under stress some are not
differ=0
for seed in 1 2 3 4 5 6; do
    export SOFTGPU_SEED=$seed
    "$TWINBIT" run --quiet --force -o s.twinbit --device softgpu -n 8 --stress -- "$TOOL" onenone >out || true
    matches out '^differ from run 1: 0 of 7 runs as they are, [0-8] of 8 under stress$'
    now=$(sed -n 's/^differ from run 1: 0 of 7 runs as they are, \([0-8]\) of 8 under stress$/\1/p' out)
    if [ $differ -eq 0 ] && [ "$now" -gt 0 ]; then
        contains out "cause       race between streams 1 and 2: fill#0 and take#0 are not ordered"
        for tap in "${taps[@]}"; do # the same numbers of runs give the same runs
            # shellcheck disable=SC2086 # several words
            expect 1 run $tap -n 8 --stress -- "$TOOL" onenone
            contains out "differ from run 1: 0 of 7 runs as they are, $now of 8 under stress"
        done
    fi
    differ=$((differ + now))
done
[ $differ -ge 6 ] || fail "of 48 runs under stress only $differ differ"

# with an order nothing shows
for tap in "${taps[@]}"; do
    for case in oneevent onestream onecontext; do
        # shellcheck disable=SC2086
        expect 0 run $tap -n 4 --stress -- "$TOOL" $case
        contains out "differ from run 1: 0 of 3 runs as they are, 0 of 4 under stress"
    done
done
unset SOFTGPU_SEED

# nothing is put into a stream that is captured; programs with graphs, threads and several devices, which check what they
# computed, are as they are (which thread is the first is chance)
for case in capture nested threads devices elsewhere branch_halves split_thread pool ending; do
    SOFTGPU_DEVICES=2 SOFTGPU_SEED=1 "$TWINBIT" run --quiet --force -o s.twinbit --device softgpu -n 2 --stress -- \
        "$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls" $case >out || true
    [ "$(grep -cFx "ok $case" out)" -eq 4 ] || fail "$case: $(cat out)"
    [ $case = threads ] || contains out "differ from run 1: 0 of 1 runs as they are, 0 of 2 under stress"
done
