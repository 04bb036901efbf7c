"""data.worker_generator: generators that a data set holds, in the workers of a DataLoader that were forked.

A fork copies a generator's state into each worker, so that all of them draw the same numbers, in each pass again. Those that
the job did not seed by itself get a state of their own in each worker, made of the worker's seed (which follows from
data.base_seed, and differs from pass to pass) and the place where they were found. Loaded where the pin is asked for.
"""

from __future__ import annotations

import itertools
import os
import sys

_TORCH_DEFAULT = 67280421310721  # seed of a torch.Generator that nobody has seeded
_MOST, _DEEPEST = 10000, 6  # objects that are looked at, attributes behind attributes
_SEEDED = "_twinbit_seeded"


def mark_random(pins, random):
    """A random.Random does not tell whether it was given a seed: it is written on it."""
    owner = random.Random
    seed, setstate = owner.seed, owner.setstate

    def mark(self, own):
        try:
            self.__dict__[_SEEDED] = own
        except AttributeError:
            pass

    @pins._wraps(seed)
    def marked_seed(self, a=None, version=2):
        try:
            seed(self, a, version)
        except BaseException as error:
            pins._hide(error)
            raise
        mark(self, a is not None)

    @pins._wraps(setstate)
    def marked_setstate(self, state):
        try:
            setstate(self, state)
        except BaseException as error:
            pins._hide(error)
            raise
        mark(self, True)

    owner.seed, owner.setstate = marked_seed, marked_setstate


# ---------------------------------------------------------------- one generator


def _of_random(generator, seed):
    if generator.__dict__.get(_SEEDED) is not False and seed is None:
        return False
    if seed is not None:
        generator.seed(seed)
    return True


def _of_torch(generator, seed):
    if seed is None:
        return generator.initial_seed() == _TORCH_DEFAULT
    generator.manual_seed(seed)
    return True


def _of_numpy(generator, seed):
    bits = getattr(generator, "bit_generator", None) or generator._bit_generator
    if seed is None:
        drawn = getattr(bits, "seed_seq", None) or getattr(bits, "_seed_seq", None)
        entropy = getattr(drawn, "entropy", None)
        return isinstance(entropy, int) and entropy >= 1 << 64  # 128 bits from the system; nobody types these
    bits.state = type(bits)(seed).state
    return True


def _way(value):
    """Who asks a generator whether it is free (seed None), or seeds it; None: it is none."""
    torch, random = sys.modules.get("torch"), sys.modules.get("random")
    numpy = sys.modules.get("numpy.random")
    if random is not None and isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return _of_random
    if torch is not None and isinstance(value, torch.Generator) and value.device.type == "cpu":
        return _of_torch
    if numpy is not None and isinstance(value, (numpy.Generator, numpy.RandomState)):
        return _of_numpy
    return None


# ---------------------------------------------------------------- all of a data set


def _inside(value):
    """(name, value) of what an object holds by itself; no property is asked."""
    if isinstance(value, dict):
        return [(f"[{key!r}]"[:40], held) for key, held in itertools.islice(value.items(), _MOST)]
    if isinstance(value, (list, tuple)):
        return [(f"[{i}]", held) for i, held in enumerate(itertools.islice(value, _MOST))]
    if isinstance(value, type) or type(value).__module__ in ("builtins", "types"):
        return []
    try:
        return [(f".{name}", held) for name, held in vars(value).items()]
    except TypeError:
        return []


def find(dataset):
    """(place, generator, way) of each, once."""
    found, seen, waiting = [], {id(dataset)}, [("", dataset, 0)]
    while waiting and len(seen) < _MOST:
        place, value, depth = waiting.pop(0)
        way = _way(value)
        if way is not None:
            found.append((place or "itself", value, way))
            continue
        if depth == _DEEPEST:
            continue
        for name, held in _inside(value):
            if id(held) not in seen and not isinstance(held, (int, float, str, bytes, bool, type(None))):
                seen.add(id(held))
                waiting.append((place + name, held, depth + 1))
    return found


def _place_seed(pins, seed, place):
    seed = pins._mix(seed, 1)
    for byte in place.encode(errors="replace"):
        seed = pins._mix(seed, byte + 1)
    return seed


def reseed(pins, info):
    """In a worker, before its first item and before what the job's worker_init_fn does."""
    new, own = [], []
    for place, generator, way in find(info.dataset):
        if pins._force or way(generator, None):
            way(generator, _place_seed(pins, info.seed, place))
            new.append(place.lstrip("."))
        else:
            own.append(place.lstrip("."))
    if own:
        pins._now("data.worker_generator", "job", f"seeds of its own in {', '.join(own)}"[:150])
    elif new:
        pins._now("data.worker_generator", "held", f"worker {info.id}: {', '.join(new)}")


def after_worker(pins, module):
    """torch.utils.data._utils.worker has been loaded."""
    owner = module.WorkerInfo
    inner = owner.__init__

    @pins._wraps(inner)
    def __init__(self, *args, **kwargs):
        inner(self, *args, **kwargs)
        try:
            forked = pins.own_pid() != pins._pid
            if forked and getattr(self, "worker_method", "multiprocessing") in ("multiprocessing", None):
                reseed(pins, self)
        except Exception:
            pass

    owner.__init__ = __init__
