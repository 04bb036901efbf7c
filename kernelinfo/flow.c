/*
 * The analysis of one kernel: where may the value of each register come from?
 *
 * Order of instructions, branches and guards are not looked at: a register has what any instruction
 * may give it. All functions that the kernel may reach are taken together, a function's parameters
 * having what any call gives them. Memory of a thread (local variables, parameters of functions) is
 * followed by cells of 8 bytes where offsets are constant, else as a whole; shared memory is one
 * cell. What is loaded from global memory is just that: loaded. Rounds over the instructions go on
 * until nothing changes; a last one writes down what each access does. All steps only add, so this
 * ends.
 *
 * Taken for granted, as compilers do: a pointer is not made by multiplying, nor from numbers that
 * were compared; address arithmetic does not lead from one variable to another.
 */
#include "kernelinfo/kernelinfo_internal.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ROUNDS 1000u /* compilers' code needs less than ten */

bool ki_flow_init(struct ki_flow *k, struct ki_unit *u, struct ki_limits *limits)
{
    *k = (struct ki_flow){.u = u, .limits = limits};
    k->frames = calloc((size_t)u->nfuncs + 1, sizeof(*k->frames));
    k->objects = calloc(u->nnumbers, sizeof(*k->objects));
    k->reached = calloc((size_t)u->nfuncs + 1, sizeof(*k->reached));
    k->used = calloc(u->nnumbers, 1);
    return ki_sets_init(&k->sets) && k->frames && k->objects && k->reached && k->used;
}

bool ki_cancelled(const struct ki_limits *limits)
{
    return limits->cancel && __atomic_load_n(limits->cancel, __ATOMIC_RELAXED);
}

static void forget_objects(struct ki_flow *k, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        free(k->objects[i].cells);
        k->objects[i] = (struct ki_object){0};
    }
}

/* What the last kernel left: only what it reached. */
static void forget(struct ki_flow *k)
{
    for (uint32_t i = 0; i < k->nreached; i++) {
        const struct ki_func *fn = &k->u->funcs[k->reached[i]];

        free(k->frames[k->reached[i]].regs);
        k->frames[k->reached[i]] = (struct ki_frame){0};
        forget_objects(k, fn->first_var, fn->f->nvars + fn->f->nparams + fn->f->nrets);
    }
    forget_objects(k, 0, KI_FIRST_VAR + k->u->m->nvars);
    memset(k->used, 0, k->u->nnumbers);
    if (k->valued_cap)
        memset(k->valued, 0, k->valued_cap);
    ki_sets_clear(&k->sets);
    k->nreached = k->nwords = k->flags = 0;
    k->version = 0;
    k->report = k->failed = k->gave_up = k->escapes = false;
}

void ki_flow_release(struct ki_flow *k)
{
    if (k->frames && k->objects && k->reached && k->used && k->sets.memo)
        forget(k);
    free(k->frames);
    free(k->objects);
    free(k->reached);
    free(k->used);
    free(k->valued);
    free(k->words);
    ki_sets_release(&k->sets);
    *k = (struct ki_flow){0};
}

/* ---------------------------------------------------------------- values */

struct ki_val ki_join(struct ki_flow *k, struct ki_val a, struct ki_val b)
{
    struct ki_val v = {.set = ki_union(&k->sets, a.set, b.set), .dt = ki_dt_merge(a.dt, b.dt)};

    if (!a.displaced || !b.displaced) {
        v.displaced = a.displaced ? a.displaced : b.displaced;
        v.off = a.displaced ? a.off : b.off;
    } else if (a.displaced == 1 && b.displaced == 1 && a.off == b.off) {
        v.displaced = 1;
        v.off = a.off;
    } else {
        v.displaced = 2;
    }
    return v;
}

bool ki_merge(struct ki_flow *k, struct ki_val *to, struct ki_val v)
{
    struct ki_val now = ki_join(k, *to, v);

    if (now.set == to->set && now.dt == to->dt && now.displaced == to->displaced)
        return false;
    *to = now;
    return true;
}

struct ki_val ki_mapped(struct ki_flow *k, enum ki_map map, struct ki_val v)
{
    return (struct ki_val){.set = ki_map(&k->sets, map, v.set), .displaced = 2, .dt = v.dt};
}

struct ki_val ki_from(struct ki_flow *k, uint32_t atom)
{
    return (struct ki_val){.set = ki_one(&k->sets, atom), .displaced = 2, .dt = KI_DT_MIXED};
}

static bool value_marked(struct ki_flow *k, uint32_t set)
{
    if (set >= k->valued_cap) {
        uint32_t cap = (set + 1) * 2;
        uint8_t *more = realloc(k->valued, cap);

        if (!more) {
            k->failed = true;
            return true;
        }
        memset(more + k->valued_cap, 0, cap - k->valued_cap);
        k->valued = more;
        k->valued_cap = cap;
    }
    return k->valued[set]++;
}

void ki_value_used(struct ki_flow *k, uint32_t set)
{
    const struct ki_set *s = &k->sets.set[set];

    if (!k->report || !set || value_marked(k, set))
        return;
    k->valued[set] = 1;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t atom = k->sets.atoms[s->at + i];

        if (KI_KIND(atom) == KI_WORD || KI_KIND(atom) == KI_PIECE)
            k->words[KI_INDEX(atom)].flags |= TB_WORD_VALUE;
    }
}

uint32_t ki_word(struct ki_flow *k, uint32_t offset, uint32_t bytes)
{
    for (uint32_t i = k->nwords; i-- > 0;)
        if (k->words[i].offset == offset && k->words[i].bytes == bytes)
            return i;
    if (k->nwords == TB_KI_MOST_WORDS - 1) {
        k->gave_up = true;
        return 0;
    }
    if (k->nwords == k->words_cap) {
        uint32_t cap = k->words_cap ? 2 * k->words_cap : 32;
        struct ki_word *words = realloc(k->words, cap * sizeof(*words));

        if (!words) {
            k->failed = true;
            return 0;
        }
        k->words = words;
        k->words_cap = cap;
    }
    if (bytes == 4)
        k->sets.pieces[k->nwords / 64] |= UINT64_C(1) << (k->nwords % 64);
    k->words[k->nwords] = (struct ki_word){.offset = offset, .bytes = (uint8_t)bytes};
    return k->nwords++;
}

bool ki_is_entry_param(const struct ki_at *at, const struct sg_ptx_var *v)
{
    return at->func == at->k->entry && at->f->nparams && v >= at->f->params &&
           v < at->f->params + at->f->nparams;
}

/* ---------------------------------------------------------------- operands */

static struct ki_val address_of(const struct ki_at *at, const struct sg_ptx_var *v, int64_t off)
{
    uint32_t number = ki_unit_var(at->k->u, at->func, v);
    enum ki_kind kind = KI_OBJECT;
    struct ki_val a;

    if (v->space == SG_SPACE_SHARED)
        number = KI_OBJECT_SHARED;
    else if (v->space == SG_SPACE_GLOBAL || v->space == SG_SPACE_CONST)
        kind = KI_GLOBAL;
    else if (ki_is_entry_param(at, v))
        kind = KI_PARAM;
    a = ki_from(at->k, KI_ATOM(kind, number));
    a.displaced = 1;
    a.off = off;
    return a;
}

/* Of constants only those are kept that are no size, count or mask, but may be an address. */
static struct ki_val constant(const struct ki_at *at, int64_t imm)
{
    struct ki_val v = {.displaced = 2};

    if (imm > UINT32_MAX && imm < INT64_C(1) << 57)
        v.set = ki_one(&at->k->sets, KI_ATOM(KI_CONST, 0));
    return v;
}

struct ki_val ki_get(const struct ki_at *at, const struct sg_ptx_opnd *o)
{
    struct ki_val v = {0};

    switch (o->kind) {
    case SG_OPND_REG:
        return at->regs[o->reg];
    case SG_OPND_IMM:
        return constant(at, o->imm);
    case SG_OPND_FIMM:
        return ki_number(o->is_f32 ? TB_DT_F32 : TB_DT_F64);
    case SG_OPND_SREG: /* where the barrier of a whole grid lies: memory of the driver's own */
        return o->sreg == SG_SREG_ENVREG ? ki_from(at->k, KI_ATOM(KI_HEAP, 0)) : ki_number(0);
    case SG_OPND_VAR:
        return address_of(at, o->var, o->imm);
    case SG_OPND_ADDR:
        return ki_address(at, o);
    case SG_OPND_VEC:
    case SG_OPND_PAIR:
        for (uint32_t i = 0; i < o->n; i++)
            v = ki_join(at->k, v, ki_get(at, &o->sub[i]));
        return v;
    default:
        return ki_number(0);
    }
}

struct ki_val ki_address(const struct ki_at *at, const struct sg_ptx_opnd *o)
{
    struct ki_val v;

    if (o->kind != SG_OPND_ADDR)
        return ki_get(at, o);
    v = ki_get(at, &o->sub[0]);
    v.off += v.displaced == 1 ? o->imm : 0;
    return v;
}

void ki_put(const struct ki_at *at, const struct sg_ptx_opnd *o, struct ki_val v)
{
    if (o->kind == SG_OPND_REG && at->f->regs[o->reg].type != SG_M_PRED)
        at->k->changed |= ki_merge(at->k, &at->regs[o->reg], v);
    for (uint32_t i = 0; (o->kind == SG_OPND_VEC || o->kind == SG_OPND_PAIR) && i < o->n; i++)
        ki_put(at, &o->sub[i], v);
}

/* ---------------------------------------------------------------- rounds */

bool ki_reach(struct ki_flow *k, uint32_t func)
{
    struct ki_func *fn = &k->u->funcs[func];
    struct ki_frame *frame = &k->frames[func];

    if (frame->regs)
        return true;
    frame->regs = calloc((size_t)fn->f->nregs + 1, sizeof(*frame->regs));
    if (frame->regs && !fn->uses) {
        fn->uses = calloc((size_t)fn->f->nregs + 1, 1);
        if (fn->uses)
            ki_dt_uses(fn->f, fn->uses);
    }
    if (!frame->regs || !fn->uses) {
        free(frame->regs);
        frame->regs = NULL;
        k->failed = true;
        return false;
    }
    k->reached[k->nreached++] = func;
    return true;
}

static void round_of(struct ki_flow *k, uint32_t func)
{
    struct ki_frame *frame = &k->frames[func];
    struct ki_at at = {.k = k, .func = func, .f = k->u->funcs[func].f, .regs = frame->regs};

    k->changed = false;
    frame->seen = k->version;
    for (uint32_t i = 0; i < at.f->ninsns; i++) {
        at.in = &at.f->insns[i];
        ki_step(&at);
    }
    frame->rest = !k->changed;
    k->gave_up |= k->limits->insns < at.f->ninsns || ki_cancelled(k->limits);
    k->limits->insns -= k->gave_up ? 0 : at.f->ninsns;
}

static bool settle(struct ki_flow *k)
{
    bool again = true;

    for (unsigned round = 0; again && !k->gave_up; round++) {
        again = false;
        k->gave_up = round == MOST_ROUNDS;
        ki_escape_further(k);
        for (uint32_t i = 0; i < k->nreached && !k->gave_up; i++) {
            struct ki_frame *frame = &k->frames[k->reached[i]];

            if (frame->rest && frame->seen == k->version)
                continue;
            round_of(k, k->reached[i]);
            again = true;
            if (k->failed)
                return false;
            k->gave_up |= k->sets.failed;
        }
    }
    return true;
}

/* Nothing is known but what the parameters' sizes say. */
static bool give_up(struct ki_flow *k)
{
    const struct sg_ptx_func *f = k->u->funcs[k->entry].f;

    k->nwords = 0;
    for (uint32_t at = 0; at + 8 <= f->param_bytes && at < UINT16_MAX; at += 8) {
        uint32_t w = ki_word(k, at, 8);

        if (k->failed)
            return false;
        k->words[w].flags = TB_WORD_READ | TB_WORD_WRITE | TB_WORD_VALUE;
    }
    k->flags |= TB_KERNEL_UNTRACED_READ | TB_KERNEL_UNTRACED_WRITE | TB_KERNEL_INDIRECT_READ |
                TB_KERNEL_INDIRECT_WRITE;
    return true;
}

/* A pointer that it loads may be one that stands in the initial value of a variable. */
static void use_aimed(struct ki_flow *k)
{
    unsigned how = (k->flags & TB_KERNEL_INDIRECT_READ ? KI_READ : 0) |
                   (k->flags & TB_KERNEL_INDIRECT_WRITE ? KI_WRITE : 0);

    for (uint32_t i = KI_FIRST_VAR; how && i < k->u->nnumbers; i++)
        k->used[i] |= k->u->aimed[i] ? (uint8_t)how : 0;
}

bool ki_flow_run(struct ki_flow *k, uint32_t entry)
{
    forget(k);
    k->entry = entry;
    if (!ki_reach(k, entry) || !settle(k))
        return false;
    k->report = true;
    for (uint32_t i = 0; i < k->nreached && !k->gave_up; i++)
        round_of(k, k->reached[i]);
    ki_escape_further(k);
    use_aimed(k);
    k->gave_up |= k->sets.failed;
    return !k->failed && (!k->gave_up || give_up(k));
}
