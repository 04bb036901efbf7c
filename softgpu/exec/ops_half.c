/* Arithmetic on f16, bf16 and pairs of them. */
#include "softgpu/exec/ops.h"

typedef uint32_t u32;
typedef uint16_t u16;

/* x of the instruction: enum sg_num_flags. The common case without flags has code of its own. */
#define H1(name, call) SG_OP1(name, u32, u32, call)

#define ARITH(op)                                                                                  \
    SG_OP2(op##_f16, u32, u32, u32, sg_f16_##op((u16)x, (u16)y, 0))                                \
    SG_OP2(op##_f16_any, u32, u32, u32, sg_f16_##op((u16)x, (u16)y, in->x))                        \
    SG_OP2(op##_f16x2, u32, u32, u32, SG_X2_2(sg_f16_##op, x, y, 0))                               \
    SG_OP2(op##_f16x2_any, u32, u32, u32, SG_X2_2(sg_f16_##op, x, y, in->x))                       \
    SG_OP2(op##_bf16_any, u32, u32, u32, sg_bf16_##op((u16)x, (u16)y, in->x))                      \
    SG_OP2(op##_bf16x2_any, u32, u32, u32, SG_X2_2(sg_bf16_##op, x, y, in->x))
ARITH(add)
ARITH(sub)
ARITH(mul)
ARITH(min)
ARITH(max)
SG_OP3(fma_f16, u32, u32, u32, u32, sg_f16_fma((u16)x, (u16)y, (u16)z, 0))
SG_OP3(fma_f16_any, u32, u32, u32, u32, sg_f16_fma((u16)x, (u16)y, (u16)z, in->x))
SG_OP3(fma_f16x2, u32, u32, u32, u32, SG_X2_3(sg_f16_fma, x, y, z, 0))
SG_OP3(fma_f16x2_any, u32, u32, u32, u32, SG_X2_3(sg_f16_fma, x, y, z, in->x))
SG_OP3(fma_bf16_any, u32, u32, u32, u32, sg_bf16_fma((u16)x, (u16)y, (u16)z, in->x))
SG_OP3(fma_bf16x2_any, u32, u32, u32, u32, SG_X2_3(sg_bf16_fma, x, y, z, in->x))
H1(neg_f16, sg_f16_neg((u16)x, in->x))
H1(abs_f16, sg_f16_abs((u16)x, in->x))
H1(neg_f16x2, SG_X2_1(sg_f16_neg, x, in->x))
H1(abs_f16x2, SG_X2_1(sg_f16_abs, x, in->x))
H1(neg_bf16, sg_bf16_neg((u16)x))
H1(abs_bf16, sg_bf16_abs((u16)x))
H1(neg_bf16x2, SG_X2_1(sg_bf16_neg, x))
H1(abs_bf16x2, SG_X2_1(sg_bf16_abs, x))
H1(ex2_f16, sg_f16_ex2_approx((u16)x))
H1(ex2_f16x2, SG_X2_1(sg_f16_ex2_approx, x))
H1(ex2_bf16, sg_bf16_ex2_approx_ftz((u16)x))
H1(ex2_bf16x2, SG_X2_1(sg_bf16_ex2_approx_ftz, x))
H1(tanh_f16, sg_f16_tanh_approx((u16)x))
H1(tanh_f16x2, SG_X2_1(sg_f16_tanh_approx, x))
H1(tanh_bf16, sg_bf16_tanh_approx((u16)x))
H1(tanh_bf16x2, SG_X2_1(sg_bf16_tanh_approx, x))

#define R(op, type, fn)                                                                            \
    {                                                                                              \
        SG_OP_##op, SG_M_##type, fn                                                                \
    }
static const struct sg_op_row plain[] = {
    R(ADD, F16, add_f16),     R(SUB, F16, sub_f16),     R(MUL, F16, mul_f16),
    R(FMA, F16, fma_f16),     R(ADD, F16X2, add_f16x2), R(SUB, F16X2, sub_f16x2),
    R(MUL, F16X2, mul_f16x2), R(FMA, F16X2, fma_f16x2), R(MIN, F16, min_f16),
    R(MAX, F16, max_f16),     R(MIN, F16X2, min_f16x2), R(MAX, F16X2, max_f16x2)};
#define FOUR(OP, op)                                                                               \
    R(OP, F16, op##_f16_any), R(OP, F16X2, op##_f16x2_any), R(OP, BF16, op##_bf16_any),            \
        R(OP, BF16X2, op##_bf16x2_any)
#define FOUR1(OP, op)                                                                              \
    R(OP, F16, op##_f16), R(OP, F16X2, op##_f16x2), R(OP, BF16, op##_bf16),                        \
        R(OP, BF16X2, op##_bf16x2)
static const struct sg_op_row flagged[] = {FOUR(ADD, add), FOUR(SUB, sub), FOUR(MUL, mul),
                                           FOUR(FMA, fma), FOUR(MIN, min), FOUR(MAX, max)};
static const struct sg_op_row single[] = {FOUR1(NEG, neg), FOUR1(ABS, abs), FOUR1(EX2, ex2),
                                          FOUR1(TANH, tanh)};

#define LOOK(table) sg_row(table, TB_ARRAY_LEN(table), p->op, t)

bool SG_ISA(sg_decode_half)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod t = sg_type_at(p, 0);
    unsigned flags = sg_float_flags(p) | (sg_ptx_has(p, SG_M_NAN) ? SG_NUM_NAN : 0u) |
                     (sg_ptx_has(p, SG_M_XORSIGN) ? SG_NUM_XORSIGN : 0u);
    sg_handler fn = LOOK(single);

    if (sg_ptx_has(p, SG_M_XORSIGN) != sg_ptx_has(p, SG_M_ABS))
        return false;
    if (fn != NULL) {
        sg_emit_op(d, fn, t, t, SG_M_NONE, SG_M_NONE)->x = flags;
        return true;
    }
    fn = flags ? NULL : LOOK(plain);
    if (fn == NULL)
        fn = LOOK(flagged);
    if (fn == NULL || p->nopnds > (p->op == SG_OP_FMA ? 4 : 3))
        return false;
    sg_emit_op(d, fn, t, t, t, p->op == SG_OP_FMA ? t : SG_M_NONE)->x = flags;
    return true;
}
