/* Streams: handles, their life, waiting for them. */
#include "softgpu/driver/hooks.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/order_item.h"
#include "softgpu/driver/strict.h"

#include "softgpu/driver/api_gen.h"

#include <stdlib.h>
#include <string.h>

static pthread_key_t thread_key; /* whose destructor ends a thread's own streams */
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool has_key;

static int clamp_priority(int p)
{
    if (p > SG_PRIORITY_LEAST)
        return SG_PRIORITY_LEAST;
    return p < SG_PRIORITY_GREATEST ? SG_PRIORITY_GREATEST : p;
}

/* Without a place in its context's list. */
static struct CUstream_st *make(struct CUctx_st *ctx, unsigned flags, int priority)
{
    struct CUstream_st *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->magic = SG_MAGIC_STREAM;
    s->refs = 1;
    s->ctx = ctx;
    s->flags = flags;
    s->priority = clamp_priority(priority);
    s->sync_policy = CU_SYNC_POLICY_AUTO;
    s->domain_map.remote = 1;
    if (!sg_handle_add(s, SG_MAGIC_STREAM)) {
        free(s);
        return NULL;
    }
    return s;
}

CUresult sg_stream_new(struct CUctx_st *ctx, unsigned flags, int priority, struct CUstream_st **out)
{
    struct CUstream_st *s = make(ctx, flags, priority);
    struct sg_engine *e;

    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e = sg_engine_lock();
    s->id = ++e->next_stream;
    s->next_in_ctx = ctx->streams;
    ctx->streams = s;
    sg_engine_unlock();
    SG_TELL(.kind = SG_NOTICE_STREAM_CREATED, .ctx = ctx, .stream = s);
    *out = s;
    return CUDA_SUCCESS;
}

static void unlink_stream(struct CUstream_st *s)
{
    struct CUstream_st **p = &s->ctx->streams;

    while (*p && *p != s)
        p = &(*p)->next_in_ctx;
    if (*p)
        *p = s->next_in_ctx;
}

void sg_stream_unref(struct CUstream_st *s)
{
    if (!s || --s->refs)
        return;
    unlink_stream(s);
    if (sg_strict())
        sg_order_stream_gone(s);
    sg_node_set_clear(&s->tail);
    s->magic = SG_MAGIC_DEAD;
    free(s);
}

static void destroy(struct CUstream_st *s)
{
    s->dead = true;
    sg_handle_remove(s);
    sg_stream_unref(s);
}

CUresult sg_streams_init_ctx(struct CUctx_st *ctx)
{
    struct CUstream_st *s = make(ctx, CU_STREAM_DEFAULT, 0);
    struct sg_engine *e;

    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    s->legacy = true;
    e = sg_engine_lock();
    s->id = ++e->next_stream;
    ctx->legacy = s;
    sg_engine_unlock();
    return CUDA_SUCCESS;
}

void sg_streams_destroy_ctx(struct CUctx_st *ctx)
{
    struct CUstream_st *s, *next;

    sg_engine_drain_ctx(ctx);
    sg_engine_lock();
    for (s = ctx->streams; s; s = next) {
        next = s->next_in_ctx;
        if (s->capture)
            sg_capture_end(s->capture);
        if (!s->dead)
            destroy(s);
    }
    if (ctx->legacy)
        destroy(ctx->legacy);
    ctx->legacy = NULL;
    sg_item_put(ctx->fence);
    ctx->fence = NULL;
    sg_events_destroy_ctx(ctx);
    sg_engine_unlock();
}

/* ---- what a handle means ----------------------------------------- */

static void tell_end(struct CUstream_st *s)
{
    SG_TELL(.kind = SG_NOTICE_STREAM_DESTROY, .ctx = s->ctx, .stream = s);
}

static void end_thread(void *arg)
{
    struct sg_tls *tls = arg;

    for (size_t i = 0; i < TB_ARRAY_LEN(tls->per_thread) && SG_HOOKED; i++)
        if (tls->per_thread[i] && sg_handle_is(tls->per_thread[i], SG_MAGIC_STREAM))
            tell_end(tls->per_thread[i]);
    sg_engine_lock();
    for (size_t i = 0; i < TB_ARRAY_LEN(tls->per_thread); i++) {
        struct CUstream_st *s = tls->per_thread[i];

        if (s && sg_handle_is(s, SG_MAGIC_STREAM) && s->per_thread && !s->capture)
            destroy(s);
        tls->per_thread[i] = NULL;
    }
    sg_engine_unlock();
}

static void make_key(void)
{
    has_key = pthread_key_create(&thread_key, end_thread) == 0;
}

static CUresult per_thread(struct CUctx_st *ctx, struct CUstream_st **out)
{
    struct sg_tls *tls = sg_tls();
    struct CUstream_st *s, **slot = NULL;
    CUresult r;

    for (size_t i = 0; i < TB_ARRAY_LEN(tls->per_thread); i++) {
        s = tls->per_thread[i];
        if (s && !sg_handle_is(s, SG_MAGIC_STREAM))
            s = tls->per_thread[i] = NULL; /* its context has ended */
        if (s && s->ctx == ctx && s->per_thread) {
            *out = s;
            return CUDA_SUCCESS;
        }
        if (!s && !slot)
            slot = &tls->per_thread[i];
    }
    if (!slot)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = sg_stream_new(ctx, CU_STREAM_DEFAULT, 0, &s);
    if (r != CUDA_SUCCESS)
        return r;
    s->per_thread = true;
    pthread_once(&thread_once, make_key);
    if (has_key) /* else the stream lives as long as its context */
        pthread_setspecific(thread_key, tls);
    *slot = *out = s;
    return CUDA_SUCCESS;
}

CUresult sg_stream_in(struct CUctx_st *ctx, CUstream given, bool ptds, struct CUstream_st **out)
{
    if (given == CU_STREAM_PER_THREAD || (!given && ptds))
        return per_thread(ctx, out);
    if (!given || given == CU_STREAM_LEGACY) {
        *out = ctx->legacy;
        return CUDA_SUCCESS;
    }
    if (!sg_handle_is(given, SG_MAGIC_STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = given;
    return CUDA_SUCCESS;
}

CUresult sg_stream_of(CUstream given, struct CUstream_st **out)
{
    struct CUctx_st *ctx;
    CUresult r = sg_enter();

    if (r == CUDA_SUCCESS)
        r = sg_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    r = sg_stream_in(ctx, given, sg_tls()->ptds, out);
    return r == CUDA_SUCCESS ? (CUresult)atomic_load(&(*out)->ctx->sticky) : r;
}

bool sg_stream_is_capturing(CUstream given)
{
    struct CUstream_st *s;
    bool is;

    if (sg_stream_of(given, &s) != CUDA_SUCCESS)
        return false;
    sg_engine_lock();
    is = s->capture != NULL;
    sg_engine_unlock();
    return is;
}

/* ---- creating and destroying ------------------------------------- */

CUresult sg_cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    struct CUctx_st *ctx;
    CUresult r = sg_enter();

    if (r == CUDA_SUCCESS)
        r = sg_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_stream_new(ctx, flags, priority, out);
}

CUresult sg_cuStreamCreate(CUstream *out, unsigned flags)
{
    return sg_cuStreamCreateWithPriority(out, flags, 0);
}

/* A stream that joined a sequence may go, its nodes stay; its origin may not. */
static CUresult may_destroy(struct CUstream_st *s)
{
    return !s->capture || s->capture->origin == s ? sg_capture_refuse(s) : CUDA_SUCCESS;
}

CUresult sg_cuStreamDestroy_v2(CUstream given)
{
    CUresult r = sg_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!sg_handle_is(given, SG_MAGIC_STREAM) || given->legacy || given->per_thread)
        return CUDA_ERROR_INVALID_HANDLE;
    sg_engine_lock();
    r = may_destroy(given);
    if (r == CUDA_SUCCESS && SG_HOOKED) { /* a tool is told without the lock */
        sg_engine_unlock();
        tell_end(given);
        sg_engine_lock();
        r = may_destroy(given);
    }
    if (r == CUDA_SUCCESS)
        destroy(given);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuStreamDestroy(CUstream given)
{
    return sg_cuStreamDestroy_v2(given);
}

/* ---- waiting ----------------------------------------------------- */

CUresult sg_stream_result(struct CUstream_st *s)
{
    CUresult r = (CUresult)atomic_load(&s->ctx->sticky);

    if (r == CUDA_SUCCESS) {
        r = s->async_error;
        s->async_error = CUDA_SUCCESS;
    }
    return r;
}

/* A pending item of what the stream stands for: the legacy stream includes the blocking streams of
 * its context. A reference, or NULL. */
static struct sg_item *pending_of(struct CUstream_st *s)
{
    struct sg_item *i = s->last;

    if (s->legacy)
        for (struct CUstream_st *t = s->ctx->streams; t && !i; t = t->next_in_ctx)
            if (!(t->flags & CU_STREAM_NON_BLOCKING))
                i = t->last;
    if (i)
        sg_item_get(i);
    return i;
}

/* Both ways of asking refuse captured streams, and, where a capture is under way, to be used. */
static CUresult open_wait(CUstream given, struct CUstream_st **s)
{
    CUresult r = sg_stream_of(given, s);

    if (r == CUDA_SUCCESS)
        r = sg_capture_forbids();
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    (*s)->refs++; /* it may be destroyed by another thread while this one waits */
    r = sg_capture_refuse(*s);
    if (r != CUDA_SUCCESS) {
        sg_stream_unref(*s);
        sg_engine_unlock();
    }
    return r;
}

/* What was freed in the streams that were waited for may be used by others. */
static void tell_pools(struct CUstream_st *s)
{
    sg_memory_synced(s->ctx, s);
    if (s->legacy)
        for (struct CUstream_st *t = s->ctx->streams; t; t = t->next_in_ctx)
            if (!(t->flags & CU_STREAM_NON_BLOCKING))
                sg_memory_synced(s->ctx, t);
}

CUresult sg_cuStreamSynchronize(CUstream given)
{
    struct CUstream_st *s;
    struct sg_item *i;
    CUresult r = open_wait(given, &s);

    if (r != CUDA_SUCCESS)
        return r;
    i = pending_of(s);
    if (i && s->legacy) { /* one more item follows all that must be waited for */
        sg_item_put(i);
        i = NULL;
        r = sg_stream_push(s, s->ctx, NULL, NULL, &i);
    }
    if (i)
        sg_engine_wait(i);
    sg_item_put(i);
    if (r == CUDA_SUCCESS && sg_strict())
        sg_order_host_waited(sg_driver.engine, s);
    if (r == CUDA_SUCCESS)
        r = sg_stream_result(s);
    if (r == CUDA_SUCCESS)
        tell_pools(s);
    if (r == CUDA_SUCCESS)
        SG_TELL_LATER(.kind = SG_NOTICE_STREAM_SYNCHRONIZED, .ctx = s->ctx, .stream = given);
    sg_stream_unref(s);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuStreamQuery(CUstream given)
{
    struct CUstream_st *s;
    struct sg_item *i;
    CUresult r = open_wait(given, &s);

    if (r != CUDA_SUCCESS)
        return r;
    i = pending_of(s);
    if (i) {
        sg_engine_progress(sg_driver.engine, s->id, &s->queries, i);
        sg_item_put(i);
        i = pending_of(s);
    }
    if (!i && sg_strict())
        sg_order_host_waited(sg_driver.engine, s);
    r = sg_stream_result(s);
    if (i && r == CUDA_SUCCESS)
        r = CUDA_ERROR_NOT_READY;
    sg_item_put(i);
    sg_stream_unref(s);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuStreamWaitEvent(CUstream given, CUevent event, unsigned flags)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r == CUDA_SUCCESS)
        r = sg_event_check(event);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    if (s->capture || event->capture)
        r = sg_capture_wait(s, event, flags);
    else if (flags)
        r = CUDA_ERROR_INVALID_VALUE; /* external only has a meaning in capture */
    else
        r = sg_capture_implicit(s, true);
    if (r == CUDA_SUCCESS && !s->capture && event->item && sg_strict())
        sg_clock_join(&s->done,
                      &event->item->clock); /* what it knows by now; the rest comes below */
    if (r == CUDA_SUCCESS && !s->capture && event->item && event->item->state != SG_ITEM_DONE)
        r = sg_stream_push(s, s->ctx, NULL, event->item, NULL);
    sg_engine_unlock();
    return r;
}
