/*
 * A driver that knows little: what the shim makes of one that lacks functions, that hands out
 * others than it exports, and that is newer than the headers.
 */
#include <cuda.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#undef cuGetProcAddress

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags);
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status);
CUresult cuMemFree_v2(CUdeviceptr p);

EXPORT CUresult cuInit(unsigned int flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr p)
{
    return p == 17 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Is not exported. */
static CUresult mem_alloc(CUdeviceptr *p, size_t bytes)
{
    *p = bytes + 1;
    return CUDA_SUCCESS;
}

static CUresult future(void)
{
    return (CUresult)4711;
}

static const struct {
    const char *name;
    int from, to;
    void *function;
} known[] = {
    {"cuMemAlloc", 3020, 12999, (void *)(uintptr_t)mem_alloc},
    {"cuMemAlloc", 99000, 99999, (void *)(uintptr_t)future}, /* another form */
    {"cuMemFree", 3020, 99999, (void *)(uintptr_t)cuMemFree_v2},
    {"cuFuture", 99000, 99999, (void *)(uintptr_t)future},
};

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
    (void)flags;
    *pfn = NULL;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, symbol) == 0 && version >= known[i].from &&
            version <= known[i].to)
            *pfn = known[i].function;
    if (status)
        *status = *pfn ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}
