/*
 * From a launch as the program writes it to work: used by cuLaunchKernel and its relatives and by
 * kernel nodes of graphs. Start at sg_kernel_make().
 */
#ifndef SG_DRIVER_LAUNCH_H
#define SG_DRIVER_LAUNCH_H

#include "softgpu/driver/driver.h"

struct sg_launch_spec {
    CUfunction f; /* or a CUkernel */
    unsigned grid[3], block[3];
    unsigned shared; /* dynamic, bytes */
    void **params, **extra;
    const CUlaunchAttribute *attrs;
    unsigned nattrs;
    bool cooperative;
};

/**
 * sg_kernel_make - check a launch and copy its parameters
 * @ctx: where it will run: the stream's context, or the graph node's
 * @out: kind, ctx and kernel are set; freed with sg_work_release()
 *
 * Returns: CUDA_ERROR_INVALID_HANDLE (function), CUDA_ERROR_INVALID_VALUE (dimensions, shared
 * memory, parameters, attributes), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
 * CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CUDA_ERROR_INVALID_CLUSTER_SIZE,
 * CUDA_ERROR_NOT_SUPPORTED (attributes), CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult sg_kernel_make(const struct sg_launch_spec *spec, struct CUctx_st *ctx,
                        struct sg_work *out);

/** sg_launch_attr_ok - may a launch have this attribute? CUDA_ERROR_INVALID_VALUE, _NOT_SUPPORTED
 */
CUresult sg_launch_attr_ok(const CUlaunchAttribute *a);
/** sg_launch_cluster - set k->cluster from the launch's attributes and the function, and check it
 */
CUresult sg_launch_cluster(struct sg_kernel_work *k, const struct sg_device *dev);

/** sg_occupancy - blocks of @threads threads and @dynamic bytes that an SM holds; 0: none fits */
unsigned sg_occupancy(const struct CUfunc_st *f, const struct sg_device *dev, unsigned threads,
                      size_t dynamic);

#endif
