/* getrandom, getentropy, arc4random and its kin; syscall(), by which devices are read, too. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "deterministic/preload/device.h"
#include "deterministic/preload/pins_internal.h"
#include "deterministic/preload/sys.h"

#define LARGEST 0x7ffff000u /* what the kernel gives at once, from 5.18 on */

static ssize_t draw(struct tb_pins_call *c, void *buf, size_t n)
{
    n = n < LARGEST ? n : LARGEST;
    tb_pins_serve(c, buf, n);
    return (ssize_t)n;
}

/* What the kernel refuses is left to it. */
static bool can_serve(const struct tb_pins_call *c, const void *buf, unsigned flags)
{
    return !tb_pins_real(c) && buf && !(flags & ~(GRND_NONBLOCK | GRND_RANDOM | 4u));
}

TB_EXPORT ssize_t getrandom(void *buf, size_t n, unsigned flags)
{
    struct tb_pins_call c;

    if (!tb_pins_begin(&c, TB_PRELOAD_GETRANDOM, TB_ENTROPY, TB_HERE))
        return TB_NEXT(getrandom)(buf, n, flags);
    if (can_serve(&c, buf, flags))
        return draw(&c, buf, n);
    ssize_t r = TB_NEXT(getrandom)(buf, n, flags);
    tb_pins_note_real(&c, n, r, buf);
    return r;
}

TB_EXPORT int getentropy(void *buf, size_t n)
{
    struct tb_pins_call c;

    if (n > 256 || !buf || !tb_pins_begin(&c, TB_PRELOAD_GETENTROPY, TB_ENTROPY, TB_HERE))
        return TB_NEXT(getentropy)(buf, n);
    if (!tb_pins_real(&c)) {
        tb_pins_serve(&c, buf, n);
        return 0;
    }
    int r = TB_NEXT(getentropy)(buf, n);
    tb_pins_note_real(&c, n, r == 0 ? (int64_t)n : -1, buf);
    return r;
}

static long as_libc(long r)
{
    if (r < 0 && r > -4096) {
        errno = (int)-r;
        r = -1;
    }
    return r;
}

/* From syscall() below, with its arguments and its caller. */
long tb_pins_syscall_getrandom(long number, void *buf, size_t n, unsigned flags);
__attribute__((used)) long tb_pins_syscall_getrandom(long number, void *buf, size_t n,
                                                     unsigned flags)
{
    struct tb_pins_call c;
    bool seen = tb_pins_begin(&c, TB_PRELOAD_SYSCALL, TB_ENTROPY, TB_HERE);

    if (seen && can_serve(&c, buf, flags))
        return draw(&c, buf, n);
    long r = tb_sys3(number, (long)buf, (long)n, (long)flags);
    if (seen)
        tb_pins_note_real(&c, n, r, buf);
    return as_libc(r);
}

long tb_pins_syscall_read(long number, int fd, void *buf, size_t n);
__attribute__((used)) long tb_pins_syscall_read(long number, int fd, void *buf, size_t n)
{
    ssize_t r;

    return tb_pins_device_read(fd, buf, n, TB_HERE, &r)
               ? r
               : as_libc(tb_sys3(number, fd, (long)buf, (long)n));
}

#ifdef SYS_open
long tb_pins_syscall_open(long number, const char *path, int flags, unsigned mode);
__attribute__((used)) long tb_pins_syscall_open(long number, const char *path, int flags,
                                                unsigned mode)
{
    long r = tb_sys3(number, (long)path, flags, (long)mode);

    return r < 0 ? as_libc(r) : tb_pins_opened((int)r, path, flags, TB_HERE);
}
#endif

long tb_pins_syscall_openat(long number, int dir, const char *path, int flags, unsigned mode);
__attribute__((used)) long tb_pins_syscall_openat(long number, int dir, const char *path, int flags,
                                                  unsigned mode)
{
    long r = tb_sys6(number, dir, (long)path, flags, (long)mode, 0, 0);

    return r < 0 ? as_libc(r) : tb_pins_opened((int)r, path, flags, TB_HERE);
}

void *tb_pins_next_syscall(void);
__attribute__((used)) void *tb_pins_next_syscall(void)
{
    return tb_pins_next(TB_NEXT_syscall);
}

/*
 * syscall() has as many arguments as the call that is made, and calls that make processes may come
 * back on another stack: all but one are handed on by a jump, with nothing of ours on the stack.
 */
#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    cmpq $318, %rdi\n" /* SYS_getrandom */
        "    je tb_pins_syscall_getrandom\n"
        "    testq %rdi, %rdi\n" /* SYS_read */
        "    je tb_pins_syscall_read\n"
        "    cmpq $2, %rdi\n" /* SYS_open */
        "    je tb_pins_syscall_open\n"
        "    cmpq $257, %rdi\n" /* SYS_openat */
        "    je tb_pins_syscall_openat\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rdx\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rcx\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %r8\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %r9\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call tb_pins_next_syscall\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r9\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r8\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rcx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    jmp *%rax\n"
        "    .cfi_endproc\n"
        ".size syscall, .-syscall\n");
_Static_assert(SYS_getrandom == 318 && SYS_read == 0 && SYS_open == 2 && SYS_openat == 257,
               "numbers in the assembly");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    hint #34\n"     /* bti c */
        "    cmp x0, #278\n" /* SYS_getrandom */
        "    b.eq tb_pins_syscall_getrandom\n"
        "    cmp x0, #63\n" /* SYS_read */
        "    b.eq tb_pins_syscall_read\n"
        "    cmp x0, #56\n" /* SYS_openat */
        "    b.eq tb_pins_syscall_openat\n"
        "    stp x29, x30, [sp, #-80]!\n"
        "    .cfi_def_cfa_offset 80\n"
        "    .cfi_offset x29, -80\n"
        "    .cfi_offset x30, -72\n"
        "    stp x0, x1, [sp, #16]\n"
        "    stp x2, x3, [sp, #32]\n"
        "    stp x4, x5, [sp, #48]\n"
        "    str x6, [sp, #64]\n"
        "    mov x29, sp\n"
        "    bl tb_pins_next_syscall\n"
        "    mov x16, x0\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x2, x3, [sp, #32]\n"
        "    ldp x4, x5, [sp, #48]\n"
        "    ldr x6, [sp, #64]\n"
        "    ldp x29, x30, [sp], #80\n"
        "    .cfi_restore x29\n"
        "    .cfi_restore x30\n"
        "    .cfi_def_cfa_offset 0\n"
        "    br x16\n"
        "    .cfi_endproc\n"
        ".size syscall, .-syscall\n");
_Static_assert(SYS_getrandom == 278 && SYS_read == 63 && SYS_openat == 56,
               "numbers in the assembly");
#endif

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 36)
TB_EXPORT void arc4random_buf(void *buf, size_t n)
{
    struct tb_pins_call c;

    if (!tb_pins_begin(&c, TB_PRELOAD_ARC4RANDOM, TB_ENTROPY, TB_HERE)) {
        TB_NEXT(arc4random_buf)(buf, n);
        return;
    }
    if (!tb_pins_real(&c)) {
        tb_pins_serve(&c, buf, n);
        return;
    }
    TB_NEXT(arc4random_buf)(buf, n);
    tb_pins_note_real(&c, n, (int64_t)n, buf);
}

TB_EXPORT uint32_t arc4random(void)
{
    struct tb_pins_call c;
    uint32_t x = 0;

    if (!tb_pins_begin(&c, TB_PRELOAD_ARC4RANDOM, TB_ENTROPY, TB_HERE))
        return TB_NEXT(arc4random)();
    if (!tb_pins_real(&c)) {
        tb_pins_serve(&c, &x, sizeof(x));
        return x;
    }
    x = TB_NEXT(arc4random)();
    tb_pins_note_real(&c, sizeof(x), sizeof(x), &x);
    return x;
}

/* 64 bits times the bound: the part above 64 bits is off from uniform by less than 2^-32. */
TB_EXPORT uint32_t arc4random_uniform(uint32_t bound)
{
    struct tb_pins_call c;
    uint64_t x = 0;

    if (!tb_pins_begin(&c, TB_PRELOAD_ARC4RANDOM, TB_ENTROPY, TB_HERE))
        return TB_NEXT(arc4random_uniform)(bound);
    if (!tb_pins_real(&c)) {
        tb_pins_serve(&c, &x, sizeof(x));
        return (uint32_t)(((unsigned __int128)x * bound) >> 64);
    }
    uint32_t r = TB_NEXT(arc4random_uniform)(bound);
    /* written down as 64 bits that give the same number again for this bound */
    x = bound ? (uint64_t)((((unsigned __int128)r << 64) + bound - 1) / bound) : 0;
    tb_pins_note_real(&c, sizeof(x), sizeof(x), &x);
    return r;
}
#endif
