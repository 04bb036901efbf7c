/*
 * cp.async, cp.async.bulk and mbarrier. Copies are done at once: waiting for them is free, and what
 * an mbarrier is to be told when they arrive is told at once too. Copies through tensor maps are
 * refused.
 */
#include "softgpu/exec/access.h"

typedef uint32_t u32;
typedef uint64_t u64;

SG_HANDLER(nothing)
{
    (void)w;
    return in + 1;
}

/* ---- mbarrier -------------------------------------------------------------------------------- */

/* The object in shared memory: bits 0-19 arrivals still pending, 20-39 arrivals of a phase, 40-62
 * transactions still to come, 63 parity of the phase. The ISA leaves the layout open. */
#define PENDING(v) ((u32)(v)&0xfffffu)
#define EXPECTED(v) ((u32)((v) >> 20) & 0xfffffu)
#define TX(v) ((u32)((v) >> 40) & 0x7fffffu)
#define PHASE(v) ((v) >> 63)

static u64 pack(u32 pending, u32 expected, u32 tx, u64 phase)
{
    return (u64)(pending & 0xfffffu) | (u64)(expected & 0xfffffu) << 20 |
           (u64)(tx & 0x7fffffu) << 40 | phase << 63;
}

static u64 settle(u32 pending, u32 expected, u32 tx, u64 phase)
{
    if (pending == 0 && (tx & 0x7fffffu) == 0)
        return pack(expected, expected, 0, phase ^ 1);
    return pack(pending, expected, tx, phase);
}

static void arrive(u64 *b, u32 count, u32 expect, bool drop)
{
    u64 v = *b;

    *b = settle(PENDING(v) - count, EXPECTED(v) - (drop ? count : 0), TX(v) + expect, PHASE(v));
}

static void change_tx(u64 *b, u32 by)
{
    u64 v = *b;

    *b = settle(PENDING(v), EXPECTED(v), TX(v) + by, PHASE(v));
}

enum what { INIT, ARRIVE, DROP, EXPECT_TX, COMPLETE_TX, WAIT_STATE, WAIT_PARITY, ARRIVE_COPIES };

/* r: 0 state or predicate (x & 0x100: wanted), 1 operand (x & 0x200: given), address as access.h;
 * x & 0xff: enum what; x & 0x400: arrive also expects operand transactions */
SG_HANDLER(mbarrier)
{
    const u32 *v = sg_opnd(w, in->r[1]);
    const u64 *state = sg_opnd(w, in->r[1]);
    u64 a[SG_WARP], *d = sg_opnd(w, in->r[0]);
    enum what what = (enum what)(in->x & 0xff);
    u32 bits = 0;

    sg_addresses(w, in, a);
    for (unsigned l = 0; l < SG_WARP; l++) {
        if (!(w->mask >> l & 1))
            continue;
        u64 *b = a[l] % 8 ? NULL : sg_lane_space(w, l, SG_SPACE(in), a[l], 8, true);
        u32 n = in->x & 0x200 && what != WAIT_STATE ? v[l] : 1;
        if (b == NULL)
            return sg_bad_address(w, in, l, a[l], 8, true);
        u64 before = *b;
        if (what == INIT)
            *b = pack(n, n, 0, 0);
        else if (what == ARRIVE || what == DROP)
            arrive(b, in->x & 0x400 ? 1 : n, in->x & 0x400 ? n : 0, what == DROP);
        else if (what == ARRIVE_COPIES)
            arrive(b, 1, 0, false);
        else if (what == EXPECT_TX)
            change_tx(b, n);
        else if (what == COMPLETE_TX)
            change_tx(b, 0u - n);
        else
            bits |= (u32)(PHASE(*b) != (what == WAIT_STATE ? PHASE(state[l]) : (n & 1))) << l;
        if (in->x & 0x100 && what < WAIT_STATE)
            d[l] = before;
    }
    if (what == WAIT_STATE || what == WAIT_PARITY)
        sg_pred_set(w, in->r[0], bits);
    return in + 1;
}

SG_OP1(pending_count, u32, u64, PENDING(x))

static bool emit_mbarrier(struct sg_dec *d, const struct sg_ptx_opnd *addr, enum sg_ptx_space space,
                          enum what what, int32_t dst, int32_t operand, u32 flags)
{
    struct sg_address a;

    if (!SG_ISA(sg_dec_address)(d, addr, space, &a) || a.param)
        return false;
    struct sg_insn *in = sg_dec_emit(d, mbarrier);
    sg_address_store(in, &a);
    in->r[0] = dst;
    in->r[1] = operand;
    in->x = (u32)what | flags;
    return true;
}

static bool decode_wait(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_space space)
{
    bool parity = sg_ptx_has(p, SG_M_PARITY), ignored;

    if (p->nopnds < 3)
        return false;
    int32_t v = sg_dec_src(d, &p->opnds[2], parity ? SG_M_U32 : SG_M_B64);
    int32_t dst = sg_dec_pred(d, &p->opnds[0], &ignored);
    return emit_mbarrier(d, &p->opnds[1], space, parity ? WAIT_PARITY : WAIT_STATE, dst, v, 0x200);
}

static bool decode_arrive(struct sg_dec *d, const struct sg_ptx_insn *p, enum sg_ptx_space space)
{
    bool dst_first = p->opnds[0].kind != SG_OPND_ADDR;
    bool wanted = dst_first && p->opnds[0].kind == SG_OPND_REG;
    unsigned at = dst_first ? 1 : 0;
    int32_t v = 0, dst = 0;
    u32 flags = sg_ptx_has(p, SG_M_EXPECT_TX) ? 0x400u : 0;

    if (p->nopnds < at + 1u)
        return false;
    if (p->nopnds > at + 1u) {
        v = sg_dec_src(d, &p->opnds[at + 1], SG_M_U32);
        flags |= 0x200;
    } else if (flags) {
        return false;
    }
    if (wanted)
        dst = sg_dec_dst(d, &p->opnds[0], SG_M_B64);
    return emit_mbarrier(d, &p->opnds[at], space, sg_ptx_has(p, SG_M_ARRIVE_DROP) ? DROP : ARRIVE,
                         dst, v, flags | (wanted ? 0x100u : 0));
}

static bool decode_mbarrier(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    enum sg_ptx_space space = SG_ISA(sg_space_of)(p);

    if (sg_ptx_has(p, SG_M_PENDING_COUNT)) {
        sg_emit_op(d, pending_count, SG_M_B32, SG_M_B64, SG_M_NONE, SG_M_NONE);
        return true;
    }
    if (sg_ptx_has(p, SG_M_TEST_WAIT) || sg_ptx_has(p, SG_M_TRY_WAIT))
        return decode_wait(d, p, space);
    if (sg_ptx_has(p, SG_M_ARRIVE) || sg_ptx_has(p, SG_M_ARRIVE_DROP))
        return decode_arrive(d, p, space);
    if (sg_ptx_has(p, SG_M_INVAL)) {
        sg_dec_emit(d, nothing);
        return true;
    }
    if (p->nopnds < 2)
        return false;
    int32_t v = sg_dec_src(d, &p->opnds[1], SG_M_U32);
    enum what what = sg_ptx_has(p, SG_M_INIT)        ? INIT
                     : sg_ptx_has(p, SG_M_EXPECT_TX) ? EXPECT_TX
                                                     : COMPLETE_TX;
    return emit_mbarrier(d, &p->opnds[0], space, what, 0, v, 0x200);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* r: 1 destination (32 or 64 bits: y & 1), 2 source, 3 bytes to read (y & 2), x bytes to write;
 * y & 4: r[3] is a predicate that says read nothing; imm and r[5]: offsets */
SG_HANDLER(copy)
{
    const u32 *n = sg_opnd(w, in->r[3]);
    const u64 *src = sg_opnd(w, in->r[2]);
    u32 size = in->x, ignore = in->y & 4 ? sg_pred(w, in->r[3]) : 0;

    for (unsigned l = 0; l < SG_WARP; l++) {
        if (!(w->mask >> l & 1))
            continue;
        u64 dst = in->y & 1 ? ((const u64 *)sg_opnd(w, in->r[1]))[l]
                            : ((const u32 *)sg_opnd(w, in->r[1]))[l];
        u64 from = src[l] + in->imm;
        u32 have = in->y & 2 ? n[l] : ignore >> l & 1 ? 0 : size;
        uint8_t *to = (dst + (u32)in->r[5]) % size
                          ? NULL
                          : sg_lane_shared(w, l, dst + (u32)in->r[5], size, true);
        if (to == NULL)
            return sg_bad_address(w, in, l, dst + (u32)in->r[5], size, true);
        if (have > size)
            have = size;
        const uint8_t *p = have == 0     ? to
                           : from % size ? NULL
                                         : sg_lane_global(w, l, from, have, false);
        if (p == NULL)
            return sg_bad_address(w, in, l, from, size, false);
        memmove(to, p, have);
        memset(to + have, 0, size - have);
    }
    return in + 1;
}

/* [base + offset] as a register and an offset. */
static bool base_of(struct sg_dec *d, const struct sg_ptx_opnd *o, bool shared, int32_t *reg,
                    int64_t *off, bool *wide)
{
    if (o->kind != SG_OPND_ADDR)
        return sg_dec_refuse(d, "an address is expected");
    const struct sg_ptx_opnd *b = &o->sub[0];
    *off = o->imm;
    *wide = b->kind != SG_OPND_REG ? !shared : sg_dec_reg_size(d, b) == 8;
    if (!*wide && !shared)
        return sg_dec_refuse(d, "32-bit addresses");
    *reg = sg_dec_src(d, b, *wide ? SG_M_B64 : SG_M_B32);
    return true;
}

static bool decode_copy(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    int32_t dst = 0, src = 0, n = 0;
    int64_t dst_off = 0, src_off = 0;
    bool dst64 = false, src64 = false, neg = false;
    u32 y = 0;

    if (p->nopnds < 3 || p->opnds[2].kind != SG_OPND_IMM)
        return false;
    int64_t size = p->opnds[2].imm;
    if (size != 4 && size != 8 && size != 16)
        return sg_dec_refuse(d, "copies of %lld bytes", (long long)size);
    if (!base_of(d, &p->opnds[0], true, &dst, &dst_off, &dst64) ||
        !base_of(d, &p->opnds[1], false, &src, &src_off, &src64))
        return false;
    if (p->nopnds > 3 && !(sg_ptx_has(p, SG_M_L2__CACHE_HINT) && p->nopnds == 4)) {
        const struct sg_ptx_opnd *o = &p->opnds[3];
        bool pred = o->kind == SG_OPND_REG && d->ptx->regs[o->reg].type == SG_M_PRED;
        n = pred ? sg_dec_pred(d, o, &neg) : sg_dec_src(d, o, SG_M_U32);
        if (neg)
            return sg_dec_refuse(d, "a negated predicate");
        y = pred ? 4 : 2;
    }
    struct sg_insn *in = sg_dec_emit(d, copy);
    in->r[1] = dst;
    in->r[2] = src;
    in->r[3] = n;
    in->r[5] = (int32_t)dst_off;
    in->imm = (u64)src_off;
    in->x = (u32)size;
    in->y = y | (dst64 ? 1u : 0u);
    return true;
}

/* Bulk copies: r: 1 destination, 2 source, 3 size, 4 mbarrier; x & 1, 2, 4: those are 64 bits wide;
 * x & 8: into shared memory, with an mbarrier; x & 16: from shared memory; offsets: imm halves and
 * r[5] */
static u64 wide_or_not(struct sg_warp *w, int32_t off, bool wide, unsigned l)
{
    return wide ? ((const u64 *)sg_opnd(w, off))[l] : ((const u32 *)sg_opnd(w, off))[l];
}

static bool bulk_range(struct sg_warp *w, unsigned l, bool shared, u64 addr, u32 n, bool write,
                       uint8_t **p)
{
    struct sg_run *r = w->block->run;

    *p = (uint8_t *)(uintptr_t)addr;
    if (shared)
        *p = sg_lane_shared(w, l, addr, n, write);
    else if (r->watched)
        *p = sg_watched_global(w, l, addr, n, write);
    else if (!sg_mem_ok_range(r->mem, addr, n, r->device_bit, write))
        *p = NULL;
    return *p != NULL;
}

SG_HANDLER(bulk_copy)
{
    const u32 *size = sg_opnd(w, in->r[3]);
    bool in_ = in->x & 8;

    for (unsigned l = 0; l < SG_WARP; l++) {
        if (!(w->mask >> l & 1) || size[l] == 0)
            continue;
        u64 dst = wide_or_not(w, in->r[1], in->x & 1, l) + (u64)(int64_t)(int32_t)in->imm;
        u64 src = wide_or_not(w, in->r[2], in->x & 2, l) + (u64)(int64_t)(int32_t)(in->imm >> 32);
        u64 bar = in_ ? wide_or_not(w, in->r[4], in->x & 4, l) + (u32)in->r[5] : 0;
        uint8_t *to, *from;
        u64 *b = NULL;
        if (dst % 16 || src % 16 || size[l] % 16)
            return sg_warp_fault(w, in, SG_FAULT_MISALIGNED, l, dst % 16 ? dst : src,
                                 "misaligned bulk copy");
        if (!bulk_range(w, l, in_, dst, size[l], true, &to))
            return sg_bad_address(w, in, l, dst, 16, true);
        if (!bulk_range(w, l, in->x & 16, src, size[l], false, &from))
            return sg_bad_address(w, in, l, src, 16, false);
        if (in_ && (bar % 8 || (b = sg_lane_shared(w, l, bar, 8, true)) == NULL))
            return sg_bad_address(w, in, l, bar, 8, true);
        memmove(to, from, size[l]);
        if (b != NULL)
            change_tx(b, 0u - size[l]);
    }
    return in + 1;
}

static bool decode_bulk(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    bool in_ = sg_ptx_has(p, SG_M_MBARRIER__COMPLETE_TX__BYTES), w[3] = {false};
    bool from_shared = !sg_ptx_has(p, SG_M_GLOBAL) || !in_;
    int32_t r[3] = {0};
    int64_t off[3] = {0};

    if (sg_ptx_has(p, SG_M_PREFETCH)) {
        sg_dec_emit(d, nothing);
        return true;
    }
    if (sg_ptx_has(p, SG_M_MULTICAST__CLUSTER) || p->nopnds < 3u + in_ ||
        (!in_ && !sg_ptx_has(p, SG_M_GLOBAL)))
        return sg_dec_refuse(d, "this form of bulk copies");
    if (!base_of(d, &p->opnds[0], in_, &r[0], &off[0], &w[0]) ||
        !base_of(d, &p->opnds[1], from_shared, &r[1], &off[1], &w[1]) ||
        (in_ && !base_of(d, &p->opnds[3], true, &r[2], &off[2], &w[2])))
        return false;
    int32_t n = sg_dec_src(d, &p->opnds[2], SG_M_U32);
    struct sg_insn *in = sg_dec_emit(d, bulk_copy);
    in->r[1] = r[0];
    in->r[2] = r[1];
    in->r[3] = n;
    in->r[4] = r[2];
    in->r[5] = (int32_t)off[2];
    in->imm = (u32)off[0] | (u64)(u32)off[1] << 32;
    in->x = (w[0] ? 1u : 0) | (w[1] ? 2u : 0) | (w[2] ? 4u : 0) | (in_ ? 8u : 0) |
            (from_shared ? 16u : 0);
    return true;
}

static bool decode_cp(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    if (sg_ptx_has(p, SG_M_TENSOR) || sg_ptx_has(p, SG_M_REDUCE))
        return sg_dec_refuse(d, "copies through tensor maps and reductions");
    if (sg_ptx_has(p, SG_M_COMMIT_GROUP) || sg_ptx_has(p, SG_M_WAIT_GROUP) ||
        sg_ptx_has(p, SG_M_WAIT_ALL)) {
        sg_dec_emit(d, nothing); /* they are complete already */
        return true;
    }
    if (sg_ptx_has(p, SG_M_ARRIVE)) {
        /* without .noinc the arrival is one more than the barrier counts: no change in the end */
        if (sg_ptx_has(p, SG_M_NOINC))
            return p->nopnds > 0 &&
                   emit_mbarrier(d, &p->opnds[0], SG_ISA(sg_space_of)(p), ARRIVE_COPIES, 0, 0, 0);
        sg_dec_emit(d, nothing);
        return true;
    }
    return sg_ptx_has(p, SG_M_BULK) ? decode_bulk(d, p) : decode_copy(d, p);
}

bool SG_ISA(sg_decode_async)(struct sg_dec *d, const struct sg_ptx_insn *p)
{
    return p->op == SG_OP_CP ? decode_cp(d, p) : decode_mbarrier(d, p);
}
