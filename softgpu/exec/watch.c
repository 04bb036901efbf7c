#include "softgpu/exec/watch.h"

/* Everything that is called for each of a launch's watchers. */
#define EACH(launch, at)                                                                           \
    for (const struct sg_watcher *const *at = (launch)->watchers;                                  \
         at < (launch)->watchers + SG_MAX_WATCHERS && *at != NULL; at++)

void sg_watch_begin(const struct sg_launch *l)
{
    EACH(l, at)
    if ((*at)->begin != NULL)
        (*at)->begin((*at)->arg, l);
}

void sg_watch_end(const struct sg_launch *l, const struct sg_fault *fault)
{
    EACH(l, at)
    if ((*at)->end != NULL)
        (*at)->end((*at)->arg, l, fault);
}

void sg_watch_block(struct sg_block *b, bool starts)
{
    EACH(b->run->launch, at)
    {
        void (*call)(void *, struct sg_block *) = starts ? (*at)->block_start : (*at)->block_end;
        if (call != NULL)
            call((*at)->arg, b);
    }
}

void sg_watch_barrier(struct sg_block *b, uint32_t id)
{
    EACH(b->run->launch, at)
    if ((*at)->barrier != NULL)
        (*at)->barrier((*at)->arg, b, id);
}

bool sg_watch_serial(const struct sg_launch *l)
{
    EACH(l, at)
    if ((*at)->serial)
        return true;
    return false;
}

void sg_watch_heap(struct sg_warp *w, unsigned lane, int event, uint64_t addr, uint64_t size)
{
    EACH(w->block->run->launch, at)
    if ((*at)->heap != NULL)
        (*at)->heap((*at)->arg, w, lane, (enum sg_heap_event)event, addr, size);
}

/* ---- memory ---------------------------------------------------------------------------------- */

bool sg_watch_access(struct sg_warp *w, unsigned lane, struct sg_block *shared_of, uint64_t addr,
                     uint8_t *bytes, uint64_t n, bool write)
{
    struct sg_access a = {.space = shared_of != NULL ? SG_SPACE_SHARED : SG_SPACE_GLOBAL,
                          .lane = lane,
                          .addr = addr,
                          .n = n,
                          .bytes = bytes,
                          .block = shared_of,
                          .write = write};
    const struct sg_step *step = w->block->run->step;

    if (step == NULL) { /* executed for lanes at different places: nobody can say where */
        EACH(w->block->run->launch, at)
        if (write && (*at)->unseen != NULL)
            (*at)->unseen((*at)->arg);
        return true;
    }
    EACH(w->block->run->launch, at)
    if ((*at)->access != NULL && !(*at)->access((*at)->arg, step, &a))
        return false;
    return true;
}

void *sg_watched_global(struct sg_warp *w, unsigned lane, uint64_t addr, uint64_t n, bool write)
{
    struct sg_run *r = w->block->run;
    uint8_t *p = (uint8_t *)(uintptr_t)addr;

    if (!sg_mem_ok_range(r->mem, addr, n, r->real_bit, write))
        return NULL;
    return sg_watch_access(w, lane, NULL, addr, p, n, write) ? p : NULL;
}

/* ---- instructions ---------------------------------------------------------------------------- */

uint8_t *sg_step_register(const struct sg_step *step, const struct sg_ptx_opnd *o, unsigned *size)
{
    const struct sg_ptx_reg *r;
    unsigned bytes;

    if (o->kind != SG_OPND_REG)
        return NULL;
    r = &step->func->ptx->regs[o->reg];
    bytes = sg_ptx_type_size(r->type) > 4 ? 8 : 4;
    *size = r->type == SG_M_PRED ? 0 : bytes;
    return step->warp->frame + step->func->slot[o->reg] +
           (r->vec > 1 ? (size_t)o->comp * bytes * SG_WARP : 0);
}

static void enter(struct sg_warp *w, struct sg_step *s, const struct sg_insn *in)
{
    *s = (struct sg_step){.warp = w, .func = w->func, .mask = w->mask, .serial = w->entered++};
    s->ptx = &w->func->ptx->insns[w->block->run->image->ptx_of[in - w->block->run->image->code]];
    if (s->ptx->guarded)
        s->mask &= sg_pred(w, s->func->slot[s->ptx->guard]) ^ -(uint32_t)s->ptx->guard_neg;
    w->block->run->step = s;
    EACH(w->block->run->launch, at)
    if ((*at)->enter != NULL)
        (*at)->enter((*at)->arg, s);
}

static void leave(struct sg_warp *w, struct sg_step *s)
{
    EACH(w->block->run->launch, at)
    if ((*at)->exit != NULL)
        (*at)->exit((*at)->arg, s);
    w->block->run->step = NULL;
}

/* The lanes of the running split that have executed @in and go on behind it. */
static bool done(const struct sg_warp *w, const struct sg_insn *in, const struct sg_insn *next)
{
    if (w->block->run->fault->kind != SG_FAULT_NONE)
        return false;
    if (next == in + 1)
        return true;
    return w->resched && w->cur < w->nsplits && w->splits[w->cur].pc == in + 1 &&
           w->splits[w->cur].mask == w->mask;
}

uint32_t sg_watch_split(struct sg_warp *w, uint32_t budget)
{
    struct sg_run *r = w->block->run;
    const struct sg_insn *code = r->image->code, *in = w->splits[w->cur].pc;
    const uint32_t *of = r->image->ptx_of;
    uint32_t n = 0, before = SG_NO_PTX;
    struct sg_step step = {0};

    w->resched = false;
    do {
        const struct sg_insn *next;
        size_t i = (size_t)(in - code);

        if (of[i] != SG_NO_PTX && of[i] != before)
            enter(w, &step, in);
        if (r->fault->kind != SG_FAULT_NONE) /* a watcher ends the launch */
            break;
        before = of[i];
        next = in->fn(w, in);
        n++;
        if (before == SG_NO_PTX || of[i + 1] != before || next != in + 1)
            if (r->step != NULL) {
                if (done(w, in, next)) {
                    step.mask &= w->mask;
                    leave(w, &step);
                }
                r->step = NULL;
                before = SG_NO_PTX;
            }
        in = next;
    } while (in != w->stop &&
             (n < budget || r->step != NULL)); /* an instruction ends in its slice */
    r->step = NULL;
    sg_warp_account(w, n);
    if (!w->resched)
        w->splits[w->cur].pc = in;
    return n < budget ? budget - n : 0;
}
