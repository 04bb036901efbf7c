"""A job that profiles itself by torch.profiler: profiled.py

Prints what the profiler's tables have, but for the recorder's own kernels, the launches of those and one question that
the tap asks: so the output must be the same with and without twinbit.
"""
import torch
import triton
import triton.language as tl
from torch.profiler import ProfilerActivity, profile, record_function

N = 1000


@triton.jit
def double_kernel(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o + i, tl.load(x + i, m) * 2, m)


def work(x):
    with record_function("work"):
        o = torch.empty_like(x)
        for _ in range(3):
            double_kernel[(4,)](x, o, N, BLOCK=256)
        o.zero_()
        double_kernel[(4,)](x, o, N, BLOCK=256)
    return o.cpu()


def table(p):
    for e in sorted(p.key_averages(), key=lambda e: (e.key, str(e.device_type))):
        if not e.key.startswith("twinbit_fp_") and e.key not in ("cuLaunchKernel", "cudaPointerGetAttributes"):
            print(e.key, e.device_type, e.count, "took" if e.device_time_total > 0 else "no", "time on the device")


def main():
    x = torch.arange(float(N)).to("cuda")
    work(x)  # compiles
    for _ in range(2):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
            work(x)
            torch.cuda.synchronize()
        table(p)
        print(work(x).sum().item())  # not profiled, but recorded


main()
