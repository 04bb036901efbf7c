/*
 * Two streams that use one buffer: in one a kernel fills it, in the other one reads it. How the two
 * are ordered, if they are, is the argument (of two devices: those that begin with "device");
 * tests/e2e/t051-diff-stream-races.sh says what diff must say. What is read leads to a result that
 * depends on the order of blocks, too: so two runs with other seeds differ even if the streams are
 * in order; but "one" and a case launch one block each.
 *
 * usage: streams CASE [DESCRIPTORS]; start at main()
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BLOCKS 8u
#define N (BLOCKS * 64)

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuCtxEnablePeerAccess)                                                                       \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemcpyDtoHAsync)                                                                           \
    X(cuMemcpyHtoDAsync)                                                                           \
    X(cuMemAllocHost)                                                                              \
    X(cuMemsetD8)                                                                                  \
    X(cuLaunchHostFunc)                                                                            \
    X(cuLaunchKernel)                                                                              \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamQuery)                                                                               \
    X(cuStreamWaitEvent)                                                                           \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuEventQuery)                                                                                \
    X(cuEventSynchronize)

#include "tests/recorder/cuda/driver.h"

static const char image[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry fill(.param .u64 p, .param .u32 v) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [v]; cvta.to.global.u64 %d0, %d0;\n"
    " mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 64, %r2;\n"
    " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1; st.global.u32 [%d2], %r0; ret; }\n"
    /* b[i] = a[i]; the last block leaves its number behind them */
    ".visible .entry take(.param .u64 a, .param .u64 b) {\n"
    " .reg .b32 %r<5>; .reg .b64 %d<5>;\n"
    " ld.param.u64 %d0, [a]; ld.param.u64 %d3, [b];\n"
    " cvta.to.global.u64 %d0, %d0; cvta.to.global.u64 %d3, %d3;\n"
    " mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 64, %r2;\n"
    " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1; ld.global.u32 %r0, [%d2];\n"
    " add.u64 %d4, %d3, %d1; st.global.u32 [%d4], %r0;\n"
    " atom.global.exch.b32 %r4, [%d3+2048], %r3; ret; }\n";

static CUcontext contexts[2]; /* the second one: only where there are two devices */
static CUfunction fill, take;
static CUdeviceptr a, b, other;
static CUstream first, second;
static CUevent event;
static unsigned *pinned;
static unsigned blocks = BLOCKS;

/* @files: before the first call of CUDA, so many descriptors may be open; 0: as many as there were
 */
static void begin(unsigned flags, unsigned files)
{
    CUmodule module;

    load_driver();
    if (files)
        (void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){files, files});
    contexts[0] = start_driver();
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(&fill, module, "fill"));
    OK(cu.cuModuleGetFunction(&take, module, "take"));
    OK(cu.cuMemAlloc(&a, N * 4));
    OK(cu.cuMemAlloc(&b, N * 4 + 4));
    OK(cu.cuMemAlloc(&other, N * 4));
    OK(cu.cuMemAllocHost((void **)&pinned, N * 4));
    memset(pinned, 7, N * 4);
    OK(cu.cuMemsetD8(a, 0, N * 4));
    OK(cu.cuMemsetD8(b, 0, N * 4 + 4));
    OK(cu.synchronize());
    OK(cu.cuStreamCreate(&first, flags));
    OK(cu.cuStreamCreate(&second, flags));
    OK(cu.cuEventCreate(&event, 0));
}

static void do_fill(CUdeviceptr p, CUstream s)
{
    unsigned v = 5;
    void *params[] = {&p, &v};

    OK(cu.cuLaunchKernel(fill, blocks, 1, 1, 64, 1, 1, 0, s, params, NULL));
}

static void do_take(CUstream s)
{
    void *params[] = {&a, &b};

    OK(cu.cuLaunchKernel(take, blocks, 1, 1, 64, 1, 1, 0, s, params, NULL));
}

static void poll(CUresult (*query)(void *), void *of)
{
    CUresult r;

    while ((r = query(of)) == CUDA_ERROR_NOT_READY)
        ;
    OK(r);
}

static CUresult query_event(void *e)
{
    return cu.cuEventQuery(e);
}

static CUresult query_stream(void *s)
{
    return cu.cuStreamQuery(s);
}

/* The second device becomes the current one; it may use the first one's memory. */
static void second_device(void)
{
    CUmodule module;

    OK(cu.cuDevicePrimaryCtxRetain(&contexts[1], 1));
    OK(cu.cuCtxSetCurrent(contexts[1]));
    OK(cu.cuCtxEnablePeerAccess(contexts[0], 0));
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(&take, module, "take"));
}

/* Each stream writes its own half of one allocation, again and again: that needs no order. */
static void halves(void)
{
    blocks = BLOCKS / 2;
    for (unsigned i = 0; i < 12; i++) {
        do_fill(a, first);
        do_fill(a + N * 2, second);
    }
    OK(cu.synchronize());
    blocks = BLOCKS;
    do_take(first);
}

static void wait_for_device(unsigned device)
{
    OK(cu.cuCtxSetCurrent(contexts[device]));
    OK(cu.synchronize());
}

/* What is filled in a stream of the first device is taken in one of the second. */
static void two_devices(const char *how)
{
    CUstream theirs;
    bool legacy = strcmp(how, "devices") == 0 || strcmp(how, "devices0") == 0;

    second_device();
    OK(cu.cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
    OK(cu.synchronize());
    OK(cu.cuCtxSetCurrent(contexts[0]));
    do_fill(a, legacy ? NULL : first);
    if (strcmp(how, "device0") == 0 || strcmp(how, "devices0") == 0)
        wait_for_device(0);
    else if (strcmp(how, "device1") == 0)
        wait_for_device(1);
    OK(cu.cuCtxSetCurrent(contexts[1]));
    do_take(legacy ? NULL : theirs);
    wait_for_device(1);
    wait_for_device(0);
}

static void nothing(void *unused)
{
    (void)unused;
}

/* What stands between the two launches. */
static void order(const char *how, unsigned *pageable)
{
    if (strcmp(how, "event") == 0 || strcmp(how, "unwaited") == 0 || strcmp(how, "poll") == 0 ||
        strcmp(how, "hostevent") == 0)
        OK(cu.cuEventRecord(event, first));
    if (strcmp(how, "event") == 0 || strcmp(how, "early") == 0)
        OK(cu.cuStreamWaitEvent(second, event, 0));
    else if (strcmp(how, "hostevent") == 0)
        OK(cu.cuEventSynchronize(event));
    else if (strcmp(how, "poll") == 0)
        poll(query_event, event);
    else if (strcmp(how, "pollstream") == 0)
        poll(query_stream, first);
    else if (strcmp(how, "stream") == 0)
        OK(cu.cuStreamSynchronize(first));
    else if (strcmp(how, "wrong") == 0)
        OK(cu.cuStreamSynchronize(second));
    else if (strcmp(how, "context") == 0)
        OK(cu.synchronize());
    else if (strcmp(how, "legacy") == 0 || strcmp(how, "nonblocking") == 0)
        do_fill(other, NULL);
    else if (strcmp(how, "callback") == 0)
        OK(cu.cuLaunchHostFunc(first, nothing, NULL));
    else if (strcmp(how, "free") == 0)
        OK(cu.cuMemFree(other));
    else if (strcmp(how, "pageable") == 0)
        OK(cu.cuMemcpyDtoHAsync(pageable, other, N * 4, first));
    else if (strcmp(how, "pinned") == 0)
        OK(cu.cuMemcpyDtoHAsync(pinned, other, N * 4, first));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "none";
    static unsigned result[N + 1], pageable[N];
    unsigned sum = 0;

    if (strncmp(how, "one", 3) == 0) {
        blocks = 1;
        how += 3;
    }
    begin(strcmp(how, "legacy") == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING,
          argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0);
    if (strcmp(how, "early") == 0) /* recorded before there is anything to wait for */
        OK(cu.cuEventRecord(event, first));
    if (strncmp(how, "device", 6) == 0) {
        two_devices(how);
    } else if (strcmp(how, "halves") == 0) {
        halves();
    } else if (strcmp(how, "reader") ==
               0) { /* the reader comes first, and the writer does not wait */
        do_take(second);
        do_fill(a, first);
    } else if (strcmp(how, "copy") == 0) {
        OK(cu.cuMemcpyHtoDAsync(a, pinned, N * 4, first));
        do_take(second);
    } else {
        do_fill(a, first);
        order(how, pageable);
        do_take(strcmp(how, "same") == 0 ? first : second);
    }
    OK(cu.synchronize());
    OK(cu.cuMemcpyDtoH(result, b, N * 4 + 4));
    for (unsigned i = 0; i <= N; i++)
        sum = sum * 31 + result[i];
    printf("%08x, last block %u\n", sum, result[N]);
    return 0;
}
