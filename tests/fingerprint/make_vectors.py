#!/usr/bin/env python3
"""Print vectors.txt: known answers of fingerprint/FORMAT.md, computed without twinbit's own code.

XXH3-128 comes from libxxhash's XXH3_128bits; all else is written here from FORMAT.md's text.
The file's comment lines, printed below, say what a row means.
"""
import ctypes
import itertools

LEAF = 4096
M = (1 << 64) - 1

HEADER = """\
# Known answers of fingerprint version 1 (fingerprint/FORMAT.md). Written by make_vectors.py.
# bytes(seed, n): byte k is x[k+1] >> 24 where x[0] = seed, x[k+1] = (x[k] * 1664525 + 1013904223) mod 2^32
# leaf N SEED LO HI: digest of bytes(SEED, N)
# mix LO HI INDEX A B: contribution of a digest
# length N A B: L(N)
# fp N SEED BASE HEX: the 16 stored bytes of the fingerprint of bytes(SEED, N) at leaf index BASE
# map N SEED PARTS HEX...: the coarse map of bytes(SEED, N), bodies as stored
# strided N SEED OFFSET ELEM NDIM SIZES... STRIDES... BYTES HEX: fingerprint of the view of bytes(SEED, N)
#     whose element (0, 0, ..) begins at byte OFFSET; BYTES is the n that went into L(n)
# sampled N SEED RATE HEX: fingerprint of one leaf in RATE of bytes(SEED, N)
"""


class Digest(ctypes.Structure):
    _fields_ = [("lo", ctypes.c_uint64), ("hi", ctypes.c_uint64)]


xxh = ctypes.CDLL("libxxhash.so.0")
xxh.XXH3_128bits.restype = Digest
xxh.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def pattern(seed, n):
    out, x = bytearray(), seed
    for _ in range(n):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(x >> 24)
    return bytes(out)


def leaf(data):
    d = xxh.XXH3_128bits(data, len(data))
    return d.lo, d.hi


def f(h):
    h ^= h >> 33
    h = h * 0xFF51AFD7ED558CCD & M
    h ^= h >> 33
    h = h * 0xC4CEB9FE1A85EC53 & M
    return h ^ h >> 33


def mix(d, i):
    lo, hi = d
    y = f(hi ^ f(lo ^ f((i + 0x9E3779B97F4A7C15) & M)))
    return f((lo + f(y ^ i)) & M), y


def add(x, y):
    return (x[0] + y[0]) & M, (x[1] + y[1]) & M


def body(data, base):
    total = (0, 0)
    for k in range(0, len(data), LEAF):
        total = add(total, mix(leaf(data[k:k + LEAF]), (base + k // LEAF) & M))
    return total


def length(n):
    return mix((n, 0), M)


def stored(v):
    return (v[0].to_bytes(8, "little") + v[1].to_bytes(8, "little")).hex()


def fingerprint(data, base):
    return stored(add(body(data, base), length(len(data))))


def sampled(data, rate):
    total, leaves = length(len(data)), -(-len(data) // LEAF)
    for k in range(-(-leaves // rate)):
        i = 0 if k == 0 else k * rate + ((f((k + 0x9E3779B97F4A7C15) & M) >> 32) * rate >> 32)
        if i < leaves:
            total = add(total, mix(leaf(data[i * LEAF:(i + 1) * LEAF]), i))
    return stored(total)


def coarse_map(data):
    leaves = -(-len(data) // LEAF)
    run = -(-leaves // 16)
    return [stored(body(data[k * LEAF:(k + run) * LEAF], k)) for k in range(0, leaves, run or 1)]


def row_major(data, offset, elem, sizes, strides):
    sizes = [1 if t == 0 and s > 1 else s for s, t in zip(sizes, strides)]
    out = bytearray()
    for index in itertools.product(*(range(s) for s in sizes)):
        at = offset + sum(i * t for i, t in zip(index, strides)) * elem
        out += data[at:at + elem]
    return bytes(out)


def main():
    print(HEADER, end="")
    for n in (0, 1, 3, 4, 8, 9, 16, 17, 32, 128, 129, 240, 241, 256, 1024, 1025, 4095, 4096):
        print("leaf", n, n + 1, *(f"{x:016x}" for x in leaf(pattern(n + 1, n))))
    for d in ((0, 0), (1, 0), (0, 1), (M, M), (0x0123456789ABCDEF, 0xFEDCBA9876543210)):
        for i in (0, 1, 2, 1 << 20, 1 << 40, M - 1, M):
            print("mix", *(f"{x:016x}" for x in (*d, i, *mix(d, i))))
    for n in (0, 1, 4096, 1 << 32, M):
        print("length", n, *(f"{x:016x}" for x in length(n)))
    for n in (0, 1, 8, 240, 241, 4095, 4096, 4097, 8191, 8192, 12289, 32768, 36864, 100000):
        for base in (0, 5, 1 << 40):
            print("fp", n, n + 7, base, fingerprint(pattern(n + 7, n), base))
    for n in (0, 1, 4096, 4097, 65536, 65537, 69632, 200000):
        parts = coarse_map(pattern(n, n))
        print("map", n, n, len(parts), *parts)
    views = [
        (4, 0, 4, (), ()), (4, 0, 4, (0,), (1,)), (4, 0, 4, (3, 0, 2), (0, 5, 1)),
        (24, 0, 4, (6,), (1,)), (24, 20, 4, (6,), (-1,)), (24, 0, 4, (2, 3), (1, 2)),
        (24, 0, 4, (2, 1, 3), (3, 77, 1)), (24, 0, 4, (5, 6), (0, 1)), (24, 0, 4, (6, 5), (1, 0)),
        (24, 0, 4, (4, 3), (1, 1)), (60, 3, 3, (4, 5), (1, 3)), (32768, 0, 4, (64, 128), (1, 64)),
        (32768, 32760, 8, (64, 64), (-1, -64)), (40000, 16, 16, (3, 40, 20), (1, 60, 3)),
        (65536, 0, 2, (4, 5000), (6000, 1)), (20000, 1, 1, (3, 33, 7, 5), (5, 105, 15, 1)),
        (9000, 100, 12, (700,), (1,)), (50000, 0, 5, (30, 200), (1, 40)),
    ]
    for n, offset, elem, sizes, strides in views:
        data = row_major(pattern(n, n), offset, elem, sizes, strides)
        print("strided", n, n, offset, elem, len(sizes), *sizes, *strides, len(data),
              fingerprint(data, 0))
    for n, rate in ((0, 2), (1, 2), (4096, 7), (4097, 2), (100000, 2), (100000, 3), (100000, 1000), (262144, 5),
                    (300001, 4), (300001, 73), (300001, 0xFFFFFFFF)):
        print("sampled", n, n + 3, rate, sampled(pattern(n + 3, n), rate))


if __name__ == "__main__":
    main()
