/*
 * Continuity of device memory (`run --inputs`): what a launch or copy reads must be what the last
 * recorded writer of those bytes left. The torch tap checks its operators in the job; here the
 * fingerprints arrive late, so it is done when events are written, in their order.
 *
 * Kept are extents of allocations that do not overlap, each with the fingerprint its bytes had
 * last. The recorder hashes what is read as it was written; a read of other extents is only
 * counted.
 */
#include "collector/collector_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u /* chains of allocations */
#define LIMIT (1u << 18)

struct extent {
    int64_t lo, hi;
    struct tb_fp fp;
    uint64_t seq;
    uint32_t site;
    bool written; /* else only read so far */
};

struct memory {
    struct memory *chain, *newer, *older; /* of its bucket; by last use */
    uint64_t alloc;
    struct extent *e; /* by lo */
    size_t n, cap;
};

struct tb_continuity {
    struct memory *bucket[BUCKETS], *newest, *oldest;
    size_t extents, memories, limit;
    uint64_t unchecked;
};

struct tb_continuity *tb_continuity_new(size_t limit)
{
    struct tb_continuity *c = calloc(1, sizeof(*c));

    if (c)
        c->limit = limit ? limit : LIMIT;
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

/* Index of the first extent that ends behind @lo. */
static size_t first_behind(const struct memory *m, int64_t lo)
{
    size_t from = 0, to = m->n;

    while (from < to) {
        size_t mid = (from + to) / 2;
        if (m->e[mid].hi <= lo)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

/* Put @e (NULL: nothing) in the place of all that it, or [@lo, @hi), overlaps. */
static void replace(struct tb_continuity *c, struct memory *m, int64_t lo, int64_t hi,
                    const struct extent *e)
{
    size_t i = first_behind(m, lo), j = i, add = e != NULL;

    while (j < m->n && m->e[j].lo < hi)
        j++;
    if (m->n - (j - i) + add > m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 4;
        struct extent *p = realloc(m->e, cap * sizeof(*p));
        if (!p)
            add = 0;
        else
            m->e = p, m->cap = cap;
    }
    if (m->n > j && i + add != j)
        memmove(m->e + i + add, m->e + j, (m->n - j) * sizeof(*m->e));
    if (add && m->e)
        m->e[i] = *e;
    c->extents += add;
    c->extents -= j - i;
    m->n = m->n - (j - i) + add;
}

/* ---------------------------------------------------------------- accesses */

struct look {
    struct tb_merge *m;
    struct tb_sink *sink;
    const struct tb_store_event *event;
    const struct tb_site *site;
    uint64_t row;
};

static void report(const struct look *l, uint64_t alloc, const struct extent *was,
                   const struct tb_fp is)
{
    const struct tb_site *writer = tb_store_site(l->sink->store, was->site);
    struct tb_error err = {0};
    char detail[640];

    (void)snprintf(detail, sizeof(detail),
                   "allocation %llu bytes %lld..%lld: %s by %.128s (event %llu), changed by nobody "
                   "seen, found by %.128s: %016llx%016llx became %016llx%016llx",
                   (unsigned long long)alloc, (long long)was->lo, (long long)was->hi,
                   was->written ? "written" : "read", writer->name, (unsigned long long)was->seq,
                   l->site->name, (unsigned long long)was->fp.a, (unsigned long long)was->fp.b,
                   (unsigned long long)is.a, (unsigned long long)is.b);
    (void)tb_sink_ok(l->sink,
                     tb_store_coverage(l->sink->store, l->m->row, l->event->thread, l->row, 2,
                                       "unseen writer", writer->name, detail, 1, &err),
                     &err);
}

static void look_at_read(struct tb_continuity *c, const struct look *l, uint64_t alloc,
                         const struct extent *e)
{
    struct memory *m = find(c, alloc, true);
    size_t i = m ? first_behind(m, e->lo) : 0;

    if (!m)
        return;
    if (!m->e || i == m->n || m->e[i].lo >= e->hi) { /* nobody was seen here: now it must stay */
        replace(c, m, e->lo, e->hi, e);
        return;
    }
    if (m->e[i].lo != e->lo || m->e[i].hi != e->hi) {
        c->unchecked++;
        return;
    }
    if (tb_fp_equal(m->e[i].fp, e->fp))
        return;
    if (!tb_pending_explains(l->m, l->event->seq, alloc) && l->sink->error.status == TB_OK)
        report(l, alloc, &m->e[i], e->fp);
    m->e[i] = *e; /* said once */
}

static void look_at_write(struct tb_continuity *c, uint64_t alloc, const struct extent *e,
                          bool known)
{
    struct memory *m = find(c, alloc, known);

    if (m)
        replace(c, m, e->lo, e->hi, known ? e : NULL);
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

static void look_at(struct tb_continuity *c, const struct look *l, const struct tb_store_access *a,
                    char mode)
{
    for (uint32_t i = 0; i < l->site->access_count; i++) {
        const struct tb_site_access *s = &l->site->access[i];
        struct extent e = {.lo = (int64_t)a[i].offset + s->span_lo,
                           .hi = (int64_t)a[i].offset + s->span_hi,
                           .fp = tb_fp_load(a[i].fp),
                           .seq = l->event->seq,
                           .site = l->event->site,
                           .written = mode == 'w'};
        bool known = s->contiguous && a[i].fp_kind == TB_FP_BYTES;
        if (s->mode != mode || a[i].alloc == 0 || a[i].alloc >= TB_ALLOC_RNG || e.lo >= e.hi)
            continue;
        if (mode == 'r' && is_shared(l, s))
            continue;
        if (mode == 'w')
            look_at_write(c, a[i].alloc, &e, known);
        else if (known)
            look_at_read(c, l, a[i].alloc, &e);
    }
}

void tb_continuity_event(struct tb_merge *m, struct tb_sink *sink, const struct tb_store_event *e,
                         const struct tb_store_access *a, uint64_t row)
{
    struct look l = {m, sink, e, tb_store_site(sink->store, e->site), row};

    if (!m->continuity && begins(e))
        m->continuity = tb_continuity_new(0);
    if (!m->continuity || !l.site)
        return;
    if (begins(e)) /* an operator's reads were checked in the job */
        look_at(m->continuity, &l, a, 'r');
    look_at(m->continuity, &l, a, 'w');
    forget_oldest(m->continuity);
}

void tb_continuity_finish(struct tb_merge *m, struct tb_sink *sink)
{
    struct tb_error err = {0};

    if (m->continuity && m->continuity->unchecked && sink->error.status == TB_OK)
        (void)tb_sink_ok(sink,
                         tb_store_coverage(sink->store, m->row, 0, 0, 0, "continuity", "reads",
                                           "of other extents than were written last: not checked",
                                           m->continuity->unchecked, &err),
                         &err);
    tb_continuity_free(m->continuity);
    m->continuity = NULL;
}
