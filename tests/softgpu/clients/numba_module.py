"""Runs one module of numba-cuda's test suite, in a process of its own, for numba_suite.py.

usage: numba_module.py MODULE RESULTS [TEST...]    TEST: what has been run already and is left out

RESULTS gets one JSON line when a test starts and one when it ends, so that a test that never ends, or that takes
the process with it, is known by name. Where standard error is a file, they tell how far it had been written.
"""

import importlib
import json
import os
import sys
import time
import unittest
import warnings

import cuda.core
import pytest


def position():
    """How far standard error has been written; None where it is no file."""
    sys.stderr.flush()
    try:
        return os.lseek(2, 0, os.SEEK_END)
    except OSError:
        return None


class Journal(unittest.TestResult):
    """Writes what becomes of each test; a failing subtest makes its test fail."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.state = None

    def write(self, **line):
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()

    def startTest(self, test):
        super().startTest(test)
        self.state = None
        self.began = time.monotonic()
        self.write(start=test.id(), err=position())

    def stopTest(self, test):
        outcome, text = self.state or ("pass", "")
        seconds = round(time.monotonic() - self.began, 2)
        self.write(end=test.id(), outcome=outcome, text=text, seconds=seconds, err=position())
        super().stopTest(test)

    def set(self, test, outcome, text=""):
        if not isinstance(test, unittest.TestCase):  # of a class or a module: there is no start and no end
            self.write(end=test.id(), outcome=outcome, text=text, seconds=0, err=position())
        elif self.state is None or self.state[0] in ("pass", "skip"):
            self.state = (outcome, text)

    def failed(self, test, err, outcome):
        self.set(test, outcome, self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        self.set(test, "skip", reason)

    def addError(self, test, err):
        if issubclass(err[0], pytest.skip.Exception):  # pytest.importorskip() in a test
            self.set(test, "skip", str(err[1]))
        else:
            self.failed(test, err, "error")

    def addFailure(self, test, err):
        self.failed(test, err, "fail")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.failed(test, err, "fail" if issubclass(err[0], test.failureException) else "error")

    def addExpectedFailure(self, test, err):
        self.set(test, "xfail", "")

    def addUnexpectedSuccess(self, test):
        self.set(test, "xpass", "")


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def functions_of(module):
    """Tests that are plain functions, as pytest takes them."""
    for name, value in sorted(vars(module).items()):
        if name.startswith("test_") and callable(value) and value.__module__ == module.__name__:
            test = unittest.FunctionTestCase(value)
            test.id = lambda name=name: f"{module.__name__}.{name}"
            yield test


def load(name):
    """All tests of a module, or the exception with which it says itself that it cannot run here."""
    try:
        module = importlib.import_module(name)
    except pytest.skip.Exception as skipped:
        return skipped
    return [*tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)), *functions_of(module)]


def decide_linker():
    """cuda-core warns when it first finds no nvJitLink: before the tests that count warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cuda.core.Linker.which_backend()


def main():
    module, results, done = sys.argv[1], sys.argv[2], set(sys.argv[3:])
    sys.argv[1:] = []
    decide_linker()
    with open(results, "a") as out:
        journal = Journal(out)
        loaded = load(module)
        if isinstance(loaded, BaseException):
            journal.write(end=module, outcome="skip", text=str(loaded), seconds=0, err=position())
            loaded = []
        chosen = [t for t in loaded if t.id() not in done]
        unittest.TestSuite(chosen).run(journal)
        journal.write(all=len(chosen))


if __name__ == "__main__":
    main()
