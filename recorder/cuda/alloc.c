/* Which memory belongs to which allocation: arrays by address, for all devices and kinds. */
#include <string.h>

#include "recorder/cuda/engine.h"

struct list {
    struct tb_cu_alloc ***array;
    uint32_t *count, *capacity;
};

static struct list allocations(void)
{
    return (struct list){&tb_cu.alloc, &tb_cu.allocs, &tb_cu.alloc_capacity};
}

static struct list blocks(void)
{
    return (struct list){&tb_cu.block, &tb_cu.blocks, &tb_cu.block_capacity};
}

/* How many begin at or before @address. */
static uint32_t upper(const struct list *l, uint64_t address)
{
    uint32_t lo = 0, hi = *l->count;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if ((*l->array)[mid]->base <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct tb_cu_alloc *at(const struct list *l, uint64_t address)
{
    uint32_t n = upper(l, address);
    struct tb_cu_alloc *a = n ? (*l->array)[n - 1] : NULL;

    return a && address - a->base < a->bytes ? a : NULL;
}

static struct tb_cu_alloc *search(uint64_t address)
{
    struct list b = blocks(), l = allocations();
    struct tb_cu_alloc *a = tb_cu.blocks ? at(&b, address) : NULL;

    return a ? a : at(&l, address);
}

struct tb_cu_alloc *tb_cu_alloc_at(uint64_t address)
{
    struct tb_cu_found *f = &tb_cu.found[(address >> 4 ^ address >> 12) & (TB_CU_FOUND - 1)];

    if (tb_likely(f->address == address && f->changes == tb_cu.alloc_changes))
        return f->alloc;
    *f = (struct tb_cu_found){address, tb_cu.alloc_changes, search(address)};
    return f->alloc;
}

struct tb_cu_alloc *tb_cu_alloc_around(uint64_t address)
{
    struct list l = allocations();

    return at(&l, address);
}

uint64_t tb_cu_run(uint64_t address)
{
    const struct tb_cu_alloc *a = tb_cu_alloc_at(address);
    uint64_t n = a ? a->bytes - (address - a->base) : 0;
    struct list b = blocks();
    uint32_t next = n && tb_cu.blocks ? upper(&b, address) : UINT32_MAX;

    if (next < tb_cu.blocks && tb_cu.block[next]->base - address < n)
        n = tb_cu.block[next]->base - address;
    return n;
}

static bool room(const struct list *l)
{
    uint32_t capacity = *l->capacity ? *l->capacity * 2 : 256;

    if (*l->count < *l->capacity)
        return true;
    struct tb_cu_alloc **bigger = tb_cu_small(capacity * sizeof(*bigger));
    if (!bigger)
        return false;
    if (*l->count)
        memcpy(bigger, *l->array, *l->count * sizeof(*bigger));
    *l->array = bigger;
    *l->capacity = capacity;
    return true;
}

static void give_back(struct tb_cu_alloc *a)
{
    a->ordinal = 0;
    tb_cu_alloc_changed(a);
    a->next_free = tb_cu.free_allocs;
    tb_cu.free_allocs = a;
}

static void remove_at(const struct list *l, uint32_t i)
{
    tb_cu.alloc_changes++;
    give_back((*l->array)[i]);
    memmove(*l->array + i, *l->array + i + 1, (*l->count - i - 1) * sizeof(**l->array));
    (*l->count)--;
}

static void remove_range(const struct list *l, uint64_t base, uint64_t bytes)
{
    uint32_t i = base ? upper(l, base - 1) : 0;

    while (i < *l->count && (*l->array)[i]->base - base < bytes)
        remove_at(l, i);
}

/* Whatever lay there before is gone: its end was not seen. */
static void add(const struct list *l, struct tb_cu_alloc *a)
{
    struct tb_cu_alloc *before = at(l, a->base);

    if (before && before->base != a->base)
        remove_range(l, before->base, 1);
    remove_range(l, a->base, a->bytes);
    if (!room(l)) {
        give_back(a);
        return;
    }
    uint32_t i = upper(l, a->base);
    memmove(*l->array + i + 1, *l->array + i, (*l->count - i) * sizeof(**l->array));
    (*l->array)[i] = a;
    (*l->count)++;
    if (a->mapped && i)
        tb_cu_alloc_changed((*l->array)[i - 1]);
    tb_cu.alloc_changes++;
}

static uint64_t maker(void)
{
    uint64_t known = tb_cu.api->maker();

    return known ? known : tb_cu_is_main_thread() ? TB_CU_MAIN_THREAD : TB_CU_OTHER_THREAD;
}

struct tb_cu_alloc *tb_cu_alloc_new(uint64_t base, uint64_t bytes, int device, uint8_t kind)
{
    struct tb_cu_alloc *a = tb_cu.free_allocs;

    if (a)
        tb_cu.free_allocs = a->next_free;
    else
        a = tb_cu_small(sizeof(*a));
    if (kind == TB_CU_MANAGED || kind == TB_CU_HOST)
        __atomic_store_n(&tb_cu.shared, 1, __ATOMIC_RELAXED);
    if (a)
        *a = (struct tb_cu_alloc){.base = base,
                                  .bytes = bytes,
                                  .version = a->version + 1,
                                  .ordinal = tb_cu.api->alloc_new(),
                                  .maker = maker(),
                                  .tid = tb_cu_thread(),
                                  .device = device,
                                  .kind = kind,
                                  .context = tb_cu_tls.context,
                                  .parting = a->parting,
                                  .unstable = kind == TB_CU_MANAGED || kind == TB_CU_HOST ||
                                              kind == TB_CU_REGISTERED};
    return a;
}

void tb_cu_alloc_add(uint64_t base, uint64_t bytes, int device, uint8_t kind)
{
    struct list l = allocations();
    struct tb_cu_alloc *a = base && bytes ? tb_cu_alloc_new(base, bytes, device, kind) : NULL;

    if (a)
        add(&l, a);
}

/* Onto the chain @to: taken out, and not given back. */
static struct tb_cu_alloc *lift_range(const struct list *l, uint64_t base, uint64_t bytes,
                                      bool block, struct tb_cu_alloc *to)
{
    uint32_t from = base ? upper(l, base - 1) : 0, end;

    if (block && from && (*l->array)[from - 1]->base + (*l->array)[from - 1]->bytes > base)
        from--; /* it reaches into what goes */
    for (end = from; end < *l->count && (*l->array)[end]->base < base + bytes; end++) {
        struct tb_cu_alloc *a = (*l->array)[end];
        a->lifted = a->ordinal;
        a->ordinal = 0;
        a->lifted_block = block;
        tb_cu_alloc_changed(a);
        a->next_free = to;
        to = a;
    }
    if (end > from) {
        tb_cu.alloc_changes++;
        memmove(*l->array + from, *l->array + end, (*l->count - end) * sizeof(**l->array));
        *l->count -= end - from;
    }
    return to;
}

struct tb_cu_alloc *tb_cu_alloc_lift_range(uint64_t base, uint64_t bytes)
{
    struct list l = allocations(), b = blocks();
    struct tb_cu_alloc *chain = lift_range(&b, base, bytes, true, NULL);

    return lift_range(&l, base, bytes, false, chain);
}

struct tb_cu_alloc *tb_cu_alloc_lift(uint64_t base)
{
    struct list l = allocations();
    const struct tb_cu_alloc *a = at(&l, base);

    return a && a->base == base ? tb_cu_alloc_lift_range(base, a->bytes) : NULL;
}

void tb_cu_alloc_settle(struct tb_cu_alloc *chain, bool gone)
{
    struct list l = allocations(), b = blocks();

    while (chain) {
        struct tb_cu_alloc *a = chain;
        chain = a->next_free;
        a->next_free = NULL;
        if (gone) {
            give_back(a);
            continue;
        }
        a->ordinal = a->lifted;
        tb_cu_alloc_changed(a);
        add(a->lifted_block ? &b : &l, a);
    }
}

void tb_cu_alloc_remove(uint64_t base)
{
    tb_cu_alloc_settle(tb_cu_alloc_lift(base), true);
}

void tb_cu_alloc_remove_of(CUcontext context, uint64_t code, int device)
{
    struct list l = allocations();

    for (uint32_t i = tb_cu.allocs; i-- > 0;) {
        const struct tb_cu_alloc *a = tb_cu.alloc[i];
        if ((context && a->context == context) || (code && a->code == code) ||
            (device >= 0 && a->device == device)) {
            struct list b = blocks();
            remove_range(&b, a->base, a->bytes);
            remove_at(&l, i);
        }
    }
}

void tb_cu_alloc_changed_of(int device)
{
    for (uint32_t i = 0; i < tb_cu.allocs; i++)
        if (tb_cu.alloc[i]->device == device)
            tb_cu_alloc_changed(tb_cu.alloc[i]);
    for (uint32_t i = 0; i < tb_cu.blocks; i++)
        if (tb_cu.block[i]->device == device)
            tb_cu_alloc_changed(tb_cu.block[i]);
}

void tb_cu_alloc_device(uint64_t base, uint64_t bytes, int device)
{
    struct list l = allocations();
    uint32_t i = base ? upper(&l, base - 1) : 0;

    if (i)
        tb_cu_alloc_changed((*l.array)[i - 1]); /* what begins there may go on here now */
    for (; i < *l.count && (*l.array)[i]->base - base < bytes; i++) {
        (*l.array)[i]->device = device;
        tb_cu_alloc_changed((*l.array)[i]);
    }
}

void tb_cu_block(int device, uint64_t base, uint64_t bytes)
{
    struct list b = blocks(), l = allocations();
    struct tb_cu_alloc *a;

    if (!bytes) {
        remove_range(&b, base, 1);
        return;
    }
    struct tb_cu_alloc *around = at(&l, base);
    if (around)
        tb_cu_alloc_changed(around);
    a = tb_cu_alloc_new(base, bytes, device, TB_CU_DEVICE);
    if (a)
        add(&b, a);
}

uint32_t tb_cu_pieces(const struct tb_cu_alloc *a, struct tb_cu_piece *out, uint32_t room)
{
    struct list b = blocks();
    uint64_t from = a->base, end = a->base + a->bytes;
    uint32_t n = 0, i = upper(&b, from);

    if (i && tb_cu.block[i - 1]->base + tb_cu.block[i - 1]->bytes > from)
        i--; /* it begins here, or in the mapping before this one */
    for (; i < tb_cu.blocks && tb_cu.block[i]->base < end && n + 2 < room; i++) {
        struct tb_cu_alloc *block = tb_cu.block[i];
        if (block->base > from)
            out[n++] = (struct tb_cu_piece){NULL, from - a->base, block->base - from};
        out[n++] = (struct tb_cu_piece){block, 0, block->bytes};
        from = block->base + block->bytes;
    }
    if (i < tb_cu.blocks && tb_cu.block[i]->base < end)
        return 0;
    if (from < end && n < room)
        out[n++] = (struct tb_cu_piece){NULL, from - a->base, end - from};
    return n;
}

/* ---------------------------------------------------------------- extents */

void tb_cu_bound(struct tb_cu_alloc *a, uint64_t offset)
{
    uint8_t i = 0;

    if (a->bounds && a->bound[0] == offset) /* most pointers are to where it begins */
        return;
    while (i < a->bounds && a->bound[i] < offset)
        i++;
    if ((i < a->bounds && a->bound[i] == offset) || a->bounds == TB_CU_BOUNDS)
        return;
    memmove(&a->bound[i + 1], &a->bound[i], (size_t)(a->bounds - i) * sizeof(a->bound[0]));
    a->bound[i] = offset;
    a->bounds++;
    if (a->split)
        tb_cu_alloc_changed(a);
}

/* What lies in blocks goes by their names: of a pointer that leads to none, up to the nearest ones.
 */
static void between_blocks(const struct tb_cu_alloc *a, uint64_t offset, uint64_t *from,
                           uint64_t *bytes)
{
    struct list l = blocks();
    uint64_t lo = a->base + *from, hi = lo + *bytes;
    uint32_t next = upper(&l, a->base + offset);
    const struct tb_cu_alloc *before = next ? tb_cu.block[next - 1] : NULL;

    if (before == a)
        return;
    if (before && before->base + before->bytes > lo)
        lo = before->base + before->bytes;
    if (next < tb_cu.blocks && tb_cu.block[next]->base < hi)
        hi = tb_cu.block[next]->base;
    *from = lo - a->base;
    *bytes = hi - lo;
}

static void part_of(const struct tb_cu_alloc *a, uint64_t offset, uint64_t *from, uint64_t *bytes)
{
    *from = 0;
    *bytes = a->bytes;
    if (!a->split)
        return;
    *from = offset;
    *bytes = a->bytes - offset;
    for (uint8_t i = 0; i < a->bounds; i++)
        if (a->bound[i] > offset) {
            *bytes = a->bound[i] - offset;
            return;
        }
}

uint64_t tb_cu_until_bound(const struct tb_cu_alloc *a, uint64_t offset, uint64_t bytes)
{
    for (uint8_t i = 0; a->split && i < a->bounds; i++)
        if (a->bound[i] >= offset)
            return a->bound[i] - offset < bytes ? a->bound[i] - offset : bytes;
    return bytes;
}

void tb_cu_extent(struct tb_cu_alloc *a, uint64_t offset, uint64_t *from, uint64_t *bytes)
{
    tb_cu_bound(a, offset);
    part_of(a, offset, from, bytes);
    if (tb_unlikely(tb_cu.blocks))
        between_blocks(a, offset, from, bytes);
}
