// Asynchronous copies to shared memory through cuda_pipeline.h: a four-stage ring, pieces of 4, 8
// and 16 bytes, zero fill of the tail.
#include "check.cuh"

#include <cuda_pipeline.h>

enum { THREADS = 64, STAGES = 4 };

/* out[i] = in[i] + in of the neighbour thread in the same tile */
template <class V> __global__ void ring(V *out, const V *in, int tiles)
{
    __shared__ V s[STAGES][THREADS];
    int t = threadIdx.x;
    const V *p = in + (size_t)blockIdx.x * tiles * THREADS;
    V *q = out + (size_t)blockIdx.x * tiles * THREADS;
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < tiles)
            __pipeline_memcpy_async(&s[i][t], &p[i * THREADS + t], sizeof(V));
        __pipeline_commit();
    }
    for (int i = 0; i < tiles; i++) {
        int ahead = i + STAGES - 1;
        if (ahead < tiles)
            __pipeline_memcpy_async(&s[ahead % STAGES][t], &p[ahead * THREADS + t], sizeof(V));
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        __syncthreads();
        V x = s[i % STAGES][t], y = s[i % STAGES][(t + 1) % THREADS];
        x.x += y.x;
        q[i * THREADS + t] = x;
        __syncthreads();
    }
}

__global__ void zero_filled(int4 *out, const int4 *in, int bytes)
{
    __shared__ int4 s[32];
    int t = threadIdx.x, have = min(max(bytes - t * 16, 0), 16);
    s[t] = make_int4(-1, -1, -1, -1);
    __pipeline_memcpy_async(&s[t], &in[t], 16, 16 - have);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = s[31 - t];
}

template <class V> static void run(const char *type)
{
    const int blocks = 3, tiles = 11, n = blocks * tiles * THREADS;
    const int lanes = sizeof(V) / sizeof(int);
    auto raw = random_ints<int>(n * lanes, 181, -1000, 1000);
    std::vector<V> in(n), want(n);
    memcpy((void *)in.data(), raw.data(), raw.size() * sizeof(int));
    for (int i = 0; i < n; i++) {
        want[i] = in[i];
        want[i].x += in[i / THREADS * THREADS + (i + 1) % THREADS].x;
    }
    dev<V> din(in), out(n);
    ring<<<blocks, THREADS>>>(out.p, din.p, tiles);
    SYNC();
    expect_equal(type, out.host(), want);
}

int main()
{
    run<int1>("4 bytes");
    run<int2>("8 bytes");
    run<int4>("16 bytes");
    auto raw = random_ints<uint8_t>(512, 182, 0, 256);
    dev<uint8_t> in(raw);
    dev<int4> out(32);
    for (int bytes : {0, 1, 16, 100, 512}) {
        zero_filled<<<1, 32>>>(out.p, (const int4 *)in.p, bytes);
        SYNC();
        std::vector<int4> want(32, make_int4(0, 0, 0, 0));
        for (int i = 0; i < bytes; i++)
            ((uint8_t *)&want[31 - i / 16])[i % 16] = raw[i];
        expect_equal("zero fill", out.host(), want);
    }
    return ok("pipeline: ring of 4 stages, 3 sizes, zero fill");
}
