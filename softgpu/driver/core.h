/*
 * What init, devices, contexts and launches share among themselves: limits of an architecture,
 * checks of handles, option parsing. The other parts of the driver use driver.h only.
 */
#ifndef SG_DRIVER_CORE_H
#define SG_DRIVER_CORE_H

#include "softgpu/driver/driver.h"

/* Limits that programs gate on, by compute capability. */
struct sg_arch {
    uint32_t arch; /* 80 */
    uint32_t threads_per_sm, blocks_per_sm;
    uint32_t shared_per_sm, shared_optin, shared_reserved; /* bytes; reserved: a block */
    uint32_t double_ratio;                         /* single to double precision performance */
    uint32_t partition_least, partition_unit;      /* SMs of a green context's partition */
    uint32_t max_cluster, max_cluster_nonportable; /* blocks, 1: no clusters */
};

/** sg_arch_find - NULL if @arch is not simulated */
const struct sg_arch *sg_arch_find(uint32_t arch);
const struct sg_arch *sg_arch_of(const struct sg_device *dev);

#define SG_SHARED_DEFAULT 49152u /* bytes a block without opting in */
#define SG_MAX_THREADS 1024u     /* a block */
#define SG_REGISTERS 65536u      /* an SM, and a block */
#define SG_L2_BYTES (4 << 20)

/** sg_visible_devices - CUDA_VISIBLE_DEVICES: fill @physical with indices below @n, in the order
 * asked for; returns how many */
int sg_visible_devices(int n, int physical[SG_MAX_DEVICES]);

/** sg_needs - @r, or CUDA_ERROR_INVALID_VALUE if it is success and there is no place for the result
 */
static inline CUresult sg_needs(const void *out, CUresult r)
{
    return r == CUDA_SUCCESS && !out ? CUDA_ERROR_INVALID_VALUE : r;
}

/** sg_ready - CUDA_SUCCESS once cuInit has succeeded in this process, not in a forked child */
CUresult sg_ready(void);
/** sg_device_at - the device of ordinal @dev: CUDA_ERROR_NOT_INITIALIZED, _INVALID_DEVICE */
CUresult sg_device_at(CUdevice dev, struct sg_device **out);

/** sg_context_check - is @ctx alive? CUDA_ERROR_INVALID_CONTEXT, _CONTEXT_IS_DESTROYED */
CUresult sg_context_check(CUcontext ctx);
/** sg_context_new - a context that is not active yet, in the list of all */
CUresult sg_context_new(struct sg_device *dev, unsigned flags, struct CUctx_st **out);
CUresult sg_context_start(struct CUctx_st *ctx);
/** sg_context_tell_end - tell a tool that @ctx and what is in it will end; before
 * sg_context_stop(), without locks */
void sg_context_tell_end(struct CUctx_st *ctx);
/** sg_context_stop - drain, free everything it holds; the struct stays, marked dead unless it is a
 * primary context, so that a stale handle is refused */
void sg_context_stop(struct CUctx_st *ctx);
/** sg_context_root - who owns modules and memory: a green context's primary one, else @ctx */
struct CUctx_st *sg_context_root(struct CUctx_st *ctx);
bool sg_context_flags_ok(unsigned flags);
void sg_peers_drop(struct CUctx_st *ctx); /* when a context ends */
/** sg_context_sms - reported SMs of a context: the device's, or its green partition's */
unsigned sg_context_sms(const struct CUctx_st *ctx);

#endif
