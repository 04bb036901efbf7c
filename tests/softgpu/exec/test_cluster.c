/* Clusters of blocks: their barrier, their shared memory, what happens when blocks end or never
 * come. */
#include "tests/softgpu/exec/exec_test.h"

#define SYNC "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"

/* Each thread adds to its partner in the next block; many more clusters than are resident. */
static void test_cluster__blocks_see_each_others_shared_memory(void **state)
{
    static const char ptx[] =
        KERNEL("", ".shared .align 4 .b8 s[128];\nmov.u32 %r5, s;\nshl.b32 %r6, %r1, 2;\n"
                   "add.u32 %r5, %r5, %r6;\nst.shared.u32 [%r5], %r4;\n" SYNC
                   "mov.u32 %r7, %cluster_ctarank;\nmov.u32 %r8, %cluster_nctarank;\n"
                   "add.u32 %r7, %r7, 1;\nrem.u32 %r7, %r7, %r8;\n"
                   "mapa.shared::cluster.u32 %r9, %r5, %r7;\n"
                   "red.shared::cluster.add.u32 [%r9], 100000;\n" SYNC
                   "ld.shared::cluster.u32 %r10, [%r9];\nld.shared.u32 %r11, [%r5];\n"
                   "mad.lo.u32 %r10, %r11, 3, %r10;\nst.global.u32 [%rd9], %r10;\n" SYNC);
    static const uint32_t sizes[] = {1, 2, 4, 8, 16};
    uint32_t *p = device_bytes(4 * 32 * 512);

    (void)state;
    for (uint32_t k = 0; k < 5; k++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            uint32_t size = sizes[k];
            run_ptx(ptx,
                    (struct test_run){.blocks = 512,
                                      .threads = 32,
                                      .cluster = size,
                                      .seed = seed,
                                      .in_order = seed == 2},
                    p);
            for (uint32_t i = 0; i < 512 * 32; i++) {
                uint32_t block = i / 32, next = block / size * size + (block + 1) % size;
                uint32_t other = next * 32 + i % 32;
                assert_int_equal(p[i], 3 * (i + 100000) + other + 100000);
            }
        }
    device_free(p);
}

/* Generic addresses; whose memory an address is; what is one's own. */
static void test_cluster__generic_addresses_name_their_block(void **state)
{
    static const char ptx[] = KERNEL(
        "",
        ".shared .align 8 .b8 s[64];\nmov.u32 %r5, %cluster_ctarank;\nxor.b32 %r6, %r5, 1;\n"
        "mov.u64 %rd2, s;\ncvta.shared.u64 %rd3, %rd2;\nmapa.u64 %rd4, %rd3, %r6;\n"
        "mapa.u64 %rd5, %rd4, %r5;\nst.u32 [%rd4+8], %r2;\n" SYNC
        "ld.shared.u32 %r7, [s+8];\nld.u32 %r8, [%rd5+8];\n"
        "getctarank.u64 %r9, %rd3;\ngetctarank.u64 %r10, %rd4;\n"
        "cvta.to.shared.u64 %rd6, %rd4;\ncvt.u32.u64 %r11, %rd6;\n"
        "getctarank.shared::cluster.u32 %r12, %r11;\n"
        "isspacep.shared::cta %p1, %rd3;\nisspacep.shared::cta %p2, %rd4;\n"
        "isspacep.shared::cluster %p3, %rd4;\nisspacep.shared::cta %p4, %rd5;\n"
        "isspacep.global %p5, %rd4;\nmov.pred %p6, %is_explicit_cluster;\n"
        "selp.u32 %r13, 1, 0, %p1;\n@%p2 add.u32 %r13, %r13, 2;\n@%p3 add.u32 %r13, %r13, 4;\n"
        "@%p4 add.u32 %r13, %r13, 8;\n@%p5 add.u32 %r13, %r13, 16;\n"
        "@%p6 add.u32 %r13, %r13, 32;\nmul.wide.u32 %rd7, %r2, 32;\nadd.u64 %rd7, %rd7, %rd1;\n"
        "st.global.u32 [%rd7], %r7;\nst.global.u32 [%rd7+4], %r8;\nst.global.u32 [%rd7+8], %r9;\n"
        "st.global.u32 [%rd7+12], %r10;\nst.global.u32 [%rd7+16], %r12;\n"
        "st.global.u32 [%rd7+20], %r13;\n" SYNC);
    uint32_t *p = device_bytes(4096);

    (void)state;
    run_ptx(ptx, (struct test_run){.blocks = 8, .threads = 1, .cluster = 2}, p);
    for (uint32_t b = 0; b < 8; b++) {
        const uint32_t want[6] = {b ^ 1, b ^ 1, b & 1, ~b & 1, ~b & 1, 1 + 4 + 8 + 32};
        assert_memory_equal(p + (size_t)8 * b, want, sizeof(want));
    }
    device_free(p);
}

/* Who waits needs that the others have arrived, not that they wait. */
static void test_barrier__arrival_is_enough(void **state)
{
    static const char ptx[] = KERNEL(
        "", "barrier.cluster.arrive.release;\nsetp.eq.u32 %p1, %r2, 0;\n@!%p1 bra OTHER;\n"
            "barrier.cluster.wait.acquire;\nst.global.u32 [%rd1], 7;\nret;\nOTHER:\n"
            "SPIN: ld.volatile.global.u32 %r5, [%rd1];\nsetp.eq.u32 %p2, %r5, 0;\n@%p2 bra SPIN;\n"
            "barrier.cluster.wait.acquire;\nst.global.u32 [%rd9], %r5;\nret;\n");
    uint32_t *p = device_bytes(4096);

    (void)state;
    run_ptx(ptx, (struct test_run){.blocks = 2, .threads = 32, .cluster = 2}, p);
    for (uint32_t i = 32; i < 64; i++)
        assert_int_equal(p[i], 7);
    device_free(p);
}

/* Phase after phase, with threads that end on the way. */
static void test_barrier__threads_that_ended_are_not_waited_for(void **state)
{
    static const char ptx[] =
        KERNEL("", "mov.u32 %r5, 0;\nadd.u32 %r6, %r4, 1;\nLOOP:\nsetp.ge.u32 %p1, %r5, %r6;\n"
                   "@%p1 ret;\nred.global.add.u32 [%rd1], 1;\nbarrier.cluster.arrive;\n"
                   "barrier.cluster.wait;\nadd.u32 %r5, %r5, 1;\nbra LOOP;\n");
    uint32_t *p = device_bytes(4096);

    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        p[0] = 0;
        run_ptx(ptx, (struct test_run){.blocks = 4, .threads = 40, .cluster = 4, .seed = seed}, p);
        assert_int_equal(p[0], 160 * 161 / 2);
    }
    device_free(p);
}

static void test_faults__of_clusters(void **state)
{
    static const struct {
        const char *text;
        enum sg_fault_kind kind;
    } rows[] = {
        /* a rank that does not exist */
        {KERNEL("", ".shared .b32 s;\nmov.u32 %r5, s;\nmapa.shared::cluster.u32 %r6, %r5, 2;\n"
                    "st.shared::cluster.u32 [%r6], 1;\n" SYNC),
         SG_FAULT_ADDRESS},
        {KERNEL("", ".shared .b32 s;\nmov.u32 %r5, s;\nmapa.shared::cluster.u32 %r6, %r5, 255;\n"
                    "st.shared::cluster.u32 [%r6], 1;\n" SYNC),
         SG_FAULT_ADDRESS},
        /* behind the other block's memory */
        {KERNEL("", ".shared .b32 s;\nmov.u32 %r5, s;\nmapa.shared::cluster.u32 %r6, %r5, 1;\n"
                    "st.shared::cluster.u32 [%r6+4], 1;\n" SYNC),
         SG_FAULT_ADDRESS},
        /* a block that has ended */
        {KERNEL("", ".shared .b32 s;\nsetp.eq.u32 %p1, %r2, 1;\n@%p1 ret;\n" SYNC
                    "mov.u32 %r5, s;\nmapa.shared::cluster.u32 %r6, %r5, 1;\n"
                    "ld.shared::cluster.u32 %r7, [%r6];\n"),
         SG_FAULT_ADDRESS},
        /* one waits for its cluster, the other for a warp that is not there */
        {KERNEL("", "setp.eq.u32 %p1, %r2, 1;\n@%p1 barrier.sync 1, 64;\n" SYNC),
         SG_FAULT_DEADLOCK},
        {KERNEL("", "setp.eq.u32 %p1, %r2, 1;\n@%p1 ret;\nbarrier.sync 1, 64;\n"),
         SG_FAULT_DEADLOCK},
    };
    uint32_t *p = device_bytes(4096);

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(rows); i++)
        for (uint64_t seed = 0; seed < 4; seed++)
            assert_int_equal(
                fault_of(rows[i].text, p,
                         (struct test_run){.blocks = 2, .threads = 32, .cluster = 2, .seed = seed}),
                rows[i].kind);
    device_free(p);
}

/* cp.async.bulk into the next block, whose barrier hears of it; arrivals from afar. */
static void test_cluster__bulk_copies_and_arrivals_reach_other_blocks(void **state)
{
    static const char ptx[] = KERNEL(
        "",
        ".shared .align 16 .b8 from[256], to[256];\n.shared .align 8 .b64 bar;\n"
        "setp.eq.u32 %p1, %r1, 0;\nshl.b32 %r5, %r1, 2;\nmov.u32 %r6, from;\nadd.u32 %r6, %r6, "
        "%r5;\n"
        "st.shared.u32 [%r6], %r4;\n@%p1 mbarrier.init.shared::cta.b64 [bar], 2;\n" SYNC
        "mov.u32 %r7, %cluster_ctarank;\nadd.u32 %r7, %r7, 1;\nand.b32 %r7, %r7, 3;\n"
        "mov.u32 %r8, to;\nmapa.shared::cluster.u32 %r9, %r8, %r7;\nmov.u32 %r10, bar;\n"
        "mapa.shared::cluster.u32 %r11, %r10, %r7;\nmov.u32 %r12, from;\n"
        "@!%p1 bra WAIT;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;\n"
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r9], [%r12], "
        "256, "
        "[%r11];\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];\n"
        "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;\n"
        "add.u32 %r13, %r8, %r5;\nld.shared.u32 %r14, [%r13];\nst.global.u32 [%rd9], %r14;\n" SYNC);
    uint32_t *p = device_bytes(8192);

    (void)state;
    run_ptx(ptx, (struct test_run){.blocks = 8, .threads = 64, .cluster = 4}, p);
    for (uint32_t i = 0; i < 512; i++) {
        uint32_t block = i / 64, before = block / 4 * 4 + (block + 3) % 4;
        assert_int_equal(p[i], before * 64 + i % 64);
    }
    device_free(p);
}

/* The coordinates of clusters in three dimensions. */
static void test_cluster__coordinates(void **state)
{
    static const char ptx[] = KERNEL(
        "", "mov.u32 %r5, %ctaid.y;\nmov.u32 %r6, %ctaid.z;\nmov.u32 %r7, %nctaid.x;\n"
            "mov.u32 %r8, %nctaid.y;\nmad.lo.u32 %r9, %r6, %r8, %r5;\nmad.lo.u32 %r9, %r9, %r7, "
            "%r2;\nmul.wide.u32 %rd2, %r9, 16;\nadd.u64 %rd2, %rd2, %rd1;\n"
            "mov.u32 %r10, %cluster_ctaid.x;\nmov.u32 %r11, %cluster_ctaid.y;\n"
            "mov.u32 %r12, %cluster_ctaid.z;\nmov.u32 %r13, %cluster_ctarank;\n"
            "st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};\n" SYNC
            "mov.u32 %r14, %clusterid.z;\nmov.u32 %r15, %nclusterid.y;\nmov.u32 %r16, "
            "%cluster_nctaid.x;\nmad.lo.u32 %r14, %r14, 100, %r15;\nmad.lo.u32 %r14, %r14, 100, "
            "%r16;\nst.global.u32 [%rd2], %r14;\n");
    struct sg_image *image = load_ptx(ptx);
    uint32_t *p = device_bytes(8192);
    uint64_t params[2] = {(uint64_t)(uintptr_t)p};
    struct sg_fault fault;
    struct tb_error err = {0};
    struct sg_launch l = {.kernel = sg_image_kernel(image, "k"),
                          .grid = {4, 6, 4},
                          .block = {1, 1, 1},
                          .cluster = {2, 3, 2},
                          .params = params,
                          .sms = 2};

    (void)state;
    assert_int_equal(sg_exec_run(test_machine, &l, &fault, NULL, &err), TB_OK);
    for (uint32_t i = 0; i < 96; i++) {
        uint32_t x = i % 4 % 2, y = i / 4 % 6 % 3, z = i / 24;
        const uint32_t want[4] = {(z / 2 * 100 + 2) * 100 + 2, y, z % 2, x + 2 * (y + 3 * (z % 2))};
        assert_memory_equal(p + (size_t)4 * i, want, sizeof(want));
    }
    l.cluster[0] = 3;
    assert_int_equal(sg_exec_run(test_machine, &l, &fault, NULL, &err), TB_ERR_ARG);
    assert_non_null(strstr(err.text, "3x3x2"));
    sg_image_free(image);
    device_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster__blocks_see_each_others_shared_memory),
        cmocka_unit_test(test_cluster__generic_addresses_name_their_block),
        cmocka_unit_test(test_barrier__arrival_is_enough),
        cmocka_unit_test(test_barrier__threads_that_ended_are_not_waited_for),
        cmocka_unit_test(test_faults__of_clusters),
        cmocka_unit_test(test_cluster__bulk_copies_and_arrivals_reach_other_blocks),
        cmocka_unit_test(test_cluster__coordinates),
    };
    return cmocka_run_group_tests(tests, exec_setup, exec_teardown);
}
