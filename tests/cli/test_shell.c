/* Words of commands that the user may paste. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/common.h"

static void test_shell__words_are_quoted_where_they_must_be(void **state)
{
    char out[64];

    (void)state;
    assert_string_equal(tb_shell_word("a/b-c.twinbit", out, sizeof(out)), "a/b-c.twinbit");
    assert_string_equal(tb_shell_word("a b", out, sizeof(out)), "'a b'");
    assert_string_equal(tb_shell_word("", out, sizeof(out)), "''");
    assert_string_equal(tb_shell_word("it's", out, sizeof(out)), "'it'\\''s'");
    assert_string_equal(tb_shell_word("$(x)", out, sizeof(out)), "'$(x)'");
    assert_string_equal(tb_shell_file("-x.twinbit", out, sizeof(out)), "./-x.twinbit");
    assert_string_equal(tb_shell_file("x y", out, sizeof(out)), "'x y'");
}

/* What would command a terminal is spelt out; newlines and tabs do no harm. */
static void test_shell__control_characters_are_escaped(void **state)
{
    char out[64];

    (void)state;
    assert_string_equal(tb_shell_word("a\033[31m'\\", out, sizeof(out)), "$'a\\033[31m\\047\\134'");
    assert_string_equal(tb_shell_word("\302\233m", out, sizeof(out)), "$'\\302\\233m'");
    assert_string_equal(tb_shell_word("a\n\tb", out, sizeof(out)), "'a\n\tb'");
    (void)strcpy(out, "a\033\177\n\302\205\303\244");
    assert_string_equal(tb_plain(out, true), "a??\n??\303\244");
    assert_string_equal(tb_plain(out, false), "a?????\303\244");
}

/* A word that was quoted comes back, and whatever a line holds, it is words when it is quoted anew.
 */
static void test_shell__lines_are_words_again(void **state)
{
    static const char *const words[] = {"plain", "it's", "", "$(x) `y` \"z\"", "\033\\'", "a\nb"};
    char line[256], again[256], word[64];
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(words); i++) {
        n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%s", i ? " " : "",
                              tb_shell_word(words[i], word, sizeof(word)));
    }
    const char *s = line;
    for (size_t i = 0; i < TB_ARRAY_LEN(words); i++) {
        s = tb_shell_next(s, word, sizeof(word));
        assert_non_null(s);
        assert_string_equal(word, words[i]);
    }
    assert_null(tb_shell_next(s, word, sizeof(word)));
    assert_true(tb_shell_again(line, again, sizeof(again)));
    assert_string_equal(again, line);
    assert_true(tb_shell_again("job; rm $(x) 'open", again, sizeof(again)));
    assert_string_equal(again, "'job;' rm '$(x)' open");
    assert_false(tb_shell_again("job; rm $(x) 'open", again, 20));
}

/* What does not fit is cut, and is a whole word all the same. */
static void test_shell__words_that_are_cut_are_closed(void **state)
{
    char out[16];

    (void)state;
    for (size_t size = 1; size <= sizeof(out); size++) {
        memset(out, 'x', sizeof(out));
        (void)tb_shell_word("a'b c'd", out, size);
        size_t n = strlen(out);
        assert_true(n < size);
        assert_true(n == 0 || (out[0] == '\'' && out[n - 1] == '\'' && n >= 2));
    }
}

static void test_shell__programs_have_the_path_that_the_user_gave(void **state)
{
    static char with_path[] = "build dev/bin/twinbit", plain[] = "twinbit", test[] = "/x/test_y";
    char *before = program_invocation_name, out[64];

    (void)state;
    program_invocation_name = with_path;
    assert_string_equal(tb_program("twinbit", out, sizeof(out)), "'build dev/bin/twinbit'");
    assert_string_equal(tb_program("softgpu", out, sizeof(out)), "'build dev/bin/softgpu'");
    program_invocation_name = plain;
    assert_string_equal(tb_program("softgpu", out, sizeof(out)), "softgpu");
    program_invocation_name = test;
    assert_string_equal(tb_program("twinbit", out, sizeof(out)), "twinbit");
    program_invocation_name = before;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shell__words_are_quoted_where_they_must_be),
        cmocka_unit_test(test_shell__control_characters_are_escaped),
        cmocka_unit_test(test_shell__lines_are_words_again),
        cmocka_unit_test(test_shell__words_that_are_cut_are_closed),
        cmocka_unit_test(test_shell__programs_have_the_path_that_the_user_gave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
