/* Errors of the memory, as SOFTGPU_NVML has them: ECC is on, and counts nothing by itself. Devices
 * before sm_80 retire pages, later ones remap rows, as the headers document. */
#include "softgpu/nvml/library.h"

#include <string.h>
#include <time.h>

nvmlReturn_t sg_nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current,
                                     nvmlEnableState_t *pending)
{
    (void)device;
    if (!current || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

SG_NVML_GETTER(nvmlDeviceGetDefaultEccMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)

static enum sg_nvml_setting ecc(nvmlMemoryErrorType_t type)
{
    return type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? SG_NVML_ECC_CORRECTED
                                                    : SG_NVML_ECC_UNCORRECTED;
}

/* Volatile and aggregate counts are equal: the machine has just started. */
nvmlReturn_t sg_nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                            nvmlEccCounterType_t counter, unsigned long long *out)
{
    if (!out || type >= NVML_MEMORY_ERROR_TYPE_COUNT || counter >= NVML_ECC_COUNTER_TYPE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = sg_nvml_get(device, ecc(type));
    return NVML_SUCCESS;
}

/* All errors are the memory's. */
nvmlReturn_t sg_nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                               nvmlEccCounterType_t counter,
                                               nvmlEccErrorCounts_t *out)
{
    unsigned long long total;
    nvmlReturn_t r = sg_nvmlDeviceGetTotalEccErrors(device, type, counter, &total);

    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        *out = (nvmlEccErrorCounts_t){.deviceMemory = total};
    return r;
}

nvmlReturn_t sg_nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                nvmlEccCounterType_t counter,
                                                nvmlMemoryLocation_t location,
                                                unsigned long long *out)
{
    nvmlReturn_t r = sg_nvmlDeviceGetTotalEccErrors(device, type, counter, out);

    if (location >= NVML_MEMORY_LOCATION_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS && location != NVML_MEMORY_LOCATION_DEVICE_MEMORY)
        *out = 0;
    return r;
}

/* ---- retired pages ---- */

static bool remaps(void)
{
    return sg_nvml_options()->arch >= 80;
}

nvmlReturn_t sg_nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                             unsigned *count, unsigned long long *addresses,
                                             unsigned long long *timestamps)
{
    bool single = cause == NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS;
    unsigned n, room;

    if (!count || cause >= NVML_PAGE_RETIREMENT_CAUSE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (remaps())
        return NVML_ERROR_NOT_SUPPORTED;
    n = (unsigned)sg_nvml_get(device, single ? SG_NVML_RETIRED_SINGLE : SG_NVML_RETIRED_DOUBLE);
    room = *count;
    *count = n;
    if (room < n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    if (n && !addresses)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < n; i++) {
        addresses[i] =
            sg_hash64(device->physical, cause, i) % sg_nvml_options()->memory & ~UINT64_C(0xfff);
        if (timestamps)
            timestamps[i] = (unsigned long long)time(NULL) * 1000000;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                          unsigned *count, unsigned long long *addresses)
{
    return sg_nvmlDeviceGetRetiredPages_v2(device, cause, count, addresses, NULL);
}

nvmlReturn_t sg_nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device,
                                                       nvmlEnableState_t *pending)
{
    if (!pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (remaps())
        return NVML_ERROR_NOT_SUPPORTED;
    *pending =
        sg_nvml_get(device, SG_NVML_RETIRED_PENDING) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

/* ---- remapped rows ---- */

nvmlReturn_t sg_nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected,
                                          unsigned *uncorrected, unsigned *pending,
                                          unsigned *failed)
{
    if (!corrected || !uncorrected || !pending || !failed)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!remaps())
        return NVML_ERROR_NOT_SUPPORTED;
    *corrected = (unsigned)sg_nvml_get(device, SG_NVML_REMAPPED_CORRECTED);
    *uncorrected = (unsigned)sg_nvml_get(device, SG_NVML_REMAPPED_UNCORRECTED);
    *pending = (unsigned)sg_nvml_get(device, SG_NVML_REMAPPED_PENDING);
    *failed = (unsigned)sg_nvml_get(device, SG_NVML_REMAPPED_FAILED);
    return NVML_SUCCESS;
}

/* Banks by the spare rows that they have left: each remapped row came out of another bank. */
nvmlReturn_t sg_nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                                  nvmlRowRemapperHistogramValues_t *out)
{
    const unsigned banks = 640;
    unsigned corrected, uncorrected, pending, failed, touched;
    nvmlReturn_t r =
        sg_nvmlDeviceGetRemappedRows(device, &corrected, &uncorrected, &pending, &failed);

    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (r != NVML_SUCCESS)
        return r;
    touched = corrected + uncorrected;
    touched = touched < banks - 1 ? touched : banks - 1;
    *out = (nvmlRowRemapperHistogramValues_t){
        .max = banks - touched - failed, .high = touched, .none = failed};
    return NVML_SUCCESS;
}

/* ---- the same by field number ---- */

static const struct {
    unsigned field;
    enum sg_nvml_setting setting;
    unsigned least, most; /* architectures */
} fields[] = {
    {NVML_FI_DEV_ECC_SBE_VOL_TOTAL, SG_NVML_ECC_CORRECTED, 0, 999},
    {NVML_FI_DEV_ECC_DBE_VOL_TOTAL, SG_NVML_ECC_UNCORRECTED, 0, 999},
    {NVML_FI_DEV_ECC_SBE_AGG_TOTAL, SG_NVML_ECC_CORRECTED, 0, 999},
    {NVML_FI_DEV_ECC_DBE_AGG_TOTAL, SG_NVML_ECC_UNCORRECTED, 0, 999},
    {NVML_FI_DEV_RETIRED_SBE, SG_NVML_RETIRED_SINGLE, 0, 79},
    {NVML_FI_DEV_RETIRED_DBE, SG_NVML_RETIRED_DOUBLE, 0, 79},
    {NVML_FI_DEV_RETIRED_PENDING, SG_NVML_RETIRED_PENDING, 0, 79},
    {NVML_FI_DEV_MEMORY_TEMP, SG_NVML_MEMORY_TEMPERATURE, 0, 999},
    {NVML_FI_DEV_PCIE_REPLAY_COUNTER, SG_NVML_PCIE_REPLAYS, 0, 999},
    {NVML_FI_DEV_REMAPPED_COR, SG_NVML_REMAPPED_CORRECTED, 80, 999},
    {NVML_FI_DEV_REMAPPED_UNC, SG_NVML_REMAPPED_UNCORRECTED, 80, 999},
    {NVML_FI_DEV_REMAPPED_PENDING, SG_NVML_REMAPPED_PENDING, 80, 999},
    {NVML_FI_DEV_REMAPPED_FAILURE, SG_NVML_REMAPPED_FAILED, 80, 999},
};

static nvmlReturn_t field_value(nvmlDevice_t device, unsigned field, unsigned long long *out)
{
    unsigned arch = sg_nvml_options()->arch;

    switch (field) {
    case NVML_FI_DEV_ECC_CURRENT:
    case NVML_FI_DEV_ECC_PENDING:
        *out = 1;
        return NVML_SUCCESS;
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT:
        *out = 1000 * sg_nvml_get(device, SG_NVML_POWER);
        return NVML_SUCCESS;
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
        return sg_nvmlDeviceGetTotalEnergyConsumption(device, out);
    default:
        break;
    }
    for (size_t i = 0; i < TB_ARRAY_LEN(fields); i++) {
        if (fields[i].field == field && arch >= fields[i].least && arch <= fields[i].most) {
            *out = sg_nvml_get(device, fields[i].setting);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t sg_nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    struct timespec now;

    if (count <= 0 || !values)
        return NVML_ERROR_INVALID_ARGUMENT;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        nvmlFieldValue_t *v = &values[i];

        v->timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
        v->latencyUsec = 0;
        v->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        memset(&v->value, 0, sizeof(v->value));
        v->nvmlReturn = field_value(device, v->fieldId, &v->value.ullVal);
    }
    return NVML_SUCCESS;
}
