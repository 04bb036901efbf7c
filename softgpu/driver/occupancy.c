/* How many blocks an SM of the device holds: cuda_occupancy.h's rules, from the limits in arch.c.
 */
#include "softgpu/driver/core.h"
#include "softgpu/driver/launch.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/stream.h"

enum { WARP = 32, WARP_REG_UNIT = 256, PARTITIONS = 4 };

static uint32_t round_up(uint32_t n, uint32_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static uint32_t shared_unit(const struct sg_arch *arch)
{
    return arch->arch >= 80 ? 128 : 256;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned sg_occupancy(const struct CUfunc_st *f, const struct sg_device *dev, unsigned threads,
                      size_t dynamic)
{
    const struct sg_kernel_info *info = f->info;
    const struct sg_arch *arch = sg_arch_of(dev);
    uint32_t warps = (threads + WARP - 1) / WARP;
    uint32_t regs = round_up(sg_function_regs(info) * WARP, WARP_REG_UNIT);
    uint64_t shared = info->static_shared + (uint64_t)dynamic;
    unsigned blocks;

    if (threads == 0 || threads > (info->max_threads ? info->max_threads : SG_MAX_THREADS) ||
        dynamic > (size_t)f->max_dynamic_shared || shared > arch->shared_optin)
        return 0;
    blocks = least(arch->blocks_per_sm, arch->threads_per_sm / WARP / warps);
    if (regs)
        blocks = least(blocks, SG_REGISTERS / PARTITIONS / regs * PARTITIONS / warps);
    shared = round_up((uint32_t)shared + arch->shared_reserved, shared_unit(arch));
    if (shared)
        blocks = least(blocks, (unsigned)(arch->shared_per_sm / shared));
    return blocks;
}

/* A function or kernel in the current context. */
static CUresult function_here(CUfunction handle, struct CUctx_st **ctx, struct CUfunc_st **f)
{
    CUresult r = sg_current(ctx);

    return r != CUDA_SUCCESS ? r : sg_function_of(handle, *ctx, f, NULL);
}

CUresult sg_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction handle,
                                                                 int threads, size_t dynamic,
                                                                 unsigned int flags)
{
    struct CUctx_st *ctx;
    struct CUfunc_st *f;
    CUresult r = function_here(handle, &ctx, &f);

    if (r != CUDA_SUCCESS)
        return r;
    if (!blocks || threads <= 0 || (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = (int)sg_occupancy(f, ctx->dev, (unsigned)threads, dynamic);
    return CUDA_SUCCESS;
}

CUresult sg_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle, int threads,
                                                        size_t dynamic)
{
    return sg_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads, dynamic,
                                                                   0);
}

CUresult sg_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction handle,
                                                      CUoccupancyB2DSize shared_of, size_t dynamic,
                                                      int limit, unsigned int flags)
{
    struct CUctx_st *ctx;
    struct CUfunc_st *f;
    CUresult r = function_here(handle, &ctx, &f);
    unsigned most, best_threads = 0, best_blocks = 0;

    if (r != CUDA_SUCCESS)
        return r;
    if (!grid || !block || limit < 0 || (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
        return CUDA_ERROR_INVALID_VALUE;
    most = f->info->max_threads ? f->info->max_threads : SG_MAX_THREADS;
    if (limit && (unsigned)limit < most)
        most = (unsigned)limit;
    /* the largest block among those that keep most threads resident; sizes are whole warps, the
     * limit itself excepted */
    for (unsigned aligned = round_up(most, WARP); aligned; aligned -= WARP) {
        unsigned threads = least(aligned, most);
        size_t shared = shared_of ? shared_of((int)threads) : dynamic;
        unsigned blocks = sg_occupancy(f, ctx->dev, threads, shared);

        if (threads * blocks > best_threads * best_blocks) {
            best_threads = threads;
            best_blocks = blocks;
        }
    }
    *block = (int)best_threads;
    *grid = (int)(best_blocks * sg_context_sms(ctx));
    return CUDA_SUCCESS;
}

CUresult sg_cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction handle,
                                             CUoccupancyB2DSize shared_of, size_t dynamic,
                                             int limit)
{
    return sg_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, handle, shared_of, dynamic,
                                                        limit, 0);
}

CUresult sg_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamic, CUfunction handle, int blocks,
                                                    int threads)
{
    const struct sg_arch *arch;
    struct CUctx_st *ctx;
    struct CUfunc_st *f;
    CUresult r = function_here(handle, &ctx, &f);
    uint32_t each, taken;

    if (r != CUDA_SUCCESS)
        return r;
    if (!dynamic || blocks <= 0 || threads <= 0 || threads > (int)SG_MAX_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    arch = sg_arch_of(ctx->dev);
    /* without shared memory so many blocks must fit at all */
    if ((unsigned)blocks > sg_occupancy(f, ctx->dev, (unsigned)threads, 0))
        return CUDA_ERROR_INVALID_VALUE;
    each = arch->shared_per_sm / (uint32_t)blocks / shared_unit(arch) * shared_unit(arch);
    taken = f->info->static_shared + arch->shared_reserved;
    each = each > taken ? each - taken : 0;
    *dynamic = least(each, (unsigned)f->max_dynamic_shared);
    return CUDA_SUCCESS;
}

/* ---- clusters ---- */

static CUresult cluster_args(CUfunction handle, const CUlaunchConfig *config, void *out,
                             struct CUctx_st **ctx, struct CUfunc_st **f)
{
    struct CUstream_st *st;
    CUresult r = sg_current(ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!config || !out || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    if (config->hStream) {
        r = sg_stream_of(config->hStream, &st);
        if (r != CUDA_SUCCESS)
            return r;
        *ctx = st->ctx;
    }
    r = sg_function_of(handle, *ctx, f, NULL);
    if (r == CUDA_SUCCESS && sg_arch_of((*ctx)->dev)->max_cluster == 1)
        r = CUDA_ERROR_NOT_SUPPORTED;
    return r;
}

static unsigned threads_of(const CUlaunchConfig *c)
{
    return c->blockDimX * c->blockDimY * c->blockDimZ;
}

static unsigned most_cluster(const struct CUfunc_st *f, const struct sg_arch *arch)
{
    return f->nonportable_cluster ? arch->max_cluster_nonportable : arch->max_cluster;
}

CUresult sg_cuOccupancyMaxActiveClusters(int *clusters, CUfunction handle,
                                         const CUlaunchConfig *config)
{
    struct CUctx_st *ctx;
    struct CUfunc_st *f;
    CUresult r = cluster_args(handle, config, clusters, &ctx, &f);
    unsigned size = 0, blocks;

    if (r != CUDA_SUCCESS)
        return r;
    if (f->cluster[0] > 0)
        size = (unsigned)(f->cluster[0] * f->cluster[1] * f->cluster[2]);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];

        if (a->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            continue;
        blocks = a->value.clusterDim.x * a->value.clusterDim.y * a->value.clusterDim.z;
        if (size && blocks != size)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        size = blocks;
    }
    if (!size || size > most_cluster(f, sg_arch_of(ctx->dev)))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    blocks = sg_occupancy(f, ctx->dev, threads_of(config), config->sharedMemBytes);
    *clusters = (int)(blocks * sg_context_sms(ctx) / size);
    return CUDA_SUCCESS;
}

CUresult sg_cuOccupancyMaxPotentialClusterSize(int *size, CUfunction handle,
                                               const CUlaunchConfig *config)
{
    struct CUctx_st *ctx;
    struct CUfunc_st *f;
    CUresult r = cluster_args(handle, config, size, &ctx, &f);

    if (r != CUDA_SUCCESS)
        return r;
    if (f->cluster[0] > 0)
        *size = f->cluster[0] * f->cluster[1] * f->cluster[2];
    else if (!sg_occupancy(f, ctx->dev, threads_of(config), config->sharedMemBytes))
        *size = 0;
    else
        *size = (int)most_cluster(f, sg_arch_of(ctx->dev));
    return CUDA_SUCCESS;
}
