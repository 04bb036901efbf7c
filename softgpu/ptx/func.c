/* .entry and .func: headers, bodies, the directives inside. */
#include "softgpu/ptx/ptx_internal.h"

static const struct {
    const char *word;
    size_t at;     /* in struct sg_ptx_func, SIZE_MAX: read and forgotten */
    uint8_t count; /* numbers at most */
    bool flag;
} options[] = {
    {"maxntid", offsetof(struct sg_ptx_func, maxntid), 3, false},
    {"reqntid", offsetof(struct sg_ptx_func, reqntid), 3, false},
    {"maxnreg", offsetof(struct sg_ptx_func, maxnreg), 1, false},
    {"minnctapersm", offsetof(struct sg_ptx_func, minnctapersm), 1, false},
    {"maxnctapersm", offsetof(struct sg_ptx_func, maxnctapersm), 1, false},
    {"reqnctapercluster", offsetof(struct sg_ptx_func, reqnctapercluster), 3, false},
    {"maxclusterrank", offsetof(struct sg_ptx_func, maxclusterrank), 1, false},
    {"explicitcluster", offsetof(struct sg_ptx_func, explicitcluster), 0, true},
    {"noreturn", offsetof(struct sg_ptx_func, noreturn), 0, true},
    {"blocksareclusters", SIZE_MAX, 0, true},
    {"unique", SIZE_MAX, 0, true},
    {"abi_preserve", SIZE_MAX, 1, false},
    {"abi_preserve_control", SIZE_MAX, 1, false},
};

/* "128, 1": missing ones are 1 */
static bool numbers(struct sg_px *p, uint32_t *out, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        out[i] = 1;
    for (unsigned i = 0; i < count; i++) {
        if (!sg_px_u32(p, "a number of a directive", &out[i]))
            return false;
        if (i + 1 < count && !sg_px_accept(p, ','))
            break;
    }
    return true;
}

static bool option(struct sg_px *p, struct sg_ptx_func *f)
{
    uint32_t n[3];
    size_t i = 0;

    while (i < TB_ARRAY_LEN(options) && !sg_px_word(p, SG_TOK_DOT, options[i].word))
        i++;
    if (i == TB_ARRAY_LEN(options))
        return sg_px_unexpected(p, "a directive of a function, '{' or ';'");
    sg_px_next(p);
    if (!options[i].flag && !numbers(p, n, options[i].count))
        return false;
    if (options[i].at == SIZE_MAX)
        return true;
    if (options[i].flag)
        *(bool *)((char *)f + options[i].at) = true;
    else
        memcpy((char *)f + options[i].at, n, options[i].count * sizeof(n[0]));
    return true;
}

bool sg_px_pragma(struct sg_px *p)
{
    do {
        sg_px_next(p);
        if (!sg_px_expect(p, SG_TOK_STRING, "a string of .pragma"))
            return false;
    } while (sg_px_is(p, ','));
    return sg_px_expect(p, ';', "';' of .pragma");
}

bool sg_px_header_options(struct sg_px *p, struct sg_ptx_func *f)
{
    bool managed;

    while (sg_px_is(p, SG_TOK_DOT)) {
        bool ok;

        if (sg_px_word(p, SG_TOK_DOT, "pragma"))
            ok = sg_px_pragma(p);
        else if (sg_px_word(p, SG_TOK_DOT, "attribute"))
            ok = sg_px_attribute(p, &managed);
        else
            ok = option(p, f);
        if (!ok)
            return false;
    }
    return true;
}

/* "function_name label [+ n]" or "inlined_at file line column" */
static bool loc_option(struct sg_px *p)
{
    uint32_t n;

    if (sg_px_word(p, SG_TOK_IDENT, "inlined_at")) {
        sg_px_next(p);
        return sg_px_u32(p, "a file of .loc", &n) && sg_px_u32(p, "a line of .loc", &n) &&
               sg_px_u32(p, "a column of .loc", &n);
    }
    if (!sg_px_word(p, SG_TOK_IDENT, "function_name"))
        return sg_px_unexpected(p, "function_name or inlined_at of .loc");
    sg_px_next(p);
    if (!sg_px_accept(p, SG_TOK_DOT) && !sg_px_expect(p, SG_TOK_IDENT, "a name of .loc"))
        return false;
    return !sg_px_accept(p, '+') || sg_px_u32(p, "an offset of .loc", &n);
}

/* .loc file line column [, options]; no ';' ends it */
bool sg_px_loc(struct sg_px *p)
{
    uint32_t column;

    sg_px_next(p);
    if (!sg_px_u32(p, "a file of .loc", &p->loc_file) ||
        !sg_px_u32(p, "a line of .loc", &p->loc_line))
        return false;
    if (sg_px_is(p, SG_TOK_INT) && !sg_px_u32(p, "a column of .loc", &column))
        return false;
    while (sg_px_accept(p, ','))
        if (!loc_option(p))
            return false;
    return true;
}

static bool label(struct sg_px *p)
{
    struct sg_px_name *name = sg_px_intern_tok(p);
    uint32_t line = p->tok.line;
    struct sg_px_sym *sym;

    if (!name)
        return false;
    sg_px_next(p);
    sg_px_next(p);
    if (sg_px_is_table(p))
        return sg_px_table(p, name);
    sym = sg_px_declare(p, name, SG_SYM_LABEL, p->depth, line);
    if (!sym)
        return false;
    sym->value = (uint32_t)p->insns.n;
    return true;
}

static bool directive(struct sg_px *p)
{
    enum sg_ptx_linkage linkage = SG_LINK_STATIC;
    enum sg_ptx_space space;

    if (sg_px_word(p, SG_TOK_DOT, "loc"))
        return sg_px_loc(p);
    if (sg_px_word(p, SG_TOK_DOT, "reg"))
        return sg_px_regs(p);
    if (sg_px_word(p, SG_TOK_DOT, "pragma"))
        return sg_px_pragma(p);
    if (sg_px_linkage(p, &linkage))
        sg_px_next(p);
    if (sg_px_space(p, &space))
        return sg_px_vars(p, linkage);
    return sg_px_unexpected(p, "a directive inside of a function");
}

static bool statement(struct sg_px *p)
{
    switch (p->tok.kind) {
    case '{':
        if (!sg_px_scope_enter(p, p->tok.line))
            return false;
        sg_px_next(p);
        return true;
    case '}':
        sg_px_next(p);
        return sg_px_scope_leave(p);
    case ';':
        sg_px_next(p);
        return true;
    case SG_TOK_DOT:
        return directive(p);
    case SG_TOK_IDENT:
        return sg_px_peek(p) == ':' ? label(p) : sg_px_insn(p);
    case SG_TOK_EOF:
        return sg_px_unexpected(p, "'}' of a function");
    default:
        return sg_px_insn(p);
    }
}

/* Operands point to the variables' places in the table; those of the module have none yet. */
static bool fix_operands(struct sg_px *p, const struct sg_ptx_func *f)
{
    struct sg_ptx_opnd **o = p->fixups.data;

    for (size_t i = 0; i < p->fixups.n; i++) {
        const struct sg_px_var *v = (const struct sg_px_var *)o[i]->var;

        if (!v->of_module) {
            o[i]->var = &f->vars[v->var.index];
            continue;
        }
        if (!sg_px_room(p, &p->mfixups, 1, sizeof(*o)))
            return false;
        ((struct sg_ptx_opnd **)p->mfixups.data)[p->mfixups.n++] = o[i];
    }
    return true;
}

static bool body(struct sg_px *p, struct sg_ptx_func *f)
{
    p->func = f;
    p->loc_file = p->loc_line = 0;
    if (!sg_px_scope_enter(p, p->tok.line))
        return false;
    sg_px_next(p);
    while (p->depth > 1)
        if (!statement(p))
            return false;
    f->has_body = true;
    f->nregs = (uint32_t)p->regs.n;
    f->ninsns = (uint32_t)p->insns.n;
    return sg_px_place_vars(p, &p->fvars, &f->vars, &f->nvars) && fix_operands(p, f) &&
           sg_px_keep(p, p->regs.data, p->regs.n, sizeof(struct sg_ptx_reg), &f->regs) &&
           sg_px_keep(p, p->insns.data, p->insns.n, sizeof(struct sg_ptx_insn), &f->insns);
}

static bool same_params(const struct sg_ptx_var *a, uint32_t na, const struct sg_ptx_var *b,
                        uint32_t nb)
{
    if (na != nb)
        return false;
    for (uint32_t i = 0; i < na; i++)
        if (a[i].size != b[i].size || a[i].in_register != b[i].in_register)
            return false;
    return true;
}

/* The function of that name, declared before or new */
static struct sg_ptx_func *get_func(struct sg_px *p, struct sg_px_name *name,
                                    const struct sg_ptx_func *seen)
{
    struct sg_px_sym *sym = name->sym;
    struct sg_ptx_func *f;

    while (sym && sym->depth > 0)
        sym = sym->below;
    if (sym && sym->kind == SG_SYM_FUNC) {
        f = sym->func;
        if (f->is_entry == seen->is_entry &&
            same_params(f->params, f->nparams, seen->params, seen->nparams) &&
            same_params(f->rets, f->nrets, seen->rets, seen->nrets))
            return f;
        sg_px_fail(p, TB_ERR_FORMAT, seen->line,
                   "'%.100s' was declared in line %u with other parameters", name->text, f->line);
        return NULL;
    }
    f = sg_px_get(p, sizeof(*f));
    if (!f || !sg_px_room(p, &p->funcs, 1, sizeof(f)))
        return NULL;
    sym = sg_px_declare(p, name, SG_SYM_FUNC, 0, seen->line);
    if (!sym)
        return NULL;
    sym->func = f;
    ((struct sg_ptx_func **)p->funcs.data)[p->funcs.n++] = f;
    *f = *seen;
    return f;
}

static bool header(struct sg_px *p, struct sg_ptx_func *seen, struct sg_px_name **name)
{
    uint64_t bytes;
    bool managed;

    seen->is_entry = sg_px_word(p, SG_TOK_DOT, "entry");
    sg_px_next(p);
    if (sg_px_word(p, SG_TOK_DOT, "attribute") && !sg_px_attribute(p, &managed))
        return false;
    if (sg_px_is(p, '(') && seen->is_entry)
        return sg_px_unexpected(p, "the name of an entry");
    if (sg_px_is(p, '(') && !sg_px_params(p, true, &seen->rets, &seen->nrets, &bytes))
        return false;
    seen->line = p->tok.line;
    *name = sg_px_intern_tok(p);
    if (!*name)
        return false;
    seen->name = (*name)->text;
    seen->module = p->mod;
    sg_px_next(p);
    if (sg_px_is(p, '(') &&
        !sg_px_params(p, true, &seen->params, &seen->nparams, &seen->param_bytes))
        return false;
    for (uint32_t i = 0; seen->is_entry && i < seen->nparams; i++)
        if (seen->params[i].in_register)
            return sg_px_fail(p, TB_ERR_FORMAT, seen->params[i].line,
                              "parameter '%.100s' of an entry is a register", seen->params[i].name);
    return sg_px_header_options(p, seen);
}

static bool define(struct sg_px *p, const struct sg_ptx_func *seen, struct sg_px_name *name)
{
    struct sg_ptx_func *f = get_func(p, name, seen);

    if (!f)
        return false;
    if (sg_px_accept(p, ';')) {
        f->noreturn |= seen->noreturn;
        return true;
    }
    if (!sg_px_is(p, '{'))
        return sg_px_unexpected(p, "'{' or ';' of a function");
    if (f->has_body)
        return sg_px_fail(p, TB_ERR_FORMAT, seen->line, "'%.100s' is defined twice", name->text);
    if (seen->linkage == SG_LINK_EXTERN)
        return sg_px_fail(p, TB_ERR_FORMAT, seen->line, "'%.100s' is .extern and has a body",
                          name->text);
    *f = *seen;
    return body(p, f);
}

bool sg_px_function(struct sg_px *p, enum sg_ptx_linkage linkage)
{
    struct sg_ptx_func seen = {.linkage = linkage};
    struct sg_px_name *name = NULL;

    p->regs.n = p->insns.n = p->fvars.n = p->fixups.n = p->pending.n = 0;
    if (!sg_px_scope_enter(p, p->tok.line) || !header(p, &seen, &name) || !name ||
        !define(p, &seen, name))
        return false;
    return sg_px_scope_leave(p);
}
