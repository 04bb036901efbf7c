/* What the taps could not see, in both runs or in one of them only. */
#include "diff/diff_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 4096u /* kinds of rows held; more are left out */

struct row {
    char *kind, *subject, *detail; /* detail: "" where rows of all details are one */
    uint64_t count[2];
    uint32_t severity;
};
struct rows {
    struct row *row;
    size_t n, cap;
    int side;
    bool failed;
};

void note_incomplete(struct report_builder *rb, const char *fmt, ...)
{
    va_list ap;

    if (rb->incomplete)
        return;
    rb->incomplete = true;
    va_start(ap, fmt);
    (void)vsnprintf(rb->incomplete_why, sizeof(rb->incomplete_why), fmt, ap);
    va_end(ap);
}

/* Why work of a GPU was not covered is one of a few texts; other details have numbers in them. */
static const char *detail_of(const struct tb_trace_coverage *c)
{
    return strcmp(c->kind, "cuda") == 0 ? c->detail : "";
}

static bool same_row(const struct row *r, const struct tb_trace_coverage *c)
{
    return r->severity == c->severity && strcmp(r->kind, c->kind) == 0 &&
           strcmp(r->subject, c->subject) == 0 && strcmp(r->detail, detail_of(c)) == 0;
}

static void free_row(struct row *r)
{
    free(r->kind);
    free(r->subject);
    free(r->detail);
}

static struct row *new_row(struct rows *l, const struct tb_trace_coverage *c)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct row *p = realloc(l->row, cap * sizeof(*p));
        if (!p)
            return NULL;
        l->row = p;
        l->cap = cap;
    }
    struct row *r = &l->row[l->n];
    *r = (struct row){.kind = strdup(c->kind),
                      .subject = strdup(c->subject),
                      .detail = strdup(detail_of(c)),
                      .severity = c->severity};
    if (!r->kind || !r->subject || !r->detail) {
        free_row(r);
        return NULL;
    }
    l->n++;
    return r;
}

static bool take(void *arg, const struct tb_trace_coverage *c)
{
    struct rows *l = arg;
    struct row *r = NULL;

    for (size_t i = 0; !r && i < l->n; i++)
        if (same_row(&l->row[i], c))
            r = &l->row[i];
    if (!r && l->n == ROWS_MAX)
        return true;
    if (!r && !(r = new_row(l, c))) {
        l->failed = true;
        return false;
    }
    r->count[l->side] += c->count;
    return true;
}

static enum tb_status collect(struct rows *l, const struct run *r, int side, struct tb_error *err)
{
    enum tb_status st = TB_OK;

    l->side = side;
    for (size_t f = 0; st == TB_OK && f < r->files; f++)
        st = tb_trace_coverage(r->trace[f], 0, take, l, err);
    if (st == TB_OK && l->failed)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for coverage");
    return st;
}

static int by_severity(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    bool dx = x->count[0] != x->count[1], dy = y->count[0] != y->count[1];

    if (x->severity != y->severity)
        return x->severity < y->severity ? 1 : -1;
    if (dx != dy)
        return dx ? -1 : 1;
    int k = strcmp(x->kind, y->kind);
    k = k ? k : strcmp(x->subject, y->subject);
    return k ? k : strcmp(x->detail, y->detail);
}

/* How often threads meet is chance. Which of their fingerprints may be torn, the orders in the
 * trace tell; those that are equal are equal. */
static bool is_meeting(const struct row *r)
{
    return strcmp(r->kind, "cuda") == 0 && strcmp(r->detail, TB_COVER_TORN) == 0 &&
           strcmp(r->subject, "state") != 0;
}

/* What a copy brought to the host was not seen there, and nobody sees it again */
static void note_left(struct report_builder *rb, const struct row *r)
{
    if (strcmp(r->kind, "cuda") != 0 || strcmp(r->detail, TB_COVER_LEFT) != 0)
        return;
    note_incomplete(rb,
                    "%.80s to the host: another stream or node of a graph may write there "
                    "meanwhile, so equal fingerprints do not say that equal bytes arrived",
                    r->subject);
}

static enum tb_status print_row(struct report_builder *rb, const struct row *r)
{
    struct tb_diff_report *rep = rb->rep;

    if (strcmp(r->kind, "fault") == 0 &&
        add_line(&rep->notes, &rep->note_count, 1,
                 "work on the device failed (A %" PRIu64 ", B %" PRIu64
                 "): the last kernel launched before was '%.200s'",
                 r->count[0], r->count[1], r->subject) != TB_OK)
        return TB_ERR_NOMEM;
    if (r->severity >= 1 && r->count[0] == r->count[1] && strcmp(r->kind, "process") == 0)
        note_incomplete(rb, "a process was not recorded in either run: %.160s", r->subject);
    if (strcmp(r->kind, "sampled") == 0)
        return add_line(&rep->notes, &rep->note_count, 0,
                        "fingerprints of large buffers cover some of their bytes (A %" PRIu64
                        ", B %" PRIu64 "): equal ones are equal as far as they go",
                        r->count[0], r->count[1]);
    if (r->severity == 0 && strcmp(r->kind, "learnt") == 0 && strcmp(r->subject, "writes") == 0)
        return add_line(&rep->notes, &rep->note_count, 0,
                        "writes were not looked for where a kernel's earlier launches left the "
                        "bytes alone (A %" PRIu64 ", B %" PRIu64 "): learnt, unproven",
                        r->count[0], r->count[1]);
    if (r->severity >= 1 && strcmp(r->kind, "learnt") == 0)
        note_incomplete(rb, "a kernel wrote what it was believed to leave alone: %.160s",
                        r->subject);
    if (r->severity >= 1 && r->count[0] == r->count[1] && strcmp(r->kind, "fingerprint") == 0)
        note_incomplete(rb,
                        "%" PRIu64 " fingerprint%s never arrived in either run, the first kind: "
                        "%.120s",
                        r->count[0], plural(r->count[0]), r->subject);
    note_left(rb, r);
    const char *colon = r->detail[0] ? ": " : "";
    if (r->count[0] == r->count[1])
        return add_line(&rep->coverage, &rep->coverage_count, r->severity,
                        "%.60s: %.200s%s%.120s (%" PRIu64 ")", r->kind, r->subject, colon,
                        r->detail, r->count[0]);
    if (strcmp(r->kind, "window") == 0 && rb->ways.windows)
        note_incomplete(rb, "%s", rb->window_why);
    if (r->severity >= 1 && !is_meeting(r))
        note_incomplete(rb, "what was not covered differs: %.60s, %.120s", r->kind, r->subject);
    return add_line(&rep->coverage, &rep->coverage_count, r->severity,
                    "%.60s: %.200s%s%.120s (A %" PRIu64 ", B %" PRIu64 ")", r->kind, r->subject,
                    colon, r->detail, r->count[0], r->count[1]);
}

/* A user's signal comes when it comes; a program that pauses does it alike in both runs, unless it
 * does so more often in one */
static void note_pause(struct report_builder *rb, const struct row *r)
{
    bool user = strcmp(r->subject, "all processes") == 0;

    if (strcmp(r->kind, "paused") != 0)
        return;
    for (int side = 0; side < 2; side++)
        if (r->count[side] && (user || r->count[side] > r->count[!side]))
            rb->paused[side] = true;
    if (r->count[0] != r->count[1])
        note_incomplete(rb, "recording was paused in run %s: what it did meanwhile is not compared",
                        r->count[0] && r->count[1] ? "A and B"
                        : r->count[0]              ? "A"
                                                   : "B");
}

/* --kernel or --sample, and nothing came through */
static void note_none_hashed(struct report_builder *rb, const struct rows *l)
{
    const struct run *run[2] = {rb->a, rb->b};

    for (int side = 0; side < 2; side++) {
        const char *option = NULL;
        for (size_t i = 0; i < l->n; i++) {
            const struct row *r = &l->row[i];
            if (r->count[side] && strcmp(r->kind, "filter") == 0)
                option = "--kernel";
            else if (r->count[side] && strcmp(r->kind, "sample") == 0 && !option)
                option = "--sample";
        }
        if (option && !run_has_launches(run[side]))
            note_incomplete(rb, "no launch was hashed in run %c: %s leaves all out",
                            side ? 'B' : 'A', option);
    }
}

/* ---------------------------------------------------------------- left out on purpose */

static bool meta_differs(const struct report_builder *rb, const char *key)
{
    const char *a = rb->a->files ? tb_trace_meta(rb->a->trace[0], key) : NULL;
    const char *b = rb->b->files ? tb_trace_meta(rb->b->trace[0], key) : NULL;

    return a && b ? strcmp(a, b) != 0 : a != b;
}

/* The options by which the runs left out other launches; NULL: none */
static const char *other_filter(const struct report_builder *rb)
{
    if (meta_differs(rb, "cuda.kernels"))
        return meta_differs(rb, "cuda.sample") ? "--kernel and --sample" : "--kernel";
    if (meta_differs(rb, "cuda.sample"))
        return "--sample";
    return meta_differs(rb, "cuda.seed") ? "--seed" : NULL;
}

/* Launches that one run was told to leave out and the other was not have no mates */
static enum tb_status note_filters(struct report_builder *rb, const struct rows *l)
{
    const char *option = other_filter(rb);
    bool left[2] = {false};

    for (size_t i = 0; option && i < l->n; i++) {
        const struct row *r = &l->row[i];
        if (strcmp(r->kind, "filter") != 0 && strcmp(r->kind, "sample") != 0)
            continue;
        for (int side = 0; side < 2; side++) {
            if (r->count[side] && !ways_left_out(&rb->ways, side, r->subject))
                return TB_ERR_NOMEM;
            left[side] = left[side] || r->count[side];
        }
    }
    if (left[0] || left[1])
        note_incomplete(rb,
                        "launches that run %s left out by %s are not compared: record both runs "
                        "with the same %s",
                        !left[1]  ? "A"
                        : left[0] ? "A and run B"
                                  : "B",
                        option, option);
    return TB_OK;
}

/* So have states of steps that only one run's window leaves out */
static void note_windows(struct report_builder *rb)
{
    const char *a = rb->a->files ? tb_trace_meta(rb->a->trace[0], "steps") : NULL;
    const char *b = rb->b->files ? tb_trace_meta(rb->b->trace[0], "steps") : NULL;

    rb->ways.windows = meta_differs(rb, "steps");
    if (rb->ways.windows)
        (void)snprintf(rb->window_why, sizeof(rb->window_why),
                       "run %s was recorded with --steps %.40s, run %s %s%.40s: what one of them "
                       "left out is not compared; record both with the same --steps",
                       a ? "A" : "B", a ? a : b, a ? "B" : "A", a && b ? "with --steps " : "",
                       a && b ? b : "without");
}

static void add_left_by(struct report_builder *rb, const char *by)
{
    size_t at = strlen(rb->left_by);

    (void)snprintf(rb->left_by + at, sizeof(rb->left_by) - at, "%s%s", at ? " and " : "", by);
}

/* A part of the line: " launches by --kernel (A 4, B 4; the first: 'scale')" */
static void add_left_out(struct report_builder *rb, const char *what, const uint64_t n[2],
                         const char *first)
{
    size_t at = strlen(rb->left_out), room = sizeof(rb->left_out) - at;
    char name[100] = "";

    if (!n[0] && !n[1])
        return;
    if (first)
        (void)snprintf(name, sizeof(name), "; the first: '%.60s'", first);
    (void)snprintf(rb->left_out + at, room, "%s%s (A %" PRIu64 ", B %" PRIu64 "%s)", at ? ", " : "",
                   what, n[0], n[1], name);
}

static void count_left_out(struct report_builder *rb, const struct rows *l, const char *kind,
                           const char *what, const char *by)
{
    bool named = by[0] == '-';
    const char *first = NULL;
    uint64_t n[2] = {0};

    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->row[i].kind, kind) != 0)
            continue;
        n[0] += l->row[i].count[0];
        n[1] += l->row[i].count[1];
        first = first ? first : l->row[i].subject;
    }
    add_left_out(rb, what, n, named ? first : NULL);
    if (n[0] || n[1])
        add_left_by(rb, by);
}

/* First and last step that @r knows of; false: none */
static bool steps_of(const struct run *r, uint64_t *first, uint64_t *last)
{
    bool any = false;

    for (size_t f = 0; f < r->files; f++) {
        size_t threads = 0;
        const struct tb_trace_thread *t = tb_trace_threads(r->trace[f], &threads);
        for (size_t i = 0; i < threads; i++) {
            struct tb_trace_segment *s = NULL;
            size_t n = 0;
            if (tb_trace_segments(r->trace[f], t[i].id, &s, &n, NULL) != TB_OK)
                continue;
            for (size_t k = 0; k < n; k++) {
                *first = !any || s[k].step < *first ? s[k].step : *first;
                *last = !any || s[k].step > *last ? s[k].step : *last;
                any = true;
            }
            free(s);
        }
    }
    return any;
}

/* How many steps of @r are outside of the window @text */
static uint64_t steps_outside(const struct run *r, const char *text)
{
    uint64_t first = 0, last = 0, from = 0, to = 0;

    if (sscanf(text, "%" SCNu64 "..%" SCNu64, &from, &to) != 2 || !steps_of(r, &first, &last))
        return 0;
    uint64_t lo = from > first ? from : first, hi = to < last ? to : last;
    return last - first + 1 - (lo <= hi ? hi - lo + 1 : 0);
}

static bool has_window_row(const struct rows *l, int side)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->row[i].kind, "window") == 0 && l->row[i].count[side])
            return true;
    return false;
}

/* Of steps outside of a window there are states; work of a GPU behind the last step has a row. */
static void window_left_out(struct report_builder *rb, const struct rows *l)
{
    const struct run *run[2] = {rb->a, rb->b};

    for (int side = 0; side < 2; side++) {
        const char *w = run[side]->files ? tb_trace_meta(run[side]->trace[0], "steps") : NULL;
        uint64_t n = w ? steps_outside(run[side], w) : 0;
        size_t at = strlen(rb->left_out);
        char what[64] = "what ran";
        if (n)
            (void)snprintf(what, sizeof(what), "%" PRIu64 " step%s", n, plural(n));
        if (w && (n || has_window_row(l, side)))
            (void)snprintf(rb->left_out + at, sizeof(rb->left_out) - at,
                           "%s%s outside of --steps %.40s in %c", at ? ", " : "", what, w,
                           side ? 'B' : 'A');
    }
}

static void note_left_out(struct report_builder *rb, const struct rows *l)
{
    count_left_out(rb, l, "filter", "launches by --kernel", "--kernel");
    count_left_out(rb, l, "sample", "launches by --sample", "--sample");
    count_left_out(rb, l, "paused", "what ran in pauses", "pauses");
    window_left_out(rb, l);
}

void say_left_out(const struct report_builder *rb, struct root *r)
{
    if (rb->left_out[0])
        evidence(r, "coverage: left out: %s; the difference may lie there", rb->left_out);
}

enum tb_status compare_coverage(struct report_builder *rb, struct tb_error *err)
{
    struct rows l = {0};
    enum tb_status st = collect(&l, rb->a, 0, err);

    if (st == TB_OK)
        st = collect(&l, rb->b, 1, err);
    if (st == TB_OK && l.n)
        qsort(l.row, l.n, sizeof(*l.row), by_severity);
    for (size_t i = 0; st == TB_OK && i < l.n; i++)
        note_pause(rb, &l.row[i]);
    if (st == TB_OK && note_filters(rb, &l) != TB_OK)
        st = tb_fail(err, TB_ERR_NOMEM, "no memory for coverage");
    if (st == TB_OK)
        note_windows(rb);
    if (st == TB_OK)
        note_none_hashed(rb, &l);
    if (st == TB_OK)
        note_left_out(rb, &l);
    for (size_t i = 0; st == TB_OK && i < l.n; i++)
        if (print_row(rb, &l.row[i]) != TB_OK)
            st = tb_fail(err, TB_ERR_NOMEM, "no memory for coverage");
    for (size_t i = 0; i < l.n; i++)
        free_row(&l.row[i]);
    free(l.row);
    return st;
}
