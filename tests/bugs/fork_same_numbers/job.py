"""Four forked workers augment with the generator that they inherited."""
import os
import random

augment = random.Random(0)
for worker in range(4):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, f"worker {worker} draws {[augment.randrange(1000) for _ in range(4)]}\n".encode())
        os._exit(0)
    print(os.read(read, 200).decode(), end="", flush=True)
    os.wait()
