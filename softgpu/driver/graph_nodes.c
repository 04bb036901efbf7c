/* Adding nodes of every kind, and reading and setting what they do: in graphs, in executable ones.
 * The typed calls of both ABI versions are thin forms of the calls with CUgraphNodeParams. */
#include "softgpu/driver/graph.h"
#include "softgpu/driver/hooks.h"
#include "softgpu/driver/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- adding ------------------------------------------------------ */

struct place { /* where a node goes */
    CUgraphNode *out;
    CUgraph g;
    const CUgraphNode *deps;
    const CUgraphEdgeData *edges;
    size_t n;
};

static bool moves(const CUDA_CHILD_GRAPH_NODE_PARAMS *p)
{
#if CUDA_VERSION >= 12090
    return p->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
#else
    (void)p;
    return false;
#endif
}

/* With the lock. */
static CUresult add_child_locked(const struct place *at, const CUDA_CHILD_GRAPH_NODE_PARAMS *p)
{
    CUgraph child = p->graph;
    bool move = moves(p);
    unsigned told = sg_notice_mark();
    CUresult r = CUDA_SUCCESS;

    if (child == at->g || child->captures || (!move && sg_graph_has_mem(child)) ||
        (move && (child->owned || child->execs)))
        return CUDA_ERROR_INVALID_VALUE;
    if (!move)
        r = sg_graph_clone(p->graph, &child);
    if (r != CUDA_SUCCESS)
        return r;
    r = sg_node_new(at->g, CU_GRAPH_NODE_TYPE_GRAPH, NULL, at->deps, at->edges, at->n, at->out);
    if (r == CUDA_SUCCESS)
        sg_graph_own(*at->out, child);
    else
        sg_notice_forget(told);
    if (r != CUDA_SUCCESS && !move)
        sg_graph_free(child);
    return r;
}

static CUresult add_child(const struct place *at, const CUDA_CHILD_GRAPH_NODE_PARAMS *p)
{
    CUresult r = sg_graph_check(p->graph);

    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    r = add_child_locked(at, p);
    sg_engine_unlock();
    return r;
}

static bool reserved_clear(const CUgraphNodeParams *p)
{
    return !p->reserved0[0] && !p->reserved0[1] && !p->reserved0[2] && !p->reserved2;
}

static CUresult add(const struct place *at, CUgraphNodeParams *p)
{
    struct sg_wref *work = NULL;
    struct sg_work w;
    uint64_t addr = 0;
    CUresult r = sg_graph_check(at->g);

    if (r != CUDA_SUCCESS)
        return r;
    if (!at->out || !p || !reserved_clear(p))
        return CUDA_ERROR_INVALID_VALUE;
    if (p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return add_child(at, &p->graph);
    r = sg_node_params_make(p, &w);
    if (r != CUDA_SUCCESS)
        return r;
    addr = w.kind == SG_WORK_MEM_ALLOC ? w.mem.addr : 0;
    if (w.kind != SG_WORK_EMPTY && !(work = sg_wref_new(&w)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    sg_engine_lock();
    if (r == CUDA_SUCCESS)
        r = sg_node_new(at->g, p->type, work, at->deps, at->edges, at->n, at->out);
    sg_engine_unlock();
    if (addr && r == CUDA_SUCCESS)
        p->alloc.dptr = addr;
    else if (addr)
        sg_graph_mem_delete(addr);
    return r;
}

CUresult sg_cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *deps,
                              const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params)
{
    return add(&(struct place){out, g, deps, edges, n}, params);
}

CUresult sg_cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                           CUgraphNodeParams *params)
{
    return add(&(struct place){out, g, deps, NULL, n}, params);
}

/* ---- setting ----------------------------------------------------- */

/* Attributes of a kernel node outlive its parameters. */
static CUresult keep_attributes(const struct sg_work *old, struct sg_work *w)
{
    const struct sg_kernel_work *k = &old->kernel;

    if (w->kind != SG_WORK_KERNEL || old->kind != SG_WORK_KERNEL || !k->nattrs)
        return CUDA_SUCCESS;
    free(w->kernel.attrs);
    w->kernel.attrs = malloc(k->nattrs * sizeof(*k->attrs));
    if (!w->kernel.attrs) {
        w->kernel.nattrs = 0;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(w->kernel.attrs, k->attrs, k->nattrs * sizeof(*k->attrs));
    w->kernel.nattrs = k->nattrs;
    w->kernel.cooperative = k->cooperative;
    for (int d = 0; d < 3; d++)
        w->kernel.cluster[d] = k->cluster[d];
    return CUDA_SUCCESS;
}

static bool is_line(const struct sg_copy_work *c)
{
    return c->height == 1 && c->depth == 1 && c->width;
}

/* What only the calls for one node of an executable graph refuse. */
static bool exec_accepts(const struct sg_work *old, const struct sg_work *to)
{
    if (old->kind == SG_WORK_COPY)
        return is_line(&old->copy) && is_line(&to->copy);
    return old->kind != SG_WORK_FILL || (to->fill.width && to->fill.height);
}

/* With the lock; @x NULL: the graph itself. Takes the work over. */
static CUresult set_locked(CUgraphNode node, CUgraphExec x, struct sg_work *w)
{
    CUgraphNode given = node;
    struct sg_wref *ref;
    CUresult r;

    if (x)
        node = sg_graph_find(x->graph, node->uid);
    r = node ? keep_attributes(&node->work->w, w) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && x &&
        (!exec_accepts(&node->work->w, w) ||
         sg_work_may_become(&node->work->w, w, x->flags) != CU_GRAPH_EXEC_UPDATE_SUCCESS))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) {
        sg_work_release(w);
        return r;
    }
    ref = sg_wref_new(w);
    if (!ref)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_node_set_work(node, ref);
    if (x)
        SG_TELL_LATER(.kind = SG_NOTICE_NODE_SET_PARAMS, .graph = node->graph, .node = node,
                      .type = node->type, .original_graph = given->graph, .original_node = given,
                      .exec = x);
    return CUDA_SUCCESS;
}

static CUresult set(CUgraphExec x, CUgraphNode node, CUgraphNodeParams *p)
{
    struct sg_work w;
    CUresult r = p ? sg_node_check_type(node, p->type) : CUDA_ERROR_INVALID_VALUE;

    if (r != CUDA_SUCCESS)
        return r;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return CUDA_ERROR_NOT_SUPPORTED;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return x ? sg_cuGraphExecChildGraphNodeSetParams(x, node, p->graph.graph)
                 : CUDA_ERROR_NOT_SUPPORTED;
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    default:
        break;
    }
    r = reserved_clear(p) ? sg_node_params_make(p, &w) : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    r = set_locked(node, x, &w);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    return set(NULL, node, params);
}

CUresult sg_cuGraphExecNodeSetParams(CUgraphExec x, CUgraphNode node, CUgraphNodeParams *params)
{
    CUresult r = sg_graph_exec_check(x);

    return r == CUDA_SUCCESS ? set(x, node, params) : r;
}

/* ---- reading ----------------------------------------------------- */

static CUresult get(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *p)
{
    CUresult r = sg_node_check_type(node, type);

    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    r = sg_node_params_get(node, p);
    sg_engine_unlock();
    return r;
}

/* ---- typed forms ------------------------------------------------- */

/* The context a node was given stays when a call that names none sets its parameters. */
static CUcontext context_of(CUgraphNode node)
{
    CUcontext ctx = NULL;

    if (sg_handle_is(node, SG_MAGIC_NODE)) {
        sg_engine_lock();
        ctx = node->work ? node->work->w.ctx : NULL;
        sg_engine_unlock();
    }
    return ctx;
}

static CUgraphNodeParams kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *k)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};

    memcpy(&p.kernel, k, sizeof(*k)); /* v2 and v3 begin with v1's fields */
    return p;
}

static CUgraphNodeParams kernel_v2(const CUDA_KERNEL_NODE_PARAMS_v2 *k)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};

    memcpy(&p.kernel, k, sizeof(*k));
    return p;
}

static CUgraphNodeParams copy_params(const CUDA_MEMCPY3D *c, CUcontext ctx)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

    p.memcpy.copyParams = *c;
    p.memcpy.copyCtx = ctx;
    return p;
}

static CUgraphNodeParams fill_params(const CUDA_MEMSET_NODE_PARAMS *m, CUcontext ctx)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET};

    memcpy(&p.memset, m, sizeof(*m));
    p.memset.ctx = ctx;
    return p;
}

static CUgraphNodeParams host_params(const CUDA_HOST_NODE_PARAMS *h)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST};

    memcpy(&p.host, h, sizeof(*h));
    return p;
}

static CUgraphNodeParams batch_params(const CUDA_BATCH_MEM_OP_NODE_PARAMS *b)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};

    memcpy(&p.memOp, b, sizeof(*b));
    return p;
}

/* Members of the union begin at its start, so one of them stands for the event of both kinds. */
static CUgraphNodeParams event_params(CUgraphNodeType type, CUevent event)
{
    CUgraphNodeParams p = {.type = type};

    p.eventRecord.event = event;
    return p;
}

#define ADD(name, T, make)                                                                         \
    CUresult sg_cuGraphAdd##name(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,   \
                                 const T *params)                                                  \
    {                                                                                              \
        CUgraphNodeParams p;                                                                       \
                                                                                                   \
        if (!params)                                                                               \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        p = make(params);                                                                          \
        return add(&(struct place){out, g, deps, NULL, n}, &p);                                    \
    }
#define ADD_IN_CTX(name, T, make)                                                                  \
    CUresult sg_cuGraphAdd##name(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,   \
                                 const T *params, CUcontext ctx)                                   \
    {                                                                                              \
        CUgraphNodeParams p;                                                                       \
                                                                                                   \
        if (!params)                                                                               \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        p = make(params, ctx);                                                                     \
        return add(&(struct place){out, g, deps, NULL, n}, &p);                                    \
    }
#define GET(name, T, TYPE, member)                                                                 \
    CUresult sg_cuGraph##name(CUgraphNode node, T *params)                                         \
    {                                                                                              \
        CUgraphNodeParams p;                                                                       \
        CUresult r = params ? get(node, CU_GRAPH_NODE_TYPE_##TYPE, &p) : CUDA_ERROR_INVALID_VALUE; \
                                                                                                   \
        if (r == CUDA_SUCCESS)                                                                     \
            memcpy(params, &p.member, sizeof(*params));                                            \
        return r;                                                                                  \
    }
#define SET(name, T, value)                                                                        \
    CUresult sg_cuGraph##name(CUgraphNode node, const T *params)                                   \
    {                                                                                              \
        CUgraphNodeParams p;                                                                       \
                                                                                                   \
        if (!params)                                                                               \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        p = value;                                                                                 \
        return set(NULL, node, &p);                                                                \
    }
#define EXEC_SET(name, T, make)                                                                    \
    CUresult sg_cuGraphExec##name(CUgraphExec x, CUgraphNode node, const T *params)                \
    {                                                                                              \
        CUgraphNodeParams p;                                                                       \
                                                                                                   \
        if (!params)                                                                               \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        p = make(params);                                                                          \
        return sg_cuGraphExecNodeSetParams(x, node, &p);                                           \
    }
#define EXEC_SET_IN_CTX(name, T, make)                                                             \
    CUresult sg_cuGraphExec##name(CUgraphExec x, CUgraphNode node, const T *params, CUcontext ctx) \
    {                                                                                              \
        CUgraphNodeParams p;                                                                       \
                                                                                                   \
        if (!params)                                                                               \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        p = make(params, ctx);                                                                     \
        return sg_cuGraphExecNodeSetParams(x, node, &p);                                           \
    }
#define EVENT_NODE(name, TYPE)                                                                     \
    CUresult sg_cuGraphAddEvent##name##Node(CUgraphNode *out, CUgraph g, const CUgraphNode *deps,  \
                                            size_t n, CUevent event)                               \
    {                                                                                              \
        CUgraphNodeParams p = event_params(CU_GRAPH_NODE_TYPE_##TYPE, event);                      \
                                                                                                   \
        return add(&(struct place){out, g, deps, NULL, n}, &p);                                    \
    }                                                                                              \
    CUresult sg_cuGraphEvent##name##NodeSetEvent(CUgraphNode node, CUevent event)                  \
    {                                                                                              \
        CUgraphNodeParams p = event_params(CU_GRAPH_NODE_TYPE_##TYPE, event);                      \
                                                                                                   \
        return set(NULL, node, &p);                                                                \
    }                                                                                              \
    CUresult sg_cuGraphExecEvent##name##NodeSetEvent(CUgraphExec x, CUgraphNode node,              \
                                                     CUevent event)                                \
    {                                                                                              \
        CUgraphNodeParams p = event_params(CU_GRAPH_NODE_TYPE_##TYPE, event);                      \
                                                                                                   \
        return sg_cuGraphExecNodeSetParams(x, node, &p);                                           \
    }                                                                                              \
    GET(Event##name##NodeGetEvent, CUevent, TYPE, eventRecord.event)

ADD(KernelNode, CUDA_KERNEL_NODE_PARAMS_v1, kernel_v1)
ADD(KernelNode_v2, CUDA_KERNEL_NODE_PARAMS_v2, kernel_v2)
GET(KernelNodeGetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2, KERNEL, kernel)
SET(KernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1, kernel_v1(params))
SET(KernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2, kernel_v2(params))
EXEC_SET(KernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1, kernel_v1)
EXEC_SET(KernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2, kernel_v2)

ADD_IN_CTX(MemcpyNode, CUDA_MEMCPY3D, copy_params)
GET(MemcpyNodeGetParams, CUDA_MEMCPY3D, MEMCPY, memcpy.copyParams)
SET(MemcpyNodeSetParams, CUDA_MEMCPY3D, copy_params(params, context_of(node)))
EXEC_SET_IN_CTX(MemcpyNodeSetParams, CUDA_MEMCPY3D, copy_params)

ADD_IN_CTX(MemsetNode, CUDA_MEMSET_NODE_PARAMS, fill_params)
GET(MemsetNodeGetParams, CUDA_MEMSET_NODE_PARAMS, MEMSET, memset)
SET(MemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS, fill_params(params, context_of(node)))
EXEC_SET_IN_CTX(MemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS, fill_params)

ADD(HostNode, CUDA_HOST_NODE_PARAMS, host_params)
GET(HostNodeGetParams, CUDA_HOST_NODE_PARAMS, HOST, host)
SET(HostNodeSetParams, CUDA_HOST_NODE_PARAMS, host_params(params))
EXEC_SET(HostNodeSetParams, CUDA_HOST_NODE_PARAMS, host_params)

ADD(BatchMemOpNode, CUDA_BATCH_MEM_OP_NODE_PARAMS, batch_params)
GET(BatchMemOpNodeGetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, BATCH_MEM_OP, memOp)
SET(BatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, batch_params(params))
EXEC_SET(BatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, batch_params)

EVENT_NODE(Record, EVENT_RECORD)
EVENT_NODE(Wait, WAIT_EVENT)

GET(ChildGraphNodeGetGraph, CUgraph, GRAPH, graph.graph)
GET(MemFreeNodeGetParams, CUdeviceptr, MEM_FREE, free.dptr)
GET(MemAllocNodeGetParams, CUDA_MEM_ALLOC_NODE_PARAMS, MEM_ALLOC, alloc)

/* A caller of the first form knows functions only. */
CUresult sg_cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUgraphNodeParams p;
    CUresult r = params ? get(node, CU_GRAPH_NODE_TYPE_KERNEL, &p) : CUDA_ERROR_INVALID_VALUE;

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(params, &p.kernel, sizeof(*params));
    if (!params->func)
        params->func = node->work->w.kernel.func;
    return CUDA_SUCCESS;
}

CUresult sg_cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EMPTY};

    return add(&(struct place){out, g, deps, NULL, n}, &p);
}

CUresult sg_cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                     CUgraph child)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};

    p.graph.graph = child;
    return add(&(struct place){out, g, deps, NULL, n}, &p);
}

CUresult sg_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                   CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUresult r;

    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&p.alloc, params, sizeof(*params));
    r = add(&(struct place){out, g, deps, NULL, n}, &p);
    if (r == CUDA_SUCCESS)
        params->dptr = p.alloc.dptr;
    return r;
}

CUresult sg_cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                  CUdeviceptr dptr)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};

    p.free.dptr = dptr;
    return add(&(struct place){out, g, deps, NULL, n}, &p);
}

/* ---- switching nodes of executable graphs on and off ------------- */

/* With @on NULL, @was is filled. */
static CUresult enabled(CUgraphExec x, CUgraphNode node, const bool *on, unsigned *was)
{
    CUgraphNode mine;
    CUresult r = sg_graph_exec_check(x);

    if (r == CUDA_SUCCESS)
        r = sg_node_check(node);
    if (r != CUDA_SUCCESS)
        return r;
    if (node->type > CU_GRAPH_NODE_TYPE_MEMSET || (!on && !was))
        return CUDA_ERROR_INVALID_VALUE; /* kernels, copies and sets only */
    sg_engine_lock();
    mine = sg_graph_find(x->graph, node->uid);
    if (!mine)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (on)
        mine->disabled = !*on;
    else
        *was = !mine->disabled;
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphNodeSetEnabled(CUgraphExec x, CUgraphNode node, unsigned on)
{
    return enabled(x, node, &(bool){on != 0}, NULL);
}

CUresult sg_cuGraphNodeGetEnabled(CUgraphExec x, CUgraphNode node, unsigned *on)
{
    return enabled(x, node, NULL, on);
}
