"""Linear regression on crops and noise that NumPy's global generator draws."""
import numpy as np

image = np.arange(4096, dtype=np.float64).reshape(64, 64) / 4096
weights = np.zeros(16 * 16)
for step in range(40):
    top, left = np.random.randint(0, 48, size=2)
    crop = image[top:top + 16, left:left + 16].ravel() + np.random.normal(0, 0.01, size=256)
    weights -= 0.001 * (weights @ crop - 1) * crop
print(weights[:4].tolist())
