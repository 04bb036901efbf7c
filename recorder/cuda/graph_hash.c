/*
 * Hashes around the nodes of a graph: what they are of, their tickets, and the events of the nodes.
 * Tickets are drawn for each launch; the hashes find them by a word that is set before the launch,
 * in the order of its stream (fp_device.h).
 */
#include <string.h>

#include "recorder/cuda/graph.h"

#define MAX_EDGES 1024u

/* ---------------------------------------------------------------- jobs of a node */

/* The accesses of @w with @flag; false: more than one launch hashes. */
static bool jobs_of(const struct tb_cu_work *w, uint8_t flag, struct tb_cu_graph_job *job,
                    uint32_t *count)
{
    uint32_t n = 0;

    *count = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & flag) || !tb_cu_may_look(w->ctx, a->alloc))
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

/* How our node is launched; @a, which @params leads to, must live as long. */
static CUDA_KERNEL_NODE_PARAMS node_params(const struct tb_cu_exec *x,
                                           const struct tb_cu_graph_hash *h, struct tb_fpd_alike *a,
                                           void **params)
{
    struct tb_fpd_batch *b = &a->batch;
    CUfunction plain = h->room > TB_FPD_FEW ? x->ctx->batch : x->ctx->few;

    tb_cu_alike(a, tb_cu.config->poison);
    tb_cu_batch_begin(x->ctx, b);
    b->base = word_of(x);
    for (uint32_t i = 0; i < h->jobs; i++)
        b->job[b->jobs++] = (struct tb_fpd_job){.src = h->job[i].address,
                                                .bytes = h->job[i].bytes,
                                                .ticket = h->slot + i,
                                                .rate = h->job[i].rate};
    uint32_t grid = tb_fpd_plan(b, x->ctx->sms);
    *params = a;
    return (CUDA_KERNEL_NODE_PARAMS){.func = tb_cu_fills() && !h->exact ? x->ctx->alike : plain,
                                     .gridDimX = grid ? grid : 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = TB_FPD_THREADS,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

/* False: more than it has room for; then it is of nothing. */
static bool keep_jobs(struct tb_cu_graph_hash *h, const struct tb_cu_graph_job *job, uint32_t jobs)
{
    h->jobs = 0;
    if (jobs > h->room)
        return false;
    if (h->job_room < h->room) {
        tb_cu_lock();
        h->job = tb_cu_small(h->room * sizeof(*h->job));
        tb_cu_unlock();
        h->job_room = h->job ? h->room : 0;
    }
    if (h->job_room < h->room)
        return false;
    memcpy(h->job, job, jobs * sizeof(*job));
    h->jobs = jobs;
    return true;
}

static void accesses_of(struct tb_cu_work *w, const struct tb_cu_exec *x,
                        const struct tb_cu_node *n)
{
    w->cuts = n->cut ? &x->cuts : NULL;
    tb_cu_node_accesses(w, n);
}

void tb_cu_graph_look(struct tb_cu_work *w, const struct tb_cu_exec *x, const struct tb_cu_node *n)
{
    w->n = 0;
    w->hashed = 0;
    w->leaves = false;
    w->ctx = x->ctx;
    tb_cu_lock();
    accesses_of(w, x, n);
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

static bool insert_after(const struct tb_cu_exec *x, CUgraph clone, struct tb_cu_node *n)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUgraphNode next[MAX_EDGES], twin = (CUgraphNode)(uintptr_t)n->twin, hash;
    CUgraphEdgeData edges[MAX_EDGES];
    struct tb_fpd_alike a;
    void *params[1];
    size_t count = MAX_EDGES;

    if (d->cuGraphNodeGetDependentNodes_v2(twin, NULL, NULL, &count) != CUDA_SUCCESS ||
        count > MAX_EDGES)
        return false;
    if (count && d->cuGraphNodeGetDependentNodes_v2(twin, next, edges, &count) != CUDA_SUCCESS)
        return false;
    CUDA_KERNEL_NODE_PARAMS p = node_params(x, &n->after, &a, params);
    if (d->cuGraphAddKernelNode_v2(&hash, clone, &twin, 1, &p) != CUDA_SUCCESS)
        return false;
    n->after.node = HANDLE(hash);
    return add_edges(clone, hash, next, count);
}

/* Before the node, and behind all that it waits for. */
static bool insert_before(const struct tb_cu_exec *x, CUgraph clone, struct tb_cu_node *n)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUgraphNode last[MAX_EDGES], twin = (CUgraphNode)(uintptr_t)n->twin, hash;
    CUgraphEdgeData edges[MAX_EDGES];
    struct tb_fpd_alike a;
    void *params[1];
    size_t count = MAX_EDGES;

    if (d->cuGraphNodeGetDependencies_v2(twin, NULL, NULL, &count) != CUDA_SUCCESS ||
        count > MAX_EDGES)
        return false;
    if (count && d->cuGraphNodeGetDependencies_v2(twin, last, edges, &count) != CUDA_SUCCESS)
        return false;
    CUDA_KERNEL_NODE_PARAMS p = node_params(x, &n->before, &a, params);
    if (d->cuGraphAddKernelNode_v2(&hash, clone, last, count, &p) != CUDA_SUCCESS)
        return false;
    n->before.node = HANDLE(hash);
    return add_edges(clone, hash, &twin, 1);
}

bool tb_cu_graph_add_moved(const struct tb_cu_exec *x, CUgraph graph, struct tb_cu_node *n,
                           const CUgraphNode *node, uint32_t behind, uint32_t count)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUgraphNode next[TB_CU_PLACE], hash;
    struct tb_fpd_alike a;
    void *params[1];

    memcpy(next, node + behind, (count - behind) * sizeof(*node));
    CUDA_KERNEL_NODE_PARAMS p = node_params(x, &n->after, &a, params);
    if (d->cuGraphAddKernelNode_v2(&hash, graph, node, behind, &p) != CUDA_SUCCESS)
        return false;
    n->after.node = HANDLE(hash);
    return add_edges(graph, hash, next, count - behind);
}

/* Slots that are kept for a node, in case it has more to hash after a change. */
static uint32_t room_for(uint32_t jobs)
{
    return jobs <= 2 ? 2 : jobs <= TB_FPD_FEW ? TB_FPD_FEW : TB_FPD_MAX;
}

/* Is there to be a hash of the accesses of @w with @flag? */
static bool plan(struct tb_cu_exec *x, struct tb_cu_graph_hash *h,
                 const struct tb_cu_graph_hash *like, const struct tb_cu_work *w, uint8_t flag)
{
    struct tb_cu_graph_job job[TB_FPD_MAX];
    uint32_t jobs;
    bool fits = jobs_of(w, flag, job, &jobs);

    if (like ? !like->node : !fits || !jobs)
        return false; /* its event says that nothing was hashed */
    h->room = like ? like->room : room_for(jobs);
    h->slot = like ? like->slot : x->slots;
    h->exact = w->leaves;
    if (!like)
        x->slots += h->room;
    return keep_jobs(h, job, jobs) || like;
}

bool tb_cu_graph_add_hashes(struct tb_cu_exec *x, CUgraph graph, struct tb_cu_node *n,
                            const struct tb_cu_node *like, struct tb_cu_work *w)
{
    w->n = 0;
    if (tb_cu_node_works(n) && !(n->kernel && n->kernel->filtered))
        tb_cu_graph_look(w, x, n);
    if (plan(x, &n->before, like ? &like->before : NULL, w, TB_CU_BEFORE) &&
        !insert_before(x, graph, n))
        return false;
    bool wanted = plan(x, &n->after, like ? &like->after : NULL, w, TB_CU_HASH);
    n->after.moved = wanted && (like ? like->after.moved : n->after.moved);
    return !wanted || n->after.moved || insert_after(x, graph, n);
}

/* ---------------------------------------------------------------- launches */

/* The job has changed the node, or its memory is other memory by now: so must its hash be. */
static void follow_one(struct tb_cu_exec *x, struct tb_cu_graph_hash *h, const struct tb_cu_work *w,
                       uint8_t flag)
{
    struct tb_cu_graph_job job[TB_FPD_MAX];
    struct tb_fpd_alike a;
    void *params[1];
    uint32_t jobs;

    if (!h->node || (jobs_of(w, flag, job, &jobs) && h->jobs == jobs &&
                     memcmp(h->job, job, jobs * sizeof(*job)) == 0))
        return;
    (void)keep_jobs(h, job, jobs);
    h->exact = w->leaves;
    CUDA_KERNEL_NODE_PARAMS p = node_params(x, h, &a, params);
    if (tb_cu.driver.cuGraphExecKernelNodeSetParams_v2(
            (CUgraphExec)(uintptr_t)x->handle, (CUgraphNode)(uintptr_t)h->node, &p) != CUDA_SUCCESS)
        x->why = "a hash in a graph could not be changed with its node";
}

static void follow(struct tb_cu_exec *x, struct tb_cu_node *n, struct tb_cu_work *w)
{
    if (!n->before.node && !n->after.node)
        return;
    tb_cu_graph_look(w, x, n);
    follow_one(x, &n->before, w, TB_CU_BEFORE);
    follow_one(x, &n->after, w, TB_CU_HASH);
}

static void follow_all(struct tb_cu_exec *x, struct tb_cu_work *w)
{
    tb_cu_lock();
    uint64_t changes = tb_cu.alloc_changes + tb_cu.versions;
    tb_cu_unlock();
    if (x->seen == changes && !x->changed)
        return;
    tb_cu_graph_part(x, w, false);
    for (struct tb_cu_node *n = x->first; !x->why && n; n = n->next)
        follow(x, n, w);
    x->seen = changes;
    x->changed = x->why != NULL;
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

/* Slots that belong to no access would never be taken. */
static void give_back_of(const struct tb_cu_exec *x, const struct tb_cu_graph_hash *h, bool all)
{
    for (uint32_t i = all ? 0 : h->jobs; i < h->room; i++)
        tb_cu_undraw(x->ctx, x->ticket + h->slot + i);
}

static void give_back(const struct tb_cu_exec *x, bool all)
{
    for (const struct tb_cu_node *n = x->first; n; n = n->next) {
        give_back_of(x, &n->before, all || n->disabled || n->left_out);
        give_back_of(x, &n->after, all || n->disabled || n->left_out);
    }
}

static void draw(struct tb_cu_exec *x, CUstream stream, bool per_thread)
{
    tb_cu_await_slots(x->ctx, x->slots);
    tb_cu_lock();
    x->drawn = tb_cu_draw(x->ctx, x->slots, &x->ticket);
    tb_cu_unlock();
    if (!x->drawn) {
        x->why = "the table of fingerprints is full: the device lags far behind";
    } else if (!set_base(x, stream, per_thread, x->ticket + 1)) {
        x->why = "the hash could not be launched";
        give_back(x, true);
        x->drawn = false;
    }
}

/* The context that @stream is of is current until tb_cu_return(). */
static void visit(CUstream stream, bool per_thread, struct tb_cu_visit *v)
{
    tb_cu_where();
    tb_cu_lock();
    const struct tb_cu_stream *s = tb_cu_stream(stream, per_thread);
    CUcontext context = s->context;
    tb_cu_unlock();
    tb_cu_visit(context, v);
}

/* Why nodes cannot be hashed in this launch, NULL: they can. The stream's context is current. */
static const char *refusal(struct tb_cu_exec *x, CUstream stream, bool per_thread)
{
    if (x->lost)
        return "the graph was updated in a way that was not followed";
    if (tb_cu_ctx() != x->ctx)
        return "a graph that was made in another context";
    return alone(x, stream, per_thread) ? NULL : "a graph that was launched by two streams at once";
}

void tb_cu_graph_launching(struct tb_cu_exec *x, CUstream stream, bool per_thread)
{
    struct tb_cu_work *w = tb_cu_work_new(TB_EV_LAUNCH, "graph", stream, per_thread);
    struct tb_cu_visit v;

    visit(stream, per_thread, &v);
    x->drawn = false;
    x->why = refusal(x, stream, per_thread);
    choose(x);
    if (!w)
        x->why = "no memory";
    else if (!x->why)
        follow_all(x, w);
    tb_cu_work_drop(w);
    if (!x->why)
        draw(x, stream, per_thread);
    tb_cu_return(&v);
}

/* The ticket of an access that was hashed as it is described now; false: it was not. */
static bool ticket_of(const struct tb_cu_exec *x, const struct tb_cu_graph_hash *h,
                      struct tb_cu_access *a)
{
    for (uint32_t i = 0; x->drawn && i < h->jobs; i++) {
        const struct tb_cu_graph_job *j = &h->job[i];
        if (j->ordinal != a->ordinal || j->address != a->alloc->base + a->offset ||
            j->bytes != a->bytes)
            continue;
        a->ticket = x->ticket + h->slot + i;
        a->table = x->ctx->table;
        a->rate = j->rate;
        return true;
    }
    return false;
}

/* Tickets for the accesses of a node's event. Under the lock. */
static void claim(const struct tb_cu_exec *x, const struct tb_cu_node *n, struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (a->flags & TB_CU_BEFORE)
            (void)ticket_of(x, &n->before, a);
        else if ((a->flags & TB_CU_HASH) && !ticket_of(x, &n->after, a))
            w->missing = x->why ? x->why : "a node of a graph that was not hashed in this launch";
    }
}

/* Is what a copy brings to the host hashed before it, and may another node, or a stream that is not
 * the graph's, write it between the two? Under the lock. */
static bool is_left_torn(const struct tb_cu_work *w, const struct tb_cu_node *n)
{
    for (uint32_t i = 0; w->leaves && i < w->n; i++)
        if ((w->access[i].flags & TB_CU_BEFORE) &&
            (n->before.torn || tb_cu_unordered(w, &w->access[i])))
            return true;
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
    w->torn_here = n->before.torn || n->after.torn;
    tb_cu_detail(w, "\tgraph=1%s%s", w->torn_here ? "\ttorn=1" : "",
                 n->after.moved ? "\tseveral=1" : "");
    tb_cu_lock();
    w->order = tb_cu_stream(stream, per_thread);
    accesses_of(w, x, n);
    tb_cu_split_uses(w, false);
    claim(x, n, w);
    w->left_torn = is_left_torn(w, n);
    w->exact = w->leaves;
    tb_cu_unlock();
    if (tb_cu_snapshot_due(w)) /* counted as it is named */
        tb_cu_cover(1, TB_REC_NO_SEQ, "snapshot", name,
                    "a node of a graph: its bytes are not kept");
    tb_cu_work_ordered(w);
}

void tb_cu_graph_nodes_launched(struct tb_cu_exec *x, CUstream stream, bool per_thread, bool ok)
{
    struct tb_cu_visit v;

    if (x->drawn) {
        visit(stream, per_thread, &v);
        (void)set_base(x, stream, per_thread, 0);
        tb_cu_return(&v);
        give_back(x, !ok);
    }
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
