"""Readers in threads hand their samples out as they are ready; the first thousand are a checksum of the order."""
import concurrent.futures
import random
import time
import zlib


def read(shard):
    rng = random.Random(shard)
    time.sleep(0.001 * (shard % 3))
    return shard, sum(rng.random() for _ in range(200 + 40 * (shard % 7)))


with concurrent.futures.ThreadPoolExecutor(8) as pool:
    waiting = [pool.submit(read, shard) for shard in range(120)]
    order = [done.result()[0] for done in concurrent.futures.as_completed(waiting)]
print(order[:12], zlib.crc32(bytes(order)))
