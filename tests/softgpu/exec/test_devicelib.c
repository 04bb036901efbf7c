/* Cooperative grids through the functions of the device runtime. */
#include "tests/softgpu/exec/exec_test.h"

#define DECLARATIONS                                                                               \
    ".extern .func (.param .b64 h) cudaCGGetIntrinsicHandle (.param .b32 scope);\n"                \
    ".extern .func (.param .b32 e) cudaCGSynchronize (.param .b64 h, .param .b32 flags);\n"        \
    ".extern .func (.param .b32 e) cudaCGGetSize (.param .b64 n, .param .b64 g, .param .b64 h);\n" \
    ".extern .func (.param .b32 e) cudaCGGetRank (.param .b64 r, .param .b64 g, .param .b64 h);\n"
#define HANDLE(scope)                                                                              \
    "{ .param .b32 a; .param .b64 q; mov.u32 %r10, " scope "; st.param.b32 [a], %r10;\n"           \
    "call.uni (q), cudaCGGetIntrinsicHandle, (a); ld.param.b64 %rd2, [q]; }\n"
#define SYNC                                                                                       \
    "{ .param .b64 a; .param .b32 b; .param .b32 q; st.param.b64 [a], %rd2;\n"                     \
    "mov.u32 %r10, 0; st.param.b32 [b], %r10;\n"                                                   \
    "call.uni (q), cudaCGSynchronize, (a, b); ld.param.b32 %r11, [q]; }\n"
#define ASK(name, first, second)                                                                   \
    "{ .param .b64 a; .param .b64 b; .param .b64 c; .param .b32 q; st.param.b64 [a], " first ";\n" \
    "st.param.b64 [b], " second "; st.param.b64 [c], %rd2;\n"                                      \
    "call.uni (q), " name ", (a, b, c); ld.param.b32 %r11, [q]; }\n"

/* Each round takes over what the thread of the next block has: without a barrier of the whole grid,
 * somebody sees a value of another round. */
static const char rotate[] = KERNEL(
    DECLARATIONS,
    HANDLE("1") "mov.u32 %r5, %nctaid.x;\nst.global.u32 [%rd9], %r2;\n" SYNC
                "add.u32 %r6, %r2, 1;\nrem.u32 %r6, %r6, %r5;\n"
                "mad.lo.u32 %r6, %r6, %r3, %r1;\nmul.wide.u32 %rd3, %r6, 4;\nadd.u64 %rd3, %rd3, "
                "%rd1;\nmov.u32 %r7, 0;\n"
                "round:\nld.volatile.global.u32 %r8, [%rd3];\n" SYNC
                "add.u32 %r8, %r8, %r11;\nst.volatile.global.u32 [%rd9], %r8;\n" SYNC
                "add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, 9;\n@%p1 bra round;\n");

static void test_grid__barrier_holds_all_blocks(void **state)
{
    enum { BLOCKS = 7, THREADS = 70 };
    uint32_t *p = device_bytes(BLOCKS * THREADS * sizeof(*p));

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct test_run r = {
            .blocks = BLOCKS, .threads = THREADS, .seed = seed, .cooperative = true};

        run_ptx(rotate, r, p);
        for (uint32_t i = 0; i < BLOCKS * THREADS; i++)
            assert_int_equal(p[i], (i / THREADS + 9) % BLOCKS);
    }
    device_free(p);
}

static void test_grid__is_there_in_cooperative_launches_only(void **state)
{
    static const char text[] = KERNEL(DECLARATIONS, HANDLE("1") SYNC
                                      "mov.b64 {%r5, %r6}, %rd2;\nor.b32 %r5, %r5, %r6;\n"
                                      "setp.ne.u32 %p1, %r5, 0;\nselp.u32 %r5, 100, 0, %p1;\n"
                                      "add.u32 %r5, %r5, %r11;\nst.global.u32 [%rd9], %r5;\n");
    uint32_t *p = device_bytes(64 * sizeof(*p));

    (void)state;
    run_ptx(text, (struct test_run){.blocks = 2, .threads = 32, .cooperative = true}, p);
    assert_int_equal(p[63], 100);
    run_ptx(text, (struct test_run){.blocks = 2, .threads = 32}, p);
    assert_int_equal(p[63], 1); /* no handle, cudaErrorInvalidValue */
    device_free(p);
}

static void test_grid__other_scopes_have_no_handle(void **state)
{
    static const char text[] = KERNEL(DECLARATIONS, HANDLE("2") "st.global.u64 [%rd1], %rd2;\n");
    uint64_t *p = device_bytes(sizeof(*p));

    (void)state;
    *p = 7;
    run_ptx(text, (struct test_run){.blocks = 1, .threads = 1, .cooperative = true}, p);
    assert_int_equal(*p, 0);
    device_free(p);
}

static void test_grid__size_and_rank(void **state)
{
    static const char text[] = KERNEL(
        DECLARATIONS ".global .align 4 .u32 size;\n.global .align 4 .u32 grids = 9;\n"
                     ".global .align 4 .u32 grid = 9;\n",
        HANDLE("1") "mov.u64 %rd4, size;\ncvta.global.u64 %rd4, %rd4;\nmov.u64 %rd5, grids;\n"
                    "mov.u64 %rd6, grid;\nmov.u64 %rd7, 0;\n" ASK("cudaCGGetSize", "%rd4", "%rd5")
                        ASK("cudaCGGetSize", "%rd4", "%rd7") ASK("cudaCGGetRank", "%rd9", "%rd6")
                            SYNC "ld.global.u32 %r5, [size];\nld.global.u32 %r6, [grids];\n"
                                 "ld.global.u32 %r7, [grid];\nld.global.u32 %r8, [%rd9];\n"
                                 "mad.lo.u32 %r8, %r5, 1000, %r8;\nmad.lo.u32 %r8, %r6, 1000000, "
                                 "%r8;\nmad.lo.u32 %r8, %r7, 10000000, %r8;\n"
                                 "st.global.u32 [%rd9], %r8;\n");
    uint32_t *p = device_bytes(60 * sizeof(*p));

    (void)state;
    run_ptx(text, (struct test_run){.blocks = 3, .threads = 20, .cooperative = true}, p);
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(p[i], 1060000 + i);
    device_free(p);
}

static void test_grid__a_program_may_bring_its_own(void **state)
{
    static const char text[] =
        KERNEL(".visible .func (.param .b64 h) cudaCGGetIntrinsicHandle (.param .b32 scope)\n"
               "{ .reg .b64 %x; mov.u64 %x, 77; st.param.b64 [h], %x; ret; }\n"
               ".extern .func (.param .b32 e) cudaCGSynchronize (.param .b64 h, .param .b32 f);\n",
               HANDLE("1") "st.global.u64 [%rd1], %rd2;\n");
    uint64_t *p = device_bytes(sizeof(*p));

    (void)state;
    run_ptx(text, (struct test_run){.blocks = 1, .threads = 1, .cooperative = true}, p);
    assert_int_equal(*p, 77);
    device_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid__barrier_holds_all_blocks),
        cmocka_unit_test(test_grid__is_there_in_cooperative_launches_only),
        cmocka_unit_test(test_grid__other_scopes_have_no_handle),
        cmocka_unit_test(test_grid__size_and_rank),
        cmocka_unit_test(test_grid__a_program_may_bring_its_own),
    };

    return cmocka_run_group_tests(tests, exec_setup, exec_teardown);
}
