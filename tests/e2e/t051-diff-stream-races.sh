# two streams use one buffer: diff names the race where nothing orders them, and no race where anything does
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_streams
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"

record() { # record SEED TRACE OPTIONS... -- CASE - standard output in ./out
    local seed=$1 trace=$2
    shift 2
    expect 0 env SOFTGPU_SEED="$seed" "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@"
}

compare() { # compare CASE OPTIONS... - the report of two runs that differ in ./out
    local case=$1 seed
    shift
    record 1 a.twinbit "$@" -- "$TOOL" "$case"
    mv out first
    for seed in 2 3 4 5 6 7 8 9 10 11 12; do
        record $seed b.twinbit "$@" -- "$TOOL" "$case"
        cmp -s first out || break
    done
    ! cmp -s first out || fail "$case: all seeds give the same result"
    expect 1 "$TWINBIT" diff a.twinbit b.twinbit
}

# nothing orders them: no event, one that is not waited for or came too early, the wrong stream waited for, a launch
# in the legacy stream beside streams that do not heed it, a copy that nobody waits for, a writer behind the reader
for case in none unwaited early wrong nonblocking pinned; do
    compare $case
    contains out "cause       race between streams 1 and 2: fill#0 and take#0 are not ordered"
    contains out "fill#0 (stream 1) writes bytes 0..2048 of 'arg+0', which take#0 (stream 2) reads"
    contains out "an event recorded in stream 1 behind fill#0, and waited for in stream 2 before take#0"
    contains out "next        SOFTGPU_SEED='1' ${TWINBIT%/*}/softgpu run --strict report -- $TOOL $case"
done
compare callback
contains out "cause       race between streams 1 and 2"
contains out "but the program queues host functions, which may order them unseen"
compare reader
contains out "cause       race between streams 2 and 1: take#0 and fill#0 are not ordered"
compare copy
contains out "cause       race between streams 1 and 2: cuMemcpyHtoDAsync#0 and take#0 are not ordered"

# two devices: waiting for the one does not order what the other does, and each has a legacy stream of its own
for tap in "" "--tap cupti" "--tap cupti --enqueue deferred"; do
    [ -z "$tap" ] || [ -n "$(find "$TB_BUILD_DIR/softgpu/lib" -name 'libcupti.so*' 2>/dev/null)" ] || continue
    export SOFTGPU_DEVICES=2
    # shellcheck disable=SC2086 # none, or several words
    {
        compare device1 $tap
        contains out "cause       race between streams 1 and 3: fill#0 and take#0 are not ordered"
        compare devices $tap
        matches out "cause       race between streams 0 and [0-9]*: fill#0 and take#0 are not ordered"
        for case in device0 devices0; do
            compare $case $tap
            contains out "cause       unexplained"
            lacks out "race"
        done
    }
    "$TWINBIT" show a.twinbit tensors >rows
    matches rows "device:1 .*/cuCtxSynchronize#[0-9]* device"
    for case in device0 device1; do
        # shellcheck disable=SC2086
        record 1 $case.twinbit $tap --inputs -- "$TOOL" $case
        "$TWINBIT" show $case.twinbit coverage >$case.rows
    done
    contains device1.rows "memory was used by streams at once: fingerprints of it may be torn"
    lacks device0.rows "at once"
    unset SOFTGPU_DEVICES
done

# the next command tells more: the device itself names the race
expect 0 "${TWINBIT%/*}/softgpu" run --strict report -- "$TOOL" none
contains err "stream-race"

# something does, and the order of blocks is another cause
for case in same event hostevent poll pollstream stream context legacy free pageable; do
    compare $case
    contains out "cause       unexplained"
    lacks out "race"
done

# with the reads hashed: what the race did is no unseen writer, and the rows say why fingerprints are missing
for case in none reader; do
    compare $case --inputs
    contains out "cause       race between streams"
    lacks out "nobody seen"
    lacks out "unseen writer"
    for t in a b; do
        "$TWINBIT" show $t.twinbit coverage >rows
        lacks rows "unseen writer"
    done
done
contains out "memory was used by streams at once: fingerprints of it may be torn"
for case in event poll; do
    compare $case --inputs
    lacks out "race"
    lacks out "at once"
done

# by CUPTI the same
if [ -f "$TB_BUILD_DIR/softgpu/lib/libcupti.so" ] || ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so.* >/dev/null 2>&1; then
    compare none --tap cupti
    contains out "cause       race between streams 1 and 2"
    compare poll --tap cupti
    lacks out "race"
fi

# and as JSON
expect 1 "$TWINBIT" diff --json a.twinbit b.twinbit
contains out '"race": null'
compare none
expect 1 "$TWINBIT" diff --json a.twinbit b.twinbit
contains out '"cause": "stream_race"'
matches out '"race": \{"likely": true, "run": "a", "event_reads": true, "event_stream": 2, "writer_stream": 1'
if command -v python3 >/dev/null; then
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$TB_SOURCE_DIR/tests/diff" python3 -c "
import check_schema, json, sys
schema, report = (json.load(open(f)) for f in sys.argv[1:])
found = check_schema.errors(report, schema, schema)
sys.exit('\n'.join(map(str, found)) if found else 0)
" "$TB_SOURCE_DIR/docs/diff-report.schema.json" out || fail "the schema"
fi
