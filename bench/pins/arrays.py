"""arrays.py - NumPy: draws, products, sorts and sets of names, which hash seeds order. arrays.py STEPS TIMES"""

import json
import os
import random
import resource
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torch_cpu"))

import numpy as np
from baton import Clock


def step(weights):
    x = np.random.rand(256, 512)
    y = np.tanh(x @ weights)
    order = np.argsort(y.sum(1))
    names = {f"{random.random():.6f}" for _ in range(2000)}
    return y[order].T @ x / 256, sorted(names)[0]


def main(steps, path):
    clock = Clock()
    weights = np.zeros((512, 512))
    times = []
    for _ in range(steps):
        begin = clock.perf_counter()
        for _ in range(4):
            gradient, _ = step(weights)
            weights -= 0.01 * gradient.T @ gradient
        times.append(clock.perf_counter() - begin)
    with open(path, "w", encoding="ascii") as f:
        json.dump({"steps": times, "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}, f)
    clock.over()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
