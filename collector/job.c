#include "collector/collector_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/syscalls.h"

extern char **environ;

/* ---------------------------------------------------------------- finding the command */

/* 0: can be executed; else errno */
static int executable(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EACCES;
    return access(path, X_OK) == 0 ? 0 : errno;
}

static int search_path(const char *file, char *candidate, size_t size)
{
    const char *path = getenv("PATH");
    int result = ENOENT;

    for (const char *p = path ? path : "/bin:/usr/bin", *end;; p = end + 1) {
        end = strchrnul(p, ':');
        (void)snprintf(candidate, size, "%.*s%s%s", (int)(end - p), p, end > p ? "/" : "", file);
        int rc = executable(candidate);
        if (rc == 0)
            return 0;
        if (rc != ENOENT && rc != ENOTDIR)
            result = rc;
        if (!*end)
            return result;
    }
}

static enum tb_status not_run(const char *file, int sys, int *exit_status, struct tb_error *err)
{
    *exit_status = sys == ENOENT || sys == ENOTDIR ? 127 : 126;
    if (*exit_status == 127)
        return tb_fail(err, TB_ERR_NOTFOUND, "cannot run '%s': command not found", file);
    return tb_fail_sys(err, TB_ERR_SYS, sys, "cannot run '%s'", file);
}

enum tb_status tb_job_find(const char *file, char *path, size_t size, int *exit_status,
                           struct tb_error *err)
{
    int rc = ENOENT;

    (void)snprintf(path, size, "%s", file);
    if (strchr(file, '/'))
        rc = executable(file);
    else if (file[0])
        rc = search_path(file, path, size);

    return rc == 0 ? TB_OK : not_run(file, rc, exit_status, err);
}

/* ---------------------------------------------------------------- starting it */

/* In the child. Only what is safe between fork and exec. */
static void run_child(const struct tb_collector_options *o, const struct tb_signals *s,
                      const struct tb_pins *pins, bool syscalls, char **env, int report)
{
    struct tb_pins_began began;

    tb_pins_in_child(pins, &began);
    (void)!write(report, &began, sizeof(began));
    (void)sigaction(SIGPIPE, &s->pipe, NULL);
    (void)sigaction(SIGXFSZ, &s->file_size, NULL);
    (void)setrlimit(RLIMIT_NOFILE, &s->files);
    if (syscalls)
        tb_syscalls_install(report);
    (void)sigprocmask(SIG_SETMASK, &s->mask, NULL);
    (void)execvpe(o->argv[0], o->argv, env);
    int sys = errno;
    (void)!write(report, &sys, sizeof(sys));
    _exit(127);
}

enum tb_status tb_job_start(struct tb_job *job, const struct tb_collector_options *o,
                            const struct tb_signals *signals, struct tb_pins *pins,
                            struct tb_draws *draws, struct tb_syscalls *syscalls, const char *path,
                            const char *socket, int *exit_status, struct tb_error *err)
{
    char **env = tb_job_environment(environ, o, pins, draws, socket);
    enum tb_status st = TB_OK;
    int report[2] = {-1, -1}, sys = 0;
    struct tb_pins_began began;

    *exit_status = 125;
    if (!env) {
        st = tb_fail(err, TB_ERR_NOMEM, "no memory for the job's environment");
        goto out;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, report) != 0) {
        st = tb_fail_sys(err, TB_ERR_SYS, errno, "cannot make a pair of sockets");
        goto out;
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    job->pid = fork();
    if (job->pid == 0)
        run_child(o, signals, pins, tb_syscalls_wanted(syscalls), env, report[1]);
    if (job->pid < 0) {
        st = tb_fail_sys(err, TB_ERR_SYS, errno, "cannot fork");
        goto out;
    }
    (void)close(report[1]);
    report[1] = -1;
    bool told = read(report[0], &began, sizeof(began)) == (ssize_t)sizeof(began);
    tb_syscalls_start(syscalls, report[0]);
    if (read(report[0], &sys, sizeof(sys)) == (ssize_t)sizeof(sys)) {
        (void)waitpid(job->pid, NULL, 0);
        st = not_run(o->argv[0], sys, exit_status, err);
    } else {
        if (told)
            tb_pins_started(pins, job->pid, &began);
        tb_draws_first(draws, path, env);
    }
out:
    for (int i = 0; i < 2; i++)
        if (report[i] >= 0)
            (void)close(report[i]);
    tb_job_environment_free(env);
    return st;
}

/* ---------------------------------------------------------------- signals */

enum tb_status tb_signals_open(struct tb_signals *s, struct tb_error *err)
{
    static const int handled[] = {SIGCHLD, SIGINT,  SIGQUIT, SIGTERM,
                                  SIGHUP,  SIGTSTP, SIGCONT, SIGUSR2};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;

    *s = (struct tb_signals){.fd = -1};
    (void)sigemptyset(&set);
    for (size_t i = 0; i < TB_ARRAY_LEN(handled); i++)
        (void)sigaddset(&set, handled[i]);
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0)
        return tb_fail_sys(err, TB_ERR_SYS, errno, "cannot make a signalfd");
    (void)pthread_sigmask(SIG_BLOCK, &set, &s->mask);
    (void)sigaction(SIGPIPE, &ignore, &s->pipe);
    (void)sigaction(SIGXFSZ, &ignore, &s->file_size); /* a full trace is an error, not our death */
    (void)getrlimit(RLIMIT_NOFILE, &s->files);
    struct rlimit more = {s->files.rlim_max, s->files.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &more);
    return TB_OK;
}

void tb_signals_close(struct tb_signals *s)
{
    struct signalfd_siginfo info;

    if (s->fd < 0)
        return;
    while (read(s->fd, &info, sizeof(info)) > 0)
        ; /* what came for the job must not hit us now */
    (void)close(s->fd);
    s->fd = -1;
    (void)sigaction(SIGPIPE, &s->pipe, NULL);
    (void)sigaction(SIGXFSZ, &s->file_size, NULL);
    (void)setrlimit(RLIMIT_NOFILE, &s->files);
    (void)pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
}

static bool in_foreground(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (isatty(fd) && tcgetpgrp(fd) == getpgrp())
            return true;
    return false;
}

/*
 * The job stopped. We stop with it if a shell waits for us (it must learn of it) or if we were
 * asked to; but not for a job that somebody stopped and will continue by its own pid: its rings
 * want draining.
 */
static void follow_stop(struct tb_signals *s, const struct tb_job *job, int signal)
{
    if (!s->stop_asked && (signal == SIGSTOP || !in_foreground()))
        return;
    s->stop_asked = false;
    (void)kill(getpid(), SIGSTOP);
    (void)kill(job->pid, SIGCONT); /* we were continued */
}

static void take_status(struct tb_signals *s, struct tb_job *job)
{
    int status;

    while (!job->ended && waitpid(job->pid, &status, WNOHANG | WUNTRACED) == job->pid) {
        if (WIFSTOPPED(status)) {
            follow_stop(s, job, WSTOPSIG(status));
            continue;
        }
        job->status = status;
        job->ended = true;
    }
}

static void forward(const struct tb_job *job, int signal, bool *sent)
{
    if (!job->ended && !*sent)
        (void)kill(job->pid, signal);
    *sent = true;
}

void tb_signals_work(struct tb_signals *s, struct tb_job *job)
{
    struct signalfd_siginfo info;

    while (read(s->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case SIGTERM:
            forward(job, SIGTERM, &s->term_sent);
            break;
        case SIGHUP:
            forward(job, SIGHUP, &s->hup_sent);
            break;
        case SIGTSTP:
            s->stop_asked = true;
            if (!job->ended)
                (void)kill(job->pid, SIGTSTP);
            break;
        case SIGCONT:
            s->stop_asked = false;
            if (!job->ended)
                (void)kill(job->pid, SIGCONT);
            break;
        case SIGUSR2:
            s->paused = !s->paused;
            break;
        default: /* SIGINT, SIGQUIT: the job's own business; SIGCHLD: below */
            break;
        }
    }
    take_status(s, job);
}
