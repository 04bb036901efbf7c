/* Integer arithmetic. */
#include "softgpu/exec/ops.h"

typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#define S16(v) ((s32)(int16_t)(v))
#define U16(v) ((u32)(uint16_t)(v))

SG_OP2(add32, u32, u32, u32, x + y)
SG_OP2(add64, u64, u64, u64, x + y)
SG_OP2(sub32, u32, u32, u32, x - y)
SG_OP2(sub64, u64, u64, u64, x - y)
SG_OP2(add_sat, u32, u32, u32, sg_add_sat_s32(x, y))
SG_OP2(sub_sat, u32, u32, u32, sg_sub_sat_s32(x, y))
SG_OP2(add16x2, u32, u32, u32, ((x + y) & 0xffffu) | ((x & 0xffff0000u) + (y & 0xffff0000u)))
SG_OP2(mul32, u32, u32, u32, x *y)
SG_OP2(mul64, u64, u64, u64, x *y)
SG_OP2(mulhi_u16, u32, u32, u32, U16(x) * U16(y) >> 16)
SG_OP2(mulhi_s16, u32, u32, u32, (u32)(S16(x) * S16(y)) >> 16)
SG_OP2(mulhi_u32, u32, u32, u32, (u32)((u64)x *y >> 32))
SG_OP2(mulhi_s32, u32, u32, u32, (u32)((u64)((s64)(s32)x *(s32)y) >> 32))
SG_OP2(mulhi_u64, u64, u64, u64, sg_mulhi_u64(x, y))
SG_OP2(mulhi_s64, u64, u64, u64, sg_mulhi_s64(x, y))
SG_OP2(mulwide_u16, u32, u32, u32, U16(x) * U16(y))
SG_OP2(mulwide_s16, u32, u32, u32, S16(x) * S16(y))
SG_OP2(mulwide_u32, u64, u32, u32, (u64)x *y)
SG_OP2(mulwide_s32, u64, u32, u32, (s64)(s32)x *(s32)y)
SG_OP3(mad32, u32, u32, u32, u32, x *y + z)
SG_OP3(mad64, u64, u64, u64, u64, x *y + z)
SG_OP3(madhi_u16, u32, u32, u32, u32, (U16(x) * U16(y) >> 16) + z)
SG_OP3(madhi_s16, u32, u32, u32, u32, ((u32)(S16(x) * S16(y)) >> 16) + z)
SG_OP3(madhi_u32, u32, u32, u32, u32, (u32)((u64)x *y >> 32) + z)
SG_OP3(madhi_s32, u32, u32, u32, u32, (u32)((u64)((s64)(s32)x *(s32)y) >> 32) + z)
SG_OP3(madhi_sat, u32, u32, u32, u32, sg_madhi_sat_s32(x, y, z))
SG_OP3(madhi_u64, u64, u64, u64, u64, sg_mulhi_u64(x, y) + z)
SG_OP3(madhi_s64, u64, u64, u64, u64, sg_mulhi_s64(x, y) + z)
SG_OP3(madwide_u16, u32, u32, u32, u32, U16(x) * U16(y) + z)
SG_OP3(madwide_s16, u32, u32, u32, u32, (u32)(S16(x) * S16(y)) + z)
SG_OP3(madwide_u32, u64, u32, u32, u64, (u64)x *y + z)
SG_OP3(madwide_s32, u64, u32, u32, u64, (u64)((s64)(s32)x *(s32)y) + z)
SG_OP2(mul24lo_u32, u32, u32, u32, (u32)sg_mul24_u32(x, y))
SG_OP2(mul24lo_s32, u32, u32, u32, (u32)sg_mul24_s32(x, y))
SG_OP2(mul24hi_u32, u32, u32, u32, (u32)(sg_mul24_u32(x, y) >> 16))
SG_OP2(mul24hi_s32, u32, u32, u32, (u32)(sg_mul24_s32(x, y) >> 16))
SG_OP3(mad24lo_u32, u32, u32, u32, u32, (u32)sg_mul24_u32(x, y) + z)
SG_OP3(mad24lo_s32, u32, u32, u32, u32, (u32)sg_mul24_s32(x, y) + z)
SG_OP3(mad24hi_u32, u32, u32, u32, u32, (u32)(sg_mul24_u32(x, y) >> 16) + z)
SG_OP3(mad24hi_s32, u32, u32, u32, u32, (u32)(sg_mul24_s32(x, y) >> 16) + z)
SG_OP3(mad24hi_sat, u32, u32, u32, u32, sg_mad24hi_sat_s32(x, y, z))

SG_OP2(div_u16, u32, u32, u32, sg_div_u16((uint16_t)x, (uint16_t)y))
SG_OP2(div_s16, u32, u32, u32, sg_div_s16((uint16_t)x, (uint16_t)y))
SG_OP2(div_u32, u32, u32, u32, sg_div_u32(x, y))
SG_OP2(div_s32, u32, u32, u32, sg_div_s32(x, y))
SG_OP2(div_u64, u64, u64, u64, sg_div_u64(x, y))
SG_OP2(div_s64, u64, u64, u64, sg_div_s64(x, y))
SG_OP2(rem_u16, u32, u32, u32, sg_rem_u16((uint16_t)x, (uint16_t)y))
SG_OP2(rem_s16, u32, u32, u32, sg_rem_s16((uint16_t)x, (uint16_t)y))
SG_OP2(rem_u32, u32, u32, u32, sg_rem_u32(x, y))
SG_OP2(rem_s32, u32, u32, u32, sg_rem_s32(x, y))
SG_OP2(rem_u64, u64, u64, u64, sg_rem_u64(x, y))
SG_OP2(rem_s64, u64, u64, u64, sg_rem_s64(x, y))

SG_OP2(min_u16, u32, u32, u32, U16(x) < U16(y) ? U16(x) : U16(y))
SG_OP2(min_s16, u32, u32, u32, S16(x) < S16(y) ? S16(x) : S16(y))
SG_OP2(min_u32, u32, u32, u32, x < y ? x : y)
SG_OP2(min_s32, u32, u32, u32, (s32)x < (s32)y ? x : y)
SG_OP2(min_u64, u64, u64, u64, x < y ? x : y)
SG_OP2(min_s64, u64, u64, u64, (s64)x < (s64)y ? x : y)
SG_OP2(max_u16, u32, u32, u32, U16(x) > U16(y) ? U16(x) : U16(y))
SG_OP2(max_s16, u32, u32, u32, S16(x) > S16(y) ? S16(x) : S16(y))
SG_OP2(max_u32, u32, u32, u32, x > y ? x : y)
SG_OP2(max_s32, u32, u32, u32, (s32)x > (s32)y ? x : y)
SG_OP2(max_u64, u64, u64, u64, x > y ? x : y)
SG_OP2(max_s64, u64, u64, u64, (s64)x > (s64)y ? x : y)
SG_OP2(min_s32_relu, u32, s32, s32, (x < y ? x : y) < 0 ? 0 : (x < y ? x : y))
SG_OP2(max_s32_relu, u32, s32, s32, (x > y ? x : y) < 0 ? 0 : (x > y ? x : y))

/* Both halves of a register. */
#define LO(v) ((v)&0xffffu)
#define HI(v) ((v) >> 16)
#define PACK(lo, hi) (((u32)(lo)&0xffffu) | ((u32)(hi) << 16))
SG_OP2(min_u16x2, u32, u32, u32, PACK(LO(x) < LO(y) ? LO(x) : LO(y), HI(x) < HI(y) ? HI(x) : HI(y)))
SG_OP2(max_u16x2, u32, u32, u32, PACK(LO(x) > LO(y) ? LO(x) : LO(y), HI(x) > HI(y) ? HI(x) : HI(y)))
SG_OP2(min_s16x2, u32, u32, u32,
       PACK(S16(x) < S16(y) ? S16(x) : S16(y), S16(HI(x)) < S16(HI(y)) ? S16(HI(x)) : S16(HI(y))))
SG_OP2(max_s16x2, u32, u32, u32,
       PACK(S16(x) > S16(y) ? S16(x) : S16(y), S16(HI(x)) > S16(HI(y)) ? S16(HI(x)) : S16(HI(y))))
static inline s32 relu(s32 v)
{
    return v < 0 ? 0 : v;
}
SG_OP2(min_s16x2_relu, u32, u32, u32,
       PACK(relu(S16(x) < S16(y) ? S16(x) : S16(y)),
            relu(S16(HI(x)) < S16(HI(y)) ? S16(HI(x)) : S16(HI(y)))))
SG_OP2(max_s16x2_relu, u32, u32, u32,
       PACK(relu(S16(x) > S16(y) ? S16(x) : S16(y)),
            relu(S16(HI(x)) > S16(HI(y)) ? S16(HI(x)) : S16(HI(y)))))

SG_OP1(neg32, u32, u32, 0u - x)
SG_OP1(neg64, u64, u64, 0u - x)
SG_OP1(abs16, u32, u32, S16(x) < 0 ? 0u - (u32)S16(x) : x)
SG_OP1(abs32, u32, u32, (s32)x < 0 ? 0u - x : x)
SG_OP1(abs64, u64, u64, (s64)x < 0 ? 0u - x : x)
SG_OP3(sad_u16, u32, u32, u32, u32, sg_sad_u16((uint16_t)x, (uint16_t)y, (uint16_t)z))
SG_OP3(sad_s16, u32, u32, u32, u32, sg_sad_s16((uint16_t)x, (uint16_t)y, (uint16_t)z))
SG_OP3(sad_u32, u32, u32, u32, u32, sg_sad_u32(x, y, z))
SG_OP3(sad_s32, u32, u32, u32, u32, sg_sad_s32(x, y, z))
SG_OP3(sad_u64, u64, u64, u64, u64, sg_sad_u64(x, y, z))
SG_OP3(sad_s64, u64, u64, u64, u64, sg_sad_s64(x, y, z))

#define R(op, type, fn)                                                                            \
    {                                                                                              \
        SG_OP_##op, SG_M_##type, fn                                                                \
    }
#define R_ALL(op, f16u, f16s, f32u, f32s, f64u, f64s)                                              \
    R(op, U16, f16u), R(op, S16, f16s), R(op, U32, f32u), R(op, S32, f32s), R(op, U64, f64u),      \
        R(op, S64, f64s)
#define R_BOTH(op, f32, f64) R_ALL(op, f32, f32, f32, f32, f64, f64)

static const struct sg_op_row two[] = {
    R_BOTH(ADD, add32, add64),
    R(ADD, U16X2, add16x2),
    R(ADD, S16X2, add16x2),
    R_BOTH(SUB, sub32, sub64),
    R_ALL(DIV, div_u16, div_s16, div_u32, div_s32, div_u64, div_s64),
    R_ALL(REM, rem_u16, rem_s16, rem_u32, rem_s32, rem_u64, rem_s64),
    R_ALL(MIN, min_u16, min_s16, min_u32, min_s32, min_u64, min_s64),
    R_ALL(MAX, max_u16, max_s16, max_u32, max_s32, max_u64, max_s64),
    R(MIN, U16X2, min_u16x2),
    R(MIN, S16X2, min_s16x2),
    R(MAX, U16X2, max_u16x2),
    R(MAX, S16X2, max_s16x2),
};
static const struct sg_op_row two_relu[] = {R(MIN, S32, min_s32_relu), R(MAX, S32, max_s32_relu),
                                            R(MIN, S16X2, min_s16x2_relu),
                                            R(MAX, S16X2, max_s16x2_relu)};
static const struct sg_op_row one[] = {
    R(NEG, S16, neg32), R(NEG, S32, neg32), R(NEG, S64, neg64),
    R(ABS, S16, abs16), R(ABS, S32, abs32), R(ABS, S64, abs64),
};
static const struct sg_op_row mul_lo[] = {R_BOTH(MUL, mul32, mul64), R_BOTH(MAD, mad32, mad64)};
static const struct sg_op_row mul_hi[] = {
    R_ALL(MUL, mulhi_u16, mulhi_s16, mulhi_u32, mulhi_s32, mulhi_u64, mulhi_s64),
    R_ALL(MAD, madhi_u16, madhi_s16, madhi_u32, madhi_s32, madhi_u64, madhi_s64)};
static const struct sg_op_row mul_wide[] = {R(MUL, U16, mulwide_u16), R(MUL, S16, mulwide_s16),
                                            R(MUL, U32, mulwide_u32), R(MUL, S32, mulwide_s32),
                                            R(MAD, U16, madwide_u16), R(MAD, S16, madwide_s16),
                                            R(MAD, U32, madwide_u32), R(MAD, S32, madwide_s32)};
static const struct sg_op_row lo24[] = {R(MUL24, U32, mul24lo_u32), R(MUL24, S32, mul24lo_s32),
                                        R(MAD24, U32, mad24lo_u32), R(MAD24, S32, mad24lo_s32)};
static const struct sg_op_row hi24[] = {R(MUL24, U32, mul24hi_u32), R(MUL24, S32, mul24hi_s32),
                                        R(MAD24, U32, mad24hi_u32), R(MAD24, S32, mad24hi_s32)};
static const struct sg_op_row sad[] = {
    R_ALL(SAD, sad_u16, sad_s16, sad_u32, sad_s32, sad_u64, sad_s64)};

#define LOOK(table) sg_row(table, TB_ARRAY_LEN(table), p->op, t)

/* ---- carries --------------------------------------------------------------------------------- */

/* x of a carry instruction: what it does, whether it reads and writes the flag. */
enum { CC_SUB = 1, CC_IN = 2, CC_OUT = 4, CC_HI = 8, CC_SIGNED = 16 };

static u64 add_carry(u64 a, u64 b, unsigned bits, bool sub, bool in, bool *out)
{
    u64 mask = bits == 64 ? ~UINT64_C(0) : 0xffffffffu;
    sg_u128 v = sub ? (sg_u128)(a & mask) - (b & mask) - in : (sg_u128)(a & mask) + (b & mask) + in;

    *out = (v >> bits & 1) != 0; /* carry, or borrow */
    return (u64)v & mask;
}

static u64 product(u64 a, u64 b, unsigned bits, u32 x)
{
    if (bits == 64)
        return !(x & CC_HI) ? a * b : x & CC_SIGNED ? sg_mulhi_s64(a, b) : sg_mulhi_u64(a, b);
    if (!(x & CC_HI))
        return (u32)a * (u32)b;
    return x & CC_SIGNED ? sg_mulhi_s32((u32)a, (u32)b) : sg_mulhi_u32((u32)a, (u32)b);
}

static const struct sg_insn *carry(struct sg_warp *w, const struct sg_insn *in, unsigned bits)
{
    uint8_t *d = sg_opnd(w, in->r[0]);
    const uint8_t *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]);
    const uint8_t *c = in->y ? sg_opnd(w, in->r[3]) : NULL;
    size_t step = bits / 8;

    for (unsigned l = 0; l < SG_WARP; l++) {
        u64 va = 0, vb = 0, vc = 0;
        bool out;
        if (!(w->mask >> l & 1))
            continue;
        memcpy(&va, a + l * step, step);
        memcpy(&vb, b + l * step, step);
        if (c != NULL) {
            memcpy(&vc, c + l * step, step);
            va = product(va, vb, bits, in->x);
            vb = vc;
        }
        /* After a subtraction the flag says that nothing was borrowed: nvcc's 128-bit division
         * reads it with addc, as if b had been added as ~b + 1. */
        bool sub = in->x & CC_SUB, flag = w->cc >> l & 1;
        u64 r = add_carry(va, vb, bits, sub, in->x & CC_IN && flag != sub, &out);
        out = out != sub;
        if (in->x & CC_OUT)
            w->cc = (w->cc & ~(1u << l)) | (u32)out << l;
        memcpy(d + l * step, &r, step);
    }
    return in + 1;
}

SG_HANDLER(carry32)
{
    return carry(w, in, 32);
}

SG_HANDLER(carry64)
{
    return carry(w, in, 64);
}

static bool decode_carry(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_mod t)
{
    bool mad = p->op == SG_OP_MAD || p->op == SG_OP_MADC;
    bool takes = p->op == SG_OP_ADDC || p->op == SG_OP_SUBC || p->op == SG_OP_MADC;
    bool wide = sg_ptx_type_size(t) == 8;

    if (sg_ptx_type_size(t) < 4 || sg_ptx_has(p, SG_M_WIDE))
        return false;
    struct sg_insn *in = sg_emit_op(d, wide ? carry64 : carry32, t, t, t, mad ? t : SG_M_NONE);
    in->y = mad;
    in->x = (p->op == SG_OP_SUB || p->op == SG_OP_SUBC ? CC_SUB : 0u) | (takes ? CC_IN : 0u) |
            (sg_ptx_has(p, SG_M_CC) ? CC_OUT : 0u) | (sg_ptx_has(p, SG_M_HI) ? CC_HI : 0u) |
            (t == SG_M_S32 || t == SG_M_S64 ? CC_SIGNED : 0u);
    return true;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool decode_mul(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_mod t)
{
    bool wide = sg_ptx_has(p, SG_M_WIDE), hi = sg_ptx_has(p, SG_M_HI);
    bool three = p->op == SG_OP_MAD || p->op == SG_OP_MAD24;
    bool is24 = p->op == SG_OP_MUL24 || p->op == SG_OP_MAD24;
    enum sg_ptx_mod td = t;
    sg_handler fn;

    if (is24)
        fn = hi ? LOOK(hi24) : LOOK(lo24);
    else
        fn = wide ? LOOK(mul_wide) : hi ? LOOK(mul_hi) : LOOK(mul_lo);
    if (sg_ptx_has(p, SG_M_SAT))
        fn = !hi || t != SG_M_S32 || !three ? NULL : is24 ? mad24hi_sat : madhi_sat;
    if (fn == NULL)
        return false;
    if (wide)
        td = sg_ptx_type_size(t) == 2 ? SG_M_B32 : SG_M_B64;
    sg_emit_op(d, fn, td, t, t, three ? td : SG_M_NONE);
    return true;
}

bool SG_ISA(sg_decode_int)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod t = sg_type_at(p, 0);
    sg_handler fn;

    switch ((enum sg_ptx_op)p->op) {
    case SG_OP_ADDC:
    case SG_OP_SUBC:
    case SG_OP_MADC:
        return decode_carry(d, p, t);
    case SG_OP_MUL:
    case SG_OP_MAD:
    case SG_OP_MUL24:
    case SG_OP_MAD24:
        return sg_ptx_has(p, SG_M_CC) ? decode_carry(d, p, t) : decode_mul(d, p, t);
    case SG_OP_NEG:
    case SG_OP_ABS:
        fn = LOOK(one);
        if (fn != NULL)
            sg_emit_op(d, fn, t, t, SG_M_NONE, SG_M_NONE);
        return fn != NULL;
    case SG_OP_SAD:
        fn = LOOK(sad);
        if (fn != NULL)
            sg_emit_op(d, fn, t, t, t, t);
        return fn != NULL;
    default:
        break;
    }
    if (sg_ptx_has(p, SG_M_CC))
        return decode_carry(d, p, t);
    fn = LOOK(two);
    if (sg_ptx_has(p, SG_M_RELU))
        fn = LOOK(two_relu);
    if (sg_ptx_has(p, SG_M_SAT))
        fn = t != SG_M_S32        ? NULL
             : p->op == SG_OP_ADD ? add_sat
             : p->op == SG_OP_SUB ? sub_sat
                                  : NULL;
    if (fn == NULL)
        return false;
    sg_emit_op(d, fn, t, t, t, SG_M_NONE);
    return true;
}
