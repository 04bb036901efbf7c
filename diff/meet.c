/*
 * Works of streams that meet: which fingerprints may hold a part of what another stream wrote
 * meanwhile.
 *
 * The extent of a launch is all that its pointer may be for, and its fingerprint takes in all of
 * it. Where another stream's work may write there, with nothing that orders the two, the
 * fingerprint may be torn, though the two may write parts that do not meet: no trace tells which. A
 * copy's extent is exact: it meets the other, but what differs there does differ.
 *
 * The later of two such works says it of the earlier one, too; so marks are asked for when events
 * are compared, not when they are read. Where it is only not sure that the one is behind the other
 * (struct tb_work_order), for another thread has waited, fingerprints may be torn as well; but they
 * settle what was in doubt before.
 */
#include "diff/diff_internal.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u    /* allocations whose uses are remembered */
#define USES 128u        /* of one allocation: the last ones */
#define MARKS (1u << 17) /* events, of a half of the table */

struct use {
    int64_t lo, hi;
    uint64_t id, clock;
    uint32_t lane, access;
    bool write;
};

struct bucket {
    uint64_t alloc;
    uint64_t n;      /* uses, ever */
    uint32_t lane;   /* of all of them */
    uint32_t thread; /* that writes */
    bool several;    /* of several lanes */
    struct use *use; /* USES */
};

struct meetings {
    struct tb_order *order;
    struct bucket bucket[BUCKETS];
    struct gentab marks;  /* event -> value: its accesses, one bit each */
    struct gentab shared; /* allocations that several threads write */
};

struct meetings *meetings_new(void)
{
    struct meetings *m = calloc(1, sizeof(*m));

    if (m) {
        gentab_init(&m->marks, MARKS);
        gentab_init(&m->shared, MARKS);
    }
    return m;
}

void meetings_forget(struct meetings *m)
{
    tb_order_free(m->order);
    m->order = NULL;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        free(m->bucket[i].use);
        m->bucket[i] = (struct bucket){0};
    }
}

bool meetings_begun(const struct meetings *m)
{
    return m->order != NULL;
}

void meetings_free(struct meetings *m)
{
    if (!m)
        return;
    meetings_forget(m);
    gentab_release(&m->marks);
    gentab_release(&m->shared);
    free(m);
}

/* ---------------------------------------------------------------- marks */

static uint64_t bit(uint32_t access)
{
    return 1ull << (access < 63 ? access : 63);
}

/* Under which an event has its marks: whom it meets, and whom it may have met */
enum meeting { NONE, MAYBE, MET };

static uint64_t key_of(uint64_t id, enum meeting how)
{
    return 2 * id + (how == MAYBE);
}

static enum tb_status mark(struct meetings *m, const struct use *u, enum meeting how)
{
    struct gentab_slot *s = gentab_put(&m->marks, key_of(u->id, how));

    if (s)
        s->value |= bit(u->access);
    return s ? TB_OK : TB_ERR_NOMEM;
}

/* Is the extent of access @i all that is used, and not what a pointer may be for? */
static bool is_exact(const struct ev *e, uint32_t i)
{
    return (e->kind == TB_EV_COPY || e->kind == TB_EV_SET) && !may_keep(e->kind, e->site, i);
}

/* A node that nothing orders with another one of its graph, a state that a stream may be writing:
 * the recorder says so in its site */
static void mark_node(struct ev *e)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (e->site->access[i].mode != 'q')
            e->acc[i].flags |= ACC_MET | ACC_TORN;
}

static void mark_accesses(struct meetings *m, struct ev *e, enum meeting how)
{
    const struct gentab_slot *s = gentab_get(&m->marks, key_of(e->id, how));
    uint8_t flags = how == MET ? ACC_MET | ACC_TORN : ACC_TORN;

    for (uint32_t i = 0; s && i < e->n; i++)
        if (s->value & bit(i))
            e->acc[i].flags |= is_exact(e, i) ? flags & ACC_MET : flags;
}

void meetings_mark(struct meetings *m, struct ev *e)
{
    if (site_torn(e->site))
        mark_node(e);
    if (is_device(e->kind)) {
        mark_accesses(m, e, MET);
        mark_accesses(m, e, MAYBE);
    }
    for (uint32_t i = 0; (e->kind == TB_EV_LAUNCH || e->kind == TB_EV_GRAPH) && i < e->n; i++)
        if (e->acc[i].alloc && gentab_get(&m->shared, e->acc[i].alloc))
            e->acc[i].flags |= ACC_SHARED;
}

/* ---------------------------------------------------------------- uses */

/* Of an allocation; what was known of another one in its place is forgotten. NULL: no memory */
static struct bucket *bucket_of(struct meetings *m, uint64_t alloc)
{
    struct bucket *b = &m->bucket[mix64(alloc, 1) % BUCKETS];

    if (!b->use && !(b->use = calloc(USES, sizeof(*b->use))))
        return NULL;
    if (b->alloc != alloc) {
        b->alloc = alloc;
        b->n = 0;
        b->thread = 0;
        b->several = false;
    }
    return b;
}

static enum meeting meet(const struct use *a, const struct use *b, const struct tb_work_order *of_b)
{
    if (a->lane == b->lane || !(a->write || b->write) || a->lo >= b->hi || b->lo >= a->hi ||
        a->clock <= of_b->sure->at[a->lane])
        return NONE;
    return a->clock > of_b->known->at[a->lane] ? MET : MAYBE;
}

static enum tb_status look_back(struct meetings *m, const struct bucket *b, const struct use *u,
                                const struct tb_work_order *w)
{
    uint64_t from = b->n > USES ? b->n - USES : 0;
    enum tb_status st = TB_OK;

    for (uint64_t i = from; st == TB_OK && i < b->n; i++) {
        const struct use *o = &b->use[i % USES];
        enum meeting how = meet(o, u, w);
        if (how == NONE)
            continue;
        st = mark(m, o, how);
        if (st == TB_OK)
            st = mark(m, u, how);
    }
    return st;
}

/* Does another thread than before write it? */
static enum tb_status note_thread(struct meetings *m, struct bucket *b, uint32_t thread)
{
    bool other = b->thread && b->thread != thread;

    b->thread = thread;
    return !other || gentab_put(&m->shared, b->alloc) ? TB_OK : TB_ERR_NOMEM;
}

static enum tb_status add(struct meetings *m, uint64_t alloc, const struct use *u,
                          const struct tb_work_order *w, uint32_t thread)
{
    struct bucket *b = bucket_of(m, alloc);
    enum tb_status st = TB_OK;

    if (!b || (u->write && note_thread(m, b, thread) != TB_OK))
        return TB_ERR_NOMEM;
    b->several = b->n && (b->several || b->lane != u->lane);
    b->lane = u->lane;
    if (b->several)
        st = look_back(m, b, u, w);
    b->use[b->n++ % USES] = *u;
    return st;
}

/* What access @i uses; false: no memory, or it is not hashed and does not write */
static bool use_of(const struct tb_trace_event *e, uint32_t i, const struct tb_work_order *w,
                   struct use *u)
{
    const struct tb_site_access *a = &e->site->access[i];
    const struct tb_store_access *s = &e->access[i];

    *u = (struct use){.lo = (int64_t)s->offset + a->span_lo,
                      .hi = (int64_t)s->offset + a->span_hi,
                      .id = e->id,
                      .clock = w->clock,
                      .lane = w->lane,
                      .access = i,
                      .write = a->mode == 'w'};
    return (u->write || (a->mode == 'r' && s->fp_kind != TB_FP_NONE)) && s->alloc &&
           s->alloc < TB_ALLOC_RNG && u->lo < u->hi && s->fp_kind != TB_FP_UNCHANGED;
}

enum tb_status meetings_event(struct meetings *m, const struct tb_trace_event *e)
{
    enum tb_status st = TB_OK;
    struct tb_work_order w;
    struct use u;

    if (!is_device(e->e.kind))
        return TB_OK;
    if (!m->order && !(m->order = tb_order_new()))
        return TB_ERR_NOMEM;
    if (!tb_order_event(m->order, &e->e, e->site, e->access, &w))
        return TB_OK;
    for (uint32_t i = 0; st == TB_OK && i < e->site->access_count; i++)
        if (use_of(e, i, &w, &u))
            st = add(m, e->access[i].alloc, &u, &w, e->e.thread);
    return st;
}
