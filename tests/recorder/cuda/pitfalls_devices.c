/*
 * pitfalls: work in streams of another device than the current context's. With HERE in the
 * environment that device is the current one, and the rest is the same.
 */
#include "pitfalls.h"

#include <stdlib.h>
#include <string.h>

#define TIMES 4u /* until a recorder knows the launch */
#define N 256u

static CUcontext contexts[2], wanted; /* wanted: stays current */
static CUmodule module;
static CUstream stream; /* of the second device */

/* A context of each device, and of the second one a stream. */
static void open_devices(void)
{
    for (int i = 0; i < 2; i++) {
        OK(cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
        OK(cu.cuCtxSetCurrent(contexts[i]));
    }
    module = pitfalls_load();
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    wanted = contexts[getenv("HERE") ? 1 : 0];
    OK(cu.cuCtxSetCurrent(wanted));
}

/* Nobody may leave another context behind. */
static void still(int line)
{
    CUcontext now;

    OK(cu.cuCtxGetCurrent(&now));
    must_be(now == wanted, 1, "the current context", line);
}

static void launch(const char *name, unsigned blocks, void **params)
{
    CUfunction f;

    OK(cu.cuModuleGetFunction(&f, module, name));
    OK(cu.cuLaunchKernel(f, blocks, 1, 1, 64, 1, 1, 0, stream, params, NULL));
    still(__LINE__);
}

static void fill(CUdeviceptr p, unsigned v)
{
    unsigned n = N;
    void *params[] = {&p, &v, &n};

    launch("fill", N / 64, params);
}

static CUdeviceptr memory(size_t bytes)
{
    CUdeviceptr p;

    OK(cu.cuCtxSetCurrent(contexts[1]));
    OK(cu.cuMemAlloc(&p, bytes));
    OK(cu.cuCtxSetCurrent(wanted));
    return p;
}

/* Where the arguments do not say what is written: a variable, what a table leads to. */
static void hidden(CUdeviceptr p)
{
    CUdeviceptr table = memory(sizeof(p));
    unsigned v = 9;
    void *by_table[] = {&table, &v}, *by_global[] = {&v};

    OK(cu.cuMemcpyHtoDAsync(table, &p, sizeof(p), stream));
    launch("by_table", 1, by_table);
    launch("by_global", 1, by_global);
}

/* A graph of that device, made there. */
static void graph(CUdeviceptr p)
{
    CUgraphExec exec;
    CUgraph g;

    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill(p, 5);
    OK(cu.cuStreamEndCapture(stream, &g));
    OK(cu.cuCtxSetCurrent(contexts[1]));
    OK(cu.cuGraphInstantiateWithFlags(&exec, g, 0));
    OK(cu.cuCtxSetCurrent(wanted));
    for (unsigned i = 0; i < 2; i++)
        OK(cu.cuGraphLaunch(exec, stream));
    still(__LINE__);
}

void pitfalls_elsewhere(void)
{
    unsigned got[N], want = 7;
    CUdeviceptr p, q, first;

    open_devices();
    p = memory(4 * N);
    OK(cu.cuCtxSetCurrent(contexts[0]));
    OK(cu.cuMemAlloc(&first, 4 * N));
    OK(cu.cuCtxSetCurrent(wanted));
    for (unsigned i = 0; i < TIMES; i++)
        fill(p, 7);
    OK(cu.cuMemsetD8Async(p, 3, 64, stream));
    OK(cu.cuMemcpyHtoDAsync(p, &want, 4, stream));
    OK(cu.cuMemcpyPeerAsync(first, contexts[0], p, contexts[1], 4 * N, stream));
    OK(cu.cuMemAllocAsync(&q, 4 * N, stream));
    fill(q, 8);
    OK(cu.cuMemcpyDtoHAsync(got, q, 4 * N, stream));
    hidden(p);
    graph(p);
    OK(cu.cuStreamSynchronize(stream));
    IS(got[N - 1], 8);
    OK(cu.cuMemFreeAsync(q, stream));
    still(__LINE__);
    OK(cu.cuCtxPopCurrent(&wanted)); /* and nothing is below it */
    OK(cu.cuCtxGetCurrent(&wanted));
    must_be(wanted == NULL, 1, "the context below", __LINE__);
    OK(cu.cuCtxSetCurrent(contexts[0]));
}
