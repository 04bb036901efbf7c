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
    const char *argv_b;      /* of run B, where it is another one */
    const char *variable[2]; /* of the environment, "KEY=VALUE" */
    const char *fill[2];     /* --poison */
    const char *left_out;    /* kind of a row of coverage */
    const char *tap, *steps, *cwd;
    bool state;     /* the event is a state at a step's end */
    bool argument;  /* the event's arguments differ */
    bool unwritten; /* it reads bytes that nobody wrote */
    bool op;        /* the event is an operator */
    bool bytes;     /* and the bytes are in the trace */
    bool copy;      /* it brings bytes to the host that nobody wrote */
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

static void provenance(struct tb_store *s, const struct odd *o, int side)
{
    meta(s, "argv", side && o->argv_b ? o->argv_b : o->argv);
    meta(s, "device", o->device);
    meta(s, "pins.asked", o->pins);
    meta(s, "inputs", o->inputs);
    meta(s, "snapshots", o->snapshots);
    meta(s, "poison", o->fill[side]);
    meta(s, "cuda.tap", o->tap);
    meta(s, "steps", o->steps);
    meta(s, "cwd", o->cwd);
    if (o->variable[side])
        ok(tb_store_text(s, "environment", o->variable[side], strlen(o->variable[side]), &err));
}

static void cover(struct tb_store *s, const struct odd *o, uint32_t process, uint64_t id)
{
    if (o->left_out)
        ok(tb_store_coverage(s, process, 0, 0, 1, o->left_out, "scale", "left out", 3, &err));
    if (o->unwritten)
        ok(tb_store_coverage(s, process, 0, id, 1, "uninitialised read", o->name, "", 1, &err));
}

static void write_trace(const char *path, const struct odd *o, int side)
{
    const char *argv = side && o->argv_b ? o->argv_b : o->argv;
    struct tb_store_process p = {.rank = -1, .worker = -1, .argv = argv, .identity = "two#0"};
    struct tb_store_access a = {.alloc = 1, .fp_kind = TB_FP_BYTES};
    struct tb_store_event e = {.kind = o->state ? TB_EV_STATE : o->op ? TB_EV_OP : TB_EV_LAUNCH};
    struct tb_store *s = NULL;
    uint32_t process;
    uint64_t id, result = 7u + (unsigned)side;
    char text[512];

    ok(tb_store_create(&s, path, &(struct tb_store_options){.force = true}, &err));
    provenance(s, o, side);
    ok(tb_store_add_process(s, &p, &process, &err));
    ok(tb_store_add_thread(s, process, 0, "main", &e.thread, &err));
    e.args = o->argument && side ? 6 : 5;
    e.kind = o->copy ? TB_EV_COPY : e.kind;
    int n = snprintf(text, sizeof(text), "cuda\n%s\n%s f32 cuda:0 [16] - a\n", o->name,
                     o->state  ? "s"
                     : o->copy ? "r"
                               : "w");
    ok(tb_store_intern_site(s, text, (size_t)n, &e.site, &err));
    if (o->range)
        ok(tb_store_intern_range(s, o->range, strlen(o->range), &e.range, &err));
    memcpy(a.fp, &result, sizeof(result));
    ok(tb_store_event(s, &e, &a, 1, &id, &err));
    if (o->bytes) {
        float bytes[16] = {(float)side};
        ok(tb_store_snapshot(s, id, 0, bytes, sizeof(bytes), &err));
    }
    cover(s, o, process, id);
    ok(tb_store_close(s, &err));
}

/* The report's text if @text, else its command */
static void assert_shows(const struct odd *o, const char *next, char **text)
{
    const char *pa = job_scratch("a.twinbit"), *pb = job_scratch("b.twinbit");
    struct tb_diff_report *r = NULL;
    size_t n = 0;

    write_trace(pa, o, 0);
    write_trace(pb, o, 1);
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

/* Runs that differ in what they were started with, and were recorded with all that can be seen. */
static void test_next__ends_where_all_was_seen(void **state)
{
    struct odd o = {
        .variable = {"N=1", "N=2"}, .inputs = "yes", .snapshots = "0/forward:/consume#0"};

    (void)state;
    o.bytes = true;
    assert_next(o, "");
    o.snapshots = NULL;
    o.argument = true;
    assert_next(o, "N='1' twinbit run --force --inputs --steps 0..0 --snapshot "
                   "'0/forward:/consume#0' -o next-a.twinbit -- ./two; "
                   "N='2' twinbit run --force --inputs --steps 0..0 --snapshot "
                   "'0/forward:/consume#0' -o next-b.twinbit -- ./two; "
                   "twinbit diff next-a.twinbit next-b.twinbit");
    o.snapshots = "0/forward:/consume#0";
    assert_next(o, "");
    o = (struct odd){.variable = {"N=1", "N=2"}, .state = true, .steps = "0..0"};
    assert_next(o, "N='1' twinbit run --force --inputs -o next-a.twinbit -- ./two; "
                   "N='2' twinbit run --force --inputs -o next-b.twinbit -- ./two; "
                   "twinbit diff next-a.twinbit next-b.twinbit");
    o.inputs = "yes";
    assert_next(o, "");
}

#define BYTES "--inputs --steps 0..0 --snapshot '0/forward:/consume#0' "

/* What the runs differ in may be why: each comes again with its own. */
static void test_next__repeats_both_runs_as_they_were(void **state)
{
    (void)state;
    assert_next((struct odd){.variable = {"N=1", "N=2"}, .argv_b = "./two 'a b'"},
                "N='1' twinbit run --force " BYTES "-o next-a.twinbit -- ./two; "
                "N='2' twinbit run --force " BYTES "-o next-b.twinbit -- ./two 'a b'; "
                "twinbit diff next-a.twinbit next-b.twinbit");
    assert_next((struct odd){.variable = {"N=1", "O=it's"}, .tap = "cupti"},
                "env -u O N='1' twinbit run --tap cupti --force " BYTES
                "-o next-a.twinbit -- ./two; "
                "env -u N O='it'\\''s' twinbit run --tap cupti --force " BYTES
                "-o next-b.twinbit -- ./two; "
                "twinbit diff next-a.twinbit next-b.twinbit");
}

/* The report may be about what such a command has made. */
static void test_next__writes_over_nothing(void **state)
{
    const char *cwd = job_scratch("");
    char place[4096], next[4096];

    (void)state;
    (void)snprintf(place, sizeof(place), "%s/next-b.twinbit", cwd);
    FILE *f = fopen(place, "w");
    assert_non_null(f);
    (void)fclose(f);
    const struct odd o = {
        .argv = "./two", .name = "consume", .variable = {"N=1", "N=2"}, .cwd = cwd};
    (void)snprintf(next, sizeof(next),
                   "cd %s && { N='1' twinbit run --force " BYTES "-o next-2-a.twinbit -- ./two; "
                   "N='2' twinbit run --force " BYTES "-o next-2-b.twinbit -- ./two; "
                   "twinbit diff next-2-a.twinbit next-2-b.twinbit; }",
                   cwd);
    assert_shows(&o, next, NULL);
}

/* The value itself is in no trace; what it does to the result is. */
static void test_next__asks_for_the_bytes_of_a_host_value(void **state)
{
    (void)state;
    assert_next((struct odd){.argument = true}, "twinbit run -n 2 " BYTES "-- ./two");
    assert_next((struct odd){.argument = true, .argv = "python two.py"},
                "twinbit run -n 2 --inputs --stack --steps 0..0 "
                "--snapshot '0/forward:/consume#0' -- python two.py");
}

/* bisect takes one command and no pins. */
static void test_next__goes_on_from_step_ends(void **state)
{
    (void)state;
    assert_next((struct odd){.state = true, .device = "softgpu"},
                "twinbit bisect --device softgpu -- ./two");
    assert_next((struct odd){.state = true, .pins = "--pin basic"},
                "twinbit run -n 2 --pin basic --steps 0..0 -- ./two");
    assert_next((struct odd){.state = true, .variable = {"N=1", "N=2"}},
                "N='1' twinbit run --force --steps 0..0 -o next-a.twinbit -- ./two; "
                "N='2' twinbit run --force --steps 0..0 -o next-b.twinbit -- ./two; "
                "twinbit diff next-a.twinbit next-b.twinbit");
}

static void test_next__fills_memory_that_nobody_wrote(void **state)
{
    (void)state;
    assert_next((struct odd){.fill = {"0x11", "0x22"}},
                "twinbit run --poison 0x11,0x22 " BYTES "-- ./two");
    assert_next((struct odd){.fill = {"0x11", "0x22"},
                             .inputs = "yes",
                             .snapshots = "0/forward:/consume#0"},
                "twinbit run --poison 0x11,0x22 --inputs -- ./two");
    assert_next((struct odd){.unwritten = true, .op = true},
                "twinbit run --poison 0xa5,0x5a " BYTES "-- ./two");
    assert_next((struct odd){.unwritten = true, .op = true, .pins = "--pin system.malloc_fill=3"},
                "twinbit run -n 2 --pin system.malloc_fill=3 " BYTES "-- ./two");
}

/* One command of two: the report says why. */
static void test_next__says_why_one_run_is_enough(void **state)
{
    const struct odd o = {.argv = "./two",
                          .name = "consume",
                          .variable = {"N=1", "N=2"},
                          .unwritten = true,
                          .op = true};
    char *text = NULL;

    (void)state;
    assert_shows(&o, "N='1' twinbit run --poison 0xa5,0x5a " BYTES "-- ./two", &text);
    assert_non_null(strstr(text, "next: run A's command is enough"));
    free(text);
}

/* A difference may begin where nobody looked, because the user said so. */
static void test_next__evidence_says_what_was_left_out(void **state)
{
    static const char *const kinds[][2] = {
        {"filter", "coverage: left out: launches by --kernel (A 3, B 3; the first: 'scale'); the "
                   "difference may lie there"},
        {"sample", "coverage: left out: launches by --sample (A 3, B 3; the first: 'scale'); "},
        {"paused", "coverage: left out: what ran in pauses (A 3, B 3); "}};
    struct odd o = {.argv = "./two", .name = "consume"};
    char *text = NULL;

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(kinds); i++) {
        o.left_out = kinds[i][0];
        assert_shows(&o, NULL, &text);
        assert_non_null(strstr(text, kinds[i][1]));
        free(text);
    }
    /* a window says nothing by itself: only what is outside of it was left out */
    o = (struct odd){.argv = "./two", .name = "consume", .steps = "0..3"};
    assert_shows(&o, NULL, &text);
    assert_null(strstr(text, "left out: "));
    free(text);
    o.left_out = "window";
    assert_shows(&o, NULL, &text);
    assert_non_null(strstr(text, "left out: what ran outside of --steps 0..3 in A, "));
    free(text);
    o = (struct odd){.argv = "./two", .name = "consume", .steps = "1..3"};
    assert_shows(&o, NULL, &text);
    assert_non_null(strstr(text, "left out: 1 step outside of --steps 1..3 in A, 1 step outside"));
    free(text);
}

/* Who wrote it may be among what was left out: then it is no data from outside. */
static void test_next__writers_that_were_left_out_are_no_input_data(void **state)
{
    static const char *const kinds[][2] = {{"filter", "without --kernel\n"},
                                           {"sample", "without --sample\n"},
                                           {"paused", "without pauses\n"}};
    struct odd o = {.argv = "./two", .name = "cuMemcpyDtoH", .copy = true};
    char *text = NULL;

    (void)state;
    assert_shows(&o, NULL, &text);
    assert_non_null(strstr(text, "cause       input data"));
    free(text);
    for (size_t i = 0; i < TB_ARRAY_LEN(kinds); i++) {
        o.left_out = kinds[i][0];
        assert_shows(&o, NULL, &text);
        assert_null(strstr(text, "input data"));
        assert_non_null(strstr(text, "may be among what was left out; record both runs "));
        assert_non_null(strstr(text, kinds[i][1]));
        free(text);
    }
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
        cmocka_unit_test(test_next__ends_where_all_was_seen),
        cmocka_unit_test(test_next__repeats_both_runs_as_they_were),
        cmocka_unit_test(test_next__writes_over_nothing),
        cmocka_unit_test(test_next__asks_for_the_bytes_of_a_host_value),
        cmocka_unit_test(test_next__goes_on_from_step_ends),
        cmocka_unit_test(test_next__fills_memory_that_nobody_wrote),
        cmocka_unit_test(test_next__says_why_one_run_is_enough),
        cmocka_unit_test(test_next__evidence_says_what_was_left_out),
        cmocka_unit_test(test_next__writers_that_were_left_out_are_no_input_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
