/* Copies and fills as work: what makes one, and what executes it. Every copy is a box of rows, from
 * a CUDA_MEMCPY3D; every fill a rectangle. */
#include "softgpu/driver/broken.h"
#include "softgpu/driver/memory_internal.h"
#include "softgpu/driver/order_item.h"
#include "softgpu/driver/strict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making a copy ----------------------------------------------------------------------------
 */

struct side { /* one end of a copy as the caller gave it */
    CUmemorytype type;
    uint64_t base;
    size_t x, y, z, lod, pitch, height;
    const void *reserved;
};

struct box {
    uint64_t width, height, depth;
};

static struct side source_of(const CUDA_MEMCPY3D *g)
{
    struct side s = {g->srcMemoryType, g->srcDevice, g->srcXInBytes, g->srcY,     g->srcZ,
                     g->srcLOD,        g->srcPitch,  g->srcHeight,   g->reserved0};

    if (s.type == CU_MEMORYTYPE_HOST)
        s.base = (uintptr_t)g->srcHost;
    return s;
}

static struct side target_of(const CUDA_MEMCPY3D *g)
{
    struct side s = {g->dstMemoryType, g->dstDevice, g->dstXInBytes, g->dstY,     g->dstZ,
                     g->dstLOD,        g->dstPitch,  g->dstHeight,   g->reserved1};

    if (s.type == CU_MEMORYTYPE_HOST)
        s.base = (uintptr_t)g->dstHost;
    return s;
}

/* @a * @b + @c without wrapping */
static bool fma64(uint64_t a, uint64_t b, uint64_t c, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out) && !__builtin_add_overflow(*out, c, out);
}

/* Bytes from the first to the last one of a box. */
static bool box_span(const struct box *b, uint64_t pitch, uint64_t slice, uint64_t *span)
{
    uint64_t rows = 0;

    return fma64(b->height - 1, pitch, b->width, &rows) && fma64(b->depth - 1, slice, rows, span);
}

/* Pitch and height of one end; zero means as tight as the box allows. */
static CUresult side_shape(const struct side *s, const struct box *b, uint64_t *pitch,
                           uint64_t *height)
{
    uint64_t width = s->x + b->width, rows = s->y + b->height;

    if (width < b->width || rows < b->height || s->lod || s->reserved)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->pitch && (s->pitch < width || s->pitch > SG_MAX_PITCH))
        return CUDA_ERROR_INVALID_VALUE;
    if (s->height ? s->height < rows : b->depth > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = s->pitch ? s->pitch : width;
    *height = s->height ? s->height : rows;
    return CUDA_SUCCESS;
}

/* May the context copy from or to these bytes? Memory of the host that CUDA does not know is taken
 * as it comes, where the caller may name such memory. */
static bool reachable(uint64_t addr, uint64_t n, CUmemorytype type, const struct CUctx_st *ctx,
                      bool write)
{
    const struct sg_mem *mem = sg_driver.mem;
    struct sg_rec rec;
    uint8_t bits;

    if (addr < SG_MEM_GRANULE || addr + n < addr)
        return false;
    if (!sg_rec_holds(addr, n, &rec))
        return type != CU_MEMORYTYPE_DEVICE &&
               (addr >= mem->base + mem->span || addr + n <= mem->base) && !sg_rec_find(addr, &rec);
    if (!rec.a.dev)
        return true;
    bits = (uint8_t)(ctx->dev->bit | rec.a.dev->bit);
    return sg_mem_ok_range(mem, addr, n, bits, write);
}

/* The same when work is made: memory of a graph is there once a launch has allocated it. */
static bool reachable_later(uint64_t addr, uint64_t n, CUmemorytype type,
                            const struct CUctx_st *ctx, bool write)
{
    return reachable(addr, n, type, ctx, write) || sg_graph_mem_holds(addr, n);
}

static CUresult side_resolve(const struct side *s, const struct box *b, const struct CUctx_st *ctx,
                             bool write, uint64_t *addr, uint64_t *pitch, uint64_t *slice)
{
    uint64_t height = 0, row = 0, off = 0, span = 0;
    CUresult r = side_shape(s, b, pitch, &height);

    if (r != CUDA_SUCCESS)
        return r;
    if (sg_strict())
        sg_strict_stale(s->base, write ? "the destination" : "the source", false);
    if (!fma64(s->z, height, s->y, &row) || !fma64(row, *pitch, s->x, &off) ||
        __builtin_add_overflow(s->base, off, addr) || !fma64(height, *pitch, 0, slice) ||
        !box_span(b, *pitch, *slice, &span) || !s->base)
        return CUDA_ERROR_INVALID_VALUE;
    if (reachable_later(*addr, span, s->type, ctx, write))
        return CUDA_SUCCESS;
    if (sg_strict())
        sg_strict_outside(*addr, span, write ? "the destination" : "the source");
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult type_check(CUmemorytype t)
{
    if (t == CU_MEMORYTYPE_ARRAY)
        return CUDA_ERROR_NOT_SUPPORTED;
    return t == CU_MEMORYTYPE_HOST || t == CU_MEMORYTYPE_DEVICE || t == CU_MEMORYTYPE_UNIFIED
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_copy_make(const CUDA_MEMCPY3D *given, struct CUctx_st *ctx, struct sg_work *out)
{
    struct sg_work w = {.kind = SG_WORK_COPY, .ctx = ctx};
    struct sg_copy_work *c = &w.copy;
    struct box b = {given->WidthInBytes, given->Height, given->Depth};
    struct side src = source_of(given), dst = target_of(given);
    CUresult r = type_check(src.type);

    if (r == CUDA_SUCCESS)
        r = type_check(dst.type);
    if (r != CUDA_SUCCESS)
        return r;
    c->given = *given;
    c->src_type = src.type;
    c->dst_type = dst.type;
    if (b.width && b.height && b.depth) {
        r = side_resolve(&src, &b, ctx, false, &c->src, &c->src_pitch, &c->src_slice);
        if (r == CUDA_SUCCESS)
            r = side_resolve(&dst, &b, ctx, true, &c->dst, &c->dst_pitch, &c->dst_slice);
        if (r != CUDA_SUCCESS)
            return r;
        c->width = b.width;
        c->height = b.height;
        c->depth = b.depth;
    }
    *out = w;
    return CUDA_SUCCESS;
}

/* ---- executing a copy -------------------------------------------------------------------------
 */

struct rows { /* where the box lies at both ends */
    uint64_t src, dst, src_pitch, src_slice, dst_pitch, dst_slice;
};

static void move_box(const struct box *b, const struct rows *at)
{
    for (uint64_t z = 0; z < b->depth; z++)
        for (uint64_t y = 0; y < b->height; y++)
            memmove((void *)(uintptr_t)(at->dst + z * at->dst_slice + y * at->dst_pitch),
                    (const void *)(uintptr_t)(at->src + z * at->src_slice + y * at->src_pitch),
                    b->width);
}

/* Rows that follow each other at both ends are one row. */
static void move_all(struct box b, const struct rows *at)
{
    if (at->src_pitch == b.width && at->dst_pitch == b.width) {
        b.width *= b.height;
        b.height = 1;
        if (at->src_slice == b.width && at->dst_slice == b.width) {
            b.width *= b.depth;
            b.depth = 1;
        }
    }
    move_box(&b, at);
}

static CUresult fault(struct CUctx_st *ctx, const char *what, uint64_t addr, uint64_t n)
{
    struct sg_fault f = {.kind = SG_FAULT_ADDRESS, .address = addr};

    snprintf(f.text, sizeof(f.text),
             "%s: %llu bytes at %#llx are not, or no longer, memory of the device", what,
             (unsigned long long)n, (unsigned long long)addr);
    return sg_fault_set(ctx, &f);
}

static void rows_copied(const struct box *b, const struct rows *at)
{
    for (uint64_t z = 0; z < b->depth; z++)
        for (uint64_t y = 0; y < b->height; y++)
            sg_strict_copied(at->dst + z * at->dst_slice + y * at->dst_pitch,
                             at->src + z * at->src_slice + y * at->src_pitch, b->width);
}

static void touch_box(const struct box *b, uint64_t addr, uint64_t pitch, uint64_t slice,
                      enum sg_access_kind kind)
{
    bool rows = pitch == b->width || b->height == 1; /* a slice is one piece */

    for (uint64_t z = 0; z < b->depth; z++)
        for (uint64_t y = 0; y < (rows ? 1 : b->height); y++)
            sg_order_touch(addr + z * slice + y * pitch, rows ? b->width * b->height : b->width,
                           kind);
}

CUresult sg_copy_run(const struct sg_copy_work *c, struct CUctx_st *ctx)
{
    struct box b = {c->width, c->height, c->depth};
    struct rows at = {c->src, c->dst, c->src_pitch, c->src_slice, c->dst_pitch, c->dst_slice};
    uint64_t n = 0;

    if (!b.width || !b.height || !b.depth)
        return CUDA_SUCCESS;
    if (c->staged) {
        at.src = (uintptr_t)c->stage;
        at.src_pitch = b.width;
        at.src_slice = b.width * b.height;
    } else if (!box_span(&b, at.src_pitch, at.src_slice, &n) ||
               !reachable(at.src, n, c->src_type, ctx, false)) {
        return fault(ctx, "source of a copy", at.src, n);
    }
    if (!box_span(&b, at.dst_pitch, at.dst_slice, &n) ||
        !reachable(at.dst, n, c->dst_type, ctx, true))
        return fault(ctx, "destination of a copy", at.dst, n);
    if (sg_driver.broken)
        sg_broken_before(sg_driver.broken, (uint32_t)ctx->dev->ordinal);
    move_all(b, &at);
    if (sg_driver.broken)
        sg_broken_copy(c, ctx);
    if (sg_strict()) {
        rows_copied(&b, &at);
        if (!c->staged)
            touch_box(&b, at.src, at.src_pitch, at.src_slice, SG_ACCESS_READ);
        touch_box(&b, at.dst, at.dst_pitch, at.dst_slice, SG_ACCESS_WRITE);
    }
    return CUDA_SUCCESS;
}

bool sg_copy_stage(struct sg_copy_work *c)
{
    struct box b = {c->width, c->height, c->depth};
    struct rows at = {.src = c->src, .src_pitch = c->src_pitch, .src_slice = c->src_slice};
    void *stage = malloc(b.width * b.height * b.depth);

    if (!stage)
        return false;
    at.dst = (uintptr_t)stage;
    at.dst_pitch = b.width;
    at.dst_slice = b.width * b.height;
    move_all(b, &at);
    c->stage = stage;
    c->staged = true;
    return true;
}

enum sg_side_kind sg_side_kind(uint64_t addr, bool *sync_memops)
{
    struct sg_rec rec;

    if (!sg_rec_find(addr, &rec)) /* a graph's memory may be there only when the copy runs */
        return sg_graph_mem_holds(addr, 1) ? SG_SIDE_DEVICE : SG_SIDE_PAGEABLE;
    *sync_memops |= rec.sync_memops != 0;
    return rec.host ? SG_SIDE_PINNED : SG_SIDE_DEVICE;
}

/* ---- fills ------------------------------------------------------------------------------------
 */

CUresult sg_fill_make(struct CUctx_st *ctx, uint64_t dst, size_t pitch, uint32_t value,
                      unsigned elem, size_t width, size_t height, struct sg_work *out)
{
    struct sg_work w = {.kind = SG_WORK_FILL, .ctx = ctx};
    struct box b = {0, height, 1};
    uint64_t span = 0;

    if (elem != 1 && elem != 2 && elem != 4)
        return CUDA_ERROR_INVALID_VALUE;
    w.fill = (struct sg_fill_work){.value = value, .elem = elem, .height = 1};
    if (width && height) {
        if (sg_strict())
            sg_strict_stale(dst, "the destination", false);
        if (!fma64(width, elem, 0, &b.width) || dst % elem ||
            (height > 1 && (pitch < b.width || pitch % elem)) || !box_span(&b, pitch, 0, &span))
            return CUDA_ERROR_INVALID_VALUE;
        if (!reachable_later(dst, span, CU_MEMORYTYPE_DEVICE, ctx, true)) {
            if (sg_strict())
                sg_strict_outside(dst, span, "the destination");
            return CUDA_ERROR_INVALID_VALUE;
        }
        w.fill.dst = dst;
        w.fill.width = width;
        w.fill.height = height;
        w.fill.pitch = height > 1 ? pitch : b.width;
    }
    *out = w;
    return CUDA_SUCCESS;
}

static void fill_row(void *at, const struct sg_fill_work *f)
{
    uint16_t *p16 = at;
    uint32_t *p32 = at;

    if (f->elem == 1)
        memset(at, (int)f->value, f->width);
    else if (f->elem == 2)
        for (uint64_t i = 0; i < f->width; i++)
            p16[i] = (uint16_t)f->value;
    else
        for (uint64_t i = 0; i < f->width; i++)
            p32[i] = f->value;
}

CUresult sg_fill_run(const struct sg_fill_work *f, struct CUctx_st *ctx)
{
    struct box b = {f->width * f->elem, f->height, 1};
    uint64_t n = 0;

    if (!f->width || !f->height)
        return CUDA_SUCCESS;
    if (!box_span(&b, f->pitch, 0, &n) || !reachable(f->dst, n, CU_MEMORYTYPE_DEVICE, ctx, true))
        return fault(ctx, "a memset", f->dst, n);
    if (sg_driver.broken)
        sg_broken_before(sg_driver.broken, (uint32_t)ctx->dev->ordinal);
    for (uint64_t y = 0; y < f->height; y++) {
        fill_row((void *)(uintptr_t)(f->dst + y * f->pitch), f);
        if (sg_strict())
            sg_strict_written(f->dst + y * f->pitch, b.width);
    }
    if (sg_driver.broken)
        sg_broken_after(sg_driver.broken, (uint32_t)ctx->dev->ordinal);
    if (sg_strict())
        touch_box(&b, f->dst, f->pitch, 0, SG_ACCESS_WRITE);
    return CUDA_SUCCESS;
}
