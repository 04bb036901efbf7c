/*
 * fopen() of the devices. A FILE reads inside libc, where nothing can be interposed, so the device
 * becomes a FILE whose reads come to us (fopencookie); fileno() still gives its descriptor, which
 * libstdc++ reads by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "deterministic/preload/device.h"
#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

/** struct stream - a FILE of ours; taken by who opens it, given back when it is closed */
struct stream {
    uint32_t used;
    int fd;
    FILE *file;
    const void *pc; /* who opened it: reads are written down as its */
};

static struct stream streams[64];
static uint32_t streams_used;

static struct stream *take(int fd, const void *pc)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(streams); i++) {
        uint32_t none = 0;
        if (!__atomic_compare_exchange_n(&streams[i].used, &none, 1, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        streams[i].fd = fd;
        streams[i].pc = pc;
        __atomic_store_n(&streams[i].file, NULL, __ATOMIC_RELEASE);
        __atomic_add_fetch(&streams_used, 1, __ATOMIC_RELEASE);
        return &streams[i];
    }
    return NULL;
}

static void give_back(struct stream *s)
{
    __atomic_store_n(&s->file, NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&s->used, 0, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&streams_used, 1, __ATOMIC_RELEASE);
}

static ssize_t read_it(void *cookie, char *buf, size_t n)
{
    struct stream *s = cookie;
    ssize_t r;

    if (tb_pins_device_read(s->fd, buf, n, s->pc, &r))
        return r;
    r = tb_sys3(SYS_read, s->fd, (long)buf, (long)n);
    if (r < 0) {
        errno = (int)-r;
        r = -1;
    }
    return r;
}

static int seek_it(void *cookie, off64_t *to, int whence)
{
    (void)cookie;
    (void)whence;
    *to = 0; /* as the device does */
    return 0;
}

static int close_it(void *cookie)
{
    struct stream *s = cookie;
    int fd = s->fd;

    give_back(s);
    tb_sys_close(fd);
    return 0;
}

static FILE *make(int fd, const char *mode, const void *pc)
{
    static const cookie_io_functions_t calls = {read_it, NULL, seek_it, close_it};
    struct stream *s = take(fd, pc);

    if (!s)
        return NULL;
    FILE *f = fopencookie(s, mode[0] == 'r' ? "r" : mode, calls);
    if (!f)
        give_back(s);
    else
        __atomic_store_n(&s->file, f, __ATOMIC_RELEASE);
    return f;
}

static bool reads_only(const char *mode)
{
    return mode && mode[0] == 'r' && !strchr(mode, '+');
}

/* A FILE for @path, if it is a device that is to be answered */
static FILE *device(const char *path, const char *mode, const void *pc)
{
    FILE *f = NULL;

    if (!reads_only(mode) || !tb_pins_device_named(path) || !tb_pins_self())
        return NULL;
    long fd = tb_sys_open(path, O_RDONLY | (strchr(mode, 'e') ? O_CLOEXEC : 0), 0);
    if (fd < 0)
        return NULL;
    if (tb_pins_device_opened((int)fd, pc))
        f = make((int)fd, mode, pc);
    if (!f)
        tb_sys_close((int)fd);
    return f;
}

static FILE *opened(FILE *f, const char *path, const char *mode, const void *pc)
{
    if (f && reads_only(mode))
        tb_pins_uuid_opened(TB_NEXT(fileno)(f), path, strchr(mode, 'e') ? O_CLOEXEC : 0, pc);
    return f;
}

TB_EXPORT FILE *fopen(const char *restrict path, const char *restrict mode)
{
    FILE *f = device(path, mode, TB_HERE);

    return f ? f : opened(TB_NEXT(fopen)(path, mode), path, mode, TB_HERE);
}

TB_EXPORT FILE *fopen64(const char *restrict path, const char *restrict mode)
{
    FILE *f = device(path, mode, TB_HERE);

    return f ? f : opened(TB_NEXT(fopen64)(path, mode), path, mode, TB_HERE);
}

TB_EXPORT FILE *fdopen(int fd, const char *mode)
{
    FILE *f = NULL;

    if (tb_unlikely(tb_pins_is_device(fd)) && reads_only(mode) && tb_pins_self())
        f = make(fd, mode, TB_HERE);
    return f ? f : TB_NEXT(fdopen)(fd, mode);
}

static int descriptor(FILE *f)
{
    if (tb_likely(__atomic_load_n(&streams_used, __ATOMIC_ACQUIRE) == 0))
        return -1;
    for (size_t i = 0; i < TB_ARRAY_LEN(streams); i++)
        if (f && __atomic_load_n(&streams[i].file, __ATOMIC_ACQUIRE) == f)
            return streams[i].fd;
    return -1;
}

TB_EXPORT int fileno(FILE *f)
{
    int fd = descriptor(f);

    return fd >= 0 ? fd : TB_NEXT(fileno)(f);
}

TB_EXPORT int fileno_unlocked(FILE *f)
{
    int fd = descriptor(f);

    return fd >= 0 ? fd : TB_NEXT(fileno_unlocked)(f);
}
