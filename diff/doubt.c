/*
 * Bytes of which fingerprints differ that may be torn: in doubt until bytes that nobody else could
 * write meanwhile are hashed there, and are equal. Then whatever differed between was the moment of
 * a fingerprint, or has left no trace.
 */
#include "diff/blame_internal.h"

#include <stdlib.h>
#include <string.h>

#define DOUBTS 4096u /* beyond them nothing is settled any more */

static bool put(struct doubts *d, const struct doubt *x)
{
    if (d->n == DOUBTS) {
        d->lost = true;
        return true;
    }
    if (d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 16;
        struct doubt *p = realloc(d->d, cap * sizeof(*p));
        if (!p)
            return false;
        d->d = p;
        d->cap = cap;
    }
    d->d[d->n++] = *x;
    return true;
}

/* [@lo, @hi) of what is in doubt at @i is none any more */
static bool clear(struct doubts *d, size_t i, int64_t lo, int64_t hi)
{
    struct doubt *x = &d->d[i], rest = *x;

    if (lo <= x->lo && x->hi <= hi) {
        *x = d->d[--d->n];
        return true;
    }
    if (lo <= x->lo) {
        x->lo = hi;
        return true;
    }
    x->hi = lo;
    rest.lo = hi;
    return rest.lo >= rest.hi || put(d, &rest);
}

static bool is_memory(const struct acc *p, const struct acc *q)
{
    return p->alloc && q->alloc && p->alloc < TB_ALLOC_RNG && q->alloc < TB_ALLOC_RNG &&
           p->hi - p->lo == q->hi - q->lo;
}

static enum tb_status settle(struct blame *b, const struct acc *p, const struct acc *q)
{
    struct doubts *d = &b->doubts;

    for (size_t i = d->n; i-- > 0;) {
        const struct doubt *x = &d->d[i];
        if (x->alloc[0] == p->alloc && x->alloc[1] == q->alloc && x->shift == q->lo - p->lo &&
            x->lo < p->hi && p->lo < x->hi && !clear(d, i, p->lo, p->hi))
            return TB_ERR_NOMEM;
    }
    return TB_OK;
}

/* Of other extents: in doubt is all that is in one of them. */
static enum tb_status cut(struct blame *b, const struct acc *p, const struct acc *q)
{
    struct doubt new = {
        {p->alloc, q->alloc}, p->lo < q->lo ? p->lo : q->lo, p->hi > q->hi ? p->hi : q->hi, 0};

    return put(&b->doubts, &new) ? TB_OK : TB_ERR_NOMEM;
}

static enum tb_status look_at(struct blame *b, const struct ev *x, const struct ev *y, uint32_t i)
{
    const struct acc *p = &x->acc[i], *q = &y->acc[i];
    bool torn = (p->flags | q->flags) & ACC_TORN, equal = tb_fp_equal(p->fp, q->fp);

    if (blame_is_cut(p, q))
        return cut(b, p, q);
    if (!(p->flags & q->flags & ACC_HASHED) || !is_memory(p, q))
        return TB_OK;
    if (torn && !equal) {
        struct doubt new = {{p->alloc, q->alloc}, p->lo, p->hi, q->lo - p->lo};
        return put(&b->doubts, &new) ? TB_OK : TB_ERR_NOMEM;
    }
    bool met = (p->flags | q->flags) & ACC_MET;
    bool all = p->kind != TB_FP_SAMPLED && q->kind != TB_FP_SAMPLED;
    return !met && equal && all && x->site->access[i].contiguous ? settle(b, p, q) : TB_OK;
}

enum tb_status blame_doubts(struct blame *b, const struct ev *x, const struct ev *y, bool equal)
{
    enum tb_status st = TB_OK;

    if ((equal && !b->doubts.n) || (!is_device(x->kind) && x->kind != TB_EV_STATE))
        return TB_OK;
    for (int write = 0; write < 2; write++) /* it read before it wrote */
        for (uint32_t i = 0; st == TB_OK && i < x->n; i++) {
            char mode = x->site->access[i].mode;
            if (mode == (write ? 'w' : 'r') || (write && mode == 's'))
                st = look_at(b, x, y, i);
        }
    return st;
}

/* ---------------------------------------------------------------- other accesses */

static const struct acc *first_write(const struct ev *e, const char *argument)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (e->site->access[i].mode == 'w' &&
            (!argument || strcmp(e->site->access[i].argument, argument) == 0))
            return &e->acc[i];
    return NULL;
}

/* What has no mate by its argument lies in what the first write takes in: the same allocation. */
static enum tb_status doubt_writes(struct blame *b, const struct ev *e, const struct ev *mate,
                                   bool in_b)
{
    enum tb_status st = TB_OK;

    for (uint32_t i = 0; st == TB_OK && i < e->n; i++) {
        const char *argument = e->site->access[i].argument;
        const struct acc *p = &e->acc[i], *q = first_write(mate, argument);
        if (e->site->access[i].mode != 'w')
            continue;
        q = q ? q : first_write(mate, NULL);
        if (!q)
            b->doubts.lost = true;
        else
            st = cut(b, in_b ? q : p, in_b ? p : q);
    }
    return st;
}

bool blame_is_shared(const struct ev *e)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (e->acc[i].flags & ACC_SHARED)
            return true;
    return false;
}

enum tb_status blame_uneven(struct blame *b, const struct ev *x, const struct ev *y)
{
    enum tb_status st;

    if (!blame_is_shared(x) && !blame_is_shared(y)) {
        st = blame_single(b, x, 0);
        return st == TB_OK ? blame_single(b, y, 1) : st;
    }
    b->res.compared++;
    b->res.cut++;
    b->doubts.lost = b->doubts.lost || x->args != y->args;
    st = blame_charge(b, x, y);
    if (st == TB_OK)
        st = doubt_writes(b, x, y, false);
    return st == TB_OK ? doubt_writes(b, y, x, true) : st;
}
