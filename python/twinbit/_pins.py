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
_MAGIC, _VERSION, _PIN = 0x31425754, 3, 8
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
_pid = os.getpid()
_parts = _thread.RLock()
works = list  # of the glue: in which order the works of each process group ended
_packages = None  # the module _pins_packages, where it is needed
_random_seed = None  # random's own seed(), once the job has imported it and where it is to be seeded
_ctypes = None  # Python's


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
            message = _struct.pack(_MESSAGE, _MAGIC, _VERSION, _struct.calcsize(_MESSAGE), _PIN, 0, 0, os.getpid(), 0,
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


# ---------------------------------------------------------------- seeds


def _mix(seed, number):
    """A seed of its own for the @number-th of several; 0: @seed itself."""
    if not number:
        return seed
    x = (seed + number * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return x >> 32


def _rank():
    for name in ("RANK", "SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "LOCAL_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def _seed(pin):
    """What is to be seeded, or None: another number for each rank, as without a seed."""
    value = _value(pin)
    return None if value is None else _mix(int(value), _rank())


def _seeded(pin, answers=None):
    """State of a generator that was seeded by us, as far as calls tell."""
    answers = answers or _Answers()
    value = _value(pin)
    if pin in _asked:
        asked, where = _asked[pin]
        if value is not None and _force:
            answers.say(pin, "held", f"{value} (the job asked for {asked})", where)
        else:
            answers.say(pin, "read" if value is None else "job", asked, where)
    elif value is not None and _early:
        rank = _rank()
        answers.say(pin, "held", f"{_seed(pin)} (rank {rank})" if rank else value)
    return answers


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


def _inside(asked, inner, args, kwargs):
    _asking.append(asked)
    try:
        return inner(*args, **kwargs)
    finally:
        _asking.pop()


def _seed_in(args, kwargs):
    """What is asked for; None: a seed from the system."""
    return args[0] if args else next((kwargs[name] for name in kwargs if name != "version"), None)


def _told_seed(seed):
    """No address is in it."""
    if seed is None:
        return "a seed from the system"
    if isinstance(seed, (int, float, str, bytes)) or type(seed).__module__ == "numpy" and hasattr(seed, "dtype"):
        return str(seed)[:60]
    return f"a value of type {type(seed).__name__}"


def _wrap_seed(module, name, pin):
    """The job may seed by itself: then its seed wins, and is told; forced pins take their own instead."""
    inner = getattr(module, name)
    pinned = _value(pin)

    def taken(args, kwargs):
        if _by_torch() or _asking and _asking[-1] is _OURS:
            return inner(*args, **kwargs)
        asked = _seed_in(args, kwargs)
        forced = _force and pinned is not None
        if not _asking and not forced:
            args, kwargs = _given(args, kwargs)
            now = _seed_in(args, kwargs)
            if now is not asked and _request(pin) != "leave":  # it follows from our seed, as the pinned one does
                result = _inside(_OURS, inner, args, kwargs)
                _now(pin, "held" if pinned is not None else "read", f"{now} in place of {asked}", _where())
                return result
        outer = _asking[-1] if _asking else asked  # torch.manual_seed() seeds devices, too
        result = _inside(outer, inner, args, kwargs)  # what it refuses is no seed, and the job is told
        if pin not in _asked:
            _asked[pin] = _told_seed(outer), _where()
            _seeded(pin).send()
        return _inside(outer, inner, (_mix(_seed(pin), _generation),), {}) if forced else result

    @_wraps(inner)
    def seed(*args, **kwargs):
        try:
            return taken(args, kwargs)
        except BaseException as error:
            _hide(error)
            raise

    _stands_for(module, name, seed)
    return inner


def _given(args, kwargs):
    """Arguments of a function that seeds: a seed that is the time or the pid becomes another one (_seeds.py)."""
    seeds = _part("_seeds")
    if args:
        return (seeds.given(args[0], _where), *args[1:]), kwargs
    for name in kwargs:
        if name != "version":  # of random.seed()
            return args, {**kwargs, name: seeds.given(kwargs[name], _where)}
    return args, kwargs


def _wrap_seeded(owner, name):
    """A function of which each call makes or seeds a generator of the job's own."""
    inner = getattr(owner, name)

    @_wraps(inner)
    def seeded(*args, **kwargs):
        try:
            if not _by_torch():
                args, kwargs = _given(args, kwargs)
            return inner(*args, **kwargs)
        except BaseException as error:
            _hide(error)
            raise

    _stands_for(owner, name, seeded)


def _wrap_instances(random):
    """random.Random(seed), and its seed() later; SystemRandom has a seed() that does nothing."""
    inner = random.Random.seed

    @_wraps(inner)
    def seed(self, *args, **kwargs):
        try:
            args, kwargs = _given(args, kwargs)
            return inner(self, *args, **kwargs)
        except BaseException as error:
            _hide(error)
            raise

    random.Random.seed = seed


def _start_random(random):
    """The job, or what it imports, has imported Python's random."""
    global _random_seed
    if _value("data.worker_generator") is not None:
        _part("_generators").mark_random(sys.modules[__name__], random)
    seed = _wrap_seed(random, "seed", "python.random")
    _wrap_instances(random)
    if _value("python.random") is not None:
        _random_seed = seed
        _seed_random()
        os.register_at_fork(after_in_child=_seed_random)  # behind random's own, which takes a seed from the system
    _seeded("python.random").send()


def _count_fork():
    global _forks
    _forks += 1


def _seed_random():
    """Python seeds `random` from the system in each forked child, and in each that is spawned: by its number instead, for
    children must not all draw the same."""
    if _random_seed is not None:
        _random_seed(_mix(_seed("python.random"), _generation))


def _number_child(number):
    global _generation
    _generation = _mix(_generation + 1, number)


def _after_spawn(module):
    """A child of multiprocessing is told its name, which ends in its number."""
    inner = module.prepare

    def prepare(data):
        number = str(data.get("name", "")).rpartition("-")[2]
        if number.isdigit():
            _number_child(1 << 32 | int(number))
            _seed_random()
        return inner(data)

    module.prepare = prepare


_SEED_PINS = ("python.numpy_legacy", "torch.seed", "torch.seed_cuda")


def _number_children():
    """From the start: a child that imports random only after its fork must not draw what its parent draws, and neither must
    one whose own seed is not taken."""
    if _value("python.random") is None and not (_force and any(_value(pin) is not None for pin in _SEED_PINS)):
        return {}
    os.register_at_fork(before=_count_fork, after_in_child=lambda: _number_child(_forks))
    return {"multiprocessing.spawn": _after_spawn}


def _after_numpy_random(module):
    _wrap_seeded(module, "default_rng")
    seed = _wrap_seed(module, "seed", "python.numpy_legacy")
    if _value("python.numpy_legacy") is not None:
        seed(_mix(_seed("python.numpy_legacy"), _generation))
    _seeded("python.numpy_legacy").send()


# ---------------------------------------------------------------- torch's settings

# pin: (getter and setter in torch._C, or a function that reads it)
_FLAGS = {
    "torch.deterministic": ("_get_deterministic_algorithms", "_set_deterministic_algorithms"),
    "torch.fill": ("_get_deterministic_fill_uninitialized_memory", "_set_deterministic_fill_uninitialized_memory"),
    "torch.mkldnn_deterministic": ("_get_mkldnn_deterministic", "_set_mkldnn_deterministic"),
    "torch.tf32_matmul": ("_get_cublas_allow_tf32", "_set_cublas_allow_tf32"),
    "torch.tf32_cudnn": ("_get_cudnn_allow_tf32", "_set_cudnn_allow_tf32"),
    "torch.fp16_reduction": ("_get_cublas_allow_fp16_reduced_precision_reduction",
                             "_set_cublas_allow_fp16_reduced_precision_reduction"),
    "torch.bf16_reduction": ("_get_cublas_allow_bf16_reduced_precision_reduction",
                             "_set_cublas_allow_bf16_reduced_precision_reduction"),
    "cuda.cudnn_deterministic": ("_get_cudnn_deterministic", "_set_cudnn_deterministic"),
    "cuda.cudnn_benchmark": ("_get_cudnn_benchmark", "_set_cudnn_benchmark"),
    "cpu.torch_threads": ("get_num_threads", "set_num_threads"),
    "cpu.torch_interop_threads": ("get_num_interop_threads", "set_num_interop_threads"),
}


def _get(name):
    """A setting as torch has it; None where this torch has no such one, or refuses to say."""
    get = getattr(sys.modules["torch"]._C, name, None)
    try:
        return None if get is None else get()
    except Exception:
        return None


def _is_taken(pin, args, kwargs):
    """Does torch take this value? Others are given to it: the job is to see what torch says of them."""
    if len(args) != 1 or any(name != "warn_only" or type(value) is not bool for name, value in kwargs.items()):
        return False
    if pin == "cpu.torch_interop_threads" and pin in _asked:
        return False  # a second time is an error
    if pin.startswith("cpu."):
        return type(args[0]) is int and 0 < args[0] < 1 << 31
    return type(args[0]) is bool


def _refused(pin, inner, getter, args, kwargs):
    """Forced: the setting stays, and what torch would have refused is refused."""
    if not _is_taken(pin, args, kwargs):
        before, warn = _get(getter), _get("_get_deterministic_algorithms_warn_only")
        inner(*args, **kwargs)
        more = {"warn_only": warn} if pin == "torch.deterministic" else {}
        inner(*before if isinstance(before, tuple) else (before,), **more)
    _asked[pin] = str(args[0] if args else next(iter(kwargs.values()))), _where()


def _wrap_setter(C, pin, getter, setter):
    inner = getattr(C, setter, None)
    if inner is None:
        return

    @_wraps(inner)
    def set_flag(*args, **kwargs):
        before = _get(getter)
        pinned = _value(pin)
        try:
            if _force and pinned is not None and _early == "set" and not (args and str(args[0]) == pinned):
                return _refused(pin, inner, getter, args, kwargs)
            result = inner(*args, **kwargs)
        except BaseException as error:
            _hide(error)
            raise
        after = _get(getter)
        if after != before and _by_worker():
            _first[pin] = after  # its workers take one thread each
        elif after != before:
            _asked[pin] = str(after), _where()
        return result

    _stands_for(C, setter, set_flag)


def _after_torch_c(C):
    """Before torch's own modules take these functions for themselves. (Public ones get their documentation later, and must
    be torch's own until then.)"""
    for pin, (getter, setter) in _FLAGS.items():
        if setter.startswith("_") and _request(pin) != "leave":
            _wrap_setter(C, pin, getter, setter)


def _set_flags(torch):
    """What torch itself offers for it, so that all it does besides is done, too."""
    deterministic, warn = _value("torch.deterministic"), _value("torch.warn_only")
    if warn == "True":
        torch.use_deterministic_algorithms(True, warn_only=True)
    elif deterministic is not None:
        torch.use_deterministic_algorithms(deterministic == "True")
    owners = {
        "torch.fill": ("torch.utils.deterministic", "fill_uninitialized_memory"),
        "torch.mkldnn_deterministic": ("torch.backends.mkldnn", "deterministic"),
        "torch.tf32_matmul": ("torch.backends.cuda", "matmul.allow_tf32"),
        "torch.tf32_cudnn": ("torch.backends.cudnn", "allow_tf32"),
        "torch.fp16_reduction": ("torch.backends.cuda", "matmul.allow_fp16_reduced_precision_reduction"),
        "torch.bf16_reduction": ("torch.backends.cuda", "matmul.allow_bf16_reduced_precision_reduction"),
        "cuda.cudnn_deterministic": ("torch.backends.cudnn", "deterministic"),
        "cuda.cudnn_benchmark": ("torch.backends.cudnn", "benchmark"),
    }
    for pin, (module, path) in owners.items():
        value = _value(pin)
        if value is None:
            continue
        owner = sys.modules.get(module)
        *inside, name = path.split(".")
        for step in inside:
            owner = getattr(owner, step, None)
        if owner is not None:
            setattr(owner, name, value == "True")
    for pin, (_, setter) in _FLAGS.items():
        if pin.startswith("cpu.") and _value(pin) is not None:
            getattr(torch, setter)(int(_value(pin)))


def _seed_torch(torch):
    import torch.random as owner

    seed = owner.manual_seed
    if _value("torch.seed") is not None:
        seed(_mix(_seed("torch.seed"), _generation))
    if _value("torch.seed_cuda") is not None:
        torch.cuda.manual_seed_all(_mix(_seed("torch.seed_cuda"), _generation))


def _wrap_torch_seeds(torch):
    import torch.random as owner

    inner = _wrap_seed(owner, "manual_seed", "torch.seed")
    if torch.manual_seed is inner:
        torch.manual_seed = owner.manual_seed
    else:  # Dynamo's function around it
        _wrap_seed(torch, "manual_seed", "torch.seed")
    for name in ("manual_seed", "manual_seed_all"):
        _wrap_seed(torch.cuda, name, "torch.seed_cuda")


def _after_torch(torch):
    global _early
    _seed_torch(torch)
    for pin, (getter, setter) in _FLAGS.items():
        if not setter.startswith("_") and _request(pin) != "leave":
            _wrap_setter(torch, pin, getter, setter)
    _set_flags(torch)
    _wrap_torch_seeds(torch)  # behind what Dynamo, which the flags may have loaded, has put before them
    if os.environ.get("TWINBIT_POISON"):  # else torch would fill it by itself under deterministic algorithms
        sys.modules["torch.utils.deterministic"].fill_uninitialized_memory = False
    _asked.clear()  # by us, until now
    _early = "set"
    answers = _Answers()
    _read_torch(torch, answers)
    answers.send()


def _fused(torch):
    names = ("flash", "mem_efficient", "math", "cudnn")
    return " ".join(n for n in names if _get(f"_get_{n}_sdp_enabled"))


def _flag_state(pin, value, answers):
    """What was set must still be there, what was kept still be what it was."""
    asked, where = _asked.get(pin, (None, ""))
    pinned = _value(pin)
    if value is None:  # this torch has no such one
        return
    if pinned is not None:
        if str(value) == pinned:
            more = f" (the job asked for {asked})" if _force and asked not in (None, pinned) else ""
            answers.say(pin, "held", f"{value}{more}", where if more else "")
        else:
            answers.say(pin, "changed" if asked is not None else "missed", value, where)
        return
    first = _first.setdefault(pin, value)
    if _request(pin) == "keep" and value != first:
        answers.say(pin, "changed", value, where)
    elif _request(pin) == "keep":
        answers.say(pin, "held", value)
    else:
        answers.say(pin, "read", value)


def _read_torch(torch, answers):
    for pin, (getter, _) in _FLAGS.items():
        value = _get(getter)
        if value is not None and _request(pin) != "leave":
            _flag_state(pin, value, answers)
    if _request("torch.warn_only") != "leave":
        _flag_state("torch.warn_only", _get("_get_deterministic_algorithms_warn_only"), answers)
    _flag_state("torch.sdpa", _fused(torch), answers)
    if _value("torch.seed") is not None:
        _seeded("torch.seed", answers)
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and getattr(cuda, "is_initialized", bool)():
        _seeded("torch.seed_cuda", answers)
    backends = getattr(getattr(torch, "backends", None), "cpu", None)
    if backends is not None:
        _library("cpu.torch_capability", backends.get_cpu_capability(), answers)


# ---------------------------------------------------------------- data loading


def _after_dataloader(module):
    """Base seed, order of arrival and indices of each loader, as it begins an epoch."""
    owner = module._BaseDataLoaderIter
    inner = owner.__init__

    @_wraps(inner)
    def __init__(self, loader):
        try:
            inner(self, loader)
        except BaseException as error:
            _hide(error)
            raise
        try:
            _told_loader(self, loader)
        except Exception:
            pass

    owner.__init__ = __init__


def _told_in_order(loader, answers):
    """The iterator looks at it later than this, so that a forced pin is in time."""
    in_order = getattr(loader, "in_order", None)
    if in_order is None:
        return
    wanted = _value("data.in_order")
    if wanted is not None and _force and str(bool(in_order)) != wanted:
        _asked["data.in_order"] = str(bool(in_order)), ""
        loader.in_order = in_order = wanted == "True"
    asked, _ = _asked.get("data.in_order", (None, ""))
    more = f" (the job asked for {asked})" if asked is not None else ""
    state = "read" if wanted is None else "held" if str(bool(in_order)) == wanted else "job"
    answers.say("data.in_order", state, f"{bool(in_order)}{more}")


def _told_loader(iterator, loader):
    answers = _Answers()
    by_job = "torch.seed" in _asked and not _force
    own = getattr(loader, "generator", None) is not None
    seed = getattr(iterator, "_base_seed", None)
    if seed is not None:
        answers.say("data.base_seed", "job" if own or by_job else
                    "held" if _value("data.base_seed") is not None else "read", seed)
    _told_in_order(loader, answers)
    sampler = getattr(loader, "sampler", None)
    if sampler is not None and hasattr(sampler, "generator"):
        drawn = getattr(sampler, "generator", None) is not None or by_job
        answers.say("data.sampler", "job" if drawn else "held" if _value("data.sampler") is not None else "read",
                    type(sampler).__name__)
    answers.send()


def _after_worker(module):
    """What a worker seeds NumPy with is torch's own doing: it says so before its first item."""
    if _value("data.worker_generator") is not None:
        _part("_generators").after_worker(sys.modules[__name__], module)
    inner = getattr(module, "_generate_state", None)
    if inner is None:
        return

    @_wraps(inner)
    def _generate_state(base_seed, worker_id):
        state = inner(base_seed, worker_id)
        _now("data.worker_numpy", "held" if _value("data.worker_numpy") is not None else "read",
             f"worker {worker_id} of base seed {base_seed}")
        return state

    module._generate_state = _generate_state


# ---------------------------------------------------------------- the interpreter and its libraries


def _hash_seed(answers):
    pinned = _value("python.hashseed")
    ignored = sys.flags.ignore_environment
    value = "random" if sys.flags.hash_randomization and (ignored or not os.environ.get("PYTHONHASHSEED", "").isdigit()) \
        else os.environ.get("PYTHONHASHSEED", "0") if not ignored else "0"
    if pinned == "0" and sys.flags.hash_randomization:
        value = "random"  # -R
    answers.say("python.hashseed", "read" if pinned is None else "held" if value == pinned else "missed", value)


def _environment(answers):
    """The variables, as Python has them: given to libraries, changed since?"""
    for pin, (mechanism, request, sets, value) in _rows.items():
        if mechanism != "env" or request == "leave" or pin == "python.hashseed":
            continue
        seen = os.environ.get(sets.split(", ")[0], "(unset)")
        before = _first.setdefault("env:" + pin, seen)
        if request in ("set", "add") and (value not in seen if request == "add" else value != seen):
            answers.say(pin, "changed" if before != seen else "missed", seen)
        elif before != seen:
            answers.say(pin, "changed", seen)
        elif pin not in _said:
            answers.say(pin, "given" if request in ("set", "add") else "read", seen)


def _cpus():
    """"0-3,8", as the recorder writes it."""
    cpus, text = sorted(os.sched_getaffinity(0)), []
    for cpu in cpus:
        if text and text[-1][1] == cpu - 1:
            text[-1][1] = cpu
        else:
            text.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in text)


def _surroundings(answers):
    _library("cpu.affinity", _cpus(), answers)
    if _value("python.numpy_generator") is not None and "numpy.random" in sys.modules:
        answered = "libtwinbit_pins.so" in os.environ.get("LD_PRELOAD", "")
        answers.say("python.numpy_generator", "given" if answered else "missed",
                    "by system.entropy" if answered else "nothing answers for the system")


def _numpy_features(answers):
    pin = "python.numpy_dispatch"
    module = sys.modules.get("numpy._core._multiarray_umath") or sys.modules.get("numpy.core._multiarray_umath")
    if module is None:
        return
    features = [n for n in getattr(module, "__cpu_dispatch__", ()) if module.__cpu_features__.get(n)]
    pinned = _value(pin)
    state = "read" if pinned is None else "missed" if set(pinned.split()) & set(features) else "held"
    if _request(pin) == "keep":
        state = "held"
    answers.say(pin, state, " ".join(features) or "baseline")


def _blas():
    """NumPy's OpenBLAS, which no symbol of the process leads to; None: it is not in it."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
            paths = {line.split(None, 5)[5].strip() for line in f if "openblas" in line}
        return ctypes_of_python().CDLL(min(paths)) if paths else None
    except (OSError, IndexError, ValueError):
        return None


def _call(library, names, restype=None):
    for name in names:
        function = getattr(library, name, None)
        if function is not None:
            function.restype = restype or ctypes_of_python().c_int
            result = function()
            return result.decode(errors="replace") if isinstance(result, bytes) else result
    return None


def _library(pin, value, answers):
    """A library's own word outweighs its variable's; names are written in many ways."""
    if value is None:
        return
    pinned = _value(pin)
    state = "read"
    if pinned is not None:
        state = "held" if str(value).lower() == pinned.lower() else "missed"
    elif _request(pin) == "keep":
        state = "held" if value == _first.setdefault(pin, value) else "changed"
    answers.say(pin, state, value)


def _libraries(answers):
    """Asked after the job has used them: a question may start a library."""
    ctypes = ctypes_of_python()
    blas = _blas()
    if blas is not None:
        _library("cpu.openblas_threads",
                 _call(blas, ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_",
                              "openblas_get_num_threads")), answers)
        _library("cpu.openblas_core",
                 _call(blas, ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"),
                       ctypes.c_char_p), answers)
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "__file__"):
        return
    try:
        lib = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    except OSError:
        return
    _library("cpu.omp_threads", _call(lib, ("omp_get_max_threads",)), answers)
    dynamic = _call(lib, ("omp_get_dynamic",))
    _library("cpu.omp_dynamic", None if dynamic is None else ("FALSE", "TRUE")[bool(dynamic)], answers)
    _library("cpu.mkl_threads", _call(lib, ("MKL_Get_Max_Threads", "mkl_get_max_threads")), answers)


# ---------------------------------------------------------------- when


def _read_all(libraries, step):
    answers = _Answers(step)
    for group, text in works():
        answers.say("nccl.gloo", "read", text, group, group)
    torch = sys.modules.get("torch")
    if libraries:
        _hash_seed(answers)
        _numpy_features(answers)
        _libraries(answers)
    _environment(answers)
    _surroundings(answers)
    if torch is not None and hasattr(torch, "_C"):
        _read_torch(torch, answers)
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
    if os.getpid() != _pid and not _said:
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
    sets = any(row[0] in ("python", "torch") and row[1] == "set" for row in _rows.values())
    if sets or os.environ.get("TWINBIT_POISON"):
        load()
        _early = True
        for name, after in {**_SETS, **_number_children(), **_wanted_of_packages()}.items():
            wanted.setdefault(name, []).append(after)
    elif _are_written() or _request("system.time_seeds") == "set":
        for name, after in _SEEDS.items():
            wanted.setdefault(name, []).append(after)
    for name in [n for n in wanted if n in sys.modules]:
        module = sys.modules[name]
        if _is_meant(name, getattr(module, "__file__", None)):
            _Loader(None, wanted.pop(name)).run(module)
    if wanted:
        sys.meta_path.insert(0, _Finder(wanted))


_SEEDS = {  # where nothing else is set
    "random": _start_random,
    "numpy.random": _after_numpy_random,
    "torch": _wrap_torch_seeds,
}

_SETS = {
    "random": _start_random,
    "numpy.random": _after_numpy_random,
    "torch._C": _after_torch_c,
    "torch": _after_torch,
    "torch.utils.data.dataloader": _after_dataloader,
    "torch.utils.data._utils.worker": _after_worker,
}
