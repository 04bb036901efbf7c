/* What an executable graph may be changed into: cuGraphExecUpdate and its kin. With the lock. */
#include "softgpu/driver/graph.h"

#include "softgpu/driver/hooks.h"

#include <stdlib.h>
#include <string.h>

#define OK CU_GRAPH_EXEC_UPDATE_SUCCESS

/* ---- one node's work --------------------------------------------- */

static int priority_of(const struct sg_kernel_work *k)
{
    for (unsigned i = 0; i < k->nattrs; i++)
        if (k->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
            return k->attrs[i].value.priority;
    return 0;
}

static CUgraphExecUpdateResult kernel_may(const struct sg_work *old, const struct sg_work *to,
                                          uint64_t flags)
{
    if (old->ctx != to->ctx)
        return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    if (old->kernel.cooperative != to->kernel.cooperative)
        return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) &&
        priority_of(&old->kernel) != priority_of(&to->kernel))
        return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
    return OK;
}

/* Is memory at one address as good as at another: same device, same context? What is not known, or
 * no longer, does not object. */
static bool same_home(uint64_t a, uint64_t b)
{
    struct sg_alloc x, y;

    if (a == b || !sg_alloc_find(a, &x) || !sg_alloc_find(b, &y))
        return true;
    return x.dev == y.dev && (!x.ctx || !y.ctx || x.ctx == y.ctx);
}

static CUgraphExecUpdateResult copy_may(const struct sg_copy_work *old,
                                        const struct sg_copy_work *to)
{
    bool same = old->src_type == to->src_type && old->dst_type == to->dst_type;

    return same && same_home(old->src, to->src) && same_home(old->dst, to->dst)
               ? OK
               : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

static CUgraphExecUpdateResult fill_may(const struct sg_fill_work *old,
                                        const struct sg_fill_work *to)
{
    bool same = old->height == to->height;

    if (old->height > 1)
        same = same && old->width == to->width && old->pitch == to->pitch && old->elem == to->elem;
    return same && same_home(old->dst, to->dst) ? OK
                                                : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

/* Addresses, values and kinds of wait may change; operations and their number may not. */
static CUgraphExecUpdateResult batch_may(const struct sg_work *old, const struct sg_work *to)
{
    bool same = old->batch.n == to->batch.n && old->ctx == to->ctx;

    for (unsigned i = 0; i < old->batch.n && same; i++)
        same = old->batch.ops[i].operation == to->batch.ops[i].operation;
    return same ? OK : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

CUgraphExecUpdateResult sg_work_may_become(const struct sg_work *old, const struct sg_work *to,
                                           uint64_t exec_flags)
{
    switch (old->kind) {
    case SG_WORK_KERNEL:
        return kernel_may(old, to, exec_flags);
    case SG_WORK_COPY:
        return copy_may(&old->copy, &to->copy);
    case SG_WORK_FILL:
        return fill_may(&old->fill, &to->fill);
    case SG_WORK_BATCH_MEM_OP:
        return batch_may(old, to);
    case SG_WORK_MEM_ALLOC:
    case SG_WORK_MEM_FREE:
        return old->mem.addr == to->mem.addr ? OK : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    default:
        return OK;
    }
}

/* ---- topology ---------------------------------------------------- */

struct pairing {
    CUgraphNode *stack; /* of ours; room for all */
    size_t depth;
    CUgraphExecUpdateResultInfo *info;
};

static CUgraphExecUpdateResult fail(CUgraphExecUpdateResultInfo *info, CUgraphExecUpdateResult r,
                                    CUgraphNode node, CUgraphNode from)
{
    info->errorNode = node;
    info->errorFromNode = from;
    return r;
}

static bool pair(struct pairing *p, CUgraphNode mine, CUgraphNode theirs)
{
    if (mine->pair || theirs->pair)
        return mine->pair == theirs;
    mine->pair = theirs;
    theirs->pair = mine;
    p->stack[p->depth++] = mine;
    return true;
}

/* Pairs what the paired nodes depend on, edge by edge. */
static CUgraphExecUpdateResult pair_deps(struct pairing *p)
{
    while (p->depth) {
        CUgraphNode mine = p->stack[--p->depth], theirs = mine->pair;

        if (mine->ndeps != theirs->ndeps)
            return fail(p->info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, theirs, NULL);
        for (size_t i = 0; i < mine->ndeps; i++)
            if (!pair(p, mine->deps[i].node, theirs->deps[i].node) ||
                memcmp(&mine->deps[i].data, &theirs->deps[i].data, sizeof(CUgraphEdgeData)) != 0)
                return fail(p->info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, theirs,
                            theirs->deps[i].node);
    }
    return OK;
}

static CUgraphNode next_leaf(const struct CUgraph_st *g, size_t *at)
{
    while (*at < g->n && g->nodes[*at]->nusers)
        ++*at;
    return *at < g->n ? g->nodes[(*at)++] : NULL;
}

static CUgraphExecUpdateResult pair_graphs(CUgraph mine, CUgraph theirs,
                                           CUgraphExecUpdateResultInfo *info)
{
    struct pairing p = {.info = info};
    CUgraphExecUpdateResult r = OK;
    size_t a = 0, b = 0;

    if (mine->n != theirs->n)
        return fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL, NULL);
    for (size_t i = 0; i < mine->n; i++)
        mine->nodes[i]->pair = theirs->nodes[i]->pair = NULL;
    p.stack = malloc((mine->n + 1) * sizeof(CUgraphNode));
    if (!p.stack)
        return fail(info, CU_GRAPH_EXEC_UPDATE_ERROR, NULL, NULL);
    for (;;) { /* exit nodes pair in the order they were made */
        CUgraphNode x = next_leaf(mine, &a), y = next_leaf(theirs, &b);

        if (!x && !y)
            break;
        if (!x || !y || !pair(&p, x, y)) {
            r = fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, y, NULL);
            break;
        }
    }
    if (r == OK)
        r = pair_deps(&p);
    free(p.stack);
    for (size_t i = 0; i < mine->n && r == OK; i++)
        if (!theirs->nodes[i]->pair) /* on a cycle */
            r = fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, theirs->nodes[i], NULL);
    return r;
}

static CUgraphExecUpdateResult check_nodes(CUgraph mine, CUgraph theirs, uint64_t flags,
                                           CUgraphExecUpdateResultInfo *info)
{
    CUgraphExecUpdateResult r = pair_graphs(mine, theirs, info);

    for (size_t i = 0; i < mine->n && r == OK; i++) {
        CUgraphNode x = mine->nodes[i], y = x->pair;

        if (x->type != y->type)
            r = fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, y, NULL);
        else if (x->child)
            r = check_nodes(x->child, y->child, flags, info);
        else if (x->work && (r = sg_work_may_become(&x->work->w, &y->work->w, flags)) != OK)
            fail(info, r, y, NULL);
    }
    return r;
}

static void take_work(CUgraph mine, CUgraphExec x)
{
    for (size_t i = 0; i < mine->n; i++) {
        CUgraphNode node = mine->nodes[i];

        if (node->child)
            take_work(node->child, x);
        else
            sg_node_set_work(node, sg_wref_get(node->pair->work));
        SG_TELL_LATER(.kind = SG_NOTICE_NODE_UPDATED, .graph = mine, .node = node,
                      .type = node->type, .original_graph = node->pair->graph,
                      .original_node = node->pair, .exec = x);
    }
}

CUgraphExecUpdateResult sg_graph_update(CUgraphExec x, CUgraph mine, CUgraph theirs,
                                        CUgraphExecUpdateResultInfo *info)
{
    memset(info, 0, sizeof(*info));
    info->result = check_nodes(mine, theirs, x->flags, info);
    if (info->result == OK)
        take_work(mine, x);
    return info->result;
}

/* ---- the calls --------------------------------------------------- */

CUresult sg_cuGraphExecUpdate_v2(CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo *info)
{
    CUresult r = sg_graph_exec_check(x);

    if (!info)
        return CUDA_ERROR_INVALID_VALUE;
    memset(info, 0, sizeof(*info));
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
    if (r == CUDA_SUCCESS)
        r = sg_graph_check(g);
    if (r != CUDA_SUCCESS)
        return r;
    if (g->owned)
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    if (sg_graph_update(x, x->graph, g, info) != OK)
        r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphExecUpdate(CUgraphExec x, CUgraph g, CUgraphNode *error_node,
                              CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info;
    CUresult r = sg_cuGraphExecUpdate_v2(x, g, &info);

    if (error_node)
        *error_node = info.errorNode;
    if (result)
        *result = info.result;
    return r;
}

CUresult sg_cuGraphExecChildGraphNodeSetParams(CUgraphExec x, CUgraphNode node, CUgraph child)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode mine;
    CUresult r = sg_graph_exec_check(x);

    if (r == CUDA_SUCCESS)
        r = sg_node_check_type(node, CU_GRAPH_NODE_TYPE_GRAPH);
    if (r == CUDA_SUCCESS)
        r = sg_graph_check(child);
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    mine = sg_graph_find(x->graph, node->uid);
    if (!mine)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (sg_graph_update(x, mine->child, child, &info) != OK)
        r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    sg_engine_unlock();
    return r;
}
