/* STYLE, "The recorder never hurts its host": what the injected library imports and exports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *output_of(const char *command)
{
    static char text[65536];
    FILE *f = popen(command, "r");

    assert_non_null(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = 0;
    assert_int_equal(pclose(f), 0);
    return text;
}

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
    assert_string_equal(
        output_of("readelf -d '" TEST_PRELOAD "' | grep NEEDED | sed 's/.*\\[//;s/].*//'"),
        "libc.so.6\n");
}

static void test_exports__it_cannot_end_or_print_for_the_job(void **state)
{
    static const char *const forbidden[] = {
        "exit",         "_exit",          "_Exit",        "quick_exit",
        "abort",        "__assert_fail",  "raise",        "kill",
        "printf",       "puts",           "putchar",      "fprintf",
        "vprintf",      "vfprintf",       "fwrite",       "fputs",
        "write",        "perror",         "signal",       "sigaction",
        "dprintf",      "syslog",         "stdout",       "stderr",
        "longjmp",      "pthread_create", "pthread_kill", "malloc",
        "calloc",       "realloc",        "free",         "__stack_chk_fail",
        "__printf_chk", "setenv",         "putenv",       "unsetenv",
        "atexit",       "__cxa_atexit",   "pthread_exit",
    };
    char *text = output_of("nm -D --undefined-only '" TEST_PRELOAD
                           "' | awk '{sub(/@.*/, \"\", $2); print $2}'");
    size_t names = 0;

    (void)state;
    for (char *save, *name = strtok_r(text, "\n", &save); name;
         name = strtok_r(NULL, "\n", &save)) {
        names++;
        for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
            if (strcmp(name, forbidden[i]) == 0)
                fail_msg("libtwinbit.so imports '%s'", name);
    }
    assert_true(names > 20); /* something was tested */
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
