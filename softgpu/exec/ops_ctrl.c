/* Branches, calls, barriers, guards, and what ends a thread. */
#include "softgpu/exec/ops.h"

#include <stdlib.h>

typedef uint32_t u32;
typedef uint64_t u64;

const struct sg_insn *SG_ISA(sg_op_guarded)(struct sg_warp *w, const struct sg_insn *in)
{
    u32 mask = w->mask, m = mask & (sg_pred(w, in->guard) ^ -(u32)in->guard_neg);
    bool full = w->full;

    if (m == 0)
        return in + 1;
    if (m == mask)
        return in->inner(w, in);
    w->mask = m;
    w->full = false;
    sg_warp_expand(w);
    const struct sg_insn *next = in->inner(w, in);
    w->mask = mask;
    w->full = full;
    if (!full)
        sg_warp_expand(w);
    return next;
}

/* Calls, barriers and exits happen to a whole split: lanes whose guard is false leave it first. */
const struct sg_insn *SG_ISA(sg_op_guarded_ctrl)(struct sg_warp *w, const struct sg_insn *in)
{
    u32 m = w->mask & (sg_pred(w, in->guard) ^ -(u32)in->guard_neg);

    if (m == 0)
        return in + 1;
    if (m == w->mask)
        return in->inner(w, in);
    return sg_warp_diverge(w, w->mask & ~m, in + 1, in);
}

/* ---- branches -------------------------------------------------------------------------------- */

static inline const struct sg_insn *jump(struct sg_warp *w, const struct sg_insn *target)
{
    /* beyond the place where another split waits: the scheduler decides who is behind */
    return target > w->stop ? sg_warp_resched(w, target) : target;
}

static inline const struct sg_insn *target_of(const struct sg_insn *in)
{
    return in + (int32_t)(in->x - SG_BRANCH_BIAS);
}

SG_HANDLER(bra)
{
    return jump(w, target_of(in));
}

SG_HANDLER(bra_if)
{
    u32 taken = w->mask & (sg_pred(w, in->guard) ^ -(u32)in->guard_neg);

    if (taken == 0)
        return in + 1;
    if (taken == w->mask)
        return jump(w, target_of(in));
    return sg_warp_diverge(w, taken, target_of(in), in + 1);
}

/* brx.idx: r[1] index; ptr: count, then instructions of the image. The lanes of the first index go
 * on, the others come back here with what is left. */
SG_HANDLER(brx)
{
    const u32 *idx = sg_opnd(w, in->r[1]), *table = in->ptr;
    unsigned first = (unsigned)__builtin_ctz(w->mask);
    u32 lanes = 0, i = idx[first];

    if (i >= table[0])
        return sg_warp_fault(w, in, SG_FAULT_ILLEGAL, first, i, "branch index out of range");
    for (unsigned l = 0; l < SG_WARP; l++)
        lanes |= (u32)(idx[l] == i) << l;
    lanes &= w->mask;
    const struct sg_insn *to = &w->block->run->image->code[table[1 + i]];
    return lanes == w->mask ? jump(w, to) : sg_warp_diverge(w, lanes, to, in);
}

static bool decode_bra(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    if (p->nopnds != 1 || p->opnds[0].kind != SG_OPND_LABEL)
        return false;
    struct sg_insn *in = sg_dec_emit(d, p->guarded ? bra_if : bra);
    in->x = p->opnds[0].target;
    in->y = SG_FIX_BRANCH;
    return true;
}

static bool decode_brx(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    if (p->nopnds < 2 || p->opnds[1].kind != SG_OPND_TABLE ||
        p->opnds[1].table->kind != SG_TABLE_BRANCH)
        return false;
    const struct sg_ptx_table *t = p->opnds[1].table;
    u32 *copy = sg_image_own(d->image, (t->n + 1) * sizeof(*copy));
    if (copy == NULL)
        return sg_dec_refuse(d, "no memory");
    copy[0] = t->n;
    memcpy(copy + 1, t->targets, t->n * sizeof(*copy));
    int32_t idx = sg_dec_src(d, &p->opnds[0], SG_M_U32);
    struct sg_insn *in = sg_dec_emit(d, brx);
    in->r[1] = idx;
    in->ptr = copy;
    in->y = SG_FIX_TABLE;
    return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

SG_HANDLER(call_direct)
{
    const struct sg_call_site *s = in->ptr;

    return sg_warp_call(w, in, s->callee, w->mask);
}

/* Pointers to functions are addresses of struct sg_func; nothing else is followed. */
static const struct sg_func *function_at(const struct sg_image *image, u64 addr)
{
    u64 first = (u64)(uintptr_t)image->funcs, off = addr - first;

    if (off >= image->nfuncs * sizeof(struct sg_func) || off % sizeof(struct sg_func) != 0)
        return NULL;
    const struct sg_func *f = &image->funcs[off / sizeof(struct sg_func)];
    return f->ptx->is_entry ? NULL : f;
}

SG_HANDLER(call_indirect)
{
    const u64 *target = sg_opnd(w, in->r[1]);
    unsigned first = (unsigned)__builtin_ctz(w->mask);
    u64 t = target[first];
    u32 lanes = 0;
    const struct sg_func *f = function_at(w->block->run->image, t);

    if (f == NULL)
        return sg_warp_fault(w, in, SG_FAULT_ILLEGAL, first, t,
                             "call of something that is no function");
    for (unsigned l = 0; l < SG_WARP; l++)
        lanes |= (u32)(target[l] == t) << l;
    return sg_warp_call(w, in, f, lanes & w->mask);
}

/* Offset of an argument in the caller's local memory. */
static bool call_operand(struct sg_dec *d, const struct sg_ptx_opnd *o, struct sg_callee_var *out)
{
    u32 offset;

    if (o->kind != SG_OPND_VAR)
        return sg_dec_refuse(d, "an argument that is no .param variable");
    out->size = (u32)o->var->size;
    if (sg_dec_formal(d, o->var, &offset)) {
        out->offset = offset;
        return true;
    }
    const struct sg_var *v = sg_dec_var(d, o->var);
    if (v == NULL)
        return false;
    if (v->ptx->space != SG_SPACE_PARAM)
        return sg_dec_refuse(d, "an argument that is no .param variable");
    out->offset = (u32)v->addr;
    return true;
}

static bool call_list(struct sg_dec *d, const struct sg_ptx_opnd *list, u32 *n,
                      struct sg_callee_var **out)
{
    *n = list->n;
    *out = sg_image_own(d->image, ((size_t)list->n + 1) * sizeof(**out));
    if (*out == NULL)
        return sg_dec_refuse(d, "no memory");
    for (u32 i = 0; i < list->n; i++)
        if (!call_operand(d, &list->sub[i], &(*out)[i]))
            return false;
    return true;
}

static bool note_callee(struct sg_dec *d, const struct sg_func *callee)
{
    struct sg_func *f = d->func;

    if (f->ncallees == f->cap_callees) {
        u32 cap = f->cap_callees ? f->cap_callees * 2 : 8;
        u32 *p = realloc(f->callees, cap * sizeof(*p));
        if (p == NULL)
            return sg_dec_refuse(d, "no memory");
        f->callees = p;
        f->cap_callees = cap;
    }
    f->callees[f->ncallees++] = (u32)(callee - d->image->funcs);
    return true;
}

static bool decode_call(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    struct sg_call_site *s = sg_image_own(d->image, sizeof(*s));
    const struct sg_ptx_opnd *to = &p->opnds[1];
    int32_t target = 0;
    sg_handler fn = call_direct;

    if (s == NULL)
        return sg_dec_refuse(d, "no memory");
    if (p->nopnds < 3 || !call_list(d, &p->opnds[0], &s->nrets, &s->rets) ||
        !call_list(d, &p->opnds[2], &s->nargs, &s->args))
        return false;
    if (to->kind == SG_OPND_FUNC) {
        s->callee = sg_dec_func(d, to->func, &s->builtin);
        if (s->callee == NULL && s->builtin == SG_BUILTIN_NONE)
            return false;
        if (s->builtin != SG_BUILTIN_NONE) {
            fn = sg_builtin_call;
            d->func->communicates = true; /* output and addresses follow the order of blocks */
        } else if (!note_callee(d, s->callee)) {
            return false;
        }
    } else {
        target = sg_dec_src(d, to, SG_M_U64);
        fn = call_indirect;
        d->func->indirect = true;
    }
    struct sg_insn *in = sg_dec_emit(d, fn);
    in->r[1] = target;
    in->ptr = s;
    return true;
}

/* ---- ends ------------------------------------------------------------------------------------ */

SG_HANDLER(op_exit)
{
    return sg_warp_exit(w, w->mask, in + 1);
}

SG_HANDLER(op_ret)
{
    return sg_warp_return(w, in);
}

SG_HANDLER(op_trap)
{
    return sg_warp_fault(w, in, SG_FAULT_TRAP, (unsigned)__builtin_ctz(w->mask), 0, "trap");
}

SG_HANDLER(nothing)
{
    (void)w;
    return in + 1;
}

/* Behind the last instruction of a function: as if a ret stood there. */
const struct sg_insn *SG_ISA(sg_op_end)(struct sg_warp *w, const struct sg_insn *in)
{
    return sg_warp_return(w, in);
}

/* ---- barriers -------------------------------------------------------------------------------- */

/* r[1] barrier, r[2] threads (y & 1), r[3] predicate (y & 2), y & 4 negated, y & 8 waits, y & 16
 * a reduction; x: what the result is: 1 popc, 2 and, 3 or; r[0] its place */
SG_HANDLER(barrier)
{
    unsigned first = (unsigned)__builtin_ctz(w->mask);
    const u32 *id = sg_opnd(w, in->r[1]), *n = sg_opnd(w, in->r[2]);
    u32 threads = in->y & 1 ? n[first] : 0;
    u32 pred = in->y & 2 ? sg_pred(w, in->r[3]) ^ -(in->y >> 2 & 1) : 0;

    if (id[first] > 15)
        return sg_warp_fault(w, in, SG_FAULT_INSTRUCTION, first, id[first],
                             "barrier number above 15");
    if (threads % SG_WARP != 0)
        return sg_warp_fault(w, in, SG_FAULT_INSTRUCTION, first, threads,
                             "barrier for a number of threads that is no multiple of 32");
    return sg_warp_barrier(w, in, id[first], threads, in->y & 8, pred, in->y & 16);
}

SG_HANDLER(cluster_arrive)
{
    sg_warp_cluster_arrive(w);
    return in + 1;
}

SG_HANDLER(cluster_wait)
{
    return sg_warp_cluster_wait(w, in);
}

SG_HANDLER(bar_warp)
{
    return sg_warp_bar_warp(w, in, sg_opnd(w, in->r[1]));
}

static bool decode_bar_warp(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    if (p->nopnds != 1)
        return false;
    int32_t m = sg_dec_src(d, &p->opnds[0], SG_M_B32);
    sg_dec_emit(d, bar_warp)->r[1] = m;
    return true;
}

static bool decode_bar(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    bool red = sg_ptx_has(p, SG_M_RED), arrive = sg_ptx_has(p, SG_M_ARRIVE), neg = false, ignored;
    unsigned at = red ? 1 : 0, left;
    int32_t r[4] = {0};
    u32 y = arrive ? 0 : 8, x = 0;

    if (sg_ptx_has(p, SG_M_CLUSTER)) {
        sg_dec_emit(d, sg_ptx_has(p, SG_M_WAIT) ? cluster_wait : cluster_arrive);
        return true;
    }
    if (sg_ptx_has(p, SG_M_WARP))
        return decode_bar_warp(d, p);
    left = p->nopnds - at - red;
    if (p->nopnds < at + 1u + red || left > 2)
        return false;
    r[1] = sg_dec_src(d, &p->opnds[at], SG_M_U32);
    if (left == 2) {
        r[2] = sg_dec_src(d, &p->opnds[at + 1], SG_M_U32);
        y |= 1;
    } else if (arrive) {
        return false;
    }
    if (red) {
        x = sg_ptx_has(p, SG_M_POPC) ? 1 : sg_ptx_has(p, SG_M_AND) ? 2 : 3;
        r[3] = SG_ISA(sg_dec_pred_source)(d, &p->opnds[p->nopnds - 1], &neg);
        y |= 2 | 16 | (neg ? 4u : 0u);
        r[0] =
            x == 1 ? sg_dec_dst(d, &p->opnds[0], SG_M_U32) : sg_dec_pred(d, &p->opnds[0], &ignored);
    }
    struct sg_insn *in = sg_dec_emit(d, barrier);
    memcpy(in->r, r, sizeof(r));
    in->x = x;
    in->y = y;
    return true;
}

bool SG_ISA(sg_decode_ctrl)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    switch ((enum sg_ptx_op)p->op) {
    case SG_OP_BRA:
        return decode_bra(d, p);
    case SG_OP_BRX:
        return decode_brx(d, p);
    case SG_OP_CALL:
        return decode_call(d, p);
    case SG_OP_EXIT:
        sg_dec_emit(d, op_exit);
        return true;
    case SG_OP_RET:
        sg_dec_emit(d, op_ret);
        return true;
    case SG_OP_TRAP:
        sg_dec_emit(d, op_trap);
        return true;
    case SG_OP_BAR:
    case SG_OP_BARRIER:
        return decode_bar(d, p);
    case SG_OP_MEMBAR:
    case SG_OP_FENCE:
        if (!sg_ptx_has(p, SG_M_CTA))
            d->func->communicates = true;
        sg_dec_emit(d, nothing);
        return true;
    case SG_OP_NANOSLEEP:
    case SG_OP_BRKPT:
    case SG_OP_PMEVENT:
    case SG_OP_GRIDDEPCONTROL:
    case SG_OP_SETMAXNREG:
        sg_dec_emit(d, nothing);
        return true;
    default:
        return false;
    }
}
