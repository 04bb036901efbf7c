"""kill_points.py - kills a recorded torch job, twinbit, or both at seeded points: kill_points.py N [SEED]

The job, examples/gpt_char, prints a line a step. After a drawn number of lines and a drawn delay one of the
three is hit by SIGKILL. What must hold:
  job      twinbit ends with 128 + 9; the trace opens, has all steps that were printed, and lost nothing
  twinbit  the job goes on to its usual end: same output, same weights; the trace opens or is said to be cut
  both     the trace opens, and says that it is incomplete
Environment: TWINBIT, OMP_NUM_THREADS. Works in the current folder.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

TWINBIT = os.environ["TWINBIT"]
TRAIN = Path(__file__).resolve().parents[2] / "examples/gpt_char/train.py"
STEPS = 40
JOB = [sys.executable, str(TRAIN), "--layers", "1", "--width", "32", "--context", "32", "--steps", str(STEPS)]


class Failed(Exception):
    pass


def children(pid):
    """children - processes whose parent is @pid"""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def job_of(pid):
    """job_of - the process that runs the job, below twinbit"""
    for child in children(pid):
        try:
            if str(TRAIN) in Path(f"/proc/{child}/cmdline").read_text():
                return child
        except OSError:
            pass
    raise Failed("cannot find the job below twinbit")


def printed(path):
    return path.read_text().splitlines() if path.exists() else []


def wait_for(what, seconds, text):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise Failed(text)
        time.sleep(0.005)


def steps_of(lines):
    return sum(l.startswith("step ") for l in lines)


def show(trace, *view):
    p = subprocess.run([TWINBIT, "show", "--json", trace, *view], capture_output=True, text=True)
    if p.returncode != 0:
        raise Failed(f"'{trace}' does not open: status {p.returncode}: {p.stderr.strip()}")
    return json.loads(p.stdout)["rows"]


def one(number, victim, lines, delay, whole):
    folder = Path(f"point{number}")
    folder.mkdir()
    out = folder / "out"
    trace = str(folder / "t.twinbit")
    with open(out, "wb") as o, open(folder / "err", "wb") as e:
        p = subprocess.Popen([TWINBIT, "run", "-o", trace, "--", *JOB], stdout=o, stderr=e,
                             stdin=subprocess.DEVNULL)
    wait_for(lambda: steps_of(printed(out)) >= lines or p.poll() is not None, 120, "the job never got there")
    job = job_of(p.pid)
    time.sleep(delay)
    done = steps_of(printed(out))
    if victim == "both":
        os.kill(p.pid, signal.SIGSTOP)
    for target in {"job": [job], "twinbit": [p.pid], "both": [p.pid, job]}[victim]:
        os.kill(target, signal.SIGKILL)
    status = p.wait(60)
    if victim == "job":
        if status != 128 + signal.SIGKILL:
            raise Failed(f"twinbit ended with {status}")
        summary = show(trace)[0]
        if summary["state"] != "complete" or summary["lost"]:
            raise Failed(f"state {summary['state']}, lost {summary['lost']}")
        if len(show(trace, "steps")) < done:
            raise Failed(f"{done} steps were printed, {len(show(trace, 'steps'))} recorded")
    elif victim == "twinbit":
        wait_for(lambda: not Path(f"/proc/{job}").exists(), 120, "the job hangs after twinbit's death")
        if printed(out) != whole:
            raise Failed("the job's output is not what it is without twinbit")
        show(trace)
    else:
        if show(trace)[0]["state"] != "incomplete":
            raise Failed("the trace should be incomplete")
    print(f"point {number}: {victim} killed after {done} steps", flush=True)
    shutil.rmtree(folder)


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 7
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    whole = subprocess.run(JOB, check=True, capture_output=True, text=True).stdout.splitlines()
    drawn = random.Random(seed)
    failed = 0
    for number in range(count):
        victim = ("job", "twinbit", "both")[number % 3]
        try:
            one(number, victim, drawn.randrange(1, STEPS - 10), drawn.random() * 0.03, whole)
        except Failed as e:
            print(f"point {number}: {victim}: FAILED: {e}", flush=True)
            failed += 1
    print(f"{count} points, seed {seed}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
