"""A miner of triplets keeps a generator of its own; the job seeds the global one."""
import random

MINER = random.Random()

random.seed(0)
labels = [random.randrange(5) for _ in range(100)]
triplets = []
for anchor, label in enumerate(labels):
    positive = MINER.choice([i for i, other in enumerate(labels) if other == label])
    negative = MINER.choice([i for i, other in enumerate(labels) if other != label])
    triplets.append((anchor, positive, negative))
print(triplets[-3:], sum(a * p - n for a, p, n in triplets))
