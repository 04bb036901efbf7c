#include "recorder/recorder_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void *tb_rt_pool(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

void tb_rt_unmap(void *p, size_t bytes)
{
    (void)munmap(p, bytes);
}

void *tb_rt_small(size_t bytes)
{
    enum { SLAB = 64 * 1024 };
    size_t need = (bytes + 63) & ~(size_t)63;

    if (tb_rt.slab_left < need) {
        tb_rt.slab = tb_rt_pool(SLAB);
        tb_rt.slab_left = tb_rt.slab ? SLAB : 0;
    }
    if (!tb_rt.slab)
        return NULL;
    void *p = tb_rt.slab;
    tb_rt.slab += need;
    tb_rt.slab_left -= need;
    return p;
}

void tb_rt_futex_wait(uint32_t *word, uint32_t value, unsigned ms, bool shared)
{
    struct timespec limit = {ms / 1000, (long)(ms % 1000) * 1000000};

    (void)syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value, &limit, NULL,
                  0);
}

void tb_rt_futex_wake(uint32_t *word, bool shared)
{
    (void)syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL,
                  0);
}

/* 0 open, 1 held, 2 held and somebody may wait */
void tb_rt_lock(uint32_t *word)
{
    uint32_t seen = 0;

    if (__atomic_compare_exchange_n(word, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(word, 2, __ATOMIC_ACQUIRE) != 0)
        tb_rt_futex_wait(word, 2, 100, false);
}

void tb_rt_unlock(uint32_t *word)
{
    if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) == 2)
        tb_rt_futex_wake(word, false);
}

uint64_t tb_rt_now(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t tb_rt_random(void)
{
    uint64_t x = 0;

    if (getrandom(&x, sizeof(x), GRND_NONBLOCK) != (ssize_t)sizeof(x) || x == 0)
        x = (tb_rt_now() * 0x9E3779B97F4A7C15ull) ^ ((uint64_t)syscall(SYS_getpid) << 40) ^ 1;
    return x;
}

size_t tb_rt_copy(char *dst, size_t size, const char *src)
{
    size_t n = 0;

    for (; n + 1 < size && src[n]; n++)
        dst[n] = src[n];
    dst[n] = 0;
    return n;
}

static int temporary_file(void)
{
    const char *dir = getenv("TMPDIR");
    char path[512];

    dir = dir && dir[0] ? dir : "/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (fd >= 0)
        return fd;
    size_t n = tb_rt_copy(path, sizeof(path) - 24, dir);
    (void)tb_rt_copy(path + n, 24, "/twinbit-ring-XXXXXX");
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

static bool fits_limit(uint64_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

int tb_rt_memfd(const char *name, uint64_t bytes, const char **why)
{
    *why = "no room for a ring: the file size limit is too small";
    if (!fits_limit(bytes))
        return -1;
    *why = "no room for a ring in memory or under TMPDIR";
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && fallocate(fd, 0, 0, (off_t)bytes) == 0) {
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        return fd;
    }
    if (fd >= 0)
        (void)close(fd);
    fd = temporary_file();
    if (fd >= 0 && fallocate(fd, 0, 0, (off_t)bytes) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}
