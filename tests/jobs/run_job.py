#!/usr/bin/env python3
"""run_job.py - runs a job bare and under twinbit, and checks what must hold for every job.

    run_job.py --list
    run_job.py --warm               have the tap built, which may take more than the 60 s that a job waits
    run_job.py --bare JOB...        only run it; print time, status and output
    run_job.py [--folder DIR] JOB...  run, record twice, diff, record with --inputs; in DIR or here

Checked for each job: files, stdout and exit status are bit for bit the same with and without twinbit; a
recording has events and none is lost; two recordings are `identical`; with --inputs no unseen writer is
found (but for jobs that plant one). Environment: PYTHON (the job's), TWINBIT (the program), TB_BUILD_DIR
(things built for jobs are kept there). Exit status: 0 all held, 1 something did not, 2 usage, 77 skipped:
the job's Python lacks a module. A folder given with --folder is emptied first, and kept after a failure.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
PYTHON = os.environ.get("PYTHON") or os.environ.get("TWINBIT_PYTHON") or str(TOP / ".venv/bin/python")
BUILD = Path(os.environ.get("TB_BUILD_DIR") or TOP / "build/dev").resolve()
TWINBIT = os.path.abspath(os.environ.get("TWINBIT") or BUILD / "bin/twinbit")


class Failed(Exception):
    pass


@dataclass
class Job:
    """Job - how to start a job and what it is allowed to do"""

    command: object                # function of the OUT folder, gives the argv
    status: int = 0                # 128 + n after signal n
    env: object = field(default_factory=dict)  # or a function that gives one
    hit: int = 0                   # signal sent once it printed `ready`
    to_group: bool = False         # the signal goes to the process group, as a terminal sends it
    drop: str = ""                 # lines of stdout that match are not compared
    unseen: int = 0                # unseen writers it plants
    racing: bool = False           # threads of its own race: which runs an operator first is chance (README, Limits)
    uncovered: int = 0             # processes that twinbit must say it did not cover
    processes: int = 1             # processes with events, at least
    names: tuple = ()              # event names (step/phase:module/operator#k) that must be in the trace
    lines: object = field(default_factory=dict)  # with --stack: event name -> text of the job's line that runs it
    steps: int = 0                 # optimizer steps that must be in the trace
    modules: tuple = ("torch",)    # what the job's Python must have
    timeout: int = 300


def script(name, *args):
    return lambda out: [PYTHON, str(HERE / name), out, *args]


def torchrun(name):
    return lambda out: [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                        str(HERE / name), out]


def torch_folder():
    code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    return subprocess.run([PYTHON, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def built(target, sources, make):
    """built - @target in the build folder, made by make(path) if it is older than @sources"""
    path = BUILD / "jobs" / target
    newest = max(s.stat().st_mtime for s in sources)
    if not path.exists() or path.stat().st_mtime < newest:
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
    return str(path)


def cpp_job(out):
    torch = torch_folder()

    def make(path):
        new = path.with_suffix(".tmp")
        subprocess.run(
            ["c++", "-std=c++20", "-O1", "-w", f"-I{torch}/include",
             f"-I{torch}/include/torch/csrc/api/include", str(HERE / "cpp/job.cpp"), "-o", str(new),
             f"-L{torch}/lib", "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10", "-ltorch",
             f"-Wl,-rpath,{torch}/lib"], check=True)
        new.replace(path)

    return [built("cpp/job", [HERE / "cpp/job.cpp", Path(torch) / "version.py"], make), out]


def own_library(name, folder="own", *flags):
    source = HERE / "own" / f"{name}.c"

    def make(path):
        subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(path), *flags], check=True)

    return built(f"{folder}/libjob{name}.so", [source], make)


def own_hooks(out):
    own_library("inner", "own/hidden")
    outer = own_library("outer", "own", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/hidden")
    return [PYTHON, str(HERE / "own_hooks.py"), out, outer]


def own_hooks_env():
    preload = [own_library("preload"), *filter(None, [os.environ.get("LD_PRELOAD")])]
    return {"LD_PRELOAD": ":".join(preload), "PYTHONPATH": str(HERE / "own")}


def isolated(out):
    return [PYTHON, "-I", "-S", str(HERE / "isolated.py"), out, str(Path(torch_folder()).parent)]


def gpt_char(*args):
    def command(out):
        return [PYTHON, str(TOP / "examples/gpt_char/train.py"), "--steps", "3", "--save",
                os.path.join(out, "weights.pt"), *args]
    return command


JOBS = {
    "gpt_char": Job(gpt_char(), env={"OMP_NUM_THREADS": "2"}, steps=3),
    "gpt_char_ops": Job(gpt_char("--plant", "flip-inside", "--place", str(HERE / "no_strike.json")), steps=3),
    "hf_trainer": Job(script("hf_trainer.py"), drop="train_runtime", steps=3,
                      modules=("torch", "transformers", "accelerate")),
    "dataloader": Job(script("dataloader.py"), processes=3, steps=8),
    "ddp": Job(torchrun("ddp.py"), processes=2, steps=4),
    "c10d_async": Job(torchrun("c10d_async.py"), processes=2,
                      names=("0/forward:/aten::sinh_#0", "0/forward:/aten::cosh_#0")),
    "compiled": Job(script("compiled.py"), steps=3, timeout=900),
    "frames": Job(script("frames.py"), steps=6),
    "checkpointing": Job(script("checkpointing.py"), steps=3),
    "autocast": Job(script("autocast.py"), steps=4),
    "optimizers": Job(script("optimizers.py"), steps=17),
    "kinds": Job(script("kinds.py")),
    "scripted": Job(script("scripted.py"), steps=4, racing=True),  # torch.jit.fork: this thread or another
    "modules": Job(script("modules.py"), steps=2, names=(
        "1/forward:act/aten::mul.Tensor#0", "1/backward:act/aten::cosh#0", "1/backward:fc/aten::sum.dim_IntList#0",
        "1/forward:fc/aten::addmm#1", "1/backward:deep.0/aten::addmm#0", "1/backward:deep.0/aten::sum.dim_IntList#0",
        "1/backward:deep.1/aten::tanh_backward#0", "1/backward:fc/aten::clamp#0", "1/optimizer:/aten::add_.Tensor#0",
        "2/forward:/state#0"), lines={
            "0/forward:/aten::randn#0": "model(torch.randn(8, 16)).backward()",
            "1/forward:fc/aten::addmm#0": "x = self.act(self.fc(x))",
            "1/forward:act/aten::mul.Tensor#0": "return x * x",
            "1/forward:fc/aten::addmm#1": "return self.fc(x).sum()",
            "1/backward:act/aten::cosh#0": "return torch.cosh(x) * 0 + 2 * g * x",
            "1/backward:fc/aten::clamp#0": "model.fc.weight.register_hook(lambda g: g.clamp(-1, 1))",
            "1/backward:fc/aten::sum.dim_IntList#0": "model(torch.randn(8, 16)).backward()",
            "1/optimizer:/aten::add_.Tensor#0": "optimizer.step()"}),
    "threads": Job(script("threading_job.py")),
    "fork": Job(script("forking.py"), processes=4),
    "spawn": Job(script("spawning.py"), processes=2),
    "closes_fds": Job(script("closes_fds.py"), steps=4),
    "clean_child": Job(script("clean_child.py"), steps=2, uncovered=1),
    "libtorch": Job(cpp_job),
    "isolated": Job(isolated, steps=2),
    "own_hooks": Job(own_hooks, env=own_hooks_env, steps=2),
    "raise": Job(script("ends.py", "raise"), status=1, steps=3),
    "exit": Job(script("ends.py", "exit"), status=3, steps=3),
    "_exit": Job(script("ends.py", "_exit"), status=4, steps=3),
    "abort": Job(script("ends.py", "abort"), status=128 + signal.SIGABRT, steps=3),
    "kill": Job(script("ends.py", "kill"), status=128 + signal.SIGKILL, steps=3),
    "sigint": Job(script("ends.py", "sigint"), status=128 + signal.SIGINT, hit=signal.SIGINT,
                  to_group=True, steps=3),
    "sigterm": Job(script("ends.py", "sigterm"), status=128 + signal.SIGTERM, hit=signal.SIGTERM, steps=3),
    "raw_write": Job(script("raw_write.py"), unseen=1),
    "numpy_write": Job(script("numpy_write.py"), unseen=1),
}


def job_env(job):
    env = dict(os.environ, OMP_NUM_THREADS="1", PYTHONHASHSEED="0", HF_HUB_OFFLINE="1",
               PYTHONDONTWRITEBYTECODE="1", TORCHINDUCTOR_CACHE_DIR=str(BUILD / "jobs/inductor"))
    env.update(job.env() if callable(job.env) else job.env)
    return env


def wait_ready(process, out, limit):
    end = time.monotonic() + limit
    while process.poll() is None and b"ready\n" not in out.read_bytes():
        if time.monotonic() > end:
            raise Failed("never got ready")
        time.sleep(0.02)


def start(job, argv, folder):
    """start - run @argv; stdout and stderr to files; returns the status as a shell has it, and the time"""
    out, err = folder.with_suffix(".stdout"), folder.with_suffix(".stderr")
    begin = time.monotonic()
    with open(out, "wb") as o, open(err, "wb") as e:
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=o, stderr=e, env=job_env(job),
                             start_new_session=True)
        try:
            if job.hit:
                wait_ready(p, out, job.timeout)
                (os.killpg if job.to_group else os.kill)(p.pid, job.hit)
            status = p.wait(job.timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"did not end within {job.timeout} s: {' '.join(argv)}") from None
        finally:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
    return (status if status >= 0 else 128 - status), time.monotonic() - begin


def run_once(job, name, wrap=()):
    """run_once - one run in a fresh OUT folder, which has the same path each time; returns its result"""
    out = Path("out").resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    argv = job.command(str(out))
    folder = Path(name).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    status, seconds = start(job, [*wrap, *argv], folder)
    out.rename(folder)
    text = folder.with_suffix(".stdout").read_bytes()
    if job.drop:
        text = b"".join(l for l in text.splitlines(True) if not re.search(job.drop.encode(), l))
    files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    print(f"  {name:8} {seconds:6.1f} s, status {status}", flush=True)
    return {"status": status, "stdout": text, "files": files, "seconds": seconds}


def compare(bare, got, name):
    problems = []
    if got["status"] != bare["status"]:
        problems.append(f"status {got['status']} instead of {bare['status']}")
    if got["stdout"] != bare["stdout"]:
        problems.append("stdout differs")
    if sorted(got["files"]) != sorted(bare["files"]):
        problems.append(f"files {sorted(got['files'])} instead of {sorted(bare['files'])}")
    for path in got["files"]:
        if got["files"][path] != bare["files"].get(path):
            problems.append(f"file '{path}' differs")
    return [f"{name}: {p}" for p in problems]


def ask(*args):
    """ask - rows that `twinbit show --json` gives"""
    p = subprocess.run([TWINBIT, "show", "--json", *args], capture_output=True, text=True)
    if p.returncode != 0:
        raise Failed(f"twinbit show {' '.join(args)}: status {p.returncode}: {p.stderr.strip()}")
    return json.loads(p.stdout)["rows"]


def check_trace(job, trace, inputs):
    """check_trace - what must hold for one recording"""
    problems = []
    summary = ask(trace)[0]
    if summary["state"] != "complete":
        problems.append(f"state is '{summary['state']}'")
    if summary["lost"]:
        problems.append(f"{summary['lost']} events lost")
    if summary["events"] == 0:
        problems.append("no events")
    rows = ask(trace, "processes")
    recorded = sum(any(t["events"] for t in p["threads"]) for p in rows)
    if recorded < job.processes:
        problems.append(f"{recorded} processes recorded, expected at least {job.processes}")
    steps = len(ask(trace, "steps")) if job.steps else 0
    if steps < job.steps:
        problems.append(f"{steps} steps recorded, expected at least {job.steps}")
    if job.names:
        have = {"/".join(r["name"].split("/")[3:]) for r in ask(trace, "events")}
        problems += [f"no event {n}" for n in job.names if n not in have]
    unseen = [r for r in ask(trace, "coverage") if r["severity"] == "unseen writer"]
    count = sum(r["count"] for r in unseen)
    if (inputs and count != job.unseen) or (not inputs and count):
        problems.append(f"{count} unseen writers, expected {job.unseen if inputs else 0}")
        problems += [f"  {r['count']}x {r['kind']}: {r['subject']}: {r['detail']}" for r in unseen[:12]]
    return [f"{trace}: {p}" for p in problems]


def check_lines(job, trace):
    """check_lines - --stack names the line of the job's own code, wherever the operator itself was called"""
    have = {"/".join(r["name"].split("/")[3:]): r["stack"] for r in ask(trace, "events")}
    problems = []
    for name, text in job.lines.items():
        file, line = re.match(r"(.*):(\d+) ", have.get(name) or "none:0 ").groups()
        found = Path(file).read_text().splitlines()[int(line) - 1].strip() if int(line) else ""
        if found != text:
            problems.append(f"{trace}: {name} is at '{file}:{line}': '{found}', expected '{text}'")
    return problems


def check_uncovered(job, name):
    text = Path(name + ".stderr").read_text(errors="replace")
    found = re.search(r"(\d+) process(?:es)? not covered", text)
    got = int(found.group(1)) if found else 0
    return [] if got == job.uncovered else [f"{name}: '{got} processes not covered', expected {job.uncovered}"]


def check_diff(a, b, expected):
    p = subprocess.run([TWINBIT, "diff", a, b], capture_output=True, text=True)
    if p.returncode == expected and (expected or "\nIDENTICAL " in p.stdout):
        return []
    text = (p.stdout + p.stderr).strip().splitlines()
    return [f"diff {a} {b}: status {p.returncode}, expected {expected}"] + ["  " + l for l in text[:40]]


def check_job(name):
    job = JOBS[name]
    problems = []
    print(f"{name}:", flush=True)
    bare = run_once(job, "bare")
    if bare["status"] != job.status:
        text = Path("bare.stderr").read_text(errors="replace")
        raise Failed(f"bare: status {bare['status']}, expected {job.status}\n{text[-2000:]}")
    for run, flags in (("a", []), ("b", []), ("inputs", ["--inputs"])):
        wrap = [TWINBIT, "run", "--force", "-o", f"{run}.twinbit", *flags, "--"]
        problems += compare(bare, run_once(job, run, wrap), run)
        try:
            problems += check_trace(job, f"{run}.twinbit", bool(flags))
        except Failed as e:
            problems.append(str(e))
        problems += check_uncovered(job, run)
    if job.lines:
        wrap = [TWINBIT, "run", "--force", "-o", "stack.twinbit", "--stack", "--"]
        problems += compare(bare, run_once(job, "stack", wrap), "stack")
        problems += check_lines(job, "stack.twinbit")
    if not job.racing:
        problems += check_diff("a.twinbit", "b.twinbit", 3 if job.uncovered else 0)
    return problems


def warm():
    """warm - record a tiny job until the tap was there for it; exit status"""
    job = Job(lambda out: [PYTHON, "-c", "import torch; torch.ones(2) + 1"])
    for turn in range(8):
        run_once(job, "warm", [TWINBIT, "run", "--force", "-o", "warm.twinbit", "--"])
        if ask("warm.twinbit")[0]["events"] > 0:
            return 0
        print(f"  try {turn + 1}: " + Path("warm.stderr").read_text(errors="replace").strip(), flush=True)
    print("the tap is not to be had")
    return 1


def show_bare(name):
    print(f"{name}:", flush=True)
    got = run_once(JOBS[name], "bare")
    sys.stdout.write(got["stdout"].decode(errors="replace"))
    sys.stdout.write(Path("bare.stderr").read_text(errors="replace")[-2000:])
    return [] if got["status"] == JOBS[name].status else ["another status than expected"]


def lacks(modules):
    """lacks - why the job cannot be run, or None"""
    if PYTHON == "none" or shutil.which(PYTHON) is None:
        return f"no python at '{PYTHON}'"
    code = "import importlib.util as u, sys; print(*[m for m in sys.argv[1:] if not u.find_spec(m)])"
    p = subprocess.run([PYTHON, "-c", code, *modules], capture_output=True, text=True)
    return f"'{PYTHON}' has no module {p.stdout.strip()}" if p.stdout.strip() else None


def enter(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    os.chdir(folder)


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("jobs", nargs="*")
    p.add_argument("--list", action="store_true")
    p.add_argument("--bare", action="store_true")
    p.add_argument("--folder")
    p.add_argument("--warm", action="store_true")
    args = p.parse_args()
    if args.list:
        print("\n".join(JOBS))
        return 0
    if not args.warm and not args.jobs or any(j not in JOBS for j in args.jobs):
        print("run_job.py: name jobs of --list", file=sys.stderr)
        return 2
    why = lacks(sorted({m for j in args.jobs for m in JOBS[j].modules} | {"torch"}))
    if why:
        print(f"skipped: {why}")
        return 77
    if args.folder:
        enter(args.folder)
    if args.warm:
        return warm()
    failed = 0
    for name in args.jobs:
        try:
            problems = (show_bare if args.bare else check_job)(name)
        except Failed as e:
            problems = [str(e)]
        for line in problems:
            print(f"  FAILED {line}" if not line.startswith("  ") else "  " + line, flush=True)
        failed += bool(problems)
    print(f"{len(args.jobs)} jobs, {failed} failed")
    if failed and args.folder:
        print(f"its folder: {args.folder}\nreplay: TB_BUILD_DIR={BUILD} {Path(__file__).resolve()} "
              f"--folder {args.folder} {' '.join(args.jobs)}")
    elif args.folder:
        os.chdir(TOP)
        shutil.rmtree(args.folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
