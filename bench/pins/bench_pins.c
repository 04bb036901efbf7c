/*
 * What a draw of 16 bytes takes: getrandom() of libc, which a preloaded library may answer, and the
 * system call itself. Prints a line a round, nanoseconds of each: "ANSWERED CALLED".
 *
 * usage: bench_pins ROUNDS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DRAWS = 20000 };

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Not by syscall(), which is answered as well */
static long kernel_getrandom(void *b, size_t n)
{
#if defined(__x86_64__)
    long r;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"((long)SYS_getrandom), "D"(b), "S"(n), "d"(0L)
                     : "rcx", "r11", "memory");
    return r;
#else
    return syscall(SYS_getrandom, b, n, 0);
#endif
}

int main(int argc, char **argv)
{
    uint64_t b[2];

    for (int round = argc > 1 ? atoi(argv[1]) : 1; round > 0; round--) {
        uint64_t t0 = now();
        for (int i = 0; i < DRAWS; i++)
            (void)!getrandom(b, sizeof(b), 0);
        uint64_t t1 = now();
        for (int i = 0; i < DRAWS; i++)
            (void)kernel_getrandom(b, sizeof(b));
        uint64_t t2 = now();
        printf("%.2f %.2f\n", (double)(t1 - t0) / DRAWS, (double)(t2 - t1) / DRAWS);
    }
    return 0;
}
