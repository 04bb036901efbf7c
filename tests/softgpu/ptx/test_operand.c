/* Instructions: guards, modifiers, every kind of operand, constants. */
#include "tests/softgpu/ptx/parse.h"

#include <stdio.h>

#define REGS                                                                                       \
    ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<5>; .reg .b16 %h<5>;"       \
    ".reg .v4 .f32 v; .shared .align 4 .b8 sm[64];"

/* One instruction in a kernel that has REGS */
struct one {
    struct sg_ptx_module *m;
    const struct sg_ptx_func *f;
    const struct sg_ptx_insn *in;
    const struct sg_ptx_opnd *o;
};

static struct one one(const char *text)
{
    char buf[2048];
    struct one r;

    snprintf(buf, sizeof(buf), "%s.global .u32 arr[8];.entry k(.param .b32 q){%s %s}", PTX_HEAD,
             REGS, text);
    r.m = parse(buf);
    r.f = func_named(r.m, "k");
    assert_int_equal(r.f->ninsns, 1);
    r.in = r.f->insns;
    r.o = r.in->opnds;
    return r;
}

/* The same with @operand as its last operand */
static struct one with(const char *insn, const char *operand)
{
    char text[256];

    snprintf(text, sizeof(text), "%s %s;", insn, operand);
    return one(text);
}

static void test_insn__has_opcode_and_modifiers_in_order(void **state)
{
    static const struct {
        const char *text, *mods;
        enum sg_ptx_op op;
    } cases[] = {
        {"ret;", "", SG_OP_RET},
        {"mad.lo.s32 %r1, %r2, %r3, %r4;", ".lo.s32", SG_OP_MAD},
        {"cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;",
         ".async.cg.shared.global.L2::128B", SG_OP_CP},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r1}, {%f1};",
         ".sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", SG_OP_MMA},
        {"bar.sync 0;", ".sync", SG_OP_BAR},
        {"min.NaN.f32 %f1, %f2, %f3;", ".nan.f32", SG_OP_MIN},
        {"mbarrier.arrive.noComplete.shared::cta.b64 _, [%r1], 3;",
         ".arrive.noComplete.shared::cta.b64", SG_OP_MBARRIER},
        {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 8, "
         "[%r2];",
         ".async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", SG_OP_CP},
        {"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];", ".2d.v4.f32.f32",
         SG_OP_TEX},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        struct one r = one(cases[i].text);

        assert_int_equal(r.in->op, cases[i].op);
        assert_mods(r.in, cases[i].mods);
        assert_false(r.in->guarded);
        sg_ptx_free(r.m);
    }
}

static void test_guard__is_a_predicate_maybe_negated(void **state)
{
    struct one a = one("@%p3 ret;"), b = one("@!%p3 ret;");
    struct one c = one("ld.global.u32 %r1, [%rd1];");

    (void)state;
    assert_true(a.in->guarded && !a.in->guard_neg);
    assert_string_equal(a.f->regs[a.in->guard].name, "%p3");
    assert_true(b.in->guarded && b.in->guard_neg);
    assert_true(sg_ptx_has(c.in, SG_M_GLOBAL));
    assert_false(sg_ptx_has(c.in, SG_M_SHARED));
    sg_ptx_free(c.m);
    sg_ptx_free(a.m);
    sg_ptx_free(b.m);
}

static void test_constants__have_their_bits(void **state)
{
    static const struct {
        const char *text;
        int64_t want;
    } cases[] = {
        {"0", 0},
        {"-2147483648", -2147483648LL},
        {"0xFFFFFFFFFFFFFFFF", -1},
        {"0XfFU", 255},
        {"017", 15},
        {"0b1011U", 11},
        {"WARP_SZ", 32},
        {"-WARP_SZ", -32},
        {"WARP_SZ * 2 - 1", 63},
        {"1 + 2 * 3", 7},
        {"(1 + 2) * 3", 9},
        {"10 - 4 - 3", 3},
        {"1 << 3 + 1", 16},
        {"-8 >> 1", -4},
        {"0x8000000000000000 >> 63", 1}, /* unsigned, it does not fit .s64 */
        {"(.s64)0x8000000000000000 >> 63", -1},
        {"-1 < 1", 1},
        {"(.u64)-1 < 1", 0},
        {"5 & 3 | 8 ^ 1", 9},
        {"!5 + !0", 1},
        {"~0", -1},
        {"7 % 4 == 3 && 2 != 3", 1},
        {"0 || 0", 0},
        {"1 ? 2 ? 3 : 4 : 5", 3},
        {"(.s64)2.9 + (.s64)-2.9", 0},
        {"(.u64)-1.0", 0},
        {"1.5 < 2", 1},
        {"1 << 64", 0},
        {"-1 >> 64", -1},
        {"- - 3", 3},
        {"-7 / 2", -3},
        {"-7 % 3", -1},
        {"0x8000000000000000 / -1", 0},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        struct one r = with("mov.u64 %rd1,", cases[i].text);

        assert_int_equal(r.o[1].kind, SG_OPND_IMM);
        if (r.o[1].imm != cases[i].want)
            fail_msg("'%s' is %lld, not %lld", cases[i].text, (long long)r.o[1].imm,
                     (long long)cases[i].want);
        sg_ptx_free(r.m);
    }
}

static void test_floats__have_their_bits(void **state)
{
    static const struct {
        const char *text;
        uint64_t bits;
        bool is_f32;
        uint32_t f32;
    } cases[] = {
        {"0f3F800000", 0x3ff0000000000000, true, 0x3f800000},
        {"0FBf800000", 0xbff0000000000000, true, 0xbf800000},
        {"-0f3F800000", 0xbff0000000000000, true, 0xbf800000},
        {"0f00000001", 0x36a0000000000000, true, 1},
        {"0d3FF0000000000001", 0x3ff0000000000001, false, 0},
        {"0D7ff0000000000000", 0x7ff0000000000000, false, 0},
        {"1.5", 0x3ff8000000000000, false, 0},
        {".5", 0x3fe0000000000000, false, 0},
        {"2.", 0x4000000000000000, false, 0},
        {"1e3", 0x408f400000000000, false, 0},
        {"1.e-3", 0x3f50624dd2f1a9fc, false, 0},
        {"25E+1", 0x406f400000000000, false, 0},
        {"1.0 / 4 + 1", 0x3ff4000000000000, false, 0},
        {"(.f64)3", 0x4008000000000000, false, 0},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        struct one r = with("mov.f32 %f1,", cases[i].text);

        assert_int_equal(r.o[1].kind, SG_OPND_FIMM);
        assert_int_equal(r.o[1].is_f32, cases[i].is_f32);
        assert_int_equal(r.o[1].f32, cases[i].f32);
        assert_int_equal((uint64_t)r.o[1].imm, cases[i].bits);
        sg_ptx_free(r.m);
    }
}

static void test_floats__keep_the_payload_of_a_nan(void **state)
{
    struct one r = one("mov.f32 %f1, 0f7F812345;");

    (void)state;
    assert_true(r.o[1].is_f32);
    assert_int_equal(r.o[1].f32, 0x7f812345);
    sg_ptx_free(r.m);
}

static void test_addresses__are_base_and_offset(void **state)
{
    static const struct {
        const char *text;
        uint8_t base;
        int64_t imm, base_imm;
    } cases[] = {
        {"[%rd1]", SG_OPND_REG, 0, 0},
        {"[%rd1+4]", SG_OPND_REG, 4, 0},
        {"[%rd1+-4]", SG_OPND_REG, -4, 0},
        {"[%rd1-4]", SG_OPND_REG, -4, 0},
        {"[%rd1+2*3+(1-8)]", SG_OPND_REG, -1, 0},
        {"[sm]", SG_OPND_VAR, 0, 0},
        {"[sm+0x10]", SG_OPND_VAR, 16, 0},
        {"[q]", SG_OPND_VAR, 0, 0},
        {"[arr+8]", SG_OPND_VAR, 8, 0},
        {"arr[3]", SG_OPND_VAR, 12, 0},
        {"[16]", SG_OPND_IMM, 0, 16},
        {"[16+8]", SG_OPND_IMM, 0, 24},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        struct one r = with("ld.u32 %r1,", cases[i].text);

        assert_int_equal(r.o[1].kind, SG_OPND_ADDR);
        assert_int_equal(r.o[1].n, 1);
        assert_int_equal(r.o[1].imm, cases[i].imm);
        assert_int_equal(r.o[1].sub[0].kind, cases[i].base);
        assert_int_equal(r.o[1].sub[0].imm, cases[i].base_imm);
        sg_ptx_free(r.m);
    }
}

static void test_variables__are_addresses_outside_of_brackets(void **state)
{
    struct one a = one("mov.u64 %rd1, arr+8;"), b = one("mov.u64 %rd1, arr[3];");
    struct one c = one("mov.u64 %rd1, k;"), d = one("mov.u32 %r1, sm;");

    (void)state;
    assert_int_equal(a.o[1].kind, SG_OPND_VAR);
    assert_ptr_equal(a.o[1].var, &a.m->vars[0]);
    assert_int_equal(a.o[1].imm, 8);
    assert_int_equal(b.o[1].kind, SG_OPND_VAR);
    assert_int_equal(b.o[1].imm, 12);
    assert_int_equal(c.o[1].kind, SG_OPND_FUNC);
    assert_ptr_equal(c.o[1].func, c.f);
    assert_ptr_equal(d.o[1].var, &d.f->vars[0]);
    sg_ptx_free(a.m);
    sg_ptx_free(b.m);
    sg_ptx_free(c.m);
    sg_ptx_free(d.m);
}

static void test_special_registers__have_components(void **state)
{
    static const struct {
        const char *text;
        enum sg_ptx_sreg sreg;
        uint8_t comp;
        bool has_comp;
    } cases[] = {
        {"%tid.x", SG_SREG_TID, 0, true},
        {"%nctaid.z", SG_SREG_NCTAID, 2, true},
        {"%tid", SG_SREG_TID, 0, false},
        {"%laneid", SG_SREG_LANEID, 0, false},
        {"%envreg31", SG_SREG_ENVREG, 31, true},
        {"%pm7", SG_SREG_PM, 7, true},
        {"%pm2_64", SG_SREG_PM64, 2, true},
        {"%clock64", SG_SREG_CLOCK64, 0, false},
        {"%clusterid.y", SG_SREG_CLUSTERID, 1, true},
        {"%reserved_smem_offset_1", SG_SREG_RESERVED_SMEM_OFFSET, 1, true},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        struct one r = with("mov.u32 %r1,", cases[i].text);

        assert_int_equal(r.o[1].kind, SG_OPND_SREG);
        assert_int_equal(r.o[1].sreg, cases[i].sreg);
        assert_int_equal(r.o[1].comp, cases[i].comp);
        assert_int_equal(r.o[1].has_comp, cases[i].has_comp);
        sg_ptx_free(r.m);
    }
}

static void test_registers__have_parts_and_signs(void **state)
{
    struct one a = one("vadd.s32.s32.s32 %r1, %r2.b3, %r3.h1, %r4;");
    struct one b = one("mov.f32 v.w, v.g;");
    struct one c = one("setp.lt.and.f32 %p1|%p2, %f1, -%f2, !%p3;");
    struct one d = one("elect.sync _|%p1, -1;");

    (void)state;
    assert_int_equal(a.o[0].half, 0);
    assert_int_equal(a.o[1].half, 4);
    assert_int_equal(a.o[2].half, 6);
    assert_int_equal(b.o[0].comp, 3);
    assert_int_equal(b.o[1].comp, 1);
    assert_true(b.o[0].has_comp);
    assert_int_equal(c.o[0].kind, SG_OPND_PAIR);
    assert_string_equal(reg_name(c.f, &c.o[0].sub[1]), "%p2");
    assert_true(c.o[2].neg && c.o[3].neg && !c.o[1].neg);
    assert_int_equal(d.o[0].sub[0].kind, SG_OPND_SINK);
    assert_string_equal(reg_name(d.f, &d.o[0].sub[1]), "%p1");
    sg_ptx_free(a.m);
    sg_ptx_free(b.m);
    sg_ptx_free(c.m);
    sg_ptx_free(d.m);
}

static void test_lists__have_registers_constants_and_sinks(void **state)
{
    struct one a = one("mov.b64 {%r1, _}, %rd1;");
    struct one b = one("st.global.v4.f32 [%rd1], {%f1, 0f3F800000, 2.0, -1};");
    struct one c = one("cp.async.bulk.tensor.2d.shared::cluster.global.tile [%r1],"
                       " [%rd1, {%r2, 3}], [%r4];");

    (void)state;
    assert_int_equal(a.o[0].kind, SG_OPND_VEC);
    assert_int_equal(a.o[0].n, 2);
    assert_string_equal(reg_name(a.f, &a.o[0].sub[0]), "%r1");
    assert_int_equal(a.o[0].sub[1].kind, SG_OPND_SINK);
    assert_int_equal(b.o[1].n, 4);
    assert_int_equal(b.o[1].sub[1].f32, 0x3f800000);
    assert_int_equal(b.o[1].sub[3].imm, -1);
    assert_int_equal(c.o[1].kind, SG_OPND_ADDR);
    assert_int_equal(c.o[1].n, 2);
    assert_int_equal(c.o[1].sub[1].kind, SG_OPND_VEC);
    assert_int_equal(c.o[1].sub[1].sub[1].imm, 3);
    sg_ptx_free(a.m);
    sg_ptx_free(b.m);
    sg_ptx_free(c.m);
}

static void test_text__may_be_split_anywhere(void **state)
{
    struct one r = one("@ !%p1 /* a\n b */ add // c\n .s32\t%r1 ,\r\n %r2 , \\\n 1 ;;");

    (void)state;
    assert_int_equal(r.in->op, SG_OP_ADD);
    assert_mods(r.in, ".s32");
    assert_true(r.in->guard_neg);
    assert_int_equal(r.in->line, 5);
    assert_int_equal(r.in->nopnds, 3);
    sg_ptx_free(r.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_insn__has_opcode_and_modifiers_in_order),
        cmocka_unit_test(test_guard__is_a_predicate_maybe_negated),
        cmocka_unit_test(test_constants__have_their_bits),
        cmocka_unit_test(test_floats__have_their_bits),
        cmocka_unit_test(test_floats__keep_the_payload_of_a_nan),
        cmocka_unit_test(test_addresses__are_base_and_offset),
        cmocka_unit_test(test_variables__are_addresses_outside_of_brackets),
        cmocka_unit_test(test_special_registers__have_components),
        cmocka_unit_test(test_registers__have_parts_and_signs),
        cmocka_unit_test(test_lists__have_registers_constants_and_sinks),
        cmocka_unit_test(test_text__may_be_split_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
