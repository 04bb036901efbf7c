/*
 * Values that came from memory nobody wrote, on their way through registers: a bit a byte and lane,
 * and a bit a lane of predicates. Copies carry them byte by byte, arithmetic and comparisons as a
 * whole: code may well compute with what lies behind the end of a tile, and then drop it. A use,
 * which is reported once, is what shows: a way that is taken or a store, atomic or barrier that is
 * made because of one; an address; an operand of an atomic or of a matrix product; and a store of a
 * computed value into global memory. Values on the stack, arguments of calls and results of votes
 * count as written: what goes that way is lost, not wrongly reported.
 */
#include "softgpu/exec/check_internal.h"

#include <stdlib.h>

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

/* ---- registers ------------------------------------------------------------------------------- */

static bool room(struct sg_check_warp *cw, const struct sg_warp *w)
{
    size_t need = w->regs_cap / 4;

    if (cw->cap >= need)
        return true;
    struct sg_unwritten *more = realloc(cw->reg, need * sizeof(*more));
    if (more == NULL)
        return false;
    memset(more + cw->cap, 0, (need - cw->cap) * sizeof(*more));
    cw->reg = more;
    struct sg_unsure *preds = realloc(cw->pred, need * sizeof(*preds));
    if (preds == NULL)
        return false;
    memset(preds + cw->cap, 0, (need - cw->cap) * sizeof(*preds));
    cw->pred = preds;
    cw->cap = need;
    return true;
}

/* What is known of lane @l of a register operand; NULL: it is none, or a predicate. */
static struct sg_unwritten *entry(const struct sg_step *s, const struct sg_ptx_opnd *o, unsigned l)
{
    struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    unsigned size = 0;
    const uint8_t *p = sg_step_register(s, o, &size);
    size_t at;

    if (p == NULL || size == 0)
        return NULL;
    at = (size_t)(p - s->warp->regs) / 4 + (size_t)l * (size / 4);
    return at < cw->cap ? &cw->reg[at] : NULL;
}

/* What is known of a predicate operand, and its value; NULL: it is none. */
static struct sg_unsure *predicate(const struct sg_step *s, const struct sg_ptx_opnd *o, u32 *v)
{
    struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    unsigned size = 1;
    const uint8_t *p = sg_step_register(s, o, &size);
    size_t at;

    if (p == NULL || size != 0)
        return NULL;
    memcpy(v, p, 4);
    if (o->neg)
        *v = ~*v;
    at = (size_t)(p - s->warp->regs) / 4;
    return at < cw->cap ? &cw->pred[at] : NULL;
}

static u64 value(const struct sg_step *s, const struct sg_ptx_opnd *o, unsigned l)
{
    unsigned size = 0;
    const uint8_t *p = sg_step_register(s, o, &size);
    u64 v = 0;

    if (o->kind == SG_OPND_IMM)
        return (u64)o->imm;
    if (p != NULL && size != 0)
        memcpy(&v, p + (size_t)l * size, size);
    return v;
}

static u64 bits_of(u32 bytes)
{
    u64 v = 0;

    for (unsigned i = 0; i < 8; i++)
        v |= bytes >> i & 1 ? UINT64_C(0xff) << (8 * i) : 0;
    return v;
}

static u16 bytes_of(u64 bits)
{
    u16 v = 0;

    for (unsigned i = 0; i < 8; i++)
        v |= (u16)((bits >> (8 * i) & 0xff) != 0) << i;
    return v;
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* The type that operands are read as, 0: whatever the registers are. */
static unsigned operand_bytes(const struct sg_ptx_insn *p)
{
    if (p->op == SG_OP_MMA || p->op == SG_OP_WMMA || p->op == SG_OP_CALL)
        return 0;
    for (unsigned i = p->nmods; i-- > 0;) {
        unsigned n = sg_ptx_type_size((enum sg_ptx_mod)p->mods[i]);
        if (n != 0)
            return n;
    }
    return 0;
}

static bool has_destination(const struct sg_ptx_insn *p)
{
    switch (p->op) {
    case SG_OP_BRA:
    case SG_OP_BRX:
    case SG_OP_NANOSLEEP:
    case SG_OP_STACKRESTORE:
    case SG_OP_CALL:
        return false;
    case SG_OP_BAR:
    case SG_OP_BARRIER:
        return sg_ptx_has(p, SG_M_RED);
    default:
        return p->nopnds > 0 && p->opnds[0].kind != SG_OPND_ADDR;
    }
}

static bool is_float(enum sg_ptx_mod t)
{
    return t == SG_M_F16 || t == SG_M_BF16 || t == SG_M_F32 || t == SG_M_F64 || t == SG_M_F16X2 ||
           t == SG_M_BF16X2 || t == SG_M_TF32;
}

static bool any_float(const struct sg_ptx_insn *p)
{
    for (unsigned i = 0; i < p->nmods; i++)
        if (is_float((enum sg_ptx_mod)p->mods[i]))
            return true;
    return false;
}

/* Does the result only carry (parts of) what it reads? @from, @to: those operands. */
static bool carries(const struct sg_ptx_insn *p, unsigned *from, unsigned *to)
{
    *from = 1;
    *to = 1;
    switch (p->op) {
    case SG_OP_MOV:
    case SG_OP_NOT:
    case SG_OP_CVTA:
        return true;
    case SG_OP_SHFL:
        return true;
    case SG_OP_CVT:
        return !any_float(p) && !sg_ptx_has(p, SG_M_SAT) && !sg_ptx_has(p, SG_M_PACK);
    case SG_OP_SELP:
    case SG_OP_AND:
    case SG_OP_OR:
    case SG_OP_XOR:
    case SG_OP_PRMT:
        *to = 2;
        return true;
    case SG_OP_SHL:
    case SG_OP_SHR:
    case SG_OP_BFE:
        return p->opnds[2].kind == SG_OPND_IMM;
    case SG_OP_BFI:
        *to = 2;
        return p->opnds[3].kind == SG_OPND_IMM && p->opnds[4].kind == SG_OPND_IMM;
    default:
        return false;
    }
}

static struct sg_unwritten either(struct sg_unwritten a, u16 bytes, struct sg_unwritten b)
{
    return (struct sg_unwritten){bytes, a.bytes != 0 ? a.origin : b.origin,
                                 a.computed | b.computed};
}

/* A source of a carrying instruction: {a, b} is one value. */
static struct sg_unwritten source(const struct sg_step *s, const struct sg_ptx_opnd *o, unsigned l,
                                  unsigned size)
{
    struct sg_unwritten v = {0}, *e;
    unsigned each;

    if (o->kind != SG_OPND_VEC) {
        e = entry(s, o, l);
        if (e != NULL)
            v = *e;
        if (size != 0 && size < 16)
            v.bytes &= (u16)((1u << size) - 1);
        return v;
    }
    each = o->n != 0 ? size / o->n : 0;
    for (unsigned i = 0; i < o->n && each != 0; i++) {
        e = entry(s, &o->sub[i], l);
        if (e == NULL || e->bytes == 0)
            continue;
        v.bytes |= (u16)((e->bytes & ((1u << each) - 1)) << (i * each));
        v.origin = e->origin;
        v.computed |= e->computed;
    }
    return v;
}

static u16 permuted(struct sg_unwritten a, struct sg_unwritten b, u64 selector)
{
    u32 all = (a.bytes & 0xfu) | (u32)(b.bytes & 0xfu) << 4;
    u16 v = 0;

    for (unsigned i = 0; i < 4; i++)
        v |= (u16)((all >> (selector >> (4 * i) & 7) & 1) << i);
    return v;
}

static u16 shifted(const struct sg_ptx_insn *p, u16 bytes, unsigned size)
{
    u64 n = (u64)p->opnds[2].imm, bits = bits_of(bytes);

    if (n >= 8 * (u64)size)
        return bytes != 0 && p->op == SG_OP_SHR ? bytes : 0;
    if (p->op == SG_OP_SHL)
        return bytes_of(bits << n) & (u16)((1u << size) - 1);
    bool sign = sg_ptx_has(p, SG_M_S16) || sg_ptx_has(p, SG_M_S32) || sg_ptx_has(p, SG_M_S64);
    u64 top = sign && bytes >> (size - 1) & 1 && n != 0 ? ~(UINT64_MAX >> n >> (64 - 8 * size)) : 0;
    return bytes_of(bits >> n | top) & (u16)((1u << size) - 1);
}

static u16 field(const struct sg_step *s, u16 bytes, unsigned size, unsigned l)
{
    u64 at = value(s, &s->ptx->opnds[2], l) & 0xff, n = value(s, &s->ptx->opnds[3], l) & 0xff;
    u64 bits = at < 64 ? bits_of(bytes) >> at : 0;

    bits &= n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
    return bytes_of(bits) & (u16)((1u << size) - 1);
}

/* The lane that a shuffle reads, as the hardware counts. */
static unsigned shuffled_from(const struct sg_step *s, unsigned l)
{
    const struct sg_ptx_insn *p = s->ptx;
    unsigned b = (unsigned)value(s, &p->opnds[2], l) & 31;
    unsigned c = (unsigned)value(s, &p->opnds[3], l);
    unsigned seg = c >> 8 & 31, max = (l & seg) | (c & 31 & ~seg);

    if (sg_ptx_has(p, SG_M_UP))
        return (int)l - (int)b >= (int)max ? l - b : l;
    unsigned j = sg_ptx_has(p, SG_M_DOWN)   ? l + b
                 : sg_ptx_has(p, SG_M_BFLY) ? l ^ b
                                            : (l & seg) | (b & ~seg);
    return j <= max ? j : l;
}

static struct sg_unwritten result_of(const struct sg_step *s, unsigned l)
{
    const struct sg_ptx_insn *p = s->ptx;
    unsigned size = operand_bytes(p), width = size != 0 && size < 8 ? size : 8;
    struct sg_unwritten a, b = {0};

    if (p->op == SG_OP_SHFL)
        return source(s, &p->opnds[1], shuffled_from(s, l), 4);
    a = source(s, &p->opnds[1], l, size);
    if (p->nopnds > 2)
        b = source(s, &p->opnds[2], l, size);
    switch (p->op) {
    case SG_OP_SELP: {
        u32 mask = 0;
        const struct sg_unsure *u = predicate(s, &p->opnds[3], &mask);
        if (u != NULL && u->lanes >> l & 1)
            return (struct sg_unwritten){(u16)((1u << width) - 1), u->origin, true};
        return mask >> l & 1 ? a : b;
    }
    case SG_OP_AND: {
        u64 va = value(s, &p->opnds[1], l) | bits_of(a.bytes);
        u64 vb = value(s, &p->opnds[2], l) | bits_of(b.bytes);
        return either(a, bytes_of((bits_of(a.bytes) & vb) | (bits_of(b.bytes) & va)), b);
    }
    case SG_OP_OR: {
        u64 va = ~value(s, &p->opnds[1], l) | bits_of(a.bytes);
        u64 vb = ~value(s, &p->opnds[2], l) | bits_of(b.bytes);
        return either(a, bytes_of((bits_of(a.bytes) & vb) | (bits_of(b.bytes) & va)), b);
    }
    case SG_OP_PRMT:
        return p->opnds[3].kind == SG_OPND_IMM ? either(a, permuted(a, b, (u64)p->opnds[3].imm), b)
                                               : either(a, (u16)(a.bytes | b.bytes ? 0xf : 0), b);
    case SG_OP_XOR:
        return either(a, a.bytes | b.bytes, b);
    case SG_OP_BFI:
        return either(a, a.bytes | b.bytes ? (u16)((1u << width) - 1) : 0, b);
    case SG_OP_SHL:
    case SG_OP_SHR:
        return (struct sg_unwritten){shifted(p, a.bytes, width), a.origin, a.computed};
    case SG_OP_BFE:
        return (struct sg_unwritten){field(s, a.bytes, width, l), a.origin, a.computed};
    default:
        return a;
    }
}

/* What comes out of arithmetic: all of it, if any of what went in was unwritten. */
static struct sg_unwritten computed(const struct sg_step *s, unsigned l)
{
    const struct sg_ptx_insn *p = s->ptx;
    unsigned size = operand_bytes(p);

    for (unsigned i = 1; i < p->nopnds; i++) {
        const struct sg_ptx_opnd *o = &p->opnds[i];
        struct sg_unwritten v = {0};
        u32 ignored = 0;
        const struct sg_unsure *u = predicate(s, o, &ignored);
        for (u32 k = 0; k < (o->kind == SG_OPND_VEC ? o->n : 1); k++)
            if (v.bytes == 0)
                v = source(s, o->kind == SG_OPND_VEC ? &o->sub[k] : o, l, size);
        if (v.bytes != 0)
            return (struct sg_unwritten){0xff, v.origin, true};
        if (u != NULL && u->lanes >> l & 1)
            return (struct sg_unwritten){0xff, u->origin, true};
    }
    return (struct sg_unwritten){0};
}

/* Programs look behind the end of what a tile of shared memory holds, branch on it and drop what
 * came out (set operations and merges of Thrust and CUB do): decisions and places in shared memory
 * that rest on unwritten shared memory are no finding. */
static bool from_shared(const struct sg_step *s, unsigned origin)
{
    return origin != 0 && sg_check_warp_of(s->warp)->origins[origin - 1].shared;
}

/* ---- predicates ------------------------------------------------------------------------------ */

/* Lanes of a conjunction, or (@or) disjunction, that rest on unsure ones. */
static struct sg_unsure joined(struct sg_unsure a, u32 va, struct sg_unsure b, u32 vb,
                               bool either_of)
{
    u32 matters_a = (either_of ? ~vb : vb) | b.lanes, matters_b = (either_of ? ~va : va) | a.lanes;

    return (struct sg_unsure){(a.lanes & matters_a) | (b.lanes & matters_b),
                              a.lanes != 0 ? a.origin : b.origin};
}

static struct sg_unsure unsure_of(const struct sg_step *s, const struct sg_ptx_opnd *o, u32 *v)
{
    const struct sg_unsure *u = predicate(s, o, v);

    return u != NULL ? *u : (struct sg_unsure){0};
}

/* and.pred p, a, b and the like */
static struct sg_unsure logic(const struct sg_step *s)
{
    const struct sg_ptx_insn *p = s->ptx;
    u32 va = 0, vb = 0;
    struct sg_unsure a = unsure_of(s, &p->opnds[1], &va), b = {0};

    if (p->nopnds > 2)
        b = unsure_of(s, &p->opnds[2], &vb);
    if (p->op == SG_OP_AND || p->op == SG_OP_OR)
        return joined(a, va, b, vb, p->op == SG_OP_OR);
    return (struct sg_unsure){a.lanes | b.lanes, a.lanes != 0 ? a.origin : b.origin};
}

/* setp: a comparison, maybe joined with another predicate */
static struct sg_unsure comparison(const struct sg_step *s)
{
    const struct sg_ptx_insn *p = s->ptx;
    unsigned size = operand_bytes(p);
    struct sg_unsure u = {0}, with;
    u32 v = 0;

    for (unsigned l = 0; l < SG_WARP; l++)
        for (unsigned i = 1; i < p->nopnds && i < 3; i++) {
            struct sg_unwritten e = {0};
            if (s->mask >> l & 1)
                e = source(s, &p->opnds[i], l, size);
            if (e.bytes == 0 || from_shared(s, e.origin))
                continue;
            u.lanes |= 1u << l;
            u.origin = e.origin;
        }
    if (p->nopnds < 4)
        return u;
    with = unsure_of(s, &p->opnds[3], &v);
    if (sg_ptx_has(p, SG_M_AND) || sg_ptx_has(p, SG_M_OR)) /* the comparison may be either */
        return joined(u, sg_ptx_has(p, SG_M_OR) ? 0 : ~0u, with, v, sg_ptx_has(p, SG_M_OR));
    return (struct sg_unsure){u.lanes | with.lanes, u.lanes != 0 ? u.origin : with.origin};
}

static struct sg_unsure decision_of(const struct sg_step *s)
{
    switch (s->ptx->op) {
    case SG_OP_SETP:
    case SG_OP_TESTP:
        return comparison(s);
    case SG_OP_AND:
    case SG_OP_OR:
    case SG_OP_XOR:
    case SG_OP_NOT:
    case SG_OP_MOV:
        return logic(s);
    default: /* votes, waits */
        return (struct sg_unsure){0};
    }
}

/* ---- uses ------------------------------------------------------------------------------------ */

static bool use(struct sg_check *c, const struct sg_step *s, unsigned l, unsigned origin)
{
    const struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    struct sg_check_report r = {.rule = SG_CHECK_UNINITIALISED};
    const struct sg_origin *o = &cw->origins[origin != 0 ? origin - 1 : 0];

    sg_check_place_of(&r.at, s->func, s->ptx, s->warp, l);
    sg_check_place_of(&r.other, o->func, o->ptx, s->warp, o->lane);
    r.at.access = "use";
    r.other.access = "read";
    r.address = o->addr;
    r.size = o->n;
    r.shared = o->shared;
    return sg_check_tell(c, s->warp, l, &r);
}

static void use_operand(struct sg_check *c, const struct sg_step *s, const struct sg_ptx_opnd *o,
                        unsigned size)
{
    bool place = o->kind == SG_OPND_ADDR;

    if (place) {
        o = &o->sub[0];
        size = 0;
    }
    for (u32 i = 0; o->kind == SG_OPND_VEC && i < o->n; i++)
        use_operand(c, s, &o->sub[i], size);
    if (o->kind != SG_OPND_REG)
        return;
    for (unsigned l = 0; l < SG_WARP; l++) {
        struct sg_unwritten *e = s->mask >> l & 1 ? entry(s, o, l) : NULL;
        u16 read = size != 0 && size < 8 ? (u16)((1u << size) - 1) : 0xff;
        if (e == NULL || (e->bytes & read) == 0 ||
            (place && from_shared(s, e->origin) && !sg_ptx_has(s->ptx, SG_M_GLOBAL)))
            continue;
        use(c, s, l, e->origin);
        e->bytes = 0; /* told */
    }
}

/* Does it show whether the instruction is executed? */
static bool shows(const struct sg_ptx_insn *p)
{
    switch (p->op) {
    case SG_OP_BRA:
    case SG_OP_BRX:
    case SG_OP_CALL:
    case SG_OP_RET:
    case SG_OP_EXIT:
    case SG_OP_TRAP:
    case SG_OP_ST:
    case SG_OP_RED:
    case SG_OP_ATOM:
    case SG_OP_BAR:
    case SG_OP_BARRIER:
    case SG_OP_CP:
    case SG_OP_MBARRIER:
        return true;
    default:
        return false;
    }
}

static void use_guard(struct sg_check *c, const struct sg_step *s)
{
    const struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    size_t at = (s->warp->fp + (size_t)s->func->slot[s->ptx->guard]) / 4;
    struct sg_unsure *u = at < cw->cap ? &cw->pred[at] : NULL;
    u32 lanes = u != NULL ? u->lanes & s->warp->mask : 0;

    if (lanes == 0 || from_shared(s, u->origin))
        return;
    use(c, s, (unsigned)__builtin_ctz(lanes), u->origin);
    u->lanes = 0;
}

/* Operands that must be sound: all that no result can carry on. */
static bool uses_operands(const struct sg_ptx_insn *p)
{
    switch (p->op) {
    case SG_OP_ATOM:
    case SG_OP_RED:
    case SG_OP_MMA:
    case SG_OP_WMMA:
    case SG_OP_BRX:
    case SG_OP_CALL:
    case SG_OP_BAR:
    case SG_OP_BARRIER:
    case SG_OP_MBARRIER:
    case SG_OP_CP:
        return true;
    default:
        return false;
    }
}

/* What other lanes see of it cannot be told lane by lane. */
static bool is_lost(const struct sg_ptx_insn *p)
{
    return p->op == SG_OP_VOTE || p->op == SG_OP_MATCH || p->op == SG_OP_REDUX ||
           p->op == SG_OP_LD || p->op == SG_OP_LDU || p->op == SG_OP_MOVMATRIX ||
           p->op == SG_OP_LDMATRIX;
}

/* Frames of calls begin clean. */
static void forget_callees(struct sg_check_warp *cw, const struct sg_step *s)
{
    size_t from = ((size_t)s->warp->fp + s->func->frame_bytes) / 4;

    if (from < cw->cap) {
        memset(cw->reg + from, 0, (cw->cap - from) * sizeof(*cw->reg));
        memset(cw->pred + from, 0, (cw->cap - from) * sizeof(*cw->pred));
    }
}

void sg_check_regs_enter(struct sg_check *c, const struct sg_step *s)
{
    struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    const struct sg_ptx_insn *p = s->ptx;
    unsigned from = 1, to = 0;
    bool carried = has_destination(p) && carries(p, &from, &to);

    if (!room(cw, s->warp))
        return;
    if (p->op == SG_OP_CALL)
        forget_callees(cw, s);
    if (p->guarded && shows(p))
        use_guard(c, s);
    for (unsigned i = has_destination(p) ? 1 : 0; i < p->nopnds; i++)
        if (p->opnds[i].kind == SG_OPND_ADDR || uses_operands(p))
            use_operand(c, s, &p->opnds[i], operand_bytes(p));
    cw->decision = decision_of(s);
    cw->has_result = has_destination(p) && !uses_operands(p) && !is_lost(p);
    for (unsigned l = 0; l < SG_WARP && cw->has_result; l++)
        if (s->mask >> l & 1)
            cw->result[l] = carried ? result_of(s, l) : computed(s, l);
        else
            cw->result[l] = (struct sg_unwritten){0};
}

/* ---- results --------------------------------------------------------------------------------- */

/* Predicates of a destination: p, or p and q of p|q. */
static void decide(const struct sg_step *s, const struct sg_ptx_opnd *o)
{
    const struct sg_unsure *d = &sg_check_warp_of(s->warp)->decision;
    u32 ignored = 0;
    struct sg_unsure *u = predicate(s, o, &ignored);

    for (unsigned i = 0; o->kind == SG_OPND_PAIR && i < 2; i++)
        decide(s, &o->sub[i]);
    if (u == NULL)
        return;
    u->lanes = (u->lanes & ~s->mask) | (d->lanes & s->mask);
    if (d->lanes != 0)
        u->origin = d->origin;
}

static void set(const struct sg_step *s, const struct sg_ptx_opnd *o, unsigned l,
                struct sg_unwritten v)
{
    struct sg_unwritten *e = entry(s, o, l);

    if (e != NULL)
        *e = v;
}

/* Bytes of element @k of a value; sign extension fills the register. */
static u16 element(u64 bytes, unsigned k, unsigned each, bool sign)
{
    u16 v = (u16)(bytes >> (k * each) & ((UINT64_C(1) << each) - 1));

    return sign && each < 8 && v >> (each - 1) & 1 ? (u16)(v | (0xffu << each & 0xff)) : v;
}

static void loaded(const struct sg_step *s, const struct sg_ptx_opnd *d, unsigned l)
{
    const struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    unsigned each = operand_bytes(s->ptx);
    bool sign =
        sg_ptx_has(s->ptx, SG_M_S8) || sg_ptx_has(s->ptx, SG_M_S16) || sg_ptx_has(s->ptx, SG_M_S32);
    u64 bytes = cw->loaded >> l & 1 ? cw->bytes[l] : 0;
    uint8_t origin = cw->result[l].origin;

    if (d->kind != SG_OPND_VEC)
        set(s, d, l, (struct sg_unwritten){element(bytes, 0, each, sign), origin, false});
    for (u32 k = 0; d->kind == SG_OPND_VEC && k < d->n; k++)
        set(s, &d->sub[k], l, (struct sg_unwritten){element(bytes, k, each, sign), origin, false});
}

static void carried(const struct sg_step *s, const struct sg_ptx_opnd *d, unsigned l,
                    struct sg_unwritten v)
{
    unsigned size = operand_bytes(s->ptx);

    if (d->kind == SG_OPND_PAIR)
        d = &d->sub[0];
    if (d->kind != SG_OPND_VEC) {
        set(s, d, l, v);
        return;
    }
    for (u32 k = 0; k < d->n; k++)
        set(s, &d->sub[k], l,
            (struct sg_unwritten){element(v.bytes, k, size / d->n, false), v.origin, v.computed});
}

void sg_check_regs_exit(struct sg_check *c, const struct sg_step *s)
{
    struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    const struct sg_ptx_insn *p = s->ptx;
    bool load = p->op == SG_OP_LD || p->op == SG_OP_LDU;

    (void)c;
    if (!has_destination(p) || !room(cw, s->warp))
        return;
    if (cw->dirty) {
        decide(s, &p->opnds[0]);
    } else if (cw->loaded != 0) { /* what an earlier block has left */
        memset(cw->reg, 0, cw->cap * sizeof(*cw->reg));
        memset(cw->pred, 0, cw->cap * sizeof(*cw->pred));
        cw->dirty = true;
    }
    for (unsigned l = 0; l < SG_WARP; l++) {
        if (!(s->mask >> l & 1))
            continue;
        if (load)
            loaded(s, &p->opnds[0], l);
        else
            carried(s, &p->opnds[0], l, cw->has_result ? cw->result[l] : (struct sg_unwritten){0});
    }
}

void sg_check_loaded(const struct sg_step *s, const struct sg_access *a, uint64_t bytes)
{
    struct sg_check_warp *cw = sg_check_warp_of(s->warp);
    unsigned i = 0;

    while (i < cw->norigins && cw->origins[i].ptx != s->ptx)
        i++;
    if (i == SG_CHECK_ORIGINS)
        i = (unsigned)(s->serial % SG_CHECK_ORIGINS);
    else if (i == cw->norigins)
        cw->norigins++;
    cw->origins[i] = (struct sg_origin){s->ptx, s->func, a->addr, a->n, a->lane, a->block != NULL};
    cw->loaded |= 1u << a->lane;
    cw->bytes[a->lane] = bytes;
    cw->result[a->lane].origin = (uint8_t)(i + 1);
}

uint64_t sg_check_stored(const struct sg_step *s, const struct sg_access *a)
{
    const struct sg_ptx_opnd *o = &s->ptx->opnds[1];
    unsigned each = operand_bytes(s->ptx);
    u64 v = 0;

    if (each == 0 || each > 8)
        return 0;
    for (u32 k = 0; k < (o->kind == SG_OPND_VEC ? o->n : 1); k++) {
        const struct sg_unwritten *e = entry(s, o->kind == SG_OPND_VEC ? &o->sub[k] : o, a->lane);
        if (e != NULL)
            v |= (u64)(e->bytes & ((1u << each) - 1)) << (k * each);
    }
    return v;
}

bool sg_check_result(struct sg_check *c, const struct sg_step *s, const struct sg_access *a)
{
    const struct sg_ptx_opnd *o = &s->ptx->opnds[1];
    unsigned each = operand_bytes(s->ptx);
    u16 stored = each != 0 && each < 8 ? (u16)((1u << each) - 1) : 0xff;

    for (u32 k = 0; k < (o->kind == SG_OPND_VEC ? o->n : 1); k++) {
        struct sg_unwritten *e = entry(s, o->kind == SG_OPND_VEC ? &o->sub[k] : o, a->lane);
        if (e == NULL || !e->computed || (e->bytes & stored) == 0)
            continue;
        e->bytes = 0; /* told */
        if (!use(c, s, a->lane, e->origin))
            return false;
    }
    return true;
}
