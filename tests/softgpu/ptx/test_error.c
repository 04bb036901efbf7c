/* Malformed and refused texts: status, line and construct of each. */
#include "tests/softgpu/ptx/parse.h"

#include <stdio.h>
#include <stdlib.h>

struct bad {
    const char *text;
    uint32_t line; /* the first line of the text is 4, behind PTX_HEAD */
    const char *part;
    enum tb_status status; /* 0: TB_ERR_FORMAT */
};

static void assert_refused(const char *text, uint32_t line, const char *part, enum tb_status status)
{
    struct sg_ptx_module *m = (void *)&m;
    struct tb_error err = {0};
    char prefix[64];

    if (sg_ptx_parse(text, strlen(text), "mod", &m, &err) != (status ? status : TB_ERR_FORMAT))
        fail_msg("'%s' gave '%s'", text, err.text);
    assert_ptr_equal(m, (void *)&m); /* untouched */
    snprintf(prefix, sizeof(prefix), "mod:%u: ", line);
    if (strncmp(err.text, prefix, strlen(prefix)) != 0 || !strstr(err.text, part))
        fail_msg("'%s' gave '%s', not '%s...%s'", text, err.text, prefix, part);
}

static void refused(const struct bad *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[1024] = PTX_HEAD;

        assert_refused(strcat(text, cases[i].text), cases[i].line, cases[i].part, cases[i].status);
    }
}

static void test_errors__of_a_header_say_what_is_missing(void **state)
{
    static const struct bad cases[] = {
        {"", 1, "expected .version, the text ends", 0},
        {"\n.target sm_80", 2, "expected .version, found '.target'", 0},
        {".version 9", 1, "a version such as 9.0", 0},
        {".version 9.0", 1, "no .target", 0},
        {".version 9.0\n.target", 2, "a target such as sm_80", 0},
        {".version 9.0\n.target sm_80x", 2, "found 'sm_80x'", 0},
        {".version 9.0\n.target avx2", 2, "found 'avx2'", 0},
        {".version 9.0\n.target debug", 2, "a target such as sm_80", 0},
        {".version 9.0\n.target sm_13, map_f64_to_f32", 2, "map_f64_to_f32", TB_ERR_UNSUPPORTED},
        {".version 9.0\n.version 9.0", 2, "given twice", 0},
        {".version 9.0\n.target sm_80\n.address_size 48", 3, "address size 48", 0},
        {"\x7f"
         "ELF",
         1, "expected .version", 0},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++)
        assert_refused(cases[i].text, cases[i].line, cases[i].part, cases[i].status);
}

static void test_errors__of_a_module_name_the_construct(void **state)
{
    static const struct bad cases[] = {
        {".reg .b32 x;", 4, "expected a directive of a module, found '.reg'", 0},
        {"\nfoo", 5, "found 'foo'", 0},
        {".global .u32 x", 4, "';' of a declaration, the text ends", 0},
        {".global x;", 4, "declaration without a type", 0},
        {".global .u32 .u32 x;", 4, "found '.u32'", 0},
        {".global .pred x;", 4, ".pred is a type of scalar registers", 0},
        {".global .align 3 .u32 x;", 4, "alignment 3 is not a power of two", 0},
        {".global .v8 .b64 x;", 4, "wider than 256 bits", 0},
        {".global .u32 x;\n.global .u32 x;", 5, "'x' is declared twice", 0},
        {".global .u32 x[];", 4, "'x' has no size", 0},
        {".shared .b8 x[];", 4, "'x' has no size", 0},
        {".global .u32 x[-1];", 4, "no count", 0},
        {".global .b8 x[1 << 40][1 << 40];", 4, "too large", TB_ERR_LIMIT},
        {".shared .u32 x = 1;", 4, "only .global and .const may", 0},
        {".local .u32 x;", 4, ".local outside of a function", 0},
        {".const[3] .u32 x;", 4, "bank 3", TB_ERR_UNSUPPORTED},
        {".global .u32 x[2] = {1, 2, 3};", 4, "more initial values", 0},
        {".global .u32 x[2][2] = {{1, 2, 3}};", 4, "more initial values", 0},
        {".global .u32 x[2] = {{1}};", 4, "deeper than the dimensions", 0},
        {".global .u32 x = 1.0;", 4, "floating-point initial value of type .u32", 0},
        {".global .u64 x =\n y;", 5, "'y' is not declared", 0},
        {".global .u16 y; .global .u16 x = y;", 4, "does not fit type .u16", 0},
        {".global .u8 y; .global .u8 x = 0xff0(y);", 4, "mask '0xff0' is not of one byte", 0},
        {".global .u32 x = 1 / 0;", 4, "division by zero", 0},
        {".global .u32 x = ~1.0;", 4, "'~' of a floating-point constant", 0},
        {".global .u32 x = 1.0 << 1;", 4, "operator of integers", 0},
        {".global .u32 x = (.u32)1;", 4, "cast to .s64, .u64 or .f64", 0},
        {".global .b8 x[1 << 29] = {1};", 4, "initial values of more than 256 MiB", TB_ERR_LIMIT},
        {".global .u32 x = 99999999999999999999;", 4, "does not fit 64 bits", 0},
        {".global .u32 x = 089;", 4, "number '089' has a digit", 0},
        {".global .u32 x = 0x;", 4, "number '0x' is malformed", 0},
        {".global .u32 x = 12ab;", 4, "number '12ab' is malformed", 0},
        {".global .f32 x = 0f3F80000;", 4, "0f and 8 hexadecimal digits", 0},
        {".global .f64 x = 0d3FF00000000000000;", 4, "0d and 16 hexadecimal digits", 0},
        {".global .texref t;", 4, ".texref 't' is not supported", TB_ERR_UNSUPPORTED},
        {".global .samplerref s;", 4, ".samplerref 's'", TB_ERR_UNSUPPORTED},
        {"\n.entry k(.param .surfref s) { ret; }", 5, ".surfref 's'", TB_ERR_UNSUPPORTED},
        {".global .attribute(.fast) .u32 x;", 4, "an attribute, found '.fast'", 0},
        {".file 1 x", 4, "a file name", 0},
        {".file 70000 \"x\"", 4, "file number 70000", TB_ERR_LIMIT},
        {".file 1 \"x", 4, "string without end", 0},
        {"\n/* x", 5, "comment without end", 0},
        {".section .debug_str {\n\n", 4, ".section without end", 0},
        {".alias f, g;", 4, ".alias 'f'", 0},
        {".func f; .func g(.param .b32 a) { ret; }\n.alias f, g;", 5, "other parameters", 0},
        {".func f; .func g { .shared .u32 s; ret; } .alias f, g;", 4, "variables of its own",
         TB_ERR_UNSUPPORTED},
    };

    (void)state;
    refused(cases, TB_ARRAY_LEN(cases));
}

static void test_errors__of_a_function_name_the_construct(void **state)
{
    static const struct bad cases[] = {
        {".entry k() {\nret;\n", 6, "expected '}' of a function, the text ends", 0},
        {".entry k()", 4, "expected '{' or ';' of a function, the text ends", 0},
        {".entry k() .maxtid 3 { }", 4, "found '.maxtid'", 0},
        {".entry k(.param .u32 a .param .u32 b) {}", 4, "',' or ')'", 0},
        {".entry k(.reg .u32 a) { ret; }", 4, "parameter 'a' of an entry is a register", 0},
        {".entry (.param .u32 r) k() { ret; }", 4, "the name of an entry", 0},
        {".entry k(.u32 a) {}", 4, "a parameter, found '.u32'", 0},
        {".entry k(.param .u32 a, .param .u32 a) {}", 4, "'a' is declared twice", 0},
        {".entry k() { ret; }\n.entry k() { ret; }", 5, "'k' is defined twice", 0},
        {".func f(.param .b32 a);\n.func f(.param .b64 a) { ret; }", 5, "declared in line 4", 0},
        {".entry f(); .func f { ret; }", 4, "other parameters", 0},
        {".extern .func f() { ret; }", 4, "'f' is .extern and has a body", 0},
        {".entry k() {\n.pragma 3; }", 5, "a string of .pragma", 0},
        {".entry k() { .loc 1; }", 4, "a line of .loc", 0},
        {".entry k() { .loc 1 2 3, hello }", 4, "function_name or inlined_at", 0},
        {".entry k() { .entry l() { } }", 4, "a directive inside of a function", 0},
        {".entry k() { .reg .b32 r; .reg .b32 r; }", 4, "'r' is declared twice", 0},
        {".entry k() { .reg .b32 r<; }", 4, "a count of names", 0},
        {".entry k() {\nL: ret;\nL: ret; }", 6, "'L' is declared twice", 0},
        {".entry k() {\nbra L;\n}", 5, "label 'L' is not defined", 0},
        {".entry k() {\nbra L; { L: ret; } }", 5, "label 'L' is not defined", 0},
        {".entry k() {\nT: .branchtargets A, B; A: ret; }", 5, "label 'B' is not defined", 0},
        {".entry k() { T: .calltargets f; }", 4, "'f' is no function", 0},
        {".entry k() { T: .callprototype (.param .b32 _); }", 4, "'_' of .callprototype", 0},
    };

    (void)state;
    refused(cases, TB_ARRAY_LEN(cases));
}

static void test_errors__of_an_instruction_name_it(void **state)
{
    static const struct bad cases[] = {
        {"frobnicate %r1;", 5, "unknown instruction 'frobnicate'", 0},
        {"add.s32.fuzzy %r1, %r2, %r3;", 5, "unknown modifier '.fuzzy' of 'add.s32'", 0},
        {"add.s32 %r1, %r2, %r3", 6, "behind an operand of 'add.s32', found '}'", 0},
        {"add.s32 %r1 %r2;", 5, "',' or ';' behind an operand of 'add.s32', found '%r2'", 0},
        {"add.s32 %r1, ;", 5, "an operand, found ';'", 0},
        {"add.s32 %r1, %r9, 1;", 5, "'%r9' is not declared", 0},
        {"add.s32 %r1, %r01, 1;", 5, "'%r01' is not declared", 0},
        {"ld.u32 %r1, [%r1;", 5, "']' of an address, found ';'", 0},
        {"ld.u32 %r1, [1.5];", 5, "no register, variable or integer", 0},
        {"ld.u32 %r1, [%tid];", 5, "no register, variable or integer", 0},
        {"ld.u32 %r1, [%r1+1.5];", 5, "offset is not an integer", 0},
        {"ld.u32 %r1, g[%r1];", 5, "'g[...]': only a constant", TB_ERR_UNSUPPORTED},
        {"mov.b32 %r1, {%r1, {%r2, {%r3, {%r4, {%r5}}}}};", 5, "nested too deep", TB_ERR_LIMIT},
        {"mov.b32 %r1, -g;", 5, "only a register can be negated", 0},
        {"mov.u32 %r1, %tid.q;", 5, "component of a register, found '.q'", 0},
        {"mov.u32 %r1, %laneid.x;", 5, "a component that the register has", 0},
        {"mov.u32 %r1.x, %r2;", 5, "a component that the register has", 0},
        {"mov.u32 %r1, %tid.h0;", 5, "component of a special register", 0},
        {"setp.eq.s32 %p1|3, %r1, %r2;", 5, "pair 'd|p' is not of registers", 0},
        {"@%r1 ret;", 5, "guard '%r1' is no predicate register", 0},
        {"@nope ret;", 5, "guard 'nope' is no predicate register", 0},
        {"L: mov.u32 %r1, L;", 5, "label 'L' is no value", 0},
        {"call nothing;", 5, "'nothing' is not declared", 0},
        {"call 3, (%r1);", 5, "target of call is no function or register", 0},
        {"call (%r1) f;", 5, "',' behind the results of call", 0},
        {"bra 5;", 5, "expected a name, found '5'", 0},
        {"ret %r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1;", 5,
         "more than 12 operands of 'ret'", TB_ERR_LIMIT},
        {"add.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32.s32 "
         ";",
         5, "more than 20 modifiers of 'add.s32", TB_ERR_LIMIT},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        char text[1024];

        snprintf(text, sizeof(text),
                 "%s.global .u32 g[4]; .entry k() { .reg .b32 %%r<9>; .reg .pred %%p<4>;\n%s\n}",
                 PTX_HEAD, cases[i].text);
        assert_refused(text, cases[i].line, cases[i].part, cases[i].status);
    }
}

/* @head, then @n times @what, then @tail */
static char *repeated(const char *head, const char *what, size_t n, const char *tail)
{
    char *text = malloc(strlen(head) + n * strlen(what) + strlen(tail) + 1), *at;

    assert_non_null(text);
    at = stpcpy(text, head);
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, what);
    strcpy(at, tail);
    return text;
}

static void test_limits__end_with_an_error(void **state)
{
    static const struct {
        const char *head, *what;
        size_t n;
        const char *part;
    } cases[] = {
        {PTX_HEAD ".entry k() ", "{", 100000, "more than 200 nested scopes"},
        {PTX_HEAD ".global .u32 x = ", "(", 100000, "nested too deep"},
        {PTX_HEAD ".global .u32 x = ", "-", 100000, "nested too deep"},
        {PTX_HEAD ".global .u32 x = 1", " ? 1 ", 100000, "nested too deep"},
        {PTX_HEAD ".global .u32 x", "[1]", 100000, "more than 16 dimensions"},
        {PTX_HEAD ".entry k() { mov.u32 {", "1,", 100000, "list of more than 1024 operands"},
        {PTX_HEAD ".func k(", ".param .b32 _,", 100000, "more than 4096 parameters"},
        {PTX_HEAD ".func k() { .param .b8 x<", "9", 9, "variables of one name"},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        char *text = repeated(cases[i].head, cases[i].what, cases[i].n, ">;");

        assert_refused(text, 4, cases[i].part, TB_ERR_LIMIT);
        free(text);
    }
}

/* What grows with the text must not grow with its square; a few seconds would show that it does. */
static void test_size__large_texts_are_read(void **state)
{
    static const struct {
        const char *head, *what, *tail;
        size_t n;
    } cases[] = {
        {PTX_HEAD ".entry k() { .reg .b32 %r<4294967295>;", "mov.u32 %r4000000000, %r1;", "}",
         200000},
        {PTX_HEAD ".entry k() {", "{ .param .b32 a; bra L; }", "L: ret; }", 200000},
        {PTX_HEAD ".global .u8 x[] = {1", ",255", "};", 500000},
        {PTX_HEAD, "// nothing to see here\n", "", 500000},
        {PTX_HEAD ".section .debug_x {", ".b8 1, 2, 3\n", "}", 500000},
        {PTX_HEAD ".entry k() { .reg .b32 %r<2>; T: .branchtargets L", ",L",
         "; L: brx.idx %r1, T; }", 500000},
    };

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        char *text = repeated(cases[i].head, cases[i].what, cases[i].n, cases[i].tail);

        sg_ptx_free(parse(text));
        free(text);
    }
}

static void test_size__many_names_are_read(void **state)
{
    size_t n = 100000, cap = n * 64;
    char *text = malloc(cap), *at;
    struct sg_ptx_module *m;

    (void)state;
    assert_non_null(text);
    at = stpcpy(text, PTX_HEAD ".entry k() {\n");
    for (size_t i = 0; i < n; i++)
        at += sprintf(at, ".reg .b32 n%zu; $L%zu: mov.u32 n%zu, 1;\n", i, i, i);
    strcpy(at, "}");
    m = parse(text);
    assert_int_equal(m->funcs[0]->nregs, n);
    assert_int_equal(m->funcs[0]->insns[n - 1].line, n + 4);
    sg_ptx_free(m);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors__of_a_header_say_what_is_missing),
        cmocka_unit_test(test_errors__of_a_module_name_the_construct),
        cmocka_unit_test(test_errors__of_a_function_name_the_construct),
        cmocka_unit_test(test_errors__of_an_instruction_name_it),
        cmocka_unit_test(test_limits__end_with_an_error),
        cmocka_unit_test(test_size__large_texts_are_read),
        cmocka_unit_test(test_size__many_names_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
