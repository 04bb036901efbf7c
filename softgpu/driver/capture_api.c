/* The calls that begin, end and inspect a capture sequence. */
#include "softgpu/driver/graph.h"
#include "softgpu/driver/strict.h"

#include "softgpu/driver/hooks.h"

#include "softgpu/driver/api_gen.h"

#include <stdlib.h>

/* ---- beginning --------------------------------------------------- */

struct start { /* where capture into an existing graph goes on */
    CUgraph graph;
    const CUgraphNode *deps;
    const CUgraphEdgeData *edges;
    size_t n;
};

static CUresult set_tail(struct sg_node_set *set, CUgraph graph, const CUgraphNode *nodes,
                         const CUgraphEdgeData *edges, size_t n)
{
    CUresult r = n && !nodes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = sg_handle_is(nodes[i], SG_MAGIC_NODE) && nodes[i]->graph == graph
                ? sg_node_set_add(set, nodes[i], edges ? &edges[i] : NULL)
                : CUDA_ERROR_INVALID_VALUE;
    return r;
}

/* With the lock. */
static CUresult begin_locked(struct CUstream_st *s, CUstreamCaptureMode mode,
                             const struct start *at)
{
    struct sg_engine *e = sg_driver.engine;
    struct sg_capture *c;
    CUresult r = CUDA_SUCCESS;

    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (at)
        r = set_tail(&s->tail, at->graph, at->deps, at->edges, at->n);
    c = r == CUDA_SUCCESS ? calloc(1, sizeof(*c)) : NULL;
    if (c)
        c->graph = at ? at->graph : sg_graph_new();
    if (!c || !c->graph) {
        free(c);
        sg_node_set_clear(&s->tail);
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->owns_graph = !at;
    c->graph->captures++;
    c->id = ++e->next_capture;
    c->mode = mode;
    c->thread = sg_tls();
    c->origin = s;
    if (sg_strict())
        c->by = sg_strict_by();
    c->next = e->captures;
    e->captures = c;
    atomic_fetch_add(&e->ncaptures, 1);
    sg_capture_join(c, s);
    if (!at)
        SG_TELL_LATER(.kind = SG_NOTICE_GRAPH_CREATED, .graph = c->graph);
    return CUDA_SUCCESS;
}

static CUresult begin(CUstream given, CUstreamCaptureMode mode, const struct start *at)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    r = begin_locked(s, mode, at);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuStreamBeginCapture(CUstream stream)
{
    return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL);
}

CUresult sg_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return begin(stream, mode, NULL);
}

CUresult sg_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
                                        const CUgraphEdgeData *edges, size_t n,
                                        CUstreamCaptureMode mode)
{
    struct start at = {graph, deps, edges, n};
    CUresult r = sg_graph_check(graph);

    return r == CUDA_SUCCESS ? begin(stream, mode, &at) : r;
}

CUresult sg_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    struct sg_tls *tls = sg_tls();
    CUstreamCaptureMode before;
    CUresult r = sg_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    before = tls->capture_mode;
    tls->capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* ---- ending ------------------------------------------------------ */

/* Marks a node and all that it follows, directly or not; @stack has room for all of a graph. */
static void mark_ancestors(CUgraphNode node, uint64_t mark, CUgraphNode *stack)
{
    size_t depth = 0;

    if (node->mark == mark)
        return;
    node->mark = mark;
    stack[depth++] = node;
    while (depth) {
        CUgraphNode at = stack[--depth];

        for (size_t i = 0; i < at->ndeps; i++)
            if (at->deps[i].node->mark != mark) {
                at->deps[i].node->mark = mark;
                stack[depth++] = at->deps[i].node;
            }
    }
}

/* Every stream of the sequence must have been joined to the origin. */
static CUresult check_joined(const struct sg_capture *c)
{
    uint64_t mark = ++sg_driver.engine->next_node;
    CUgraphNode *stack = malloc((c->graph->n + 1) * sizeof(CUgraphNode));

    if (!stack)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < c->origin->tail.n; i++)
        mark_ancestors(c->origin->tail.nodes[i], mark, stack);
    free(stack);
    for (const struct CUstream_st *s = c->streams; s; s = s->next_in_capture)
        for (size_t i = 0; i < s->tail.n; i++)
            if (s->tail.nodes[i]->mark != mark)
                return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    return CUDA_SUCCESS;
}

/* May this call end the sequence? */
static CUresult check_end(const struct CUstream_st *s)
{
    struct sg_capture *c = s->capture;

    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != sg_tls())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (c->origin != s) {
        sg_capture_invalidate(c);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    return CUDA_SUCCESS;
}

/* What was captured. */
static CUresult check_captured(const struct sg_capture *c)
{
    return c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : check_joined(c);
}

/* With the lock, which is released while a tool is told that the graph will go. */
static void tell_spoilt(const struct CUstream_st *s)
{
    const struct sg_capture *c = s->capture;
    CUgraph g;

    if (!SG_HOOKED || check_end(s) != CUDA_SUCCESS || !c->owns_graph ||
        check_captured(c) == CUDA_SUCCESS)
        return;
    g = c->graph;
    sg_engine_unlock();
    SG_TELL(.kind = SG_NOTICE_GRAPH_DESTROY, .graph = g);
    sg_engine_lock();
}

static CUresult end_locked(struct CUstream_st *s, CUgraph *out)
{
    struct sg_capture *c = s->capture;
    CUresult r = check_end(s);

    if (r != CUDA_SUCCESS)
        return r;
    r = check_captured(c);
    if (r == CUDA_SUCCESS) {
        *out = c->graph;
        c->owns_graph = false;
    }
    sg_capture_end(c);
    return r;
}

CUresult sg_cuStreamEndCapture(CUstream given, CUgraph *out)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    sg_engine_lock();
    tell_spoilt(s);
    r = end_locked(s, out);
    sg_engine_unlock();
    return r;
}

/* ---- asking ------------------------------------------------------ */

struct info { /* where to put what; all but status may be NULL */
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **deps;
    const CUgraphEdgeData **edges;
    size_t *n;
};

static bool all_plain(const struct sg_node_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        if (!sg_edge_is_plain(&set->edges[i]))
            return false;
    return true;
}

/* With the lock. */
static CUresult tell(struct CUstream_st *s, const struct info *to)
{
    struct sg_capture *c = s->capture;
    CUresult r = sg_capture_implicit(s, false);

    if (r != CUDA_SUCCESS)
        return r;
    *to->status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (c)
        *to->status =
            c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (!c || c->invalid)
        return CUDA_SUCCESS;
    if (to->deps && !to->edges && !all_plain(&s->tail))
        return CUDA_ERROR_LOSSY_QUERY;
    if (to->id)
        *to->id = c->id;
    if (to->graph)
        *to->graph = c->graph;
    if (to->deps)
        *to->deps = s->tail.nodes;
    if (to->edges)
        *to->edges = s->tail.edges;
    if (to->n)
        *to->n = s->tail.n;
    return CUDA_SUCCESS;
}

static CUresult ask(CUstream given, const struct info *to)
{
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if (!to->status || (to->edges && !to->deps))
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    r = tell(s, to);
    sg_engine_unlock();
    return r;
}

CUresult sg_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    return ask(stream, &(struct info){.status = status});
}

CUresult sg_cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return ask(stream, &(struct info){.status = status, .id = id});
}

CUresult sg_cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                                      cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
                                      size_t *n)
{
    return ask(stream, &(struct info){status, id, graph, deps, NULL, n});
}

CUresult sg_cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status,
                                      cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
                                      const CUgraphEdgeData **edges, size_t *n)
{
    return ask(stream, &(struct info){status, id, graph, deps, edges, n});
}

/* ---- another place in the graph ---------------------------------- */

static CUresult update(CUstream given, CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n,
                       unsigned flags)
{
    struct sg_node_set set = {0};
    struct CUstream_st *s;
    CUresult r = sg_stream_of(given, &s);

    if (r != CUDA_SUCCESS)
        return r;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    sg_engine_lock();
    if (!s->capture)
        r = CUDA_ERROR_ILLEGAL_STATE;
    else if (s->capture->invalid)
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
        r = sg_node_set_merge(&set, &s->tail);
    if (r == CUDA_SUCCESS)
        r = set_tail(&set, s->capture->graph, deps, edges, n);
    if (r == CUDA_SUCCESS) {
        sg_node_set_clear(&s->tail);
        s->tail = set;
    } else {
        sg_node_set_clear(&set);
    }
    sg_engine_unlock();
    return r;
}

CUresult sg_cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *deps, size_t n,
                                              unsigned flags)
{
    return update(stream, deps, NULL, n, flags);
}

CUresult sg_cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *deps,
                                                 const CUgraphEdgeData *edges, size_t n,
                                                 unsigned flags)
{
    return update(stream, deps, edges, n, flags);
}
