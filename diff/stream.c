/*
 * Events of one process in the order they ended, each with what it read resolved to who last wrote
 * it.
 */
#include "diff/diff_internal.h"

#include <stdlib.h>
#include <string.h>

#define SETTLE 256u /* events after a jump until allocations that appear are surely new */

struct range_info {
    const char *text;
    uint64_t hash;
};

#define AHEAD 2048u /* events that are read before one is given out, where streams may meet */
#define SITES 256u  /* whose likeness is remembered, a power of two */

struct likeness {
    const struct tb_site *site;
    uint64_t key, alike;
};

struct stream {
    struct ev_source source;
    struct rangemap *map;
    struct meetings *meetings;
    struct range_info *ranges; /* by id */
    size_t range_cap;
    struct range_vec pieces, all; /* of one access, of the event */
    struct acc *acc;
    size_t acc_cap;
    uint64_t max_alloc, base; /* allocations above base were made within what was read */
    uint32_t settle;          /* events until base is set */
    uint32_t epoch;
    struct likeness like[SITES];
    struct ev *ahead[AHEAD]; /* a ring: made, and not given out yet */
    size_t first, count;
    bool ended;
};

struct stream *stream_new(const struct ev_source *source)
{
    struct stream *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->source = *source;
    s->map = rangemap_new();
    s->meetings = meetings_new();
    if (!s->map || !s->meetings) {
        rangemap_free(s->map);
        meetings_free(s->meetings);
        free(s);
        return NULL;
    }
    return s;
}

static void drop_ahead(struct stream *s)
{
    for (; s->count; s->count--)
        free(s->ahead[s->first++ % AHEAD]);
    s->ended = false;
}

void stream_free(struct stream *s)
{
    if (!s)
        return;
    drop_ahead(s);
    rangemap_free(s->map);
    meetings_free(s->meetings);
    free(s->ranges);
    free(s->pieces.r);
    free(s->all.r);
    free(s->acc);
    free(s);
}

void stream_source(struct stream *s, const struct ev_source *source, bool forget)
{
    s->source = *source;
    drop_ahead(s);
    if (forget) {
        rangemap_clear(s->map);
        meetings_forget(s->meetings);
        s->settle = SETTLE;
        s->base = UINT64_MAX;
    }
}

/* ---------------------------------------------------------------- ranges and layouts */

static size_t phase_and_module(const char *text)
{
    size_t n = strcspn(text, "\t");

    if (text[n])
        n += 1 + strcspn(text + n + 1, "\t");
    return n;
}

static const struct range_info *range_of(struct stream *s, uint32_t id)
{
    if (id >= s->range_cap) {
        size_t cap = s->range_cap ? s->range_cap : 256;
        while (cap <= id)
            cap *= 2;
        struct range_info *p = realloc(s->ranges, cap * sizeof(*p));
        if (!p)
            return NULL;
        memset(p + s->range_cap, 0, (cap - s->range_cap) * sizeof(*p));
        s->ranges = p;
        s->range_cap = cap;
    }
    struct range_info *r = &s->ranges[id];
    if (!r->text) {
        r->text = s->source.range(s->source.ctx, id);
        r->hash = hash_text(r->text, phase_and_module(r->text));
    }
    return r;
}

static const struct likeness *likeness_of(struct stream *s, const struct tb_site *site)
{
    struct likeness *l = &s->like[((uintptr_t)site / 64) & (SITES - 1)];

    if (l->site != site)
        *l = (struct likeness){site, site_key(site), site_alike(site)};
    return l;
}

/* All bytes between its first and its last are touched */
static bool dense(const struct tb_site_access *a)
{
    return a->span_hi - a->span_lo == (int64_t)a->bytes;
}

static bool real_memory(uint64_t alloc)
{
    return alloc != 0 && alloc < TB_ALLOC_RNG;
}

static uint64_t token_of(const struct tb_site_access *a, const struct acc *c)
{
    uint64_t h = mix64(c->fp.a, c->fp.b);

    if (!a->contiguous)
        for (int d = 0; d < a->ndim; d++)
            h = mix64(mix64(h, (uint64_t)a->sizes[d]), (uint64_t)a->strides[d]);
    return h | 1;
}

/* ---------------------------------------------------------------- one event */

static bool keep_pieces(struct stream *s, struct acc *c)
{
    if (s->all.n + s->pieces.n > s->all.cap) {
        size_t cap = 2 * (s->all.n + s->pieces.n);
        struct range *p = realloc(s->all.r, cap * sizeof(*p));
        if (!p)
            return false;
        s->all.r = p;
        s->all.cap = cap;
    }
    c->piece = (uint32_t)s->all.n;
    c->pieces = (uint32_t)s->pieces.n;
    if (s->pieces.n)
        memcpy(s->all.r + s->all.n, s->pieces.r, s->pieces.n * sizeof(*s->pieces.r));
    s->all.n += s->pieces.n;
    return true;
}

static void mark_unknown(const struct stream *s, struct acc *c)
{
    for (size_t i = 0; i < s->pieces.n; i++)
        if (!s->pieces.r[i].token)
            c->flags |= ACC_UNKNOWN;
    if ((c->flags & ACC_UNKNOWN) && c->alloc > s->base && !rangemap_forgot(s->map))
        c->flags |= ACC_FRESH;
}

static enum tb_status look_at(struct stream *s, const struct tb_trace_event *e, uint32_t i)
{
    const struct tb_site_access *a = &e->site->access[i];
    struct acc *c = &s->acc[i];
    enum tb_status st = TB_OK;

    *c = (struct acc){.alloc = e->access[i].alloc, .offset = e->access[i].offset};
    c->lo = (int64_t)c->offset + a->span_lo;
    c->hi = (int64_t)c->offset + a->span_hi;
    c->kind = e->access[i].fp_kind;
    c->fp.a = 0;
    memcpy(&c->fp.a, e->access[i].fp, 8);
    memcpy(&c->fp.b, e->access[i].fp + 8, 8);
    if (c->kind == TB_FP_UNCHANGED)
        c->flags |= c->fp.a | c->fp.b ? ACC_LEFT | ACC_HASHED : ACC_LEFT;
    else if (c->kind != TB_FP_NONE)
        c->flags |= ACC_HASHED;
    if (!real_memory(c->alloc))
        return TB_OK;
    if (c->alloc > s->max_alloc)
        s->max_alloc = c->alloc;
    if (a->mode != 'r' && a->mode != 's' && !may_keep(e->e.kind, e->site, i))
        return TB_OK;
    st = rangemap_resolve(s->map, c->alloc, c->lo, c->hi, e->e.open, &s->pieces);
    if (st == TB_OK)
        mark_unknown(s, c);
    return st == TB_OK && !keep_pieces(s, c) ? TB_ERR_NOMEM : st;
}

/* Did an operator that ran inside this one write where it has read? */
static enum tb_status overtaken(struct stream *s, const struct tb_trace_event *e,
                                const struct acc *c, bool *yes)
{
    *yes = false;
    if (e->e.open >= e->e.seq)
        return TB_OK;
    enum tb_status st = rangemap_resolve(s->map, c->alloc, c->lo, c->hi, UINT64_MAX, &s->pieces);
    for (size_t i = 0; st == TB_OK && i < s->pieces.n; i++)
        *yes = *yes || (s->pieces.r[i].lineage && s->pieces.r[i].seq >= e->e.open);
    return st;
}

/* A read that was hashed: what lies there is known to be that, whoever wrote it */
static enum tb_status verified(struct stream *s, const struct tb_trace_event *e, uint32_t i,
                               struct range *r)
{
    const struct acc *c = &s->acc[i];
    bool late;
    enum tb_status st = overtaken(s, e, c, &late);

    if (st != TB_OK || late)
        return st;
    r->token = token_of(&e->site->access[i], c);
    for (uint32_t j = 0; st == TB_OK && j < c->pieces; j++) { /* each byte keeps its writer */
        const struct range *p = &s->all.r[c->piece + j];
        r->lo = p->lo;
        r->hi = p->hi;
        r->writer = p->writer;
        st = rangemap_write(s->map, c->alloc, r, true);
    }
    return st;
}

/* A write without fingerprint leaves what its work, and what lay there before, make of it */
static uint64_t guess(struct stream *s, const struct tb_trace_event *e, uint32_t i)
{
    const struct acc *c = &s->acc[i];
    uint64_t h = mix64(mix64(likeness_of(s, e->site)->alike, i), e->e.args);

    for (uint32_t j = 0; j < c->pieces; j++) {
        const struct range *p = &s->all.r[c->piece + j];
        h = mix64(mix64(h, p->token), (uint64_t)(p->hi - c->lo));
    }
    return h | 1;
}

/* From now on that is what lies there */
static enum tb_status take_effect(struct stream *s, const struct tb_trace_event *e, uint32_t i)
{
    const struct tb_site_access *a = &e->site->access[i];
    const struct acc *c = &s->acc[i];
    struct range r = {.lo = c->lo,
                      .hi = c->hi,
                      .start = c->lo,
                      .whole = c->hi,
                      .lineage = e->id,
                      .seq = e->e.seq};

    if (!real_memory(c->alloc) || (c->flags & ACC_LEFT))
        return TB_OK;
    if (a->mode == 'w') {
        r.writer = e->id;
        r.guess = !(c->flags & ACC_HASHED);
        r.token = r.guess ? guess(s, e, i) : token_of(a, c);
        return rangemap_write(s->map, c->alloc, &r, dense(a));
    }
    bool read = a->mode == 'r' || a->mode == 's';
    return read && (c->flags & ACC_HASHED) && dense(a) ? verified(s, e, i, &r) : TB_OK;
}

static uint64_t content_of(const struct stream *s, const struct ev *v)
{
    uint64_t h = mix64(mix64(v->key, v->args), v->flags & TB_EVF_FAILED);

    for (uint32_t i = 0; i < v->n; i++) {
        const struct acc *c = &s->acc[i];
        h = mix64(h, c->kind);
        if (c->flags & ACC_LEFT)
            continue;
        if (c->flags & ACC_HASHED) {
            h = mix64(mix64(h, c->fp.a), c->fp.b);
            continue;
        }
        for (uint32_t j = 0; j < c->pieces; j++) {
            const struct range *p = &s->all.r[c->piece + j];
            h = mix64(mix64(h, p->token), p->token ? (uint64_t)(p->lo - p->start) : 0);
            h = mix64(h, (uint64_t)(p->hi - c->lo));
        }
    }
    return h;
}

static struct ev *make(struct stream *s, const struct tb_trace_event *e,
                       const struct range_info *range)
{
    uint32_t n = e->site->access_count;
    size_t head = sizeof(struct ev) + n * sizeof(struct acc);
    struct ev *v = malloc(head + s->all.n * sizeof(struct range));

    if (!v)
        return NULL;
    struct range *pieces = (struct range *)((char *)v + head);
    *v = (struct ev){.id = e->id,
                     .seq = e->e.seq,
                     .open = e->e.open,
                     .step = e->e.step,
                     .args = e->e.args,
                     .site = e->site,
                     .range = range->text,
                     .site_key = likeness_of(s, e->site)->key,
                     .thread = e->e.thread,
                     .epoch = s->epoch,
                     .flags = e->e.flags,
                     .kind = e->e.kind,
                     .n = n,
                     .pieces = pieces};
    v->key = mix64(v->site_key, range->hash);
    v->alike = mix64(likeness_of(s, e->site)->alike, range->hash);
    v->content = content_of(s, v);
    if (n)
        memcpy(v->acc, s->acc, n * sizeof(struct acc));
    if (s->all.n)
        memcpy(pieces, s->all.r, s->all.n * sizeof(struct range));
    return v;
}

static bool room_for(struct stream *s, uint32_t n)
{
    if (n <= s->acc_cap)
        return true;
    struct acc *p = realloc(s->acc, 2 * (size_t)n * sizeof(*p));
    if (!p)
        return false;
    s->acc = p;
    s->acc_cap = 2 * (size_t)n;
    return true;
}

static void settle(struct stream *s)
{
    if (s->settle && --s->settle == 0)
        s->base = s->max_alloc;
}

/* A collective's end has no reads; when it is seen is chance */
static bool is_issue(const struct tb_site *site)
{
    for (uint32_t i = 0; i < site->access_count; i++)
        if (site->access[i].mode == 'r')
            return true;
    return false;
}

static enum tb_status read_one(struct stream *s, struct ev **out, struct tb_error *err)
{
    const struct tb_trace_event *e = NULL;
    enum tb_status st = s->source.next(s->source.ctx, &e, err);
    struct ev *v = NULL;

    if (st != TB_OK || !e) {
        if (st == TB_OK)
            *out = NULL;
        return st;
    }
    uint32_t n = e->site->access_count;
    const struct range_info *range = range_of(s, e->e.range);
    if (!range || !room_for(s, n) || meetings_event(s->meetings, e) != TB_OK)
        goto nomem;
    s->all.n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (look_at(s, e, i) != TB_OK)
            goto nomem;
    v = make(s, e, range);
    if (!v)
        goto nomem;
    for (uint32_t i = 0; i < n; i++)
        if (e->site->access[i].mode != 'w' && take_effect(s, e, i) != TB_OK)
            goto nomem;
    for (uint32_t i = 0; i < n; i++) /* it read before it wrote, however they are listed */
        if (e->site->access[i].mode == 'w' && take_effect(s, e, i) != TB_OK)
            goto nomem;
    s->epoch += e->e.kind == TB_EV_COLL && is_issue(e->site);
    settle(s);
    *out = v;
    return TB_OK;
nomem:
    free(v);
    return tb_fail(err, TB_ERR_NOMEM, "no memory to compare events");
}

/* Work of another stream may come later and meet it: that is read first. */
enum tb_status stream_next(struct stream *s, struct ev **out, struct tb_error *err)
{
    enum tb_status st = TB_OK;

    while (st == TB_OK && !s->ended && s->count < (meetings_begun(s->meetings) ? AHEAD : 1)) {
        struct ev *e = NULL;
        st = read_one(s, &e, err);
        s->ended = st == TB_OK && !e;
        if (e)
            s->ahead[(s->first + s->count++) % AHEAD] = e;
    }
    if (st != TB_OK)
        return st;
    *out = s->count ? s->ahead[s->first % AHEAD] : NULL;
    s->first += s->count != 0;
    s->count -= s->count != 0;
    return TB_OK;
}

void stream_mark(struct stream *s, struct ev *e)
{
    meetings_mark(s->meetings, e);
}
