/*
 * Memory pools: cuMemAllocAsync, cuMemFreeAsync, cuMemPool*, and the memory of graph nodes.
 *
 * A block is memory a pool holds. When a free of it is submitted, the same stream may have it again
 * at once; other streams may after somebody waited for that stream (sg_memory_synced()); so which
 * address a call returns depends on calls only, never on how far the execution is. A reused
 * block holds what its last owner left, a new one zeros.
 */
#include "softgpu/driver/pool.h"
#include "softgpu/driver/order_item.h"
#include "softgpu/driver/strict.h"
#include "softgpu/driver/usage.h"

#include <stdlib.h>
#include <string.h>

/* ---- blocks; all of it under the lock -----------------------------------------------------------
 */

struct sg_block *sg_block_at(struct sg_memory *m, uint64_t addr)
{
    uint64_t base = 0, value = 0;

    if (!sg_index_find(m->blocks, addr, &base, NULL, &value) || base != addr)
        return NULL;
    return (struct sg_block *)(uintptr_t)value;
}

bool sg_block_enter(struct sg_memory *m, struct sg_block *b)
{
    uint64_t value = (uintptr_t)b;

    return sg_index_put(m->blocks, b->addr, b->size, &value, NULL) == TB_OK;
}

void sg_memory_uncharge_locked(struct sg_memory *m, struct sg_device *dev, uint64_t bytes)
{
    if (!dev) {
        m->host_used -= bytes;
        return;
    }
    dev->used -= bytes;
    sg_usage_memory(dev->physical, dev->used);
}

void sg_pool_count(CUmemoryPool p, int64_t reserved, int64_t used)
{
    p->reserved += (uint64_t)reserved;
    p->used += (uint64_t)used;
    p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
    p->used_high = p->used > p->used_high ? p->used : p->used_high;
}

static void pool_unlink(struct sg_memory *m, CUmemoryPool p)
{
    CUmemoryPool *at = &m->pools;

    while (*at && *at != p)
        at = &(*at)->next;
    if (*at)
        *at = p->next;
}

static void pool_bury(struct sg_memory *m, CUmemoryPool p)
{
    if (!p->dead || p->blocks)
        return;
    pool_unlink(m, p);
    p->magic = SG_MAGIC_DEAD;
    free(p);
}

static void block_give_back(struct sg_memory *m, struct sg_block **at)
{
    struct sg_block *b = *at;

    *at = b->next;
    sg_index_remove(m->blocks, b->addr, NULL);
    sg_mem_release(sg_driver.mem, b->addr);
    sg_memory_uncharge_locked(m, b->dev, b->size);
    sg_pool_count(b->pool, -(int64_t)b->size, 0);
    free(b);
}

static bool idle(const struct sg_block *b)
{
    return !b->live && !b->pending && !b->stream;
}

void sg_pool_trim(struct sg_memory *m, CUmemoryPool p, uint64_t keep, bool strict)
{
    struct sg_block **at = &p->blocks;

    while (*at && p->reserved > keep) {
        if (idle(*at) && (!strict || p->reserved - (*at)->size >= keep))
            block_give_back(m, at);
        else
            at = &(*at)->next;
    }
    pool_bury(m, p);
}

static void each_pool(struct sg_memory *m, void (*fn)(struct sg_memory *m, CUmemoryPool p, void *),
                      void *arg)
{
    CUmemoryPool next;

    for (CUmemoryPool p = m->pools; p; p = next) {
        next = p->next;
        fn(m, p, arg);
    }
}

static void trim_of_device(struct sg_memory *m, CUmemoryPool p, void *dev)
{
    if (p->dev == dev)
        sg_pool_trim(m, p, 0, false);
}

void sg_pools_trim(struct sg_device *dev)
{
    struct sg_memory *m = sg_memory_lock();

    each_pool(m, trim_of_device, dev);
    sg_memory_unlock();
}

struct synced {
    struct CUctx_st *ctx;
    const struct CUstream_st *stream;
};

/* By number: a stream that is made later may be at the same address. */
static uint64_t mark(const struct CUstream_st *s)
{
    return s->id + 1;
}

static void pool_synced(struct sg_memory *m, CUmemoryPool p, void *arg)
{
    const struct synced *s = arg;

    for (struct sg_block *b = p->blocks; b; b = b->next)
        if (!b->live && !b->pending &&
            (s->stream ? b->stream == mark(s->stream) : b->ctx == s->ctx))
            b->stream = 0;
    sg_pool_trim(m, p, p->threshold, false);
}

void sg_memory_synced(struct CUctx_st *ctx, struct CUstream_st *stream)
{
    struct synced s = {ctx, stream};
    struct sg_memory *m;

    if (!sg_driver.memory)
        return;
    m = sg_memory_lock();
    each_pool(m, pool_synced, &s);
    sg_memory_unlock();
}

/* ---- allocation -------------------------------------------------------------------------------
 */

/* The smallest free block that fits and wastes at most a quarter. */
static struct sg_block *pool_reuse(CUmemoryPool p, uint64_t size, const struct CUstream_st *stream)
{
    bool others = p->reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC - 1];
    struct sg_block *best = NULL;

    if (sg_strict()) /* so that a stale pointer meets nothing new */
        return NULL;
    for (struct sg_block *b = p->blocks; b; b = b->next) {
        if (b->live || b->size < size || b->size - size > size / 4)
            continue;
        if (b->stream != mark(stream) && (b->stream || b->pending || !others))
            continue;
        if (!best || b->size < best->size)
            best = b;
    }
    return best;
}

struct sg_rec sg_block_rec(const struct sg_block *b, size_t asked, CUmemoryPool pool,
                           uint8_t access)
{
    struct sg_rec r = {.a = {.addr = b->addr, .size = asked, .kind = SG_ALLOC_POOL}};

    r.a.dev = b->dev;
    r.a.ctx = b->ctx;
    r.a.pool = pool;
    r.a.id = sg_memory_id();
    r.read = r.write = access;
    r.host = !b->dev;
    return r;
}

/* Hands a block of the pool out again; its record may still be that of its last owner. */
static CUresult block_again(struct sg_block *b, size_t asked, struct CUctx_st *ctx)
{
    struct sg_rec r, old;
    CUresult res;

    b->ctx = ctx;
    r = sg_block_rec(b, asked, b->pool, b->pool->access);
    sg_rec_take(b->addr, &old);
    res = sg_rec_put(&r);
    if (res != CUDA_SUCCESS)
        return res;
    sg_mem_allow(sg_driver.mem, b->addr, b->size, r.read, r.write);
    b->live = true;
    b->stream = 0;
    sg_pool_count(b->pool, 0, (int64_t)b->size);
    return CUDA_SUCCESS;
}

static CUresult block_new(struct sg_memory *m, CUmemoryPool p, size_t asked, uint64_t size,
                          struct CUctx_st *ctx, uint64_t *addr)
{
    struct sg_block *b = calloc(1, sizeof(*b)), **at;
    struct sg_rec r;
    CUresult res;

    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *b = (struct sg_block){.size = size, .pool = p, .ctx = ctx, .dev = p->dev, .live = true};
    r = sg_block_rec(b, asked, p, p->access);
    res = sg_rec_make(&r, SG_MEM_GRANULE);
    b->addr = r.a.addr;
    if (res == CUDA_SUCCESS && !sg_block_enter(m, b)) {
        sg_rec_take(b->addr, &r);
        sg_mem_release(sg_driver.mem, b->addr);
        res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (res != CUDA_SUCCESS) {
        free(b);
        return res;
    }
    for (at = &p->blocks; *at && (*at)->addr < b->addr; at = &(*at)->next)
        ;
    b->next = *at;
    *at = b;
    sg_pool_count(p, (int64_t)size, (int64_t)size);
    *addr = b->addr;
    return CUDA_SUCCESS;
}

static CUresult pool_alloc(CUmemoryPool p, size_t asked, struct CUstream_st *stream, uint64_t *addr)
{
    uint64_t size = sg_memory_round(asked);
    struct sg_memory *m = sg_memory_lock();
    struct sg_block *b = pool_reuse(p, size, stream);
    CUresult r = CUDA_SUCCESS;
    bool full = p->max && (size > p->max || p->reserved > p->max - size);

    if (b) {
        r = block_again(b, asked, stream->ctx);
        *addr = b->addr;
        sg_memory_unlock();
        return r;
    }
    if (full)
        sg_pool_trim(m, p, p->max >= size ? p->max - size : 0, false);
    full = p->max && (size > p->max || p->reserved > p->max - size);
    sg_memory_unlock();
    if (full || !size)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = sg_memory_charge(p->dev, size, stream->ctx);
    if (r != CUDA_SUCCESS)
        return r;
    m = sg_memory_lock();
    r = block_new(m, p, asked, size, stream->ctx, addr);
    if (r != CUDA_SUCCESS)
        sg_memory_uncharge_locked(m, p->dev, size);
    sg_memory_unlock();
    return r;
}

bool sg_pool_is(CUmemoryPool p)
{
    return sg_handle_is(p, SG_MAGIC_POOL);
}

/* In a capture the memory is an allocation node's. */
static CUresult capture_alloc(CUmemoryPool p, size_t bytes, CUstream stream, struct CUctx_st *ctx,
                              uint64_t *addr)
{
    struct sg_work w = {.kind = SG_WORK_MEM_ALLOC, .ctx = ctx};
    CUresult r;

    w.mem.params.poolProps = p->props;
    w.mem.params.bytesize = bytes;
    r = sg_graph_mem_new(ctx, &w.mem.params, addr);
    if (r != CUDA_SUCCESS)
        return r;
    w.mem.addr = *addr;
    w.mem.size = bytes;
    w.mem.params.dptr = *addr;
    return sg_submit(stream, &w);
}

static CUresult alloc_async(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, bool current,
                            CUstream stream)
{
    struct CUstream_st *s = NULL;
    struct CUctx_st *ctx = NULL;
    uint64_t addr = 0;
    CUresult r = sg_memory_enter(&ctx);

    if (r == CUDA_SUCCESS)
        r = sg_stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (current)
        pool = s->ctx->dev->current_pool;
    if (!dptr || !bytes || !sg_pool_is(pool))
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_stream_is_capturing(stream))
        r = capture_alloc(pool, bytes, stream, s->ctx, &addr);
    else
        r = pool_alloc(pool, bytes, s, &addr);
    if (r == CUDA_SUCCESS)
        *dptr = addr;
    return r;
}

CUresult sg_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream stream)
{
    return alloc_async(dptr, bytesize, NULL, true, stream);
}

CUresult sg_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                    CUstream stream)
{
    return alloc_async(dptr, bytesize, pool, false, stream);
}

/* ---- free -------------------------------------------------------------------------------------
 */

/* Nobody may use the block any more; it stays the pool's. */
static void block_shut(const struct sg_block *b)
{
    struct sg_rec r;

    sg_rec_take(b->addr, &r);
    sg_mem_allow(sg_driver.mem, b->addr, b->size, 0, 0);
}

void sg_block_close(struct sg_memory *m, struct sg_block *b)
{
    block_shut(b);
    if (b->pool)
        return;
    sg_mem_drop(sg_driver.mem, b->addr);
    sg_memory_uncharge_locked(m, b->dev, b->size);
    if (b->deleted) {
        sg_index_remove(m->blocks, b->addr, NULL);
        sg_mem_release(sg_driver.mem, b->addr);
        free(b);
    }
}

CUresult sg_pool_free_now(uint64_t addr)
{
    struct sg_memory *m = sg_memory_lock();
    struct sg_block *b = sg_block_at(m, addr);
    CUmemoryPool p = b ? b->pool : NULL;
    CUresult r = b && b->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

    if (r == CUDA_SUCCESS) {
        b->live = false;
        b->stream = 0;
        if (p)
            sg_pool_count(p, 0, -(int64_t)b->size);
        if (!b->pending)
            sg_block_close(m, b);
        if (p)
            sg_pool_trim(m, p, p->threshold, false);
    }
    sg_memory_unlock();
    return r;
}

/* Freed memory may be anybody's next: what nothing orders before the free is a race. */
static void free_touches(uint64_t addr)
{
    struct sg_rec r;

    if (sg_rec_at(addr, &r))
        sg_order_touch(addr, r.a.size, SG_ACCESS_WRITE);
}

CUresult sg_mem_free_run(uint64_t addr, struct CUctx_st *ctx)
{
    struct sg_memory *m = sg_memory_lock();
    struct sg_block *b = sg_block_at(m, addr);
    CUresult r = CUDA_SUCCESS;

    (void)ctx;
    if (sg_strict())
        free_touches(addr);
    if (!b) { /* of cuMemAlloc: the block is freed now */
        sg_memory_unlock();
        return sg_alloc_free(addr);
    }
    if (!b->pool && !b->live)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!b->pool)
        b->live = false;
    else
        b->pending--;
    if (r == CUDA_SUCCESS && !b->live && !b->pending)
        sg_block_close(m, b);
    sg_memory_unlock();
    return r;
}

/* Marks the memory as free for its stream, or (@undo) not; false: it is not to be freed. Under the
 * lock. */
static bool mark_block(struct sg_block *b, struct CUstream_st *s, bool undo)
{
    int64_t size = (int64_t)b->size;

    if (!b->pool) /* a graph's: its free node or this one, whichever runs first */
        return b->live;
    if (b->live != !undo)
        return false;
    b->live = undo;
    b->pending += undo ? -1u : 1u;
    b->stream = mark(s);
    b->ctx = s->ctx;
    sg_pool_count(b->pool, 0, undo ? size : -size);
    return true;
}

static bool mark_plain(uint64_t addr, bool undo)
{
    struct sg_rec rec;

    if (!sg_rec_at(addr, &rec) || rec.a.kind != SG_ALLOC_DEVICE || rec.freeing != undo)
        return false;
    rec.freeing = !undo;
    sg_rec_update(&rec);
    return true;
}

static bool free_mark(uint64_t addr, struct CUstream_st *s, bool undo)
{
    struct sg_memory *m = sg_memory_lock();
    struct sg_block *b = sg_block_at(m, addr);
    bool ok = b ? mark_block(b, s, undo) : mark_plain(addr, undo);

    sg_memory_unlock();
    if (ok && sg_strict())
        sg_book_freed(addr, undo);
    return ok;
}

CUresult sg_cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
    struct sg_work w = {.kind = SG_WORK_MEM_FREE};
    struct CUstream_st *s = NULL;
    struct CUctx_st *ctx = NULL;
    bool graphs; /* graph memory, or a node that will free some: the queue knows more */
    CUresult r = sg_memory_enter(&ctx);

    if (r == CUDA_SUCCESS)
        r = sg_stream_of(stream, &s);
    if (r != CUDA_SUCCESS || !dptr)
        return r;
    if (sg_strict())
        sg_strict_double_free(dptr);
    graphs = sg_stream_is_capturing(stream);
    if (graphs && !sg_graph_mem_is(dptr))
        return CUDA_ERROR_INVALID_VALUE;
    graphs = graphs || sg_memnode_free(dptr, &r);
    if (r != CUDA_SUCCESS || (!graphs && !free_mark(dptr, s, false)))
        return CUDA_ERROR_INVALID_VALUE;
    w.ctx = s->ctx;
    w.mem.addr = dptr;
    r = sg_submit(stream, &w);
    if (r != CUDA_SUCCESS && !graphs)
        free_mark(dptr, s, true);
    return r;
}

static void release_of_ctx(struct sg_memory *m, CUmemoryPool p, void *ctx)
{
    for (struct sg_block *b = p->blocks; b; b = b->next) {
        if (b->ctx != ctx)
            continue;
        if (b->live) {
            b->live = false;
            sg_pool_count(p, 0, -(int64_t)b->size);
        }
        b->stream = 0;
        if (!b->pending)
            block_shut(b);
    }
    sg_pool_trim(m, p, p->threshold, false);
}

void sg_pools_release_ctx(struct CUctx_st *ctx)
{
    struct sg_memory *m = sg_memory_lock();

    each_pool(m, release_of_ctx, ctx);
    sg_memory_unlock();
}
