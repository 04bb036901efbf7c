/* cuMemPool*: making pools, their attributes, who may use them, and the default and current pool of
 * each place. */
#include "softgpu/driver/pool.h"

#include <stdlib.h>
#include <string.h>

bool sg_pool_managed(CUmemoryPool pool)
{
    return pool && (int)pool->props.allocType == TYPE_MANAGED;
}

CUmemoryPool sg_pool_make(const CUmemPoolProps *props, bool is_default)
{
    CUmemoryPool p = calloc(1, sizeof(*p));
    struct sg_memory *m;

    if (!p || !sg_handle_add(p, SG_MAGIC_POOL)) {
        free(p);
        return NULL;
    }
    p->magic = SG_MAGIC_POOL;
    p->props = *props;
    p->is_default = is_default;
    p->max = props->maxSize;
    p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
    if (props->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !sg_pool_managed(p)) {
        p->dev = &sg_driver.devices[props->location.id];
        p->access = p->dev->bit;
    }
    if (sg_pool_managed(p))
        p->access = 0xff;
    m = sg_memory_lock();
    p->next = m->pools;
    m->pools = p;
    sg_memory_unlock();
    return p;
}

CUresult sg_pools_init(void)
{
    for (int i = 0; i < sg_driver.ndevices; i++) {
        struct sg_device *dev = &sg_driver.devices[i];
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};

        props.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i};
        dev->default_pool = dev->current_pool = sg_pool_make(&props, true);
        if (!dev->default_pool)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static CUresult props_check(const CUmemPoolProps *p)
{
    bool managed = (int)p->allocType == TYPE_MANAGED && CUDA_VERSION >= 13000;
    CUmemLocationType type = p->location.type;

    if (p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED && !managed)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->handleTypes != CU_MEM_HANDLE_TYPE_NONE) /* sharing is not done */
        return p->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
                       type == CU_MEM_LOCATION_TYPE_DEVICE
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_LOCATION_TYPE_DEVICE)
        return p->location.id >= 0 && p->location.id < sg_driver.ndevices
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_LOCATION_TYPE_HOST || (managed && (int)type == PLACE_NONE) ||
        (type == CU_MEM_LOCATION_TYPE_HOST_NUMA && p->location.id == 0))
        return CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    CUmemoryPool p = NULL;
    CUresult r = sg_memory_ready();

    if (r == CUDA_SUCCESS && (!pool || !props))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = props_check(props);
    if (r == CUDA_SUCCESS && !(p = sg_pool_make(props, false)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS)
        *pool = p;
    return r;
}

static CUresult pool_check(CUmemoryPool pool)
{
    CUresult r = sg_memory_ready();

    return r == CUDA_SUCCESS && !sg_pool_is(pool) ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult sg_cuMemPoolDestroy(CUmemoryPool pool)
{
    struct sg_memory *m;
    CUresult r = pool_check(pool);

    if (r == CUDA_SUCCESS && pool->is_default)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    sg_handle_remove(pool);
    m = sg_memory_lock();
    sg_pool_forget(m, pool);
    pool->dead = true;
    pool->threshold = 0;
    sg_pool_trim(m, pool, 0, false);
    sg_memory_unlock();
    return CUDA_SUCCESS;
}

CUresult sg_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    struct sg_memory *m;
    CUresult r = pool_check(pool);

    if (r != CUDA_SUCCESS)
        return r;
    m = sg_memory_lock();
    sg_pool_trim(m, pool, keep, true);
    sg_memory_unlock();
    return CUDA_SUCCESS;
}

/* ---- attributes -------------------------------------------------------------------------------
 */

static uint64_t *counter(CUmemoryPool p, CUmemPool_attribute attr)
{
    switch ((int)attr) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &p->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &p->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &p->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &p->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &p->used_high;
    default:
        return NULL;
    }
}

static int *reuse_flag(CUmemoryPool p, CUmemPool_attribute attr)
{
    return attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
                   attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES
               ? &p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES]
               : NULL;
}

CUresult sg_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CUresult r = pool_check(pool);

    if (r != CUDA_SUCCESS)
        return r;
    if (!value || (!counter(pool, attr) && !reuse_flag(pool, attr)))
        return CUDA_ERROR_INVALID_VALUE;
    sg_memory_lock();
    if (counter(pool, attr))
        memcpy(value, counter(pool, attr), sizeof(cuuint64_t));
    else
        memcpy(value, reuse_flag(pool, attr), sizeof(int));
    sg_memory_unlock();
    return CUDA_SUCCESS;
}

/* A high water mark may be set to zero only, which means to what is there now. */
static CUresult set_counter(CUmemoryPool p, CUmemPool_attribute attr, uint64_t value)
{
    if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        p->threshold = value;
    else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && !value)
        p->reserved_high = p->reserved;
    else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH && !value)
        p->used_high = p->used;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult sg_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    uint64_t number;
    int flag;
    CUresult r = pool_check(pool);

    if (r != CUDA_SUCCESS)
        return r;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    sg_memory_lock();
    if (reuse_flag(pool, attr)) {
        memcpy(&flag, value, sizeof(flag));
        *reuse_flag(pool, attr) = flag != 0;
    } else if (counter(pool, attr)) {
        memcpy(&number, value, sizeof(number));
        r = set_counter(pool, attr, number);
    } else {
        r = CUDA_ERROR_INVALID_VALUE;
    }
    sg_memory_unlock();
    return r;
}

/* ---- access -----------------------------------------------------------------------------------
 */

CUresult sg_access_mask(const CUmemAccessDesc *desc, size_t count, bool host_ok, uint8_t *read,
                        uint8_t *write)
{
    uint8_t rd = *read, wr = *write;

    if (count && !desc)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const CUmemLocation *l = &desc[i].location;
        int flags = (int)desc[i].flags;
        bool host =
            l->type == CU_MEM_LOCATION_TYPE_HOST || l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
        uint8_t bit;

        if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
        if (host && host_ok)
            continue; /* the host may always */
        if (l->type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        if (l->id < 0 || l->id >= sg_driver.ndevices)
            return CUDA_ERROR_INVALID_DEVICE;
        bit = sg_driver.devices[l->id].bit;
        rd = (uint8_t)(flags & CU_MEM_ACCESS_FLAGS_PROT_READ ? rd | bit : rd & ~bit);
        wr = (uint8_t)(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? wr | bit : wr & ~bit);
    }
    *read = rd;
    *write = wr;
    return CUDA_SUCCESS;
}

/* Pools know only all or nothing, and their own device keeps its access. */
CUresult sg_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    CUresult r = pool_check(pool);
    uint8_t read, write;
    struct sg_rec rec;

    if (r != CUDA_SUCCESS)
        return r;
    if (count && !map)
        return CUDA_ERROR_INVALID_VALUE;
    sg_memory_lock();
    read = write = pool->access;
    r = sg_access_mask(map, count, !pool->dev, &read, &write);
    if (r == CUDA_SUCCESS && (read != write || (pool->dev && !(read & pool->dev->bit))))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        pool->access = read;
    for (const struct sg_block *b = pool->blocks; r == CUDA_SUCCESS && b; b = b->next) {
        if (!sg_rec_at(b->addr, &rec))
            continue;
        rec.read = rec.write = read;
        sg_rec_update(&rec);
        sg_rec_allow(&rec);
    }
    sg_memory_unlock();
    return r;
}

CUresult sg_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    CUresult r = pool_check(pool);
    bool can;

    if (r != CUDA_SUCCESS)
        return r;
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (location->id < 0 || location->id >= sg_driver.ndevices)
            return CUDA_ERROR_INVALID_DEVICE;
        can = pool->access & sg_driver.devices[location->id].bit;
    } else if (location->type == CU_MEM_LOCATION_TYPE_HOST ||
               location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA) {
        can = !pool->dev;
    } else {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = can ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

/* ---- the pool of a place ------------------------------------------------------------------------
 */

void sg_pool_forget(struct sg_memory *m, CUmemoryPool p)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(m->places); i++)
        if (m->places[i].current == p)
            m->places[i].current = m->places[i].normal;
    for (int i = 0; i < sg_driver.ndevices; i++)
        if (sg_driver.devices[i].current_pool == p)
            sg_driver.devices[i].current_pool = sg_driver.devices[i].default_pool;
}

static CUresult device_pool(CUmemoryPool *pool, CUdevice dev, bool current)
{
    struct sg_device *d = NULL;
    CUresult r = sg_memory_ready();

    if (r == CUDA_SUCCESS)
        r = sg_device_at(dev, &d);
    if (r == CUDA_SUCCESS && !pool)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *pool = current ? d->current_pool : d->default_pool;
    return r;
}

CUresult sg_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return device_pool(pool, dev, false);
}

CUresult sg_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return device_pool(pool, dev, true);
}

CUresult sg_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    struct sg_device *d = NULL;
    CUresult r = sg_memory_ready();

    if (r == CUDA_SUCCESS)
        r = sg_device_at(dev, &d);
    if (r == CUDA_SUCCESS && (!sg_pool_is(pool) || pool->dev != d))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        d->current_pool = pool;
    return r;
}

#if CUDA_VERSION >= 13000

/* Number of a place other than (pinned, device): the host's pinned memory, managed memory without
 * a place, on the host, on each device; -1 if there is no such place. */
static int place_of(const CUmemLocation *l, CUmemAllocationType type)
{
    bool managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;

    if (l->type == CU_MEM_LOCATION_TYPE_DEVICE)
        return managed && l->id >= 0 && l->id < sg_driver.ndevices ? 3 + l->id : -1;
    if (l->type == CU_MEM_LOCATION_TYPE_NONE)
        return managed ? 1 : -1;
    if (l->type == CU_MEM_LOCATION_TYPE_HOST ||
        (l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && l->id == 0))
        return managed ? 2 : 0;
    return -1;
}

static CUresult place_find(const CUmemLocation *l, CUmemAllocationType type, struct sg_place **out)
{
    int i;

    if (!l || (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED))
        return CUDA_ERROR_INVALID_VALUE;
    i = place_of(l, type);
    if (i < 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = &sg_driver.memory->places[i];
    if (!(*out)->normal) {
        CUmemPoolProps props = {.allocType = type, .location = *l};

        (*out)->normal = (*out)->current = sg_pool_make(&props, true);
    }
    return (*out)->normal ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_device_place(const CUmemLocation *l, CUmemAllocationType type)
{
    return l && type == CU_MEM_ALLOCATION_TYPE_PINNED && l->type == CU_MEM_LOCATION_TYPE_DEVICE;
}

static CUresult place_pool(CUmemoryPool *pool, CUmemLocation *l, CUmemAllocationType type,
                           bool current)
{
    struct sg_place *p = NULL;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (is_device_place(l, type))
        return device_pool(pool, l->id, current);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    r = place_find(l, type, &p);
    if (r == CUDA_SUCCESS)
        *pool = current ? p->current : p->normal;
    return r;
}

CUresult sg_cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *l, CUmemAllocationType type)
{
    return place_pool(pool, l, type, false);
}

CUresult sg_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *l, CUmemAllocationType type)
{
    return place_pool(pool, l, type, true);
}

CUresult sg_cuMemSetMemPool(CUmemLocation *l, CUmemAllocationType type, CUmemoryPool pool)
{
    struct sg_place *p = NULL;
    CUresult r = sg_memory_ready();

    if (r == CUDA_SUCCESS && is_device_place(l, type))
        return sg_cuDeviceSetMemPool(l->id, pool);
    if (r == CUDA_SUCCESS)
        r = place_find(l, type, &p);
    if (r == CUDA_SUCCESS && (!sg_pool_is(pool) || pool->props.allocType != type ||
                              place_of(&pool->props.location, type) != place_of(l, type)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        p->current = pool;
    return r;
}

#endif
