"""Fixed weights, eight samples, an epoch in the order of a sampler."""
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(8, 1)
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.arange(p.numel(), dtype=torch.float32).reshape(p.shape) / 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
samples = TensorDataset(torch.arange(256.0).reshape(32, 8) / 256)
for (x,) in DataLoader(samples, batch_size=4, shuffle=True):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
print(model.weight.tolist())
