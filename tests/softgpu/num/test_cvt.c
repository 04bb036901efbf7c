/* cvt against MPFR and 128-bit integers: every legal pair of types and rounding. */
#include "ref.h"

#include <string.h>

static const enum sg_type ints[] = {SG_T_U8,  SG_T_S8,  SG_T_U16, SG_T_S16,
                                    SG_T_U32, SG_T_S32, SG_T_U64, SG_T_S64};
static const enum sg_type floats[] = {SG_T_F16, SG_T_BF16, SG_T_F32, SG_T_F64};
static const char *const names[] = {"u8",  "s8",   "u16", "s16", "u32",  "s32",  "u64", "s64",
                                    "f16", "bf16", "f32", "f64", "tf32", "e4m3", "e5m2"};

static unsigned width(enum sg_type t)
{
    static const unsigned w[] = {8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64, 32, 8, 8};
    return w[t];
}

static bool is_signed(enum sg_type t)
{
    return t == SG_T_S8 || t == SG_T_S16 || t == SG_T_S32 || t == SG_T_S64;
}

static sg_i128 int_value(enum sg_type t, uint64_t bits)
{
    switch (t) {
    case SG_T_U8:
        return (uint8_t)bits;
    case SG_T_S8:
        return (int8_t)bits;
    case SG_T_U16:
        return (uint16_t)bits;
    case SG_T_S16:
        return (int16_t)bits;
    case SG_T_U32:
        return (uint32_t)bits;
    case SG_T_S32:
        return (int32_t)bits;
    case SG_T_U64:
        return bits;
    default:
        return (int64_t)bits;
    }
}

static sg_i128 int_min(enum sg_type t)
{
    return is_signed(t) ? -((sg_i128)1 << (width(t) - 1)) : 0;
}

static sg_i128 int_max(enum sg_type t)
{
    return ((sg_i128)1 << (width(t) - is_signed(t))) - 1;
}

static struct sg_cvt make(enum sg_type dst, enum sg_type src, enum sg_cvt_mode mode,
                          enum sg_rnd rnd, unsigned flags)
{
    struct sg_cvt c = {.dst = (uint8_t)dst,
                       .src = (uint8_t)src,
                       .mode = (uint8_t)mode,
                       .rnd = (uint8_t)rnd,
                       .flags = (uint8_t)flags};
    return c;
}

static void init(struct sg_cvt *c)
{
    struct tb_error err = {0};
    if (sg_cvt_init(c, &err) != TB_OK)
        fail_msg("refused: %s", err.text);
}

static void check(const struct sg_cvt *c, uint64_t a, uint64_t want)
{
    uint64_t got = sg_cvt_run(c, a, 0);
    if (got != want)
        fail_msg("cvt %s to %s mode %d rnd %d flags %u of %llx: %llx, not %llx", names[c->src],
                 names[c->dst], c->mode, c->rnd, c->flags, (unsigned long long)a,
                 (unsigned long long)got, (unsigned long long)want);
}

/* all bits of narrow types, seeded ones of wide types */
static uint64_t input_count(enum sg_type t, unsigned divisor)
{
    return width(t) <= 16 ? UINT64_C(1) << width(t) : ref_count(divisor);
}

static uint64_t input(struct ref_rng *rng, enum sg_type t, uint64_t i)
{
    if (width(t) <= 16)
        return i;
    uint64_t v = sg_type_is_float(t) ? ref_input(rng, ref_format_of(t)) : ref_int_input(rng);
    return width(t) == 32 ? (uint32_t)v : v;
}

static void test_cvt__integers_wrap_or_saturate(void **state)
{
    struct ref_rng rng = {1};
    (void)state;
    for (size_t s = 0; s < TB_ARRAY_LEN(ints); s++) {
        for (size_t d = 0; d < TB_ARRAY_LEN(ints); d++) {
            struct sg_cvt plain = make(ints[d], ints[s], SG_CVT_PLAIN, 0, 0);
            struct sg_cvt sat = make(ints[d], ints[s], SG_CVT_PLAIN, 0, SG_NUM_SAT);
            init(&plain);
            init(&sat);
            for (uint64_t i = 0; i < input_count(ints[s], 20); i++) {
                uint64_t a = input(&rng, ints[s], i);
                sg_i128 v = int_value(ints[s], a), w = v;
                check(&plain, a, (uint64_t)int_value(ints[d], (uint64_t)v));
                w = w < int_min(ints[d]) ? int_min(ints[d]) : w;
                w = w > int_max(ints[d]) ? int_max(ints[d]) : w;
                check(&sat, a, (uint64_t)w);
            }
        }
    }
}

static void test_cvt__integers_to_floats_round_once(void **state)
{
    struct ref_rng rng = {2};
    mpfr_t x, r;
    (void)state;
    for (size_t d = 0; d < TB_ARRAY_LEN(floats); d++) {
        const struct ref_format *f = ref_format_of(floats[d]);
        mpfr_init2(r, f->mant + 1);
        mpfr_init2(x, 64);
        for (size_t s = 0; s < TB_ARRAY_LEN(ints); s++) {
            for (uint64_t i = 0; i < input_count(ints[s], 4); i++) {
                uint64_t a = input(&rng, ints[s], i);
                sg_i128 v = int_value(ints[s], a);
                mpfr_set_emax(1024);
                mpfr_set_uj(x, (uintmax_t)(v < 0 ? -v : v), MPFR_RNDN);
                if (v < 0)
                    mpfr_neg(x, x, MPFR_RNDN);
                ref_enter(f);
                for (int rnd = SG_RND_RN; rnd <= SG_RND_RP; rnd++) {
                    unsigned flags = f == &ref_bf16 ? 0 : (unsigned)i & SG_NUM_SAT;
                    struct sg_cvt c = make(floats[d], ints[s], SG_CVT_FLOAT, rnd, flags);
                    init(&c);
                    int t = mpfr_check_range(r, mpfr_set(r, x, ref_rnd(rnd)), ref_rnd(rnd));
                    check(&c, a, ref_apply(f, ref_bits(f, r, t, rnd), flags));
                }
            }
        }
        mpfr_clears(x, r, NULL);
    }
}

static uint64_t int_of_nan(enum sg_type dst, enum sg_type src)
{
    if (src != SG_T_F64 && width(dst) != 64)
        return 0;
    return (uint64_t)int_value(dst, UINT64_C(1) << (width(dst) - 1));
}

/* @x rounded to an integer, then clamped */
static uint64_t int_result(enum sg_type dst, mpfr_t x, mpfr_t tmp, enum sg_rnd rnd)
{
    mpfr_rint(tmp, x, ref_rnd(rnd));
    sg_i128 v = (sg_i128)1 << 65;
    bool neg = mpfr_signbit(tmp);
    if (mpfr_zero_p(tmp)) {
        v = 0;
    } else if (!mpfr_inf_p(tmp) && mpfr_get_exp(tmp) <= 64) {
        mpfr_abs(tmp, tmp, MPFR_RNDN);
        v = (sg_i128)mpfr_get_uj(tmp, MPFR_RNDN);
    }
    v = neg ? -v : v;
    v = v < int_min(dst) ? int_min(dst) : v;
    v = v > int_max(dst) ? int_max(dst) : v;
    return (uint64_t)v;
}

static void test_cvt__floats_to_integers_round_clamp_and_name_nan(void **state)
{
    struct ref_rng rng = {3};
    mpfr_t x, tmp;
    (void)state;
    ref_enter(&ref_f64);
    mpfr_inits2(64, x, tmp, NULL);
    for (size_t s = 0; s < TB_ARRAY_LEN(floats); s++) {
        const struct ref_format *f = ref_format_of(floats[s]);
        for (size_t d = 0; d < TB_ARRAY_LEN(ints); d++) {
            for (uint64_t i = 0; i < input_count(floats[s], 4); i++) {
                uint64_t a = input(&rng, floats[s], i);
                unsigned flags = f == &ref_f32 && (i & 1) ? SG_NUM_FTZ : 0;
                mpfr_set_d(x, ref_value(f, flags ? ref_flush(f, a) : a), MPFR_RNDN);
                for (int rnd = SG_RND_RN; rnd <= SG_RND_RP; rnd++) {
                    struct sg_cvt c = make(ints[d], floats[s], SG_CVT_INTEGRAL, rnd, flags);
                    init(&c);
                    check(&c, a,
                          ref_is_nan(f, a) ? int_of_nan(ints[d], floats[s])
                                           : int_result(ints[d], x, tmp, rnd));
                }
            }
        }
    }
    mpfr_clears(x, tmp, NULL);
}

/* one float to a float, without FTZ on the operand */
static uint64_t float_result(const struct ref_format *dst, const struct ref_format *src, uint64_t a,
                             enum sg_rnd rnd, bool satfinite)
{
    if (ref_is_nan(src, a)) {
        if (dst == &ref_f64 && src == &ref_f64)
            return a | UINT64_C(1) << 51;
        if (dst == &ref_f64 && src == &ref_f32)
            return (a >> 31) << 63 | UINT64_C(0x7ff8000000000000) | (a & 0x7fffff) << 29;
        return dst->nan;
    }
    mpfr_t x, r;
    mpfr_init2(r, dst->mant + 1);
    mpfr_init2(x, 53);
    ref_enter(&ref_f64);
    mpfr_set_d(x, ref_value(src, a), MPFR_RNDN);
    ref_enter(dst);
    if (rnd == SG_RND_RNA) { /* half a unit more, then down: only f32 to tf32 */
        uint64_t m = (a & 0x7fffffff) + 0x1000;
        m = (a & 0x7fffffff) >= 0x7f800000 ? 0x7f800000 : m & ~UINT64_C(0x1fff);
        mpfr_set_d(r, ref_value(&ref_f32, m | (a & 0x80000000)), MPFR_RNDN);
        rnd = SG_RND_RN;
    } else {
        int t = mpfr_check_range(r, mpfr_set(r, x, ref_rnd(rnd)), ref_rnd(rnd));
        mpfr_subnormalize(r, t, ref_rnd(rnd));
    }
    uint64_t bits = ref_bits(dst, r, 0, rnd);
    if (satfinite && (mpfr_inf_p(r) || (dst == &ref_e4m3 && mpfr_cmp_d(r, 448) > 0) ||
                      (dst == &ref_e4m3 && mpfr_cmp_d(r, -448) < 0))) {
        static const struct {
            const struct ref_format *f;
            uint64_t max, sign;
        } max[] = {{&ref_f16, 0x7bff, 0x8000},
                   {&ref_bf16, 0x7f7f, 0x8000},
                   {&ref_tf32, 0x7f7fe000, 1u << 31},
                   {&ref_e4m3, 0x7e, 0x80},
                   {&ref_e5m2, 0x7b, 0x80}};
        for (size_t i = 0; i < TB_ARRAY_LEN(max); i++)
            if (max[i].f == dst)
                bits = max[i].max | (mpfr_signbit(r) ? max[i].sign : 0);
    }
    mpfr_clears(x, r, NULL);
    return bits;
}

static void check_narrow(enum sg_type dst, enum sg_type src, enum sg_cvt_mode mode, int rnd,
                         unsigned flags, struct ref_rng *rng)
{
    const struct ref_format *d = ref_format_of(dst), *s = ref_format_of(src);
    struct sg_cvt c = make(dst, src, mode, rnd, flags);
    init(&c);
    for (uint64_t i = 0; i < input_count(src, 4); i++) {
        uint64_t a = input(rng, src, i);
        uint64_t in = (flags & SG_NUM_FTZ) && src == SG_T_F32 ? ref_flush(s, a) : a;
        unsigned out = dst == SG_T_F32 ? flags : flags & ~(unsigned)SG_NUM_FTZ;
        check(&c, a, ref_apply(d, float_result(d, s, in, rnd, flags & SG_NUM_SATFINITE), out));
    }
}

static void test_cvt__floats_narrow_correctly_in_every_mode(void **state)
{
    static const struct {
        enum sg_type dst, src;
        unsigned flags;
    } forms[] = {
        {SG_T_F32, SG_T_F64, 0},
        {SG_T_F32, SG_T_F64, SG_NUM_FTZ | SG_NUM_SAT},
        {SG_T_F16, SG_T_F64, 0},
        {SG_T_F16, SG_T_F64, SG_NUM_SAT},
        {SG_T_BF16, SG_T_F64, 0},
        {SG_T_F16, SG_T_F32, 0},
        {SG_T_F16, SG_T_F32, SG_NUM_FTZ | SG_NUM_SAT},
        {SG_T_F16, SG_T_F32, SG_NUM_RELU},
        {SG_T_F16, SG_T_F32, SG_NUM_RELU | SG_NUM_SATFINITE},
        {SG_T_BF16, SG_T_F32, 0},
        {SG_T_BF16, SG_T_F32, SG_NUM_SATFINITE},
        {SG_T_BF16, SG_T_F32, SG_NUM_RELU},
        {SG_T_BF16, SG_T_F16, 0},
        {SG_T_F16, SG_T_BF16, 0},
    };
    struct ref_rng rng = {4};
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(forms); i++)
        for (int rnd = SG_RND_RN; rnd <= SG_RND_RP; rnd++)
            check_narrow(forms[i].dst, forms[i].src, SG_CVT_FLOAT, rnd, forms[i].flags, &rng);
}

static void test_cvt__floats_widen_exactly(void **state)
{
    static const enum sg_type pairs[][2] = {
        {SG_T_F32, SG_T_F16}, {SG_T_F32, SG_T_BF16}, {SG_T_F64, SG_T_F16}, {SG_T_F64, SG_T_BF16},
        {SG_T_F64, SG_T_F32}, {SG_T_F32, SG_T_F32},  {SG_T_F64, SG_T_F64}, {SG_T_F16, SG_T_F16}};
    struct ref_rng rng = {5};
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(pairs); i++) {
        bool f32 = pairs[i][0] == SG_T_F32 || pairs[i][1] == SG_T_F32;
        check_narrow(pairs[i][0], pairs[i][1], SG_CVT_PLAIN, SG_RND_RN, 0, &rng);
        check_narrow(pairs[i][0], pairs[i][1], SG_CVT_PLAIN, SG_RND_RN, SG_NUM_SAT, &rng);
        if (f32)
            check_narrow(pairs[i][0], pairs[i][1], SG_CVT_PLAIN, SG_RND_RN, SG_NUM_FTZ, &rng);
    }
}

static void test_cvt__tf32_rounds_to_nearest_away_nearest_even_or_zero(void **state)
{
    static const enum sg_rnd rnds[] = {SG_RND_RNA, SG_RND_RN, SG_RND_RZ};
    static const unsigned flags[] = {0, SG_NUM_SATFINITE, SG_NUM_RELU};
    struct ref_rng rng = {6};
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(rnds); i++)
        for (size_t k = 0; k < TB_ARRAY_LEN(flags); k++)
            check_narrow(SG_T_TF32, SG_T_F32, SG_CVT_FLOAT, rnds[i], flags[k], &rng);
}

static void test_cvt__floats_round_to_integral_values(void **state)
{
    struct ref_rng rng = {7};
    mpfr_t x, r;
    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(floats); k++) {
        const struct ref_format *f = ref_format_of(floats[k]);
        mpfr_inits2(f->mant + 1, x, r, NULL);
        ref_enter(f);
        for (uint64_t i = 0; i < input_count(floats[k], 2); i++) {
            uint64_t a = input(&rng, floats[k], i);
            unsigned flags = f == &ref_f32 && (i & 1) ? SG_NUM_FTZ : 0;
            for (int rnd = SG_RND_RN; rnd <= SG_RND_RP; rnd++) {
                struct sg_cvt c = make(floats[k], floats[k], SG_CVT_INTEGRAL, rnd, flags);
                init(&c);
                mpfr_set_d(x, ref_value(f, flags ? ref_flush(f, a) : a), MPFR_RNDN);
                mpfr_rint(r, x, ref_rnd(rnd));
                uint64_t want = ref_bits(f, r, 0, rnd);
                if (ref_is_nan(f, a))
                    want = f == &ref_f64 ? a | UINT64_C(1) << 51 : f->nan;
                check(&c, a, want);
                if (f == &ref_f32 && !flags)
                    assert_int_equal(sg_f32_rint((uint32_t)a, rnd), want);
            }
        }
        mpfr_clears(x, r, NULL);
    }
}

/* ---- packed forms: each half as its scalar ------------------------------------------------------
 */

static void check_pack(const struct sg_cvt *c, uint64_t a, uint64_t b, uint64_t want)
{
    uint64_t got = sg_cvt_run(c, a, b);
    if (got != want)
        fail_msg("pack %s to %sx2 rnd %d flags %u of %llx %llx: %llx, not %llx", names[c->src],
                 names[c->dst], c->rnd, c->flags, (unsigned long long)a, (unsigned long long)b,
                 (unsigned long long)got, (unsigned long long)want);
}

static void test_cvt__two_f32_pack_with_the_first_above(void **state)
{
    static const struct {
        enum sg_type dst;
        enum sg_rnd rnd;
        unsigned flags;
    } forms[] = {{SG_T_F16, SG_RND_RN, 0},
                 {SG_T_F16, SG_RND_RZ, SG_NUM_RELU},
                 {SG_T_F16, SG_RND_RN, SG_NUM_SATFINITE},
                 {SG_T_BF16, SG_RND_RN, 0},
                 {SG_T_BF16, SG_RND_RZ, SG_NUM_SATFINITE | SG_NUM_RELU},
                 {SG_T_E4M3, SG_RND_RN, SG_NUM_SATFINITE},
                 {SG_T_E4M3, SG_RND_RN, SG_NUM_SATFINITE | SG_NUM_RELU},
                 {SG_T_E5M2, SG_RND_RN, SG_NUM_SATFINITE},
                 {SG_T_E5M2, SG_RND_RN, SG_NUM_SATFINITE | SG_NUM_RELU}};
    struct ref_rng rng = {8};
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(forms); i++) {
        const struct ref_format *f = ref_format_of(forms[i].dst);
        struct sg_cvt c = make(forms[i].dst, SG_T_F32, SG_CVT_FLOAT, forms[i].rnd, forms[i].flags);
        c.pack = true;
        init(&c);
        for (uint64_t k = 0; k < ref_count(8); k++) {
            uint64_t v[2], r[2];
            for (int h = 0; h < 2; h++) {
                v[h] = ref_input(&rng, &ref_f32);
                if (k & 1) /* into the range of the small formats */
                    v[h] = (v[h] & 0x83ffffff) | (0x38000000 + (ref_next(&rng) & 0x0c000000));
                r[h] = float_result(f, &ref_f32, v[h], forms[i].rnd,
                                    forms[i].flags & SG_NUM_SATFINITE);
                r[h] = ref_apply(f, r[h], forms[i].flags & SG_NUM_RELU);
            }
            check_pack(&c, v[0], v[1], r[0] << width(forms[i].dst) | r[1]);
        }
    }
}

static void test_cvt__fp8_pairs_to_and_from_f16_are_exhaustively_right(void **state)
{
    static const enum sg_type fp8[] = {SG_T_E4M3, SG_T_E5M2};
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(fp8); i++) {
        const struct ref_format *f = ref_format_of(fp8[i]);
        for (int relu = 0; relu < 2; relu++) {
            unsigned flags = relu ? SG_NUM_RELU : 0;
            struct sg_cvt up = make(SG_T_F16, fp8[i], SG_CVT_FLOAT, SG_RND_RN, flags);
            struct sg_cvt down =
                make(fp8[i], SG_T_F16, SG_CVT_FLOAT, SG_RND_RN, flags | SG_NUM_SATFINITE);
            up.pack = up.src_pair = down.pack = down.src_pair = true;
            init(&up);
            init(&down);
            for (uint32_t a = 0; a < 0x10000; a++) {
                uint64_t hi =
                    ref_apply(&ref_f16, float_result(&ref_f16, f, a >> 8, SG_RND_RN, false), flags);
                uint64_t lo = ref_apply(
                    &ref_f16, float_result(&ref_f16, f, a & 0xff, SG_RND_RN, false), flags);
                check_pack(&up, a, 0, hi << 16 | lo);
                uint64_t r = ref_apply(f, float_result(f, &ref_f16, a, SG_RND_RN, true), flags);
                check_pack(&down, a << 16 | 0x3c00, 0, r << 8 | ref_one(f));
            }
        }
    }
}

/* ---- the inlines -------------------------------------------------------------------------------
 */

static uint64_t by_cvt(enum sg_type dst, enum sg_type src, enum sg_cvt_mode mode, enum sg_rnd rnd,
                       uint64_t a)
{
    struct sg_cvt c = make(dst, src, mode, rnd, 0);
    init(&c);
    return sg_cvt_run(&c, a, 0);
}

static void test_cvt__inlines_agree_with_the_engine(void **state)
{
    struct ref_rng rng = {9};
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        assert_int_equal(sg_f16_to_f32((uint16_t)h),
                         by_cvt(SG_T_F32, SG_T_F16, SG_CVT_PLAIN, 0, h));
        assert_int_equal(sg_bf16_to_f32((uint16_t)h),
                         by_cvt(SG_T_F32, SG_T_BF16, SG_CVT_PLAIN, 0, h));
    }
    for (uint64_t i = 0; i < ref_count(1); i++) {
        uint32_t f = (uint32_t)ref_input(&rng, &ref_f32), n = (uint32_t)ref_int_input(&rng);
        uint64_t d = ref_input(&rng, &ref_f64);
        if (i & 1)
            f = (f & 0x80ffffff) | (0x33000000 + ((uint32_t)ref_next(&rng) & 0x1f000000));
        assert_int_equal(sg_f16_from_f32(f), by_cvt(SG_T_F16, SG_T_F32, SG_CVT_FLOAT, 0, f));
        assert_int_equal(sg_bf16_from_f32(f), by_cvt(SG_T_BF16, SG_T_F32, SG_CVT_FLOAT, 0, f));
        assert_int_equal(sg_s32_from_f32_rz(f),
                         (uint32_t)by_cvt(SG_T_S32, SG_T_F32, SG_CVT_INTEGRAL, SG_RND_RZ, f));
        assert_int_equal(sg_u32_from_f32_rz(f),
                         by_cvt(SG_T_U32, SG_T_F32, SG_CVT_INTEGRAL, SG_RND_RZ, f));
        assert_int_equal(sg_f32_from_s32(n), by_cvt(SG_T_F32, SG_T_S32, SG_CVT_FLOAT, 0, n));
        assert_int_equal(sg_f32_from_u32(n), by_cvt(SG_T_F32, SG_T_U32, SG_CVT_FLOAT, 0, n));
        assert_true(sg_f64_from_s32(n) == by_cvt(SG_T_F64, SG_T_S32, SG_CVT_FLOAT, 0, n));
        assert_true(sg_f64_from_u32(n) == by_cvt(SG_T_F64, SG_T_U32, SG_CVT_FLOAT, 0, n));
        assert_true(sg_f64_from_f32(f) == by_cvt(SG_T_F64, SG_T_F32, SG_CVT_PLAIN, 0, f));
        assert_int_equal(sg_f32_from_f64(d), by_cvt(SG_T_F32, SG_T_F64, SG_CVT_FLOAT, 0, d));
        assert_int_equal(sg_f16_from_f64(d), by_cvt(SG_T_F16, SG_T_F64, SG_CVT_FLOAT, 0, d));
        assert_int_equal(sg_bf16_from_f64(d), by_cvt(SG_T_BF16, SG_T_F64, SG_CVT_FLOAT, 0, d));
        assert_int_equal(sg_s32_from_f64_rz(d),
                         (uint32_t)by_cvt(SG_T_S32, SG_T_F64, SG_CVT_INTEGRAL, SG_RND_RZ, d));
    }
}

/* ---- what ptxas refuses -------------------------------------------------------------------------
 */

static void test_cvt__illegal_forms_are_refused_with_a_reason(void **state)
{
    static const struct {
        struct sg_cvt c;
        const char *text;
    } bad[] = {
        {{.dst = SG_T_F32, .src = SG_T_S32}, "cvt of 's32' to 'f32' needs a rounding modifier"},
        {{.dst = SG_T_S32, .src = SG_T_F64},
         "cvt of 'f64' to 's32' needs an integer rounding modifier"},
        {{.dst = SG_T_F64, .src = SG_T_F32, .mode = SG_CVT_FLOAT},
         "cvt of 'f32' to 'f64' has a rounding modifier"},
        {{.dst = SG_T_F16, .src = SG_T_F32}, "cvt of 'f32' to 'f16' needs a rounding modifier"},
        {{.dst = SG_T_F64, .src = SG_T_F32, .mode = SG_CVT_INTEGRAL},
         "cvt of 'f32' to 'f64' has an integer rounding"},
        {{.dst = SG_T_F16, .src = SG_T_F16, .flags = SG_NUM_FTZ},
         "cvt of 'f16' to 'f16' has .ftz but no f32"},
        {{.dst = SG_T_BF16, .src = SG_T_F32, .mode = SG_CVT_FLOAT, .flags = SG_NUM_SAT},
         "cvt of 'f32' to 'bf16' has .sat"},
        {{.dst = SG_T_F16, .src = SG_T_F64, .mode = SG_CVT_FLOAT, .flags = SG_NUM_RELU},
         "cvt of 'f64' to 'f16' has .relu or .satfinite"},
        {{.dst = SG_T_E4M3, .src = SG_T_F32, .mode = SG_CVT_FLOAT, .pack = true},
         "cvt of 'f32' to 'e4m3x2' needs .rn.satfinite"},
        {{.dst = SG_T_F16, .src = SG_T_F32, .mode = SG_CVT_FLOAT, .rnd = SG_RND_RM, .pack = true},
         "cvt of 'f32' to 'f16x2' is not a conversion that PTX has"},
        {{.dst = SG_T_S32, .src = SG_T_S8, .mode = SG_CVT_FLOAT},
         "cvt of 's8' to 's32' has a rounding modifier"},
        {{.dst = SG_T_F32, .src = SG_T_F64, .mode = SG_CVT_FLOAT, .rnd = SG_RND_RNA},
         "cvt of 'f64' to 'f32' has .rna"},
    };
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(bad); i++) {
        struct sg_cvt c = bad[i].c;
        struct tb_error err = {0};
        assert_int_equal(sg_cvt_init(&c, &err), TB_ERR_FORMAT);
        assert_string_equal(err.text, bad[i].text);
        assert_null(c.fn);
    }
}

static void test_cvt__pack_of_integers_clamps_and_shifts_c(void **state)
{
    (void)state;
    assert_int_equal(sg_cvt_pack(70000, -5, 0, 16, true), 0x7ffffffb);
    assert_int_equal(sg_cvt_pack(70000, -5, 0, 16, false), 0xffff0000);
    assert_int_equal(sg_cvt_pack(-200, 127, 0x1234, 8, true), 0x1234807f);
    assert_int_equal(sg_cvt_pack(300, 17, 0xabcd, 8, false), 0xabcdff11);
    assert_int_equal(sg_cvt_pack(-9, 7, 0x123456, 4, true), 0x12345687);
    assert_int_equal(sg_cvt_pack(5, 2, 0x1234567, 2, false), 0x1234567e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cvt__integers_wrap_or_saturate),
        cmocka_unit_test(test_cvt__integers_to_floats_round_once),
        cmocka_unit_test(test_cvt__floats_to_integers_round_clamp_and_name_nan),
        cmocka_unit_test(test_cvt__floats_narrow_correctly_in_every_mode),
        cmocka_unit_test(test_cvt__floats_widen_exactly),
        cmocka_unit_test(test_cvt__tf32_rounds_to_nearest_away_nearest_even_or_zero),
        cmocka_unit_test(test_cvt__floats_round_to_integral_values),
        cmocka_unit_test(test_cvt__two_f32_pack_with_the_first_above),
        cmocka_unit_test(test_cvt__fp8_pairs_to_and_from_f16_are_exhaustively_right),
        cmocka_unit_test(test_cvt__inlines_agree_with_the_engine),
        cmocka_unit_test(test_cvt__illegal_forms_are_refused_with_a_reason),
        cmocka_unit_test(test_cvt__pack_of_integers_clamps_and_shifts_c),
    };
    return cmocka_run_group_tests(tests, ref_start, NULL);
}
