/* Integer instructions against the ISA's pseudo-code, bit by bit, edge cases first. */
#include "ref.h"

static const uint32_t edges[] = {
    0,          1,          2,          7,          31,         32,         33,         63,
    64,         65,         127,        255,        256,        0x7fff,     0x8000,     0xffff,
    0x10000,    0x7fffff,   0x800000,   0xffffff,   0x1000000,  0x7fffffff, 0x80000000, 0x80000001,
    0xfffffffe, 0xffffffff, 0x55555555, 0xaaaaaaaa, 0x00ff00ff, 0x80808080};

/* calls @body with a, b, c: all edges against all, then seeded numbers */
#define FOR_INPUTS(...)                                                                            \
    do {                                                                                           \
        const uint32_t ne = TB_ARRAY_LEN(edges);                                                   \
        struct ref_rng rng = {11};                                                                 \
        for (uint32_t i_ = 0; i_ < ne * ne * ne + (uint32_t)ref_count(5); i_++) {                  \
            bool e_ = i_ < ne * ne * ne;                                                           \
            uint32_t a = e_ ? edges[i_ % ne] : (uint32_t)ref_int_input(&rng);                      \
            uint32_t b = e_ ? edges[i_ / ne % ne] : (uint32_t)ref_int_input(&rng);                 \
            uint32_t c = e_ ? edges[i_ / ne / ne] : (uint32_t)ref_int_input(&rng);                 \
            (void)c;                                                                               \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

static int64_t s32(uint32_t v)
{
    return v < 0x80000000u ? (int64_t)v : (int64_t)v - 0x100000000;
}

static uint32_t clamp32(int64_t v)
{
    return (uint32_t)(v > 0x7fffffff ? 0x7fffffff : v < -0x80000000ll ? -0x80000000ll : v);
}

static void test_int__sums_saturate(void **state)
{
    (void)state;
    FOR_INPUTS({
        assert_int_equal(sg_add_sat_s32(a, b), clamp32(s32(a) + s32(b)));
        assert_int_equal(sg_sub_sat_s32(a, b), clamp32(s32(a) - s32(b)));
        int64_t hi =
            (s32(a) * s32(b) - (int64_t)((uint64_t)(s32(a) * s32(b)) & 0xffffffff)) / 0x100000000ll;
        assert_int_equal(sg_madhi_sat_s32(a, b, c), clamp32(hi + s32(c)));
    });
}

/* 32x32 from four 16x16 products */
static uint64_t product(uint32_t a, uint32_t b)
{
    uint64_t al = a & 0xffff, ah = a >> 16, bl = b & 0xffff, bh = b >> 16;
    return al * bl + ((al * bh + ah * bl) << 16) + ((ah * bh) << 32) +
           (((al * bh + ah * bl) >> 48) << 32);
}

static void test_int__products_have_high_halves(void **state)
{
    (void)state;
    FOR_INPUTS({
        uint64_t p = product(a, b);
        assert_int_equal(sg_mulhi_u32(a, b), p >> 32);
        assert_int_equal(sg_mulhi_s32(a, b),
                         (uint32_t)((p >> 32) - (s32(a) < 0 ? b : 0) - (s32(b) < 0 ? a : 0)));
        uint16_t x = (uint16_t)a, y = (uint16_t)b;
        assert_int_equal(sg_mulhi_u16(x, y), (product(x, y) >> 16) & 0xffff);
        assert_int_equal(
            sg_mulhi_s16(x, y),
            (uint16_t)((product(x, y) >> 16) - (x & 0x8000 ? y : 0) - (y & 0x8000 ? x : 0)));

        uint64_t u = (uint64_t)a << 32 | c, v = (uint64_t)b << 32 | (a ^ c);
        uint64_t mid = (u >> 32) * (v & 0xffffffff), mid2 = (u & 0xffffffff) * (v >> 32);
        uint64_t lo = (u & 0xffffffff) * (v & 0xffffffff);
        uint64_t carry = (mid & 0xffffffff) + (mid2 & 0xffffffff) + (lo >> 32);
        uint64_t hi = (u >> 32) * (v >> 32) + (mid >> 32) + (mid2 >> 32) + (carry >> 32);
        assert_true(sg_mulhi_u64(u, v) == hi);
        assert_true(sg_mulhi_s64(u, v) == hi - (u >> 63 ? v : 0) - (v >> 63 ? u : 0));

        uint64_t p24 = product(a & 0xffffff, b & 0xffffff);
        assert_true(sg_mul24_u32(a, b) == p24);
        int64_t a24 = (int64_t)(a & 0xffffff) - (a & 0x800000 ? 0x1000000 : 0);
        int64_t b24 = (int64_t)(b & 0xffffff) - (b & 0x800000 ? 0x1000000 : 0);
        assert_true(sg_mul24_s32(a, b) == (uint64_t)(a24 * b24));
        assert_int_equal(sg_mad24hi_sat_s32(a, b, c),
                         clamp32(s32((uint32_t)((uint64_t)(a24 * b24) >> 16)) + s32(c)));
    });
}

static void test_int__quotients_are_total(void **state)
{
    (void)state;
    FOR_INPUTS({
        assert_int_equal(sg_div_u32(a, b), b ? a / b : UINT32_MAX);
        assert_int_equal(sg_rem_u32(a, b), b ? a - a / b * b : a);
        int64_t q = b ? s32(a) / s32(b) : -1;
        assert_int_equal(sg_div_s32(a, b), (uint32_t)q);
        assert_int_equal(sg_rem_s32(a, b), b ? (uint32_t)(s32(a) - q * s32(b)) : a);
        assert_int_equal(sg_abs_s32(a), (uint32_t)(s32(a) < 0 ? -s32(a) : s32(a)));
        assert_int_equal(sg_sad_u32(a, b, c), c + (a > b ? a - b : b - a));
        int64_t d = s32(a) - s32(b);
        assert_int_equal(sg_sad_s32(a, b, c), (uint32_t)(c + (uint64_t)(d < 0 ? -d : d)));
        uint16_t x = (uint16_t)a, y = (uint16_t)b;
        int sx = x < 0x8000 ? x : x - 0x10000, sy = y < 0x8000 ? y : y - 0x10000;
        assert_int_equal(sg_div_u16(x, y), y ? x / y : 0xffff);
        assert_int_equal(sg_div_s16(x, y), (uint16_t)(y ? sx / sy : -1));
        assert_int_equal(sg_rem_s16(x, y), (uint16_t)(y ? sx % sy : sx));
        assert_int_equal(sg_sad_s16(x, y, 5), (uint16_t)(5 + (sx > sy ? sx - sy : sy - sx)));
    });
    const uint64_t min = UINT64_C(1) << 63, m1 = UINT64_MAX;
    assert_true(sg_div_s64(min, m1) == min && sg_rem_s64(min, m1) == 0);
    assert_true(sg_div_s64(7, 0) == m1 && sg_rem_s64(7, 0) == 7 && sg_div_u64(7, 0) == m1);
    assert_true(sg_div_s64(0 - UINT64_C(7), 2) == 0 - UINT64_C(3));
    assert_true(sg_rem_s64(0 - UINT64_C(7), 2) == m1 && sg_rem_u64(7, 4) == 3);
    assert_true(sg_abs_s64(min) == min && sg_sad_u64(1, 3, 4) == 6);
}

static void test_int__shifts_take_any_count(void **state)
{
    (void)state;
    FOR_INPUTS({
        uint32_t n = b > 32 ? 32 : b;
        uint32_t l = a;
        uint32_t r = a;
        uint32_t s = a;
        for (uint32_t i = 0; i < n; i++) {
            l += l;
            r /= 2;
            s = s / 2 | (s & 0x80000000);
        }
        assert_int_equal(sg_shl_b32(a, b), l);
        assert_int_equal(sg_shr_u32(a, b), r);
        assert_int_equal(sg_shr_s32(a, b), s);
        uint64_t v = (uint64_t)c << 32 | a;
        assert_true(sg_shl_b64(v, b) == (b > 63 ? 0 : v << b));
        assert_true(sg_shr_u64(v, b) == (b > 63 ? 0 : v >> b));
        assert_true(
            sg_shr_s64(v, b) ==
            (b > 63 ? 0 - (v >> 63) : v >> b | (b && v >> 63 ? ~UINT64_C(0) << (64 - b) : 0)));
        uint16_t h = (uint16_t)a;
        assert_int_equal(sg_shl_b16(h, b), b > 15 ? 0 : (uint16_t)(h << b));
        assert_int_equal(sg_shr_u16(h, b), b > 15 ? 0 : h >> b);
        assert_int_equal(sg_shr_s16(h, b),
                         (uint16_t)((h & 0x8000 ? 0xffff0000u | h : h) >> (b > 15 ? 16 : b)));

        for (int wrap = 0; wrap < 2; wrap++) {
            uint32_t k = wrap ? c & 31 : c > 32 ? 32 : c;
            uint32_t left = k == 0 ? b : k == 32 ? a : b << k | a >> (32 - k);
            uint32_t right = k == 0 ? a : k == 32 ? b : b << (32 - k) | a >> k;
            assert_int_equal(sg_shf_l(a, b, c, wrap), left);
            assert_int_equal(sg_shf_r(a, b, c, wrap), right);
        }
    });
}

static uint64_t bfe(uint64_t a, uint32_t pos, uint32_t len, int bits, bool is_signed)
{
    uint32_t msb = (uint32_t)bits - 1;
    uint64_t d = 0, sbit = 0;
    pos &= 255;
    len &= 255;
    if (is_signed && len != 0)
        sbit = a >> (pos + len - 1 < msb ? pos + len - 1 : msb) & 1;
    for (uint32_t i = 0; i <= msb; i++)
        d |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : sbit) << i;
    return d;
}

static uint64_t bfi(uint64_t a, uint64_t b, uint32_t pos, uint32_t len, int bits)
{
    uint32_t msb = (uint32_t)bits - 1;
    uint64_t f = b;
    pos &= 255;
    len &= 255;
    for (uint32_t i = 0; i < len && pos + i <= msb; i++)
        f = (f & ~(UINT64_C(1) << (pos + i))) | (a >> i & 1) << (pos + i);
    return f;
}

static void test_int__bit_fields_match_the_pseudo_code(void **state)
{
    struct ref_rng rng = {12};
    (void)state;
    for (uint32_t pos = 0; pos < 258; pos += pos < 70 ? 1 : 31) {
        for (uint32_t len = 0; len < 258; len += len < 70 ? 1 : 31) {
            for (int i = 0; i < 4; i++) {
                uint64_t a = ref_int_input(&rng), b = ref_int_input(&rng);
                uint32_t x = (uint32_t)a, y = (uint32_t)b;
                assert_int_equal(sg_bfe_u32(x, pos, len), bfe(x, pos, len, 32, false));
                assert_int_equal(sg_bfe_s32(x, pos, len), bfe(x, pos, len, 32, true));
                assert_int_equal(sg_bfi_b32(x, y, pos, len), bfi(x, y, pos, len, 32));
                assert_true(sg_bfe_u64(a, pos, len) == bfe(a, pos, len, 64, false));
                assert_true(sg_bfe_s64(a, pos, len) == bfe(a, pos, len, 64, true));
                assert_true(sg_bfi_b64(a, b, pos, len) == bfi(a, b, pos, len, 64));
            }
        }
    }
}

static uint32_t find(uint64_t a, int bits, bool is_signed, bool shiftamt)
{
    int msb = bits - 1;
    if (is_signed && a >> msb & 1)
        a = ~a;
    for (int i = msb; i >= 0; i--)
        if (a >> i & 1)
            return (uint32_t)(shiftamt ? msb - i : i);
    return UINT32_MAX;
}

static uint32_t fns(uint32_t mask, uint32_t base, int32_t offset)
{
    if (offset == 0)
        return mask >> base & 1 ? base : UINT32_MAX;
    int64_t pos = base, inc = offset > 0 ? 1 : -1;
    int64_t count = (offset > 0 ? (int64_t)offset : -(int64_t)offset) - 1;
    for (; pos >= 0 && pos < 32; pos += inc)
        if (mask >> pos & 1 && count-- == 0)
            return (uint32_t)pos;
    return UINT32_MAX;
}

static void test_int__bits_are_counted_reversed_and_found(void **state)
{
    (void)state;
    FOR_INPUTS({
        uint32_t pop = 0;
        uint32_t rev = 0;
        uint32_t lead = 0;
        for (int i = 0; i < 32; i++) {
            pop += a >> i & 1;
            rev |= (a >> i & 1) << (31 - i);
            lead = a >> i & 1 ? 0 : lead + 1;
        }
        assert_int_equal(sg_popc32(a), pop);
        assert_int_equal(sg_brev32(a), rev);
        assert_int_equal(sg_clz32(a), lead);
        uint64_t v = (uint64_t)b << 32 | a;
        assert_int_equal(sg_popc64(v), sg_popc32(b) + pop);
        assert_true(sg_brev64(v) == ((uint64_t)rev << 32 | sg_brev32(b)));
        assert_int_equal(sg_clz64(v), b ? sg_clz32(b) : 32 + lead);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(sg_bfind32(a, k & 1, k & 2), find(a, 32, k & 1, k & 2));
            assert_int_equal(sg_bfind64(v, k & 1, k & 2), find(v, 64, k & 1, k & 2));
        }
        assert_int_equal(sg_fns(a, b & 31, (int32_t)c), fns(a, b & 31, (int32_t)c));
        assert_int_equal(sg_fns(a, b & 31, (int32_t)(c & 15) - 8),
                         fns(a, b & 31, (int32_t)(c & 15) - 8));
    });
    assert_int_equal(sg_fns(UINT32_MAX, 32, 1), UINT32_MAX);
}

static uint32_t szext(uint32_t a, uint32_t b, bool is_signed, bool wrap)
{
    uint32_t b1 = b & 0x1f;
    bool too_large = b >= 32 && !wrap;
    uint32_t mask = too_large ? 0 : UINT32_MAX << b1, sign_pos = (b1 - 1) & 0x1f;
    bool sign = !(b1 == 0 || too_large || !is_signed) && (a >> sign_pos & 1);
    return (a & ~mask) | (sign ? mask : 0);
}

static uint32_t bmsk(uint32_t a, uint32_t b, bool wrap)
{
    uint32_t a1 = a & 0x1f, b1 = b & 0x1f, sum = a1 + b1;
    uint32_t mask0 = UINT32_MAX << a1, mask1 = sum < 32 ? UINT32_MAX << sum : 0;
    bool sum_over = sum >= 32, pos_over = false, width_over = false;
    if (!wrap) {
        if (a >= 32) {
            pos_over = true;
            mask0 = 0;
        }
        width_over = b >= 32;
    }
    if (sum_over || pos_over || width_over)
        mask1 = 0;
    return mask0 & ~mask1;
}

static void test_int__masks_and_extensions_match_the_pseudo_code(void **state)
{
    (void)state;
    FOR_INPUTS({
        for (int k = 0; k < 4; k++) {
            assert_int_equal(sg_szext(a, b, k & 1, k & 2), szext(a, b, k & 1, k & 2));
            assert_int_equal(sg_bmsk(a, b, k & 1), bmsk(a, b, k & 1));
        }
    });
}

static void test_int__lop3_is_the_table_of_every_function(void **state)
{
    struct ref_rng rng = {13};
    (void)state;
    for (uint32_t lut = 0; lut < 256; lut++) {
        uint32_t a = (uint32_t)ref_next(&rng), b = (uint32_t)ref_next(&rng);
        uint32_t c = (uint32_t)ref_next(&rng), want = 0;
        for (int i = 0; i < 32; i++)
            want |= (lut >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i;
        assert_int_equal(sg_lop3(a, b, c, lut), want);
    }
    assert_int_equal(sg_lop3(0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0xe8), 0xe8e8e8e8);
}

static void test_int__prmt_selects_in_every_mode(void **state)
{
    const uint32_t a = 0x83828180, b = 0x07060504;
    static const struct {
        enum sg_prmt_mode mode;
        uint32_t c, want;
    } cases[] = {
        {SG_PRMT_DEFAULT, 0x3210, 0x83828180}, {SG_PRMT_DEFAULT, 0x7654, 0x07060504},
        {SG_PRMT_DEFAULT, 0x4081, 0x0480ff81}, {SG_PRMT_DEFAULT, 0xfc8b, 0x0000ffff},
        {SG_PRMT_F4E, 1, 0x04838281},          {SG_PRMT_F4E, 3, 0x06050483},
        {SG_PRMT_B4E, 0, 0x05060780},          {SG_PRMT_B4E, 2, 0x07808182},
        {SG_PRMT_RC8, 2, 0x82828282},          {SG_PRMT_ECL, 1, 0x83828181},
        {SG_PRMT_ECL, 3, 0x83838383},          {SG_PRMT_ECR, 0, 0x80808080},
        {SG_PRMT_ECR, 2, 0x82828180},          {SG_PRMT_RC16, 0, 0x81808180},
        {SG_PRMT_RC16, 3, 0x83828382},         {SG_PRMT_RC16, 7, 0x83828382},
    };
    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++)
        assert_int_equal(sg_prmt(a, b, sg_prmt_selector(cases[i].mode, cases[i].c)), cases[i].want);
}

static void test_int__prmt_modes_stand_for_their_formulas(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 4; c++) {
        uint32_t want[7] = {c};
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t byte[7] = {[SG_PRMT_F4E] = c + i,
                                      [SG_PRMT_B4E] = (c - i) & 7,
                                      [SG_PRMT_RC8] = c,
                                      [SG_PRMT_ECL] = i > c ? i : c,
                                      [SG_PRMT_ECR] = i < c ? i : c,
                                      [SG_PRMT_RC16] = (c & 1) * 2 + (i & 1)};
            for (int m = SG_PRMT_F4E; m <= SG_PRMT_RC16; m++)
                want[m] |= byte[m] << (4 * i);
        }
        for (int m = SG_PRMT_DEFAULT; m <= SG_PRMT_RC16; m++)
            assert_int_equal(sg_prmt_selector(m, c + (m == SG_PRMT_DEFAULT ? 0 : 12)), want[m]);
    }
}

static int64_t element(uint32_t v, int shift, int bits, bool is_signed)
{
    int64_t x = v >> shift & ((1u << bits) - 1);
    return is_signed && x >> (bits - 1) ? x - (1ll << bits) : x;
}

static void test_int__dot_products_sum_every_sign(void **state)
{
    (void)state;
    FOR_INPUTS({
        for (int k = 0; k < 4; k++) {
            int64_t d4 = c;
            int64_t lo = c;
            int64_t hi = c;
            for (int i = 0; i < 4; i++)
                d4 += element(a, 8 * i, 8, k & 1) * element(b, 8 * i, 8, k & 2);
            for (int i = 0; i < 2; i++) {
                lo += element(a, 16 * i, 16, k & 1) * element(b, 8 * i, 8, k & 2);
                hi += element(a, 16 * i, 16, k & 1) * element(b, 16 + 8 * i, 8, k & 2);
            }
            assert_int_equal(sg_dp4a(a, b, c, k & 1, k & 2), (uint32_t)d4);
            assert_int_equal(sg_dp2a(a, b, c, k & 1, k & 2, false), (uint32_t)lo);
            assert_int_equal(sg_dp2a(a, b, c, k & 1, k & 2, true), (uint32_t)hi);
        }
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int__sums_saturate),
        cmocka_unit_test(test_int__products_have_high_halves),
        cmocka_unit_test(test_int__quotients_are_total),
        cmocka_unit_test(test_int__shifts_take_any_count),
        cmocka_unit_test(test_int__bit_fields_match_the_pseudo_code),
        cmocka_unit_test(test_int__bits_are_counted_reversed_and_found),
        cmocka_unit_test(test_int__masks_and_extensions_match_the_pseudo_code),
        cmocka_unit_test(test_int__lop3_is_the_table_of_every_function),
        cmocka_unit_test(test_int__prmt_selects_in_every_mode),
        cmocka_unit_test(test_int__prmt_modes_stand_for_their_formulas),
        cmocka_unit_test(test_int__dot_products_sum_every_sign),
    };
    return cmocka_run_group_tests(tests, ref_start, NULL);
}
