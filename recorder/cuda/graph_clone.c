/*
 * Graphs, hashed node by node: what the job instantiates is a clone of its graph, with a hash
 * behind each node that writes, and one before each that reads where inputs are hashed. The job's
 * own graph keeps the nodes it has made; calls that name one of them are led to its twin, and
 * graphs that it brings as an update are cloned in the same way.
 *
 * Only a front end that can change arguments (the shim) does this. NVIDIA documents that clones
 * have copies of child graphs, which may be added to; that graphs with memory or conditional nodes
 * cannot be cloned, nor lose nodes that were added to them. So these are hashed as a whole.
 */
#include <string.h>

#include "recorder/cuda/graph.h"

/* What all calls that make or update one begin with: the graph is the second argument. */
struct exec_and_graph {
    void *exec;
    CUgraph graph;
};

/* And what calls begin with that change a child graph of one. */
struct exec_and_child {
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;
};

/* Nodes of an executable graph that another graph's are to change. */
struct part {
    struct tb_cu_exec *exec;
    struct tb_cu_node *first, *end;
    int down; /* how much deeper they lie than in that graph */
};

/* ---------------------------------------------------------------- twins */

static bool have_calls(void)
{
    const struct tb_cu_driver *d = &tb_cu.driver;

    return d->cuGraphClone && d->cuGraphNodeFindInClone && d->cuGraphAddKernelNode_v2 &&
           d->cuGraphAddDependencies_v2 && d->cuGraphNodeGetDependentNodes_v2 &&
           d->cuGraphNodeGetDependencies_v2 && d->cuGraphDestroy && d->cuGraphDestroyNode &&
           d->cuGraphExecKernelNodeSetParams_v2;
}

/*
 * The twins of what is inside @n, a child graph. Which node of a clone's child graph is whose,
 * CUDA does not tell; but a list of nodes of the same kinds with the same parameters and the same
 * edges, place by place, is as good as told.
 */
static bool find_inside(struct tb_cu_node *n, CUgraph copy)
{
    const struct tb_cu_node *end = tb_cu_node_end(n), *b;
    struct tb_cu_exec *y = tb_cu_exec_new();
    bool same;

    if (!y)
        return false;
    tb_cu_nodes_collect(y, copy);
    same = tb_cu_nodes_pair(n->next, end, y->first, n->depth + 1);
    b = y->first;
    for (struct tb_cu_node *a = n->next; same && a != end; a = a->next, b = b->next) {
        same = tb_cu_node_equal(a, b);
        a->twin = b->handle;
    }
    tb_cu_exec_drop(y);
    return same;
}

/* The twin of @n, whose graph's clone is @graph; of a child graph also those of its nodes, and the
 * clone's child graph. */
static bool find_twin(struct tb_cu_node *n, CUgraph graph, CUgraph *inside)
{
    const struct tb_cu_driver *d = &tb_cu.driver;
    CUgraphNode twin = NULL;

    if (n->depth == 0) {
        if (d->cuGraphNodeFindInClone(&twin, (CUgraphNode)(uintptr_t)n->handle, graph) !=
            CUDA_SUCCESS)
            return false;
        n->twin = HANDLE(twin);
    }
    if (n->type != CU_GRAPH_NODE_TYPE_GRAPH)
        return true;
    return d->cuGraphChildGraphNodeGetGraph((CUgraphNode)(uintptr_t)n->twin, inside) ==
               CUDA_SUCCESS &&
           (n->depth || find_inside(n, *inside));
}

/* ---------------------------------------------------------------- clones */

/* Twins of all nodes; those that hash for another graph go. */
static bool find_twins(struct tb_cu_exec *x, CUgraph clone)
{
    CUgraph at[TB_CU_GRAPH_DEPTH + 2] = {clone};
    bool ok = true;

    for (struct tb_cu_node *n = x->first; ok && n; n = n->next) {
        ok = find_twin(n, at[n->depth], &at[n->depth + 1]);
        if (ok && n->ours) /* it has another's word */
            ok = tb_cu.driver.cuGraphDestroyNode((CUgraphNode)(uintptr_t)n->twin) == CUDA_SUCCESS;
    }
    return ok;
}

static bool graph_in(const struct tb_cu_node *child, CUgraph *out)
{
    return tb_cu.driver.cuGraphChildGraphNodeGetGraph((CUgraphNode)(uintptr_t)child->twin, out) ==
           CUDA_SUCCESS;
}

/* Hashes right before and behind their nodes. */
static bool add_near(struct tb_cu_exec *x, CUgraph clone, const struct tb_cu_node *like,
                     struct tb_cu_work *w)
{
    CUgraph at[TB_CU_GRAPH_DEPTH + 2] = {clone};
    bool ok = true;

    for (struct tb_cu_node *n = x->first; ok && n; n = n->next) {
        if (n->type == CU_GRAPH_NODE_TYPE_GRAPH)
            ok = graph_in(n, &at[n->depth + 1]);
        if (ok && !n->ours)
            ok = tb_cu_graph_add_hashes(x, at[n->depth], n, like, w);
        like = like ? like->next : NULL;
    }
    return ok;
}

/* The hash of @n, where @p says; its indices begin with @first. It may lie outside of an update. */
static bool add_far(struct tb_cu_exec *x, CUgraph clone, struct tb_cu_node *n,
                    const struct tb_cu_graph_place *p, struct tb_cu_node *const *list,
                    uint32_t first)
{
    CUgraphNode node[TB_CU_PLACE];
    CUgraph graph = clone;

    if (first ? p->graph == TB_CU_NO_NODE || p->graph + 1 < first : false)
        return true;
    if (p->graph != TB_CU_NO_NODE && p->graph >= first && !graph_in(list[p->graph - first], &graph))
        return false;
    for (uint32_t i = 0; i < p->n; i++)
        node[i] = (CUgraphNode)(uintptr_t)list[p->node[i] - first]->twin;
    return tb_cu_graph_add_moved(x, graph, n, node, p->behind, p->n);
}

/* Hashes that wait for more than their nodes: when all nodes have their twins. */
static bool add_moved(struct tb_cu_exec *x, CUgraph clone, const struct tb_cu_node *like)
{
    uint32_t first = like ? like->index : 0, moved = 0, room = 0;
    struct tb_cu_node **list = NULL;
    bool ok = true;

    for (const struct tb_cu_node *n = x->first; n; n = n->next)
        moved += n->after.moved;
    if (!moved)
        return true;
    if (!tb_cu_graph_room((void **)&list, &room, 0, x->nodes, sizeof(struct tb_cu_node *)))
        return false;
    for (struct tb_cu_node *n = x->first; n; n = n->next)
        list[n->index] = n;
    for (struct tb_cu_node *n = x->first; ok && n; n = n->next) {
        if (n->after.moved)
            ok = add_far(x, clone, n, like ? like->after.place : n->after.place, list, first);
        like = like ? like->next : NULL;
    }
    tb_cu.api->unpool(list, room * sizeof(struct tb_cu_node *));
    return ok;
}

static bool instrument_all(struct tb_cu_exec *x, CUgraph clone, const struct tb_cu_node *like)
{
    struct tb_cu_work *w = tb_cu_work_new(TB_EV_LAUNCH, "graph", NULL, false);
    bool ok = w && find_twins(x, clone);

    if (ok && !like)
        tb_cu_graph_part(x, w, true);
    ok = ok && add_near(x, clone, like, w) && add_moved(x, clone, like);
    tb_cu_work_drop(w);
    return ok;
}

/* A word for tickets, the one that has been out of use for longest; NULL: there is none. */
static struct tb_cu_base *base_new(void)
{
    tb_cu_lock();
    struct tb_cu_base *b = NULL;
    if (tb_cu.bases < TB_FPD_BASES) {
        b = tb_cu_small(sizeof(*b));
        if (b)
            b->index = tb_cu.bases++;
    } else if (tb_cu.free_bases) {
        b = tb_cu.free_bases;
        tb_cu.free_bases = b->next;
    }
    tb_cu_unlock();
    return b;
}

static CUgraph clone_of(struct tb_cu_exec *x, CUgraph graph, const struct tb_cu_node *like)
{
    CUgraph clone = NULL;

    if (tb_cu.driver.cuGraphClone(&clone, graph) != CUDA_SUCCESS)
        return NULL;
    if (instrument_all(x, clone, like))
        return clone;
    (void)tb_cu.driver.cuGraphDestroy(clone);
    return NULL;
}

/* A clone of @graph for an executable graph of its own, which *@out describes; NULL: none. */
static CUgraph prepare(CUgraph graph, struct tb_cu_exec **out)
{
    struct tb_cu_ctx *c = have_calls() ? tb_cu_ctx() : NULL;
    struct tb_cu_exec *x = c && c->bases ? tb_cu_exec_new() : NULL;
    CUgraph clone = NULL;

    if (!x)
        return NULL;
    x->ctx = c;
    tb_cu_nodes_collect(x, graph);
    if (tb_cu_nodes_known(x) && !x->memory && (x->base = base_new()) != NULL)
        clone = clone_of(x, graph, NULL);
    if (clone && x->slots && x->slots <= TB_CU_SLOTS / 4) {
        *out = x;
        return clone;
    }
    if (clone)
        (void)tb_cu.driver.cuGraphDestroy(clone);
    tb_cu_exec_drop(x);
    return NULL;
}

/*
 * A clone of @graph that has hashes where @p has them, or the driver would refuse it. *@pairs: the
 * nodes follow each other as those of @p do. Nothing is known yet of nodes that cannot be looked
 * into.
 */
static CUgraph prepare_update(CUgraph graph, const struct part *p, struct tb_cu_exec **out,
                              bool *pairs)
{
    struct tb_cu_exec *x = tb_cu_exec_new();
    CUgraph clone;

    if (!x)
        return NULL;
    x->ctx = p->exec->ctx;
    x->base = p->exec->base;
    tb_cu_nodes_collect(x, graph);
    *pairs = tb_cu_nodes_pair(p->first, p->end, x->first, p->down);
    clone = clone_of(x, graph, *pairs ? p->first : NULL);
    *pairs = *pairs && !x->partial;
    x->base = NULL; /* it is lent */
    if (clone)
        *out = x;
    else
        tb_cu_exec_drop(x);
    return clone;
}

/* ---------------------------------------------------------------- calls under way */

/* What a call that is under way has changed. */
struct changed {
    struct tb_cu_exec *exec; /* described, with its clone */
    CUgraph graph, clone;
    CUgraphNode node; /* that a child graph was set of */
    struct part part; /* nodes that are to be changed; of no exec: one is made */
    bool pairs;       /* they can follow */
    void *params;     /* the job's, where it gave them in a struct */
    CUgraphNodeParams copy;
};

static struct changed *keep(const struct changed *k)
{
    struct changed *kept = tb_cu.api->pool(sizeof(*kept));

    if (kept) {
        *kept = *k;
        return kept;
    }
    (void)tb_cu.driver.cuGraphDestroy(k->clone);
    tb_cu_exec_drop(k->exec);
    return NULL;
}

/* The call has ended; the clone of an update has served. */
static void forget(struct changed *k)
{
    tb_cu.api->unpool(k, sizeof(*k));
}

static void drop(struct changed *k)
{
    (void)tb_cu.driver.cuGraphDestroy(k->clone);
    tb_cu_exec_drop(k->exec);
    forget(k);
}

/* Nodes do from now on what those of the update do, if the driver took it. */
static void take_over(struct changed *k, bool accepted)
{
    struct tb_cu_node *from = k->exec->first;

    if (!accepted)
        return;
    k->part.exec->changed = true;
    if (!k->pairs)
        k->part.exec->lost = true;
    for (struct tb_cu_node *n = k->part.first; k->pairs && n != k->part.end; n = n->next) {
        tb_cu_node_adopt(n, from);
        from = from->next;
    }
}

/* ---------------------------------------------------------------- instantiation */

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

void tb_cu_graph_instantiating(struct tb_cuda_call *c)
{
    struct exec_and_graph *p = c->change;
    struct changed k = {.exec = NULL}, *kept;

    if (!p || tb_cu.config->level < TB_LEVEL_OP)
        return;
    k.graph = p->graph;
    k.clone = prepare(p->graph, &k.exec);
    kept = k.clone ? keep(&k) : NULL;
    if (!kept)
        return;
    p->graph = k.clone;
    *c->user = HANDLE(kept);
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
        forget(k);
        return true;
    }
    drop(k);
    c->result = again(c);
    return false;
}

/* ---------------------------------------------------------------- updates */

void tb_cu_graph_updating(struct tb_cuda_call *c, struct tb_cu_exec *x)
{
    struct exec_and_graph *p = c->change;
    struct changed k = {.part = {.exec = x, .first = x->first}}, *kept;

    if (!p || !x->clone)
        return;
    k.graph = p->graph;
    k.clone = prepare_update(p->graph, &k.part, &k.exec, &k.pairs);
    kept = k.clone ? keep(&k) : NULL;
    if (!kept)
        return;
    p->graph = k.clone;
    *c->user = HANDLE(kept);
}

/* Handles that only the clone has must not reach the job. */
static void lead_back(const struct tb_cu_exec *x, CUgraphNode *node)
{
    for (const struct tb_cu_node *n = x->first; node && *node && n; n = n->next)
        if (n->twin == HANDLE(*node) || n->before.node == HANDLE(*node) ||
            n->after.node == HANDLE(*node)) {
            *node = (CUgraphNode)(uintptr_t)n->handle;
            return;
        }
}

bool tb_cu_graph_updated(struct tb_cuda_call *c)
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
    take_over(k, c->result == CUDA_SUCCESS);
    drop(k);
    return true;
}

/* ---------------------------------------------------------------- calls for one node */

/* Where the call has the child graph that it sets; NULL: it sets none. */
static CUgraph *child_of(struct tb_cuda_call *c, struct changed *k)
{
    struct exec_and_child *p = c->change;
    struct tb_cuGraphExecNodeSetParams_params *any = c->change;

    if (c->id == TB_CUDA_cuGraphExecChildGraphNodeSetParams)
        return &p->graph;
    if (c->id != TB_CUDA_cuGraphExecNodeSetParams || !any->nodeParams ||
        any->nodeParams->type != CU_GRAPH_NODE_TYPE_GRAPH)
        return NULL;
    if (k) {
        k->params = any->nodeParams;
        k->copy = *any->nodeParams;
        any->nodeParams = &k->copy;
    }
    return &any->nodeParams->graph.graph;
}

static struct changed *child_changing(struct tb_cuda_call *c, struct tb_cu_exec *x,
                                      struct tb_cu_node *n)
{
    struct changed k = {.part = {x, n->next, tb_cu_node_end(n), n->depth + 1}}, *kept;

    k.graph = *child_of(c, NULL);
    k.node = (CUgraphNode)(uintptr_t)n->handle;
    k.clone = prepare_update(k.graph, &k.part, &k.exec, &k.pairs);
    kept = k.clone ? keep(&k) : NULL;
    if (kept)
        *child_of(c, kept) = kept->clone;
    return kept;
}

/* In what is kept for the end of such a call: it is a struct changed, not the node's handle. */
#define CHANGED 1u

void tb_cu_graph_node_enter(struct tb_cuda_call *c, struct tb_cu_exec *x)
{
    struct tb_cu_exec_and_node *p = c->change;
    struct tb_cu_node *n = p && x->clone ? tb_cu_node_of(x, HANDLE(p->node)) : NULL;
    struct changed *k = NULL;

    if (!n || !n->twin)
        return;
    if (n->type == CU_GRAPH_NODE_TYPE_GRAPH && child_of(c, NULL))
        k = child_changing(c, x, n);
    *c->user = k ? HANDLE(k) | CHANGED : HANDLE(p->node);
    p->node = (CUgraphNode)(uintptr_t)n->twin;
}

bool tb_cu_graph_node_exit(struct tb_cuda_call *c)
{
    struct tb_cu_exec_and_node *p = c->change;
    struct changed *k = (struct changed *)(uintptr_t)(*c->user & ~(uint64_t)CHANGED);

    if (!p || !k)
        return false;
    if (!(*c->user & CHANGED)) {
        p->node = (CUgraphNode)(uintptr_t)*c->user;
        return false;
    }
    p->node = k->node;
    if (k->params)
        ((struct tb_cuGraphExecNodeSetParams_params *)c->change)->nodeParams = k->params;
    else
        *child_of(c, NULL) = k->graph;
    take_over(k, c->result == CUDA_SUCCESS);
    drop(k);
    return true;
}
