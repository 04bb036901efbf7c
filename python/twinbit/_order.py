"""What ends by itself: concurrent.futures' as_completed() and wait(), multiprocessing's imap_unordered().

The order in which results are handed out is written down, by the number of their submission; in a replay it is what it was
then; under `data.completion_order=@sort` it is that of submission. Loaded when a job imports one of these packages. The
functions that stand here in place of Python's have their names, signatures and types.
"""

from __future__ import annotations

import functools
import itertools
import sys
import time
from _collections import deque
from _struct import pack, unpack  # struct may be a file of the job's
from _thread import allocate_lock

_TIMED_OUT, _ENDED = -1, -2
_SLICE = 0.2  # seconds between two looks at what else has come


class _Order:
    """What the functions below share; one for the process."""

    def __init__(self, decisions, sorts):
        self.decisions, self.sorts = decisions, sorts
        self.base = self.as_completed = self.wait = None  # Python's own
        self._numbers = itertools.count()

    def number(self):
        """Of a future: its thread, and how many that one had made before."""
        thread = self.decisions.thread()
        return thread, self.decisions.count("future") if thread else next(self._numbers)

    def open(self, name, shape):
        return self.decisions.open(self.decisions.COMPLETION, name, shape)


def _number_of(order, future):
    found = future.__dict__.get("_twinbit_number")
    if found is None:
        found = future.__dict__["_twinbit_number"] = order.number()
    return found


def _wrap_future(order, Future):
    """Numbers from the moment of submission. They are its hash as well: a set of futures is then gone through in the same
    order each time, and not in that of their addresses."""
    inner = Future.__init__

    @functools.wraps(inner)
    def __init__(self):
        inner(self)
        _number_of(order, self)

    def __hash__(self):
        return hash(_number_of(order, self))

    Future.__init__ = __init__
    Future.__hash__ = __hash__


def _listed(fs):
    return list(fs) if hasattr(fs, "__iter__") else fs


def _by_number(order, futures):
    """None: there is one among them that is no future, or nothing to go through; Python says what it thinks of it."""
    if not isinstance(futures, list):
        return None
    futures = set(futures)
    if all(isinstance(f, order.base.Future) for f in futures):
        return sorted(futures, key=lambda f: _number_of(order, f))
    return None


# ---------------------------------------------------------------- waiting


def _finished(order, futures):
    """Is one of them? A cancelled one is so only when its executor knows."""
    return bool(order.wait(futures, 0, order.base.FIRST_COMPLETED).done)


def _await(order, future, others, end, took):
    """Wait for @future, which came then, @took seconds after the begin; False: it does not. While nothing else has come,
    there is nothing else to do, so that wait has no end but the caller's, with some patience behind it."""
    limit = None
    while not order.wait([future], _SLICE if limit is None else _left(limit)).done:
        now = time.monotonic()
        if limit is not None and now >= limit:
            order.decisions.gave_up()
            return False
        if limit is None and (end is not None and now >= end or _finished(order, others())):
            limit = now + order.decisions.patience(took)
    return True


def _left(end):
    return None if end is None else max(0.0, end - time.monotonic())


# ---------------------------------------------------------------- as_completed


def _noted(order, stream, futures, ranks, timeout):
    """As Python does it, written down. No future is held here while the job has it."""
    inner = order.as_completed(futures, timeout)
    del futures
    try:
        while True:
            try:
                held = [next(inner)]
            except StopIteration:
                return
            except order.base.TimeoutError:
                stream.write(pack("<i", _TIMED_OUT))
                raise
            stream.write(pack("<i", ranks[id(held[0])]))
            yield held.pop()
    finally:
        inner.close()


def _unfinished(order, left, total):
    return order.base.TimeoutError(f"{len(left)} (of {total}) futures unfinished")


def _repeated(order, stream, left, timeout):
    """In the order of the run that is repeated, as far as that goes; @left: futures by rank, taken out as they go."""
    total, end = len(left), None if timeout is None else time.monotonic() + timeout
    while left:
        found = stream.recorded()
        if found is None:
            return
        rank, = unpack("<i", found[0])
        if rank == _TIMED_OUT and timeout is not None:
            stream.write(found[0])
            raise _unfinished(order, left, total)
        if rank not in left:
            stream.part("it timed out then, and has no time-out now" if rank == _TIMED_OUT else
                        f"number {rank} of the submitted was handed out then")
            return
        if not _await(order, left[rank], left.values, end, found[1]):
            stream.part(f"number {rank} of the submitted, which came next then, did not end; others have")
            return
        stream.write(found[0])
        yield left.pop(rank)


def _sorted(order, stream, left, timeout):
    """In the order of submission."""
    total, end = len(left), None if timeout is None else time.monotonic() + timeout
    for rank in sorted(left):
        if not order.wait([left[rank]], _left(end)).done:
            if stream:
                stream.write(pack("<i", _TIMED_OUT))
            raise _unfinished(order, left, total)
        if stream:
            stream.write(pack("<i", rank))
        yield left.pop(rank)


def _as_completed(order, box, timeout):
    fs = _listed(box.pop())
    futures = _by_number(order, fs)
    if futures is None:
        yield from order.as_completed(fs, timeout)
        return
    del fs
    began = time.monotonic()
    stream = order.open("as_completed", f"{len(futures)} futures")
    if stream and stream.replayed or order.sorts:
        left = dict(enumerate(futures))
        del futures
        repeats = stream and stream.replayed
        yield from (_repeated if repeats else _sorted)(order, stream, left, timeout)
        if not left:
            return
        ranks = {id(f): rank for rank, f in left.items()}
        futures = list(left.values())
        left.clear()
        if timeout is not None:
            timeout -= time.monotonic() - began
    else:
        ranks = {id(f): rank for rank, f in enumerate(futures)}
    inner = _noted(order, stream, futures, ranks, timeout) if stream else order.as_completed(futures, timeout)
    del futures
    yield from inner


# ---------------------------------------------------------------- wait


def _wait_sorted(order, futures, timeout, return_when):
    """Done are the first ones, by submission, that are enough."""
    end, done = None if timeout is None else time.monotonic() + timeout, []
    for future in futures:
        if not order.wait([future], _left(end)).done:
            break
        done.append(future)
        if return_when == order.base.FIRST_COMPLETED:
            break
        if return_when == order.base.FIRST_EXCEPTION and not future.cancelled() and future.exception() is not None:
            break
    return done


def _wait_repeated(order, stream, futures, timeout):
    """Done are those that were then; None: they are not."""
    end, found = None if timeout is None else time.monotonic() + timeout, stream.recorded()
    if found is None:
        return None
    ranks = unpack(f"<{len(found[0]) // 4}I", found[0])
    if not ranks and futures and timeout is None:
        stream.part("it timed out then, and has no time-out now")
        return None
    for rank in ranks:
        if rank >= len(futures) or not _await(order, futures[rank], lambda: futures, end, found[1]):
            stream.part(f"number {rank} of the submitted, which was done then, did not end; others have")
            return None
    return [futures[rank] for rank in ranks]


def _wait(order, fs, timeout, return_when):
    fs = _listed(fs)
    base = order.base
    known = return_when in (base.FIRST_COMPLETED, base.FIRST_EXCEPTION, base.ALL_COMPLETED)
    futures = _by_number(order, fs) if known else None
    if futures is None:
        return order.wait(fs, timeout, return_when)
    began, done = time.monotonic(), None
    trivial = timeout is None and return_when == base.ALL_COMPLETED or not futures
    stream = None if trivial else order.open("wait", f"{len(futures)} futures, {return_when}")
    if stream and stream.replayed:
        done = _wait_repeated(order, stream, futures, timeout)
        if timeout is not None:
            timeout = max(0, timeout - (time.monotonic() - began)) if done is None else timeout
    elif order.sorts and not trivial:
        done = _wait_sorted(order, futures, timeout, return_when)
    if done is None:
        done = order.wait(futures, timeout, return_when).done
    ranks = {id(f): rank for rank, f in enumerate(futures)}
    chosen = sorted(ranks[id(f)] for f in done)
    if stream:
        stream.write(pack(f"<{len(chosen)}I", *chosen))
    done, chosen = {futures[rank] for rank in chosen}, set(chosen)
    return order.base.DoneAndNotDoneFutures(done, {f for f in futures if ranks[id(f)] not in chosen})


def after_futures(order, base):
    """concurrent.futures._base has been loaded; its package takes these names from it."""
    order.base, order.as_completed, order.wait = base, base.as_completed, base.wait
    _wrap_future(order, base.Future)

    @functools.wraps(base.as_completed)
    def as_completed(fs, timeout=None):
        box = [fs]
        del fs  # what has been handed out is the job's alone
        try:
            yield from _as_completed(order, box, timeout)
        except BaseException as error:
            order.decisions.hide(error)
            raise

    @functools.wraps(base.wait)
    def wait(fs, timeout=None, return_when=base.ALL_COMPLETED):
        try:
            return _wait(order, fs, timeout, return_when)
        except BaseException as error:
            order.decisions.hide(error)
            raise

    for module in (base, sys.modules.get("concurrent.futures")):
        for name, inner, ours in (("as_completed", order.as_completed, as_completed), ("wait", order.wait, wait)):
            if getattr(module, name, None) is inner:
                setattr(module, name, ours)


# ---------------------------------------------------------------- imap_unordered


class _Failed:
    """Stands for an iterator that has this one result: Python's own next() raises it, in a frame of its own."""

    def __init__(self, result):
        self._cond, self._items = allocate_lock(), deque([result])


class _Pulls:
    """What one iterator of imap_unordered() has beside Python's own: results that came before their turn."""

    def __init__(self, order):
        self.order = order
        self.stream = order.open("imap_unordered", "")
        self.early = {}  # number -> (success, value), in the order in which they came
        self.turn = 0  # under @sort
        self.ended = False

    def note(self, number):
        if self.stream and not self.ended:
            self.stream.write(pack("<i", number))
        self.ended = number == _ENDED


def _pull(iterator, inner, pulls, timeout, number, took):
    """Until @number has come; else one of those that have, or what @inner raises where there is none. @took: as _await();
    None: there is no such patience."""
    early, decisions = pulls.early, pulls.order.decisions
    end, limit = None if timeout is None else time.monotonic() + timeout, None
    while number not in early:
        if limit is None and early and took is not None:
            limit = time.monotonic() + decisions.patience(took)
        try:
            came, result = inner(iterator, _left(end if limit is None else limit))
            early[came] = result
        except StopIteration:
            if early:
                break
            raise
        except pulls.timed_out:
            if took is None:
                raise
            if limit is None:
                limit = time.monotonic() + decisions.patience(took)
            elif time.monotonic() >= limit:
                decisions.gave_up()
                if early:
                    break
                raise
    return number if number in early else next(iter(early))


def _next_repeated(iterator, inner, pulls, timeout):
    """The number that came next then; None: whatever comes."""
    stream = pulls.stream
    found = None if pulls.ended else stream.recorded()
    if found is None:
        return None
    number, = unpack("<i", found[0])
    if number == _TIMED_OUT:
        if timeout is not None:
            raise pulls.timed_out
        stream.part("it timed out then, and has no time-out now")
        return None
    if number == _ENDED:
        if not pulls.early:
            came, result = inner(iterator, timeout)
            pulls.early[came] = result
        stream.part("it had no more then")
        return None
    try:
        got = _pull(iterator, inner, pulls, timeout, number, found[1])
    except (StopIteration, pulls.timed_out):
        stream.part(f"task {number} came next then, and nothing comes now")
        raise
    if got != number:
        stream.part(f"task {number}, which came next then, did not end; others have")
    return got


def _next_number(iterator, inner, pulls, timeout):
    number = None
    if pulls.stream and pulls.stream.replayed:
        number = _next_repeated(iterator, inner, pulls, timeout)
    elif pulls.order.sorts:
        number = _pull(iterator, inner, pulls, timeout, pulls.turn, None)
    if number is None and pulls.early:
        number = next(iter(pulls.early))
    if number is None:
        number, pulls.early[number] = inner(iterator, timeout)
    return number


def after_pool(order, module):
    """multiprocessing.pool has been loaded. Results are kept with their number; a result that is an error is none to
    Python's own next(), so whatever that raises is about time or the end."""
    owner = module.IMapUnorderedIterator
    begin, put, inner = owner.__init__, owner._set, owner.next
    _Pulls.timed_out = module.TimeoutError

    @functools.wraps(begin)
    def __init__(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        self._twinbit_pulls = _Pulls(order)

    @functools.wraps(put)
    def _set(self, i, obj):
        put(self, i, (True, (i, obj)))

    @functools.wraps(inner)
    def next(self, timeout=None):
        pulls = self._twinbit_pulls
        try:
            number = _next_number(self, inner, pulls, timeout)
        except BaseException as error:
            if isinstance(error, (module.TimeoutError, StopIteration)):
                pulls.note(_ENDED if isinstance(error, StopIteration) else _TIMED_OUT)
            order.decisions.hide(error)
            raise
        result = pulls.early.pop(number)
        pulls.turn += 1
        pulls.note(number)
        if result[0]:
            return result[1]
        try:
            return inner(_Failed(result))
        except BaseException as error:
            order.decisions.hide(error)
            raise

    owner.__init__, owner._set, owner.next, owner.__next__ = __init__, _set, next, next
    _count_pools(order, module.Pool)


def _count_pools(order, owner):
    """Which of a pool's workers takes which task is not written down; that there is one is."""
    begin = owner.__init__

    @functools.wraps(begin)
    def __init__(self, *args, **kwargs):
        thread, decisions = order.decisions.thread(), order.decisions
        if thread:
            decisions.note(decisions.TASK, (thread, decisions.count("pool") | 1 << 62), b"")
        try:
            begin(self, *args, **kwargs)
        except BaseException as error:
            decisions.hide(error)
            raise

    owner.__init__ = __init__
