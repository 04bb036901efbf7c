/*
 * The approximate functions: measured error over dense sweeps against the ISA's bounds, special
 * cases as its tables say, and fixed bits for some operands (the same on every machine).
 */
#include "ref.h"

#include <math.h>

/* ---- error over a sweep ------------------------------------------------------------------------
 */

enum measure { RELATIVE, ABSOLUTE, ULPS };

struct sweep {
    const char *name;
    const struct ref_format *format;
    uint64_t (*fn)(uint64_t a, uint64_t b);
    int (*exact)(mpfr_t r, mpfr_t a, mpfr_t b);
    double lo, hi; /* operands in between; both of one sign: even in their exponents */
    enum measure measure;
    double bound; /* log2 of the error, or ULPs */
};

#define F32_1(name)                                                                                \
    static uint64_t name##_(uint64_t a, uint64_t b)                                                \
    {                                                                                              \
        (void)b;                                                                                   \
        return sg_f32_##name((uint32_t)a, 0);                                                      \
    }
F32_1(ex2_approx)
F32_1(lg2_approx)
F32_1(sin_approx)
F32_1(cos_approx)
F32_1(rcp_approx)
F32_1(sqrt_approx)
F32_1(rsqrt_approx)

static uint64_t tanh_approx_(uint64_t a, uint64_t b)
{
    (void)b;
    return sg_f32_tanh_approx((uint32_t)a);
}

static uint64_t div_approx_(uint64_t a, uint64_t b)
{
    return sg_f32_div_approx((uint32_t)a, (uint32_t)b, 0);
}

static uint64_t div_full_(uint64_t a, uint64_t b)
{
    return sg_f32_div_full((uint32_t)a, (uint32_t)b, 0);
}

#define WIDE_1(name, fn, T)                                                                        \
    static uint64_t name(uint64_t a, uint64_t b)                                                   \
    {                                                                                              \
        (void)b;                                                                                   \
        return fn((T)a);                                                                           \
    }
WIDE_1(f16_ex2_, sg_f16_ex2_approx, uint16_t)
WIDE_1(bf16_ex2_, sg_bf16_ex2_approx_ftz, uint16_t)
WIDE_1(f16_tanh_, sg_f16_tanh_approx, uint16_t)
WIDE_1(bf16_tanh_, sg_bf16_tanh_approx, uint16_t)
WIDE_1(f64_rcp_, sg_f64_rcp_approx_ftz, uint64_t)
WIDE_1(f64_rsqrt_ftz_, sg_f64_rsqrt_approx_ftz, uint64_t)
WIDE_1(f64_rsqrt_, sg_f64_rsqrt_approx, uint64_t)

#define EXACT(name, call)                                                                          \
    static int name(mpfr_t r, mpfr_t a, mpfr_t b)                                                  \
    {                                                                                              \
        (void)b;                                                                                   \
        return call;                                                                               \
    }
EXACT(exact_ex2, mpfr_exp2(r, a, MPFR_RNDN))
EXACT(exact_lg2, mpfr_log2(r, a, MPFR_RNDN))
EXACT(exact_sin, mpfr_sin(r, a, MPFR_RNDN))
EXACT(exact_cos, mpfr_cos(r, a, MPFR_RNDN))
EXACT(exact_tanh, mpfr_tanh(r, a, MPFR_RNDN))
EXACT(exact_rcp, mpfr_ui_div(r, 1, a, MPFR_RNDN))
EXACT(exact_sqrt, mpfr_sqrt(r, a, MPFR_RNDN))
EXACT(exact_rsqrt, mpfr_rec_sqrt(r, a, MPFR_RNDN))
EXACT(exact_div, mpfr_div(r, a, b, MPFR_RNDN))

#define PI 3.14159265358979

static const struct sweep sweeps[] = {
    {"ex2.approx.f32", &ref_f32, ex2_approx_, exact_ex2, -126, 127.9, RELATIVE, -22},
    {"ex2.approx.f32", &ref_f32, ex2_approx_, exact_ex2, -126, 127.9, ULPS, 0.55},
    {"lg2.approx.f32", &ref_f32, lg2_approx_, exact_lg2, 0.5, 2, ABSOLUTE, -22.6},
    {"lg2.approx.f32", &ref_f32, lg2_approx_, exact_lg2, 1e-44, 3e38, ULPS, 0.55},
    {"sin.approx.f32", &ref_f32, sin_approx_, exact_sin, -PI, PI, ABSOLUTE, -20.5},
    {"sin.approx.f32", &ref_f32, sin_approx_, exact_sin, 1e-30, 2e9, ULPS, 0.55},
    {"cos.approx.f32", &ref_f32, cos_approx_, exact_cos, -PI, PI, ABSOLUTE, -20.5},
    {"cos.approx.f32", &ref_f32, cos_approx_, exact_cos, 1e-30, 2e9, ULPS, 0.55},
    {"tanh.approx.f32", &ref_f32, tanh_approx_, exact_tanh, -20, 20, RELATIVE, -11},
    {"tanh.approx.f32", &ref_f32, tanh_approx_, exact_tanh, 1e-37, 20, ULPS, 0.75},
    {"rcp.approx.f32", &ref_f32, rcp_approx_, exact_rcp, 1e-37, 8e37, ULPS, 0.5},
    {"sqrt.approx.f32", &ref_f32, sqrt_approx_, exact_sqrt, 1e-44, 3e38, ULPS, 0.5},
    {"rsqrt.approx.f32", &ref_f32, rsqrt_approx_, exact_rsqrt, 1e-44, 3e38, RELATIVE, -22.9},
    {"rsqrt.approx.f32", &ref_f32, rsqrt_approx_, exact_rsqrt, 1e-44, 3e38, ULPS, 0.51},
    {"div.approx.f32", &ref_f32, div_approx_, exact_div, 1e-18, 1e18, ULPS, 2},
    {"div.full.f32", &ref_f32, div_full_, exact_div, 1e-18, 1e18, ULPS, 2},
    {"ex2.approx.f16", &ref_f16, f16_ex2_, exact_ex2, -14, 15.9, RELATIVE, -9.9},
    {"ex2.approx.bf16", &ref_bf16, bf16_ex2_, exact_ex2, -126, 127, RELATIVE, -7},
    {"tanh.approx.f16", &ref_f16, f16_tanh_, exact_tanh, -9, 9, ABSOLUTE, -10.987},
    {"tanh.approx.bf16", &ref_bf16, bf16_tanh_, exact_tanh, -9, 9, ABSOLUTE, -8},
    {"rcp.approx.ftz.f64", &ref_f64, f64_rcp_, exact_rcp, 1e-300, 1e300, RELATIVE, -20},
    {"rsqrt.approx.ftz.f64", &ref_f64, f64_rsqrt_ftz_, exact_rsqrt, 1e-300, 1e300, RELATIVE, -20},
    {"rsqrt.approx.f64", &ref_f64, f64_rsqrt_, exact_rsqrt, 1e-300, 1e300, ULPS, 1.5},
};

static uint64_t bits_of(const struct ref_format *f, double v)
{
    if (f == &ref_f64)
        return sg_f64_bits(v);
    if (f == &ref_f32)
        return sg_f32_bits((float)v);
    return f == &ref_f16 ? sg_f16_from_f64(sg_f64_bits(v)) : sg_bf16_from_f64(sg_f64_bits(v));
}

static uint64_t operand(const struct sweep *s, struct ref_rng *rng)
{
    double u = (double)(ref_next(rng) >> 11) * 0x1p-53;
    if (s->lo > 0)
        return bits_of(s->format, exp(log(s->lo) + u * (log(s->hi) - log(s->lo))));
    return bits_of(s->format, s->lo + (s->hi - s->lo) * u);
}

static double error_of(const struct sweep *s, uint64_t got, mpfr_t exact, mpfr_t tmp)
{
    double e = mpfr_get_d(exact, MPFR_RNDN);
    mpfr_set_d(tmp, ref_value(s->format, got), MPFR_RNDN);
    mpfr_sub(tmp, tmp, exact, MPFR_RNDN);
    double d = fabs(mpfr_get_d(tmp, MPFR_RNDN));
    if (s->measure == ABSOLUTE)
        return d;
    if (s->measure == RELATIVE)
        return e == 0 ? d : d / fabs(e);
    int x;
    frexp(e, &x);
    int bottom = s->format == &ref_f64 ? -1073 : -148; /* exponents of the smallest numbers */
    x = x - 1 - s->format->mant < bottom - 1 ? bottom - 1 : x - 1 - s->format->mant;
    return ldexp(d, -x);
}

static void test_approx__errors_stay_below_the_bounds(void **state)
{
    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(sweeps); k++) {
        const struct sweep *s = &sweeps[k];
        struct ref_rng rng = {51 + k};
        mpfr_t a, b, r, tmp;
        double worst = 0;
        uint64_t at = 0;

        mpfr_inits2(100, a, b, r, tmp, NULL);
        mpfr_set_emin(-10000);
        mpfr_set_emax(10000);
        for (uint64_t i = 0; i < ref_count(5); i++) {
            uint64_t x = operand(s, &rng), y = operand(s, &rng);
            if (s->fn == f64_rcp_ || s->fn == f64_rsqrt_ftz_)
                x &= ~UINT64_C(0xffffffff);
            mpfr_set_d(a, ref_value(s->format, x), MPFR_RNDN);
            mpfr_set_d(b, ref_value(s->format, y), MPFR_RNDN);
            s->exact(r, a, b);
            double e = error_of(s, s->fn(x, y), r, tmp);
            if (!(e <= worst)) {
                worst = e;
                at = x;
            }
        }
        mpfr_clears(a, b, r, tmp, NULL);
        double shown = s->measure == ULPS ? worst : log2(worst);
        printf("# %-20s %-8s %8.3f  bound %7.3f  at %llx\n", s->name,
               s->measure == ULPS       ? "ulp"
               : s->measure == RELATIVE ? "rel 2^"
                                        : "abs 2^",
               shown, s->bound, (unsigned long long)at);
        if (!(shown <= s->bound))
            fail_msg("%s: error %g", s->name, shown);
    }
}

/* ---- special cases ------------------------------------------------------------------------------
 */

#define INF 0x7f800000u
#define ONE 0x3f800000u
#define NEG 0x80000000u
#define NAN_ SG_F32_NAN

struct special {
    const char *name;
    uint32_t (*fn)(uint32_t a, unsigned flags);
    /* -inf, -normal (-1.5), -subnormal, -0, +0, +subnormal, +inf; subnormals with .ftz */
    uint32_t want[7];
    uint32_t no_ftz[2]; /* -subnormal, +subnormal without */
};

static uint32_t tanh_f32(uint32_t a, unsigned flags)
{
    (void)flags;
    return sg_f32_tanh_approx(a);
}

#define WRAP(name)                                                                                 \
    static uint32_t name##_f32(uint32_t a, unsigned flags)                                         \
    {                                                                                              \
        return sg_f32_##name##_approx(a, flags);                                                   \
    }
WRAP(ex2)
WRAP(lg2)
WRAP(sin)
WRAP(cos)
WRAP(rcp)
WRAP(sqrt)
WRAP(rsqrt)

static void test_approx__special_cases_are_the_isa_tables(void **state)
{
    const uint32_t sub = 0x00000001, any = 0x12345678; /* any: not in the table */
    const struct special table[] = {
        {"ex2", ex2_f32, {0, any, ONE, ONE, ONE, ONE, INF}, {ONE, ONE}},
        {"lg2",
         lg2_f32,
         {NAN_, NAN_, NEG | INF, NEG | INF, NEG | INF, NEG | INF, INF},
         {NAN_, 0xc3150000}},
        {"sin", sin_f32, {NAN_, any, NEG, NEG, 0, 0, NAN_}, {NEG | sub, sub}},
        {"cos", cos_f32, {NAN_, any, ONE, ONE, ONE, ONE, NAN_}, {ONE, ONE}},
        {"tanh", tanh_f32, {NEG | ONE, any, NEG | sub, NEG, 0, sub, ONE}, {NEG | sub, sub}},
        {"rcp", rcp_f32, {NEG, any, NEG | INF, NEG | INF, INF, INF, 0}, {NEG | INF, INF}},
        {"sqrt", sqrt_f32, {NAN_, NAN_, NEG, NEG, 0, 0, INF}, {NAN_, 0x1a3504f3}},
        {"rsqrt", rsqrt_f32, {NAN_, NAN_, NEG | INF, NEG | INF, INF, INF, 0}, {NAN_, 0x64b504f3}},
    };
    const uint32_t in[7] = {NEG | INF, 0xbfc00000, NEG | sub, NEG, 0, sub, INF};
    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(table); k++) {
        const struct special *s = &table[k];
        for (int i = 0; i < 7; i++) {
            uint32_t got = s->fn(in[i], SG_NUM_FTZ);
            if (s->want[i] != any && got != s->want[i])
                fail_msg("%s.ftz of %x: %x, not %x", s->name, in[i], got, s->want[i]);
        }
        assert_int_equal(s->fn(NEG | sub, 0), s->no_ftz[0]);
        assert_int_equal(s->fn(sub, 0), s->no_ftz[1]);
        assert_int_equal(s->fn(0xff800001, 0), NAN_);
        assert_int_equal(s->fn(0x7fffffff, SG_NUM_FTZ), NAN_);
    }
}

static void test_approx__results_are_flushed_too(void **state)
{
    (void)state;
    const uint32_t low = 0xc3000000, big = 0x7f000001; /* -128; above 2^127 */
    assert_int_equal(sg_f32_ex2_approx(low, SG_NUM_FTZ), 0);
    assert_int_equal(sg_f32_ex2_approx(low, 0), 0x00200000);
    assert_int_equal(sg_f32_rcp_approx(big | NEG, SG_NUM_FTZ), NEG);
    assert_int_equal(sg_f32_rcp_approx(0x7f000000, 0), 0x00400000);
    assert_int_equal(sg_f32_div_full(0x00800000, 0x40000000, SG_NUM_FTZ), 0);
    assert_int_equal(sg_f32_div_full(0x00800000, 0x40000000, 0), 0x00400000);
    assert_int_equal(sg_bf16_ex2_approx_ftz(0xc300), 0);
}

static void test_approx__division_by_huge_numbers_gives_zero_or_nan(void **state)
{
    (void)state;
    assert_int_equal(sg_f32_div_approx(ONE, 0x7e800001, 0), 0);
    assert_int_equal(sg_f32_div_approx(ONE | NEG, 0x7f7fffff, 0), NEG);
    assert_int_equal(sg_f32_div_approx(INF, 0x7f000000, 0), NAN_);
    assert_int_equal(sg_f32_div_approx(0x7e800000, 0x7e800000, 0), ONE); /* 2^126 is in range */
    assert_int_equal(sg_f32_div_approx(ONE, 0, 0), INF);
    assert_int_equal(sg_f32_div_approx(0, 0, 0), NAN_);
    assert_int_equal(sg_f32_div_full(0x7f000000, 0x7f000000, 0), ONE);
}

static void test_approx__f64_forms_have_an_empty_lower_word(void **state)
{
    const uint64_t nan = 0x7fffffff00000000, inf = 0x7ff0000000000000, neg = UINT64_C(1) << 63;
    struct ref_rng rng = {61};
    (void)state;
    for (uint64_t i = 0; i < ref_count(10); i++) {
        uint64_t a = ref_input(&rng, &ref_f64);
        assert_int_equal((uint32_t)sg_f64_rcp_approx_ftz(a), 0);
        assert_int_equal((uint32_t)sg_f64_rsqrt_approx_ftz(a), 0);
    }
    assert_true(sg_f64_rcp_approx_ftz(0xfff0000000000001) ==
                nan); /* its upper word says infinity */
    assert_true(sg_f64_rcp_approx_ftz(inf) == 0 && sg_f64_rcp_approx_ftz(inf | neg) == neg);
    assert_true(sg_f64_rcp_approx_ftz(1) == inf && sg_f64_rcp_approx_ftz(1 | neg) == (inf | neg));
    assert_true(sg_f64_rcp_approx_ftz(0x7fe0000100000000) == 0); /* a subnormal result */
    assert_true(sg_f64_rcp_approx_ftz(0x4000000000000000) == 0x3fe0000000000000);
    assert_true(sg_f64_rsqrt_approx_ftz(0xbff0000000000000) == nan);
    assert_true(sg_f64_rsqrt_approx_ftz(neg | 5) == (inf | neg));
    assert_true(sg_f64_rsqrt_approx_ftz(0x4010000000000000) == 0x3fe0000000000000);
    assert_true(sg_f64_rsqrt_approx(0) == inf && sg_f64_rsqrt_approx(neg) == (inf | neg));
    assert_true(sg_f64_rsqrt_approx(inf) == 0);
    assert_true(sg_f64_rsqrt_approx(neg | inf) == SG_F64_NAN);
    assert_true(sg_f64_rsqrt_approx(0x7ff0000000000001) == 0x7ff8000000000001);
}

static void test_approx__halves_handle_every_operand(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t e = sg_f16_ex2_approx((uint16_t)h), t = sg_f16_tanh_approx((uint16_t)h);
        uint16_t be = sg_bf16_ex2_approx_ftz((uint16_t)h), bt = sg_bf16_tanh_approx((uint16_t)h);
        if (ref_is_nan(&ref_f16, h)) {
            assert_int_equal(e, 0x7fff);
            assert_int_equal(t, 0x7fff);
        } else {
            double x = ref_value(&ref_f16, h);
            assert_int_equal(e, sg_f16_from_f64(sg_f64_bits(exp2(x))));
            assert_int_equal(
                t, ref_is_subnormal(&ref_f16, h) ? h : sg_f16_from_f64(sg_f64_bits(tanh(x))));
        }
        if (ref_is_nan(&ref_bf16, h)) {
            assert_int_equal(be, 0x7fff);
            assert_int_equal(bt, 0x7fff);
        } else {
            double x = ref_value(&ref_bf16, h);
            assert_int_equal(be, ref_flush(&ref_bf16, sg_bf16_from_f64(sg_f64_bits(exp2(x)))));
            assert_int_equal(bt, sg_bf16_from_f64(sg_f64_bits(tanh(x))));
        }
    }
}

static void test_approx__bits_are_the_same_everywhere(void **state)
{
    struct ref_rng rng = {71};
    uint64_t h = 1469598103934665603u;
    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint32_t a = (uint32_t)ref_input(&rng, &ref_f32);
        const uint32_t r[] = {sg_f32_ex2_approx(a, 0),   sg_f32_lg2_approx(a, 0),
                              sg_f32_sin_approx(a, 0),   sg_f32_cos_approx(a, 0),
                              sg_f32_tanh_approx(a),     sg_f32_rcp_approx(a, 0),
                              sg_f32_rsqrt_approx(a, 0), sg_f32_sqrt_approx(a, 0)};
        for (size_t k = 0; k < TB_ARRAY_LEN(r); k++)
            h = (h ^ r[k]) * 1099511628211u;
    }
    if (h != UINT64_C(0x85ee88890b93fa67))
        fail_msg("digest of the results is %llx", (unsigned long long)h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_approx__errors_stay_below_the_bounds),
        cmocka_unit_test(test_approx__special_cases_are_the_isa_tables),
        cmocka_unit_test(test_approx__results_are_flushed_too),
        cmocka_unit_test(test_approx__division_by_huge_numbers_gives_zero_or_nan),
        cmocka_unit_test(test_approx__f64_forms_have_an_empty_lower_word),
        cmocka_unit_test(test_approx__halves_handle_every_operand),
        cmocka_unit_test(test_approx__bits_are_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, ref_start, NULL);
}
