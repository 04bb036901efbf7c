"""Operators and a Triton kernel take turns in the same memory: mixed.py."""
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o + i, tl.load(x + i, m) * 2, m)


class Double(torch.nn.Module):
    def forward(self, x):
        o = torch.empty_like(x)
        double_kernel[(4,)](x, o, x.numel(), BLOCK=256)
        return o


model = torch.nn.Sequential(Double(), torch.nn.ReLU())
x = torch.ones(1000, device="cuda")
host = [torch.ones(1000) for _ in range(8)]  # the host's storages are numbered, too
for _ in range(3):
    x = model(x)
    host = [h + 1 for h in host]
assert x.sum().item() == 8000.0
print("ok")
