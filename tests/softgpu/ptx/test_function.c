/* Functions: parameters, scopes, labels, tables, calls, directives. */
#include "tests/softgpu/ptx/parse.h"

static void test_params__are_laid_out_by_alignment(void **state)
{
    struct sg_ptx_module *m = parse(PTX_HEAD ".visible .entry k(\n"
                                             ".param .u8 a,\n"
                                             ".param .u64 .ptr .global .align 32 b,\n"
                                             ".param .u16 c,\n"
                                             ".param .align 16 .b8 d[20],\n"
                                             ".param .u32 e,\n"
                                             ".param .v2 .f32 f,\n"
                                             ".param .b64 .ptr g[2])\n{ ret; }");
    const struct sg_ptx_func *k = func_named(m, "k");
    static const struct {
        const char *name;
        uint64_t offset, size;
        uint32_t align;
    } want[] = {{"a", 0, 1, 1},  {"b", 8, 8, 8},  {"c", 16, 2, 2}, {"d", 32, 20, 16},
                {"e", 52, 4, 4}, {"f", 56, 8, 8}, {"g", 64, 16, 8}};

    (void)state;
    assert_true(k->is_entry && k->has_body);
    assert_int_equal(k->linkage, SG_LINK_VISIBLE);
    assert_int_equal(k->nparams, TB_ARRAY_LEN(want));
    assert_int_equal(k->param_bytes, 80);
    for (size_t i = 0; i < TB_ARRAY_LEN(want); i++) {
        assert_string_equal(k->params[i].name, want[i].name);
        assert_int_equal(k->params[i].offset, want[i].offset);
        assert_int_equal(k->params[i].size, want[i].size);
        assert_int_equal(k->params[i].align, want[i].align);
        assert_int_equal(k->params[i].space, SG_SPACE_PARAM);
        assert_int_equal(k->params[i].index, i);
    }
    sg_ptx_free(m);
}

static void test_params__may_be_registers_of_a_function(void **state)
{
    struct sg_ptx_module *m =
        parse(PTX_HEAD ".func (.reg .b32 r, .reg .pred p) f(.reg .f64 d, .reg .v2 .f32 v)\n"
                       "{ mov.f32 v.y, 0f00000000; @p mov.b32 r, 1; ret; }");
    const struct sg_ptx_func *f = func_named(m, "f");

    (void)state;
    assert_int_equal(f->nrets, 2);
    assert_true(f->rets[0].in_register && f->params[1].in_register);
    assert_string_equal(f->regs[f->rets[1].reg].name, "p");
    assert_int_equal(f->regs[f->rets[1].reg].type, SG_M_PRED);
    assert_int_equal(f->regs[f->params[1].reg].vec, 2);
    assert_int_equal(f->insns[0].opnds[0].reg, f->params[1].reg);
    assert_int_equal(f->insns[1].guard, f->rets[1].reg);
    assert_int_equal(f->insns[1].opnds[0].reg, f->rets[0].reg);
    sg_ptx_free(m);
}

static void test_directives__of_tuning_are_read(void **state)
{
    struct sg_ptx_module *m = parse(
        PTX_HEAD
        ".entry k() .maxntid 128 .minnctapersm 2 .maxnreg 40 .pragma \"x\", \"y\"; { ret; }\n"
        ".entry l() .reqntid 8, 4, 2 .maxnctapersm 3 .reqnctapercluster 2,1 .explicitcluster\n"
        ".maxclusterrank 8 .blocksareclusters { ret; }\n"
        ".func n(.param .b32 a) .noreturn .abi_preserve 4 ;\n.entry e();\n");
    const struct sg_ptx_func *k = func_named(m, "k"), *l = func_named(m, "l");

    (void)state;
    assert_int_equal(k->maxntid[0], 128);
    assert_int_equal(k->maxntid[1], 1);
    assert_int_equal(k->maxntid[2], 1);
    assert_int_equal(k->reqntid[0], 0);
    assert_int_equal(k->minnctapersm, 2);
    assert_int_equal(k->maxnreg, 40);
    assert_int_equal(l->reqntid[0], 8);
    assert_int_equal(l->reqntid[2], 2);
    assert_int_equal(l->maxnctapersm, 3);
    assert_int_equal(l->reqnctapercluster[0], 2);
    assert_int_equal(l->reqnctapercluster[2], 1);
    assert_int_equal(l->maxclusterrank, 8);
    assert_true(l->explicitcluster && !k->explicitcluster);
    assert_true(func_named(m, "n")->noreturn && !func_named(m, "n")->has_body);
    assert_true(func_named(m, "e")->is_entry && !func_named(m, "e")->has_body);
    sg_ptx_free(m);
}

static void test_scopes__hide_what_is_outside(void **state)
{
    struct sg_ptx_module *m = parse(PTX_BODY(".reg .b32 r<20>, q; .reg .b64 u;\n"
                                             "mov.b32 r12, q;\n"
                                             "{ .reg .f32 r1<4>; .reg .b64 q; .reg .b32 r13x;\n"
                                             "mov.b32 r12, q; mov.b32 r15, r13x;\n"
                                             "{ mov.b32 r12, r3; } }\n"
                                             "mov.b32 r12, q; mov.b32 r13, r14; ret;"));
    const struct sg_ptx_func *f = func_named(m, "k");
    const struct sg_ptx_insn *in = f->insns;

    (void)state;
    assert_int_equal(f->ninsns, 7);
    assert_int_equal(in[0].opnds[0].reg, in[4].opnds[0].reg);
    assert_int_equal(in[0].opnds[1].reg, in[4].opnds[1].reg);
    assert_int_not_equal(in[0].opnds[0].reg, in[1].opnds[0].reg);
    assert_int_equal(in[1].opnds[0].reg, in[3].opnds[0].reg);
    assert_int_equal(f->regs[in[1].opnds[0].reg].type, SG_M_F32); /* member 2 of r1<4> */
    assert_int_equal(f->regs[in[0].opnds[0].reg].type, SG_M_B32); /* member 12 of r<20> */
    assert_int_equal(f->regs[in[1].opnds[1].reg].type, SG_M_B64);
    assert_string_equal(reg_name(f, &in[2].opnds[0]), "r15"); /* not in r1<4>: r<20> */
    assert_int_equal(f->regs[in[2].opnds[0].reg].type, SG_M_B32);
    sg_ptx_free(m);
}

static void test_scopes__keep_variables_of_one_name_apart(void **state)
{
    struct sg_ptx_module *m =
        parse(PTX_HEAD ".global .u32 x;\n.visible .entry k(.param .u32 y) { .reg .b32 r;\n"
                       "st.global.u32 [x], r;\n"
                       "{ .param .b32 x; st.param.b32 [x], r; .param .align 8 .b8 z[12]; }\n"
                       "{ .param .b64 x; st.param.b64 [x+4], r; }\n"
                       "{ .shared .u32 y; st.shared.u32 [y], r; }\n"
                       "ld.param.u32 r, [y]; st.global.u32 [x], r; ret; }");
    const struct sg_ptx_func *f = func_named(m, "k");
    const struct sg_ptx_insn *in = f->insns;

    (void)state;
    assert_int_equal(f->nvars, 4);
    assert_ptr_equal(in[0].opnds[0].sub[0].var, &m->vars[0]);
    assert_ptr_equal(in[1].opnds[0].sub[0].var, &f->vars[0]);
    assert_ptr_equal(in[2].opnds[0].sub[0].var, &f->vars[2]);
    assert_int_equal(in[2].opnds[0].imm, 4);
    assert_ptr_equal(in[3].opnds[0].sub[0].var, &f->vars[3]);
    assert_ptr_equal(in[4].opnds[1].sub[0].var, &f->params[0]);
    assert_ptr_equal(in[5].opnds[0].sub[0].var, &m->vars[0]);
    assert_int_equal(f->vars[1].size, 12);
    assert_int_equal(f->vars[3].space, SG_SPACE_SHARED);
    sg_ptx_free(m);
}

static void test_labels__resolve_to_the_innermost_scope(void **state)
{
    struct sg_ptx_module *m = parse(PTX_BODY("L: bra L;\n"           /* 0 -> 0 */
                                             "{ bra L; L: bra L;\n"  /* 1, 2 -> 2 */
                                             "  { bra M; bra N; }\n" /* 3 -> 5, 4 -> 6 */
                                             "M: }\n"
                                             "{ M: bra M; }\n"     /* 5 -> 5 */
                                             "bra END; N: END:")); /* 6 -> 7 */
    static const uint32_t want[] = {0, 2, 2, 5, 7, 5, 7};
    const struct sg_ptx_func *f = func_named(m, "k");

    (void)state;
    assert_int_equal(f->ninsns, TB_ARRAY_LEN(want));
    for (size_t i = 0; i < TB_ARRAY_LEN(want); i++) {
        assert_int_equal(f->insns[i].opnds[0].kind, SG_OPND_LABEL);
        assert_int_equal(f->insns[i].opnds[0].target, want[i]);
    }
    sg_ptx_free(m);
}

static void test_tables__of_branches_before_and_behind(void **state)
{
    struct sg_ptx_module *m =
        parse(PTX_BODY(".reg .b32 r; T: .branchtargets A, B, A; brx.idx r, T; A: ret; B:\n"
                       "brx.idx.uni r, U; U: .branchtargets A;"));
    const struct sg_ptx_func *f = func_named(m, "k");
    const struct sg_ptx_opnd *o = &f->insns[0].opnds[1];

    (void)state;
    assert_int_equal(o->kind, SG_OPND_TABLE);
    assert_int_equal(o->table->kind, SG_TABLE_BRANCH);
    assert_string_equal(o->table->name, "T");
    assert_int_equal(o->table->n, 3);
    assert_int_equal(o->table->targets[0], 1);
    assert_int_equal(o->table->targets[1], 2);
    assert_int_equal(o->table->targets[2], 1);
    assert_int_equal(f->insns[2].opnds[1].kind, SG_OPND_TABLE);
    assert_int_equal(f->insns[2].opnds[1].table->targets[0], 1);
    sg_ptx_free(m);
}

static void test_calls__are_normalised(void **state)
{
    struct sg_ptx_module *m = parse(
        PTX_HEAD ".func f; .func g(.param .b32 a); .func (.param .b32 r) h(.param .b32 a);\n"
                 ".entry k() { .reg .b64 p; .param .b32 x, y;\n"
                 "call f;\n"
                 "call.uni g, (x);\n"
                 "call (y), h, (x);\n"
                 "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .align 8 .b8 _[12]);\n"
                 "call (y), p, (x, y), P;\n"
                 "T: .calltargets f, g;\n"
                 "call p, T;\n"
                 "call (_), h, (3); ret; }");
    const struct sg_ptx_func *f = func_named(m, "k");
    static const struct {
        uint8_t nopnds, rets, args;
        uint8_t callee;
    } want[] = {{3, 0, 0, SG_OPND_FUNC}, {3, 0, 1, SG_OPND_FUNC}, {3, 1, 1, SG_OPND_FUNC},
                {4, 1, 2, SG_OPND_REG},  {4, 0, 0, SG_OPND_REG},  {3, 1, 1, SG_OPND_FUNC}};
    const struct sg_ptx_table *t;

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(want); i++) {
        const struct sg_ptx_insn *in = &f->insns[i];

        assert_int_equal(in->op, SG_OP_CALL);
        assert_int_equal(in->nopnds, want[i].nopnds);
        assert_int_equal(in->opnds[0].kind, SG_OPND_VEC);
        assert_int_equal(in->opnds[0].n, want[i].rets);
        assert_int_equal(in->opnds[1].kind, want[i].callee);
        assert_int_equal(in->opnds[2].kind, SG_OPND_VEC);
        assert_int_equal(in->opnds[2].n, want[i].args);
    }
    assert_string_equal(f->insns[2].opnds[1].func->name, "h");
    assert_string_equal(f->insns[2].opnds[2].sub[0].var->name, "x");
    assert_int_equal(f->insns[5].opnds[0].sub[0].kind, SG_OPND_SINK);
    assert_int_equal(f->insns[5].opnds[2].sub[0].imm, 3);
    t = f->insns[3].opnds[3].table;
    assert_int_equal(t->kind, SG_TABLE_PROTOTYPE);
    assert_int_equal(t->nrets, 1);
    assert_int_equal(t->nparams, 2);
    assert_int_equal(t->params[1].size, 12);
    assert_int_equal(t->params[1].offset, 8);
    t = f->insns[4].opnds[3].table;
    assert_int_equal(t->kind, SG_TABLE_CALLEES);
    assert_int_equal(t->n, 2);
    assert_string_equal(t->callees[1]->name, "g");
    sg_ptx_free(m);
}

static void test_functions__are_one_when_declared_and_defined(void **state)
{
    struct sg_ptx_module *m =
        parse(PTX_HEAD ".func (.param .b32 r) f(.param .b32 a);\n"
                       ".global .u64 p = f;\n"
                       ".visible .func (.param .b32 r) f(.param .b32 b) { .param .b32 x;\n"
                       "call (x), f, (x); ld.param.b32 _, [b]; ret; }\n"
                       ".func (.param .b32 r) f(.param .b32 c);\n"
                       ".extern .func ext(.param .b64 a, .param .b64 b);\n");
    const struct sg_ptx_func *f = func_named(m, "f");

    (void)state;
    assert_int_equal(m->nfuncs, 2);
    assert_true(f->has_body);
    assert_int_equal(f->linkage, SG_LINK_VISIBLE);
    assert_int_equal(f->line, 6);
    assert_ptr_equal(f->module, m);
    assert_ptr_equal(f->insns[0].opnds[1].func, f);
    assert_ptr_equal(f->insns[1].opnds[1].sub[0].var, &f->params[0]);
    assert_string_equal(f->params[0].name, "b");
    assert_int_equal(func_named(m, "ext")->linkage, SG_LINK_EXTERN);
    assert_int_equal(func_named(m, "ext")->param_bytes, 16);
    sg_ptx_free(m);
}

static void test_vars__of_functions_may_have_any_space(void **state)
{
    struct sg_ptx_module *m = parse(PTX_BODY(".global .u32 g = 4; .const .u32 c; .shared .u16 s;\n"
                                             ".extern .shared .b8 d[]; .local .v2 .f32 l[3];\n"
                                             ".param .b32 n<3>; .reg .b64 a; mov.u64 a, n2; ret;"));
    const struct sg_ptx_func *f = func_named(m, "k");

    (void)state;
    assert_int_equal(f->nvars, 8);
    assert_int_equal(f->vars[0].init[0], 4);
    assert_int_equal(f->vars[3].linkage, SG_LINK_EXTERN);
    assert_int_equal(f->vars[4].size, 24);
    assert_string_equal(f->vars[7].name, "n2");
    assert_ptr_equal(f->insns[0].opnds[1].var, &f->vars[7]);
    sg_ptx_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params__are_laid_out_by_alignment),
        cmocka_unit_test(test_params__may_be_registers_of_a_function),
        cmocka_unit_test(test_directives__of_tuning_are_read),
        cmocka_unit_test(test_scopes__hide_what_is_outside),
        cmocka_unit_test(test_scopes__keep_variables_of_one_name_apart),
        cmocka_unit_test(test_labels__resolve_to_the_innermost_scope),
        cmocka_unit_test(test_tables__of_branches_before_and_behind),
        cmocka_unit_test(test_calls__are_normalised),
        cmocka_unit_test(test_functions__are_one_when_declared_and_defined),
        cmocka_unit_test(test_vars__of_functions_may_have_any_space),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
