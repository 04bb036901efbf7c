/*
 * XXH3-128 of whole leaves with AVX2, written from the xxHash specification for the one length
 * 4096.
 *
 * Faster than a general XXH3 on leaves for three reasons: the swap of neighbouring lanes is done
 * once a block instead of once a stripe (acc[i ^ 1] += data[i] commutes with what else a block
 * adds), the end of several leaves is worked off together so that their multiplications overlap,
 * and no length is looked at. A leaf is 4 blocks of 16 stripes of 64 bytes; the last stripe of the
 * last block uses another part of the secret, and a scramble stands between blocks.
 */
#include "fingerprint/fp_internal.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((target("avx2"), always_inline))

#define STRIPE 64
#define STRIPES 16 /* a block */
#define BLOCKS 4   /* a leaf */
#define SECRET 192
#define SECRET_SCRAMBLE (SECRET - 64)
#define SECRET_LAST (SECRET - 64 - 7)
#define SECRET_LOW 11
#define SECRET_HIGH (SECRET - 64 - 11)
#define AHEAD 768 /* bytes a prefetch runs ahead */
#define BATCH 8

#define P32_1 0x9E3779B1u
#define P32_2 0x85EBCA77u
#define P32_3 0xC2B2AE3Du
#define P64_1 0x9E3779B185EBCA87u
#define P64_2 0xC2B2AE3D27D4EB4Fu
#define P64_3 0x165667B19E3779F9u
#define P64_4 0x85EBCA77C2B2AE63u
#define P64_5 0x27D4EB2F165667C5u
#define MERGE_MUL 0x165667919E3779F9u

/* The default secret of XXH3 (xxHash specification). */
static const uint8_t secret[SECRET] __attribute__((aligned(64))) = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

/* The eight 64-bit accumulators at the end of a leaf. */
struct acc {
    uint64_t v[8];
};

AVX2_INLINE __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* (low 32 bits) * (high 32 bits) of data ^ key, in each lane */
AVX2_INLINE __m256i product(__m256i data, __m256i key)
{
    __m256i k = _mm256_xor_si256(data, key);

    return _mm256_mul_epu32(k, _mm256_srli_epi64(k, 32));
}

AVX2_INLINE __m256i swap_neighbours(__m256i x)
{
    return _mm256_shuffle_epi32(x, _MM_SHUFFLE(1, 0, 3, 2));
}

/* acc = (acc ^ acc >> 47 ^ key) * P32_1 */
AVX2_INLINE __m256i scramble(__m256i acc, __m256i key)
{
    const __m256i prime = _mm256_set1_epi32((int)P32_1);
    __m256i x = _mm256_xor_si256(_mm256_xor_si256(acc, _mm256_srli_epi64(acc, 47)), key);
    __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), prime);

    return _mm256_add_epi64(_mm256_mul_epu32(x, prime), _mm256_slli_epi64(high, 32));
}

/* Lanes 0-3 and 4-7: the accumulators, and the sum of the block's data still to be swapped in. */
struct lanes {
    __m256i acc0, acc1, data0, data1;
};

AVX2_INLINE void stripe(struct lanes *l, const uint8_t *p, const uint8_t *key)
{
    __m256i x0 = load(p);
    __m256i x1 = load(p + 32);

    l->acc0 = _mm256_add_epi64(l->acc0, product(x0, load(key)));
    l->acc1 = _mm256_add_epi64(l->acc1, product(x1, load(key + 32)));
    l->data0 = _mm256_add_epi64(l->data0, x0);
    l->data1 = _mm256_add_epi64(l->data1, x1);
    /* Keeps the compiler from reordering the sums over a block, which would spill registers. */
    __asm__("" : "+x"(l->acc0), "+x"(l->acc1), "+x"(l->data0), "+x"(l->data1));
}

AVX2_INLINE void block(struct lanes *l, const uint8_t *p, const uint8_t *last_key)
{
    l->data0 = l->data1 = _mm256_setzero_si256();
#pragma GCC unroll 15
    for (int s = 0; s < STRIPES - 1; s++) {
        __builtin_prefetch(p + s * STRIPE + AHEAD);
        stripe(l, p + s * STRIPE, secret + 8 * s);
    }
    __builtin_prefetch(p + (STRIPES - 1) * STRIPE + AHEAD);
    stripe(l, p + (STRIPES - 1) * STRIPE, last_key);
    l->acc0 = _mm256_add_epi64(l->acc0, swap_neighbours(l->data0));
    l->acc1 = _mm256_add_epi64(l->acc1, swap_neighbours(l->data1));
}

AVX2_INLINE void accumulate(const uint8_t *p, struct acc *out)
{
    struct lanes l = {
        .acc0 = _mm256_set_epi64x((int64_t)P64_3, (int64_t)P64_2, (int64_t)P64_1, P32_3),
        .acc1 = _mm256_set_epi64x(P32_1, (int64_t)P64_5, P32_2, (int64_t)P64_4),
    };

    for (int b = 0; b < BLOCKS - 1; b++) {
        block(&l, p, secret + 8 * (STRIPES - 1));
        l.acc0 = scramble(l.acc0, load(secret + SECRET_SCRAMBLE));
        l.acc1 = scramble(l.acc1, load(secret + SECRET_SCRAMBLE + 32));
        p += STRIPES * STRIPE;
    }
    block(&l, p, secret + SECRET_LAST);
    _mm256_storeu_si256((__m256i *)(void *)&out->v[0], l.acc0);
    _mm256_storeu_si256((__m256i *)(void *)&out->v[4], l.acc1);
}

static inline uint64_t key64(size_t at)
{
    uint64_t v;

    memcpy(&v, secret + at, sizeof v);
    return v;
}

static inline uint64_t mul_fold(uint64_t x, uint64_t y)
{
    unsigned __int128 p = (unsigned __int128)x * y;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline uint64_t merge(const struct acc *a, size_t at, uint64_t h)
{
    for (int k = 0; k < 4; k++) {
        size_t s = at + 16u * (unsigned)k;

        h += mul_fold(a->v[2 * k] ^ key64(s), a->v[2 * k + 1] ^ key64(s + 8));
    }
    h ^= h >> 37;
    h *= MERGE_MUL;
    return h ^ h >> 32;
}

bool fp_avx2_usable(void)
{
    return __builtin_cpu_supports("avx2");
}

/* The ends of @m leaves; meanwhile no data is read, so memory is kept busy with the next bytes. */
AVX2_INLINE void finish(const struct acc *acc, size_t m, const uint8_t *next,
                        struct tb_fp_leaf *out)
{
    for (size_t k = 0; k < m; k++) {
        __builtin_prefetch(next + AHEAD + 2 * k * STRIPE);
        __builtin_prefetch(next + AHEAD + (2 * k + 1) * STRIPE);
        out[k].lo = merge(&acc[k], SECRET_LOW, TB_FP_LEAF * P64_1);
        out[k].hi = merge(&acc[k], SECRET_HIGH, ~(TB_FP_LEAF * P64_2));
    }
}

AVX2 void fp_full_leaves_avx2(const uint8_t *src, size_t count, struct tb_fp_leaf *out)
{
    struct acc acc[BATCH];

    while (count > 0) {
        size_t m = count < BATCH ? count : BATCH;

        for (size_t k = 0; k < m; k++)
            accumulate(src + k * TB_FP_LEAF, &acc[k]);
        src += m * TB_FP_LEAF;
        finish(acc, m, src, out);
        out += m;
        count -= m;
    }
}

#else

bool fp_avx2_usable(void)
{
    return false;
}

void fp_full_leaves_avx2(const uint8_t *src, size_t count, struct tb_fp_leaf *out)
{
    (void)src;
    (void)count;
    (void)out;
}

#endif
