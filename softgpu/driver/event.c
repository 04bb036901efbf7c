/* Events: a name for the item that was last recorded under it. */
#include "softgpu/driver/strict.h"
#include "softgpu/driver/trace_item.h"

#include "softgpu/driver/api_gen.h"

#include <stdlib.h>

#define KNOWN_FLAGS                                                                                \
    ((unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS))

CUresult sg_event_check(CUevent event)
{
    CUresult r = sg_enter();

    if (r == CUDA_SUCCESS && !sg_handle_is(event, SG_MAGIC_EVENT))
        r = CUDA_ERROR_INVALID_HANDLE;
    return r;
}

CUresult sg_cuEventCreate(CUevent *out, unsigned flags)
{
    struct CUctx_st *ctx;
    struct CUevent_st *ev;
    struct sg_engine *e;
    CUresult r = sg_enter();

    if (r == CUDA_SUCCESS)
        r = sg_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || (flags & ~KNOWN_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS) {
        sg_log(1, "events between processes are not supported");
        return flags & CU_EVENT_DISABLE_TIMING ? CUDA_ERROR_NOT_SUPPORTED
                                               : CUDA_ERROR_INVALID_VALUE;
    }
    ev = calloc(1, sizeof(*ev));
    if (!ev || !sg_handle_add(ev, SG_MAGIC_EVENT)) {
        free(ev);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    ev->magic = SG_MAGIC_EVENT;
    atomic_init(&ev->refs, 1);
    ev->ctx = ctx;
    ev->flags = flags;
    e = sg_engine_lock();
    ev->id = ++e->next_event;
    ev->next = e->events;
    if (e->events)
        e->events->prev = ev;
    e->events = ev;
    sg_engine_unlock();
    *out = ev;
    return CUDA_SUCCESS;
}

struct CUevent_st *sg_event_ref(struct CUevent_st *ev)
{
    if (ev)
        atomic_fetch_add_explicit(&ev->refs, 1, memory_order_relaxed);
    return ev;
}

void sg_event_unref(struct CUevent_st *ev)
{
    if (!ev || atomic_fetch_sub_explicit(&ev->refs, 1, memory_order_acq_rel) != 1)
        return;
    ev->magic = SG_MAGIC_DEAD;
    free(ev);
}

void sg_event_set(struct CUevent_st *ev, struct sg_item *item)
{
    if (item)
        sg_item_get(item);
    sg_item_put(ev->item);
    ev->item = item;
    sg_capture_put(ev->capture);
    ev->capture = NULL;
    sg_node_set_clear(&ev->tail);
}

/* Only graph nodes may still know it then, and find it dead. */
static void destroy(struct CUevent_st *ev)
{
    sg_event_set(ev, NULL);
    if (ev->next)
        ev->next->prev = ev->prev;
    *(ev->prev ? &ev->prev->next : &sg_driver.engine->events) = ev->next;
    ev->dead = true;
    sg_handle_remove(ev);
    sg_event_unref(ev);
}

void sg_events_destroy_ctx(struct CUctx_st *ctx)
{
    struct CUevent_st *ev, *next;

    for (ev = sg_driver.engine->events; ev; ev = next) {
        next = ev->next;
        if (ev->ctx == ctx && !ev->dead)
            destroy(ev);
    }
}

CUresult sg_cuEventDestroy_v2(CUevent event)
{
    CUresult r = sg_event_check(event);

    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    destroy(event);
    sg_engine_unlock();
    return CUDA_SUCCESS;
}

CUresult sg_cuEventDestroy(CUevent event)
{
    return sg_cuEventDestroy_v2(event);
}

/* ---- recording --------------------------------------------------- */

static CUresult record(CUevent event, CUstream given, unsigned flags)
{
    struct CUstream_st *s;
    struct sg_item *item = NULL;
    CUresult r = sg_stream_of(given, &s);

    if (r == CUDA_SUCCESS)
        r = sg_event_check(event);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (event->ctx != s->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    sg_engine_lock();
    if (s->capture) {
        r = sg_capture_record(s, event, flags);
    } else if (flags) {
        r = CUDA_ERROR_INVALID_VALUE; /* external only has a meaning in capture */
    } else {
        r = sg_capture_implicit(s, true);
        if (r == CUDA_SUCCESS)
            r = sg_stream_push(s, s->ctx, NULL, NULL, &item);
        if (r == CUDA_SUCCESS) {
            sg_event_set(event, item);
            if (SG_TRACED)
                sg_trace_event(item, event);
        }
        sg_item_put(item);
    }
    sg_engine_unlock();
    return r;
}

CUresult sg_cuEventRecord(CUevent event, CUstream stream)
{
    return record(event, stream, 0);
}

CUresult sg_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    return record(event, stream, flags);
}

/* ---- asking ------------------------------------------------------ */

/* On success the lock is held. */
static CUresult open_ask(CUevent event)
{
    CUresult r = sg_event_check(event);

    if (r == CUDA_SUCCESS)
        r = sg_capture_forbids();
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    if (!event->capture)
        return CUDA_SUCCESS;
    sg_capture_invalidate(event->capture);
    sg_engine_unlock();
    return CUDA_ERROR_CAPTURED_EVENT;
}

static CUresult result_of(CUcontext ctx, CUresult item)
{
    CUresult sticky = (CUresult)atomic_load(&ctx->sticky);

    return sticky != CUDA_SUCCESS ? sticky : item;
}

CUresult sg_cuEventQuery(CUevent event)
{
    struct sg_item *i;
    CUcontext ctx;
    CUresult r = open_ask(event), done = CUDA_SUCCESS;

    if (r != CUDA_SUCCESS)
        return r;
    ctx = event->ctx;
    i = event->item;
    if (i) {
        sg_item_get(i);
        if (i->state != SG_ITEM_DONE)
            sg_engine_progress(sg_driver.engine, event->id, &event->queries, i);
        done = i->state == SG_ITEM_DONE ? i->result : CUDA_ERROR_NOT_READY;
        if (i->state == SG_ITEM_DONE && sg_strict())
            sg_clock_join(&sg_driver.engine->host, &i->clock);
        sg_item_put(i);
    }
    sg_engine_unlock();
    return result_of(ctx, done);
}

CUresult sg_cuEventSynchronize(CUevent event)
{
    struct sg_item *i;
    CUcontext ctx;
    CUresult r = open_ask(event), done = CUDA_SUCCESS;

    if (r != CUDA_SUCCESS)
        return r;
    ctx = event->ctx;
    i = event->item;
    if (i) {
        sg_item_get(i);
        sg_engine_wait(i);
        done = i->result;
        sg_item_put(i);
    }
    sg_engine_unlock();
    return result_of(ctx, done);
}

static CUresult elapsed(const struct CUevent_st *a, const struct CUevent_st *b, float *ms)
{
    if (a->capture || b->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!a->item || !b->item)
        return CUDA_ERROR_INVALID_HANDLE;
    if (a->item->state != SG_ITEM_DONE || b->item->state != SG_ITEM_DONE)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(int64_t)(b->item->done_ns - a->item->done_ns) / 1e6);
    return CUDA_SUCCESS;
}

static CUresult elapsed_time(float *ms, CUevent start, CUevent end)
{
    CUresult r = sg_event_check(start);

    if (r == CUDA_SUCCESS)
        r = sg_event_check(end);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (start->ctx->dev != end->ctx->dev || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    sg_engine_lock();
    r = elapsed(start, end, ms);
    sg_engine_unlock();
    return result_of(start->ctx, r);
}

CUresult sg_cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return elapsed_time(ms, start, end);
}

CUresult sg_cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    return elapsed_time(ms, start, end);
}
