/* Error numbers, their names and texts, the thread's last error, and the log. */
#include "softgpu/runtime/runtime.h"

#include <stdarg.h>
#include <stdlib.h>

#include "softgpu/log/log.h"
#include "softgpu/runtime/api_gen.h"
#include "softgpu/runtime/hooks.h"

cudaError_t sg_rt_error(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return cudaSuccess;
    return sg_rt_error_name((int)result) != NULL ? (cudaError_t)(int)result : cudaErrorUnknown;
}

/* What leaves the context unusable: every later call fails with it, and it cannot be cleared. */
static bool is_sticky(cudaError_t err)
{
    switch (err) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
        return true;
    default:
        return false;
    }
}

static bool keeps(const struct sg_rt_tls *tls)
{
    return is_sticky(tls->last) && tls->last_resets == sg_rt_resets();
}

cudaError_t sg_rt_failed(cudaError_t err)
{
    struct sg_rt_tls *tls = sg_rt_tls();

    if (!keeps(tls)) {
        tls->last = err;
        tls->last_resets = sg_rt_resets();
    }
    return err;
}

cudaError_t sg_cudaGetLastError(void)
{
    struct sg_rt_tls *tls = sg_rt_tls();
    cudaError_t err = tls->last;

    if (!keeps(tls))
        tls->last = cudaSuccess;
    return err;
}

cudaError_t sg_cudaPeekAtLastError(void)
{
    return sg_rt_tls()->last;
}

const char *sg_cudaGetErrorName(cudaError_t error)
{
    const char *name = sg_rt_error_name((int)error);

    return name != NULL ? name : "unrecognized error code";
}

/* Texts of what only the runtime returns; those that the driver has too are the driver's. */
static const struct {
    int value;
    const char *text;
} texts[] = {
    {cudaErrorInvalidConfiguration, "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "invalid device symbol"},
    {cudaErrorInvalidHostPointer, "invalid host pointer"},
    {cudaErrorInvalidDevicePointer, "invalid device pointer"},
    {cudaErrorInvalidTexture, "invalid texture reference"},
    {cudaErrorInvalidTextureBinding, "texture is not bound to a pointer"},
    {cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"},
    {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
    {cudaErrorInvalidSurface, "invalid surface reference"},
    {cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDuplicateVariableName, "duplicate global variable looked up by string name"},
    {cudaErrorIncompatibleDriverContext, "incompatible driver context"},
    {cudaErrorMissingConfiguration, "__global__ function call is not configured"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
    {cudaErrorStartupFailure, "startup failure in CUDA runtime"},
};

const char *sg_cudaGetErrorString(cudaError_t error)
{
    const char *text = NULL;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].value == (int)error)
            return texts[i].text;
    if (sg_rt_error_name((int)error) == NULL)
        return "unrecognized error code";
    if (cuGetErrorString((CUresult)(int)error, &text) != CUDA_SUCCESS || text == NULL)
        return sg_rt_error_name((int)error);
    return text;
}

void sg_rt_log(int level, const char *fmt, ...)
{
    const char *wanted = getenv("SOFTGPU_LOG");
    va_list args;

    if (level > (wanted != NULL && *wanted != '\0' ? atoi(wanted) : 1))
        return;
    va_start(args, fmt);
    sg_log_line(fmt, args);
    va_end(args);
}

cudaError_t sg_rt_unsupported(const char *name)
{
    if (sg_log_first(name))
        sg_rt_log(1, "%s is not supported", name);
    return cudaErrorNotSupported;
}
