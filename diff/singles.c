/* Events that ran in one run only: another program, another order, or a consequence. */
#include "diff/blame_internal.h"

#include <string.h>

/* Root behind what the event read, 0: nothing known against it */
static uint32_t read_root(struct blame *b, const struct ev *e, int side)
{
    uint32_t root = 0;

    for (uint32_t i = 0; i < e->n; i++)
        for (uint32_t j = 0; e->site->access[i].mode != 'w' && j < e->acc[i].pieces; j++) {
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

    *root =
        blame_root_for(b, TB_CAUSE_CONTROL_FLOW,
                       mix64(blame_place_key(TB_CAUSE_CONTROL_FLOW, e), (uint64_t)side), &fresh);
    if (!*root)
        return TB_ERR_NOMEM;
    if (fresh)
        blame_fill_root(&b->res.roots[*root - 1], side ? NULL : e, side ? e : NULL);
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
        blame_set_place(&r->r.b, e);
        r->site_b = e->site;
        r->range_b = e->range;
    } else {
        blame_set_place(&r->r.a, e);
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
    blame_sure(b, root);
}

/* The thread that unmatched events are counted by: that of run A where there is one */
static struct thread_state *burst_of(struct blame *b, const struct ev *e, int side)
{
    struct thread_state *t = blame_thread(b, side, e->thread);

    if (t && side && t->partner)
        t = blame_thread(b, 0, t->partner);
    return t;
}

enum tb_status blame_single(struct blame *b, const struct ev *e, int side)
{
    enum tb_status st = TB_OK;

    if (e->setup) {
        b->res.setup++;
        b->res.gap += e->gap;
        return TB_OK;
    }
    if (e->kind == TB_EV_SYNC) { /* how often a program waits is chance */
        b->res.orders++;
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
    blame_suspect(b, e, root);
    blame_mark_bad(b, side, e, root);
    struct gentab_slot *s = gentab_put(&b->line[side], e->id);
    if (!s)
        return TB_ERR_NOMEM;
    s->value = NO_MATE;
    s->aux = root;
    return TB_OK;
}
