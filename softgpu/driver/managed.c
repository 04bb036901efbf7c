/* Managed memory: one copy that the host and all devices use at the same address, so prefetches
 * and advice change nothing but what the range attributes say. */
#include "softgpu/driver/memory_internal.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define NO_PLACE CU_MEM_LOCATION_TYPE_INVALID

struct page { /* what was said about a page; types are CUmemLocationType, 0: nothing */
    int preferred_id, prefetch_id;
    uint8_t preferred, prefetch;
    uint8_t read_mostly;
    uint8_t cpu_access;  /* CU_MEM_ADVISE_SET_ACCESSED_BY for the host */
    uint8_t accessed_by; /* bit d: device d */
};

struct sg_managed {
    uint64_t first; /* address of page 0 */
    size_t n;
    struct page pages[];
};

void sg_managed_free(void *own)
{
    free(own);
}

CUresult sg_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    struct CUctx_st *ctx = NULL;
    uint64_t addr = 0;
    CUresult r = sg_memory_enter_alloc(&ctx);

    if (r == CUDA_SUCCESS &&
        (!dptr || !bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = sg_alloc_new_flags(ctx, bytesize, SG_ALLOC_MANAGED, flags, &addr);
    if (r == CUDA_SUCCESS)
        *dptr = addr;
    return r;
}

static bool is_managed(uint64_t addr, uint64_t count, struct sg_rec *rec)
{
    return count && sg_rec_holds(addr, count, rec) &&
           (rec->a.kind == SG_ALLOC_MANAGED ||
            (rec->a.kind == SG_ALLOC_POOL && sg_pool_managed(rec->a.pool)));
}

/* A place data can be at; @host_nodes: NUMA nodes of the host are places as well. */
static CUresult place_check(CUmemLocation l, bool host_nodes)
{
    if (l.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return l.id >= 0 && l.id < sg_driver.ndevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    if (l.type == CU_MEM_LOCATION_TYPE_HOST)
        return CUDA_SUCCESS;
    if (!host_nodes || (l.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && l.id != 0))
        return CUDA_ERROR_INVALID_VALUE;
    return l.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
                   l.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUmemLocation place_of_device(CUdevice dev)
{
    CUmemLocation l = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev};

    if (dev == CU_DEVICE_CPU)
        l = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
    return l;
}

/* The pages of an allocation; made when first something is said of them. Under the lock. */
static struct sg_managed *pages_of(struct sg_rec *rec)
{
    uint64_t first = rec->a.addr & ~(uint64_t)(PAGE - 1);
    size_t n = (size_t)((rec->a.addr + rec->a.size - first + PAGE - 1) / PAGE);
    struct sg_managed *m = rec->own;

    if (m)
        return m;
    m = calloc(1, sizeof(*m) + n * sizeof(m->pages[0]));
    if (!m)
        return NULL;
    m->first = first;
    m->n = n;
    rec->own = m;
    sg_rec_update(rec);
    return m;
}

struct said {
    int what; /* CUmem_advise, or PREFETCH */
    CUmemLocation where;
};
#define PREFETCH 0

static void page_say(struct page *p, const struct said *s)
{
    bool cpu = s->where.type != CU_MEM_LOCATION_TYPE_DEVICE;
    uint8_t bit = cpu ? 0 : (uint8_t)(1u << s->where.id);

    switch (s->what) {
    case PREFETCH:
        p->prefetch = (uint8_t)s->where.type;
        p->prefetch_id = s->where.id;
        break;
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        p->read_mostly = s->what == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        p->preferred = (uint8_t)s->where.type;
        p->preferred_id = s->where.id;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        p->preferred = NO_PLACE;
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        p->accessed_by |= bit;
        p->cpu_access |= cpu;
        break;
    default: /* CU_MEM_ADVISE_UNSET_ACCESSED_BY */
        p->accessed_by &= (uint8_t)~bit;
        p->cpu_access &= !cpu;
        break;
    }
}

static CUresult say(struct sg_rec *rec, uint64_t addr, uint64_t count, struct said s)
{
    struct sg_managed *m;
    size_t i, last;

    if (s.where.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        s.where = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
    sg_memory_lock();
    m = sg_rec_at(rec->a.addr, rec) ? pages_of(rec) : NULL;
    if (m) {
        last = (size_t)((addr + count - 1 - m->first) / PAGE);
        for (i = (size_t)((addr - m->first) / PAGE); i <= last; i++)
            page_say(&m->pages[i], &s);
    }
    sg_memory_unlock();
    return m ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- prefetch and discard ---------------------------------------------------------------------
 */

static CUresult prefetch_check(uint64_t addr, uint64_t count, CUmemLocation where,
                               struct sg_rec *rec)
{
    return is_managed(addr, count, rec) ? place_check(where, true) : CUDA_ERROR_INVALID_VALUE;
}

/* Enters the stream's order; there is nothing to move. */
static CUresult submit_nothing(struct CUctx_st *ctx, CUstream stream)
{
    struct sg_work w = {.kind = SG_WORK_EMPTY, .ctx = ctx};

    return sg_submit(stream, &w);
}

static CUresult prefetch(uint64_t addr, size_t count, CUmemLocation where, unsigned flags,
                         CUstream stream)
{
    struct CUctx_st *ctx = NULL;
    struct sg_rec rec;
    CUresult r = sg_memory_enter(&ctx);

    if (r == CUDA_SUCCESS && flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = prefetch_check(addr, count, where, &rec);
    if (r == CUDA_SUCCESS)
        r = submit_nothing(ctx, stream);
    if (r == CUDA_SUCCESS)
        r = say(&rec, addr, count, (struct said){PREFETCH, where});
    return r;
}

CUresult sg_cuMemPrefetchAsync(CUdeviceptr dptr, size_t count, CUdevice dev, CUstream stream)
{
    return prefetch(dptr, count, place_of_device(dev), 0, stream);
}

CUresult sg_cuMemPrefetchAsync_v2(CUdeviceptr dptr, size_t count, CUmemLocation location,
                                  unsigned int flags, CUstream stream)
{
    return prefetch(dptr, count, location, flags, stream);
}

#if CUDA_VERSION >= 13000

struct batch {
    CUdeviceptr *addrs;
    size_t *sizes, count;
    CUmemLocation *places; /* NULL: discard only */
    size_t *firsts, nplaces;
};

static bool batch_ok(const struct batch *b)
{
    if (!b->addrs || !b->sizes || !b->count)
        return false;
    if (!b->places)
        return true;
    if (!b->firsts || !b->nplaces || b->nplaces > b->count || b->firsts[0] != 0)
        return false;
    for (size_t i = 1; i < b->nplaces; i++)
        if (b->firsts[i] <= b->firsts[i - 1])
            return false;
    return b->firsts[b->nplaces - 1] < b->count;
}

/* Checks every range (@act false), then acts on every range. */
static CUresult batch_pass(const struct batch *b, bool act)
{
    CUresult r = CUDA_SUCCESS;

    for (size_t i = 0, k = 0; i < b->count && r == CUDA_SUCCESS; i++) {
        struct sg_rec rec;

        while (b->places && k + 1 < b->nplaces && b->firsts[k + 1] <= i)
            k++;
        if (!is_managed(b->addrs[i], b->sizes[i], &rec))
            r = CUDA_ERROR_INVALID_VALUE;
        else if (b->places && !act)
            r = place_check(b->places[k], true);
        else if (b->places)
            r = say(&rec, b->addrs[i], b->sizes[i], (struct said){PREFETCH, b->places[k]});
    }
    return r;
}

static CUresult batch_run(const struct batch *b, bool places, unsigned long long flags,
                          CUstream stream)
{
    struct CUstream_st *s = NULL;
    struct CUctx_st *ctx = NULL;
    CUresult r = sg_memory_enter(&ctx);

    if (r == CUDA_SUCCESS)
        r = sg_stream_of(stream, &s);
    if (r == CUDA_SUCCESS && (flags || s->legacy || (places && !b->places) || !batch_ok(b)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = batch_pass(b, false);
    if (r == CUDA_SUCCESS)
        r = submit_nothing(ctx, stream);
    return r == CUDA_SUCCESS ? batch_pass(b, true) : r;
}

CUresult sg_cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                    CUmemLocation *places, size_t *firsts, size_t nplaces,
                                    unsigned long long flags, CUstream stream)
{
    return batch_run(&(struct batch){dptrs, sizes, count, places, firsts, nplaces}, true, flags,
                     stream);
}

CUresult sg_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                              CUmemLocation *places, size_t *firsts, size_t nplaces,
                                              unsigned long long flags, CUstream stream)
{
    return batch_run(&(struct batch){dptrs, sizes, count, places, firsts, nplaces}, true, flags,
                     stream);
}

/* What is discarded may be read as anything: as what it was, too. */
CUresult sg_cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                   unsigned long long flags, CUstream stream)
{
    return batch_run(&(struct batch){dptrs, sizes, count, NULL, NULL, 0}, false, flags, stream);
}

#endif

/* ---- advice -----------------------------------------------------------------------------------
 */

CUresult sg_cuMemAdvise_v2(CUdeviceptr dptr, size_t count, CUmem_advise advice,
                           CUmemLocation location)
{
    bool by = advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    struct CUctx_st *ctx = NULL;
    struct sg_rec rec;
    CUresult r = sg_memory_enter(&ctx);

    if (r == CUDA_SUCCESS &&
        (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY ||
         !is_managed(dptr, count, &rec)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && (by || advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION))
        r = place_check(location, !by);
    return r == CUDA_SUCCESS ? say(&rec, dptr, count, (struct said){(int)advice, location}) : r;
}

CUresult sg_cuMemAdvise(CUdeviceptr dptr, size_t count, CUmem_advise advice, CUdevice dev)
{
    return sg_cuMemAdvise_v2(dptr, count, advice, place_of_device(dev));
}

/* ---- range attributes -------------------------------------------------------------------------
 */

/* What all pages agree on; a range of which nothing was said has one page of zeros. */
static struct page agreed(const struct sg_managed *m, uint64_t addr, uint64_t count)
{
    struct page all = {0};
    size_t i, last;

    if (!m)
        return all;
    i = (size_t)((addr - m->first) / PAGE);
    last = (size_t)((addr + count - 1 - m->first) / PAGE);
    for (all = m->pages[i]; i <= last; i++) {
        const struct page *p = &m->pages[i];

        if (p->preferred != all.preferred || p->preferred_id != all.preferred_id)
            all.preferred = NO_PLACE;
        if (p->prefetch != all.prefetch || p->prefetch_id != all.prefetch_id)
            all.prefetch = NO_PLACE;
        all.read_mostly &= p->read_mostly;
        all.cpu_access &= p->cpu_access;
        all.accessed_by &= p->accessed_by;
    }
    return all;
}

static int as_device(uint8_t type, int id)
{
    if (type == NO_PLACE)
        return CU_DEVICE_INVALID;
    return type == CU_MEM_LOCATION_TYPE_DEVICE ? id : CU_DEVICE_CPU;
}

static void accessed_by(const struct page *p, int *out, size_t n)
{
    size_t k = 0;

    for (int d = 0; d < SG_MAX_DEVICES && k < n; d++)
        if (p->accessed_by & (1u << d))
            out[k++] = d;
    if (p->cpu_access && k < n)
        out[k++] = CU_DEVICE_CPU;
    while (k < n)
        out[k++] = CU_DEVICE_INVALID;
}

static CUresult range_get(const struct page *p, void *data, size_t size, CUmem_range_attribute attr)
{
    int value;

    if (!data || !size || size % sizeof(value) ||
        (attr != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && size != sizeof(value)))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attr) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        value = p->read_mostly;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        value = as_device(p->preferred, p->preferred_id);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        accessed_by(p, data, size / sizeof(value));
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        value = as_device(p->prefetch, p->prefetch_id);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        value = p->preferred;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        value = p->preferred_id;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        value = p->prefetch;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        value = p->prefetch_id;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(data, &value, sizeof(value));
    return CUDA_SUCCESS;
}

CUresult sg_cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attrs,
                                    size_t n, CUdeviceptr dptr, size_t count)
{
    struct CUctx_st *ctx = NULL;
    struct sg_rec rec;
    struct page all = {0};
    CUresult r = sg_memory_enter(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!data || !sizes || !attrs || !n || !is_managed(dptr, count, &rec))
        return CUDA_ERROR_INVALID_VALUE;
    sg_memory_lock();
    if (sg_rec_at(rec.a.addr, &rec) && rec.a.kind == SG_ALLOC_MANAGED)
        all = agreed(rec.own, dptr, count);
    sg_memory_unlock();
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = range_get(&all, data[i], sizes[i], attrs[i]);
    return r;
}

CUresult sg_cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attr,
                                   CUdeviceptr dptr, size_t count)
{
    return sg_cuMemRangeGetAttributes(&data, &size, &attr, 1, dptr, count);
}
