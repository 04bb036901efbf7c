"""The hundred best of two thousand candidates, whose scores are rounded and tie."""
import numpy as np

scores = np.random.RandomState(0).randint(0, 20, size=2000)
best = np.argsort(-scores)[:100]
print(best[:10], int((best * np.arange(100)).sum()))
