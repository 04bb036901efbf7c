/* The engine of engine.h: one worker, memory of its own. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

static struct sg_mem *mem; /* of the one engine that is open */

static void need(enum tb_status st, const struct tb_error *err)
{
    if (st == TB_OK)
        return;
    (void)fprintf(stderr, "the engine: %s\n", err->text);
    exit(2);
}

static enum tb_status alloc_var(void *arg, size_t size, size_t align, bool managed, uint64_t *addr,
                                struct tb_error *err)
{
    enum tb_status st = sg_mem_reserve(mem, size, align < 4096 ? 4096 : align, 0, addr, err);

    (void)arg;
    (void)managed;
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

void engine_open(struct engine *e, uint32_t sms, size_t room)
{
    struct sg_image_env env = {.arch = 80, .alloc_var = alloc_var, .free_var = free_var};
    struct sg_ptx_module *m = NULL;
    struct tb_error err = {0};
    size_t n;
    const char *text = tb_fpd_ptx(&n);

    *e = (struct engine){.sms = sms};
    need(sg_mem_new(&mem, &err), &err);
    env.mem = mem;
    need(sg_machine_new(&(struct sg_machine_options){.workers = 1}, mem, &e->machine, &err), &err);
    need(sg_ptx_parse(text, n, "fp_device.ptx", &m, &err), &err);
    need(sg_image_new(&m, 1, "fp_device.ptx", &env, &e->image, &err), &err);
    need(alloc_var(NULL, ENGINE_SLOTS * sizeof(uint64_t[4]), 4096, false, &e->slots, &err), &err);
    need(alloc_var(NULL, ENGINE_SLOTS * TB_FPD_SCRATCH, 4096, false, &e->scratch, &err), &err);
    need(alloc_var(NULL, room, 4096, false, &e->data, &err), &err);
}

void engine_close(struct engine *e)
{
    sg_image_free(e->image);
    sg_machine_free(e->machine);
    sg_mem_free(mem);
}

static uint64_t run(struct engine *e, const struct sg_watcher *w, const char *kernel,
                    uint32_t blocks, const void *params)
{
    struct sg_launch l = {.kernel = sg_image_kernel(e->image, kernel),
                          .grid = {blocks, 1, 1},
                          .block = {TB_FPD_THREADS, 1, 1},
                          .cluster = {1, 1, 1},
                          .params = params,
                          .sms = 4,
                          .seed = 1,
                          .watchers = {w}};
    struct sg_run_stats stats;
    struct sg_fault fault;
    struct tb_error err = {0};

    need(sg_exec_run(e->machine, &l, &fault, &stats, &err), &err);
    return stats.warp_insns;
}

uint64_t engine_batch(struct engine *e, const struct sg_watcher *w, uint32_t jobs, uint64_t src,
                      uint64_t bytes, uint32_t rate)
{
    struct tb_fpd_batch b = {
        .slots = e->slots, .scratch = e->scratch, .mask = ENGINE_SLOTS - 1, .jobs = jobs};

    for (uint32_t k = 0; k < jobs; k++)
        b.job[k] = (struct tb_fpd_job){
            .src = src + k * bytes, .bytes = bytes, .ticket = e->ticket++, .rate = rate};
    return run(e, w, jobs <= TB_FPD_FEW ? "twinbit_fp_few" : "twinbit_fp_batch",
               tb_fpd_plan(&b, e->sms), &b);
}

uint64_t engine_matrix(struct engine *e, const struct sg_watcher *w, const int64_t size[2],
                       const int64_t stride[2])
{
    struct tb_fpd_strided b = {.slots = e->slots,
                               .scratch = e->scratch,
                               .mask = ENGINE_SLOTS - 1,
                               .elem = 4,
                               .src = e->data,
                               .ticket = e->ticket++,
                               .ndim = 2,
                               .size = {size[0], size[1]},
                               .stride = {stride[0], stride[1]}};
    uint32_t blocks = tb_fpd_plan_strided(&b, e->sms);

    return run(e, w, "twinbit_fp_strided", blocks, &b);
}
