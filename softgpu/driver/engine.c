/*
 * The queue itself: items, which of them are ready, and who executes them.
 *
 * Ready items lie in a heap by rank. A step takes the first, executes it without the lock (device
 * work one at a time) and makes its followers ready. Nobody but waiters makes steps, and a
 * background thread after 200 ms without any call (engine_threads.c), because a host may spin on
 * memory that a kernel writes.
 */
#include "softgpu/driver/guard.h"
#include "softgpu/driver/order_item.h"
#include "softgpu/driver/strict.h"
#include "softgpu/driver/trace_item.h"

#include <stdlib.h>
#include <time.h>

#define POLL_NS 100000 /* between two looks at the memory that somebody waits for */
/* A query waits so long for what it sets going: not for a kernel that waits for the host. */
#define QUERY_NS UINT64_C(50000000)
#define GRACE_NS UINT64_C(20000000) /* how long others hold still for a host function */
/* After this time a kernel may be waiting for a copy or a host function: they run beside it. */
#define PATIENCE_NS UINT64_C(1000000000)

uint64_t sg_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

CUresult sg_enter(void)
{
    if (!atomic_load_explicit(&sg_driver.initialized, memory_order_acquire))
        return CUDA_ERROR_NOT_INITIALIZED;
    return sg_tls()->in_callback ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

static void wait_changed(struct sg_engine *e, uint64_t until)
{
    struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};

    if (until)
        pthread_cond_timedwait(&e->changed, &e->lock, &t);
    else
        pthread_cond_wait(&e->changed, &e->lock);
}

CUresult sg_engine_init(void)
{
    struct sg_engine *e;
    pthread_condattr_t attr;

    if (sg_driver.engine)
        return CUDA_SUCCESS;
    e = calloc(1, sizeof(*e));
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&e->changed, &attr);
    pthread_cond_init(&e->idle, &attr);
    pthread_cond_init(&e->jobs, &attr);
    pthread_condattr_destroy(&attr);
    if (sg_order_init(e) != CUDA_SUCCESS) {
        free(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_driver.engine = e;
    sg_engine_fork_init();
    return CUDA_SUCCESS;
}

/* ---- executing --------------------------------------------------- */

static CUresult sticky_of(const struct CUctx_st *ctx)
{
    return (CUresult)atomic_load_explicit(&ctx->sticky, memory_order_acquire);
}

static CUresult execute(const struct sg_work *w, struct CUctx_st *ctx)
{
    switch (w->kind) {
    case SG_WORK_KERNEL:
        return sg_kernel_run(&w->kernel, ctx);
    case SG_WORK_COPY:
        return sg_copy_run(&w->copy, ctx);
    case SG_WORK_FILL:
        return sg_fill_run(&w->fill, ctx);
    case SG_WORK_MEM_ALLOC:
        return sg_mem_alloc_run(w->mem.addr, ctx);
    case SG_WORK_MEM_FREE:
        return sg_mem_free_run(w->mem.addr, ctx);
    default:
        return CUDA_SUCCESS; /* an order, a point in time: nothing to execute */
    }
}

static CUresult execute_traced(struct sg_item *i)
{
    struct softgpu_trace_work t;
    CUresult result;

    sg_trace_begin(i, &t);
    result = execute(&i->work->w, i->ctx);
    sg_trace_end(i, &t, result);
    return result;
}

/* A strict device knows whose work a finding is about. */
static CUresult execute_item(struct sg_item *i)
{
    struct sg_strict_tls *tls = &sg_tls()->strict;
    CUresult r;

    tls->item = i;
    tls->item_verdict = CUDA_SUCCESS;
    r = i->trace.kind ? execute_traced(i) : execute(&i->work->w, i->ctx);
    tls->item = NULL;
    return r == CUDA_SUCCESS ? tls->item_verdict : r;
}

static bool is_device_work(const struct sg_work *w)
{
    return w->kind == SG_WORK_KERNEL || w->kind == SG_WORK_COPY || w->kind == SG_WORK_FILL ||
           w->kind == SG_WORK_MEM_ALLOC || w->kind == SG_WORK_MEM_FREE;
}

static bool is_kernel(const struct sg_item *i)
{
    return i->work && i->work->w.kind == SG_WORK_KERNEL;
}

static void strict_begin(struct sg_engine *e, struct sg_item *i)
{
    sg_order_run(e, i);
    sg_guard_release(i);
    sg_guard_lift(); /* other copies may guard what this work uses */
}

/* @busy: what says that this kind of executor is taken. */
static void run_device(struct sg_engine *e, struct sg_item *i, bool *busy)
{
    CUresult result = sticky_of(i->ctx);

    *busy = true;
    if (is_kernel(i))
        e->kernel_since = sg_now_ns();
    i->state = SG_ITEM_RUNNING;
    if (sg_strict())
        strict_begin(e, i);
    pthread_mutex_unlock(&e->lock);
    if (result == CUDA_SUCCESS)
        result = execute_item(i);
    pthread_mutex_lock(&e->lock);
    if (sg_strict())
        sg_guard_restore();
    *busy = false;
    if (is_kernel(i))
        e->kernel_since = 0;
    sg_item_finish(e, i, result);
}

/* Nothing to execute: an order, a point in time. */
static void pass(struct sg_engine *e, struct sg_item *i)
{
    if (i->trace.kind && sticky_of(i->ctx) == CUDA_SUCCESS) {
        i->state = SG_ITEM_RUNNING;
        pthread_mutex_unlock(&e->lock);
        sg_trace_point(i);
        pthread_mutex_lock(&e->lock);
    }
    sg_item_finish(e, i, sticky_of(i->ctx));
}

/* Host functions run on a thread of their own: they may block on other threads of the host. While
 * one runs, everybody holds still for a moment, so that the order of what follows does not depend
 * on how long a short one takes. */
static void run_host(struct sg_engine *e, struct sg_item *i)
{
    CUresult sticky = sticky_of(i->ctx);

    if (sticky != CUDA_SUCCESS && !i->work->w.host.callback) {
        sg_item_finish(e, i, sticky);
        return;
    }
    i->state = SG_ITEM_RUNNING;
    if (!e->hosts)
        e->grace_until = sg_now_ns() + GRACE_NS;
    if (!sg_engine_push_job(e, i, NULL, NULL))
        sg_item_finish(e, i, CUDA_ERROR_OUT_OF_MEMORY);
}

static void poll_items(struct sg_engine *e)
{
    bool lift = sg_strict() && e->npolled;

    if (lift) /* what is waited for may lie in guarded memory */
        sg_guard_lift();
    for (unsigned k = 0; k < e->npolled;) {
        struct sg_item *i = e->polled[k];

        if (sticky_of(i->ctx) != CUDA_SUCCESS)
            i->result = sticky_of(i->ctx);
        else if (!sg_memop_advance(i)) {
            k++;
            continue;
        }
        e->polled[k] = e->polled[--e->npolled];
        sg_item_finish(e, i, i->result);
    }
    if (lift)
        sg_guard_restore();
}

bool sg_engine_stuck(const struct sg_engine *e, uint64_t now)
{
    return e->kernel_since && now >= e->kernel_since + PATIENCE_NS;
}

/* Which kernels a thread executes itself: all, or those of a context or stream. One that waits for
 * the host must not catch a thread that waits for something else. */
struct kernels {
    bool all;
    const struct CUctx_st *ctx;
    const struct CUstream_st *stream;
};

static bool accepts(const struct kernels *k, const struct sg_item *i)
{
    const struct CUstream_st *s = i->stream;

    if (k->all || s->ctx == k->ctx || s == k->stream)
        return true;
    return k->stream && k->stream->legacy && s->ctx == k->stream->ctx &&
           !(s->flags & CU_STREAM_NON_BLOCKING);
}

static bool kernel_is_next(const struct sg_engine *e)
{
    return e->nheap && is_kernel(e->heap[0]);
}

/* The place of the first ready item that is no kernel; e->nheap: there is none. */
static unsigned first_other(const struct sg_engine *e)
{
    unsigned best = e->nheap;

    for (unsigned i = 0; i < e->nheap; i++)
        if (!is_kernel(e->heap[i]) && (best == e->nheap || e->heap[i]->rank < e->heap[best]->rank))
            best = i;
    return best;
}

static bool step(struct sg_engine *e, const struct kernels *kernels)
{
    uint64_t now = sg_now_ns();
    bool beside = e->busy;
    struct sg_item *i;
    unsigned at;

    if ((e->hosts && now < e->grace_until) || (beside && (e->side || !sg_engine_stuck(e, now))))
        return false;
    poll_items(e);
    at = beside ? first_other(e) : 0;
    if (at >= e->nheap || (is_kernel(e->heap[at]) && !accepts(kernels, e->heap[at])))
        return false;
    i = sg_heap_take(e, at);
    if (i->work && is_device_work(&i->work->w)) {
        run_device(e, i, beside ? &e->side : &e->busy);
    } else if (i->work && i->work->w.kind == SG_WORK_HOST) {
        run_host(e, i);
    } else if (i->work && i->work->w.kind == SG_WORK_BATCH_MEM_OP) {
        i->state = SG_ITEM_POLLED;
        e->polled[e->npolled++] = i;
    } else {
        pass(e, i);
    }
    return true;
}

bool sg_engine_step(struct sg_engine *e)
{
    return step(e, &(struct kernels){.all = true});
}

/* When a thread that found nothing to do must look again, if nobody wakes it; 0: it need not. */
static uint64_t look_again(const struct sg_engine *e)
{
    uint64_t now = sg_now_ns();

    if (e->hosts && now < e->grace_until)
        return e->grace_until;
    if (e->kernel_since && !sg_engine_stuck(e, now))
        return e->kernel_since + PATIENCE_NS;
    return e->npolled && (!e->busy || e->kernel_since) ? now + POLL_NS : 0;
}

static void wait_for(struct sg_item *i, const struct kernels *kernels)
{
    struct sg_engine *e = sg_driver.engine;

    e->waiters++;
    while (i->state != SG_ITEM_DONE) {
        if (step(e, kernels) || i->state == SG_ITEM_DONE)
            continue;
        if (!e->busy && !e->asked && kernel_is_next(e) && !accepts(kernels, e->heap[0]) &&
            !sg_engine_ask(e, 1) && sg_engine_step(e))
            continue;
        wait_changed(e, look_again(e));
    }
    e->waiters--;
    e->last_call_ns = sg_now_ns();
    if (sg_strict())
        sg_clock_join(&e->host, &i->clock);
}

void sg_engine_wait(struct sg_item *i)
{
    wait_for(i, &(struct kernels){.stream = i->stream});
}

/* The thread that asks must not be caught in a kernel that waits for this very thread: kernels are
 * left to the background thread, and it is waited for a moment only. */
static bool let_run(struct sg_engine *e, unsigned steps, const struct sg_item *until)
{
    uint64_t deadline = sg_now_ns() + QUERY_NS;

    if (!sg_engine_ask(e, steps))
        return false;
    while ((e->asked || e->asked_now) && until->state != SG_ITEM_DONE && sg_now_ns() < deadline)
        wait_changed(e, deadline);
    e->asked = 0;
    pthread_cond_broadcast(&e->changed); /* others may have asked too */
    return e->asked_ran;
}

void sg_engine_progress(struct sg_engine *e, uint64_t id, uint64_t *queries, struct sg_item *until)
{
    unsigned steps = sg_hash64(sg_driver.opt.seed, ~id, *queries) % 4;
    const struct kernels none = {0};
    bool moved = steps == 0; /* the next one draws anew */

    e->last_call_ns = sg_now_ns();
    for (; steps && until->state != SG_ITEM_DONE && step(e, &none); steps--)
        moved = true;
    if (steps && until->state != SG_ITEM_DONE && kernel_is_next(e) && let_run(e, steps, until))
        moved = true;
    *queries += moved;
}

static void take_error(struct CUstream_st *s, CUresult *result)
{
    if (s && s->async_error != CUDA_SUCCESS) {
        *result = s->async_error;
        s->async_error = CUDA_SUCCESS;
    }
}

CUresult sg_engine_drain_ctx(struct CUctx_st *ctx)
{
    struct sg_engine *e;
    CUresult result = CUDA_SUCCESS;
    struct sg_item *i;
    uint64_t limit;

    if (sg_tls()->in_callback)
        return CUDA_ERROR_NOT_PERMITTED; /* it would wait for itself */
    e = sg_engine_lock();
    limit = e->seq;
    for (;;) {
        for (i = e->head; i && i->ctx != ctx && i->stream->ctx != ctx; i = i->next)
            ;
        if (!i || i->seq > limit)
            break;
        sg_item_get(i);
        wait_for(i, &(struct kernels){.ctx = ctx});
        sg_item_put(i);
    }
    if (sg_strict())
        sg_order_host_waited_ctx(e, ctx);
    for (struct CUstream_st *s = ctx->streams; s; s = s->next_in_ctx)
        take_error(s, &result);
    take_error(ctx->legacy, &result);
    sg_engine_unlock();
    return sticky_of(ctx) != CUDA_SUCCESS ? sticky_of(ctx) : result;
}
