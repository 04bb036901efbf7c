#!/usr/bin/env python3
"""Runs the tests of the label gpu out of a folder that pack.py made: run.py FOLDER [-j N] [-R REGEX] [-o LOGS]

Needs a checkout of the packed commit, python3, and what the tests say that they lack. Prints a line for each test, the
output of those that failed, and a closing line; LOGS (FOLDER/logs) has all outputs. Those that measure run alone, last.
Status: 0 none failed, 1 some did, 77 all were skipped.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys

import gpu

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def missing_libraries(folder):
    """A folder with those of lib/more that the system's loader does not find"""
    known = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False).stdout
    path = os.path.join(folder, "lib/found")
    os.makedirs(path, exist_ok=True)
    for name in os.listdir(os.path.join(folder, "lib/more")):
        link = os.path.join(path, name)
        if os.path.islink(link):
            os.unlink(link)
        if f"\t{name} " not in known:
            os.symlink(os.path.join("../more", name), link)
    return path


def run(test, args, libraries):
    def here(word):
        return word.replace("@BUILD@", args.folder).replace("@TOP@", TOP).replace("@PYTHON@", sys.executable)

    settings = dict(here(e).split("=", 1) for e in test["environment"])
    had = [p for p in (settings.get("LD_LIBRARY_PATH"), os.environ.get("LD_LIBRARY_PATH")) if p]
    settings["LD_LIBRARY_PATH"] = ":".join([*had, libraries])
    done = gpu.run([here(word) for word in test["command"]], test["timeout"], settings)
    state = {0: "passed", 77: "skipped", None: "TIMED OUT"}.get(done.status, "FAILED")
    text = done.out.decode(errors="replace") + done.err
    with open(os.path.join(args.logs, test["name"] + ".log"), "w", encoding="utf-8") as f:
        f.write(text)
    said = next((l for l in text.splitlines() if "skipped" in l or l.startswith("ok")), "")
    print(f"{state:9} {done.seconds:6.1f} s  {test['name']}  {said}", flush=True)
    if state in ("FAILED", "TIMED OUT"):
        print("    " + "\n    ".join(text.splitlines()[-25:]), flush=True)
    return state


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=os.path.abspath)
    parser.add_argument("-j", dest="jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("-R", dest="only", default="")
    parser.add_argument("-o", dest="logs")
    args = parser.parse_args()
    args.logs = os.path.abspath(args.logs or os.path.join(args.folder, "logs"))
    os.makedirs(args.logs, exist_ok=True)
    with open(os.path.join(args.folder, "tests.json"), encoding="utf-8") as f:
        tests = [t for t in json.load(f) if re.search(args.only, t["name"])]
    libraries = missing_libraries(args.folder)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        states = list(pool.map(lambda t: run(t, args, libraries), [t for t in tests if not t["alone"]]))
    states += [run(t, args, libraries) for t in tests if t["alone"]]
    failed = sum(1 for s in states if s in ("FAILED", "TIMED OUT"))
    print(f"{states.count('passed')} passed, {failed} failed, {states.count('skipped')} skipped")
    sys.exit(1 if failed else 0 if states.count("passed") else 77)


if __name__ == "__main__":
    main()
