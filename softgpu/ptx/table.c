/* .branchtargets, .calltargets, .callprototype: what indirect branches and calls name. */
#include "softgpu/ptx/ptx_internal.h"

static const struct {
    const char *word;
    enum sg_ptx_table_kind kind;
} kinds[] = {
    {"branchtargets", SG_TABLE_BRANCH},
    {"calltargets", SG_TABLE_CALLEES},
    {"callprototype", SG_TABLE_PROTOTYPE},
};

static int kind_of(const struct sg_px *p)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(kinds); i++)
        if (sg_px_word(p, SG_TOK_DOT, kinds[i].word))
            return (int)kinds[i].kind;
    return -1;
}

bool sg_px_is_table(const struct sg_px *p)
{
    return kind_of(p) >= 0;
}

/* The names of a list, for the caller to release */
static bool names(struct sg_px *p, struct sg_px_vec *list)
{
    do {
        struct sg_px_name *name = sg_px_intern_tok(p);

        if (!name || !sg_px_room(p, list, 1, sizeof(name)))
            return false;
        ((struct sg_px_name **)list->data)[list->n++] = name;
        sg_px_next(p);
    } while (sg_px_accept(p, ','));
    return true;
}

static bool branch_targets(struct sg_px *p, struct sg_ptx_table *t, struct sg_px_vec *list)
{
    uint32_t line = p->tok.line, *targets;

    if (!names(p, list))
        return false;
    targets = sg_px_get(p, list->n * sizeof(*targets));
    if (!targets)
        return false;
    for (size_t i = 0; i < list->n; i++)
        if (!sg_px_want_label(p, ((struct sg_px_name **)list->data)[i], NULL, &targets[i], line))
            return false;
    t->targets = targets;
    t->n = (uint32_t)list->n;
    return true;
}

static bool call_targets(struct sg_px *p, struct sg_ptx_table *t, struct sg_px_vec *list)
{
    const struct sg_ptx_func **callees;
    uint32_t line = p->tok.line;

    if (!names(p, list))
        return false;
    callees = sg_px_get(p, list->n * sizeof(*callees));
    if (!callees)
        return false;
    for (size_t i = 0; i < list->n; i++) {
        struct sg_px_name *name = ((struct sg_px_name **)list->data)[i];

        if (!name->sym || name->sym->kind != SG_SYM_FUNC)
            return sg_px_fail(p, TB_ERR_FORMAT, line, "'%.100s' is no function", name->text);
        callees[i] = name->sym->func;
    }
    t->callees = callees;
    t->n = (uint32_t)list->n;
    return true;
}

static bool prototype(struct sg_px *p, struct sg_ptx_table *t)
{
    struct sg_ptx_func f = {0}; /* takes the options, which say nothing of shapes */
    uint64_t bytes;

    if (sg_px_is(p, '(') && !sg_px_params(p, false, &t->rets, &t->nrets, &bytes))
        return false;
    if (!sg_px_expect(p, SG_TOK_IDENT, "'_' of .callprototype"))
        return false;
    if (sg_px_is(p, '(') && !sg_px_params(p, false, &t->params, &t->nparams, &bytes))
        return false;
    return sg_px_header_options(p, &f);
}

bool sg_px_table(struct sg_px *p, struct sg_px_name *name)
{
    struct sg_ptx_table *t = sg_px_get(p, sizeof(*t));
    struct sg_px_vec list = {0};
    struct sg_px_sym *sym;
    bool ok;

    if (!t)
        return false;
    sym = sg_px_declare(p, name, SG_SYM_TABLE, p->depth, p->tok.line);
    if (!sym)
        return false;
    sym->table = t;
    t->name = name->text;
    t->kind = (enum sg_ptx_table_kind)kind_of(p);
    sg_px_next(p);
    switch (t->kind) {
    case SG_TABLE_BRANCH:
        ok = branch_targets(p, t, &list);
        break;
    case SG_TABLE_CALLEES:
        ok = call_targets(p, t, &list);
        break;
    default:
        ok = prototype(p, t);
    }
    sg_px_vec_release(&list);
    return ok && sg_px_expect(p, ';', "';' of a table");
}
