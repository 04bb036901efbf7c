#include "diff/diff_internal.h"

#include <stdlib.h>
#include <string.h>

uint64_t mix64(uint64_t h, uint64_t v)
{
    h ^= v + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
    h ^= h >> 33;
    h *= 0xFF51AFD7ED558CCDu;
    h ^= h >> 33;
    h *= 0xC4CEB9FE1A85EC53u;
    return h ^ h >> 33;
}

uint64_t hash_text(const char *s, size_t n)
{
    uint64_t h = 0xCBF29CE484222325u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 0x100000001B3u;
    return mix64(h, n);
}

#define FIRST_CAP 256u

void gentab_init(struct gentab *t, size_t limit)
{
    memset(t, 0, sizeof(*t));
    t->limit = limit;
}

void gentab_release(struct gentab *t)
{
    free(t->cur);
    free(t->old);
    t->cur = t->old = NULL;
    t->cur_cap = t->old_cap = t->used = 0;
    t->forgot = false;
}

/* Keys are mostly numbers drawn one after another: sixteen stay neighbours, for the cache's sake */
static size_t place(uint64_t key, size_t cap)
{
    return ((size_t)mix64(key >> 4, 0) * 16 + (size_t)(key & 15)) & (cap - 1);
}

static struct gentab_slot *probe(struct gentab_slot *slots, size_t cap, uint64_t key)
{
    size_t i = place(key, cap);

    while (slots[i].key && slots[i].key != key)
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

static bool grow(struct gentab *t)
{
    size_t cap = t->cur_cap ? 2 * t->cur_cap : FIRST_CAP;
    struct gentab_slot *slots = calloc(cap, sizeof(*slots));

    if (!slots)
        return false;
    for (size_t i = 0; t->cur && i < t->cur_cap; i++)
        if (t->cur[i].key)
            *probe(slots, cap, t->cur[i].key) = t->cur[i];
    free(t->cur);
    t->cur = slots;
    t->cur_cap = cap;
    return true;
}

static void turn(struct gentab *t)
{
    for (size_t i = 0; t->old && i < t->old_cap; i++)
        if (t->old[i].key && !t->old[i].moved && t->drop)
            t->drop(t->drop_arg, &t->old[i]);
    t->forgot = t->forgot || t->old;
    free(t->old);
    t->old = t->cur;
    t->old_cap = t->cur_cap;
    t->cur = NULL;
    t->cur_cap = t->used = 0;
}

struct gentab_slot *gentab_get(struct gentab *t, uint64_t key)
{
    if (t->cur) {
        struct gentab_slot *s = probe(t->cur, t->cur_cap, key);
        if (s->key)
            return s;
    }
    if (!t->old || !probe(t->old, t->old_cap, key)->key)
        return NULL;
    return gentab_put(t, key); /* touched: it moves to the young half */
}

struct gentab_slot *gentab_put(struct gentab *t, uint64_t key)
{
    struct gentab_slot *s = NULL, kept = {0};

    if (t->cur && (s = probe(t->cur, t->cur_cap, key))->key)
        return s;
    if (t->old && (s = probe(t->old, t->old_cap, key))->key) {
        kept = *s;
        s->moved = true;
    }
    if (t->used >= t->limit)
        turn(t);
    if ((!t->cur || 2 * (t->used + 1) > t->cur_cap) && !grow(t))
        return NULL;
    s = probe(t->cur, t->cur_cap, key);
    *s = kept;
    s->key = key;
    t->used++;
    return s;
}
