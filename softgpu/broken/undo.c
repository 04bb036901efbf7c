/* The bytes that a launch wrote, with what they were before: by lines of 64 bytes, each with a mask
 * of those that are known. */
#include "softgpu/broken/broken_internal.h"

#include <stdlib.h>
#include <string.h>

#define LINE 64u

struct line {
    uint64_t addr; /* of the first byte; 0: free */
    uint64_t known;
    uint8_t bytes[LINE];
};

struct sg_undo {
    pthread_mutex_t lock;
    struct line *lines;
    size_t n, cap; /* cap: a power of two */
    bool lost;
};

struct sg_undo *sg_undo_new(void)
{
    struct sg_undo *u = calloc(1, sizeof(*u));

    if (u != NULL)
        pthread_mutex_init(&u->lock, NULL);
    return u;
}

void sg_undo_free(struct sg_undo *u)
{
    if (u == NULL)
        return;
    pthread_mutex_destroy(&u->lock);
    free(u->lines);
    free(u);
}

void sg_undo_clear(struct sg_undo *u)
{
    if (u->cap > 1u << 16) { /* the next launch may be small */
        free(u->lines);
        u->lines = NULL;
        u->cap = 0;
    }
    if (u->n != 0 && u->lines != NULL)
        memset(u->lines, 0, u->cap * sizeof(*u->lines));
    u->n = 0;
    u->lost = false;
}

bool sg_undo_whole(const struct sg_undo *u)
{
    return !u->lost;
}

static struct line *slot(struct line *lines, size_t cap, uint64_t addr)
{
    size_t i = (size_t)sg_mix(addr) & (cap - 1);

    while (lines[i].addr != 0 && lines[i].addr != addr)
        i = (i + 1) & (cap - 1);
    return &lines[i];
}

static bool grow(struct sg_undo *u)
{
    size_t cap = u->cap ? u->cap * 2 : 1024;
    struct line *lines = calloc(cap, sizeof(*lines));

    if (lines == NULL)
        return false;
    for (size_t i = 0; i < u->cap; i++)
        if (u->lines[i].addr != 0)
            *slot(lines, cap, u->lines[i].addr) = u->lines[i];
    free(u->lines);
    u->lines = lines;
    u->cap = cap;
    return true;
}

/* Bytes @from .. @from + @n - 1 of the line at @addr, which are @bytes. */
static bool keep_line(struct sg_undo *u, uint64_t addr, unsigned from, unsigned n,
                      const uint8_t *bytes)
{
    uint64_t mask = sg_bit_mask(n) << from;
    struct line *l;

    if ((u->n + 1) * 2 > u->cap && !grow(u))
        return false;
    l = slot(u->lines, u->cap, addr);
    if (l->addr == 0) {
        l->addr = addr;
        u->n++;
    }
    if ((mask & ~l->known) == 0)
        return true;
    for (unsigned i = 0; i < n; i++)
        if (!(l->known >> (from + i) & 1))
            l->bytes[from + i] = bytes[i];
    l->known |= mask;
    return true;
}

bool sg_undo_keep(struct sg_undo *u, uint64_t addr, const uint8_t *bytes, uint64_t n)
{
    bool kept = true;

    pthread_mutex_lock(&u->lock);
    while (n != 0 && kept) {
        unsigned from = (unsigned)(addr % LINE);
        unsigned k = n < LINE - from ? (unsigned)n : LINE - from;

        kept = keep_line(u, addr - from, from, k, bytes);
        addr += k;
        bytes += k;
        n -= k;
    }
    u->lost |= !kept;
    pthread_mutex_unlock(&u->lock);
    return kept;
}

void sg_undo_swap(struct sg_undo *u)
{
    for (size_t i = 0; i < u->cap; i++) {
        struct line *l = &u->lines[i];
        uint8_t *at = (uint8_t *)(uintptr_t)l->addr;

        for (uint64_t m = l->known; m != 0; m &= m - 1) {
            unsigned k = (unsigned)__builtin_ctzll(m);
            uint8_t t = at[k];

            at[k] = l->bytes[k];
            l->bytes[k] = t;
        }
    }
}

/* Are the bytes of @l what memory holds, those excepted that @but knows? @b NULL: none are. */
static bool line_same(const struct line *l, uint64_t but)
{
    const uint8_t *at = (const uint8_t *)(uintptr_t)l->addr;

    for (uint64_t m = l->known & ~but; m != 0; m &= m - 1) {
        unsigned k = (unsigned)__builtin_ctzll(m);
        if (at[k] != l->bytes[k])
            return false;
    }
    return true;
}

bool sg_undo_same(const struct sg_undo *a, const struct sg_undo *b)
{
    for (size_t i = 0; i < a->cap; i++)
        if (!line_same(&a->lines[i], 0))
            return false;
    for (size_t i = 0; i < b->cap; i++) { /* what only the second run wrote */
        const struct line *l = &b->lines[i];
        if (l->addr == 0)
            continue;
        const struct line *other = a->cap ? slot(a->lines, a->cap, l->addr) : NULL;
        if (!line_same(l, other ? other->known : 0))
            return false;
    }
    return true;
}
