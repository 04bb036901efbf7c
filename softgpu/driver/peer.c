/* Access between devices, enabled for a context and always one way. */
#include "softgpu/driver/core.h"
#include "softgpu/driver/memory.h"

/* The current context and a peer on another device. */
static CUresult pair(CUcontext peer, struct CUctx_st **ctx)
{
    CUresult r = sg_current(ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (sg_context_check(peer) != CUDA_SUCCESS || peer == *ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_SUCCESS;
}

/* Sets or clears the bit; false if it was so already. */
static bool flip(struct CUctx_st *ctx, const struct sg_device *peer, bool on)
{
    bool changed;

    pthread_mutex_lock(&sg_driver.lock);
    changed = on != ((ctx->peers & peer->bit) != 0);
    if (changed)
        ctx->peers ^= peer->bit;
    pthread_mutex_unlock(&sg_driver.lock);
    return changed;
}

CUresult sg_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    struct CUctx_st *ctx;
    CUresult r = pair(peer, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (peer->dev == ctx->dev)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    ctx = sg_context_root(ctx);
    if (!flip(ctx, peer->dev, true))
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    sg_memory_set_peer(ctx, peer->dev, true);
    return CUDA_SUCCESS;
}

CUresult sg_cuCtxDisablePeerAccess(CUcontext peer)
{
    struct CUctx_st *ctx;
    CUresult r = pair(peer, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    ctx = sg_context_root(ctx);
    if (!flip(ctx, peer->dev, false))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    sg_memory_set_peer(ctx, peer->dev, false);
    return CUDA_SUCCESS;
}

void sg_peers_drop(struct CUctx_st *ctx)
{
    for (int i = 0; i < sg_driver.ndevices; i++)
        if (flip(ctx, &sg_driver.devices[i], false))
            sg_memory_set_peer(ctx, &sg_driver.devices[i], false);
}

#if CUDA_VERSION >= 13000
/* What a link between devices does natively: what kernels can do on one device. */
static unsigned atomic_capability(CUatomicOperation operation)
{
    const unsigned widths = CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_SCALAR_64;
    const unsigned both = CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED;

    switch (operation) {
    case CU_ATOMIC_OPERATION_EXCHANGE:
    case CU_ATOMIC_OPERATION_CAS:
        return both | widths;
    case CU_ATOMIC_OPERATION_INTEGER_INCREMENT:
    case CU_ATOMIC_OPERATION_INTEGER_DECREMENT:
        return CU_ATOMIC_CAPABILITY_UNSIGNED | CU_ATOMIC_CAPABILITY_REDUCTION |
               CU_ATOMIC_CAPABILITY_SCALAR_32;
    case CU_ATOMIC_OPERATION_FLOAT_ADD:
        return CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_REDUCTION | widths;
    case CU_ATOMIC_OPERATION_FLOAT_MIN:
    case CU_ATOMIC_OPERATION_FLOAT_MAX:
        return 0;
    default:
        return both | CU_ATOMIC_CAPABILITY_REDUCTION | widths;
    }
}

static CUresult capabilities(unsigned *out, const CUatomicOperation *operations, unsigned n,
                             bool native)
{
    if (!out || !operations || !n)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++)
        if ((int)operations[i] < 0 || operations[i] >= CU_ATOMIC_OPERATION_MAX)
            return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++)
        out[i] = native ? atomic_capability(operations[i]) : 0;
    return CUDA_SUCCESS;
}

CUresult sg_cuDeviceGetHostAtomicCapabilities(unsigned int *out, const CUatomicOperation *ops,
                                              unsigned int n, CUdevice device)
{
    struct sg_device *dev;
    CUresult r = sg_device_at(device, &dev);

    return r != CUDA_SUCCESS ? r : capabilities(out, ops, n, false);
}

CUresult sg_cuDeviceGetP2PAtomicCapabilities(unsigned int *out, const CUatomicOperation *ops,
                                             unsigned int n, CUdevice src, CUdevice dst)
{
    struct sg_device *a, *b;
    CUresult r = sg_device_at(src, &a);

    if (r != CUDA_SUCCESS || (r = sg_device_at(dst, &b)) != CUDA_SUCCESS)
        return r;
    return a == b ? CUDA_ERROR_INVALID_DEVICE : capabilities(out, ops, n, true);
}
#endif
