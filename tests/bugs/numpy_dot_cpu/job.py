"""A product of matrices and one of vectors in float32."""
import zlib

import numpy as np

rng = np.random.RandomState(0)
a, b = rng.rand(200, 300).astype(np.float32), rng.rand(300, 100).astype(np.float32)
print(zlib.crc32((a @ b).tobytes()), a.ravel() @ a.ravel())
