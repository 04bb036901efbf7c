/*
 * Which thread of run A is which of run B.
 *
 * A thread's role ("main", "autograd#0", "thread#3") numbers threads in the order of their first
 * events, and threads that race swap their numbers. So threads of the same kind are paired by what
 * they did first: those that did all the same, then those that began the same, then those of whose
 * first works most are the same in the same places, by their arguments and, where that does not
 * tell, by what they wrote; the rest by number.
 */
#include "diff/diff_internal.h"

#include <stdlib.h>
#include <string.h>

#define DEEDS 256u     /* works of a thread that are looked at */
#define UNMATCHED 256u /* threads of a run; more are paired by number */

/* A work of a thread: what it was asked to do, and what that left */
struct deed {
    uint64_t asked, left;
};

struct member {
    const struct tb_trace_thread *th;
    struct tb_trace_segment *seg;
    size_t n;
    uint64_t all, start; /* over all segments; over the first */
    struct member *mate;
    struct deed *deed; /* DEEDS, NULL: not read */
    size_t deeds;
};

struct side {
    struct member *m;
    size_t n;
};

static uint64_t mix_segment(uint64_t h, const struct tb_trace_segment *s)
{
    uint64_t word[4];

    memcpy(word, s->digest, sizeof(s->digest));
    memcpy(word + 2, s->coverage, sizeof(s->coverage));
    h = mix64(mix64(h, s->step), s->count);
    for (size_t i = 0; i < TB_ARRAY_LEN(word); i++)
        h = mix64(h, word[i]);
    return h;
}

static enum tb_status read_side(struct tb_trace *t, uint32_t process, struct side *s,
                                struct tb_error *err)
{
    size_t n;
    const struct tb_trace_thread *th = tb_trace_threads(t, &n);

    s->m = calloc(n ? n : 1, sizeof(*s->m));
    if (!s->m)
        return TB_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        struct member *m = &s->m[s->n];
        if (th[i].process != process)
            continue;
        m->th = &th[i];
        enum tb_status st = tb_trace_segments(t, th[i].id, &m->seg, &m->n, err);
        if (st != TB_OK)
            return st;
        s->n++;
        for (size_t k = 0; k < m->n; k++) {
            m->all = mix_segment(m->all, &m->seg[k]);
            if (k == 0)
                m->start = m->all;
        }
    }
    return TB_OK;
}

/* "thread#3" and "thread#0" are of one kind */
static bool same_kind(const char *a, const char *b)
{
    size_t n = strcspn(a, "#");

    return n == strcspn(b, "#") && strncmp(a, b, n) == 0;
}

enum likeness { SAME_ALL, SAME_START, SAME_KIND };

static bool alike(const struct member *a, const struct member *b, enum likeness how)
{
    if (how != SAME_KIND && (!a->n || !b->n))
        return false;
    if (how == SAME_ALL && (a->n != b->n || a->all != b->all))
        return false;
    if (how == SAME_START && a->start != b->start)
        return false;
    return same_kind(a->th->role, b->th->role);
}

/* In the order of A, the first free one of B; the same role goes before. */
static void pair_up(struct side *a, struct side *b, enum likeness how)
{
    size_t free_from = 0;

    for (size_t i = 0; i < a->n; i++) {
        struct member *m = &a->m[i], *found = NULL;
        if (m->mate)
            continue;
        while (free_from < b->n && b->m[free_from].mate)
            free_from++;
        for (size_t k = free_from; k < b->n; k++) {
            struct member *o = &b->m[k];
            if (o->mate || !alike(m, o, how))
                continue;
            if (!found)
                found = o;
            if (strcmp(m->th->role, o->th->role) == 0) {
                found = o;
                break;
            }
            if (how == SAME_KIND) /* by number */
                break;
        }
        if (found) {
            m->mate = found;
            found->mate = m;
        }
    }
}

/* ---------------------------------------------------------------- by their first works */

/* Two threads that may be the same one */
struct couple {
    struct member *m[2];
    uint32_t score, order;
};

static struct deed deed_of(const struct tb_trace_event *e)
{
    struct deed d = {.asked = mix64(site_alike(e->site), e->e.args), .left = 1};

    for (uint32_t i = 0; i < e->site->access_count; i++) {
        uint64_t fp[2];
        memcpy(fp, e->access[i].fp, sizeof(fp));
        d.left = mix64(mix64(d.left, fp[0]), fp[1]);
    }
    return d;
}

static enum tb_status read_deeds(struct tb_trace *t, struct member *m, struct tb_error *err)
{
    struct tb_cursor *c = NULL;
    const struct tb_trace_event *e = NULL;
    enum tb_status st;

    m->deed = calloc(DEEDS, sizeof(*m->deed));
    if (!m->deed)
        return TB_ERR_NOMEM;
    st = tb_cursor_open(&c, t, m->th->id, m->seg[0].first, m->seg[m->n - 1].last, err);
    while (st == TB_OK && m->deeds < DEEDS && (st = tb_cursor_next(c, &e, err)) == TB_OK && e)
        if (is_work(e->e.kind) && e->e.kind != TB_EV_SYNC)
            m->deed[m->deeds++] = deed_of(e);
    tb_cursor_close(c);
    return st;
}

/* There is one main thread. */
static bool may_read(const struct member *m)
{
    return !m->mate && m->n && m->seg[0].detail && strchr(m->th->role, '#');
}

static size_t count_unmatched(const struct side *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        n += may_read(&s->m[i]);
    return n;
}

static uint32_t score(const struct member *a, const struct member *b)
{
    uint32_t n = 0;

    for (size_t i = 0; i < a->deeds && i < b->deeds; i++)
        if (a->deed[i].asked == b->deed[i].asked)
            n += 4 + 2 * (a->deed[i].left == b->deed[i].left);
    return n ? n + (strcmp(a->th->role, b->th->role) == 0) : 0;
}

/* The highest score first */
static int by_score(const void *p, const void *q)
{
    const struct couple *x = p, *y = q;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static enum tb_status read_unmatched(struct tb_trace *t, struct side *s, struct tb_error *err)
{
    enum tb_status st = TB_OK;

    for (size_t i = 0; st == TB_OK && i < s->n; i++)
        if (may_read(&s->m[i]))
            st = read_deeds(t, &s->m[i], err);
    return st;
}

static size_t list_couples(struct side *a, struct side *b, struct couple *list)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; a->m[i].deed && k < b->n; k++) {
            struct member *m = &a->m[i], *o = &b->m[k];
            uint32_t s = o->deed && same_kind(m->th->role, o->th->role) ? score(m, o) : 0;
            if (s) {
                list[n] = (struct couple){{m, o}, s, (uint32_t)n};
                n++;
            }
        }
    return n;
}

/* Those of whose first works most are the same; nothing is read where there is no choice. */
static enum tb_status pair_by_deeds(struct tb_trace *const t[2], struct side s[2],
                                    struct tb_error *err)
{
    size_t n = count_unmatched(&s[0]), m = count_unmatched(&s[1]);
    struct couple *list;
    enum tb_status st;

    if (!n || !m || n + m < 3 || n > UNMATCHED || m > UNMATCHED)
        return TB_OK;
    list = malloc(n * m * sizeof(*list));
    st = list ? read_unmatched(t[0], &s[0], err) : TB_ERR_NOMEM;
    if (st == TB_OK)
        st = read_unmatched(t[1], &s[1], err);
    n = st == TB_OK ? list_couples(&s[0], &s[1], list) : 0;
    if (n)
        qsort(list, n, sizeof(*list), by_score);
    for (size_t i = 0; i < n; i++) {
        struct member *a = list[i].m[0], *b = list[i].m[1];
        if (a->mate || b->mate)
            continue;
        a->mate = b;
        b->mate = a;
    }
    free(list);
    return st;
}

/* ---------------------------------------------------------------- all of it */

static void hand_over(struct thread_match *to, int side, struct member *m)
{
    to->th[side] = m->th;
    to->seg[side] = m->seg;
    to->n[side] = m->n;
    m->seg = NULL;
}

enum tb_status match_threads(struct tb_trace *const t[2], const uint32_t process[2],
                             struct thread_match **out, size_t *n, struct tb_error *err)
{
    struct side s[2] = {0};
    enum tb_status st = read_side(t[0], process[0], &s[0], err);

    *n = 0;
    *out = NULL;
    if (st == TB_OK)
        st = read_side(t[1], process[1], &s[1], err);
    if (st != TB_OK)
        goto out;
    *out = calloc(s[0].n + s[1].n + 1, sizeof(**out));
    if (!*out) {
        st = TB_ERR_NOMEM;
        goto out;
    }
    pair_up(&s[0], &s[1], SAME_ALL);
    pair_up(&s[0], &s[1], SAME_START);
    if ((st = pair_by_deeds(t, s, err)) != TB_OK)
        goto out;
    pair_up(&s[0], &s[1], SAME_KIND);
    for (size_t i = 0; i < s[0].n; i++) {
        hand_over(&(*out)[*n], 0, &s[0].m[i]);
        if (s[0].m[i].mate)
            hand_over(&(*out)[*n], 1, s[0].m[i].mate);
        (*n)++;
    }
    for (size_t i = 0; i < s[1].n; i++)
        if (!s[1].m[i].mate)
            hand_over(&(*out)[(*n)++], 1, &s[1].m[i]);
out:
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < s[side].n; i++) {
            free(s[side].m[i].seg);
            free(s[side].m[i].deed);
        }
        free(s[side].m);
    }
    return st;
}
