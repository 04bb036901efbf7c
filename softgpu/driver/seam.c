/* What a tool may ask the driver: ids and names of objects (seam.h). */
#include "softgpu/driver/core.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/hooks.h"
#include "softgpu/driver/trace_item.h"

static struct softgpu_thread *thread(void)
{
    return &sg_tls()->tool;
}

static struct CUctx_st *current_context(void)
{
    struct sg_tls *tls = sg_tls();

    return tls->depth ? tls->stack[tls->depth - 1] : NULL;
}

static CUcontext current(uint32_t *uid)
{
    struct CUctx_st *ctx = current_context();

    if (uid)
        *uid = ctx ? atomic_load(&ctx->uid) : 0;
    return ctx;
}

/* Contexts are never freed, so one that ended may be asked; what never was one may not. */
static bool is_context(const struct CUctx_st *ctx)
{
    bool is = false;

    pthread_mutex_lock(&sg_driver.lock);
    for (const struct CUctx_st *c = sg_driver.contexts; c && !is; c = c->next)
        is = c == ctx;
    pthread_mutex_unlock(&sg_driver.lock);
    return is;
}

static bool context(CUcontext ctx, uint32_t *uid, int *device)
{
    if (!ctx)
        ctx = current_context();
    if (!ctx || !is_context(ctx))
        return false;
    if (uid)
        *uid = atomic_load(&ctx->uid);
    if (device)
        *device = ctx->dev->ordinal;
    return true;
}

static bool device(int ordinal)
{
    struct sg_device *dev;

    return sg_device_at(ordinal, &dev) == CUDA_SUCCESS;
}

static bool arch(uint32_t number)
{
    return sg_arch_find(number) != NULL;
}

static bool stream(CUcontext ctx, CUstream given, bool per_thread, uint32_t *id)
{
    struct CUctx_st *in = ctx ? ctx : current_context();
    struct CUstream_st *s = NULL;

    if (!in || !is_context(in) || !in->active ||
        sg_stream_in(in, given, per_thread, &s) != CUDA_SUCCESS || !s || (ctx && s->ctx != ctx))
        return false;
    *id = (uint32_t)s->id;
    return true;
}

static bool graph(CUgraph g, uint32_t *id)
{
    if (!sg_handle_is(g, SG_MAGIC_GRAPH))
        return false;
    *id = (uint32_t)g->id;
    return true;
}

/* An executable graph goes by the id of the clone that it owns, which is no graph of the program.
 */
static bool exec(CUgraphExec x, uint32_t *id)
{
    if (!sg_handle_is(x, SG_MAGIC_GEXEC))
        return false;
    *id = (uint32_t)x->graph->id;
    return true;
}

static bool node(CUgraphNode n, uint64_t *id)
{
    if (!sg_handle_is(n, SG_MAGIC_NODE))
        return false;
    *id = n->uid;
    return true;
}

static const char *function(CUfunction f)
{
    const char *name = NULL;
    CUkernel k = (CUkernel)(void *)f;

    if (sg_handle_is(f, SG_MAGIC_FUNC))
        return f->info->name;
    return sg_handle_is(k, SG_MAGIC_KERNEL) && sg_cuKernelGetName(&name, k) == CUDA_SUCCESS ? name
                                                                                            : NULL;
}

static const char *runtime_symbol(const void *func)
{
    const struct softgpu_runtime *rt = sg_runtime();

    return rt ? rt->symbol(func) : NULL;
}

const struct softgpu_tools *softgpu_tools(void)
{
    static const struct softgpu_tools tools = {
        .size = sizeof(tools),
        .set_hooks = softgpu_set_hooks,
        .thread = thread,
        .current = current,
        .context = context,
        .device = device,
        .arch = arch,
        .stream = stream,
        .graph = graph,
        .exec = exec,
        .node = node,
        .function = function,
        .runtime_symbol = runtime_symbol,
        .set_trace = sg_trace_set,
        .event = sg_trace_event_ids,
        .place = sg_trace_place,
    };

    return &tools;
}
