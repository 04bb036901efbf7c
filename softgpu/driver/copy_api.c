/*
 * cuMemcpy and all its forms. Each makes a CUDA_MEMCPY3D of its arguments and one of three things
 * of it, as the manual's "API synchronization behavior" has it: the copy is queued; its source, if
 * it is pageable memory, is read at once and the rest queued; or it is waited for.
 */
#include "softgpu/driver/memory_internal.h"

#include <string.h>

/* An asynchronous copy from pageable memory up to this size does not wait for its stream. */
#define STAGE_MAX (UINT64_C(64) << 20)

enum way { QUEUE, STAGE, WAIT };

static enum way way_of(const struct sg_copy_work *c, bool async)
{
    bool sync = false;
    enum sg_side_kind src = sg_side_kind(c->src, &sync), dst = sg_side_kind(c->dst, &sync);

    if (!async)
        return src == SG_SIDE_DEVICE && dst == SG_SIDE_DEVICE && !sync ? QUEUE : WAIT;
    if (src == SG_SIDE_PAGEABLE && dst == SG_SIDE_DEVICE)
        return c->width * c->height * c->depth <= STAGE_MAX ? STAGE : WAIT;
    /* to pageable memory, and from host to host, the call returns when the copy is done */
    return dst == SG_SIDE_PAGEABLE || (src != SG_SIDE_DEVICE && dst != SG_SIDE_DEVICE) ? WAIT
                                                                                       : QUEUE;
}

static CUresult submit(struct sg_work *w, CUstream stream, enum way way)
{
    if (!w->copy.width) { /* of nothing: only the stream is checked */
        struct CUstream_st *s;

        return sg_stream_of(stream, &s);
    }
    /* a captured node reads its source when it is launched */
    if (way == STAGE && !sg_stream_is_capturing(stream) && !sg_copy_stage(&w->copy))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return way == WAIT ? sg_submit_sync(stream, w) : sg_submit(stream, w);
}

static CUresult copy_box(const CUDA_MEMCPY3D *given, CUstream stream, bool async)
{
    struct CUctx_st *ctx = NULL;
    struct sg_work w;
    enum way way;
    CUresult r = sg_memory_enter(&ctx);

    if (r == CUDA_SUCCESS)
        r = given ? sg_copy_make(given, ctx, &w) : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    way = way_of(&w.copy, async);
    if (async && sg_stream_is_capturing(stream))
        way = QUEUE;
    return submit(&w, stream, way);
}

/* ---- one row ----------------------------------------------------------------------------------
 */

static CUDA_MEMCPY3D row(CUmemorytype to, uint64_t dst, CUmemorytype from, uint64_t src, size_t n)
{
    CUDA_MEMCPY3D c = {.WidthInBytes = n, .Height = 1, .Depth = 1};

    c.srcMemoryType = from;
    c.dstMemoryType = to;
    if (from == CU_MEMORYTYPE_HOST)
        c.srcHost = (const void *)(uintptr_t)src;
    else
        c.srcDevice = src;
    if (to == CU_MEMORYTYPE_HOST)
        c.dstHost = (void *)(uintptr_t)dst;
    else
        c.dstDevice = dst;
    return c;
}

static CUresult copy_row(CUmemorytype to, uint64_t dst, CUmemorytype from, uint64_t src, size_t n,
                         CUstream stream, bool async)
{
    CUDA_MEMCPY3D c = row(to, dst, from, src, n);

    return copy_box(&c, stream, async);
}

#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define UNIFIED CU_MEMORYTYPE_UNIFIED

CUresult sg_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    return copy_row(UNIFIED, dst, UNIFIED, src, n, NULL, false);
}

CUresult sg_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
    return copy_row(UNIFIED, dst, UNIFIED, src, n, stream, true);
}

CUresult sg_cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n)
{
    return copy_row(DEVICE, dst, HOST, (uintptr_t)src, n, NULL, false);
}

CUresult sg_cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
    return copy_row(DEVICE, dst, HOST, (uintptr_t)src, n, stream, true);
}

CUresult sg_cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n)
{
    return copy_row(HOST, (uintptr_t)dst, DEVICE, src, n, NULL, false);
}

CUresult sg_cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
    return copy_row(HOST, (uintptr_t)dst, DEVICE, src, n, stream, true);
}

CUresult sg_cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    return copy_row(DEVICE, dst, DEVICE, src, n, NULL, false);
}

CUresult sg_cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
    return copy_row(DEVICE, dst, DEVICE, src, n, stream, true);
}

/* ---- two and three dimensions -----------------------------------------------------------------
 */

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream stream, bool async)
{
    CUDA_MEMCPY3D c = {.Depth = 1};

    if (!p)
        return copy_box(NULL, stream, async);
    c.srcXInBytes = p->srcXInBytes;
    c.srcY = p->srcY;
    c.srcMemoryType = p->srcMemoryType;
    c.srcHost = p->srcHost;
    c.srcDevice = p->srcDevice;
    c.srcArray = p->srcArray;
    c.srcPitch = p->srcPitch;
    c.dstXInBytes = p->dstXInBytes;
    c.dstY = p->dstY;
    c.dstMemoryType = p->dstMemoryType;
    c.dstHost = p->dstHost;
    c.dstDevice = p->dstDevice;
    c.dstArray = p->dstArray;
    c.dstPitch = p->dstPitch;
    c.WidthInBytes = p->WidthInBytes;
    c.Height = p->Height;
    return copy_box(&c, stream, async);
}

CUresult sg_cuMemcpy2D_v2(const CUDA_MEMCPY2D *p)
{
    return copy_2d(p, NULL, false);
}

CUresult sg_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p)
{
    return copy_2d(p, NULL, false);
}

CUresult sg_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream stream)
{
    return copy_2d(p, stream, true);
}

CUresult sg_cuMemcpy3D_v2(const CUDA_MEMCPY3D *p)
{
    return copy_box(p, NULL, false);
}

CUresult sg_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream stream)
{
    return copy_box(p, stream, true);
}

/* ---- between contexts -------------------------------------------------------------------------
 */

static CUresult copy_peer(const CUDA_MEMCPY3D *given, CUcontext to, CUcontext from, CUstream stream,
                          bool async)
{
    struct CUctx_st *ctx = NULL;
    struct sg_work w;
    CUresult r = sg_memory_enter(&ctx);

    if (r == CUDA_SUCCESS && !given)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = sg_context_check(to);
    if (r == CUDA_SUCCESS)
        r = sg_context_check(from);
    if (r == CUDA_SUCCESS)
        r = sg_copy_make(given, ctx, &w);
    if (r == CUDA_SUCCESS && !async && w.copy.width && !sg_stream_is_capturing(stream)) {
        /* follows all work of both contexts, and what comes later follows it */
        r = sg_engine_drain_ctx(from);
        if (r == CUDA_SUCCESS)
            r = sg_engine_drain_ctx(to);
    }
    if (r != CUDA_SUCCESS)
        return r;
    w.copy.src_ctx = from;
    w.copy.dst_ctx = to;
    return submit(&w, stream, async ? QUEUE : WAIT);
}

CUresult sg_cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n)
{
    CUDA_MEMCPY3D c = row(UNIFIED, dst, UNIFIED, src, n);

    return copy_peer(&c, to, from, NULL, false);
}

CUresult sg_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
                              size_t n, CUstream stream)
{
    CUDA_MEMCPY3D c = row(UNIFIED, dst, UNIFIED, src, n);

    return copy_peer(&c, to, from, stream, true);
}

/* The structure is CUDA_MEMCPY3D with contexts in the reserved places. */
static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream stream, bool async)
{
    CUDA_MEMCPY3D c;

    _Static_assert(
        sizeof(c) == sizeof(*p) &&
            offsetof(CUDA_MEMCPY3D, reserved0) == offsetof(CUDA_MEMCPY3D_PEER, srcContext) &&
            offsetof(CUDA_MEMCPY3D, reserved1) == offsetof(CUDA_MEMCPY3D_PEER, dstContext),
        "one layout");
    if (!p)
        return copy_peer(NULL, NULL, NULL, stream, async);
    memcpy(&c, p, sizeof(c));
    c.reserved0 = c.reserved1 = NULL;
    return copy_peer(&c, p->dstContext, p->srcContext, stream, async);
}

CUresult sg_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p)
{
    return copy_3d_peer(p, NULL, false);
}

CUresult sg_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream stream)
{
    return copy_3d_peer(p, stream, true);
}

/* ---- batches ----------------------------------------------------------------------------------
 */

#if CUDA_VERSION >= 12080

#define NO_COPY SIZE_MAX /* the error is of no copy in particular */

static bool order_ok(CUmemcpySrcAccessOrder order, unsigned flags)
{
    return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
           !(flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
}

/* A context, and a stream that is not the legacy one. */
static CUresult batch_begin(CUstream stream, struct CUctx_st **ctx)
{
    struct CUstream_st *s = NULL;
    CUresult r = sg_memory_enter(ctx);

    if (r == CUDA_SUCCESS)
        r = sg_stream_of(stream, &s);
    return r == CUDA_SUCCESS && s->legacy ? CUDA_ERROR_INVALID_VALUE : r;
}

/* The order of accesses to the source decides, not what kind of memory it is. */
static CUresult batch_one(const CUDA_MEMCPY3D *given, CUmemcpySrcAccessOrder order,
                          struct CUctx_st *ctx, CUstream stream, bool submit_it)
{
    enum way way = QUEUE;
    bool sync = false;
    struct sg_work w;
    CUresult r = sg_copy_make(given, ctx, &w);

    if (r != CUDA_SUCCESS || !submit_it)
        return r;
    if (order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)
        way = sg_side_kind(w.copy.src, &sync) == SG_SIDE_DEVICE ? WAIT : STAGE;
    return submit(&w, stream, way);
}

struct batch {
    CUdeviceptr *dsts, *srcs;
    size_t *sizes, count;
    CUmemcpyAttributes *attrs;
    size_t *firsts, nattrs;
};

static bool batch_ok(const struct batch *b)
{
    if (!b->dsts || !b->srcs || !b->sizes || !b->count || !b->attrs || !b->firsts || !b->nattrs ||
        b->nattrs > b->count || b->firsts[0] != 0 || b->firsts[b->nattrs - 1] >= b->count)
        return false;
    for (size_t i = 0; i < b->nattrs; i++)
        if (!order_ok(b->attrs[i].srcAccessOrder, b->attrs[i].flags) ||
            (i && b->firsts[i] <= b->firsts[i - 1]))
            return false;
    return true;
}

/* First every copy is checked, then all are submitted. */
static CUresult batch_run(const struct batch *b, size_t *failed, CUstream stream)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = batch_begin(stream, &ctx);

    *failed = NO_COPY;
    if (r == CUDA_SUCCESS && !batch_ok(b))
        r = CUDA_ERROR_INVALID_VALUE;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0, k = 0; r == CUDA_SUCCESS && i < b->count; i++) {
            CUDA_MEMCPY3D c = row(UNIFIED, b->dsts[i], UNIFIED, b->srcs[i], b->sizes[i]);

            while (k + 1 < b->nattrs && b->firsts[k + 1] <= i)
                k++;
            r = batch_one(&c, b->attrs[k].srcAccessOrder, ctx, stream, pass == 1);
            if (r != CUDA_SUCCESS)
                *failed = i;
        }
    }
    return r;
}

static CUresult operand(const CUmemcpy3DOperand *o, const CUextent3D *e, uint64_t *ptr,
                        size_t *pitch, size_t *height)
{
    if (o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (o->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return CUDA_ERROR_INVALID_VALUE;
    *ptr = o->op.ptr.ptr;
    *pitch = o->op.ptr.rowLength ? o->op.ptr.rowLength : e->width;
    *height = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : e->height;
    return CUDA_SUCCESS;
}

static CUresult batch_op(const CUDA_MEMCPY3D_BATCH_OP *op, struct CUctx_st *ctx, CUstream stream,
                         bool submit_it)
{
    CUDA_MEMCPY3D c = row(UNIFIED, 0, UNIFIED, 0, op->extent.width);
    uint64_t src = 0, dst = 0;
    CUresult r = operand(&op->src, &op->extent, &src, &c.srcPitch, &c.srcHeight);

    if (r == CUDA_SUCCESS)
        r = operand(&op->dst, &op->extent, &dst, &c.dstPitch, &c.dstHeight);
    if (r == CUDA_SUCCESS && (!op->extent.width || !op->extent.height || !op->extent.depth ||
                              !order_ok(op->srcAccessOrder, op->flags)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    c.srcDevice = src;
    c.dstDevice = dst;
    c.Height = op->extent.height;
    c.Depth = op->extent.depth;
    return batch_one(&c, op->srcAccessOrder, ctx, stream, submit_it);
}

static CUresult batch_3d(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
                         unsigned long long flags, CUstream stream)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = batch_begin(stream, &ctx);

    *failed = NO_COPY;
    if (r == CUDA_SUCCESS && (!n || !ops || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; r == CUDA_SUCCESS && i < n; i++) {
            r = batch_op(&ops[i], ctx, stream, pass == 1);
            if (r != CUDA_SUCCESS)
                *failed = i;
        }
    }
    return r;
}

CUresult sg_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                               CUmemcpyAttributes *attrs, size_t *firsts, size_t nattrs,
                               size_t *failed, CUstream stream)
{
    struct batch b = {dsts, srcs, sizes, count, attrs, firsts, nattrs};

    return failed ? batch_run(&b, failed, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_cuMemcpy3DBatchAsync(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
                                 unsigned long long flags, CUstream stream)
{
    return failed ? batch_3d(n, ops, failed, flags, stream) : CUDA_ERROR_INVALID_VALUE;
}

#if CUDA_VERSION >= 13000

CUresult sg_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                  CUmemcpyAttributes *attrs, size_t *firsts, size_t nattrs,
                                  CUstream stream)
{
    size_t failed;

    return sg_cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, firsts, nattrs, &failed, stream);
}

CUresult sg_cuMemcpy3DBatchAsync_v2(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags,
                                    CUstream stream)
{
    size_t failed;

    return sg_cuMemcpy3DBatchAsync(n, ops, &failed, flags, stream);
}

#endif
#endif
