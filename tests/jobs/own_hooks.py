"""A job with its own LD_PRELOAD, PYTHONPATH, sitecustomize and RUNPATHs: own_hooks.py OUT LIBOUTER."""

import ctypes
import os
import sys

import torch
from common import save, toy_model, toy_steps

if __name__ == "__main__":
    torch.manual_seed(24)
    model = toy_model()
    print(toy_steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 2))
    save("weights.bin", model.parameters())
    print("sitecustomize", os.environ.get("JOB_SITECUSTOMIZE"))
    print("preload", ctypes.CDLL(None).job_preload_marker())
    print("runpath", ctypes.CDLL(sys.argv[2]).job_open_inner())
    print("path", [p for p in os.environ["PYTHONPATH"].split(":") if p])
