"""A parent that starts a child through `env -i`: the child works too, and cannot be recorded."""

import os
import subprocess
import sys

import torch
from common import out_folder, save, toy_model, toy_steps

if __name__ == "__main__":
    torch.manual_seed(15)
    model = toy_model()
    print(toy_steps(model, torch.optim.SGD(model.parameters(), lr=0.1), 2), flush=True)
    save("weights.bin", model.parameters())
    if len(sys.argv) < 3:
        folder = os.path.join(out_folder(), "child")
        os.mkdir(folder)
        subprocess.run(["env", "-i", sys.executable, os.path.abspath(__file__), folder, "child"], check=True)
