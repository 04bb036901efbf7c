/* CUDA graphs: what an executable graph does, and one event for each launch of it. */
#include <string.h>

#include "recorder/cuda/engine.h"

#define MAX_NODES 65536u
#define MAX_DEPTH 8u

/* ---------------------------------------------------------------- nodes */

struct tb_cu_node *tb_cu_exec_node(struct tb_cu_exec *x, uint64_t handle)
{
    for (struct tb_cu_node *n = x->first; n; n = n->next)
        if (n->handle == handle || n->alias == handle)
            return n;
    return NULL;
}

static struct tb_cu_node *add_node(struct tb_cu_exec *x, uint64_t handle, uint8_t type)
{
    tb_cu_lock();
    struct tb_cu_node *n = tb_cu.free_nodes;
    if (n)
        tb_cu.free_nodes = n->next;
    else
        n = tb_cu_small(sizeof(*n));
    if (n) {
        uint8_t *block = n->block;
        uint32_t room = n->block_room;
        *n =
            (struct tb_cu_node){.handle = handle, .type = type, .block = block, .block_room = room};
        *x->last = n;
        x->last = &n->next;
    } else {
        x->partial = true;
    }
    tb_cu_unlock();
    return n;
}

static void clear_nodes(struct tb_cu_exec *x)
{
    tb_cu_lock();
    while (x->first) {
        struct tb_cu_node *n = x->first;
        x->first = n->next;
        n->next = tb_cu.free_nodes;
        tb_cu.free_nodes = n;
    }
    x->last = &x->first;
    x->partial = false;
    x->kernels = x->copies = 0;
    tb_cu_unlock();
}

static bool keep_block(struct tb_cu_node *n, const uint8_t *block, uint32_t bytes)
{
    if (bytes > n->block_room) {
        tb_cu_lock();
        n->block = tb_cu_small(bytes);
        tb_cu_unlock();
        n->block_room = n->block ? bytes : 0;
    }
    if (bytes > n->block_room)
        return false;
    if (bytes)
        memcpy(n->block, block, bytes);
    n->param_bytes = bytes;
    return true;
}

static void fill_kernel(struct tb_cu_exec *x, struct tb_cu_node *n, uint64_t function,
                        void **params, void **extra)
{
    uint8_t block[TB_CU_PARAM_ROOM];
    uint32_t bytes;

    n->kernel = tb_cu_kernel(function);
    if (!n->kernel) {
        x->partial = true;
        return;
    }
    bytes = tb_cu_params(n->kernel, params, extra, block);
    if (n->kernel->blind || (!bytes && n->kernel->param_bytes) || !keep_block(n, block, bytes))
        x->partial = true;
}

/* The structs of kernel nodes, of every version, have the same members by name. */
#define KERNEL_OF(p) ((p)->func ? HANDLE((p)->func) : HANDLE((p)->kern))
#define FILL_KERNEL(x, n, p, function)                                                             \
    do {                                                                                           \
        (n)->grid[0] = (p)->gridDimX;                                                              \
        (n)->grid[1] = (p)->gridDimY;                                                              \
        (n)->grid[2] = (p)->gridDimZ;                                                              \
        (n)->block_dim[0] = (p)->blockDimX;                                                        \
        (n)->block_dim[1] = (p)->blockDimY;                                                        \
        (n)->block_dim[2] = (p)->blockDimZ;                                                        \
        (n)->shared = (p)->sharedMemBytes;                                                         \
        fill_kernel(x, n, function, (p)->kernelParams, (p)->extra);                                \
    } while (0)

static void fill_memset(struct tb_cu_node *n, const CUDA_MEMSET_NODE_PARAMS *m)
{
    uint64_t row = (uint64_t)m->width * m->elementSize;

    n->dst = m->dst;
    n->dst_bytes = m->height > 1 ? (m->height - 1) * m->pitch + row : row;
    n->src_bytes = 0;
    n->value = tb_cu_mix(m->value, n->dst_bytes);
}

static void collect(struct tb_cu_exec *x, CUgraph graph, unsigned depth);

/* One node of the graph that an exec was made from; questions only. */
static void look_at(struct tb_cu_exec *x, CUgraphNode handle, unsigned depth)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUgraphNodeType type;
    struct tb_cu_node *n;
    CUgraph child;

    if (d->cuGraphNodeGetType(handle, &type) != CUDA_SUCCESS) {
        x->partial = true;
        return;
    }
    if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
        x->nested = true;
        if (d->cuGraphChildGraphNodeGetGraph &&
            d->cuGraphChildGraphNodeGetGraph(handle, &child) == CUDA_SUCCESS && depth < MAX_DEPTH)
            collect(x, child, depth + 1);
        else
            x->partial = true;
        return;
    }
    n = add_node(x, HANDLE(handle), (uint8_t)type);
    if (!n)
        return;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
        CUDA_KERNEL_NODE_PARAMS p;
        x->kernels++;
        if (d->cuGraphKernelNodeGetParams_v2 &&
            d->cuGraphKernelNodeGetParams_v2(handle, &p) == CUDA_SUCCESS)
            FILL_KERNEL(x, n, &p, KERNEL_OF(&p));
        else
            x->partial = true;
    } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
        CUDA_MEMCPY3D m;
        x->copies++;
        if (d->cuGraphMemcpyNodeGetParams &&
            d->cuGraphMemcpyNodeGetParams(handle, &m) == CUDA_SUCCESS)
            tb_cu_box(&m, n);
        else
            x->partial = true;
    } else if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
        CUDA_MEMSET_NODE_PARAMS m;
        x->copies++;
        if (d->cuGraphMemsetNodeGetParams &&
            d->cuGraphMemsetNodeGetParams(handle, &m) == CUDA_SUCCESS)
            fill_memset(n, &m);
        else
            x->partial = true;
    } else if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL || type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
        x->partial = true;
    }
}

static void collect(struct tb_cu_exec *x, CUgraph graph, unsigned depth)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    size_t count = 0;
    CUgraphNode *list;

    if (!d->cuGraphGetNodes || !d->cuGraphNodeGetType || !tb_cu_tls.may_call ||
        d->cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || count > MAX_NODES) {
        x->partial = true;
        return;
    }
    if (!count)
        return;
    list = tb_cu.api->pool(count * sizeof(*list));
    if (!list || d->cuGraphGetNodes(graph, list, &count) != CUDA_SUCCESS)
        x->partial = true;
    for (size_t i = 0; list && i < count; i++)
        look_at(x, list[i], depth);
    if (list)
        tb_cu.api->unpool(list, count * sizeof(*list));
}

/* ---------------------------------------------------------------- executable graphs */

static struct tb_cu_exec *exec_of(CUgraphExec handle)
{
    tb_cu_lock();
    struct tb_cu_exec *x = tb_cu_map_get(&tb_cu.execs, HANDLE(handle));
    tb_cu_unlock();
    return x;
}

static struct tb_cu_exec *exec_new(void)
{
    tb_cu_lock();
    struct tb_cu_exec *x = tb_cu.free_execs;
    if (x)
        tb_cu.free_execs = x->next_free;
    else
        x = tb_cu_small(sizeof(*x));
    if (x)
        *x = (struct tb_cu_exec){.base = TB_FPD_BASES};
    tb_cu_unlock();
    if (x)
        x->last = &x->first;
    return x;
}

void tb_cu_exec_drop(struct tb_cu_exec *x)
{
    if (!x)
        return;
    clear_nodes(x);
    tb_cu_lock();
    x->next_free = tb_cu.free_execs;
    tb_cu.free_execs = x;
    tb_cu_unlock();
}

struct tb_cu_exec *tb_cu_exec_describe(CUgraph graph)
{
    struct tb_cu_exec *x = exec_new();

    if (x)
        collect(x, graph, 0);
    return x;
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

void tb_cu_exec_exchange(struct tb_cu_exec *x, struct tb_cu_exec *y)
{
    struct tb_cu_node *first = x->first, **last = x->last;

    tb_cu_lock();
    x->first = y->first;
    x->last = y->first ? y->last : &x->first;
    y->first = first;
    y->last = first ? last : &y->first;
    x->slots = y->slots;
    x->kernels = y->kernels;
    x->copies = y->copies;
    x->partial = y->partial;
    tb_cu_unlock();
}

static void instantiated(CUgraphExec handle, CUgraph graph)
{
    struct tb_cu_exec *x = tb_cu_exec_describe(graph);

    if (x)
        tb_cu_exec_register(x, HANDLE(handle));
}

static void updated(CUgraphExec handle, CUgraph graph)
{
    struct tb_cu_exec *x = exec_of(handle);

    if (!x)
        return;
    clear_nodes(x);
    collect(x, graph, 0);
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

/* The node that a call about an executable graph names; *@x that graph, NULL: not known. */
static struct tb_cu_node *node_named(CUgraphExec handle, CUgraphNode node, struct tb_cu_exec **x)
{
    *x = exec_of(handle);
    return *x ? tb_cu_exec_node(*x, HANDLE(node)) : NULL;
}

/* ---------------------------------------------------------------- launches */

bool tb_cu_node_works(const struct tb_cu_node *n)
{
    return n->kernel || n->type == CU_GRAPH_NODE_TYPE_MEMCPY ||
           n->type == CU_GRAPH_NODE_TYPE_MEMSET;
}

void tb_cu_node_accesses(struct tb_cu_work *w, const struct tb_cu_node *n)
{
    if (n->kernel) {
        tb_cu_kernel_accesses(w, n->kernel, n->block, n->param_bytes);
        return;
    }
    w->args = tb_cu_mix(w->args, n->value);
    tb_cu_add_copy(w, n->dst, n->dst_bytes, n->src, n->src_bytes);
}

/* What is hashed node by node is written there: only what the graph reads as a whole is left. */
static void drop_writes(struct tb_cu_work *w)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->n; i++)
        if (w->access[i].mode != 'w')
            w->access[n++] = w->access[i];
    w->n = n;
}

static struct tb_cu_work *begin(struct tb_cu_exec *x, CUstream stream, bool per_thread)
{
    struct tb_cu_work *w = tb_cu_work_new(TB_EV_GRAPH, "graph", stream, per_thread);

    if (!w)
        return NULL;
    tb_cu_detail(w, "\tkernels=%u\tcopies=%u", x->kernels, x->copies);
    if (x->partial)
        w->missing = "nodes of the graph could not be looked into";
    tb_cu_lock();
    w->order = tb_cu_stream(stream, per_thread);
    (void)tb_cu_stream_tick(w->order);
    w->args = 0x9a;
    for (const struct tb_cu_node *n = x->first; n; n = n->next)
        if (!n->disabled)
            tb_cu_node_accesses(w, n);
    tb_cu_unlock();
    if (x->clone)
        drop_writes(w);
    else
        tb_cu_cover(0, TB_REC_NO_SEQ, "cuda", "graph", "hashed as a whole, not node by node");
    return w;
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

    return exec_of(p->hGraphExec);
}

/*
 * A launch is looked at before, when reads or nodes are to be hashed; where all is hashed behind
 * it, that is time enough.
 */
static void launching(struct tb_cuda_call *c)
{
    PARAMS(cuGraphLaunch);
    bool per_thread = c->id == TB_CUDA_cuGraphLaunch_ptsz;
    struct tb_cu_exec *x = exec_of(p->hGraph);
    struct tb_cu_work *w;

    if (!x || !tb_cu_recording() || !(x->clone || tb_cu_at_enter()) ||
        tb_cu_capturing(p->hStream, per_thread))
        return;
    w = begin(x, p->hStream, per_thread);
    if (w && tb_cu_tls.may_call && tb_cu_at_enter())
        tb_cu_work_before(w);
    if (w && x->clone)
        tb_cu_graph_launching(x, p->hStream, per_thread);
    *c->user = (uint64_t)(uintptr_t)w;
}

static void launched(struct tb_cuda_call *c)
{
    PARAMS(cuGraphLaunch);
    bool per_thread = c->id == TB_CUDA_cuGraphLaunch_ptsz, ok = c->result == CUDA_SUCCESS;
    struct tb_cu_work *w = (struct tb_cu_work *)(uintptr_t)*c->user;
    struct tb_cu_exec *x = exec_of(p->hGraph);

    if (!x && ok && tb_cu_recording())
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", "graph",
                    "an executable graph whose making was not seen");
    if (!x)
        return;
    if (w && x->clone) {
        if (ok)
            tb_cu_work_end(w);
        else
            tb_cu_work_drop(w);
        tb_cu_graph_nodes_launched(x, p->hStream, per_thread, ok);
        return;
    }
    if (!w && ok && !x->clone && !tb_cu_at_enter() && tb_cu_recording() &&
        !tb_cu_capturing(p->hStream, per_thread))
        w = begin(x, p->hStream, per_thread);
    if (w && ok)
        tb_cu_work_end(w);
    else
        tb_cu_work_drop(w);
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

static void made(struct tb_cuda_call *c)
{
    /* all of them begin with these two */
    PARAMS(cuGraphInstantiateWithFlags);

    if (!tb_cu_graph_instantiated(c) && c->result == CUDA_SUCCESS)
        instantiated(*p->phGraphExec, p->hGraph);
}

static void set_node(struct tb_cu_exec *x, struct tb_cu_node *n, const CUgraphNodeParams *p)
{
    if (p->type == CU_GRAPH_NODE_TYPE_KERNEL)
        FILL_KERNEL(x, n, &p->kernel, KERNEL_OF(&p->kernel));
    else if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        tb_cu_box(&p->memcpy.copyParams, n);
    else
        x->partial = true;
}

/* All of them begin with the executable graph and the node. */
static void set(struct tb_cuda_call *c)
{
    const struct tb_cuGraphNodeSetEnabled_params *named = c->params;
    struct tb_cu_exec *x;
    struct tb_cu_node *n = node_named(named->hGraphExec, named->hNode, &x);

    if (!x)
        return;
    if (!n) {
        x->partial = true;
        return;
    }
    switch (c->id) {
    case TB_CUDA_cuGraphExecKernelNodeSetParams: {
        PARAMS(cuGraphExecKernelNodeSetParams);
        FILL_KERNEL(x, n, p->nodeParams, HANDLE(p->nodeParams->func));
        break;
    }
    case TB_CUDA_cuGraphExecKernelNodeSetParams_v2: {
        PARAMS(cuGraphExecKernelNodeSetParams_v2);
        FILL_KERNEL(x, n, p->nodeParams, KERNEL_OF(p->nodeParams));
        break;
    }
    case TB_CUDA_cuGraphExecMemcpyNodeSetParams: {
        PARAMS(cuGraphExecMemcpyNodeSetParams);
        tb_cu_box(p->copyParams, n);
        break;
    }
    case TB_CUDA_cuGraphExecMemsetNodeSetParams: {
        PARAMS(cuGraphExecMemsetNodeSetParams);
        fill_memset(n, p->memsetParams);
        break;
    }
    case TB_CUDA_cuGraphExecNodeSetParams: {
        PARAMS(cuGraphExecNodeSetParams);
        set_node(x, n, p->nodeParams);
        break;
    }
    case TB_CUDA_cuGraphNodeSetEnabled:
        n->disabled = !named->isEnabled;
        break;
    case TB_CUDA_cuGraphExecChildGraphNodeSetParams:
    case TB_CUDA_cuGraphExecBatchMemOpNodeSetParams:
        x->partial = true;
        break;
    }
}

static void update_ended(struct tb_cuda_call *c)
{
    PARAMS(cuGraphExecUpdate);
    struct tb_cu_exec *x = exec_of(p->hGraphExec);

    if (!x || tb_cu_graph_updated(c, x) || c->result != CUDA_SUCCESS)
        return;
    if (x->clone) /* it has hashes of what it was before, and could not be described anew */
        x->partial = true;
    else
        updated(p->hGraphExec, p->hGraph);
}

void tb_cu_graph_exit(struct tb_cuda_call *c)
{
    if (is_launch(c)) {
        launched(c);
        return;
    }
    if (is_instantiate(c)) {
        made(c);
        return;
    }
    if (is_update(c)) {
        update_ended(c);
        return;
    }
    tb_cu_graph_node_exit(c);
    if (c->result == CUDA_SUCCESS)
        set(c);
}
