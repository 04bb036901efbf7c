/* Misuse that takes more than one call. */
#include "world.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- launches ---------------------------------------------------------------------------------
 */

CUresult launch(struct world *w, CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                unsigned by, unsigned bz, unsigned shared)
{
    return CU(cuLaunchKernel)(f, gx, gy, gz, bx, by, bz, shared, w->stream, NULL, NULL);
}

CUresult fault(struct world *w, const char *kernel)
{
    void *params[] = {&w->mem};
    CUfunction f = NULL;
    CUresult r = CU(cuModuleGetFunction)(&f, w->module, kernel);

    if (r != CUDA_SUCCESS)
        return r;
    return CU(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, w->stream, params, NULL);
}

CUresult launch_cooperative(struct world *w, unsigned blocks, unsigned threads)
{
    return CU(cuLaunchCooperativeKernel)(w->nothing, blocks, 1, 1, threads, 1, 1, 0, w->stream,
                                         NULL);
}

/* ---- queues -----------------------------------------------------------------------------------
 */

static void CUDA_CB wait_for(void *gate)
{
    sem_wait(gate);
}

CUresult with_queue_held(struct world *w, conformance_fn fn)
{
    CUresult r = CU(cuLaunchHostFunc)(w->stream, wait_for, &w->gate), s;

    if (r != CUDA_SUCCESS)
        return r;
    r = fn(w);
    sem_post(&w->gate);
    s = CU(cuStreamSynchronize)(w->stream);
    return s != CUDA_SUCCESS ? s : r;
}

struct in_thread {
    struct world *w;
    conformance_fn fn;
    CUresult r;
};

static void *run_in_thread(void *arg)
{
    struct in_thread *t = arg;

    t->r = t->fn(t->w);
    return NULL;
}

CUresult in_other_thread(struct world *w, conformance_fn fn)
{
    struct in_thread t = {w, fn, CUDA_ERROR_UNKNOWN};
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_in_thread, &t) == 0)
        pthread_join(thread, NULL);
    return t.r;
}

CUresult without_context(struct world *w, conformance_fn fn)
{
    CUresult r = CU(cuCtxSetCurrent)(NULL);

    if (r == CUDA_SUCCESS)
        r = fn(w);
    CU(cuCtxSetCurrent)(w->ctx);
    return r;
}

/* ---- captures ---------------------------------------------------------------------------------
 */

static CUresult capture(struct world *w, CUstream stream, CUstreamCaptureMode mode,
                        conformance_fn fn, CUresult *end)
{
    CUgraph g = NULL;
    CUresult r = CU(cuStreamBeginCapture)(stream, mode);

    if (r != CUDA_SUCCESS)
        return r;
    r = fn(w);
    *end = CU(cuStreamEndCapture)(stream, &g);
    if (g)
        CU(cuGraphDestroy)(g);
    return r;
}

CUresult in_capture(struct world *w, CUstream stream, CUstreamCaptureMode mode, conformance_fn fn)
{
    CUresult end;

    return capture(w, stream, mode, fn, &end);
}

CUresult end_of_capture(struct world *w, CUstream stream, CUstreamCaptureMode mode,
                        conformance_fn fn)
{
    CUresult end = CUDA_ERROR_UNKNOWN;

    capture(w, stream, mode, fn, &end);
    return end;
}

CUresult do_stream_sync(struct world *w)
{
    return CU(cuStreamSynchronize)(w->stream);
}

CUresult do_stream_query(struct world *w)
{
    return CU(cuStreamQuery)(w->stream);
}

CUresult do_ctx_sync(struct world *w)
{
    (void)w;
    return CU(cuCtxSynchronize)();
}

CUresult do_alloc(struct world *w)
{
    CUdeviceptr p = 0;
    CUresult r = CU(cuMemAlloc)(&p, 4096);

    (void)w;
    if (r == CUDA_SUCCESS)
        CU(cuMemFree)(p);
    return r;
}

CUresult do_event_query(struct world *w)
{
    return THEN(CU(cuEventRecord)(w->event, w->stream), CU(cuEventQuery)(w->event));
}

CUresult do_elapsed(struct world *w)
{
    CUevent a = NULL, b = NULL;
    CUresult r;

    CU(cuEventCreate)(&a, CU_EVENT_DEFAULT);
    CU(cuEventCreate)(&b, CU_EVENT_DEFAULT);
    CU(cuEventRecord)(a, w->stream);
    CU(cuEventRecord)(b, w->stream);
    r = CU(cuEventElapsedTime)(&w->ms, a, b);
    CU(cuEventDestroy)(a);
    CU(cuEventDestroy)(b);
    return r;
}

CUresult do_legacy_copy(struct world *w)
{
    return CU(cuMemcpyHtoDAsync)(w->mem, w->bytes, 16, CU_STREAM_LEGACY);
}

CUresult do_record_and_query(struct world *w)
{
    CUevent e = NULL;
    CUresult r = CU(cuEventCreate)(&e, CU_EVENT_DEFAULT);

    if (r == CUDA_SUCCESS)
        r = THEN(CU(cuEventRecord)(e, w->stream), CU(cuEventQuery)(e));
    if (e)
        CU(cuEventDestroy)(e);
    return r;
}

/* Another stream joins and does not come back. */
CUresult do_fork(struct world *w)
{
    CUevent e = NULL;
    CUresult r = CU(cuEventCreate)(&e, CU_EVENT_DISABLE_TIMING);

    if (r == CUDA_SUCCESS)
        r = CU(cuEventRecord)(e, w->stream);
    if (r == CUDA_SUCCESS)
        r = CU(cuStreamWaitEvent)(w->stream2, e, 0);
    if (r == CUDA_SUCCESS)
        r = CU(cuMemsetD8Async)(w->mem, 0, 16, w->stream2);
    if (e)
        CU(cuEventDestroy)(e);
    return r;
}

CUresult do_wait_outside(struct world *w)
{
    CUresult r = CU(cuEventRecord)(w->event, w->stream2);

    return THEN(r, CU(cuStreamWaitEvent)(w->stream, w->event, 0));
}

CUresult do_begin_again(struct world *w)
{
    return CU(cuStreamBeginCapture)(w->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

CUresult do_end_elsewhere(struct world *w)
{
    CUgraph g = NULL;

    do_fork(w);
    return CU(cuStreamEndCapture)(w->stream2, &g);
}

static CUresult end_here(struct world *w)
{
    CUgraph g = NULL;

    CU(cuCtxSetCurrent)(w->ctx);
    return CU(cuStreamEndCapture)(w->stream, &g);
}

CUresult do_end_in_thread(struct world *w)
{
    return in_other_thread(w, end_here);
}

/* ---- contexts ---------------------------------------------------------------------------------
 */

CUresult do_get_device(struct world *w)
{
    return CU(cuCtxGetDevice)(&w->dev);
}

CUresult do_pop(struct world *w)
{
    return CU(cuCtxPopCurrent)(&w->out_ctx);
}

CUresult do_copy(struct world *w)
{
    return CU(cuMemcpyHtoD)(w->mem, w->bytes, 16);
}

/* ---- memory -----------------------------------------------------------------------------------
 */

CUresult do_register_twice(struct world *w)
{
    void *page = NULL;
    CUresult r;

    if (posix_memalign(&page, 4096, 8192) != 0)
        return CUDA_ERROR_UNKNOWN;
    r = CU(cuMemHostRegister)(page, 8192, 0);
    if (r == CUDA_SUCCESS) {
        r = CU(cuMemHostRegister)(page, 8192, 0);
        CU(cuMemHostUnregister)(page);
    }
    free(page);
    (void)w;
    return r;
}

CUresult do_free_twice(struct world *w)
{
    CUdeviceptr p = 0;
    CUresult r = THEN(CU(cuMemAlloc)(&p, 8 * MIB), CU(cuMemFree)(p));

    (void)w;
    return THEN(r, CU(cuMemFree)(p));
}

CUresult do_use_after_free(struct world *w)
{
    CUdeviceptr p = 0;
    CUresult r = THEN(CU(cuMemAlloc)(&p, 8 * MIB), CU(cuMemFree)(p));

    return THEN(r, CU(cuMemcpyDtoH)(w->bytes, p, 16));
}

/* ---- mappings ---------------------------------------------------------------------------------
 */

CUresult mapped(struct world *w, conformance_fn fn)
{
    size_t two = 2 * w->grain;
    CUresult r = CU(cuMemAddressReserve)(&w->p, 2 * two, 0, 0, 0);

    if (r != CUDA_SUCCESS)
        return r;
    r = CU(cuMemCreate)(&w->handle, two, &w->prop, 0);
    if (r == CUDA_SUCCESS) {
        r = CU(cuMemMap)(w->p, two, 0, w->handle, 0);
        if (r == CUDA_SUCCESS) {
            r = fn(w);
            CU(cuMemUnmap)(w->p, two);
        }
        CU(cuMemRelease)(w->handle);
    }
    CU(cuMemAddressFree)(w->p, 2 * two);
    return r;
}

CUresult do_unmap_part(struct world *w)
{
    return CU(cuMemUnmap)(w->p, w->grain);
}

CUresult do_map_again(struct world *w)
{
    return CU(cuMemMap)(w->p, 2 * w->grain, 0, w->handle, 0);
}

CUresult do_map_outside(struct world *w)
{
    return CU(cuMemMap)(w->p + 4 * w->grain, 2 * w->grain, 0, w->handle, 0);
}

CUresult do_free_range(struct world *w)
{
    return CU(cuMemAddressFree)(w->p, w->grain);
}

CUresult do_access_part(struct world *w)
{
    CUmemAccessDesc desc = {w->prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    return CU(cuMemSetAccess)(w->p + 2 * w->grain, w->grain, &desc, 1);
}

CUresult do_copy_without_access(struct world *w)
{
    return CU(cuMemcpyDtoH)(w->bytes, w->p, 16);
}

/* ---- graphs -----------------------------------------------------------------------------------
 */

CUresult do_update_other_shape(struct world *w)
{
    CUgraphExecUpdateResultInfo info = {0};

    return CU(cuGraphExecUpdate)(w->exec, w->graph2, &info);
}
