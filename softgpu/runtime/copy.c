/* Copies of all shapes. CUDA arrays are not supported. */
#include "softgpu/runtime/runtime.h"

#include <stdint.h>

#include "softgpu/runtime/api_gen.h"

static bool kind_types(enum cudaMemcpyKind kind, CUmemorytype *src, CUmemorytype *dst)
{
    static const struct {
        CUmemorytype src, dst;
    } types[] = {
        [cudaMemcpyHostToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST},
        [cudaMemcpyHostToDevice] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDeviceToHost] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
        [cudaMemcpyDeviceToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDefault] = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED},
    };

    if ((unsigned)kind >= sizeof(types) / sizeof(types[0]))
        return false;
    *src = types[kind].src;
    *dst = types[kind].dst;
    return true;
}

static cudaError_t no_arrays(void)
{
    return sg_rt_unsupported("a copy from or to a CUDA array");
}

/* ---- one row --------------------------------------------------------------------------------- */

static cudaError_t copy(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
    cudaError_t err = sg_rt_enter();
    CUdeviceptr d = (CUdeviceptr)dst, s = (CUdeviceptr)src;

    if (err != cudaSuccess)
        return err;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return n == 0 ? cudaSuccess : sg_rt_error(SG_RT_PT(cuMemcpyHtoD_v2)(d, src, n));
    case cudaMemcpyDeviceToHost:
        return n == 0 ? cudaSuccess : sg_rt_error(SG_RT_PT(cuMemcpyDtoH_v2)(dst, s, n));
    case cudaMemcpyDeviceToDevice:
        return n == 0 ? cudaSuccess : sg_rt_error(SG_RT_PT(cuMemcpyDtoD_v2)(d, s, n));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return n == 0 ? cudaSuccess : sg_rt_error(SG_RT_PT(cuMemcpy)(d, s, n));
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

static cudaError_t copy_async(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind,
                              cudaStream_t given)
{
    cudaError_t err = sg_rt_enter();
    CUdeviceptr d = (CUdeviceptr)dst, s = (CUdeviceptr)src;
    CUstream stream = sg_rt_stream(given);

    if (err != cudaSuccess)
        return err;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return n == 0 ? cudaSuccess : sg_rt_error(cuMemcpyHtoDAsync_v2(d, src, n, stream));
    case cudaMemcpyDeviceToHost:
        return n == 0 ? cudaSuccess : sg_rt_error(cuMemcpyDtoHAsync_v2(dst, s, n, stream));
    case cudaMemcpyDeviceToDevice:
        return n == 0 ? cudaSuccess : sg_rt_error(cuMemcpyDtoDAsync_v2(d, s, n, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return n == 0 ? cudaSuccess : sg_rt_error(cuMemcpyAsync(d, s, n, stream));
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

cudaError_t sg_cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    return copy(dst, src, count, kind);
}

cudaError_t sg_cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                               cudaStream_t stream)
{
    return copy_async(dst, src, count, kind, stream);
}

static cudaError_t peers(int dst, int src, CUcontext *dst_ctx, CUcontext *src_ctx)
{
    cudaError_t err = sg_rt_enter();

    if (err == cudaSuccess)
        err = sg_rt_primary(dst, dst_ctx);
    return err == cudaSuccess ? sg_rt_primary(src, src_ctx) : err;
}

cudaError_t sg_cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice,
                              size_t count)
{
    CUcontext d = NULL, s = NULL;
    cudaError_t err = peers(dstDevice, srcDevice, &d, &s);

    if (err != cudaSuccess || count == 0)
        return err;
    return sg_rt_error(SG_RT_PT(cuMemcpyPeer)((CUdeviceptr)dst, d, (CUdeviceptr)src, s, count));
}

cudaError_t sg_cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                   size_t count, cudaStream_t stream)
{
    CUcontext d = NULL, s = NULL;
    cudaError_t err = peers(dstDevice, srcDevice, &d, &s);

    if (err != cudaSuccess || count == 0)
        return err;
    return sg_rt_error(
        cuMemcpyPeerAsync((CUdeviceptr)dst, d, (CUdeviceptr)src, s, count, sg_rt_stream(stream)));
}

/* ---- rows and slices ------------------------------------------------------------------------- */

static void set_source(CUDA_MEMCPY3D *c, CUmemorytype type, const void *p)
{
    c->srcMemoryType = type;
    if (type == CU_MEMORYTYPE_HOST)
        c->srcHost = p;
    else
        c->srcDevice = (CUdeviceptr)p;
}

static void set_destination(CUDA_MEMCPY3D *c, CUmemorytype type, void *p)
{
    c->dstMemoryType = type;
    if (type == CU_MEMORYTYPE_HOST)
        c->dstHost = p;
    else
        c->dstDevice = (CUdeviceptr)p;
}

cudaError_t sg_rt_copy_3d(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *out)
{
    CUmemorytype src, dst;

    if (p == NULL)
        return cudaErrorInvalidValue;
    if (p->srcArray != NULL || p->dstArray != NULL)
        return no_arrays();
    if (!kind_types(p->kind, &src, &dst))
        return cudaErrorInvalidMemcpyDirection;
    *out = (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcPos.x,
        .srcY = p->srcPos.y,
        .srcZ = p->srcPos.z,
        .srcPitch = p->srcPtr.pitch,
        .srcHeight = p->srcPtr.ysize,
        .dstXInBytes = p->dstPos.x,
        .dstY = p->dstPos.y,
        .dstZ = p->dstPos.z,
        .dstPitch = p->dstPtr.pitch,
        .dstHeight = p->dstPtr.ysize,
        .WidthInBytes = p->extent.width,
        .Height = p->extent.height,
        .Depth = p->extent.depth,
    };
    set_source(out, src, p->srcPtr.ptr);
    set_destination(out, dst, p->dstPtr.ptr);
    if (p->extent.height * p->extent.depth > 1 &&
        (p->extent.width > p->srcPtr.pitch || p->extent.width > p->dstPtr.pitch))
        return cudaErrorInvalidPitchValue;
    return cudaSuccess;
}

cudaError_t sg_rt_copy_1d(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                          CUDA_MEMCPY3D *out)
{
    struct cudaMemcpy3DParms p = {
        .srcPtr = {(void *)(uintptr_t)src, count, count, 1},
        .dstPtr = {dst, count, count, 1},
        .extent = {count, 1, 1},
        .kind = kind,
    };

    return sg_rt_copy_3d(&p, out);
}

static enum cudaMemcpyKind kind_of(const CUDA_MEMCPY3D *c)
{
    CUmemorytype src, dst;

    for (int k = cudaMemcpyHostToHost; k <= cudaMemcpyDeviceToDevice; k++)
        if (kind_types((enum cudaMemcpyKind)k, &src, &dst) && src == c->srcMemoryType &&
            dst == c->dstMemoryType)
            return (enum cudaMemcpyKind)k;
    return cudaMemcpyDefault;
}

void sg_rt_copy_3d_back(const CUDA_MEMCPY3D *c, struct cudaMemcpy3DParms *out)
{
    const void *src =
        c->srcMemoryType == CU_MEMORYTYPE_HOST ? c->srcHost : (const void *)c->srcDevice;
    void *dst = c->dstMemoryType == CU_MEMORYTYPE_HOST ? c->dstHost : (void *)c->dstDevice;

    *out = (struct cudaMemcpy3DParms){
        .srcPos = {c->srcXInBytes, c->srcY, c->srcZ},
        .srcPtr = {(void *)(uintptr_t)src, c->srcPitch, c->WidthInBytes, c->srcHeight},
        .dstPos = {c->dstXInBytes, c->dstY, c->dstZ},
        .dstPtr = {dst, c->dstPitch, c->WidthInBytes, c->dstHeight},
        .extent = {c->WidthInBytes, c->Height, c->Depth},
        .kind = kind_of(c),
    };
}

static cudaError_t copy_box(const struct cudaMemcpy3DParms *p, bool async, cudaStream_t stream)
{
    cudaError_t err = sg_rt_enter();
    CUDA_MEMCPY3D c = {0};

    if (err == cudaSuccess)
        err = sg_rt_copy_3d(p, &c);
    if (err != cudaSuccess)
        return err;
    if (c.WidthInBytes == 0 || c.Height == 0 || c.Depth == 0)
        return cudaSuccess;
    return sg_rt_error(async ? cuMemcpy3DAsync_v2(&c, sg_rt_stream(stream))
                             : SG_RT_PT(cuMemcpy3D_v2)(&c));
}

cudaError_t sg_cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    return copy_box(p, false, NULL);
}

cudaError_t sg_cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    return copy_box(p, true, stream);
}

static cudaError_t copy_box_peer(const struct cudaMemcpy3DPeerParms *p, bool async,
                                 cudaStream_t stream)
{
    CUcontext d = NULL, s = NULL;
    cudaError_t err;
    CUDA_MEMCPY3D_PEER c;

    if (p == NULL)
        return cudaErrorInvalidValue;
    err = peers(p->dstDevice, p->srcDevice, &d, &s);
    if (err != cudaSuccess)
        return err;
    if (p->srcArray != NULL || p->dstArray != NULL)
        return no_arrays();
    if (p->extent.width == 0 || p->extent.height == 0 || p->extent.depth == 0)
        return cudaSuccess;
    c = (CUDA_MEMCPY3D_PEER){
        .srcXInBytes = p->srcPos.x,
        .srcY = p->srcPos.y,
        .srcZ = p->srcPos.z,
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = (CUdeviceptr)p->srcPtr.ptr,
        .srcContext = s,
        .srcPitch = p->srcPtr.pitch,
        .srcHeight = p->srcPtr.ysize,
        .dstXInBytes = p->dstPos.x,
        .dstY = p->dstPos.y,
        .dstZ = p->dstPos.z,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = (CUdeviceptr)p->dstPtr.ptr,
        .dstContext = d,
        .dstPitch = p->dstPtr.pitch,
        .dstHeight = p->dstPtr.ysize,
        .WidthInBytes = p->extent.width,
        .Height = p->extent.height,
        .Depth = p->extent.depth,
    };
    return sg_rt_error(async ? cuMemcpy3DPeerAsync(&c, sg_rt_stream(stream))
                             : SG_RT_PT(cuMemcpy3DPeer)(&c));
}

cudaError_t sg_cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    return copy_box_peer(p, false, NULL);
}

cudaError_t sg_cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    return copy_box_peer(p, true, stream);
}

/* A 2D copy: in the driver's terms too, it needs no more than the pitches. */
static cudaError_t rows(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                        size_t height, enum cudaMemcpyKind kind, CUDA_MEMCPY2D *out)
{
    CUmemorytype from, to;
    cudaError_t err = sg_rt_enter();

    if (err != cudaSuccess)
        return err;
    if (!kind_types(kind, &from, &to))
        return cudaErrorInvalidMemcpyDirection;
    if (width > dpitch || width > spitch)
        return cudaErrorInvalidPitchValue;
    *out = (CUDA_MEMCPY2D){
        .srcMemoryType = from,
        .srcHost = from == CU_MEMORYTYPE_HOST ? src : NULL,
        .srcDevice = from == CU_MEMORYTYPE_HOST ? 0 : (CUdeviceptr)src,
        .srcPitch = spitch,
        .dstMemoryType = to,
        .dstHost = to == CU_MEMORYTYPE_HOST ? dst : NULL,
        .dstDevice = to == CU_MEMORYTYPE_HOST ? 0 : (CUdeviceptr)dst,
        .dstPitch = dpitch,
        .WidthInBytes = width,
        .Height = height,
    };
    return cudaSuccess;
}

cudaError_t sg_cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                            size_t height, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D c;
    cudaError_t err = rows(dst, dpitch, src, spitch, width, height, kind, &c);

    if (err != cudaSuccess || width == 0 || height == 0)
        return err;
    return sg_rt_error(SG_RT_PT(cuMemcpy2DUnaligned_v2)(&c));
}

cudaError_t sg_cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                 size_t width, size_t height, enum cudaMemcpyKind kind,
                                 cudaStream_t stream)
{
    CUDA_MEMCPY2D c;
    cudaError_t err = rows(dst, dpitch, src, spitch, width, height, kind, &c);

    if (err != cudaSuccess || width == 0 || height == 0)
        return err;
    return sg_rt_error(cuMemcpy2DAsync_v2(&c, sg_rt_stream(stream)));
}

/* ---- variables ------------------------------------------------------------------------------- */

cudaError_t sg_cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
    CUdeviceptr addr = 0;
    size_t size;
    cudaError_t err = devPtr == NULL ? cudaErrorInvalidValue : sg_rt_variable(symbol, &addr, &size);

    if (err == cudaSuccess)
        *devPtr = (void *)addr;
    return err;
}

cudaError_t sg_cudaGetSymbolSize(size_t *size, const void *symbol)
{
    CUdeviceptr addr;
    size_t n = 0;
    cudaError_t err = size == NULL ? cudaErrorInvalidValue : sg_rt_variable(symbol, &addr, &n);

    if (err == cudaSuccess)
        *size = n;
    return err;
}

cudaError_t sg_rt_symbol_range(const void *symbol, size_t count, size_t offset, void **addr)
{
    CUdeviceptr at = 0;
    size_t size = 0;
    cudaError_t err = sg_rt_variable(symbol, &at, &size);

    if (err != cudaSuccess)
        return err;
    if (offset > size || count > size - offset)
        return cudaErrorInvalidValue;
    *addr = (void *)(at + offset);
    return cudaSuccess;
}

/* @to: into the variable; a kind that says otherwise is refused. */
static cudaError_t symbol_side(const void *symbol, size_t count, size_t offset, bool to,
                               enum cudaMemcpyKind kind, void **addr)
{
    enum cudaMemcpyKind host = to ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;

    if (kind != host && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    return sg_rt_symbol_range(symbol, count, offset, addr);
}

cudaError_t sg_cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                                  enum cudaMemcpyKind kind)
{
    void *at = NULL;
    cudaError_t err = symbol_side(symbol, count, offset, true, kind, &at);

    return err != cudaSuccess ? err : copy(at, src, count, kind);
}

cudaError_t sg_cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
                                       size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *at = NULL;
    cudaError_t err = symbol_side(symbol, count, offset, true, kind, &at);

    return err != cudaSuccess ? err : copy_async(at, src, count, kind, stream);
}

cudaError_t sg_cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
                                    enum cudaMemcpyKind kind)
{
    void *at = NULL;
    cudaError_t err = symbol_side(symbol, count, offset, false, kind, &at);

    return err != cudaSuccess ? err : copy(dst, at, count, kind);
}

cudaError_t sg_cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
                                         enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *at = NULL;
    cudaError_t err = symbol_side(symbol, count, offset, false, kind, &at);

    return err != cudaSuccess ? err : copy_async(dst, at, count, kind, stream);
}
