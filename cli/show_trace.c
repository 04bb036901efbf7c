/* Views of what stands once in a trace: summary, env, processes, coverage, sites. */
#include "cli/show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---------------------------------------------------------------- summary */

static bool count_coverage(void *arg, const struct tb_trace_coverage *row)
{
    uint64_t *counts = arg; /* by severity */

    counts[row->severity < 3 ? row->severity : 2] += row->count;
    return true;
}

/* Key and value on a line, or as a member of the one row */
static void pair(const struct tb_show *s, const char *key, const char *value, bool first)
{
    if (s->json)
        tb_show_field(key, value, first);
    else if (value)
        printf("%-11s %s\n", key, value);
}

static void pair_number(const struct tb_show *s, const char *key, uint64_t n)
{
    if (s->json)
        tb_show_number(key, (int64_t)n);
    else
        printf("%-11s %" PRIu64 "\n", key, n);
}

enum tb_status tb_show_summary(struct tb_show *s, struct tb_error *err)
{
    const struct tb_trace_info *info = tb_trace_info(s->trace);
    uint64_t cover[3] = {0}, lost = 0;
    const char *why = NULL;
    char size[32], text[96];
    struct stat st = {.st_size = 0};
    size_t n;
    const struct tb_trace_process *p = tb_trace_processes(s->trace, &n);
    enum tb_status status = tb_trace_coverage(s->trace, 0, count_coverage, cover, err);

    if (status != TB_OK || !tb_show_row(s))
        return status;
    (void)stat(info->path, &st);
    if (s->json)
        putchar('{');
    const char *trimmed = tb_trace_meta(s->trace, "trimmed");
    pair(s, "state", info->complete ? "complete" : "incomplete", true);
    if (trimmed && !s->json)
        printf("%-11s the detail of the oldest %llu events (--max-size)\n", "deleted",
               strtoull(trimmed, NULL, 10));
    pair(s, "job", n > 0 ? p[0].argv : NULL, false);
    pair_number(s, "processes", info->processes);
    pair_number(s, "threads", info->threads);
    pair_number(s, "events", info->events);
    (void)tb_trace_lost(s->trace, &lost, &why);
    if (s->json) {
        tb_show_number("lost", (int64_t)lost);
        tb_show_number("bytes", (int64_t)st.st_size);
        tb_show_number("coverage_information", (int64_t)cover[0]);
        tb_show_number("not_covered", (int64_t)cover[1]);
        tb_show_number("unseen_writers", (int64_t)cover[2]);
        putchar('}');
        return TB_OK;
    }
    (void)snprintf(text, sizeof(text), "%" PRIu64 "%s%s", lost, lost ? ": " : "",
                   lost && why ? why : "");
    pair(s, "lost", text, false);
    (void)snprintf(text, sizeof(text),
                   "%" PRIu64 " not covered, %" PRIu64 " unseen writers, %" PRIu64 " notes",
                   cover[1], cover[2], cover[0]);
    pair(s, "coverage", text, false);
    pair(s, "size", tb_cli_bytes((uint64_t)st.st_size, size, sizeof(size)), false);
    return TB_OK;
}

/* ---------------------------------------------------------------- env */

/* As tb_plain() has it: what somebody set a variable to commands no terminal */
static void put_plain(const char *text, bool lines)
{
    for (; *text; text++) {
        int n = lines && (*text == '\n' || *text == '\t') ? 0 : tb_control(text);
        putchar(n ? '?' : *text);
        text += n > 1;
    }
}

enum tb_status tb_show_env(struct tb_show *s, struct tb_error *err)
{
    const char *key, *value;

    (void)err;
    for (size_t i = 0; tb_trace_meta_at(s->trace, i, &key, &value); i++) {
        if (!tb_show_row(s))
            return TB_OK;
        if (!s->json) {
            put_plain(key, false);
            putchar('=');
            put_plain(value, true);
            putchar('\n');
            continue;
        }
        putchar('{');
        tb_show_field("key", key, true);
        tb_show_field("value", value, false);
        putchar('}');
    }
    return TB_OK;
}

/* ---------------------------------------------------------------- processes */

static void process_json(const struct tb_trace_process *p)
{
    putchar('{');
    tb_show_field("identity", p->identity, true);
    tb_show_field("argv", p->argv, false);
    tb_show_number("id", p->id);
    tb_show_number("parent", p->parent);
    tb_show_number("rank", p->rank);
    tb_show_number("restart", p->restart);
    tb_show_number("worker", p->worker);
    tb_show_number("pid", p->pid);
    fputs(", \"threads\": [", stdout);
}

static void print_threads(const struct tb_show *s, const struct tb_trace_process *p)
{
    size_t n;
    const struct tb_trace_thread *t = tb_trace_threads(s->trace, &n);
    bool first = true;

    for (size_t i = 0; i < n; i++) {
        if (t[i].process != p->id)
            continue;
        if (s->json) {
            fputs(first ? "{" : ", {", stdout);
            tb_show_field("role", t[i].role, true);
            tb_show_number("events", (int64_t)t[i].events);
            putchar('}');
        } else {
            printf("  %-20s %12" PRIu64 " events\n", t[i].role, t[i].events);
        }
        first = false;
    }
}

enum tb_status tb_show_processes(struct tb_show *s, struct tb_error *err)
{
    size_t n;
    const struct tb_trace_process *p = tb_trace_processes(s->trace, &n);

    (void)err;
    for (size_t i = 0; i < n && tb_show_row(s); i++) {
        if (s->json)
            process_json(&p[i]);
        else
            printf("%s (pid %d): %s\n", p[i].identity, p[i].pid, p[i].argv);
        print_threads(s, &p[i]);
        if (s->json)
            fputs("]}", stdout);
    }
    return TB_OK;
}

/* ---------------------------------------------------------------- coverage */

static const char *severity_name(unsigned severity)
{
    static const char *const names[] = {"note", "not covered", "unseen writer"};
    return names[severity < TB_ARRAY_LEN(names) ? severity : 2];
}

static bool print_coverage(void *arg, const struct tb_trace_coverage *row)
{
    struct tb_show *s = arg;

    if (!tb_show_row(s))
        return false;
    if (!s->json) {
        printf("%-13s %8" PRIu64 "x %s: %s%s%s\n", severity_name(row->severity), row->count,
               row->kind, row->subject, *row->detail ? ": " : "", row->detail);
        return true;
    }
    putchar('{');
    tb_show_field("severity", severity_name(row->severity), true);
    tb_show_field("kind", row->kind, false);
    tb_show_field("subject", row->subject, false);
    tb_show_field("detail", row->detail, false);
    tb_show_number("count", (int64_t)row->count);
    tb_show_number("process", row->process);
    tb_show_number("thread", row->thread);
    tb_show_number("event", (int64_t)row->event);
    putchar('}');
    return true;
}

enum tb_status tb_show_coverage(struct tb_show *s, struct tb_error *err)
{
    uint64_t lost = 0;
    const char *why = NULL;

    if (tb_trace_lost(s->trace, &lost, &why) && tb_show_row(s)) {
        if (s->json) {
            putchar('{');
            tb_show_field("severity", "lost", true);
            tb_show_field("detail", why, false);
            tb_show_number("count", (int64_t)lost);
            putchar('}');
        } else {
            printf("%-13s %8" PRIu64 "x %s\n", "lost", lost, why ? why : "");
        }
    }
    return tb_trace_coverage(s->trace, 0, print_coverage, s, err);
}

/* ---------------------------------------------------------------- sites */

/* The kernel's whole name, then the rest of what stands behind the short one */
static void print_detail(const struct tb_site *site)
{
    char kernel[1024];

    if (tb_show_kernel(site, kernel, sizeof(kernel)))
        printf("  kernel %s\n", kernel);
    for (const char *p = site->detail; *p;) {
        size_t n = strcspn(p, "\t");
        printf("  %.*s\n", (int)n, p);
        p += n + (p[n] == '\t');
    }
}

enum tb_status tb_show_sites(struct tb_show *s, struct tb_error *err)
{
    char hex[33], kernel[1024];

    (void)err;
    for (uint32_t id = 1;; id++) {
        const struct tb_site *site = tb_trace_site(s->trace, id);
        if (!site || !tb_show_row(s))
            return TB_OK;
        if (s->json) {
            putchar('{');
            tb_show_field("hash", tb_show_hex(site->hash, hex), true);
            tb_show_field("tap", site->tap, false);
            tb_show_field("name", site->name, false);
            tb_show_field("text", site->text, false);
            tb_show_field("detail", *site->detail ? site->detail : NULL, false);
            tb_show_field("kernel", tb_show_kernel(site, kernel, sizeof(kernel)), false);
            putchar('}');
            continue;
        }
        printf("%s %s\n", tb_show_hex(site->hash, hex), site->name);
        print_detail(site);
        const char *line = site->text;
        for (int i = 0; line && *line; i++) {
            size_t len = strcspn(line, "\n");
            (void)snprintf(kernel, sizeof(kernel), "%.*s", (int)len, line);
            if (i >= 2)
                printf("  %s\n", tb_plain(kernel, false));
            line += len + (line[len] == '\n');
        }
    }
}
