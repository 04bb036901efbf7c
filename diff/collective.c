/*
 * Collectives: a rank gives something and gets something back, often in two events, the issue and
 * the end. Which collective it is is counted by name as they are issued, equally on all ranks.
 */
#include "diff/blame_internal.h"

#include <stdlib.h>
#include <string.h>

static bool has_mode(const struct ev *x, char mode)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (x->site->access[i].mode == mode)
            return true;
    return false;
}

static bool uses(const struct pending *p, const struct ev *x)
{
    for (uint32_t i = 0; i < x->n; i++)
        for (size_t k = 0; k < TB_ARRAY_LEN(p->alloc); k++)
            if (x->acc[i].alloc && x->acc[i].alloc == p->alloc[k])
                return true;
    return false;
}

/* The issue that @x is the end of: over the same memory, else the oldest of that name */
static struct pending *issue_of(struct colls *c, uint64_t name, const struct ev *x)
{
    struct pending *oldest = NULL;

    for (size_t i = 0; i < c->n; i++) {
        if (c->p[i].name != name)
            continue;
        if (uses(&c->p[i], x))
            return &c->p[i];
        if (!oldest)
            oldest = &c->p[i];
    }
    return oldest;
}

static void forget(struct colls *c, struct pending *p)
{
    size_t i = (size_t)(p - c->p);

    memmove(p, p + 1, (c->n - i - 1) * sizeof(*p));
    c->n--;
}

static void wait_for(struct colls *c, uint64_t name, const struct ev *x, uint32_t root)
{
    if (c->n == PENDING)
        forget(c, c->p);
    struct pending *p = &c->p[c->n++];
    *p = (struct pending){.name = name, .key = c->key, .root = root};
    for (uint32_t i = 0, k = 0; i < x->n && k < TB_ARRAY_LEN(p->alloc); i++)
        if (x->site->access[i].mode == 'r')
            p->alloc[k++] = x->acc[i].alloc;
}

enum tb_status blame_coll_inputs(struct blame *b, const struct ev *x, struct inputs *in)
{
    struct colls *c = &b->colls;
    uint64_t name = hash_text(x->site->name, strlen(x->site->name));

    if (has_mode(x, 'r') || !has_mode(x, 'w')) {
        struct gentab_slot *s = gentab_put(&c->count, name | 1);
        if (!s)
            return TB_ERR_NOMEM;
        c->key = mix64(name, ++s->value);
        return TB_OK;
    }
    struct pending *p = issue_of(c, name, x);
    c->key = p ? p->key : 0;
    if (p && p->root)
        blame_taint(b, in, p->root);
    if (p)
        forget(c, p);
    return TB_OK;
}

static enum tb_status keep(struct blame *b, const struct ev *x, uint32_t root)
{
    if (b->res.coll_count == COLLS)
        return TB_OK;
    if (!b->res.colls) {
        b->res.colls = calloc(COLLS, sizeof(*b->res.colls));
        if (!b->res.colls)
            return TB_ERR_NOMEM;
    }
    b->res.colls[b->res.coll_count++] =
        (struct coll){.key = b->colls.key, .step = x->step, .in_differs = true, .root = root};
    return TB_OK;
}

enum tb_status blame_coll_note(struct blame *b, const struct ev *x, bool in_differs, uint32_t root,
                               bool self)
{
    struct root *r = root && root <= ROOTS ? &b->res.roots[root - 1] : NULL;

    if (has_mode(x, 'r') && !has_mode(x, 'w'))
        wait_for(&b->colls, hash_text(x->site->name, strlen(x->site->name)), x,
                 in_differs ? root : 0);
    if (r && self && r->r.cause == TB_CAUSE_COLLECTIVE && !r->coll)
        r->coll = b->colls.key;
    return in_differs && root && b->colls.key ? keep(b, x, root) : TB_OK;
}
