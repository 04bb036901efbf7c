/* Numbers for what a module declares, and what is known of functions that it only declares. */
#include "kernelinfo/kernelinfo_internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t slot_of(const struct ki_unit *u, const struct sg_ptx_func *f)
{
    uint64_t h = (uint64_t)(uintptr_t)f * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)(h >> 40) & (u->index_cap - 1);
}

uint32_t ki_unit_func(const struct ki_unit *u, const struct sg_ptx_func *f)
{
    uint32_t i = slot_of(u, f);

    while (u->index[i] && u->funcs[u->index[i] - 1].f != f)
        i = (i + 1) & (u->index_cap - 1);
    return u->index[i] - 1; /* a function of the module is always there */
}

static bool within(const struct sg_ptx_var *v, const struct sg_ptx_var *table, uint32_t n,
                   uint32_t *number)
{
    if (n == 0 || v < table || v >= table + n) {
        *number += n;
        return false;
    }
    *number += (uint32_t)(v - table);
    return true;
}

uint32_t ki_unit_var(const struct ki_unit *u, uint32_t func, const struct sg_ptx_var *v)
{
    const struct sg_ptx_func *f = u->funcs[func].f;
    uint32_t number = KI_FIRST_VAR;

    if (within(v, u->m->vars, u->m->nvars, &number))
        return number;
    number = u->funcs[func].first_var;
    if (within(v, f->vars, f->nvars, &number) || within(v, f->params, f->nparams, &number) ||
        within(v, f->rets, f->nrets, &number))
        return number;
    return KI_OBJECT_LOCAL; /* of another function: the parser makes none of these */
}

static void take(struct ki_unit *u, const struct sg_ptx_func *f)
{
    u->funcs[ki_unit_func(u, f)].taken = true;
    u->taken = true;
}

static void take_operands(struct ki_unit *u, const struct sg_ptx_insn *in,
                          const struct sg_ptx_opnd *o, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (o[i].kind == SG_OPND_FUNC && !(in->op == SG_OP_CALL && o == in->opnds && i == 1))
            take(u, o[i].func);
        if (o[i].sub)
            take_operands(u, in, o[i].sub, o[i].n);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct sg_ptx_func *const *)a)->name,
                  (*(const struct sg_ptx_func *const *)b)->name);
}

static int by_var_name(const void *a, const void *b)
{
    return strcmp((*(const struct sg_ptx_var *const *)a)->name,
                  (*(const struct sg_ptx_var *const *)b)->name);
}

/* What an address in an initial value is of: a function, or a variable of the module. */
struct names {
    const struct sg_ptx_func **func;
    const struct sg_ptx_var **var;
    uint32_t nvars;
};

static void aim(struct ki_unit *u, const struct names *names, const char *symbol)
{
    struct sg_ptx_func func = {.name = symbol};
    struct sg_ptx_var var = {.name = symbol};
    const struct sg_ptx_func *fkey = &func, **f;
    const struct sg_ptx_var *vkey = &var, **v;

    f = bsearch(&fkey, names->func, u->nfuncs, sizeof(*f), by_name);
    if (f)
        take(u, *f);
    v = f ? NULL : bsearch(&vkey, names->var, names->nvars, sizeof(*v), by_var_name);
    if (v)
        u->aimed[KI_FIRST_VAR + (*v - u->m->vars)] = 1;
}

/* Functions and variables whose address stands in the initial value of a variable: tables, virtual
 * functions, pointers. */
static bool take_initial(struct ki_unit *u)
{
    struct names names = {.func = malloc((u->nfuncs + 1) * sizeof(*names.func)),
                          .var = malloc((u->m->nvars + 1) * sizeof(*names.var)),
                          .nvars = u->m->nvars};
    bool ok = names.func && names.var;

    for (uint32_t i = 0; ok && i < u->nfuncs; i++)
        names.func[i] = u->funcs[i].f;
    for (uint32_t i = 0; ok && i < names.nvars; i++)
        names.var[i] = &u->m->vars[i];
    if (ok) {
        qsort(names.func, u->nfuncs, sizeof(*names.func), by_name);
        qsort(names.var, names.nvars, sizeof(*names.var), by_var_name);
    }
    for (uint32_t i = KI_FIRST_VAR; ok && i < u->nnumbers; i++)
        for (uint32_t r = 0; r < u->vars[i]->nrelocs; r++)
            aim(u, &names, u->vars[i]->relocs[r].symbol);
    free(names.func);
    free(names.var);
    return ok;
}

static void number_vars(struct ki_unit *u, const struct sg_ptx_var *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        u->vars[u->nnumbers++] = &v[i];
}

static bool number_all(struct ki_unit *u)
{
    size_t n = KI_FIRST_VAR + (size_t)u->m->nvars;

    for (uint32_t i = 0; i < u->nfuncs; i++) {
        const struct sg_ptx_func *f = u->funcs[i].f;

        u->funcs[i].first_var = (uint32_t)n;
        n += (size_t)f->nvars + f->nparams + f->nrets;
    }
    if (n >= KI_DOWN || !(u->vars = calloc(n, sizeof(*u->vars))) || !(u->aimed = calloc(n, 1)))
        return false;
    u->nnumbers = KI_FIRST_VAR;
    number_vars(u, u->m->vars, u->m->nvars);
    for (uint32_t i = 0; i < u->m->nvars; i++)
        u->named += !ki_is_internal(&u->m->vars[i]);
    for (uint32_t i = 0; i < u->nfuncs; i++) {
        const struct sg_ptx_func *f = u->funcs[i].f;

        number_vars(u, f->vars, f->nvars);
        number_vars(u, f->params, f->nparams);
        number_vars(u, f->rets, f->nrets);
    }
    return true;
}

static bool index_funcs(struct ki_unit *u)
{
    u->nfuncs = u->m->nfuncs;
    for (u->index_cap = 16; u->index_cap < 2 * u->nfuncs;)
        u->index_cap *= 2;
    u->funcs = calloc((size_t)u->nfuncs + 1, sizeof(*u->funcs));
    u->index = calloc(u->index_cap, sizeof(*u->index));
    if (!u->funcs || !u->index)
        return false;
    for (uint32_t i = 0; i < u->nfuncs; i++) {
        uint32_t s = slot_of(u, u->m->funcs[i]);

        while (u->index[s])
            s = (s + 1) & (u->index_cap - 1);
        u->index[s] = i + 1;
        u->funcs[i].f = u->m->funcs[i];
    }
    return true;
}

bool ki_unit_init(struct ki_unit *u, const struct sg_ptx_module *m)
{
    *u = (struct ki_unit){.m = m};
    if (!index_funcs(u) || !number_all(u) || !take_initial(u))
        return false;
    for (uint32_t i = 0; i < u->nfuncs; i++) {
        const struct sg_ptx_func *f = u->funcs[i].f;

        u->open |= !f->has_body && !f->is_entry && ki_extern_of(f->name) == KI_EXTERN_UNKNOWN;
        for (uint32_t k = 0; k < f->ninsns; k++)
            take_operands(u, &f->insns[k], f->insns[k].opnds, f->insns[k].nopnds);
    }
    return true;
}

void ki_unit_release(struct ki_unit *u)
{
    for (uint32_t i = 0; u->funcs && i < u->nfuncs; i++)
        free(u->funcs[i].uses);
    free(u->funcs);
    free(u->index);
    free(u->vars);
    free(u->aimed);
    *u = (struct ki_unit){0};
}

bool ki_is_internal(const struct sg_ptx_var *v)
{
    /* texts, tables of functions of mathematics, of switches, of initial values */
    static const char *const starts[] = {"$str",      "_$_str",         "__unnamed_",
                                         "__cudart_", "switch_$_table", "__const_$_"};

    if (v->space == SG_SPACE_SHARED)
        return true; /* no memory that the host could reach */
    if (v->linkage != SG_LINK_STATIC || (!v->init && v->space != SG_SPACE_CONST))
        return false;
    for (size_t i = 0; i < TB_ARRAY_LEN(starts); i++)
        if (strncmp(v->name, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

enum ki_extern ki_extern_of(const char *name)
{
    static const struct {
        const char *name;
        enum ki_extern what;
    } known[] = {
        {"vprintf", KI_EXTERN_HEAP},
        {"malloc", KI_EXTERN_HEAP},
        {"free", KI_EXTERN_HEAP},
        {"__assertfail", KI_EXTERN_NOTHING},
        {"__assert_fail", KI_EXTERN_NOTHING},
        {"__nvvm_reflect", KI_EXTERN_NOTHING},
        {"__cxa_pure_virtual", KI_EXTERN_NOTHING},
    };

    for (size_t i = 0; i < TB_ARRAY_LEN(known); i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].what;
    return strncmp(name, "__nv_", 5) == 0 ? KI_EXTERN_MATH : KI_EXTERN_UNKNOWN;
}
