/* Graphs as data: nodes, edges, clones, topological order. With the engine's lock, but for the
 * checks of handles at the top. */
#include "softgpu/driver/graph.h"

#include "softgpu/driver/hooks.h"

#include <stdlib.h>
#include <string.h>

/* ---- handles ----------------------------------------------------- */

static CUresult check(const void *p, uint32_t magic)
{
    CUresult r = sg_enter();

    return r == CUDA_SUCCESS && !sg_handle_is(p, magic) ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult sg_graph_check(CUgraph g)
{
    return check(g, SG_MAGIC_GRAPH);
}

CUresult sg_node_check(CUgraphNode node)
{
    return check(node, SG_MAGIC_NODE);
}

CUresult sg_node_check_type(CUgraphNode node, CUgraphNodeType type)
{
    CUresult r = sg_node_check(node);

    return r == CUDA_SUCCESS && node->type != type ? CUDA_ERROR_INVALID_VALUE : r;
}

bool sg_kernel_alive(const struct sg_kernel_work *k)
{
    return sg_handle_is(k->func, SG_MAGIC_FUNC);
}

/* ---- arrays that grow -------------------------------------------- */

/* Room for one more element of @size bytes in the array whose address is at @array. */
static bool room(void *array, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap ? *cap * 2 : 4;
    void *old, *grown;

    if (n < *cap)
        return true;
    memcpy(&old, array, sizeof(old));
    grown = realloc(old, more * size);
    if (!grown)
        return false;
    memcpy(array, &grown, sizeof(grown));
    *cap = more;
    return true; /* cppcheck-suppress memleak ; the array owns it now */
}

static void take_out(CUgraphNode *v, size_t *n, const struct CUgraphNode_st *node)
{
    size_t i = 0;

    while (i < *n && v[i] != node)
        i++;
    if (i == *n)
        return;
    memmove(&v[i], &v[i + 1], (*n - i - 1) * sizeof(CUgraphNode));
    --*n;
}

/* ---- edges ------------------------------------------------------- */

bool sg_edge_is_plain(const CUgraphEdgeData *data)
{
    static const CUgraphEdgeData plain;

    return !data || memcmp(data, &plain, sizeof(plain)) == 0;
}

bool sg_edge_ok(CUgraphNode from, CUgraphNodeType to, const CUgraphEdgeData *d)
{
    static const unsigned char zero[sizeof(d->reserved)];

    if (sg_edge_is_plain(d))
        return true;
    if (d->to_port || memcmp(d->reserved, zero, sizeof(zero)) != 0)
        return false;
    if (from->type != CU_GRAPH_NODE_TYPE_KERNEL ||
        d->from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER)
        return false;
    if (d->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT)
        return true;
    return d->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && to == CU_GRAPH_NODE_TYPE_KERNEL &&
           d->from_port != CU_GRAPH_KERNEL_NODE_PORT_DEFAULT;
}

CUresult sg_edge_add(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData *data)
{
    if (!room(&to->deps, to->ndeps, &to->deps_cap, sizeof(*to->deps)) ||
        !room(&from->users, from->nusers, &from->users_cap, sizeof(CUgraphNode)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    to->deps[to->ndeps++] = (struct sg_edge){from, data ? *data : (CUgraphEdgeData){0}};
    from->users[from->nusers++] = to;
    return CUDA_SUCCESS;
}

void sg_edge_remove(CUgraphNode from, CUgraphNode to)
{
    size_t i = 0;

    while (i < to->ndeps && to->deps[i].node != from)
        i++;
    if (i == to->ndeps)
        return;
    memmove(&to->deps[i], &to->deps[i + 1], (to->ndeps - i - 1) * sizeof(*to->deps));
    to->ndeps--;
    take_out(from->users, &from->nusers, to);
}

void sg_edge_tell(enum sg_notice_kind kind, CUgraphNode from, CUgraphNode to)
{
    SG_TELL_LATER(.kind = kind, .graph = from->graph, .node = from, .type = from->type,
                  .dependency = to);
}

/* ---- nodes ------------------------------------------------------- */

CUgraphNodeType sg_node_type_of(const struct sg_work *w)
{
    static const CUgraphNodeType types[] = {
        [SG_WORK_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
        [SG_WORK_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
        [SG_WORK_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
        [SG_WORK_FILL] = CU_GRAPH_NODE_TYPE_MEMSET,
        [SG_WORK_HOST] = CU_GRAPH_NODE_TYPE_HOST,
        [SG_WORK_EVENT_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        [SG_WORK_EVENT_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        [SG_WORK_GRAPH] = CU_GRAPH_NODE_TYPE_GRAPH,
        [SG_WORK_MEM_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        [SG_WORK_MEM_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
        [SG_WORK_WRITE_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [SG_WORK_WAIT_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        [SG_WORK_BATCH_MEM_OP] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
    };

    return types[w->kind];
}

static void free_node(CUgraphNode node)
{
    sg_handle_remove(node);
    sg_wref_put(node->work);
    sg_graph_free(node->child);
    sg_memnode_put(node->mem);
    free(node->deps);
    free(node->users);
    free(node->param_ptrs);
    node->magic = SG_MAGIC_DEAD;
    free(node);
}

static CUresult check_deps(CUgraph g, CUgraphNodeType type, const CUgraphNode *deps,
                           const CUgraphEdgeData *edges, size_t n)
{
    uint64_t mark = ++sg_driver.engine->next_node;

    if (n && !deps)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        if (!sg_handle_is(deps[i], SG_MAGIC_NODE) || deps[i]->graph != g || deps[i]->mark == mark ||
            (edges && !sg_edge_ok(deps[i], type, &edges[i])))
            return CUDA_ERROR_INVALID_VALUE;
        deps[i]->mark = mark;
    }
    return CUDA_SUCCESS;
}

/* A node in no relation to others yet. */
static CUgraphNode append(CUgraph g, CUgraphNodeType type, struct sg_wref *work)
{
    CUgraphNode node = calloc(1, sizeof(*node));

    if (node) {
        node->magic = SG_MAGIC_NODE;
        node->type = type;
        node->uid = ++sg_driver.engine->next_node;
        node->graph = g;
        node->work = work;
    }
    if (!node || !room(&g->nodes, g->n, &g->cap, sizeof(CUgraphNode)) ||
        !sg_handle_add(node, SG_MAGIC_NODE)) {
        free(node);
        sg_wref_put(work);
        return NULL;
    }
    g->nodes[g->n++] = node;
    return node;
}

static void remove_node(CUgraphNode node)
{
    while (node->ndeps)
        sg_edge_remove(node->deps[0].node, node);
    while (node->nusers)
        sg_edge_remove(node, node->users[0]);
    take_out(node->graph->nodes, &node->graph->n, node);
    free_node(node);
}

static void tell_new(CUgraphNode node)
{
    SG_TELL_LATER(.kind = SG_NOTICE_NODE_CREATE, .graph = node->graph, .type = node->type);
    SG_TELL_LATER(.kind = SG_NOTICE_NODE_CREATED, .graph = node->graph, .node = node,
                  .type = node->type);
    for (size_t i = 0; i < node->ndeps; i++)
        sg_edge_tell(SG_NOTICE_EDGE_CREATED, node->deps[i].node, node);
}

CUresult sg_node_new(CUgraph g, CUgraphNodeType type, struct sg_wref *work, const CUgraphNode *deps,
                     const CUgraphEdgeData *edges, size_t n, CUgraphNode *out)
{
    CUresult r = check_deps(g, type, deps, edges, n);
    CUgraphNode node;

    if (r != CUDA_SUCCESS) {
        sg_wref_put(work);
        return r;
    }
    node = append(g, type, work);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = sg_edge_add(deps[i], node, edges ? &edges[i] : NULL);
    if (r == CUDA_SUCCESS &&
        (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE))
        r = sg_memnode_attach(node);
    if (r != CUDA_SUCCESS) {
        remove_node(node);
        return r;
    }
    tell_new(node);
    *out = node;
    return r;
}

void sg_node_destroy(CUgraphNode node)
{
    remove_node(node);
}

void sg_node_set_work(CUgraphNode node, struct sg_wref *work)
{
    sg_wref_put(node->work);
    node->work = work;
    free(node->param_ptrs);
    node->param_ptrs = NULL;
}

void sg_graph_own(CUgraphNode node, CUgraph child)
{
    node->type = CU_GRAPH_NODE_TYPE_GRAPH;
    node->child = child;
    child->owned = true;
}

/* ---- graphs ------------------------------------------------------ */

CUgraph sg_graph_new(void)
{
    CUgraph g = calloc(1, sizeof(*g));

    if (!g || !sg_handle_add(g, SG_MAGIC_GRAPH)) {
        free(g);
        return NULL;
    }
    g->magic = SG_MAGIC_GRAPH;
    g->id = ++sg_driver.engine->next_graph;
    return g;
}

void sg_graph_free(CUgraph g)
{
    if (!g)
        return;
    sg_handle_remove(g);
    for (size_t i = 0; i < g->n; i++)
        free_node(g->nodes[i]);
    sg_user_refs_drop(g);
    free(g->nodes);
    free(g->order);
    g->magic = SG_MAGIC_DEAD;
    free(g);
}

bool sg_graph_has_mem(const struct CUgraph_st *g)
{
    bool has = g->has_mem;

    for (size_t i = 0; i < g->n && !has; i++)
        has = g->nodes[i]->child && sg_graph_has_mem(g->nodes[i]->child);
    return has;
}

/* Clones keep the order of their origins; nodes that were added since come behind them. */
static CUgraphNode find_here(CUgraph g, uint64_t uid)
{
    size_t lo = 0, hi = g->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        uint64_t origin = g->nodes[mid]->origin;

        if (origin == uid)
            return g->nodes[mid];
        if (origin && origin < uid)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

CUgraphNode sg_graph_find(CUgraph g, uint64_t uid)
{
    CUgraphNode found = find_here(g, uid);

    for (size_t i = 0; i < g->n && !found; i++)
        if (g->nodes[i]->child)
            found = sg_graph_find(g->nodes[i]->child, uid);
    return found;
}

static CUresult clone_node(CUgraph to, const struct CUgraphNode_st *from)
{
    CUgraphNode node = append(to, from->type, sg_wref_get(from->work));
    CUgraph child = NULL;
    CUresult r = CUDA_SUCCESS;

    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->origin = from->uid;
    node->disabled = from->disabled;
    node->mem = from->mem;
    if (node->mem)
        node->mem->refs++;
    if (from->child)
        r = sg_graph_clone(from->child, &child);
    if (child)
        sg_graph_own(node, child);
    return r;
}

/* Edges may lead from younger to older nodes, so they come after all nodes. */
static CUresult clone_edges(CUgraph to, const struct CUgraph_st *from)
{
    CUresult r = CUDA_SUCCESS;

    for (size_t i = 0; i < from->n; i++)
        from->nodes[i]->pair = to->nodes[i];
    for (size_t i = 0; i < from->n; i++)
        for (size_t k = 0; k < from->nodes[i]->ndeps && r == CUDA_SUCCESS; k++)
            r = sg_edge_add(from->nodes[i]->deps[k].node->pair, to->nodes[i],
                            &from->nodes[i]->deps[k].data);
    return r;
}

/* Of a clone every node is both new and a clone. */
static void tell_clone(CUgraph to, CUgraph from)
{
    for (size_t i = 0; i < from->n && SG_HOOKED; i++) {
        CUgraphNode node = to->nodes[i];

        SG_TELL_LATER(.kind = SG_NOTICE_NODE_CREATED, .graph = to, .node = node,
                      .type = node->type);
        SG_TELL_LATER(.kind = SG_NOTICE_NODE_CLONED, .graph = to, .node = node, .type = node->type,
                      .original_graph = from, .original_node = from->nodes[i]);
    }
    SG_TELL_LATER(.kind = SG_NOTICE_GRAPH_CLONED, .graph = to, .original_graph = from);
}

CUresult sg_graph_clone(CUgraph g, CUgraph *out)
{
    CUgraph c = sg_graph_new();
    unsigned told = sg_notice_mark();
    CUresult r = c ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; i < g->n && r == CUDA_SUCCESS; i++)
        r = clone_node(c, g->nodes[i]);
    if (r == CUDA_SUCCESS)
        r = clone_edges(c, g);
    if (r == CUDA_SUCCESS)
        r = sg_user_refs_copy(g, c);
    if (r != CUDA_SUCCESS) {
        sg_notice_forget(told); /* of child graphs */
        sg_graph_free(c);
        return r;
    }
    tell_clone(c, g);
    c->origin = g->id;
    c->has_mem = g->has_mem;
    *out = c;
    return CUDA_SUCCESS;
}

/* ---- order ------------------------------------------------------- */

/* Kahn's algorithm; nodes that become free go to the end of the same array. */
CUresult sg_graph_sort(CUgraph g, CUgraphNode *bad)
{
    size_t *left = calloc(g->n + 1, sizeof(*left)), done = 0, n = 0;
    CUgraphNode *order = calloc(g->n + 1, sizeof(CUgraphNode));
    CUresult r = left && order ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; i < g->n && r == CUDA_SUCCESS; i++) {
        g->nodes[i]->mark = i;
        left[i] = g->nodes[i]->ndeps;
        if (!left[i])
            order[n++] = g->nodes[i];
    }
    for (; done < n && r == CUDA_SUCCESS; done++)
        for (size_t k = 0; k < order[done]->nusers; k++)
            if (--left[order[done]->users[k]->mark] == 0)
                order[n++] = order[done]->users[k];
    for (size_t i = 0; i < g->n && r == CUDA_SUCCESS && n < g->n; i++)
        if (left[i]) {
            *bad = g->nodes[i];
            r = CUDA_ERROR_INVALID_VALUE;
        }
    free(left);
    if (r != CUDA_SUCCESS) {
        free(order);
        return r;
    }
    free(g->order);
    g->order = order;
    for (size_t i = 0; i < g->n && r == CUDA_SUCCESS; i++)
        if (g->nodes[i]->child)
            r = sg_graph_sort(g->nodes[i]->child, bad);
    return r;
}
