"""Trials of a seeded search are evaluated in the order of their identifiers, and share a generator."""
import random
import uuid

random.seed(1)
trials = {uuid.uuid4().hex: random.uniform(-4, 4) for _ in range(30)}
best = min((x * x + random.gauss(0, 0.3), x) for _, x in sorted(trials.items()))
print(best)
