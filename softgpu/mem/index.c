#include "softgpu/mem/index.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct place {
    _Atomic uint64_t size, slot;
};

/* One generation of the arrays; older ones are kept for late readers. Addresses lie apart, because
 * a search reads nothing else, and so do values, so that a sorted insert moves little. */
struct chunk {
    struct chunk *older;
    size_t capacity;
    _Atomic uint64_t *addrs; /* ascending */
    struct place *places;
    _Atomic uint64_t *values; /* capacity * words */
    uint64_t *unused;         /* stack of free slots; writers only */
};

struct sg_index {
    size_t words;
    pthread_mutex_t lock; /* writers */
    _Atomic uint64_t seq; /* odd while a writer changes something */
    _Atomic(struct chunk *) now;
    _Atomic size_t count;
};

/* With these orders a reader that sees a changed word sees the odd count, too: no fences needed,
 * which thread sanitizers do not know. */
#define GET(p) atomic_load_explicit(&(p), memory_order_acquire)
#define PUT(p, v) atomic_store_explicit(&(p), (v), memory_order_release)

static void chunk_free(struct chunk *c)
{
    if (c) {
        free(c->addrs);
        free(c->places);
        free(c->values);
        free(c->unused);
        free(c);
    }
}

static struct chunk *chunk_new(size_t capacity, size_t words)
{
    struct chunk *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->capacity = capacity;
    c->addrs = calloc(capacity, sizeof(*c->addrs));
    c->places = calloc(capacity, sizeof(*c->places));
    c->values = calloc(capacity * words, sizeof(*c->values));
    c->unused = calloc(capacity, sizeof(*c->unused));
    if (c->addrs && c->places && c->values && c->unused) {
        for (size_t i = 0; i < capacity; i++)
            c->unused[i] = capacity - 1 - i;
        return c;
    }
    chunk_free(c);
    return NULL;
}

enum tb_status sg_index_new(size_t words, struct sg_index **out, struct tb_error *err)
{
    struct sg_index *ix;
    struct chunk *c;

    if (words < 1 || words > SG_INDEX_WORDS_MAX)
        return tb_fail(err, TB_ERR_ARG, "cannot make an index of values of %zu words", words);
    ix = calloc(1, sizeof(*ix));
    c = chunk_new(64, words);
    if (!ix || !c) {
        free(ix);
        chunk_free(c);
        return tb_fail(err, TB_ERR_NOMEM, "cannot make an index: out of memory");
    }
    ix->words = words;
    atomic_init(&ix->now, c);
    pthread_mutex_init(&ix->lock, NULL);
    *out = ix;
    return TB_OK;
}

void sg_index_free(struct sg_index *ix)
{
    struct chunk *c, *older;

    if (!ix)
        return;
    for (c = atomic_load(&ix->now); c; c = older) {
        older = c->older;
        chunk_free(c);
    }
    pthread_mutex_destroy(&ix->lock);
    free(ix);
}

/* The last byte, so that a range may end at 2^64. */
static uint64_t last_byte(const struct chunk *c, size_t i)
{
    return GET(c->addrs[i]) + (GET(c->places[i].size) - 1);
}

/* Number of the first entry that ends above @addr. A reader that meets a writer may get nonsense
 * within bounds, and asks again. */
static size_t lower(const struct chunk *c, size_t count, uint64_t addr)
{
    size_t lo = 0, n = count < c->capacity ? count : c->capacity;

    while (n > 0) { /* the first that begins above it */
        size_t half = n / 2;
        bool below = GET(c->addrs[lo + half]) <= addr;

        lo = below ? lo + half + 1 : lo;
        n = below ? n - half - 1 : half;
    }
    return lo > 0 && last_byte(c, lo - 1) >= addr ? lo - 1 : lo;
}

static void entry_set(struct chunk *c, size_t i, uint64_t addr, uint64_t size, uint64_t slot)
{
    PUT(c->addrs[i], addr);
    PUT(c->places[i].size, size);
    PUT(c->places[i].slot, slot);
}

static void entry_copy(struct chunk *c, size_t to, const struct chunk *from, size_t i)
{
    entry_set(c, to, GET(from->addrs[i]), GET(from->places[i].size), GET(from->places[i].slot));
}

static void value_set(struct sg_index *ix, struct chunk *c, uint64_t slot, const uint64_t *value)
{
    for (size_t i = 0; i < ix->words; i++)
        PUT(c->values[slot * ix->words + i], value[i]);
}

static void value_get(const struct sg_index *ix, const struct chunk *c, uint64_t slot,
                      uint64_t *value)
{
    if (!value || slot >= c->capacity)
        return;
    for (size_t i = 0; i < ix->words; i++)
        value[i] = GET(c->values[slot * ix->words + i]);
}

static void write_begin(struct sg_index *ix)
{
    atomic_fetch_add_explicit(&ix->seq, 1, memory_order_relaxed);
}

static void write_end(struct sg_index *ix)
{
    atomic_fetch_add_explicit(&ix->seq, 1, memory_order_release);
}

/* Twice the room; the old arrays stay as they are, so readers of them see a consistent past. */
static struct chunk *grow(struct sg_index *ix, struct chunk *old)
{
    struct chunk *c = chunk_new(old->capacity * 2, ix->words);

    if (!c)
        return NULL;
    for (size_t i = 0; i < old->capacity; i++)
        entry_copy(c, i, old, i);
    for (size_t i = 0; i < old->capacity * ix->words; i++)
        PUT(c->values[i], GET(old->values[i]));
    /* The old one is full, so its slots are all taken. unused[capacity - 1 - n] is the next free
     * slot when n are taken: slot n here, as chunk_new() left it. */
    c->older = old;
    atomic_store_explicit(&ix->now, c, memory_order_release);
    return c;
}

enum tb_status sg_index_put(struct sg_index *ix, uint64_t addr, uint64_t size,
                            const uint64_t *value, struct tb_error *err)
{
    enum tb_status st = TB_OK;
    struct chunk *c;
    size_t at, n;
    uint64_t slot;

    if (!size || addr + (size - 1) < addr)
        return tb_fail(err, TB_ERR_ARG, "cannot enter a range of %llu bytes at %#llx",
                       (unsigned long long)size, (unsigned long long)addr);
    pthread_mutex_lock(&ix->lock);
    c = atomic_load(&ix->now);
    n = GET(ix->count);
    at = lower(c, n, addr);
    if (at < n && GET(c->addrs[at]) <= addr + (size - 1)) {
        st = tb_fail(err, TB_ERR_EXISTS, "the range at %#llx meets the one at %#llx",
                     (unsigned long long)addr, (unsigned long long)GET(c->addrs[at]));
        goto out;
    }
    if (n == c->capacity) {
        c = grow(ix, c);
        if (!c) {
            st = tb_fail(err, TB_ERR_NOMEM, "cannot enter a range: out of memory");
            goto out;
        }
    }
    slot = c->unused[c->capacity - 1 - n];
    write_begin(ix);
    for (size_t i = n; i > at; i--)
        entry_copy(c, i, c, i - 1);
    value_set(ix, c, slot, value);
    entry_set(c, at, addr, size, slot);
    PUT(ix->count, n + 1);
    write_end(ix);
out:
    pthread_mutex_unlock(&ix->lock);
    return st;
}

/* The entry that begins at @addr, or count. */
static size_t exact(struct sg_index *ix, const struct chunk *c, uint64_t addr)
{
    size_t n = GET(ix->count), at = lower(c, n, addr);

    return at < n && GET(c->addrs[at]) == addr ? at : n;
}

bool sg_index_update(struct sg_index *ix, uint64_t addr, const uint64_t *value)
{
    struct chunk *c;
    size_t at;
    bool found;

    pthread_mutex_lock(&ix->lock);
    c = atomic_load(&ix->now);
    at = exact(ix, c, addr);
    found = at < GET(ix->count);
    if (found) {
        write_begin(ix);
        value_set(ix, c, GET(c->places[at].slot), value);
        write_end(ix);
    }
    pthread_mutex_unlock(&ix->lock);
    return found;
}

bool sg_index_remove(struct sg_index *ix, uint64_t addr, uint64_t *value)
{
    struct chunk *c;
    size_t at, n;
    bool found;

    pthread_mutex_lock(&ix->lock);
    c = atomic_load(&ix->now);
    n = GET(ix->count);
    at = exact(ix, c, addr);
    found = at < n;
    if (found) {
        uint64_t slot = GET(c->places[at].slot);

        value_get(ix, c, slot, value);
        write_begin(ix);
        for (size_t i = at; i + 1 < n; i++)
            entry_copy(c, i, c, i + 1);
        PUT(ix->count, n - 1);
        write_end(ix);
        c->unused[c->capacity - n] = slot;
    }
    pthread_mutex_unlock(&ix->lock);
    return found;
}

bool sg_index_next(const struct sg_index *ix, uint64_t addr, uint64_t *base, uint64_t *size,
                   uint64_t *value)
{
    for (;;) {
        uint64_t seq = atomic_load_explicit(&ix->seq, memory_order_acquire), a = 0, n = 0;
        const struct chunk *c = atomic_load_explicit(&ix->now, memory_order_acquire);
        size_t count = GET(ix->count), at;
        uint64_t copy[SG_INDEX_WORDS_MAX] = {0};
        bool found;

        if (seq & 1)
            continue;
        at = lower(c, count, addr);
        found = at < count && at < c->capacity;
        if (found) {
            a = GET(c->addrs[at]);
            n = GET(c->places[at].size);
            value_get(ix, c, GET(c->places[at].slot), copy);
        }
        if (atomic_load_explicit(&ix->seq, memory_order_relaxed) != seq)
            continue;
        if (found && base)
            *base = a;
        if (found && size)
            *size = n;
        if (found && value)
            memcpy(value, copy, ix->words * sizeof(*value));
        return found;
    }
}

bool sg_index_find(const struct sg_index *ix, uint64_t addr, uint64_t *base, uint64_t *size,
                   uint64_t *value)
{
    uint64_t a = 0, n = 0, copy[SG_INDEX_WORDS_MAX];

    if (!sg_index_next(ix, addr, &a, &n, copy) || a > addr)
        return false;
    if (base)
        *base = a;
    if (size)
        *size = n;
    if (value)
        memcpy(value, copy, ix->words * sizeof(*value));
    return true;
}

size_t sg_index_count(const struct sg_index *ix)
{
    return GET(ix->count);
}
