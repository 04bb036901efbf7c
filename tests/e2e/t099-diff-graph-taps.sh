# the shim sees what each node of a graph does, CUPTI the graph as a whole: traces of the two are no divergence, but
# unknown, with what to do; programs without graphs are compared whatever the tap, and so are graphs by one tap
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls
[ -x "$TOOL" ] && ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1 ||
    skip "built without softgpu's CUPTI, or with a sanitizer"
unset SOFTGPU_SEED SOFTGPU_STRICT

record() { # record TRACE CASE OPTIONS...
    local trace=$1 case=$2
    shift 2
    expect 0 "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@" -- "$TOOL" "$case"
}

for case in capture nested branch_halves branch_read branch_change; do
    for inputs in "" --inputs; do
        # shellcheck disable=SC2086 # none or one
        for tap in shim cupti; do
            record $tap.twinbit $case --tap $tap $inputs
            record same.twinbit $case --tap $tap $inputs
            expect 0 "$TWINBIT" diff $tap.twinbit same.twinbit
        done
        expect 3 "$TWINBIT" diff shim.twinbit cupti.twinbit
        matches out '^UNKNOWN  run A was recorded with --tap shim, run B with --tap cupti: .*record both with the same --tap$'
        lacks out "cause  "
        expect 3 "$TWINBIT" diff --json cupti.twinbit shim.twinbit
        contains out "run A was recorded with --tap cupti, run B with --tap shim: "
    done
done

# two numbers: what is to be done next records both by one tap, and nothing speaks of checkpoints
record shim.twinbit branch_base --tap shim
for options in "--tap cupti" "--tap cupti --enqueue deferred"; do
    # shellcheck disable=SC2086 # several words
    PITFALL_VALUE=9 record cupti.twinbit branch_base $options
    for pair in "shim cupti" "cupti shim"; do
        expect 3 "$TWINBIT" diff "${pair% *}.twinbit" "${pair#* }.twinbit"
        contains out "what wrote it was recorded in another way in each run: record both with the same --tap"
        lacks out "checkpoint"
        matches out "^  next  .*twinbit run --device softgpu --force .*; .*twinbit run --device softgpu --force .*; "
    done
done

for case in args kinds plans; do
    for tap in shim cupti; do
        record $tap.twinbit $case --tap $tap
    done
    expect 0 "$TWINBIT" diff shim.twinbit cupti.twinbit
    expect 0 "$TWINBIT" diff cupti.twinbit shim.twinbit
done
