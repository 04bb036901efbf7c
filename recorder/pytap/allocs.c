/*
 * Which allocation a tensor lies in. The Python side holds a weak reference to every storage that
 * is in the table, so that its identity cannot be handed to another one, and says when it has died.
 */
#include "recorder/pytap/pytap_internal.h"

#include <stdlib.h>

#define TOMB 1u

static size_t slot_of(uint64_t key)
{
    return (size_t)((key >> 4) * 0x9e3779b97f4a7c15ull >> 20) & (tb_pt.alloc_capacity - 1);
}

static bool grow(void)
{
    struct tb_pt_alloc *old = tb_pt.allocs, *fresh;
    size_t old_cap = tb_pt.alloc_capacity, live = 0, cap = 4096;

    for (size_t i = 0; i < old_cap; i++)
        live += old[i].key > TOMB;
    while (cap < live * 4)
        cap *= 2;
    fresh = calloc(cap, sizeof(*fresh));
    if (!fresh)
        return false;
    tb_pt.allocs = fresh;
    tb_pt.alloc_capacity = cap;
    tb_pt.alloc_used = live;
    for (size_t i = 0; i < old_cap; i++) {
        size_t at = slot_of(old[i].key);
        if (old[i].key <= TOMB)
            continue;
        while (fresh[at].key)
            at = (at + 1) & (cap - 1);
        fresh[at] = old[i];
    }
    free(old);
    return true;
}

/* A storage whose memory was replaced keeps its identity and loses what was known of its bytes. */
static void refresh(struct tb_pt_alloc *al, const struct tb_pt_access *a)
{
    if (al->ptr == a->storage_ptr && al->bytes == a->storage_bytes)
        return;
    al->ptr = a->storage_ptr;
    al->bytes = a->storage_bytes;
    al->last_seq = TB_REC_NO_SEQ;
}

struct tb_pt_alloc *tb_pt_alloc_find(const struct tb_pt_access *a)
{
    if (a->storage <= TOMB)
        return NULL;
    if (tb_pt.alloc_used * 10 >= tb_pt.alloc_capacity * 7 && !grow())
        return NULL;
    size_t at = slot_of(a->storage), tomb = SIZE_MAX;
    for (; tb_pt.allocs[at].key; at = (at + 1) & (tb_pt.alloc_capacity - 1)) {
        struct tb_pt_alloc *al = &tb_pt.allocs[at];
        if (al->key == a->storage) {
            refresh(al, a);
            return al;
        }
        if (al->key == TOMB && tomb == SIZE_MAX)
            tomb = at;
    }
    if (tomb == SIZE_MAX)
        tb_pt.alloc_used++;
    else
        at = tomb;
    tb_pt.allocs[at] = (struct tb_pt_alloc){
        .key = a->storage,
        .ptr = a->storage_ptr,
        .bytes = a->storage_bytes,
        .id = tb_pt.api->alloc_new(),
        .origin = a->flags & TB_PT_FOREIGN ? TB_PT_EXTERNAL : TB_PT_UNKNOWN,
        .last_seq = TB_REC_NO_SEQ,
    };
    return &tb_pt.allocs[at];
}

void tb_pt_alloc_drop(uint64_t key)
{
    if (key <= TOMB || !tb_pt.alloc_capacity)
        return;
    for (size_t at = slot_of(key); tb_pt.allocs[at].key; at = (at + 1) & (tb_pt.alloc_capacity - 1))
        if (tb_pt.allocs[at].key == key) {
            tb_pt.allocs[at].key = TOMB;
            return;
        }
}
