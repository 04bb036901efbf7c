/*
 * Hashes behind the nodes of a graph: what they are of, their tickets, and the events of the nodes.
 * Tickets are drawn for each launch; the hashes find them by a word that is set before the launch,
 * in the order of its stream (fp_device.h).
 */
#include <string.h>

#include "recorder/cuda/graph.h"

#define MAX_EDGES 1024u

/* ---------------------------------------------------------------- jobs of a node */

/* What of @w has to be hashed behind the node; false: more than one launch takes. */
static bool jobs_of(const struct tb_cu_work *w, struct tb_cu_graph_job *job, uint32_t *count)
{
    uint32_t n = 0;

    *count = 0;
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

static uint64_t word_of(const struct tb_cu_exec *x)
{
    return x->ctx->bases + (uint64_t)x->base->index * sizeof(uint64_t);
}

static uint32_t fill_batch(const struct tb_cu_exec *x, const struct tb_cu_node *n,
                           const struct tb_cu_graph_job *job, uint32_t jobs, struct tb_fpd_batch *b)
{
    tb_cu_batch_begin(x->ctx, b);
    b->base = word_of(x);
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

/* False: more than its hash has room for; then it is of nothing. */
static bool keep_jobs(struct tb_cu_node *n, const struct tb_cu_graph_job *job, uint32_t jobs)
{
    n->jobs = 0;
    if (jobs > n->room)
        return false;
    if (n->job_room < n->room) {
        tb_cu_lock();
        n->job = tb_cu_small(n->room * sizeof(*n->job));
        tb_cu_unlock();
        n->job_room = n->job ? n->room : 0;
    }
    if (n->job_room < n->room)
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

static bool insert(struct tb_cu_exec *x, CUgraph clone, struct tb_cu_node *n)
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

/* Slots that are kept for a node, in case it has more to hash after a change. */
static uint32_t room_for(uint32_t jobs)
{
    return jobs <= 2 ? 2 : jobs <= TB_FPD_FEW ? TB_FPD_FEW : TB_FPD_MAX;
}

bool tb_cu_graph_add_hash(struct tb_cu_exec *x, CUgraph graph, struct tb_cu_node *n,
                          const struct tb_cu_node *like, struct tb_cu_work *w)
{
    struct tb_cu_graph_job job[TB_FPD_MAX];
    uint32_t jobs = 0;

    if (like ? !like->hash : !tb_cu_node_works(n) || (n->kernel && n->kernel->filtered))
        return true; /* its event says that nothing was hashed */
    look(w, x, n);
    if ((!jobs_of(w, job, &jobs) || !jobs) && !like)
        return true;
    n->room = like ? like->room : room_for(jobs);
    n->slot = like ? like->slot : x->slots;
    if (!like)
        x->slots += n->room;
    return (keep_jobs(n, job, jobs) || like) && insert(x, graph, n);
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

    if (!n->hash)
        return;
    look(w, x, n);
    if (jobs_of(w, job, &jobs) && same_jobs(n, job, jobs))
        return;
    (void)keep_jobs(n, job, jobs);
    CUDA_KERNEL_NODE_PARAMS p = node_params(x, n, fill_batch(x, n, n->job, n->jobs, &b), params);
    if (tb_cu.driver.cuGraphExecKernelNodeSetParams_v2(
            (CUgraphExec)(uintptr_t)x->handle, (CUgraphNode)(uintptr_t)n->hash, &p) != CUDA_SUCCESS)
        x->unsafe = true;
}

static bool set_base(struct tb_cu_exec *x, CUstream stream, bool per_thread, uint64_t value)
{
    struct tb_fpd_base b = {word_of(x), value};

    return tb_cu_launch(x->ctx->set_base, 1, 32, stream, per_thread, &b);
}

/* Two launches at once would share the word. */
static bool alone(struct tb_cu_exec *x, CUstream stream, bool per_thread)
{
    tb_cu_lock();
    struct tb_cu_stream *s = tb_cu_stream(stream, per_thread);
    struct tb_cu_use *last = &x->base->use;
    bool ok = last->clock == 0 || last->stream == s->index || !tb_cu_meet(s, last);
    last->stream = s->index;
    last->clock = s->known.at[s->index] + 1;
    tb_cu_unlock();
    return ok;
}

/* What the user wants to see of this launch. */
static void choose(struct tb_cu_exec *x)
{
    for (struct tb_cu_node *n = x->first; n; n = n->next)
        n->left_out = n->kernel && !n->disabled && !tb_cu_chosen(n->kernel);
}

void tb_cu_graph_launching(struct tb_cu_exec *x, CUstream stream, bool per_thread)
{
    struct tb_cu_work *w = tb_cu_work_new(TB_EV_LAUNCH, "graph", stream, per_thread);
    uint64_t first = 0;
    bool ok = w && !x->lost && tb_cu_ctx() == x->ctx && alone(x, stream, per_thread);

    x->drawn = false;
    x->unsafe = false;
    choose(x);
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
        for (uint32_t i = all || n->disabled || n->left_out ? 0 : n->jobs; i < n->room; i++) {
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
        if (tb_cu_node_works(n) && !n->disabled && !n->left_out)
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
