"""Pins of torch: its settings, and what its DataLoader draws and hands out.

Loaded by path by _pins.py, and shares what stands there. Raises nothing into the job but what its own call would have raised.
"""

from __future__ import annotations

import os
import sys

pins = sys.modules["_twinbit_pins"]


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
    """A setting as torch has it; None where this torch has no such one, or refuses to say. Of those that
    are pairs (reductions of newer ones: and may sums be split?) the first, which is what the pin is about."""
    get = getattr(sys.modules["torch"]._C, name, None)
    try:
        value = None if get is None else get()
    except Exception:
        return None
    return value[0] if isinstance(value, tuple) else value


_ONLY_WARNS = "True, warn_only"


def _flag(pin, getter):
    """The same, but that operators which are not deterministic are refused is more than that torch warns of them."""
    value = _get(getter)
    warns = pin == "torch.deterministic" and value is True and _get("_get_deterministic_algorithms_warn_only") is True
    return _ONLY_WARNS if warns and pins._value("torch.warn_only") != "True" else value


def _is_taken(pin, args, kwargs):
    """Does torch take this value? Others are given to it: the job is to see what torch says of them."""
    if len(args) != 1 or any(name != "warn_only" or type(value) is not bool for name, value in kwargs.items()):
        return False
    if pin == "cpu.torch_interop_threads" and pin in pins._asked:
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
        inner(before, **more)
    asked = str(args[0] if args else next(iter(kwargs.values())))
    pins._asked[pin] = _ONLY_WARNS if asked == "True" and kwargs.get("warn_only") else asked, pins._where()


def _wrap_setter(C, pin, getter, setter):
    inner = getattr(C, setter, None)
    if inner is None:
        return

    @pins._wraps(inner)
    def set_flag(*args, **kwargs):
        before = _flag(pin, getter)
        pinned = pins._value(pin)
        asks = args and str(args[0]) == pinned and not (kwargs.get("warn_only") and pins._value("torch.warn_only") != "True")
        try:
            if pins._force and pinned is not None and pins._early == "set" and not asks:
                return _refused(pin, inner, getter, args, kwargs)
            result = inner(*args, **kwargs)
        except BaseException as error:
            pins._hide(error)
            raise
        after = _flag(pin, getter)
        if after != before and pins._by_worker():
            pins._first[pin] = after  # its workers take one thread each
        elif after != before:
            pins._asked[pin] = str(after), pins._where()
        return result

    pins._stands_for(C, setter, set_flag)


def _after_torch_c(C):
    """Before torch's own modules take these functions for themselves. (Public ones get their documentation later, and must
    be torch's own until then.)"""
    for pin, (getter, setter) in _FLAGS.items():
        if setter.startswith("_") and pins._request(pin) != "leave":
            _wrap_setter(C, pin, getter, setter)


def _set_flags(torch):
    """What torch itself offers for it, so that all it does besides is done, too."""
    deterministic, warn = pins._value("torch.deterministic"), pins._value("torch.warn_only")
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
        value = pins._value(pin)
        if value is None:
            continue
        owner = sys.modules.get(module)
        *inside, name = path.split(".")
        for step in inside:
            owner = getattr(owner, step, None)
        if owner is not None:
            setattr(owner, name, value == "True")
    for pin, (_, setter) in _FLAGS.items():
        if pin.startswith("cpu.") and pins._value(pin) is not None:
            getattr(torch, setter)(int(pins._value(pin)))


def _seed_torch(torch):
    import torch.random as owner

    seed = owner.manual_seed
    if pins._value("torch.seed") is not None:
        seed(pins._mix(pins._part("_pins_seeds")._seed("torch.seed"), pins._generation))
    if pins._value("torch.seed_cuda") is not None:
        torch.cuda.manual_seed_all(pins._mix(pins._part("_pins_seeds")._seed("torch.seed_cuda"), pins._generation))


_seeds = set()  # that torch's generator was given by calls which were seen
_met = []  # that it was given otherwise


def _know_seed(torch):
    try:
        _seeds.add(torch.initial_seed())
    except Exception:
        pass


def _is_foreign(torch):
    """Has the generator a seed, or a state with one, that no function has given it which is seen? One that goes back to
    where it was is nothing new."""
    return pins._request("torch.seed") != "leave" and bool(_seeds) and torch.initial_seed() not in _seeds


def _restored(torch, where):
    """Out of a checkpoint, say."""
    foreign = _is_foreign(torch)
    if foreign:
        _know_seed(torch)
        pins._part("_pins_seeds")._restored("torch.seed", where)
    return foreign


def _read_seed(torch, answers):
    """Seeds that a method of the generator's own has given it are seen here."""
    text = "another seed, by a method of torch.default_generator"
    if _is_foreign(torch):
        _know_seed(torch)
        _met.append(text)
        pins._asked.setdefault("torch.seed", (text, ""))
    if _met and pins._force and pins._value("torch.seed") is not None:
        answers.say("torch.seed", "changed", text)
    elif pins._value("torch.seed") is not None:
        pins._part("_pins_seeds")._seeded("torch.seed", answers)


def _wrap_torch_state(torch, owner):
    inner = owner.set_rng_state

    @pins._wraps(inner)
    def set_rng_state(*args, **kwargs):
        try:
            result = inner(*args, **kwargs)
        except BaseException as error:
            pins._hide(error)
            raise
        try:
            if not pins._by_torch() and _restored(torch, pins._where()) and pins._force and pins._value("torch.seed"):
                _seed_torch(torch)
                _know_seed(torch)
        except Exception:
            pass
        return result

    if torch.set_rng_state is inner:
        torch.set_rng_state = set_rng_state
    pins._stands_for(owner, "set_rng_state", set_rng_state)


def _wrap_torch_seeds(torch):
    import torch.random as owner

    _know_seed(torch)
    _wrap_torch_state(torch, owner)

    def know():
        _know_seed(torch)

    inner = pins._part("_pins_seeds")._wrap_seed(owner, "manual_seed", "torch.seed", know)
    if torch.manual_seed is inner:
        torch.manual_seed = owner.manual_seed
    else:  # Dynamo's function around it
        pins._part("_pins_seeds")._wrap_seed(torch, "manual_seed", "torch.seed", know)
    for name in ("manual_seed", "manual_seed_all"):
        pins._part("_pins_seeds")._wrap_seed(torch.cuda, name, "torch.seed_cuda")
    pins._part("_pins_seeds")._wrap_torch_generator(torch)


def _after_torch(torch):
    _seed_torch(torch)
    for pin, (getter, setter) in _FLAGS.items():
        if not setter.startswith("_") and pins._request(pin) != "leave":
            _wrap_setter(torch, pin, getter, setter)
    _set_flags(torch)
    _wrap_torch_seeds(torch)  # behind what Dynamo, which the flags may have loaded, has put before them
    if os.environ.get("TWINBIT_POISON"):  # else torch would fill it by itself under deterministic algorithms
        sys.modules["torch.utils.deterministic"].fill_uninitialized_memory = False
    pins._asked.clear()  # by us, until now
    pins._early = "set"
    answers = pins._Answers()
    _read_torch(torch, answers)
    answers.send()


def _fused(torch):
    names = ("flash", "mem_efficient", "math", "cudnn")
    return " ".join(n for n in names if _get(f"_get_{n}_sdp_enabled"))


def _flag_state(pin, value, answers):
    """What was set must still be there, what was kept still be what it was."""
    asked, where = pins._asked.get(pin, (None, ""))
    pinned = pins._value(pin)
    if value is None:  # this torch has no such one
        return
    if pinned is not None:
        if str(value) == pinned:
            more = f" (the job asked for {asked})" if pins._force and asked not in (None, pinned) else ""
            answers.say(pin, "held", f"{value}{more}", where if more else "")
        else:
            answers.say(pin, "changed" if asked is not None else "missed", value, where)
        return
    first = pins._first.setdefault(pin, value)
    if pin == "cpu.torch_interop_threads" and asked is None and value != first:  # torch counts them anew until its pool begins
        answers.say(pin, "held" if pins._request(pin) == "keep" else "read", f"{value}, of the CPUs left to the process")
    elif pins._request(pin) == "keep" and value != first:
        answers.say(pin, "changed", value, where)
    elif pins._request(pin) == "keep":
        answers.say(pin, "held", value)
    else:
        answers.say(pin, "read", value)


def _read_torch(torch, answers):
    for pin, (getter, _) in _FLAGS.items():
        value = _flag(pin, getter)
        if value is not None and pins._request(pin) != "leave":
            _flag_state(pin, value, answers)
    if pins._request("torch.warn_only") != "leave":
        _flag_state("torch.warn_only", _get("_get_deterministic_algorithms_warn_only"), answers)
    _flag_state("torch.sdpa", _fused(torch), answers)
    _read_seed(torch, answers)
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and getattr(cuda, "is_initialized", bool)():
        pins._part("_pins_seeds")._seeded("torch.seed_cuda", answers)
    backends = getattr(getattr(torch, "backends", None), "cpu", None)
    if backends is not None:
        pins._part("_pins_read")._library("cpu.torch_capability", backends.get_cpu_capability(), answers)


# ---------------------------------------------------------------- data loading


def _after_dataloader(module):
    """Base seed, order of arrival and indices of each loader, as it begins an epoch."""
    owner = module._BaseDataLoaderIter
    inner = owner.__init__

    @pins._wraps(inner)
    def __init__(self, loader):
        try:
            inner(self, loader)
        except BaseException as error:
            pins._hide(error)
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
    wanted = pins._value("data.in_order")
    if wanted is not None and pins._force and str(bool(in_order)) != wanted:
        pins._asked["data.in_order"] = str(bool(in_order)), ""
        loader.in_order = in_order = wanted == "True"
    asked, _ = pins._asked.get("data.in_order", (None, ""))
    more = f" (the job asked for {asked})" if asked is not None else ""
    state = "read" if wanted is None else "held" if str(bool(in_order)) == wanted else "job"
    answers.say("data.in_order", state, f"{bool(in_order)}{more}", pins._where() if state == "job" else "")


def _told_loader(iterator, loader):
    answers = pins._Answers()
    by_job = "torch.seed" in pins._asked and not pins._force
    own = getattr(loader, "generator", None) is not None
    seed = getattr(iterator, "_base_seed", None)
    if seed is not None:
        answers.say("data.base_seed", "job" if own or by_job else
                    "held" if pins._value("data.base_seed") is not None else "read", seed)
    _told_in_order(loader, answers)
    sampler = getattr(loader, "sampler", None)
    if sampler is not None and hasattr(sampler, "generator"):
        drawn = getattr(sampler, "generator", None) is not None or by_job
        answers.say("data.sampler", "job" if drawn else "held" if pins._value("data.sampler") is not None else "read",
                    type(sampler).__name__)
    answers.send()


def _after_worker(module):
    """What a worker seeds NumPy with is torch's own doing: it says so before its first item."""
    if pins._value("data.worker_generator") is not None:
        pins._part("_generators").after_worker(pins, module)
    inner = getattr(module, "_generate_state", None)
    if inner is None:
        return

    @pins._wraps(inner)
    def _generate_state(base_seed, worker_id):
        state = inner(base_seed, worker_id)
        pins._now("data.worker_numpy", "held" if pins._value("data.worker_numpy") is not None else "read",
             f"worker {worker_id} of base seed {base_seed}")
        return state

    module._generate_state = _generate_state
