/*
 * The queue's side of order.h: along which edges clocks go, and what works touch. All but the
 * accesses with the engine's lock.
 *
 * An item's clock is what the host had waited for when it was submitted, and what the items know
 * that it follows: those that are done by then give it at once, the others when they end.
 */
#include "softgpu/driver/order_item.h"

#include "softgpu/driver/memory.h"
#include "softgpu/driver/strict.h"

#include <stdio.h>
#include <string.h>

CUresult sg_order_init(struct sg_engine *e)
{
    if (!sg_strict())
        return CUDA_SUCCESS;
    e->order = sg_order_new();
    return e->order ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- edges ----------------------------------------------------------------------------------- */

void sg_order_stream_gone(struct CUstream_st *s)
{
    struct CUstream_st *legacy = s->ctx->legacy;

    if (legacy && legacy != s)
        sg_clock_join(&legacy->gone, &s->done);
    sg_clock_release(&s->done);
    sg_clock_release(&s->gone);
}

void sg_order_behind(struct sg_item *i, const struct CUstream_st *s)
{
    sg_clock_join(&i->clock, &s->done);
}

void sg_order_behind_all(struct sg_item *i, const struct CUctx_st *ctx)
{
    for (const struct CUstream_st *s = ctx->streams; s; s = s->next_in_ctx)
        sg_order_behind(i, s);
    sg_order_behind(i, ctx->legacy);
    sg_clock_join(&i->clock, &ctx->legacy->gone);
}

void sg_order_append(struct sg_item *i, const struct CUstream_st *s)
{
    sg_order_behind(i, s);
    if (s->legacy) {
        sg_clock_join(&i->clock, &s->gone);
        for (const struct CUstream_st *t = s->ctx->streams; t; t = t->next_in_ctx)
            if (!(t->flags & CU_STREAM_NON_BLOCKING))
                sg_order_behind(i, t);
    } else if (!(s->flags & CU_STREAM_NON_BLOCKING) && s->ctx->legacy) {
        sg_order_behind(i, s->ctx->legacy);
    }
}

/* Whoever waits for a value waits for he does not say whom: all that has begun. */
static bool waits_for_values(const struct sg_work *w)
{
    for (unsigned i = 0; w->kind == SG_WORK_BATCH_MEM_OP && i < w->batch.n; i++)
        if (w->batch.ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
            w->batch.ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
            return true;
    return false;
}

void sg_order_finish(struct sg_engine *e, struct sg_item *i)
{
    const struct sg_work *w = i->work ? &i->work->w : NULL;

    if (w && waits_for_values(w))
        sg_order_all(e->order, &i->clock);
    if (w && w->kind == SG_WORK_HOST) /* it may tell any thread of the host */
        sg_clock_join(&e->host, &i->clock);
    for (const struct sg_link *l = i->followers; l; l = l->next)
        sg_clock_join(&l->to->clock, &i->clock);
    sg_clock_join(&i->stream->done, &i->clock);
}

void sg_order_host_waited(struct sg_engine *e, const struct CUstream_st *s)
{
    sg_clock_join(&e->host, &s->done);
    if (!s->legacy)
        return;
    sg_clock_join(&e->host, &s->gone);
    for (const struct CUstream_st *t = s->ctx->streams; t; t = t->next_in_ctx)
        if (!(t->flags & CU_STREAM_NON_BLOCKING))
            sg_clock_join(&e->host, &t->done);
}

void sg_order_host_waited_ctx(struct sg_engine *e, const struct CUctx_st *ctx)
{
    for (const struct CUstream_st *s = ctx->streams; s; s = s->next_in_ctx)
        sg_clock_join(&e->host, &s->done);
    if (ctx->legacy)
        sg_order_host_waited(e, ctx->legacy);
}

void sg_order_run(struct sg_engine *e, struct sg_item *i)
{
    struct sg_end who = {.by = i->work->w.by, .stream = i->stream->id};

    if (i->work->w.kind == SG_WORK_KERNEL)
        who.kernel = i->work->w.kernel.func->info->name;
    i->epoch = sg_order_begin(e->order, &i->clock, &i->stream->chain, &who, sizeof(who));
}

/* ---- accesses -------------------------------------------------------------------------------- */

static const char *const kinds[] = {"read", "write", "atomic"};

struct doing {
    enum sg_access_kind kind;
};

static const char *name_of(const struct sg_end *e)
{
    return e->kernel ? e->kernel : e->by.call ? e->by.call : "a work";
}

static void conflict(void *arg, const void *tag, enum sg_access_kind kind, uint64_t addr,
                     uint64_t n)
{
    const struct doing *doing = arg;
    struct sg_finding f = {.rule = SG_RULE_STREAM_RACE, .address = addr, .size = n};

    f.at = sg_strict_at();
    f.at.access = kinds[doing->kind];
    memcpy(&f.other, tag, sizeof(f.other));
    f.other.access = kinds[kind];
    sg_book_near(addr, &f.near);
    snprintf(f.text, sizeof(f.text),
             "%s of %llu bytes at %#llx by '%s' (call %llu, stream %llu), %s by '%s' (call %llu, "
             "stream %llu): nothing orders them",
             f.at.access, (unsigned long long)n, (unsigned long long)addr, name_of(&f.at),
             (unsigned long long)f.at.by.number, (unsigned long long)f.at.stream, f.other.access,
             name_of(&f.other), (unsigned long long)f.other.by.number,
             (unsigned long long)f.other.stream);
    sg_report(&f);
}

void sg_order_touch(uint64_t addr, uint64_t n, enum sg_access_kind kind)
{
    const struct sg_item *i = sg_tls()->strict.item;
    struct doing doing = {kind};

    /* memory of the host that CUDA does not know is waited for by each call that names it */
    if (i && n)
        sg_order_access(sg_driver.engine->order, i->epoch, &i->clock, addr, n, kind, conflict,
                        &doing);
}

static bool touched(void *arg, uint64_t addr, uint64_t n, enum sg_touch_kind kind)
{
    const bool *tools = arg;

    if (*tools && kind == SG_TOUCH_READ) /* SOFTGPU_TOOL_KERNELS: it reads whatever there is */
        return true;
    sg_order_touch(addr, n,
                   kind == SG_TOUCH_READ    ? SG_ACCESS_READ
                   : kind == SG_TOUCH_WRITE ? SG_ACCESS_WRITE
                                            : SG_ACCESS_ATOMIC);
    return true;
}

void sg_order_touched(struct sg_touch *t, bool tools)
{
    if (sg_touch_lost(t))
        sg_log(1, "strict: no memory to note all that a launch touches: races may be missed");
    sg_touch_each(t, touched, &tools);
}

void sg_order_freed(uint64_t addr, uint64_t n)
{
    if (sg_driver.engine && sg_driver.engine->order)
        sg_order_forget(sg_driver.engine->order, addr, n);
}
