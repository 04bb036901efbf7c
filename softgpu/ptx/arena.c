/* Memory of a module: chunks that grow, released all at once; and arrays that grow. */
#include "softgpu/ptx/ptx_internal.h"

#include <stdlib.h>

struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
};

struct sg_ptx_arena {
    struct chunk *chunks; /* the one to take from first */
    size_t next_size;
};

#define FIRST_CHUNK 4096
#define LARGEST_CHUNK (1u << 20)

struct sg_ptx_arena *sg_px_arena_new(void)
{
    struct sg_ptx_arena *a = calloc(1, sizeof(*a));

    if (a)
        a->next_size = FIRST_CHUNK;
    return a;
}

void sg_px_arena_free(struct sg_ptx_arena *a)
{
    struct chunk *next;

    if (!a)
        return;
    for (struct chunk *c = a->chunks; c; c = next) {
        next = c->next;
        free(c);
    }
    free(a);
}

static struct chunk *add_chunk(struct sg_ptx_arena *a, size_t size)
{
    bool own = size > a->next_size / 4; /* does not close the chunk in use */
    size_t room = own ? size : a->next_size;
    struct chunk *c = calloc(1, sizeof(*c) + room);

    if (!c)
        return NULL;
    c->size = room;
    if (own && a->chunks) {
        c->next = a->chunks->next;
        a->chunks->next = c;
        return c;
    }
    if (!own && a->next_size < LARGEST_CHUNK)
        a->next_size *= 2;
    c->next = a->chunks;
    a->chunks = c;
    return c;
}

void *sg_px_arena_get(struct sg_ptx_arena *a, size_t size)
{
    struct chunk *c = a->chunks;
    void *at;

    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + 15) & ~(size_t)15;
    if (!c || c->size - c->used < size)
        c = add_chunk(a, size);
    if (!c)
        return NULL;
    at = c->data + c->used;
    c->used += size;
    return at;
}

bool sg_px_vec_room(struct sg_px_vec *v, size_t more, size_t size)
{
    size_t cap = v->cap ? v->cap : 16;
    void *data;

    if (more <= v->cap - v->n)
        return true;
    if (more > SIZE_MAX / 4 / size - v->n)
        return false;
    while (cap - v->n < more)
        cap *= 2;
    data = realloc(v->data, cap * size);
    if (!data)
        return false;
    v->data = data;
    v->cap = cap;
    return true;
}

void sg_px_vec_release(struct sg_px_vec *v)
{
    free(v->data);
    memset(v, 0, sizeof(*v));
}
