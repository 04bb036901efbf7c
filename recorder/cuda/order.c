/* Calls on streams, CUDA events and captures: the edges between works. */
#include <string.h>

#include "recorder/cuda/engine.h"

/* An order that the trace does not have: what follows may be behind all before. */
static void unsaid(void)
{
    tb_cu_lock();
    tb_cu_unsaid(2, 0);
    tb_cu_unlock();
}

/* An edge is an event with orders instead of memory. */
static struct tb_cu_work *edge_new(const char *name)
{
    struct tb_cu_work *w = tb_cu_recording() ? tb_cu_work_new(TB_EV_SYNC, name, NULL, false) : NULL;

    if (!w)
        unsaid();
    return w;
}

static void add(struct tb_cu_work *w, uint64_t what, uint64_t bits, const char *name)
{
    w->access[w->n++] = (struct tb_cu_access){
        .ordinal = what, .offset = bits, .word = 0xffff, .mode = 'q', .name = name};
}

static void edge(const char *name, const struct tb_cu_stream *s, const struct tb_cu_event *e)
{
    struct tb_cu_work *w = edge_new(name);

    if (w && s)
        add(w, TB_ALLOC_STREAM + s->ordinal, tb_cu_order_bits(s), "stream");
    if (w && e)
        add(w, TB_ALLOC_EVENT + e->ordinal, tb_cu_order_bits(NULL), "event");
    if (w)
        tb_cu_work_write(w);
}

/* @device -1: not known, so for all. */
static void device_edge(const char *name, int device)
{
    struct tb_cu_work *w = edge_new(name);

    if (w && device >= 0)
        add(w, TB_ALLOC_DEVICE + (uint64_t)device, tb_cu_order_bits(NULL), "device");
    if (w)
        tb_cu_work_write(w);
}

/* @external: the event becomes a node of the graph, not a part of the capture. */
static void record(CUevent event, CUstream stream, bool per_thread, bool external)
{
    bool capturing = tb_cu_capturing(stream, per_thread);

    tb_cu_where();
    tb_cu_lock();
    struct tb_cu_event *e = tb_cu_event(event);
    if (e)
        e->capture = capturing && !external ? tb_cu_capture_of(stream, per_thread) : 0;
    if (capturing) {
        tb_cu_unlock();
        return;
    }
    struct tb_cu_stream *s = tb_cu_stream(stream, per_thread);
    if (e)
        tb_cu_event_record(e, s);
    tb_cu_unlock();
    edge("cuEventRecord", s, e);
}

static void wait(CUstream stream, CUevent event, bool per_thread)
{
    tb_cu_where();
    tb_cu_lock();
    struct tb_cu_stream *s = tb_cu_stream(stream, per_thread);
    struct tb_cu_event *e = tb_cu_event(event);
    uint64_t capture = e && tb_cu_capture_lives(e->capture) ? e->capture : s->capture;
    if (capture) /* the stream joins it, or waits inside it */
        s->capture = capture;
    else if (e)
        tb_cu_event_wait(s, e);
    tb_cu_unlock();
    if (capture)
        return;
    edge("cuStreamWaitEvent", s, e);
}

static void event_synchronize(CUevent event)
{
    tb_cu_lock();
    struct tb_cu_event *e = tb_cu_event(event);
    if (e && e->recorded)
        (void)tb_cu_host_waited(&e->at);
    tb_cu_unlock();
    edge("cuEventSynchronize", NULL, e);
}

static void stream_synchronize(CUstream stream, bool per_thread)
{
    tb_cu_where();
    tb_cu_lock();
    struct tb_cu_stream *s = tb_cu_stream(stream, per_thread);
    if (s->legacy)
        (void)tb_cu_stream_tick(s); /* and for what it waits for */
    (void)tb_cu_host_waited(&s->known);
    tb_cu_unlock();
    edge("cuStreamSynchronize", s, NULL);
}

/* @context: NULL: the current one. */
static void synchronize(CUcontext context)
{
    int device;

    tb_cu_where();
    tb_cu_lock();
    device = context && tb_cu.devices ? tb_cu_ctx_device(context) : tb_cu_device_now();
    tb_cu_host_waited_device(device);
    tb_cu_unlock();
    device_edge("cuCtxSynchronize", device);
}

/* A query that succeeds orders as a wait does; it is no event, for programs poll. */
static void queried(CUstream stream, bool per_thread)
{
    tb_cu_where();
    tb_cu_lock();
    struct tb_cu_stream *s = tb_cu_stream(stream, per_thread);
    if (tb_cu_host_found(&s->known))
        tb_cu_unsaid(1, 2 * (uint64_t)s->ordinal);
    tb_cu_unlock();
}

static void event_queried(CUevent event)
{
    tb_cu_lock();
    const struct tb_cu_event *e = tb_cu_event(event);
    if (e && e->recorded && tb_cu_host_found(&e->at))
        tb_cu_unsaid(1, 2 * (uint64_t)e->ordinal + 1);
    tb_cu_unlock();
}

void tb_cu_stream_enter(struct tb_cuda_call *c)
{
    switch (c->id) {
    case TB_CUDA_cuStreamDestroy:
    case TB_CUDA_cuStreamDestroy_v2: {
        PARAMS(cuStreamDestroy);
        tb_cu_lock();
        tb_cu_stream_gone(p->hStream);
        tb_cu_unlock();
        break;
    }
    case TB_CUDA_cuEventDestroy:
    case TB_CUDA_cuEventDestroy_v2: {
        PARAMS(cuEventDestroy);
        tb_cu_lock();
        (void)tb_cu_map_take(&tb_cu.events, (uint64_t)(uintptr_t)p->hEvent);
        tb_cu_unlock();
        break;
    }
    }
}

static void set_owner(uint64_t stream, uint64_t unused)
{
    (void)unused;
    tb_cu_here();
    tb_cu_lock();
    tb_cu_stream_owner((CUstream)(uintptr_t)stream);
    tb_cu_unlock();
}

static void created_stream(CUstream stream, bool blocking)
{
    tb_cu_lock();
    tb_cu_stream_new(stream, blocking);
    tb_cu_unlock();
    tb_cu_late(set_owner, HANDLE(stream), 0);
}

static void created(struct tb_cuda_call *c)
{
    if (c->id == TB_CUDA_cuStreamCreate) {
        PARAMS(cuStreamCreate);
        created_stream(*p->phStream, !(p->Flags & CU_STREAM_NON_BLOCKING));
    } else if (c->id == TB_CUDA_cuStreamCreateWithPriority) {
        PARAMS(cuStreamCreateWithPriority);
        created_stream(*p->phStream, !(p->flags & CU_STREAM_NON_BLOCKING));
    } else if (c->id == TB_CUDA_cuEventCreate) {
        PARAMS(cuEventCreate);
        tb_cu_lock();
        (void)tb_cu_event(*p->phEvent);
        tb_cu_unlock();
    }
}

static bool is_ptsz(uint32_t id)
{
    return id == TB_CUDA_cuStreamEndCapture_ptsz || id == TB_CUDA_cuStreamBeginCapture_ptsz ||
           id == TB_CUDA_cuStreamBeginCapture_v2_ptsz ||
           id == TB_CUDA_cuStreamBeginCaptureToGraph_ptsz;
}

/* The stream is the first argument of each. */
static void captured(struct tb_cuda_call *c)
{
    PARAMS(cuStreamBeginCapture);
    bool per_thread = is_ptsz(c->id);

    switch (c->id) {
    case TB_CUDA_cuStreamEndCapture:
    case TB_CUDA_cuStreamEndCapture_ptsz:
        tb_cu_lock();
        tb_cu_capture_end(tb_cu_capture_of(p->hStream, per_thread));
        tb_cu_unlock();
        if (__atomic_load_n(&tb_cu.captures, __ATOMIC_RELAXED))
            __atomic_fetch_sub(&tb_cu.captures, 1, __ATOMIC_RELAXED);
        break;
    default:
        if (c->result != CUDA_SUCCESS)
            return;
        tb_cu_lock();
        tb_cu_stream(p->hStream, per_thread)->capture = ++tb_cu.capture_numbers;
        tb_cu_unlock();
        __atomic_fetch_add(&tb_cu.captures, 1, __ATOMIC_RELAXED);
    }
}

static bool waits_for_value(uint32_t id)
{
    switch (id) {
    case TB_CUDA_cuStreamWaitValue32:
    case TB_CUDA_cuStreamWaitValue32_ptsz:
    case TB_CUDA_cuStreamWaitValue32_v2:
    case TB_CUDA_cuStreamWaitValue32_v2_ptsz:
    case TB_CUDA_cuStreamWaitValue64:
    case TB_CUDA_cuStreamWaitValue64_ptsz:
    case TB_CUDA_cuStreamWaitValue64_v2:
    case TB_CUDA_cuStreamWaitValue64_v2_ptsz:
        return true;
    default:
        return false;
    }
}

void tb_cu_stream_exit(struct tb_cuda_call *c)
{
    bool ok = c->result == CUDA_SUCCESS;

    switch (c->id) {
    case TB_CUDA_cuStreamBeginCapture:
    case TB_CUDA_cuStreamBeginCapture_ptsz:
    case TB_CUDA_cuStreamBeginCapture_v2:
    case TB_CUDA_cuStreamBeginCapture_v2_ptsz:
    case TB_CUDA_cuStreamBeginCaptureToGraph:
    case TB_CUDA_cuStreamBeginCaptureToGraph_ptsz:
    case TB_CUDA_cuStreamEndCapture:
    case TB_CUDA_cuStreamEndCapture_ptsz:
        captured(c);
        return;
    default:
        break;
    }
    if (!ok)
        return;
    switch (c->id) {
    case TB_CUDA_cuEventRecord:
    case TB_CUDA_cuEventRecord_ptsz: {
        PARAMS(cuEventRecord);
        record(p->hEvent, p->hStream, c->id == TB_CUDA_cuEventRecord_ptsz, false);
        break;
    }
    case TB_CUDA_cuEventRecordWithFlags:
    case TB_CUDA_cuEventRecordWithFlags_ptsz: {
        PARAMS(cuEventRecordWithFlags);
        record(p->hEvent, p->hStream, c->id == TB_CUDA_cuEventRecordWithFlags_ptsz,
               p->flags & CU_EVENT_RECORD_EXTERNAL);
        break;
    }
    case TB_CUDA_cuStreamWaitEvent:
    case TB_CUDA_cuStreamWaitEvent_ptsz: {
        PARAMS(cuStreamWaitEvent);
        wait(p->hStream, p->hEvent, c->id == TB_CUDA_cuStreamWaitEvent_ptsz);
        break;
    }
    case TB_CUDA_cuEventSynchronize: {
        PARAMS(cuEventSynchronize);
        event_synchronize(p->hEvent);
        break;
    }
    case TB_CUDA_cuEventQuery: {
        PARAMS(cuEventQuery);
        event_queried(p->hEvent);
        break;
    }
    case TB_CUDA_cuStreamSynchronize:
    case TB_CUDA_cuStreamSynchronize_ptsz: {
        PARAMS(cuStreamSynchronize);
        stream_synchronize(p->hStream, c->id == TB_CUDA_cuStreamSynchronize_ptsz);
        break;
    }
    case TB_CUDA_cuStreamQuery:
    case TB_CUDA_cuStreamQuery_ptsz: {
        PARAMS(cuStreamQuery);
        queried(p->hStream, c->id == TB_CUDA_cuStreamQuery_ptsz);
        break;
    }
    case TB_CUDA_cuCtxSynchronize:
        synchronize(NULL);
        break;
    case TB_CUDA_cuCtxSynchronize_v2: {
        PARAMS(cuCtxSynchronize_v2);
        synchronize(p->ctx);
        break;
    }
    case TB_CUDA_cuStreamCreate:
    case TB_CUDA_cuStreamCreateWithPriority:
    case TB_CUDA_cuEventCreate:
        created(c);
        break;
    default:
        if (waits_for_value(c->id))
            unsaid();
    }
}
