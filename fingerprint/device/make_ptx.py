#!/usr/bin/env python3
"""Make fp_device.ptx from fp_device.cu, or say (--check) whether the one here is of the source here.

    fingerprint/device/make_ptx.py [--nvcc NVCC] [--check]

The text is nvcc's for compute_75, under the oldest PTX version that ptxas accepts it as, so that old drivers take it.
Its first lines name the compiler and hold a hash of the sources. --check compares the hash and, where nvcc is of the
same release, the whole text. Status 1: it is stale or was edited.
"""
import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SOURCES = ["fingerprint/device/fp_device.cu", "fingerprint/device/fp_device.h"]
PTX = TOP / "fingerprint/device/fp_device.ptx"
VERSIONS = ["6.3", "6.4", "6.5", "7.0", "7.1", "7.4", "7.6", "7.7", "7.8", "8.0", "8.4"]
VERSION = re.compile(r"^\.version .*$", re.M)


def source_hash():
    """Of the words of the sources; comments and blanks do not count."""
    h = hashlib.sha256()
    for name in SOURCES:
        text = re.sub(r"/\*.*?\*/", " ", (TOP / name).read_text(), flags=re.S)
        h.update(" ".join(text.split()).encode())
    return h.hexdigest()


def release(nvcc):
    said = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    return re.search(r"V([0-9.]+)", said).group(1)


def any_version(text):
    return VERSION.sub(".version", text, count=1)


def lowest(nvcc, text):
    """@text under the first version that ptxas takes."""
    ptxas = str(Path(nvcc).with_name("ptxas"))
    with tempfile.TemporaryDirectory() as folder:
        for version in VERSIONS:
            older = VERSION.sub(f".version {version}", text, count=1)
            at = Path(folder) / "old.ptx"
            at.write_text(older)
            done = subprocess.run([ptxas, "-arch=sm_75", "-o", f"{folder}/old.cubin", at], capture_output=True)
            if done.returncode == 0:
                return older
    return text


def compiled(nvcc):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "fp.ptx"
        subprocess.run([nvcc, "-std=c++17", "-I.", "-ptx", "-arch=compute_75", "-o", out, SOURCES[0]], check=True,
                       cwd=TOP)
        text = out.read_text()
    text = re.sub(r"_INTERNAL_[0-9a-f]{8}_", "_INTERNAL_00000000_", text)  # a hash of where the source lies
    text = re.sub(r"[ \t]+$", "", re.sub(r"^//.*\n|^\s*\n", "", text, flags=re.M), flags=re.M)
    return f"// made from fp_device.cu by make_ptx.py with nvcc {release(nvcc)}: do not edit\n// sources {source_hash()}\n{text}"


def check(nvcc):
    text = PTX.read_text()
    if f"// sources {source_hash()}\n" not in text:
        return f"'{PTX.name}' is stale: run fingerprint/device/make_ptx.py"
    if not nvcc or f" nvcc {release(nvcc)}:" not in text:
        return None
    if any_version(compiled(nvcc)) != any_version(text):
        return f"'{PTX.name}' is not what nvcc makes of the source: run fingerprint/device/make_ptx.py"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvcc", default="")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.check:
        wrong = check(args.nvcc)
        if wrong:
            sys.exit(wrong)
        return
    nvcc = args.nvcc or "nvcc"
    PTX.write_text(lowest(nvcc, compiled(nvcc)))


if __name__ == "__main__":
    main()
