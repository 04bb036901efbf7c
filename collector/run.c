#include "collector/collector_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WATCH_MS 250u
#define WATCH_LATER_MS                                                                             \
    1000u /* when the run is older than WATCH_OFTEN_MS: threads cost a look each */
#define WATCH_OFTEN_MS 60000u
#define DRAIN_MS 5000u /* after the job's end, for processes that still live */
#define LEFT_MS 300    /* ... and for those that are of no interest to it */
#define MAX_FDS 1024u

/* The front's state; one thread. */
struct tb_col {
    const char *no_cuda; /* as in the result */
    const struct tb_collector_options *o;
    struct tb_collector_options effective; /* with defaults filled in */
    struct tb_store *store;
    struct tb_server *server;
    struct tb_drain *drain;
    struct tb_watch *watch;
    struct tb_wire_bell *bell;
    struct tb_pins *pins;
    struct tb_draws *draws;
    struct tb_caches *caches;
    struct tb_syscalls *syscalls;
    struct tb_stress *stress;
    struct tb_col_process *processes, **last_process;
    struct tb_signals signals;
    struct tb_job job;
    uint32_t process_count, not_covered, log_count;
    char *log[TB_COL_LOG_LINES];
    int bell_fd;
    uint64_t begin_ms, end_ms, watched_ms, shown_ms, living_ms;
    double cpu_before;
    char trace[4096], program[TB_COL_TEXT]; /* program: of the job */
};

static uint64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static double cpu_seconds(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u) != 0)
        return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void keep_line(struct tb_col *c, const char *text)
{
    if (c->log_count < TB_COL_LOG_LINES)
        c->log[c->log_count++] = strdup(text);
}

/* ---------------------------------------------------------------- what the server tells */

static struct tb_col_process *by_nonce(struct tb_col *c, uint64_t nonce)
{
    struct tb_col_process *p = c->processes;

    while (p && p->nonce != nonce)
        p = p->next;
    return p;
}

static struct tb_col_process *alive_by_pid(struct tb_col *c, pid_t pid)
{
    struct tb_col_process *found = NULL;

    for (struct tb_col_process *p = c->processes; p; p = p->next)
        if (p->pid == pid && !p->gone)
            found = p;
    return found;
}

/* Nearest ancestor that attached: by the nonce of a fork, by an earlier image, else up the tree. */
static struct tb_col_process *parent_of(struct tb_col *c, const struct tb_col_process *p)
{
    struct tb_proc_stat st;
    struct tb_col_process *found;
    pid_t pid = p->pid;

    if (p->parent_nonce && (found = by_nonce(c, p->parent_nonce)) != NULL)
        return found;
    if ((found = alive_by_pid(c, pid)) != NULL)
        return found;
    for (int depth = 0; depth < 64; depth++) {
        pid_t first = tb_watch_parent(c->watch, pid);
        pid = first ? first : tb_proc_stat(pid, &st) ? st.ppid : 0;
        if (pid <= 1 || pid == getpid())
            return NULL;
        if ((found = alive_by_pid(c, pid)) != NULL)
            return found;
    }
    return NULL;
}

static void process_gone(struct tb_col *c, struct tb_col_process *p)
{
    p->gone = true;
    if (p->pidfd >= 0)
        (void)close(p->pidfd);
    p->pidfd = -1;
    tb_drain_post(c->drain, &(struct tb_drain_cmd){.kind = TB_DRAIN_GONE, .process = p});
}

static void on_hello(void *arg, pid_t pid, const struct tb_wire_msg *msg)
{
    struct tb_col *c = arg;
    struct tb_col_process *p = by_nonce(c, msg->nonce) ? NULL : tb_process_new(pid, msg);

    if (!p)
        return;
    p->parent = parent_of(c, p);
    struct tb_col_process *before =
        alive_by_pid(c, pid); /* it called exec, or its pid was used again */
    p->index = ++c->process_count;
    *c->last_process = p;
    c->last_process = &p->next;
    tb_drain_post(c->drain, &(struct tb_drain_cmd){.kind = TB_DRAIN_PROCESS, .process = p});
    if (before)
        process_gone(c, before);
}

/* A ring or a slot table: memory that the job and the drain share. */
static void on_shared(struct tb_col *c, struct tb_col_process *p, const struct tb_wire_msg *msg,
                      int fd)
{
    bool ring = msg->kind == TB_MSG_RING;
    struct stat st;
    struct tb_drain_cmd cmd = {
        .kind = ring ? TB_DRAIN_RING : TB_DRAIN_SLOTS, .process = p, .thread = msg->thread};

    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK); /* the job has done so; a file has no seals */
    if (fstat(fd, &st) != 0 || st.st_size <= TB_WIRE_RING_PAGE)
        return;
    cmd.bytes = (size_t)st.st_size;
    cmd.map = mmap(NULL, cmd.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (cmd.map != MAP_FAILED)
        tb_drain_post(c->drain, &cmd);
    else
        keep_line(c, ring ? "a ring of the job could not be mapped"
                          : "a slot table of the job could not be mapped");
}

static void on_log(struct tb_col *c, struct tb_col_process *p, const struct tb_wire_msg *msg)
{
    char line[1024];
    bool stopped = msg->flags & TB_MSGF_STOPPED;

    (void)snprintf(line, sizeof(line), "process %d%s: %.900s", (int)p->pid,
                   stopped ? " is not recorded" : "", msg->text);
    keep_line(c, line);
    tb_drain_post(c->drain,
                  &(struct tb_drain_cmd){.kind = stopped ? TB_DRAIN_STOPPED : TB_DRAIN_LOG,
                                         .process = p,
                                         .text = strdup(msg->text)});
}

static void on_message(void *arg, pid_t pid, const struct tb_wire_msg *msg, int fd)
{
    struct tb_col *c = arg;
    struct tb_col_process *p = msg->nonce ? by_nonce(c, msg->nonce) : alive_by_pid(c, pid);

    if (msg->kind == TB_MSG_PIN)
        tb_pins_message(c->pins, pid, p ? p->index : 0, msg->text);
    if (p && msg->kind == TB_MSG_SNAPSHOT && fd >= 0) {
        tb_drain_post(c->drain,
                      &(struct tb_drain_cmd){.kind = TB_DRAIN_SNAPSHOT, .process = p, .fd = fd});
        return;
    }
    if (p && (msg->kind == TB_MSG_RING || msg->kind == TB_MSG_SLOTS) && fd >= 0)
        on_shared(c, p, msg, fd);
    else if (p && msg->kind == TB_MSG_LOG)
        on_log(c, p, msg);
    if (fd >= 0)
        (void)close(fd);
}

static void on_no_tap(void *arg, const char *why)
{
    keep_line(arg, why);
}

/* ---------------------------------------------------------------- opening */

/* A folder means <host>-<SLURM_PROCID or pid>.twinbit in it. */
static enum tb_status choose_trace(struct tb_col *c, struct tb_error *err)
{
    const char *output = c->o->output, *proc = getenv("SLURM_PROCID");
    size_t n = strlen(output);
    char host[65] = "host", number[24];
    struct stat st;
    bool folder = n && output[n - 1] == '/';

    if (folder && mkdir(output, 0777) != 0 && errno != EEXIST)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot make '%s'", output);
    if (stat(output, &st) == 0 && S_ISDIR(st.st_mode))
        folder = true;
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(number, sizeof(number), "%d", (int)getpid());
    int len = folder ? snprintf(c->trace, sizeof(c->trace), "%s%s%s-%s.twinbit", output,
                                output[n - 1] == '/' ? "" : "/", host, proc ? proc : number)
                     : snprintf(c->trace, sizeof(c->trace), "%s", output);
    if (len < 0 || (size_t)len >= sizeof(c->trace))
        return tb_fail(err, TB_ERR_ARG, "the path of the trace is too long");
    return TB_OK;
}

static void fill_defaults(struct tb_col *c)
{
    struct tb_wire_config *w = &c->effective.config;

    w->level = w->level ? w->level : TB_LEVEL_OP;
    w->ring_bytes = w->ring_bytes ? w->ring_bytes : TB_WIRE_RING_DATA;
    w->ring_total = w->ring_total ? w->ring_total : 16ull << 20;
    w->wait_ms = w->wait_ms ? w->wait_ms : 2000;
    if (!w->glue[0] && strlen(c->o->libdir) + 8 < sizeof(w->glue))
        (void)snprintf(w->glue, sizeof(w->glue), "%s/python", c->o->libdir);
}

static void choose_cuda_tap(struct tb_col *c)
{
    bool wanted = c->effective.config.cuda_tap != TB_CUDA_TAP_NONE;
    char say[512];

    tb_cuda_choose(&c->effective.config, environ, c->o->libdir, say, sizeof(say));
    if (say[0])
        keep_line(c, say);
    if (!wanted)
        c->no_cuda = "--tap none leaves out work of a GPU";
    else if (c->effective.config.cuda_tap == TB_CUDA_TAP_NONE)
        c->no_cuda = say[0] ? "CUDA was not looked for (see above)"
                            : "no libcuda.so.1 was found here: --device softgpu runs CUDA programs "
                              "on the CPU";
}

static enum tb_status make_bell(struct tb_col *c, struct tb_error *err)
{
    c->bell_fd = memfd_create("twinbit-bell", MFD_CLOEXEC);
    if (c->bell_fd < 0 || ftruncate(c->bell_fd, TB_WIRE_RING_PAGE) != 0)
        return tb_fail_sys(err, TB_ERR_SYS, errno, "cannot make a memfd");
    void *p = mmap(NULL, TB_WIRE_RING_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, c->bell_fd, 0);
    if (p == MAP_FAILED)
        return tb_fail_sys(err, TB_ERR_SYS, errno, "cannot map a memfd");
    c->bell = p;
    return TB_OK;
}

static enum tb_status open_store(struct tb_col *c, struct tb_error *err)
{
    struct tb_store_options so = {.force = c->o->force, .aside = true, .max_size = c->o->max_size};
    enum tb_status st = choose_trace(c, err);

    if (st == TB_OK)
        st = tb_store_create(&c->store, c->trace, &so, err);
    return st;
}

static enum tb_status open_all(struct tb_col *c, struct tb_error *err)
{
    struct tb_server_hooks hooks = {c, on_hello, on_message, on_no_tap, c->o->quiet};
    enum tb_status st = tb_signals_open(&c->signals, err);

    if (st == TB_OK)
        st = open_store(c, err);
    if (st == TB_OK)
        st = make_bell(c, err);
    if (st != TB_OK)
        return st;
    tb_provenance_write(c->store, &c->effective);
    st = tb_store_flush(c->store, err);
    if (st == TB_OK)
        st =
            tb_server_open(&c->server, &c->effective.config, c->o->libdir, c->bell_fd, &hooks, err);
    if (st == TB_OK)
        st = tb_drain_start(&c->drain, c->store, c->bell, err);
    return st;
}

/* ---------------------------------------------------------------- while it runs */

static size_t collect_fds(struct tb_col *c, struct pollfd *fds)
{
    size_t n = 0;

    fds[n++] = (struct pollfd){.fd = c->signals.fd, .events = POLLIN};
    n += tb_server_fds(c->server, fds + n, MAX_FDS / 2);
    for (const struct tb_col_process *p = c->processes; p && n < MAX_FDS; p = p->next)
        if (!p->gone && p->pidfd >= 0)
            fds[n++] = (struct pollfd){.fd = p->pidfd, .events = POLLIN};
    return n;
}

static bool has_ended(const struct tb_col_process *p)
{
    struct pollfd fd = {.fd = p->pidfd, .events = POLLIN};
    struct tb_proc_stat st;

    if (p->pidfd >= 0)
        return poll(&fd, 1, 0) > 0;
    return !tb_proc_stat(p->pid, &st) || st.start != p->start || st.state == 'Z';
}

/* Marks who has ended; true if all have. What they sent before was read first. */
static bool look_for_ends(struct tb_col *c)
{
    struct tb_col_process *ended[64];
    size_t n = 0, alive = 0;

    for (struct tb_col_process *p = c->processes; p; p = p->next)
        if (!p->gone && (n == TB_ARRAY_LEN(ended) || !has_ended(p)))
            alive++;
        else if (!p->gone)
            ended[n++] = p;
    if (n)
        tb_server_work(c->server);
    for (size_t i = 0; i < n; i++)
        if (!ended[i]->gone)
            process_gone(c, ended[i]);
    return alive == 0;
}

static void cover(struct tb_col *c, struct tb_col_process *p, const char *kind, const char *subject,
                  const char *detail);

/* SIGUSR2: taps look at the bell. What is not recorded meanwhile is not covered. */
static void follow_pause(struct tb_col *c)
{
    if (c->bell->paused == c->signals.paused)
        return;
    __atomic_store_n(&c->bell->paused, c->signals.paused, __ATOMIC_RELAXED);
    if (c->signals.paused)
        cover(c, NULL, "paused", "all processes", "by the user (SIGUSR2)");
    if (!c->o->quiet)
        tb_log("recording %s (SIGUSR2)", c->signals.paused ? "pauses" : "goes on");
}

static void one_round(struct tb_col *c)
{
    struct pollfd fds[MAX_FDS];
    size_t n = collect_fds(c, fds);

    (void)poll(fds, n, c->job.ended ? 20 : (int)WATCH_MS);
    tb_signals_work(&c->signals, &c->job);
    follow_pause(c);
    tb_server_work(c->server);
    uint64_t now = now_ms();
    if (now - c->watched_ms >= (now - c->begin_ms < WATCH_OFTEN_MS ? WATCH_MS : WATCH_LATER_MS)) {
        tb_watch_poll(c->watch, c->job.pid);
        c->watched_ms = now;
    }
    if (c->o->progress && now - c->shown_ms >= 500) {
        struct tb_drain_counts counts;
        tb_drain_counts(c->drain, &counts);
        tb_report_progress(&counts, (double)(now - c->begin_ms) / 1000.0,
                           cpu_seconds() - c->cpu_before);
        c->shown_ms = now;
    }
}

/* The job has ended: is there nobody who records, or may begin to? Looked at every 100 ms. */
static bool nobody_left(struct tb_col *c)
{
    if (!look_for_ends(c) || now_ms() - c->living_ms < 100)
        return false;
    c->living_ms = now_ms();
    if (tb_watch_living(c->watch, c->job.pid) != 0)
        return false;
    tb_server_work(c->server); /* of one that came and went meanwhile */
    return look_for_ends(c);
}

static void follow_job(struct tb_col *c)
{
    while (!c->job.ended) {
        one_round(c);
        (void)look_for_ends(c);
    }
    c->end_ms = now_ms();
    tb_stress_stop(c->stress);
    c->stress = NULL;
    while (!nobody_left(c) && now_ms() - c->end_ms < DRAIN_MS)
        one_round(c);
}

/* ---------------------------------------------------------------- pins */

/* At the beginning, too: what was asked for is in the trace of a run that was killed. */
static void store_pins(struct tb_col *c)
{
    struct tb_error err = {0};
    size_t n = 0;
    char *text = tb_pins_text(c->pins, c->processes, &n);

    if (text && (tb_store_text(c->store, "pins", text, n, &err) != TB_OK ||
                 tb_store_flush(c->store, &err) != TB_OK))
        keep_line(c, err.text);
    free(text);
}

static void report_line(void *arg, const char *text)
{
    keep_line(arg, text);
}

/* ---------------------------------------------------------------- the end */

static void cover(struct tb_col *c, struct tb_col_process *p, const char *kind, const char *subject,
                  const char *detail)
{
    tb_drain_post(c->drain, &(struct tb_drain_cmd){.kind = TB_DRAIN_COVER,
                                                   .process = p,
                                                   .severity = 1,
                                                   .cover_kind = kind,
                                                   .text = strdup(subject),
                                                   .detail = strdup(detail)});
}

static void not_covered(void *arg, const char *argv, const char *why)
{
    struct tb_col *c = arg;

    if (tb_caches_named(c->caches, argv)) {
        tb_drain_post(
            c->drain,
            &(struct tb_drain_cmd){.kind = TB_DRAIN_COVER,
                                   .cover_kind = "process",
                                   .text = strdup(argv),
                                   .detail = strdup("a compiler tries what it made in its cache")});
        return;
    }
    cover(c, NULL, "process", argv, why);
    c->not_covered++;
}

/* What a process that had no descriptor for the socket left beside it */
static void read_note(struct tb_col *c, const char *folder, const char *name)
{
    char path[400], text[600];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    ssize_t n = readlink(path, text, sizeof(text) - 1);
    (void)unlink(path);
    if (n <= 0)
        return;
    text[n] = 0;
    char *why = strchr(text, '\t');
    if (!why)
        return;
    *why++ = 0;
    const char *argv =
        tb_watch_told(c->watch, (pid_t)strtol(name + strlen(TB_WIRE_NOTE), NULL, 10));
    not_covered(c, argv[0] ? argv : text, why);
}

static void read_notes(struct tb_col *c)
{
    const char *folder = tb_server_folder(c->server);
    DIR *d = opendir(folder);

    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, TB_WIRE_NOTE, strlen(TB_WIRE_NOTE)) == 0)
            read_note(c, folder, e->d_name);
    if (d)
        (void)closedir(d);
}

/* Who outlives the job goes on without us. A moment for those that are about to end with it */
static void tell_left(struct tb_col *c)
{
    char names[300], text[600];
    uint32_t n = tb_watch_left(c->watch, c->job.pid, names, sizeof(names));

    for (int i = 0; n && i < LEFT_MS / 20; i++) {
        (void)usleep(20000);
        n = tb_watch_left(c->watch, c->job.pid, names, sizeof(names));
    }
    if (!n)
        return;
    (void)snprintf(text, sizeof(text),
                   "%u process%s of the job go%s on after its end (%s): from here on not "
                   "recorded%s; let the job wait for %s",
                   n, n == 1 ? "" : "es", n == 1 ? "es" : "", names,
                   c->draws ? ", and without pins in programs that they start" : "",
                   n == 1 ? "it" : "them");
    keep_line(c, text);
    tb_drain_post(
        c->drain,
        &(struct tb_drain_cmd){
            .kind = TB_DRAIN_COVER,
            .severity = c->draws != NULL,
            .cover_kind = "outlived",
            .text = strdup(names),
            .detail = strdup(c->draws ? "processes go on after the job's end: not recorded, and "
                                        "programs that they start have no pins"
                                      : "processes go on after the job's end: not recorded")});
}

/* What nobody recorded, and what still lives, as rows; then the drain ends. */
static void end_drain(struct tb_col *c, struct tb_drain_counts *counts)
{
    struct tb_error err = {0};
    char detail[64];

    read_notes(c);
    tell_left(c);
    (void)tb_watch_result(c->watch, c->processes, c->effective.config.cuda_tap, not_covered, c);
    for (struct tb_col_process *p = c->processes; p; p = p->next)
        if (!p->gone) {
            (void)snprintf(detail, sizeof(detail), "still running %u s after the job's end",
                           DRAIN_MS / 1000);
            cover(c, p, "still running", p->argv, detail);
        }
    tb_drain_post(c->drain, &(struct tb_drain_cmd){.kind = TB_DRAIN_END});
    if (tb_drain_join(c->drain, counts, &err) != TB_OK)
        keep_line(c, err.text);
    c->drain = NULL;
}

static void name_processes(struct tb_col *c)
{
    struct tb_store_process row;
    struct tb_error err = {0};

    tb_process_name_all(c->processes);
    for (struct tb_col_process *p = c->processes; p; p = p->next) {
        tb_process_row(p, &row);
        if (p->row && tb_store_set_process(c->store, p->row, &row, &err) != TB_OK)
            keep_line(c, err.text);
    }
}

static void set_number(struct tb_col *c, const char *key, double value, int digits)
{
    char text[40];
    struct tb_error err = {0};

    (void)snprintf(text, sizeof(text), "%.*f", digits, value);
    if (tb_store_meta(c->store, key, text, &err) != TB_OK)
        keep_line(c, err.text);
}

static void fill_result(struct tb_col *c, const struct tb_drain_counts *counts,
                        struct tb_collector_result *r)
{
    int status = c->job.status;

    *r = (struct tb_collector_result){
        .exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
        .events = counts->events,
        .accesses = counts->accesses,
        .steps = counts->steps,
        .boundary = c->effective.config.level == TB_LEVEL_BOUNDARY,
        .coverage = counts->coverage,
        .lost = counts->lost,
        .unarrived = counts->unarrived,
        .processes = c->process_count,
        .not_covered = c->not_covered,
        .trimmed = tb_store_trimmed(c->store),
        .no_cuda = c->no_cuda,
        .wall_s = (double)(c->end_ms - c->begin_ms) / 1000.0,
    };
    (void)snprintf(r->trace, sizeof(r->trace), "%s", c->trace);
}

static void close_trace(struct tb_col *c, struct tb_collector_result *result)
{
    struct tb_drain_counts counts = {0};
    struct tb_error err = {0};
    struct stat st;

    tb_syscalls_stop(c->syscalls);
    end_drain(c, &counts);
    if (counts.stopped[0])
        keep_line(c, counts.stopped);
    if (c->effective.config.snapshots[0] && counts.snapshots == 0 && counts.events)
        keep_line(c, "no event matched --snapshot; names are as 'twinbit show TRACE events' prints "
                     "them, and bytes of a graph's nodes are not kept");
    name_processes(c);
    tb_syscalls_say(c->syscalls, c->pins);
    if (c->draws)
        tb_watch_unreached(c->watch, tb_draws_unseen, c->draws);
    if (tb_draws_store(c->draws, c->store, c->pins, c->syscalls, &err) != TB_OK)
        keep_line(c, err.text);
    counts.coverage += tb_draws_rows(c->draws);
    if (tb_caches_store(c->caches, c->store, c->pins, c->job.pid, &err) != TB_OK)
        keep_line(c, err.text);
    store_pins(c);
    tb_pins_report(c->pins, c->o->argv, report_line, c);
    tb_caches_report(c->caches, report_line, c);
    tb_draws_report(c->draws, report_line, c);
    if (tb_store_flush(c->store, &err) != TB_OK) /* said when it is closed */
        err = (struct tb_error){0};
    fill_result(c, &counts, result);
    set_number(c, "exit_status", result->exit_status, 0);
    set_number(c, "wall_s", result->wall_s, 3);
    set_number(c, "collector_cpu_s", cpu_seconds() - c->cpu_before, 3);
    if (tb_store_close(c->store, &err) != TB_OK)
        keep_line(c, err.text);
    c->store = NULL;
    result->bytes = stat(c->trace, &st) == 0 ? (uint64_t)st.st_size : 0;
    result->collector_cpu_s = cpu_seconds() - c->cpu_before;
}

static void release(struct tb_col *c)
{
    if (c->drain) {
        tb_drain_post(c->drain, &(struct tb_drain_cmd){.kind = TB_DRAIN_END});
        (void)!tb_drain_join(c->drain, NULL, NULL);
    }
    tb_syscalls_free(c->syscalls);
    tb_draws_free(c->draws);
    tb_caches_free(c->caches);
    tb_pins_free(c->pins); /* its file lies in the server's folder */
    tb_server_close(c->server);
    tb_signals_close(&c->signals);
    tb_store_drop(c->store); /* the job never began: no trace is left, and the old one is back */
    tb_watch_free(c->watch);
    if (c->bell)
        (void)munmap(c->bell, TB_WIRE_RING_PAGE);
    if (c->bell_fd >= 0)
        (void)close(c->bell_fd);
    while (c->processes) {
        struct tb_col_process *p = c->processes;
        c->processes = p->next;
        tb_process_free(p);
    }
    for (uint32_t i = 0; i < c->log_count; i++)
        free(c->log[i]);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

static enum tb_status run(struct tb_col *c, struct tb_collector_result *result,
                          struct tb_error *err)
{
    int exit_status = 125;
    enum tb_status st =
        tb_job_find(c->o->argv[0], c->program, sizeof(c->program), &exit_status, err);

    if (st == TB_OK)
        st = open_all(c, err);
    if (st == TB_OK && !(c->watch = tb_watch_new(tb_server_helper(c->server))))
        st = tb_fail(err, TB_ERR_NOMEM, "no memory for the collector");
    if (st == TB_OK) {
        c->pins = tb_pins_new(c->o->pins, tb_server_folder(c->server));
        store_pins(c);
        st = tb_draws_open(&c->draws, c->o->pins, c->o->replay, tb_server_folder(c->server), err);
        if (c->draws)
            tb_watch_pins(c->watch);
    }
    if (st == TB_OK)
        st = tb_caches_open(&c->caches, c->o->pins, c->o->frozen, c->o->max_size, c->pins, err);
    if (st == TB_OK) {
        c->syscalls = tb_syscalls_new(c->o->pins);
        tb_watch_leave_out(c->watch, tb_syscalls_keeper(c->syscalls));
        st = tb_job_start(&c->job, &c->effective, &c->signals, c->pins, c->draws, c->syscalls,
                          c->program, tb_server_path(c->server), &exit_status, err);
    }
    if (st != TB_OK) {
        result->exit_status = exit_status;
        return st;
    }
    c->begin_ms = now_ms();
    tb_store_began(c->store); /* the drain does not touch what was replaced */
    if (c->o->config.stress)
        c->stress = tb_stress_start(c->job.pid, c->o->config.stress);
    follow_job(c);
    if (c->o->progress)
        tb_report_progress(NULL, 0, 0);
    close_trace(c, result);
    if (!c->o->quiet)
        tb_report_end(result, c->log, c->log_count);
    return TB_OK;
}

enum tb_status tb_collector_run(const struct tb_collector_options *options,
                                struct tb_collector_result *result, struct tb_error *err)
{
    struct tb_col *c = calloc(1, sizeof(*c));
    enum tb_status st;

    *result = (struct tb_collector_result){.exit_status = 125};
    if (!c)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the collector");
    if (!options->argv || !options->argv[0] || !options->output || !options->libdir) {
        free(c);
        return tb_fail(err, TB_ERR_ARG, "no command, no output or no folder of libtwinbit.so");
    }
    c->o = options;
    c->effective = *options;
    c->bell_fd = c->signals.fd = -1;
    c->last_process = &c->processes;
    c->cpu_before = cpu_seconds();
    fill_defaults(c);
    choose_cuda_tap(c);
    st = run(c, result, err);
    release(c);
    free(c);
    return st;
}
