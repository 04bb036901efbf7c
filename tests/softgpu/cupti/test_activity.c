/* What the records of the activity API hold. */
#include "tests/softgpu/cupti/activity.h"

#include <cuda_runtime_api.h>

static CUdeviceptr log_of(const struct queue *q)
{
    return (CUdeviceptr)(uintptr_t)q->log;
}

static void test_activity__a_kernel_has_its_launch_and_the_id_of_its_call(void **state)
{
    struct queue *q = *state;
    CUstream s = queue_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr log = log_of(q);
    uint32_t id = 1, stream, context;
    const CUpti_ActivityKernel9 *k;
    const CUpti_ActivityAPI *call;
    uint64_t before, after;

    FINE(cuptiGetStreamIdEx(NULL, s, 0, &stream));
    FINE(cuptiGetContextId(q->ctx, &context));
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    enable(CUPTI_ACTIVITY_KIND_DRIVER);
    FINE(cuptiGetTimestamp(&before));
    OK(cuLaunchKernel(q->mark, 2, 1, 3, 4, 1, 1, 64, s, (void *[]){&log, &id}, NULL));
    OK(cuStreamSynchronize(s));
    FINE(cuptiGetTimestamp(&after));
    collect();
    k = only(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    call = call_record(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
    assert_non_null(call);
    assert_int_equal(k->correlationId, call->correlationId);
    assert_string_equal(k->name, "mark");
    assert_int_equal(k->gridX, 2);
    assert_int_equal(k->gridZ, 3);
    assert_int_equal(k->blockX, 4);
    assert_int_equal(k->dynamicSharedMemory, 64);
    assert_int_equal(k->staticSharedMemory, 0);
    assert_true(k->registersPerThread >= 16);
    assert_int_equal(k->deviceId, 0);
    assert_int_equal(k->contextId, context);
    assert_int_equal(k->streamId, stream);
    assert_int_equal(k->graphId, 0);
    assert_int_equal(k->graphNodeId, 0);
    assert_int_equal(k->launchType, CUPTI_ACTIVITY_LAUNCH_TYPE_REGULAR);
    assert_int_equal(k->queued, CUPTI_TIMESTAMP_UNKNOWN);
    assert_true(k->gridId > 0);
    assert_true(before <= call->start && call->start <= call->end && call->end <= after);
    assert_true(call->start <= k->start && k->start <= k->end && k->end <= after);
    assert_int_equal(k->completed, k->end);
    OK(cuStreamDestroy(s));
}

static void test_activity__a_name_outlives_its_module(void **state)
{
    struct queue *q = *state;
    CUmodule m;
    CUfunction f;
    CUdeviceptr log = log_of(q);
    uint32_t id = 1;

    enable(CUPTI_ACTIVITY_KIND_KERNEL);
    OK(cuModuleLoadData(&m, queue_ptx));
    OK(cuModuleGetFunction(&f, m, "mark"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&log, &id}, NULL));
    OK(cuModuleUnload(m));
    collect();
    assert_string_equal(((const CUpti_ActivityKernel9 *)only(CUPTI_ACTIVITY_KIND_KERNEL))->name,
                        "mark");
}

static void test_activity__a_kernel_that_has_not_run_is_not_told(void **state)
{
    struct queue *q = *state;

    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    OK(queue_mark(q, NULL, 1));
    FINE(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    assert_int_equal(client.n, 0);
    collect();
    only(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

static void
test_activity__a_kernel_launched_while_enabled_is_told_though_disabled_since(void **state)
{
    struct queue *q = *state;

    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    OK(queue_mark(q, NULL, 1));
    FINE(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    OK(queue_mark(q, NULL, 2));
    collect();
    only(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

static void test_activity__latency_times_are_those_of_the_call(void **state)
{
    struct queue *q = *state;
    const CUpti_ActivityKernel9 *k;

    FINE(cuptiActivityEnableLatencyTimestamps(1));
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    OK(queue_mark(q, NULL, 1));
    collect();
    k = only(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    assert_true(k->queued != CUPTI_TIMESTAMP_UNKNOWN);
    assert_true(k->queued <= k->submitted && k->submitted <= k->start);
}

static void check_copy(uint8_t kind, uint8_t src, uint8_t dst, uint8_t flags, uint64_t bytes)
{
    const CUpti_ActivityMemcpy6 *c;

    collect();
    c = only(CUPTI_ACTIVITY_KIND_MEMCPY);
    assert_int_equal(c->copyKind, kind);
    assert_int_equal(c->srcKind, src);
    assert_int_equal(c->dstKind, dst);
    assert_int_equal(c->flags, flags);
    assert_int_equal(c->bytes, bytes);
    assert_int_equal(c->copyCount, 1);
    assert_true(c->start <= c->end && c->correlationId != 0);
    client.n = 0;
}

static void test_activity__copies_have_direction_memories_and_whether_they_wait(void **state)
{
    CUdeviceptr d, managed;
    void *pinned;
    char pageable[64] = "";

    (void)state;
    OK(cuMemAlloc(&d, 256));
    OK(cuMemAllocManaged(&managed, 256, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemHostAlloc(&pinned, 256, 0));
    enable(CUPTI_ACTIVITY_KIND_MEMCPY);
#define COPY(kind, src, dst, flags, bytes)                                                         \
    check_copy(CUPTI_ACTIVITY_MEMCPY_KIND_##kind, CUPTI_ACTIVITY_MEMORY_KIND_##src,                \
               CUPTI_ACTIVITY_MEMORY_KIND_##dst, flags, bytes)
    OK(cuMemcpyHtoD(d, pageable, 64));
    COPY(HTOD, PAGEABLE, DEVICE, 0, 64);
    OK(cuMemcpyHtoDAsync(d, pageable, 32, NULL));
    COPY(HTOD, PAGEABLE, DEVICE, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC, 32);
    OK(cuMemcpyDtoHAsync(pinned, d, 48, NULL));
    COPY(DTOH, DEVICE, PINNED, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC, 48);
    OK(cuMemcpyDtoD(d, d + 128, 16));
    COPY(DTOD, DEVICE, DEVICE, 0, 16);
    OK(cuMemcpy(managed, (CUdeviceptr)(uintptr_t)pinned, 8));
    COPY(HTOD, PINNED, MANAGED, 0, 8);
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)pageable, (CUdeviceptr)(uintptr_t)pinned, 24));
    COPY(HTOH, PINNED, PAGEABLE, 0, 24);
    OK(cuMemFree(d));
    OK(cuMemFree(managed));
    OK(cuMemFreeHost(pinned));
}

static void test_activity__a_copy_between_devices_is_a_peer_copy(void **state)
{
    struct queue *q = *state;
    CUcontext other;
    CUdeviceptr here, there;
    uint32_t mine, theirs;
    const CUpti_ActivityMemcpyPtoP4 *c;

    OK(cuMemAlloc(&here, 64));
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxSetCurrent(other));
    OK(cuMemAlloc(&there, 64));
    OK(cuCtxSetCurrent(q->ctx));
    FINE(cuptiGetContextId(q->ctx, &mine));
    FINE(cuptiGetContextId(other, &theirs));
    enable(CUPTI_ACTIVITY_KIND_MEMCPY);
    enable(CUPTI_ACTIVITY_KIND_MEMCPY2);
    OK(cuMemcpyPeerAsync(there, other, here, q->ctx, 64, NULL));
    collect();
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_MEMCPY), 0);
    c = only(CUPTI_ACTIVITY_KIND_MEMCPY2);
    assert_int_equal(c->copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
    assert_int_equal(c->bytes, 64);
    assert_int_equal(c->srcDeviceId, 0);
    assert_int_equal(c->dstDeviceId, 1);
    assert_int_equal(c->srcContextId, mine);
    assert_int_equal(c->dstContextId, theirs);
    assert_int_equal(c->flags, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
    OK(cuMemFree(here));
    OK(cuMemFree(there));
    OK(cuDevicePrimaryCtxRelease(1));
}

static void test_activity__a_set_has_value_and_bytes(void **state)
{
    CUdeviceptr d;
    const CUpti_ActivityMemset4 *m;

    (void)state;
    OK(cuMemAlloc(&d, 256));
    enable(CUPTI_ACTIVITY_KIND_MEMSET);
    OK(cuMemsetD32Async(d, 0xabcd, 16, NULL));
    collect();
    m = only(CUPTI_ACTIVITY_KIND_MEMSET);
    assert_int_equal(m->value, 0xabcd);
    assert_int_equal(m->bytes, 64);
    assert_int_equal(m->memoryKind, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
    assert_int_equal(m->flags, CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC);
    OK(cuMemFree(d));
}

static CUgraphExec make_graph(const struct queue *q, CUdeviceptr d)
{
    CUstream s = queue_stream(CU_STREAM_NON_BLOCKING);
    CUgraph g;
    CUgraphExec x;

    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD8Async(d, 1, 64, s));
    OK(queue_mark(q, s, 5));
    OK(queue_mark(q, s, 6));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuGraphDestroy(g));
    OK(cuStreamDestroy(s));
    return x;
}

static void test_activity__nodes_of_a_graph_have_its_id_and_their_own(void **state)
{
    struct queue *q = *state;
    const CUpti_ActivityKernel9 *a, *b;
    const CUpti_ActivityMemset4 *m;
    const CUpti_ActivityAPI *launch;
    CUgraphExec x;
    CUdeviceptr d;
    uint32_t id;

    OK(cuMemAlloc(&d, 64));
    x = make_graph(q, d);
    FINE(cuptiGetGraphExecId(x, &id));
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    enable(CUPTI_ACTIVITY_KIND_MEMSET);
    enable(CUPTI_ACTIVITY_KIND_DRIVER);
    OK(cuGraphLaunch(x, NULL));
    collect();
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 2);
    a = record(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0);
    b = record(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 1);
    m = only(CUPTI_ACTIVITY_KIND_MEMSET);
    launch = call_record(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch);
    assert_int_equal(a->graphId, id);
    assert_int_equal(b->graphId, id);
    assert_int_equal(m->graphId, id);
    assert_true(a->graphNodeId && b->graphNodeId && a->graphNodeId != b->graphNodeId);
    assert_int_equal(a->correlationId, launch->correlationId);
    assert_int_equal(m->correlationId, launch->correlationId);
    assert_true(m->end <= a->start && a->end <= b->start);
    OK(cuGraphExecDestroy(x));
    OK(cuMemFree(d));
}

static void test_activity__a_graph_traced_as_a_whole_is_one_record(void **state)
{
    struct queue *q = *state;
    const CUpti_ActivityGraphTrace2 *g;
    CUgraphExec x;
    CUdeviceptr d;
    uint32_t id;

    OK(cuMemAlloc(&d, 64));
    x = make_graph(q, d);
    FINE(cuptiGetGraphExecId(x, &id));
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    enable(CUPTI_ACTIVITY_KIND_MEMSET);
    enable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    OK(cuGraphLaunch(x, NULL));
    OK(queue_mark(q, NULL, 9)); /* not of the graph */
    collect();
    g = only(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    only(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_MEMSET), 0);
    assert_int_equal(g->graphId, id);
    assert_true(g->start < g->end && g->correlationId != 0);
    OK(cuGraphExecDestroy(x));
    OK(cuMemFree(d));
}

static void test_activity__external_ids_come_before_the_record_of_the_call(void **state)
{
    struct queue *q = *state;
    const CUpti_ActivityExternalCorrelation *a, *b;
    const CUpti_ActivityAPI *call;
    uint64_t last = 0;

    enable(CUPTI_ACTIVITY_KIND_DRIVER);
    enable(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    FINE(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 7));
    FINE(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 8));
    FINE(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 99));
    OK(queue_mark(q, NULL, 1));
    FINE(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last));
    assert_int_equal(last, 8);
    FINE(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, NULL));
    FINE(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last));
    assert_int_equal(last, 7);
    assert_int_equal(
        cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last),
        CUPTI_ERROR_QUEUE_EMPTY);
    OK(cuCtxSynchronize()); /* outside: has none */
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION), 2);
    a = record(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 0);
    b = record(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 1);
    call = call_record(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
    assert_int_equal(a->externalKind, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0);
    assert_int_equal(a->externalId, 8);
    assert_int_equal(b->externalId, 99);
    assert_int_equal(a->correlationId, call->correlationId);
    assert_int_equal(b->correlationId, call->correlationId);
    assert_true((const uint8_t *)a < (const uint8_t *)b &&
                (const uint8_t *)b < (const uint8_t *)call);
    assert_int_equal(
        cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_INVALID, 1),
        CUPTI_ERROR_INVALID_PARAMETER);
}

static void test_activity__synchronisations_and_events_know_each_other(void **state)
{
    struct queue *q = *state;
    CUevent e = queue_event();
    CUstream s = queue_stream(CU_STREAM_NON_BLOCKING), t = queue_stream(CU_STREAM_NON_BLOCKING);
    const CUpti_ActivityCudaEvent2 *ev;
    const CUpti_ActivitySynchronization2 *wait, *event, *stream, *context;
    uint32_t s_id, t_id;

    FINE(cuptiGetStreamIdEx(NULL, s, 0, &s_id));
    FINE(cuptiGetStreamIdEx(NULL, t, 0, &t_id));
    enable(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
    enable(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
    OK(queue_mark(q, s, 1));
    OK(cuEventRecord(e, s));
    OK(cuStreamWaitEvent(t, e, 0));
    OK(cuEventSynchronize(e));
    OK(cuStreamSynchronize(t));
    OK(cuCtxSynchronize());
    FINE(cuptiActivityFlushAll(0));
    ev = only(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION), 4);
    wait = record(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 0);
    event = record(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 1);
    stream = record(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 2);
    context = record(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 3);
    assert_int_equal(ev->streamId, s_id);
    assert_int_equal(ev->deviceTimestamp, 0);
    assert_int_equal(wait->type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT);
    assert_int_equal(wait->streamId, t_id);
    assert_int_equal(wait->cudaEventId, ev->eventId);
    assert_int_equal(wait->cudaEventSyncId, ev->cudaEventSyncId);
    assert_int_equal(event->type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE);
    assert_int_equal(event->streamId, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
    assert_int_equal(event->cudaEventSyncId, ev->cudaEventSyncId);
    assert_int_equal(stream->type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
    assert_int_equal(stream->streamId, t_id);
    assert_int_equal(stream->cudaEventId, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
    assert_int_equal(context->type, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE);
    assert_int_equal(context->streamId, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
    assert_int_equal(context->contextId, ev->contextId);
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(s));
    OK(cuStreamDestroy(t));
}

static void test_activity__events_have_device_times_if_asked_for(void **state)
{
#if CUPTI_API_VERSION < 130000
    (void)state;
    skip();
#else
    struct queue *q = *state;
    CUevent e = queue_event();
    const CUpti_ActivityCudaEvent2 *ev;
    const CUpti_ActivityKernel9 *k;

    FINE(cuptiActivityEnableCudaEventDeviceTimestamps(1));
    enable(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    OK(queue_mark(q, NULL, 1));
    OK(cuEventRecord(e, NULL));
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(client.n, 0); /* not reached */
    collect();
    ev = only(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
    k = only(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    assert_true(ev->deviceTimestamp >= k->end);
    OK(cuEventDestroy(e));
#endif
}

static void test_activity__synchronisations_bring_the_events_that_they_refer_to(void **state)
{
    CUevent e = queue_event();
    const CUpti_ActivitySynchronization2 *sync;
    const CUpti_ActivityCudaEvent2 *ev;

    (void)state;
    enable(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
    OK(cuEventRecord(e, NULL));
    OK(cuEventSynchronize(e));
    FINE(cuptiActivityFlushAll(0));
    ev = only(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
    sync = only(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
    assert_int_equal(sync->cudaEventSyncId, ev->cudaEventSyncId);
    OK(cuEventDestroy(e));
}

static void test_activity__a_runtime_call_and_what_it_calls_have_one_id(void **state)
{
    const CUpti_ActivityAPI *runtime, *driver;
    const CUpti_ActivityMemcpy6 *copy;
    void *d = NULL;
    char bytes[32] = "";

    (void)state;
    assert_int_equal(cudaMalloc(&d, 64), cudaSuccess);
    enable(CUPTI_ACTIVITY_KIND_RUNTIME);
    enable(CUPTI_ACTIVITY_KIND_DRIVER);
    enable(CUPTI_ACTIVITY_KIND_MEMCPY);
    enable(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    FINE(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 5));
    assert_int_equal(cudaMemcpyAsync(d, bytes, 32, cudaMemcpyHostToDevice, 0), cudaSuccess);
    FINE(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, NULL));
    collect();
    runtime =
        call_record(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020);
    driver = call_record(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2);
    assert_non_null(runtime);
    assert_non_null(driver);
    copy = only(CUPTI_ACTIVITY_KIND_MEMCPY);
    assert_int_equal(runtime->correlationId, driver->correlationId);
    assert_int_equal(copy->correlationId, runtime->correlationId);
    assert_int_equal(copy->runtimeCorrelationId, runtime->correlationId);
    assert_int_equal(copy->flags, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
    assert_true(runtime->start <= driver->start && driver->end <= runtime->end);
    only(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION); /* once for both */
    assert_int_equal(cudaFree(d), cudaSuccess);
}

static void test_activity__queries_that_find_work_are_left_out_if_asked_for(void **state)
{
    struct queue *q = *state;
    CUstream s = queue_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr flag;

    SKIP_IF_RACES_ARE_ERRORS();
    OK(cuMemAlloc(&flag, 4));
    OK(cuMemsetD32(flag, 0, 1));
    OK(cuCtxSynchronize());
    enable(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
    OK(queue_wait(q, s, flag));
    FAILS(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    FINE(cuptiActivityEnableAllSyncRecords(0));
    FAILS(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(
        ((const CUpti_ActivitySynchronization2 *)only(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION))
            ->returnValue,
        CUDA_ERROR_NOT_READY);
    OK(cuMemsetD32Async(flag, 1, 1, queue_stream(CU_STREAM_NON_BLOCKING)));
    OK(cuCtxSynchronize());
    OK(cuMemFree(flag));
}

/* The record of an object by its id, NULL: there is none. */
static const CUpti_ActivityStream *stream_record(uint32_t id)
{
    const CUpti_ActivityStream *r;

    for (unsigned i = 0; (r = record(CUPTI_ACTIVITY_KIND_STREAM, i)); i++)
        if (r->streamId == id)
            return r;
    return NULL;
}

static const CUpti_ActivityContext2 *context_record(uint32_t id)
{
    const CUpti_ActivityContext2 *r;

    for (unsigned i = 0; (r = record(CUPTI_ACTIVITY_KIND_CONTEXT, i)); i++)
        if (r->contextId == id)
            return r;
    return NULL;
}

static void test_activity__contexts_and_streams_are_told_when_they_are_made(void **state)
{
    struct queue *q = *state;
    CUcontext other;
    CUstream s;
    uint32_t id, s_id, null_id;
    const CUpti_ActivityStream *r;

    enable(CUPTI_ACTIVITY_KIND_CONTEXT);
    enable(CUPTI_ACTIVITY_KIND_STREAM);
    enable(CUPTI_ACTIVITY_KIND_DRIVER);
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxSetCurrent(other));
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -3));
    FINE(cuptiGetContextId(other, &id));
    FINE(cuptiGetStreamIdEx(other, s, 0, &s_id));
    FINE(cuptiGetStreamIdEx(other, NULL, 0, &null_id));
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_CONTEXT), 1);
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_STREAM), 2);
    assert_non_null(context_record(id));
    assert_int_equal(context_record(id)->deviceId, 1);
    assert_int_equal(context_record(id)->nullStreamId, null_id);
    assert_int_equal(context_record(id)->computeApiKind, CUPTI_ACTIVITY_COMPUTE_API_CUDA);
    assert_int_equal(stream_record(null_id)->flag, CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL);
    r = stream_record(s_id);
    assert_int_equal(r->contextId, id);
    assert_int_equal(r->flag, CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING);
    assert_int_equal((int32_t)r->priority, -3);
    assert_int_equal(
        r->correlationId,
        call_record(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuStreamCreateWithPriority)
            ->correlationId);
    OK(cuStreamDestroy(s));
    OK(cuCtxSetCurrent(q->ctx));
    OK(cuDevicePrimaryCtxRelease(1));
}

static void test_activity__what_is_there_already_is_told_if_asked_for(void **state)
{
    struct queue *q = *state;
    CUstream s = queue_stream(CU_STREAM_DEFAULT), gone = queue_stream(CU_STREAM_DEFAULT);
    uint32_t id, s_id, gone_id;
    const CUpti_ActivityDevice4 *d;
    int sms;

    FINE(cuptiGetContextId(q->ctx, &id));
    FINE(cuptiGetStreamIdEx(NULL, s, 0, &s_id));
    FINE(cuptiGetStreamIdEx(NULL, gone, 0, &gone_id));
    OK(cuStreamDestroy(gone));
    enable(CUPTI_ACTIVITY_KIND_CONTEXT); /* only what comes from now on */
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(client.n, 0);
    FINE(cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_CONTEXT));
    FINE(cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_STREAM));
    FINE(cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_DEVICE));
    FINE(cuptiActivityEnableAndDump(CUPTI_ACTIVITY_KIND_MEMSET)); /* as without */
    FINE(cuptiActivityFlushAll(0));
    assert_non_null(context_record(id));
    assert_non_null(stream_record(s_id));
    assert_null(stream_record(gone_id));
    assert_int_equal(stream_record(s_id)->flag, CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT);
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_DEVICE), 2);
    d = record(CUPTI_ACTIVITY_KIND_DEVICE, 1);
    OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1));
    assert_int_equal(d->id, 1);
    assert_int_equal(d->numMultiprocessors, sms);
    assert_int_equal(d->numThreadsPerWarp, 32);
    assert_true(d->globalMemoryBandwidth > 1000000 && d->globalMemorySize >= 1 << 20);
    assert_true(d->name && strlen(d->name) > 0);
    OK(cuStreamDestroy(s));
}

static void test_activity__single_functions_are_enabled_and_disabled(void **state)
{
    struct queue *q = *state;
    const CUpti_CallbackId launch = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
    CUcontext ctx;

    FINE(cuptiActivityEnableDriverApi(launch, 1)); /* without the kind */
    OK(queue_mark(q, NULL, 1));
    OK(cuCtxGetCurrent(&ctx));
    collect();
    assert_int_equal(((const CUpti_ActivityAPI *)only(CUPTI_ACTIVITY_KIND_DRIVER))->cbid, launch);
    client.n = 0;
    enable(CUPTI_ACTIVITY_KIND_DRIVER);
    FINE(cuptiActivityEnableDriverApi(launch, 0));
    OK(queue_mark(q, NULL, 1));
    collect();
    assert_null(call_record(CUPTI_ACTIVITY_KIND_DRIVER, launch));
    assert_non_null(
        call_record(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize));
    client.n = 0;
    enable(CUPTI_ACTIVITY_KIND_DRIVER); /* overrides what was said before it */
    OK(queue_mark(q, NULL, 1));
    collect();
    assert_non_null(call_record(CUPTI_ACTIVITY_KIND_DRIVER, launch));
    assert_int_equal(cuptiActivityEnableDriverApi(CUPTI_DRIVER_TRACE_CBID_SIZE, 1),
                     CUPTI_ERROR_INVALID_PARAMETER);
}

static void test_activity__a_context_may_have_settings_of_its_own(void **state)
{
    struct queue *q = *state;
    CUcontext other;

    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    FINE(cuptiActivityDisableContext(q->ctx, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    OK(queue_mark(q, NULL, 1));
    collect();
    assert_int_equal(client.n, 0);
    FINE(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    FINE(cuptiActivityEnableContext(q->ctx, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    OK(queue_mark(q, NULL, 2));
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxSetCurrent(other));
    OK(cuMemsetD8Async((CUdeviceptr)(uintptr_t)q->log, 0, 4, NULL));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(q->ctx));
    OK(cuDevicePrimaryCtxRelease(1));
    collect();
    only(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    assert_int_equal(cuptiActivityEnableContext(NULL, CUPTI_ACTIVITY_KIND_MEMCPY),
                     CUPTI_ERROR_INVALID_CONTEXT);
}

static void test_activity__a_failing_call_has_its_error(void **state)
{
    const CUpti_ActivityAPI *call;

    (void)state;
    enable(CUPTI_ACTIVITY_KIND_DRIVER);
    FAILS(cuMemAlloc(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    FINE(cuptiActivityFlushAll(0));
    call = call_record(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2);
    assert_non_null(call);
    assert_int_equal(call->returnValue, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(call->threadId, (uint32_t)(uintptr_t)pthread_self());
    assert_int_equal(call->processId, getpid());
}

static void test_activity__kinds_that_are_not_there_are_refused(void **state)
{
    (void)state;
    assert_int_equal(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_INVALID), CUPTI_ERROR_INVALID_KIND);
    assert_int_equal(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_NVLINK), CUPTI_ERROR_INVALID_KIND);
    assert_int_equal(cuptiActivityEnable((CUpti_ActivityKind)1000), CUPTI_ERROR_INVALID_KIND);
    assert_int_equal(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_PC_SAMPLING),
                     CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED);
    assert_int_equal(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MODULE), CUPTI_ERROR_NOT_COMPATIBLE);
    enable(CUPTI_ACTIVITY_KIND_OVERHEAD); /* there is none to tell */
}

static uint64_t my_time;
static uint64_t CUPTIAPI my_clock(void)
{
    return __atomic_add_fetch(&my_time, 10, __ATOMIC_RELAXED);
}

static void test_activity__times_are_those_of_the_clients_clock(void **state)
{
    struct queue *q = *state;
    const CUpti_ActivityKernel9 *k;
    const CUpti_ActivityAPI *call;
    uint64_t t;

    assert_int_equal(cuptiActivityRegisterTimestampCallback(NULL), CUPTI_ERROR_INVALID_PARAMETER);
    FINE(cuptiActivityRegisterTimestampCallback(my_clock));
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    enable(CUPTI_ACTIVITY_KIND_DRIVER);
    OK(queue_mark(q, NULL, 1));
    collect();
    FINE(cuptiGetTimestamp(&t));
    k = only(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    call = call_record(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
    assert_int_equal(k->end, k->start + 10);
    assert_true(call->end < k->start && k->end < t && t <= my_time);
}

int main(void)
{
#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(test_activity__##name, client_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_has_its_launch_and_the_id_of_its_call),
        TEST(a_name_outlives_its_module),
        TEST(a_kernel_that_has_not_run_is_not_told),
        TEST(a_kernel_launched_while_enabled_is_told_though_disabled_since),
        TEST(latency_times_are_those_of_the_call),
        TEST(copies_have_direction_memories_and_whether_they_wait),
        TEST(a_copy_between_devices_is_a_peer_copy),
        TEST(a_set_has_value_and_bytes),
        TEST(nodes_of_a_graph_have_its_id_and_their_own),
        TEST(a_graph_traced_as_a_whole_is_one_record),
        TEST(external_ids_come_before_the_record_of_the_call),
        TEST(synchronisations_and_events_know_each_other),
        TEST(events_have_device_times_if_asked_for),
        TEST(synchronisations_bring_the_events_that_they_refer_to),
        TEST(a_runtime_call_and_what_it_calls_have_one_id),
        TEST(queries_that_find_work_are_left_out_if_asked_for),
        TEST(contexts_and_streams_are_told_when_they_are_made),
        TEST(what_is_there_already_is_told_if_asked_for),
        TEST(single_functions_are_enabled_and_disabled),
        TEST(a_context_may_have_settings_of_its_own),
        TEST(a_failing_call_has_its_error),
        TEST(kinds_that_are_not_there_are_refused),
        TEST(times_are_those_of_the_clients_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
