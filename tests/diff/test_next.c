/*
 * The command that a report proposes: what it takes from a trace are words, whatever they hold, and
 * it asks for nothing that the runs showed already. The runs have one launch, and it differs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diff/diff_internal.h"
#include "tests/diff/job.h"

struct odd {
    const char *argv, *name, *device, *inputs, *snapshots, *range, *pins;
};

static struct tb_error err;

static void ok(enum tb_status st)
{
    if (st != TB_OK)
        fail_msg("%s", err.text);
}

static void meta(struct tb_store *s, const char *key, const char *value)
{
    if (value)
        ok(tb_store_meta(s, key, value, &err));
}

static void write_trace(const char *path, const struct odd *o, uint64_t result)
{
    struct tb_store_process p = {.rank = -1, .worker = -1, .argv = o->argv, .identity = "two#0"};
    struct tb_store_access a = {.alloc = 1, .fp_kind = TB_FP_BYTES};
    struct tb_store_event e = {.kind = TB_EV_LAUNCH};
    struct tb_store *s = NULL;
    uint32_t process;
    uint64_t id;
    char text[512];

    ok(tb_store_create(&s, path, &(struct tb_store_options){.force = true}, &err));
    meta(s, "argv", o->argv);
    meta(s, "device", o->device);
    meta(s, "pins.asked", o->pins);
    meta(s, "inputs", o->inputs);
    meta(s, "snapshots", o->snapshots);
    ok(tb_store_add_process(s, &p, &process, &err));
    ok(tb_store_add_thread(s, process, 0, "main", &e.thread, &err));
    int n = snprintf(text, sizeof(text), "cuda\n%s\nw f32 cuda:0 [16] - a\n", o->name);
    ok(tb_store_intern_site(s, text, (size_t)n, &e.site, &err));
    if (o->range)
        ok(tb_store_intern_range(s, o->range, strlen(o->range), &e.range, &err));
    memcpy(a.fp, &result, sizeof(result));
    ok(tb_store_event(s, &e, &a, 1, &id, &err));
    ok(tb_store_close(s, &err));
}

/* The report's text if @text, else its command */
static void assert_shows(const struct odd *o, const char *next, char **text)
{
    const char *pa = job_scratch("a.twinbit"), *pb = job_scratch("b.twinbit");
    struct tb_diff_report *r = NULL;
    size_t n = 0;

    write_trace(pa, o, 7);
    write_trace(pb, o, 8);
    ok(tb_diff_run(&r, pa, pb, NULL, &err));
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    if (next)
        assert_string_equal(r->roots[0].next, next);
    if (text) {
        FILE *f = open_memstream(text, &n);
        tb_diff_text(r, f, false);
        (void)fclose(f);
    }
    tb_diff_free(r);
    job_clean();
}

static void assert_next(struct odd o, const char *next)
{
    o.argv = o.argv ? o.argv : "./two";
    o.name = o.name ? o.name : "consume";
    assert_shows(&o, next, NULL);
}

static void test_next__asks_for_the_bytes_of_what_differs(void **state)
{
    (void)state;
    assert_next((struct odd){.device = "softgpu"},
                "twinbit run -n 2 --device softgpu --inputs --steps 0..0 "
                "--snapshot '0/forward:/consume#0' -- ./two");
}

static void test_next__asks_for_the_same_pins(void **state)
{
    (void)state;
    assert_next((struct odd){.device = "softgpu",
                             .pins = "--pin strict --pin '!nccl.algo' --pin-seed 3 --force-pins"},
                "twinbit run -n 2 --device softgpu --pin strict --pin '!nccl.algo' --pin-seed 3 "
                "--force-pins --inputs --steps 0..0 --snapshot '0/forward:/consume#0' -- ./two");
    /* nothing but pins, whatever a trace holds */
    assert_next(
        (struct odd){.pins = "--pin strict --libdir /elsewhere"},
        "twinbit run -n 2 --inputs --steps 0..0 --snapshot '0/forward:/consume#0' -- ./two");
    assert_next(
        (struct odd){.pins = "--pin"},
        "twinbit run -n 2 --inputs --steps 0..0 --snapshot '0/forward:/consume#0' -- ./two");
    assert_next((struct odd){.pins = "--pin a;$(x)"},
                "twinbit run -n 2 --pin 'a;$(x)' --inputs --steps 0..0 "
                "--snapshot '0/forward:/consume#0' -- ./two");
}

static void test_next__is_words_whatever_a_trace_holds(void **state)
{
    char longer[1400];

    (void)state;
    assert_next((struct odd){.name = "it's $(x) `y`"},
                "twinbit run -n 2 --inputs --steps 0..0 "
                "--snapshot '0/forward:/it'\\''s $(x) `y`#0' -- ./two");
    assert_next((struct odd){.range = "we'ird $(x)\t`y`\tz"},
                "twinbit run -n 2 --inputs --steps 0..0 "
                "--snapshot '0/we'\\''ird $(x):`y`/consume#0' -- ./two");
    assert_next((struct odd){.argv = "./two; rm $(x) 'a b'"},
                "twinbit run -n 2 --inputs --steps 0..0 --snapshot '0/forward:/consume#0' "
                "-- './two;' rm '$(x)' 'a b'");
    assert_next((struct odd){.device = "soft;$(x)"}, "twinbit run -n 2 --inputs --steps 0..0 "
                                                     "--snapshot '0/forward:/consume#0' -- ./two");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_next((struct odd){.argv = longer}, "");
}

/* A terminal obeys what is printed to it. */
static void test_next__names_command_no_terminal(void **state)
{
    const struct odd o = {
        .argv = "./two", .name = "red\033[31m\177", .range = "ph\033c\nx\tm\302\233\t"};
    char *text = NULL;

    (void)state;
    assert_shows(&o, NULL, &text);
    assert_non_null(strstr(text, "red?[31m?#0"));
    assert_non_null(strstr(text, "ph?c?x:m??"));
    for (const char *c = text; *c; c++)
        assert_true(*c == '\n' || !tb_control(c));
    free(text);
}

/* The bytes of a node are not kept: its inputs may tell more, and then there is no more. */
static void test_next__asks_for_no_bytes_of_nodes(void **state)
{
    (void)state;
    assert_next((struct odd){.name = "consume\tgraph=1"}, "twinbit run -n 2 --inputs -- ./two");
    assert_next((struct odd){.name = "consume\tgraph=1", .inputs = "yes"}, "");
}

static void test_next__does_not_ask_twice(void **state)
{
    (void)state;
    assert_next((struct odd){.inputs = "yes", .snapshots = "0/forward:/x#0\n0/forward:/consume#0"},
                "");
    assert_next(
        (struct odd){.inputs = "yes", .snapshots = "10/forward:/consume#0"},
        "twinbit run -n 2 --inputs --steps 0..0 --snapshot '0/forward:/consume#0' -- ./two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next__asks_for_the_bytes_of_what_differs),
        cmocka_unit_test(test_next__asks_for_the_same_pins),
        cmocka_unit_test(test_next__is_words_whatever_a_trace_holds),
        cmocka_unit_test(test_next__names_command_no_terminal),
        cmocka_unit_test(test_next__asks_for_no_bytes_of_nodes),
        cmocka_unit_test(test_next__does_not_ask_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
