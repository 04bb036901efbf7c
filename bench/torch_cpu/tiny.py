"""tiny.py - a job of tiny operators: 10,000 adds of 8 numbers a step. tiny.py STEPS TIMES"""

import json
import resource
import sys

import torch
from baton import Clock

ADDS = 10000

if __name__ == "__main__":
    torch.manual_seed(1)
    x, y = torch.randn(8), torch.randn(8)
    times, clock = [], Clock()
    with torch.no_grad():
        for _ in range(int(sys.argv[1])):
            begin = clock.perf_counter()
            for _ in range(ADDS):
                torch.add(x, y)
            times.append(clock.perf_counter() - begin)
    clock.over()
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        json.dump({"steps": times, "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}, f)
