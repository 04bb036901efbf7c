"""Trains a model with tinygrad on CUDA and on its CPU back end from the same bits, and compares.

usage: tinygrad_train.py gpt|conv|tiny [STEPS [DEVICES]]    with DEV=CUDA:PTX or DEV=CUDA:CUDA (NVRTC)

Checked: the loss falls; every loss and, at the end, every parameter is the CPU's within TOLERANCE; the steps
were captured into CUDA graphs; with DEVICES of 2 each holds half a batch and the gradients are summed across.

The results are not the same bits: both add up products in float32, but tinygrad cuts sums into other pieces for a
GPU (32 lanes and shared memory) than for a CPU, and renders exp2, log2 and sqrt as the device's own instructions,
which are good to 2 ULP there. A step carries such differences of 1e-7 into all parameters; AdamW divides by the
root of a gradient's square, which makes little ones as large as big ones where a gradient is nearly zero.

With two devices SOFTGPU_ORDER=index is needed: tinygrad 0.14 does not order what it leaves to the NULL streams of
two contexts. A copy between devices waits for nothing on the device it writes to, where kernels may still read
what was in that buffer before, and a graph is launched on one stream while inputs are copied on the other's.
Under a seed such a copy may come first, and the loss is another. As submitted, they come as on a GPU that is fast.
"""
import os
import sys

from tinygrad import Device, Tensor, nn
from tinygrad.runtime.graph import cuda as cuda_graph

import tinygrad_models as models

TOLERANCE = {"loss": 1e-5, "parameter": 5e-4}  # of max(1, |value|)


def adamw(parameters):
    return nn.optim.AdamW(parameters, lr=3e-3)


def sgd(parameters):
    return nn.optim.SGD(parameters, lr=0.02, momentum=0.9)


MODELS = {  # model, its size, batch, optimizer
    "gpt": (models.GPT, {}, 4, adamw),
    "tiny": (models.GPT, {"context": 16, "width": 32, "layers": 1}, 2, adamw),
    "conv": (models.ConvNet, {}, 16, sgd),
}


def batches(kind, config, batch, steps, place):
    """@steps batches of two or three tensors, put on the device by place()."""
    length = config.get("context", 32)
    for i in range(steps):
        if kind == "conv":
            images, labels = models.pictures(100 + i % 2, batch)
            yield tuple(place(Tensor(x, device="CPU")) for x in (images, labels))
        else:
            tokens, targets = models.text(100 + i % 3, batch, length, 32)
            places = [list(range(length))] * batch
            yield tuple(place(Tensor(x, device="CPU")) for x in (tokens, places, targets))


def train(kind, steps, device):
    """Losses, and the parameters afterwards as lists of numbers."""
    make, config, batch, optimize = MODELS[kind]
    model = models.fill(make(**config), 1, device)
    step = models.trainer(model, optimize(nn.state.get_parameters(model)))

    def place(x):
        return (x.shard(device, 0) if isinstance(device, tuple) else x.to(device)).realize()

    losses = [step(*b).item() for b in batches(kind, config, batch, steps, place)]
    state = {n: p.to("CPU").flatten().tolist() for n, p in nn.state.get_state_dict(model).items()}
    return losses, state


def furthest(ours, theirs):
    """The largest difference of two lists of numbers, of max(1, |value|)."""
    assert len(ours) == len(theirs)
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(ours, theirs))


def count_launches():
    """How often a CUDA graph is launched from now on: a list of one number."""
    count = [0]
    call = cuda_graph.CUDAGraph.__call__

    def counted(self, *args, **kw):
        count[0] += 1
        return call(self, *args, **kw)
    cuda_graph.CUDAGraph.__call__ = counted
    return count


def why_not():
    """Why nothing can be tested here, or None; the code generator is the one that DEV names."""
    want = {"CUDA:PTX": "PTXRenderer", "CUDA:CUDA": "CUDARenderer"}[os.environ["DEV"]]
    try:
        renderer = type(Device["CUDA"].renderer).__name__
    except RuntimeError as e:
        if want != "CUDARenderer":
            raise
        return f"skipped: tinygrad finds no NVRTC: {str(e).splitlines()[0]}"
    assert renderer == want, renderer
    return None


def main(kind, steps=6, devices=1):
    steps, devices = int(steps), int(devices)
    reason = why_not()
    if reason:
        print(reason)
        return 77
    launches = count_launches()
    on_gpu, gpu_state = train(kind, steps, "CUDA" if devices == 1 else
                              tuple(f"CUDA:{i}" for i in range(devices)))
    on_cpu, cpu_state = train(kind, steps, "CPU")
    loss_error = furthest(on_gpu, on_cpu)
    name, error = max(((n, furthest(gpu_state[n], cpu_state[n])) for n in cpu_state), key=lambda x: x[1])
    print(f"{kind} {os.environ['DEV']} x{devices}: loss {on_gpu[0]:.4f} -> {on_gpu[-1]:.4f}, "
          f"{launches[0]} graph launches; furthest from the CPU: loss {loss_error:.1e}, "
          f"parameter {error:.1e} ({name})")
    assert on_gpu[-1] < 0.8 * on_gpu[0], on_gpu
    assert loss_error < TOLERANCE["loss"], (on_gpu, on_cpu)
    assert error < TOLERANCE["parameter"], name
    assert launches[0] >= steps - 2, "no CUDA graphs"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
