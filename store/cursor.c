#include "store/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * A cursor reads ahead until every segment it has touched was read whole and its digest agreed,
 * then gives the events out. Segments of threads that interleave may never all end at once: after
 * BLOCK events the unfinished ones are checked by a scan of their own, and their later events are
 * believed.
 */
#define BLOCK 16384u
#define BLOCK_ACCESSES (1u << 18)
#define ENOUGH 512u

struct slot {
    uint64_t id;
    struct tb_store_event e;
    const struct tb_site_full *site;
    size_t access; /* index in tb_cursor.access */
};

struct live {
    size_t segment;       /* the thread's segment that is read now */
    bool placed, running; /* running: @hash holds it from its first event on */
    bool pending;         /* touched in this block and not verified */
    uint64_t count;
    struct tb_seghash *hash;
};

struct tb_cursor {
    struct tb_trace *trace;
    struct tb_scan scan;
    uint64_t first, last;
    struct slot *slot;
    size_t n, at;
    struct tb_store_access *access;
    size_t accesses, room;
    struct live *live; /* by thread index */
    size_t pending;
    bool ended;
    enum tb_status failed; /* once failed, always failed */
    struct tb_trace_event out;
};

static enum tb_status no_memory(const struct tb_cursor *c, struct tb_error *err)
{
    return tb_fail(err, TB_ERR_NOMEM, "cannot read '%s': no memory", c->trace->path);
}

static bool in_scope(const struct tb_cursor *c, size_t thread)
{
    const struct tb_trace_thread *t = &c->trace->thread[thread];

    return c->scan.thread ? t->id == c->scan.thread
                          : c->scan.process == 0 || t->process == c->scan.process;
}

static enum tb_status open_any(struct tb_cursor **out, struct tb_trace *t, uint32_t process,
                               uint32_t thread, uint64_t first, uint64_t last, struct tb_error *err)
{
    struct tb_cursor *c;
    enum tb_status rc = tb_trace_load_segments(t, err);

    if (rc)
        return rc;
    if (!(c = calloc(1, sizeof(*c))))
        return tb_fail(err, TB_ERR_NOMEM, "cannot read '%s': no memory", t->path);
    c->trace = t;
    c->first = first;
    c->last = last;
    c->slot = malloc(BLOCK * sizeof(*c->slot));
    c->live = calloc(t->threads + 1, sizeof(*c->live));
    rc = c->slot && c->live ? tb_scan_open(&c->scan, t, process, thread, first, last, err)
                            : no_memory(c, err);
    if (rc) {
        tb_cursor_close(c);
        return rc;
    }
    *out = c;
    return TB_OK;
}

enum tb_status tb_cursor_open(struct tb_cursor **out, struct tb_trace *t, uint32_t thread,
                              uint64_t first, uint64_t last, struct tb_error *err)
{
    if (!out || !t)
        return tb_fail(err, TB_ERR_ARG, "no trace");
    if (tb_trace_thread_index(t, thread) == SIZE_MAX)
        return tb_fail(err, TB_ERR_NOTFOUND, "no thread %u in '%s'", thread, t->path);
    return open_any(out, t, 0, thread, first, last, err);
}

enum tb_status tb_cursor_open_process(struct tb_cursor **out, struct tb_trace *t, uint32_t process,
                                      uint64_t first, uint64_t last, struct tb_error *err)
{
    if (!out || !t)
        return tb_fail(err, TB_ERR_ARG, "no trace");
    return open_any(out, t, process, 0, first, last, err);
}

void tb_cursor_close(struct tb_cursor *c)
{
    if (!c)
        return;
    tb_scan_close(&c->scan);
    for (size_t i = 0; c->live && i < c->trace->threads; i++)
        free(c->live[i].hash);
    free(c->live);
    free(c->slot);
    free(c->access);
    free(c);
}

/* ---------------------------------------------------------------- segments */

static bool verified(const struct tb_cursor *c, size_t thread, size_t i)
{
    return c->trace->segments[thread].check[i].verified;
}

/* A segment that was passed without being read whole: read it now, or it is not there to be read.
 */
static enum tb_status settle(struct tb_cursor *c, size_t thread, size_t i, struct tb_error *err)
{
    if (verified(c, thread, i) || !c->trace->segments[thread].segment[i].detail)
        return TB_OK;
    return tb_trace_check_segment(c->trace, thread, i, err);
}

/* The first segment of a thread whose last event is not before @id. */
static size_t place(const struct tb_trace_thread_segments *list, uint64_t id)
{
    size_t lo = 0, hi = list->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (list->segment[mid].last < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void set_pending(struct tb_cursor *c, struct live *l, bool pending)
{
    if (pending != l->pending)
        c->pending += pending ? 1 : (size_t)-1;
    l->pending = pending;
}

/* Go to the segment that event @id is in; segments left behind must be whole. */
static enum tb_status advance(struct tb_cursor *c, size_t thread, struct live *l, uint64_t id,
                              struct tb_error *err)
{
    const struct tb_trace_thread_segments *list = &c->trace->segments[thread];
    enum tb_status rc = TB_OK;

    if (!l->placed)
        l->segment = place(list, c->first);
    l->placed = true;
    while (rc == TB_OK && l->segment < list->n && list->segment[l->segment].last < id) {
        rc = settle(c, thread, l->segment++, err);
        l->running = false;
        set_pending(c, l, false);
    }
    if (rc == TB_OK && (l->segment == list->n || list->segment[l->segment].first > id ||
                        !list->segment[l->segment].detail))
        rc = tb_trace_damaged(c->trace, err, "event %" PRIu64 ": no segment holds it", id);
    return rc;
}

/* Take one event into the digest of its segment. */
static enum tb_status take(struct tb_cursor *c, size_t thread, uint64_t id,
                           const struct tb_store_event *e, const struct tb_site_full *site,
                           struct tb_error *err)
{
    struct live *l = &c->live[thread];
    enum tb_status rc = advance(c, thread, l, id, err);

    if (rc || verified(c, thread, l->segment))
        return rc;
    const struct tb_trace_segment *s = &c->trace->segments[thread].segment[l->segment];
    if (id == s->first) {
        if (!l->hash && !(l->hash = tb_seghash_new()))
            return no_memory(c, err);
        tb_seghash_reset(l->hash);
        l->count = 0;
        l->running = true;
    }
    set_pending(c, l, true);
    if (!l->running)
        return TB_OK;
    tb_seghash_add(l->hash, site, id, e, c->scan.access);
    l->count++;
    if (id < s->last)
        return TB_OK;
    set_pending(c, l, false);
    l->running = false;
    return tb_trace_compare(c->trace, thread, l->segment, l->hash, l->count, err);
}

/* The block ends: check what is not finished by reading it on its own. */
static enum tb_status settle_pending(struct tb_cursor *c, struct tb_error *err)
{
    enum tb_status rc = TB_OK;

    for (size_t i = 0; rc == TB_OK && c->pending > 0 && i < c->trace->threads; i++) {
        if (!c->live[i].pending)
            continue;
        rc = settle(c, i, c->live[i].segment, err);
        set_pending(c, &c->live[i], false);
        c->live[i].running = false;
    }
    return rc;
}

/* All events were read: no segment that lies in the range may be left out. */
static enum tb_status settle_rest(struct tb_cursor *c, struct tb_error *err)
{
    enum tb_status rc = TB_OK;

    for (size_t i = 0; rc == TB_OK && i < c->trace->threads; i++) {
        const struct tb_trace_thread_segments *list = &c->trace->segments[i];
        if (!in_scope(c, i))
            continue;
        size_t k = c->live[i].placed ? c->live[i].segment : place(list, c->first);
        for (; rc == TB_OK && k < list->n && list->segment[k].last <= c->last; k++)
            if (list->segment[k].first >= c->first)
                rc = settle(c, i, k, err);
    }
    return rc;
}

/* ---------------------------------------------------------------- blocks */

static enum tb_status push(struct tb_cursor *c, uint64_t id, const struct tb_store_event *e,
                           const struct tb_site_full *site, struct tb_error *err)
{
    uint32_t n = site->site.access_count;

    if (c->accesses + n > c->room) {
        size_t room = c->room ? c->room * 2 : 8192;
        while (room < c->accesses + n)
            room *= 2;
        struct tb_store_access *p = realloc(c->access, room * sizeof(*p));
        if (!p)
            return no_memory(c, err);
        c->access = p;
        c->room = room;
    }
    if (n > 0)
        memcpy(c->access + c->accesses, c->scan.access, n * sizeof(*c->access));
    c->slot[c->n++] = (struct slot){.id = id, .e = *e, .site = site, .access = c->accesses};
    c->accesses += n;
    return TB_OK;
}

static enum tb_status fill(struct tb_cursor *c, struct tb_error *err)
{
    const struct tb_site_full *site = NULL;
    struct tb_store_event e;
    enum tb_status rc = TB_OK;
    uint64_t id;

    c->n = c->at = c->accesses = 0;
    while (rc == TB_OK && c->n < BLOCK && c->accesses < BLOCK_ACCESSES &&
           (c->pending > 0 || c->n < ENOUGH)) {
        rc = tb_scan_next(&c->scan, &e, &id, &site, err);
        if (rc == TB_OK && !site) {
            c->ended = true;
            break;
        }
        if (rc == TB_OK)
            rc = take(c, tb_trace_thread_index(c->trace, e.thread), id, &e, site, err);
        if (rc == TB_OK)
            rc = push(c, id, &e, site, err);
    }
    if (rc == TB_OK)
        rc = settle_pending(c, err);
    if (rc == TB_OK && c->ended)
        rc = settle_rest(c, err);
    return rc;
}

enum tb_status tb_cursor_next(struct tb_cursor *c, const struct tb_trace_event **e,
                              struct tb_error *err)
{
    if (c->failed)
        return tb_fail(err, c->failed, "cannot read '%s' beyond an earlier error", c->trace->path);
    if (c->at == c->n && !c->ended)
        c->failed = fill(c, err);
    if (c->failed)
        return c->failed;
    if (c->at == c->n) {
        *e = NULL;
        return TB_OK;
    }
    const struct slot *s = &c->slot[c->at++];
    c->out = (struct tb_trace_event){
        .id = s->id, .e = s->e, .site = &s->site->site, .access = c->access + s->access};
    *e = &c->out;
    return TB_OK;
}
