/*
 * Two streams side by side: events are pulled step by step into the queues of their threads,
 * aligned, compared in A's order and freed. A step mark is a hard border. A step longer than the
 * window is cut where the alignment is certain; what is behind the cut stays in the queues.
 */
#include "diff/diff_internal.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 65536u
#define PATIENCE 4u /* windows that a thread may wait for its mate */

struct queue {
    struct ev **e;
    size_t n, cap;
    size_t cut; /* events that go now */
};

/* A thread of both runs */
struct lane {
    struct queue q[2];
    size_t at; /* of B's queue: unmatched events before it were compared */
};

struct side {
    struct stream *stream;
    struct ev *next;
    bool end;
    uint32_t *lane_of; /* by thread id: index + 1 */
    size_t lane_cap;
    uint64_t first; /* row of the first event that is compared */
};

struct window {
    struct blame *blame;
    const struct span_options *o;
    struct side s[2];
    struct lane *lanes;
    size_t n;
    struct queue go[2]; /* events of all lanes that go now */
    bool begun;
    struct tb_error *err;
};

static bool push(struct queue *q, struct ev *e)
{
    if (q->n == q->cap) {
        size_t cap = q->cap ? 2 * q->cap : 256;
        struct ev **p = realloc(q->e, cap * sizeof(*p));
        if (!p)
            return false;
        q->e = p;
        q->cap = cap;
    }
    q->e[q->n++] = e;
    return true;
}

static enum tb_status no_memory(struct window *w)
{
    return tb_fail(w->err, TB_ERR_NOMEM, "no memory to compare events");
}

/* ---------------------------------------------------------------- lanes */

static bool set_lane(struct side *s, uint32_t thread, size_t lane)
{
    if (thread >= s->lane_cap) {
        size_t cap = (size_t)thread + 16;
        uint32_t *p = realloc(s->lane_of, cap * sizeof(*p));
        if (!p)
            return false;
        memset(p + s->lane_cap, 0, (cap - s->lane_cap) * sizeof(*p));
        s->lane_of = p;
        s->lane_cap = cap;
    }
    s->lane_of[thread] = (uint32_t)lane + 1;
    return true;
}

static struct lane *new_lane(struct window *w)
{
    struct lane *p = realloc(w->lanes, (w->n + 1) * sizeof(*p));

    if (!p)
        return NULL;
    w->lanes = p;
    p[w->n] = (struct lane){0};
    return &p[w->n++];
}

static struct lane *lane_for(struct window *w, int side, uint32_t thread)
{
    struct side *s = &w->s[side];

    if (thread < s->lane_cap && s->lane_of[thread])
        return &w->lanes[s->lane_of[thread] - 1];
    if (!new_lane(w) || !set_lane(s, thread, w->n - 1))
        return NULL;
    return &w->lanes[w->n - 1];
}

static enum tb_status make_lanes(struct window *w, const struct thread_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!new_lane(w) || (pairs[i].a && !set_lane(&w->s[0], pairs[i].a, i)) ||
            (pairs[i].b && !set_lane(&w->s[1], pairs[i].b, i)))
            return no_memory(w);
    }
    return TB_OK;
}

/* ---------------------------------------------------------------- pulling */

static enum tb_status peek(struct window *w, int side)
{
    struct side *s = &w->s[side];

    if (s->next || s->end)
        return TB_OK;
    enum tb_status st = stream_next(s->stream, &s->next, w->err);
    s->end = st == TB_OK && !s->next;
    return st;
}

/* Events of @step into the queues, @limit at most; *@border: the step is over in this run */
static enum tb_status pull(struct window *w, int side, uint64_t step, size_t limit, bool *border)
{
    struct side *s = &w->s[side];
    enum tb_status st = peek(w, side);

    *border = false;
    for (size_t i = 0; st == TB_OK; i++) {
        if (s->end || s->next->step > step) {
            *border = true;
            return TB_OK;
        }
        if (i == limit)
            return TB_OK;
        if (step < w->o->overlap) {
            free(s->next);
        } else {
            struct lane *l = lane_for(w, side, s->next->thread);
            if (!l || !push(&l->q[side], s->next))
                return no_memory(w);
            s->first = s->first ? s->first : s->next->id;
        }
        s->next = NULL;
        st = peek(w, side);
    }
    return st;
}

/* ---------------------------------------------------------------- cutting */

/* How much of a lane is certain: up to a pair in the first three quarters of both queues */
static void cut_soft(struct lane *l, size_t window)
{
    struct queue *a = &l->q[0], *b = &l->q[1];
    size_t limit = a->n - a->n / 4, j = 0;
    uint64_t last_b = b->n ? b->e[b->n - 1 - b->n / 4]->id : 0;

    a->cut = b->cut = 0;
    for (size_t i = limit; i-- > 0 && !a->cut;)
        if (a->e[i]->mate && a->e[i]->mate->id <= last_b) {
            a->cut = i + 1;
            while (j < b->n && b->e[j] != a->e[i]->mate)
                j++;
            b->cut = j + 1;
        }
    if (!a->cut && (a->n > PATIENCE * window || b->n > PATIENCE * window)) {
        a->cut = limit;
        b->cut = b->n - b->n / 4;
    }
    for (int side = 0; side < 2; side++)
        for (size_t i = l->q[side].cut; i < l->q[side].n; i++) {
            struct ev *e = l->q[side].e[i];
            if (e->mate)
                e->mate->mate = NULL;
            e->mate = NULL;
            e->setup = e->gap = 0; /* judged anew, with what follows */
        }
}

static void mark_lead(struct queue *q)
{
    for (size_t i = 0; i < q->n && !q->e[i]->mate; i++)
        q->e[i]->setup = 1;
}

static void mark_tail(struct queue *q)
{
    for (size_t i = q->n; i-- > 0 && !q->e[i]->mate;)
        q->e[i]->setup = 1;
}

/* The other run's recording was cut off: what comes after its last event */
static void mark_cut(struct queue *q)
{
    for (size_t i = q->n; i-- > 0 && !q->e[i]->mate;)
        q->e[i]->setup = q->e[i]->gap = 1;
}

/* The other run was not recorded all the time: whatever it lacks */
static void mark_gap(struct queue *q)
{
    for (size_t i = 0; i < q->n; i++)
        if (!q->e[i]->mate)
            q->e[i]->setup = q->e[i]->gap = 1;
}

/* Operators, or work of a GPU */
static bool is_detail(const struct ev *e, bool device)
{
    return device ? is_device(e->kind) : e->kind == TB_EV_OP;
}

static size_t count_detail(const struct window *w, int side, bool device)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n; i++)
        for (size_t j = 0; j < w->lanes[i].q[side].n; j++)
            n += is_detail(w->lanes[i].q[side].e[j], device);
    return n;
}

/* A step that one run recorded in detail and the other at its boundary, or without kernels */
static void mark_detail(struct window *w, bool device)
{
    size_t in_a = count_detail(w, 0, device), in_b = count_detail(w, 1, device);
    int side = in_a ? 0 : 1;

    if ((in_a == 0) == (in_b == 0))
        return;
    for (size_t i = 0; i < w->n; i++)
        for (size_t j = 0; j < w->lanes[i].q[side].n; j++) {
            struct ev *e = w->lanes[i].q[side].e[j];
            e->setup = e->setup || (is_detail(e, device) && !e->mate);
        }
}

/* What the other run's level leaves out: kernels inside of operators. A later event that began no
 * later encloses it. */
static void mark_inside(struct queue *q)
{
    uint64_t open = UINT64_MAX;

    for (size_t i = q->n; i-- > 0;) {
        struct ev *e = q->e[i];
        if (e->kind == TB_EV_OP && e->open < open)
            open = e->open;
        else if (is_device(e->kind) && !e->mate && open <= e->seq)
            e->setup = 1;
    }
}

/* Did run @side end here, though it went on? */
static bool is_cut(const struct window *w, int side)
{
    return w->o->cut[side] && w->s[side].end;
}

static unsigned how_to_align(const struct window *w, bool hard, bool lead)
{
    unsigned flags = lead ? ALIGN_FREE_LEAD : 0;

    if (is_cut(w, 0) || is_cut(w, 1))
        flags |= ALIGN_FREE_TAIL;
    if (w->o->gap[0] || w->o->gap[1] || (w->o->ways && w->o->ways->filters))
        flags |= ALIGN_GAP;
    return hard ? flags : flags | ALIGN_PART;
}

static enum tb_status align_lanes(struct window *w, bool hard, bool lead, bool tail)
{
    unsigned flags = how_to_align(w, hard, lead);

    for (size_t i = 0; i < w->n; i++) {
        struct queue *a = &w->lanes[i].q[0], *b = &w->lanes[i].q[1];
        if (align(a->e, a->n, b->e, b->n, flags) != TB_OK)
            return no_memory(w);
        if (w->o->ways)
            ways_part(w->o->ways, a->e, a->n);
        for (int side = 0; side < 2; side++) {
            if (lead)
                mark_lead(&w->lanes[i].q[side]);
            if (tail)
                mark_tail(&w->lanes[i].q[side]);
            if (is_cut(w, !side))
                mark_cut(&w->lanes[i].q[side]);
            if (w->o->gap[!side])
                mark_gap(&w->lanes[i].q[side]);
            if (w->o->levels)
                mark_inside(&w->lanes[i].q[side]);
            if (w->o->ways)
                ways_mark(w->o->ways, w->lanes[i].q[side].e, w->lanes[i].q[side].n, side);
            w->lanes[i].q[side].cut = w->lanes[i].q[side].n;
        }
        if (!hard)
            cut_soft(&w->lanes[i], w->o->window ? w->o->window : WINDOW);
    }
    if (!hard)
        return TB_OK;
    mark_detail(w, false);
    mark_detail(w, true);
    return TB_OK;
}

/* ---------------------------------------------------------------- comparing */

static int by_seq(const void *p, const void *q)
{
    const struct ev *x = *(struct ev *const *)p, *y = *(struct ev *const *)q;

    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static enum tb_status gather(struct window *w, int side)
{
    struct queue *go = &w->go[side];

    go->n = 0;
    for (size_t i = 0; i < w->n; i++)
        for (size_t j = 0; j < w->lanes[i].q[side].cut; j++)
            if (!push(go, w->lanes[i].q[side].e[j]))
                return no_memory(w);
    if (go->n)
        qsort(go->e, go->n, sizeof(*go->e), by_seq);
    return TB_OK;
}

/* Events of B that have no mate, up to row @id */
static enum tb_status singles(struct window *w, struct lane *l, uint64_t id)
{
    enum tb_status st = TB_OK;

    for (; st == TB_OK && l->at < l->q[1].cut && l->q[1].e[l->at]->id < id; l->at++)
        if (!l->q[1].e[l->at]->mate)
            st = blame_single(w->blame, l->q[1].e[l->at], 1);
    return st;
}

static enum tb_status blame_all(struct window *w)
{
    enum tb_status st = TB_OK;

    for (int side = 0; side < 2; side++)
        for (size_t i = 0; st == TB_OK && i < w->go[side].n; i++)
            st = blame_lineage(w->blame, w->go[side].e[i], side);
    for (size_t i = 0; st == TB_OK && i < w->go[0].n; i++) {
        struct ev *x = w->go[0].e[i];
        if (!x->mate) {
            st = blame_single(w->blame, x, 0);
            continue;
        }
        st = singles(w, lane_for(w, 1, x->mate->thread), x->mate->id);
        if (st == TB_OK)
            st = blame_pair(w->blame, x);
    }
    for (size_t i = 0; st == TB_OK && i < w->n; i++)
        st = singles(w, &w->lanes[i], UINT64_MAX);
    return st == TB_ERR_NOMEM ? no_memory(w) : st;
}

static void drop_gone(struct window *w)
{
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < w->go[side].n; i++)
            free(w->go[side].e[i]);
        w->go[side].n = 0;
        for (size_t i = 0; i < w->n; i++) {
            struct queue *q = &w->lanes[i].q[side];
            if (q->cut && q->n > q->cut)
                memmove(q->e, q->e + q->cut, (q->n - q->cut) * sizeof(*q->e));
            q->n -= q->cut;
            q->cut = 0;
            w->lanes[i].at = 0;
        }
    }
}

static void mark_all(struct window *w)
{
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < w->go[side].n; i++)
            stream_mark(w->s[side].stream, w->go[side].e[i]);
}

static enum tb_status compare_window(struct window *w, uint64_t step, bool hard)
{
    bool lead = w->o->lead && step == w->o->overlap, tail = w->o->tail && step == w->o->last;
    uint64_t moved = 0;

    if (!w->begun)
        blame_overlap(w->blame, w->s[0].first, w->s[1].first);
    w->begun = true;
    enum tb_status st = align_lanes(w, hard, lead, tail);
    if (st == TB_OK)
        st = gather(w, 0);
    if (st == TB_OK)
        st = gather(w, 1);
    if (st == TB_OK)
        mark_all(w);
    if (st == TB_OK && align_moved(w->go[0].e, w->go[0].n, w->go[1].e, w->go[1].n, &moved) != TB_OK)
        st = no_memory(w);
    if (st == TB_OK)
        st = blame_all(w);
    drop_gone(w);
    return st;
}

/* ---------------------------------------------------------------- all of it */

static bool jumped(struct window *w, uint64_t step)
{
    if (!w->o->jump || step < w->o->overlap || (w->o->lead && step == w->o->overlap) ||
        blame_result(w->blame)->root_count > 0 || !w->o->jump(w->o->jump_arg, step))
        return false;
    for (int side = 0; side < 2; side++) {
        free(w->s[side].next);
        w->s[side].next = NULL;
        w->s[side].end = false;
    }
    return true;
}

static enum tb_status next_step(struct window *w, bool *over, uint64_t *step)
{
    enum tb_status st = peek(w, 0);

    if (st == TB_OK)
        st = peek(w, 1);
    if (st != TB_OK)
        return st;
    const struct ev *x = w->s[0].next, *y = w->s[1].next;
    *over = !x && !y;
    if (!*over)
        *step = !y || (x && x->step < y->step) ? x->step : y->step;
    *over = *over || *step > w->o->last;
    return TB_OK;
}

static enum tb_status run_steps(struct window *w)
{
    enum tb_status st = TB_OK;
    bool hard = true, over = false;
    uint64_t step = 0;

    while (st == TB_OK && (st = next_step(w, &over, &step)) == TB_OK && !over) {
        bool border_a = false, border_b = false;
        if (hard && jumped(w, step))
            continue;
        bool whole = (w->o->lead && step == w->o->overlap) || (w->o->tail && step == w->o->last);
        size_t limit = whole ? SIZE_MAX : w->o->window ? w->o->window : WINDOW;
        st = pull(w, 0, step, limit, &border_a);
        if (st == TB_OK)
            st = pull(w, 1, step, limit, &border_b);
        hard = border_a && border_b;
        if (st == TB_OK && step >= w->o->overlap)
            st = compare_window(w, step, hard);
    }
    return st;
}

static void release(struct window *w)
{
    for (size_t i = 0; i < w->n; i++)
        for (int side = 0; side < 2; side++) {
            for (size_t j = 0; j < w->lanes[i].q[side].n; j++)
                free(w->lanes[i].q[side].e[j]);
            free(w->lanes[i].q[side].e);
        }
    for (int side = 0; side < 2; side++) {
        free(w->s[side].next);
        free(w->s[side].lane_of);
        free(w->go[side].e);
    }
    free(w->lanes);
}

enum tb_status compare_streams(struct blame *blame, struct stream *a, struct stream *b,
                               const struct thread_pair *pairs, size_t n,
                               const struct span_options *o, struct tb_error *err)
{
    struct window w = {.blame = blame, .o = o, .s = {{.stream = a}, {.stream = b}}, .err = err};
    enum tb_status st = make_lanes(&w, pairs, n);

    if (st == TB_OK)
        st = run_steps(&w);
    release(&w);
    return st;
}
