/*
 * A run: one trace, or a folder of them; its processes, and which of the other run's they are.
 */
#include "diff/diff_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SUFFIX ".twinbit"
#define UNLIKE_SITES 16u /* of ... sites, at least this share is common to runs of one job */

/* ---------------------------------------------------------------- files */

static enum tb_status add_file(struct run *r, const char *path, struct tb_error *err)
{
    char **file = realloc(r->file, (r->files + 1) * sizeof(*file));
    char *copy = strdup(path);

    if (file)
        r->file = file;
    if (!file || !copy) {
        free(copy);
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the files of '%s'", r->path);
    }
    r->file[r->files++] = copy;
    return TB_OK;
}

static bool is_trace(const char *name)
{
    size_t n = strlen(name);

    return n > sizeof(SUFFIX) - 1 && strcmp(name + n - (sizeof(SUFFIX) - 1), SUFFIX) == 0;
}

static int by_name(const void *p, const void *q)
{
    return strcmp(*(char *const *)p, *(char *const *)q);
}

static enum tb_status list_folder(struct run *r, struct tb_error *err)
{
    DIR *d = opendir(r->path);
    struct dirent *e;
    char path[4096];
    enum tb_status st = TB_OK;

    if (!d)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot open '%s'", r->path);
    while (st == TB_OK && (e = readdir(d)))
        if (is_trace(e->d_name)) {
            (void)snprintf(path, sizeof(path), "%s/%s", r->path, e->d_name);
            st = add_file(r, path, err);
        }
    (void)closedir(d);
    if (st == TB_OK && r->files == 0)
        return tb_fail(err, TB_ERR_NOTFOUND, "no *" SUFFIX " file in '%s'", r->path);
    if (r->files)
        qsort(r->file, r->files, sizeof(*r->file), by_name);
    return st;
}

static enum tb_status list_files(struct run *r, struct tb_error *err)
{
    struct stat sb;

    if (stat(r->path, &sb) == 0 && S_ISDIR(sb.st_mode))
        return list_folder(r, err);
    return add_file(r, r->path, err);
}

/* ---------------------------------------------------------------- processes */

static enum tb_status add_processes(struct run *r, uint32_t file, struct tb_error *err)
{
    size_t n;
    const struct tb_trace_process *p = tb_trace_processes(r->trace[file], &n);
    struct run_process *all = realloc(r->proc, (r->procs + n + 1) * sizeof(*all));

    if (!all)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the processes of '%s'", r->path);
    r->proc = all;
    for (size_t i = 0; i < n; i++) {
        struct run_process *q = &r->proc[r->procs++];
        *q = (struct run_process){.file = file, .p = &p[i], .mate = -1};
        tb_process_label(&p[i], q->label, sizeof(q->label));
    }
    return TB_OK;
}

enum tb_status run_open(struct run *r, const char *path, struct tb_error *err)
{
    *r = (struct run){0};
    if (strlen(path) >= sizeof(r->path))
        return tb_fail(err, TB_ERR_ARG, "the path '%.80s...' is too long", path);
    (void)snprintf(r->path, sizeof(r->path), "%s", path);
    enum tb_status st = list_files(r, err);
    if (st == TB_OK) {
        r->trace = calloc(r->files, sizeof(struct tb_trace *));
        if (!r->trace)
            st = tb_fail(err, TB_ERR_NOMEM, "no memory for the files of '%s'", path);
    }
    for (size_t i = 0; st == TB_OK && i < r->files; i++)
        if ((st = tb_trace_open(&r->trace[i], r->file[i], err)) == TB_OK)
            st = add_processes(r, (uint32_t)i, err);
    if (st != TB_OK)
        run_close(r);
    return st;
}

void run_close(struct run *r)
{
    for (size_t i = 0; i < r->files; i++) {
        if (r->trace)
            tb_trace_close(r->trace[i]);
        free(r->file[i]);
    }
    free(r->trace);
    free(r->file);
    free(r->proc);
    *r = (struct run){0};
}

/* ---------------------------------------------------------------- matching */

static void mate(struct run *a, size_t i, struct run *b, size_t j, bool loosely)
{
    a->proc[i].mate = (int32_t)j;
    b->proc[j].mate = (int32_t)i;
    a->proc[i].loosely = b->proc[j].loosely = loosely;
}

/* Index in the run of the parent of process @i; -1: none */
static int32_t parent_of(const struct run *r, size_t i)
{
    for (size_t j = 0; j < r->procs; j++)
        if (r->proc[j].file == r->proc[i].file && r->proc[j].p->id == r->proc[i].p->parent)
            return (int32_t)j;
    return -1;
}

static bool same_role(const struct run *a, size_t i, const struct run *b, size_t j, bool program)
{
    const struct tb_trace_process *p = a->proc[i].p, *q = b->proc[j].p;
    int32_t pa = parent_of(a, i), pb = parent_of(b, j);

    if (p->rank != q->rank || p->restart != q->restart || p->worker != q->worker ||
        p->ordinal != q->ordinal || (pa < 0) != (pb < 0))
        return false;
    if (pa >= 0 && a->proc[pa].mate != pb)
        return false;
    return !program || strcmp(a->proc[i].label, b->proc[j].label) == 0;
}

/* Rounds: equal identity; the same program in the same role; the same role alone */
static void match_round(struct run *a, struct run *b, int round)
{
    for (size_t i = 0; i < a->procs; i++)
        for (size_t j = 0; a->proc[i].mate < 0 && j < b->procs; j++) {
            if (b->proc[j].mate >= 0)
                continue;
            bool fits = round == 0 ? strcmp(a->proc[i].p->identity, b->proc[j].p->identity) == 0
                                   : same_role(a, i, b, j, round == 1);
            if (fits)
                mate(a, i, b, j, round > 0);
        }
}

struct hashes {
    uint64_t *h;
    size_t n;
};

static int by_value(const void *p, const void *q)
{
    uint64_t x = *(const uint64_t *)p, y = *(const uint64_t *)q;

    return x < y ? -1 : x > y;
}

static bool collect_sites(const struct run *r, struct hashes *out)
{
    size_t cap = 0;

    *out = (struct hashes){0};
    for (size_t f = 0; f < r->files; f++) {
        const struct tb_site *s;
        for (uint32_t id = 1; (s = tb_trace_site(r->trace[f], id)); id++) {
            if (out->n == cap) {
                cap = cap ? 2 * cap : 1024;
                uint64_t *h = realloc(out->h, cap * sizeof(*h));
                if (!h)
                    return false;
                out->h = h;
            }
            out->h[out->n++] = site_alike(s);
        }
    }
    if (out->n)
        qsort(out->h, out->n, sizeof(*out->h), by_value);
    return true;
}

/* Sites that both have; *@least: how many the smaller has */
static bool common_sites(const struct run *a, const struct run *b, size_t *common, size_t *least)
{
    struct hashes x, y;
    bool ok = collect_sites(a, &x);

    ok = collect_sites(b, &y) && ok;
    *common = 0;
    *least = x.n < y.n ? x.n : y.n;
    for (size_t i = 0, j = 0; ok && i < x.n && j < y.n;) {
        *common += x.h[i] == y.h[j];
        if (x.h[i] < y.h[j])
            i++;
        else if (x.h[i] > y.h[j])
            j++;
        else
            i++, j++;
    }
    free(x.h);
    free(y.h);
    return ok;
}

static bool recorded(const struct run *r, size_t i)
{
    size_t n;
    const struct tb_trace_thread *th = tb_trace_threads(r->trace[r->proc[i].file], &n);

    for (size_t k = 0; k < n; k++)
        if (th[k].process == r->proc[i].p->id && th[k].events)
            return true;
    return false;
}

/* Pairs of processes in which both runs recorded something; *@same: of those, of the same program
 */
static size_t telling_pairs(const struct run *a, const struct run *b, size_t *same)
{
    size_t n = 0;

    *same = 0;
    for (size_t i = 0; i < a->procs; i++) {
        int32_t j = a->proc[i].mate;
        if (j < 0 || !recorded(a, i) || !recorded(b, (size_t)j))
            continue;
        n++;
        *same += strcmp(a->proc[i].label, b->proc[j].label) == 0;
    }
    return n;
}

/* Recorded from Python where there was no compiler: other operators are seen then */
static bool by_python(const struct run *r)
{
    for (size_t i = 0; i < r->files; i++) {
        const char *tap = tb_trace_meta(r->trace[i], "tap");
        if (tap && strcmp(tap, "python") == 0)
            return true;
    }
    return false;
}

/* Runs of one job share a program, or most of its operators; and some operators in any case */
enum tb_status run_match(struct run *a, struct run *b, struct tb_error *err)
{
    size_t common, least, same;

    if (!common_sites(a, b, &common, &least))
        return tb_fail(err, TB_ERR_NOMEM, "no memory to match processes");
    for (int round = 0; round < 3; round++)
        match_round(a, b, round);
    if (least != 0 && by_python(a) != by_python(b))
        return tb_fail(err, TB_ERR_UNSUPPORTED,
                       "cannot compare '%.200s' with '%.200s': '%.200s' was recorded from Python "
                       "(no compiler), the other one by the native tap; record both alike",
                       a->path, b->path, by_python(a) ? a->path : b->path);
    if (a->procs == 0 || b->procs == 0 || least == 0)
        return TB_OK;
    size_t pairs = telling_pairs(a, b, &same);
    if (pairs == 0 || common * UNLIKE_SITES < least || (same == 0 && common * 2 < least))
        return tb_fail(
            err, TB_ERR_ARG,
            "cannot compare '%.150s' with '%.150s': they are traces of unlike jobs (%zu of "
            "%zu kinds of operators are common, %zu processes)",
            a->path, b->path, common, least, pairs);
    return TB_OK;
}
