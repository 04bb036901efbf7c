/* Launches in all their forms, and the stack of call configurations behind <<<>>>. */
#include "softgpu/runtime/runtime.h"

#include <limits.h>

#include "softgpu/runtime/api_gen.h"

static bool exceeds(unsigned value, CUdevice_attribute limit, int device)
{
    int max = INT_MAX;

    return value == 0 ||
           (cuDeviceGetAttribute(&max, limit, device) == CUDA_SUCCESS && value > (unsigned)max);
}

/* The driver says "invalid value" to whatever is wrong; the runtime has an error of its own for
 * grids and blocks that no kernel could have. */
static cudaError_t invalid_launch(const cudaLaunchConfig_t *l)
{
    int d = 0;
    unsigned long long threads =
        (unsigned long long)l->blockDim.x * l->blockDim.y * (unsigned long long)l->blockDim.z;

    if (sg_rt_device(&d) != cudaSuccess)
        return cudaErrorInvalidValue;
    if (exceeds(l->gridDim.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, d) ||
        exceeds(l->gridDim.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, d) ||
        exceeds(l->gridDim.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, d) ||
        exceeds(l->blockDim.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, d) ||
        exceeds(l->blockDim.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, d) ||
        exceeds(l->blockDim.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, d) ||
        exceeds(threads > UINT_MAX ? UINT_MAX : (unsigned)threads,
                CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, d))
        return cudaErrorInvalidConfiguration;
    return cudaErrorInvalidValue;
}

CUlaunchConfig sg_rt_launch_config(const cudaLaunchConfig_t *l)
{
    return (CUlaunchConfig){
        .gridDimX = l->gridDim.x,
        .gridDimY = l->gridDim.y,
        .gridDimZ = l->gridDim.z,
        .blockDimX = l->blockDim.x,
        .blockDimY = l->blockDim.y,
        .blockDimZ = l->blockDim.z,
        .sharedMemBytes = (unsigned)l->dynamicSmemBytes,
        .hStream = sg_rt_stream(l->stream),
        .attrs = (CUlaunchAttribute *)(void *)l->attrs, /* the same layout: layout.c */
        .numAttrs = l->numAttrs,
    };
}

static cudaError_t launch(const void *func, const cudaLaunchConfig_t *l, bool cooperative,
                          void **args)
{
    CUlaunchConfig c = sg_rt_launch_config(l);
    CUkernel kernel = NULL;
    CUfunction f;
    cudaError_t err = sg_rt_function(func, &kernel);
    CUresult r;

    if (err != cudaSuccess)
        return err;
    if (l->dynamicSmemBytes > UINT_MAX)
        return cudaErrorInvalidValue;
    f = (CUfunction)kernel; /* documented: a CUkernel may be given for a CUfunction */
    if (c.numAttrs > 0)
        r = cuLaunchKernelEx(&c, f, args, NULL);
    else if (cooperative)
        r = cuLaunchCooperativeKernel(f, c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX,
                                      c.blockDimY, c.blockDimZ, c.sharedMemBytes, c.hStream, args);
    else
        r = cuLaunchKernel(f, c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.blockDimY,
                           c.blockDimZ, c.sharedMemBytes, c.hStream, args, NULL);
    if (r == CUDA_ERROR_INVALID_HANDLE && sg_rt_host_of(kernel) == (void *)kernel &&
        cuKernelGetFunction(&f, kernel) != CUDA_SUCCESS)
        return cudaErrorInvalidDeviceFunction; /* no host function of ours, and no kernel */
    return r == CUDA_ERROR_INVALID_VALUE ? invalid_launch(l) : sg_rt_error(r);
}

static cudaError_t launch_plain(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                cudaStream_t stream, bool cooperative)
{
    cudaLaunchConfig_t l = {
        .gridDim = grid, .blockDim = block, .dynamicSmemBytes = shared, .stream = stream};

    return launch(func, &l, cooperative, args);
}

cudaError_t sg_cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                size_t sharedMem, cudaStream_t stream)
{
    return launch_plain(func, gridDim, blockDim, args, sharedMem, stream, false);
}

cudaError_t sg___cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                  size_t sharedMem, cudaStream_t stream)
{
    return launch_plain(kernel, gridDim, blockDim, args, sharedMem, stream, false);
}

cudaError_t sg_cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim,
                                           void **args, size_t sharedMem, cudaStream_t stream)
{
    return launch_plain(func, gridDim, blockDim, args, sharedMem, stream, true);
}

cudaError_t sg_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    if (config == NULL || (config->numAttrs > 0 && config->attrs == NULL))
        return cudaErrorInvalidValue;
    return launch(func, config, false, args);
}

cudaError_t sg___cudaGetKernel(cudaKernel_t *kernel, const void *entryFuncAddr)
{
    return kernel == NULL ? cudaErrorInvalidValue : sg_rt_handle(entryFuncAddr, kernel);
}

unsigned sg___cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                        struct CUstream_st *stream)
{
    struct sg_rt_tls *tls = sg_rt_tls();

    if (tls->nconfigs == SG_RT_MAX_CONFIGS)
        return 1;
    tls->configs[tls->nconfigs++] = (struct sg_rt_config){
        .grid = gridDim, .block = blockDim, .shared = sharedMem, .stream = stream};
    return 0;
}

cudaError_t sg___cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                          void *stream)
{
    struct sg_rt_tls *tls = sg_rt_tls();
    const struct sg_rt_config *c;

    if (tls->nconfigs == 0)
        return cudaErrorMissingConfiguration;
    c = &tls->configs[--tls->nconfigs];
    *gridDim = c->grid;
    *blockDim = c->block;
    *sharedMem = c->shared;
    *(cudaStream_t *)stream = c->stream;
    return cudaSuccess;
}
