"""common.py - what the jobs share: a toy model, toy data, and results written as raw bytes.

A job is a script `python JOB.py OUT`: deterministic, knows nothing of twinbit, writes its results into the
folder OUT. run_job.py lists all jobs and says what must hold for each.
"""

import hashlib
import os
import sys

import torch
from torch import nn


def out_folder():
    return sys.argv[1]


def save(name, tensors):
    """save - raw bytes of tensors (any dense CPU dtype), one after another, into OUT/name; prints their hash"""
    h = hashlib.sha256()
    with open(os.path.join(out_folder(), name), "wb") as f:
        for t in tensors:
            raw = t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            h.update(raw)
            f.write(raw)
    print(name, h.hexdigest(), flush=True)


def toy_model(width=32):
    return nn.Sequential(nn.Linear(16, width), nn.GELU(), nn.LayerNorm(width), nn.Dropout(0.1),
                         nn.Linear(width, 4))


def toy_batch(n=64):
    return torch.randn(n, 16), torch.randint(4, (n,))


def toy_steps(model, optimizer, steps=3):
    """toy_steps - train a few steps on random data; returns the losses"""
    losses = []
    for _ in range(steps):
        x, y = toy_batch()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
