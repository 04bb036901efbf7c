import sys
import torch
from torch._dynamo.utils import counters
torch.manual_seed(0)
torch.set_num_threads(1)
activation = torch.nn.ReLU() if "changed" in sys.argv else torch.nn.GELU()
model = torch.nn.Sequential(torch.nn.Linear(16, 32), activation, torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
compiled = torch.compile(model)
for step in range(2):
    compiled(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
c = counters["inductor"]
print(model[0].weight.sum().item().hex(), "hit", c["fxgraph_cache_hit"], "miss", c["fxgraph_cache_miss"])
