"""Trains a small GPT with tinygrad on CUDA, and prints a checksum of all its bits.

usage: DEV=CUDA:PTX train.py [--steps N] [--seed N] [--data-seed N] [--atomics]

Nothing here knows of twinbit but end_step(), which ends a step in a trace and does nothing without twinbit. With
--atomics the gradient of the embedding is summed in the order in which blocks come: runs differ by chance then.
"""
import argparse
import hashlib
import math
import random

from tinygrad import Context, Device, Tensor, TinyJit, nn

import atomics

try:
    from twinbit import step as end_step
except ImportError:

    def end_step():
        """Not under twinbit."""


# Loops of 32 or fewer are unrolled by tinygrad, which takes long; so nothing that is summed over is that short.
VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 40, 40, 80, 2, 1, 2


class Block:
    def __init__(self):
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        # a bias of keys would have no gradient but rounding errors, which AdamW makes big
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = (y.reshape(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        y = q.scaled_dot_product_attention(k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))

    def __call__(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.down(self.up(self.ln2(x)).gelu())


class GPT:
    def __init__(self, use_atomics):
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.ln, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.use_atomics = use_atomics

    def __call__(self, tokens, places):
        x = atomics.look_up(self.token.weight, tokens) if self.use_atomics else self.token(tokens)
        x = x + self.place(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def fill(model, seed):
    """Parameters that follow from @seed: uniform matrices; gains of one, biases of zero."""
    rng = random.Random(seed)
    for name, p in nn.state.get_state_dict(model).items():
        count, bound = math.prod(p.shape), 1 / math.sqrt(p.shape[-1])
        if len(p.shape) > 1:
            values = [rng.uniform(-bound, bound) for _ in range(count)]
        else:
            values = [float(name.endswith("weight"))] * count
        p.replace(Tensor(values, device="CUDA").reshape(*p.shape)).realize()


def batch(seed):
    """Tokens, places and targets: each token follows from the one before by a fixed rule."""
    rng = random.Random(seed)
    rows = []
    for _ in range(BATCH):
        row = [rng.randrange(VOCABULARY)]
        while len(row) <= CONTEXT:
            row.append((5 * row[-1] + 3) % VOCABULARY)
        rows.append(row)
    columns = [r[:-1] for r in rows], [list(range(CONTEXT))] * BATCH, [r[1:] for r in rows]
    return [Tensor(c, device="CUDA").realize() for c in columns]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data-seed", type=int, default=100)
    parser.add_argument("--atomics", action="store_true")
    args = parser.parse_args()
    if args.atomics and "PTX" not in type(Device["CUDA"].renderer).__name__:
        parser.error("--atomics is a kernel in PTX: set DEV=CUDA:PTX")
    model = GPT(args.atomics)
    fill(model, args.seed)
    parameters = nn.state.get_state_dict(model)
    optimizer = nn.optim.AdamW(list(parameters.values()), lr=3e-3)

    @TinyJit
    def train(tokens, places, targets):
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = model(tokens, places).sparse_categorical_crossentropy(targets).backward()
            return loss.realize(*optimizer.schedule_step())

    count = sum(math.prod(p.shape) for p in parameters.values())
    print(f"tinygrad_gpt: {LAYERS} layer, width {WIDTH}, {HEADS} heads, batch {BATCH} x {CONTEXT}, {count} parameters")
    for step in range(args.steps):
        loss = train(*batch(args.data_seed + step)).item()
        print(f"step {step} loss {loss:.6f}", flush=True)
        end_step()
    bits = hashlib.sha256()
    for name, p in sorted(parameters.items()):
        bits.update(name.encode() + bytes(p.data()))
    print(f"checksum parameters {bits.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
