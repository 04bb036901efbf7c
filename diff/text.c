/* The report for a reader: one screen, the verdict first. */
#include "diff/diff_internal.h"

#include <inttypes.h>
#include <string.h>

#define LINES 6u      /* of a list, before "... more" */
#define MORE_ROOTS 5u /* of the further roots */

struct page {
    FILE *out;
    bool colour;
};

static void paint(const struct page *p, const char *code, const char *text)
{
    if (p->colour)
        fprintf(p->out, "\033[%sm%s\033[0m", code, text);
    else
        fputs(text, p->out);
}

/* A label in the left column; "" goes on with the one above */
static void label(const struct page *p, const char *text)
{
    char cell[16];

    (void)snprintf(cell, sizeof(cell), "  %-12s", text);
    paint(p, "2", cell);
}

/* What comes from a job (values, names) may hold anything: nothing in it shall command a terminal.
 */
static void put_plain(const struct page *p, const char *text, size_t most)
{
    for (size_t i = 0; i < most && text[i]; i++) {
        int n = tb_control(text + i);
        (void)fputc(n ? '?' : text[i], p->out);
        i += n > 1;
    }
}

static void plain(const struct page *p, const char *text, size_t most)
{
    put_plain(p, text, most);
    (void)fputc('\n', p->out);
}

static void lines(const struct page *p, const char *title, const struct tb_diff_line *l, size_t n,
                  unsigned least)
{
    size_t shown = 0, left = 0;

    for (size_t i = 0; i < n; i++) {
        if (l[i].severity < least)
            continue;
        if (shown == LINES) {
            left++;
            continue;
        }
        label(p, shown++ ? "" : title);
        plain(p, l[i].text, 200);
    }
    if (left) {
        label(p, "");
        fprintf(p->out, "... %zu more (--json has all)\n", left);
    }
}

/* ---------------------------------------------------------------- head */

static void head(const struct page *p, const struct tb_diff_report *r)
{
    static const char *const words[] = {"IDENTICAL", "DIVERGED", "", "UNKNOWN"};
    static const char *const codes[] = {"1;32", "1;31", "", "1;33"};

    for (int side = 0; side < 2; side++) {
        const struct tb_diff_run_info *i = &r->run[side];
        fprintf(p->out, "%c  %s: %" PRIu64 " events, %" PRIu32 " process%s%s\n", side ? 'B' : 'A',
                i->path, i->events, i->processes, i->processes == 1 ? "" : "es",
                i->complete ? "" : ", cut off");
    }
    if (strcmp(r->run[0].command, r->run[1].command) != 0 && r->environment_count == 0) {
        fputs("  differs     command: ", p->out);
        put_plain(p, r->run[0].command, 100);
        fputs(" | ", p->out);
        plain(p, r->run[1].command, 100);
    } else if (r->environment_count == 0)
        fputs("   command, environment, versions and sources are equal\n", p->out);
    lines(p, "differs", r->environment, r->environment_count, 0);
    fputc('\n', p->out);
    paint(p, codes[r->verdict], words[r->verdict]);
    fprintf(p->out, "  %s\n", r->reason);
}

/* ---------------------------------------------------------------- a root */

static void place(const struct page *p, const char *title, const struct tb_diff_place *w)
{
    char name[TB_EVENT_NAME_TEXT];

    if (!w->known)
        return;
    label(p, title);
    fprintf(p->out, "%s\n",
            w->name_known ? tb_event_name_format(&w->name, name, sizeof(name))
                          : "an event whose place in its step is not known");
}

static void where(const struct page *p, const struct tb_diff_root *r)
{
    const struct tb_diff_place *w = r->a.known ? &r->a : &r->b;

    if (w->known && w->name_known) {
        const char *colon = strchr(w->name.module, ':');
        label(p, "where");
        fprintf(p->out, "step %" PRIu64 ", %s, %.*s, %s", w->name.step,
                colon && colon[1] ? colon + 1 : "outside of modules",
                (int)(colon ? colon - w->name.module : 0), w->name.module, w->name.op);
        if (r->rank >= 0)
            fprintf(p->out, ", rank %" PRId32, r->rank);
        fputc('\n', p->out);
    }
    if (r->a.known && r->b.known && r->a.name_known && r->b.name_known &&
        tb_event_name_match(&r->a.name, &r->b.name)) {
        place(p, "event", &r->a);
    } else {
        place(p, r->b.known ? "event in A" : "only in A", &r->a);
        place(p, r->a.known ? "event in B" : "only in B", &r->b);
    }
    if (r->writer_a.known && r->writer_b.known && r->writer_a.name_known &&
        r->writer_b.name_known && tb_event_name_match(&r->writer_a.name, &r->writer_b.name)) {
        place(p, "written by", &r->writer_a);
    } else {
        place(p, "writer in A", &r->writer_a);
        place(p, "writer in B", &r->writer_b);
    }
    if (r->stack[0]) {
        label(p, "source");
        plain(p, r->stack, strcspn(r->stack, "\n"));
    }
}

/* "grid 2,1,1" of both runs, or "grid 2,1,1 | 4,1,1" */
static void both(const struct page *p, const char *title, const char *a, const char *b, bool *any)
{
    if (!a[0] && !b[0])
        return;
    fprintf(p->out, "%s%s %s", *any ? ", " : "", title, a[0] ? a : b);
    if (a[0] && b[0] && strcmp(a, b) != 0)
        fprintf(p->out, " | %s", b);
    *any = true;
}

static void launch(const struct page *p, const struct tb_diff_launch *l)
{
    const struct tb_diff_shape *a = &l->side[0], *b = &l->side[1];
    char stream[2][24] = {"", ""};
    bool any = false;

    if (!l->known)
        return;
    if (l->kernel[0]) {
        label(p, "kernel");
        put_plain(p, l->kernel, sizeof(l->kernel));
        fputs(l->other[0] ? " | " : "", p->out);
        plain(p, l->other, sizeof(l->other));
    }
    for (int side = 0; side < 2; side++)
        if (l->side[side].stream_known)
            (void)snprintf(stream[side], sizeof(stream[side]), "%" PRIu64, l->side[side].stream);
    label(p, "launch");
    both(p, "grid", a->grid, b->grid, &any);
    both(p, "block", a->block, b->block, &any);
    both(p, "shared", a->shared, b->shared, &any);
    both(p, "stream", stream[0], stream[1], &any);
    if (a->image[0] && b->image[0] && strcmp(a->image, b->image) != 0)
        both(p, "image", a->image, b->image, &any);
    fprintf(p->out, "%son %s\n", any ? ", " : "", l->device[0] ? l->device : "a device");
}

static void shape(const struct page *p, const struct tb_diff_tensor *t)
{
    fputc('[', p->out);
    for (int d = 0; d < t->ndim && d < (int)TB_ARRAY_LEN(t->sizes); d++)
        fprintf(p->out, "%s%" PRId64, d ? "," : "", t->sizes[d]);
    fputs(t->ndim > (int)TB_ARRAY_LEN(t->sizes) ? ",...]" : "]", p->out);
}

static void tensor(const struct page *p, const struct tb_diff_root *r)
{
    const struct tb_diff_tensor *t = &r->tensor;
    static const char modes[] = "rwhsg";
    static const char *const words[] = {"read", "written", "left for the host", "state",
                                        "generator"};
    const char *at = t->mode ? strchr(modes, t->mode) : NULL;

    if (!t->known)
        return;
    label(p, "tensor");
    fprintf(p->out, "%s (%s)", t->argument, at ? words[at - modes] : "?");
    if (t->mode != 'g') {
        fprintf(p->out, ": %s ", tb_dtype_name(t->dtype));
        shape(p, t);
        fprintf(p->out, " on %s", t->device);
    }
    if (r->of > 1)
        fprintf(p->out, "; %" PRIu32 " of %" PRIu32 " differ", r->differ, r->of);
    fputc('\n', p->out);
}

static void histogram(const struct page *p, const struct tb_elements *e)
{
    unsigned shown = 0;

    label(p, "ULP");
    for (unsigned i = 0; i < TB_ULP_BINS; i++) {
        if (!e->histogram[i])
            continue;
        if (++shown > 8) {
            fputs("  ...", p->out);
            break;
        }
        if (i == 0)
            fprintf(p->out, "%s0: ", shown > 1 ? "  " : "");
        else if (i == TB_ULP_BINS - 1)
            fprintf(p->out, "%sNaN: ", shown > 1 ? "  " : "");
        else if (i == 1)
            fprintf(p->out, "%s1: ", shown > 1 ? "  " : "");
        else if (i <= 12)
            fprintf(p->out, "%s%llu-%llu: ", shown > 1 ? "  " : "", 1ull << (i - 1),
                    (1ull << (i - 1)) * 2 - 1);
        else
            fprintf(p->out, "%s2^%u..: ", shown > 1 ? "  " : "", i - 1);
        fprintf(p->out, "%" PRIu64, e->histogram[i]);
    }
    fputc('\n', p->out);
}

static void value(const struct page *p, const struct tb_elements *e, const char *title,
                  const uint8_t *v)
{
    char text[96], hex[80];

    label(p, title);
    fprintf(p->out, "%s  %s\n", tb_element_text(e->dtype, v, text, sizeof(text)),
            tb_element_hex(e->dtype, v, hex, sizeof(hex)));
}

/* What is known without the elements themselves */
static void part(const struct page *p, const struct tb_diff_part *m)
{
    if (!m->known)
        return;
    label(p, "elements");
    fprintf(p->out,
            "%" PRIu32 " of %" PRIu32 " parts differ; the first is %" PRIu64 "..%" PRIu64
            " of %" PRIu64 "\n",
            m->differ, m->parts, m->first, m->last, m->count);
}

static void elements(const struct page *p, const struct tb_diff_root *r)
{
    const struct tb_elements *e = &r->elements;
    char hex[80];

    if (!r->elements_known) {
        part(p, &r->part);
        return;
    }
    label(p, "elements");
    fprintf(p->out, "%" PRIu64 " of %" PRIu64 " differ", e->differ, e->count);
    if (!e->differ) {
        fputs(": the tensors that were kept are equal\n", p->out);
        return;
    }
    fprintf(p->out, "; first: %" PRIu64, e->first);
    for (int d = 0; d < e->ndim; d++)
        fprintf(p->out, "%s%" PRId64 "%s", d ? "," : " = [", e->index[d],
                d + 1 == e->ndim ? "]" : "");
    fputc('\n', p->out);
    value(p, e, "  A", e->a);
    value(p, e, "  B", e->b);
    label(p, "  XOR");
    fprintf(p->out, "%s (%u bit%s)", tb_element_hex(e->dtype, e->mask, hex, sizeof(hex)), e->bits,
            e->bits == 1 ? "" : "s");
    if (e->ulp != UINT64_MAX)
        fprintf(p->out, ", %" PRIu64 " ULP", e->ulp);
    fputc('\n', p->out);
    histogram(p, e);
}

static void race(const struct page *p, const struct tb_diff_race *c)
{
    const struct tb_diff_place *first = c->later ? &c->event : &c->other;
    const struct tb_diff_place *second = c->later ? &c->other : &c->event;

    paint(p, "1", "race");
    fprintf(p->out,
            " between streams %" PRIu64 " and %" PRIu64 ": %s#%" PRIu64 " and %s#%" PRIu64
            " are not ordered",
            c->later ? c->stream : c->other_stream, c->later ? c->other_stream : c->stream,
            first->name.op, first->name.k, second->name.op, second->name.k);
}

static void first_root(const struct page *p, const struct tb_diff_root *r)
{
    label(p, "cause");
    if (r->cause == TB_CAUSE_STREAM_RACE && r->race.known)
        race(p, &r->race);
    else
        paint(p, "1", tb_diff_cause_text(r->cause));
    if (r->count > 1)
        fprintf(p->out, " (seen %" PRIu64 " times)", r->count);
    fputc('\n', p->out);
    for (unsigned i = 0; i < r->evidence_count; i++) {
        label(p, i ? "" : "evidence");
        plain(p, r->evidence[i], SIZE_MAX);
    }
    where(p, r);
    launch(p, &r->launch);
    tensor(p, r);
    elements(p, r);
}

static void more_roots(const struct page *p, const struct tb_diff_report *r)
{
    for (size_t i = 1; i < r->root_count && i <= MORE_ROOTS; i++) {
        label(p, i == 1 ? "also" : "");
        fprintf(p->out, "%s\n", r->roots[i].summary);
    }
    uint64_t left = r->roots_more;
    if (r->root_count > MORE_ROOTS + 1)
        left += r->root_count - MORE_ROOTS - 1;
    if (left) {
        label(p, "");
        fprintf(p->out, "... %" PRIu64 " more\n", left);
    }
}

/* ---------------------------------------------------------------- tail */

static bool integer(enum tb_dtype dt)
{
    return dt == TB_DT_U8 || dt == TB_DT_I8 || dt == TB_DT_I16 || dt == TB_DT_I32 ||
           dt == TB_DT_I64 || dt == TB_DT_U16 || dt == TB_DT_U32 || dt == TB_DT_U64 ||
           dt == TB_DT_BOOL;
}

static void host_number(const struct page *p, const struct tb_diff_host *h)
{
    if (!h->known)
        return;
    label(p, "number");
    fprintf(p->out, "the first to leave for the host and differ, in step %" PRIu64 ": ", h->step);
    if (integer(h->dtype))
        fprintf(p->out, "%" PRId64 " | %" PRId64 "\n", h->a_i, h->b_i);
    else
        fprintf(p->out, "%.9g | %.9g\n", h->a_f, h->b_f);
}

static void counts(const struct page *p, const struct tb_diff_report *r)
{
    label(p, "compared");
    if (r->steps_known)
        fprintf(p->out, "steps %" PRIu64 "..%" PRIu64 ", ", r->first_step, r->last_step);
    fprintf(p->out, "%" PRIu64 " event%s, %" PRIu64 " more in equal segments, in %.2f s\n",
            r->compared, plural(r->compared), r->skipped, r->seconds);
    if (r->verdict != TB_DIFF_DIVERGED)
        return;
    label(p, "infected");
    fprintf(p->out,
            "%" PRIu64 " event%s and %" PRIu64 " state%s follow from it; only in A %" PRIu64
            ", only in B %" PRIu64 "\n",
            r->infected, plural(r->infected), r->states_infected, plural(r->states_infected),
            r->only_a, r->only_b);
}

void tb_diff_text(const struct tb_diff_report *r, FILE *out, bool colour)
{
    struct page p = {out, colour};

    head(&p, r);
    if (r->root_count) {
        first_root(&p, &r->roots[0]);
        more_roots(&p, r);
    }
    host_number(&p, &r->host);
    counts(&p, r);
    lines(&p, "note", r->notes, r->note_count, 0);
    lines(&p, "not covered", r->coverage, r->coverage_count, 1);
    lines(&p, "cost", r->cost, r->cost_count, 0);
    if (r->root_count && r->roots[0].next[0]) {
        label(&p, "next");
        fprintf(out, "%s\n", r->roots[0].next);
    }
}
