"""Seeds that the job gives to generators of Python, NumPy and torch: one that is the time or the pid, or a text or a list in
which they are, becomes one that follows from the run's seed; in a replay each becomes what it was. The deciding and the writing down is libtwinbit_pins.so's
(deterministic/preload/seeds.c, seed_text.c). Without that library seeds stay as they are. Raises nothing into the job.
"""

from __future__ import annotations

import sys

from _struct import pack, unpack  # struct may be a file of the job's

_TEXT_MAX = 16384  # bytes, as of the library
_functions = None  # of the library; False: there is none, or seeds are not looked at


def _load():
    global _functions
    _functions = sys.modules["_twinbit_pins"].preloaded("twinbit_pins_seeds", lambda c: {
        "twinbit_pins_seeds": (c.c_int, []),
        "twinbit_pins_seed": (c.c_uint64, [c.c_uint64, c.c_uint, c.c_char_p, c.POINTER(c.c_int)]),
        "twinbit_pins_seed_text": (c.c_long, [c.c_char_p, c.c_size_t, c.c_char_p, c.c_size_t, c.c_char_p]),
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


def _ask_text(text, where):
    ctypes = sys.modules["_twinbit_pins"].ctypes_of_python()
    room = ctypes.create_string_buffer(_TEXT_MAX)
    n = _functions.twinbit_pins_seed_text(text, len(text), room, _TEXT_MAX, where.encode(errors="replace"))
    return None if n < 0 or room.raw[:n] == text else room.raw[:n]


def _of_text(asked, where):
    if isinstance(asked, str):
        new = _ask_text(asked.encode("utf-8", "surrogatepass"), where())
        return asked if new is None else new.decode("utf-8", "surrogatepass")
    new = _ask_text(bytes(asked), where())
    return asked if new is None else type(asked)(new)


def _of_numbers(asked, where):
    """Of a list, a tuple or an array of whole numbers."""
    array = hasattr(asked, "dtype")
    numbers = asked.ravel().tolist() if array else asked
    text = " ".join(str(number.__index__()) for number in numbers)
    new = _ask_text(text.encode(), where())
    if new is None:
        return asked
    numbers = [int(word) for word in new.split()]
    if array:
        return sys.modules["numpy"].array(numbers, dtype=asked.dtype).reshape(asked.shape)
    return tuple(numbers) if isinstance(asked, tuple) else numbers


def given(asked, where):
    """What is to be given in place of @asked: itself, as a rule. @where: gives the job's line, if it is needed."""
    try:
        if asked is None or not wanted():
            return asked
        if isinstance(asked, float):
            bits, = unpack("<Q", pack("<d", asked))
            seed = _ask(bits, 0, where())
            return asked if seed is None else unpack("<d", pack("<Q", seed))[0]
        if isinstance(asked, (str, bytes, bytearray)):
            return _of_text(asked, where)
        if isinstance(asked, (list, tuple)) or getattr(asked, "ndim", 0) and hasattr(asked, "dtype"):
            return _of_numbers(asked, where)
        number = asked.__index__() if hasattr(asked, "__index__") else None
        if number is None or isinstance(asked, bool):
            return asked
        if not -(1 << 63) <= number < 1 << 64:
            return _of_numbers((asked,), where)[0]
        seed = _ask(number & 0xFFFFFFFFFFFFFFFF, 32 if 0 <= number < 1 << 32 else 64, where())
        return asked if seed is None else seed - (1 << 64) if number < 0 and seed >> 63 else seed
    except Exception:
        return asked
