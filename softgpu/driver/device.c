/* Devices: what they are called and can do. Attributes: attributes.c. */
#include "softgpu/driver/core.h"

#include <stdio.h>
#include <string.h>

CUresult sg_device_at(CUdevice device, struct sg_device **out)
{
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (device < 0 || device >= sg_driver.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = &sg_driver.devices[device];
    return CUDA_SUCCESS;
}

CUresult sg_cuDeviceGet(CUdevice *out, int ordinal)
{
    struct sg_device *dev;
    CUresult r = sg_needs(out, sg_device_at(ordinal, &dev));

    if (r == CUDA_SUCCESS)
        *out = dev->ordinal;
    return r;
}

CUresult sg_cuDeviceGetCount(int *count)
{
    CUresult r = sg_needs(count, sg_ready());

    if (r == CUDA_SUCCESS)
        *count = sg_driver.ndevices;
    return r;
}

CUresult sg_cuDeviceGetName(char *name, int len, CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!name || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)len, "%s", dev->name);
    return CUDA_SUCCESS;
}

CUresult sg_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_needs(uuid, sg_device_at(device, &dev));

    if (r == CUDA_SUCCESS)
        *uuid = dev->uuid;
    return r;
}

CUresult sg_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return sg_cuDeviceGetUuid_v2(uuid, device);
}

CUresult sg_cuDeviceGetLuid(char *luid, unsigned int *node_mask, CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    (void)luid;
    (void)node_mask;
    return r != CUDA_SUCCESS ? r : CUDA_ERROR_NOT_SUPPORTED; /* documented for Windows only */
}

CUresult sg_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_needs(bytes, sg_device_at(device, &dev));

    if (r == CUDA_SUCCESS)
        *bytes = dev->memory;
    return r;
}

CUresult sg_cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format,
                                               unsigned channels, CUdevice device)
{
    static const unsigned char bytes[] = {
        [CU_AD_FORMAT_UNSIGNED_INT8] = 1,  [CU_AD_FORMAT_UNSIGNED_INT16] = 2,
        [CU_AD_FORMAT_UNSIGNED_INT32] = 4, [CU_AD_FORMAT_SIGNED_INT8] = 1,
        [CU_AD_FORMAT_SIGNED_INT16] = 2,   [CU_AD_FORMAT_SIGNED_INT32] = 4,
        [CU_AD_FORMAT_HALF] = 2,           [CU_AD_FORMAT_FLOAT] = 4};
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!width || (size_t)format >= sizeof(bytes) || !bytes[format] ||
        (channels != 1 && channels != 2 && channels != 4))
        return CUDA_ERROR_INVALID_VALUE;
    *width = (size_t)268435456 / (bytes[format] * channels);
    return CUDA_SUCCESS;
}

CUresult sg_cuDeviceGetProperties(CUdevprop *prop, CUdevice device)
{
    static const struct {
        size_t offset;
        CUdevice_attribute attribute;
    } fields[] = {
        {offsetof(CUdevprop, maxThreadsPerBlock), CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
        {offsetof(CUdevprop, maxThreadsDim[0]), CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
        {offsetof(CUdevprop, maxThreadsDim[1]), CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y},
        {offsetof(CUdevprop, maxThreadsDim[2]), CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z},
        {offsetof(CUdevprop, maxGridSize[0]), CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
        {offsetof(CUdevprop, maxGridSize[1]), CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
        {offsetof(CUdevprop, maxGridSize[2]), CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z},
        {offsetof(CUdevprop, sharedMemPerBlock), CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
        {offsetof(CUdevprop, totalConstantMemory), CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
        {offsetof(CUdevprop, SIMDWidth), CU_DEVICE_ATTRIBUTE_WARP_SIZE},
        {offsetof(CUdevprop, memPitch), CU_DEVICE_ATTRIBUTE_MAX_PITCH},
        {offsetof(CUdevprop, regsPerBlock), CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
        {offsetof(CUdevprop, clockRate), CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
        {offsetof(CUdevprop, textureAlign), CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
    };
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r == CUDA_SUCCESS && !prop)
        r = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; r == CUDA_SUCCESS && i < TB_ARRAY_LEN(fields); i++)
        r = sg_cuDeviceGetAttribute((int *)(void *)((char *)prop + fields[i].offset),
                                    fields[i].attribute, device);
    return r;
}

CUresult sg_cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    CUresult r;

    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    if (r != CUDA_SUCCESS)
        return r;
    return sg_cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

CUresult sg_cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!supported || type < CU_EXEC_AFFINITY_TYPE_SM_COUNT || type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *supported = 0; /* needs MPS; partitions of SMs: green contexts */
    return CUDA_SUCCESS;
}

CUresult sg_cuDeviceGetPCIBusId(char *id, int len, CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!id || len < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(id, (size_t)len, "0000:%02x:00.0", sg_pci_bus(dev->physical));
    return CUDA_SUCCESS;
}

CUresult sg_cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    CUresult r = sg_ready();
    int physical = id ? sg_pci_parse(id) : -2;

    if (r != CUDA_SUCCESS)
        return r;
    if (!device || physical == -2)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sg_driver.ndevices; i++) {
        if (sg_driver.devices[i].physical == physical) {
            *device = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

/* ---- between two devices ---- */

CUresult sg_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    struct sg_device *a, *b;
    CUresult r = sg_device_at(device, &a);

    if (r != CUDA_SUCCESS || (r = sg_device_at(peer, &b)) != CUDA_SUCCESS)
        return r;
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    *can = a != b;
    return CUDA_SUCCESS;
}

CUresult sg_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice src,
                                    CUdevice dst)
{
    struct sg_device *a, *b;
    CUresult r = sg_device_at(src, &a);

    if (r != CUDA_SUCCESS || (r = sg_device_at(dst, &b)) != CUDA_SUCCESS)
        return r;
    if (a == b)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
    case 5: /* ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED */
        *value = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = 1;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
