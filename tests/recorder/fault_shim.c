/*
 * A preloaded library that makes calls of libtwinbit.so fail, and of nobody else.
 *   FAULT="mmap:3" fails its third mmap, "mmap:3-" that and all later ones; several with ','.
 *   FAULT_LOG=FILE: a line for every call that libtwinbit.so makes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum call {
    MMAP,
    MEMFD,
    FALLOCATE,
    SOCKET,
    CONNECT,
    SENDMSG,
    RECVMSG,
    POLL,
    OPEN,
    MKOSTEMP,
    DLOPEN,
    SETSPECIFIC,
    KEYCREATE,
    MADVISE,
    CALLS
};
static const char *const names[CALLS] = {
    "mmap",
    "memfd_create",
    "fallocate",
    "socket",
    "connect",
    "sendmsg",
    "recvmsg",
    "poll",
    "open",
    "mkostemp",
    "dlopen",
    "pthread_setspecific",
    "pthread_key_create",
    "madvise",
};
static unsigned counts[CALLS];

static bool from_twinbit(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libtwinbit.so");
}

static bool planned(enum call c, unsigned n)
{
    const char *p = getenv("FAULT");
    size_t len = strlen(names[c]);

    for (; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, names[c], len) == 0 && p[len] == ':') {
            char *end;
            unsigned at = (unsigned)strtoul(p + len + 1, &end, 10);
            if (n == at || (*end == '-' && n > at))
                return true;
        }
    return false;
}

static void note(enum call c)
{
    const char *path = getenv("FAULT_LOG");
    char line[64];
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

    if (fd < 0)
        return;
    int n = snprintf(line, sizeof(line), "%s\n", names[c]);
    (void)!write(fd, line, (size_t)n);
    close(fd);
}

static bool fails(enum call c, const void *caller)
{
    if (!from_twinbit(caller))
        return false;
    note(c);
    return planned(c, __atomic_add_fetch(&counts[c], 1, __ATOMIC_RELAXED));
}

#define REAL(name) ((__typeof__(&name))real_of(#name))
static void *real_of(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

#define FAIL_IF(call, sys, result)                                                                 \
    do {                                                                                           \
        if (fails(call, __builtin_return_address(0))) {                                            \
            errno = sys;                                                                           \
            return result;                                                                         \
        }                                                                                          \
    } while (0)

EXPORT void *mmap(void *a, size_t n, int prot, int flags, int fd, off_t at)
{
    FAIL_IF(MMAP, ENOMEM, MAP_FAILED);
    return REAL(mmap)(a, n, prot, flags, fd, at);
}

EXPORT int memfd_create(const char *name, unsigned flags)
{
    FAIL_IF(MEMFD, ENOSYS, -1);
    return REAL(memfd_create)(name, flags);
}

EXPORT int fallocate(int fd, int mode, off_t at, off_t n)
{
    FAIL_IF(FALLOCATE, ENOSPC, -1);
    return REAL(fallocate)(fd, mode, at, n);
}

EXPORT int socket(int domain, int type, int protocol)
{
    FAIL_IF(SOCKET, EMFILE, -1);
    return REAL(socket)(domain, type, protocol);
}

EXPORT int connect(int fd, const struct sockaddr *a, socklen_t n)
{
    FAIL_IF(CONNECT, EACCES, -1);
    return REAL(connect)(fd, a, n);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    FAIL_IF(SENDMSG, ENOBUFS, -1);
    return REAL(sendmsg)(fd, m, flags);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    FAIL_IF(RECVMSG, ENOMEM, -1);
    return REAL(recvmsg)(fd, m, flags);
}

EXPORT int poll(struct pollfd *p, nfds_t n, int ms)
{
    FAIL_IF(POLL, ENOMEM, -1);
    return REAL(poll)(p, n, ms);
}

EXPORT int mkostemp(char *path, int flags)
{
    FAIL_IF(MKOSTEMP, ENOSPC, -1);
    return REAL(mkostemp)(path, flags);
}

EXPORT void *dlopen(const char *path, int flags)
{
    FAIL_IF(DLOPEN, ENOMEM, NULL);
    return REAL(dlopen)(path, flags);
}

EXPORT int pthread_setspecific(unsigned key, const void *value)
{
    if (fails(SETSPECIFIC, __builtin_return_address(0)))
        return ENOMEM;
    return ((int (*)(unsigned, const void *))real_of("pthread_setspecific"))(key, value);
}

EXPORT int pthread_key_create(unsigned *key, void (*destructor)(void *))
{
    if (fails(KEYCREATE, __builtin_return_address(0)))
        return EAGAIN;
    return ((int (*)(unsigned *, void (*)(void *)))real_of("pthread_key_create"))(key, destructor);
}

EXPORT int madvise(void *a, size_t n, int advice)
{
    FAIL_IF(MADVISE, EINVAL, -1);
    return REAL(madvise)(a, n, advice);
}

EXPORT int open(const char *path, int flags, ...)
{
    va_list ap;

    va_start(ap, flags);
    unsigned mode = va_arg(ap, unsigned);
    va_end(ap);
    FAIL_IF(OPEN, ENOSPC, -1);
    return REAL(open)(path, flags, mode);
}
