#include "softgpu/driver/stream.h"
#include "softgpu/driver/strict.h"

#include <stdlib.h>
#include <string.h>

static bool dup_bytes(void *field, const void *from, size_t n)
{
    void *p = NULL;

    if (n && from) {
        p = malloc(n);
        if (!p)
            return false;
        memcpy(p, from, n);
    }
    memcpy(field, &p, sizeof(p));
    return true;
}

static size_t stage_bytes(const struct sg_copy_work *c)
{
    return c->stage ? (size_t)(c->width * c->height * c->depth) : 0;
}

CUresult sg_work_clone(const struct sg_work *w, struct sg_work *out)
{
    struct sg_work c = *w;
    bool ok = true;

    switch (w->kind) {
    case SG_WORK_KERNEL: {
        const struct sg_kernel_work *k = &w->kernel;
        size_t bytes = k->func && k->func->info ? k->func->info->param_bytes : 0;

        c.kernel.attrs = NULL;
        ok = dup_bytes(&c.kernel.params, k->params, bytes) &&
             dup_bytes(&c.kernel.attrs, k->attrs, k->nattrs * sizeof(*k->attrs));
        break;
    }
    case SG_WORK_COPY:
        ok = dup_bytes(&c.copy.stage, w->copy.stage, stage_bytes(&w->copy));
        break;
    case SG_WORK_MEM_ALLOC:
        ok = dup_bytes(&c.mem.params.accessDescs, w->mem.params.accessDescs,
                       w->mem.params.accessDescCount * sizeof(CUmemAccessDesc));
        break;
    case SG_WORK_BATCH_MEM_OP:
        ok = dup_bytes(&c.batch.ops, w->batch.ops, w->batch.n * sizeof(*w->batch.ops));
        break;
    case SG_WORK_EVENT_RECORD:
    case SG_WORK_EVENT_WAIT:
        sg_event_ref(w->event.event);
        break;
    default:
        break;
    }
    if (!ok) {
        sg_work_release(&c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = c;
    return CUDA_SUCCESS;
}

void sg_work_release(struct sg_work *w)
{
    if (!w)
        return;
    switch (w->kind) {
    case SG_WORK_KERNEL:
        free(w->kernel.params);
        free(w->kernel.attrs);
        break;
    case SG_WORK_COPY:
        free(w->copy.stage);
        break;
    case SG_WORK_MEM_ALLOC:
        free((void *)(uintptr_t)w->mem.params.accessDescs);
        break;
    case SG_WORK_BATCH_MEM_OP:
        free(w->batch.ops);
        break;
    case SG_WORK_EVENT_RECORD:
    case SG_WORK_EVENT_WAIT:
        sg_event_unref(w->event.event);
        break;
    default:
        break;
    }
    memset(w, 0, sizeof(*w));
}

struct sg_wref *sg_wref_new(struct sg_work *w)
{
    struct sg_wref *r = malloc(sizeof(*r));

    if (!r) {
        sg_work_release(w);
        return NULL;
    }
    atomic_init(&r->refs, 1);
    r->w = *w;
    if (sg_strict() && !r->w.by.call) /* of a graph's node */
        r->w.by = sg_strict_by();
    memset(w, 0, sizeof(*w));
    return r;
}

struct sg_wref *sg_wref_get(struct sg_wref *r)
{
    if (r)
        atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void sg_wref_put(struct sg_wref *r)
{
    if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    sg_work_release(&r->w);
    free(r);
}
