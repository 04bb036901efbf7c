/* The launch API of CUDA 3: block shape and parameters are kept in the function until cuLaunch. */
#include "softgpu/driver/core.h"
#include "softgpu/driver/module.h"

#include <stdlib.h>
#include <string.h>

enum { PARAM_BYTES = 4096 };

struct sg_legacy_launch {
    unsigned block[3], shared;
    unsigned size; /* of the parameters */
    char params[PARAM_BYTES];
};

/* The kept state of a function in the current context, made when it is first asked for. */
static CUresult state_of(CUfunction handle, struct sg_legacy_launch **out)
{
    struct CUctx_st *ctx;
    struct CUfunc_st *f;
    CUresult r = sg_current(&ctx);

    if (r != CUDA_SUCCESS || (r = sg_function_of(handle, ctx, &f, NULL)) != CUDA_SUCCESS)
        return r;
    if (!f->legacy)
        f->legacy = calloc(1, sizeof(*f->legacy));
    *out = f->legacy;
    return f->legacy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sg_cuFuncSetBlockShape(CUfunction f, int x, int y, int z)
{
    struct sg_legacy_launch *l;
    CUresult r = state_of(f, &l);

    if (r != CUDA_SUCCESS)
        return r;
    if (x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    l->block[0] = (unsigned)x;
    l->block[1] = (unsigned)y;
    l->block[2] = (unsigned)z;
    return CUDA_SUCCESS;
}

CUresult sg_cuFuncSetSharedSize(CUfunction f, unsigned int bytes)
{
    struct sg_legacy_launch *l;
    CUresult r = state_of(f, &l);

    if (r == CUDA_SUCCESS)
        l->shared = bytes;
    return r;
}

CUresult sg_cuParamSetSize(CUfunction f, unsigned int bytes)
{
    struct sg_legacy_launch *l;
    CUresult r = state_of(f, &l);

    if (r != CUDA_SUCCESS)
        return r;
    if (bytes > PARAM_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    l->size = bytes;
    return CUDA_SUCCESS;
}

CUresult sg_cuParamSetv(CUfunction f, int offset, void *value, unsigned int bytes)
{
    struct sg_legacy_launch *l;
    CUresult r = state_of(f, &l);

    if (r != CUDA_SUCCESS)
        return r;
    if (offset < 0 || !value || bytes > PARAM_BYTES || (unsigned)offset > PARAM_BYTES - bytes)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(l->params + offset, value, bytes);
    return CUDA_SUCCESS;
}

CUresult sg_cuParamSeti(CUfunction f, int offset, unsigned int value)
{
    return sg_cuParamSetv(f, offset, &value, sizeof(value));
}

CUresult sg_cuParamSetf(CUfunction f, int offset, float value)
{
    return sg_cuParamSetv(f, offset, &value, sizeof(value));
}

CUresult sg_cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream)
{
    struct sg_legacy_launch *l;
    CUresult r = state_of(f, &l);
    size_t size;

    if (r != CUDA_SUCCESS)
        return r;
    if (width <= 0 || height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    size = l->size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, l->params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    return sg_cuLaunchKernel(f, (unsigned)width, (unsigned)height, 1, l->block[0], l->block[1],
                             l->block[2], l->shared, stream, NULL, extra);
}

CUresult sg_cuLaunchGrid(CUfunction f, int width, int height)
{
    return sg_cuLaunchGridAsync(f, width, height, NULL);
}

CUresult sg_cuLaunch(CUfunction f)
{
    return sg_cuLaunchGridAsync(f, 1, 1, NULL);
}
