"""A job that seeds its own generator and forgets the one that its augmentations use."""
import random

weights = random.Random(2018)


def augment(sample):
    flipped = sample[::-1] if random.random() < 0.5 else sample
    return [x * random.uniform(0.9, 1.1) for x in flipped]


parameter = [weights.gauss(0, 1) for _ in range(8)]
for step in range(50):
    sample = augment([weights.random() for _ in range(8)])
    error = sum(p * x for p, x in zip(parameter, sample)) - 1
    parameter = [p - 0.01 * error * x for p, x in zip(parameter, sample)]
print(*(f"{p:.9f}" for p in parameter))
