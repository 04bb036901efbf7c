#!/usr/bin/env python3
"""The file of strict mode's findings: its name, what a dead process leaves, what is counted.

usage: report.py PROGRAM   of report.c
"""
import json
import os
import signal
import subprocess
import sys
import tempfile


def run(program, what, report, mode="report", **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SOFTGPU_")}
    env.update(SOFTGPU_STRICT=mode, **({"SOFTGPU_REPORT": report} if report else {}), **more)
    return subprocess.run([program, what], env=env, capture_output=True, text=True, timeout=60,
                          check=False)


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r")

        lines = (run(program, "many", path), read(path))[1]
        assert len(lines) == 3 and lines[1]["rule"] == "double-free", lines
        assert lines[2]["total"] == 100 and lines[2]["counts"] == [{"finding": 1, "count": 100}], lines
        assert lines[2]["rules"] == {"double-free": 100}, lines
        made, freed = (lines[1]["allocation"][k] for k in ("allocated_by", "freed_by"))
        assert made["name"] == "cuMemAlloc_v2" and freed["name"] == "cuMemFree_v2", lines
        assert made["number"] + 1 == freed["number"] == lines[1]["call"]["number"] - 1, lines
        assert made["site"].startswith(os.path.basename(program) + "+0x"), lines

        # the name is taken: this process gets a file of its own, and the first is as it was
        before = read(path)
        run(program, "once", path)
        names = sorted(os.listdir(folder))
        assert len(names) == 2 and names[0] == "r" and names[1][:2] == "r.", names
        second = os.path.join(folder, names[1])
        assert read(path) == before and str(read(second)[0]["pid"]) == names[1][2:], names
        os.remove(second)

        run(program, "once", os.path.join(folder, "p-%p.json"))
        names = [n for n in os.listdir(folder) if n.startswith("p-")]
        assert len(names) == 1 and names[0] == f"p-{read(os.path.join(folder, names[0]))[0]['pid']}.json"

        for what, status in (("kill", -signal.SIGKILL), ("abort", -signal.SIGABRT)):
            path = os.path.join(folder, what)
            assert run(program, what, path).returncode == status
            lines = read(path)
            assert [line.get("rule") for line in lines] == [None, "double-free"], lines

        path = os.path.join(folder, "fork")
        done = run(program, "fork", path)
        assert done.returncode == 0 and len(read(path)) == 3, done

        # without a file, and where it cannot be written, the line on standard error is there
        done = run(program, "once", None)
        assert "softgpu: strict: error: double-free: cuMemFree_v2: 0x" in done.stderr, done
        assert not done.stdout, done
        done = run(program, "once", os.path.join(folder, "no", "folder"))
        assert "cannot write" in done.stderr and "double-free" in done.stderr, done
        done = run(program, "once", None, SOFTGPU_LOG="0")
        assert not done.stderr, done
        done = run(program, "once", None, mode="loud")
        assert done.returncode == 3 and "SOFTGPU_STRICT='loud' is not one of off, report, fail" in done.stderr
    print("passed")


if __name__ == "__main__":
    main()
