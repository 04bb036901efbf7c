/* Which roots are told, and in which order: the first one is where the runs part. */
#include "diff/diff_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- ranks */

/* Another rank whose part in the same collective differed: it, not the collective, is to blame */
static struct root *explained_by(struct all_roots *all, size_t procs, const struct root *r)
{
    for (size_t p = 0; p < procs; p++) {
        const struct found *f = &all->of[p];
        for (size_t i = 0; p != r->process && i < f->coll_count; i++) {
            const struct coll *c = &f->colls[i];
            if (c->key != r->coll || !c->in_differs || !c->root || c->root > f->root_count)
                continue;
            struct root *other = &all->r[f->root_base + c->root - 1];
            if (other->r.cause != TB_CAUSE_COLLECTIVE)
                return other;
        }
    }
    return NULL;
}

static void drop_root(struct all_roots *all, size_t i)
{
    /* numbers of roots are not used any more: only the order matters now */
    memmove(&all->r[i], &all->r[i + 1], (all->n - i - 1) * sizeof(*all->r));
    all->n--;
}

static void resolve_collective(struct all_roots *all, size_t procs, struct root *r,
                               struct tb_diff_report *rep)
{
    struct root *by = explained_by(all, procs, r);

    if (!by)
        return;
    by->r.infected += r->r.infected + r->r.count;
    rep->infected += r->r.count;
    r->weak = true;
    r->coll = 0;
}

static void resolve_collectives(struct all_roots *all, size_t procs, struct tb_diff_report *rep)
{
    /* the analyser loses sight of all->r, which free_found() frees */
    for (size_t i = 0; i < all->n; i++) /* NOLINT(clang-analyzer-unix.Malloc) */
        if (all->r[i].coll && all->r[i].r.cause == TB_CAUSE_COLLECTIVE)
            resolve_collective(all, procs, &all->r[i], rep);
}

static void drop_weak(struct all_roots *all)
{
    bool strong = false;

    for (size_t i = 0; i < all->n; i++)
        strong = strong || !all->r[i].weak;
    for (size_t i = 0; strong && i < all->n;)
        if (all->r[i].weak)
            drop_root(all, i);
        else
            i++;
}

/* Is what may be torn beside something that differs for sure? Nothing follows from it then, or it
 * would be sure as well. */
static bool beside_sure(const struct all_roots *all)
{
    bool sure = false, torn = false;

    for (size_t i = 0; i < all->n; i++) {
        sure = sure || !all->r[i].r.torn;
        torn = torn || all->r[i].r.torn;
    }
    return sure && torn;
}

/* So it is no root, and a note. */
static enum tb_status drop_torn(struct all_roots *all, struct tb_diff_report *rep)
{
    uint64_t n = 0;

    if (!beside_sure(all))
        return TB_OK;
    for (size_t i = 0; i < all->n;) {
        if (!all->r[i].r.torn) {
            i++;
            continue;
        }
        n += all->r[i].r.count;
        drop_root(all, i);
    }
    return add_line(&rep->notes, &rep->note_count, 1,
                    "%" PRIu64 " fingerprint%s %s, too, taken while another stream or node of its "
                    "graph may have written there; nothing follows from %s",
                    n, plural(n), n == 1 ? "differs" : "differ", n == 1 ? "it" : "them");
}

/* ---------------------------------------------------------------- ranking */

/* What nothing follows from, or what may be nothing but the moment of a fingerprint */
static bool harmless(const struct root *r)
{
    return r->r.torn || ((r->r.cause == TB_CAUSE_CONTROL_FLOW || r->r.cause == TB_CAUSE_ORDER ||
                          r->r.cause == TB_CAUSE_ALGORITHM) &&
                         r->r.infected == 0 && r->r.differ == 0);
}

static uint64_t seq_of(const struct root *r)
{
    return r->r.a.known ? r->r.a.seq : r->r.b.known ? r->r.b.seq : UINT64_MAX;
}

static int by_rank(const void *p, const void *q)
{
    const struct root *x = p, *y = q;

    if (harmless(x) != harmless(y))
        return harmless(x) - harmless(y);
    if (x->r.step != y->r.step)
        return x->r.step < y->r.step ? -1 : 1;
    if (x->r.epoch != y->r.epoch)
        return x->r.epoch < y->r.epoch ? -1 : 1;
    if (x->process == y->process || x->r.cause != y->r.cause)
        return seq_of(x) < seq_of(y) ? -1 : seq_of(x) > seq_of(y);
    return x->process < y->process ? -1 : 1;
}

enum tb_status rank_roots(struct report_builder *rb, struct all_roots *all)
{
    resolve_collectives(all, rb->a->procs, rb->rep);
    drop_weak(all);
    enum tb_status st = drop_torn(all, rb->rep);
    if (st == TB_OK && all->n)
        qsort(all->r, all->n, sizeof(*all->r), by_rank);
    return st;
}
