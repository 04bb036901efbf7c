"""job.py - a job of four steps for tests of the command line; with "odd", step 2 differs from run to run."""
import os
import sys

import torch

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(32, 8)
    if step == 2 and "odd" in sys.argv:
        x = x * (1 + int.from_bytes(os.urandom(3), "little") / 2**30)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
