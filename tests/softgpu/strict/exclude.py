#!/usr/bin/env python3
"""SOFTGPU_TOOL_KERNELS: which kernels' reads are no finding, and what stays one.

usage: exclude.py SOFTGPU EXEC RACE STREAMS    the program `softgpu`, softgpu_strict_exec and so on
"""
import json
import os
import subprocess
import sys
import tempfile

UNWRITTEN = "uninitialised-read"
STREAMS = "stream-race"


def run(program, case, exclude, mode="report"):
    """Status and the (rule, kernel) of all findings of errors."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        env = {k: v for k, v in os.environ.items() if not k.startswith("SOFTGPU_")}
        env.update(SOFTGPU_STRICT=mode, SOFTGPU_REPORT=report)
        if exclude:
            env["SOFTGPU_TOOL_KERNELS"] = exclude
        done = subprocess.run([program, case, "bad"], env=env, capture_output=True, timeout=60, check=False)
        with open(report, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        return done.returncode, {(x["rule"], x.get("kernel")) for x in lines[1:-1] if x["severity"] == "error"}


def expect(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got}, not {want}")


def two_streams(program):
    """Beside work of another stream what a tool reads is no finding; what it writes is one, by atomics too."""
    for case, writer in (("kernel_reads", "put"), ("kernels_write", "put"), ("atomics", "count")):
        for mode in ("report", "fail"):
            status, found = run(program, case, None, mode)
            expect(f"{case} {mode}", (status, {rule for rule, _ in found}), (int(mode == "fail"), {STREAMS}))
            expect(f"{case} {mode}: who writes", run(program, case, writer, mode), (status, found))
    for mode in ("report", "fail"):
        expect(f"a tool reads, {mode}", run(program, "kernel_reads", "get", mode), (0, set()))


def main():
    softgpu, memory, race, streams = sys.argv[1:]
    add, branch = (UNWRITTEN, "add"), (UNWRITTEN, "branch")
    for exclude, want in ((None, {add, branch}), ("ad?", {branch}), ("x*,br*", {add}), ("add,branch", set()),
                          ("*", set()), ("dd,branc,Add", {add, branch}), (",,add,", {branch})):
        expect(f"excluded: {exclude}", run(memory, "computes_and_branches", exclude)[1], want)
    expect("fails", run(memory, "computes_and_branches", None, "fail")[0], 1)
    expect("an excluded one does not fail", run(memory, "computes_and_branches", "*", "fail"), (0, set()))
    expect("what an excluded one writes is written", run(memory, "computes_in_turn", "add")[1], set())
    expect("shared memory", run(memory, "shared_unwritten", "shared")[1], set())
    for program, case in ((memory, "device_behind"), (memory, "heap_freed"), (race, "histogram"), (race, "one_word")):
        found = run(program, case, None)[1]
        expect(f"{case} finds something", bool(found), True)
        expect(f"{case} stays one", run(program, case, "*")[1], found)

    two_streams(streams)
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        command = [softgpu, "run", "--strict", "report", "--report", report, "--tool-kernels", "add", "--", memory,
                   "computes_and_branches", "bad"]
        subprocess.run(command, capture_output=True, timeout=60, check=True)
        with open(report, encoding="utf-8") as f:
            kernels = [json.loads(line).get("kernel") for line in f]
        expect("the option", [k for k in kernels if k], ["branch"])
    long = subprocess.run([softgpu, "run", "--strict", "report", "--tool-kernels", "a" * 1024, "--", "true"],
                          capture_output=True, text=True, check=False)
    expect("a long one", long.returncode, 2)
    expect("and why", "is longer than 1023 bytes" in long.stderr, True)
    print("passed")


if __name__ == "__main__":
    main()
