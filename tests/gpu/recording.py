"""Recordings that a test makes and looks into; what is wrong is collected, not raised."""
import json
import os
import subprocess
import sys

import gpu

TAPS = {
    "shim": ["--tap", "shim"],
    "callback": ["--tap", "cupti", "--enqueue", "callback"],
    "deferred": ["--tap", "cupti", "--enqueue", "deferred"],
}


class Recordings:
    """@build has bin/twinbit; traces lie in @folder; @device: host or softgpu"""

    def __init__(self, build, folder, device, timeout=120):
        self.twinbit = os.path.join(build, "bin", "twinbit")
        self.build, self.folder, self.device, self.timeout = build, folder, device, timeout
        self.bad = []
        os.makedirs(folder, exist_ok=True)

    def wrong(self, text):
        self.bad.append(text)
        print(f"wrong: {text}", file=sys.stderr, flush=True)

    def trace(self, name):
        return os.path.join(self.folder, name + ".twinbit")

    def alone(self, command, environment=None):
        """The job without twinbit, where it would be under it; ends the test where that fails."""
        lead = [] if self.device == "host" else [os.path.join(self.build, "bin", "softgpu"), "run", "--"]
        done = gpu.run([*lead, *command], self.timeout, environment)
        if done.status == 77:
            gpu.skip(done.out.decode(errors="replace").strip())
        if done.status != 0:
            sys.exit(f"status {done.status} without twinbit: {' '.join(map(str, command))}\n{done.err[-3000:]}")
        return done

    def record(self, name, options, command, want=None, environment=None):
        """False: there is no trace; @want: a Done that this must be like"""
        if os.path.exists(self.trace(name)):
            os.unlink(self.trace(name))
        done = gpu.run([self.twinbit, "run", "--quiet", "--device", self.device, "-o", self.trace(name), *options, "--",
                        *command], self.timeout, environment)
        if done.status is None:
            self.wrong(f"{name}: still running after {self.timeout} s\n{done.err[-2000:]}")
            return False
        if want and (done.status, done.out) != (want.status, want.out):
            self.wrong(f"{name}: status {done.status}, output {done.out[-400:]!r}; without twinbit {want.status}, "
                       f"{want.out[-400:]!r}; standard error: {done.err[-2000:]}")
        if not os.path.exists(self.trace(name)):
            self.wrong(f"{name}: no trace: {done.err[-2000:]}")
            return False
        return True

    def rows(self, name, view):
        done = subprocess.run([self.twinbit, "show", "--json", self.trace(name), view], stdout=subprocess.PIPE,
                              check=True)
        return json.loads(done.stdout)["rows"]

    def count(self, name):
        """How many launches, those inside graphs that are one event included; prints that, and the rows of coverage."""
        events = self.rows(name, "events")
        nodes = sum(1 for e in events if e["kind"] == "launch" and "graph=1" in (e["detail"] or ""))
        graphs = sum(int(w.split("=")[1]) for e in events if e["kind"] == "graph"
                     for w in (e["detail"] or "").split() if w.startswith("kernels="))
        launches = sum(1 for e in events if e["kind"] == "launch") - nodes + max(graphs, nodes)
        hashed = sum(1 for e in events for a in e["accesses"] if a["mode"] == "w" and a["fp"])
        print(f"{name}: {len(events)} events, {launches} launches, {hashed} fingerprints of writes", flush=True)
        for row in self.rows(name, "coverage"):
            print(f"    {row['severity']} {row['count']}x {row['kind']}: {row['subject']}: {row['detail']}", flush=True)
        return launches

    def not_covered(self, name, subject):
        return [row for row in self.rows(name, "coverage")
                if row["severity"] == "not covered" and row["subject"] == subject]

    def identical(self, one, other):
        done = subprocess.run([self.twinbit, "diff", "--verify", self.trace(one), self.trace(other)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            self.wrong(f"diff {one} {other}: status {done.returncode}\n{done.stdout.decode()[:3000]}")

    def kernels_by_step(self, name):
        """step -> [(kernel, fingerprints of what it wrote)], in the order of the trace"""
        steps = {}
        for e in self.rows(name, "events"):
            if e["kind"] == "launch":
                steps.setdefault(e["step"], []).append(
                    (e["kernel"], [(a["argument"], a["fp"]) for a in e["accesses"] if a["mode"] == "w"]))
        return steps

    def end(self, text):
        if self.bad:
            sys.exit(f"{len(self.bad)} were not as they should be; traces: {self.folder}")
        print(f"ok: {text}")
