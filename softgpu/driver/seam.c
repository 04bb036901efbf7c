/* What a tool may ask the driver: ids and names of objects (seam.h). */
#include "softgpu/driver/accesses.h"
#include "softgpu/driver/core.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/hooks.h"
#include "softgpu/driver/lend.h"
#include "softgpu/driver/memory_internal.h"
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

/* ---- what records of objects hold ---------------------------------------------------------- */

static void describe_context(const struct CUctx_st *ctx, struct softgpu_context_info *out)
{
    const struct CUctx_st *root = sg_context_root((struct CUctx_st *)ctx);

    *out = (struct softgpu_context_info){
        .id = atomic_load(&ctx->uid),
        .parent = root != ctx ? atomic_load(&root->uid) : 0,
        .device = (uint32_t)ctx->dev->ordinal,
        .null_stream = ctx->legacy ? (uint32_t)ctx->legacy->id : 0,
        .green = ctx->green != NULL,
        .sms = sg_context_sms(ctx),
    };
}

static void describe_stream(const struct CUstream_st *s, struct softgpu_stream_info *out)
{
    *out = (struct softgpu_stream_info){.id = (uint32_t)s->id,
                                        .context = atomic_load(&s->ctx->uid),
                                        .priority = s->priority,
                                        .flags = s->flags,
                                        .null = s->legacy};
}

static bool context_info(CUcontext ctx, struct softgpu_context_info *out)
{
    if (!ctx || !is_context(ctx))
        return false;
    describe_context(ctx, out);
    return true;
}

static bool stream_info(CUstream s, struct softgpu_stream_info *out)
{
    if (!sg_handle_is(s, SG_MAGIC_STREAM))
        return false;
    describe_stream(s, out);
    return true;
}

static size_t contexts(struct softgpu_context_info *out, size_t n)
{
    size_t found = 0;

    pthread_mutex_lock(&sg_driver.lock);
    for (const struct CUctx_st *c = sg_driver.contexts; c; c = c->next) {
        if (!c->active)
            continue;
        if (found < n)
            describe_context(c, &out[found]);
        found++;
    }
    pthread_mutex_unlock(&sg_driver.lock);
    return found;
}

static void add_stream(const struct CUstream_st *s, struct softgpu_stream_info *out, size_t n,
                       size_t *found)
{
    if (!s || s->dead)
        return;
    if (*found < n)
        describe_stream(s, &out[*found]);
    ++*found;
}

static size_t streams(struct softgpu_stream_info *out, size_t n)
{
    size_t found = 0;

    if (sg_ready() != CUDA_SUCCESS)
        return 0;
    pthread_mutex_lock(&sg_driver.lock);
    sg_engine_lock();
    for (const struct CUctx_st *c = sg_driver.contexts; c; c = c->next) {
        if (!c->active)
            continue;
        add_stream(c->legacy, out, n, &found);
        for (const struct CUstream_st *s = c->streams; s; s = s->next_in_ctx)
            add_stream(s, out, n, &found);
    }
    sg_engine_unlock();
    pthread_mutex_unlock(&sg_driver.lock);
    return found;
}

static bool attribute(int device_ordinal, CUdevice_attribute a, int *value)
{
    return sg_cuDeviceGetAttribute(value, a, device_ordinal) == CUDA_SUCCESS;
}

static bool identity(int device_ordinal, const char **name, CUuuid *uuid, uint64_t *memory)
{
    struct sg_device *dev;

    if (sg_device_at(device_ordinal, &dev) != CUDA_SUCCESS)
        return false;
    *name = dev->name;
    *uuid = dev->uuid;
    *memory = dev->memory;
    return true;
}

static bool allocation(uint64_t address, struct softgpu_allocation *out)
{
    struct sg_rec r;

    if (!sg_rec_find(address, &r))
        return false;
    *out = (struct softgpu_allocation){r.a.addr, r.a.size, r.a.kind == SG_ALLOC_MODULE,
                                       r.a.kind == SG_ALLOC_MANAGED};
    return true;
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
        .context_info = context_info,
        .stream_info = stream_info,
        .contexts = contexts,
        .streams = streams,
        .attribute = attribute,
        .identity = identity,
        .set_trace = sg_trace_set,
        .event = sg_trace_event_ids,
        .place = sg_trace_place,
        .lend = sg_lend,
        .take_back = sg_take_back,
        .attach_runtime = softgpu_attach_runtime,
        .set_accesses = sg_accesses_set,
        .allocation = allocation,
    };

    return &tools;
}
