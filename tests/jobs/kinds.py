"""Tensors of odd kinds: empty, strided, overlapping, sparse, quantised, nested, complex, meta, fake, subclassed."""

import warnings

import torch
from common import save
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, vmap


class Tagged(torch.Tensor):
    """A subclass that lets every operator through"""


class Wrapper(torch.Tensor):
    """A wrapper without storage of its own; its data pointer must not be touched"""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def open_up(a):
            return a.inner if isinstance(a, Wrapper) else a

        result = func(*[open_up(a) for a in args], **{k: open_up(v) for k, v in (kwargs or {}).items()})
        return Wrapper(result) if isinstance(result, torch.Tensor) else result


def strided():
    x = torch.randn(6, 8)
    every = torch.randn(40)[::3]
    window = torch.arange(10.0).as_strided((4, 5), (1, 1))
    wide = torch.randn(5, 1).expand(5, 7)
    flipped = x.t()[2:5, 1:4]
    y = torch.zeros(8, 6)
    y.t().copy_(x)
    y[::2].mul_(3)
    y.t()[1].add_(1)
    torch.add(x[:, ::2], 1, out=torch.empty(6, 8)[:, ::2])
    out = torch.empty(0)
    torch.mul(x, 2, out=out)
    return [every + 1, window * 2, wide.sum(0), flipped.contiguous(), y, out, x.permute(1, 0).exp()]


def empty():
    a = torch.empty(0, 5)
    return [a + 1, torch.cat([a, torch.randn(2, 5)]), a.sum(0), torch.zeros(3, 0).mean(1).nan_to_num(),
            torch.tensor(3.5) * 2, torch.randn(4)[2:2].clone()]


def complexes():
    z = torch.randn(5, 3, dtype=torch.complex64)
    back = torch.fft.ifft(torch.fft.fft(torch.randn(16)))
    z.imag.mul_(2)
    return [torch.view_as_real(z.conj() * z), torch.view_as_real(back), z.real, z.conj().imag.clone(),
            torch.view_as_real((z.conj().resolve_conj() @ z.t()))]


def sparse():
    dense = torch.randn(6, 6) * (torch.rand(6, 6) > 0.6)
    coo = dense.to_sparse()
    csr = dense.to_sparse_csr()
    e = torch.nn.Embedding(12, 4, sparse=True)
    e(torch.tensor([1, 5, 5, 7])).sum().backward()
    torch.optim.SparseAdam(list(e.parameters()), lr=0.1).step()
    return [coo.to_dense(), torch.sparse.mm(coo, dense), csr @ dense, coo.coalesce().values(),
            csr.values() * 2, e.weight]


def quantised():
    q = torch.quantize_per_tensor(torch.randn(4, 8), 0.05, 10, torch.quint8)
    c = torch.quantize_per_channel(torch.randn(4, 8), torch.rand(4) + 0.1, torch.zeros(4), 0, torch.qint8)
    return [q.dequantize(), q.int_repr(), c.dequantize()]


def nested():
    jagged = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged)
    strided_nested = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(1, 3)])
    return [(jagged * 2).values(), torch.nested.to_padded_tensor(strided_nested + 0, 0.0)]


def shadows():
    with FakeTensorMode():
        fake = torch.randn(1000, 1000) @ torch.randn(1000, 1000)
    meta = torch.empty(1 << 20, 1 << 20, device="meta")
    (meta + 1).relu_()
    wrapped = Wrapper(torch.randn(3, 4)) * 2 + 1
    tagged = torch.randn(3, 4).as_subclass(Tagged)
    tagged.mul_(2)
    print("fake", tuple(fake.shape), "meta", tuple(meta.shape), type(tagged + 1).__name__)
    return [wrapped.inner, (tagged + 1).as_subclass(torch.Tensor)]


def functions():
    layer = torch.nn.Linear(4, 3)
    weights = {k: v.detach() for k, v in layer.named_parameters()}

    def loss(w, x):
        return functional_call(layer, w, (x,)).square().sum()

    x = torch.randn(5, 4)
    each = vmap(grad(loss), in_dims=(None, 0))(weights, x)
    return [each["weight"], each["bias"], torch.func.jacrev(lambda v: v.sin() * 2)(x[0])]


def dtypes():
    x = torch.randn(37)
    results = [x.to(t) for t in (torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
                                 torch.float8_e5m2, torch.int8, torch.int64, torch.bool)]
    results.append((x > 0).logical_not_())
    results.append(torch.randint(-100, 100, (33,), dtype=torch.int16).bitwise_xor_(7))
    results.append(torch.arange(9, dtype=torch.int16).view(torch.uint16).to(torch.int64))
    return results


def random_kinds():
    x = torch.empty(50)
    results = [x.normal_().clone(), x.uniform_().clone(), x.exponential_().clone(), torch.randperm(20),
               torch.multinomial(torch.rand(5), 10, replacement=True), torch.bernoulli(torch.full((9,), 0.5)),
               torch.poisson(torch.rand(6) * 4), torch.normal(torch.zeros(4), 1.0),
               torch.rand(7, generator=torch.Generator().manual_seed(1))]
    with torch.random.fork_rng():
        torch.manual_seed(99)
        results.append(torch.rand(3))
    results.append(torch.nn.functional.rrelu(torch.randn(8), training=True))
    return results


def moves():
    x = torch.zeros(4)
    x.resize_(10).fill_(2)
    y = torch.randn(3)
    y.set_(torch.randn(20).untyped_storage(), 4, (2, 3), (3, 1))
    z = torch.randn(5)
    z.data = torch.randn(7)
    index = torch.randint(6, (11,))
    t = torch.zeros(6, 3)
    t.index_add_(0, index, torch.randn(11, 3))
    t.scatter_(0, index[:6].view(2, 3), 5.0)
    t[t > 4] = -1
    t.index_put_((index[:2],), torch.tensor(9.0))
    values, places = torch.sort(torch.randn(12), descending=True)
    torch._foreach_add_([x, z], 1.5)
    torch._foreach_copy_([x], [torch.full((10,), 3.0)])
    return [x, y * 2, z, t, values, places, *torch.linalg.qr(torch.randn(5, 4)), torch.unique(index),
            torch.nonzero(t), t.masked_fill(t > 0, 0.5), *torch.topk(values, 3), torch.cumsum(values, 0)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.manual_seed(17)
    for part in (strided, empty, complexes, sparse, quantised, nested, shadows, functions, dtypes,
                 random_kinds, moves):
        save(part.__name__ + ".bin", part())
