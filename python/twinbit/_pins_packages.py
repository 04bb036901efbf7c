"""Pins of packages other than torch: FlashAttention's backward pass, TensorFlow's operators and seed.

Loaded by path by _pins.py, where one of these pins is to be set; what it shares with that stands in @pins. Nothing of a
package is imported here: what is done is done behind the job's own import of it. Raises nothing into the job.
"""

from __future__ import annotations

import sys

FLASH, TENSORFLOW, TENSORFLOW_SEED = "kernels.flash_attention", "compile.tensorflow", "compile.tensorflow_seed"
# FlashAttention 2, the package of 3, and 4
_FLASH_MODULES = ("flash_attn.flash_attn_interface", "flash_attn_interface", "flash_attn.cute.interface")

pins = None  # the module _pins


def wanted(module):
    """Names of modules at whose import something is set, as _pins._Finder takes them."""
    global pins
    pins = module
    after = {}
    if pins._value(FLASH) is not None:
        after.update(dict.fromkeys(_FLASH_MODULES, _after_flash))
    if pins._value(TENSORFLOW) is not None or pins._value(TENSORFLOW_SEED) is not None:
        after["tensorflow"] = _after_tensorflow
    return after


# ---------------------------------------------------------------- FlashAttention


def _after_flash(module):
    """Its functions have a keyword deterministic=False each; the name in the package is taken from here afterwards."""
    import inspect

    wrapped = []
    for name, function in list(vars(module).items()):
        if name.startswith("flash_attn") and inspect.isroutine(function):
            order = list(inspect.signature(function).parameters)
            if "deterministic" in order:
                pins._stands_for(module, name, _wrap_flash(function, order.index("deterministic")))
                wrapped.append(name)
    pins._now(FLASH, "given" if wrapped else "missed", f"default of {len(wrapped)} functions of {module.__name__}")


def _compiling():
    torch = sys.modules.get("torch")
    compiler = getattr(torch, "compiler", None)
    return compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling()


def _tell_flash(asked):
    """Once each: what a call took, or which call of the job has a value of its own."""
    if asked is None or str(asked) == pins._value(FLASH):
        if FLASH not in pins._asked:
            pins._now(FLASH, "held", pins._value(FLASH))
        return
    if FLASH not in pins._asked:
        pins._asked[FLASH] = str(asked), pins._where()
    asked, where = pins._asked[FLASH]
    if pins._force:
        pins._now(FLASH, "held", f"{pins._value(FLASH)} (the job asked for {asked})", where)
    else:
        pins._now(FLASH, "job", asked, where)


def _wrap_flash(inner, place):
    """@place: of the argument, for calls that give it by position."""
    import functools

    value = pins._value(FLASH) == "True"
    force = pins._force

    @functools.wraps(inner)
    def attention(*args, **kwargs):
        given = len(args) > place
        asked = args[place] if given else kwargs.get("deterministic")
        if not _compiling():
            _tell_flash(asked)
        if asked is None or force:
            if given:
                args = (*args[:place], value, *args[place + 1:])
            else:
                kwargs["deterministic"] = value
        return inner(*args, **kwargs)

    return attention


# ---------------------------------------------------------------- TensorFlow


def _after_tensorflow(tensorflow):
    """With deterministic operators random ones without a seed raise: the seed comes first."""
    if pins._value(TENSORFLOW_SEED) is not None:
        seed = pins._part("_pins_seeds")._wrap_seed(tensorflow.random, "set_seed", TENSORFLOW_SEED)
        seed(pins._part("_pins_seeds")._seed(TENSORFLOW_SEED))
        pins._part("_pins_seeds")._seeded(TENSORFLOW_SEED).send()
    if pins._value(TENSORFLOW) == "True":
        tensorflow.config.experimental.enable_op_determinism()
    answers = pins._Answers()
    read(answers)
    answers.send()


def read(answers):
    """What TensorFlow itself says; its getter is not documented, and may be elsewhere in another version."""
    value = pins._value(TENSORFLOW)
    config = sys.modules.get("tensorflow.python.framework.config")
    if value is None or "tensorflow" not in sys.modules:
        return
    try:
        enabled = str(bool(config.is_op_determinism_enabled()))
    except AttributeError:
        answers.say(TENSORFLOW, "given", value)
        return
    before = pins._first.setdefault(TENSORFLOW, enabled)
    answers.say(TENSORFLOW, "held" if enabled == value else "changed" if before == value else "missed", enabled)
