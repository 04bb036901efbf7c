#include "softgpu/driver/hooks.h"

#include <string.h>

/* Written by softgpu_set_hooks() and at cuInit, read by every exported function. */
atomic_int sg_hook_active;
static _Atomic(const struct softgpu_hooks *) hooks;

enum { HOOK_USER = 1, HOOK_TRACE = 2 };

void softgpu_set_hooks(const struct softgpu_hooks *h)
{
    atomic_store(&hooks, h);
    if (h)
        atomic_fetch_or(&sg_hook_active, HOOK_USER);
    else
        atomic_fetch_and(&sg_hook_active, ~HOOK_USER);
}

void sg_hooks_init(void)
{
    if (sg_driver.opt.log >= 3)
        atomic_fetch_or(&sg_hook_active, HOOK_TRACE);
}

void sg_hook_enter(struct sg_call *call)
{
    const struct softgpu_hooks *h = atomic_load(&hooks);

    if (h && h->enter)
        h->enter(h->arg, call);
}

CUresult sg_hook_exit(struct sg_call *call)
{
    const struct softgpu_hooks *h = atomic_load(&hooks);

    if (atomic_load(&sg_hook_active) & HOOK_TRACE)
        sg_log(3, "%s -> %d", call->name, (int)call->result);
    if (h && h->exit)
        h->exit(h->arg, call);
    return call->result;
}

/* Names that have been reported, by address: they are literals of the generated file. */
#define REPORTED_MAX 1024
static _Atomic(const char *) reported[REPORTED_MAX];

CUresult sg_unsupported(const char *name)
{
    /* asked for by NVRTC, nvJitLink and others, which go on without: nothing worth a line */
    int level = strcmp(name, "cuGetExportTable") == 0 ? 2 : 1;

    for (unsigned i = 0; i < REPORTED_MAX; i++) {
        const char *none = NULL;

        if (atomic_compare_exchange_strong(&reported[i], &none, name)) {
            sg_log(level, "%s is not supported", name);
            break;
        }
        if (none == name || strcmp(none, name) == 0)
            break;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}
