/* Without memory the analysis says so, or that it knows nothing; nothing leaks (ASan). */
#include "kernelinfo/kernelinfo.h"
#include "tests/kernelinfo/dump.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The linker sends the module's calls here (-Wl,--wrap). */
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

static const char text[] =
    ".version 8.0\n.target sm_80\n.global .u32 g;\n"
    ".func f(.param .b64 a)\n{\n.reg .b64 %d<3>; .local .align 8 .b8 l[16];\n"
    "ld.param.u64 %d1, [a]; st.local.u64 [l+8], %d1; ld.local.u64 %d2, [l+8];"
    "st.global.f32 [%d2], 0f00000000;\nret;\n}\n"
    ".visible .entry k(.param .u64 p, .param .u64 q)\n{\n.reg .b32 %r<5>; .reg .b64 %d<3>;\n"
    "ld.param.u32 %r1, [p]; ld.param.u32 %r2, [p+4]; mov.b64 %d1, {%r1, %r2};"
    "{ .param .b64 x; st.param.b64 [x], %d1; call.uni f, (x); }"
    "ld.param.u64 %d2, [q]; ld.global.f32 %r3, [%d2]; st.global.u32 [g], %r3;\nret;\n}\n";

static void test_memory__each_allocation_may_fail(void **state)
{
    static const char wanted[] = "k 0:8=w/f32 8:8=r/f32 +g";
    unsigned long failures = 0, doubts = 0;

    (void)state;
    for (unsigned long nth = 1;; nth++) {
        struct tb_wire_kernels *t = NULL;
        struct tb_error err = {0};
        char line[1024];
        enum tb_status st;
        bool reached;
        size_t n;

        countdown = nth;
        st = tb_kernelinfo(text, strlen(text), (void **)&t, &n, &err);
        reached = countdown == 0;
        countdown = 0;
        if (st == TB_OK) {
            ki_dump(t, 0, line, sizeof(line));
            if (reached && strcmp(line, wanted) != 0) {
                assert_non_null(strstr(line, "UNTRACED_WRITE UNTRACED_READ"));
                doubts++;
            } else {
                assert_string_equal(line, wanted);
            }
        } else {
            assert_int_equal(st, TB_ERR_NOMEM);
            assert_null(t);
            failures++;
        }
        free(t);
        if (!reached)
            break;
    }
    print_message("%lu failures, %lu doubts\n", failures, doubts);
    assert_true(failures > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory__each_allocation_may_fail)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
