/* What the device's own functions do: vprintf, malloc, free, __assertfail. */
#include "softgpu/exec/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum sg_builtin sg_builtin_find(const char *name)
{
    static const struct {
        const char *name;
        enum sg_builtin id;
    } rows[] = {{"vprintf", SG_BUILTIN_VPRINTF},
                {"malloc", SG_BUILTIN_MALLOC},
                {"free", SG_BUILTIN_FREE},
                {"__assertfail", SG_BUILTIN_ASSERTFAIL}};

    for (size_t i = 0; i < TB_ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].id;
    return SG_BUILTIN_NONE;
}

static uint64_t argument(const struct sg_warp *w, const struct sg_call_site *s, uint32_t i,
                         unsigned lane)
{
    uint64_t v = 0;

    if (i < s->nargs)
        memcpy(&v, w->local + (size_t)lane * w->local_cap + w->lp + s->args[i].offset,
               s->args[i].size < 8 ? s->args[i].size : 8);
    return v;
}

static void give_back(struct sg_warp *w, const struct sg_call_site *s, unsigned lane, uint64_t v)
{
    if (s->nrets > 0)
        memcpy(w->local + (size_t)lane * w->local_cap + w->lp + s->rets[0].offset, &v,
               s->rets[0].size < 8 ? s->rets[0].size : 8);
}

/* ---- printf ---------------------------------------------------------------------------------- */

#define LINE_MAX_BYTES 4096

struct out {
    char text[LINE_MAX_BYTES];
    size_t n;
};

static void put(struct out *o, const char *s, size_t n)
{
    if (n > sizeof(o->text) - o->n)
        n = sizeof(o->text) - o->n;
    memcpy(o->text + o->n, s, n);
    o->n += n;
}

/* A string of device memory, to its NUL or to where memory ends. */
static size_t device_string(struct sg_warp *w, unsigned lane, uint64_t addr, char *buf, size_t max)
{
    size_t n = 0;

    while (n + 1 < max) {
        const char *c = sg_lane_generic(w, lane, addr + n, 1, false);
        if (c == NULL || *c == 0)
            break;
        buf[n++] = *c;
    }
    buf[n] = 0;
    return n;
}

/* The arguments of vprintf lie one after the other, each aligned to its size. */
struct args {
    struct sg_warp *w;
    unsigned lane;
    uint64_t addr, at;
    uint32_t n; /* taken so far */
};

static uint64_t next_arg(struct args *a, unsigned size)
{
    uint64_t v = 0;

    a->n++;
    a->at = (a->at + size - 1) & ~(uint64_t)(size - 1);
    const void *p = sg_lane_generic(a->w, a->lane, a->addr + a->at, size, false);
    if (p != NULL)
        memcpy(&v, p, size);
    a->at += size;
    return v;
}

static void format_value(struct out *o, const char *spec, char conv, int longs, struct args *a)
{
    char buf[512], text[LINE_MAX_BYTES];
    int n;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    switch (conv) {
    case 'd':
    case 'i':
        n = longs ? snprintf(buf, sizeof(buf), spec, (int64_t)next_arg(a, 8))
                  : snprintf(buf, sizeof(buf), spec, (int64_t)(int32_t)next_arg(a, 4));
        break;
    case 'c':
        n = snprintf(buf, sizeof(buf), spec, (int)next_arg(a, 4));
        break;
    case 's':
        device_string(a->w, a->lane, next_arg(a, 8), text, sizeof(text));
        n = snprintf(buf, sizeof(buf), spec, text);
        if (n >= (int)sizeof(buf)) { /* longer than any number: as it is */
            put(o, text, strlen(text));
            return;
        }
        break;
    case 'p':
        n = snprintf(buf, sizeof(buf), spec, (void *)(uintptr_t)next_arg(a, 8));
        break;
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A': {
        uint64_t bits = next_arg(a, 8);
        double v;
        memcpy(&v, &bits, sizeof(v));
        n = snprintf(buf, sizeof(buf), spec, v);
        break;
    }
    default:
        n = snprintf(buf, sizeof(buf), spec, longs ? next_arg(a, 8) : next_arg(a, 4));
        break;
    }
#pragma GCC diagnostic pop
    if (n > 0)
        put(o, buf, (size_t)n < sizeof(buf) ? (size_t)n : sizeof(buf) - 1);
}

/* One conversion, @f behind its '%'; returns what follows. Widths are cut to 3 digits. */
static const char *conversion(struct out *o, const char *f, struct args *a)
{
    char spec[48] = "%";
    size_t n = 1;
    int longs = 0;

    while (*f && strchr("-+ #0123456789.*", *f) && n < 24) {
        if (*f == '*')
            n += (size_t)snprintf(spec + n, sizeof(spec) - n, "%d", (int)next_arg(a, 4) % 1000);
        else
            spec[n++] = *f;
        f++;
    }
    for (; *f && strchr("hljztLq", *f); f++)
        longs |= *f == 'l' || *f == 'j' || *f == 'z' || *f == 't' || *f == 'q';
    if (*f == 0)
        return f;
    if (strchr("dixXou", *f)) { /* everything is printed as 64 bits */
        memcpy(spec + n, *f == 'd' || *f == 'i' ? PRId64 : PRIu64, sizeof(PRId64));
        spec[n + strlen(PRId64) - 1] = *f;
        spec[n + strlen(PRId64)] = 0;
    } else if (strchr("cspfFeEgGaA", *f)) {
        spec[n] = *f;
        spec[n + 1] = 0;
    } else { /* nothing that CUDA knows: printed as it stands */
        put(o, spec, n);
        put(o, f, 1);
        return f + 1;
    }
    format_value(o, spec, *f, longs, a);
    return f + 1;
}

/* Returns what printf does: how many arguments were taken. */
static uint32_t lane_printf(struct sg_warp *w, const struct sg_call_site *s, unsigned lane)
{
    const struct sg_launch *l = w->block->run->launch;
    char fmt[LINE_MAX_BYTES];
    struct out *o = calloc(1, sizeof(*o));
    struct args a = {.w = w, .lane = lane, .addr = argument(w, s, 1, lane)};

    if (o == NULL)
        return UINT32_MAX;
    device_string(w, lane, argument(w, s, 0, lane), fmt, sizeof(fmt));
    for (const char *f = fmt; *f;) {
        if (*f != '%') {
            size_t n = strcspn(f, "%");
            put(o, f, n);
            f += n;
        } else if (f[1] == '%') {
            put(o, f, 1);
            f += 2;
        } else {
            f = conversion(o, f + 1, &a);
        }
    }
    if (l->print != NULL) {
        pthread_mutex_lock(&w->block->run->all->lock);
        l->print(l->print_arg, o->text, o->n);
        pthread_mutex_unlock(&w->block->run->all->lock);
    }
    free(o);
    return a.n;
}

/* ---- malloc ---------------------------------------------------------------------------------- */

/* Pieces of the heap in the order of their addresses. */
struct piece {
    uint64_t at, size;
    bool used, held; /* held: free, and not to be used again yet */
};

struct sg_heap {
    struct sg_mem *mem;
    uint64_t addr, size;
    struct piece *piece;
    size_t n, cap;
};

#define HEAP_ALIGN 16u

static struct sg_heap *heap_of(struct sg_machine *m, const struct sg_launch *l)
{
    struct sg_heap *h = m->heaps[l->device];
    uint64_t size = (l->malloc_heap + SG_MEM_GRANULE - 1) & ~(uint64_t)(SG_MEM_GRANULE - 1);

    if (h != NULL || size == 0)
        return h;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        return NULL;
    h->mem = m->mem;
    h->size = size;
    h->cap = 64;
    h->piece = calloc(h->cap, sizeof(*h->piece));
    if (h->piece == NULL || sg_mem_reserve(m->mem, size, 4096, 0, &h->addr, NULL) != TB_OK) {
        free(h->piece);
        free(h);
        return NULL;
    }
    if (sg_mem_commit(m->mem, h->addr, size, NULL) != TB_OK) {
        sg_heap_destroy(h);
        return NULL;
    }
    sg_mem_allow(m->mem, h->addr, size, (uint8_t)(1u << l->device), (uint8_t)(1u << l->device));
    h->piece[h->n++] = (struct piece){.size = size};
    m->heaps[l->device] = h;
    return h;
}

void sg_heap_destroy(struct sg_heap *h)
{
    if (h == NULL)
        return;
    sg_mem_allow(h->mem, h->addr, h->size, 0, 0);
    sg_mem_release(h->mem, h->addr);
    free(h->piece);
    free(h);
}

static bool heap_insert(struct sg_heap *h, size_t i, struct piece p)
{
    if (h->n == h->cap) {
        struct piece *q = realloc(h->piece, h->cap * 2 * sizeof(*q));
        if (q == NULL)
            return false;
        h->piece = q;
        h->cap *= 2;
    }
    memmove(h->piece + i + 1, h->piece + i, (h->n - i) * sizeof(p));
    h->piece[i] = p;
    h->n++;
    return true;
}

static uint64_t heap_take(struct sg_heap *h, uint64_t size)
{
    for (size_t i = 0; i < h->n; i++) {
        struct piece p = h->piece[i];
        if (p.used || p.held || p.size < size)
            continue;
        if (p.size > size &&
            !heap_insert(h, i + 1, (struct piece){.at = p.at + size, .size = p.size - size}))
            return 0;
        h->piece[i] = (struct piece){.at = p.at, .size = size, .used = true};
        return h->addr + p.at;
    }
    return 0;
}

static void heap_join(struct sg_heap *h, size_t i)
{
    if (i + 1 >= h->n || h->piece[i].used || h->piece[i + 1].used || h->piece[i].held ||
        h->piece[i + 1].held)
        return;
    h->piece[i].size += h->piece[i + 1].size;
    memmove(h->piece + i + 1, h->piece + i + 2, (h->n - i - 2) * sizeof(*h->piece));
    h->n--;
}

/* Pieces that were held are free like others. */
static void heap_let_go(struct sg_heap *h)
{
    for (size_t i = 0; i < h->n; i++)
        h->piece[i].held = false;
    for (size_t i = h->n; i-- > 0;)
        heap_join(h, i);
}

uint64_t sg_heap_alloc(struct sg_machine *m, const struct sg_launch *l, uint64_t size)
{
    struct sg_heap *h = heap_of(m, l);
    uint64_t addr;

    if (h == NULL || size == 0 || size > h->size)
        return 0;
    size = (size + HEAP_ALIGN - 1) & ~(uint64_t)(HEAP_ALIGN - 1);
    addr = heap_take(h, size);
    if (addr != 0)
        return addr;
    heap_let_go(h);
    return heap_take(h, size);
}

bool sg_heap_range(const struct sg_machine *m, uint32_t device, uint64_t *addr, uint64_t *size)
{
    const struct sg_heap *h = m->heaps[device];

    if (h != NULL) {
        *addr = h->addr;
        *size = h->size;
    }
    return h != NULL;
}

bool sg_heap_free_block(struct sg_machine *m, uint32_t device, uint64_t addr, bool hold)
{
    struct sg_heap *h = m->heaps[device];
    size_t lo = 0, hi = h != NULL ? h->n : 0;

    if (addr == 0)
        return true;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (h->addr + h->piece[mid].at < addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (h == NULL || lo == h->n || h->addr + h->piece[lo].at != addr || !h->piece[lo].used)
        return false;
    h->piece[lo].used = false;
    h->piece[lo].held = hold;
    heap_join(h, lo);
    if (lo > 0)
        heap_join(h, lo - 1);
    return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const struct sg_insn *assert_failed(struct sg_warp *w, const struct sg_insn *in,
                                           const struct sg_call_site *s, unsigned lane)
{
    const struct sg_launch *l = w->block->run->launch;
    char what[200], file[200], func[200], text[1024];

    device_string(w, lane, argument(w, s, 0, lane), what, sizeof(what));
    device_string(w, lane, argument(w, s, 1, lane), file, sizeof(file));
    device_string(w, lane, argument(w, s, 3, lane), func, sizeof(func));
    int n =
        snprintf(text, sizeof(text),
                 "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file,
                 (unsigned)argument(w, s, 2, lane), func, w->block->id[0], w->block->id[1],
                 w->block->id[2], w->tid[0][lane], w->tid[1][lane], w->tid[2][lane], what);
    (void)n;
    (void)l;
    fputs(text, stderr); /* where CUDA's assert writes */
    return sg_warp_fault(w, in, SG_FAULT_ASSERT, lane, 0, "assertion failed");
}

static uint64_t lane_malloc(struct sg_warp *w, unsigned lane, uint64_t size)
{
    struct sg_run *r = w->block->run;
    uint64_t at = 0, n = 0;
    bool there = sg_heap_range(r->machine, r->launch->device, &at, &n);
    uint64_t addr = sg_heap_alloc(r->machine, r->launch, size);

    if (!r->watched)
        return addr;
    if (!there && sg_heap_range(r->machine, r->launch->device, &at, &n))
        sg_watch_heap(w, lane, SG_HEAP_MADE, at, n);
    if (addr != 0)
        sg_watch_heap(w, lane, SG_HEAP_ALLOC, addr, size);
    return addr;
}

static bool lane_free(struct sg_warp *w, unsigned lane, uint64_t addr)
{
    struct sg_run *r = w->block->run;

    if (!sg_heap_free_block(r->machine, r->launch->device, addr,
                            r->watched && sg_watch_serial(r->launch)))
        return false;
    if (r->watched && addr != 0)
        sg_watch_heap(w, lane, SG_HEAP_FREE, addr, 0);
    return true;
}

const struct sg_insn *sg_builtin_call(struct sg_warp *w, const struct sg_insn *in)
{
    const struct sg_call_site *s = in->ptr;

    for (unsigned lane = 0; lane < SG_WARP; lane++) {
        if (!(w->mask >> lane & 1))
            continue;
        switch (s->builtin) {
        case SG_BUILTIN_VPRINTF:
            give_back(w, s, lane, lane_printf(w, s, lane));
            break;
        case SG_BUILTIN_MALLOC:
            give_back(w, s, lane, lane_malloc(w, lane, argument(w, s, 0, lane)));
            break;
        case SG_BUILTIN_FREE:
            if (!lane_free(w, lane, argument(w, s, 0, lane)))
                return sg_warp_fault(w, in, SG_FAULT_TRAP, lane, argument(w, s, 0, lane),
                                     "free of something that malloc did not give");
            break;
        default:
            return assert_failed(w, in, s, lane);
        }
    }
    return in + 1;
}
