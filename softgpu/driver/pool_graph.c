/* Memory of graph allocation nodes: addresses for the life of the node, bytes from a launch of it
 * until they are freed. */
#include "softgpu/driver/pool.h"

#include <stdlib.h>

CUresult sg_graph_mem_new(struct CUctx_st *ctx, const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params,
                          uint64_t *addr)
{
    uint64_t size = sg_memory_round(params->bytesize);
    const CUmemLocation *where = &params->poolProps.location;
    struct sg_memory *m;
    struct sg_block *b;
    uint8_t access = 0, same = 0;
    CUresult r;

    if (params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED || !params->bytesize ||
        !size || where->type != CU_MEM_LOCATION_TYPE_DEVICE || where->id < 0 ||
        where->id >= sg_driver.ndevices || params->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_access_mask(params->accessDescs, params->accessDescCount, false, &access, &same);
    if (r != CUDA_SUCCESS)
        return r;
    b = calloc(1, sizeof(*b));
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *b = (struct sg_block){.size = size, .asked = params->bytesize, .ctx = sg_context_root(ctx)};
    b->dev = &sg_driver.devices[where->id];
    b->access = access | b->dev->bit;
    m = sg_memory_lock();
    if (sg_mem_reserve_guarded(sg_driver.mem, size, SG_MEM_GRANULE, &b->addr, NULL) != TB_OK) {
        r = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (!sg_block_enter(m, b)) {
        sg_mem_release(sg_driver.mem, b->addr);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_memory_unlock();
    if (r == CUDA_SUCCESS)
        *addr = b->addr;
    else
        free(b);
    return r;
}

bool sg_graph_mem_is(uint64_t addr)
{
    struct sg_memory *m = sg_memory_lock();
    const struct sg_block *b = sg_block_at(m, addr);
    bool is = b && !b->pool;

    sg_memory_unlock();
    return is;
}

bool sg_graph_mem_holds(uint64_t addr, uint64_t n)
{
    struct sg_memory *m = sg_memory_lock();
    uint64_t base = 0, value = 0;
    const struct sg_block *b = NULL;

    if (sg_index_find(m->blocks, addr, &base, NULL, &value))
        b = (const struct sg_block *)(uintptr_t)value;
    if (b && (b->pool || n > b->asked || addr - base > b->asked - n))
        b = NULL;
    sg_memory_unlock();
    return b != NULL;
}

CUresult sg_mem_alloc_run(uint64_t addr, struct CUctx_st *ctx)
{
    struct sg_memory *m = sg_memory_lock();
    struct sg_block *b = sg_block_at(m, addr);
    CUresult r = b && !b->pool && !b->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    struct sg_rec rec;

    (void)ctx;
    if (r == CUDA_SUCCESS && b->dev->used > b->dev->memory - b->size)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && sg_mem_commit(sg_driver.mem, addr, b->size, NULL) != TB_OK)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        rec = sg_block_rec(b, b->asked, NULL, b->access);
        r = sg_rec_put(&rec);
    }
    if (r == CUDA_SUCCESS) {
        sg_rec_allow(&rec);
        b->dev->used += b->size;
        b->live = true;
    }
    sg_memory_unlock();
    return r;
}

void sg_graph_mem_delete(uint64_t addr)
{
    struct sg_memory *m = sg_memory_lock();
    struct sg_block *b = sg_block_at(m, addr);

    if (b && !b->pool) {
        b->deleted = true;
        if (!b->live) {
            sg_index_remove(m->blocks, addr, NULL);
            sg_mem_release(sg_driver.mem, addr);
            free(b);
        }
    }
    sg_memory_unlock();
}
