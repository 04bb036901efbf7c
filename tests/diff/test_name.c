/* Event names: what is read is what was written, and the k-th is the one the recorder counts */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "diff/diff.h"
#include "recorder/wire.h"
#include "tests/diff/job.h"

static struct tb_event_name parse(const char *text)
{
    struct tb_event_name n;
    struct tb_error err = {0};

    if (tb_event_name_parse(text, &n, &err) != TB_OK)
        fail_msg("%s", err.text);
    return n;
}

static void test_name__whole_names_come_back(void **state)
{
    static const char *const names[] = {
        "0/train.py/main/3/backward:transformer.h.1.attn/aten::addmm#0",
        "7/train.py-w2/autograd#0/18446744073709551/forward:/aten::add.Tensor#12",
        "train.py/main/0/optimizer:/aten::_foreach_add_.Scalar#4",
        "main/0/forward:m/aten::mm#1",
        "3/forward:/step#0",
    };
    char text[TB_EVENT_NAME_TEXT];

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++) {
        struct tb_event_name n = parse(names[i]);
        assert_string_equal(tb_event_name_format(&n, text, sizeof(text)), names[i]);
    }
}

static void test_name__parts(void **state)
{
    struct tb_event_name n = parse("1/train.py-r2/autograd#0/41/backward:h.0/aten::mm.out#3");
    char text[TB_EVENT_NAME_TEXT];

    (void)state;
    assert_int_equal(n.rank, 1);
    assert_string_equal(n.process, "train.py-r2");
    assert_string_equal(n.role, "autograd#0");
    assert_int_equal(n.step, 41);
    assert_string_equal(n.module, "backward:h.0");
    assert_string_equal(n.op, "aten::mm.out");
    assert_int_equal(n.k, 3);
    assert_string_equal(tb_event_name_short(&n, text, sizeof(text)),
                        "41/backward:h.0/aten::mm.out#3");
}

static void test_name__what_is_none_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "aten::mm#0",
        "forward:/aten::mm#0",
        "x/forward:/aten::mm#0",
        "3/forward:/aten::mm",
        "3/forward:/aten::mm#",
        "3/forward:/aten::mm#x",
        "3/forward:/#0",
        "3/forward/aten::mm#0",
        "/3/forward:/aten::mm#0",
        "0//main/3/forward:/aten::mm#0",
        "r/p/main/3/forward:/aten::mm#0",
        "0/0/p/main/3/forward:/aten::mm#0",
        "99999999999999999999/forward:/aten::mm#0",
    };
    struct tb_event_name n = {.k = 77};

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(bad); i++) {
        struct tb_error err = {0};
        assert_int_equal(tb_event_name_parse(bad[i], &n, &err), TB_ERR_ARG);
        assert_non_null(strstr(err.text, "is not an event name"));
    }
    assert_int_equal(n.k, 77);
}

static void test_name__long_parts_are_refused(void **state)
{
    char text[4096];
    struct tb_event_name n;

    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text, "3/forward:", 10);
    (void)snprintf(text + 3000, 100, "/aten::mm#0");
    assert_int_equal(tb_event_name_parse(text, &n, NULL), TB_ERR_ARG);
}

static void test_name__match(void **state)
{
    struct tb_event_name whole = parse("0/train.py/main/3/forward:m/aten::mm#1");
    struct tb_event_name some = parse("3/forward:m/aten::mm#1");
    struct tb_event_name other = parse("other/3/forward:m/aten::mm#1");
    struct tb_event_name later = parse("3/forward:m/aten::mm#2");

    (void)state;
    assert_true(tb_event_name_match(&whole, &whole));
    assert_true(tb_event_name_match(&some, &whole));
    assert_false(tb_event_name_match(&other, &whole));
    assert_false(tb_event_name_match(&later, &whole));
}

static void test_name__module_of_a_range(void **state)
{
    char text[64];

    (void)state;
    tb_event_name_module("backward\th.1.attn\tuser scope", text, sizeof(text));
    assert_string_equal(text, "backward:h.1.attn");
    tb_event_name_module("optimizer\t\t", text, sizeof(text));
    assert_string_equal(text, "optimizer:");
    tb_event_name_module("", text, sizeof(text));
    assert_string_equal(text, "forward:");
    tb_event_name_module("\tm", text, sizeof(text));
    assert_string_equal(text, "forward:m");
}

static void check_label(const char *argv, int32_t worker, int32_t restart, const char *want)
{
    struct tb_trace_process p = {.argv = argv, .worker = worker, .restart = restart};
    char text[96];

    tb_process_label(&p, text, sizeof(text));
    assert_string_equal(text, want);
}

static void test_name__process_labels(void **state)
{
    (void)state;
    check_label("python3 -u examples/train.py --lr 1", -1, 0, "train.py");
    check_label("python3 -m torch.distributed.run", -1, 0, "torch.distributed.run");
    check_label("/opt/x/job --a", -1, 0, "job");
    check_label("python 'my job.py'", 2, 1, "my_job.py-w2-r1");
    check_label("", -1, 0, "process");
}

#define SEEN 1024

/* Names of all events, made one by one, are those of counting along */
static void test_name__kth_of_its_thread_and_step(void **state)
{
    const char *path = job_scratch("names.twinbit");
    struct job j = job_defaults();
    struct tb_trace *t = NULL;
    struct tb_error err = {0};
    size_t threads, named = 0;

    (void)state;
    job_write(&j, path);
    assert_int_equal(tb_trace_open(&t, path, &err), TB_OK);
    const struct tb_trace_thread *th = tb_trace_threads(t, &threads);
    for (size_t i = 0; i < threads; i++) {
        struct tb_event_name *seen = calloc(SEEN, sizeof(*seen));
        size_t n = 0;
        struct tb_cursor *c = NULL;
        const struct tb_trace_event *e = NULL;
        assert_non_null(seen);
        assert_int_equal(tb_cursor_open(&c, t, th[i].id, 0, INT64_MAX, &err), TB_OK);
        while (tb_cursor_next(c, &e, &err) == TB_OK && e && n < SEEN) {
            struct tb_event_name name;
            uint64_t k = 0;
            assert_int_equal(tb_event_name_of(t, th[i].id, e->id, &name, &err), TB_OK);
            assert_int_equal(name.step, e->e.step);
            assert_string_equal(name.op, e->site->name);
            assert_string_equal(name.role, th[i].role);
            for (size_t q = 0; q < n; q++)
                k += seen[q].step == name.step && !strcmp(seen[q].module, name.module) &&
                     !strcmp(seen[q].op, name.op);
            assert_int_equal(name.k, k);
            seen[n++] = name;
            named++;
        }
        tb_cursor_close(c);
        free(seen);
    }
    assert_true(named > 50);
    tb_trace_close(t);
    job_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name__whole_names_come_back),
        cmocka_unit_test(test_name__parts),
        cmocka_unit_test(test_name__what_is_none_is_refused),
        cmocka_unit_test(test_name__long_parts_are_refused),
        cmocka_unit_test(test_name__match),
        cmocka_unit_test(test_name__module_of_a_range),
        cmocka_unit_test(test_name__process_labels),
        cmocka_unit_test(test_name__kth_of_its_thread_and_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
