/*
 * softgpu/driver/memory.h - what the device and stream halves of the driver need of its memory
 * half.
 *
 * Peer access for cuCtxEnablePeerAccess, copies and fills as work for graph nodes, the memory of
 * graph allocation nodes, and the word that somebody waited for a stream. All else is reached
 * through the sg_cu functions. Its files: memory.c (cuMemAlloc, what is where), host.c, managed.c,
 * pool.c, vmm.c, pointer.c, copy.c (executors), copy_api.c and fill.c (entry points).
 *
 * Locks: the memory half has a lock of its own, taken after sg_driver.lock if both are needed; so
 * everything here may be called with sg_driver.lock held or not.
 */
#ifndef SG_DRIVER_MEMORY_H
#define SG_DRIVER_MEMORY_H

#include "softgpu/driver/driver.h"

#define SG_MAX_PITCH UINT64_C(0x7fffffff) /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */
#define SG_PITCH_ALIGN 512u
#define SG_VMM_GRANULARITY (UINT64_C(2) << 20) /* cuMemGetAllocationGranularity, both kinds */

/**
 * sg_memory_set_peer - kernels of @ctx's device may use what is allocated on @peer, or no longer
 *
 * Covers what cuMemAlloc and modules have allocated there and will allocate. Counted: call it once
 * on and once off for each context that enabled access (also when that context ends).
 */
void sg_memory_set_peer(struct CUctx_st *ctx, struct sg_device *peer, bool on);

/**
 * sg_memory_synced - the host has waited for all work of @stream, or of the context if it is NULL
 *
 * Called by cuStreamSynchronize, cuCtxSynchronize and the like, without sg_driver.lock: memory that
 * was freed there may be used by other streams, and pools give back what is above their threshold.
 * Depends on calls only, never on time, so that addresses are the same in every run.
 */
void sg_memory_synced(struct CUctx_st *ctx, struct CUstream_st *stream);

/**
 * sg_copy_make - a copy as work; what cuMemcpy3D and a memcpy node check is checked
 * @ctx: the context that runs it; must be alive
 * @out: kind, ctx and copy are set; nothing in it needs sg_work_release()
 *
 * Returns: CUDA_ERROR_INVALID_VALUE (types, pitches, heights, ranges), CUDA_ERROR_NOT_SUPPORTED
 * (arrays). A copy of nothing succeeds and has width 0.
 */
CUresult sg_copy_make(const CUDA_MEMCPY3D *given, struct CUctx_st *ctx, struct sg_work *out);

/** sg_fill_make - the same for cuMemsetD2D8 and so on and memset nodes; @width in elements of @elem
 * bytes; an empty one has width 0 */
CUresult sg_fill_make(struct CUctx_st *ctx, uint64_t dst, size_t pitch, uint32_t value,
                      unsigned elem, size_t width, size_t height, struct sg_work *out);

/**
 * sg_graph_mem_new - the address of an allocation node; its bytes are usable from
 * sg_mem_alloc_run() (a launch of the node) to sg_mem_free_run() (a free node, cuMemFreeAsync or
 * cuMemFree)
 * @params: bytesize, poolProps and access descriptors are read
 */
CUresult sg_graph_mem_new(struct CUctx_st *ctx, const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params,
                          uint64_t *addr);
/** sg_graph_mem_is - whether @addr is the first byte of such an allocation */
bool sg_graph_mem_is(uint64_t addr);
/** sg_graph_mem_holds - whether such an allocation, usable or not, holds all of the @n bytes */
bool sg_graph_mem_holds(uint64_t addr, uint64_t n);
/** sg_graph_mem_delete - the node is gone; what is still allocated goes when it is freed */
void sg_graph_mem_delete(uint64_t addr);

#endif
