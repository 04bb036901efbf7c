/*
 * run --poison: fresh memory is filled with a byte, by a kernel of ours. Two runs with two bytes
 * then differ in nothing but what nobody wrote, and what was made of that.
 *
 * What cuMemAlloc gives out any stream may use at once: it is filled in a stream of our own, which
 * is waited for. What is allocated in the order of a stream is filled there.
 */
#include <string.h>

#include "recorder/cuda/engine.h"

#define EACH 16u /* bytes for a thread, in large memory more */

/* `run` says then that it does not know. */
static void not_filled(const char *why)
{
    tb_cu_cover(1, TB_REC_NO_SEQ, "poison", "fresh memory", why);
}

void tb_cu_fill_none(const char *what)
{
    if (tb_cu_fills())
        tb_cu_cover(1, TB_REC_NO_SEQ, "poison", what, "it is not filled");
}

void tb_cu_fill_told(void)
{
    if (__atomic_exchange_n(&tb_cu.unhashed, false, __ATOMIC_RELAXED))
        tb_cu_cover(1, TB_REC_NO_SEQ, "poison", "a copy to the host", "it is not hashed");
}

static bool fill(const struct tb_cu_ctx *c, CUstream stream, bool per_thread, uint64_t base,
                 uint64_t bytes)
{
    struct tb_fpd_fill f = {base, bytes, TB_POISON_BYTE(tb_cu.config->poison)};
    uint64_t blocks = bytes / (EACH * TB_FPD_THREADS) + 1, most = 4ull * c->sms;
    uint32_t grid = (uint32_t)(blocks < most ? blocks : most);

    return tb_cu_launch(c->fill, grid, TB_FPD_THREADS, stream, per_thread, &f);
}

static bool fill_and_wait(const struct tb_cu_ctx *c, uint64_t base, uint64_t bytes)
{
    CUstreamCaptureMode before = tb_cu_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
    bool ok = c->own && fill(c, c->own, false, base, bytes) &&
              tb_cu.driver.cuStreamSynchronize(c->own) == CUDA_SUCCESS;

    (void)tb_cu_relax(before);
    return ok;
}

void tb_cu_fill(uint64_t base, uint64_t bytes, int device)
{
    struct tb_cu_visit v;
    const struct tb_cu_ctx *c = tb_cu_enter_device(device, &v);

    if (!c || !fill_and_wait(c, base, bytes))
        not_filled(c ? "it could not be filled" : "nothing can be launched in its context");
    tb_cu_return(&v);
}

/* A pool may be another device's than the stream is, which then cannot be known to reach it. */
static bool is_of(const struct tb_cu_ctx *c, uint64_t base)
{
    int device = -1;

    return tb_cu.driver.cuPointerGetAttribute &&
           tb_cu.driver.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base) ==
               CUDA_SUCCESS &&
           device == c->device;
}

void tb_cu_fill_in(uint64_t base, uint64_t bytes, CUstream stream, bool per_thread)
{
    struct tb_cu_visit v;

    tb_cu_where();
    tb_cu_lock();
    const struct tb_cu_stream *s = tb_cu_stream(stream, per_thread);
    CUcontext context = s ? s->context : NULL;
    tb_cu_unlock();
    tb_cu_visit(context, &v);
    const struct tb_cu_ctx *c = tb_cu_ctx();
    if (!c || !is_of(c, base))
        not_filled(c ? "a pool of another device than its stream's"
                     : "nothing can be launched there");
    else if (!fill(c, stream, per_thread, base, bytes))
        not_filled("it could not be filled");
    tb_cu_return(&v);
}

void tb_cu_fill_host(uint64_t base, uint64_t bytes)
{
    memset((void *)(uintptr_t)base, (int)TB_POISON_BYTE(tb_cu.config->poison), bytes);
}

/* ---------------------------------------------------------------- mappings */

/* What other processes may have by its handle is not known to be fresh. */
void tb_cu_created(const struct tb_cuda_call *c)
{
    PARAMS(cuMemCreate);

    if (!tb_cu_fills() || !p->handle || !p->prop)
        return;
    if (p->prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        tb_cu_fill_none("memory of cuMemCreate that other processes may map");
        return;
    }
    tb_cu_lock();
    (void)tb_cu_map_put(&tb_cu.fresh, *p->handle, &tb_cu);
    tb_cu_unlock();
}

void tb_cu_released(const struct tb_cuda_call *c)
{
    PARAMS(cuMemRelease);

    if (!tb_cu_fills())
        return;
    tb_cu_lock();
    (void)tb_cu_map_take(&tb_cu.fresh, p->handle);
    tb_cu_unlock();
}

/* The next one that is to be filled, or false. */
static bool next_fresh(uint64_t base, uint64_t bytes, uint64_t *at, uint64_t *n, int *device)
{
    bool found = false;

    tb_cu_lock();
    for (uint32_t i = 0; i < tb_cu.allocs && !found; i++) {
        struct tb_cu_alloc *a = tb_cu.alloc[i];
        if (!a->fresh || a->base - base >= bytes || a->device == TB_CU_NO_DEVICE)
            continue;
        found = true;
        a->fresh = false;
        *at = a->base;
        *n = a->bytes;
        *device = a->device;
    }
    tb_cu_unlock();
    return found;
}

void tb_cu_fill_mapped(uint64_t base, uint64_t bytes)
{
    uint64_t at, n;
    int device;

    while (next_fresh(base, bytes, &at, &n, &device))
        tb_cu_fill(at, n, device);
}
