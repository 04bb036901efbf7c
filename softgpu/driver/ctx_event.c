/* Events of whole contexts: cuCtxRecordEvent and cuCtxWaitEvent. */
#include "softgpu/driver/core.h"
#include "softgpu/driver/order_item.h"
#include "softgpu/driver/strict.h"

#define MOST_CONTEXTS 64

/* What a context stands for here: a primary one includes the green contexts of its device. */
struct members {
    struct CUctx_st *v[MOST_CONTEXTS];
    unsigned n;
};

static void find_members(struct CUctx_st *ctx, struct members *m)
{
    m->n = 0;
    m->v[m->n++] = ctx;
    pthread_mutex_lock(&sg_driver.lock);
    for (struct CUctx_st *c = sg_driver.contexts; c && m->n < MOST_CONTEXTS; c = c->next)
        if (c != ctx && c->active && c->green && ctx->is_primary && c->dev == ctx->dev)
            m->v[m->n++] = c;
    pthread_mutex_unlock(&sg_driver.lock);
}

/* Checks, and what the context stands for. No stream of it may be captured. */
static CUresult enter(CUcontext ctx, CUevent event, struct members *m)
{
    CUresult r = sg_event_check(event);

    if (r == CUDA_SUCCESS)
        r = sg_context_check(ctx);
    if (r != CUDA_SUCCESS)
        return r;
    find_members(ctx, m);
    for (unsigned i = 0; i < m->n && r == CUDA_SUCCESS; i++)
        r = sg_capture_forbids_ctx(m->v[i]);
    return r;
}

static unsigned count_streams(const struct members *m)
{
    unsigned n = 0;

    for (unsigned i = 0; i < m->n; i++) {
        n += 2; /* the legacy stream, and the fence */
        for (const struct CUstream_st *s = m->v[i]->streams; s; s = s->next_in_ctx)
            n++;
    }
    return n;
}

/* In no stream: it follows all of them, and nothing follows it but who waits for the event. */
static CUresult record_locked(struct CUctx_st *ctx, CUevent event, const struct members *m)
{
    struct sg_item *i = sg_item_new(ctx->legacy, ctx, NULL, count_streams(m));

    if (!i)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned c = 0; c < m->n; c++) {
        sg_item_after(i, m->v[c]->legacy->last);
        sg_item_after(i, m->v[c]->fence);
        for (struct CUstream_st *s = m->v[c]->streams; s; s = s->next_in_ctx)
            sg_item_after(i, s->last);
        if (sg_strict())
            sg_order_behind_all(i, m->v[c]);
    }
    sg_event_set(event, i);
    sg_item_submit(i);
    return CUDA_SUCCESS;
}

CUresult sg_cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
    struct members m;
    CUresult r = enter(ctx, event, &m);

    if (r != CUDA_SUCCESS)
        return r;
    if (sg_context_root(event->ctx) != sg_context_root(ctx))
        return CUDA_ERROR_INVALID_HANDLE;
    sg_engine_lock();
    r = record_locked(ctx, event, &m);
    sg_engine_unlock();
    return r;
}

static CUresult fence(struct CUctx_st *ctx, CUevent event)
{
    struct sg_item *i = sg_item_new(ctx->legacy, ctx, NULL, 2);

    if (!i)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_item_get(i);
    sg_item_after(i, event->item);
    sg_item_after(i, ctx->fence);
    sg_item_submit(i);
    sg_item_put(ctx->fence);
    ctx->fence = i;
    return CUDA_SUCCESS;
}

CUresult sg_cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
    struct members m;
    CUresult r = enter(ctx, event, &m);

    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    if (event->capture) {
        sg_capture_invalidate(event->capture);
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    for (unsigned i = 0; i < m.n && r == CUDA_SUCCESS; i++)
        r = fence(m.v[i], event);
    sg_engine_unlock();
    return r;
}
