"""NumPy writes into memory that a tensor shares: legal, and unseen."""

import torch
from common import save

if __name__ == "__main__":
    torch.manual_seed(21)
    x = torch.zeros(16) + 1
    x.numpy()[3] = 7
    save("result.bin", [x * 2])
