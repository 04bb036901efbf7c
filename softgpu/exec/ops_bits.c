/* Logic, shifts, bit fields, permutes, dot products of bytes. */
#include "softgpu/exec/ops.h"

typedef uint32_t u32;
typedef uint64_t u64;

SG_OP2(and32, u32, u32, u32, x &y)
SG_OP2(and64, u64, u64, u64, x &y)
SG_OP2(or32, u32, u32, u32, x | y)
SG_OP2(or64, u64, u64, u64, x | y)
SG_OP2(xor32, u32, u32, u32, x ^ y)
SG_OP2(xor64, u64, u64, u64, x ^ y)
SG_OP1(not32, u32, u32, ~x)
SG_OP1(not64, u64, u64, ~x)
SG_OP1(cnot16, u32, u32, (uint16_t)x == 0)
SG_OP1(cnot32, u32, u32, x == 0)
SG_OP1(cnot64, u64, u64, x == 0)
SG_OP2(shl16, u32, u32, u32, sg_shl_b16((uint16_t)x, y))
SG_OP2(shl32, u32, u32, u32, sg_shl_b32(x, y))
SG_OP2(shl64, u64, u64, u32, sg_shl_b64(x, y))
SG_OP2(shr_u16, u32, u32, u32, sg_shr_u16((uint16_t)x, y))
SG_OP2(shr_s16, u32, u32, u32, sg_shr_s16((uint16_t)x, y))
SG_OP2(shr_u32, u32, u32, u32, sg_shr_u32(x, y))
SG_OP2(shr_s32, u32, u32, u32, sg_shr_s32(x, y))
SG_OP2(shr_u64, u64, u64, u32, sg_shr_u64(x, y))
SG_OP2(shr_s64, u64, u64, u32, sg_shr_s64(x, y))
SG_OP1(popc32, u32, u32, sg_popc32(x))
SG_OP1(popc64, u32, u64, sg_popc64(x))
SG_OP1(clz32, u32, u32, sg_clz32(x))
SG_OP1(clz64, u32, u64, sg_clz64(x))
SG_OP1(brev32, u32, u32, sg_brev32(x))
SG_OP1(brev64, u64, u64, sg_brev64(x))
SG_OP1(bfind32, u32, u32, sg_bfind32(x, in->x & 1, in->x & 2))
SG_OP1(bfind64, u32, u64, sg_bfind64(x, in->x & 1, in->x & 2))
SG_OP3(bfe_u32, u32, u32, u32, u32, sg_bfe_u32(x, y, z))
SG_OP3(bfe_s32, u32, u32, u32, u32, sg_bfe_s32(x, y, z))
SG_OP3(bfe_u64, u64, u64, u32, u32, sg_bfe_u64(x, y, z))
SG_OP3(bfe_s64, u64, u64, u32, u32, sg_bfe_s64(x, y, z))
SG_OP3(shf_l_clamp, u32, u32, u32, u32, sg_shf_l(x, y, z, false))
SG_OP3(shf_l_wrap, u32, u32, u32, u32, sg_shf_l(x, y, z, true))
SG_OP3(shf_r_clamp, u32, u32, u32, u32, sg_shf_r(x, y, z, false))
SG_OP3(shf_r_wrap, u32, u32, u32, u32, sg_shf_r(x, y, z, true))
SG_OP3(fns, u32, u32, u32, u32, sg_fns(x, y, (int32_t)z))
SG_OP2(szext, u32, u32, u32, sg_szext(x, y, in->x & 1, in->x & 2))
SG_OP2(bmsk, u32, u32, u32, sg_bmsk(x, y, in->x & 2))
SG_OP3(lop3, u32, u32, u32, u32, sg_lop3(x, y, z, in->x))
SG_OP3(prmt, u32, u32, u32, u32, sg_prmt(x, y, sg_prmt_selector((enum sg_prmt_mode)in->x, z)))
SG_OP3(dp4a, u32, u32, u32, u32, sg_dp4a(x, y, z, in->x & 1, in->x & 2))
SG_OP3(dp2a, u32, u32, u32, u32, sg_dp2a(x, y, z, in->x & 1, in->x & 2, in->x & 4))

SG_HANDLER(bfi32)
{
    const u32 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]);
    const u32 *c = sg_opnd(w, in->r[3]), *e = sg_opnd(w, in->r[4]);

    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), sg_bfi_b32(a[l], b[l], c[l], e[l]));
    return in + 1;
}

SG_HANDLER(bfi64)
{
    const u64 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]);
    const u32 *c = sg_opnd(w, in->r[3]), *e = sg_opnd(w, in->r[4]);

    SG_STORE_LANES(u64, sg_opnd(w, in->r[0]), sg_bfi_b64(a[l], b[l], c[l], e[l]));
    return in + 1;
}

/* Predicates are masks. x: bit 0, 1: a, b negated. */
SG_HANDLER(pred_and)
{
    sg_pred_set(w, in->r[0],
                (sg_pred(w, in->r[1]) ^ -(in->x & 1)) & (sg_pred(w, in->r[2]) ^ -(in->x >> 1 & 1)));
    return in + 1;
}

SG_HANDLER(pred_or)
{
    sg_pred_set(w, in->r[0],
                (sg_pred(w, in->r[1]) ^ -(in->x & 1)) | (sg_pred(w, in->r[2]) ^ -(in->x >> 1 & 1)));
    return in + 1;
}

SG_HANDLER(pred_xor)
{
    sg_pred_set(w, in->r[0],
                sg_pred(w, in->r[1]) ^ sg_pred(w, in->r[2]) ^ -((in->x ^ in->x >> 1) & 1));
    return in + 1;
}

SG_HANDLER(pred_not)
{
    sg_pred_set(w, in->r[0], ~(sg_pred(w, in->r[1]) ^ -(in->x & 1)));
    return in + 1;
}

/* lop3 with a predicate result: (result != 0) boolop c */
SG_HANDLER(lop3_pred)
{
    const u32 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]), *c = sg_opnd(w, in->r[3]);
    int32_t t[SG_WARP] __attribute__((aligned(64)));
    u32 q = sg_pred(w, in->r[5]) ^ -(in->y & 1);

    SG_LANES t[l] = -(int32_t)(sg_lop3(a[l], b[l], c[l], in->x) != 0);
    u32 bits = sg_lane_bits(t);
    bits = in->y & 2 ? bits & q : bits | q;
    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), sg_lop3(a[l], b[l], c[l], in->x));
    sg_pred_set(w, in->r[4], bits);
    return in + 1;
}

#define R(op, type, fn)                                                                            \
    {                                                                                              \
        SG_OP_##op, SG_M_##type, fn                                                                \
    }
static const struct sg_op_row logic[] = {
    R(AND, B16, and32),   R(AND, B32, and32),   R(AND, B64, and64),  R(OR, B16, or32),
    R(OR, B32, or32),     R(OR, B64, or64),     R(XOR, B16, xor32),  R(XOR, B32, xor32),
    R(XOR, B64, xor64),   R(NOT, B16, not32),   R(NOT, B32, not32),  R(NOT, B64, not64),
    R(CNOT, B16, cnot16), R(CNOT, B32, cnot32), R(CNOT, B64, cnot64)};
static const struct sg_op_row shifts[] = {
    R(SHL, B16, shl16),   R(SHL, B32, shl32),   R(SHL, B64, shl64),   R(SHR, B16, shr_u16),
    R(SHR, U16, shr_u16), R(SHR, S16, shr_s16), R(SHR, B32, shr_u32), R(SHR, U32, shr_u32),
    R(SHR, S32, shr_s32), R(SHR, B64, shr_u64), R(SHR, U64, shr_u64), R(SHR, S64, shr_s64)};
static const struct sg_op_row counts[] = {R(POPC, B32, popc32), R(POPC, B64, popc64),
                                          R(CLZ, B32, clz32), R(CLZ, B64, clz64)};
static const struct sg_op_row preds[] = {R(AND, PRED, pred_and), R(OR, PRED, pred_or),
                                         R(XOR, PRED, pred_xor)};

#define LOOK(table) sg_row(table, TB_ARRAY_LEN(table), p->op, t)

int32_t SG_ISA(sg_dec_pred_source)(struct sg_dec *d, const struct sg_ptx_opnd *o, bool *neg)
{
    if (o->kind == SG_OPND_IMM) { /* 0 or 1 */
        int32_t t = sg_dec_temp(d);
        struct sg_insn *in = sg_dec_emit(d, pred_xor);
        in->r[0] = in->r[1] = in->r[2] = t; /* a predicate that is false */
        *neg = (o->imm != 0) != o->neg;
        return t;
    }
    return sg_dec_pred(d, o, neg);
}

static int32_t pred_operand(struct sg_dec *d, const struct sg_ptx_opnd *o, u32 *neg, unsigned bit)
{
    bool n = false;
    int32_t off = SG_ISA(sg_dec_pred_source)(d, o, &n);

    *neg |= (u32)n << bit;
    return off;
}

static bool decode_pred(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod t = SG_M_PRED;
    sg_handler fn = p->op == SG_OP_NOT ? pred_not : LOOK(preds);
    u32 neg = 0;
    bool ignored;

    if (fn == NULL || p->nopnds < 2)
        return false;
    int32_t a = pred_operand(d, &p->opnds[1], &neg, 0);
    int32_t b = p->nopnds > 2 ? pred_operand(d, &p->opnds[2], &neg, 1) : 0;
    struct sg_insn *in = sg_dec_emit(d, fn);
    in->r[0] = sg_dec_pred(d, &p->opnds[0], &ignored);
    in->r[1] = a;
    in->r[2] = b;
    in->x = neg;
    return true;
}

static bool decode_lop3(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    bool to_pred = p->nopnds > 0 && p->opnds[0].kind == SG_OPND_PAIR, ignored;
    int32_t src[3];
    u32 neg = 0;

    bool combines = sg_ptx_has(p, SG_M_AND) || sg_ptx_has(p, SG_M_OR);
    if (p->opnds[4].kind != SG_OPND_IMM || to_pred != (p->nopnds == 6) || to_pred != combines)
        return false;
    for (unsigned i = 0; i < 3; i++)
        src[i] = sg_dec_src(d, &p->opnds[i + 1], SG_M_B32);
    int32_t q = to_pred ? pred_operand(d, &p->opnds[5], &neg, 0) : 0;
    const struct sg_ptx_opnd *dst = to_pred ? &p->opnds[0].sub[0] : &p->opnds[0];
    int32_t dd = sg_dec_dst(d, dst, SG_M_B32);
    struct sg_insn *in = sg_dec_emit(d, to_pred ? lop3_pred : lop3);
    in->r[0] = dd;
    for (unsigned i = 0; i < 3; i++)
        in->r[i + 1] = src[i];
    in->x = (u32)p->opnds[4].imm & 0xff;
    if (to_pred) {
        in->r[4] = sg_dec_pred(d, &p->opnds[0].sub[1], &ignored);
        in->r[5] = q;
        in->y = neg | (sg_ptx_has(p, SG_M_AND) ? 2u : 0u);
    }
    return true;
}

static bool decode_bfi(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_mod t)
{
    int32_t r[5];

    if (p->nopnds < 5)
        return false;
    for (unsigned i = 1; i < 5; i++)
        r[i] = sg_dec_src(d, &p->opnds[i], i < 3 ? t : SG_M_B32);
    r[0] = sg_dec_dst(d, &p->opnds[0], t);
    struct sg_insn *in = sg_dec_emit(d, sg_ptx_type_size(t) == 8 ? bfi64 : bfi32);
    memcpy(in->r, r, sizeof(r));
    return true;
}

static u32 prmt_mode(const struct sg_ptx_insn *p)
{
    static const uint16_t mods[] = {SG_M_F4E, SG_M_B4E, SG_M_RC8, SG_M_ECL, SG_M_ECR, SG_M_RC16};
    static const uint8_t modes[] = {SG_PRMT_F4E, SG_PRMT_B4E, SG_PRMT_RC8,
                                    SG_PRMT_ECL, SG_PRMT_ECR, SG_PRMT_RC16};

    for (size_t i = 0; i < TB_ARRAY_LEN(mods); i++)
        if (sg_ptx_has(p, (enum sg_ptx_mod)mods[i]))
            return modes[i];
    return SG_PRMT_DEFAULT;
}

static bool decode_dp(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod ta = sg_type_at(p, 0), tb = sg_type_at(p, 1);
    struct sg_insn *in =
        sg_emit_op(d, p->op == SG_OP_DP4A ? dp4a : dp2a, SG_M_B32, SG_M_B32, SG_M_B32, SG_M_B32);

    in->x = (ta == SG_M_S32 ? 1u : 0u) | (tb == SG_M_S32 ? 2u : 0u) |
            (sg_ptx_has(p, SG_M_HI) ? 4u : 0u);
    return true;
}

bool SG_ISA(sg_decode_bits)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod t = sg_type_at(p, 0);
    bool is_signed = t == SG_M_S32 || t == SG_M_S64, wide = sg_ptx_type_size(t) == 8;
    bool wrap = sg_ptx_has(p, SG_M_WRAP);
    sg_handler fn;
    struct sg_insn *in;

    switch ((enum sg_ptx_op)p->op) {
    case SG_OP_AND:
    case SG_OP_OR:
    case SG_OP_XOR:
    case SG_OP_NOT:
    case SG_OP_CNOT:
        if (t == SG_M_PRED)
            return decode_pred(d, p);
        fn = LOOK(logic);
        if (fn == NULL)
            return false;
        sg_emit_op(d, fn, t, t, p->op == SG_OP_NOT || p->op == SG_OP_CNOT ? SG_M_NONE : t,
                   SG_M_NONE);
        return true;
    case SG_OP_SHL:
    case SG_OP_SHR:
        fn = LOOK(shifts);
        if (fn != NULL)
            sg_emit_op(d, fn, t, t, SG_M_U32, SG_M_NONE);
        return fn != NULL;
    case SG_OP_POPC:
    case SG_OP_CLZ:
        fn = LOOK(counts);
        if (fn != NULL)
            sg_emit_op(d, fn, SG_M_U32, t, SG_M_NONE, SG_M_NONE);
        return fn != NULL;
    case SG_OP_BREV:
        sg_emit_op(d, wide ? brev64 : brev32, t, t, SG_M_NONE, SG_M_NONE);
        return true;
    case SG_OP_BFIND:
        in = sg_emit_op(d, wide ? bfind64 : bfind32, SG_M_U32, t, SG_M_NONE, SG_M_NONE);
        in->x = (is_signed ? 1u : 0u) | (sg_ptx_has(p, SG_M_SHIFTAMT) ? 2u : 0u);
        return true;
    case SG_OP_BFE:
        fn = wide ? (is_signed ? bfe_s64 : bfe_u64) : (is_signed ? bfe_s32 : bfe_u32);
        sg_emit_op(d, fn, t, t, SG_M_U32, SG_M_U32);
        return true;
    case SG_OP_BFI:
        return decode_bfi(d, p, t);
    case SG_OP_SHF:
        fn = sg_ptx_has(p, SG_M_L) ? (wrap ? shf_l_wrap : shf_l_clamp)
                                   : (wrap ? shf_r_wrap : shf_r_clamp);
        sg_emit_op(d, fn, t, t, t, SG_M_U32);
        return true;
    case SG_OP_FNS:
        sg_emit_op(d, fns, SG_M_B32, SG_M_B32, SG_M_B32, SG_M_S32);
        return true;
    case SG_OP_SZEXT:
    case SG_OP_BMSK:
        in = sg_emit_op(d, p->op == SG_OP_SZEXT ? szext : bmsk, t, t, SG_M_U32, SG_M_NONE);
        in->x = (is_signed ? 1u : 0u) | (wrap ? 2u : 0u);
        return true;
    case SG_OP_LOP3:
        return decode_lop3(d, p);
    case SG_OP_PRMT:
        in = sg_emit_op(d, prmt, SG_M_B32, SG_M_B32, SG_M_B32, SG_M_B32);
        in->x = prmt_mode(p);
        return true;
    case SG_OP_DP4A:
    case SG_OP_DP2A:
        return decode_dp(d, p);
    default:
        return false;
    }
}
