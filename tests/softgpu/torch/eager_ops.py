"""Single operators with their CPU bodies: who has one, who must not, and what is delicate in between."""
import torch

from twinbit import eager  # installed by `softgpu run --eager`

assert eager.installed()
DEVICE = torch.device("cuda", 0)


def same(got, want):
    assert got.is_cuda and got.dtype == want.dtype, (got, want)
    assert torch.equal(got.cpu(), want), (got, want)


def refused(text, function):
    try:
        function()
    except (RuntimeError, NotImplementedError) as e:
        assert text in str(e), e
        return
    raise AssertionError(f"not refused: {text}")


def every_kernel_has_a_body():
    """Each operator with a kernel for CUDA is native, a view, or covered: nobody is forgotten."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
    covered = set(eager._covered(names))
    native = {n for n in names if has(n, "CUDA") and eager._NATIVE.match(n)}
    assert len(covered) > 1000 and 10 < len(native) < 20, (len(covered), native)
    for name in names:
        if name in covered or name in native or not has(name, "CUDA"):
            continue
        views = eager._is_view(eager._find_op(name)._schema)
        added = name in eager._HOPS or name in ("aten::copy_", "aten::convolution")
        assert views or added, name


def native_ones_stay_native():
    """Memory, views, dense copies and numbers: torch's own code, no body is called."""
    before = eager.calls()
    x = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    y = x.to(DEVICE)
    same(y, x)
    same(y.clone(), x)
    same(y.view(6, 4)[2:5], x.view(6, 4)[2:5])
    views = (lambda t: t.transpose(0, 1), lambda t: t.as_strided((2, 2), (12, 1), 3), lambda t: t.unfold(2, 2, 1),
             lambda t: t.expand(5, 2, 3, 4), lambda t: t.diagonal(), lambda t: t.select(1, 2))  # fmt: skip
    for f in views:
        assert f(y).shape == f(x).shape and f(y).data_ptr() - y.data_ptr() == f(x).data_ptr() - x.data_ptr()
    empty = [torch.empty(3, device=DEVICE), torch.empty_strided((2, 2), (1, 2), device=DEVICE), torch.empty_like(y)]
    empty[0].resize_(7).zero_()
    assert empty[0][6].item() == 0.0
    same(torch.zeros(5, device=DEVICE), torch.zeros(5))
    same(torch.tensor([1, 2, 3], device=DEVICE), torch.tensor([1, 2, 3]))
    z = torch.empty(0, device=DEVICE).set_(y.untyped_storage(), 4, (3,), (2,))
    assert z.data_ptr() == y.data_ptr() + 16
    x.pin_memory().to(DEVICE, non_blocking=True)
    y.record_stream(torch.cuda.Stream())
    assert y[1, 2, 3].item() == 23.0
    torch.cuda.synchronize()
    assert eager.calls() == before, {k: v for k, v in eager.calls().items() if before.get(k) != v}


def strides_and_aliases():
    x = torch.arange(40, dtype=torch.float32).reshape(5, 8)
    y = x.to(DEVICE)
    same(y[1:, ::2].contiguous(), x[1:, ::2].contiguous())
    same(y.t().to(torch.float64), x.t().to(torch.float64))
    y[:, ::2].mul_(2)  # the columns between keep what they had
    x[:, ::2].mul_(2)
    same(y, x)
    torch._foreach_add_([y[:, ::2], y[:, 1::2]], [1.0, 2.0])
    torch._foreach_add_([x[:, ::2], x[:, 1::2]], [1.0, 2.0])
    same(y, x)
    y[1:3, 1:3].zero_()
    x[1:3, 1:3].zero_()
    y.add_(y.t()[:5, :5].sum())
    x.add_(x.t()[:5, :5].sum())
    same(y, x)
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    assert torch.relu(image.to(DEVICE)).stride() == torch.relu(image).stride()
    refused("single memory location", lambda: y[:1].expand(5, 8).add_(1))
    c = torch.randn(6, dtype=torch.complex64)
    same(c.to(DEVICE).conj() * 2, c.conj() * 2)
    same(c.to(DEVICE).conj().imag + 1, c.conj().imag + 1)


def outs_and_mixtures():
    x = torch.randn(4, 3)
    y = x.to(DEVICE)
    out = torch.empty(0, device=DEVICE)
    assert torch.add(y, 1, out=out) is out
    same(out, x + 1)
    values, indices = torch.empty(0, device=DEVICE), torch.empty(0, dtype=torch.int64, device=DEVICE)
    torch.sort(y, out=(values, indices))
    same(values, x.sort()[0])
    same(indices, x.sort()[1])
    same(torch.linalg.lstsq(y, y[:, :1].clone())[0], torch.linalg.lstsq(x, x[:, :1].clone())[0])
    same(y % 2, x % 2)  # numbers where the kernel has a tensor
    same(y.sum() * 2.5, x.sum() * 2.5)
    same(y + torch.tensor(2), x + 2)
    same(y[torch.tensor([0, 2])], x[[0, 2]])  # an index may lie on the CPU, other tensors must not
    refused("Expected all tensors to be on the same device", lambda: y + x)
    refused("Expected all tensors to be on the same device", lambda: torch.mm(y, x.t()))
    refused("must match the size", lambda: y + torch.ones(5, device=DEVICE))


def random_numbers():
    def draw():
        weights = torch.ones(9, device=DEVICE)
        return [torch.rand(5, device=DEVICE), torch.randn(5, device=DEVICE), torch.randint(9, (5,), device=DEVICE),
                torch.randperm(9, device=DEVICE), torch.multinomial(weights, 4), torch.bernoulli(weights / 2),
                torch.nn.functional.dropout(weights, 0.5), torch.empty(4, device=DEVICE).exponential_()]  # fmt: skip

    def equal(a, b):
        return [torch.equal(x, y) for x, y in zip(a, b)]

    host = torch.get_rng_state()
    torch.cuda.manual_seed(5)
    first, state, second = draw(), torch.cuda.get_rng_state(), draw()
    assert not all(equal(first, second)) and not equal(first, second)[0]
    torch.cuda.manual_seed(5)
    assert all(equal(first, draw()))
    torch.cuda.set_rng_state(state)
    assert all(equal(second, draw()))
    assert torch.equal(torch.get_rng_state(), host)  # the CPU's own numbers are not touched
    one = torch.Generator(DEVICE).manual_seed(3)
    a = torch.rand(4, device=DEVICE, generator=one)
    b = torch.rand(4, device=DEVICE, generator=one)
    same(torch.rand(4, device=DEVICE, generator=one.manual_seed(3)), a.cpu())
    assert not torch.equal(a, b)
    x = torch.rand(20000, device=DEVICE)
    assert abs(x.mean().item() - 0.5) < 0.01 and x.min().item() >= 0 and x.max().item() < 1


def attention_and_recurrence():
    torch.manual_seed(2)
    q = torch.randn(2, 3, 8, 4)
    for options in {}, {"is_causal": True}, {"attn_mask": torch.randn(8, 8)}:
        mine = q.to(DEVICE).requires_grad_()
        theirs = q.clone().requires_grad_()
        moved = {k: v.to(DEVICE) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
        a = torch.nn.functional.scaled_dot_product_attention(mine, mine, mine, **moved)
        b = torch.nn.functional.scaled_dot_product_attention(theirs, theirs, theirs, **options)
        same(a.detach(), b.detach())
        a.square().sum().backward()
        b.square().sum().backward()
        same(mine.grad, theirs.grad)
    for kind in torch.nn.GRU, torch.nn.RNN:
        theirs = kind(4, 6, 2, bidirectional=True)
        mine = kind(4, 6, 2, bidirectional=True).to(DEVICE)
        mine.load_state_dict(theirs.state_dict())
        mine(q[0].to(DEVICE))[0].sum().backward()
        theirs(q[0])[0].sum().backward()
        for p, r in zip(mine.parameters(), theirs.parameters()):
            same(p.grad, r.grad)
    for kind in torch.nn.RMSNorm, torch.nn.LayerNorm:
        theirs, mine = kind(4), kind(4).to(DEVICE)
        x, y = q.clone().requires_grad_(), q.to(DEVICE).requires_grad_()
        theirs(x).square().sum().backward()
        mine(y).square().sum().backward()
        same(y.grad, x.grad)
        same(mine.weight.grad, theirs.weight.grad)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    theirs = torch.nn.TransformerEncoder(layer, 2).eval()
    x, pad = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        want = theirs(x, src_key_padding_mask=pad)
        got = theirs.to(DEVICE)(x.to(DEVICE), src_key_padding_mask=pad.to(DEVICE))
    torch.testing.assert_close(got.cpu()[~pad], want[~pad])  # torch's CPU takes nested tensors here
    with torch.inference_mode():
        a = torch.nn.functional.scaled_dot_product_attention(q.to(DEVICE), q.to(DEVICE), q.to(DEVICE))
        b = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        same(a * 2, b * 2)
    scores = torch.randn(5, 2, 4).log_softmax(2)
    loss = torch.nn.functional.ctc_loss
    targets, lengths = torch.ones(2, 2, dtype=torch.long), (torch.tensor([5, 5]), torch.tensor([2, 2]))
    same(loss(scores.to(DEVICE), targets.to(DEVICE), *lengths), loss(scores, targets, *lengths))


def mixed_precision():
    """Half precision under autocast: GradScaler skips a step with infinite gradients, and goes on."""
    layer = torch.nn.Linear(4, 4).to(DEVICE)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**15)
    for scale in 1.0, 1e30, 1.0:
        before = layer.weight.detach().clone()
        with torch.autocast("cuda", dtype=torch.float16):
            out = layer(torch.ones(2, 4, device=DEVICE))
            assert out.dtype is torch.float16
            loss = out.float().square().mean() * scale
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(before, layer.weight) == (scale > 1), scale
    assert scaler.get_scale() == 2.0**14


def compiled_code_goes_on():
    """A graph that torch.compile traces sees the operators themselves, not their CPU bodies."""
    from torch._dynamo import explain

    def f(q):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q).sum() + 1

    q = torch.randn(1, 2, 4, 4, device=DEVICE)
    found = explain(f)(q)
    assert found.graph_break_count == 0, found
    for kind in torch.float32, torch.bfloat16:  # two kinds of fused attention, which exist for CUDA only
        a, b = (q.detach().to(kind).clone().requires_grad_() for _ in range(2))
        got, want = torch.compile(f, backend="aot_eager")(a), f(b)
        torch.testing.assert_close(got, want)
        got.backward()
        want.backward()
        torch.testing.assert_close(a.grad, b.grad)


def what_cannot_be():
    x = torch.ones(4, device=DEVICE)
    refused("sparse tensors have no CPU body", lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,), device=DEVICE))
    refused("layout torch.sparse_coo", x.to_sparse)
    refused("exists for CUDA only", lambda: torch._masked_scale(x, x > 0, 2.0))
    graph = torch.cuda.CUDAGraph()

    def capture():
        with torch.cuda.graph(graph):
            x + 1

    refused("cannot be captured in a CUDA graph", capture)
    same(x + 1, torch.full((4,), 2.0))


for test in (every_kernel_has_a_body, native_ones_stay_native, strides_and_aliases, outs_and_mixtures, random_numbers,
             attention_and_recurrence, mixed_precision, compiled_code_goes_on, what_cannot_be):  # fmt: skip
    test()
    print(test.__name__, "ok")
