"""Cross entropy of a thousand rows in float64."""
import zlib

import numpy as np

rows = np.random.RandomState(0).normal(size=(1000, 10)) * 4
loss = np.log(np.exp(rows).sum(axis=1)) - rows[:, 0]
print(zlib.crc32(loss.tobytes()), loss.mean())
