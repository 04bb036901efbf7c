/*
 * Continuity of device memory (`run --inputs`): what a launch or copy reads must be what the last
 * recorded writer of those bytes left. The torch tap checks its operators in the job; here the
 * fingerprints arrive late, so it is done when events are written, in their order.
 *
 * Kept are extents of allocations, each with the fingerprint its bytes had last. A write ends all
 * that it overlaps; a read is compared with the same extent, if that is known. Memory that the host
 * may write, too, is left out: its device is not "cuda:N".
 *
 * Work of two streams that nothing orders is no unseen writer, whatever was read: that is a race,
 * and its row says between whom. The writer may come after the reader, so a row waits for a while.
 * Where two such works write, a fingerprint may be torn: what they left is not known until it is
 * read behind both.
 *
 * Under run --poison there are fingerprints of two kinds: of the bytes as they are, and with two
 * values of a byte as one. Of the same bytes they may differ, so each is compared with its own.
 */
#include "collector/collector_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u /* chains of allocations */
#define LIMIT (1u << 18)
#define ALLOC_LIMIT 4096u /* extents of one allocation; beyond them it begins anew */

struct extent {
    int64_t lo, hi;
    struct tb_fp fp[2]; /* of the bytes as they are; with two values as one */
    bool has[2];
    uint64_t seq;
    uint32_t site, lane;
    uint64_t clock; /* in the order of streams, 0: not known */
    bool written;   /* else only read so far */
    bool torn;      /* written by streams at once: @fp says nothing */
};

#define SUSPECTS 64u
#define SUSPECT_EVENTS 4096u /* a writer that comes later than that is not waited for */

/* A read that found other bytes than were left: an unseen writer, or a race with a later one */
struct suspect {
    uint64_t alloc, row, seq; /* of the read */
    struct extent was, is;
    bool alike; /* which fingerprints of them differ */
    uint32_t thread;
};

struct memory {
    struct memory *chain, *newer, *older; /* of its bucket; by last use */
    uint64_t alloc;
    struct extent *e; /* by lo, then by hi */
    size_t n, cap;
    int64_t longest; /* of its extents, at least */
};

struct tb_continuity {
    struct memory *bucket[BUCKETS], *newest, *oldest;
    size_t extents, memories, limit;
    uint64_t first, shared; /* reads that were not compared: of a new extent, of shared memory */
    uint64_t other;         /* of an extent of which only the other kind of fingerprint is known */
    struct tb_order *order;
    struct suspect suspect[SUSPECTS];
    uint32_t suspects;
};

struct tb_continuity *tb_continuity_new(size_t limit)
{
    struct tb_continuity *c = calloc(1, sizeof(*c));

    if (c)
        c->limit = limit ? limit : LIMIT;
    if (c)
        c->order = tb_order_new();
    return c;
}

void tb_continuity_free(struct tb_continuity *c)
{
    while (c && c->newest) {
        struct memory *m = c->newest;
        c->newest = m->older;
        free(m->e);
        free(m);
    }
    if (c)
        tb_order_free(c->order);
    free(c);
}

/* ---------------------------------------------------------------- allocations */

static struct memory **chain_of(struct tb_continuity *c, uint64_t alloc)
{
    return &c->bucket[(alloc * 0x9E3779B97F4A7C15ull) >> 52];
}

static void unlink_use(struct tb_continuity *c, struct memory *m)
{
    *(m->newer ? &m->newer->older : &c->newest) = m->older;
    *(m->older ? &m->older->newer : &c->oldest) = m->newer;
}

static void use(struct tb_continuity *c, struct memory *m)
{
    m->newer = NULL;
    m->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = m;
    c->newest = m;
}

static struct memory *find(struct tb_continuity *c, uint64_t alloc, bool make)
{
    struct memory **chain = chain_of(c, alloc), *m = *chain;

    while (m && m->alloc != alloc)
        m = m->chain;
    if (m) {
        unlink_use(c, m);
        use(c, m);
        return m;
    }
    if (!make || !(m = calloc(1, sizeof(*m))))
        return NULL;
    m->alloc = alloc;
    m->chain = *chain;
    *chain = m;
    use(c, m);
    c->memories++;
    return m;
}

static void forget(struct tb_continuity *c, struct memory *m)
{
    struct memory **at = chain_of(c, m->alloc);

    while (*at && *at != m)
        at = &(*at)->chain;
    *at = m->chain;
    unlink_use(c, m);
    c->extents -= m->n;
    c->memories--;
    free(m->e);
    free(m);
}

/* Numbers are never used again, and nobody says what was freed: the longest unused ones go. */
static void forget_oldest(struct tb_continuity *c)
{
    while (c->extents + c->memories > c->limit && c->oldest)
        forget(c, c->oldest); /* NOLINT(clang-analyzer-unix.Malloc): it is in no list any more */
}

/* Index of the first extent that begins at @lo or behind, and there ends at @hi or behind. */
static size_t first_from(const struct memory *m, int64_t lo, int64_t hi)
{
    size_t from = 0, to = m->n;

    while (from < to) {
        size_t mid = (from + to) / 2;
        if (m->e[mid].lo < lo || (m->e[mid].lo == lo && m->e[mid].hi < hi))
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static struct extent *exact(struct memory *m, int64_t lo, int64_t hi)
{
    size_t i = first_from(m, lo, hi);

    return i < m->n && m->e[i].lo == lo && m->e[i].hi == hi ? &m->e[i] : NULL;
}

/* Forget all that [@lo, @hi) overlaps. */
static void cut(struct tb_continuity *c, struct memory *m, int64_t lo, int64_t hi)
{
    size_t i = first_from(m, lo - m->longest, INT64_MIN), to = i;

    for (; i < m->n && m->e[i].lo < hi; i++)
        if (m->e[i].hi <= lo)
            m->e[to++] = m->e[i];
    if (to == i)
        return;
    c->extents -= i - to;
    memmove(m->e + to, m->e + i, (m->n - i) * sizeof(*m->e));
    m->n -= i - to;
    if (m->n == 0)
        m->longest = 0;
}

/* One that is not there yet. */
static void keep(struct tb_continuity *c, struct memory *m, const struct extent *e)
{
    if (m->n == ALLOC_LIMIT) {
        c->extents -= m->n;
        m->n = 0;
    }
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 4;
        struct extent *p = realloc(m->e, cap * sizeof(*p));
        if (!p)
            return;
        m->e = p;
        m->cap = cap;
    }
    size_t i = first_from(m, e->lo, e->hi);
    memmove(m->e + i + 1, m->e + i, (m->n - i) * sizeof(*m->e));
    m->e[i] = *e;
    m->n++;
    m->longest = e->hi - e->lo > m->longest ? e->hi - e->lo : m->longest;
    c->extents++;
}

/* ---------------------------------------------------------------- accesses */

struct look {
    struct tb_merge *m;
    struct tb_sink *sink;
    const struct tb_store_event *event;
    const struct tb_site *site;
    uint64_t row;
    bool ordered; /* @at is known */
    bool torn;    /* its fingerprints may hold what another node of its graph was writing */
    struct tb_work_order at;
};

static void say(const struct tb_merge *m, struct tb_sink *sink, const struct suspect *s,
                unsigned severity, const char *kind, const char *subject, const char *detail)
{
    struct tb_error err = {0};

    if (sink->error.status == TB_OK)
        (void)tb_sink_ok(sink,
                         tb_store_coverage(sink->store, m->row, s->thread, s->row, severity, kind,
                                           subject, detail, 1, &err),
                         &err);
}

static void report(const struct tb_merge *m, struct tb_sink *sink, const struct suspect *s)
{
    const struct tb_site *writer = tb_store_site(sink->store, s->was.site);
    const struct tb_site *reader = tb_store_site(sink->store, s->is.site);
    struct tb_fp was = s->was.fp[s->alike], is = s->is.fp[s->alike];
    char detail[640];

    (void)snprintf(detail, sizeof(detail),
                   "allocation %llu bytes %lld..%lld: %s by %.128s (event %llu), changed by nobody "
                   "seen, found by %.128s: %016llx%016llx became %016llx%016llx",
                   (unsigned long long)s->alloc, (long long)s->was.lo, (long long)s->was.hi,
                   s->was.written ? "written" : "read", writer->name,
                   (unsigned long long)s->was.seq, reader->name, (unsigned long long)was.a,
                   (unsigned long long)was.b, (unsigned long long)is.a, (unsigned long long)is.b);
    say(m, sink, s, 2, "unseen writer", writer->name, detail);
}

/* @writer, recorded as event @seq, may have written before the read, or behind it. */
static void report_race(const struct tb_merge *m, struct tb_sink *sink, const struct suspect *s,
                        const char *writer, uint64_t seq)
{
    const struct tb_site *reader = tb_store_site(sink->store, s->is.site);
    char detail[640], both[320];

    (void)snprintf(both, sizeof(both), "%.128s and %.128s", writer, reader->name);
    (void)snprintf(detail, sizeof(detail),
                   "allocation %llu bytes %lld..%lld: written by %.128s (event %llu) and read by "
                   "%.128s (event %llu) in another stream, with nothing that orders them",
                   (unsigned long long)s->alloc, (long long)s->is.lo, (long long)s->is.hi, writer,
                   (unsigned long long)seq, reader->name, (unsigned long long)s->seq);
    say(m, sink, s, 1, "race", both, detail);
}

/* Nothing orders the work that left @e with that which is looked at. */
static bool unordered(const struct look *l, const struct extent *e)
{
    return l->ordered && e->clock && e->lane != l->at.lane && e->clock > l->at.known->at[e->lane];
}

/* The same, or it is only not sure that something does: threads of the host have waited. */
static bool perhaps_unordered(const struct look *l, const struct extent *e)
{
    return l->ordered && e->clock && e->lane != l->at.lane && e->clock > l->at.sure->at[e->lane];
}

/* What has waited long enough was written by nobody who was seen. */
static void give_up_waiting(struct tb_continuity *c, const struct tb_merge *m, struct tb_sink *sink,
                            uint64_t seq)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->suspects; i++) {
        const struct suspect *s = &c->suspect[i];
        if (seq - s->seq > SUSPECT_EVENTS)
            report(m, sink, s);
        else
            c->suspect[n++] = *s;
    }
    c->suspects = n;
}

static void suspect(struct tb_continuity *c, const struct look *l, const struct suspect *s)
{
    if (!l->ordered) {
        report(l->m, l->sink, s);
        return;
    }
    if (c->suspects == SUSPECTS)
        give_up_waiting(c, l->m, l->sink, UINT64_MAX);
    c->suspect[c->suspects++] = *s;
}

/* Is a read of @e to be compared with @was? If only the other kind of fingerprint is known of it,
 * this one must stay from now on. */
static bool compares(struct tb_continuity *c, struct extent *was, const struct extent *e)
{
    bool alike = e->has[1];

    if (was->has[alike])
        return true;
    c->other++;
    was->fp[alike] = e->fp[alike];
    was->has[alike] = true;
    return false;
}

static void look_at_read(struct tb_continuity *c, const struct look *l, uint64_t alloc,
                         const struct extent *e)
{
    struct memory *m = find(c, alloc, true);
    struct extent *was = m ? exact(m, e->lo, e->hi) : NULL;

    if (m && !was) { /* not seen as a whole before: from now on it must stay */
        c->first++;
        keep(c, m, e);
    }
    if (was && was->torn) {
        c->first++;
        if (!perhaps_unordered(l, was))
            *was = *e;
        return;
    }
    bool alike = e->has[1];
    if (!was || !compares(c, was, e) || tb_fp_equal(was->fp[alike], e->fp[alike]))
        return;
    struct suspect s = {alloc, l->row, l->event->seq, *was, *e, alike, l->event->thread};
    if (was->written && perhaps_unordered(l, was)) {
        const struct tb_site *writer = tb_store_site(l->sink->store, was->site);
        if (unordered(l, was))
            report_race(l->m, l->sink, &s, writer->name, was->seq);
        cut(c, m, e->lo, e->hi); /* which of the two lies there is not known */
        return;
    }
    if (!tb_pending_explains(l->m, l->event->seq, alloc))
        suspect(c, l, &s);
    *was = *e; /* said once */
}

/* Was one of the reads that wait made at the same time as this write? */
static void look_for_readers(struct tb_continuity *c, const struct look *l, uint64_t alloc,
                             const struct extent *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->suspects; i++) {
        const struct suspect *s = &c->suspect[i];
        bool here = s->alloc == alloc && s->is.lo < e->hi && e->lo < s->is.hi;
        if (here && unordered(l, &s->is))
            report_race(l->m, l->sink, s, l->site->name, l->event->seq);
        else if (!here || !perhaps_unordered(l, &s->is))
            c->suspect[n++] = *s;
    }
    c->suspects = n;
}

/* Has another stream's work, in no order with this, written there? */
static bool meets_a_writer(const struct look *l, const struct memory *m, const struct extent *e)
{
    for (size_t i = first_from(m, e->lo - m->longest, INT64_MIN); i < m->n && m->e[i].lo < e->hi;
         i++)
        if (m->e[i].hi > e->lo && m->e[i].written && perhaps_unordered(l, &m->e[i]))
            return true;
    return false;
}

static void look_at_write(struct tb_continuity *c, const struct look *l, uint64_t alloc,
                          struct extent *e, bool known)
{
    struct memory *m = find(c, alloc, known);

    e->torn = m && meets_a_writer(l, m, e);
    if (m)
        cut(c, m, e->lo, e->hi);
    if (m && (known || e->torn))
        keep(c, m, e);
}

/* Work of a device, whose reads were hashed: only a run with --inputs has it. */
static bool begins(const struct tb_store_event *e)
{
    return e->kind >= TB_EV_LAUNCH && e->kind <= TB_EV_GRAPH && (e->flags & TB_EVF_READS_HASHED);
}

/* The host writes its own memory, and what is managed, without a call that could be seen. */
static bool is_shared(const struct look *l, const struct tb_site_access *s)
{
    return l->event->kind != TB_EV_OP && strncmp(s->device, "cuda", 4) != 0;
}

/* What @a, which came as @wire, has to do with, and what it left or found there. */
static struct extent extent_of(const struct look *l, const struct tb_site_access *s,
                               const struct tb_wire_access *wire, const struct tb_store_access *a)
{
    bool alike = wire->alloc & TB_ACCESS_ALIKE;
    struct extent e = {.lo = (int64_t)a->offset + s->span_lo,
                       .hi = (int64_t)a->offset + s->span_hi,
                       .seq = l->event->seq,
                       .site = l->event->site,
                       .lane = l->at.lane,
                       .clock = l->ordered ? l->at.clock : 0,
                       .written = s->mode == 'w'};

    e.fp[alike] = tb_fp_load(a->fp);
    e.has[alike] = true;
    return e;
}

static void look_at(struct tb_continuity *c, const struct look *l,
                    const struct tb_wire_access *wire, const struct tb_store_access *a, char mode)
{
    for (uint32_t i = 0; i < l->site->access_count; i++) {
        const struct tb_site_access *s = &l->site->access[i];
        struct extent e = extent_of(l, s, &wire[i], &a[i]);
        bool known = s->contiguous && a[i].fp_kind == TB_FP_BYTES && !l->torn;
        if (s->mode != mode || a[i].alloc == 0 || a[i].alloc >= TB_ALLOC_RNG || e.lo >= e.hi)
            continue;
        if (strncmp(s->device, "cuda", 4) != 0) {
            c->shared += mode == 'r' && known;
            continue;
        }
        if (a[i].fp_kind == TB_FP_UNCHANGED) /* who wrote before is still the one who did */
            continue;
        if (mode == 'r' && is_shared(l, s))
            continue;
        if (mode == 'w' && c->suspects)
            look_for_readers(c, l, a[i].alloc, &e);
        if (mode == 'w')
            look_at_write(c, l, a[i].alloc, &e, known);
        else if (known)
            look_at_read(c, l, a[i].alloc, &e);
    }
}

void tb_continuity_event(struct tb_merge *m, struct tb_sink *sink, const struct tb_store_event *e,
                         const struct tb_wire_access *wire, const struct tb_store_access *a,
                         uint64_t row)
{
    struct look l = {
        .m = m, .sink = sink, .event = e, .site = tb_store_site(sink->store, e->site), .row = row};
    size_t n;

    if (!m->continuity && begins(e))
        m->continuity = tb_continuity_new(0);
    if (!m->continuity || !l.site)
        return;
    l.torn = tb_site_value(l.site, "torn", &n) != NULL;
    if (m->continuity->order)
        l.ordered = tb_order_event(m->continuity->order, e, l.site, a, &l.at);
    if (m->continuity->suspects)
        give_up_waiting(m->continuity, m, sink, e->seq);
    if (begins(e)) /* an operator's reads were checked in the job */
        look_at(m->continuity, &l, wire, a, 'r');
    look_at(m->continuity, &l, wire, a, 'w');
    forget_oldest(m->continuity);
}

static void count(const struct tb_merge *m, struct tb_sink *sink, uint64_t n, const char *detail)
{
    struct tb_error err = {0};

    if (n && sink->error.status == TB_OK)
        (void)tb_sink_ok(sink,
                         tb_store_coverage(sink->store, m->row, 0, 0, 0, "origin",
                                           "reads of a device", detail, n, &err),
                         &err);
}

void tb_continuity_finish(struct tb_merge *m, struct tb_sink *sink)
{
    if (m->continuity) {
        give_up_waiting(m->continuity, m, sink, UINT64_MAX);
        count(m, sink, m->continuity->first,
              "of bytes that were not written or read as a whole before");
        count(m, sink, m->continuity->other, "of bytes that --poison hashed in another way before");
        count(m, sink, m->continuity->shared, "of memory that the host may write, too");
    }
    tb_continuity_free(m->continuity);
    m->continuity = NULL;
}
