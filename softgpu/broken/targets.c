/* A launch on the broken device before and after its instructions: which specifications it may
 * meet, which of its instructions they can hit, and the list of its faults. */
#include "softgpu/broken/broken_internal.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

/* ---- a launch -------------------------------------------------------------------------------- */

static bool kernel_matches(const struct sg_spec *s, const struct sg_launch *l)
{
    return !s->kernel[0] || fnmatch(s->kernel, sg_kernel_info(l->kernel)->name, 0) == 0;
}

static bool may_meet(const struct sg_broken *b, const struct sg_spec *s, const struct sg_launch *l)
{
    return (s->kind & (SG_SPEC_OP | SG_SPEC_LINE)) && sg_in_ranges(&s->device, l->device) &&
           sg_in_ranges(&s->launch, l->grid_id) && kernel_matches(s, l) &&
           sg_spec_old_enough(b, s, l->grid_id);
}

static bool replayed(const struct sg_broken *b, const struct sg_launch *l)
{
    for (size_t i = 0; i < b->replay.n; i++) {
        const struct sg_injected *f = &b->replay.f[i];
        if (f->place == SG_PLACE_STEP && f->device == l->device && f->number == l->grid_id)
            return true;
    }
    return false;
}

void sg_inject_release(struct sg_broken *b)
{
    struct sg_now *now = &b->now;

    for (uint32_t i = 0; now->tables != NULL && i < now->image->nfuncs; i++)
        free(atomic_load(&now->tables[i]));
    free((void *)now->tables);
    now->tables = NULL;
    now->launch = NULL;
    if (now->cap > 4096) {
        free(now->faults);
        now->faults = NULL;
        now->cap = 0;
    }
}

void sg_inject_note(struct sg_broken *b, const struct sg_injected *f)
{
    struct sg_now *now = &b->now;

    pthread_mutex_lock(&now->lock);
    now->total++;
    if (now->nfaults == now->cap && now->cap < SG_MOST_FAULTS) {
        size_t cap = now->cap ? now->cap * 2 : 64;
        struct sg_injected *p = realloc(now->faults, cap * sizeof(*p));
        if (p != NULL) {
            now->faults = p;
            now->cap = cap;
        }
    }
    if (now->nfaults < now->cap)
        now->faults[now->nfaults++] = *f;
    pthread_mutex_unlock(&now->lock);
}

/* ---- instructions ---------------------------------------------------------------------------- */

static bool can_be_hit(const struct sg_spec *s, const struct sg_ptx_insn *i)
{
    static const uint16_t with_address[] = {SG_OP_LD, SG_OP_LDU, SG_OP_ST, SG_OP_ATOM, SG_OP_RED};

    if (s->kind == SG_SPEC_LINE)
        return i->op == SG_OP_LD || i->op == SG_OP_LDU;
    if ((s->unit != SG_UNIT_NONE && sg_unit_of(i) != s->unit) ||
        (s->op[0] && !sg_op_matches(s->op, i)))
        return false;
    if (!s->address)
        return i->op == SG_OP_ST || sg_result(i) != NULL;
    for (size_t k = 0; k < TB_ARRAY_LEN(with_address); k++)
        if (i->op == with_address[k])
            return sg_address(i) != NULL;
    return false;
}

static bool is_timer(const struct sg_ptx_opnd *o)
{
    static const uint16_t timers[] = {SG_SREG_CLOCK,          SG_SREG_CLOCK64,
                                      SG_SREG_CLOCK_HI,       SG_SREG_GLOBALTIMER,
                                      SG_SREG_GLOBALTIMER_LO, SG_SREG_GLOBALTIMER_HI};

    for (size_t i = 0; o->kind == SG_OPND_SREG && i < TB_ARRAY_LEN(timers); i++)
        if (o->sreg == timers[i])
            return true;
    return false;
}

/* Why a second execution of this instruction may do something else; NULL: it does the same. */
static const char *uncertain_of(const struct sg_ptx_insn *i)
{
    for (unsigned k = 0; k < i->nopnds; k++)
        if (is_timer(&i->opnds[k]))
            return "it reads a clock";
    if (i->op == SG_OP_CALL && i->nopnds > 1 && i->opnds[1].kind == SG_OPND_FUNC) {
        enum sg_builtin f = sg_builtin_find(i->opnds[1].func->name);
        if (f == SG_BUILTIN_MALLOC || f == SG_BUILTIN_FREE)
            return "it allocates memory";
    }
    return NULL;
}

void sg_inject_doubt(struct sg_now *now, const char *why)
{
    const char *none = NULL;

    atomic_compare_exchange_strong(&now->uncertain, &none, why);
}

static uint32_t *make_table(struct sg_broken *b, const struct sg_func *f)
{
    uint32_t *t = calloc(f->ptx->ninsns + 1u, sizeof(*t));

    for (uint32_t i = 0; t != NULL && i < f->ptx->ninsns; i++) {
        const char *why = uncertain_of(&f->ptx->insns[i]);

        if (why != NULL)
            sg_inject_doubt(&b->now, why);
        for (uint32_t m = b->now.live; m != 0; m &= m - 1) {
            unsigned k = (unsigned)__builtin_ctz(m);
            t[i] |= (uint32_t)can_be_hit(&b->specs.s[k], &f->ptx->insns[i]) << k;
        }
    }
    return t;
}

/* Specifications that may hit each instruction of @f; made when it is first entered. */
const uint32_t *sg_inject_table(struct sg_broken *b, const struct sg_func *f)
{
    uint32_t *t, *none = NULL;

    if (b->now.tables == NULL)
        return NULL;
    _Atomic(uint32_t *) *place = &b->now.tables[f - b->now.image->funcs];
    t = atomic_load_explicit(place, memory_order_acquire);
    if (t != NULL)
        return t;
    t = make_table(b, f);
    if (t == NULL) {
        b->now.lost = true;
        return NULL;
    }
    if (atomic_compare_exchange_strong(place, &none, t))
        return t;
    free(t);
    return none;
}

/* Has the kernel an instruction that can be hit? What it calls is not looked into. */
static bool has_target(struct sg_broken *b, const struct sg_func *f)
{
    const uint32_t *t = sg_inject_table(b, f);
    uint32_t all = 0;

    for (uint32_t i = 0; t != NULL && i < f->ptx->ninsns; i++)
        all |= t[i];
    return all != 0 || t == NULL || f->ncallees != 0 || f->indirect;
}

bool sg_inject_prepare(struct sg_broken *b, const struct sg_launch *l)
{
    struct sg_now *now = &b->now;

    now->launch = l;
    now->image = l->kernel->func->image;
    now->mode = SG_NOW_BROKEN;
    now->live = 0;
    now->nfaults = 0;
    now->total = now->diverged = 0;
    now->lost = false;
    atomic_store(&now->uncertain, NULL);
    for (unsigned i = 0; i < b->specs.n && !b->replaying; i++) {
        if (!may_meet(b, &b->specs.s[i], l))
            continue;
        now->live |= 1u << i;
        now->rate[i] = sg_spec_rate(b, &b->specs.s[i], l->grid_id);
        for (unsigned n = 0; n <= SG_WARP; n++)
            now->any[i][n] = -expm1(n * log1p(-now->rate[i]));
    }
    if (b->replaying ? !replayed(b, l) : now->live == 0 && !sg_cells_any(b, l->device))
        return false;
    now->tables = calloc(now->image->nfuncs, sizeof(*now->tables));
    if (now->tables == NULL)
        now->lost = true;
    if (b->replaying || sg_cells_any(b, l->device) || has_target(b, l->kernel->func))
        return true;
    sg_inject_release(b);
    return false;
}
