/* Green contexts: a share of a device's SMs as a context of its own. Memory and modules are the
 * primary context's; what a launch in one sees is fewer SMs (kernel_run.c). */
#include "softgpu/driver/core.h"
#include "softgpu/driver/stream.h"

#include <stdlib.h>
#include <string.h>

/* In CUdevResource._internal_padding: where a resource comes from. */
struct origin {
    uint32_t magic;
    int device;
    uint64_t split; /* number of the split it came from, 0: none, may be split */
};

struct CUdevResourceDesc_st { /* never freed: the API has no call for it */
    uint32_t magic;
    int device;
    CUdevResource sm;
    struct CUdevResourceDesc_st *next;
};

struct CUgreenCtx_st { /* kept after its end, as its context is */
    uint32_t magic;
    struct CUctx_st *ctx;
    CUdevResource sm;
};

enum { MAGIC_RESOURCE = 0x53475253, MAGIC_DESC = 0x53475244 };

static atomic_ullong splits;
static struct CUdevResourceDesc_st *descs; /* under sg_driver.lock; so that they stay reachable */

/* ---- resources ---- */

static void origin_set(CUdevResource *r, int device, uint64_t split)
{
    const struct origin o = {MAGIC_RESOURCE, device, split};

    memcpy(r->_internal_padding, &o, sizeof(o));
}

static bool origin_get(const CUdevResource *r, struct origin *o)
{
    memcpy(o, r->_internal_padding, sizeof(*o));
    return o->magic == MAGIC_RESOURCE && o->device >= 0 && o->device < sg_driver.ndevices;
}

static void sm_resource(const struct sg_device *dev, unsigned sms, uint64_t split,
                        CUdevResource *out)
{
    memset(out, 0, sizeof(*out));
    out->type = CU_DEV_RESOURCE_TYPE_SM;
    out->sm.smCount = sms;
#if CUDA_VERSION >= 13000
    out->sm.minSmPartitionSize = sg_arch_of(dev)->partition_least;
    out->sm.smCoscheduledAlignment = sg_arch_of(dev)->partition_unit;
#endif
    origin_set(out, dev->ordinal, split);
}

static CUresult check_type(const CUdevResource *resource, CUdevResourceType type)
{
    if (!resource)
        return CUDA_ERROR_INVALID_VALUE;
    return type == CU_DEV_RESOURCE_TYPE_SM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

CUresult sg_cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS || (r = check_type(resource, type)) != CUDA_SUCCESS)
        return r;
    sm_resource(dev, dev->sms_reported, 0, resource);
    return CUDA_SUCCESS;
}

unsigned sg_context_sms(const struct CUctx_st *ctx)
{
    return ctx->green ? ctx->green->sm.sm.smCount : ctx->dev->sms_reported;
}

CUresult sg_cuCtxGetDevResource(CUcontext ctx, CUdevResource *resource, CUdevResourceType type)
{
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS || (r = sg_context_check(ctx)) != CUDA_SUCCESS ||
        (r = check_type(resource, type)) != CUDA_SUCCESS)
        return r;
    sm_resource(ctx->dev, sg_context_sms(ctx), 0, resource);
    return CUDA_SUCCESS;
}

static unsigned round_up(unsigned n, unsigned unit)
{
    return (n + unit - 1) / unit * unit;
}

CUresult sg_cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *groups,
                                        const CUdevResource *input, CUdevResource *remaining,
                                        unsigned int flags, unsigned int least)
{
    const unsigned known = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
                           CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
    const struct sg_device *dev;
    const struct sg_arch *arch;
    unsigned each, most, n, unit;
    CUresult r = sg_ready();
    struct origin from;
    uint64_t split;

    if (r != CUDA_SUCCESS)
        return r;
    if (!groups || !input || (flags & ~known) || flags == known || (result && !*groups))
        return CUDA_ERROR_INVALID_VALUE;
    if (input->type != CU_DEV_RESOURCE_TYPE_SM || !origin_get(input, &from))
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (from.split)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (least > input->sm.smCount)
        return CUDA_ERROR_INVALID_VALUE;
    dev = &sg_driver.devices[from.device];
    arch = sg_arch_of(dev);
    unit = flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ? 2 : arch->partition_unit;
    if (!(flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) && least < arch->partition_least)
        least = arch->partition_least;
    each = round_up(least ? least : unit, unit);
    most = input->sm.smCount / each;
    if (!result) {
        *groups = most;
        return CUDA_SUCCESS;
    }
    n = *groups < most ? *groups : most;
    split = atomic_fetch_add(&splits, 1) + 1;
    for (unsigned i = 0; i < n; i++)
        sm_resource(dev, each, split, &result[i]);
    *groups = n;
    if (remaining) {
        sm_resource(dev, input->sm.smCount - n * each, split, remaining);
        if (!remaining->sm.smCount)
            remaining->type = CU_DEV_RESOURCE_TYPE_INVALID;
    }
    return CUDA_SUCCESS;
}

CUresult sg_cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources,
                                      unsigned int n)
{
    struct CUdevResourceDesc_st *desc;
    struct origin first = {0}, o;
    unsigned sms = 0;
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !resources || !n)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM || !origin_get(&resources[i], &o))
            return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        if (i == 0)
            first = o;
        else if (o.device != first.device || !o.split || o.split != first.split)
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        sms += resources[i].sm.smCount;
    }
    if (!sms || sms > sg_driver.devices[first.device].sms_reported)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    desc = calloc(1, sizeof(*desc));
    if (!desc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    desc->magic = MAGIC_DESC;
    desc->device = first.device;
    sm_resource(&sg_driver.devices[first.device], sms, 0, &desc->sm);
    pthread_mutex_lock(&sg_driver.lock);
    desc->next = descs;
    descs = desc;
    pthread_mutex_unlock(&sg_driver.lock);
    *out = desc;
    return CUDA_SUCCESS;
}

static bool is_desc(CUdevResourceDesc given)
{
    const struct CUdevResourceDesc_st *d;

    pthread_mutex_lock(&sg_driver.lock);
    for (d = descs; d && d != given; d = d->next)
        ;
    pthread_mutex_unlock(&sg_driver.lock);
    return d != NULL;
}

/* ---- contexts ---- */

CUresult sg_cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device,
                             unsigned int flags)
{
    struct CUgreenCtx_st *g;
    struct sg_device *dev;
    CUcontext primary;
    CUresult r = sg_device_at(device, &dev);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !is_desc(desc) || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->device != device)
        return CUDA_ERROR_INVALID_DEVICE;
    r = sg_cuDevicePrimaryCtxRetain(&primary, device);
    if (r != CUDA_SUCCESS)
        return r;
    g = calloc(1, sizeof(*g));
    r = g ? sg_context_new(dev, primary->flags, &g->ctx) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        g->magic = SG_MAGIC_GREEN;
        g->sm = desc->sm;
        g->ctx->green = g;
        r = sg_context_start(g->ctx);
    }
    if (r == CUDA_SUCCESS && !sg_handle_add(g, SG_MAGIC_GREEN))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        if (g && g->ctx)
            sg_context_stop(g->ctx);
        else
            free(g);
        sg_cuDevicePrimaryCtxRelease_v2(device);
        return r;
    }
    *out = g;
    return CUDA_SUCCESS;
}

/* The context of a green context's handle. */
static CUresult green_of(CUgreenCtx g, struct CUctx_st **ctx)
{
    CUresult r = sg_ready();

    if (r != CUDA_SUCCESS)
        return r;
    if (!sg_handle_is(g, SG_MAGIC_GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    *ctx = g->ctx;
    return sg_context_check(g->ctx);
}

CUresult sg_cuGreenCtxDestroy(CUgreenCtx g)
{
    struct sg_tls *tls = sg_tls();
    struct CUctx_st *ctx;
    CUresult r = green_of(g, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    sg_context_tell_end(ctx);
    sg_handle_remove(g);
    sg_context_stop(ctx);
    if (tls->depth && tls->stack[tls->depth - 1] == ctx)
        tls->depth--;
    return sg_cuDevicePrimaryCtxRelease_v2(ctx->dev->ordinal);
}

CUresult sg_cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx g)
{
    struct CUctx_st *ctx;
    CUresult r = sg_needs(out, green_of(g, &ctx));

    if (r == CUDA_SUCCESS)
        *out = ctx;
    return r;
}

CUresult sg_cuGreenCtxGetDevResource(CUgreenCtx g, CUdevResource *resource, CUdevResourceType type)
{
    struct CUctx_st *ctx;
    CUresult r = green_of(g, &ctx);

    return r != CUDA_SUCCESS ? r : sg_cuCtxGetDevResource(ctx, resource, type);
}

CUresult sg_cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx g, unsigned int flags, int priority)
{
    struct CUctx_st *ctx;
    struct CUstream_st *s;
    CUresult r = green_of(g, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_stream_new(ctx, flags, priority, &s);
    if (r == CUDA_SUCCESS)
        *out = s;
    return r;
}

#if CUDA_VERSION >= 13000
CUresult sg_cuGreenCtxGetId(CUgreenCtx g, unsigned long long *id)
{
    struct CUctx_st *ctx;
    CUresult r = sg_needs(id, green_of(g, &ctx));

    if (r == CUDA_SUCCESS)
        *id = ctx->id;
    return r;
}
#endif

/* ---- events: of all streams of the context ---- */

CUresult sg_cuGreenCtxRecordEvent(CUgreenCtx g, CUevent event)
{
    struct CUctx_st *ctx;
    CUresult r = green_of(g, &ctx);

    return r != CUDA_SUCCESS ? r : sg_cuCtxRecordEvent(ctx, event);
}

CUresult sg_cuGreenCtxWaitEvent(CUgreenCtx g, CUevent event)
{
    struct CUctx_st *ctx;
    CUresult r = green_of(g, &ctx);

    return r != CUDA_SUCCESS ? r : sg_cuCtxWaitEvent(ctx, event);
}
