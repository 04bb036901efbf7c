/* add, sub, mul, fma, div, sqrt, rcp against MPFR, in every rounding mode, with .ftz and .sat. */
#include "ref.h"

static const char *const op_names[] = {"add", "sub", "mul", "fma", "div", "sqrt", "rcp"};

struct operands {
    uint64_t v[3];
};

static struct operands draw(struct ref_rng *r, const struct ref_format *f, enum sg_num_op op)
{
    struct operands o;
    o.v[0] = ref_input(r, f);
    o.v[1] = ref_partner(r, f, o.v[0]);
    o.v[2] = ref_input(r, f);
    if (op == SG_NUM_FMA && (ref_next(r) & 3) != 0) {
        /* c near a * b: ties, cancellation, sticky bits */
        uint64_t p = sg_num_arith(SG_NUM_MUL, f->type, o.v[0], o.v[1], 0, SG_RND_RN, 0);
        o.v[2] = ref_partner(r, f, p);
    }
    return o;
}

static int operand_count(enum sg_num_op op)
{
    return op == SG_NUM_FMA ? 3 : op >= SG_NUM_SQRT ? 1 : 2;
}

static int compute(enum sg_num_op op, mpfr_t r, mpfr_t x[3], mpfr_rnd_t rnd)
{
    switch (op) {
    case SG_NUM_ADD:
        return mpfr_add(r, x[0], x[1], rnd);
    case SG_NUM_SUB:
        return mpfr_sub(r, x[0], x[1], rnd);
    case SG_NUM_MUL:
        return mpfr_mul(r, x[0], x[1], rnd);
    case SG_NUM_FMA:
        return mpfr_fma(r, x[0], x[1], x[2], rnd);
    case SG_NUM_DIV:
        return mpfr_div(r, x[0], x[1], rnd);
    case SG_NUM_SQRT:
        return mpfr_sqrt(r, x[0], rnd);
    case SG_NUM_RCP:
        return mpfr_ui_div(r, 1, x[0], rnd);
    }
    return 0;
}

/* a NaN result: f64 keeps the first operand that is one, quiet */
static uint64_t nan_result(const struct ref_format *f, const struct operands *o, int n)
{
    for (int i = 0; f->type == SG_T_F64 && i < n; i++)
        if (ref_is_nan(f, o->v[i]))
            return o->v[i] | UINT64_C(1) << 51;
    return f->nan;
}

struct reference {
    mpfr_t x[3], r;
};

static void reference_init(struct reference *ref, const struct ref_format *f)
{
    for (int i = 0; i < 3; i++)
        mpfr_init2(ref->x[i], 53);
    mpfr_init2(ref->r, f->mant + 1);
    ref_enter(f);
}

static void reference_release(struct reference *ref)
{
    for (int i = 0; i < 3; i++)
        mpfr_clear(ref->x[i]);
    mpfr_clear(ref->r);
}

static void reference_set(struct reference *ref, const struct ref_format *f,
                          const struct operands *o, unsigned flags)
{
    for (int i = 0; i < 3; i++)
        mpfr_set_d(ref->x[i], ref_value(f, flags & SG_NUM_FTZ ? ref_flush(f, o->v[i]) : o->v[i]),
                   MPFR_RNDN);
}

static uint64_t expected(struct reference *ref, const struct ref_format *f, enum sg_num_op op,
                         const struct operands *o, enum sg_rnd rnd, unsigned flags)
{
    int n = operand_count(op);
    int t = compute(op, ref->r, ref->x, ref_rnd(rnd));
    uint64_t bits = ref_bits(f, ref->r, t, rnd);
    if (ref_is_nan(f, bits))
        bits = nan_result(f, o, n);
    return ref_apply(f, bits, flags);
}

static void mismatch(const struct ref_format *f, enum sg_num_op op, const struct operands *o,
                     enum sg_rnd rnd, unsigned flags, uint64_t got, uint64_t want)
{
    fail_msg("%s.%s rnd %d flags %u of %llx %llx %llx: %llx, MPFR says %llx", op_names[op], f->name,
             (int)rnd, flags, (unsigned long long)o->v[0], (unsigned long long)o->v[1],
             (unsigned long long)o->v[2], (unsigned long long)got, (unsigned long long)want);
}

/* the functions with the names that the ISA's instructions have */
static uint64_t named_f32(enum sg_num_op op, const struct operands *o, enum sg_rnd rnd,
                          unsigned flags)
{
    uint32_t a = (uint32_t)o->v[0], b = (uint32_t)o->v[1], c = (uint32_t)o->v[2];
    switch (op) {
    case SG_NUM_ADD:
        return sg_f32_add(a, b, rnd, flags);
    case SG_NUM_SUB:
        return sg_f32_sub(a, b, rnd, flags);
    case SG_NUM_MUL:
        return sg_f32_mul(a, b, rnd, flags);
    case SG_NUM_FMA:
        return sg_f32_fma(a, b, c, rnd, flags);
    case SG_NUM_DIV:
        return sg_f32_div(a, b, rnd, flags);
    case SG_NUM_SQRT:
        return sg_f32_sqrt(a, rnd, flags);
    case SG_NUM_RCP:
        return sg_f32_rcp(a, rnd, flags);
    }
    return 0;
}

static uint64_t named_f64(enum sg_num_op op, const struct operands *o, enum sg_rnd rnd,
                          unsigned flags)
{
    const uint64_t *v = o->v;
    (void)flags;
    switch (op) {
    case SG_NUM_ADD:
        return sg_f64_add(v[0], v[1], rnd);
    case SG_NUM_SUB:
        return sg_f64_sub(v[0], v[1], rnd);
    case SG_NUM_MUL:
        return sg_f64_mul(v[0], v[1], rnd);
    case SG_NUM_FMA:
        return sg_f64_fma(v[0], v[1], v[2], rnd);
    case SG_NUM_DIV:
        return sg_f64_div(v[0], v[1], rnd);
    case SG_NUM_SQRT:
        return sg_f64_sqrt(v[0], rnd);
    case SG_NUM_RCP:
        return sg_f64_rcp(v[0], rnd);
    }
    return 0;
}

typedef uint64_t (*function)(enum sg_num_op op, const struct operands *o, enum sg_rnd rnd,
                             unsigned flags);

/* @flag_mask: which of FTZ and SAT the type has; each input is tried with one draw of them */
static void check_all(const struct ref_format *f, function fn, unsigned flag_mask, uint64_t n)
{
    struct reference ref;
    struct ref_rng rng = {42};

    reference_init(&ref, f);
    for (int op = SG_NUM_ADD; op <= SG_NUM_RCP; op++) {
        for (uint64_t i = 0; i < n; i++) {
            struct operands o = draw(&rng, f, op);
            unsigned flags = (unsigned)ref_next(&rng) & flag_mask;
            reference_set(&ref, f, &o, flags);
            for (int rnd = SG_RND_RN; rnd <= SG_RND_RP; rnd++) {
                uint64_t got = fn(op, &o, rnd, flags);
                uint64_t want = expected(&ref, f, op, &o, rnd, flags);
                if (got != want)
                    mismatch(f, op, &o, rnd, flags, got, want);
            }
        }
    }
    reference_release(&ref);
}

static void test_arith__f32_is_correctly_rounded_in_every_mode(void **state)
{
    (void)state;
    check_all(&ref_f32, named_f32, SG_NUM_FTZ | SG_NUM_SAT, ref_count(1));
}

static void test_arith__f64_is_correctly_rounded_in_every_mode(void **state)
{
    (void)state;
    check_all(&ref_f64, named_f64, 0, ref_count(1));
}

static uint64_t by_type_f16(enum sg_num_op op, const struct operands *o, enum sg_rnd rnd,
                            unsigned flags)
{
    return sg_num_arith(op, SG_T_F16, o->v[0], o->v[1], o->v[2], rnd, flags);
}

static uint64_t by_type_bf16(enum sg_num_op op, const struct operands *o, enum sg_rnd rnd,
                             unsigned flags)
{
    return sg_num_arith(op, SG_T_BF16, o->v[0], o->v[1], o->v[2], rnd, flags);
}

static void test_arith__halves_are_correctly_rounded_in_every_mode(void **state)
{
    (void)state;
    check_all(&ref_f16, by_type_f16, SG_NUM_FTZ | SG_NUM_SAT, ref_count(8));
    check_all(&ref_bf16, by_type_bf16, SG_NUM_RELU, ref_count(8));
}

/* The inlines round once more than the reference, in a way that must not show. */
static uint64_t inline_f16(enum sg_num_op op, const struct operands *o, enum sg_rnd rnd,
                           unsigned flags)
{
    uint16_t a = (uint16_t)o->v[0], b = (uint16_t)o->v[1], c = (uint16_t)o->v[2];
    (void)rnd;
    switch (op) {
    case SG_NUM_ADD:
        return sg_f16_add(a, b, flags);
    case SG_NUM_SUB:
        return sg_f16_sub(a, b, flags);
    case SG_NUM_MUL:
        return sg_f16_mul(a, b, flags);
    default:
        return sg_f16_fma(a, b, c, flags);
    }
}

static uint64_t inline_bf16(enum sg_num_op op, const struct operands *o, enum sg_rnd rnd,
                            unsigned flags)
{
    uint16_t a = (uint16_t)o->v[0], b = (uint16_t)o->v[1], c = (uint16_t)o->v[2];
    (void)rnd;
    switch (op) {
    case SG_NUM_ADD:
        return sg_bf16_add(a, b, flags);
    case SG_NUM_SUB:
        return sg_bf16_sub(a, b, flags);
    case SG_NUM_MUL:
        return sg_bf16_mul(a, b, flags);
    default:
        return sg_bf16_fma(a, b, c, flags);
    }
}

static void check_inline(const struct ref_format *f, function fn, const unsigned *flag_sets,
                         unsigned nsets)
{
    struct reference ref;
    struct ref_rng rng = {7};

    reference_init(&ref, f);
    for (int op = SG_NUM_ADD; op <= SG_NUM_FMA; op++) {
        for (uint64_t i = 0; i < ref_count(1); i++) {
            struct operands o = draw(&rng, f, op);
            unsigned flags = flag_sets[ref_next(&rng) % nsets];
            reference_set(&ref, f, &o, flags);
            uint64_t got = fn(op, &o, SG_RND_RN, flags);
            uint64_t want = expected(&ref, f, op, &o, SG_RND_RN, flags);
            if (got != want)
                mismatch(f, op, &o, SG_RND_RN, flags, got, want);
        }
    }
    reference_release(&ref);
}

static void test_arith__inlines_of_f16_are_correctly_rounded(void **state)
{
    static const unsigned sets[] = {
        0, SG_NUM_FTZ, SG_NUM_SAT, SG_NUM_FTZ | SG_NUM_SAT, SG_NUM_RELU, SG_NUM_FTZ | SG_NUM_RELU};
    (void)state;
    check_inline(&ref_f16, inline_f16, sets, TB_ARRAY_LEN(sets));
}

static void test_arith__inlines_of_bf16_are_correctly_rounded(void **state)
{
    static const unsigned sets[] = {0, SG_NUM_RELU};
    (void)state;
    check_inline(&ref_bf16, inline_bf16, sets, TB_ARRAY_LEN(sets));
}

/* what an interpreter's loops do: C's operators and sg_f32_finish(), sg_f64_finish2() */
static void test_arith__operators_of_c_agree_with_the_engine(void **state)
{
    struct ref_rng rng = {3};
    (void)state;
    for (uint64_t i = 0; i < ref_count(1); i++) {
        struct operands o = draw(&rng, &ref_f32, SG_NUM_FMA);
        unsigned flags = (unsigned)ref_next(&rng) & (SG_NUM_FTZ | SG_NUM_SAT);
        uint32_t v[3];
        for (int k = 0; k < 3; k++)
            v[k] = flags & SG_NUM_FTZ ? sg_f32_ftz((uint32_t)o.v[k]) : (uint32_t)o.v[k];
        float a = sg_f32_val(v[0]), b = sg_f32_val(v[1]), c = sg_f32_val(v[2]);
        assert_int_equal(sg_f32_finish(a + b, flags), sg_f32_add(v[0], v[1], SG_RND_RN, flags));
        assert_int_equal(sg_f32_finish(a * b, flags), sg_f32_mul(v[0], v[1], SG_RND_RN, flags));
        assert_int_equal(sg_f32_finish(a / b, flags), sg_f32_div(v[0], v[1], SG_RND_RN, flags));
        assert_int_equal(sg_f32_finish(__builtin_sqrtf(a), flags),
                         sg_f32_sqrt(v[0], SG_RND_RN, flags));
        assert_int_equal(sg_f32_finish(__builtin_fmaf(a, b, c), flags),
                         sg_f32_fma(v[0], v[1], v[2], SG_RND_RN, flags));

        o = draw(&rng, &ref_f64, SG_NUM_FMA);
        double x = sg_f64_val(o.v[0]), y = sg_f64_val(o.v[1]), z = sg_f64_val(o.v[2]);
        assert_true(sg_f64_finish2(x + y, o.v[0], o.v[1]) == sg_f64_add(o.v[0], o.v[1], SG_RND_RN));
        assert_true(sg_f64_finish2(x / y, o.v[0], o.v[1]) == sg_f64_div(o.v[0], o.v[1], SG_RND_RN));
        assert_true(sg_f64_finish1(__builtin_sqrt(x), o.v[0]) == sg_f64_sqrt(o.v[0], SG_RND_RN));
        assert_true(sg_f64_finish3(__builtin_fma(x, y, z), o.v[0], o.v[1], o.v[2]) ==
                    sg_f64_fma(o.v[0], o.v[1], o.v[2], SG_RND_RN));
    }
}

static void test_arith__the_environment_is_reset_and_put_back(void **state)
{
    (void)state;
    uint32_t before = sg_num_enter();
    sg_num_leave(0x9fc0); /* flush to zero, subnormals are zeros */
    volatile float tiny = 1e-40f;
    assert_true(tiny * 1.0f == 0.0f);
    assert_int_equal(sg_f32_add(1, 1, SG_RND_RN, 0), 2); /* does not depend on it */
    uint32_t saved = sg_num_enter();
    assert_true(tiny * 1.0f != 0.0f);
    sg_num_leave(saved);
    assert_true(tiny * 1.0f == 0.0f);
    sg_num_leave(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arith__f32_is_correctly_rounded_in_every_mode),
        cmocka_unit_test(test_arith__f64_is_correctly_rounded_in_every_mode),
        cmocka_unit_test(test_arith__halves_are_correctly_rounded_in_every_mode),
        cmocka_unit_test(test_arith__inlines_of_f16_are_correctly_rounded),
        cmocka_unit_test(test_arith__inlines_of_bf16_are_correctly_rounded),
        cmocka_unit_test(test_arith__operators_of_c_agree_with_the_engine),
        cmocka_unit_test(test_arith__the_environment_is_reset_and_put_back),
    };
    return cmocka_run_group_tests(tests, ref_start, NULL);
}
