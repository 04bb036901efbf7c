// Philox 4x32-10 written out: the generator's published test vectors, device against host, pi by
// Monte Carlo with an exact count, dropout with a mask that the backward pass makes again.
#include "check.cuh"

struct counter {
    uint32_t x[4];
};

__host__ __device__ uint32_t high(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

__host__ __device__ counter philox(counter c, uint32_t k0, uint32_t k1)
{
    for (int r = 0; r < 10; r++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
        uint32_t h0 = high(0xd2511f53u, c.x[0]), l0 = 0xd2511f53u * c.x[0];
        uint32_t h1 = high(0xcd9e8d57u, c.x[2]), l1 = 0xcd9e8d57u * c.x[2];
        c = {{h1 ^ c.x[1] ^ k0, l1, h0 ^ c.x[3] ^ k1, l0}};
    }
    return c;
}

__host__ __device__ int hits(uint32_t n, uint32_t key)
{
    counter c = philox({{n, 0, 0, 0}}, key, 7);
    int in = 0;
    for (int i = 0; i < 4; i += 2) { // two points of 16-bit fixed point a pair of words
        uint64_t x = c.x[i] >> 16, y = c.x[i + 1] >> 16;
        in += x * x + y * y < (1ull << 32);
    }
    return in;
}

__host__ __device__ bool kept(uint32_t i, float p)
{
    return philox({{i / 4, 1, 2, 3}}, 42, 0).x[i % 4] * 0x1p-32f >= p;
}

__global__ void monte_carlo(unsigned *count, int n)
{
    unsigned mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += hits((uint32_t)i, 99);
    mine = __reduce_add_sync(~0u, mine);
    if (threadIdx.x % 32 == 0)
        atomicAdd(count, mine);
}

__global__ void dropout(float *out, const float *in, float p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = kept(i, p) ? in[i] * (1 / (1 - p)) : 0;
}

__global__ void raw(counter *out)
{
    uint32_t f = ~0u;
    out[0] = philox({{0, 0, 0, 0}}, 0, 0);
    out[1] = philox({{f, f, f, f}}, f, f);
    out[2] = philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0);
}

int main()
{
    need_capability(8, 0);
    dev<counter> vectors(3);
    raw<<<1, 1>>>(vectors.p);
    SYNC();
    expect_equal("test vectors", vectors.host(),
                 {{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                  {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                  {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}});
    const int n = 40000;
    unsigned want = 0;
    for (int i = 0; i < n; i++)
        want += hits((uint32_t)i, 99);
    dev<unsigned> count(1);
    monte_carlo<<<6, 128>>>(count.p, n);
    SYNC();
    expect_value("hits", count.host()[0], want);
    expect_near("pi", 4.0 * want / (2 * n), 3.14159, 0, 0.03);

    const int m = 5000;
    const float p = 0.3f;
    auto x = random_reals<float>(m, 491);
    dev<float> dx(x), y(m), back(m);
    dropout<<<blocks_for(m, 128), 128>>>(y.p, dx.p, p, m);
    dropout<<<blocks_for(m, 128), 128>>>(back.p, y.p, p, m);
    SYNC();
    auto got = y.host(), twice = back.host();
    int zeros = 0;
    for (int i = 0; i < m; i++) {
        bool keep = kept(i, p);
        float scale = 1 / (1 - p), w = keep ? x[i] * scale : 0, w2 = keep ? w * scale : 0;
        if (got[i] != w || twice[i] != w2)
            fail("dropout[%d]: %a and %a instead of %a and %a", i, got[i], twice[i], w, w2);
        zeros += !keep;
    }
    expect_near("dropped", zeros / (double)m, p, 0, 0.03);
    return ok("philox: 3 test vectors, pi is %g, dropout", 4.0 * want / (2 * n));
}
