/* Views of the events: steps, events, tensors. */
#include "cli/show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/names.h"
#include "diff/diff.h"
#include "fingerprint/fingerprint.h"
#include "recorder/wire.h"

/* ---------------------------------------------------------------- filters */

struct window {
    uint64_t first, last;
};

/* Event ids among which the wanted steps lie: whole segments are left out where they cannot */
static enum tb_status find_window(const struct tb_show *s, uint32_t process, struct window *w,
                                  struct tb_error *err)
{
    size_t n;
    const struct tb_trace_thread *t = tb_trace_threads(s->trace, &n);

    *w = (struct window){.first = 0, .last = UINT64_MAX};
    if (!s->step.given)
        return TB_OK;
    *w = (struct window){.first = UINT64_MAX, .last = 0};
    for (size_t i = 0; i < n; i++) {
        struct tb_trace_segment *seg = NULL;
        size_t count = 0;
        if (t[i].process != process)
            continue;
        enum tb_status st = tb_trace_segments(s->trace, t[i].id, &seg, &count, err);
        if (st != TB_OK)
            return st;
        for (size_t k = 0; k < count; k++) {
            bool before = k + 1 < count && seg[k + 1].step < s->step.from;
            if (before || seg[k].step > s->step.to)
                continue;
            w->first = seg[k].first < w->first ? seg[k].first : w->first;
            w->last = seg[k].last > w->last ? seg[k].last : w->last;
        }
        free(seg);
    }
    return TB_OK;
}

static const char *role_of(const struct tb_show *s, uint32_t thread)
{
    size_t n;
    const struct tb_trace_thread *t = tb_trace_threads(s->trace, &n);

    for (size_t i = 0; i < n; i++)
        if (t[i].id == thread)
            return t[i].role;
    return "?";
}

static bool wanted(const struct tb_show *s, const struct tb_trace_event *e)
{
    char module[1024];

    if (s->step.given && (e->e.step < s->step.from || e->e.step > s->step.to))
        return false;
    if (s->op && !tb_show_matches_op(e->site->name, s->op))
        return false;
    if (s->thread && strcmp(role_of(s, e->e.thread), s->thread) != 0)
        return false;
    if (!s->module)
        return true;
    tb_cli_range_field(tb_trace_range(s->trace, e->e.range), 1, module, sizeof(module));
    return tb_show_matches_module(module, s->module);
}

/* Calls @fn for each wanted event with its name until it returns false */
typedef bool event_fn(struct tb_show *s, const struct tb_trace_event *e, const char *name);

static enum tb_status each_event_of(struct tb_show *s, const struct tb_trace_process *p,
                                    event_fn *fn, struct tb_error *err)
{
    struct tb_cli_names *names = tb_cli_names_new(s->trace, p);
    struct tb_cursor *c = NULL;
    const struct tb_trace_event *e = NULL;
    const char *name = NULL;
    struct window w;
    enum tb_status st = TB_OK;

    if (!names)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for event names");
    st = find_window(s, p->id, &w, err);
    if (st != TB_OK || w.first > w.last)
        goto out;
    st = tb_cursor_open_process(&c, s->trace, p->id, w.first, w.last, err);
    while (st == TB_OK) {
        st = tb_cursor_next(c, &e, err);
        if (st != TB_OK || !e)
            break;
        st = tb_cli_names_next(names, e, &name, err);
        if (st == TB_OK && wanted(s, e) && !fn(s, e, name))
            break;
    }
out:
    tb_cursor_close(c);
    tb_cli_names_free(names);
    return st;
}

static enum tb_status each_event(struct tb_show *s, event_fn *fn, struct tb_error *err)
{
    size_t n;
    const struct tb_trace_process *p = tb_trace_processes(s->trace, &n);
    enum tb_status st = TB_OK;

    for (size_t i = 0; i < n && st == TB_OK; i++)
        st = each_event_of(s, &p[i], fn, err);
    return st;
}

/* ---------------------------------------------------------------- an access */

static const char *const fp_kinds[] = {"none",  "bytes",   "rowmajor", "scalar",
                                       "state", "sampled", "unchanged"};

static const char *fp_kind_name(unsigned kind)
{
    return kind < TB_ARRAY_LEN(fp_kinds) ? fp_kinds[kind] : "unknown";
}

static bool is_float(unsigned dtype)
{
    return (dtype >= TB_DT_F16 && dtype <= TB_DT_BF16) || dtype == TB_DT_F8E4M3 ||
           dtype == TB_DT_F8E5M2;
}

/* What an access carries: 32 digits of a fingerprint, a number, or "-" */
static const char *value_text(const struct tb_site_access *site, const struct tb_store_access *a,
                              char out[64])
{
    if (a->fp_kind == TB_FP_NONE)
        return "-";
    if (a->fp_kind != TB_FP_SCALAR)
        return tb_show_hex(a->fp, out);
    if (is_float(site->dtype)) {
        double d;
        memcpy(&d, a->fp, sizeof(d));
        (void)snprintf(out, 64, "%.17g", d);
    } else {
        int64_t i;
        memcpy(&i, a->fp, sizeof(i));
        (void)snprintf(out, 64, "%" PRId64, i);
    }
    return out;
}

static const char *shape_text(const struct tb_site_access *a, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");

    for (int i = 0; i < a->ndim && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRId64, i ? "," : "", a->sizes[i]);
    if (used < size)
        (void)snprintf(out + used, size - used, "]");
    return out;
}

static void json_numbers(const char *key, const int64_t *v, int n)
{
    printf(", \"%s\": ", key);
    if (!v) {
        fputs("null", stdout);
        return;
    }
    putchar('[');
    for (int i = 0; i < n; i++)
        printf("%s%" PRId64, i ? ", " : "", v[i]);
    putchar(']');
}

static void json_access(const struct tb_site_access *site, const struct tb_store_access *a)
{
    char mode[2] = {site->mode, '\0'}, value[64];

    putchar('{');
    tb_show_field("mode", mode, true);
    tb_show_field("argument", site->argument, false);
    tb_show_field("dtype", tb_dtype_name(site->dtype), false);
    tb_show_field("device", site->device, false);
    json_numbers("shape", site->sizes, site->ndim);
    json_numbers("strides", site->contiguous ? NULL : site->strides, site->ndim);
    tb_show_number("alloc", (int64_t)a->alloc);
    tb_show_number("offset", (int64_t)a->offset);
    tb_show_field("fp_kind", fp_kind_name(a->fp_kind), false);
    tb_show_field("fp", a->fp_kind == TB_FP_NONE ? NULL : value_text(site, a, value), false);
    putchar('}');
}

/* ---------------------------------------------------------------- events */

static void json_event(struct tb_show *s, const struct tb_trace_event *e, const char *name)
{
    const char *range = tb_trace_range(s->trace, e->e.range);
    char field[1024], args[24];

    putchar('{');
    tb_show_field("name", name, true);
    tb_show_number("id", (int64_t)e->id);
    tb_show_field("kind", tb_show_kind(e->e.kind), false);
    tb_show_field("operator", e->site->name, false);
    tb_show_number("step", (int64_t)e->e.step);
    tb_show_field("phase", tb_cli_range_field(range, 0, field, sizeof(field)), false);
    tb_show_field("module", tb_cli_range_field(range, 1, field, sizeof(field)), false);
    tb_show_field("ranges", tb_cli_range_field(range, 2, field, sizeof(field)), false);
    tb_show_field("thread", role_of(s, e->e.thread), false);
    tb_show_number("seq", (int64_t)e->e.seq);
    tb_show_number("open", (int64_t)e->e.open);
    tb_show_number("flags", e->e.flags);
    (void)snprintf(args, sizeof(args), "%016" PRIx64, e->e.args);
    tb_show_field("args", e->e.args ? args : NULL, false);
    tb_show_field("stack", tb_trace_stack(s->trace, e->id), false);
    tb_show_launch_json(e);
    fputs(", \"accesses\": [", stdout);
    for (uint32_t i = 0; i < e->site->access_count; i++) {
        fputs(i ? ", " : "", stdout);
        json_access(&e->site->access[i], &e->access[i]);
    }
    fputs("]}", stdout);
}

/* The first write, or what left for the host, or a state; of a copy to the host what it brings */
static const char *main_value(const struct tb_trace_event *e, char out[64])
{
    for (uint32_t i = 0; i < e->site->access_count; i++)
        if (tb_show_is_result(e, i) && e->access[i].fp_kind != TB_FP_NONE)
            return value_text(&e->site->access[i], &e->access[i], out);
    return tb_show_lacks_fingerprint(e) ? "no fingerprint" : "-";
}

static bool print_event(struct tb_show *s, const struct tb_trace_event *e, const char *name)
{
    char value[64];

    if (!tb_show_row(s))
        return false;
    if (s->json) {
        json_event(s, e, name);
        return true;
    }
    printf("%8" PRIu64 " %-32s %s", e->id, main_value(e, value), name);
    tb_show_launch(e);
    putchar('\n');
    return true;
}

enum tb_status tb_show_events(struct tb_show *s, struct tb_error *err)
{
    return each_event(s, print_event, err);
}

/* ---------------------------------------------------------------- tensors */

static bool print_accesses(struct tb_show *s, const struct tb_trace_event *e, const char *name)
{
    char value[64], shape[512], alloc[48];

    for (uint32_t i = 0; i < e->site->access_count; i++) {
        const struct tb_site_access *site = &e->site->access[i];
        const struct tb_store_access *a = &e->access[i];
        if (!tb_show_row(s))
            return false;
        if (s->json) {
            putchar('{');
            tb_show_field("event", name, true);
            tb_show_number("index", i);
            fputs(", \"access\": ", stdout);
            json_access(site, a);
            putchar('}');
            continue;
        }
        printf("%c %-32s %-5s%-16s %-14s %s %s\n", site->mode, value_text(site, a, value),
               tb_dtype_name(site->dtype), shape_text(site, shape, sizeof(shape)),
               tb_show_alloc(a, alloc, sizeof(alloc)), name, site->argument);
    }
    return true;
}

enum tb_status tb_show_tensors(struct tb_show *s, struct tb_error *err)
{
    return each_event(s, print_accesses, err);
}

/* ---------------------------------------------------------------- steps */

/* The digest of a step is that of its segments' digests, thread by thread */
struct step {
    uint64_t step, events;
    struct tb_fp_stream digest;
    bool detail;
};

struct steps {
    struct step *item; /* by rising number */
    size_t count, room;
};

static struct step *step_at(struct steps *all, uint64_t number)
{
    size_t i = all->count;

    while (i > 0 && all->item[i - 1].step > number)
        i--;
    if (i > 0 && all->item[i - 1].step == number)
        return &all->item[i - 1];
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct step *grown = realloc(all->item, room * sizeof(*grown));
        if (!grown)
            return NULL;
        all->item = grown;
        all->room = room;
    }
    memmove(&all->item[i + 1], &all->item[i], (all->count - i) * sizeof(*all->item));
    all->count++;
    all->item[i] = (struct step){.step = number, .detail = true};
    tb_fp_stream_init(&all->item[i].digest, 0);
    return &all->item[i];
}

static enum tb_status add_thread(const struct tb_show *s, struct steps *all,
                                 const struct tb_trace_thread *t, struct tb_error *err)
{
    struct tb_trace_segment *seg = NULL;
    size_t n = 0;
    enum tb_status st = tb_trace_segments(s->trace, t->id, &seg, &n, err);

    for (size_t i = 0; i < n && st == TB_OK; i++) {
        struct step *step;
        if (s->step.given && (seg[i].step < s->step.from || seg[i].step > s->step.to))
            continue;
        step = step_at(all, seg[i].step);
        if (!step) {
            st = tb_fail(err, TB_ERR_NOMEM, "no memory for %zu steps", all->count);
            break;
        }
        step->events += seg[i].count;
        step->detail &= seg[i].detail;
        tb_fp_stream_update(&step->digest, t->role, strlen(t->role) + 1);
        tb_fp_stream_update(&step->digest, seg[i].digest, sizeof(seg[i].digest));
    }
    free(seg);
    return st;
}

static void print_steps(struct tb_show *s, const struct tb_trace_process *p,
                        const struct steps *all)
{
    char label[96], hex[33];
    uint8_t digest[16];

    tb_process_label(p, label, sizeof(label));
    for (size_t i = 0; i < all->count && tb_show_row(s); i++) {
        const struct step *step = &all->item[i];
        tb_fp_store(digest, tb_fp_stream_final(&step->digest));
        tb_show_hex(digest, hex);
        if (!s->json) {
            printf("%s step %-8" PRIu64 " %10" PRIu64 " events  %s%s\n", label, step->step,
                   step->events, hex, step->detail ? "" : "  (detail deleted)");
            continue;
        }
        putchar('{');
        tb_show_field("process", label, true);
        tb_show_number("rank", p->rank);
        tb_show_number("step", (int64_t)step->step);
        tb_show_number("events", (int64_t)step->events);
        tb_show_field("digest", hex, false);
        printf(", \"detail\": %s}", step->detail ? "true" : "false");
    }
}

enum tb_status tb_show_steps(struct tb_show *s, struct tb_error *err)
{
    size_t processes, threads;
    const struct tb_trace_process *p = tb_trace_processes(s->trace, &processes);
    const struct tb_trace_thread *t = tb_trace_threads(s->trace, &threads);
    enum tb_status st = TB_OK;

    for (size_t i = 0; i < processes && st == TB_OK; i++) {
        struct steps all = {.item = NULL};
        for (size_t k = 0; k < threads && st == TB_OK; k++)
            if (t[k].process == p[i].id)
                st = add_thread(s, &all, &t[k], err);
        if (st == TB_OK)
            print_steps(s, &p[i], &all);
        free(all.item);
    }
    return st;
}
