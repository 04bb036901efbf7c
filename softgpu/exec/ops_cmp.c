/* setp, set, selp, slct, testp. */
#include "softgpu/exec/ops.h"

typedef uint32_t u32;
typedef uint64_t u64;

/* After a comparison: x bit 0: a second result, the opposite; bits 1-2: and, or, xor with the
 * predicate r[4]; bit 3: that one negated. */
static inline const struct sg_insn *finish_setp(struct sg_warp *w, const struct sg_insn *in,
                                                u32 bits)
{
    u32 other = ~bits, x = in->x;

    if (x & 6) {
        u32 c = sg_pred(w, in->r[4]) ^ -(x >> 3 & 1);
        switch (x >> 1 & 3) {
        case 1:
            bits &= c;
            other &= c;
            break;
        case 2:
            bits |= c;
            other |= c;
            break;
        default:
            bits ^= c;
            other ^= c;
            break;
        }
    }
    if (x & 1)
        sg_pred_set(w, in->r[3], other);
    sg_pred_set(w, in->r[0], bits);
    return in + 1;
}

#define SETP(name, T, expr)                                                                        \
    SG_HANDLER(name)                                                                               \
    {                                                                                              \
        const T *a_ = sg_opnd(w, in->r[1]), *b_ = sg_opnd(w, in->r[2]);                            \
        int32_t t[SG_WARP] __attribute__((aligned(64)));                                           \
        SG_LANES                                                                                   \
        {                                                                                          \
            T x = a_[l], y = b_[l];                                                                \
            t[l] = -(int32_t)(expr);                                                               \
        }                                                                                          \
        return finish_setp(w, in, sg_lane_bits(t));                                                \
    }

#define SIX(suffix, T, C)                                                                          \
    SETP(eq_##suffix, T, (C)x == (C)y)                                                             \
    SETP(ne_##suffix, T, (C)x != (C)y)                                                             \
    SETP(lt_##suffix, T, (C)x < (C)y)                                                              \
    SETP(le_##suffix, T, (C)x <= (C)y)                                                             \
    SETP(gt_##suffix, T, (C)x > (C)y)                                                              \
    SETP(ge_##suffix, T, (C)x >= (C)y)
SIX(u16, u32, uint16_t)
SIX(s16, u32, int16_t)
SIX(u32, u32, u32)
SIX(s32, u32, int32_t)
SIX(u64, u64, u64)
SIX(s64, u64, int64_t)

#define FLOATS(suffix, T, fn, ...)                                                                 \
    SETP(eq_##suffix, T, fn(SG_CMP_EQ, x, y, ##__VA_ARGS__))                                       \
    SETP(ne_##suffix, T, fn(SG_CMP_NE, x, y, ##__VA_ARGS__))                                       \
    SETP(lt_##suffix, T, fn(SG_CMP_LT, x, y, ##__VA_ARGS__))                                       \
    SETP(le_##suffix, T, fn(SG_CMP_LE, x, y, ##__VA_ARGS__))                                       \
    SETP(gt_##suffix, T, fn(SG_CMP_GT, x, y, ##__VA_ARGS__))                                       \
    SETP(ge_##suffix, T, fn(SG_CMP_GE, x, y, ##__VA_ARGS__))                                       \
    SETP(any_##suffix, T, fn((enum sg_cmp)in->y, x, y, ##__VA_ARGS__))
FLOATS(f32, u32, sg_f32_cmp, 0)
FLOATS(f32_ftz, u32, sg_f32_cmp, SG_NUM_FTZ)
FLOATS(f64, u64, sg_f64_cmp)
SETP(any_f16, u32, sg_f16_cmp((enum sg_cmp)in->y, (uint16_t)x, (uint16_t)y, 0))
SETP(any_f16_ftz, u32, sg_f16_cmp((enum sg_cmp)in->y, (uint16_t)x, (uint16_t)y, SG_NUM_FTZ))
SETP(any_bf16, u32, sg_bf16_cmp((enum sg_cmp)in->y, (uint16_t)x, (uint16_t)y))
SETP(any_f16_hi, u32, sg_f16_cmp((enum sg_cmp)in->y, (uint16_t)(x >> 16), (uint16_t)(y >> 16), 0))
SETP(any_f16_ftz_hi, u32,
     sg_f16_cmp((enum sg_cmp)in->y, (uint16_t)(x >> 16), (uint16_t)(y >> 16), SG_NUM_FTZ))
SETP(any_bf16_hi, u32, sg_bf16_cmp((enum sg_cmp)in->y, (uint16_t)(x >> 16), (uint16_t)(y >> 16)))
SETP(testp32, u32, sg_f32_testp((enum sg_testp)in->y, x) | (y & 0))
SETP(testp64, u64, sg_f64_testp((enum sg_testp)in->y, x) | (y & 0))

#define SIX_ROW(T, s)                                                                              \
    {                                                                                              \
        SG_M_##T,                                                                                  \
        {                                                                                          \
            eq_##s, ne_##s, lt_##s, le_##s, gt_##s, ge_##s                                         \
        }                                                                                          \
    }
static const struct {
    uint16_t type;
    sg_handler fn[6];
} by_order[] = {
    SIX_ROW(B16, u16), SIX_ROW(U16, u16), SIX_ROW(S16, s16), SIX_ROW(B32, u32),
    SIX_ROW(U32, u32), SIX_ROW(S32, s32), SIX_ROW(B64, u64), SIX_ROW(U64, u64),
    SIX_ROW(S64, s64), SIX_ROW(F32, f32), SIX_ROW(F64, f64),
};

enum {
    BIT_TYPES = 1,
    UNSIGNED_TYPES = 2,
    SIGNED_TYPES = 4,
    FLOAT_TYPES = 8,
    NUMBERS = UNSIGNED_TYPES | SIGNED_TYPES | FLOAT_TYPES,
    ALL_TYPES = NUMBERS | BIT_TYPES,
};

static const sg_handler ordered_ftz[6] = {eq_f32_ftz, ne_f32_ftz, lt_f32_ftz,
                                          le_f32_ftz, gt_f32_ftz, ge_f32_ftz};

/* The comparison, if it is one for values of type @t. */
static bool comparison(const struct sg_ptx_insn *p, enum sg_ptx_mod t, enum sg_cmp *cmp)
{
    static const struct {
        uint16_t mod;
        uint8_t cmp, types;
    } rows[] = {
        {SG_M_EQ, SG_CMP_EQ, ALL_TYPES},      {SG_M_NE, SG_CMP_NE, ALL_TYPES},
        {SG_M_LT, SG_CMP_LT, NUMBERS},        {SG_M_LE, SG_CMP_LE, NUMBERS},
        {SG_M_GT, SG_CMP_GT, NUMBERS},        {SG_M_GE, SG_CMP_GE, NUMBERS},
        {SG_M_LO, SG_CMP_LT, UNSIGNED_TYPES}, {SG_M_LS, SG_CMP_LE, UNSIGNED_TYPES},
        {SG_M_HI, SG_CMP_GT, UNSIGNED_TYPES}, {SG_M_HS, SG_CMP_GE, UNSIGNED_TYPES},
        {SG_M_EQU, SG_CMP_EQU, FLOAT_TYPES},  {SG_M_NEU, SG_CMP_NEU, FLOAT_TYPES},
        {SG_M_LTU, SG_CMP_LTU, FLOAT_TYPES},  {SG_M_LEU, SG_CMP_LEU, FLOAT_TYPES},
        {SG_M_GTU, SG_CMP_GTU, FLOAT_TYPES},  {SG_M_GEU, SG_CMP_GEU, FLOAT_TYPES},
        {SG_M_NUM, SG_CMP_NUM, FLOAT_TYPES},  {SG_M_NAN, SG_CMP_NAN, FLOAT_TYPES},
    };
    unsigned kind = t >= SG_M_B8 && t <= SG_M_B64    ? BIT_TYPES
                    : t >= SG_M_U8 && t <= SG_M_U64  ? UNSIGNED_TYPES
                    : t >= SG_M_F16 && t <= SG_M_F64 ? FLOAT_TYPES
                                                     : SIGNED_TYPES;

    for (size_t i = 0; i < TB_ARRAY_LEN(rows); i++)
        if (sg_ptx_has(p, (enum sg_ptx_mod)rows[i].mod) && (rows[i].types & kind)) {
            *cmp = (enum sg_cmp)rows[i].cmp;
            return true;
        }
    return false;
}

static sg_handler choose(enum sg_ptx_mod t, enum sg_cmp cmp, bool ftz)
{
    if (t == SG_M_F32 && ftz)
        return cmp <= SG_CMP_GE ? ordered_ftz[cmp] : any_f32_ftz;
    for (size_t i = 0; cmp <= SG_CMP_GE && i < TB_ARRAY_LEN(by_order); i++)
        if (by_order[i].type == t)
            return by_order[i].fn[cmp];
    switch (t) {
    case SG_M_F32:
        return any_f32;
    case SG_M_F64:
        return any_f64;
    case SG_M_F16:
    case SG_M_F16X2:
        return ftz ? any_f16_ftz : any_f16;
    case SG_M_BF16:
    case SG_M_BF16X2:
        return any_bf16;
    default:
        return NULL;
    }
}

static u32 bool_op(const struct sg_ptx_insn *p)
{
    return sg_ptx_has(p, SG_M_AND)   ? 2u
           : sg_ptx_has(p, SG_M_OR)  ? 4u
           : sg_ptx_has(p, SG_M_XOR) ? 6u
                                     : 0u;
}

/* The third source of setp and set: a predicate. Returns x's bits. */
static u32 third(struct sg_dec *d, const struct sg_ptx_insn *p, int32_t *off)
{
    u32 x = bool_op(p);
    bool neg = false;

    if (x == 0)
        return 0;
    if (p->nopnds < 4) {
        sg_dec_refuse(d, "an operand is missing");
        return 0;
    }
    *off = SG_ISA(sg_dec_pred_source)(d, &p->opnds[3], &neg);
    return x | (neg ? 8u : 0u);
}

static sg_handler high_half(sg_handler low)
{
    return low == any_f16 ? any_f16_hi : low == any_f16_ftz ? any_f16_ftz_hi : any_bf16_hi;
}

SG_HANDLER(both_preds)
{
    u32 p = sg_pred(w, in->r[1]), q = sg_pred(w, in->r[2]);

    sg_pred_set(w, in->r[0], p);
    sg_pred_set(w, in->r[3], q);
    return in + 1;
}

/* Halves are compared into temporaries: p or q may be the third source. */
static void setp_packed(struct sg_dec *d, sg_handler fn, const int32_t r[5], u32 x, enum sg_cmp cmp)
{
    int32_t half[2] = {sg_dec_temp(d), sg_dec_temp(d)};

    for (int i = 0; i < 2; i++) {
        struct sg_insn *in = sg_dec_emit(d, i ? high_half(fn) : fn);
        memcpy(in->r, r, 5 * sizeof(*r));
        in->r[0] = half[i];
        in->x = x;
        in->y = cmp;
    }
    struct sg_insn *in = sg_dec_emit(d, both_preds);
    in->r[0] = r[0];
    in->r[1] = half[0];
    in->r[2] = half[1];
    in->r[3] = r[3];
}

static bool decode_setp(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod t = sg_type_at(p, 0);
    bool pair = p->nopnds > 0 && p->opnds[0].kind == SG_OPND_PAIR, ignored;
    bool packed = t == SG_M_F16X2 || t == SG_M_BF16X2;
    int32_t r[5] = {0};
    enum sg_cmp cmp;

    if (!comparison(p, t, &cmp) || (p->nopnds > 3) != (bool_op(p) != 0) ||
        (sg_ptx_has(p, SG_M_FTZ) && t != SG_M_F32 && t != SG_M_F16 && t != SG_M_F16X2))
        return false;
    sg_handler fn = choose(t, cmp, sg_ptx_has(p, SG_M_FTZ));
    if (fn == NULL)
        return false;
    r[1] = sg_dec_src(d, &p->opnds[1], t);
    r[2] = sg_dec_src(d, &p->opnds[2], t);
    u32 x = third(d, p, &r[4]);
    r[0] = sg_dec_pred(d, pair ? &p->opnds[0].sub[0] : &p->opnds[0], &ignored);
    if (pair)
        r[3] = sg_dec_pred(d, &p->opnds[0].sub[1], &ignored);
    if (packed && pair) { /* p for the low halves, q for the high ones */
        setp_packed(d, fn, r, x, cmp);
        return true;
    }
    struct sg_insn *in = sg_dec_emit(d, fn);
    memcpy(in->r, r, sizeof(r));
    in->x = x | (pair ? 1u : 0u);
    in->y = cmp;
    return true;
}

/* set: -1 or 1.0 where true. y: the value, of the destination's type. */
SG_HANDLER(set_value)
{
    u32 bits = sg_pred(w, in->r[1]);

    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), (bits >> l & 1 ? in->y : 0));
    return in + 1;
}

SG_HANDLER(set_value_x2)
{
    u32 lo = sg_pred(w, in->r[1]), hi = sg_pred(w, in->r[2]);

    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]),
                   (lo >> l & 1 ? in->y & 0xffffu : 0) | (hi >> l & 1 ? in->y << 16 : 0));
    return in + 1;
}

static u32 true_value(enum sg_ptx_mod t)
{
    switch (t) {
    case SG_M_F32:
        return 0x3f800000u;
    case SG_M_F16:
    case SG_M_F16X2:
        return 0x3c00u;
    case SG_M_BF16:
    case SG_M_BF16X2:
        return 0x3f80u;
    case SG_M_U16:
    case SG_M_S16:
        return 0xffffu;
    default:
        return 0xffffffffu;
    }
}

/* Results of pairs are pairs or words, other pairs there are none. */
static bool set_types(enum sg_ptx_mod td, enum sg_ptx_mod t)
{
    bool pair = td == SG_M_F16X2 || td == SG_M_BF16X2;

    if (t == SG_M_F16X2 || t == SG_M_BF16X2)
        return td == t || td == SG_M_U32 || td == SG_M_S32;
    return !pair;
}

static bool decode_set(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod td = sg_type_at(p, 0), t = sg_type_at(p, 1);
    bool packed = t == SG_M_F16X2 || t == SG_M_BF16X2;
    int32_t r[5] = {0};
    enum sg_cmp cmp;

    if (!comparison(p, t, &cmp) || (p->nopnds > 3) != (bool_op(p) != 0) ||
        (sg_ptx_has(p, SG_M_FTZ) && t != SG_M_F32 && t != SG_M_F16 && t != SG_M_F16X2) ||
        !set_types(td, t))
        return false;
    sg_handler fn = choose(t, cmp, sg_ptx_has(p, SG_M_FTZ));
    if (fn == NULL)
        return false;
    r[1] = sg_dec_src(d, &p->opnds[1], t);
    r[2] = sg_dec_src(d, &p->opnds[2], t);
    u32 x = third(d, p, &r[4]);
    int32_t lo = sg_dec_temp(d), hi = packed ? sg_dec_temp(d) : 0;
    int32_t dst = sg_dec_dst(d, &p->opnds[0], td);
    for (int half = 0; half < 1 + packed; half++) {
        struct sg_insn *in = sg_dec_emit(d, half ? high_half(fn) : fn);
        memcpy(in->r, r, sizeof(r));
        in->r[0] = half ? hi : lo;
        in->x = x;
        in->y = cmp;
    }
    struct sg_insn *in = sg_dec_emit(d, packed ? set_value_x2 : set_value);
    in->r[0] = dst;
    in->r[1] = lo;
    in->r[2] = hi;
    in->y = true_value(td);
    return true;
}

SG_HANDLER(selp32)
{
    const u32 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]);
    u32 p = sg_pred(w, in->r[3]) ^ -(in->x & 1);

    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), (p >> l & 1 ? a[l] : b[l]));
    return in + 1;
}

SG_HANDLER(selp64)
{
    const u64 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]);
    u32 p = sg_pred(w, in->r[3]) ^ -(in->x & 1);

    SG_STORE_LANES(u64, sg_opnd(w, in->r[0]), (p >> l & 1 ? a[l] : b[l]));
    return in + 1;
}

SG_OP3(slct32_s32, u32, u32, u32, u32, (int32_t)z >= 0 ? x : y)
SG_OP3(slct64_s32, u64, u64, u64, u32, (int32_t)z >= 0 ? x : y)
SG_OP3(slct32_f32, u32, u32, u32, u32, sg_slct_f32(z, in->x) ? x : y)
SG_OP3(slct64_f32, u64, u64, u64, u32, sg_slct_f32(z, in->x) ? x : y)

static bool decode_selp(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_mod t)
{
    bool neg = false;

    if (p->nopnds < 4)
        return false;
    int32_t a = sg_dec_src(d, &p->opnds[1], t), b = sg_dec_src(d, &p->opnds[2], t);
    int32_t c = SG_ISA(sg_dec_pred_source)(d, &p->opnds[3], &neg),
            dst = sg_dec_dst(d, &p->opnds[0], t);
    struct sg_insn *in = sg_dec_emit(d, sg_ptx_type_size(t) == 8 ? selp64 : selp32);
    in->r[0] = dst;
    in->r[1] = a;
    in->r[2] = b;
    in->r[3] = c;
    in->x = neg;
    return true;
}

static bool decode_testp(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_mod t)
{
    static const uint16_t mods[] = {SG_M_FINITE,     SG_M_INFINITE, SG_M_NUMBER,
                                    SG_M_NOTANUMBER, SG_M_NORMAL,   SG_M_SUBNORMAL};
    bool ignored;

    for (u32 i = 0; i < TB_ARRAY_LEN(mods) && p->nopnds > 1; i++) {
        if (!sg_ptx_has(p, (enum sg_ptx_mod)mods[i]))
            continue;
        int32_t a = sg_dec_src(d, &p->opnds[1], t), dst = sg_dec_pred(d, &p->opnds[0], &ignored);
        struct sg_insn *in = sg_dec_emit(d, t == SG_M_F64 ? testp64 : testp32);
        in->r[0] = dst;
        in->r[1] = in->r[2] = a;
        in->y = i; /* the order of enum sg_testp */
        return true;
    }
    return false;
}

bool SG_ISA(sg_decode_cmp)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod t = sg_type_at(p, 0), tc = sg_type_at(p, 1);
    bool wide = sg_ptx_type_size(t) == 8;

    switch ((enum sg_ptx_op)p->op) {
    case SG_OP_SETP:
        return decode_setp(d, p);
    case SG_OP_SET:
        return decode_set(d, p);
    case SG_OP_SELP:
        return decode_selp(d, p, t);
    case SG_OP_SLCT:
        if ((tc != SG_M_F32 && tc != SG_M_S32) || (tc == SG_M_S32 && sg_ptx_has(p, SG_M_FTZ)))
            return false;
        sg_emit_op(
            d, tc == SG_M_F32 ? (wide ? slct64_f32 : slct32_f32) : (wide ? slct64_s32 : slct32_s32),
            t, t, t, tc)
            ->x = sg_float_flags(p);
        return true;
    case SG_OP_TESTP:
        return decode_testp(d, p, t);
    default:
        return false;
    }
}
