/* Flags, min and max, predicates, copysign: on special values in all combinations. */
#include "ref.h"

static const struct ref_format *const formats[] = {&ref_f16, &ref_bf16, &ref_f32, &ref_f64};

static void test_float__saturation_and_flushing_follow_the_isa(void **state)
{
    struct ref_rng rng = {21};
    (void)state;
    for (uint64_t i = 0; i < ref_count(1); i++) {
        uint32_t f = (uint32_t)ref_input(&rng, &ref_f32);
        uint64_t d = ref_input(&rng, &ref_f64);
        assert_int_equal(sg_f32_ftz(f), ref_flush(&ref_f32, f));
        assert_int_equal(sg_f32_sat(f), ref_apply(&ref_f32, f, SG_NUM_SAT));
        assert_int_equal(sg_f32_relu(f), ref_apply(&ref_f32, f, SG_NUM_RELU));
        assert_int_equal(sg_f32_canon(f), ref_is_nan(&ref_f32, f) ? 0x7fffffff : f);
        assert_int_equal(sg_f32_is_nan(f), ref_is_nan(&ref_f32, f));
        assert_int_equal(sg_f64_is_nan(d), ref_is_nan(&ref_f64, d));
        assert_true(sg_f64_sat(d) == ref_apply(&ref_f64, d, SG_NUM_SAT));
    }
    for (uint32_t h = 0; h < 0x10000; h++)
        assert_int_equal(sg_f16_ftz((uint16_t)h), ref_flush(&ref_f16, h));
    assert_int_equal(sg_f32_sat(0x80000000), 0);
    assert_int_equal(sg_f32_sat(0xffc00000), 0);
}

static void test_float__signs_move_alone(void **state)
{
    (void)state;
    assert_int_equal(sg_f32_neg(0x7fc00001, 0), 0xffc00001);
    assert_int_equal(sg_f32_neg(1, SG_NUM_FTZ), 0x80000000);
    assert_int_equal(sg_f32_abs(0x80000001, SG_NUM_FTZ), 0);
    assert_int_equal(sg_f32_abs(0xbf800000, 0), 0x3f800000);
    assert_true(sg_f64_abs(0xbff0000000000000) == 0x3ff0000000000000);
    assert_true(sg_f64_abs(0xfff8000000000001) == 0xfff8000000000001); /* passed through */
    assert_int_equal(sg_f16_neg(0x3c00, 0), 0xbc00);
    assert_int_equal(sg_f16_abs(0x8001, SG_NUM_FTZ), 0);
    assert_int_equal(sg_bf16_neg(0x3f80), 0xbf80);
    assert_int_equal(sg_bf16_abs(0xbf80), 0x3f80);
    assert_int_equal(sg_f32_copysign(0x80000000, 0x3f800000), 0xbf800000);
    assert_true(sg_f64_copysign(0, 0xbff0000000000000) == 0x3ff0000000000000);
}

static uint64_t sign_of(const struct ref_format *f)
{
    return UINT64_C(1) << (f == &ref_f64 ? 63 : f == &ref_f32 ? 31 : 15);
}

/* the ISA's pseudo-code, with its note that +0 > -0 */
static uint64_t minmax(const struct ref_format *f, uint64_t a, uint64_t b, bool max, unsigned flags)
{
    uint64_t sign = sign_of(f);
    if (flags & SG_NUM_FTZ) {
        a = ref_flush(f, a);
        b = ref_flush(f, b);
    }
    uint64_t xs = (a ^ b) & sign, d;
    if (flags & SG_NUM_XORSIGN) {
        a &= ~sign;
        b &= ~sign;
    }
    bool na = ref_is_nan(f, a), nb = ref_is_nan(f, b);
    double x = ref_value(f, a), y = ref_value(f, b);
    if ((na && nb) || ((flags & SG_NUM_NAN) && (na || nb)))
        return f->nan;
    if (na || nb)
        d = na ? b : a;
    else if (x == y)
        d = ((a & sign) != 0) != max ? a : b;
    else
        d = (max ? x > y : x < y) ? a : b;
    return flags & SG_NUM_XORSIGN ? (d & ~sign) | xs : d;
}

static uint64_t call_minmax(const struct ref_format *f, uint64_t a, uint64_t b, bool max,
                            unsigned flags)
{
    uint16_t ha = (uint16_t)a, hb = (uint16_t)b;
    if (f == &ref_f16)
        return max ? sg_f16_max(ha, hb, flags) : sg_f16_min(ha, hb, flags);
    if (f == &ref_bf16)
        return max ? sg_bf16_max(ha, hb, flags) : sg_bf16_min(ha, hb, flags);
    if (f == &ref_f32)
        return max ? sg_f32_max((uint32_t)a, (uint32_t)b, flags)
                   : sg_f32_min((uint32_t)a, (uint32_t)b, flags);
    return max ? sg_f64_max(a, b, flags) : sg_f64_min(a, b, flags);
}

static void test_float__min_and_max_match_the_pseudo_code(void **state)
{
    struct ref_rng rng = {22};
    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(formats); k++) {
        const struct ref_format *f = formats[k];
        for (uint64_t i = 0; i < ref_count(2); i++) {
            uint64_t a = ref_input(&rng, f), b = ref_partner(&rng, f, a), v = ref_next(&rng);
            unsigned flags =
                (v & 1 ? SG_NUM_FTZ : 0) | (v & 2 ? SG_NUM_NAN : 0) | (v & 4 ? SG_NUM_XORSIGN : 0);
            uint64_t got = call_minmax(f, a, b, v & 8, flags), want = minmax(f, a, b, v & 8, flags);
            if (got != want)
                fail_msg("%s.%s flags %u of %llx %llx: %llx, not %llx", v & 8 ? "max" : "min",
                         f->name, flags, (unsigned long long)a, (unsigned long long)b,
                         (unsigned long long)got, (unsigned long long)want);
        }
    }
}

static bool compare(enum sg_cmp cmp, double a, double b)
{
    bool nan = __builtin_isnan(a) || __builtin_isnan(b);
    switch (cmp) {
    case SG_CMP_EQ:
        return !nan && a == b;
    case SG_CMP_NE:
        return !nan && a != b;
    case SG_CMP_LT:
        return !nan && a < b;
    case SG_CMP_LE:
        return !nan && a <= b;
    case SG_CMP_GT:
        return !nan && a > b;
    case SG_CMP_GE:
        return !nan && a >= b;
    case SG_CMP_NUM:
        return !nan;
    case SG_CMP_NAN:
        return nan;
    default:
        return nan || compare(cmp - SG_CMP_EQU + SG_CMP_EQ, a, b);
    }
}

static void test_float__every_predicate_knows_nan(void **state)
{
    struct ref_rng rng = {23};
    (void)state;
    for (uint64_t i = 0; i < ref_count(10); i++) {
        for (enum sg_cmp cmp = SG_CMP_EQ; cmp <= SG_CMP_NAN; cmp++) {
            uint32_t a = (uint32_t)ref_input(&rng, &ref_f32);
            uint32_t b = i % 4 ? (uint32_t)ref_partner(&rng, &ref_f32, a) : a;
            unsigned ftz = i & 8 ? SG_NUM_FTZ : 0;
            double x = ref_value(&ref_f32, ftz ? ref_flush(&ref_f32, a) : a);
            double y = ref_value(&ref_f32, ftz ? ref_flush(&ref_f32, b) : b);
            assert_int_equal(sg_f32_cmp(cmp, a, b, ftz), compare(cmp, x, y));
            uint64_t d = ref_input(&rng, &ref_f64), e = ref_partner(&rng, &ref_f64, d);
            assert_int_equal(sg_f64_cmp(cmp, d, e),
                             compare(cmp, ref_value(&ref_f64, d), ref_value(&ref_f64, e)));
            uint16_t h = (uint16_t)a, g = (uint16_t)b;
            assert_int_equal(sg_f16_cmp(cmp, h, g, 0),
                             compare(cmp, ref_value(&ref_f16, h), ref_value(&ref_f16, g)));
            assert_int_equal(sg_f16_cmp(cmp, h, g, SG_NUM_FTZ),
                             compare(cmp, ref_value(&ref_f16, ref_flush(&ref_f16, h)),
                                     ref_value(&ref_f16, ref_flush(&ref_f16, g))));
            assert_int_equal(sg_bf16_cmp(cmp, h, g),
                             compare(cmp, ref_value(&ref_bf16, h), ref_value(&ref_bf16, g)));
        }
    }
}

static void test_float__testp_sorts_every_class(void **state)
{
    static const struct {
        uint32_t bits;
        bool finite, infinite, number, nan, normal, subnormal;
    } cases[] = {
        {0, 1, 0, 1, 0, 1, 0},          {0x80000000, 1, 0, 1, 0, 1, 0},
        {1, 1, 0, 1, 0, 0, 1},          {0x807fffff, 1, 0, 1, 0, 0, 1},
        {0x00800000, 1, 0, 1, 0, 1, 0}, {0xff7fffff, 1, 0, 1, 0, 1, 0},
        {0x7f800000, 0, 1, 1, 0, 0, 0}, {0xff800000, 0, 1, 1, 0, 0, 0},
        {0x7f800001, 0, 0, 0, 1, 0, 0}, {0xffffffff, 0, 0, 0, 1, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        uint32_t u = cases[i].bits;
        /* the f64 of the same class */
        uint64_t e = u >> 23 & 255, top = e == 255 ? 0x7ff : e;
        uint64_t d = (uint64_t)(u >> 31) << 63 | top << 52 | (u & 0x7fffff);
        for (int wide = 0; wide < 2; wide++) {
#define TESTP(what) (wide ? sg_f64_testp(what, d) : sg_f32_testp(what, u))
            assert_int_equal(TESTP(SG_TESTP_FINITE), cases[i].finite);
            assert_int_equal(TESTP(SG_TESTP_INFINITE), cases[i].infinite);
            assert_int_equal(TESTP(SG_TESTP_NUMBER), cases[i].number);
            assert_int_equal(TESTP(SG_TESTP_NAN), cases[i].nan);
            assert_int_equal(TESTP(SG_TESTP_NORMAL), cases[i].normal);
            assert_int_equal(TESTP(SG_TESTP_SUBNORMAL), cases[i].subnormal);
        }
    }
}

static void test_float__slct_takes_b_for_nan(void **state)
{
    (void)state;
    assert_true(sg_slct_f32(0x80000000, 0));
    assert_true(sg_slct_f32(0x3f800000, 0));
    assert_false(sg_slct_f32(0x80000001, 0));
    assert_true(sg_slct_f32(0x80000001, SG_NUM_FTZ));
    assert_false(sg_slct_f32(0x7fffffff, 0));
}

static void test_float__pairs_work_by_halves(void **state)
{
    (void)state;
    assert_int_equal(SG_X2_2(sg_f16_add, 0x3c004000u, 0x3c00c000u, 0), 0x40000000);
    assert_int_equal(SG_X2_3(sg_bf16_fma, 0x3f804000u, 0x40003f80u, 0x3f803f80u, 0), 0x40404040);
    assert_int_equal(SG_X2_1(sg_f16_neg, 0x3c00bc00u, 0), 0xbc003c00);
    assert_int_equal(SG_X2_1(sg_bf16_abs, 0xbf80bf80u), 0x3f803f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float__saturation_and_flushing_follow_the_isa),
        cmocka_unit_test(test_float__signs_move_alone),
        cmocka_unit_test(test_float__min_and_max_match_the_pseudo_code),
        cmocka_unit_test(test_float__every_predicate_knows_nan),
        cmocka_unit_test(test_float__testp_sorts_every_class),
        cmocka_unit_test(test_float__slct_takes_b_for_nan),
        cmocka_unit_test(test_float__pairs_work_by_halves),
    };
    return cmocka_run_group_tests(tests, ref_start, NULL);
}
