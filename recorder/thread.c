#include "recorder/recorder_internal.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A ring for a thread: a free one, a new one, or beyond ring_total the one that threads share. */
static struct tb_rt_ring *take_ring(uint32_t ordinal)
{
    struct tb_rt_ring *r = tb_rt.free_rings;

    if (r) {
        tb_rt.free_rings = r->next_free;
        return r;
    }
    if (tb_rt.shared_ring)
        return tb_rt.shared_ring;
    r = tb_rt_ring_new(ordinal);
    if (r && tb_rt.ring_bytes + tb_rt.config.ring_bytes > tb_rt.config.ring_total) {
        r->shared = true;
        tb_rt.shared_ring = r;
    }
    return r;
}

static struct tb_rec_thread *take_thread(void)
{
    struct tb_rec_thread *t = tb_rt.free_threads;

    if (!t)
        return tb_rt_small(sizeof(*t));
    tb_rt.free_threads = t->next_free;
    tb_rt_table_clear(&t->counts);
    *t = (struct tb_rec_thread){.counts = t->counts};
    return t;
}

/* Main is the process's first thread; the rest are numbered as they come. */
static uint32_t take_ordinal(void)
{
    return syscall(SYS_gettid) == syscall(SYS_getpid) ? 0 : ++tb_rt.next_thread;
}

static struct tb_rec_thread *thread_new(void)
{
    struct tb_rec_thread *t;

    tb_rt_lock(&tb_rt.page->setup_lock);
    t = take_thread();
    if (t) {
        t->ordinal = take_ordinal();
        t->generation = tb_rt.generation;
        t->ring = take_ring(t->ordinal);
    } else {
        tb_rt_stop("no memory for a thread");
    }
    tb_rt_unlock(&tb_rt.page->setup_lock);
    if (!t || !t->ring)
        return NULL;
    (void)pthread_setspecific(tb_rt.key, t);
    tb_tls.thread = t;
    return t;
}

/* The thread ends: its ring goes to the next one. In a child that has not attached, nothing is
 * ours. */
void tb_rt_thread_end(void *thread)
{
    struct tb_rec_thread *t = thread;

    if (!tb_rt_current(t) || tb_tls.busy)
        return;
    tb_tls.thread = NULL;
    tb_rt_lock(&tb_rt.page->setup_lock);
    if (!t->ring->shared) {
        t->ring->next_free = tb_rt.free_rings;
        tb_rt.free_rings = t->ring;
    }
    t->next_free = tb_rt.free_threads;
    tb_rt.free_threads = t;
    tb_rt_unlock(&tb_rt.page->setup_lock);
}

static struct tb_rec_thread *first_event(void)
{
    struct tb_rec_thread *t = NULL;
    int saved = errno, cancel;

    tb_tls.busy = 1;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    while (tb_rt_state() == TB_RT_FORKED || tb_rt_state() == TB_RT_ATTACHING)
        tb_rt_attach_child();
    if (tb_rt_state() == TB_RT_ON)
        t = thread_new();
    (void)pthread_setcancelstate(cancel, &cancel);
    tb_tls.busy = 0;
    errno = saved;
    return t;
}

struct tb_rec_thread *tb_rt_self(void)
{
    struct tb_rec_thread *t = tb_tls.thread;

    if (tb_unlikely(tb_tls.busy))
        return NULL;
    if (tb_likely(t && tb_rt_current(t)))
        return t;
    return tb_rt_state() == TB_RT_OFF ? NULL : first_event();
}
