"""Fits a line with tinygrad on CUDA: a job of few kernels, eager in its first steps, a CUDA graph from the third on.

usage: DEV=CUDA:PTX tinygrad_fit.py [DATA-SEED]    prints a loss a step
"""
import random
import sys

from tinygrad import Tensor, TinyJit

try:
    from twinbit import step as end_step
except ImportError:

    def end_step():
        """Not under twinbit."""


def main(seed):
    rng = random.Random(seed)
    points = [rng.uniform(-1, 1) for _ in range(64)]
    x = Tensor(points, device="CUDA").realize()
    y = Tensor([3 * p - 1 + rng.uniform(-0.1, 0.1) for p in points], device="CUDA").realize()
    line = Tensor([0.0, 0.0], device="CUDA").realize()

    @TinyJit
    def fit(line):
        error = line[0] * x + line[1] - y
        better = line - 0.3 * Tensor.stack((error * x).mean(), error.mean())
        return better.realize(), error.square().mean().realize()

    for _ in range(5):
        line, loss = (t.clone().realize() for t in fit(line))
        print(f"loss {loss.item():.9f}", flush=True)
        end_step()
    print("line", *line.tolist())


main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
