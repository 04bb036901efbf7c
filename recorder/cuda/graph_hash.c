/*
 * Nodes of a graph, hashed one by one. What the job instantiates is a clone of its graph, with a
 * hash behind each node that writes: the job's own graph keeps the nodes it has made, and calls
 * that name one of them are led to its twin. Tickets are drawn for each launch; the hashes find
 * them by a word that is set before the launch, in the order of its stream (fp_device.h). Only a
 * front end that can change arguments (the shim) does this; otherwise, and where a graph cannot be
 * cloned, the graph is hashed as a whole.
 */
#include <string.h>

#include "recorder/cuda/engine.h"

#define MAX_EDGES 1024u

/* What all calls that name an executable graph and a node begin with. */
struct exec_and_node {
    CUgraphExec exec;
    CUgraphNode node;
};

/* And all that make or update one: the graph is the second argument. */
struct exec_and_graph {
    void *exec;
    CUgraph graph;
};

/* ---------------------------------------------------------------- jobs of a node */

/* What of @w has to be hashed behind the node; false: more than one launch takes. */
static bool jobs_of(const struct tb_cu_work *w, struct tb_cu_graph_job *job, uint32_t *count)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & TB_CU_HASH) || !tb_cu_may_look(w->ctx, a->alloc))
            continue;
        if (n == TB_FPD_MAX)
            return false;
        job[n++] =
            (struct tb_cu_graph_job){a->ordinal, a->alloc->base + a->offset, a->bytes, a->rate};
    }
    *count = n;
    return true;
}

static uint32_t fill_batch(const struct tb_cu_exec *x, const struct tb_cu_node *n,
                           const struct tb_cu_graph_job *job, uint32_t jobs, struct tb_fpd_batch *b)
{
    tb_cu_batch_begin(x->ctx, b);
    b->base = x->ctx->bases + (uint64_t)x->base * sizeof(uint64_t);
    for (uint32_t i = 0; i < jobs; i++)
        b->job[b->jobs++] = (struct tb_fpd_job){.src = job[i].address,
                                                .bytes = job[i].bytes,
                                                .ticket = n->slot + i,
                                                .rate = job[i].rate};
    return tb_fpd_plan(b, x->ctx->sms);
}

static CUDA_KERNEL_NODE_PARAMS node_params(const struct tb_cu_exec *x, const struct tb_cu_node *n,
                                           uint32_t grid, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = n->room > TB_FPD_FEW ? x->ctx->batch : x->ctx->few,
                                     .gridDimX = grid ? grid : 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = TB_FPD_THREADS,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static bool keep_jobs(struct tb_cu_node *n, const struct tb_cu_graph_job *job, uint32_t jobs)
{
    if (jobs > n->room)
        return false;
    memcpy(n->job, job, jobs * sizeof(*job));
    n->jobs = jobs;
    return true;
}

/* The accesses of a node, into a work that is nobody's event. */
static void look(struct tb_cu_work *w, struct tb_cu_exec *x, const struct tb_cu_node *n)
{
    w->n = 0;
    w->hashed = 0;
    w->ctx = x->ctx;
    tb_cu_lock();
    tb_cu_node_accesses(w, n);
    tb_cu_unlock();
}

/* ---------------------------------------------------------------- instrumenting */

static bool have_calls(void)
{
    const struct tb_cu_driver *d = &tb_cu.driver;

    return d->cuGraphClone && d->cuGraphNodeFindInClone && d->cuGraphAddKernelNode_v2 &&
           d->cuGraphAddDependencies_v2 && d->cuGraphNodeGetDependentNodes_v2 &&
           d->cuGraphDestroy && d->cuGraphExecKernelNodeSetParams_v2;
}

/* What comes after the node comes after its hash, too: it might write there. */
static bool add_edges(CUgraph clone, CUgraphNode hash, CUgraphNode *next, size_t count)
{
    CUgraphNode from[64];

    for (size_t i = 0; i < 64; i++)
        from[i] = hash;
    for (size_t at = 0; at < count; at += 64) {
        size_t n = count - at < 64 ? count - at : 64;
        if (tb_cu.driver.cuGraphAddDependencies_v2(clone, from, next + at, NULL, n) != CUDA_SUCCESS)
            return false;
    }
    return true;
}

static bool add_hash(struct tb_cu_exec *x, CUgraph clone, struct tb_cu_node *n)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUgraphNode next[MAX_EDGES], twin = (CUgraphNode)(uintptr_t)n->twin, hash;
    CUgraphEdgeData edges[MAX_EDGES];
    struct tb_fpd_batch b;
    void *params[] = {&b};
    size_t count = MAX_EDGES;

    if (d->cuGraphNodeGetDependentNodes_v2(twin, NULL, NULL, &count) != CUDA_SUCCESS ||
        count > MAX_EDGES)
        return false;
    if (count && d->cuGraphNodeGetDependentNodes_v2(twin, next, edges, &count) != CUDA_SUCCESS)
        return false;
    CUDA_KERNEL_NODE_PARAMS p = node_params(x, n, fill_batch(x, n, n->job, n->jobs, &b), params);
    if (d->cuGraphAddKernelNode_v2(&hash, clone, &twin, 1, &p) != CUDA_SUCCESS)
        return false;
    n->hash = HANDLE(hash);
    return add_edges(clone, hash, next, count);
}

/* A twin, and where it writes a hash behind it. */
static bool instrument(struct tb_cu_exec *x, CUgraph clone, struct tb_cu_node *n,
                       struct tb_cu_work *w)
{
    struct tb_cu_graph_job job[TB_FPD_MAX];
    CUgraphNode twin;
    uint32_t jobs = 0;

    if (tb_cu.driver.cuGraphNodeFindInClone(&twin, (CUgraphNode)(uintptr_t)n->handle, clone) !=
        CUDA_SUCCESS)
        return false;
    n->twin = HANDLE(twin);
    if (!tb_cu_node_works(n))
        return true;
    look(w, x, n);
    if (!jobs_of(w, job, &jobs) || !jobs)
        return true; /* its event says that nothing was hashed */
    n->room = jobs <= TB_FPD_FEW ? TB_FPD_FEW : TB_FPD_MAX;
    tb_cu_lock();
    n->job = tb_cu_small(n->room * sizeof(*n->job));
    tb_cu_unlock();
    if (!n->job || !keep_jobs(n, job, jobs))
        return false;
    n->slot = x->slots;
    x->slots += n->room;
    return add_hash(x, clone, n);
}

static bool instrument_all(struct tb_cu_exec *x, CUgraph clone)
{
    struct tb_cu_work *w = tb_cu_work_new(TB_EV_LAUNCH, "graph", NULL, false);
    bool ok = w != NULL;

    for (struct tb_cu_node *n = x->first; ok && n; n = n->next)
        ok = instrument(x, clone, n, w);
    tb_cu_work_drop(w);
    return ok && x->slots && x->slots <= TB_CU_SLOTS / 4;
}

static uint32_t new_base(void)
{
    tb_cu_lock();
    uint32_t base = tb_cu.bases < TB_FPD_BASES ? tb_cu.bases++ : TB_FPD_BASES;
    tb_cu_unlock();
    return base;
}

/*
 * A clone of @graph with hashes, described by *@out; NULL: the graph is hashed as a whole. @base:
 * that of the exec it is to update, or TB_FPD_BASES for one of its own.
 */
static CUgraph prepare(CUgraph graph, uint32_t base, struct tb_cu_exec **out)
{
    struct tb_cu_ctx *c = have_calls() ? tb_cu_ctx() : NULL;
    struct tb_cu_exec *x = c && c->bases ? tb_cu_exec_describe(graph) : NULL;
    CUgraph clone = NULL;

    if (!x)
        return NULL;
    x->ctx = c;
    x->base = x->partial || x->nested ? TB_FPD_BASES : base < TB_FPD_BASES ? base : new_base();
    if (x->base < TB_FPD_BASES && tb_cu.driver.cuGraphClone(&clone, graph) == CUDA_SUCCESS &&
        instrument_all(x, clone)) {
        *out = x;
        return clone;
    }
    if (clone)
        (void)tb_cu.driver.cuGraphDestroy(clone);
    tb_cu_exec_drop(x);
    return NULL;
}

/* ---------------------------------------------------------------- calls that make or change one */

/* The clone was refused: the graph itself may not be, and the job must have it. */
static int again(const struct tb_cuda_call *c)
{
    void *fn = tb_cu.front->symbol(tb_cuda_id_name(c->id));

    switch (fn ? c->id : 0) {
    case TB_CUDA_cuGraphInstantiate:
    case TB_CUDA_cuGraphInstantiate_v2: {
        const struct tb_cuGraphInstantiate_v2_params *p = c->params;
        return (int)((__typeof__(&cuGraphInstantiate_v2))fn)(
            p->phGraphExec, p->hGraph, p->phErrorNode, p->logBuffer, p->bufferSize);
    }
    case TB_CUDA_cuGraphInstantiateWithFlags: {
        const struct tb_cuGraphInstantiateWithFlags_params *p = c->params;
        return (int)((__typeof__(&cuGraphInstantiateWithFlags))fn)(p->phGraphExec, p->hGraph,
                                                                   p->flags);
    }
    case TB_CUDA_cuGraphInstantiateWithParams:
    case TB_CUDA_cuGraphInstantiateWithParams_ptsz: {
        const struct tb_cuGraphInstantiateWithParams_params *p = c->params;
        return (int)((__typeof__(&cuGraphInstantiateWithParams))fn)(p->phGraphExec, p->hGraph,
                                                                    p->instantiateParams);
    }
    default:
        return c->result;
    }
}

/* What a call that is under way has changed. */
struct changed {
    struct tb_cu_exec *exec; /* described, with its clone */
    CUgraph graph, clone;
};

static void change_graph(struct tb_cuda_call *c, uint32_t base)
{
    struct exec_and_graph *p = c->change;
    struct tb_cu_exec *x = NULL;
    CUgraph clone = prepare(p->graph, base, &x);
    struct changed *k;

    if (!clone)
        return;
    tb_cu_lock();
    k = tb_cu_small(sizeof(*k));
    tb_cu_unlock();
    if (!k) {
        (void)tb_cu.driver.cuGraphDestroy(clone);
        tb_cu_exec_drop(x);
        return;
    }
    *k = (struct changed){x, p->graph, clone};
    p->graph = clone;
    *c->user = HANDLE(k);
}

void tb_cu_graph_instantiating(struct tb_cuda_call *c)
{
    if (c->change && tb_cu.config->level >= TB_LEVEL_OP)
        change_graph(c, TB_FPD_BASES);
}

bool tb_cu_graph_instantiated(struct tb_cuda_call *c)
{
    struct changed *k = (struct changed *)(uintptr_t)*c->user;
    struct exec_and_graph *p = c->change;

    if (!k)
        return false;
    p->graph = k->graph;
    if (c->result == CUDA_SUCCESS) {
        k->exec->clone = k->clone;
        tb_cu_exec_register(k->exec, HANDLE(*(CUgraphExec *)p->exec));
        return true;
    }
    (void)tb_cu.driver.cuGraphDestroy(k->clone);
    tb_cu_exec_drop(k->exec);
    c->result = again(c);
    return false;
}

void tb_cu_graph_updating(struct tb_cuda_call *c, struct tb_cu_exec *x)
{
    if (c->change && x->clone)
        change_graph(c, x->base);
}

/* Handles that only the clone has must not reach the job. */
static void lead_back(const struct tb_cu_exec *x, CUgraphNode *node)
{
    for (const struct tb_cu_node *n = x->first; node && *node && n; n = n->next)
        if (n->twin == HANDLE(*node) || n->hash == HANDLE(*node)) {
            *node = (CUgraphNode)(uintptr_t)n->handle;
            return;
        }
}

/* Nodes are those of the first graph for the driver: their twins and hashes stay. */
static void take_over(struct tb_cu_exec *x, struct tb_cu_exec *from)
{
    struct tb_cu_node *old = x->first, *n = from->first;

    for (; old && n; old = old->next, n = n->next) {
        n->twin = old->twin;
        n->hash = old->hash;
        n->alias = old->handle;
    }
    tb_cu_exec_exchange(x, from);
}

bool tb_cu_graph_updated(struct tb_cuda_call *c, struct tb_cu_exec *x)
{
    struct changed *k = (struct changed *)(uintptr_t)*c->user;
    struct exec_and_graph *p = c->change;

    if (!k)
        return false;
    p->graph = k->graph;
    if (c->id == TB_CUDA_cuGraphExecUpdate_v2) {
        const struct tb_cuGraphExecUpdate_v2_params *q = c->params;
        if (q->resultInfo) {
            lead_back(k->exec, &q->resultInfo->errorNode);
            lead_back(k->exec, &q->resultInfo->errorFromNode);
        }
    } else {
        const struct tb_cuGraphExecUpdate_params *q = c->params;
        lead_back(k->exec, q->hErrorNode_out);
    }
    if (c->result == CUDA_SUCCESS)
        take_over(x, k->exec);
    (void)tb_cu.driver.cuGraphDestroy(k->clone);
    tb_cu_exec_drop(k->exec);
    return true;
}

void tb_cu_graph_node_enter(struct tb_cuda_call *c, struct tb_cu_exec *x)
{
    struct exec_and_node *p = c->change;
    struct tb_cu_node *n = p && x->clone ? tb_cu_exec_node(x, HANDLE(p->node)) : NULL;

    if (!n || !n->twin)
        return;
    *c->user = HANDLE(p->node);
    p->node = (CUgraphNode)(uintptr_t)n->twin;
}

void tb_cu_graph_node_exit(struct tb_cuda_call *c)
{
    struct exec_and_node *p = c->change;

    if (p && *c->user)
        p->node = (CUgraphNode)(uintptr_t)*c->user;
}

/* ---------------------------------------------------------------- launches */

static bool same_jobs(const struct tb_cu_node *n, const struct tb_cu_graph_job *job, uint32_t jobs)
{
    return n->jobs == jobs && memcmp(n->job, job, jobs * sizeof(*job)) == 0;
}

/* The job has changed the node, or its memory is other memory by now: so must its hash be. */
static void follow(struct tb_cu_exec *x, struct tb_cu_node *n, struct tb_cu_work *w)
{
    struct tb_cu_graph_job job[TB_FPD_MAX];
    struct tb_fpd_batch b;
    void *params[] = {&b};
    uint32_t jobs = 0;

    look(w, x, n);
    if (!n->hash || (jobs_of(w, job, &jobs) && same_jobs(n, job, jobs)))
        return;
    if (!keep_jobs(n, job, jobs))
        n->jobs = 0; /* more than its hash has room for: none, and its event says so */
    CUDA_KERNEL_NODE_PARAMS p = node_params(x, n, fill_batch(x, n, n->job, n->jobs, &b), params);
    if (tb_cu.driver.cuGraphExecKernelNodeSetParams_v2(
            (CUgraphExec)(uintptr_t)x->handle, (CUgraphNode)(uintptr_t)n->hash, &p) != CUDA_SUCCESS)
        x->unsafe = true;
}

static bool set_base(struct tb_cu_exec *x, CUstream stream, bool per_thread, uint64_t value)
{
    struct tb_fpd_base b = {x->ctx->bases + (uint64_t)x->base * sizeof(uint64_t), value};

    return tb_cu_launch(x->ctx->set_base, 1, 32, stream, per_thread, &b);
}

/* Two launches at once would share the word. */
static bool alone(struct tb_cu_exec *x, CUstream stream, bool per_thread)
{
    tb_cu_lock();
    struct tb_cu_stream *s = tb_cu_stream(stream, per_thread);
    bool ok = x->use.clock == 0 || x->use.stream == s->index || !tb_cu_meet(s, &x->use);
    x->use.stream = s->index;
    x->use.clock = s->known.at[s->index] + 1;
    tb_cu_unlock();
    return ok;
}

void tb_cu_graph_launching(struct tb_cu_exec *x, CUstream stream, bool per_thread)
{
    struct tb_cu_work *w = tb_cu_work_new(TB_EV_LAUNCH, "graph", stream, per_thread);
    uint64_t first = 0;
    bool ok = w && tb_cu_ctx() == x->ctx && alone(x, stream, per_thread);

    x->drawn = false;
    x->unsafe = false;
    for (struct tb_cu_node *n = x->first; ok && n; n = n->next)
        follow(x, n, w);
    tb_cu_work_drop(w);
    if (!ok || x->unsafe)
        return;
    tb_cu_lock();
    x->drawn = tb_cu_draw(x->ctx, x->slots, &first);
    tb_cu_unlock();
    x->ticket = first;
    if (x->drawn && !set_base(x, stream, per_thread, first + 1))
        x->drawn = false;
}

/* The ticket of an access that was hashed as it is described now; false: it was not. */
static bool ticket_of(const struct tb_cu_exec *x, const struct tb_cu_node *n,
                      struct tb_cu_access *a)
{
    for (uint32_t i = 0; x->drawn && i < n->jobs; i++) {
        const struct tb_cu_graph_job *j = &n->job[i];
        if (j->ordinal != a->ordinal || j->address != a->alloc->base + a->offset ||
            j->bytes != a->bytes)
            continue;
        a->ticket = x->ticket + n->slot + i;
        a->table = x->ctx->table;
        a->rate = j->rate;
        return true;
    }
    return false;
}

static void write_node(struct tb_cu_exec *x, const struct tb_cu_node *n, CUstream stream,
                       bool per_thread)
{
    const char *name = n->kernel ? n->kernel->name : n->src_bytes ? "copy" : "set";
    uint8_t kind = n->kernel ? TB_EV_LAUNCH : n->src_bytes ? TB_EV_COPY : TB_EV_SET;
    struct tb_cu_work *w = tb_cu_work_new(kind, name, stream, per_thread);

    if (!w)
        return;
    w->kernel = n->kernel;
    memcpy(w->shape.grid, n->grid, sizeof(w->shape.grid));
    memcpy(w->shape.block, n->block_dim, sizeof(w->shape.block));
    w->shape.shared = n->shared;
    tb_cu_detail(w, "\tgraph=1");
    tb_cu_lock();
    w->order = tb_cu_stream(stream, per_thread);
    tb_cu_node_accesses(w, n);
    for (uint32_t i = 0; i < w->n; i++)
        if ((w->access[i].flags & TB_CU_HASH) && !ticket_of(x, n, &w->access[i]))
            w->missing = "a node of a graph that was not hashed in this launch";
    tb_cu_unlock();
    tb_cu_work_ordered(w);
}

/* Slots that belong to no access would never be taken. */
static void give_back(struct tb_cu_exec *x, bool all)
{
    for (struct tb_cu_node *n = x->first; n; n = n->next)
        for (uint32_t i = all || n->disabled ? 0 : n->jobs; i < n->room; i++) {
            uint64_t t = x->ticket + n->slot + i;
            __atomic_store_n(&x->ctx->slot[t & (TB_CU_SLOTS - 1)].taken, t + 1, __ATOMIC_RELEASE);
        }
}

void tb_cu_graph_nodes_launched(struct tb_cu_exec *x, CUstream stream, bool per_thread, bool ok)
{
    if (x->drawn)
        (void)set_base(x, stream, per_thread, 0);
    if (x->drawn)
        give_back(x, !ok);
    if (!ok)
        return;
    for (const struct tb_cu_node *n = x->first; n; n = n->next)
        if (tb_cu_node_works(n) && !n->disabled)
            write_node(x, n, stream, per_thread);
}

void tb_cu_graphs_release(const struct tb_cu_ctx *c)
{
    for (uint32_t i = 0; i < tb_cu.execs.capacity; i++) {
        uint64_t key = tb_cu.execs.slot[i].key;
        struct tb_cu_exec *x = key ? tb_cu_map_get(&tb_cu.execs, key) : NULL;
        if (x && x->clone && x->ctx == c)
            (void)tb_cu.driver.cuGraphDestroy(x->clone);
        if (x)
            x->clone = NULL;
    }
}

bool tb_cu_graphs_hash(const struct tb_cu_ctx *c)
{
    for (uint32_t i = 0; i < tb_cu.execs.capacity; i++) {
        uint64_t key = tb_cu.execs.slot[i].key;
        const struct tb_cu_exec *x = key ? tb_cu_map_get(&tb_cu.execs, key) : NULL;
        if (x && x->clone && x->ctx == c)
            return true;
    }
    return false;
}
