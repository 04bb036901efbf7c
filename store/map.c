#include "store/store_internal.h"

#include <stdlib.h>
#include <string.h>

/* Keys are hashes already: their first bytes choose the slot; linear probing, at most 3/4 full. */
static size_t find(const struct tb_map_slot *slot, size_t cap, const uint8_t key[16])
{
    uint64_t h;

    memcpy(&h, key, sizeof(h));
    for (size_t i = h & (cap - 1);; i = (i + 1) & (cap - 1))
        if (slot[i].id == 0 || memcmp(slot[i].key, key, 16) == 0)
            return i;
}

uint32_t tb_map_get(const struct tb_map *m, const uint8_t key[16])
{
    return m->cap ? m->slot[find(m->slot, m->cap, key)].id : 0;
}

static bool grow(struct tb_map *m)
{
    size_t cap = m->cap ? m->cap * 2 : 64;
    struct tb_map_slot *slot = calloc(cap, sizeof(*slot));

    if (!slot)
        return false;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slot[i].id)
            slot[find(slot, cap, m->slot[i].key)] = m->slot[i];
    free(m->slot);
    m->slot = slot;
    m->cap = cap;
    return true;
}

bool tb_map_put(struct tb_map *m, const uint8_t key[16], uint32_t id)
{
    if ((m->count + 1) * 4 > m->cap * 3 && !grow(m))
        return false;
    struct tb_map_slot *s = &m->slot[find(m->slot, m->cap, key)];
    memcpy(s->key, key, 16);
    s->id = id;
    m->count++;
    return true;
}

void tb_map_release(struct tb_map *m)
{
    free(m->slot);
    *m = (struct tb_map){0};
}
