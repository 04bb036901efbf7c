# level boundary, a CUDA program without torch: what it names with twinbit.h, else what it wrote, is hashed when a step ends
# and nothing else is an event; diff and bisect name step and tensor
# timeout: 300
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
torn="fingerprints of it may be torn"

record() { # record SEED TRACE CASE OPTIONS...
    local seed=$1 trace=$2 case=$3
    shift 3
    expect 0 env SOFTGPU_SEED="$seed" "$TWINBIT" run --device softgpu --quiet --force -o "$trace.twinbit" "$@" -- "$TOOL" $case
    contains out "ok $case"
    "$TWINBIT" show "$trace.twinbit" events >events
    "$TWINBIT" show "$trace.twinbit" coverage | grep -v '^note ' >rows || true
}

shown() { # shown TRACE - its states: step, name, type, elements
    "$TWINBIT" show "$1.twinbit" tensors |
        sed -nE 's#^s [0-9a-f]{32} ([a-z0-9]+) *(\[[0-9]+\]) .*/main/([0-9]+)/[^/]*/state\#0 (.*)$#\3 \4 \1 \2#p'
}

# names: all of them at each step, a part of memory too; no launch, copy or set is an event
for tap in shim cupti deferred; do
    options=(--tap $tap)
    [ $tap = deferred ] && options=(--tap cupti --enqueue deferred)
    record 1 named states_named --level boundary "${options[@]}"
    lines events 8
    [ ! -s rows ] || fail "$tap: not covered: $(cat rows)"
    shown named >states
    for step in 0 1 2 3; do
        for name in h.0 h.1 h.2; do echo "$step $name i32 [1024]"; done
    done | cmp - states || fail "$tap: states are others: $(cat states)"
done

# no names: what was written in the step, while it lives
record 1 unnamed states_unnamed --level boundary
shown unnamed >states
same states <<'TEXT'
0 memory 0 u8 [4096]
0 memory 1 u8 [4096]
0 memory 2 u8 [4096]
1 memory 0 u8 [4096]
1 memory 1 u8 [4096]
2 memory 0 u8 [4096]
3 memory 0 u8 [4096]
3 memory 1 u8 [4096]
TEXT
[ ! -s rows ] || fail "not covered: $(cat rows)"

# a name that goes with its memory: from the next step on it is what was written
record 1 freed states_freed --level boundary
shown freed >states
same states <<'TEXT'
0 once i32 [1024]
2 memory 0 u8 [4096]
3 memory 0 u8 [4096]
TEXT
contains rows "1x cuda: state: all memory with names was freed: what else the step wrote is not hashed"

# a value that differs in step 2, with names and without, in one stream and in two: step and tensor
for case in named:h.1 unnamed:'memory 0' streams:left; do
    record 1 a states_${case%:*} --level boundary
    PITFALL_VALUE=9 record 1 b states_${case%:*} --level boundary
    expect 1 "$TWINBIT" diff --verify a.twinbit b.twinbit
    contains out "1 root, first: step 2, forward:, state#0, ${case#*:}"
    contains out "state at a step's end"
done

# equal runs are equal, whatever the order of streams
for seed in 2 3 4 5; do
    for case in named unnamed streams; do
        record 1 a states_$case --level boundary
        record $seed b states_$case --level boundary
        [ ! -s rows ] || fail "$case is not covered: $(cat rows)"
        expect 0 "$TWINBIT" diff a.twinbit b.twinbit
    done
done

# streams that write one tensor at once; one that writes before it knows of the hash; one that is gone: never diverged
met=0
for case in halves early gone; do
    record 1 a states_$case --level boundary
    contains rows "$torn"
    for seed in 2 3 4 5; do
        record $seed b states_$case --level boundary
        status=0
        "$TWINBIT" diff a.twinbit b.twinbit >out || status=$?
        [ $status = 0 ] || [ $status = 3 ] || fail "$case, seed $seed: status $status: $(cat out)"
        [ $status = 0 ] || met=1
        [ $status = 0 ] || contains out "streams write them at once: fingerprints may hold a part of that"
    done
done
[ $met = 1 ] || fail "no seed let a fingerprint meet another stream"
# and what differs beside them is a divergence
record 1 a states_halves --level boundary
for seed in 2 3 4 5; do
    PITFALL_VALUE=9 record $seed b states_halves --level boundary
    expect 1 "$TWINBIT" diff a.twinbit b.twinbit
done

# a window of steps: states outside of it, works inside
record 1 window states_named --steps 1..2
for step in 0 3; do contains events "/main/$step/forward:/state#0"; done
for step in 1 2; do
    contains events "/main/$step/forward:/fill#0"
    lacks events "/main/$step/forward:/state#0"
done
[ "$(grep -c '/fill#' events)" -eq 6 ] || fail "works outside of the window were recorded: $(cat events)"

# more than --launch-bytes: a part of it, and the trace says so. What the host may use meanwhile: not at all
for bytes in 64K 256M; do
    record 1 part states_large --level boundary --launch-bytes $bytes
    contains rows "cuda: state: managed or mapped memory is not hashed when a step ends"
    shown part >states
    [ "$(cut -d' ' -f2 states | sort -u)" = large ] || fail "states are others: $(cat states)"
    kind=bytes
    [ $bytes = 256M ] || kind=sampled
    expect 0 "$TWINBIT" show --json part.twinbit tensors
    contains out "\"fp_kind\": \"$kind\""
done

# bisect goes from the state to the launch
expect 1 "$TWINBIT" bisect --device softgpu -- sh -c "PITFALL_VALUE=\$\$ exec '$TOOL' states_named"
contains out "step 2, forward:, fill#1, h.1"

# no step ends: nothing is recorded, and diff says what to do
record 1 stepless peek --level boundary
lines events 0
expect 3 "$TWINBIT" diff stepless.twinbit stepless.twinbit
contains out "UNKNOWN  nothing was recorded that can be compared: call twinbit_step() of twinbit.h"
contains out "at the end of each step, or record at level op"
expect 0 "$TWINBIT" run --device softgpu --force -o stepless.twinbit --level boundary -- "$TOOL" peek
matches err "trace: 'stepless.twinbit'; next: call twinbit_step\(\) of twinbit.h .* at the end of each step"
expect 0 "$TWINBIT" run --device softgpu --force -o stepless.twinbit -- "$TOOL" peek
matches err "trace: 'stepless.twinbit'; next: .* show stepless.twinbit, or record again"
