/*
 * What must hold at every instruction of the kernels, and that no value shows:
 *
 * - All lanes are at the same shuffle or vote when it is executed, since each names all of them.
 *   softgpu lets lanes meet that are at different ones; a GPU promises nothing.
 * - No byte is read that is not hashed: it may be nobody's.
 */
#include "tests/fingerprint/fp_test.h"

#include "engine.h"

#define LINES 32768 /* of the PTX */
#define ROOM (1u << 20)

static struct seen {
    uint32_t entered[LINES], left[LINES]; /* by how many warps; a wait enters again */
    uint32_t divided;                     /* executed by some lanes only */
    uint32_t executed;
    const struct engine *e;
    uint8_t may[ROOM]; /* bytes of the data that are hashed */
    uint64_t read, foreign;
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

static bool access_seen(void *arg, const struct sg_step *s, const struct sg_access *a)
{
    struct seen *k = arg;
    uint64_t at = a->addr - k->e->data;

    (void)s;
    if (a->space != SG_SPACE_GLOBAL || at + 64 >= ROOM + 64) /* the table, the secret */
        return true;
    for (uint64_t b = at; b < at + a->n; b++)
        k->foreign += b >= ROOM || !k->may[b];
    k->read += a->n;
    return true;
}

static const struct sg_watcher watcher = {
    .enter = enter, .exit = leave, .access = access_seen, .serial = true, .arg = &seen};

static void buffer(struct engine *e, uint64_t offset, uint64_t bytes, uint32_t rate)
{
    memset(seen.may, 0, ROOM);
    memset(seen.may + offset, 1, bytes);
    seen.read = 0;
    engine_batch(e, &watcher, 1, e->data + offset, bytes, rate);
    if (seen.foreign)
        fail_msg("%llu foreign bytes are read for %llu at %llu", (unsigned long long)seen.foreign,
                 (unsigned long long)bytes, (unsigned long long)offset);
    if (rate == 0)
        assert_true(seen.read >= bytes);
}

static void matrix(struct engine *e, const int64_t size[2], const int64_t stride[2])
{
    memset(seen.may, 0, ROOM);
    for (int64_t i = 0; i < size[0]; i++)
        for (int64_t j = 0; j < size[1]; j++)
            memset(seen.may + 4 * (i * stride[0] + j * stride[1]), 1, 4);
    engine_matrix(e, &watcher, size, stride);
    assert_int_equal(seen.foreign, 0);
}

static const int64_t shapes[][4] = {
    {64, 64, 1, 64}, {300, 500, 1, 300}, {300, 500, 600, 1}, {7, 5, 9, 1}, {500, 333, 333, 1}};

static void test_engine__reads_what_is_hashed_and_nothing_else(void **state)
{
    static const uint64_t bytes[] = {7,    8,     15,    31,    33,    127,    130,
                                     239,  241,   1023,  1029,  4091,  4096,   4099,
                                     8192, 12301, 16384, 16390, 40001, 135168, 200003};
    struct engine e;

    (void)state;
    engine_open(&e, 4, ROOM);
    seen.e = &e;
    for (uint64_t k = 0; k < 260; k++)
        buffer(&e, k % 16, k, 0);
    for (size_t k = 0; k < TB_ARRAY_LEN(bytes); k++)
        for (unsigned offset = k % 2; offset<16; offset += bytes[k]> 5000 ? 5 : 2)
            buffer(&e, offset, bytes[k], (unsigned)(k % 4));
    for (size_t k = 0; k < TB_ARRAY_LEN(shapes); k++)
        matrix(&e, shapes[k], shapes[k] + 2);
    engine_close(&e);
}

static void test_engine__all_lanes_take_part_in_every_shuffle(void **state)
{
    (void)state; /* of the test before */
    assert_true(seen.executed > 1000);
    assert_int_equal(seen.divided, 0);
    for (uint32_t k = 0; k < LINES; k++)
        if (seen.entered[k] && !seen.left[k])
            fail_msg("line %u of fp_device.ptx: lanes wait there and go on from elsewhere", k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine__reads_what_is_hashed_and_nothing_else),
        cmocka_unit_test(test_engine__all_lanes_take_part_in_every_shuffle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
