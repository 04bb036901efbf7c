"""A small GPT in PyTorch on CUDA, under deterministic algorithms: torch_job.py eager|compile|graphs [--width N] [--layers N]
[--batch N] [--context N] [--steps N] [--triton] [--time]

Prints each step's loss to the last bit. graphs: torch.compile with CUDA graphs. --triton: for a device that runs no
other kernels, products by Triton, one variant of each, and not the deterministic algorithms, which are torch's own kernels.
--time: seconds of each step, measured to the device's end of it, on standard error, and losses at the end only. It knows
nothing of twinbit.
"""
import argparse
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        b, n, width = x.shape
        q, k, v = self.attend(self.first(x)).view(b, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5 + mask
        x = x + self.project((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, n, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    def __init__(self, words, width, layers, context):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, max(1, width // 64)) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)
        self.register_buffer("mask", torch.full((context, context), -1e30).triu(1))

    def forward(self, x, y):
        hidden = self.word(x) + self.place.weight
        for block in self.blocks:
            hidden = block(hidden, self.mask)
        return F.cross_entropy(self.head(self.norm(hidden)).flatten(0, 1), y.flatten())


def products_by_triton():
    import torch._inductor.config as inductor

    inductor.max_autotune_gemm = True
    inductor.max_autotune_gemm_backends = "TRITON"
    inductor.test_configs.max_mm_configs = 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["eager", "compile", "graphs"])
    for name, default in (("width", 128), ("layers", 2), ("batch", 8), ("context", 64), ("steps", 5), ("words", 256)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--triton", action="store_true")
    parser.add_argument("--time", action="store_true")
    a = parser.parse_args()
    if a.triton:
        products_by_triton()
    torch.use_deterministic_algorithms(not a.triton)
    torch.manual_seed(1)
    model = GPT(a.words, a.width, a.layers, a.context).to("cuda")
    text = torch.randint(0, a.words, (a.steps, a.batch, a.context + 1)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    forward = model
    if a.mode != "eager":
        forward = torch.compile(model, mode="reduce-overhead" if a.mode == "graphs" else None)
    losses = []
    for step in range(a.steps):
        begin = time.perf_counter()
        if a.mode == "graphs":
            torch.compiler.cudagraph_mark_step_begin()
        loss = forward(text[step, :, :-1].contiguous(), text[step, :, 1:].contiguous())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
        if a.time:
            torch.cuda.synchronize()
            print("seconds", time.perf_counter() - begin, file=sys.stderr, flush=True)
        else:
            print(step, loss.item().hex(), flush=True)
    if a.time:
        print("\n".join(loss.item().hex() for loss in losses))


if __name__ == "__main__":
    main()
