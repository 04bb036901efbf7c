/* fp_test.h - what the fingerprint tests share: random numbers, patterns, cmocka's includes. */
#ifndef TB_TESTS_FINGERPRINT_FP_TEST_H
#define TB_TESTS_FINGERPRINT_FP_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fingerprint/fingerprint.h"

struct rng {
    uint64_t state;
};

/* splitmix64 */
static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* 0 <= result < n */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
    return rng_next(r) % n;
}

/* 0 <= result < 2^bits, small numbers as likely as large ones */
static inline uint64_t rng_log(struct rng *r, unsigned bits)
{
    unsigned b = (unsigned)rng_below(r, bits + 1);

    return b == 0 ? 0 : rng_next(r) >> (64 - b);
}

static inline void rng_fill(struct rng *r, void *dst, size_t n)
{
    uint8_t *p = dst;

    for (size_t k = 0; k < n; k += 8) {
        uint64_t x = rng_next(r);

        memcpy(p + k, &x, n - k < 8 ? n - k : 8);
    }
}

/* bytes(seed, n) of FORMAT.md section 10 */
static inline void fill_pattern(uint8_t *dst, size_t n, uint32_t seed)
{
    for (size_t k = 0; k < n; k++) {
        seed = seed * 1664525u + 1013904223u;
        dst[k] = (uint8_t)(seed >> 24);
    }
}

static inline void *must_alloc(size_t n)
{
    void *p = malloc(n ? n : 1);

    assert_non_null(p);
    return p;
}

#endif
