# what one run alone was told to leave out (--kernel, --sample, --steps) is no divergence but unknown, with what to do; what
# differs elsewhere is one as ever
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_threads
STEPS=$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
unset SOFTGPU_STRICT
export SOFTGPU_SEED=1

record() { # record TRACE OPTIONS... -- COMMAND...
    local trace=$1
    shift
    expect 0 "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@"
}

unlike() { # unlike A B - the verdict is unknown, whichever comes first
    expect 3 "$TWINBIT" diff "$1" "$2"
    lacks out "cause  "
    matches out "^UNKNOWN  .*[;:] record both (runs )?with the same $3\$"
    expect 3 "$TWINBIT" diff "$2" "$1"
    lacks out "cause  "
}

record whole -- "$TOOL" numbers 4
record other -- "$TOOL" numbers 2
for options in "--kernel !more" "--kernel nothing" "--sample 0.5" "--sample 0.5 --seed 2"; do
    name=kernel
    [ "${options#--sample}" = "$options" ] || name=sample
    # shellcheck disable=SC2086 # several words
    {
        record less $options -- "$TOOL" numbers 4
        record again $options -- "$TOOL" numbers 4
        record less_other $options -- "$TOOL" numbers 2
    }
    [ "$options" = "--kernel nothing" ] || expect 0 "$TWINBIT" diff less again
    unlike whole less --$name
    if [ "$options" != "--kernel !more" ]; then # some of that kernel, or all, may have made the difference
        expect 1 "$TWINBIT" diff less less_other
        lacks out "cause       input data"
        lacks out "unseen writer"
    fi
    for pair in "whole less_other" "less_other whole" "other less" "less less_other"; do
        expect 1 "$TWINBIT" diff ${pair% *} ${pair#* }
    done
done
record one --sample 0.5 --seed 1 -- "$TOOL" numbers 4
record two --sample 0.5 --seed 2 -- "$TOOL" numbers 4
unlike one two --seed

# what was changed by nobody that is known may be of what was left out of both runs: no unseen writer
record less --kernel nothing -- "$TOOL" numbers 4
record other --kernel nothing -- "$TOOL" numbers 2
expect 1 "$TWINBIT" diff less other
contains out "cause       unexplained"
contains out "the writer may be among what was left out; record both runs without --kernel"

# windows: states of the steps outside of them are in one trace only
record whole -- "$STEPS" states_unnamed
record window --steps 1..1 -- "$STEPS" states_unnamed
record again --steps 1..1 -- "$STEPS" states_unnamed
expect 0 "$TWINBIT" diff window again
unlike whole window --steps
