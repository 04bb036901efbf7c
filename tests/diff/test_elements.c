/* Elements of two buffers: counts, places, bits and ULP distances, by type */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "diff/diff.h"

static struct tb_elements compare(enum tb_dtype dt, const void *a, const void *b, uint64_t bytes)
{
    struct tb_elements e;
    struct tb_error err = {0};

    assert_int_equal(tb_elements_compare(dt, NULL, 0, a, b, bytes, &e, &err), TB_OK);
    return e;
}

static uint64_t ulp_f32(float a, float b)
{
    return compare(TB_DT_F32, &a, &b, 4).ulp;
}

static void test_elements__equal_buffers(void **state)
{
    float a[64] = {1, 2, 3};
    struct tb_elements e = compare(TB_DT_F32, a, a, sizeof(a));

    (void)state;
    assert_int_equal(e.count, 64);
    assert_int_equal(e.differ, 0);
    assert_int_equal(e.bits_all, 0);
    assert_int_equal(compare(TB_DT_F32, NULL, NULL, 0).count, 0);
}

static void test_elements__first_index_and_mask(void **state)
{
    static const int64_t sizes[] = {2, 3, 4};
    float a[24], b[24];
    struct tb_elements e;
    struct tb_error err = {0};
    char text[64];

    (void)state;
    for (int i = 0; i < 24; i++)
        a[i] = b[i] = 1.0f + (float)i;
    b[17] = nextafterf(b[17], 100.0f);
    b[20] = -b[20];
    assert_int_equal(tb_elements_compare(TB_DT_F32, sizes, 3, a, b, sizeof(a), &e, &err), TB_OK);
    assert_int_equal(e.differ, 2);
    assert_int_equal(e.first, 17);
    assert_int_equal(e.ndim, 3);
    assert_int_equal(e.index[0], 1);
    assert_int_equal(e.index[1], 1);
    assert_int_equal(e.index[2], 1);
    assert_int_equal(e.ulp, 1);
    assert_string_equal(tb_element_hex(TB_DT_F32, e.a, text, sizeof(text)), "0x41900000");
    assert_string_equal(tb_element_hex(TB_DT_F32, e.b, text, sizeof(text)), "0x41900001");
    assert_string_equal(tb_element_hex(TB_DT_F32, e.mask, text, sizeof(text)), "0x00000001");
    assert_string_equal(tb_element_text(TB_DT_F32, e.b, text, sizeof(text)), "18.0000019");
    assert_int_equal(e.bits, 1);
    assert_int_equal(e.bits_all, 2);
    assert_int_equal(e.histogram[1], 1); /* 1 ULP */
    assert_true(e.max_abs == 42.0);
}

static void test_elements__ulp_distance(void **state)
{
    (void)state;
    assert_int_equal(ulp_f32(1.0f, 1.0f + FLT_EPSILON), 1);
    assert_int_equal(ulp_f32(1.0f, 2.0f), 1 << 23);
    assert_int_equal(ulp_f32(0.0f, -0.0f), 0); /* other bits, the same number */
    assert_int_equal(ulp_f32(FLT_TRUE_MIN, -FLT_TRUE_MIN), 2);
    assert_int_equal(ulp_f32(FLT_MAX, INFINITY), 1);
    assert_int_equal(ulp_f32(-INFINITY, INFINITY), 2 * 0x7F800000ull);
    double x = 1.0, y = -1.0;
    assert_true(compare(TB_DT_F64, &x, &y, 8).ulp == 2 * 0x3FF0000000000000ull);
}

static void test_elements__zeros_of_both_signs_are_counted(void **state)
{
    float a = 0.0f, b = -0.0f;
    struct tb_elements e = compare(TB_DT_F32, &a, &b, 4);

    (void)state;
    assert_int_equal(e.differ, 1);
    assert_int_equal(e.histogram[0], 1);
    assert_int_equal(e.bits, 1);
}

static void test_elements__nan(void **state)
{
    uint32_t a[4] = {0x7FC00000, 0x7FC00000, 0x3F800000, 0x7FC00000};
    uint32_t b[4] = {0x7FC00000, 0x7FC00001, 0x7FC00000, 0x3F800000};
    struct tb_elements e = compare(TB_DT_F32, a, b, sizeof(a));

    (void)state;
    assert_int_equal(e.differ, 3); /* the same payload is the same */
    assert_int_equal(e.nan_a, 3);
    assert_int_equal(e.nan_b, 3);
    assert_int_equal(e.nan_bits, 1);
    assert_true(e.ulp == UINT64_MAX);
    assert_int_equal(e.ulp_max, 0);
    assert_int_equal(e.histogram[TB_ULP_BINS - 1], 3);
    assert_true(e.max_abs == 0.0);
}

static void test_elements__narrow_types(void **state)
{
    static const struct {
        enum tb_dtype dt;
        uint16_t one, next; /* 1.0 and its neighbour */
        uint8_t size;
    } cases[] = {{TB_DT_F16, 0x3C00, 0x3C01, 2},
                 {TB_DT_BF16, 0x3F80, 0x3F81, 2},
                 {TB_DT_F8E4M3, 0x38, 0x39, 1},
                 {TB_DT_F8E5M2, 0x3C, 0x3D, 1}};
    char text[32];

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        struct tb_elements e = compare(cases[i].dt, &cases[i].one, &cases[i].next, cases[i].size);
        assert_int_equal(e.ulp, 1);
        assert_string_equal(tb_element_text(cases[i].dt, e.a, text, sizeof(text)), "1");
    }
    uint8_t nan = 0x7F, big = 0x7E; /* e4m3fn: no infinity, one NaN of each sign */
    assert_int_equal(compare(TB_DT_F8E4M3, &nan, &big, 1).nan_a, 1);
    assert_int_equal(compare(TB_DT_F8E4M3, &nan, &big, 1).nan_b, 0);
}

static void test_elements__integers_and_bool(void **state)
{
    int64_t a = INT64_MIN, b = INT64_MAX;
    uint8_t f = 0, t = 1;
    int8_t m = -1, z = 0;
    uint64_t big = UINT64_MAX, none = 0;
    char text[32];

    (void)state;
    assert_true(compare(TB_DT_I64, &a, &b, 8).ulp == UINT64_MAX);
    assert_int_equal(compare(TB_DT_BOOL, &f, &t, 1).ulp, 1);
    assert_int_equal(compare(TB_DT_I8, &m, &z, 1).ulp, 1);
    assert_true(compare(TB_DT_U64, &big, &none, 8).ulp == UINT64_MAX);
    assert_string_equal(tb_element_text(TB_DT_I8, &m, text, sizeof(text)), "-1");
    assert_string_equal(tb_element_text(TB_DT_U64, &big, text, sizeof(text)),
                        "18446744073709551615");
}

static void test_elements__complex_has_two_numbers(void **state)
{
    float a[4] = {1, 2, 3, 4}, b[4] = {1, 2, 3, 4};
    char text[64];

    (void)state;
    b[3] = nextafterf(4.0f, 5.0f);
    struct tb_elements e = compare(TB_DT_C64, a, b, sizeof(a));
    assert_int_equal(e.count, 2);
    assert_int_equal(e.differ, 1);
    assert_int_equal(e.first, 1);
    assert_int_equal(e.ulp, 1);
    assert_string_equal(tb_element_text(TB_DT_C64, e.a, text, sizeof(text)), "3,4");
    assert_string_equal(tb_element_hex(TB_DT_C64, e.a, text, sizeof(text)),
                        "0x40400000,0x40800000");
}

static void test_elements__every_single_bit(void **state)
{
    (void)state;
    for (int dt = 1; dt < TB_DT_COUNT; dt++) {
        unsigned size = tb_dtype_size((enum tb_dtype)dt);
        for (unsigned bit = 0; bit < 8 * size; bit++) {
            uint8_t a[48] = {0}, b[48] = {0};
            for (unsigned i = 0; i < 3 * size; i++)
                a[i] = b[i] = (uint8_t)(37 * i + (unsigned)dt);
            b[size + bit / 8] ^= (uint8_t)(1u << bit % 8);
            struct tb_elements e = compare((enum tb_dtype)dt, a, b, 3 * size);
            assert_int_equal(e.differ, 1);
            assert_int_equal(e.first, 1);
            assert_int_equal(e.bits, 1);
            assert_int_equal(e.bits_all, 1);
            assert_int_equal(e.mask[bit / 8], 1u << bit % 8);
        }
    }
}

static void test_elements__refuses_what_it_cannot_compare(void **state)
{
    struct tb_elements e;
    struct tb_error err = {0};
    uint8_t a[8] = {0};

    (void)state;
    assert_int_equal(tb_elements_compare(TB_DT_UNKNOWN, NULL, 0, a, a, 8, &e, &err), TB_ERR_ARG);
    assert_int_equal(tb_elements_compare(TB_DT_F32, NULL, 0, a, a, 7, &e, &err), TB_ERR_ARG);
    assert_int_equal(tb_elements_compare(TB_DT_F32, NULL, -1, a, a, 8, &e, &err), TB_ERR_ARG);
    assert_int_equal(tb_elements_compare((enum tb_dtype)99, NULL, 0, a, a, 8, &e, NULL),
                     TB_ERR_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements__equal_buffers),
        cmocka_unit_test(test_elements__first_index_and_mask),
        cmocka_unit_test(test_elements__ulp_distance),
        cmocka_unit_test(test_elements__zeros_of_both_signs_are_counted),
        cmocka_unit_test(test_elements__nan),
        cmocka_unit_test(test_elements__narrow_types),
        cmocka_unit_test(test_elements__integers_and_bool),
        cmocka_unit_test(test_elements__complex_has_two_numbers),
        cmocka_unit_test(test_elements__every_single_bit),
        cmocka_unit_test(test_elements__refuses_what_it_cannot_compare),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
