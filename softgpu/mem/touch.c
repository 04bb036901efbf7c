/* An open-addressing table of lines of 512 bytes, each with a bit a byte and kind. */
#include "softgpu/mem/touch.h"

#include <stdlib.h>
#include <string.h>

#define LINE_SHIFT 9
#define LINE (1u << LINE_SHIFT)
#define WORDS (LINE / 64)

struct line {
    uint64_t number; /* address >> LINE_SHIFT */
    uint64_t bits[SG_TOUCH_KINDS][WORDS];
};

struct sg_touch {
    struct line *lines; /* in the order they were first met */
    size_t n, room;
    uint32_t *table; /* 1 + index of a line; 0: free */
    size_t size;     /* a power of two */
    size_t last;     /* index of the line met last */
    bool lost;
};

enum tb_status sg_touch_new(struct sg_touch **out, struct tb_error *err)
{
    struct sg_touch *t = calloc(1, sizeof(*t));

    if (!t)
        return tb_fail(err, TB_ERR_NOMEM, "cannot note accesses: no memory");
    *out = t;
    return TB_OK;
}

void sg_touch_free(struct sg_touch *t)
{
    if (!t)
        return;
    free(t->lines);
    free(t->table);
    free(t);
}

void sg_touch_clear(struct sg_touch *t)
{
    free(t->lines);
    free(t->table);
    memset(t, 0, sizeof(*t));
}

static size_t place_of(const struct sg_touch *t, uint64_t number)
{
    return (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (t->size - 1);
}

static void enter(struct sg_touch *t, size_t index)
{
    size_t at = place_of(t, t->lines[index].number);

    while (t->table[at])
        at = (at + 1) & (t->size - 1);
    t->table[at] = (uint32_t)index + 1;
}

static bool grow_table(struct sg_touch *t)
{
    size_t size = t->size ? t->size * 2 : 64;
    uint32_t *table = calloc(size, sizeof(*table));

    if (!table)
        return false;
    free(t->table);
    t->table = table;
    t->size = size;
    for (size_t i = 0; i < t->n; i++)
        enter(t, i);
    return true;
}

static bool room_for_one(struct sg_touch *t)
{
    size_t room = t->room ? t->room * 2 : 32;
    struct line *lines;

    if (t->n == UINT32_MAX || (2 * (t->n + 1) > t->size && !grow_table(t)))
        return false;
    if (t->lines && t->n < t->room)
        return true;
    lines = realloc(t->lines, room * sizeof(*lines));
    if (!lines)
        return false;
    t->lines = lines;
    t->room = room;
    return true;
}

static struct line *line_of(struct sg_touch *t, uint64_t number)
{
    size_t at;

    if (t->lines && t->n && t->lines[t->last].number == number)
        return &t->lines[t->last];
    for (at = t->size ? place_of(t, number) : 0; t->lines && t->size && t->table[at];
         at = (at + 1) & (t->size - 1)) {
        if (t->lines[t->table[at] - 1].number == number) {
            t->last = t->table[at] - 1;
            return &t->lines[t->last];
        }
    }
    if (!room_for_one(t)) {
        t->lost = true;
        return NULL;
    }
    t->last = t->n++;
    memset(&t->lines[t->last], 0, sizeof(t->lines[0]));
    t->lines[t->last].number = number;
    enter(t, t->last);
    return &t->lines[t->last];
}

/* Bits [from, from + n) of a line. */
static void set_bits(uint64_t bits[WORDS], unsigned from, unsigned n)
{
    while (n) {
        unsigned at = from & 63, here = 64 - at < n ? 64 - at : n;
        uint64_t mask = here == 64 ? UINT64_MAX : ((UINT64_C(1) << here) - 1) << at;

        bits[from >> 6] |= mask;
        from += here;
        n -= here;
    }
}

void sg_touch_mark(struct sg_touch *t, uint64_t addr, uint64_t n, enum sg_touch_kind kind)
{
    while (n) {
        unsigned from = (unsigned)(addr & (LINE - 1));
        unsigned here = LINE - from < n ? LINE - from : (unsigned)n;
        struct line *line = line_of(t, addr >> LINE_SHIFT);

        if (!line)
            return;
        set_bits(line->bits[kind], from, here);
        addr += here;
        n -= here;
    }
}

void sg_touch_merge(struct sg_touch *into, const struct sg_touch *from)
{
    into->lost |= from->lost;
    for (size_t i = 0; i < from->n; i++) {
        struct line *line = line_of(into, from->lines[i].number);

        for (unsigned k = 0; line && k < SG_TOUCH_KINDS; k++)
            for (unsigned w = 0; w < WORDS; w++)
                line->bits[k][w] |= from->lines[i].bits[k][w];
    }
}

bool sg_touch_lost(const struct sg_touch *t)
{
    return t->lost;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const struct line *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

/* The first bit at or behind @from that is @set; LINE: there is none. */
static unsigned find_bit(const uint64_t bits[WORDS], unsigned from, bool set)
{
    while (from < LINE) {
        uint64_t word = (set ? bits[from >> 6] : ~bits[from >> 6]) >> (from & 63);

        if (word)
            return from + (unsigned)__builtin_ctzll(word);
        from = (from | 63) + 1;
    }
    return LINE;
}

struct range {
    uint64_t addr, n;
};

/* Adds [addr, addr + n) to the range being made, or tells that one and begins another. */
static bool add(struct range *r, uint64_t addr, uint64_t n, enum sg_touch_kind kind,
                sg_touch_fn *fn, void *arg)
{
    bool go_on = true;

    if (r->n && r->addr + r->n == addr) {
        r->n += n;
        return true;
    }
    if (r->n)
        go_on = fn(arg, r->addr, r->n, kind);
    *r = (struct range){addr, n};
    return go_on;
}

static bool each_of(const struct sg_touch *t, enum sg_touch_kind kind, sg_touch_fn *fn, void *arg)
{
    struct range r = {0};

    for (size_t i = 0; i < t->n; i++) {
        const uint64_t *bits = t->lines[i].bits[kind];
        uint64_t base = t->lines[i].number << LINE_SHIFT;
        unsigned from, to;

        for (from = find_bit(bits, 0, true); from < LINE; from = find_bit(bits, to, true)) {
            to = find_bit(bits, from, false);
            if (!add(&r, base + from, to - from, kind, fn, arg))
                return false;
        }
    }
    return !r.n || fn(arg, r.addr, r.n, kind);
}

void sg_touch_each(struct sg_touch *t, sg_touch_fn *fn, void *arg)
{
    if (!t->lines)
        return;
    qsort(t->lines, t->n, sizeof(*t->lines), by_number);
    if (t->size)
        memset(t->table, 0, t->size * sizeof(*t->table));
    for (size_t i = 0; i < t->n; i++)
        enter(t, i);
    t->last = 0;
    for (unsigned k = 0; k < SG_TOUCH_KINDS; k++)
        if (!each_of(t, (enum sg_touch_kind)k, fn, arg))
            return;
}
