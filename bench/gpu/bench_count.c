/*
 * bench_count - what the hash kernels cost, in instructions and bytes read, without a GPU.
 *
 * softgpu's engine runs them, one worker, and a watcher counts. Prints lines "metric unit value":
 * thread-instructions (PTX, warps as a whole: 32 a warp instruction) for each byte hashed, bytes
 * read from memory for each byte hashed, warp instructions of a launch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fingerprint/device/fp_device.h"
#include "softgpu/exec/watch.h"

#define SMS 132u /* the plan of an H100 */
#define SLOTS 256u
#define ROOM (72u << 20)

static void need(enum tb_status st, const struct tb_error *err)
{
    if (st == TB_OK)
        return;
    (void)fprintf(stderr, "bench_count: %s\n", err->text);
    exit(2);
}

static struct sg_mem *mem;

static enum tb_status alloc_var(void *arg, size_t size, size_t align, bool managed, uint64_t *addr,
                                struct tb_error *err)
{
    (void)arg;
    (void)managed;
    enum tb_status st = sg_mem_reserve(mem, size, align < 4096 ? 4096 : align, 0, addr, err);
    if (st == TB_OK)
        st = sg_mem_commit(mem, *addr, size, err);
    if (st == TB_OK)
        sg_mem_allow(mem, *addr, size, 1, 1);
    return st;
}

static void free_var(void *arg, uint64_t addr)
{
    (void)arg;
    sg_mem_release(mem, addr);
}

struct world {
    struct sg_machine *machine;
    struct sg_image *image;
    uint64_t slots, scratch, data;
    uint64_t ticket;
};

struct cost {
    double warp_insns, bytes_read;
};

static bool access_seen(void *arg, const struct sg_step *s, const struct sg_access *a)
{
    struct cost *c = arg;

    (void)s;
    if (a->space == SG_SPACE_GLOBAL && !a->write)
        c->bytes_read += (double)a->n;
    return true;
}

static void nothing(void *arg, const struct sg_step *s)
{
    (void)arg;
    (void)s;
}

static struct cost run(struct world *w, const char *kernel, uint32_t blocks, const void *params)
{
    struct cost cost = {0};
    const struct sg_watcher watcher = {
        .enter = nothing, .exit = nothing, .access = access_seen, .serial = true, .arg = &cost};
    struct sg_launch l = {.kernel = sg_image_kernel(w->image, kernel),
                          .grid = {blocks, 1, 1},
                          .block = {TB_FPD_THREADS, 1, 1},
                          .cluster = {1, 1, 1},
                          .params = params,
                          .sms = 4,
                          .seed = 1,
                          .watchers = {&watcher}};
    struct sg_run_stats stats;
    struct sg_fault fault;
    struct tb_error err = {0};

    need(sg_exec_run(w->machine, &l, &fault, &stats, &err), &err);
    cost.warp_insns = (double)stats.warp_insns;
    return cost;
}

static struct tb_fpd_batch batch_of(struct world *w, uint32_t jobs, uint64_t src, uint64_t bytes)
{
    struct tb_fpd_batch b = {
        .slots = w->slots, .scratch = w->scratch, .mask = SLOTS - 1, .jobs = jobs};

    for (uint32_t k = 0; k < jobs; k++)
        b.job[k] =
            (struct tb_fpd_job){.src = src + k * bytes, .bytes = bytes, .ticket = w->ticket++};
    return b;
}

static struct cost hash(struct world *w, uint32_t jobs, uint64_t src, uint64_t bytes)
{
    struct tb_fpd_batch b = batch_of(w, jobs, src, bytes);
    uint32_t blocks = tb_fpd_plan(&b, SMS);

    return run(w, jobs <= TB_FPD_FEW ? "twinbit_fp_few" : "twinbit_fp_batch", blocks, &b);
}

static void buffer(struct world *w, const char *name, uint64_t bytes, unsigned offset)
{
    struct cost c = hash(w, 1, w->data + offset, bytes);

    printf("insns_a_byte_%s 1/byte %g\n", name, c.warp_insns * 32 / (double)bytes);
    printf("read_a_byte_%s 1 %g\n", name, c.bytes_read / (double)bytes);
}

static void small(struct world *w, const char *name, uint64_t bytes)
{
    printf("warp_insns_%s count %g\n", name, hash(w, 1, w->data, bytes).warp_insns);
}

/* Eight buffers of 4 KiB, by one launch and by eight. */
static void together(struct world *w)
{
    double one = hash(w, 8, w->data, 4096).warp_insns, eight = 0;

    for (unsigned k = 0; k < 8; k++)
        eight += hash(w, 1, w->data + k * 4096, 4096).warp_insns;
    printf("warp_insns_8x4KiB_one_launch count %g\n", one);
    printf("warp_insns_8x4KiB_8_launches count %g\n", eight);
    printf("launch_of_8_over_8_launches ratio %g\n", one / eight);
}

static void strided(struct world *w, const char *name, int64_t rows, int64_t columns, int64_t step,
                    int64_t inner)
{
    struct tb_fpd_strided b = {.slots = w->slots,
                               .scratch = w->scratch,
                               .mask = SLOTS - 1,
                               .elem = 4,
                               .src = w->data,
                               .ticket = w->ticket++,
                               .ndim = 2,
                               .size = {rows, columns},
                               .stride = {step, inner}};
    uint32_t blocks = tb_fpd_plan_strided(&b, SMS);

    printf("insns_a_byte_%s 1/byte %g\n", name,
           run(w, "twinbit_fp_strided", blocks, &b).warp_insns * 32 / (double)(rows * columns * 4));
}

static void open_world(struct world *w)
{
    const struct sg_image_env env = {.arch = 80, .alloc_var = alloc_var, .free_var = free_var};
    struct sg_image_env with;
    struct sg_ptx_module *m = NULL;
    struct tb_error err = {0};
    size_t n;
    const char *text = tb_fpd_ptx(&n);

    need(sg_mem_new(&mem, &err), &err);
    with = env;
    with.mem = mem;
    need(sg_machine_new(&(struct sg_machine_options){.workers = 1}, mem, &w->machine, &err), &err);
    need(sg_ptx_parse(text, n, "fp_device.ptx", &m, &err), &err);
    need(sg_image_new(&m, 1, "fp_device.ptx", &with, &w->image, &err), &err);
    need(alloc_var(NULL, SLOTS * 32, 4096, false, &w->slots, &err), &err);
    need(alloc_var(NULL, SLOTS * TB_FPD_SCRATCH, 4096, false, &w->scratch, &err), &err);
    need(alloc_var(NULL, ROOM, 4096, false, &w->data, &err), &err);
}

int main(int argc, char **argv)
{
    struct world w = {0};
    bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;

    open_world(&w);
    buffer(&w, "16KiB", 16384, 0);
    buffer(&w, "256KiB", 256 << 10, 0);
    buffer(&w, "large", quick ? 8 << 20 : 64 << 20, 0);
    buffer(&w, "large_off_by_4", 4 << 20, 4);
    buffer(&w, "large_off_by_1", 4 << 20, 1);
    small(&w, "empty", 0);
    small(&w, "4B", 4);
    small(&w, "64B", 64);
    small(&w, "200B", 200);
    small(&w, "1000B", 1000);
    small(&w, "4KiB", 4096);
    small(&w, "100KiB", 102400);
    together(&w);
    strided(&w, "transposed", 512, 512, 1, 512);
    strided(&w, "rows", 512, 512, 700, 1);
    sg_image_free(w.image);
    sg_machine_free(w.machine);
    sg_mem_free(mem);
    return 0;
}
