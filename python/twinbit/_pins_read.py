"""What the interpreter and its libraries say of their pins: hash seed, variables, CPUs, BLAS, OpenMP.

Loaded by path by _pins.py, and shares what stands there. Raises nothing into the job.
"""

from __future__ import annotations

import os
import sys

pins = sys.modules["_twinbit_pins"]


def _asks_for_random():
    """python -R, which outweighs the variable; what is behind -c, -m, -W and -X is no option of its own."""
    for word in getattr(sys, "orig_argv", [])[1:]:
        if not word.startswith("-") or word.startswith("--"):
            break
        options = word[1:]
        for at, option in enumerate(options):
            if option == "R":
                return True
            if option in "cmWX":
                break
        if options[-1:] in "cm":
            break
    return False


def _hash_seed(answers):
    pinned = pins._value("python.hashseed")
    asked = "" if sys.flags.ignore_environment else pins._hash_seed_at_start
    random = sys.flags.hash_randomization and (not asked.isdigit() or asked == "0" or _asks_for_random())
    value = "random" if random else asked if asked.isdigit() else "0"
    if pinned is None:
        answers.say("python.hashseed", "read", value)
    else:
        _told_variable("python.hashseed", pinned, value, value != "random", answers)


def _told_variable(pin, pinned, seen, is_own, answers):
    """@is_own: a program of the job that started this one has set the variable, and the job wins unless the pins are forced."""
    answers.say(pin, "held" if seen == pinned else "job" if is_own and not pins._force else "missed", seen)


def _environment(answers):
    """The variables, as Python has them: given to libraries, changed since?"""
    for pin, (mechanism, request, sets, value) in pins._rows.items():
        if mechanism != "env" or request == "leave" or pin == "python.hashseed":
            continue
        seen = os.environ.get(sets.split(", ")[0], "(unset)")
        before = pins._first.setdefault("env:" + pin, seen)
        if request in ("set", "add") and (value not in seen if request == "add" else value != seen):
            own = seen != "(unset)" and not pins._force
            answers.say(pin, "changed" if before != seen else "job" if own else "missed", seen)
        elif before != seen:
            answers.say(pin, "changed", seen)
        elif pin not in pins._said:
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
    if pins._value("python.numpy_generator") is not None and "numpy.random" in sys.modules:
        answered = "libtwinbit_pins.so" in os.environ.get("LD_PRELOAD", "")
        answers.say("python.numpy_generator", "given" if answered else "missed",
                    "by system.entropy" if answered else "nothing answers for the system")


def _numpy_features(answers):
    pin = "python.numpy_dispatch"
    module = sys.modules.get("numpy._core._multiarray_umath") or sys.modules.get("numpy.core._multiarray_umath")
    if module is None:
        return
    features = [n for n in getattr(module, "__cpu_dispatch__", ()) if module.__cpu_features__.get(n)]
    pinned = pins._value(pin)
    state = "read" if pinned is None else "missed" if set(pinned.split()) & set(features) else "held"
    if pins._request(pin) == "keep":
        state = "held"
    answers.say(pin, state, " ".join(features) or "baseline")


def _blas():
    """NumPy's OpenBLAS, which no symbol of the process leads to; None: it is not in it."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
            paths = {line.split(None, 5)[5].strip() for line in f if "openblas" in line}
        return pins.ctypes_of_python().CDLL(min(paths)) if paths else None
    except (OSError, IndexError, ValueError):
        return None


def _call(library, names, restype=None):
    for name in names:
        function = getattr(library, name, None)
        if function is not None:
            function.restype = restype or pins.ctypes_of_python().c_int
            result = function()
            return result.decode(errors="replace") if isinstance(result, bytes) else result
    return None


def _library(pin, value, answers):
    """A library's own word outweighs its variable's; names are written in many ways."""
    if value is None:
        return
    pinned = pins._value(pin)
    state = "read"
    if pinned is not None:
        state = "held" if str(value).lower() == pinned.lower() else "missed"
    elif pins._request(pin) == "keep":
        state = "held" if value == pins._first.setdefault(pin, value) else "changed"
    answers.say(pin, state, value)


def _libraries(answers):
    """Asked after the job has used them: a question may start a library."""
    ctypes = pins.ctypes_of_python()
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
