/* Allocations and what pointers are. */
#include "softgpu/runtime/runtime.h"

#include <stdint.h>

#include "softgpu/runtime/api_gen.h"

cudaError_t sg_cudaMalloc(void **devPtr, size_t size)
{
    cudaError_t err = sg_rt_enter();

    if (err != cudaSuccess)
        return err;
    if (devPtr == NULL)
        return cudaErrorInvalidValue;
    if (size == 0) {
        *devPtr = NULL;
        return cudaSuccess;
    }
    return sg_rt_error(cuMemAlloc_v2((CUdeviceptr *)devPtr, size));
}

cudaError_t sg_cudaFree(void *devPtr)
{
    cudaError_t err = sg_rt_enter(); /* cudaFree(0) is how programs start a device */

    if (err != cudaSuccess || devPtr == NULL)
        return err;
    return sg_rt_error(cuMemFree_v2((CUdeviceptr)devPtr));
}

cudaError_t sg_cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    cudaError_t err = sg_rt_enter();

    if (err != cudaSuccess)
        return err;
    if (pHost == NULL)
        return cudaErrorInvalidValue;
    if (size == 0) {
        *pHost = NULL;
        return cudaSuccess;
    }
    return sg_rt_error(cuMemHostAlloc(pHost, size, flags));
}

cudaError_t sg_cudaMallocHost(void **ptr, size_t size)
{
    return sg_cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t sg_cudaFreeHost(void *ptr)
{
    cudaError_t err = sg_rt_enter();

    return err != cudaSuccess || ptr == NULL ? err : sg_rt_error(cuMemFreeHost(ptr));
}

static cudaError_t malloc_pitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
    if (width == 0 || height == 0) {
        *devPtr = NULL;
        *pitch = 0;
        return cudaSuccess;
    }
    return sg_rt_error(cuMemAllocPitch_v2((CUdeviceptr *)devPtr, pitch, width, height, 4));
}

cudaError_t sg_cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
    cudaError_t err = sg_rt_enter();

    if (err != cudaSuccess)
        return err;
    if (devPtr == NULL || pitch == NULL)
        return cudaErrorInvalidValue;
    return malloc_pitch(devPtr, pitch, width, height);
}

cudaError_t sg_cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
    cudaError_t err = sg_rt_enter();
    struct cudaPitchedPtr p = {.xsize = extent.width, .ysize = extent.height};
    size_t rows;

    if (err != cudaSuccess)
        return err;
    if (pitchedDevPtr == NULL)
        return cudaErrorInvalidValue;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows))
        return cudaErrorMemoryAllocation;
    err = malloc_pitch(&p.ptr, &p.pitch, extent.width, rows);
    if (err == cudaSuccess)
        *pitchedDevPtr = p;
    return err;
}

/* A box of rows: one set of all rows if slices follow each other without a gap. */
static cudaError_t set_3d(struct cudaPitchedPtr p, int value, struct cudaExtent e, bool async,
                          cudaStream_t stream)
{
    unsigned char byte = (unsigned char)value;
    bool dense = e.height == p.ysize;
    size_t slices = dense ? 1 : e.depth;
    size_t rows = dense ? e.height * e.depth : e.height;
    CUresult r = CUDA_SUCCESS;

    if (e.width == 0 || e.height == 0 || e.depth == 0)
        return cudaSuccess;
    if (e.width > p.pitch || e.height > p.ysize)
        return cudaErrorInvalidValue;
    for (size_t z = 0; z < slices && r == CUDA_SUCCESS; z++) {
        CUdeviceptr at = (CUdeviceptr)p.ptr + z * p.pitch * p.ysize;

        if (async)
            r = cuMemsetD2D8Async(at, p.pitch, byte, e.width, rows, sg_rt_stream(stream));
        else
            r = SG_RT_PT(cuMemsetD2D8_v2)(at, p.pitch, byte, e.width, rows);
    }
    return sg_rt_error(r);
}

cudaError_t sg_cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value,
                            struct cudaExtent extent)
{
    cudaError_t err = sg_rt_enter();

    return err != cudaSuccess ? err : set_3d(pitchedDevPtr, value, extent, false, NULL);
}

cudaError_t sg_cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value,
                                 struct cudaExtent extent, cudaStream_t stream)
{
    cudaError_t err = sg_rt_enter();

    return err != cudaSuccess ? err : set_3d(pitchedDevPtr, value, extent, true, stream);
}

static enum cudaMemoryType memory_type(unsigned driver_type, unsigned managed)
{
    if (managed)
        return cudaMemoryTypeManaged;
    switch (driver_type) {
    case CU_MEMORYTYPE_HOST:
        return cudaMemoryTypeHost;
    case CU_MEMORYTYPE_DEVICE:
        return cudaMemoryTypeDevice;
    default:
        return cudaMemoryTypeUnregistered;
    }
}

cudaError_t sg_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER,
    };
    unsigned type = 0, managed = 0; /* the driver writes 0 where it does not know the pointer */
    int device = cudaInvalidDeviceId;
    CUdeviceptr on_device = 0;
    void *on_host = NULL;
    void *into[] = {&type, &managed, &device, &on_device, &on_host};
    cudaError_t err = sg_rt_enter();

    if (err != cudaSuccess)
        return err;
    if (attributes == NULL)
        return cudaErrorInvalidValue;
    err = sg_rt_error(
        cuPointerGetAttributes(sizeof(wanted) / sizeof(wanted[0]), wanted, into, (CUdeviceptr)ptr));
    if (err != cudaSuccess)
        return err;
    *attributes = (struct cudaPointerAttributes){.type = memory_type(type, managed)};
    if (attributes->type == cudaMemoryTypeUnregistered) {
        attributes->device = cudaInvalidDeviceId;
        attributes->hostPointer = (void *)(uintptr_t)ptr;
    } else {
        attributes->device = device;
        attributes->devicePointer = (void *)on_device;
        attributes->hostPointer = attributes->type == cudaMemoryTypeDevice ? NULL : on_host;
    }
    return cudaSuccess;
}
