/* From work to an item of a stream, or to a node of the graph that the stream is captured into. */
#include "softgpu/driver/stream.h"
#include "softgpu/driver/strict.h"

/* Kernels belong to the stream's context; copies may run in any stream. */
static CUresult check_ctx(const struct CUstream_st *s, struct sg_work *w)
{
    if (!w->ctx)
        w->ctx = s->ctx;
    return w->kind == SG_WORK_KERNEL && w->ctx != s->ctx ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

/* Queue it and, with @wait, execute until it is done. With the lock. */
static CUresult enqueue(struct CUstream_st *s, struct sg_wref *ref, bool wait)
{
    struct sg_item *item = NULL;
    struct CUctx_st *ctx = ref->w.ctx;
    CUresult r = sg_capture_implicit(s, true);

    if (r == CUDA_SUCCESS)
        r = sg_stream_push(s, ctx, ref, NULL, wait ? &item : NULL);
    if (!item)
        return r;
    sg_engine_wait(item);
    r = item->result;
    if (s->async_error == r)
        s->async_error = CUDA_SUCCESS; /* told here */
    sg_item_put(item);
    return atomic_load(&ctx->sticky) ? (CUresult)atomic_load(&ctx->sticky) : r;
}

/* A node, to which only this thread has access so far. With the lock. */
static CUresult capture(struct CUstream_st *s, struct sg_wref *ref)
{
    CUresult r = CUDA_SUCCESS;

    if (ref->w.kind == SG_WORK_KERNEL && s->priority)
        r = sg_kernel_set_priority(&ref->w.kernel, s->priority);
    return r == CUDA_SUCCESS ? sg_capture_add(s, sg_wref_get(ref), NULL) : r;
}

/* @sync: a call that returns when the work is done, which no captured stream can promise. */
static CUresult submit(CUstream given, struct sg_work *w, bool sync)
{
    bool blocking = w->kind == SG_WORK_KERNEL && sg_driver.opt.launch_blocking;
    struct CUstream_st *s = NULL;
    struct sg_wref *ref;
    CUresult r = sg_stream_of(given, &s);

    if (sg_strict())
        w->by = sg_strict_by();
    if (r == CUDA_SUCCESS)
        r = check_ctx(s, w);
    if (r == CUDA_SUCCESS && sync)
        r = sg_capture_forbids();
    if (r != CUDA_SUCCESS) {
        sg_work_release(w);
        return r;
    }
    ref = sg_wref_new(w);
    if (!ref)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_engine_lock();
    if (!s->capture)
        r = enqueue(s, ref, sync || blocking);
    else
        r = sync ? sg_capture_refuse(s) : capture(s, ref);
    sg_engine_unlock();
    sg_wref_put(ref);
    return r;
}

CUresult sg_submit(CUstream stream, struct sg_work *w)
{
    return submit(stream, w, false);
}

CUresult sg_submit_sync(CUstream stream, struct sg_work *w)
{
    return submit(stream, w, true);
}
