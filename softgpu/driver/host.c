/* Host memory that devices use: pinned by cuMemHostAlloc, or the program's own, registered. A host
 * address is the device address too, so nothing is ever mapped a second time. */
#include "softgpu/driver/memory_internal.h"
#include "softgpu/driver/strict.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALLOC_FLAGS                                                                                \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                             \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |    \
     CU_MEMHOSTREGISTER_READ_ONLY)

CUresult sg_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int flags)
{
    struct CUctx_st *ctx = NULL;
    uint64_t addr = 0;
    CUresult r = sg_memory_enter_alloc(&ctx);

    if (r == CUDA_SUCCESS && (!pp || (flags & ~(unsigned)ALLOC_FLAGS)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && bytesize) {
        /* with unified addressing all pinned memory is mapped: so say the flags, as on a GPU */
        r = sg_alloc_new_flags(ctx, bytesize, SG_ALLOC_HOST, flags | CU_MEMHOSTALLOC_DEVICEMAP,
                               &addr);
    }
    if (r == CUDA_SUCCESS)
        *pp = (void *)(uintptr_t)addr; /* nothing is at NULL, and it may be freed */
    return r;
}

CUresult sg_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    return sg_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult sg_cuMemAllocHost(void **pp, unsigned int bytesize)
{
    return sg_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult sg_cuMemFreeHost(void *p)
{
    struct CUctx_st *ctx = NULL;
    struct sg_rec rec;
    CUresult r = sg_memory_enter_alloc(&ctx);

    if (r != CUDA_SUCCESS || !p)
        return r;
    if (sg_strict())
        sg_strict_double_free((uintptr_t)p);
    if (!sg_rec_at((uintptr_t)p, &rec) || rec.a.kind != SG_ALLOC_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_memory_drain_all();
    return r == CUDA_SUCCESS ? sg_alloc_free((uintptr_t)p) : r;
}

/* Is there memory in every page of the range? */
static bool mapped(uint64_t addr, uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = addr & ~(page - 1);
    unsigned char state[1024];

    while (first < addr + size) {
        uint64_t n = addr + size - first;

        n = n < sizeof(state) * page ? n : sizeof(state) * page;
        if (mincore((void *)(uintptr_t)first, n, state) != 0)
            return false;
        first += sizeof(state) * page;
    }
    return true;
}

CUresult sg_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int flags)
{
    struct sg_rec rec = {.a = {.addr = (uintptr_t)p, .size = bytesize, .flags = flags}};
    struct CUctx_st *ctx = NULL;
    struct tb_error err = {0};
    CUresult r = sg_memory_enter_alloc(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!p || !bytesize || rec.a.addr + bytesize < rec.a.addr ||
        (flags & ~(unsigned)REGISTER_FLAGS) || !mapped(rec.a.addr, bytesize))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return CUDA_ERROR_NOT_SUPPORTED;
    rec.a.kind = SG_ALLOC_REGISTERED;
    rec.a.ctx = sg_context_root(ctx);
    rec.a.id = sg_memory_id();
    rec.read = rec.write = 0xff;
    rec.host = 1;
    r = sg_rec_put(&rec);
    if (r == CUDA_SUCCESS &&
        sg_mem_register(sg_driver.mem, rec.a.addr, bytesize, 0xff, &err) != TB_OK) {
        sg_rec_take(rec.a.addr, &rec);
        r = err.status == TB_ERR_EXISTS ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return r;
}

CUresult sg_cuMemHostRegister(void *p, size_t bytesize, unsigned int flags)
{
    return sg_cuMemHostRegister_v2(p, bytesize, flags);
}

CUresult sg_cuMemHostUnregister(void *p)
{
    struct CUctx_st *ctx = NULL;
    struct sg_rec rec;
    CUresult r = sg_memory_enter_alloc(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_rec_find((uintptr_t)p, &rec))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (rec.a.kind != SG_ALLOC_REGISTERED || rec.a.addr != (uintptr_t)p)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_memory_drain_all();
    if (r == CUDA_SUCCESS && !sg_rec_take((uintptr_t)p, &rec))
        r = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (r == CUDA_SUCCESS)
        sg_mem_unregister(sg_driver.mem, (uintptr_t)p);
    return r;
}

CUresult sg_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int flags)
{
    struct CUctx_st *ctx = NULL;
    struct sg_rec rec;
    CUresult r = sg_memory_enter(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!pdptr || flags || !sg_rec_find((uintptr_t)p, &rec) ||
        (rec.a.kind != SG_ALLOC_HOST && rec.a.kind != SG_ALLOC_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = (uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult sg_cuMemHostGetFlags(unsigned int *flags, void *p)
{
    struct CUctx_st *ctx = NULL;
    struct sg_rec rec;
    CUresult r = sg_memory_enter(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!flags || !sg_rec_find((uintptr_t)p, &rec) || rec.a.kind != SG_ALLOC_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = rec.a.flags;
    return CUDA_SUCCESS;
}
