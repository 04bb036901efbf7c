#!/usr/bin/env python3
"""Records one CUDA program in several ways and compares each recording with the program alone.

usage: recorded.py BUILD FOLDER EXPECTED [--seeds N] [--orders] [--set NAME=VALUE]... NAME -- PROGRAM...

Under each way (WAYS): same standard output and exit status as under `softgpu run`; every kernel that the
software device ran is in the trace, as a launch or inside a graph; the same findings of strict mode, rule by
rule; no row of coverage (and so no unseen writer) beyond those that EXPECTED gives a reason for; the traces
verify; two recordings in ways of equal detail are identical.

EXPECTED: lines "NAME WAYS WHAT PATTERN # reason"; WAYS: * or ways with commas between; WHAT: coverage (PATTERN: a regular
expression for the row), output, launches, findings, diff (no PATTERN: that check is left out).
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys

# name -> options of run; strict: the findings are compared too; like: the way it must be identical to
WAYS = {
    "shim": {"options": [], "strict": True},
    "deferred": {"options": ["--tap", "cupti", "--enqueue", "deferred"], "strict": True, "like": "shim"},
    "inputs": {"options": ["--inputs"]},
    "cupti": {"options": ["--tap", "cupti", "--inputs"], "like": "inputs"},
}
TIMEOUT = 120


class Expected:
    def __init__(self, path, program):
        self.lines = []
        with open(path, encoding="utf-8") as f:
            for line in f:
                words = line.split("#")[0].split(None, 3)
                if len(words) >= 3 and words[0] == program:
                    self.lines.append((words[1].split(","), words[2], (words[3:] or [""])[0].strip()))

    def patterns(self, way, what):
        return [p for ways, w, p in self.lines if w == what and ("*" in ways or way in ways)]

    def left_out(self, way, what):
        return bool(self.patterns(way, what))


def run(command, environment):
    done = subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False)
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def findings(path):
    """Rule -> how often, of all processes' reports."""
    rules = collections.Counter()
    folder, start = os.path.split(path)
    for name in os.listdir(folder):
        if not name.startswith(start):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            for line in f:
                row = json.loads(line)
                if "finding" in row:
                    rules[row["rule"]] += 1
        os.unlink(os.path.join(folder, name))
    return dict(rules)


class Case:
    def __init__(self, args):
        self.args = args
        self.expected = Expected(args.expected, args.name)
        self.bad = []

    def wrong(self, way, text):
        self.bad.append(f"{self.args.name} {way}: {text}")

    def path(self, suffix):
        return os.path.join(self.args.folder, self.args.name + suffix)

    def tool(self, *words):
        command = [os.path.join(self.args.build, "bin", "twinbit"), *words]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def rows(self, trace, view):
        out = self.tool("show", "--json", trace, view)
        if out.returncode:
            raise SystemExit(f"cannot show {trace}: {out.stderr.decode()}")
        return json.loads(out.stdout)["rows"]

    def check_launches(self, way, trace, log):
        ran = sum(1 for line in log.splitlines()
                  if line.startswith("softgpu: ran '") and not line.startswith("softgpu: ran 'twinbit_fp_"))
        alone = nodes = in_graphs = by_node = 0
        for e in self.rows(trace, "events"):
            if e["kind"] == "launch":
                node = "graph=1" in (e["detail"] or "")
                nodes += node
                alone += not node
            elif e["kind"] == "graph":
                kernels = int(re.search(r"kernels=(\d+)", e["detail"]).group(1))
                in_graphs += kernels
                by_node += kernels if all(a["mode"] == "q" for a in e["accesses"]) else 0
        if nodes > by_node:
            self.wrong(way, f"{nodes} launches of nodes, but {by_node} kernels in graphs that are hashed by node")
        seen = alone + in_graphs
        if ran != seen and not self.expected.left_out(way, "launches"):
            self.wrong(way, f"the device ran {ran} kernels, the trace has {seen}")
        return ran

    def check_coverage(self, way, trace):
        patterns = [re.compile(p) for p in self.expected.patterns(way, "coverage")]
        for row in self.rows(trace, "coverage"):
            text = f"{row['severity']}: {row['kind']}: {row['subject']}: {row['detail']}"
            if row["severity"] not in ("note", "information") and not any(p.search(text) for p in patterns):
                self.wrong(way, f"coverage: {text} ({row['count']} times)")

    def check_same(self, way, what, want, got):
        if want != got and not self.expected.left_out(way, what):
            self.wrong(way, f"{what}: {got!r:.600} instead of {want!r:.600}")

    def check_identical(self, way, one, other):
        if self.expected.left_out(way, "diff"):
            return
        out = self.tool("diff", "--verify", one, other)
        if out.returncode:
            self.wrong(way, f"status {out.returncode} of diff --verify {one} {other}\n{out.stdout.decode()[:3000]}")

    def record(self, way, environment):
        """The trace of one way; None: it could not be made"""
        spec = WAYS[way]
        trace = self.path(f".{way}.twinbit")
        extra = {"SOFTGPU_LOG": "2"}
        if spec.get("strict"):
            extra |= {"SOFTGPU_STRICT": "report", "SOFTGPU_REPORT": self.path(f".{way}.report.%p")}
        status, out, log = run([os.path.join(self.args.build, "bin", "twinbit"), "run", "--quiet", "--force", "--device",
                                "softgpu", "-o", trace, *spec["options"], "--", *self.args.program],
                               {**environment, **extra})
        self.check_same(way, "output", (self.alone[0], self.alone[1]), (status, out))
        if spec.get("strict"):
            self.check_same(way, "findings", self.alone_findings, findings(self.path(f".{way}.report.")))
        if not os.path.exists(trace):
            self.wrong(way, f"no trace; standard error: {log[-1000:]}")
            return None
        self.kernels += self.check_launches(way, trace, log)
        self.check_coverage(way, trace)
        return trace

    def seed(self, environment):
        report = self.path(".alone.report.%p")
        self.alone = run([os.path.join(self.args.build, "bin", "softgpu"), "run", "--", *self.args.program],
                         {**environment, "SOFTGPU_STRICT": "report", "SOFTGPU_REPORT": report})
        self.alone_findings = findings(report[:-2])
        self.kernels = 0
        traces = {way: self.record(way, environment) for way in WAYS}
        for way, spec in WAYS.items():
            if "like" in spec and traces[way] and traces[spec["like"]]:
                self.check_identical(way, traces[spec["like"]], traces[way])
        return self.alone[0]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("expected")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--orders", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("name")
    parser.add_argument("program", nargs="+")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    case = Case(args)
    runs = [{"SOFTGPU_SEED": str(s)} for s in range(1, args.seeds + 1)]
    if args.orders:
        runs.append({"SOFTGPU_ORDER": "index"})
    for settings in runs:
        status = case.seed({**dict(s.split("=", 1) for s in args.set), **settings})
        if status == 77:
            print(f"skipped: {case.alone[1].decode().strip()}")
            return 77
        if case.bad:
            again = " ".join(f"{k}={v}" for k, v in settings.items())
            print("\n".join(case.bad), f"\nagain: {again} {' '.join(args.program)}", file=sys.stderr)
            return 1
    print(f"ok: {len(runs)} orders, {len(WAYS)} ways, {case.kernels} kernels in the last ones")
    return 0


if __name__ == "__main__":
    sys.exit(main())
