#!/usr/bin/env python3
"""What a finding inside a kernel says.

usage: fields.py PROGRAM    PROGRAM: softgpu_strict_exec
"""
import json
import os
import subprocess
import sys
import tempfile


def finding(program, case):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        env = {k: v for k, v in os.environ.items() if not k.startswith("SOFTGPU_")}
        env.update(SOFTGPU_STRICT="report", SOFTGPU_REPORT=report)
        subprocess.run([program, case, "bad"], env=env, capture_output=True, timeout=60, check=False)
        with open(report, encoding="utf-8") as f:
            return json.loads(f.readlines()[1])


def expect(found, **wanted):
    for name, value in wanted.items():
        if found.get(name) != value:
            sys.exit(f"{name} is {found.get(name)}, not {value}: {found}")


def main():
    program = sys.argv[1]
    f = finding(program, "device_behind")
    expect(f, rule="out-of-bounds", kernel="store8", file="store.cu", line=42, block=[0, 0, 0],
           thread=[0, 0, 0], access="write", size=1)
    expect(f["allocation"], size=100, offset=100, kind="device", state="alive")
    expect(f["allocation"]["allocated_by"], name="cuMemAlloc_v2")
    if int(f["address"], 16) != int(f["allocation"]["address"], 16) + 100 or not f["ptx_line"]:
        sys.exit(f"where it was: {f}")
    f = finding(program, "heap_freed")
    expect(f, rule="use-after-free", access="write", size=4)
    expect(f["allocation"], kind="device heap", state="freed", size=64, offset=0)
    expect(f["allocation"]["freed_by"], name="free")
    f = finding(program, "variable_behind")
    expect(f["allocation"], kind="variable", size=12, offset=12)
    f = finding(program, "shared_behind")  # no allocation is near an offset in shared memory
    expect(f, rule="out-of-bounds", access="write", allocation=None)
    f = finding(program, "computes")
    expect(f, access="use", size=4)
    expect(f["other"], access="read", kernel="add")


if __name__ == "__main__":
    main()
