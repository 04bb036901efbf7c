/* The primary context of a device: made with the device, alive while somebody retains it. */
#include "softgpu/driver/core.h"

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

CUresult sg_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&primary_lock);
    if (!dev->primary->active) {
        dev->primary->flags = dev->primary_flags;
        r = sg_context_start(dev->primary);
    }
    if (r == CUDA_SUCCESS) {
        dev->primary_refs++;
        *out = dev->primary;
    }
    pthread_mutex_unlock(&primary_lock);
    return r;
}

CUresult sg_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (dev->primary_refs == 1) /* a tool is told without the lock */
        sg_context_tell_end(dev->primary);
    pthread_mutex_lock(&primary_lock);
    if (dev->primary_refs == 0)
        r = CUDA_ERROR_INVALID_CONTEXT;
    else if (--dev->primary_refs == 0)
        sg_context_stop(dev->primary);
    pthread_mutex_unlock(&primary_lock);
    return r;
}

CUresult sg_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return sg_cuDevicePrimaryCtxRelease_v2(device);
}

/* Those who retain it must still release it; the next retain starts it anew. */
CUresult sg_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    sg_context_tell_end(dev->primary);
    pthread_mutex_lock(&primary_lock);
    sg_context_stop(dev->primary);
    dev->primary_flags = 0;
    pthread_mutex_unlock(&primary_lock);
    return CUDA_SUCCESS;
}

CUresult sg_cuDevicePrimaryCtxReset(CUdevice device)
{
    return sg_cuDevicePrimaryCtxReset_v2(device);
}

CUresult sg_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!sg_context_flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&primary_lock);
    dev->primary_flags = flags;
    dev->primary->flags = flags;
    pthread_mutex_unlock(&primary_lock);
    return CUDA_SUCCESS;
}

CUresult sg_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    return sg_cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult sg_cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = dev->primary_flags; /* called very often: no lock */
    *active = dev->primary->active;
    return CUDA_SUCCESS;
}
