/* Parses the PTX of a test and finds things in it. */
#ifndef TESTS_SOFTGPU_PTX_PARSE_H
#define TESTS_SOFTGPU_PTX_PARSE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "softgpu/ptx/ptx.h"

/* Lines 1 to 3; what a test appends begins in line 4. */
#define PTX_HEAD ".version 8.7\n.target sm_80\n.address_size 64\n"
#define PTX_BODY(text) PTX_HEAD ".visible .entry k() {" text "}"
#define PTX_BODY_LINE 4

static inline struct sg_ptx_module *parse(const char *text)
{
    struct sg_ptx_module *m = NULL;
    struct tb_error err = {0};

    if (sg_ptx_parse(text, strlen(text), "test", &m, &err) != TB_OK)
        fail_msg("%s", err.text);
    assert_non_null(m);
    return m;
}

static inline const struct sg_ptx_func *func_named(const struct sg_ptx_module *m, const char *name)
{
    for (uint32_t i = 0; i < m->nfuncs; i++)
        if (strcmp(m->funcs[i]->name, name) == 0)
            return m->funcs[i];
    fail_msg("no function '%s'", name);
    return NULL;
}

static inline const struct sg_ptx_var *var_named(const struct sg_ptx_var *v, uint32_t n,
                                                 const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(v[i].name, name) == 0)
            return &v[i];
    fail_msg("no variable '%s'", name);
    return NULL;
}

static inline const char *reg_name(const struct sg_ptx_func *f, const struct sg_ptx_opnd *o)
{
    assert_int_equal(o->kind, SG_OPND_REG);
    assert_true(o->reg < f->nregs);
    return f->regs[o->reg].name;
}

/* The modifiers as text: ".lo.s32" */
static inline void assert_mods(const struct sg_ptx_insn *in, const char *text)
{
    char buf[256] = "";

    for (unsigned i = 0; i < in->nmods; i++) {
        strncat(buf, ".", sizeof(buf) - strlen(buf) - 1);
        strncat(buf, sg_ptx_mod_name(in->mods[i]), sizeof(buf) - strlen(buf) - 1);
    }
    assert_string_equal(buf, text);
}

#endif
