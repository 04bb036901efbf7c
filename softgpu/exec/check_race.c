/*
 * Races: each word of global and shared memory remembers who wrote it last and two who have read it
 * since; an access that nothing orders behind them is told. What orders:
 *
 * - lanes of a warp: __syncwarp and every other .sync instruction, among its members;
 * - warps of a block: barriers, among those that arrived (clocks, each warp's view of the others);
 * - all threads: a release followed by an acquire. Every atomic, mbarrier operation and strong
 * access (volatile, relaxed, release, acquire) is taken for both, with a fence or without, and a
 * release is taken to publish to everybody who acquires anything later: races may be missed that
 * way, none is made up. The barrier of a cluster counts as one too.
 *
 * Two strong accesses never race, nor do two stores of the same value; a store that leaves the
 * value as it is, and a read beside it, are worth a warning. A plain read beside an atomic is how
 * loops around compare-and-swap begin, those of CUDA's own headers too, and is none. Words are
 * divided into bytes where smaller accesses are seen.
 */
#include "softgpu/exec/check_internal.h"

#include <stdlib.h>

#define PAGE_SHIFT 9
#define PAGE_BYTES (1u << PAGE_SHIFT)
#define READERS 2
#define GROUPS 8 /* of lanes that wait for each other */

/* One access that is remembered. */
struct mark {
    const struct sg_ptx_insn *ptx; /* NULL: none */
    const struct sg_func *func;
    uint32_t block1;           /* 1 + its number in the grid */
    uint16_t thread;           /* warp * 32 + lane */
    bool strong, atomic, same; /* same: it left the value as it was */
    uint32_t warp_clock, lane_clock, time;
};

struct unit {
    struct mark write, read[READERS];
};

struct page {
    uint64_t number;
    struct page *next;
    unsigned shift; /* of a unit's bytes: 2, or 0 */
    struct unit *units;
};

struct group {
    uint32_t members, arrived;
};

struct race_warp {
    uint32_t clock, acquired; /* the time of the last release that it knows of */
    uint32_t seen[32];        /* accesses of that warp with smaller clocks come before */
    uint32_t lane_clock[SG_WARP], lane_seen[SG_WARP][SG_WARP];
    struct group groups[GROUPS];
    unsigned ngroups;
    uint32_t copied; /* cp: lanes that have written already */
    bool behind_cluster;
};

struct sg_race_block {
    struct race_warp warps[32];
    uint32_t arrived[SG_BARRIERS]; /* warps */
    uint32_t snap[SG_BARRIERS][32];
    struct page **shared;
    size_t npages;
};

#define BUCKETS 65536u

struct sg_race {
    struct sg_check *check;
    const struct sg_launch *launch;
    uint32_t time; /* releases so far */
    struct page *buckets[BUCKETS];
    struct page *last;
    uint32_t **published; /* of each block: clocks of its warps at their last release; NULL: none */
    uint64_t nblocks;
};

/* ---- memory of marks ------------------------------------------------------------------------- */

static void page_free(struct page *p)
{
    if (p == NULL)
        return;
    free(p->units);
    free(p);
}

static struct page *page_new(uint64_t number)
{
    struct page *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    p->number = number;
    p->shift = 2;
    p->units = calloc(PAGE_BYTES >> 2, sizeof(*p->units));
    if (p->units == NULL) {
        free(p);
        return NULL;
    }
    return p;
}

static bool page_split(struct page *p)
{
    struct unit *bytes = calloc(PAGE_BYTES, sizeof(*bytes));

    if (bytes == NULL)
        return false;
    for (unsigned i = 0; i < PAGE_BYTES; i++)
        bytes[i] = p->units[i >> 2];
    free(p->units);
    p->units = bytes;
    p->shift = 0;
    return true;
}

static struct page *global_page(struct sg_race *r, uint64_t number)
{
    struct page **at = &r->buckets[(number * UINT64_C(0x9e3779b97f4a7c15) >> 48) % BUCKETS];

    if (r->last != NULL && r->last->number == number)
        return r->last;
    for (struct page *p = *at; p != NULL; p = p->next)
        if (p->number == number)
            return r->last = p;
    struct page *p = page_new(number);
    if (p == NULL)
        return NULL;
    p->next = *at;
    *at = p;
    return r->last = p;
}

static struct page *shared_page(struct sg_block *b, uint64_t number)
{
    struct sg_race_block *rb = b->check->race;

    if (number >= rb->npages)
        return NULL;
    if (rb->shared[number] == NULL)
        rb->shared[number] = page_new(number);
    return rb->shared[number];
}

/* ---- order ----------------------------------------------------------------------------------- */

static struct race_warp *warp_of(const struct sg_warp *w)
{
    return &w->block->check->race->warps[w->index];
}

static uint32_t later(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* All lanes of @lanes have waited for each other. */
static void join_lanes(struct race_warp *rw, uint32_t lanes)
{
    uint32_t all[SG_WARP] = {0};

    for (uint32_t m = lanes; m != 0; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        rw->lane_clock[l]++;
        for (unsigned k = 0; k < SG_WARP; k++)
            all[k] = later(all[k], k == l ? rw->lane_clock[l] : rw->lane_seen[l][k]);
    }
    for (uint32_t m = lanes; m != 0; m &= m - 1)
        memcpy(rw->lane_seen[__builtin_ctz(m)], all, sizeof(all));
}

/* Lanes come to an instruction that waits for @members: joined with those that wait there. */
static void lanes_come(struct race_warp *rw, uint32_t lanes, uint32_t members, uint32_t alive)
{
    struct group *g = NULL;

    for (unsigned i = 0; i < GROUPS && g == NULL; i++)
        if (rw->groups[i].members == members && rw->groups[i].arrived != 0)
            g = &rw->groups[i];
    if (g == NULL)
        g = &rw->groups[rw->ngroups++ % GROUPS];
    if (g->members != members || (g->arrived & lanes) != 0)
        *g = (struct group){members, 0};
    g->arrived |= lanes;
    join_lanes(rw, g->arrived);
    if ((members & alive & ~g->arrived) == 0)
        g->arrived = 0;
}

static void join_warps(struct sg_race_block *rb, uint32_t warps, const uint32_t *clocks)
{
    uint32_t all[32] = {0}, acquired = 0;

    for (uint32_t m = warps; m != 0; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);
        for (unsigned k = 0; k < 32; k++)
            all[k] = later(all[k], k == i ? clocks[i] : rb->warps[i].seen[k]);
        acquired = later(acquired, rb->warps[i].acquired);
    }
    for (uint32_t m = warps; m != 0; m &= m - 1) {
        struct race_warp *rw = &rb->warps[__builtin_ctz(m)];
        for (unsigned k = 0; k < 32; k++)
            rw->seen[k] = later(rw->seen[k], all[k]);
        rw->acquired = acquired;
        join_lanes(rw, SG_FULL_MASK);
    }
}

static void release(struct sg_race *r, struct sg_warp *w)
{
    struct race_warp *rw = warp_of(w);
    uint32_t **p = &r->published[w->block->linear];

    r->time++;
    rw->clock++;
    if (*p == NULL)
        *p = calloc(32, sizeof(**p));
    for (unsigned k = 0; *p != NULL && k < 32; k++)
        (*p)[k] = later((*p)[k], k == w->index ? rw->clock : rw->seen[k]);
}

/* Does @m come before what lane @l of @w does now? */
static bool ordered(const struct sg_race *r, const struct mark *m, const struct sg_warp *w,
                    unsigned l)
{
    const struct race_warp *rw = warp_of(w);
    unsigned warp = m->thread / SG_WARP, lane = m->thread % SG_WARP;
    const uint32_t *published = r->published[m->block1 - 1];

    if (m->block1 - 1 == w->block->linear) {
        if (warp == w->index && (lane == l || rw->lane_seen[l][lane] > m->lane_clock))
            return true;
        if (warp != w->index && rw->seen[warp] > m->warp_clock)
            return true;
    }
    return published != NULL && published[warp] > m->warp_clock && rw->acquired > m->time;
}

/* ---- instructions that order ----------------------------------------------------------------- */

static uint32_t operand(const struct sg_step *s, unsigned i, unsigned lane)
{
    unsigned size = 0;
    const struct sg_ptx_opnd *o = &s->ptx->opnds[i];
    const uint8_t *p = sg_step_register(s, o, &size);
    uint32_t v = (uint32_t)o->imm;

    if (p != NULL && size != 0)
        memcpy(&v, p + (size_t)lane * size, 4);
    return v;
}

/* The member masks of a .sync instruction are its last operand, if it has any. */
static uint32_t members_of(const struct sg_step *s, unsigned lane)
{
    switch (s->ptx->op) {
    case SG_OP_SHFL:
    case SG_OP_VOTE:
    case SG_OP_MATCH:
    case SG_OP_REDUX:
    case SG_OP_ELECT:
    case SG_OP_BAR:
    case SG_OP_BARRIER:
        return operand(s, s->ptx->nopnds - 1u, lane);
    default:
        return SG_FULL_MASK;
    }
}

static void sync_lanes(const struct sg_step *s)
{
    struct race_warp *rw = warp_of(s->warp);

    for (uint32_t left = s->mask, group; left != 0; left &= ~group) {
        uint32_t members = members_of(s, (unsigned)__builtin_ctz(left));
        group = 0;
        for (uint32_t m = left; m != 0; m &= m - 1)
            if (members_of(s, (unsigned)__builtin_ctz(m)) == members)
                group |= m & -m;
        lanes_come(rw, group, members, s->warp->alive);
    }
}

static void block_barrier(const struct sg_step *s)
{
    struct sg_race_block *rb = s->warp->block->check->race;
    unsigned at = sg_ptx_has(s->ptx, SG_M_RED) ? 1 : 0;
    uint32_t id = operand(s, at, (unsigned)__builtin_ctz(s->mask)) % SG_BARRIERS;

    rb->arrived[id] |= 1u << s->warp->index;
    rb->snap[id][s->warp->index] = ++rb->warps[s->warp->index].clock;
}

void sg_race_barrier(struct sg_check *c, struct sg_block *b, uint32_t id)
{
    struct sg_race_block *rb = b->check->race;

    (void)c;
    join_warps(rb, rb->arrived[id], rb->snap[id]);
    rb->arrived[id] = 0;
}

void sg_race_enter(struct sg_check *c, const struct sg_step *s)
{
    const struct sg_ptx_insn *p = s->ptx;

    struct race_warp *rw = warp_of(s->warp);

    rw->copied = 0;
    if (rw->behind_cluster)
        rw->acquired = c->race->time;
    rw->behind_cluster = false;
    if (s->mask == 0)
        return;
    if (p->op == SG_OP_BAR || p->op == SG_OP_BARRIER) {
        if (sg_ptx_has(p, SG_M_CLUSTER))
            release(c->race, s->warp);
        else if (sg_ptx_has(p, SG_M_WARP))
            sync_lanes(s);
        else
            block_barrier(s);
    } else if (sg_ptx_has(p, SG_M_SYNC)) {
        sync_lanes(s);
    }
}

void sg_race_exit(struct sg_check *c, const struct sg_step *s)
{
    const struct sg_ptx_insn *p = s->ptx;

    (void)c; /* left before the last block has come: what is entered next comes behind all */
    if ((p->op == SG_OP_BAR || p->op == SG_OP_BARRIER) && sg_ptx_has(p, SG_M_CLUSTER))
        warp_of(s->warp)->behind_cluster = true;
}

/* ---- accesses -------------------------------------------------------------------------------- */

static bool is_strong(const struct sg_step *s, const struct sg_access *a)
{
    const struct sg_ptx_insn *p = s->ptx;
    struct race_warp *rw = warp_of(s->warp);

    if (p->op == SG_OP_ATOM || p->op == SG_OP_RED || p->op == SG_OP_MBARRIER)
        return true;
    if (p->op == SG_OP_CP) { /* the second thing written is an mbarrier */
        bool again = a->write && (rw->copied >> a->lane & 1);
        if (a->write)
            rw->copied |= 1u << a->lane;
        return again;
    }
    return sg_ptx_has(p, SG_M_VOLATILE) || sg_ptx_has(p, SG_M_RELAXED) ||
           sg_ptx_has(p, SG_M_ACQUIRE) || sg_ptx_has(p, SG_M_RELEASE) || sg_ptx_has(p, SG_M_MMIO);
}

/* Does a store leave the bytes as they are? */
static bool same_value(const struct sg_step *s, const struct sg_access *a)
{
    const struct sg_ptx_insn *p = s->ptx;
    const struct sg_ptx_opnd *o = &p->opnds[1];
    uint32_t n = o->kind == SG_OPND_VEC ? o->n : 1;
    uint64_t each = a->n / (n ? n : 1);

    if (p->op != SG_OP_ST || each > 8)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        const struct sg_ptx_opnd *e = o->kind == SG_OPND_VEC ? &o->sub[k] : o;
        unsigned size = 0;
        const uint8_t *v = sg_step_register(s, e, &size);
        uint64_t imm = e->kind == SG_OPND_FIMM && e->is_f32 ? e->f32 : (uint64_t)e->imm;
        const void *from = v != NULL ? (const void *)(v + (size_t)a->lane * size) : &imm;

        if ((v == NULL && e->kind != SG_OPND_IMM && e->kind != SG_OPND_FIMM) ||
            memcmp(from, a->bytes + k * each, each) != 0)
            return false;
    }
    return true;
}

static void place_of_mark(const struct sg_race *r, const struct mark *m, struct sg_check_place *p)
{
    const uint32_t *g = r->launch->grid, *b = r->launch->block;
    uint32_t block = m->block1 - 1, t = m->thread;

    sg_check_place_of(p, m->func, m->ptx, NULL, 0);
    p->block[0] = block % g[0];
    p->block[1] = block / g[0] % g[1];
    p->block[2] = block / g[0] / g[1];
    p->thread[0] = t % b[0];
    p->thread[1] = t / b[0] % b[1];
    p->thread[2] = t / b[0] / b[1];
}

static const char *name_of(bool atomic, bool write)
{
    return atomic ? "atomic" : write ? "write" : "read";
}

static bool tell(struct sg_race *r, const struct sg_step *s, const struct sg_access *a,
                 const struct mark *m, bool written, bool atomic)
{
    struct sg_check_report rep = {.rule = SG_CHECK_RACE, .address = a->addr, .size = a->n};

    rep.shared = a->block != NULL;
    sg_check_place_of(&rep.at, s->func, s->ptx, s->warp, a->lane);
    place_of_mark(r, m, &rep.other);
    rep.at.access = name_of(atomic, a->write);
    rep.other.access = name_of(m->atomic, written);
    /* lanes of one store: one of the values is there in the end, and that is often enough */
    rep.lower = (a->write ? same_value(s, a) : m->same) ||
                (m->ptx == s->ptx && m->block1 - 1 == s->warp->block->linear &&
                 m->thread / SG_WARP == s->warp->index && written && a->write);
    return sg_check_tell(r->check, s->warp, a->lane, &rep);
}

struct now { /* the access that is looked at */
    const struct sg_step *s;
    const struct sg_access *a;
    struct mark mark;
};

static bool conflicts(const struct sg_race *r, const struct now *n, const struct mark *m,
                      bool written)
{
    bool read = written ? !n->a->write && m->atomic : n->mark.atomic; /* beside an atomic */

    return m->ptx != NULL && !read && !(m->strong && n->mark.strong) &&
           !ordered(r, m, n->s->warp, n->a->lane);
}

static void remember_read(const struct sg_race *r, const struct now *n, struct unit *u)
{
    struct mark *to = &u->read[0];

    if (to->ptx != NULL && !ordered(r, to, n->s->warp, n->a->lane))
        to = &u->read[1];
    *to = n->mark;
}

static bool look(struct sg_race *r, struct now *n, struct unit *u)
{
    bool atomic = n->mark.atomic, write = n->a->write;

    if (n->mark.strong && u->write.ptx != NULL && u->write.strong)
        warp_of(n->s->warp)->acquired = later(warp_of(n->s->warp)->acquired, u->write.time);
    if (conflicts(r, n, &u->write, true) && !(write && n->mark.same) &&
        !tell(r, n->s, n->a, &u->write, true, atomic))
        return false;
    if (!write) {
        remember_read(r, n, u);
        return true;
    }
    for (unsigned i = 0; i < READERS; i++)
        if (conflicts(r, n, &u->read[i], false) && !tell(r, n->s, n->a, &u->read[i], false, atomic))
            return false;
    memset(u->read, 0, sizeof(u->read));
    u->write = n->mark;
    return true;
}

static bool look_at_page(struct sg_race *r, struct now *n, struct page *p, unsigned from,
                         unsigned bytes)
{
    if (p->shift == 2 && ((from | bytes) & 3) != 0 && !page_split(p))
        return true;
    for (unsigned i = from >> p->shift; i < (from + bytes) >> p->shift; i++)
        if (!look(r, n, &p->units[i]))
            return false;
    return true;
}

static struct mark mark_of(const struct sg_race *r, const struct sg_step *s,
                           const struct sg_access *a)
{
    const struct race_warp *rw = warp_of(s->warp);
    const struct sg_ptx_insn *p = s->ptx;
    struct mark m = {.ptx = p, .func = s->func, .time = r->time};

    m.block1 = (uint32_t)s->warp->block->linear + 1;
    m.thread = (uint16_t)(s->warp->index * SG_WARP + a->lane);
    m.atomic = p->op == SG_OP_ATOM || p->op == SG_OP_RED || p->op == SG_OP_MBARRIER;
    m.warp_clock = rw->clock;
    m.lane_clock = rw->lane_clock[a->lane];
    return m;
}

bool sg_race_access(struct sg_check *c, const struct sg_step *s, const struct sg_access *a)
{
    struct sg_race *r = c->race;
    struct now n = {.s = s, .a = a};
    bool strong = is_strong(s, a);

    if (strong && a->write)
        release(r, s->warp);
    n.mark = mark_of(r, s, a);
    n.mark.strong = strong;
    n.mark.same = a->write && !strong && same_value(s, a);
    for (uint64_t done = 0; done < a->n;) {
        uint64_t addr = a->addr + done;
        unsigned from = (unsigned)(addr & (PAGE_BYTES - 1));
        unsigned here =
            PAGE_BYTES - from < a->n - done ? PAGE_BYTES - from : (unsigned)(a->n - done);
        struct page *p = a->block != NULL ? shared_page(a->block, addr >> PAGE_SHIFT)
                                          : global_page(r, addr >> PAGE_SHIFT);
        if (p != NULL && !look_at_page(r, &n, p, from, here))
            return false;
        done += here;
    }
    return true;
}

/* Memory that a thread was given anew. */
void sg_race_forget(struct sg_check *c, uint64_t addr, uint64_t n)
{
    while (n != 0) {
        unsigned from = (unsigned)(addr & (PAGE_BYTES - 1));
        unsigned here = PAGE_BYTES - from < n ? PAGE_BYTES - from : (unsigned)n;
        struct page *p = global_page(c->race, addr >> PAGE_SHIFT);
        if (p != NULL) {
            unsigned first = from >> p->shift, last = (from + here - 1) >> p->shift;
            memset(&p->units[first], 0, (last - first + 1) * sizeof(*p->units));
        }
        addr += here;
        n -= here;
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct sg_race *sg_race_new(void)
{
    return calloc(1, sizeof(struct sg_race));
}

static void forget_all(struct sg_race *r)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        while (r->buckets[i] != NULL) {
            struct page *next = r->buckets[i]->next;
            page_free(r->buckets[i]);
            r->buckets[i] = next;
        }
    for (uint64_t i = 0; i < r->nblocks && r->published != NULL; i++)
        free(r->published[i]);
    free((void *)r->published);
    r->published = NULL;
    r->nblocks = 0;
    r->last = NULL;
    r->time = 0;
}

void sg_race_free(struct sg_race *r)
{
    if (r == NULL)
        return;
    forget_all(r);
    free(r);
}

void sg_race_begin(struct sg_check *c, const struct sg_launch *l)
{
    struct sg_race *r = c->race;

    forget_all(r);
    r->check = c;
    r->launch = l;
    r->nblocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    r->published = calloc(r->nblocks, sizeof(*r->published));
}

void sg_race_end(struct sg_check *c)
{
    forget_all(c->race);
}

static void shared_forget(struct sg_race_block *rb)
{
    for (size_t i = 0; i < rb->npages; i++)
        page_free(rb->shared[i]);
    free((void *)rb->shared);
    rb->shared = NULL;
    rb->npages = 0;
}

void sg_race_block_free(struct sg_race_block *rb)
{
    if (rb == NULL)
        return;
    shared_forget(rb);
    free(rb);
}

bool sg_race_block_start(struct sg_check *c, struct sg_block *b)
{
    struct sg_race_block *rb = b->check->race;

    if (c->race->published == NULL)
        return false;
    if (rb == NULL)
        rb = b->check->race = calloc(1, sizeof(*rb));
    if (rb == NULL)
        return false;
    shared_forget(rb);
    memset(rb->arrived, 0, sizeof(rb->arrived));
    for (uint32_t i = 0; i < b->nwarps; i++) {
        struct race_warp *rw = &rb->warps[i];
        memset(rw, 0, sizeof(*rw));
        rw->clock = 1;
        for (unsigned l = 0; l < SG_WARP; l++)
            rw->lane_clock[l] = 1;
    }
    rb->npages = (b->shared_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    rb->shared = calloc(rb->npages ? rb->npages : 1, sizeof(*rb->shared));
    return rb->shared != NULL;
}

void sg_race_block_end(struct sg_check *c, struct sg_block *b)
{
    (void)c;
    shared_forget(b->check->race);
}
