/*
 * Which differences are news and which follow from others.
 *
 * An event is a root if its inputs are equal and its outputs are not. Inputs are what it read (by
 * fingerprint where reads were hashed, else by who last wrote the bytes), its other arguments and
 * the state of the generator it drew from. Who wrote what is kept as a number of the event (its
 * lineage), with the event's mate in the other run and the root that it follows from.
 */
#include "diff/diff_internal.h"

#include <stdlib.h>
#include <string.h>

#define ROOTS 256u
#define OVERFLOW (ROOTS + 1) /* the number of all further roots */
#define NO_MATE UINT64_MAX
#define SETUP (UINT64_MAX - 1) /* before the compared steps: no mate is expected */
#define LINEAGE (1u << 18) /* events that are remembered, at least */
#define COLLS 4096u
#define OUTSIDE 0x6F757473u /* in the table of unseen writers: an allocation, not an event */
#define GENERATORS 32u

struct generator {
    uint64_t key;
    uint32_t root;    /* its state differs since then, because of it; 0: equal */
    uint32_t suspect; /* what drew from it in one run only, or differently */
};

/* What a thread did last, for operators that ran others inside, and for bursts of unmatched events
 */
struct thread_state {
    uint64_t bad_seq;
    uint32_t bad_root;
    uint32_t partner; /* thread of the other run */
    uint32_t burst;   /* root of the running burst, 0: none */
};

struct blame {
    struct gentab line[2];  /* event -> value: mate or NO_MATE, aux: root */
    struct gentab alloc[2]; /* allocation -> value: the other run's */
    struct gentab groups;   /* group -> value: root */
    struct gentab unseen;   /* last writer -> value: root */
    struct thread_state *thread[2];
    size_t threads[2];
    struct generator gen[GENERATORS];
    size_t gens;
    uint64_t overlap[2];
    uint32_t host; /* root behind the first number that left for the host and differed */
    bool ops;      /* operators were recorded since the step began */
    struct blame_result res;
};

struct blame *blame_new(void)
{
    struct blame *b = calloc(1, sizeof(*b));

    if (!b)
        return NULL;
    for (int i = 0; i < 2; i++) {
        gentab_init(&b->line[i], LINEAGE);
        gentab_init(&b->alloc[i], LINEAGE);
    }
    gentab_init(&b->groups, LINEAGE);
    gentab_init(&b->unseen, LINEAGE);
    return b;
}

void blame_free(struct blame *b)
{
    if (!b)
        return;
    for (int i = 0; i < 2; i++) {
        gentab_release(&b->line[i]);
        gentab_release(&b->alloc[i]);
        free(b->thread[i]);
    }
    gentab_release(&b->groups);
    gentab_release(&b->unseen);
    free(b->res.roots);
    free(b->res.colls);
    free(b);
}

struct blame_result *blame_result(struct blame *b)
{
    return &b->res;
}

void blame_overlap(struct blame *b, uint64_t first_a, uint64_t first_b)
{
    b->overlap[0] = first_a;
    b->overlap[1] = first_b;
}

static struct thread_state *thread_of(struct blame *b, int side, uint32_t thread)
{
    if (thread >= b->threads[side]) {
        size_t n = (size_t)thread + 16;
        struct thread_state *p = realloc(b->thread[side], n * sizeof(*p));
        if (!p)
            return NULL;
        memset(p + b->threads[side], 0, (n - b->threads[side]) * sizeof(*p));
        b->thread[side] = p;
        b->threads[side] = n;
    }
    return &b->thread[side][thread];
}

/* ---------------------------------------------------------------- roots */

/* Number of the root of this group; *@fresh if it is new and to be filled in. 0: no memory */
static uint32_t root_for(struct blame *b, enum tb_diff_cause cause, uint64_t group, bool *fresh)
{
    struct gentab_slot *s = gentab_put(&b->groups, group | 1);

    *fresh = false;
    if (!s)
        return 0;
    if (s->value) {
        if (s->value <= ROOTS)
            b->res.roots[s->value - 1].r.count++;
        return (uint32_t)s->value;
    }
    if (b->res.root_count == ROOTS) {
        b->res.roots_more++;
        s->value = OVERFLOW;
        return OVERFLOW;
    }
    if (!b->res.roots) {
        b->res.roots = calloc(ROOTS, sizeof(*b->res.roots));
        if (!b->res.roots)
            return 0;
    }
    struct root *r = &b->res.roots[b->res.root_count++];
    r->r.cause = cause;
    r->r.count = 1;
    r->group = group;
    s->value = b->res.root_count;
    *fresh = true;
    return (uint32_t)s->value;
}

struct root *blame_add_root(struct blame *b, enum tb_diff_cause cause, uint64_t group)
{
    bool fresh;
    uint32_t n = root_for(b, cause, group, &fresh);

    return n && n <= ROOTS ? &b->res.roots[n - 1] : NULL;
}

static void set_place(struct tb_diff_place *p, const struct ev *e)
{
    *p = (struct tb_diff_place){.known = true, .thread = e->thread, .id = e->id, .seq = e->seq};
}

static void fill_root(struct root *r, const struct ev *x, const struct ev *y)
{
    const struct ev *e = x ? x : y;

    if (x) {
        set_place(&r->r.a, x);
        r->site_a = x->site;
        r->range_a = x->range;
    }
    if (y) {
        set_place(&r->r.b, y);
        r->site_b = y->site;
        r->range_b = y->range;
    }
    r->r.step = e->step;
    r->r.epoch = e->epoch;
}

static void fill_tensor(struct tb_diff_tensor *t, const struct ev *x, const struct ev *y,
                        uint32_t i)
{
    const struct tb_site_access *a = &x->site->access[i];

    t->known = true;
    t->access = i;
    t->mode = a->mode;
    t->dtype = (enum tb_dtype)a->dtype;
    (void)snprintf(t->argument, sizeof(t->argument), "%s", a->argument);
    (void)snprintf(t->device, sizeof(t->device), "%s", a->device);
    t->ndim = a->ndim;
    for (int d = 0; d < a->ndim && d < (int)TB_ARRAY_LEN(t->sizes); d++)
        t->sizes[d] = a->sizes[d];
    tb_fp_store(t->fp_a, x->acc[i].fp);
    if (y)
        tb_fp_store(t->fp_b, y->acc[i].fp);
}

static bool is_inside(const struct tb_diff_place *p, const struct ev *outer)
{
    return p->known && p->thread == outer->thread && p->seq >= outer->open && p->seq < outer->seq;
}

/* ---------------------------------------------------------------- what was read */

/* CHANGED: written equally, and no longer equal */
enum verdict { SAME, UNKNOWN, CHANGED, CROSS, TAINT };

/* What is known of the inputs of a pair; the worst counts */
struct inputs {
    bool tainted, crossed, unknown;
    uint32_t root;       /* TAINT: number, 0: not known which */
    uint32_t cross;      /* access */
    uint64_t writer[2];  /* CROSS: who wrote what each read */
    bool before;         /* written before the compared steps */
    bool hashed_differs; /* a read that was hashed differs: it is remembered under this event */
    bool self;           /* the event itself is what the root names */
};

static void taint(struct inputs *in, uint32_t root)
{
    in->tainted = true;
    if (root && (!in->root || root < in->root))
        in->root = root;
}

/* Both read bytes that nobody was seen to write: the same buffer? */
static enum verdict same_buffer(struct blame *b, const struct acc *p, const struct acc *q)
{
    struct gentab_slot *s = gentab_get(&b->alloc[0], p->alloc);

    if (s)
        return s->value == q->alloc && p->offset == q->offset ? UNKNOWN : CROSS;
    if (gentab_get(&b->alloc[1], q->alloc))
        return CROSS;
    return UNKNOWN;
}

static enum tb_status learn_buffer(struct blame *b, const struct acc *p, const struct acc *q)
{
    if (!p->alloc || !q->alloc || gentab_get(&b->alloc[0], p->alloc) ||
        gentab_get(&b->alloc[1], q->alloc))
        return TB_OK;
    struct gentab_slot *s = gentab_put(&b->alloc[0], p->alloc);
    struct gentab_slot *t = gentab_put(&b->alloc[1], q->alloc);
    if (!s || !t)
        return TB_ERR_NOMEM;
    s->value = q->alloc;
    t->value = p->alloc;
    return TB_OK;
}

/* What is known of an event that wrote or verified bytes */
struct line {
    bool known;
    uint64_t mate;
    uint32_t root;
};

static struct line line_of(struct blame *b, int side, uint64_t event)
{
    const struct gentab_slot *s = event ? gentab_get(&b->line[side], event) : NULL;

    return s ? (struct line){true, s->value, s->aux} : (struct line){0};
}

static bool before_overlap(const struct blame *b, int side, struct line l, const struct range *r)
{
    return l.known ? l.mate == SETUP : r->lineage < b->overlap[side];
}

/* Only one run saw a writer */
static enum verdict one_sided(struct blame *b, int side, const struct range *r, struct inputs *in)
{
    struct line l = line_of(b, side, r->lineage);

    if (!l.known || l.mate == SETUP || (l.mate != NO_MATE && !l.root))
        return UNKNOWN;
    taint(in, l.root);
    return TAINT;
}

static uint32_t least(uint32_t x, uint32_t y)
{
    return !x || (y && y < x) ? y : x;
}

/* Both wrote the same, by mates, and yet the bytes differ: whoever found that first has its root */
static enum verdict changed_since(struct blame *b, uint64_t writer, struct inputs *in)
{
    const struct gentab_slot *s = gentab_get(&b->unseen, writer);

    if (s)
        taint(in, (uint32_t)s->value);
    return s ? TAINT : CHANGED;
}

/* Both runs saw a writer, and the bytes differ or come from another place of what was written */
static enum verdict two_writers(struct blame *b, const struct range *p, const struct range *q,
                                struct inputs *in)
{
    struct line lp = line_of(b, 0, p->lineage), lq = line_of(b, 1, q->lineage);
    struct line wp = line_of(b, 0, p->writer), wq = line_of(b, 1, q->writer);
    uint32_t root = least(least(lp.root, lq.root), least(wp.root, wq.root));

    if (wp.known && wp.mate == q->writer && p->token == q->token)
        return CROSS;
    if (before_overlap(b, 0, lp, p) && before_overlap(b, 1, lq, q))
        in->before = true;
    else if (!root && wp.known && wp.mate == q->writer)
        return changed_since(b, p->writer, in);
    else if (!root && wp.known && wq.known && wp.mate < SETUP && wq.mate < SETUP)
        return CROSS;
    else if (!root && !p->writer && !q->writer)
        return CHANGED; /* bytes from outside that were looked at before */
    taint(in, root);
    return TAINT;
}

static enum verdict piece(struct blame *b, const struct acc *pa, const struct range *p,
                          const struct acc *qa, const struct range *q, int64_t at,
                          struct inputs *in)
{
    if (!p->token && !q->token)
        return same_buffer(b, pa, qa);
    if (!p->token || !q->token)
        return p->token ? one_sided(b, 0, p, in) : one_sided(b, 1, q, in);
    if (p->token == q->token && pa->lo + at - p->start == qa->lo + at - q->start)
        return SAME;
    return two_writers(b, p, q, in);
}

/* The bytes of access @i by who wrote them; the worst of all pieces */
static enum verdict by_lineage(struct blame *b, const struct ev *x, const struct ev *y, uint32_t i,
                               struct inputs *in)
{
    const struct acc *pa = &x->acc[i], *qa = &y->acc[i];
    const struct range *p = x->pieces + pa->piece, *q = y->pieces + qa->piece;
    const struct range *p_end = p + pa->pieces, *q_end = q + qa->pieces;
    bool memory = pa->alloc && pa->alloc < TB_ALLOC_RNG;
    enum verdict worst =
        (pa->pieces && qa->pieces) || (memory && pa->lo >= pa->hi) ? SAME : UNKNOWN;
    int64_t at = 0;

    while (p < p_end && q < q_end) {
        enum verdict v = piece(b, pa, p, qa, q, at, in);
        if (v == CROSS && worst < CROSS) {
            in->writer[0] = p->writer;
            in->writer[1] = q->writer;
        }
        worst = v > worst ? v : worst;
        int64_t p_to = p->hi - pa->lo, q_to = q->hi - qa->lo;
        at = p_to < q_to ? p_to : q_to;
        p += p_to == at;
        q += q_to == at;
    }
    return worst;
}

static uint64_t writer_of(const struct ev *e, uint32_t i)
{
    const struct range *best = NULL;

    for (uint32_t j = 0; j < e->acc[i].pieces; j++) {
        const struct range *p = e->pieces + e->acc[i].piece + j;
        if (p->writer && (!best || p->seq > best->seq))
            best = p;
    }
    return best ? best->writer : 0;
}

/* Are the bytes read not those that the last access left, as far as one run can tell? */
static bool changed(const struct ev *e, uint32_t i)
{
    const struct acc *c = &e->acc[i];
    const struct range *p = e->pieces + c->piece;

    return c->pieces == 1 && e->site->access[i].contiguous && p->token && p->start == c->lo &&
           (mix64(c->fp.a, c->fp.b) | 1) != p->token && p->whole == c->hi;
}

static uint64_t place_key(enum tb_diff_cause cause, const struct ev *e)
{
    return mix64(e->key, (uint64_t)cause + 1);
}

/* A root already found for one of the writers of what was read; *@writer: that writer */
static uint32_t unseen_root(struct blame *b, const struct ev *x, uint32_t i, uint64_t *writer)
{
    for (uint32_t j = 0; j < x->acc[i].pieces; j++) {
        uint64_t w = x->pieces[x->acc[i].piece + j].writer;
        const struct gentab_slot *s = w ? gentab_get(&b->unseen, w) : NULL;
        if (s) {
            *writer = w;
            return (uint32_t)s->value;
        }
    }
    return 0;
}

static enum tb_status remember_unseen(struct blame *b, const struct ev *x, uint32_t i,
                                      uint32_t root)
{
    for (uint32_t j = 0; j < x->acc[i].pieces; j++) {
        uint64_t w = x->pieces[x->acc[i].piece + j].writer;
        struct gentab_slot *s = w ? gentab_put(&b->unseen, w) : NULL;
        if (w && !s)
            return TB_ERR_NOMEM;
        if (s && !s->value)
            s->value = root;
    }
    return TB_OK;
}

static void set_writers(struct blame *b, struct root *r, uint64_t writer)
{
    struct line l = line_of(b, 0, writer);

    r->r.writer_a = (struct tb_diff_place){.known = writer, .id = writer};
    r->r.writer_b = (struct tb_diff_place){.known = l.known && l.mate < SETUP, .id = l.mate};
}

/* The same stray write, found again: what was read both times tells better who wrote it last */
static void narrow(struct blame *b, const struct ev *x, uint32_t i, uint32_t root, uint64_t writer)
{
    struct root *r = root <= ROOTS ? &b->res.roots[root - 1] : NULL;

    if (!r)
        return;
    for (uint32_t j = 0; r->r.writer_a.known && j < x->acc[i].pieces; j++)
        if (x->pieces[x->acc[i].piece + j].writer == r->r.writer_a.id)
            return;
    if (r->r.cause == TB_CAUSE_INPUT_DATA) /* what nobody wrote was only read along */
        r->r.cause = TB_CAUSE_UNSEEN_WRITER;
    if (r->r.cause == TB_CAUSE_UNSEEN_WRITER)
        set_writers(b, r, writer);
}

/* Hashed reads differ though their last writers left the same: somebody wrote unseen */
static enum tb_status unseen_writer(struct blame *b, const struct ev *x, const struct ev *y,
                                    uint32_t i, struct inputs *in)
{
    uint64_t writer = 0;
    uint32_t n = unseen_root(b, x, i, &writer);
    bool fresh;

    if (n) {
        taint(in, n);
        narrow(b, x, i, n, writer);
        return TB_OK;
    }
    n = root_for(b, TB_CAUSE_UNSEEN_WRITER, mix64(place_key(TB_CAUSE_UNSEEN_WRITER, x), i), &fresh);
    if (!n)
        return TB_ERR_NOMEM;
    taint(in, n);
    if (fresh) {
        struct root *r = &b->res.roots[n - 1];
        fill_root(r, x, y);
        fill_tensor(&r->r.tensor, x, y, i);
        r->changed[0] = changed(x, i);
        r->changed[1] = changed(y, i);
        set_writers(b, r, writer_of(x, i));
    }
    return remember_unseen(b, x, i, n);
}

static void count_states(struct root *r, const struct ev *x, const struct ev *y)
{
    for (uint32_t i = 0; i < x->n; i++) {
        r->r.of += x->site->access[i].mode == 's';
        r->r.differ += x->site->access[i].mode == 's' && !tb_fp_equal(x->acc[i].fp, y->acc[i].fp);
    }
}

/* Hashed reads differ and no recorded operator wrote them: they came from outside */
static enum tb_status outside(struct blame *b, const struct ev *x, const struct ev *y, uint32_t i,
                              struct inputs *in)
{
    bool state = x->kind == TB_EV_STATE;
    enum tb_diff_cause cause = state ? TB_CAUSE_STATE : TB_CAUSE_INPUT_DATA;
    bool fresh;

    if (state && !b->ops && b->res.root_count) {
        taint(in, 1); /* what wrote it was not recorded; something differed before it */
        return TB_OK;
    }
    uint64_t alloc = state ? 0 : x->acc[i].alloc;
    const struct gentab_slot *known = alloc ? gentab_get(&b->unseen, mix64(alloc, OUTSIDE)) : NULL;
    uint64_t writer;
    uint32_t before = known ? (uint32_t)known->value : state ? 0 : unseen_root(b, x, i, &writer);
    if (before) { /* another reader of the same bytes, begun before the first one ended */
        taint(in, before);
        return TB_OK;
    }
    uint32_t n =
        root_for(b, cause, state ? mix64(cause, 7) : mix64(place_key(cause, x), i), &fresh);

    if (!n)
        return TB_ERR_NOMEM;
    taint(in, n);
    if (fresh) {
        struct root *r = &b->res.roots[n - 1];
        fill_root(r, x, y);
        fill_tensor(&r->r.tensor, x, y, i);
        count_states(r, x, y);
    }
    in->self = in->self || state;
    struct gentab_slot *s = alloc ? gentab_put(&b->unseen, mix64(alloc, OUTSIDE)) : NULL;
    if (s)
        s->value = n;
    return alloc && !s ? TB_ERR_NOMEM : state ? TB_OK : remember_unseen(b, x, i, n);
}

static enum tb_status look_at_read(struct blame *b, const struct ev *x, const struct ev *y,
                                   uint32_t i, struct inputs *in)
{
    bool hashed =
        (x->acc[i].flags & y->acc[i].flags & ACC_HASHED) && x->acc[i].kind == y->acc[i].kind;

    if (hashed && tb_fp_equal(x->acc[i].fp, y->acc[i].fp))
        return TB_OK;
    enum verdict v = by_lineage(b, x, y, i, in);
    in->hashed_differs = in->hashed_differs || hashed;
    bool unrecorded = x->kind == TB_EV_STATE && !b->ops; /* who wrote it since is not known */
    bool written = writer_of(x, i) && writer_of(y, i) && !unrecorded;
    if (hashed && written && (v == SAME || v == CHANGED))
        return unseen_writer(b, x, y, i, in);
    if (hashed && v < CROSS)
        return outside(b, x, y, i, in);
    if (v == CHANGED)
        taint(in, 0);
    in->unknown = in->unknown || v == UNKNOWN;
    if (v == CROSS && !in->crossed)
        in->cross = i;
    in->crossed = in->crossed || v == CROSS;
    return TB_OK;
}

/* ---------------------------------------------------------------- generators */

static struct generator *generator_of(struct blame *b, const struct tb_site_access *a)
{
    uint64_t key =
        mix64(hash_text(a->device, strlen(a->device)), hash_text(a->argument, strlen(a->argument)));

    for (size_t i = 0; i < b->gens; i++)
        if (b->gen[i].key == key)
            return &b->gen[i];
    struct generator *g = &b->gen[b->gens < GENERATORS ? b->gens++ : GENERATORS - 1];
    *g = (struct generator){.key = key};
    return g;
}

static enum tb_status look_at_generator(struct blame *b, const struct ev *x, const struct ev *y,
                                        uint32_t i, struct inputs *in)
{
    struct generator *g = generator_of(b, &x->site->access[i]);
    bool fresh;

    if (!(x->acc[i].flags & y->acc[i].flags & ACC_HASHED))
        return TB_OK;
    if (tb_fp_equal(x->acc[i].fp, y->acc[i].fp)) {
        g->root = g->suspect = 0;
        return TB_OK;
    }
    if (!g->root && g->suspect)
        g->root = g->suspect;
    struct root *r = g->root && g->root <= ROOTS ? &b->res.roots[g->root - 1] : NULL;
    if (r && r->r.cause == TB_CAUSE_RNG &&
        is_inside(&r->r.a, x)) { /* it drew before what ran inside */
        fill_root(r, x, y);
        fill_tensor(&r->r.tensor, x, y, i);
        b->res.infected += r->differs;
        r->r.infected += r->differs;
        in->self = true;
    }
    if (!g->root) {
        g->root = root_for(b, TB_CAUSE_RNG, mix64(TB_CAUSE_RNG, g->key), &fresh);
        if (!g->root)
            return TB_ERR_NOMEM;
        in->self = true;
        if (fresh) {
            fill_root(&b->res.roots[g->root - 1], x, y);
            fill_tensor(&b->res.roots[g->root - 1].r.tensor, x, y, i);
        }
    }
    taint(in, g->root);
    return TB_OK;
}

/* An event that drew numbers in one run only, or other ones, explains a generator's state later */
static void suspect_generators(struct blame *b, const struct ev *e, uint32_t root)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (e->site->access[i].mode == 'g')
            generator_of(b, &e->site->access[i])->suspect = root;
}

/* ---------------------------------------------------------------- a pair */

struct outputs {
    uint32_t differ, of;
    uint32_t first; /* access */
    bool host, failed;
};

static struct outputs compare_outputs(const struct ev *x, const struct ev *y)
{
    struct outputs o = {.failed = (x->flags ^ y->flags) & TB_EVF_FAILED};

    for (uint32_t i = 0; i < x->n; i++) {
        char mode = x->site->access[i].mode;
        if (mode != 'w' && mode != 'h')
            continue;
        o.of++;
        bool both = x->acc[i].flags & y->acc[i].flags & ACC_HASHED;
        if (!both || tb_fp_equal(x->acc[i].fp, y->acc[i].fp))
            continue;
        if (o.differ++ == 0)
            o.first = i;
        o.host = o.host || mode == 'h';
    }
    return o;
}

static enum tb_status look_at_inputs(struct blame *b, const struct ev *x, const struct ev *y,
                                     struct inputs *in)
{
    enum tb_status st = TB_OK;

    for (uint32_t i = 0; st == TB_OK && i < x->n; i++) {
        char mode = x->site->access[i].mode;
        bool generator = mode == 's' && strncmp(x->site->access[i].argument, "rng:", 4) == 0;
        if (mode == 'g' || generator)
            st = look_at_generator(b, x, y, i, in);
        else if (mode == 'r' || mode == 's')
            st = look_at_read(b, x, y, i, in);
    }
    return st;
}

static void note_host(struct blame *b, const struct ev *x, const struct ev *y, uint32_t root)
{
    struct tb_diff_host *h = &b->res.host;

    if (!b->host)
        b->host = root;
    for (uint32_t i = 0; i < x->n && !h->known; i++) {
        if (x->site->access[i].mode != 'h' || tb_fp_equal(x->acc[i].fp, y->acc[i].fp))
            continue;
        h->known = true;
        set_place(&h->a, x);
        h->step = x->step;
        h->dtype = (enum tb_dtype)x->site->access[i].dtype;
        memcpy(&h->a_f, &x->acc[i].fp.a, sizeof(double));
        memcpy(&h->b_f, &y->acc[i].fp.a, sizeof(double));
        memcpy(&h->a_i, &x->acc[i].fp.a, sizeof(int64_t));
        memcpy(&h->b_i, &y->acc[i].fp.a, sizeof(int64_t));
    }
}

static enum tb_status note_coll(struct blame *b, const struct ev *x, bool in_differs, uint32_t root,
                                uint64_t *key)
{
    *key = mix64(hash_text(x->site->name, strlen(x->site->name)), x->epoch);
    if (b->res.coll_count == COLLS)
        return TB_OK;
    if (!b->res.colls) {
        b->res.colls = calloc(COLLS, sizeof(*b->res.colls));
        if (!b->res.colls)
            return TB_ERR_NOMEM;
    }
    b->res.colls[b->res.coll_count++] =
        (struct coll){.key = *key, .step = x->step, .in_differs = in_differs, .root = root};
    return TB_OK;
}

/* Why the first read that is not hashed may hold other bytes than we think */
static void note_reads(struct root *r, const struct ev *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->site->access[i].mode != 'r' || (x->acc[i].flags & ACC_HASHED))
            continue;
        r->reads_unhashed = true;
        if ((x->acc[i].flags & ACC_FRESH) && !r->fresh_input) {
            r->fresh_input = true;
            (void)snprintf(r->input, sizeof(r->input), "%s", x->site->access[i].argument);
        }
    }
}

/* The event itself is the root; @cause says of what kind */
static enum tb_status make_root(struct blame *b, enum tb_diff_cause cause, uint64_t group,
                                const struct ev *x, const struct ev *y, const struct outputs *o,
                                uint32_t *number)
{
    bool fresh;

    *number = root_for(b, cause, group, &fresh);
    if (!*number)
        return TB_ERR_NOMEM;
    if (!fresh)
        return TB_OK;
    struct root *r = &b->res.roots[*number - 1];
    fill_root(r, x, y);
    r->r.differ = o->differ;
    r->r.of = o->of;
    if (o->differ)
        fill_tensor(&r->r.tensor, x, y, o->first);
    note_reads(r, x);
    return TB_OK;
}

/* Something ran inside of @x and differs already: @x is not to blame. Root's number, 0: nothing */
static uint32_t inner_root(struct blame *b, const struct ev *x, const struct ev *y)
{
    const struct thread_state *s = thread_of(b, 0, x->thread), *t = thread_of(b, 1, y->thread);

    if (s && s->bad_root && s->bad_seq >= x->open && s->bad_seq < x->seq)
        return s->bad_root;
    if (t && t->bad_root && t->bad_seq >= y->open && t->bad_seq < y->seq)
        return t->bad_root;
    return 0;
}

/* The other algorithm gave equal results before: here is where it matters */
static void first_effect(struct root *r, const struct ev *x, const struct ev *y)
{
    struct outputs o = compare_outputs(x, y);

    if (!o.differ || x->site != r->site_a)
        return;
    fill_root(r, x, y);
    r->r.differ = o.differ;
    r->r.of = o.of;
    fill_tensor(&r->r.tensor, x, y, o.first);
}

/* Other operators ran inside the same one: it chose another algorithm */
static void other_algorithm(struct blame *b, uint32_t n, const struct ev *x, const struct ev *y)
{
    struct root *r = n && n <= ROOTS ? &b->res.roots[n - 1] : NULL;

    if (r && r->r.cause == TB_CAUSE_ALGORITHM && r->r.differ == 0)
        first_effect(r, x, y);
    if (!r || r->r.cause != TB_CAUSE_CONTROL_FLOW)
        return;
    if (!is_inside(&r->r.a, x) && !is_inside(&r->r.b, y))
        return;
    const struct tb_site *inner = r->site_a ? r->site_a : r->site_b;
    (void)snprintf(r->inner, sizeof(r->inner), "%s", inner->name);
    r->r.cause = TB_CAUSE_ALGORITHM;
    struct outputs o = compare_outputs(x, y);
    fill_root(r, x, y);
    r->r.differ = o.differ;
    r->r.of = o.of;
    if (o.differ)
        fill_tensor(&r->r.tensor, x, y, o.first);
}

static enum tb_status set_line(struct blame *b, const struct ev *x, const struct ev *y,
                               uint32_t root)
{
    struct gentab_slot *s = gentab_put(&b->line[0], x->id);
    struct gentab_slot *t = gentab_put(&b->line[1], y->id);

    if (!s || !t)
        return TB_ERR_NOMEM;
    s->value = y->id;
    t->value = x->id;
    s->aux = t->aux = root;
    return TB_OK;
}

static void mark_bad(struct blame *b, int side, const struct ev *e, uint32_t root)
{
    struct thread_state *t = thread_of(b, side, e->thread);

    if (t) {
        t->bad_seq = e->seq;
        t->bad_root = root;
    }
}

/* Differing inputs that have no root yet: find out why they are the first */
static enum tb_status first_cause(struct blame *b, const struct ev *x, const struct ev *y,
                                  const struct inputs *in, const struct outputs *o, uint32_t *root,
                                  bool *self)
{
    enum tb_status st = TB_OK;

    *self = false;
    if (in->tainted && in->before) {
        st = make_root(b, TB_CAUSE_INPUT_DATA, mix64(TB_CAUSE_INPUT_DATA, 11), x, y, o, root);
        if (*root && *root <= ROOTS)
            b->res.roots[*root - 1].fresh_input = true;
    } else if (in->tainted) {
        if (b->res.root_count) {
            *root = 1;
            return TB_OK;
        }
        st = make_root(b, TB_CAUSE_UNEXPLAINED, place_key(TB_CAUSE_UNEXPLAINED, x), x, y, o, root);
        if (*root && *root <= ROOTS)
            b->res.roots[*root - 1].weak = true;
    } else if (b->host) {
        *root = b->host; /* a number that differs steers the program */
        return TB_OK;
    } else if (in->crossed) {
        st = make_root(b, TB_CAUSE_ORDER, TB_CAUSE_ORDER, x, y, o, root);
        struct root *r = *root && *root <= ROOTS ? &b->res.roots[*root - 1] : NULL;
        if (r && r->r.count == 1) {
            r->r.writer_a = (struct tb_diff_place){.known = in->writer[0], .id = in->writer[0]};
            r->r.writer_b = (struct tb_diff_place){.known = in->writer[1], .id = in->writer[1]};
            (void)snprintf(r->input, sizeof(r->input), "%s", x->site->access[in->cross].argument);
        }
    } else {
        st = make_root(b, TB_CAUSE_HOST_VALUE,
                       mix64(TB_CAUSE_HOST_VALUE, hash_text(x->site->name, strlen(x->site->name))),
                       x, y, o, root);
    }
    *self = true;
    return st;
}

static enum tb_status judge(struct blame *b, const struct ev *x, const struct ev *y,
                            const struct inputs *in, const struct outputs *o, uint32_t *root,
                            bool *self)
{
    bool out = o->differ || o->failed;
    bool args = x->args != y->args;

    *root = 0;
    *self = in->self;
    if (in->tainted && in->root) {
        *root = in->root;
        return TB_OK;
    }
    if (!out)
        return TB_OK;
    *root = inner_root(b, x, y);
    if (*root)
        return TB_OK;
    if (in->tainted || in->crossed || args)
        return first_cause(b, x, y, in, o, root, self);
    *self = true;
    enum tb_diff_cause cause = x->kind == TB_EV_COLL ? TB_CAUSE_COLLECTIVE : TB_CAUSE_UNEXPLAINED;
    return make_root(b, cause, place_key(cause, x), x, y, o, root);
}

static enum tb_status remember_pair(struct blame *b, const struct ev *x, const struct ev *y,
                                    const struct inputs *in, const struct outputs *o, uint32_t root,
                                    bool self)
{
    bool out = o->differ || o->failed;
    uint64_t key;
    enum tb_status st = TB_OK;

    if (root && !self && root <= ROOTS && (out || x->kind == TB_EV_STATE))
        b->res.roots[root - 1].r.infected++;
    if (root && self && root <= ROOTS)
        b->res.roots[root - 1].differs = out;
    if (root && out) {
        mark_bad(b, 0, x, root);
        mark_bad(b, 1, y, root);
        suspect_generators(b, x, root);
    }
    if (o->host && root)
        note_host(b, x, y, root);
    if (root && (out || in->hashed_differs))
        st = set_line(b, x, y, root);
    if (st == TB_OK && x->kind == TB_EV_COLL && root) {
        st = note_coll(b, x, in->tainted, root, &key);
        if (root <= ROOTS && self && b->res.roots[root - 1].r.cause == TB_CAUSE_COLLECTIVE &&
            !b->res.roots[root - 1].coll)
            b->res.roots[root - 1].coll = key;
    }
    return st;
}

static void count_pair(struct blame *b, const struct ev *x, const struct ev *y,
                       const struct inputs *in, bool out, uint32_t root, bool self)
{
    b->res.compared++;
    if (!out && !root)
        b->res.equal++;
    else if (x->kind == TB_EV_STATE)
        b->res.states_infected += !self;
    else if (!out && (in->tainted || in->crossed))
        b->res.healed++;
    else if (!self)
        b->res.infected++;
    if (!out && !root && x->args != y->args)
        b->res.args_only++;
}

static enum tb_status learn(struct blame *b, const struct ev *x, const struct ev *y)
{
    enum tb_status st = TB_OK;

    for (uint32_t i = 0; st == TB_OK && i < x->n; i++)
        if (x->acc[i].flags & y->acc[i].flags & ACC_UNKNOWN)
            st = learn_buffer(b, &x->acc[i], &y->acc[i]);
    return st;
}

static void end_burst(struct blame *b, const struct ev *x, const struct ev *y)
{
    struct thread_state *s = thread_of(b, 0, x->thread);

    if (s && !x->moved) {
        s->burst = 0;
        s->partner = y->thread;
    }
    struct thread_state *t = thread_of(b, 1, y->thread);
    if (t && !x->moved)
        t->partner = x->thread;
}

enum tb_status blame_pair(struct blame *b, const struct ev *x)
{
    const struct ev *y = x->mate;
    struct inputs in = {0};
    uint32_t root = 0;
    bool self = false;

    end_burst(b, x, y);
    b->ops = x->kind == TB_EV_OP || (b->ops && x->kind != TB_EV_STEP);
    if (x->content == y->content) {
        b->res.compared++;
        b->res.equal++;
        b->res.moved += x->moved;
        other_algorithm(b, inner_root(b, x, y), x, y);
        for (uint32_t i = 0; i < x->n; i++)
            if (x->site->access[i].mode == 'g')
                (void)look_at_generator(b, x, y, i, &in);
        return learn(b, x, y);
    }
    enum tb_status st = look_at_inputs(b, x, y, &in);
    struct outputs o = compare_outputs(x, y);
    uint32_t inner = inner_root(b, x, y);
    if (st == TB_OK)
        st = judge(b, x, y, &in, &o, &root, &self);
    if (st == TB_OK)
        st = remember_pair(b, x, y, &in, &o, root, self);
    if (st != TB_OK)
        return st;
    other_algorithm(b, inner, x, y);
    count_pair(b, x, y, &in, o.differ || o.failed, root, self);
    return in.crossed ? TB_OK : learn(b, x, y);
}

/* ---------------------------------------------------------------- events without a mate */

enum tb_status blame_lineage(struct blame *b, const struct ev *e, int side)
{
    struct gentab_slot *s = gentab_put(&b->line[side], e->id);

    if (!s)
        return TB_ERR_NOMEM;
    s->value = e->mate ? e->mate->id : e->setup ? SETUP : NO_MATE;
    s->aux = 0;
    return TB_OK;
}

/* Root behind what the event read, 0: nothing known against it */
static uint32_t read_root(struct blame *b, const struct ev *e, int side)
{
    uint32_t root = 0;

    for (uint32_t i = 0; i < e->n; i++)
        for (uint32_t j = 0; j < e->acc[i].pieces; j++) {
            const struct range *p = e->pieces + e->acc[i].piece + j;
            struct gentab_slot *s = p->lineage ? gentab_get(&b->line[side], p->lineage) : NULL;
            if (s && s->aux && (!root || s->aux < root))
                root = s->aux;
        }
    return root;
}

static enum tb_status control_root(struct blame *b, const struct ev *e, int side, uint32_t *root)
{
    bool fresh;

    *root = root_for(b, TB_CAUSE_CONTROL_FLOW,
                     mix64(place_key(TB_CAUSE_CONTROL_FLOW, e), (uint64_t)side), &fresh);
    if (!*root)
        return TB_ERR_NOMEM;
    if (fresh)
        fill_root(&b->res.roots[*root - 1], side ? NULL : e, side ? e : NULL);
    return TB_OK;
}

static bool same_access(const struct tb_site_access *p, const struct tb_site_access *q)
{
    if (p->mode != q->mode || p->dtype != q->dtype || p->ndim != q->ndim)
        return false;
    return p->ndim == 0 || memcmp(p->sizes, q->sizes, (size_t)p->ndim * sizeof(*p->sizes)) == 0;
}

static uint32_t alike(const struct tb_site *s, const struct tb_site_access *like)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->access_count; i++)
        n += same_access(&s->access[i], like);
    return n;
}

/* The same operator over the same shapes in another order? */
static bool permuted(const struct tb_site *s, const struct tb_site *t)
{
    if (strcmp(s->name, t->name) != 0 || s->access_count != t->access_count ||
        s->access_count > 4096)
        return false;
    for (uint32_t i = 0; i < s->access_count; i++)
        if (alike(s, &s->access[i]) != alike(t, &s->access[i]))
            return false;
    return true;
}

/* What ran in one run only is what ran in the other one, with its tensors in another order */
static void other_order(struct blame *b, uint32_t n, const struct ev *e, int side)
{
    struct root *r = n && n <= ROOTS ? &b->res.roots[n - 1] : NULL;
    const struct tb_site *mine = !r ? NULL : side ? r->site_a : r->site_b;

    if (!mine || r->r.cause != TB_CAUSE_CONTROL_FLOW || r->r.step != e->step ||
        (side ? r->r.b.known : r->r.a.known) || !permuted(mine, e->site))
        return;
    r->r.cause = TB_CAUSE_ORDER;
    if (side) {
        set_place(&r->r.b, e);
        r->site_b = e->site;
        r->range_b = e->range;
    } else {
        set_place(&r->r.a, e);
        r->site_a = e->site;
        r->range_a = e->range;
    }
}

static void count_single(struct blame *b, int side, uint32_t root)
{
    struct root *r = root <= ROOTS ? &b->res.roots[root - 1] : NULL;
    bool control = r && (r->r.cause == TB_CAUSE_CONTROL_FLOW || r->r.cause == TB_CAUSE_ALGORITHM ||
                         r->r.cause == TB_CAUSE_ORDER);

    if (side)
        b->res.only_b++;
    else
        b->res.only_a++;
    if (control && side)
        r->r.only_b++;
    else if (control)
        r->r.only_a++;
    else if (r)
        r->r.infected++;
}

/* The thread that unmatched events are counted by: that of run A where there is one */
static struct thread_state *burst_of(struct blame *b, const struct ev *e, int side)
{
    struct thread_state *t = thread_of(b, side, e->thread);

    if (t && side && t->partner)
        t = thread_of(b, 0, t->partner);
    return t;
}

enum tb_status blame_single(struct blame *b, const struct ev *e, int side)
{
    enum tb_status st = TB_OK;

    if (e->setup) {
        b->res.setup++;
        return TB_OK;
    }
    struct thread_state *burst = burst_of(b, e, side);
    if (!burst)
        return TB_ERR_NOMEM;
    uint32_t read = read_root(b, e, side);
    uint32_t root = burst->burst ? burst->burst : read ? read : b->host;
    if (!root)
        st = control_root(b, e, side, &root);
    if (st != TB_OK)
        return st;
    if (read && !b->host)
        b->host = read; /* a shape, or a choice, that was made of a value that differs */
    burst->burst = root;
    other_order(b, root, e, side);
    count_single(b, side, root);
    suspect_generators(b, e, root);
    mark_bad(b, side, e, root);
    struct gentab_slot *s = gentab_put(&b->line[side], e->id);
    if (!s)
        return TB_ERR_NOMEM;
    s->value = NO_MATE;
    s->aux = root;
    return TB_OK;
}
