/*
 * Inlines on the bits of floats, written so that gcc vectorises a loop over lanes that calls them:
 * no branches but selects, no calls. Where @flags or @rnd are parameters, pass constants.
 *
 * Those that compute with float or double (f16 and bf16 arithmetic, comparisons, conversions) need
 * the default floating-point environment: sg_num_enter().
 */
#ifndef SG_NUM_NUM_INLINE_H
#define SG_NUM_NUM_INLINE_H

#include "softgpu/num/num_types.h"

#include <string.h>

/* ---- bits and values ---------------------------------------------------------------------- */

SG_INLINE float sg_f32_val(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

SG_INLINE uint32_t sg_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

SG_INLINE double sg_f64_val(uint64_t u)
{
    double f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

SG_INLINE uint64_t sg_f64_bits(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

/* ---- f32: flush, NaN, saturation ------------------------------------------------------------ */

SG_INLINE uint32_t sg_f32_ftz(uint32_t u)
{
    return (u & 0x7f800000u) ? u : u & 0x80000000u;
}

SG_INLINE bool sg_f32_is_nan(uint32_t u)
{
    return (u & 0x7fffffffu) > 0x7f800000u;
}

SG_INLINE uint32_t sg_f32_canon(uint32_t u)
{
    return sg_f32_is_nan(u) ? SG_F32_NAN : u;
}

/* clamp to [+0, 1]; NaN and everything with a sign give +0 */
SG_INLINE uint32_t sg_f32_sat(uint32_t u)
{
    u = u > 0x7f800000u ? 0 : u;
    return u > 0x3f800000u ? 0x3f800000u : u;
}

SG_INLINE uint32_t sg_f32_relu(uint32_t u)
{
    uint32_t r = (int32_t)u < 0 ? 0 : u;
    return sg_f32_is_nan(u) ? SG_F32_NAN : r;
}

/* what follows an f32 operation computed in C: NaN canonical, then @flags */
SG_INLINE uint32_t sg_f32_finish(float f, unsigned flags)
{
    uint32_t u = sg_f32_canon(sg_f32_bits(f));
    if (flags & SG_NUM_FTZ)
        u = sg_f32_ftz(u);
    if (flags & SG_NUM_SAT)
        u = sg_f32_sat(u);
    return u;
}

SG_INLINE uint32_t sg_f32_neg(uint32_t u, unsigned flags)
{
    return (flags & SG_NUM_FTZ ? sg_f32_ftz(u) : u) ^ 0x80000000u;
}

SG_INLINE uint32_t sg_f32_abs(uint32_t u, unsigned flags)
{
    return (flags & SG_NUM_FTZ ? sg_f32_ftz(u) : u) & 0x7fffffffu;
}

/* copysign.f32 d, a, b: the sign of @a on the value of @b */
SG_INLINE uint32_t sg_f32_copysign(uint32_t a, uint32_t b)
{
    return (a & 0x80000000u) | (b & 0x7fffffffu);
}

SG_INLINE uint64_t sg_f64_copysign(uint64_t a, uint64_t b)
{
    return (a & (UINT64_C(1) << 63)) | (b & ~(UINT64_C(1) << 63));
}

/* ---- f64: NaN ------------------------------------------------------------------------------- */

SG_INLINE bool sg_f64_is_nan(uint64_t u)
{
    return (u & ~(UINT64_C(1) << 63)) > UINT64_C(0x7ff0000000000000);
}

SG_INLINE uint64_t sg_f64_quiet(uint64_t u)
{
    return u | UINT64_C(0x0008000000000000);
}

/* the result of an f64 operation computed in C, its NaN by our rule whatever the CPU made: the
 * first operand that is a NaN, quiet, else SG_F64_NAN */
SG_INLINE uint64_t sg_f64_finish1(double r, uint64_t a)
{
    uint64_t u = sg_f64_bits(r), n = sg_f64_is_nan(a) ? sg_f64_quiet(a) : SG_F64_NAN;
    return sg_f64_is_nan(u) ? n : u;
}

SG_INLINE uint64_t sg_f64_finish2(double r, uint64_t a, uint64_t b)
{
    uint64_t u = sg_f64_bits(r), n = sg_f64_is_nan(b) ? sg_f64_quiet(b) : SG_F64_NAN;
    n = sg_f64_is_nan(a) ? sg_f64_quiet(a) : n;
    return sg_f64_is_nan(u) ? n : u;
}

SG_INLINE uint64_t sg_f64_finish3(double r, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t u = sg_f64_bits(r), n = sg_f64_is_nan(c) ? sg_f64_quiet(c) : SG_F64_NAN;
    n = sg_f64_is_nan(b) ? sg_f64_quiet(b) : n;
    n = sg_f64_is_nan(a) ? sg_f64_quiet(a) : n;
    return sg_f64_is_nan(u) ? n : u;
}

/* abs.f64: a NaN is passed through, its sign too */
SG_INLINE uint64_t sg_f64_abs(uint64_t u)
{
    return sg_f64_is_nan(u) ? u : u & ~(UINT64_C(1) << 63);
}

SG_INLINE uint64_t sg_f64_sat(uint64_t u)
{
    u = u > UINT64_C(0x7ff0000000000000) ? 0 : u;
    return u > UINT64_C(0x3ff0000000000000) ? UINT64_C(0x3ff0000000000000) : u;
}

/* ---- min and max of every format ------------------------------------------------------------
 * -0 < +0; one NaN loses, unless SG_NUM_NAN; two give the canonical NaN. FTZ flushes the operands;
 * XORSIGN compares the magnitudes and gives the result the xor of the signs, NaN results apart. */
#define SG_DEFINE_MINMAX(prefix, U, S, BITS, NAN_BITS, EXP_MASK)                                   \
    SG_INLINE U prefix##_minmax_(U a, U b, bool max, unsigned flags)                               \
    {                                                                                              \
        const U sign = (U)((U)1 << (BITS - 1)), mag = (U)(sign - 1);                               \
        if (flags & SG_NUM_FTZ) {                                                                  \
            a = (a & (EXP_MASK)) ? a : (U)(a & sign);                                              \
            b = (b & (EXP_MASK)) ? b : (U)(b & sign);                                              \
        }                                                                                          \
        U xs = (U)((a ^ b) & sign);                                                                \
        if (flags & SG_NUM_XORSIGN) {                                                              \
            a = (U)(a & mag);                                                                      \
            b = (U)(b & mag);                                                                      \
        }                                                                                          \
        bool na = (U)(a & mag) > (U)(EXP_MASK), nb = (U)(b & mag) > (U)(EXP_MASK);                 \
        S ka = (S)((a & sign) ? (U)(a ^ mag) : a), kb = (S)((b & sign) ? (U)(b ^ mag) : b);        \
        U r = (max ? ka > kb : ka < kb) ? a : b;                                                   \
        r = na ? b : r;                                                                            \
        r = nb ? a : r;                                                                            \
        if (flags & SG_NUM_XORSIGN)                                                                \
            r = (U)(r | xs);                                                                       \
        return ((flags & SG_NUM_NAN) ? (na | nb) : (na & nb)) ? (U)(NAN_BITS) : r;                 \
    }                                                                                              \
    SG_INLINE U prefix##_min(U a, U b, unsigned flags)                                             \
    {                                                                                              \
        return prefix##_minmax_(a, b, false, flags);                                               \
    }                                                                                              \
    SG_INLINE U prefix##_max(U a, U b, unsigned flags)                                             \
    {                                                                                              \
        return prefix##_minmax_(a, b, true, flags);                                                \
    }

SG_DEFINE_MINMAX(sg_f32, uint32_t, int32_t, 32, SG_F32_NAN, 0x7f800000u)
SG_DEFINE_MINMAX(sg_f64, uint64_t, int64_t, 64, SG_F64_NAN, UINT64_C(0x7ff0000000000000))
SG_DEFINE_MINMAX(sg_f16, uint16_t, int16_t, 16, SG_F16_NAN, 0x7c00u)
SG_DEFINE_MINMAX(sg_bf16, uint16_t, int16_t, 16, SG_BF16_NAN, 0x7f80u)

/* ---- f16 and bf16 to and from f32 and f64 ---------------------------------------------------- */

SG_INLINE uint32_t sg_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, mag = (uint32_t)(h & 0x7fffu) << 13;
    uint32_t r = mag + (112u << 23);
    /* subnormals: 2^-14 + mag - 2^-14 is exact and never meets an f32 subnormal */
    uint32_t s = sg_f32_bits(sg_f32_val(mag + (113u << 23)) - sg_f32_val(113u << 23));
    r = mag < (1u << 23) ? s : r;
    r = mag >= (31u << 23) ? 0x7f800000u : r;
    r |= sign;
    return mag > (31u << 23) ? SG_F32_NAN : r;
}

SG_INLINE uint16_t sg_f16_from_f32(uint32_t u)
{
    uint32_t m = u & 0x7fffffffu;
    uint32_t r = (m + 0xfffu + ((m >> 13) & 1) - (112u << 23)) >> 13;
    /* 0.5 has the distance of f16's subnormals: the addition rounds */
    uint32_t s = sg_f32_bits(sg_f32_val(m) + 0.5f) - 0x3f000000u;
    r = r > 0x7c00u ? 0x7c00u : r;
    r = m < 0x38800000u ? s : r;
    r |= (u >> 16) & 0x8000u;
    return (uint16_t)(m > 0x7f800000u ? SG_F16_NAN : r);
}

SG_INLINE uint32_t sg_bf16_to_f32(uint16_t h)
{
    return sg_f32_canon((uint32_t)h << 16);
}

SG_INLINE uint16_t sg_bf16_from_f32(uint32_t u)
{
    uint32_t r = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    return (uint16_t)(sg_f32_is_nan(u) ? SG_BF16_NAN : r);
}

SG_INLINE double sg_f16_val(uint16_t h)
{
    return (double)sg_f32_val(sg_f16_to_f32(h));
}

SG_INLINE double sg_bf16_val(uint16_t h)
{
    return (double)sg_f32_val((uint32_t)h << 16);
}

/* an f64 rounded to nearest even to a smaller format of @mant mantissa bits */
SG_INLINE uint32_t sg_f64_narrow_(uint64_t u, unsigned mant, unsigned bias, uint32_t inf,
                                  uint32_t nan, uint32_t sign)
{
    const unsigned shift = 52 - mant;
    const uint64_t rebias = (uint64_t)(1023 - bias) << 52;
    const uint64_t magic = (uint64_t)(1023 - bias + 1 + shift) << 52; /* ulp: the subnormals' */
    uint64_t m = u & ~(UINT64_C(1) << 63);
    uint64_t r = (m + ((UINT64_C(1) << (shift - 1)) - 1) + ((m >> shift) & 1) - rebias) >> shift;
    uint64_t s = sg_f64_bits(sg_f64_val(m) + sg_f64_val(magic)) - magic;
    r = r > inf ? inf : r;
    r = m < rebias + (UINT64_C(1) << 52) ? s : r;
    r |= (u >> 63) ? sign : 0;
    return (uint32_t)(m > UINT64_C(0x7ff0000000000000) ? nan : r);
}

SG_INLINE uint16_t sg_f16_from_f64(uint64_t u)
{
    return (uint16_t)sg_f64_narrow_(u, 10, 15, 0x7c00, SG_F16_NAN, 0x8000);
}

SG_INLINE uint16_t sg_bf16_from_f64(uint64_t u)
{
    return (uint16_t)sg_f64_narrow_(u, 7, 127, 0x7f80, SG_BF16_NAN, 0x8000);
}

/* p + c rounded to odd: a later rounding to a format with two bits less is then the only one */
#define SG_DEFINE_ADD_ODD(name, F, U, bits_of)                                                     \
    SG_INLINE U name(F p, F c)                                                                     \
    {                                                                                              \
        F s = p + c, bb = s - p, e = (p - (s - bb)) + (c - bb);                                    \
        F out = s > 0 ? e : -e; /* is the exact value further out? */                              \
        U u = bits_of(s), step = out > 0 ? 1 : 0;                                                  \
        step = out < 0 ? (U)-1 : step;                                                             \
        return u + (u & 1 ? 0 : step);                                                             \
    }

SG_DEFINE_ADD_ODD(sg_f32_add_odd, float, uint32_t, sg_f32_bits)
SG_DEFINE_ADD_ODD(sg_f64_add_odd, double, uint64_t, sg_f64_bits)

/* ---- f16 and bf16 arithmetic: round to nearest even ------------------------------------------ */

SG_INLINE uint16_t sg_f16_ftz(uint16_t u)
{
    return (u & 0x7c00u) ? u : (uint16_t)(u & 0x8000u);
}

SG_INLINE uint16_t sg_f16_finish_(uint16_t u, unsigned flags)
{
    if (flags & SG_NUM_FTZ)
        u = sg_f16_ftz(u);
    if (flags & SG_NUM_SAT) {
        u = u > 0x7c00u ? 0 : u;
        u = u > 0x3c00u ? 0x3c00u : u;
    }
    if (flags & SG_NUM_RELU)
        u = u & 0x8000u ? 0 : u; /* the NaN has no sign */
    return u;
}

SG_INLINE uint16_t sg_bf16_finish_(uint16_t u, unsigned flags)
{
    if (flags & SG_NUM_RELU)
        u = u & 0x8000u ? 0 : u;
    return u;
}

SG_INLINE float sg_f16_in_(uint16_t u, unsigned flags)
{
    return sg_f32_val(sg_f16_to_f32(flags & SG_NUM_FTZ ? sg_f16_ftz(u) : u));
}

SG_INLINE float sg_bf16_in_(uint16_t u, unsigned flags)
{
    (void)flags;
    return sg_f32_val((uint32_t)u << 16);
}

/* f32 has more than 2 p + 2 bits: the second rounding is harmless for +, -, * */
#define SG_DEFINE_HALF_OP(prefix, name, op)                                                        \
    SG_INLINE uint16_t prefix##_##name(uint16_t a, uint16_t b, unsigned flags)                     \
    {                                                                                              \
        float r = prefix##_in_(a, flags) op prefix##_in_(b, flags);                                \
        return prefix##_finish_(prefix##_from_f32(sg_f32_bits(r)), flags);                         \
    }

SG_DEFINE_HALF_OP(sg_f16, add, +)
SG_DEFINE_HALF_OP(sg_f16, sub, -)
SG_DEFINE_HALF_OP(sg_f16, mul, *)
SG_DEFINE_HALF_OP(sg_bf16, add, +)
SG_DEFINE_HALF_OP(sg_bf16, sub, -)
SG_DEFINE_HALF_OP(sg_bf16, mul, *)

/* the product of two f16 is exact in f32, that of two bf16 in f64 */
SG_INLINE uint16_t sg_f16_fma(uint16_t a, uint16_t b, uint16_t c, unsigned flags)
{
    float p = sg_f16_in_(a, flags) * sg_f16_in_(b, flags);
    return sg_f16_finish_(sg_f16_from_f32(sg_f32_add_odd(p, sg_f16_in_(c, flags))), flags);
}

SG_INLINE uint16_t sg_bf16_fma(uint16_t a, uint16_t b, uint16_t c, unsigned flags)
{
    uint64_t r = sg_f64_add_odd(sg_bf16_val(a) * sg_bf16_val(b), sg_bf16_val(c));
    return sg_bf16_finish_(sg_bf16_from_f64(r), flags);
}

SG_INLINE uint16_t sg_f16_neg(uint16_t u, unsigned flags)
{
    return (flags & SG_NUM_FTZ ? sg_f16_ftz(u) : u) ^ 0x8000u;
}

SG_INLINE uint16_t sg_f16_abs(uint16_t u, unsigned flags)
{
    return (flags & SG_NUM_FTZ ? sg_f16_ftz(u) : u) & 0x7fffu;
}

SG_INLINE uint16_t sg_bf16_neg(uint16_t u)
{
    return u ^ 0x8000u;
}

SG_INLINE uint16_t sg_bf16_abs(uint16_t u)
{
    return u & 0x7fffu;
}

/* Packed pairs: SG_X2_2(sg_f16_add, a, b, flags) is add.f16x2 */
#define SG_X2_JOIN_(lo, hi) ((uint32_t)(uint16_t)(lo) | (uint32_t)(uint16_t)(hi) << 16)
#define SG_X2_LO_(x) ((uint16_t)(x))
#define SG_X2_HI_(x) ((uint16_t)((uint32_t)(x) >> 16))
#define SG_X2_1(fn, a, ...)                                                                        \
    SG_X2_JOIN_(fn(SG_X2_LO_(a), ##__VA_ARGS__), fn(SG_X2_HI_(a), ##__VA_ARGS__))
#define SG_X2_2(fn, a, b, ...)                                                                     \
    SG_X2_JOIN_(fn(SG_X2_LO_(a), SG_X2_LO_(b), ##__VA_ARGS__),                                     \
                fn(SG_X2_HI_(a), SG_X2_HI_(b), ##__VA_ARGS__))
#define SG_X2_3(fn, a, b, c, ...)                                                                  \
    SG_X2_JOIN_(fn(SG_X2_LO_(a), SG_X2_LO_(b), SG_X2_LO_(c), ##__VA_ARGS__),                       \
                fn(SG_X2_HI_(a), SG_X2_HI_(b), SG_X2_HI_(c), ##__VA_ARGS__))

/* ---- conversions that programs use most ------------------------------------------------------ */

SG_INLINE uint32_t sg_f32_from_s32(uint32_t a)
{
    return sg_f32_bits((float)(int32_t)a);
}

SG_INLINE uint32_t sg_f32_from_u32(uint32_t a)
{
    return sg_f32_bits((float)a);
}

SG_INLINE uint64_t sg_f64_from_s32(uint32_t a)
{
    return sg_f64_bits((double)(int32_t)a);
}

SG_INLINE uint64_t sg_f64_from_u32(uint32_t a)
{
    return sg_f64_bits((double)a);
}

/* cvt.f64.f32: NaN payloads move to the upper bits */
SG_INLINE uint64_t sg_f64_from_f32(uint32_t a)
{
    return sg_f64_bits((double)sg_f32_val(a));
}

SG_INLINE uint32_t sg_f32_from_f64(uint64_t a) /* cvt.rn.f32.f64 */
{
    return sg_f32_canon(sg_f32_bits((float)sg_f64_val(a)));
}

/* cvt.rzi.s32.f32: clamped, NaN gives 0 */
SG_INLINE uint32_t sg_s32_from_f32_rz(uint32_t a)
{
    float f = sg_f32_val(a);
    bool in = (f >= -2147483648.0f) & (f < 2147483648.0f);
    uint32_t r = (uint32_t)(int32_t)(in ? f : 0.0f);
    uint32_t out = f > 0 ? 0x7fffffffu : f < 0 ? 0x80000000u : 0;
    return in ? r : out;
}

SG_INLINE uint32_t sg_u32_from_f32_rz(uint32_t a)
{
    float f = sg_f32_val(a);
    bool in = (f > 0.0f) & (f < 4294967296.0f);
    /* in halves of 2^31: signed conversions are what CPUs have */
    bool high = f >= 2147483648.0f;
    float low = in ? (high ? f - 2147483648.0f : f) : 0.0f;
    uint32_t r = (uint32_t)(int32_t)low + (high ? 0x80000000u : 0);
    uint32_t out = f > 0 ? 0xffffffffu : 0;
    return in ? r : out;
}

SG_INLINE uint32_t sg_s32_from_f64_rz(uint64_t a)
{
    double f = sg_f64_val(a);
    bool in = (f > -2147483649.0) & (f < 2147483648.0);
    uint32_t r = (uint32_t)(int32_t)(in ? f : 0.0);
    uint32_t out = f > 0 ? 0x7fffffffu : 0x80000000u; /* NaN: 1 << 31 */
    return in ? r : out;
}

/* f32 rounded to an integer, still f32 (cvt.rni.f32.f32 and so on); NaN canonical */
SG_INLINE uint32_t sg_f32_rint(uint32_t a, enum sg_rnd rnd)
{
    float f = sg_f32_val(a);
    bool small = (a & 0x7fffffffu) < 0x4b000000u; /* 2^23: from there all are integers */
    float g = small ? f : 0.0f, n = g < 0 ? -g : g;
    if (rnd == SG_RND_RN) { /* 2^23 has the distance of integers: the addition rounds */
        n = (n + 8388608.0f) - 8388608.0f;
    } else {
        float t = (float)(int32_t)n, up = rnd == SG_RND_RP ? 1.0f : 0.0f;
        float down = rnd == SG_RND_RM ? 1.0f : 0.0f;
        float away = g < 0 ? down : up;
        n = n > t ? t + away : t;
    }
    uint32_t r = (sg_f32_bits(n) & 0x7fffffffu) | (a & 0x80000000u);
    return sg_f32_canon(small ? r : a);
}

#endif
