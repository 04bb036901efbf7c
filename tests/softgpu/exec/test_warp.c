/* Instructions that look at other lanes, and how divided warps meet again. */
#include "tests/softgpu/exec/exec_test.h"

/* A loop whose lanes come back at different times and then exchange values, all of them. */
static void test_sync__lanes_that_come_back_in_a_loop_meet(void **state)
{
    (void)state;
    static const char ptx[] =
        KERNEL("", "mov.u32 %r5, 0;\nmov.u32 %r6, 0;\nLOOP:\n"
                   "shfl.sync.bfly.b32 %r7, %r1, 1, 31, -1;\nadd.u32 %r6, %r6, %r7;\n"
                   "add.u32 %r5, %r5, 1;\nsetp.ge.u32 %p1, %r5, 5;\n@%p1 bra DONE;\n"
                   "and.b32 %r8, %r1, 1;\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra LOOP;\n"
                   "add.u32 %r9, %r9, 1;\nbra LOOP;\nDONE:\nst.global.u32 [%rd9], %r6;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 64}, p);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(p[i], 5 * (i ^ 1));
    device_free(p);
}

/* Tiles of a warp: each lane names the members of its own tile. */
static void test_vote__members_differ_by_lane(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        "", "setp.lt.u32 %p1, %r1, 16;\nselp.u32 %r5, 0xffff, 0xffff0000, %p1;\n"
            "and.b32 %r6, %r1, 3;\nsetp.eq.u32 %p2, %r6, 0;\n"
            "vote.sync.ballot.b32 %r7, %p2, %r5;\nst.global.u32 [%rd9], %r7;\n"
            "setp.lt.u32 %p3, %r1, 17;\nvote.sync.all.pred %p4, %p3, %r5;\n"
            "vote.sync.any.pred %p5, %p3, %r5;\nvote.sync.uni.pred %p6, %p3, %r5;\n"
            "selp.u32 %r8, 1, 0, %p4;\nselp.u32 %r9, 2, 0, %p5;\nselp.u32 %r10, 4, 0, %p6;\n"
            "add.u32 %r8, %r8, %r9;\nadd.u32 %r8, %r8, %r10;\nst.global.u32 [%rd9+128], %r8;\n"
            "redux.sync.add.s32 %r11, %r1, %r5;\nst.global.u32 [%rd9+256], %r11;\n"
            "and.b32 %r12, %r1, 7;\nmatch.any.sync.b32 %r13, %r12, %r5;\n"
            "st.global.u32 [%rd9+384], %r13;\nselp.u32 %r14, 9, %r1, %p1;\n"
            "match.all.sync.b32 %r15|%p7, %r14, %r5;\nselp.u32 %r16, %r15, 7, %p7;\n"
            "st.global.u32 [%rd9+512], %r16;\nelect.sync %r17|%p8, %r5;\n"
            "selp.u32 %r18, 100, 0, %p8;\nadd.u32 %r17, %r17, %r18;\n"
            "st.global.u32 [%rd9+640], %r17;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 32}, p);
    for (uint32_t i = 0; i < 32; i++) {
        bool low = i < 16;
        assert_int_equal(p[i], low ? 0x1111 : 0x11110000);
        assert_int_equal(p[32 + i], low ? 7 : 2);
        assert_int_equal(p[64 + i], low ? 120 : 376);
        assert_int_equal(p[96 + i], 0x101u << (i & 7) << (low ? 0 : 16));
        assert_int_equal(p[128 + i], low ? 0xffff : 7);
        assert_int_equal(p[160 + i], (low ? 0 : 16) + (i % 16 == 0 ? 100 : 0));
    }
    device_free(p);
}

static void test_brx__guarded(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        "", "and.b32 %r5, %r1, 3;\nsetp.lt.u32 %p1, %r1, 20;\nmov.u32 %r6, 5;\n"
            "T: .branchtargets A, B, C, D;\n@%p1 brx.idx %r5, T;\nmov.u32 %r6, 7;\nbra D;\n"
            "A:\nmov.u32 %r6, 10;\nbra D;\nB:\nmov.u32 %r6, 11;\nbra D;\nC:\nmov.u32 %r6, 12;\n"
            "D:\nst.global.u32 [%rd9], %r6;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 32}, p);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(p[i], i >= 20 ? 7 : i % 4 == 3 ? 5 : 10 + i % 4);
    device_free(p);
}

/* Lanes in different functions at the same time: their registers must not touch each other. The
 * functions have registers of different widths, and wait in a barrier while others run. */
static void test_call__functions_that_run_at_the_same_time_keep_their_registers(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        ".func (.param .b32 o) wide(.param .b32 n) {\n.reg .b64 %rd<9>; .reg .b32 %r<3>;\n"
        "ld.param.u32 %r1, [n];\ncvt.u64.u32 %rd1, %r1;\nmul.lo.u64 %rd2, %rd1, 0x300000000;\n"
        "mul.lo.u64 %rd3, %rd1, 0x500000000;\nbar.warp.sync -1;\nadd.u64 %rd4, %rd2, %rd3;\n"
        "shr.u64 %rd4, %rd4, 32;\nadd.u64 %rd4, %rd4, %rd1;\ncvt.u32.u64 %r2, %rd4;\nst.param.b32 "
        "[o], %r2;\nret;\n}\n"
        ".func (.param .b32 o) narrow(.param .b32 n) {\n.reg .b32 %r<9>;\nld.param.u32 %r1, [n];\n"
        "mul.lo.u32 %r2, %r1, 7;\nmul.lo.u32 %r3, %r1, 11;\nbar.warp.sync -1;\n"
        "add.u32 %r4, %r2, %r3;\nadd.u32 %r4, %r4, %r1;\nst.param.b32 [o], %r4;\nret;\n}\n"
        ".global .align 8 .u64 table[2] = {wide, narrow};\n",
        "and.b32 %r5, %r1, 1;\nmul.wide.u32 %rd2, %r5, 8;\nmov.u64 %rd3, table;\n"
        "add.u64 %rd3, %rd3, %rd2;\nld.global.u64 %rd4, [%rd3];\n{\n.param .b32 a; .param .b32 b;\n"
        "st.param.b32 [a], %r1;\nproto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
        "call (b), %rd4, (a), proto;\nld.param.b32 %r6, [b];\n}\nst.global.u32 [%rd9], %r6;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 32}, p);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(p[i], i & 1 ? 19 * i : 9 * i);
    device_free(p);
}

static void test_setp__packed_halves_may_overwrite_their_third_source(void **state)
{
    (void)state;
    static const char ptx[] = KERNEL(
        "", "mov.b32 %r5, 0x3c004000;\nmov.b32 %r6, 0x3c003c00;\nsetp.lt.u32 %p1, %r1, 16;\n"
            "setp.eq.and.f16x2 %p1|%p2, %r5, %r6, %p1;\nselp.u32 %r7, 1, 0, %p1;\n"
            "selp.u32 %r8, 2, 0, %p2;\nadd.u32 %r7, %r7, %r8;\nst.global.u32 [%rd9], %r7;\n");
    uint32_t *p = device_bytes(4096);
    run_ptx(ptx, (struct test_run){.blocks = 1, .threads = 32}, p);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(p[i], i < 16 ? 2 : 0);
    device_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync__lanes_that_come_back_in_a_loop_meet),
        cmocka_unit_test(test_vote__members_differ_by_lane),
        cmocka_unit_test(test_brx__guarded),
        cmocka_unit_test(test_call__functions_that_run_at_the_same_time_keep_their_registers),
        cmocka_unit_test(test_setp__packed_halves_may_overwrite_their_third_source),
    };
    return cmocka_run_group_tests(tests, exec_setup, exec_teardown);
}
