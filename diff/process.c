/*
 * One process in two runs: which steps both have, which segments differ, and where to begin to
 * read.
 *
 * Segments with equal digest and coverage are not read. Reading begins a step before the first that
 * differs (or 64 segments before it, where there are no steps), so that buffers are known by then,
 * and jumps again over equal steps as long as nothing has parted.
 */
#include "diff/diff_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP 64u
#define NOWHERE UINT64_MAX

/* A thread of both runs, by its segments; [base, n) are compared */
struct track {
    uint32_t id[2];
    struct tb_trace_segment *seg[2];
    size_t n[2], base[2];
    size_t differs; /* offset from base of the first that differs, SIZE_MAX: none */
};

struct reader {
    struct tb_trace *t;
    struct tb_cursor *cursor;
    uint64_t *from; /* by thread id: rows before it are not given out */
    size_t threads;
    bool empty;
    uint64_t relabel, label; /* events of step `relabel` belong to step `label` */
    struct tb_trace_event e;
};

struct job {
    struct report_builder *rb;
    struct blame *blame;
    uint32_t process[2];
    struct track *track;
    size_t tracks;
    struct reader r[2];
    struct stream *stream[2];
    struct span_options o;
    uint64_t first[2], last[2]; /* steps */
    uint64_t skipped, passed;   /* events; up to where reading began last */
    struct tb_error *err;
    enum tb_status st; /* of a jump */
};

/* ---------------------------------------------------------------- reading */

static enum tb_status reader_next(void *ctx, const struct tb_trace_event **out,
                                  struct tb_error *err)
{
    struct reader *r = ctx;
    const struct tb_trace_event *e = NULL;

    while (!r->empty) {
        enum tb_status st = tb_cursor_next(r->cursor, &e, err);
        if (st != TB_OK)
            return st;
        if (!e || e->e.thread >= r->threads || e->id >= r->from[e->e.thread])
            break;
    }
    if (e && r->relabel != NOWHERE && e->e.step == r->relabel) {
        r->e = *e;
        r->e.e.step = r->label;
        e = &r->e;
    }
    *out = e;
    return TB_OK;
}

static const char *reader_range(void *ctx, uint32_t id)
{
    struct reader *r = ctx;

    return tb_trace_range(r->t, id);
}

static struct ev_source source_of(struct reader *r)
{
    return (struct ev_source){.next = reader_next, .range = reader_range, .ctx = r};
}

/* ---------------------------------------------------------------- segments */

static bool same_segment(const struct tb_trace_segment *a, const struct tb_trace_segment *b)
{
    return a->count == b->count && a->step == b->step && memcmp(a->digest, b->digest, 16) == 0 &&
           memcmp(a->coverage, b->coverage, 16) == 0;
}

static bool within(const struct job *j, const struct track *t, int side, size_t k)
{
    size_t i = t->base[side] + k;

    return t->seg[side] && i < t->n[side] && t->seg[side][i].step <= j->o.last;
}

/* The first segment from offset @k on that differs */
static size_t find_difference(const struct job *j, const struct track *t, size_t k)
{
    for (;; k++) {
        bool a = within(j, t, 0, k), b = within(j, t, 1, k);
        if (!a && !b)
            return SIZE_MAX;
        if (a != b || !same_segment(&t->seg[0][t->base[0] + k], &t->seg[1][t->base[1] + k]))
            return k;
    }
}

static const struct tb_trace_segment *segment(const struct track *t, int side, size_t k)
{
    return t->base[side] + k < t->n[side] ? &t->seg[side][t->base[side] + k] : NULL;
}

static uint64_t step_at(const struct track *t, size_t k)
{
    const struct tb_trace_segment *a = segment(t, 0, k), *b = segment(t, 1, k);

    return !b || (a && a->step < b->step) ? a->step : b->step;
}

/* Step of the first segment that differs over all threads, looking from step @from on */
static uint64_t first_step_that_differs(struct job *j, uint64_t from)
{
    uint64_t step = NOWHERE;

    for (size_t i = 0; i < j->tracks; i++) {
        struct track *t = &j->track[i];
        size_t k = 0;
        while (segment(t, 0, k) && segment(t, 1, k) && step_at(t, k) < from)
            k++;
        t->differs = find_difference(j, t, k);
        if (t->differs != SIZE_MAX && step_at(t, t->differs) < step)
            step = step_at(t, t->differs);
    }
    return step;
}

/* Number in A where reading shall begin, so that what step @step needs is known */
static uint64_t begin_seq(const struct job *j, uint64_t step)
{
    uint64_t at = NOWHERE, near = NOWHERE, first = NOWHERE;
    uint64_t from = step > j->first[0] && step > 0 ? step - 1 : step;

    for (size_t i = 0; i < j->tracks; i++) {
        const struct track *t = &j->track[i];
        for (size_t k = 0; segment(t, 0, k); k++)
            if (segment(t, 0, k)->step >= from) {
                at = segment(t, 0, k)->seq_first < at ? segment(t, 0, k)->seq_first : at;
                break;
            }
        size_t d = t->differs;
        if (d == SIZE_MAX || !segment(t, 0, d) || segment(t, 0, d)->seq_first >= first)
            continue;
        first = segment(t, 0, d)->seq_first;
        near = d < WARM_UP ? NOWHERE : segment(t, 0, d - WARM_UP)->seq_first;
    }
    return near != NOWHERE && near > at ? near : at;
}

/* Where each thread begins, given the number in A; @passed: events before that, in A */
static size_t begin_at(const struct track *t, uint64_t seq, uint64_t *passed)
{
    size_t k = 0;

    for (; segment(t, 0, k) && segment(t, 0, k)->seq_first < seq; k++) {
        if (t->differs != SIZE_MAX && k >= t->differs)
            break;
        *passed += segment(t, 0, k)->count;
    }
    return k;
}

static enum tb_status open_reader(struct job *j, int side, uint64_t first)
{
    struct reader *r = &j->r[side];

    tb_cursor_close(r->cursor);
    r->cursor = NULL;
    r->empty = first == NOWHERE;
    if (r->empty)
        return TB_OK;
    return tb_cursor_open_process(&r->cursor, r->t, j->process[side], first, INT64_MAX, j->err);
}

/* Both readers begin at number @seq of A, or at the end */
static enum tb_status begin(struct job *j, uint64_t seq)
{
    uint64_t first[2] = {NOWHERE, NOWHERE}, passed = 0;
    enum tb_status st = TB_OK;

    for (size_t i = 0; i < j->tracks; i++) {
        struct track *t = &j->track[i];
        size_t k = begin_at(t, seq, &passed);
        for (int side = 0; side < 2; side++) {
            const struct tb_trace_segment *s = segment(t, side, k);
            if (!t->id[side])
                continue;
            j->r[side].from[t->id[side]] = s ? s->first : NOWHERE;
            if (s && s->first < first[side])
                first[side] = s->first;
        }
    }
    for (int side = 0; st == TB_OK && side < 2; side++)
        st = open_reader(j, side, first[side]);
    return st;
}

/* ---------------------------------------------------------------- jumping */

static uint64_t events_between(const struct job *j, uint64_t from, uint64_t to)
{
    uint64_t n = 0;

    for (size_t i = 0; i < j->tracks; i++)
        for (size_t k = 0; segment(&j->track[i], 0, k); k++) {
            const struct tb_trace_segment *s = segment(&j->track[i], 0, k);
            if (s->step >= from && s->step < to && s->step <= j->o.last)
                n += s->count;
        }
    return n;
}

/* Before step @step, nothing has parted: go on where the next difference is, if that is far */
static bool jump(void *arg, uint64_t step)
{
    struct job *j = arg;

    if (j->passed != NOWHERE && step < j->passed)
        return false; /* looked at already: nothing far ahead before that step */
    uint64_t next = first_step_that_differs(j, step);
    j->passed = next == NOWHERE ? NOWHERE : next + 1;
    if (next != NOWHERE && next < step + 3)
        return false;
    uint64_t to = next == NOWHERE ? NOWHERE : next - 1;
    j->skipped += events_between(j, step, to);
    j->st = next == NOWHERE ? TB_OK : begin(j, begin_seq(j, next));
    for (int side = 0; side < 2; side++) {
        if (next == NOWHERE || j->st != TB_OK)
            j->r[side].empty = true;
        struct ev_source s = source_of(&j->r[side]);
        stream_source(j->stream[side], &s, true);
    }
    return true;
}

/* ---------------------------------------------------------------- which steps */

/* The distinct steps at the begin of a run: a resumed one begins with step 0 and goes on at another
 */
static void find_steps(struct job *j, int side)
{
    uint64_t first = NOWHERE, second = NOWHERE, last = 0;

    for (size_t i = 0; i < j->tracks; i++)
        for (size_t k = 0; k < j->track[i].n[side]; k++) {
            uint64_t step = j->track[i].seg[side][k].step;
            if (step < first) {
                second = first;
                first = step;
            } else if (step > first && step < second) {
                second = step;
            }
            last = step > last ? step : last;
        }
    j->first[side] = first == NOWHERE ? 0 : first;
    j->last[side] = last;
    if (second != NOWHERE && second > first + 1) {
        j->r[side].relabel = first;
        j->r[side].label = second;
        j->first[side] = second;
    }
}

static bool has_step(const struct job *j, int side, uint64_t step)
{
    for (size_t i = 0; i < j->tracks; i++)
        for (size_t k = 0; k < j->track[i].n[side]; k++)
            if (j->track[i].seg[side][k].step == step)
                return true;
    return false;
}

/* Segments are compared by position: from the first on, or after the step in which a run begins
 * late */
static void set_bases(struct job *j)
{
    for (size_t i = 0; j->o.lead && i < j->tracks; i++)
        for (int side = 0; side < 2; side++) {
            struct track *t = &j->track[i];
            while (t->base[side] < t->n[side] && t->seg[side][t->base[side]].step <= j->o.overlap)
                t->base[side]++;
        }
}

static bool meta_differs(struct job *j, const char *key)
{
    const char *a = tb_trace_meta(j->r[0].t, key), *b = tb_trace_meta(j->r[1].t, key);

    return (a || b) && (!a || !b || strcmp(a, b) != 0);
}

/* What comes after the last step mark is a step to a trace of operators and nothing to one of
 * steps. */
static bool other_detail(struct job *j)
{
    return meta_differs(j, "level") || meta_differs(j, "steps");
}

/* A gap that both runs have, or that the other cannot fill, is none */
static void drop_labels(struct job *j)
{
    bool both =
        j->r[0].relabel != NOWHERE && j->r[1].relabel != NOWHERE && j->first[0] == j->first[1];

    for (int side = 0; side < 2; side++) {
        struct reader *r = &j->r[side];
        if (r->relabel == NOWHERE || (!both && has_step(j, !side, r->label)))
            continue;
        j->first[side] = r->relabel;
        r->relabel = NOWHERE;
    }
}

static enum tb_status choose_span(struct job *j)
{
    struct tb_diff_report *rep = j->rb->rep;

    find_steps(j, 0);
    find_steps(j, 1);
    drop_labels(j);
    j->o.overlap = j->first[0] > j->first[1] ? j->first[0] : j->first[1];
    j->o.last = j->last[0] < j->last[1] ? j->last[0] : j->last[1];
    j->o.lead = j->first[0] != j->first[1];
    j->o.tail = j->last[0] != j->last[1];
    j->o.levels = meta_differs(j, "level");
    j->o.ways = &j->rb->ways;
    if (meta_differs(j, "cuda.launch_bytes"))
        blame_other_leaves(j->blame);
    for (int side = 0; side < 2; side++) {
        j->o.gap[side] = j->rb->paused[side] || tb_trace_lost(j->r[side].t, NULL, NULL);
        j->o.cut[side] = !tb_trace_info(j->r[side].t)->complete;
    }
    set_bases(j);
    if (j->o.overlap > j->o.last)
        return add_line(&rep->notes, &rep->note_count, 1,
                        "no step is in both runs: A has %" PRIu64 "..%" PRIu64 ", B has %" PRIu64
                        "..%" PRIu64,
                        j->first[0], j->last[0], j->first[1], j->last[1]);
    if (!rep->steps_known || j->o.overlap < rep->first_step)
        rep->first_step = j->o.overlap;
    if (!rep->steps_known || j->o.last > rep->last_step)
        rep->last_step = j->o.last;
    rep->steps_known = true;
    if (!j->o.lead && !j->o.tail)
        return TB_OK;
    return add_line(&rep->notes, &rep->note_count, 0,
                    "steps %" PRIu64 "..%" PRIu64 " are compared: A has %" PRIu64 "..%" PRIu64
                    ", B has %" PRIu64 "..%" PRIu64,
                    j->o.overlap, j->o.last, j->first[0], j->last[0], j->first[1], j->last[1]);
}

/* The same command, begun at the same step, and one run stopped earlier */
static enum tb_status note_early_end(struct job *j)
{
    const struct tb_diff_report *rep = j->rb->rep;
    uint64_t apart = j->last[0] > j->last[1] ? j->last[0] - j->last[1] : j->last[1] - j->last[0];

    if (apart <= 1 && other_detail(j))
        return TB_OK;

    if (!j->o.tail || j->o.lead || j->rb->incomplete || !rep->run[0].complete ||
        !rep->run[1].complete || strcmp(rep->run[0].command, rep->run[1].command) != 0)
        return TB_OK;
    struct root *r = blame_add_root(j->blame, TB_CAUSE_CONTROL_FLOW, 0x656E64);
    if (!r)
        return TB_ERR_NOMEM;
    int early = j->last[0] < j->last[1] ? 0 : 1;
    r->r.step = j->o.last;
    (void)snprintf(r->r.summary, sizeof(r->r.summary),
                   "run %c ends in step %" PRIu64 ", run %c goes on to step %" PRIu64,
                   early ? 'B' : 'A', j->last[early], early ? 'A' : 'B', j->last[!early]);
    return TB_OK;
}

/* ---------------------------------------------------------------- threads */

static enum tb_status unmatched_thread(struct job *j, int side, const struct tb_trace_thread *th)
{
    struct tb_diff_report *rep = j->rb->rep;

    return add_line(&rep->notes, &rep->note_count, 0,
                    "thread '%s' is in run %c only (%" PRIu64 " events)", th->role,
                    side ? 'B' : 'A', th->events);
}

static enum tb_status make_tracks(struct job *j)
{
    struct tb_trace *const t[2] = {j->r[0].t, j->r[1].t};
    struct thread_match *match = NULL;
    size_t n = 0;
    enum tb_status st = match_threads(t, j->process, &match, &n, j->err);

    if (st == TB_OK)
        j->track = calloc(n ? n : 1, sizeof(*j->track));
    if (st == TB_OK && !j->track)
        st = TB_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        struct thread_match *m = &match[i];
        if (st != TB_OK) {
            free(m->seg[0]);
            free(m->seg[1]);
            continue;
        }
        struct track *p = &j->track[j->tracks++];
        p->differs = SIZE_MAX;
        for (int side = 0; side < 2; side++) {
            p->id[side] = m->th[side] ? m->th[side]->id : 0;
            p->seg[side] = m->seg[side];
            p->n[side] = m->n[side];
        }
        for (int side = 0; st == TB_OK && side < 2; side++)
            if (m->th[side] && !m->th[!side] && m->th[side]->events)
                st = unmatched_thread(j, side, m->th[side]);
    }
    free(match);
    return st;
}

static enum tb_status make_readers(struct job *j)
{
    for (int side = 0; side < 2; side++) {
        struct reader *r = &j->r[side];
        r->relabel = NOWHERE;
        for (size_t i = 0; i < j->tracks; i++)
            if (j->track[i].id[side] >= r->threads)
                r->threads = (size_t)j->track[i].id[side] + 1;
        r->from = calloc(r->threads ? r->threads : 1, sizeof(*r->from));
        if (!r->from)
            return TB_ERR_NOMEM;
    }
    return TB_OK;
}

/* ---------------------------------------------------------------- all of it */

/* The first segment that differs was thinned out: no more can be said than where */
static bool detail_is_gone(struct job *j, uint64_t step)
{
    for (size_t i = 0; i < j->tracks; i++)
        for (int side = 0; side < 2; side++) {
            const struct track *t = &j->track[i];
            if (t->differs == SIZE_MAX || step_at(t, t->differs) != step)
                continue;
            const struct tb_trace_segment *s = segment(t, side, t->differs);
            if (s && !s->detail)
                return true;
        }
    return false;
}

static enum tb_status report_gone(struct job *j, uint64_t step)
{
    for (int side = 0; side < 2; side++)
        if (j->o.gap[side] ||
            j->o.cut[side]) { /* the segments differ by what is missing, perhaps */
            note_incomplete(j->rb,
                            "what run %c did not record, and deleted events, hide step %" PRIu64,
                            side ? 'B' : 'A', step);
            return TB_OK;
        }
    struct root *r = blame_add_root(j->blame, TB_CAUSE_UNEXPLAINED, 0x676F6E65);

    if (!r)
        return TB_ERR_NOMEM;
    r->r.step = step;
    (void)snprintf(r->r.summary, sizeof(r->r.summary),
                   "step %" PRIu64 " differs; its events were deleted to keep the trace small "
                   "(--max-size)",
                   step);
    return TB_OK;
}

static enum tb_status stream_all(struct job *j, bool mid)
{
    struct thread_pair *pairs = calloc(j->tracks ? j->tracks : 1, sizeof(*pairs));
    enum tb_status st = pairs ? TB_OK : TB_ERR_NOMEM;

    for (size_t i = 0; pairs && i < j->tracks; i++)
        pairs[i] = (struct thread_pair){j->track[i].id[0], j->track[i].id[1]};
    for (int side = 0; st == TB_OK && side < 2; side++) {
        struct ev_source s = source_of(&j->r[side]);
        j->stream[side] = stream_new(&s);
        if (!j->stream[side])
            st = TB_ERR_NOMEM;
        else if (mid)
            stream_source(j->stream[side], &s, true);
    }
    j->o.jump = jump;
    j->o.jump_arg = j;
    if (st == TB_OK)
        st = compare_streams(j->blame, j->stream[0], j->stream[1], pairs, j->tracks, &j->o, j->err);
    free(pairs);
    return st == TB_OK ? j->st : st;
}

/* Runs that begin at different steps: the earlier one is looked at from a step before the other's
 * first */
static enum tb_status begin_late(struct job *j)
{
    uint64_t from = j->o.overlap ? j->o.overlap - 1 : 0;

    for (int side = 0; side < 2; side++) {
        uint64_t first = NOWHERE;
        for (size_t i = 0; i < j->tracks; i++) {
            const struct track *t = &j->track[i];
            if (!t->id[side])
                continue;
            uint64_t low = j->r[side].relabel == NOWHERE ? from : 0;
            size_t k = 0;
            while (k < t->n[side] && (t->seg[side][k].step < low || !t->seg[side][k].detail))
                k++;
            j->r[side].from[t->id[side]] = k < t->n[side] ? t->seg[side][k].first : NOWHERE;
            if (k < t->n[side] && t->seg[side][k].first < first)
                first = t->seg[side][k].first;
        }
        enum tb_status st = open_reader(j, side, first);
        if (st != TB_OK)
            return st;
    }
    return TB_OK;
}

static enum tb_status compare_spans(struct job *j)
{
    uint64_t step;
    enum tb_status st;

    if (j->o.lead) {
        st = begin_late(j);
        return st == TB_OK ? stream_all(j, true) : st;
    }
    step = first_step_that_differs(j, 0);
    if (step == NOWHERE) {
        j->skipped = events_between(j, 0, NOWHERE);
        return TB_OK;
    }
    if (detail_is_gone(j, step))
        return report_gone(j, step);
    uint64_t seq = begin_seq(j, step), before = 0;
    for (size_t i = 0; i < j->tracks; i++)
        (void)begin_at(&j->track[i], seq, &before);
    j->skipped = before;
    j->passed = step + 1;
    st = begin(j, seq);
    return st == TB_OK ? stream_all(j, before > 0) : st;
}

static bool has_events(const struct job *j, int side)
{
    for (size_t i = 0; i < j->tracks; i++)
        if (j->track[i].n[side])
            return true;
    return false;
}

static void job_release(struct job *j)
{
    for (size_t i = 0; i < j->tracks; i++) {
        free(j->track[i].seg[0]);
        free(j->track[i].seg[1]);
    }
    free(j->track);
    for (int side = 0; side < 2; side++) {
        stream_free(j->stream[side]);
        tb_cursor_close(j->r[side].cursor);
        free(j->r[side].from);
    }
}

enum tb_status compare_process(struct report_builder *rb, size_t pa, struct blame *blame,
                               struct tb_error *err)
{
    const struct run_process *a = &rb->a->proc[pa], *b = &rb->b->proc[a->mate];
    struct job j = {.rb = rb, .blame = blame, .process = {a->p->id, b->p->id}, .err = err};

    j.r[0].t = rb->a->trace[a->file];
    j.r[1].t = rb->b->trace[b->file];
    enum tb_status st = make_tracks(&j);
    if (st == TB_OK)
        st = make_readers(&j);
    for (int side = 0; side < 2; side++)
        if (!has_events(&j, side) && has_events(&j, !side))
            note_incomplete(rb, "nothing of process '%.100s' was recorded in run %c", a->label,
                            side ? 'B' : 'A');
    if (st == TB_OK && has_events(&j, 0) && has_events(&j, 1) && (st = choose_span(&j)) == TB_OK &&
        j.o.overlap <= j.o.last)
        st = compare_spans(&j);
    if (st == TB_OK)
        st = note_early_end(&j);
    rb->rep->skipped += j.skipped;
    job_release(&j);
    if (st == TB_ERR_NOMEM && err && err->status == TB_OK)
        return tb_fail(err, st, "no memory to compare processes");
    return st;
}
