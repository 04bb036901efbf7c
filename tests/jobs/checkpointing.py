"""Activation checkpointing: forward operators run again, with the old RNG state, inside backward."""

import torch
from common import save, toy_batch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.2)) for _ in range(3)])
        self.last = nn.Linear(32, 4)

    def forward(self, x):
        x = self.first(x)
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=i == 1)
        return self.last(x)


if __name__ == "__main__":
    torch.manual_seed(8)
    model = Deep()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(3):
        x, y = toy_batch()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
    save("weights.bin", model.parameters())
