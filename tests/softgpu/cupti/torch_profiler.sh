#!/bin/bash
# Profilers as they are in unchanged wheels, on the software device, under `softgpu run`: torch.profiler with
# torch_profiler.py, or with an argument Triton's Proton with proton.py.
#
# usage: TB_SOURCE_DIR=... TB_BUILD_DIR=... torch_profiler.sh [proton]
set -eu
TB_TEST=softgpu.cupti_${1:-torch}
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

profiled() {
    env TRITON_CACHE_DIR="$folder/triton" TRITON_DEFAULT_FP_FUSION=1 "$TB_BUILD_DIR/bin/softgpu" run -- \
        "$PYTHON" "$TB_SOURCE_DIR/tests/softgpu/cupti/$1"
}

if [ "${1:-}" = proton ]; then
    need_module triton.profiler
    expect 0 profiled proton.py
    contains out "scopes ok"
    contains out "graph ok"
    exit 0
fi
expect 0 profiled torch_profiler.py
contains out "copies ok"
contains out "sync ok"
contains out "step ok"
contains out "schedule ok"
contains out "loss ok"
if grep -iE 'warn|error|cupti' err; then
    fail "the profiler complained"
fi
