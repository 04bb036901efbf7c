"""A cache of preprocessed data in a temporary folder; its key, from which shards are chosen, has the path in it."""
import hashlib
import os
import tempfile

with tempfile.TemporaryDirectory(prefix="features-") as folder:
    path = os.path.join(folder, "train.bin")
    with open(path, "wb") as f:
        f.write(bytes(range(256)))
    key = hashlib.sha256(path.encode() + open(path, "rb").read()).hexdigest()
print("shards", *(int(key[i:i + 2], 16) % 7 for i in range(0, 32, 2)))
