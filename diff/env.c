/*
 * What differs around the job: command, environment, versions, threads, machine, sources.
 */
#include "diff/diff_internal.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Keys of a trace that differ from run to run and mean nothing, as fnmatch(3) patterns */
static const char *const ignored_keys[] = {
    "start_time",
    "end_time",
    "*_time",
    "startMonotonicNs",
    "startUtcNs",
    "wall_s",
    "collector_cpu_s",
    "*_cpu_s",
    "cost.*",
    "*.pid",
    "pid",
    "trace",
    "trace.*",
    "output",
    "path",
    "log",
    "log.*",
    "snapshots",
    "*.log",
    "*.log.*",
    "argv",
    "events",
    "accesses",
    "segments",
    "coverage",
    "lost",
    "bytes",
    "state",
    "trimmed",
    "stress",
};

/* Variables of the environment of which the same holds */
static const char *const ignored_variables[] = {
    "TWINBIT_*",
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "SSH_*",
    "WINDOWID",
    "TERM_SESSION_ID",
    "XDG_SESSION_ID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SYSTEMD_*",
    "COLUMNS",
    "LINES",
    "LS_COLORS",
    "TMUX*",
    "STY",
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "RANDOM",
    "MAKE*",
    "MFLAGS",
    "PS1",
    "DISPLAY",
    "TMPDIR",
};

#define LINES_MAX 200u
#define VALUE 180 /* of a longer one so much is shown */
#define SHOWN 60u /* values up to this length are shown whole */

enum tb_status add_line(struct tb_diff_line **list, size_t *n, unsigned severity, const char *fmt,
                        ...)
{
    struct tb_diff_line *p = realloc(*list, (*n + 1) * sizeof(*p));
    va_list ap;

    if (!p)
        return TB_ERR_NOMEM;
    *list = p;
    p[*n].severity = severity;
    va_start(ap, fmt);
    (void)vsnprintf(p[*n].text, sizeof(p[*n].text), fmt, ap);
    va_end(ap);
    ++*n;
    return TB_OK;
}

static bool matches(const char *const *patterns, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (fnmatch(patterns[i], key, 0) == 0)
            return true;
    return false;
}

/* ---------------------------------------------------------------- pairs of key and value */

struct pair {
    const char *key, *value;
    size_t key_len, value_len;
};
struct pairs {
    struct pair *p;
    size_t n, cap;
};

static bool add_pair(struct pairs *l, struct pair p)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct pair *q = realloc(l->p, cap * sizeof(*q));
        if (!q)
            return false;
        l->p = q;
        l->cap = cap;
    }
    l->p[l->n++] = p;
    return true;
}

static int by_key(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    size_t n = x->key_len < y->key_len ? x->key_len : y->key_len;
    int c = memcmp(x->key, y->key, n);

    return c ? c : x->key_len < y->key_len ? -1 : x->key_len > y->key_len;
}

static bool ignored(const struct pair *p, bool variable)
{
    char key[256];

    (void)snprintf(key, sizeof(key), "%.*s", (int)p->key_len, p->key);
    return variable ? matches(ignored_variables, TB_ARRAY_LEN(ignored_variables), key)
                    : matches(ignored_keys, TB_ARRAY_LEN(ignored_keys), key);
}

static enum tb_status one_sided(struct tb_diff_report *rep, const char *what, const struct pair *p,
                                char run)
{
    return add_line(&rep->environment, &rep->environment_count, 1, "%s%.*s: only in %c: %.*s%s",
                    what, (int)p->key_len, p->key, run,
                    p->value_len > VALUE ? VALUE : (int)p->value_len, p->value,
                    p->value_len > VALUE ? "..." : "");
}

/* Long values are shown from shortly before the place where they part */
static size_t shared_head(const char *a, size_t n, const char *b, size_t m)
{
    size_t i = 0;

    if (n <= SHOWN && m <= SHOWN)
        return 0;
    while (i < n && i < m && a[i] == b[i])
        i++;
    while (i > 0 && a[i - 1] != ' ' && a[i - 1] != ':' && a[i - 1] != ',')
        i--;
    return i;
}

static enum tb_status both_differ(struct tb_diff_report *rep, const char *what,
                                  const struct pair *p, const struct pair *q)
{
    size_t skip = shared_head(p->value, p->value_len, q->value, q->value_len);
    size_t n = p->value_len - skip, m = q->value_len - skip;

    return add_line(&rep->environment, &rep->environment_count, 1, "%s%.*s: %s%.*s%s | %s%.*s%s",
                    what, (int)p->key_len, p->key, skip ? "..." : "", n > VALUE ? VALUE : (int)n,
                    p->value + skip, n > VALUE ? "..." : "", skip ? "..." : "",
                    m > VALUE ? VALUE : (int)m, q->value + skip, m > VALUE ? "..." : "");
}

/* "KEY='VALUE' " at the end, or "-u KEY " of a variable that was not set at the front, as env(1)
 * takes them; false: no room */
static bool add_setting(char *out, size_t size, const struct pair *key, const struct pair *p)
{
    size_t n = strlen(out), room = key->key_len + 4; /* "-u KEY " */
    char value[512], word[2100];

    if (p) {
        (void)snprintf(value, sizeof(value), "%.*s", (int)p->value_len, p->value);
        tb_shell_word(value, word, sizeof(word));
        bool bare = word[0] != '\'' && word[0] != '$';
        int len = snprintf(out + n, size - n, bare ? "%.*s='%s' " : "%.*s=%s ", (int)key->key_len,
                           key->key, word);
        return p->value_len < sizeof(value) && len > 0 && (size_t)len < size - n;
    }
    if (n + room >= size)
        return false;
    memmove(out + room, out, n + 1);
    out[0] = '-';
    out[1] = 'u';
    out[2] = out[room - 1] = ' ';
    for (size_t i = 0; i < key->key_len; i++)
        out[3 + i] = key->key[i];
    return true;
}

/* Others would be words of a command */
static bool is_variable(const struct pair *p)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

    for (size_t i = 0; i < p->key_len; i++)
        if (!strchr(letters, p->key[i]))
            return false;
    return p->key_len && (p->key[0] < '0' || p->key[0] > '9');
}

/* A variable that differs; @p or @q is NULL where it was not set */
static void note_setting(struct report_builder *rb, const struct pair *p, const struct pair *q)
{
    const struct pair *key = p ? p : q, *const of[2] = {p, q};
    char with[2][sizeof(rb->setting[0])];

    if (!is_variable(key))
        return;
    for (int i = 0; i < 2; i++) { /* what does not fit is left out, in both */
        memcpy(with[i], rb->setting[i], sizeof(with[i]));
        if (!add_setting(with[i], sizeof(with[i]), key, of[i])) {
            rb->settings_cut = true;
            return;
        }
    }
    memcpy(rb->setting, with, sizeof(with));
}

static enum tb_status compare_pairs(struct report_builder *rb, const char *what, struct pairs *a,
                                    struct pairs *b, bool variables)
{
    struct tb_diff_report *rep = rb->rep;
    enum tb_status st = TB_OK;

    if (a->n)
        qsort(a->p, a->n, sizeof(*a->p), by_key);
    if (b->n)
        qsort(b->p, b->n, sizeof(*b->p), by_key);
    for (size_t i = 0, j = 0; st == TB_OK && (i < a->n || j < b->n);) {
        int c = i == a->n ? 1 : j == b->n ? -1 : by_key(&a->p[i], &b->p[j]);
        const struct pair *p = c <= 0 ? &a->p[i] : NULL, *q = c >= 0 ? &b->p[j] : NULL;
        i += c <= 0;
        j += c >= 0;
        if (rep->environment_count >= LINES_MAX || ignored(p ? p : q, variables))
            continue;
        if (p && q && p->value_len == q->value_len && memcmp(p->value, q->value, p->value_len) == 0)
            continue;
        if (variables && strncmp(what, "env", 3) == 0) /* of the first file */
            note_setting(rb, p, q);
        st = p && q ? both_differ(rep, what, p, q) : one_sided(rep, what, p ? p : q, p ? 'A' : 'B');
    }
    return st;
}

/* ---------------------------------------------------------------- what a trace says */

static bool collect_meta(struct tb_trace *t, struct pairs *l)
{
    const char *key, *value;

    for (size_t i = 0; tb_trace_meta_at(t, i, &key, &value); i++)
        if (!add_pair(l, (struct pair){key, value, strlen(key), strlen(value)}))
            return false;
    return true;
}

/* "process.N.": N, and in *@rest what follows; 0: no such key */
static uint32_t process_of_key(const struct pair *p, const char **rest)
{
    static const char head[] = "process.";
    char *end;

    if (p->key_len < sizeof(head) || memcmp(p->key, head, sizeof(head) - 1) != 0)
        return 0;
    unsigned long n = strtoul(p->key + sizeof(head) - 1, &end, 10);
    *rest = end;
    return *end == '.' && n <= UINT32_MAX ? (uint32_t)n : 0;
}

static const struct run_process *process_with(const struct run *r, const struct tb_trace *t,
                                              uint32_t id)
{
    for (size_t i = 0; i < r->procs; i++)
        if (r->trace[r->proc[i].file] == t && r->proc[i].p->id == id)
            return &r->proc[i];
    return NULL;
}

/* Processes are numbered as they arrive: those of run B get the numbers of their mates in A. What a
 * process without a mate has is left out, of both. *@names: their keys, to be freed */
static bool name_as_mates(const struct run *of, const struct run *other, bool renames,
                          const struct tb_trace *t, struct pairs *l, char **names)
{
    size_t room = 1, used = 0, kept = 0;
    const char *rest;

    for (size_t i = 0; i < l->n; i++)
        room += l->p[i].key_len + 12;
    if (!(*names = malloc(room)))
        return false;
    for (size_t i = 0; i < l->n; i++) {
        struct pair p = l->p[i];
        uint32_t id = process_of_key(&p, &rest);
        const struct run_process *q = id ? process_with(of, t, id) : NULL;
        if (q && q->mate < 0)
            continue;
        if (q && renames) {
            p.key_len = (size_t)snprintf(*names + used, room - used, "process.%u%s",
                                         other->proc[q->mate].p->id, rest);
            p.key = *names + used;
            used += p.key_len + 1;
        }
        l->p[kept++] = p;
    }
    l->n = kept;
    return true;
}

/* "KEY=VALUE" entries, each ended by a newline or NUL */
static bool collect_environment(struct tb_trace *t, struct pairs *l)
{
    size_t n = 0;
    const char *text = tb_trace_text(t, "environment", &n);

    for (size_t at = 0, len; text && at < n; at += len + 1) {
        for (len = 0; at + len < n && text[at + len] != '\n' && text[at + len] != '\0';)
            len++;
        const char *eq = memchr(text + at, '=', len);
        if (!eq)
            continue;
        size_t k = (size_t)(eq - (text + at));
        if (!add_pair(l, (struct pair){text + at, eq + 1, k, len - k - 1}))
            return false;
    }
    return true;
}

/* In which order collectives on the CPU end is chance, and decides nothing by itself */
static bool by_chance(const struct pin_seen *p)
{
    static const char id[] = "nccl.gloo";

    return p->id_len == sizeof(id) - 1 && memcmp(p->id, id, p->id_len) == 0;
}

/* What the clock would have been, had it not been replaced, is another one in each run. */
static size_t without_clock(const struct pin_seen *p)
{
    static const char mark[] = " in place of ";
    const char *at = p->value_len ? memmem(p->value, p->value_len, mark, sizeof(mark) - 1) : NULL;

    return at ? (size_t)(at - p->value) : p->value_len;
}

/* Each pin once: as the first process that told had it */
static bool collect_pins(struct tb_trace *t, struct pairs *l)
{
    struct pin_seen p;
    size_t n = 0, at = 0;
    const char *text = tb_trace_text(t, "pins", &n);

    while (text && next_pin(text, n, &at, &p)) {
        const struct pair *last = l->n ? &l->p[l->n - 1] : NULL;
        if (by_chance(&p) ||
            (last && last->key_len == p.id_len && memcmp(last->key, p.id, p.id_len) == 0))
            continue;
        if (!add_pair(l, (struct pair){p.id, p.value, p.id_len, without_clock(&p)}))
            return false;
    }
    return true;
}

/* Files of the two runs are compared by the process they hold: the first of each */
static struct tb_trace *partner(const struct report_builder *rb, size_t file)
{
    if (rb->a->files == 1 && rb->b->files == 1) /* even where no process was recorded */
        return rb->b->trace[0];
    for (size_t i = 0; i < rb->a->procs; i++)
        if (rb->a->proc[i].file == file && rb->a->proc[i].mate >= 0)
            return rb->b->trace[rb->b->proc[rb->a->proc[i].mate].file];
    return NULL;
}

static enum tb_status compare_files(struct report_builder *rb, const char *prefix,
                                    struct tb_trace *a, struct tb_trace *b)
{
    struct pairs x = {0}, y = {0}, ex = {0}, ey = {0}, px = {0}, py = {0};
    char what[160], *names[2] = {NULL, NULL};
    enum tb_status st = TB_ERR_NOMEM;

    if (collect_meta(a, &x) && collect_meta(b, &y) &&
        name_as_mates(rb->a, rb->b, false, a, &x, &names[0]) &&
        name_as_mates(rb->b, rb->a, true, b, &y, &names[1]) && collect_environment(a, &ex) &&
        collect_environment(b, &ey) && collect_pins(a, &px) && collect_pins(b, &py)) {
        st = compare_pairs(rb, prefix, &x, &y, false);
        (void)snprintf(what, sizeof(what), "%senvironment ", prefix);
        if (st == TB_OK)
            st = compare_pairs(rb, what, &ex, &ey, true);
        (void)snprintf(what, sizeof(what), "%spin ", prefix);
        if (st == TB_OK && px.n && py.n) /* earlier versions recorded none */
            st = compare_pairs(rb, what, &px, &py, false);
    }
    free(names[0]);
    free(names[1]);
    free(x.p);
    free(y.p);
    free(ex.p);
    free(ey.p);
    free(px.p);
    free(py.p);
    return st;
}

/* Lines that another file of the run has already given are not worth saying again */
static void drop_doubles(struct tb_diff_report *rep, size_t from, size_t prefix)
{
    size_t kept = from;

    for (size_t i = from; i < rep->environment_count; i++) {
        bool seen = false;
        for (size_t j = 0; j < from && !seen; j++)
            seen = strcmp(rep->environment[j].text, rep->environment[i].text + prefix) == 0;
        if (!seen)
            rep->environment[kept++] = rep->environment[i];
    }
    rep->environment_count = kept;
}

/* The last line says what another one has said: ranks run the same command */
static void drop_double(struct tb_diff_report *rep)
{
    size_t n = rep->environment_count;

    for (size_t i = 0; i + 1 < n; i++)
        if (strcmp(rep->environment[i].text, rep->environment[n - 1].text) == 0) {
            rep->environment_count--;
            return;
        }
}

static enum tb_status compare_commands(struct report_builder *rb)
{
    struct tb_diff_report *rep = rb->rep;
    enum tb_status st = TB_OK;

    for (size_t i = 0; st == TB_OK && i < rb->a->procs; i++) {
        const struct run_process *p = &rb->a->proc[i];
        if (p->mate < 0)
            continue;
        const struct run_process *q = &rb->b->proc[p->mate];
        if (strcmp(p->p->argv, q->p->argv) != 0 && rep->environment_count < LINES_MAX)
            st = both_differ(rep, "", &(struct pair){"argv", p->p->argv, 4, strlen(p->p->argv)},
                             &(struct pair){"argv", q->p->argv, 4, strlen(q->p->argv)});
        if (st == TB_OK && rep->environment_count)
            drop_double(rep);
    }
    return st;
}

enum tb_status compare_environment(struct report_builder *rb)
{
    enum tb_status st = compare_commands(rb);

    for (size_t i = 0; st == TB_OK && i < rb->a->files; i++) {
        struct tb_trace *b = partner(rb, i);
        size_t from = rb->rep->environment_count;
        char prefix[128] = "";
        if (!b)
            continue;
        if (rb->a->files > 1 && i > 0) {
            const char *name = strrchr(rb->a->file[i], '/');
            (void)snprintf(prefix, sizeof(prefix), "%.100s: ", name ? name + 1 : rb->a->file[i]);
        }
        st = compare_files(rb, prefix, rb->a->trace[i], b);
        drop_doubles(rb->rep, i ? from : 0, i ? strlen(prefix) : 0);
    }
    return st;
}

const char *env_differs(const struct tb_diff_report *rep, const char *word)
{
    for (size_t i = 0; i < rep->environment_count; i++) {
        size_t key = strcspn(rep->environment[i].text, ":");
        const char *at = strstr(rep->environment[i].text, word);
        if (at && (size_t)(at - rep->environment[i].text) < key)
            return rep->environment[i].text;
    }
    return NULL;
}

bool poisons(const struct report_builder *rb, uint8_t fill[2])
{
    const struct run *runs[2] = {rb->a, rb->b};
    unsigned byte[2] = {0};
    int n = 0;

    for (int i = 0; i < 2; i++) {
        const char *text = runs[i]->files ? tb_trace_meta(runs[i]->trace[0], "poison") : NULL;
        n += text && sscanf(text, "0x%2x", &byte[i]) == 1;
        if (fill)
            fill[i] = (uint8_t)byte[i];
    }
    return n == 2 && byte[0] != byte[1];
}
