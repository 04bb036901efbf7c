# the byte budget of a launch: large buffers are hashed in part, the same part in every run
# timeout: 120
JOB=$TB_BUILD_DIR/tests/recorder/cuda/cuda_learn_job
[ -x "$JOB" ] || skip "built without softgpu, or with a sanitizer"

run() { # run TRACE SIZE LEAF
    expect 0 "$TWINBIT" run --device softgpu --force --level kernel --kernel poke --launch-bytes "$2" -o "$1" -- \
        "$JOB" large "$3"
}

run a.twinbit 1M -1
"$TWINBIT" show a.twinbit events --json >events
grep '"operator": "poke"' events | grep -oE '"mode": "w"[^}]*"fp_kind": "[a-z]*", "fp": "[0-9a-f]*"' >writes
lines writes 64
[ "$(grep -c '"fp_kind": "sampled"' writes)" -eq 64 ] || fail "not all of the writes are sampled"
expect 0 "$TWINBIT" show a.twinbit coverage
contains out "of large buffers cover some of their bytes only"

# 64 MiB for 1 MiB: one leaf of 64 is looked at, so one of 64 launches changes what is seen
grep -oE '"fp": "[0-9a-f]*"' writes >values
lines <(uniq values) 2
leaf=$(grep -vxn -m 1 -F "$(head -n 1 values)" values | cut -d : -f 1)
seen=$((leaf - 1)) # from 0
unseen=$((leaf % 64))

run b.twinbit 1M -1
expect 0 "$TWINBIT" diff a.twinbit b.twinbit
contains out "cover some of their bytes (A 65, B 65): equal ones are equal as far as they go"
run b.twinbit 1M $seen
expect 1 "$TWINBIT" diff a.twinbit b.twinbit
contains out poke
# a difference that was not looked at is not called equal without that note
run b.twinbit 1M $unseen
expect 0 "$TWINBIT" diff a.twinbit b.twinbit
contains out "equal ones are equal as far as they go"
# another budget looks at other leaves: nothing is compared, and nothing called equal
run b.twinbit 2M -1
expect 3 "$TWINBIT" diff a.twinbit b.twinbit
