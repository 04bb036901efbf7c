"""What a DataLoader decides: the indices of each batch, the order in which workers' batches come, a DistributedSampler's pass.

Written down as streams (_decisions.py), one for each pass of each loader. In a replay a loader hands out the indices that
it had then, whatever its sampler says now, and takes batches in the order in which they came. Loaded when a job imports
torch.utils.data.
"""

from __future__ import annotations

import array
import binascii
import functools
import time
import weakref
from _struct import pack, unpack  # struct may be a file of the job's

_MOST = 32 << 20  # bytes of indices that one process writes down
_END, _FULL, _OTHER = b"E", b"~", b"?"
_OVER = object()  # what a sampler gives when it has no more
_PLAIN = (int, str, bytes, float, bool, type(None))


class _Data:
    """What the functions below share; one for the process."""

    def __init__(self, decisions):
        self.decisions = decisions
        self.bytes = 0
        self.epochs = weakref.WeakKeyDictionary()  # of samplers: the epoch of their last pass


# ---------------------------------------------------------------- the indices of a batch


def _is_plain(value, depth=0):
    return type(value) in _PLAIN or depth < 3 and type(value) in (list, tuple) and \
        all(_is_plain(v, depth + 1) for v in value)


def _is_number(value):
    """Tensors are numbers as well, but to ask one is an operator that the job did not call."""
    return type(value) is int or type(value).__module__ == "numpy" and hasattr(value, "__index__")


def _pack(index):
    """One byte for its kind, then 4 or 8 bytes a sample; what is no number is a checksum, or nothing is known of it."""
    several = type(index) in (list, tuple)
    batch = index if several else [index]
    for kind, code in zip("Iq" if several else "is", "Iq") if all(map(_is_number, batch)) else ():
        try:
            return kind.encode() + array.array(code, batch).tobytes()
        except (TypeError, OverflowError, ValueError):
            pass
    return b"h%08x" % binascii.crc32(repr(index).encode()) if _is_plain(index) else _OTHER


def _unpack(value, natural):
    """The batch that @value stands for, in the types of @natural; None: it cannot be made."""
    kind = {b"I": "I", b"i": "I", b"q": "q", b"s": "q"}.get(value[:1])
    if kind is None:
        return None
    batch, several = array.array(kind, value[1:]).tolist(), value[:1] in b"Iq"
    if natural is not _OVER:
        like = natural if type(natural) in (list, tuple) else [natural]
        if several != (like is natural) or not all(map(_is_number, like)):
            return None
        if like and type(like[0]) is not int:
            try:
                batch = [type(like[0])(i) for i in batch]
            except (TypeError, ValueError, OverflowError):
                return None
    return tuple(batch) if type(natural) is tuple else batch if several else batch[0]


def _shape(loader, arrivals):
    """What must be the same for the numbers of samples, or of batches, to mean the same."""
    try:
        text = f"{len(loader._dataset)} samples"
    except Exception:
        text = type(loader._dataset).__name__
    return f"{text}, {type(loader._index_sampler).__name__}" + (f", {loader._num_workers} workers" if arrivals else "")


def _stream(data, loader, name, kind):
    """Of this pass: its sampler's iterator is another one in each."""
    attribute = "_twinbit_" + name
    held = loader.__dict__.get(attribute)
    if held is None or held[0] is not loader._sampler_iter:
        stream = data.decisions.open(kind, f"DataLoader {name}", _shape(loader, name == "arrivals"))
        held = loader.__dict__[attribute] = (loader._sampler_iter, stream, {})
    return held[1], held[2]


def _write(data, stream, state, value, put_back=False):
    if data.bytes > _MOST or state.get("ended"):
        return
    data.bytes += len(value) + 80
    if data.bytes > _MOST:
        value = _FULL
    stream.write(value, put_back)
    state["ended"] = value in (_END, _FULL)


def _repeat(data, stream, state, natural):
    """What this run's sampler gave against what it gave then: the batch that is handed out, or _OVER."""
    found = stream.recorded()
    if found is None:
        return natural
    value = found[0]
    if value == _FULL:
        stream.part("the indices were too many to write them down")
        return natural
    mine = _END if natural is _OVER else _pack(natural)
    if mine == value:
        _write(data, stream, state, value)
        return natural
    batch = _OVER if value == _END else _unpack(value, natural)
    if batch is None or mine == _OTHER:
        stream.part("it was asked for other samples, which the log does not name")
        return natural
    _write(data, stream, state, value, put_back=True)
    return batch


def _wrap_indices(data, owner):
    inner = owner._next_index

    def ask(self):
        try:
            return inner(self)
        except StopIteration:
            return _OVER

    def choose(self):
        if _is_iterable(self):
            return inner(self)
        stream, state = _stream(data, self, "indices", data.decisions.INDICES)
        if stream is None or not stream.alive():
            return inner(self)
        if state.get("over"):
            raise StopIteration
        index = ask(self)
        if stream.replayed:
            index = _repeat(data, stream, state, index)
        if not stream.replayed:
            _write(data, stream, state, _END if index is _OVER else _pack(index))
        if index is _OVER:
            state["over"] = True
            raise StopIteration
        return index

    @functools.wraps(inner)
    def _next_index(self):
        try:
            return choose(self)
        except BaseException as error:
            data.decisions.hide(error)
            raise

    owner._next_index = _next_index


def _is_iterable(loader):
    return getattr(loader, "_dataset_kind", 0) != 0


# ---------------------------------------------------------------- the order in which batches come


def _early(data, loader, early, inner, number, took):
    """Take what comes until @number does; False: it does not, and others have."""
    limit = None
    while number not in early:
        if not early:
            came = inner(loader)
        else:
            limit = limit or time.monotonic() + data.decisions.patience(took)
            if time.monotonic() >= limit:
                data.decisions.gave_up()
                return False
            good, came = loader._try_get_data(max(0.01, min(1.0, limit - time.monotonic())))
            if not good:
                continue
        early[came[0]] = came[1]
    return True


def _arrival(data, loader, stream, early, inner):
    """Number and data of the batch that is to be taken next."""
    found = stream.recorded()
    if found is not None:
        number, = unpack("<i", found[0])
        if number not in early and len(loader._task_info.get(number, ())) != 1:
            stream.part(f"batch {number} came next then, and is not on its way now")
        elif _early(data, loader, early, inner, number, found[1]):
            return number, early.pop(number)
        else:
            stream.part(f"batch {number}, which came next then, did not come; others have")
    if early:
        number = next(iter(early))
        return number, early.pop(number)
    return inner(loader)


def _wrap_arrivals(data, owner):
    inner = owner._get_data

    def take(self):
        if getattr(self, "_in_order", True) and not _is_iterable(self) or not self._task_info:
            return inner(self)
        stream, early = _stream(data, self, "arrivals", data.decisions.ARRIVAL)
        if stream is None or not stream.alive():
            return inner(self)
        number, batch = _arrival(data, self, stream, early, inner) if stream.replayed or early else inner(self)
        if type(number) is int:
            stream.write(pack("<i", number))
        return number, batch

    @functools.wraps(inner)
    def _get_data(self):
        try:
            return take(self)
        except BaseException as error:
            data.decisions.hide(error)
            raise

    owner._get_data = _get_data


def after_loader(data, module):
    """torch.utils.data.dataloader has been loaded."""
    _wrap_indices(data, module._BaseDataLoaderIter)
    _wrap_arrivals(data, module._MultiProcessingDataLoaderIter)


# ---------------------------------------------------------------- DistributedSampler


def _told_pass(data, sampler, indices):
    """Seed, epoch and a checksum of a pass; the last byte: its epoch is that of the pass before."""
    stream = data.decisions.open(data.decisions.PASS, "DistributedSampler", f"rank {sampler.rank} of {sampler.num_replicas}")
    if stream is None:
        return
    epoch, shuffle = int(sampler.epoch), bool(sampler.shuffle)
    again = shuffle and data.epochs.get(sampler) == epoch
    data.epochs[sampler] = epoch
    value = pack("<qqIB", int(sampler.seed), epoch, binascii.crc32(array.array("q", indices).tobytes()), again)
    found = stream.recorded() if stream.replayed else None
    if found is not None and found[0] != value:
        seed, before, *_ = unpack("<qqIB", found[0])
        stream.part(f"seed {seed}, epoch {before} then; seed {int(sampler.seed)}, epoch {epoch} now, with other indices")
    stream.write(value)


def after_sampler(data, module):
    """torch.utils.data.distributed has been loaded."""
    owner = module.DistributedSampler
    inner = owner.__iter__

    @functools.wraps(inner)
    def __iter__(self):
        try:
            indices = list(inner(self))
        except BaseException as error:
            data.decisions.hide(error)
            raise
        try:
            _told_pass(data, self, indices)
        except Exception:
            pass
        return iter(indices)

    owner.__iter__ = __iter__
