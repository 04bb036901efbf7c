/*
 * The book of allocations for strict mode: who made what lives, and what has been freed, newest
 * first, as far as it is remembered. Addresses of freed memory are kept out of use for as long as
 * there are others (sg_mem_quarantine()), so that a stale pointer meets nothing new.
 */
#include "softgpu/driver/memory_internal.h"
#include "softgpu/driver/order_item.h"
#include "softgpu/driver/strict.h"

#include <stdlib.h>
#include <string.h>

#define FREED_MAX 16384

struct entry {
    uint64_t addr, size;
    enum sg_alloc_kind kind;
    bool freed; /* a call has freed it; it may be there until that call's place in the stream */
    struct sg_by made, released;
};

/* The one state of this file; under @lock. */
static struct {
    pthread_mutex_t lock;
    struct sg_index *live; /* address -> struct entry, by pointer */
    struct entry *freed;   /* a ring */
    size_t nfreed;         /* so far */
} book = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *kind_name(enum sg_alloc_kind kind)
{
    static const char *const names[] = {
        [SG_ALLOC_DEVICE] = "device",
        [SG_ALLOC_POOL] = "pool",
        [SG_ALLOC_MANAGED] = "managed",
        [SG_ALLOC_HOST] = "pinned host",
        [SG_ALLOC_REGISTERED] = "registered host",
        [SG_ALLOC_VMM] = "mapped",
        [SG_ALLOC_MODULE] = "module",
    };

    return names[kind];
}

static bool ready(void)
{
    if (!book.live && sg_index_new(1, &book.live, NULL) != TB_OK)
        return false;
    if (!book.freed)
        book.freed = calloc(FREED_MAX, sizeof(*book.freed));
    return book.freed != NULL;
}

/* The entry that begins at @addr, or (@inside) holds it. */
static struct entry *live_at(uint64_t addr, bool inside)
{
    uint64_t base = 0, value = 0;

    if (!book.live || !sg_index_find(book.live, addr, &base, NULL, &value) ||
        (!inside && base != addr))
        return NULL;
    return (struct entry *)(uintptr_t)value;
}

static const struct entry *freed_at(uint64_t addr)
{
    size_t n = book.nfreed < FREED_MAX ? book.nfreed : FREED_MAX;

    for (size_t i = 1; i <= n; i++) {
        const struct entry *e = &book.freed[(book.nfreed - i) % FREED_MAX];

        if (addr - e->addr < e->size)
            return e;
    }
    return NULL;
}

void sg_book_made(const struct sg_alloc *a)
{
    struct entry *e = calloc(1, sizeof(*e));
    uint64_t value = (uintptr_t)e;

    if (!e)
        return;
    *e = (struct entry){.addr = a->addr, .size = a->size, .kind = a->kind, .made = sg_strict_by()};
    pthread_mutex_lock(&book.lock);
    if (!ready() || sg_index_put(book.live, a->addr, a->size, &value, NULL) != TB_OK)
        free(e);
    pthread_mutex_unlock(&book.lock);
}

void sg_book_gone(uint64_t addr)
{
    struct sg_by by = sg_strict_by();
    uint64_t size = 0;
    struct entry *e;

    pthread_mutex_lock(&book.lock);
    e = live_at(addr, false);
    if (e) {
        size = e->size;
        sg_index_remove(book.live, addr, NULL);
        if (!e->freed)
            e->released = by;
        e->freed = true;
        book.freed[book.nfreed++ % FREED_MAX] = *e;
        free(e);
    }
    pthread_mutex_unlock(&book.lock);
    sg_order_freed(addr, size);
}

void sg_book_freed(uint64_t addr, bool undo)
{
    struct sg_by by = sg_strict_by();
    struct entry *e;

    pthread_mutex_lock(&book.lock);
    e = live_at(addr, false);
    if (e) {
        e->freed = !undo;
        if (undo)
            by = (struct sg_by){0};
        e->released = by;
    }
    pthread_mutex_unlock(&book.lock);
}

static void tell(const struct entry *e, uint64_t addr, struct sg_near *out)
{
    *out = (struct sg_near){
        e->addr, e->size,    (int64_t)(addr - e->addr), kind_name(e->kind), e->freed,
        e->made, e->released};
}

static uint64_t distance(uint64_t addr, const struct entry *e)
{
    if (addr < e->addr)
        return e->addr - addr;
    return addr - e->addr < e->size ? 0 : addr - e->addr - e->size + 1;
}

/* The nearest living one below or above. */
static const struct entry *nearest(uint64_t addr)
{
    const struct entry *best = NULL;
    uint64_t base = 0, size = 0, value = 0;

    for (uint64_t at = 0; book.live && sg_index_next(book.live, at, &base, &size, &value);
         at = base + size) {
        const struct entry *e = (const struct entry *)(uintptr_t)value;

        if (!best || distance(addr, e) < distance(addr, best))
            best = e;
        if (base > addr)
            break;
    }
    return best;
}

bool sg_book_near(uint64_t addr, struct sg_near *out)
{
    const struct entry *e;

    pthread_mutex_lock(&book.lock);
    e = live_at(addr, true);
    if (!e)
        e = freed_at(addr);
    if (!e)
        e = nearest(addr);
    if (e)
        tell(e, addr, out);
    pthread_mutex_unlock(&book.lock);
    return e != NULL;
}

void sg_book_each(void (*fn)(void *arg, const struct sg_near *alive), void *arg)
{
    uint64_t base = 0, size = 0, value = 0;
    struct sg_near near;

    pthread_mutex_lock(&book.lock);
    for (uint64_t at = 0; book.live && sg_index_next(book.live, at, &base, &size, &value);
         at = base + size) {
        tell((const struct entry *)(uintptr_t)value, base, &near);
        fn(arg, &near);
    }
    pthread_mutex_unlock(&book.lock);
}

bool sg_book_stale(uint64_t addr, struct sg_near *out)
{
    const struct entry *e;

    pthread_mutex_lock(&book.lock);
    e = live_at(addr, true);
    if (!e)
        e = freed_at(addr);
    /* what was registered is the program's own memory again */
    if (e && (!e->freed || e->kind == SG_ALLOC_REGISTERED))
        e = NULL;
    if (e)
        tell(e, addr, out);
    pthread_mutex_unlock(&book.lock);
    return e != NULL;
}
