#include "recorder/recorder_internal.h"

#include <string.h>

static struct tb_rt_slot *probe(const struct tb_rt_table *t, uint64_t key)
{
    uint64_t i = key * 0x9E3779B97F4A7C15ull;

    for (i >>= 32;; i++) {
        struct tb_rt_slot *s = &t->slot[i & (t->capacity - 1)];
        if (s->id == 0 || s->key == key)
            return s;
    }
}

uint32_t tb_rt_table_find(const struct tb_rt_table *t, uint64_t key)
{
    return tb_likely(t->capacity) ? (uint32_t)probe(t, key ? key : 1)->id : 0;
}

static bool grow(struct tb_rt_table *t)
{
    struct tb_rt_table bigger = {.capacity = t->capacity ? t->capacity * 2 : 512,
                                 .count = t->count};

    bigger.slot = tb_rt_pool(bigger.capacity * sizeof(*bigger.slot));
    if (!bigger.slot)
        return false;
    for (uint32_t i = 0; i < t->capacity; i++)
        if (t->slot[i].id)
            *probe(&bigger, t->slot[i].key) = t->slot[i];
    if (t->slot)
        tb_rt_unmap(t->slot, t->capacity * sizeof(*t->slot));
    *t = bigger;
    return true;
}

bool tb_rt_table_add(struct tb_rt_table *t, uint64_t key, uint32_t id)
{
    if (t->count * 2 >= t->capacity && !grow(t))
        return false;
    key = key ? key : 1;
    *probe(t, key) = (struct tb_rt_slot){key, id};
    t->count++;
    return true;
}

uint32_t tb_rt_table_next(struct tb_rt_table *t, uint64_t key)
{
    struct tb_rt_slot *s = t->capacity ? probe(t, key ? key : 1) : NULL;

    if (s && s->id)
        return s->id++;
    (void)tb_rt_table_add(t, key, 1);
    return 0;
}

void tb_rt_table_clear(struct tb_rt_table *t)
{
    if (t->capacity)
        memset(t->slot, 0, t->capacity * sizeof(*t->slot));
    t->count = 0;
}
