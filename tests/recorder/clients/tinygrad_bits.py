"""Trains a model of tests/softgpu/clients with tinygrad on CUDA alone, and prints all bits that come out.

usage: DEV=CUDA:PTX tinygrad_bits.py gpt|conv|tiny [STEPS [DEVICES]]    as tinygrad_train.py, which compares with the CPU
"""
import hashlib
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../softgpu/clients"))
import tinygrad_train

try:
    from twinbit import step as end_step
except ImportError:

    def end_step():
        """Not under twinbit."""


def with_steps(step):
    """@step, and its end in the trace."""
    def stepped(*batch):
        loss = step(*batch).realize()
        end_step()
        return loss
    return stepped


def main(kind, steps=3, devices=1):
    reason = tinygrad_train.why_not()
    if reason:
        print(reason)
        return 77
    launches = tinygrad_train.count_launches()
    trainer = tinygrad_train.models.trainer
    tinygrad_train.models.trainer = lambda *args: with_steps(trainer(*args))
    device = "CUDA" if int(devices) == 1 else tuple(f"CUDA:{i}" for i in range(int(devices)))
    losses, state = tinygrad_train.train(kind, int(steps), device)
    bits = hashlib.sha256()
    for name, values in sorted(state.items()):
        bits.update(name.encode() + struct.pack(f"{len(values)}f", *values))
    for loss in losses:
        print(f"loss {loss:.9f}")
    print(f"{launches[0]} graph launches, parameters {bits.hexdigest()[:16]}")
    assert launches[0] >= int(steps) - 2, "no CUDA graphs"
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
