/* Attributes and switches of the activity API, names that outlive their modules, and what is not
 * simulated. */
#include "softgpu/cupti/act.h"

#include "softgpu/cupti/api_gen.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- names --------------------------------------------------------------------------------------
 * A kernel's name in a record is read after its module may be gone: texts are kept for ever.
 */

struct name {
    struct name *next;
    char text[];
};

#define BUCKETS 1024

static struct { /* written under the lock by whoever records a kernel of a new name */
    pthread_mutex_t lock;
    struct name *buckets[BUCKETS];
} names = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned bucket_of(const char *text)
{
    uint32_t h = 2166136261u;

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h % BUCKETS;
}

const char *sg_act_name(const char *text)
{
    struct name **bucket = &names.buckets[bucket_of(text)], *n;
    size_t len = strlen(text);

    pthread_mutex_lock(&names.lock);
    for (n = *bucket; n && strcmp(n->text, text) != 0; n = n->next)
        ;
    if (!n && (n = malloc(sizeof(*n) + len + 1))) {
        memcpy(n->text, text, len + 1);
        n->next = *bucket;
        *bucket = n;
    }
    pthread_mutex_unlock(&names.lock);
    return n ? n->text : NULL;
}

void sg_act_names_forked(void)
{
    pthread_mutex_init(&names.lock, NULL);
}

/* ---- switches -----------------------------------------------------------------------------------
 */

/* Set by the client's calls, read by whoever records. */
static atomic_bool options[SG_ACT_OPTIONS] = {[SG_ACT_PENDING_QUERIES] = true};

bool sg_act_option(enum sg_act_option option)
{
    return atomic_load_explicit(&options[option], memory_order_relaxed);
}

void sg_act_options_clear(void)
{
    for (int i = 0; i < SG_ACT_OPTIONS; i++)
        atomic_store(&options[i], i == SG_ACT_PENDING_QUERIES);
}

CUptiResult sg_cuptiActivityEnableLatencyTimestamps(uint8_t enable)
{
    atomic_store(&options[SG_ACT_LATENCY], enable);
    return CUPTI_SUCCESS;
}

#if CUPTI_API_VERSION >= 130000
CUptiResult sg_cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable)
{
    atomic_store(&options[SG_ACT_EVENT_TIMESTAMPS], enable);
    return CUPTI_SUCCESS;
}
#endif

CUptiResult sg_cuptiActivityEnableAllSyncRecords(uint8_t enable)
{
    atomic_store(&options[SG_ACT_PENDING_QUERIES], enable);
    return CUPTI_SUCCESS;
}

/* Launch attributes in records are an access policy window, which nothing here has an effect on,
 * and kernels cannot launch graphs: switching off what is not there succeeds. */
CUptiResult sg_cuptiActivityEnableLaunchAttributes(uint8_t enable)
{
    return enable ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
}

CUptiResult sg_cuptiActivityEnableDeviceGraph(uint8_t enable)
{
    return enable ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
}

CUptiResult sg_cuptiActivityEnableHWTrace(uint8_t enable)
{
    return enable ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
}

CUptiResult sg_cuptiActivityEnableAllocationSource(uint8_t enable)
{
    return enable ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
}

CUptiResult
sg_cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig *config,
                                              uint32_t count)
{
    return config && count ? CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult sg_cuptiActivityConfigurePCSampling(CUcontext ctx,
                                                CUpti_ActivityPCSamplingConfig *config)
{
    (void)ctx;
    (void)config;
    return CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED;
}

/* ---- attributes ---------------------------------------------------------------------------------
 * Sizes of buffers on a device, which this one does not need: kept and told, without effect.
 */

enum { ATTR_PER_THREAD = 9, ATTR_DEVICE_GRAPHS = 10 }; /* CUDA 12.3 and 13.0 */

static const struct attribute {
    size_t bytes;
    size_t initial;
} attributes[] = {
    [CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE] = {sizeof(size_t), 3200000},
    [CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP] = {sizeof(size_t), 8388608},
    [CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT] = {sizeof(size_t), 250},
    [CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_SIZE] = {sizeof(size_t), 25000},
    [CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_LIMIT] = {sizeof(size_t), 250},
    [CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER] = {sizeof(uint8_t), 0},
    [CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE] = {sizeof(size_t), 3},
    [CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_PRE_ALLOCATE_VALUE] = {sizeof(size_t), 3},
    [CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED] = {sizeof(uint8_t), 0},
    [ATTR_PER_THREAD] = {sizeof(uint8_t), 1},
    [ATTR_DEVICE_GRAPHS] = {sizeof(size_t), 16777216},
};
#define NATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

static struct { /* under the lock */
    pthread_mutex_t lock;
    size_t value[NATTRIBUTES];
    bool set[NATTRIBUTES];
} chosen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static CUptiResult check(CUpti_ActivityAttribute attr, const size_t *size, const void *value)
{
    if (!size || !value || (size_t)attr >= NATTRIBUTES)
        return CUPTI_ERROR_INVALID_PARAMETER;
    return *size < attributes[attr].bytes ? CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT
                                          : CUPTI_SUCCESS;
}

CUptiResult sg_cuptiActivitySetAttribute(CUpti_ActivityAttribute attr, size_t *size, void *value)
{
    CUptiResult r = check(attr, size, value);
    size_t given = 0;

    if (r != CUPTI_SUCCESS)
        return r;
    memcpy(&given, value, attributes[attr].bytes);
    pthread_mutex_lock(&chosen.lock);
    chosen.value[attr] = given;
    chosen.set[attr] = true;
    pthread_mutex_unlock(&chosen.lock);
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiActivityGetAttribute(CUpti_ActivityAttribute attr, size_t *size, void *value)
{
    CUptiResult r = check(attr, size, value);
    size_t given;

    if (r != CUPTI_SUCCESS)
        return r;
    pthread_mutex_lock(&chosen.lock);
    given = chosen.set[attr] ? chosen.value[attr] : attributes[attr].initial;
    pthread_mutex_unlock(&chosen.lock);
    *size = attributes[attr].bytes;
    memcpy(value, &given, *size);
    return CUPTI_SUCCESS;
}
