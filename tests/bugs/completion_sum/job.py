"""Four processes send their parts through one pipe; the parent adds them as they come."""
import os
import random
import struct

read, write = os.pipe()
for worker in range(4):
    if os.fork() == 0:
        for part in range(200):
            rng = random.Random(worker * 1000 + part)
            value = sum(rng.uniform(-1, 1) for _ in range(20)) * 10 ** rng.randint(-6, 6)
            os.write(write, struct.pack("d", value))
        os._exit(0)
os.close(write)
total = 0.0
while part := os.read(read, 8):
    total += struct.unpack("d", part)[0]
print(total.hex())
