/* Matrix products; the loops run over columns, so that the vectoriser keeps the order of k. */
#include "softgpu/num/tensor.h"
#include "softgpu/num/soft_internal.h"

#include <string.h>

static double fp8_value(enum sg_type t, uint32_t bits)
{
    struct sg_unpacked v = sg_unpack(t, bits & 0xff);
    uint64_t r = v.cls == SG_CLASS_FINITE
                     ? sg_round_pack(SG_T_F64, v.neg, v.sig, v.exp, SG_RND_RN, false)
                 : v.cls == SG_CLASS_ZERO ? sg_pack_zero(SG_T_F64, v.neg)
                 : v.cls == SG_CLASS_INF  ? sg_pack_inf(SG_T_F64, v.neg)
                                          : SG_F64_NAN;
    return sg_f64_val(r);
}

static void values(enum sg_type t, const uint32_t *in, unsigned n, double *out)
{
    if (t == SG_T_F16) {
        for (unsigned i = 0; i < n; i++)
            out[i] = (double)sg_f32_val(sg_f16_to_f32((uint16_t)in[i]));
    } else if (t == SG_T_BF16) {
        for (unsigned i = 0; i < n; i++)
            out[i] = (double)sg_f32_val(in[i] << 16);
    } else if (t == SG_T_TF32 || t == SG_T_F32) {
        uint32_t mask = t == SG_T_TF32 ? 0xffffe000u : UINT32_MAX;
        for (unsigned i = 0; i < n; i++)
            out[i] = (double)sg_f32_val(in[i] & mask);
    } else {
        for (unsigned i = 0; i < n; i++)
            out[i] = fp8_value(t, in[i]);
    }
}

/* As wide as the registers that this file is compiled for; 8 columns at a time, as all shapes have.
 */
#ifdef __AVX__
#define LANES 4
#else
#define LANES 2
#endif
typedef double lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

/* one row: sum[j] = a[0] * b[0][j] + a[1] * b[1][j] ... in this order */
SG_INLINE void row_sums(const double *a, const double *b, unsigned k, unsigned n, double *sum)
{
    for (unsigned j = 0; j < n; j += 8) {
        lanes acc[8 / LANES] = {{0}};
        for (unsigned i = 0; i < k; i++) {
            const lanes *row = (const lanes *)(b + (size_t)i * n + j);
            lanes x = a[i] - (lanes){0}; /* in every lane */
            for (unsigned v = 0; v < 8 / LANES; v++)
                acc[v] += x * row[v];
        }
        memcpy(sum + j, acc, sizeof(acc));
    }
}

void sg_mma_float(struct sg_mma_shape s, struct sg_mma_types t, const uint32_t *a,
                  const uint32_t *b, const uint32_t *c, uint32_t *d)
{
    double av[SG_MMA_MAX_K], bv[SG_MMA_MAX_K * SG_MMA_MAX_N];
    double cv[SG_MMA_MAX_N], sum[SG_MMA_MAX_N];

    values(t.b, b, (unsigned)s.k * s.n, bv);
    for (unsigned i = 0; i < s.m; i++) {
        values(t.a, a + i * s.k, s.k, av);
        values(t.c, c + i * s.n, s.n, cv);
        row_sums(av, bv, s.k, s.n, sum);
        uint32_t *row = d + i * s.n;
        for (unsigned j = 0; j < s.n; j++) {
            double v = sum[j] + cv[j];
            row[j] = t.d == SG_T_F16 ? sg_f16_from_f64(sg_f64_bits(v))
                                     : sg_f32_canon(sg_f32_bits((float)v));
        }
    }
}

void sg_mma_f64(struct sg_mma_shape s, enum sg_rnd rnd, const uint64_t *a, const uint64_t *b,
                const uint64_t *c, uint64_t *d)
{
    for (unsigned i = 0; i < s.m; i++) {
        for (unsigned j = 0; j < s.n; j++) {
            uint64_t v = c[i * s.n + j];
            for (unsigned k = 0; k < s.k; k++) {
                uint64_t x = a[i * s.k + k], y = b[k * s.n + j];
                if (rnd != SG_RND_RN)
                    v = sg_f64_fma(x, y, v, rnd);
                else
                    v = sg_f64_finish3(__builtin_fma(sg_f64_val(x), sg_f64_val(y), sg_f64_val(v)),
                                       x, y, v);
            }
            d[i * s.n + j] = v;
        }
    }
}

void sg_mma_int(struct sg_mma_shape s, const int32_t *a, const int32_t *b, const int32_t *c,
                int32_t *d, bool satfinite)
{
    int32_t sum[SG_MMA_MAX_N]; /* of products of 8 bits: far from overflow */

    for (unsigned i = 0; i < s.m; i++) {
        memset(sum, 0, sizeof(sum));
        for (unsigned k = 0; k < s.k; k++)
            for (unsigned j = 0; j < s.n; j++)
                sum[j] += a[i * s.k + k] * b[k * s.n + j];
        for (unsigned j = 0; j < s.n; j++) {
            int64_t v = (int64_t)c[i * s.n + j] + sum[j];
            d[i * s.n + j] = (int32_t)(satfinite ? sg_sat_s32(v) : (uint32_t)v);
        }
    }
}

void sg_mma_b1(struct sg_mma_shape s, bool and_popc, const uint32_t *a, const uint32_t *b,
               const int32_t *c, int32_t *d)
{
    unsigned words = s.k / 32;

    for (unsigned i = 0; i < s.m; i++) {
        for (unsigned j = 0; j < s.n; j++) {
            uint32_t v = (uint32_t)c[i * s.n + j];
            for (unsigned w = 0; w < words; w++) {
                uint32_t x = a[i * words + w], y = b[j * words + w];
                v += sg_popc32(and_popc ? x & y : x ^ y);
            }
            d[i * s.n + j] = (int32_t)v;
        }
    }
}
