/* Which kinds of records are enabled: in all contexts, in one, and of which functions. */
#include "softgpu/cupti/act.h"

#include "softgpu/cupti/api_gen.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum how {
    UNKNOWN = 0, /* not supported */
    RECORDS,
    EMPTY,    /* may be enabled; there is nothing of the kind to tell on this device */
    INDIRECT, /* "cannot be directly enabled" */
    LEGACY,   /* gone with CUDA 13 */
};

#define RECORD(kind, type) [CUPTI_ACTIVITY_KIND_##kind] = {RECORDS, sizeof(type)}
#define OTHER(kind, how) [CUPTI_ACTIVITY_KIND_##kind] = {how, 0}
static const struct {
    enum how how;
    size_t size;
} kinds[] = {
    RECORD(MEMCPY, CUpti_ActivityMemcpy6),
    RECORD(MEMSET, CUpti_ActivityMemset4),
    RECORD(KERNEL, struct sg_act_kernel),
    RECORD(CONCURRENT_KERNEL, struct sg_act_kernel),
    RECORD(DEVICE, struct sg_act_device),
    RECORD(CONTEXT, struct sg_act_context),
    RECORD(STREAM, CUpti_ActivityStream),
    RECORD(DRIVER, CUpti_ActivityAPI),
    RECORD(RUNTIME, CUpti_ActivityAPI),
    RECORD(MEMCPY2, CUpti_ActivityMemcpyPtoP4),
    RECORD(CUDA_EVENT, CUpti_ActivityCudaEvent2),
    RECORD(SYNCHRONIZATION, CUpti_ActivitySynchronization2),
    RECORD(EXTERNAL_CORRELATION, CUpti_ActivityExternalCorrelation),
    RECORD(GRAPH_TRACE, CUpti_ActivityGraphTrace2),
    OTHER(OVERHEAD, EMPTY),
    OTHER(INTERNAL_LAUNCH_API, EMPTY),
    OTHER(EVENT, INDIRECT),
    OTHER(METRIC, INDIRECT),
    OTHER(CDP_KERNEL, INDIRECT),
    OTHER(EVENT_INSTANCE, INDIRECT),
    OTHER(METRIC_INSTANCE, INDIRECT),
    OTHER(MODULE, INDIRECT),
    OTHER(DEVICE_ATTRIBUTE, INDIRECT),
    OTHER(INSTANTANEOUS_EVENT, INDIRECT),
    OTHER(INSTANTANEOUS_EVENT_INSTANCE, INDIRECT),
    OTHER(INSTANTANEOUS_METRIC, INDIRECT),
    OTHER(INSTANTANEOUS_METRIC_INSTANCE, INDIRECT),
    OTHER(DEVICE_GRAPH_TRACE, INDIRECT),
    OTHER(SOURCE_LOCATOR, LEGACY),
    OTHER(GLOBAL_ACCESS, LEGACY),
    OTHER(BRANCH, LEGACY),
    OTHER(INSTRUCTION_EXECUTION, LEGACY),
    OTHER(SHARED_ACCESS, LEGACY),
    OTHER(PC_SAMPLING, LEGACY),
    OTHER(PC_SAMPLING_RECORD_INFO, LEGACY),
    OTHER(INSTRUCTION_CORRELATION, LEGACY),
};
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))

#define FUNCTIONS_MAX 2048 /* callback ids of a domain */
#define CONTEXTS_MAX 64    /* contexts with settings of their own */

enum { AS_KIND = 0, ON, OFF }; /* of one function */

struct context_kinds {
    uint32_t context;
    uint64_t on, off;
};

/* Written under the lock by the enabling functions; what is atomic is read without it, by every
 * call and every item of work. */
static struct {
    pthread_mutex_t lock;
    atomic_uint_least64_t all;
    atomic_uint ncontexts;
    struct context_kinds contexts[CONTEXTS_MAX]; /* under the lock */
    atomic_uint nfunctions[2];                   /* that are ON */
    atomic_uchar functions[2][FUNCTIONS_MAX];    /* driver, runtime */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

size_t sg_act_record_size(CUpti_ActivityKind kind)
{
    return (size_t)kind < NKINDS ? kinds[kind].size : 0;
}

/* ---- asked by who records -----------------------------------------------------------------------
 */

uint64_t sg_act_wants(uint32_t context, uint64_t which)
{
    uint64_t on = atomic_load_explicit(&state.all, memory_order_relaxed);

    if (context && atomic_load_explicit(&state.ncontexts, memory_order_relaxed)) {
        pthread_mutex_lock(&state.lock);
        for (unsigned i = 0; i < atomic_load(&state.ncontexts); i++)
            if (state.contexts[i].context == context)
                on = (on | state.contexts[i].on) & ~state.contexts[i].off;
        pthread_mutex_unlock(&state.lock);
    }
    return on & which;
}

bool sg_act_wants_call(bool runtime, uint32_t id)
{
    CUpti_ActivityKind kind = runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
    int how = id < FUNCTIONS_MAX
                  ? atomic_load_explicit(&state.functions[runtime][id], memory_order_relaxed)
                  : AS_KIND;

    return how == AS_KIND ? sg_act_wants(0, SG_ACT_BIT(kind)) != 0 : how == ON;
}

/* ---- enabling -----------------------------------------------------------------------------------
 */

/* With the lock: calls are hooked if anything is on, because records carry their numbers. */
static void update(void)
{
    const struct softgpu_tools *tools = sg_cupti_tools();
    uint64_t on = atomic_load(&state.all);
    bool functions = atomic_load(&state.nfunctions[0]) || atomic_load(&state.nfunctions[1]);

    for (unsigned i = 0; i < atomic_load(&state.ncontexts); i++)
        on |= state.contexts[i].on;
    sg_cupti_listen(SG_CUPTI_ACTIVITY, on || functions ? &sg_act_listener : NULL);
    if (tools)
        tools->set_trace(on & SG_ACT_WORK_KINDS ? &sg_act_trace : NULL);
}

static CUptiResult check(CUpti_ActivityKind kind)
{
    enum how how = (size_t)kind < NKINDS ? kinds[kind].how : UNKNOWN;

    if (how == INDIRECT)
        return CUPTI_ERROR_NOT_COMPATIBLE;
    if (how == LEGACY)
        return CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED;
    if (how == UNKNOWN)
        return CUPTI_ERROR_INVALID_KIND;
    return sg_cupti_attach() == CUPTI_SUCCESS ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_INITIALIZED;
}

/* With the lock: enabling or disabling a whole kind of calls forgets what was said of single ones.
 */
static void forget_functions(CUpti_ActivityKind kind)
{
    bool runtime = kind == CUPTI_ACTIVITY_KIND_RUNTIME;

    if (!runtime && kind != CUPTI_ACTIVITY_KIND_DRIVER)
        return;
    for (unsigned i = 0; i < FUNCTIONS_MAX; i++)
        atomic_store_explicit(&state.functions[runtime][i], AS_KIND, memory_order_relaxed);
    atomic_store(&state.nfunctions[runtime], 0);
}

static CUptiResult set(CUpti_ActivityKind kind, bool on)
{
    CUptiResult r = check(kind);

    if (r == CUPTI_ERROR_INVALID_KIND && on)
        sg_cupti_log(1, "activity kind %d is not supported", (int)kind);
    if (r != CUPTI_SUCCESS)
        return r;
    pthread_mutex_lock(&state.lock);
    if (on)
        atomic_fetch_or(&state.all, SG_ACT_BIT(kind));
    else
        atomic_fetch_and(&state.all, ~SG_ACT_BIT(kind));
    forget_functions(kind);
    update();
    pthread_mutex_unlock(&state.lock);
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiActivityEnable(CUpti_ActivityKind kind)
{
    return set(kind, true);
}

CUptiResult sg_cuptiActivityDisable(CUpti_ActivityKind kind)
{
    return set(kind, false);
}

CUptiResult sg_cuptiActivityEnableAndDump(CUpti_ActivityKind kind)
{
    CUptiResult r = set(kind, true);

    return r == CUPTI_SUCCESS ? sg_act_dump(kind) : r;
}

static CUptiResult set_context(CUcontext ctx, CUpti_ActivityKind kind, bool on)
{
    CUptiResult r = check(kind);
    struct context_kinds *c = NULL;
    uint32_t uid = 0;
    unsigned n;

    if (r != CUPTI_SUCCESS)
        return r;
    if (!ctx || !sg_cupti_tools()->context(ctx, &uid, NULL))
        return CUPTI_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&state.lock);
    n = atomic_load(&state.ncontexts);
    for (unsigned i = 0; i < n && !c; i++)
        if (state.contexts[i].context == uid)
            c = &state.contexts[i];
    if (!c && n < CONTEXTS_MAX) {
        c = &state.contexts[n];
        *c = (struct context_kinds){.context = uid};
        atomic_store(&state.ncontexts, n + 1);
    }
    if (c) {
        c->on = on ? c->on | SG_ACT_BIT(kind) : c->on & ~SG_ACT_BIT(kind);
        c->off = on ? c->off & ~SG_ACT_BIT(kind) : c->off | SG_ACT_BIT(kind);
        update();
    }
    pthread_mutex_unlock(&state.lock);
    return c ? CUPTI_SUCCESS : CUPTI_ERROR_MAX_LIMIT_REACHED;
}

CUptiResult sg_cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind)
{
    return set_context(context, kind, true);
}

CUptiResult sg_cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind)
{
    return set_context(context, kind, false);
}

static CUptiResult set_function(bool runtime, uint32_t id, bool on)
{
    uint32_t size =
        runtime ? (uint32_t)CUPTI_RUNTIME_TRACE_CBID_SIZE : (uint32_t)CUPTI_DRIVER_TRACE_CBID_SIZE;
    int before;

    if (!id || id >= size)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (sg_cupti_attach() != CUPTI_SUCCESS)
        return CUPTI_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&state.lock);
    before = atomic_exchange(&state.functions[runtime][id], on ? ON : OFF);
    atomic_fetch_add(&state.nfunctions[runtime], (unsigned)on - (before == ON));
    update();
    pthread_mutex_unlock(&state.lock);
    return CUPTI_SUCCESS;
}
_Static_assert((int)CUPTI_RUNTIME_TRACE_CBID_SIZE <= FUNCTIONS_MAX, "runtime ids");
_Static_assert((int)CUPTI_DRIVER_TRACE_CBID_SIZE <= FUNCTIONS_MAX, "driver ids");

CUptiResult sg_cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable)
{
    return set_function(false, id, enable != 0);
}

CUptiResult sg_cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable)
{
    return set_function(true, id, enable != 0);
}

/* ---- the end ------------------------------------------------------------------------------------
 */

static void clear(void)
{
    atomic_store(&state.all, 0);
    atomic_store(&state.ncontexts, 0);
    forget_functions(CUPTI_ACTIVITY_KIND_DRIVER);
    forget_functions(CUPTI_ACTIVITY_KIND_RUNTIME);
}

void sg_act_kinds_clear(void)
{
    pthread_mutex_lock(&state.lock);
    clear();
    update();
    pthread_mutex_unlock(&state.lock);
}

/* Others' locks may still be held: the hooks stay, and find nothing enabled. */
void sg_act_kinds_forked(void)
{
    pthread_mutex_init(&state.lock, NULL);
    clear();
}
