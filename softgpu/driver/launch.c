/* Launches: what the program says becomes work for a stream. Execution: kernel_run.c. */
#include "softgpu/driver/launch.h"

#include "softgpu/driver/core.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/stream.h"

#include <stdlib.h>
#include <string.h>

#define PARAM_SLACK 16 /* bytes that a packed buffer may be longer: padding at its end */

/* ---- parameters ---- */

/* Buffer and size from the list of `extra`. */
static CUresult read_extra(void **extra, const void **buffer, size_t *size)
{
    const size_t *given = NULL;

    *buffer = NULL;
    while (extra[0] != CU_LAUNCH_PARAM_END) { /* which is NULL */
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            given = extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
        extra += 2;
    }
    *size = given ? *given : 0;
    return !*buffer && *size ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult copy_params(const struct sg_launch_spec *s, const struct sg_kernel_info *info,
                            char *block)
{
    const void *buffer;
    size_t size;
    CUresult r;

    if (s->params && s->extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->extra) {
        r = read_extra(s->extra, &buffer, &size);
        if (r != CUDA_SUCCESS)
            return r;
        if (size < info->param_bytes)
            return CUDA_ERROR_INVALID_VALUE;
        if (size > info->param_bytes + PARAM_SLACK)
            return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        if (info->param_bytes)
            memcpy(block, buffer, info->param_bytes);
        return CUDA_SUCCESS;
    }
    if (info->nparams && !s->params)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < info->nparams; i++) {
        if (!s->params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(block + info->params[i].offset, s->params[i], info->params[i].size);
    }
    return CUDA_SUCCESS;
}

/* ---- attributes ---- */

CUresult sg_launch_attr_ok(const CUlaunchAttribute *a)
{
    switch ((int)a->id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case 11: /* PREFERRED_CLUSTER_DIMENSION */
    case 16: /* NVLINK_UTIL_CENTRIC_SCHEDULING */
        return CUDA_SUCCESS;
    case 14: /* PREFERRED_SHARED_MEMORY_CARVEOUT, an int at the start of the union */
        return a->value.cooperative >= -1 && a->value.cooperative <= 100 ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        return a->value.syncPolicy >= CU_SYNC_POLICY_AUTO &&
                       a->value.syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return a->value.clusterSchedulingPolicyPreference <=
                       CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return a->value.memSyncDomain <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        return sg_event_check(a->value.programmaticEvent.event);
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        return sg_event_check(a->value.launchCompletionEvent.event);
    case 13: /* DEVICE_UPDATABLE_KERNEL_NODE */
        return a->value.deviceUpdatableKernelNode.deviceUpdatable ? CUDA_ERROR_NOT_SUPPORTED
                                                                  : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static const CUlaunchAttribute *find_attr(const struct sg_kernel_work *k, CUlaunchAttributeID id)
{
    for (unsigned i = 0; i < k->nattrs; i++)
        if (k->attrs[i].id == id)
            return &k->attrs[i];
    return NULL;
}

static CUresult copy_attrs(const struct sg_launch_spec *s, struct sg_kernel_work *k)
{
    CUresult r = CUDA_SUCCESS;

    if (!s->nattrs)
        return r;
    if (!s->attrs)
        return CUDA_ERROR_INVALID_VALUE;
    k->attrs = calloc(s->nattrs, sizeof(*k->attrs));
    if (!k->attrs)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < s->nattrs && r == CUDA_SUCCESS; i++) {
        r = sg_launch_attr_ok(&s->attrs[i]);
        k->attrs[k->nattrs++] = s->attrs[i];
        if (s->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && s->attrs[i].value.cooperative)
            k->cooperative = true;
    }
    return r;
}

/* ---- limits ---- */

static CUresult check_dims(const struct sg_kernel_work *k)
{
    static const uint32_t grid_most[3] = {0x7fffffff, 65535, 65535};
    static const uint32_t block_most[3] = {1024, 1024, 64};

    for (unsigned d = 0; d < 3; d++)
        if (k->grid[d] == 0 || k->grid[d] > grid_most[d] || k->block[d] == 0 ||
            k->block[d] > block_most[d])
            return CUDA_ERROR_INVALID_VALUE;
    return (uint64_t)k->block[0] * k->block[1] * k->block[2] > SG_MAX_THREADS
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

/* Cluster dimensions: of the launch, else of the function; 1, 1, 1 is none. */
CUresult sg_launch_cluster(struct sg_kernel_work *k, const struct sg_device *dev)
{
    const struct sg_arch *arch = sg_arch_of(dev);
    const CUlaunchAttribute *a = find_attr(k, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    const struct CUfunc_st *f = k->func;
    const uint32_t *required = f->info->reqcluster;
    uint32_t blocks,
        most = f->nonportable_cluster ? arch->max_cluster_nonportable : arch->max_cluster;

    for (unsigned d = 0; d < 3; d++)
        k->cluster[d] = f->cluster[d] > 0 ? (uint32_t)f->cluster[d]
                        : required[0]     ? (required[d] ? required[d] : 1)
                                          : 1;
    if (a) {
        const uint32_t given[3] = {a->value.clusterDim.x, a->value.clusterDim.y,
                                   a->value.clusterDim.z};

        for (unsigned d = 0; d < 3; d++) {
            if (!given[d] || (required[0] && given[d] != (required[d] ? required[d] : 1)))
                return CUDA_ERROR_INVALID_CLUSTER_SIZE;
            k->cluster[d] = given[d];
        }
    }
    blocks = k->cluster[0] * k->cluster[1] * k->cluster[2];
    if (blocks == 1)
        return CUDA_SUCCESS;
    if (arch->max_cluster == 1)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned d = 0; d < 3; d++)
        if (k->cluster[d] > most || k->grid[d] % k->cluster[d] != 0)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    return blocks > most ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_SUCCESS;
}

static CUresult check_resources(const struct sg_kernel_work *k, struct CUctx_st *ctx)
{
    const struct sg_kernel_info *info = k->func->info;
    const struct sg_arch *arch = sg_arch_of(ctx->dev);
    uint32_t threads = k->block[0] * k->block[1] * k->block[2];
    uint64_t blocks = (uint64_t)k->grid[0] * k->grid[1] * k->grid[2];

    if (info->max_threads && threads > info->max_threads)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned d = 0; d < 3; d++)
        if (info->reqntid[0] && k->block[d] != (info->reqntid[d] ? info->reqntid[d] : 1))
            return CUDA_ERROR_INVALID_VALUE;
    if (k->shared_bytes > (uint32_t)k->func->max_dynamic_shared ||
        info->static_shared + (uint64_t)k->shared_bytes > arch->shared_optin)
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_function_regs(info) * ((threads + 31) / 32 * 32) > SG_REGISTERS)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (k->cooperative &&
        blocks > (uint64_t)sg_occupancy(k->func, ctx->dev, threads, k->shared_bytes) *
                     sg_context_sms(ctx))
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return CUDA_SUCCESS;
}

CUresult sg_kernel_make(const struct sg_launch_spec *s, struct CUctx_st *ctx, struct sg_work *out)
{
    struct sg_work w = {.kind = SG_WORK_KERNEL, .ctx = ctx};
    struct sg_kernel_work *k = &w.kernel;
    CUresult r = sg_function_of(s->f, ctx, &k->func, &k->kernel);

    if (r != CUDA_SUCCESS)
        return r;
    for (unsigned d = 0; d < 3; d++) {
        k->grid[d] = s->grid[d];
        k->block[d] = s->block[d];
    }
    k->shared_bytes = s->shared;
    k->cooperative = s->cooperative;
    k->params = calloc(1, k->func->info->param_bytes + 1);
    if (!k->params)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if ((r = check_dims(k)) == CUDA_SUCCESS && (r = copy_attrs(s, k)) == CUDA_SUCCESS &&
        (r = sg_launch_cluster(k, ctx->dev)) == CUDA_SUCCESS &&
        (r = check_resources(k, ctx)) == CUDA_SUCCESS)
        r = copy_params(s, k->func->info, k->params);
    if (r != CUDA_SUCCESS) {
        sg_work_release(&w);
        return r;
    }
    *out = w;
    return CUDA_SUCCESS;
}

/* ---- entry points ---- */

/* An event that the launch's attributes ask for: after the kernel is later than needed, which the
 * documentation allows. */
static CUresult record_events(const struct sg_launch_spec *s, CUstream stream)
{
    CUresult r = CUDA_SUCCESS;

    for (unsigned i = 0; i < s->nattrs && r == CUDA_SUCCESS; i++) {
        if (s->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            r = sg_cuEventRecord(s->attrs[i].value.programmaticEvent.event, stream);
        else if ((int)s->attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            r = sg_cuEventRecord(s->attrs[i].value.launchCompletionEvent.event, stream);
    }
    return r;
}

static CUresult launch(const struct sg_launch_spec *s, CUstream stream)
{
    struct CUstream_st *st;
    struct CUctx_st *ctx;
    struct sg_work w;
    CUresult r = sg_current(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!s->f)
        return CUDA_ERROR_INVALID_HANDLE;
    r = sg_stream_of(stream, &st);
    if (r != CUDA_SUCCESS)
        return r;
    r = (CUresult)atomic_load(&st->ctx->sticky);
    if (r != CUDA_SUCCESS)
        return r;
    r = sg_kernel_make(s, st->ctx, &w);
    if (r != CUDA_SUCCESS)
        return r;
    sg_log(2, "launch '%s' grid %u,%u,%u block %u,%u,%u shared %u", w.kernel.func->info->name,
           s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2], s->shared);
    r = sg_submit(stream, &w);
    return r != CUDA_SUCCESS ? r : record_events(s, stream);
}

CUresult sg_cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                           unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                           CUstream stream, void **params, void **extra)
{
    const struct sg_launch_spec s = {.f = f,
                                     .grid = {gx, gy, gz},
                                     .block = {bx, by, bz},
                                     .shared = shared,
                                     .params = params,
                                     .extra = extra};

    return launch(&s, stream);
}

CUresult sg_cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy,
                                      unsigned int gz, unsigned int bx, unsigned int by,
                                      unsigned int bz, unsigned int shared, CUstream stream,
                                      void **params)
{
    const struct sg_launch_spec s = {.f = f,
                                     .grid = {gx, gy, gz},
                                     .block = {bx, by, bz},
                                     .shared = shared,
                                     .params = params,
                                     .cooperative = true};

    return launch(&s, stream);
}

CUresult sg_cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
    struct sg_launch_spec s;

    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    s = (struct sg_launch_spec){.f = f,
                                .grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
                                .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
                                .shared = c->sharedMemBytes,
                                .params = params,
                                .extra = extra,
                                .attrs = c->attrs,
                                .nattrs = c->numAttrs};
    return launch(&s, c->hStream);
}
