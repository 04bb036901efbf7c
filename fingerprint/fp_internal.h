/*
 * fp_internal.h - what the files of fingerprint/ share: the mix as an inline function, leaf
 * engines, the split of work over a lent pool. Private to this folder.
 */
#ifndef TB_FINGERPRINT_FP_INTERNAL_H
#define TB_FINGERPRINT_FP_INTERNAL_H

#include "fingerprint/fingerprint.h"

/* Index of the length term: no leaf has it, a buffer would need 2^76 bytes. */
#define TB_FP_LENGTH_INDEX UINT64_MAX

/* The 64-bit finaliser of MurmurHash3: a bijection. */
static inline uint64_t fp_fmix64(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xFF51AFD7ED558CCDu;
    h ^= h >> 33;
    h *= 0xC4CEB9FE1A85EC53u;
    h ^= h >> 33;
    return h;
}

/* FORMAT.md section 3. */
static inline struct tb_fp fp_mix(struct tb_fp_leaf d, uint64_t index)
{
    uint64_t y = fp_fmix64(d.hi ^ fp_fmix64(d.lo ^ fp_fmix64(index + 0x9E3779B97F4A7C15u)));

    return (struct tb_fp){fp_fmix64(d.lo + fp_fmix64(y ^ index)), y};
}

/* FORMAT.md section 13: the leaf that stands for leaves k * rate to (k + 1) * rate - 1 */
static inline uint64_t fp_sample(uint64_t k, uint32_t rate)
{
    return k == 0 ? 0 : k * rate + ((fp_fmix64(k + 0x9E3779B97F4A7C15u) >> 32) * rate >> 32);
}

/* Digests of @count whole leaves that lie one after the other. */
typedef void fp_full_fn(const uint8_t *src, size_t count, struct tb_fp_leaf *out);

/* By the engine tb_fp_init() chose. */
fp_full_fn fp_full_leaves;
/* Sum of the contributions of @count whole leaves. */
struct tb_fp fp_full_body(const uint8_t *src, size_t count, uint64_t index);

/* leaf_avx2.c; on machines that are not x86-64 it says no and the function must not be called. */
bool fp_avx2_usable(void);
fp_full_fn fp_full_leaves_avx2;

/**
 * fp_split - sum @part over all leaves, with @pool's threads if it has some and @bytes is enough
 * @part: body of leaves [first, last); called on any thread
 */
struct tb_fp fp_split(const struct tb_fp_pool *pool, uint64_t bytes, size_t leaves,
                      struct tb_fp (*part)(const void *ctx, size_t first, size_t last),
                      const void *ctx);

#endif
