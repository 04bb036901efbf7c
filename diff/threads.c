/*
 * Which thread of run A is which of run B.
 *
 * A thread's role ("main", "autograd#0", "thread#3") numbers threads in the order of their first
 * events, and threads that race swap their numbers. So threads of the same kind are paired by what
 * they did first: those that did all the same, then those that began the same, then by number.
 */
#include "diff/diff_internal.h"

#include <stdlib.h>
#include <string.h>

struct member {
    const struct tb_trace_thread *th;
    struct tb_trace_segment *seg;
    size_t n;
    uint64_t all, start; /* over all segments; over the first */
    struct member *mate;
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
    for (int how = SAME_ALL; how <= SAME_KIND; how++)
        pair_up(&s[0], &s[1], (enum likeness)how);
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
        for (size_t i = 0; i < s[side].n; i++)
            free(s[side].m[i].seg);
        free(s[side].m);
    }
    return st;
}
