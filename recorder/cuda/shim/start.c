/* The engine: opened at the first hooked call of a process that runs under twinbit. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "recorder/cuda/shim/shim_internal.h"
#include "recorder/recorder.h"

#define ENGINE "../libtwinbit_cuda.so"
#define WAIT_MS 100
#define WAITS 100 /* a collector answers within that, or it is not there */

/* `shim` is written by the one thread that starts, before the state says so. */
uint32_t tb_shim_state;
static struct {
    pthread_t starter;
    struct tb_cuda_engine engine;
} shim;

static const struct tb_cuda_front front = {.name = "shim", .symbol = tb_shim_symbol};

static void *open_engine(void)
{
    char path[PATH_MAX];
    Dl_info own;
    const char *slash;

    if (!dladdr((const void *)(uintptr_t)open_engine, &own) || !own.dli_fname)
        return NULL;
    slash = strrchr(own.dli_fname, '/');
    size_t n = slash ? (size_t)(slash - own.dli_fname) + 1 : 0;
    if (n + sizeof(ENGINE) > sizeof(path))
        return NULL;
    memcpy(path, own.dli_fname, n);
    memcpy(path + n, ENGINE, sizeof(ENGINE));
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* The library that was preloaded says so, or leaves a note if it has no descriptor either. */
static void say_no_engine(void)
{
    const struct tb_rec_api *(*runtime)(void) = NULL;
    const struct tb_rec_api *api = NULL;
    struct tb_rec_thread *t;

    *(void **)&runtime = dlsym(RTLD_DEFAULT, "twinbit_runtime");
    if (runtime)
        api = runtime();
    if (api && api->version == TB_REC_API_VERSION && (t = api->self()) != NULL)
        api->cover(t, 1, TB_REC_NO_SEQ, "process", "libcuda",
                   "the recorder's library could not be opened in it: no descriptor is left "
                   "(RLIMIT_NOFILE), or its file cannot be read",
                   1);
}

static uint32_t attach(void)
{
    twinbit_cuda_attach_fn ask = NULL;
    void *handle = getenv(TB_WIRE_ENV) ? open_engine() : NULL;

    if (handle)
        *(void **)&ask = dlsym(handle, "twinbit_cuda_attach");
    if (!ask) {
        if (getenv(TB_WIRE_ENV))
            say_no_engine();
        (void)dlerror();
        return TB_SHIM_OFF;
    }
    shim.engine.size = sizeof(shim.engine);
    switch (ask(&front, &shim.engine)) {
    case TB_CUDA_SEE:
        return TB_SHIM_SEE;
    case TB_CUDA_LEGAL:
        return TB_SHIM_LEGAL;
    default:
        return TB_SHIM_OFF;
    }
}

static void wait_for_start(void)
{
    struct timespec t = {.tv_nsec = WAIT_MS * 1000000L};

    for (int i = 0;
         i < WAITS && __atomic_load_n(&tb_shim_state, __ATOMIC_ACQUIRE) == TB_SHIM_STARTING; i++)
        (void)syscall(SYS_futex, &tb_shim_state, FUTEX_WAIT_PRIVATE, TB_SHIM_STARTING, &t, NULL, 0);
}

/*
 * One thread starts. Another one waits, so that no call of it is missed, but not for ever: it may
 * hold the dynamic linker's lock, which the first one needs. A call that the start itself makes, or
 * a child that was forked meanwhile, goes on unseen.
 */
static uint32_t start(void)
{
    uint32_t idle = TB_SHIM_NEW;
    int saved = errno;

    if (__atomic_compare_exchange_n(&tb_shim_state, &idle, TB_SHIM_STARTING, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&shim.starter, pthread_self(), __ATOMIC_RELEASE);
        __atomic_store_n(&tb_shim_state, attach(), __ATOMIC_RELEASE);
        (void)syscall(SYS_futex, &tb_shim_state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    } else if (!pthread_equal(__atomic_load_n(&shim.starter, __ATOMIC_ACQUIRE), pthread_self())) {
        wait_for_start();
    }
    errno = saved;
    return __atomic_load_n(&tb_shim_state, __ATOMIC_ACQUIRE);
}

bool tb_shim_enter(struct tb_cuda_call *call)
{
    uint32_t state = __atomic_load_n(&tb_shim_state, __ATOMIC_ACQUIRE);

    if (__builtin_expect(state <= TB_SHIM_STARTING, 0))
        state = start();
    if (state != TB_SHIM_SEE)
        return false;
    shim.engine.enter(call);
    return true;
}

void tb_shim_exit(struct tb_cuda_call *call, bool told)
{
    if (told) /* each of these is legal: nothing ever waits */
        shim.engine.exit(call);
    else if (__atomic_load_n(&tb_shim_state, __ATOMIC_ACQUIRE) == TB_SHIM_LEGAL)
        shim.engine.legal();
}

void tb_shim_unknown(const char *name)
{
    if (__atomic_load_n(&tb_shim_state, __ATOMIC_ACQUIRE) == TB_SHIM_SEE)
        shim.engine.unknown(0, name);
}
