#!/usr/bin/env python3
"""Reads what libnvidia-ml.so.1 exports, compares it with nvml.h, and calls every function before nvmlInit.

usage: exports.py GENERATOR LIBRARY INCLUDE-FOLDER CC
"""
import ctypes
import importlib.util
import re
import subprocess
import sys

UNINITIALIZED = 1


def main(generator, library, include, cc):
    spec = importlib.util.spec_from_file_location("gen_nvml", generator)
    gen = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gen)
    want = gen.header_functions(cc, include)
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True,
                         check=True).stdout
    have = {line.split()[-1] for line in out.splitlines()}
    bad = [f"not exported: {n}" for n in sorted(set(want) - have)]
    bad += [f"exported, but in no header: {n}" for n in sorted(have - set(want))]
    dynamic = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True,
                             check=True).stdout
    if "soname: [libnvidia-ml.so.1]" not in dynamic:
        bad.append("SONAME is not libnvidia-ml.so.1")
    bad += [f"needs {n}" for n in re.findall(r"NEEDED.*\[(lib(?:cu|nv)\S*)\]", dynamic)]
    if "asan" not in dynamic and "tsan" not in dynamic:  # the interpreter would have to be built with it
        bad += called_too_early(library, [f for n, f in want.items() if n not in gen.ALWAYS])
    for line in bad:
        print(line)
    print(f"{len(have)} exports, {len(bad)} wrong")
    return 1 if bad or len(have) < 250 else 0


def called_too_early(library, functions):
    lib = ctypes.CDLL(library)
    bad = []
    for f in functions:
        args = [ctypes.c_uint64(0)] * len(f.params)
        if getattr(lib, f.name)(*args) != UNINITIALIZED:
            bad.append(f"does not ask for nvmlInit: {f.name}")
    return bad


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
