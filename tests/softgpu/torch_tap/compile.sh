#!/bin/bash
# A compiled training step: what the compiler and its tuners run is not recorded, so that a run that compiles
# and one that finds all of it in the caches are identical. Then the same with CUDA graphs.
set -eu
TB_TEST=softgpu.torch_tap_compile
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch_tap/lib.sh"
need_softgpu
need_module triton
need_program gcc # Triton compiles its launchers
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
export TORCHINDUCTOR_CACHE_DIR=$PWD/inductor TRITON_CACHE_DIR=$PWD/triton

cat >job.py <<'END'
import sys

import torch
import torch._inductor.config as inductor
from torch import nn

inductor.compile_threads = 1
if sys.argv[1:]:  # cuBLAS cannot run, and eager operators not in a capture: products by Triton, one variant of each
    inductor.max_autotune_gemm = True
    inductor.max_autotune_gemm_backends = "TRITON"
    inductor.test_configs.max_mm_configs = 1

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 16)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
torch.compiler.reset()
compiled = torch.compile(model, **({"mode": sys.argv[1]} if sys.argv[1:] else {}))
for step in range(4):
    x = torch.randn(16, 32, device="cuda")
    loss = compiled(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
END
record cold.twinbit -- job.py
cp out losses
record warm.twinbit -- job.py
diff losses out >&2 || fail "the losses differ"
expect 0 tb diff cold.twinbit warm.twinbit
cat out
expect 0 tb show warm.twinbit events
matches out '/forward:OptimizedModule/triton_[a-z_0-9]*gelu[a-z_0-9]*#0 '
lacks out 'prims::'
expect 0 tb show warm.twinbit coverage
lacks out 'not covered'

record graphs1.twinbit -- job.py reduce-overhead
record graphs2.twinbit -- job.py reduce-overhead
expect 0 tb show graphs2.twinbit coverage
grep -v eager: out
matches out 'graph: CUDAGraph.replay: '
rc=0
tb diff graphs1.twinbit graphs2.twinbit >out 2>err || rc=$?
cat out
[ "$rc" -eq 0 ] || [ "$rc" -eq 3 ] || fail "graphs: status $rc"
