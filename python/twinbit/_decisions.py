"""Decisions of a job's Python: what was handed out next, written down, and found again in a run that is repeated.

They stand in the log of libtwinbit_pins.so (deterministic/preload/log.h, decide.c), as streams: open() begins one, with
what it is ("as_completed"), its shape (what must be the same for its decisions to mean anything) and the job's line. The
same stream of another run is the n-th of its name that the same thread opened. Without that library, or where nothing is to
be written down, open() gives None. Raises nothing into the job.
"""

from __future__ import annotations

import os
import sys
import time
from _struct import calcsize, unpack  # struct may be a file of the job's
from _thread import _local as _Local

STREAM, PARTED, COMPLETION, ARRIVAL, INDICES, PASS, TASK = 80, 81, 88, 89, 90, 91, 94
_FROM_LOG, _OTHER_CALLER, _PUT_BACK = 1 << 2, 1 << 4, 1 << 8  # enum tb_preload_mark
_CUT = 1 << 5
_HEAD = "<QHHIQIIQQQQ"  # struct tb_preload_record
_MOST = 48 << 20  # bytes that one process writes: the rest of its log, and with it the log, must fit as well
_NEAR = 30  # records of tasks
_FIRST_PATIENCE, _LATER_PATIENCE = 10.0, 1.0  # seconds
_WAITS, _ALL_WAITS = 5, 40  # in vain: at one line of the job, before a line has one only

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARY = os.path.dirname(os.__file__) + os.sep  # Python's own

_local = _Local()
_functions = None  # of the library; False: there is none
_pins = sys.modules["_twinbit_pins"]  # at the end of the interpreter it is not to be found any more
_generation = 0  # forks since the program started, as this process counts them
_late = 0  # waits for what did not come
_lines = {}  # (kind, name, line of the job) -> how many of them there
_bytes = 0  # written by this process


def _ctypes():
    return _pins.ctypes_of_python()


def _load():
    """The library is in the process, or it is not: it was preloaded."""
    global _functions
    _functions = _pins.preloaded("twinbit_pins_decides", lambda c: {
        "twinbit_pins_decides": (c.c_int, []),
        "twinbit_pins_thread": (c.c_uint64, []),
        "twinbit_pins_decide": (c.c_int, [c.c_uint, c.c_uint64, c.c_uint32, c.c_uint64, c.c_char_p, c.c_uint32]),
        "twinbit_pins_decided": (c.c_void_p, [c.c_uint, c.c_uint64, c.c_uint32, c.c_void_p]),
    })
    return _functions


def _library():
    return _load() if _functions is None else _functions


def _in_child():
    global _generation, _functions, _late, _bytes
    _generation += 1
    _functions, _late, _bytes = None, 0, 0
    _lines.clear()
    _local.__dict__.clear()


os.register_at_fork(after_in_child=_in_child)


def thread():
    """Number of the calling thread, or of the task that a pool has given it, the same in both runs; 0 where nothing is written
    down."""
    number = _local.__dict__.get("thread")
    if number is None:
        library = _library()
        number = _local.thread = library.twinbit_pins_thread() if library else 0
    return number


def count(name):
    """How often this thread has asked for this name before."""
    counts = _local.__dict__.setdefault("counts", {})
    n = counts[name] = counts.get(name, -1) + 1
    return n


def enter(number):
    """The calling thread runs the task of this number, whichever thread it is: what it asks for is the task's."""
    own = _local.__dict__
    before = _generation, own.get("thread"), own.get("counts")
    if number[0]:
        own["thread"], own["counts"] = _task_key(number), {}
    return before


def leave(before):
    generation, number, counts = before
    if generation == _generation:
        _local.thread, _local.counts = number, {} if counts is None else counts


def _mix(x, y):
    x = (x * 0x9E3779B97F4A7C15 + y + 1) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    return x ^ x >> 31


def _key(name, n):
    return _mix(_mix(thread(), int.from_bytes(name.encode(), "little") % 0xFFFFFFFFFFFFFFC5), n)


def _task_key(number):
    return _mix(_mix(0x7461736B, number[0]), number[1])


def note(kind, number, value, took=0):
    """A decision that is in no stream, of a task; @took: nanoseconds."""
    global _bytes
    library = _library()
    if library and _bytes <= _MOST:
        _bytes += 80 + len(value)
        library.twinbit_pins_decide(kind, _task_key(number), 0, took // 1000, value, len(value))


def noted(kind, number):
    """The same, of the run that is repeated: (value, seconds) or None. It is looked for from a little before the last ones on:
    threads write in another order than tasks are submitted."""
    last = _local.__dict__.setdefault("noted", [])
    at = _ctypes().c_uint64(min(last, default=0))
    found = _find(_library(), kind, _task_key(number), 0, _ctypes().addressof(at))
    last[:] = [*last[-_NEAR:], at.value]
    return found


def _find(library, kind, key, n, address):
    """(payload, seconds), or None."""
    ctypes = _ctypes()
    at = library.twinbit_pins_decided(kind, key, n, address)
    if not at:
        return None
    head = unpack(_HEAD, ctypes.string_at(at, calcsize(_HEAD)))
    return None if head[2] & _CUT else (ctypes.string_at(at + 64, head[6]), head[8] / 1e6)


def _is_library(name):
    if name.startswith(_LIBRARY) and "site-packages" not in name or name.startswith(_OWN):
        return True
    return name.startswith("<") and name not in ("<string>", "<stdin>") or \
        f"site-packages{os.sep}torch{os.sep}" in name


def hide(error):
    """Our frames at the head of its traceback; a bare `raise` must follow, in the function that the job or Python called."""
    _pins._hide(error)


def where():
    """The line of the job's: neither ours, nor Python's, nor torch's."""
    return _pins.line_of_job(_is_library) or "?"


def _clean(text):
    return "".join(c if c.isprintable() else "?" for c in text)[:300]


class Stream:
    """One stream. `replayed`: the run that is repeated has it, and nothing has parted from it yet."""

    def __init__(self, library, kind, name, shape, scope):
        ctypes = _ctypes()
        self.kind, self.name, self.where = kind, name, where()
        self._shape = shape
        self._library, self._generation = library, _generation
        counted = f"{name}\0{scope}" if scope else name
        self._key = _key(counted, count(counted))
        self._at = ctypes.c_uint64(_local.__dict__.get("at", 0))
        self._address = ctypes.addressof(self._at)
        self._began = time.monotonic_ns()
        self._n = 0
        self.replayed = library.twinbit_pins_decides() == 2
        if self.replayed and _lines.get(self._place(), 0) >= (_WAITS if _late < _ALL_WAITS else 1):
            self.part("others parted here before, and what came then is waited for no more")
        marks = self._find() if self.replayed else 0
        texts = "\0".join((name, _clean(shape), _clean(self.where), "")).encode(errors="replace")
        self._put(STREAM, marks, 0, texts)

    def _put(self, kind, marks, n, value):
        global _bytes
        if _bytes > _MOST and kind != PARTED:
            return
        _bytes += 80 + len(value)
        took = (time.monotonic_ns() - self._began) // 1000
        self._library.twinbit_pins_decide(kind | marks << 16, self._key, n, took, value, len(value))

    def _recorded(self, kind, n):
        """(payload, seconds since it was opened), or None."""
        return _find(self._library, kind, self._key, n, self._address)

    def _find(self):
        found = self._recorded(STREAM, 0)
        if found is None:
            self.part("the log does not have it")
            return 0
        _local.at = self._at.value
        _, shape, before, *_ = found[0].decode(errors="replace").split("\0") + ["", "", ""]
        if shape != _clean(self._shape):
            self.part(f"{shape or 'nothing'} then, {self._shape} now")
            return 0
        return _FROM_LOG | (_OTHER_CALLER if before != _clean(self.where) else 0)

    def _place(self):
        return self.kind, self.name, self.where

    def alive(self):
        """In a child that was forked from within it, it is the parent's."""
        return self._generation == _generation

    def write(self, value, put_back=False):
        """The next decision, as it was made; @put_back: the job by itself would have made another."""
        if self.alive():
            marks = (_FROM_LOG if self.replayed else 0) | (_PUT_BACK if put_back else 0)
            n, self._n = self._n, self._n + 1
            self._put(self.kind, marks, n, value)

    def recorded(self):
        """What was decided here in the run that is repeated: (value, seconds since it was opened). None: nothing, and from
        now on this stream goes its own way."""
        if not self.replayed or not self.alive():
            return None
        found = self.peek()
        if found is None:
            self.part(f"decision {self._n} of it is not in the log")
        return found

    def peek(self):
        """The same, for one that may have no end: None parts nothing."""
        return self._recorded(self.kind, self._n) if self.replayed and self.alive() else None

    def part(self, why):
        """From here on it is not as recorded."""
        if self.replayed and self.alive():
            self.replayed = False
            if _local.__dict__.pop("gave_up", False):
                _lines[self._place()] = _lines.get(self._place(), 0) + 1
            self._put(PARTED, 0, self._n, _clean(f"{self.name} at {self.where}: {why}").encode(errors="replace"))


def open(kind, name, shape="", scope=""):
    """A stream of the calling thread, and in it of @scope; None: nothing is written down."""
    try:
        library = _library()
        return Stream(library, kind, name, shape, scope) if library else None
    except Exception:
        return None


def patience(took):
    """Seconds for which what came @took seconds after its stream's begin is waited for, while something else is there."""
    return max(_LATER_PATIENCE, 2 * took) if _late else max(_FIRST_PATIENCE, 20 * took)


def gave_up():
    """It did not come: the next ones are not waited for as long. The stream is parted next, by the calling thread."""
    global _late
    _late += 1
    _local.gave_up = True
