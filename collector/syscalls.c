/* The thread that answers, by the run's seed. The front starts and stops it. */
#include "collector/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "collector/collector_internal.h"
#include "deterministic/plan.h"
#include "deterministic/preload/log.h"

#define LARGEST 0x1ffffffu /* of one getrandom(2), as the kernel gives of urandom */
#define PIECE 4096u
#define FRESH 256u /* processes that called exec and nothing else yet */

/* Stands for a device that was opened; its bytes are those of one call. */
struct channel {
    int fd;
    uint64_t a, b, at;
};

struct tb_syscalls {
    const struct tb_pin_plan *plan;
    struct tb_syscalls_shared *shared;
    struct tb_syscalls_who who;
    pthread_t thread;
    bool started;
    pid_t keeper_pid;
    int keeper, listener, stop;
    int refused; /* errno of the filter, 0: it is on */
    uint64_t seed;
    struct channel channel[TB_SYSCALLS_PIPES];
    unsigned channels;
    pid_t fresh[FRESH];
    unsigned fresh_count;
};

/* ---------------------------------------------------------------- bytes */

/* As the streams of the preloaded library: each call of an image has one of its own. */
static struct channel stream_of(const struct tb_syscalls *s, const struct tb_syscalls_image *m,
                                uint64_t n)
{
    uint64_t stream = tb_preload_mix(s->seed, m->id);
    uint64_t a = tb_preload_mix(stream, n);

    return (struct channel){.fd = -1, .a = a, .b = tb_preload_mix(a, stream)};
}

/* @n: a multiple of 8 but for the last piece */
static void next_bytes(struct channel *c, char *out, size_t n)
{
    for (size_t done = 0; done < n; done += 8) {
        uint64_t i = (c->at + done) / 8;
        uint64_t word = tb_preload_mix64(tb_preload_mix64(c->a + i * 0x9E3779B97F4A7C15ull) ^ c->b);
        memcpy(out + done, &word, n - done < 8 ? n - done : 8);
    }
    c->at += n;
}

/* false: it cannot be written to (*@sys) */
static bool write_bytes(pid_t pid, uint64_t address, struct channel *c, size_t n, int *sys)
{
    char bytes[PIECE];

    for (size_t done = 0; done < n; done += PIECE) {
        size_t part = n - done < PIECE ? n - done : PIECE;
        next_bytes(c, bytes, part);
        struct iovec mine = {bytes, part};
        struct iovec theirs = {(void *)(uintptr_t)(address + done), part}; /* NOLINT: not ours */
        if (process_vm_writev(pid, &mine, 1, &theirs, 1, 0) != (ssize_t)part) {
            *sys = errno ? errno : EFAULT;
            return false;
        }
    }
    return true;
}

/* A text of the job's, which may end right before memory that is not there */
static void read_text(pid_t pid, uint64_t address, char *out, size_t size)
{
    size_t first = PIECE - address % PIECE;
    struct iovec mine = {out, size - 1};
    struct iovec theirs[2] = {{(void *)(uintptr_t)address, size - 1}}; /* NOLINT: not ours */

    memset(out, 0, size);
    if (first < size - 1) {
        theirs[0].iov_len = first;
        theirs[1] = (struct iovec){(void *)(uintptr_t)(address + first), /* NOLINT: not ours */
                                   size - 1 - first};
    }
    (void)process_vm_readv(pid, &mine, 1, theirs, first < size - 1 ? 2 : 1, 0);
}

/* ---------------------------------------------------------------- pipes for the device */

static void fill(struct channel *c)
{
    char bytes[PIECE];
    struct channel next = *c;

    next_bytes(&next, bytes, sizeof(bytes));
    if (write(c->fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes)) /* whole or not at all */
        *c = next;
}

static void drop_channel(struct tb_syscalls *s, unsigned i)
{
    (void)close(s->channel[i].fd);
    s->channel[i] = s->channel[--s->channels];
}

/* The job's descriptor reads from a pipe of ours; false: none could be made */
static bool answer_open(struct tb_syscalls *s, const struct seccomp_notif *q, struct channel c)
{
    uint64_t flags = q->data.args[q->data.nr == SYS_openat ? 2 : 1];
    int ends[2];

    if (s->channels == TB_SYSCALLS_PIPES || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    c.fd = ends[1];
    (void)fcntl(c.fd, F_SETPIPE_SZ, 4 * PIECE);
    (void)fcntl(c.fd, F_SETFL, O_NONBLOCK);
    fill(&c);
    struct seccomp_notif_addfd give = {.id = q->id,
                                       .flags = SECCOMP_ADDFD_FLAG_SEND,
                                       .srcfd = (uint32_t)ends[0],
                                       .newfd_flags = flags & O_CLOEXEC};
    bool ok = ioctl(s->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &give) >= 0;
    (void)close(ends[0]);
    if (!ok) {
        (void)close(c.fd);
        return false;
    }
    (void)tb_descriptor_send(s->keeper, 0, c.fd);
    s->channel[s->channels++] = c;
    return true;
}

/* ---------------------------------------------------------------- calls */

static bool answer_getrandom(struct tb_syscalls *s, const struct seccomp_notif *q,
                             struct tb_syscalls_image *m, struct channel c)
{
    size_t n = q->data.args[1] < LARGEST ? (size_t)q->data.args[1] : LARGEST;
    struct seccomp_notif_resp r = {.id = q->id, .val = (int64_t)n};
    int sys = 0;

    if (ioctl(s->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &q->id) != 0)
        return false; /* the process is gone, its pid may be another's */
    if (!write_bytes((pid_t)q->pid, q->data.args[0], &c, n, &sys)) {
        m->forbidden += sys != EFAULT;
        return false;
    }
    return ioctl(s->listener, SECCOMP_IOCTL_NOTIF_SEND, &r) == 0;
}

static bool is_device(const struct seccomp_notif *q)
{
    char path[16];

    read_text((pid_t)q->pid, q->data.args[q->data.nr == SYS_openat ? 1 : 0], path, sizeof(path));
    return strcmp(path, "/dev/urandom") == 0 || strcmp(path, "/dev/random") == 0;
}

/* false: the kernel is to do it */
static bool answer_draw(struct tb_syscalls *s, const struct seccomp_notif *q)
{
    bool getrandom = q->data.nr == SYS_getrandom, crypto = false;
    struct tb_syscalls_image *m = tb_syscalls_image(&s->who, (pid_t)q->pid);

    if (!m)
        return false;
    if (tb_syscalls_left_alone(m->pid, q->data.instruction_pointer, s->plan->all_entropy,
                               &crypto)) {
        m->real += crypto;
        return false;
    }
    uint32_t n = m->calls++;
    struct channel c = stream_of(s, m, n);
    bool ok = getrandom ? answer_getrandom(s, q, m, c) : answer_open(s, q, c);
    if (ok)
        m->answered++;
    else if (m->calls == n + 1)
        m->calls = n; /* it will be asked for again, or was nothing */
    return ok;
}

/* ---------------------------------------------------------------- AT_RANDOM */

static void remember_exec(struct tb_syscalls *s, pid_t tid)
{
    for (unsigned i = 0; i < s->fresh_count; i++)
        if (s->fresh[i] == tid)
            return;              /* it has tried another path before */
    if (s->fresh_count == FRESH) /* those of which nothing more was heard */
        memmove(s->fresh, s->fresh + 1, --s->fresh_count * sizeof(s->fresh[0]));
    s->fresh[s->fresh_count++] = tid;
}

/*
 * The kernel gives each program 16 random bytes, and Go's runtime makes its seed of them, after it
 * has opened a file. At the first call after exec they are written over; a program with a loader
 * keeps them, as libc makes guards of the stack of them.
 */
static void set_random(struct tb_syscalls *s, pid_t tid)
{
    unsigned i = 0;
    int sys = 0;
    bool is_static;

    while (i < s->fresh_count && s->fresh[i] != tid)
        i++;
    if (i == s->fresh_count)
        return;
    s->fresh[i] = s->fresh[--s->fresh_count];
    uint64_t address = tb_syscalls_random_address(tid, &is_static);
    struct tb_syscalls_image *m = is_static && address ? tb_syscalls_image(&s->who, tid) : NULL;
    if (!m)
        return;
    struct channel c = stream_of(s, m, UINT64_MAX);
    m->random_set = write_bytes(tid, address, &c, 16, &sys);
}

/* ---------------------------------------------------------------- the thread */

static void answer(struct tb_syscalls *s)
{
    struct seccomp_notif *q = &s->shared->now.notif;
    bool done = false;

    memset(s->shared, 0, sizeof(*s->shared));
    if (ioctl(s->listener, SECCOMP_IOCTL_NOTIF_RECV, q) != 0)
        return;
    bool exec = q->data.nr == SYS_execve || q->data.nr == SYS_execveat;
    if (exec)
        remember_exec(s, (pid_t)q->pid);
    else if (s->fresh_count)
        set_random(s, (pid_t)q->pid);
    if (!exec && (q->data.nr == SYS_getrandom || is_device(q)))
        done = answer_draw(s, q);
    if (!done)
        tb_syscalls_pass(s->listener, q->id);
    memset(s->shared, 0, sizeof(*s->shared));
}

static void *work(void *arg)
{
    struct tb_syscalls *s = arg;
    struct pollfd fds[TB_SYSCALLS_PIPES + 2];

    for (;;) {
        unsigned n = s->channels;
        fds[0] = (struct pollfd){.fd = s->stop, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = s->listener, .events = POLLIN};
        for (unsigned i = 0; i < n; i++)
            fds[2 + i] = (struct pollfd){.fd = s->channel[i].fd, .events = POLLOUT};
        if (poll(fds, 2 + n, -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[0].revents || (fds[1].revents & (POLLHUP | POLLERR)))
            return NULL;
        for (unsigned i = n; i-- > 0;)
            if (fds[2 + i].revents & (POLLERR | POLLNVAL))
                drop_channel(s, i);
            else if (fds[2 + i].revents & POLLOUT)
                fill(&s->channel[i]);
        if (fds[1].revents & POLLIN)
            answer(s);
    }
}

/* ---------------------------------------------------------------- start, stop */

struct tb_syscalls *tb_syscalls_new(const struct tb_pin_plan *plan)
{
    const struct tb_pin_choice *c = plan ? tb_pin_choice_of(plan, "system.syscalls") : NULL;
    struct tb_syscalls *s = c && c->request == TB_PIN_SET ? calloc(1, sizeof(*s)) : NULL;

    if (!s)
        return NULL;
    s->plan = plan;
    s->seed = tb_preload_mix(plan->seed, 0x73797363616C6C73ull);
    s->keeper = s->listener = s->stop = -1;
    void *p =
        mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    s->shared = p == MAP_FAILED ? NULL : p;
    s->stop = eventfd(0, EFD_CLOEXEC);
    if (!s->shared || s->stop < 0 || (s->keeper_pid = tb_keeper_start(s->shared, &s->keeper)) < 0)
        s->refused = errno ? errno : EAGAIN;
    return s;
}

bool tb_syscalls_wanted(const struct tb_syscalls *s)
{
    return s && !s->refused;
}

pid_t tb_syscalls_keeper(const struct tb_syscalls *s)
{
    return s ? s->keeper_pid : 0;
}

/* Who still lives is the keeper's: it lets all pass. */
static void leave_keeper(struct tb_syscalls *s)
{
    if (s->keeper >= 0)
        tb_keeper_leave(s->keeper_pid, s->keeper);
    s->keeper = -1;
}

static bool notices_fit(void)
{
    struct seccomp_notif_sizes sizes;

    return syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0 &&
           sizes.seccomp_notif <= sizeof(struct tb_syscalls_shared) &&
           sizes.seccomp_notif_resp <= sizeof(struct seccomp_notif_resp);
}

void tb_syscalls_start(struct tb_syscalls *s, int report)
{
    if (!tb_syscalls_wanted(s))
        return;
    s->listener = tb_syscalls_receive(report);
    if (s->listener < 0) {
        s->refused = -s->listener;
        return;
    }
    (void)tb_descriptor_send(s->keeper, 0, s->listener);
    (void)ioctl(s->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    int sys = notices_fit() ? pthread_create(&s->thread, NULL, work, s) : ENOSYS;
    s->started = sys == 0;
    s->refused = sys;
    if (sys)
        leave_keeper(s);
}

void tb_syscalls_stop(struct tb_syscalls *s)
{
    uint64_t one = 1;

    if (!s || !s->started)
        return;
    (void)!write(s->stop, &one, sizeof(one));
    (void)pthread_join(s->thread, NULL);
    s->started = false;
    while (s->channels)
        drop_channel(s, 0);
    leave_keeper(s);
}

void tb_syscalls_free(struct tb_syscalls *s)
{
    if (!s)
        return;
    tb_syscalls_stop(s);
    leave_keeper(s);
    if (s->listener >= 0)
        (void)close(s->listener);
    if (s->stop >= 0)
        (void)close(s->stop);
    if (s->shared)
        (void)munmap(s->shared, sizeof(*s->shared));
    tb_syscalls_who_release(&s->who);
    free(s);
}

/* ---------------------------------------------------------------- what came of it */

static void say_image(struct tb_pins *pins, const struct tb_syscalls_image *m)
{
    char text[150];
    int n = snprintf(text, sizeof(text), "%llu draws", (unsigned long long)m->answered);

    if (m->random_set)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", AT_RANDOM");
    if (m->real)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      ", %llu real ones beside a library for cryptography",
                      (unsigned long long)m->real);
    if (m->forbidden)
        (void)snprintf(text + n, sizeof(text) - (size_t)n,
                       ", %llu real ones: its memory is out of reach",
                       (unsigned long long)m->forbidden);
    if (m->answered || m->random_set || m->real || m->forbidden)
        tb_pins_say(pins, m->pid, m->program, "system.syscalls",
                    m->forbidden                   ? TB_PIN_WAS_MISSED
                    : m->answered || m->random_set ? TB_PIN_WAS_HELD
                                                   : TB_PIN_WAS_READ,
                    text);
}

void tb_syscalls_say(const struct tb_syscalls *s, struct tb_pins *pins)
{
    char text[150];

    if (s && s->refused) {
        (void)snprintf(text, sizeof(text), "off: %s",
                       s->refused == EBUSY ? "another program answers for this one's system calls"
                                           : strerror(s->refused)); /* NOLINT: the thread is over */
        tb_pins_say(pins, -1, "the job", "system.syscalls", TB_PIN_WAS_REFUSED, text);
    }
    for (size_t i = 0; s && i < s->who.count; i++)
        say_image(pins, s->who.image[i]);
}

bool tb_syscalls_answered(const struct tb_syscalls *s, const char *program)
{
    for (size_t i = 0; s && i < s->who.count; i++)
        if (strcmp(s->who.image[i]->program, program) == 0 &&
            (s->who.image[i]->answered || s->who.image[i]->random_set))
            return true;
    return false;
}
