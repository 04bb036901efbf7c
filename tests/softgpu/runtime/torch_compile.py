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
    return torch.relu(a.to(torch.bfloat16).float() * b.to(torch.bfloat16).float())


a, b = torch.randn(33, 300), torch.randn(33, 300)
on_device = a.cuda(), b.cuda()
for f in pointwise, softmax, norms, half:
    got = torch.compile(f)(*on_device).cpu()
    torch.testing.assert_close(got, f(a, b), rtol=1e-4, atol=1e-4)
    print(f.__name__, "ok")
