"""A seeded random search whose parameters are kept in a set."""
import random

PARAMETERS = {f"{layer}.{what}": (low, high) for layer in ("embed", "block0", "block1", "block2", "head")
              for what, low, high in (("rate", 1e-5, 1e-1), ("width", 8, 512), ("dropout", 0.0, 0.9), ("decay", 0, 1))}


def suggest(rng, names):
    return {name: rng.uniform(*PARAMETERS[name]) for name in names}


rng = random.Random(7)
best = None
for trial in range(20):
    point = suggest(rng, set(PARAMETERS))
    loss = sum((point[name] - sum(PARAMETERS[name]) / 3) ** 2 for name in sorted(point))
    if best is None or loss < best[0]:
        best = loss, trial
print(best)
