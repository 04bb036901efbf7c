/*
 * bench_count - what the hash kernels cost, in instructions and bytes read, without a GPU.
 *
 * softgpu's engine runs them, one worker, and a watcher counts. Prints lines "metric unit value":
 * thread-instructions (PTX, warps as a whole: 32 a warp instruction) for each byte hashed, bytes
 * read from memory for each byte hashed, warp instructions of a launch.
 */
#include <stdio.h>
#include <string.h>

#include "tests/fingerprint/device/engine.h"

#define SMS 132u /* the plan of an H100 */
#define ROOM (72u << 20)

static void none(void *arg, const struct sg_step *s)
{
    (void)arg;
    (void)s;
}

static bool access_seen(void *arg, const struct sg_step *s, const struct sg_access *a)
{
    double *read = arg;

    (void)s;
    if (a->space == SG_SPACE_GLOBAL && !a->write)
        *read += (double)a->n;
    return true;
}

static void buffer(struct engine *e, const char *name, uint64_t bytes, unsigned offset)
{
    double read = 0, n = (double)bytes;
    const struct sg_watcher w = {
        .enter = none, .exit = none, .access = access_seen, .serial = true, .arg = &read};
    uint64_t insns = engine_batch(e, &w, 1, e->data + offset, bytes, 0);

    printf("insns_a_byte_%s 1/byte %g\n", name, (double)insns * 32 / n);
    printf("read_a_byte_%s ratio %g\n", name, read / n);
}

static void small(struct engine *e, const char *name, uint64_t bytes)
{
    uint64_t insns = engine_batch(e, NULL, 1, e->data, bytes, 0);

    printf("warp_insns_%s count %llu\n", name, (unsigned long long)insns);
}

/* Eight buffers of 4 KiB, by one launch and by eight. */
static void together(struct engine *e)
{
    uint64_t one = engine_batch(e, NULL, 8, e->data, 4096, 0), eight = 0;

    for (unsigned k = 0; k < 8; k++)
        eight += engine_batch(e, NULL, 1, e->data + k * 4096, 4096, 0);
    printf("warp_insns_8x4KiB_one_launch count %llu\n", (unsigned long long)one);
    printf("warp_insns_8x4KiB_8_launches count %llu\n", (unsigned long long)eight);
    printf("one_launch_over_8 ratio %g\n", (double)one / (double)eight);
}

static void matrix(struct engine *e, const char *name, int64_t row, int64_t column)
{
    const int64_t size[2] = {1024, 1024}, stride[2] = {row, column};
    uint64_t insns = engine_matrix(e, NULL, size, stride);

    printf("insns_a_byte_%s 1/byte %g\n", name, (double)insns * 32 / (1024 * 1024 * 4));
}

int main(int argc, char **argv)
{
    struct engine e;

    engine_open(&e, SMS, ROOM);
    buffer(&e, "16KiB", 16384, 0);
    buffer(&e, "256KiB", 256 << 10, 0);
    buffer(&e, "large", argc == 2 && strcmp(argv[1], "--quick") == 0 ? 32 << 20 : 64 << 20, 0);
    buffer(&e, "off_by_4", 8 << 20, 4);
    buffer(&e, "off_by_1", 8 << 20, 1);
    small(&e, "empty", 0);
    small(&e, "4B", 4);
    small(&e, "200B", 200);
    small(&e, "1000B", 1000);
    small(&e, "4KiB", 4096);
    together(&e);
    matrix(&e, "transposed", 1, 1024);
    matrix(&e, "rows", 1400, 1);
    engine_close(&e);
    return 0;
}
