"""The Python tap: a dispatch mode that describes each operator call to libtwinbit_pytap.so.

It stands in where the C++ tap cannot be compiled; _glue.py starts it. It sees what reaches the dispatcher below
autograd on the thread that imported torch, and is much slower. What an operator reads and writes is asked of its
schema, as in recorder/torch/ops.h; recorder/pytap/pytap.h says what the words mean that are sent.
"""

from __future__ import annotations

import array
import ctypes
import sys
from collections import deque

_RECORD, _FAILED, _SILENT, _PARTIAL = 1, 1, 2, 4
_CONTIGUOUS, _CONJ, _NEG, _FOREIGN = 1, 2, 4, 8
_EV_OP, _EV_COLL = 1, 4
_WRITER, _VIEW, _EMPTY, _COLLECTIVE, _IGNORE = range(5)
_R, _W, _G, _H, _S, _X = (ord(c) for c in "rwghsx")

# As in recorder/torch/ops.h: what schemas cannot say.
_WRITE_ONLY = frozenset(
    "aten::" + n
    for n in "zero_ fill_ copy_ random_ bernoulli_ normal_ uniform_ exponential_ geometric_ log_normal_ cauchy_ "
    "_foreach_zero_ _foreach_copy_ eye_ arange_".split()
)
_EMPTIES = frozenset(
    "aten::" + n
    for n in "empty empty_like empty_strided empty_permuted new_empty new_empty_strided empty_quantized "
    "_empty_affine_quantized _empty_per_channel_affine_quantized resize_ resize_as_ resize_as_sparse_ set_ "
    "_resize_output_ sparse_resize_ record_stream _efficientzerotensor".split()
)
_METADATA = frozenset(
    "aten::" + n
    for n in "detach_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_ rename_ requires_grad_ "
    "set_data retain_grad _conj _neg_view _fw_primal _backward".split()
)
_COLLECTIVES = {
    "c10d::allreduce_": "tensors",
    "c10d::allreduce_coalesced_": "tensors",
    "c10d::broadcast_": "tensors",
    "c10d::allgather_": "output_tensors",
    "c10d::_allgather_base_": "output_tensor",
    "c10d::allgather_coalesced_": "output_lists",
    "c10d::allgather_into_tensor_coalesced_": "outputs",
    "c10d::reduce_": "tensors",
    "c10d::reduce_scatter_": "output_tensors",
    "c10d::_reduce_scatter_base_": "output_tensor",
    "c10d::reduce_scatter_tensor_coalesced_": "outputs",
    "c10d::gather_": "output_tensors",
    "c10d::scatter_": "output_tensors",
    "c10d::alltoall_": "output_tensors",
    "c10d::alltoall_base_": "output",
    "c10d::recv_": "tensors",
    "c10d::recv_any_source_": "tensors",
    "c10d::send": "",
    "c10d::barrier": "",
    "c10d::monitored_barrier_": "",
}

_lib = None
_torch = None
_mode = None


class _Arg:
    __slots__ = ("name", "written", "write_only", "id", "items")

    def __init__(self, name, written, write_only):
        self.name = name
        self.written = written
        self.write_only = write_only
        self.id = _intern(name)
        self.items = {}  # index in a list -> interned "name.index"

    def item(self, index):
        found = self.items.get(index)
        if found is None:
            found = self.items[index] = _intern(f"{self.name}.{index}")
        return found


class _Op:
    """What an operator does with its arguments, asked once of its schema."""

    def __init__(self, func):
        schema = getattr(func, "_schema", None)
        self.cls = _IGNORE
        self.name = schema.name if schema is not None else str(func)
        if schema is None:  # a higher-order operator: what it calls is seen, or it is not
            return
        base = schema.name
        if schema.overload_name:
            self.name += "." + schema.overload_name
        self.id = _intern(self.name)
        collective = _COLLECTIVES.get(base)
        written_names = (collective or "").split()
        self.args = []
        any_written = generator = False
        for a in schema.arguments:
            written = bool(a.alias_info is not None and a.alias_info.is_write) or a.name in written_names
            first = not self.args
            only = written and (a.is_out or collective is not None or (first and base in _WRITE_ONLY))
            if collective is not None and a.name == "tensor":  # a barrier's: nobody looks at its bytes
                only = True
            elif collective is not None and a.name == "tensors" and "recv" not in base:
                only = False  # reduced in place
            any_written |= written
            generator |= "Generator" in str(a.type)
            self.args.append(_Arg(a.name, written, only))
        self.by_name = {a.name: a for a in self.args}
        self.returned = [bool(r.alias_info is not None and r.alias_info.is_write) for r in schema.returns]
        self.outs = [_Arg("out" if i == 0 else f"out.{i}", True, True) for i in range(len(schema.returns))]
        aliased = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        fresh = any(r.alias_info is None and "Tensor" in str(r.type) for r in schema.returns)
        namespace = base.split("::")[0]
        if namespace in ("twinbit", "profiler", "prim", "prims_meta"):
            self.cls = _IGNORE
        elif collective is not None:
            self.cls = _COLLECTIVE
        elif base in _EMPTIES:
            self.cls = _EMPTY
        elif base in _METADATA or (not any_written and aliased and not fresh):
            self.cls = _VIEW
        else:
            self.cls = _WRITER
        self.lift = base in ("aten::lift_fresh", "aten::lift")
        self.rng = _torch.Tag.nondeterministic_seeded in func.tags or (generator and self.cls == _WRITER)


def _make_op(func):
    try:
        return _Op(func)
    except Exception as e:
        op = object.__new__(_Op)
        op.cls, op.name = _IGNORE, str(func)
        _failure(op, e)
        return op


def _intern(text):
    return _lib.twinbit_intern(text.encode(errors="replace"))


class _Tables:
    """What is asked of torch once: types by number, dispatch keys by bit, names by id."""

    def __init__(self):
        torch = _torch
        self.dtypes = {}
        for name, number in (
            ("uint8", 1), ("int8", 2), ("int16", 3), ("int32", 4), ("int64", 5), ("float16", 6), ("float32", 7),
            ("float64", 8), ("bfloat16", 9), ("bool", 10), ("complex32", 11), ("complex64", 12), ("complex128", 13),
            ("float8_e4m3fn", 14), ("float8_e5m2", 15), ("quint8", 1), ("qint8", 2), ("qint32", 4),
        ):  # fmt: skip
            dtype = getattr(torch, name, None)
            if dtype is not None:
                self.dtypes[dtype] = number
        self.indirect = self._keys("Python", "Functionalize", "Batched", "FuncTorchBatched", "FuncTorchGradWrapper")
        self.opaque = self._keys("Sparse", "SparseCsr", "NestedTensor", "ZeroTensor")
        self.conj = self._keys("Conjugate")
        self.neg = self._keys("Negative")
        self.devices = {}
        self.generators = {torch.default_generator._cdata: 0}
        self.rng_names = [_intern("rng:cpu:default"), _intern("rng:cpu:other"), _intern("rng:device")]
        self.plain = (int, float, bool, str, complex, type(None), torch.dtype, torch.device, torch.layout,
                      torch.memory_format)  # fmt: skip

    @staticmethod
    def _keys(*names):
        bits = 0
        for name in names:
            key = getattr(_torch._C.DispatchKey, name, None)
            if key is not None:
                bits |= _torch._C.DispatchKeySet(key).raw_repr()
        return bits

    def device(self, device):
        found = self.devices.get(device)
        if found is None:
            found = self.devices[device] = 0 if device.type == "cpu" else _intern(str(device))
        return found


_tables = None
_ops = {}  # operator -> _Op
_nodes = {}  # name of an autograd node -> interned
_storages = set()  # identities of storages that the library knows; each holds a weak reference
_hand = deque()  # the same, in the order in which they are looked at
_pending = []  # collectives that were not seen to finish
_last_seq = -1


def _know(storage):
    """A weak reference keeps a storage's identity from being used again; dead ones are let go, a few at a time."""
    key = storage._cdata
    if key in _storages:
        return key
    storage._weak_ref()
    _storages.add(key)
    expired, free = _torch.UntypedStorage._expired, _torch.UntypedStorage._free_weak_ref
    for _ in range(min(8, len(_hand))):
        old = _hand.popleft()
        if expired(old):
            _lib.twinbit_storage_drop(old)
            _storages.discard(old)
            free(old)
        else:
            _hand.append(old)
    _hand.append(key)
    return key


class _Call:
    """The accesses of one call in the making."""

    __slots__ = ("op", "words", "storages", "silent", "partial", "keep", "text")

    def __init__(self, op):
        self.op = op
        self.words = array.array("q")
        self.storages = set()
        self.silent = self.partial = False
        self.keep = []  # what must live until the library has looked
        self.text = []

    def opaque(self, t, name, why):
        self.partial = True
        device = _tables.device(t.device) if hasattr(t, "device") else 0
        sizes = list(t.shape) if not t.is_nested else []
        dtype = _tables.dtypes.get(t.dtype, 0)
        head = _X | dtype << 8 | len(sizes) << 24 | _CONTIGUOUS << 32
        self.words.extend((head, name | device << 32, 0, 0, 0, 0, 0, *sizes))
        _cover(1, "tensor", self.op.name if self.op else "state", why)

    def tensor(self, t, mode, name, known=None):
        """Add a tensor; bytes that cannot be looked at are said so. @known: if it lies in one of these, nothing."""
        keys = _torch._C._dispatch_keys(t).raw_repr()
        if keys & _tables.indirect:
            self.silent = True
            _cover(0, "indirect", self.op.name if self.op else "state",
                   "subclass, fake or transform: seen through the operators that it calls")  # fmt: skip
            return True
        device = t.device
        if device.type == "meta":
            return True
        if keys & _tables.opaque or t.layout is not _torch.strided:
            self.opaque(t, name, "layout without plain bytes")
            return True
        if device.type != "cpu":
            self.opaque(t, name, "device memory")
            return True
        storage = t.untyped_storage()
        key = storage._cdata
        if known is not None and key in known:
            return False
        elem = t.element_size()
        offset = t.storage_offset() * elem
        nbytes = storage.nbytes()
        numel = t.numel()
        address = _address(t) if numel else 0
        contiguous = t.is_contiguous()
        if numel and (address == 0 or (contiguous and offset + numel * elem > nbytes)):
            self.opaque(t, name, "view beyond its storage" if address else "storage without memory")
            return True
        flags = _CONTIGUOUS if contiguous else 0
        if keys & _tables.conj:
            flags |= _CONJ
        if keys & _tables.neg:
            flags |= _NEG
        if not storage.resizable():
            flags |= _FOREIGN
        shape = t.shape
        head = mode | _tables.dtypes.get(t.dtype, 0) << 8 | elem << 16 | len(shape) << 24 | flags << 32
        base = address - offset if numel else storage.data_ptr()
        words = self.words
        words.extend((head, name, address, _know(storage), base, nbytes, offset, *shape))
        if not contiguous:
            words.extend(t.stride())
        self.storages.add(key)
        return True

    def generator(self, gen):
        index = _tables.generators.setdefault(gen._cdata, len(_tables.generators))
        if gen.device.type != "cpu":
            words = (_G | _CONTIGUOUS << 32, _tables.rng_names[2] | _tables.device(gen.device) << 32, 0, 0, 0, 0, index)
        else:
            state = gen.get_state()
            self.keep.append(state)
            name = _tables.rng_names[0 if index == 0 else 1]
            words = (_G | _CONTIGUOUS << 32, name, _address(state), 0, 0, state.numel(), index)
        self.words.extend(words)

    def scalar(self, value, name):
        dtype, raw = {
            bool: (5, lambda v: array.array("q", (int(v), 0))),
            int: (5, lambda v: array.array("q", (v, 0))),
            float: (8, lambda v: array.array("q", array.array("d", (v, 0.0)).tobytes())),
            complex: (13, lambda v: array.array("q", array.array("d", (v.real, v.imag)).tobytes())),
        }[type(value)]
        a, b = raw(value)
        self.words.extend((_H | dtype << 8 | _CONTIGUOUS << 32, name, a, b, 0, 0, 0))

    def read(self, value, arg, written, item=None):
        """One argument: a tensor, a generator, a list of such, or something that goes into the arguments' text."""
        if isinstance(value, _torch.Tensor):
            name = arg.id if item is None else arg.item(item)
            if not arg.write_only:
                self.tensor(value, _R, name)
            if arg.written:
                written.append((value, name))
        elif isinstance(value, (list, tuple)):
            self.text.append(f"[{len(value)}")
            for i, v in enumerate(value):
                self.read(v, arg, written, i if item is None else (item << 12) + i)
        elif isinstance(value, _torch.Generator):
            self.generator(value)
            return True
        elif isinstance(value, _tables.plain):
            self.text.append(repr(value))
        else:
            self.text.append(type(value).__name__)  # a process group, a Work: its repr holds an address
        return False


def _cover(severity, kind, subject, detail):
    _lib.twinbit_cover(severity, kind.encode(), str(subject).encode(errors="replace"), detail.encode(errors="replace"))


def _address(t):
    """Address of the first element. Asking the tensor itself would copy a storage that is shared until written."""
    const = getattr(_torch._C, "_data_address", None)
    return const(t) if const is not None else t.data_ptr()


def _place():
    """Node, its name and number; the number of the next forward node."""
    node = _torch._C._current_autograd_node()
    if node is None:
        return 0, 0, -1
    name = node.name()
    found = _nodes.get(name)
    if found is None:
        found = _nodes[name] = _intern(name)
    seq = node._sequence_nr()
    return id(node), found, seq if seq < 1 << 62 else -1  # a leaf's node has the greatest number there is


def _begin(op, kind, words, text):
    """Tell the library that a call begins; false: it does not record it."""
    global _last_seq
    node, name, seq = _place()
    _last_seq = _next_seq()
    args = text.encode(errors="replace")
    buffer = ctypes.create_string_buffer(args, len(args) + 1)
    call = array.array("q", (op.id, kind, node, name, seq, _last_seq, ctypes.addressof(buffer), len(args)))
    return _lib.twinbit_op_begin(call.buffer_info()[0], words.buffer_info()[0], len(words))


def _next_seq():
    return _torch._C._autograd._get_sequence_nr()


class _Pending:
    """A collective: what it wrote is known when its Work has finished, and is sent where it is first touched."""

    def __init__(self, op, text, written, result):
        self.op = op
        self.text = text
        self.written = written
        self.storages = {t.untyped_storage()._cdata for t, _ in written}
        self.work = None
        for value in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(value, _torch.ScriptObject):
                try:
                    self.work = _torch._C._distributed_c10d.Work.unbox(value)
                except Exception:
                    pass

    def done(self):
        if self.work is None:
            return True
        try:
            return self.work.get_future().done()
        except Exception:
            pass
        try:
            return self.work.is_completed()
        except Exception:
            return True

    def send(self):
        if _begin(self.op, _EV_COLL, array.array("q"), self.text):
            call = _Call(self.op)
            for t, name in self.written:
                call.tensor(t, _W, name)
            _lib.twinbit_op_end(call.words.buffer_info()[0], len(call.words), _PARTIAL if call.partial else 0)


def _settle(touched, toucher):
    for p in list(_pending):
        if touched is not None and not (p.storages & touched):
            continue
        if p.done():
            _pending.remove(p)
            p.send()
        elif touched is not None:
            _cover(1, "collective", p.op.name, "its buffer was touched before it had finished, by " + toucher)


def _describe(op, args, kwargs):
    """What a call reads and will write."""
    call = _Call(op)
    written = []
    drew = False
    for value, arg in zip(args, op.args):
        drew |= call.read(value, arg, written)
    for name, value in kwargs.items():
        arg = op.by_name.get(name)
        if arg is not None:
            call.text.append(name)
            drew |= call.read(value, arg, written)
    if op.rng and not drew:
        call.generator(_torch.default_generator)
    return call, written


def _results(op, written, result, known):
    """What a call wrote; a result that lies in what it read, without a mark, is a view and was not written."""
    call = _Call(op)
    views = 0
    for t, name in written:
        call.tensor(t, _W, name)
    outputs = (result,) if len(op.outs) == 1 else result if isinstance(result, (list, tuple)) else ()
    for value, arg, returned in zip(outputs, op.outs, op.returned):
        if returned or value is None:
            continue
        if isinstance(value, _torch.Tensor):
            views += not call.tensor(value, _W, arg.id, known)
        elif isinstance(value, (list, tuple)):
            for i, v in enumerate(value):
                if isinstance(v, _torch.Tensor):
                    views += not call.tensor(v, _W, arg.item(i), known)
        elif type(value) in (bool, int, float, complex):
            call.scalar(value, arg.id)
    call.silent |= bool(views) and not call.words
    return call


def _mark(op, value, lifted):
    call = _Call(op)
    for t in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(t, _torch.Tensor):
            call.tensor(t, _W, 0)
    _lib.twinbit_op_empty(call.words.buffer_info()[0], len(call.words), lifted)


def _failure(op, e):
    """Our failure is never the job's: say that a call was not recorded as it should have been."""
    _cover(1, "fallback", op.name, "not described: " + repr(e)[:200])


def _before(op, args, kwargs):
    """Everything that is done before a writer runs: its reads, what it will write, its text; None: not recorded."""
    with _torch._C.DisableTorchFunction():
        call, written = _describe(op, args, kwargs)
        text = " ".join(call.text)
        if _pending:
            _settle(call.storages | {t.untyped_storage()._cdata for t, _ in written}, op.name)
        begun = _begin(op, _EV_COLL if op.cls == _COLLECTIVE else _EV_OP, call.words, text)
    return (call, written, text) if begun else None


def _after(op, before, result):
    call, written, text = before
    with _torch._C.DisableTorchFunction():
        if op.cls == _COLLECTIVE:
            end = _Call(op)
            pending = _Pending(op, text, written, result)
            if written:
                _pending.append(pending)
        else:
            end = _results(op, written, result, call.storages)
    flags = (_SILENT if call.silent or end.silent else 0) | (_PARTIAL if call.partial or end.partial else 0)
    return end.words, flags


def _record(op, func, args, kwargs):
    before = None
    try:
        before = _before(op, args, kwargs)
    except Exception as e:
        _failure(op, e)
    if before is None:
        return func(*args, **kwargs)
    try:
        result = func(*args, **kwargs)
    except BaseException:
        _lib.twinbit_op_end(None, 0, _FAILED | (_SILENT if before[0].silent else 0))
        raise
    words, flags = before[0].words[:0], _PARTIAL
    try:
        words, flags = _after(op, before, result)
    except Exception as e:
        _failure(op, e)
    _lib.twinbit_op_end(words.buffer_info()[0], len(words), flags)
    return result


def _note_view(op, args):
    global _last_seq
    if _next_seq() != _last_seq:  # the view's own node belongs to the module that runs now
        _last_seq = _next_seq()
        _lib.twinbit_op_seq(_last_seq)
    if op.lift:
        _mark(op, args[0], 1)


def _dispatch(func, args, kwargs):
    op = _ops.get(func)
    if op is None:
        op = _ops[func] = _make_op(func)
    if op.cls == _IGNORE or not _lib.twinbit_op_wants():
        return func(*args, **kwargs)
    if op.cls in (_WRITER, _COLLECTIVE):
        return _record(op, func, args, kwargs)
    result = func(*args, **kwargs)
    try:
        with _torch._C.DisableTorchFunction():
            if op.cls == _EMPTY:
                _mark(op, result, 0)
            else:
                _note_view(op, args)
    except Exception as e:
        _failure(op, e)
    return result


def send_state(tensors, names):
    """Named tensors at a step's end; @names: interned."""
    for at in range(0, len(names), 256):
        call = _Call(None)
        for t, name in zip(tensors[at : at + 256], names[at : at + 256]):
            call.tensor(t, _S, name)
        _lib.twinbit_state_tensors(call.words.buffer_info()[0], len(call.words))


def _step_end(inner):
    def step_end(number):
        if _torch is not None:
            _settle(None, None)
            state = _torch.default_generator.get_state()
            _lib.twinbit_state_rng(_address(state), state.numel())
        inner(number)

    return step_end


def _make_mode():
    from torch.utils._python_dispatch import TorchDispatchMode

    class TwinbitMode(TorchDispatchMode):
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls):
            return True  # or torch.compile would compile nothing

        @classmethod
        def is_infra_mode(cls):
            return True

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return _dispatch(func, args, kwargs or {})

    return TwinbitMode()


def _start(module=None):
    """torch has been imported: from now on the mode sees this thread's operators."""
    global _torch, _tables, _mode
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "Tensor") or _mode is not None:
        return
    _torch = torch
    _tables = _Tables()
    _lib.twinbit_meta(b"tap", b"python")
    if not _lib.twinbit_op_level():
        return
    _cover(
        1,
        "fallback",
        "torch",
        "no C++ compiler: operators are seen by a Python dispatch mode, below autograd and on the main thread only",
    )
    _mode = _make_mode()
    _mode.__enter__()
    import atexit

    atexit.register(_leave)


def _leave():
    """While the interpreter is taken down nothing may call back into it."""
    global _mode
    depth = _torch._C._len_torch_dispatch_stack()
    if depth and _torch._C._get_dispatch_stack_at(depth - 1) is _mode:
        _mode.__exit__(None, None, None)


def _guarded():
    try:
        _start()
    except Exception as e:  # our failure is never the job's
        _cover(1, "fallback", "torch", "the Python tap did not start: " + repr(e))


def _after_import(module):
    """Call _guarded() when the import that is running has ended: it then clears a flag of the module's spec."""
    spec = getattr(module, "__spec__", None)
    if spec is None or not getattr(spec, "_initializing", False):
        _guarded()
        return
    plain = type(spec)

    class Spec(plain):
        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)
            if name == "_initializing" and not value:
                object.__setattr__(self, "__class__", plain)
                _guarded()

    spec.__class__ = Spec


def install(lib, wanted):
    """Prepare; @wanted: what _glue.py waits for, module names and what to call when they have been imported."""
    global _lib
    _lib = lib
    p, n = ctypes.c_void_p, ctypes.c_uint64
    lib.twinbit_op_begin.argtypes = [p, p, n]
    lib.twinbit_op_end.argtypes = [p, n, ctypes.c_uint32]
    lib.twinbit_op_end.restype = None
    lib.twinbit_op_empty.argtypes = [p, n, ctypes.c_int]
    lib.twinbit_op_seq.argtypes = [ctypes.c_int64]
    lib.twinbit_storage_drop.argtypes = [n]
    lib.twinbit_state_tensors.argtypes = [p, n]
    lib.twinbit_state_rng.argtypes = [p, n]
    lib.twinbit_step_end = _step_end(lib.twinbit_step_end)
    torch = sys.modules.get("torch")
    if torch is not None:
        _after_import(torch)
    else:
        wanted["torch"] = _start
