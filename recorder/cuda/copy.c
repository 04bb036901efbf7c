/* Copies and sets: from where, to where, in which stream. */
#include <string.h>

#include "recorder/cuda/graph.h"

enum { NONE = 0xffff }; /* there is no such parameter */

enum form_flags {
    PER_THREAD = 1 << 0, /* a _ptsz or _ptds form */
    PITCHED = 1 << 1,    /* sets of two dimensions: bytes is the width, rows follow */
    VALUE4 = 1 << 2,     /* the value has so many bytes; without: 8 bits */
    VALUE2 = 1 << 3,
};

/* Where the parameters lie in the struct of the call. */
struct form {
    uint32_t id;
    const char *name;
    uint16_t dst, src, bytes, stream, value;
    uint8_t flags;
};

#define AT(call, member) offsetof(struct tb_##call##_params, member)
#define COPY(call, name, d, s, n)                                                                  \
    {TB_CUDA_##call, name, AT(call, d), AT(call, s), AT(call, n), NONE, NONE, 0},                  \
    {                                                                                              \
        TB_CUDA_##call##_ptds, name, AT(call, d), AT(call, s), AT(call, n), NONE, NONE, PER_THREAD \
    }
#define COPY_ASYNC(call, name, d, s, n)                                                            \
    {TB_CUDA_##call, name, AT(call, d), AT(call, s), AT(call, n), AT(call, hStream), NONE, 0},     \
    {                                                                                              \
        TB_CUDA_##call##_ptsz, name, AT(call, d), AT(call, s), AT(call, n), AT(call, hStream),     \
            NONE, PER_THREAD                                                                       \
    }
#define SET(call, name, v, n, f)                                                                   \
    {TB_CUDA_##call, name, AT(call, dstDevice), NONE, AT(call, n), NONE, AT(call, v), f},          \
    {                                                                                              \
        TB_CUDA_##call##_ptds, name, AT(call, dstDevice), NONE, AT(call, n), NONE, AT(call, v),    \
            (f) | PER_THREAD                                                                       \
    }
#define SET_ASYNC(call, name, v, n, f)                                                             \
    {TB_CUDA_##call, name, AT(call, dstDevice), NONE, AT(call, n), AT(call, hStream),              \
     AT(call, v),    f},                                                                           \
    {                                                                                              \
        TB_CUDA_##call##_ptsz, name, AT(call, dstDevice), NONE, AT(call, n), AT(call, hStream),    \
            AT(call, v), (f) | PER_THREAD                                                          \
    }

static const struct form forms[] = {
    COPY(cuMemcpy, "cuMemcpy", dst, src, ByteCount),
    COPY_ASYNC(cuMemcpyAsync, "cuMemcpyAsync", dst, src, ByteCount),
    COPY(cuMemcpyPeer, "cuMemcpyPeer", dstDevice, srcDevice, ByteCount),
    COPY_ASYNC(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", dstDevice, srcDevice, ByteCount),
    COPY(cuMemcpyHtoD_v2, "cuMemcpyHtoD", dstDevice, srcHost, ByteCount),
    COPY(cuMemcpyDtoH_v2, "cuMemcpyDtoH", dstHost, srcDevice, ByteCount),
    COPY(cuMemcpyDtoD_v2, "cuMemcpyDtoD", dstDevice, srcDevice, ByteCount),
    COPY_ASYNC(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", dstDevice, srcHost, ByteCount),
    COPY_ASYNC(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", dstHost, srcDevice, ByteCount),
    COPY_ASYNC(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", dstDevice, srcDevice, ByteCount),
    SET(cuMemsetD8_v2, "cuMemsetD8", uc, N, 0),
    SET(cuMemsetD16_v2, "cuMemsetD16", us, N, VALUE2),
    SET(cuMemsetD32_v2, "cuMemsetD32", ui, N, VALUE4),
    SET(cuMemsetD2D8_v2, "cuMemsetD2D8", uc, Width, PITCHED),
    SET(cuMemsetD2D16_v2, "cuMemsetD2D16", us, Width, PITCHED | VALUE2),
    SET(cuMemsetD2D32_v2, "cuMemsetD2D32", ui, Width, PITCHED | VALUE4),
    SET_ASYNC(cuMemsetD8Async, "cuMemsetD8Async", uc, N, 0),
    SET_ASYNC(cuMemsetD16Async, "cuMemsetD16Async", us, N, VALUE2),
    SET_ASYNC(cuMemsetD32Async, "cuMemsetD32Async", ui, N, VALUE4),
    SET_ASYNC(cuMemsetD2D8Async, "cuMemsetD2D8Async", uc, Width, PITCHED),
    SET_ASYNC(cuMemsetD2D16Async, "cuMemsetD2D16Async", us, Width, PITCHED | VALUE2),
    SET_ASYNC(cuMemsetD2D32Async, "cuMemsetD2D32Async", ui, Width, PITCHED | VALUE4),
};

static uint64_t member(const struct tb_cuda_call *c, uint16_t at)
{
    uint64_t v = 0;

    if (at != NONE)
        memcpy(&v, (const uint8_t *)c->params + at, sizeof(v));
    return v;
}

static const struct form *form_of(uint32_t id)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(forms); i++)
        if (forms[i].id == id)
            return &forms[i];
    return NULL;
}

/* What a copy or set does, whatever its form. */
struct transfer {
    const char *name;
    uint64_t dst, dst_bytes, src, src_bytes; /* bytes: from the first to behind the last */
    uint64_t args;
    CUstream stream;
    bool per_thread, set;
    bool waits; /* the host does, until it is done */
    bool plain; /* bytes in a row */
    bool home;  /* to an address of the host's, by what the call is */
    bool gaps;  /* not all of the bytes from the first to the last one of the source are read */
    struct tb_cu_rows rows; /* but these */
    struct tb_cu_rows to;   /* the same of the destination; width 0: it has no gaps */
};

#define CALL2(call)                                                                                \
    case TB_CUDA_##call:                                                                           \
    case TB_CUDA_##call##_ptds
#define CALL2_ASYNC(call)                                                                          \
    case TB_CUDA_##call:                                                                           \
    case TB_CUDA_##call##_ptsz

static bool is_dtoh(uint32_t id)
{
    switch (id) {
        CALL2(cuMemcpyDtoH_v2) : CALL2_ASYNC(cuMemcpyDtoHAsync_v2) : return true;
    default:
        return false;
    }
}

static void from_form(const struct tb_cuda_call *c, const struct form *f, struct transfer *t)
{
    const uint8_t *p = c->params;
    uint64_t elem = f->flags & VALUE4 ? 4 : f->flags & VALUE2 ? 2 : 1;
    uint32_t value = 0;

    *t = (struct transfer){.name = f->name,
                           .dst = member(c, f->dst),
                           .src = member(c, f->src),
                           .stream = (CUstream)(uintptr_t)member(c, f->stream),
                           .per_thread = f->flags & PER_THREAD,
                           .set = f->value != NONE,
                           .waits = f->stream == NONE && f->value == NONE,
                           .plain = f->value == NONE,
                           .home = is_dtoh(c->id)};
    t->dst_bytes = t->src_bytes = member(c, f->bytes) * elem;
    if (t->set) {
        memcpy(&value, p + f->value, elem);
        t->args = tb_cu_mix(tb_cu_mix(0x5e7, value), t->dst_bytes);
    }
    if (f->flags & PITCHED) {
        const struct tb_cuMemsetD2D8_v2_params *q = c->params;
        uint64_t rows = member(c, (uint16_t)(f->bytes + sizeof(size_t)));
        t->dst_bytes = rows ? (rows - 1) * q->dstPitch + t->dst_bytes : 0;
        t->args = tb_cu_mix(t->args, rows);
    }
}

/* A box of a pitched buffer: from its first byte to behind its last. */
static uint64_t box(uint64_t base, uint64_t pitch, uint64_t height, uint64_t x, uint64_t y,
                    uint64_t z, uint64_t width, uint64_t rows, uint64_t depth, uint64_t *bytes)
{
    *bytes = 0;
    if (!base || !width || !rows || !depth)
        return 0;
    *bytes = ((depth - 1) * height + rows - 1) * pitch + width;
    return base + (z * height + y) * pitch + x;
}

static uint64_t address_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
    if (type == CU_MEMORYTYPE_HOST)
        return (uint64_t)(uintptr_t)host;
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? device : 0;
}

static void set_rows(struct transfer *t, uint64_t width, uint64_t count, uint64_t slices,
                     uint64_t pitch, uint64_t slice)
{
    t->rows = (struct tb_cu_rows){width, count, slices, pitch, slice};
    t->gaps = t->src_bytes != width * count * slices;
}

/* Behind set_rows(): where they go. */
static void set_to(struct transfer *t, CUmemorytype type, uint64_t pitch, uint64_t slice)
{
    const struct tb_cu_rows *r = &t->rows;

    t->home = type == CU_MEMORYTYPE_HOST;
    if (t->dst_bytes != r->width * r->count * r->slices)
        t->to = (struct tb_cu_rows){r->width, r->count, r->slices, pitch, slice};
}

/* Before the call nobody has checked its arguments: the driver refuses what has no struct. */
static void from_2d(const CUDA_MEMCPY2D *m, struct transfer *t)
{
    if (!m)
        return;
    t->dst = box(address_of(m->dstMemoryType, m->dstHost, m->dstDevice), m->dstPitch, 1,
                 m->dstXInBytes, m->dstY, 0, m->WidthInBytes, m->Height, 1, &t->dst_bytes);
    t->src = box(address_of(m->srcMemoryType, m->srcHost, m->srcDevice), m->srcPitch, 1,
                 m->srcXInBytes, m->srcY, 0, m->WidthInBytes, m->Height, 1, &t->src_bytes);
    set_rows(t, m->WidthInBytes, m->Height, 1, m->srcPitch, 0);
    set_to(t, m->dstMemoryType, m->dstPitch, 0);
    t->args = tb_cu_mix(tb_cu_mix(2, m->WidthInBytes), m->Height);
}

/* The struct for two devices has the same members by name. */
#define FROM_3D(m, t)                                                                              \
    do {                                                                                           \
        if (!(m))                                                                                  \
            break;                                                                                 \
        (t)->dst = box(address_of((m)->dstMemoryType, (m)->dstHost, (m)->dstDevice),               \
                       (m)->dstPitch, (m)->dstHeight, (m)->dstXInBytes, (m)->dstY, (m)->dstZ,      \
                       (m)->WidthInBytes, (m)->Height, (m)->Depth, &(t)->dst_bytes);               \
        (t)->src = box(address_of((m)->srcMemoryType, (m)->srcHost, (m)->srcDevice),               \
                       (m)->srcPitch, (m)->srcHeight, (m)->srcXInBytes, (m)->srcY, (m)->srcZ,      \
                       (m)->WidthInBytes, (m)->Height, (m)->Depth, &(t)->src_bytes);               \
        set_rows((t), (m)->WidthInBytes, (m)->Height, (m)->Depth, (m)->srcPitch,                   \
                 (m)->srcPitch *(m)->srcHeight);                                                   \
        set_to((t), (m)->dstMemoryType, (m)->dstPitch, (m)->dstPitch *(m)->dstHeight);             \
        (t)->args =                                                                                \
            tb_cu_mix(tb_cu_mix(tb_cu_mix(3, (m)->WidthInBytes), (m)->Height), (m)->Depth);        \
    } while (0)

void tb_cu_box(const CUDA_MEMCPY3D *m, struct tb_cu_node *n)
{
    struct transfer t = {0};

    FROM_3D(m, &t);
    n->dst = t.dst;
    n->dst_bytes = t.dst_bytes;
    n->src = t.src;
    n->src_bytes = t.src_bytes;
    n->gaps = t.gaps;
}

static bool from_box(const struct tb_cuda_call *c, struct transfer *t)
{
    switch (c->id) {
        CALL2(cuMemcpy2D_v2) : CALL2(cuMemcpy2DUnaligned_v2) :
        {
            const struct tb_cuMemcpy2D_v2_params *p = c->params;
            *t = (struct transfer){.name = "cuMemcpy2D", .waits = true};
            t->per_thread =
                c->id == TB_CUDA_cuMemcpy2D_v2_ptds || c->id == TB_CUDA_cuMemcpy2DUnaligned_v2_ptds;
            from_2d(p->pCopy, t);
            return true;
        }
        CALL2_ASYNC(cuMemcpy2DAsync_v2) :
        {
            const struct tb_cuMemcpy2DAsync_v2_params *p = c->params;
            *t = (struct transfer){.name = "cuMemcpy2DAsync", .stream = p->hStream};
            t->per_thread = c->id == TB_CUDA_cuMemcpy2DAsync_v2_ptsz;
            from_2d(p->pCopy, t);
            return true;
        }
        CALL2(cuMemcpy3D_v2) :
        {
            const struct tb_cuMemcpy3D_v2_params *p = c->params;
            *t = (struct transfer){.name = "cuMemcpy3D", .waits = true};
            t->per_thread = c->id == TB_CUDA_cuMemcpy3D_v2_ptds;
            FROM_3D(p->pCopy, t);
            return true;
        }
        CALL2_ASYNC(cuMemcpy3DAsync_v2) :
        {
            const struct tb_cuMemcpy3DAsync_v2_params *p = c->params;
            *t = (struct transfer){.name = "cuMemcpy3DAsync", .stream = p->hStream};
            t->per_thread = c->id == TB_CUDA_cuMemcpy3DAsync_v2_ptsz;
            FROM_3D(p->pCopy, t);
            return true;
        }
        CALL2(cuMemcpy3DPeer) :
        {
            const struct tb_cuMemcpy3DPeer_params *p = c->params;
            *t = (struct transfer){.name = "cuMemcpy3DPeer", .waits = true};
            t->per_thread = c->id == TB_CUDA_cuMemcpy3DPeer_ptds;
            FROM_3D(p->pCopy, t);
            return true;
        }
        CALL2_ASYNC(cuMemcpy3DPeerAsync) :
        {
            const struct tb_cuMemcpy3DPeerAsync_params *p = c->params;
            *t = (struct transfer){.name = "cuMemcpy3DPeerAsync", .stream = p->hStream};
            t->per_thread = c->id == TB_CUDA_cuMemcpy3DPeerAsync_ptsz;
            FROM_3D(p->pCopy, t);
            return true;
        }
    default:
        return false;
    }
}

static bool from_value(const struct tb_cuda_call *c, struct transfer *t)
{
    switch (c->id) {
        CALL2_ASYNC(cuStreamWriteValue32) : CALL2_ASYNC(cuStreamWriteValue32_v2) :
        {
            const struct tb_cuStreamWriteValue32_params *p = c->params;
            *t =
                (struct transfer){.name = "cuStreamWriteValue32", .set = true, .stream = p->stream};
            t->per_thread = c->id == TB_CUDA_cuStreamWriteValue32_ptsz ||
                            c->id == TB_CUDA_cuStreamWriteValue32_v2_ptsz;
            t->dst = p->addr;
            t->dst_bytes = 4;
            t->args = p->value;
            return true;
        }
        CALL2_ASYNC(cuStreamWriteValue64) : CALL2_ASYNC(cuStreamWriteValue64_v2) :
        {
            const struct tb_cuStreamWriteValue64_params *p = c->params;
            *t =
                (struct transfer){.name = "cuStreamWriteValue64", .set = true, .stream = p->stream};
            t->per_thread = c->id == TB_CUDA_cuStreamWriteValue64_ptsz ||
                            c->id == TB_CUDA_cuStreamWriteValue64_v2_ptsz;
            t->dst = p->addr;
            t->dst_bytes = 8;
            t->args = p->value;
            return true;
        }
    default:
        return false;
    }
}

/* ---------------------------------------------------------------- events */

static bool is_hosts(const struct tb_cu_alloc *a)
{
    return !a || a->kind == TB_CU_HOST || a->kind == TB_CU_REGISTERED;
}

/* What was added from access @from on is the box around these rows: its gaps do not count. */
static void only_rows(struct tb_cu_work *w, uint32_t from, const struct tb_cu_rows *rows,
                      uint64_t bytes)
{
    struct tb_cu_access *a = &w->access[from];

    if (w->n == from + 1 && a->bytes == bytes && (a->flags & TB_CU_BEFORE) && !a->rate) {
        w->rows = *rows;
        a->flags |= TB_CU_ROWS;
        return;
    }
    for (; from < w->n; from++) {
        if (w->access[from].flags & TB_CU_BEFORE)
            w->missing = "rows of several allocations, or of more than --launch-bytes";
        w->access[from].flags &= (uint8_t)~TB_CU_BEFORE;
    }
}

/* What leaves for the host is the last that is seen of it, whoever wrote it. Inside of a graph that
 * is hashed as a whole it may be written before it is read. */
void tb_cu_add_copy(struct tb_cu_work *w, uint64_t dst, uint64_t dst_bytes, uint64_t src,
                    uint64_t src_bytes, const struct tb_cu_rows *rows)
{
    bool to_host = dst_bytes && is_hosts(tb_cu_alloc_at(dst));
    uint32_t before = w->n;

    bool whole = w->kind == TB_EV_GRAPH, from_host = src_bytes && is_hosts(tb_cu_alloc_at(src));

    w->leaves = to_host && src_bytes && (!rows || rows->width) && !whole;
    if (to_host && !w->leaves && src_bytes && !from_host) {
        tb_cu_fill_unhashed();
        w->left_unhashed = true;
    }
    if (src_bytes)
        tb_cu_add_range(w, 'r', src, src_bytes, "src");
    if (whole && from_host && !(w->n > before && (w->access[before].flags & TB_CU_BEFORE)))
        w->fed = true;
    if (w->leaves && rows)
        only_rows(w, before, rows, src_bytes);
    /* what a copy brings to memory of the host is the host's; a set is the device's own write */
    if (dst_bytes && (!to_host || !src_bytes))
        tb_cu_add_range(w, 'w', dst, dst_bytes, "dst");
}

static void add_transfer(struct tb_cu_work *w, const struct transfer *t)
{
    tb_cu_add_copy(w, t->dst, t->dst_bytes, t->src, t->set ? 0 : t->src_bytes,
                   t->gaps ? &t->rows : NULL);
    if (tb_unlikely(tb_cu_has_shared()) && !t->set && !t->gaps)
        tb_cu_add_host_source(w);
}

/* A copy to memory of the host that is not pinned has arrived when the call returns. */
static bool to_pageable(const struct transfer *t)
{
    return !t->set && t->dst_bytes && tb_cu_alloc_at(t->src) && !tb_cu_alloc_at(t->dst);
}

/* What of it, in the accesses from @from on, is to be hashed where it arrives? */
static void plan_arrival(struct tb_cu_work *w, uint32_t from, const struct transfer *t)
{
    w->to = t->to;
    if (!t->set && t->dst_bytes)
        tb_cu_arrival_plan(w, from,
                           &(struct tb_cu_arrival){.dst = t->dst,
                                                   .dst_bytes = t->dst_bytes,
                                                   .src = t->src,
                                                   .home = t->home,
                                                   .waits = t->waits,
                                                   .rows = t->gaps || t->to.width});
}

static struct tb_cu_work *work_of(const struct transfer *t)
{
    struct tb_cu_work *w;

    if (tb_cu_capturing(t->stream, t->per_thread))
        return NULL;
    w = tb_cu_work_new(t->set ? TB_EV_SET : TB_EV_COPY, t->name, t->stream, t->per_thread);
    if (!w)
        return NULL;
    w->args = tb_cu_mix(t->args, t->dst_bytes);
    w->plain = t->plain;
    tb_cu_where();
    tb_cu_lock();
    w->order = tb_cu_stream(t->stream, t->per_thread);
    (void)tb_cu_stream_tick(w->order);
    add_transfer(w, t);
    tb_cu_split_uses(w, false);
    w->waited = t->waits || to_pageable(t);
    plan_arrival(w, 0, t);
    if (w->waited)
        (void)tb_cu_host_waited(&w->order->known);
    tb_cu_unlock();
    return w;
}

static void batch_stream(const struct tb_cuda_call *c, struct transfer *t)
{
    const struct tb_cuMemcpyBatchAsync_params *p = c->params;
    const struct tb_cuMemcpyBatchAsync_v2_params *q = c->params;
    bool v1 = c->id == TB_CUDA_cuMemcpyBatchAsync || c->id == TB_CUDA_cuMemcpyBatchAsync_ptsz;

    t->stream = v1 ? p->hStream : q->hStream;
    t->per_thread =
        c->id == TB_CUDA_cuMemcpyBatchAsync_ptsz || c->id == TB_CUDA_cuMemcpyBatchAsync_v2_ptsz;
}

static void mark_transfer(const struct transfer *t)
{
    if (t->dst_bytes && tb_cu_mark_stream(t->stream, t->per_thread))
        tb_cu_mark_write(t->stream, t->per_thread, t->dst, t->dst_bytes);
}

/* Several copies by one call: one event with all of them. */
static struct tb_cu_work *batch(const struct tb_cuda_call *c)
{
    const struct tb_cuMemcpyBatchAsync_params *p = c->params;
    struct transfer t = {.name = "cuMemcpyBatchAsync"};
    struct tb_cu_work *w;
    uint32_t from;

    batch_stream(c, &t);
    w = work_of(&t);
    tb_cu_lock();
    for (size_t i = 0; w && p->dsts && p->srcs && p->sizes && i < p->count; i++) {
        t.dst = p->dsts[i];
        t.src = p->srcs[i];
        t.dst_bytes = t.src_bytes = p->sizes[i];
        w->args = tb_cu_mix(w->args, p->sizes[i]);
        from = w->n;
        add_transfer(w, &t);
        plan_arrival(w, from, &t);
    }
    if (w)
        tb_cu_split_uses(w, false);
    tb_cu_unlock();
    return w;
}

static bool is_batch(uint32_t id)
{
    switch (id) {
        CALL2_ASYNC(cuMemcpyBatchAsync) : CALL2_ASYNC(cuMemcpyBatchAsync_v2) : return true;
    default:
        return false;
    }
}

/* A call that moves one thing; false: it is of no kind that is known */
static bool from_call(const struct tb_cuda_call *c, struct transfer *t)
{
    const struct form *f = form_of(c->id);

    if (f)
        from_form(c, f, t);
    return f || from_box(c, t) || from_value(c, t);
}

/* What it writes is a part of the step's state, if it is no event itself. */
static void mark(const struct tb_cuda_call *c)
{
    const struct tb_cuMemcpyBatchAsync_params *p = c->params;
    struct transfer t = {.name = NULL};

    if (!is_batch(c->id)) {
        if (from_call(c, &t))
            mark_transfer(&t);
        return;
    }
    batch_stream(c, &t);
    for (size_t i = 0; p->dsts && p->sizes && i < p->count; i++) {
        t.dst = p->dsts[i];
        t.dst_bytes = p->sizes[i];
        mark_transfer(&t);
    }
}

static struct tb_cu_work *begin(const struct tb_cuda_call *c)
{
    struct transfer t;

    if (is_batch(c->id))
        return batch(c);
    if (!from_call(c, &t)) {
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", tb_cuda_id_name(c->id), "is not looked into");
        return NULL;
    }
    return work_of(&t);
}

static bool writes_value(uint32_t id)
{
    switch (id) {
    case TB_CUDA_cuStreamWriteValue32:
    case TB_CUDA_cuStreamWriteValue32_ptsz:
    case TB_CUDA_cuStreamBatchMemOp:
    case TB_CUDA_cuStreamBatchMemOp_ptsz:
    case TB_CUDA_cuStreamWriteValue64:
    case TB_CUDA_cuStreamWriteValue64_ptsz:
    case TB_CUDA_cuStreamWriteValue32_v2:
    case TB_CUDA_cuStreamWriteValue32_v2_ptsz:
    case TB_CUDA_cuStreamWriteValue64_v2:
    case TB_CUDA_cuStreamWriteValue64_v2_ptsz:
    case TB_CUDA_cuStreamBatchMemOp_v2:
    case TB_CUDA_cuStreamBatchMemOp_v2_ptsz:
        return true;
    default:
        return false;
    }
}

/* May it bring something to the host? Then it is looked at before it is queued. */
static bool may_leave(uint32_t id)
{
    switch (id) {
        CALL2(cuMemcpy)
            : CALL2_ASYNC(cuMemcpyAsync)
            : CALL2(cuMemcpyDtoH_v2)
            : CALL2_ASYNC(cuMemcpyDtoHAsync_v2)
            : CALL2(cuMemcpy2D_v2)
            : CALL2(cuMemcpy2DUnaligned_v2)
            : CALL2_ASYNC(cuMemcpy2DAsync_v2)
            : CALL2(cuMemcpy3D_v2)
            : CALL2_ASYNC(cuMemcpy3DAsync_v2)
            : CALL2(cuMemcpy3DPeer)
            : CALL2_ASYNC(cuMemcpy3DPeerAsync)
            : CALL2_ASYNC(cuMemcpyBatchAsync) : CALL2_ASYNC(cuMemcpyBatchAsync_v2) : return true;
    default:
        return false;
    }
}

/* May it take from memory that the host writes, too? So it is then. */
static bool may_take(uint32_t id)
{
    const struct form *f = tb_cu_has_shared() ? form_of(id) : NULL;

    return f && f->src != NONE;
}

static void delay(const struct tb_cuda_call *c)
{
    struct transfer t = {.name = NULL};
    bool batch = is_batch(c->id);

    if (batch)
        batch_stream(c, &t);
    if (batch || from_call(c, &t))
        tb_cu_delay(t.stream, t.per_thread);
}

void tb_cu_copy_enter(struct tb_cuda_call *c)
{
    struct tb_cu_work *w;

    if (tb_cu_stresses())
        delay(c);
    if (tb_cu_fills() && is_dtoh(c->id) && !tb_cu_tls.op_depth && !tb_cu_recording())
        tb_cu_fill_unhashed(); /* by the level, --steps or a pause; of an operator its tap knows */
    if (!(tb_cu_at_enter() || may_leave(c->id) || may_take(c->id)) || !tb_cu_recording())
        return;
    w = begin(c);
    if (w && tb_cu_tls.may_call)
        tb_cu_work_before(w);
    *c->user = (uint64_t)(uintptr_t)w;
}

void tb_cu_copy_exit(struct tb_cuda_call *c)
{
    struct tb_cu_work *w = (struct tb_cu_work *)(uintptr_t)*c->user;

    if (c->result != CUDA_SUCCESS) {
        tb_cu_work_drop(w);
        return;
    }
    if (tb_unlikely(tb_cu_marks()))
        mark(c);
    if (!w && !tb_cu_at_enter() && !may_leave(c->id) && tb_cu_recording())
        w = begin(c);
    if (w && w->n) {
        tb_cu_arrival_hash(w);
        tb_cu_work_end(w);
        if (!writes_value(c->id))
            return;
    } else {
        tb_cu_work_drop(w);
    }
    tb_cu_lock();
    tb_cu_unsaid(2, 0); /* it may have waited, or another stream waits for what it writes */
    tb_cu_unlock();
}
