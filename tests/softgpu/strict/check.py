#!/usr/bin/env python3
"""Runs the cases of a program of strict mode and reads what it reports.

usage: check.py PROGRAM [VARIABLE=VALUE...]

Each case's bad form must report its rule, and nothing but it; its good form nothing at all; with
SOFTGPU_STRICT=off both are silent. In "fail" mode a call of the bad form must fail where the case
says so. Without arguments PROGRAM prints its cases: name, rule, error or -.
"""
import json
import os
import subprocess
import sys
import tempfile

FIELDS = {"finding": int, "rule": str, "severity": str, "text": str, "advice": str}


def run(program, case, form, mode, report):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SOFTGPU_")}
    env.update(a.split("=", 1) for a in sys.argv[2:])
    if mode != "off":
        env.update(SOFTGPU_STRICT=mode, SOFTGPU_REPORT=report)
    return subprocess.run([program, case, form], env=env, capture_output=True, text=True,
                          timeout=60, check=False)


def read(report):
    """The findings; every line is checked."""
    with open(report, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    assert lines[0]["softgpu_report"] == 1 and lines[0]["pid"] > 0, lines[0]
    assert lines[-1].get("summary"), "no summary"
    findings = lines[1:-1]
    for i, finding in enumerate(findings):
        assert finding["finding"] == i + 1, finding
        for name, kind in FIELDS.items():
            assert isinstance(finding[name], kind), (name, finding)
    assert lines[-1]["findings"] == len(findings), lines[-1]
    return findings


def check(program, name, rule, fail, folder):
    report = os.path.join(folder, "report")
    for mode in ("report", "fail", "off"):
        for form in ("bad", "good"):
            if os.path.exists(report):
                os.remove(report)
            done = run(program, name, form, mode, report)
            where = f"{name} {form} {mode}"
            findings = read(report) if mode != "off" else []
            rules = {f["rule"] for f in findings}
            shown = "".join(f"\n  {f}" for f in findings) + "\n" + done.stderr
            want = set(rule.split(",")) if form == "bad" and mode != "off" else set()
            if "*" in want: # what follows from it may be reported too
                want = {rule.split(",")[0]}
                rules &= want
            if rules != want:
                sys.exit(f"{where}: reports {sorted(rules)}, not {sorted(want)}{shown}")
            if done.stdout:
                sys.exit(f"{where}: writes to standard output: {done.stdout}")
            if want and rule.split(",")[0] not in done.stderr and "softgpu: illegal" not in done.stderr and \
                    "softgpu: misaligned" not in done.stderr:
                sys.exit(f"{where}: standard error does not name it{shown}")
            if "softgpu: strict" in done.stderr and not want:
                sys.exit(f"{where}: standard error names something{shown}")
            failing = mode == "fail" and form == "bad" and fail == "error"
            if done.returncode not in ((1,) if failing else (0, 1) if form == "bad" else (0,)):
                sys.exit(f"{where}: status {done.returncode}{shown}")


def main():
    program = sys.argv[1]
    cases = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split("\n")
    cases = [line.split() for line in cases if line]
    if not cases:
        sys.exit(f"{program}: no cases")
    with tempfile.TemporaryDirectory() as folder:
        for name, rule, fail in cases:
            check(program, name, rule, fail, folder)
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
