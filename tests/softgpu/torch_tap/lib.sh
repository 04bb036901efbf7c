# What the tests of the torch tap on CUDA tensors share; read in after tests/softgpu/torch/lib.sh.

export SOFTGPU_EAGER=1 OMP_NUM_THREADS=1
TESTS=$TB_SOURCE_DIR/tests/softgpu/torch_tap
TWINBIT=$TB_BUILD_DIR/bin/twinbit

# record TRACE [OPTIONS of twinbit run] -- SCRIPT [ARGUMENTS] - SCRIPT finds the modules of the tests
record() {
    local trace=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    PYTHONPATH=$TESTS expect 0 tb run --device softgpu --quiet "${options[@]+"${options[@]}"}" -o "$trace" -- "$PYTHON" "${@:2}"
}
