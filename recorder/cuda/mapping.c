/* Memory that is mapped (cuMemMap): which it is, wherever that is, and in what a buffer goes on. */
#include "recorder/cuda/engine.h"

/*
 * What tb_cu.physical has of a handle: the ordinal of its memory, 0: it was not mapped yet; and how
 * many releases it takes until the handle may mean other memory.
 */
#define REFS 0xffu
#define PACK(ordinal, refs) ((void *)(uintptr_t)((ordinal) << 8 | (refs)))

static uint64_t get(uint64_t handle)
{
    return HANDLE(tb_cu_map_get(&tb_cu.physical, handle));
}

static void put(uint64_t handle, uint64_t ordinal, uint64_t refs)
{
    (void)tb_cu_map_put(&tb_cu.physical, handle, PACK(ordinal, refs < REFS ? refs : REFS));
}

/* Both are one memory from now on. */
static void alias(struct tb_cu_alloc *a)
{
    for (uint32_t i = 0; i < tb_cu.allocs; i++) {
        struct tb_cu_alloc *other = tb_cu.alloc[i];
        if (other == a || other->ordinal != a->ordinal)
            continue;
        a->alias = other->alias = true;
        tb_cu_alloc_changed(a);
        tb_cu_alloc_changed(other);
    }
}

/* The memory of a handle has one ordinal, wherever it is mapped, and when: mappings begin where it
 * does, for CUDA takes no other offset. */
void tb_cu_mapped(uint64_t base, uint64_t handle)
{
    struct tb_cu_alloc *a = tb_cu_alloc_around(base);
    uint64_t known = get(handle);

    if (!a || a->base != base)
        return;
    a->mapped = handle;
    a->starts = tb_cu_map_get(&tb_cu.reserved, base) != NULL;
    if (known >> 8) {
        a->ordinal = known >> 8;
        alias(a);
    } else {
        put(handle, a->ordinal, known ? known & REFS : 1);
    }
}

/* One more handle of what is mapped there. */
static void retained(uint64_t handle, const void *address)
{
    const struct tb_cu_alloc *a = tb_cu_alloc_around((uint64_t)(uintptr_t)address);
    uint64_t known = get(handle);

    if (a && a->mapped && a->ordinal)
        put(handle, a->ordinal, known >> 8 == a->ordinal ? (known & REFS) + 1 : 1);
}

static void release(uint64_t handle)
{
    uint64_t known = get(handle), refs = known & REFS;

    if (refs > 1 && refs < REFS)
        put(handle, known >> 8, refs - 1);
    else if (refs == 1)
        (void)tb_cu_map_take(&tb_cu.physical, handle);
}

/* Before the driver may give the same to another thread. */
void tb_cu_mapping_enter(const struct tb_cuda_call *c)
{
    tb_cu_lock();
    if (c->id == TB_CUDA_cuMemRelease) {
        PARAMS(cuMemRelease);
        release(p->handle);
    } else {
        PARAMS(cuMemAddressFree);
        (void)tb_cu_map_take(&tb_cu.reserved, p->ptr);
    }
    tb_cu_unlock();
}

void tb_cu_mapping_exit(const struct tb_cuda_call *c)
{
    tb_cu_lock();
    if (c->id == TB_CUDA_cuMemCreate) {
        PARAMS(cuMemCreate);
        put(*p->handle, 0, 1);
    } else if (c->id == TB_CUDA_cuMemRetainAllocationHandle) {
        PARAMS(cuMemRetainAllocationHandle);
        retained(*p->handle, p->addr);
    } else {
        PARAMS(cuMemAddressReserve);
        (void)tb_cu_map_put(&tb_cu.reserved, *p->ptr, &tb_cu);
    }
    tb_cu_unlock();
}

struct tb_cu_alloc *tb_cu_goes_on(uint64_t address)
{
    struct tb_cu_alloc *a = tb_cu_alloc_around(address);

    if (!a || !a->mapped || a->device == TB_CU_NO_DEVICE || (a->starts && a->base == address))
        return NULL;
    return a;
}

uint64_t tb_cu_room_at(const struct tb_cu_alloc *a, uint64_t address)
{
    uint64_t end = a->base + a->bytes;

    while (a && a->mapped && (a = tb_cu_goes_on(end)) != NULL)
        end = a->base + a->bytes;
    return end - address;
}
