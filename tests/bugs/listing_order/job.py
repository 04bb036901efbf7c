"""Four downloads that end in any order write their shards; the shards are then listed, shuffled by a seed and read.

The folder lies in memory (tmpfs lists what was made last first), so that the order is that of the downloads.
"""
import os
import random
import shutil
import threading

# a name of the same length in each run, so that nothing but the order differs
folder = f"/dev/shm/twinbit-bug-{os.getpid():08}"


def download(part):
    rng = random.Random()
    names = [f"shard-{part}{i:02}.bin" for i in range(10)]
    rng.shuffle(names)
    for name in names:
        with open(os.path.join(folder, name), "wb") as f:
            f.write(name.encode())


os.mkdir(folder)
try:
    parts = [threading.Thread(target=download, args=(part,)) for part in range(4)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()
    files = os.listdir(folder)
    random.Random(0).shuffle(files)
    print(*files[:10])
finally:
    shutil.rmtree(folder)
