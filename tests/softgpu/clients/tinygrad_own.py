"""tinygrad's own tests on the software device, from a checkout of the version that requirements-clients.txt pins.

usage: scripts/clients.sh, then build/clients-venv/bin/python tinygrad_own.py SOFTGPU CHECKOUT RESULTS FILE...

SOFTGPU is the program, FILE a path below CHECKOUT such as test/backend/test_ops.py, RESULTS a file of one JSON object
a test, to which is added: tests that it has are not run again. What fails is run again on tinygrad's CPU back end.
Outcomes: pass; skip: the test says that it does not apply; other: it fails on the CPU too; refused: softgpu refused
something; wrong: all other failures; slow: more than SECONDS. The table is printed at the end. Some files need
packages that are not pinned (hypothesis): one test "other", which cannot be imported. Streams are taken as submitted
(SOFTGPU_ORDER=index; docs/softgpu.md, tinygrad, says why) unless the environment says otherwise.
"""
import collections
import json
import os
import signal
import subprocess
import sys
import unittest

SECONDS = 300
ORDER = ("pass", "refused", "wrong", "slow", "other", "skip")


class Slow(Exception):
    pass


class Recorder(unittest.TestResult):
    """Writes an outcome a test as soon as it is known."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.outcome = None

    def startTest(self, test):
        super().startTest(test)
        self.outcome = {"test": test.id(), "outcome": "pass"}
        print(json.dumps({"test": test.id(), "outcome": "started"}), file=self.out, flush=True)
        signal.alarm(SECONDS)

    def stopTest(self, test):
        signal.alarm(0)
        print(json.dumps(self.outcome), file=self.out, flush=True)

    def fail(self, error):
        kind = "slow" if issubclass(error[0], Slow) else "failed"
        self.outcome.update(outcome=kind, message=f"{error[0].__name__}: {error[1]}"[:2000])

    def addError(self, test, error):
        if self.outcome is None or self.outcome["test"] != test.id():  # not a test: a class that cannot be set up
            self.outcome = {"test": test.id()}
            self.fail(error)
            print(json.dumps(self.outcome), file=self.out, flush=True)
        else:
            self.fail(error)

    def addFailure(self, test, error):
        self.fail(error)

    def addSubTest(self, test, subtest, error):
        if error:
            self.fail(error)

    def addSkip(self, test, reason):
        if self.outcome is None or self.outcome["test"] != test.id():
            self.outcome = {"test": test.id()}
        self.outcome.update(outcome="skip", message=reason)

    def addExpectedFailure(self, test, error):
        self.outcome.update(outcome="pass")

    def addUnexpectedSuccess(self, test):
        self.outcome.update(outcome="pass", message="unexpected success")


def too_slow(signum, frame):
    raise Slow(f"more than {SECONDS} s")


def flatten(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from flatten(t)
        else:
            yield t


def run_here(results, module, only):
    """In a process of its own: the tests of @module that are named in @only, or all but those in RESULTS."""
    signal.signal(signal.SIGALRM, too_slow)
    known = read(results)
    tests = flatten(unittest.defaultTestLoader.loadTestsFromName(module))
    tests = [t for t in tests if (t.id() in only if only else t.id() not in known)]
    with open(results, "a", encoding="utf-8") as out:
        unittest.TestSuite(tests).run(Recorder(out))


def read(path):
    """The last outcome of each test."""
    found = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                r = json.loads(line)
                found[r["test"]] = r
    return found


def process(command, checkout, device, results, module, only=()):
    path = os.pathsep.join([checkout, os.environ.get("PYTHONPATH", "")])
    env = {"SOFTGPU_ORDER": "index", **os.environ, "DEV": device, "PYTHONPATH": path}
    return subprocess.run([*command, sys.executable, os.path.abspath(__file__), "--here", results, module, *only],
                          cwd=checkout, env=env, capture_output=True, text=True)


def on_softgpu(softgpu, checkout, results, module):
    """Until a process gets through to the end: one that dies is begun anew behind the test that killed it."""
    while True:
        done = process([softgpu, "run", "--"], checkout, "CUDA:PTX", results, module)
        started = [r for r in read(results).values() if r["outcome"] == "started"]
        for r in started:
            r.update(outcome="failed", message=f"process ended with {done.returncode}: {done.stderr[-1000:]}")
            append(results, r)
        if not started:
            return


def append(results, record):
    with open(results, "a", encoding="utf-8") as out:
        print(json.dumps(record), file=out)


def judge(checkout, results, module):
    """Says of each failure whose it is."""
    failed = [r for r in read(results).values() if r["outcome"] == "failed" and r["test"].startswith(module)]
    if not failed:
        return
    cpu = results + ".cpu"
    process([], checkout, "CPU", cpu, module, [r["test"] for r in failed])
    for r in failed:
        message = r.get("message", "")
        if read(cpu).get(r["test"], {}).get("outcome") == "failed" or "ModuleNotFoundError" in message:
            r["outcome"] = "other"
        else:
            refused = "CUDA Error 801" in message or "module load failed" in message
            r["outcome"] = "refused" if refused else "wrong"
        append(results, r)


def table(results, modules):
    print("| tests | " + " | ".join(ORDER) + " |\n|---|" + "---|" * len(ORDER))
    for module in modules:
        n = collections.Counter(r["outcome"] for t, r in read(results).items() if t.startswith(module + "."))
        print(f"| {module} | " + " | ".join(str(n[o]) for o in ORDER) + " |")
    for t, r in read(results).items():
        if r["outcome"] in ("refused", "wrong", "slow"):
            print(f"{r['outcome']}: {t}: {r.get('message', '').strip().splitlines()[:1]}")


def main(softgpu, checkout, results, *files):
    modules = [f.removesuffix(".py").replace("/", ".") for f in files]
    for module in modules:
        on_softgpu(os.path.abspath(softgpu), checkout, os.path.abspath(results), module)
        judge(checkout, os.path.abspath(results), module)
    table(results, modules)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        run_here(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main(*sys.argv[1:])
