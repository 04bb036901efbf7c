"""Runs numba-cuda's own test suite on the software device, as its package ships it; says what became of each test.

usage: run.sh numba_suite.py [--expect FILE] [--skip-kernels] [--floor FILE] [--out DIR] [MODULE...]

Every test module runs in a process of its own (numba_module.py); a test that takes the process with it, or that does
not end within --limit, is counted, and the module goes on behind it. DIR gets results and standard error of each
module, and all.json.

Classes: pass, skip, xfail (expected to fail), refused (softgpu said on standard error what it does not support), slow
(past the limit), own (known to fail on any device), wrong (all else). With --skip-kernels the device executes no kernel: the floor. What passes there
proves nothing about kernels; --floor names the all.json of such a run. --expect names the file of the tests that are
known not to pass; the exit status is 1 if a test is worse than it says, or if fewer pass.
"""

import argparse
import collections
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numba_env

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = "numba.cuda.tests"
FOLDERS = ("nocuda", "cudasim", "cudadrv", "cudapy", "nrt", "doc_examples")  # those that its load_tests() takes
CLASSES = ("pass", "refused", "slow", "wrong", "own", "xfail", "skip")
BAD = ("refused", "slow", "wrong")
REFUSALS = ("not supported", "cannot load", "cannot link")


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--expect", type=pathlib.Path)
    p.add_argument("--skip-kernels", action="store_true")
    p.add_argument("--floor", type=pathlib.Path)
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--limit", type=int, default=300, help="seconds for one test")
    p.add_argument("module", nargs="*", help="such as cudapy.test_atomics; all of them")
    opt = p.parse_args()
    opt.out = (opt.out or pathlib.Path(tempfile.mkdtemp(prefix="numba-suite-"))).resolve()
    opt.out.mkdir(parents=True, exist_ok=True)
    opt.env = numba_env.environment(opt.skip_kernels)
    return opt


def modules():
    """All test modules of the installed package, without importing it."""
    root = importlib.util.find_spec("numba_cuda").submodule_search_locations[0]
    tests = pathlib.Path(root, "numba", "cuda", "tests")
    return [f"{d}.{f.stem}" for d in FOLDERS for f in sorted((tests / d).glob("test_*.py"))]


class Module:
    """One test module: its results so far, and the processes that are at it, one after the other."""

    def __init__(self, name, opt):
        self.name = name
        self.opt = opt
        self.results = opt.out / f"{name}.jsonl"
        self.log = opt.out / f"{name}.err"
        self.tests = {}  # id -> what numba_module.py wrote at its end, and "began": place in the log
        self.complete = False
        self.results.write_text("")

    def start(self, err):
        command = [sys.executable, HERE / "numba_module.py", f"{PACKAGE}.{self.name}", self.results, *self.tests]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
                                env=self.opt.env, start_new_session=True, cwd=self.opt.out)

    def read(self):
        """Takes in what the process has written; returns the start of the test that it is at."""
        now = None
        for line in map(json.loads, self.results.read_text().splitlines()):
            if "start" in line:
                now = line
            elif "end" in line:
                begun = now and now["start"] == line["end"]
                self.tests[line["end"]] = dict(line, began=(now if begun else line)["err"])
                now = None
            else:
                self.complete = True
        return now

    def wait(self, process):
        """Until the process ends or its results have not grown for the limit; returns whether it ended."""
        size, since = -1, time.monotonic()
        while process.poll() is None:
            time.sleep(0.2)
            if (grown := self.results.stat().st_size) != size:
                size, since = grown, time.monotonic()
            elif time.monotonic() - since > self.opt.limit:
                return False
        return True

    def run_on(self, err):
        """One process more; afterwards the module is complete or knows why not."""
        process = self.start(err)
        ended = self.wait(process)
        try:
            os.killpg(process.pid, signal.SIGKILL)  # also what a test has left behind
        except ProcessLookupError:
            pass
        process.wait()
        at = self.read()
        if self.complete:
            return
        text = f"ended with status {process.returncode}" if ended else f"more than {self.opt.limit} s"
        line = {"end": at["start"] if at else f"{PACKAGE}.{self.name} (import)", "outcome": "crash" if ended else "slow",
                "text": text, "seconds": 0, "err": self.log.stat().st_size}
        with open(self.results, "a") as out:
            out.write(json.dumps(line) + "\n")
        self.read()
        self.complete = at is None

    def run(self):
        with open(self.log, "w+b") as err:
            while not self.complete:
                self.run_on(err)
        return self

    def said(self, test):
        """What softgpu wrote on standard error during a test."""
        with open(self.log, "rb") as f:
            f.seek(test["began"] or 0)
            text = f.read(max(0, (test["err"] or 0) - (test["began"] or 0))).decode(errors="replace")
        return [line for line in text.splitlines() if line.startswith("softgpu: ")]

    def classes(self):
        for name, test in self.tests.items():
            kind, said = test["outcome"], []
            if kind not in CLASSES:
                said = self.said(test)
                kind = class_of_failure(test["text"], said)
            yield name.removeprefix(PACKAGE + "."), {"class": kind, "outcome": test["outcome"], "said": said[:3],
                                                     "seconds": test["seconds"], "text": test["text"]}


def class_of_failure(text, said):
    """Of a test that failed with that text while softgpu said that. A call that is not supported is named once a process,
    but its result is the same each time; a process that a test has started may be slow too."""
    if "CUDA_ERROR_NOT_SUPPORTED" in text or any(mark in line for line in said for mark in REFUSALS):
        return "refused"
    return "slow" if "TimeoutExpired" in text else "wrong"


def run_all(opt):
    tests = {}
    with concurrent.futures.ThreadPoolExecutor(opt.jobs) as pool:
        runs = [pool.submit(Module(n, opt).run) for n in opt.module or modules()]
        for run in concurrent.futures.as_completed(runs):
            classes = dict(run.result().classes())
            counts = collections.Counter(t["class"] for t in classes.values())
            print(run.result().name, *(f"{k} {counts[k]}" for k in CLASSES if counts[k]), flush=True)
            tests.update(classes)
    (opt.out / "all.json").write_text(json.dumps(tests, indent=0, sort_keys=True))
    return tests


def row(name, tests, floor):
    """One line of the table: all that ran, and of what fails without kernels, how much passes with them."""
    counts = collections.Counter(t["class"] for t in tests.values())
    ran = [n for n, t in tests.items() if t["class"] not in ("own", "skip", "xfail")]
    above = [n for n in ran if floor.get(n, {"class": "?"})["class"] != "pass"]
    good = sum(tests[n]["class"] == "pass" for n in above)
    cells = [name, len(ran), *(counts[k] for k in ("pass", *BAD))]
    if floor:
        cells += [len(ran) - len(above), len(above), good, f"{100 * good / len(above):.1f} %" if above else "-"]
    return "| " + " | ".join(map(str, cells)) + " |"


def table(tests, floor):
    head = ["tests", "run", "pass", *BAD]
    if floor:
        head += ["pass without kernels", "above that floor", "of these pass", "share"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for folder in FOLDERS:
        some = {n: t for n, t in tests.items() if n.startswith(folder + ".")}
        if some:
            print(row(folder, some, floor))
    print(row("all", tests, floor))


def read_expected(path):
    """Lines `CLASS TEST reason` of tests known not to pass, and `at-least N`, how many pass at least."""
    known, least = {}, 0
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split(maxsplit=2)
        if words and words[0] == "at-least":
            least = int(words[1])
        elif words:
            known[words[1]] = words[0]
    return known, least


def mark_own(tests, known):
    for name, test in tests.items():
        if test["class"] in BAD and known.get(name) == "own":
            test["class"] = "own"


def compare(tests, known, least):
    """Prints what is not as expected; returns whether something is worse."""
    worse = False
    for name, test in sorted(tests.items()):
        want = known.get(name, "pass")
        if test["class"] in BAD and (test["class"] != want or want == "wrong"):
            worse = True
            print(f"{test['class']}, not {want}: {name}: {'; '.join(test['said']) or test['text'].strip()[-400:]}")
        elif test["class"] == "pass" and want != "pass":
            print(f"better than expected: {name} passes")
    passed = sum(t["class"] == "pass" for t in tests.values())
    if passed < least:
        worse = True
        print(f"{passed} pass, {least} did before")
    return worse


def main():
    opt = options()
    tests = run_all(opt)
    floor = json.loads(opt.floor.read_text()) if opt.floor else {}
    known, least = read_expected(opt.expect) if opt.expect else ({}, 0)
    mark_own(tests, known)
    table(tests, floor)
    print(f"results in {opt.out}")
    return int(compare(tests, known, least)) if opt.expect else 0


if __name__ == "__main__":
    sys.exit(main())
