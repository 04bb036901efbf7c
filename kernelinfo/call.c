/* Calls: arguments go to parameters, results come back; what is not known is assumed to do all. */
#include "kernelinfo/kernelinfo_internal.h"

#include <string.h>

static const struct ki_val start = {.displaced = 1};

static bool is_object(const struct sg_ptx_opnd *o)
{
    return o->kind == SG_OPND_VAR && o->var->space == SG_SPACE_PARAM;
}

static unsigned size_of(const struct sg_ptx_var *v)
{
    return v->size && v->size <= 8 ? (unsigned)v->size : 8;
}

static void pass_argument(const struct ki_at *at, const struct sg_ptx_opnd *arg, uint32_t func,
                          const struct sg_ptx_var *p)
{
    struct ki_flow *k = at->k;
    uint32_t to = ki_unit_var(k->u, func, p);
    struct ki_val v;

    if (is_object(arg) && !p->in_register) {
        ki_copy_object(k, to, ki_unit_var(k->u, at->func, arg->var));
        return;
    }
    v = is_object(arg) ? ki_load_object(k, ki_unit_var(k->u, at->func, arg->var), start, size_of(p))
                       : ki_get(at, arg);
    if (!p->in_register)
        ki_store_object(k, to, start, size_of(p), v);
    else if (ki_merge(k, &k->frames[func].regs[p->reg], v))
        k->version++;
}

static void bring_back(const struct ki_at *at, const struct sg_ptx_opnd *to, uint32_t func,
                       const struct sg_ptx_var *r)
{
    struct ki_flow *k = at->k;
    uint32_t from = ki_unit_var(k->u, func, r);
    struct ki_val v;

    if (is_object(to) && !r->in_register) {
        ki_copy_object(k, ki_unit_var(k->u, at->func, to->var), from);
        return;
    }
    v = r->in_register ? k->frames[func].regs[r->reg] : ki_load_object(k, from, start, size_of(r));
    if (is_object(to))
        ki_store_object(k, ki_unit_var(k->u, at->func, to->var), start, size_of(r), v);
    else
        ki_put(at, to, v);
}

/* What a function gets of one argument: its value, or all that its object holds. */
static uint32_t whole(const struct ki_at *at, const struct sg_ptx_opnd *arg)
{
    struct ki_val any = {.displaced = 2};

    if (!is_object(arg))
        return ki_get(at, arg).set;
    return ki_load_object(at->k, ki_unit_var(at->k->u, at->func, arg->var), any, 8).set;
}

static void give_result(const struct ki_at *at, struct ki_val v)
{
    const struct sg_ptx_opnd *rets = &at->in->opnds[0];

    for (uint32_t i = 0; i < rets->n; i++)
        if (is_object(&rets->sub[i]))
            ki_store_object(at->k, ki_unit_var(at->k->u, at->func, rets->sub[i].var),
                            (struct ki_val){.displaced = 2}, 8, v);
        else
            ki_put(at, &rets->sub[i], v);
}

/* It may do anything with what it gets, and with all that can be reached from there. */
static void call_unknown(const struct ki_at *at)
{
    const struct sg_ptx_opnd *args = &at->in->opnds[2];

    ki_untraced(at->k, KI_READ | KI_WRITE);
    for (uint32_t i = 0; i < args->n; i++) {
        uint32_t set = whole(at, &args->sub[i]);

        if (set)
            ki_access(at->k, set, KI_READ | KI_WRITE, KI_DT_MIXED);
        ki_value_used(at->k, set);
        ki_escape(at->k, set);
    }
    ki_escape(at->k, ki_one(&at->k->sets, KI_ATOM(KI_OBJECT, KI_OBJECT_SHARED)));
    give_result(at, ki_from(at->k, KI_ATOM(KI_UNKNOWN, 0)));
}

/* Functions of mathematics: some give a second result through a pointer. */
static void call_math(const struct ki_at *at)
{
    const struct sg_ptx_opnd *args = &at->in->opnds[2];

    for (uint32_t i = 0; i < args->n; i++) {
        uint32_t set = whole(at, &args->sub[i]);
        bool pointer = false;

        for (uint32_t a = 0; a < at->k->sets.set[set].n; a++) {
            uint32_t atom = at->k->sets.atoms[at->k->sets.set[set].at + a];

            pointer |= (atom & KI_STRONG) || KI_KIND(atom) >= KI_GLOBAL;
        }
        if (pointer)
            ki_access(at->k, set, KI_WRITE, KI_DT_MIXED);
        ki_value_used(at->k, set);
    }
    give_result(at, ki_number(0));
}

static void call_extern(const struct ki_at *at, const char *name)
{
    switch (ki_extern_of(name)) {
    case KI_EXTERN_HEAP:
        if (at->k->report)
            at->k->flags |= TB_KERNEL_HEAP;
        for (uint32_t i = 0; i < at->in->opnds[2].n; i++)
            ki_value_used(at->k, whole(at, &at->in->opnds[2].sub[i]));
        give_result(at, strcmp(name, "malloc") == 0 ? ki_from(at->k, KI_ATOM(KI_HEAP, 0))
                                                    : ki_number(TB_DT_I32));
        return;
    case KI_EXTERN_NOTHING:
        give_result(at, ki_number(0));
        return;
    case KI_EXTERN_MATH:
        call_math(at);
        return;
    default:
        call_unknown(at);
    }
}

static void call_function(const struct ki_at *at, const struct sg_ptx_func *f)
{
    const struct sg_ptx_opnd *rets = &at->in->opnds[0], *args = &at->in->opnds[2];
    uint32_t func = ki_unit_func(at->k->u, f);

    if (!f->has_body) {
        call_extern(at, f->name);
        return;
    }
    if (!ki_reach(at->k, func))
        return;
    for (uint32_t i = 0; i < args->n && i < f->nparams; i++)
        pass_argument(at, &args->sub[i], func, &f->params[i]);
    for (uint32_t i = 0; i < rets->n && i < f->nrets; i++)
        bring_back(at, &rets->sub[i], func, &f->rets[i]);
}

/* Any function whose address is taken and that could be called so. */
static void call_indirect(const struct ki_at *at)
{
    const struct sg_ptx_insn *in = at->in;
    const struct sg_ptx_table *t = in->nopnds > 3 ? in->opnds[3].table : NULL;
    const struct ki_unit *u = at->k->u;
    bool any = false;

    if (t && t->kind == SG_TABLE_CALLEES) {
        for (uint32_t i = 0; i < t->n; i++)
            call_function(at, t->callees[i]);
        return;
    }
    for (uint32_t i = 0; i < u->nfuncs; i++) {
        const struct sg_ptx_func *f = u->funcs[i].f;

        if (!u->funcs[i].taken || f->is_entry || f->nparams != in->opnds[2].n ||
            f->nrets != in->opnds[0].n)
            continue;
        any = true;
        call_function(at, f);
    }
    if (!any || u->open)
        call_unknown(at);
}

void ki_call(const struct ki_at *at)
{
    if (at->in->nopnds < 3)
        return;
    if (at->in->opnds[1].kind == SG_OPND_FUNC)
        call_function(at, at->in->opnds[1].func);
    else
        call_indirect(at);
}
