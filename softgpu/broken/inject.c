/*
 * The watcher of a broken device: which lanes of which instructions are hit, and what becomes of
 * their results, of what they store and of the addresses they use. A site is (device, launch,
 * block, warp, serial number of the instruction in the warp); what is drawn depends on it alone.
 */
#include "softgpu/broken/broken_internal.h"

#include <stdlib.h>

/* One specification, or faults of a log, that hit lanes of the instruction being executed. */
struct hit {
    const struct sg_spec *spec; /* NULL: of a log */
    const struct sg_injected *recs;
    size_t nrecs;
    unsigned index;
    uint32_t lanes;
    uint64_t before[SG_WARP]; /* what the result's register held */
};

struct reach { /* what a lane has accessed */
    uint64_t addr, n;
    uint8_t *bytes;
    uint64_t old[2]; /* what was there, up to 16 bytes */
};

/* Between enter() and exit() of one instruction: one thread executes both, so it is this thread's.
 * Nothing of it outlives the instruction. It lies on the heap: libcuda is loaded by dlopen(), and
 * what then may be thread-local is little. */
struct moment {
    struct hit hits[SG_BROKEN_MAX_SPECS];
    unsigned nhits;
    uint32_t lines; /* specs of cache lines that this load may meet */
    bool recording;
    uint32_t reached; /* lanes of reach[] */
    struct reach reach[SG_WARP];
    bool stored;    /* near a bad cell */
    uint8_t *moved; /* register of the address that was changed; NULL: none */
    unsigned moved_size;
    uint32_t moved_lanes;
    uint64_t address[SG_WARP]; /* what it was */
};
static _Thread_local struct moment *at; /* NULL: not yet, or no memory */
static pthread_key_t moment_key;        /* frees it with its thread */
static pthread_once_t moment_once = PTHREAD_ONCE_INIT;
static bool has_moment_key;

static void make_moment_key(void)
{
    has_moment_key = pthread_key_create(&moment_key, free) == 0;
}

static bool moment_new(void)
{
    struct moment *m = calloc(1, sizeof(*m));

    pthread_once(&moment_once, make_moment_key);
    if (m == NULL || !has_moment_key || pthread_setspecific(moment_key, m) != 0) {
        free(m);
        return false;
    }
    at = m;
    return true;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static uint64_t site_hash(const struct sg_broken *b, const struct sg_step *step, unsigned spec)
{
    const struct sg_launch *l = b->now.launch;
    uint64_t h = sg_mix(b->specs.s[spec].seed ^ sg_mix(spec + 1));

    h = sg_mix(h ^ l->device);
    h = sg_mix(h ^ l->grid_id);
    h = sg_mix(h ^ step->warp->block->linear);
    h = sg_mix(h ^ step->warp->index);
    return sg_mix(h ^ step->serial);
}

/* Each of @n independent trials with a chance; bit i: trial i succeeded. @any: of each number of
 * trials the chance that one of them does, so that mostly one draw is all. */
static uint32_t trials(double rate, const double *any, unsigned n, uint64_t rng)
{
    double u = sg_fraction(rng);
    uint32_t all = 0;
    unsigned k = 0;

    if (rate >= 1)
        return (uint32_t)sg_bit_mask(n);
    if (u >= any[n])
        return 0;
    while (k + 1 < n && u >= any[k + 1]) /* the first one */
        k++;
    all = 1u << k++;
    for (; k < n; k++)
        all |= (uint32_t)(sg_fraction(sg_draw(&rng)) < rate) << k;
    return all;
}

static uint32_t group_mask(const struct sg_spec *s, unsigned g)
{
    return (uint32_t)(sg_bit_mask(s->group) << (g * s->group));
}

/* Lanes of @mask that are hit. Groups of which a lane is there are hit or not as one. */
static uint32_t draw_lanes(const struct sg_now *now, const struct sg_spec *s, unsigned index,
                           uint32_t mask, uint64_t rng)
{
    unsigned n = 0, groups = SG_WARP / s->group;
    uint32_t lanes = 0, won;

    for (unsigned g = 0; g < groups; g++)
        n += (mask & group_mask(s, g)) != 0;
    won = trials(now->rate[index], now->any[index], n, rng);
    for (unsigned g = 0; g < groups && won != 0; g++)
        if (mask & group_mask(s, g)) {
            lanes |= won & 1 ? mask & group_mask(s, g) : 0;
            won >>= 1;
        }
    return lanes;
}

static uint64_t lane_rng(uint64_t site, unsigned lane)
{
    return sg_mix(site ^ sg_mix(lane + 77));
}

/* ---- registers ------------------------------------------------------------------------------- */

static uint64_t get_lane(const uint8_t *reg, unsigned size, unsigned lane)
{
    uint64_t v = 0;

    if (size == 0) {
        uint32_t mask;
        memcpy(&mask, reg, sizeof(mask));
        return mask >> lane & 1;
    }
    memcpy(&v, reg + (size_t)lane * size, size);
    return v;
}

static void set_lane(uint8_t *reg, unsigned size, unsigned lane, uint64_t v)
{
    uint32_t mask;

    if (size != 0) {
        memcpy(reg + (size_t)lane * size, &v, size);
        return;
    }
    memcpy(&mask, reg, sizeof(mask));
    mask = (mask & ~(1u << lane)) | (uint32_t)(v & 1) << lane;
    memcpy(reg, &mask, sizeof(mask));
}

static unsigned register_bits(const struct sg_step *step, const struct sg_ptx_opnd *o)
{
    enum sg_ptx_mod type = step->func->ptx->regs[o->reg].type;

    return type == SG_M_PRED ? 1 : sg_ptx_type_size(type) * 8;
}

/* Element @e of a result; NULL: it is no register. */
static const struct sg_ptx_opnd *element(const struct sg_ptx_opnd *o, unsigned e)
{
    if (o->kind == SG_OPND_VEC || o->kind == SG_OPND_PAIR)
        o = o->kind == SG_OPND_VEC && e >= o->n ? NULL : &o->sub[e];
    return o != NULL && o->kind == SG_OPND_REG ? o : NULL;
}

static unsigned elements(const struct sg_ptx_opnd *o)
{
    return o->kind == SG_OPND_VEC && o->n ? o->n : 1;
}

struct place { /* of one value: a register of a lane */
    uint8_t *reg;
    unsigned size, lane;
    struct sg_shape type;
};

static bool result_place(const struct sg_step *step, unsigned e, unsigned lane, struct place *p)
{
    const struct sg_ptx_opnd *o = sg_result(step->ptx);

    o = o ? element(o, e) : NULL;
    if (o == NULL)
        return false;
    *p = (struct place){.lane = lane};
    p->reg = sg_step_register(step, o, &p->size);
    p->type = sg_type_of_operand(step->ptx, 0, register_bits(step, o));
    return p->reg != NULL;
}

static uint64_t get_place(const struct place *p)
{
    return get_lane(p->reg, p->size, p->lane) & sg_bit_mask(p->type.width);
}

/* Bits above a narrow value follow its sign, or stay. */
static void set_place(const struct place *p, uint64_t v)
{
    uint64_t mask = sg_bit_mask(p->type.width), raw = get_lane(p->reg, p->size, p->lane);

    if (p->type.as == SG_AS_SIGNED)
        raw = v >> (p->type.width - 1) & 1 ? UINT64_MAX : 0;
    set_lane(p->reg, p->size, p->lane, (raw & ~mask) | (v & mask));
}

/* ---- notes ----------------------------------------------------------------------------------- */

static struct sg_injected injected(const struct sg_broken *b, const struct sg_step *step,
                                   enum sg_fault_what what, unsigned spec, unsigned lane)
{
    const struct sg_warp *w = step->warp;
    struct sg_injected f = {.place = SG_PLACE_STEP,
                            .what = (uint8_t)what,
                            .spec = (uint8_t)spec,
                            .lane = (uint8_t)lane,
                            .device = b->now.launch->device,
                            .number = b->now.launch->grid_id,
                            .block = w->block->linear,
                            .warp = w->index,
                            .sm = w->block->smid,
                            .serial = step->serial,
                            .line = step->ptx->line,
                            .func = step->func,
                            .ptx = step->ptx};

    for (int d = 0; d < 3; d++) {
        f.block_id[d] = w->block->id[d];
        f.thread[d] = w->tid[d][lane];
    }
    return f;
}

static void note(struct sg_broken *b, struct sg_injected *f, const struct sg_shape *t,
                 uint64_t before, uint64_t after)
{
    f->bits = (uint8_t)t->width;
    f->before = before;
    f->after = after;
    sg_inject_note(b, f);
}

/* What a log says became of a value; counts where the program has gone another way. */
static uint64_t as_logged(struct sg_broken *b, const struct sg_injected *rec, uint64_t value)
{
    if (value == rec->before)
        return rec->after;
    pthread_mutex_lock(&b->now.lock);
    b->now.diverged++;
    pthread_mutex_unlock(&b->now.lock);
    return value ^ rec->before ^ rec->after;
}

/* ---- before the instruction ------------------------------------------------------------------ */

static uint64_t immediate(const struct sg_ptx_opnd *o, struct sg_shape *t)
{
    uint64_t bits;

    *t = (struct sg_shape){.mod = SG_M_S64, .width = 64, .parts = 1, .as = SG_AS_SIGNED};
    if (o->kind == SG_OPND_FIMM) {
        t->mod = o->is_f32 ? SG_M_F32 : SG_M_F64;
        if (o->is_f32)
            return o->f32;
    }
    memcpy(&bits, &o->imm, sizeof(bits));
    return bits;
}

static bool operand_holds(const struct sg_step *step, const struct sg_when *when,
                          const struct sg_ptx_opnd *o, unsigned k, unsigned lane)
{
    struct sg_shape t;
    unsigned size;

    for (unsigned e = 0; o->kind == SG_OPND_VEC && e < o->n; e++)
        if (operand_holds(step, when, &o->sub[e], k, lane))
            return true;
    if (o->kind == SG_OPND_IMM || o->kind == SG_OPND_FIMM) {
        uint64_t v = immediate(o, &t);
        return sg_when_holds(when, &t, v);
    }
    if (o->kind != SG_OPND_REG || register_bits(step, o) == 1)
        return false;
    const uint8_t *reg = sg_step_register(step, o, &size);
    t = sg_type_of_operand(step->ptx, k, register_bits(step, o));
    return sg_when_holds(when, &t, get_lane(reg, size, lane));
}

static bool is_load(const struct sg_ptx_insn *i)
{
    return i->op == SG_OP_LD || i->op == SG_OP_LDU || i->op == SG_OP_LDMATRIX;
}

/* Lanes with a source operand for which the condition holds. */
static uint32_t lanes_when(const struct sg_step *step, const struct sg_when *when, uint32_t lanes)
{
    uint32_t all = 0;

    for (uint32_t m = lanes; m != 0; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        for (unsigned k = sg_result(step->ptx) ? 1 : 0; k < step->ptx->nopnds; k++)
            if (operand_holds(step, when, &step->ptx->opnds[k], k, lane))
                all |= 1u << lane;
    }
    return all;
}

/* The element of the result that a fault takes. */
static unsigned choose_element(const struct sg_step *step, uint64_t site, unsigned lane)
{
    const struct sg_ptx_opnd *o = sg_result(step->ptx);

    return o == NULL ? 0 : (unsigned)(sg_mix(lane_rng(site, lane)) % elements(o));
}

static void keep_before(const struct sg_step *step, struct hit *h, uint64_t site)
{
    struct place p;

    for (uint32_t m = h->lanes; m != 0; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        if (result_place(step, choose_element(step, site, lane), lane, &p))
            h->before[lane] = get_place(&p);
    }
}

static void move_address(struct sg_broken *b, const struct sg_step *step, unsigned lane,
                         const struct hit *h, const struct sg_injected *rec)
{
    const struct sg_ptx_opnd *o = sg_address(step->ptx);
    struct sg_shape t = {.parts = 1};
    struct sg_injected f = injected(b, step, SG_WHAT_ADDRESS, h->index, lane);
    uint64_t old, new, rng;
    unsigned size;
    uint8_t *reg = o ? sg_step_register(step, o, &size) : NULL;

    if (reg == NULL || size == 0 || at->moved_lanes >> lane & 1)
        return;
    t.width = register_bits(step, o);
    old = get_lane(reg, size, lane);
    if (rec != NULL) {
        new = as_logged(b, rec, old & sg_bit_mask(t.width));
    } else {
        rng = lane_rng(site_hash(b, step, h->index), lane);
        new = sg_damage(h->spec, &t, old & sg_bit_mask(t.width), 0, &rng);
    }
    if (new == (old & sg_bit_mask(t.width)))
        return;
    at->moved = reg;
    at->moved_size = size;
    at->moved_lanes |= 1u << lane;
    at->address[lane] = old;
    set_lane(reg, size, lane, new);
    note(b, &f, &t, old & sg_bit_mask(t.width), new);
}

static void enter_spec(struct sg_broken *b, const struct sg_step *step, unsigned index)
{
    const struct sg_spec *s = &b->specs.s[index];
    uint32_t mask = step->mask & s->lanes;
    struct hit *h = &at->hits[at->nhits];

    if (s->kind == SG_SPEC_LINE) {
        at->lines |= 1u << index;
        at->recording = true;
        return;
    }
    if (mask == 0 || !sg_in_ranges(&s->sm, step->warp->block->smid) ||
        !sg_in_ranges(&s->warp, step->warp->index))
        return;
    uint64_t site = site_hash(b, step, index);
    mask = draw_lanes(&b->now, s, index, mask, site);
    if (mask != 0 && s->when.what != SG_WHEN_ALWAYS && !is_load(step->ptx))
        mask = lanes_when(step, &s->when, mask);
    if (mask == 0)
        return;
    h->spec = s;
    h->index = index;
    h->lanes = mask;
    if (s->address) {
        for (uint32_t m = mask; m != 0; m &= m - 1)
            move_address(b, step, (unsigned)__builtin_ctz(m), h, NULL);
        return;
    }
    if (s->model == SG_MODEL_PREVIOUS)
        keep_before(step, h, site);
    at->recording |= step->ptx->op == SG_OP_ST;
    at->nhits++;
}

static void enter_logged(struct sg_broken *b, const struct sg_step *step)
{
    struct sg_injected key = injected(b, step, SG_WHAT_RESULT, 0, 0);
    struct hit *h = &at->hits[0];

    h->recs = sg_replay_find(&b->replay, &key, &h->nrecs);
    h->spec = NULL;
    if (h->recs == NULL)
        return;
    at->nhits = 1;
    at->recording = true;
    for (size_t i = 0; i < h->nrecs; i++)
        if (h->recs[i].what == SG_WHAT_ADDRESS) {
            h->index = h->recs[i].spec;
            move_address(b, step, h->recs[i].lane, h, &h->recs[i]);
        }
}

static void on_enter(void *arg, const struct sg_step *step)
{
    struct sg_broken *b = arg;
    const uint32_t *table = sg_inject_table(b, step->func);

    if (at == NULL && !moment_new()) {
        b->now.lost = true;
        return;
    }
    at->nhits = 0;
    at->lines = 0;
    at->recording = at->stored = false;
    at->reached = 0;
    at->moved = NULL;
    at->moved_lanes = 0;
    if (b->now.mode == SG_NOW_CLEAN)
        return;
    if (b->replaying) {
        enter_logged(b, step);
        return;
    }
    if (table == NULL)
        return;
    for (uint32_t m = table[step->ptx - step->func->ptx->insns]; m != 0; m &= m - 1)
        enter_spec(b, step, (unsigned)__builtin_ctz(m));
}

/* ---- behind the instruction ------------------------------------------------------------------ */

static void hit_result(struct sg_broken *b, const struct sg_step *step, const struct hit *h,
                       unsigned lane)
{
    uint64_t site = site_hash(b, step, h->index), rng = lane_rng(site, lane), old, new;
    struct sg_injected f = injected(b, step, SG_WHAT_RESULT, h->index, lane);
    struct place p;

    f.elem = (uint8_t)choose_element(step, site, lane);
    if (!result_place(step, f.elem, lane, &p))
        return;
    old = get_place(&p);
    if (is_load(step->ptx) && h->spec->when.what != SG_WHEN_ALWAYS &&
        !sg_when_holds(&h->spec->when, &p.type, old))
        return;
    new = sg_damage(h->spec, &p.type, old, h->before[lane], &rng);
    if (new == old)
        return;
    set_place(&p, new);
    note(b, &f, &p.type, old, new);
}

/* Element @e of what the lane has stored. */
static uint8_t *stored(const struct sg_step *step, unsigned lane, unsigned e, struct sg_shape *t,
                       uint64_t *value, uint64_t *before)
{
    const struct reach *r = &at->reach[lane];
    unsigned bytes;

    *t = sg_type_of_operand(step->ptx, 1, 64);
    bytes = t->width / 8;
    if (!(at->reached >> lane & 1) || bytes == 0 || (e + 1) * (uint64_t)bytes > r->n)
        return NULL;
    *value = *before = 0;
    memcpy(value, r->bytes + (size_t)e * bytes, bytes);
    if ((e + 1) * (size_t)bytes <= sizeof(r->old))
        memcpy(before, (const uint8_t *)r->old + (size_t)e * bytes, bytes);
    return r->bytes + (size_t)e * bytes;
}

static void note_stored(struct sg_broken *b, struct sg_injected *f, const struct sg_shape *t,
                        uint64_t before, uint64_t after)
{
    f->at = at->reach[f->lane].addr + f->elem * (uint64_t)(t->width / 8);
    note(b, f, t, before, after);
}

static void hit_store(struct sg_broken *b, const struct sg_step *step, const struct hit *h,
                      unsigned lane)
{
    uint64_t site = site_hash(b, step, h->index), rng = lane_rng(site, lane), old, new, before;
    struct sg_injected f = injected(b, step, SG_WHAT_STORE, h->index, lane);
    struct sg_shape t;
    uint8_t *p;

    f.elem = (uint8_t)(sg_mix(rng) % elements(&step->ptx->opnds[1]));
    p = stored(step, lane, f.elem, &t, &old, &before);
    if (p == NULL)
        return;
    new = sg_damage(h->spec, &t, old, before, &rng);
    if (new == old)
        return;
    memcpy(p, &new, t.width / 8);
    note_stored(b, &f, &t, old, new);
}

static void replay_one(struct sg_broken *b, const struct sg_step *step,
                       const struct sg_injected *rec)
{
    struct sg_injected f = injected(b, step, (enum sg_fault_what)rec->what, rec->spec, rec->lane);
    uint64_t old, new, before;
    struct sg_shape t;
    struct place p;

    f.elem = rec->elem;
    if (!(step->mask >> rec->lane & 1))
        return;
    if (rec->what == SG_WHAT_STORE) {
        uint8_t *bytes = stored(step, rec->lane, rec->elem, &t, &old, &before);
        if (bytes == NULL)
            return;
        new = as_logged(b, rec, old);
        memcpy(bytes, &new, t.width / 8);
        note_stored(b, &f, &t, old, new);
    } else if (result_place(step, rec->elem, rec->lane, &p)) {
        old = get_place(&p);
        new = as_logged(b, rec, old);
        set_place(&p, new);
        note(b, &f, &p.type, old, new);
    }
}

/* Bits of the bytes @from .. @from + @n - 1 of a line that the specification may touch. */
static uint64_t line_bits(const struct sg_spec *s, uint64_t from, unsigned n)
{
    uint64_t all = 0;

    for (unsigned k = 0; k < n * 8; k++)
        all |= (uint64_t)sg_in_ranges(&s->bit, from * 8 + k) << k;
    return all;
}

/* What a lane has loaded lay in the bad line, or in part. */
static void hit_line(struct sg_broken *b, const struct sg_step *step, unsigned index, unsigned lane)
{
    const struct sg_spec *s = &b->specs.s[index];
    const struct sg_ptx_opnd *o = sg_result(step->ptx);
    const struct reach *r = &at->reach[lane];
    uint64_t off = r->addr - b->opt.mem->base, rng = lane_rng(site_hash(b, step, index), lane);

    if (o == NULL || off / SG_LINE_BYTES % SG_LINES != s->line ||
        sg_fraction(rng) >= b->now.rate[index])
        return;
    for (unsigned e = 0; e < elements(o); e++) {
        struct sg_injected f = injected(b, step, SG_WHAT_LINE, index, lane);
        struct place p;
        if (!result_place(step, e, lane, &p))
            continue;
        unsigned bytes = sg_type_of_operand(step->ptx, 0, 64).width / 8;
        uint64_t bits = line_bits(s, off % SG_LINE_BYTES + (uint64_t)e * bytes, bytes);
        uint64_t old = get_place(&p), new = s->model == SG_MODEL_STUCK0   ? old & ~bits
                                            : s->model == SG_MODEL_STUCK1 ? old | bits
                                                                          : old ^ bits;
        if (new == old)
            continue;
        f.elem = (uint8_t)e;
        set_place(&p, new);
        note(b, &f, &p.type, old, new);
    }
}

/* Two registers may share their place, whole or in part, when one is not needed any more. */
static bool overlap(const uint8_t *a, unsigned a_size, const uint8_t *b, unsigned b_size)
{
    return a < b + (size_t)b_size * SG_WARP && b < a + (size_t)a_size * SG_WARP;
}

static void restore_address(const struct sg_step *step)
{
    const struct sg_ptx_opnd *o = sg_result(step->ptx);

    for (unsigned e = 0; o != NULL && e < elements(o); e++) {
        struct place p;
        if (result_place(step, e, 0, &p) && overlap(p.reg, p.size, at->moved, at->moved_size))
            return;
    }
    for (uint32_t m = at->moved_lanes; m != 0; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        set_lane(at->moved, at->moved_size, lane, at->address[lane]);
    }
}

static void settle_stored(struct sg_broken *b, const struct sg_step *step)
{
    struct sg_injected f = injected(b, step, SG_WHAT_CELL, 0, 0);

    pthread_mutex_lock(&b->lock);
    sg_cells_settle(b, &f, sg_inject_note);
    pthread_mutex_unlock(&b->lock);
}

static void leave_hit(struct sg_broken *b, const struct sg_step *step, const struct hit *h)
{
    if (h->spec == NULL) {
        for (size_t i = 0; i < h->nrecs; i++)
            if (h->recs[i].what == SG_WHAT_RESULT || h->recs[i].what == SG_WHAT_STORE ||
                h->recs[i].what == SG_WHAT_LINE)
                replay_one(b, step, &h->recs[i]);
            else if (h->recs[i].what == SG_WHAT_CELL)
                at->stored = true;
        return;
    }
    for (uint32_t m = h->lanes & step->mask; m != 0; m &= m - 1)
        if (step->ptx->op == SG_OP_ST)
            hit_store(b, step, h, (unsigned)__builtin_ctz(m));
        else
            hit_result(b, step, h, (unsigned)__builtin_ctz(m));
}

static void on_exit_step(void *arg, const struct sg_step *step)
{
    struct sg_broken *b = arg;

    if (b->now.mode == SG_NOW_CLEAN || at == NULL)
        return;
    if (at->moved != NULL)
        restore_address(step);
    for (unsigned i = 0; i < at->nhits; i++)
        leave_hit(b, step, &at->hits[i]);
    for (uint32_t s = at->lines; s != 0; s &= s - 1)
        for (uint32_t m = at->reached & step->mask; m != 0; m &= m - 1)
            hit_line(b, step, (unsigned)__builtin_ctz(s), (unsigned)__builtin_ctz(m));
    if (at->stored)
        settle_stored(b, step);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void record(const struct sg_access *a)
{
    struct reach *r = &at->reach[a->lane];

    *r = (struct reach){.addr = a->addr, .n = a->n, .bytes = a->bytes};
    memcpy(r->old, a->bytes, a->n < sizeof(r->old) ? a->n : sizeof(r->old));
    at->reached |= 1u << a->lane;
}

static bool near_cell(const struct sg_broken *b, const struct sg_access *a)
{
    for (unsigned i = 0; i < b->specs.n; i++) {
        uint64_t addr = b->cells[i].addr;
        if (b->specs.s[i].kind == SG_SPEC_CELL && addr >= a->addr && addr - a->addr < a->n)
            return true;
    }
    return false;
}

static bool on_access(void *arg, const struct sg_step *step, const struct sg_access *a)
{
    struct sg_broken *b = arg;
    struct sg_now *now = &b->now;
    bool global = a->space == SG_SPACE_GLOBAL;

    (void)step;
    if (now->mode == SG_NOW_BROKEN && at != NULL) {
        /* of a load the memory of devices: lines of the cache hold no other */
        if (at->recording &&
            (global ? at->lines == 0 || a->addr - b->opt.mem->base < b->opt.mem->span
                    : at->lines == 0))
            record(a);
        at->stored |= global && a->write && !b->replaying && near_cell(b, a);
    }
    if (!global || now->undo == NULL)
        return true;
    if ((a->write || now->launch->kernel->info.communicates) && b->opt.host_sees != NULL &&
        b->opt.host_sees(b->opt.arg, a->addr))
        sg_inject_doubt(now, "it uses memory that the host sees while it runs");
    if (a->write && !sg_undo_keep(now->undo, a->addr, a->bytes, a->n))
        sg_inject_doubt(now, "there is no memory for a second execution");
    return true;
}

static void on_unseen(void *arg)
{
    sg_inject_doubt(&((struct sg_broken *)arg)->now,
                    "lanes at different places wrote memory at once");
}

/* Of the execution without faults: what it writes. */
const struct sg_watcher sg_inject_clean_watcher = {.access = on_access, .unseen = on_unseen};

const struct sg_watcher sg_inject_watcher = {
    .enter = on_enter, .exit = on_exit_step, .access = on_access, .unseen = on_unseen};
