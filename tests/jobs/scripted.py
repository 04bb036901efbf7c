"""TorchScript: a scripted module, torch.jit.fork, and a traced function."""

import warnings

import torch
from common import save, toy_batch
from torch import nn


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        future = torch.jit.fork(self.first, x)
        y = x * 2.0
        return self.second(torch.relu(torch.jit.wait(future) + y))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.manual_seed(18)
    model = torch.jit.script(Twice())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x, y = toy_batch()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
    traced = torch.jit.trace(lambda a: (a.sin() + 1).sum(0), torch.randn(3, 4))
    save("weights.bin", list(model.parameters()) + [traced(torch.randn(5, 4))])
