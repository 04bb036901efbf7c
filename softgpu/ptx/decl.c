/* Declarations: registers, variables, parameters. */
#include "softgpu/ptx/ptx_internal.h"

#include <stdio.h>

static const struct {
    const char *word;
    enum sg_ptx_space space;
} spaces[] = {
    {"global", SG_SPACE_GLOBAL}, {"const", SG_SPACE_CONST}, {"shared", SG_SPACE_SHARED},
    {"local", SG_SPACE_LOCAL},   {"param", SG_SPACE_PARAM},
};

static const struct {
    const char *word;
    enum sg_ptx_linkage linkage;
} linkages[] = {
    {"visible", SG_LINK_VISIBLE},
    {"extern", SG_LINK_EXTERN},
    {"weak", SG_LINK_WEAK},
    {"common", SG_LINK_COMMON},
};

bool sg_px_space(const struct sg_px *p, enum sg_ptx_space *out)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(spaces); i++)
        if (sg_px_word(p, SG_TOK_DOT, spaces[i].word)) {
            *out = spaces[i].space;
            return true;
        }
    return false;
}

bool sg_px_linkage(const struct sg_px *p, enum sg_ptx_linkage *out)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(linkages); i++)
        if (sg_px_word(p, SG_TOK_DOT, linkages[i].word)) {
            *out = linkages[i].linkage;
            return true;
        }
    return false;
}

static bool alignment(struct sg_px *p, uint32_t *out)
{
    uint32_t a = 0, line = p->tok.line;

    sg_px_next(p);
    if (!sg_px_u32(p, "an alignment", &a))
        return false;
    if (a == 0 || (a & (a - 1)) != 0)
        return sg_px_fail(p, TB_ERR_FORMAT, line, "alignment %u is not a power of two", a);
    *out = a;
    return true;
}

/* .ptr .global .align 16: what a pointer parameter points to; nothing follows from it */
static bool pointer(struct sg_px *p)
{
    enum sg_ptx_space space;
    uint32_t align;

    sg_px_next(p);
    if (sg_px_space(p, &space))
        sg_px_next(p);
    return !sg_px_word(p, SG_TOK_DOT, "align") || alignment(p, &align);
}

/* .attribute(.managed, .unified(1, 2)) */
bool sg_px_attribute(struct sg_px *p, bool *managed)
{
    sg_px_next(p);
    if (!sg_px_expect(p, '(', "'(' of .attribute"))
        return false;
    do {
        if (sg_px_word(p, SG_TOK_DOT, "managed")) {
            *managed = true;
            sg_px_next(p);
        } else if (sg_px_word(p, SG_TOK_DOT, "unified")) {
            sg_px_next(p);
            if (!sg_px_expect(p, '(', "'(' of .unified"))
                return false;
            for (int i = 0; i < 2; i++) {
                if (!sg_px_is(p, SG_TOK_INT))
                    return sg_px_unexpected(p, "a number of .unified");
                sg_px_next(p);
                if (i == 0 && !sg_px_expect(p, ',', "','"))
                    return false;
            }
            if (!sg_px_expect(p, ')', "')' of .unified"))
                return false;
        } else {
            return sg_px_unexpected(p, "an attribute");
        }
    } while (sg_px_accept(p, ','));
    return sg_px_expect(p, ')', "')' of .attribute");
}

static uint8_t vector_of(enum sg_ptx_mod mod)
{
    return mod == SG_M_V2 ? 2 : mod == SG_M_V4 ? 4 : mod == SG_M_V8 ? 8 : 1;
}

/* What stands between state space and name: types, .v4, .align and so on, in any order */
static bool qualifiers(struct sg_px *p, struct sg_px_decl *d)
{
    uint32_t line = p->tok.line;

    while (sg_px_is(p, SG_TOK_DOT)) {
        enum sg_ptx_mod mod = sg_px_find_mod(p, &p->tok);
        bool ok = true;

        if (sg_px_word(p, SG_TOK_DOT, "align")) {
            ok = alignment(p, &d->align);
        } else if (mod == SG_M_PTR && d->space == SG_SPACE_PARAM) {
            ok = pointer(p);
        } else if (sg_px_word(p, SG_TOK_DOT, "attribute")) {
            ok = sg_px_attribute(p, &d->managed);
        } else if (vector_of(mod) > 1 && d->vec == 1) {
            d->vec = vector_of(mod);
            sg_px_next(p);
        } else if (d->type == SG_M_NONE &&
                   (sg_ptx_type_size(mod) > 0 || mod == SG_M_PRED || sg_px_is_opaque(mod))) {
            d->type = mod;
            sg_px_next(p);
        } else {
            ok = sg_px_unexpected(p, "a type or attribute of a declaration");
        }
        if (!ok)
            return false;
    }
    if (d->type == SG_M_NONE)
        return sg_px_fail(p, TB_ERR_FORMAT, line, "declaration without a type");
    if (d->vec > 1 && d->vec * sg_ptx_type_size(d->type) > 32)
        return sg_px_fail(p, TB_ERR_FORMAT, line, "vector is wider than 256 bits");
    if (d->type == SG_M_PRED && (!d->is_reg || d->vec > 1))
        return sg_px_fail(p, TB_ERR_FORMAT, line, ".pred is a type of scalar registers only");
    return true;
}

/* Textures and the like are legal PTX that this device does not have. */
static bool refuse_opaque(struct sg_px *p, const struct sg_px_decl *d)
{
    if (p->opaque || !sg_px_is_opaque(d->type))
        return true;
    return sg_px_fail(p, TB_ERR_UNSUPPORTED, p->tok.line, ".%s '%.*s' is not supported",
                      sg_ptx_mod_name(d->type), sg_px_cut(&p->tok), p->tok.s);
}

/* name or name<count> */
static bool name_and_count(struct sg_px *p, struct sg_px_name **name, bool *range, uint32_t *count)
{
    *count = 0;
    *name = sg_px_intern_tok(p);
    if (!*name)
        return false;
    sg_px_next(p);
    *range = sg_px_accept(p, '<');
    if (!*range)
        return true;
    return sg_px_u32(p, "a count of names", count) && sg_px_expect(p, '>', "'>'");
}

static bool declare_reg(struct sg_px *p, const struct sg_px_decl *d)
{
    uint32_t line = p->tok.line, count;
    bool range;
    struct sg_px_name *name;
    struct sg_px_sym *sym;

    if (!refuse_opaque(p, d) || !name_and_count(p, &name, &range, &count))
        return false;
    sym = sg_px_declare(p, name, range ? SG_SYM_RANGE : SG_SYM_REG, p->depth, line);
    if (!sym)
        return false;
    if (!range)
        return sg_px_add_reg(p, name, d->type, d->vec, &sym->value);
    sym->type = (uint16_t)d->type;
    sym->vec = d->vec;
    sym->value = count;
    return true;
}

bool sg_px_regs(struct sg_px *p)
{
    struct sg_px_decl d = {.vec = 1, .is_reg = true};

    sg_px_next(p);
    if (!qualifiers(p, &d))
        return false;
    do {
        if (!declare_reg(p, &d))
            return false;
    } while (sg_px_accept(p, ','));
    return sg_px_expect(p, ';', "';' of .reg");
}

static void shape(struct sg_ptx_var *v, const struct sg_px_decl *d)
{
    v->linkage = d->linkage;
    v->space = d->space;
    v->type = d->type;
    v->elem_size = d->vec * sg_ptx_type_size(d->type);
    if (v->elem_size == 0)
        v->elem_size = d->type == SG_M_PRED ? 1 : 8; /* a texture's handle */
    v->align = d->align ? d->align : v->elem_size;
    v->managed = d->managed;
    v->size = v->elem_size;
}

/* "[2][3]": counts, the first may be missing (0); v->size becomes that of the whole */
static bool dimensions(struct sg_px *p, struct sg_ptx_var *v, uint64_t *dims, uint32_t *ndims)
{
    struct sg_px_val c = {0};
    uint32_t line = p->tok.line;

    for (*ndims = 0; sg_px_accept(p, '['); ++*ndims) {
        if (*ndims == SG_PX_MAX_DIMS)
            return sg_px_fail(p, TB_ERR_LIMIT, line, "array with more than %d dimensions",
                              SG_PX_MAX_DIMS);
        c.kind = SG_VAL_S64;
        c.i = 0;
        if (!(sg_px_is(p, ']') && *ndims == 0)) {
            if (!sg_px_const(p, &c))
                return false;
            if (c.kind == SG_VAL_F64 || (c.kind == SG_VAL_S64 && c.i < 0))
                return sg_px_fail(p, TB_ERR_FORMAT, line, "dimension of an array is no count");
        }
        dims[*ndims] = c.u;
        if (!sg_px_expect(p, ']', "']'"))
            return false;
        if (__builtin_mul_overflow(v->size, c.u, &v->size) || v->size > SG_PX_MAX_VAR_BYTES)
            return sg_px_fail(p, TB_ERR_LIMIT, line, "array is too large");
    }
    return true;
}

static struct sg_px_vec *home_of(struct sg_px *p)
{
    return p->depth == 0 ? &p->mvars : &p->fvars;
}

/* A new variable, or the one that an .extern of the same name declared before */
static struct sg_px_var *new_var(struct sg_px *p, struct sg_px_name *name,
                                 const struct sg_px_decl *d, uint32_t line)
{
    struct sg_px_sym *old = name->sym;
    struct sg_px_vec *home = home_of(p);
    struct sg_px_var *v;

    if (p->depth == 0 && old && old->kind == SG_SYM_VAR &&
        (d->linkage == SG_LINK_EXTERN || old->var->var.linkage == SG_LINK_EXTERN) &&
        old->var->var.space == d->space)
        return old->var;
    if (home->n == SG_PX_MAX_VARS) {
        sg_px_fail(p, TB_ERR_LIMIT, line, "more than %u variables", SG_PX_MAX_VARS);
        return NULL;
    }
    v = sg_px_get(p, sizeof(*v));
    if (!v || !sg_px_room(p, home, 1, sizeof(v)))
        return NULL;
    old = sg_px_declare(p, name, SG_SYM_VAR, p->depth, line);
    if (!old)
        return NULL;
    old->var = v;
    v->of_module = p->depth == 0;
    v->var.index = (uint32_t)home->n;
    ((struct sg_px_var **)home->data)[home->n++] = v;
    return v;
}

static bool finish_var(struct sg_px *p, struct sg_px_name *name, const struct sg_px_decl *d,
                       struct sg_ptx_var *v, uint32_t line)
{
    struct sg_px_var *mem = new_var(p, name, d, line);
    uint32_t index;

    if (!mem)
        return false;
    if (mem->var.name && d->linkage == SG_LINK_EXTERN)
        return true; /* declared again: the first one stands */
    index = mem->var.index;
    v->name = name->text;
    v->line = line;
    v->index = index;
    mem->var = *v;
    return true;
}

/* `.param .b32 x<3>`: x0, x1, x2 */
static bool numbered_vars(struct sg_px *p, struct sg_px_name *base, uint32_t count,
                          const struct sg_px_decl *d, const struct sg_ptx_var *v, uint32_t line)
{
    struct sg_px_name *name;
    struct sg_ptx_var one;
    char text[128];

    if (base->len > 100 || count > SG_PX_MAX_MEMBERS)
        return sg_px_fail(p, TB_ERR_LIMIT, line, "more than %d variables of one name",
                          SG_PX_MAX_MEMBERS);
    for (uint32_t i = 0; i < count; i++) {
        int n = snprintf(text, sizeof(text), "%s%u", base->text, i);

        name = sg_px_intern(p, text, (uint32_t)n, sg_px_hash(text, (size_t)n));
        one = *v;
        if (!name || !finish_var(p, name, d, &one, line))
            return false;
    }
    return true;
}

static bool declare_var(struct sg_px *p, const struct sg_px_decl *d)
{
    uint64_t dims[SG_PX_MAX_DIMS + 1];
    uint32_t ndims, count, line = p->tok.line;
    struct sg_ptx_var v = {0};
    struct sg_px_name *name;
    bool unsized, range;

    shape(&v, d);
    if (!refuse_opaque(p, d) || !name_and_count(p, &name, &range, &count))
        return false;
    if (range)
        return numbered_vars(p, name, count, d, &v, line);
    if (!dimensions(p, &v, dims, &ndims))
        return false;
    unsized = ndims > 0 && dims[0] == 0;
    if (sg_px_accept(p, '=')) {
        if (d->space != SG_SPACE_GLOBAL && d->space != SG_SPACE_CONST)
            return sg_px_fail(p, TB_ERR_FORMAT, line,
                              "'%.100s' has an initial value, only .global and .const may",
                              name->text);
        if (!sg_px_init(p, &v, d, dims, ndims))
            return false;
    } else if (unsized && d->linkage != SG_LINK_EXTERN && d->space != SG_SPACE_PARAM) {
        return sg_px_fail(p, TB_ERR_FORMAT, line, "'%.100s' has no size", name->text);
    }
    return finish_var(p, name, d, &v, line);
}

/* `.const[2]` of PTX 1: banks other than 0 need windows that nothing emits any more */
static bool const_bank(struct sg_px *p)
{
    uint32_t bank = 0, line = p->tok.line;

    if (!sg_px_accept(p, '['))
        return true;
    if (!sg_px_u32(p, "a bank of .const", &bank) || !sg_px_expect(p, ']', "']'"))
        return false;
    return bank == 0 ||
           sg_px_fail(p, TB_ERR_UNSUPPORTED, line, "bank %u of .const is not supported", bank);
}

bool sg_px_vars(struct sg_px *p, enum sg_ptx_linkage linkage)
{
    struct sg_px_decl d = {.vec = 1, .linkage = linkage};

    if (!sg_px_space(p, &d.space))
        return sg_px_unexpected(p, "a state space");
    if (p->depth == 0 && (d.space == SG_SPACE_PARAM || d.space == SG_SPACE_LOCAL))
        return sg_px_fail(p, TB_ERR_FORMAT, p->tok.line, ".%.*s outside of a function",
                          sg_px_cut(&p->tok), p->tok.s);
    sg_px_next(p);
    if (!const_bank(p) || !qualifiers(p, &d))
        return false;
    do {
        if (!declare_var(p, &d))
            return false;
    } while (sg_px_accept(p, ','));
    return sg_px_expect(p, ';', "';' of a declaration");
}

/* One parameter, at its state space */
static bool parameter(struct sg_px *p, bool declare, uint32_t index, struct sg_ptx_var *v)
{
    struct sg_px_decl d = {.vec = 1, .space = SG_SPACE_PARAM};
    uint64_t dims[SG_PX_MAX_DIMS + 1];
    struct sg_px_name *name;
    struct sg_px_sym *sym;
    uint32_t ndims;

    d.is_reg = sg_px_word(p, SG_TOK_DOT, "reg");
    if (!d.is_reg && !sg_px_word(p, SG_TOK_DOT, "param"))
        return sg_px_unexpected(p, "a parameter");
    sg_px_next(p);
    if (!qualifiers(p, &d) || !refuse_opaque(p, &d))
        return false;
    shape(v, &d);
    v->in_register = d.is_reg;
    v->line = p->tok.line;
    name = sg_px_intern_tok(p);
    if (!name)
        return false;
    v->name = name->text;
    sg_px_next(p);
    if (!dimensions(p, v, dims, &ndims))
        return false;
    if (!declare || strcmp(name->text, "_") == 0)
        return true;
    sym = sg_px_declare(p, name, d.is_reg ? SG_SYM_REG : SG_SYM_PARAM, p->depth, v->line);
    if (!sym)
        return false;
    sym->value = index;
    if (!d.is_reg)
        return true;
    if (!sg_px_add_reg(p, name, d.type, d.vec, &v->reg))
        return false;
    sym->value = v->reg;
    return true;
}

/* Natural alignment or what .align says, in the order of the text. */
static bool lay_out(struct sg_px *p, struct sg_ptx_var *v, uint32_t n, uint64_t *bytes)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        v[i].index = i;
        if (v[i].in_register)
            continue;
        at = (at + v[i].align - 1) & ~(uint64_t)(v[i].align - 1);
        v[i].offset = at;
        at += v[i].size;
        if (at > UINT32_MAX)
            return sg_px_fail(p, TB_ERR_LIMIT, v[i].line, "parameters are too large");
    }
    *bytes = at;
    return true;
}

/* The symbols of parameters point to where these are now. */
static void point_symbols(struct sg_px *p, const struct sg_ptx_var *v)
{
    for (struct sg_px_sym *s = p->scopes[p->depth].syms; s; s = s->in_scope)
        if (s->kind == SG_SYM_PARAM && !s->param)
            s->param = &v[s->value];
}

bool sg_px_params(struct sg_px *p, bool declare, const struct sg_ptx_var **out, uint32_t *n,
                  uint64_t *bytes)
{
    struct sg_px_vec list = {0};
    struct sg_ptx_var *v = NULL;
    bool ok = false;

    sg_px_next(p);
    while (!sg_px_is(p, ')')) {
        if (list.n == SG_PX_MAX_MEMBERS * 4) {
            sg_px_fail(p, TB_ERR_LIMIT, p->tok.line, "more than %d parameters",
                       SG_PX_MAX_MEMBERS * 4);
            goto out;
        }
        if (!sg_px_room(p, &list, 1, sizeof(*v)))
            goto out;
        v = (struct sg_ptx_var *)list.data + list.n++;
        memset(v, 0, sizeof(*v));
        if (!parameter(p, declare, (uint32_t)list.n - 1, v) ||
            (!sg_px_is(p, ')') && !sg_px_expect(p, ',', "',' or ')'")))
            goto out;
    }
    sg_px_next(p);
    v = NULL;
    if (!sg_px_keep(p, list.data, list.n, sizeof(*v), &v) ||
        !lay_out(p, v, (uint32_t)list.n, bytes))
        goto out;
    if (declare)
        point_symbols(p, v);
    *out = v;
    *n = (uint32_t)list.n;
    ok = true;
out:
    sg_px_vec_release(&list);
    return ok;
}

bool sg_px_place_vars(struct sg_px *p, struct sg_px_vec *vars, const struct sg_ptx_var **out,
                      uint32_t *n)
{
    struct sg_px_var **list = vars->data;
    struct sg_ptx_var *v = NULL;

    if (vars->n > 0 && !(v = sg_px_get(p, vars->n * sizeof(*v))))
        return false;
    for (size_t i = 0; i < vars->n; i++)
        v[i] = list[i]->var;
    *out = v;
    *n = (uint32_t)vars->n;
    return true;
}
