"""ThreadPoolExecutor: which of its threads takes which task, as the how-manieth, and at which submission each thread is made.

Written down by the number of the task's future; in a replay an executor's queue gives each thread the tasks that it took then, one
after the other as then: several threads, or tasks, may submit at once. What a task itself opens or submits is told apart by the
task, whichever thread runs it. Loaded when a job imports concurrent.futures.thread.
"""

from __future__ import annotations

import collections
import functools
import heapq
import itertools
import sys
import time
import weakref
from _struct import pack, unpack  # struct may be a file of the job's
from _thread import get_ident

_MOST = 16 << 20  # bytes that one process writes down
_ANY, _NOBODY = None, -1  # in place of a thread: whichever comes; the task was cancelled then before it was taken
_NO_MORE = 1 << 62  # threads are made, at any submission


class _Threads:
    """What the functions below share; one for the process."""

    def __init__(self, order):
        self.order, self.decisions = order, order.decisions
        self.workers = {}  # thread's own number -> [its executor's queue, which of its threads, how many tasks it took]
        self.states = {}  # id of an executor -> (reference to it, what is known of it): its own attributes are the job's
        self.bytes = 0

    def number(self, item):
        return sys.modules["_twinbit_order"]._number_of(self.order, item.future)

    def took(self, number, worker, since):
        worker[2] += 1
        if self.bytes < _MOST:
            self.bytes += 84
            value = pack("<II", worker[1], worker[2])
            self.decisions.note(self.decisions.TASK, number, value, time.monotonic_ns() - since)

    def keep(self, executor, state):
        key, states = id(executor), self.states
        states[key] = weakref.ref(executor, lambda _: states.pop(key, None)), state

    def state(self, executor):
        found = self.states.get(id(executor))
        return found[1] if found is not None and found[0]() is executor else None


class _Queue:
    """Of an executor, in a replay. Each task has its thread and its turn there; what has none is for whoever comes. A task that
    is not taken has some patience, as long as a thread has nothing to do; then the executor goes its own way."""

    def __init__(self, threads, stream, nothing):
        import threading

        self.threads, self.stream, self.nothing = threads, stream, nothing
        self.changed = threading.Condition()  # an RLock: a callback of the garbage collector's may put something
        self.items = collections.defaultdict(list)  # thread -> heap of (turn, number, what was put, seconds until taken, when put)
        self.numbers = itertools.count()
        self.loose = False
        self.wanted = _ANY  # of what was put last

    def put(self, item):
        with self.changed:
            self.wanted, turn, took = _ANY, 0, 0
            if item is not None and not self.loose:
                found = self.threads.decisions.noted(self.threads.decisions.TASK, self.threads.number(item))
                self.wanted, turn = (_NOBODY, 0) if found is None else unpack("<II", found[0])
                took = 0 if found is None else found[1]
            heapq.heappush(self.items[self.wanted], (turn, next(self.numbers), item, took, time.monotonic()))
            self.changed.notify_all()

    def let_go(self):
        """What is left is for whoever comes, in the order in which it was put."""
        with self.changed:
            self.loose = True
            left = sorted((number, *rest) for heap in self.items.values() for _, number, *rest in heap)
            self.items.clear()
            self.items[_ANY] = [(0, *item) for item in left]
            self.changed.notify_all()

    def _part(self, why):
        self.stream.part(why)
        self.let_go()

    def _oldest(self, wanted):
        """Of these threads, the one whose next item was put first; None: there are no items."""
        left = [w for w in wanted if self.items.get(w)]
        return (min(left, key=lambda w: self.items[w][0][1]),) if left else None

    def _place(self):
        """Whose item the calling thread is to take, in a tuple; None: there is nothing for it. What ends a thread comes when all
        is taken."""
        worker = self.threads.workers.get(get_ident())
        if self.loose or worker is None or worker[0] is not self:
            return self._oldest(self.items)
        _, index, taken = worker
        own = self.items.get(index)
        place = self._oldest((index, _ANY) if own and own[0][0] <= taken + 1 else (_ANY,))
        if place == (_ANY,) and self.items[_ANY][0][2] is None and any(self.items[w] for w in self.items if w is not _ANY):
            return None
        return place

    def get(self, block=True, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        with self.changed:
            while True:
                place, now = self._place(), time.monotonic()
                if place is not None:
                    self.changed.notify_all()
                    return heapq.heappop(self.items[place[0]])[2]
                if not block or end is not None and now >= end:
                    raise self.nothing
                limit = self._limit()
                if limit is not None and now >= limit:
                    self.threads.decisions.gave_up()
                    self._part(self._why(*self._oldest(self.items)))
                    continue
                ends = [x for x in (end, limit) if x is not None]
                self.changed.wait(min(ends) - now if ends else None)

    def _why(self, wanted):
        if wanted == _NOBODY:
            return "a task waits that no thread took then"
        taken = next((w[2] for w in list(self.threads.workers.values()) if w[0] is self and w[1] == wanted), 0)
        turn = self.items[wanted][0][0]
        if turn > taken + 1:
            return f"thread {wanted} is to take a task as its number {turn}, as then, and number {taken + 1} was not submitted"
        return f"thread {wanted}, which took a task then, does not come for it; others would"

    def _limit(self):
        oldest = self._oldest(self.items)
        if oldest is None:
            return None
        *_, took, since = self.items[oldest[0]][0]
        return since + self.threads.decisions.patience(took)

    def get_nowait(self):
        return self.get(False)

    def qsize(self):
        return sum(map(len, self.items.values()))

    def empty(self):
        return not self.qsize()


# ---------------------------------------------------------------- threads that are made


def _make(executor, count, inner):
    """Threads are made only where none counts as idle."""
    idle = 0
    while executor._idle_semaphore.acquire(timeout=0):
        idle += 1
    for _ in range(count):
        inner(executor)
    for _ in range(idle):
        executor._idle_semaphore.release()


def _made_then(state, submitted):
    """How many threads were made at this submission."""
    count = 0
    while state["stream"].replayed:
        if state["next"] is None:
            found = state["stream"].peek()
            state["next"] = _NO_MORE if found is None else unpack("<I", found[0])[0]
        if state["next"] > submitted:
            break
        state["stream"].write(pack("<I", submitted))
        state["next"] = None
        count += 1
    return count


def _adjust(executor, state, inner):
    """In a submission, behind put(). In the log: at which ones a thread was made."""
    state["submitted"] += 1
    queue = executor._work_queue
    if isinstance(queue, _Queue) and not queue.loose:
        made = _made_then(state, state["submitted"])
        have, most = len(executor._threads), executor._max_workers
        if queue.wanted is not _ANY and queue.wanted < most:
            made = max(made, queue.wanted + 1 - have)
        if made:
            _make(executor, min(made, most - have), inner)
        else:
            executor._idle_semaphore.acquire(timeout=0)
        if executor._threads:
            return
    before = len(executor._threads)
    inner(executor)
    if state["stream"] and len(executor._threads) > before:
        state["stream"].write(pack("<I", state["submitted"]))


def _begin(threads, executor, empty):
    stream = threads.decisions.open(threads.decisions.TASK, "ThreadPoolExecutor", f"{executor._max_workers} threads")
    threads.keep(executor, {"stream": stream, "submitted": 0, "next": None})
    if stream and stream.replayed:
        executor._work_queue = _Queue(threads, stream, empty)


# ---------------------------------------------------------------- in place of Python's


def _wrap_executor(threads, module):
    owner = module.ThreadPoolExecutor
    begin, adjust, failed = owner.__init__, owner._adjust_thread_count, owner._initializer_failed

    @functools.wraps(begin)
    def __init__(self, *args, **kwargs):
        try:
            begin(self, *args, **kwargs)
        except BaseException as error:
            threads.decisions.hide(error)
            raise
        _begin(threads, self, module.queue.Empty)

    @functools.wraps(adjust)
    def _adjust_thread_count(self):
        state = threads.state(self)
        try:
            return adjust(self) if state is None else _adjust(self, state, adjust)
        except BaseException as error:  # there is no room for a thread
            threads.decisions.hide(error)
            raise

    @functools.wraps(failed)
    def _initializer_failed(self):
        if isinstance(self._work_queue, _Queue):
            self._work_queue.let_go()  # all that it holds is given back
        failed(self)

    owner.__init__, owner._adjust_thread_count, owner._initializer_failed = __init__, _adjust_thread_count, _initializer_failed


def _wrap_worker(threads, module):
    inner = module._worker

    @functools.wraps(inner)
    def _worker(executor_reference, *args):
        """A thread's name ends in its number until the job's initializer has run."""
        name, me = sys.modules["threading"].current_thread().name, get_ident()
        number = name.rpartition("_")[2]
        if number.isdigit():
            threads.workers[me] = [next((a for a in args if isinstance(a, _Queue)), None), int(number), 0]
        try:
            inner(executor_reference, *args)
        finally:
            threads.workers.pop(me, None)

    module._worker = _worker


def _wrap_item(threads, module):
    owner = module._WorkItem
    begin, inner = owner.__init__, owner.run

    @functools.wraps(begin)
    def __init__(self, *args):
        begin(self, *args)
        self._twinbit_at = time.monotonic_ns()

    @functools.wraps(inner)
    def run(self, *args):
        number, since, item = threads.number(self), self._twinbit_at, [self]
        del self  # an exception of the task's must not hold it
        worker = threads.workers.get(get_ident())
        if worker is not None:
            threads.took(number, worker, since)
        before = threads.decisions.enter(number)
        try:
            inner(item.pop(), *args)
        finally:
            threads.decisions.leave(before)

    owner.__init__, owner.run = __init__, run


def after_thread(order, module):
    """concurrent.futures.thread has been loaded."""
    owner = module.ThreadPoolExecutor
    if not all(hasattr(owner, n) for n in ("_adjust_thread_count", "_initializer_failed")) or not hasattr(module, "_worker"):
        return
    threads = _Threads(order)
    _wrap_executor(threads, module)
    _wrap_worker(threads, module)
    _wrap_item(threads, module)
