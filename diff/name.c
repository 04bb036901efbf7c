#include "diff/diff.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- text */

static bool number(const char *s, size_t n, uint64_t *out)
{
    uint64_t v = 0;

    if (n == 0 || n > 19)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(s[i] - '0');
    }
    *out = v;
    return true;
}

static bool copy(char *out, size_t size, const char *s, size_t n)
{
    if (n >= size)
        return false;
    memcpy(out, s, n);
    out[n] = '\0';
    return true;
}

/* Cut the part after the last '/' before @end; *@end becomes its slash or NULL at the text's begin
 */
static bool last_part(const char *text, const char **end, const char **part, size_t *n)
{
    const char *stop = *end;

    if (!stop)
        return false;
    const char *p = stop;
    while (p > text && p[-1] != '/')
        p--;
    *part = p;
    *n = (size_t)(stop - p);
    *end = p > text ? p - 1 : NULL;
    return true;
}

static bool parse_right(const char *text, const char **end, struct tb_event_name *o)
{
    const char *hash = strrchr(text, '#');
    const char *part;
    size_t n;

    if (!hash || !number(hash + 1, strlen(hash + 1), &o->k))
        return false;
    *end = hash;
    if (!last_part(text, end, &part, &n) || n == 0 || !copy(o->op, sizeof(o->op), part, n))
        return false;
    if (!last_part(text, end, &part, &n) || !memchr(part, ':', n) ||
        !copy(o->module, sizeof(o->module), part, n))
        return false;
    return last_part(text, end, &part, &n) && number(part, n, &o->step);
}

static bool parse_left(const char *text, const char **end, struct tb_event_name *o)
{
    const char *part;
    size_t n;
    uint64_t rank;

    if (last_part(text, end, &part, &n) && (n == 0 || !copy(o->role, sizeof(o->role), part, n)))
        return false;
    if (last_part(text, end, &part, &n) &&
        (n == 0 || !copy(o->process, sizeof(o->process), part, n)))
        return false;
    if (last_part(text, end, &part, &n)) {
        if (!number(part, n, &rank) || rank > INT32_MAX)
            return false;
        o->rank = (int32_t)rank;
    }
    return *end == NULL;
}

enum tb_status tb_event_name_parse(const char *text, struct tb_event_name *out,
                                   struct tb_error *err)
{
    struct tb_event_name o = {.rank = -1};
    const char *end = NULL;

    if (!parse_right(text, &end, &o) || !parse_left(text, &end, &o))
        return tb_fail(err, TB_ERR_ARG,
                       "'%.200s' is not an event name: expected "
                       "[[[rank/]process/]role/]step/phase:module-path/operator#k",
                       text);
    *out = o;
    return TB_OK;
}

const char *tb_event_name_short(const struct tb_event_name *n, char *out, size_t size)
{
    (void)snprintf(out, size, "%" PRIu64 "/%s/%s#%" PRIu64, n->step, n->module, n->op, n->k);
    return out;
}

const char *tb_event_name_format(const struct tb_event_name *n, char *out, size_t size)
{
    char left[192] = "";
    char right[TB_EVENT_NAME_TEXT];

    if (n->role[0] && n->process[0] && n->rank >= 0)
        (void)snprintf(left, sizeof(left), "%" PRId32 "/%s/%s/", n->rank, n->process, n->role);
    else if (n->role[0] && n->process[0])
        (void)snprintf(left, sizeof(left), "%s/%s/", n->process, n->role);
    else if (n->role[0])
        (void)snprintf(left, sizeof(left), "%s/", n->role);
    (void)snprintf(out, size, "%s%s", left, tb_event_name_short(n, right, sizeof(right)));
    return out;
}

bool tb_event_name_match(const struct tb_event_name *pattern, const struct tb_event_name *name)
{
    return (pattern->rank < 0 || pattern->rank == name->rank) &&
           (!pattern->process[0] || strcmp(pattern->process, name->process) == 0) &&
           (!pattern->role[0] || strcmp(pattern->role, name->role) == 0) &&
           pattern->step == name->step && pattern->k == name->k &&
           strcmp(pattern->module, name->module) == 0 && strcmp(pattern->op, name->op) == 0;
}

void tb_event_name_module(const char *range, char *out, size_t size)
{
    size_t phase = strcspn(range, "\t");
    const char *module = range[phase] ? range + phase + 1 : range + phase;

    if (phase == 0)
        (void)snprintf(out, size, "forward:%.*s", (int)strcspn(module, "\t"), module);
    else
        (void)snprintf(out, size, "%.*s:%.*s", (int)phase, range, (int)strcspn(module, "\t"),
                       module);
}

/* ---------------------------------------------------------------- processes */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

static bool is_script(const char *word)
{
    size_t n = strlen(word);

    return (n > 3 && strcmp(word + n - 3, ".py") == 0) || (n > 3 && !strcmp(word + n - 3, ".sh"));
}

/* The script an interpreter runs ("-m module" too), else the program */
static void program_of(const char *argv, char *out, size_t size)
{
    char word[512], first[512] = "", module[512] = "";
    bool after_m = false;

    for (const char *s = argv; (s = tb_shell_next(s, word, sizeof(word)));) {
        if (!first[0])
            (void)snprintf(first, sizeof(first), "%s", word);
        if (is_script(word)) {
            (void)snprintf(out, size, "%s", base_name(word));
            return;
        }
        if (after_m && !module[0])
            (void)snprintf(module, sizeof(module), "%s", word);
        after_m = strcmp(word, "-m") == 0;
    }
    const char *name = module[0] ? module : first[0] ? base_name(first) : "process";
    (void)snprintf(out, size, "%.*s", (int)size - 1, name);
}

void tb_process_label(const struct tb_trace_process *p, char *out, size_t size)
{
    char program[96], worker[24] = "", restart[24] = "", ordinal[24] = "";

    program_of(p->argv, program, 64);
    for (char *c = program; *c; c++)
        if (*c == '/' || *c == '#' || (unsigned char)*c <= ' ')
            *c = '_';
    if (p->worker >= 0)
        (void)snprintf(worker, sizeof(worker), "-w%" PRId32, p->worker);
    if (p->restart > 0)
        (void)snprintf(restart, sizeof(restart), "-r%" PRId32, p->restart);
    if (p->ordinal > 0)
        (void)snprintf(ordinal, sizeof(ordinal), "-%" PRIu32, p->ordinal);
    (void)snprintf(out, size, "%s%s%s%s", program, ordinal, worker, restart);
}

/* ---------------------------------------------------------------- name of an event */

static bool fill_process(struct tb_trace *t, uint32_t thread, struct tb_event_name *o)
{
    size_t n, m;
    const struct tb_trace_thread *threads = tb_trace_threads(t, &n);
    const struct tb_trace_process *p = tb_trace_processes(t, &m);

    for (size_t i = 0; i < n; i++) {
        if (threads[i].id != thread)
            continue;
        (void)snprintf(o->role, sizeof(o->role), "%s", threads[i].role);
        for (size_t j = 0; j < m; j++)
            if (p[j].id == threads[i].process) {
                tb_process_label(&p[j], o->process, sizeof(o->process));
                o->rank = p[j].rank < 0 ? 0 : p[j].rank;
                return true;
            }
    }
    return false;
}

/* Where to begin to read: the first event of the thread's segments of the same step */
static enum tb_status step_begin(struct tb_trace *t, uint32_t thread, uint64_t id, uint64_t *first,
                                 bool *found, struct tb_error *err)
{
    struct tb_trace_segment *seg = NULL;
    size_t n = 0, at;
    enum tb_status st = tb_trace_segments(t, thread, &seg, &n, err);

    *found = false;
    if (st != TB_OK)
        return st;
    for (at = 0; at < n; at++)
        if (seg[at].first <= id && id <= seg[at].last)
            break;
    if (at < n) {
        *found = true;
        /* one segment more: a step may begin inside of it */
        uint64_t step = seg[at].step;
        while (at > 0 && seg[at].step == step && seg[at - 1].detail)
            at--;
        *first = seg[at].first;
    }
    free(seg);
    return TB_OK;
}

struct counted {
    uint64_t step, k;
    bool found;
};

/* Count events like @id from @first on; @o has module and operator of @id */
static enum tb_status count_like(struct tb_trace *t, uint32_t thread, uint64_t first, uint64_t id,
                                 const struct tb_event_name *o, struct counted *c,
                                 struct tb_error *err)
{
    struct tb_cursor *cur = NULL;
    const struct tb_trace_event *e = NULL;
    char module[sizeof(o->module)];
    enum tb_status st = tb_cursor_open(&cur, t, thread, first, id, err);

    while (st == TB_OK && (st = tb_cursor_next(cur, &e, err)) == TB_OK && e) {
        if (strcmp(e->site->name, o->op) != 0)
            continue;
        tb_event_name_module(tb_trace_range(t, e->e.range), module, sizeof(module));
        if (strcmp(module, o->module) != 0)
            continue;
        if (e->e.step != c->step)
            c->k = 0;
        else
            c->k++;
        c->step = e->e.step;
        if (e->id == id) {
            c->found = true;
            break;
        }
    }
    tb_cursor_close(cur);
    return st;
}

/* Module, operator and step of event @id alone */
static enum tb_status fill_event(struct tb_trace *t, uint32_t thread, uint64_t id,
                                 struct tb_event_name *o, struct tb_error *err)
{
    struct tb_cursor *cur = NULL;
    const struct tb_trace_event *e = NULL;
    enum tb_status st = tb_cursor_open(&cur, t, thread, id, id, err);

    if (st == TB_OK)
        st = tb_cursor_next(cur, &e, err);
    if (st == TB_OK && !e)
        st = tb_fail(err, TB_ERR_NOTFOUND, "no event of row %" PRIu64 " in '%s'", id,
                     tb_trace_info(t)->path);
    else if (st == TB_OK) {
        tb_event_name_module(tb_trace_range(t, e->e.range), o->module, sizeof(o->module));
        (void)snprintf(o->op, sizeof(o->op), "%s", e->site->name);
        o->step = e->e.step;
    }
    tb_cursor_close(cur);
    return st;
}

enum tb_status tb_event_name_of(struct tb_trace *t, uint32_t thread, uint64_t id,
                                struct tb_event_name *out, struct tb_error *err)
{
    struct tb_event_name o = {.rank = -1};
    struct counted c = {.step = UINT64_MAX};
    uint64_t first = 0;
    bool found = false;

    if (!fill_process(t, thread, &o))
        return tb_fail(err, TB_ERR_NOTFOUND, "no thread %" PRIu32 " in '%s'", thread,
                       tb_trace_info(t)->path);
    enum tb_status st = fill_event(t, thread, id, &o, err);
    if (st == TB_OK)
        st = step_begin(t, thread, id, &first, &found, err);
    if (st == TB_OK && !found)
        st = tb_fail(err, TB_ERR_NOTFOUND, "no segment holds event row %" PRIu64, id);
    if (st == TB_OK)
        st = count_like(t, thread, first, id, &o, &c, err);
    if (st == TB_OK && !c.found)
        st = tb_fail(err, TB_ERR_NOTFOUND, "no event of row %" PRIu64, id);
    if (st != TB_OK)
        return st;
    o.k = c.k;
    *out = o;
    return TB_OK;
}
