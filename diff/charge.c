/*
 * Launches that got other arguments, and whose results could not be compared: threads use parts of
 * one allocation, and what was hashed is of other extents in the other run. Nothing says yet that
 * they made something else of it. If what uses the bytes later differs, it follows from them.
 */
#include "diff/blame_internal.h"

#include <stdlib.h>
#include <string.h>

/* Plus one; 0: its arguments are equal, and so are those of whose bytes it may hold */
static uint64_t charge_of(struct blame *b, const struct ev *x)
{
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t j = 0; j < x->acc[i].pieces; j++) {
            const struct range *p = x->pieces + x->acc[i].piece + j;
            const struct gentab_slot *s = p->writer ? gentab_get(&b->cut, p->writer) : NULL;
            if (s && s->value)
                return s->value;
        }
    return 0;
}

static uint64_t group_of(const struct ev *x)
{
    return mix64(TB_CAUSE_HOST_VALUE, hash_text(x->site->name, strlen(x->site->name)));
}

/* Plus one: an earlier launch of the same kernel, by the same thread, that got other arguments */
static uint64_t earlier(const struct blame *b, const struct ev *x)
{
    for (size_t i = 0; i < b->charges.n; i++)
        if (b->charges.root[i].group == group_of(x) && b->charges.root[i].r.a.thread == x->thread)
            return i + 1;
    return 0;
}

/* A root that nothing follows from yet. 0: there are many already */
static uint64_t charge(struct blame *b, const struct ev *x, const struct ev *y)
{
    struct charges *c = &b->charges;

    if (c->n == CHARGES)
        return 0;
    if (!c->root && !(c->root = calloc(CHARGES, sizeof(*c->root))))
        return 0;
    struct root *r = &c->root[c->n++];
    r->r.cause = TB_CAUSE_HOST_VALUE;
    r->group = group_of(x);
    r->not_compared = true;
    blame_fill_root(r, x, y);
    return c->n;
}

enum tb_status blame_charge(struct blame *b, const struct ev *x, const struct ev *y)
{
    struct gentab_slot *s = gentab_put(&b->cut, x->id);

    if (!s)
        return TB_ERR_NOMEM;
    s->value = charge_of(b, x);
    if (!s->value && x->args != y->args)
        s->value = charge(b, x, y);
    return TB_OK;
}

enum tb_status blame_charged(struct blame *b, const struct ev *x, bool torn, uint32_t *root)
{
    uint64_t n = charge_of(b, x);
    bool fresh;

    if (!n && x->args != x->mate->args)
        n = earlier(b, x);
    *root = 0;
    if (!n)
        return TB_OK;
    const struct root *c = &b->charges.root[n - 1];
    *root = blame_root_for(b, c->r.cause, c->group, &fresh);
    if (!*root)
        return TB_ERR_NOMEM;
    if (fresh) {
        struct root *r = &b->res.roots[*root - 1];
        uint64_t count = r->r.count;
        *r = *c;
        r->r.count = count;
        r->r.torn = torn;
    }
    return TB_OK;
}
