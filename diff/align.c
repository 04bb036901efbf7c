/*
 * Which event of one run is which of the other: sequences of one thread, between two step marks.
 *
 * From certain to likely: equal beginnings and ends are paired, then events that are unique in both
 * runs (anchors, the longest rising chain of them), first by all that was seen of them, then by
 * site, module and arguments, then by site and module alone, then whatever the launch shape and the
 * code of a kernel are; what lies between two anchors is aligned by dynamic programming in a band.
 * Measured windows of such gaps in a peer: median 96 events, at most 484.
 */
#include "diff/diff_internal.h"

#include <stdlib.h>
#include <string.h>

enum level { BY_CONTENT, BY_OUTPUT, BY_ARGS, BY_KEY, BY_LIKENESS, BY_SCORE };

#define BAND 512u       /* events to either side of the diagonal */
#define FULL (4u << 20) /* cells up to which no band is needed */
#define BLOCK 4096u     /* longer gaps are done piece by piece */

struct part {
    struct ev **a, **b;
    size_t n, m;
};

/* All of it but what it read: of that, much may be missing */
static uint64_t output_of(const struct ev *e)
{
    uint64_t h = mix64(mix64(e->key, e->args), e->flags & TB_EVF_FAILED);

    for (uint32_t i = 0; i < e->n; i++) {
        const struct acc *c = &e->acc[i];
        if (e->site->access[i].mode != 'r' && !(c->flags & ACC_LEFT))
            h = mix64(mix64(mix64(h, c->kind), c->fp.a), c->fp.b);
    }
    return h;
}

static uint64_t key_at(const struct ev *e, enum level level)
{
    switch (level) {
    case BY_CONTENT:
        return e->content;
    case BY_OUTPUT:
        return output_of(e);
    case BY_ARGS:
        return mix64(e->key, e->args);
    case BY_KEY:
        return e->key;
    default:
        return e->alike;
    }
}

static void pair(struct ev *x, struct ev *y)
{
    x->mate = y;
    y->mate = x;
}

static void trim(struct part *p, enum level level, unsigned flags)
{
    while (!(flags & ALIGN_FREE_LEAD) && p->n && p->m &&
           key_at(p->a[0], level) == key_at(p->b[0], level)) {
        pair(*p->a++, *p->b++);
        p->n--;
        p->m--;
    }
    while (!(flags & ALIGN_FREE_TAIL) && p->n && p->m &&
           key_at(p->a[p->n - 1], level) == key_at(p->b[p->m - 1], level)) {
        pair(p->a[p->n - 1], p->b[p->m - 1]);
        p->n--;
        p->m--;
    }
}

/* ---------------------------------------------------------------- anchors */

struct seen {
    uint64_t key;
    uint32_t a, b;       /* last index */
    uint32_t in_a, in_b; /* how often */
};
struct anchor {
    uint32_t a, b;
    uint32_t prev; /* in the chain */
};

static struct seen *slot(struct seen *t, size_t cap, uint64_t key)
{
    size_t i = (size_t)mix64(key, 1) & (cap - 1);

    while ((t[i].in_a || t[i].in_b) && t[i].key != key)
        i = (i + 1) & (cap - 1);
    t[i].key = key;
    return &t[i];
}

/* Events unique in both, in A's order */
static enum tb_status unique_pairs(const struct part *p, enum level level, struct anchor **out,
                                   size_t *count)
{
    size_t cap = 64, k = 0;

    while (cap < 2 * (p->n + p->m))
        cap *= 2;
    struct seen *t = calloc(cap, sizeof(*t));
    struct anchor *list = malloc((p->n < p->m ? p->n : p->m) * sizeof(*list));
    if (!t || !list) {
        free(t);
        free(list);
        return TB_ERR_NOMEM;
    }
    for (size_t i = 0; i < p->n; i++) {
        struct seen *s = slot(t, cap, key_at(p->a[i], level));
        s->in_a++;
        s->a = (uint32_t)i;
    }
    for (size_t j = 0; j < p->m; j++) {
        struct seen *s = slot(t, cap, key_at(p->b[j], level));
        s->in_b++;
        s->b = (uint32_t)j;
    }
    for (size_t i = 0; i < p->n; i++) {
        const struct seen *s = slot(t, cap, key_at(p->a[i], level));
        if (s->in_a == 1 && s->in_b == 1)
            list[k++] = (struct anchor){.a = (uint32_t)i, .b = s->b};
    }
    free(t);
    *out = list;
    *count = k;
    return TB_OK;
}

/* The longest chain that rises in B too; it is moved to the front of @list */
static enum tb_status longest_chain(struct anchor *list, size_t n, size_t *count)
{
    uint32_t *tail =
        malloc((n + 1) * sizeof(*tail)); /* tail[l]: last of the best chain of length l + 1 */
    size_t len = 0;

    if (!tail)
        return TB_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        size_t lo = 0, hi = len;
        while (lo < hi) {
            size_t mid = (lo + hi) / 2;
            if (list[tail[mid]].b < list[i].b)
                lo = mid + 1;
            else
                hi = mid;
        }
        list[i].prev = lo ? tail[lo - 1] : UINT32_MAX;
        tail[lo] = (uint32_t)i;
        if (lo == len)
            len++;
    }
    uint32_t at = len ? tail[len - 1] : 0;
    for (size_t l = len; l-- > 0; at = list[at].prev)
        tail[l] = at;
    for (size_t l = 0; l < len; l++)
        list[l] = list[tail[l]];
    free(tail);
    *count = len;
    return TB_OK;
}

/* ---------------------------------------------------------------- band */

static int score(const struct ev *x, const struct ev *y)
{
    if (x->key != y->key)
        return x->alike == y->alike ? 2 : 0;
    if (x->content == y->content || output_of(x) == output_of(y))
        return x->content == y->content ? 6 : 5;
    return x->args == y->args ? 4 : 3;
}

struct band {
    size_t n, m, width; /* cells a row */
    int *row[2];
    uint8_t *step; /* 1: from above, 2: from the left, 3: pair */
};

static size_t row_from(const struct band *d, size_t i)
{
    size_t centre = d->n ? (size_t)((double)i * (double)d->m / (double)d->n) : 0;

    if (d->width > d->m)
        return 0;
    size_t from = centre > d->width / 2 ? centre - d->width / 2 : 0;
    return from + d->width > d->m + 1 ? d->m + 1 - d->width : from;
}

static int cell(const struct band *d, size_t i, size_t j)
{
    size_t from = row_from(d, i);

    return j < from || j >= from + d->width ? -1 : d->row[i & 1][j - from];
}

static void fill(struct band *d, const struct part *p)
{
    for (size_t i = 0; i <= d->n; i++) {
        size_t from = row_from(d, i);
        for (size_t k = 0; k < d->width && from + k <= d->m; k++) {
            size_t j = from + k;
            int best = i || j ? -1 : 0;
            uint8_t how = 0;
            int left = j && k ? d->row[i & 1][k - 1] : -1;
            int up = i ? cell(d, i - 1, j) : -1;
            int s = i && j ? score(p->a[i - 1], p->b[j - 1]) : 0;
            int diag = s ? cell(d, i - 1, j - 1) : -1;
            if (left > best)
                best = left, how = 2;
            if (up > best)
                best = up, how = 1;
            if (diag >= 0 && diag + s > best)
                best = diag + s, how = 3;
            d->row[i & 1][k] = best;
            d->step[i * d->width + k] = how;
        }
    }
}

/* Pair what the best path pairs, of the first @keep_n and @keep_m events; *@di, *@dj: how far it
 * came */
static void trace_back(const struct band *d, const struct part *p, size_t keep_n, size_t keep_m,
                       size_t *di, size_t *dj)
{
    size_t i = d->n, j = d->m;

    *di = keep_n;
    *dj = keep_m;
    bool first = true;
    while (i || j) {
        size_t from = row_from(d, i);
        uint8_t how = d->step[i * d->width + (j - from)];
        if (how == 3) {
            i--;
            j--;
            if (i < keep_n && j < keep_m) {
                pair(p->a[i], p->b[j]);
                if (first && (keep_n < d->n || keep_m < d->m)) {
                    *di = i + 1;
                    *dj = j + 1;
                }
                first = false;
            }
        } else if (how == 1) {
            i--;
        } else if (how == 2) {
            j--;
        } else {
            break; /* not reached: rows of the band overlap */
        }
    }
}

static enum tb_status by_score(const struct part *whole)
{
    struct part p = *whole;
    enum tb_status st = TB_OK;

    while (st == TB_OK && p.n && p.m) {
        struct band d = {.n = p.n < BLOCK ? p.n : BLOCK};
        size_t reach = FULL / d.n > BLOCK ? FULL / d.n : BLOCK;
        d.m = p.m < reach ? p.m : reach;
        bool last = d.n == p.n && d.m == p.m;
        size_t di, dj;
        d.width = d.n * d.m <= FULL || d.m < 2 * BAND ? d.m + 1 : 2 * BAND + 1;
        d.row[0] = calloc(d.width, sizeof(int));
        d.row[1] = calloc(d.width, sizeof(int));
        d.step = malloc((d.n + 1) * d.width);
        if (d.row[0] && d.row[1] && d.step) {
            fill(&d, &p);
            trace_back(&d, &p, last ? d.n : d.n - d.n / 4, last ? d.m : d.m - d.m / 4, &di, &dj);
            p.a += di;
            p.n -= di;
            p.b += dj;
            p.m -= dj;
        } else {
            st = TB_ERR_NOMEM;
        }
        free(d.row[0]);
        free(d.row[1]);
        free(d.step);
    }
    return st;
}

/* ---------------------------------------------------------------- all of it */

static enum tb_status align_part(struct part p, enum level level, unsigned flags, unsigned depth);

/* Free ends are those of the whole, not of what lies between two anchors */
static unsigned flags_of(unsigned flags, bool first, bool last)
{
    if (!first)
        flags &= ~(unsigned)ALIGN_FREE_LEAD;
    return last ? flags : flags & ~(unsigned)ALIGN_FREE_TAIL;
}

static enum level next_level(enum level level, unsigned flags)
{
    if (flags & ALIGN_GAP) /* names alone would pair what is left with what was not recorded */
        return level == BY_CONTENT ? BY_OUTPUT : BY_SCORE;
    return level == BY_CONTENT ? BY_ARGS : level + 1;
}

static enum tb_status between(const struct part *p, const struct anchor *list, size_t n,
                              enum level level, unsigned flags, unsigned depth)
{
    size_t i = 0, j = 0;
    enum tb_status st = TB_OK;

    for (size_t k = 0; st == TB_OK && k <= n; k++) {
        size_t to_i = k < n ? list[k].a : p->n, to_j = k < n ? list[k].b : p->m;
        struct part gap = {p->a + i, p->b + j, to_i - i, to_j - j};
        if (k < n)
            pair(p->a[to_i], p->b[to_j]);
        st = align_part(gap, depth < 24 ? level : next_level(level, flags),
                        flags_of(flags, k == 0, k == n), depth + 1);
        i = to_i + 1;
        j = to_j + 1;
    }
    return st;
}

/* Are there launches, for which likeness is more than site and module? */
static bool has_launches(const struct part *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->a[i]->alike != p->a[i]->key)
            return true;
    for (size_t j = 0; j < p->m; j++)
        if (p->b[j]->alike != p->b[j]->key)
            return true;
    return false;
}

static enum tb_status align_part(struct part p, enum level level, unsigned flags, unsigned depth)
{
    struct anchor *list = NULL;
    size_t n = 0, chain = 0;
    enum tb_status st = TB_OK;

    if (level == BY_LIKENESS && !has_launches(&p))
        level = BY_SCORE;
    if (level < BY_SCORE)
        trim(&p, level, flags);
    if (!p.n || !p.m)
        return TB_OK;
    if (level >= BY_SCORE)
        return by_score(&p);
    st = unique_pairs(&p, level, &list, &n);
    if (st == TB_OK)
        st = longest_chain(list, n, &chain);
    if (st == TB_OK && chain)
        st = between(&p, list, chain, level, flags, depth);
    else if (st == TB_OK)
        st = align_part(p, next_level(level, flags), flags, depth);
    free(list);
    return st;
}

static bool same_sites(struct ev **a, size_t n, struct ev **b, size_t m)
{
    if (n != m)
        return false;
    for (size_t i = 0; i < n; i++)
        if (a[i]->key != b[i]->key)
            return false;
    return true;
}

enum tb_status align(struct ev **a, size_t n, struct ev **b, size_t m, unsigned flags)
{
    struct part p = {a, b, n, m};

    bool missing = (flags & ALIGN_GAP) && (flags & ALIGN_PART);

    if (missing || !same_sites(a, n, b, m))
        return align_part(p, BY_CONTENT, flags, 0);
    for (size_t i = 0; i < n; i++)
        pair(a[i], b[i]);
    return TB_OK;
}

/* ---------------------------------------------------------------- moved events */

/* Events of A that are still to be had, in order: chains of equal content, or of equal key */
struct pool {
    struct gentab heads; /* key -> value: index + 1 of the first, aux: index + 1 of the last */
    uint32_t *link;      /* index + 1 of the next */
    struct ev **ev;
};

static bool loose(const struct ev *e)
{
    return !e->stays && (!e->mate || e->mate->content != e->content);
}

static enum tb_status pool_fill(struct pool *p, struct ev **a, size_t n, bool by_content)
{
    gentab_init(&p->heads, SIZE_MAX / 4);
    p->link = calloc(n ? n : 1, sizeof(*p->link));
    p->ev = a;
    if (!p->link)
        return TB_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        if (by_content ? !loose(a[i]) : a[i]->mate || !a[i]->moved)
            continue;
        uint64_t key = by_content ? a[i]->content : a[i]->key;
        struct gentab_slot *s = gentab_put(&p->heads, key ? key : 1);
        if (!s)
            return TB_ERR_NOMEM;
        if (s->value)
            p->link[s->aux - 1] = (uint32_t)i + 1;
        else
            s->value = i + 1;
        s->aux = (uint32_t)i + 1;
    }
    return TB_OK;
}

static struct ev *pool_take(struct pool *p, uint64_t key)
{
    struct gentab_slot *s = gentab_get(&p->heads, key ? key : 1);

    if (!s || !s->value)
        return NULL;
    size_t i = s->value - 1;
    s->value = p->link[i];
    return p->ev[i];
}

static void pool_release(struct pool *p)
{
    gentab_release(&p->heads);
    free(p->link);
}

/* Take the pair apart; both may be paired anew by key */
static void part_from(struct ev *e)
{
    if (e->mate) {
        e->mate->moved = e->moved = 1;
        e->mate->mate = NULL;
        e->mate = NULL;
    }
}

/* What could be paired by content: @x of A, @y of B */
struct move {
    struct ev *x, *y;
};

static int by_seq(const void *a, const void *b)
{
    const struct move *m = a, *n = b;

    return m->x->seq < n->x->seq ? -1 : m->x->seq > n->x->seq;
}

/* The stream of a GPU's work, 0: it is none */
static uint64_t stream_of(const struct ev *e)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (e->site->access[i].mode == 'q' && e->acc[i].alloc < TB_ALLOC_EVENT)
            return e->acc[i].alloc;
    return 0;
}

/* What another stream may have written meanwhile says nothing for or against a place. */
static bool is_torn(const struct ev *e)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (e->acc[i].flags & (ACC_MET | ACC_TORN))
            return true;
    return false;
}

static void stay(struct ev *e)
{
    e->stays = 1;
    if (e->mate)
        e->mate->stays = 1;
}

/* Does @y write what @at, which was moved, writes too? */
static bool both_write(const struct ev *at, const struct ev *y)
{
    for (uint32_t i = 0; i < at->n; i++)
        for (uint32_t j = 0; at->site->access[i].mode == 'w' && j < y->n; j++)
            if (y->site->access[j].mode == 'w' && y->acc[j].alloc == at->acc[i].alloc &&
                y->acc[j].lo < at->acc[i].hi && at->acc[i].lo < y->acc[j].hi)
                return true;
    return false;
}

/* In the order of A: does the one before that wrote these bytes in this thread and stream come
 * behind it in B? Then neither was moved. */
static enum tb_status keep_order(struct gentab *last, const struct move *m, size_t k, bool *any)
{
    const struct ev *x = m[k].x, *y = m[k].y;
    uint64_t lane = mix64(x->thread + 1, stream_of(x));

    if (is_torn(x) || is_torn(y))
        return TB_OK;
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->site->access[i].mode != 'w')
            continue;
        uint64_t key = mix64(mix64(lane, x->acc[i].alloc), (uint64_t)x->acc[i].lo);
        struct gentab_slot *s = gentab_put(last, key ? key : 1);
        if (!s)
            return TB_ERR_NOMEM;
        const struct move *before = s->value ? &m[s->value - 1] : NULL;
        if (before && before->y && before->x != x && before->y->seq > y->seq &&
            before->y->thread == y->thread && stream_of(before->y) == stream_of(y) &&
            both_write(before->y, y)) {
            stay(before->x);
            stay(before->y);
            stay(m[k].x);
            stay(m[k].y);
            *any = true;
        }
        s->value = k + 1;
    }
    return TB_OK;
}

/* *@m: what could be moved, in the order of A. Marks those that must stay; *@any: there are some.
 */
static enum tb_status find_moves(struct ev **a, size_t n, struct ev **b, size_t count,
                                 struct move *m, size_t *found, bool *any)
{
    struct pool p = {0};
    struct gentab last;
    enum tb_status st = pool_fill(&p, a, n, true);

    *found = 0;
    *any = false;
    for (size_t j = 0; st == TB_OK && j < count; j++) {
        struct ev *x = loose(b[j]) ? pool_take(&p, b[j]->content) : NULL;
        if (x)
            m[(*found)++] = (struct move){x, b[j]};
    }
    pool_release(&p);
    if (*found > 1)
        qsort(m, *found, sizeof(*m), by_seq);
    gentab_init(&last, SIZE_MAX / 4);
    for (size_t k = 0; st == TB_OK && k < *found; k++)
        st = keep_order(&last, m, k, any);
    gentab_release(&last);
    return st;
}

/* All that it got: key, arguments, what it read; 0: it reads nothing, or not all is known */
static uint64_t asked_of(const struct ev *e)
{
    uint64_t h = mix64(e->key, e->args);
    bool any = false;

    for (uint32_t i = 0; i < e->n; i++) {
        const struct acc *c = &e->acc[i];
        if (e->site->access[i].mode != 'r' && e->site->access[i].mode != 'g')
            continue;
        any = true;
        if (c->flags & ACC_HASHED) {
            h = mix64(mix64(h, c->fp.a), c->fp.b);
            continue;
        }
        if (c->flags & ACC_UNKNOWN)
            return 0;
        for (const struct range *p = e->pieces + c->piece, *end = p + c->pieces; p < end; p++) {
            if (!p->token || p->guess)
                return 0;
            h = mix64(mix64(h, p->token), (uint64_t)(p->lo - p->start));
            h = mix64(h, (uint64_t)(p->hi - c->lo));
        }
    }
    return any ? h : 0;
}

/* Got the same, made something else of it: that is what is looked for, and no other place of it */
static void keep_asked(struct ev **a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct ev *e = a[i], *mate = e->mate;
        if (!mate || e->content == mate->content || is_torn(e) || is_torn(mate))
            continue;
        uint64_t asked = asked_of(e);
        if (asked && asked == asked_of(mate))
            stay(e);
    }
}

/* Those whose mates were taken away */
static enum tb_status pair_left(struct ev **a, size_t n, struct ev **b, size_t m)
{
    struct pool p = {0};
    enum tb_status st = pool_fill(&p, a, n, false);

    for (size_t j = 0; st == TB_OK && j < m; j++) {
        struct ev *x = !b[j]->mate && b[j]->moved ? pool_take(&p, b[j]->key) : NULL;
        if (x)
            pair(x, b[j]);
    }
    pool_release(&p);
    return st;
}

enum tb_status align_moved(struct ev **a, size_t n, struct ev **b, size_t m, uint64_t *moved)
{
    enum { ROUNDS = 16 };
    struct move *move = calloc(m ? m : 1, sizeof(*move));
    enum tb_status st = move ? TB_OK : TB_ERR_NOMEM;
    size_t found = 0;
    bool any = true;

    keep_asked(a, n);
    for (int i = 0; st == TB_OK && any && i < ROUNDS; i++)
        st = find_moves(a, n, b, m, move, &found, &any);
    for (size_t k = 0; st == TB_OK && k < found; k++) {
        if (move[k].x->stays || move[k].y->stays)
            continue;
        part_from(move[k].x);
        part_from(move[k].y);
        pair(move[k].x, move[k].y);
        move[k].x->moved = move[k].y->moved = 1;
        ++*moved;
    }
    if (st == TB_OK && found)
        st = pair_left(a, n, b, m);
    free(move);
    return st;
}
