#include "queue.h"

#include <pthread.h>

#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL
#define LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

struct two { /* streams that do not block the legacy one, and an event */
    CUstream a, b;
    CUevent e;
};

static struct two open_two(void)
{
    return (struct two){queue_stream(CU_STREAM_NON_BLOCKING), queue_stream(CU_STREAM_NON_BLOCKING),
                        queue_event()};
}

static void close_two(const struct two *t)
{
    OK(cuStreamDestroy(t->a));
    OK(cuStreamDestroy(t->b));
    OK(cuEventDestroy(t->e));
}

static CUstreamCaptureStatus status_of(CUstream s)
{
    CUstreamCaptureStatus status = 99;

    OK(cuStreamIsCapturing(s, &status));
    return status;
}

/* The capture is no good; ending it says so and gives nothing, and the stream works again. */
static void assert_invalidated(const struct queue *q, CUstream origin)
{
    CUgraph g = (CUgraph)(uintptr_t)1;

    assert_int_equal(status_of(origin), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    FAILS(queue_mark(q, origin, 77), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    FAILS(cuStreamEndCapture(origin, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(g);
    assert_int_equal(status_of(origin), CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamSynchronize(origin));
}

static void launch(CUgraph g, CUstream s)
{
    CUgraphExec x;

    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(x));
}

static size_t count_nodes(CUgraph g)
{
    size_t n = 0;

    OK(cuGraphGetNodes(g, NULL, &n));
    return n;
}

/* ---- what is captured -------------------------------------------- */

static void count_call(void *arg)
{
    ++*(unsigned *)arg;
}

static void test_capture__turns_a_streams_work_into_a_line_of_nodes(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUgraphNode nodes[8];
    CUgraphNodeType type;
    CUdeviceptr p;
    CUgraph g;
    uint32_t host = 5, back = 0;
    unsigned calls = 0;
    size_t n = 8, edges = 0;
    const CUgraphNodeType expected[] = {CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY,
                                        CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_MEMCPY,
                                        CU_GRAPH_NODE_TYPE_HOST,   CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};

    OK(cuMemAlloc(&p, 8));
    OK(cuStreamBeginCapture(t.a, GLOBAL));
    assert_int_equal(status_of(t.a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(queue_mark(q, t.a, 1));
    OK(cuMemcpyHtoDAsync(p, &host, 4, t.a));
    OK(cuMemsetD32Async(p + 4, 9, 1, t.a));
    OK(cuMemcpyDtoHAsync(&back, p, 4, t.a));
    OK(cuLaunchHostFunc(t.a, count_call, &calls));
    OK(cuStreamWriteValue32(t.a, p, 3, 0));
    OK(cuStreamEndCapture(t.a, &g));
    assert_int_equal(status_of(t.a), CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamSynchronize(t.a));
    assert_int_equal(queue_count(q) + calls + back, 0); /* nothing has run */

    OK(cuGraphGetNodes(g, nodes, &n));
    assert_int_equal(n, 6);
    for (size_t i = 0; i < n; i++) {
        OK(cuGraphNodeGetType(nodes[i], &type));
        assert_int_equal(type, expected[i]);
    }
    OK(cuGraphGetEdges(g, NULL, NULL, NULL, &edges));
    assert_int_equal(edges, 5);
    host = 6; /* read when the graph runs */
    launch(g, t.a);
    assert_int_equal(back, 6);
    assert_int_equal(calls, 1);
    assert_int_equal(queue_count(q), 1);
    OK(cuMemcpyDtoH(&back, p, 4));
    assert_int_equal(back, 3);
    OK(cuGraphDestroy(g));
    OK(cuMemFree(p));
    close_two(&t);
}

static void test_capture__forks_and_joins_through_events(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUgraphNode from[8], to[8];
    CUgraph g;
    size_t n = 8;

    OK(cuStreamBeginCapture(t.a, LOCAL));
    OK(queue_mark(q, t.a, 1));
    OK(cuEventRecord(t.e, t.a));
    OK(cuStreamWaitEvent(t.b, t.e, 0));
    assert_int_equal(status_of(t.b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(queue_mark(q, t.a, 2));
    OK(queue_mark(q, t.b, 3));
    OK(cuEventRecord(t.e, t.b));
    OK(cuStreamWaitEvent(t.a, t.e, 0));
    OK(queue_mark(q, t.a, 4));
    OK(cuStreamEndCapture(t.a, &g));
    assert_int_equal(status_of(t.b), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(count_nodes(g), 4);
    OK(cuGraphGetEdges(g, from, to, NULL, &n));
    assert_int_equal(n, 4); /* 1-2, 1-3, 2-4, 3-4 */
    launch(g, t.b);
    assert_int_equal(queue_count(q), 4);
    assert_int_equal(queue_at(q, 1), 1);
    assert_int_equal(queue_at(q, 4), 4);
    OK(cuGraphDestroy(g));
    close_two(&t);
}

static void test_capture__kernels_keep_the_priority_of_their_stream(void **state)
{
    const struct queue *q = *state;
    CUkernelNodeAttrValue v;
    CUgraphNode node;
    CUstream s;
    CUgraph g;
    size_t n = 1;

    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -4));
    OK(cuStreamBeginCapture(s, GLOBAL));
    OK(queue_mark(q, s, 1));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphGetNodes(g, &node, &n));
    OK(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    assert_int_equal(v.priority, -4);
    launch(g, s);
    ASSERT_MARKS(q, 1);
    OK(cuGraphDestroy(g));
    OK(cuStreamDestroy(s));
}

static void test_capture__external_events_are_nodes(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUevent before = queue_event();
    CUgraph g;
    CUgraphExec x;

    OK(cuStreamBeginCapture(t.a, GLOBAL));
    OK(cuStreamWaitEvent(t.a, before, CU_EVENT_WAIT_EXTERNAL));
    OK(queue_mark(q, t.a, 2));
    OK(cuEventRecordWithFlags(t.e, t.a, CU_EVENT_RECORD_EXTERNAL));
    OK(cuStreamEndCapture(t.a, &g));
    assert_int_equal(count_nodes(g), 3);
    OK(cuGraphInstantiate(&x, g, 0));
    OK(queue_mark(q, t.b, 1));
    OK(cuEventRecord(before, t.b));
    OK(cuGraphLaunch(x, t.a));
    OK(cuStreamWaitEvent(t.b, t.e, 0));
    OK(queue_mark(q, t.b, 3));
    OK(cuStreamSynchronize(t.b));
    ASSERT_MARKS(q, 1, 2, 3);
    OK(cuEventSynchronize(t.e));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuEventDestroy(before));
    close_two(&t);
}

static void test_capture__a_launched_graph_becomes_a_child(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUgraphNodeType type;
    CUgraphNode node;
    CUgraph g, outer;
    CUgraphExec x;
    size_t n = 1;

    OK(cuStreamBeginCapture(t.a, GLOBAL));
    OK(queue_mark(q, t.a, 1));
    OK(queue_mark(q, t.a, 2));
    OK(cuStreamEndCapture(t.a, &g));
    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuStreamBeginCapture(t.a, GLOBAL));
    OK(cuGraphLaunch(x, t.a));
    OK(queue_mark(q, t.a, 3));
    OK(cuStreamEndCapture(t.a, &outer));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuGraphGetRootNodes(outer, &node, &n));
    OK(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_GRAPH);
    launch(outer, t.a);
    ASSERT_MARKS(q, 1, 2, 3);
    OK(cuGraphDestroy(outer));
    close_two(&t);
}

static void test_capture__goes_into_a_graph_that_is_there(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUgraphNode root, deps[4];
    CUgraph g, end;
    CUgraphExec x;
    size_t n = 4;

    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddEmptyNode(&root, g, NULL, 0));
    OK(cuStreamBeginCaptureToGraph(t.a, g, &root, NULL, 1, GLOBAL));
    OK(queue_mark(q, t.a, 1));
    FAILS(cuGraphInstantiate(&x, g, 0), CUDA_ERROR_INVALID_VALUE); /* until capture ends */
    FAILS(cuGraphDestroy(g), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamEndCapture(t.a, &end));
    assert_ptr_equal(end, g);
    assert_int_equal(count_nodes(g), 2);
    OK(cuGraphNodeGetDependentNodes(root, deps, NULL, &n));
    assert_int_equal(n, 1);
    launch(g, t.a);
    ASSERT_MARKS(q, 1);
    FAILS(cuStreamBeginCaptureToGraph(t.a, (CUgraph)(uintptr_t)16, NULL, NULL, 0, GLOBAL),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamBeginCaptureToGraph(t.a, g, NULL, NULL, 1, GLOBAL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(status_of(t.a), CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuGraphDestroy(g));
    close_two(&t);
}

static void test_capture__tells_and_changes_where_it_is(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUstreamCaptureStatus status;
    const CUgraphNode *deps;
    const CUgraphEdgeData *edges;
    CUgraphNode node[2];
    CUgraph g, inside;
    cuuint64_t id[2];
    size_t n = 9;

    OK(cuStreamGetCaptureInfo(t.a, &status, NULL, NULL, NULL, NULL, NULL));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    FAILS(cuStreamUpdateCaptureDependencies(t.a, NULL, NULL, 0, 0), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuStreamBeginCapture(t.a, GLOBAL));
    OK(cuStreamGetCaptureInfo(t.a, &status, &id[0], &inside, &deps, &edges, &n));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(n, 0);
    OK(queue_mark(q, t.a, 1));
    OK(cuStreamGetCaptureInfo(t.a, &status, &id[1], &inside, &deps, &edges, &n));
    assert_int_equal(id[0], id[1]);
    assert_int_equal(n, 1);
    node[0] = deps[0];
    OK(cuGraphAddEmptyNode(&node[1], inside, NULL, 0)); /* the graph is open for more */
    OK(cuStreamUpdateCaptureDependencies(t.a, &node[1], NULL, 1,
                                         CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    OK(cuStreamGetCaptureInfo(t.a, &status, NULL, NULL, &deps, &edges, &n));
    assert_int_equal(n, 2);
    OK(cuStreamUpdateCaptureDependencies(t.a, &node[1], NULL, 1,
                                         CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(cuStreamGetCaptureInfo(t.a, &status, NULL, NULL, &deps, NULL, &n));
    assert_int_equal(n, 1);
    assert_ptr_equal(deps[0], node[1]);
    FAILS(cuStreamGetCaptureInfo(t.a, NULL, NULL, NULL, NULL, NULL, NULL),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamGetCaptureInfo(t.a, &status, NULL, NULL, NULL, &edges, NULL),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamUpdateCaptureDependencies(t.a, &node[1], NULL, 1, 7), CUDA_ERROR_INVALID_VALUE);
    OK(queue_mark(q, t.a, 2));
    OK(cuStreamEndCapture(t.a, &g)); /* what was left behind on purpose is no unjoined fork */
    assert_ptr_equal(g, inside);
    OK(cuStreamBeginCapture(t.a, GLOBAL));
    OK(cuStreamGetCaptureInfo(t.a, &status, &id[1], NULL, NULL, NULL, NULL));
    assert_true(id[0] != id[1]);
    OK(cuGraphDestroy(g));
    OK(cuStreamEndCapture(t.a, &g));
    assert_int_equal(count_nodes(g), 0);
    launch(g, t.a);
    OK(cuGraphDestroy(g));
    close_two(&t);
}

/* ---- what ends it badly ------------------------------------------ */

static void test_capture__waiting_for_a_captured_stream_invalidates(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    unsigned calls = 0;

    OK(cuStreamBeginCapture(t.a, RELAXED));
    FAILS(cuStreamSynchronize(t.a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_invalidated(q, t.a);
    OK(cuStreamBeginCapture(t.a, RELAXED));
    FAILS(cuStreamQuery(t.a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_invalidated(q, t.a);
    OK(cuStreamBeginCapture(t.a, RELAXED));
    FAILS(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_invalidated(q, t.a);
    OK(cuStreamBeginCapture(t.a, RELAXED));
    FAILS(cuStreamAddCallback(t.a, (CUstreamCallback)(uintptr_t)count_call, &calls, 0),
          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_invalidated(q, t.a);
    OK(cuStreamBeginCapture(t.a, RELAXED));
    FAILS(cuStreamDestroy(t.a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_invalidated(q, t.a);
    close_two(&t);
}

static void test_capture__asking_a_captured_event_invalidates(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUgraph g;
    float ms;

    OK(cuStreamBeginCapture(t.a, RELAXED));
    OK(cuEventRecord(t.e, t.a));
    FAILS(cuEventQuery(t.e), CUDA_ERROR_CAPTURED_EVENT);
    assert_invalidated(q, t.a);
    OK(cuStreamBeginCapture(t.a, RELAXED));
    OK(cuEventRecord(t.e, t.a));
    FAILS(cuEventSynchronize(t.e), CUDA_ERROR_CAPTURED_EVENT);
    assert_invalidated(q, t.a);
    OK(cuStreamBeginCapture(t.a, RELAXED));
    OK(cuEventRecord(t.e, t.a));
    FAILS(cuEventElapsedTime(&ms, t.e, t.e), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuStreamEndCapture(t.a, &g));
    FAILS(cuStreamWaitEvent(t.b, t.e, 0), CUDA_ERROR_CAPTURED_EVENT); /* the sequence is over */
    OK(cuEventRecord(t.e, t.b)); /* and now it is an ordinary one again */
    OK(cuEventSynchronize(t.e));
    OK(cuGraphDestroy(g));
    close_two(&t);
}

static void test_capture__the_origin_and_only_it_ends_it(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUgraph g;

    FAILS(cuStreamEndCapture(t.a, &g), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuStreamBeginCapture(t.a, GLOBAL));
    FAILS(cuStreamBeginCapture(t.a, GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuEventRecord(t.e, t.a));
    OK(cuStreamWaitEvent(t.b, t.e, 0));
    FAILS(cuStreamEndCapture(t.b, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_invalidated(q, t.a);
    assert_int_equal(status_of(t.b), CU_STREAM_CAPTURE_STATUS_NONE);
    FAILS(cuStreamBeginCapture(t.a, 3), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamBeginCapture(NULL, GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FAILS(cuStreamBeginCapture(CU_STREAM_LEGACY, GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamBeginCapture(CU_STREAM_PER_THREAD, GLOBAL));
    OK(cuStreamEndCapture(CU_STREAM_PER_THREAD, &g));
    OK(cuGraphDestroy(g));
    close_two(&t);
}

static void test_capture__an_unjoined_fork_is_an_error(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUgraph g = (CUgraph)(uintptr_t)1;

    OK(cuStreamBeginCapture(t.a, GLOBAL));
    OK(queue_mark(q, t.a, 1));
    OK(cuEventRecord(t.e, t.a));
    OK(cuStreamWaitEvent(t.b, t.e, 0));
    OK(queue_mark(q, t.b, 2));
    FAILS(cuStreamEndCapture(t.a, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_null(g);
    assert_int_equal(status_of(t.a), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(status_of(t.b), CU_STREAM_CAPTURE_STATUS_NONE);
    close_two(&t);
}

static void test_capture__sequences_do_not_mix(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUevent outside = queue_event();

    OK(cuStreamBeginCapture(t.a, RELAXED));
    OK(cuStreamBeginCapture(t.b, RELAXED));
    OK(cuEventRecord(t.e, t.a));
    FAILS(cuStreamWaitEvent(t.b, t.e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    assert_invalidated(q, t.a);
    assert_invalidated(q, t.b);
    OK(cuEventRecord(outside, t.b));
    OK(cuStreamBeginCapture(t.a, RELAXED));
    FAILS(cuStreamWaitEvent(t.a, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    assert_invalidated(q, t.a);
    OK(cuEventDestroy(outside));
    close_two(&t);
}

static void test_capture__of_a_blocking_stream_closes_the_legacy_one(void **state)
{
    const struct queue *q = *state;
    CUstream s = queue_stream(0);
    CUstreamCaptureStatus status;
    CUdeviceptr p;
    uint32_t word = 0;
    CUgraph g;

    OK(cuMemAlloc(&p, 4));
    OK(cuStreamBeginCapture(s, RELAXED));
    FAILS(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    FAILS(cuStreamGetCaptureInfo(CU_STREAM_LEGACY, &status, NULL, NULL, NULL, NULL, NULL),
          CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    OK(cuStreamEndCapture(s, &g)); /* asking did no harm */
    OK(cuGraphDestroy(g));
    OK(cuStreamBeginCapture(s, RELAXED));
    FAILS(queue_mark(q, NULL, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_invalidated(q, s);
    OK(cuStreamBeginCapture(s, RELAXED));
    FAILS(cuMemcpyDtoH(&word, p, 4), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_invalidated(q, s);
    OK(cuStreamBeginCapture(s, RELAXED));
    FAILS(cuStreamSynchronize(NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_invalidated(q, s);
    OK(cuMemFree(p));
    OK(cuStreamDestroy(s));
}

/* ---- modes and threads ------------------------------------------- */

struct attempt { /* by another thread */
    const struct queue *q;
    CUstream s;
    CUstreamCaptureMode mode;
    CUresult alloc, end;
};

static void *try_alloc(void *arg)
{
    struct attempt *a = arg;
    CUgraph g;
    CUdeviceptr p;

    OK(cuCtxSetCurrent(a->q->ctx));
    OK(cuThreadExchangeStreamCaptureMode(&a->mode));
    a->alloc = cuMemAlloc(&p, 4);
    if (a->alloc == CUDA_SUCCESS)
        OK(cuMemFree(p));
    a->end = cuStreamEndCapture(a->s, &g);
    if (a->end == CUDA_SUCCESS)
        OK(cuGraphDestroy(g));
    return NULL;
}

static void test_capture__modes_say_whose_unsafe_calls_are_refused(void **state)
{
    const struct {
        CUstreamCaptureMode capture, thread;
        CUresult alloc, end;
    } cases[] = {
        {GLOBAL, GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
         CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {GLOBAL, LOCAL, CUDA_SUCCESS, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {GLOBAL, RELAXED, CUDA_SUCCESS, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {LOCAL, GLOBAL, CUDA_SUCCESS, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {RELAXED, GLOBAL, CUDA_SUCCESS, CUDA_SUCCESS},
    };
    const struct queue *q = *state;
    struct two t = open_two();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct attempt a = {.q = q, .s = t.a, .mode = cases[i].thread};
        bool refused = cases[i].alloc != CUDA_SUCCESS;
        pthread_t other;
        CUgraph g;

        OK(cuStreamBeginCapture(t.a, cases[i].capture));
        assert_int_equal(pthread_create(&other, NULL, try_alloc, &a), 0);
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_int_equal(a.mode, GLOBAL); /* what it was before */
        assert_int_equal(a.alloc, cases[i].alloc);
        assert_int_equal(a.end, cases[i].end);
        if (a.end == CUDA_SUCCESS)
            continue;
        if (refused) {
            assert_invalidated(q, t.a);
        } else {
            OK(cuStreamEndCapture(t.a, &g));
            OK(cuGraphDestroy(g));
        }
    }
    close_two(&t);
}

static void test_capture__own_unsafe_calls_are_refused_unless_relaxed(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUstreamCaptureMode mode = RELAXED;
    CUdeviceptr p;
    CUgraph g;

    OK(cuStreamBeginCapture(t.a, LOCAL));
    FAILS(cuMemAlloc(&p, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_invalidated(q, t.a);
    OK(cuStreamBeginCapture(t.a, LOCAL));
    FAILS(cuStreamSynchronize(t.b), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_invalidated(q, t.a);
    OK(cuStreamBeginCapture(t.a, GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, GLOBAL);
    OK(cuMemAlloc(&p, 4));
    OK(cuStreamSynchronize(t.b));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, RELAXED);
    OK(cuStreamEndCapture(t.a, &g));
    OK(cuGraphDestroy(g));
    OK(cuMemFree(p));
    mode = 5;
    FAILS(cuThreadExchangeStreamCaptureMode(&mode), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuThreadExchangeStreamCaptureMode(NULL), CUDA_ERROR_INVALID_VALUE);
    close_two(&t);
}

static void test_capture__async_allocations_become_nodes(void **state)
{
    const struct queue *q = *state;
    struct two t = open_two();
    CUdeviceptr p, other;
    uint32_t n = 4, sum = 0;
    CUgraph g;

    OK(cuMemAllocAsync(&other, 64, t.b));
    OK(cuStreamBeginCapture(t.a, RELAXED));
    OK(cuMemAllocAsync(&p, 64, t.a));
    OK(cuMemsetD32Async(p, 3, 1, t.a));
    OK(cuLaunchKernel(q->add, 1, 1, 1, 1, 1, 1, 0, t.a, (void *[]){&p, &n}, NULL));
    OK(cuMemcpyDtoHAsync(&sum, p, 4, t.a));
    OK(cuMemFreeAsync(p, t.a));
    FAILS(cuMemFreeAsync(other, t.a), CUDA_ERROR_INVALID_VALUE); /* no graph's */
    OK(cuStreamEndCapture(t.a, &g));
    assert_int_equal(count_nodes(g), 5);
    launch(g, t.a);
    assert_int_equal(sum, 7);
    launch(g, t.a);
    OK(cuGraphDestroy(g));
    OK(cuMemFreeAsync(other, t.b));
    close_two(&t);
}

/* As NVIDIA's sample graphMemoryNodes does; one that was not joined is missed all the same. */
static void test_capture__a_joined_stream_and_its_events_may_go_before_the_end(void **state)
{
    const struct queue *q = *state;

    for (int joined = 0; joined < 2; joined++) {
        struct two t = open_two();
        CUgraph g = NULL;

        queue_forget(q);
        OK(cuStreamBeginCapture(t.a, GLOBAL));
        OK(queue_mark(q, t.a, 1));
        OK(cuEventRecord(t.e, t.a));
        OK(cuStreamWaitEvent(t.b, t.e, 0));
        OK(queue_mark(q, t.b, 2));
        OK(cuEventRecord(t.e, t.b));
        if (joined)
            OK(cuStreamWaitEvent(t.a, t.e, 0));
        OK(cuStreamDestroy(t.b));
        OK(cuEventDestroy(t.e));
        if (joined) {
            OK(cuStreamEndCapture(t.a, &g));
            launch(g, t.a);
            assert_int_equal(queue_count(q), 2);
            OK(cuGraphDestroy(g));
        } else {
            FAILS(cuStreamEndCapture(t.a, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        }
        OK(cuStreamDestroy(t.a));
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, queue_setup, queue_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_capture__turns_a_streams_work_into_a_line_of_nodes),
        TEST(test_capture__forks_and_joins_through_events),
        TEST(test_capture__kernels_keep_the_priority_of_their_stream),
        TEST(test_capture__external_events_are_nodes),
        TEST(test_capture__a_launched_graph_becomes_a_child),
        TEST(test_capture__goes_into_a_graph_that_is_there),
        TEST(test_capture__tells_and_changes_where_it_is),
        TEST(test_capture__waiting_for_a_captured_stream_invalidates),
        TEST(test_capture__asking_a_captured_event_invalidates),
        TEST(test_capture__the_origin_and_only_it_ends_it),
        TEST(test_capture__an_unjoined_fork_is_an_error),
        TEST(test_capture__sequences_do_not_mix),
        TEST(test_capture__of_a_blocking_stream_closes_the_legacy_one),
        TEST(test_capture__modes_say_whose_unsafe_calls_are_refused),
        TEST(test_capture__own_unsafe_calls_are_refused_unless_relaxed),
        TEST(test_capture__async_allocations_become_nodes),
        TEST(test_capture__a_joined_stream_and_its_events_may_go_before_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
