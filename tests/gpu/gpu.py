#!/usr/bin/env python3
"""What the tests of a real GPU share: is there one, and programs that may hang.

As a program: ends with 0 where there is a GPU and prints its name, else with 77 and the reason.
"""
import ctypes
import os
import signal
import subprocess
import sys
import time


def _driver():
    """(driver, its devices, None), or (None, 0, reason); asked in this process."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        return None, 0, f"no GPU: no driver: {e}"
    status = driver.cuInit(0)
    count = ctypes.c_int(0)
    if status == 0:
        status = driver.cuDeviceGetCount(ctypes.byref(count))
    if status:
        return None, 0, f"no GPU: the driver says error {status}"
    return (driver, count.value, None) if count.value else (None, 0, "no GPU: the driver knows of no device")


def _ask():
    """In a process of its own: a driver that was started does not survive a fork."""
    return subprocess.run([sys.executable, os.path.abspath(__file__)], stdout=subprocess.PIPE, text=True, check=False)


def why_no_gpu():
    """The reason, None where there is one"""
    done = _ask()
    return None if done.returncode == 0 else done.stdout.strip() or "no GPU: asking ended badly"


def names():
    return _ask().stdout.split("\n")[:-1]


def skip(reason):
    print(reason if reason.startswith("skipped: ") else f"skipped: {reason}")
    sys.exit(77)


class Done:
    """status: None where it had to be killed; out: bytes; err: text; seconds"""

    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err.decode(errors="replace"), seconds


def run(command, timeout, environment=None, folder=None):
    """Ends within @timeout, what it started included: all of it is killed otherwise."""
    begin = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**os.environ, **(environment or {})}, cwd=folder,
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        status = None
    return Done(status, out, err, time.monotonic() - begin)


def main():
    driver, count, reason = _driver()
    if reason:
        skip(reason)
    name = ctypes.create_string_buffer(128)
    for device in range(count):
        driver.cuDeviceGetName(name, 128, device)
        print(name.value.decode(errors="replace"))


if __name__ == "__main__":
    main()
