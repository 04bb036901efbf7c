/* What can be asked: version, names, ids, time. */
#include "softgpu/cupti/cupti_internal.h"

#include "softgpu/cupti/api_gen.h"
#include "softgpu/cupti/names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

CUptiResult sg_cuptiGetVersion(uint32_t *version)
{
    if (!version)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiGetTimestamp(uint64_t *timestamp)
{
    if (!timestamp)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *timestamp = sg_cupti_now();
    return CUPTI_SUCCESS;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const struct sg_cupti_result_name *find_result(CUptiResult result)
{
    for (uint32_t i = 0; i < sg_cupti_results_count; i++)
        if (sg_cupti_results[i].value == (int)result)
            return &sg_cupti_results[i];
    return NULL;
}

CUptiResult sg_cuptiGetResultString(CUptiResult result, const char **str)
{
    const struct sg_cupti_result_name *found = find_result(result);

    if (!str || !found)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *str = found->name;
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiGetErrorMessage(CUptiResult result, const char **str)
{
    const struct sg_cupti_result_name *found = find_result(result);

    if (!str || !found)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *str = found->text;
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char **name)
{
    const char *const *names = NULL;
    uint32_t n = 0;

    if (!name)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *name = NULL;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
        names = sg_cupti_driver_names;
        n = sg_cupti_driver_names_count;
    } else if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
        names = sg_cupti_runtime_names;
        n = sg_cupti_runtime_names_count;
    }
    if (cbid >= n || !names[cbid])
        return CUPTI_ERROR_INVALID_PARAMETER;
    *name = names[cbid];
    return CUPTI_SUCCESS;
}

/* ---- devices --------------------------------------------------------------------------------- */

CUptiResult sg_cuptiComputeCapabilitySupported(int major, int minor, int *support)
{
    if (sg_cupti_attach() != CUPTI_SUCCESS)
        return CUPTI_ERROR_NOT_INITIALIZED;
    if (!support)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *support = major > 0 && minor >= 0 && minor < 10 &&
               sg_cupti_tools()->arch((uint32_t)(10 * major + minor));
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiDeviceSupported(CUdevice dev, int *support)
{
    if (sg_cupti_attach() != CUPTI_SUCCESS)
        return CUPTI_ERROR_NOT_INITIALIZED;
    if (!support)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (!sg_cupti_tools()->device(dev))
        return CUPTI_ERROR_INVALID_DEVICE;
    *support = 1;
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiDeviceVirtualizationMode(CUdevice dev, CUpti_DeviceVirtualizationMode *mode)
{
    if (sg_cupti_attach() != CUPTI_SUCCESS)
        return CUPTI_ERROR_NOT_INITIALIZED;
    if (!mode)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (!sg_cupti_tools()->device(dev))
        return CUPTI_ERROR_INVALID_DEVICE;
    *mode = CUPTI_DEVICE_VIRTUALIZATION_MODE_NONE;
    return CUPTI_SUCCESS;
}

/* ---- ids ------------------------------------------------------------------------------------- */

CUptiResult sg_cuptiGetContextId(CUcontext context, uint32_t *id)
{
    CUptiResult r = sg_cupti_attach();

    if (r != CUPTI_SUCCESS)
        return CUPTI_ERROR_NOT_INITIALIZED;
    if (!id)
        return CUPTI_ERROR_INVALID_PARAMETER;
    return context && sg_cupti_tools()->context(context, id, NULL) ? CUPTI_SUCCESS
                                                                   : CUPTI_ERROR_INVALID_CONTEXT;
}

CUptiResult sg_cuptiGetDeviceId(CUcontext context, uint32_t *id)
{
    int device;

    if (sg_cupti_attach() != CUPTI_SUCCESS)
        return CUPTI_ERROR_NOT_INITIALIZED;
    if (!id)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (!sg_cupti_tools()->context(context, NULL, &device))
        return CUPTI_ERROR_INVALID_DEVICE;
    *id = (uint32_t)device;
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
                                  uint32_t *id)
{
    if (sg_cupti_attach() != CUPTI_SUCCESS)
        return CUPTI_ERROR_NOT_INITIALIZED;
    if (!id)
        return CUPTI_ERROR_INVALID_PARAMETER;
    return sg_cupti_tools()->stream(context, stream, per_thread, id) ? CUPTI_SUCCESS
                                                                     : CUPTI_ERROR_INVALID_STREAM;
}

CUptiResult sg_cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t *id)
{
    return sg_cuptiGetStreamIdEx(context, stream, 0, id);
}

CUptiResult sg_cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id)
{
    if (sg_cupti_attach() != CUPTI_SUCCESS)
        return CUPTI_ERROR_NOT_INITIALIZED;
    return id && sg_cupti_tools()->node(node, id) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult sg_cuptiGetGraphId(CUgraph graph, uint32_t *id)
{
    if (sg_cupti_attach() != CUPTI_SUCCESS)
        return CUPTI_ERROR_NOT_INITIALIZED;
    return id && sg_cupti_tools()->graph(graph, id) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult sg_cuptiGetGraphExecId(CUgraphExec exec, uint32_t *id)
{
    if (sg_cupti_attach() != CUPTI_SUCCESS)
        return CUPTI_ERROR_NOT_INITIALIZED;
    return id && sg_cupti_tools()->exec(exec, id) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

/* ---- threads --------------------------------------------------------------------------------- */

static _Atomic int thread_id_type = CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;

uint32_t sg_cupti_thread_id(void)
{
    if (atomic_load(&thread_id_type) == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
        return (uint32_t)syscall(SYS_gettid);
    return (uint32_t)(uintptr_t)pthread_self();
}

CUptiResult sg_cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
    if (type != CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT &&
        type != CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
        return CUPTI_ERROR_NOT_SUPPORTED;
    atomic_store(&thread_id_type, (int)type);
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiGetThreadIdType(CUpti_ActivityThreadIdType *type)
{
    if (!type)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *type = (CUpti_ActivityThreadIdType)atomic_load(&thread_id_type);
    return CUPTI_SUCCESS;
}
