/* cuInit and the one global state. */
#include "softgpu/driver/broken.h"
#include "softgpu/driver/core.h"
#include "softgpu/driver/hooks.h"
#include "softgpu/driver/strict.h"
#include "softgpu/driver/usage.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Written under its lock, fields that say otherwise excepted; made by the first cuInit and kept
 * until the process ends. */
struct sg_driver sg_driver = {.lock = PTHREAD_MUTEX_INITIALIZER, .opt = {.log = 1}};

enum { NOT_STARTED = 0, STARTED = 1, FORKED = -1 };

/* Found through a pointer of the initial-exec model: no call to find thread-local storage. */
static _Thread_local struct sg_tls tls_block;
static _Thread_local struct sg_tls *tls __attribute__((tls_model("initial-exec")));

struct sg_tls *sg_tls(void)
{
    if (__builtin_expect(!tls, 0))
        tls = &tls_block;
    return tls;
}

CUresult sg_ready(void)
{
    int state = atomic_load_explicit(&sg_driver.initialized, memory_order_acquire);

    return __builtin_expect(state == STARTED, 1) ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

/* A forked child shares mappings and has none of the threads: it gets no device. */
static void forked(void)
{
    if (atomic_load(&sg_driver.initialized) == STARTED)
        atomic_store(&sg_driver.initialized, FORKED);
}

static void init_device(struct sg_device *dev, int ordinal, int physical)
{
    const struct sg_options *opt = &sg_driver.opt;

    dev->ordinal = ordinal;
    dev->physical = physical;
    dev->arch = opt->arch;
    dev->sms = opt->sms;
    dev->sms_reported = opt->sms_reported;
    dev->memory = opt->memory;
    dev->bit = (uint8_t)(1u << ordinal);
    sg_device_name(opt, dev->name);
    sg_device_uuid(physical, &dev->uuid);
}

static CUresult make_machine(void)
{
    struct sg_machine_options options = {.workers = sg_driver.opt.workers};
    struct tb_error err = {0};

    if ((!sg_driver.mem && sg_mem_new(&sg_driver.mem, &err) != TB_OK) ||
        (!sg_driver.machine &&
         sg_machine_new(&options, sg_driver.mem, &sg_driver.machine, &err) != TB_OK)) {
        sg_log(1, "cannot start: %s", err.text);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static CUresult make_primary_contexts(void)
{
    for (int i = 0; i < sg_driver.ndevices; i++) {
        struct sg_device *dev = &sg_driver.devices[i];
        CUresult r = dev->primary ? CUDA_SUCCESS : sg_context_new(dev, 0, &dev->primary);

        if (r != CUDA_SUCCESS)
            return r;
        dev->primary->is_primary = true;
    }
    return CUDA_SUCCESS;
}

/* Under init_lock. */
static CUresult start(void)
{
    int physical[SG_MAX_DEVICES];
    struct tb_error err = {0};
    CUresult r;

    if (sg_options_read(&sg_driver.opt, &err) != TB_OK) {
        sg_log(1, "%s: no device is there", err.text);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_report_open();
    sg_driver.ndevices = sg_visible_devices((int)sg_driver.opt.devices, physical);
    if (sg_driver.ndevices == 0)
        return CUDA_ERROR_NO_DEVICE;
    for (int i = 0; i < sg_driver.ndevices; i++)
        init_device(&sg_driver.devices[i], i, physical[i]);
    if ((r = make_machine()) != CUDA_SUCCESS || (r = make_primary_contexts()) != CUDA_SUCCESS ||
        (r = sg_memory_init()) != CUDA_SUCCESS || (r = sg_engine_init()) != CUDA_SUCCESS)
        return r;
    sg_usage_init();
    if (sg_strict()) {
        sg_mem_quarantine(sg_driver.mem, sg_driver.mem->span / 4);
        if ((r = sg_strict_init()) != CUDA_SUCCESS)
            return r;
    }
    if ((r = sg_broken_start()) != CUDA_SUCCESS)
        return r;
    sg_hooks_init();
    if (pthread_atfork(NULL, NULL, forked) != 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    return CUDA_SUCCESS;
}

/* After the program's own exit functions and those of libraries that use this one. */
__attribute__((destructor)) static void finish(void)
{
    if (sg_strict())
        sg_strict_end();
    sg_broken_finish();
}

/* Documented by CUPTI: the library named here is told when CUDA starts. */
static void inject(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *lib = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    union {
        void *symbol;
        int (*function)(void);
    } entry = {lib ? dlsym(lib, "InitializeInjection") : NULL};
    struct softgpu_thread *tool = &sg_tls()->tool, before = *tool;

    memset(tool, 0, sizeof(*tool)); /* calls it makes are no part of this one */
    if (path && *path && !entry.symbol) {
        const char *why = dlerror();

        sg_log(1, "cannot inject '%s': %s", path, why ? why : "no InitializeInjection in it");
    } else if (entry.symbol && entry.function() != 1) {
        sg_log(2, "'%s': InitializeInjection reported a failure", path);
    }
    *tool = before;
}

/*
 * The driver counts as started while the library is told, which may call it. Another thread's
 * cuInit must not return before that: its first calls would go unseen. `injector` is written under
 * `lock`, before the driver counts as started.
 */
static struct {
    pthread_mutex_t lock; /* held while the library is told */
    pthread_t injector;
    atomic_bool done;
} injection = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void begin_injection(void)
{
    pthread_mutex_lock(&injection.lock);
    injection.injector = pthread_self();
}

static void end_injection(void)
{
    inject();
    atomic_store(&injection.done, true);
    pthread_mutex_unlock(&injection.lock);
}

static CUresult wait_for_injection(void)
{
    if (!atomic_load(&injection.done) && !pthread_equal(injection.injector, pthread_self())) {
        pthread_mutex_lock(&injection.lock);
        pthread_mutex_unlock(&injection.lock);
    }
    return CUDA_SUCCESS;
}

CUresult sg_cuInit(unsigned int flags)
{
    static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
    CUresult r = CUDA_SUCCESS;
    bool first = false;

    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&sg_driver.initialized) == STARTED)
        return wait_for_injection();
    if (atomic_load(&sg_driver.initialized) == FORKED)
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&init_lock);
    if (atomic_load(&sg_driver.initialized) == NOT_STARTED) {
        r = start();
        if (r == CUDA_SUCCESS) {
            begin_injection();
            atomic_store(&sg_driver.initialized, STARTED);
            first = true;
        }
    }
    pthread_mutex_unlock(&init_lock);
    if (first) {
        end_injection();
        SG_TELL(.kind = SG_NOTICE_INIT);
    }
    return r == CUDA_SUCCESS ? wait_for_injection() : r;
}

CUresult sg_cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}
