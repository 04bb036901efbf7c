/* Reads all of a parsed module and aborts where it breaks what ptx.h promises; for fuzzing. */
#ifndef TESTS_SOFTGPU_PTX_WALK_H
#define TESTS_SOFTGPU_PTX_WALK_H

#include "softgpu/ptx/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WALK_CHECK(x)                                                                              \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #x);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct walk {
    const struct sg_ptx_module *m;
    const struct sg_ptx_func *f;
    uint64_t sum; /* of what was read, so that nothing is optimised away */
};

static inline void walk_text(struct walk *w, const char *s)
{
    WALK_CHECK(s != NULL);
    for (; *s; s++)
        w->sum = w->sum * 31 + (unsigned char)*s;
}

static inline bool walk_in(const struct sg_ptx_var *v, const struct sg_ptx_var *table, uint32_t n)
{
    return n > 0 && v >= table && v < table + n && v == &table[v->index];
}

static inline bool walk_var_known(const struct walk *w, const struct sg_ptx_var *v)
{
    const struct sg_ptx_func *f = w->f;

    return walk_in(v, f->vars, f->nvars) || walk_in(v, f->params, f->nparams) ||
           walk_in(v, f->rets, f->nrets) || walk_in(v, w->m->vars, w->m->nvars);
}

static inline bool walk_func_known(const struct walk *w, const struct sg_ptx_func *f)
{
    for (uint32_t i = 0; i < w->m->nfuncs; i++)
        if (w->m->funcs[i] == f)
            return true;
    return false;
}

static inline void walk_vars(struct walk *w, const struct sg_ptx_var *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, v++) {
        walk_text(w, v->name);
        WALK_CHECK(v->index == i && v->align > 0 && (v->align & (v->align - 1)) == 0);
        WALK_CHECK(v->elem_size > 0 && v->line > 0 && v->offset % v->align == 0);
        WALK_CHECK(!v->init || v->size > 0);
        for (uint64_t k = 0; v->init && k < v->size && k < 4096; k++)
            w->sum += v->init[k];
        for (uint32_t k = 0; k < v->nrelocs; k++) {
            const struct sg_ptx_reloc *r = &v->relocs[k];

            walk_text(w, r->symbol);
            WALK_CHECK(r->size == 1 || r->size == 4 || r->size == 8);
            WALK_CHECK(r->offset + r->size <= v->size && r->shift < 8);
        }
    }
}

static inline void walk_table(struct walk *w, const struct sg_ptx_table *t)
{
    WALK_CHECK(t != NULL);
    walk_text(w, t->name);
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->kind == SG_TABLE_BRANCH)
            WALK_CHECK(t->targets[i] <= w->f->ninsns);
        else
            WALK_CHECK(walk_func_known(w, t->callees[i]));
    }
    walk_vars(w, t->params, t->nparams);
    walk_vars(w, t->rets, t->nrets);
}

static inline void walk_opnd(struct walk *w, const struct sg_ptx_opnd *o)
{
    w->sum += o->kind + o->comp + o->half + (uint64_t)o->imm + o->f32;
    switch (o->kind) {
    case SG_OPND_REG:
        WALK_CHECK(o->reg < w->f->nregs);
        WALK_CHECK(o->comp == 0 || o->comp < w->f->regs[o->reg].vec);
        break;
    case SG_OPND_SREG:
        WALK_CHECK(o->sreg > SG_SREG_NONE && o->sreg < SG_SREG_COUNT);
        break;
    case SG_OPND_VAR:
        WALK_CHECK(walk_var_known(w, o->var));
        break;
    case SG_OPND_FUNC:
        WALK_CHECK(walk_func_known(w, o->func));
        break;
    case SG_OPND_LABEL:
        WALK_CHECK(o->target <= w->f->ninsns);
        break;
    case SG_OPND_TABLE:
        walk_table(w, o->table);
        break;
    case SG_OPND_ADDR:
        WALK_CHECK(o->n > 0);
        break;
    case SG_OPND_PAIR:
        WALK_CHECK(o->n == 2);
        break;
    default:
        WALK_CHECK(o->kind == SG_OPND_IMM || o->kind == SG_OPND_FIMM || o->kind == SG_OPND_VEC ||
                   o->kind == SG_OPND_SINK);
    }
    for (uint32_t i = 0; i < o->n; i++)
        walk_opnd(w, &o->sub[i]);
}

static inline void walk_insn(struct walk *w, const struct sg_ptx_insn *in)
{
    WALK_CHECK(in->op > SG_OP_NONE && in->op < SG_OP_COUNT && in->line > 0);
    WALK_CHECK(in->nmods <= SG_PTX_MAX_MODS && in->nopnds <= SG_PTX_MAX_OPNDS);
    WALK_CHECK(!in->guarded || w->f->regs[in->guard].type == SG_M_PRED);
    for (unsigned i = 0; i < in->nmods; i++)
        WALK_CHECK(in->mods[i] > SG_M_NONE && in->mods[i] < SG_M_COUNT);
    for (unsigned i = 0; i < in->nopnds; i++)
        walk_opnd(w, &in->opnds[i]);
    if (in->op == SG_OP_CALL && in->nopnds > 0)
        WALK_CHECK(in->nopnds >= 3 && in->opnds[0].kind == SG_OPND_VEC &&
                   in->opnds[2].kind == SG_OPND_VEC);
}

static inline uint64_t walk_module(const struct sg_ptx_module *m)
{
    struct walk w = {.m = m};

    WALK_CHECK(m->version > 0 && m->arch > 0);
    walk_vars(&w, m->vars, m->nvars);
    for (uint32_t i = 0; i < m->nfiles; i++)
        if (m->files[i])
            walk_text(&w, m->files[i]);
    for (uint32_t i = 0; i < m->nfuncs; i++) {
        const struct sg_ptx_func *f = w.f = m->funcs[i];

        walk_text(&w, f->name);
        WALK_CHECK(f->module == m && f->line > 0);
        walk_vars(&w, f->params, f->nparams);
        walk_vars(&w, f->rets, f->nrets);
        walk_vars(&w, f->vars, f->nvars);
        for (uint32_t k = 0; k < f->nregs; k++) {
            walk_text(&w, f->regs[k].name);
            WALK_CHECK(f->regs[k].vec > 0 && f->regs[k].type != SG_M_NONE);
        }
        for (uint32_t k = 0; k < f->ninsns; k++)
            walk_insn(&w, &f->insns[k]);
    }
    return w.sum;
}

/* One input: it must end with a module that holds together, or with an error that says where. */
static inline enum tb_status walk_input(const uint8_t *data, size_t n)
{
    struct sg_ptx_module *m = NULL;
    struct tb_error err = {0};
    enum tb_status st = sg_ptx_parse((const char *)data, n, "in", &m, &err);

    WALK_CHECK((st == TB_OK) == (m != NULL));
    WALK_CHECK(st == TB_OK || (err.status == st && strncmp(err.text, "in:", 3) == 0));
    if (m)
        walk_module(m);
    sg_ptx_free(m);
    return st;
}

#endif
