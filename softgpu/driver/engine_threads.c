/*
 * The threads of the queue, made when first needed: one executes pending work when the host has
 * made no call for a while, with a second one for what the first may be waiting for, and one calls
 * host functions. And what fork() leaves: a child has neither threads nor pending work.
 */
#include "softgpu/driver/trace_item.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define SILENCE_NS UINT64_C(200000000)
#define RETRY_NS UINT64_C(1000000)

/* Signals of the host are for the host's threads. */
static bool start(void *(*fn)(void *))
{
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t t;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    rc = pthread_create(&t, &attr, fn, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc == 0;
}

static void sleep_until(struct sg_engine *e, pthread_cond_t *cond, uint64_t until)
{
    struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};

    pthread_cond_timedwait(cond, &e->lock, &t);
}

static void *idle_main(void *unused);

/* A second thread, before the first may be caught in a kernel that waits for other work. */
static void need_another(struct sg_engine *e)
{
    if (e->nidle == 1 && e->npending > 1)
        e->nidle += start(idle_main);
}

/* One of the items that somebody asked for. */
static void run_asked(struct sg_engine *e)
{
    bool ran;

    e->asked--;
    e->asked_now++;
    e->asked_ran = true; /* before it: the one who asks may not wait for the end */
    need_another(e);
    ran = sg_engine_step(e);
    e->asked_now--;
    if (!ran) {
        e->asked = 0;
        e->asked_ran = false;
    }
    pthread_cond_broadcast(&e->changed);
}

static void *idle_main(void *unused)
{
    struct sg_engine *e = sg_engine_lock();

    (void)unused;
    for (;;) {
        uint64_t now = sg_now_ns();

        if (e->asked) {
            run_asked(e);
        } else if (!e->npending) {
            e->idle_sleepers++;
            pthread_cond_wait(&e->idle, &e->lock);
            e->idle_sleepers--;
        } else if (now < e->last_call_ns + SILENCE_NS) {
            sleep_until(e, &e->idle, e->last_call_ns + SILENCE_NS);
        } else if (e->waiters && !sg_engine_stuck(e, now)) {
            sleep_until(e, &e->idle, now + SILENCE_NS);
        } else {
            need_another(e);
            if (!sg_engine_step(e))
                sleep_until(e, &e->changed, now + RETRY_NS);
        }
    }
    return NULL;
}

void sg_engine_need_idle_thread(struct sg_engine *e)
{
    if (!e->nidle)
        e->nidle += start(idle_main);
    else if (e->idle_sleepers)
        pthread_cond_signal(&e->idle);
}

bool sg_engine_ask(struct sg_engine *e, unsigned steps)
{
    if (!e->nidle)
        e->nidle += start(idle_main);
    if (!e->nidle)
        return false;
    e->asked = steps;
    pthread_cond_signal(&e->idle);
    pthread_cond_broadcast(&e->changed); /* it may sleep there between two tries */
    return true;
}

static void call_host(struct sg_engine *e, struct sg_item *i)
{
    const struct sg_work *w = &i->work->w;
    CUresult sticky = (CUresult)atomic_load(&i->ctx->sticky);
    struct softgpu_trace_work t;

    pthread_mutex_unlock(&e->lock);
    if (i->trace.kind)
        sg_trace_begin(i, &t);
    sg_tls()->strict.item = i;
    if (w->host.callback)
        w->host.callback(w->host.stream, sticky, w->host.arg);
    else
        w->host.fn(w->host.arg);
    sg_tls()->strict.item = NULL;
    if (i->trace.kind)
        sg_trace_end(i, &t, sticky);
    pthread_mutex_lock(&e->lock);
    e->hosts--;
    sg_item_finish(e, i, sticky);
}

static void *host_main(void *unused)
{
    struct sg_engine *e = sg_engine_lock();

    (void)unused;
    sg_tls()->in_callback = true;
    for (;;) {
        struct sg_job *j = e->job_head;

        if (!j) {
            pthread_cond_wait(&e->jobs, &e->lock);
            continue;
        }
        e->job_head = j->next;
        if (!e->job_head)
            e->job_tail = NULL;
        if (j->item) {
            call_host(e, j->item);
        } else {
            pthread_mutex_unlock(&e->lock);
            j->fn(j->arg);
            pthread_mutex_lock(&e->lock);
        }
        free(j);
    }
    return NULL;
}

bool sg_engine_push_job(struct sg_engine *e, struct sg_item *item, CUhostFn fn, void *arg)
{
    struct sg_job *j;

    if (!e->has_host_thread)
        e->has_host_thread = start(host_main);
    j = e->has_host_thread ? malloc(sizeof(*j)) : NULL;
    if (!j)
        return false;
    *j = (struct sg_job){item, fn, arg, NULL};
    if (e->job_tail)
        e->job_tail->next = j;
    else
        e->job_head = j;
    e->job_tail = j;
    e->hosts += item != NULL;
    pthread_cond_signal(&e->jobs);
    return true;
}

/* ---- fork -------------------------------------------------------- */

static void fork_prepare(void)
{
    sg_engine_lock();
    sg_handle_fork_prepare();
}

static void fork_parent(void)
{
    sg_handle_fork_done(false);
    sg_engine_unlock();
}

/* What was pending stays with the parent; the memory of it is not worth a walk. */
static void fork_child(void)
{
    struct sg_engine *e = sg_driver.engine;

    sg_handle_fork_done(true);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    pthread_cond_init(&e->idle, NULL);
    pthread_cond_init(&e->jobs, NULL);
    e->head = e->tail = NULL;
    e->npending = e->nheap = e->npolled = e->waiters = e->hosts = 0;
    e->side = false;
    e->kernel_since = 0;
    e->busy = e->has_host_thread = false;
    e->job_head = e->job_tail = NULL;
    e->asked = e->asked_now = e->nidle = e->idle_sleepers = 0;
}

void sg_engine_fork_init(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}
