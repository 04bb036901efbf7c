/* Names of kernels in events, out of the names that compilers give them. */
#include "recorder/cuda/symbol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *symbol, *name;
} cases[] = {
    {"saxpy", "saxpy"},
    {"r_32_4n3", "r_32_4n3"}, /* tinygrad */
    {"_Z5saxpyfPf", "saxpy"},
    {"_ZN2ns6kernelIfEEvPT_", "ns::kernel"},
    {"_ZN12_GLOBAL__N_16kernelEv", "kernel"},
    {"_ZN8__main__4axpyB2v1B94cw51cXTLSUwv1sDUaEE5ArrayIfLi1E1C7mutable7alignedE",
     "__main__::axpy"},
    {"_ZN1f12_3clocals_3e6kernelB2v2E", "f::<locals>::kernel"},
    {"_ZN8__main__12_3clambda_3eB2v3Ei", "__main__::<lambda>"},
    {"_Z10blur_3c_3ePf", "blur_3c_3e"}, /* no word between */
    {"_Z7conv_3dPf", "conv_3d"},
    {"plain_3cword_3e", "plain_3cword_3e"}, /* not mangled: nobody encoded it */
    {"_Z", "_Z"},
    {"_Z99x", "_Z99x"},
    {"", ""},
    {"a/b#c\td", "a_b_c_d"},
};

static void test_symbol__short_names(void **state)
{
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tb_cu_short_name(cases[i].symbol, out, sizeof(out));
        assert_string_equal(out, cases[i].name);
    }
}

static void test_symbol__cut_where_there_is_no_room(void **state)
{
    static const char symbol[] = "_ZN1f12_3clocals_3e6kernelE";
    char out[40], guard[40];

    (void)state;
    memset(guard, 'x', sizeof(guard));
    for (size_t size = 1; size < 32; size++) {
        memset(out, 'x', sizeof(out));
        tb_cu_short_name(symbol, out, size);
        assert_true(strnlen(out, size) < size);
        assert_memory_equal(out + size, guard, sizeof(out) - size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbol__short_names),
        cmocka_unit_test(test_symbol__cut_where_there_is_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
