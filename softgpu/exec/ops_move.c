/* mov, cvta, isspacep, and values that only the running warp knows. */
#include "softgpu/exec/ops.h"

#include <time.h>

typedef uint32_t u32;
typedef uint64_t u64;

SG_OP1(mov32, u32, u32, x)
SG_OP1(mov64, u64, u64, x)
SG_OP1(add_base, u64, u64, x + in->imm)

const struct sg_insn *SG_ISA(sg_op_narrow)(struct sg_warp *w, const struct sg_insn *in)
{
    const u64 *a = sg_opnd(w, in->r[1]);

    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), (u32)a[l]);
    return in + 1;
}

const struct sg_insn *SG_ISA(sg_op_widen)(struct sg_warp *w, const struct sg_insn *in)
{
    const u32 *a = sg_opnd(w, in->r[1]);

    SG_STORE_LANES(u64, sg_opnd(w, in->r[0]), in->x ? (u64)(int64_t)(int32_t)a[l] : a[l]);
    return in + 1;
}

SG_HANDLER(mov_pred)
{
    sg_pred_set(w, in->r[0], sg_pred(w, in->r[1]) ^ -(in->x & 1));
    return in + 1;
}

SG_HANDLER(set_pred)
{
    sg_pred_set(w, in->r[0], -(in->x & 1));
    return in + 1;
}

/* {lo, hi} <-> 64 bits, {h0, h1} <-> 32 bits, four bytes, four halves */
SG_OP2(join64, u64, u32, u32, x | (u64)y << 32)
SG_OP2(join32, u32, u32, u32, (x & 0xffffu) | y << 16)
SG_OP1(part32, u32, u32, (x >> in->x) & in->y)
SG_OP1(part64, u32, u64, (u32)(x >> in->x) & in->y)

SG_HANDLER(join4)
{
    const u32 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]);
    const u32 *c = sg_opnd(w, in->r[3]), *e = sg_opnd(w, in->r[4]);

    if (in->x == 8)
        SG_STORE_LANES(u32, sg_opnd(w, in->r[0]),
                       (a[l] & 0xff) | (b[l] & 0xff) << 8 | (c[l] & 0xff) << 16 | e[l] << 24);
    else
        SG_STORE_LANES(u64, sg_opnd(w, in->r[0]),
                       (u64)((a[l] & 0xffff) | b[l] << 16) | (u64)((c[l] & 0xffff) | e[l] << 16)
                                                                 << 32);
    return in + 1;
}

/* ---- special registers ----------------------------------------------------------------------- */

static u64 nanoseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

/* of the block in its cluster */
static u32 rank_of(const struct sg_block *b)
{
    const u32 *cl = b->run->launch->cluster;

    return b->id[0] % cl[0] + cl[0] * (b->id[1] % cl[1] + cl[1] * (b->id[2] % cl[2]));
}

/* Values that are the same for all lanes. */
static u64 uniform(const struct sg_warp *w, u32 what, u32 comp, u64 imm)
{
    const struct sg_block *b = w->block;
    const struct sg_run *r = b->run;
    const struct sg_launch *l = r->launch;
    const u32 *cl = l->cluster;

    switch (what) {
    case SG_SREG_NTID:
        return comp < 3 ? l->block[comp] : 0;
    case SG_SREG_CTAID:
        return comp < 3 ? b->id[comp] : 0;
    case SG_SREG_NCTAID:
        return comp < 3 ? l->grid[comp] : 0;
    case SG_SREG_WARPID:
        return w->index;
    case SG_SREG_NWARPID:
        return 64;
    case SG_SREG_SMID:
        return b->smid;
    case SG_SREG_NSMID:
        return l->sms;
    case SG_SREG_GRIDID:
        return l->grid_id;
    case SG_SREG_CLOCK:
    case SG_SREG_CLOCK64:
        return r->clock;
    case SG_SREG_CLOCK_HI:
        return r->clock >> 32;
    case SG_SREG_GLOBALTIMER:
    case SG_SREG_GLOBALTIMER_LO:
        return nanoseconds();
    case SG_SREG_GLOBALTIMER_HI:
        return nanoseconds() >> 32;
    case SG_SREG_TOTAL_SMEM_SIZE:
    case SG_SREG_AGGR_SMEM_SIZE:
        return b->shared_bytes;
    case SG_SREG_DYNAMIC_SMEM_SIZE:
        return l->dynamic_shared;
    case SG_SREG_RESERVED_SMEM_OFFSET_BEGIN:
        return SG_RESERVED_OFFSET;
    case SG_SREG_RESERVED_SMEM_OFFSET_END:
        return SG_RESERVED_OFFSET + SG_RESERVED_BYTES;
    case SG_SREG_RESERVED_SMEM_OFFSET_CAP:
        return SG_RESERVED_BYTES;
    case SG_SREG_RESERVED_SMEM_OFFSET: /* two of them: a half each */
        return SG_RESERVED_OFFSET + comp * (SG_RESERVED_BYTES / 2);
    case SG_SREG_CLUSTERID:
        return comp < 3 ? b->id[comp] / cl[comp] : 0;
    case SG_SREG_NCLUSTERID:
        return comp < 3 ? l->grid[comp] / cl[comp] : 0;
    case SG_SREG_CLUSTER_CTAID:
        return comp < 3 ? b->id[comp] % cl[comp] : 0;
    case SG_SREG_CLUSTER_NCTAID:
        return comp < 3 ? cl[comp] : 0;
    case SG_SREG_IS_EXPLICIT_CLUSTER:
        return cl[0] * cl[1] * cl[2] > 1;
    case SG_SREG_CLUSTER_NCTARANK:
        return (u64)cl[0] * cl[1] * cl[2];
    case SG_SREG_CLUSTER_CTARANK:
        return rank_of(b);
    case SG_RUNTIME_LOCAL: /* comp: a generic address */
        return w->lp + imm + (comp ? r->local_window : 0);
    case SG_RUNTIME_DYNAMIC:
        return r->kernel->info.static_shared + imm;
    case SG_RUNTIME_PARAM:
        return (u64)(uintptr_t)r->params + imm;
    case SG_SREG_ENVREG: /* cooperative groups read the address of their barrier here */
        return comp == 1   ? (u64)(uintptr_t)r->all->workspace >> 32
               : comp == 2 ? (u64)(uintptr_t)r->all->workspace & 0xffffffffu
                           : 0;
    default:
        return 0; /* pm and the like */
    }
}

static u32 of_lane(const struct sg_warp *w, u32 what, u32 comp, unsigned l)
{
    switch (what) {
    case SG_SREG_TID:
        return comp < 3 ? w->tid[comp][l] : 0;
    case SG_SREG_LANEID:
        return l;
    case SG_SREG_LANEMASK_EQ:
        return 1u << l;
    case SG_SREG_LANEMASK_LT:
        return (1u << l) - 1;
    case SG_SREG_LANEMASK_LE:
        return 2u * (1u << l) - 1;
    case SG_SREG_LANEMASK_GE:
        return ~((1u << l) - 1);
    default: /* LANEMASK_GT */
        return ~(2u * (1u << l) - 1);
    }
}

static bool by_lane(u32 what)
{
    switch (what) {
    case SG_SREG_TID:
    case SG_SREG_LANEID:
    case SG_SREG_LANEMASK_EQ:
    case SG_SREG_LANEMASK_LT:
    case SG_SREG_LANEMASK_LE:
    case SG_SREG_LANEMASK_GE:
    case SG_SREG_LANEMASK_GT:
        return true;
    default:
        return false;
    }
}

/* x: enum sg_ptx_sreg or SG_RUNTIME_*; y: component, 0x100 for a 64-bit destination */
const struct sg_insn *SG_ISA(sg_op_mov_sreg)(struct sg_warp *w, const struct sg_insn *in)
{
    u32 comp = in->y & 0xff;
    u32 v[SG_WARP];

    /* instructions are counted when a split stops: it stops here once, then goes on */
    if (in->x == SG_SREG_CLOCK || in->x == SG_SREG_CLOCK64 || in->x == SG_SREG_CLOCK_HI) {
        w->clock_is_read = !w->clock_is_read;
        if (w->clock_is_read)
            return sg_warp_resched(w, in);
    }
    if (!by_lane(in->x)) {
        u64 value = uniform(w, in->x, comp, in->imm);
        if (in->y & 0x100)
            SG_STORE_LANES(u64, sg_opnd(w, in->r[0]), value);
        else
            SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), value);
        return in + 1;
    }
    for (unsigned l = 0; l < SG_WARP; l++)
        v[l] = of_lane(w, in->x, comp, l);
    if (in->y & 0x100)
        SG_STORE_LANES(u64, sg_opnd(w, in->r[0]), v[l]);
    else
        SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), v[l]);
    return in + 1;
}

SG_HANDLER(tid_x)
{
    const u32 *t = w->tid[0];

    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), t[l]);
    return in + 1;
}

SG_HANDLER(in_window)
{
    const u64 *a = sg_opnd(w, in->r[1]);
    u32 bits = 0;

    for (unsigned l = 0; l < SG_WARP; l++)
        bits |= (u32)((a[l] - in->imm < SG_MEM_WINDOW) ^ in->x) << l;
    sg_pred_set(w, in->r[0], bits);
    return in + 1;
}

/* In the shared memory of the block itself? */
SG_HANDLER(in_own_shared)
{
    const u64 *a = sg_opnd(w, in->r[1]);
    u64 own = rank_of(w->block) + 1u;
    u32 bits = 0;

    for (unsigned l = 0; l < SG_WARP; l++) {
        u64 off = a[l] - in->imm, rank = off >> SG_CLUSTER_SHIFT;
        bits |= (u32)(off < SG_MEM_WINDOW && (rank == 0 || rank == own)) << l;
    }
    sg_pred_set(w, in->r[0], bits);
    return in + 1;
}

/* ---- addresses in a cluster; imm: the window of generic addresses, or 0 -----------------------
 */

#define OFFSET_MASK ((UINT64_C(1) << SG_CLUSTER_SHIFT) - 1)
#define MAPPED(x, rank) (((x)&OFFSET_MASK) | ((u64)(rank) + 1) << SG_CLUSTER_SHIFT)

/* a rank that is too large stays so: the access is a fault */
#define RANK(y) ((y) < 100 ? (y) : 100)

SG_OP2(mapa32, u32, u32, u32, (u32)MAPPED(x, RANK(y)))
SG_OP2(mapa64, u64, u64, u32, in->imm + MAPPED(x - in->imm, RANK(y)))
SG_OP1(ctarank32, u32, u32, x >> SG_CLUSTER_SHIFT ? (x >> SG_CLUSTER_SHIFT) - 1 : rank_of(w->block))
SG_OP1(ctarank64, u32, u64,
       (x - in->imm) >> SG_CLUSTER_SHIFT ? (u32)((x - in->imm) >> SG_CLUSTER_SHIFT) - 1
                                         : rank_of(w->block))

SG_HANDLER(in_params)
{
    const u64 *a = sg_opnd(w, in->r[1]);
    const struct sg_run *r = w->block->run;
    u32 bits = 0;

    for (unsigned l = 0; l < SG_WARP; l++)
        bits |= (u32)(a[l] - (u64)(uintptr_t)r->params < r->param_bytes) << l;
    sg_pred_set(w, in->r[0], bits);
    return in + 1;
}

/* Neither in the shared nor in the local window nor a parameter. */
SG_HANDLER(in_global)
{
    const u64 *a = sg_opnd(w, in->r[1]);
    const struct sg_run *r = w->block->run;
    u32 bits = 0;

    for (unsigned l = 0; l < SG_WARP; l++)
        bits |= (u32)(a[l] - r->shared_window >= SG_MEM_WINDOW &&
                      a[l] - r->local_window >= SG_MEM_WINDOW &&
                      a[l] - (u64)(uintptr_t)r->params >= r->param_bytes)
                << l;
    sg_pred_set(w, in->r[0], bits);
    return in + 1;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool is_pred(const struct sg_dec *d, const struct sg_ptx_opnd *o)
{
    return o->kind == SG_OPND_REG && d->ptx->regs[o->reg].type == SG_M_PRED;
}

SG_HANDLER(pred_of_sreg)
{
    sg_pred_set(w, in->r[0], uniform(w, in->x, 0, 0) != 0 ? SG_FULL_MASK : 0);
    return in + 1;
}

static bool mov_predicate(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    bool neg = false, ignored;
    const struct sg_ptx_opnd *s = &p->opnds[1];

    if (s->kind == SG_OPND_SREG && s->sreg == SG_SREG_IS_EXPLICIT_CLUSTER) {
        int32_t dst = sg_dec_pred(d, &p->opnds[0], &ignored);
        struct sg_insn *in = sg_dec_emit(d, pred_of_sreg);
        in->r[0] = dst;
        in->x = s->sreg;
        return true;
    }
    bool imm = s->kind == SG_OPND_IMM;
    int32_t a = imm ? 0 : sg_dec_pred(d, s, &neg);
    struct sg_insn *in = sg_dec_emit(d, imm ? set_pred : mov_pred);

    in->r[0] = sg_dec_pred(d, &p->opnds[0], &ignored);
    in->r[1] = a;
    in->x = imm ? s->imm != 0 : neg;
    return true;
}

static bool mov_unpack(struct sg_dec *d, const struct sg_ptx_insn *p, unsigned size)
{
    const struct sg_ptx_opnd *v = &p->opnds[0];
    unsigned bits = size * 8 / v->n;

    if ((v->n != 2 && v->n != 4) || bits < 8)
        return false;
    int32_t a = sg_dec_src(d, &p->opnds[1], size == 8 ? SG_M_B64 : SG_M_B32);
    /* through temporaries: a destination may be the source's register */
    int32_t t[4];
    for (unsigned i = 0; i < v->n; i++) {
        t[i] = sg_dec_temp(d);
        struct sg_insn *in = sg_dec_emit(d, size == 8 ? part64 : part32);
        in->r[0] = t[i];
        in->r[1] = a;
        in->x = i * bits;
        in->y = bits == 32 ? 0xffffffffu : (1u << bits) - 1;
    }
    for (unsigned i = 0; i < v->n; i++) {
        if (v->sub[i].kind == SG_OPND_SINK)
            continue;
        int32_t dst = sg_dec_dst(d, &v->sub[i],
                                 bits == 32   ? SG_M_B32
                                 : bits == 16 ? SG_M_B16
                                              : SG_M_B8);
        struct sg_insn *in = sg_dec_emit(d, mov32);
        in->r[0] = dst;
        in->r[1] = t[i];
    }
    return true;
}

static bool mov_pack(struct sg_dec *d, const struct sg_ptx_insn *p, unsigned size)
{
    const struct sg_ptx_opnd *v = &p->opnds[1];
    int32_t r[5] = {0};

    if (v->n != 2 && !(v->n == 4 && size >= 4))
        return false;
    for (unsigned i = 0; i < v->n; i++) {
        unsigned part = size / v->n;
        r[i + 1] = sg_dec_src(d, &v->sub[i], part == 4 ? SG_M_B32 : part == 2 ? SG_M_B16 : SG_M_B8);
    }
    if (v->n == 2 && size == 2)
        return sg_dec_refuse(d, "pairs of bytes");
    r[0] = sg_dec_dst(d, &p->opnds[0], size == 8 ? SG_M_B64 : SG_M_B32);
    struct sg_insn *in = sg_dec_emit(d, v->n == 4 ? join4 : size == 8 ? join64 : join32);
    memcpy(in->r, r, sizeof(r));
    in->x = size * 8 / v->n;
    return true;
}

static bool decode_mov(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod t = sg_type_at(p, 0);
    unsigned size = sg_ptx_type_size(t);
    const struct sg_ptx_opnd *s = &p->opnds[1];

    if (p->nopnds != 2)
        return false;
    if (t == SG_M_PRED || is_pred(d, &p->opnds[0]))
        return mov_predicate(d, p);
    if (size > 8)
        return sg_dec_refuse(d, "128-bit values");
    if (p->opnds[0].kind == SG_OPND_VEC)
        return mov_unpack(d, p, size);
    if (s->kind == SG_OPND_VEC)
        return mov_pack(d, p, size);
    if (s->kind == SG_OPND_SREG) {
        bool fast = s->sreg == SG_SREG_TID && s->comp == 0 && size <= 4;
        int32_t dst = sg_dec_dst(d, &p->opnds[0], t);
        struct sg_insn *in = sg_dec_emit(d, fast ? tid_x : SG_ISA(sg_op_mov_sreg));
        in->r[0] = dst;
        in->x = s->sreg;
        in->y = s->comp | (size > 4 ? 0x100u : 0);
        return true;
    }
    sg_emit_op(d, size == 8 ? mov64 : mov32, t, t, SG_M_NONE, SG_M_NONE);
    return true;
}

static bool decode_cvta(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    const struct sg_mem *mem = d->image->env.mem;
    bool shared = sg_ptx_has(p, SG_M_SHARED) || sg_ptx_has(p, SG_M_SHARED__CTA) ||
                  sg_ptx_has(p, SG_M_SHARED__CLUSTER);
    u64 base = shared ? mem->shared_window : sg_ptx_has(p, SG_M_LOCAL) ? mem->local_window : 0;
    enum sg_ptx_mod t = sg_type_at(p, 0);

    if (sg_ptx_type_size(t) != 8)
        return sg_dec_refuse(d, "32-bit addresses");
    /* The address of a parameter or of a variable that a function keeps for a call is generic
     * already. */
    struct sg_insn *in = sg_emit_op(d, base ? add_base : mov64, t, t, SG_M_NONE, SG_M_NONE);
    in->imm = sg_ptx_has(p, SG_M_TO) ? 0 - base : base;
    return true;
}

static bool decode_isspacep(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    const struct sg_mem *mem = d->image->env.mem;
    bool ignored;

    if (p->nopnds < 2)
        return false;
    int32_t a = sg_dec_src(d, &p->opnds[1], SG_M_U64);
    int32_t dst = sg_dec_pred(d, &p->opnds[0], &ignored);
    bool local = sg_ptx_has(p, SG_M_LOCAL);
    bool shared = sg_ptx_has(p, SG_M_SHARED) || sg_ptx_has(p, SG_M_SHARED__CTA) ||
                  sg_ptx_has(p, SG_M_SHARED__CLUSTER);
    bool param = sg_ptx_has(p, SG_M_PARAM) || sg_ptx_has(p, SG_M_PARAM__ENTRY);
    if (sg_ptx_has(p, SG_M_CONST))
        return sg_dec_refuse(d, "constant memory has no addresses of its own here");
    bool cluster = sg_ptx_has(p, SG_M_SHARED__CLUSTER);
    struct sg_insn *in = sg_dec_emit(d, shared && !cluster ? in_own_shared
                                        : local || shared  ? in_window
                                        : param            ? in_params
                                                           : in_global);
    in->r[0] = dst;
    in->r[1] = a;
    in->imm = local ? mem->local_window : mem->shared_window;
    return true;
}

static bool decode_cluster(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    bool generic = !sg_ptx_has(p, SG_M_SHARED__CLUSTER), map = p->op == SG_OP_MAPA;
    enum sg_ptx_mod t = sg_type_at(p, 0);
    bool wide = sg_ptx_type_size(t) == 8;
    struct sg_insn *in;

    if (generic && !wide)
        return sg_dec_refuse(d, "32-bit addresses");
    if (map)
        in = sg_emit_op(d, wide ? mapa64 : mapa32, t, t, SG_M_U32, SG_M_NONE);
    else
        in = sg_emit_op(d, wide ? ctarank64 : ctarank32, SG_M_U32, t, SG_M_NONE, SG_M_NONE);
    in->imm = generic ? d->image->env.mem->shared_window : 0;
    return true;
}

bool SG_ISA(sg_decode_move)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    switch ((enum sg_ptx_op)p->op) {
    case SG_OP_MOV:
        return decode_mov(d, p);
    case SG_OP_CVTA:
        return decode_cvta(d, p);
    case SG_OP_ISSPACEP:
        return decode_isspacep(d, p);
    case SG_OP_MAPA:
    case SG_OP_GETCTARANK:
        return decode_cluster(d, p);
    default:
        return false;
    }
}
