"""A DataLoader with 2 forked workers that augment with torch, NumPy and Python randomness."""

import random

import numpy
import torch
from common import save, toy_model
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self, n):
        self.x = torch.randn(n, 16)
        self.y = torch.randint(4, (n,))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        noise = torch.randn(16) * 0.1
        shift = torch.from_numpy(numpy.random.rand(16).astype("float32"))
        return self.x[i] + noise + shift * random.random(), self.y[i]


def seed_worker(worker):
    numpy.random.seed(torch.initial_seed() % 2**32)
    random.seed(torch.initial_seed())


if __name__ == "__main__":
    torch.manual_seed(3)
    model = toy_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(4)
    loader = DataLoader(Noisy(128), batch_size=32, shuffle=True, num_workers=2,
                        worker_init_fn=seed_worker, generator=generator)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"loss {loss.item():.9f}")
    save("weights.bin", model.parameters())
