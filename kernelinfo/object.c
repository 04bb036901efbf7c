/* What memory of a thread or block holds: cells of 8 bytes, and what was stored nobody knows where.
 */
#include "kernelinfo/kernelinfo_internal.h"

#include <stdlib.h>

#define MOST_CELLS 8192u

static struct ki_object *object_at(struct ki_flow *k, uint32_t number)
{
    struct ki_object *o = &k->objects[number];
    uint64_t size = number >= KI_FIRST_VAR ? k->u->vars[number]->size : 0;

    if (o->cells || size == 0)
        return o;
    o->n = size / 8 < MOST_CELLS ? (uint32_t)(size + 7) / 8 : MOST_CELLS;
    o->cells = calloc(o->n, sizeof(*o->cells));
    if (!o->cells) {
        k->failed = true;
        o->n = 0;
    }
    return o;
}

static void add(struct ki_flow *k, struct ki_val *to, struct ki_val v)
{
    k->version += ki_merge(k, to, v);
}

/* Are the @bytes at @at within the cells? */
static bool in_cells(const struct ki_object *o, const struct ki_val *at, unsigned bytes)
{
    return at->displaced == 1 && at->off >= 0 && (uint64_t)at->off + bytes <= (uint64_t)o->n * 8;
}

void ki_store_object(struct ki_flow *k, uint32_t object, struct ki_val at, unsigned bytes,
                     struct ki_val v)
{
    struct ki_object *o = object_at(k, object);

    add(k, &o->all, v);
    if (!in_cells(o, &at, bytes)) {
        add(k, &o->any, v);
        return;
    }
    for (uint64_t c = (uint64_t)at.off / 8; c <= ((uint64_t)at.off + bytes - 1) / 8; c++)
        add(k, &o->cells[c], v);
}

struct ki_val ki_load_object(struct ki_flow *k, uint32_t object, struct ki_val at, unsigned bytes)
{
    struct ki_object *o = object_at(k, object);
    struct ki_val v = o->any;

    if (!in_cells(o, &at, bytes))
        v = o->all;
    else
        for (uint64_t c = (uint64_t)at.off / 8; c <= ((uint64_t)at.off + bytes - 1) / 8; c++)
            v = ki_join(k, v, o->cells[c]);
    /* what was stored in parts may be loaded as one */
    v.set = ki_map(&k->sets, bytes >= 8 ? KI_MAP_JOIN : KI_MAP_JOIN_32, v.set);
    return v;
}

void ki_copy_object(struct ki_flow *k, uint32_t to, uint32_t from)
{
    struct ki_object *a = object_at(k, to), *b = object_at(k, from);

    for (uint32_t i = 0; i < b->n; i++)
        add(k, i < a->n ? &a->cells[i] : &a->any, b->cells[i]);
    add(k, &a->any, b->any);
    add(k, &a->all, b->all);
}

void ki_escape(struct ki_flow *k, uint32_t set)
{
    for (uint32_t i = 0; i < k->sets.set[set].n; i++) {
        uint32_t atom = k->sets.atoms[k->sets.set[set].at + i];
        struct ki_object *o = &k->objects[KI_INDEX(atom)];

        if (KI_KIND(atom) == KI_GLOBAL && k->report)
            k->used[KI_INDEX(atom)] |= KI_READ;
        if (KI_KIND(atom) != KI_OBJECT || o->escaped)
            continue;
        o->escaped = k->escapes = true;
        add(k, &o->any, ki_from(k, KI_ATOM(KI_UNKNOWN, 0)));
        add(k, &o->all, ki_from(k, KI_ATOM(KI_UNKNOWN, 0)));
    }
}

void ki_escape_further(struct ki_flow *k)
{
    for (uint32_t i = 0; k->escapes && i < k->u->nnumbers; i++)
        if (k->objects[i].escaped)
            ki_escape(k, k->objects[i].all.set);
}
