#!/bin/bash
# An unchanged PyTorch on the software device: torch_device.py, or with an argument torch_compile.py, with the
# runtime and the driver in the place of NVIDIA's. torch's libraries have an RPATH to NVIDIA's runtime, so
# ours is preloaded.
#
# usage: TB_SOURCE_DIR=... TB_BUILD_DIR=... torch_device.sh [compile]
set -eu
TB_TEST=softgpu.runtime_torch
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
lib=$TB_BUILD_DIR/softgpu/lib
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

need_torch
version=$("$PYTHON" -c 'import torch; print(torch.version.cuda or "")')
case $version in
13.*) ;;
*) skip "'$PYTHON' has a torch of CUDA '$version', not 13" ;;
esac
[ -e "$lib/libcudart.so.13" ] || skip "built with headers of another CUDA"

here=$TB_SOURCE_DIR/tests/softgpu/runtime
on_softgpu() {
    env LD_PRELOAD="$lib/libsoftgpu_rt.so" LD_LIBRARY_PATH="$lib" TRITON_LIBCUDA_PATH="$lib" \
        TRITON_PTXAS_PATH="$lib/softgpu-ptxas" TRITON_CACHE_DIR="$folder/triton" \
        TORCHINDUCTOR_CACHE_DIR="$folder/inductor" SOFTGPU_DEVICES=2 "$PYTHON" "$@"
}

if [ "${1:-}" = compile ]; then
    need_module triton
    need_program gcc # Triton compiles its launcher
    expect 0 on_softgpu "$here/torch_compile.py"
    lines out 4
    exit 0
fi
expect 0 on_softgpu "$here/torch_device.py"
lines out 6
contains err "machine code only, without PTX"
matches err "kernel '_Z[A-Za-z0-9_]*' cannot run"
