/* Formats, unpacking, rounding: the parts that arithmetic and conversions share. */
#include "softgpu/num/soft_internal.h"

static const struct sg_format formats[SG_T_COUNT] = {
    [SG_T_F16] = {10, 5, 0, true, SG_F16_NAN},   [SG_T_BF16] = {7, 8, 0, true, SG_BF16_NAN},
    [SG_T_F32] = {23, 8, 0, true, SG_F32_NAN},   [SG_T_F64] = {52, 11, 0, true, SG_F64_NAN},
    [SG_T_TF32] = {10, 8, 13, true, SG_F32_NAN}, [SG_T_E4M3] = {3, 4, 0, false, SG_E4M3_NAN},
    [SG_T_E5M2] = {2, 5, 0, true, SG_E5M2_NAN},
};

const struct sg_format *sg_format_of(enum sg_type t)
{
    return &formats[t];
}

unsigned sg_type_bits(enum sg_type t)
{
    static const uint8_t bits[SG_T_COUNT] = {8,  8,  16, 16, 32, 32, 64, 64,
                                             16, 16, 32, 64, 32, 8,  8};
    return bits[t];
}

static uint64_t sign_bit(const struct sg_format *f)
{
    return UINT64_C(1) << (f->mant + f->ebits);
}

static int bias_of(const struct sg_format *f)
{
    return (1 << (f->ebits - 1)) - 1;
}

static uint64_t exp_mask(const struct sg_format *f)
{
    return sign_bit(f) - (UINT64_C(1) << f->mant);
}

static uint64_t max_finite(const struct sg_format *f)
{
    return f->has_inf ? exp_mask(f) - 1 : sign_bit(f) - 2;
}

uint64_t sg_pack_zero(enum sg_type t, bool neg)
{
    const struct sg_format *f = &formats[t];
    return (neg ? sign_bit(f) : 0) << f->shift;
}

uint64_t sg_pack_inf(enum sg_type t, bool neg)
{
    const struct sg_format *f = &formats[t];
    if (!f->has_inf)
        return f->nan;
    return (exp_mask(f) | (neg ? sign_bit(f) : 0)) << f->shift;
}

uint64_t sg_pack_max(enum sg_type t, bool neg)
{
    const struct sg_format *f = &formats[t];
    return (max_finite(f) | (neg ? sign_bit(f) : 0)) << f->shift;
}

struct sg_unpacked sg_unpack(enum sg_type t, uint64_t bits)
{
    const struct sg_format *f = &formats[t];
    struct sg_unpacked v = {0, 0, false, SG_CLASS_FINITE};
    bits >>= f->shift;
    v.neg = (bits & sign_bit(f)) != 0;
    uint64_t mag = bits & (sign_bit(f) - 1), frac = mag & ((UINT64_C(1) << f->mant) - 1);
    int e = (int)(mag >> f->mant);

    if (f->has_inf ? mag > exp_mask(f) : mag == sign_bit(f) - 1)
        v.cls = SG_CLASS_NAN;
    else if (f->has_inf && mag == exp_mask(f))
        v.cls = SG_CLASS_INF;
    else if (mag == 0)
        v.cls = SG_CLASS_ZERO;
    if (v.cls != SG_CLASS_FINITE)
        return v;
    if (e != 0)
        frac |= UINT64_C(1) << f->mant;
    else
        e = 1;
    int up = __builtin_clzll(frac);
    v.sig = frac << up;
    v.exp = e - bias_of(f) - f->mant - up;
    return v;
}

uint64_t sg_round_shift(uint64_t sig, int drop, bool neg, enum sg_rnd rnd)
{
    uint64_t kept, half, rest;

    if (drop <= 0)
        return sig;
    if (drop > 64) {
        kept = half = 0;
        rest = sig;
    } else if (drop == 64) {
        kept = 0;
        half = sig >> 63;
        rest = sig << 1;
    } else {
        kept = sig >> drop;
        half = (sig >> (drop - 1)) & 1;
        rest = sig & ((UINT64_C(1) << (drop - 1)) - 1);
    }
    switch (rnd) {
    case SG_RND_RN:
        return kept + (half && (rest || (kept & 1)));
    case SG_RND_RNA:
        return kept + half;
    case SG_RND_RM:
        return kept + (neg && (half || rest));
    case SG_RND_RP:
        return kept + (!neg && (half || rest));
    case SG_RND_RZ:
        break;
    }
    return kept;
}

/* what stands for a number beyond the largest: infinity, or the largest itself */
static uint64_t overflow(enum sg_type t, bool neg, enum sg_rnd rnd, bool satfinite)
{
    bool inf = rnd == SG_RND_RN || rnd == SG_RND_RNA || rnd == (neg ? SG_RND_RM : SG_RND_RP);
    return inf && !satfinite ? sg_pack_inf(t, neg) : sg_pack_max(t, neg);
}

uint64_t sg_round_pack(enum sg_type t, bool neg, uint64_t sig, int exp, enum sg_rnd rnd,
                       bool satfinite)
{
    const struct sg_format *f = &formats[t];
    int up = __builtin_clzll(sig);
    sig <<= up;
    int e = exp - up + 63 + bias_of(f); /* biased exponent */
    int drop = 63 - f->mant;
    uint64_t r;

    if (e > (1 << f->ebits))
        return overflow(t, neg, rnd, satfinite);
    if (e >= 1) /* the leading bit adds one to the exponent, a carry another one */
        r = sg_round_shift(sig, drop, neg, rnd) + ((uint64_t)(e - 1) << f->mant);
    else
        r = sg_round_shift(sig, e < -64 ? 65 : drop + 1 - e, neg, rnd);
    if (r > max_finite(f))
        return overflow(t, neg, rnd, satfinite);
    return (r | (neg ? sign_bit(f) : 0)) << f->shift;
}

bool sg_is_subnormal(enum sg_type t, uint64_t bits)
{
    const struct sg_format *f = &formats[t];
    bits >>= f->shift;
    return (bits & exp_mask(f)) == 0 && (bits & (sign_bit(f) - 1)) != 0;
}

uint64_t sg_finish(enum sg_type t, uint64_t bits, unsigned flags)
{
    if (!(flags & (SG_NUM_FTZ | SG_NUM_SAT | SG_NUM_RELU)))
        return bits;
    struct sg_unpacked v = sg_unpack(t, bits);
    uint64_t one = sg_round_pack(t, false, 1, 0, SG_RND_RN, false);

    if ((flags & SG_NUM_FTZ) && sg_is_subnormal(t, bits))
        bits = sg_pack_zero(t, v.neg);
    if (flags & SG_NUM_SAT) {
        if (v.cls == SG_CLASS_NAN || v.neg)
            return 0;
        return bits > one ? one : bits; /* positive floats are ordered as integers */
    }
    if (flags & SG_NUM_RELU)
        return v.cls == SG_CLASS_NAN ? formats[t].nan : v.neg ? 0 : bits;
    return bits;
}
