/* What the hooks of calls bring: records of calls, of synchronisations and of recorded events, and
 * the external correlation ids of the calling thread. */
#include "softgpu/cupti/act.h"

#include "softgpu/cupti/api_gen.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct ids { /* a stack; owned */
    uint64_t *id;
    unsigned n, cap;
};

/* Of one thread; written by it alone. */
static _Thread_local struct {
    struct sg_act_call call;
    const struct sg_call *owner; /* of the above; compared only */
    uint32_t told;               /* correlation id whose external ones are recorded */
    bool registered;             /* freed at its end */
    struct ids external[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];
} thread;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

const struct sg_act_call *sg_act_call(void)
{
    return &thread.call;
}

/* ---- external correlation -----------------------------------------------------------------------
 */

static void end_thread(void *unused)
{
    (void)unused;
    for (int k = 0; k < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; k++) {
        free(thread.external[k].id);
        thread.external[k] = (struct ids){0};
    }
}

static void make_key(void)
{
    pthread_key_create(&thread_key, end_thread);
}

static bool is_external(CUpti_ExternalCorrelationKind kind)
{
    return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID &&
           kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

CUptiResult sg_cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                      uint64_t id)
{
    struct ids *s;

    if (!is_external(kind))
        return CUPTI_ERROR_INVALID_PARAMETER;
    s = &thread.external[kind];
    if (!thread.registered) {
        pthread_once(&thread_once, make_key);
        thread.registered = pthread_setspecific(thread_key, &thread) == 0;
    }
    if (s->n == s->cap) {
        unsigned cap = s->cap ? s->cap * 2 : 32;
        uint64_t *grown = realloc(s->id, cap * sizeof(*grown));

        if (!grown)
            return CUPTI_ERROR_OUT_OF_MEMORY;
        s->id = grown;
        s->cap = cap;
    }
    s->id[s->n++] = id;
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                     uint64_t *last)
{
    struct ids *s;

    if (!is_external(kind))
        return CUPTI_ERROR_INVALID_PARAMETER;
    s = &thread.external[kind];
    if (!s->n)
        return CUPTI_ERROR_QUEUE_EMPTY;
    s->n--;
    if (last)
        *last = s->id[s->n];
    return CUPTI_SUCCESS;
}

/* One record a kind before the first record of a call. */
static void put_external(uint32_t correlation)
{
    CUpti_ActivityExternalCorrelation r = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                           .correlationId = correlation};

    if (thread.told == correlation ||
        !sg_act_wants(0, SG_ACT_BIT(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)))
        return;
    thread.told = correlation;
    for (int k = 1; k < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; k++) {
        const struct ids *s = &thread.external[k];

        if (!s->n)
            continue;
        r.externalKind = (CUpti_ExternalCorrelationKind)k;
        r.externalId = s->id[s->n - 1];
        SG_ACT_PUT(&r);
    }
}

/* ---- synchronisation and events -----------------------------------------------------------------
 */

struct sync {
    CUpti_ActivitySynchronizationType type; /* UNKNOWN: the call is none */
    CUstream stream;
    CUevent event;
    bool has_stream, per_thread, query;
};

#define PARAMS(name) ((const name##_params *)call->params)
#define STREAM(name, ...)                                                                          \
    ((struct sync){                                                                                \
        .type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_##name, .has_stream = true, __VA_ARGS__})

static struct sync sync_of(const struct sg_call *call)
{
    switch (call->id) {
    case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize:
        return STREAM(STREAM_SYNCHRONIZE, .stream = PARAMS(cuStreamSynchronize)->hStream);
    case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz:
        return STREAM(STREAM_SYNCHRONIZE, .stream = PARAMS(cuStreamSynchronize_ptsz)->hStream,
                      .per_thread = true);
    case CUPTI_DRIVER_TRACE_CBID_cuStreamQuery:
        return STREAM(STREAM_SYNCHRONIZE, .stream = PARAMS(cuStreamQuery)->hStream, .query = true);
    case CUPTI_DRIVER_TRACE_CBID_cuStreamQuery_ptsz:
        return STREAM(STREAM_SYNCHRONIZE, .stream = PARAMS(cuStreamQuery_ptsz)->hStream,
                      .per_thread = true, .query = true);
    case CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent:
        return STREAM(STREAM_WAIT_EVENT, .stream = PARAMS(cuStreamWaitEvent)->hStream,
                      .event = PARAMS(cuStreamWaitEvent)->hEvent);
    case CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent_ptsz:
        return STREAM(STREAM_WAIT_EVENT, .stream = PARAMS(cuStreamWaitEvent_ptsz)->hStream,
                      .event = PARAMS(cuStreamWaitEvent_ptsz)->hEvent, .per_thread = true);
    case CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize:
        return (struct sync){.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE,
                             .event = PARAMS(cuEventSynchronize)->hEvent};
    case CUPTI_DRIVER_TRACE_CBID_cuEventQuery:
        return (struct sync){.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE,
                             .event = PARAMS(cuEventQuery)->hEvent,
                             .query = true};
    case CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize:
        return (struct sync){.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE};
    default:
        return (struct sync){.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN};
    }
}

static void put_sync(const struct sg_call *call, uint64_t end)
{
    const struct softgpu_tools *tools = sg_cupti_tools();
    struct sync s = sync_of(call);
    CUpti_ActivitySynchronization2 r = {.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                        .type = s.type,
                                        .start = call->start,
                                        .end = end,
                                        .correlationId = call->correlation,
                                        .streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE,
                                        .cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE,
                                        .cudaEventSyncId = CUPTI_SYNCHRONIZATION_INVALID_VALUE,
                                        .returnValue = (uint32_t)call->result};
    struct softgpu_place place = {0};
    struct softgpu_recorded event = {0};

    if (!s.type || (s.query && call->result && !sg_act_option(SG_ACT_PENDING_QUERIES)))
        return;
    tools->current(&r.contextId);
    if (s.event && tools->event(s.event, &event)) {
        r.contextId = event.context;
        r.cudaEventId = event.id;
        r.cudaEventSyncId = event.record;
    }
    if (s.has_stream && tools->place(s.stream, s.per_thread, &place)) {
        r.contextId = place.context;
        r.streamId = place.stream;
    }
    if (sg_act_wants(r.contextId, SG_ACT_BIT(r.kind)))
        SG_ACT_PUT(&r);
}

/* Without times of the device it is complete here; with them it waits for the event (act_work.c).
 */
static void put_event(const struct sg_call *call)
{
    CUpti_ActivityCudaEvent2 r = {.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT,
                                  .correlationId = call->correlation};
    struct softgpu_recorded event;
    struct softgpu_place place;
    CUevent ev = NULL;
    CUstream stream = NULL;
    bool per_thread = false;

    if (call->id == CUPTI_DRIVER_TRACE_CBID_cuEventRecord) {
        ev = PARAMS(cuEventRecord)->hEvent;
        stream = PARAMS(cuEventRecord)->hStream;
    } else if (call->id == CUPTI_DRIVER_TRACE_CBID_cuEventRecord_ptsz) {
        ev = PARAMS(cuEventRecord_ptsz)->hEvent;
        stream = PARAMS(cuEventRecord_ptsz)->hStream;
        per_thread = true;
    } else if (call->id == CUPTI_DRIVER_TRACE_CBID_cuEventRecordWithFlags) {
        ev = PARAMS(cuEventRecordWithFlags)->hEvent;
        stream = PARAMS(cuEventRecordWithFlags)->hStream;
    } else if (call->id == CUPTI_DRIVER_TRACE_CBID_cuEventRecordWithFlags_ptsz) {
        ev = PARAMS(cuEventRecordWithFlags_ptsz)->hEvent;
        stream = PARAMS(cuEventRecordWithFlags_ptsz)->hStream;
        per_thread = true;
    }
    if (!ev || call->result || sg_act_option(SG_ACT_EVENT_TIMESTAMPS) ||
        !sg_cupti_tools()->event(ev, &event) || !event.record ||
        !sg_cupti_tools()->place(stream, per_thread, &place) ||
        !sg_act_wants(place.context, SG_ACT_EVENT_KINDS))
        return;
    r.contextId = place.context;
    r.streamId = place.stream;
    r.deviceId = place.device;
    r.eventId = event.id;
    r.cudaEventSyncId = event.record;
    SG_ACT_PUT(&r);
}

/* ---- calls --------------------------------------------------------------------------------------
 */

static void enter(struct sg_call *call, bool runtime)
{
    call->start = sg_cupti_now();
    if (thread.call.name && thread.call.correlation == call->correlation)
        return; /* inside the one that is known */
    thread.call = (struct sg_act_call){.name = call->name,
                                       .correlation = call->correlation,
                                       .runtime = runtime,
                                       .start = call->start};
    thread.owner = call;
}

static void put_call(const struct sg_call *call, bool runtime, uint64_t end)
{
    CUpti_ActivityAPI r = {.kind =
                               runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER,
                           .cbid = call->id,
                           .start = call->start,
                           .end = end,
                           .processId = (uint32_t)getpid(),
                           .threadId = sg_cupti_thread_id(),
                           .correlationId = call->correlation,
                           .returnValue = (uint32_t)call->result};

    put_external(call->correlation);
    SG_ACT_PUT(&r);
}

static void leave(struct sg_call *call, bool runtime)
{
    uint64_t end = sg_cupti_now();

    if (thread.owner == call) {
        thread.owner = NULL;
        thread.call = (struct sg_act_call){0};
    }
    if (!call->start) /* its start was not seen */
        return;
    if (end < call->start) /* a clock of the client's that was set back */
        end = call->start;
    if (!runtime) {
        put_event(call);
        put_sync(call, end);
    }
    if (sg_act_wants_call(runtime, call->id))
        put_call(call, runtime, end);
}

const struct sg_cupti_listener sg_act_listener = {
    .enter = enter, .exit = leave, .notice = sg_act_notice};
