#include "softgpu/driver/memory_internal.h"
#include "softgpu/driver/pool.h"
#include "softgpu/driver/strict.h"
#include "softgpu/driver/usage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST_ALIGN 4096u /* pinned and managed memory begins at a page, as on a GPU */

_Static_assert(sizeof(struct sg_rec) % 8 == 0, "a record is whole words");
_Static_assert(SG_REC_WORDS <= SG_INDEX_WORDS_MAX, "a record fits the index");

/* ---- state ------------------------------------------------------------------------------------
 */

CUresult sg_memory_init(void)
{
    struct sg_memory *m = calloc(1, sizeof(*m));
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (sg_index_new(SG_REC_WORDS, &m->allocs, NULL) || sg_index_new(1, &m->blocks, NULL) ||
        sg_index_new(1, &m->ranges, NULL) || sg_index_new(1, &m->handles, NULL)) {
        sg_index_free(m->allocs);
        sg_index_free(m->blocks);
        sg_index_free(m->ranges);
        sg_index_free(m->handles);
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_init(&m->lock, NULL);
    atomic_init(&m->next_id, 1);
    m->host_limit = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
    sg_driver.memory = m;
    return sg_pools_init();
}

CUresult sg_memory_ready(void)
{
    CUresult r = sg_enter();

    return r == CUDA_SUCCESS ? sg_ready() : r;
}

CUresult sg_memory_enter(struct CUctx_st **ctx)
{
    CUresult r = sg_enter();

    return r == CUDA_SUCCESS ? sg_current(ctx) : r;
}

CUresult sg_memory_enter_alloc(struct CUctx_st **ctx)
{
    CUresult r = sg_memory_enter(ctx);

    return r == CUDA_SUCCESS ? sg_capture_forbids() : r;
}

uint64_t sg_memory_id(void)
{
    return atomic_fetch_add_explicit(&sg_driver.memory->next_id, 1, memory_order_relaxed);
}

/* ---- records ----------------------------------------------------------------------------------
 */

bool sg_rec_next(uint64_t addr, struct sg_rec *out)
{
    uint64_t words[SG_REC_WORDS];

    if (!sg_driver.memory || !sg_index_next(sg_driver.memory->allocs, addr, NULL, NULL, words))
        return false;
    memcpy(out, words, sizeof(*out));
    return true;
}

bool sg_rec_find(uint64_t addr, struct sg_rec *out)
{
    struct sg_rec r;

    if (!sg_rec_next(addr, &r) || r.a.addr > addr)
        return false;
    *out = r;
    return true;
}

bool sg_rec_at(uint64_t addr, struct sg_rec *out)
{
    struct sg_rec r;

    if (!sg_rec_next(addr, &r) || r.a.addr != addr)
        return false;
    *out = r;
    return true;
}

bool sg_rec_holds(uint64_t addr, uint64_t n, struct sg_rec *out)
{
    struct sg_rec r, first;
    uint64_t base = 0, span = 0, left;

    if (!sg_rec_find(addr, &first))
        return false;
    for (r = first;;) {
        left = r.a.size - (addr - r.a.addr);
        if (n <= left)
            break;
        n -= left;
        addr += left;
        if (first.a.kind != SG_ALLOC_VMM || !sg_rec_at(addr, &r) || r.a.kind != SG_ALLOC_VMM ||
            !sg_vmm_range(first.a.addr, &base, &span) || addr - base >= span)
            return false;
    }
    if (out)
        *out = first;
    return true;
}

CUresult sg_rec_put(const struct sg_rec *r)
{
    uint64_t words[SG_REC_WORDS];
    enum tb_status st;

    memcpy(words, r, sizeof(*r));
    st = sg_index_put(sg_driver.memory->allocs, r->a.addr, r->a.size, words, NULL);
    if (st == TB_OK && sg_strict()) {
        sg_book_made(&r->a);
        sg_strict_shadow_made(r);
    }
    if (st == TB_ERR_EXISTS)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    return st == TB_OK ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void sg_rec_update(const struct sg_rec *r)
{
    uint64_t words[SG_REC_WORDS];

    memcpy(words, r, sizeof(*r));
    sg_index_update(sg_driver.memory->allocs, r->a.addr, words);
}

bool sg_rec_take(uint64_t addr, struct sg_rec *out)
{
    uint64_t words[SG_REC_WORDS];

    if (!sg_index_remove(sg_driver.memory->allocs, addr, words))
        return false;
    memcpy(out, words, sizeof(*out));
    if (sg_strict()) {
        sg_book_gone(addr);
        sg_strict_shadow_gone(out);
    }
    return true;
}

void sg_rec_allow(const struct sg_rec *r)
{
    sg_mem_allow(sg_driver.mem, r->a.addr, r->a.size, r->read, r->write);
}

CUresult sg_rec_make(struct sg_rec *r, size_t align)
{
    struct tb_error err = {0};
    uint64_t addr = 0;
    CUresult res;

    align = align < SG_MEM_GRANULE ? SG_MEM_GRANULE : align;
    if (sg_mem_reserve_guarded(sg_driver.mem, r->a.size, align, &addr, &err)) {
        sg_log(2, "%s", err.text);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    r->a.addr = addr;
    r->a.id = sg_memory_id();
    res = CUDA_ERROR_OUT_OF_MEMORY;
    if (!sg_mem_commit(sg_driver.mem, addr, r->a.size, &err))
        res = sg_rec_put(r);
    if (res == CUDA_SUCCESS)
        sg_rec_allow(r);
    else
        sg_mem_release(sg_driver.mem, addr);
    return res;
}

bool sg_alloc_find(uint64_t addr, struct sg_alloc *out)
{
    struct sg_rec r;

    if (!sg_rec_find(addr, &r))
        return false;
    *out = r.a;
    return true;
}

/* ---- who holds how much -----------------------------------------------------------------------
 */

uint64_t sg_memory_round(uint64_t bytes)
{
    return (bytes + SG_MEM_GRANULE - 1) & ~(uint64_t)(SG_MEM_GRANULE - 1);
}

static bool charge(struct sg_device *dev, uint64_t bytes)
{
    struct sg_memory *m = sg_memory_lock();
    uint64_t *used = dev ? &dev->used : &m->host_used;
    uint64_t limit = dev ? dev->memory : m->host_limit;
    bool ok = bytes <= limit && *used <= limit - bytes;

    if (ok)
        *used += bytes;
    if (ok && dev)
        sg_usage_memory(dev->physical, dev->used);
    sg_memory_unlock();
    return ok;
}

CUresult sg_memory_charge(struct sg_device *dev, uint64_t bytes, struct CUctx_st *ctx)
{
    if (charge(dev, bytes))
        return CUDA_SUCCESS;
    sg_pools_trim(dev);
    if (charge(dev, bytes))
        return CUDA_SUCCESS;
    if (ctx && sg_engine_drain_ctx(ctx) == CUDA_SUCCESS) {
        sg_memory_synced(ctx, NULL);
        sg_pools_trim(dev);
        if (charge(dev, bytes))
            return CUDA_SUCCESS;
    }
    sg_log(2, "out of memory: %llu bytes asked for", (unsigned long long)bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void sg_memory_uncharge(struct sg_device *dev, uint64_t bytes)
{
    struct sg_memory *m = sg_memory_lock();

    sg_memory_uncharge_locked(m, dev, bytes);
    sg_memory_unlock();
}

CUresult sg_memory_drain_all(void)
{
    struct CUctx_st *all[64];
    unsigned n = 0;
    CUresult r = CUDA_SUCCESS;

    pthread_mutex_lock(&sg_driver.lock);
    for (struct CUctx_st *c = sg_driver.contexts; c && n < TB_ARRAY_LEN(all); c = c->next)
        if (c->active)
            all[n++] = c;
    pthread_mutex_unlock(&sg_driver.lock);
    for (unsigned i = 0; i < n; i++) {
        CUresult one = sg_engine_drain_ctx(all[i]);

        if (one == CUDA_SUCCESS)
            sg_memory_synced(all[i], NULL);
        else
            r = one;
    }
    return r;
}

/* ---- peers ------------------------------------------------------------------------------------
 */

/* Who may use what is allocated on @dev: itself, and those with peer access. Under the lock. */
static uint8_t device_mask(const struct sg_memory *m, const struct sg_device *dev)
{
    uint8_t mask = dev->bit;

    for (int d = 0; d < SG_MAX_DEVICES; d++)
        if (m->peers[dev->ordinal][d])
            mask |= (uint8_t)(1u << d);
    return mask;
}

static bool follows_peers(const struct sg_rec *r)
{
    return r->a.kind == SG_ALLOC_DEVICE || r->a.kind == SG_ALLOC_MODULE;
}

void sg_memory_set_peer(struct CUctx_st *ctx, struct sg_device *peer, bool on)
{
    struct sg_memory *m = sg_memory_lock();
    unsigned *count = &m->peers[peer->ordinal][ctx->dev->ordinal];
    uint64_t at = 0;
    struct sg_rec r;

    *count += on ? 1u : (*count ? -1u : 0u);
    for (; sg_rec_next(at, &r); at = r.a.addr + r.a.size) {
        if (!follows_peers(&r) || r.a.dev != peer)
            continue;
        r.read = r.write = device_mask(m, peer);
        sg_rec_update(&r);
        sg_rec_allow(&r);
    }
    sg_memory_unlock();
}

/* ---- allocation -------------------------------------------------------------------------------
 */

static bool on_host(enum sg_alloc_kind kind)
{
    return kind == SG_ALLOC_HOST || kind == SG_ALLOC_MANAGED;
}

static CUresult alloc(struct CUctx_st *ctx, size_t size, size_t align, enum sg_alloc_kind kind,
                      unsigned flags, uint64_t *addr)
{
    struct sg_rec r = {.a = {.size = size, .kind = kind, .flags = flags}};
    struct sg_device *payer = on_host(kind) ? NULL : ctx->dev;
    struct sg_memory *m;
    CUresult res;

    r.a.ctx = sg_context_root(ctx);
    r.a.dev = kind == SG_ALLOC_HOST ? NULL : ctx->dev;
    r.host = kind == SG_ALLOC_HOST;
    if (!size || size > sg_driver.mem->span)
        return size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    res = sg_memory_charge(payer, sg_memory_round(size), ctx);
    if (res != CUDA_SUCCESS)
        return res;
    m = sg_memory_lock();
    r.read = r.write = on_host(kind) ? 0xff : device_mask(m, ctx->dev);
    res = sg_rec_make(&r, align);
    sg_memory_unlock();
    if (res != CUDA_SUCCESS)
        sg_memory_uncharge(payer, sg_memory_round(size));
    else
        *addr = r.a.addr;
    return res;
}

CUresult sg_alloc_new(struct CUctx_st *ctx, size_t size, size_t align, enum sg_alloc_kind kind,
                      uint64_t *addr)
{
    if (kind == SG_ALLOC_POOL || kind == SG_ALLOC_REGISTERED || kind == SG_ALLOC_VMM)
        return CUDA_ERROR_INVALID_VALUE;
    return alloc(ctx, size, align, kind, kind == SG_ALLOC_MANAGED ? CU_MEM_ATTACH_GLOBAL : 0, addr);
}

CUresult sg_alloc_new_flags(struct CUctx_st *ctx, size_t size, enum sg_alloc_kind kind,
                            unsigned flags, uint64_t *addr)
{
    return alloc(ctx, size, HOST_ALIGN, kind, flags, addr);
}

CUresult sg_alloc_free(uint64_t addr)
{
    struct sg_rec r;

    if (!sg_rec_at(addr, &r) || r.a.kind == SG_ALLOC_POOL || r.a.kind == SG_ALLOC_REGISTERED ||
        r.a.kind == SG_ALLOC_VMM || !sg_rec_take(addr, &r))
        return CUDA_ERROR_INVALID_VALUE;
    sg_managed_free(r.own);
    sg_mem_release(sg_driver.mem, addr);
    sg_memory_uncharge(on_host(r.a.kind) ? NULL : r.a.dev, sg_memory_round(r.a.size));
    return CUDA_SUCCESS;
}

void sg_memory_destroy_ctx(struct CUctx_st *ctx)
{
    struct sg_rec r;

    for (uint64_t at = 0; sg_driver.memory && sg_rec_next(at, &r); at = r.a.addr + r.a.size) {
        if (r.a.ctx != ctx)
            continue;
        if (r.a.kind == SG_ALLOC_REGISTERED) {
            sg_mem_unregister(sg_driver.mem, r.a.addr);
            sg_rec_take(r.a.addr, &r);
        } else if (r.a.kind != SG_ALLOC_POOL && r.a.kind != SG_ALLOC_VMM) {
            sg_alloc_free(r.a.addr);
        }
    }
    if (sg_driver.memory && ctx->is_primary)
        sg_pools_release_ctx(ctx);
}

/* ---- cuMem ------------------------------------------------------------------------------------
 */

CUresult sg_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    struct CUctx_st *ctx = NULL;
    uint64_t addr = 0;
    CUresult r = sg_memory_enter_alloc(&ctx);

    if (r == CUDA_SUCCESS && (!dptr || !bytesize))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = alloc(ctx, bytesize, SG_MEM_GRANULE, SG_ALLOC_DEVICE, 0, &addr);
    if (r == CUDA_SUCCESS)
        *dptr = addr;
    return r;
}

CUresult sg_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
                               unsigned int element)
{
    struct CUctx_st *ctx = NULL;
    size_t row = (width + SG_PITCH_ALIGN - 1) & ~(size_t)(SG_PITCH_ALIGN - 1), total = 0;
    uint64_t addr = 0;
    CUresult r = sg_memory_enter_alloc(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!dptr || !pitch || !width || !height || row < width || row > SG_MAX_PITCH ||
        (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_mul_overflow(row, height, &total))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = alloc(ctx, total, SG_MEM_GRANULE, SG_ALLOC_DEVICE, 0, &addr);
    if (r == CUDA_SUCCESS) {
        *dptr = addr;
        *pitch = row;
    }
    return r;
}

CUresult sg_cuMemFree_v2(CUdeviceptr dptr)
{
    struct CUctx_st *ctx = NULL;
    struct sg_rec rec;
    CUresult r = sg_memory_enter_alloc(&ctx);

    if (r != CUDA_SUCCESS || !dptr)
        return r;
    if (sg_memnode_free(dptr, &r)) { /* a launch that allocates it may still be queued */
        if (r == CUDA_SUCCESS)
            r = sg_memory_drain_all();
        return r == CUDA_SUCCESS ? sg_pool_free_now(dptr) : r;
    }
    if (sg_strict())
        sg_strict_double_free(dptr);
    if (!sg_rec_at(dptr, &rec))
        return CUDA_ERROR_INVALID_VALUE;
    if (rec.a.kind == SG_ALLOC_POOL)
        return sg_pool_free_now(dptr);
    if ((rec.a.kind != SG_ALLOC_DEVICE && rec.a.kind != SG_ALLOC_MANAGED) || rec.freeing)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_engine_drain_ctx(rec.a.ctx);
    if (r == CUDA_SUCCESS && ctx != rec.a.ctx)
        r = sg_engine_drain_ctx(ctx);
    if (r != CUDA_SUCCESS)
        return r;
    sg_memory_synced(rec.a.ctx, NULL);
    return sg_alloc_free(dptr);
}

CUresult sg_cuMemGetInfo_v2(size_t *avail, size_t *total)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = sg_memory_enter(&ctx);

    if (r == CUDA_SUCCESS && (!avail || !total))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    sg_memory_lock();
    *avail = ctx->dev->memory - ctx->dev->used;
    *total = ctx->dev->memory;
    sg_memory_unlock();
    return CUDA_SUCCESS;
}

CUresult sg_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
    struct CUctx_st *ctx = NULL;
    struct sg_rec rec;
    CUresult r = sg_memory_enter(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (sg_strict())
        sg_strict_stale(dptr, "the pointer asked about", true);
    if (!sg_rec_find(dptr, &rec))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = rec.a.addr;
    if (size)
        *size = rec.a.size;
    return CUDA_SUCCESS;
}
