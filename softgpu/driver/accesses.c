#include "softgpu/driver/accesses.h"

#include "softgpu/driver/seam.h"
#include "softgpu/exec/watch.h"

#include <stdatomic.h>

/* Written by sg_accesses_set(), read at each launch. */
static _Atomic(const struct softgpu_access_hooks *) listener;

static void begin(void *arg, const struct sg_launch *l)
{
    const struct softgpu_access_hooks *h = atomic_load(&listener);
    const struct sg_kernel_info *info = sg_kernel_info(l->kernel);

    (void)arg;
    if (h)
        h->begin(h->arg, info->name, l->params, info->param_bytes);
}

static void end(void *arg, const struct sg_launch *l, const struct sg_fault *fault)
{
    const struct softgpu_access_hooks *h = atomic_load(&listener);

    (void)arg;
    (void)l;
    (void)fault;
    if (h)
        h->end(h->arg);
}

static bool access_of(void *arg, const struct sg_step *step, const struct sg_access *a)
{
    const struct softgpu_access_hooks *h = atomic_load_explicit(&listener, memory_order_relaxed);

    (void)arg;
    (void)step;
    if (h && a->space == SG_SPACE_GLOBAL)
        h->access(h->arg, a->addr, a->n, a->write);
    return true;
}

void sg_accesses_set(const struct softgpu_access_hooks *hooks)
{
    atomic_store(&listener, hooks);
}

void sg_accesses_watch(struct sg_launch *l)
{
    static const struct sg_watcher watcher = {.begin = begin, .end = end, .access = access_of};
    unsigned i = 0;

    if (!atomic_load(&listener))
        return;
    while (i < SG_MAX_WATCHERS && l->watchers[i])
        i++;
    if (i < SG_MAX_WATCHERS)
        l->watchers[i] = &watcher;
}
