#include "softgpu/mem/mem.h"

#include "softgpu/mem/index.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define GIB (UINT64_C(1) << 30)
/* A place where nothing lies in a usual process, so that addresses are equal from run to run. */
#define WISHED_BASE UINT64_C(0x200000000000)
/* From this size on mask pages are dropped instead of cleared. */
#define MASK_DROP (UINT64_C(1) << 16)

struct gap { /* addresses nobody has reserved; sorted, never adjacent */
    uint64_t addr, size;
};

struct held { /* released addresses that are not used yet, oldest first */
    struct held *next;
    struct gap at;
};

struct sg_mem_private {
    pthread_mutex_t lock;
    struct held *held, **held_end;
    uint64_t held_bytes, held_max;
    struct gap *gaps;
    size_t ngaps, room;
    struct sg_index *blocks;  /* reservations; the value is enum block_state bits */
    struct sg_index *outside; /* registered host memory; the value is the device mask */
    uint8_t *can_read, *can_write;
};

enum block_state { BLOCK_COMMITTED = 1 << 0, BLOCK_MAPPED = 1 << 1, BLOCK_GUARDED = 1 << 2 };

static uint64_t round_up(uint64_t x, uint64_t to)
{
    return (x + to - 1) & ~(to - 1);
}

static uint64_t round_down(uint64_t x, uint64_t to)
{
    return x & ~(to - 1);
}

static void *reserve_map(void *hint, uint64_t size, int prot)
{
    void *p = mmap(hint, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, size, MADV_DONTDUMP);
    return p;
}

/* The range itself, aligned to the size of a window, and the two masks. */
static bool map_all(struct sg_mem *m, struct sg_mem_private *p, uint64_t span)
{
    uint64_t masks = span >> SG_MEM_GRANULE_SHIFT, whole = span + SG_MEM_WINDOW, base;
    uint8_t *range = reserve_map((void *)(uintptr_t)WISHED_BASE, whole, PROT_NONE);

    if (!range)
        return false;
    p->can_read = reserve_map(NULL, masks, PROT_READ | PROT_WRITE);
    p->can_write = reserve_map(NULL, masks, PROT_READ | PROT_WRITE);
    if (!p->can_read || !p->can_write) {
        if (p->can_read)
            munmap(p->can_read, masks);
        if (p->can_write)
            munmap(p->can_write, masks);
        munmap(range, whole);
        return false;
    }
    base = round_up((uintptr_t)range, SG_MEM_WINDOW);
    if (base > (uintptr_t)range)
        munmap(range, base - (uintptr_t)range);
    if (base + span < (uintptr_t)range + whole)
        munmap((void *)(uintptr_t)(base + span), (uintptr_t)range + whole - base - span);
    m->base = base;
    m->span = span;
    m->can_read = p->can_read;
    m->can_write = p->can_write;
    return true;
}

enum tb_status sg_mem_new(struct sg_mem **out, struct tb_error *err)
{
    struct sg_mem *m = calloc(1, sizeof(*m));
    struct sg_mem_private *p = calloc(1, sizeof(*p));
    enum tb_status st = TB_ERR_NOMEM;
    uint64_t span = 4096 * GIB;

    if (!m || !p || !(p->gaps = calloc(16, sizeof(*p->gaps)))) {
        tb_fail(err, st, "cannot make an address space: out of memory");
        goto fail;
    }
    p->room = 16;
    p->held_end = &p->held;
    if (sg_index_new(1, &p->blocks, err) || sg_index_new(1, &p->outside, err))
        goto fail;
    while (!map_all(m, p, span)) {
        span /= 4;
        if (span < 64 * GIB) {
            tb_fail_sys(err, st, errno, "cannot reserve 64 GiB of addresses");
            goto fail;
        }
    }
    pthread_mutex_init(&p->lock, NULL);
    m->priv = p;
    m->shared_window = m->base;
    m->local_window = m->base + SG_MEM_WINDOW;
    p->gaps[0] = (struct gap){m->base + 2 * SG_MEM_WINDOW, span - 2 * SG_MEM_WINDOW};
    p->ngaps = 1;
    *out = m;
    return TB_OK;
fail:
    if (p) {
        sg_index_free(p->blocks);
        sg_index_free(p->outside);
        free(p->gaps);
    }
    free(p);
    free(m);
    return st;
}

void sg_mem_free(struct sg_mem *m)
{
    struct sg_mem_private *p;

    if (!m)
        return;
    p = m->priv;
    munmap((void *)(uintptr_t)m->base, m->span);
    munmap(p->can_read, m->span >> SG_MEM_GRANULE_SHIFT);
    munmap(p->can_write, m->span >> SG_MEM_GRANULE_SHIFT);
    sg_index_free(p->blocks);
    sg_index_free(p->outside);
    pthread_mutex_destroy(&p->lock);
    while (p->held) {
        struct held *next = p->held->next;

        free(p->held);
        p->held = next;
    }
    free(p->gaps);
    free(p);
    free(m);
}

/* ---- reservations ---------------------------------------------------------------------------- */

/* Room for one gap more, before anything is changed. */
static bool gaps_room(struct sg_mem_private *p)
{
    struct gap *more;

    if (p->ngaps < p->room)
        return true;
    more = realloc(p->gaps, 2 * p->room * sizeof(*more));
    if (!more)
        return false;
    p->gaps = more;
    p->room *= 2;
    return true;
}

static void gap_insert(struct sg_mem_private *p, size_t at, struct gap g)
{
    memmove(&p->gaps[at + 1], &p->gaps[at], (p->ngaps - at) * sizeof(g));
    p->gaps[at] = g;
    p->ngaps++;
}

static void gap_erase(struct sg_mem_private *p, size_t at)
{
    p->ngaps--;
    memmove(&p->gaps[at], &p->gaps[at + 1], (p->ngaps - at) * sizeof(p->gaps[0]));
}

/* Takes [addr, addr + size) out of gap @at, which holds it. */
static void gap_take(struct sg_mem_private *p, size_t at, uint64_t addr, uint64_t size)
{
    struct gap *g = &p->gaps[at], after = {addr + size, g->addr + g->size - addr - size};

    g->size = addr - g->addr;
    if (after.size)
        gap_insert(p, at + 1, after);
    if (!p->gaps[at].size)
        gap_erase(p, at);
}

static bool gap_holds(const struct gap *g, uint64_t addr, uint64_t size)
{
    return addr >= g->addr && addr - g->addr <= g->size && size <= g->size - (addr - g->addr);
}

/* The wished-for place if it is free, else the lowest one. */
static bool gap_find(const struct sg_mem_private *p, uint64_t size, uint64_t align, uint64_t at,
                     size_t *which, uint64_t *addr)
{
    for (size_t i = 0; at && !(at & (align - 1)) && i < p->ngaps; i++) {
        if (gap_holds(&p->gaps[i], at, size)) {
            *which = i;
            *addr = at;
            return true;
        }
    }
    for (size_t i = 0; i < p->ngaps; i++) {
        uint64_t a = round_up(p->gaps[i].addr, align);

        if (gap_holds(&p->gaps[i], a, size)) {
            *which = i;
            *addr = a;
            return true;
        }
    }
    return false;
}

static void gap_give(struct sg_mem_private *p, uint64_t addr, uint64_t size)
{
    size_t i = 0;

    while (i < p->ngaps && p->gaps[i].addr < addr)
        i++;
    gap_insert(p, i, (struct gap){addr, size});
    if (i + 1 < p->ngaps && addr + size == p->gaps[i + 1].addr) {
        p->gaps[i].size += p->gaps[i + 1].size;
        gap_erase(p, i + 1);
    }
    if (i > 0 && p->gaps[i - 1].addr + p->gaps[i - 1].size == addr) {
        p->gaps[i - 1].size += p->gaps[i].size;
        gap_erase(p, i);
    }
}

static uint64_t guard_of(uint64_t state)
{
    return state & BLOCK_GUARDED ? SG_MEM_GUARD : 0;
}

static enum tb_status reserve(struct sg_mem *m, size_t size, size_t align, uint64_t at,
                              uint64_t state, uint64_t *addr, struct tb_error *err)
{
    struct sg_mem_private *p = m->priv;
    uint64_t whole = round_up(size, SG_MEM_GRANULE), found = 0, taken = whole + guard_of(state);
    enum tb_status st = TB_ERR_NOMEM;
    size_t which = 0;

    if (!size || whole < size || taken < whole || align < SG_MEM_GRANULE || (align & (align - 1)))
        return tb_fail(err, TB_ERR_ARG, "cannot reserve %zu bytes aligned to %zu", size, align);
    pthread_mutex_lock(&p->lock);
    if (!gaps_room(p) || !gap_find(p, taken, align, at, &which, &found)) {
        tb_fail(err, st, "cannot reserve %zu bytes of addresses: none are left", size);
        goto out;
    }
    st = sg_index_put(p->blocks, found, whole, &state, err);
    if (st)
        goto out;
    gap_take(p, which, found, taken);
    *addr = found;
out:
    pthread_mutex_unlock(&p->lock);
    return st;
}

enum tb_status sg_mem_reserve(struct sg_mem *m, size_t size, size_t align, uint64_t at,
                              uint64_t *addr, struct tb_error *err)
{
    return reserve(m, size, align, at, 0, addr, err);
}

enum tb_status sg_mem_reserve_guarded(struct sg_mem *m, size_t size, size_t align, uint64_t *addr,
                                      struct tb_error *err)
{
    return reserve(m, size, align, 0, BLOCK_GUARDED, addr, err);
}

/* Bytes of pages that the block shares with its neighbours: cleared, as the page must stay. */
static void clear_edges(uint64_t addr, uint64_t size)
{
    uint64_t end = addr + size, first = round_up(addr, PAGE), last = round_down(end, PAGE);

    if (first >= last) {
        first = first < end ? first : end;
        memset((void *)(uintptr_t)addr, 0, first - addr);
        memset((void *)(uintptr_t)first, 0, end - first);
        return;
    }
    memset((void *)(uintptr_t)addr, 0, first - addr);
    memset((void *)(uintptr_t)last, 0, end - last);
}

static bool remap_none(uint64_t addr, uint64_t size)
{
    return mmap((void *)(uintptr_t)addr, size, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void drop_pages(uint64_t addr, uint64_t size, uint64_t state)
{
    uint64_t first = round_up(addr, PAGE), last = round_down(addr + size, PAGE);

    if (state & BLOCK_COMMITTED)
        clear_edges(addr, size);
    if (first >= last)
        return;
    if (state & BLOCK_MAPPED)
        remap_none(first, last - first);
    else if (state & BLOCK_COMMITTED)
        madvise((void *)(uintptr_t)first, last - first, MADV_DONTNEED);
}

/* Contents and access of the reservation at @addr are gone; the addresses that it takes, 0: there
 * is none. */
static uint64_t block_drop(struct sg_mem *m, uint64_t addr)
{
    uint64_t base = 0, size = 0, state = 0;

    if (!sg_index_find(m->priv->blocks, addr, &base, &size, &state) || base != addr)
        return 0;
    sg_mem_allow(m, addr, size, 0, 0);
    drop_pages(addr, size, state);
    return size + guard_of(state);
}

void sg_mem_drop(struct sg_mem *m, uint64_t addr)
{
    pthread_mutex_lock(&m->priv->lock);
    block_drop(m, addr);
    pthread_mutex_unlock(&m->priv->lock);
}

/* Gives the oldest held addresses back while there are too many. */
static void let_go(struct sg_mem_private *p)
{
    struct held *h;

    while ((h = p->held) && p->held_bytes > p->held_max && gaps_room(p)) {
        p->held = h->next;
        p->held_bytes -= h->at.size;
        gap_give(p, h->at.addr, h->at.size);
        free(h);
    }
    if (!p->held)
        p->held_end = &p->held;
}

static bool hold(struct sg_mem_private *p, uint64_t addr, uint64_t size)
{
    struct held *h = p->held_max ? malloc(sizeof(*h)) : NULL;

    if (!h)
        return false;
    *h = (struct held){NULL, {addr, size}};
    *p->held_end = h;
    p->held_end = &h->next;
    p->held_bytes += size;
    let_go(p);
    return true;
}

void sg_mem_quarantine(struct sg_mem *m, uint64_t bytes)
{
    pthread_mutex_lock(&m->priv->lock);
    m->priv->held_max = bytes;
    let_go(m->priv);
    pthread_mutex_unlock(&m->priv->lock);
}

void sg_mem_release(struct sg_mem *m, uint64_t addr)
{
    struct sg_mem_private *p = m->priv;
    uint64_t size;

    pthread_mutex_lock(&p->lock);
    size = block_drop(m, addr);
    if (size && gaps_room(p)) { /* else the addresses are lost, not the memory */
        sg_index_remove(p->blocks, addr, NULL);
        if (!hold(p, addr, size))
            gap_give(p, addr, size);
    }
    pthread_mutex_unlock(&p->lock);
}

/* ---- what lies there ------------------------------------------------------------------------- */

static bool block_holds(uint64_t base, uint64_t n, uint64_t addr, uint64_t size, bool whole)
{
    return whole ? addr == base && round_up(size, SG_MEM_GRANULE) == n
                 : size != 0 && size <= n - (addr - base);
}

/* Finds the block of a range and marks it; only the whole of one is committed, any part of it is
 * mapped. The caller holds the lock. */
static enum tb_status block_mark(struct sg_mem *m, uint64_t addr, uint64_t size, uint64_t add,
                                 struct tb_error *err)
{
    struct sg_mem_private *p = m->priv;
    uint64_t base = 0, n = 0, state = 0;

    if (!sg_index_find(p->blocks, addr, &base, &n, &state) ||
        !block_holds(base, n, addr, size, add == BLOCK_COMMITTED))
        return tb_fail(err, TB_ERR_ARG, "%#llx is no reservation of %llu bytes",
                       (unsigned long long)addr, (unsigned long long)size);
    state |= add;
    sg_index_update(p->blocks, base, &state);
    return TB_OK;
}

enum tb_status sg_mem_commit(struct sg_mem *m, uint64_t addr, size_t size, struct tb_error *err)
{
    uint64_t first = round_down(addr, PAGE), last = round_up(addr + size, PAGE);
    enum tb_status st;

    pthread_mutex_lock(&m->priv->lock);
    st = block_mark(m, addr, size, BLOCK_COMMITTED, err);
    if (!st && mprotect((void *)(uintptr_t)first, last - first, PROT_READ | PROT_WRITE))
        st = tb_fail_sys(err, TB_ERR_NOMEM, errno, "cannot commit %zu bytes", size);
    pthread_mutex_unlock(&m->priv->lock);
    return st;
}

enum tb_status sg_mem_map(struct sg_mem *m, uint64_t addr, size_t size, int fd, uint64_t offset,
                          struct tb_error *err)
{
    enum tb_status st;

    if ((addr | size | offset) & (PAGE - 1))
        return tb_fail(err, TB_ERR_ARG, "cannot map at %#llx: not a whole page",
                       (unsigned long long)addr);
    pthread_mutex_lock(&m->priv->lock);
    st = block_mark(m, addr, size, BLOCK_MAPPED, err);
    if (!st && mmap((void *)(uintptr_t)addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    fd, (off_t)offset) == MAP_FAILED)
        st = tb_fail_sys(err, TB_ERR_NOMEM, errno, "cannot map %zu bytes", size);
    pthread_mutex_unlock(&m->priv->lock);
    return st;
}

void sg_mem_unmap(struct sg_mem *m, uint64_t addr, size_t size)
{
    pthread_mutex_lock(&m->priv->lock);
    sg_mem_allow(m, addr, size, 0, 0);
    if (!block_mark(m, addr, size, BLOCK_MAPPED, NULL))
        remap_none(addr, size);
    pthread_mutex_unlock(&m->priv->lock);
}

static void mask_set(uint8_t *mask, uint64_t n, uint8_t value)
{
    uint64_t first = round_up((uintptr_t)mask, PAGE), last = round_down((uintptr_t)mask + n, PAGE);

    if (value || n < MASK_DROP) {
        memset(mask, value, n);
        return;
    }
    memset(mask, 0, first - (uintptr_t)mask);
    memset((void *)(uintptr_t)last, 0, (uintptr_t)mask + n - last);
    madvise((void *)(uintptr_t)first, last - first, MADV_DONTNEED);
}

void sg_mem_allow(struct sg_mem *m, uint64_t addr, size_t size, uint8_t read, uint8_t write)
{
    uint64_t off = addr - m->base, first, n;

    if (!size || off >= m->span || size > m->span - off)
        return;
    first = off >> SG_MEM_GRANULE_SHIFT;
    n = ((off + size - 1) >> SG_MEM_GRANULE_SHIFT) - first + 1;
    mask_set(m->priv->can_read + first, n, read);
    mask_set(m->priv->can_write + first, n, write);
}

/* ---- host memory outside the range ----------------------------------------------------------- */

enum tb_status sg_mem_register(struct sg_mem *m, uint64_t addr, size_t size, uint8_t mask,
                               struct tb_error *err)
{
    uint64_t value = mask;

    if (addr < m->base + m->span && addr + size > m->base)
        return tb_fail(err, TB_ERR_EXISTS, "%#llx is memory of the device already",
                       (unsigned long long)addr);
    return sg_index_put(m->priv->outside, addr, size, &value, err);
}

void sg_mem_unregister(struct sg_mem *m, uint64_t addr)
{
    sg_index_remove(m->priv->outside, addr, NULL);
}

bool sg_mem_ok_outside(const struct sg_mem *m, uint64_t addr, uint64_t n, uint8_t device_bit)
{
    while (n) {
        uint64_t base = 0, size = 0, mask = 0, left;

        if (!sg_index_find(m->priv->outside, addr, &base, &size, &mask) || !(mask & device_bit))
            return false;
        left = size - (addr - base);
        if (left >= n)
            return true;
        addr += left;
        n -= left;
    }
    return true;
}

bool sg_mem_ok_range(const struct sg_mem *m, uint64_t addr, uint64_t n, uint8_t device_bit,
                     bool write)
{
    uint64_t off = addr - m->base, first, last;
    const uint8_t *can = write ? m->can_write : m->can_read;
    uint8_t all = 0xff;

    if (!n)
        return true;
    if (off >= m->span || n > m->span - off)
        return sg_mem_ok_outside(m, addr, n, device_bit);
    first = off >> SG_MEM_GRANULE_SHIFT;
    last = (off + n - 1) >> SG_MEM_GRANULE_SHIFT;
    for (uint64_t i = first; i <= last; i++)
        all &= can[i];
    return (all & device_bit) != 0;
}
