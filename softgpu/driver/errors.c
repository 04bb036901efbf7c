#include "softgpu/driver/errors.h"

#include "softgpu/driver/driver.h"

/* What a user reads. Values that are not here get their name. Values, not names: headers of CUDA 12
 * lack some. */
static const struct sg_error_name texts[] = {
    {0, "no error"},
    {1, "invalid argument"},
    {2, "out of memory"},
    {3, "initialization error"},
    {4, "driver shutting down"},
    {34, "the library is a stub"},
    {36, "the call needs a newer driver"},
    {46, "the device is busy or unavailable"},
    {100, "no CUDA-capable device is detected"},
    {101, "invalid device ordinal"},
    {200, "device kernel image is invalid"},
    {201, "invalid device context"},
    {202, "the context is already current"},
    {205, "mapping failed"},
    {206, "unmapping failed"},
    {208, "already mapped"},
    {209, "no kernel image is available for execution on the device"},
    {211, "not mapped"},
    {215, "the limit is not supported on this device"},
    {216, "the context is already in use by another thread"},
    {217, "peer access is not supported between these two devices"},
    {218, "a PTX JIT compilation failed"},
    {221, "PTX JIT compiler library not found"},
    {222, "the provided PTX is newer than this driver knows"},
    {223, "PTX JIT compilation was disabled"},
    {224, "the execution affinity is not supported"},
    {300, "device kernel source is invalid"},
    {301, "file not found"},
    {302, "a shared object's symbol was not found"},
    {303, "initialization of a shared object failed"},
    {304, "an operating system call failed"},
    {400, "invalid resource handle"},
    {401, "the operation cannot be performed in the present state"},
    {402, "the query would lose information"},
    {500, "named symbol not found"},
    {600, "device not ready"},
    {700, "an illegal memory access was encountered"},
    {701, "too many resources requested for launch"},
    {702, "the launch timed out and was terminated"},
    {704, "peer access is already enabled"},
    {705, "peer access has not been enabled"},
    {708, "the primary context is already active"},
    {709, "context is destroyed"},
    {710, "device-side assert triggered"},
    {711, "peer mapping resources exhausted"},
    {712, "part or all of the requested memory range is already mapped"},
    {713, "pointer does not correspond to a registered memory region"},
    {714, "hardware stack error"},
    {715, "an illegal instruction was encountered"},
    {716, "misaligned address"},
    {717, "operation not supported on this address space"},
    {718, "invalid program counter"},
    {719, "unspecified launch failure"},
    {720, "too many blocks in cooperative launch"},
    {800, "operation not permitted"},
    {801, "operation not supported"},
    {802, "system not yet initialized"},
    {900, "operation not permitted when stream is capturing"},
    {901, "operation failed due to a previous error during capture"},
    {902, "operation would result in a merge of separate capture sequences"},
    {903, "capture was not ended in the same stream as it began"},
    {904, "capturing stream has unjoined work"},
    {905, "dependency created on uncaptured work in another stream"},
    {906, "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "operation not permitted on an event last recorded in a capturing stream"},
    {908, "attempt to terminate a thread-local capture sequence from another thread"},
    {909, "wait operation timed out"},
    {910, "the graph update was not performed: it violates the constraints of an update"},
    {912, "misconfigured cluster"},
    {913, "the function is not loaded"},
    {914, "the resource is of the wrong type"},
    {915, "the resources do not fit the operation"},
    {999, "unknown error"},
};

static const char *find(const struct sg_error_name *table, unsigned n, int value)
{
    for (unsigned i = 0; i < n; i++)
        if (table[i].value == value)
            return table[i].name;
    return NULL;
}

CUresult sg_cuGetErrorName(CUresult error, const char **out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = find(sg_error_names, sg_error_names_count, (int)error);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_cuGetErrorString(CUresult error, const char **out)
{
    CUresult r = sg_cuGetErrorName(error, out);

    if (r == CUDA_SUCCESS) {
        const char *text = find(texts, TB_ARRAY_LEN(texts), (int)error);

        if (text)
            *out = text;
    }
    return r;
}
