/* Executable graphs: instantiation, launch, their end. */
#include "softgpu/driver/graph.h"
#include "softgpu/driver/trace_item.h"

#include "softgpu/driver/hooks.h"

#include <stdio.h>
#include <stdlib.h>

#define KNOWN_FLAGS                                                                                \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |        \
     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

/* ---- instantiation ----------------------------------------------- */

static CUresult check_flags(uint64_t flags)
{
    if (flags & ~(uint64_t)KNOWN_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    if (!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH))
        return CUDA_SUCCESS;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
        return CUDA_ERROR_INVALID_VALUE;
    sg_log(1, "graphs cannot be launched by kernels");
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* With the lock. @bad: a node on a cycle. */
static CUresult make_exec(CUgraph g, uint64_t flags, CUgraphExec *out, CUgraphNode *bad)
{
    struct CUgraphExec_st *x = NULL;
    unsigned told = sg_notice_mark();
    CUresult r = CUDA_SUCCESS;

    if (g->captures || (sg_graph_has_mem(g) && g->execs))
        return CUDA_ERROR_INVALID_VALUE;
    if ((r = sg_graph_sort(g, bad)) != CUDA_SUCCESS)
        return r;
    x = calloc(1, sizeof(*x));
    r = x ? sg_graph_clone(g, &x->graph) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS)
        r = sg_graph_sort(x->graph, bad);
    if (r == CUDA_SUCCESS && !sg_handle_add(x, SG_MAGIC_GEXEC))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        sg_notice_forget(told);
        if (x)
            sg_graph_free(x->graph);
        free(x);
        return r;
    }
    x->magic = SG_MAGIC_GEXEC;
    x->refs = 1;
    x->flags = flags & ~(uint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    x->source = g;
    x->source_id = g->id;
    x->graph->owned = true;
    g->execs++;
    *out = x;
    return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *out, CUgraph g, uint64_t flags, CUgraphNode *bad)
{
    CUresult r = sg_graph_check(g);

    *bad = NULL;
    if (r == CUDA_SUCCESS)
        r = out ? check_flags(flags) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && g->owned) /* part of another graph */
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    SG_TELL(.kind = SG_NOTICE_EXEC_CREATE, .graph = g);
    sg_engine_lock();
    r = make_exec(g, flags, out, bad);
    if (r == CUDA_SUCCESS)
        SG_TELL_LATER(.kind = SG_NOTICE_EXEC_CREATED, .graph = g, .exec = *out);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    CUgraphNode bad;

    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        return CUDA_ERROR_INVALID_VALUE; /* there is no stream for it */
    return instantiate(out, graph, flags, &bad);
}

CUresult sg_cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
                                  char *log, size_t size)
{
    CUgraphNode bad;
    CUresult r = instantiate(out, graph, 0, &bad);

    if (error_node)
        *error_node = bad;
    if (log && size)
        snprintf(log, size, "%s", bad ? "the graph has a cycle" : "");
    return r;
}

CUresult sg_cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node, char *log,
                               size_t size)
{
    return sg_cuGraphInstantiate_v2(out, graph, error_node, log, size);
}

CUresult sg_cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                                         CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    CUgraphExec x = NULL;
    CUgraphNode bad;
    CUresult r;

    if (!p || !out)
        return CUDA_ERROR_INVALID_VALUE;
    r = instantiate(&x, graph, p->flags, &bad);
    if (r == CUDA_SUCCESS && (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)) {
        r = sg_cuGraphUpload(x, p->hUploadStream);
        if (r != CUDA_SUCCESS)
            sg_cuGraphExecDestroy(x);
    }
    p->hErrNode_out = bad;
    p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    if (r != CUDA_SUCCESS)
        p->result_out =
            bad ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE : CUDA_GRAPH_INSTANTIATE_ERROR;
    if (r == CUDA_SUCCESS)
        *out = x;
    return r;
}

CUresult sg_graph_exec_check(CUgraphExec x)
{
    CUresult r = sg_enter();

    return r == CUDA_SUCCESS && !sg_handle_is(x, SG_MAGIC_GEXEC) ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult sg_cuGraphExecGetFlags(CUgraphExec x, cuuint64_t *flags)
{
    CUresult r = sg_graph_exec_check(x);

    if (r == CUDA_SUCCESS && !flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *flags = x->flags;
    return r;
}

/* ---- the end ----------------------------------------------------- */

void sg_graph_exec_unref(struct CUgraphExec_st *x)
{
    if (--x->refs)
        return;
    sg_item_put(x->last);
    sg_graph_free(x->graph);
    x->magic = SG_MAGIC_DEAD;
    free(x);
}

CUresult sg_cuGraphExecDestroy(CUgraphExec x)
{
    CUresult r = sg_graph_exec_check(x);

    if (r != CUDA_SUCCESS)
        return r;
    SG_TELL(.kind = SG_NOTICE_EXEC_DESTROY, .exec = x);
    sg_engine_lock();
    sg_handle_remove(x);
    if (sg_handle_is(x->source, SG_MAGIC_GRAPH) && x->source->id == x->source_id)
        x->source->execs--;
    sg_graph_exec_unref(x);
    sg_engine_unlock();
    return CUDA_SUCCESS;
}

/* ---- launch ------------------------------------------------------ */

/* The priority of a kernel node, where the graph was instantiated to use it. */
static int node_priority(const struct CUgraphNode_st *node, int otherwise)
{
    const struct sg_kernel_work *k;

    if (node->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return otherwise;
    k = &node->work->w.kernel;
    for (unsigned i = 0; i < k->nattrs; i++)
        if (k->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
            return k->attrs[i].value.priority;
    return 0;
}

static size_t count_leaves(const struct CUgraph_st *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n; i++)
        n += g->nodes[i]->nusers == 0;
    return n;
}

static struct sg_item *make_item(CUgraphNode node, struct CUstream_st *s, uint64_t flags,
                                 struct sg_wref *work, size_t deps)
{
    int priority = s->priority;
    struct sg_item *i;

    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
        s->priority = node_priority(node, priority); /* for the draw of the rank only */
    i = sg_item_new(s, work && work->w.ctx ? work->w.ctx : s->ctx, work, (unsigned)deps);
    s->priority = priority;
    return i;
}

/* Modules may have been unloaded since. */
static bool can_run(const struct CUgraph_st *g)
{
    bool can = true;

    for (size_t i = 0; i < g->n && can; i++) {
        const struct CUgraphNode_st *node = g->nodes[i];

        if (node->child)
            can = can_run(node->child);
        else if (node->type == CU_GRAPH_NODE_TYPE_KERNEL)
            can = sg_kernel_alive(&node->work->w.kernel);
    }
    return can;
}

/* All items of a graph before any is linked: if one is missing, none was promised. A child graph
 * has one before and one behind its own. */
static bool make_items(CUgraph g, struct CUstream_st *s, const struct CUgraphExec_st *x)
{
    uint64_t flags = x->flags;

    for (size_t i = 0; i < g->n; i++) {
        CUgraphNode node = g->order[i];
        struct sg_wref *work = node->disabled ? NULL : node->work;

        node->first = node->item = make_item(node, s, flags, work, node->ndeps + 2);
        if (!node->item)
            return false;
        sg_trace_node(node->item, x, node->uid);
        if (!node->child)
            continue;
        node->item = NULL;
        if (!make_items(node->child, s, x))
            return false;
        node->item = make_item(node, s, flags, NULL, count_leaves(node->child) + 1);
        if (!node->item)
            return false;
    }
    return true;
}

static void drop_items(CUgraph g)
{
    for (size_t i = 0; i < g->n; i++) {
        CUgraphNode node = g->nodes[i];

        if (node->first)
            sg_item_free(node->first);
        if (node->item && node->item != node->first)
            sg_item_free(node->item);
        node->first = node->item = NULL;
        if (node->child)
            drop_items(node->child);
    }
}

static void forget_items(CUgraph g)
{
    for (size_t i = 0; i < g->n; i++) {
        g->nodes[i]->first = g->nodes[i]->item = NULL;
        if (g->nodes[i]->child)
            forget_items(g->nodes[i]->child);
    }
}

static void meet_event(CUgraphNode node, struct sg_item *i)
{
    struct CUevent_st *ev = node->work->w.event.event;

    if (ev->dead)
        return;
    if (node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        sg_event_set(ev, i);
    else if (!ev->capture)
        sg_item_after(i, ev->item);
}

static void submit_items(CUgraph g, struct sg_item *before)
{
    for (size_t i = 0; i < g->n; i++) {
        CUgraphNode node = g->order[i];

        for (size_t k = 0; k < node->ndeps; k++)
            sg_item_after(node->first, node->deps[k].node->item);
        if (!node->ndeps)
            sg_item_after(node->first, before);
        if (node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ||
            node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
            meet_event(node, node->first);
        sg_item_submit(node->first);
        if (!node->child)
            continue;
        submit_items(node->child, node->first);
        for (size_t k = 0; k < node->child->n; k++)
            if (!node->child->nodes[k]->nusers)
                sg_item_after(node->item, node->child->nodes[k]->item);
        sg_item_after(node->item, node->first);
        sg_item_submit(node->item);
    }
}

/* Every launch is one item before its nodes and one behind them, both in the stream's order. */
static CUresult launch(struct CUgraphExec_st *x, struct CUstream_st *s)
{
    CUgraph g = x->graph;
    struct sg_item *begin, *end = NULL;
    bool auto_free = x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    CUresult r = can_run(g) ? sg_memnodes_check(g, auto_free, s) : CUDA_ERROR_INVALID_HANDLE;

    if (r != CUDA_SUCCESS)
        return r;
    begin = sg_item_new(s, s->ctx, NULL, sg_stream_fanin(s) + 1);
    if (begin && make_items(g, s, x))
        end = sg_item_new(s, s->ctx, NULL, (unsigned)count_leaves(g) + sg_stream_fanin(s) + 1);
    if (!end) {
        drop_items(g);
        if (begin)
            sg_item_free(begin);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (SG_TRACED)
        sg_trace_graph(begin, end, x);
    sg_item_after(begin, x->last);
    sg_stream_append(s, begin);
    submit_items(g, begin);
    for (size_t i = 0; i < g->n; i++)
        if (!g->nodes[i]->nusers)
            sg_item_after(end, g->nodes[i]->item);
    end->exec = x;
    x->refs++;
    sg_item_get(end);
    sg_item_put(x->last);
    x->last = end;
    sg_stream_append(s, end);
    forget_items(g);
    sg_memnodes_launched(g);
    return CUDA_SUCCESS;
}

/* A launch that is captured is a child graph. */
static CUresult capture_launch(struct CUgraphExec_st *x, struct CUstream_st *s)
{
    unsigned told = sg_notice_mark();
    CUgraph child;
    CUgraphNode node;
    CUresult r;

    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (sg_graph_has_mem(x->graph)) {
        sg_capture_invalidate(s->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    r = sg_graph_clone(x->graph, &child);
    if (r != CUDA_SUCCESS)
        return r;
    r = sg_capture_add_child(s, &node);
    if (r != CUDA_SUCCESS) {
        sg_notice_forget(told);
        sg_graph_free(child);
        return r;
    }
    sg_graph_own(node, child);
    return CUDA_SUCCESS;
}

CUresult sg_cuGraphLaunch(CUgraphExec x, CUstream given)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r == CUDA_SUCCESS)
        r = sg_graph_exec_check(x);
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    if (s->capture) {
        r = capture_launch(x, s);
    } else {
        r = sg_capture_implicit(s, true);
        if (r == CUDA_SUCCESS)
            r = launch(x, s);
        if (r == CUDA_SUCCESS && sg_driver.opt.launch_blocking) {
            struct sg_item *last = x->last;

            sg_item_get(last);
            sg_engine_wait(last);
            sg_item_put(last);
            r = sg_stream_result(s);
        }
    }
    sg_engine_unlock();
    return r;
}

/* Nothing is prepared on a device; only the order is kept. */
CUresult sg_cuGraphUpload(CUgraphExec x, CUstream given)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r == CUDA_SUCCESS)
        r = sg_graph_exec_check(x);
    if (r != CUDA_SUCCESS)
        return r;
    sg_engine_lock();
    r = sg_capture_refuse(s);
    if (r == CUDA_SUCCESS)
        r = sg_stream_push(s, s->ctx, NULL, x->last, NULL);
    sg_engine_unlock();
    return r;
}
