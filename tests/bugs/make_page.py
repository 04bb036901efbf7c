#!/usr/bin/env python3
"""Writes docs/bugs.md from the bug.txt files beside this program.

usage: make_page.py --doc FILE      write it
       make_page.py --check FILE    is FILE what would be written? Every mistake is a line on stderr, status 1

The grammar of bug.txt stands in README.md. A file with a mistake is one line, "FILE:LINE: what is wrong", status 1.
"""
import argparse
import glob
import os
import re
import sys

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.abspath(__file__))
CATALOGUE = os.path.join(HERE, "..", "..", "deterministic", "pins.txt")
KEYS = {  # key -> (times at least, times at most, values or None)
    "title": (1, 1, None), "source": (1, 8, None), "cause": (1, 1, None), "pin": (1, 1, None), "also": (0, 1, None),
    "kind": (1, 1, ("python", "numpy", "torch", "data", "cpu", "cuda", "collective", "system")),
    "device": (0, 1, ("host", "softgpu")), "seen": (1, 1, ("output", "trace")), "diff": (0, 1, None),
    "profile": (0, 1, None), "expect": (0, 1, ("same",)), "needs": (0, 1, None), "force": (0, 1, ("yes",)),
    "vary": (0, 4, None), "env": (0, 4, None), "tries": (0, 1, None), "options": (0, 1, None),
    "labels": (0, 1, ("slow",)), "cc": (0, 1, None),
}
TITLES = {"python": "Python", "numpy": "NumPy", "torch": "PyTorch on the CPU", "data": "Data loading", "cpu": "CPU: threads and libraries",
          "cuda": "CUDA", "collective": "Collectives", "system": "Operating system"}


class Bug:
    """One bug.txt: for each key a list of (line, value)."""

    def __init__(self, path):
        self.name, self.path = os.path.basename(os.path.dirname(path)), os.path.relpath(path, os.path.dirname(HERE))
        self.keys, self.errors = {}, []
        self.read(path)

    def error(self, line, text):
        self.errors.append(f"tests/{self.path}:{line}: {text}")

    def read(self, path):
        last = None
        with open(path, encoding="ascii") as f:
            lines = f.read().split("\n")
        for number, line in enumerate(lines, 1):
            if not line or line.startswith("#"):
                last = None
            elif line[0] in " \t":
                if last is None:
                    self.error(number, "goes on with nothing")
                else:
                    last[1] += " " + line.strip()
            else:
                key, found, value = line.partition(" = ")
                if not found or key not in KEYS:
                    self.error(number, f"'{key}' is not one of {', '.join(KEYS)}")
                last = [number, value]
                self.keys.setdefault(key, []).append(last)

    def get(self, key, default=""):
        return self.keys[key][0][1] if key in self.keys else default

    def all(self, key):
        return [value for _, value in self.keys.get(key, [])]

    def pins(self):
        pin = self.get("pin")
        return [] if pin.startswith("none:") else [item.split("=")[0] for item in pin.split()]

    def check(self, catalogue):
        for key, (least, most, values) in KEYS.items():
            found = self.keys.get(key, [])
            if not least <= len(found) <= most:
                self.error(1, f"'{key}' stands there {len(found)} times, {least} to {most} are right")
            for line, value in found:
                if values and value not in values:
                    self.error(line, f"'{value}' is not one of {', '.join(values)}")
                if key == "source" and not value.startswith("https://"):
                    self.error(line, "a source is an https address")
        for pin in self.pins() + self.get("also").split():
            if pin not in catalogue:
                self.error(1, f"there is no pin '{pin}'")
        jobs = [f for f in ("job.py", "job.c", "job.cu") if os.path.exists(os.path.join(HERE, self.name, f))]
        if len(jobs) != 1:
            self.error(1, "one of job.py, job.c and job.cu must stand beside it")


def read_catalogue():
    """Ids of all pins -> what this version does not do of them, or ''."""
    pins, pin = {}, None
    with open(CATALOGUE, encoding="ascii") as f:
        for line in f:
            if match := re.match(r"\[(\w+) (\S+)\]", line):
                pin = match[2] if match[1] == "pin" else None
                if pin:
                    pins[pin] = ""
            elif pin and line.startswith("missing = "):
                pins[pin] = line[len("missing = "):].strip()
    return pins


def short(address):
    """github.com/a/b/issues/7 -> b 7"""
    match = re.match(r"https://github\.com/[^/]+/([^/]+)/(?:issues|pull)/(\d+)$", address)
    return f"[{match[1]} {match[2]}]({address})" if match else f"<{address}>"


def mended(bug, catalogue):
    """The last column: which pin, or why none."""
    pin = bug.get("pin")
    if pin.startswith("none:"):
        return "none: " + pin[len("none:"):].strip()
    text = " with ".join(f"`{item}`" for item in pin.split())
    profile = bug.get("profile", "strict")
    if "," in profile:
        text += ", asked for by itself"
    elif profile != "strict":
        text += f", in `{profile}`"
    if bug.get("force") == "yes":
        text += ", with `--force-pins`"
    missing = [p for p in bug.pins() if catalogue[p]]
    return text + (" (not built yet)" if missing else "")


def section(kind, bugs, catalogue):
    lines = [f"## {TITLES[kind]}", "", "| bug | reported | cause | mended by |", "|---|---|---|---|"]
    for bug in bugs:
        sources = ", ".join(short(s) for s in bug.all("source"))
        cells = [f"**{bug.get('title')}** (`{bug.name}`)", sources, bug.get("cause"), mended(bug, catalogue)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines + [""]


def page(bugs, catalogue):
    alike = [b for b in bugs if b.get("expect") == "same"]
    none = [b for b in bugs if not b.pins() and b not in alike]
    waiting = sum(any(catalogue[p] for p in b.pins()) for b in bugs)
    unbuilt = f" {waiting} of these pins are not built yet; only that runs differ is shown so far." if waiting else ""
    lines = [
        "# Public bugs, rebuilt", "",
        "<!-- Written by tests/bugs/make_page.py from tests/bugs/*/bug.txt; do not edit. -->", "",
        f"{len(bugs)} reports of jobs that do not repeat themselves, each as a small program of our own in `tests/bugs/`: what the",
        "report describes, in a second or so, without data and network. Each is run with nothing pinned (runs differ), under a",
        "profile (they are equal), with the pin alone (equal) and with the profile without it (they differ again).",
        "`tests/bugs/run NAME` does it for one; [tests/bugs/README.md](../tests/bugs/README.md) says how one is added.", "",
        f"- {len(bugs) - len(alike) - len(none)} are mended by a pin.{unbuilt}",
        f"- {len(none)} are mended by none. They differ under `strict`, too; where work of a GPU or operators of torch are recorded",
        "  `twinbit diff` says why.",
        f"- {len(alike)} are wrong in the same way each time. They are called equal, as they are.", "",
        "Jobs for softgpu run with another seed of the software device each time: that is the order in which a GPU happens to",
        "run blocks, warps and streams. Pins that are not in `strict` are those that have to be asked for.", "",
    ]
    for kind in TITLES:
        if found := [b for b in bugs if b.get("kind") == kind]:
            lines += section(kind, found, catalogue)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--doc")
    parser.add_argument("--check")
    options = parser.parse_args()
    catalogue = read_catalogue()
    bugs = [Bug(path) for path in sorted(glob.glob(os.path.join(HERE, "*", "bug.txt")))]
    for bug in bugs:
        bug.check(catalogue)
    errors = [error for bug in bugs for error in bug.errors]
    if not bugs:
        errors.append("tests/bugs: no bug.txt")
    if errors:
        print("\n".join(errors), file=sys.stderr)
        return 1
    text = page(bugs, catalogue)
    if options.doc:
        with open(options.doc, "w", encoding="ascii") as f:
            f.write(text)
    if options.check:
        with open(options.check, encoding="utf-8") as f:
            if f.read() != text:
                print(f"{options.check}: not what tests/bugs/make_page.py --doc writes", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
