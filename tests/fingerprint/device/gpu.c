/* The device of gpu.h. */
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library; /* set once by gpu_open() */

void *gpu_symbol(const char *name)
{
    void *p = dlsym(library, name);

    if (p)
        return p;
    fprintf(stderr, "the library has no '%s'\n", name);
    exit(1);
}

void gpu_need(const char *what, CUresult r)
{
    const char *name = NULL;

    if (r == CUDA_SUCCESS)
        return;
    CU(cuGetErrorName)(r, &name);
    fprintf(stderr, "%s: %s\n", what, name ? name : "unknown error");
    exit(1);
}

static _Noreturn void skip(const char *why)
{
    printf("skipped: %s\n", why);
    exit(77);
}

static void make_table(struct gpu *g)
{
    void *host;

    NEED(cuMemHostAlloc, &host, GPU_SLOTS * sizeof *g->slots, CU_MEMHOSTALLOC_DEVICEMAP);
    NEED(cuMemHostGetDevicePointer, &g->slots_at, host, 0);
    memset(host, 0, GPU_SLOTS * sizeof *g->slots);
    g->slots = host;
    NEED(cuMemAlloc, &g->scratch, (size_t)GPU_SLOTS * TB_FPD_SCRATCH);
    NEED(cuMemsetD8, g->scratch, 0, (size_t)GPU_SLOTS * TB_FPD_SCRATCH);
}

void gpu_open(struct gpu *g, const char *path, const void *image)
{
    CUdevice dev;
    int sms;

    *g = (struct gpu){.ticket = 0};
    library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        skip("no libcuda.so.1");
    if (CU(cuInit)(0) != CUDA_SUCCESS || CU(cuDeviceGet)(&dev, 0) != CUDA_SUCCESS)
        skip("no CUDA device");
    NEED(cuDevicePrimaryCtxRetain, &g->ctx, dev);
    NEED(cuCtxSetCurrent, g->ctx);
    NEED(cuDeviceGetAttribute, &sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev);
    g->sms = (uint32_t)sms;
    NEED(cuModuleLoadData, &g->module, image);
    NEED(cuModuleGetFunction, &g->few, g->module, "twinbit_fp_few");
    NEED(cuModuleGetFunction, &g->batch, g->module, "twinbit_fp_batch");
    NEED(cuModuleGetFunction, &g->alike, g->module, "twinbit_fp_alike");
    NEED(cuModuleGetFunction, &g->strided, g->module, "twinbit_fp_strided");
    NEED(cuModuleGetFunction, &g->fill, g->module, "twinbit_fp_fill");
    make_table(g);
}

void gpu_close(struct gpu *g)
{
    CUdevice dev;

    NEED(cuCtxSynchronize);
    NEED(cuMemFree, g->scratch);
    NEED(cuMemFreeHost, g->slots);
    NEED(cuModuleUnload, g->module);
    NEED(cuCtxGetDevice, &dev);
    NEED(cuDevicePrimaryCtxRelease, dev);
}

void gpu_begin(struct gpu *g, struct tb_fpd_batch *b)
{
    b->slots = g->slots_at;
    b->scratch = g->scratch;
    b->base = 0;
    b->mask = GPU_SLOTS - 1;
    b->jobs = 0;
}

uint64_t gpu_add(struct gpu *g, struct tb_fpd_batch *b, CUdeviceptr src, uint64_t bytes,
                 uint32_t rate)
{
    b->job[b->jobs++] =
        (struct tb_fpd_job){.src = src, .bytes = bytes, .ticket = g->ticket, .rate = rate};
    return g->ticket++;
}

void gpu_launch(struct gpu *g, struct tb_fpd_batch *b, uint32_t sms, CUstream stream)
{
    void *params[] = {b};
    uint32_t blocks = tb_fpd_plan(b, sms);

    if (blocks)
        NEED(cuLaunchKernel, b->jobs <= TB_FPD_FEW ? g->few : g->batch, blocks, 1, 1,
             TB_FPD_THREADS, 1, 1, 0, stream, params, NULL);
}

struct tb_fp gpu_take(struct gpu *g, uint64_t ticket)
{
    struct tb_wire_slot *s = &g->slots[ticket & (GPU_SLOTS - 1)];

    if (s->stamp != ticket + 1) {
        fprintf(stderr, "ticket %llu: the slot's stamp is %llu\n", (unsigned long long)ticket,
                (unsigned long long)s->stamp);
        exit(1);
    }
    s->taken = ticket + 1;
    return (struct tb_fp){s->a, s->b};
}

int gpu_settled(struct gpu *g)
{
    static uint8_t got[GPU_SLOTS * TB_FPD_SCRATCH];
    int all = 1;

    NEED(cuMemcpyDtoH, got, g->scratch, sizeof got);
    for (size_t k = 0; k < sizeof got; k++)
        all &= got[k] == 0;
    return all;
}
