"""Operators whose results are compared between the host and a device."""
import torch


def values(device):
    """Operators on all kinds of layouts; on "cpu" and "cuda" they write the same (asks_check.py compares)."""
    x = torch.arange(24.0, device=device).reshape(4, 6)
    x.t().mul_(2)
    x[1:, ::2].add_(1)
    x.expand(2, 4, 6).sum(0)
    torch.empty(3, 0, device=device).add_(1)
    c = torch.ones(3, dtype=torch.complex64, device=device) * 2j
    c.conj().resolve_conj()
    c.imag.neg_()
    x.double().to(torch.bfloat16)
    torch.ones(2, 3, 4, 4, device=device).to(memory_format=torch.channels_last).mul_(3)
    torch._foreach_add_([x[0], x[2]], 1.5)
    torch.sort(x, dim=1)
    (x > 3).any()
    torch.ones((), device=device) - 1
    x.as_strided((3, 3), (1, 2)).cos()  # it overlaps itself
