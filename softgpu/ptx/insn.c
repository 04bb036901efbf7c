/* One instruction: guard, opcode, modifiers, operands. */
#include "softgpu/ptx/ptx_internal.h"

#include <stdio.h>

static bool guard(struct sg_px *p, struct sg_ptx_insn *in)
{
    struct sg_px_sym *sym = NULL;
    struct sg_px_name *name;
    uint32_t line = p->tok.line;

    sg_px_next(p);
    in->guard_neg = sg_px_accept(p, '!');
    name = sg_px_intern_tok(p);
    if (!name || !sg_px_lookup(p, name, &sym))
        return false;
    if (!sym || sym->kind != SG_SYM_REG ||
        ((const struct sg_ptx_reg *)p->regs.data)[sym->value].type != SG_M_PRED)
        return sg_px_fail(p, TB_ERR_FORMAT, line, "guard '%.100s' is no predicate register",
                          name->text);
    in->guarded = true;
    in->guard = sym->value;
    sg_px_next(p);
    return true;
}

/* The instruction as far as it was read, for messages: "cvt.rn.f32" */
static const char *spell(const struct sg_ptx_insn *in, char *text, size_t size)
{
    size_t n = strlen(sg_ptx_op_name(in->op));

    memcpy(text, sg_ptx_op_name(in->op), n);
    for (unsigned i = 0; i < in->nmods; i++) {
        const char *mod = sg_ptx_mod_name(in->mods[i]);

        if (n + strlen(mod) + 2 > size)
            break;
        text[n++] = '.';
        memcpy(text + n, mod, strlen(mod));
        n += strlen(mod);
    }
    text[n] = 0;
    return text;
}

static bool opcode(struct sg_px *p, struct sg_ptx_insn *in)
{
    char text[200];

    if (!sg_px_is(p, SG_TOK_IDENT))
        return sg_px_unexpected(p, "an instruction");
    in->line = p->tok.line;
    in->op = (uint16_t)sg_px_find_op(p, &p->tok);
    if (in->op == SG_OP_NONE)
        return sg_px_fail(p, TB_ERR_FORMAT, in->line, "unknown instruction '%.*s'",
                          sg_px_cut(&p->tok), p->tok.s);
    for (sg_px_next(p); sg_px_is(p, SG_TOK_DOT); sg_px_next(p)) {
        enum sg_ptx_mod mod = sg_px_find_mod(p, &p->tok);

        if (mod == SG_M_NONE)
            return sg_px_fail(p, TB_ERR_FORMAT, p->tok.line, "unknown modifier '.%.*s' of '%s'",
                              sg_px_cut(&p->tok), p->tok.s, spell(in, text, sizeof(text)));
        if (in->nmods == SG_PTX_MAX_MODS)
            return sg_px_fail(p, TB_ERR_LIMIT, p->tok.line, "more than %d modifiers of '%s'",
                              SG_PTX_MAX_MODS, spell(in, text, sizeof(text)));
        in->mods[in->nmods++] = (uint16_t)mod;
    }
    return true;
}

/* (ret), callee, (args), table: see ptx.h */
static bool call(struct sg_px *p, struct sg_ptx_opnd *o, uint8_t *n)
{
    uint32_t line;

    memset(o, 0, 4 * sizeof(*o));
    o[0].kind = o[2].kind = SG_OPND_VEC;
    if (sg_px_accept(p, '(') &&
        (!sg_px_list(p, ')', &o[0]) || !sg_px_expect(p, ',', "',' behind the results of call")))
        return false;
    line = p->tok.line;
    if (!sg_px_operand(p, &o[1], true))
        return false;
    if (o[1].kind != SG_OPND_FUNC && o[1].kind != SG_OPND_REG)
        return sg_px_fail(p, TB_ERR_FORMAT, line, "target of call is no function or register");
    *n = 3;
    if (!sg_px_accept(p, ','))
        return true;
    if (sg_px_accept(p, '(')) {
        if (!sg_px_list(p, ')', &o[2]))
            return false;
        if (!sg_px_accept(p, ','))
            return true;
    }
    *n = 4;
    return sg_px_label_operand(p, &o[3]);
}

/* Which operand of @op is a label: a mask */
static unsigned label_operands(unsigned op)
{
    return op == SG_OP_BRA ? 1 : op == SG_OP_BRX ? 2 : 0;
}

static bool operands(struct sg_px *p, struct sg_ptx_insn *in, struct sg_ptx_opnd *o)
{
    bool index_is_address = in->op == SG_OP_MOV || in->op == SG_OP_CVTA;
    char text[200];

    if (sg_px_is(p, ';'))
        return true;
    if (in->op == SG_OP_CALL)
        return call(p, o, &in->nopnds);
    do {
        unsigned i = in->nopnds;

        if (i == SG_PTX_MAX_OPNDS)
            return sg_px_fail(p, TB_ERR_LIMIT, p->tok.line, "more than %d operands of '%s'",
                              SG_PTX_MAX_OPNDS, spell(in, text, sizeof(text)));
        if (label_operands(in->op) >> i & 1 ? !sg_px_label_operand(p, &o[i])
                                            : !sg_px_operand(p, &o[i], index_is_address))
            return false;
        in->nopnds++;
    } while (sg_px_accept(p, ','));
    return true;
}

static bool within(const struct sg_ptx_var *v, const struct sg_ptx_var *table, uint32_t n)
{
    return n > 0 && v >= table && v < table + n;
}

/* Remembers operands that name variables whose place in the table is not known yet. */
static bool note_vars(struct sg_px *p, const struct sg_ptx_opnd *o, uint32_t n)
{
    const struct sg_ptx_func *f = p->func;

    for (uint32_t i = 0; i < n; i++) {
        if (o[i].sub && !note_vars(p, o[i].sub, o[i].n))
            return false;
        if (o[i].kind != SG_OPND_VAR || within(o[i].var, f->params, f->nparams) ||
            within(o[i].var, f->rets, f->nrets))
            continue;
        if (!sg_px_room(p, &p->fixups, 1, sizeof(o)))
            return false;
        ((const struct sg_ptx_opnd **)p->fixups.data)[p->fixups.n++] = &o[i];
    }
    return true;
}

/* Operands move to where they stay; labels are resolved when their scope ends. */
static bool keep(struct sg_px *p, struct sg_ptx_insn *in, const struct sg_ptx_opnd *o)
{
    struct sg_ptx_opnd *mem = NULL;

    if (!sg_px_keep(p, o, in->nopnds, sizeof(*o), &mem))
        return false;
    in->opnds = mem;
    for (unsigned i = 0; i < in->nopnds; i++) {
        struct sg_px_name *name = (struct sg_px_name *)mem[i].sub;

        if (mem[i].kind != SG_OPND_LABEL)
            continue;
        mem[i].sub = NULL;
        if (!sg_px_want_label(p, name, &mem[i], NULL, in->line))
            return false;
    }
    return !p->uses_vars || note_vars(p, mem, in->nopnds);
}

bool sg_px_insn(struct sg_px *p)
{
    struct sg_ptx_opnd o[SG_PTX_MAX_OPNDS];
    struct sg_ptx_insn in = {.file = p->loc_file, .src_line = p->loc_line};
    char text[200];

    p->uses_vars = false;
    if ((sg_px_is(p, '@') && !guard(p, &in)) || !opcode(p, &in) || !operands(p, &in, o))
        return false;
    if (!sg_px_is(p, ';')) {
        snprintf(text, sizeof(text), "',' or ';' behind an operand of '");
        spell(&in, text + strlen(text), sizeof(text) - strlen(text) - 1);
        strcat(text, "'");
        return sg_px_unexpected(p, text);
    }
    sg_px_next(p);
    if (!keep(p, &in, o) || !sg_px_room(p, &p->insns, 1, sizeof(in)))
        return false;
    ((struct sg_ptx_insn *)p->insns.data)[p->insns.n++] = in;
    return true;
}
