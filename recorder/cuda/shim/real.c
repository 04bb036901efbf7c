/* The driver behind the shim: finding it, and the addresses of its functions. */
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "recorder/cuda/find.h"
#include "recorder/cuda/shim/shim_internal.h"

#define ADDRESSES 2048u /* a power of two, about three times the functions */

/*
 * The only state of this file. Whoever comes first fills it, and whoever comes meanwhile fills it
 * too, with the same values: nobody waits. `looked` is written last.
 */
static struct {
    void *handle;                   /* the real driver's, never closed */
    bool looked;                    /* for it, in vain or not */
    uint16_t by_address[ADDRESSES]; /* index + 1 of the function at that address, hashed */
} real;

extern const char own_begin[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char own_end[] __asm__("_end") __attribute__((visibility("hidden")));

static CUresult missing(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult no_driver(void)
{
    return CUDA_ERROR_NO_DEVICE;
}

static bool is_ours(const void *address)
{
    return (const char *)address >= own_begin && (const char *)address < own_end;
}

/* dlsym() whose failure leaves no text for the job's own dlerror(). */
static void *symbol_of(void *handle, const char *name)
{
    void *f = dlsym(handle, name);

    if (!f)
        (void)dlerror();
    return f && !is_ours(f) ? f : NULL;
}

/* Another shim of ours is none, and no library without cuInit is. */
static bool open_driver(void *arg, const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!handle) {
        (void)dlerror();
        return false;
    }
    if (!symbol_of(handle, "cuInit") || symbol_of(handle, "twinbit_shim_symbol")) {
        (void)dlclose(handle);
        return false;
    }
    *(void **)arg = handle;
    return true;
}

static void *driver(void)
{
    void *handle = NULL;

    if (__atomic_load_n(&real.looked, __ATOMIC_ACQUIRE))
        return __atomic_load_n(&real.handle, __ATOMIC_RELAXED);
    (void)tb_cuda_drivers(open_driver, &handle);
    if (handle)
        __atomic_store_n(&real.handle, handle, __ATOMIC_RELEASE);
    __atomic_store_n(&real.looked, true, __ATOMIC_RELEASE);
    return handle;
}

static unsigned place_of(const void *address)
{
    uint64_t h = (uint64_t)(uintptr_t)address * 0x9E3779B97F4A7C15ull;

    return (unsigned)(h >> 53) & (ADDRESSES - 1);
}

/* Two names of one function: the first stays, by name it is the older one. */
static void remember(const void *address, unsigned index)
{
    unsigned at = place_of(address);

    for (unsigned i = 0; i < ADDRESSES; i++, at = (at + 1) & (ADDRESSES - 1)) {
        uint16_t seen = __atomic_load_n(&real.by_address[at], __ATOMIC_RELAXED);

        if (seen && __atomic_load_n(&tb_shim_real[seen - 1], __ATOMIC_RELAXED) == address)
            return;
        if (!seen && __atomic_compare_exchange_n(&real.by_address[at], &seen, (uint16_t)(index + 1),
                                                 false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
    }
}

int tb_shim_by_address(const void *address)
{
    unsigned at = place_of(address);

    for (unsigned i = 0; i < ADDRESSES; i++, at = (at + 1) & (ADDRESSES - 1)) {
        uint16_t seen = __atomic_load_n(&real.by_address[at], __ATOMIC_ACQUIRE);

        if (!seen)
            return -1;
        if (__atomic_load_n(&tb_shim_real[seen - 1], __ATOMIC_RELAXED) == address)
            return seen - 1;
    }
    return -1;
}

static void *stand_in(bool there)
{
    return there ? (void *)(uintptr_t)missing : (void *)(uintptr_t)no_driver;
}

static bool is_stand_in(const void *f)
{
    return f == stand_in(true) || f == stand_in(false);
}

__attribute__((used)) void *tb_shim_resolve(unsigned index)
{
    int saved = errno;
    void *handle = driver();

    for (unsigned i = 0; i < tb_shim_count; i++) {
        void *f = handle ? symbol_of(handle, tb_shim_names[i].name) : NULL, *none = NULL;

        (void)__atomic_compare_exchange_n(&tb_shim_real[i], &none, f ? f : stand_in(handle != NULL),
                                          false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        if (f)
            remember(f, i);
    }
    errno = saved;
    return __atomic_load_n(&tb_shim_real[index], __ATOMIC_RELAXED);
}

void tb_shim_learn(unsigned index, void *address)
{
    if (is_stand_in(tb_shim_function(index)))
        __atomic_store_n(&tb_shim_real[index], address, __ATOMIC_RELAXED);
}

int tb_shim_find(const char *name)
{
    unsigned lo = 0, hi = tb_shim_count;

    while (lo < hi) {
        unsigned mid = lo + (hi - lo) / 2;
        int order = strcmp(tb_shim_names[mid].name, name);

        if (order == 0)
            return (int)mid;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

void *tb_shim_symbol(const char *name)
{
    int index = tb_shim_find(name), saved = errno;
    void *f;

    if (index < 0) {
        void *handle = driver();
        f = handle ? symbol_of(handle, name) : NULL;
    } else {
        f = tb_shim_function((unsigned)index);
    }
    errno = saved;
    return is_stand_in(f) ? NULL : f;
}

/* For the other front end of this process, which must not reach the shim. */
TB_SHIM_EXPORT void *twinbit_shim_symbol(const char *name);
TB_SHIM_EXPORT void *twinbit_shim_symbol(const char *name)
{
    return tb_shim_symbol(name);
}
