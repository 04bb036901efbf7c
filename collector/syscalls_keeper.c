/*
 * A call that a filter hands over is never answered once all its listeners are closed: it fails.
 * So a process that only waits holds one more, and takes over when twinbit has ended or was killed.
 * Forked from a program with threads: system calls alone.
 */
#include "collector/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

struct keeper {
    struct tb_syscalls_shared *shared;
    int own, listener;
    int pipe[TB_SYSCALLS_PIPES];
    unsigned pipes;
};

void tb_syscalls_pass(int listener, uint64_t id)
{
    struct seccomp_notif_resp r = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

static void take_over(struct keeper *k)
{
    struct tb_syscalls_shared *s = k->shared;

    (void)close(k->own);
    k->own = -1;
    if (k->listener >= 0 && s->now.notif.id)
        tb_syscalls_pass(k->listener, s->now.notif.id);
}

/* The first descriptor is the listener, the others are pipes */
static void listen_to_twinbit(struct keeper *k)
{
    int value, fd;

    if (!tb_descriptor_receive(k->own, MSG_DONTWAIT, &value, &fd)) {
        if (errno != EAGAIN)
            take_over(k);
        return;
    }
    if (fd < 0)
        return;
    if (k->listener < 0)
        k->listener = fd;
    else if (k->pipes < TB_SYSCALLS_PIPES)
        k->pipe[k->pipes++] = fd;
    else
        (void)close(fd);
}

static void pass_one(struct keeper *k)
{
    union {
        struct seccomp_notif notif;
        char room[512];
    } now;

    memset(&now, 0, sizeof(now));
    if (ioctl(k->listener, SECCOMP_IOCTL_NOTIF_RECV, &now.notif) == 0)
        tb_syscalls_pass(k->listener, now.notif.id);
}

static void fill(int fd)
{
    char bytes[4096];

    if (getrandom(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes))
        (void)!write(fd, bytes, sizeof(bytes));
}

/* While twinbit lives, only what it sends and readers that are gone are looked for. */
static bool one_round(struct keeper *k)
{
    struct pollfd fds[TB_SYSCALLS_PIPES + 2];
    bool alone = k->own < 0;
    unsigned kept = 0;

    fds[0] = (struct pollfd){.fd = k->own, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = alone ? k->listener : -1, .events = POLLIN};
    for (unsigned i = 0; i < k->pipes; i++)
        fds[2 + i] = (struct pollfd){.fd = k->pipe[i], .events = alone ? POLLOUT : 0};
    if (poll(fds, 2 + k->pipes, -1) < 0)
        return errno == EINTR;
    unsigned before = k->pipes;
    for (unsigned i = 0; i < before; i++) {
        if (fds[2 + i].revents & (POLLERR | POLLNVAL)) {
            (void)close(k->pipe[i]);
            continue;
        }
        if (fds[2 + i].revents & POLLOUT)
            fill(k->pipe[i]);
        k->pipe[kept++] = k->pipe[i];
    }
    k->pipes = kept;
    if (fds[0].revents)
        listen_to_twinbit(k);
    if (fds[1].revents & POLLIN)
        pass_one(k);
    return k->own >= 0 || (k->listener >= 0 && !(fds[1].revents & (POLLHUP | POLLERR)));
}

/* No terminal, no output, no folder of the job's is held by it. */
static void keep(struct tb_syscalls_shared *shared, int own)
{
    struct keeper k = {.shared = shared, .own = own, .listener = -1};
    sigset_t all;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)setsid();
    (void)!chdir("/");
    (void)prctl(PR_SET_NAME, "twinbit-keeper", 0, 0, 0);
    k.own = fcntl(own, F_DUPFD_CLOEXEC, 3);
    for (int i = 0; i < 3; i++)
        (void)close(i);
    if (k.own > 3)
        (void)syscall(SYS_close_range, 3, k.own - 1, 0);
    (void)syscall(SYS_close_range, k.own + 1, ~0u, 0);
    while (k.own >= 0 && one_round(&k))
        ;
    while (k.own < 0 && k.listener >= 0 && one_round(&k))
        ;
    _exit(0);
}

pid_t tb_keeper_start(struct tb_syscalls_shared *shared, int *own)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        keep(shared, ends[1]);
    }
    (void)close(ends[1]);
    if (pid < 0)
        (void)close(ends[0]);
    else
        *own = ends[0];
    return pid;
}

void tb_keeper_leave(pid_t pid, int own)
{
    (void)close(own);
    for (int i = 0; i < 100 && waitpid(pid, NULL, WNOHANG) == 0; i++)
        (void)usleep(2000);
}
