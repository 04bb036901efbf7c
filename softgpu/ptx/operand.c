/* Operands of instructions. */
#include "softgpu/ptx/ptx_internal.h"

static const struct {
    char word[3];
    uint8_t comp, half;
} suffixes[] = {
    {"x", 0, 0}, {"y", 1, 0},  {"z", 2, 0},  {"w", 3, 0},  {"r", 0, 0},  {"g", 1, 0},  {"b", 2, 0},
    {"a", 3, 0}, {"b0", 0, 1}, {"b1", 0, 2}, {"b2", 0, 3}, {"b3", 0, 4}, {"h0", 0, 5}, {"h1", 0, 6},
};

static bool sreg_has_components(enum sg_ptx_sreg sreg)
{
    switch (sreg) {
    case SG_SREG_TID:
    case SG_SREG_NTID:
    case SG_SREG_CTAID:
    case SG_SREG_NCTAID:
    case SG_SREG_CLUSTERID:
    case SG_SREG_NCLUSTERID:
    case SG_SREG_CLUSTER_CTAID:
    case SG_SREG_CLUSTER_NCTAID:
        return true;
    default:
        return false;
    }
}

static unsigned components(const struct sg_px *p, const struct sg_ptx_opnd *o)
{
    if (o->kind == SG_OPND_REG) {
        unsigned vec = ((const struct sg_ptx_reg *)p->regs.data)[o->reg].vec;
        return vec > 1 ? vec : 0;
    }
    return sreg_has_components(o->sreg) ? 4 : 0;
}

/* ".x" or ".h0" behind a register, if there is one */
static bool suffix(struct sg_px *p, struct sg_ptx_opnd *o)
{
    size_t i = 0;

    if (!sg_px_is(p, SG_TOK_DOT))
        return true;
    while (i < TB_ARRAY_LEN(suffixes) && !sg_px_word(p, SG_TOK_DOT, suffixes[i].word))
        i++;
    if (i == TB_ARRAY_LEN(suffixes))
        return sg_px_unexpected(p, "a component of a register");
    if (suffixes[i].half) {
        if (o->kind != SG_OPND_REG)
            return sg_px_unexpected(p, "a component of a special register");
        o->half = suffixes[i].half;
    } else {
        if (suffixes[i].comp >= components(p, o))
            return sg_px_unexpected(p, "a component that the register has");
        o->comp = suffixes[i].comp;
        o->has_comp = true;
    }
    sg_px_next(p);
    return true;
}

static void set_register(struct sg_ptx_opnd *o, const struct sg_px_sym *sym)
{
    if (sym->kind == SG_SYM_REG) {
        o->kind = SG_OPND_REG;
        o->reg = sym->value;
    } else {
        o->kind = SG_OPND_SREG;
        o->sreg = sym->value;
        o->comp = sym->comp;
        o->has_comp = sym->has_comp;
    }
}

/* A name: register, variable or function; without what may follow a variable */
static bool symbol(struct sg_px *p, struct sg_ptx_opnd *o)
{
    struct sg_px_name *name = sg_px_intern_tok(p);
    struct sg_px_sym *sym = NULL;
    uint32_t line = p->tok.line;

    if (!name || !sg_px_lookup(p, name, &sym))
        return false;
    if (!sym)
        return sg_px_fail(p, TB_ERR_FORMAT, line, "'%.100s' is not declared", name->text);
    sg_px_next(p);
    switch (sym->kind) {
    case SG_SYM_REG:
    case SG_SYM_SREG:
        set_register(o, sym);
        return suffix(p, o);
    case SG_SYM_VAR:
        o->kind = SG_OPND_VAR;
        o->var = &sym->var->var;
        p->uses_vars = true;
        return true;
    case SG_SYM_PARAM:
        o->kind = SG_OPND_VAR;
        o->var = sym->param;
        return true;
    case SG_SYM_FUNC:
        o->kind = SG_OPND_FUNC;
        o->func = sym->func;
        return true;
    default:
        return sg_px_fail(p, TB_ERR_FORMAT, line, "label '%.100s' is no value", name->text);
    }
}

static bool constant(struct sg_px *p, struct sg_ptx_opnd *o)
{
    struct sg_px_val v = {0};

    if (!sg_px_const(p, &v))
        return false;
    if (v.kind == SG_VAL_F64) {
        o->kind = SG_OPND_FIMM;
        o->is_f32 = v.is_f32;
        o->f32 = v.is_f32 ? v.f32 : 0;
        o->f64 = v.f;
    } else {
        o->kind = SG_OPND_IMM;
        o->imm = v.i;
    }
    return true;
}

/* Operands up to @close (behind it), in the arena */
static bool members(struct sg_px *p, int close, const struct sg_ptx_opnd **out, uint32_t *n)
{
    size_t mark = p->stack.n;
    struct sg_ptx_opnd o;
    bool ok;

    while (!sg_px_is(p, close)) {
        if (p->stack.n - mark == SG_PX_MAX_MEMBERS)
            return sg_px_fail(p, TB_ERR_LIMIT, p->tok.line, "list of more than %d operands",
                              SG_PX_MAX_MEMBERS);
        if (!sg_px_operand(p, &o, true) || !sg_px_room(p, &p->stack, 1, sizeof(o)))
            return false;
        ((struct sg_ptx_opnd *)p->stack.data)[p->stack.n++] = o;
        if (!sg_px_is(p, close) && !sg_px_expect(p, ',', "',' between operands"))
            return false;
    }
    sg_px_next(p);
    *n = (uint32_t)(p->stack.n - mark);
    ok = *n == 0 || sg_px_keep(p, (struct sg_ptx_opnd *)p->stack.data + mark, *n, sizeof(o), out);
    p->stack.n = mark;
    return ok;
}

bool sg_px_list(struct sg_px *p, int close, struct sg_ptx_opnd *out)
{
    bool ok;

    out->kind = SG_OPND_VEC;
    if (++p->list_depth > SG_PX_MAX_LIST)
        return sg_px_fail(p, TB_ERR_LIMIT, p->tok.line, "operand is nested too deep");
    ok = members(p, close, &out->sub, &out->n);
    p->list_depth--;
    return ok;
}

static bool base_of_address(struct sg_px *p, struct sg_ptx_opnd *base, int64_t *offset)
{
    uint32_t line = p->tok.line;

    if (!sg_px_is(p, SG_TOK_IDENT) || sg_px_word(p, SG_TOK_IDENT, "WARP_SZ")) {
        if (!constant(p, base))
            return false;
    } else if (!symbol(p, base) || !sg_px_offset(p, offset)) {
        return false;
    }
    if (base->kind == SG_OPND_REG || base->kind == SG_OPND_VAR || base->kind == SG_OPND_IMM)
        return true;
    return sg_px_fail(p, TB_ERR_FORMAT, line, "address is no register, variable or integer");
}

/* behind the '[' */
static bool address(struct sg_px *p, struct sg_ptx_opnd *out)
{
    const struct sg_ptx_opnd *rest = NULL;
    struct sg_ptx_opnd base = {0}, *sub;
    uint32_t nrest = 0;

    out->kind = SG_OPND_ADDR;
    if (++p->list_depth > SG_PX_MAX_LIST)
        return sg_px_fail(p, TB_ERR_LIMIT, p->tok.line, "operand is nested too deep");
    if (!base_of_address(p, &base, &out->imm))
        return false;
    if (sg_px_accept(p, ',')) { /* coordinates in a texture or tensor */
        if (!members(p, ']', &rest, &nrest))
            return false;
    } else if (!sg_px_expect(p, ']', "']' of an address")) {
        return false;
    }
    sub = sg_px_get(p, (1 + nrest) * sizeof(*sub));
    if (!sub)
        return false;
    sub[0] = base;
    if (nrest)
        memcpy(sub + 1, rest, nrest * sizeof(*sub));
    out->sub = sub;
    out->n = 1 + nrest;
    p->list_depth--;
    return true;
}

/* "x[3]": the element's address, or what is there; behind the '[' */
static bool element(struct sg_px *p, struct sg_ptx_opnd *o, bool is_address)
{
    uint32_t line = p->tok.line;
    struct sg_ptx_opnd *sub;
    struct sg_px_val v = {0};

    if (sg_px_is(p, SG_TOK_IDENT))
        return sg_px_fail(p, TB_ERR_UNSUPPORTED, line,
                          "'%.100s[...]': only a constant may be index", o->var->name);
    if (!sg_px_const(p, &v) || !sg_px_expect(p, ']', "']' of an index"))
        return false;
    if (v.kind == SG_VAL_F64)
        return sg_px_fail(p, TB_ERR_FORMAT, line, "index is no integer");
    o->imm = (int64_t)(v.u * o->var->elem_size);
    if (is_address)
        return true;
    sub = sg_px_get(p, sizeof(*sub));
    if (!sub)
        return false;
    sub->kind = SG_OPND_VAR;
    sub->var = o->var;
    o->kind = SG_OPND_ADDR;
    o->var = NULL;
    o->n = 1;
    o->sub = sub;
    return true;
}

static bool named(struct sg_px *p, struct sg_ptx_opnd *o, bool index_is_address)
{
    if (sg_px_word(p, SG_TOK_IDENT, "_")) {
        o->kind = SG_OPND_SINK;
        sg_px_next(p);
        return true;
    }
    if (!symbol(p, o))
        return false;
    if (o->kind != SG_OPND_VAR)
        return true;
    if (sg_px_accept(p, '['))
        return element(p, o, index_is_address);
    return sg_px_offset(p, &o->imm);
}

/* '!' or '-' before a register, not before a constant */
static bool negates_name(struct sg_px *p)
{
    char c;

    if (!sg_px_is(p, '!') && !sg_px_is(p, '-'))
        return false;
    c = sg_px_peek(p);
    return (c == '%' || c == '_' || c == '$' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) &&
           strncmp(p->cur, "WARP_SZ", 7) != 0;
}

static bool one(struct sg_px *p, struct sg_ptx_opnd *o, bool index_is_address)
{
    uint32_t line = p->tok.line;

    memset(o, 0, sizeof(*o));
    if (sg_px_accept(p, '['))
        return address(p, o);
    if (sg_px_accept(p, '{'))
        return sg_px_list(p, '}', o);
    if (sg_px_is(p, SG_TOK_IDENT) && !sg_px_word(p, SG_TOK_IDENT, "WARP_SZ"))
        return named(p, o, index_is_address);
    if (!negates_name(p))
        return sg_px_starts_const(p) || sg_px_is(p, SG_TOK_IDENT)
                   ? constant(p, o)
                   : sg_px_unexpected(p, "an operand");
    sg_px_next(p);
    if (!symbol(p, o))
        return false;
    o->neg = true;
    return o->kind == SG_OPND_REG ||
           sg_px_fail(p, TB_ERR_FORMAT, line, "only a register can be negated");
}

bool sg_px_operand(struct sg_px *p, struct sg_ptx_opnd *out, bool index_is_address)
{
    struct sg_ptx_opnd pair[2], *sub = NULL;
    uint32_t line = p->tok.line;

    if (!one(p, out, index_is_address))
        return false;
    if (!sg_px_accept(p, '|'))
        return true;
    pair[0] = *out;
    if (!one(p, &pair[1], index_is_address))
        return false;
    for (int i = 0; i < 2; i++)
        if (pair[i].kind != SG_OPND_REG && pair[i].kind != SG_OPND_SINK)
            return sg_px_fail(p, TB_ERR_FORMAT, line, "pair 'd|p' is not of registers");
    if (!sg_px_keep(p, pair, 2, sizeof(pair[0]), &sub))
        return false;
    memset(out, 0, sizeof(*out));
    out->kind = SG_OPND_PAIR;
    out->n = 2;
    out->sub = sub;
    return true;
}

/* A label or table, defined before or behind; sg_px_insn() registers it to be resolved. */
bool sg_px_label_operand(struct sg_px *p, struct sg_ptx_opnd *out)
{
    struct sg_px_name *name = sg_px_intern_tok(p);

    if (!name)
        return false;
    memset(out, 0, sizeof(*out));
    out->kind = SG_OPND_LABEL;
    out->sub = (const struct sg_ptx_opnd *)name;
    sg_px_next(p);
    return true;
}
