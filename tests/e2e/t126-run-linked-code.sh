# a kernel that the driver links from PTX at run time, as numba's: what it writes, and which variables of its module it
# uses, is known from that PTX, and not learnt; where several parts are linked it is learnt, and a row says so
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_linked
[ -x "$TOOL" ] || skip "built without softgpu's driver or the shim, or with a sanitizer"
taps="shim"
if ls "$TB_BUILD_DIR"/softgpu/lib/libcupti.so* >/dev/null 2>&1; then taps="shim cupti"; fi

record() { # record TRACE TAP PARTS [VALUE] - standard output in ./out
    expect 0 "$TWINBIT" run --device softgpu --quiet --force --tap "$2" -o "$1" -- "$TOOL" "${@:3}"
}

for tap in $taps; do
    record one $tap 1
    contains out "0 0 0"
    expect 0 "$TWINBIT" show one sites
    lacks out "writes="
    expect 0 "$TWINBIT" show one tensors
    matches out 'kernel#0 arg\+8$'
    lacks out "kernel#0 arg+0"
    matches out '^r .*kernel#0 value$'
    expect 0 "$TWINBIT" show one coverage
    lacks out "module variables"

    record two $tap 2
    expect 0 "$TWINBIT" show two sites
    contains out "writes="
    expect 0 "$TWINBIT" show two coverage
    contains out "cuda: module variables: kernels whose code is not known"

    record other $tap 1 7
    contains out "7 7 7"
    expect 1 "$TWINBIT" diff one other
    contains out "cause       input data"
    matches out '^  event  *0/.*/forward:/cuMemcpyHtoD#0$'
done
