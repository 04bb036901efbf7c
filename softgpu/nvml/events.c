/* Event sets. The one event there can be is the critical Xid that SOFTGPU_NVML has: each set that
 * registered for it gets it once a device; waiting for anything else ends with the time. */
#include "softgpu/nvml/library.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define SUPPORTED                                                                                  \
    (nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError |                             \
     nvmlEventTypeXidCriticalError)
#define LOOK_MS 50u /* how often SOFTGPU_NVML=@FILE is read while somebody waits */

struct nvmlEventSet_st {
    pthread_mutex_t lock;
    unsigned long long types[SG_MAX_DEVICES]; /* registered, by device */
    uint64_t delivered[SG_MAX_DEVICES];       /* the Xid that this set has had */
};

nvmlReturn_t sg_nvmlEventSetCreate(nvmlEventSet_t *set)
{
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    *set = calloc(1, sizeof(**set));
    if (!*set)
        return NVML_ERROR_MEMORY;
    pthread_mutex_init(&(*set)->lock, NULL);
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlEventSetFree(nvmlEventSet_t set)
{
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_destroy(&set->lock);
    free(set);
    return NVML_SUCCESS;
}

SG_NVML_GETTER(nvmlDeviceGetSupportedEventTypes, unsigned long long, SUPPORTED)

nvmlReturn_t sg_nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                         nvmlEventSet_t set)
{
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (types & ~(unsigned long long)SUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&set->lock);
    set->types[device->physical] |= types;
    pthread_mutex_unlock(&set->lock);
    return NVML_SUCCESS;
}

/* An event that @set has not had yet. */
static bool take(nvmlEventSet_t set, nvmlEventData_t *data)
{
    bool found = false;

    pthread_mutex_lock(&set->lock);
    for (unsigned i = 0; i < sg_nvml_options()->devices && !found; i++) {
        uint64_t xid = sg_nvml_get(&sg_nvml_devices[i], SG_NVML_XID);

        found = (set->types[i] & nvmlEventTypeXidCriticalError) && xid && set->delivered[i] != xid;
        if (found) {
            set->delivered[i] = xid;
            *data = (nvmlEventData_t){.device = &sg_nvml_devices[i],
                                      .eventType = nvmlEventTypeXidCriticalError,
                                      .eventData = xid,
                                      .gpuInstanceId = UINT32_MAX,
                                      .computeInstanceId = UINT32_MAX};
        }
    }
    pthread_mutex_unlock(&set->lock);
    return found;
}

nvmlReturn_t sg_nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    if (!set || !data)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (;;) {
        unsigned ms = timeout_ms < LOOK_MS ? timeout_ms : LOOK_MS;
        struct timespec t = {.tv_nsec = (long)ms * 1000000};

        if (take(set, data))
            return NVML_SUCCESS;
        if (!timeout_ms)
            return NVML_ERROR_TIMEOUT;
        nanosleep(&t, NULL);
        timeout_ms -= ms;
    }
}

nvmlReturn_t sg_nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms)
{
    return sg_nvmlEventSetWait_v2(set, data, timeout_ms);
}
