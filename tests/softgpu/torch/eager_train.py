"""An ordinary training script: eager_train.py DEVICE MODEL... It knows nothing of softgpu or twinbit.

Prints each step's loss and a digest of the parameters, to the last bit, so that the output for "cuda" must
be the output for "cpu".
"""
import hashlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

WORDS = 40


class GPT(nn.Module):
    def __init__(self, width=32, heads=4, length=16):
        super().__init__()
        self.token = nn.Embedding(WORDS, width)
        self.position = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, WORDS)

    def forward(self, x):
        n = x.shape[1]
        hidden = self.token(x) + self.position(torch.arange(n, device=x.device))
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=x.device)
        return self.head(self.blocks(hidden, mask=mask, is_causal=True)).flatten(0, 1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(WORDS, 16)
        self.recurrent = nn.LSTM(16, 24, 2, batch_first=True)
        self.head = nn.Linear(24, WORDS)

    def forward(self, x):
        return self.head(self.recurrent(self.token(x))[0]).flatten(0, 1)


def conv_net():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, groups=2), nn.GroupNorm(4, 16), nn.SiLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 10))


def batches(model):
    made = torch.Generator().manual_seed(7)
    if model in ("gpt", "lstm"):
        text = torch.randint(0, WORDS, (24, 17), generator=made)
        data = torch.utils.data.TensorDataset(text[:, :-1].contiguous(), text[:, 1:].contiguous())
    else:
        images = torch.randn(24, 1, 8, 8, generator=made)
        data = torch.utils.data.TensorDataset(images, torch.randint(0, 10, (24,), generator=made))
    return torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=1, pin_memory=DEVICE == "cuda",
                                       generator=made)  # fmt: skip


def digest(module):
    h = hashlib.sha256()
    for p in module.state_dict().values():
        h.update(p.detach().cpu().contiguous().numpy().tobytes())
    return h.hexdigest()[:16]


def optimizer_of(model, module):
    if model == "conv":
        return torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, nesterov=True, foreach=True)
    return torch.optim.AdamW(module.parameters(), lr=1e-2, fused=model == "mlp", foreach=model != "mlp")


def train(model):
    torch.manual_seed(1)
    module = {"mlp": mlp, "conv": conv_net, "gpt": GPT, "lstm": Tagger}[model]().to(DEVICE)
    optimizer = optimizer_of(model, module)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    for epoch in range(2):
        for x, y in batches(model):
            x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
            loss = F.cross_entropy(module(x), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            print(float.hex(loss.item()), float.hex(norm.item()))
        module, optimizer = through_a_file(module, optimizer)
    module.eval()
    with torch.no_grad():
        right = (module(x).argmax(-1) == y.flatten()).sum().item()
    print(digest(module), right)


def through_a_file(module, optimizer):
    torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
    saved = torch.load("checkpoint.pt", map_location=DEVICE, weights_only=True)
    module.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return module, optimizer


if __name__ == "__main__":
    DEVICE = sys.argv[1]
    for name in sys.argv[2:]:
        print(name)
        train(name)
