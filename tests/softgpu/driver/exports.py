#!/usr/bin/env python3
"""Reads what libcuda.so.1 exports and compares it with the headers it was made from.

usage: exports.py GENERATOR LIBRARY INCLUDE-FOLDERS CC
"""
import importlib.util
import re
import subprocess
import sys

TLS_MAX = 1280
# Names that clients ask for first of all; they must be there whatever the generator thinks.
NEEDED = """cuInit cuDriverGetVersion cuGetErrorString cuGetProcAddress cuGetProcAddress_v2 cuDeviceGet
cuDeviceGetUuid_v2 cuCtxCreate cuCtxCreate_v2 cuCtxCreate_v4 cuDevicePrimaryCtxRelease_v2
cuCtxPopCurrent_v2 cuModuleLoadDataEx cuLibraryLoadData cuLinkAddData_v2 cuLaunchKernel
cuLaunchKernel_ptsz cuLaunchKernelEx cuMemAlloc_v2 cuMemcpyHtoD_v2 cuMemcpyHtoD_v2_ptds
cuMemcpyHtoDAsync_v2_ptsz cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphInstantiate_v2
cuGraphExecKernelNodeSetParams cuGetExportTable cuMulticastCreate cuTensorMapEncodeTiled
cuIpcGetMemHandle cuProfilerStart cuGraphicsGLRegisterBuffer cuEGLStreamConsumerConnect""".split()


def main(generator, library, include, cc):
    spec = importlib.util.spec_from_file_location("gen_driver", generator)
    gen = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gen)
    folders = include.split(";")
    headers = [f"#include <{h}>" for h in ("cuda.h", "cudaProfiler.h") if gen.read(folders, h)]
    functions = gen.declared_functions(gen.preprocess(cc, folders, headers) + gen.PROFILER)
    graphics, _ = gen.graphics_names(folders)
    want = set(functions) | set(graphics)
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True,
                         check=True).stdout
    have = {line.split()[-1] for line in out.splitlines()}
    bad = [f"not exported: {n}" for n in sorted(want - have)]
    bad += [f"exported, but in no header: {n}" for n in sorted(have - want)]
    bad += [f"not exported: {n}" for n in NEEDED if n not in have]
    dynamic = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True,
                             check=True).stdout
    if "soname: [libcuda.so.1]" not in dynamic:
        bad.append("SONAME is not libcuda.so.1")
    bad += [f"needs {n}" for n in re.findall(r"NEEDED.*\[(lib(?:cuda|cupti|nv)\S*)\]", dynamic)]
    # it is opened at run time, where the C library keeps about 1.6 KiB free for all such libraries
    headers = subprocess.run(["readelf", "-lW", library], capture_output=True, text=True, check=True).stdout
    tls = re.search(r"^\s*TLS(?:\s+0x[0-9a-f]+){4}\s+(0x[0-9a-f]+)", headers, re.M)
    if tls and int(tls[1], 16) > TLS_MAX:
        bad.append(f"{int(tls[1], 16)} bytes of thread-local storage, more than {TLS_MAX}")
    for line in bad:
        print(line)
    print(f"{len(have)} exports, {len(bad)} wrong")
    return 1 if bad or len(have) < 500 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
