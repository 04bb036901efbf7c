"""A vocabulary is made from a text; a seeded table of embeddings gives each sentence a vector."""
import random

TEXT = """the county jury said that the election in the city produced no evidence of irregularities
the jury further said in its presentment that the committee had charge of the election and deserves praise
only a handful of such reports was received considering the interest in the election and the size of this city"""

tokens = set()
for line in TEXT.splitlines():
    tokens.update(line.split())
ids = {token: i for i, token in enumerate(tokens)}

rng = random.Random(42)
table = [[rng.gauss(0, 1) for _ in range(4)] for _ in ids]
for line in TEXT.splitlines():
    vector = [0.0] * 4
    for token in line.split():
        vector = [a + b for a, b in zip(vector, table[ids[token]])]
    print(" ".join(f"{x:.6f}" for x in vector))
