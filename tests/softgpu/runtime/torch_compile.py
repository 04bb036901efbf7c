"""Kernels that torch.compile writes (Triton, PTX) on the software device, against the CPU; run by
torch_device.sh. Reductions, softmax and layer norm bring shuffles, shared memory and barriers."""
import torch
import torch._inductor.config as inductor

inductor.compile_threads = 1
inductor.joint_graph_constant_folding = False  # else constants are made by torch's own kernels
torch.manual_seed(1)


def pointwise(a, b):
    return torch.sin(a) * b + a * 0.5


def softmax(a, b):
    return torch.softmax(a, -1) - b


def norms(a, b):
    return torch.nn.functional.layer_norm(a, a.shape[-1:]) + b.sum()


def half(a, b):
    return torch.relu(a.float() * b.float()).to(torch.bfloat16)  # one rounding, at the end


for f in pointwise, softmax, norms, half:
    kind = torch.bfloat16 if f is half else torch.float32
    a, b = torch.randn(33, 300).to(kind), torch.randn(33, 300).to(kind)
    got = torch.compile(f)(a.cuda(), b.cuda()).cpu()
    torch.testing.assert_close(got, f(a, b), rtol=1e-4, atol=1e-4)
    print(f.__name__, "ok")
