# what the host writes to a __managed__ variable, or to managed memory that a copy takes from, is input data: neither the
# kernel's fault nor the copy's, with --inputs or without; equal runs are identical
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_managed
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
taps=shim
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then taps="shim cupti"; fi
unset SOFTGPU_SEED SOFTGPU_STRICT

kind=
record() { # record TRACE CASE VALUE OPTIONS...
    local trace=$1 case=$2 value=$3
    shift 3
    expect 0 "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@" -- "$TOOL" "$kind" "$case" "$value"
}

for tap in $taps; do
    for inputs in "" --inputs; do
        for case in "variable variable#0 shared" "copy cuMemcpyDtoD#0 weights"; do
            kind=managed
            if [ "${case% *}" = "variable variable#0" ]; then kind=device; fi # no other memory is of both there
            # shellcheck disable=SC2086 # several words
            set -- $case
            # shellcheck disable=SC2086 # none or one
            for run in "a 1" "b 2" "c 1"; do record "${run% *}.twinbit" "$1" "${run#* }" --tap "$tap" $inputs; done
            expect 1 "$TWINBIT" diff a.twinbit b.twinbit
            contains out "DIVERGED  1 root, first: step 0, forward:, $2, $3"
            contains out "cause       input data"
            contains out "event       0/cuda_managed/main/0/forward:/$2"
            expect 0 "$TWINBIT" diff a.twinbit c.twinbit
            contains out "IDENTICAL"
        done
    done
done
