#include "softgpu/driver/proc.h"

#include "softgpu/driver/driver.h"

#include <string.h>

/* The first row of @base, or sg_procs_count. */
static unsigned first_of(const char *base)
{
    unsigned lo = 0, hi = sg_procs_count;

    while (lo < hi) {
        unsigned mid = lo + (hi - lo) / 2;

        if (strcmp(sg_procs[mid].base, base) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < sg_procs_count && strcmp(sg_procs[lo].base, base) == 0 ? lo : sg_procs_count;
}

/* The newest form of @symbol that @version has; NULL and @status say why not. */
static void *find(const char *symbol, int version, bool per_thread,
                  CUdriverProcAddressQueryResult *status)
{
    void *legacy = NULL, *ptds = NULL;
    unsigned first = first_of(symbol);

    for (unsigned i = first; i < sg_procs_count && !strcmp(sg_procs[i].base, symbol); i++) {
        if (sg_procs[i].version > version)
            continue;
        if (sg_procs[i].per_thread)
            ptds = sg_procs[i].function;
        else
            legacy = sg_procs[i].function;
    }
    if (per_thread && ptds)
        legacy = ptds;
    if (legacy)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    else
        *status = first < sg_procs_count ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                         : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return legacy;
}

CUresult sg_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                CUdriverProcAddressQueryResult *status)
{
    CUdriverProcAddressQueryResult unused;
    const cuuint64_t known =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

    if (!symbol || !pfn || (flags & ~known) || flags == known || version > CUDA_VERSION ||
        version < 0)
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = find(symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                status ? status : &unused);
    if (!*pfn)
        sg_log(2, "cuGetProcAddress: no '%s' of version %d", symbol, version);
    return CUDA_SUCCESS;
}

/* The form of CUDA 11 has no status: it returns an error, as its manual said. */
CUresult sg_cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    CUresult r = sg_cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);

    return r == CUDA_SUCCESS && !*pfn ? CUDA_ERROR_NOT_FOUND : r;
}
