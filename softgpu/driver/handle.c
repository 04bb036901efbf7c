#include "softgpu/driver/stream.h"

#include <stdlib.h>

/* Which pointers are living handles: an open-addressing table of (pointer, kind), so that a stale
 * or wild handle is refused without being read. The one state of this file; under @lock. */
struct slot {
    const void *p; /* NULL: never used; TOMB: used once */
    uint32_t magic;
};
#define TOMB ((const void *)1)

static struct {
    pthread_mutex_t lock;
    struct slot *slots;
    size_t size, used; /* a power of two; used counts tombs */
    size_t live;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t place_of(const void *p)
{
    return (size_t)(((uintptr_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
}

static struct slot *find(const void *p)
{
    if (!table.size)
        return NULL;
    for (size_t i = place_of(p);; i++) {
        struct slot *s = &table.slots[i & (table.size - 1)];

        if (s->p == p)
            return s;
        if (!s->p)
            return NULL;
    }
}

static void put(struct slot *slots, size_t size, const void *p, uint32_t magic)
{
    size_t i = place_of(p);

    while (slots[i & (size - 1)].p)
        i++;
    slots[i & (size - 1)] = (struct slot){p, magic};
}

static bool grow(void)
{
    size_t size = 256;
    struct slot *slots;

    while (size < (table.live + 1) * 3)
        size *= 2;
    slots = calloc(size, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < table.size; i++)
        if (table.slots[i].p && table.slots[i].p != TOMB)
            put(slots, size, table.slots[i].p, table.slots[i].magic);
    free(table.slots);
    table.slots = slots;
    table.size = size;
    table.used = table.live;
    return true;
}

bool sg_handle_add(const void *p, uint32_t magic)
{
    bool ok;

    pthread_mutex_lock(&table.lock);
    ok = table.used + 1 <= table.size / 2 || grow();
    if (ok) {
        put(table.slots, table.size, p, magic);
        table.used++;
        table.live++;
    }
    pthread_mutex_unlock(&table.lock);
    return ok;
}

void sg_handle_remove(const void *p)
{
    struct slot *s;

    pthread_mutex_lock(&table.lock);
    s = find(p);
    if (s) {
        *s = (struct slot){TOMB, 0};
        table.live--;
    }
    pthread_mutex_unlock(&table.lock);
}

bool sg_handle_is(const void *p, uint32_t magic)
{
    const struct slot *s;
    bool ok;

    if (!p || p == TOMB)
        return false;
    pthread_mutex_lock(&table.lock);
    s = find(p);
    ok = s && s->magic == magic;
    pthread_mutex_unlock(&table.lock);
    return ok;
}

size_t sg_handle_count(uint32_t magic, bool (*which)(const void *p))
{
    size_t n = 0;

    pthread_mutex_lock(&table.lock);
    for (size_t i = 0; i < table.size; i++)
        if (table.slots[i].p && table.slots[i].p != TOMB && table.slots[i].magic == magic)
            n += which(table.slots[i].p);
    pthread_mutex_unlock(&table.lock);
    return n;
}

void sg_handle_fork_prepare(void)
{
    pthread_mutex_lock(&table.lock);
}

void sg_handle_fork_done(bool child)
{
    if (child)
        pthread_mutex_init(&table.lock, NULL);
    else
        pthread_mutex_unlock(&table.lock);
}
