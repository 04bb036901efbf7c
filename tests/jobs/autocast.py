"""bf16 autocast on the CPU, with gradient accumulation and a learning rate schedule."""

import torch
from common import save, toy_batch, toy_model
from torch import nn

if __name__ == "__main__":
    torch.manual_seed(9)
    model = toy_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    for step in range(4):
        for _ in range(2):
            x, y = toy_batch()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y) / 2
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        schedule.step()
        print(f"step {step} loss {loss.item():.9f} lr {schedule.get_last_lr()[0]:.9f}")
    save("weights.bin", model.parameters())
