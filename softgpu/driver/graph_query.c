/* Graphs from outside: creating and cloning, lists of nodes and edges, changing edges. */
#include "softgpu/driver/graph.h"

#include "softgpu/driver/hooks.h"

#include <string.h>

CUresult sg_cuGraphCreate(CUgraph *out, unsigned flags)
{
    CUresult r = sg_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    *out = sg_graph_new();
    sg_engine_unlock();
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    SG_TELL(.kind = SG_NOTICE_GRAPH_CREATED, .graph = *out);
    return CUDA_SUCCESS;
}

CUresult sg_cuGraphDestroy(CUgraph g)
{
    CUresult r = sg_graph_check(g);

    if (r != CUDA_SUCCESS)
        return r;
    if (!g->owned && !g->captures)
        SG_TELL(.kind = SG_NOTICE_GRAPH_DESTROY, .graph = g);
    sg_engine_lock();
    if (g->owned || g->captures)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        sg_graph_free(g);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphClone(CUgraph *out, CUgraph g)
{
    CUresult r = sg_graph_check(g);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    r = sg_graph_has_mem(g) ? CUDA_ERROR_NOT_SUPPORTED : sg_graph_clone(g, out);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone)
{
    CUresult r = sg_node_check(original);

    if (r == CUDA_SUCCESS)
        r = sg_graph_check(clone);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    *out = sg_graph_find(clone, original->uid);
    sg_engine_unlock();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    CUresult r = sg_node_check(node);

    if (r == CUDA_SUCCESS && !type)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *type = node->type;
    return r;
}

/* ---- lists ------------------------------------------------------- */

/* How every list call hands out: the number alone, or as many as fit and NULL behind them. */
struct list {
    CUgraphNode *a, *b; /* where to put nodes; both NULL: count only */
    CUgraphEdgeData *edges;
    size_t *n;
    size_t found;
    bool lossy; /* something would have been lost without edge data */
};

static void put(struct list *l, CUgraphNode a, CUgraphNode b, const CUgraphEdgeData *edge)
{
    if (l->a && l->found < *l->n) {
        l->a[l->found] = a;
        if (l->b)
            l->b[l->found] = b;
        if (l->edges)
            l->edges[l->found] = edge ? *edge : (CUgraphEdgeData){0};
        else if (edge && !sg_edge_is_plain(edge))
            l->lossy = true;
    }
    l->found++;
}

static CUresult finish(struct list *l)
{
    if (l->a) {
        for (size_t i = l->found; i < *l->n; i++) {
            l->a[i] = NULL;
            if (l->b)
                l->b[i] = NULL;
        }
        if (l->found > *l->n)
            l->found = *l->n;
    }
    *l->n = l->found;
    return l->lossy ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

/* The lists of a graph: its nodes, or those that nothing precedes. */
static CUresult list_nodes(CUgraph g, CUgraphNode *nodes, size_t *n, bool roots)
{
    struct list l = {.a = nodes, .n = n};
    CUresult r = sg_graph_check(g);

    if (r == CUDA_SUCCESS && !n)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    for (size_t i = 0; i < g->n; i++)
        if (!roots || !g->nodes[i]->ndeps)
            put(&l, g->nodes[i], NULL, NULL);
    r = finish(&l);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *n)
{
    return list_nodes(g, nodes, n, false);
}

CUresult sg_cuGraphGetRootNodes(CUgraph g, CUgraphNode *nodes, size_t *n)
{
    return list_nodes(g, nodes, n, true);
}

static void put_deps(struct list *l, CUgraphNode to, bool pairs)
{
    for (size_t i = 0; i < to->ndeps; i++)
        put(l, to->deps[i].node, pairs ? to : NULL, &to->deps[i].data);
}

static CUresult get_edges(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges,
                          size_t *n)
{
    struct list l = {.a = from, .b = to, .edges = edges, .n = n};
    CUresult r = sg_graph_check(g);

    if (r == CUDA_SUCCESS && (!n || !from != !to || (edges && !from)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    for (size_t i = 0; i < g->n; i++)
        put_deps(&l, g->nodes[i], true);
    r = finish(&l);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    return get_edges(g, from, to, NULL, n);
}

CUresult sg_cuGraphGetEdges_v2(CUgraph g, CUgraphNode *from, CUgraphNode *to,
                               CUgraphEdgeData *edges, size_t *n)
{
    return get_edges(g, from, to, edges, n);
}

static const CUgraphEdgeData *edge_between(CUgraphNode from, CUgraphNode to)
{
    for (size_t i = 0; i < to->ndeps; i++)
        if (to->deps[i].node == from)
            return &to->deps[i].data;
    return NULL;
}

static CUresult neighbours(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edges, size_t *n,
                           bool users)
{
    struct list l = {.a = out, .edges = edges, .n = n};
    CUresult r = sg_node_check(node);

    if (r == CUDA_SUCCESS && (!n || (edges && !out)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    if (!users)
        put_deps(&l, node, false);
    for (size_t i = 0; users && i < node->nusers; i++)
        put(&l, node->users[i], NULL, edge_between(node, node->users[i]));
    r = finish(&l);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *n)
{
    return neighbours(node, deps, NULL, n, false);
}

CUresult sg_cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *deps,
                                          CUgraphEdgeData *edges, size_t *n)
{
    return neighbours(node, deps, edges, n, false);
}

CUresult sg_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *users, size_t *n)
{
    return neighbours(node, users, NULL, n, true);
}

CUresult sg_cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *users,
                                            CUgraphEdgeData *edges, size_t *n)
{
    return neighbours(node, users, edges, n, true);
}

/* ---- changing edges ---------------------------------------------- */

struct change {
    CUgraph g;
    const CUgraphNode *from, *to;
    const CUgraphEdgeData *edges;
    size_t n;
};

static CUresult check_ends(const struct change *c, size_t i)
{
    if (!sg_handle_is(c->from[i], SG_MAGIC_NODE) || !sg_handle_is(c->to[i], SG_MAGIC_NODE) ||
        c->from[i]->graph != c->g || c->to[i]->graph != c->g || c->from[i] == c->to[i])
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult add(const struct change *c, size_t i)
{
    const CUgraphEdgeData *d = c->edges ? &c->edges[i] : NULL;

    if (edge_between(c->from[i], c->to[i]) || !sg_edge_ok(c->from[i], c->to[i]->type, d))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_edge_add(c->from[i], c->to[i], d);
}

static CUresult drop(const struct change *c, size_t i)
{
    static const CUgraphEdgeData plain;
    const CUgraphEdgeData *have = edge_between(c->from[i], c->to[i]);

    if (!have || memcmp(have, c->edges ? &c->edges[i] : &plain, sizeof(plain)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sg_edge_remove(c->from[i], c->to[i]);
    return CUDA_SUCCESS;
}

/* Edges that will go are told of before, without the lock; what is refused later is told in vain.
 */
static void tell_drop(const struct change *c)
{
    sg_engine_lock();
    for (size_t i = 0; i < c->n; i++)
        if (check_ends(c, i) == CUDA_SUCCESS && edge_between(c->from[i], c->to[i]))
            sg_edge_tell(SG_NOTICE_EDGE_DESTROY, c->from[i], c->to[i]);
    sg_engine_unlock();
    sg_notice_flush();
}

/* All of them or none: what was done is undone by @undo, backwards, with the same edge data. */
static CUresult change_edges(const struct change *c, CUresult (*act)(const struct change *, size_t),
                             CUresult (*undo)(const struct change *, size_t))
{
    CUresult r = sg_graph_check(c->g);
    size_t i = 0;

    if (r != CUDA_SUCCESS || !c->n)
        return r;
    if (!c->from || !c->to)
        return CUDA_ERROR_INVALID_VALUE;
    if (act == drop && SG_HOOKED)
        tell_drop(c);
    sg_engine_lock();
    if (act == drop && (c->g->has_mem || c->g->captures))
        r = CUDA_ERROR_INVALID_VALUE;
    for (; i < c->n && r == CUDA_SUCCESS; i++) {
        r = check_ends(c, i);
        if (r == CUDA_SUCCESS)
            r = act(c, i);
        if (r != CUDA_SUCCESS)
            break;
    }
    while (r != CUDA_SUCCESS && i--)
        undo(c, i);
    for (i = 0; i < c->n && r == CUDA_SUCCESS && act == add; i++)
        sg_edge_tell(SG_NOTICE_EDGE_CREATED, c->from[i], c->to[i]);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edges, size_t n)
{
    return change_edges(&(struct change){g, from, to, edges, n}, add, drop);
}

CUresult sg_cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t n)
{
    return sg_cuGraphAddDependencies_v2(g, from, to, NULL, n);
}

CUresult sg_cuGraphRemoveDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                         const CUgraphEdgeData *edges, size_t n)
{
    return change_edges(&(struct change){g, from, to, edges, n}, drop, add);
}

CUresult sg_cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                      size_t n)
{
    return sg_cuGraphRemoveDependencies_v2(g, from, to, NULL, n);
}

CUresult sg_cuGraphDestroyNode(CUgraphNode node)
{
    CUresult r = sg_node_check(node);

    if (r != CUDA_SUCCESS)
        return r;
    if (!node->graph->has_mem && !node->graph->captures)
        SG_TELL(.kind = SG_NOTICE_NODE_DESTROY, .graph = node->graph, .node = node,
                .type = node->type);
    sg_engine_lock();
    if (node->graph->has_mem || node->graph->captures)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        sg_node_destroy(node);
    sg_engine_unlock();
    return r;
}
