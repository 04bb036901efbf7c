/* All nodes of a graph, those of child graphs too, in an order in which they may run. */
#include <string.h>

#include "recorder/cuda/graph.h"

#define MAX_NODES 65536u

/* A graph's nodes as CUDA lists them, the edges of one, and the order that they are made into. */
struct list {
    CUgraphNode *node, *near;
    CUgraphEdgeData *edge;
    uint32_t *order, *stack, *index; /* index: of nodes that are in the exec's list */
    uint8_t *state;                  /* enum state */
    size_t count, ordered;
};
enum state { NEW, BEGUN, TAKEN };

#define EACH                                                                                       \
    (2 * sizeof(CUgraphNode) + sizeof(CUgraphEdgeData) + 3 * sizeof(uint32_t) + sizeof(uint8_t))

static void collect(struct tb_cu_exec *x, CUgraph graph, unsigned depth);

/* ---------------------------------------------------------------- edges */

/* What comes before node @at goes into @l->near. */
static size_t edges_of(const struct list *l, size_t at)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    size_t n = l->count;

    if (!d->cuGraphNodeGetDependencies_v2 ||
        d->cuGraphNodeGetDependencies_v2(l->node[at], l->near, l->edge, &n) != CUDA_SUCCESS)
        return 0;
    return n < l->count ? n : 0;
}

/* The place of @node in the list; mostly not far from @at. */
static size_t place_of(const struct list *l, size_t at, CUgraphNode node)
{
    for (size_t i = at; i-- > 0;)
        if (l->node[i] == node)
            return i;
    for (size_t i = at + 1; i < l->count; i++)
        if (l->node[i] == node)
            return i;
    return at;
}

/* Its place and those of what comes before it, in the order of its edges: so cuGraphExecUpdate()
 * pairs nodes of two graphs. */
static uint64_t shape_of(struct tb_cu_exec *x, const struct list *l, size_t at)
{
    size_t n = edges_of(l, at);
    uint64_t shape = tb_cu_mix(n, at);

    for (size_t i = 0; i < n; i++) {
        size_t place = place_of(l, at, l->near[i]);
        shape = tb_cu_mix(shape, place);
        if (l->state[place] == TAKEN && place != at) /* else it is a cycle */
            tb_cu_graph_edge(x, l->index[place], l->index[at]);
    }
    return shape;
}

/* ---------------------------------------------------------------- order */

/* The first node that must come before @at and has no place yet, or @at. */
static uint32_t before(const struct list *l, uint32_t at)
{
    size_t n = edges_of(l, at);

    for (size_t i = 0; i < n; i++) {
        size_t place = place_of(l, at, l->near[i]);
        if (l->state[place] == NEW)
            return (uint32_t)place;
    }
    return at;
}

/* @at, and first whatever must come before it. A cycle, which CUDA refuses later, is cut. */
static void put_in_place(struct list *l, uint32_t at)
{
    size_t depth = 0;

    if (l->state[at] != NEW)
        return;
    l->state[at] = BEGUN;
    l->stack[depth++] = at;
    while (depth) {
        uint32_t top = l->stack[depth - 1], next = before(l, top);
        if (next != top) {
            l->state[next] = BEGUN;
            l->stack[depth++] = next;
            continue;
        }
        l->order[l->ordered++] = top;
        depth--;
    }
}

/* ---------------------------------------------------------------- nodes */

static void take_in(struct tb_cu_exec *x, const struct list *l, size_t at, unsigned depth)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUgraphNode handle = l->node[at];
    CUgraphNodeType type;
    struct tb_cu_node *n = NULL;
    CUgraph child = NULL;

    if (d->cuGraphNodeGetType(handle, &type) == CUDA_SUCCESS)
        n = tb_cu_node_add(x, HANDLE(handle), (uint8_t)type, depth);
    if (!n) {
        x->partial = true;
        return;
    }
    l->index[at] = n->index;
    n->shape = shape_of(x, l, at);
    l->state[at] = TAKEN;
    tb_cu_node_look(x, n, handle);
    if (type != CU_GRAPH_NODE_TYPE_GRAPH)
        return;
    if (depth < TB_CU_GRAPH_DEPTH && d->cuGraphChildGraphNodeGetGraph &&
        d->cuGraphChildGraphNodeGetGraph(handle, &child) == CUDA_SUCCESS)
        collect(x, child, depth + 1);
    else
        x->partial = true;
}

static bool list_of(struct list *l, CUgraph graph, size_t count)
{
    uint8_t *memory = tb_cu.api->pool(count * EACH);

    if (!memory)
        return false;
    l->node = (CUgraphNode *)memory;
    l->near = l->node + count;
    l->edge = (CUgraphEdgeData *)(l->near + count);
    l->order = (uint32_t *)(l->edge + count);
    l->stack = l->order + count;
    l->index = l->stack + count;
    l->state = (uint8_t *)(l->index + count);
    l->count = count;
    return tb_cu.driver.cuGraphGetNodes(graph, l->node, &l->count) == CUDA_SUCCESS &&
           l->count <= count;
}

static void collect(struct tb_cu_exec *x, CUgraph graph, unsigned depth)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    struct list l = {.node = NULL};
    size_t count = 0;
    bool ok = d->cuGraphGetNodes && d->cuGraphNodeGetType && tb_cu_tls.may_call &&
              d->cuGraphGetNodes(graph, NULL, &count) == CUDA_SUCCESS && count <= MAX_NODES;

    if (ok && count)
        ok = list_of(&l, graph, count);
    for (size_t i = 0; ok && i < l.count; i++)
        put_in_place(&l, (uint32_t)i);
    for (size_t i = 0; ok && i < l.ordered; i++)
        take_in(x, &l, l.order[i], depth);
    if (l.node)
        tb_cu.api->unpool(l.node, count * EACH);
    if (!ok)
        x->partial = true;
}

/* Memory that the graph itself frees is gone behind it. */
static void match_frees(struct tb_cu_exec *x)
{
    for (struct tb_cu_node *a = x->first; a; a = a->next)
        for (struct tb_cu_node *f = x->first; f && a->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
             f = f->next)
            if (f->type == CU_GRAPH_NODE_TYPE_MEM_FREE && f->dst == a->dst)
                a->freed = true;
}

void tb_cu_nodes_collect(struct tb_cu_exec *x, CUgraph graph)
{
    collect(x, graph, 0);
    if (x->memory)
        match_frees(x);
}
