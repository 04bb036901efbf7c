/*
 * Virtual memory management: addresses (cuMemAddressReserve) and memory (cuMemCreate) apart.
 *
 * Memory is an anonymous file, so that it can be mapped at several addresses at once; a mapping is
 * a record of the index of allocations. The number of a handle is an id, never a pointer, so that a
 * stale one is refused.
 */
#include "softgpu/driver/memory_internal.h"
#include "softgpu/driver/pool.h"
#include "softgpu/driver/strict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)

struct sg_phys { /* what cuMemCreate made; under the lock */
    uint64_t id;
    uint64_t size;
    int fd;
    struct sg_device *dev; /* NULL: the host's */
    CUmemAllocationProp prop;
    unsigned refs, maps; /* handles held; mappings */
    bool mapped_before;  /* strict mode: somebody may have written it */
};

bool sg_vmm_range(uint64_t addr, uint64_t *base, uint64_t *size)
{
    return sg_driver.memory && sg_index_find(sg_driver.memory->ranges, addr, base, size, NULL);
}

static bool whole(uint64_t n)
{
    return n % SG_VMM_GRANULARITY == 0;
}

/* ---- addresses --------------------------------------------------------------------------------
 */

CUresult sg_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr hint,
                                unsigned long long flags)
{
    uint64_t addr = 0, none = 0;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!ptr || !size || size % PAGE || hint % PAGE || flags || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < SG_VMM_GRANULARITY)
        alignment = SG_VMM_GRANULARITY;
    if (sg_mem_reserve(sg_driver.mem, size, alignment, hint, &addr, NULL) != TB_OK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (sg_index_put(sg_driver.memory->ranges, addr, size, &none, NULL) != TB_OK) {
        sg_mem_release(sg_driver.mem, addr);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ptr = addr;
    return CUDA_SUCCESS;
}

CUresult sg_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    uint64_t base = 0, n = 0;
    struct sg_rec rec;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    sg_memory_lock();
    if (!sg_vmm_range(ptr, &base, &n) || base != ptr || n != size ||
        (sg_rec_next(ptr, &rec) && rec.a.addr < ptr + size)) /* still mapped */
        r = CUDA_ERROR_INVALID_VALUE;
    else
        sg_index_remove(sg_driver.memory->ranges, ptr, NULL);
    sg_memory_unlock();
    if (r == CUDA_SUCCESS)
        sg_mem_release(sg_driver.mem, ptr);
    return r;
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static CUresult prop_check(const CUmemAllocationProp *p)
{
    int type = (int)p->location.type, id = p->location.id;

    if (p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->win32HandleMetaData)
        return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (id < 0 || id >= sg_driver.ndevices)
            return CUDA_ERROR_INVALID_DEVICE;
        /* a descriptor may be asked for; exporting it is what is not done */
        if (p->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
            return CUDA_ERROR_NOT_SUPPORTED;
        return CUDA_SUCCESS;
    }
    if (type != CU_MEM_LOCATION_TYPE_HOST && (type != CU_MEM_LOCATION_TYPE_HOST_NUMA || id != 0))
        return CUDA_ERROR_INVALID_VALUE;
    return p->requestedHandleTypes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static struct sg_phys *phys_of(struct sg_memory *m, uint64_t handle)
{
    uint64_t value = 0;

    if (!sg_index_find(m->handles, handle, NULL, NULL, &value))
        return NULL;
    return (struct sg_phys *)(uintptr_t)value;
}

/* Gone when neither a handle nor a mapping is left. Under the lock; who paid is paid back. */
static void phys_put(struct sg_memory *m, struct sg_phys *p)
{
    if (p->refs || p->maps)
        return;
    sg_index_remove(m->handles, p->id, NULL);
    close(p->fd);
    sg_memory_uncharge_locked(m, p->dev, p->size);
    free(p);
}

static struct sg_phys *phys_make(size_t size, const CUmemAllocationProp *prop)
{
    struct sg_phys *p = calloc(1, sizeof(*p));
    uint64_t value = (uintptr_t)p;

    if (!p)
        return NULL;
    *p = (struct sg_phys){.id = sg_memory_id(), .size = size, .prop = *prop, .refs = 1};
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        p->dev = &sg_driver.devices[prop->location.id];
    p->fd = memfd_create("softgpu", MFD_CLOEXEC);
    if (p->fd >= 0 && ftruncate(p->fd, (off_t)size) == 0 &&
        sg_index_put(sg_driver.memory->handles, p->id, 1, &value, NULL) == TB_OK)
        return p;
    if (p->fd >= 0)
        close(p->fd);
    free(p);
    return NULL;
}

size_t sg_vmm_handles(void)
{
    struct sg_memory *m = sg_memory_lock();
    uint64_t base = 0, value = 0;
    size_t n = 0;

    for (uint64_t at = 0; sg_index_next(m->handles, at, &base, NULL, &value); at = base + 1)
        n += ((const struct sg_phys *)(uintptr_t)value)->refs != 0;
    sg_memory_unlock();
    return n;
}

CUresult sg_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                        const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct sg_device *dev = NULL;
    struct sg_phys *p;
    CUresult r = sg_memory_ready();

    if (r == CUDA_SUCCESS && (!handle || !size || !whole(size) || !prop || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = prop_check(prop);
    if (r != CUDA_SUCCESS)
        return r;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        dev = &sg_driver.devices[prop->location.id];
    r = sg_memory_charge(dev, size, NULL);
    if (r != CUDA_SUCCESS)
        return r;
    p = phys_make(size, prop);
    if (!p) {
        sg_memory_uncharge(dev, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = p->id;
    return CUDA_SUCCESS;
}

CUresult sg_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct sg_memory *m;
    struct sg_phys *p;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    m = sg_memory_lock();
    p = phys_of(m, handle);
    if (!p || !p->refs) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else {
        p->refs--;
        phys_put(m, p);
    }
    sg_memory_unlock();
    return r;
}

CUresult sg_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    struct sg_phys *p;
    struct sg_rec rec;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    sg_memory_lock();
    if (sg_rec_find((uintptr_t)addr, &rec) && rec.a.kind == SG_ALLOC_VMM) {
        p = rec.own;
        p->refs++;
        *handle = p->id;
    } else {
        r = CUDA_ERROR_INVALID_VALUE;
    }
    sg_memory_unlock();
    return r;
}

CUresult sg_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                   CUmemGenericAllocationHandle handle)
{
    const struct sg_phys *p;
    struct sg_memory *m;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    m = sg_memory_lock();
    p = phys_of(m, handle);
    if (!prop || !p || !p->refs)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        *prop = p->prop;
    sg_memory_unlock();
    return r;
}

CUresult sg_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                          CUmemAllocationGranularity_flags option)
{
    CUresult r = sg_memory_ready();

    if (r == CUDA_SUCCESS && (!granularity || !prop ||
                              (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                               option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = prop_check(prop);
    if (r == CUDA_SUCCESS)
        *granularity = SG_VMM_GRANULARITY;
    return r;
}

/* ---- mappings ---------------------------------------------------------------------------------
 */

/* The shadow is one of addresses: what is written at one of several is not seen at the others, so
 * all count as written. So does what a mapping that is gone may have written. */
static void shadow_aliases(const struct sg_phys *p, uint64_t addr, size_t size)
{
    struct sg_rec r;

    if (p->mapped_before)
        sg_strict_written(addr, size);
    for (uint64_t at = 0; p->maps > 1 && sg_rec_next(at, &r); at = r.a.addr + r.a.size)
        if (r.a.kind == SG_ALLOC_VMM && r.own == p)
            sg_strict_written(r.a.addr, r.a.size);
}

/* Under the lock: map all or nothing. */
static CUresult map(struct sg_memory *m, uint64_t addr, size_t size, uint64_t handle)
{
    struct sg_phys *p = phys_of(m, handle);
    struct sg_rec rec = {.a = {.addr = addr, .size = size, .kind = SG_ALLOC_VMM}}, other;
    uint64_t base = 0, span = 0;
    CUresult r;

    if (!p || !p->refs || size > p->size || !sg_vmm_range(addr, &base, &span) ||
        size > span - (addr - base) || (sg_rec_next(addr, &other) && other.a.addr < addr + size))
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_mem_map(sg_driver.mem, addr, size, p->fd, 0, NULL) != TB_OK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rec.a.dev = p->dev;
    rec.a.id = sg_memory_id();
    rec.a.flags = (unsigned)p->prop.requestedHandleTypes;
    rec.own = p;
    rec.phys_id = p->id;
    rec.host = !p->dev;
    r = sg_rec_put(&rec);
    if (r != CUDA_SUCCESS) {
        sg_mem_unmap(sg_driver.mem, addr, size);
        return r;
    }
    p->maps++;
    if (sg_strict())
        shadow_aliases(p, addr, size);
    p->mapped_before = true;
    return r;
}

CUresult sg_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct sg_memory *m;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!size || !whole(ptr) || !whole(size) || offset || flags || ptr + size < ptr)
        return CUDA_ERROR_INVALID_VALUE;
    m = sg_memory_lock();
    r = map(m, ptr, size, handle);
    sg_memory_unlock();
    return r;
}

/* Is [addr, addr + size) made of whole mappings without a hole? */
static bool whole_mappings(uint64_t addr, uint64_t size)
{
    uint64_t at = addr, end = addr + size;
    struct sg_rec rec;

    while (at < end) {
        if (!sg_rec_at(at, &rec) || rec.a.kind != SG_ALLOC_VMM || rec.a.size > end - at)
            return false;
        at += rec.a.size;
    }
    return size && at == end;
}

CUresult sg_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    struct sg_memory *m;
    struct sg_rec rec;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!whole_mappings(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_memory_drain_all();
    if (r != CUDA_SUCCESS)
        return r;
    m = sg_memory_lock();
    if (!whole_mappings(ptr, size))
        r = CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = ptr; r == CUDA_SUCCESS && at < ptr + size; at += rec.a.size) {
        struct sg_phys *p;

        sg_rec_take(at, &rec);
        sg_mem_unmap(sg_driver.mem, at, rec.a.size);
        p = rec.own;
        p->maps--;
        phys_put(m, p);
    }
    sg_memory_unlock();
    return r;
}

CUresult sg_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    struct sg_rec rec;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!desc || !count)
        return CUDA_ERROR_INVALID_VALUE;
    sg_memory_lock();
    if (!whole_mappings(ptr, size))
        r = CUDA_ERROR_INVALID_VALUE;
    for (int pass = 0; pass < 2; pass++) { /* first all checks, then all changes */
        for (uint64_t at = ptr; r == CUDA_SUCCESS && at < ptr + size; at += rec.a.size) {
            sg_rec_at(at, &rec);
            r = sg_access_mask(desc, count, rec.host, &rec.read, &rec.write);
            if (r == CUDA_SUCCESS && pass) {
                sg_rec_update(&rec);
                sg_rec_allow(&rec);
            }
        }
    }
    sg_memory_unlock();
    return r;
}

CUresult sg_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                           CUdeviceptr ptr)
{
    struct sg_rec rec;
    uint8_t bit;
    CUresult r = sg_memory_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!flags || !location || !sg_rec_find(ptr, &rec) || rec.a.kind != SG_ALLOC_VMM)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
        if (!rec.host || (location->type != CU_MEM_LOCATION_TYPE_HOST &&
                          location->type != CU_MEM_LOCATION_TYPE_HOST_NUMA))
            return CUDA_ERROR_INVALID_VALUE;
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    }
    if (location->id < 0 || location->id >= sg_driver.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    bit = sg_driver.devices[location->id].bit;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (rec.read & bit)
        *flags =
            rec.write & bit ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    return CUDA_SUCCESS;
}
