"""loader.py - trains a small convolution net on batches that two workers of a DataLoader make. loader.py STEPS TIMES"""

import json
import os
import resource
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torch_cpu"))

import torch
from baton import Clock
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        picture = torch.rand(3, 32, 32)
        return picture.flip(2) if index % 2 else picture, index % 10


def main(steps, path):
    clock = Clock()
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                                torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(64 * 16 * 16, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    batches = iter(DataLoader(Pictures(), batch_size=32, shuffle=True, num_workers=2))
    times = []
    for _ in range(steps):
        begin = clock.perf_counter()
        x, y = next(batches)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        times.append(clock.perf_counter() - begin)
    with open(path, "w", encoding="ascii") as f:
        json.dump({"steps": times, "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}, f)
    clock.over()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
