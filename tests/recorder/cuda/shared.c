/*
 * Two streams that write one allocation through the same pointer, and what of it leaves for the
 * host. Which part a launch writes is told by a number: no recorder can see it. What diff must say
 * of two runs with other seeds: tests/e2e/t056-diff-left-for-host.sh, t057-diff-shared-buffer.sh.
 *
 * usage: shared CASE [HOW [BLOCKS]]; prints a hash of all that the host got. Start at main()
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 8u
#define N (BLOCKS * 64)
#define BYTES ((size_t)N * 4)

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAllocAsync)                                                                             \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemcpyHtoDAsync)                                                                           \
    X(cuMemAllocHost)                                                                              \
    X(cuMemHostRegister)                                                                           \
    X(cuMemcpy)                                                                                    \
    X(cuMemcpyAsync)                                                                               \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemcpyDtoHAsync)                                                                           \
    X(cuMemcpy2D)                                                                                  \
    X(cuMemcpy2DAsync)                                                                             \
    X(cuMemcpy3D)                                                                                  \
    X(cuMemsetD8)                                                                                  \
    X(cuLaunchKernel)                                                                              \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamWaitEvent)                                                                           \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphLaunch)

#include "tests/recorder/cuda/driver.h"

#define INDEX " mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 64, %r2;\n"
static const char image[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    /* p[from + i] = v */
    ".visible .entry part(.param .u64 p, .param .u32 from, .param .u32 v) {\n"
    " .reg .b32 %r<5>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [v]; ld.param.u32 %r1, [from];\n"
    " cvta.to.global.u64 %d0, %d0;\n" INDEX " add.u32 %r4, %r2, %r1;\n"
    " mul.wide.u32 %d1, %r4, 4; add.u64 %d2, %d0, %d1; st.global.u32 [%d2], %r0; ret; }\n"
    /* p[i] += 1 */
    ".visible .entry more(.param .u64 p) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d0, [p]; cvta.to.global.u64 %d0, %d0;\n" INDEX
    " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1;\n"
    " ld.global.u32 %r0, [%d2]; add.u32 %r0, %r0, 1; st.global.u32 [%d2], %r0; ret; }\n"
    /* q[i] = p[i] */
    ".visible .entry take(.param .u64 p, .param .u64 q) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<5>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u64 %d3, [q]; cvta.to.global.u64 %d0, %d0;\n"
    " cvta.to.global.u64 %d3, %d3;\n" INDEX " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1;\n"
    " ld.global.u32 %r0, [%d2]; add.u64 %d4, %d3, %d1; st.global.u32 [%d4], %r0; ret; }\n"
    /* the last block leaves its number at p ^ d, which need not be where p leads to */
    ".visible .entry last(.param .u64 p, .param .u64 d) {\n"
    " .reg .b32 %r<5>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u64 %d1, [d]; cvta.to.global.u64 %d0, %d0;\n"
    " xor.b64 %d2, %d0, %d1; mov.u32 %r3, %ctaid.x;\n"
    " atom.global.exch.b32 %r4, [%d2], %r3; ret; }\n";

static CUfunction part, more, take, last;
static CUdeviceptr a, b;
static CUstream stream[2];
static CUevent event;
static unsigned *pinned, hash;
static bool chased;

static void begin(void)
{
    CUmodule module;

    load_driver();
    (void)start_driver();
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(&part, module, "part"));
    OK(cu.cuModuleGetFunction(&more, module, "more"));
    OK(cu.cuModuleGetFunction(&take, module, "take"));
    OK(cu.cuModuleGetFunction(&last, module, "last"));
    OK(cu.cuMemAlloc(&a, BYTES));
    OK(cu.cuMemAlloc(&b, BYTES));
    OK(cu.cuMemAllocHost((void **)&pinned, BYTES));
    OK(cu.cuMemsetD8(a, 0, BYTES));
    OK(cu.cuMemsetD8(b, 0, BYTES));
    OK(cu.synchronize());
    for (int i = 0; i < 2; i++)
        OK(cu.cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    OK(cu.cuEventCreate(&event, 0));
}

/* ---------------------------------------------------------------- what leaves */

static void keep(const unsigned *got, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        hash = hash * 31 + got[i];
}

static void by_graph(void)
{
    CUgraphExec exec;
    CUgraph graph;

    OK(cu.cuStreamBeginCapture(stream[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuMemcpyDtoHAsync(pinned, a, BYTES, stream[0]));
    OK(cu.cuStreamEndCapture(stream[0], &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, stream[0]));
}

/* A copy on one branch, a kernel that writes what it reads on the other. */
static void by_branch(void)
{
    unsigned from = 0, v = 1;
    void *params[] = {&a, &from, &v};
    CUgraphExec exec;
    CUgraph graph;

    memset(pinned, 0, BYTES);
    OK(cu.cuStreamBeginCapture(stream[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuEventRecord(event, stream[0]));
    OK(cu.cuStreamWaitEvent(stream[1], event, 0));
    OK(cu.cuLaunchKernel(part, BLOCKS, 1, 1, 64, 1, 1, 0, stream[1], params, NULL));
    OK(cu.cuMemcpyDtoHAsync(pinned, a, BYTES, stream[0]));
    OK(cu.cuEventRecord(event, stream[1]));
    OK(cu.cuStreamWaitEvent(stream[0], event, 0));
    OK(cu.cuStreamEndCapture(stream[0], &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, stream[0]));
    OK(cu.cuStreamSynchronize(stream[0]));
    keep(pinned, N);
}

/* A graph whose copy brings @v from the host; @memory: into what it allocates itself. */
static void by_feeding(unsigned v, bool memory, unsigned blocks)
{
    CUdeviceptr to = a;
    void *params[] = {&to, &b};
    static unsigned given[N];
    CUgraphExec exec;
    CUgraph graph;

    for (unsigned i = 0; i < N; i++)
        given[i] = i == 7 ? v : i;
    OK(cu.cuStreamBeginCapture(stream[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (memory)
        OK(cu.cuMemAllocAsync(&to, BYTES, stream[0]));
    OK(cu.cuMemcpyHtoDAsync(to, given, BYTES, stream[0]));
    OK(cu.cuLaunchKernel(take, blocks, 1, 1, 64, 1, 1, 0, stream[0], params, NULL));
    if (memory)
        OK(cu.cuMemFreeAsync(to, stream[0]));
    OK(cu.cuStreamEndCapture(stream[0], &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, stream[0]));
    OK(cu.cuStreamSynchronize(stream[0]));
    OK(cu.cuMemcpyDtoH(pinned, b, BYTES));
    keep(pinned, N);
}

/* Rows of @width elements that lie @from bytes apart, and are put @to bytes apart. */
static void by_2d(unsigned *got, unsigned width, unsigned from, unsigned to, CUstream s)
{
    CUDA_MEMCPY2D m = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = a,
                       .srcPitch = from,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = got,
                       .dstPitch = to,
                       .WidthInBytes = (size_t)width * 4,
                       .Height = BLOCKS};

    OK(s ? cu.cuMemcpy2DAsync(&m, s) : cu.cuMemcpy2D(&m));
}

static void by_3d(unsigned *got)
{
    CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = a,
                       .srcPitch = 256,
                       .srcHeight = 2,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = got,
                       .dstPitch = 256,
                       .dstHeight = 2,
                       .WidthInBytes = 256,
                       .Height = 2,
                       .Depth = BLOCKS / 2};

    OK(cu.cuMemcpy3D(&m));
}

static bool leave_rows(const char *how, unsigned *got)
{
    CUstream s = stream[0];

    if (strcmp(how, "2d") == 0)
        by_2d(got, 64, 256, 256, NULL);
    else if (strcmp(how, "2dasync") == 0)
        by_2d(pinned, 64, 256, 256, s);
    else if (strcmp(how, "pitched") == 0)
        by_2d(got, 32, 256, 256, NULL);
    else if (strcmp(how, "pitchedasync") == 0)
        by_2d(pinned, 32, 256, 256, s);
    else if (strcmp(how, "packed") == 0)
        by_2d(got, 32, 256, 128, NULL);
    else if (strcmp(how, "packedasync") == 0)
        by_2d(pinned, 32, 256, 128, s);
    else if (strcmp(how, "spread") == 0)
        by_2d(got, 32, 128, 256, NULL);
    else if (strcmp(how, "spreadasync") == 0)
        by_2d(pinned, 32, 128, 256, s);
    else if (strcmp(how, "3d") == 0)
        by_3d(got);
    else
        return false;
    return true;
}

static void do_part(unsigned from, unsigned n, unsigned v, int s);

/* All of `a` to the host; `chased`: it is written while it leaves. */
static void leave(const char *how)
{
    static unsigned got[N] __attribute__((aligned(4096)));
    CUstream s = stream[0];

    memset(got, 0, sizeof(got));
    memset(pinned, 0, BYTES);
    if (leave_rows(how, got))
        ;
    else if (strcmp(how, "async") == 0)
        OK(cu.cuMemcpyDtoHAsync(got, a, BYTES, s));
    else if (strcmp(how, "pinned") == 0)
        OK(cu.cuMemcpyDtoHAsync(pinned, a, BYTES, s));
    else if (strcmp(how, "registered") == 0) {
        OK(cu.cuMemHostRegister(got, BYTES, 0));
        OK(cu.cuMemcpyDtoHAsync(got, a, BYTES, s));
    } else if (strcmp(how, "any") == 0)
        OK(cu.cuMemcpy((CUdeviceptr)got, a, BYTES));
    else if (strcmp(how, "anyasync") == 0)
        OK(cu.cuMemcpyAsync((CUdeviceptr)pinned, a, BYTES, s));
    else if (strcmp(how, "graph") == 0)
        by_graph();
    else
        OK(cu.cuMemcpyDtoH(got, a, BYTES));
    if (chased)
        do_part(0, N, 1, 1);
    OK(cu.cuStreamSynchronize(s));
    keep(got, N);
    keep(pinned, N);
}

/* ---------------------------------------------------------------- what is written */

static void launch(CUfunction f, unsigned blocks, void **params, int s)
{
    OK(cu.cuLaunchKernel(f, blocks, 1, 1, 64, 1, 1, 0, stream[s], params, NULL));
}

static void do_part(unsigned from, unsigned n, unsigned v, int s)
{
    void *params[] = {&a, &from, &v};

    launch(part, n / 64, params, s);
}

static void do_more(int s)
{
    void *params[] = {&a};

    launch(more, BLOCKS, params, s);
}

static void do_take(int s)
{
    void *params[] = {&a, &b};

    launch(take, BLOCKS, params, s);
}

static void do_last(CUdeviceptr p, CUdeviceptr at, int s)
{
    CUdeviceptr d = at ^ p;
    void *params[] = {&p, &d};

    launch(last, BLOCKS, params, s);
}

static void join(const char *how)
{
    if (strcmp(how, "event") == 0) {
        OK(cu.cuEventRecord(event, stream[1]));
        OK(cu.cuStreamWaitEvent(stream[0], event, 0));
        return;
    }
    OK(cu.cuStreamSynchronize(stream[0]));
    OK(cu.cuStreamSynchronize(stream[1]));
}

/* Streams that write @first and @second elements, the second one's from N - @second on. */
static void rounds(unsigned first, unsigned second, const char *how)
{
    for (unsigned v = 1; v <= 9; v += 3) {
        do_part(0, first, v, 0);
        do_part(N - second, second, v + 1, 1);
        join(how);
        do_more(0);
        do_take(0);
        OK(cu.cuStreamSynchronize(stream[0]));
        leave("sync");
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *how = argc > 2 ? argv[2] : "";

    begin();
    if (strcmp(what, "both") == 0) { /* the last one wins */
        do_part(0, N, 1, 0);
        do_part(0, N, 2, 1);
        join("sync");
        leave(how);
    } else if (strcmp(what, "early") == 0) { /* it leaves before it is written, or behind that */
        do_part(0, N, 1, 1);
        leave(how);
        OK(cu.cuStreamSynchronize(stream[1]));
    } else if (strcmp(what, "chased") == 0) { /* it is written before it has left, or behind that */
        chased = true;
        leave(how);
        OK(cu.cuStreamSynchronize(stream[1]));
    } else if (strcmp(what, "branch") == 0) { /* the same in a graph */
        by_branch();
    } else if (strcmp(what, "fed") == 0 || strcmp(what, "fedmemory") == 0) {
        by_feeding((unsigned)atoi(how), what[3] != 0, argc > 3 ? (unsigned)atoi(argv[3]) : BLOCKS);
    } else if (strcmp(what, "missed") == 0) { /* nobody sees that `a` is written */
        do_last(b, a, 0);
        join("sync");
        leave(how);
    } else if (strcmp(what, "gaps") == 0) { /* the same, behind the first row that is copied */
        do_last(b, a + 128, 0);
        join("sync");
        leave(how);
    } else if (strcmp(what, "disjoint") == 0) {
        rounds(N / 2, N / 2, how);
    } else if (strcmp(what, "overlap") == 0) {
        rounds(N / 2 + 64, N / 2 + 64, how);
    } else if (strcmp(what, "unread") == 0) { /* nothing of it leaves, and nobody reads it */
        do_part(0, N / 2, 1, 0);
        do_part(N / 2, N / 2, 2, 1);
        join("sync");
    } else if (strcmp(what, "readonly") == 0) { /* what it leads to leaves, not itself */
        for (unsigned v = 1; v <= 9; v += 3) {
            do_part(0, N / 2, v, 0);
            do_part(N / 2, N / 2, v + 1, 1);
            join("sync");
            do_take(0);
            OK(cu.cuStreamSynchronize(stream[0]));
            OK(cu.cuMemcpyDtoH(pinned, b, BYTES));
            keep(pinned, N);
        }
    } else if (strcmp(what, "scalars") == 0) {
        for (unsigned i = 0; i < 64; i++) {
            unsigned got = 0;
            do_part(0, 64, i, 0);
            OK(cu.cuMemcpyDtoHAsync(&got, a, sizeof(got), stream[0]));
            keep(&got, 1);
        }
    }
    printf("%08x\n", hash);
    return 0;
}
