/* From one device to another: NVLink (there is none), peer access as the driver has it, MIG (off).
 */
#include "softgpu/nvml/library.h"

#include <string.h>

static nvmlReturn_t no_link(unsigned link, const void *out)
{
    return link >= NVML_NVLINK_MAX_LINKS || !out ? NVML_ERROR_INVALID_ARGUMENT
                                                 : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t sg_nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link,
                                         nvmlEnableState_t *active)
{
    (void)device;
    return no_link(link, active);
}

nvmlReturn_t sg_nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                    nvmlPciInfo_t *pci)
{
    (void)device;
    return no_link(link, pci);
}

nvmlReturn_t sg_nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned link,
                                                 nvmlPciInfo_t *pci)
{
    return sg_nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci);
}

nvmlReturn_t sg_nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link,
                                                    nvmlIntNvLinkDeviceType_t *type)
{
    (void)device;
    return no_link(link, type);
}

/* As cuDeviceGetP2PAttribute: every device reads, writes and does atomics on every other. */
nvmlReturn_t sg_nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t index,
                                       nvmlGpuP2PStatus_t *status)
{
    if (!status || a == b || index >= NVML_P2P_CAPS_INDEX_UNKNOWN)
        return NVML_ERROR_INVALID_ARGUMENT;
    *status =
        index == NVML_P2P_CAPS_INDEX_NVLINK ? NVML_P2P_STATUS_NOT_SUPPORTED : NVML_P2P_STATUS_OK;
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
                                                    nvmlGpuTopologyLevel_t *level)
{
    if (!level)
        return NVML_ERROR_INVALID_ARGUMENT;
    *level = a == b ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_HOSTBRIDGE;
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    (void)device;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(info, 0, sizeof(*info));
    info->state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
    unsigned version = info ? info->version : 0;
    bool known = version == nvmlGpuFabricInfo_v2;

    (void)device;
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
#ifdef nvmlGpuFabricInfo_v3
    known = known || version == nvmlGpuFabricInfo_v3;
#endif
    if (!known)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memset(info, 0, version & 0xffffff); /* the size is in the version */
    info->version = version;
    info->state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* ---- MIG: devices from sm_80 on could, and do not ---- */

nvmlReturn_t sg_nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    (void)device;
    if (!current || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sg_nvml_options()->arch < 80)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = NVML_DEVICE_MIG_DISABLE;
    return NVML_SUCCESS;
}

SG_NVML_GETTER(nvmlDeviceIsMigDeviceHandle, unsigned, 0)
SG_NVML_GETTER(nvmlDeviceGetMaxMigDeviceCount, unsigned, 0)

nvmlReturn_t sg_nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                    nvmlDevice_t *mig)
{
    (void)device;
    (void)index;
    return mig ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
}
