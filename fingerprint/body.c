/* The sum of contributions: mix, length term, whole buffers, leaves, coarse map, threads. */
#include <string.h>

#include "fingerprint/fp_internal.h"

#define BATCH 8 /* leaves hashed before they are mixed: their mixes then overlap in the CPU */
#define GRAIN 8 /* leaves are dealt to threads by so many */

struct tb_fp tb_fp_mix(struct tb_fp_leaf d, uint64_t index)
{
    return fp_mix(d, index);
}

struct tb_fp tb_fp_length(uint64_t n)
{
    return fp_mix((struct tb_fp_leaf){n, 0}, TB_FP_LENGTH_INDEX);
}

static void put64(uint8_t out[8], uint64_t v)
{
    for (int k = 0; k < 8; k++)
        out[k] = (uint8_t)(v >> (8 * k));
}

static uint64_t get64(const uint8_t in[8])
{
    uint64_t v = 0;

    for (int k = 7; k >= 0; k--)
        v = v << 8 | in[k];
    return v;
}

void tb_fp_store(uint8_t out[16], struct tb_fp fp)
{
    put64(out, fp.a);
    put64(out + 8, fp.b);
}

struct tb_fp tb_fp_load(const uint8_t in[16])
{
    return (struct tb_fp){get64(in), get64(in + 8)};
}

struct tb_fp fp_full_body(const uint8_t *src, size_t count, uint64_t index)
{
    struct tb_fp_leaf d[BATCH];
    struct tb_fp sum = {0, 0};

    while (count > 0) {
        size_t m = count < BATCH ? count : BATCH;

        fp_full_leaves(src, m, d);
        for (size_t k = 0; k < m; k++)
            sum = tb_fp_add(sum, fp_mix(d[k], index + k));
        src += m * TB_FP_LEAF;
        index += m;
        count -= m;
    }
    return sum;
}

struct tb_fp tb_fp_body(const void *src, size_t n, uint64_t base)
{
    const uint8_t *p = src;
    size_t full = n / TB_FP_LEAF;
    size_t rest = n % TB_FP_LEAF;
    struct tb_fp sum = {0, 0};

    if (full)
        sum = fp_full_body(p, full, base);
    if (rest) {
        struct tb_fp_leaf d = tb_fp_leaf_hash(p + full * TB_FP_LEAF, rest);

        sum = tb_fp_add(sum, fp_mix(d, base + full));
    }
    return sum;
}

struct tb_fp tb_fp_host(const void *src, size_t n, uint64_t base)
{
    return tb_fp_add(tb_fp_body(src, n, base), tb_fp_length(n));
}

struct job {
    struct tb_fp (*part)(const void *ctx, size_t first, size_t last);
    const void *ctx;
    size_t leaves;
    uint64_t a, b; /* the sum; threads add to it atomically */
};

static void work(void *arg, size_t begin, size_t end)
{
    struct job *j = arg;
    size_t last = end * GRAIN < j->leaves ? end * GRAIN : j->leaves;
    struct tb_fp sum = j->part(j->ctx, begin * GRAIN, last);

    __atomic_fetch_add(&j->a, sum.a, __ATOMIC_RELAXED);
    __atomic_fetch_add(&j->b, sum.b, __ATOMIC_RELAXED);
}

struct tb_fp fp_split(const struct tb_fp_pool *pool, uint64_t bytes, size_t leaves,
                      struct tb_fp (*part)(const void *ctx, size_t first, size_t last),
                      const void *ctx)
{
    struct job j = {.part = part, .ctx = ctx, .leaves = leaves};

    if (!pool || pool->threads <= 1 || bytes < pool->min || leaves <= GRAIN)
        return part(ctx, 0, leaves);
    pool->run(pool->ctx, work, &j, leaves / GRAIN + (leaves % GRAIN != 0));
    return (struct tb_fp){__atomic_load_n(&j.a, __ATOMIC_RELAXED),
                          __atomic_load_n(&j.b, __ATOMIC_RELAXED)};
}

struct span {
    const uint8_t *src;
    size_t n;
    uint64_t base;
};

static struct tb_fp span_part(const void *ctx, size_t first, size_t last)
{
    const struct span *s = ctx;
    size_t begin = first * TB_FP_LEAF;
    size_t end = last > s->n / TB_FP_LEAF ? s->n : last * TB_FP_LEAF;

    return tb_fp_body(s->src + begin, end - begin, s->base + first);
}

struct tb_fp tb_fp_host_pool(const void *src, size_t n, uint64_t base,
                             const struct tb_fp_pool *pool)
{
    struct span s = {src, n, base};

    if (n == 0)
        return tb_fp_length(0);
    return tb_fp_add(fp_split(pool, n, tb_fp_leaf_count(n), span_part, &s), tb_fp_length(n));
}

void tb_fp_leaves(const void *src, size_t n, struct tb_fp_leaf *out)
{
    const uint8_t *p = src;
    size_t full = n / TB_FP_LEAF;
    size_t rest = n % TB_FP_LEAF;

    if (full)
        fp_full_leaves(p, full, out);
    if (rest)
        out[full] = tb_fp_leaf_hash(p + full * TB_FP_LEAF, rest);
}

struct tb_fp tb_fp_of_leaves(const struct tb_fp_leaf *leaves, size_t count, uint64_t base)
{
    struct tb_fp sum = {0, 0};

    for (size_t k = 0; k < count; k++)
        sum = tb_fp_add(sum, fp_mix(leaves[k], base + k));
    return sum;
}

struct tb_fp tb_fp_update(struct tb_fp fp, uint64_t index, struct tb_fp_leaf before,
                          struct tb_fp_leaf after)
{
    return tb_fp_add(tb_fp_sub(fp, fp_mix(before, index)), fp_mix(after, index));
}

unsigned tb_fp_map(const void *src, size_t n, struct tb_fp out[TB_FP_MAP_MAX])
{
    const uint8_t *p = src;
    size_t leaves = tb_fp_leaf_count(n);
    size_t run = tb_fp_map_leaves(n);
    unsigned parts = 0;

    for (size_t first = 0; first < leaves; first += run) {
        size_t begin = first * TB_FP_LEAF;
        size_t size = n - begin < run * TB_FP_LEAF ? n - begin : run * TB_FP_LEAF;

        out[parts++] = tb_fp_body(p + begin, size, first);
    }
    return parts;
}
