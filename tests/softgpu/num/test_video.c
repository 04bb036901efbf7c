/* Video instructions against a second reading of the ISA's pseudo-code, in wide integers. */
#include "ref.h"

static sg_i128 part(uint32_t v, int sel, bool is_signed)
{
    int shift = sel == 0 ? 0 : sel <= 4 ? 8 * (sel - 1) : 16 * (sel - 5);
    int bits = sel == 0 ? 32 : sel <= 4 ? 8 : 16;
    sg_i128 x = v >> shift & ((UINT64_C(1) << bits) - 1);
    return is_signed && x >> (bits - 1) ? x - ((sg_i128)1 << bits) : x;
}

static sg_i128 saturate(sg_i128 t, int bits, bool is_signed)
{
    sg_i128 max = ((sg_i128)1 << (bits - is_signed)) - 1;
    sg_i128 min = is_signed ? -max - 1 : 0;
    return t < min ? min : t > max ? max : t;
}

static bool holds(int cmp, sg_i128 a, sg_i128 b)
{
    const bool lt = a<b, gt = a> b;
    const bool all[] = {!lt && !gt, lt || gt, lt, !gt, gt, !lt};
    return all[cmp];
}

static sg_i128 primary(const struct sg_video *v, sg_i128 a, sg_i128 b)
{
    sg_i128 n = v->wrap ? b & 31 : b > 32 ? 32 : b;
    switch (v->op) {
    case SG_VIDEO_ADD:
        return a + b;
    case SG_VIDEO_SUB:
        return a - b;
    case SG_VIDEO_ABSDIFF:
        return a - b < 0 ? b - a : a - b;
    case SG_VIDEO_MIN:
        return a < b ? a : b;
    case SG_VIDEO_MAX:
        return a < b ? b : a;
    case SG_VIDEO_AVRG:
        return a + b >= 0 ? (a + b + 1) / 2 : -((-(a + b) + 1) / 2);
    case SG_VIDEO_SHL:
        return a * ((sg_i128)1 << n);
    case SG_VIDEO_SHR:
        return a >> n;
    default:
        return holds(v->cmp, a, b);
    }
}

static uint32_t scalar(const struct sg_video *v, uint32_t a, uint32_t b, uint32_t c)
{
    bool shifts = v->op == SG_VIDEO_SHL || v->op == SG_VIDEO_SHR;
    bool sign = v->dst_signed && v->op != SG_VIDEO_SET;
    int bits = v->d_sel == 0 ? 32 : v->d_sel <= 4 ? 8 : 16;
    int shift = v->d_sel == 0 ? 0 : v->d_sel <= 4 ? 8 * (v->d_sel - 1) : 16 * (v->d_sel - 5);
    sg_i128 t =
        primary(v, part(a, v->a_sel, v->a_signed), part(b, v->b_sel, v->b_signed && !shifts));
    if (v->sat)
        t = saturate(t, bits, sign);
    sg_i128 w = part(c, 0, sign);
    if (v->second == SG_VIDEO_OP2_ADD)
        t += w;
    if (v->second == SG_VIDEO_OP2_MIN)
        t = t < w ? t : w;
    if (v->second == SG_VIDEO_OP2_MAX)
        t = t > w ? t : w;
    uint32_t r = v->d_sel ? c : 0;
    for (int i = 0; i < bits; i++)
        r = (r & ~(1u << (shift + i))) | (uint32_t)(t >> i & 1) << (shift + i);
    return r;
}

static struct sg_video draw(struct ref_rng *rng, int op)
{
    uint64_t v = ref_next(rng);
    struct sg_video d = {.op = (uint8_t)op};
    d.dst_signed = v & 1;
    d.a_signed = v & 2;
    d.b_signed = v & 4;
    d.sat = v & 8;
    d.wrap = v & 16;
    d.cmp = (uint8_t)((v >> 5 & 7) % 6);
    d.a_sel = (uint8_t)((v >> 8 & 7) % 7);
    d.b_sel = (uint8_t)((v >> 11 & 7) % 7);
    if (v & 1 << 14)
        d.d_sel = (uint8_t)((v >> 15 & 7) % 7);
    else
        d.second = v >> 15 & 3;
    return d;
}

static void test_video__scalars_extract_clamp_and_merge(void **state)
{
    struct ref_rng rng = {31};
    (void)state;
    for (uint64_t i = 0; i < ref_count(1); i++) {
        for (int op = SG_VIDEO_ADD; op <= SG_VIDEO_SET; op++) {
            if (op == SG_VIDEO_AVRG)
                continue;
            struct sg_video v = draw(&rng, op);
            uint32_t a = (uint32_t)ref_int_input(&rng), b = (uint32_t)ref_int_input(&rng);
            uint32_t c = (uint32_t)ref_int_input(&rng);
            uint32_t got = sg_video_scalar(&v, a, b, c), want = scalar(&v, a, b, c);
            if (got != want)
                fail_msg("op %d of %x %x %x: %x, not %x", op, a, b, c, got, want);
        }
    }
}

static uint32_t simd(const struct sg_video *v, uint32_t a, uint32_t b, uint32_t c)
{
    int first = v->lanes == 4 ? 1 : 5, bits = 32 / v->lanes;
    uint32_t d = v->second == SG_VIDEO_OP2_ADD ? c : 0;
    for (int i = 0; i < v->lanes; i++) {
        uint32_t ra = v->a_lane[i] < v->lanes ? a : b, rb = v->b_lane[i] < v->lanes ? a : b;
        sg_i128 x = part(ra, first + v->a_lane[i] % v->lanes, v->a_signed);
        sg_i128 y = part(rb, first + v->b_lane[i] % v->lanes, v->b_signed);
        sg_i128 t = primary(v, x, y);
        bool on = v->mask >> i & 1;
        if (v->sat)
            t = saturate(t, bits, v->dst_signed && v->op != SG_VIDEO_SET);
        if (v->second == SG_VIDEO_OP2_ADD)
            d += on ? (uint32_t)t : 0;
        else
            d |= ((on ? (uint32_t)t : c >> i * bits) & ((1u << bits) - 1)) << i * bits;
    }
    return d;
}

static void test_video__simd_selects_masks_and_accumulates(void **state)
{
    struct ref_rng rng = {32};
    (void)state;
    for (uint64_t i = 0; i < ref_count(1); i++) {
        for (int op = SG_VIDEO_ADD; op <= SG_VIDEO_SET; op++) {
            if (op == SG_VIDEO_SHL || op == SG_VIDEO_SHR)
                continue;
            struct sg_video v = draw(&rng, op);
            uint64_t r = ref_next(&rng);
            v.lanes = r & 1 ? 2 : 4;
            v.mask = r >> 1 & (v.lanes == 2 ? 3 : 15);
            v.second = r & 1 << 6 ? SG_VIDEO_OP2_ADD : SG_VIDEO_NONE;
            v.sat = v.sat && v.second == SG_VIDEO_NONE;
            for (int k = 0; k < v.lanes; k++) {
                v.a_lane[k] = (r >> (8 + 3 * k) & 7) % (2 * v.lanes);
                v.b_lane[k] = (r >> (20 + 3 * k) & 7) % (2 * v.lanes);
            }
            uint32_t a = (uint32_t)ref_next(&rng), b = (uint32_t)ref_next(&rng);
            uint32_t c = (uint32_t)ref_next(&rng);
            uint32_t got = sg_video_simd(&v, a, b, c), want = simd(&v, a, b, c);
            if (got != want)
                fail_msg("op %d x%d of %x %x %x: %x, not %x", op, v.lanes, a, b, c, got, want);
        }
    }
}

static void test_video__vmad_negates_shifts_and_saturates(void **state)
{
    struct ref_rng rng = {33};
    (void)state;
    for (uint64_t i = 0; i < ref_count(1); i++) {
        uint64_t r = ref_next(&rng);
        static const uint8_t shifts[] = {0, 7, 15, 0};
        struct sg_vmad v = {.a_signed = r & 1,
                            .b_signed = r & 2,
                            .sat = r & 4,
                            .po = r & 8,
                            .a_sel = (uint8_t)((r >> 8 & 7) % 7),
                            .b_sel = (uint8_t)((r >> 11 & 7) % 7),
                            .shift = shifts[r >> 14 & 3]};
        if (!v.po) {
            v.a_neg = r & 1 << 16;
            v.b_neg = r & 1 << 17;
            v.c_neg = v.a_neg == v.b_neg && (r & 1 << 18);
        }
        uint32_t a = (uint32_t)ref_int_input(&rng), b = (uint32_t)ref_int_input(&rng);
        uint32_t c = (uint32_t)ref_int_input(&rng);
        bool neg = v.a_neg != v.b_neg, sign = v.a_signed || v.b_signed || neg || v.c_neg;
        sg_i128 t = part(a, v.a_sel, v.a_signed) * part(b, v.b_sel, v.b_signed);
        t = neg ? -t : t;
        /* the ISA complements c and then sign-extends it: -0 is 0, -0x80000000 itself */
        t += v.c_neg ? part(~c, 0, true) + 1 : part(c, 0, sign);
        t = (t + v.po) >> v.shift;
        uint32_t want = (uint32_t)(v.sat ? saturate(t, 32, sign) : t);
        assert_int_equal(sg_vmad(&v, a, b, c), want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_video__scalars_extract_clamp_and_merge),
        cmocka_unit_test(test_video__simd_selects_masks_and_accumulates),
        cmocka_unit_test(test_video__vmad_negates_shifts_and_saturates),
    };
    return cmocka_run_group_tests(tests, ref_start, NULL);
}
