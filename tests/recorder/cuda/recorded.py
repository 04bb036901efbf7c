#!/usr/bin/env python3
"""Records one CUDA program in several ways and compares each recording with the program alone.

usage: recorded.py BUILD FOLDER EXPECTED [--device host] [--ways torch] [--seeds N] [--orders] [--again]
                   [--timeout S] [--set NAME=VALUE]... NAME -- PROGRAM...

Under each way (WAYS, or TORCH): same standard output and exit status as under `softgpu run`; every kernel that the
software device ran is in the trace, as a launch or inside a graph (at level op some are inside operators, so it has at most as many); the same
findings of strict mode, rule by rule; no row of coverage (and so no unseen writer) beyond those that EXPECTED gives a
reason for; the traces verify; two recordings in ways of equal detail are identical. With several seeds those after the
first take the ways that are not marked `once`.

With --device host the same on the machine's GPU, skipped where there is none. Nobody counts the kernels there: all ways must
have seen as many. There, and with --again, a second recording of the first way must be identical to it.

EXPECTED: lines "NAME WAYS WHAT PATTERN # reason"; WAYS: * or ways with commas between, host: all on a GPU; WHAT: coverage
(PATTERN: a regular expression for the row), output, launches, findings, diff, repeat (diff, and that of the second recording
on a GPU), unknown (diff may say so), own (diff: not with the other way, but with a second recording); no PATTERN: that
check is left out.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../gpu"))
import gpu

# name -> options of run; strict: the findings are compared too; like: the way it must be identical to; inside: launches
# inside operators are not events
WAYS = {
    "shim": {"options": [], "strict": True},
    "deferred": {"options": ["--tap", "cupti", "--enqueue", "deferred"], "strict": True, "like": "shim"},
    "inputs": {"options": ["--inputs"]},
    "cupti": {"options": ["--tap", "cupti", "--inputs"], "like": "inputs"},
}
KERNEL = ["--level", "kernel"]
TORCH = {
    "shim": {"options": [*KERNEL, "--inputs"]},
    "cupti": {"options": [*KERNEL, "--inputs", "--tap", "cupti"], "like": "shim"},
    "again": {"options": [*KERNEL, "--inputs"], "like": "shim", "once": True},
    "strict": {"options": KERNEL, "strict": True, "once": True},
    "deferred": {"options": [*KERNEL, "--tap", "cupti", "--enqueue", "deferred"], "strict": True, "like": "strict",
                 "once": True},
    "op": {"options": ["--inputs"], "inside": True, "once": True},
    "op_cupti": {"options": ["--inputs", "--tap", "cupti"], "inside": True, "like": "op", "once": True},
}
AGAIN = {"again": {"options": [], "like": "shim"}}


class Expected:
    def __init__(self, path, program, device):
        self.lines, self.device = [], device
        with open(path, encoding="utf-8") as f:
            for line in f:
                words = line.split("#")[0].split(None, 3)
                if len(words) >= 3 and words[0] == program:
                    self.lines.append((words[1].split(","), words[2], (words[3:] or [""])[0].strip()))

    def patterns(self, way, what):
        return [p for ways, w, p in self.lines if w == what and {"*", way, self.device} & set(ways)]

    def left_out(self, way, what):
        return bool(self.patterns(way, what))


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
        self.soft = args.device == "softgpu"
        self.ways = TORCH if args.ways == "torch" else WAYS
        if args.again or not self.soft:
            self.ways = {**AGAIN, **self.ways}
        self.expected = Expected(args.expected, args.name, args.device)
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
        seen = self.launches(way, trace)
        if not self.soft:
            ran = seen if self.kernels is None else self.kernels
        wrong = seen > ran if self.ways[way].get("inside") else seen != ran
        if wrong and not self.expected.left_out(way, "launches"):
            who = "the device ran" if self.soft else "another way saw"
            self.wrong(way, f"{who} {ran} kernels, the trace has {seen}")
        return ran

    def launches(self, way, trace):
        alone = nodes = in_graphs = 0
        for e in self.rows(trace, "events"):
            if e["kind"] == "launch":
                node = "graph=1" in (e["detail"] or "")
                nodes += node
                alone += not node
            elif e["kind"] == "graph":
                in_graphs += int(re.search(r"kernels=(\d+)", e["detail"]).group(1))
        if nodes > in_graphs or (nodes < in_graphs and self.by_node(way, trace)):
            self.wrong(way, f"{nodes} launches of nodes, but {in_graphs} kernels in graphs")
        return alone + in_graphs

    def by_node(self, way, trace):
        """Must each kernel of a graph have an event? Not by CUPTI, and not where a row says that graphs were hashed as a whole."""
        whole = any(row["subject"] == "graph" and row["detail"].startswith("hashed as a whole")
                    for row in self.rows(trace, "coverage"))
        return not whole and "cupti" not in self.ways[way]["options"]

    def check_names(self, way, trace):
        """Each kernel of Triton's, and there are no others there, has the name of its function with its constants."""
        for e in self.rows(trace, "events"):
            if e["kind"] == "launch" and f"\ttriton:{e['kernel']} " not in (e["detail"] or "") + " ":
                self.wrong(way, f"not named as a kernel of Triton's: {e['name']} {e['detail']!r}")

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
        if any(self.expected.left_out(way, what) for what in (["repeat"] if way == "again" else ["diff", "repeat"])):
            return
        out = self.tool("diff", "--verify", one, other)
        if out.returncode and not (out.returncode == 3 and self.expected.left_out(way, "unknown")):
            self.wrong(way, f"status {out.returncode} of diff --verify {one} {other}\n{out.stdout.decode()[:3000]}")

    def record(self, way, environment, suffix=""):
        """The trace of one way; None: it could not be made"""
        spec = self.ways[way]
        trace = self.path(f".{way}{suffix}.twinbit")
        extra = {"SOFTGPU_LOG": "2"} if self.soft else {}
        strict = self.soft and spec.get("strict")
        if strict:
            extra |= {"SOFTGPU_STRICT": "report", "SOFTGPU_REPORT": self.path(f".{way}.report.%p")}
        done = gpu.run([os.path.join(self.args.build, "bin", "twinbit"), "run", "--quiet", "--force", "--device",
                        self.args.device, "-o", trace, *spec["options"], "--", *self.args.program], self.args.timeout,
                       {**environment, **extra})
        if done.status is None:
            self.wrong(way, f"still running after {self.args.timeout} s; standard error: {done.err[-1000:]}")
            return None
        self.check_same(way, "output", (self.alone.status, self.alone.out), (done.status, done.out))
        if strict:
            self.check_same(way, "findings", self.alone_findings, findings(self.path(f".{way}.report.")))
        if not os.path.exists(trace):
            self.wrong(way, f"no trace; standard error: {done.err[-1000:]}")
            return None
        self.kernels = self.check_launches(way, trace, done.err)
        self.check_coverage(way, trace)
        if self.soft and self.args.ways == "torch":
            self.check_names(way, trace)
        return trace

    def run_alone(self, environment):
        if not self.soft:
            return gpu.run(self.args.program, self.args.timeout, environment)
        report = self.path(".alone.report.%p")
        done = gpu.run([os.path.join(self.args.build, "bin", "softgpu"), "run", "--", *self.args.program], self.args.timeout,
                       {**environment, "SOFTGPU_STRICT": "report", "SOFTGPU_REPORT": report})
        self.alone_findings = findings(report[:-2])
        return done

    def seed(self, environment, first):
        """One order in all ways that are due: the status of the program alone; None: it did not end"""
        self.alone = self.run_alone(environment)
        self.kernels = None
        if self.alone.status is None:
            self.wrong("alone", f"still running after {self.args.timeout} s")
        if self.args.ways == "torch" and self.alone.status not in (0, 77):
            self.wrong("alone", f"status {self.alone.status}: {self.alone.err[-1000:]}")
        if self.bad or self.alone.status == 77:
            return self.alone.status
        traces = {way: self.record(way, environment) for way, spec in self.ways.items() if first or not spec.get("once")}
        for way, spec in self.ways.items():
            if "like" not in spec or not traces.get(way):
                continue
            own = self.expected.left_out(way, "own")
            other = self.record(way, environment, ".own") if own else traces[spec["like"]]
            if other:
                self.check_identical(way, other, traces[way])
        return self.alone.status


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("expected")
    parser.add_argument("--device", choices=["softgpu", "host"], default="softgpu")
    parser.add_argument("--ways", choices=["programs", "torch"], default="programs")
    parser.add_argument("--timeout", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--orders", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("name")
    parser.add_argument("program", nargs="+")
    args = parser.parse_args()
    reason = gpu.why_no_gpu() if args.device == "host" else None
    if reason:
        gpu.skip(reason)
    os.makedirs(args.folder, exist_ok=True)
    case = Case(args)
    runs = [{"SOFTGPU_SEED": str(s)} for s in range(1, args.seeds + 1)]
    if args.orders:
        runs.append({"SOFTGPU_ORDER": "index"})
    for settings in runs:
        status = case.seed({**dict(s.split("=", 1) for s in args.set), **settings}, settings is runs[0])
        if status == 77:
            gpu.skip(case.alone.out.decode().strip())
        if case.bad:
            again = " ".join(f"{k}={v}" for k, v in settings.items())
            print("\n".join(case.bad), f"\nagain: {again} {' '.join(args.program)}", file=sys.stderr)
            return 1
    print(f"ok: {len(runs)} orders, {len(case.ways)} ways, {case.kernels} kernels in each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
