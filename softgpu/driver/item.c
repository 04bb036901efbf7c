/*
 * Items of the queue: which are ready, in a heap by rank; what each follows; their end. With the
 * engine's lock.
 */
#include "softgpu/driver/guard.h"
#include "softgpu/driver/order_item.h"
#include "softgpu/driver/strict.h"
#include "softgpu/driver/trace_item.h"

#include <stdlib.h>

#define QUEUE_FULL 4096 /* pending items; beyond, submitting executes */

/* ---- the heap of ready items ------------------------------------- */

static bool before(const struct sg_item *a, const struct sg_item *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->seq < b->seq;
}

static void heap_push(struct sg_engine *e, struct sg_item *i)
{
    unsigned at = e->nheap++;

    while (at && before(i, e->heap[(at - 1) / 2])) {
        e->heap[at] = e->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    e->heap[at] = i;
}

struct sg_item *sg_heap_take(struct sg_engine *e, unsigned at)
{
    struct sg_item *taken = e->heap[at], *last = e->heap[--e->nheap];
    unsigned child;

    if (at == e->nheap)
        return taken;
    for (; at && before(last, e->heap[(at - 1) / 2]); at = (at - 1) / 2)
        e->heap[at] = e->heap[(at - 1) / 2];
    while ((child = 2 * at + 1) < e->nheap) {
        if (child + 1 < e->nheap && before(e->heap[child + 1], e->heap[child]))
            child++;
        if (!before(e->heap[child], last))
            break;
        e->heap[at] = e->heap[child];
        at = child;
    }
    e->heap[at] = last;
    return taken;
}

/* Room for one more pending item in both arrays, so that making items ready cannot fail. */
static bool reserve(struct sg_engine *e)
{
    unsigned cap = e->heap_cap ? e->heap_cap * 2 : 64;
    struct sg_item **heap, **polled;

    if (e->npending < e->heap_cap)
        return true;
    heap = realloc(e->heap, cap * sizeof(*heap));
    if (heap)
        e->heap = heap;
    polled = realloc(e->polled, cap * sizeof(*polled));
    if (polled)
        e->polled = polled;
    if (!heap || !polled)
        return false;
    e->heap_cap = cap;
    return true;
}

/* ---- items ------------------------------------------------------- */

/* Small ranks run first. Higher priority makes a small rank likelier, not certain: priorities are
 * hints, and what the API leaves unordered must show every order. */
static uint64_t draw_rank(struct CUstream_st *s, const struct sg_wref *work, uint64_t seq)
{
    if (work && work->w.kind == SG_WORK_KERNEL && work->w.kernel.func->tools)
        return 0; /* at once, and nothing drawn for it: others come as they would without it */
    uint64_t r = sg_hash64(sg_driver.opt.seed, s->id, s->submitted++);

    return sg_driver.opt.in_order ? seq : r >> (s->priority < 0 ? -s->priority : 0);
}

struct sg_item *sg_item_new(struct CUstream_st *s, struct CUctx_st *ctx, struct sg_wref *work,
                            unsigned deps)
{
    struct sg_engine *e = sg_driver.engine;
    struct sg_item *i;

    if (!reserve(e))
        return NULL;
    i = calloc(1, sizeof(*i) + deps * sizeof(i->links[0]));
    if (!i)
        return NULL;
    e->npending++;
    i->refs = 1;
    i->maxlinks = deps;
    i->stream = s;
    i->ctx = ctx;
    i->work = sg_wref_get(work);
    i->seq = ++e->seq;
    i->rank = draw_rank(s, work, i->seq);
    s->refs++;
    if (sg_strict())
        sg_clock_join(&i->clock, &e->host);
    if (SG_TRACED)
        sg_trace_submit(i);
    return i;
}

void sg_item_free(struct sg_item *i)
{
    sg_driver.engine->npending--;
    sg_wref_put(i->work);
    sg_stream_unref(i->stream);
    sg_clock_release(&i->clock);
    free(i);
}

void sg_item_get(struct sg_item *i)
{
    i->refs++;
}

void sg_item_put(struct sg_item *i)
{
    if (!i || --i->refs)
        return;
    sg_clock_release(&i->clock);
    free(i);
}

void sg_item_after(struct sg_item *i, struct sg_item *pred)
{
    struct sg_link *l;

    if (sg_strict() && pred && pred->state == SG_ITEM_DONE)
        sg_clock_join(&i->clock, &pred->clock);
    if (!pred || pred->state == SG_ITEM_DONE || i->nlinks == i->maxlinks)
        return;
    l = &i->links[i->nlinks++];
    *l = (struct sg_link){i, pred->followers};
    pred->followers = l;
    i->waits++;
}

static void make_ready(struct sg_engine *e, struct sg_item *i)
{
    i->state = SG_ITEM_READY;
    heap_push(e, i);
}

void sg_item_submit(struct sg_item *i)
{
    struct sg_engine *e = sg_driver.engine;

    i->prev = e->tail;
    if (e->tail)
        e->tail->next = i;
    else
        e->head = i;
    e->tail = i;
    if (sg_strict())
        sg_guard_item(i);
    if (!i->waits)
        make_ready(e, i);
    e->last_call_ns = sg_now_ns();
    sg_engine_need_idle_thread(e);
}

static void unlink_item(struct sg_engine *e, struct sg_item *i)
{
    *(i->prev ? &i->prev->next : &e->head) = i->next;
    *(i->next ? &i->next->prev : &e->tail) = i->prev;
    i->prev = i->next = NULL;
    e->npending--;
}

void sg_item_finish(struct sg_engine *e, struct sg_item *i, CUresult result)
{
    struct CUstream_st *s = i->stream;

    i->state = SG_ITEM_DONE;
    i->result = result;
    i->done_ns = sg_now_ns();
    unlink_item(e, i);
    if (sg_strict()) {
        sg_guard_release(i);
        sg_order_finish(e, i);
    }
    for (struct sg_link *l = i->followers, *next; l; l = next) {
        next = l->next;
        if (--l->to->waits == 0)
            make_ready(e, l->to);
    }
    i->followers = NULL;
    if (s->last == i)
        s->last = NULL;
    if (result != CUDA_SUCCESS && s->async_error == CUDA_SUCCESS)
        s->async_error = result;
    sg_wref_put(i->work);
    i->work = NULL;
    if (i->exec) {
        sg_graph_exec_unref(i->exec);
        i->exec = NULL;
    }
    i->stream = NULL;
    sg_stream_unref(s);
    sg_item_put(i);
    pthread_cond_broadcast(&e->changed);
}

/* ---- streams' order ---------------------------------------------- */

static bool blocks_legacy(const struct CUstream_st *s)
{
    return !(s->flags & CU_STREAM_NON_BLOCKING);
}

unsigned sg_stream_fanin(const struct CUstream_st *s)
{
    unsigned n = 3;

    if (s->legacy)
        for (const struct CUstream_st *t = s->ctx->streams; t; t = t->next_in_ctx)
            n += blocks_legacy(t) && t->last;
    return n;
}

void sg_stream_append(struct CUstream_st *s, struct sg_item *i)
{
    if (sg_strict())
        sg_order_append(i, s);
    sg_item_after(i, s->last);
    sg_item_after(i, s->ctx->fence);
    if (s->legacy) {
        for (struct CUstream_st *t = s->ctx->streams; t; t = t->next_in_ctx)
            if (blocks_legacy(t))
                sg_item_after(i, t->last);
    } else if (blocks_legacy(s) && s->ctx->legacy) {
        sg_item_after(i, s->ctx->legacy->last);
    }
    s->last = i;
    sg_item_submit(i);
}

CUresult sg_stream_push(struct CUstream_st *s, struct CUctx_st *ctx, struct sg_wref *work,
                        struct sg_item *after, struct sg_item **out)
{
    struct sg_engine *e = sg_driver.engine;
    struct sg_item *i;

    if (after)
        sg_item_get(after);
    if (e->npending >= QUEUE_FULL) /* without the lock for a while */
        sg_engine_step(e);
    i = sg_item_new(s, ctx, work, sg_stream_fanin(s) + 1);
    if (i && out) {
        sg_item_get(i);
        *out = i;
    }
    if (i) {
        sg_item_after(i, after);
        sg_stream_append(s, i);
    }
    sg_item_put(after);
    return i ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
