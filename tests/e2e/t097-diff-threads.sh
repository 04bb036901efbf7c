# timeout: 600
# threads of the host that write parts of one allocation at once, each through a stream of its own: runs of equal results
# are never diverged, whichever thread comes first; and where one thread's part differs, its kernel is named
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_threads
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
taps=(shim)
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then taps+=(cupti); fi

record() { # record TRACE SEED OPTIONS... -- CASE... - standard output into TRACE.out
    local trace=$1 seed=$2
    shift 2
    expect 0 env SOFTGPU_SEED="$seed" "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@"
    mv out "$trace.out"
}

# all RUNS OPTIONS... -- CASE... - each run against the first: a line "equal|other STATUS RUN" in ./seen, reports in d.RUN
all() {
    local runs=$1 run status same
    shift
    : >seen
    rm -f d.*
    record 1 1 "$@"
    for run in $(seq 2 "$runs"); do
        record "$run" "$run" "$@"
        status=0
        "$TWINBIT" diff 1 "$run" >"d.$run" || status=$?
        same=other
        if cmp -s 1.out "$run.out"; then same=equal; fi
        echo "$same $status $run" >>seen
    done
}

for tap in "${taps[@]}"; do
    for case in numbers same copies operands own queries together; do
        runs=9
        if [ $case = numbers ] || [ $case = same ]; then runs=21; fi
        all $runs --tap "$tap" -- "$TOOL" $case
        [ "$(grep -c '^equal 0 ' seen)" -eq $((runs - 1)) ] || fail "$case ($tap): $(cat seen d.*)"
    done
    all 5 --tap "$tap" --inputs -- "$TOOL" operands
    [ "$(grep -c '^equal 0 ' seen)" -eq 4 ] || fail "operands ($tap, --inputs): $(cat seen d.*)"
    # nothing leaves for the host: what was hashed of other extents in the other run may be equal or not
    all 9 --tap "$tap" -- "$TOOL" unread
    lacks seen "equal 1"

    # each thread's own graph, as a whole or node by node; where one has another number, its kernel or graph is named
    all 13 --tap "$tap" -- "$TOOL" graphs
    lacks seen "equal 1"
    record met 1 --tap "$tap" -- "$TOOL" graphs 4
    for run in 2 3 4 5 6 7; do
        record "$run" $run --tap "$tap" -- "$TOOL" graphs 2
        for base in 1 met; do
            expect 1 "$TWINBIT" diff $base "$run"
            contains out "cause       host value"
            matches out '^  event( in A)?  *0/.*/thread#[0-9]/0/forward:/(fill|graph)#0$'
        done
    done

    # kernels that two threads launch for the first time at once: what they get is read alike
    all 4 --tap "$tap" -- "$TOOL" first
    [ "$(grep -c '^equal 0 ' seen)" -eq 3 ] || fail "first ($tap): $(cat seen d.*)"
    cat d.* >reports
    lacks reports "got other arguments"

    # a number that differs in one thread; its kernel is named where it had a part of its own by then in both runs
    record free 1 --tap "$tap" -- "$TOOL" numbers
    record met 1 --tap "$tap" -- "$TOOL" numbers 4
    for run in 2 3 4 5 6 7; do
        record "$run" $run --tap "$tap" -- "$TOOL" numbers 2
        expect 1 "$TWINBIT" diff free "$run"
        expect 1 "$TWINBIT" diff met "$run"
        contains out "cause       host value"
        matches out '^  event( in A)?  *0/.*/thread#[0-9]/0/forward:/fill#7$'
    done

    # floats that one thread adds by atomics
    for way in sum "sum 4"; do
        # shellcheck disable=SC2086 # several words
        all 7 --tap "$tap" -- "$TOOL" $way
        lacks seen "equal 1"
        grep -q '^other' seen || fail "$way ($tap): all seeds give the same result"
        while read -r what status run; do
            [ "$what" = other ] || continue
            [ "$status" = 1 ] || fail "$way ($tap): $(cat "d.$run")"
            [ "$way" = sum ] && continue
            contains "d.$run" "cause       accumulation order"
            matches "d.$run" '^  event( in A)?  *0/.*/thread#[0-9]/0/forward:/sum#0$'
        done <seen
    done
done
