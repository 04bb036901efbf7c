"""What the torch tap asks of the CUDA recorder: asks.py [PART...]. Each part prints a line when it held."""
import os
import sys
import threading

import fake
import torch
from values import values

PARTS = {}


def part(f):
    PARTS[f.__name__] = f
    return f


def last(stream):
    assert fake.get("stream") == stream.cuda_stream, (hex(fake.get("stream")), hex(stream.cuda_stream))


@part
def streams():
    """Hashes are queued where the operator's work is: current streams of all kinds, threads and devices."""
    x = torch.ones(64, device="cuda")
    assert fake.get("stream") == 0
    a, b = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    outside = torch.cuda.ExternalStream(torch.cuda.Stream().cuda_stream)
    seen = set()
    for s in (a, b, outside):
        s.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(s):
            y = x + 1
            last(s)
            seen.add(s.cuda_stream)
            y.record_stream(s)
        s.synchronize()
    assert len(seen) == 3
    x + 1
    assert fake.get("stream") == 0

    def elsewhere():
        nonlocal told
        x + 2
        told = fake.get("stream")

    told = None
    with torch.cuda.stream(a):  # streams are current for a thread
        t = threading.Thread(target=elsewhere)
        t.start()
        t.join()
    assert told == 0
    if torch.cuda.device_count() > 1:
        s = torch.cuda.Stream("cuda:1")
        with torch.cuda.device(1), torch.cuda.stream(s):
            z = torch.ones(8, device="cuda:1")
            assert fake.get("device") == 1
            last(s)
            z.add_(1)
        z + 1  # current is device 0, the tensor's is 1
        assert (fake.get("device"), fake.get("stream")) == (1, 0)
        assert x.to("cuda:1").device.index == 1
        assert fake.get("device") == 1


@part
def backward():
    """The autograd engine's own thread runs on the streams of the forward operators."""
    s = torch.cuda.Stream()
    w = torch.ones(8, device="cuda", requires_grad=True)
    s.wait_stream(torch.cuda.default_stream())
    seen = []
    with torch.cuda.stream(s):
        y = w * 2
        y.register_hook(lambda g: seen.append(fake.get("stream")))
        loss = y.sum()
        loss.backward()
    s.synchronize()
    assert seen == [s.cuda_stream], seen
    assert w.grad.tolist() == [2.0] * 8


@part
def layouts():
    """Views, sizes 0, lazy bits."""
    before = fake.get("hashes")
    for device in ("cpu", "cuda"):
        with torch.profiler.record_function("values on " + device):
            values(device)
    assert fake.get("hashes") > before + 20
    x = torch.zeros(4, 6, device="cuda")
    x.t().add_(1)
    assert (fake.get("ndim"), fake.get("bytes")) == (2, 96)
    x[1:, ::2].add_(1)
    assert (fake.get("ndim"), fake.get("bytes")) == (2, 36)
    hashes = fake.get("hashes")
    torch.zeros(0, device="cuda")  # nothing there: nobody is asked
    assert fake.get("hashes") == hashes
    short = torch.ones(8, device="cuda")
    beyond = short[4:]
    short.untyped_storage().resize_(16)
    hashes = fake.get("hashes")
    beyond.clone()  # the read is covered, the result is hashed
    assert fake.get("hashes") == hashes + 2


@part
def nesting():
    """Every operator that began has ended: exceptions, other threads, operators in operators."""
    x = torch.ones(4, device="cuda")
    for bad in (lambda: x @ torch.ones(5, device="cuda"), lambda: x + torch.ones(3, device="cuda"),
                lambda: torch.ones(4, device="cuda").view(3)):
        try:
            bad()
        except RuntimeError:
            continue
        raise AssertionError("no error")
    threads = [threading.Thread(target=lambda: [x.sum() for _ in range(5)]) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert fake.get("depth") == 0
    assert fake.get("worst") > 1
    assert fake.get("begins") == fake.get("ends")


@part
def pinned():
    """A copy to pinned memory is hashed behind it in its stream, one to pageable memory on the host."""
    x = torch.full((1000,), 3.0, device="cuda")
    host = torch.empty(1000, pin_memory=True)
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.default_stream())
    with torch.cuda.stream(s):
        host.copy_(x, non_blocking=True)
        last(s)
    s.synchronize()
    y = host.to("cuda", non_blocking=True)
    assert y.cpu().sum().item() == 3000.0
    z = x.to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    assert z.sum().item() == 3000.0


@part
def random():
    """CUDA generators: state before each draw; one of the job's own."""
    torch.cuda.manual_seed(7)
    a = torch.rand(5, device="cuda")
    b = torch.rand(5, device="cuda")
    own = torch.Generator("cuda").manual_seed(7)
    c = torch.rand(5, device="cuda", generator=own)
    torch.nn.functional.dropout(a, 0.5)
    assert not torch.equal(a, b) and torch.equal(a, c)


@part
def capture():
    """Nothing that is done while a stream is captured breaks the capture; replays work."""
    x = torch.zeros(16, device="cuda")
    y = torch.ones(16, device="cuda")
    torch.cuda.synchronize()
    refused = fake.get("refused")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.copy_(y)
        host = torch.tensor([1.0, 2.0]) * 2  # the CPU's operators go on
    assert fake.get("refused") > refused
    assert host.tolist() == [2.0, 4.0]
    y.fill_(5)
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    assert x.tolist() == [5.0] * 16
    assert fake.get("depth") == 0


@part
def blocks():
    """What the caching allocator gives out is told: all of it, or with no headers of CUDA what operators see."""
    x = torch.ones(1000, device="cuda")
    assert fake.block(x.data_ptr()) == 4000
    if os.path.exists("/usr/local/cuda/include/crt/host_defines.h"):
        address = torch.cuda.caching_allocator_alloc(2048)
        assert fake.block(address) == 2048
        torch.cuda.caching_allocator_delete(address)
        assert fake.block(address) == 0
        address = x.data_ptr()
        del x
        assert fake.block(address) == 0


@part
def scalars():
    assert torch.ones(3, device="cuda").sum().item() == 3.0


@part
def state():
    """The state at a step's end, of the device's generator too."""
    torch.cuda.manual_seed(3)
    model = torch.nn.Linear(3, 2).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 3, device="cuda")).sum().backward()
        optimizer.step()


names = sys.argv[1:] or list(PARTS)
for name in names:
    PARTS[name]()
    print(name, "ok")
