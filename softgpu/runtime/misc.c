/* Versions, entry points of the driver, stream callbacks, and what is left. */
#include "softgpu/runtime/runtime.h"

#include <stdlib.h>

#include "softgpu/runtime/api_gen.h"

cudaError_t sg_cudaRuntimeGetVersion(int *runtimeVersion)
{
    if (runtimeVersion == NULL)
        return cudaErrorInvalidValue;
    *runtimeVersion = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t sg_cudaDriverGetVersion(int *driverVersion)
{
    if (driverVersion == NULL)
        return cudaErrorInvalidValue;
    return sg_rt_error(cuDriverGetVersion(driverVersion)); /* needs no device */
}

static cudaError_t entry_point(const char *symbol, void **funcPtr, int version,
                               unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *driverStatus)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    cuuint64_t asked = flags;
    void *f = NULL;
    CUresult r;

    if (symbol == NULL || funcPtr == NULL)
        return cudaErrorInvalidValue;
    if (flags == cudaEnableDefault && sg_rt_tls()->ptds)
        asked = cudaEnablePerThreadDefaultStream;
    r = cuGetProcAddress_v2(symbol, &f, version, asked, &found);
    if (r == CUDA_ERROR_NOT_FOUND)
        r = CUDA_SUCCESS; /* documented: told by @driverStatus and a NULL */
    if (r != CUDA_SUCCESS)
        return sg_rt_error(r);
    *funcPtr = found == CU_GET_PROC_ADDRESS_SUCCESS ? f : NULL;
    if (driverStatus != NULL)
        *driverStatus = (enum cudaDriverEntryPointQueryResult)found;
    return cudaSuccess;
}

cudaError_t sg_cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                       enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

cudaError_t sg_cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
                                                unsigned int cudaVersion, unsigned long long flags,
                                                enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, (int)cudaVersion, flags, driverStatus);
}

/* ---- stream callbacks ------------------------------------------------------------------------ */

struct callback {
    cudaStreamCallback_t function;
    void *data;
};

static void CUDA_CB call_back(CUstream stream, CUresult status, void *data)
{
    struct callback c = *(struct callback *)data;

    free(data);
    c.function(stream, sg_rt_error(status), c.data);
}

cudaError_t sg_cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                     void *userData, unsigned int flags)
{
    cudaError_t err = sg_rt_enter();
    struct callback *c;

    if (err != cudaSuccess)
        return err;
    if (callback == NULL || flags != 0)
        return cudaErrorInvalidValue;
    c = malloc(sizeof(*c));
    if (c == NULL)
        return cudaErrorMemoryAllocation;
    *c = (struct callback){.function = callback, .data = userData};
    err = sg_rt_error(cuStreamAddCallback(sg_rt_stream(stream), call_back, c, 0));
    if (err != cudaSuccess)
        free(c);
    return err;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* Tools start and stop; a driver without one has nothing to do. */
cudaError_t sg_cudaProfilerStart(void)
{
    return sg_rt_enter();
}

cudaError_t sg_cudaProfilerStop(void)
{
    return sg_rt_enter();
}

struct cudaChannelFormatDesc sg_cudaCreateChannelDesc(int x, int y, int z, int w,
                                                      enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){.x = x, .y = y, .z = z, .w = w, .f = f};
}

#if CUDART_VERSION < 13000
/* They convert where a device has no double; all have. */
cudaError_t sg_cudaSetDoubleForDevice(double *d)
{
    (void)d;
    return cudaSuccess;
}

cudaError_t sg_cudaSetDoubleForHost(double *d)
{
    (void)d;
    return cudaSuccess;
}
#endif
