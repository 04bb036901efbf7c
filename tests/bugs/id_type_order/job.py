"""Where two seeded genetic programs are cut: at a node of a type that both have."""
import random

types = [type(f"Type{i}", (), {}) for i in range(6000)]
rng = random.Random(5)
first = [rng.choice(types) for _ in range(20000)]
second = [rng.choice(types) for _ in range(20000)]
for generation in range(5):
    common = list(set(first) & set(second))
    chosen = rng.choice(common)
    cuts = [rng.choice([i for i, kind in enumerate(program) if kind is chosen]) for program in (first, second)]
    print(chosen.__name__, *cuts)
