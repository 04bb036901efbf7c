#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

static void check_json(const char *in, const char *want)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    assert_non_null(f);
    tb_json_string(f, in);
    assert_int_equal(fclose(f), 0);
    assert_string_equal(text, want);
    free(text);
}

static void test_output__json_strings_are_always_valid(void **state)
{
    (void)state;
    check_json("", "\"\"");
    check_json("a\"b\\c/\n\t\r\x01", "\"a\\\"b\\\\c/\\n\\t\\u000d\\u0001\"");
    check_json("h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x94\xA5",
               "\"h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x94\xA5\"");
    check_json("\xFF", "\"\\ufffd\"");
    check_json("x\xC3", "\"x\\ufffd\"");                     /* cut */
    check_json("\xC0\xAF", "\"\\ufffd\\ufffd\"");            /* overlong */
    check_json("\xED\xA0\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* surrogate */
    check_json("\xF4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

static void test_output__bytes(void **state)
{
    char buf[32];

    (void)state;
    assert_string_equal(tb_cli_bytes(0, buf, sizeof(buf)), "0 B");
    assert_string_equal(tb_cli_bytes(1023, buf, sizeof(buf)), "1023 B");
    assert_string_equal(tb_cli_bytes(1024, buf, sizeof(buf)), "1.0 KiB");
    assert_string_equal(tb_cli_bytes(5u << 20, buf, sizeof(buf)), "5.0 MiB");
    assert_string_equal(tb_cli_bytes(UINT64_MAX, buf, sizeof(buf)), "16384.0 PiB");
}

struct folder {
    char path[64], old[4096];
};

static int enter_folder(void **state)
{
    struct folder *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    *state = f;
    strcpy(f->path, "/tmp/tb_cli_XXXXXX");
    return !mkdtemp(f->path) || !getcwd(f->old, sizeof(f->old)) || chdir(f->path) != 0;
}

static int leave_folder(void **state)
{
    struct folder *f = *state;
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf %s", f->path);
    int bad = chdir(f->old) != 0 || system(command) != 0;
    free(f);
    return bad;
}

static void touch(const char *path)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

static void check_name(const char *a0, const char *a1, const char *a2, const char *want)
{
    const char *words[] = {a0, a1, a2, NULL};
    char *argv[4] = {NULL}, out[64];

    for (int i = 0; words[i]; i++)
        argv[i] = strdup(words[i]);
    tb_cli_job_name(argv, out, sizeof(out));
    assert_string_equal(out, want);
    for (int i = 0; argv[i]; i++)
        free(argv[i]);
}

static void test_output__job_name_is_the_scripts(void **state)
{
    (void)state;
    touch("train.py");
    check_name("python", "train.py", NULL, "train");
    check_name("/usr/bin/python3.11", "-u", "./train.py", "train");
    check_name("python", "absent.py", NULL, "python");
    check_name("python", "-c", "1", "python");
    check_name("torchrun", "--nproc=2", "train.py", "train");
    check_name("./train.py", "train.py", NULL, "train");
    check_name("./a.out", "train.py", NULL, "a.out");
    check_name("/", NULL, NULL, "/");
}

static void test_output__free_trace_takes_the_first_free_name(void **state)
{
    struct tb_error err = {0};
    char out[64];

    (void)state;
    assert_int_equal(tb_cli_free_trace("x", out, sizeof(out), &err), TB_OK);
    assert_string_equal(out, "x-1.twinbit");
    touch("x-1.twinbit");
    touch("x-3.twinbit");
    assert_int_equal(tb_cli_free_trace("x", out, sizeof(out), &err), TB_OK);
    assert_string_equal(out, "x-2.twinbit");
    touch("x-2.twinbit");
    assert_int_equal(tb_cli_free_trace("x", out, sizeof(out), &err), TB_OK);
    assert_string_equal(out, "x-4.twinbit");
}

static void test_output__libdir_is_checked(void **state)
{
    struct tb_error err = {0};
    char out[4096] = "before", *real;

    (void)state;
    unsetenv("TWINBIT_LIBDIR");
    assert_int_equal(mkdir("lib", 0700), 0);
    assert_int_equal(tb_cli_libdir("lib", out, sizeof(out), &err), TB_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "lib/libtwinbit.so"));
    assert_int_equal(tb_cli_libdir("absent", out, sizeof(out), &err), TB_ERR_NOTFOUND);
    assert_string_equal(out, "before");
    touch("lib/libtwinbit.so");
    assert_int_equal(tb_cli_libdir("lib", out, sizeof(out), &err), TB_OK);
    real = realpath("lib", NULL);
    assert_string_equal(out, real);
    setenv("TWINBIT_LIBDIR", "lib", 1);
    strcpy(out, "before");
    assert_int_equal(tb_cli_libdir(NULL, out, sizeof(out), &err), TB_OK);
    assert_string_equal(out, real);
    setenv("TWINBIT_LIBDIR", "elsewhere", 1);
    assert_int_equal(tb_cli_libdir(NULL, out, sizeof(out), &err), TB_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "TWINBIT_LIBDIR"));
    unsetenv("TWINBIT_LIBDIR");
    free(real);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output__json_strings_are_always_valid),
        cmocka_unit_test(test_output__bytes),
        cmocka_unit_test_setup_teardown(test_output__job_name_is_the_scripts, enter_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(test_output__free_trace_takes_the_first_free_name,
                                        enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(test_output__libdir_is_checked, enter_folder, leave_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
