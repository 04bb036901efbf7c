/* What a real device measures and software has not: settings.h says what is reported. Clocks are
 * those that the driver's attributes name. */
#include "softgpu/nvml/library.h"

#include <time.h>

#define SHUTDOWN_CELSIUS 92
#define SLOWDOWN_CELSIUS 89
#define MEMORY_MAX_CELSIUS 95
#define MAX_CELSIUS 85
#define MIN_LIMIT_MW 100000u
#define MAX_LIMIT_MW 400000u
#define MAX_SM_MHZ (SG_CLOCK_KHZ / 1000)
#define MAX_MEMORY_MHZ (SG_MEMORY_CLOCK_KHZ / 1000)

/* ---- temperature ---- */

nvmlReturn_t sg_nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                         unsigned *out)
{
    if (!out || sensor != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = (unsigned)sg_nvml_get(device, SG_NVML_TEMPERATURE);
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *t)
{
    if (!t || t->sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (t->version != nvmlTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    t->temperature = (int)sg_nvml_get(device, SG_NVML_TEMPERATURE);
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *t)
{
    if (!t)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (t->version != nvmlMarginTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    t->marginTemperature = SLOWDOWN_CELSIUS - (int)sg_nvml_get(device, SG_NVML_TEMPERATURE);
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                                  nvmlTemperatureThresholds_t type, unsigned *out)
{
    (void)device;
    if (!out || type >= NVML_TEMPERATURE_THRESHOLD_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    switch ((int)type) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
        *out = SHUTDOWN_CELSIUS;
        return NVML_SUCCESS;
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
        *out = SLOWDOWN_CELSIUS;
        return NVML_SUCCESS;
    case NVML_TEMPERATURE_THRESHOLD_MEM_MAX:
        *out = MEMORY_MAX_CELSIUS;
        return NVML_SUCCESS;
    case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
        *out = MAX_CELSIUS;
        return NVML_SUCCESS;
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

/* ---- power: milliwatts ---- */

SG_NVML_GETTER(nvmlDeviceGetPowerUsage, unsigned, 1000 * sg_nvml_get(device, SG_NVML_POWER))
SG_NVML_GETTER(nvmlDeviceGetPowerManagementLimit, unsigned,
               1000 * sg_nvml_get(device, SG_NVML_POWER_LIMIT))
SG_NVML_GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned,
               1000 * sg_nvml_get(device, SG_NVML_POWER_LIMIT))
SG_NVML_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, MAX_LIMIT_MW)
SG_NVML_GETTER(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
SG_NVML_GETTER(nvmlDeviceGetPowerSource, nvmlPowerSource_t, NVML_POWER_SOURCE_AC)

nvmlReturn_t sg_nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *least,
                                                             unsigned *most)
{
    (void)device;
    if (!least || !most)
        return NVML_ERROR_INVALID_ARGUMENT;
    *least = MIN_LIMIT_MW;
    *most = MAX_LIMIT_MW;
    return NVML_SUCCESS;
}

/* The driver was loaded when the machine started, and the power is what it is now. */
nvmlReturn_t sg_nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *mj)
{
    struct timespec t;

    if (!mj)
        return NVML_ERROR_INVALID_ARGUMENT;
    clock_gettime(CLOCK_BOOTTIME, &t);
    *mj = sg_nvml_get(device, SG_NVML_POWER) *
          ((unsigned long long)t.tv_sec * 1000 + (unsigned long long)t.tv_nsec / 1000000);
    return NVML_SUCCESS;
}

/* ---- clocks: MHz ---- */

/* The clock of a domain: memory, or the SMs' for all others. */
static nvmlReturn_t clock_of(nvmlClockType_t type, unsigned sm, unsigned memory, unsigned *out)
{
    if (!out || type >= NVML_CLOCK_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = type == NVML_CLOCK_MEM ? memory : sm;
    return NVML_SUCCESS;
}

static nvmlReturn_t clock_now(nvmlDevice_t device, nvmlClockType_t type, unsigned *out)
{
    return clock_of(type, (unsigned)sg_nvml_get(device, SG_NVML_CLOCK_SM),
                    (unsigned)sg_nvml_get(device, SG_NVML_CLOCK_MEMORY), out);
}

static nvmlReturn_t clock_most(nvmlClockType_t type, unsigned *out)
{
    return clock_of(type, MAX_SM_MHZ, MAX_MEMORY_MHZ, out);
}

nvmlReturn_t sg_nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *out)
{
    return clock_now(device, type, out);
}

nvmlReturn_t sg_nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *out)
{
    (void)device;
    return clock_most(type, out);
}

nvmlReturn_t sg_nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type,
                                               unsigned *out)
{
    (void)device;
    return clock_most(type, out);
}

nvmlReturn_t sg_nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t type,
                                                      unsigned *out)
{
    (void)device;
    return clock_most(type, out);
}

nvmlReturn_t sg_nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, nvmlClockType_t type,
                                                   unsigned *out)
{
    (void)device;
    return clock_most(type, out);
}

nvmlReturn_t sg_nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id,
                                   unsigned *out)
{
    if (id >= NVML_CLOCK_ID_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    return id == NVML_CLOCK_ID_CURRENT ? clock_now(device, type, out) : clock_most(type, out);
}

nvmlReturn_t sg_nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned *count,
                                                   unsigned *clocks)
{
    (void)device;
    return sg_nvml_one(count, clocks, MAX_MEMORY_MHZ);
}

nvmlReturn_t sg_nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned memory,
                                                     unsigned *count, unsigned *clocks)
{
    (void)device;
    if (memory != MAX_MEMORY_MHZ)
        return NVML_ERROR_NOT_FOUND;
    return sg_nvml_one(count, clocks, MAX_SM_MHZ);
}

SG_NVML_GETTER(nvmlDeviceGetPerformanceState, nvmlPstates_t, sg_nvml_get(device, SG_NVML_PSTATE))
SG_NVML_GETTER(nvmlDeviceGetPowerState, nvmlPstates_t, sg_nvml_get(device, SG_NVML_PSTATE))
SG_NVML_GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long,
               sg_nvml_get(device, SG_NVML_THROTTLE))
SG_NVML_GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long,
               sg_nvml_get(device, SG_NVML_THROTTLE))
SG_NVML_GETTER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long,
               nvmlClocksEventReasonAll)
SG_NVML_GETTER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long,
               nvmlClocksEventReasonAll)

/* ---- modes ---- */

SG_NVML_GETTER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, NVML_COMPUTEMODE_DEFAULT)
SG_NVML_GETTER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
SG_NVML_GETTER(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SG_NVML_GETTER(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SG_NVML_GETTER(nvmlDeviceGetAccountingMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
SG_NVML_GETTER(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t,
               NVML_GPU_VIRTUALIZATION_MODE_NONE)
