"""Started with `python -I -S`: no environment, no site module. isolated.py OUT FOLDER..."""

import os
import sys

sys.path += [os.path.dirname(os.path.abspath(__file__))] + sys.argv[2:]

import torch
from common import save, toy_model, toy_steps

if __name__ == "__main__":
    torch.manual_seed(25)
    model = toy_model()
    print(toy_steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 2))
    save("weights.bin", model.parameters())
