/*
 * Private to collector/: entropy that a job draws by system calls of its own (pin system.syscalls).
 *
 * A filter of seccomp(2), put on between fork and exec, hands getrandom(2), opening for reading and
 * exec to a listener; the job waits until it is answered. syscalls_filter.c puts it on,
 * syscalls.c is the thread that answers, syscalls_who.c tells it who asks, syscalls_keeper.c is a
 * process that lets all pass once twinbit is gone. Start at tb_syscalls_new().
 */
#ifndef TB_COLLECTOR_SYSCALLS_H
#define TB_COLLECTOR_SYSCALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/seccomp.h>

/* Headers may be older than the kernel that it runs on. */
#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE (1UL << 0)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_ADDFD
struct seccomp_notif_addfd {
    __u64 id;
    __u32 flags, srcfd, newfd, newfd_flags;
};
#define SECCOMP_IOCTL_NOTIF_ADDFD SECCOMP_IOW(3, struct seccomp_notif_addfd)
#endif
#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

#define TB_SYSCALLS_PIPES 200u

/** struct tb_syscalls_shared - of twinbit and the keeper: what was taken and not answered yet */
struct tb_syscalls_shared {
    union {
        struct seccomp_notif notif; /* all zero: nothing */
        char room[512];             /* the kernel's may be longer than ours */
    } now;
};

/* ---------------------------------------------------------------- syscalls_filter.c */

/** tb_syscalls_install - in the child, before exec; sends the listener, or errno, through @report
 */
void tb_syscalls_install(int report);
/** tb_syscalls_receive - the listener, or -errno: what kept the filter off */
int tb_syscalls_receive(int report);

/* One descriptor in a message of a socket, @value beside it; -1: none, or none came */
bool tb_descriptor_send(int socket, int value, int fd);
bool tb_descriptor_receive(int socket, int flags, int *value, int *fd);

/* ---------------------------------------------------------------- syscalls_keeper.c */

/**
 * tb_keeper_start - a process that stays as long as the job needs it
 * @own: our end of a socket: the listener goes there, then pipes that stand for a device. Once it
 * is closed (twinbit has ended, however) the keeper lets every call pass and fills the pipes with
 * real bytes, until nobody is left. Returns its pid; -1 if there is none: then nothing is put on.
 */
pid_t tb_keeper_start(struct tb_syscalls_shared *shared, int *own);
/** tb_keeper_leave - close our end; if it ends at once, as it does if nobody is left, take its
 * status */
void tb_keeper_leave(pid_t pid, int own);

/** tb_syscalls_pass - let the kernel do it */
void tb_syscalls_pass(int listener, uint64_t id);

/* ---------------------------------------------------------------- syscalls_who.c */

/** struct tb_syscalls_image - a program in a process that drew or may draw */
struct tb_syscalls_image {
    pid_t pid;
    uint64_t start, id; /* see tb_syscalls_image() */
    bool random_set;    /* its AT_RANDOM follows from the seed */
    char program[256];
    uint32_t calls;                     /* that were given a number */
    uint64_t answered, real, forbidden; /* draws; kept for cryptography; memory out of reach */
};

/** struct tb_syscalls_who - all of them; zero-initialise */
struct tb_syscalls_who {
    struct tb_syscalls_image **image;
    size_t count, room;
    struct {
        uint64_t key;
        uint32_t count;
    } * named;
    size_t names, names_room;
};

/**
 * tb_syscalls_image - the program that runs in the process of thread @tid; NULL: it is gone, or no
 * memory
 *
 * Its id follows from the names of the programs from the job down to it, the variables that tell
 * ranks apart, and how many with the same came before it; never from a pid.
 */
struct tb_syscalls_image *tb_syscalls_image(struct tb_syscalls_who *w, pid_t tid);

/** tb_syscalls_random_address - where the 16 bytes of AT_RANDOM are; 0: not known */
uint64_t tb_syscalls_random_address(pid_t pid, bool *is_static);

/** tb_syscalls_left_alone - is a call at @ip one that libtwinbit_pins sees, or libc's own, or one
 * of cryptography (*@crypto)? @all: cryptography is not left alone */
bool tb_syscalls_left_alone(pid_t pid, uint64_t ip, bool all, bool *crypto);

void tb_syscalls_who_release(struct tb_syscalls_who *w);

#endif
