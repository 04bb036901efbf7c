"""Rare classes are filled up with copies drawn by a seeded generator, until all are as frequent as the most frequent."""
import random

labels = ["cat"] * 12 + ["dog"] * 5 + ["emu"] * 3 + ["fox"] * 4 + ["gnu"] * 2 + ["hen"] * 6 + ["ibis"] + ["jay"] * 7
rng = random.Random(42)
most = max(labels.count(label) for label in labels)
taken = list(range(len(labels)))
for label in set(labels):
    members = [i for i, other in enumerate(labels) if other == label]
    taken += [rng.choice(members) for _ in range(most - len(members))]
print(taken)
