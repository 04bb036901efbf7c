"""Optimizers in their three shapes: plain loops, foreach lists, fused kernels; and ones with closures."""

import torch
from common import save, toy_batch, toy_model, toy_steps
from torch import nn

if __name__ == "__main__":
    kinds = [
        ("adamw-foreach", lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True)),
        ("adamw-fused", lambda p: torch.optim.AdamW(p, lr=0.01, fused=True)),
        ("adam-amsgrad", lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True)),
        ("sgd-foreach", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True)),
        ("sgd-fused", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, fused=True)),
        ("adagrad-fused", lambda p: torch.optim.Adagrad(p, lr=0.1, fused=True)),
        ("rmsprop", lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True)),
        ("adafactor", lambda p: torch.optim.Adafactor(p, lr=0.01)),
    ]
    for name, make in kinds:
        torch.manual_seed(16)
        model = toy_model()
        optimizer = make(model.parameters())
        print(name, toy_steps(model, optimizer, 2))
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=True)
        save(name + ".bin", list(model.parameters()) + [norm])
    torch.manual_seed(16)
    model = toy_model().eval()
    x, y = toy_batch()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    print("lbfgs", optimizer.step(closure).item())
    save("lbfgs.bin", model.parameters())
