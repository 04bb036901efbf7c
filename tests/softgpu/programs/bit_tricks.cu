// Bit intrinsics and packed integer arithmetic: counting, reversing, permuting, funnel shifts, bit
// fields, dot products of bytes, and the SIMD-within-a-word functions.
#include "check.cuh"

enum { OUT = 24 };

__global__ void compute(uint32_t *out, const uint32_t *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    uint32_t a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2], r, *o = out + (size_t)i * OUT;
    unsigned long long w = (unsigned long long)a << 32 | b;
    o[0] = __popc(a) * 100 + __popcll(w);
    o[1] = __clz((int)a) * 100 + __clzll((long long)w);
    o[2] = __ffs((int)a) * 100 + __ffsll((long long)w);
    o[3] = __brev(a) ^ (uint32_t)__brevll(w);
    o[4] = __byte_perm(a, b, c);
    o[5] = __funnelshift_l(a, b, c);
    o[6] = __funnelshift_rc(a, b, c);
    o[7] = (uint32_t)__dp4a((int)a, (int)b, (int)c);
    o[8] = __dp4a(a, b, c);
    o[9] = __dp2a_lo(a, b, c) ^ (uint32_t)__dp2a_hi((int)a, (int)b, (int)c);
    o[10] = __sad((int)a, (int)b, c) + __usad(a, b, c);
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 63), "r"(c & 63));
    o[11] = r;
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 31), "r"(c & 31));
    o[12] = r;
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 31), "r"(c >> 8 & 63));
    o[13] = r;
    asm("bfind.s32 %0, %1;" : "=r"(r) : "r"(a));
    o[14] = r;
    asm("lop3.b32 %0, %1, %2, %3, 0x2d;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[15] = r;
    o[16] = __vadd4(a, b) ^ __vsub2(a, c);
    o[17] = __vabsdiffu4(a, b) + __vavgu2(b, c);
    o[18] = __vmaxs4(a, b) ^ __vminu2(a, c);
    o[19] = __vcmpgtu4(a, b) ^ __vcmpeq2(a & 0x00ff00ff, b & 0x00ff00ff);
    o[20] = __vaddss2(a, b) ^ __vsubus4(b, c);
    o[21] = __vsadu4(a, b) + __vseteq4(a & 0x01010101, b & 0x01010101);
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[22] = r;
    asm("prmt.b32.rc16 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[23] = r;
}

static uint32_t lane(uint32_t x, int bits, int i)
{
    return x >> (bits * i) & ((1u << bits) - 1);
}

static int signed_lane(uint32_t x, int bits, int i)
{
    return (int)(lane(x, bits, i) << (32 - bits)) >> (32 - bits);
}

/* f of each lane of @bits bits, packed again */
template <class F> static uint32_t packed(int bits, F f)
{
    uint32_t r = 0;
    for (int i = 0; i < 32 / bits; i++)
        r |= ((uint32_t)f(i) & ((1u << bits) - 1)) << (bits * i);
    return r;
}

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t w = (uint64_t)b << 32 | a;
    return packed(8, [&](int i) { return (uint32_t)(w >> 8 * (c >> 4 * i & 7)); });
}

static uint32_t field(uint32_t a, unsigned at, unsigned len)
{
    if (at >= 32 || len == 0)
        return 0;
    return len >= 32 ? a >> at : a >> at & ((1u << len) - 1);
}

static uint32_t signed_field(uint32_t a, unsigned at, unsigned len)
{
    if (len == 0)
        return 0;
    int64_t wide = (int64_t)(int32_t)a >> at; // beyond the top: copies of the sign
    return (uint32_t)((int64_t)((uint64_t)wide << (64 - len)) >> (64 - len));
}

static uint32_t inserted(uint32_t a, uint32_t b, unsigned at, unsigned len)
{
    uint64_t mask = len >= 32 ? 0xffffffffull : (1ull << len) - 1;
    mask = mask << at & 0xffffffffull;
    return (uint32_t)((b & ~mask) | ((uint64_t)a << at & mask));
}

static int clamp(int x, int lo, int hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static void packed_reference(uint32_t *o, uint32_t a, uint32_t b, uint32_t c)
{
    auto u8 = [](uint32_t x, int i) { return (int)lane(x, 8, i); };
    auto s8 = [](uint32_t x, int i) { return signed_lane(x, 8, i); };
    auto u16 = [](uint32_t x, int i) { return (int)lane(x, 16, i); };
    auto s16 = [](uint32_t x, int i) { return signed_lane(x, 16, i); };
    o[16] = packed(8, [&](int i) { return u8(a, i) + u8(b, i); }) ^
            packed(16, [&](int i) { return u16(a, i) - u16(c, i); });
    o[17] = packed(8, [&](int i) { return abs(u8(a, i) - u8(b, i)); }) +
            packed(16, [&](int i) { return (u16(b, i) + u16(c, i) + 1) / 2; });
    o[18] = packed(8, [&](int i) { return s8(a, i) > s8(b, i) ? s8(a, i) : s8(b, i); }) ^
            packed(16, [&](int i) { return u16(a, i) < u16(c, i) ? u16(a, i) : u16(c, i); });
    o[19] = packed(8, [&](int i) { return u8(a, i) > u8(b, i) ? 255 : 0; }) ^
            packed(16, [&](int i) { return u16(a, i) % 256 == u16(b, i) % 256 ? 65535 : 0; });
    o[20] = packed(16, [&](int i) { return clamp(s16(a, i) + s16(b, i), -32768, 32767); }) ^
            packed(8, [&](int i) { return clamp(u8(b, i) - u8(c, i), 0, 255); });
    o[21] = packed(8, [&](int i) { return u8(a, i) % 2 == u8(b, i) % 2; });
    for (int i = 0; i < 4; i++)
        o[21] += (uint32_t)abs(u8(a, i) - u8(b, i));
}

static void reference(uint32_t *o, uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t w = (uint64_t)a << 32 | b, f = (uint64_t)b << 32 | a;
    auto reversed = [](uint64_t x, int bits) {
        uint64_t r = 0;
        for (int i = 0; i < bits; i++)
            r |= (x >> i & 1) << (bits - 1 - i);
        return r;
    };
    o[0] = (uint32_t)(__builtin_popcount(a) * 100 + __builtin_popcountll(w));
    o[1] = (uint32_t)((a ? __builtin_clz(a) : 32) * 100 + (w ? __builtin_clzll(w) : 64));
    o[2] = (uint32_t)(__builtin_ffs((int)a) * 100 + __builtin_ffsll((long long)w));
    o[3] = (uint32_t)reversed(a, 32) ^ (uint32_t)reversed(w, 64);
    o[4] = permuted(a, b, c & 0x7777);
    o[5] = (uint32_t)(f << (c & 31) >> 32);
    o[6] = (uint32_t)(f >> (c < 32 ? c : 32));
    int dot = (int)c, hi = (int)c;
    uint32_t udot = c, lo = c;
    for (int i = 0; i < 4; i++) {
        dot = (int)((uint32_t)dot + (uint32_t)(signed_lane(a, 8, i) * signed_lane(b, 8, i)));
        udot += lane(a, 8, i) * lane(b, 8, i);
    }
    for (int i = 0; i < 2; i++) {
        lo += lane(a, 16, i) * lane(b, 8, i);
        hi = (int)((uint32_t)hi + (uint32_t)(signed_lane(a, 16, i) * signed_lane(b, 8, i + 2)));
    }
    o[7] = (uint32_t)dot;
    o[8] = udot;
    o[9] = lo ^ (uint32_t)hi;
    int64_t difference = (int64_t)(int32_t)a - (int32_t)b;
    o[10] = (uint32_t)(difference < 0 ? -difference : difference) + c + (a > b ? a - b : b - a) + c;
    o[11] = field(a, b & 63, c & 63);
    o[12] = signed_field(a, b & 31, c & 31);
    o[13] = inserted(a, b, c & 31, c >> 8 & 63);
    uint32_t positive = (int32_t)a < 0 ? ~a : a;
    o[14] = positive ? 31 - (uint32_t)__builtin_clz(positive) : ~0u;
    o[15] = 0;
    for (int i = 0; i < 32; i++)
        o[15] |= (0x2du >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
    packed_reference(o, a, b, c);
    unsigned k = c & 3;
    o[22] = permuted(a, b, k | (k + 1) << 4 | (k + 2) << 8 | (k + 3) << 12);
    o[23] = (k & 1 ? a >> 16 : a & 0xffff) * 0x10001u;
}

int main()
{
    const int n = 3000;
    rng r(401);
    std::vector<uint32_t> in(3 * n), want((size_t)n * OUT);
    for (auto &x : in)
        x = r.below(10) ? (uint32_t)r.next() : r.below(3) ? r.below(64) : 0 - r.below(2);
    for (int i = 0; i < n; i++)
        reference(&want[(size_t)i * OUT], in[3 * i], in[3 * i + 1], in[3 * i + 2]);
    dev<uint32_t> din(in), out(want.size());
    compute<<<blocks_for(n, 64), 64>>>(out.p, din.p, n);
    SYNC();
    expect_equal("bits", out.host(), want);
    return ok("bits: 24 results of %d triples", n);
}
