"""What recording costs a training step on a GPU: alone, level op, level kernel, one process of each in turn.

A step's time is that of a whole run with many steps less that of one with few, over the steps between: what starting and
ending cost is in both. cuda_gpt has no operators, so that level op records its launches, too; in PyTorch's GPT level op is
operators alone.
"""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "tests/gpu"))
import gpu

BUILD = Path(os.environ["TB_BUILD_DIR"])
LEVELS = ("alone", "op", "kernel")
GOALS = {"op": "<=1.10", "kernel": "<=1.30"}
SIZES = {  # job -> device -> options
    "cuda_gpt": {"host": ["--preset", "gpu", "--print-every", "1000"],
                 "softgpu": ["--layers", "1", "--width", "16", "--heads", "2", "--batch", "2", "--context", "16"]},
    "torch_gpt": {"host": ["--width", "768", "--layers", "12", "--batch", "8", "--context", "512", "--words", "32768"],
                  "softgpu": ["--width", "16", "--layers", "1", "--batch", "2", "--context", "8"]},
}
STEPS = {"host": (2, 12), "softgpu": (1, 9)}  # few, many
ROUNDS = 4


class Job:
    def __init__(self, device, command, folder, settings):
        self.device, self.command, self.folder, self.settings = device, command, folder, settings

    def seconds(self, level, steps):
        """seconds - of the whole run"""
        if level == "alone":
            lead = [] if self.device == "host" else [BUILD / "bin/softgpu", "run", "--"]
        else:
            lead = [BUILD / "bin/twinbit", "run", "--quiet", "--force", "--device", self.device, "--level", level, "-o",
                    Path(self.folder, "bench.twinbit"), "--"]
        done = gpu.run([*lead, *self.command, "--steps", steps], 300, self.settings)
        if done.status != 0:
            how = "was killed after 300 s" if done.status is None else f"ended with status {done.status}"
            sys.exit(f"bench/gpu: {self.command[0]}, {level}, {how}:\n{done.err[-2000:]}")
        return done.seconds

    def step(self, level):
        few, many = STEPS[self.device]
        taken = (self.seconds(level, many) - self.seconds(level, few)) / (many - few)
        if taken <= 0:
            sys.exit(f"bench/gpu: {many} steps took no longer than {few}: the machine is too busy to measure")
        return taken


def cuda_gpt(device, folder):
    """The job, or a text: why there is none"""
    program = BUILD / "bin/cuda_gpt"
    if not program.exists():
        return "there is no cuda_gpt: it needs nvcc, and the target cuda_gpt"
    return Job(device, [program, *SIZES["cuda_gpt"][device]], folder, {})


def torch_gpt(device, folder):
    python = os.environ["TB_PYTHON"]
    done = subprocess.run([python, "-c", "import torch; print(torch.version.cuda or '')"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        return f"'{python}' has no torch with CUDA"
    settings = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    if device == "softgpu":
        settings |= {"SOFTGPU_EAGER": "1", "OMP_NUM_THREADS": "1"}
    gpu.run([BUILD / "bin/twinbit", "doctor"], 600, {"TWINBIT_PYTHON": python})  # compiles the tap, if it must be
    command = [python, TOP / "tests/gpu/torch_job.py", "eager", *SIZES["torch_gpt"][device], "--time"]
    return Job(device, command, folder, settings)


def needs_gpu(name, say):
    for level, goal in GOALS.items():
        say(metric=f"{name}_{level}_slowdown", unit="ratio", goal=goal, needs_gpu=True)


def one(name, job, device, rounds, say):
    taken = {level: [] for level in LEVELS}
    for level in LEVELS:  # caches warm, the first time is not taken
        job.seconds(level, 1)
    for _ in range(rounds):
        for level in LEVELS:
            taken[level].append(job.step(level))
    prefix = "" if device == "host" else "softgpu_"
    for level in LEVELS:
        say(metric=f"{prefix}{name}_{level}_step", unit="ms", samples=[1e3 * s for s in taken[level]])
    for level, goal in GOALS.items():
        figure = {"metric": f"{prefix}{name}_{level}_slowdown", "unit": "ratio",
                  "samples": [a / b for a, b in zip(taken[level], taken["alone"])],
                  "value": statistics.median(taken[level]) / statistics.median(taken["alone"])}
        say(**figure, **({"goal": goal} if device == "host" else {}))


def measure(device, quick, say):
    """measure - prints through @say; lines that need a GPU say so where there is none"""
    reason = gpu.why_no_gpu() if device == "host" else None
    folder = tempfile.mkdtemp()
    try:
        for name, make in (("cuda_gpt", cuda_gpt), ("torch_gpt", torch_gpt)):
            job = make(device, folder) if not reason else None
            if isinstance(job, str):
                say(note=f"{name} left out: {job}")
            elif reason:
                needs_gpu(name, say)
            elif quick and name == "torch_gpt":
                say(note="quick: torch_gpt is left out")
            else:
                one(name, job, device, 1 if quick else ROUNDS, say)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
