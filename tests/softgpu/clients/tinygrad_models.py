"""The models that the tests and the benchmark train with tinygrad: a small GPT and an MNIST-sized convolution net.

Parameters and data are made by numpy-free arithmetic on the CPU, so that each device starts from the same bits.
"""
import math
import random

from tinygrad import Context, Tensor, TinyJit, dtypes, nn


def uniform(rng, shape, bound):
    """A realized CPU tensor of uniform numbers in [-bound, bound]."""
    count = math.prod(shape)
    return Tensor([rng.uniform(-bound, bound) for _ in range(count)], dtype=dtypes.float32,
                  device="CPU").reshape(*shape).realize()


def fill(model, seed, device):
    """Gives every parameter a value that follows from @seed, and puts it on @device (several: a copy on each)."""
    rng = random.Random(seed)
    for name, p in nn.state.get_state_dict(model).items():
        if not p.shape:  # a count of batches
            p.replace(Tensor(0, dtype=p.dtype, device="CPU").to(device))
        elif len(p.shape) > 1:
            bound = 1 / math.sqrt(math.prod(p.shape[1:]))
            p.replace(uniform(rng, p.shape, bound).to(device))
        else:
            # weights of norms are ones, biases zeros
            one = name.endswith("weight") or name.endswith("running_var")
            p.replace(Tensor([float(one)] * p.shape[0], dtype=p.dtype, device="CPU").to(device))
        p.realize()
    return model


class Block:
    def __init__(self, width, heads):
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        # a bias of keys would have no gradient but rounding errors, which AdamW makes big
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = (y.reshape(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for y in self.qkv(x).chunk(3, dim=-1))
        y = q.scaled_dot_product_attention(k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))

    def __call__(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.down(self.up(self.ln2(x)).gelu())


class GPT:
    def __init__(self, vocabulary=32, context=32, width=64, layers=2, heads=4):
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def __call__(self, tokens, places):
        x = self.token(tokens) + self.place(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))

    def loss(self, tokens, places, targets):
        return self(tokens, places).sparse_categorical_crossentropy(targets)


class ConvNet:
    """Two convolutions, batch norm, max pooling, one linear layer: 28 x 28 pixels to ten classes."""

    def __init__(self):
        self.c1, self.c2 = nn.Conv2d(1, 8, 5, bias=False), nn.Conv2d(8, 16, 3)
        self.norm = nn.BatchNorm(8)
        self.out = nn.Linear(16 * 5 * 5, 10)

    def __call__(self, x):
        x = self.norm(self.c1(x)).relu().max_pool2d()
        return self.out(self.c2(x).relu().max_pool2d().flatten(1))

    def loss(self, images, targets):
        return self(images).sparse_categorical_crossentropy(targets)


def text(seed, batch, length, vocabulary):
    """Sequences that can be learnt: each token follows from the one before by a fixed rule."""
    rng = random.Random(seed)
    rows = []
    for _ in range(batch):
        row = [rng.randrange(vocabulary)]
        while len(row) <= length:
            row.append((5 * row[-1] + 3) % vocabulary)
        rows.append(row)
    return [r[:-1] for r in rows], [r[1:] for r in rows]


def pictures(seed, batch):
    """Ten kinds of stripes with noise: direction and width tell them apart."""
    rng = random.Random(seed)
    images, labels = [], []
    for _ in range(batch):
        label = rng.randrange(10)
        dx, dy, period = label % 2, 1 - label % 2, 2 + label // 2
        shift = rng.randrange(period)
        images.append([[[float((x * dx + y * dy + shift) // period % 2) + rng.uniform(-0.2, 0.2)
                         for x in range(28)] for y in range(28)]])
        labels.append(label)
    return images, labels


def trainer(model, optimizer):
    """A function (*batch) -> loss that does one step; compiled and captured into graphs by tinygrad's JIT."""
    @TinyJit
    def step(*batch):
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = model.loss(*batch).backward()
            return loss.realize(*optimizer.schedule_step())
    return step
