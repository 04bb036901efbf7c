/* Calls that make memory and take it back, contexts and peer access. */
#include <string.h>

#include "recorder/cuda/engine.h"

void tb_cu_here(void)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUcontext context = NULL;
    CUdevice device = 0;

    if (!tb_cu_tls.may_call || !d->cuCtxGetDevice || !d->cuCtxGetCurrent ||
        d->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
        d->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return;
    tb_cu_tls.device = (int)device;
    tb_cu_tls.context = context;
    tb_cu_saw_device((int)device);
}

/* Whose it is could not be asked for when it was made: nobody looks at it before. */
static void set_owner(uint64_t base, uint64_t fresh)
{
    struct tb_cu_alloc *a;

    tb_cu_here();
    tb_cu_lock();
    a = tb_cu_alloc_at(base);
    if (a && a->base == base) {
        a->device = tb_cu_tls.device;
        a->context = tb_cu_tls.context;
    }
    tb_cu_unlock();
    if (fresh)
        tb_cu_fill(base, fresh, tb_cu_tls.device);
}

/* @fresh: of the bytes, so many hold nothing yet. */
static void add(uint64_t base, uint64_t bytes, uint8_t kind, uint64_t fresh)
{
    bool may = tb_cu_tls.may_call;

    fresh = tb_cu_fills() && base ? fresh : 0;
    tb_cu_here();
    tb_cu_lock();
    tb_cu_alloc_add(base, bytes, may ? tb_cu_tls.device : TB_CU_NO_DEVICE, kind);
    tb_cu_unlock();
    if (!may)
        tb_cu_late(set_owner, base, fresh);
    else if (fresh)
        tb_cu_fill(base, fresh, tb_cu_tls.device);
}

static void add_host(const void *p, uint64_t bytes)
{
    uint64_t base = (uint64_t)(uintptr_t)p;

    if (tb_cu_fills() && base)
        tb_cu_fill_host(base, bytes);
    add(base, bytes, TB_CU_HOST, 0);
}

/* Of such that no device may use yet, only the host can be the first to. */
static void add_managed(uint64_t base, uint64_t bytes, unsigned flags)
{
    if (tb_cu_fills() && base && (flags & CU_MEM_ATTACH_HOST))
        tb_cu_fill_host(base, bytes);
    add(base, bytes, TB_CU_MANAGED, flags & CU_MEM_ATTACH_HOST ? 0 : bytes);
}

/* Drivers wait for what is under way before they take memory back. */
static void may_wait(void)
{
    tb_cu_lock();
    tb_cu_unsaid(2, 0);
    tb_cu_unlock();
}

/* A pool's memory is of the stream's device; false: that is not known. */
static bool add_in(const struct tb_cu_stream *s, uint64_t base, uint64_t bytes)
{
    struct tb_cu_alloc *a;

    if (!s->context || s->device < 0)
        return false;
    tb_cu_alloc_add(base, bytes, s->device, TB_CU_DEVICE);
    a = tb_cu_alloc_at(base);
    if (a && a->base == base)
        a->context = s->context;
    return true;
}

#define PER_THREAD (1ull << 63) /* of the stream's handle, which is an address of the host's */

/* CUDA may be called: fill what was allocated in the order of that stream. */
static void fill_async(uint64_t base, uint64_t stream)
{
    uint64_t bytes = 0;

    tb_cu_lock();
    const struct tb_cu_alloc *a = tb_cu_alloc_at(base);
    bool known = a && a->device != TB_CU_NO_DEVICE;
    if (a && a->base == base)
        bytes = a->bytes;
    tb_cu_unlock();
    if (!known)
        set_owner(base, 0);
    if (bytes && tb_cu_fills())
        tb_cu_fill_in(base, bytes, (CUstream)(uintptr_t)(stream & ~PER_THREAD),
                      stream & PER_THREAD);
}

/* Memory that a capture allocates exists while its graph runs. */
static void add_async(uint64_t base, uint64_t bytes, CUstream stream, bool per_thread)
{
    if (tb_cu_capturing(stream, per_thread))
        return;
    tb_cu_where();
    tb_cu_lock();
    bool added = add_in(tb_cu_stream(stream, per_thread), base, bytes);
    tb_cu_unlock();
    if (!added)
        add(base, bytes, TB_CU_DEVICE, 0);
    if (tb_cu_fills()) {
        tb_cu_tls.late.what = NULL; /* what add() has left there is done by this, too */
        tb_cu_late(fill_async, base, HANDLE(stream) | (per_thread ? PER_THREAD : 0));
    }
}

/* Gone before the driver takes it, as it may give the same place to another thread at once; back
 * again if the driver has refused. */
static void take(struct tb_cuda_call *c, uint64_t base)
{
    tb_cu_lock();
    *c->user = HANDLE(tb_cu_alloc_lift(base));
    tb_cu_unlock();
}

static void settle(struct tb_cuda_call *c)
{
    struct tb_cu_alloc *chain = (struct tb_cu_alloc *)(uintptr_t)*c->user;

    if (!chain)
        return;
    tb_cu_lock();
    tb_cu_alloc_settle(chain, c->result == CUDA_SUCCESS);
    tb_cu_unlock();
    *c->user = 0;
}

/* Another process's memory: how much it is, only the driver knows. */
static void add_ipc(uint64_t base, uint64_t unused)
{
    CUdeviceptr start = 0;
    size_t bytes = 0;

    (void)unused;
    if (tb_cu.driver.cuMemGetAddressRange_v2 &&
        tb_cu.driver.cuMemGetAddressRange_v2(&start, &bytes, base) == CUDA_SUCCESS)
        add(start, bytes, TB_CU_MANAGED, 0);
}

/* Mappings belong to the device that may use them; to none before that was said. */
static void set_access(uint64_t base, uint64_t bytes, const CUmemAccessDesc *desc, size_t count)
{
    int device = TB_CU_NO_DEVICE;

    for (size_t i = 0; i < count; i++)
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            device = desc[i].location.id;
    tb_cu_lock();
    tb_cu_alloc_device(base, bytes, device);
    tb_cu_unlock();
    if (tb_cu_fills() && device != TB_CU_NO_DEVICE)
        tb_cu_late(tb_cu_fill_mapped, base, bytes);
}

/* A handle that is mapped for the first time: what the memory has in it comes with it afterwards.
 */
static void map(uint64_t base, uint64_t bytes, uint64_t handle)
{
    tb_cu_lock();
    tb_cu_alloc_add(base, bytes, TB_CU_NO_DEVICE, TB_CU_DEVICE);
    tb_cu_mapped(base, handle);
    if (tb_cu_fills() && tb_cu_map_take(&tb_cu.fresh, handle)) {
        struct tb_cu_alloc *a = tb_cu_alloc_at(base);
        if (a && a->base == base)
            a->fresh = true;
    }
    tb_cu_unlock();
}

void tb_cu_memory_enter(struct tb_cuda_call *c)
{
    switch (c->id) {
    case TB_CUDA_cuMemFree_v2: {
        PARAMS(cuMemFree_v2);
        may_wait();
        take(c, p->dptr);
        break;
    }
    case TB_CUDA_cuMemFreeAsync:
    case TB_CUDA_cuMemFreeAsync_ptsz: {
        PARAMS(cuMemFreeAsync);
        take(c, p->dptr);
        break;
    }
    case TB_CUDA_cuMemFreeHost: {
        PARAMS(cuMemFreeHost);
        may_wait();
        take(c, (uint64_t)(uintptr_t)p->p);
        break;
    }
    case TB_CUDA_cuMemHostUnregister: {
        PARAMS(cuMemHostUnregister);
        may_wait();
        take(c, (uint64_t)(uintptr_t)p->p);
        break;
    }
    case TB_CUDA_cuIpcCloseMemHandle: {
        PARAMS(cuIpcCloseMemHandle);
        take(c, p->dptr);
        break;
    }
    case TB_CUDA_cuMemUnmap: {
        PARAMS(cuMemUnmap);
        tb_cu_lock();
        *c->user = HANDLE(tb_cu_alloc_lift_range(p->ptr, p->size));
        tb_cu_unlock();
        break;
    }
    case TB_CUDA_cuMemRelease:
    case TB_CUDA_cuMemAddressFree:
        tb_cu_mapping_enter(c);
        break;
    }
}

static void host_memory(struct tb_cuda_call *c)
{
    switch (c->id) {
    case TB_CUDA_cuMemAllocHost_v2: {
        PARAMS(cuMemAllocHost_v2);
        add_host(*p->pp, p->bytesize);
        break;
    }
    case TB_CUDA_cuMemHostAlloc: {
        PARAMS(cuMemHostAlloc);
        add_host(*p->pp, p->bytesize);
        break;
    }
    case TB_CUDA_cuMemHostRegister_v2: {
        PARAMS(cuMemHostRegister_v2);
        add((uint64_t)(uintptr_t)p->p, p->bytesize, TB_CU_REGISTERED, 0);
        break;
    }
    }
}

void tb_cu_memory_exit(struct tb_cuda_call *c)
{
    settle(c);
    if (c->result != CUDA_SUCCESS)
        return;
    switch (c->id) {
    case TB_CUDA_cuMemAlloc_v2: {
        PARAMS(cuMemAlloc_v2);
        add(*p->dptr, p->bytesize, TB_CU_DEVICE, p->bytesize);
        break;
    }
    case TB_CUDA_cuMemAllocPitch_v2: {
        PARAMS(cuMemAllocPitch_v2);
        add(*p->dptr, *p->pPitch * p->Height, TB_CU_DEVICE, *p->pPitch * p->Height);
        break;
    }
    case TB_CUDA_cuMemAllocManaged: {
        PARAMS(cuMemAllocManaged);
        add_managed(*p->dptr, p->bytesize, p->flags);
        break;
    }
    case TB_CUDA_cuMemAllocAsync:
    case TB_CUDA_cuMemAllocAsync_ptsz: {
        PARAMS(cuMemAllocAsync);
        add_async(*p->dptr, p->bytesize, p->hStream, c->id == TB_CUDA_cuMemAllocAsync_ptsz);
        break;
    }
    case TB_CUDA_cuMemAllocFromPoolAsync:
    case TB_CUDA_cuMemAllocFromPoolAsync_ptsz: {
        PARAMS(cuMemAllocFromPoolAsync);
        add_async(*p->dptr, p->bytesize, p->hStream, c->id == TB_CUDA_cuMemAllocFromPoolAsync_ptsz);
        break;
    }
    case TB_CUDA_cuMemMap: {
        PARAMS(cuMemMap);
        map(p->ptr, p->size, p->handle);
        break;
    }
    case TB_CUDA_cuMemAddressReserve:
    case TB_CUDA_cuMemRetainAllocationHandle:
        tb_cu_mapping_exit(c);
        break;
    case TB_CUDA_cuMemCreate:
        tb_cu_mapping_exit(c);
        tb_cu_created(c);
        break;
    case TB_CUDA_cuMemRelease:
        tb_cu_released(c);
        break;
    case TB_CUDA_cuMemSetAccess: {
        PARAMS(cuMemSetAccess);
        set_access(p->ptr, p->size, p->desc, p->count);
        break;
    }
    case TB_CUDA_cuIpcOpenMemHandle_v2: {
        PARAMS(cuIpcOpenMemHandle_v2);
        tb_cu_late(add_ipc, *p->pdptr, 0);
        break;
    }
    default:
        host_memory(c);
    }
}

/* ---------------------------------------------------------------- contexts */

/* Drivers refuse to destroy these: what is known of them is kept until one has not. */
static bool is_primary(CUcontext context)
{
    for (int i = 0; i < TB_CU_DEVICES; i++)
        if (context && tb_cu.primary[i] == context)
            return true;
    return false;
}

void tb_cu_context_enter(struct tb_cuda_call *c)
{
    switch (c->id) {
    case TB_CUDA_cuCtxDestroy:
    case TB_CUDA_cuCtxDestroy_v2: {
        PARAMS(cuCtxDestroy);
        if (p->ctx && !is_primary(p->ctx))
            tb_cu_ctx_forget(p->ctx);
        break;
    }
    case TB_CUDA_cuDevicePrimaryCtxReset:
    case TB_CUDA_cuDevicePrimaryCtxReset_v2: {
        PARAMS(cuDevicePrimaryCtxReset);
        tb_cu_ctx_forget_device((int)p->dev);
        break;
    }
    }
}

static void peer(uint64_t with, uint64_t on)
{
    tb_cu_here();
    int here = tb_cu_tls.device, there = tb_cu_ctx_device((CUcontext)(uintptr_t)with);

    if (here < 0 || here >= 64 || there < 0 || there >= 64)
        return;
    tb_cu_lock();
    if (on)
        tb_cu.peers[here] |= 1ull << there;
    else
        tb_cu.peers[here] &= ~(1ull << there);
    tb_cu_alloc_changed_of(there);
    tb_cu_unlock();
}

/* From here on it is known of which device the thread's default streams are. */
static void moved(uint64_t unused, uint64_t either)
{
    (void)unused;
    (void)either;
    tb_cu_here();
}

/* The last release ends a device's primary context; the next retain may give out the same handle.
 */
static void released(uint64_t device, uint64_t unused)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    unsigned flags;
    int active = 0;

    (void)unused;
    if (d->cuDevicePrimaryCtxGetState &&
        d->cuDevicePrimaryCtxGetState((CUdevice)device, &flags, &active) == CUDA_SUCCESS && !active)
        tb_cu_ctx_forget_device((int)device);
}

void tb_cu_context_exit(struct tb_cuda_call *c)
{
    if (c->result != CUDA_SUCCESS)
        return;
    switch (c->id) {
    case TB_CUDA_cuDevicePrimaryCtxRetain: {
        PARAMS(cuDevicePrimaryCtxRetain);
        if (p->dev >= 0 && p->dev < 64)
            tb_cu.primary[p->dev] = *p->pctx;
        break;
    }
    case TB_CUDA_cuCtxDestroy:
    case TB_CUDA_cuCtxDestroy_v2: {
        PARAMS(cuCtxDestroy);
        if (is_primary(p->ctx))
            tb_cu_ctx_forget(p->ctx);
        tb_cu_late(moved, 0, 0);
        break;
    }
    case TB_CUDA_cuCtxSetCurrent:
    case TB_CUDA_cuCtxCreate:
    case TB_CUDA_cuCtxCreate_v2:
    case TB_CUDA_cuCtxCreate_v3:
    case TB_CUDA_cuCtxCreate_v4:
    case TB_CUDA_cuCtxPushCurrent_v2:
    case TB_CUDA_cuCtxPopCurrent_v2:
        tb_cu_late(moved, 0, 0);
        break;
    case TB_CUDA_cuDevicePrimaryCtxRelease:
    case TB_CUDA_cuDevicePrimaryCtxRelease_v2: {
        PARAMS(cuDevicePrimaryCtxRelease);
        tb_cu_late(released, (uint64_t)p->dev, 0);
        break;
    }
    case TB_CUDA_cuCtxEnablePeerAccess: {
        PARAMS(cuCtxEnablePeerAccess);
        tb_cu_late(peer, (uint64_t)(uintptr_t)p->peerContext, 1);
        break;
    }
    case TB_CUDA_cuCtxDisablePeerAccess: {
        PARAMS(cuCtxDisablePeerAccess);
        tb_cu_late(peer, (uint64_t)(uintptr_t)p->peerContext, 0);
        break;
    }
    }
}
