#include "collector/collector_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BUDGET 8192u /* events of a process before the next one has its turn */
#define FLUSH_NS 250000000u
#define SLEEP_MS 20u
#define ENOUGH 64u /* events in one turn, from which on the next turn follows at once */

struct tb_drain {
    struct tb_sink sink;
    struct tb_wire_bell *bell;
    struct tb_merge *merges;
    uint32_t finished; /* atomic */
    pthread_t thread;
    pthread_mutex_t lock; /* queue, counts */
    struct tb_drain_cmd *first, **last;
    struct tb_drain_counts counts;
};

static uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wake(struct tb_drain *d)
{
    if (!__atomic_load_n(&d->bell->sleeping, __ATOMIC_SEQ_CST))
        return;
    __atomic_fetch_add(&d->bell->word, 1, __ATOMIC_SEQ_CST);
    (void)syscall(SYS_futex, &d->bell->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void tb_drain_post(struct tb_drain *d, const struct tb_drain_cmd *cmd)
{
    struct tb_drain_cmd *copy = malloc(sizeof(*copy));

    if (!copy) /* the job is unharmed: its ring fills, and it stops recording */
        return;
    *copy = *cmd;
    copy->next = NULL;
    (void)pthread_mutex_lock(&d->lock);
    *d->last = copy;
    d->last = &copy->next;
    (void)pthread_mutex_unlock(&d->lock);
    wake(d);
}

static struct tb_drain_cmd *take_queue(struct tb_drain *d)
{
    (void)pthread_mutex_lock(&d->lock);
    struct tb_drain_cmd *q = d->first;
    d->first = NULL;
    d->last = &d->first;
    (void)pthread_mutex_unlock(&d->lock);
    return q;
}

static bool queue_empty(struct tb_drain *d)
{
    (void)pthread_mutex_lock(&d->lock);
    bool empty = d->first == NULL;
    (void)pthread_mutex_unlock(&d->lock);
    return empty;
}

static struct tb_merge *merge_of(struct tb_drain *d, const struct tb_col_process *p)
{
    struct tb_merge *m = d->merges;

    while (m && m->process != p)
        m = m->next;
    return m;
}

/* ---------------------------------------------------------------- commands */

static void add_process(struct tb_drain *d, struct tb_col_process *p)
{
    struct tb_merge *m = tb_merge_new(&d->sink, p);

    if (m) {
        m->next = d->merges;
        d->merges = m;
    }
}

static void add_ring(struct tb_drain *d, struct tb_merge *m, const struct tb_drain_cmd *cmd)
{
    struct tb_ring *r = m ? tb_ring_new(cmd->map, cmd->bytes, cmd->thread) : NULL;

    if (!r) {
        (void)munmap(cmd->map, cmd->bytes);
        tb_emit_cover(&d->sink, m ? m->row : 0, 2, "record", "ring", "a ring could not be used");
        return;
    }
    r->next = m->rings;
    m->rings = r;
}

static void add_slots(struct tb_drain *d, struct tb_merge *m, const struct tb_drain_cmd *cmd)
{
    struct tb_slots *s = m && !m->finished
                             ? tb_slots_new(cmd->map, cmd->bytes, cmd->thread, m->process->nonce)
                             : NULL;

    if (!s)
        (void)munmap(cmd->map, cmd->bytes);
    if (s && tb_slots_add(m, s))
        return;
    tb_slots_free(s);
    tb_emit_cover(&d->sink, m ? m->row : 0, 2, "record", "slots", "a slot table could not be used");
}

static void add_snapshot(struct tb_drain *d, struct tb_merge *m, const struct tb_drain_cmd *cmd)
{
    if (m)
        tb_pending_snapshot(m, &d->sink, cmd->fd);
    else
        (void)close(cmd->fd);
}

static void process_gone(struct tb_drain *d, struct tb_merge *m)
{
    if (!m || m->finished)
        return;
    tb_merge_finish(m, &d->sink);
    tb_merge_release(m); /* its memory goes back now, not at the end of a long job */
    (void)__atomic_add_fetch(&d->finished, 1, __ATOMIC_RELEASE);
}

/* False: the end. */
static bool run_command(struct tb_drain *d, struct tb_drain_cmd *cmd)
{
    struct tb_merge *m = merge_of(d, cmd->process);

    switch (cmd->kind) {
    case TB_DRAIN_PROCESS:
        add_process(d, cmd->process);
        break;
    case TB_DRAIN_RING:
        add_ring(d, m, cmd);
        break;
    case TB_DRAIN_SLOTS:
        add_slots(d, m, cmd);
        break;
    case TB_DRAIN_SNAPSHOT:
        add_snapshot(d, m, cmd);
        break;
    case TB_DRAIN_STOPPED:
        if (m)
            tb_emit_lost(m, &d->sink, 1, cmd->text);
        break;
    case TB_DRAIN_LOG:
        tb_emit_cover(&d->sink, m ? m->row : 0, 0, "log", "recorder", cmd->text ? cmd->text : "");
        break;
    case TB_DRAIN_GONE:
        process_gone(d, m);
        break;
    case TB_DRAIN_COVER:
        tb_emit_cover(&d->sink, m ? m->row : 0, cmd->severity, cmd->cover_kind,
                      cmd->text ? cmd->text : "", cmd->detail ? cmd->detail : "");
        break;
    case TB_DRAIN_END:
        break;
    }
    return cmd->kind != TB_DRAIN_END;
}

static bool run_commands(struct tb_drain *d)
{
    bool more = true;

    for (struct tb_drain_cmd *q = take_queue(d), *next; q; q = next) {
        next = q->next;
        if (!run_command(d, q))
            more = false;
        free(q->text);
        free(q->detail);
        free(q);
    }
    return more;
}

/* ---------------------------------------------------------------- the loop */

static void flush(struct tb_drain *d)
{
    struct tb_error err = {0};
    struct tb_store_stats stats;

    for (struct tb_merge *m = d->merges; m; m = m->next)
        if (!m->finished)
            tb_merge_stops(m, &d->sink);
    if (d->sink.dirty && d->sink.error.status == TB_OK)
        (void)tb_sink_ok(&d->sink, tb_store_flush(d->sink.store, &err), &err);
    d->sink.dirty = false;
    tb_store_stats(d->sink.store, &stats);
    (void)pthread_mutex_lock(&d->lock);
    d->counts = (struct tb_drain_counts){.events = stats.events,
                                         .accesses = stats.accesses,
                                         .steps = d->sink.steps,
                                         .lost = stats.lost,
                                         .coverage = stats.coverage,
                                         .snapshots = d->sink.snapshots,
                                         .unarrived = d->sink.unarrived,
                                         .bytes = stats.bytes,
                                         .disk_full = stats.disk_full};
    memcpy(d->counts.stopped, d->sink.stopped, sizeof(d->counts.stopped));
    (void)pthread_mutex_unlock(&d->lock);
}

static uint32_t run_merges(struct tb_drain *d, uint64_t now)
{
    uint32_t done = 0;

    for (struct tb_merge *m = d->merges; m; m = m->next)
        if (!m->finished)
            done += tb_merge_run(m, &d->sink, BUDGET, now);
    return done;
}

static bool is_urgent(struct tb_drain *d)
{
    for (struct tb_merge *m = d->merges; m; m = m->next)
        if (!m->finished && tb_merge_is_urgent(m))
            return true;
    return !queue_empty(d);
}

/* A producer that has written much, or waits, rings the bell while `sleeping` is set. What is
 * little can wait: each wake-up takes a core from the job. */
static void sleep_some(struct tb_drain *d, bool stuck)
{
    struct timespec limit = {0, SLEEP_MS * 1000000l};
    uint32_t seen = __atomic_load_n(&d->bell->word, __ATOMIC_SEQ_CST);

    __atomic_store_n(&d->bell->sleeping, 1, __ATOMIC_SEQ_CST);
    bool urgent = is_urgent(d);
    if (urgent && stuck) /* a ring waits for an event that is not in another one yet */
        limit.tv_nsec = 1000000;
    if (!urgent || stuck)
        (void)syscall(SYS_futex, &d->bell->word, FUTEX_WAIT, seen, &limit, NULL, 0);
    __atomic_store_n(&d->bell->sleeping, 0, __ATOMIC_SEQ_CST);
}

static void *drain_main(void *arg)
{
    struct tb_drain *d = arg;
    uint64_t flushed = now_ns();
    bool more = true;

    while (more) {
        more = run_commands(d);
        uint64_t now = now_ns();
        uint32_t done = run_merges(d, now);
        if (now - flushed >= FLUSH_NS || !more) {
            flush(d);
            flushed = now;
        }
        if (more && done < ENOUGH)
            sleep_some(d, done == 0);
    }
    for (struct tb_merge *m = d->merges; m; m = m->next) {
        for (struct tb_ring *r = m->rings; r; r = r->next)
            tb_ring_freeze(r); /* whoever still lives goes on writing: there must be an end */
        m->cut = true;
        process_gone(d, m);
    }
    flush(d);
    return NULL;
}

enum tb_status tb_drain_start(struct tb_drain **out, struct tb_store *store,
                              struct tb_wire_bell *bell, struct tb_error *err)
{
    struct tb_drain *d = calloc(1, sizeof(*d));
    sigset_t all, before;

    if (!d)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the collector");
    d->sink.store = store;
    d->bell = bell;
    d->last = &d->first;
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int rc = pthread_create(&d->thread, NULL, drain_main, d);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        free(d);
        return tb_fail_sys(err, TB_ERR_SYS, rc, "cannot start the collector's thread");
    }
    *out = d;
    return TB_OK;
}

void tb_drain_counts(struct tb_drain *d, struct tb_drain_counts *out)
{
    (void)pthread_mutex_lock(&d->lock);
    *out = d->counts;
    (void)pthread_mutex_unlock(&d->lock);
}

uint32_t tb_drain_finished(struct tb_drain *d)
{
    return __atomic_load_n(&d->finished, __ATOMIC_ACQUIRE);
}

enum tb_status tb_drain_join(struct tb_drain *d, struct tb_drain_counts *counts,
                             struct tb_error *err)
{
    enum tb_status st;

    (void)pthread_join(d->thread, NULL);
    if (counts)
        *counts = d->counts;
    st = d->sink.error.status;
    if (st != TB_OK && err)
        *err = d->sink.error;
    while (d->merges) {
        struct tb_merge *m = d->merges;
        d->merges = m->next;
        tb_merge_free(m);
    }
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
    return st;
}
