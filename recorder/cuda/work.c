/* One event in the making: its life, its hashes on the device. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "recorder/cuda/engine.h"

/* ---------------------------------------------------------------- life */

struct tb_cu_work *tb_cu_work_take(uint8_t kind, const char *name, CUstream stream, bool per_thread)
{
    struct tb_cu_work *w = tb_cu.free_works;

    if (w)
        tb_cu.free_works = w->next;
    else
        w = tb_cu_small(sizeof(*w));
    if (!w)
        return NULL;
    memset(w, 0, offsetof(struct tb_cu_work, detail));
    w->detail[0] = 0;
    w->kind = kind;
    w->name = name;
    w->stream = stream;
    w->per_thread = per_thread;
    w->open = tb_cu.api->seq();
    w->seq = TB_REC_NO_SEQ;
    return w;
}

struct tb_cu_work *tb_cu_work_new(uint8_t kind, const char *name, CUstream stream, bool per_thread)
{
    tb_cu_lock();
    struct tb_cu_work *w = tb_cu_work_take(kind, name, stream, per_thread);
    tb_cu_unlock();
    return w;
}

/* Tickets of hashes that were queued before work that then was not. */
static void undraw_all(struct tb_cu_work *w)
{
    for (uint32_t i = 0; w->ctx && i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (a->flags & TB_CU_CHANGE)
            tb_cu_undraw(w->ctx, a->before);
        if (a->table)
            tb_cu_undraw(w->ctx, a->ticket);
    }
}

/* Under the lock. */
static inline void give_back(struct tb_cu_work *w)
{
    if (tb_unlikely(w->seq == TB_REC_NO_SEQ)) /* no event carries its tickets */
        (w->again ? tb_cu_again_undraw : undraw_all)(w);
    w->next = tb_cu.free_works;
    tb_cu.free_works = w;
}

void tb_cu_work_drop(struct tb_cu_work *w)
{
    if (!w)
        return;
    tb_cu_lock();
    give_back(w);
    tb_cu_unlock();
}

void tb_cu_detail(struct tb_cu_work *w, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(w->detail, sizeof(w->detail), format, list);
    va_end(list);
}

/* ---------------------------------------------------------------- hashing */

/* Nothing is hashed before the work. */
static void no_before(struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (a->flags & TB_CU_DOUBT) /* as if it had not been chosen */
            a->flags = (uint8_t)((a->flags & ~TB_CU_HASH) | TB_CU_BELIEVED);
        a->flags &= (uint8_t) ~(TB_CU_CHANGE | TB_CU_DOUBT);
    }
}

/* Tickets for the @n accesses with one of @flag; false: there are none. Under the lock. */
static bool draw(struct tb_cu_work *w, uint8_t flag, uint32_t n)
{
    uint64_t ticket;

    if (tb_unlikely(!n || !tb_cu_draw(w->ctx, n, &ticket))) {
        if (n)
            w->missing = "the table of fingerprints is full: the device lags far behind";
        if (flag & TB_CU_CHANGE)
            no_before(w);
        return false;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & flag))
            continue;
        if (flag & a->flags & TB_CU_CHANGE) {
            a->before = ticket++;
            continue;
        }
        a->ticket = ticket++;
        a->table = w->ctx->table;
    }
    return true;
}

static void give_up(struct tb_cu_work *w, uint8_t flag, const char *why)
{
    tb_cu_lock();
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if ((a->flags & flag) && a->table) {
            tb_cu_undraw(w->ctx, a->ticket);
            a->table = 0;
        }
        if ((a->flags & TB_CU_CHANGE) && w->ctx)
            tb_cu_undraw(w->ctx, a->before);
    }
    no_before(w);
    tb_cu_unlock();
    w->missing = why;
}

/* Memory that a device may not use must not be looked at there: that would end the job's context.
 */
bool tb_cu_may_look(const struct tb_cu_ctx *c, const struct tb_cu_alloc *a)
{
    if (a->kind == TB_CU_REGISTERED || a->device == TB_CU_NO_DEVICE)
        return false;
    if ((a->kind != TB_CU_DEVICE && a->kind != TB_CU_GLOBAL) || a->device == c->device ||
        (a->kind == TB_CU_GLOBAL && a->unstable))
        return true;
    return c->device < 64 && a->device < 64 && tb_cu.peers[c->device] >> a->device & 1;
}

/* What arrived on a device that may not be read here is what has left this one. */
static bool find_twin(const struct tb_cu_work *w, struct tb_cu_access *a)
{
    for (uint32_t i = 0; w->plain && w->n == 2 && a->mode == 'w' && i < w->n; i++) {
        const struct tb_cu_access *r = &w->access[i];
        if (r->mode != 'r' || r->bytes != a->bytes || !tb_cu_may_look(w->ctx, r->alloc))
            continue;
        a->twin = r->alloc->base + r->offset;
        return true;
    }
    return false;
}

/* NULL: @a may be hashed; "": it may not, and need not be told; else why not. */
static const char *refusal(const struct tb_cu_work *w, struct tb_cu_access *a)
{
    if (tb_unlikely(a->alloc->ordinal != a->ordinal))
        return "memory that another thread has freed meanwhile";
    if (tb_likely(tb_cu_may_look(w->ctx, a->alloc)) || find_twin(w, a))
        return NULL;
    if (!(a->flags & TB_CU_HASH))
        return "";
    return a->alloc->kind == TB_CU_REGISTERED
               ? "memory of the host that was registered is not hashed"
               : "memory of another device, which this one may not read";
}

/* Drops what may not be hashed; how many accesses with one of @flag are left. */
static uint32_t leave_out(struct tb_cu_work *w, uint8_t flag)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & (TB_CU_HASH | TB_CU_BEFORE)))
            continue;
        const char *why = refusal(w, a);
        if (tb_unlikely(why != NULL)) {
            w->missing = *why ? why : w->missing;
            a->flags = 0;
        }
        n += (a->flags & flag) != 0;
    }
    return n;
}

static struct tb_fpd_job job_of(const struct tb_cu_access *a, uint8_t flag)
{
    return (struct tb_fpd_job){.src = a->twin ? a->twin : a->alloc->base + a->offset,
                               .bytes = a->bytes,
                               .ticket = flag & a->flags & TB_CU_CHANGE ? a->before : a->ticket,
                               .rate = a->rate};
}

/* How the bytes of @a lie where they are hashed; false: one behind the other */
static bool rows_of(const struct tb_cu_work *w, const struct tb_cu_access *a, struct tb_cu_rows *r)
{
    if (a->twin)
        return tb_cu_arrival_rows(w, a, r);
    if (!(a->flags & TB_CU_ROWS))
        return false;
    *r = w->rows;
    return true;
}

static bool hash_rows(const struct tb_cu_work *w, const struct tb_cu_access *a,
                      const struct tb_cu_rows *r)
{
    const int64_t sizes[] = {(int64_t)r->slices, (int64_t)r->count, (int64_t)r->width};
    const int64_t strides[] = {(int64_t)r->slice, (int64_t)r->pitch, 1};
    const struct tb_rec_view v = {.address = a->twin ? a->twin : a->alloc->base + a->offset,
                                  .bytes = r->slices * r->count * r->width,
                                  .elem = 1,
                                  .ndim = 3,
                                  .sizes = sizes,
                                  .strides = strides};

    return tb_cu_launch_view(w->ctx, w->stream, w->per_thread, &v, a->ticket);
}

/* Between the host and the device bytes count as they are: the host reads or has written them all,
 * but for gaps between rows. */
static bool launch(struct tb_cu_work *w, struct tb_fpd_batch *b)
{
    w->exact = w->kind == TB_EV_COPY && (w->leaves || (w->n == 1 && w->plain));
    return (w->exact ? tb_cu_launch_exact : tb_cu_launch_batch)(w->ctx, w->stream, w->per_thread,
                                                                b);
}

static void hash(struct tb_cu_work *w, uint8_t flag)
{
    struct tb_fpd_batch b; /* 3 KB, of which few bytes are used */
    struct tb_cu_rows rows;
    bool ok = true;

    tb_cu_await_slots(w->ctx, w->n);
    tb_cu_lock();
    bool drawn = draw(w, flag, leave_out(w, flag));
    tb_cu_unlock();
    if (!drawn)
        return;
    tb_cu_batch_begin(w->ctx, &b);
    for (uint32_t i = 0; i < w->n; i++) {
        if (!(w->access[i].flags & flag))
            continue;
        if (tb_unlikely(rows_of(w, &w->access[i], &rows))) {
            ok = hash_rows(w, &w->access[i], &rows) && ok;
            continue;
        }
        b.job[b.jobs++] = job_of(&w->access[i], flag);
        if (b.jobs < TB_FPD_MAX)
            continue;
        ok = launch(w, &b) && ok;
        b.jobs = 0;
    }
    if (b.jobs)
        ok = launch(w, &b) && ok;
    if (!ok)
        give_up(w, flag, "the hash could not be launched");
}

/* The context of its stream is current until tb_cu_return(). */
static struct tb_cu_ctx *visit(const struct tb_cu_work *w, struct tb_cu_visit *v)
{
    tb_cu_visit(w->order ? w->order->context : NULL, v);
    return tb_cu_ctx();
}

void tb_cu_work_before(struct tb_cu_work *w)
{
    struct tb_cu_visit v = {.pushed = false};

    w->ctx = w->n ? visit(w, &v) : NULL;
    w->snapshot = tb_cu_snapshot_due(w);
    if (w->ctx)
        hash(w, TB_CU_BEFORE | TB_CU_CHANGE);
    else
        no_before(w);
    if (w->snapshot)
        tb_cu_snapshot_take(w, 'r');
    tb_cu_return(&v);
}

/* ---------------------------------------------------------------- the end */

static inline void say_seq(struct tb_cu_uses *uses, uint64_t seq)
{
    for (uint32_t i = 0; uses->unsaid && i < uses->n; i++)
        if (uses->use[i].seq == TB_REC_NO_SEQ)
            uses->use[i].seq = seq;
    uses->unsaid = false;
}

/* What the accesses lead to: later ones must know which event it was. Under the lock. */
tb_cold static void note_seq(struct tb_cu_work *w)
{
    bool inputs = tb_cu.config->flags & TB_CFG_INPUTS;

    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (a->mode == 'w' && a->alloc->ordinal == a->ordinal)
            say_seq(&a->alloc->write, w->seq);
        else if (inputs && a->mode == 'r' && a->alloc->ordinal == a->ordinal)
            say_seq(&a->alloc->read, w->seq);
    }
}

static inline void note_seq_again(struct tb_cu_work *w)
{
    const struct tb_cu_again *r = &w->plan_run;

    for (uint32_t i = 0; i < r->batch.jobs; i++)
        if (r->alloc[i]->ordinal == (r->hashed[i]->alloc & TB_ALLOC_MASK))
            say_seq(&r->alloc[i]->write, w->seq);
}

void tb_cu_work_over(struct tb_cu_work *w)
{
    tb_cu_lock();
    if (tb_likely(w->again))
        note_seq_again(w);
    else
        note_seq(w);
    give_back(w);
    tb_cu_unlock();
}

void tb_cu_work_write(struct tb_cu_work *w)
{
    tb_cu_event_write(w);
    if (w->snaps)
        tb_cu_snapshot_send(w);
    tb_cu_work_over(w);
}

void tb_cu_work_ordered(struct tb_cu_work *w)
{
    tb_cu_add_order(w);
    tb_cu_work_write(w);
}

/* A copy leaves what it reads as it is: where CUDA could not be called before it, that is hashed
 * behind it, if the host will wait for its stream again. */
static void hash_late(struct tb_cu_work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if ((a->flags & TB_CU_BEFORE) && !a->table)
            a->flags = TB_CU_HASH | (a->flags & TB_CU_ROWS);
    }
}

/* What leaves for the host tells whether memory was read that nobody wrote (run --poison). */
static void look_for_unhashed(const struct tb_cu_work *w)
{
    for (uint32_t i = 0; w->leaves && i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (a->mode == 'r' && !(a->flags & TB_CU_ARRIVED) && (!a->table || a->rate > 1))
            tb_cu_fill_unhashed();
    }
}

static void hash_end(struct tb_cu_work *w)
{
    struct tb_cu_visit v;
    struct tb_cu_ctx *c = visit(w, &v);

    if (!w->ctx)
        w->ctx = c;
    if (w->kind == TB_EV_COPY && !w->waited && (tb_cu.config->flags & TB_CFG_DEFER))
        hash_late(w);
    if (w->ctx)
        hash(w, TB_CU_HASH);
    if (w->learn && w->ctx) {
        tb_cu_lock();
        tb_cu_learn_note(w);
        tb_cu_unlock();
    }
    if (w->snapshot)
        tb_cu_snapshot_take(w, 'w');
    if (!w->ctx && !w->missing)
        w->missing = "nothing can be hashed in this context";
    tb_cu_return(&v);
}

void tb_cu_work_end(struct tb_cu_work *w)
{
    struct tb_cu_work *before = tb_cu_tls.pending;

    tb_cu_tls.pending = NULL;
    if (before) { /* no place was reached where CUDA may be called */
        give_up(before, TB_CU_HASH, "no call of CUDA was allowed before the next one");
        tb_cu_add_order(before);
        tb_cu_work_write(before);
    }
    if (!tb_cu_tls.may_call) {
        tb_cu_tls.pending = w;
        return;
    }
    if (w->n)
        hash_end(w);
    if (tb_cu_fills())
        look_for_unhashed(w);
    tb_cu_add_order(w);
    tb_cu_work_write(w);
}
