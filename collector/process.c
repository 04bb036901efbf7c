#include "collector/collector_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENVIRON_MAX (256u * 1024u)

/* ---------------------------------------------------------------- argv */

void tb_argv_join(const char *text, size_t n, char *out, size_t size)
{
    size_t at = 0;

    out[0] = 0;
    for (const char *p = text; p < text + n && at + 1 < size; p += strlen(p) + 1) {
        if (p != text)
            out[at++] = ' ';
        at += strlen(tb_shell_word(p, out + at, size - at));
    }
    out[at] = 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* "train.py" for "python -u train.py", "-m pkg.mod" as "pkg.mod", else the program's own name. */
static void short_name(const char *text, size_t n, char *out, size_t size)
{
    const char *program = base_name(text), *end = text + n;
    const char *name = program;

    if (strncmp(program, "python", 6) == 0)
        for (const char *p = text + strlen(text) + 1; p < end; p += strlen(p) + 1) {
            bool module = strcmp(p, "-m") == 0;
            if (strcmp(p, "-c") == 0)
                break;
            if (!module && (p[0] == '-' || p[0] == 0))
                continue;
            const char *next = module ? p + strlen(p) + 1 : p;
            name = next < end ? base_name(next) : program;
            break;
        }
    (void)snprintf(out, size, "%s", name[0] ? name : "process");
    for (char *c = out; *c; c++) /* identities are paths, and parts of event names */
        if (*c == '/' || *c == '#' || *c == ' ' || *c == '\n' || *c == '\t')
            *c = '_';
}

/* ---------------------------------------------------------------- attach */

static int32_t number_in(const char *environ_text, size_t n, const char *name, int32_t otherwise)
{
    const char *value = tb_proc_environ(environ_text, n, name);
    char *end;

    if (!value || !value[0])
        return otherwise;
    long x = strtol(value, &end, 10);
    return *end || x < 0 || x > INT32_MAX ? otherwise : (int32_t)x;
}

static void read_environ(struct tb_col_process *p)
{
    char *text = malloc(ENVIRON_MAX);
    ssize_t n = text ? tb_proc_read(p->pid, "environ", text, ENVIRON_MAX) : -1;

    p->rank = -1;
    if (n > 0) {
        p->rank = number_in(text, (size_t)n, "RANK", -1);
        p->restart = number_in(text, (size_t)n, "TORCHELASTIC_RESTART_COUNT", 0);
    }
    free(text);
}

static void read_argv(struct tb_col_process *p)
{
    char *text = malloc(ENVIRON_MAX);
    ssize_t n = text ? tb_proc_read(p->pid, "cmdline", text, ENVIRON_MAX) : -1;

    if (n > 0) {
        tb_argv_join(text, (size_t)n, p->argv, sizeof(p->argv));
        short_name(text, (size_t)n, p->name, sizeof(p->name));
    } else {
        (void)snprintf(p->name, sizeof(p->name), "process");
    }
    free(text);
}

struct tb_col_process *tb_process_new(pid_t pid, const struct tb_wire_msg *hello)
{
    struct tb_col_process *p = calloc(1, sizeof(*p));
    struct tb_proc_stat st = {0};

    if (!p)
        return NULL;
    p->pid = pid;
    p->nonce = hello->nonce;
    p->parent_nonce = hello->parent_nonce;
    p->fork_ordinal = hello->fork_ordinal;
    p->rank_said = p->worker_said = p->worker = -1;
    p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (p->pidfd >= 0)
        (void)fcntl(p->pidfd, F_SETFD, FD_CLOEXEC);
    if (tb_proc_stat(pid, &st))
        p->start = st.start;
    ssize_t n = tb_proc_read(pid, "auxv", (char *)p->auxv, sizeof(p->auxv));
    p->auxv_len = n > 0 ? (size_t)n : 0;
    read_argv(p);
    read_environ(p);
    return p;
}

void tb_process_free(struct tb_col_process *p)
{
    if (!p)
        return;
    if (p->pidfd >= 0)
        (void)close(p->pidfd);
    free(p);
}

void tb_process_row(const struct tb_col_process *p, struct tb_store_process *row)
{
    static _Thread_local char provisional[64];

    (void)snprintf(provisional, sizeof(provisional), "attach#%u", p->index);
    *row = (struct tb_store_process){
        .parent = p->parent ? p->parent->row : 0,
        .ordinal = p->ordinal,
        .rank = p->rank_said >= 0 ? p->rank_said : p->rank,
        .restart = p->restart,
        .worker = p->worker,
        .pid = p->pid,
        .argv = p->argv,
        .identity = p->identity[0] ? p->identity : provisional,
    };
}

/* ---------------------------------------------------------------- identities, at close */

/* What siblings must share to be counted together; their ordinals tell them apart. */
static void kind_of(const struct tb_col_process *p, char *out, size_t size)
{
    int32_t rank = p->rank_said >= 0 ? p->rank_said : p->rank;
    const struct tb_col_process *parent = p->parent;
    int32_t above = parent ? (parent->rank_said >= 0 ? parent->rank_said : parent->rank) : -1;
    int n = snprintf(out, size, "%s", p->parent_nonce ? "fork" : p->name);

    if (rank >= 0 && rank != above)
        n += snprintf(out + n, size - (size_t)n, ":rank%d", rank);
    if (p->restart > 0 && (!parent || p->restart != parent->restart))
        (void)snprintf(out + n, size - (size_t)n, ":restart%d", p->restart);
}

/* Did @a begin before @b? Forks of one parent are numbered by it; else the kernel's start time. */
static bool earlier(const struct tb_col_process *a, const struct tb_col_process *b)
{
    if (a->parent_nonce && a->parent_nonce == b->parent_nonce && a->fork_ordinal != b->fork_ordinal)
        return a->fork_ordinal < b->fork_ordinal;
    if (a->start != b->start)
        return a->start < b->start;
    return a->pid != b->pid ? a->pid < b->pid : a->index < b->index;
}

static void name_one(struct tb_col_process *all, struct tb_col_process *p)
{
    char mine[128], other[128];

    kind_of(p, mine, sizeof(mine));
    p->ordinal = 0;
    for (const struct tb_col_process *q = all; q; q = q->next) {
        if (q == p || q->parent != p->parent)
            continue;
        kind_of(q, other, sizeof(other));
        p->ordinal += strcmp(mine, other) == 0 && earlier(q, p);
    }
    p->worker = p->worker_said >= 0 ? p->worker_said : p->parent_nonce ? (int32_t)p->ordinal : -1;
    (void)snprintf(p->identity, sizeof(p->identity), "%.380s%s%.120s#%u",
                   p->parent ? p->parent->identity : "", p->parent ? "/" : "", mine, p->ordinal);
}

void tb_process_name_all(struct tb_col_process *all)
{
    uint32_t count = 0;

    for (const struct tb_col_process *p = all; p; p = p->next)
        count = p->index > count ? p->index : count;
    /* A parent attached before its children: by index its identity is ready when theirs is made. */
    for (uint32_t i = 1; i <= count; i++)
        for (struct tb_col_process *p = all; p; p = p->next)
            if (p->index == i)
                name_one(all, p);
}
