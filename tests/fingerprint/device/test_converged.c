/*
 * Every shuffle and vote of the kernels names all lanes, so all lanes must be at the same one when
 * it is executed. softgpu lets lanes meet that are at different ones; a GPU promises nothing.
 */
#include "tests/fingerprint/fp_test.h"

#include "engine.h"

#define LINES 32768 /* of the PTX */
#define ROOM (1u << 20)

static struct seen {
    uint32_t entered[LINES], left[LINES]; /* by how many warps; a wait enters again */
    uint32_t divided;                     /* executed by some lanes only */
    uint32_t executed;
} seen;

static bool is_joint(const struct sg_ptx_insn *p)
{
    return p->op == SG_OP_SHFL || p->op == SG_OP_VOTE;
}

static void enter(void *arg, const struct sg_step *s)
{
    struct seen *k = arg;

    if (is_joint(s->ptx) && s->ptx->line < LINES)
        k->entered[s->ptx->line]++;
}

static void leave(void *arg, const struct sg_step *s)
{
    struct seen *k = arg;

    if (!is_joint(s->ptx) || s->ptx->line >= LINES)
        return;
    k->left[s->ptx->line]++;
    k->executed++;
    k->divided += s->mask != UINT32_MAX;
}

static void test_converged__all_lanes_take_part_in_every_shuffle(void **state)
{
    static const uint64_t bytes[] = {0,    1,    3,     4,     9,     16,     17,    128,
                                     129,  240,  241,   1024,  1025,  4095,   4096,  4097,
                                     8192, 9000, 16384, 16385, 40000, 300000, 700000};
    static const int64_t shapes[][4] = {
        {64, 64, 1, 64}, {300, 500, 1, 300}, {300, 500, 600, 1}, {7, 5, 9, 1}, {500, 333, 333, 1}};
    const struct sg_watcher w = {.enter = enter, .exit = leave, .serial = true, .arg = &seen};
    struct engine e;

    (void)state;
    engine_open(&e, 4, ROOM);
    for (size_t k = 0; k < TB_ARRAY_LEN(bytes); k++)
        for (unsigned offset = 0; offset < 9; offset += offset ? 7 : 1)
            engine_batch(&e, &w, 1, e.data + offset, bytes[k], k % 3 * 2);
    engine_batch(&e, &w, 9, e.data, 5000, 0);
    for (size_t k = 0; k < TB_ARRAY_LEN(shapes); k++)
        engine_matrix(&e, &w, shapes[k], shapes[k] + 2);
    engine_close(&e);
    assert_true(seen.executed > 1000);
    assert_int_equal(seen.divided, 0);
    for (uint32_t k = 0; k < LINES; k++)
        if (seen.entered[k] && !seen.left[k])
            fail_msg("line %u of fp_device.ptx: lanes wait there and go on from elsewhere", k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_converged__all_lanes_take_part_in_every_shuffle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
