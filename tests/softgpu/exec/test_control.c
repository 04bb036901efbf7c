/* Divergence, calls, barriers, faults and orders. */
#include "tests/softgpu/exec/exec_test.h"

static void test_branches__lanes_meet_again(void **state)
{
    (void)state;
    /* odd and even lanes go different ways, then all vote */
    static const char ptx[] =
        KERNEL("", "and.b32 %r5, %r1, 1;\nsetp.eq.u32 %p1, %r5, 1;\n@%p1 bra ODD;\n"
                   "mov.u32 %r6, 100;\nbra.uni JOIN;\nODD:\nmov.u32 %r6, 200;\nJOIN:\n"
                   "activemask.b32 %r7;\npopc.b32 %r7, %r7;\nadd.u32 %r6, %r6, %r7;\n"
                   "st.global.u32 [%rd9], %r6;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 2, .threads = 64}, p);
    for (uint32_t i = 0; i < 128; i++)
        assert_int_equal(p[i], (i & 1 ? 200 : 100) + 32);
    device_free(p);
}

static void test_loops__each_lane_has_its_own_count(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        "", "mov.u32 %r5, 0;\nmov.u32 %r6, 0;\nLOOP:\nsetp.ge.u32 %p1, %r5, %r1;\n"
            "@%p1 bra DONE;\nadd.u32 %r6, %r6, %r5;\nadd.u32 %r5, %r5, 1;\nbra LOOP;\nDONE:\n"
            "activemask.b32 %r7;\nsetp.eq.u32 %p2, %r7, -1;\nselp.u32 %r8, 0, 1000000, %p2;\n"
            "add.u32 %r6, %r6, %r8;\nst.global.u32 [%rd9], %r6;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 96}, p);
    for (uint32_t i = 0; i < 96; i++)
        assert_int_equal(p[i], i * (i - 1) / 2);
    device_free(p);
}

/* A lock that the lanes of one warp take from each other: whoever waits must not keep the holder
 * from going on. */
static void test_spin_lock__lanes_of_a_warp_make_progress(void **state)
{
    (void)state;
    static const char ptx[] =
        KERNEL(".global .u32 lock;\n",
               "TRY:\natom.global.cas.b32 %r5, [lock], 0, 1;\nsetp.ne.u32 %p1, %r5, 0;\n"
               "@%p1 bra TRY;\nld.volatile.global.u32 %r6, [%rd1];\nadd.u32 %r6, %r6, 1;\n"
               "st.volatile.global.u32 [%rd1], %r6;\nmembar.gl;\n"
               "atom.global.exch.b32 %r7, [lock], 0;\n");
    for (uint64_t seed = 1; seed <= 5; seed++) {
        uint32_t *p = device_bytes(4096);
        run_ptx(ptx, (struct test_run){.blocks = 3, .threads = 64, .seed = seed}, p);
        assert_int_equal(p[0], 192);
        device_free(p);
    }
}

static void test_call__recursion_and_results(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        ".func (.param .b32 out) fact(.param .b32 n)\n{\n.reg .pred %p<3>; .reg .b32 %r<9>;\n"
        "ld.param.u32 %r1, [n];\nsetp.gt.u32 %p1, %r1, 1;\n@%p1 bra MORE;\n"
        "st.param.b32 [out], 1;\nret;\nMORE:\nsub.u32 %r2, %r1, 1;\n{\n.param .b32 a; .param .b32 "
        "b;\n"
        "st.param.b32 [a], %r2;\ncall.uni (b), fact, (a);\nld.param.b32 %r3, [b];\n}\n"
        "mul.lo.u32 %r4, %r1, %r3;\nst.param.b32 [out], %r4;\nret;\n}\n",
        "and.b32 %r5, %r1, 7;\n{\n.param .b32 a; .param .b32 b;\nst.param.b32 [a], %r5;\n"
        "call (b), fact, (a);\nld.param.b32 %r6, [b];\n}\nst.global.u32 [%rd9], %r6;\n");
    static const uint32_t want[8] = {1, 1, 2, 6, 24, 120, 720, 5040};
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 2, .threads = 64}, p);
    for (uint32_t i = 0; i < 128; i++)
        assert_int_equal(p[i], want[i & 7]);
    device_free(p);
}

static void test_call__through_pointers_that_differ_by_lane(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        ".func (.param .b32 o) twice(.param .b32 n) {\n.reg .b32 %r<3>;\nld.param.u32 %r1, [n];\n"
        "add.u32 %r2, %r1, %r1;\nst.param.b32 [o], %r2;\nret;\n}\n"
        ".func (.param .b32 o) square(.param .b32 n) {\n.reg .b32 %r<3>;\nld.param.u32 %r1, [n];\n"
        "mul.lo.u32 %r2, %r1, %r1;\nst.param.b32 [o], %r2;\nret;\n}\n"
        ".global .align 8 .u64 table[2] = {twice, square};\n",
        "and.b32 %r5, %r1, 1;\nmul.wide.u32 %rd2, %r5, 8;\nmov.u64 %rd3, table;\n"
        "add.u64 %rd3, %rd3, %rd2;\nld.global.u64 %rd4, [%rd3];\n{\n.param .b32 a; .param .b32 b;\n"
        "st.param.b32 [a], %r1;\nproto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
        "call (b), %rd4, (a), proto;\nld.param.b32 %r6, [b];\n}\nst.global.u32 [%rd9], %r6;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 32}, p);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(p[i], i & 1 ? i * i : 2 * i);
    device_free(p);
}

static void test_barrier__passes_values_between_warps(void **state)
{
    (void)state;
    static const char ptx[] =
        KERNEL("", ".shared .b32 s[256];\nmov.u32 %r5, s;\nshl.b32 %r6, %r1, 2;\n"
                   "add.u32 %r7, %r5, %r6;\nst.shared.u32 [%r7], %r4;\nbar.sync 0;\n"
                   "xor.b32 %r6, %r6, 1020;\nadd.u32 %r7, %r5, %r6;\nld.shared.u32 %r8, [%r7];\n"
                   "st.global.u32 [%rd9], %r8;\n");
    uint32_t *p = device_bytes(1 << 16);
    for (uint64_t seed = 0; seed < 4; seed++) {
        run_ptx(ptx, (struct test_run){.blocks = 9, .threads = 256, .seed = seed}, p);
        for (uint32_t i = 0; i < 9 * 256; i++)
            assert_int_equal(p[i], i / 256 * 256 + (255 - i % 256));
    }
    device_free(p);
}

static void test_barrier__reductions_and_early_exits(void **state)
{
    (void)state;
    /* a third of the threads leaves; the rest counts itself */
    static const char ptx[] =
        KERNEL("", "rem.u32 %r5, %r1, 3;\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 exit;\n"
                   "setp.eq.u32 %p2, %r5, 1;\nbar.red.popc.u32 %r6, 0, %p2;\n"
                   "bar.red.and.pred %p3, 0, %p2;\nbar.red.or.pred %p4, 0, %p2;\n"
                   "selp.u32 %r7, 1000, 0, %p3;\nselp.u32 %r8, 10000, 0, %p4;\n"
                   "add.u32 %r6, %r6, %r7;\nadd.u32 %r6, %r6, %r8;\nst.global.u32 [%rd9], %r6;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 96}, p);
    for (uint32_t i = 0; i < 96; i++)
        assert_int_equal(p[i], i % 3 ? 10032 : 0);
    device_free(p);
}

static void test_deadlock__is_reported(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL("", "setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 64;\n");
    struct sg_image *image = load_ptx(ptx);
    struct sg_fault fault;
    assert_int_equal(run_image(image, (struct test_run){.blocks = 1, .threads = 64}, NULL, &fault),
                     SG_FAULT_DEADLOCK);
    assert_non_null(strstr(fault.text, "barrier"));
    sg_image_free(image);
}

static void test_faults__name_place_and_kind(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum sg_fault_kind kind;
    } cases[] = {
        {KERNEL("", "st.global.u32 [%rd9+0x100000], %r1;\n"), SG_FAULT_ADDRESS},
        {KERNEL("", "mov.u64 %rd2, 0;\nld.u32 %r5, [%rd2];\nst.global.u32 [%rd9], %r5;\n"),
         SG_FAULT_ADDRESS},
        {KERNEL("", "st.global.u32 [%rd9+2], %r1;\n"), SG_FAULT_MISALIGNED},
        {KERNEL("", ".shared .b32 s[4];\nst.shared.u32 [s+16], %r1;\n"), SG_FAULT_ADDRESS},
        {KERNEL("", "setp.eq.u32 %p1, %r1, 5;\n@%p1 trap;\n"), SG_FAULT_TRAP},
        {KERNEL("", "mov.u64 %rd2, 12345;\nq: .callprototype _ ();\ncall %rd2, (), q;\n"),
         SG_FAULT_ILLEGAL},
        {KERNEL("", "atom.global.add.u32 %r5, [%rd1+4194304], 1;\nst.global.u32 [%rd9], %r5;\n"),
         SG_FAULT_ADDRESS},
    };
    uint32_t *p = device_bytes(4096);
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        struct sg_image *image = load_ptx(cases[i].body);
        struct sg_fault fault;
        assert_int_equal(run_image(image, (struct test_run){.blocks = 2, .threads = 32}, p, &fault),
                         cases[i].kind);
        assert_non_null(strstr(fault.text, "kernel 'k'"));
        assert_true(fault.line > 0);
        sg_image_free(image);
    }
    device_free(p);
}

/* Sum of values whose order shows in the last bits. */
static const char atomic_sum[] =
    KERNEL("", "cvt.rn.f32.u32 %f1, %r4;\nadd.f32 %f1, %f1, 0f3F800000;\nrcp.rn.f32 %f2, %f1;\n"
               "red.global.add.f32 [%rd1], %f2;\n");

static void test_order__follows_from_the_seed(void **state)
{
    (void)state;
    uint32_t *p = device_bytes(4096), first = 0, differ = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint32_t bits[2];
        for (int again = 0; again < 2; again++) {
            p[0] = 0;
            run_ptx(atomic_sum, (struct test_run){.blocks = 64, .threads = 64, .seed = seed}, p);
            bits[again] = p[0];
        }
        assert_int_equal(bits[0], bits[1]);
        if (seed == 1)
            first = bits[0];
        differ += bits[0] != first;
    }
    assert_true(differ >= 10);
    device_free(p);
}

/* Block i waits for block i - 1, all through global memory. */
static void test_blocks__may_wait_for_each_other(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        "", "mul.wide.u32 %rd2, %r2, 4;\nadd.u64 %rd3, %rd1, %rd2;\n"
            "setp.eq.u32 %p1, %r2, 0;\nmov.u32 %r5, 0;\n@%p1 bra GO;\nWAIT:\n"
            "ld.acquire.gpu.global.u32 %r5, [%rd3+-4];\nsetp.eq.u32 %p2, %r5, 0;\n"
            "@%p2 bra WAIT;\nGO:\nadd.u32 %r5, %r5, 1;\nst.release.gpu.global.u32 [%rd3], %r5;\n");
    /* they spin most of the time, ten times slower while somebody watches */
    for (uint64_t seed = 1; seed <= (test_watcher() ? 1 : 3); seed++) {
        uint32_t *p = device_bytes(4096);
        run_ptx(ptx, (struct test_run){.blocks = 500, .threads = 32, .seed = seed}, p);
        for (uint32_t i = 0; i < 500; i++)
            assert_int_equal(p[i], i + 1);
        device_free(p);
    }
}

/* A barrier of the whole grid, made of an atomic counter: all blocks have to be there. */
static void test_cooperative__all_blocks_are_resident(void **state)
{
    (void)state;
    static const char ptx[] =
        KERNEL(".global .u32 count;\n",
               "atom.global.add.u32 %r5, [count], 1;\nWAIT:\nld.volatile.global.u32 %r6, [count];\n"
               "setp.lt.u32 %p1, %r6, 9600;\n@%p1 bra WAIT;\nst.global.u32 [%rd9], 7;\n");
    uint32_t *p = device_bytes(1 << 16);
    run_ptx(ptx, (struct test_run){.blocks = 300, .threads = 32, .seed = 3, .cooperative = true},
            p);
    for (uint32_t i = 0; i < 9600; i++)
        assert_int_equal(p[i], 7);
    device_free(p);
}

static void test_printf__formats_as_c_does(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        ".global .align 1 .b8 fmt[24] = "
        "{37,53,100,124,37,45,52,115,124,37,46,50,102,124,37,108,120,"
        "37,37,10,0,0,0,0};\n.global .align 1 .b8 word[4] = {97,98,0,0};\n",
        ".local .align 8 .b8 args[32];\nmov.u64 %rd2, args;\nmov.u32 %r5, -42;\n"
        "st.local.u32 [args], %r5;\nmov.u64 %rd3, word;\nst.local.u64 [args+8], %rd3;\n"
        "mov.f64 %fd1, 0d400921FB54442D18;\nst.local.f64 [args+16], %fd1;\n"
        "mov.u64 %rd4, 0xabcdef0123;\nst.local.u64 [args+24], %rd4;\ncvta.local.u64 %rd5, %rd2;\n"
        "mov.u64 %rd6, fmt;\n{\n.param .b64 a; .param .b64 b; .param .b32 r;\nst.param.b64 [a], "
        "%rd6;\n"
        "st.param.b64 [b], %rd5;\ncall.uni (r), vprintf, (a, b);\n}\n");
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 1}, NULL);
    assert_string_equal(printed, "  -42|ab  |3.14|abcdef0123%\n");
}

static void test_link__between_modules(void **state)
{
    (void)state;
    static const char *const texts[] = {
        PTX_HEAD ".visible .global .u32 shared_value = 5;\n"
                 ".visible .func (.param .b32 o) helper(.param .b32 n) {\n.reg .b32 %r<4>;\n"
                 "ld.param.u32 %r1, [n];\nld.global.u32 %r2, [shared_value];\n"
                 "add.u32 %r3, %r1, %r2;\nst.param.b32 [o], %r3;\nret;\n}\n",
        KERNEL(".extern .global .u32 shared_value;\n"
               ".extern .func (.param .b32 o) helper(.param .b32 n);\n",
               "{\n.param .b32 a; .param .b32 b;\nst.param.b32 [a], %r1;\ncall (b), helper, (a);\n"
               "ld.param.b32 %r5, [b];\n}\nld.global.u32 %r6, [shared_value];\n"
               "mad.lo.u32 %r5, %r6, 100, %r5;\nst.global.u32 [%rd9], %r5;\n")};
    struct sg_image *image = NULL;
    struct tb_error err = {0};
    uint32_t *p = device_bytes(4096);
    assert_int_equal(load_texts(texts, 2, &image, &err), TB_OK);
    assert_int_equal(run_image(image, (struct test_run){.blocks = 1, .threads = 32}, p, NULL),
                     SG_FAULT_NONE);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(p[i], i + 505);
    sg_image_free(image);
    assert_int_equal(load_texts(texts + 1, 1, &image, &err), TB_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "helper"));
    const char *twice[] = {texts[0], texts[0]};
    assert_int_equal(load_texts(twice, 2, &image, &err), TB_ERR_EXISTS);
    device_free(p);
}

static void test_load__refuses_by_name(void **state)
{
    (void)state;
    static const char wgmma[] = KERNEL("", "wgmma.fence.sync.aligned;\n");
    struct sg_image *image = NULL;
    struct tb_error err = {0};
    const char *text = wgmma;
    assert_int_equal(load_texts(&text, 1, &image, &err), TB_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "wgmma.fence.sync.aligned"));
    assert_non_null(strstr(err.text, "'k'"));
    assert_non_null(strstr(err.text, "line"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_branches__lanes_meet_again),
        cmocka_unit_test(test_loops__each_lane_has_its_own_count),
        cmocka_unit_test(test_spin_lock__lanes_of_a_warp_make_progress),
        cmocka_unit_test(test_call__recursion_and_results),
        cmocka_unit_test(test_call__through_pointers_that_differ_by_lane),
        cmocka_unit_test(test_barrier__passes_values_between_warps),
        cmocka_unit_test(test_barrier__reductions_and_early_exits),
        cmocka_unit_test(test_deadlock__is_reported),
        cmocka_unit_test(test_faults__name_place_and_kind),
        cmocka_unit_test(test_order__follows_from_the_seed),
        cmocka_unit_test(test_blocks__may_wait_for_each_other),
        cmocka_unit_test(test_cooperative__all_blocks_are_resident),
        cmocka_unit_test(test_printf__formats_as_c_does),
        cmocka_unit_test(test_link__between_modules),
        cmocka_unit_test(test_load__refuses_by_name),
    };
    return cmocka_run_group_tests(tests, exec_setup, exec_teardown);
}
