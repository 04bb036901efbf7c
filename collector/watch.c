/*
 * Descendants that use libtorch or libcuda and never attached: their environment was cut, they are
 * statically linked, or the library did not find its moment. They are seen by looking, not told.
 * So are those that run without libtwinbit_pins and were started by one that has it not either.
 */
#include "collector/collector_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SEEN 65536u
#define LEFT_NAMED 4u

struct seen {
    pid_t pid, ppid; /* ppid: when it was first seen */
    uint64_t start;
    unsigned age;        /* polls it was seen in */
    unsigned maps;       /* of the last look that found a library of interest */
    bool alive, no_hook; /* no_hook: torch or cuda without libtwinbit */
    bool is_static;
    unsigned bare; /* looks in a row at one image that found no libtwinbit_pins */
    char program[512];
    uint8_t auxv[512];
    size_t auxv_len;
    char argv[512];
};

struct tb_watch {
    struct seen **seen;
    size_t count, size;
    pid_t self, job, left_out;
    bool pins;         /* programs without libtwinbit_pins are looked for */
    const int *helper; /* a child of twinbit's own, reaped by who started it */
};

struct tb_watch *tb_watch_new(const int *helper)
{
    struct tb_watch *w = calloc(1, sizeof(*w));

    if (w) {
        w->self = getpid();
        w->helper = helper;
    }
    return w;
}

void tb_watch_free(struct tb_watch *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++)
        free(w->seen[i]);
    free(w->seen);
    free(w);
}

static struct seen *find(const struct tb_watch *w, pid_t pid, uint64_t start)
{
    for (size_t i = w->count; i-- > 0;)
        if (w->seen[i]->pid == pid && (!start || w->seen[i]->start == start))
            return w->seen[i];
    return NULL;
}

static struct seen *add(struct tb_watch *w, pid_t pid, const struct tb_proc_stat *st)
{
    if (w->count == w->size) {
        size_t size = w->size ? w->size * 2 : 64;
        struct seen **p = size <= MAX_SEEN ? realloc(w->seen, size * sizeof(struct seen *)) : NULL;
        if (!p)
            return NULL;
        w->seen = p;
        w->size = size;
    }
    struct seen *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->pid = pid;
    s->ppid = st->ppid;
    s->start = st->start;
    w->seen[w->count++] = s;
    return s;
}

/* Looking costs the process a moment's lock: often while it is young, then seldom. */
static bool due(unsigned age)
{
    return age <= 8 || (age <= 40 && age % 4 == 0) || age % 20 == 0;
}

/* Twice at least in the same program: a moment after exec the library is not in yet. What was so
 * once stays so. */
static void look_for_pins(struct seen *s, unsigned maps)
{
    char link[64], program[sizeof(s->program)];

    if (s->bare >= 2 || !(maps & TB_MAPS_FILE))
        return;
    (void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)s->pid);
    ssize_t n = readlink(link, program, sizeof(program) - 1);
    if (n <= 0)
        return;
    program[n] = 0;
    bool same = strcmp(program, s->program) == 0;
    s->bare = maps & TB_MAPS_PINS ? 0 : same ? s->bare + 1 : 1;
    s->is_static = !(maps & TB_MAPS_LOADER);
    memcpy(s->program, program, (size_t)n + 1);
}

static void look_at(const struct tb_watch *w, struct seen *s)
{
    char text[4096];
    unsigned maps = tb_proc_maps(s->pid);

    if (w->pins)
        look_for_pins(s, maps);
    if (!(maps & (TB_MAPS_TORCH | TB_MAPS_CUDA)))
        return;
    uint8_t auxv[sizeof(s->auxv)];
    ssize_t n = tb_proc_read(s->pid, "auxv", (char *)auxv, sizeof(auxv));
    if (n <= 0)
        return; /* it ended while we looked: whose image it was can no longer be told */
    maps = tb_proc_maps(s->pid);
    if (!(maps & (TB_MAPS_TORCH | TB_MAPS_CUDA)))
        return; /* a fork that has become another program meanwhile: these are not its libraries */
    memcpy(s->auxv, auxv, (size_t)n);
    s->auxv_len = (size_t)n;
    s->maps = maps;
    s->no_hook = s->no_hook || !(maps & TB_MAPS_TWINBIT);
    n = tb_proc_read(s->pid, "cmdline", text, sizeof(text));
    if (n > 0)
        tb_argv_join(text, (size_t)n, s->argv, sizeof(s->argv));
}

/* Orphans become our children (we are their subreaper): take their status, as init would. */
static void reap(const struct tb_watch *w, pid_t pid, const struct tb_proc_stat *st)
{
    if (st->state == 'Z' && st->ppid == w->self && pid != w->job &&
        pid != __atomic_load_n(w->helper, __ATOMIC_ACQUIRE) && !tb_command_is_running())
        (void)waitpid(pid, NULL, WNOHANG);
}

static void visit(void *arg, pid_t pid)
{
    struct tb_watch *w = arg;
    struct tb_proc_stat st;

    if (pid == w->self || pid == w->left_out ||
        pid == __atomic_load_n(w->helper, __ATOMIC_ACQUIRE) || !tb_proc_stat(pid, &st))
        return;
    struct seen *s = find(w, pid, st.start);
    if (s && s->alive)
        return; /* this poll's: a child moved while we walked */
    if (!s)
        s = add(w, pid, &st);
    if (s) {
        s->alive = true;
        s->age++;
        if (due(s->age))
            look_at(w, s);
    }
    reap(w, pid, &st);
    tb_proc_children(pid, visit, w);
}

/* Those that ended and were of no interest are forgotten. */
static void forget_dead(struct tb_watch *w)
{
    size_t kept = 0;

    for (size_t i = 0; i < w->count; i++) {
        if (w->seen[i]->alive || w->seen[i]->maps || w->seen[i]->bare >= 2)
            w->seen[kept++] = w->seen[i];
        else
            free(w->seen[i]);
    }
    w->count = kept;
}

void tb_watch_poll(struct tb_watch *w, pid_t job)
{
    w->job = job;
    for (size_t i = 0; i < w->count; i++)
        w->seen[i]->alive = false;
    tb_proc_children(w->self, visit, w);
    forget_dead(w);
}

uint32_t tb_watch_living(struct tb_watch *w, pid_t job)
{
    struct tb_proc_stat st;
    uint32_t count = 0;

    tb_watch_poll(w, job);
    for (size_t i = 0; i < w->count; i++) {
        struct seen *s = w->seen[i];
        if (!s->alive || !tb_proc_stat(s->pid, &st) || st.state == 'Z')
            continue;
        look_at(w, s);
        count += s->maps != 0;
    }
    return count;
}

uint32_t tb_watch_left(struct tb_watch *w, pid_t job, char *names, size_t size)
{
    struct tb_proc_stat st;
    char text[256], name[64];
    uint32_t count = 0;
    size_t used = 0;

    names[0] = 0;
    tb_watch_poll(w, job);
    for (size_t i = 0; i < w->count; i++) {
        const struct seen *s = w->seen[i];
        if (!s->alive || s->pid == job || !tb_proc_stat(s->pid, &st) || st.state == 'Z')
            continue;
        ssize_t n = tb_proc_read(s->pid, "comm", text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = 0;
        text[strcspn(text, "\n")] = 0;
        (void)snprintf(name, sizeof(name), "%.60s", text);
        (void)tb_plain(name, false);
        if (count++ < LEFT_NAMED && used < size)
            used += (size_t)snprintf(names + used, size - used, "%s%s", used ? ", " : "", name);
    }
    if (count > LEFT_NAMED && used < size)
        (void)snprintf(names + used, size - used, ", ...");
    return count;
}

pid_t tb_watch_parent(const struct tb_watch *w, pid_t pid)
{
    const struct seen *s = find(w, pid, 0);

    return s ? s->ppid : 0;
}

static bool same_image(const struct seen *s, const struct tb_col_process *p)
{
    return s->auxv_len && s->auxv_len == p->auxv_len && memcmp(s->auxv, p->auxv, s->auxv_len) == 0;
}

/*
 * It attached, or it is a fork of one that did and had no event: then there is nothing to cover.
 * (An attaching import hook loads libtwinbit after libtorch: no_hook may be an early look.)
 */
static bool covered(const struct seen *s, const struct tb_col_process *processes)
{
    for (const struct tb_col_process *p = processes; p; p = p->next)
        if (same_image(s, p) && (!s->no_hook || p->pid == s->pid))
            return true;
    return false;
}

/* A fork of an uncovered program that was seen before it ran another is no second program. */
static bool counted_before(const struct tb_watch *w, size_t i)
{
    const struct seen *s = w->seen[i];

    for (size_t j = 0; j < i; j++)
        if (w->seen[j]->maps && w->seen[j]->auxv_len == s->auxv_len &&
            memcmp(w->seen[j]->auxv, s->auxv, s->auxv_len) == 0)
            return true;
    return false;
}

/*
 * NULL: nothing is missing. A tap of CUDA attaches at the first call: a driver in a process that
 * did not attach has not been called.
 */
static const char *why_not_covered(const struct seen *s, const struct tb_col_process *processes,
                                   unsigned cuda_tap)
{
    bool whole = covered(s, processes);

    if (s->no_hook && !whole)
        return "libtwinbit is not in it (its environment was cut, or it is set-user-id)";
    if (cuda_tap == TB_CUDA_TAP_SHIM && (s->maps & (TB_MAPS_CUDA | TB_MAPS_SHIM)) == TB_MAPS_CUDA)
        return "it found libcuda without the shim before it (it changes LD_LIBRARY_PATH, or opens "
               "a path of its own): --tap cupti sees it";
    if (whole || (cuda_tap != TB_CUDA_TAP_NONE && !(s->maps & TB_MAPS_TORCH)))
        return NULL;
    return "libtwinbit is in it, but it never attached";
}

void tb_watch_leave_out(struct tb_watch *w, pid_t pid)
{
    w->left_out = pid;
}

void tb_watch_pins(struct tb_watch *w)
{
    w->pins = true;
}

void tb_watch_unreached(const struct tb_watch *w,
                        void (*fn)(void *arg, const char *program, const char *why), void *arg)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->seen[i]->bare >= 2)
            fn(arg, w->seen[i]->program,
               w->seen[i]->is_static ? "statically linked"
                                     : "libtwinbit_pins is not in it: its environment was cut, or "
                                       "it is set-user-id");
}

const char *tb_watch_told(struct tb_watch *w, pid_t pid)
{
    struct seen *s = find(w, pid, 0);

    if (s)
        s->maps = 0;
    return s ? s->argv : "";
}

uint32_t tb_watch_result(const struct tb_watch *w, const struct tb_col_process *processes,
                         unsigned cuda_tap,
                         void (*fn)(void *arg, const char *argv, const char *why), void *arg)
{
    uint32_t count = 0;

    for (size_t i = 0; i < w->count; i++) {
        const struct seen *s = w->seen[i];
        const char *why = s->maps ? why_not_covered(s, processes, cuda_tap) : NULL;

        if (!why || counted_before(w, i))
            continue;
        count++;
        fn(arg, s->argv, why);
    }
    return count;
}
