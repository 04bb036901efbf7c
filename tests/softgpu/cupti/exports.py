#!/usr/bin/env python3
"""Reads what libcupti exports: the functions of the headers under one version node, and no more.

usage: exports.py LIBRARY COPY-FOR-PRELOAD MAJOR INCLUDE-FOLDER...
"""
import os
import re
import subprocess
import sys

# What PyTorch 2.15 imports; one name missing, and `import torch` fails.
TORCH = """cuptiActivityDisable cuptiActivityEnable cuptiActivityEnableCudaEventDeviceTimestamps
cuptiActivityEnableDriverApi cuptiActivityEnableRuntimeApi cuptiActivityFlushAll cuptiActivityGetNextRecord
cuptiActivityGetNumDroppedRecords cuptiActivityPopExternalCorrelationId
cuptiActivityPushExternalCorrelationId cuptiActivityRegisterCallbacks cuptiActivityRegisterTimestampCallback
cuptiActivitySetAttribute cuptiEnableCallback cuptiEnableDomain cuptiFinalize cuptiGetCallbackName
cuptiGetResultString cuptiGetVersion cuptiSubscribe cuptiUnsubscribe""".split()
NVTX = {"InitializeInjectionNvtx", "InitializeInjectionNvtx2"}


def declared(folders):
    names = set()
    for folder in folders:
        for file in sorted(os.listdir(folder)):
            if re.fullmatch(r"cupti\w*\.h", file):
                with open(os.path.join(folder, file), encoding="utf-8", errors="replace") as f:
                    names |= set(re.findall(r"^CUptiResult\s+(?:CUPTIAPI\s+)?(cupti[A-Z]\w*)\s*\(", f.read(), re.M))
    return names


def exported(library, node):
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in out.splitlines() if line.split()[-2] != "A"]
    bad = [f"not under {node}: {n}" for n in names if not n.endswith("@@" + node)]
    return {n.split("@")[0] for n in names}, bad


def main(library, preload, major, *folders):
    node = f"libcupti.so.{major}"
    have, bad = exported(library, node)
    want = declared(folders)
    bad += [f"not exported: {n}" for n in sorted(want - have)]
    bad += [f"exported, but in no header: {n}" for n in sorted(have - want - NVTX)]
    # those that CUDA 12.8's headers do not have yet are 13's
    bad += [f"PyTorch needs {n}" for n in TORCH if n not in have and int(major) >= 13]
    for file in (library, preload):
        dynamic = subprocess.run(["readelf", "-dW", file], capture_output=True, text=True, check=True).stdout
        if f"soname: [{node}]" not in dynamic:
            bad.append(f"{file}: SONAME is not {node}")
        # nothing is loaded with it: a program that never asks for CUPTI pays for no driver
        bad += [f"{file} needs {n}" for n in re.findall(r"NEEDED.*\[(lib(?:cuda|cudart|nv)\S*)\]", dynamic)]
    for line in bad:
        print(line)
    print(f"{len(have)} exports, {len(bad)} wrong")
    return 1 if bad or len(have) < 150 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
