#include "softgpu/mem/shadow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define DROP_BYTES 65536u /* of bits: from here on pages are dropped instead of cleared */

/* ---- bits ------------------------------------------------------------------------------------ */

static uint64_t mask_of(unsigned at, unsigned n)
{
    return (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << at;
}

/* Whole words belong to one writer; at the edges others may change their bits meanwhile. */
static void change(uint64_t *word, uint64_t mask, uint64_t value)
{
    if (mask == UINT64_MAX) {
        *word = value;
        return;
    }
    __atomic_fetch_and(word, ~mask | value, __ATOMIC_RELAXED);
    __atomic_fetch_or(word, mask & value, __ATOMIC_RELAXED);
}

void sg_bits_put(uint64_t *bits, uint64_t at, unsigned n, uint64_t value)
{
    unsigned shift = at & 63, here = 64 - shift < n ? 64 - shift : n;

    change(&bits[at >> 6], mask_of(shift, here), (value << shift) & mask_of(shift, here));
    if (here < n)
        change(&bits[(at >> 6) + 1], mask_of(0, n - here), (value >> here) & mask_of(0, n - here));
}

uint64_t sg_bits_get(const uint64_t *bits, uint64_t at, unsigned n)
{
    unsigned shift = at & 63;
    uint64_t v = bits[at >> 6] >> shift;

    if (shift + n > 64)
        v |= bits[(at >> 6) + 1] << (64 - shift);
    return v & mask_of(0, n);
}

void sg_bits_set(uint64_t *bits, uint64_t at, uint64_t n, bool value)
{
    while (n) {
        unsigned shift = at & 63, here = 64 - shift < n ? 64 - shift : (unsigned)n;

        change(&bits[at >> 6], mask_of(shift, here), value ? mask_of(shift, here) : 0);
        at += here;
        n -= here;
    }
}

uint64_t sg_bits_find(const uint64_t *bits, uint64_t at, uint64_t n, bool value)
{
    uint64_t end = at + n, from = at;

    while (at < end) {
        uint64_t word = (value ? bits[at >> 6] : ~bits[at >> 6]) >> (at & 63);

        if (word) {
            at += (unsigned)__builtin_ctzll(word);
            return at < end ? at - from : n;
        }
        at = (at | 63) + 1;
    }
    return n;
}

/* ---- the space ------------------------------------------------------------------------------- */

static uint64_t *plane(uint64_t span)
{
    void *p = mmap(NULL, span / 8, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, span / 8, MADV_DONTDUMP);
    return p;
}

enum tb_status sg_shadow_new(const struct sg_mem *m, struct sg_shadow **out, struct tb_error *err)
{
    struct sg_shadow *s = calloc(1, sizeof(*s));

    if (!s)
        return tb_fail(err, TB_ERR_NOMEM, "cannot shadow memory: no memory");
    s->base = m->base;
    s->span = m->span;
    s->defined = plane(m->span);
    s->gaps = plane(m->span);
    if (!s->defined || !s->gaps) {
        sg_shadow_free(s);
        return tb_fail_sys(err, TB_ERR_NOMEM, errno, "cannot reserve addresses for the shadow");
    }
    *out = s;
    return TB_OK;
}

void sg_shadow_free(struct sg_shadow *s)
{
    if (!s)
        return;
    if (s->defined)
        munmap(s->defined, s->span / 8);
    if (s->gaps)
        munmap(s->gaps, s->span / 8);
    free(s);
}

/* Where a range begins in the space; what lies outside of it is cut off. */
static bool inside(const struct sg_shadow *s, uint64_t addr, uint64_t *n, uint64_t *at)
{
    *at = addr - s->base;
    if (*at >= s->span)
        return false;
    *n = *n < s->span - *at ? *n : s->span - *at;
    return true;
}

static void clear_plane(uint64_t *bits, uint64_t at, uint64_t n)
{
    uintptr_t first = (uintptr_t)bits + at / 8, last = first + n / 8;
    uintptr_t from = (first + PAGE - 1) & ~(uintptr_t)(PAGE - 1),
              to = last & ~(uintptr_t)(PAGE - 1);

    if (n / 8 < DROP_BYTES || from >= to) {
        sg_bits_set(bits, at, n, false);
        return;
    }
    memset((void *)first, 0, from - first);
    madvise((void *)from, to - from, MADV_DONTNEED);
    memset((void *)to, 0, last - to);
}

void sg_shadow_drop(struct sg_shadow *s, uint64_t addr, uint64_t size)
{
    uint64_t at = 0, n = (size + SG_MEM_GRANULE - 1) & ~(uint64_t)(SG_MEM_GRANULE - 1);

    if (!size || !inside(s, addr, &n, &at))
        return;
    clear_plane(s->defined, at, n);
    clear_plane(s->gaps, at, n);
}

void sg_shadow_alloc(struct sg_shadow *s, uint64_t addr, uint64_t size, bool defined)
{
    uint64_t rest = -(addr + size) & (SG_MEM_GRANULE - 1);

    sg_shadow_drop(s, addr, size);
    if (defined)
        sg_shadow_define(s, addr, size, true);
    sg_shadow_gap(s, addr + size, rest, true);
}

void sg_shadow_define(struct sg_shadow *s, uint64_t addr, uint64_t n, bool defined)
{
    uint64_t at = 0;

    if (inside(s, addr, &n, &at))
        sg_bits_set(s->defined, at, n, defined);
}

void sg_shadow_gap(struct sg_shadow *s, uint64_t addr, uint64_t n, bool gap)
{
    uint64_t at = 0;

    if (inside(s, addr, &n, &at))
        sg_bits_set(s->gaps, at, n, gap);
}

static void copy_bits(uint64_t *bits, uint64_t to, uint64_t from, uint64_t n)
{
    bool down = to > from && to - from < n;

    for (uint64_t done = 0; done < n;) {
        unsigned here = n - done < 64 ? (unsigned)(n - done) : 64;
        uint64_t at = down ? n - done - here : done;

        sg_bits_put(bits, to + at, here, sg_bits_get(bits, from + at, here));
        done += here;
    }
}

void sg_shadow_copy(struct sg_shadow *s, uint64_t dst, uint64_t src, uint64_t n)
{
    uint64_t to = 0, from = 0, same = n;

    if (!inside(s, dst, &n, &to))
        return;
    if (inside(s, src, &same, &from) && same == n)
        copy_bits(s->defined, to, from, n);
    else
        sg_bits_set(s->defined, to, n, true);
}

uint64_t sg_shadow_undefined(const struct sg_shadow *s, uint64_t addr, uint64_t n)
{
    uint64_t at = 0, in = n, found;

    if (!inside(s, addr, &in, &at))
        return n;
    found = sg_bits_find(s->defined, at, in, false);
    return found < in ? found : n;
}

uint64_t sg_shadow_in_gap(const struct sg_shadow *s, uint64_t addr, uint64_t n)
{
    uint64_t at = 0, in = n, found;

    if (!inside(s, addr, &in, &at))
        return n;
    found = sg_bits_find(s->gaps, at, in, true);
    return found < in ? found : n;
}
