/* Video instructions: scalar and SIMD arithmetic on parts of registers. */
#include "softgpu/exec/ops.h"

typedef uint32_t u32;

SG_HANDLER(video_scalar)
{
    const u32 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]), *c = sg_opnd(w, in->r[3]);

    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), sg_video_scalar(in->ptr, a[l], b[l], c[l]));
    return in + 1;
}

SG_HANDLER(video_simd)
{
    const u32 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]), *c = sg_opnd(w, in->r[3]);

    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), sg_video_simd(in->ptr, a[l], b[l], c[l]));
    return in + 1;
}

SG_HANDLER(vmad)
{
    const u32 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]), *c = sg_opnd(w, in->r[3]);

    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), sg_vmad(in->ptr, a[l], b[l], c[l]));
    return in + 1;
}

/* Opcodes: what they do, and how many lanes (0: scalar). */
static const struct {
    uint16_t op;
    uint8_t what, lanes;
} rows[] = {
    {SG_OP_VADD, SG_VIDEO_ADD, 0},          {SG_OP_VADD2, SG_VIDEO_ADD, 2},
    {SG_OP_VADD4, SG_VIDEO_ADD, 4},         {SG_OP_VSUB, SG_VIDEO_SUB, 0},
    {SG_OP_VSUB2, SG_VIDEO_SUB, 2},         {SG_OP_VSUB4, SG_VIDEO_SUB, 4},
    {SG_OP_VABSDIFF, SG_VIDEO_ABSDIFF, 0},  {SG_OP_VABSDIFF2, SG_VIDEO_ABSDIFF, 2},
    {SG_OP_VABSDIFF4, SG_VIDEO_ABSDIFF, 4}, {SG_OP_VMIN, SG_VIDEO_MIN, 0},
    {SG_OP_VMIN2, SG_VIDEO_MIN, 2},         {SG_OP_VMIN4, SG_VIDEO_MIN, 4},
    {SG_OP_VMAX, SG_VIDEO_MAX, 0},          {SG_OP_VMAX2, SG_VIDEO_MAX, 2},
    {SG_OP_VMAX4, SG_VIDEO_MAX, 4},         {SG_OP_VAVRG2, SG_VIDEO_AVRG, 2},
    {SG_OP_VAVRG4, SG_VIDEO_AVRG, 4},       {SG_OP_VSHL, SG_VIDEO_SHL, 0},
    {SG_OP_VSHR, SG_VIDEO_SHR, 0},          {SG_OP_VSET, SG_VIDEO_SET, 0},
    {SG_OP_VSET2, SG_VIDEO_SET, 2},         {SG_OP_VSET4, SG_VIDEO_SET, 4},
};

static bool is_signed(enum sg_ptx_mod t)
{
    return t == SG_M_S32;
}

/* vset has no type of its result: the sources' are the first two. */
static void types(struct sg_video *v, const struct sg_ptx_insn *p)
{
    unsigned k = v->op == SG_VIDEO_SET ? 0 : 1;

    v->dst_signed = k != 0 && is_signed(sg_type_at(p, 0));
    v->a_signed = is_signed(sg_type_at(p, k));
    v->b_signed = is_signed(sg_type_at(p, k + 1));
}

static void compare(struct sg_video *v, const struct sg_ptx_insn *p)
{
    static const uint16_t mods[] = {SG_M_EQ, SG_M_NE, SG_M_LT, SG_M_LE, SG_M_GT, SG_M_GE};

    for (unsigned i = 0; i < TB_ARRAY_LEN(mods); i++)
        if (sg_ptx_has(p, (enum sg_ptx_mod)mods[i]))
            v->cmp = (uint8_t)(SG_CMP_EQ + i);
}

static struct sg_insn *emit(struct sg_dec *d, const struct sg_ptx_insn *p, sg_handler fn)
{
    int32_t r[4] = {0};

    for (unsigned i = 1; i < 4; i++)
        r[i] = i < p->nopnds ? sg_dec_src(d, &p->opnds[i], SG_M_B32) : sg_dec_const(d, 0, 4);
    r[0] = sg_dec_dst(d, &p->opnds[0], SG_M_B32);
    struct sg_insn *in = sg_dec_emit(d, fn);
    memcpy(in->r, r, sizeof(r));
    return in;
}

static bool decode_rows(struct sg_dec *d, const struct sg_ptx_insn *p, unsigned what,
                        unsigned lanes)
{
    struct sg_video *v = sg_image_own(d->image, sizeof(*v));

    if (v == NULL)
        return sg_dec_refuse(d, "no memory");
    v->op = (uint8_t)what;
    v->lanes = (uint8_t)lanes;
    types(v, p);
    compare(v, p);
    v->sat = sg_ptx_has(p, SG_M_SAT);
    v->wrap = sg_ptx_has(p, SG_M_WRAP);
    if (lanes != 0) {
        if (p->opnds[0].half || p->opnds[1].half || p->opnds[2].half)
            return sg_dec_refuse(d, "selected parts");
        v->mask = lanes == 2 ? 3 : 15;
        for (unsigned i = 0; i < lanes; i++) {
            v->a_lane[i] = (uint8_t)i;
            v->b_lane[i] = (uint8_t)(lanes + i);
        }
        v->second = sg_ptx_has(p, SG_M_ADD) ? SG_VIDEO_OP2_ADD : SG_VIDEO_NONE;
    } else {
        v->a_sel = p->opnds[1].half;
        v->b_sel = p->opnds[2].half;
        v->d_sel = p->opnds[0].half;
        v->second = sg_ptx_has(p, SG_M_ADD)   ? SG_VIDEO_OP2_ADD
                    : sg_ptx_has(p, SG_M_MIN) ? SG_VIDEO_OP2_MIN
                    : sg_ptx_has(p, SG_M_MAX) ? SG_VIDEO_OP2_MAX
                                              : SG_VIDEO_NONE;
    }
    emit(d, p, lanes ? video_simd : video_scalar)->ptr = v;
    return true;
}

static bool decode_vmad(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    struct sg_vmad *v = sg_image_own(d->image, sizeof(*v));

    if (v == NULL)
        return sg_dec_refuse(d, "no memory");
    if (p->nopnds < 4)
        return false;
    v->a_signed = is_signed(sg_type_at(p, 1));
    v->b_signed = is_signed(sg_type_at(p, 2));
    v->a_neg = p->opnds[1].neg;
    v->b_neg = p->opnds[2].neg;
    v->c_neg = p->opnds[3].neg;
    v->po = sg_ptx_has(p, SG_M_PO);
    v->sat = sg_ptx_has(p, SG_M_SAT);
    v->a_sel = p->opnds[1].half;
    v->b_sel = p->opnds[2].half;
    v->shift = sg_ptx_has(p, SG_M_SHR7) ? 7 : sg_ptx_has(p, SG_M_SHR15) ? 15 : 0;
    emit(d, p, vmad)->ptr = v;
    return true;
}

bool SG_ISA(sg_decode_video)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    if (p->op == SG_OP_VMAD)
        return decode_vmad(d, p);
    for (size_t i = 0; i < TB_ARRAY_LEN(rows); i++)
        if (rows[i].op == p->op)
            return p->nopnds >= 3 && decode_rows(d, p, rows[i].what, rows[i].lanes);
    return false;
}
