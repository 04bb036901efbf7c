/* add, sub, mul, fma, div, sqrt, rcp of every float type, correctly rounded, in integers. */
#include "softgpu/num/soft_internal.h"

#include <xmmintrin.h>

/* sig * 2^exp; the highest bit of a normalised one is bit 126, the lowest bit may be sticky */
struct wide {
    sg_u128 sig;
    int exp;
    bool neg;
};

static int clz128(sg_u128 v)
{
    uint64_t hi = (uint64_t)(v >> 64);
    return hi ? __builtin_clzll(hi) : 64 + __builtin_clzll((uint64_t)v);
}

static uint64_t round_wide(enum sg_type t, struct wide w, enum sg_rnd rnd)
{
    int up = clz128(w.sig);
    w.sig <<= up;
    uint64_t sig = (uint64_t)(w.sig >> 64) | ((uint64_t)w.sig != 0);
    return sg_round_pack(t, w.neg, sig, w.exp - up + 64, rnd, false);
}

static struct wide wide_of(struct sg_unpacked v)
{
    return (struct wide){(sg_u128)v.sig << 63, v.exp - 63, v.neg};
}

static struct wide wide_product(struct sg_unpacked a, struct sg_unpacked b)
{
    struct wide w = {(sg_u128)a.sig * b.sig, a.exp + b.exp, a.neg != b.neg};
    if (w.sig >> 127) { /* 53 bits by 53 bits: the low ones are 0 */
        w.sig >>= 1;
        w.exp++;
    }
    return w;
}

static struct wide wide_sum(struct wide x, struct wide y)
{
    if (x.exp < y.exp || (x.exp == y.exp && x.sig < y.sig)) {
        struct wide z = x;
        x = y;
        y = z;
    }
    int d = x.exp - y.exp;
    if (d > 126)
        y.sig = y.sig != 0;
    else if (d > 0)
        y.sig = (y.sig >> d) | ((y.sig & (((sg_u128)1 << d) - 1)) != 0);
    x.sig = x.neg == y.neg ? x.sig + y.sig : x.sig - y.sig;
    return x;
}

static bool is_nan(struct sg_unpacked v)
{
    return v.cls == SG_CLASS_NAN;
}

/* a NaN result: f64 hands on its first NaN operand, made quiet */
static uint64_t nan_of(enum sg_type t, const uint64_t *bits, const struct sg_unpacked *v, int n)
{
    for (int i = 0; t == SG_T_F64 && i < n; i++)
        if (is_nan(v[i]))
            return sg_f64_quiet(bits[i]);
    return sg_format_of(t)->nan;
}

static uint64_t zero_sum(enum sg_type t, bool neg_a, bool neg_b, enum sg_rnd rnd)
{
    return sg_pack_zero(t, neg_a == neg_b ? neg_a : rnd == SG_RND_RM);
}

/* a * b + c on operands that are no NaN; *invalid: there is no value */
static uint64_t do_fma(enum sg_type t, struct sg_unpacked a, struct sg_unpacked b,
                       struct sg_unpacked c, enum sg_rnd rnd, bool *invalid)
{
    bool neg = a.neg != b.neg;
    bool inf = a.cls == SG_CLASS_INF || b.cls == SG_CLASS_INF;
    bool zero = a.cls == SG_CLASS_ZERO || b.cls == SG_CLASS_ZERO;

    *invalid = (inf && zero) || (inf && c.cls == SG_CLASS_INF && c.neg != neg);
    if (*invalid)
        return 0;
    if (inf || c.cls == SG_CLASS_INF)
        return sg_pack_inf(t, inf ? neg : c.neg);
    if (zero && c.cls == SG_CLASS_ZERO)
        return zero_sum(t, neg, c.neg, rnd);
    if (zero)
        return round_wide(t, wide_of(c), rnd);
    struct wide w = wide_product(a, b);
    if (c.cls != SG_CLASS_ZERO)
        w = wide_sum(w, wide_of(c));
    return w.sig == 0 ? sg_pack_zero(t, rnd == SG_RND_RM) : round_wide(t, w, rnd);
}

static uint64_t do_mul(enum sg_type t, struct sg_unpacked a, struct sg_unpacked b, enum sg_rnd rnd,
                       bool *invalid)
{
    bool neg = a.neg != b.neg;
    bool inf = a.cls == SG_CLASS_INF || b.cls == SG_CLASS_INF;
    bool zero = a.cls == SG_CLASS_ZERO || b.cls == SG_CLASS_ZERO;

    *invalid = inf && zero;
    if (inf)
        return sg_pack_inf(t, neg);
    return zero ? sg_pack_zero(t, neg) : round_wide(t, wide_product(a, b), rnd);
}

static uint64_t do_div(enum sg_type t, struct sg_unpacked a, struct sg_unpacked b, enum sg_rnd rnd,
                       bool *invalid)
{
    bool neg = a.neg != b.neg;

    *invalid = a.cls == b.cls && a.cls != SG_CLASS_FINITE;
    if (a.cls == SG_CLASS_INF || b.cls == SG_CLASS_ZERO)
        return sg_pack_inf(t, neg);
    if (a.cls == SG_CLASS_ZERO || b.cls == SG_CLASS_INF)
        return sg_pack_zero(t, neg);
    sg_u128 n = (sg_u128)a.sig << 63;
    uint64_t q = (uint64_t)(n / b.sig), r = (uint64_t)(n % b.sig);
    return sg_round_pack(t, neg, q | (r != 0), a.exp - b.exp - 63, rnd, false);
}

/* floor(sqrt(v)), digit by digit; *exact: nothing is left */
static uint64_t isqrt128(sg_u128 v, bool *exact)
{
    sg_u128 rem = 0, root = 0;
    for (int i = 0; i < 64; i++) {
        rem = rem << 2 | (v >> 126);
        v <<= 2;
        root <<= 1;
        sg_u128 trial = root << 1 | 1;
        if (rem >= trial) {
            rem -= trial;
            root |= 1;
        }
    }
    *exact = rem == 0;
    return (uint64_t)root;
}

static uint64_t do_sqrt(enum sg_type t, struct sg_unpacked a, enum sg_rnd rnd, bool *invalid)
{
    *invalid = a.neg && a.cls != SG_CLASS_ZERO;
    if (a.cls == SG_CLASS_INF)
        return sg_pack_inf(t, false);
    if (a.cls == SG_CLASS_ZERO)
        return sg_pack_zero(t, a.neg);
    int up = a.exp & 1 ? 63 : 64; /* makes the exponent even */
    bool exact;
    uint64_t root = isqrt128((sg_u128)a.sig << up, &exact);
    return sg_round_pack(t, false, root | !exact, (a.exp - up) / 2, rnd, false);
}

static int operands_of(enum sg_num_op op)
{
    return op == SG_NUM_FMA ? 3 : op == SG_NUM_SQRT || op == SG_NUM_RCP ? 1 : 2;
}

uint64_t sg_num_arith(enum sg_num_op op, enum sg_type t, uint64_t a, uint64_t b, uint64_t c,
                      enum sg_rnd rnd, unsigned flags)
{
    const struct sg_unpacked one = {UINT64_C(1) << 63, -63, false, SG_CLASS_FINITE};
    const uint64_t bits[3] = {a, b, c};
    struct sg_unpacked v[3] = {one, one, one};
    int n = operands_of(op);
    bool invalid = false;
    uint64_t r = 0;

    for (int i = 0; i < n; i++) {
        v[i] = sg_unpack(t, bits[i]);
        if ((flags & SG_NUM_FTZ) && sg_is_subnormal(t, bits[i]))
            v[i].cls = SG_CLASS_ZERO;
        invalid |= is_nan(v[i]);
    }
    if (op == SG_NUM_SUB && !invalid)
        v[1].neg = !v[1].neg;
    if (!invalid) {
        switch (op) {
        case SG_NUM_ADD:
        case SG_NUM_SUB:
            r = do_fma(t, v[0], one, v[1], rnd, &invalid);
            break;
        case SG_NUM_MUL:
            r = do_mul(t, v[0], v[1], rnd, &invalid);
            break;
        case SG_NUM_FMA:
            r = do_fma(t, v[0], v[1], v[2], rnd, &invalid);
            break;
        case SG_NUM_DIV:
            r = do_div(t, v[0], v[1], rnd, &invalid);
            break;
        case SG_NUM_SQRT:
            r = do_sqrt(t, v[0], rnd, &invalid);
            break;
        case SG_NUM_RCP:
            r = do_div(t, one, v[0], rnd, &invalid);
            break;
        }
    }
    return sg_finish(t, invalid ? nan_of(t, bits, v, n) : r, flags);
}

#define DEFINE_OP2(name, op)                                                                       \
    uint32_t sg_f32_##name(uint32_t a, uint32_t b, enum sg_rnd rnd, unsigned flags)                \
    {                                                                                              \
        return (uint32_t)sg_num_arith(op, SG_T_F32, a, b, 0, rnd, flags);                          \
    }                                                                                              \
    uint64_t sg_f64_##name(uint64_t a, uint64_t b, enum sg_rnd rnd)                                \
    {                                                                                              \
        return sg_num_arith(op, SG_T_F64, a, b, 0, rnd, 0);                                        \
    }

#define DEFINE_OP1(name, op)                                                                       \
    uint32_t sg_f32_##name(uint32_t a, enum sg_rnd rnd, unsigned flags)                            \
    {                                                                                              \
        return (uint32_t)sg_num_arith(op, SG_T_F32, a, 0, 0, rnd, flags);                          \
    }                                                                                              \
    uint64_t sg_f64_##name(uint64_t a, enum sg_rnd rnd)                                            \
    {                                                                                              \
        return sg_num_arith(op, SG_T_F64, a, 0, 0, rnd, 0);                                        \
    }

DEFINE_OP2(add, SG_NUM_ADD)
DEFINE_OP2(sub, SG_NUM_SUB)
DEFINE_OP2(mul, SG_NUM_MUL)
DEFINE_OP2(div, SG_NUM_DIV)
DEFINE_OP1(sqrt, SG_NUM_SQRT)
DEFINE_OP1(rcp, SG_NUM_RCP)

uint32_t sg_f32_fma(uint32_t a, uint32_t b, uint32_t c, enum sg_rnd rnd, unsigned flags)
{
    return (uint32_t)sg_num_arith(SG_NUM_FMA, SG_T_F32, a, b, c, rnd, flags);
}

uint64_t sg_f64_fma(uint64_t a, uint64_t b, uint64_t c, enum sg_rnd rnd)
{
    return sg_num_arith(SG_NUM_FMA, SG_T_F64, a, b, c, rnd, 0);
}

uint32_t sg_num_enter(void)
{
    uint32_t saved = _mm_getcsr();
    _mm_setcsr(0x1f80); /* nearest even, subnormals kept, exceptions masked */
    return saved;
}

void sg_num_leave(uint32_t saved)
{
    _mm_setcsr(saved);
}
