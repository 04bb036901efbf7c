/* Notices of objects: contexts, streams, modules, graphs and their nodes, synchronisation. */
#include "tests/softgpu/cupti/subscriber.h"

#include <pthread.h>

static void listen(CUpti_CallbackDomain domain)
{
    FINE(cuptiEnableDomain(1, box.handle, domain));
}

static unsigned count(CUpti_CallbackIdResource id)
{
    unsigned n = 0;

    while (resource(id, n))
        n++;
    return n;
}

/* ---- contexts and streams -------------------------------------------------------------------- */

static void test_context__is_told_with_its_null_stream(void **state)
{
    const struct seen *c, *s;
    CUcontext ctx;

    (void)state;
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    OK(cuCtxCreate(&ctx, NULL, 0, 0));
    c = resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, 0);
    s = resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, 0);
    assert_non_null(c);
    assert_ptr_equal(c->ctx, ctx);
    assert_non_null(s);
    assert_ptr_equal(s->ctx, ctx);
    assert_non_null(s->stream);
    assert_true(c < s);
    OK(cuCtxDestroy(ctx));
    assert_ptr_equal(resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 0)->ctx, ctx);
    assert_ptr_equal(resource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, 0)->stream, s->stream);
    assert_int_equal(box.n, 4);
    OK(cuCtxSetCurrent(box.ctx));
}

static void test_context__what_is_left_in_it_is_told_at_its_end(void **state)
{
    CUmodule module;
    CUcontext ctx;
    CUstream s;

    (void)state;
    OK(cuCtxCreate(&ctx, NULL, 0, 0));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuModuleLoadData(&module, ptx));
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    OK(cuCtxDestroy(ctx));
    assert_int_equal(box.all[0].id, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
    assert_ptr_equal(resource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, 0)->stream, s);
    assert_int_equal(count(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING), 2);
    assert_int_equal(count(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING), 1);
    OK(cuCtxSetCurrent(box.ctx));
}

static void test_primary__is_told_when_the_last_user_goes(void **state)
{
    uint32_t before, after;

    (void)state;
    FINE(cuptiGetContextId(box.ctx, &before));
    OK(cuDevicePrimaryCtxRetain(&box.ctx, 0));
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    OK(cuDevicePrimaryCtxRelease(0));
    assert_int_equal(box.n, 0);
    OK(cuDevicePrimaryCtxRelease(0));
    assert_int_equal(count(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING), 1);
    OK(cuDevicePrimaryCtxRetain(&box.ctx, 0));
    assert_int_equal(count(CUPTI_CBID_RESOURCE_CONTEXT_CREATED), 1);
    FINE(cuptiGetContextId(box.ctx, &after));
    assert_int_not_equal(before, after);
    OK(cuModuleLoadData(&box.module, ptx));
}

static void test_stream__is_told_while_it_lives(void **state)
{
    const struct seen *made, *gone;
    CUstream s;

    (void)state;
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamDestroy(s));
    assert_int_equal(box.n, 2);
    made = resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, 0);
    gone = resource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, 0);
    assert_ptr_equal(made->stream, s);
    assert_ptr_equal(gone->stream, s);
    assert_ptr_equal(gone->ctx, box.ctx);
    assert_int_equal(made->object_id, gone->object_id);
    assert_int_not_equal(made->object_id, 0);
}

static void test_stream__one_that_may_not_go_is_not_told(void **state)
{
    CUgraph g;
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    assert_int_equal(cuStreamDestroy(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(box.n, 0);
    assert_int_equal(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(count(CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING), 1);
    OK(cuStreamDestroy(s));
}

static void test_stream__an_attribute_is_told_with_its_value(void **state)
{
    const CUstreamAttrValue value = {.priority = -3};
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    OK(cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    assert_int_equal(box.n, 1);
    assert_int_equal(box.all[0].id, CUPTI_CBID_RESOURCE_STREAM_ATTRIBUTE_CHANGED);
    assert_ptr_equal(box.all[0].attribute.stream, s);
    assert_int_equal(box.all[0].attribute.attr, CU_LAUNCH_ATTRIBUTE_PRIORITY);
    assert_int_equal((int)box.all[0].object_id, -3);
    OK(cuStreamDestroy(s));
}

static void *use_per_thread_stream(void *arg)
{
    OK(cuCtxSetCurrent(box.ctx));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return arg;
}

static void test_stream__a_threads_own_is_told_too(void **state)
{
    pthread_t thread;

    (void)state;
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    assert_int_equal(pthread_create(&thread, NULL, use_per_thread_stream, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count(CUPTI_CBID_RESOURCE_STREAM_CREATED), 1);
    assert_int_equal(count(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING), 1);
}

static void test_synchronize__is_told_when_it_is_done(void **state)
{
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    listen(CUPTI_CB_DOMAIN_SYNCHRONIZE);
    OK(cuStreamSynchronize(s));
    OK(cuCtxSynchronize());
    assert_int_equal(cuStreamSynchronize((CUstream)&s), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(box.n, 2);
    assert_int_equal(box.all[0].id, CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED);
    assert_ptr_equal(box.all[0].stream, s);
    assert_ptr_equal(box.all[0].ctx, box.ctx);
    assert_int_equal(box.all[1].id, CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED);
    assert_ptr_equal(box.all[1].ctx, box.ctx);
    assert_null(box.all[1].stream);
    OK(cuStreamDestroy(s));
}

/* ---- modules --------------------------------------------------------------------------------- */

static void test_module__has_its_text(void **state)
{
    const struct seen *loaded, *gone;
    CUmodule m;

    (void)state;
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    OK(cuModuleLoadData(&m, ptx));
    OK(cuModuleUnload(m));
    loaded = resource(CUPTI_CBID_RESOURCE_MODULE_LOADED, 0);
    gone = resource(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, 0);
    assert_int_equal(loaded->module.cubinSize, strlen(ptx));
    assert_memory_equal(loaded->text, ptx, sizeof(loaded->text) - 1);
    assert_memory_equal(gone->text, ptx, sizeof(gone->text) - 1);
    assert_int_equal(loaded->module.moduleId, gone->module.moduleId);
    assert_ptr_equal(loaded->ctx, box.ctx);
    assert_int_not_equal(cuModuleLoadData(&m, "nothing"), CUDA_SUCCESS);
    assert_int_equal(box.n, 2);
}

/* A library becomes a module in a context: at once where one is current. */
static void test_library__is_told_as_the_module_that_it_becomes(void **state)
{
    CUlibrary lib;

    (void)state;
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    OK(cuLibraryLoadData(&lib, ptx, NULL, NULL, 0, NULL, NULL, 0));
    assert_int_equal(count(CUPTI_CBID_RESOURCE_MODULE_LOADED), 1);
    OK(cuLibraryUnload(lib));
    assert_int_equal(count(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING), 1);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static CUgraph two_nodes(CUgraphNode *a, CUgraphNode *b)
{
    CUgraph g;

    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddEmptyNode(a, g, NULL, 0));
    OK(cuGraphAddEmptyNode(b, g, a, 1));
    return g;
}

static void test_graph__nodes_and_edges_are_told(void **state)
{
    const struct seen *node, *edge;
    CUgraphNode a, b;
    CUgraph g;

    (void)state;
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    g = two_nodes(&a, &b);
    assert_ptr_equal(resource(CUPTI_CBID_RESOURCE_GRAPH_CREATED, 0)->graph.graph, g);
    assert_int_equal(count(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATE_STARTING), 2);
    node = resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 1);
    assert_ptr_equal(node->graph.node, b);
    assert_ptr_equal(node->graph.graph, g);
    assert_int_equal(node->graph.nodeType, CU_GRAPH_NODE_TYPE_EMPTY);
    edge = resource(CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED, 0);
    assert_ptr_equal(edge->graph.node, a);
    assert_ptr_equal(edge->graph.dependency, b);
    assert_true(node < edge);
    OK(cuGraphRemoveDependencies(g, &a, &b, NULL, 1));
    assert_int_equal(count(CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING), 1);
    OK(cuGraphAddDependencies(g, &b, &a, NULL, 1));
    edge = resource(CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED, 1);
    assert_ptr_equal(edge->graph.node, b);
    OK(cuGraphDestroyNode(a));
    assert_ptr_equal(resource(CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING, 0)->graph.node, a);
    OK(cuGraphDestroy(g));
    assert_ptr_equal(resource(CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING, 0)->graph.graph, g);
}

static void test_graph__what_is_refused_is_not_told(void **state)
{
    CUgraphNode a, b, c;
    CUgraph g = two_nodes(&a, &b);

    (void)state;
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    assert_int_equal(cuGraphAddEmptyNode(&c, g, (CUgraphNode[]){a, a}, 2),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddDependencies(g, &a, &b, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphRemoveDependencies(g, &b, &a, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(box.n, 0);
    OK(cuGraphDestroy(g));
}

/* Of a clone each node is told as made and as cloned, and the graph of an instance goes by the
 * instance's id. */
static void test_graph__clones_and_instances_name_their_origins(void **state)
{
    uint32_t clone_id, exec_id;
    const struct seen *s;
    CUgraphNode a, b;
    CUgraph g = two_nodes(&a, &b), clone;
    CUgraphExec exec;

    (void)state;
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    OK(cuGraphClone(&clone, g));
    FINE(cuptiGetGraphId(clone, &clone_id));
    assert_int_equal(count(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED), 2);
    s = resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, 1);
    assert_ptr_equal(s->graph.graph, clone);
    assert_ptr_equal(s->graph.originalGraph, g);
    assert_ptr_equal(s->graph.originalNode, b);
    assert_int_equal(s->object_id, clone_id);
    s = resource(CUPTI_CBID_RESOURCE_GRAPH_CLONED, 0);
    assert_ptr_equal(s->graph.graph, clone);
    assert_ptr_equal(s->graph.originalGraph, g);
    OK(cuGraphDestroy(clone));

    box.n = 0;
    OK(cuGraphInstantiate(&exec, g, 0));
    FINE(cuptiGetGraphExecId(exec, &exec_id));
    assert_int_equal(box.all[0].id, CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING);
    assert_ptr_equal(box.all[0].graph.graph, g);
    s = resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, 0);
    assert_ptr_equal(s->graph.originalNode, a);
    assert_int_equal(s->object_id, exec_id);
    s = resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED, 0);
    assert_ptr_equal(s->graph.graphExec, exec);
    assert_ptr_equal(s, &box.all[box.n - 1]);
    OK(cuGraphExecDestroy(exec));
    assert_ptr_equal(resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING, 0)->graph.graphExec,
                     exec);
    OK(cuGraphDestroy(g));
}

static void test_capture__makes_nodes_inside_the_call(void **state)
{
    CUgraph g;
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    FINE(cuptiEnableCallback(1, box.handle, CUPTI_CB_DOMAIN_DRIVER_API,
                             CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(box.n, 1);
    OK(cuLaunchKernel(box.nothing, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    assert_int_equal(box.n, 5);
    assert_int_equal(box.all[1].domain, CUPTI_CB_DOMAIN_DRIVER_API);
    assert_int_equal(box.all[3].id, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
    assert_int_equal(box.all[3].graph.nodeType, CU_GRAPH_NODE_TYPE_KERNEL);
    assert_int_equal(box.all[4].domain, CUPTI_CB_DOMAIN_DRIVER_API);
    OK(cuStreamEndCapture(s, &g));
    assert_ptr_equal(box.all[3].graph.graph, g);
    OK(cuGraphDestroy(g));
    OK(cuStreamDestroy(s));
}

#if CUDA_VERSION >= 13000 /* the ids are no older */
static void test_update__tells_the_nodes_of_the_instance(void **state)
{
    CUDA_KERNEL_NODE_PARAMS k = {.func = box.nothing,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1};
    CUgraphExecUpdateResultInfo info;
    const struct seen *s;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph g;

    (void)state;
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddKernelNode(&node, g, NULL, 0, &k));
    OK(cuGraphInstantiate(&exec, g, 0));
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    k.gridDimX = 2;
    OK(cuGraphExecKernelNodeSetParams(exec, node, &k));
    OK(cuGraphExecUpdate(exec, g, &info));
    assert_int_equal(box.n, 2);
    for (unsigned i = 0; i < 2; i++) {
        s = &box.all[i];
        assert_int_equal(s->id, i ? CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED
                                  : CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS);
        assert_ptr_equal(s->graph.graphExec, exec);
        assert_ptr_equal(s->graph.originalNode, node);
        assert_ptr_not_equal(s->graph.node, node);
        assert_int_equal(s->graph.nodeType, CU_GRAPH_NODE_TYPE_KERNEL);
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(g));
}
#endif

static void use_graph(const struct seen *s)
{
    CUgraphNode nodes[4];
    size_t n = 4;

    if (s->id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED)
        OK(cuGraphGetNodes(s->graph.graph, nodes, &n));
}

/* No lock of the driver is held: a tool may ask about the graph that it is told of. */
static void test_inside__the_graph_may_be_asked(void **state)
{
    CUgraphNode a, b;
    CUgraphExec exec;
    CUgraph g;

    (void)state;
    listen(CUPTI_CB_DOMAIN_RESOURCE);
    box.also = use_graph;
    g = two_nodes(&a, &b);
    OK(cuGraphInstantiate(&exec, g, 0));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(g));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_context__is_told_with_its_null_stream),
        TEST(test_context__what_is_left_in_it_is_told_at_its_end),
        TEST(test_primary__is_told_when_the_last_user_goes),
        TEST(test_stream__is_told_while_it_lives),
        TEST(test_stream__one_that_may_not_go_is_not_told),
        TEST(test_stream__an_attribute_is_told_with_its_value),
        TEST(test_stream__a_threads_own_is_told_too),
        TEST(test_synchronize__is_told_when_it_is_done),
        TEST(test_module__has_its_text),
        TEST(test_library__is_told_as_the_module_that_it_becomes),
        TEST(test_graph__nodes_and_edges_are_told),
        TEST(test_graph__what_is_refused_is_not_told),
        TEST(test_graph__clones_and_instances_name_their_origins),
        TEST(test_capture__makes_nodes_inside_the_call),
#if CUDA_VERSION >= 13000
        TEST(test_update__tells_the_nodes_of_the_instance),
#endif
        TEST(test_inside__the_graph_may_be_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
