"""PyTorch on the software device beyond torch_device.py: allocator, streams, events, pinned memory, graphs,
Triton kernels as operators with derivatives. No kernel of torch's own is needed."""
import gc
import os
import time

import torch
import triton
import triton.language as tl


def same(a, b):
    assert torch.equal(a.cpu(), b.cpu()), (a, b)


def allocator():
    start = torch.cuda.memory_allocated()
    blocks = [torch.empty(n, dtype=torch.uint8, device="cuda") for n in (1000, 1 << 20, 30 << 20)]
    # blocks are multiples of 512 bytes
    assert torch.cuda.memory_allocated() - start == 1024 + (1 << 20) + (30 << 20)
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    peak = torch.cuda.max_memory_allocated()
    address = blocks[2].data_ptr()
    del blocks[2]
    again = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    assert again.data_ptr() == address  # a freed block is taken again
    text = torch.cuda.memory_summary()
    assert "PyTorch CUDA memory summary, device ID 0" in text and "cudaMalloc retries: 0" in text
    del blocks, again
    gc.collect()
    free = torch.cuda.mem_get_info()[0]
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] >= free + (30 << 20)
    assert torch.cuda.memory_allocated() == start and torch.cuda.max_memory_allocated() == peak
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == start
    torch.cuda.set_per_process_memory_fraction(0.01)
    try:
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        raise AssertionError("more than the fraction was allocated")
    except torch.OutOfMemoryError as e:
        assert "memory fraction" in str(e) or "allowed" in str(e), e
    torch.cuda.set_per_process_memory_fraction(1.0)
    snapshot = torch.cuda.memory_snapshot()
    assert all(s["address"] and s["total_size"] for s in snapshot)


def expandable_segments():
    """Run in a process of its own: addresses are reserved, and memory is put behind them as it grows."""
    assert "expandable_segments:True" in os.environ["PYTORCH_CUDA_ALLOC_CONF"]
    first = torch.zeros(25 << 20, dtype=torch.uint8, device="cuda")
    second = torch.zeros(25 << 20, dtype=torch.uint8, device="cuda")
    assert any(s["is_expandable"] for s in torch.cuda.memory_snapshot())
    first.copy_(torch.full((25 << 20,), 7, dtype=torch.uint8))
    same(first[-5:], torch.full((5,), 7, dtype=torch.uint8))
    same(second[:5], torch.zeros(5, dtype=torch.uint8))
    reserved = torch.cuda.memory_reserved()
    del first, second
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved


@triton.jit
def add_in_place(x, n, value, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) + value, at < n)


def add(x, value):
    add_in_place[(triton.cdiv(x.numel(), 256),)](x, x.numel(), value, BLOCK=256)


def streams():
    low, high = torch.cuda.Stream.priority_range() if hasattr(torch.cuda.Stream, "priority_range") else (0, -1)
    side, urgent = torch.cuda.Stream(), torch.cuda.Stream(priority=min(low, high))
    x = torch.zeros(5000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    for _ in range(5):
        with torch.cuda.stream(side):
            add(x, 1.0)
            done = side.record_event()
        with torch.cuda.stream(urgent):
            urgent.wait_event(done)
            add(x, 10.0)
            side.wait_stream(urgent)
    torch.cuda.current_stream().wait_stream(side)
    x.record_stream(side)
    same(x, torch.full((5000,), 55.0))
    assert side.query() and side != urgent and torch.cuda.current_stream() == torch.cuda.default_stream()
    outside = torch.cuda.ExternalStream(side.cuda_stream)
    with torch.cuda.stream(outside):
        add(x, 1.0)
    outside.synchronize()
    assert x[0].item() == 56.0


def events():
    x = torch.zeros(1 << 15, device="cuda")
    add(x, 0.0)  # compiles
    start, middle, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    begun = time.perf_counter()
    start.record()
    add(x, 1.0)
    middle.record()
    for _ in range(20):
        add(x, 1.0)
    end.record()
    end.synchronize()
    wall = (time.perf_counter() - begun) * 1000
    assert start.query() and 0 < start.elapsed_time(middle) <= start.elapsed_time(end) <= wall + 1, wall
    try:
        torch.cuda.Event().elapsed_time(end)
        raise AssertionError("an event without timing gave a time")
    except (RuntimeError, ValueError):
        pass


def pinned():
    source = torch.arange(1 << 18, dtype=torch.int32).pin_memory()
    target = torch.empty(1 << 18, dtype=torch.int32, pin_memory=True)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        there = source.to("cuda", non_blocking=True)
        target.copy_(there, non_blocking=True)
    side.synchronize()
    same(target, source)
    loader = torch.utils.data.DataLoader(torch.arange(10.0), batch_size=4, pin_memory=True)
    batches = list(loader)
    assert all(b.is_pinned() for b in batches)
    same(torch.cat([b.to("cuda", non_blocking=True).cpu() for b in batches]), torch.arange(10.0))
    same(source.view(512, 512)[3].to("cuda", non_blocking=True), source.view(512, 512)[3])


def graphs():
    x, seen = torch.zeros(300, device="cuda"), torch.zeros(300, device="cuda")
    add(x, 0.0)
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    side = torch.cuda.Stream()
    with torch.cuda.graph(graph, pool=pool):
        add(x, 1.0)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # a fork, joined before the end
            add(seen, 2.0)
        own = torch.empty(300, device="cuda")  # lives in the graph's pool
        own.copy_(x)
        torch.cuda.current_stream().wait_stream(side)
    same(x, torch.zeros(300))
    for n in range(1, 4):
        graph.replay()
        same(own, torch.full((300,), float(n)))
    same(seen, torch.full((300,), 6.0))
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=pool):
        add(own, 100.0)
    second.replay()
    same(own, torch.full((300,), 103.0))
    graph.reset()
    broken = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(broken):
            torch.cuda.synchronize()
        raise AssertionError("a capture survived a synchronization")
    except RuntimeError as e:
        assert "captur" in str(e), e
    add(x, 1.0)
    same(x, torch.full((300,), 4.0))


@triton.jit
def swish_forward(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, at < n)
    tl.store(out + at, v * tl.sigmoid(v), at < n)


@triton.jit
def swish_backward(x, grad, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, at < n)
    s = tl.sigmoid(v)
    tl.store(out + at, tl.load(grad + at, at < n) * (s + v * s * (1 - s)), at < n)


@torch.library.triton_op("softgpu_test::swish", mutates_args={})
def swish(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(swish_forward)[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out


@torch.library.custom_op("softgpu_test::swish_grad", mutates_args={})
def swish_grad(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    swish_backward[(triton.cdiv(x.numel(), 128),)](x, grad, out, x.numel(), BLOCK=128)
    return out


@swish_grad.register_fake
def _(x, grad):
    return torch.empty_like(x)


swish.register_autograd(
    lambda ctx, grad: swish_grad(ctx.saved_tensors[0], grad.contiguous()),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


def operators():
    x = torch.randn(500)
    a, b = x.cuda().requires_grad_(), x.clone().requires_grad_()
    up = torch.randn(500)
    out, want = swish(a), torch.nn.functional.silu(b)
    out.backward(up.cuda())
    want.backward(up)
    torch.testing.assert_close(out.detach().cpu(), want.detach(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-6, atol=1e-6)
    compiled = torch.compile(lambda t: swish(t * 2.0) + 1.0, fullgraph=True)
    torch.testing.assert_close(compiled(x.cuda()).cpu(), torch.nn.functional.silu(x * 2) + 1, rtol=1e-6, atol=1e-6)


TESTS = allocator, streams, events, pinned, graphs, operators
if "expandable_segments" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""):
    TESTS = expandable_segments, streams, graphs
torch.manual_seed(5)
for test in TESTS:
    test()
    print(test.__name__, "ok", flush=True)
