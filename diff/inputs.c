/*
 * What the events of a pair read: the same bytes, bytes that differ because of a root, or a root of
 * their own (a write that nobody saw, data from outside, the state of a generator).
 */
#include "diff/blame_internal.h"

#include <string.h>

/* CHANGED: written equally, and no longer equal */
enum verdict { SAME, UNKNOWN, CHANGED, CROSS, TAINT };

/* What may be nothing but the moment of a fingerprint explains less than what is sure to differ. */
static bool is_torn(const struct blame *b, uint32_t root)
{
    return b->res.roots && root <= ROOTS && b->res.roots[root - 1].r.torn;
}

/* How many bytes what differs at a root may be for: of fewer, more is its own. */
static uint64_t bytes_of(const struct blame *b, uint32_t root)
{
    const struct root *r = &b->res.roots[root - 1];
    bool known = r->r.tensor.known && r->site_a;

    return known ? r->site_a->access[r->r.tensor.access].bytes : 0;
}

/* The root that explains more, then the earlier one; 0: none */
static uint32_t better(const struct blame *b, uint32_t x, uint32_t y)
{
    if (!x || !y)
        return x ? x : y;
    if (is_torn(b, x) != is_torn(b, y))
        return is_torn(b, x) ? y : x;
    if (is_torn(b, x) && bytes_of(b, x) != bytes_of(b, y))
        return bytes_of(b, x) < bytes_of(b, y) ? x : y;
    return x < y ? x : y;
}

void blame_taint(const struct blame *b, struct inputs *in, uint32_t root)
{
    in->tainted = true;
    in->root = better(b, in->root, root);
}

static bool may_be_torn(const struct ev *x, const struct ev *y, uint32_t i)
{
    return (x->acc[i].flags | y->acc[i].flags) & ACC_TORN;
}

/* The place of a root, and which of its accesses differs */
static void fill_access(struct root *r, const struct ev *x, const struct ev *y, uint32_t i)
{
    blame_fill_root(r, x, y);
    blame_fill_tensor(&r->r.tensor, x, y, i);
    r->r.torn = may_be_torn(x, y, i);
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

static bool before_overlap(const struct blame *b, int side, struct line l, const struct range *r)
{
    return l.known ? l.mate == SETUP : r->lineage < b->overlap[side];
}

/* Only one run saw a writer */
static enum verdict one_sided(struct blame *b, int side, const struct range *r, struct inputs *in)
{
    struct line l = blame_line(b, side, r->lineage);

    if (!l.known || l.mate == SETUP || (l.mate != NO_MATE && !l.root))
        return UNKNOWN;
    blame_taint(b, in, l.root);
    return TAINT;
}

/* Both wrote the same, by mates, and yet the bytes differ: whoever found that first has its root */
static enum verdict changed_since(struct blame *b, uint64_t writer, struct inputs *in)
{
    const struct gentab_slot *s = gentab_get(&b->unseen, writer);

    if (s)
        blame_taint(b, in, (uint32_t)s->value);
    return s ? TAINT : CHANGED;
}

/* Both runs saw a writer, and the bytes differ or come from another place of what was written */
static enum verdict two_writers(struct blame *b, const struct range *p, const struct range *q,
                                struct inputs *in)
{
    struct line lp = blame_line(b, 0, p->lineage), lq = blame_line(b, 1, q->lineage);
    struct line wp = blame_line(b, 0, p->writer), wq = blame_line(b, 1, q->writer);
    uint32_t root = better(b, better(b, lp.root, lq.root), better(b, wp.root, wq.root));

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
    blame_taint(b, in, root);
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

uint32_t blame_kept(struct blame *b, const struct ev *x, const struct ev *y, uint32_t i)
{
    struct inputs before = {0};

    if (!x->acc[i].pieces || !y->acc[i].pieces || by_lineage(b, x, y, i, &before) != TAINT)
        return 0;
    return before.root ? before.root : b->res.root_count ? 1 : 0;
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

static bool is_guess(const struct ev *e, uint32_t i)
{
    uint64_t writer = writer_of(e, i);

    for (uint32_t j = 0; j < e->acc[i].pieces; j++) {
        const struct range *p = e->pieces + e->acc[i].piece + j;
        if (p->guess && p->writer == writer)
            return true;
    }
    return false;
}

static void set_writers(struct blame *b, struct root *r, uint64_t writer)
{
    struct line l = blame_line(b, 0, writer);

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
        blame_taint(b, in, n);
        narrow(b, x, i, n, writer);
        return TB_OK;
    }
    n = blame_root_for(b, TB_CAUSE_UNSEEN_WRITER,
                       mix64(blame_place_key(TB_CAUSE_UNSEEN_WRITER, x), i), &fresh);
    if (!n)
        return TB_ERR_NOMEM;
    blame_taint(b, in, n);
    if (fresh) {
        struct root *r = &b->res.roots[n - 1];
        fill_access(r, x, y, i);
        r->changed[0] = changed(x, i);
        r->changed[1] = changed(y, i);
        writer = writer_of(x, i);
        r->guessed = is_guess(x, i) || is_guess(y, i) || gentab_get(&b->cut, writer);
        set_writers(b, r, writer);
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
        blame_taint(b, in, 1); /* what wrote it was not recorded; something differed before it */
        return TB_OK;
    }
    uint64_t alloc = state ? 0 : x->acc[i].alloc;
    const struct gentab_slot *known = alloc ? gentab_get(&b->unseen, mix64(alloc, OUTSIDE)) : NULL;
    uint64_t writer;
    uint32_t before = known ? (uint32_t)known->value : state ? 0 : unseen_root(b, x, i, &writer);
    if (before) { /* another reader of the same bytes, begun before the first one ended */
        blame_taint(b, in, before);
        return TB_OK;
    }
    uint32_t n = blame_root_for(
        b, cause, state ? mix64(cause, 7) : mix64(blame_place_key(cause, x), i), &fresh);

    if (!n)
        return TB_ERR_NOMEM;
    blame_taint(b, in, n);
    if (fresh) {
        struct root *r = &b->res.roots[n - 1];
        fill_access(r, x, y, i);
        count_states(r, x, y);
    }
    if (!fresh && !may_be_torn(x, y, i))
        blame_sure(b, n);
    in->self = in->self || state;
    if (state && !b->state)
        b->state = n;
    struct gentab_slot *s = alloc ? gentab_put(&b->unseen, mix64(alloc, OUTSIDE)) : NULL;
    if (s)
        s->value = n;
    return alloc && !s ? TB_ERR_NOMEM : state ? TB_OK : remember_unseen(b, x, i, n);
}

/* A launch without --inputs, or bytes that it only writes beside: what the host left there counts
 * where something comes of it. */
static bool is_lazy(const struct ev *e, uint32_t i)
{
    return e->kind == TB_EV_LAUNCH && host_may_write(e, i) &&
           (!(e->flags & TB_EVF_READS_HASHED) || is_beside(e->site, i));
}

/* May read @i be why an output differs? What is only written beside shows in the same bytes. */
static bool comes_of(const struct blame *b, const struct ev *x, const struct ev *y, uint32_t i)
{
    const struct acc *r = &x->acc[i];

    for (uint32_t j = 0; j < x->n; j++) {
        const struct acc *w = &x->acc[j];
        bool same = w->alloc == r->alloc && w->lo < r->hi && r->lo < w->hi;
        if (x->site->access[j].mode == 'w' && (same || !is_beside(x->site, i)) &&
            blame_comparable(b, w, &y->acc[j]) && !tb_fp_equal(w->fp, y->acc[j].fp))
            return true;
    }
    return false;
}

enum tb_status blame_host_wrote(struct blame *b, const struct ev *x, const struct ev *y,
                                struct inputs *in)
{
    if (!b->host)
        return outside(b, x, y, in->host - 1, in);
    blame_taint(b, in, b->host);
    return TB_OK;
}

static enum tb_status look_at_read(struct blame *b, const struct ev *x, const struct ev *y,
                                   uint32_t i, struct inputs *in)
{
    bool hashed = blame_comparable(b, &x->acc[i], &y->acc[i]) && x->acc[i].kind == y->acc[i].kind;

    if (hashed && tb_fp_equal(x->acc[i].fp, y->acc[i].fp))
        return TB_OK;
    enum verdict v = by_lineage(b, x, y, i, in);
    if (v <= CHANGED && is_lazy(x, i) && (hashed || v == CHANGED)) {
        if (!in->host && comes_of(b, x, y, i))
            in->host = i + 1;
        return TB_OK;
    }
    in->hashed_differs = in->hashed_differs || hashed;
    in->read_differs = in->read_differs || (hashed && !may_be_torn(x, y, i));
    bool unrecorded = x->kind == TB_EV_STATE && !b->ops; /* who wrote it since is not known */
    bool written = writer_of(x, i) && writer_of(y, i) && !unrecorded;
    if (hashed && v <= CHANGED && host_may_write(x, i)) { /* nobody's fault; blame ends here */
        if (!b->host)
            return outside(b, x, y, i, in);
        blame_taint(b, in, b->host);
        return TB_OK;
    }
    if (hashed && written && (v == SAME || v == CHANGED))
        return unseen_writer(b, x, y, i, in);
    if (hashed && v < CROSS)
        return outside(b, x, y, i, in);
    if (v == CHANGED)
        blame_taint(b, in, 0);
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

enum tb_status blame_generator(struct blame *b, const struct ev *x, const struct ev *y, uint32_t i,
                               struct inputs *in)
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
        blame_is_inside(&r->r.a, x)) { /* it drew before what ran inside */
        fill_access(r, x, y, i);
        b->res.infected += r->differs;
        r->r.infected += r->differs;
        in->self = true;
    }
    if (!g->root) {
        g->root = blame_root_for(b, TB_CAUSE_RNG, mix64(TB_CAUSE_RNG, g->key), &fresh);
        if (!g->root)
            return TB_ERR_NOMEM;
        in->self = true;
        if (fresh)
            fill_access(&b->res.roots[g->root - 1], x, y, i);
    }
    blame_taint(b, in, g->root);
    return TB_OK;
}

void blame_suspect(struct blame *b, const struct ev *e, uint32_t root)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (e->site->access[i].mode == 'g')
            generator_of(b, &e->site->access[i])->suspect = root;
}

/* ---------------------------------------------------------------- all of it */

enum tb_status blame_inputs(struct blame *b, const struct ev *x, const struct ev *y,
                            struct inputs *in)
{
    enum tb_status st = TB_OK;

    for (uint32_t i = 0; st == TB_OK && i < x->n; i++) {
        char mode = x->site->access[i].mode;
        bool generator = mode == 's' && strncmp(x->site->access[i].argument, "rng:", 4) == 0;
        if (mode == 'g' || generator)
            st = blame_generator(b, x, y, i, in);
        else if (mode == 'r' || mode == 's')
            st = look_at_read(b, x, y, i, in);
    }
    return st;
}

enum tb_status blame_learn(struct blame *b, const struct ev *x, const struct ev *y)
{
    enum tb_status st = TB_OK;

    for (uint32_t i = 0; st == TB_OK && i < x->n; i++)
        if (x->site->access[i].mode != 'w' && (x->acc[i].flags & y->acc[i].flags & ACC_UNKNOWN))
            st = learn_buffer(b, &x->acc[i], &y->acc[i]);
    return st;
}
