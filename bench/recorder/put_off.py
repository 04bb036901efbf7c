#!/usr/bin/env python3
"""How many launches the hashes of a GPU job take, and how many they would take if they were put off.

Put off, a hash waits until a launch may write its buffer, or the job makes any other call: copies, sets, waits, orders.
A launch of hashes takes 6 or 100 buffers (fingerprint/device). Counted in a trace of examples/cuda_gpt.
"""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(os.environ["TB_BUILD_DIR"])


def record(folder):
    trace = Path(folder) / "t.twinbit"
    command = [BUILD / "bin" / "twinbit", "run", "--quiet", "--device", "softgpu", "-o", trace, "--",
               BUILD / "bin" / "cuda_gpt", "--layers", "2", "--steps", "3"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stderr[-2000:]}")
    return trace


def read(trace):
    """Events in their order: the kind, and what each writes as (allocation, from, to)."""
    with sqlite3.connect(f"file:{trace}?mode=ro", uri=True) as db:
        written = {}
        for event, alloc, offset, size in db.execute(
                "select eventId, alloc, offset, bytes from v_accesses where mode = 'w'"):
            written.setdefault(event, []).append((alloc, offset, offset + size))
        kinds = db.execute("select eventId, kind from v_events order by eventId").fetchall()
    return [(kind, written.get(event, [])) for event, kind in kinds]


def meet(these, those):
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in these for b in those)


def put_off(events, room):
    count, waiting = 0, []
    for kind, writes in events:
        if waiting and (kind != "launch" or meet(waiting, writes) or len(waiting) + len(writes) > room):
            count += 1
            waiting = []
        if kind == "launch":
            waiting += writes
        elif writes:
            count += 1
    return count + bool(waiting)


if not (BUILD / "bin" / "cuda_gpt").exists():
    print(json.dumps({"note": "no cuda_gpt in this build (its target is cuda_gpt, and needs nvcc): launches of hashes were not counted"}))
    sys.exit()
with tempfile.TemporaryDirectory() as where:
    events = read(record(where))
launches = sum(kind == "launch" for kind, _ in events)
for name, count in (("at_once", sum(bool(w) for _, w in events)), ("put_off_6", put_off(events, 6)),
                    ("put_off_100", put_off(events, 100))):
    print(json.dumps({"metric": f"hash_launches_{name}", "unit": "1/launch",
                      "samples": [round(count / launches, 3)]}), flush=True)
