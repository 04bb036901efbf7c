"""An environment that makes its own generator in a job that seeds the global one."""
import numpy as np


class Environment:
    def __init__(self):
        self.rng = np.random.default_rng()

    def reset(self):
        return self.rng.normal(size=4)


np.random.seed(1)
policy = np.random.normal(size=4)
environment = Environment()
print(sum(float(policy @ environment.reset()) for _ in range(20)))
