#include "softgpu/driver/hooks.h"

#include "softgpu/driver/strict.h"
#include "softgpu/log/log.h"

#include <stdlib.h>
#include <string.h>

/* Written by softgpu_set_hooks(), softgpu_attach_runtime() and at cuInit, read by every exported
 * function. */
atomic_int sg_hook_active;
static _Atomic(const struct softgpu_hooks *) hooks;
static _Atomic(const struct softgpu_runtime *) runtime;

enum { HOOK_USER = 1, HOOK_TRACE = 2, HOOK_STRICT = 4 };

void softgpu_set_hooks(const struct softgpu_hooks *h)
{
    const struct softgpu_runtime *rt = atomic_load(&runtime);

    atomic_store(&hooks, h);
    if (h)
        atomic_fetch_or(&sg_hook_active, HOOK_USER);
    else
        atomic_fetch_and(&sg_hook_active, ~HOOK_USER);
    if (rt)
        rt->set_hooks(h ? h->runtime : NULL);
}

/* The tool may have been there first. */
void softgpu_attach_runtime(const struct softgpu_runtime *rt)
{
    const struct softgpu_hooks *h = atomic_load(&hooks);

    atomic_store(&runtime, rt);
    rt->set_hooks(h ? h->runtime : NULL);
}

const struct softgpu_runtime *sg_runtime(void)
{
    return atomic_load(&runtime);
}

void sg_hooks_init(void)
{
    if (sg_driver.opt.log >= 3)
        atomic_fetch_or(&sg_hook_active, HOOK_TRACE);
    if (sg_strict())
        atomic_fetch_or(&sg_hook_active, HOOK_STRICT);
}

void sg_hook_enter(struct sg_call *call)
{
    const struct softgpu_hooks *h = atomic_load(&hooks);

    call->hooks = h;
    if (sg_strict())
        sg_strict_enter(call->name);
    if (!h || !h->enter)
        return;
    sg_strict_tool(1);
    h->enter(h->arg, call);
    sg_strict_tool(-1);
}

CUresult sg_hook_exit(struct sg_call *call)
{
    const struct softgpu_hooks *h = call->hooks;

    if (atomic_load(&sg_hook_active) & HOOK_TRACE)
        sg_log(3, "%s -> %d", call->name, call->result);
    if (sg_strict())
        call->result = (int)sg_strict_exit((CUresult)call->result);
    sg_notice_flush();
    if (h && h->exit) {
        sg_strict_tool(1);
        h->exit(h->arg, call);
        sg_strict_tool(-1);
    }
    return (CUresult)call->result;
}

/* ---- notices ---- */

static void tell(const struct softgpu_hooks *h, const struct sg_notice *n)
{
    sg_strict_tool(1);
    h->notice(h->arg, n);
    sg_strict_tool(-1);
}

void sg_notice_send(const struct sg_notice *n)
{
    const struct softgpu_hooks *h = atomic_load(&hooks);

    sg_notice_flush(); /* what was kept came before */
    if (h && h->notice)
        tell(h, n);
}

void sg_notice_later(const struct sg_notice *n)
{
    const struct softgpu_hooks *h = atomic_load(&hooks);
    struct sg_tls *tls = sg_tls();

    if (!h || !h->notice)
        return;
    if (tls->nnotices == tls->notices_cap) {
        unsigned cap = tls->notices_cap ? tls->notices_cap * 2 : 16;
        struct sg_notice *grown = realloc(tls->notices, cap * sizeof(*grown));

        if (!grown) {
            sg_log(1, "no memory to tell a tool what became of an object");
            return;
        }
        tls->notices = grown;
        tls->notices_cap = cap;
    }
    tls->notices[tls->nnotices++] = *n;
}

/* A function of the tool may call CUDA, which keeps and tells notices of its own. */
void sg_notice_flush(void)
{
    const struct softgpu_hooks *h = atomic_load(&hooks);
    struct sg_tls *tls = sg_tls();
    struct sg_notice *list = tls->notices;
    unsigned n = tls->nnotices;

    if (!n)
        return;
    tls->notices = NULL;
    tls->nnotices = tls->notices_cap = 0;
    for (unsigned i = 0; i < n && h && h->notice; i++)
        tell(h, &list[i]);
    free(list);
}

/* ---- what nobody defines ---- */

CUresult sg_unsupported(const char *name)
{
    if (sg_log_first(name))
        sg_log(1, "%s is not supported", name);
    return CUDA_ERROR_NOT_SUPPORTED;
}
