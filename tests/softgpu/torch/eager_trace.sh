#!/bin/bash
# Eager operators with CPU bodies, recorded: the trace says so, has what they computed, and two runs agree.
set -eu
TB_TEST=softgpu.torch_eager_trace
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
need_softgpu
in_folder
TWINBIT=$TB_BUILD_DIR/bin/twinbit
cat >job.py <<'EOF'
import torch

torch.manual_seed(0)
layer = torch.nn.Linear(4, 3).to("cuda")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    loss = layer(torch.randn(5, 4, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
EOF
export SOFTGPU_EAGER=1 OMP_NUM_THREADS=1
for i in 1 2; do
    expect 0 tb run --device softgpu -o $i.twinbit -- "$PYTHON" job.py
done
expect 0 tb show 1.twinbit coverage
for op in addmm mm normal_ mean.dim; do
    matches out "note +2x eager: aten::$op: executed on the CPU by twinbit.eager"
done
expect 0 tb show --op addmm 1.twinbit events
matches out '^ +[0-9]+ [0-9a-f]{32} .*/forward:Linear/aten::addmm#0$'
expect 0 tb diff 1.twinbit 2.twinbit
matches out '^IDENTICAL +[0-9]+ events are equal'
cat out
