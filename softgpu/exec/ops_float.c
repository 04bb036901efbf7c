/* Arithmetic on f32 and f64. Rounding to nearest is computed here, 32 lanes at a time; the other
 * rounding modes call softgpu/num for each lane. */
#include "softgpu/exec/ops.h"

typedef uint32_t u32;
typedef uint64_t u64;

#define V(u) sg_f32_val(u)
#define Z(u) sg_f32_val(sg_f32_ftz(u))
#define D(u) sg_f64_val(u)

/* Four variants of an f32 operation: plain, ftz, sat, both. */
#define F32_2(name, op)                                                                            \
    SG_OP2(name, u32, u32, u32, sg_f32_finish(V(x) op V(y), 0))                                    \
    SG_OP2(name##_ftz, u32, u32, u32, sg_f32_finish(Z(x) op Z(y), SG_NUM_FTZ))                     \
    SG_OP2(name##_sat, u32, u32, u32, sg_f32_finish(V(x) op V(y), SG_NUM_SAT))                     \
    SG_OP2(name##_ftz_sat, u32, u32, u32, sg_f32_finish(Z(x) op Z(y), SG_NUM_FTZ | SG_NUM_SAT))
#define F32_FMA(name, flags, W)                                                                    \
    SG_OP3(name, u32, u32, u32, u32, sg_f32_finish(__builtin_fmaf(W(x), W(y), W(z)), flags))

F32_2(add_f32, +)
F32_2(sub_f32, -)
F32_2(mul_f32, *)
F32_2(div_f32, /)
F32_FMA(fma_f32, 0, V)
F32_FMA(fma_f32_ftz, SG_NUM_FTZ, Z)
F32_FMA(fma_f32_sat, SG_NUM_SAT, V)
F32_FMA(fma_f32_ftz_sat, SG_NUM_FTZ | SG_NUM_SAT, Z)
SG_OP1(sqrt_f32, u32, u32, sg_f32_finish(__builtin_sqrtf(V(x)), 0))
SG_OP1(sqrt_f32_ftz, u32, u32, sg_f32_finish(__builtin_sqrtf(Z(x)), SG_NUM_FTZ))
SG_OP1(rcp_f32, u32, u32, sg_f32_finish(1.0f / V(x), 0))
SG_OP1(rcp_f32_ftz, u32, u32, sg_f32_finish(1.0f / Z(x), SG_NUM_FTZ))

SG_OP2(add_f64, u64, u64, u64, sg_f64_finish2(D(x) + D(y), x, y))
SG_OP2(sub_f64, u64, u64, u64, sg_f64_finish2(D(x) - D(y), x, y))
SG_OP2(mul_f64, u64, u64, u64, sg_f64_finish2(D(x) * D(y), x, y))
SG_OP2(div_f64, u64, u64, u64, sg_f64_finish2(D(x) / D(y), x, y))
SG_OP3(fma_f64, u64, u64, u64, u64, sg_f64_finish3(__builtin_fma(D(x), D(y), D(z)), x, y, z))
SG_OP1(sqrt_f64, u64, u64, sg_f64_finish1(__builtin_sqrt(D(x)), x))
SG_OP1(rcp_f64, u64, u64, sg_f64_finish1(1.0 / D(x), x))

/* Any rounding: y holds the mode, x the flags. */
#define MODE ((enum sg_rnd)in->y)
#define ANY_2(name)                                                                                \
    SG_OP2(any_##name##_f32, u32, u32, u32, sg_f32_##name(x, y, MODE, in->x))                      \
    SG_OP2(any_##name##_f64, u64, u64, u64, sg_f64_##name(x, y, MODE))
ANY_2(add)
ANY_2(sub)
ANY_2(mul)
ANY_2(div)
SG_OP3(any_fma_f32, u32, u32, u32, u32, sg_f32_fma(x, y, z, MODE, in->x))
SG_OP3(any_fma_f64, u64, u64, u64, u64, sg_f64_fma(x, y, z, MODE))
SG_OP1(any_sqrt_f32, u32, u32, sg_f32_sqrt(x, MODE, in->x))
SG_OP1(any_sqrt_f64, u64, u64, sg_f64_sqrt(x, MODE))
SG_OP1(any_rcp_f32, u32, u32, sg_f32_rcp(x, MODE, in->x))
SG_OP1(any_rcp_f64, u64, u64, sg_f64_rcp(x, MODE))
SG_OP2(any_add_f32x2, u64, u64, u64,
       sg_f32_add((u32)x, (u32)y, MODE, in->x) |
           (u64)sg_f32_add((u32)(x >> 32), (u32)(y >> 32), MODE, in->x) << 32)
SG_OP2(any_sub_f32x2, u64, u64, u64,
       sg_f32_sub((u32)x, (u32)y, MODE, in->x) |
           (u64)sg_f32_sub((u32)(x >> 32), (u32)(y >> 32), MODE, in->x) << 32)
SG_OP2(any_mul_f32x2, u64, u64, u64,
       sg_f32_mul((u32)x, (u32)y, MODE, in->x) |
           (u64)sg_f32_mul((u32)(x >> 32), (u32)(y >> 32), MODE, in->x) << 32)
SG_OP3(any_fma_f32x2, u64, u64, u64, u64,
       sg_f32_fma((u32)x, (u32)y, (u32)z, MODE, in->x) |
           (u64)sg_f32_fma((u32)(x >> 32), (u32)(y >> 32), (u32)(z >> 32), MODE, in->x) << 32)

SG_OP2(min_f32, u32, u32, u32, sg_f32_min(x, y, 0))
SG_OP2(max_f32, u32, u32, u32, sg_f32_max(x, y, 0))
SG_OP2(any_min_f32, u32, u32, u32, sg_f32_min(x, y, in->x))
SG_OP2(any_max_f32, u32, u32, u32, sg_f32_max(x, y, in->x))
SG_OP3(any_min3_f32, u32, u32, u32, u32, sg_f32_min(sg_f32_min(x, y, in->x), z, in->x))
SG_OP3(any_max3_f32, u32, u32, u32, u32, sg_f32_max(sg_f32_max(x, y, in->x), z, in->x))
SG_OP2(min_f64, u64, u64, u64, sg_f64_min(x, y, 0))
SG_OP2(max_f64, u64, u64, u64, sg_f64_max(x, y, 0))
SG_OP1(neg_f32, u32, u32, sg_f32_neg(x, 0))
SG_OP1(neg_f32_ftz, u32, u32, sg_f32_neg(x, SG_NUM_FTZ))
SG_OP1(abs_f32, u32, u32, sg_f32_abs(x, 0))
SG_OP1(abs_f32_ftz, u32, u32, sg_f32_abs(x, SG_NUM_FTZ))
SG_OP1(neg_f64, u64, u64, x ^ (UINT64_C(1) << 63))
SG_OP1(abs_f64, u64, u64, sg_f64_abs(x))
SG_OP2(copysign_f32, u32, u32, u32, sg_f32_copysign(x, y))
SG_OP2(copysign_f64, u64, u64, u64, sg_f64_copysign(x, y))

SG_OP1(ex2_f32, u32, u32, sg_f32_ex2_approx(x, in->x))
SG_OP1(lg2_f32, u32, u32, sg_f32_lg2_approx(x, in->x))
SG_OP1(sin_f32, u32, u32, sg_f32_sin_approx(x, in->x))
SG_OP1(cos_f32, u32, u32, sg_f32_cos_approx(x, in->x))
SG_OP1(tanh_f32, u32, u32, sg_f32_tanh_approx(x))
SG_OP1(rcp_approx_f32, u32, u32, sg_f32_rcp_approx(x, in->x))
SG_OP1(sqrt_approx_f32, u32, u32, sg_f32_sqrt_approx(x, in->x))
SG_OP1(rsqrt_f32, u32, u32, sg_f32_rsqrt_approx(x, in->x))
SG_OP2(div_approx_f32, u32, u32, u32, sg_f32_div_approx(x, y, in->x))
SG_OP2(div_full_f32, u32, u32, u32, sg_f32_div_full(x, y, in->x))
SG_OP1(rcp_approx_f64, u64, u64, sg_f64_rcp_approx_ftz(x))
SG_OP1(rsqrt_ftz_f64, u64, u64, sg_f64_rsqrt_approx_ftz(x))
SG_OP1(rsqrt_f64, u64, u64, sg_f64_rsqrt_approx(x))

#define FOUR(OP, name)                                                                             \
    {                                                                                              \
        SG_OP_##OP,                                                                                \
        {                                                                                          \
            name, name##_ftz, name##_sat, name##_ftz_sat                                           \
        }                                                                                          \
    }

/* Round to nearest on f32, by flags. */
static const struct {
    uint16_t op;
    sg_handler fn[4];
} nearest32[] = {
    FOUR(ADD, add_f32),
    FOUR(SUB, sub_f32),
    FOUR(MUL, mul_f32),
    FOUR(DIV, div_f32),
    FOUR(FMA, fma_f32),
    FOUR(MAD, fma_f32),
    {SG_OP_SQRT, {sqrt_f32, sqrt_f32_ftz, NULL, NULL}},
    {SG_OP_RCP, {rcp_f32, rcp_f32_ftz, NULL, NULL}},
};

#define R(op, type, fn)                                                                            \
    {                                                                                              \
        SG_OP_##op, SG_M_##type, fn                                                                \
    }
static const struct sg_op_row nearest64[] = {
    R(ADD, F64, add_f64), R(SUB, F64, sub_f64), R(MUL, F64, mul_f64),   R(DIV, F64, div_f64),
    R(FMA, F64, fma_f64), R(MAD, F64, fma_f64), R(SQRT, F64, sqrt_f64), R(RCP, F64, rcp_f64)};
#define ANY(OP, name) R(OP, F32, any_##name##_f32), R(OP, F64, any_##name##_f64)
static const struct sg_op_row any[] = {ANY(ADD, add),
                                       ANY(SUB, sub),
                                       ANY(MUL, mul),
                                       ANY(DIV, div),
                                       ANY(FMA, fma),
                                       ANY(MAD, fma),
                                       ANY(SQRT, sqrt),
                                       ANY(RCP, rcp),
                                       R(ADD, F32X2, any_add_f32x2),
                                       R(SUB, F32X2, any_sub_f32x2),
                                       R(MUL, F32X2, any_mul_f32x2),
                                       R(FMA, F32X2, any_fma_f32x2)};
static const struct sg_op_row approx1[] = {
    R(EX2, F32, ex2_f32),          R(LG2, F32, lg2_f32),     R(SIN, F32, sin_f32),
    R(COS, F32, cos_f32),          R(TANH, F32, tanh_f32),   R(RCP, F32, rcp_approx_f32),
    R(SQRT, F32, sqrt_approx_f32), R(RSQRT, F32, rsqrt_f32), R(RCP, F64, rcp_approx_f64),
    R(RSQRT, F64, rsqrt_f64)};
static const struct sg_op_row signs[] = {R(NEG, F32, neg_f32), R(NEG, F64, neg_f64),
                                         R(ABS, F32, abs_f32), R(ABS, F64, abs_f64)};
static const struct sg_op_row minmax[] = {R(MIN, F32, min_f32), R(MAX, F32, max_f32),
                                          R(MIN, F64, min_f64), R(MAX, F64, max_f64)};

#define LOOK(table) sg_row(table, TB_ARRAY_LEN(table), p->op, t)

static bool takes_three(unsigned op)
{
    return op == SG_OP_FMA || op == SG_OP_MAD;
}

static bool takes_one(unsigned op)
{
    return op == SG_OP_SQRT || op == SG_OP_RCP;
}

static sg_handler nearest(const struct sg_ptx_insn *p, enum sg_ptx_mod t, unsigned flags)
{
    if (t == SG_M_F64)
        return flags ? NULL : LOOK(nearest64);
    if (t != SG_M_F32 || (flags & ~(unsigned)(SG_NUM_FTZ | SG_NUM_SAT)))
        return NULL;
    for (size_t i = 0; i < TB_ARRAY_LEN(nearest32); i++)
        if (nearest32[i].op == p->op)
            return nearest32[i].fn[(flags & SG_NUM_FTZ ? 1 : 0) + (flags & SG_NUM_SAT ? 2 : 0)];
    return NULL;
}

static enum sg_rnd rounding(const struct sg_ptx_insn *p)
{
    return sg_ptx_has(p, SG_M_RZ)   ? SG_RND_RZ
           : sg_ptx_has(p, SG_M_RM) ? SG_RND_RM
           : sg_ptx_has(p, SG_M_RP) ? SG_RND_RP
                                    : SG_RND_RN;
}

static bool decode_arith(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_mod t)
{
    unsigned flags = sg_float_flags(p);
    enum sg_rnd rnd = rounding(p);
    sg_handler fn = rnd == SG_RND_RN ? nearest(p, t, flags) : NULL;

    if (fn == NULL)
        fn = LOOK(any);
    if (fn == NULL || (t == SG_M_F64 && flags != 0))
        return false;
    struct sg_insn *in = sg_emit_op(d, fn, t, t, takes_one(p->op) ? SG_M_NONE : t,
                                    takes_three(p->op) ? t : SG_M_NONE);
    in->x = flags;
    in->y = rnd;
    return true;
}

static bool decode_approx(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_mod t)
{
    bool ftz = sg_ptx_has(p, SG_M_FTZ), two = p->op == SG_OP_DIV;
    sg_handler fn = LOOK(approx1);

    if (two)
        fn = t != SG_M_F32 ? NULL : sg_ptx_has(p, SG_M_FULL) ? div_full_f32 : div_approx_f32;
    if (p->op == SG_OP_RSQRT && t == SG_M_F64 && ftz)
        fn = rsqrt_ftz_f64;
    if (fn == NULL || (p->op == SG_OP_RCP && t == SG_M_F64 && !ftz))
        return false;
    struct sg_insn *in = sg_emit_op(d, fn, t, t, two ? t : SG_M_NONE, SG_M_NONE);
    in->x = sg_float_flags(p);
    return true;
}

static bool decode_minmax(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_mod t)
{
    bool max = p->op == SG_OP_MAX;
    unsigned flags = (sg_ptx_has(p, SG_M_FTZ) ? SG_NUM_FTZ : 0u) |
                     (sg_ptx_has(p, SG_M_NAN) ? SG_NUM_NAN : 0u) |
                     (sg_ptx_has(p, SG_M_XORSIGN) ? SG_NUM_XORSIGN : 0u);
    bool three = p->nopnds > 3;
    sg_handler fn = LOOK(minmax);

    bool xorsign = sg_ptx_has(p, SG_M_XORSIGN);
    if ((t == SG_M_F64 && (flags || three)) || xorsign != sg_ptx_has(p, SG_M_ABS) ||
        (xorsign && three))
        return false;
    if (flags != 0 || three)
        fn = three ? (max ? any_max3_f32 : any_min3_f32) : max ? any_max_f32 : any_min_f32;
    if (fn == NULL)
        return false;
    sg_emit_op(d, fn, t, t, t, three ? t : SG_M_NONE)->x = flags;
    return true;
}

bool SG_ISA(sg_decode_float)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod t = sg_type_at(p, 0);
    bool ftz = sg_ptx_has(p, SG_M_FTZ);
    sg_handler fn;

    switch ((enum sg_ptx_op)p->op) {
    case SG_OP_MIN:
    case SG_OP_MAX:
        return decode_minmax(d, p, t);
    case SG_OP_NEG:
    case SG_OP_ABS:
        fn = !ftz ? LOOK(signs) : p->op == SG_OP_NEG ? neg_f32_ftz : abs_f32_ftz;
        if (fn != NULL)
            sg_emit_op(d, fn, t, t, SG_M_NONE, SG_M_NONE);
        return fn != NULL;
    case SG_OP_COPYSIGN:
        sg_emit_op(d, t == SG_M_F64 ? copysign_f64 : copysign_f32, t, t, t, SG_M_NONE);
        return true;
    case SG_OP_EX2:
    case SG_OP_LG2:
    case SG_OP_SIN:
    case SG_OP_COS:
    case SG_OP_TANH:
    case SG_OP_RSQRT:
        return decode_approx(d, p, t);
    default:
        if (sg_ptx_has(p, SG_M_APPROX) || sg_ptx_has(p, SG_M_FULL))
            return decode_approx(d, p, t);
        return decode_arith(d, p, t);
    }
}
