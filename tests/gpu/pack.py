#!/usr/bin/env python3
"""What `ctest -L gpu` needs of a build, in one small folder that runs elsewhere: pack.py BUILD FOLDER

FOLDER gets the programs and libraries, stripped; in lib/ the shared libraries that another machine may lack; and
tests.json, the tests as ctest knows them, with words for this machine's paths. run.py beside this starts them there, in a
checkout of the same commit. Build what is packed first: `ctest --test-dir BUILD -L gpu`, which makes the CUDA programs.
"""
import json
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUNDLED = ("libsqlite3", "libzstd", "liblz4", "libxxhash", "libZydis", "libZycore", "libcmocka",
           "libcudart")
PARTS = ("bin/twinbit", "bin/cuda_gpt", "lib/twinbit", "bench/gpu/bench_gpu_rate", "bench/gpu/bench_count",
         "tests/softgpu/programs")


def elf(path):
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def take(build, folder, part):
    """A file, or a folder without what a build leaves beside its results"""
    source, target = os.path.join(build, part), os.path.join(folder, part)
    if not os.path.exists(source):
        print(f"not built, not packed: {part}", file=sys.stderr)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("CMakeFiles", "*.cmake", "__pycache__"))
    else:
        shutil.copy2(source, target)


def tests(build):
    shown = subprocess.run(["ctest", "--test-dir", build, "-L", "gpu", "--show-only=json-v1"], stdout=subprocess.PIPE,
                           check=True).stdout
    for test in json.loads(shown)["tests"]:
        settings = {p["name"]: p["value"] for p in test["properties"]}
        if "gpu" in settings.get("LABELS", []) and "command" in test:
            yield test["name"], test["command"], settings


def portable(word, build):
    return word.replace(build, "@BUILD@").replace(TOP, "@TOP@")


def bundle(folder):
    """Copies of the libraries that the programs name"""
    os.makedirs(os.path.join(folder, "lib/more"), exist_ok=True)
    for root, _, files in os.walk(folder):
        for path in (os.path.join(root, name) for name in files):
            if not elf(path):
                continue
            subprocess.run(["strip", "--strip-debug", path], stderr=subprocess.DEVNULL, check=False)
            said = subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
            for name, at in re.findall(r"^\s*(\S+) => (/\S+)", said.stdout, re.M):
                target = os.path.join(folder, "lib/more", name)
                if name.startswith(BUNDLED) and not os.path.exists(target) and "softgpu" not in at:
                    shutil.copy(at, target)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, folder = (os.path.abspath(p) for p in sys.argv[1:])
    shutil.rmtree(folder, ignore_errors=True)
    for part in PARTS:
        take(build, folder, part)
    found = []
    for name, command, settings in tests(build):
        if os.path.isabs(command[0]) and command[0].startswith(build + "/"):
            take(build, folder, os.path.relpath(command[0], build))
        python = os.path.basename(command[0]).startswith("python")
        found.append({"name": name, "command": ["@PYTHON@" if python and n == 0 else portable(word, build)
                                                for n, word in enumerate(command)],
                      "timeout": settings.get("TIMEOUT", 300), "alone": bool(settings.get("RUN_SERIAL")),
                      "environment": [portable(e, build) for e in settings.get("ENVIRONMENT", [])]})
    bundle(folder)
    with open(os.path.join(folder, "tests.json"), "w", encoding="utf-8") as f:
        json.dump(found, f, indent=1)
    size = sum(os.path.getsize(os.path.join(r, n)) for r, _, ns in os.walk(folder) for n in ns
               if not os.path.islink(os.path.join(r, n)))
    print(f"{len(found)} tests, {size / 2**20:.1f} MiB in '{folder}'")


if __name__ == "__main__":
    main()
