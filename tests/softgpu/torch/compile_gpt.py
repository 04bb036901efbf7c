"""A GPT's whole training step by torch.compile, on the software device: compile_gpt.py [fp32] [bf16] [dropout] [graphs]

Model, loss, backward pass and AdamW are Triton kernels; the loss of each step is compared with the CPU's, which
computes the same step eagerly. How far they may be apart is in BOUNDS.
"""
import copy
import sys

import torch
import torch._inductor.config as inductor
from torch import nn
from torch.nn import functional as F

# cuBLAS cannot run, and one GEMM variant is enough: each is compiled and timed
inductor.max_autotune_gemm = True
inductor.max_autotune_gemm_backends = "TRITON"
inductor.test_configs.max_mm_configs = 1
inductor.compile_threads = 1

WORDS, LENGTH, WIDTH, HEADS, STEPS = 48, 16, 32, 2, 4
BOUNDS = {"fp32": 2e-5, "bf16": 1e-2, "graphs": 2e-5}  # of the loss, relative


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.dropout = dropout
        self.register_buffer("past", torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool)))

    def attention(self, x):
        b, n, _ = x.shape
        q, k, v = self.attend(x).view(b, n, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * (WIDTH // HEADS) ** -0.5
        weights = torch.softmax(scores.masked_fill(~self.past[:n, :n], -1e30), -1)
        weights = F.dropout(weights, self.dropout, self.training)
        return self.project((weights @ v).transpose(1, 2).reshape(b, n, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + F.dropout(self.down(F.gelu(self.up(self.second(x)))), self.dropout, self.training)


class GPT(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.word, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, x, y):
        hidden = self.word(x) + self.place.weight[: x.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        return F.cross_entropy(self.head(self.norm(hidden)).flatten(0, 1), y.flatten())


def train(model, device, batches, amp=False, compiled=False, mode=None):
    model = copy.deepcopy(model).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    forward, update = model, optimizer.step
    if compiled:
        forward = torch.compile(model, mode=mode, fullgraph=True)
        update = torch.compile(optimizer.step)
    losses = []
    for n, (x, y) in enumerate(batches):
        if n == 2:  # all is compiled
            before = eager_calls()
        if mode:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=amp):
            loss = forward(x.to(device), y.to(device))
        loss.backward()
        update()
        optimizer.zero_grad()
        losses.append(loss.item())
    if compiled:
        only_kernels_of_its_own(before)
    return losses


def eager_calls():
    eager = sys.modules.get("twinbit.eager")
    return eager.calls() if eager else {}


def only_kernels_of_its_own(before):
    """Since @before nothing of weight was done by eager operators: a gradient of one, a seed, a cleared gradient."""
    small = {"aten::fill_.Scalar", "aten::random_.from", "aten::_foreach_copy_", "aten::copy_"}
    more = {k for k, v in eager_calls().items() if v != before.get(k, 0)}
    assert more <= small, more - small


def compare(name, model, batches, **options):
    got = train(model, "cuda", batches, compiled=True, **options)
    want = train(model, "cpu", batches, amp=options.get("amp", False))
    error = max(abs(a - b) / b for a, b in zip(got, want))
    assert error <= BOUNDS[name], (name, got, want)
    assert want[-1] < want[0]
    print(f"{name} ok: loss {got[0]:.5f} to {got[-1]:.5f}, at most {error:.1e} from the CPU's", flush=True)


def dropout(batches):
    """Masks are the device's own numbers: they repeat with the seed, and the loss falls all the same."""
    torch.manual_seed(1)
    model = GPT(0.2)
    runs = []
    for seed in 5, 5, 6:
        torch.manual_seed(seed)
        runs.append(train(model, "cuda", batches, compiled=True))
    assert runs[0] == runs[1] and runs[0] != runs[2], runs
    plain = train(model.eval(), "cpu", batches)
    assert runs[0][0] != plain[0] and abs(runs[0][0] - plain[0]) < 0.3 and runs[0][-1] < runs[0][0], (runs, plain)
    print("dropout ok: loss", runs[0], flush=True)


def main(names):
    torch.manual_seed(0)
    text = torch.randint(0, WORDS, (2, LENGTH + 1))
    batches = [(text[:, :-1].contiguous(), text[:, 1:].contiguous())] * STEPS
    model = GPT(0.0)
    for name in names:
        torch.compiler.reset()
        if name == "dropout":
            dropout(batches)
        else:
            compare(name, model, batches, amp=name == "bf16", mode="reduce-overhead" if name == "graphs" else None)


if __name__ == "__main__":
    main(sys.argv[1:] or ["fp32", "bf16", "graphs", "dropout"])
