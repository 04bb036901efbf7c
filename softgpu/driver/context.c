/* Contexts: their life, the stack of each thread, limits and other settings. Primary contexts:
 * primary.c; green ones: green.c. */
#include "softgpu/driver/core.h"
#include "softgpu/driver/hooks.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/stream.h"
#include "softgpu/driver/strict.h"
#include "softgpu/driver/usage.h"

#include <stdlib.h>
#include <string.h>

bool sg_context_flags_ok(unsigned flags)
{
    unsigned sched = flags & CU_CTX_SCHED_MASK;

    return (flags & ~(unsigned)CU_CTX_FLAGS_MASK) == 0 && (sched & (sched - 1)) == 0;
}

static void set_limits(struct CUctx_st *ctx)
{
    memset(ctx->limits, 0, sizeof(ctx->limits));
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

CUresult sg_context_new(struct sg_device *dev, unsigned flags, struct CUctx_st **out)
{
    struct CUctx_st *ctx = calloc(1, sizeof(*ctx));

    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->magic = SG_MAGIC_CTX;
    ctx->id = atomic_fetch_add(&sg_driver.next_id, 1) + 1;
    ctx->dev = dev;
    ctx->flags = flags;
    ctx->api_version = 3020;
    ctx->cache_config = CU_FUNC_CACHE_PREFER_NONE;
    ctx->shared_config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
    pthread_mutex_lock(&sg_driver.lock);
    ctx->next = sg_driver.contexts;
    sg_driver.contexts = ctx;
    pthread_mutex_unlock(&sg_driver.lock);
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult sg_context_start(struct CUctx_st *ctx)
{
    CUresult r;

    set_limits(ctx);
    atomic_store(&ctx->sticky, 0);
    ctx->peers = 0;
    atomic_store(&ctx->uid, atomic_fetch_add(&sg_driver.next_uid, 1) + 1);
    r = sg_streams_init_ctx(ctx);
    if (r == CUDA_SUCCESS) {
        ctx->active = true;
        SG_TELL_LATER(.kind = SG_NOTICE_CONTEXT_CREATED, .ctx = ctx);
        SG_TELL_LATER(.kind = SG_NOTICE_STREAM_CREATED, .ctx = ctx, .stream = ctx->legacy);
        sg_usage_context(ctx->dev->physical, 1);
    }
    return r;
}

void sg_context_tell_end(struct CUctx_st *ctx)
{
    if (!SG_HOOKED || !ctx->active)
        return;
    SG_TELL(.kind = SG_NOTICE_CONTEXT_DESTROY, .ctx = ctx);
    sg_engine_lock();
    for (struct CUstream_st *s = ctx->streams; s; s = s->next_in_ctx)
        if (!s->dead)
            SG_TELL_LATER(.kind = SG_NOTICE_STREAM_DESTROY, .ctx = ctx, .stream = s);
    SG_TELL_LATER(.kind = SG_NOTICE_STREAM_DESTROY, .ctx = ctx, .stream = ctx->legacy);
    sg_engine_unlock();
    if (!ctx->green) {
        pthread_mutex_lock(&sg_driver.lock);
        for (struct CUmod_st *m = ctx->modules; m; m = m->next_in_ctx)
            sg_module_tell(SG_NOTICE_MODULE_UNLOAD, m);
        pthread_mutex_unlock(&sg_driver.lock);
    }
    sg_notice_flush();
}

/* Contexts that ended, under sg_driver.lock: never freed, because other threads may have one on
 * their stacks. */
static struct CUctx_st *dead;

void sg_context_stop(struct CUctx_st *ctx)
{
    if (!ctx->active)
        return;
    sg_engine_drain_ctx(ctx);
    sg_streams_destroy_ctx(ctx);
    if (!ctx->green) {
        sg_peers_drop(ctx);
        sg_modules_destroy_ctx(ctx);
        sg_memory_destroy_ctx(ctx);
    }
    ctx->active = false;
    sg_usage_context(ctx->dev->physical, -1);
    if (ctx->is_primary)
        return;
    pthread_mutex_lock(&sg_driver.lock);
    for (struct CUctx_st **p = &sg_driver.contexts; *p; p = &(*p)->next) {
        if (*p == ctx) {
            *p = ctx->next;
            break;
        }
    }
    ctx->next = dead;
    dead = ctx;
    ctx->magic = SG_MAGIC_DEAD;
    pthread_mutex_unlock(&sg_driver.lock);
}

struct CUctx_st *sg_context_root(struct CUctx_st *ctx)
{
    return ctx->green ? ctx->dev->primary : ctx;
}

CUresult sg_context_check(CUcontext ctx)
{
    if (!ctx || (ctx->magic != SG_MAGIC_CTX && ctx->magic != SG_MAGIC_DEAD))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ctx->magic == SG_MAGIC_DEAD || !ctx->active)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return CUDA_SUCCESS;
}

CUresult sg_current(struct CUctx_st **out)
{
    struct sg_tls *tls = sg_tls();
    CUresult r = sg_ready();
    struct CUctx_st *ctx;

    if (r != CUDA_SUCCESS)
        return r;
    ctx = tls->depth ? tls->stack[tls->depth - 1] : NULL;
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx->active)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = ctx;
    /* a partition and the rest of the device share their memory, and its faults */
    return (CUresult)atomic_load_explicit(&sg_context_root(ctx)->sticky, memory_order_relaxed);
}

/* @ctx, or the current one if it is NULL, without regard to its sticky error: settings and getters
 * still work. */
static CUresult given_or_current(CUcontext ctx, struct CUctx_st **out)
{
    struct sg_tls *tls = sg_tls();
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!ctx && tls->depth)
        ctx = tls->stack[tls->depth - 1];
    r = sg_context_check(ctx);
    if (r == CUDA_SUCCESS)
        *out = ctx;
    return r;
}

static CUresult current_any(struct CUctx_st **out)
{
    return given_or_current(NULL, out);
}

CUresult sg_fault_set(struct CUctx_st *ctx, const struct sg_fault *fault)
{
    static const CUresult results[] = {
        [SG_FAULT_NONE] = CUDA_SUCCESS,
        [SG_FAULT_ADDRESS] = CUDA_ERROR_ILLEGAL_ADDRESS,
        [SG_FAULT_MISALIGNED] = CUDA_ERROR_MISALIGNED_ADDRESS,
        [SG_FAULT_ASSERT] = CUDA_ERROR_ASSERT,
        [SG_FAULT_TRAP] = CUDA_ERROR_LAUNCH_FAILED,
        [SG_FAULT_ILLEGAL] = CUDA_ERROR_ILLEGAL_INSTRUCTION,
        [SG_FAULT_STACK] = CUDA_ERROR_LAUNCH_FAILED,
        [SG_FAULT_DEADLOCK] = CUDA_ERROR_LAUNCH_TIMEOUT,
        [SG_FAULT_INSTRUCTION] = CUDA_ERROR_ILLEGAL_INSTRUCTION,
        [SG_FAULT_MEMORY] = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        [SG_FAULT_TIMEOUT] = CUDA_ERROR_LAUNCH_TIMEOUT,
    };
    CUresult r = CUDA_ERROR_UNKNOWN;
    int none = 0;

    if ((size_t)fault->kind < TB_ARRAY_LEN(results))
        r = results[fault->kind];
    sg_log(1, "%s", fault->text);
    if (sg_strict())
        sg_strict_fault(fault);
    /* the launch did not start: nothing is lost */
    if (fault->kind == SG_FAULT_MEMORY)
        return r;
    atomic_compare_exchange_strong(&sg_context_root(ctx)->sticky, &none, (int)r);
    return r;
}

/* ---- life ---- */

static CUresult push(CUcontext ctx)
{
    struct sg_tls *tls = sg_tls();

    if (tls->depth == SG_CTX_STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    tls->stack[tls->depth++] = ctx;
    return CUDA_SUCCESS;
}

static CUresult create(CUcontext *out, unsigned flags, CUdevice device)
{
    struct CUctx_st *ctx;
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !sg_context_flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_tls()->depth == SG_CTX_STACK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = sg_context_new(dev, flags, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    r = sg_context_start(ctx);
    if (r != CUDA_SUCCESS) {
        ctx->active = true;
        sg_usage_context(ctx->dev->physical, 1);
        sg_context_stop(ctx);
        return r;
    }
    *out = ctx;
    return push(ctx);
}

CUresult sg_cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
    return create(out, flags, device);
}

CUresult sg_cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device)
{
    CUresult r = create(out, flags, device);

    if (r == CUDA_SUCCESS)
        (*out)->api_version = 3010;
    return r;
}

CUresult sg_cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int n, unsigned int flags,
                           CUdevice device)
{
    if (n < 0 || (n > 0 && !params))
        return CUDA_ERROR_INVALID_VALUE;
    if (n > 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(out, flags, device);
}

#if CUDA_VERSION >= 12050
CUresult sg_cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                           CUdevice device)
{
    if (params && params->cigParams)
        return CUDA_ERROR_NOT_SUPPORTED;
    return sg_cuCtxCreate_v3(out, params ? params->execAffinityParams : NULL,
                             params ? params->numExecAffinityParams : 0, flags, device);
}
#endif

CUresult sg_cuCtxDestroy_v2(CUcontext ctx)
{
    struct sg_tls *tls = sg_tls();
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS || (r = sg_context_check(ctx)) != CUDA_SUCCESS)
        return r;
    if (ctx->is_primary || ctx->green)
        return CUDA_ERROR_INVALID_CONTEXT;
    sg_context_tell_end(ctx);
    sg_context_stop(ctx);
    if (tls->depth && tls->stack[tls->depth - 1] == ctx)
        tls->depth--;
    return CUDA_SUCCESS;
}

CUresult sg_cuCtxDestroy(CUcontext ctx)
{
    return sg_cuCtxDestroy_v2(ctx);
}

CUresult sg_cuCtxAttach(CUcontext *out, unsigned int flags)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = current_any(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (flags != 0 || !out)
        return CUDA_ERROR_INVALID_VALUE;
    atomic_fetch_add(&ctx->attached, 1);
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult sg_cuCtxDetach(CUcontext ctx)
{
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS || (r = sg_context_check(ctx)) != CUDA_SUCCESS)
        return r;
    if (atomic_load(&ctx->attached) == 0)
        return sg_cuCtxDestroy_v2(ctx);
    atomic_fetch_sub(&ctx->attached, 1);
    return CUDA_SUCCESS;
}

/* ---- the stack of a thread ---- */

CUresult sg_cuCtxPushCurrent_v2(CUcontext ctx)
{
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS || (r = sg_context_check(ctx)) != CUDA_SUCCESS)
        return r;
    return push(ctx);
}

CUresult sg_cuCtxPushCurrent(CUcontext ctx)
{
    return sg_cuCtxPushCurrent_v2(ctx);
}

CUresult sg_cuCtxPopCurrent_v2(CUcontext *out)
{
    struct sg_tls *tls = sg_tls();
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (tls->depth == 0) /* programs pop until this comes */
        return CUDA_ERROR_INVALID_CONTEXT;
    tls->depth--;
    if (out)
        *out = tls->stack[tls->depth];
    return CUDA_SUCCESS;
}

CUresult sg_cuCtxPopCurrent(CUcontext *out)
{
    return sg_cuCtxPopCurrent_v2(out);
}

CUresult sg_cuCtxSetCurrent(CUcontext ctx)
{
    struct sg_tls *tls = sg_tls();
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!ctx) {
        tls->depth -= tls->depth > 0;
        return CUDA_SUCCESS;
    }
    r = sg_context_check(ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (tls->depth == 0)
        return push(ctx);
    tls->stack[tls->depth - 1] = ctx;
    return CUDA_SUCCESS;
}

CUresult sg_cuCtxGetCurrent(CUcontext *out)
{
    struct sg_tls *tls = sg_tls();
    CUresult r = sg_needs(out, sg_ready());

    if (r == CUDA_SUCCESS)
        *out = tls->depth ? tls->stack[tls->depth - 1] : NULL;
    return r;
}

/* ---- getters and settings ---- */

/* Members of 32 bits. */
static CUresult get(CUcontext given, size_t member, void *out)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = given_or_current(given, &ctx);

    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        memcpy(out, (const char *)ctx + member, sizeof(uint32_t));
    return r;
}

static CUresult set(size_t member, uint32_t value, bool valid)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = current_any(&ctx);

    if (r == CUDA_SUCCESS && !valid)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        memcpy((char *)ctx + member, &value, sizeof(value));
    return r;
}

static CUresult device_of(CUcontext given, CUdevice *device)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = given_or_current(given, &ctx);

    if (r == CUDA_SUCCESS && !device)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *device = ctx->dev->ordinal;
    return r;
}

CUresult sg_cuCtxGetDevice(CUdevice *device)
{
    return device_of(NULL, device);
}

#if CUDA_VERSION >= 13000
CUresult sg_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    return device_of(ctx, device);
}
#endif

CUresult sg_cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    uint32_t value = 0;
    CUresult r = get(ctx, offsetof(struct CUctx_st, id), id ? &value : NULL);

    if (r == CUDA_SUCCESS)
        *id = value;
    return r;
}

CUresult sg_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    return get(ctx, offsetof(struct CUctx_st, api_version), version);
}

CUresult sg_cuCtxGetFlags(unsigned int *flags)
{
    return get(NULL, offsetof(struct CUctx_st, flags), flags);
}

CUresult sg_cuCtxSetFlags(unsigned int flags)
{
    return set(offsetof(struct CUctx_st, flags), flags, sg_context_flags_ok(flags));
}

CUresult sg_cuCtxGetCacheConfig(CUfunc_cache *config)
{
    return get(NULL, offsetof(struct CUctx_st, cache_config), config);
}

CUresult sg_cuCtxSetCacheConfig(CUfunc_cache config)
{
    return set(offsetof(struct CUctx_st, cache_config), config,
               config <= CU_FUNC_CACHE_PREFER_EQUAL);
}

CUresult sg_cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    return get(NULL, offsetof(struct CUctx_st, shared_config), config);
}

CUresult sg_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    return set(offsetof(struct CUctx_st, shared_config), config,
               config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
}

static CUresult synchronize(struct CUctx_st *ctx)
{
    CUresult r = sg_enter();

    if (r != CUDA_SUCCESS || (r = sg_capture_forbids_ctx(ctx)) != CUDA_SUCCESS)
        return r;
    r = (CUresult)atomic_load(&ctx->sticky);
    if (r != CUDA_SUCCESS)
        return r;
    r = sg_engine_drain_ctx(ctx);
    sg_memory_synced(ctx, NULL);
    if (r == CUDA_SUCCESS)
        SG_TELL(.kind = SG_NOTICE_CONTEXT_SYNCHRONIZED, .ctx = ctx);
    return r;
}

CUresult sg_cuCtxSynchronize(void)
{
    struct CUctx_st *ctx;
    CUresult r = sg_current(&ctx);

    return r != CUDA_SUCCESS ? r : synchronize(ctx);
}

#if CUDA_VERSION >= 13000
CUresult sg_cuCtxSynchronize_v2(CUcontext ctx)
{
    CUresult r = sg_ready();

    if (!ctx)
        return sg_cuCtxSynchronize();
    if (r != CUDA_SUCCESS || (r = sg_context_check(ctx)) != CUDA_SUCCESS)
        return r;
    return synchronize(ctx);
}
#endif

static bool limit_supported(const struct CUctx_st *ctx, CUlimit limit)
{
    if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)
        return ctx->dev->arch < 90;
    return limit <= CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
}

CUresult sg_cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = current_any(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if ((int)limit < 0 || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!limit_supported(ctx, limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if ((limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY && value > 128) ||
        (limit == CU_LIMIT_STACK_SIZE && value > (512 << 10)))
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE && value > SG_L2_BYTES / 4 * 3)
        value = SG_L2_BYTES / 4 * 3;
    if (limit == CU_LIMIT_STACK_SIZE)
        value = (value + 15) & ~(size_t)15;
    ctx->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult sg_cuCtxGetLimit(size_t *value, CUlimit limit)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = current_any(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!value || (int)limit < 0 || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!limit_supported(ctx, limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = ctx->limits[limit];
    return CUDA_SUCCESS;
}

CUresult sg_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = current_any(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult sg_cuCtxResetPersistingL2Cache(void)
{
    struct CUctx_st *ctx;

    return sg_current(&ctx);
}

CUresult sg_cuCtxGetExecAffinity(CUexecAffinityParam *param, CUexecAffinityType type)
{
    struct CUctx_st *ctx = NULL;
    CUresult r = current_any(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!param || type < CU_EXEC_AFFINITY_TYPE_SM_COUNT || type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}
