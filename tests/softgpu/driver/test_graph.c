#include "queue.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define INVALID CUDA_ERROR_INVALID_VALUE

static CUDA_KERNEL_NODE_PARAMS one_thread(CUfunction f, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = f,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static CUgraphNode add_mark(const struct queue *q, CUgraph g, uint32_t id, const CUgraphNode *deps,
                            size_t n)
{
    CUdeviceptr log = (CUdeviceptr)(uintptr_t)q->log;
    CUDA_KERNEL_NODE_PARAMS p = one_thread(q->mark, (void *[]){&log, &id});
    CUgraphNode node = NULL;

    OK(cuGraphAddKernelNode(&node, g, deps, n, &p));
    return node;
}

static CUgraph new_graph(void)
{
    CUgraph g = NULL;

    OK(cuGraphCreate(&g, 0));
    return g;
}

static CUgraphExec instantiate(CUgraph g)
{
    CUgraphExec x = NULL;

    OK(cuGraphInstantiate(&x, g, 0));
    return x;
}

static void run(CUgraphExec x)
{
    OK(cuGraphLaunch(x, NULL));
    OK(cuStreamSynchronize(NULL));
}

/* ---- structure --------------------------------------------------- */

static void test_graph__lists_nodes_and_edges(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph();
    CUgraphNode node[4], out[6], to[6];
    CUgraphEdgeData edges[6];
    size_t n;

    node[0] = add_mark(q, g, 0, NULL, 0);
    node[1] = add_mark(q, g, 1, &node[0], 1);
    node[2] = add_mark(q, g, 2, &node[0], 1);
    node[3] = add_mark(q, g, 3, &node[1], 2);
    OK(cuGraphGetNodes(g, NULL, &n));
    assert_int_equal(n, 4);
    n = 6;
    memset(out, 0xff, sizeof(out));
    OK(cuGraphGetNodes(g, out, &n));
    assert_int_equal(n, 4);
    assert_memory_equal(out, node, sizeof(node));
    assert_null(out[4]);
    assert_null(out[5]);
    n = 2;
    OK(cuGraphGetNodes(g, out, &n));
    assert_int_equal(n, 2);
    n = 6;
    OK(cuGraphGetRootNodes(g, out, &n));
    assert_int_equal(n, 1);
    assert_ptr_equal(out[0], node[0]);
    n = 6;
    OK(cuGraphGetEdges(g, out, to, edges, &n));
    assert_int_equal(n, 4);
    n = 6;
    OK(cuGraphNodeGetDependencies(node[3], out, NULL, &n));
    assert_int_equal(n, 2);
    assert_ptr_equal(out[0], node[1]);
    assert_ptr_equal(out[1], node[2]);
    n = 6;
    OK(cuGraphNodeGetDependentNodes(node[0], out, NULL, &n));
    assert_int_equal(n, 2);
    OK(cuGraphDestroyNode(node[1]));
    OK(cuGraphGetEdges(g, NULL, NULL, NULL, &n));
    assert_int_equal(n, 2);
    FAILS(cuGraphDestroyNode(node[1]), INVALID);
    OK(cuGraphDestroy(g));
    FAILS(cuGraphDestroyNode(node[0]), INVALID);
    FAILS(cuGraphDestroy(g), INVALID);
}

static void test_graph__edges_are_added_and_removed(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph(), other = new_graph();
    CUgraphNode a = add_mark(q, g, 1, NULL, 0), b = add_mark(q, g, 2, NULL, 0);
    CUgraphNode c = add_mark(q, other, 3, NULL, 0), deps[2] = {a, a};
    CUgraphNode from[2] = {a, b}, to[2] = {b, c}, node, out[2];
    CUgraphEdgeData pdl = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                           .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    CUgraphEdgeData got[2];
    size_t n = 2;

    FAILS(cuGraphAddDependencies(g, from, to, NULL, 2), INVALID); /* c is elsewhere */
    OK(cuGraphGetEdges(g, NULL, NULL, NULL, &n));
    assert_int_equal(n, 0); /* none was added */
    OK(cuGraphAddDependencies(g, &a, &b, NULL, 1));
    FAILS(cuGraphAddDependencies(g, &a, &b, NULL, 1), INVALID);
    FAILS(cuGraphAddDependencies(g, &a, &a, NULL, 1), INVALID);
    FAILS(cuGraphRemoveDependencies(g, &b, &a, NULL, 1), INVALID);
    FAILS(cuGraphRemoveDependencies(g, &a, &b, &pdl, 1), INVALID); /* other data */
    OK(cuGraphRemoveDependencies(g, &a, &b, NULL, 1));
    OK(cuGraphAddDependencies(g, &a, &b, &pdl, 1));
    n = 2;
    FAILS(cuGraphGetEdges(g, from, out, NULL, &n), CUDA_ERROR_LOSSY_QUERY);
    n = 2;
    OK(cuGraphNodeGetDependencies(b, out, got, &n));
    assert_memory_equal(&got[0], &pdl, sizeof(pdl));
    pdl.to_port = 1;
    FAILS(cuGraphAddDependencies(g, &b, &a, &pdl, 1), INVALID);
    FAILS(cuGraphAddEmptyNode(&node, g, deps, 2), INVALID); /* twice the same */
    FAILS(cuGraphAddEmptyNode(&node, g, &c, 1), INVALID);
    FAILS(cuGraphAddEmptyNode(&node, g, NULL, 1), INVALID);
    FAILS(cuGraphAddEmptyNode(NULL, g, NULL, 0), INVALID);
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(other));
}

static void test_graph__a_cycle_is_found_at_instantiation(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph();
    CUgraphNode a = add_mark(q, g, 1, NULL, 0), b = add_mark(q, g, 2, &a, 1);
    CUDA_GRAPH_INSTANTIATE_PARAMS p = {0};
    CUgraphExec x = NULL;
    char log[64] = "";
    CUresult (*v2)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "cuGraphInstantiate_v2");
    CUgraphNode bad = NULL;

    assert_non_null(symbol);
    memcpy(&v2, &symbol, sizeof(v2));
    OK(cuGraphAddDependencies(g, &b, &a, NULL, 1));
    FAILS(cuGraphInstantiate(&x, g, 0), INVALID);
    FAILS(cuGraphInstantiateWithParams(&x, g, &p), INVALID);
    assert_int_equal(p.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    assert_true(p.hErrNode_out == a || p.hErrNode_out == b);
    FAILS(v2(&x, g, &bad, log, sizeof(log)), INVALID);
    assert_true(bad == a || bad == b);
    assert_true(strlen(log) > 0);
    OK(cuGraphRemoveDependencies(g, &b, &a, NULL, 1));
    p.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    OK(cuGraphInstantiateWithParams(&x, g, &p));
    assert_int_equal(p.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    assert_null(p.hErrNode_out);
    run(x);
    ASSERT_MARKS(q, 1, 2);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}

static void test_graph__clones_are_independent(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph(), clone, inner = new_graph();
    CUgraphNode a = add_mark(q, g, 1, NULL, 0), b, found, child;
    CUgraphExec x;

    add_mark(q, inner, 5, NULL, 0);
    OK(cuGraphAddChildGraphNode(&child, g, &a, 1, inner));
    b = add_mark(q, g, 2, &child, 1);
    OK(cuGraphClone(&clone, g));
    add_mark(q, clone, 9, NULL, 0); /* nodes that are no clones do not get in the way */
    add_mark(q, clone, 9, NULL, 0);
    OK(cuGraphNodeFindInClone(&found, a, clone));
    OK(cuGraphNodeFindInClone(&found, child, clone));
    OK(cuGraphNodeFindInClone(&found, b, clone));
    assert_ptr_not_equal(found, b);
    OK(cuGraphDestroyNode(found));
    FAILS(cuGraphNodeFindInClone(&found, b, clone), INVALID);
    FAILS(cuGraphNodeFindInClone(&found, a, g), INVALID); /* no clone of it */
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(inner));
    x = instantiate(clone);
    OK(cuGraphDestroy(clone)); /* an executable graph stands alone */
    run(x);
    assert_int_equal(queue_count(q), 4);
    assert_true(queue_at(q, 1) < queue_at(q, 5));
    assert_int_equal(queue_at(q, 2), 0);
    OK(cuGraphExecDestroy(x));
    FAILS(cuGraphLaunch(x, NULL), INVALID);
    FAILS(cuGraphExecDestroy(x), INVALID);
}

static void test_graph__wild_handles_are_refused(void **state)
{
    CUgraph g = new_graph(), wild = (CUgraph)(uintptr_t)0x40;
    CUgraphNode node = (CUgraphNode)(void *)g;
    CUgraphNodeType type;
    CUgraphExec x = (CUgraphExec)(void *)g;
    CUDA_MEMCPY3D copy;
    size_t n;

    (void)state;
    FAILS(cuGraphCreate(NULL, 0), INVALID);
    FAILS(cuGraphCreate(&wild, 1), INVALID);
    wild = (CUgraph)(uintptr_t)0x40;
    FAILS(cuGraphGetNodes(wild, NULL, &n), INVALID);
    FAILS(cuGraphGetNodes(NULL, NULL, &n), INVALID);
    FAILS(cuGraphGetNodes(g, NULL, NULL), INVALID);
    FAILS(cuGraphNodeGetType(node, &type), INVALID);
    FAILS(cuGraphMemcpyNodeGetParams(node, &copy), INVALID);
    FAILS(cuGraphLaunch(x, NULL), INVALID);
    FAILS(cuGraphExecDestroy(NULL), INVALID);
    FAILS(cuGraphInstantiate(&x, wild, 0), INVALID);
    FAILS(cuGraphInstantiate(NULL, g, 0), INVALID);
    FAILS(cuGraphInstantiate(&x, g, 1 << 10), INVALID);
    FAILS(cuGraphInstantiate(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD), INVALID);
    FAILS(cuGraphInstantiate(&x, g,
                             CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                 CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
          INVALID);
    FAILS(cuGraphInstantiate(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
          CUDA_ERROR_NOT_SUPPORTED);
    OK(cuGraphAddEmptyNode(&node, g, NULL, 0));
    FAILS(cuGraphMemcpyNodeGetParams(node, &copy), INVALID); /* another kind of node */
    OK(cuGraphDestroy(g));
}

/* ---- what nodes do ----------------------------------------------- */

static void count_call(void *arg)
{
    ++*(unsigned *)arg;
}

static CUDA_MEMCPY3D line(const void *from, CUdeviceptr to, void *back, size_t n)
{
    CUDA_MEMCPY3D c = {.WidthInBytes = n, .Height = 1, .Depth = 1};

    c.srcMemoryType = from ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.srcHost = from;
    c.srcDevice = to;
    c.dstMemoryType = from ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    c.dstDevice = to;
    c.dstHost = back;
    return c;
}

static void test_graph__every_kind_of_node_runs(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph(), inner = new_graph(), got_child;
    CUgraphNode node[9];
    CUdeviceptr p, word = (CUdeviceptr)(uintptr_t)&q->log[LOG_MAX];
    uint32_t in[2] = {7, 8}, out[4] = {0}, n = 100;
    unsigned calls = 0;
    CUevent e = queue_event(), got_event;
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 5, .elementSize = 4, .width = 2, .height = 1};
    CUDA_HOST_NODE_PARAMS host = {count_call, &calls}, got_host;
    CUstreamBatchMemOpParams op;
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {q->ctx, 1, &op, 0}, got_batch;
    CUDA_MEMCPY3D copy, got_copy;
    CUDA_MEMSET_NODE_PARAMS got_fill;
    CUDA_KERNEL_NODE_PARAMS k, got_k;
    CUgraphExec x;

    OK(cuMemAlloc(&p, 16));
    copy = line(in, p, NULL, 8);
    OK(cuGraphAddMemcpyNode(&node[0], g, NULL, 0, &copy, q->ctx));
    fill.dst = p + 8;
    OK(cuGraphAddMemsetNode(&node[1], g, &node[0], 1, &fill, q->ctx));
    k = one_thread(q->add, (void *[]){&p, &n});
    OK(cuGraphAddKernelNode(&node[2], g, &node[1], 1, &k));
    add_mark(q, inner, 1, NULL, 0);
    add_mark(q, inner, 2, NULL, 0);
    OK(cuGraphAddChildGraphNode(&node[3], g, &node[2], 1, inner));
    OK(cuGraphDestroy(inner));
    OK(cuGraphAddEmptyNode(&node[4], g, &node[3], 1));
    OK(cuGraphAddHostNode(&node[5], g, &node[4], 1, &host));
    OK(cuGraphAddEventRecordNode(&node[6], g, &node[5], 1, e));
    memset(&op, 0, sizeof(op));
    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = word;
    op.writeValue.value = 42;
    OK(cuGraphAddBatchMemOpNode(&node[7], g, &node[6], 1, &batch));
    copy = line(NULL, p, out, 16);
    OK(cuGraphAddMemcpyNode(&node[8], g, &node[7], 1, &copy, q->ctx));

    OK(cuGraphMemcpyNodeGetParams(node[8], &got_copy));
    assert_memory_equal(&got_copy, &copy, sizeof(copy));
    OK(cuGraphMemsetNodeGetParams(node[1], &got_fill));
    assert_int_equal(got_fill.dst, fill.dst);
    assert_int_equal(got_fill.width, 2);
    OK(cuGraphKernelNodeGetParams(node[2], &got_k));
    assert_ptr_equal(got_k.func, q->add);
    assert_int_equal(*(CUdeviceptr *)got_k.kernelParams[0], p);
    assert_int_equal(*(uint32_t *)got_k.kernelParams[1], 100);
    OK(cuGraphChildGraphNodeGetGraph(node[3], &got_child));
    FAILS(cuGraphDestroy(got_child), INVALID); /* its node's */
    OK(cuGraphHostNodeGetParams(node[5], &got_host));
    assert_ptr_equal(got_host.userData, &calls);
    OK(cuGraphEventRecordNodeGetEvent(node[6], &got_event));
    assert_ptr_equal(got_event, e);
    OK(cuGraphBatchMemOpNodeGetParams(node[7], &got_batch));
    assert_int_equal(got_batch.paramArray[0].writeValue.value, 42);

    x = instantiate(g);
    run(x);
    OK(cuEventQuery(e));
    assert_int_equal(out[0], 107);
    assert_int_equal(out[1], 8);
    assert_int_equal(out[2], 5);
    assert_int_equal(out[3], 5);
    assert_int_equal(calls, 1);
    assert_int_equal(q->log[LOG_MAX], 42);
    assert_int_equal(queue_count(q), 2);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuEventDestroy(e));
    OK(cuMemFree(p));
}

static void test_graph__the_general_calls_do_the_same(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph();
    CUdeviceptr log = (CUdeviceptr)(uintptr_t)q->log;
    uint32_t id = 3;
    void *params[] = {&log, &id};
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL}, empty = {0};
    CUgraphNode node, last;
    CUgraphExec x;

    p.kernel.func = q->mark;
    p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
    p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
    p.kernel.kernelParams = params;
    OK(cuGraphAddNode(&node, g, NULL, NULL, 0, &p));
    empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
    OK(cuGraphAddNode(&last, g, &node, NULL, 1, &empty));
    x = instantiate(g);
    run(x);
    id = 4;
    OK(cuGraphNodeSetParams(node, &p)); /* not for what is instantiated */
    run(x);
    OK(cuGraphExecNodeSetParams(x, node, &p));
    run(x);
    ASSERT_MARKS(q, 3, 3, 4);
    FAILS(cuGraphNodeSetParams(last, &p), INVALID); /* another type */
    p.reserved0[1] = 1;
    FAILS(cuGraphAddNode(&last, g, NULL, NULL, 0, &p), INVALID);
    empty.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    FAILS(cuGraphAddNode(&last, g, NULL, NULL, 0, &empty), CUDA_ERROR_NOT_SUPPORTED);
    empty.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
    FAILS(cuGraphAddNode(&last, g, NULL, NULL, 0, &empty), CUDA_ERROR_NOT_SUPPORTED);
    empty.type = 99;
    FAILS(cuGraphAddNode(&last, g, NULL, NULL, 0, &empty), INVALID);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}

/* The first form of the calls, by which tinygrad adds and updates kernels; parameters packed. */
static void test_graph__the_first_kernel_calls_take_packed_parameters(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph();
    struct {
        CUdeviceptr log;
        uint32_t id;
    } args = {(CUdeviceptr)(uintptr_t)q->log, 6};
    size_t size = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS_v1 p = {q->mark, 1, 1, 1, 1, 1, 1, 0, NULL, extra}, got;
    CUresult (*add)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                    const CUDA_KERNEL_NODE_PARAMS_v1 *) = NULL;
    CUresult (*set)(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *) = NULL;
    CUresult (*get)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1 *) = NULL;
    void *symbols[] = {dlsym(RTLD_DEFAULT, "cuGraphAddKernelNode"),
                       dlsym(RTLD_DEFAULT, "cuGraphExecKernelNodeSetParams"),
                       dlsym(RTLD_DEFAULT, "cuGraphKernelNodeGetParams")};
    CUgraphNode node;
    CUgraphExec x;

    assert_true(symbols[0] && symbols[1] && symbols[2]);
    memcpy(&add, &symbols[0], sizeof(add));
    memcpy(&set, &symbols[1], sizeof(set));
    memcpy(&get, &symbols[2], sizeof(get));
    OK(add(&node, g, NULL, 0, &p));
    x = instantiate(g);
    run(x);
    args.id = 7;
    OK(set(x, node, &p));
    run(x);
    ASSERT_MARKS(q, 6, 7);
    OK(get(node, &got));
    assert_ptr_equal(got.func, q->mark);
    assert_int_equal(*(uint32_t *)got.kernelParams[1], 6);
    p.func = NULL;
    FAILS(add(&node, g, NULL, 0, &p), INVALID);
    FAILS(add(&node, g, NULL, 0, NULL), INVALID);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}

/* ---- changing executable graphs ---------------------------------- */

static void test_graph__an_executable_graph_takes_new_parameters(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph();
    uint32_t a[2] = {1, 2}, b[2] = {3, 4}, out[2] = {0};
    unsigned calls[2] = {0};
    CUdeviceptr p;
    CUDA_MEMCPY3D copy, flat;
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 1, .elementSize = 4, .width = 1, .height = 1};
    CUDA_HOST_NODE_PARAMS host = {count_call, &calls[0]};
    CUgraphNode node[3], stranger;
    CUgraph other = new_graph();
    CUgraphExec x;

    OK(cuMemAlloc(&p, 16));
    copy = line(a, p, NULL, 8);
    OK(cuGraphAddMemcpyNode(&node[0], g, NULL, 0, &copy, q->ctx));
    fill.dst = p + 4;
    OK(cuGraphAddMemsetNode(&node[1], g, &node[0], 1, &fill, q->ctx));
    OK(cuGraphAddHostNode(&node[2], g, &node[1], 1, &host));
    OK(cuGraphAddHostNode(&stranger, other, NULL, 0, &host));
    x = instantiate(g);
    copy = line(b, p, NULL, 8);
    OK(cuGraphExecMemcpyNodeSetParams(x, node[0], &copy, q->ctx));
    fill.value = 9;
    OK(cuGraphExecMemsetNodeSetParams(x, node[1], &fill, q->ctx));
    host.userData = &calls[1];
    OK(cuGraphExecHostNodeSetParams(x, node[2], &host));
    run(x);
    OK(cuMemcpyDtoH(out, p, 8));
    assert_int_equal(out[0], 3);
    assert_int_equal(out[1], 9);
    assert_int_equal(calls[0], 0);
    assert_int_equal(calls[1], 1);

    FAILS(cuGraphExecHostNodeSetParams(x, stranger, &host), INVALID);
    FAILS(cuGraphExecHostNodeSetParams(x, node[1], &host), INVALID);
    flat = copy; /* two rows */
    flat.WidthInBytes = 4;
    flat.Height = 2;
    flat.srcPitch = flat.dstPitch = 4;
    FAILS(cuGraphExecMemcpyNodeSetParams(x, node[0], &flat, q->ctx), INVALID);
    copy = line(NULL, p, out, 8); /* the other way */
    FAILS(cuGraphExecMemcpyNodeSetParams(x, node[0], &copy, q->ctx), INVALID);
    fill.height = 2;
    fill.pitch = 4;
    FAILS(cuGraphExecMemsetNodeSetParams(x, node[1], &fill, q->ctx), INVALID);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(other));
    OK(cuMemFree(p));
}

static CUgraph chain(const struct queue *q, uint32_t first, uint32_t n)
{
    CUgraph g = new_graph();
    CUgraphNode node = NULL;

    for (uint32_t i = 0; i < n; i++)
        node = add_mark(q, g, first + i, &node, i > 0);
    return g;
}

static void test_graph__updating_takes_over_or_says_why_not(void **state)
{
    const struct queue *q = *state;
    CUgraph g = chain(q, 1, 3), next = chain(q, 11, 3), longer = chain(q, 1, 4), wide = new_graph();
    CUgraph kinds = chain(q, 1, 2);
    CUgraphExecUpdateResultInfo info;
    CUgraphNode node[3], empty;
    CUgraphExec x = instantiate(g);
    size_t n = 3;

    OK(cuGraphExecUpdate(x, next, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    run(x);
    ASSERT_MARKS(q, 11, 12, 13);
    FAILS(cuGraphExecUpdate(x, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    assert_null(info.errorNode);
    for (uint32_t i = 0; i < 3; i++)
        node[i] = add_mark(q, wide, i, &node[0], i > 0);
    FAILS(cuGraphExecUpdate(x, wide, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    assert_non_null(info.errorNode);
    OK(cuGraphGetNodes(kinds, node, &n));
    OK(cuGraphAddEmptyNode(&empty, kinds, &node[1], 1));
    FAILS(cuGraphExecUpdate(x, kinds, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    assert_ptr_equal(info.errorNode, empty);
    FAILS(cuGraphExecUpdate(x, NULL, &info), INVALID);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR);
    queue_forget(q);
    run(x); /* what failed changed nothing */
    ASSERT_MARKS(q, 11, 12, 13);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(next));
    OK(cuGraphDestroy(longer));
    OK(cuGraphDestroy(wide));
    OK(cuGraphDestroy(kinds));
}

static void test_graph__child_graphs_are_updated_in_place(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph(), inner = chain(q, 1, 2), next = chain(q, 5, 2), odd = chain(q, 1, 3);
    CUdeviceptr log = (CUdeviceptr)(uintptr_t)q->log;
    uint32_t id = 8;
    CUDA_KERNEL_NODE_PARAMS p = one_thread(q->mark, (void *[]){&log, &id});
    CUgraph own;
    CUgraphNode node, nodes[2];
    CUgraphExec x;
    size_t n = 2;

    OK(cuGraphAddChildGraphNode(&node, g, NULL, 0, inner));
    x = instantiate(g);
    OK(cuGraphExecChildGraphNodeSetParams(x, node, next));
    run(x);
    ASSERT_MARKS(q, 5, 6);
    FAILS(cuGraphExecChildGraphNodeSetParams(x, node, odd), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    OK(cuGraphChildGraphNodeGetGraph(node, &own));
    OK(cuGraphGetNodes(own, nodes, &n));
    OK(cuGraphExecKernelNodeSetParams(x, nodes[1], &p)); /* a node inside */
    queue_forget(q);
    run(x);
    ASSERT_MARKS(q, 5, 8);
    FAILS(cuGraphAddChildGraphNode(&node, g, NULL, 0, g), INVALID);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(inner));
    OK(cuGraphDestroy(next));
    OK(cuGraphDestroy(odd));
}

static void test_graph__nodes_are_switched_off(void **state)
{
    const struct queue *q = *state;
    CUgraph g = chain(q, 1, 3);
    CUgraphNode node[3], empty;
    CUgraphExec x;
    unsigned on = 9;
    size_t n = 3;

    OK(cuGraphGetNodes(g, node, &n));
    OK(cuGraphAddEmptyNode(&empty, g, NULL, 0));
    x = instantiate(g);
    OK(cuGraphNodeSetEnabled(x, node[1], 0));
    OK(cuGraphNodeGetEnabled(x, node[1], &on));
    assert_int_equal(on, 0);
    OK(cuGraphNodeGetEnabled(x, node[0], &on));
    assert_int_equal(on, 1);
    run(x);
    ASSERT_MARKS(q, 1, 3);
    OK(cuGraphNodeSetEnabled(x, node[1], 1));
    queue_forget(q);
    run(x);
    ASSERT_MARKS(q, 1, 2, 3);
    FAILS(cuGraphNodeSetEnabled(x, empty, 0), INVALID);
    FAILS(cuGraphNodeGetEnabled(x, node[0], NULL), INVALID);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}

static void test_graph__kernel_attributes_are_kept_and_copied(void **state)
{
    const struct queue *q = *state;
    CUgraph g = chain(q, 1, 2);
    CUkernelNodeAttrValue v;
    CUgraphNode node[2];
    CUgraphExec x;
    size_t n = 2;

    OK(cuGraphGetNodes(g, node, &n));
    memset(&v, 0, sizeof(v));
    OK(cuGraphKernelNodeGetAttribute(node[0], CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v));
    assert_int_equal(v.cooperative, 0);
    v.cooperative = 1;
    OK(cuGraphKernelNodeSetAttribute(node[0], CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v));
    v.priority = -2;
    OK(cuGraphKernelNodeSetAttribute(node[0], CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    OK(cuGraphKernelNodeCopyAttributes(node[1], node[0]));
    OK(cuGraphKernelNodeGetAttribute(node[1], CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    assert_int_equal(v.priority, -2);
    OK(cuGraphKernelNodeGetAttribute(node[1], CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v));
    assert_int_equal(v.cooperative, 1);
    FAILS(cuGraphKernelNodeSetAttribute(node[1], CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v),
          INVALID);
    FAILS(cuGraphKernelNodeGetAttribute(node[1], 77, &v), INVALID);
    OK(cuGraphInstantiate(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
    run(x);
    ASSERT_MARKS(q, 1, 2);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}

/* ---- launching --------------------------------------------------- */

static void test_graph__launches_of_one_executable_graph_are_ordered(void **state)
{
    const struct queue *q = *state;
    CUgraph g = chain(q, 1, 2);
    CUgraphExec x = instantiate(g);
    CUstream a = queue_stream(CU_STREAM_NON_BLOCKING), b = queue_stream(CU_STREAM_NON_BLOCKING);

    OK(cuGraphUpload(x, a));
    for (int i = 0; i < 10; i++)
        OK(cuGraphLaunch(x, i % 2 ? a : b));
    OK(cuGraphExecDestroy(x)); /* launched already */
    OK(cuGraphDestroy(g));
    OK(cuStreamSynchronize(a));
    OK(cuStreamSynchronize(b));
    assert_int_equal(queue_count(q), 20);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(q->log[1 + i], 1 + i % 2);
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

static void test_graph__event_nodes_connect_with_streams(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph();
    CUstream s = queue_stream(CU_STREAM_NON_BLOCKING);
    CUevent before = queue_event(), after = queue_event(), other = queue_event(), got;
    CUgraphNode wait, mark, record;
    CUgraphExec x;

    OK(cuGraphAddEventWaitNode(&wait, g, NULL, 0, other));
    OK(cuGraphEventWaitNodeSetEvent(wait, before));
    OK(cuGraphEventWaitNodeGetEvent(wait, &got));
    assert_ptr_equal(got, before);
    mark = add_mark(q, g, 2, &wait, 1);
    OK(cuGraphAddEventRecordNode(&record, g, &mark, 1, other));
    x = instantiate(g);
    OK(cuGraphExecEventRecordNodeSetEvent(x, record, after));
    OK(queue_mark(q, s, 1));
    OK(cuEventRecord(before, s));
    OK(cuGraphLaunch(x, NULL));
    OK(cuEventDestroy(before)); /* nodes keep what they need */
    OK(cuStreamWaitEvent(s, after, 0));
    OK(queue_mark(q, s, 3));
    OK(cuStreamSynchronize(s));
    ASSERT_MARKS(q, 1, 2, 3);
    OK(cuStreamSynchronize(NULL));
    OK(cuGraphLaunch(x, NULL)); /* without the dead event's order */
    OK(cuStreamSynchronize(NULL));
    FAILS(cuGraphAddEventWaitNode(&wait, g, NULL, 0, before), INVALID);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuEventDestroy(after));
    OK(cuEventDestroy(other));
    OK(cuStreamDestroy(s));
}

static void test_graph__outlives_its_modules(void **state)
{
    const struct queue *q = *state;
    CUgraph g = chain(q, 1, 2);
    CUgraphExec x = instantiate(g), y = NULL;
    CUDA_KERNEL_NODE_PARAMS p;
    CUkernelNodeAttrValue v;
    CUgraphNode node[2];
    size_t n = 2;

    memset(&v, 0, sizeof(v));
    OK(cuGraphGetNodes(g, node, &n));
    OK(cuModuleUnload(q->module));
    FAILS(cuGraphLaunch(x, NULL), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuGraphKernelNodeGetParams(node[0], &p), INVALID);
    FAILS(cuGraphKernelNodeSetAttribute(node[0], CU_LAUNCH_ATTRIBUTE_PRIORITY, &v), INVALID);
    OK(cuGraphInstantiate(&y, g, 0));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphExecDestroy(y));
    OK(cuGraphDestroy(g));
}

/* ---- memory ------------------------------------------------------ */

static CUgraphNode add_alloc(CUgraph g, CUdeviceptr *p, size_t n)
{
    CUDA_MEM_ALLOC_NODE_PARAMS a;
    CUgraphNode node = NULL;

    memset(&a, 0, sizeof(a));
    a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    a.bytesize = n;
    OK(cuGraphAddMemAllocNode(&node, g, NULL, 0, &a));
    assert_true(a.dptr != 0);
    *p = a.dptr;
    return node;
}

static cuuint64_t graph_bytes(CUgraphMem_attribute attr)
{
    cuuint64_t n = 0;

    OK(cuDeviceGetGraphMemAttribute(0, attr, &n));
    return n;
}

static void test_graph__memory_lives_from_node_to_node(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph(), clone;
    CUDA_MEM_ALLOC_NODE_PARAMS got;
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 5, .elementSize = 4, .width = 1, .height = 1};
    CUgraphNode alloc, set, copy, release, again;
    CUDA_MEMCPY3D back;
    CUdeviceptr p, freed;
    CUgraphExec x, second;
    uint32_t out = 0;
    cuuint64_t zero = 0;

    alloc = add_alloc(g, &p, 64);
    OK(cuGraphMemAllocNodeGetParams(alloc, &got));
    assert_int_equal(got.dptr, p);
    assert_int_equal(got.bytesize, 64);
    fill.dst = p;
    OK(cuGraphAddMemsetNode(&set, g, &alloc, 1, &fill, q->ctx));
    back = line(NULL, p, &out, 4);
    OK(cuGraphAddMemcpyNode(&copy, g, &set, 1, &back, q->ctx));
    OK(cuGraphAddMemFreeNode(&release, g, &copy, 1, p));
    OK(cuGraphMemFreeNodeGetParams(release, &freed));
    assert_int_equal(freed, p);
    FAILS(cuGraphAddMemFreeNode(&again, g, &copy, 1, p), INVALID); /* twice */
    FAILS(cuGraphAddMemFreeNode(&again, g, &copy, 1, 0x1000), INVALID);
    FAILS(cuGraphClone(&clone, g), CUDA_ERROR_NOT_SUPPORTED);
    FAILS(cuGraphDestroyNode(copy), INVALID);
    x = instantiate(g);
    FAILS(cuGraphInstantiate(&second, g, 0), INVALID); /* one at a time */
    run(x);
    run(x);
    assert_int_equal(out, 5);
    assert_int_equal(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    assert_true(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= 64);
    OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    assert_int_equal(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0);
    FAILS(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero), INVALID);
    OK(cuDeviceGraphMemTrim(0));
    FAILS(cuDeviceGraphMemTrim(99), CUDA_ERROR_INVALID_DEVICE);
    OK(cuGraphExecDestroy(x));
    x = instantiate(g);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}

static void test_graph__memory_that_is_left_is_freed_by_calls_or_launches(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph();
    CUdeviceptr p;
    CUgraphExec x;
    CUgraphNode alloc = add_alloc(g, &p, 4096), set;
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 6, .elementSize = 4, .width = 1, .height = 1};
    uint32_t out = 0;

    fill.dst = p;
    OK(cuGraphAddMemsetNode(&set, g, &alloc, 1, &fill, q->ctx));
    x = instantiate(g);
    FAILS(cuMemFreeAsync(p, NULL), INVALID); /* not allocated yet */
    OK(cuGraphLaunch(x, NULL));
    FAILS(cuGraphLaunch(x, NULL), INVALID); /* it is still there */
    OK(cuMemcpyDtoHAsync(&out, p, 4, NULL));
    OK(cuMemFreeAsync(p, NULL));
    FAILS(cuMemFreeAsync(p, NULL), INVALID);
    OK(cuGraphLaunch(x, NULL));
    OK(cuMemFree(p));
    FAILS(cuMemFree(p), INVALID);
    assert_int_equal(out, 6);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphInstantiate(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    OK(cuGraphLaunch(x, NULL));
    OK(cuGraphLaunch(x, NULL));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuStreamSynchronize(NULL));
    assert_int_equal(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 4096);
    OK(cuMemFree(p)); /* outlives its graph */
    assert_int_equal(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
}

/* Copies and frees that are queued before the launch that allocates has run */
static void test_graph__memory_is_used_before_its_launch_has_run(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph();
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 7, .elementSize = 4, .width = 16, .height = 1};
    CUgraphNode alloc, set;
    CUdeviceptr p, to;
    CUstream s;
    uint32_t out[16] = {0};

    alloc = add_alloc(g, &p, 64);
    fill.dst = p;
    OK(cuGraphAddMemsetNode(&set, g, &alloc, 1, &fill, q->ctx));
    OK(cuMemAlloc(&to, 64));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuGraphLaunch(instantiate(g), s));
    OK(cuMemcpyAsync(to, p, 64, s));
    OK(cuMemcpyDtoDAsync(to, p, 64, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH(out, to, 64));
    assert_int_equal(out[15], 7);
    OK(cuMemFree(to));
    OK(cuStreamDestroy(s));
    OK(cuGraphDestroy(g));
}

static void test_graph__memory_is_freed_by_another_graph(void **state)
{
    CUgraph g = new_graph(), h = new_graph();
    CUgraphExec x, y;
    CUdeviceptr p;
    CUgraphNode node;

    (void)state;
    add_alloc(g, &p, 64);
    OK(cuGraphAddMemFreeNode(&node, h, NULL, 0, p));
    FAILS(cuGraphAddMemFreeNode(&node, g, NULL, 0, p), INVALID); /* freed elsewhere */
    x = instantiate(g);
    y = instantiate(h);
    for (int i = 0; i < 3; i++) {
        OK(cuGraphLaunch(x, NULL));
        OK(cuGraphLaunch(y, NULL));
    }
    OK(cuStreamSynchronize(NULL));
    FAILS(cuMemFree(p), INVALID);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphExecDestroy(y));
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(h));
}

/* ---- user objects, pictures -------------------------------------- */

static void wait_count(const unsigned *n, unsigned want)
{
    for (int ms = 0; __atomic_load_n(n, __ATOMIC_ACQUIRE) != want && ms < 20000; ms++)
        queue_sleep_ms(1);
    assert_int_equal(__atomic_load_n(n, __ATOMIC_ACQUIRE), want);
}

static void release_object(void *arg)
{
    CUevent e;

    if (cuEventCreate(&e, 0) == CUDA_ERROR_NOT_PERMITTED)
        __atomic_add_fetch((unsigned *)arg, 1, __ATOMIC_ACQ_REL);
}

static void test_graph__user_objects_live_as_long_as_graphs(void **state)
{
    unsigned gone = 0;
    CUuserObject o;
    CUgraph g = new_graph(), clone;
    CUgraphExec x;

    (void)state;
    OK(cuUserObjectCreate(&o, &gone, release_object, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    FAILS(cuUserObjectCreate(&o, &gone, release_object, 1, 0), INVALID);
    FAILS(cuUserObjectCreate(&o, &gone, release_object, 0, 1), INVALID);
    FAILS(cuUserObjectCreate(&o, &gone, NULL, 1, 1), INVALID);
    OK(cuUserObjectRetain(o, 2));
    FAILS(cuUserObjectRetain(o, 0), INVALID);
    OK(cuGraphRetainUserObject(g, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
    OK(cuGraphRetainUserObject(g, o, 1, 0));
    OK(cuGraphReleaseUserObject(g, o, 1));
    FAILS(cuGraphReleaseUserObject(g, o, 2), INVALID);
    FAILS(cuGraphRetainUserObject(g, o, 1, 8), INVALID);
    OK(cuUserObjectRelease(o, 2)); /* the rest is the graph's */
    OK(cuGraphClone(&clone, g));
    x = instantiate(g);
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(clone));
    OK(cuGraphLaunch(x, NULL));
    OK(cuGraphExecDestroy(x));
    OK(cuStreamSynchronize(NULL));
    wait_count(&gone, 1);
    FAILS(cuUserObjectRetain(o, 1), INVALID);
}

static void test_graph__is_drawn(void **state)
{
    const struct queue *q = *state;
    CUgraph g = chain(q, 1, 2), outer = new_graph();
    CUgraphNode node;
    char path[] = P_tmpdir "/softgpu-dot-XXXXXX", text[8192];
    int fd = mkstemp(path);
    ssize_t n;

    assert_true(fd >= 0);
    OK(cuGraphAddChildGraphNode(&node, outer, NULL, 0, g));
    OK(cuGraphDebugDotPrint(outer, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    n = read(fd, text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = 0;
    assert_non_null(strstr(text, "digraph dot {"));
    assert_non_null(strstr(text, "KERNEL"));
    assert_non_null(strstr(text, "mark"));
    assert_non_null(strstr(text, "->"));
    FAILS(cuGraphDebugDotPrint(g, NULL, 0), INVALID);
    FAILS(cuGraphDebugDotPrint(g, "/nowhere/at/all", 0), CUDA_ERROR_OPERATING_SYSTEM);
    close(fd);
    unlink(path);
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(outer));
}

/* A graph's kernel fails: its launches and the context do. */
static void test_graph__a_fault_inside_ends_the_context(void **state)
{
    const struct queue *q = *state;
    CUgraph g = new_graph();
    CUDA_KERNEL_NODE_PARAMS p = one_thread(q->trap, NULL);
    CUgraphNode node;
    CUgraphExec x;

    OK(cuGraphAddKernelNode(&node, g, NULL, 0, &p));
    add_mark(q, g, 1, &node, 1);
    x = instantiate(g);
    OK(cuGraphLaunch(x, NULL));
    FAILS(cuStreamSynchronize(NULL), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(queue_count(q), 0);
    FAILS(cuGraphLaunch(x, NULL), CUDA_ERROR_LAUNCH_FAILED);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, queue_setup, queue_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_graph__lists_nodes_and_edges),
        TEST(test_graph__edges_are_added_and_removed),
        TEST(test_graph__a_cycle_is_found_at_instantiation),
        TEST(test_graph__clones_are_independent),
        TEST(test_graph__wild_handles_are_refused),
        TEST(test_graph__every_kind_of_node_runs),
        TEST(test_graph__the_general_calls_do_the_same),
        TEST(test_graph__the_first_kernel_calls_take_packed_parameters),
        TEST(test_graph__an_executable_graph_takes_new_parameters),
        TEST(test_graph__updating_takes_over_or_says_why_not),
        TEST(test_graph__child_graphs_are_updated_in_place),
        TEST(test_graph__nodes_are_switched_off),
        TEST(test_graph__kernel_attributes_are_kept_and_copied),
        TEST(test_graph__launches_of_one_executable_graph_are_ordered),
        TEST(test_graph__event_nodes_connect_with_streams),
        TEST(test_graph__outlives_its_modules),
        TEST(test_graph__memory_lives_from_node_to_node),
        TEST(test_graph__memory_that_is_left_is_freed_by_calls_or_launches),
        TEST(test_graph__memory_is_used_before_its_launch_has_run),
        TEST(test_graph__memory_is_freed_by_another_graph),
        TEST(test_graph__user_objects_live_as_long_as_graphs),
        TEST(test_graph__is_drawn),
        TEST(test_graph__a_fault_inside_ends_the_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
