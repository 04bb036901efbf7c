/*
 * fp_device.cu - fingerprints on a GPU: the kernels that fp_device.h describes.
 *
 * The reference of every value is the host's code (body.c, strided.c, sampled.c); FORMAT.md defines
 * it. Integers only, no state between launches but the scratch, no shared memory but for a block's
 * sum. A job is done by one warp, which may share its block with other jobs, or by whole blocks.
 *
 * XXH3 adds up the products of a block of 1,024 bytes before it scrambles, so a block's sixteen
 * stripes may be taken in any order. leaf_quad() does four leaves with a warp: eight threads a
 * leaf, each load of them takes 128 bytes in a row, a thread has the accumulators of one pair of
 * lanes. leaf_one() does one leaf, of any length above 240, with all threads: 512 bytes a load.
 */
#include <stdint.h>

#include "fingerprint/device/fp_device.h"

#define LEAF 4096u
#define BLOCK 1024u /* bytes between two scrambles */
#define WARPS (TB_FPD_THREADS / 32u)
#define ALL 0xFFFFFFFFu

#define P32_1 0x9E3779B1ull
#define P32_2 0x85EBCA77ull
#define P32_3 0xC2B2AE3Dull
#define P64_1 0x9E3779B185EBCA87ull
#define P64_2 0xC2B2AE3D27D4EB4Full
#define P64_3 0x165667B19E3779F9ull
#define P64_4 0x85EBCA77C2B2AE63ull
#define P64_5 0x27D4EB2F165667C5ull

#define SECRET_SCRAMBLE 128 /* where in the secret each step begins */
#define SECRET_LAST 121
#define SECRET_LOW 11
#define SECRET_HIGH 117

/* XXH3's default secret, little-endian; a word more, so that an unaligned read of the last ones
 * stays inside. */
static __device__ const uint64_t secret[25] = {
    0xbe4ba423396cfeb8,
    0x1cad21f72c81017c,
    0xdb979083e96dd4de,
    0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb,
    0x2172ffcc7dd05a82,
    0x8e2443f7744608b8,
    0x4c263a81e69035e0,
    0xcb00c391bb52283c,
    0xa32e531b8b65d088,
    0x4ef90da297486471,
    0xd8acdea946ef1938,
    0x3f349ce33f76faa8,
    0x1d4f0bc7c7bbdcf9,
    0x3159b4cd4be0518a,
    0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea,
    0xeb6313faffa081c5,
    0x49daf0b751dd0d17,
    0x9e68d429265516d3,
    0xfca1477d58be162b,
    0xce31d07ad1b8f88f,
    0x280416958f3acb45,
    0x7e404bbbcafbd7af,
    0,
};

static __device__ const uint64_t first_acc[8] = {P32_3, P64_1, P64_2, P64_3,
                                                 P64_4, P32_2, P64_5, P32_1};

struct pair {
    uint64_t x, y;
};

/* recorder/wire.h, struct tb_wire_slot */
struct slot {
    uint64_t a, b, stamp, taken;
};

/* TB_FPD_SCRATCH bytes: the sums of the blocks that have ended, and how many have */
struct scratch {
    unsigned long long a, b, arrived, unused;
};

struct few {
    uint64_t slots, scratch, base;
    uint32_t mask, jobs;
    struct tb_fpd_job job[TB_FPD_FEW];
};
static_assert(sizeof(struct few) == TB_FPD_FEW_BYTES, "fp_device: few");
static_assert(sizeof(struct scratch) == TB_FPD_SCRATCH, "fp_device: scratch");

/* ------------------------------------------------------------------ arithmetic */

static __device__ __forceinline__ uint64_t swap_lanes(uint64_t v, int mask)
{
    return __shfl_xor_sync(ALL, (unsigned long long)v, mask);
}

/* acc + the product of both halves of k */
static __device__ __forceinline__ uint64_t add_product(uint64_t acc, uint64_t k)
{
    uint32_t lo, hi;

    asm("mov.b64 {%0, %1}, %2;" : "=r"(lo), "=r"(hi) : "l"(k));
    asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(acc) : "r"(lo), "r"(hi));
    return acc;
}

static __device__ __forceinline__ uint64_t fold(uint64_t x, uint64_t y)
{
    return x * y ^ __umul64hi(x, y);
}

static __device__ __forceinline__ uint64_t avalanche(uint64_t h)
{
    h ^= h >> 37;
    h *= 0x165667919E3779F9ull;
    return h ^ h >> 32;
}

/* the avalanche of XXH64, for up to 3 bytes */
static __device__ __forceinline__ uint64_t avalanche64(uint64_t h)
{
    h ^= h >> 33;
    h *= P64_2;
    h ^= h >> 29;
    h *= P64_3;
    return h ^ h >> 32;
}

static __device__ __forceinline__ uint64_t scramble(uint64_t acc, uint64_t key)
{
    return (acc ^ acc >> 47 ^ key) * P32_1;
}

static __device__ __forceinline__ uint32_t swap32(uint32_t v)
{
    return __byte_perm(v, 0, 0x0123);
}

static __device__ __forceinline__ uint64_t swap64(uint64_t v)
{
    return (uint64_t)swap32((uint32_t)v) << 32 | swap32((uint32_t)(v >> 32));
}

/* 8 bytes of the secret */
static __device__ __forceinline__ uint64_t key_at(uint32_t offset)
{
    const uint64_t *w = secret + offset / 8;
    uint32_t shift = offset % 8 * 8;

    return shift ? w[0] >> shift | w[1] << (64 - shift) : w[0];
}

static __device__ __forceinline__ uint64_t fmix(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xFF51AFD7ED558CCDull;
    h ^= h >> 33;
    h *= 0xC4CEB9FE1A85EC53ull;
    return h ^ h >> 33;
}

/* FORMAT.md section 3: x is the first half */
static __device__ __forceinline__ struct pair mix(uint64_t lo, uint64_t hi, uint64_t index)
{
    uint64_t y = fmix(hi ^ fmix(lo ^ fmix(index + 0x9E3779B97F4A7C15ull)));

    return {fmix(lo + fmix(y ^ index)), y};
}

/* ------------------------------------------------------------------ where bytes come from */

/*
 * A source gives 16 bytes, or one, at an offset of the byte string that is hashed. What lies
 * outside of the string is not read, not even in the same word; but words() gives no single bytes,
 * and may read up to 3 bytes before and behind.
 */
template <class T> static __device__ __forceinline__ T get(uint64_t p)
{
    return *(const T *)__cvta_global_to_generic((size_t)p);
}

struct aligned {
    enum { UNROLL = 32 };
    uint64_t src;

    __device__ __forceinline__ struct pair load(uint64_t offset) const
    {
        ulonglong2 v = get<ulonglong2>(src + offset);

        return {v.x, v.y};
    }
};

/* 16 bytes at any address, by whole words */
static __device__ __forceinline__ struct pair load_words(uint64_t p)
{
    uint64_t q = p & ~3ull;
    uint32_t shift = (uint32_t)p % 4 * 8;
    uint32_t w[5] = {get<uint32_t>(q), get<uint32_t>(q + 4), get<uint32_t>(q + 8),
                     get<uint32_t>(q + 12), shift ? get<uint32_t>(q + 16) : 0};

    for (int k = 0; k < 4; k++)
        w[k] = __funnelshift_r(w[k], w[k + 1], shift);
    return {(uint64_t)w[1] << 32 | w[0], (uint64_t)w[3] << 32 | w[2]};
}

struct words {
    enum { UNROLL = 8 };
    uint64_t src;

    __device__ __forceinline__ struct pair load(uint64_t offset) const
    {
        return load_words(src + offset);
    }
};

__device__ __noinline__ struct pair load_bytes(uint64_t p)
{
    struct pair v = {0, 0};

    for (int k = 7; k >= 0; k--) {
        v.x = v.x << 8 | get<uint8_t>(p + k);
        v.y = v.y << 8 | get<uint8_t>(p + k + 8);
    }
    return v;
}

struct flat {
    enum { UNROLL = 1 };
    uint64_t src, end;

    __device__ __forceinline__ struct pair load(uint64_t offset) const
    {
        uint64_t p = src + offset;

        if (p % 16 == 0)
            return aligned{p}.load(0);
        if (p % 4 == 0 || ((p & ~3ull) >= src && p + 19 < end))
            return load_words(p);
        return load_bytes(p);
    }

    __device__ __forceinline__ uint32_t byte(uint64_t offset) const
    {
        return get<uint8_t>(src + offset);
    }
};

/* @v with each byte of @from in the place of which @change makes another one */
static __device__ __forceinline__ uint64_t replace(uint64_t v, uint64_t from, uint64_t change)
{
    const uint64_t low = 0x7F7F7F7F7F7F7F7Full;
    uint64_t t = v ^ from;
    uint64_t hit = ~(((t & low) + low) | t | low); /* the high bit of each byte that is equal */

    return v ^ ((hit >> 7) * 255 & change);
}

/* A buffer in which two values of a byte are one: the second counts as the first. */
struct alike {
    enum { UNROLL = 1 };
    struct flat s;
    uint64_t from, change; /* the second; what makes it the first: eight times */

    __device__ __forceinline__ struct pair load(uint64_t offset) const
    {
        struct pair v = s.load(offset);

        return {replace(v.x, from, change), replace(v.y, from, change)};
    }

    __device__ __forceinline__ uint32_t byte(uint64_t offset) const
    {
        return (uint8_t)replace(s.byte(offset), from, change);
    }
};

/* The elements of a view in row-major order, in the form of tb_fpd_plan_strided(). */
struct view {
    enum { UNROLL = 1 };
    const struct tb_fpd_strided *v;
    uint64_t inner_size, inner_step;
    uint32_t elem, width;
    bool narrow; /* all offsets have 32 bits */

    explicit __device__ __forceinline__ view(const struct tb_fpd_strided *view_)
        : v(view_), inner_size((uint64_t)v->size[v->ndim - 1]),
          inner_step((uint64_t)v->stride[v->ndim - 1]), elem(v->elem), width(v->width),
          narrow(v->bytes >> 32 == 0)
    {
    }

    __device__ __forceinline__ uint64_t divide(uint64_t x, uint64_t y) const
    {
        return narrow ? (uint32_t)x / (uint32_t)y : x / y;
    }

    /* Where element @q begins, and its index in the last dimension. */
    __device__ __forceinline__ uint64_t seek(uint64_t q, uint64_t *inner) const
    {
        uint64_t next = divide(q, inner_size);
        uint64_t p = v->src;

        *inner = q - next * inner_size;
        p += *inner * inner_step;
        q = next;
#pragma unroll 1
        for (uint32_t d = v->ndim - 2; d > 0; d--) {
            next = divide(q, (uint64_t)v->size[d]);
            p += (q - next * (uint64_t)v->size[d]) * (uint64_t)v->stride[d];
            q = next;
        }
        return p + q * (uint64_t)v->stride[0];
    }

    /* 16 bytes of elements of the same row */
    template <class T, int N> __device__ __forceinline__ struct pair gather(uint64_t p) const
    {
        uint64_t out[2] = {0, 0};

#pragma unroll
        for (int k = 0; k < N; k++, p += inner_step)
            out[2 * k / N] |= (uint64_t)get<T>(p) << k * (128 / N) % 64;
        return {out[0], out[1]};
    }

    /* The same of pieces of elements, and over the ends of rows. */
    __device__ __noinline__ struct pair pieces(uint64_t q, uint32_t sub) const
    {
        uint64_t inner, p = seek(q, &inner);
        uint64_t out[2] = {0, 0};

        for (uint32_t at = 0; at < 16; at += width) {
            uint64_t a = p + sub;
            uint64_t x = width == 1   ? get<uint8_t>(a)
                         : width == 2 ? get<uint16_t>(a)
                         : width == 4 ? get<uint32_t>(a)
                                      : get<uint64_t>(a);

            out[at / 8] |= x << at % 8 * 8;
            sub += width;
            if (sub < elem || at + width == 16)
                continue;
            sub = 0;
            q++;
            p = ++inner < inner_size ? p + inner_step : seek(q, &inner);
        }
        return {out[0], out[1]};
    }

    /* @offset is a multiple of the width, as all offsets are that XXH3 asks for */
    __device__ __forceinline__ struct pair load(uint64_t offset) const
    {
        uint64_t q = divide(offset, elem);
        uint64_t inner, p = seek(q, &inner);

        if (elem != width || inner + 16 / width > inner_size)
            return pieces(q, (uint32_t)(offset - q * elem));
        switch (width) {
        case 1:
            return gather<uint8_t, 16>(p);
        case 2:
            return gather<uint16_t, 8>(p);
        case 4:
            return gather<uint32_t, 4>(p);
        case 8:
            return gather<uint64_t, 2>(p);
        default:
            return aligned{p}.load(0);
        }
    }

    __device__ __forceinline__ uint32_t byte(uint64_t offset) const
    {
        uint64_t q = divide(offset, elem);
        uint64_t inner;

        return get<uint8_t>(seek(q, &inner) + (offset - q * elem));
    }
};

/* A view whose elements are the 16 bytes of a load. */
struct rows {
    enum { UNROLL = 4 };
    struct view v;

    __device__ __forceinline__ struct pair load(uint64_t offset) const
    {
        uint64_t inner;

        return aligned{v.seek(offset / 16, &inner)}.load(0);
    }
};

/* ------------------------------------------------------------------ a leaf of up to 240 bytes */

/* 1 to 16 bytes: x and y are they, zeros behind */
static __device__ struct pair digest_16(uint64_t x, uint64_t y, uint32_t n)
{
    uint64_t lo, hi;

    if (n > 8) {
        uint32_t cut = 8 * (n - 8); /* the last 8 bytes */
        uint64_t tail = n == 16 ? y : x >> cut | y << (64 - cut);
        uint64_t k = x ^ tail ^ key_at(32) ^ key_at(40);

        lo = k * P64_1 + ((uint64_t)(n - 1) << 54);
        hi = __umul64hi(k, P64_1);
        tail ^= key_at(48) ^ key_at(56);
        hi += tail + (uint64_t)(uint32_t)tail * (P32_2 - 1);
        lo ^= swap64(hi);
        hi = __umul64hi(lo, P64_2) + hi * P64_2;
        return {avalanche(lo * P64_2), avalanche(hi)};
    }
    if (n >= 4) {
        uint64_t k = (uint32_t)x | x >> 8 * (n - 4) << 32;

        k ^= key_at(16) ^ key_at(24);
        lo = k * (P64_1 + (n << 2));
        hi = __umul64hi(k, P64_1 + (n << 2)) + (lo << 1);
        lo ^= hi >> 3;
        lo = (lo ^ lo >> 35) * 0x9FB21C651E98DF25ull;
        return {lo ^ lo >> 28, avalanche(hi)};
    }
    uint32_t c = (uint32_t)(x & 255) << 16 | (uint32_t)(x >> 8 * (n >> 1) & 255) << 24 |
                 (uint32_t)(x >> 8 * (n - 1) & 255) | n << 8;
    uint32_t d = swap32(c);

    lo = c ^ (uint32_t)(secret[0] ^ secret[0] >> 32);
    hi = (d << 13 | d >> 19) ^ (uint32_t)(secret[1] ^ secret[1] >> 32);
    return {avalanche64(lo), avalanche64(hi)};
}

template <class S> static __device__ struct pair leaf_16(const S &s, uint64_t at, uint32_t n)
{
    uint32_t t = threadIdx.x % 32;
    uint64_t v = t < n ? (uint64_t)s.byte(at + t) << t % 8 * 8 : 0;

    for (int k = 1; k < 8; k *= 2)
        v |= swap_lanes(v, k);
    return digest_16(__shfl_sync(ALL, (unsigned long long)v, 0),
                     __shfl_sync(ALL, (unsigned long long)v, 8), n);
}

/*
 * 17 to 240 bytes: rounds of two times 16 bytes, a thread each. The products are independent; what
 * XXH3 chains are an addition and an exclusive or, the even threads do the low half, the odd ones
 * the high half. Up to 128 bytes the rounds go from the middle to the ends.
 */
template <class S> static __device__ struct pair leaf_240(const S &s, uint64_t at, uint32_t n)
{
    uint32_t t = threadIdx.x % 32;
    uint32_t odd = t & 1, j = t / 2;
    uint32_t rounds = n > 128 ? n / 32 + 1 : (n - 1) / 32 + 1;
    uint32_t from = 32 * j + 16 * odd, key = from;
    uint64_t product = 0, sum = 0, acc = odd ? 0 : n * P64_1;

    if (n > 128) {
        if (j + 1 == rounds) {
            from = n - 16 - 16 * odd;
            key = 103 + 16 * odd;
        } else if (j >= 4) {
            key = from - 125;
        }
    } else {
        j = rounds - 1 - j; /* wraps where there is no round: not used */
        from = odd ? n - 16 - 16 * j : 16 * j;
        key = 32 * j + 16 * odd;
    }
    if (t < 2 * rounds) {
        struct pair v = s.load(at + from);

        product = fold(v.x ^ key_at(key), v.y ^ key_at(key + 8));
        sum = v.x + v.y;
    }
    sum = swap_lanes(sum, 1);
    for (uint32_t r = 0; r < rounds; r++) {
        if (n > 128 && r == 4)
            acc = avalanche(acc);
        acc += __shfl_sync(ALL, (unsigned long long)product, 2 * r + odd);
        acc ^= __shfl_sync(ALL, (unsigned long long)sum, 2 * r + odd);
    }
    uint64_t other = swap_lanes(acc, 1);
    uint64_t lo = odd ? other : acc, hi = odd ? acc : other;

    return {avalanche(lo + hi), 0 - avalanche(lo * P64_1 + hi * P64_4 + n * P64_2)};
}

/* ------------------------------------------------------------------ longer leaves */

/*
 * From the accumulators 2i (even) and 2i + 1 of the four threads i to the digest. Threads with
 * @high make the high half, bit 2 of the thread's number.
 */
static __device__ __forceinline__ struct pair merge(uint64_t even, uint64_t odd, uint32_t n)
{
    uint32_t i = threadIdx.x & 3, high = threadIdx.x >> 2 & 1;
    uint32_t key = (high ? SECRET_HIGH : SECRET_LOW) + 16 * i;
    uint64_t f = fold(even ^ key_at(key), odd ^ key_at(key + 8));
    uint64_t other;

    f += swap_lanes(f, 1);
    f += swap_lanes(f, 2);
    f = avalanche(f + (high ? ~(n * P64_2) : n * P64_1));
    other = swap_lanes(f, 4);
    return high ? (struct pair){other, f} : (struct pair){f, other};
}

/* One leaf of 241 to 4,096 bytes; all threads have the result. */
template <class S> static __device__ struct pair leaf_one(const S &s, uint64_t at, uint32_t n)
{
    uint32_t t = threadIdx.x % 32;
    uint32_t i = t & 3, stripe = t >> 2;
    uint32_t blocks = (n - 1) / BLOCK, rest = (n - 1) % BLOCK / 64;
    uint64_t even = first_acc[2 * i], odd = first_acc[2 * i + 1];

#pragma unroll 1
    for (uint32_t b = 0; b <= blocks; b++) {
        uint64_t x = 0, y = 0;

#pragma unroll 1
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t offset = b * BLOCK + k * 512 + t * 16;
            uint32_t key = 8 * stripe + 16 * i + 64 * k;
            bool there = b < blocks || k * 8 + stripe < rest;

            if (b == blocks && k == 1 && stripe == 7) { /* the last stripe; there are at most 15 */
                offset = n - 64 + 16 * i;
                key = SECRET_LAST + 16 * i;
                there = true;
            }
            if (!there)
                continue;
            struct pair v = s.load(at + offset);

            x = add_product(x, v.x ^ key_at(key)) + v.y;
            y = add_product(y, v.y ^ key_at(key + 8)) + v.x;
        }
        for (int k = 4; k < 32; k *= 2) {
            x += swap_lanes(x, k);
            y += swap_lanes(y, k);
        }
        even += x;
        odd += y;
        if (b < blocks) {
            even = scramble(even, secret[SECRET_SCRAMBLE / 8 + 2 * i]);
            odd = scramble(odd, secret[SECRET_SCRAMBLE / 8 + 2 * i + 1]);
        }
    }
    return merge(even, odd, n);
}

/* One exchange of a sum over threads: of two values this thread keeps one, and adds the other's. */
static __device__ __forceinline__ uint64_t keep(bool second, uint64_t x, uint64_t y, int mask)
{
    return (second ? y : x) + swap_lanes(second ? x : y, mask);
}

/* A whole leaf that is aligned. Sums of all blocks are dealt out to the threads, a step a bit. */
static __device__ __forceinline__ struct pair leaf_whole(const struct aligned &s, uint64_t at)
{
    uint32_t t = threadIdx.x % 32;
    uint32_t i = t & 3, stripe = t >> 2, half = stripe & 1;
    const uint64_t *own = secret + stripe + 2 * i;
    uint64_t last[2] = {stripe == 7 ? key_at(SECRET_LAST + 16 * i) : own[8],
                        stripe == 7 ? key_at(SECRET_LAST + 16 * i + 8) : own[9]};
    uint64_t acc = first_acc[2 * i + half];
    uint64_t scrambler = secret[SECRET_SCRAMBLE / 8 + 2 * i + half];
    uint64_t sum[4];

    at += t * 16;
#pragma unroll
    for (uint32_t b = 0; b < 4; b++) {
        uint64_t x = 0, y = 0;

#pragma unroll
        for (uint32_t k = 0; k < 2; k++) {
            bool end = b == 3 && k == 1;

            struct pair v = s.load(at + b * BLOCK + k * 512);

            x = add_product(x, v.x ^ (end ? last[0] : own[8 * k])) + v.y;
            y = add_product(y, v.y ^ (end ? last[1] : own[8 * k + 1])) + v.x;
        }
        sum[b] = keep(half, x, y, 4);
    }
    sum[0] = keep(t & 8, sum[0], sum[2], 8);
    sum[1] = keep(t & 8, sum[1], sum[3], 8);
    sum[0] = keep(t & 16, sum[0], sum[1], 16);
#pragma unroll
    for (uint32_t b = 0; b < 4; b++) {
        acc += __shfl_sync(ALL, (unsigned long long)sum[0], (t & 7) + b / 2 * 8 + b % 2 * 16);
        if (b < 3)
            acc = scramble(acc, scrambler);
    }
    uint64_t other = swap_lanes(acc, 4);

    return merge(half ? other : acc, half ? acc : other, LEAF);
}

/* What leaf_quad() has of the secret in registers. */
struct quad_keys {
    uint64_t stripe[16], last[2], scramble;

    __device__ __forceinline__ quad_keys()
    {
        uint32_t i = threadIdx.x & 3, half = threadIdx.x >> 2 & 1;
        const uint64_t *own = secret + half + 2 * i;

#pragma unroll
        for (uint32_t k = 0; k < 16; k++)
            stripe[k] = own[k];
        last[0] = half ? key_at(SECRET_LAST + 16 * i) : stripe[14];
        last[1] = half ? key_at(SECRET_LAST + 16 * i + 8) : stripe[15];
        scramble = own[SECRET_SCRAMBLE / 8];
    }
};

/* Four whole leaves, @at is that of the thread's own; each of its eight threads has the result. */
template <class S>
static __device__ __forceinline__ struct pair leaf_quad(const S &s, uint64_t at,
                                                        const struct quad_keys &key)
{
    uint32_t i = threadIdx.x & 3, half = threadIdx.x >> 2 & 1;
    const uint64_t *own = secret + half + 2 * i;
    uint64_t acc = first_acc[2 * i + half];

    at += (threadIdx.x & 7) * 16;
#pragma unroll S::UNROLL < 32 ? 1 : 4
    for (uint32_t b = 0; b < 4; b++) {
        uint64_t x = 0, y = 0;

#pragma unroll S::UNROLL < 8 ? S::UNROLL : 8
        for (uint32_t k = 0; k < 8; k++) {
            bool end = b == 3 && k == 7;
            struct pair v = s.load(at + b * BLOCK + k * 128);
            uint64_t key_x, key_y;

            if (S::UNROLL < 8) {
                key_x = end ? key.last[0] : own[2 * k];
                key_y = end ? key.last[1] : own[2 * k + 1];
            } else {
                key_x = end ? key.last[0] : key.stripe[2 * k];
                key_y = end ? key.last[1] : key.stripe[2 * k + 1];
            }
            x = add_product(x, v.x ^ key_x) + v.y;
            y = add_product(y, v.y ^ key_y) + v.x;
        }
        acc += keep(half, x, y, 4);
        if (b < 3)
            acc = scramble(acc, key.scramble);
    }
    uint64_t other = swap_lanes(acc, 4);

    return merge(half ? other : acc, half ? acc : other, LEAF);
}

/* ------------------------------------------------------------------ jobs */

/* What a warp does of a job: leaves of a buffer, or of a sample of it. */
struct work {
    uint64_t bytes, leaves;
    uint64_t count; /* leaves that are taken, or a few more */
    uint32_t rate;
    uint32_t rank, warps;

    __device__ __forceinline__ work(uint64_t n, uint32_t r, uint32_t rank_, uint32_t warps_)
        : bytes(n), leaves(n / LEAF + (n % LEAF != 0)), rate(r > 1 ? r : 1), rank(rank_),
          warps(warps_)
    {
        count = rate == 1 ? leaves : (leaves + rate - 1) / rate;
    }

    /* The k-th leaf that is taken; FORMAT.md section 13. It may lie behind the end. */
    __device__ __forceinline__ uint64_t leaf(uint64_t k) const
    {
        if (rate == 1 || k == 0)
            return k;
        return k * rate + ((fmix(k + 0x9E3779B97F4A7C15ull) >> 32) * rate >> 32);
    }

    /* Is it taken, and by this warp in fours? */
    __device__ __forceinline__ bool mine(uint64_t index) const
    {
        uint64_t k = rate == 1 ? index : index / rate;

        return leaf(k) == index && k / 4 % warps == rank;
    }
};

static __device__ __forceinline__ void add(struct pair *sum, struct pair m)
{
    sum->x += m.x;
    sum->y += m.y;
}

/* The contribution of a leaf of any length, by the whole warp; zeros but for thread 0. */
template <class S> __device__ __noinline__ struct pair any_leaf(S s, uint64_t bytes, uint64_t index)
{
    uint64_t at = index * LEAF, left = bytes - at;
    uint32_t n = left < LEAF ? (uint32_t)left : LEAF;
    struct pair d;

    if (n > 240)
        d = leaf_one(s, at, n);
    else if (n > 16)
        d = leaf_240(s, at, n);
    else
        d = leaf_16(s, at, n);
    d = mix(d.x, d.y, index);
    return threadIdx.x % 32 == 0 ? d : (struct pair){0, 0};
}

__device__ __noinline__ struct pair whole_leaf(struct aligned s, uint64_t index)
{
    struct pair d = leaf_whole(s, index * LEAF);

    d = mix(d.x, d.y, index);
    return threadIdx.x % 32 == 0 ? d : (struct pair){0, 0};
}

/*
 * The contributions of this warp's share, four whole leaves at a time. The short leaf is taken
 * apart, and so are those at both ends of a buffer whose words hold foreign bytes there. @s reads
 * the first, @any all of them.
 */
template <class S, class A>
static __device__ __forceinline__ struct pair quads(S s, A any, const struct work &w,
                                                    bool straddles)
{
    uint32_t group = threadIdx.x % 32 / 8;
    uint64_t first = straddles, end = w.bytes / LEAF - straddles;
    struct quad_keys key;
    struct pair sum = {0, 0};

    for (uint64_t k = 4ull * w.rank; k < w.count; k += 4ull * w.warps) {
        uint64_t index = w.leaf(k + group);
        bool take = k + group < w.count && index >= first && index < end;
        uint32_t set = __ballot_sync(ALL, take);

        if (!set)
            continue;
        uint64_t other = __shfl_sync(ALL, (unsigned long long)index, __ffs(set) - 1);
        struct pair d = leaf_quad(s, (take ? index : other) * LEAF, key);

        d = mix(d.x, d.y, index);
        if (take && threadIdx.x % 8 == 0)
            add(&sum, d);
    }
    if (straddles && w.mine(0))
        add(&sum, any_leaf(any, w.bytes, 0));
    if (straddles && end && w.mine(end))
        add(&sum, any_leaf(any, w.bytes, end));
    if (w.bytes % LEAF && w.mine(w.leaves - 1))
        add(&sum, any_leaf(any, w.bytes, w.leaves - 1));
    return sum;
}

__device__ __noinline__ struct pair quads_aligned(uint64_t src, struct work w)
{
    return quads(aligned{src}, flat{src, src + w.bytes}, w, false);
}

__device__ __noinline__ struct pair quads_words(uint64_t src, struct work w)
{
    return quads(words{src}, flat{src, src + w.bytes}, w, src % 4 != 0);
}

static __device__ struct pair buffer_sum(uint64_t src, const struct work &w)
{
    uint64_t index = w.leaf(w.rank);

    if (w.count > w.warps)
        return src % 16 ? quads_words(src, w) : quads_aligned(src, w);
    if (w.rank >= w.count || index >= w.leaves)
        return {0, 0};
    if (src % 16 == 0 && w.bytes - index * LEAF >= LEAF)
        return whole_leaf(aligned{src}, index);
    return any_leaf(flat{src, src + w.bytes}, w.bytes, index);
}

/* What a warp does of a job: the buffer as it is; or, a leaf at a time, with two values of a byte
 * that are one. */
struct as_it_is {
    __device__ __forceinline__ struct pair operator()(uint64_t src, const struct work &w) const
    {
        return buffer_sum(src, w);
    }
};

struct with_alike {
    uint64_t from, change;

    __device__ __forceinline__ struct pair operator()(uint64_t src, const struct work &w) const
    {
        struct pair sum = {0, 0};

        for (uint64_t k = w.rank; k < w.count; k += w.warps) {
            uint64_t index = w.leaf(k);

            if (index < w.leaves)
                add(&sum, any_leaf(alike{{src, src + w.bytes}, from, change}, w.bytes, index));
        }
        return sum;
    }
};

/* ------------------------------------------------------------------ results */

/* Where results go. */
struct table {
    uint64_t slots, scratch;
    uint32_t mask;
};

/* Asked before the leaves are read, so that nobody waits for it after them. */
static __device__ __forceinline__ uint64_t ticket_of(uint64_t ticket, uint64_t base)
{
    return base ? ticket + *(const volatile uint64_t *)base - 1 : ticket;
}

/* Nobody has drawn tickets for this launch: it must write nothing. */
static __device__ __forceinline__ bool is_unwanted(uint64_t base)
{
    return base && *(const volatile uint64_t *)base == 0;
}

static __device__ void stamp(const struct table &t, uint64_t ticket, struct pair body, uint64_t n)
{
    volatile struct slot *s = (volatile struct slot *)t.slots + (ticket & t.mask);
    struct pair length = mix(n, 0, ~0ull);

    s->b = body.y + length.y;
    s->a = body.x + length.x;
    __threadfence_system();
    s->stamp = ticket + 1;
}

/* The sum of all threads of a warp that have one: 0, 8, 16, 24. */
static __device__ __forceinline__ void add_warp(struct pair *sum)
{
    for (int k = 8; k < 32; k *= 2) {
        sum->x += swap_lanes(sum->x, k);
        sum->y += swap_lanes(sum->y, k);
    }
}

/* Blocks of one job: true, with the sum of all of them, for thread 0 of the last one. */
static __device__ bool add_blocks(struct pair *sum, struct scratch *s, uint32_t blocks)
{
    __shared__ struct pair part[WARPS];
    uint32_t t = threadIdx.x;

    if (t % 32 == 0)
        part[t / 32] = *sum;
    __syncthreads();
    if (t != 0)
        return false;
    for (uint32_t k = 1; k < WARPS; k++) {
        sum->x += part[k].x;
        sum->y += part[k].y;
    }
    if (blocks == 1)
        return true;
    atomicAdd(&s->a, sum->x);
    atomicAdd(&s->b, sum->y);
    __threadfence();
    if (atomicAdd(&s->arrived, 1ull) + 1 != blocks)
        return false;
    __threadfence();
    sum->x = atomicExch(&s->a, 0ull);
    sum->y = atomicExch(&s->b, 0ull);
    atomicExch(&s->arrived, 0ull);
    return true;
}

static __device__ void finish(const struct table &t, uint64_t ticket, struct pair sum,
                              const struct work &w)
{
    add_warp(&sum);
    if (w.warps == 1
            ? threadIdx.x % 32 == 0
            : add_blocks(&sum, (struct scratch *)t.scratch + (ticket & t.mask), w.warps / WARPS))
        stamp(t, ticket, sum, w.bytes);
}

/* ------------------------------------------------------------------ kernels */

/* first_block of a job is its first warp in the launch. */
template <class B, class F> static __device__ __forceinline__ void batch(const B &b, const F &sum)
{
    uint32_t warp = blockIdx.x * WARPS + threadIdx.x / 32;
    const struct tb_fpd_job &end = b.job[b.jobs ? b.jobs - 1 : 0];
    uint32_t found = 0; /* jobs that begin at this warp or before */

    if (is_unwanted(b.base) || !b.jobs)
        return;
    if (warp > end.first_block && end.bytes <= TB_FPD_ALONE)
        return;
    for (uint32_t k = threadIdx.x % 32; k - threadIdx.x % 32 < b.jobs; k += 32)
        found += __popc(__ballot_sync(ALL, k < b.jobs && b.job[k].first_block <= warp));

    const struct tb_fpd_job &job = b.job[found - 1];
    uint32_t first = job.first_block;
    uint32_t next = found < b.jobs ? b.job[found].first_block : gridDim.x * WARPS;
    bool alone = job.bytes <= TB_FPD_ALONE; /* one warp; the others up to the next job idle */

    if (alone && warp != first)
        return;
    struct work w(job.bytes, job.rate, warp - first, alone ? 1 : next - first);
    uint64_t ticket = ticket_of(job.ticket, b.base);

    finish({b.slots, b.scratch, b.mask}, ticket, sum(job.src, w), w);
}

/* Zeroed when the module is loaded: whoever has no better place for it needs no memory and no wait.
 */
extern "C" {
__device__ struct scratch twinbit_fp_scratch[TB_FPD_SLOTS];
/* One for each executable graph whose nodes are hashed. */
__device__ unsigned long long twinbit_fp_bases[TB_FPD_BASES];
}

extern "C" __global__ void twinbit_fp_base(const __grid_constant__ struct tb_fpd_base b)
{
    if (threadIdx.x == 0)
        *(volatile uint64_t *)b.address = b.value;
}

extern "C" __global__ void __launch_bounds__(TB_FPD_THREADS, 2)
    twinbit_fp_few(const __grid_constant__ struct few b)
{
    batch(b, as_it_is{});
}

extern "C" __global__ void __launch_bounds__(TB_FPD_THREADS, 2)
    twinbit_fp_batch(const __grid_constant__ struct tb_fpd_batch b)
{
    batch(b, as_it_is{});
}

extern "C" __global__ void __launch_bounds__(TB_FPD_THREADS, 2)
    twinbit_fp_alike(const __grid_constant__ struct tb_fpd_alike a)
{
    const uint64_t each = 0x0101010101010101ull;

    batch(a.batch, with_alike{a.byte[1] * each, (a.byte[0] ^ a.byte[1]) * each});
}

extern "C" __global__ void __launch_bounds__(TB_FPD_THREADS, 2)
    twinbit_fp_strided(const __grid_constant__ struct tb_fpd_strided b)
{
    if (is_unwanted(b.base))
        return;
    struct work w(b.bytes, 1, blockIdx.x * WARPS + threadIdx.x / 32, gridDim.x * WARPS);
    struct view v(&b);
    struct pair sum = {0, 0};
    uint64_t ticket = ticket_of(b.ticket, b.base);

    if (w.count > w.warps)
        sum = v.width == 16 ? quads(rows{v}, v, w, false) : quads(v, v, w, false);
    else if (w.rank < w.count)
        sum = any_leaf(v, w.bytes, w.rank);
    finish({b.slots, b.scratch, b.mask}, ticket, sum, w);
}

/* A copy that is a kernel of ours: a copy of the driver's would take part in the order of the
 * job's. */
extern "C" __global__ void __launch_bounds__(TB_FPD_THREADS)
    twinbit_fp_copy(const __grid_constant__ struct tb_fpd_copy c)
{
    uint64_t at = (uint64_t)blockIdx.x * TB_FPD_THREADS + threadIdx.x;
    uint64_t step = (uint64_t)gridDim.x * TB_FPD_THREADS;
    uint64_t words = (c.src | c.dst) % 4 ? 0 : c.bytes / 4;

    for (uint64_t k = at; k < words; k += step)
        ((uint32_t *)c.dst)[k] = ((const uint32_t *)c.src)[k];
    for (uint64_t k = words * 4 + at; k < c.bytes; k += step)
        ((uint8_t *)c.dst)[k] = ((const uint8_t *)c.src)[k];
}

/* A set that is a kernel of ours, for the same reason. */
extern "C" __global__ void __launch_bounds__(TB_FPD_THREADS)
    twinbit_fp_fill(const __grid_constant__ struct tb_fpd_fill f)
{
    uint64_t at = (uint64_t)blockIdx.x * TB_FPD_THREADS + threadIdx.x;
    uint64_t step = (uint64_t)gridDim.x * TB_FPD_THREADS;
    uint64_t words = f.dst % 4 ? 0 : f.bytes / 4;

    for (uint64_t k = at; k < words; k += step)
        ((uint32_t *)f.dst)[k] = f.byte * 0x01010101u;
    for (uint64_t k = words * 4 + at; k < f.bytes; k += step)
        ((uint8_t *)f.dst)[k] = (uint8_t)f.byte;
}
