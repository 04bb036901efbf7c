"""A job that closes every descriptor it did not open, as daemons do, and then trains on."""

import os

import torch
from common import save, toy_model, toy_steps

if __name__ == "__main__":
    torch.manual_seed(14)
    model = toy_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    print(toy_steps(model, optimizer, 2))
    os.closerange(3, 65536)
    print(toy_steps(model, optimizer, 2))
    save("weights.bin", model.parameters())
