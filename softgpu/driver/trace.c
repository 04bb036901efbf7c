#include "softgpu/driver/trace_item.h"

#include "softgpu/driver/graph.h"
#include "softgpu/driver/memory_internal.h"
#include "softgpu/driver/module.h"

/* Written by sg_trace_set(), read wherever work is submitted or executed. */
atomic_bool sg_trace_active;
static _Atomic(const struct softgpu_trace_hooks *) listener;

void sg_trace_set(const struct softgpu_trace_hooks *hooks)
{
    if (hooks)
        atomic_store(&listener, hooks); /* the old one stays for what it has tagged */
    atomic_store(&sg_trace_active, hooks != NULL);
}

/* ---- ids ---------------------------------------------------------------------------------------
 */

bool sg_trace_event_ids(CUevent event, struct softgpu_recorded *out)
{
    if (!sg_handle_is(event, SG_MAGIC_EVENT))
        return false;
    sg_engine_lock();
    *out = (struct softgpu_recorded){.id = (uint32_t)event->id,
                                     .context = atomic_load(&event->ctx->uid),
                                     .record = event->item ? event->item->seq : 0};
    sg_engine_unlock();
    return true;
}

bool sg_trace_place(CUstream stream, bool per_thread, struct softgpu_place *out)
{
    struct sg_tls *tls = sg_tls();
    struct CUctx_st *ctx = tls->depth ? tls->stack[tls->depth - 1] : NULL;
    struct CUstream_st *s = NULL;

    if (!ctx || !ctx->active || sg_stream_in(ctx, stream, per_thread, &s) != CUDA_SUCCESS || !s)
        return false;
    *out = (struct softgpu_place){(uint32_t)s->id, atomic_load(&s->ctx->uid),
                                  (uint32_t)s->ctx->dev->ordinal};
    return true;
}

/* ---- submission --------------------------------------------------------------------------------
 */

static void ask(struct sg_item *i, enum softgpu_trace_kind kind)
{
    const struct softgpu_trace_hooks *h = atomic_load(&listener);

    if (kind && h->submit(h->arg, kind, atomic_load(&i->ctx->uid), &i->trace.tag))
        i->trace.kind = kind;
}

void sg_trace_submit(struct sg_item *i)
{
    static const uint8_t kinds[] = {[SG_WORK_KERNEL] = SOFTGPU_TRACE_KERNEL,
                                    [SG_WORK_COPY] = SOFTGPU_TRACE_COPY,
                                    [SG_WORK_FILL] = SOFTGPU_TRACE_FILL,
                                    [SG_WORK_HOST] = SOFTGPU_TRACE_HOST};
    enum sg_work_kind kind = i->work ? i->work->w.kind : SG_WORK_EMPTY;

    if (kind < sizeof(kinds))
        ask(i, (enum softgpu_trace_kind)kinds[kind]);
}

void sg_trace_node(struct sg_item *i, const struct CUgraphExec_st *x, uint64_t node)
{
    i->trace.graph = x->graph->id;
    i->trace.node = node;
}

void sg_trace_event(struct sg_item *i, const struct CUevent_st *ev)
{
    ask(i, SOFTGPU_TRACE_EVENT);
    i->trace.id = ev->id;
}

void sg_trace_graph(struct sg_item *first, struct sg_item *last, struct CUgraphExec_st *x)
{
    ask(last, SOFTGPU_TRACE_GRAPH);
    if (last->trace.kind) { /* the first only notes the time */
        first->trace.kind = SOFTGPU_TRACE_GRAPH;
        first->trace.first_of = last;
        last->trace.graph = x->graph->id;
    }
}

/* ---- execution ---------------------------------------------------------------------------------
 */

static uint64_t now(void)
{
    const struct softgpu_trace_hooks *h = atomic_load(&listener);

    return h->now(h->arg);
}

static struct softgpu_trace_side side_of(uint64_t addr)
{
    struct softgpu_trace_side side = {.memory = SOFTGPU_MEMORY_PAGEABLE};
    struct sg_rec rec;

    if (!sg_rec_find(addr, &rec))
        return side;
    side.memory = rec.a.kind == SG_ALLOC_MANAGED  ? SOFTGPU_MEMORY_MANAGED
                  : rec.host                      ? SOFTGPU_MEMORY_PINNED
                  : rec.a.kind == SG_ALLOC_MODULE ? SOFTGPU_MEMORY_STATIC
                                                  : SOFTGPU_MEMORY_DEVICE;
    if (rec.a.dev)
        side.device = (uint32_t)rec.a.dev->ordinal;
    if (rec.a.ctx)
        side.context = atomic_load(&rec.a.ctx->uid);
    return side;
}

static int priority_of(const struct sg_kernel_work *k, const struct CUstream_st *s)
{
    for (unsigned n = 0; n < k->nattrs; n++)
        if (k->attrs[n].id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
            return k->attrs[n].value.priority;
    return s->priority;
}

static void describe_kernel(const struct sg_kernel_work *k, const struct CUstream_st *s,
                            struct softgpu_trace_kernel *t)
{
    const struct CUfunc_st *f = k->func;

    *t = (struct softgpu_trace_kernel){
        .name = f->info->name,
        .static_shared = f->info->static_shared,
        .dynamic_shared = k->shared_bytes,
        .regs = sg_function_regs(f->info),
        .local_bytes = f->info->local_bytes,
        .cache_config = f->cache_config,
        .carveout = f->carveout,
        .priority = priority_of(k, s),
        .cluster_policy = f->cluster_policy,
        .cooperative = k->cooperative,
        .carveout_set = f->attrs_set & (1u << CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT),
        .shared_optin = f->attrs_set & (1u << CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)};
    for (unsigned d = 0; d < 3; d++) {
        t->grid[d] = k->grid[d];
        t->block[d] = k->block[d];
        t->cluster[d] = k->cluster[d];
    }
}

/* Memory is looked at before the work runs: another thread may free it as soon as it has. */
static void describe(const struct sg_item *i, struct softgpu_trace_work *t)
{
    const struct sg_work *w = &i->work->w;

    switch (w->kind) {
    case SG_WORK_KERNEL:
        describe_kernel(&w->kernel, i->stream, &t->kernel);
        break;
    case SG_WORK_COPY:
        t->copy.bytes = w->copy.width * w->copy.height * w->copy.depth;
        t->copy.dst = side_of(w->copy.dst);
        t->copy.src = side_of(w->copy.src);
        if (w->copy.staged) /* its source was read when it was submitted */
            t->copy.src = (struct softgpu_trace_side){.memory = SOFTGPU_MEMORY_PAGEABLE};
        break;
    case SG_WORK_FILL:
        t->fill.bytes = w->fill.width * w->fill.height * w->fill.elem;
        t->fill.value = w->fill.value;
        t->fill.dst = side_of(w->fill.dst);
        break;
    default:
        break;
    }
}

void sg_trace_begin(struct sg_item *i, struct softgpu_trace_work *t)
{
    *t = (struct softgpu_trace_work){.kind = i->trace.kind,
                                     .tag = i->trace.tag,
                                     .device = (uint32_t)i->ctx->dev->ordinal,
                                     .context = atomic_load(&i->ctx->uid),
                                     .stream = i->stream->id,
                                     .graph = i->trace.graph,
                                     .node = i->trace.node};
    if (i->work)
        describe(i, t);
    t->start = now();
}

void sg_trace_end(const struct sg_item *i, struct softgpu_trace_work *t, CUresult result)
{
    const struct softgpu_trace_hooks *h = atomic_load(&listener);

    t->end = now();
    if (t->end < t->start) /* a clock of the user's that was set back */
        t->end = t->start;
    t->result = result;
    if (t->kind == SOFTGPU_TRACE_KERNEL) /* kernels run one at a time: it is the newest one */
        t->kernel.grid_id = atomic_load(&i->ctx->dev->launches);
    h->done(h->arg, t);
}

void sg_trace_point(struct sg_item *i)
{
    struct softgpu_trace_work t;

    if (i->trace.first_of) {
        i->trace.first_of->trace.start = now();
        return;
    }
    sg_trace_begin(i, &t);
    if (t.kind == SOFTGPU_TRACE_GRAPH)
        t.start = i->trace.start;
    else
        t.event = (struct softgpu_recorded){(uint32_t)i->trace.id, t.context, i->seq};
    sg_trace_end(i, &t, CUDA_SUCCESS);
}
