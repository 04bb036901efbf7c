/* What the library that answers for cuBLAS exports and imports, and that it stays out of the way */
#include "tests/recorder/exports.h"

static void test_cublas_exports__it_exports_only_what_it_interposes(void **state)
{
    (void)state;
    assert_string_equal(
        output_of("nm -D --defined-only '" TEST_CUBLAS "' | awk '{print $3}' | LC_ALL=C sort"),
        "cublasCreate_v2\ncublasLtMatmulAlgoGetHeuristic\ncublasSetAtomicsMode\n");
}

static void test_cublas_exports__it_needs_libc_alone(void **state)
{
    (void)state;
    check_needed(TEST_CUBLAS);
}

static void test_cublas_exports__it_cannot_end_or_print_for_the_job(void **state)
{
    (void)state;
    check_imports(TEST_CUBLAS, NULL);
}

/* It finds these itself: through the linker it would call its own, or load cuBLAS. */
static void test_cublas_exports__it_calls_nothing_of_cublas_through_the_linker(void **state)
{
    (void)state;
    assert_string_equal(
        output_of("nm -D --undefined-only '" TEST_CUBLAS "' | grep -c cublas; true"), "0\n");
}

/* Without a configuration, and without libtwinbit_pins.so, whose names are weak. */
static void test_cublas_exports__alone_nothing_happens(void **state)
{
    (void)state;
    assert_string_equal(output_of("TWINBIT_CUBLAS=atomics,force,heuristics LD_BIND_NOW=1 "
                                  "LD_PRELOAD='" TEST_CUBLAS "' sh -c 'echo $((6 * 7)); exit 3'; "
                                  "echo $?"),
                        "42\n3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cublas_exports__it_exports_only_what_it_interposes),
        cmocka_unit_test(test_cublas_exports__it_needs_libc_alone),
        cmocka_unit_test(test_cublas_exports__it_cannot_end_or_print_for_the_job),
        cmocka_unit_test(test_cublas_exports__it_calls_nothing_of_cublas_through_the_linker),
        cmocka_unit_test(test_cublas_exports__alone_nothing_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
