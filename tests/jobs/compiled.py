"""torch.compile on the CPU (Inductor's C++ kernels), with the counters of graph breaks and recompilations."""

import torch
from common import save, toy_batch, toy_model
from torch._dynamo.utils import counters
from torch import nn

if __name__ == "__main__":
    torch.manual_seed(7)
    model = toy_model()
    fast = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x, y = toy_batch()
        loss = nn.functional.cross_entropy(fast(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
    print("graphs", counters["stats"]["unique_graphs"], "breaks", sum(counters["graph_break"].values()),
          "recompilations", sum(counters["recompiles"].values()))
    save("weights.bin", model.parameters())
