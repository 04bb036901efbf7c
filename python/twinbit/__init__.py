"""twinbit for jobs that want to say more than the recorder can see by itself.

Everything here does nothing unless the job runs under ``twinbit run``, so a job may call it always.
"""

from __future__ import annotations

import ctypes
import functools
import sys

__all__ = ["active", "step"]


def _glue():
    return sys.modules.get("_twinbit_glue")


class _Marks(ctypes.Structure):
    """struct twinbit_marks of twinbit.h, up to step()."""

    _fields_ = [("size", ctypes.c_uint32), *((name, ctypes.c_void_p) for name in ("range_push", "range_pop", "step"))]


@functools.lru_cache(maxsize=None)
def _marked_step():
    """Ends a step where there is a recorder but no torch, and so no glue; None: there is no recorder either."""
    try:
        get = ctypes.CDLL(None).twinbit_marks
    except (AttributeError, OSError):
        return None
    get.restype = ctypes.POINTER(_Marks)
    marks = get()
    return ctypes.CFUNCTYPE(None)(marks.contents.step) if marks else None


def active() -> bool:
    """True while this process's operators are being recorded; without torch nobody knows, and it is False."""
    glue = _glue()
    return glue is not None and glue.active()


def step(number: int | None = None) -> None:
    """Mark the end of a training step, for jobs that call no ``torch.optim.Optimizer.step``.

    number: the number of the step that ends (0-based); counted by twinbit if None, and in processes
    without torch. The first call turns off the automatic marks at optimizer steps.
    Errors: none; a number that goes backwards is recorded as it is.
    """
    glue = _glue()
    if glue is not None:
        glue.user_step(number)
    elif (marked := _marked_step()) is not None:
        marked()
