/* CUDA graphs: the calls that make, change and launch executable ones, and the event of a launch.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "recorder/cuda/graph.h"

/* ---------------------------------------------------------------- executable graphs */

struct tb_cu_exec *tb_cu_exec_of(CUgraphExec handle)
{
    tb_cu_lock();
    struct tb_cu_exec *x = tb_cu_map_get(&tb_cu.execs, HANDLE(handle));
    tb_cu_unlock();
    return x;
}

struct tb_cu_exec *tb_cu_exec_new(void)
{
    tb_cu_lock();
    struct tb_cu_exec *x = tb_cu.free_execs;
    if (x)
        tb_cu.free_execs = x->next_free;
    else
        x = tb_cu_small(sizeof(*x));
    if (x)
        *x = (struct tb_cu_exec){.last = &x->first};
    tb_cu_unlock();
    return x;
}

/* The word may still be read by a launch under way: the others come first. Under the lock. */
static void base_free(struct tb_cu_base *b)
{
    if (!b)
        return;
    if (!tb_cu.free_bases)
        tb_cu.last_base = &tb_cu.free_bases;
    b->next = NULL;
    *tb_cu.last_base = b;
    tb_cu.last_base = &b->next;
}

void tb_cu_exec_drop(struct tb_cu_exec *x)
{
    if (!x)
        return;
    tb_cu_nodes_clear(x);
    tb_cu_lock();
    base_free(x->base);
    x->next_free = tb_cu.free_execs;
    tb_cu.free_execs = x;
    tb_cu_unlock();
}

void tb_cu_exec_register(struct tb_cu_exec *x, uint64_t handle)
{
    tb_cu_lock();
    struct tb_cu_exec *before = tb_cu_map_take(&tb_cu.execs, handle);
    x->handle = handle;
    (void)tb_cu_map_put(&tb_cu.execs, handle, x);
    tb_cu_unlock();
    tb_cu_exec_drop(before);
}

static void destroyed(CUgraphExec handle)
{
    tb_cu_lock();
    struct tb_cu_exec *x = tb_cu_map_take(&tb_cu.execs, HANDLE(handle));
    tb_cu_unlock();
    if (x && x->clone && tb_cu_tls.may_call)
        (void)tb_cu.driver.cuGraphDestroy(x->clone);
    tb_cu_exec_drop(x);
}

/* Is each node hashed by itself? */
static bool by_node(const struct tb_cu_exec *x)
{
    return x->clone && !x->lost;
}

/* ---------------------------------------------------------------- graphs that are hashed as a
 * whole */

static void look_into(uint64_t handle, uint64_t graph)
{
    struct tb_cu_exec *x = tb_cu_exec_of((CUgraphExec)(uintptr_t)handle);

    if (x)
        tb_cu_nodes_collect(x, (CUgraph)(uintptr_t)graph);
}

static void instantiated(CUgraphExec handle, CUgraph graph)
{
    struct tb_cu_exec *x = tb_cu_exec_new();

    if (!x)
        return;
    tb_cu_exec_register(x, HANDLE(handle));
    tb_cu_late(look_into, HANDLE(handle), HANDLE(graph));
}

static void look_again(uint64_t handle, uint64_t graph)
{
    struct tb_cu_exec *x = tb_cu_exec_of((CUgraphExec)(uintptr_t)handle), *y;

    y = x ? tb_cu_exec_new() : NULL;
    if (!y)
        return;
    tb_cu_nodes_collect(y, (CUgraph)(uintptr_t)graph);
    x->partial = y->partial || !tb_cu_nodes_pair(x->first, NULL, y->first, 0);
    for (struct tb_cu_node *n = x->first, *from = y->first; n && !x->partial; n = n->next) {
        tb_cu_node_adopt(n, from);
        from = from->next;
    }
    tb_cu_exec_drop(y);
}

static void updated(struct tb_cu_exec *x, CUgraph graph)
{
    x->partial = true; /* until it has been looked into */
    if (x->clone)      /* it has hashes of what it was before */
        x->lost = true;
    else
        tb_cu_late(look_again, x->handle, HANDLE(graph));
}

/* Why it is: what CUDA does not clone cannot have hashes added, nor can what a callback sees. */
static const char *whole_because(const struct tb_cu_exec *x)
{
    if (x->memory)
        return "hashed as a whole, not node by node: it has memory nodes, and cannot be cloned";
    if (x->conditional)
        return "hashed as a whole, not node by node: it has conditional nodes, and cannot be "
               "cloned";
    return "hashed as a whole, not node by node";
}

static void say_whole(const struct tb_cu_exec *x)
{
    tb_cu_cover(0, TB_REC_NO_SEQ, "cuda", "graph", whole_because(x));
    if (x->memory)
        tb_cu_fill_none("memory that a graph allocates");
    for (const struct tb_cu_node *n = x->first; n; n = n->next)
        if (n->kernel && n->kernel->filtered && !n->disabled)
            (void)tb_cu_chosen(n->kernel);
}

static const char *missing_of(const struct tb_cu_exec *x)
{
    bool works = false, frees = false;

    for (const struct tb_cu_node *n = x->first; n; n = n->next) {
        works |= tb_cu_node_works(n);
        frees |= n->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
    }
    if (x->conditional)
        return "conditional nodes: what their graphs do is not known";
    if (x->lost || !tb_cu_nodes_known(x))
        return "nodes of the graph could not be looked into";
    return works && frees ? "memory that a graph frees cannot be hashed behind it" : NULL;
}

/* Memory of other graphs, or of earlier launches, that a launch frees. */
static void forget_memory(const struct tb_cu_exec *x)
{
    tb_cu_lock();
    for (const struct tb_cu_node *n = x->first; n; n = n->next)
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            tb_cu_alloc_remove(n->dst);
    tb_cu_unlock();
}

/* Memory that a launch has left behind. */
static void learn_memory(const struct tb_cu_exec *x)
{
    tb_cu_here();
    tb_cu_lock();
    for (const struct tb_cu_node *n = x->first; n; n = n->next)
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !n->freed)
            tb_cu_alloc_add(n->dst, n->dst_bytes, n->device, TB_CU_DEVICE);
    tb_cu_unlock();
}

/* ---------------------------------------------------------------- launches */

/* Under the lock. */
static void add_nodes(struct tb_cu_work *w, const struct tb_cu_exec *x)
{
    uint64_t args = 0x9a;

    for (const struct tb_cu_node *n = x->first; n; n = n->next) {
        if (n->disabled || (n->kernel && n->kernel->filtered))
            continue;
        w->args = 0;
        tb_cu_node_accesses(w, n);
        args = tb_cu_mix(args, w->args);
    }
    w->args = args;
}

static uint64_t image_of_node(const struct tb_cu_node *n)
{
    const struct tb_cu_kernel *k = n->kernel;
    uint64_t h = tb_cu_mix(n->type, n->shared), code = 0;

    if (!k)
        return h;
    for (int d = 0; d < 3; d++)
        h = tb_cu_mix(h, (uint64_t)n->grid[d] << 32 | n->block_dim[d]);
    if (k->code && k->code->image)
        memcpy(&code, k->code->image->hash, sizeof(code));
    return tb_cu_mix_text(tb_cu_mix(h, code), k->symbol);
}

/* What its nodes are, whatever their order: kernels by their code and how they are launched. */
static uint64_t image_of(const struct tb_cu_exec *x)
{
    uint64_t h = 0;

    for (const struct tb_cu_node *n = x->first; n; n = n->next)
        if (!n->disabled && !n->ours)
            h += image_of_node(n);
    return h;
}

static void count_nodes(struct tb_cu_work *w, const struct tb_cu_exec *x)
{
    unsigned kernels = 0, copies = 0;
    char image[32] = "";

    for (const struct tb_cu_node *n = x->first; n; n = n->next) {
        kernels += n->type == CU_GRAPH_NODE_TYPE_KERNEL && !n->ours && !n->disabled;
        copies += (n->type == CU_GRAPH_NODE_TYPE_MEMCPY || n->type == CU_GRAPH_NODE_TYPE_MEMSET) &&
                  !n->disabled;
    }
    if (!by_node(x)) /* else each has its own */
        (void)snprintf(image, sizeof(image), "\timage=%016" PRIx64, image_of(x));
    tb_cu_detail(w, "\tkernels=%u\tcopies=%u%s%s", kernels, copies, image, w->fed ? "\tfed=1" : "");
}

static struct tb_cu_work *begin(struct tb_cu_exec *x, CUstream stream, bool per_thread)
{
    struct tb_cu_work *w = tb_cu_work_new(TB_EV_GRAPH, "graph", stream, per_thread);

    if (!w)
        return NULL;
    w->missing = missing_of(x);
    tb_cu_where();
    tb_cu_lock();
    w->order = tb_cu_stream(stream, per_thread);
    (void)tb_cu_stream_tick(w->order);
    if (!by_node(x)) /* else accesses are the nodes' */
        add_nodes(w, x);
    tb_cu_split_uses(w, false);
    tb_cu_unlock();
    count_nodes(w, x);
    if (!by_node(x))
        say_whole(x);
    return w;
}

/*
 * A launch is looked at before, when reads or nodes are to be hashed; where all is hashed behind
 * it, that is time enough.
 */
static void launching(struct tb_cuda_call *c)
{
    PARAMS(cuGraphLaunch);
    bool per_thread = c->id == TB_CUDA_cuGraphLaunch_ptsz;
    struct tb_cu_exec *x = tb_cu_exec_of(p->hGraph);
    struct tb_cu_work *w;

    if (tb_cu_stresses())
        tb_cu_delay(p->hStream, per_thread);
    if (!x || tb_cu_capturing(p->hStream, per_thread))
        return;
    if (x->memory)
        forget_memory(x);
    if (!tb_cu_recording() || !(by_node(x) || tb_cu_at_enter()))
        return;
    w = begin(x, p->hStream, per_thread);
    if (w && tb_cu_tls.may_call && tb_cu_at_enter())
        tb_cu_work_before(w);
    if (w && by_node(x)) {
        if (w->snapshot)
            tb_cu_cover(1, TB_REC_NO_SEQ, "snapshot", "graph", "its nodes have events: no bytes");
        tb_cu_graph_launching(x, p->hStream, per_thread);
    }
    *c->user = (uint64_t)(uintptr_t)w;
}

/* What is written into memory that was not there before the launch. */
static void add_memory(struct tb_cu_work *w, const struct tb_cu_exec *x)
{
    uint64_t args = w->args;

    tb_cu_lock();
    add_nodes(w, x);
    tb_cu_unlock();
    w->args = args;
    w->left_unhashed = false; /* what it frees looks like memory of the host */
    count_nodes(w, x);
}

static void launched_whole(const struct tb_cuda_call *c, struct tb_cu_exec *x, struct tb_cu_work *w)
{
    PARAMS(cuGraphLaunch);
    bool per_thread = c->id == TB_CUDA_cuGraphLaunch_ptsz;

    if (c->result != CUDA_SUCCESS) {
        tb_cu_work_drop(w);
        return;
    }
    if (!w && tb_cu_capturing(p->hStream, per_thread))
        return;
    if (x->memory)
        learn_memory(x);
    if (w && x->memory)
        add_memory(w, x);
    if (!w && !tb_cu_at_enter() && tb_cu_recording())
        w = begin(x, p->hStream, per_thread);
    if (w)
        tb_cu_work_end(w);
}

static void launched(struct tb_cuda_call *c)
{
    PARAMS(cuGraphLaunch);
    bool per_thread = c->id == TB_CUDA_cuGraphLaunch_ptsz, ok = c->result == CUDA_SUCCESS;
    struct tb_cu_work *w = (struct tb_cu_work *)(uintptr_t)*c->user;
    struct tb_cu_exec *x = tb_cu_exec_of(p->hGraph);

    if (!x && ok && tb_cu_recording())
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", "graph",
                    "an executable graph whose making was not seen");
    if (!x)
        return;
    if (ok && x->signals) {
        tb_cu_lock();
        tb_cu_unsaid(2, 0); /* what waits for its events is behind a part of it */
        tb_cu_unlock();
    }
    if (!by_node(x)) {
        launched_whole(c, x, w);
        return;
    }
    if (!w)
        return;
    if (ok)
        tb_cu_work_end(w);
    else
        tb_cu_work_drop(w);
    tb_cu_graph_nodes_launched(x, p->hStream, per_thread, ok);
}

static void mark(const struct tb_cuda_call *c)
{
    PARAMS(cuGraphLaunch);

    tb_cu_mark_graph(tb_cu_exec_of(p->hGraph), p->hStream, c->id == TB_CUDA_cuGraphLaunch_ptsz);
}

/* ---------------------------------------------------------------- calls */

static bool is_launch(const struct tb_cuda_call *c)
{
    return c->id == TB_CUDA_cuGraphLaunch || c->id == TB_CUDA_cuGraphLaunch_ptsz;
}

static bool is_instantiate(const struct tb_cuda_call *c)
{
    switch (c->id) {
    case TB_CUDA_cuGraphInstantiate:
    case TB_CUDA_cuGraphInstantiate_v2:
    case TB_CUDA_cuGraphInstantiateWithFlags:
    case TB_CUDA_cuGraphInstantiateWithParams:
    case TB_CUDA_cuGraphInstantiateWithParams_ptsz:
        return true;
    default:
        return false;
    }
}

static bool is_update(const struct tb_cuda_call *c)
{
    return c->id == TB_CUDA_cuGraphExecUpdate || c->id == TB_CUDA_cuGraphExecUpdate_v2;
}

/* The first argument is the executable graph in all that are left. */
static struct tb_cu_exec *exec_named(const struct tb_cuda_call *c)
{
    PARAMS(cuGraphExecDestroy);

    return tb_cu_exec_of(p->hGraphExec);
}

void tb_cu_graph_enter(struct tb_cuda_call *c)
{
    struct tb_cu_exec *x;

    if (is_launch(c))
        launching(c);
    else if (is_instantiate(c))
        tb_cu_graph_instantiating(c);
    else if ((x = exec_named(c)) == NULL)
        return;
    else if (is_update(c))
        tb_cu_graph_updating(c, x);
    else if (c->id == TB_CUDA_cuGraphExecDestroy)
        destroyed((CUgraphExec)(uintptr_t)x->handle);
    else
        tb_cu_graph_node_enter(c, x);
}

static bool for_kernels(const struct tb_cuda_call *c)
{
    uint64_t flags = 0;

    if (c->id == TB_CUDA_cuGraphInstantiateWithFlags) {
        PARAMS(cuGraphInstantiateWithFlags);
        flags = p->flags;
    } else if (c->id == TB_CUDA_cuGraphInstantiateWithParams ||
               c->id == TB_CUDA_cuGraphInstantiateWithParams_ptsz) {
        PARAMS(cuGraphInstantiateWithParams);
        flags = p->instantiateParams->flags;
    }
    return flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
}

static void made(struct tb_cuda_call *c)
{
    /* all of them begin with these two */
    PARAMS(cuGraphInstantiateWithFlags);

    if (c->result == CUDA_SUCCESS && for_kernels(c))
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", "graph",
                    "made to be launched by kernels: such launches are not seen");
    if (!tb_cu_graph_instantiated(c) && c->result == CUDA_SUCCESS)
        instantiated(*p->phGraphExec, p->hGraph);
}

static void update_ended(struct tb_cuda_call *c)
{
    PARAMS(cuGraphExecUpdate);
    struct tb_cu_exec *x = tb_cu_exec_of(p->hGraphExec);

    if (x && !tb_cu_graph_updated(c) && c->result == CUDA_SUCCESS)
        updated(x, p->hGraph);
}

static void changed(struct tb_cuda_call *c)
{
    bool followed = tb_cu_graph_node_exit(c);
    struct tb_cu_exec *x = exec_named(c);

    if (x && !followed && c->result == CUDA_SUCCESS)
        tb_cu_node_set(x, c);
}

void tb_cu_graph_exit(struct tb_cuda_call *c)
{
    if (tb_unlikely(tb_cu_marks()) && is_launch(c) && c->result == CUDA_SUCCESS)
        mark(c);
    if (is_launch(c))
        launched(c);
    else if (is_instantiate(c))
        made(c);
    else if (is_update(c))
        update_ended(c);
    else
        changed(c);
}
