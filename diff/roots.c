/* The list of roots, and what is remembered of events and threads. */
#include "diff/blame_internal.h"

#include <stdlib.h>
#include <string.h>

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
    gentab_init(&b->cut, LINEAGE);
    gentab_init(&b->colls.count, LINEAGE);
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
    gentab_release(&b->cut);
    gentab_release(&b->colls.count);
    free(b->res.roots);
    free(b->res.colls);
    free(b->doubts.d);
    free(b->charges.root);
    free(b);
}

struct blame_result *blame_result(struct blame *b)
{
    b->res.settled = !b->doubts.n && !b->doubts.lost;
    return &b->res;
}

void blame_other_leaves(struct blame *b)
{
    b->other_leaves = true;
}

void blame_overlap(struct blame *b, uint64_t first_a, uint64_t first_b)
{
    b->overlap[0] = first_a;
    b->overlap[1] = first_b;
}

struct thread_state *blame_thread(struct blame *b, int side, uint32_t thread)
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

uint32_t blame_root_for(struct blame *b, enum tb_diff_cause cause, uint64_t group, bool *fresh)
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
    uint32_t n = blame_root_for(b, cause, group, &fresh);

    return n && n <= ROOTS ? &b->res.roots[n - 1] : NULL;
}

void blame_set_place(struct tb_diff_place *p, const struct ev *e)
{
    *p = (struct tb_diff_place){.known = true, .thread = e->thread, .id = e->id, .seq = e->seq};
}

void blame_fill_root(struct root *r, const struct ev *x, const struct ev *y)
{
    const struct ev *e = x ? x : y;

    if (x) {
        blame_set_place(&r->r.a, x);
        r->site_a = x->site;
        r->range_a = x->range;
        note_stream(r, x, 0);
    }
    if (y) {
        blame_set_place(&r->r.b, y);
        r->site_b = y->site;
        r->range_b = y->range;
        note_stream(r, y, 1);
    }
    if (!e)
        return;
    r->kind = e->kind;
    r->r.step = e->step;
    r->r.epoch = e->epoch;
}

void blame_fill_tensor(struct tb_diff_tensor *t, const struct ev *x, const struct ev *y, uint32_t i)
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

bool blame_is_inside(const struct tb_diff_place *p, const struct ev *outer)
{
    return p->known && p->thread == outer->thread && p->seq >= outer->open && p->seq < outer->seq;
}

uint64_t blame_place_key(enum tb_diff_cause cause, const struct ev *e)
{
    return mix64(e->key, (uint64_t)cause + 1);
}

void blame_mark_bad(struct blame *b, int side, const struct ev *e, uint32_t root)
{
    struct thread_state *t = blame_thread(b, side, e->thread);

    if (t) {
        t->bad_seq = e->seq;
        t->bad_root = root;
    }
}

void blame_sure(struct blame *b, uint32_t n)
{
    if (n && n <= ROOTS)
        b->res.roots[n - 1].r.torn = false;
}

struct line blame_line(struct blame *b, int side, uint64_t event)
{
    const struct gentab_slot *s = event ? gentab_get(&b->line[side], event) : NULL;

    return s ? (struct line){true, s->value, s->aux} : (struct line){0};
}

enum tb_status blame_lineage(struct blame *b, const struct ev *e, int side)
{
    struct gentab_slot *s = gentab_put(&b->line[side], e->id);

    if (!s)
        return TB_ERR_NOMEM;
    s->value = e->mate ? e->mate->id : e->setup ? SETUP : NO_MATE;
    s->aux = 0;
    return TB_OK;
}
