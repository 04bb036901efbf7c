#include "store/writer.h"

#include <stdlib.h>
#include <string.h>

#define COMMIT_EVENTS 20000u
#define COMMIT_ACCESSES 65536u /* about 2 MB of the -wal, as many events of the usual kind are */
#define COMMIT_NS 200000000ull

/* ---------------------------------------------------------------- segments */

static void end_segment(struct tb_store *s, struct tb_writer_thread *t)
{
    struct tb_segment_row *row = &s->closed[s->closed_count++]; /* room was made before */

    tb_seghash_get(t->hash, t->open.digest, &t->open.check);
    *row = t->open;
    t->open = (struct tb_segment_row){0};
    t->dirty = false;
}

/* The open segment that takes @e: a segment holds one step's events, 1,024 at most. */
static bool enter_segment(struct tb_store *s, struct tb_writer_thread *t,
                          const struct tb_store_event *e)
{
    if (t->open.count > 0 &&
        (t->open.step != e->step || t->open.count == TB_STORE_SEGMENT_EVENTS)) {
        void *grown =
            tb_writer_grow(s->closed, s->closed_count, &s->closed_room, sizeof(*s->closed));
        if (!grown)
            return false;
        s->closed = grown;
        end_segment(s, t);
    }
    if (t->open.count == 0) {
        t->open = (struct tb_segment_row){.id = s->next_segment++,
                                          .step = e->step,
                                          .first = s->next_event,
                                          .seq_first = e->seq,
                                          .thread = e->thread};
        tb_seghash_reset(t->hash);
        s->stats.segments++;
    }
    return true;
}

static bool write_segment(struct tb_store *s, const struct tb_segment_row *r)
{
    static const uint8_t none[16];
    bool covered = memcmp(r->coverage, none, 16) != 0;

    return tb_writer_run(s, TB_SQL_SEGMENT, "iiiiiiibbi", r->id, (int64_t)r->thread, r->step,
                         r->first, r->last, r->count, r->seq_first, r->digest, (size_t)16,
                         covered ? r->coverage : NULL, (size_t)16, r->check);
}

bool tb_writer_segments(struct tb_store *s)
{
    bool ok = !s->failed;

    for (uint32_t i = 0; ok && i < s->closed_count; i++)
        ok = write_segment(s, &s->closed[i]);
    s->closed_count = 0;
    for (uint32_t i = 0; ok && i < s->threads; i++) {
        struct tb_writer_thread *t = &s->thread[i];
        if (!t->dirty)
            continue;
        tb_seghash_get(t->hash, t->open.digest, &t->open.check);
        ok = write_segment(s, &t->open);
        t->dirty = false;
    }
    return ok;
}

/* ---------------------------------------------------------------- batch */

bool tb_writer_drain(struct tb_store *s)
{
    bool ok =
        s->batch.events == 0 || (tb_writer_begin(s) && tb_writer_run(s, TB_SQL_EVENTS, "") &&
                                 (s->batch.accesses == 0 || tb_writer_run(s, TB_SQL_ACCESSES, "")));

    s->batch.events = s->batch.accesses = 0;
    return ok;
}

void tb_writer_commit(struct tb_store *s)
{
    if (tb_writer_drain(s) && (s->in_txn || s->closed_count > 0) && tb_writer_begin(s) &&
        tb_writer_segments(s) && tb_writer_run(s, TB_SQL_COMMIT, "")) {
        s->in_txn = false;
        for (uint32_t i = 0; i < s->processes; i++)
            s->process[i].pending = 0;
        s->in_batch = s->in_batch_accesses = 0;
        tb_writer_trim(s);
    }
    s->committed_ns = tb_writer_clock();
}

enum tb_status tb_store_flush(struct tb_store *s, struct tb_error *err)
{
    if (!s)
        return tb_fail(err, TB_ERR_ARG, "no store");
    tb_writer_commit(s);
    return TB_OK;
}

/* Room for @n more accesses; full batches go to SQLite first. */
static bool make_room(struct tb_store *s, uint32_t n)
{
    struct tb_batch *b = &s->batch;

    if (b->events == TB_BATCH_EVENTS || b->accesses + n > b->room) {
        bool timeout = tb_writer_clock() - s->committed_ns > COMMIT_NS;
        if (s->in_batch >= COMMIT_EVENTS || s->in_batch_accesses >= COMMIT_ACCESSES || timeout)
            tb_writer_commit(s);
        else
            (void)tb_writer_drain(s);
    }
    if (n <= b->room)
        return true;
    struct tb_batch_access *more = realloc(b->access, n * sizeof(*more));
    if (!more)
        return false;
    b->access = more;
    b->room = n;
    return true;
}

static bool is_device(const struct tb_store_event *e, const struct tb_store_access *a, uint32_t n)
{
    bool device = e->kind >= TB_EV_LAUNCH;

    for (uint32_t i = 0; !device && i < n; i++)
        device = a[i].fp_kind >= TB_FP_SAMPLED;
    return device;
}

static void put_access(struct tb_batch_access *out, uint64_t id, const struct tb_store_access *a,
                       uint8_t trait)
{
    out->id = (int64_t)id;
    out->alloc = (int64_t)a->alloc;
    out->offset = (int64_t)tb_store_packed(a);
    memcpy(out->fp, a->fp, 16);
    out->fp[16] = a->fp_kind;
    out->fp_len = a->fp_kind == TB_FP_NONE ? 0 : a->fp_kind == (trait & TB_TRAIT_KIND) ? 16 : 17;
}

static void put_event(const struct tb_store *s, struct tb_batch_event *out, uint64_t id,
                      const struct tb_store_event *e)
{
    *out = (struct tb_batch_event){{
        [TB_COL_ID] = (int64_t)id,
        [TB_COL_THREAD] = e->thread,
        [TB_COL_KIND] = e->kind,
        [TB_COL_FLAGS] = e->flags,
        [TB_COL_SITE] = e->site,
        [TB_COL_RANGE] = e->range,
        [TB_COL_SEQ_OFFSET] = (int64_t)(e->seq - id),
        [TB_COL_SPAN] = (int64_t)(e->seq - e->open),
        [TB_COL_STEP] = (int64_t)e->step,
        [TB_COL_ARGS] = (int64_t)e->args,
        [TB_COL_START] = (int64_t)(e->time_ns - s->base_ns),
    }};
}

static enum tb_status check_event(const struct tb_store *s, const struct tb_store_event *e,
                                  const struct tb_store_access *a, uint32_t n, struct tb_error *err)
{
    if (e->thread == 0 || e->thread > s->threads)
        return tb_fail(err, TB_ERR_ARG, "event of unknown thread %u", e->thread);
    if (e->site == 0 || e->site > s->sites)
        return tb_fail(err, TB_ERR_ARG, "event of unknown site %u", e->site);
    if (e->range > s->ranges)
        return tb_fail(err, TB_ERR_ARG, "event of unknown range %u", e->range);
    const struct tb_site *site = &s->site[e->site - 1]->site;
    if (n != site->access_count || (n > 0 && !a))
        return tb_fail(err, TB_ERR_ARG, "event with %u accesses, its site '%s' has %u", n,
                       site->name, site->access_count);
    if (e->open > e->seq || e->seq < s->process[s->thread[e->thread - 1].process - 1].next_seq)
        return tb_fail(err, TB_ERR_ARG, "event with seq %llu out of order",
                       (unsigned long long)e->seq);
    for (uint32_t i = 0; i < n; i++)
        if (a[i].fp_kind > TB_FP_UNCHANGED)
            return tb_fail(err, TB_ERR_ARG, "access with unknown fp_kind %u", a[i].fp_kind);
    return TB_OK;
}

enum tb_status tb_store_event(struct tb_store *s, const struct tb_store_event *e,
                              const struct tb_store_access *a, uint32_t n, uint64_t *id,
                              struct tb_error *err)
{
    if (!s || !e)
        return tb_fail(err, TB_ERR_ARG, "no store or no event");
    enum tb_status rc = check_event(s, e, a, n, err);
    if (rc)
        return rc;
    const struct tb_site_full *site = s->site[e->site - 1];
    struct tb_writer_thread *t = &s->thread[e->thread - 1];
    struct tb_writer_process *p = &s->process[t->process - 1];
    p->next_seq = e->seq + 1;
    if (!s->device && is_device(e, a, n))
        tb_writer_device(s);
    /* Making room may write, and so fail: then no segment may be ended any more. */
    if (!s->failed && (!make_room(s, n) || (!s->failed && !enter_segment(s, t, e))))
        tb_writer_broke(s, SQLITE_NOMEM);
    if (s->failed) {
        p->lost++;
        s->stats.lost++;
        if (id)
            *id = 0;
        return TB_OK;
    }
    uint64_t row = s->next_event++;
    put_event(s, &s->batch.event[s->batch.events++], row, e);
    struct tb_batch_access *out = &s->batch.access[s->batch.accesses];
    for (uint32_t i = 0; i < n; i++)
        put_access(&out[i], row << TB_STORE_ACCESS_SHIFT | i, &a[i], site->traits[i]);
    s->batch.accesses += n;
    tb_seghash_add(t->hash, site, row, e, a);
    t->open.last = row;
    t->open.count++;
    t->dirty = true;
    p->pending++;
    s->in_batch++;
    s->in_batch_accesses += n;
    s->stored++;
    s->stats.events++;
    s->stats.accesses += n;
    if (id)
        *id = row;
    return TB_OK;
}
