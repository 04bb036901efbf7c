#!/bin/bash
# torch's own table of sample inputs through the CPU bodies of eager operators; needs a package that torch's test
# helpers import (requirements-clients.txt).
set -eu
TB_TEST=softgpu.torch_eager_opinfo
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
need_softgpu
clients=$("$TB_SOURCE_DIR/scripts/clients.sh" 2>why | tail -n 1) || skip "$(tail -n 1 why)"
in_folder
export OMP_NUM_THREADS=1
expect 0 softgpu run --eager -- "$clients" "$TB_SOURCE_DIR/tests/softgpu/torch/eager_opinfo.py"
cat out
