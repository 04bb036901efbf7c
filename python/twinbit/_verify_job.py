"""The small job of ``twinbit pins --verify``: uses what pins take hold of, as far as it is installed.

Draws random numbers, multiplies matrices, trains two steps from a DataLoader with workers, in torch's eager mode alone.
Writes what it found into the file that is named by its one argument: a line "NAME VERSION" a package, "NAME -" for one
that is not there. It seeds nothing and sets nothing: every pin that is not as asked is twinbit's doing or the system's.
"""

from __future__ import annotations

import random
import sys


def _numpy():
    try:
        import numpy
    except ImportError:
        return "-"
    numpy.random.rand(4)
    numpy.random.default_rng().random(4)
    a = numpy.ones((64, 64))
    (a @ a).sum()
    return numpy.__version__


def _train(torch):
    from torch.utils.data import DataLoader, TensorDataset

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.arange(128.0).reshape(8, 16))
    for (x,) in DataLoader(data, batch_size=4, shuffle=True, num_workers=2):
        optimizer.zero_grad()
        model(x.to(device)).sum().backward()
        optimizer.step()
    return device


def _torch():
    try:
        import torch
    except ImportError:
        return "-", "-"
    device = _train(torch)
    return torch.__version__, torch.version.cuda or "-" if device == "cuda" else "-"


def main(path):
    random.random()
    numpy, (torch, cuda) = _numpy(), _torch()
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"numpy {numpy}\ntorch {torch}\ncuda {cuda}\n")


if __name__ == "__main__":
    main(sys.argv[1])
