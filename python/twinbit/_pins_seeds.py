"""Pins that are seeds: of Python's random, of NumPy and torch; what the job asks for instead, and its children's.

Loaded by path by _pins.py, and shares what stands there. Raises nothing into the job but what its own call would have raised.
"""

from __future__ import annotations

import os
import sys

pins = sys.modules["_twinbit_pins"]


def _rank():
    for name in ("RANK", "SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "LOCAL_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def _seed(pin):
    """What is to be seeded, or None: another number for each rank, as without a seed."""
    value = pins._value(pin)
    return None if value is None else pins._mix(int(value), _rank())


def _seeded(pin, answers=None):
    """State of a generator that was seeded by us, as far as calls tell."""
    answers = answers or pins._Answers()
    value = pins._value(pin)
    if pin in pins._asked:
        asked, where = pins._asked[pin]
        if value is not None and pins._force:
            answers.say(pin, "held", f"{value} (the job asked for {asked})", where)
        else:
            answers.say(pin, "read" if value is None else "job", asked, where)
    elif value is not None and pins._early:
        rank = _rank()
        answers.say(pin, "held", f"{_seed(pin)} (rank {rank})" if rank else value)
    return answers


def _inside(asked, inner, args, kwargs):
    pins._asking.append(asked)
    try:
        return inner(*args, **kwargs)
    finally:
        pins._asking.pop()


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


def _wrap_seed(module, name, pin, after=None):
    """The job may seed by itself: then its seed wins, and is told; forced pins take their own instead. @after: called then."""
    inner = getattr(module, name)
    pinned = pins._value(pin)

    def taken(args, kwargs):
        if pins._by_torch() or pins._asking and pins._asking[-1] is pins._OURS:
            return inner(*args, **kwargs)
        asked = _seed_in(args, kwargs)
        forced = pins._force and pinned is not None
        if not pins._asking and not forced:
            args, kwargs = _given(args, kwargs)
            now = _seed_in(args, kwargs)
            if now is not asked and pins._request(pin) != "leave":  # it follows from our seed, as the pinned one does
                result = _inside(pins._OURS, inner, args, kwargs)
                pins._now(pin, "held" if pinned is not None else "read", f"{now} in place of {asked}", pins._where())
                return result
        outer = pins._asking[-1] if pins._asking else asked  # torch.manual_seed() seeds devices, too
        result = _inside(outer, inner, args, kwargs)  # what it refuses is no seed, and the job is told
        if pin not in pins._asked:
            pins._asked[pin] = _told_seed(outer), pins._where()
            _seeded(pin).send()
        return _inside(outer, inner, (pins._mix(_seed(pin), pins._generation),), {}) if forced else result

    @pins._wraps(inner)
    def seed(*args, **kwargs):
        try:
            return taken(args, kwargs)
        except BaseException as error:
            pins._hide(error)
            raise
        finally:
            if after is not None:
                after()

    pins._stands_for(module, name, seed)
    return inner


_KEPT = 64  # states that were given out are known again


def _digest(state):
    """Of a state of Python's or NumPy's, in this process; None: it is none that is known."""
    try:
        if isinstance(state, dict):  # NumPy's, legacy=False
            state = (*state["state"].values(), state.get("has_gauss"), state.get("gauss"))
        return hash(tuple(part.tobytes() if hasattr(part, "tobytes") else part for part in state))
    except Exception:
        return None


def _restored(pin, where):
    """The job has put a state into a generator that it had not got from it, as out of a checkpoint: it wins, and is told."""
    if pin not in pins._asked:
        pins._asked[pin] = "a state that it restored", where
        _seeded(pin).send()


def _wrap_state(module, getter, setter, pin, seed):
    """The functions that hand out and take a generator's whole state. One that was handed out may be put back."""
    get, put = getattr(module, getter), getattr(module, setter)
    known = []

    @pins._wraps(get)
    def get_state(*args, **kwargs):
        state = get(*args, **kwargs)
        known.append(_digest(state))
        del known[:-_KEPT]
        return state

    @pins._wraps(put)
    def set_state(*args, **kwargs):
        try:
            result = put(*args, **kwargs)
        except BaseException as error:
            pins._hide(error)
            raise
        if _digest(args[0] if args else next(iter(kwargs.values()))) in known or pins._by_torch():
            return result
        _restored(pin, pins._where())
        if pins._force and pins._value(pin) is not None:
            seed(pins._mix(_seed(pin), pins._generation))
        return result

    pins._stands_for(module, getter, get_state)
    pins._stands_for(module, setter, set_state)


def _given(args, kwargs):
    """Arguments of a function that seeds: a seed that is the time or the pid becomes another one (_seeds.py)."""
    seeds = pins._part("_seeds")
    if args:
        return (seeds.given(args[0], pins._where), *args[1:]), kwargs
    for name in kwargs:
        if name != "version":  # of random.seed()
            return args, {**kwargs, name: seeds.given(kwargs[name], pins._where)}
    return args, kwargs


def _wrap_seeded(owner, name):
    """A function of which each call makes or seeds a generator of the job's own."""
    inner = getattr(owner, name)

    @pins._wraps(inner)
    def seeded(*args, **kwargs):
        try:
            if not pins._by_torch():
                args, kwargs = _given(args, kwargs)
            return inner(*args, **kwargs)
        except BaseException as error:
            pins._hide(error)
            raise

    pins._stands_for(owner, name, seeded)


_FLAGS_AT = 168  # bytes: tp_flags of a PyTypeObject, CPython 3.8 and later with 64 bits
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


def _wrap_type(owner, name, skip=lambda: False):
    """The method @name of a type of an extension, which takes a seed. Its class must stay the one that the job's libraries
    know (isinstance, pickle), so it is opened for the moment. False: this interpreter's types are not as we know them."""
    if sys.implementation.name != "cpython" or sys.maxsize < 1 << 32:  # id() is no address, or of another layout
        return False
    c = pins.ctypes_of_python()
    flags = c.c_ulong.from_address(id(owner) + _FLAGS_AT)
    if flags.value != owner.__flags__:
        return False
    inner = getattr(owner, name)

    @pins._wraps(inner)
    def seeded(self, *args, **kwargs):
        try:
            if not skip() and not pins._by_torch():
                args, kwargs = _given(args, kwargs)
            return inner(self, *args, **kwargs)
        except BaseException as error:
            pins._hide(error)
            raise

    was = flags.value & _IMMUTABLE
    flags.value &= ~_IMMUTABLE
    try:
        setattr(owner, name, seeded)
    finally:
        flags.value |= was
    return True


def _wrap_numpy_types(module):
    """default_rng() and all bit generators make a SeedSequence of their seed; RandomState seeds as numpy.random.seed() does."""
    if not pins._part("_seeds").wanted():
        return
    try:
        done = _wrap_type(module.SeedSequence, "__init__")
        _wrap_type(module.MT19937, "_legacy_seeding", lambda: bool(pins._asking))
    except (AttributeError, TypeError):
        done = False
    if not done:
        _wrap_seeded(module, "default_rng")


def _wrap_torch_generator(torch):
    """torch.Generator().manual_seed(); the default one's is torch.manual_seed()'s, too."""
    try:
        if pins._part("_seeds").wanted():
            _wrap_type(torch.Generator, "manual_seed", lambda: bool(pins._asking))
    except (AttributeError, TypeError):
        pass


def _wrap_instances(random):
    """random.Random(seed), and its seed() later; SystemRandom has a seed() that does nothing."""
    inner = random.Random.seed

    @pins._wraps(inner)
    def seed(self, *args, **kwargs):
        try:
            args, kwargs = _given(args, kwargs)
            return inner(self, *args, **kwargs)
        except BaseException as error:
            pins._hide(error)
            raise

    random.Random.seed = seed


def _start_random(random):
    """The job, or what it imports, has imported Python's random."""
    if pins._value("data.worker_generator") is not None:
        pins._part("_generators").mark_random(pins, random)
    seed = _wrap_seed(random, "seed", "python.random")
    _wrap_state(random, "getstate", "setstate", "python.random", seed)
    _wrap_instances(random)
    if pins._value("python.random") is not None:
        pins._random_seed = seed
        _seed_random()
        os.register_at_fork(after_in_child=_seed_random)  # behind random's own, which takes a seed from the system
    _seeded("python.random").send()


def _count_fork():
    pins._forks += 1


def _seed_random():
    """Python seeds `random` from the system in each forked child, and in each that is spawned: by its number instead, for
    children must not all draw the same."""
    if pins._random_seed is not None:
        pins._random_seed(pins._mix(_seed("python.random"), pins._generation))


def _number_child(number):
    pins._generation = pins._mix(pins._generation + 1, number)


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
    if pins._value("python.random") is None and not (pins._force and any(pins._value(pin) is not None for pin in _SEED_PINS)):
        return {}
    os.register_at_fork(before=_count_fork, after_in_child=lambda: _number_child(pins._forks))
    return {"multiprocessing.spawn": _after_spawn}


def _after_numpy_random(module):
    _wrap_numpy_types(module)
    seed = _wrap_seed(module, "seed", "python.numpy_legacy")
    _wrap_state(module, "get_state", "set_state", "python.numpy_legacy", seed)
    if pins._value("python.numpy_legacy") is not None:
        seed(pins._mix(_seed("python.numpy_legacy"), pins._generation))
    _seeded("python.numpy_legacy").send()
