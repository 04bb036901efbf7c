/* Video instructions: extract, operate in wide integers, clamp, then accumulate or merge. */
#include "softgpu/num/num.h"

struct part {
    uint8_t shift, bits;
};

/* as struct sg_ptx_opnd.half counts */
static const struct part parts[] = {{0, 32}, {0, 8}, {8, 8}, {16, 8}, {24, 8}, {0, 16}, {16, 16}};

static int64_t extract(uint32_t v, struct part p, bool is_signed)
{
    uint64_t field = (uint64_t)(v >> p.shift) & ((UINT64_C(1) << p.bits) - 1);
    return is_signed ? sg_sext_(field, p.bits) : (int64_t)field;
}

static sg_i128 clamp(sg_i128 v, unsigned bits, bool is_signed)
{
    int64_t max = (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1, min = is_signed ? -max - 1 : 0;
    return v > max ? max : v < min ? min : v;
}

static bool compare(uint8_t cmp, int64_t a, int64_t b)
{
    switch (cmp) {
    case SG_CMP_EQ:
        return a == b;
    case SG_CMP_NE:
        return a != b;
    case SG_CMP_LT:
        return a < b;
    case SG_CMP_LE:
        return a <= b;
    case SG_CMP_GT:
        return a > b;
    default:
        return a >= b;
    }
}

static sg_i128 operate(const struct sg_video *v, int64_t a, int64_t b)
{
    int64_t n = v->wrap ? b & 31 : b > 32 ? 32 : b;

    switch (v->op) {
    case SG_VIDEO_ADD:
        return a + b;
    case SG_VIDEO_SUB:
        return a - b;
    case SG_VIDEO_ABSDIFF:
        return a > b ? a - b : b - a;
    case SG_VIDEO_MIN:
        return a < b ? a : b;
    case SG_VIDEO_MAX:
        return a > b ? a : b;
    case SG_VIDEO_AVRG: /* halves away from zero */
        return (a + b + (a + b >= 0)) >> 1;
    case SG_VIDEO_SHL:
        return (sg_i128)a * (INT64_C(1) << n);
    case SG_VIDEO_SHR:
        return a >> n;
    default:
        return compare(v->cmp, a, b);
    }
}

static sg_i128 second(uint8_t op, sg_i128 t, int64_t c)
{
    switch (op) {
    case SG_VIDEO_OP2_ADD:
        return t + c;
    case SG_VIDEO_OP2_MIN:
        return t < c ? t : c;
    case SG_VIDEO_OP2_MAX:
        return t > c ? t : c;
    default:
        return t;
    }
}

uint32_t sg_video_scalar(const struct sg_video *v, uint32_t a, uint32_t b, uint32_t c)
{
    bool shifts = v->op == SG_VIDEO_SHL || v->op == SG_VIDEO_SHR;
    bool d_signed = v->dst_signed && v->op != SG_VIDEO_SET;
    int64_t ta = extract(a, parts[v->a_sel], v->a_signed);
    int64_t tb = extract(b, parts[v->b_sel], v->b_signed && !shifts);
    sg_i128 t = operate(v, ta, tb);
    struct part d = parts[v->d_sel];

    if (v->sat)
        t = clamp(t, d.bits, d_signed);
    t = second(v->second, t, extract(c, parts[0], d_signed));
    if (v->d_sel == 0)
        return (uint32_t)t;
    uint32_t mask = ((UINT32_C(1) << d.bits) - 1) << d.shift;
    return ((uint32_t)t << d.shift & mask) | (c & ~mask);
}

uint32_t sg_video_simd(const struct sg_video *v, uint32_t a, uint32_t b, uint32_t c)
{
    uint8_t bits = 32 / v->lanes;
    uint32_t ones = (UINT32_C(1) << bits) - 1, d = c;
    const uint32_t from[2] = {a, b};

    for (uint8_t i = 0; i < v->lanes; i++) {
        if (!(v->mask >> i & 1))
            continue;
        struct part pa = {(uint8_t)(v->a_lane[i] % v->lanes * bits), bits};
        struct part pb = {(uint8_t)(v->b_lane[i] % v->lanes * bits), bits};
        sg_i128 t = operate(v, extract(from[v->a_lane[i] / v->lanes & 1], pa, v->a_signed),
                            extract(from[v->b_lane[i] / v->lanes & 1], pb, v->b_signed));
        if (v->sat)
            t = clamp(t, bits, v->dst_signed && v->op != SG_VIDEO_SET);
        if (v->second == SG_VIDEO_OP2_ADD)
            d += (uint32_t)t;
        else
            d = (d & ~(ones << i * bits)) | ((uint32_t)t & ones) << i * bits;
    }
    return d;
}

uint32_t sg_vmad(const struct sg_vmad *v, uint32_t a, uint32_t b, uint32_t c)
{
    bool negate = v->a_neg != v->b_neg;
    bool is_signed = v->a_signed || v->b_signed || negate || v->c_neg;
    sg_i128 t = (sg_i128)extract(a, parts[v->a_sel], v->a_signed) *
                extract(b, parts[v->b_sel], v->b_signed);
    /* the ISA's lines, one's complements included: -u32 gives its low 32 bits, sign-extended */
    uint32_t lsb = v->po;
    if (!v->po && negate) {
        t = ~t;
        lsb = 1;
    } else if (!v->po && v->c_neg) {
        c = ~c;
        lsb = 1;
    }
    t += extract(c, parts[0], is_signed) + (int64_t)lsb;
    t >>= v->shift;
    return (uint32_t)(v->sat ? clamp(t, 32, is_signed) : t);
}
