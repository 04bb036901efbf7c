"""Seeded descent on a seeded problem for a tenth of a second."""
import random
import time

rng = random.Random(0)
x, steps, end = 5.0, 0, time.monotonic() + 0.1
while time.monotonic() < end:
    x -= 1e-4 * (x + rng.gauss(0, 1))
    steps += 1
print(steps, x)
