"""What the tap and the real recorder make of CUDA tensors: real.py; real_check.py looks at the trace."""
import threading

import torch
from values import values

torch.manual_seed(0)
for device in ("cpu", "cuda"):
    with torch.profiler.record_function("values on " + device):
        values(device)

with torch.profiler.record_function("streams"):  # one value wherever it was computed
    x = torch.full((3000,), 1.5, device="cuda")
    streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream(priority=-1)]
    torch.cuda.synchronize()
    for s in streams:
        with torch.cuda.stream(s):
            y = x * 2
            y.record_stream(s)
    torch.cuda.synchronize()
    threads = [threading.Thread(target=lambda: x * 2) for _ in range(2)]
    for t in threads:
        t.start()
        t.join()

with torch.profiler.record_function("second"):
    y = x.to("cuda:1")
    assert y.device.index == 1 and (y * 2).sum().item() == 9000.0
    with torch.cuda.device(1):
        (y * 2).to("cuda:0")

with torch.profiler.record_function("pinned"):
    host = torch.empty(3000, pin_memory=True)
    host.copy_(x, non_blocking=True)
    torch.cuda.synchronize()
    assert host.sum().item() == 4500.0

with torch.profiler.record_function("graph"):
    a, b = torch.zeros(16, device="cuda"), torch.ones(16, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        a.copy_(b)
    b.fill_(5)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert a.tolist() == [5.0] * 16
print("ok")
