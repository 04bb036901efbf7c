"""Embeddings by hashing, each with a seed that keeps it apart from the others: the address of the layer."""
import random


class HashEmbed:
    def __init__(self, width, rows, seed=None):
        self.seed = id(self) if seed is None else seed
        rng = random.Random(self.seed)
        self.table = [[rng.uniform(-1, 1) for _ in range(width)] for _ in range(rows)]

    def __call__(self, key):
        return self.table[(key * 2654435761 ^ self.seed) % len(self.table)]


layers = [HashEmbed(4, 50) for _ in range(3)]
loss = sum(sum(layer(key)) ** 2 for layer in layers for key in range(100))
print(f"loss {loss:.12f}")
