/* Capture sequences: what submitting, recording and waiting mean while a stream is captured, and
 * what ends a sequence badly. All with the engine's lock; the calls are in capture_api.c. */
#include "softgpu/driver/graph.h"
#include "softgpu/driver/strict.h"

#include <stdlib.h>
#include <string.h>

/* ---- sets of nodes that the next one follows --------------------- */

void sg_node_set_clear(struct sg_node_set *set)
{
    free(set->nodes);
    free(set->edges);
    memset(set, 0, sizeof(*set));
}

static bool set_reserve(struct sg_node_set *set)
{
    size_t cap = set->cap ? set->cap * 2 : 4;
    CUgraphNode *nodes;
    CUgraphEdgeData *edges;

    if (set->n < set->cap)
        return true;
    nodes = realloc(set->nodes, cap * sizeof(CUgraphNode));
    if (nodes)
        set->nodes = nodes;
    edges = realloc(set->edges, cap * sizeof(*edges));
    if (edges)
        set->edges = edges;
    if (nodes && edges)
        set->cap = cap;
    return nodes && edges;
}

CUresult sg_node_set_add(struct sg_node_set *set, CUgraphNode node, const CUgraphEdgeData *edge)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->nodes[i] == node)
            return CUDA_SUCCESS;
    if (!set_reserve(set))
        return CUDA_ERROR_OUT_OF_MEMORY;
    set->nodes[set->n] = node;
    set->edges[set->n] = edge ? *edge : (CUgraphEdgeData){0};
    set->n++;
    return CUDA_SUCCESS;
}

CUresult sg_node_set_merge(struct sg_node_set *set, const struct sg_node_set *from)
{
    CUresult r = CUDA_SUCCESS;

    for (size_t i = 0; i < from->n && r == CUDA_SUCCESS; i++)
        r = sg_node_set_add(set, from->nodes[i], &from->edges[i]);
    return r;
}

/* ---- sequences --------------------------------------------------- */

void sg_capture_put(struct sg_capture *c)
{
    if (c && --c->refs == 0)
        free(c);
}

void sg_capture_invalidate(struct sg_capture *c)
{
    if (c->ended || c->invalid)
        return;
    c->invalid = true;
    if (sg_strict())
        sg_strict_capture(c);
}

void sg_capture_join(struct sg_capture *c, struct CUstream_st *s)
{
    s->capture = c;
    s->next_in_capture = c->streams;
    c->streams = s;
    c->refs++;
    s->refs++;
}

void sg_capture_end(struct sg_capture *c)
{
    struct sg_engine *e = sg_driver.engine;
    struct sg_capture **p = &e->captures;

    if (c->ended)
        return;
    c->refs++;
    c->ended = true;
    while (*p && *p != c)
        p = &(*p)->next;
    if (*p)
        *p = c->next;
    atomic_fetch_sub(&e->ncaptures, 1);
    for (struct CUstream_st *s = c->streams, *next; s; s = next) {
        next = s->next_in_capture;
        s->next_in_capture = NULL;
        s->capture = NULL;
        sg_node_set_clear(&s->tail);
        c->refs--; /* never the last one: that is ours */
        sg_stream_unref(s);
    }
    c->streams = NULL;
    c->graph->captures--;
    if (c->owns_graph)
        sg_graph_free(c->graph);
    c->graph = NULL;
    sg_capture_put(c);
}

CUresult sg_capture_implicit(struct CUstream_st *s, bool invalidate)
{
    CUresult r = CUDA_SUCCESS;

    if (!s->legacy)
        return r;
    for (struct CUstream_st *t = s->ctx->streams; t; t = t->next_in_ctx)
        if (t->capture && !(t->flags & CU_STREAM_NON_BLOCKING)) {
            r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            if (invalidate)
                sg_capture_invalidate(t->capture);
        }
    return r;
}

CUresult sg_capture_refuse(struct CUstream_st *s)
{
    CUresult r;

    if (!s->capture)
        return sg_capture_implicit(s, true);
    r = s->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                            : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    sg_capture_invalidate(s->capture);
    return r;
}

/* Does a sequence forbid the calling thread what "could be unsafe"? */
static bool forbids(const struct sg_capture *c, const struct sg_tls *tls)
{
    if (c->thread == tls)
        return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return tls->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sg_capture_forbids(void)
{
    const struct sg_tls *tls = sg_tls();
    struct sg_engine *e = sg_driver.engine;
    CUresult r = CUDA_SUCCESS;

    if (!e || tls->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED || !atomic_load(&e->ncaptures))
        return r;
    sg_engine_lock();
    for (struct sg_capture *c = e->captures; c; c = c->next)
        if (forbids(c, tls)) {
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            sg_capture_invalidate(c);
        }
    sg_engine_unlock();
    return r;
}

CUresult sg_capture_forbids_ctx(struct CUctx_st *ctx)
{
    CUresult r = CUDA_SUCCESS;
    struct sg_engine *e = sg_driver.engine;

    if (!e || !atomic_load(&e->ncaptures))
        return r;
    sg_engine_lock();
    for (struct CUstream_st *s = ctx->streams; s; s = s->next_in_ctx)
        if (s->capture) {
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            sg_capture_invalidate(s->capture);
        }
    sg_engine_unlock();
    return r;
}

/* ---- what is captured -------------------------------------------- */

static CUresult add(struct CUstream_st *s, CUgraphNodeType type, struct sg_wref *work,
                    CUgraphNode *out)
{
    struct sg_capture *c = s->capture;
    CUgraphNode node;
    CUresult r;

    if (c->invalid) {
        sg_wref_put(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    r = sg_node_new(c->graph, type, work, s->tail.nodes, s->tail.edges, s->tail.n, &node);
    if (r == CUDA_SUCCESS) {
        s->tail.n = 0;
        r = sg_node_set_add(&s->tail, node, NULL);
    }
    if (r != CUDA_SUCCESS)
        sg_capture_invalidate(c);
    else if (out)
        *out = node;
    return r;
}

CUresult sg_capture_add(struct CUstream_st *s, struct sg_wref *work, CUgraphNode *out)
{
    return add(s, work ? sg_node_type_of(&work->w) : CU_GRAPH_NODE_TYPE_EMPTY, work, out);
}

CUresult sg_capture_add_child(struct CUstream_st *s, CUgraphNode *out)
{
    return add(s, CU_GRAPH_NODE_TYPE_GRAPH, NULL, out);
}

static CUresult add_event_node(struct CUstream_st *s, struct CUevent_st *ev, enum sg_work_kind kind)
{
    struct sg_work w = {.kind = kind, .ctx = s->ctx};
    struct sg_wref *ref;

    w.event.event = sg_event_ref(ev);
    ref = sg_wref_new(&w);
    return ref ? sg_capture_add(s, ref, NULL) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sg_capture_record(struct CUstream_st *s, struct CUevent_st *ev, unsigned flags)
{
    CUresult r;

    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags & CU_EVENT_RECORD_EXTERNAL)
        return add_event_node(s, ev, SG_WORK_EVENT_RECORD);
    sg_event_set(ev, NULL);
    r = sg_node_set_merge(&ev->tail, &s->tail);
    if (r != CUDA_SUCCESS)
        return r;
    ev->capture = s->capture;
    ev->capture->refs++;
    return CUDA_SUCCESS;
}

/* An event that was not recorded in the stream's sequence. */
static CUresult wait_foreign(struct CUstream_st *s, const struct CUevent_st *ev)
{
    struct sg_capture *other = ev->capture && !ev->capture->ended ? ev->capture : NULL;

    if (!ev->capture && !ev->item)
        return CUDA_SUCCESS; /* never recorded: an empty set of work */
    sg_capture_invalidate(s->capture);
    if (!other)
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    sg_capture_invalidate(other);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
}

CUresult sg_capture_wait(struct CUstream_st *s, struct CUevent_st *ev, unsigned flags)
{
    if (s->capture && s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags & CU_EVENT_WAIT_EXTERNAL)
        return s->capture ? add_event_node(s, ev, SG_WORK_EVENT_WAIT) : CUDA_ERROR_INVALID_VALUE;
    if (s->capture && s->capture != ev->capture)
        return wait_foreign(s, ev);
    if (ev->capture->ended)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (ev->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->legacy) { /* cannot be captured */
        sg_capture_invalidate(ev->capture);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!s->capture)
        sg_capture_join(ev->capture, s);
    return sg_node_set_merge(&s->tail, &ev->tail);
}
