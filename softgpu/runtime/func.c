/* Attributes of kernels, occupancy, and the handles by which other interfaces know them. */
#include "softgpu/runtime/runtime.h"

#include <string.h>

#include "softgpu/runtime/api_gen.h"

/* Fields of struct cudaFuncAttributes that the driver has as attributes. */
static const struct {
    CUfunction_attribute attr;
    size_t offset;
    bool is_size;
} fields[] = {
#define FIELD(name, attr, is_size)                                                                 \
    {                                                                                              \
        CU_FUNC_ATTRIBUTE_##attr, offsetof(struct cudaFuncAttributes, name), is_size               \
    }
    FIELD(sharedSizeBytes, SHARED_SIZE_BYTES, true),
    FIELD(constSizeBytes, CONST_SIZE_BYTES, true),
    FIELD(localSizeBytes, LOCAL_SIZE_BYTES, true),
    FIELD(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK, false),
    FIELD(numRegs, NUM_REGS, false),
    FIELD(ptxVersion, PTX_VERSION, false),
    FIELD(binaryVersion, BINARY_VERSION, false),
    FIELD(cacheModeCA, CACHE_MODE_CA, false),
    FIELD(maxDynamicSharedSizeBytes, MAX_DYNAMIC_SHARED_SIZE_BYTES, false),
    FIELD(preferredShmemCarveout, PREFERRED_SHARED_MEMORY_CARVEOUT, false),
    FIELD(clusterDimMustBeSet, CLUSTER_SIZE_MUST_BE_SET, false),
    FIELD(requiredClusterWidth, REQUIRED_CLUSTER_WIDTH, false),
    FIELD(requiredClusterHeight, REQUIRED_CLUSTER_HEIGHT, false),
    FIELD(requiredClusterDepth, REQUIRED_CLUSTER_DEPTH, false),
    FIELD(clusterSchedulingPolicyPreference, CLUSTER_SCHEDULING_POLICY_PREFERENCE, false),
    FIELD(nonPortableClusterSizeAllowed, NON_PORTABLE_CLUSTER_SIZE_ALLOWED, false),
#undef FIELD
};

cudaError_t sg_cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    CUfunction f = NULL;
    cudaError_t err = sg_rt_function_here(func, &f);
    struct cudaFuncAttributes out;

    if (err != cudaSuccess)
        return err;
    if (attr == NULL)
        return cudaErrorInvalidValue;
    memset(&out, 0, sizeof(out));
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && err == cudaSuccess; i++) {
        char *field = (char *)&out + fields[i].offset;
        int value = 0;
        size_t size;

        err = sg_rt_error(cuFuncGetAttribute(&value, fields[i].attr, f));
        size = (size_t)value;
        memcpy(field, fields[i].is_size ? (void *)&size : (void *)&value,
               fields[i].is_size ? sizeof(size) : sizeof(value));
    }
    if (err == cudaSuccess)
        *attr = out;
    return err;
}

cudaError_t sg_cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    CUfunction f = NULL;
    cudaError_t err = sg_rt_function_here(func, &f);

    return err != cudaSuccess
               ? err
               : sg_rt_error(cuFuncSetAttribute(f, (CUfunction_attribute)attr, value));
}

cudaError_t sg_cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
    CUfunction f = NULL;
    cudaError_t err = sg_rt_function_here(func, &f);

    return err != cudaSuccess ? err
                              : sg_rt_error(cuFuncSetCacheConfig(f, (CUfunc_cache)cacheConfig));
}

cudaError_t sg_cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
    CUfunction f = NULL;
    cudaError_t err = sg_rt_function_here(func, &f);

    return err != cudaSuccess ? err
                              : sg_rt_error(cuFuncSetSharedMemConfig(f, (CUsharedconfig)config));
}

cudaError_t sg_cudaFuncGetName(const char **name, const void *func)
{
    CUkernel kernel = NULL;
    cudaError_t err = name == NULL ? cudaErrorInvalidValue : sg_rt_function(func, &kernel);

    return err != cudaSuccess ? err : sg_rt_error(cuKernelGetName(name, kernel));
}

cudaError_t sg_cudaFuncGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset,
                                    size_t *paramSize)
{
    CUkernel kernel = NULL;
    cudaError_t err = sg_rt_function(func, &kernel);

    return err != cudaSuccess
               ? err
               : sg_rt_error(cuKernelGetParamInfo(kernel, paramIndex, paramOffset, paramSize));
}

cudaError_t sg_cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attr,
                                               int value, int device)
{
    CUkernel k = NULL;
    cudaError_t err = sg_rt_function(kernel, &k);

    return err != cudaSuccess
               ? err
               : sg_rt_error(cuKernelSetAttribute((CUfunction_attribute)attr, value, k, device));
}

cudaError_t sg_cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
    return functionPtr == NULL ? cudaErrorInvalidValue
                               : sg_rt_function_here(symbolPtr, functionPtr);
}

cudaError_t sg_cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
    return kernelPtr == NULL ? cudaErrorInvalidValue : sg_rt_function(entryFuncAddr, kernelPtr);
}

cudaError_t sg_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
    CUfunction f = NULL;
    cudaError_t err = sg_rt_function_here(func, &f);

    return err != cudaSuccess ? err
                              : sg_rt_error(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                                    numBlocks, f, blockSize, dynamicSMemSize, flags));
}

cudaError_t sg_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
                                                             int blockSize, size_t dynamicSMemSize)
{
    return sg_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        numBlocks, func, blockSize, dynamicSMemSize, cudaOccupancyDefault);
}

cudaError_t sg_cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func,
                                                         int numBlocks, int blockSize)
{
    CUfunction f = NULL;
    cudaError_t err = sg_rt_function_here(func, &f);

    return err != cudaSuccess ? err
                              : sg_rt_error(cuOccupancyAvailableDynamicSMemPerBlock(
                                    dynamicSmemSize, f, numBlocks, blockSize));
}

static cudaError_t cluster_occupancy(CUresult (*query)(int *, CUfunction, const CUlaunchConfig *),
                                     int *out, const void *func, const cudaLaunchConfig_t *config)
{
    CUfunction f = NULL;
    cudaError_t err = sg_rt_function_here(func, &f);
    CUlaunchConfig c;

    if (err != cudaSuccess)
        return err;
    if (config == NULL)
        return cudaErrorInvalidValue;
    c = sg_rt_launch_config(config);
    return sg_rt_error(query(out, f, &c));
}

cudaError_t sg_cudaOccupancyMaxPotentialClusterSize(int *clusterSize, const void *func,
                                                    const cudaLaunchConfig_t *launchConfig)
{
    return cluster_occupancy(cuOccupancyMaxPotentialClusterSize, clusterSize, func, launchConfig);
}

cudaError_t sg_cudaOccupancyMaxActiveClusters(int *numClusters, const void *func,
                                              const cudaLaunchConfig_t *launchConfig)
{
    return cluster_occupancy(cuOccupancyMaxActiveClusters, numClusters, func, launchConfig);
}
