/* The seam where a stand-in for CUPTI's activity API attaches: what it is told of executed work. */
#include "softgpu/driver/seam.h"
#include "tests/softgpu/driver/queue.h"

#define SEEN_MAX 256

struct seen {
    unsigned asked, n;
    uint32_t refuse; /* bit: kind that is not wanted */
    bool past;       /* the clock runs backwards */
    struct softgpu_trace_work work[SEEN_MAX];
};

/* What the calling thread would be doing, as CUPTI's stand-in knows it. */
static uint32_t correlation;

static bool submit(void *arg, enum softgpu_trace_kind kind, uint32_t context,
                   struct softgpu_trace_tag *tag)
{
    struct seen *s = arg;

    assert_true(context != 0);
    s->asked++;
    tag->correlation = correlation;
    tag->want = kind * 10;
    return !(s->refuse & (1u << kind));
}

static uint64_t now(void *arg)
{
    static uint64_t back = UINT64_C(1) << 62;
    struct seen *s = arg;
    struct timespec t;

    if (s->past)
        return --back;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void done(void *arg, const struct softgpu_trace_work *work)
{
    struct seen *s = arg;

    if (s->n < SEEN_MAX)
        s->work[s->n++] = *work;
}

static struct seen seen;
static const struct softgpu_trace_hooks hooks = {submit, now, done, &seen};

static int setup(void **state)
{
    memset(&seen, 0, sizeof(seen));
    correlation = 0;
    queue_setup(state);
    softgpu_find_tools(cuGetExportTable)->set_trace(&hooks);
    return 0;
}

static int teardown(void **state)
{
    softgpu_find_tools(cuGetExportTable)->set_trace(NULL);
    return queue_teardown(state);
}

static const struct softgpu_trace_work *only(enum softgpu_trace_kind kind)
{
    const struct softgpu_trace_work *found = NULL;

    for (unsigned i = 0; i < seen.n; i++) {
        if (seen.work[i].kind != kind)
            continue;
        assert_null(found);
        found = &seen.work[i];
    }
    assert_non_null(found);
    return found;
}

static void test_trace__a_kernel_is_told_with_its_launch_and_the_tag_of_its_submission(void **state)
{
    struct queue *q = *state;
    CUstream s = queue_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr log = (CUdeviceptr)(uintptr_t)q->log;
    uint32_t id = 3;
    uint64_t before = now(&seen);
    const struct softgpu_trace_work *w;

    correlation = 41;
    OK(cuLaunchKernel(q->mark, 2, 1, 1, 1, 1, 1, 16, s, (void *[]){&log, &id}, NULL));
    correlation = 42; /* of whoever waits, and executes it */
    assert_int_equal(seen.n, 0);
    OK(cuStreamSynchronize(s));
    w = only(SOFTGPU_TRACE_KERNEL);
    assert_int_equal(w->tag.correlation, 41);
    assert_int_equal(w->tag.want, 10 * SOFTGPU_TRACE_KERNEL);
    assert_true(before <= w->start && w->start <= w->end && w->end <= now(&seen));
    assert_int_equal(w->result, CUDA_SUCCESS);
    assert_true(w->stream != 0);
    assert_int_equal(w->graph, 0);
    assert_int_equal(w->kernel.grid[0], 2);
    assert_int_equal(w->kernel.block[0], 1);
    assert_int_equal(w->kernel.dynamic_shared, 16);
    assert_true(w->kernel.regs >= 16);
    assert_true(w->kernel.grid_id >= 1);
    assert_false(w->kernel.cooperative);
    OK(cuStreamDestroy(s));
}

static void test_trace__what_was_not_wanted_at_its_submission_is_not_told(void **state)
{
    struct queue *q = *state;

    seen.refuse = 1u << SOFTGPU_TRACE_KERNEL;
    OK(queue_mark(q, NULL, 1));
    seen.refuse = 0;
    OK(cuCtxSynchronize());
    softgpu_find_tools(cuGetExportTable)->set_trace(NULL);
    OK(queue_mark(q, NULL, 2));
    softgpu_find_tools(cuGetExportTable)->set_trace(&hooks);
    OK(cuCtxSynchronize());
    assert_int_equal(queue_count(q), 2);
    assert_int_equal(seen.n, 0);
}

static void test_trace__what_was_wanted_is_told_though_nobody_listens_when_it_runs(void **state)
{
    struct queue *q = *state;

    OK(queue_mark(q, NULL, 1));
    softgpu_find_tools(cuGetExportTable)->set_trace(NULL);
    OK(cuCtxSynchronize());
    only(SOFTGPU_TRACE_KERNEL);
}

static void test_trace__work_that_a_fault_keeps_from_running_is_not_told(void **state)
{
    struct queue *q = *state;

    OK(queue_trap(q, NULL));
    OK(queue_mark(q, NULL, 1));
    assert_int_not_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_not_equal(only(SOFTGPU_TRACE_KERNEL)->result, CUDA_SUCCESS);
}

static void check_copy(enum softgpu_trace_memory src, enum softgpu_trace_memory dst, uint64_t bytes)
{
    const struct softgpu_trace_work *w;

    OK(cuCtxSynchronize());
    w = only(SOFTGPU_TRACE_COPY);
    assert_int_equal(w->copy.src.memory, src);
    assert_int_equal(w->copy.dst.memory, dst);
    assert_int_equal(w->copy.bytes, bytes);
    seen.n = 0;
}

static void test_trace__copies_say_how_much_and_between_which_memory(void **state)
{
    CUdeviceptr d, managed;
    void *pinned;
    char pageable[64] = "";

    (void)state;
    OK(cuMemAlloc(&d, 256));
    OK(cuMemAllocManaged(&managed, 256, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemHostAlloc(&pinned, 256, 0));
    OK(cuMemcpyHtoD(d, pageable, 64));
    check_copy(SOFTGPU_MEMORY_PAGEABLE, SOFTGPU_MEMORY_DEVICE, 64);
    OK(cuMemcpyHtoDAsync(d, pageable, 32, NULL)); /* staged: read already */
    check_copy(SOFTGPU_MEMORY_PAGEABLE, SOFTGPU_MEMORY_DEVICE, 32);
    OK(cuMemcpyDtoHAsync(pinned, d, 48, NULL));
    check_copy(SOFTGPU_MEMORY_DEVICE, SOFTGPU_MEMORY_PINNED, 48);
    OK(cuMemcpyDtoD(d, d + 128, 16));
    check_copy(SOFTGPU_MEMORY_DEVICE, SOFTGPU_MEMORY_DEVICE, 16);
    OK(cuMemcpy(managed, d, 8));
    check_copy(SOFTGPU_MEMORY_DEVICE, SOFTGPU_MEMORY_MANAGED, 8);
    OK(cuMemFree(d));
    OK(cuMemFree(managed));
    OK(cuMemFreeHost(pinned));
}

static void test_trace__fills_say_value_and_bytes(void **state)
{
    const struct softgpu_trace_work *w;
    CUdeviceptr d;

    (void)state;
    OK(cuMemAlloc(&d, 256));
    OK(cuMemsetD2D16(d, 64, 0x1234, 8, 4));
    OK(cuCtxSynchronize());
    w = only(SOFTGPU_TRACE_FILL);
    assert_int_equal(w->fill.value, 0x1234);
    assert_int_equal(w->fill.bytes, 64);
    assert_int_equal(w->fill.dst.memory, SOFTGPU_MEMORY_DEVICE);
    OK(cuMemFree(d));
}

static void call(void *arg)
{
    *(int *)arg += 1;
    queue_sleep_ms(2);
}

static void test_trace__host_functions_and_events_have_their_times(void **state)
{
    struct queue *q = *state;
    CUevent e = queue_event();
    const struct softgpu_trace_work *host, *event;
    int calls = 0;

    OK(cuLaunchHostFunc(NULL, call, &calls));
    OK(queue_mark(q, NULL, 1));
    OK(cuEventRecord(e, NULL));
    OK(cuEventSynchronize(e));
    assert_int_equal(calls, 1);
    host = only(SOFTGPU_TRACE_HOST);
    event = only(SOFTGPU_TRACE_EVENT);
    assert_true(host->end - host->start >= 1000000);
    assert_true(host->end <= only(SOFTGPU_TRACE_KERNEL)->start);
    assert_true(only(SOFTGPU_TRACE_KERNEL)->end <= event->start);
    assert_true(event->event.id != 0 && event->event.record != 0);
    OK(cuEventDestroy(e));
}

static CUgraphExec make_graph(const struct queue *q, CUdeviceptr d, uint32_t id)
{
    CUdeviceptr log = (CUdeviceptr)(uintptr_t)q->log;
    CUDA_KERNEL_NODE_PARAMS k = {.func = q->mark,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = (void *[]){&log, &id}};
    CUDA_MEMSET_NODE_PARAMS m = {.dst = d, .elementSize = 4, .value = 7, .width = 4, .height = 1};
    CUgraph g;
    CUgraphNode kernel, fill;
    CUgraphExec x;

    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddMemsetNode(&fill, g, NULL, 0, &m, q->ctx));
    OK(cuGraphAddKernelNode(&kernel, g, &fill, 1, &k));
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    OK(cuGraphDestroy(g));
    return x;
}

static void test_trace__nodes_have_the_ids_of_graph_and_node_and_lie_inside_the_launch(void **state)
{
    struct queue *q = *state;
    const struct softgpu_trace_work *graph, *fill, *kernel;
    CUgraphExec x;
    CUdeviceptr d;
    uint64_t first_end;

    OK(cuMemAlloc(&d, 64));
    x = make_graph(q, d, 9);
    correlation = 77;
    OK(cuGraphLaunch(x, NULL));
    correlation = 78;
    OK(cuCtxSynchronize());
    graph = only(SOFTGPU_TRACE_GRAPH);
    fill = only(SOFTGPU_TRACE_FILL);
    kernel = only(SOFTGPU_TRACE_KERNEL);
    assert_true(graph->graph != 0);
    assert_int_equal(fill->graph, graph->graph);
    assert_int_equal(kernel->graph, graph->graph);
    assert_true(fill->node != 0 && kernel->node != 0 && fill->node != kernel->node);
    assert_int_equal(graph->node, 0);
    assert_int_equal(graph->tag.correlation, 77);
    assert_int_equal(kernel->tag.correlation, 77);
    assert_true(graph->start <= fill->start && fill->end <= kernel->start);
    assert_true(kernel->end <= graph->end);
    first_end = graph->end;
    seen.n = 0;
    OK(cuGraphLaunch(x, NULL));
    OK(cuCtxSynchronize());
    assert_true(only(SOFTGPU_TRACE_GRAPH)->start >= first_end);
    OK(cuGraphExecDestroy(x));
    OK(cuMemFree(d));
}

static void test_trace__work_of_a_stream_does_not_overlap(void **state)
{
    struct queue *q = *state;
    CUstream s[3];
    uint64_t until[3] = {0};

    for (unsigned i = 0; i < 3; i++)
        s[i] = queue_stream(CU_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; i < 60; i++)
        OK(queue_mark(q, s[i % 3], i));
    OK(cuCtxSynchronize());
    assert_int_equal(seen.n, 60);
    for (unsigned i = 0; i < seen.n; i++) {
        const struct softgpu_trace_work *w = &seen.work[i];
        unsigned k = (unsigned)(w->stream % 3);

        assert_true(until[k] <= w->start);
        assert_true(w->start <= w->end);
        until[k] = w->end;
    }
    for (unsigned i = 0; i < 3; i++)
        OK(cuStreamDestroy(s[i]));
}

static void test_trace__an_end_is_never_before_its_start(void **state)
{
    struct queue *q = *state;

    seen.past = true;
    OK(queue_mark(q, NULL, 1));
    OK(cuCtxSynchronize());
    assert_true(only(SOFTGPU_TRACE_KERNEL)->end >= only(SOFTGPU_TRACE_KERNEL)->start);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_trace__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_is_told_with_its_launch_and_the_tag_of_its_submission),
        TEST(what_was_not_wanted_at_its_submission_is_not_told),
        TEST(what_was_wanted_is_told_though_nobody_listens_when_it_runs),
        TEST(work_that_a_fault_keeps_from_running_is_not_told),
        TEST(copies_say_how_much_and_between_which_memory),
        TEST(fills_say_value_and_bytes),
        TEST(host_functions_and_events_have_their_times),
        TEST(nodes_have_the_ids_of_graph_and_node_and_lie_inside_the_launch),
        TEST(work_of_a_stream_does_not_overlap),
        TEST(an_end_is_never_before_its_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
