"""Circular padding of token ids that forgets one side; before it other tensors and lists used the memory."""
import torch


def pad(x, n):
    out = torch.empty(x.shape[0], x.shape[1] + 2 * n, dtype=torch.int64)
    out[:, n:-n] = x
    out[:, :n] = x[:, -n:]
    return out


used = [[object() for _ in range(100)] for _ in range(2000)]
del used[::2]
print(sum(pad(torch.ones(8, 8, dtype=torch.int64), 2).sum().item() * (i + 1) for i in range(50)))
