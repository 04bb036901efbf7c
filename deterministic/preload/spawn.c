/*
 * Programs that are started: what tells a new image whose child it is (config.h). A child of
 * vfork() shares memory with its parent, so the functions that start a program see in it that the
 * pid is another, and enter the child's row; posix_spawn() makes its child inside libc, and the row
 * is entered when it has returned.
 */
#include <spawn.h>
#include <unistd.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

static struct tb_pins_proc *running(void)
{
    struct tb_pins_proc *p = __atomic_load_n(&tb_pins.proc, __ATOMIC_ACQUIRE);

    return p && __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != TB_FRESH ? p : NULL;
}

static uint64_t this_thread(void)
{
    return tb_pins_tls.thread ? tb_pins_tls.thread : TB_PRELOAD_MAIN;
}

static void before_exec(void)
{
    struct tb_pins_proc *p = running();
    uint32_t pid = (uint32_t)tb_sys3(SYS_getpid, 0, 0, 0);

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
    return TB_NEXT(execve)(path, argv, envp);
}

TB_EXPORT int execv(const char *path, char *const argv[])
{
    before_exec();
    return TB_NEXT(execv)(path, argv);
}

TB_EXPORT int execvp(const char *file, char *const argv[])
{
    before_exec();
    return TB_NEXT(execvp)(file, argv);
}

TB_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    before_exec();
    return TB_NEXT(execvpe)(file, argv, envp);
}

TB_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    before_exec();
    return TB_NEXT(fexecve)(fd, argv, envp);
}

TB_EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
    before_exec();
    return TB_NEXT(execveat)(fd, path, argv, envp, flags);
}

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
    struct spawn s = {TB_NEXT(posix_spawn), path, actions, attributes, argv, envp};

    return spawn(&s, pid);
}

TB_EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict file,
                           const posix_spawn_file_actions_t *restrict actions,
                           const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
                           char *const envp[restrict])
{
    struct spawn s = {TB_NEXT(posix_spawnp), file, actions, attributes, argv, envp};

    return spawn(&s, pid);
}
