/* What a graph does: its nodes, those of child graphs too, in the order in which CUDA lists them.
 */
#include <string.h>

#include "recorder/cuda/graph.h"

/* ---------------------------------------------------------------- the list */

/* Jobs go through the nodes in order: the search begins where the last one ended. */
struct tb_cu_node *tb_cu_node_of(struct tb_cu_exec *x, uint64_t handle)
{
    struct tb_cu_node *n = x->found;

    while (n && n->handle != handle)
        n = n->next;
    for (struct tb_cu_node *m = n ? NULL : x->first; m && m != x->found; m = m->next)
        if (m->handle == handle) {
            n = m;
            break;
        }
    x->found = n ? n : x->found;
    return n;
}

struct tb_cu_node *tb_cu_node_end(const struct tb_cu_node *n)
{
    struct tb_cu_node *end = n->next;

    while (end && end->depth > n->depth)
        end = end->next;
    return end;
}

struct tb_cu_node *tb_cu_node_add(struct tb_cu_exec *x, uint64_t handle, uint8_t type,
                                  unsigned depth)
{
    tb_cu_lock();
    struct tb_cu_node *n = tb_cu.free_nodes;
    if (n)
        tb_cu.free_nodes = n->next;
    else
        n = tb_cu_small(sizeof(*n));
    if (n) {
        *n = (struct tb_cu_node){
            .index = x->nodes++,
            .handle = handle,
            .type = type,
            .depth = (uint8_t)depth,
            .block = n->block,
            .block_room = n->block_room,
            .before = {.job = n->before.job, .job_room = n->before.job_room},
            .after = {.job = n->after.job, .job_room = n->after.job_room, .place = n->after.place}};
        *x->last = n;
        x->last = &n->next;
    } else {
        x->partial = true;
    }
    tb_cu_unlock();
    return n;
}

void tb_cu_nodes_clear(struct tb_cu_exec *x)
{
    tb_cu_graph_order_drop(x);
    tb_cu_graph_part_drop(x);
    tb_cu_lock();
    while (x->first) {
        struct tb_cu_node *n = x->first;
        x->first = n->next;
        n->next = tb_cu.free_nodes;
        tb_cu.free_nodes = n;
    }
    x->last = &x->first;
    x->found = NULL;
    x->nodes = 0;
    x->partial = x->conditional = x->memory = x->signals = false;
    tb_cu_unlock();
}

/* ---------------------------------------------------------------- what a node does */

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

static void fill_kernel(struct tb_cu_node *n, uint64_t function, void **params, void **extra)
{
    uint8_t block[TB_CU_PARAM_ROOM];
    uint32_t bytes;

    n->stale = true;
    n->kernel = tb_cu_kernel(function);
    if (!n->kernel)
        return;
    bytes = tb_cu_params(n->kernel, params, extra, block);
    if (!n->kernel->blind && (bytes || !n->kernel->param_bytes))
        n->stale = !keep_block(n, block, bytes);
}

/* The structs of kernel nodes, of every version, have the same members by name. */
#define KERNEL_OF(p) ((p)->func ? HANDLE((p)->func) : HANDLE((p)->kern))
#define FILL_KERNEL(n, p, function)                                                                \
    do {                                                                                           \
        (n)->grid[0] = (p)->gridDimX;                                                              \
        (n)->grid[1] = (p)->gridDimY;                                                              \
        (n)->grid[2] = (p)->gridDimZ;                                                              \
        (n)->block_dim[0] = (p)->blockDimX;                                                        \
        (n)->block_dim[1] = (p)->blockDimY;                                                        \
        (n)->block_dim[2] = (p)->blockDimZ;                                                        \
        (n)->shared = (p)->sharedMemBytes;                                                         \
        fill_kernel(n, function, (p)->kernelParams, (p)->extra);                                   \
    } while (0)

static void fill_memset(struct tb_cu_node *n, const CUDA_MEMSET_NODE_PARAMS *m)
{
    uint64_t row = (uint64_t)m->width * m->elementSize;

    n->dst = m->dst;
    n->dst_bytes = m->height > 1 ? (m->height - 1) * m->pitch + row : row;
    n->src_bytes = 0;
    n->value = tb_cu_mix(m->value, n->dst_bytes);
}

/* A kernel of ours: the job has captured the launch of a graph with hashes. */
static bool is_ours(uint64_t function)
{
    for (const struct tb_cu_ctx *c = tb_cu.contexts; c; c = c->next)
        if (c->handle && (HANDLE(c->few) == function || HANDLE(c->batch) == function ||
                          HANDLE(c->alike) == function))
            return true;
    return false;
}

static bool look_at_kernel(struct tb_cu_node *n, CUgraphNode handle)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUDA_KERNEL_NODE_PARAMS p;

    if (!d->cuGraphKernelNodeGetParams_v2 ||
        d->cuGraphKernelNodeGetParams_v2(handle, &p) != CUDA_SUCCESS)
        return false;
    n->ours = is_ours(KERNEL_OF(&p));
    if (!n->ours)
        FILL_KERNEL(n, &p, KERNEL_OF(&p));
    return !n->stale;
}

static bool look_at_copy(struct tb_cu_node *n, CUgraphNode handle)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUDA_MEMCPY3D m;

    if (!d->cuGraphMemcpyNodeGetParams || d->cuGraphMemcpyNodeGetParams(handle, &m) != CUDA_SUCCESS)
        return false;
    tb_cu_box(&m, n);
    return true;
}

static bool look_at_memset(struct tb_cu_node *n, CUgraphNode handle)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUDA_MEMSET_NODE_PARAMS m;

    if (!d->cuGraphMemsetNodeGetParams || d->cuGraphMemsetNodeGetParams(handle, &m) != CUDA_SUCCESS)
        return false;
    fill_memset(n, &m);
    return true;
}

static bool look_at_memory(struct tb_cu_exec *x, struct tb_cu_node *n, CUgraphNode handle)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUDA_MEM_ALLOC_NODE_PARAMS m;
    CUdeviceptr address;

    x->memory = true;
    if (n->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        if (!d->cuGraphMemFreeNodeGetParams ||
            d->cuGraphMemFreeNodeGetParams(handle, &address) != CUDA_SUCCESS)
            return false;
        n->dst = address;
        return true;
    }
    if (!d->cuGraphMemAllocNodeGetParams ||
        d->cuGraphMemAllocNodeGetParams(handle, &m) != CUDA_SUCCESS)
        return false;
    n->dst = m.dptr;
    n->dst_bytes = m.bytesize;
    n->device = m.poolProps.location.id;
    return true;
}

static bool look(struct tb_cu_exec *x, struct tb_cu_node *n, CUgraphNode handle)
{
    switch (n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return look_at_kernel(n, handle);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return look_at_copy(n, handle);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return look_at_memset(n, handle);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return look_at_memory(x, n, handle);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        x->conditional = true;
        return false;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return false;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        x->signals = true;
        return true;
    default:
        return true;
    }
}

void tb_cu_node_look(struct tb_cu_exec *x, struct tb_cu_node *n, CUgraphNode handle)
{
    n->stale = !look(x, n, handle);
}

bool tb_cu_nodes_known(const struct tb_cu_exec *x)
{
    const struct tb_cu_node *n = x->first;

    while (n && !n->stale)
        n = n->next;
    return !n && !x->partial;
}

/* ---------------------------------------------------------------- two graphs */

bool tb_cu_nodes_pair(const struct tb_cu_node *a, const struct tb_cu_node *end,
                      const struct tb_cu_node *b, int down)
{
    for (; a != end && b; a = a->next, b = b->next)
        if (a->type != b->type || a->depth != b->depth + down || a->shape != b->shape ||
            a->ours != b->ours)
            return false;
    return a == end && !b;
}

bool tb_cu_node_equal(const struct tb_cu_node *a, const struct tb_cu_node *b)
{
    return a->kernel == b->kernel && a->param_bytes == b->param_bytes &&
           (!a->param_bytes || memcmp(a->block, b->block, a->param_bytes) == 0) &&
           memcmp(a->grid, b->grid, sizeof(a->grid)) == 0 &&
           memcmp(a->block_dim, b->block_dim, sizeof(a->block_dim)) == 0 &&
           a->shared == b->shared && a->dst == b->dst && a->dst_bytes == b->dst_bytes &&
           a->src == b->src && a->src_bytes == b->src_bytes && a->value == b->value;
}

/* What it is of, but not where it is. */
static void adopt_hash(struct tb_cu_graph_hash *h, struct tb_cu_graph_hash *from)
{
    struct tb_cu_graph_hash was = *h;

    h->job = from->job;
    h->job_room = from->job_room;
    h->jobs = from->jobs;
    from->job = was.job;
    from->job_room = was.job_room;
}

void tb_cu_node_adopt(struct tb_cu_node *n, struct tb_cu_node *from)
{
    struct tb_cu_node was = *n;

    adopt_hash(&was.before, &from->before);
    adopt_hash(&was.after, &from->after);
    *n = *from;
    n->next = was.next;
    n->index = was.index;
    n->cut = was.cut;
    n->handle = was.handle;
    n->twin = was.twin;
    n->before = was.before;
    n->after = was.after;
    n->depth = was.depth;
    n->disabled = was.disabled;
    from->block = was.block;
    from->block_room = was.block_room;
}

/* ---------------------------------------------------------------- calls that change a node */

/* Another child graph's parameters for the nodes inside @at. */
static void set_child(uint64_t at, uint64_t graph)
{
    struct tb_cu_node *n = (struct tb_cu_node *)(uintptr_t)at, *in;
    struct tb_cu_exec *y = tb_cu_exec_new();

    if (!y)
        return;
    tb_cu_nodes_collect(y, (CUgraph)(uintptr_t)graph);
    in = n->next;
    n->stale = y->partial || !tb_cu_nodes_pair(in, tb_cu_node_end(n), y->first, n->depth + 1);
    for (struct tb_cu_node *b = y->first; !n->stale && b; b = b->next, in = in->next)
        tb_cu_node_adopt(in, b);
    tb_cu_exec_drop(y);
}

static void child_changed(struct tb_cu_node *n, CUgraph graph)
{
    n->stale = true;
    tb_cu_late(set_child, HANDLE(n), HANDLE(graph));
}

static void set_copy(struct tb_cu_node *n, const CUDA_MEMCPY3D *m)
{
    tb_cu_box(m, n);
    n->stale = false;
}

static void set_memset(struct tb_cu_node *n, const CUDA_MEMSET_NODE_PARAMS *m)
{
    fill_memset(n, m);
    n->stale = false;
}

static void set_any(struct tb_cu_node *n, const CUgraphNodeParams *p)
{
    CUDA_MEMSET_NODE_PARAMS m;

    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        FILL_KERNEL(n, &p->kernel, KERNEL_OF(&p->kernel));
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        set_copy(n, &p->memcpy.copyParams);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&m, &p->memset, sizeof(m)); /* the other has a context behind the same members */
        set_memset(n, &m);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        child_changed(n, p->graph.graph);
        break;
    default:
        break;
    }
}

/* All of them begin with the executable graph and the node. */
void tb_cu_node_set(struct tb_cu_exec *x, const struct tb_cuda_call *c)
{
    const struct tb_cuGraphNodeSetEnabled_params *named = c->params;
    struct tb_cu_node *n = tb_cu_node_of(x, HANDLE(named->hNode));

    if (!n) {
        x->partial = true;
        return;
    }
    x->changed = true;
    switch (c->id) {
    case TB_CUDA_cuGraphExecKernelNodeSetParams: {
        PARAMS(cuGraphExecKernelNodeSetParams);
        FILL_KERNEL(n, p->nodeParams, HANDLE(p->nodeParams->func));
        break;
    }
    case TB_CUDA_cuGraphExecKernelNodeSetParams_v2: {
        PARAMS(cuGraphExecKernelNodeSetParams_v2);
        FILL_KERNEL(n, p->nodeParams, KERNEL_OF(p->nodeParams));
        break;
    }
    case TB_CUDA_cuGraphExecMemcpyNodeSetParams: {
        PARAMS(cuGraphExecMemcpyNodeSetParams);
        set_copy(n, p->copyParams);
        break;
    }
    case TB_CUDA_cuGraphExecMemsetNodeSetParams: {
        PARAMS(cuGraphExecMemsetNodeSetParams);
        set_memset(n, p->memsetParams);
        break;
    }
    case TB_CUDA_cuGraphExecChildGraphNodeSetParams: {
        PARAMS(cuGraphExecChildGraphNodeSetParams);
        child_changed(n, p->childGraph);
        break;
    }
    case TB_CUDA_cuGraphExecNodeSetParams: {
        PARAMS(cuGraphExecNodeSetParams);
        set_any(n, p->nodeParams);
        break;
    }
    case TB_CUDA_cuGraphNodeSetEnabled:
        n->disabled = !named->isEnabled;
        break;
    }
}

/* ---------------------------------------------------------------- accesses */

bool tb_cu_node_works(const struct tb_cu_node *n)
{
    return n->kernel || n->type == CU_GRAPH_NODE_TYPE_MEMCPY ||
           n->type == CU_GRAPH_NODE_TYPE_MEMSET;
}

void tb_cu_node_accesses(struct tb_cu_work *w, const struct tb_cu_node *n)
{
    const struct tb_cu_rows none = {0};

    if (n->kernel) {
        tb_cu_kernel_accesses(w, n->kernel, n->block, n->param_bytes);
        return;
    }
    if (!tb_cu_node_works(n))
        return;
    w->args = tb_cu_mix(w->args, n->value);
    tb_cu_add_copy(w, n->dst, n->dst_bytes, n->src, n->src_bytes, n->gaps ? &none : NULL);
}
