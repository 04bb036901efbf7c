/*
 * The .approx functions: polynomials in double, own code, no libm, so that the bits are the same on
 * every x86-64; branch-free, for the vectoriser. The error is far below the ISA's bounds (measured
 * by tests/softgpu/num/test_approx.c); special cases are the ISA's tables. Hardware's bits differ.
 *
 * They need the default floating-point environment: sg_num_enter(). Without SG_NUM_FTZ subnormals
 * are supported; with it the operands and the results are flushed.
 */
#ifndef SG_NUM_NUM_APPROX_H
#define SG_NUM_NUM_APPROX_H

#include "softgpu/num/num_inline.h"

/* adding it rounds to an integer, which is then in the low bits */
#define SG_ROUND_MAGIC_ 6755399441055744.0 /* 1.5 * 2^52 */

SG_INLINE uint32_t sg_approx_in_(uint32_t a, unsigned flags)
{
    return flags & SG_NUM_FTZ ? sg_f32_ftz(a) : a;
}

/* ---- ex2, tanh ------------------------------------------------------------------------------- */

/* 2^x, relative error below 2^-31; x is clamped to +-300, NaN gives a number */
SG_INLINE double sg_exp2_(double x)
{
    x = x > -300.0 ? x : -300.0;
    x = x < 300.0 ? x : 300.0;
    double t = x + SG_ROUND_MAGIC_;
    double f = (x - (t - SG_ROUND_MAGIC_)) * 0.69314718055994530942;
    double p = 1.0 / 40320;
    p = p * f + 1.0 / 5040;
    p = p * f + 1.0 / 720;
    p = p * f + 1.0 / 120;
    p = p * f + 1.0 / 24;
    p = p * f + 1.0 / 6;
    p = p * f + 0.5;
    p = p * f + 1.0;
    p = p * f + 1.0;
    return p * sg_f64_val((sg_f64_bits(t) + 1023) << 52);
}

SG_INLINE uint32_t sg_f32_ex2_approx(uint32_t a, unsigned flags)
{
    a = sg_approx_in_(a, flags);
    uint32_t r = sg_f32_bits((float)sg_exp2_((double)sg_f32_val(a)));
    r = sg_f32_is_nan(a) ? SG_F32_NAN : r;
    return flags & SG_NUM_FTZ ? sg_f32_ftz(r) : r;
}

/* for |x| < 1/4 the series, else 1 - 2 / (e^2|x| + 1): no cancellation in either */
SG_INLINE double sg_tanh_(double x)
{
    double ax = x < 0 ? -x : x, s = x * x;
    double p = -1382.0 / 155925;
    p = p * s + 62.0 / 2835;
    p = p * s - 17.0 / 315;
    p = p * s + 2.0 / 15;
    p = p * s - 1.0 / 3;
    double small = ax + ax * (s * p);
    double big = 1.0 - 2.0 / (sg_exp2_(ax * 2.88539008177792681472) + 1.0);
    double r = ax < 0.25 ? small : big;
    return x < 0 ? -r : r;
}

SG_INLINE uint32_t sg_f32_tanh_approx(uint32_t a)
{
    uint32_t r = sg_f32_bits((float)sg_tanh_((double)sg_f32_val(a)));
    r = (a & 0x7fffffffu) <= 0x00800000u ? a : r; /* zeros and subnormals: the operand */
    return sg_f32_is_nan(a) ? SG_F32_NAN : r;
}

#define SG_DEFINE_HALF_APPROX(prefix, NAN_BITS, INF)                                               \
    SG_INLINE uint16_t prefix##_ex2_(uint16_t a)                                                   \
    {                                                                                              \
        uint16_t r = prefix##_from_f64(sg_f64_bits(sg_exp2_(prefix##_val(a))));                    \
        return (a & 0x7fffu) > (INF) ? (uint16_t)(NAN_BITS) : r;                                   \
    }                                                                                              \
    SG_INLINE uint16_t prefix##_tanh_approx(uint16_t a)                                            \
    {                                                                                              \
        uint16_t r = prefix##_from_f64(sg_f64_bits(sg_tanh_(prefix##_val(a))));                    \
        r = (a & (INF)) == 0 ? a : r;                                                              \
        return (a & 0x7fffu) > (INF) ? (uint16_t)(NAN_BITS) : r;                                   \
    }

SG_DEFINE_HALF_APPROX(sg_f16, SG_F16_NAN, 0x7c00u)
SG_DEFINE_HALF_APPROX(sg_bf16, SG_BF16_NAN, 0x7f80u)

SG_INLINE uint16_t sg_f16_ex2_approx(uint16_t a)
{
    return sg_f16_ex2_(a);
}

SG_INLINE uint16_t sg_bf16_ex2_approx_ftz(uint16_t a)
{
    uint16_t r = sg_bf16_ex2_(a); /* a subnormal operand gives 1 anyway */
    return r & 0x7f80u ? r : 0;
}

/* ---- lg2 ------------------------------------------------------------------------------------- */

/* log2 of a positive, finite, normal double; relative error below 2^-33 */
SG_INLINE double sg_log2_(double x)
{
    /* x = m * 2^k with m in [sqrt(1/2), sqrt(2)) */
    const uint64_t low = UINT64_C(0x3fe6a09e667f3bcd), bits = sg_f64_bits(x);
    uint64_t up = bits - low, k = up & ~((UINT64_C(1) << 52) - 1);
    double m = sg_f64_val(bits - k);
    /* the exponent as a double without a 64-bit conversion: 2^52 + 2^11 + k, k >= -2^11 */
    double e = sg_f64_val((k >> 52 ^ 0x800) | UINT64_C(0x4330000000000000)) - 4503599627372544.0;
    double t = (m - 1.0) / (m + 1.0), s = t * t;
    double p = 1.0 / 13;
    p = p * s + 1.0 / 11;
    p = p * s + 1.0 / 9;
    p = p * s + 1.0 / 7;
    p = p * s + 1.0 / 5;
    p = p * s + 1.0 / 3;
    p = p * s + 1.0;
    return e + t * p * 2.88539008177792681472;
}

SG_INLINE uint32_t sg_f32_lg2_approx(uint32_t a, unsigned flags)
{
    a = sg_approx_in_(a, flags);
    bool usable = a - 1 < 0x7f7fffffu; /* positive, finite */
    uint32_t r = sg_f32_bits((float)sg_log2_((double)sg_f32_val(usable ? a : 0x3f800000u)));
    uint32_t out = a == 0x7f800000u ? a : SG_F32_NAN;
    out = (a & 0x7fffffffu) == 0 ? 0xff800000u : out;
    r = usable ? r : out;
    return flags & SG_NUM_FTZ ? sg_f32_ftz(r) : r;
}

/* ---- sin, cos -------------------------------------------------------------------------------- */

/* sin(x + quadrants * pi/2); exact reduction up to 2^31, coarse but in range beyond */
SG_INLINE double sg_sin_(double x, uint64_t quadrants)
{
    double ax = x < 0 ? -x : x;
    /* beyond: whole turns are taken off in double; from 2^53 on nothing is left of the angle */
    double turns = x * 0.15915494309189533577, n = turns + SG_ROUND_MAGIC_;
    double frac = turns - (n - SG_ROUND_MAGIC_);
    frac = ax < 9007199254740992.0 ? frac : 0.0;
    x = ax < 2147483648.0 ? x : frac * 6.28318530717958647692;
    double t = x * 0.63661977236758134308 + SG_ROUND_MAGIC_, k = t - SG_ROUND_MAGIC_;
    /* pi/2 in parts of 21, 21 and 53 bits: the first two products are exact */
    double r = x - k * 0x1.921fbp+0;
    r = r - k * 0x1.5110bp-22;
    r = r - k * 0x1.18469898cc517p-44;
    uint64_t q = sg_f64_bits(t) + quadrants;
    double s = r * r;
    double ps = -1.0 / 39916800;
    ps = ps * s + 1.0 / 362880;
    ps = ps * s - 1.0 / 5040;
    ps = ps * s + 1.0 / 120;
    ps = ps * s - 1.0 / 6;
    ps = r + r * (s * ps);
    double pc = 1.0 / 479001600;
    pc = pc * s - 1.0 / 3628800;
    pc = pc * s + 1.0 / 40320;
    pc = pc * s - 1.0 / 720;
    pc = pc * s + 1.0 / 24;
    pc = pc * s - 0.5;
    pc = pc * s + 1.0;
    double v = q & 1 ? pc : ps;
    return q & 2 ? -v : v;
}

SG_INLINE uint32_t sg_sincos_(uint32_t a, uint64_t quadrants, unsigned flags)
{
    a = sg_approx_in_(a, flags);
    bool finite = (a & 0x7fffffffu) < 0x7f800000u;
    uint32_t r = sg_f32_bits((float)sg_sin_((double)sg_f32_val(finite ? a : 0), quadrants));
    r = finite ? r : SG_F32_NAN;
    r = (a & 0x7fffffffu) < 0x00800000u && quadrants == 0 ? a : r; /* zeros, subnormals */
    return flags & SG_NUM_FTZ ? sg_f32_ftz(r) : r;
}

SG_INLINE uint32_t sg_f32_sin_approx(uint32_t a, unsigned flags)
{
    return sg_sincos_(a, 0, flags);
}

SG_INLINE uint32_t sg_f32_cos_approx(uint32_t a, unsigned flags)
{
    return sg_sincos_(a, 1, flags);
}

/* ---- reciprocals, roots, quotients: the CPU's correctly rounded ones serve ---------------------
 */

SG_INLINE uint32_t sg_f32_rcp_approx(uint32_t a, unsigned flags)
{
    return sg_f32_finish(1.0f / sg_f32_val(sg_approx_in_(a, flags)), flags & SG_NUM_FTZ);
}

SG_INLINE uint32_t sg_f32_sqrt_approx(uint32_t a, unsigned flags)
{
    float r = __builtin_sqrtf(sg_f32_val(sg_approx_in_(a, flags)));
    return sg_f32_finish(r, flags & SG_NUM_FTZ);
}

SG_INLINE uint32_t sg_f32_rsqrt_approx(uint32_t a, unsigned flags)
{
    double r = 1.0 / __builtin_sqrt((double)sg_f32_val(sg_approx_in_(a, flags)));
    return sg_f32_finish((float)r, flags & SG_NUM_FTZ);
}

SG_INLINE uint32_t sg_f32_div_full(uint32_t a, uint32_t b, unsigned flags)
{
    float r = sg_f32_val(sg_approx_in_(a, flags)) / sg_f32_val(sg_approx_in_(b, flags));
    return sg_f32_finish(r, flags & SG_NUM_FTZ);
}

/* 2^126 < |b| < 2^128 acts as an infinite b: a zero, or NaN if @a is infinite */
SG_INLINE uint32_t sg_f32_div_approx(uint32_t a, uint32_t b, unsigned flags)
{
    uint32_t m = b & 0x7fffffffu;
    b = m > 0x7e800000u && m < 0x7f800000u ? (b | 0x7f800000u) & 0xff800000u : b;
    return sg_f32_div_full(a, b, flags);
}

/* the upper word of @r, rounded, subnormals flushed; NaN is the one that the ISA names */
SG_INLINE uint64_t sg_f64_upper_(double r)
{
    uint64_t u = sg_f64_bits(r), m = u & ~(UINT64_C(1) << 63);
    uint64_t v = (u + UINT64_C(0x80000000)) & UINT64_C(0xffffffff00000000);
    v = m < UINT64_C(0x0010000000000000) ? u & (UINT64_C(1) << 63) : v;
    return m > UINT64_C(0x7ff0000000000000) ? UINT64_C(0x7fffffff00000000) : v;
}

SG_INLINE double sg_f64_upper_in_(uint64_t a)
{
    uint64_t nan = sg_f64_is_nan(a) ? UINT64_C(0x7fffffff00000000) : 0;
    uint64_t flushed =
        (a >> 52 & 0x7ff) ? a & UINT64_C(0xffffffff00000000) : a & (UINT64_C(1) << 63);
    return sg_f64_val(nan ? nan : flushed);
}

SG_INLINE uint64_t sg_f64_rcp_approx_ftz(uint64_t a)
{
    return sg_f64_upper_(1.0 / sg_f64_upper_in_(a));
}

SG_INLINE uint64_t sg_f64_rsqrt_approx_ftz(uint64_t a)
{
    return sg_f64_upper_(1.0 / __builtin_sqrt(sg_f64_upper_in_(a)));
}

SG_INLINE uint64_t sg_f64_rsqrt_approx(uint64_t a)
{
    return sg_f64_finish1(1.0 / __builtin_sqrt(sg_f64_val(a)), a);
}

#endif
