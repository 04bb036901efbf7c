/*
 * Programs that are started: what tells a new image whose child it is (config.h). A child of
 * vfork() shares memory with its parent, so the functions that start a program see in it that the
 * pid is another, and enter the child's row; posix_spawn() makes its child inside libc, and the row
 * is entered when it has returned.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/reach.h"
#include "deterministic/preload/sys.h"

static struct tb_pins_proc *running(void)
{
    struct tb_pins_proc *p = __atomic_load_n(&tb_pins.proc, __ATOMIC_ACQUIRE);

    return p && __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != TB_FRESH ? p : NULL;
}

extern char **environ;

static uint64_t this_thread(void)
{
    return tb_pins_tls.thread ? tb_pins_tls.thread : TB_PRELOAD_MAIN;
}

/* ---------------------------------------------------------------- programs it will not be in */

static void write_down(enum tb_preload_reach reach, const char *program)
{
    tb_pins_log_text(TB_PRELOAD_UNREACHED, this_thread(), reach, program);
}

/* false: no such program, look elsewhere */
static bool look_at(int dir, const char *path, char *const envp[])
{
    char program[TB_PRELOAD_PATH];
    enum tb_preload_reach reach;

    if (!running())
        return true;
    reach = tb_preload_reach(dir, path, envp, program, sizeof(program));
    if (reach != TB_REACH_YES && reach != TB_REACH_NO_PROGRAM)
        write_down(reach, program);
    return reach != TB_REACH_NO_PROGRAM;
}

/* In the folders of PATH, as the functions with a "p" in their names do */
static void look_for(const char *file, char *const envp[])
{
    const char *path = getenv("PATH");
    char candidate[TB_PRELOAD_PATH];
    size_t length = strlen(file);

    if (strchr(file, '/')) {
        (void)look_at(AT_FDCWD, file, envp);
        return;
    }
    for (const char *at = path ? path : "/bin:/usr/bin", *end; *file && running(); at = end + 1) {
        end = at + strcspn(at, ":");
        size_t n = (size_t)(end - at);
        if (n + 1 + length < sizeof(candidate)) {
            memcpy(candidate, at, n);
            candidate[n] = '/';
            memcpy(candidate + n + (n > 0), file, length + 1);
            if (look_at(AT_FDCWD, candidate, envp))
                return;
        }
        if (!*end)
            return;
    }
}

/* ---------------------------------------------------------------- exec */

static void before_exec(void)
{
    struct tb_pins_proc *p = running();
    uint32_t pid = (uint32_t)tb_sys3(SYS_getpid, 0, 0, 0);

    if (p && p->pid == pid)
        tb_pins_tell_end();
    if (!p || p->pid == pid)
        return;
    struct tb_preload_process *row = tb_pins_row(pid);
    if (row && row->parent == p->pid && !row->now)
        return; /* it has tried another path before */
    uint32_t n = __atomic_add_fetch(&tb_pins_tls.vforks, 1, __ATOMIC_RELAXED);
    tb_pins_register(pid, p->pid, tb_pins_child_id(p->id, this_thread(), TB_BY_VFORK, n), 0);
}

TB_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    before_exec();
    (void)look_at(AT_FDCWD, path, envp);
    return TB_NEXT(execve)(path, argv, envp);
}

TB_EXPORT int execv(const char *path, char *const argv[])
{
    before_exec();
    (void)look_at(AT_FDCWD, path, environ);
    return TB_NEXT(execv)(path, argv);
}

TB_EXPORT int execvp(const char *file, char *const argv[])
{
    before_exec();
    look_for(file, environ);
    return TB_NEXT(execvp)(file, argv);
}

TB_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    before_exec();
    look_for(file, envp);
    return TB_NEXT(execvpe)(file, argv, envp);
}

/* libc does these inside itself. The arguments go into memory of this call's, as its own do. */
static size_t count_of(va_list ap)
{
    size_t n = 1;

    while (va_arg(ap, char *))
        n++;
    return n;
}

static void take(char **argv, const char *first, size_t n, va_list ap)
{
    argv[0] = (char *)(uintptr_t)first; /* NOLINT: as exec has it */
    for (size_t i = 1; i <= n; i++)
        argv[i] = va_arg(ap, char *);
}

/* @argv: the arguments of this call, NULL behind them, in memory of its own */
#define TAKE_ARGUMENTS(first)                                                                      \
    va_list ap;                                                                                    \
    va_start(ap, first);                                                                           \
    size_t n = count_of(ap);                                                                       \
    va_end(ap);                                                                                    \
    char **argv = __builtin_alloca((n + 1) * sizeof(char *));                                      \
    va_start(ap, first);                                                                           \
    take(argv, first, n, ap)

TB_EXPORT int execl(const char *path, const char *arg, ...)
{
    TAKE_ARGUMENTS(arg);
    va_end(ap);
    before_exec();
    (void)look_at(AT_FDCWD, path, environ);
    return TB_NEXT(execv)(path, argv);
}

TB_EXPORT int execlp(const char *file, const char *arg, ...)
{
    TAKE_ARGUMENTS(arg);
    va_end(ap);
    before_exec();
    look_for(file, environ);
    return TB_NEXT(execvp)(file, argv);
}

TB_EXPORT int execle(const char *path, const char *arg, ...)
{
    TAKE_ARGUMENTS(arg);
    char *const *envp = va_arg(ap, char *const *);
    va_end(ap);
    before_exec();
    (void)look_at(AT_FDCWD, path, envp);
    return TB_NEXT(execve)(path, argv, envp);
}

static const char *of_descriptor(int fd, char out[32])
{
    char digits[12];
    size_t n = 0, at = strlen("/proc/self/fd/");

    memcpy(out, "/proc/self/fd/", at);
    for (unsigned x = fd < 0 ? 0 : (unsigned)fd; x > 0 || n == 0; x /= 10)
        digits[n++] = (char)('0' + x % 10);
    while (n > 0)
        out[at++] = digits[--n];
    out[at] = 0;
    return out;
}

TB_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    char path[32];

    before_exec();
    (void)look_at(AT_FDCWD, of_descriptor(fd, path), envp);
    return TB_NEXT(fexecve)(fd, argv, envp);
}

TB_EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
    char own[32];

    before_exec();
    bool itself = (flags & AT_EMPTY_PATH) && !*path;
    (void)look_at(itself ? AT_FDCWD : fd, itself ? of_descriptor(fd, own) : path, envp);
    return TB_NEXT(execveat)(fd, path, argv, envp, flags);
}

/* ---------------------------------------------------------------- posix_spawn */

typedef int (*spawn_fn)(pid_t *restrict, const char *restrict,
                        const posix_spawn_file_actions_t *restrict,
                        const posix_spawnattr_t *restrict, char *const *restrict,
                        char *const *restrict);

/** struct spawn - what is handed on */
struct spawn {
    spawn_fn next;
    const char *path;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
    char *const *argv, *const *envp;
};

static int spawn(const struct spawn *s, pid_t *out)
{
    struct tb_pins_proc *p = running();
    struct tb_preload_process *row = p ? tb_pins_row(p->pid) : NULL;
    pid_t pid = 0;

    if (!row)
        return s->next(out, s->path, s->actions, s->attributes, s->argv, s->envp);
    uint64_t id = tb_pins_child_id(p->id, this_thread(), TB_BY_SPAWN, ++tb_pins_tls.spawns);
    __atomic_add_fetch(&row->spawns, 1, __ATOMIC_RELEASE);
    int error = s->next(&pid, s->path, s->actions, s->attributes, s->argv, s->envp);
    if (error == 0)
        tb_pins_register((uint32_t)pid, p->pid, id, 0);
    else
        tb_pins_tls.spawns--;
    __atomic_sub_fetch(&row->spawns, 1, __ATOMIC_RELEASE);
    if (error == 0 && out)
        *out = pid;
    return error;
}

TB_EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path,
                          const posix_spawn_file_actions_t *restrict actions,
                          const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
                          char *const envp[restrict])
{
    (void)look_at(AT_FDCWD, path, envp);
    struct spawn s = {TB_NEXT(posix_spawn), path, actions, attributes, argv, envp};

    return spawn(&s, pid);
}

TB_EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file,
                           const posix_spawn_file_actions_t *restrict actions,
                           const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
                           char *const envp[restrict])
{
    look_for(file, envp);
    struct spawn s = {TB_NEXT(posix_spawnp), file, actions, attributes, argv, envp};

    return spawn(&s, pid);
}
