/* The report for a program; docs/diff-report.schema.json has its form. */
#include "diff/diff_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- values */

/* Bytes of the UTF-8 character at @s; 0: it is none */
static unsigned utf8(const uint8_t *s)
{
    unsigned n = s[0] < 0x80                   ? 1
                 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                 : (s[0] & 0xF0) == 0xE0       ? 3
                 : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                               : 0;

    for (unsigned i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

static void string(FILE *f, const char *s)
{
    const uint8_t *p = (const uint8_t *)s;

    fputc('"', f);
    while (*p) {
        unsigned n = utf8(p);
        if (n == 0)
            fputs("\xEF\xBF\xBD", f);
        else if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else if (*p < 0x20)
            fprintf(f, "\\u%04x", *p);
        else
            (void)fwrite(p, 1, n, f);
        p += n ? n : 1;
    }
    fputc('"', f);
}

static void text(FILE *f, const char *key, const char *value)
{
    fprintf(f, ", \"%s\": ", key);
    string(f, value);
}

static void number(FILE *f, const char *key, uint64_t v)
{
    fprintf(f, ", \"%s\": %" PRIu64, key, v);
}

static void real(FILE *f, const char *key, double v)
{
    if (isfinite(v))
        fprintf(f, ", \"%s\": %.17g", key, v);
    else
        fprintf(f, ", \"%s\": \"%s\"", key, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
}

static void hex16(FILE *f, const char *key, const uint8_t *v)
{
    fprintf(f, ", \"%s\": \"", key);
    for (int i = 0; i < 16; i++)
        fprintf(f, "%02x", v[i]);
    fputc('"', f);
}

static void lines(FILE *f, const char *key, const struct tb_diff_line *l, size_t n)
{
    fprintf(f, ",\n \"%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "%s\n  {\"severity\": %u", i ? "," : "", l[i].severity);
        text(f, "text", l[i].text);
        fputc('}', f);
    }
    fputc(']', f);
}

/* ---------------------------------------------------------------- places and tensors */

static void place(FILE *f, const char *key, const struct tb_diff_place *p)
{
    char name[TB_EVENT_NAME_TEXT];
    const struct tb_event_name *n = &p->name;

    fprintf(f, ", \"%s\": ", key);
    if (!p->known || !p->name_known) {
        fputs("null", f);
        return;
    }
    const char *colon = strchr(n->module, ':');
    char phase[64];
    (void)snprintf(phase, sizeof(phase), "%.*s", (int)(colon ? colon - n->module : 0), n->module);
    fputs("{\"name\": ", f);
    string(f, tb_event_name_format(n, name, sizeof(name)));
    fprintf(f, ", \"rank\": %" PRId32, n->rank);
    text(f, "process", n->process);
    text(f, "thread", n->role);
    number(f, "step", n->step);
    text(f, "phase", phase);
    text(f, "module", colon ? colon + 1 : n->module);
    text(f, "operator", n->op);
    number(f, "k", n->k);
    fputc('}', f);
}

static void tensor(FILE *f, const struct tb_diff_tensor *t)
{
    fputs(", \"tensor\": ", f);
    if (!t->known) {
        fputs("null", f);
        return;
    }
    fputs("{\"argument\": ", f);
    string(f, t->argument);
    fprintf(f, ", \"mode\": \"%c\"", t->mode);
    text(f, "dtype", tb_dtype_name(t->dtype));
    text(f, "device", t->device);
    fputs(", \"shape\": [", f);
    for (int d = 0; d < t->ndim && d < (int)TB_ARRAY_LEN(t->sizes); d++)
        fprintf(f, "%s%" PRId64, d ? ", " : "", t->sizes[d]);
    fprintf(f, "], \"dimensions\": %d", t->ndim);
    hex16(f, "fingerprint_a", t->fp_a);
    hex16(f, "fingerprint_b", t->fp_b);
    fputc('}', f);
}

static void launch_side(FILE *f, const char *key, const struct tb_diff_shape *s)
{
    fprintf(f, ", \"%s\": {\"grid\": ", key);
    string(f, s->grid);
    text(f, "block", s->block);
    text(f, "shared", s->shared);
    text(f, "image", s->image);
    if (s->stream_known)
        number(f, "stream", s->stream);
    fputc('}', f);
}

static void launch(FILE *f, const struct tb_diff_launch *l)
{
    fputs(", \"launch\": ", f);
    if (!l->known) {
        fputs("null", f);
        return;
    }
    fputs("{\"kernel\": ", f);
    string(f, l->kernel);
    if (l->other[0])
        text(f, "kernel_b", l->other);
    text(f, "device", l->device);
    launch_side(f, "a", &l->side[0]);
    launch_side(f, "b", &l->side[1]);
    fputc('}', f);
}

static void histogram(FILE *f, const struct tb_elements *e)
{
    bool any = false;

    fputs(", \"histogram\": [", f);
    for (unsigned i = 0; i < TB_ULP_BINS; i++) {
        if (!e->histogram[i])
            continue;
        fprintf(f, "%s{\"ulp\": ", any ? ", " : "");
        if (i == TB_ULP_BINS - 1)
            fputs("\"nan\"", f);
        else
            fprintf(f, "%llu", i ? 1ull << (i - 1) : 0ull);
        fprintf(f, ", \"count\": %" PRIu64 "}", e->histogram[i]);
        any = true;
    }
    fputc(']', f);
}

static void element(FILE *f, const char *key, const struct tb_elements *e, const uint8_t *v)
{
    char decimal[96], hex[80];

    fprintf(f, ", \"%s\": {\"value\": ", key);
    string(f, tb_element_text(e->dtype, v, decimal, sizeof(decimal)));
    text(f, "hex", tb_element_hex(e->dtype, v, hex, sizeof(hex)));
    fputc('}', f);
}

static void elements(FILE *f, const struct tb_diff_root *r)
{
    const struct tb_elements *e = &r->elements;
    char hex[80];

    fputs(", \"elements\": ", f);
    if (!r->elements_known) {
        fputs("null", f);
        return;
    }
    fprintf(f, "{\"count\": %" PRIu64, e->count);
    number(f, "differ", e->differ);
    number(f, "nan_a", e->nan_a);
    number(f, "nan_b", e->nan_b);
    number(f, "nan_payloads", e->nan_bits);
    if (e->differ) {
        number(f, "first", e->first);
        fputs(", \"index\": [", f);
        for (int d = 0; d < e->ndim; d++)
            fprintf(f, "%s%" PRId64, d ? ", " : "", e->index[d]);
        fputc(']', f);
        element(f, "a", e, e->a);
        element(f, "b", e, e->b);
        text(f, "xor", tb_element_hex(e->dtype, e->mask, hex, sizeof(hex)));
        number(f, "bits", e->bits);
        number(f, "bits_all", e->bits_all);
        if (e->ulp != UINT64_MAX)
            number(f, "ulp", e->ulp);
        number(f, "ulp_max", e->ulp_max);
        real(f, "max_abs", e->max_abs);
        histogram(f, e);
    }
    fputc('}', f);
}

static void part(FILE *f, const struct tb_diff_part *m)
{
    fputs(", \"map\": ", f);
    if (!m->known) {
        fputs("null", f);
        return;
    }
    fprintf(f, "{\"parts\": %" PRIu32, m->parts);
    number(f, "differ", m->differ);
    number(f, "first", m->first);
    number(f, "last", m->last);
    number(f, "count", m->count);
    fputc('}', f);
}

static void race(FILE *f, const struct tb_diff_race *c)
{
    fputs(", \"race\": ", f);
    if (!c->known) {
        fputs("null", f);
        return;
    }
    fprintf(f, "{\"likely\": %s, \"run\": \"%c\", \"event_reads\": %s", c->sure ? "true" : "false",
            c->in_b ? 'b' : 'a', c->read ? "true" : "false");
    number(f, "event_stream", c->stream);
    number(f, "writer_stream", c->other_stream);
    number(f, "first_byte", c->lo);
    number(f, "end_byte", c->hi);
    place(f, "event", &c->event);
    place(f, "writer", &c->other);
    fputc('}', f);
}

/* ---------------------------------------------------------------- roots */

static void root(FILE *f, const struct tb_diff_root *r)
{
    fprintf(f, "{\"cause\": \"%s\"", tb_diff_cause_id(r->cause));
    text(f, "cause_text", tb_diff_cause_text(r->cause));
    text(f, "summary", r->summary);
    if (r->step != UINT64_MAX)
        number(f, "step", r->step);
    fprintf(f, ", \"rank\": %" PRId32, r->rank);
    place(f, "a", &r->a);
    place(f, "b", &r->b);
    place(f, "writer_a", &r->writer_a);
    place(f, "writer_b", &r->writer_b);
    launch(f, &r->launch);
    race(f, &r->race);
    tensor(f, &r->tensor);
    number(f, "outputs_differ", r->differ);
    number(f, "outputs", r->of);
    number(f, "seen", r->count);
    number(f, "infected", r->infected);
    fprintf(f, ", \"may_be_torn\": %s", r->torn ? "true" : "false");
    number(f, "only_a", r->only_a);
    number(f, "only_b", r->only_b);
    elements(f, r);
    part(f, &r->part);
    text(f, "source", r->stack);
    fputs(", \"evidence\": [", f);
    for (unsigned i = 0; i < r->evidence_count; i++) {
        fputs(i ? ", " : "", f);
        string(f, r->evidence[i]);
    }
    fputc(']', f);
    text(f, "next", r->next);
    fputc('}', f);
}

static void host(FILE *f, const struct tb_diff_host *h)
{
    fputs(",\n \"host_number\": ", f);
    if (!h->known) {
        fputs("null", f);
        return;
    }
    bool whole = h->dtype == TB_DT_U8 || h->dtype == TB_DT_I8 || h->dtype == TB_DT_I16 ||
                 h->dtype == TB_DT_I32 || h->dtype == TB_DT_I64 || h->dtype == TB_DT_BOOL ||
                 h->dtype == TB_DT_U16 || h->dtype == TB_DT_U32 || h->dtype == TB_DT_U64;
    fprintf(f, "{\"step\": %" PRIu64, h->step);
    text(f, "dtype", tb_dtype_name(h->dtype));
    if (whole) {
        fprintf(f, ", \"a\": %" PRId64 ", \"b\": %" PRId64, h->a_i, h->b_i);
    } else {
        real(f, "a", h->a_f);
        real(f, "b", h->b_f);
    }
    place(f, "event", &h->a);
    fputc('}', f);
}

static void run(FILE *f, const char *key, const struct tb_diff_run_info *r)
{
    fprintf(f, ",\n \"%s\": {\"path\": ", key);
    string(f, r->path);
    text(f, "command", r->command);
    number(f, "files", r->files);
    number(f, "processes", r->processes);
    number(f, "threads", r->threads);
    number(f, "events", r->events);
    number(f, "lost", r->lost);
    fprintf(f, ", \"complete\": %s}", r->complete ? "true" : "false");
}

static void counts(FILE *f, const struct tb_diff_report *r)
{
    fprintf(f, ",\n \"counts\": {\"compared\": %" PRIu64, r->compared);
    number(f, "skipped", r->skipped);
    number(f, "equal", r->equal);
    number(f, "infected", r->infected);
    number(f, "states_infected", r->states_infected);
    number(f, "healed", r->healed);
    number(f, "moved", r->moved);
    number(f, "only_a", r->only_a);
    number(f, "only_b", r->only_b);
    number(f, "arguments_only", r->args_only);
    number(f, "setup", r->setup);
    number(f, "orders", r->orders);
    number(f, "unhashed", r->unhashed);
    number(f, "unproven", r->unproven);
    fputc('}', f);
}

void tb_diff_json(const struct tb_diff_report *r, FILE *f)
{
    static const char *const verdicts[] = {"identical", "diverged", "", "unknown"};

    fprintf(f, "{\"report\": \"twinbit-diff\", \"version\": 1,\n \"verdict\": \"%s\"",
            verdicts[r->verdict]);
    text(f, "reason", r->reason);
    run(f, "a", &r->run[0]);
    run(f, "b", &r->run[1]);
    if (r->steps_known)
        fprintf(f, ",\n \"steps\": [%" PRIu64 ", %" PRIu64 "]", r->first_step, r->last_step);
    lines(f, "environment", r->environment, r->environment_count);
    lines(f, "notes", r->notes, r->note_count);
    fputs(",\n \"roots\": [", f);
    for (size_t i = 0; i < r->root_count; i++) {
        fputs(i ? ",\n  " : "\n  ", f);
        root(f, &r->roots[i]);
    }
    fputc(']', f);
    fprintf(f, ",\n \"roots_more\": %" PRIu64, r->roots_more);
    host(f, &r->host);
    counts(f, r);
    lines(f, "coverage", r->coverage, r->coverage_count);
    lines(f, "cost", r->cost, r->cost_count);
    real(f, "seconds", r->seconds);
    fputs("}\n", f);
}
