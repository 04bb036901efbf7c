#!/bin/bash
# Triton's kernels have the names of their functions, with the constants they were compiled for.
set -eu
TB_TEST=softgpu.torch_tap_names
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch_tap/lib.sh"
need_softgpu
need_module triton
need_program gcc # Triton compiles its launchers
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

record names.twinbit --tap none -- "$TESTS/names.py"
cat out
lines out 4
expect 0 tb show names.twinbit events
lacks out 'prims::' # Inductor's decompositions, run while it compiles
expect 0 tb show names.twinbit coverage
matches out 'note +[1-9][0-9]*x autotune: triple_kernel: '
matches out 'note +1x compiled: torch.compile: .*launches'

# a job without Triton is not made to import it
cat >plain.py <<'END'
import sys

import torch

torch.ones(2) + 1
print([m for m in sys.modules if m.split(".")[0] == "triton" or m.startswith("torch._inductor.runtime.triton")])
END
expect 0 "$PYTHON" plain.py
cp out bare
record plain.twinbit -- plain.py
diff bare out >&2 || fail "other modules are imported under twinbit"
echo "imports ok"
