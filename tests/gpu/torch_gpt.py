#!/usr/bin/env python3
"""torch_job.py recorded twice: the output of the unrecorded job, two recordings identical, all that ran seen.

usage: torch_gpt.py BUILD FOLDER [--device softgpu] [--level LEVEL] [--tap TAP] MODE [OPTIONS of torch_job.py]

Skipped where there is no GPU, no torch, or one that has none. Rows of coverage are printed.
"""
import argparse
import os
import shutil
import subprocess

import gpu
from recording import TAPS, Recordings

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))


def python():
    """$TWINBIT_PYTHON, the project's, python3: the first that there is; skips where it has no torch of CUDA"""
    said = os.environ.get("TWINBIT_PYTHON", "")
    if said == "none":
        gpu.skip("TWINBIT_PYTHON=none")
    path = next(filter(None, map(shutil.which, (said, os.path.join(TOP, ".venv/bin/python"), "python3"))), None)
    if not path:
        gpu.skip("no python")
    done = subprocess.run([path, "-c", "import torch; print(torch.version.cuda or '')"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        gpu.skip(f"'{path}' has no torch with CUDA" if not done.returncode else f"'{path}' has no module 'torch'")
    return path, done.stdout.strip()


def environment(args):
    """A folder of its own for compilers' caches: a warm one would be another job."""
    settings = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "OMP_NUM_THREADS": "1", "TRITON_CACHE_DIR": args.folder + "/triton",
                "TORCHINDUCTOR_CACHE_DIR": args.folder + "/inductor", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return {**settings, "SOFTGPU_EAGER": "1"} if args.device == "softgpu" else settings


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("--device", choices=["softgpu", "host"], default="host")
    parser.add_argument("--level", choices=["op", "kernel"], default="op")
    parser.add_argument("--tap", choices=TAPS, default="shim")
    parser.add_argument("--timeout", type=int, default=120)
    parser.add_argument("mode", choices=["eager", "compile", "graphs"])
    args, options = parser.parse_known_args()
    reason = gpu.why_no_gpu() if args.device == "host" else None
    if reason:
        gpu.skip(reason)
    path, version = python()
    if args.device == "softgpu" and not version.startswith("13."):
        gpu.skip(f"'{path}' has a torch of CUDA {version}, not 13")
    job = [path, os.path.join(HERE, "torch_job.py"), args.mode, *options]
    r = Recordings(args.build, args.folder, args.device, args.timeout)
    shutil.rmtree(os.path.join(args.folder, "inductor"), ignore_errors=True)
    shutil.rmtree(os.path.join(args.folder, "triton"), ignore_errors=True)
    settings = environment(args)
    gpu.run([r.twinbit, "doctor"], 600, {"TWINBIT_PYTHON": path})  # compiles the tap, if that was not done yet
    want = r.alone(job, settings)
    how = [*TAPS[args.tap], "--level", args.level]
    if all([r.record(name, how, job, want, settings) for name in ("1", "2")]):
        launches = r.count("1")
        eager = args.mode == "eager"
        if not launches and (not eager or args.level == "kernel" and args.device == "host"):
            r.wrong("no launch was seen")
        if args.level == "kernel" and not any(e["kind"] in ("launch", "copy", "set") for e in r.rows("1", "events")):
            r.wrong("no work of the device was seen")  # eager operators of softgpu launch nothing
        if args.level == "op" and not any(e["operator"].startswith("aten::") for e in r.rows("1", "events")):
            r.wrong("no operator was seen")
        r.identical("1", "2")
    r.end(f"{args.mode}, level {args.level}, tap {args.tap}: {len(want.out.splitlines())} steps, torch of CUDA {version}")


if __name__ == "__main__":
    main()
