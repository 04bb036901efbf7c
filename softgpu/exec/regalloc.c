/*
 * Gives the registers of a function places in the frame: those that are never needed at the same
 * time share one, so that a warp's registers fit the cache. Liveness is that of a single thread:
 * each lane has its own column of a register, so divergence does not matter.
 */
#include "softgpu/exec/exec_internal.h"
#include "softgpu/exec/operands.h"

#include <stdlib.h>

struct interval {
    uint32_t reg, start, end;
};

/* Basic blocks: instructions start[b] .. start[b + 1] - 1. */
struct flow {
    const struct sg_ptx_func *f;
    uint32_t nblocks, words;
    uint32_t *start;
    uint32_t *block_of;             /* each instruction's, ninsns + 1 entries */
    uint64_t *use, *def, *in, *out; /* bit sets, @words a block */
    uint32_t *first, *last;         /* where a register is needed; first = UINT32_MAX: nowhere */
    uint32_t *reads;
    /* of the visit going on */
    uint32_t block, insn;
    bool guarded;
};

static bool bit(const uint64_t *set, uint32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void set_bit(uint64_t *set, uint32_t i)
{
    set[i / 64] |= UINT64_C(1) << (i % 64);
}

static void mark_target(void *arg, uint32_t target)
{
    uint32_t *leader = arg;
    leader[target] = 1;
}

static bool find_blocks(struct flow *fl)
{
    const struct sg_ptx_func *f = fl->f;
    uint32_t n = f->ninsns, k = 0;

    fl->block_of = calloc((size_t)n + 2, sizeof(uint32_t));
    if (fl->block_of == NULL)
        return false;
    fl->block_of[0] = 1;
    for (uint32_t i = 0; i < n; i++) {
        const struct sg_ptx_insn *in = &f->insns[i];
        sg_operands_targets(in, mark_target, fl->block_of);
        if (in->op == SG_OP_BRA || !sg_operands_falls_through(in))
            fl->block_of[i + 1] = 1;
    }
    for (uint32_t i = 0; i < n; i++)
        k += fl->block_of[i];
    fl->start = calloc((size_t)k + 2, sizeof(uint32_t));
    if (fl->start == NULL)
        return false;
    fl->nblocks = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (fl->block_of[i])
            fl->start[fl->nblocks++] = i;
        fl->block_of[i] = fl->nblocks - 1;
    }
    fl->start[fl->nblocks] = n;
    fl->block_of[n] = fl->nblocks; /* behind the end: no block */
    return true;
}

static void note(struct flow *fl, uint32_t reg, uint32_t at)
{
    if (fl->first[reg] == UINT32_MAX || fl->first[reg] > at)
        fl->first[reg] = at;
    if (fl->last[reg] < at)
        fl->last[reg] = at;
}

static void scan_operand(void *arg, uint32_t reg, bool written)
{
    struct flow *fl = arg;
    uint64_t *use = fl->use + (size_t)fl->block * fl->words;
    uint64_t *def = fl->def + (size_t)fl->block * fl->words;

    note(fl, reg, fl->insn);
    if (!written)
        fl->reads[reg]++;
    /* a guarded write keeps the old value where the guard is false */
    if ((!written || fl->guarded) && !bit(def, reg))
        set_bit(use, reg);
    if (written && !fl->guarded)
        set_bit(def, reg);
}

static void scan(struct flow *fl)
{
    for (fl->block = 0; fl->block < fl->nblocks; fl->block++)
        for (uint32_t i = fl->start[fl->block]; i < fl->start[fl->block + 1]; i++) {
            fl->insn = i;
            fl->guarded = fl->f->insns[i].guarded;
            sg_operands_visit(&fl->f->insns[i], scan_operand, fl);
        }
}

static void join_target(void *arg, uint32_t target)
{
    struct flow *fl = arg;
    uint32_t t = fl->block_of[target];

    if (t >= fl->nblocks)
        return;
    uint64_t *out = fl->out + (size_t)fl->block * fl->words;
    const uint64_t *in = fl->in + (size_t)t * fl->words;
    for (uint32_t k = 0; k < fl->words; k++)
        out[k] |= in[k];
}

/* One pass backwards over all blocks; true if something changed. */
static bool spread(struct flow *fl)
{
    bool changed = false;

    for (uint32_t b = fl->nblocks; b-- > 0;) {
        const struct sg_ptx_insn *last = &fl->f->insns[fl->start[b + 1] - 1];
        size_t at = (size_t)b * fl->words;
        fl->block = b;
        sg_operands_targets(last, join_target, fl);
        if (sg_operands_falls_through(last))
            join_target(fl, fl->start[b + 1]);
        for (uint32_t k = 0; k < fl->words; k++) {
            uint64_t v = fl->use[at + k] | (fl->out[at + k] & ~fl->def[at + k]);
            changed |= v != fl->in[at + k];
            fl->in[at + k] = v;
        }
    }
    return changed;
}

static void extend(struct flow *fl)
{
    for (uint32_t b = 0; b < fl->nblocks; b++)
        for (uint32_t k = 0; k < fl->words; k++) {
            size_t at = (size_t)b * fl->words + k;
            for (uint64_t v = fl->in[at]; v != 0; v &= v - 1)
                note(fl, k * 64 + (uint32_t)__builtin_ctzll(v), fl->start[b]);
            for (uint64_t v = fl->out[at]; v != 0; v &= v - 1)
                note(fl, k * 64 + (uint32_t)__builtin_ctzll(v), fl->start[b + 1] - 1);
        }
}

static int by_start(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->reg < y->reg ? -1 : x->reg > y->reg;
}

/* Classes of registers: predicates, up to 32 bits, 64 bits, 128 bits and vectors. */
static const uint32_t class_bytes[] = {4, 128, 256, 512};
#define CLASSES 4

static unsigned class_of(const struct sg_ptx_reg *r)
{
    unsigned size = sg_ptx_type_size(r->type) * (r->vec ? r->vec : 1);

    if (r->type == SG_M_PRED)
        return 0;
    if (r->vec > 1)
        return 3;
    return size <= 4 ? 1 : size <= 8 ? 2 : 3;
}

struct pool {
    uint32_t used;         /* places so far */
    uint32_t *free, nfree; /* places free now */
    uint32_t *busy_until, *busy_place, nbusy;
};

static void expire(struct pool *p, uint32_t now)
{
    for (uint32_t i = 0; i < p->nbusy;) {
        if (p->busy_until[i] < now) {
            p->free[p->nfree++] = p->busy_place[i];
            p->nbusy--;
            p->busy_until[i] = p->busy_until[p->nbusy];
            p->busy_place[i] = p->busy_place[p->nbusy];
        } else {
            i++;
        }
    }
}

static uint32_t take(struct pool *p, uint32_t until)
{
    uint32_t place = p->nfree ? p->free[--p->nfree] : p->used++;

    p->busy_until[p->nbusy] = until;
    p->busy_place[p->nbusy++] = place;
    return place;
}

static bool pools_init(struct pool *pools, uint32_t n)
{
    for (unsigned c = 0; c < CLASSES; c++) {
        pools[c].free = calloc((size_t)n * 3 + 1, sizeof(uint32_t));
        if (pools[c].free == NULL)
            return false;
        pools[c].busy_until = pools[c].free + n;
        pools[c].busy_place = pools[c].busy_until + n;
    }
    return true;
}

/* Places as byte offsets; wider classes first, so that all are aligned. */
static uint32_t lay_out(const struct flow *fl, const struct pool *pools, uint32_t base,
                        int32_t *slot)
{
    uint32_t at[CLASSES];

    for (unsigned c = CLASSES; c-- > 1;) {
        at[c] = base;
        base += pools[c].used * class_bytes[c];
    }
    at[0] = base;
    base += (pools[0].used * 4 + 63) & ~63u;
    for (uint32_t r = 0; r < fl->f->nregs; r++)
        if (fl->first[r] != UINT32_MAX) {
            unsigned c = class_of(&fl->f->regs[r]);
            slot[r] = (int32_t)(at[c] + (uint32_t)slot[r] * class_bytes[c]);
        }
    return base;
}

static bool assign(struct flow *fl, uint32_t base, int32_t *slot, uint32_t *frame_bytes,
                   uint32_t *units)
{
    uint32_t n = 0, nregs = fl->f->nregs;
    struct pool pools[CLASSES] = {{0}};
    struct interval *v = calloc((size_t)nregs + 1, sizeof(*v));
    bool ok = v != NULL && pools_init(pools, nregs);

    if (!ok)
        goto out;
    for (uint32_t r = 0; r < nregs; r++)
        if (fl->first[r] != UINT32_MAX)
            v[n++] = (struct interval){r, fl->first[r], fl->last[r]};
    qsort(v, n, sizeof(*v), by_start);
    for (uint32_t i = 0; i < n; i++) {
        struct pool *p = &pools[class_of(&fl->f->regs[v[i].reg])];
        expire(p, v[i].start);
        slot[v[i].reg] = (int32_t)take(p, v[i].end);
    }
    *frame_bytes = lay_out(fl, pools, base, slot);
    *units = pools[1].used + 2 * pools[2].used + 4 * pools[3].used;
out:
    free(v);
    for (unsigned c = 0; c < CLASSES; c++)
        free(pools[c].free);
    return ok;
}

/* Registers that may be read before they are written hold zeros: encoded offset * 4 + kind. */
static bool list_live_in(const struct flow *fl, const int32_t *slot, uint32_t **out, uint32_t *n)
{
    uint32_t *list = calloc((size_t)fl->f->nregs * 2 + 1, sizeof(*list));
    uint32_t k = 0;

    if (list == NULL)
        return false;
    for (uint32_t r = 0; fl->nblocks != 0 && r < fl->f->nregs; r++)
        if (bit(fl->in, r)) {
            unsigned c = class_of(&fl->f->regs[r]);
            list[k++] = (uint32_t)slot[r] << 2 | (c == 3 ? 2 : c);
            if (c == 3)
                list[k++] = ((uint32_t)slot[r] + 256) << 2 | 2;
        }
    *out = list;
    *n = k;
    return true;
}

static bool flow_alloc(struct flow *fl, const struct sg_ptx_func *f, uint32_t *reads)
{
    fl->f = f;
    fl->words = (f->nregs + 63) / 64;
    fl->reads = reads;
    if (!find_blocks(fl))
        return false;
    size_t n = (size_t)fl->nblocks * fl->words;
    fl->use = calloc(n * 4 + 1, sizeof(uint64_t));
    fl->first = malloc(((size_t)f->nregs * 2 + 1) * sizeof(uint32_t));
    if (fl->use == NULL || fl->first == NULL)
        return false;
    fl->def = fl->use + n;
    fl->in = fl->def + n;
    fl->out = fl->in + n;
    fl->last = fl->first + f->nregs;
    memset(fl->first, 0xff, f->nregs * sizeof(uint32_t));
    memset(fl->last, 0, f->nregs * sizeof(uint32_t));
    return true;
}

enum tb_status sg_regalloc(const struct sg_ptx_func *f, uint32_t first_free, int32_t *slot,
                           uint32_t *frame_bytes, uint32_t *reads, uint32_t **live_in,
                           uint32_t *nlive_in, uint32_t *units, struct tb_error *err)
{
    struct flow fl = {0};
    bool ok = flow_alloc(&fl, f, reads);

    if (ok) {
        scan(&fl);
        while (spread(&fl))
            ;
        extend(&fl);
        ok = assign(&fl, first_free, slot, frame_bytes, units) &&
             list_live_in(&fl, slot, live_in, nlive_in);
    }
    free(fl.use);
    free(fl.first);
    free(fl.start);
    free(fl.block_of);
    if (!ok)
        return tb_fail(err, TB_ERR_NOMEM, "cannot decode '%s': no memory", f->name);
    return TB_OK;
}
