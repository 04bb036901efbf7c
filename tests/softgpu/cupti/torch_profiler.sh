#!/bin/bash
# torch.profiler of an unchanged PyTorch on the software device: torch_profiler.py, under `softgpu run`.
#
# usage: TB_SOURCE_DIR=... TB_BUILD_DIR=... torch_profiler.sh
set -eu
TB_TEST=softgpu.cupti_torch
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
[ -e "$lib/libcupti.so.13" ] || skip "built with headers of another CUDA, or without CUPTI's"
need_module triton
need_program gcc # Triton compiles its launcher

expect 0 env TRITON_CACHE_DIR="$folder/triton" TRITON_DEFAULT_FP_FUSION=1 "$TB_BUILD_DIR/bin/softgpu" run -- \
    "$PYTHON" "$TB_SOURCE_DIR/tests/softgpu/cupti/torch_profiler.py"
contains out "copies ok"
contains out "step ok"
contains out "schedule ok"
contains out "loss ok"
if grep -iE 'warn|error|cupti' err; then
    fail "the profiler complained"
fi
