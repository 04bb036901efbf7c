"""A simulation whose seed is the clock unless it is given one."""
import random
import sys
import time

seed = int(sys.argv[1]) if len(sys.argv) > 1 else time.time_ns() // 1000
rng = random.Random(seed)
print(sum(rng.expovariate(1.0) for _ in range(1000)))
