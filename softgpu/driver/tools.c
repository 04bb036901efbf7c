/* For tools: the profiler's switches and the driver's log, which has nothing in it (SOFTGPU_LOG
 * writes to stderr). Programs call these at start and exit and go on whatever comes. */
#include "softgpu/driver/core.h"

CUresult sg_cuProfilerStart(void)
{
    struct CUctx_st *ctx;

    return sg_current(&ctx);
}

CUresult sg_cuProfilerStop(void)
{
    return sg_cuProfilerStart();
}

#if CUDA_VERSION >= 12090
/* What a registration gives out; registering twice gives it twice. */
struct CUlogsCallbackEntry_st {
    char unused;
};
static struct CUlogsCallbackEntry_st registered;

CUresult sg_cuLogsRegisterCallback(CUlogsCallback function, void *data, CUlogsCallbackHandle *out)
{
    (void)data;
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    if (out)
        *out = &registered;
    return CUDA_SUCCESS;
}

CUresult sg_cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
    return handle == &registered ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_cuLogsCurrent(CUlogIterator *out, unsigned int flags)
{
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    return CUDA_SUCCESS;
}

CUresult sg_cuLogsDumpToMemory(CUlogIterator *from, char *buffer, size_t *size, unsigned int flags)
{
    (void)from;
    if (!buffer || !size || !*size || flags)
        return CUDA_ERROR_INVALID_VALUE;
    buffer[0] = 0;
    *size = 0;
    return CUDA_SUCCESS;
}
#endif
