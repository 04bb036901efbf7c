"""Seeds that the job gives to generators of Python, NumPy and torch: one that is the time or the pid becomes one that follows
from the run's seed; in a replay each becomes what it was. The deciding and the writing down is libtwinbit_pins.so's
(deterministic/preload/seeds.c). Without that library seeds stay as they are. Raises nothing into the job.
"""

from __future__ import annotations

import sys

from _struct import pack, unpack  # struct may be a file of the job's

_functions = None  # of the library; False: there is none, or seeds are not looked at


def _load():
    global _functions
    _functions = sys.modules["_twinbit_pins"].preloaded("twinbit_pins_seeds", lambda c: {
        "twinbit_pins_seeds": (c.c_int, []),
        "twinbit_pins_seed": (c.c_uint64, [c.c_uint64, c.c_uint, c.c_char_p, c.POINTER(c.c_int)]),
    })
    return _functions


def wanted():
    """Are seeds looked at?"""
    return bool(_load() if _functions is None else _functions)


def _ask(asked, bits, where):
    ctypes = sys.modules["_twinbit_pins"].ctypes_of_python()
    replaced = ctypes.c_int(0)
    given = _functions.twinbit_pins_seed(asked, bits, where.encode(errors="replace"), ctypes.byref(replaced))
    return given if replaced.value else None


def given(asked, where):
    """What is to be given in place of @asked: itself, as a rule. @where: gives the job's line, if it is needed."""
    try:
        if not wanted():
            return asked
        if type(asked) is float:
            bits, = unpack("<Q", pack("<d", asked))
            seed = _ask(bits, 0, where())
            return asked if seed is None else unpack("<d", pack("<Q", seed))[0]
        number = asked.__index__() if hasattr(asked, "__index__") else None
        if number is None or isinstance(asked, bool) or not -(1 << 63) <= number < 1 << 64:
            return asked
        seed = _ask(number & 0xFFFFFFFFFFFFFFFF, 32 if 0 <= number < 1 << 32 else 64, where())
        return asked if seed is None else seed - (1 << 64) if number < 0 and seed >> 63 else seed
    except Exception:
        return asked
