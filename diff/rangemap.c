/*
 * Who last wrote which bytes, for one run of one process.
 *
 * Allocations are looked up by number; each has a sorted list of ranges. No trace says when memory
 * is freed, so the table forgets the allocations that were not touched for longest. What a write
 * replaced is kept for a while: an operator that ran others inside made its reads before theirs
 * took effect.
 */
#include "diff/diff_internal.h"

#include <stdlib.h>
#include <string.h>

#define NIL UINT32_MAX
#define ALLOC_LIMIT (1u << 18) /* allocations of a half of the table */
#define RANGES_MAX 1024u       /* pieces of one allocation; more are made one */
#define HISTORY (1u << 15)

struct node {
    struct range r;
    uint32_t next;
};

struct past {
    uint64_t alloc;
    uint64_t seq;   /* when it was replaced */
    struct range r; /* what lay in [r.lo, r.hi) before; token 0: unknown */
};

struct rangemap {
    struct gentab heads; /* alloc -> value: first node, aux: how many */
    struct node *nodes;
    uint32_t cap, used, spare; /* spare: list of free nodes */
    struct past *past;         /* ring */
    uint64_t past_count;
    struct range_vec scratch;
};

static void drop(void *arg, struct gentab_slot *s);

struct rangemap *rangemap_new(void)
{
    struct rangemap *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    m->past = malloc(HISTORY * sizeof(*m->past));
    if (!m->past) {
        free(m);
        return NULL;
    }
    m->spare = NIL;
    gentab_init(&m->heads, ALLOC_LIMIT);
    m->heads.drop = drop;
    m->heads.drop_arg = m;
    return m;
}

void rangemap_clear(struct rangemap *m)
{
    gentab_release(&m->heads);
    m->used = 0;
    m->spare = NIL;
    m->past_count = 0;
}

void rangemap_free(struct rangemap *m)
{
    if (!m)
        return;
    gentab_release(&m->heads);
    free(m->nodes);
    free(m->past);
    free(m->scratch.r);
    free(m);
}

bool rangemap_forgot(const struct rangemap *m)
{
    return m->heads.forgot;
}

/* ---------------------------------------------------------------- nodes */

static uint32_t take_node(struct rangemap *m)
{
    if (m->spare != NIL) {
        uint32_t i = m->spare;
        m->spare = m->nodes[i].next;
        return i;
    }
    if (m->used == m->cap) {
        uint32_t cap = m->cap ? 2 * m->cap : 1024;
        struct node *nodes = cap < NIL / 2 ? realloc(m->nodes, cap * sizeof(*nodes)) : NULL;
        if (!nodes)
            return NIL;
        m->nodes = nodes;
        m->cap = cap;
    }
    return m->used++;
}

static void give_node(struct rangemap *m, uint32_t i)
{
    m->nodes[i].next = m->spare;
    m->spare = i;
}

/* An allocation is forgotten: its nodes are spare */
static void drop(void *arg, struct gentab_slot *s)
{
    struct rangemap *m = arg;

    for (uint32_t n = s->aux ? (uint32_t)s->value : NIL, next; n != NIL; n = next) {
        next = m->nodes[n].next;
        give_node(m, n);
    }
}

static struct gentab_slot *head_of(struct rangemap *m, uint64_t alloc)
{
    struct gentab_slot *s = gentab_put(&m->heads, alloc);

    if (s && s->aux == 0)
        s->value = NIL;
    return s;
}

/* ---------------------------------------------------------------- vectors of pieces */

static bool push(struct range_vec *v, const struct range *r)
{
    if (r->lo >= r->hi)
        return true;
    if (v->n == v->cap) {
        size_t cap = v->cap ? 2 * v->cap : 16;
        struct range *p = realloc(v->r, cap * sizeof(*p));
        if (!p)
            return false;
        v->r = p;
        v->cap = cap;
    }
    v->r[v->n++] = *r;
    return true;
}

static struct range cut(const struct range *r, int64_t lo, int64_t hi)
{
    struct range c = *r;

    c.lo = r->lo > lo ? r->lo : lo;
    c.hi = r->hi < hi ? r->hi : hi;
    return c;
}

/* The pieces of [lo, hi) as they are now; gaps as unknown ones */
static bool collect(struct rangemap *m, uint64_t alloc, int64_t lo, int64_t hi,
                    struct range_vec *out)
{
    struct gentab_slot *s = gentab_get(&m->heads, alloc);
    int64_t at = lo;

    out->n = 0;
    for (uint32_t i = s && s->aux ? (uint32_t)s->value : NIL; i != NIL; i = m->nodes[i].next) {
        const struct range *r = &m->nodes[i].r;
        if (r->hi <= lo)
            continue;
        if (r->lo >= hi)
            break;
        struct range gap = {.lo = at, .hi = r->lo, .start = at};
        struct range c = cut(r, lo, hi);
        if (!push(out, &gap) || !push(out, &c))
            return false;
        at = c.hi;
    }
    return push(out, &(struct range){.lo = at, .hi = hi, .start = at});
}

/* Lay @top over the pieces of @v */
static bool overlay(struct range_vec *v, struct range_vec *scratch, const struct range *top)
{
    scratch->n = 0;
    bool placed = false;
    for (size_t i = 0; i < v->n; i++) {
        struct range before = cut(&v->r[i], INT64_MIN, top->lo);
        struct range after = cut(&v->r[i], top->hi, INT64_MAX);
        bool here = !placed && v->r[i].hi > top->lo;
        if (!push(scratch, &before) || (here && !push(scratch, top)) || !push(scratch, &after))
            return false;
        placed = placed || here;
    }
    struct range_vec t = *v;
    *v = *scratch;
    *scratch = t;
    return true;
}

static bool rewind_to(struct rangemap *m, uint64_t alloc, uint64_t open, struct range_vec *v)
{
    int64_t lo = v->n ? v->r[0].lo : 0, hi = v->n ? v->r[v->n - 1].hi : 0;
    uint64_t end = m->past_count > HISTORY ? m->past_count - HISTORY : 0;

    for (uint64_t i = m->past_count; i-- > end;) {
        const struct past *p = &m->past[i & (HISTORY - 1)];
        if (p->seq < open)
            break;
        if (p->alloc != alloc || p->r.hi <= lo || p->r.lo >= hi)
            continue;
        struct range top = cut(&p->r, lo, hi);
        if (!overlay(v, &m->scratch, &top))
            return false;
    }
    return true;
}

enum tb_status rangemap_resolve(struct rangemap *m, uint64_t alloc, int64_t lo, int64_t hi,
                                uint64_t open, struct range_vec *out)
{
    bool newer = false;

    if (!collect(m, alloc, lo, hi, out))
        return TB_ERR_NOMEM;
    for (size_t i = 0; i < out->n; i++)
        newer = newer || (out->r[i].lineage && out->r[i].seq >= open);
    return newer && !rewind_to(m, alloc, open, out) ? TB_ERR_NOMEM : TB_OK;
}

/* ---------------------------------------------------------------- writing */

static void remember(struct rangemap *m, uint64_t alloc, uint64_t seq, const struct range_vec *v)
{
    for (size_t i = 0; i < v->n; i++)
        m->past[m->past_count++ & (HISTORY - 1)] =
            (struct past){.alloc = alloc, .seq = seq, .r = v->r[i]};
}

/* Put @r into the list of @s instead of all that it covers */
static bool replace(struct rangemap *m, struct gentab_slot *s, const struct range *r)
{
    uint32_t prev = NIL, i = s->aux ? (uint32_t)s->value : NIL;

    while (i != NIL && m->nodes[i].r.hi <= r->lo) {
        prev = i;
        i = m->nodes[i].next;
    }
    if (i != NIL && m->nodes[i].r.lo < r->lo) { /* its head stays */
        struct range tail = cut(&m->nodes[i].r, r->hi, INT64_MAX);
        m->nodes[i].r.hi = r->lo;
        prev = i;
        i = m->nodes[i].next;
        if (tail.lo < tail.hi) {
            uint32_t t = take_node(m);
            if (t == NIL)
                return false;
            m->nodes[t] = (struct node){.r = tail, .next = i};
            m->nodes[prev].next = t;
            i = t;
            s->aux++;
        }
    }
    while (i != NIL && m->nodes[i].r.hi <= r->hi) { /* wholly covered */
        uint32_t next = m->nodes[i].next;
        give_node(m, i);
        s->aux--;
        i = next;
    }
    if (i != NIL && m->nodes[i].r.lo < r->hi)
        m->nodes[i].r.lo = r->hi;
    uint32_t fresh = take_node(m);
    if (fresh == NIL)
        return false;
    m->nodes[fresh] = (struct node){.r = *r, .next = i};
    if (prev == NIL)
        s->value = fresh;
    else
        m->nodes[prev].next = fresh;
    s->aux++;
    return true;
}

/* Too many pieces: one that stands for them all, equal in both runs if all of them are */
static bool fold(struct rangemap *m, struct gentab_slot *s, const struct range *last)
{
    struct range all = *last;
    uint64_t h = 0;

    for (uint32_t i = (uint32_t)s->value, next; i != NIL; i = next) {
        const struct range *r = &m->nodes[i].r;
        h = mix64(mix64(h, r->token), (uint64_t)(r->lo - r->start));
        h = mix64(mix64(h, (uint64_t)r->lo), (uint64_t)r->hi);
        all.lo = r->lo < all.lo ? r->lo : all.lo;
        all.hi = r->hi > all.hi ? r->hi : all.hi;
        next = m->nodes[i].next;
        give_node(m, i);
    }
    s->aux = 0;
    s->value = NIL;
    all.token = h | 1;
    all.start = all.lo;
    all.whole = all.hi;
    return replace(m, s, &all);
}

/* Some bytes of each piece were written: what lies there is made of both */
static struct range blend(const struct range *old, const struct range *r)
{
    struct range b = *r;

    b.lo = old->lo;
    b.hi = old->hi;
    b.start = old->lo;
    b.whole = INT64_MIN;
    b.token = mix64(mix64(old->token, (uint64_t)(old->lo - old->start)), r->token);
    b.token = mix64(b.token, (uint64_t)(old->lo - r->start)) | 1;
    return b;
}

enum tb_status rangemap_write(struct rangemap *m, uint64_t alloc, const struct range *r, bool dense)
{
    struct range_vec old = {0};
    enum tb_status st = TB_ERR_NOMEM;

    if (r->lo >= r->hi)
        return TB_OK;
    if (!collect(m, alloc, r->lo, r->hi, &m->scratch))
        return TB_ERR_NOMEM;
    old = m->scratch; /* replace() does not touch it */
    m->scratch = (struct range_vec){0};
    remember(m, alloc, r->seq, &old);
    struct gentab_slot *s = head_of(m, alloc);
    if (!s)
        goto out;
    if (dense && !replace(m, s, r))
        goto out;
    for (size_t i = 0; !dense && i < old.n; i++) {
        struct range b = blend(&old.r[i], r);
        if (!replace(m, s, &b))
            goto out;
    }
    if (s->aux > RANGES_MAX && !fold(m, s, r))
        goto out;
    st = TB_OK;
out:
    free(m->scratch.r);
    m->scratch = old;
    return st;
}
