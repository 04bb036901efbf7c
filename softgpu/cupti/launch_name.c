/* Which calls launch a kernel, and where in their parameters it is. */
#include "softgpu/cupti/cupti_internal.h"

#include <stddef.h>

struct launch {
    uint32_t id;
    size_t offset; /* of the kernel in the parameters */
};

#define DRIVER(name, field)                                                                        \
    {                                                                                              \
        CUPTI_DRIVER_TRACE_CBID_##name, offsetof(name##_params, field)                             \
    }
#define RUNTIME(name, field)                                                                       \
    {                                                                                              \
        CUPTI_RUNTIME_TRACE_CBID_##name, offsetof(name##_params, field)                            \
    }

static const struct launch driver_launches[] = {
    DRIVER(cuLaunchKernel, f),
    DRIVER(cuLaunchKernel_ptsz, f),
    DRIVER(cuLaunchKernelEx, f),
    DRIVER(cuLaunchKernelEx_ptsz, f),
    DRIVER(cuLaunchCooperativeKernel, f),
    DRIVER(cuLaunchCooperativeKernel_ptsz, f),
    DRIVER(cuLaunch, f),
    DRIVER(cuLaunchGrid, f),
    DRIVER(cuLaunchGridAsync, f),
};

static const struct launch runtime_launches[] = {
    RUNTIME(cudaLaunchKernel_v7000, func),
    RUNTIME(cudaLaunchKernel_ptsz_v7000, func),
    RUNTIME(cudaLaunchKernelExC_v11060, func),
    RUNTIME(cudaLaunchKernelExC_ptsz_v11060, func),
    RUNTIME(cudaLaunchCooperativeKernel_v9000, func),
    RUNTIME(cudaLaunchCooperativeKernel_ptsz_v9000, func),
#if CUDA_VERSION >= 13000
    /* what nvcc's host code calls: no structure in the headers, the kernel comes first */
    {CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000, 0},
    {CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000, 0},
#endif
};

static const struct launch *find(const struct launch *list, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].id == id)
            return &list[i];
    return NULL;
}

const char *sg_cupti_launch_name(const struct sg_call *call, bool runtime)
{
    const struct softgpu_tools *tools = sg_cupti_tools();
    const struct launch *l =
        runtime
            ? find(runtime_launches, sizeof(runtime_launches) / sizeof(runtime_launches[0]),
                   call->id)
            : find(driver_launches, sizeof(driver_launches) / sizeof(driver_launches[0]), call->id);
    const char *name;
    void *kernel;

    if (!l)
        return NULL;
    kernel = *(void *const *)((const char *)call->params + l->offset);
    if (!runtime)
        return tools->function(kernel);
    name = tools->runtime_symbol(kernel);
    return name ? name : tools->function(kernel); /* a cudaKernel_t is a CUkernel */
}
