"""What Triton's kernels are called, compiled by hand, tuned, and by Inductor; and what else runs meanwhile."""
import fake
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o + i, tl.load(x + i, m) + tl.load(y + i, m), m)


@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 512})], key=["n"])
@triton.jit
def triple_kernel(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o + i, tl.load(x + i, m) * 3, m)


x = torch.ones(1000, device="cuda")
o = torch.empty_like(x)
add_kernel[(4,)](x, x, o, 1000, BLOCK=256)
assert fake.name().startswith("triton:add_kernel BLOCK=256 num_warps="), fake.name()
named = fake.get("names")
add_kernel[(4,)](x, x, o, 1000, BLOCK=256)
assert fake.get("names") == named  # once, when it is loaded
assert o.sum().item() == 2000.0
print("by hand ok")

begins = fake.get("begins")
triple_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, o, 1000)
assert fake.name().startswith("triton:triple_kernel BLOCK="), fake.name()
assert fake.get("begins") >= begins + 2  # two candidates were timed, as the inside of something
assert fake.get("depth") == 0
assert o.sum().item() == 3000.0
print("tuned ok")

f = torch.compile(lambda x: (x * 2 + 1).relu())
assert f(x).sum().item() == 3000.0
assert fake.name().startswith("triton:triton_poi_fused_"), fake.name()
assert "XBLOCK=" in fake.name(), fake.name()
assert fake.get("depth") == 0
print("inductor ok")

torch._dynamo.reset()  # takes everybody's callbacks away: what a compiler runs must still not be recorded
g = torch.compile(lambda x: torch.nn.functional.layer_norm(x, (1000,)))
assert g(x).isfinite().all().item()
assert fake.get("depth") == 0
print("reset ok")
