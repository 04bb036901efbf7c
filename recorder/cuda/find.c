/*
 * /etc/ld.so.cache, as glibc writes it since 2.32 (before that, behind an older table that begins
 * with "ld.so-1.7.0"):
 *
 *   0   "glibc-ld.so.cache1.1"
 *   20  uint32_t entries, uint32_t bytes of strings, 20 bytes that do not matter here
 *   48  entries of 24 bytes: int32_t flags, uint32_t name, uint32_t path, 12 bytes
 *
 * Offsets count from the magic. What does not fit is taken for no cache at all.
 */
#include "recorder/cuda/find.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRIVER "libcuda.so.1"
#define OURS "../libtwinbit_cuda.so"

#if defined(__x86_64__)
#define CACHE_FLAGS 0x0303 /* ELF of libc6, x86-64 */
#elif defined(__aarch64__)
#define CACHE_FLAGS 0x0a03
#else
#define CACHE_FLAGS 0x0003
#endif

struct search {
    bool (*take)(void *arg, const char *path);
    void *arg;
};

/* @folder of @n bytes, a slash, @name; false: too long. */
static bool join(char *out, size_t size, const char *folder, size_t n, const char *name)
{
    size_t len = strlen(name);

    if (n == 0 || n + len + 2 > size)
        return false;
    memcpy(out, folder, n);
    out[n] = '/';
    memcpy(out + n + 1, name, len + 1);
    return true;
}

static bool try_path(const struct search *s, const char *path)
{
    const char *slash = strrchr(path, '/');
    char beside[PATH_MAX];

    if (path[0] != '/' || access(path, R_OK) != 0)
        return false;
    if (join(beside, sizeof(beside), path, (size_t)(slash - path), OURS) &&
        access(beside, F_OK) == 0)
        return false;
    return s->take(s->arg, path);
}

static bool try_folder(const struct search *s, const char *folder, size_t n)
{
    char path[PATH_MAX];

    return join(path, sizeof(path), folder, n, DRIVER) && try_path(s, path);
}

static bool try_list(const struct search *s, const char *list)
{
    while (list && *list) {
        size_t n = strcspn(list, ":;");

        if (try_folder(s, list, n))
            return true;
        list += n + (list[n] != 0);
    }
    return false;
}

/* ---------------------------------------------------------------- the cache */

struct cache_head {
    char magic[20];
    uint32_t entries, string_bytes, unused[5];
};

struct cache_entry {
    int32_t flags;
    uint32_t name, path, unused[3];
};

static const char *string_at(const char *base, size_t size, uint32_t offset)
{
    return offset < size && memchr(base + offset, 0, size - offset) ? base + offset : NULL;
}

static bool try_entries(const struct search *s, const char *base, size_t size)
{
    const struct cache_head *head = (const void *)base;
    const struct cache_entry *e = (const void *)(base + sizeof(*head));

    if (size < sizeof(*head) || head->entries > (size - sizeof(*head)) / sizeof(*e))
        return false;
    for (uint32_t i = 0; i < head->entries; i++) {
        const char *name = string_at(base, size, e[i].name);
        const char *path = string_at(base, size, e[i].path);

        if (e[i].flags == CACHE_FLAGS && name && path && strcmp(name, DRIVER) == 0 &&
            try_path(s, path))
            return true;
    }
    return false;
}

static bool try_cache(const struct search *s)
{
    static const char magic[] = "glibc-ld.so.cache1.1";
    int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *map = MAP_FAILED;
    bool taken = false;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && st.st_size > 0)
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        return false;
    const char *at = memmem(map, (size_t)st.st_size, magic, sizeof(magic) - 1);
    /* its words are read where they lie, and glibc aligns it */
    if (at && (uintptr_t)at % alignof(struct cache_head) == 0)
        taken = try_entries(s, at, (size_t)st.st_size - (size_t)(at - (const char *)map));
    (void)munmap(map, (size_t)st.st_size);
    return taken;
}

/* ---------------------------------------------------------------- all of them */

static bool try_all(const struct search *s)
{
    static const char usual[] =
        "/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib:/lib64:/lib:"
        "/usr/lib/wsl/lib:/run/opengl-driver/lib";
    const char *given = getenv(TB_CUDA_REAL_ENV);

    return (given && try_path(s, given)) || try_list(s, getenv("LD_LIBRARY_PATH")) ||
           try_cache(s) || try_list(s, usual);
}

bool tb_cuda_drivers(bool (*take)(void *arg, const char *path), void *arg)
{
    struct search s = {take, arg};
    int saved = errno;
    bool taken = try_all(&s);

    errno = saved;
    return taken;
}

struct first {
    char *path;
    size_t size;
};

static bool take_first(void *arg, const char *path)
{
    struct first *f = arg;
    size_t n = strlen(path) + 1;

    if (n <= f->size)
        memcpy(f->path, path, n);
    return n <= f->size;
}

bool tb_cuda_driver(char *path, size_t size)
{
    struct first f = {path, size};

    return tb_cuda_drivers(take_first, &f);
}
