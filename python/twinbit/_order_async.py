"""asyncio's as_completed() and wait(): in which order what ends is handed out, as _order.py does it for threads.

What Python's own as_completed() is given are stand-ins: each tells that its future has ended when it is its turn, which is at once
unless an order is repeated. Loaded when a job imports asyncio. Nothing here waits while the loop stands still.
"""

from __future__ import annotations

import functools
import sys
import time
from _struct import pack, unpack  # struct may be a file of the job's

_TIMED_OUT, _ENDED, _CANCELLED = -1, -2, pack("<i", -3)
_SLICE = 0.2  # seconds between two looks at what else has come
_GENERATOR = 0x20  # of a function's code


class _Held:
    """Stands for a future, in the sets and for the callbacks of Python's own."""

    _asyncio_future_blocking = False  # by which asyncio knows a future

    def __init__(self, turns, rank, future):
        self.turns, self.rank, self.future = turns, rank, future
        self.waiting = []

    def __hash__(self):
        return hash(self.future)

    def __eq__(self, other):
        return other is self or other is self.future

    def get_loop(self):
        return self.future.get_loop()

    def add_done_callback(self, function, *, context=None):
        if not self.waiting:
            self.future.add_done_callback(self._ended, context=context)
        self.waiting.append(function)

    def remove_done_callback(self, function):
        """Only a time-out does so."""
        before = len(self.waiting)
        self.waiting = [f for f in self.waiting if f != function]
        self.turns.timed_out()
        return before - len(self.waiting)

    def _ended(self, _):
        self.turns.ended(self)

    def tell(self):
        for function in self.waiting:
            function(self.future)


class _Turns:
    """One as_completed(): whose turn it is. `left`: the loop was left early, and nothing is handed out any more."""

    def __init__(self, order, stream, loop, futures, timeout):
        self.decisions, self.stream, self.loop = order.decisions, stream, loop
        self.sorts = order.sorts and not (stream and stream.replayed)
        self.timeout, self.left, self.over = timeout, False, False
        self.held = [_Held(self, rank, future) for rank, future in enumerate(futures)]
        self.came, self.told = {}, set()  # rank -> those that wait for their turn; ranks
        self.timer = None

    def ended(self, held):
        if not self.over:
            self.came[held.rank] = held
            self.advance()

    def advance(self):
        while self.came:
            rank, took = self._wanted()
            if rank is not None and rank not in self.came:
                self._patience(rank, took)
                return
            self._unarmed()
            held = self.came.pop(next(iter(self.came)) if rank is None else rank)
            self.told.add(held.rank)
            if self.stream and not self.left:
                self.stream.write(pack("<i", held.rank))
            held.tell()

    def _wanted(self):
        """(rank, seconds that it took then) of the next one; rank None: whatever has come."""
        stream = self.stream
        if self.left:
            return None, None
        if not stream or not stream.replayed:
            return (len(self.told) if self.sorts else None), None
        found = stream.recorded()
        if found is None:
            return None, None
        rank, = unpack("<i", found[0])
        if rank == _ENDED:
            self.leave()
            return None, None
        if rank == _TIMED_OUT and self.timeout is not None:
            return rank, None
        if not 0 <= rank < len(self.held) or rank in self.told:
            stream.part("it timed out then, and has no time-out now" if rank == _TIMED_OUT else
                        f"number {rank} of the submitted was handed out then")
            return None, None
        return rank, found[1]

    def _patience(self, rank, took):
        if took is not None and self.timer is None:
            self.timer = self.loop.call_later(self.decisions.patience(took), self._late, rank)

    def _unarmed(self):
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _late(self, rank):
        self.timer = None
        self.decisions.gave_up()
        self.stream.part(f"number {rank} of the submitted, which came next then, did not end; others have")
        self.advance()

    def leave(self):
        if not self.left and len(self.told) < len(self.held) and not self.over:
            self.left = True
            if self.stream:
                self.stream.write(pack("<i", _ENDED))

    def timed_out(self):
        if self.over or self.left:
            return
        self.over = True
        self._unarmed()
        self.came.clear()
        if not self.stream:
            return
        found = self.stream.recorded() if self.stream.replayed else None
        if found is not None and found[0] != pack("<i", _TIMED_OUT):
            self.stream.part("it timed out now, and did not then")
        self.stream.write(pack("<i", _TIMED_OUT))


# ---------------------------------------------------------------- which are meant


def _name_of(future):
    name = future.get_name()
    head = name.rstrip("0123456789")
    return head, int(name[len(head):] or -1)


def _in_order(fs):
    """Each once. A set has the order of addresses, so its tasks go by their names; None: they cannot be told apart."""
    if not isinstance(fs, (set, frozenset)):
        return list(dict.fromkeys(fs))
    if not all(hasattr(f, "get_name") for f in fs) or len({f.get_name() for f in fs}) < len(fs):
        return None
    return sorted(fs, key=_name_of)


def _scope(tasks):
    """Of a stream: tasks take turns in one thread, but each by itself goes one way."""
    task = tasks.current_task()
    return task.get_name() if task is not None and hasattr(task, "get_name") else ""


def _open(order, tasks, name, shape):
    return order.decisions.open(order.decisions.COMPLETION, name, shape, _scope(tasks))


def _turns(order, tasks, fs, timeout):
    """(what is given to Python's own, the turns); coroutines become tasks in the order in which they were given."""
    loop = tasks.events._get_running_loop()
    if loop is None or not hasattr(fs, "__iter__") or tasks.futures.isfuture(fs) or tasks.coroutines.iscoroutine(fs):
        return fs, None
    if not isinstance(fs, (set, frozenset)):
        fs = list(fs)
    given = _in_order(fs)
    if given is None:
        return fs, None
    futures = list(dict.fromkeys(tasks.ensure_future(f, loop=loop) for f in given))
    stream = _open(order, tasks, "asyncio.as_completed", f"{len(futures)} futures")
    if not stream and not order.sorts:
        return futures, None
    turns = _Turns(order, stream, loop, futures, timeout)
    return turns.held, turns


# ---------------------------------------------------------------- wait


async def _all_ended(own, order, wanted, futures, end, took):
    """Wait for those that were done then; False: they do not end, and others have."""
    limit = None
    while True:
        left = [f for f in wanted if not f.done()]
        if not left:
            return True
        now = time.monotonic()
        if limit is not None and now >= limit:
            order.decisions.gave_up()
            return False
        if limit is None and (end is not None and now >= end or any(f.done() for f in futures if f not in wanted)):
            limit = now + order.decisions.patience(took)
        await own(left, timeout=_SLICE if limit is None else min(_SLICE, limit - now))


async def _wait_repeated(own, order, stream, futures, timeout):
    """Done are those that were then; None: they are not."""
    found = stream.recorded()
    if found is None or found[0] == _CANCELLED:
        return None
    ranks = unpack(f"<{len(found[0]) // 4}I", found[0])
    if not ranks and timeout is None:
        stream.part("it timed out then, and has no time-out now")
        return None
    wanted = {futures[rank] for rank in ranks if rank < len(futures)}
    end = None if timeout is None else time.monotonic() + timeout
    if len(wanted) == len(ranks) and await _all_ended(own, order, wanted, futures, end, found[1]):
        return wanted
    missing = next((rank for rank in ranks if rank >= len(futures) or not futures[rank].done()), 0)
    stream.part(f"number {missing} of the submitted, which was done then, did not end; others have")
    return None


async def _wait_sorted(own, futures, timeout, return_when):
    """Done are the first ones, by submission, that are enough."""
    end, done = None if timeout is None else time.monotonic() + timeout, set()
    for future in futures:
        if not (await own([future], timeout=None if end is None else max(0, end - time.monotonic())))[0]:
            break
        done.add(future)
        if return_when == "FIRST_COMPLETED" or return_when == "FIRST_EXCEPTION" and not future.cancelled() and \
                future.exception() is not None:
            break
    return done


async def _wait(own, order, stream, futures, timeout, return_when, sleep):
    began, done, cancelled = time.monotonic(), None, False
    if stream and stream.replayed:
        cancelled = (stream.recorded() or (b"",))[0] == _CANCELLED
        done = await _wait_repeated(own, order, stream, futures, timeout)
        if done is None and timeout is not None:
            timeout = max(0, timeout - (time.monotonic() - began))
        if done is not None:
            await sleep(0)  # who waits lets others run
    elif order.sorts:
        done = await _wait_sorted(own, futures, timeout, return_when)
    if done is None:
        done = (await own(futures, timeout=timeout, return_when=return_when))[0]
    if cancelled:
        stream.part("it was cancelled then, and is not now")
    return done


def _parted(order, futures, done):
    """What wait() returns."""
    made = order.ordered
    return made(f for f in futures if f in done), made(f for f in futures if f not in done)


async def _noted(own, order, tasks, futures, timeout, return_when):
    stream = _open(order, tasks, "asyncio.wait", f"{len(futures)} futures, {return_when}")
    if not stream and not order.sorts:
        return (await own(futures, timeout=timeout, return_when=return_when))[0]
    try:
        done = await _wait(own, order, stream, futures, timeout, return_when, tasks.sleep)
    except BaseException:
        if stream:
            stream.write(_CANCELLED)
        raise
    ranks = [rank for rank, f in enumerate(futures) if f in done]
    if stream:
        stream.write(pack(f"<{len(ranks)}I", *ranks))
    return done


# ---------------------------------------------------------------- in place of Python's


def _of_as_completed(order, tasks, own):
    if not own.__code__.co_flags & _GENERATOR:  # since 3.13
        @functools.wraps(own)
        def as_completed(fs, *, timeout=None):
            try:
                return own(_turns(order, tasks, fs, timeout)[0], timeout=timeout)
            except BaseException as error:
                order.decisions.hide(error)
                raise

        return as_completed

    @functools.wraps(own)
    def as_completed(fs, *, timeout=None):
        turns = None
        try:
            fs, turns = _turns(order, tasks, fs, timeout)
            yield from own(fs, timeout=timeout)
        except BaseException as error:
            if isinstance(error, GeneratorExit) and turns is not None:  # the others are handed to nobody
                turns.leave()
                turns.advance()
            order.decisions.hide(error)
            raise

    return as_completed


def _of_wait(order, tasks, own):
    async def ask(fs, timeout, return_when):
        if not isinstance(fs, (set, frozenset)) and hasattr(fs, "__iter__") and not tasks.futures.isfuture(fs) and \
                not tasks.coroutines.iscoroutine(fs):
            fs = list(fs)
        odd = not isinstance(fs, (list, set, frozenset)) or \
            return_when not in (tasks.FIRST_COMPLETED, tasks.FIRST_EXCEPTION, tasks.ALL_COMPLETED)
        futures = None if odd or not fs or not all(map(tasks.futures.isfuture, fs)) else _in_order(fs)
        if futures is None:
            return await own(fs, timeout=timeout, return_when=return_when)
        if timeout is None and return_when == tasks.ALL_COMPLETED:
            done = (await own(futures, return_when=return_when))[0]
        else:
            done = await _noted(own, order, tasks, futures, timeout, return_when)
        return _parted(order, futures, done)

    @functools.wraps(own)
    async def wait(fs, *, timeout=None, return_when=tasks.ALL_COMPLETED):
        try:
            return await ask(fs, timeout, return_when)
        except BaseException as error:
            order.decisions.hide(error)
            raise

    return wait


def after_tasks(order, tasks):
    """asyncio.tasks has been loaded; its package takes these names from it. Before Python 3.10 they take a loop, and stay."""
    if tasks.wait.__code__.co_kwonlyargcount != 2:
        return
    order.ordered = sys.modules["_twinbit_pins"]._part("_order_sets").Ordered
    ours = {"as_completed": _of_as_completed(order, tasks, tasks.as_completed), "wait": _of_wait(order, tasks, tasks.wait)}
    for name, function in ours.items():
        own = getattr(tasks, name)
        for module in (tasks, sys.modules.get("asyncio")):
            if getattr(module, name, None) is own:
                setattr(module, name, function)
