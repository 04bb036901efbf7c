"""Triton kernels on the software device, against torch on the CPU: triton_basic.py [TEST...]

Inputs come from the host and results go back there, so that torch needs no kernel of its own.
"""
import sys

import torch
import triton
import triton.language as tl


def close(got, want, bound):
    """The greatest error, relative to the greatest value, is at most the bound."""
    got, want = got.cpu().double(), want.double()
    error = ((got - want).abs().max() / want.abs().max().clamp(min=1e-30)).item()
    assert error <= bound, f"error {error:.3g}, {bound:.3g} is allowed"


@triton.jit
def scaled_sum(x, y, out, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + factor * tl.load(y + at, inside), inside)


def vector_add():
    for n in 1, 1000, 4097:
        x, y = torch.randn(n), torch.randn(n)
        out = torch.zeros(n + 8, device="cuda")
        scaled_sum[(triton.cdiv(n, 256),)](x.cuda(), y.cuda(), out, 2.0, n, BLOCK=256)
        assert torch.equal(out.cpu()[:n], torch.addcmul(x, y, torch.tensor(2.0))), n
        assert not out.cpu()[n:].any()


@triton.jit
def softmax_rows(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * stride + at, powers / tl.sum(powers, 0), at < columns)


def fused_softmax():
    for rows, columns in (3, 5), (17, 300), (2, 1024):
        x = torch.randn(rows, columns) * 4
        out = torch.zeros(rows, columns, device="cuda")
        block = triton.next_power_of_2(columns)
        softmax_rows[(rows,)](x.cuda(), out, columns, columns, BLOCK=block, num_warps=4)
        close(out, torch.softmax(x, 1), 1e-6)
        close(out.cpu().sum(1), torch.ones(rows), 1e-6)


@triton.jit
def product(a, b, c, m, n, k, am, ak, bk, bn, cm, cn, ACTIVATION: tl.constexpr, INPUT: tl.constexpr,
            M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):  # fmt: skip
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        depth = start + tl.arange(0, K)
        left = tl.load(a + row[:, None] * am + depth[None, :] * ak, (row[:, None] < m) & (depth[None, :] < k), other=0.0)
        right = tl.load(b + depth[:, None] * bk + column[None, :] * bn,
                        (depth[:, None] < k) & (column[None, :] < n), other=0.0)  # fmt: skip
        total = tl.dot(left, right, total, input_precision=INPUT)
    if ACTIVATION:
        total = tl.where(total > 0, total, 0.01 * total)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * cm + column[None, :] * cn, total.to(c.dtype.element_ty), inside)


def run_product(a, b, out_type, precision="ieee", activation=False, tile=(32, 32, 32), **options):
    m, k = a.shape
    n = b.shape[1]
    c = torch.zeros(m, n, dtype=out_type, device="cuda")
    grid = triton.cdiv(m, tile[0]), triton.cdiv(n, tile[1])
    a, b = a.cuda(), b.cuda()
    product[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), activation, precision, *tile, **options)
    return c


def matmul():
    """Halves: a product of two is exact in f32, so only the order of sums differs, and the result's rounding."""
    cases = ((torch.float16, "ieee", 1e-3), (torch.bfloat16, "ieee", 8e-3), (torch.float32, "ieee", 1e-5),
             (torch.float32, "tf32", 3e-3))  # fmt: skip
    for kind, precision, bound in cases:
        for m, n, k in (64, 32, 64), (45, 70, 33):
            a, b = torch.randn(m, k).to(kind), torch.randn(k, n).to(kind)
            want = a.double() @ b.double()
            close(run_product(a, b, kind, precision), want, bound)
            close(run_product(a, b.t().contiguous().t(), kind, precision, num_warps=2, num_stages=3), want, bound)
    a, b = torch.randn(40, 40), torch.randn(40, 40)
    close(run_product(a, b, torch.float32, activation=True), torch.nn.functional.leaky_relu(a.double() @ b.double()), 1e-5)


@triton.jit
def norm_forward(x, out, weight, bias, mean, rstd, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, inside, other=0.0)
    average = tl.sum(values, 0) / columns
    centred = tl.where(inside, values - average, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    tl.store(mean + row, average)
    tl.store(rstd + row, scale)
    result = centred * scale * tl.load(weight + at, inside) + tl.load(bias + at, inside)
    tl.store(out + row * columns + at, result, inside)


@triton.jit
def norm_backward(x, grad, dx, weight, dweight, dbias, mean, rstd, lock, columns, BLOCK: tl.constexpr):
    """Gradients of weight and bias are summed over rows, by programs that take turns at a lock."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    up = tl.load(grad + row * columns + at, inside, other=0.0)
    scale = tl.load(rstd + row)
    unit = tl.where(inside, (tl.load(x + row * columns + at, inside, other=0.0) - tl.load(mean + row)) * scale, 0.0)
    scaled = up * tl.load(weight + at, inside, other=0.0)
    first = tl.sum(unit * scaled, 0) / columns
    second = tl.sum(scaled, 0) / columns
    tl.store(dx + row * columns + at, (scaled - (unit * first + second)) * scale, inside)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(dweight + at, tl.load(dweight + at, inside) + up * unit, inside)
    tl.store(dbias + at, tl.load(dbias + at, inside) + up, inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def layer_norm():
    rows, columns = 24, 100
    x, weight, bias, grad = torch.randn(rows, columns), torch.randn(columns), torch.randn(columns), torch.randn(rows, columns)
    out, dx = (torch.zeros(rows, columns, device="cuda") for _ in range(2))
    mean, rstd = (torch.zeros(rows, device="cuda") for _ in range(2))
    dweight, dbias = (torch.zeros(columns, device="cuda") for _ in range(2))
    lock = torch.zeros(1, dtype=torch.int32, device="cuda")
    norm_forward[(rows,)](x.cuda(), out, weight.cuda(), bias.cuda(), mean, rstd, columns, 1e-5, BLOCK=128)
    norm_backward[(rows,)](x.cuda(), grad.cuda(), dx, weight.cuda(), dweight, dbias, mean, rstd, lock, columns, BLOCK=128)
    a, w, b = (t.double().requires_grad_() for t in (x, weight, bias))
    want = torch.nn.functional.layer_norm(a, (columns,), w, b)
    want.backward(grad.double())
    close(out, want.detach(), 1e-6)
    for got, expected in (dx, a.grad), (dweight, w.grad), (dbias, b.grad):
        close(got, expected, 2e-6)


@triton.jit
def drop(x, out, n, keep, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) < keep
    tl.store(out + at, tl.where(kept, tl.load(x + at, at < n) / keep, 0.0), at < n)


@triton.jit
def philox_words(out, seed, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.randint(seed, at))


def philox(seed, counter):
    """The first word of Philox4x32-10 (Salmon et al. 2011) for a counter of (counter, 0, 0, 0)."""
    c, k0, k1 = [counter, 0, 0, 0], seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c[0]


def dropout():
    words = torch.zeros(64, dtype=torch.int32, device="cuda")
    philox_words[(1,)](words, 12345678901234, BLOCK=64)
    assert [w & 0xFFFFFFFF for w in words.cpu().tolist()] == [philox(12345678901234, i) for i in range(64)]
    n = 4096
    x, outs = torch.randn(n), [torch.zeros(n, device="cuda") for _ in range(3)]
    for out, seed in zip(outs, (7, 7, 8)):
        drop[(n // 512,)](x.cuda(), out, n, 0.75, seed, BLOCK=512)
    first, again, other = (o.cpu() for o in outs)
    assert torch.equal(first, again) and not torch.equal(first, other)
    kept = first != 0
    assert torch.equal(first[kept], (x / 0.75)[kept]) and 0.72 < kept.float().mean() < 0.78


@triton.jit
def histogram_and_scan(x, counts, running, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at, at < n, other=0)
    tl.atomic_add(counts + values, 1, at < n)
    tl.store(running + at, tl.cumsum(values, 0), at < n)


def atomics_and_scan():
    x = torch.randint(0, 16, (500,), dtype=torch.int32)
    counts = torch.zeros(16, dtype=torch.int32, device="cuda")
    running = torch.zeros(500, dtype=torch.int32, device="cuda")
    histogram_and_scan[(1,)](x.cuda(), counts, running, 500, BLOCK=512, BINS=16)
    assert torch.equal(counts.cpu(), torch.bincount(x, minlength=16).int())
    assert torch.equal(running.cpu(), x.cumsum(0).int())


torch.manual_seed(3)
for test in vector_add, fused_softmax, matmul, layer_norm, dropout, atomics_and_scan:
    if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
        test()
        print(test.__name__, "ok", flush=True)
