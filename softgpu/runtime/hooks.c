/* The seam for tools. */
#include "softgpu/runtime/hooks.h"

#include "softgpu/runtime/runtime.h"

/* Written by softgpu_rt_set_hooks(), read by every exported function. */
const struct softgpu_call_hooks *_Atomic sg_rt_hooks;

void softgpu_rt_set_hooks(const struct softgpu_call_hooks *hooks)
{
    atomic_store(&sg_rt_hooks, hooks);
}

void sg_rt_hook_enter(struct sg_call *call)
{
    const struct softgpu_call_hooks *hooks = atomic_load(&sg_rt_hooks);

    call->hooks = hooks;
    if (hooks != NULL && hooks->enter != NULL)
        hooks->enter(hooks->arg, call);
}

cudaError_t sg_rt_hook_exit(struct sg_call *call)
{
    const struct softgpu_call_hooks *hooks = call->hooks;

    if (hooks != NULL && hooks->exit != NULL)
        hooks->exit(hooks->arg, call);
    return (cudaError_t)call->result;
}

__attribute__((constructor)) static void attach(void)
{
    static const struct softgpu_runtime runtime = {.set_hooks = softgpu_rt_set_hooks,
                                                   .symbol = sg_rt_symbol_name};
    const struct softgpu_tools *tools = softgpu_find_tools(cuGetExportTable);

    if (tools != NULL) /* another driver than ours knows of no seam */
        tools->attach_runtime(&runtime);
}
