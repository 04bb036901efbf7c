/* Instructions that look at other lanes: shfl, vote, match, redux, activemask, elect. */
#include "softgpu/exec/ops.h"

typedef uint32_t u32;
typedef uint64_t u64;

/* Member masks of a .sync instruction are at r[6]; each lane has its own, and those of a tile have
 * the same. The lanes whose members are all here; 0: others have to come first. */
static inline u32 together(struct sg_warp *w, const struct sg_insn *in)
{
    return w->full ? w->mask : sg_warp_ready(w, in, sg_opnd(w, in->r[6]));
}

/* What follows if @all lanes were active before together(). */
static inline const struct sg_insn *onwards(struct sg_warp *w, const struct sg_insn *in, u32 all)
{
    return w->mask == all ? in + 1 : sg_warp_resched(w, in + 1);
}

/* Lanes of @left that have the same members as its first one. */
static u32 same_members(const u32 *m, u32 left)
{
    u32 members = m[__builtin_ctz(left)], lanes = 0;

    for (u32 l = 0; l < SG_WARP; l++)
        lanes |= (u32)(m[l] == members) << l;
    return lanes & left;
}

/* ---- shfl ------------------------------------------------------------------------------------ */

enum { UP, DOWN, BFLY, IDX };

static inline unsigned source_lane(unsigned mode, unsigned l, u32 b, u32 c, bool *ok)
{
    unsigned bval = b & 31, cval = c & 31, seg = c >> 8 & 31;
    unsigned max = (l & seg) | (cval & ~seg), min = l & seg;
    int j;

    switch (mode) {
    case UP:
        j = (int)l - (int)bval;
        *ok = j >= (int)max;
        break;
    case DOWN:
        j = (int)(l + bval);
        *ok = j <= (int)max;
        break;
    case BFLY:
        j = (int)(l ^ bval);
        *ok = j <= (int)max;
        break;
    default:
        j = (int)(min | (bval & ~seg));
        *ok = j <= (int)max;
        break;
    }
    return *ok ? (unsigned)j : l;
}

/* r: 0 result, 1 value, 2 lane, 3 clamp, 4 predicate (y & 4), 6 members (y & 8); y & 3 mode */
SG_HANDLER(shfl)
{
    const u32 *a = sg_opnd(w, in->r[1]), *b = sg_opnd(w, in->r[2]), *c = sg_opnd(w, in->r[3]);
    u32 t[SG_WARP] __attribute__((aligned(64))), bits = 0, all = w->mask;

    if (in->y & 8 && !together(w, in))
        return sg_warp_leave(w);
    for (unsigned l = 0; l < SG_WARP; l++) {
        bool ok;
        unsigned j = source_lane(in->y & 3, l, b[l], c[l], &ok);
        t[l] = a[j];
        bits |= (u32)ok << l;
    }
    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), t[l]);
    if (in->y & 4)
        sg_pred_set(w, in->r[4], bits);
    return onwards(w, in, all);
}

static bool decode_shfl(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    static const uint16_t modes[] = {SG_M_UP, SG_M_DOWN, SG_M_BFLY, SG_M_IDX};
    bool sync = sg_ptx_has(p, SG_M_SYNC), pair, ignored;
    int32_t r[7] = {0};
    u32 y = sync ? 8 : 0;

    if (p->nopnds != 4u + sync)
        return false;
    for (u32 i = 0; i < 4; i++)
        if (sg_ptx_has(p, (enum sg_ptx_mod)modes[i]))
            y |= i;
    for (unsigned i = 1; i < 4; i++)
        r[i] = sg_dec_src(d, &p->opnds[i], SG_M_B32);
    if (sync)
        r[6] = sg_dec_src(d, &p->opnds[4], SG_M_B32);
    pair = p->opnds[0].kind == SG_OPND_PAIR;
    if (pair) {
        r[4] = sg_dec_pred(d, &p->opnds[0].sub[1], &ignored);
        y |= 4;
    }
    r[0] = sg_dec_dst(d, pair ? &p->opnds[0].sub[0] : &p->opnds[0], SG_M_B32);
    struct sg_insn *in = sg_dec_emit(d, shfl);
    memcpy(in->r, r, sizeof(r));
    in->y = y;
    return true;
}

/* ---- vote ------------------------------------------------------------------------------------ */

enum { ALL, ANY, UNI, BALLOT };

/* r: 0 result, 1 predicate, 6 members; y & 3 mode, y & 4 negated, y & 8 members given */
SG_HANDLER(vote)
{
    const u32 *m = in->y & 8 ? sg_opnd(w, in->r[6]) : NULL;
    u32 all = w->mask, t[SG_WARP] = {0}, bits = 0, group;

    if (m != NULL && !together(w, in))
        return sg_warp_leave(w);
    for (u32 left = w->mask; left != 0; left &= ~group) {
        u32 members = m != NULL ? m[__builtin_ctz(left)] & w->mask : w->mask;
        u32 pred = (sg_pred(w, in->r[1]) ^ -(in->y >> 2 & 1)) & members;
        group = m != NULL ? same_members(m, left) : left;
        switch (in->y & 3) {
        case BALLOT:
            for (u32 l = 0; l < SG_WARP; l++)
                t[l] |= group >> l & 1 ? pred : 0;
            break;
        case ALL:
            bits |= pred == members ? group : 0;
            break;
        case ANY:
            bits |= pred != 0 ? group : 0;
            break;
        default:
            bits |= pred == 0 || pred == members ? group : 0;
            break;
        }
    }
    if ((in->y & 3) == BALLOT)
        SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), t[l]);
    else
        sg_pred_set(w, in->r[0], bits);
    return onwards(w, in, all);
}

static bool decode_vote(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    static const uint16_t modes[] = {SG_M_ALL, SG_M_ANY, SG_M_UNI, SG_M_BALLOT};
    bool sync = sg_ptx_has(p, SG_M_SYNC), neg = false, ignored, ballot;
    u32 y = sync ? 8 : 0;
    int32_t members = 0, pred;

    if (p->nopnds != 2u + sync)
        return false;
    for (u32 i = 0; i < 4; i++)
        if (sg_ptx_has(p, (enum sg_ptx_mod)modes[i]))
            y |= i;
    if (sync)
        members = sg_dec_src(d, &p->opnds[2], SG_M_B32);
    pred = SG_ISA(sg_dec_pred_source)(d, &p->opnds[1], &neg);
    ballot = (y & 3) == BALLOT;
    int32_t dst =
        ballot ? sg_dec_dst(d, &p->opnds[0], SG_M_B32) : sg_dec_pred(d, &p->opnds[0], &ignored);
    struct sg_insn *in = sg_dec_emit(d, vote);
    in->r[0] = dst;
    in->r[1] = pred;
    in->r[6] = members;
    in->y = y | (neg ? 4u : 0u);
    return true;
}

/* ---- match ----------------------------------------------------------------------------------- */

/* r: 0 result, 1 value, 4 predicate (y & 2), 6 members; y & 1: 64 bits, y & 4: all */
SG_HANDLER(match)
{
    const u32 *m = sg_opnd(w, in->r[6]);
    u32 t[SG_WARP] __attribute__((aligned(64))), all = w->mask, same = 0;
    u64 v[SG_WARP];

    if (!together(w, in))
        return sg_warp_leave(w);
    for (unsigned l = 0; l < SG_WARP; l++)
        v[l] = in->y & 1 ? ((const u64 *)sg_opnd(w, in->r[1]))[l]
                         : ((const u32 *)sg_opnd(w, in->r[1]))[l];
    for (unsigned l = 0; l < SG_WARP; l++) {
        u32 members = m[l] & w->mask;
        t[l] = 0;
        for (unsigned k = 0; k < SG_WARP; k++)
            t[l] |= (u32)((members >> k & 1) && v[k] == v[l]) << k;
        same |= (u32)(t[l] == members) << l;
        if (in->y & 4)
            t[l] = t[l] == members ? members : 0;
    }
    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), t[l]);
    if (in->y & 2)
        sg_pred_set(w, in->r[4], same);
    return onwards(w, in, all);
}

static bool decode_match(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_mod t = sg_type_at(p, 0);
    bool pair, ignored;

    if (p->nopnds < 3)
        return false;
    pair = p->opnds[0].kind == SG_OPND_PAIR;
    int32_t v = sg_dec_src(d, &p->opnds[1], t), m = sg_dec_src(d, &p->opnds[2], SG_M_B32);
    int32_t dst = sg_dec_dst(d, pair ? &p->opnds[0].sub[0] : &p->opnds[0], SG_M_B32);
    struct sg_insn *in = sg_dec_emit(d, match);
    in->r[0] = dst;
    in->r[1] = v;
    in->r[6] = m;
    in->y = (sg_ptx_type_size(t) == 8 ? 1u : 0u) | (pair ? 2u : 0u) |
            (sg_ptx_has(p, SG_M_ALL) ? 4u : 0u);
    if (pair)
        in->r[4] = sg_dec_pred(d, &p->opnds[0].sub[1], &ignored);
    return true;
}

/* ---- redux, activemask, elect ---------------------------------------------------------------- */

enum { R_ADD, R_MIN, R_MAX, R_AND, R_OR, R_XOR };
enum { R_SIGNED = 8, R_FLOAT = 16, R_ABS = 32, R_NAN = 64 };

static u32 reduce(u32 what, u32 a, u32 b)
{
    unsigned flags = what & R_NAN ? SG_NUM_NAN : 0;
    bool less = what & R_SIGNED ? (int32_t)a < (int32_t)b : a < b;

    if (what & R_FLOAT)
        return (what & 7) == R_MIN ? sg_f32_min(a, b, flags) : sg_f32_max(a, b, flags);
    switch (what & 7) {
    case R_ADD:
        return a + b;
    case R_MIN:
        return less ? a : b;
    case R_MAX:
        return less ? b : a;
    case R_AND:
        return a & b;
    case R_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

static u32 reduce_lanes(const struct sg_insn *in, const u32 *v, u32 members)
{
    u32 acc = 0;
    bool first = true;

    for (unsigned l = 0; l < SG_WARP; l++)
        if (members >> l & 1) {
            u32 x = in->y & R_ABS ? v[l] & 0x7fffffffu : v[l];
            acc = first ? (in->y & R_FLOAT ? sg_f32_canon(x) : x) : reduce(in->y, acc, x);
            first = false;
        }
    return acc;
}

SG_HANDLER(redux)
{
    const u32 *v = sg_opnd(w, in->r[1]), *m = sg_opnd(w, in->r[6]);
    u32 all = w->mask, t[SG_WARP] = {0}, group;

    if (!together(w, in))
        return sg_warp_leave(w);
    for (u32 left = w->mask; left != 0; left &= ~group) {
        u32 r = reduce_lanes(in, v, m[__builtin_ctz(left)] & w->mask);
        group = same_members(m, left);
        for (u32 l = 0; l < SG_WARP; l++)
            t[l] |= group >> l & 1 ? r : 0;
    }
    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), t[l]);
    return onwards(w, in, all);
}

static bool decode_redux(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    static const uint16_t ops[] = {SG_M_ADD, SG_M_MIN, SG_M_MAX, SG_M_AND, SG_M_OR, SG_M_XOR};
    enum sg_ptx_mod t = sg_type_at(p, 0);
    u32 y = (t == SG_M_S32 ? (u32)R_SIGNED : 0) | (t == SG_M_F32 ? (u32)R_FLOAT : 0) |
            (sg_ptx_has(p, SG_M_ABS) ? (u32)R_ABS : 0) | (sg_ptx_has(p, SG_M_NAN) ? (u32)R_NAN : 0);

    if (p->nopnds < 3)
        return false;
    for (u32 i = 0; i < TB_ARRAY_LEN(ops); i++)
        if (sg_ptx_has(p, (enum sg_ptx_mod)ops[i]))
            y |= i;
    int32_t v = sg_dec_src(d, &p->opnds[1], SG_M_B32), m = sg_dec_src(d, &p->opnds[2], SG_M_B32);
    int32_t dst = sg_dec_dst(d, &p->opnds[0], SG_M_B32);
    struct sg_insn *in = sg_dec_emit(d, redux);
    in->r[0] = dst;
    in->r[1] = v;
    in->r[6] = m;
    in->y = y;
    return true;
}

SG_HANDLER(activemask)
{
    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), w->mask);
    return in + 1;
}

/* The lowest member is elected. */
SG_HANDLER(elect)
{
    const u32 *m = sg_opnd(w, in->r[6]);
    u32 all = w->mask, t[SG_WARP] = {0}, leaders = 0, group;

    if (!together(w, in))
        return sg_warp_leave(w);
    for (u32 left = w->mask; left != 0; left &= ~group) {
        u32 members = m[__builtin_ctz(left)] & w->mask;
        group = same_members(m, left);
        u32 leader = (u32)__builtin_ctz(members != 0 ? members : group);
        leaders |= 1u << leader;
        for (u32 l = 0; l < SG_WARP; l++)
            t[l] |= group >> l & 1 ? leader : 0;
    }
    SG_STORE_LANES(u32, sg_opnd(w, in->r[0]), t[l]);
    sg_pred_set(w, in->r[4], leaders);
    return onwards(w, in, all);
}

static bool decode_elect(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    bool ignored;

    if (p->nopnds < 2 || p->opnds[0].kind != SG_OPND_PAIR)
        return false;
    int32_t m = sg_dec_src(d, &p->opnds[1], SG_M_B32);
    int32_t dst = sg_dec_dst(d, &p->opnds[0].sub[0], SG_M_B32);
    struct sg_insn *in = sg_dec_emit(d, elect);
    in->r[0] = dst;
    in->r[4] = sg_dec_pred(d, &p->opnds[0].sub[1], &ignored);
    in->r[6] = m;
    return true;
}

/* ---- the same instruction at several places ----------------------------------------------------
 */

#define SLOT 256u /* bytes of an operand */

/* What an operand of an instruction of this file is. */
enum what_is { NOTHING, IN32, IN64, IN_PRED, OUT32, OUT_PRED };

static enum what_is operand_of(const struct sg_insn *in, unsigned k)
{
    sg_handler fn = in->fn;
    bool is_pair = fn == elect || (fn == shfl && in->y & 4) || (fn == match && in->y & 2);

    switch (k) {
    case 0:
        return fn == vote && (in->y & 3) != BALLOT ? OUT_PRED : OUT32;
    case 1:
        return fn == vote                 ? IN_PRED
               : fn == match && in->y & 1 ? IN64
               : fn == elect              ? NOTHING
                                          : IN32;
    case 2:
    case 3:
        return fn == shfl ? IN32 : NOTHING;
    case 4:
        return is_pair ? OUT_PRED : NOTHING;
    case 6:
        return IN32;
    default:
        return NOTHING;
    }
}

/* y without what is an operand's own: a negation, or whether there is a second result. */
static u32 qualifiers(const struct sg_insn *in)
{
    return in->y & ~(in->fn == vote || in->fn == shfl ? 4u : in->fn == match ? 2u : 0u);
}

/* Copies what @lanes have of an operand. */
static void copy_operand(uint8_t *to, const uint8_t *from, enum what_is what, u32 lanes)
{
    unsigned size = what == IN64 ? 8 : 4;
    u32 a, b;

    if (what == IN_PRED || what == OUT_PRED) {
        memcpy(&a, to, sizeof(a));
        memcpy(&b, from, sizeof(b));
        a = (a & ~lanes) | (b & lanes);
        memcpy(to, &a, sizeof(a));
        return;
    }
    for (u32 l = 0; l < SG_WARP; l++)
        if (lanes >> l & 1)
            memcpy(to + (size_t)l * size, from + (size_t)l * size, size);
}

static uint8_t *operand_at(const struct sg_warp *w, const struct sg_split *s, unsigned k)
{
    int32_t off = s->pc->r[k];

    return (uint8_t *)(off >= 0 ? (uintptr_t)w->regs + s->fp : (uintptr_t)w->pool_end) + off;
}

/* Lanes of a split that wait for the same members as others may, at other places. */
struct party {
    struct sg_split *split;
    u32 lanes;
};

static bool may_meet(const struct sg_split *s)
{
    sg_handler fn = s->pc->fn;

    return s->state == SG_WAIT_SYNC &&
           (fn == shfl || fn == vote || fn == match || fn == redux || fn == elect);
}

/* Who waits for @members at an instruction with the qualifiers of @first; the lanes of all. */
static u32 parties(struct sg_warp *w, const struct sg_insn *first, u32 members, struct party *list,
                   u32 *n)
{
    u32 all = 0;

    *n = 0;
    for (u32 i = 0; i < w->nsplits; i++) {
        struct sg_split *s = &w->splits[i];
        if (!may_meet(s) || s->pc->fn != first->fn || qualifiers(s->pc) != qualifiers(first))
            continue;
        const u32 *m = (const u32 *)(const void *)operand_at(w, s, 6);
        u32 lanes = 0;
        for (u32 l = 0; l < SG_WARP; l++)
            lanes |= (u32)(m[l] == members) << l;
        lanes &= s->mask;
        if (lanes != 0)
            list[(*n)++] = (struct party){s, lanes};
        all |= lanes;
    }
    return all;
}

/* One instruction for all of them, on copies of their operands. */
static void execute_together(struct sg_warp *w, const struct party *list, u32 n, u32 lanes)
{
    uint8_t slots[7 * SLOT] __attribute__((aligned(64))) = {0};
    struct sg_insn in = *list[0].split->pc;

    in.y = qualifiers(&in) | (in.fn == shfl ? 4u : in.fn == match ? 2u : 0u);
    for (unsigned k = 0; k < 7; k++) {
        enum what_is what = operand_of(&in, k);
        in.r[k] = (int32_t)(k * SLOT);
        for (u32 i = 0; i < n && what != NOTHING && what < OUT32; i++)
            copy_operand(slots + (size_t)k * SLOT, operand_at(w, list[i].split, k), what,
                         list[i].lanes);
    }
    for (u32 i = 0; i < n && in.fn == vote; i++)
        if (list[i].split->pc->y & 4) {
            u32 *p = (u32 *)(void *)(slots + SLOT);
            *p ^= list[i].lanes;
        }
    w->frame = slots;
    w->mask = lanes;
    w->full = lanes == w->alive;
    sg_warp_expand(w);
    in.fn(w, &in);
    for (unsigned k = 0; k < 7; k++)
        for (u32 i = 0; i < n; i++) {
            enum what_is what = operand_of(list[i].split->pc, k);
            if (what >= OUT32)
                copy_operand(operand_at(w, list[i].split, k), slots + (size_t)k * SLOT, what,
                             list[i].lanes);
        }
}

/* These go on; lanes of the same split with other members wait in one of their own. */
static void go_on(struct sg_warp *w, const struct party *p)
{
    struct sg_split rest = *p->split;

    rest.mask &= ~p->lanes;
    if (rest.mask != 0)
        w->splits[w->nsplits++] = rest;
    p->split->mask = p->lanes;
    p->split->pc++;
    p->split->state = SG_READY;
}

bool SG_ISA(sg_op_meet)(struct sg_warp *w)
{
    struct party list[SG_WARP];
    u32 n;

    for (u32 i = 0; i < w->nsplits; i++) {
        const struct sg_split *s = &w->splits[i];
        for (u32 left = may_meet(s) ? s->mask : 0; left != 0; left &= left - 1) {
            u32 members = ((const u32 *)(const void *)operand_at(w, s, 6))[__builtin_ctz(left)];
            u32 lanes = parties(w, s->pc, members, list, &n);
            if (n == 0 || (members & w->alive & ~lanes) != 0)
                continue;
            execute_together(w, list, n, lanes);
            for (u32 k = 0; k < n; k++)
                go_on(w, &list[k]);
            return true;
        }
    }
    return false;
}

bool SG_ISA(sg_decode_warp)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    switch ((enum sg_ptx_op)p->op) {
    case SG_OP_SHFL:
        return decode_shfl(d, p);
    case SG_OP_VOTE:
        return decode_vote(d, p);
    case SG_OP_MATCH:
        return decode_match(d, p);
    case SG_OP_REDUX:
        return decode_redux(d, p);
    case SG_OP_ACTIVEMASK:
        sg_emit_op(d, activemask, SG_M_B32, SG_M_NONE, SG_M_NONE, SG_M_NONE);
        return true;
    case SG_OP_ELECT:
        return decode_elect(d, p);
    default:
        return false;
    }
}
