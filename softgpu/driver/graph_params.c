/* Descriptions of nodes into work, and back. Every typed call goes through struct
 * CUgraphNodeParams, so there is one way in and one way out. */
#include "softgpu/driver/core.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/launch.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/module.h"

#include <stdlib.h>
#include <string.h>

/* A node's context: the one given, else the current one. */
static CUresult context_of(CUcontext given, struct CUctx_st **ctx)
{
    if (!given)
        return sg_current(ctx);
    *ctx = given;
    return sg_context_check(given);
}

/* ---- in ---------------------------------------------------------- */

static CUresult make_kernel(const CUgraphNodeParams *p, struct sg_work *w)
{
    const CUDA_KERNEL_NODE_PARAMS_v3 *k = &p->kernel;
    struct CUctx_st *ctx = NULL;
    CUfunction f = k->func ? k->func : (CUfunction)(void *)k->kern;
    const struct sg_launch_spec spec = {
        .f = f,
        .grid = {k->gridDimX, k->gridDimY, k->gridDimZ},
        .block = {k->blockDimX, k->blockDimY, k->blockDimZ},
        .shared = k->sharedMemBytes,
        .params = k->kernelParams,
        .extra = k->extra,
    };
    CUresult r = CUDA_SUCCESS;

    /* a function brings its context; the current one may be a green one of the same device */
    if (sg_handle_is(f, SG_MAGIC_FUNC)) {
        if (sg_current(&ctx) != CUDA_SUCCESS || sg_context_root(ctx) != f->module->ctx)
            ctx = f->module->ctx;
    } else {
        r = context_of(k->ctx, &ctx);
    }
    if (r != CUDA_SUCCESS)
        return r;
    r = sg_kernel_make(&spec, ctx, w);
    return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
}

static CUresult make_copy(const CUgraphNodeParams *p, struct sg_work *w)
{
    struct CUctx_st *ctx;
    CUresult r = context_of(p->memcpy.copyCtx, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (p->memcpy.flags || p->memcpy.reserved)
        return CUDA_ERROR_INVALID_VALUE;
    return sg_copy_make(&p->memcpy.copyParams, ctx, w);
}

static CUresult make_fill(const CUgraphNodeParams *p, struct sg_work *w)
{
    const CUDA_MEMSET_NODE_PARAMS_v2 *m = &p->memset;
    struct CUctx_st *ctx;
    CUresult r = context_of(m->ctx, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    return sg_fill_make(ctx, m->dst, m->pitch, m->value, m->elementSize, m->width, m->height, w);
}

static CUresult make_host(const CUgraphNodeParams *p, struct sg_work *w)
{
    if (!p->host.fn)
        return CUDA_ERROR_INVALID_VALUE;
    w->kind = SG_WORK_HOST;
    w->host.fn = p->host.fn;
    w->host.arg = p->host.userData;
    return CUDA_SUCCESS;
}

static CUresult make_event(CUevent event, enum sg_work_kind kind, struct sg_work *w)
{
    if (sg_event_check(event) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    w->kind = kind;
    w->ctx = event->ctx;
    w->event.event = sg_event_ref(event);
    return CUDA_SUCCESS;
}

/* Some context of the device that the memory is to be on. */
static CUresult alloc_context(const CUmemPoolProps *props, struct CUctx_st **ctx)
{
    struct sg_device *dev;
    CUresult r = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE
                     ? sg_device_at(props->location.id, &dev)
                     : CUDA_ERROR_INVALID_VALUE;

    if (r != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_current(ctx) == CUDA_SUCCESS && (*ctx)->dev == dev)
        return CUDA_SUCCESS;
    *ctx = dev->primary;
    return sg_context_check(dev->primary);
}

static CUresult make_alloc(const CUgraphNodeParams *p, struct sg_work *w)
{
    const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *a = &p->alloc;
    struct sg_work given = {.kind = SG_WORK_MEM_ALLOC};
    struct CUctx_st *ctx = NULL;
    CUresult r = CUDA_SUCCESS;

    if (!a->bytesize || (a->accessDescCount && !a->accessDescs))
        return CUDA_ERROR_INVALID_VALUE;
    if (a->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = alloc_context(&a->poolProps, &ctx);
    given.ctx = ctx;
    given.mem.params = *a;
    given.mem.size = a->bytesize;
    if (r == CUDA_SUCCESS)
        r = sg_work_clone(&given, w); /* the descriptors are the caller's */
    if (r == CUDA_SUCCESS)
        r = sg_graph_mem_new(ctx, a, &w->mem.addr);
    w->mem.params.dptr = w->mem.addr;
    return r;
}

static CUresult make_batch(const CUgraphNodeParams *p, struct sg_work *w)
{
    struct sg_work given = {.kind = SG_WORK_BATCH_MEM_OP};
    CUresult r = context_of(p->memOp.ctx, &given.ctx);

    if (r == CUDA_SUCCESS)
        r = sg_memop_check(p->memOp.paramArray, p->memOp.count, p->memOp.flags, given.ctx);
    given.batch.ops = p->memOp.paramArray;
    given.batch.n = p->memOp.count;
    return r == CUDA_SUCCESS ? sg_work_clone(&given, w) : r;
}

static CUresult make(const CUgraphNodeParams *p, struct sg_work *w)
{
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return make_kernel(p, w);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return make_copy(p, w);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return make_fill(p, w);
    case CU_GRAPH_NODE_TYPE_HOST:
        return make_host(p, w);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return make_event(p->eventWait.event, SG_WORK_EVENT_WAIT, w);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return make_event(p->eventRecord.event, SG_WORK_EVENT_RECORD, w);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return make_alloc(p, w);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        w->kind = SG_WORK_MEM_FREE;
        w->mem.addr = p->free.dptr;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return make_batch(p, w);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        sg_log(1, "graph nodes of type %d are not supported", (int)p->type);
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sg_node_params_make(const CUgraphNodeParams *p, struct sg_work *w)
{
    CUresult r;

    memset(w, 0, sizeof(*w));
    r = make(p, w);
    if (r != CUDA_SUCCESS)
        sg_work_release(w);
    return r;
}

/* ---- out --------------------------------------------------------- */

/* The array of pointers to parameters that a node lends out. */
static CUresult lend_params(CUgraphNode node)
{
    const struct sg_kernel_work *k = &node->work->w.kernel;
    uint32_t n = k->func->info->nparams;

    if (node->param_ptrs || !n)
        return CUDA_SUCCESS;
    node->param_ptrs = calloc(n, sizeof(void *));
    if (!node->param_ptrs)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        node->param_ptrs[i] = (char *)k->params + k->func->info->params[i].offset;
    return CUDA_SUCCESS;
}

static CUresult get_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v3 *out)
{
    const struct sg_kernel_work *k = &node->work->w.kernel;
    CUresult r = sg_kernel_alive(k) ? lend_params(node) : CUDA_ERROR_INVALID_VALUE;

    if (r != CUDA_SUCCESS)
        return r;
    *out = (CUDA_KERNEL_NODE_PARAMS_v3){
        .func = k->kernel ? NULL : k->func,
        .gridDimX = k->grid[0],
        .gridDimY = k->grid[1],
        .gridDimZ = k->grid[2],
        .blockDimX = k->block[0],
        .blockDimY = k->block[1],
        .blockDimZ = k->block[2],
        .sharedMemBytes = k->shared_bytes,
        .kernelParams = node->param_ptrs,
        .kern = k->kernel,
        .ctx = k->kernel ? node->work->w.ctx : NULL,
    };
    return CUDA_SUCCESS;
}

CUresult sg_node_params_get(CUgraphNode node, CUgraphNodeParams *p)
{
    const struct sg_work *w;

    memset(p, 0, sizeof(*p));
    p->type = node->type;
    if (node->child)
        p->graph.graph = node->child;
    if (!node->work)
        return CUDA_SUCCESS;
    w = &node->work->w;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return get_kernel(node, &p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        p->memcpy.copyCtx = w->ctx;
        p->memcpy.copyParams = w->copy.given;
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        p->memset =
            (CUDA_MEMSET_NODE_PARAMS_v2){w->fill.dst,   w->fill.pitch,  w->fill.value, w->fill.elem,
                                         w->fill.width, w->fill.height, w->ctx};
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        p->host = (CUDA_HOST_NODE_PARAMS_v2){.fn = w->host.fn, .userData = w->host.arg};
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        p->eventWait.event = w->event.event;
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        p->eventRecord.event = w->event.event;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        p->alloc = w->mem.params;
        p->alloc.dptr = w->mem.addr;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        p->free.dptr = w->mem.addr;
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        p->memOp =
            (CUDA_BATCH_MEM_OP_NODE_PARAMS_v2){w->ctx, w->batch.n, w->batch.ops, w->batch.flags};
        break;
    default:
        break;
    }
    return CUDA_SUCCESS;
}
