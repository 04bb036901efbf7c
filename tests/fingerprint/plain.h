/*
 * plain.h - the fingerprint once more, written from fingerprint/FORMAT.md's text alone: slow,
 * plain, one way for everything. Leaves are hashed by libxxhash's official XXH3_128bits. For tests.
 */
#ifndef TB_TESTS_FINGERPRINT_PLAIN_H
#define TB_TESTS_FINGERPRINT_PLAIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct plain {
    uint64_t first, second;
};

static inline uint64_t plain_f(uint64_t h)
{
    h = h ^ (h >> 33);
    h = h * 0xFF51AFD7ED558CCDull;
    h = h ^ (h >> 33);
    h = h * 0xC4CEB9FE1A85EC53ull;
    return h ^ (h >> 33);
}

static inline struct plain plain_mix(uint64_t lo, uint64_t hi, uint64_t i)
{
    struct plain r;

    r.second = plain_f(hi ^ plain_f(lo ^ plain_f(i + 0x9E3779B97F4A7C15ull)));
    r.first = plain_f(lo + plain_f(r.second ^ i));
    return r;
}

static inline struct plain plain_body(const uint8_t *bytes, size_t n, uint64_t base)
{
    struct plain sum = {0, 0};

    for (size_t at = 0, k = 0; at < n; at += 4096, k++) {
        XXH128_hash_t d = XXH3_128bits(bytes + at, n - at < 4096 ? n - at : 4096);
        struct plain c = plain_mix(d.low64, d.high64, base + k);

        sum.first += c.first;
        sum.second += c.second;
    }
    return sum;
}

static inline struct plain plain_length(uint64_t n)
{
    return plain_mix(n, 0, 0xFFFFFFFFFFFFFFFFull);
}

static inline struct plain plain_fp(const uint8_t *bytes, size_t n, uint64_t base)
{
    struct plain b = plain_body(bytes, n, base);
    struct plain l = plain_length(n);

    b.first += l.first;
    b.second += l.second;
    return b;
}

/* One leaf in @rate; each leaf is asked whether it is the one of its run. */
static inline struct plain plain_sampled(const uint8_t *bytes, size_t n, uint64_t rate)
{
    struct plain sum = plain_length(n);

    for (uint64_t i = 0; rate > 1 && i * 4096 < n; i++) {
        uint64_t k = i / rate, s = 0;
        size_t left = n - (size_t)i * 4096;

        if (k > 0)
            s = (plain_f(k + 0x9E3779B97F4A7C15ull) / 4294967296ull) * rate / 4294967296ull;
        if (i % rate != s)
            continue;
        XXH128_hash_t d = XXH3_128bits(bytes + i * 4096, left < 4096 ? left : 4096);
        struct plain c = plain_mix(d.low64, d.high64, i);

        sum.first += c.first;
        sum.second += c.second;
    }
    return rate > 1 ? sum : plain_fp(bytes, n, 0);
}

static inline void plain_store(struct plain p, uint8_t out[16])
{
    for (int k = 0; k < 8; k++) {
        out[k] = (uint8_t)(p.first / (1ull << (8 * k)) % 256);
        out[8 + k] = (uint8_t)(p.second / (1ull << (8 * k)) % 256);
    }
}

/* Number of elements of a view after dimensions of stride 0 were taken as size 1. */
static inline size_t plain_elements(int ndim, const int64_t *sizes, const int64_t *strides)
{
    size_t count = 1;

    for (int d = 0; d < ndim; d++)
        count *= strides[d] == 0 && sizes[d] > 1 ? 1 : (size_t)sizes[d];
    return count;
}

/* The row-major byte string of a view, to be freed; *n is its length. */
static inline uint8_t *plain_row_major(const uint8_t *origin, size_t elem, int ndim,
                                       const int64_t *sizes, const int64_t *strides, size_t *n)
{
    size_t count = plain_elements(ndim, sizes, strides);
    uint8_t *out = malloc(count * elem + 1);

    for (size_t e = 0; e < count; e++) {
        size_t left = e;
        int64_t at = 0;

        for (int d = ndim - 1; d >= 0; d--) {
            size_t size = strides[d] == 0 && sizes[d] > 1 ? 1 : (size_t)sizes[d];

            at += (int64_t)(left % size) * strides[d];
            left /= size;
        }
        memcpy(out + e * elem, origin + at * (int64_t)elem, elem);
    }
    *n = count * elem;
    return out;
}

#endif
