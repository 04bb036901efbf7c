/*
 * Threads of the host that write parts of one allocation, each through a stream of its own. Runs
 * have equal results, whichever thread is first; but for "sum": there one of them adds floats by
 * atomics. What diff must say: tests/e2e/t097-diff-threads.sh. "halves" is one thread that does so
 * with two streams, and adds in the upper half: t117-diff-pointers.sh.
 *
 * usage: threads CASE [ODD]; prints a hash of all that the host got. ODD: the thread whose last
 * number is another one (of "graphs" that of each launch), 4: none; then all wait for each other
 * behind the first round. Start at work()
 */
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4u
#define BLOCKS 4u
#define PART (BLOCKS * 64) /* elements of a thread */
#define BYTES ((size_t)THREADS * PART * 4)
#define ROUNDS 8u
#define KERNELS 256u /* of case "first" */

#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemcpyHtoDAsync)                                                                           \
    X(cuMemcpyDtoH)                                                                                \
    X(cuMemsetD8)                                                                                  \
    X(cuLaunchKernel)                                                                              \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamQuery)                                                                               \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuEventSynchronize)                                                                          \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphLaunch)                                                                               \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGraphDestroy)

#include "tests/recorder/cuda/driver.h"

#define INDEX " mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 64, %r2;\n"
static const char image[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    /* p[i] = v + i */
    ".visible .entry fill(.param .u64 p, .param .u32 v) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [v]; cvta.to.global.u64 %d0, %d0;\n" INDEX
    " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1; add.u32 %r0, %r0, %r2;\n"
    " st.global.u32 [%d2], %r0; ret; }\n"
    /* p[i] += 1 */
    ".visible .entry more(.param .u64 p) {\n"
    " .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d0, [p]; cvta.to.global.u64 %d0, %d0;\n" INDEX
    " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1;\n"
    " ld.global.u32 %r0, [%d2]; add.u32 %r0, %r0, 1; st.global.u32 [%d2], %r0; ret; }\n"
    /* o[i] = p[i] + q[i] */
    ".visible .entry both(.param .u64 o, .param .u64 p, .param .u64 q) {\n"
    " .reg .b32 %r<5>; .reg .b64 %d<6>;\n"
    " ld.param.u64 %d0, [p]; ld.param.u64 %d3, [q]; ld.param.u64 %d4, [o];\n"
    " cvta.to.global.u64 %d0, %d0; cvta.to.global.u64 %d3, %d3; cvta.to.global.u64 %d4, "
    "%d4;\n" INDEX " mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1; ld.global.u32 %r0, [%d2];\n"
    " add.u64 %d2, %d3, %d1; ld.global.u32 %r1, [%d2]; add.u32 %r0, %r0, %r1;\n"
    " add.u64 %d2, %d4, %d1; st.global.u32 [%d2], %r0; ret; }\n"
    /* *p += 2^(block % 25), as a float, in any order */
    ".visible .entry sum(.param .u64 p) {\n"
    " .reg .b32 %r<4>; .reg .f32 %f<3>; .reg .b64 %d<2>;\n"
    " ld.param.u64 %d0, [p]; cvta.to.global.u64 %d0, %d0; mov.u32 %r0, %ctaid.x;\n"
    " rem.u32 %r0, %r0, 25; add.u32 %r0, %r0, 127; shl.b32 %r0, %r0, 23; mov.b32 %f0, %r0;\n"
    " mul.f32 %f0, %f0, 0f3F8CCCCD; atom.global.add.f32 %f1, [%d0], %f0; ret; }\n";

/* One of many, with parameters of several sizes: *p = b + d */
static const char one[] =
    ".visible .entry k%u(.param .u64 p, .param .u8 a, .param .u32 b, .param .u16 c, .param .u64 d)"
    " {\n .reg .b32 %%r<4>; .reg .b64 %%d<3>;\n"
    " ld.param.u64 %%d0, [p]; ld.param.u32 %%r0, [b]; ld.param.u64 %%d1, [d];\n"
    " cvta.to.global.u64 %%d0, %%d0; cvt.u32.u64 %%r1, %%d1; add.u32 %%r0, %%r0, %%r1;\n"
    " st.global.u32 [%%d0], %%r0; ret; }\n";

static CUfunction fill, more, both, sum, kernel[KERNELS];
static CUdeviceptr all;
static pthread_barrier_t start;
static CUcontext context;
static const char *what;
static unsigned odd = THREADS;
static bool meets;

static void begin(void)
{
    CUmodule module;

    load_driver();
    context = start_driver();
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(&fill, module, "fill"));
    OK(cu.cuModuleGetFunction(&more, module, "more"));
    OK(cu.cuModuleGetFunction(&both, module, "both"));
    OK(cu.cuModuleGetFunction(&sum, module, "sum"));
    OK(cu.cuMemAlloc(&all, BYTES));
    OK(cu.cuMemsetD8(all, 0, BYTES));
    OK(cu.synchronize());
}

static void load_many(void)
{
    static char text[KERNELS * (sizeof(one) + 16) + 128];
    size_t n =
        (size_t)snprintf(text, sizeof(text), "%.*s", (int)(strstr(image, ".vis") - image), image);
    CUmodule module;
    char name[16];

    for (unsigned i = 0; i < KERNELS; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, one, i);
    OK(cu.cuModuleLoadData(&module, text));
    for (unsigned i = 0; i < KERNELS; i++) {
        (void)snprintf(name, sizeof(name), "k%u", i);
        OK(cu.cuModuleGetFunction(&kernel[i], module, name));
    }
}

static void launch(CUfunction f, unsigned blocks, CUstream s, void **params)
{
    OK(cu.cuLaunchKernel(f, blocks, 1, 1, 64, 1, 1, 0, s, params, NULL));
}

static bool is(const char *name)
{
    return strcmp(what, name) == 0;
}

/* Waits, each time in another way. */
static void wait_for(CUstream s, CUevent e, unsigned round)
{
    OK(cu.cuEventRecord(e, s));
    if (round % 3 == 0)
        while (cu.cuStreamQuery(s) == CUDA_ERROR_NOT_READY)
            continue;
    else if (round % 3 == 1)
        OK(cu.cuEventSynchronize(e));
    else
        OK(cu.cuStreamSynchronize(s));
}

/* What thread @k does with its part at @p. */
static void one_round(CUdeviceptr p, unsigned k, unsigned round, CUstream s)
{
    unsigned v = (is("numbers") ? 100 * k + round : round) + (k == odd && round == ROUNDS - 1);
    unsigned blocks = is("operands") ? BLOCKS / 2 : BLOCKS; /* only there are others beyond */
    CUdeviceptr half = p + PART * 2, other;
    void *numbers[] = {&p, &v}, *pointer[] = {&p}, *three[] = {&p, &p, &other};
    unsigned host[PART];

    if (is("copies")) {
        for (unsigned i = 0; i < PART; i++)
            host[i] = i * (k + 1) + round;
        OK(cu.cuMemcpyHtoDAsync(p, host, sizeof(host), s));
    } else if (round == 0 || is("numbers")) {
        launch(fill, blocks, s, numbers);
    }
    launch(more, blocks, s, pointer);
    if (is("operands")) { /* in the second half what is in the first is added to it */
        void *halves[] = {&half, &p, &half};
        launch(both, blocks, s, halves);
    }
    if (is("own")) { /* with memory of its own, which comes and goes */
        OK(cu.cuMemAlloc(&other, PART * 4));
        void *there[] = {&other, &v};
        launch(fill, BLOCKS, s, there);
        launch(both, BLOCKS, s, three);
        OK(cu.cuStreamSynchronize(s));
        OK(cu.cuMemFree(other));
    }
    if (is("sum") && k == 2 && round == 5)
        launch(sum, 100, s, pointer);
}

/* A graph of this thread, for its part at @p. */
static CUgraphExec capture(CUdeviceptr p, unsigned v, CUstream s)
{
    void *numbers[] = {&p, &v}, *pointer[] = {&p};
    CUgraphExec exec;
    CUgraph graph;

    OK(cu.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch(fill, BLOCKS, s, numbers);
    launch(more, BLOCKS, s, pointer);
    OK(cu.cuStreamEndCapture(s, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    return exec;
}

/* Two threads at once, but for what it takes to see that. */
static void meet(unsigned round)
{
    static atomic_uint here;

    atomic_fetch_add(&here, 1);
    while (atomic_load(&here) < 2 * (round + 1))
        continue;
}

/* Each kernel for the first time, in both. */
static void launch_many(CUdeviceptr p, CUstream s)
{
    unsigned char a = 1;
    unsigned short c = 2;
    unsigned b = 3;
    unsigned long long d = 4;
    void *params[] = {&p, &a, &b, &c, &d};

    for (unsigned i = 0; i < KERNELS; i++) {
        meet(i);
        launch(kernel[i], 1, s, params);
    }
}

/* One thread, two streams, each on its half; the first one's extent is not cut yet. */
static void halves(void)
{
    CUdeviceptr upper = all + BYTES / 2;
    unsigned v = 7;
    void *low[] = {&all, &v}, *high[] = {&upper, &v};
    CUstream s, t;

    OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    launch(fill, BLOCKS, s, high);
    launch(sum, 100, s, high);
    launch(fill, BLOCKS, t, low);
    OK(cu.synchronize());
}

static void *work(void *arg)
{
    unsigned k = (unsigned)(size_t)arg;
    CUdeviceptr p = all + (CUdeviceptr)k * PART * 4;
    CUgraphExec graph = NULL;
    CUstream s;
    CUevent e;

    OK(cu.cuCtxSetCurrent(context));
    OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    (void)pthread_barrier_wait(&start);
    if (is("first") && k < 2) /* as many as there are CPUs, at least */
        launch_many(p, s);
    if (is("graphs"))
        graph = capture(p, 100 * k + (k == odd), s);
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (graph)
            OK(cu.cuGraphLaunch(graph, s));
        else
            one_round(p, k, round, s);
        if (!is("together"))
            wait_for(s, e, is("queries") ? 0 : round);
        if (round == 0 && meets)
            (void)pthread_barrier_wait(&start);
    }
    OK(cu.cuStreamSynchronize(s));
    if (graph)
        OK(cu.cuGraphExecDestroy(graph));
    return NULL;
}

int main(int argc, char **argv)
{
    static unsigned got[THREADS * PART];
    pthread_t thread[THREADS] = {0};
    unsigned hash = 0;

    what = argc > 1 ? argv[1] : "";
    meets = argc > 2;
    odd = meets ? (unsigned)atoi(argv[2]) : THREADS;
    begin();
    if (is("first"))
        load_many();
    (void)pthread_barrier_init(&start, NULL, THREADS);
    if (is("halves"))
        halves();
    for (size_t i = 0; i < THREADS && !is("halves"); i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i) != 0)
            return 1;
    for (unsigned i = 0; i < THREADS && !is("halves"); i++)
        (void)pthread_join(thread[i], NULL);
    if (is("unread"))
        return 0;
    OK(cu.cuMemcpyDtoH(got, all, BYTES));
    for (unsigned i = 0; i < THREADS * PART; i++)
        hash = hash * 31 + got[i];
    printf("%08x\n", hash);
    return 0;
}
