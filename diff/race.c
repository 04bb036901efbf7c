/*
 * Did work of another stream write what this event read or wrote, with nothing that orders the two?
 *
 * Only what lies around the event is read. All before that counts as ordered with all behind it, so
 * nothing is called a race for want of what was not read.
 */
#include "diff/diff_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BEFORE 8192u /* events that are looked at */
#define BEHIND 2048u
#define EARLIER 512u /* writes before the event that may be unordered with it */
#define TARGETS 64u  /* accesses of the event */

/* An access to memory */
struct extent {
    const char *argument;
    uint64_t alloc;
    int64_t lo, hi;
    uint32_t place; /* of the pointer, as in the trace */
    bool exact;     /* of a copy or set: not what a pointer may be for */
    bool read;
    uint32_t access;
};

/* Work that wrote some of the event's bytes */
struct other {
    uint64_t id, seq, stream, clock;
    uint32_t lane, thread;
    struct extent mine, theirs;
};

struct hunt {
    struct tb_trace *t;
    uint64_t id;
    struct extent target[TARGETS];
    uint32_t targets, only; /* only: this access, UINT32_MAX: any */
    bool passed;            /* the event */
    uint64_t seq, stream, clock;
    uint32_t lane;
    struct other earlier[EARLIER];
    uint64_t met; /* how many of them, ever */
    struct other best;
    bool found;
    bool host; /* host functions were queued */
};

static bool extent_of(const struct tb_trace_event *e, uint32_t i, struct extent *x)
{
    const struct tb_site_access *a = &e->site->access[i];
    const struct tb_store_access *s = &e->access[i];

    *x = (struct extent){.argument = a->argument,
                         .alloc = s->alloc,
                         .lo = (int64_t)s->offset + a->span_lo,
                         .hi = (int64_t)s->offset + a->span_hi,
                         .place = s->place,
                         .exact = e->e.kind == TB_EV_COPY || e->e.kind == TB_EV_SET,
                         .read = a->mode == 'r',
                         .access = i};
    return (a->mode == 'r' || a->mode == 'w') && s->alloc && s->alloc < TB_ALLOC_RNG &&
           x->lo < x->hi && s->fp_kind != TB_FP_UNCHANGED &&
           strcmp(a->argument, "reached through memory") != 0; /* that may be anything */
}

/* Does the pointer of a kernel lead to bytes of the copy @c? All of its extent may lie in them. */
static bool leads_into(const struct extent *k, const struct extent *c)
{
    if (k->place)
        return k->place == tb_wire_place((uint64_t)c->lo) || (c->lo <= k->lo && k->hi <= c->hi);
    return k->lo >= c->lo;
}

/* Is it the same memory, and not only the same allocation? An extent that a pointer stands for may
 * begin before what the pointer leads to. */
static bool same_place(const struct extent *a, const struct extent *b)
{
    uint32_t begin[2] = {a->place ? a->place : tb_wire_place((uint64_t)a->lo),
                         b->place ? b->place : tb_wire_place((uint64_t)b->lo)};

    if (a->place == TB_PLACE_NOWHERE || b->place == TB_PLACE_NOWHERE)
        return false;
    if (a->exact && b->exact)
        return true;
    if (a->exact || b->exact)
        return a->exact ? leads_into(b, a) : leads_into(a, b);
    return begin[0] == begin[1];
}

/* The surest, then what meets a read, then the nearest */
static bool better(const struct hunt *h, const struct other *a, const struct other *b)
{
    bool sa = same_place(&a->mine, &a->theirs), sb = same_place(&b->mine, &b->theirs);
    uint64_t da = a->seq < h->seq ? h->seq - a->seq : a->seq - h->seq;
    uint64_t db = b->seq < h->seq ? h->seq - b->seq : b->seq - h->seq;

    if (sa != sb)
        return sa;
    if (a->mine.read != b->mine.read)
        return a->mine.read;
    return da < db;
}

static void offer(struct hunt *h, const struct other *o)
{
    if (h->found && !better(h, o, &h->best))
        return;
    h->best = *o;
    h->found = true;
}

static void reached(struct hunt *h, const struct tb_trace_event *e, const struct tb_work_order *w)
{
    uint64_t from = h->met > EARLIER ? h->met - EARLIER : 0;

    h->passed = true;
    h->seq = e->e.seq;
    h->stream = w->stream;
    h->lane = w->lane;
    h->clock = w->clock;
    for (uint64_t i = from; i < h->met; i++) {
        const struct other *o = &h->earlier[i % EARLIER];
        if (o->lane != w->lane && o->clock > w->known->at[o->lane])
            offer(h, o);
    }
}

static void met(struct hunt *h, const struct tb_trace_event *e, const struct tb_work_order *w,
                const struct extent *mine, const struct extent *theirs)
{
    struct other o = {.id = e->id,
                      .seq = e->e.seq,
                      .stream = w->stream,
                      .clock = w->clock,
                      .lane = w->lane,
                      .thread = e->e.thread,
                      .mine = *mine,
                      .theirs = *theirs};

    if (!h->passed)
        h->earlier[h->met++ % EARLIER] = o;
    else if (w->lane != h->lane && w->known->at[h->lane] < h->clock)
        offer(h, &o);
}

static void look_at(struct hunt *h, const struct tb_trace_event *e, const struct tb_work_order *w)
{
    struct extent x;

    if (e->id == h->id) {
        reached(h, e, w);
        return;
    }
    for (uint32_t i = 0; i < e->site->access_count; i++) {
        if (e->site->access[i].mode != 'w' || !extent_of(e, i, &x))
            continue;
        for (uint32_t k = 0; k < h->targets; k++) {
            const struct extent *m = &h->target[k];
            if (m->alloc == x.alloc && m->lo < x.hi && x.lo < m->hi)
                met(h, e, w, m, &x);
        }
    }
}

static bool host_functions(const struct tb_trace_event *e)
{
    for (uint32_t i = 0; is_device(e->e.kind) && i < e->site->access_count; i++)
        if (e->site->access[i].mode == 'q' && (e->access[i].offset & TB_ORDER_HOST))
            return true;
    return false;
}

static enum tb_status read_target(struct hunt *h, uint32_t process, struct tb_error *err)
{
    struct tb_cursor *c = NULL;
    const struct tb_trace_event *e = NULL;
    enum tb_status st = tb_cursor_open_process(&c, h->t, process, h->id, h->id, err);

    if (st == TB_OK)
        st = tb_cursor_next(c, &e, err);
    for (uint32_t i = 0; st == TB_OK && e && is_device(e->e.kind) && i < e->site->access_count;
         i++) {
        struct extent x;
        if ((h->only == UINT32_MAX || h->only == i) && h->targets < TARGETS && extent_of(e, i, &x))
            h->target[h->targets++] = x;
    }
    tb_cursor_close(c);
    return st;
}

static enum tb_status search(struct hunt *h, uint32_t process, struct tb_error *err)
{
    struct tb_order *o = tb_order_new();
    struct tb_cursor *c = NULL;
    const struct tb_trace_event *e = NULL;
    uint64_t first = h->id > BEFORE ? h->id - BEFORE : 1;
    enum tb_status st = o ? TB_OK : TB_ERR_NOMEM;

    if (st == TB_OK)
        st = tb_cursor_open_process(&c, h->t, process, first, h->id + BEHIND, err);
    while (st == TB_OK && (st = tb_cursor_next(c, &e, err)) == TB_OK && e) {
        struct tb_work_order w;
        h->host = h->host || host_functions(e);
        if (tb_order_event(o, &e->e, e->site, e->access, &w))
            look_at(h, e, &w);
    }
    tb_cursor_close(c);
    tb_order_free(o);
    return st;
}

static void name_of_event(struct tb_trace *t, struct tb_diff_place *p)
{
    struct tb_error ignored = {0};

    p->name_known = tb_event_name_of(t, p->thread, p->id, &p->name, &ignored) == TB_OK;
}

static void fill(struct hunt *h, const struct tb_diff_place *place, bool in_b,
                 struct tb_diff_race *out)
{
    const struct other *o = &h->best;

    *out = (struct tb_diff_race){.known = true,
                                 .sure = same_place(&o->mine, &o->theirs),
                                 .in_b = in_b,
                                 .host = h->host,
                                 .read = o->mine.read,
                                 .later = o->seq > h->seq,
                                 .event = *place,
                                 .other = {.known = true,
                                           .trace = place->trace,
                                           .thread = o->thread,
                                           .id = o->id,
                                           .seq = o->seq},
                                 .stream = h->stream,
                                 .other_stream = o->stream};
    (void)snprintf(out->argument, sizeof(out->argument), "%s", o->mine.argument);
    out->lo = (uint64_t)(o->mine.lo > o->theirs.lo ? o->mine.lo : o->theirs.lo);
    out->hi = (uint64_t)(o->mine.hi < o->theirs.hi ? o->mine.hi : o->theirs.hi);
    name_of_event(h->t, &out->event);
    name_of_event(h->t, &out->other);
}

static bool race_of(struct tb_trace *t, uint32_t process, const struct tb_diff_place *place,
                    uint32_t only, bool in_b, struct tb_diff_race *out)
{
    struct hunt *h = place->known ? calloc(1, sizeof(*h)) : NULL;
    struct tb_error ignored = {0};

    if (!h)
        return false;
    h->t = t;
    h->id = place->id;
    h->only = only;
    bool found = read_target(h, process, &ignored) == TB_OK && h->targets &&
                 search(h, process, &ignored) == TB_OK && h->passed && h->found;
    if (found)
        fill(h, place, in_b, out);
    free(h);
    return found && out->event.name_known && out->other.name_known;
}

bool find_race(const struct report_builder *rb, const struct root *r, struct tb_diff_race *out)
{
    const struct run_process *p = &rb->a->proc[r->process], *q = NULL;
    const struct tb_diff_root *d = &r->r;

    if (!is_device(r->kind))
        return false;
    if (p->mate >= 0)
        q = &rb->b->proc[p->mate];
    struct tb_trace *t[2] = {rb->a->trace[p->file], q ? rb->b->trace[q->file] : NULL};
    const uint32_t id[2] = {p->p->id, q ? q->p->id : 0};
    const struct tb_diff_place *event[2] = {&d->a, &d->b},
                               *writer[2] = {&d->writer_a, &d->writer_b};
    bool read = d->tensor.known && d->tensor.mode == 'r'; /* it differs already when it is read */
    struct tb_diff_race weak = {0};

    for (int side = 0; side < 2; side++) {
        for (int k = 0; t[side] && k < 2; k++) {
            const struct tb_diff_place *e = k ? writer[side] : event[side];
            uint32_t only = !k && read ? d->tensor.access : UINT32_MAX;
            if (!race_of(t[side], id[side], e, only, side == 1, out))
                continue;
            if (out->sure)
                return true;
            weak = *out;
        }
    }
    *out = weak;
    return weak.known;
}

/* ---------------------------------------------------------------- evidence */

/* "produce#3" */
static const char *short_name(const struct tb_diff_place *p, char *out, size_t size)
{
    (void)snprintf(out, size, "%.60s#%" PRIu64, p->name.op, p->name.k);
    return out;
}

void say_race(struct root *r)
{
    const struct tb_diff_race *c = &r->r.race;
    const struct tb_diff_place *first = c->later ? &c->event : &c->other;
    const struct tb_diff_place *second = c->later ? &c->other : &c->event;
    uint64_t from = c->later ? c->stream : c->other_stream;
    uint64_t to = c->later ? c->other_stream : c->stream;
    char a[96], b[96];

    evidence(r,
             "%s (stream %" PRIu64 ") writes bytes %" PRIu64 "..%" PRIu64
             " of '%.40s', which %s (stream %" PRIu64 ") %s%s",
             short_name(&c->other, a, sizeof(a)), c->other_stream, c->lo, c->hi, c->argument,
             short_name(&c->event, b, sizeof(b)), c->stream, c->read ? "reads" : "writes, too",
             c->in_b ? ", in B" : "");
    evidence(r, "no event, wait or synchronisation that was recorded stands between them");
    evidence(r,
             "an event recorded in stream %" PRIu64 " behind %s, and waited for in stream %" PRIu64
             " before %s, would order them",
             from, short_name(first, a, sizeof(a)), to, short_name(second, b, sizeof(b)));
    evidence(r, "%s",
             r->r.torn  ? "only possible: the two may write parts that do not meet, which twinbit "
                          "cannot see"
             : !c->sure ? "only possible: their pointers lead to different places of one "
                          "allocation, and may be for parts that do not meet"
             : c->host  ? "likely: both begin at the same byte; but the program queues host "
                          "functions, which may order them unseen"
                        : "likely: both begin at the same byte; a flag in memory that orders them "
                          "would not be seen");
}
