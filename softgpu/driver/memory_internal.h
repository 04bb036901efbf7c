/*
 * What the .c files of the driver's memory half share: records of allocations, found without a
 * lock, and the books of who holds how much. Start at struct sg_rec.
 */
#ifndef SG_DRIVER_MEMORY_INTERNAL_H
#define SG_DRIVER_MEMORY_INTERNAL_H

#include "softgpu/driver/core.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/stream.h"
#include "softgpu/mem/index.h"

#include "softgpu/driver/api_gen.h"

/* The value of the index of allocations: copied out by readers, so no pointer to it is kept. */
struct sg_rec {
    struct sg_alloc a;
    void *own;           /* struct sg_managed or sg_phys: read through under the lock only */
    uint64_t phys_id;    /* of what cuMemCreate made */
    uint8_t read, write; /* access masks as in struct sg_mem */
    uint8_t sync_memops;
    uint8_t host;    /* memory of the host: CU_MEMORYTYPE_HOST */
    uint8_t freeing; /* cuMemFreeAsync of it is on its way */
    uint8_t unused[3];
};
#define SG_REC_WORDS (sizeof(struct sg_rec) / 8)

struct sg_place { /* a location and type of memory: its default pool and its current one */
    CUmemoryPool normal, current;
};

struct sg_memory {
    pthread_mutex_t lock;     /* taken after sg_driver.lock, never held across a call elsewhere */
    struct sg_index *allocs;  /* address -> struct sg_rec */
    struct sg_index *blocks;  /* address -> struct sg_block: memory of pools and graphs (pool.c) */
    struct sg_index *ranges;  /* cuMemAddressReserve; no value of interest (vmm.c) */
    struct sg_index *handles; /* number of a handle -> struct sg_phys (vmm.c) */
    atomic_uint_least64_t next_id;
    uint64_t host_used, host_limit;                 /* bytes of pinned and managed memory */
    unsigned peers[SG_MAX_DEVICES][SG_MAX_DEVICES]; /* contexts on [1] that may use [0] */
    CUmemoryPool pools;                             /* all, linked by next */
    struct sg_place
        places[3 + SG_MAX_DEVICES]; /* pinned device memory is in sg_device: pool_props.c */
};

static inline struct sg_memory *sg_memory_lock(void)
{
    pthread_mutex_lock(&sg_driver.memory->lock);
    return sg_driver.memory;
}

static inline void sg_memory_unlock(void)
{
    pthread_mutex_unlock(&sg_driver.memory->lock);
}

/** sg_memory_enter - what every call asks first; as sg_current(), and not from a host function */
CUresult sg_memory_enter(struct CUctx_st **ctx);
/** sg_memory_enter_alloc - the same for calls that capture in global mode forbids */
CUresult sg_memory_enter_alloc(struct CUctx_st **ctx);
/** sg_memory_ready - the same for calls that need no context */
CUresult sg_memory_ready(void);

/** sg_rec_find - the allocation that holds @addr; lock-free */
bool sg_rec_find(uint64_t addr, struct sg_rec *out);
/** sg_rec_at - the allocation that begins at @addr */
bool sg_rec_at(uint64_t addr, struct sg_rec *out);
/** sg_rec_next - the lowest allocation with a byte at or above @addr */
bool sg_rec_next(uint64_t addr, struct sg_rec *out);
/** sg_rec_holds - does one allocation hold all of the @n bytes? Neighbouring mappings of one
 * reservation count as one. @out, the first one, may be NULL. */
bool sg_rec_holds(uint64_t addr, uint64_t n, struct sg_rec *out);
CUresult sg_rec_put(const struct sg_rec *r);
void sg_rec_update(const struct sg_rec *r);
bool sg_rec_take(uint64_t addr, struct sg_rec *out); /* remove; false: somebody else did */

/** sg_rec_make - reserve, commit and enter memory for @r, whose size, kind, device, context, flags
 * and masks are set; fills address and id. Charges nobody. */
CUresult sg_rec_make(struct sg_rec *r, size_t align);
/** sg_rec_allow - give the memory its masks */
void sg_rec_allow(const struct sg_rec *r);
uint64_t sg_memory_id(void);

/** sg_alloc_new_flags - sg_alloc_new() for pinned and managed memory; @flags are kept */
CUresult sg_alloc_new_flags(struct CUctx_st *ctx, size_t size, enum sg_alloc_kind kind,
                            unsigned flags, uint64_t *addr);

/** sg_memory_charge - @dev (NULL: the host) pays for @bytes; on shortage pools give back what they
 * can, after the work of @ctx (may be NULL) is done. CUDA_ERROR_OUT_OF_MEMORY. Without the lock. */
CUresult sg_memory_charge(struct sg_device *dev, uint64_t bytes, struct CUctx_st *ctx);
void sg_memory_uncharge(struct sg_device *dev, uint64_t bytes);
uint64_t sg_memory_round(uint64_t bytes); /* to granules; 0 on overflow */

/** sg_memory_drain_all - wait for the work of all contexts: before host memory goes away */
CUresult sg_memory_drain_all(void);

/* pool.c */
CUresult sg_pools_init(void);
/** sg_pools_trim - give back all free memory of the device's pools (@dev NULL: the host's) */
void sg_pools_trim(struct sg_device *dev);
/** sg_pool_free_now - cuMemFree of memory of a pool or graph */
CUresult sg_pool_free_now(uint64_t addr);
/** sg_pools_release_ctx - the primary context is reset: what it still holds of pools is free */
void sg_pools_release_ctx(struct CUctx_st *ctx);
/** sg_pool_managed - does the pool hold managed memory? */
bool sg_pool_managed(CUmemoryPool pool);
/** sg_access_mask - what descriptors allow; CUDA_ERROR_INVALID_VALUE, _INVALID_DEVICE. @read and
 * @write are changed only for the locations named. */
CUresult sg_access_mask(const CUmemAccessDesc *desc, size_t count, bool host_ok, uint8_t *read,
                        uint8_t *write);

/* managed.c */
void sg_managed_free(void *own); /* NULL is legal */

/* vmm.c */
/** sg_vmm_range - the reservation that holds @addr */
bool sg_vmm_range(uint64_t addr, uint64_t *base, uint64_t *size);
/** sg_vmm_handles - how many handles of cuMemCreate are held */
size_t sg_vmm_handles(void);

/* copy.c: how the bytes of a copy or fill relate to the host */
enum sg_side_kind { SG_SIDE_PAGEABLE, SG_SIDE_PINNED, SG_SIDE_DEVICE };

/** sg_side_kind - @sync_memops is set, never cleared, where the program asked for that */
enum sg_side_kind sg_side_kind(uint64_t addr, bool *sync_memops);
/** sg_copy_stage - read the source now; false: no memory */
bool sg_copy_stage(struct sg_copy_work *c);

#endif
