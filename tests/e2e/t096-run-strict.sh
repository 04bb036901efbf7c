# the software device's strict mode under run: what it finds is the program's own, and nothing of the recorder's
# processors: 2
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_streams
PITFALLS=$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
unset SOFTGPU_SEED SOFTGPU_STRICT
taps=(shim)
[ -z "$(find "$TB_BUILD_DIR/softgpu/lib" -name 'libcupti.so*' 2>/dev/null)" ] || taps+=(cupti)

alone() { # alone MODE CASE
    expect 0 "${TWINBIT%/*}/softgpu" run --strict "$1" -- "$TOOL" "$2"
}

recorded() { # recorded STATUS MODE CASE OPTIONS...
    local status=$1 mode=$2 case=$3
    shift 3
    expect "$status" env SOFTGPU_STRICT="$mode" "$TWINBIT" run --device softgpu --quiet --force -o s.twinbit "$@" -- \
        "$TOOL" "$case"
}

# streams that each write a part of one allocation race with nobody; the recorder hashes all of it beside them
for mode in report fail; do
    alone $mode halves
    lacks err stream-race
    mv out alone
    for tap in "${taps[@]}"; do
        recorded 0 $mode halves --tap "$tap"
        lacks err stream-race
        cmp out alone || fail "$mode, $tap: the program gave something else"
    done
done

# a race of the program's own stays a finding
alone report none
contains err "stream-race: "
for tap in "${taps[@]}"; do
    recorded 0 report none --tap "$tap"
    contains err "stream-race: "
    lacks err twinbit_fp
    recorded 1 fail none --tap "$tap"
done

# what a program leaves behind when it ends is all that is told, though hashes of its last step may still be queued then
leaks() { # leaks FILE - what was never freed or destroyed, without the numbers of calls
    sed -n -e 's/, first in call [0-9]*//' -e '/leak/p' "$1" | sort
}
expect 0 "${TWINBIT%/*}/softgpu" run --strict report -- "$PITFALLS" states_last
leaks err >alone
grep -q "1 allocations of device memory" alone || fail "nothing leaks: $(cat err)"
for tap in "${taps[@]}"; do
    for level in boundary op; do
        expect 0 env SOFTGPU_STRICT=report "$TWINBIT" run --device softgpu --quiet --force --tap "$tap" --level $level \
            -o s.twinbit -- "$PITFALLS" states_last
        leaks err | diff alone - >&2 || fail "$tap, $level: other leaks than the program's own"
    done
    "$TWINBIT" show s.twinbit coverage >rows
    lacks rows error
done
