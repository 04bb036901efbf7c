/*
 * Pools, and the blocks of memory that they and graph allocation nodes hold. All of it is under the
 * lock of struct sg_memory. Start at pool.c.
 */
#ifndef SG_DRIVER_POOL_H
#define SG_DRIVER_POOL_H

#include "softgpu/driver/memory_internal.h"

struct sg_block {
    uint64_t addr, size;
    CUmemoryPool pool;     /* NULL: an allocation node's */
    uint64_t stream;       /* free: number of the stream that may have it again, 0: any */
    struct CUctx_st *ctx;  /* of that stream, or who allocated it */
    struct sg_device *dev; /* who pays, NULL: the host */
    unsigned pending;      /* frees submitted and not executed */
    bool live;
    bool deleted;   /* graph: the node is gone */
    uint64_t asked; /* graph: bytes, and access masks */
    uint8_t access;
    struct sg_block *next; /* in the pool, ascending addresses */
};

struct CUmemPoolHandle_st {
    uint32_t magic;
    CUmemPoolProps props;
    struct sg_device *dev; /* NULL: the host */
    bool is_default, dead;
    int reuse[3]; /* FOLLOW_EVENT_DEPENDENCIES and the two after it */
    uint64_t threshold, max;
    uint64_t reserved, reserved_high, used, used_high;
    uint8_t access; /* devices that may use it */
    struct sg_block *blocks;
    struct CUmemPoolHandle_st *next;
};

/* Allocation types and locations that older headers do not name. */
#define TYPE_MANAGED 2
#define PLACE_NONE 0

/** sg_block_at - the block that begins at @addr, or NULL */
struct sg_block *sg_block_at(struct sg_memory *m, uint64_t addr);
bool sg_block_enter(struct sg_memory *m, struct sg_block *b);
/** sg_block_rec - the record of a block that is handed out, with a new id */
struct sg_rec sg_block_rec(const struct sg_block *b, size_t asked, CUmemoryPool pool,
                           uint8_t access);
/** sg_block_close - nobody may use the block any more; frees a deleted node's */
void sg_block_close(struct sg_memory *m, struct sg_block *b);
/** sg_pool_trim - give free blocks back, lowest addresses first, while more than @keep bytes are
 * held; @strict: never below it. Frees a dead pool that is empty. */
void sg_pool_trim(struct sg_memory *m, CUmemoryPool p, uint64_t keep, bool strict);
void sg_pool_count(CUmemoryPool p, int64_t reserved, int64_t used);
void sg_memory_uncharge_locked(struct sg_memory *m, struct sg_device *dev, uint64_t bytes);

/** sg_pool_make - takes the lock */
CUmemoryPool sg_pool_make(const CUmemPoolProps *props, bool is_default);
bool sg_pool_is(CUmemoryPool p);
/** sg_pool_forget - it is the current pool of no place any more */
void sg_pool_forget(struct sg_memory *m, CUmemoryPool p);

#endif
