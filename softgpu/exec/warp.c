#include "softgpu/exec/watch.h"

#include <stdio.h>
#include <stdlib.h>

const struct sg_insn sg_stop;

#define MAX_DEPTH 4096
#define MAX_REGS (256u << 20)  /* bytes of all frames of a warp */
#define MAX_LOCAL (512u << 10) /* bytes a thread, without a limit of the launch's own */

void sg_warp_expand(struct sg_warp *w)
{
    for (int l = 0; l < SG_WARP; l++)
        w->lm[l] = -(int32_t)((w->mask >> l) & 1);
    w->lm_mask = w->mask;
}

static bool same_place(const struct sg_split *a, const struct sg_split *b)
{
    return a->pc == b->pc && a->fp == b->fp && a->lp == b->lp && a->depth == b->depth;
}

/* Deepest activation first, then the lowest instruction: whoever is behind catches up, so that
 * divided lanes meet again where their ways join. */
static bool goes_before(const struct sg_split *a, const struct sg_split *b)
{
    return a->depth != b->depth ? a->depth > b->depth : a->pc < b->pc;
}

static bool mergeable(const struct sg_split *s)
{
    return s->state == SG_READY || s->state == SG_WAIT_SYNC;
}

static void drop_split(struct sg_warp *w, uint32_t i)
{
    w->nsplits--;
    if (i != w->nsplits)
        w->splits[i] = w->splits[w->nsplits];
}

void sg_warp_add(struct sg_warp *w, const struct sg_split *s)
{
    for (uint32_t i = 0; i < w->nsplits; i++)
        if (i != w->cur && mergeable(&w->splits[i]) && same_place(&w->splits[i], s)) {
            w->splits[i].mask |= s->mask;
            w->splits[i].state = SG_READY; /* it looks again who is there */
            return;
        }
    w->splits[w->nsplits++] = *s;
}

const struct sg_insn *sg_warp_leave(struct sg_warp *w)
{
    w->resched = true;
    w->stop = &sg_stop;
    return &sg_stop;
}

const struct sg_insn *sg_warp_resched(struct sg_warp *w, const struct sg_insn *next)
{
    w->splits[w->cur].pc = next;
    return sg_warp_leave(w);
}

/* Where the running split meets another one, if it goes on straight. */
static void find_stop(struct sg_warp *w)
{
    const struct sg_split *me = &w->splits[w->cur];
    const struct sg_insn *stop = &w->block->run->image->code[w->block->run->image->ncode];

    for (uint32_t i = 0; i < w->nsplits; i++) {
        const struct sg_split *s = &w->splits[i];
        if (i != w->cur && mergeable(s) && s->depth == me->depth && s->fp == me->fp &&
            s->lp == me->lp && s->pc > me->pc && s->pc < stop)
            stop = s->pc;
    }
    w->stop = stop;
}

/* Make split @i the running one; everybody who is at its place joins it. */
static void enter_split(struct sg_warp *w, uint32_t i)
{
    struct sg_split *s = &w->splits[i];

    for (uint32_t j = w->nsplits; j-- > 0;)
        if (j != i && mergeable(&w->splits[j]) && same_place(&w->splits[j], s)) {
            s->mask |= w->splits[j].mask;
            if (i == w->nsplits - 1) { /* the last one moves into the gap */
                drop_split(w, j);
                i = j;
                s = &w->splits[i];
            } else {
                drop_split(w, j);
            }
        }
    s->state = SG_READY;
    w->cur = i;
    w->mask = s->mask;
    w->full = s->mask == w->alive;
    w->fp = s->fp;
    w->lp = s->lp;
    w->depth = s->depth;
    w->func = s->func;
    w->frame = w->regs + s->fp;
    if (!w->full)
        sg_warp_expand(w);
    find_stop(w);
}

/* The split that runs next, or nsplits. @other: not the one of last time, if there is another:
 * who waits for a lane of the same warp must not keep it from running for ever. */
static uint32_t choose_split(struct sg_warp *w, bool other)
{
    uint32_t best = w->nsplits, after = w->nsplits;

    if (other)
        for (uint32_t k = 1; k <= w->nsplits; k++) {
            uint32_t i = (w->cur + k) % w->nsplits;
            if (w->splits[i].state == SG_READY) {
                after = i;
                break;
            }
        }
    if (after != w->nsplits)
        return after;
    for (uint32_t i = 0; i < w->nsplits; i++)
        if (w->splits[i].state == SG_READY &&
            (best == w->nsplits || goes_before(&w->splits[i], &w->splits[best])))
            best = i;
    return best;
}

/* Lanes ended, or wait: whoever waited for lanes of a warp looks again. */
static void wake_waiting(struct sg_warp *w)
{
    for (uint32_t i = 0; i < w->nsplits; i++) {
        struct sg_split *s = &w->splits[i];
        if (s->state == SG_WAIT_SYNC)
            s->state = SG_READY;
        if (s->state != SG_WAIT_WARP)
            continue;
        uint32_t there = 0, members = s->members;
        for (uint32_t j = 0; j < w->nsplits; j++)
            if (w->splits[j].state == SG_WAIT_WARP && w->splits[j].members == members)
                there |= w->splits[j].mask;
        if ((members & w->alive & ~there) != 0)
            continue;
        for (uint32_t j = 0; j < w->nsplits; j++)
            if (w->splits[j].state == SG_WAIT_WARP && w->splits[j].members == members)
                w->splits[j].state = SG_READY;
    }
}

void sg_warp_account(struct sg_warp *w, uint32_t n)
{
    w->insns += n;
    w->lane_insns += (uint64_t)n * (unsigned)__builtin_popcount(w->mask);
    w->block->run->clock += n;
}

/* Runs the chosen split until it meets another, leaves, or has used the budget up. */
static uint32_t run_split(struct sg_warp *w, uint32_t budget)
{
    const struct sg_insn *in = w->splits[w->cur].pc;
    uint32_t left = budget;

    w->resched = false;
    do {
        in = in->fn(w, in);
        left--;
    } while (in != w->stop && left != 0);
    sg_warp_account(w, budget - left);
    if (!w->resched)
        w->splits[w->cur].pc = in;
    return left;
}

enum sg_warp_state sg_warp_run(struct sg_warp *w, uint32_t budget)
{
    bool other = w->starved && w->nsplits > 1;

    w->starved = false;
    while (budget != 0) {
        uint32_t i = choose_split(w, other);
        other = false;
        if (i == w->nsplits) {
            if (w->block->run->fault->kind != SG_FAULT_NONE)
                return SG_WARP_FAULT;
            if (w->nsplits > 1 && sg_isa()->meet(w))
                continue;
            return w->alive == 0 ? SG_WARP_DONE : SG_WARP_BLOCKED;
        }
        enter_split(w, i);
        budget = w->block->run->watched ? sg_watch_split(w, budget) : run_split(w, budget);
        if (w->block->run->fault->kind != SG_FAULT_NONE)
            return SG_WARP_FAULT;
    }
    w->starved = true;
    return w->alive == 0 ? SG_WARP_DONE : SG_WARP_RUNNABLE;
}

const struct sg_insn *sg_warp_diverge(struct sg_warp *w, uint32_t taken,
                                      const struct sg_insn *target, const struct sg_insn *other)
{
    struct sg_split *me = &w->splits[w->cur];
    struct sg_split s = *me;

    me->mask &= ~taken;
    me->pc = other;
    s.mask = taken;
    s.pc = target;
    sg_warp_add(w, &s);
    return sg_warp_leave(w);
}

static void cluster_exit(struct sg_warp *w, uint32_t lanes);

const struct sg_insn *sg_warp_exit(struct sg_warp *w, uint32_t lanes, const struct sg_insn *next)
{
    struct sg_split *me = &w->splits[w->cur];

    w->alive &= ~lanes;
    me->mask &= ~lanes;
    me->pc = next;
    if (me->mask == 0)
        drop_split(w, w->cur);
    wake_waiting(w);
    cluster_exit(w, lanes);
    /* barriers count whole warps: those that are left may be all there already */
    for (uint32_t id = 0; id < SG_BARRIERS; id++)
        if (w->alive != 0 && w->bar_arrived[id] != 0 && (w->alive & ~w->bar_arrived[id]) == 0)
            sg_warp_barrier(w, NULL, id, 0, false, 0, false);
    return sg_warp_leave(w);
}

/* Where the instruction comes from. */
static void fault_place(struct sg_fault *f, const struct sg_warp *w, const struct sg_insn *in)
{
    const struct sg_run *run = w->block->run;
    const struct sg_ptx_module *m = w->func->ptx->module;
    uint32_t i = in != NULL ? run->image->ptx_of[in - run->image->code] : SG_NO_PTX;
    const struct sg_ptx_insn *p = i != SG_NO_PTX ? &w->func->ptx->insns[i] : NULL;

    f->kernel = run->kernel->info.name;
    if (p == NULL && run->step != NULL)
        p = run->step->ptx;
    if (f->access != NULL && p != NULL && (p->op == SG_OP_ATOM || p->op == SG_OP_RED))
        f->access = "atomic";
    f->line = p != NULL ? p->line : 0;
    if (p != NULL && p->file != 0 && p->file < m->nfiles && m->files[p->file] != NULL) {
        f->file = m->files[p->file];
        f->src_line = p->src_line;
    }
}

static void fault_text(struct sg_fault *f, const struct sg_warp *w, const char *what)
{
    int n = snprintf(f->text, sizeof(f->text), "%s in kernel '%s'", what,
                     w->block->run->kernel->info.name);

    if (n < 0 || (size_t)n >= sizeof(f->text))
        return;
    snprintf(f->text + n, sizeof(f->text) - (size_t)n,
             ", function '%s', PTX line %u, block (%u,%u,%u), thread (%u,%u,%u), address 0x%llx",
             w->func->ptx->name, f->line, f->block[0], f->block[1], f->block[2], f->thread[0],
             f->thread[1], f->thread[2], (unsigned long long)f->address);
}

const struct sg_insn *sg_warp_fault(struct sg_warp *w, const struct sg_insn *in,
                                    enum sg_fault_kind kind, unsigned lane, uint64_t addr,
                                    const char *what)
{
    struct sg_run *run = w->block->run;
    struct sg_fault *f = run->fault;

    if (f->kind == SG_FAULT_NONE) {
        f->kind = kind;
        fault_place(f, w, in);
        f->address = addr;
        for (int d = 0; d < 3; d++) {
            f->block[d] = w->block->id[d];
            f->thread[d] = w->tid[d][lane];
        }
        fault_text(f, w, what);
        atomic_store(&run->all->failed, 1);
    }
    return sg_warp_leave(w);
}

/* The running split waits at @in, unless others wait there already: then it joins them, and all
 * look again. */
static void wait_here(struct sg_warp *w, const struct sg_insn *in)
{
    struct sg_split *me = &w->splits[w->cur];

    me->pc = in;
    me->state = SG_WAIT_SYNC;
    for (uint32_t i = 0; i < w->nsplits; i++)
        if (i != w->cur && w->splits[i].state == SG_WAIT_SYNC && same_place(&w->splits[i], me))
            me->state = SG_READY;
}

bool sg_warp_converged(struct sg_warp *w, const struct sg_insn *in, uint32_t members)
{
    if ((members & w->alive & ~w->mask) == 0)
        return true;
    /* A guarded instruction runs with fewer lanes than its split: the split waits whole. */
    wait_here(w, in);
    return false;
}

uint32_t sg_warp_ready(struct sg_warp *w, const struct sg_insn *in, const uint32_t *members)
{
    struct sg_split *me = &w->splits[w->cur], rest = *me;
    uint32_t ready = 0;

    for (uint32_t l = 0; l < SG_WARP; l++)
        if ((w->mask >> l & 1) && (members[l] & w->alive & ~w->mask) == 0)
            ready |= 1u << l;
    if (ready == w->mask)
        return ready;
    if (ready == 0) {
        wait_here(w, in);
        return 0;
    }
    rest.mask = w->mask & ~ready;
    rest.pc = in;
    rest.state = SG_WAIT_SYNC;
    me->mask &= ~rest.mask;
    w->mask = ready;
    w->full = false;
    sg_warp_expand(w);
    sg_warp_add(w, &rest);
    return ready;
}

const struct sg_insn *sg_warp_bar_warp(struct sg_warp *w, const struct sg_insn *in,
                                       const uint32_t *members)
{
    struct sg_split s = w->splits[w->cur];
    uint32_t left = 0;

    for (uint32_t l = 0; l < SG_WARP; l++)
        if ((w->mask >> l & 1) && (members[l] & w->alive & ~w->mask) != 0)
            left |= 1u << l;
    if (left == 0)
        return in + 1;
    /* a split for each mask that lanes wait with */
    w->splits[w->cur].pc = in + 1;
    w->splits[w->cur].mask &= ~left;
    if (w->splits[w->cur].mask == 0)
        drop_split(w, w->cur);
    s.pc = in + 1;
    s.state = SG_WAIT_WARP;
    while (left != 0) {
        s.members = members[__builtin_ctz(left)];
        s.mask = 0;
        for (uint32_t l = 0; l < SG_WARP; l++)
            if ((left >> l & 1) && members[l] == s.members)
                s.mask |= 1u << l;
        left &= ~s.mask;
        w->splits[w->nsplits++] = s;
    }
    wake_waiting(w);
    return sg_warp_leave(w);
}

/* ---- barriers of a block --------------------------------------------------------------------- */

static void make_runnable(struct sg_block *b, struct sg_warp *w)
{
    if (!w->queued) {
        w->queued = true;
        w->run_slot = b->nrunnable;
        b->runnable[b->nrunnable++] = w;
    }
}

/* The result of bar.red goes into the destination of everybody who waited. */
static void deliver(struct sg_warp *w, const struct sg_split *s, const struct sg_barrier *bar)
{
    const struct sg_insn *in = s->wait;

    if (in == NULL || in->x == 0)
        return;
    uint8_t *frame = w->regs + s->fp;
    if (in->x == 1) { /* popc: a register */
        uint32_t *d = (uint32_t *)(void *)(frame + in->r[0]);
        for (int l = 0; l < SG_WARP; l++)
            if (s->mask >> l & 1)
                d[l] = bar->popc;
        return;
    }
    uint32_t *p = (uint32_t *)(void *)(frame + in->r[0]);
    bool value = in->x == 2 ? bar->all : bar->any;
    *p = value ? *p | s->mask : *p & ~s->mask;
}

static void open_barrier(struct sg_block *b, uint32_t id)
{
    struct sg_barrier *bar = &b->bar[id];

    for (uint32_t k = 0; k < b->nwarps; k++) {
        struct sg_warp *w = &b->warps[k];
        bool woken = false;
        w->bar_arrived[id] = 0;
        for (uint32_t i = 0; i < w->nsplits; i++) {
            struct sg_split *s = &w->splits[i];
            if (s->state != SG_WAIT_BAR || s->bar != id)
                continue;
            deliver(w, s, bar);
            s->state = SG_READY;
            woken = true;
        }
        if (woken)
            make_runnable(b, w);
    }
    *bar = (struct sg_barrier){.all = true};
    if (b->run->watched)
        sg_watch_barrier(b, id);
}

static void check_barrier(struct sg_block *b, uint32_t id)
{
    struct sg_barrier *bar = &b->bar[id];
    uint32_t expected = bar->expected ? bar->expected : b->alive_warps * SG_WARP;

    if (bar->arrived != 0 && bar->arrived >= expected)
        open_barrier(b, id);
}

void sg_block_warp_ended(struct sg_block *b)
{
    b->alive_warps--;
    for (uint32_t id = 0; id < SG_BARRIERS; id++)
        check_barrier(b, id);
}

const struct sg_insn *sg_warp_barrier(struct sg_warp *w, const struct sg_insn *in, uint32_t id,
                                      uint32_t threads, bool wait, uint32_t pred, bool is_red)
{
    struct sg_block *b = w->block;
    struct sg_barrier *bar = &b->bar[id];

    if (in != NULL) {
        w->bar_arrived[id] |= w->mask;
        if (threads != 0)
            bar->expected = threads;
        if (is_red) {
            bar->popc += (uint32_t)__builtin_popcount(pred & w->mask);
            bar->any |= (pred & w->mask) != 0;
            bar->all &= (~pred & w->mask) == 0;
        }
        if (wait) {
            struct sg_split *me = &w->splits[w->cur];
            me->state = SG_WAIT_BAR;
            me->bar = (uint8_t)id;
            me->wait = in;
            me->pc = in + 1;
        }
    }
    if ((w->alive & ~w->bar_arrived[id]) == 0) {
        w->bar_arrived[id] = 0;
        bar->arrived += SG_WARP;
        check_barrier(b, id);
    }
    if (in == NULL)
        return NULL;
    return wait ? sg_warp_leave(w) : in + 1;
}

/* ---- the barrier of a cluster ---------------------------------------------------------------- */

static void check_cluster_barrier(struct sg_cluster *c)
{
    if (c->arrived == 0 || c->arrived < c->threads)
        return;
    c->arrived = 0;
    for (uint32_t r = 0; r < c->nblocks; r++)
        for (uint32_t k = 0; k < c->blocks[r]->nwarps; k++) {
            struct sg_warp *w = &c->blocks[r]->warps[k];
            w->cluster_arrived = 0;
            for (uint32_t i = 0; i < w->nsplits; i++)
                if (w->splits[i].state == SG_WAIT_CLUSTER) {
                    w->splits[i].state = SG_READY;
                    make_runnable(c->blocks[r], w);
                }
        }
}

static void cluster_exit(struct sg_warp *w, uint32_t lanes)
{
    struct sg_cluster *c = w->block->cluster;

    c->threads -= (uint32_t)__builtin_popcount(lanes);
    c->arrived -= (uint32_t)__builtin_popcount(lanes & w->cluster_arrived);
    w->cluster_arrived &= ~lanes;
    check_cluster_barrier(c);
}

void sg_warp_cluster_arrive(struct sg_warp *w)
{
    struct sg_cluster *c = w->block->cluster;

    c->arrived += (uint32_t)__builtin_popcount(w->mask & ~w->cluster_arrived);
    w->cluster_arrived |= w->mask;
    check_cluster_barrier(c);
}

/* Whoever's arrival has been answered already goes on. */
const struct sg_insn *sg_warp_cluster_wait(struct sg_warp *w, const struct sg_insn *in)
{
    struct sg_split *me = &w->splits[w->cur];

    if ((w->mask & w->cluster_arrived) == 0)
        return in + 1;
    me->state = SG_WAIT_CLUSTER;
    me->pc = in + 1;
    return sg_warp_leave(w);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Registers of a deeper activation: the file grows; offsets stay valid. */
static bool grow_regs(struct sg_warp *w, uint64_t need)
{
    if (need <= w->regs_cap)
        return true;
    if (need > MAX_REGS)
        return false;
    uint32_t cap = w->regs_cap;
    while (cap < need)
        cap *= 2;
    uint8_t *p = aligned_alloc(64, cap);
    if (p == NULL)
        return false;
    memcpy(p, w->regs, w->regs_cap);
    free(w->regs);
    w->regs = p;
    w->regs_cap = cap;
    w->frame = p + w->fp;
    return true;
}

/* Memory behind local_used is zero: it has never been used. */
bool sg_warp_grow_local(struct sg_warp *w, uint64_t need)
{
    uint32_t limit = w->block->run->launch->stack_limit;
    uint64_t cap = w->local_cap ? w->local_cap : 64;

    if (need > (limit > MAX_LOCAL ? limit : MAX_LOCAL) || need > UINT32_MAX / 2)
        return false;
    while (cap < need)
        cap *= 2;
    if (cap != w->local_cap && need != 0) {
        uint8_t *p = calloc(SG_WARP, cap);
        if (p == NULL)
            return false;
        for (int l = 0; l < SG_WARP && w->local != NULL; l++)
            memcpy(p + (size_t)l * cap, w->local + (size_t)l * w->local_cap, w->local_cap);
        free(w->local);
        w->local = p;
        w->local_cap = (uint32_t)cap;
    }
    if (need > w->local_used)
        w->local_used = (uint32_t)need;
    return true;
}

static void zero_live_in(struct sg_warp *w, const struct sg_func *f, uint32_t fp, uint32_t lanes)
{
    for (uint32_t i = 0; i < f->nlive_in; i++) {
        uint32_t off = f->live_in[i] >> 2, kind = f->live_in[i] & 3; /* 0 pred, 1: 4, 2: 8 bytes */
        uint8_t *p = w->regs + fp + off;
        if (kind == 0)
            *(uint32_t *)(void *)p &= ~lanes;
        else
            for (unsigned l = 0; l < SG_WARP; l++)
                if (lanes >> l & 1)
                    memset(p + l * 4 * kind, 0, 4 * kind);
    }
}

static void copy_vars(struct sg_warp *w, const struct sg_callee_var *to, uint32_t to_base,
                      const struct sg_callee_var *from, uint32_t from_base, uint32_t n,
                      uint32_t lanes)
{
    for (uint32_t i = 0; i < n; i++)
        for (unsigned l = 0; l < SG_WARP; l++)
            if (lanes >> l & 1) {
                uint8_t *lane = w->local + (size_t)l * w->local_cap;
                uint32_t size = to[i].size < from[i].size ? to[i].size : from[i].size;
                memcpy(lane + to_base + to[i].offset, lane + from_base + from[i].offset, size);
            }
}

/* May @callee have its frame at @fp while other lanes are in frames of their own? Lanes have
 * columns of a register, but only the same function has the same registers at the same places. */
static bool frame_is_free(const struct sg_warp *w, uint32_t fp, const struct sg_func *callee)
{
    for (uint32_t i = 0; i < w->nsplits; i++)
        for (uint32_t m = w->splits[i].mask; m != 0; m &= m - 1) {
            const struct sg_split *s = &w->splits[i];
            const struct sg_func *f = s->func;
            uint32_t at = s->fp, l = (uint32_t)__builtin_ctz(m);
            while (at + f->frame_bytes > fp) { /* the kernel's own frame ends there or below */
                if (at < fp + callee->frame_bytes && (at != fp || f != callee))
                    return false;
                const struct sg_frame_head *h = (const void *)(w->regs + at);
                f = h->func[l];
                at = h->fp[l];
            }
        }
    return true;
}

/* Where the frame of a call begins: behind the caller's, or behind all others. */
static uint32_t place_frame(const struct sg_warp *w, const struct sg_func *callee)
{
    uint32_t fp = w->fp + w->func->frame_bytes;

    if (w->nsplits == 1 || frame_is_free(w, fp, callee))
        return fp;
    for (uint32_t i = 0; i < w->nsplits; i++) {
        const struct sg_split *s = &w->splits[i];
        if (s->fp + s->func->frame_bytes > fp)
            fp = s->fp + s->func->frame_bytes;
    }
    return fp;
}

const struct sg_insn *sg_warp_call(struct sg_warp *w, const struct sg_insn *in,
                                   const struct sg_func *callee, uint32_t lanes)
{
    const struct sg_call_site *site = in->ptr;
    const struct sg_func *caller = w->func;
    uint32_t fp = place_frame(w, callee), lp = w->lp + caller->local_bytes;
    struct sg_split *me = &w->splits[w->cur];

    if (w->depth >= MAX_DEPTH || !grow_regs(w, (uint64_t)fp + callee->frame_bytes) ||
        !sg_warp_grow_local(w, (uint64_t)lp + callee->local_bytes))
        return sg_warp_fault(w, in, SG_FAULT_STACK, (unsigned)__builtin_ctz(lanes), 0,
                             "stack overflow");
    struct sg_frame_head *head = (struct sg_frame_head *)(void *)(w->regs + fp);
    for (unsigned l = 0; l < SG_WARP; l++)
        if (lanes >> l & 1) {
            head->ret[l] = in + 1;
            head->fp[l] = w->fp;
            head->lp[l] = w->lp;
            head->func[l] = caller;
        }
    uint32_t n = site->nargs < callee->ptx->nparams ? site->nargs : callee->ptx->nparams;
    copy_vars(w, callee->params, lp, site->args, w->lp, n, lanes);
    zero_live_in(w, callee, fp, lanes);

    struct sg_split s = *me;
    s.mask = lanes;
    s.pc = &w->block->run->image->code[callee->first];
    s.fp = fp;
    s.lp = lp;
    s.depth++;
    s.func = callee;
    me->mask &= ~lanes;
    me->pc = in; /* whoever has not called yet calls when this split runs again */
    if (me->mask == 0)
        drop_split(w, w->cur);
    w->cur = w->nsplits; /* nobody: sg_warp_add() may merge with any */
    sg_warp_add(w, &s);
    return sg_warp_leave(w);
}

/* Lanes may have come from different places: one split for each. A guarded return was divided
 * first, so it is the whole split that returns. */
const struct sg_insn *sg_warp_return(struct sg_warp *w, const struct sg_insn *in)
{
    const struct sg_func *callee = w->func;
    const struct sg_frame_head *head = (const struct sg_frame_head *)(const void *)w->frame;
    struct sg_split me = w->splits[w->cur];
    uint32_t left = w->mask;

    if (w->depth == 0)
        return sg_warp_exit(w, w->mask, in + 1);
    drop_split(w, w->cur);
    w->cur = w->nsplits;
    while (left != 0) {
        unsigned first = (unsigned)__builtin_ctz(left);
        const struct sg_insn *back = head->ret[first];
        uint32_t lanes = 0;
        for (unsigned l = first; l < SG_WARP; l++)
            if ((left >> l & 1) && head->ret[l] == back && head->fp[l] == head->fp[first] &&
                head->lp[l] == head->lp[first])
                lanes |= 1u << l;
        left &= ~lanes;
        const struct sg_call_site *site = (back - 1)->ptr;
        uint32_t n = site->nrets < callee->ptx->nrets ? site->nrets : callee->ptx->nrets;
        copy_vars(w, site->rets, head->lp[first], callee->rets, w->lp, n, lanes);
        struct sg_split s = me;
        s.mask = lanes;
        s.pc = back;
        s.fp = head->fp[first];
        s.lp = head->lp[first];
        s.func = head->func[first];
        s.depth--;
        s.state = SG_READY;
        sg_warp_add(w, &s);
    }
    return sg_warp_leave(w);
}

void sg_warp_start(struct sg_warp *w, const struct sg_func *f)
{
    w->pool_end = f->image->pool_end;
    w->alive = w->born;
    w->nsplits = 1;
    w->cur = 0;
    w->splits[0] = (struct sg_split){.pc = &f->image->code[f->first], .mask = w->born, .func = f};
    w->starved = false;
    w->clock_is_read = false;
    w->cc = 0;
    w->entered = 0;
    for (uint32_t l = 0; l < SG_WARP && w->local_used != 0; l++)
        memset(w->local + (size_t)l * w->local_cap, 0, w->local_used);
    w->local_used = f->local_bytes;
    memset(w->bar_arrived, 0, sizeof(w->bar_arrived));
    w->cluster_arrived = 0;
    zero_live_in(w, f, 0, SG_FULL_MASK);
}

/* ---- addresses ------------------------------------------------------------------------------- */

void *sg_far_shared(struct sg_warp *w, unsigned lane, uint64_t off, uint32_t n, bool write)
{
    struct sg_block *b = w->block;
    const struct sg_cluster *c = b->cluster;
    uint64_t rank = off >> SG_CLUSTER_SHIFT; /* plus 1 */

    if (rank != 0) {
        if (rank > c->nblocks || c->blocks[rank - 1]->alive_warps == 0)
            return NULL;
        b = c->blocks[rank - 1];
        off &= (UINT64_C(1) << SG_CLUSTER_SHIFT) - 1;
    }
    if (off + n <= b->shared_bytes)
        return !b->run->watched || sg_watch_access(w, lane, b, off, b->shared + off, n, write)
                   ? b->shared + off
                   : NULL;
    if (off < SG_RESERVED_OFFSET || off + n > SG_RESERVED_OFFSET + SG_RESERVED_BYTES)
        return NULL;
    b->reserved_used = true;
    return b->reserved + (off - SG_RESERVED_OFFSET);
}

void *sg_lane_generic(struct sg_warp *w, unsigned lane, uint64_t addr, uint32_t n, bool write)
{
    struct sg_run *r = w->block->run;

    if (addr - r->shared_window < SG_MEM_WINDOW)
        return sg_lane_shared(w, lane, addr - r->shared_window, n, write);
    if (addr - r->local_window < SG_MEM_WINDOW)
        return sg_lane_local(w, lane, addr - r->local_window, n);
    uint64_t params = (uint64_t)(uintptr_t)r->params;
    if (addr - params < r->param_bytes)
        return !write && addr - params + n <= r->param_bytes ? (void *)(uintptr_t)addr : NULL;
    return sg_lane_global(w, lane, addr, n, write);
}

void *sg_lane_space(struct sg_warp *w, unsigned lane, enum sg_ptx_space space, uint64_t addr,
                    uint32_t n, bool write)
{
    switch (space) {
    case SG_SPACE_SHARED:
        return sg_lane_shared(w, lane, addr, n, write);
    case SG_SPACE_LOCAL:
        return sg_lane_local(w, lane, addr, n);
    case SG_SPACE_GLOBAL:
    case SG_SPACE_CONST:
        return sg_lane_global(w, lane, addr, n, write);
    default:
        return sg_lane_generic(w, lane, addr, n, write);
    }
}

const struct sg_insn *sg_bad_address(struct sg_warp *w, const struct sg_insn *in, unsigned lane,
                                     uint64_t addr, uint32_t align, bool write)
{
    struct sg_fault *f = w->block->run->fault;

    if (f->kind == SG_FAULT_NONE) {
        f->size = align;
        f->access = write ? "write" : "read";
    }
    if (addr % align != 0)
        return sg_warp_fault(w, in, SG_FAULT_MISALIGNED, lane, addr,
                             write ? "misaligned write" : "misaligned read");
    return sg_warp_fault(w, in, SG_FAULT_ADDRESS, lane, addr,
                         write ? "illegal write" : "illegal read");
}
