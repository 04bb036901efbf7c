"""Eager operators of PyTorch on a CUDA device that cannot run torch's own kernels.

torch's kernels for CUDA come as machine code only, which softgpu cannot execute. After install() each
operator of ATen that has such a kernel has a body on the CPU instead: its arguments are copied to the
host, the CPU's operator runs there, and what it wrote is copied back. An unmodified script runs so:

    softgpu run --eager -- python train.py
    softgpu run -- python -m twinbit.eager train.py

Start at install(), then _Body. What is native (memory, views, dense copies: no kernel is needed) keeps
torch's own code: _NATIVE. Results are the CPU's bit for bit. Random operators draw from the CUDA
device's generator, so torch.cuda.manual_seed() and get_rng_state() work; their numbers are neither those
of a GPU nor those of a CPU run. Threads: any. The GPU's own rule stays: a tensor of the CPU among tensors
of the device is an error, except where torch allows it.
"""

from __future__ import annotations

import re
import sys

import torch

__all__ = ["install", "installed", "calls"]

# They need no kernel: memory, metadata, one number, generators. Views are found by their schema.
_NATIVE = re.compile(
    r"aten::("
    r"empty\.memory_format|empty_strided|resize_|set_\.\w+|set_|_local_scalar_dense|record_stream"
    r"|_pin_memory|is_pinned|is_set_to|_cudnn_init_dropout_state|_assert_async(\.msg)?"
    r")$"
)
# Arguments that are written though the schema does not say so.
_UNSAID = {
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::native_batch_norm.out": ("running_mean", "running_var"),
}
# Operators that take tensors of the CPU beside those of the device.
_MIXED = re.compile(r"aten::(index|_unsafe_index|_index_put_impl_|index_put|_ctc_loss|_foreach_|_fused_)")
# Composites that choose by the device, or have derivatives by the device: their tensors go to the CPU
# and back by copies that autograd knows, and all of it is the CPU's.
_HOPS = (
    "aten::scaled_dot_product_attention",
    "aten::rms_norm",
    "aten::lstm.input",
    "aten::lstm.data",
    "aten::gru.input",
    "aten::gru.data",
    "aten::rnn_tanh.input",
    "aten::rnn_tanh.data",
    "aten::rnn_relu.input",
    "aten::rnn_relu.data",
    "aten::lstm_cell",
    "aten::gru_cell",
)
_COMPOSITES = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")
_LINE = 64  # a mirror begins where its tensor's memory has the same place in a line: BLAS looks at that

_library = None  # the registrations live as long as it
_calls: dict[str, int] = {}


def installed() -> bool:
    """True after install()."""
    return _library is not None


def calls() -> dict[str, int]:
    """How often each operator ran on the CPU, by name (``aten::mm``)."""
    return dict(_calls)


def _count(name):
    _calls[name] = _calls.get(name, 0) + 1
    glue = sys.modules.get("_twinbit_glue")
    if glue is not None and glue.active():
        glue._cover(0, "eager", name, "executed on the CPU by twinbit.eager; on the device there are copies only")


class _Kernel:
    """The body stands for a kernel: where twinbit hashes what the operator wrote on the device, it records no
    operators of the CPU inside. Elsewhere they are all that is known of the values."""

    def __enter__(self):
        glue = sys.modules.get("_twinbit_glue")
        self.glue = glue if glue is not None and glue.active() and glue.cuda() else None
        if self.glue is not None:
            self.glue.suppress(1)

    def __exit__(self, *error):
        if self.glue is not None:
            self.glue.suppress(-1)


def _on_device(value):
    return isinstance(value, torch.Tensor) and value.is_cuda


def _tensors(values):
    """Every tensor among arguments, lists of them included."""
    for v in values:
        if isinstance(v, torch.Tensor):
            yield v
        elif isinstance(v, (list, tuple)):
            yield from _tensors(v)


# ---- mirrors: the bytes of device memory on the host ----


def _bytes_on(storage_of, lo, hi):
    """Device bytes lo..hi of the storage of a tensor, as a tensor of bytes."""
    flat = torch.empty(0, dtype=torch.uint8, device=storage_of.device)
    return flat.set_(storage_of.untyped_storage(), lo, (hi - lo,), (1,))


def _span(t):
    """The bytes of its storage from the first to the last element."""
    item = t.element_size()
    lo = t.storage_offset() * item
    return lo, lo + (sum((n - 1) * s for n, s in zip(t.shape, t.stride())) + 1) * item


class _Mirrors:
    """Host copies of the storages of a call's arguments: tensors that share memory share it here too."""

    def __init__(self, name, tensors):
        self.name = name
        self.areas = {}  # address of a storage -> [a tensor of it, lo, hi, host bytes]
        self.made = {}  # id(device tensor) -> (it, the host's)
        for t in tensors:
            if not t.is_cuda:
                continue
            if t.layout is not torch.strided:
                raise NotImplementedError(f"twinbit.eager: {name} of a tensor of layout {t.layout}: only dense ones")
            if t.numel():
                self._cover(t)
        for area in self.areas.values():
            device = _bytes_on(*area[:3])
            area[3] = torch.empty(device.numel(), dtype=torch.uint8, device="cpu")
            _copy_bytes(area[3], device)

    def _cover(self, t):
        lo, hi = _span(t)
        lo -= lo % _LINE
        hi = min(hi + -hi % _LINE, t.untyped_storage().nbytes())
        area = self.areas.setdefault(t.untyped_storage().data_ptr(), [t, lo, hi, None])
        area[1], area[2] = min(area[1], lo), max(area[2], hi)

    def of(self, t):
        """The host's tensor for a device tensor: same size, strides and bytes; other tensors as they are."""
        if not t.is_cuda:
            return t
        known = self.made.get(id(t))
        if known is None:
            known = self.made[id(t)] = (t, self._view(t))
        return known[1]

    def _view(self, t):
        host = torch.empty(0, dtype=t.dtype, device="cpu")
        if t.numel():
            _, lo, _, flat = self.areas[t.untyped_storage().data_ptr()]
            at = t.storage_offset() - lo // t.element_size()
            host.set_(flat.untyped_storage(), at, t.shape, t.stride())
        else:
            host.resize_(t.shape)
        if t.is_conj():
            host = host.conj()
        return torch._neg_view(host) if t.is_neg() else host

    def device_tensor(self, host):
        """The argument whose mirror this very object is, or None."""
        for t, mirror in self.made.values():
            if mirror is host:
                return t
        return None

    def write_back(self, tensors):
        """Bring what was written to the device; each area once."""
        done = set()
        for t in tensors:
            if not t.is_cuda:
                continue
            host = self.of(t)
            if host.shape != t.shape or (host.numel() and host.stride() != t.stride()):
                _replace(t, host)  # an out= that was resized
                continue
            where = t.untyped_storage().data_ptr()
            if t.numel() and where not in done:
                done.add(where)
                first, lo, hi, flat = self.areas[where]
                _copy_bytes(_bytes_on(first, lo, hi), flat)


def _copy_bytes(to, source):
    """Between host and device, on the current stream; both dense, of the same type and size."""
    _native_copy.call_boxed(_CUDA_KEYS, to, source, False)


def _replace(t, host):
    """Make an out= what it became on the host, with other sizes or strides."""
    if host.numel() == 0:
        t.resize_(host.shape)
        return
    lo, hi = _span(host)
    t.resize_(((hi - lo) // host.element_size(),))
    at = t.storage_offset() * t.element_size()
    _copy_bytes(_bytes_on(t, at, at + hi - lo), _bytes_on(host, lo, hi))
    t.as_strided_(host.shape, host.stride())


def _to_device(host, device):
    """A new device tensor with the host's size, strides and values."""
    if host.layout is not torch.strided:
        raise NotImplementedError(f"twinbit.eager: a result of layout {host.layout}: only dense ones")
    host = host.resolve_conj().resolve_neg()
    if not torch.ops.aten.is_non_overlapping_and_dense(host):
        host = host.contiguous()
    made = torch.empty_strided(host.shape, host.stride(), dtype=host.dtype, device=device)
    if host.numel():
        _copy_bytes(made, host)
    return made


# ---- random numbers ----


def _mix(x):
    """A bijection of 64 bits in which every bit depends on every other one."""
    x = (x + 0x9E3779B97F4A7C15) & (2**64 - 1)
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & (2**64 - 1)
    return x ^ x >> 31


def _draw_seed(generator, device):
    """A seed from a device generator, by its seed and offset, which moves on as a kernel's would."""
    if generator is None:
        generator = torch.cuda.default_generators[device.index]
    offset = generator.get_offset()
    generator.set_offset(offset + 4)
    return _mix(generator.initial_seed() ^ _mix(offset))


class _SeededHost:
    """The CPU's default generator starts from a device generator, and is as it was afterwards."""

    def __init__(self, device):
        self.seed = _draw_seed(None, device)

    def __enter__(self):
        self.before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(self.seed)

    def __exit__(self, *exception):
        torch.default_generator.set_state(self.before)


# ---- operators that exist for CUDA only, by those of the CPU ----


def _no_dropout(name, dropout_p):
    if dropout_p:
        raise NotImplementedError(f"twinbit.eager: {name} with dropout has no CPU body: its mask is the kernel's own")


def _attention(query, key, value, bias, dropout_p, is_causal, scale):
    _no_dropout("fused attention", dropout_p)
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return flash(query, key, value, 0.0, is_causal, attn_mask=bias, scale=scale)


def _attention_backward(grad, query, key, value, bias, out, sums, is_causal, scale):
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    sums = sums[..., : query.shape[-2]]
    return flash(grad, query, key, value, out, sums, 0.0, is_causal, attn_mask=bias, scale=scale)


def _host_empty(*shape, dtype=torch.int64):
    return torch.empty(shape, dtype=dtype, device="cpu")


def _efficient_attention(query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, scale=None):
    out, sums = _attention(query, key, value, attn_bias, dropout_p, is_causal, scale)
    rows = -(-sums.shape[-1] // 32) * 32 if compute_log_sumexp else 0  # as the CUDA kernel pads them
    padded = torch.zeros((*sums.shape[:-1], rows), dtype=sums.dtype, device="cpu")
    padded[..., : sums.shape[-1]] = sums[..., :rows]
    return out, padded, _host_empty(), _host_empty()


def _efficient_attention_backward(grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset,
                                  dropout_p, grad_input_mask, is_causal=False, scale=None):  # fmt: skip
    if grad_input_mask[3]:
        raise NotImplementedError("twinbit.eager: fused attention has no CPU body for the gradient of its bias")
    found = _attention_backward(grad_out_, query, key, value, attn_bias, out, logsumexp, is_causal, scale)
    return (*found, _host_empty(0, dtype=query.dtype))


def _flash_attention(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, scale=None):
    out, sums = _attention(query, key, value, None, dropout_p, is_causal, scale)
    lengths = _host_empty(0, dtype=torch.int32)
    state = _host_empty(2, dtype=torch.uint64), _host_empty(dtype=torch.uint64)
    none = _host_empty(0, dtype=query.dtype)
    return out, sums, lengths, lengths.clone(), query.shape[-2], key.shape[-2], *state, none


def _flash_attention_backward(grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k,
                              dropout_p, is_causal, philox_seed, philox_offset, scale=None):  # fmt: skip
    return _attention_backward(grad_out, query, key, value, None, out, logsumexp, is_causal, scale)


_SUBSTITUTES = {
    "aten::_scaled_dot_product_efficient_attention": _efficient_attention,
    "aten::_scaled_dot_product_efficient_attention_backward": _efficient_attention_backward,
    "aten::_scaled_dot_product_flash_attention": _flash_attention,
    "aten::_scaled_dot_product_flash_attention_backward": _flash_attention_backward,
}


# ---- operators ----


def _find_op(name):
    namespace, rest = name.split("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _refuse_capture(name):
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"twinbit.eager: {name} runs on the CPU, so it cannot be captured in a CUDA graph: compile the function "
            "(torch.compile), or leave it out of the capture"
        )


class _Body:
    """The CPU body of one operator; made at its first call, since most are never called."""

    def __init__(self, name):
        self.name = name
        self.op = _find_op(name)
        schema = self.op._schema
        unsaid = _UNSAID.get(name, ())
        self.writes = [a.name in unsaid or bool(a.alias_info and a.alias_info.is_write) for a in schema.arguments]
        self.names = [a.name for a in schema.arguments]
        self.tensors = [a.name for a in schema.arguments if str(a.type) in ("Tensor", "Optional[Tensor]")]
        self.keyword_only = {a.name for a in schema.arguments if a.kwarg_only}
        self.generator = next((a.name for a in schema.arguments if "Generator" in str(a.type)), None)
        self.random = self.generator or torch.Tag.nondeterministic_seeded in self.op.tags
        self.strict = not _MIXED.match(name)
        self.substitute = _SUBSTITUTES.get(name)
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        if self.substitute is None and not any(has(name, key) for key in _COMPOSITES):
            raise NotImplementedError(
                f"twinbit.eager: {name} exists for CUDA only, there is no CPU kernel that could stand for it"
            )

    def device_of(self, tensors, given):
        devices = {t.device for t in tensors if t.is_cuda}
        if self.strict and len(devices) > 1 or devices and self.strict and self._stray(tensors):
            both = sorted({str(t.device) for t in tensors})
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {both[-1]} and "
                f"{both[0]}! (in {self.name})"
            )
        where = given.get("device")
        if devices:
            return next(t.device for t in tensors if t.is_cuda)
        where = torch.device("cuda") if where is None else torch.device(where)
        return where if where.index is not None else torch.device("cuda", torch.cuda.current_device())

    @staticmethod
    def _stray(tensors):
        return any(t.device.type == "cpu" and t.dim() for t in tensors)

    def __call__(self, args, kwargs):
        given = dict(zip(self.names, args))
        given.update(kwargs)
        tensors = list(_tensors(given.values()))
        device = self.device_of(tensors, given)
        _refuse_capture(self.name)
        _count(self.name)
        with _Kernel():
            mirrors = _Mirrors(self.name, tensors)
            host = {k: self._to_host(k, v, mirrors, device) for k, v in given.items()}
            result = self._run(host, given, device)
            written = [given[n] for n, w in zip(self.names, self.writes) if w and n in given]
            mirrors.write_back(list(_tensors(written)))
            return self._results(result, mirrors, device)

    def _to_host(self, name, value, mirrors, device):
        if isinstance(value, torch.Tensor):
            return mirrors.of(value)
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            return [mirrors.of(v) if isinstance(v, torch.Tensor) else v for v in value]
        if name == "device":
            return torch.device("cpu")
        if name == "pin_memory":
            return False
        return value

    def _run(self, host, given, device):
        if not self.random:
            return self._call(host)
        if self.generator:
            drawn = given.get(self.generator)
            if drawn is None or drawn.device.type == "cuda":
                drawn = torch.Generator("cpu").manual_seed(_draw_seed(drawn, device))
            return self._call({**host, self.generator: drawn})
        with _SeededHost(device):
            return self._call(host)

    def _call(self, host):
        if self.substitute is not None:
            return self.substitute(**host)
        if not any(isinstance(host.get(n), (int, float, complex)) for n in self.tensors):
            return self.op(**host)
        # a number that stood for a tensor arrives as a number: an overload of the same operator takes those
        keys = [n for n in self.keyword_only if n in host]
        rest = [v for k, v in host.items() if k not in keys]
        return self.op.overloadpacket(*rest, **{k: host[k] for k in keys})

    def _results(self, value, mirrors, device):
        if isinstance(value, torch.Tensor):
            argument = mirrors.device_tensor(value)
            return argument if argument is not None else _to_device(value, device)
        if isinstance(value, (list, tuple)):
            return type(value)([self._results(v, mirrors, device) for v in value])
        return value


class _Below:
    """Below autograd, autocast and the job's own __torch_function__: what a kernel sees."""

    def __enter__(self):
        self.guards = (torch._C._AutoDispatchBelowAutograd(), torch._C.DisableTorchFunction())
        for g in self.guards:
            g.__enter__()

    def __exit__(self, *exception):
        for g in reversed(self.guards):
            g.__exit__(*exception)


def _make_kernel(name):
    body = None

    def kernel(*args, **kwargs):
        nonlocal body
        with _Below():
            if body is None:
                body = _Body(name)
            return body(args, kwargs)

    return kernel


def _same_bytes(a, b):
    """May one be copied to the other without looking at the elements?"""
    return (
        a.dtype is b.dtype
        and a.shape == b.shape
        and a.stride() == b.stride()
        and a.is_conj() == b.is_conj()
        and a.is_neg() == b.is_neg()
        and torch.ops.aten.is_non_overlapping_and_dense(a)
    )


def _copy_(keys, self, src, non_blocking=False):
    """aten::copy_: torch's own where it is one copy of memory, else by the host."""
    with _Below():
        if self.numel() == 0 or _plain_copy(self, src):
            return _native_copy.call_boxed(keys, self, src, non_blocking)
        _refuse_capture("aten::copy_")
        _count("aten::copy_")
        with _Kernel():
            mirrors = _Mirrors("aten::copy_", (self, src))
            mirrors.of(self).copy_(mirrors.of(src))
            mirrors.write_back((self,))
    return self


def _plain_copy(self, src):
    if self.layout is not torch.strided or src.layout is not torch.strided:
        return True  # torch says itself what it cannot do
    return _same_bytes(self, src)


def _zero_(keys, self):
    """aten::zero_: memory is set by the driver if it is dense."""
    with _Below():
        if torch.ops.aten.is_non_overlapping_and_dense(self):
            return _native_zero.call_boxed(keys, self)
        return _find_op("aten::fill_.Scalar")(self, 0)


def _no(*args, **kwargs):
    """Would you rather have a nested tensor, or cuDNN? Both have no CPU body; torch then takes its plain way."""
    return False


def _make_refusal(name):
    def kernel(*args, **kwargs):
        raise NotImplementedError(f"twinbit.eager: {name}: sparse tensors have no CPU body, only dense ones")

    return kernel


# ---- composites that go to the CPU as a whole ----


def _is_plain(t):
    """Neither fake, functional nor a subclass: nobody is tracing."""
    return type(t) in (torch.Tensor, torch.nn.Parameter) and not torch._C._functorch.is_functorch_wrapped_tensor(t)


def _hop_value(value, where, moved):
    """@moved: id -> the copy; a tensor that is given twice is copied once, so that its gradients add up there."""
    if isinstance(value, torch.Tensor):
        if id(value) not in moved:
            moved[id(value)] = value.to(where)
        return moved[id(value)]
    if isinstance(value, (list, tuple)):
        return type(value)([_hop_value(v, where, moved) for v in value])
    return value


def _make_hop(name, own):
    op = _find_op(name)

    def kernel(keys, *args, **kwargs):
        tensors = list(_tensors(args)) + list(_tensors(kwargs.values()))
        if not all(_is_plain(t) and not torch._is_functional_tensor(t) for t in tensors):
            return own.call_boxed(keys, *args, **kwargs)
        with torch._C.DisableTorchFunction():
            _refuse_capture(name)
            _count(name)
            device = next(t.device for t in tensors if t.is_cuda)
            moved = {}
            host = [_hop_value(a, "cpu", moved) for a in args]
            named = {k: _hop_value(v, "cpu", moved) for k, v in kwargs.items()}
            with _SeededHost(device):
                result = op(*host, **named)
            return _hop_value(result, device, {})

    return kernel


# ---- registration ----


def _is_view(schema):
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


def _covered(names):
    """The operators that get a body: those with a kernel for CUDA that is neither native nor a view."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in names:
        if name.startswith("aten::") and has(name, "CUDA") and not _NATIVE.match(name):
            if not _is_view(_find_op(name)._schema):
                yield name


def _register(library):
    special = {
        "aten::zero_": (_zero_, True),
        "aten::copy_": (_copy_, True),
        "aten::_nested_tensor_from_mask_left_aligned": (_no, False),
        "aten::_use_cudnn_ctc_loss": (_no, False),
        "aten::_use_cudnn_ctc_loss.Tensor": (_no, False),
        "aten::_use_miopen_ctc_loss": (_no, False),
        "aten::_use_miopen_ctc_loss.Tensor": (_no, False),
    }
    chosen = list(_covered(torch._C._dispatch_get_all_op_names()))
    # convolution picks cuDNN by the device
    for name in dict.fromkeys([*chosen, "aten::copy_", "aten::convolution"]):
        fn, with_keys = special.get(name) or (_make_kernel(name), False)
        library.impl(name[6:], fn, "CUDA", with_keyset=with_keys)
    for name in ("_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors"):
        library.impl(name, _make_refusal("aten::" + name), "SparseCUDA")
    for name in _HOPS:
        own = torch.library.get_kernel(name, "AutogradCUDA")
        for key in ("AutogradCUDA", "CUDA"):
            library.impl(name[6:], _make_hop(name, own), key, with_keyset=True)


def install() -> None:
    """Give the eager operators of this process CPU bodies on CUDA tensors. Once; cannot be undone.

    Errors: RuntimeError if this torch has no CUDA or cannot hand out its own kernels (older than 2.9).
    """
    global _library, _native_copy, _native_zero, _CUDA_KEYS
    if _library is not None:
        return
    if not torch.backends.cuda.is_built():
        raise RuntimeError("twinbit.eager: this torch is built without CUDA")
    if not hasattr(torch.library, "get_kernel"):
        raise RuntimeError(f"twinbit.eager: torch {torch.__version__} is too old, 2.9 is needed")
    torch.backends.cudnn.enabled = False  # batch norm and the like then take operators that exist on the CPU
    _CUDA_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    _native_copy = torch.library.get_kernel("aten::copy_", "CUDA")
    _native_zero = torch.library.get_kernel("aten::zero_", "CUDA")
    library = torch.library.Library("aten", "IMPL")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each says that a kernel was replaced, as it should be
        _register(library)
    _library = library


def _main(argv):
    import runpy

    if not argv or argv[0] in ("-h", "--help"):
        print("usage: python -m twinbit.eager SCRIPT [ARGUMENTS...] | -m MODULE [ARGUMENTS...]", file=sys.stderr)
        return 2
    install()
    if argv[0] == "-m":
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        import os

        sys.argv = argv
        sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
        runpy.run_path(argv[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    # the module that the job imports, not this copy of it under another name
    from twinbit import eager

    sys.exit(eager._main(sys.argv[1:]))
