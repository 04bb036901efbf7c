/*
 * /dev/urandom and /dev/random. The device is really opened, and its descriptor remembered; reads
 * of it are answered. That a descriptor still is the device is asked of the kernel at each such
 * read, so whoever closes it, or puts another file in its place, need not be watched.
 */
#include "deterministic/preload/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

#define FDS 65536u          /* those above are not remembered: their reads stay real */
#define LARGEST 0x7ffff000u /* what the kernel gives at once, from 5.18 on */

/* A bit for each descriptor that may be a device. Set and cleared by anybody. */
static uint64_t maybe[FDS / 64];

static bool marked(int fd)
{
    return (unsigned)fd < FDS &&
           ((__atomic_load_n(&maybe[fd / 64], __ATOMIC_RELAXED) >> (fd % 64)) & 1);
}

void tb_pins_device_mark(int fd)
{
    if ((unsigned)fd < FDS)
        __atomic_fetch_or(&maybe[fd / 64], 1ull << (fd % 64), __ATOMIC_RELAXED);
}

static bool is_random(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && major(st->st_rdev) == 1 &&
           (minor(st->st_rdev) == 8 || minor(st->st_rdev) == 9);
}

static bool really(int fd)
{
    struct stat st = {0};

    return tb_sys3(SYS_fstat, fd, (long)&st, 0) == 0 && is_random(&st);
}

bool tb_pins_device_named(const char *path)
{
    struct stat st = {0};

    return path && tb_sys6(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0, 0, 0) == 0 &&
           is_random(&st);
}

bool tb_pins_is_device(int fd)
{
    if (tb_likely(!marked(fd)))
        return false;
    if (really(fd))
        return true;
    __atomic_fetch_and(&maybe[fd / 64], ~(1ull << (fd % 64)), __ATOMIC_RELAXED);
    return false;
}

void tb_pins_look_for_devices(void)
{
    for (int fd = 0; fd < 10; fd++)
        if (really(fd))
            tb_pins_device_mark(fd);
}

bool tb_pins_device_opened(int fd, const void *pc)
{
    struct tb_pins_proc *p;

    if (fd < 0 || tb_likely(!really(fd)) || !(p = tb_pins_self()) ||
        tb_pins.config->entropy == TB_PRELOAD_OFF)
        return false;
    uint32_t flags = tb_pins_site(p, pc).flags;
    if ((flags & TB_SITE_OURS) ||
        ((flags & TB_SITE_REAL) && !(tb_pins.config->flags & TB_PRELOAD_ALL_CALLERS)))
        return false;
    tb_pins_device_mark(fd);
    return true;
}

bool tb_pins_device_read(int fd, void *buf, size_t n, const void *pc, ssize_t *result)
{
    struct tb_pins_call c;

    if (tb_likely(!marked(fd)) || !tb_pins_is_device(fd) || !buf ||
        !tb_pins_begin(&c, TB_PRELOAD_DEVICE, TB_ENTROPY, pc))
        return false;
    n = n < LARGEST ? n : LARGEST;
    if (!tb_pins_real(&c)) {
        tb_pins_serve(&c, buf, n);
        *result = (ssize_t)n;
        return true;
    }
    *result = tb_sys3(SYS_read, fd, (long)buf, (long)n);
    tb_pins_note_real(&c, n, *result, buf);
    if (*result < 0) {
        errno = (int)-*result;
        *result = -1;
    }
    return true;
}

/* ---------------------------------------------------------------- opening */

#define MODE(flags)                                                                                \
    mode_t mode = 0;                                                                               \
    if (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE) {                                   \
        va_list ap;                                                                                \
        va_start(ap, flags);                                                                       \
        mode = va_arg(ap, mode_t);                                                                 \
        va_end(ap);                                                                                \
    }

/* A file that is to be made or written, or a folder, is no device to read. */
int tb_pins_opened(int fd, const char *path, int flags, const void *pc)
{
    if ((flags & O_ACCMODE) == O_WRONLY || (flags & (O_CREAT | O_DIRECTORY | O_PATH)))
        return fd;
    (void)tb_pins_device_opened(fd, pc);
    tb_pins_uuid_opened(fd, path, flags & O_CLOEXEC, pc);
    return fd;
}

TB_EXPORT int open(const char *path, int flags, ...)
{
    MODE(flags)
    return tb_pins_opened(TB_NEXT(open)(path, flags, mode), path, flags, TB_HERE);
}

TB_EXPORT int open64(const char *path, int flags, ...)
{
    MODE(flags)
    return tb_pins_opened(TB_NEXT(open64)(path, flags, mode), path, flags, TB_HERE);
}

TB_EXPORT int openat(int dir, const char *path, int flags, ...)
{
    MODE(flags)
    return tb_pins_opened(TB_NEXT(openat)(dir, path, flags, mode), path, flags, TB_HERE);
}

TB_EXPORT int openat64(int dir, const char *path, int flags, ...)
{
    MODE(flags)
    return tb_pins_opened(TB_NEXT(openat64)(dir, path, flags, mode), path, flags, TB_HERE);
}

/* Of callers that were built with _FORTIFY_SOURCE */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

TB_EXPORT int __open_2(const char *path, int flags)
{
    return tb_pins_opened(TB_NEXT(__open_2)(path, flags), path, flags, TB_HERE);
}

TB_EXPORT int __open64_2(const char *path, int flags)
{
    return tb_pins_opened(TB_NEXT(__open64_2)(path, flags), path, flags, TB_HERE);
}

TB_EXPORT int __openat_2(int dir, const char *path, int flags)
{
    return tb_pins_opened(TB_NEXT(__openat_2)(dir, path, flags), path, flags, TB_HERE);
}

TB_EXPORT int __openat64_2(int dir, const char *path, int flags)
{
    return tb_pins_opened(TB_NEXT(__openat64_2)(dir, path, flags), path, flags, TB_HERE);
}

/* ---------------------------------------------------------------- copies of descriptors */

static int copied(int from, int to)
{
    if (tb_unlikely(to >= 0 && marked(from)))
        tb_pins_device_mark(to);
    return to;
}

TB_EXPORT int dup(int fd)
{
    return copied(fd, TB_NEXT(dup)(fd));
}

TB_EXPORT int dup2(int fd, int to)
{
    return copied(fd, TB_NEXT(dup2)(fd, to));
}

TB_EXPORT int dup3(int fd, int to, int flags)
{
    return copied(fd, TB_NEXT(dup3)(fd, to, flags));
}

/* The third argument is a number or a pointer, or is not there: libc looks at it as a pointer. */
#define FCNTL(name)                                                                                \
    TB_EXPORT int name(int fd, int command, ...)                                                   \
    {                                                                                              \
        va_list ap;                                                                                \
        va_start(ap, command);                                                                     \
        void *arg = va_arg(ap, void *);                                                            \
        va_end(ap);                                                                                \
        int r = TB_NEXT(name)(fd, command, arg);                                                   \
        return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, r) : r;               \
    }

FCNTL(fcntl)
FCNTL(fcntl64)

/* ---------------------------------------------------------------- reading */

TB_EXPORT ssize_t read(int fd, void *buf, size_t n)
{
    ssize_t r;

    if (tb_unlikely(marked(fd)) && tb_pins_device_read(fd, buf, n, TB_HERE, &r))
        return r;
    return TB_NEXT(read)(fd, buf, n);
}

TB_EXPORT ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    ssize_t r;

    if (tb_unlikely(marked(fd)) && tb_pins_device_read(fd, buf, n, TB_HERE, &r))
        return r;
    return TB_NEXT(pread)(fd, buf, n, at);
}

TB_EXPORT ssize_t pread64(int fd, void *buf, size_t n, off64_t at)
{
    ssize_t r;

    if (tb_unlikely(marked(fd)) && tb_pins_device_read(fd, buf, n, TB_HERE, &r))
        return r;
    return TB_NEXT(pread64)(fd, buf, n, at);
}

ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room);

TB_EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
    ssize_t r;

    if (tb_unlikely(marked(fd)) && n <= room && tb_pins_device_read(fd, buf, n, TB_HERE, &r))
        return r;
    return TB_NEXT(__read_chk)(fd, buf, n, room);
}

TB_EXPORT ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room)
{
    ssize_t r;

    if (tb_unlikely(marked(fd)) && n <= room && tb_pins_device_read(fd, buf, n, TB_HERE, &r))
        return r;
    return TB_NEXT(__pread_chk)(fd, buf, n, at, room);
}

TB_EXPORT ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room)
{
    ssize_t r;

    if (tb_unlikely(marked(fd)) && n <= room && tb_pins_device_read(fd, buf, n, TB_HERE, &r))
        return r;
    return TB_NEXT(__pread64_chk)(fd, buf, n, at, room);
}

/* Each part is a call of its own. */
static bool scatter(int fd, const struct iovec *parts, int count, const void *pc, ssize_t *result)
{
    ssize_t sum = 0, got;

    if (tb_likely(!marked(fd)) || count < 0 || count > 1024)
        return false;
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len == 0)
            continue;
        if (!tb_pins_device_read(fd, parts[i].iov_base, parts[i].iov_len, pc, &got)) {
            if (sum == 0)
                return false;
            break;
        }
        if (got < 0 && sum == 0)
            sum = -1;
        if (got < 0)
            break;
        sum += got;
    }
    *result = sum;
    return true;
}

TB_EXPORT ssize_t readv(int fd, const struct iovec *parts, int count)
{
    ssize_t r;

    return scatter(fd, parts, count, TB_HERE, &r) ? r : TB_NEXT(readv)(fd, parts, count);
}

TB_EXPORT ssize_t preadv(int fd, const struct iovec *parts, int count, off_t at)
{
    ssize_t r;

    return scatter(fd, parts, count, TB_HERE, &r) ? r : TB_NEXT(preadv)(fd, parts, count, at);
}

TB_EXPORT ssize_t preadv64(int fd, const struct iovec *parts, int count, off64_t at)
{
    ssize_t r;

    return scatter(fd, parts, count, TB_HERE, &r) ? r : TB_NEXT(preadv64)(fd, parts, count, at);
}
