/*
 * cuGetProcAddress: the real driver answers, and what it hands out is replaced by our form of the
 * same function where we have one.
 *
 * Which function it handed out is told by its address, if that is one of its exports. Else by name,
 * version and flags, as long as the headers that this was built from know that version: a later one
 * may mean a form with other parameters. Such a function is handed out as it is.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <errno.h>
#include <string.h>

#include "recorder/cuda/shim/shim_internal.h"

#define UNKNOWN_MAX 64

static unsigned first_of(const char *base)
{
    unsigned lo = 0, hi = tb_shim_procs_count;

    while (lo < hi) {
        unsigned mid = lo + (hi - lo) / 2;

        if (strcmp(tb_shim_procs[mid].base, base) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool is_row_of(unsigned row, const char *base)
{
    return row < tb_shim_procs_count && strcmp(tb_shim_procs[row].base, base) == 0;
}

/* The newest form that @version has, -1: none. */
static int by_version(const char *base, int version, bool per_thread)
{
    int legacy = -1, ptds = -1;

    for (unsigned i = first_of(base); is_row_of(i, base); i++) {
        if (tb_shim_procs[i].version > version)
            continue;
        if (tb_shim_procs[i].per_thread)
            ptds = (int)tb_shim_procs[i].index;
        else
            legacy = (int)tb_shim_procs[i].index;
    }
    return per_thread && ptds >= 0 ? ptds : legacy;
}

/* Once a name; beyond UNKNOWN_MAX names none is told twice, but none is told any more. */
static void unknown(const char *name)
{
    static uint32_t told[UNKNOWN_MAX];
    uint32_t hash = 2166136261u;

    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    hash += hash == 0;
    for (unsigned i = 0; i < UNKNOWN_MAX; i++) {
        uint32_t seen = 0;

        if (__atomic_compare_exchange_n(&told[i], &seen, hash, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            tb_shim_unknown(name);
            return;
        }
        if (seen == hash)
            return;
    }
}

/* What the job gets for @real, which the driver has given for @symbol. */
static void *ours(const char *symbol, void *real, int version, cuuint64_t flags)
{
    int index = by_version(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    bool known = version <= CUDA_VERSION && index >= 0;

    if (index < 0 || tb_shim_function((unsigned)index) != real) {
        int at = tb_shim_by_address(real);

        if (at < 0 && !known) {
            unknown(symbol);
            return real;
        }
        if (at >= 0)
            index = at;
        else
            tb_shim_learn((unsigned)index, real);
    }
    void *own = tb_shim_names[index].own;
    return own ? own : real;
}

typedef CUresult (*v1_fn)(const char *symbol, void **pfn, int version, cuuint64_t flags);
typedef CUresult (*v2_fn)(const char *symbol, void **pfn, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status);

static void *real_function(const char *name)
{
    int index = tb_shim_find(name);

    return tb_shim_function((unsigned)index);
}

#undef cuGetProcAddress
#undef cuGetProcAddress_v2

TB_SHIM_EXPORT CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version,
                                                 cuuint64_t flags)
{
    v1_fn f = (v1_fn)(uintptr_t)real_function("cuGetProcAddress");
    CUresult r = f(symbol, pfn, version, flags);
    int saved = errno;

    if (r == CUDA_SUCCESS && symbol && pfn && *pfn)
        *pfn = ours(symbol, *pfn, version, flags);
    errno = saved;
    return r;
}

TB_SHIM_EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
                                                    cuuint64_t flags,
                                                    CUdriverProcAddressQueryResult *status)
{
    v2_fn f = (v2_fn)(uintptr_t)real_function("cuGetProcAddress_v2");
    CUresult r = f(symbol, pfn, version, flags, status);
    int saved = errno;

    if (r == CUDA_SUCCESS && symbol && pfn && *pfn)
        *pfn = ours(symbol, *pfn, version, flags);
    errno = saved;
    return r;
}
