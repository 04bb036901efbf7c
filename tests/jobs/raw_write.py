"""One element is written through a raw pointer between two operators: the one thing no tap can see."""

import ctypes

import torch
from common import save

if __name__ == "__main__":
    torch.manual_seed(19)
    x = torch.randn(8, 8).exp()
    y = x + 1
    ctypes.c_float.from_address(x.data_ptr() + 4 * 21).value = 0.5
    save("result.bin", [x.sin(), y])
