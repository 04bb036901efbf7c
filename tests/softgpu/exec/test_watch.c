/* What watchers see of a launch, and what they may change. */
#include "tests/softgpu/exec/exec_test.h"

#define THREADS 96u

struct seen {
    unsigned begins, ends, block_starts, block_ends, barriers;
    unsigned enters, exits;
    unsigned lanes; /* of all instructions that were left */
    unsigned reads, writes, shared_reads, shared_writes;
    uint32_t last_line;
    int64_t flip;       /* the sum with this number has a bit changed, in lane 7 of warp 1 */
    uint64_t forbidden; /* address that nobody may read */
};

static void on_begin(void *arg, const struct sg_launch *l)
{
    struct seen *s = arg;

    assert_non_null(l->kernel);
    s->begins++;
}

static void on_end(void *arg, const struct sg_launch *l, const struct sg_fault *fault)
{
    struct seen *s = arg;

    (void)l;
    assert_int_equal(fault->kind != SG_FAULT_NONE, s->forbidden != 0);
    s->ends++;
}

static void on_block_start(void *arg, struct sg_block *b)
{
    ((struct seen *)arg)->block_starts++;
    assert_true(b->linear < 4);
}

static void on_block_end(void *arg, struct sg_block *b)
{
    ((struct seen *)arg)->block_ends++;
    assert_true(b->linear < 4);
}

static void on_barrier(void *arg, struct sg_block *b, uint32_t id)
{
    (void)b;
    assert_int_equal(id, 0);
    ((struct seen *)arg)->barriers++;
}

static void on_enter(void *arg, const struct sg_step *step)
{
    struct seen *s = arg;

    s->enters++;
    s->last_line = step->ptx->line;
}

static void on_leave(void *arg, const struct sg_step *step)
{
    struct seen *s = arg;
    unsigned size = 99;

    assert_int_equal(step->ptx->line, s->last_line);
    s->exits++;
    s->lanes += (unsigned)__builtin_popcount(step->mask);
    if (s->flip == 0 || step->ptx->op != SG_OP_ADD || step->ptx->opnds[2].kind != SG_OPND_IMM ||
        step->ptx->opnds[2].imm != s->flip || step->warp->index != 1)
        return;
    uint32_t *d = (uint32_t *)(void *)sg_step_register(step, &step->ptx->opnds[0], &size);
    assert_non_null(d);
    assert_int_equal(size, 4);
    d[7] ^= 1u << 20;
}

static bool on_access(void *arg, const struct sg_step *step, const struct sg_access *a)
{
    struct seen *s = arg;

    assert_true(step->mask >> a->lane & 1);
    assert_int_equal(a->n, 4);
    if (a->space == SG_SPACE_SHARED) {
        assert_ptr_equal(a->block, step->warp->block);
        assert_ptr_equal(a->bytes, a->block->shared + a->addr);
        *(a->write ? &s->shared_writes : &s->shared_reads) += 1;
    } else {
        assert_ptr_equal(a->bytes, (void *)(uintptr_t)a->addr);
        *(a->write ? &s->writes : &s->reads) += 1;
    }
    if (a->space == SG_SPACE_SHARED || a->addr != s->forbidden)
        return true;
    sg_warp_fault(step->warp, NULL, SG_FAULT_ADDRESS, a->lane, a->addr,
                  "a read that the test forbids");
    return false;
}

static struct sg_watcher watcher_of(struct seen *s)
{
    return (struct sg_watcher){.begin = on_begin,
                               .end = on_end,
                               .block_start = on_block_start,
                               .block_end = on_block_end,
                               .barrier = on_barrier,
                               .enter = on_enter,
                               .exit = on_leave,
                               .access = on_access,
                               .arg = s};
}

/* p[i] = (p[i] + 5) of the thread that mirrors this one in its block, odd threads once more. */
static const char mirror[] = KERNEL(
    "", ".shared .align 4 .b8 s[384];\nld.global.u32 %r3, [%rd9];\nadd.u32 %r3, %r3, 5;\n"
        "mov.u32 %r5, s;\nshl.b32 %r6, %r1, 2;\nadd.u32 %r7, %r5, %r6;\n"
        "st.shared.u32 [%r7], %r3;\nbar.sync 0;\nsub.u32 %r8, 380, %r6;\n"
        "add.u32 %r8, %r8, %r5;\nld.shared.u32 %r9, [%r8];\nand.b32 %r10, %r1, 1;\n"
        "setp.ne.u32 %p1, %r10, 0;\n@%p1 add.u32 %r9, %r9, 1;\nst.global.u32 [%rd9], %r9;\n");

static void fill(uint32_t *p)
{
    for (uint32_t i = 0; i < 4 * THREADS; i++)
        p[i] = i * i;
}

static uint32_t expected(uint32_t i)
{
    uint32_t t = i % THREADS, other = i - t + (THREADS - 1 - t);

    return other * other + 5 + (t & 1);
}

static void test_watch__sees_every_instruction_and_access(void **state)
{
    struct seen s = {0};
    struct sg_watcher watcher = watcher_of(&s);
    uint32_t *p = device_bytes(4 * 4 * THREADS);

    (void)state;
    fill(p);
    run_ptx(mirror,
            (struct test_run){
                .blocks = 4, .threads = THREADS, .cooperative = true, .watcher = &watcher},
            p);
    for (uint32_t i = 0; i < 4 * THREADS; i++)
        assert_int_equal(p[i], expected(i));
    assert_int_equal(s.begins, 1);
    assert_int_equal(s.ends, 1);
    assert_int_equal(s.block_starts, 4);
    assert_int_equal(s.block_ends, 4);
    assert_int_equal(s.barriers, 4);
    assert_int_equal(s.reads, 4 * THREADS);
    assert_int_equal(s.writes, 4 * THREADS);
    assert_int_equal(s.shared_reads, 4 * THREADS);
    assert_int_equal(s.shared_writes, 4 * THREADS);
    /* 12 warps; the return is not left; half of the lanes skip one instruction */
    assert_int_equal(s.enters, s.exits + 12);
    assert_int_equal(s.exits % 12, 0);
    assert_int_equal(s.lanes, 32 * s.exits - 12 * 16);
    device_free(p);
}

static void test_watch__a_changed_result_is_what_the_program_goes_on_with(void **state)
{
    struct seen s = {.flip = 5};
    struct sg_watcher watcher = watcher_of(&s);
    uint32_t *p = device_bytes(4 * 4 * THREADS);

    (void)state;
    fill(p);
    run_ptx(mirror,
            (struct test_run){
                .blocks = 1, .threads = THREADS, .cooperative = true, .watcher = &watcher},
            p);
    for (uint32_t i = 0; i < THREADS; i++) {
        bool hit = THREADS - 1 - i == 32 + 7;
        uint32_t sum = (THREADS - 1 - i) * (THREADS - 1 - i) + 5;
        assert_int_equal(p[i], (hit ? sum ^ 1u << 20 : sum) + (i & 1));
    }
    device_free(p);
}

static void test_watch__a_forbidden_access_ends_the_launch(void **state)
{
    uint32_t *p = device_bytes(4 * 4 * THREADS);
    struct seen s = {.forbidden = (uint64_t)(uintptr_t)&p[40]};
    struct sg_watcher watcher = watcher_of(&s);
    struct sg_image *image = load_ptx(mirror);
    struct sg_fault fault;

    (void)state;
    fill(p);
    assert_int_equal(
        run_image(image,
                  (struct test_run){
                      .blocks = 1, .threads = THREADS, .cooperative = true, .watcher = &watcher},
                  p, &fault),
        SG_FAULT_ADDRESS);
    assert_non_null(strstr(fault.text, "a read that the test forbids"));
    assert_int_equal(fault.thread[0], 40);
    assert_int_equal(fault.address, s.forbidden);
    sg_image_free(image);
    device_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watch__sees_every_instruction_and_access),
        cmocka_unit_test(test_watch__a_changed_result_is_what_the_program_goes_on_with),
        cmocka_unit_test(test_watch__a_forbidden_access_ends_the_launch),
    };
    return cmocka_run_group_tests(tests, exec_setup, exec_teardown);
}
