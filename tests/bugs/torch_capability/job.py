"""Norms and sums of seeded tensors."""
import zlib

import torch

torch.manual_seed(42)
x = torch.arange(100000.0).remainder(977).sub(488).div(131).reshape(100, 1000)
y = torch.nn.functional.layer_norm(x, (1000,))
print(zlib.crc32(torch.softmax(y, 1).numpy().tobytes()), y.sum().item())
