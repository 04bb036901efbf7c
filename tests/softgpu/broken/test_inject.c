/* What is hit, and what becomes of it: units, models, and every way to choose. */
#include "tests/softgpu/broken/broken_test.h"

#include <math.h>

#define BLOCKS 8u
#define THREADS 64u
#define N (BLOCKS * THREADS)

/* p[i] = p[i] * 2 + 1 */
static const char twice[] = KERNEL("", "ld.global.f32 %f1, [%rd9];\n"
                                       "fma.rn.f32 %f2, %f1, 0f40000000, 0f3f800000;\n"
                                       "st.global.f32 [%rd9], %f2;\n");

/* An integer, a single, a double, a special and a tensor operation on p[i], each kept. */
static const char units[] = KERNEL(
    "", "ld.global.u32 %r5, [%rd9];\nadd.u32 %r6, %r5, 3;\nst.global.u32 [%rd9+4096], %r6;\n"
        "mov.b32 %f1, 0f3fc00000;\nmul.rn.f32 %f2, %f1, %f1;\nst.global.f32 [%rd9+8192], %f2;\n"
        "mov.f64 %fd1, 0d3ff8000000000000;\nfma.rn.f64 %fd2, %fd1, %fd1, %fd1;\n"
        "cvt.rn.f32.f64 %f3, %fd2;\nst.global.f32 [%rd9+12288], %f3;\n"
        "ex2.approx.f32 %f4, %f1;\nst.global.f32 [%rd9+16384], %f4;\n"
        "mov.b32 %r10, 0x3c003c00;\nmov.f32 %f5, 0f00000000;\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f6,%f7,%f8,%f9}, "
        "{%r10,%r10,%r10,%r10}, {%r10,%r10}, {%f5,%f5,%f5,%f5};\n"
        "add.f32 %f6, %f6, %f7;\nadd.f32 %f8, %f8, %f9;\nadd.f32 %f6, %f6, %f8;\n"
        "st.global.f32 [%rd9+20480], %f6;\n");

#define ARENA (6 * 4096u)

static float *start(void)
{
    float *p = device_bytes(ARENA);

    memset(p, 0, ARENA);
    for (unsigned i = 0; i < N; i++)
        p[i] = (float)i;
    return p;
}

static float right(unsigned i)
{
    return (float)i * 2 + 1;
}

static uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

/* Which results of the last run are wrong, and how many. */
static unsigned wrong[N], nwrong;

static float *run_twice(const char *specs, struct broken_run r)
{
    struct sg_broken *b = broken(specs);
    struct sg_image *image = load_ptx(twice);
    float *p = start();

    r.blocks = BLOCKS;
    r.threads = THREADS;
    assert_int_equal(run_broken(b, image, r, p), SG_FAULT_NONE);
    nwrong = 0;
    for (unsigned i = 0; i < N; i++) {
        wrong[i] = bits_of(p[i]) != bits_of(right(i));
        nwrong += wrong[i];
    }
    sg_image_free(image);
    assert_int_equal(log_lines(FAULT), sg_broken_count(b));
    sg_broken_free(b);
    return p;
}

static void test_inject__a_bit_of_every_result_flips(void **state)
{
    float *p = run_twice("unit=fma bit=13", (struct broken_run){0});

    (void)state;
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(bits_of(p[i]), bits_of(right(i)) ^ 1u << 13);
    assert_int_equal(log_lines(FAULT), N);
    assert_int_equal(log_lines("\"op\":\"fma.rn.f32\""), N);
    assert_int_equal(log_lines("\"masked\":false"), 1);
    device_free(p);
}

static void test_inject__models(void **state)
{
    float *p;

    (void)state;
    p = run_twice("unit=fma bit=30 model=stuck0", (struct broken_run){0});
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(bits_of(p[i]), bits_of(right(i)) & ~(1u << 30));
    device_free(p);
    p = run_twice("unit=fma bit=0-3 model=stuck1", (struct broken_run){0});
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(bits_of(p[i]), bits_of(right(i)) | 15);
    device_free(p);
    p = run_twice("unit=fma model=ulp", (struct broken_run){0});
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(abs((int)bits_of(p[i]) - (int)bits_of(right(i))), 1);
    device_free(p);
    p = run_twice("unit=fma bit=sign", (struct broken_run){0});
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(bits_of(p[i]), bits_of(right(i)) | 1u << 31);
    device_free(p);
    p = run_twice("unit=fma bit=exponent", (struct broken_run){0});
    for (unsigned i = 0; i < N; i++) {
        uint32_t x = bits_of(p[i]) ^ bits_of(right(i));
        assert_true((x & ~0x7f800000u) == 0 && __builtin_popcount(x) == 1);
    }
    device_free(p);
    p = run_twice("unit=fma bit=16-22 model=random", (struct broken_run){0});
    assert_in_range(nwrong, N / 2, N);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal((bits_of(p[i]) ^ bits_of(right(i))) & ~0x7f0000u, 0);
    device_free(p);
}

/* A sum that stays what it was: the result never arrives. */
static void test_inject__a_result_that_does_not_arrive(void **state)
{
    struct sg_image *image =
        load_ptx(KERNEL("", "ld.global.f32 %f1, [%rd9];\nmov.f32 %f2, 0f3f800000;\n"
                            "fma.rn.f32 %f2, %f1, 0f40000000, %f2;\nst.global.f32 [%rd9], %f2;\n"));
    struct sg_broken *b = broken("unit=fma model=previous lanes=0-15");
    float *p = start();

    (void)state;
    run_broken(b, image, (struct broken_run){.blocks = BLOCKS, .threads = THREADS}, p);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(bits_of(p[i]), bits_of(i % 32 < 16 ? 1.0F : right(i)));
    sg_broken_free(b);
    sg_image_free(image);
    device_free(p);
}

static void test_inject__each_unit_has_its_instructions(void **state)
{
    static const struct {
        const char *spec;
        unsigned at; /* the word of the arena that is wrong, of those the kernel writes */
    } cases[] = {
        {"op=add.u32 unit=int bit=4", 1}, {"op=mul.rn.f32 bit=4", 2}, {"unit=f64 op=fma bit=51", 3},
        {"unit=sfu op=ex2 bit=4", 4},     {"unit=tensor bit=22", 5},
    };
    struct sg_image *image = load_ptx(units);
    uint32_t clean[6];

    (void)state;
    for (size_t c = 0; c < TB_ARRAY_LEN(cases) + 1; c++) {
        struct sg_broken *b = broken(c ? cases[c - 1].spec : "");
        uint32_t *p = (uint32_t *)(void *)start();
        assert_int_equal(run_broken(b, image, (struct broken_run){.blocks = 1, .threads = 32}, p),
                         SG_FAULT_NONE);
        for (unsigned k = 0; k < 6 && c == 0; k++)
            clean[k] = p[k * 1024 + 5];
        for (unsigned k = 0; k < 6 && c != 0; k++)
            if ((p[k * 1024 + 5] != clean[k]) != (k == cases[c - 1].at))
                fail_msg("'%s': word %u is %#x, without faults %#x", cases[c - 1].spec, k,
                         p[k * 1024 + 5], clean[k]);
        sg_broken_free(b);
        device_free(p);
    }
    sg_image_free(image);
}

static void test_inject__one_multiprocessor_spoils_its_blocks_only(void **state)
{
    float *p = run_twice("unit=fma sm=2 bit=9", (struct broken_run){0});

    (void)state;
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(wrong[i], i / THREADS % 4 == 2);
    assert_int_equal(log_lines("\"sm\":2"), N / 4);
    device_free(p);
}

static void test_inject__chosen_lanes_and_warps(void **state)
{
    float *p = run_twice("unit=fma lanes=4g3 warp=1 bit=9", (struct broken_run){0});

    (void)state;
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(wrong[i], i % THREADS >= 32 + 12 && i % THREADS < 32 + 16);
    device_free(p);
    p = run_twice("unit=fma lanes=0x80000001 bit=9", (struct broken_run){0});
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(wrong[i], i % 32 == 0 || i % 32 == 31);
    device_free(p);
}

static void test_inject__groups_are_hit_together(void **state)
{
    float *p = run_twice("unit=fma lanes=4g rate=0.2 bit=9 seed=3", (struct broken_run){0});

    (void)state;
    assert_in_range(nwrong, 1, N - 1);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(wrong[i], wrong[i / 4 * 4]);
    device_free(p);
}

static void test_inject__kernel_launch_device_and_age(void **state)
{
    float *p;

    (void)state;
    p = run_twice("unit=fma kernel=matmul* bit=3", (struct broken_run){0});
    assert_int_equal(nwrong, 0);
    device_free(p);
    p = run_twice("unit=fma kernel=[jk] bit=3", (struct broken_run){0});
    assert_int_equal(nwrong, N);
    device_free(p);
    p = run_twice("unit=fma launch=2..3 bit=3", (struct broken_run){.number = 4});
    assert_int_equal(nwrong, 0);
    device_free(p);
    p = run_twice("unit=fma launch=2..3 bit=3", (struct broken_run){.number = 3});
    assert_int_equal(nwrong, N);
    device_free(p);
    p = run_twice("unit=fma device=1 bit=3", (struct broken_run){0});
    assert_int_equal(nwrong, 0);
    device_free(p);
    p = run_twice("unit=fma after=5 bit=3", (struct broken_run){.number = 5});
    assert_int_equal(nwrong, 0);
    device_free(p);
    p = run_twice("unit=fma after=5 bit=3", (struct broken_run){.number = 6});
    assert_int_equal(nwrong, N);
    device_free(p);
    p = run_twice("unit=fma after=1000s bit=3", (struct broken_run){0});
    assert_int_equal(nwrong, 0);
    device_free(p);
}

static void test_inject__conditions_look_at_operands(void **state)
{
    float *p = run_twice("unit=fma when=x>300 bit=3", (struct broken_run){0});

    (void)state;
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(wrong[i], i > 300);
    device_free(p);
    p = run_twice("unit=fma when=exponent==7 bit=3", (struct broken_run){0});
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(wrong[i], i >= 128 && i < 256);
    device_free(p);
    p = run_twice("unit=ldst op=ld.global when=x==77 bit=22", (struct broken_run){0});
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(wrong[i], i == 77);
    device_free(p);
}

static void test_inject__loads_stores_and_addresses(void **state)
{
    float *p = run_twice("op=st.global bit=31", (struct broken_run){0});

    (void)state;
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(bits_of(p[i]), bits_of(right(i)) | 1u << 31);
    assert_int_equal(log_lines("\"what\":\"store\""), N);
    device_free(p);
    p = run_twice("op=st model=previous", (struct broken_run){0}); /* nothing is stored */
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(bits_of(p[i]), bits_of((float)i));
    device_free(p);
    /* neighbours of 4 bytes are exchanged by the loads */
    p = run_twice("op=ld.global unit=ldst at=address bit=2", (struct broken_run){0});
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(bits_of(p[i]), bits_of(right(i ^ 1)));
    assert_int_equal(log_lines("\"what\":\"address\""), N);
    device_free(p);
}

static void test_inject__an_address_may_leave_the_memory(void **state)
{
    struct sg_broken *b = broken("unit=ldst op=st at=address bit=45 lanes=7 sm=1");
    struct sg_image *image = load_ptx(twice);
    float *p = start();

    (void)state;
    assert_int_equal(
        run_broken(b, image, (struct broken_run){.blocks = BLOCKS, .threads = THREADS}, p),
        SG_FAULT_ADDRESS);
    assert_true(log_lines("\"what\":\"address\"") > 0);
    assert_int_equal(log_lines("\"error\":\"illegal write in kernel 'k'"), 1);
    assert_non_null(strstr(last_line, "\"masked\":false"));
    sg_broken_free(b);
    sg_image_free(image);
    device_free(p);
}

/* Binomial: 40 launches of 512 operations, five standard deviations. */
static void test_inject__as_many_as_the_rate_says(void **state)
{
    static const double rates[] = {0.3, 0.01, 0.0005};

    (void)state;
    for (size_t k = 0; k < TB_ARRAY_LEN(rates); k++) {
        char spec[80];
        double n = 40.0 * N, mean = n * rates[k], dev = sqrt(mean * (1 - rates[k]));
        struct sg_image *image = load_ptx(twice);
        float *p = start();
        snprintf(spec, sizeof(spec), "unit=fma bit=3 rate=%g seed=%zu", rates[k], k);
        struct sg_broken *b = broken(spec);
        for (unsigned i = 1; i <= 40; i++)
            run_broken(b, image,
                       (struct broken_run){.blocks = BLOCKS, .threads = THREADS, .number = i}, p);
        double got = (double)sg_broken_count(b);
        if (fabs(got - mean) > 5 * dev + 1)
            fail_msg("rate %g: %g faults of %g operations", rates[k], got, n);
        sg_broken_free(b);
        sg_image_free(image);
        device_free(p);
    }
}

static void test_inject__ageing_doubles_the_rate(void **state)
{
    struct sg_broken *b = broken("unit=fma bit=3 rate=0.01 ageing=2/100");
    struct sg_image *image = load_ptx(twice);
    float *p = start();
    uint64_t young, old;

    (void)state;
    for (unsigned i = 1; i <= 40; i++)
        run_broken(b, image, (struct broken_run){.blocks = BLOCKS, .threads = THREADS, .number = i},
                   p);
    young = sg_broken_count(b);
    for (unsigned i = 401; i <= 440; i++)
        run_broken(b, image, (struct broken_run){.blocks = BLOCKS, .threads = THREADS, .number = i},
                   p);
    old = sg_broken_count(b) - young;
    assert_in_range(old, 12 * young, 21 * young); /* 16 times as many */
    sg_broken_free(b);
    sg_image_free(image);
    device_free(p);
}

static char *whole_log(void)
{
    FILE *f = fopen(log_path, "r");
    char *text = calloc(1, 1 << 20), *body;

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    body = strchr(text, '\n');
    assert_non_null(body);
    memmove(text, body, strlen(body) + 1);
    return text;
}

static void test_inject__workers_do_not_change_the_log(void **state)
{
    struct sg_machine *one = NULL;
    struct tb_error err = {0};
    char *first, *second;
    const char *spec = "unit=fma bit=random rate=0.05 seed=9; unit=ldst op=st rate=0.05 bit=1";

    (void)state;
    assert_int_equal(
        sg_machine_new(&(struct sg_machine_options){.workers = 1}, test_mem, &one, &err), TB_OK);
    float *p = run_twice(spec, (struct broken_run){0});
    first = whole_log();
    assert_true(nwrong > 10);
    device_free(p);
    p = run_twice(spec, (struct broken_run){.machine = one});
    second = whole_log();
    assert_string_equal(first, second);
    device_free(p);
    p = run_twice("unit=fma bit=random rate=0.05 seed=10", (struct broken_run){0});
    char *third = whole_log();
    assert_string_not_equal(first, third);
    free(first);
    free(second);
    free(third);
    device_free(p);
    sg_machine_free(one);
}

/* The result is compared with 0 and forgotten: a bit of its mantissa does not matter. */
static const char forgetful[] =
    KERNEL("", "ld.global.f32 %f1, [%rd9];\nfma.rn.f32 %f2, %f1, 0f40000000, 0f3f800000;\n"
               "setp.gt.f32 %p1, %f2, 0f00000000;\nselp.u32 %r5, 7, 9, %p1;\n"
               "st.global.u32 [%rd9], %r5;\n");

static void test_inject__a_masked_fault_is_said_to_be(void **state)
{
    struct sg_image *image = load_ptx(forgetful);
    struct sg_broken *b = broken("unit=fma op=fma bit=5 lanes=3 sm=1 warp=0 launch=1;"
                                 "unit=fma op=fma bit=31 lanes=3 sm=1 warp=0 launch=2");
    uint32_t *p = (uint32_t *)(void *)start();
    const struct broken_run r = {.blocks = 4, .threads = THREADS};

    (void)state;
    run_broken(b, image, r, p);
    assert_int_equal(p[64 + 3], 7);
    assert_int_equal(log_lines("\"masked\":true"), 2); /* of the fault, the only one, and launch */
    for (unsigned i = 0; i < N; i++)
        ((float *)(void *)p)[i] = (float)i;
    run_broken(b, image, (struct broken_run){.blocks = 4, .threads = THREADS, .number = 2}, p);
    assert_int_equal(p[64 + 3], 9); /* what the broken run left, not what the clean one did */
    for (unsigned i = 0; i < 4 * THREADS; i++)
        assert_int_equal(p[i], i == 64 + 3 ? 9 : 7);
    assert_int_equal(log_lines("\"masked\":false"), 2);
    sg_broken_free(b);
    sg_image_free(image);
    device_free(p);
}

static void test_inject__clocks_and_allocations_cannot_be_judged(void **state)
{
    static const char *const bodies[] = {
        KERNEL("",
               "mov.u64 %rd20, %globaltimer;\nadd.u32 %r5, %r1, 1;\nst.global.u32 [%rd9], %r5;\n"),
        KERNEL(".extern .func (.param .b64 r) malloc(.param .b64 n);\n",
               "{.param .b64 a; .param .b64 b;\nmov.u64 %rd20, 16;\nst.param.b64 [a], %rd20;\n"
               "call (b), malloc, (a);\n}\nadd.u32 %r5, %r1, 1;\nst.global.u32 [%rd9], %r5;\n"),
    };
    static const char *const why[] = {"it reads a clock", "it allocates memory"};

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(bodies); i++) {
        struct sg_image *image = load_ptx(bodies[i]);
        struct sg_broken *b = broken("op=add.u32 lanes=1 bit=7");
        float *p = start();
        run_broken(b, image, (struct broken_run){.blocks = 1, .threads = 32}, p);
        assert_int_equal(log_lines("\"masked\":\"unknown\""), 2);
        if (strstr(last_line, why[i]) == NULL)
            fail_msg("%s", last_line);
        sg_broken_free(b);
        sg_image_free(image);
        device_free(p);
    }
}

/* Each process has a log of its own: what is there stays. */
static void test_inject__a_log_that_is_there_is_of_another_process(void **state)
{
    struct sg_broken_options opt = broken_options("unit=fma");
    char name[160];

    (void)state;
    struct sg_broken *first = broken_with(&opt), *second = NULL, *third = NULL;
    assert_int_equal(sg_broken_new(&opt, &second, NULL), TB_OK);
    snprintf(name, sizeof(name), "%s.%ld", log_path, (long)getpid());
    assert_int_equal(unlink(name), 0);
    snprintf(name, sizeof(name), "%s/of-%%p.json", log_dir);
    opt.log = name;
    assert_int_equal(sg_broken_new(&opt, &third, NULL), TB_OK);
    snprintf(name, sizeof(name), "%s/of-%ld.json", log_dir, (long)getpid());
    assert_int_equal(unlink(name), 0);
    assert_int_equal(log_lines("softgpu_faults"), 1);
    sg_broken_free(first);
    sg_broken_free(second);
    sg_broken_free(third);
    opt.log = "/nowhere/log";
    assert_int_equal(sg_broken_new(&opt, &first, NULL), TB_ERR_IO);
}

/* A device with other faults, or of another number, is executed as if nobody watched. */
static void test_inject__what_cannot_be_hit_is_not_watched(void **state)
{
    struct sg_image *image = load_ptx(twice);
    struct sg_broken *b = broken("unit=fma device=1; unit=copy; unit=int launch=2");
    float *p = start();
    struct sg_launch l = {.kernel = sg_image_kernel(image, "k"), .grid_id = 1};

    (void)state;
    assert_false(sg_inject_prepare(b, &l));
    l.grid_id = 2; /* it has integer instructions */
    assert_true(sg_inject_prepare(b, &l));
    sg_inject_release(b);
    l.device = 1;
    l.grid_id = 1;
    assert_true(sg_inject_prepare(b, &l));
    sg_inject_release(b);
    sg_broken_free(b);
    b = broken("unit=f64; unit=sfu; op=fma.rm");
    assert_false(sg_inject_prepare(b, &l)); /* it has none of these */
    sg_broken_free(b);
    sg_image_free(image);
    device_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inject__a_bit_of_every_result_flips),
        cmocka_unit_test(test_inject__models),
        cmocka_unit_test(test_inject__a_result_that_does_not_arrive),
        cmocka_unit_test(test_inject__each_unit_has_its_instructions),
        cmocka_unit_test(test_inject__one_multiprocessor_spoils_its_blocks_only),
        cmocka_unit_test(test_inject__chosen_lanes_and_warps),
        cmocka_unit_test(test_inject__groups_are_hit_together),
        cmocka_unit_test(test_inject__kernel_launch_device_and_age),
        cmocka_unit_test(test_inject__conditions_look_at_operands),
        cmocka_unit_test(test_inject__loads_stores_and_addresses),
        cmocka_unit_test(test_inject__an_address_may_leave_the_memory),
        cmocka_unit_test(test_inject__as_many_as_the_rate_says),
        cmocka_unit_test(test_inject__ageing_doubles_the_rate),
        cmocka_unit_test(test_inject__workers_do_not_change_the_log),
        cmocka_unit_test(test_inject__a_masked_fault_is_said_to_be),
        cmocka_unit_test(test_inject__clocks_and_allocations_cannot_be_judged),
        cmocka_unit_test(test_inject__a_log_that_is_there_is_of_another_process),
        cmocka_unit_test(test_inject__what_cannot_be_hit_is_not_watched),
    };
    return cmocka_run_group_tests(tests, broken_setup, broken_teardown);
}
