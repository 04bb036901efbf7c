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

/* ---- kernels ---- */

static const char ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    /* p[i] = i, a word a thread */
    ".visible .entry put(.param .u64 p)\n{\n .reg .u64 %a<2>;\n .reg .u32 %r<1>;\n"
    " ld.param.u64 %a0, [p];\n mov.u32 %r0, %tid.x;\n mul.wide.u32 %a1, %r0, 4;\n"
    " add.u64 %a0, %a0, %a1;\n st.global.u32 [%a0], %r0;\n ret;\n}\n"
    /* *p += 1 by each thread, atomically */
    ".visible .entry count(.param .u64 p)\n{\n .reg .u64 %a<1>;\n"
    " ld.param.u64 %a0, [p];\n red.global.add.u32 [%a0], 1;\n ret;\n}\n"
    /* q[i] = p[i] */
    ".visible .entry get(.param .u64 p, .param .u64 q)\n{\n .reg .u64 %a<3>;\n .reg .u32 %r<2>;\n"
    " ld.param.u64 %a0, [p];\n ld.param.u64 %a2, [q];\n mov.u32 %r0, %tid.x;\n"
    " mul.wide.u32 %a1, %r0, 4;\n add.u64 %a0, %a0, %a1;\n add.u64 %a2, %a2, %a1;\n"
    " ld.global.u32 %r1, [%a0];\n st.global.u32 [%a2], %r1;\n ret;\n}\n";

static void launch(CUfunction f, CUdeviceptr p, CUdeviceptr q, CUstream s)
{
    MAY(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, s, (void *[]){&p, &q}, NULL));
}

/* To the byte: the 64 words of one beside those of the other. */
static void kernels_write(bool bad)
{
    CUfunction put = strict_kernel(ptx, "put");
    CUstream a = stream(0), b = stream(0);
    CUdeviceptr p = memory();

    launch(put, p, 0, a);
    launch(put, bad ? p + 252 : p + 256, 0, b);
    MAY(cuCtxSynchronize());
}

static void kernel_reads(bool bad)
{
    CUfunction put = strict_kernel(ptx, "put"), get = strict_kernel(ptx, "get");
    CUstream a = stream(0), b = stream(0);
    CUdeviceptr p = memory(), q = memory();

    launch(put, p, 0, a);
    if (!bad)
        order(a, b);
    launch(get, p, q, b);
    MAY(cuCtxSynchronize());
}

/* Atomics of two kernels may meet; those of one and a set may not. */
static void atomics(bool bad)
{
    CUfunction count = strict_kernel(ptx, "count");
    CUstream a = stream(0), b = stream(0);
    CUdeviceptr p = memory();

    OK(cuMemsetD8(p, 0, 4096));
    OK(cuCtxSynchronize());
    launch(count, p, 0, a);
    if (bad)
        OK(cuMemsetD8Async(p, 0, 4, b));
    else
        launch(count, p, 0, b);
    MAY(cuCtxSynchronize());
}

static const struct strict_case cases[] = {
    {"kernels_write", "stream-race", "error", kernels_write},
    {"kernel_reads", "stream-race", "error", kernel_reads},
    {"atomics", "stream-race", "error", atomics},
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
