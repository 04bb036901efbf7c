/* Functions: what they need, and the attributes that programs set. */
#include "softgpu/driver/core.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/stream.h"

unsigned sg_function_regs(const struct sg_kernel_info *info)
{
    unsigned threads = info->max_threads ? info->max_threads : SG_MAX_THREADS;
    unsigned most = SG_REGISTERS / ((threads + 31) / 32 * 32) & ~7u;

    return info->regs < most ? info->regs : most;
}

void sg_func_attrs_default(struct sg_func_attrs *a, const struct sg_kernel_info *info)
{
    *a = (struct sg_func_attrs){.carveout = -1};
    if (info->static_shared < SG_SHARED_DEFAULT)
        a->max_dynamic_shared = (int)(SG_SHARED_DEFAULT - info->static_shared);
    for (unsigned d = 0; d < 3; d++)
        a->cluster[d] = (int)info->reqcluster[d];
}

void sg_function_attrs_get(const struct CUfunc_st *f, struct sg_func_attrs *a)
{
    *a = (struct sg_func_attrs){.max_dynamic_shared = f->max_dynamic_shared,
                                .carveout = f->carveout,
                                .cluster_policy = f->cluster_policy,
                                .nonportable_cluster = f->nonportable_cluster,
                                .cluster = {f->cluster[0], f->cluster[1], f->cluster[2]},
                                .set = f->attrs_set};
}

void sg_function_attrs_put(struct CUfunc_st *f, const struct sg_func_attrs *a)
{
    f->max_dynamic_shared = a->max_dynamic_shared;
    f->carveout = a->carveout;
    f->cluster_policy = a->cluster_policy;
    f->nonportable_cluster = a->nonportable_cluster;
    for (unsigned d = 0; d < 3; d++)
        f->cluster[d] = a->cluster[d];
    f->attrs_set = a->set;
}

void sg_function_init(struct CUfunc_st *f, struct CUmod_st *m, const struct sg_kernel *k)
{
    struct sg_func_attrs a;

    f->magic = SG_MAGIC_FUNC;
    f->module = m;
    f->kernel = k;
    f->info = sg_kernel_info(k);
    f->tools = sg_tool_kernel(&sg_driver.opt, f->info->name);
    f->cache_config = (int)m->ctx->cache_config;
    sg_func_attrs_default(&a, f->info);
    sg_function_attrs_put(f, &a);
}

CUresult sg_func_attr_get(const struct sg_func_attrs *a, const struct sg_kernel_info *info,
                          const struct sg_device *dev, CUfunction_attribute attribute, int *value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = (int)(info->max_threads ? info->max_threads : SG_MAX_THREADS);
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)info->static_shared;
        break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = (int)info->const_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)info->local_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = (int)sg_function_regs(info);
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = (int)info->arch; /* "virtual architecture version": compute_80 */
        break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = (int)dev->arch;
        break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = a->max_dynamic_shared;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = a->carveout;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *value = info->reqcluster[0] != 0;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = a->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = a->nonportable_cluster;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = a->cluster_policy;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sg_func_attr_set(struct sg_func_attrs *a, const struct sg_kernel_info *info,
                          const struct sg_device *dev, CUfunction_attribute attribute, int value)
{
    int most = (int)sg_arch_of(dev)->shared_optin - (int)info->static_shared;

    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > most)
            return CUDA_ERROR_INVALID_VALUE;
        a->max_dynamic_shared = value;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        a->carveout = value;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        if (info->reqcluster[0])
            return CUDA_ERROR_NOT_PERMITTED;
        if (value < 0)
            return CUDA_ERROR_INVALID_VALUE;
        a->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        if (value < 0 || value > 1)
            return CUDA_ERROR_INVALID_VALUE;
        a->nonportable_cluster = value;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < 0 || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
            return CUDA_ERROR_INVALID_VALUE;
        a->cluster_policy = value;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    a->set |= 1u << attribute;
    return CUDA_SUCCESS;
}

CUresult sg_function_of(CUfunction f, struct CUctx_st *ctx, struct CUfunc_st **out,
                        CUkernel *kernel)
{
    CUkernel k = (CUkernel)(void *)f;

    if (kernel)
        *kernel = NULL;
    if (sg_handle_is(f, SG_MAGIC_FUNC)) {
        if (f->module->ctx != sg_context_root(ctx))
            return CUDA_ERROR_INVALID_HANDLE;
        *out = f;
        return CUDA_SUCCESS;
    }
    if (!sg_handle_is(k, SG_MAGIC_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (kernel)
        *kernel = k;
    return sg_kernel_function(k, ctx, out);
}

/* A function for the calls below, which do not need its context to be current. */
static CUresult function_any(CUfunction f, struct CUfunc_st **out)
{
    struct CUctx_st *ctx;
    CUresult r = sg_current(&ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (sg_handle_is(f, SG_MAGIC_FUNC)) {
        *out = f;
        return CUDA_SUCCESS;
    }
    return sg_function_of(f, ctx, out, NULL);
}

CUresult sg_cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    struct sg_func_attrs a;
    struct CUfunc_st *f;
    CUresult r = function_any(handle, &f);

    if (r != CUDA_SUCCESS)
        return r;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    sg_function_attrs_get(f, &a);
    return sg_func_attr_get(&a, f->info, f->module->ctx->dev, attribute, value);
}

CUresult sg_cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    struct sg_func_attrs a;
    struct CUfunc_st *f;
    CUresult r = function_any(handle, &f);

    if (r != CUDA_SUCCESS)
        return r;
    sg_function_attrs_get(f, &a);
    r = sg_func_attr_set(&a, f->info, f->module->ctx->dev, attribute, value);
    if (r == CUDA_SUCCESS)
        sg_function_attrs_put(f, &a);
    return r;
}

CUresult sg_cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    struct CUfunc_st *f;
    CUresult r = function_any(handle, &f);

    if (r != CUDA_SUCCESS)
        return r;
    if (config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    f->cache_config = (int)config;
    return CUDA_SUCCESS;
}

CUresult sg_cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
    struct CUfunc_st *f;
    CUresult r = function_any(handle, &f);

    if (r != CUDA_SUCCESS)
        return r;
    return config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                              : CUDA_SUCCESS;
}

CUresult sg_cuFuncGetModule(CUmodule *module, CUfunction handle)
{
    struct CUfunc_st *f;
    CUresult r = sg_needs(module, function_any(handle, &f));

    if (r == CUDA_SUCCESS)
        *module = f->module;
    return r;
}

CUresult sg_cuFuncGetName(const char **name, CUfunction handle)
{
    struct CUfunc_st *f;
    CUresult r;

    if (!name || !handle)
        return CUDA_ERROR_INVALID_VALUE;
    r = function_any(handle, &f);
    if (r == CUDA_SUCCESS)
        *name = f->info->name;
    return r;
}

CUresult sg_func_param(const struct sg_kernel_info *info, size_t index, size_t *offset,
                       size_t *size)
{
    if (!offset || index >= info->nparams)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = info->params[index].offset;
    if (size)
        *size = info->params[index].size;
    return CUDA_SUCCESS;
}

CUresult sg_cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    struct CUfunc_st *f;
    CUresult r = function_any(handle, &f);

    return r != CUDA_SUCCESS ? r : sg_func_param(f->info, index, offset, size);
}

#if CUDA_VERSION >= 13020
CUresult sg_cuFuncGetParamCount(CUfunction handle, size_t *count)
{
    struct CUfunc_st *f;
    CUresult r = sg_needs(count, function_any(handle, &f));

    if (r == CUDA_SUCCESS)
        *count = f->info->nparams;
    return r;
}
#endif

/* Everything is decoded at load: functions are always loaded. */
CUresult sg_cuFuncLoad(CUfunction handle)
{
    struct CUfunc_st *f;

    return function_any(handle, &f);
}

CUresult sg_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
    struct CUfunc_st *f;
    CUresult r = sg_needs(state, function_any(handle, &f));

    if (r == CUDA_SUCCESS)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return r;
}
