/* Host functions and callbacks in streams. */
#include "softgpu/driver/stream.h"

#include "softgpu/driver/api_gen.h"

CUresult sg_cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
    struct sg_work w = {.kind = SG_WORK_HOST};
    CUresult r = sg_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    w.host.fn = fn;
    w.host.arg = arg;
    return sg_submit(stream, &w);
}

CUresult sg_cuStreamAddCallback(CUstream given, CUstreamCallback callback, void *arg,
                                unsigned flags)
{
    struct sg_work w = {.kind = SG_WORK_HOST};
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    r = sg_capture_refuse(s);
    sg_engine_unlock();
    if (r != CUDA_SUCCESS)
        return r;
    w.host.callback = callback;
    w.host.arg = arg;
    w.host.stream = given;
    return sg_submit(given, &w);
}
