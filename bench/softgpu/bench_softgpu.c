/*
 * bench_softgpu - one round of the engine's figures, without driver and runtime.
 *
 *     bench_softgpu KERNELS.PTX SGEMM-RUNS EMPTY-BLOCKS PARSES
 *
 * Prints one line, blank-separated: thread-instructions/s of a 256^3 SGEMM on one core; the same of
 * an axpy, of a random gather; empty one-warp blocks/s on one core and on all; milliseconds to
 * parse and to load (link and decode) one kernel. Times are CPU times of the process except "on
 * all", which is wall time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "softgpu/exec/exec.h"

static double now(clockid_t clock)
{
    struct timespec ts;

    (void)clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void need(enum tb_status st, const struct tb_error *err)
{
    if (st == TB_OK)
        return;
    (void)fprintf(stderr, "bench_softgpu: %s\n", err->text);
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

static uint64_t device_array(size_t bytes)
{
    struct tb_error err = {0};
    uint64_t addr = 0;

    need(alloc_var(NULL, bytes, 4096, false, &addr, &err), &err);
    return addr;
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(1 << 20);

    if (f == NULL || text == NULL) {
        (void)fprintf(stderr, "bench_softgpu: cannot read '%s'\n", path);
        exit(2);
    }
    *n = fread(text, 1, 1 << 20, f);
    (void)fclose(f);
    return text;
}

struct times {
    double parse, load;
};

static struct sg_image *load(const char *text, size_t n, struct times *t)
{
    const struct sg_image_env env = {
        .mem = mem, .arch = 80, .alloc_var = alloc_var, .free_var = free_var};
    struct tb_error err = {0};
    struct sg_ptx_module *m = NULL;
    struct sg_image *image = NULL;
    double start = now(CLOCK_PROCESS_CPUTIME_ID);

    need(sg_ptx_parse(text, n, "kernels.ptx", &m, &err), &err);
    double parsed = now(CLOCK_PROCESS_CPUTIME_ID);
    need(sg_image_new(&m, 1, "kernels.ptx", &env, &image, &err), &err);
    t->parse += parsed - start;
    t->load += now(CLOCK_PROCESS_CPUTIME_ID) - parsed;
    return image;
}

/* Runs @l @times times; thread-instructions a second of the process's CPU time. */
static double rate(struct sg_machine *m, const struct sg_launch *l, int times)
{
    struct tb_error err = {0};
    struct sg_fault fault;
    struct sg_run_stats stats;
    double start = now(CLOCK_PROCESS_CPUTIME_ID), n = 0;

    for (int i = 0; i < times; i++) {
        need(sg_exec_run(m, l, &fault, &stats, &err), &err);
        n += (double)stats.thread_insns;
    }
    return n / (now(CLOCK_PROCESS_CPUTIME_ID) - start);
}

static struct sg_launch launch_of(const struct sg_image *image, const char *name, uint32_t gx,
                                  uint32_t gy, uint32_t threads, const void *params)
{
    struct sg_launch l = {.kernel = sg_image_kernel(image, name),
                          .grid = {gx, gy, 1},
                          .block = {threads, 1, 1},
                          .cluster = {1, 1, 1},
                          .params = params,
                          .sms = 4,
                          .seed = 1};

    if (l.kernel == NULL) {
        (void)fprintf(stderr, "bench_softgpu: no kernel '%s'\n", name);
        exit(2);
    }
    return l;
}

#define N 256u
#define LONG (1u << 20)

static double sgemm(struct sg_machine *m, const struct sg_image *image, int times)
{
    struct {
        uint64_t a, b, c;
        int n;
    } p = {device_array(N * N * 4), device_array(N * N * 4), device_array(N * N * 4), (int)N};
    float *a = (float *)(uintptr_t)p.a, *b = (float *)(uintptr_t)p.b;
    const float *c = (const float *)(uintptr_t)p.c;
    struct sg_launch l = launch_of(image, "sgemm", N / 64, N / 64, 256, &p);

    for (uint32_t i = 0; i < N * N; i++) {
        a[i] = (float)(i % 7);
        b[i] = (float)(i % 5);
    }
    double r = rate(m, &l, times);
    double want = 0;
    for (uint32_t k = 0; k < N; k++)
        want += (double)a[3 * N + k] * (double)b[k * N + 5];
    if ((double)c[3 * N + 5] != want) {
        (void)fprintf(stderr, "bench_softgpu: sgemm gave %g, not %g\n", (double)c[3 * N + 5], want);
        exit(2);
    }
    return r;
}

static double axpy(struct sg_machine *m, const struct sg_image *image)
{
    struct {
        uint64_t x, y;
        float a;
        int n;
    } p = {device_array(LONG * 4), device_array(LONG * 4), 2, (int)LONG};
    struct sg_launch l = launch_of(image, "axpy", LONG / 256, 1, 256, &p);

    return rate(m, &l, 4);
}

static double gather(struct sg_machine *m, const struct sg_image *image)
{
    struct {
        uint64_t x, at, y;
        int n;
    } p = {device_array(LONG * 4), device_array(LONG * 4), device_array(LONG * 4), (int)LONG};
    int *at = (int *)(uintptr_t)p.at;
    struct sg_launch l = launch_of(image, "gather", LONG / 256, 1, 256, &p);

    for (uint32_t i = 0; i < LONG; i++)
        at[i] = (int)(i * 2654435761u % LONG);
    return rate(m, &l, 4);
}

static double empty_blocks(struct sg_machine *m, const struct sg_image *image, uint32_t n,
                           clockid_t clock)
{
    struct sg_launch l = launch_of(image, "empty", n, 1, 32, "");
    struct sg_fault fault;
    struct tb_error err = {0};
    double start = now(clock);

    need(sg_exec_run(m, &l, &fault, NULL, &err), &err);
    return n / (now(clock) - start);
}

int main(int argc, char **argv)
{
    struct tb_error err = {0};
    struct sg_machine *one = NULL, *all = NULL;
    struct times t = {0};
    size_t n;

    if (argc != 5) {
        (void)fprintf(stderr, "usage: bench_softgpu KERNELS.PTX SGEMM-RUNS EMPTY-BLOCKS PARSES\n");
        return 2;
    }
    char *text = read_file(argv[1], &n);
    int runs = atoi(argv[2]), parses = atoi(argv[4]);
    uint32_t blocks = (uint32_t)atoi(argv[3]);
    need(sg_mem_new(&mem, &err), &err);
    need(sg_machine_new(&(struct sg_machine_options){.workers = 1}, mem, &one, &err), &err);
    need(sg_machine_new(&(struct sg_machine_options){.workers = 0}, mem, &all, &err), &err);
    for (int i = 1; i < parses; i++)
        sg_image_free(load(text, n, &t));
    struct sg_image *image = load(text, n, &t);
    size_t kernels = sg_image_kernel_count(image) * (size_t)parses;
    double gemm = sgemm(one, image, runs), ax = axpy(one, image), ga = gather(one, image);
    double empty = empty_blocks(one, image, blocks, CLOCK_PROCESS_CPUTIME_ID);
    double both = empty_blocks(all, image, blocks, CLOCK_MONOTONIC);
    printf("%g %g %g %g %g %g %g\n", gemm, ax, ga, empty, both, t.parse * 1e3 / (double)kernels,
           t.load * 1e3 / (double)kernels);
    sg_image_free(image);
    sg_machine_free(one);
    sg_machine_free(all);
    sg_mem_free(mem);
    free(text);
    return 0;
}
