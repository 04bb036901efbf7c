/* Puts the filter on, and hands its listener over. */
#include "collector/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/common.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

/* ---------------------------------------------------------------- a descriptor in a message */

bool tb_descriptor_send(int socket, int value, int fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    struct iovec part = {&value, sizeof(value)};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        m.msg_control = control.room;
        m.msg_controllen = sizeof(control.room);
        control.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    }
    return sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(value);
}

bool tb_descriptor_receive(int socket, int flags, int *value, int *fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    struct iovec part = {value, sizeof(*value)};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof(control.room)};
    ssize_t n;

    *fd = -1;
    while ((n = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (n == (ssize_t)sizeof(*value) && m.msg_controllen >= CMSG_LEN(sizeof(int)) &&
        control.head.cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(&control.head), sizeof(*fd));
    if (n == 0)
        errno = EPIPE;
    return n == (ssize_t)sizeof(*value);
}

/* ---------------------------------------------------------------- the filter */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))

/* Bits of open(2) with which no device is opened for reading. The low half of an argument is at its
 * offset: both machines are little-endian. */
#define OTHER_FLAGS (O_ACCMODE | O_CREAT | O_DIRECTORY | O_PATH | O_TRUNC)

static int put_on(unsigned long flags)
{
    struct sock_filter code[] = {
        LOAD(arch),
        IF_EQUAL(ARCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        LOAD(nr),
        IF_EQUAL(SYS_getrandom, 9, 0),
        IF_EQUAL(SYS_execve, 8, 0),
        IF_EQUAL(SYS_execveat, 7, 0),
        IF_EQUAL(SYS_openat, 2, 0),
#ifdef SYS_open
        IF_EQUAL(SYS_open, 3, 0),
#else
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
#endif
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
        LOAD(args[1]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, OTHER_FLAGS, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {TB_ARRAY_LEN(code), code};

    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER | flags, &program);
}

/* Once taken, a call is not broken off by signals but deadly ones: it would be asked for again. */
static int listener(void)
{
    int fd = put_on(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);

    return fd < 0 && errno == EINVAL ? put_on(0) : fd;
}

/* Whoever may not filter what other users' programs do must give up becoming another user. */
void tb_syscalls_install(int report)
{
    int fd = listener();

    if (fd < 0 && errno == EACCES && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        fd = listener();
    (void)tb_descriptor_send(report, fd < 0 ? errno : 0, fd);
    if (fd >= 0)
        (void)close(fd);
}

int tb_syscalls_receive(int report)
{
    int error = 0, fd = -1;

    if (!tb_descriptor_receive(report, MSG_WAITALL, &error, &fd))
        return -EPIPE;
    return error ? -error : fd;
}
