#!/bin/bash
# An unmodified training script with device="cuda": the same output as unrecorded, two recordings are
# identical, and of one planted difference the report names operator and element.
set -eu
TB_TEST=softgpu.torch_tap_train
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch_tap/lib.sh"
need_softgpu
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

cat >job.py <<'END'
import ctypes
import sys

import torch


torch.library.define("job::twice", "(Tensor x) -> Tensor")


@torch.library.impl("job::twice", "CUDA")
def twice(x):
    y = x * 2
    torch.cuda.current_stream().synchronize()
    if sys.argv[1:] == ["plant"] and step == 1:  # softgpu's memory is the process's
        element = ctypes.c_float.from_address(y.data_ptr() + (2 * 8 + 5) * 4)
        element.value += 0.5
    return y


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 4))
model.to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
side = torch.cuda.Stream()
for step in range(3):
    x = torch.ops.job.twice(torch.randn(6, 8, device="cuda"))
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.autocast("cuda", torch.bfloat16):
        y = model(x)
    torch.cuda.current_stream().wait_stream(side)
    loss = y.float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
END
expect 0 softgpu run -- "$PYTHON" job.py
cp out bare
for i in 1 2; do
    record $i.twinbit -- job.py
    diff bare out >&2 || fail "the recorded job's output (>) is not the bare one's (<)"
done
expect 0 tb diff 1.twinbit 2.twinbit
cat out
matches out '^IDENTICAL '

first=1/forward:/job::twice#0
record 3.twinbit --snapshot $first -- job.py
record 4.twinbit --snapshot $first -- job.py plant
expect 1 tb diff 3.twinbit 4.twinbit
cat out
matches out '^DIVERGED +1 root, first: step 1, forward:, job::twice#0, out$'
matches out '^  tensor +out \(written\): f32 \[6,8\] on cuda:0$'
matches out '^  elements +1 of 48 differ; first: 21 = \[2,5\]$'
record 5.twinbit --inputs -- job.py
diff bare out >&2 || fail "with --inputs the job's output (>) is not the bare one's (<)"
for i in 1 2 3 4 5; do
    expect 0 tb show $i.twinbit coverage
    lacks out 'not covered'
    lacks out 'unseen'
done
