/* cuMemset: queued where the memory is the device's, waited for where the host may look at it. */
#include "softgpu/driver/memory_internal.h"

static CUresult fill(uint64_t dst, size_t pitch, uint32_t value, unsigned elem, size_t width,
                     size_t height, CUstream stream, bool async)
{
    struct CUstream_st *s = NULL;
    struct CUctx_st *ctx = NULL;
    struct sg_work w;
    struct sg_rec rec;
    CUresult r = sg_memory_enter(&ctx);

    if (r == CUDA_SUCCESS)
        r = sg_stream_of(stream, &s);
    if (r == CUDA_SUCCESS)
        r = sg_fill_make(ctx, dst, pitch, value, elem, width, height, &w);
    if (r != CUDA_SUCCESS || !w.fill.width)
        return r;
    if (!async && sg_rec_find(dst, &rec) &&
        (rec.host || rec.sync_memops || rec.a.kind == SG_ALLOC_MANAGED))
        return sg_submit_sync(stream, &w);
    return sg_submit(stream, &w);
}

#define FILL(bits, type)                                                                           \
    CUresult sg_cuMemsetD##bits##_v2(CUdeviceptr dst, type value, size_t n)                        \
    {                                                                                              \
        return fill(dst, 0, value, bits / 8, n, 1, NULL, false);                                   \
    }                                                                                              \
    CUresult sg_cuMemsetD##bits##Async(CUdeviceptr dst, type value, size_t n, CUstream stream)     \
    {                                                                                              \
        return fill(dst, 0, value, bits / 8, n, 1, stream, true);                                  \
    }                                                                                              \
    CUresult sg_cuMemsetD2D##bits##_v2(CUdeviceptr dst, size_t pitch, type value, size_t width,    \
                                       size_t height)                                              \
    {                                                                                              \
        return fill(dst, pitch, value, bits / 8, width, height, NULL, false);                      \
    }                                                                                              \
    CUresult sg_cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type value, size_t width,  \
                                         size_t height, CUstream stream)                           \
    {                                                                                              \
        return fill(dst, pitch, value, bits / 8, width, height, stream, true);                     \
    }

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)
