/* Where the library meets the driver: who listens, and the numbers of calls. */
#include "softgpu/cupti/cupti_internal.h"

#include "softgpu/cupti/api_gen.h"
#include "softgpu/log/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* The one state: written under @lock but for the counter, read by every call. */
static struct {
    pthread_mutex_t lock;
    _Atomic(const struct softgpu_tools *) tools;
    _Atomic(const struct sg_cupti_listener *) listeners[SG_CUPTI_SLOTS];
    atomic_uint correlation;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- errors and log -------------------------------------------------------------------------- */

static __thread CUptiResult last_error;

CUptiResult sg_cupti_done(CUptiResult r)
{
    if (r != CUPTI_SUCCESS)
        last_error = r;
    return r;
}

CUptiResult sg_cuptiGetLastError(void)
{
    CUptiResult r = last_error;

    last_error = CUPTI_SUCCESS;
    return r;
}

void sg_cupti_log(int level, const char *fmt, ...)
{
    const char *wanted = getenv("SOFTGPU_LOG");
    va_list ap;

    if ((wanted && *wanted ? atoi(wanted) : 1) < level)
        return;
    va_start(ap, fmt);
    sg_log_line(fmt, ap);
    va_end(ap);
}

CUptiResult sg_cupti_unsupported(const char *name)
{
    if (sg_log_first(name))
        sg_cupti_log(1, "%s is not supported", name);
    return CUPTI_ERROR_NOT_SUPPORTED;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What the runtime asks the driver on its own account, several times a call: NVIDIA's runtime keeps
 * that to itself. */
static bool is_housekeeping(uint32_t id)
{
    return id == CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent ||
           id == CUPTI_DRIVER_TRACE_CBID_cuCtxGetDevice;
}

static uint32_t next_correlation(void)
{
    uint32_t id;

    do
        id = atomic_fetch_add_explicit(&state.correlation, 1, memory_order_relaxed) + 1;
    while (id == 0); /* means "none" */
    return id;
}

static void enter(struct sg_call *call, bool runtime)
{
    struct softgpu_thread *t = atomic_load(&state.tools)->thread();
    bool inner = !runtime && t->in_runtime && t->correlation;

    if (call->id >= SG_CALL_NO_ID || (inner && is_housekeeping(call->id)))
        return;
    call->outer = t->correlation;
    call->correlation = inner ? t->correlation : next_correlation();
    t->correlation = call->correlation;
    t->in_runtime += runtime;
    for (int i = 0; i < SG_CUPTI_SLOTS; i++) {
        const struct sg_cupti_listener *l = atomic_load(&state.listeners[i]);

        if (l && l->enter)
            l->enter(call, runtime);
    }
}

static void leave(struct sg_call *call, bool runtime)
{
    struct softgpu_thread *t = atomic_load(&state.tools)->thread();

    if (!call->correlation)
        return;
    for (int i = SG_CUPTI_SLOTS - 1; i >= 0; i--) {
        const struct sg_cupti_listener *l = atomic_load(&state.listeners[i]);

        if (l && l->exit)
            l->exit(call, runtime);
    }
    t->in_runtime -= runtime;
    t->correlation = call->outer;
}

static void driver_enter(void *arg, struct sg_call *call)
{
    (void)arg;
    enter(call, false);
}

static void driver_exit(void *arg, struct sg_call *call)
{
    (void)arg;
    leave(call, false);
}

static void runtime_enter(void *arg, struct sg_call *call)
{
    (void)arg;
    enter(call, true);
}

static void runtime_exit(void *arg, struct sg_call *call)
{
    (void)arg;
    leave(call, true);
}

static void notice(void *arg, const struct sg_notice *n)
{
    (void)arg;
    for (int i = 0; i < SG_CUPTI_SLOTS; i++) {
        const struct sg_cupti_listener *l = atomic_load(&state.listeners[i]);

        if (l && l->notice)
            l->notice(n);
    }
}

static const struct softgpu_call_hooks runtime_hooks = {.enter = runtime_enter,
                                                        .exit = runtime_exit};
static const struct softgpu_hooks driver_hooks = {
    .enter = driver_enter, .exit = driver_exit, .notice = notice, .runtime = &runtime_hooks};

/* ---- attaching ------------------------------------------------------------------------------- */

static void lock(void)
{
    pthread_mutex_lock(&state.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&state.lock);
}

const struct softgpu_tools *sg_cupti_tools(void)
{
    return atomic_load(&state.tools);
}

/* Under the lock. A driver of NVIDIA has no such table. */
static const struct softgpu_tools *find_tools(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    union {
        void *symbol;
        CUresult (*function)(const void **table, const CUuuid *id);
    } find = {driver ? dlsym(driver, "cuGetExportTable") : NULL};
    const struct softgpu_tools *tools = find.symbol ? softgpu_find_tools(find.function) : NULL;

    if (tools)
        return tools; /* it stays loaded */
    sg_cupti_log(1, "CUPTI finds no driver of softgpu: %s",
                 driver ? "libcuda.so.1 is another one" : dlerror());
    if (driver)
        dlclose(driver);
    return NULL;
}

CUptiResult sg_cupti_attach(void)
{
    static bool fork_safe;
    const struct softgpu_tools *tools = atomic_load(&state.tools);

    if (tools)
        return CUPTI_SUCCESS;
    lock();
    tools = atomic_load(&state.tools);
    if (!tools && (tools = find_tools()))
        atomic_store(&state.tools, tools);
    if (tools && !fork_safe)
        fork_safe = pthread_atfork(lock, unlock, unlock) == 0;
    unlock();
    return tools ? CUPTI_SUCCESS : CUPTI_ERROR_UNKNOWN;
}

void sg_cupti_listen(enum sg_cupti_slot slot, const struct sg_cupti_listener *listener)
{
    const struct softgpu_tools *tools = sg_cupti_tools();
    bool any = false;

    lock();
    atomic_store(&state.listeners[slot], listener);
    for (int i = 0; i < SG_CUPTI_SLOTS; i++)
        any |= atomic_load(&state.listeners[i]) != NULL;
    if (tools)
        tools->set_hooks(any ? &driver_hooks : NULL);
    unlock();
}
