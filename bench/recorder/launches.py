#!/usr/bin/env python3
"""Instructions that recording adds to a launch, or to a copy of a number to the host, counted by callgrind.

A program launches a kernel of four pointers a number of times, and once more twice as often: the difference is what
its launches took; the same of copies. Counted are the instructions of twinbit's own libraries, not those of the driver and of libc that
they call; calls of the driver are counted apart.
"""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

quick = "--quick" in sys.argv
launches = 300 if quick else 2000
BUILD = Path(os.environ["TB_BUILD_DIR"])
PROGRAM = BUILD / "bench" / "recorder" / "bench_launches"
SOFTGPU = BUILD / "softgpu" / "lib"
SHIM = BUILD / "lib" / "twinbit" / "shim"


def kind_of(obj):
    """Whose code an object file is."""
    path = Path(obj)
    if "lib/twinbit" in obj:
        return "ours"
    if path.name.startswith(("libcuda.so", "libcupti.so")):
        return "driver"
    return "program" if path.name == "bench_launches" else "other"


def read(files):
    """Costs by whose code it is: self, and inclusive of calls from one kind to another; calls, too."""
    cost, calls = collections.Counter(), collections.Counter()
    for file in files:
        names, obj, called, pending = {}, "", "", 0
        for line in file.read_text(errors="replace").splitlines():
            m = re.match(r"(c?ob|c?fi|c?fe|c?fl|c?fn|calls)=(?:\((\d+)\))?\s*(.*)", line)
            if m:
                key, number, text = m.groups()
                if key in ("ob", "cob"):
                    if text:
                        names[number] = text
                    name = names.get(number, text)
                    if key == "ob":
                        obj = name
                    else:
                        called = name
                elif key == "fn":
                    called = ""
                elif key == "calls":
                    pending = int(text.split()[0])
                continue
            m = re.match(r"[+\-*\d]\S* (\d+)$", line)
            if not m:
                continue
            if pending:
                edge = (kind_of(obj), kind_of(called or obj))
                cost[edge] += int(m.group(1))
                calls[edge] += pending
                pending, called = 0, ""
            else:
                cost[kind_of(obj)] += int(m.group(1))
    return cost, calls


def run(count, options, what="", shim=False):
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ)
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out.%p", str(PROGRAM), str(count)]
        command += [what] if what else []
        if options is not None:
            command = [str(BUILD / "bin" / "twinbit"), "run", "--quiet", "--device", "softgpu", "--level", "kernel",
                       "-o", f"{folder}/t.twinbit", *options, "--", *command]
        else:
            env["LD_LIBRARY_PATH"] = f"{SHIM}:{SOFTGPU}" if shim else str(SOFTGPU)
            env["TWINBIT_CUDA_REAL"] = str(SOFTGPU / "libcuda.so.1")
        done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr[-2000:]}")
        if os.environ.get("TB_BENCH_KEEP"):
            shutil.copytree(folder, os.environ["TB_BENCH_KEEP"], dirs_exist_ok=True)
        return read(sorted(Path(folder).glob("out.*")))


def a_launch(options, **kind):
    """Per launch: instructions of ours and of the program; calls of the driver by us."""
    few, many = run(launches, options, **kind), run(2 * launches, options, **kind)
    cost = {k: (many[0][k] - few[0][k]) / launches for k in many[0]}
    calls = {k: (many[1][k] - few[1][k]) / launches for k in many[1]}
    return {"ours": cost.get("ours", 0), "program": cost.get("program", 0), "calls": calls.get(("ours", "driver"), 0)}


def figure(metric, value, goal=None):
    if value <= 0:
        sys.exit(f"{metric}: no instruction of twinbit's was counted: is all of {BUILD} built?")
    line = {"metric": metric, "unit": "insns", "samples": [round(value, 1)]}
    print(json.dumps(line | ({"goal": goal} if goal else {})), flush=True)


if not shutil.which("valgrind"):
    print(json.dumps({"note": "no valgrind: instructions of a launch were not counted"}))
    sys.exit()
plain = a_launch(None)
forward = a_launch(None, shim=True)
bare = a_launch(None, what="bare")
callback = bare["program"] - plain["program"]
figure("launch_shim_forwarding", forward["ours"])
figure("launch_bare_callback", callback)
for name, options, less in (("shim", [], forward["ours"]), ("shim_learnt", ["--learn"], forward["ours"]),
                            ("cupti", ["--tap", "cupti"], callback),
                            ("cupti_learnt", ["--tap", "cupti", "--learn"], callback)):
    if quick and name.endswith("learnt"):
        continue
    got = a_launch(options)
    figure(f"launch_{name}", got["ours"] - less, "<=1500")
    print(json.dumps({"metric": f"launch_{name}_driver_calls", "unit": "calls",
                      "samples": [round(got["calls"] - (forward["calls"] if name.startswith("shim") else 0), 3)]}),
          flush=True)
for name, word in (("boundary", None), ("boundary_named", "named")):
    got = a_launch(["--level", "boundary"], what=word or "")
    figure(f"launch_{name}", got["ours"] - forward["ours"], "<=700" if word is None else "<=350")
print(json.dumps({"note": "launch_*: instructions a launch of a kernel with one written and three read pointers, "
                          "over forwarding or over a callback that does nothing; _learnt: as if it had no PTX; "
                          "_named: what it writes has a name of twinbit.h, at level boundary"}))
for name, what in (("copy_waited", "copy"), ("copy_pinned", "async")):
    if quick and what == "async":
        continue
    got, forward = a_launch([], what=what), a_launch(None, what=what, shim=True)
    figure(name, got["ours"] - forward["ours"])
    print(json.dumps({"metric": f"{name}_driver_calls", "unit": "calls",
                      "samples": [round(got["calls"] - forward["calls"], 3)]}), flush=True)
print(json.dumps({"note": "copy_*: instructions a copy of 4 bytes to the host, over forwarding: one that the host waits "
                          "for, and one to pinned memory"}))
