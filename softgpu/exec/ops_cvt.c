/* cvt: the conversions of ordinary programs have loops of their own, all else goes through
 * sg_cvt_run(). */
#include "softgpu/exec/ops.h"

typedef uint32_t u32;
typedef uint64_t u64;

SG_OP1(u8_32, u32, u32, (uint8_t)x)
SG_OP1(s8_32, u32, u32, (u32)(int32_t)(int8_t)x)
SG_OP1(u16_32, u32, u32, (uint16_t)x)
SG_OP1(s16_32, u32, u32, (u32)(int32_t)(int16_t)x)
SG_OP1(u16_s8, u32, u32, (uint16_t)(int8_t)x)
SG_OP1(copy_32, u32, u32, x)
SG_OP1(copy_64, u64, u64, x)
SG_OP1(u8_64, u64, u32, (uint8_t)x)
SG_OP1(s8_64, u64, u32, (u64)(int64_t)(int8_t)x)
SG_OP1(u16_64, u64, u32, (uint16_t)x)
SG_OP1(s16_64, u64, u32, (u64)(int64_t)(int16_t)x)
SG_OP1(u32_64, u64, u32, x)
SG_OP1(s32_64, u64, u32, (u64)(int64_t)(int32_t)x)
SG_OP1(low_32, u32, u64, (u32)x)
SG_OP1(low_u16, u32, u64, (uint16_t)x)
SG_OP1(low_s16, u32, u64, (u32)(int32_t)(int16_t)x)
SG_OP1(low_u8, u32, u64, (uint8_t)x)
SG_OP1(low_s8, u32, u64, (u32)(int32_t)(int8_t)x)

SG_OP1(f32_s32, u32, u32, sg_f32_from_s32(x))
SG_OP1(f32_u32, u32, u32, sg_f32_from_u32(x))
SG_OP1(f64_s32, u64, u32, sg_f64_from_s32(x))
SG_OP1(f64_u32, u64, u32, sg_f64_from_u32(x))
SG_OP1(f64_f32, u64, u32, sg_f64_from_f32(x))
SG_OP1(f32_f64, u32, u64, sg_f32_from_f64(x))
SG_OP1(s32_f32, u32, u32, sg_s32_from_f32_rz(x))
SG_OP1(u32_f32, u32, u32, sg_u32_from_f32_rz(x))
SG_OP1(s32_f64, u32, u64, sg_s32_from_f64_rz(x))
SG_OP1(f32_f16, u32, u32, sg_f16_to_f32((uint16_t)x))
SG_OP1(f16_f32, u32, u32, sg_f16_from_f32(x))
SG_OP1(f32_bf16, u32, u32, sg_bf16_to_f32((uint16_t)x))
SG_OP1(bf16_f32, u32, u32, sg_bf16_from_f32(x))
SG_OP2(f16x2_f32, u32, u32, u32, SG_X2_JOIN_(sg_f16_from_f32(y), sg_f16_from_f32(x)))
SG_OP2(bf16x2_f32, u32, u32, u32, SG_X2_JOIN_(sg_bf16_from_f32(y), sg_bf16_from_f32(x)))
SG_OP1(f32_rni, u32, u32, sg_f32_rint(x, SG_RND_RN))
SG_OP1(f32_rzi, u32, u32, sg_f32_rint(x, SG_RND_RZ))
SG_OP1(f32_rmi, u32, u32, sg_f32_rint(x, SG_RND_RM))
SG_OP1(f32_rpi, u32, u32, sg_f32_rint(x, SG_RND_RP))

/* y: bit 0: 64-bit destination, 1: 64-bit source, 2: second source */
SG_HANDLER(general)
{
    const struct sg_cvt *c = in->ptr;
    const uint8_t *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]);
    uint8_t *dst = sg_opnd(w, in->r[0]);

    for (unsigned l = 0; l < SG_WARP; l++) {
        u64 va = 0, vb = 0;
        if (!(w->mask >> l & 1))
            continue;
        memcpy(&va, a + l * (in->y & 2 ? 8 : 4), in->y & 2 ? 8 : 4);
        if (in->y & 4)
            memcpy(&vb, b + 4 * l, 4);
        u64 r = sg_cvt_run(c, va, vb);
        memcpy(dst + l * (in->y & 1 ? 8 : 4), &r, in->y & 1 ? 8 : 4);
    }
    return in + 1;
}

/* cvt.pack: x bits, y bit 0: signed, bit 1: a third source */
SG_HANDLER(packed)
{
    const u32 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]), *c = sg_opnd(w, in->r[3]);

    SG_STORE_LANES(
        u32, sg_opnd(w, in->r[0]),
        sg_cvt_pack((int32_t)a[l], (int32_t)b[l], in->y & 2 ? c[l] : 0, in->x, in->y & 1));
    return in + 1;
}

/* Which mode of rounding the common conversions are written with; NONE: none. */
struct fast {
    uint16_t dst, src, rnd;
    sg_handler fn;
};

#define F(d, s, r, fn)                                                                             \
    {                                                                                              \
        SG_M_##d, SG_M_##s, SG_M_##r, fn                                                           \
    }
static const struct fast fast[] = {
    F(F32, S32, RN, f32_s32),   F(F32, U32, RN, f32_u32),     F(F64, S32, RN, f64_s32),
    F(F64, U32, RN, f64_u32),   F(F64, F32, NONE, f64_f32),   F(F32, F64, RN, f32_f64),
    F(S32, F32, RZI, s32_f32),  F(U32, F32, RZI, u32_f32),    F(S32, F64, RZI, s32_f64),
    F(F32, F16, NONE, f32_f16), F(F16, F32, RN, f16_f32),     F(F32, BF16, NONE, f32_bf16),
    F(BF16, F32, RN, bf16_f32), F(F16X2, F32, RN, f16x2_f32), F(BF16X2, F32, RN, bf16x2_f32),
    F(F32, F32, RNI, f32_rni),  F(F32, F32, RZI, f32_rzi),    F(F32, F32, RMI, f32_rmi),
    F(F32, F32, RPI, f32_rpi),
};

static bool is_int(enum sg_ptx_mod t)
{
    return t >= SG_M_U8 && t <= SG_M_S64;
}

static bool is_signed_int(enum sg_ptx_mod t)
{
    return t == SG_M_S8 || t == SG_M_S16 || t == SG_M_S32 || t == SG_M_S64;
}

/* Integer to integer: the narrower type decides; a wider destination takes the source's sign. */
static sg_handler int_to_int(enum sg_ptx_mod dst, enum sg_ptx_mod src, unsigned dreg, unsigned sreg)
{
    unsigned ds = sg_ptx_type_size(dst), ss = sg_ptx_type_size(src), n = ds < ss ? ds : ss;
    bool sign = is_signed_int(ds <= ss ? dst : src);
    static const sg_handler table[2][2][4][2] = {
        /* [64-bit destination][64-bit source][log2 bytes][signed] */
        {{{u8_32, s8_32}, {u16_32, s16_32}, {copy_32, copy_32}, {copy_32, copy_32}},
         {{low_u8, low_s8}, {low_u16, low_s16}, {low_32, low_32}, {low_32, low_32}}},
        {{{u8_64, s8_64}, {u16_64, s16_64}, {u32_64, s32_64}, {u32_64, s32_64}},
         {{NULL, NULL}, {NULL, NULL}, {NULL, NULL}, {copy_64, copy_64}}},
    };
    if (dst == SG_M_U16 && src == SG_M_S8) /* a wider register has zeros above */
        return u16_s8;
    return table[dreg == 8][sreg == 8][__builtin_ctz(n)][sign];
}

static enum sg_ptx_mod rounding(const struct sg_ptx_insn *p)
{
    static const uint16_t mods[] = {SG_M_RN,  SG_M_RZ,  SG_M_RM,  SG_M_RP, SG_M_RNA, SG_M_RNI,
                                    SG_M_RZI, SG_M_RMI, SG_M_RPI, SG_M_RS, SG_M_NONE};
    return sg_mod_of(p, mods);
}

/* Element type in softgpu/num's terms, and whether the PTX type is a pair; false: none. */
static bool element(enum sg_ptx_mod t, uint8_t *out, bool *pair)
{
    static const struct {
        uint16_t mod;
        uint8_t type, pair;
    } rows[] = {
        {SG_M_U8, SG_T_U8, 0},       {SG_M_S8, SG_T_S8, 0},       {SG_M_U16, SG_T_U16, 0},
        {SG_M_S16, SG_T_S16, 0},     {SG_M_U32, SG_T_U32, 0},     {SG_M_S32, SG_T_S32, 0},
        {SG_M_U64, SG_T_U64, 0},     {SG_M_S64, SG_T_S64, 0},     {SG_M_F16, SG_T_F16, 0},
        {SG_M_BF16, SG_T_BF16, 0},   {SG_M_F32, SG_T_F32, 0},     {SG_M_F64, SG_T_F64, 0},
        {SG_M_TF32, SG_T_TF32, 0},   {SG_M_F16X2, SG_T_F16, 1},   {SG_M_BF16X2, SG_T_BF16, 1},
        {SG_M_E4M3X2, SG_T_E4M3, 1}, {SG_M_E5M2X2, SG_T_E5M2, 1},
    };
    for (size_t i = 0; i < TB_ARRAY_LEN(rows); i++)
        if (rows[i].mod == t) {
            *out = rows[i].type;
            *pair = rows[i].pair;
            return true;
        }
    return false;
}

static void set_rounding(struct sg_cvt *c, enum sg_ptx_mod rnd)
{
    static const struct {
        uint16_t mod;
        uint8_t rnd, mode;
    } rows[] = {
        {SG_M_RN, SG_RND_RN, SG_CVT_FLOAT},     {SG_M_RZ, SG_RND_RZ, SG_CVT_FLOAT},
        {SG_M_RM, SG_RND_RM, SG_CVT_FLOAT},     {SG_M_RP, SG_RND_RP, SG_CVT_FLOAT},
        {SG_M_RNA, SG_RND_RNA, SG_CVT_FLOAT},   {SG_M_RNI, SG_RND_RN, SG_CVT_INTEGRAL},
        {SG_M_RZI, SG_RND_RZ, SG_CVT_INTEGRAL}, {SG_M_RMI, SG_RND_RM, SG_CVT_INTEGRAL},
        {SG_M_RPI, SG_RND_RP, SG_CVT_INTEGRAL},
    };
    c->mode = SG_CVT_PLAIN;
    for (size_t i = 0; i < TB_ARRAY_LEN(rows); i++)
        if (rows[i].mod == rnd) {
            c->rnd = rows[i].rnd;
            c->mode = rows[i].mode;
        }
}

static bool decode_general(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_mod dst,
                           enum sg_ptx_mod src)
{
    struct sg_cvt *c = sg_image_own(d->image, sizeof(*c));
    struct tb_error err = {0};
    bool two = p->nopnds > 2;

    if (c == NULL)
        return sg_dec_refuse(d, "no memory");
    if (!element(dst, &c->dst, &c->pack) || !element(src, &c->src, &c->src_pair))
        return false;
    set_rounding(c, rounding(p));
    c->flags =
        (uint8_t)(sg_float_flags(p) | (sg_ptx_has(p, SG_M_SATFINITE) ? SG_NUM_SATFINITE : 0u));
    if (sg_cvt_init(c, &err) != TB_OK)
        return sg_dec_refuse(d, "%s", err.text);
    struct sg_insn *in = sg_emit_op(d, general, dst, src, two ? src : SG_M_NONE, SG_M_NONE);
    in->ptr = c;
    in->y = (sg_ptx_type_size(dst) == 8 ? 1u : 0u) | (sg_ptx_type_size(src) == 8 ? 2u : 0u) |
            (two ? 4u : 0u);
    return true;
}

static bool decode_pack(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    static const struct {
        uint16_t type;
        uint8_t bits, is_signed;
    } rows[] = {{SG_M_U16, 16, 0}, {SG_M_S16, 16, 1}, {SG_M_U8, 8, 0},
                {SG_M_S8, 8, 1},   {SG_M_U4, 4, 0},   {SG_M_S4, 4, 1}};
    bool three = p->nopnds > 3;

    if (p->nopnds < 3 || sg_type_at(p, 1) != SG_M_S32 || !sg_ptx_has(p, SG_M_SAT) ||
        p->nmods != 4u + three || (three && sg_type_at(p, 2) != SG_M_B32))
        return false;
    for (size_t i = 0; i < TB_ARRAY_LEN(rows); i++)
        if (rows[i].type == sg_type_at(p, 0) && three == (rows[i].bits < 16)) {
            struct sg_insn *in =
                sg_emit_op(d, packed, SG_M_B32, SG_M_B32, SG_M_B32, three ? SG_M_B32 : SG_M_NONE);
            in->x = rows[i].bits;
            in->y = rows[i].is_signed | (three ? 2u : 0u);
            return true;
        }
    return false;
}

bool SG_ISA(sg_decode_cvt)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod dst = sg_type_at(p, 0), src = sg_type_at(p, 1), rnd = rounding(p);
    bool plain = !sg_ptx_has(p, SG_M_FTZ) && !sg_ptx_has(p, SG_M_SAT) &&
                 !sg_ptx_has(p, SG_M_RELU) && !sg_ptx_has(p, SG_M_SATFINITE);

    if (sg_ptx_has(p, SG_M_PACK))
        return decode_pack(d, p);
    bool two =
        (dst == SG_M_F16X2 || dst == SG_M_BF16X2 || dst == SG_M_E4M3X2 || dst == SG_M_E5M2X2) &&
        src == SG_M_F32;
    if (src == SG_M_NONE || sg_type_at(p, 2) != SG_M_NONE || p->nopnds != 2u + two)
        return false;
    if (is_int(dst) && is_int(src) && plain && rnd == SG_M_NONE &&
        p->opnds[1].kind != SG_OPND_IMM) {
        unsigned sreg = sg_ptx_type_size(src) == 8 ? 8 : 4,
                 dreg = sg_ptx_type_size(dst) == 8 ? 8 : 4;
        sg_handler fn = int_to_int(dst, src, dreg, sreg);
        if (fn == NULL)
            return false;
        sg_emit_op(d, fn, dreg == 8 ? SG_M_B64 : dst, sreg == 8 ? SG_M_B64 : src, SG_M_NONE,
                   SG_M_NONE);
        return true;
    }
    for (size_t i = 0; plain && i < TB_ARRAY_LEN(fast); i++)
        if (fast[i].dst == dst && fast[i].src == src && fast[i].rnd == rnd) {
            sg_emit_op(d, fast[i].fn, dst, src, two ? src : SG_M_NONE, SG_M_NONE);
            return true;
        }
    return decode_general(d, p, dst, src);
}
