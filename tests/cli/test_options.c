#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

struct values {
    bool force;
    const char *out;
    struct tb_cli_list events;
    uint64_t number, size;
    struct tb_cli_steps steps;
    unsigned level;
};

static const struct tb_cli_option options[] = {
    {"--force", "-f", TB_CLI_FLAG, offsetof(struct values, force), NULL, "overwrite"},
    {"--output", "-o", TB_CLI_STRING, offsetof(struct values, out), "FILE", "where to"},
    {"--event", NULL, TB_CLI_LIST, offsetof(struct values, events), "EVENT", "which"},
    {"--number", "-n", TB_CLI_NUMBER, offsetof(struct values, number), "N", "how many"},
    {"--size", NULL, TB_CLI_SIZE, offsetof(struct values, size), "SIZE", "how big"},
    {"--steps", NULL, TB_CLI_STEPS, offsetof(struct values, steps), "A..B", "when"},
    {"--level", NULL, TB_CLI_CHOICE, offsetof(struct values, level), "low|high|higher", "detail"},
};

static struct tb_cli_command command = {
    .name = "try",
    .synopsis = "[options] X",
    .about = "Tries.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
};

/* Words of @line, parsed; what was said on stderr goes to @said */
struct parsed {
    struct values v;
    struct tb_cli_rest rest;
    char *argv[32];
    char text[256];
    char said[512];
    int status;
    bool go;
};

static void parse(struct parsed *p, const char *line, bool job)
{
    int argc = 0, ends[2], saved = dup(STDERR_FILENO);
    char *save = NULL;

    memset(p, 0, sizeof(*p));
    p->status = -1;
    (void)snprintf(p->text, sizeof(p->text), "try %s", line);
    for (char *w = strtok_r(p->text, " ", &save); w; w = strtok_r(NULL, " ", &save))
        p->argv[argc++] = w;
    command.job = job;
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    p->go = tb_cli_parse(&command, argc, p->argv, &p->v, &p->rest, &p->status);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(ends[1]);
    ssize_t n = read(ends[0], p->said, sizeof(p->said) - 1);
    assert_true(n >= 0);
    p->said[n] = '\0';
    close(ends[0]);
}

static void test_options__all_kinds_are_stored(void **state)
{
    struct parsed p;

    (void)state;
    parse(&p, "a --force -o f --event x --event=y -n 7 --size 3m --steps 2..5 --level high b",
          false);
    assert_true(p.go);
    assert_true(p.v.force);
    assert_string_equal(p.v.out, "f");
    assert_int_equal(p.v.events.count, 2);
    assert_string_equal(p.v.events.item[0], "x");
    assert_string_equal(p.v.events.item[1], "y");
    assert_int_equal(p.v.number, 7);
    assert_int_equal(p.v.size, 3 << 20);
    assert_int_equal(p.v.steps.from, 2);
    assert_int_equal(p.v.steps.to, 5);
    assert_int_equal(p.v.level, 1);
    assert_int_equal(p.rest.count, 2);
    assert_string_equal(p.rest.item[0], "a");
    assert_string_equal(p.rest.item[1], "b");
    assert_null(p.rest.item[2]);
    assert_string_equal(p.said, "");
}

static void test_options__a_job_ends_options(void **state)
{
    struct parsed p;

    (void)state;
    parse(&p, "--force python --force -x", true);
    assert_true(p.go);
    assert_int_equal(p.rest.count, 3);
    assert_string_equal(p.rest.item[1], "--force");
    parse(&p, "--force -- -odd --level", true);
    assert_true(p.go);
    assert_int_equal(p.rest.count, 2);
    assert_string_equal(p.rest.item[0], "-odd");
    parse(&p, "-- --", true);
    assert_int_equal(p.rest.count, 1);
    assert_string_equal(p.rest.item[0], "--");
    parse(&p, "", true);
    assert_true(p.go);
    assert_int_equal(p.rest.count, 0);
}

static void test_options__bad_input_is_one_line_and_status_2(void **state)
{
    static const struct {
        const char *line, *said;
    } cases[] = {
        {"--forc", "unknown option '--forc'"},
        {"--forced", "unknown option '--forced'"},
        {"-x", "unknown option '-x'"},
        {"--force=1", "option '--force' takes no value"},
        {"--output", "option '--output' needs a value (FILE)"},
        {"--output=", "option '--output': '' is not acceptable"},
        {"-n -1", "option '--number': '-1' is not acceptable, expected a number"},
        {"-n 1x", "expected a number"},
        {"-n 18446744073709551616", "expected a number"},
        {"--size 1Q", "expected a size such as 512M (K, M, G or T)"},
        {"--size 99999999999999T", "expected a size"},
        {"--steps 5..2", "expected steps such as 3..9"},
        {"--steps ..", "expected steps"},
        {"--level hig", "expected low|high|higher"},
    };
    struct parsed p;

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++) {
        parse(&p, cases[i].line, false);
        assert_false(p.go);
        assert_int_equal(p.status, TB_EXIT_ERROR);
        assert_non_null(strstr(p.said, cases[i].said));
        assert_ptr_equal(strchr(p.said, '\n'), p.said + strlen(p.said) - 1);
    }
}

static void test_options__list_has_a_stated_limit(void **state)
{
    struct values v = {.force = false};
    struct tb_cli_rest rest;
    int argc = 0, status = -1;
    char *argv[TB_CLI_LIST_MAX + 3], event[] = "--event=e", name[] = "try";

    (void)state;
    argv[argc++] = name;
    for (int i = 0; i < TB_CLI_LIST_MAX + 1; i++)
        argv[argc++] = event;
    argv[argc] = NULL;
    command.job = false;
    assert_true(tb_cli_parse(&command, argc - 1, argv, &v, &rest, &status));
    assert_int_equal(v.events.count, TB_CLI_LIST_MAX);
    argv[1] = event; /* the first call moved the operands, of which there were none, to here */
    assert_false(tb_cli_parse(&command, 2, argv, &v, &rest, &status));
    assert_int_equal(status, TB_EXIT_ERROR);
    assert_int_equal(v.events.count, TB_CLI_LIST_MAX);
}

static void test_options__steps(void **state)
{
    struct tb_cli_steps s = {0};

    (void)state;
    assert_true(tb_cli_parse_steps("40000", &s));
    assert_true(s.given && s.from == 40000 && s.to == 40000);
    assert_true(tb_cli_parse_steps("3..", &s));
    assert_true(s.from == 3 && s.to == UINT64_MAX);
    assert_true(tb_cli_parse_steps("..9", &s));
    assert_true(s.from == 0 && s.to == 9);
    assert_false(tb_cli_parse_steps("", &s));
    assert_false(tb_cli_parse_steps("1...3", &s));
    assert_false(tb_cli_parse_steps("1..3x", &s));
    assert_true(s.from == 0 && s.to == 9);
}

static void test_options__sizes(void **state)
{
    uint64_t n = 1;

    (void)state;
    assert_true(tb_cli_parse_size("0", &n) && n == 0);
    assert_true(tb_cli_parse_size("17", &n) && n == 17);
    assert_true(tb_cli_parse_size("2K", &n) && n == 2048);
    assert_true(tb_cli_parse_size("15T", &n) && n == 15ull << 40);
    assert_false(tb_cli_parse_size("K", &n));
    assert_false(tb_cli_parse_size("", &n));
    assert_false(tb_cli_parse_size("1KK", &n));
    assert_false(tb_cli_parse_size("16777216T", &n));
    assert_int_equal(n, 15ull << 40);
}

static void test_options__a_share_is_above_zero_and_at_most_one(void **state)
{
    static const char *const bad[] = {"",  ".",    "0",   "0.0",  "1.01",
                                      "2", "-0.5", "0,5", "1e-2", "nan"};
    uint32_t share = 7;

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(bad); i++)
        assert_false(tb_cli_parse_share(bad[i], &share));
    assert_int_equal(share, 7);
    assert_true(tb_cli_parse_share("1", &share));
    assert_int_equal(share, 65536);
    assert_true(tb_cli_parse_share(".25", &share));
    assert_int_equal(share, 16384);
    assert_true(tb_cli_parse_share("0.0000001", &share));
    assert_int_equal(share, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options__a_share_is_above_zero_and_at_most_one),
        cmocka_unit_test(test_options__all_kinds_are_stored),
        cmocka_unit_test(test_options__a_job_ends_options),
        cmocka_unit_test(test_options__bad_input_is_one_line_and_status_2),
        cmocka_unit_test(test_options__list_has_a_stated_limit),
        cmocka_unit_test(test_options__steps),
        cmocka_unit_test(test_options__sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
