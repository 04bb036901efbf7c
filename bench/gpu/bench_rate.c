/*
 * bench_gpu_rate - how fast a device hashes its memory, and how fast it reads it.
 *
 *     bench_gpu_rate [-l LIBRARY] READ_SUM.PTX MIB ROUNDS
 *
 * Prints a line a round: GB/s of the hash, GB/s of the sum, for one buffer of MIB mebibytes; a
 * round takes both in turn, several launches each, timed by events. The value is compared with the
 * host's first. Status 77: no device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fingerprint/device/gpu.h"

#define LAUNCHES 10 /* of one timing */

struct world {
    struct gpu gpu;
    CUmodule peer;
    CUfunction sum;
    CUdeviceptr data, out;
    uint64_t bytes;
    CUevent start, end;
};

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);

    if (f == NULL || text == NULL || fread(text, 1, (1 << 16) - 1, f) == 0) {
        (void)fprintf(stderr, "bench_gpu_rate: cannot read '%s'\n", path);
        exit(2);
    }
    (void)fclose(f);
    return text;
}

static void launch_hash(struct world *w)
{
    struct tb_fpd_batch b;

    gpu_begin(&w->gpu, &b);
    gpu_add(&w->gpu, &b, w->data, w->bytes, 0);
    gpu_launch(&w->gpu, &b, w->gpu.sms, NULL);
}

static void launch_sum(struct world *w)
{
    void *params[] = {&w->data, &w->bytes, &w->out};

    NEED(cuLaunchKernel, w->sum, w->gpu.sms * 8, 1, 1, 256, 1, 1, 0, NULL, params, NULL);
}

/* GB/s of @LAUNCHES calls */
static double rate(struct world *w, void (*launch)(struct world *w))
{
    float ms = 0;

    NEED(cuEventRecord, w->start, NULL);
    for (int k = 0; k < LAUNCHES; k++)
        launch(w);
    NEED(cuEventRecord, w->end, NULL);
    NEED(cuEventSynchronize, w->end);
    NEED(cuEventElapsedTime, &ms, w->start, w->end);
    return (double)w->bytes * LAUNCHES / 1e6 / (double)ms;
}

static void check(struct world *w)
{
    uint64_t *host = malloc(w->bytes), x = 1;
    struct tb_fp want, got;

    if (host == NULL)
        exit(2);
    for (uint64_t k = 0; k < w->bytes / 8; k++)
        host[k] = x = x * 6364136223846793005u + 1442695040888963407u;
    NEED(cuMemcpyHtoD, w->data, host, w->bytes);
    want = tb_fp_host(host, w->bytes, 0);
    free(host);
    launch_hash(w);
    NEED(cuCtxSynchronize);
    got = gpu_take(&w->gpu, w->gpu.ticket - 1);
    if (tb_fp_equal(got, want))
        return;
    (void)fprintf(stderr, "bench_gpu_rate: the device's fingerprint is not the host's\n");
    exit(2);
}

static void open_world(struct world *w, const char *library, const char *ptx, uint64_t mib)
{
    size_t n;
    char *text = read_file(ptx);

    tb_fp_init();
    gpu_open(&w->gpu, library, tb_fpd_image(&n));
    NEED(cuModuleLoadData, &w->peer, text);
    free(text);
    NEED(cuModuleGetFunction, &w->sum, w->peer, "read_sum");
    w->bytes = mib << 20;
    NEED(cuMemAlloc, &w->data, w->bytes);
    NEED(cuMemAlloc, &w->out, 8);
    NEED(cuMemsetD8, w->out, 0, 8);
    NEED(cuEventCreate, &w->start, CU_EVENT_DEFAULT);
    NEED(cuEventCreate, &w->end, CU_EVENT_DEFAULT);
}

static void close_world(struct world *w)
{
    NEED(cuEventDestroy, w->start);
    NEED(cuEventDestroy, w->end);
    NEED(cuMemFree, w->data);
    NEED(cuMemFree, w->out);
    NEED(cuModuleUnload, w->peer);
    gpu_close(&w->gpu);
}

int main(int argc, char **argv)
{
    struct world w = {0};
    const char *library = NULL;

    if (argc > 2 && strcmp(argv[1], "-l") == 0) {
        library = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc != 4) {
        (void)fprintf(stderr, "usage: bench_gpu_rate [-l LIBRARY] READ_SUM.PTX MIB ROUNDS\n");
        return 2;
    }
    open_world(&w, library, argv[1], strtoull(argv[2], NULL, 10));
    check(&w);
    launch_sum(&w);
    for (long k = strtol(argv[3], NULL, 10); k > 0; k--) {
        double hash = rate(&w, launch_hash), sum = rate(&w, launch_sum);

        printf("%g %g\n", hash, sum);
    }
    close_world(&w);
    return 0;
}
