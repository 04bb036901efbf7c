#include "recorder/recorder_internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* A connection of our own, or -1 with the reason in *result. */
static int open_connection(unsigned ms, enum tb_rt_conn *result)
{
    struct timeval limit = {ms / 1000, (ms % 1000) * 1000};
    int rc;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    *result = TB_CONN_FAIL;
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    do
        rc = connect(fd, (const struct sockaddr *)&tb_rt.socket, sizeof(tb_rt.socket));
    while (rc != 0 && errno == EINTR);
    if (rc == 0) {
        *result = TB_CONN_OK;
        return fd;
    }
    if (errno == ECONNREFUSED || errno == ENOENT || errno == ENOTDIR)
        *result = TB_CONN_GONE;
    else if (errno == EAGAIN)
        *result = TB_CONN_TIMEOUT;
    (void)close(fd);
    return -1;
}

static bool send_message(int fd, struct tb_wire_msg *msg, int passed)
{
    struct iovec iov = {msg, sizeof(*msg)};
    union control control = {0};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (passed >= 0) {
        h.msg_control = &control;
        h.msg_controllen = sizeof(control);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &passed, sizeof(int));
    }
    do
        n = sendmsg(fd, &h, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*msg);
}

static enum tb_rt_conn wait_readable(int fd, unsigned ms)
{
    uint64_t end = tb_rt_now() + (uint64_t)ms * 1000000u;

    for (;;) {
        uint64_t now = tb_rt_now();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int rc = now >= end ? 0 : poll(&p, 1, (int)((end - now) / 1000000u) + 1);
        if (rc > 0)
            return TB_CONN_OK;
        if (rc == 0)
            return TB_CONN_TIMEOUT;
        if (errno != EINTR)
            return TB_CONN_FAIL;
    }
}

static enum tb_rt_conn receive_reply(int fd, struct tb_wire_reply *reply, int *passed)
{
    struct iovec iov = {reply, sizeof(*reply)};
    union control control = {0};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    ssize_t n;

    do
        n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&h) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(passed, CMSG_DATA(c), sizeof(int));
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return TB_CONN_GONE;
    if (n != (ssize_t)sizeof(*reply) || reply->magic != TB_WIRE_MAGIC ||
        reply->version != TB_WIRE_VERSION || reply->size != sizeof(*reply))
        return TB_CONN_FAIL;
    return TB_CONN_OK;
}

enum tb_rt_conn tb_rt_call(struct tb_wire_msg *msg, int fd, struct tb_wire_reply *reply,
                           int *reply_fd, unsigned ms)
{
    enum tb_rt_conn result = TB_CONN_FAIL;
    int cancel, passed = -1;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    int sock = open_connection(ms, &result);
    if (sock < 0)
        goto out;
    if (!send_message(sock, msg, fd))
        result = TB_CONN_FAIL;
    else if (reply && (result = wait_readable(sock, ms)) == TB_CONN_OK)
        result = receive_reply(sock, reply, &passed);
    (void)close(sock);
    if (passed >= 0 && reply_fd)
        *reply_fd = passed;
    else if (passed >= 0)
        (void)close(passed);
out:
    (void)pthread_setcancelstate(cancel, &cancel);
    return result;
}

struct tb_wire_msg *tb_rt_message(unsigned kind)
{
    struct tb_wire_msg *msg = tb_rt_pool(sizeof(*msg));

    if (msg) {
        msg->magic = TB_WIRE_MAGIC;
        msg->version = TB_WIRE_VERSION;
        msg->size = sizeof(*msg);
        msg->kind = kind;
        msg->nonce = tb_rt.nonce;
        msg->pid = (pid_t)syscall(SYS_getpid);
    }
    return msg;
}

void tb_rt_message_done(struct tb_wire_msg *msg)
{
    if (msg)
        tb_rt_unmap(msg, sizeof(*msg));
}

bool tb_rt_alive(void)
{
    enum tb_rt_conn result;
    int cancel;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    int fd = open_connection(1, &result);
    if (fd >= 0)
        (void)close(fd);
    (void)pthread_setcancelstate(cancel, &cancel);
    return result != TB_CONN_GONE;
}

void tb_rt_log(const char *text)
{
    enum { LOG_LINES = 16 };
    int saved = errno;

    if (__atomic_fetch_add(&tb_rt.page->logs, 1, __ATOMIC_RELAXED) < LOG_LINES) {
        struct tb_wire_msg *msg = tb_rt_message(TB_MSG_LOG);
        if (msg) {
            (void)tb_rt_copy(msg->text, sizeof(msg->text), text);
            (void)tb_rt_call(msg, -1, NULL, NULL, 500);
        }
        tb_rt_message_done(msg);
    }
    errno = saved;
}

/* @number in decimal at @at of @out; where it ends. */
static size_t put_number(char *out, size_t at, unsigned number)
{
    char digits[12];
    size_t n = 0;

    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (n)
        out[at++] = digits[--n];
    return at;
}

void tb_rt_note(const char *why)
{
    char path[sizeof(tb_rt.socket.sun_path) + 40], text[512];
    size_t n = tb_rt_copy(path, sizeof(tb_rt.socket.sun_path), tb_rt.socket.sun_path);
    int saved = errno;

    while (n && path[n - 1] != '/')
        n--;
    n += tb_rt_copy(path + n, sizeof(path) - n, TB_WIRE_NOTE);
    path[put_number(path, n, (unsigned)syscall(SYS_getpid))] = 0;
    n = tb_rt_copy(text, 200, program_invocation_name);
    text[n++] = '\t';
    (void)tb_rt_copy(text + n, sizeof(text) - n, why);
    (void)!symlink(text, path);
    errno = saved;
}
