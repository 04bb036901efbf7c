"""twinbit for jobs that want to say more than the recorder can see by itself.

Everything here does nothing unless the job runs under ``twinbit run``, so a job may call it always.
"""

from __future__ import annotations

import sys

__all__ = ["active", "step"]


def _glue():
    return sys.modules.get("_twinbit_glue")


def active() -> bool:
    """True while this process is being recorded."""
    glue = _glue()
    return glue is not None and glue.active()


def step(number: int | None = None) -> None:
    """Mark the end of a training step, for jobs that call no ``torch.optim.Optimizer.step``.

    number: the number of the step that ends (0-based); counted by twinbit if None. The first call
    turns off the automatic marks at optimizer steps.
    Errors: none; a number that goes backwards is recorded as it is.
    """
    glue = _glue()
    if glue is not None:
        glue.user_step(number)
