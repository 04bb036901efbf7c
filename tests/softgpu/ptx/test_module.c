/* Directives and variables of a module. */
#include "tests/softgpu/ptx/parse.h"

static void test_module__has_version_target_and_address_size(void **state)
{
    static const struct {
        const char *text;
        uint32_t version, arch, size;
        char suffix;
    } cases[] = {
        {".version 9.0\n.target sm_90a, debug\n.address_size 64\n", 90, 90, 64, 'a'},
        {".version 6.4 .target sm_75, texmode_independent .address_size 32", 64, 75, 32, 0},
        {"// c\n/* .version 1.0 */ .version 8.3\n.target sm_100f\n", 83, 100, 64, 'f'},
        {"#pragma x\n.version 7.0 .target texmode_unified, sm_52", 70, 52, 64, 0},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        struct sg_ptx_module *m = parse(cases[i].text);

        assert_int_equal(m->version, cases[i].version);
        assert_int_equal(m->arch, cases[i].arch);
        assert_int_equal(m->address_size, cases[i].size);
        assert_int_equal(m->arch_suffix, cases[i].suffix);
        sg_ptx_free(m);
    }
    sg_ptx_free(NULL);
}

static void test_module__text_ends_at_nul_and_at_n(void **state)
{
    static const char text[] = PTX_HEAD ".global .u32 a;\0.global .u32 b;";
    struct sg_ptx_module *m = NULL;

    (void)state;
    assert_int_equal(sg_ptx_parse(text, sizeof(text), NULL, &m, NULL), TB_OK);
    assert_int_equal(m->nvars, 1);
    sg_ptx_free(m);
    assert_int_equal(sg_ptx_parse(text, strlen(PTX_HEAD), NULL, &m, NULL), TB_OK);
    assert_int_equal(m->nvars, 0);
    sg_ptx_free(m);
}

static void test_vars__have_shape_and_linkage(void **state)
{
    struct sg_ptx_module *m = parse(PTX_HEAD ".global .align 8 .b8 s[24];\n"
                                             ".visible .const .v4 .f32 v[2][3];\n"
                                             ".weak .global .u64 w, w2[2];\n"
                                             ".common .global .u16 c;\n"
                                             ".extern .shared .align 16 .b8 dyn[];\n"
                                             ".global .attribute(.managed) .u32 mg;\n"
                                             ".global .attribute(.managed, .unified(1, 2)) .u8 u;\n"
                                             ".extern .global .u32 late; .global .u32 late;\n");
    static const struct {
        const char *name;
        enum sg_ptx_space space;
        enum sg_ptx_linkage linkage;
        enum sg_ptx_mod type;
        uint32_t elem, align;
        uint64_t size;
        bool managed;
        uint32_t line;
    } want[] = {
        {"s", SG_SPACE_GLOBAL, SG_LINK_STATIC, SG_M_B8, 1, 8, 24, false, 4},
        {"v", SG_SPACE_CONST, SG_LINK_VISIBLE, SG_M_F32, 16, 16, 96, false, 5},
        {"w", SG_SPACE_GLOBAL, SG_LINK_WEAK, SG_M_U64, 8, 8, 8, false, 6},
        {"w2", SG_SPACE_GLOBAL, SG_LINK_WEAK, SG_M_U64, 8, 8, 16, false, 6},
        {"c", SG_SPACE_GLOBAL, SG_LINK_COMMON, SG_M_U16, 2, 2, 2, false, 7},
        {"dyn", SG_SPACE_SHARED, SG_LINK_EXTERN, SG_M_B8, 1, 16, 0, false, 8},
        {"mg", SG_SPACE_GLOBAL, SG_LINK_STATIC, SG_M_U32, 4, 4, 4, true, 9},
        {"u", SG_SPACE_GLOBAL, SG_LINK_STATIC, SG_M_U8, 1, 1, 1, true, 10},
        {"late", SG_SPACE_GLOBAL, SG_LINK_STATIC, SG_M_U32, 4, 4, 4, false, 11},
    };

    (void)state;
    assert_int_equal(m->nvars, TB_ARRAY_LEN(want));
    for (size_t i = 0; i < TB_ARRAY_LEN(want); i++) {
        const struct sg_ptx_var *v = &m->vars[i];

        assert_string_equal(v->name, want[i].name);
        assert_int_equal(v->space, want[i].space);
        assert_int_equal(v->linkage, want[i].linkage);
        assert_int_equal(v->type, want[i].type);
        assert_int_equal(v->elem_size, want[i].elem);
        assert_int_equal(v->align, want[i].align);
        assert_int_equal(v->size, want[i].size);
        assert_int_equal(v->managed, want[i].managed);
        assert_int_equal(v->line, want[i].line);
        assert_int_equal(v->index, i);
        assert_null(v->init);
    }
    sg_ptx_free(m);
}

static void test_init__bytes_are_little_endian_and_padded_with_zeros(void **state)
{
    static const struct {
        const char *text;
        uint64_t size;
        uint8_t bytes[32];
    } cases[] = {
        {".global .u32 x = 0x01020304;", 4, {4, 3, 2, 1}},
        {".global .u8 x[4] = {1, 2};", 4, {1, 2, 0, 0}},
        {".global .u8 x = {7};", 1, {7}},
        {".global .u16 x[] = {1, 2, -1};", 6, {1, 0, 2, 0, 255, 255}},
        {".global .s8 x[2][3] = {{1, 2, 3}, {4, 5}};", 6, {1, 2, 3, 4, 5, 0}},
        {".global .s8 x[2][3] = {{1}, 4};", 6, {1, 0, 0, 4, 0, 0}},
        {".global .s8 x[][2] = {{1}, {3, 4}, {5}};", 6, {1, 0, 3, 4, 5, 0}},
        {".global .v2 .u16 x[2] = {{1, 2}, {3, 4}};", 8, {1, 0, 2, 0, 3, 0, 4, 0}},
        {".global .v4 .u8 x = {1, 2, 3, 4};", 4, {1, 2, 3, 4}},
        {".global .f32 x[2] = {1.0, 0fBF800000};", 8, {0, 0, 128, 63, 0, 0, 128, 191}},
        {".global .f32 x = 2;", 4, {0, 0, 0, 64}},
        {".global .f64 x = 0d3FF0000000000000;", 8, {0, 0, 0, 0, 0, 0, 240, 63}},
        {".global .f64 x = 0f3F800000;", 8, {0, 0, 0, 0, 0, 0, 240, 63}},
        {".global .b32 x = 0f7FA00001;", 4, {1, 0, 160, 127}}, /* a NaN keeps its payload */
        {".global .b64 x = 1.0;", 8, {0, 0, 0, 0, 0, 0, 240, 63}},
        {".global .u8 x[6] = {017, 0b101, 0x1fU, WARP_SZ, (2+3)*4, ~0};",
         6,
         {15, 5, 31, 32, 20, 255}},
        {".const .u8 x[4] = {3 > 2 ? 9 : 8, 1 << 4 | 2, 17 % 5, -7 / 2};", 4, {9, 18, 2, 253}},
        {".global .b128 x = -2;",
         16,
         {254, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        char text[512] = PTX_HEAD;
        struct sg_ptx_module *m = parse(strcat(text, cases[i].text));

        assert_int_equal(m->nvars, 1);
        assert_int_equal(m->vars[0].size, cases[i].size);
        assert_non_null(m->vars[0].init);
        assert_memory_equal(m->vars[0].init, cases[i].bytes, cases[i].size);
        sg_ptx_free(m);
    }
}

static void test_init__addresses_become_relocations(void **state)
{
    struct sg_ptx_module *m =
        parse(PTX_HEAD ".global .u32 a[4]; .visible .func f();\n"
                       ".global .align 8 .u64 x[5] = {generic(a)+8, a, f, 7, a - 4};\n"
                       ".global .u8 b[4] = {0xFF(a), 0xff00(a), 1, 0xFF000000(generic(a) + 2)};\n");
    static const struct sg_ptx_reloc want[] = {
        {.offset = 0, .symbol = "a", .addend = 8, .size = 8, .generic = true},
        {.offset = 8, .symbol = "a", .size = 8},
        {.offset = 16, .symbol = "f", .size = 8},
        {.offset = 32, .symbol = "a", .addend = -4, .size = 8},
        {.offset = 0, .symbol = "a", .size = 1, .shift = 0},
        {.offset = 1, .symbol = "a", .size = 1, .shift = 1},
        {.offset = 3, .symbol = "a", .addend = 2, .size = 1, .shift = 3, .generic = true},
    };
    const struct sg_ptx_var *x = var_named(m->vars, m->nvars, "x");
    const struct sg_ptx_var *b = var_named(m->vars, m->nvars, "b");

    (void)state;
    assert_int_equal(x->nrelocs, 4);
    assert_int_equal(b->nrelocs, 3);
    assert_int_equal(x->init[24], 7);
    assert_int_equal(b->init[2], 1);
    for (size_t i = 0; i < TB_ARRAY_LEN(want); i++) {
        const struct sg_ptx_reloc *r = i < 4 ? &x->relocs[i] : &b->relocs[i - 4];

        assert_int_equal(r->offset, want[i].offset);
        assert_string_equal(r->symbol, want[i].symbol);
        assert_int_equal(r->addend, want[i].addend);
        assert_int_equal(r->size, want[i].size);
        assert_int_equal(r->shift, want[i].shift);
        assert_int_equal(r->generic, want[i].generic);
    }
    sg_ptx_free(m);
}

static void test_debug__is_skipped_and_lines_are_kept(void **state)
{
    struct sg_ptx_module *m =
        parse(".version 9.0\n.target sm_90, debug\n"
              "\t.file\t1 \"a.cu\", 17, 18\n\t.file 3 \"b.h\"\n"
              ".visible .entry k() {\n"
              "$L__func_begin0:\n"
              ".loc 1 20 3\n"
              "ret;\n"
              ".loc 3 30 0, function_name $L__info_string0, inlined_at 1 8 5\n"
              "ret;\n"
              ".loc 3 31 7, function_name .debug_str+16, inlined_at 1 8 5\n"
              "ret;\n}\n"
              ".section .debug_str {\n$L__info_string0:\n.b8 1,2\n.b8 3\n}\n"
              ".section .debug_loc { }\n@@DWARF .section .x, \"\"\n.global .u32 behind;\n");
    const struct sg_ptx_func *f = func_named(m, "k");
    static const uint32_t want[][3] = {{8, 1, 20}, {10, 3, 30}, {12, 3, 31}};

    (void)state;
    assert_int_equal(m->nfiles, 4);
    assert_null(m->files[0]);
    assert_string_equal(m->files[1], "a.cu");
    assert_null(m->files[2]);
    assert_string_equal(m->files[3], "b.h");
    assert_int_equal(f->ninsns, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(f->insns[i].line, want[i][0]);
        assert_int_equal(f->insns[i].file, want[i][1]);
        assert_int_equal(f->insns[i].src_line, want[i][2]);
    }
    assert_int_equal(var_named(m->vars, m->nvars, "behind")->line, 21);
    sg_ptx_free(m);
}

static void test_alias__has_the_body_of_its_function(void **state)
{
    struct sg_ptx_module *m =
        parse(PTX_HEAD ".visible .func (.param .b32 r) f(.param .b32 a);\n"
                       ".func (.param .b32 r) g(.param .b32 b)\n"
                       "{ .reg .b32 x; ld.param.b32 x, [b]; st.param.b32 [r], x; ret; }\n"
                       ".alias f, g;\n");
    const struct sg_ptx_func *f = func_named(m, "f"), *g = func_named(m, "g");

    (void)state;
    assert_true(f->has_body);
    assert_int_equal(f->linkage, SG_LINK_VISIBLE);
    assert_int_equal(g->linkage, SG_LINK_STATIC);
    assert_ptr_equal(f->insns, g->insns);
    assert_ptr_equal(f->insns[0].opnds[1].sub[0].var, &f->params[0]);
    sg_ptx_free(m);
}

static void test_names__of_opcodes_types_and_registers(void **state)
{
    (void)state;
    assert_string_equal(sg_ptx_op_name(SG_OP_MAD24), "mad24");
    assert_string_equal(sg_ptx_mod_name(SG_M_SHARED__CTA), "shared::cta");
    assert_string_equal(sg_ptx_sreg_name(SG_SREG_TID), "%tid");
    assert_string_equal(sg_ptx_op_name(SG_OP_COUNT), "");
    assert_string_equal(sg_ptx_mod_name(SG_M_COUNT), "");
    assert_string_equal(sg_ptx_sreg_name(SG_SREG_COUNT), "");
    assert_int_equal(sg_ptx_type_size(SG_M_B8), 1);
    assert_int_equal(sg_ptx_type_size(SG_M_BF16X2), 4);
    assert_int_equal(sg_ptx_type_size(SG_M_B128), 16);
    assert_int_equal(sg_ptx_type_size(SG_M_PRED), 0);
    assert_int_equal(sg_ptx_type_size(SG_M_WIDE), 0);
    assert_int_equal(sg_ptx_type_size(SG_M_COUNT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_module__has_version_target_and_address_size),
        cmocka_unit_test(test_module__text_ends_at_nul_and_at_n),
        cmocka_unit_test(test_vars__have_shape_and_linkage),
        cmocka_unit_test(test_init__bytes_are_little_endian_and_padded_with_zeros),
        cmocka_unit_test(test_init__addresses_become_relocations),
        cmocka_unit_test(test_debug__is_skipped_and_lines_are_kept),
        cmocka_unit_test(test_alias__has_the_body_of_its_function),
        cmocka_unit_test(test_names__of_opcodes_types_and_registers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
