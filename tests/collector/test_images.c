/* TB_MSG_IMAGE: a job asks what the kernels of an image do. */
#include "tests/collector/harness.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collector/collector_internal.h"

static const char *const ptx = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %d;\n"
                               "ld.param.u64 %d, [p];\nst.global.u32 [%d], 1;\nret;\n}\n";

static void run_job(struct outcome *o, const char *a, const char *b, const char *c)
{
    const char *argv[] = {
        driver_path(), "-o", "out.twinbit", "-R", "result", "-f", "--", TEST_IMAGE_JOB, a, b, c,
        NULL};

    finish(start(argv), o);
}

static void test_images__every_form_of_one_code_has_the_same_answer(void **state)
{
    struct outcome o;

    (void)state;
    run_job(&o, "text", "fatbin", "wrapper");
    assert_string_equal(o.out, "text: k 0:8=w/u32\nfatbin: k 0:8=w/u32\nwrapper: k 0:8=w/u32\n");
    assert_int_equal(o.exit_status, 0);
    run_job(&o, "list", "twice", "many");
    assert_string_equal(o.out, "list: k 0:8=w/u32\ntwice: k 0:8=w/u32\ntwice: k 0:8=w/u32\n"
                               "many: k 0:8=w/u32\nmany: k 0:8=w/u32\nmany: k 0:8=w/u32\n"
                               "many: k 0:8=w/u32\nmany: k 0:8=w/u32\nmany: k 0:8=w/u32\n"
                               "many: k 0:8=w/u32\nmany: k 0:8=w/u32\n");
}

static void test_images__what_has_no_ptx_is_not_known(void **state)
{
    struct outcome o;

    (void)state;
    run_job(&o, "damaged", "cubin", "nothing");
    assert_string_equal(o.out, "damaged: unknown\ncubin: unknown\nnothing: unknown\n");
    assert_int_equal(o.exit_status, 0);
}

/* A job that is killed while it waits leaves a trace, and nobody waits for the analysis. */
static void test_images__a_job_that_is_killed_while_it_waits(void **state)
{
    struct outcome o;

    (void)state;
    run_job(&o, "kill", "text", NULL);
    assert_int_equal(o.exit_status, 137);
    assert_string_equal(o.out, "");
    assert_true(o.wall_s < 15);
}

/* ---------------------------------------------------------------- the queue alone */

static int memfd_with(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static int wait_for(struct tb_images *s, uint64_t ticket, char *why, size_t n)
{
    struct pollfd p = {.fd = tb_images_event(s), .events = POLLIN};
    int fd = -2;

    while (!tb_images_answer(s, ticket, &fd, why, n)) {
        assert_int_equal(poll(&p, 1, 60000), 1);
        assert_true(tb_images_ready(s));
    }
    return fd;
}

static void test_images__answers_cannot_be_changed(void **state)
{
    struct tb_images *s = NULL;
    char why[TB_ERROR_TEXT];
    int fd;

    (void)state;
    assert_int_equal(tb_images_open(&s, NULL), TB_OK);
    fd = wait_for(s, tb_images_ask(s, memfd_with(ptx)), why, sizeof(why));
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GET_SEALS),
                     F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    close(fd);
    tb_images_close(s);
}

static void test_images__a_refusal_says_why(void **state)
{
    struct tb_images *s = NULL;
    char why[TB_ERROR_TEXT];
    int p[2];

    (void)state;
    assert_int_equal(tb_images_open(&s, NULL), TB_OK);
    assert_int_equal(wait_for(s, tb_images_ask(s, memfd_with("junk")), why, sizeof(why)), -1);
    assert_string_equal(why, "neither PTX nor a fat binary");
    assert_int_equal(wait_for(s, tb_images_ask(s, memfd_with(".version 8.0\n.target sm_80\nx")),
                              why, sizeof(why)),
                     -1);
    assert_non_null(strstr(why, "ptx:3: "));
    assert_int_equal(wait_for(s, tb_images_ask(s, memfd_with("")), why, sizeof(why)), -1);
    assert_string_equal(why, "an image of no or too many bytes");
    assert_int_equal(pipe(p), 0);
    close(p[1]);
    assert_int_equal(wait_for(s, tb_images_ask(s, p[0]), why, sizeof(why)), -1);
    tb_images_close(s);
}

/* Nobody waits, then the server ends: what is queued is dropped, what runs ends soon. */
static void test_images__closing_drops_what_is_queued(void **state)
{
    struct tb_images *s = NULL;
    uint64_t begin = now_ms();

    (void)state;
    assert_int_equal(tb_images_open(&s, NULL), TB_OK);
    for (int i = 0; i < 200; i++) {
        char text[400];

        snprintf(text, sizeof(text), "%s//%d\n", ptx, i);
        assert_true(tb_images_ask(s, memfd_with(text)) > 0);
    }
    tb_images_close(s);
    assert_true(now_ms() - begin < 20000);
    tb_images_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_images__every_form_of_one_code_has_the_same_answer,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_images__what_has_no_ptx_is_not_known, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_images__a_job_that_is_killed_while_it_waits, set_up,
                                        tear_down),
        cmocka_unit_test(test_images__answers_cannot_be_changed),
        cmocka_unit_test(test_images__a_refusal_says_why),
        cmocka_unit_test(test_images__closing_drops_what_is_queued),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
