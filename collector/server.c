#include "collector/collector_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A connection that waits: for its message, (after TAP) for its tap, or (after IMAGE) for what the
 * kernels of an image do. */
struct connection {
    struct connection *next;
    int fd;
    pid_t pid;
    bool wants_tap, done;
    uint64_t image; /* ticket of tb_images_ask(), 0: none */
    char libtorch[1024];
};

/* The thread that builds a tap; one at a time. Its result is read after @event fired. */
struct build {
    pthread_t thread;
    bool running;
    int event;
    const char *libdir;
    char libtorch[1024], path[1024];
    enum tb_status status;
    struct tb_error err;
    struct tb_tap_control control;
};

struct tb_server {
    int fd, bell_fd;
    char folder[100], path[108], libdir[TB_COL_TEXT];
    struct tb_wire_config config;
    struct tb_server_hooks hooks;
    struct connection *connections;
    struct build build;
    struct tb_images *images;
    bool warned; /* that the tap is the one written in Python */
};

/* ---------------------------------------------------------------- the socket */

/* A 0700 folder whose name leaves room for a socket's path. */
static bool make_folder(struct tb_server *s)
{
    const char *const places[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};

    for (size_t i = 0; i < TB_ARRAY_LEN(places); i++) {
        if (!places[i] || places[i][0] != '/' || strlen(places[i]) > sizeof(s->folder))
            continue;
        tb_leftover_clear(places[i]);
        if (tb_leftover_make(places[i], "twinbit", s->folder, sizeof(s->folder))) { /* 0700 */
            tb_leftover_own(s->folder);
            return true;
        }
    }
    return false;
}

static enum tb_status listen_at(struct tb_server *s, struct tb_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)snprintf(s->path, sizeof(s->path), "%s/s", s->folder);
    memcpy(address.sun_path, s->path, sizeof(s->path));
    s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0 || bind(s->fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(s->fd, 4096) != 0)
        return tb_fail_sys(err, TB_ERR_SYS, errno, "cannot listen at '%s'", s->path);
    return TB_OK;
}

enum tb_status tb_server_open(struct tb_server **out, const struct tb_wire_config *config,
                              const char *libdir, int bell_fd, const struct tb_server_hooks *hooks,
                              struct tb_error *err)
{
    struct tb_server *s = calloc(1, sizeof(*s));
    enum tb_status st = TB_OK;

    if (!s)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the collector");
    s->fd = s->build.event = -1;
    s->config = *config;
    s->bell_fd = bell_fd;
    s->hooks = *hooks;
    s->build.control.quiet = hooks->quiet;
    (void)snprintf(s->libdir, sizeof(s->libdir), "%s", libdir);
    if (!make_folder(s)) {
        st = tb_fail_sys(err, TB_ERR_SYS, errno, "cannot make a folder for the socket");
        goto out;
    }
    st = listen_at(s, err);
    s->build.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (st == TB_OK && s->build.event < 0)
        st = tb_fail_sys(err, TB_ERR_SYS, errno, "cannot make an eventfd");
    if (st == TB_OK)
        st = tb_images_open(&s->images, err);
out:
    if (st == TB_OK)
        *out = s;
    else
        tb_server_close(s);
    return st;
}

const char *tb_server_path(const struct tb_server *s)
{
    return s->path;
}

const char *tb_server_folder(const struct tb_server *s)
{
    return s->folder;
}

static bool waits_for_us(const struct connection *c)
{
    return c->wants_tap || c->image;
}

size_t tb_server_fds(struct tb_server *s, struct pollfd *out, size_t max)
{
    size_t n = 0;

    if (max < 3)
        return 0;
    out[n++] = (struct pollfd){.fd = s->fd, .events = POLLIN};
    out[n++] = (struct pollfd){.fd = s->build.event, .events = POLLIN};
    out[n++] = (struct pollfd){.fd = tb_images_event(s->images), .events = POLLIN};
    for (const struct connection *c = s->connections; c && n < max; c = c->next)
        if (!waits_for_us(c))
            out[n++] = (struct pollfd){.fd = c->fd, .events = POLLIN};
    return n;
}

/* ---------------------------------------------------------------- replies */

static void reply(const struct connection *c, const struct tb_wire_config *config,
                  enum tb_wire_reply_status status, const char *text, int passed)
{
    struct tb_wire_reply r = {
        .magic = TB_WIRE_MAGIC, .version = TB_WIRE_VERSION, .size = sizeof(r), .status = status};
    struct iovec iov = {&r, sizeof(r)};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};

    if (config)
        r.config = *config;
    (void)snprintf(r.text, sizeof(r.text), "%s", text);
    if (passed >= 0) {
        h.msg_control = &control;
        h.msg_controllen = sizeof(control);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &passed, sizeof(int));
    }
    (void)sendmsg(c->fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---------------------------------------------------------------- the tap */

/* Without a compiler, torch's headers or a folder for it the tap written in Python does the work.
 */
static bool fall_back(struct build *b)
{
    char path[TB_COL_TEXT + 32];

    (void)snprintf(path, sizeof(path), "%s/libtwinbit_pytap.so", b->libdir);
    if (b->status == TB_OK || access(path, R_OK) != 0 || strlen(path) >= sizeof(b->path))
        return false;
    (void)snprintf(b->path, sizeof(b->path), "%s", path);
    return true;
}

static void *build_main(void *arg)
{
    struct build *b = arg;

    b->status = tb_tap_build_controlled(b->libdir, b->libtorch, b->path, sizeof(b->path),
                                        &b->control, &b->err);
    (void)eventfd_write(b->event, 1);
    return NULL;
}

static void start_build(struct tb_server *s)
{
    struct connection *c = s->connections;

    while (c && (!c->wants_tap || c->done))
        c = c->next;
    if (!c || s->build.running)
        return;
    memcpy(s->build.libtorch, c->libtorch, sizeof(c->libtorch));
    s->build.libdir = s->libdir;
    s->build.err = (struct tb_error){0};
    s->build.running = pthread_create(&s->build.thread, NULL, build_main, &s->build) == 0;
    if (!s->build.running) {
        reply(c, NULL, TB_REPLY_REFUSED, "cannot start a thread", -1);
        c->done = true;
    }
}

static void finish_build(struct tb_server *s)
{
    struct build *b = &s->build;
    eventfd_t value;
    char why[sizeof(b->err.text) + 80];
    bool python;

    if (!b->running || eventfd_read(b->event, &value) != 0)
        return;
    (void)pthread_join(b->thread, NULL);
    b->running = false;
    python = fall_back(b);
    for (struct connection *c = s->connections; c; c = c->next) {
        if (!c->wants_tap || strcmp(c->libtorch, b->libtorch) != 0)
            continue;
        if (b->status == TB_OK || python)
            reply(c, NULL, TB_REPLY_OK, b->path, -1);
        else
            reply(c, NULL, TB_REPLY_REFUSED, b->err.text, -1);
        c->done = true;
    }
    if (b->status == TB_OK || (python && s->warned))
        return;
    (void)snprintf(why, sizeof(why), "%s%s", b->err.text,
                   python ? "; torch is recorded from Python, which is slower and sees less" : "");
    s->hooks.no_tap(s->hooks.arg, why);
    s->warned = python;
}

/* ---------------------------------------------------------------- images */

static void ask_image(struct tb_server *s, struct connection *c, int fd)
{
    c->image = fd >= 0 ? tb_images_ask(s->images, fd) : 0;
    c->done = c->image == 0;
    if (c->done)
        reply(c, NULL, TB_REPLY_REFUSED, fd < 0 ? "no image came along" : "no memory", -1);
}

static void finish_images(struct tb_server *s)
{
    char why[TB_ERROR_TEXT];
    int fd;

    if (!tb_images_ready(s->images)) /* before looking: what is done later is told again */
        return;
    for (struct connection *c = s->connections; c; c = c->next) {
        if (!c->image || c->done || !tb_images_answer(s->images, c->image, &fd, why, sizeof(why)))
            continue;
        reply(c, NULL, fd >= 0 ? TB_REPLY_OK : TB_REPLY_REFUSED, why, fd);
        if (fd >= 0)
            (void)close(fd);
        c->done = true;
    }
}

/* ---------------------------------------------------------------- messages */

static bool good_message(const struct tb_wire_msg *m, ssize_t n)
{
    return n == (ssize_t)sizeof(*m) && m->magic == TB_WIRE_MAGIC && m->version == TB_WIRE_VERSION &&
           m->size == sizeof(*m);
}

static void handle(struct tb_server *s, struct connection *c, const struct tb_wire_msg *m, int fd)
{
    c->done = m->kind != TB_MSG_TAP;
    if (m->kind == TB_MSG_HELLO) {
        s->hooks.hello(s->hooks.arg, c->pid, m);
        reply(c, &s->config, TB_REPLY_OK, "", s->bell_fd);
    } else if (m->kind == TB_MSG_TAP) {
        c->wants_tap = true;
        (void)snprintf(c->libtorch, sizeof(c->libtorch), "%.1023s", m->text);
    } else if (m->kind == TB_MSG_IMAGE) {
        ask_image(s, c, fd);
        return;
    } else {
        s->hooks.message(s->hooks.arg, c->pid, m, fd);
        return;
    }
    if (fd >= 0)
        (void)close(fd);
}

static int passed_fd(struct msghdr *h)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(h);
    int fd = -1;

    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len >= CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(c), sizeof(int));
    return fd;
}

static void read_connection(struct tb_server *s, struct connection *c)
{
    struct tb_wire_msg m = {0};
    struct iovec iov = {&m, sizeof(m)};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(c->fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    int fd = n > 0 ? passed_fd(&h) : -1;
    m.text[sizeof(m.text) - 1] = 0;
    if (good_message(&m, n)) {
        handle(s, c, &m, fd);
        return;
    }
    if (n > 0)
        reply(c, NULL, TB_REPLY_REFUSED, "this twinbit speaks another version", -1);
    if (fd >= 0)
        (void)close(fd);
    c->done = true;
}

static void accept_all(struct tb_server *s)
{
    struct connection **end = &s->connections;
    int fd;

    while (*end)
        end = &(*end)->next;
    while ((fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct ucred peer = {0};
        socklen_t n = sizeof(peer);
        struct connection *c = calloc(1, sizeof(*c));
        if (!c || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0) {
            free(c);
            (void)close(fd);
            continue;
        }
        c->fd = fd;
        c->pid = peer.pid;
        *end = c; /* in order: what a process sent first is handled first */
        end = &c->next;
    }
}

static void drop_done(struct tb_server *s)
{
    for (struct connection **at = &s->connections; *at;) {
        struct connection *c = *at;
        if (!c->done) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        (void)close(c->fd);
        free(c);
    }
}

void tb_server_work(struct tb_server *s)
{
    accept_all(s);
    for (struct connection *c = s->connections; c; c = c->next)
        if (!waits_for_us(c) && !c->done)
            read_connection(s, c);
    finish_build(s);
    finish_images(s);
    drop_done(s);
    start_build(s);
}

const int *tb_server_helper(const struct tb_server *s)
{
    return &s->build.control.pid;
}

void tb_server_close(struct tb_server *s)
{
    if (!s)
        return;
    if (s->fd >= 0) {
        (void)close(s->fd);
        (void)unlink(s->path);
    }
    if (s->build.running) {
        __atomic_store_n(&s->build.control.cancel, 1, __ATOMIC_RELEASE);
        (void)pthread_join(s->build.thread, NULL);
    }
    for (struct connection *c = s->connections; c; c = c->next)
        c->done = true;
    drop_done(s);
    tb_images_close(s->images);
    if (s->build.event >= 0)
        (void)close(s->build.event);
    if (s->folder[0]) {
        tb_leftover_disown(s->folder);
        (void)rmdir(s->folder);
        tb_leftover_left(s->folder);
    }
    free(s);
}
