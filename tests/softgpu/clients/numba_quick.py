"""Kernels of numba-cuda on the software device, each checked against numpy: run.sh numba_quick.py"""

import numba_env

numba_env.enter()

import math  # noqa: E402
import sys  # noqa: E402
import warnings  # noqa: E402

import numba  # noqa: E402
import numpy as np  # noqa: E402
from numba import cuda, float32, int32  # noqa: E402
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32  # noqa: E402

warnings.simplefilter("ignore")  # small grids, arrays that are copied
RNG = np.random.default_rng(5)


def vector_add():
    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    x, y = RNG.random((2, 5000), dtype=np.float32)
    out = np.zeros_like(x)
    add[20, 256](x, y, out)
    np.testing.assert_array_equal(out, x + y)


def shared_reduction():
    """A tree in shared memory, one atomic addition a block."""

    @cuda.jit
    def total(x, out):
        part = cuda.shared.array(128, int32)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        part[t] = x[i] if i < x.size else 0
        cuda.syncthreads()
        step = 64
        while step > 0:
            if t < step:
                part[t] += part[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            cuda.atomic.add(out, 0, part[0])

    x = RNG.integers(-1000, 1000, 9999, dtype=np.int32)
    out = np.zeros(1, np.int32)
    total[math.ceil(x.size / 128), 128](x, out)
    assert out[0] == x.sum()


def dynamic_shared():
    """Reverses each block's piece through shared memory whose size the launch gives."""

    @cuda.jit
    def reverse(x):
        held = cuda.shared.array(0, float32)
        t, n = cuda.threadIdx.x, cuda.blockDim.x
        held[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        x[cuda.grid(1)] = held[n - 1 - t]

    x = np.arange(256, dtype=np.float32)
    want = x.reshape(4, 64)[:, ::-1].ravel()
    reverse[4, 64, 0, 64 * 4](x)
    np.testing.assert_array_equal(x, want)


def atomics():
    @cuda.jit
    def histogram(x, bins, most, least, hits):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(bins, x[i] % bins.size, 1)
            cuda.atomic.max(most, 0, x[i])
            cuda.atomic.min(least, 0, x[i])
            cuda.atomic.cas(hits, 0, i, i + 1)

    x = RNG.integers(0, 1 << 30, 3000).astype(np.int64)
    bins, hits = np.zeros(17, np.int32), np.zeros(1, np.int32)
    most, least = np.full(1, -1, np.int64), np.full(1, 1 << 40, np.int64)
    histogram[12, 256](x, bins, most, least, hits)
    np.testing.assert_array_equal(bins, np.bincount(x % 17, minlength=17))
    assert most[0] == x.max() and least[0] == x.min()
    assert 1 <= hits[0] <= 3072


def grid_barrier():
    """Every block takes over its neighbour's value, round after round: only a barrier of the grid keeps that in step."""

    @cuda.jit
    def shift(a, b, rounds):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        n = a.size
        for r in range(rounds):
            if r % 2 == 0:
                b[i] = a[(i + cuda.blockDim.x) % n]
            else:
                a[i] = b[(i + cuda.blockDim.x) % n]
            grid.sync()

    a = np.arange(8 * 40)
    want = np.roll(a, -40 * 6)
    shift[8, 40](a, np.zeros_like(a), 6)
    np.testing.assert_array_equal(a, want)


def device_functions():
    @cuda.jit(device=True)
    def gcd(a, b):
        while b:
            a, b = b, a % b
        return a

    @cuda.jit
    def each(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = gcd(x[i], y[i])

    x, y = RNG.integers(1, 100000, (2, 500))
    out = np.zeros_like(x)
    each[4, 128](x, y, out)
    np.testing.assert_array_equal(out, np.gcd(x, y))


def half_precision():
    @cuda.jit
    def saxpy(a, x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = a * x[i] + y[i]

    x, y = RNG.random((2, 300), dtype=np.float32).astype(np.float16)
    want = np.float32(np.float16(1.5)) * x.astype(np.float32) + y
    saxpy[3, 128](np.float16(1.5), x, y)
    np.testing.assert_allclose(y.astype(np.float32), want, rtol=2e-3)


def random_numbers():
    @cuda.jit
    def draw(states, out):
        i = cuda.grid(1)
        inside = 0
        for _ in range(64):
            x = xoroshiro128p_uniform_float32(states, i)
            y = xoroshiro128p_uniform_float32(states, i)
            inside += x * x + y * y <= 1.0
        out[i] = inside

    out, again = np.zeros((2, 256), np.int32)
    draw[2, 128](create_xoroshiro128p_states(256, seed=3), out)
    draw[2, 128](create_xoroshiro128p_states(256, seed=3), again)
    np.testing.assert_array_equal(out, again)
    assert abs(4 * out.sum() / (64 * 256) - math.pi) < 0.05 and len(set(out)) > 10


def universal_functions():
    @numba.vectorize(["float64(float64, float64)"], target="cuda")
    def length(x, y):
        return math.sqrt(x * x + y * y)

    @numba.guvectorize(["void(float32[:], float32[:])"], "(n)->(n)", target="cuda")
    def running(x, out):
        total = 0.0
        for i in range(x.shape[0]):
            total += x[i]
            out[i] = total

    x, y = RNG.random((2, 1000))
    np.testing.assert_allclose(length(x, y), np.hypot(x, y), rtol=1e-15)
    rows = RNG.random((30, 20), dtype=np.float32)
    np.testing.assert_allclose(running(rows), np.cumsum(rows, axis=1), rtol=1e-5)


def reduction_object():
    @cuda.reduce
    def largest(a, b):
        return max(a, b)

    x = RNG.random(3000)
    assert largest(x) == x.max()


def managed_memory():
    @cuda.jit
    def double(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    x = cuda.managed_array(100, np.int64)
    x[:] = np.arange(100)
    double[1, 128](x)
    cuda.synchronize()
    np.testing.assert_array_equal(x, 2 * np.arange(100))


def streams_and_events():
    @cuda.jit
    def step(x, a):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = x[i] * 3 + a

    first, second = cuda.stream(), cuda.stream()
    done, end = cuda.event(), cuda.event()
    host = cuda.pinned_array(512, np.int64)
    host[:] = 1
    x = cuda.to_device(host, stream=first)
    step[4, 128, first](x, 1)
    done.record(first)
    done.wait(second)
    step[4, 128, second](x, 2)
    x.copy_to_host(host, stream=second)
    end.record(second)
    end.synchronize()
    np.testing.assert_array_equal(host, np.full(512, 14))
    assert cuda.event_elapsed_time(done, end) >= 0


def warps():
    @cuda.jit
    def rotate(out, votes):
        t = cuda.threadIdx.x
        out[t] = cuda.shfl_sync(0xFFFFFFFF, t, (t + 5) % 32)
        votes[t] = cuda.ballot_sync(0xFFFFFFFF, t % 3 == 0)

    out, votes = np.zeros((2, 32), np.int64)
    rotate[1, 32](out, votes)
    np.testing.assert_array_equal(out, (np.arange(32) + 5) % 32)
    assert set(votes) == {sum(1 << t for t in range(0, 32, 3))}


def main():
    if not cuda.is_available():
        sys.exit("numba finds no device")
    for check in (vector_add, shared_reduction, dynamic_shared, atomics, grid_barrier, device_functions,
                  half_precision, random_numbers, universal_functions, reduction_object, managed_memory,
                  streams_and_events, warps):
        check()
        print(check.__name__, flush=True)


if __name__ == "__main__":
    main()
