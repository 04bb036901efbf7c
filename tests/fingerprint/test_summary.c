/* Element types and the numeric summary, against tables and a naive reference. */
#include "tests/fingerprint/fp_test.h"

#include <math.h>

/* ---- the value of an element, the slow way: sign * mantissa * 2^exponent with ldexp ---- */

static double slow_float(uint64_t bits, int e, int m, bool has_inf)
{
    uint64_t mant = bits & ((1ull << m) - 1);
    int exp = (int)(bits >> m & ((1ull << e) - 1));
    int bias = (1 << (e - 1)) - 1;
    double sign = bits >> (e + m) & 1 ? -1.0 : 1.0;

    if (has_inf && exp == (1 << e) - 1)
        return mant ? NAN : sign * INFINITY;
    if (!has_inf && exp == (1 << e) - 1 && mant == (1ull << m) - 1)
        return NAN;
    if (exp == 0)
        return sign * ldexp((double)mant, 1 - bias - m);
    return sign * ldexp((double)(mant | 1ull << m), exp - bias - m);
}

struct format {
    enum tb_dtype dt, complex;
    int e, m;
    bool has_inf;
};

static const struct format formats[] = {
    {TB_DT_F64, TB_DT_C128, 11, 52, true},      {TB_DT_F32, TB_DT_C64, 8, 23, true},
    {TB_DT_F16, TB_DT_C32, 5, 10, true},        {TB_DT_BF16, TB_DT_UNKNOWN, 8, 7, true},
    {TB_DT_F8E4M3, TB_DT_UNKNOWN, 4, 3, false}, {TB_DT_F8E5M2, TB_DT_UNKNOWN, 5, 2, true},
};

static void assert_same_double(double got, double want)
{
    if (isnan(want))
        assert_true(isnan(got));
    else
        assert_true(got == want && signbit(got) == signbit(want));
}

static void test_to_double__every_pattern_of_small_floats(void **state)
{
    (void)state;
    for (size_t k = 2; k < TB_ARRAY_LEN(formats); k++) {
        const struct format *f = &formats[k];

        for (uint32_t bits = 0; bits < 1u << (8 * tb_dtype_size(f->dt)); bits++)
            assert_same_double(tb_dtype_to_double(f->dt, &bits),
                               slow_float(bits, f->e, f->m, f->has_inf));
    }
}

static void test_to_double__wide_floats_and_integers(void **state)
{
    struct rng r = {51};

    (void)state;
    for (int k = 0; k < 100000; k++) {
        uint64_t x[2] = {rng_next(&r), 0x7FF8000000000000u};

        assert_same_double(tb_dtype_to_double(TB_DT_F64, x), slow_float(x[0], 11, 52, true));
        assert_same_double(tb_dtype_to_double(TB_DT_C128, x), slow_float(x[0], 11, 52, true));
        assert_same_double(tb_dtype_to_double(TB_DT_F32, x),
                           slow_float(x[0] & UINT32_MAX, 8, 23, true));
        assert_same_double(tb_dtype_to_double(TB_DT_C64, x),
                           slow_float(x[0] & UINT32_MAX, 8, 23, true));
        assert_same_double(tb_dtype_to_double(TB_DT_C32, x),
                           slow_float(x[0] & 0xFFFF, 5, 10, true));
        assert_true(tb_dtype_to_double(TB_DT_U8, x) == (double)(x[0] & 0xFF));
        assert_true(tb_dtype_to_double(TB_DT_U16, x) == (double)(x[0] & 0xFFFF));
        assert_true(tb_dtype_to_double(TB_DT_U32, x) == (double)(x[0] & UINT32_MAX));
        assert_true(tb_dtype_to_double(TB_DT_U64, x) == (double)x[0]);
        assert_true(tb_dtype_to_double(TB_DT_I8, x) == (double)(int8_t)x[0]);
        assert_true(tb_dtype_to_double(TB_DT_I16, x) == (double)(int16_t)x[0]);
        assert_true(tb_dtype_to_double(TB_DT_I32, x) == (double)(int32_t)x[0]);
        assert_true(tb_dtype_to_double(TB_DT_I64, x) == (double)(int64_t)x[0]);
        assert_true(tb_dtype_to_double(TB_DT_BOOL, x) == ((x[0] & 0xFF) != 0));
        assert_true(tb_dtype_to_double(TB_DT_UNKNOWN, x) == 0);
    }
}

static void test_names__go_both_ways(void **state)
{
    static const struct {
        enum tb_dtype dt;
        const char *name;
        unsigned size;
    } want[] = {
        {TB_DT_U8, "u8", 1},      {TB_DT_I8, "i8", 1},         {TB_DT_I16, "i16", 2},
        {TB_DT_I32, "i32", 4},    {TB_DT_I64, "i64", 8},       {TB_DT_F16, "f16", 2},
        {TB_DT_F32, "f32", 4},    {TB_DT_F64, "f64", 8},       {TB_DT_BF16, "bf16", 2},
        {TB_DT_BOOL, "bool", 1},  {TB_DT_C32, "c32", 4},       {TB_DT_C64, "c64", 8},
        {TB_DT_C128, "c128", 16}, {TB_DT_F8E4M3, "f8e4m3", 1}, {TB_DT_F8E5M2, "f8e5m2", 1},
        {TB_DT_U16, "u16", 2},    {TB_DT_U32, "u32", 4},       {TB_DT_U64, "u64", 8},
    };

    (void)state;
    assert_int_equal(TB_ARRAY_LEN(want), TB_DT_COUNT - 1);
    for (size_t k = 0; k < TB_ARRAY_LEN(want); k++) {
        assert_string_equal(tb_dtype_name(want[k].dt), want[k].name);
        assert_int_equal(tb_dtype_size(want[k].dt), want[k].size);
        assert_int_equal(tb_dtype_from_name(want[k].name, strlen(want[k].name)), want[k].dt);
        assert_int_equal(tb_dtype_from_name(want[k].name, strlen(want[k].name) - 1), TB_DT_UNKNOWN);
    }
    assert_string_equal(tb_dtype_name(TB_DT_UNKNOWN), "?");
    assert_string_equal(tb_dtype_name(TB_DT_COUNT), "?");
    assert_int_equal(tb_dtype_size(TB_DT_UNKNOWN), 0);
    assert_int_equal(tb_dtype_size((enum tb_dtype)200), 0);
    assert_int_equal(tb_dtype_from_name("?", 1), TB_DT_UNKNOWN);
    assert_int_equal(tb_dtype_from_name("", 0), TB_DT_UNKNOWN);
}

/* ---- summary ---- */

/* One number more, its class told by the C library or by the caller. */
static void naive_add(struct tb_summary *s, long double *sum, double x, bool subnormal)
{
    s->count++;
    s->nan += isnan(x);
    s->inf += isinf(x) != 0;
    if (!isfinite(x))
        return;
    uint64_t finite = s->count - s->nan - s->inf;

    s->zero += x == 0;
    s->subnormal += subnormal;
    s->min = finite == 1 || x < s->min ? x : s->min;
    s->max = finite == 1 || x > s->max ? x : s->max;
    s->absmax = fabs(x) > s->absmax ? fabs(x) : s->absmax;
    *sum += x;
}

static void assert_summary(const struct tb_summary *got, struct tb_summary *want, long double sum)
{
    uint64_t finite = want->count - want->nan - want->inf;
    double mean = finite ? (double)(sum / (long double)finite) : 0;

    assert_int_equal(got->count, want->count);
    assert_int_equal(got->nan, want->nan);
    assert_int_equal(got->inf, want->inf);
    assert_int_equal(got->zero, want->zero);
    assert_int_equal(got->subnormal, want->subnormal);
    assert_true(got->min == want->min);
    assert_true(got->max == want->max);
    assert_true(got->absmax == want->absmax);
    assert_true(fabs(got->mean - mean) <= 1e-12 * want->absmax + 1e-320);
}

static bool is_subnormal(const struct format *f, uint64_t bits)
{
    return (bits >> f->m & ((1ull << f->e) - 1)) == 0 && (bits & ((1ull << f->m) - 1)) != 0;
}

/* Patterns where special values are common. */
static uint64_t draw_bits(struct rng *r, const struct format *f)
{
    uint64_t mant = (1ull << f->m) - 1;
    uint64_t sign = rng_below(r, 2) << (f->e + f->m);
    uint64_t exp = ((1ull << f->e) - 1) << f->m;

    switch (rng_below(r, 16)) {
    case 0:
        return sign;
    case 1:
        return sign | exp;
    case 2:
        return sign | exp | mant;
    case 3:
        return sign | 1;
    case 4:
        return sign | mant;
    case 5:
        return sign | 1ull << f->m;
    case 6:
        return sign | (exp & exp << 1) | mant;
    default:
        return rng_next(r) & (sign | exp | mant | 1ull << (f->e + f->m));
    }
}

static void check_floats(const struct format *f, enum tb_dtype dt, size_t count, struct rng *r)
{
    unsigned size = tb_dtype_size(f->dt);
    unsigned parts = tb_dtype_size(dt) / size;
    uint8_t *p = must_alloc(count * parts * size + 1);
    struct tb_summary want = {0};
    struct tb_summary got;
    long double sum = 0;

    for (size_t k = 0; k < count * parts; k++) {
        uint64_t bits = draw_bits(r, f);

        memcpy(p + 1 + k * size, &bits, size);
        naive_add(&want, &sum, slow_float(bits, f->e, f->m, f->has_inf), is_subnormal(f, bits));
    }
    assert_int_equal(tb_summarize(p + 1, dt, count, &got), TB_OK);
    assert_summary(&got, &want, sum);
    free(p);
}

static void test_summary__floats_and_complex(void **state)
{
    struct rng r = {52};

    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(formats); k++)
        for (size_t count = 0; count < 200; count++) {
            check_floats(&formats[k], formats[k].dt, count * count / 8, &r);
            if (formats[k].complex != TB_DT_UNKNOWN)
                check_floats(&formats[k], formats[k].complex, count * count / 16, &r);
        }
}

static void test_summary__integers_and_bool(void **state)
{
    static const enum tb_dtype types[] = {TB_DT_U8,  TB_DT_I8,  TB_DT_I16, TB_DT_I32, TB_DT_I64,
                                          TB_DT_U16, TB_DT_U32, TB_DT_U64, TB_DT_BOOL};
    struct rng r = {53};

    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(types); k++)
        for (size_t count = 0; count < 3000; count += 1 + count / 3) {
            unsigned size = tb_dtype_size(types[k]);
            uint8_t *p = must_alloc(count * size);
            struct tb_summary want = {0};
            struct tb_summary got;
            long double sum = 0;

            rng_fill(&r, p, count * size);
            if (count > 5)
                memset(p + size, 0, 3 * (size_t)size);
            for (size_t e = 0; e < count; e++)
                naive_add(&want, &sum, tb_dtype_to_double(types[k], p + e * size), false);
            assert_int_equal(tb_summarize(p, types[k], count, &got), TB_OK);
            assert_summary(&got, &want, sum);
            free(p);
        }
}

static void test_summary__finite_doubles_may_sum_past_the_largest(void **state)
{
    double x[] = {1.7e308, 1.7e308, 1.7e308, 1.0e308};
    struct tb_summary s;

    (void)state;
    assert_int_equal(tb_summarize(x, TB_DT_F64, 4, &s), TB_OK);
    assert_true(fabs(s.mean - 1.525e308) < 1e293);
}

static void test_summary__nothing_finite(void **state)
{
    float x[] = {NAN, INFINITY, -INFINITY, NAN};
    struct tb_summary s;

    (void)state;
    assert_int_equal(tb_summarize(x, TB_DT_F32, 4, &s), TB_OK);
    assert_int_equal(s.nan, 2);
    assert_int_equal(s.inf, 2);
    assert_true(s.min == 0 && s.max == 0 && s.absmax == 0 && s.mean == 0);
    assert_int_equal(tb_summarize(NULL, TB_DT_F32, 0, &s), TB_OK);
    assert_int_equal(s.count, 0);
    assert_true(s.min == 0 && s.max == 0 && s.absmax == 0 && s.mean == 0);
}

static void test_summary__misuse_changes_nothing(void **state)
{
    struct tb_summary s = {.count = 77};
    float x = 1;

    (void)state;
    assert_int_equal(tb_summarize(&x, TB_DT_UNKNOWN, 1, &s), TB_ERR_ARG);
    assert_int_equal(tb_summarize(&x, TB_DT_COUNT, 1, &s), TB_ERR_ARG);
    assert_int_equal(tb_summarize(NULL, TB_DT_F32, 1, &s), TB_ERR_ARG);
    assert_int_equal(s.count, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_double__every_pattern_of_small_floats),
        cmocka_unit_test(test_to_double__wide_floats_and_integers),
        cmocka_unit_test(test_names__go_both_ways),
        cmocka_unit_test(test_summary__floats_and_complex),
        cmocka_unit_test(test_summary__integers_and_bool),
        cmocka_unit_test(test_summary__finite_doubles_may_sum_past_the_largest),
        cmocka_unit_test(test_summary__nothing_finite),
        cmocka_unit_test(test_summary__misuse_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
