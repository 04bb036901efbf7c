/*
 * Memory is divided into buckets of 16 KiB; each has its segments, sorted and disjoint, whose bytes
 * have the same last accesses: one write, one atomic, and up to READERS reads since. A reader
 * beyond those takes the oldest's place.
 */
#include "softgpu/driver/order.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKET_SHIFT 14
#define BUCKET (1u << BUCKET_SHIFT)
#define READERS 3
#define CHAINS_MAX 4096 /* then works share chains: races among them may be missed */

/* ---- clocks ---------------------------------------------------------------------------------- */

static bool reserve(struct sg_clock *c, uint32_t n)
{
    uint32_t *ticks;

    if (n <= c->n)
        return true;
    ticks = realloc(c->ticks, n * sizeof(*ticks));
    if (!ticks)
        return false;
    memset(ticks + c->n, 0, (n - c->n) * sizeof(*ticks));
    c->ticks = ticks;
    c->n = n;
    return true;
}

void sg_clock_join(struct sg_clock *c, const struct sg_clock *from)
{
    if (c == from || !reserve(c, from->n))
        return;
    for (uint32_t i = 0; i < from->n; i++)
        if (from->ticks[i] > c->ticks[i])
            c->ticks[i] = from->ticks[i];
}

void sg_clock_release(struct sg_clock *c)
{
    free(c->ticks);
    *c = (struct sg_clock){0};
}

bool sg_clock_knows(const struct sg_clock *c, struct sg_epoch e)
{
    return !e.tick || (e.chain < c->n && c->ticks[e.chain] >= e.tick);
}

/* ---- works ----------------------------------------------------------------------------------- */

struct work { /* kept while a segment names it, or it is the last of its chain */
    struct sg_epoch epoch;
    uint32_t refs;
    uint32_t told; /* mark of the access that has told of it */
    char tag[];
};

struct segment {
    uint32_t from, to; /* in the bucket */
    struct work *write, *atomic, *reads[READERS];
};

struct bucket {
    uint64_t number; /* address >> BUCKET_SHIFT */
    struct segment *segs;
    uint32_t n, cap;
};

struct sg_order {
    pthread_mutex_t lock;
    struct sg_clock last; /* newest tick of each chain */
    struct work **works;  /* newest of each chain */
    struct bucket *table; /* open addressing; segs NULL: free place */
    size_t nbuckets, size;
    uint32_t mark;
};

struct sg_order *sg_order_new(void)
{
    struct sg_order *o = calloc(1, sizeof(*o));

    if (o)
        pthread_mutex_init(&o->lock, NULL);
    return o;
}

static struct work *work_get(struct work *w)
{
    if (w)
        w->refs++;
    return w;
}

static void work_put(struct work *w)
{
    if (w && --w->refs == 0)
        free(w);
}

static void segment_clear(struct segment *s)
{
    work_put(s->write);
    work_put(s->atomic);
    for (unsigned i = 0; i < READERS; i++)
        work_put(s->reads[i]);
}

void sg_order_free(struct sg_order *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->size; i++) {
        for (uint32_t k = 0; k < o->table[i].n; k++)
            segment_clear(&o->table[i].segs[k]);
        free(o->table[i].segs);
    }
    for (uint32_t i = 0; i < o->last.n; i++)
        work_put(o->works[i]);
    free(o->works);
    free(o->table);
    sg_clock_release(&o->last);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* Does a clock know all of a chain? */
static bool covers(const struct sg_order *o, const struct sg_clock *c, uint32_t chain)
{
    return chain < o->last.n && chain < c->n && c->ticks[chain] >= o->last.ticks[chain];
}

static uint32_t chain_for(struct sg_order *o, const struct sg_clock *c, uint32_t hint)
{
    struct work **works;
    uint32_t n = o->last.n;

    if (covers(o, c, hint))
        return hint;
    for (uint32_t i = 0; i < n && i < c->n; i++)
        if (covers(o, c, i))
            return i;
    if (n == CHAINS_MAX)
        return hint % n;
    works = realloc(o->works, (n + 1) * sizeof(struct work *));
    if (works)
        o->works = works;
    if (!works || !reserve(&o->last, n + 1))
        return n ? hint % n : UINT32_MAX;
    o->works[n] = NULL;
    return n;
}

struct sg_epoch sg_order_begin(struct sg_order *o, struct sg_clock *c, uint32_t *hint,
                               const void *tag, size_t size)
{
    struct work *w = calloc(1, sizeof(*w) + size);
    uint32_t chain;

    if (!w)
        return (struct sg_epoch){0};
    pthread_mutex_lock(&o->lock);
    chain = chain_for(o, c, *hint);
    if (chain == UINT32_MAX || !reserve(c, chain + 1)) {
        pthread_mutex_unlock(&o->lock);
        free(w);
        return (struct sg_epoch){0};
    }
    w->refs = 1;
    w->epoch = (struct sg_epoch){chain, ++o->last.ticks[chain]};
    memcpy(w->tag, tag, size);
    work_put(o->works[chain]);
    o->works[chain] = w;
    c->ticks[chain] = w->epoch.tick;
    *hint = chain;
    pthread_mutex_unlock(&o->lock);
    return w->epoch;
}

void sg_order_all(struct sg_order *o, struct sg_clock *c)
{
    pthread_mutex_lock(&o->lock);
    sg_clock_join(c, &o->last);
    pthread_mutex_unlock(&o->lock);
}

/* ---- buckets --------------------------------------------------------------------------------- */

static struct bucket *place_of(const struct sg_order *o, uint64_t number)
{
    size_t at = (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (o->size - 1);

    while (o->table[at].segs && o->table[at].number != number)
        at = (at + 1) & (o->size - 1);
    return &o->table[at];
}

static bool grow(struct sg_order *o)
{
    struct sg_order old = *o;

    o->size = o->size ? o->size * 2 : 64;
    o->table = calloc(o->size, sizeof(*o->table));
    if (!o->table) {
        o->table = old.table;
        o->size = old.size;
        return false;
    }
    for (size_t i = 0; i < old.size; i++)
        if (old.table[i].segs)
            *place_of(o, old.table[i].number) = old.table[i];
    free(old.table);
    return true;
}

/* The bucket of a number; NULL: none, or (@make) no memory. */
static struct bucket *bucket_of(struct sg_order *o, uint64_t number, bool make)
{
    struct bucket *b = o->size ? place_of(o, number) : NULL;

    if (b && b->segs)
        return b;
    if (!make || (2 * (o->nbuckets + 1) > o->size && !grow(o)))
        return NULL;
    b = place_of(o, number);
    b->segs = malloc(2 * sizeof(*b->segs));
    if (!b->segs)
        return NULL;
    b->number = number;
    b->n = 0;
    b->cap = 2;
    o->nbuckets++;
    return b;
}

static bool insert(struct bucket *b, uint32_t at, struct segment s)
{
    if (b->n == b->cap) {
        uint32_t cap = b->cap ? 2 * b->cap : 2;
        struct segment *segs = realloc(b->segs, cap * sizeof(*segs));

        if (!segs)
            return false;
        b->segs = segs;
        b->cap = cap;
    }
    memmove(&b->segs[at + 1], &b->segs[at], (b->n - at) * sizeof(s));
    b->segs[at] = s;
    b->n++;
    return true;
}

/* The first segment that ends behind @off. */
static uint32_t find(const struct bucket *b, uint32_t off)
{
    uint32_t lo = 0, hi = b->n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (b->segs[mid].to <= off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Two of segment @at, which holds @off inside. */
static bool split(struct bucket *b, uint32_t at, uint32_t off)
{
    struct segment right = b->segs[at];

    right.from = off;
    if (!insert(b, at + 1, right))
        return false;
    work_get(right.write);
    work_get(right.atomic);
    for (unsigned i = 0; i < READERS; i++)
        work_get(right.reads[i]);
    b->segs[at].to = off;
    return true;
}

/* ---- accesses -------------------------------------------------------------------------------- */

struct access { /* one that is being entered */
    struct sg_order *o;
    struct work *work;
    const struct sg_clock *clock;
    enum sg_access_kind kind;
    sg_conflict_fn *fn;
    void *arg;
};

static void compare(const struct access *a, struct work *before, enum sg_access_kind kind,
                    uint64_t addr, uint64_t n)
{
    if (!before || before == a->work || before->told == a->o->mark ||
        sg_clock_knows(a->clock, before->epoch))
        return;
    before->told = a->o->mark;
    a->fn(a->arg, before->tag, kind, addr, n);
}

static void compare_all(const struct access *a, const struct segment *s, uint64_t base)
{
    uint64_t addr = base + s->from, n = s->to - s->from;

    compare(a, s->write, SG_ACCESS_WRITE, addr, n);
    if (a->kind != SG_ACCESS_ATOMIC)
        compare(a, s->atomic, SG_ACCESS_ATOMIC, addr, n);
    for (unsigned i = 0; i < READERS && a->kind != SG_ACCESS_READ; i++)
        compare(a, s->reads[i], SG_ACCESS_READ, addr, n);
}

static void set(struct work **at, struct work *w)
{
    work_get(w);
    work_put(*at);
    *at = w;
}

/* In the place of a read that this one knows of, else of the oldest. */
static void add_read(struct segment *s, const struct access *a)
{
    unsigned at = 0;

    while (at < READERS - 1 && s->reads[at] && s->reads[at] != a->work &&
           !sg_clock_knows(a->clock, s->reads[at]->epoch))
        at++;
    if (s->reads[at] && s->reads[at] != a->work && !sg_clock_knows(a->clock, s->reads[at]->epoch)) {
        work_put(s->reads[0]);
        memmove(&s->reads[0], &s->reads[1], (READERS - 1) * sizeof(s->reads[0]));
        s->reads[READERS - 1] = NULL;
    }
    set(&s->reads[at], a->work);
}

static void note(struct segment *s, const struct access *a)
{
    if (a->kind == SG_ACCESS_READ) {
        add_read(s, a);
        return;
    }
    if (a->kind == SG_ACCESS_ATOMIC) {
        set(&s->atomic, a->work);
        return;
    }
    set(&s->write, a->work);
    set(&s->atomic, NULL);
    for (unsigned i = 0; i < READERS; i++)
        set(&s->reads[i], NULL);
}

static bool same(const struct segment *a, const struct segment *b)
{
    return a->to == b->from && a->write == b->write && a->atomic == b->atomic &&
           memcmp(a->reads, b->reads, sizeof(a->reads)) == 0;
}

/* Joins a segment with the one before it, if they say the same. */
static void join(struct bucket *b, uint32_t at)
{
    if (at == 0 || at >= b->n || !same(&b->segs[at - 1], &b->segs[at]))
        return;
    b->segs[at - 1].to = b->segs[at].to;
    segment_clear(&b->segs[at]);
    b->n--;
    memmove(&b->segs[at], &b->segs[at + 1], (b->n - at) * sizeof(b->segs[0]));
}

/* Segments whose ends are the range's; none inside may miss. False: no memory. */
static bool cut(struct bucket *b, uint32_t from, uint32_t to)
{
    uint32_t at = find(b, from);

    if (at < b->n && b->segs[at].from < from && !split(b, at, from))
        return false;
    at = find(b, to);
    return at == b->n || b->segs[at].from >= to || split(b, at, to);
}

static void enter(struct bucket *b, uint32_t from, uint32_t to, const struct access *a)
{
    uint64_t base = b->number << BUCKET_SHIFT;
    uint32_t first, at;

    if (!cut(b, from, to))
        return;
    first = find(b, from);
    for (at = first; from < to; at++) {
        uint32_t end = at < b->n && b->segs[at].from < to ? b->segs[at].from : to;

        if (from < end && !insert(b, at, (struct segment){.from = from, .to = end}))
            return;
        compare_all(a, &b->segs[at], base);
        note(&b->segs[at], a);
        from = b->segs[at].to;
    }
    for (at++; at-- > first;)
        join(b, at);
}

void sg_order_access(struct sg_order *o, struct sg_epoch e, const struct sg_clock *c, uint64_t addr,
                     uint64_t n, enum sg_access_kind kind, sg_conflict_fn *fn, void *arg)
{
    struct access a = {o, NULL, c, kind, fn, arg};

    pthread_mutex_lock(&o->lock);
    if (e.tick && e.chain < o->last.n)
        a.work = o->works[e.chain];
    if (a.work && a.work->epoch.tick != e.tick)
        a.work = NULL; /* another one has taken its chain: not a running work */
    o->mark++;
    while (a.work && n) {
        uint32_t off = (uint32_t)(addr & (BUCKET - 1));
        uint32_t here = BUCKET - off < n ? BUCKET - off : (uint32_t)n;
        struct bucket *b = bucket_of(o, addr >> BUCKET_SHIFT, true);

        if (!b)
            break;
        enter(b, off, off + here, &a);
        addr += here;
        n -= here;
    }
    pthread_mutex_unlock(&o->lock);
}

void sg_order_forget(struct sg_order *o, uint64_t addr, uint64_t n)
{
    pthread_mutex_lock(&o->lock);
    while (n) {
        uint32_t off = (uint32_t)(addr & (BUCKET - 1));
        uint32_t here = BUCKET - off < n ? BUCKET - off : (uint32_t)n;
        struct bucket *b = bucket_of(o, addr >> BUCKET_SHIFT, false);

        if (b && cut(b, off, off + here)) {
            uint32_t first = find(b, off), last = first;

            while (last < b->n && b->segs[last].from < off + here)
                segment_clear(&b->segs[last++]);
            memmove(&b->segs[first], &b->segs[last], (b->n - last) * sizeof(b->segs[0]));
            b->n -= last - first;
        }
        addr += here;
        n -= here;
    }
    pthread_mutex_unlock(&o->lock);
}
