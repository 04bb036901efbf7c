/* Memory, lock and hash tables of the engine. */
#include "recorder/cuda/engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void futex_wait(uint32_t *word, uint32_t value)
{
    struct timespec limit = {0, 100000000};
    int saved = errno;

    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &limit, NULL, 0);
    errno = saved;
}

void tb_cu_lock_slow(void)
{
    while (__atomic_exchange_n(&tb_cu.lock, 2, __ATOMIC_ACQUIRE) != 0)
        futex_wait(&tb_cu.lock, 2);
}

void tb_cu_unlock_slow(void)
{
    int saved = errno;

    (void)syscall(SYS_futex, &tb_cu.lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}

void *tb_cu_small(size_t bytes)
{
    enum { SLAB = 256 * 1024 };
    size_t need = (bytes + 15) & ~(size_t)15;

    if (need > SLAB / 4)
        return tb_cu.api->pool(need);
    if (tb_cu.slab_left < need) {
        tb_cu.slab = tb_cu.api->pool(SLAB);
        tb_cu.slab_left = tb_cu.slab ? SLAB : 0;
    }
    if (!tb_cu.slab)
        return NULL;
    void *p = tb_cu.slab;
    tb_cu.slab += need;
    tb_cu.slab_left -= need;
    return p;
}

const char *tb_cu_text(const char *text)
{
    size_t n = text ? strlen(text) : 0;
    char *copy = n ? tb_cu_small(n + 1) : NULL;

    if (!copy)
        return "";
    memcpy(copy, text, n + 1);
    return copy;
}

const char *tb_cu_name(const char *text)
{
    const char *copy = tb_cu_text(text);

    return *copy ? tb_plain((char *)(uintptr_t)copy, false) : copy;
}

uint64_t tb_cu_mix_text(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = tb_cu_mix(h, (uint8_t)*text);
    return h;
}

/* ---------------------------------------------------------------- maps */

static struct tb_cu_slot tomb; /* its address marks a value that was taken */

static uint32_t place(const struct tb_cu_map *m, uint64_t key)
{
    return (uint32_t)(tb_cu_mix(key, 1) >> 20) & (m->capacity - 1);
}

static struct tb_cu_slot *find(const struct tb_cu_map *m, uint64_t key)
{
    if (!m->capacity || !key)
        return NULL;
    for (uint32_t i = place(m, key);; i = (i + 1) & (m->capacity - 1)) {
        if (m->slot[i].key == key && m->slot[i].value != &tomb)
            return &m->slot[i];
        if (!m->slot[i].key)
            return NULL;
    }
}

void *tb_cu_map_get(const struct tb_cu_map *m, uint64_t key)
{
    struct tb_cu_slot *s = find(m, key);

    return s ? s->value : NULL;
}

static void insert(struct tb_cu_map *m, uint64_t key, void *value)
{
    uint32_t i = place(m, key);

    while (m->slot[i].key)
        i = (i + 1) & (m->capacity - 1);
    m->slot[i] = (struct tb_cu_slot){key, value};
    m->count++;
}

static bool grow(struct tb_cu_map *m)
{
    struct tb_cu_map fresh = {NULL, 64, 0};

    for (uint32_t i = 0; i < m->capacity; i++)
        fresh.count += m->slot[i].key && m->slot[i].value != &tomb;
    while (fresh.capacity < fresh.count * 4)
        fresh.capacity *= 2;
    fresh.count = 0;
    fresh.slot = tb_cu_small(fresh.capacity * sizeof(*fresh.slot));
    if (!fresh.slot)
        return false;
    for (uint32_t i = 0; i < m->capacity; i++)
        if (m->slot[i].key && m->slot[i].value != &tomb)
            insert(&fresh, m->slot[i].key, m->slot[i].value);
    *m = fresh;
    return true;
}

bool tb_cu_map_put(struct tb_cu_map *m, uint64_t key, void *value)
{
    struct tb_cu_slot *s = find(m, key);

    if (!key)
        return false;
    if (s) {
        s->value = value;
        return true;
    }
    if ((m->count + 1) * 2 > m->capacity && !grow(m))
        return false;
    insert(m, key, value);
    return true;
}

void *tb_cu_map_take(struct tb_cu_map *m, uint64_t key)
{
    struct tb_cu_slot *s = find(m, key);
    void *value = s ? s->value : NULL;

    if (s)
        s->value = &tomb;
    return value;
}
