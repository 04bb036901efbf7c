"""PyTorch on the software device, as far as it needs no kernel of its own; run by torch_device.sh.

Everything here was listed in advance as what an unchanged PyTorch must be able to do: torch's own
kernels come as machine code only and must fail with the documented error, not with a wrong result.
"""
import torch


def same(a, b):
    assert torch.equal(a, b), (a, b)


def devices():
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    assert torch.cuda.get_device_capability(0) == (8, 0)
    p = torch.cuda.get_device_properties(1)
    assert p.multi_processor_count >= 68 and p.total_memory > 2**30, p
    torch.cuda.set_device(1)
    assert torch.cuda.current_device() == 1
    torch.cuda.set_device(0)


def copies():
    x = torch.arange(600, dtype=torch.float32).reshape(20, 30)
    y = x.to("cuda")
    same(y.clone().cpu(), x)
    same(y.t().cpu(), x.t())
    same(y.to("cuda:1").cpu(), x)
    assert y[3, 4].item() == x[3, 4].item()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned()
    z = torch.empty_like(y)
    z.copy_(pinned, non_blocking=True)
    torch.cuda.synchronize()
    same(z.cpu(), x)
    same(torch.zeros(1000, dtype=torch.int16, device="cuda").cpu(), torch.zeros(1000, dtype=torch.int16))


def streams():
    x = torch.arange(1 << 16)
    y = x.cuda()
    s = torch.cuda.Stream()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(s):
        s.wait_stream(torch.cuda.default_stream())
        start.record()
        z = y.clone()
        end.record()
    torch.cuda.current_stream().wait_event(end)
    z.record_stream(torch.cuda.current_stream())
    same(z.cpu(), x)
    assert end.query() and start.elapsed_time(end) >= 0


def memory():
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 1 << 20
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == torch.cuda.memory_allocated()
    free, total = torch.cuda.mem_get_info()
    assert 0 < free < total
    del x
    torch.cuda.empty_cache()
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        raise AssertionError("2^50 bytes were allocated")
    except torch.OutOfMemoryError:
        pass


def graphs():
    source, target = torch.arange(100).cuda(), torch.zeros(100, dtype=torch.int64, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        target.copy_(source)
    same(target.cpu(), torch.zeros(100, dtype=torch.int64))
    g.replay()
    torch.cuda.synchronize()
    same(target.cpu(), torch.arange(100))


def own_kernels():
    x = torch.zeros(4, device="cuda")
    for _ in range(2):
        try:
            x + 1
            raise AssertionError("a kernel without PTX ran")
        except RuntimeError as e:
            assert "no kernel image is available" in str(e), e
    same(x.cpu(), torch.zeros(4))  # the device goes on


for test in devices, copies, streams, memory, graphs, own_kernels:
    test()
    print(test.__name__, "ok")
