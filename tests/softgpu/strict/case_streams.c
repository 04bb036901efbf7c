/* Work of two streams on the same memory, with and without an edge between them. */
#include "tests/softgpu/strict/case.h"

static CUstream stream(unsigned flags)
{
    CUstream s;

    OK(cuStreamCreate(&s, flags));
    return s;
}

static void order(CUstream first, CUstream second)
{
    CUevent e;

    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(e, first));
    OK(cuStreamWaitEvent(second, e, 0));
    OK(cuEventDestroy(e));
}

static CUdeviceptr memory(void)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 4096));
    return p;
}

static void two_sets(bool bad)
{
    CUstream a = stream(0), b = stream(0);
    CUdeviceptr p = memory();

    OK(cuMemsetD8Async(p, 1, 4096, a));
    if (!bad)
        order(a, b);
    OK(cuMemsetD8Async(p + 2048, 2, 2048, b));
    MAY(cuCtxSynchronize());
}

/* Beside each other is no race. */
static void copy_reads(bool bad)
{
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = memory(), q = memory();

    OK(cuMemsetD8Async(p, 1, 1000, a));
    OK(cuMemcpyDtoDAsync(q, bad ? p + 999 : p + 1000, 1000, b));
    MAY(cuCtxSynchronize());
}

/* The NULL stream is ordered with blocking streams, not with the others. */
static void null_stream(bool bad)
{
    CUstream s = stream(bad ? CU_STREAM_NON_BLOCKING : 0);
    CUdeviceptr p = memory();

    OK(cuMemsetD8Async(p, 1, 4096, s));
    OK(cuMemsetD8Async(p, 2, 4096, NULL));
    OK(cuStreamDestroy(s));
    MAY(cuCtxSynchronize());
}

/* What the host has waited for is ordered with all that it queues later. */
static void host_waits(bool bad)
{
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = memory();

    OK(cuMemsetD8Async(p, 1, 4096, a));
    if (bad) { /* for the wrong one */
        OK(cuStreamSynchronize(b));
    } else {
        OK(cuStreamSynchronize(a));
    }
    OK(cuMemsetD8Async(p, 2, 4096, b));
    MAY(cuCtxSynchronize());
}

/* An event stands for what was in its stream when it was recorded. */
static void late_event(bool bad)
{
    CUstream a = stream(0), b = stream(0);
    CUdeviceptr p = memory();

    if (bad)
        order(a, b);
    OK(cuMemsetD8Async(p, 1, 4096, a));
    if (!bad)
        order(a, b);
    OK(cuMemsetD8Async(p, 2, 4096, b));
    MAY(cuCtxSynchronize());
}

/* Nodes of one graph that no edge orders run at once. */
static void graph_nodes(bool bad)
{
    CUDA_MEMSET_NODE_PARAMS set = {.dst = memory(), .elementSize = 1, .width = 4096, .height = 1};
    CUgraphNode first, second;
    CUgraphExec exec;
    CUgraph graph;

    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, strict_ctx));
    set.value = 1;
    OK(cuGraphAddMemsetNode(&second, graph, &first, bad ? 0 : 1, &set, strict_ctx));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphLaunch(exec, NULL));
    MAY(cuCtxSynchronize());
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* Memory is freed in one stream while another may still use it. */
static void free_in_another(bool bad)
{
    CUstream a = stream(0), b = stream(0);
    CUdeviceptr p, q = memory();

    OK(cuMemAllocAsync(&p, 4096, a));
    order(a, b);
    OK(cuMemsetD8Async(p, 1, 4096, b));
    OK(cuMemcpyDtoDAsync(q, p, 4096, b));
    if (!bad)
        order(b, a);
    MAY(cuMemFreeAsync(p, a));
    MAY(cuCtxSynchronize());
}

static const struct strict_case cases[] = {
    {"two_sets", "stream-race", "error", two_sets},
    {"copy_reads", "stream-race", "error", copy_reads},
    {"null_stream", "stream-race", "error", null_stream},
    {"host_waits", "stream-race", "error", host_waits},
    {"late_event", "stream-race", "error", late_event},
    {"graph_nodes", "stream-race", "error", graph_nodes},
    {"free_in_another", "stream-race,*", "error", free_in_another},
};

int main(int argc, char **argv)
{
    return strict_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
