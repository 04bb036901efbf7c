// Integer arithmetic of all widths against the host: division and remainder of 8 to 64 bits and by
// constants, high halves of products, saturation, 128-bit numbers, carries chained in PTX.
// nvcc: -Xcompiler -fwrapv
#include "check.cuh"

enum { OUT = 24 };

template <class T> __host__ __device__ void small_ops(uint64_t *o, T a, T b)
{
    T d = b ? b : (T)3;
    o[0] = (uint64_t)(T)(a / d);
    o[1] = (uint64_t)(T)(a % d);
    o[2] = (uint64_t)(T)(a * b - (a << 1));
    o[3] = (uint64_t)(T)(a >> (b & 7));
    o[4] = (uint64_t)(a < b) * 4 + (uint64_t)(a == b) * 2 + (uint64_t)(a >= d);
    o[5] = (uint64_t)(T)(a / (T)7) + (uint64_t)(T)(a % (T)10);
    o[6] = (uint64_t)(T)((a & b) ^ (a | ~b));
    o[7] = (uint64_t)(T)(a > b ? a - b : b - a);
}

/* what one pair of 64-bit numbers makes */
__host__ __device__ void ops(uint64_t *o, uint64_t x, uint64_t y)
{
    uint64_t t[8];
    auto mix = [&](int at) {
        for (int i = 0; i < 8; i++)
            o[at] = o[at] * 1000003 + t[i];
    };
    for (int i = 0; i < OUT; i++)
        o[i] = 0;
    small_ops<uint8_t>(t, (uint8_t)x, (uint8_t)y), mix(0);
    small_ops<int16_t>(t, (int16_t)x, (int16_t)(y | 1)), mix(1);
    small_ops<uint16_t>(t, (uint16_t)x, (uint16_t)y), mix(2);
    small_ops<uint32_t>(t, (uint32_t)x, (uint32_t)y), mix(3);
    small_ops<int32_t>(t, (int32_t)x >> 3, (int32_t)(y >> 40)), mix(4);
    small_ops<uint64_t>(t, x, y >> (x & 31)), mix(5);
    small_ops<int64_t>(t, (int64_t)x >> 2, (int64_t)(y >> 33)), mix(6);
    unsigned __int128 p = (unsigned __int128)x * y;
    __int128 sp = (__int128)(int64_t)x * (int64_t)y;
    o[7] = (uint64_t)p;
    o[8] = (uint64_t)(p >> 64);
    o[9] = (uint64_t)(sp >> 64);
    p = (p << 13 | p >> 115) + ((unsigned __int128)y << 64 | x);
    o[10] = (uint64_t)(p >> 61);
    o[11] = (uint64_t)(p > ((unsigned __int128)x << 64));
    o[12] = (uint64_t)((sp - (__int128)x * 3) >> 7);
    o[13] = (uint64_t)((uint32_t)x * (uint64_t)(uint32_t)y >> 32);
    o[14] = (uint64_t)((int64_t)(int32_t)x * (int32_t)y >> 32);
    o[15] = (uint64_t)(p / ((y >> 20) | 1));
    o[16] = (uint64_t)(p % ((y >> 20) | 1));
}

/* (lo, hi) of 256-bit sums and differences, 96-bit products by mad carries */
__device__ void carries(uint64_t *o, uint64_t x, uint64_t y)
{
    uint32_t a0 = (uint32_t)x, a1 = (uint32_t)(x >> 32), b0 = (uint32_t)y, b1 = (uint32_t)(y >> 32);
    uint32_t r0, r1, r2, r3;
    asm("add.cc.u32 %0, %3, %5;\n\taddc.cc.u32 %1, %4, %6;\n\taddc.u32 %2, 0, 0;"
        : "=&r"(r0), "=&r"(r1), "=&r"(r2)
        : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
    o[17] = ((uint64_t)r1 << 32 | r0) ^ (uint64_t)r2 << 63;
    asm("sub.cc.u32 %0, %3, %5;\n\tsubc.cc.u32 %1, %4, %6;\n\tsubc.u32 %2, 0, 0;"
        : "=&r"(r0), "=&r"(r1), "=&r"(r2)
        : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
    o[18] = ((uint64_t)r1 << 32 | r0) + r2;
    asm("mul.lo.u32 %0, %4, %6;\n\t"
        "mul.hi.u32 %1, %4, %6;\n\t"
        "mad.lo.cc.u32 %1, %4, %7, %1;\n\t"
        "madc.hi.u32 %2, %4, %7, 0;\n\t"
        "mad.lo.cc.u32 %1, %5, %6, %1;\n\t"
        "madc.hi.cc.u32 %2, %5, %6, %2;\n\t"
        "addc.u32 %3, 0, 0;\n\t"
        "mad.lo.cc.u32 %2, %5, %7, %2;\n\t"
        "madc.hi.u32 %3, %5, %7, %3;"
        : "=&r"(r0), "=&r"(r1), "=&r"(r2), "=&r"(r3)
        : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
    o[19] = (uint64_t)r1 << 32 | r0;
    o[20] = (uint64_t)r3 << 32 | r2;
    o[21] = __umul64hi(x, y) ^ (uint64_t)__mul64hi((long long)x, (long long)y);
    o[22] = (uint64_t)(uint32_t)(__mul24((int)a0, (int)b0) + __umulhi(a1, b1) +
                                 __mulhi((int)a0, (int)b1));
    o[23] = (uint64_t)__uhadd(a0, b0) << 32 | (uint32_t)__rhadd((int)a1, (int)b1);
}

static void host_carries(uint64_t *o, uint64_t x, uint64_t y)
{
    unsigned __int128 p = (unsigned __int128)x * y, s = (unsigned __int128)x + y;
    int64_t sx = (int64_t)x, sy = (int64_t)y;
    int32_t a24 = (int32_t)((uint32_t)x << 8) >> 8, b24 = (int32_t)((uint32_t)y << 8) >> 8;
    uint32_t a1 = (uint32_t)(x >> 32), b1 = (uint32_t)(y >> 32);
    o[17] = (uint64_t)s ^ (uint64_t)(s >> 64) << 63;
    o[18] = x - y + (x < y ? 0xffffffffull : 0);
    o[19] = (uint64_t)p;
    o[20] = (uint64_t)(p >> 64);
    o[21] = o[20] ^ (uint64_t)((__int128)sx * sy >> 64);
    o[22] = (uint32_t)((uint64_t)((int64_t)a24 * b24) + ((uint64_t)a1 * b1 >> 32) +
                       (uint64_t)((int64_t)(int32_t)x * (int32_t)b1 >> 32));
    o[23] = ((x & 0xffffffffu) + (y & 0xffffffffu)) / 2 << 32 |
            (uint32_t)(((int64_t)(int32_t)a1 + (int32_t)b1 + 1) >> 1);
}

__global__ void compute(uint64_t *out, const uint64_t *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        ops(out + (size_t)i * OUT, in[2 * i], in[2 * i + 1]);
        carries(out + (size_t)i * OUT, in[2 * i], in[2 * i + 1]);
    }
}

int main()
{
    const int n = 1500;
    rng r(391);
    std::vector<uint64_t> in(2 * n), want((size_t)n * OUT);
    for (auto &x : in)
        x = r.below(8) ? r.next() : r.below(2) ? (uint64_t)0 - r.below(3) : r.below(3);
    for (int i = 0; i < n; i++) {
        ops(&want[(size_t)i * OUT], in[2 * i], in[2 * i + 1]);
        host_carries(&want[(size_t)i * OUT], in[2 * i], in[2 * i + 1]);
    }
    dev<uint64_t> din(in), out(want.size());
    compute<<<blocks_for(n, 64), 64>>>(out.p, din.p, n);
    SYNC();
    expect_equal("integers", out.host(), want);
    return ok("integers: 7 widths, 128 bits, carries; %d pairs", n);
}
