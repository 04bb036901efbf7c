/*
 * The arithmetic of tensor-core instructions on whole matrices: d = a * b + c.
 *
 * Start at sg_mma_float(). Which element lies in which register of which lane is the caller's; here
 * matrices are plain arrays, row-major, one element an entry.
 *
 * The accumulation rule (PTX leaves order and rounding open): products are exact; the k products
 * of an element are summed in f64 in the order of k, starting from +0; then c is added, in f64;
 * then one rounding to d's type, to nearest even. Subnormals count in full. NaN is canonical.
 * f64 matrices: the chain of fma from c in the order of k. Integers: the exact sum, then wrapped
 * to 32 bits or, with .satfinite, clamped once.
 *
 * Threads: pure. sg_mma_float() and sg_mma_f64() need the default floating-point environment.
 */
#ifndef SG_NUM_TENSOR_H
#define SG_NUM_TENSOR_H

#include "softgpu/num/num.h"

#define SG_MMA_MAX_M 32
#define SG_MMA_MAX_N 32
#define SG_MMA_MAX_K 64 /* of sg_mma_float */

struct sg_mma_shape {
    uint16_t m, n, k;
};

/* Element types of a floating-point product. */
struct sg_mma_types {
    uint8_t a, b; /* enum sg_type: F16, BF16, TF32, E4M3, E5M2 */
    uint8_t c, d; /* F32 or F16 */
};

/**
 * sg_mma_float - products of f16, bf16, tf32, e4m3, e5m2 into f32 or f16
 * @s: m, n, k up to SG_MMA_MAX_*; n is a multiple of 8
 * @a: m * k element bits, row-major; of TF32 the low 13 bits are ignored
 * @b: k * n, row-major
 * @c: m * n; may be @d
 */
void sg_mma_float(struct sg_mma_shape s, struct sg_mma_types t, const uint32_t *a,
                  const uint32_t *b, const uint32_t *c, uint32_t *d);

/* f64; @rnd rounds every step */
void sg_mma_f64(struct sg_mma_shape s, enum sg_rnd rnd, const uint64_t *a, const uint64_t *b,
                const uint64_t *c, uint64_t *d);

/* u8, s8, u4, s4, already extended to 32 bits; any k */
void sg_mma_int(struct sg_mma_shape s, const int32_t *a, const int32_t *b, const int32_t *c,
                int32_t *d, bool satfinite);

/* b1: @a is m rows, @b is n columns of k bits, 32 a word; counts ones of a & b or a ^ b */
void sg_mma_b1(struct sg_mma_shape s, bool and_popc, const uint32_t *a, const uint32_t *b,
               const int32_t *c, int32_t *d);

#endif
