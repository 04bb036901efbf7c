/* Which devices there are, what they are called and where they sit. */
#include "softgpu/driver/uuid.h"
#include "softgpu/nvml/library.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VENDOR 0x10deu /* programs look for it; the device number 0 is no product's */

/* ---- handles ---- */

nvmlReturn_t sg_nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = sg_nvml_options()->devices;
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetCount(unsigned *count)
{
    return sg_nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t sg_nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    if (!device || index >= sg_nvml_options()->devices)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &sg_nvml_devices[index];
    return sg_nvml_device_check(*device);
}

nvmlReturn_t sg_nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return sg_nvmlDeviceGetHandleByIndex_v2(index, device);
}

static void serial_of(unsigned physical, char text[NVML_DEVICE_SERIAL_BUFFER_SIZE])
{
    CUuuid uuid;
    uint64_t n;

    sg_device_uuid((int)physical, &uuid);
    memcpy(&n, uuid.bytes, sizeof(n));
    snprintf(text, NVML_DEVICE_SERIAL_BUFFER_SIZE, "%013" PRIu64, n % UINT64_C(10000000000000));
}

nvmlReturn_t sg_nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length)
{
    char text[NVML_DEVICE_SERIAL_BUFFER_SIZE];

    serial_of(device->physical, text);
    return sg_nvml_text(serial, length, text);
}

nvmlReturn_t sg_nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned length)
{
    char text[SG_UUID_TEXT];
    CUuuid uuid;

    sg_device_uuid((int)device->physical, &uuid);
    sg_uuid_text(&uuid, text);
    return sg_nvml_text(out, length, text);
}

/* The device whose @text is what @get says. */
static nvmlReturn_t by_text(nvmlReturn_t (*get)(nvmlDevice_t, char *, unsigned), const char *text,
                            nvmlDevice_t *device)
{
    char name[96];

    if (!text || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < sg_nvml_options()->devices; i++) {
        if (get(&sg_nvml_devices[i], name, sizeof(name)) == NVML_SUCCESS &&
            strcasecmp(name, text) == 0)
            return sg_nvmlDeviceGetHandleByIndex_v2(i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t sg_nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    return by_text(sg_nvmlDeviceGetSerial, serial, device);
}

nvmlReturn_t sg_nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    return by_text(sg_nvmlDeviceGetUUID, uuid, device);
}

nvmlReturn_t sg_nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
    int physical = id && device ? sg_pci_parse(id) : -2;

    if (physical == -2)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (physical < 0 || (unsigned)physical >= sg_nvml_options()->devices)
        return NVML_ERROR_NOT_FOUND;
    return sg_nvmlDeviceGetHandleByIndex_v2((unsigned)physical, device);
}

nvmlReturn_t sg_nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device)
{
    return sg_nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

/* ---- names and numbers ---- */

nvmlReturn_t sg_nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    char text[SG_DEVICE_NAME];

    (void)device;
    sg_device_name(sg_nvml_options(), text);
    return sg_nvml_text(name, length, text);
}

nvmlReturn_t sg_nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *number, unsigned length)
{
    char text[32];

    (void)device;
    snprintf(text, sizeof(text), "softgpu-%u", (unsigned)sg_nvml_options()->arch);
    return sg_nvml_text(number, length, text);
}

nvmlReturn_t sg_nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned length)
{
    char text[NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE];

    (void)device;
    snprintf(text, sizeof(text), "%u.00.00.00.00", (unsigned)sg_nvml_options()->arch);
    return sg_nvml_text(version, length, text);
}

SG_NVML_GETTER(nvmlDeviceGetIndex, unsigned, device->physical)
SG_NVML_GETTER(nvmlDeviceGetMinorNumber, unsigned, device->physical)
SG_NVML_GETTER(nvmlDeviceGetModuleId, unsigned, device->physical)
SG_NVML_GETTER(nvmlDeviceGetBoardId, unsigned, sg_pci_bus((int)device->physical) << 8)
SG_NVML_GETTER(nvmlDeviceGetMultiGpuBoard, unsigned, 0)
SG_NVML_GETTER(nvmlDeviceGetBrand, nvmlBrandType_t, NVML_BRAND_UNKNOWN)
SG_NVML_GETTER(nvmlDeviceGetMemoryBusWidth, unsigned, SG_BUS_WIDTH)

nvmlReturn_t sg_nvmlDeviceOnSameBoard(nvmlDevice_t a, nvmlDevice_t b, int *same)
{
    if (!same)
        return NVML_ERROR_INVALID_ARGUMENT;
    *same = a == b;
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    (void)device;
    if (!major || !minor)
        return NVML_ERROR_INVALID_ARGUMENT;
    *major = (int)sg_nvml_options()->arch / 10;
    *minor = (int)sg_nvml_options()->arch % 10;
    return NVML_SUCCESS;
}

/* by compute capability: nvml.h, and "Technical Specifications" in the CUDA C++ Programming Guide
 */
static const struct kind {
    uint32_t arch;
    unsigned architecture, cores; /* cores: single-precision units of an SM */
} kinds[] = {
    {75, NVML_DEVICE_ARCH_TURING, 64},  {80, NVML_DEVICE_ARCH_AMPERE, 64},
    {86, NVML_DEVICE_ARCH_AMPERE, 128}, {89, NVML_DEVICE_ARCH_ADA, 128},
    {90, NVML_DEVICE_ARCH_HOPPER, 128},
};

/* The one of the devices; NULL: none that NVML has a name for. */
static const struct kind *kind_here(void)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(kinds); i++)
        if (kinds[i].arch == sg_nvml_options()->arch)
            return &kinds[i];
    return NULL;
}

nvmlReturn_t sg_nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *out)
{
    const struct kind *kind = kind_here();

    (void)device;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = kind ? kind->architecture : NVML_DEVICE_ARCH_UNKNOWN;
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned *out)
{
    const struct kind *kind = kind_here();

    (void)device;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (kind)
        *out = kind->cores * sg_nvml_options()->sms_reported;
    return NVML_SUCCESS;
}

/* ---- the bus ---- */

nvmlReturn_t sg_nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(pci, 0, sizeof(*pci));
    pci->bus = sg_pci_bus((int)device->physical);
    pci->pciDeviceId = VENDOR;
    pci->pciSubSystemId = VENDOR;
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", pci->bus);
    snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", pci->bus);
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return sg_nvmlDeviceGetPciInfo_v3(device, pci);
}

/* The first form ends before the long busId. */
nvmlReturn_t sg_nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    nvmlPciInfo_t whole;
    nvmlReturn_t r = pci ? sg_nvmlDeviceGetPciInfo_v3(device, &whole) : NVML_ERROR_INVALID_ARGUMENT;

    if (r == NVML_SUCCESS)
        memcpy(pci, &whole, offsetof(nvmlPciInfo_t, busId));
    return r;
}

SG_NVML_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, 4)
SG_NVML_GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, 4)
SG_NVML_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, 4)
SG_NVML_GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, 16)
SG_NVML_GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, 16)
SG_NVML_GETTER(nvmlDeviceGetPcieLinkMaxSpeed, unsigned, NVML_PCIE_LINK_MAX_SPEED_16000MBPS)
SG_NVML_GETTER(nvmlDeviceGetPcieSpeed, unsigned, 16000)
SG_NVML_GETTER(nvmlDeviceGetPcieReplayCounter, unsigned, sg_nvml_get(device, SG_NVML_PCIE_REPLAYS))
SG_NVML_GETTER(nvmlDeviceGetBusType, nvmlBusType_t, NVML_BUS_TYPE_PCIE)

/* All processors of the host are near. */
nvmlReturn_t sg_nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned size, unsigned long *set)
{
    const unsigned bits = 8 * sizeof(*set);
    long n = sysconf(_SC_NPROCESSORS_CONF);

    (void)device;
    if (!set || !size)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((unsigned long)n > (unsigned long)size * bits)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memset(set, 0, size * sizeof(*set));
    for (long i = 0; i < n; i++)
        set[(unsigned)i / bits] |= 1ul << ((unsigned)i % bits);
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned size,
                                                    unsigned long *set, nvmlAffinityScope_t scope)
{
    if (scope > NVML_AFFINITY_SCOPE_SOCKET)
        return NVML_ERROR_INVALID_ARGUMENT;
    return sg_nvmlDeviceGetCpuAffinity(device, size, set);
}
