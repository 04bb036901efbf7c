/* Without memory the parser says so, at whichever allocation it happens; nothing leaks (ASan). */
#include "tests/softgpu/ptx/parse.h"
#include "tests/softgpu/ptx/walk.h"

#include <locale.h>

/* The linker sends the parser's calls here (-Wl,--wrap). */
static unsigned long countdown; /* 0: never fails */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static bool fails(void)
{
    return countdown > 0 && --countdown == 0;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

static const char text[] = PTX_HEAD
    ".file 1 \"a.cu\"\n"
    ".global .u32 g[4] = {1, 2}; .global .u64 h[] = {g, generic(g)+4};\n"
    ".func (.param .b32 r) f(.param .b32 a);\n"
    ".func (.param .b32 r) f(.param .b32 a) { ret; }\n"
    ".func (.param .b32 r) e(.param .b32 a); .alias e, f;\n"
    ".visible .entry k(.param .u64 p, .param .align 8 .b8 q[12]) {\n"
    ".reg .b32 %r<100>; .reg .pred %p<4>; .reg .b64 %rd<100>; .local .b32 l;\n"
    "T: .branchtargets A, B; brx.idx %r1, T; P: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
    "A: { .param .b32 x, y; call (x), f, (y); call (x), %rd1, (y), P; bra B; }\n"
    "mov.b64 {%r1, %r2}, %rd2; ld.param.u64 %rd3, [p]; st.global.u32 [g+4], %r3;\n"
    "B: setp.eq.s32 %p1|%p2, %r4, %r5; tex.2d.v4.f32.f32 {%r1, %r2}, [%rd1, {%r3}]; ret; }\n";

static void test_nomem__is_reported_wherever_it_happens(void **state)
{
    unsigned long failures = 0;

    (void)state;
    for (unsigned long nth = 1;; nth++) {
        struct sg_ptx_module *m = NULL;
        struct tb_error err = {0};
        enum tb_status st;

        countdown = nth;
        st = sg_ptx_parse(text, strlen(text), "mod", &m, &err);
        if (countdown > 0) { /* all allocations were served */
            countdown = 0;
            assert_int_equal(st, TB_OK);
            walk_module(m);
            sg_ptx_free(m);
            break;
        }
        assert_int_equal(st, TB_ERR_NOMEM);
        assert_null(m);
        assert_non_null(strstr(err.text, "no memory"));
        failures++;
    }
    assert_true(failures > 15);
}

/* A program may have chosen a locale that writes 1,5. */
static void test_locale__does_not_change_numbers(void **state)
{
    struct sg_ptx_module *m;
    double d;

    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
        print_message("no locale with a decimal comma here: checked in the \"C\" locale only\n");
    m = parse(PTX_HEAD ".global .f64 x = 1.5;");
    setlocale(LC_ALL, "C");
    memcpy(&d, m->vars[0].init, sizeof(d));
    assert_true(d == 1.5);
    sg_ptx_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nomem__is_reported_wherever_it_happens),
        cmocka_unit_test(test_locale__does_not_change_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
