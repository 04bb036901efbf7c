/* cvt: one function a kind of conversion, chosen when the instruction is decoded. */
#include "softgpu/num/soft_internal.h"

/* ---- integers -------------------------------------------------------------------------------- */

/* the value of an integer source, as 128 bits */
static sg_i128 int_value(enum sg_type t, uint64_t bits)
{
    unsigned up = 64 - sg_type_bits(t);
    if (sg_type_is_signed(t))
        return (int64_t)(bits << up) >> up;
    return (bits << up) >> up;
}

static uint64_t clamp_int(enum sg_type t, sg_i128 v)
{
    unsigned n = sg_type_bits(t);
    sg_i128 max = ((sg_i128)1 << (sg_type_is_signed(t) ? n - 1 : n)) - 1;
    sg_i128 min = sg_type_is_signed(t) ? -max - 1 : 0;
    return (uint64_t)(v > max ? max : v < min ? min : v);
}

static uint64_t int_to_int(const struct sg_cvt *c, uint64_t a, uint64_t b)
{
    sg_i128 v = int_value(c->src, a);
    (void)b;
    if (c->flags & SG_NUM_SAT)
        return clamp_int(c->dst, v);
    return (uint64_t)int_value(c->dst, (uint64_t)v);
}

static uint64_t int_to_float(const struct sg_cvt *c, uint64_t a, uint64_t b)
{
    sg_i128 v = int_value(c->src, a);
    bool neg = v < 0;
    (void)b;
    uint64_t r = 0;
    if (v != 0)
        r = sg_round_pack(c->dst, neg, (uint64_t)(neg ? -v : v), 0, c->rnd, false);
    return sg_finish(c->dst, r, c->flags & SG_NUM_SAT);
}

/* ---- floats ---------------------------------------------------------------------------------- */

static struct sg_unpacked unpack_source(const struct sg_cvt *c, uint64_t a)
{
    struct sg_unpacked v = sg_unpack(c->src, a);
    if ((c->flags & SG_NUM_FTZ) && c->src == SG_T_F32 && sg_is_subnormal(SG_T_F32, a))
        v.cls = SG_CLASS_ZERO;
    return v;
}

/* NaN: 0, but 1 << (width - 1) where a side has 64 bits (float f64, integers s64 and u64) */
static uint64_t int_of_nan(const struct sg_cvt *c)
{
    if (c->src != SG_T_F64 && sg_type_bits(c->dst) != 64)
        return 0;
    return (uint64_t)int_value(c->dst, UINT64_C(1) << (sg_type_bits(c->dst) - 1));
}

static uint64_t float_to_int(const struct sg_cvt *c, uint64_t a, uint64_t b)
{
    struct sg_unpacked v = unpack_source(c, a);
    const sg_i128 huge = (sg_i128)1 << 65;
    sg_i128 m = huge;
    (void)b;

    if (v.cls == SG_CLASS_NAN)
        return int_of_nan(c);
    if (v.cls == SG_CLASS_ZERO)
        return 0;
    if (v.cls == SG_CLASS_FINITE && v.exp <= 0) /* else from 2^64 up */
        m = sg_round_shift(v.sig, -v.exp, v.neg, c->rnd);
    return clamp_int(c->dst, v.neg ? -m : m);
}

static uint64_t float_nan(const struct sg_cvt *c, uint64_t a)
{
    if (c->dst == SG_T_F64 && c->src == SG_T_F64)
        return sg_f64_quiet(a);
    if (c->dst == SG_T_F64 && c->src == SG_T_F32) /* the payload moves up, as CPUs do it */
        return (a >> 31 & 1) << 63 | UINT64_C(0x7ff8000000000000) | (a & 0x7fffff) << 29;
    return sg_format_of(c->dst)->nan;
}

static uint64_t float_value(const struct sg_cvt *c, uint64_t a)
{
    struct sg_unpacked v = unpack_source(c, a);
    bool satfinite = c->flags & SG_NUM_SATFINITE;

    if (v.cls == SG_CLASS_NAN)
        return float_nan(c, a);
    if (v.cls == SG_CLASS_INF)
        return satfinite ? sg_pack_max(c->dst, v.neg) : sg_pack_inf(c->dst, v.neg);
    if (v.cls == SG_CLASS_FINITE && c->mode == SG_CVT_INTEGRAL && v.exp < 0) {
        v.sig = sg_round_shift(v.sig, -v.exp, v.neg, c->rnd);
        v.exp = 0;
    }
    if (v.cls == SG_CLASS_ZERO || v.sig == 0)
        return sg_pack_zero(c->dst, v.neg);
    return sg_round_pack(c->dst, v.neg, v.sig, v.exp, c->rnd, satfinite);
}

static uint64_t float_to_float(const struct sg_cvt *c, uint64_t a, uint64_t b)
{
    unsigned flags = c->flags;
    (void)b;
    if (c->dst != SG_T_F32)
        flags &= ~(unsigned)SG_NUM_FTZ;
    return sg_finish(c->dst, float_value(c, a), flags);
}

static uint64_t pack_two(const struct sg_cvt *c, uint64_t a, uint64_t b)
{
    return float_to_float(c, a, 0) << sg_type_bits(c->dst) | float_to_float(c, b, 0);
}

static uint64_t pack_pair(const struct sg_cvt *c, uint64_t a, uint64_t b)
{
    unsigned n = sg_type_bits(c->src);
    (void)b;
    return pack_two(c, a >> n, a & ((UINT64_C(1) << n) - 1));
}

/* ---- what is legal --------------------------------------------------------------------------- */

static const char *const type_names[SG_T_COUNT] = {"u8",  "s8",  "u16",  "s16",  "u32",
                                                   "s32", "u64", "s64",  "f16",  "bf16",
                                                   "f32", "f64", "tf32", "e4m3", "e5m2"};

static bool is_fp8(enum sg_type t)
{
    return t == SG_T_E4M3 || t == SG_T_E5M2;
}

static bool is_half(enum sg_type t)
{
    return t == SG_T_F16 || t == SG_T_BF16;
}

/* f16, f32, f64: every number of @src is one of @dst */
static bool widens(enum sg_type dst, enum sg_type src)
{
    return dst == src || dst == SG_T_F64 || (dst == SG_T_F32 && src != SG_T_F64);
}

/* packs, tf32 and fp8: forms of their own with fixed types and roundings; NULL: legal */
static const char *check_special(const struct sg_cvt *c)
{
    if (c->mode != SG_CVT_FLOAT)
        return "needs a rounding modifier";
    if (c->flags & (SG_NUM_FTZ | SG_NUM_SAT))
        return "has .ftz or .sat";
    if (c->dst == SG_T_TF32)
        return c->src == SG_T_F32 && !c->pack && c->rnd != SG_RND_RM && c->rnd != SG_RND_RP
                   ? NULL
                   : "is not a conversion that PTX has";
    if (!c->pack || c->rnd == SG_RND_RNA || c->rnd == SG_RND_RM || c->rnd == SG_RND_RP)
        return "is not a conversion that PTX has";
    if (is_fp8(c->src))
        return c->src_pair && c->dst == SG_T_F16 && c->rnd == SG_RND_RN &&
                       !(c->flags & SG_NUM_SATFINITE)
                   ? NULL
                   : "is not a conversion that PTX has";
    if (!(c->src_pair ? is_fp8(c->dst) && is_half(c->src) : c->src == SG_T_F32))
        return "is not a conversion that PTX has";
    if (is_fp8(c->dst) && (c->rnd != SG_RND_RN || !(c->flags & SG_NUM_SATFINITE)))
        return "needs .rn.satfinite";
    return NULL;
}

static const char *check_float_to_float(const struct sg_cvt *c)
{
    bool to_half = is_half(c->dst) && c->src == SG_T_F32;

    if ((c->flags & (SG_NUM_RELU | SG_NUM_SATFINITE)) && !to_half)
        return "has .relu or .satfinite";
    if ((c->flags & (SG_NUM_SAT | SG_NUM_FTZ)) && (c->flags & (SG_NUM_RELU | SG_NUM_SATFINITE)))
        return "has .sat or .ftz beside .relu or .satfinite";
    if (c->mode == SG_CVT_INTEGRAL && c->dst != c->src)
        return "has an integer rounding";
    if (c->src == SG_T_BF16) /* a rounding modifier is optional then, .rn without one */
        return NULL;
    if (c->mode == SG_CVT_PLAIN && !widens(c->dst, c->src))
        return "needs a rounding modifier";
    if (c->mode == SG_CVT_FLOAT && widens(c->dst, c->src))
        return "has a rounding modifier";
    return NULL;
}

static const char *check_plain(const struct sg_cvt *c)
{
    bool df = sg_type_is_float(c->dst), sf = sg_type_is_float(c->src);

    if (c->rnd == SG_RND_RNA)
        return "has .rna";
    if ((c->flags & SG_NUM_FTZ) && c->dst != SG_T_F32 && c->src != SG_T_F32)
        return "has .ftz but no f32";
    if ((c->flags & SG_NUM_SAT) && c->dst == SG_T_BF16)
        return "has .sat";
    if (df && sf)
        return check_float_to_float(c);
    if (c->flags & (SG_NUM_RELU | SG_NUM_SATFINITE))
        return "has .relu or .satfinite";
    if (!df && !sf)
        return c->mode == SG_CVT_PLAIN ? NULL : "has a rounding modifier";
    if (df)
        return c->mode == SG_CVT_FLOAT ? NULL : "needs a rounding modifier";
    return c->mode == SG_CVT_INTEGRAL ? NULL : "needs an integer rounding modifier";
}

enum tb_status sg_cvt_init(struct sg_cvt *c, struct tb_error *err)
{
    bool special = c->pack || c->src_pair || c->dst == SG_T_TF32 || c->src == SG_T_TF32 ||
                   is_fp8(c->dst) || is_fp8(c->src);

    const char *why = special ? check_special(c) : check_plain(c);
    if (why)
        return tb_fail(err, TB_ERR_FORMAT, "cvt of '%s%s' to '%s%s' %s", type_names[c->src],
                       c->src_pair ? "x2" : "", type_names[c->dst], c->pack ? "x2" : "", why);
    bool df = sg_type_is_float(c->dst), sf = sg_type_is_float(c->src);
    if (c->mode == SG_CVT_PLAIN)
        c->rnd = SG_RND_RN;
    if (c->pack)
        c->fn = c->src_pair ? pack_pair : pack_two;
    else if (df)
        c->fn = sf ? float_to_float : int_to_float;
    else
        c->fn = sf ? float_to_int : int_to_int;
    return TB_OK;
}

uint32_t sg_cvt_pack(int32_t a, int32_t b, uint32_t c, unsigned bits, bool is_signed)
{
    int64_t max = (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1, min = is_signed ? -max - 1 : 0;
    uint32_t mask = (UINT32_C(1) << bits) - 1;
    uint32_t ta = (uint32_t)(a > max ? max : a < min ? min : a) & mask;
    uint32_t tb = (uint32_t)(b > max ? max : b < min ? min : b) & mask;
    uint32_t r = ta << bits | tb;
    return bits == 16 ? r : r | c << (2 * bits);
}
