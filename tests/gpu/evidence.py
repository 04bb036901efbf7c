#!/usr/bin/env python3
"""Which tap works, hangs or costs what: the evidence for the default of --tap and --enqueue.

usage: evidence.py BUILD [--device softgpu] [--timeout SECONDS] [--rounds N] [--seconds N] [--quick] [-o FILE]

A table on standard output: each program alone and under each tap, in turns; whether it ended (HANGS: killed after the
timeout, and not tried again), whether output and status stayed, the launches seen, the rows of coverage that say something
is missing, and the median of its wall time over the time alone. The record goes to FILE, on a GPU by default to
bench/results/gpu_taps.json. After --seconds no further program is begun, and those left out are named. Status 0 whatever was found, 77 where there is no GPU.
"""
import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile
import time

import gpu
from recording import TAPS, Recordings

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ("vecadd", "streams_events", "host_callbacks", "graph_capture", "graph_explicit", "graph_child", "graph_large",
            "pools", "managed", "coop_grid", "multi_device", "event_timing")


def jobs(build, quick):
    """name -> command; of what is not built nothing is said but its name"""
    found = {}
    gpt = os.path.join(build, "bin", "cuda_gpt")
    sizes = ["--layers", "1", "--width", "32", "--heads", "2", "--batch", "4", "--context", "32", "--steps", "2"]
    if not quick:
        sizes = ["--steps", "50", "--print-every", "10"]
        found["gpt_big"] = [gpt, "--preset", "gpu", "--steps", "5"]
    found["gpt"] = [gpt, *sizes]
    found["gpt_graph"] = [gpt, *sizes, "--graph"]
    found["gpt_streams"] = [gpt, *sizes, "--streams", "4"]
    for name in PROGRAMS[:4] if quick else PROGRAMS:
        found[name] = [os.path.join(build, "tests/softgpu/programs", name)]
    for name in [name for name, command in found.items() if not os.path.exists(command[0])]:
        print(f"not built: {name}", file=sys.stderr)
        del found[name]
    return found


class Look:
    """One program under all taps"""

    def __init__(self, r, name, command):
        self.r, self.name, self.command = r, name, command
        self.seconds = {"alone": []}
        self.row = {tap: {"state": "not run"} for tap in TAPS}

    def alone(self):
        lead = [] if self.r.device == "host" else [os.path.join(self.r.build, "bin", "softgpu"), "run", "--"]
        done = gpu.run([*lead, *self.command], self.r.timeout)
        self.seconds["alone"].append(done.seconds)
        return done

    def under(self, tap, want):
        row = self.row[tap]
        if row["state"] == "HANGS":
            return
        trace = self.r.trace(f"{self.name}-{tap}")
        done = gpu.run([self.r.twinbit, "run", "--quiet", "--force", "--device", self.r.device, "-o", trace, *TAPS[tap],
                        "--", *self.command], self.r.timeout)
        self.seconds.setdefault(tap, []).append(done.seconds)
        row.update(state="HANGS" if done.status is None else "ok", status=done.status)
        if done.status is None:
            row["stderr"] = done.err[-2000:]
            return
        if (done.status, done.out) != (want.status, want.out):
            row.update(state=f"status {done.status}" if done.status != want.status else "OUTPUT", stderr=done.err[-2000:])
        if "launches" not in row and os.path.exists(trace):
            rows = [c for c in self.r.rows(f"{self.name}-{tap}", "coverage")]
            row["coverage"] = [f"{c['severity']}: {c['kind']}: {c['subject']}: {c['detail']}" for c in rows]
            row["missing"] = sum(1 for c in rows if c["severity"] not in ("note", "information"))
            row["launches"] = self.r.count(f"{self.name}-{tap}")

    def all(self, rounds):
        for n in range(rounds):
            want = self.alone()
            if want.status is None or want.status == 77:
                return f"alone: {'still running' if want.status is None else want.out.decode(errors='replace').strip()}"
            for tap in TAPS:
                self.under(tap, want)
            if n and self.seconds["alone"][-1] > 20:
                break
        return None

    def record(self):
        base = statistics.median(self.seconds["alone"])
        for tap, row in self.row.items():
            if row["state"] != "HANGS" and self.seconds.get(tap):
                row["slowdown"] = statistics.median(self.seconds[tap]) / base
        return {"program": self.name, "seconds": self.seconds, "taps": self.row}


def line(name, tap, row):
    slow = f"{row['slowdown']:9.2f}" if "slowdown" in row else "        -"
    return f"{name:16} {tap:10} {row['state']:10} {row.get('launches', '-'):>9} {row.get('missing', '-'):>8} {slow}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--device", choices=["softgpu", "host"], default="host")
    parser.add_argument("--timeout", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", dest="output")
    args = parser.parse_args()
    reason = gpu.why_no_gpu() if args.device == "host" else None
    if reason:
        gpu.skip(reason)
    output = args.output or (os.path.join(TOP, "bench/results/gpu_taps.json") if args.device == "host" else None)
    found, left_out, begin = [], [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w", encoding="utf-8") as nothing:
        r = Recordings(args.build, folder, args.device, args.timeout)
        table = sys.stdout
        print("program          tap        state       launches  missing  slowdown", flush=True)
        for name, command in jobs(args.build, args.quick).items():
            if time.monotonic() - begin > args.seconds:
                print(f"{name:16} left out: {args.seconds} s are over", flush=True)
                left_out.append(name)
                continue
            look = Look(r, name, command)
            sys.stdout = nothing
            why = look.all(args.rounds)
            sys.stdout = table
            if why:
                print(f"{name:16} {why}", flush=True)
                continue
            found.append(look.record())
            for tap in TAPS:
                print(line(name, tap, look.row[tap]), flush=True)
    if not found:
        sys.exit("no program could be run")
    if output:
        os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
        with open(output, "w", encoding="utf-8") as f:
            json.dump({"device": args.device, "gpus": gpu.names() if args.device == "host" else ["softgpu"],
                       "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                       "timeout": args.timeout, "left_out": left_out, "programs": found}, f, indent=1)
            f.write("\n")
        print(f"written: {output}")


if __name__ == "__main__":
    main()
