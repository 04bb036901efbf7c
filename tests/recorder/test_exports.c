/* STYLE, "The recorder never hurts its host": what the injected library imports and exports. */
#include "tests/recorder/exports.h"

static void test_exports__it_exports_only_what_it_interposes(void **state)
{
    (void)state;
    assert_string_equal(
        output_of("nm -D --defined-only '" TEST_PRELOAD "' | awk '{print $3}' | sort"),
        "__libc_start_main\ndlsym\ntwinbit_marks\ntwinbit_runtime\n");
}

static void test_exports__it_needs_libc_alone(void **state)
{
    (void)state;
    check_needed(TEST_PRELOAD);
}

static void test_exports__it_cannot_end_or_print_for_the_job(void **state)
{
    (void)state;
    check_imports(TEST_PRELOAD, NULL);
}

static void test_exports__it_has_no_constructor_of_its_own(void **state)
{
    (void)state;
    /* frame_dummy, and what the compiler's library has for __builtin_cpu_supports() */
    long size = strtol(output_of("readelf -d '" TEST_PRELOAD "' | awk '/INIT_ARRAYSZ/ {print $3}'"),
                       NULL, 10);
    assert_true(size <= 16);
    assert_string_equal(
        output_of("grep -rl 'constructor' '" TEST_SOURCE "/recorder' --include=*.c "
                  "--include=*.h | xargs -r grep -l '__attribute__((constructor' || true"),
        "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exports__it_exports_only_what_it_interposes),
        cmocka_unit_test(test_exports__it_needs_libc_alone),
        cmocka_unit_test(test_exports__it_cannot_end_or_print_for_the_job),
        cmocka_unit_test(test_exports__it_has_no_constructor_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
