"""Pins in a job's Python: sets what only the interpreter can set, reads back what became of each, says who changed it.

Loaded by path, once a process: by the import hook before the job's first line where a pin of Python or torch is asked
for, else by the glue at the first step, and then it only reads. What is asked for stands in the file that
TWINBIT_PIN_PLAN names (deterministic/plan.h); what was seen goes to the collector (recorder/wire.h, TB_MSG_PIN). Raises
nothing into the job; where the job sets something itself, the job wins, unless pins are forced.
"""

from __future__ import annotations

import _thread
import os
import sys

_MESSAGE = "<4I2Q i3I 3968s"  # struct tb_wire_msg
_MAGIC, _VERSION, _PIN = 0x31425754, 4, 8  # recorder/wire.h
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PYTHON = os.path.dirname(os.__file__)
_RANDOM = os.path.join(_PYTHON, "random.py")

_rows = {}  # id -> (mechanism, request, sets, value)
_force = False
_said = {}  # id -> (state, value): what was sent last
_first = {}  # id -> value that was kept at the first look
_asked = {}  # id -> (value, where): what the job set by itself, and at which line
_asking = []  # what the job asked of the seeds that are being set
_OURS = object()  # in it: the seed is ours
_early = False  # set by the import hook, before the job
_arranged = False  # what is read back at the end
_forks = 0  # of this process so far
_generation = 0  # of this process among its forefathers' children; 0: it is the job's first
_steps = None  # of torch, ended so far; None: not in a loop of steps
_pid = None  # set below
_hash_seed_at_start = os.environ.get("PYTHONHASHSEED", "")  # the job may set it later, for its children
_parts = _thread.RLock()
works = list  # of the glue: in which order the works of each process group ended
_packages = None  # the module _pins_packages, where it is needed
_random_seed = None  # random's own seed(), once the job has imported it and where it is to be seeded
_ctypes = None  # Python's


def own_pid():
    """Not os.getpid(): a job whose process has asked libc for its pid may take it for a seed (deterministic/preload/seeds.h)."""
    try:
        return int(os.readlink("/proc/self"))
    except (OSError, ValueError):
        return os.getpid()


_pid = own_pid()


def _read_plan():
    global _force
    path = os.environ.get("TWINBIT_PIN_PLAN")
    if not path:
        return False
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            head, *lines = f.read().split("\n")
    except OSError:
        return False
    if not head.startswith("twinbit-pins 1 "):
        return False
    _force = head.split()[3] == "1"
    for line in lines:
        fields = line.split("\t")
        if len(fields) == 5:
            _rows[fields[0]] = tuple(fields[1:])
    return True


def _request(pin):
    row = _rows.get(pin)
    return row[1] if row else "leave"


def _value(pin):
    """What is to be set, or None."""
    return _rows[pin][3] if _request(pin) == "set" else None


# ---------------------------------------------------------------- saying


def _send(lines):
    import _socket  # socket and struct may be files of the job's
    import _struct

    text = b""
    for line in lines + [None]:
        if line is not None and len(text) + len(line) < 3900:
            text += line
            continue
        if text:
            message = _struct.pack(_MESSAGE, _MAGIC, _VERSION, _struct.calcsize(_MESSAGE), _PIN, 0, 0, own_pid(), 0,
                                   0, 0, text)
            s = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
            try:
                s.settimeout(0.5)
                s.connect(os.environ["TWINBIT_SOCKET"])
                s.send(message)
            finally:
                s.close()
        text = line or b""


def _clean(text):
    return "".join(c if c.isprintable() else "?" for c in str(text))[:200]


class _Answers:
    """Lines for the collector; only what differs from what was said before. @step: the one that it is of, None: the one that
    runs now, "-": not known."""

    def __init__(self, step=None):
        self.lines = []
        self.step = step if step is not None else "-" if _steps is None else str(_steps + 1)

    def say(self, pin, state, value, where="", part=""):
        """@part: one of several rows of this pin, told apart by @where."""
        if _request(pin) == "leave" or _said.get(pin + part) == (state, value):
            return
        _said[pin + part] = state, value
        line = "\t".join((pin, state, self.step, _clean(value), _clean(where))) + "\n"
        self.lines.append(line.encode(errors="replace"))

    def send(self):
        if self.lines:
            try:
                _send(self.lines)
            except (OSError, KeyError):
                pass


def _now(pin, state, value, where=""):
    answers = _Answers()
    answers.say(pin, state, value, where)
    answers.send()


def _is_library(name):
    return (name.startswith(_OWN) or name.startswith("<") and name not in ("<string>", "<stdin>") or
            "site-packages" in name and any(f"{os.sep}{p}{os.sep}" in name for p in ("torch", "keras", "tensorflow")) or
            name in (__file__, os.__file__, _RANDOM))


def line_of_job(is_library):
    """The line that called: the nearest one whose file is not @is_library; "" if there is none."""
    frame = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return ""
    name = frame.f_code.co_filename
    try:
        here = os.getcwd() + os.sep
    except OSError:  # it was removed
        here = name + os.sep
    return f"{name[len(here):] if name.startswith(here) else name}:{frame.f_lineno}"


def _where():
    """The line of the job's: neither ours nor one of torch or TensorFlow."""
    return line_of_job(_is_library)


def _by_torch():
    """Was it torch itself that called, as its workers do? What stands between the job and us does not count: Dynamo puts
    a function of its own before torch.manual_seed()."""
    torch = f"site-packages{os.sep}torch{os.sep}"
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        _, found, inside = name.rpartition(torch)
        if not found and not name.startswith(_OWN):
            return False
        if found and not inside.startswith(("_dynamo" + os.sep, "_compile.py", "random.py", os.path.join("cuda", "random.py"))):
            return True
        frame = frame.f_back
    return False


def _by_worker():
    """Is it a worker of DataLoader's that calls for itself, not the data set in it?"""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.endswith(os.path.join("torch", "utils", "data", "_utils", "worker.py")):
            return True
        if not name.startswith(_OWN) and f"{os.sep}torch{os.sep}" not in name:
            return False
        frame = frame.f_back
    return False


# ---------------------------------------------------------------- what the parts share


def _mix(seed, number):
    """A seed of its own for the @number-th of several; 0: @seed itself."""
    if not number:
        return seed
    x = (seed + number * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return x >> 32


def _wraps(inner):
    """As functools.wraps(); functools may not be loaded, and then the job may have files of the names that it imports."""
    def named(function):
        for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
            try:
                setattr(function, name, getattr(inner, name))
            except (AttributeError, TypeError):
                pass
        function.__dict__.update(getattr(inner, "__dict__", {}))
        function.__wrapped__ = inner
        return function

    return named


def _hide(error):
    """Our own frames at the head of its traceback: with a bare `raise` behind it (Python 3.11 and later) the job sees none of
    them, and its traceback is as it would be without us."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN):
        trace = trace.tb_next
    error.__traceback__ = trace


def _stands_for(module, name, function):
    """In place of the other under its name, by which pickle finds it."""
    function.__module__, function.__qualname__ = module.__name__, name
    setattr(module, name, function)


# ---------------------------------------------------------------- when


def _read_all(libraries, step):
    answers = _Answers(step)
    for group, text in works():
        answers.say("nccl.gloo", "read", text, group, group)
    torch = sys.modules.get("torch")
    if libraries:
        _part("_pins_read")._hash_seed(answers)
        _part("_pins_read")._numpy_features(answers)
        _part("_pins_read")._libraries(answers)
    _part("_pins_read")._environment(answers)
    _part("_pins_read")._surroundings(answers)
    if torch is not None and hasattr(torch, "_C"):
        _part("_pins_torch")._read_torch(torch, answers)
    if _packages is not None:
        _packages.read(answers)
    answers.send()


def step(number):
    """The glue, at the end of each step; the first one asks the libraries, too."""
    global _steps
    if not _rows:
        return
    first = _steps is None
    _steps = number if number is not None else 0 if first else _steps + 1
    try:
        _read_all(first, str(_steps))
    except Exception:
        pass


def _at_exit():
    if own_pid() != _pid and not _said:
        return
    try:
        _read_all(True, "-")
    except Exception:
        pass


def load():
    """Read the plan; true if there is one. Reading back at the end is arranged once."""
    global _arranged
    if not _rows and not _read_plan():
        return False
    if not _arranged:
        import atexit

        atexit.register(_at_exit)
        _arranged = True
    return True


# ---------------------------------------------------------------- orders


def _part(name):
    """A module beside this one, loaded once, and not before the job needs it."""
    from _frozen_importlib import module_from_spec  # importlib.util is not there before the job as a rule
    from _frozen_importlib_external import spec_from_file_location

    full = "_twinbit" + name
    with _parts:  # another thread must not get one that is half loaded
        module = sys.modules.get(full)
        if module is None:
            spec = spec_from_file_location(full, _OWN + name + ".py")
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules[full] = module
    return module


def _are_written():
    """Are decisions written down, by the library that is preloaded for it?"""
    return bool(os.environ.get("TWINBIT_PINS")) and "libtwinbit_pins.so" in os.environ.get("LD_PRELOAD", "")


def _orders():
    """Packages at whose import the order of what they hand out is taken hold of, where that is asked for."""
    sorts = _value("data.completion_order") == "@sort"
    shared = {}

    def order():
        if "order" not in shared:
            shared["order"] = _part("_order")._Order(_part("_decisions"), sorts)
        return shared["order"]

    def data():
        if "data" not in shared:
            shared["data"] = _part("_data")._Data(_part("_decisions"))
        return shared["data"]

    ends = {
        "concurrent.futures._base": lambda module: _part("_order").after_futures(order(), module),
        "multiprocessing.pool": lambda module: _part("_order").after_pool(order(), module),
        "asyncio.tasks": lambda module: _part("_order_async").after_tasks(order(), module),
    }
    loads = {
        "concurrent.futures.thread": lambda module: _part("_order_threads").after_thread(order(), module),
        "torch.utils.data.dataloader": lambda module: _part("_data").after_loader(data(), module),
        "torch.utils.data.distributed": lambda module: _part("_data").after_sampler(data(), module),
    }
    if not _are_written():
        return ends if sorts else {}
    return {**ends, **loads}


_OF_PYTHON = ("random", "concurrent.", "multiprocessing.", "asyncio.")


def _is_meant(name, file):
    """Not a module of the job's own that has the name of one of Python's."""
    return not name.startswith(_OF_PYTHON) or \
        os.path.splitext(file or "")[0] == os.path.join(_PYTHON, *name.split("."))


class _Loader:
    """Runs the original loader, then what we do, and leaves no trace of itself."""

    def __init__(self, inner, after):
        self.inner, self.after = inner, after

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def create_module(self, spec):
        return self.inner.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.inner
        try:
            self.inner.exec_module(module)
        except BaseException as error:  # Python takes its own frames of an import out, where ours do not part them
            _hide(error)
            raise
        self.run(module)

    def run(self, module):
        for after in self.after:
            try:
                after(module)
            except Exception:
                pass  # the pin is then "missed" or "unseen"


class _Finder:
    """Waits for modules at whose import something is to be set."""

    def __init__(self, wanted):
        self.wanted = wanted  # name: functions that take the module

    def find_spec(self, name, path=None, target=None):
        after = self.wanted.pop(name, None)
        if after is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if _is_meant(name, spec.origin) and spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, after)
                return spec
        return None


def _wanted_of_packages():
    global _packages
    if not any(_value(pin) is not None for pin in _rows if pin.startswith(("kernels.", "compile."))
               and _rows[pin][0] == "python"):
        return {}
    _packages = _part("_pins_packages")
    return _packages.wanted(sys.modules[__name__])


def start():
    """From the import hook, before the job's first line: set what is asked for."""
    if not _read_plan():
        return
    before = set(sys.modules)
    ctypes_of_python()
    _set_out()
    _take_out(before)


def ctypes_of_python():
    """Taken before the job's first line, so that no file of the job's is taken for it or for what it imports."""
    global _ctypes
    if _ctypes is None:
        import ctypes

        _ctypes = ctypes
    return _ctypes


def preloaded(asks, signatures):
    """libtwinbit_pins.so, if it is in the process and its function @asks says yes, else False; @signatures: gives for ctypes
    the result and the arguments of its functions."""
    c = ctypes_of_python()
    try:
        library = c.PyDLL(None)
        for name, (result, arguments) in signatures(c).items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        return library if getattr(library, asks)() else False
    except (AttributeError, OSError):
        return False


def _take_out(before):
    """The job imports modules of Python by itself: what it has in a file of the same name is then found instead."""
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.endswith((".py", ".pyc")) and not name.startswith("_twinbit"):
            del sys.modules[name]


def _set_out():
    global _early
    wanted = {name: [after] for name, after in _orders().items()}
    if any(row[0] == "env" and row[1] in ("set", "add") for row in _rows.values()):
        load()  # they are read back at the end
    sets = any(row[0] in ("python", "torch") and row[1] == "set" for row in _rows.values())
    if sets or os.environ.get("TWINBIT_POISON"):
        load()
        _early = True
        for name, after in {**_sets(), **_part("_pins_seeds")._number_children(), **_wanted_of_packages()}.items():
            wanted.setdefault(name, []).append(after)
    elif _are_written() or _request("system.time_seeds") == "set":
        for name, after in _seeds().items():
            wanted.setdefault(name, []).append(after)
    for name in [n for n in wanted if n in sys.modules]:
        module = sys.modules[name]
        if _is_meant(name, getattr(module, "__file__", None)):
            _Loader(None, wanted.pop(name)).run(module)
    if wanted:
        sys.meta_path.insert(0, _Finder(wanted))


def _seeds():
    """Where nothing else is set."""
    seeds = _part("_pins_seeds")
    return {
        "random": seeds._start_random,
        "numpy.random": seeds._after_numpy_random,
        "torch": _part("_pins_torch")._wrap_torch_seeds,
    }


def _sets():
    torch = _part("_pins_torch")
    return {
        **_seeds(),
        "torch._C": torch._after_torch_c,
        "torch": torch._after_torch,
        "torch.utils.data.dataloader": torch._after_dataloader,
        "torch.utils.data._utils.worker": torch._after_worker,
    }
