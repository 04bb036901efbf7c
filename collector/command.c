#include "collector/collector_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static uint64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* The environment, with a PATH: a compiler finds its parts by it. NULL: as it is */
static char **with_path(void)
{
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
    size_t n = 0;

    if (getenv("PATH") && getenv("PATH")[0])
        return NULL;
    while (environ[n])
        n++;
    char **env = malloc((n + 2) * sizeof(*env));
    if (env) {
        env[0] = path;
        memcpy(env + 1, environ, (n + 1) * sizeof(*env));
    }
    return env;
}

/* In a process group of its own: a key pressed for the job is not for it. */
static pid_t start(char *const *argv, int out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    pid_t pid = -1;
    char **env = with_path();

    (void)sigemptyset(&none);
    if (posix_spawn_file_actions_init(&files) != 0)
        goto out;
    if (posix_spawnattr_init(&attr) == 0) {
        (void)posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        (void)posix_spawn_file_actions_adddup2(&files, out, 1);
        (void)posix_spawn_file_actions_adddup2(&files, out, 2);
        (void)posix_spawnattr_setsigmask(&attr, &none);
        (void)posix_spawnattr_setpgroup(&attr, 0);
        (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
        if (posix_spawnp(&pid, argv[0], &files, &attr, argv, env ? env : environ) != 0)
            pid = -1;
        (void)posix_spawnattr_destroy(&attr);
    }
    (void)posix_spawn_file_actions_destroy(&files);
out:
    free(env);
    return pid;
}

/* Commands of ours that run: from before the start until after the wait, by any thread. Who reaps
 * orphans must leave them alone meanwhile. */
static unsigned running;

bool tb_command_is_running(void)
{
    return __atomic_load_n(&running, __ATOMIC_SEQ_CST) != 0;
}

static int run_and_wait(char *const *argv, int out, unsigned limit_ms,
                        struct tb_tap_control *control)
{
    uint64_t end = now_ms() + limit_ms;
    pid_t pid = start(argv, out);
    int status = -1;
    pid_t rc;

    if (pid < 0)
        return -1;
    if (control)
        __atomic_store_n(&control->pid, pid, __ATOMIC_RELEASE);
    while ((rc = waitpid(pid, &status, WNOHANG)) == 0 || (rc < 0 && errno == EINTR)) {
        bool cancel = control && __atomic_load_n(&control->cancel, __ATOMIC_ACQUIRE);
        if (cancel || now_ms() >= end) {
            (void)kill(-pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            status = -1;
            break;
        }
        (void)poll(NULL, 0, 5);
    }
    if (control)
        __atomic_store_n(&control->pid, 0, __ATOMIC_RELEASE);
    return rc < 0 || status < 0 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

int tb_command_run(char *const *argv, int out, unsigned limit_ms, struct tb_tap_control *control)
{
    __atomic_fetch_add(&running, 1, __ATOMIC_SEQ_CST);
    int status = run_and_wait(argv, out, limit_ms, control);
    __atomic_fetch_sub(&running, 1, __ATOMIC_SEQ_CST);
    return status;
}

char *tb_command_output(char *const *argv, unsigned limit_ms, size_t max, int *status, size_t *n)
{
    char *text = malloc(max + 1);
    FILE *f = tmpfile(); /* a pipe would have to be emptied while we wait */

    *n = 0;
    *status = -1;
    if (text && f) {
        *status = tb_command_run(argv, fileno(f), limit_ms, NULL);
        ssize_t got = pread(fileno(f), text, max, 0);
        *n = got > 0 ? (size_t)got : 0;
        text[*n] = 0;
    }
    if (f)
        (void)fclose(f);
    return text;
}
