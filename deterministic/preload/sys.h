/*
 * System calls by themselves, for the preloaded library: no errno, no cancellation, no other
 * library in between, and usable before libc is ready. They return -errno.
 */
#ifndef TB_DETERMINISTIC_PRELOAD_SYS_H
#define TB_DETERMINISTIC_PRELOAD_SYS_H

#include <stdint.h>
#include <sys/syscall.h>

static inline long tb_sys6(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "deterministic/preload: system calls are written for x86-64 and aarch64"
#endif
}

static inline long tb_sys3(long number, long a, long b, long c)
{
    return tb_sys6(number, a, b, c, 0, 0, 0);
}

static inline long tb_sys_open(const char *path, int flags, int mode)
{
    return tb_sys6(SYS_openat, -100 /* AT_FDCWD */, (long)path, flags, mode, 0, 0);
}

static inline void tb_sys_close(int fd)
{
    (void)tb_sys3(SYS_close, fd, 0, 0);
}

/* @fd: -1 for memory of its own; NULL: none could be had. */
static inline void *tb_sys_map(uint64_t bytes, int protection, int flags, int fd, uint64_t offset)
{
    long p = tb_sys6(SYS_mmap, 0, (long)bytes, protection, flags, fd, (long)offset);

    return p < 0 && p > -4096 ? (void *)0 : (void *)p;
}

/* The mapping may move; NULL: it could not grow, and stays as it was. */
static inline void *tb_sys_grow(void *p, uint64_t from, uint64_t to)
{
    long r = tb_sys6(SYS_mremap, (long)p, (long)from, (long)to, 1 /* MREMAP_MAYMOVE */, 0, 0);

    return r < 0 && r > -4096 ? (void *)0 : (void *)r;
}

static inline void tb_sys_unmap(void *p, uint64_t bytes)
{
    (void)tb_sys3(SYS_munmap, (long)p, (long)bytes, 0);
}

#endif
