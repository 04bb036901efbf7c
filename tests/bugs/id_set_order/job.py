"""Signals add up as a set of their sources hands them out."""
import random


class Signal:
    def __init__(self, value):
        self.value = value


rng = random.Random(1)
sources = {Signal(rng.uniform(-1, 1) * 10 ** rng.randint(-8, 8)) for _ in range(30000)}
total = 0.0
for source in sources:
    total = total / 3 + source.value
print(total.hex())
