/* Matrix products against MPFR: exact products, f64 sums in the order of k, one last rounding. */
#include "ref.h"

#include "softgpu/num/tensor.h"

struct tile {
    uint32_t a[32 * 64], b[64 * 32], c[32 * 32], d[32 * 32];
};

static uint32_t draw(struct ref_rng *rng, enum sg_type t, bool tame)
{
    const struct ref_format *f = ref_format_of(t);
    uint64_t v = ref_input(rng, f);
    if (tame) /* numbers between 1/4 and 8, so that sums are not all infinite */
        while (!(__builtin_fabs(ref_value(f, v)) < 8 && __builtin_fabs(ref_value(f, v)) >= 0.25))
            v = ref_input(rng, f);
    return (uint32_t)v;
}

/* the rule once more, in MPFR with 53 bits */
static uint64_t element(const struct sg_mma_types *t, const struct sg_mma_shape *s,
                        const struct tile *x, unsigned i, unsigned j)
{
    const struct ref_format *fa = ref_format_of(t->a), *fb = ref_format_of(t->b);
    const struct ref_format *fc = ref_format_of(t->c), *fd = ref_format_of(t->d);
    mpfr_t sum, p, q, r;
    mpfr_inits2(53, sum, p, q, NULL);
    mpfr_init2(r, fd->mant + 1);
    ref_enter(&ref_f64);
    mpfr_set_zero(sum, 1);
    for (unsigned k = 0; k < s->k; k++) {
        mpfr_set_d(p, ref_value(fa, x->a[i * s->k + k]), MPFR_RNDN);
        mpfr_set_d(q, ref_value(fb, x->b[k * s->n + j]), MPFR_RNDN);
        assert_int_equal(mpfr_mul(p, p, q, MPFR_RNDN), 0);
        mpfr_add(sum, sum, p, MPFR_RNDN);
    }
    mpfr_set_d(p, ref_value(fc, x->c[i * s->n + j]), MPFR_RNDN);
    mpfr_add(sum, sum, p, MPFR_RNDN);
    ref_enter(fd);
    int ternary = mpfr_check_range(r, mpfr_set(r, sum, MPFR_RNDN), MPFR_RNDN);
    uint64_t bits = ref_bits(fd, r, ternary, SG_RND_RN);
    mpfr_clears(sum, p, q, r, NULL);
    return bits;
}

static void test_tensor__float_tiles_follow_the_rule(void **state)
{
    static const struct {
        struct sg_mma_types t;
        struct sg_mma_shape s;
    } forms[] = {
        {{SG_T_F16, SG_T_F16, SG_T_F32, SG_T_F32}, {16, 8, 16}},
        {{SG_T_F16, SG_T_F16, SG_T_F16, SG_T_F16}, {16, 8, 8}},
        {{SG_T_F16, SG_T_F16, SG_T_F16, SG_T_F32}, {32, 8, 16}},
        {{SG_T_BF16, SG_T_BF16, SG_T_F32, SG_T_F32}, {16, 16, 16}},
        {{SG_T_TF32, SG_T_TF32, SG_T_F32, SG_T_F32}, {16, 8, 8}},
        {{SG_T_E4M3, SG_T_E5M2, SG_T_F32, SG_T_F32}, {16, 8, 32}},
        {{SG_T_E5M2, SG_T_E4M3, SG_T_F16, SG_T_F16}, {16, 8, 32}},
    };
    static struct tile x;
    struct ref_rng rng = {81};
    (void)state;
    for (size_t f = 0; f < TB_ARRAY_LEN(forms); f++) {
        struct sg_mma_shape s = forms[f].s;
        for (uint64_t round = 0; round < ref_count(5000); round++) {
            bool tame = round % 4 != 0;
            for (unsigned i = 0; i < (unsigned)s.m * s.k; i++)
                x.a[i] = draw(&rng, forms[f].t.a, tame);
            for (unsigned i = 0; i < (unsigned)s.k * s.n; i++)
                x.b[i] = draw(&rng, forms[f].t.b, tame);
            for (unsigned i = 0; i < (unsigned)s.m * s.n; i++)
                x.c[i] = draw(&rng, forms[f].t.c, tame);
            if (forms[f].t.a == SG_T_TF32) /* the low bits do not count */
                x.a[0] |= 0x1fff;
            sg_mma_float(s, forms[f].t, x.a, x.b, x.c, x.d);
            for (unsigned i = 0; i < s.m; i++)
                for (unsigned j = 0; j < s.n; j++)
                    assert_int_equal(x.d[i * s.n + j], element(&forms[f].t, &s, &x, i, j));
        }
    }
}

static void test_tensor__f64_is_a_chain_of_fma(void **state)
{
    struct ref_rng rng = {82};
    const struct sg_mma_shape s = {8, 8, 4};
    uint64_t a[32], b[32], c[64], d[64];
    (void)state;
    for (uint64_t round = 0; round < ref_count(1000); round++) {
        for (int i = 0; i < 32; i++) {
            a[i] = ref_input(&rng, &ref_f64);
            b[i] = ref_partner(&rng, &ref_f64, a[i]);
        }
        for (int i = 0; i < 64; i++)
            c[i] = ref_input(&rng, &ref_f64);
        for (int rnd = SG_RND_RN; rnd <= SG_RND_RP; rnd++) {
            sg_mma_f64(s, rnd, a, b, c, d);
            for (int i = 0; i < 64; i++) {
                uint64_t v = c[i];
                for (int k = 0; k < 4; k++)
                    v = sg_f64_fma(a[i / 8 * 4 + k], b[k * 8 + i % 8], v, rnd);
                assert_true(v == d[i]);
            }
        }
    }
}

static void test_tensor__integers_wrap_or_clamp(void **state)
{
    struct ref_rng rng = {83};
    const struct sg_mma_shape s = {16, 8, 32};
    int32_t a[16 * 32], b[32 * 8], c[16 * 8], d[16 * 8], e[16 * 8];
    unsigned clamped = 0;
    (void)state;
    for (uint64_t round = 0; round < ref_count(5000); round++) {
        for (int i = 0; i < 16 * 32; i++)
            a[i] = (int8_t)ref_next(&rng);
        for (int i = 0; i < 32 * 8; i++)
            b[i] = (uint8_t)ref_next(&rng);
        for (int i = 0; i < 16 * 8; i++)
            c[i] = (int32_t)(ref_next(&rng) & 1 ? 0x7fffff00 : 0x80000100);
        sg_mma_int(s, a, b, c, d, false);
        sg_mma_int(s, a, b, c, e, true);
        for (int i = 0; i < 16 * 8; i++) {
            int64_t v = c[i];
            for (int k = 0; k < 32; k++)
                v += a[i / 8 * 32 + k] * b[k * 8 + i % 8];
            assert_int_equal(d[i], (int32_t)(uint32_t)v);
            int64_t w = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
            assert_int_equal(e[i], (int32_t)w);
            clamped += w != v;
        }
    }
    assert_true(clamped > 0);
}

static void test_tensor__bits_are_counted(void **state)
{
    struct ref_rng rng = {84};
    const struct sg_mma_shape s = {8, 8, 128};
    uint32_t a[8 * 4], b[8 * 4];
    int32_t c[64], d[64];
    (void)state;
    for (int round = 0; round < 200; round++) {
        bool both = round & 1;
        for (int i = 0; i < 32; i++) {
            a[i] = (uint32_t)ref_next(&rng);
            b[i] = (uint32_t)ref_next(&rng);
        }
        for (int i = 0; i < 64; i++)
            c[i] = (int32_t)ref_next(&rng);
        sg_mma_b1(s, both, a, b, c, d);
        for (int i = 0; i < 64; i++) {
            uint32_t v = (uint32_t)c[i];
            for (int k = 0; k < 128; k++) {
                uint32_t x = a[i / 8 * 4 + k / 32] >> k % 32 & 1;
                uint32_t y = b[i % 8 * 4 + k / 32] >> k % 32 & 1;
                v += both ? x & y : x ^ y;
            }
            assert_int_equal(d[i], (int32_t)v);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor__float_tiles_follow_the_rule),
        cmocka_unit_test(test_tensor__f64_is_a_chain_of_fma),
        cmocka_unit_test(test_tensor__integers_wrap_or_clamp),
        cmocka_unit_test(test_tensor__bits_are_counted),
    };
    return cmocka_run_group_tests(tests, ref_start, NULL);
}
