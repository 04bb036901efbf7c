#!/bin/bash
# A suite of PyTorch or Triton on the software device, recorded in each way: what ../cuda/recorded.py checks.
#
# usage: TB_SOURCE_DIR=... TB_BUILD_DIR=... recorded.sh NAME [OPTIONS of recorded.py] -- SCRIPT [ARGUMENT...]
# 77: there is no torch for the software device here; the reason is printed
set -eu
TB_TEST=recorder.torch_$1
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
need_softgpu
need_module triton
need_program gcc # Triton compiles its launchers
name=$1
shift
options=()
while [ "$1" != -- ]; do
    options+=("$1")
    shift
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# All that are compared find the same in the compilers' caches. A sum depends on the number of threads.
export TRITON_CACHE_DIR=$folder/triton TORCHINDUCTOR_CACHE_DIR=$folder/inductor TRITON_CACHE_AUTOTUNING=1
export OMP_NUM_THREADS=1 SOFTGPU_EAGER=1
expect 0 softgpu run -- "$PYTHON" "$TB_SOURCE_DIR/tests/softgpu/torch/$2" "${@:3}"
python3 "$TB_SOURCE_DIR/tests/recorder/cuda/recorded.py" "$TB_BUILD_DIR" "$folder/traces" \
    "$TB_SOURCE_DIR/tests/recorder/torch/expected.txt" --ways torch "${options[@]+"${options[@]}"}" "$name" \
    -- "$PYTHON" "$TB_SOURCE_DIR/tests/softgpu/torch/$2" "${@:3}"
