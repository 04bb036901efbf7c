/* Whole traces against each other: the verdict, the first root and the words for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diff/diff.h"
#include "tests/diff/job.h"

static struct tb_diff_report *compare(const struct job *a, const struct job *b)
{
    struct tb_diff_report *r = NULL;
    struct tb_error err = {0};
    const char *pa = job_scratch("a.twinbit"), *pb = job_scratch("b.twinbit");

    job_write(a, pa);
    job_write(b, pb);
    if (tb_diff_run(&r, pa, pb, NULL, &err) != TB_OK)
        fail_msg("%s", err.text);
    return r;
}

static struct job faulty(enum job_fault fault, uint64_t step)
{
    struct job j = job_defaults();

    j.fault = fault;
    j.at = step;
    return j;
}

/* One fault in B: the first root's cause and operator, and no other root */
static struct tb_diff_report *one_root(struct job b, enum tb_diff_cause cause, const char *op)
{
    struct job a = job_defaults();

    a.inputs = b.inputs;
    a.rank = b.rank;
    a.boundary = b.boundary;
    a.snapshot = b.snapshot;
    a.map = b.map;
    if (b.fault == JOB_ITEM)
        a.fault = JOB_ITEM;
    b.alloc_gap = 3;
    b.seed = 12345;
    struct tb_diff_report *r = compare(&a, &b);
    if (r->verdict != TB_DIFF_DIVERGED || r->root_count != 1 || r->roots[0].cause != cause)
        tb_diff_text(r, stderr, false);
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    assert_int_equal(r->root_count, 1);
    assert_string_equal(tb_diff_cause_id(r->roots[0].cause), tb_diff_cause_id(cause));
    if (op) {
        const struct tb_diff_place *p = r->roots[0].a.known ? &r->roots[0].a : &r->roots[0].b;
        assert_true(p->name_known);
        assert_string_equal(p->name.op, op);
        assert_int_equal(p->name.step, b.at);
    }
    return r;
}

/* ---------------------------------------------------------------- equal runs */

static void test_report__equal_runs_are_identical(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct job a = job_defaults(), b = job_defaults();
        a.seed = seed;
        b.seed = seed * 7 + 1;
        b.alloc_gap = seed % 5;
        a.inputs = b.inputs = seed & 1;
        a.rank = b.rank = seed % 3 ? -1 : 2;
        struct tb_diff_report *r = compare(&a, &b);
        assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
        assert_int_equal(r->root_count, 0);
        assert_int_equal(r->compared, 0); /* all was skipped by digest */
        assert_true(r->skipped > 50);
        tb_diff_free(r);
    }
}

static void test_report__a_trace_is_identical_with_itself(void **state)
{
    (void)state;
    struct job a = job_defaults();
    struct tb_diff_report *r = NULL;
    struct tb_diff_options o = {.verify = true};
    const char *path = job_scratch("a.twinbit");

    job_write(&a, path);
    assert_int_equal(tb_diff_run(&r, path, path, &o, NULL), TB_OK);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    tb_diff_free(r);
}

/* ---------------------------------------------------------------- faults */

static void test_report__an_output_that_differs_is_the_root(void **state)
{
    (void)state;
    for (uint64_t step = 0; step < 6; step++) {
        struct job b = faulty(JOB_OUTPUT, step);
        struct tb_diff_report *r = one_root(b, TB_CAUSE_UNEXPLAINED, "aten::addmm");
        assert_int_equal(r->roots[0].a.name.k, 1);
        assert_string_equal(r->roots[0].a.name.module, "forward:model.fc");
        assert_string_equal(r->roots[0].a.name.role, "main");
        assert_string_equal(r->roots[0].tensor.argument, "out");
        assert_true(r->infected >= 4);
        assert_true(r->host.known);
        assert_int_equal(r->host.step, step);
        assert_true(r->host.a_f != r->host.b_f);
        assert_non_null(strstr(r->roots[0].next, "--snapshot"));
        if (step > 2)
            assert_true(r->skipped > 0);
        tb_diff_free(r);
    }
}

static void test_report__unseen_write_names_writer_and_reader(void **state)
{
    (void)state;
    struct job b = faulty(JOB_UNSEEN, 2);

    b.inputs = true;
    struct tb_diff_report *r = one_root(b, TB_CAUSE_UNSEEN_WRITER, "aten::mul.Tensor");
    assert_true(r->roots[0].writer_a.name_known && r->roots[0].writer_b.name_known);
    assert_string_equal(r->roots[0].writer_a.name.op, "aten::addmm");
    assert_int_equal(r->roots[0].writer_a.name.k, 0);
    assert_string_equal(r->roots[0].tensor.argument, "self");
    tb_diff_free(r);
}

static void test_report__without_inputs_an_unseen_write_is_not_ruled_out(void **state)
{
    (void)state;
    struct tb_diff_report *r =
        one_root(faulty(JOB_UNSEEN, 2), TB_CAUSE_UNEXPLAINED, "aten::mul.Tensor");
    bool said = false;

    for (unsigned i = 0; i < r->roots[0].evidence_count; i++)
        said = said || strstr(r->roots[0].evidence[i], "--inputs");
    if (!said)
        tb_diff_text(r, stderr, false);
    assert_true(said);
    assert_non_null(strstr(r->roots[0].next, "--inputs"));
    tb_diff_free(r);
}

static void test_report__causes_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        enum job_fault fault;
        enum tb_diff_cause cause;
        const char *op;
    } cases[] = {
        {JOB_BATCH, TB_CAUSE_INPUT_DATA, "aten::embedding"},
        {JOB_ARGS, TB_CAUSE_HOST_VALUE, "aten::mul.Tensor"},
        {JOB_RNG, TB_CAUSE_RNG, "aten::bernoulli_"},
        {JOB_EXTRA, TB_CAUSE_CONTROL_FLOW, "aten::relu"},
        {JOB_EXTRA_OFF, TB_CAUSE_CONTROL_FLOW, "aten::isnan"},
        {JOB_MISSING, TB_CAUSE_CONTROL_FLOW, "aten::gelu"},
        {JOB_ORDER, TB_CAUSE_ORDER, "aten::stack"},
        {JOB_INSIDE, TB_CAUSE_ALGORITHM, "aten::sum"},
        {JOB_INSIDE_ALWAYS, TB_CAUSE_ALGORITHM, "aten::sum"},
    };

    for (size_t i = 0; i < TB_ARRAY_LEN(cases); i++)
        for (int inputs = 0; inputs < 2; inputs++)
            for (uint64_t step = 0; step < 6; step += 3) {
                struct job b = faulty(cases[i].fault, step);
                b.inputs = inputs;
                tb_diff_free(one_root(b, cases[i].cause, cases[i].op));
            }
}

static void test_report__a_host_value_that_follows_is_infected(void **state)
{
    (void)state;
    struct job a = faulty(JOB_ITEM, 0), b = faulty(JOB_ITEM, 0);

    /* a batch that differs makes another loss, which the next step's scale is made of */
    struct tb_diff_report *r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    tb_diff_free(r);
    b = faulty(JOB_OUTPUT, 1);
    r = one_root(b, TB_CAUSE_UNEXPLAINED, "aten::addmm");
    tb_diff_free(r);
}

static void test_report__several_roots_are_ranked_by_step(void **state)
{
    (void)state;
    struct job a = faulty(JOB_BATCH, 4), b = faulty(JOB_RNG, 2);
    struct tb_diff_report *r = compare(&a, &b);

    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    assert_int_equal(r->root_count, 2);
    assert_int_equal(r->roots[0].cause, TB_CAUSE_RNG);
    assert_int_equal(r->roots[0].step, 2);
    assert_int_equal(r->roots[1].cause, TB_CAUSE_INPUT_DATA);
    assert_int_equal(r->roots[1].step, 4);
    tb_diff_free(r);
}

static void test_report__fewer_roots_may_be_kept(void **state)
{
    (void)state;
    struct job a = faulty(JOB_BATCH, 4), b = faulty(JOB_RNG, 2);
    struct tb_diff_report *r = compare(&a, &b);
    struct tb_diff_options o = {.max_roots = 1};

    tb_diff_free(r);
    assert_int_equal(tb_diff_run(&r, job_scratch("a.twinbit"), job_scratch("b.twinbit"), &o, NULL),
                     TB_OK);
    assert_int_equal(r->root_count, 1);
    assert_int_equal(r->roots_more, 1);
    tb_diff_free(r);
}

/* ---------------------------------------------------------------- elements */

static void test_report__maps_give_the_part(void **state)
{
    struct job b = faulty(JOB_OUTPUT, 3);

    (void)state;
    b.map = true;
    struct tb_diff_report *r = one_root(b, TB_CAUSE_UNEXPLAINED, "aten::addmm");
    const struct tb_diff_part *p = &r->roots[0].part;
    assert_true(p->known && !r->roots[0].elements_known);
    assert_int_equal(p->parts, 16);
    assert_int_equal(p->differ, 2);
    assert_int_equal(p->first, 5 * 2048); /* two leaves of 1,024 elements a part */
    assert_int_equal(p->last, 6 * 2048 - 1);
    assert_int_equal(p->count, 64 * 512);
    tb_diff_free(r);
    job_clean();
}

static void test_report__snapshots_give_the_elements(void **state)
{
    (void)state;
    struct job b = faulty(JOB_OUTPUT, 3);

    b.snapshot = true;
    struct tb_diff_report *r = one_root(b, TB_CAUSE_UNEXPLAINED, "aten::addmm");
    const struct tb_elements *e = &r->roots[0].elements;
    assert_true(r->roots[0].elements_known);
    assert_int_equal(e->count, 6);
    assert_true(e->differ > 0);
    assert_int_equal(e->ndim, 2);
    assert_int_equal(e->first, (uint64_t)(e->index[0] * 3 + e->index[1]));
    assert_true(memcmp(e->a, e->b, 4) != 0);
    tb_diff_free(r);
}

/* ---------------------------------------------------------------- levels and steps */

static void test_report__boundary_names_the_step(void **state)
{
    (void)state;
    for (uint64_t step = 0; step < 6; step++) {
        struct job b = faulty(JOB_OUTPUT, step);
        b.boundary = true;
        struct tb_diff_report *r = one_root(b, TB_CAUSE_STATE, NULL);
        assert_int_equal(r->roots[0].step, step);
        assert_string_equal(r->roots[0].tensor.argument, "param:fc.weight");
        assert_non_null(strstr(r->roots[0].next, "twinbit bisect"));
        tb_diff_free(r);
    }
}

static void test_report__resumed_runs_are_aligned_by_step(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = job_defaults();

    b.first = 3;
    b.steps = 8;
    struct tb_diff_report *r = compare(&a, &b);
    if (r->verdict != TB_DIFF_IDENTICAL)
        tb_diff_text(r, stderr, false);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    assert_int_equal(r->first_step, 3);
    assert_int_equal(r->last_step, 5);
    tb_diff_free(r);
    b.fault = JOB_OUTPUT;
    b.at = 4;
    r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    assert_int_equal(r->root_count, 1);
    assert_string_equal(r->roots[0].a.name.op, "aten::addmm");
    assert_int_equal(r->roots[0].step, 4);
    tb_diff_free(r);
}

static void test_report__no_common_step_is_unknown(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = job_defaults();

    a.steps = 3;
    b.first = 5;
    b.steps = 8;
    struct tb_diff_report *r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    tb_diff_free(r);
}

static void test_report__a_run_that_ends_early_diverges(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = job_defaults();

    b.steps = 4;
    struct tb_diff_report *r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    assert_int_equal(r->roots[0].cause, TB_CAUSE_CONTROL_FLOW);
    tb_diff_free(r);
}

/* ---------------------------------------------------------------- unknown */

static void test_report__loss_is_never_identical(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = job_defaults();

    b.lost = 3;
    struct tb_diff_report *r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    assert_non_null(strstr(r->reason, "3 records"));
    tb_diff_free(r);
    a.lost = 3;
    r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    tb_diff_free(r);
    b.fault = JOB_OUTPUT; /* what is known to differ differs */
    b.at = 2;
    r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    tb_diff_free(r);
}

static void test_report__coverage_in_one_run_only_is_unknown(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = job_defaults();

    b.cover = "aten::foo";
    struct tb_diff_report *r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    assert_non_null(strstr(r->reason, "aten::foo"));
    tb_diff_free(r);
    a.cover = "aten::foo";
    r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    assert_int_equal(r->coverage_count, 1);
    tb_diff_free(r);
}

static void test_report__a_cut_trace_is_unknown(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = job_defaults();

    b.cut = true;
    b.steps = 4;
    struct tb_diff_report *r = compare(&a, &b);
    if (r->verdict != TB_DIFF_UNKNOWN)
        tb_diff_text(r, stderr, false);
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    assert_false(r->run[1].complete);
    tb_diff_free(r);
}

/* ---------------------------------------------------------------- ranks */

static struct tb_diff_report *compare_ranks(struct job a[2], struct job b[2])
{
    struct tb_diff_report *r = NULL;
    struct tb_error err = {0};
    char path[200];

    for (int side = 0; side < 2; side++) {
        const char *folder = job_scratch(side ? "rb" : "ra");
        (void)mkdir(folder, 0700);
        for (int rank = 0; rank < 2; rank++) {
            struct job *j = side ? &b[rank] : &a[rank];
            j->rank = rank;
            (void)snprintf(path, sizeof(path), "%s/host-%d.twinbit", folder, rank);
            job_write(j, path);
        }
    }
    if (tb_diff_run(&r, job_scratch("ra"), job_scratch("rb"), NULL, &err) != TB_OK)
        fail_msg("%s", err.text);
    return r;
}

static void check_rank_blamed(bool split)
{
    struct job a[2] = {job_defaults(), job_defaults()}, b[2] = {job_defaults(), job_defaults()};

    for (int rank = 0; rank < 2; rank++)
        a[rank].split = b[rank].split = split;
    struct tb_diff_report *r = compare_ranks(a, b);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    tb_diff_free(r);
    b[1].fault = JOB_OUTPUT;
    b[1].at = 2;
    b[0].peer_fault = 2; /* what rank 0 gets back differs then */
    r = compare_ranks(a, b);
    if (r->root_count != 1)
        tb_diff_text(r, stderr, false);
    assert_int_equal(r->root_count, 1);
    assert_int_equal(r->roots[0].rank, 1);
    assert_string_equal(r->roots[0].a.name.op, "aten::addmm");
    assert_int_equal(r->roots[0].step, 2);
    tb_diff_free(r);
}

static void test_report__the_rank_that_parted_first_is_blamed(void **state)
{
    (void)state;
    check_rank_blamed(false);
    check_rank_blamed(true);
}

static void test_report__a_collective_alone_is_the_root(void **state)
{
    (void)state;
    for (int split = 0; split < 2; split++) {
        struct job a[2] = {job_defaults(), job_defaults()};
        struct job b[2] = {job_defaults(), job_defaults()};
        for (int rank = 0; rank < 2; rank++)
            a[rank].split = b[rank].split = split;
        b[0].fault = JOB_REDUCE;
        b[0].at = 3;
        struct tb_diff_report *r = compare_ranks(a, b);
        assert_int_equal(r->roots[0].cause, TB_CAUSE_COLLECTIVE);
        assert_int_equal(r->roots[0].rank, 0);
        assert_int_equal(r->roots[0].step, 3);
        tb_diff_free(r);
    }
}

static void test_report__a_missing_process_is_said(void **state)
{
    (void)state;
    struct job a[2] = {job_defaults(), job_defaults()}, b[2] = {job_defaults(), job_defaults()};
    char path[200];
    struct tb_diff_report *r = compare_ranks(a, b);

    tb_diff_free(r);
    (void)snprintf(path, sizeof(path), "%s/host-1.twinbit", job_scratch("rb"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tb_diff_run(&r, job_scratch("ra"), job_scratch("rb"), NULL, NULL), TB_OK);
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    assert_non_null(strstr(r->reason, "run A only"));
    tb_diff_free(r);
}

/* ---------------------------------------------------------------- environment */

static void test_report__the_environment_is_compared(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = job_defaults();

    b.key = "torch.num_threads";
    b.value = "8";
    a.key = "torch.num_threads";
    a.value = "2";
    b.variable = "OMP_NUM_THREADS=8";
    struct tb_diff_report *r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    assert_int_equal(r->environment_count, 2);
    assert_string_equal(r->environment[0].text, "torch.num_threads: 2 | 8");
    assert_string_equal(r->environment[1].text, "environment OMP_NUM_THREADS: only in B: 8");
    tb_diff_free(r);
}

static void test_report__a_generator_of_the_host_explains_its_data(void **state)
{
    struct job a = job_defaults(), b = faulty(JOB_HOST_RNG, 2);

    (void)state;
    struct tb_diff_report *r = compare(&a, &b);
    assert_int_equal(r->roots[0].cause, TB_CAUSE_INPUT_DATA);
    bool said = false;
    for (unsigned i = 0; i < r->roots[0].evidence_count; i++)
        said |= strstr(r->roots[0].evidence[i], "'rng:python' differs") != NULL;
    if (!said)
        tb_diff_text(r, stderr, false);
    assert_true(said);
    tb_diff_free(r);
    job_clean();
}

/* Threads that race have their numbers by chance: what they did says which is which. */
static void test_report__threads_are_known_by_what_they_do(void **state)
{
    struct job a = job_defaults(), b = job_defaults();

    (void)state;
    a.pool = 1;
    b.pool = 2;
    struct tb_diff_report *r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    tb_diff_free(r);
    b.fault = JOB_POOL;
    b.at = 4;
    r = compare(&a, &b);
    if (r->root_count != 1)
        tb_diff_text(r, stderr, false);
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    assert_int_equal(r->root_count, 1);
    assert_string_equal(r->roots[0].b.name.op, "aten::neg");
    assert_int_equal(r->roots[0].step, 4);
    tb_diff_free(r);
    job_clean();
}

static void test_report__threads_explain_what_adds_up(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = faulty(JOB_OUTPUT, 1);

    b.variable = "OMP_NUM_THREADS=8";
    struct tb_diff_report *r = compare(&a, &b);
    assert_int_equal(r->roots[0].cause, TB_CAUSE_ACCUMULATION);
    /* what to run next sets the variables as each run had them */
    const char *next = r->roots[0].next;
    assert_ptr_equal(strstr(next, "env -u OMP_NUM_THREADS twinbit run"), next);
    assert_non_null(strstr(next, "; OMP_NUM_THREADS='8' twinbit run"));
    tb_diff_free(r);
    a.key = b.key = "torch.version";
    a.value = "2.15.0";
    b.value = "2.15.1";
    b.variable = NULL;
    r = compare(&a, &b);
    assert_int_equal(r->roots[0].cause, TB_CAUSE_ENVIRONMENT);
    tb_diff_free(r);
}

/* ---------------------------------------------------------------- what to run next */

/* Lines of the job's code are Python's: of another program the host's numbers tell more. */
static void test_report__next_leads_on(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = faulty(JOB_ARGS, 1);
    struct tb_diff_report *r = compare(&a, &b);

    assert_string_equal(r->roots[0].next,
                        "twinbit run -n 2 --inputs --stack --steps 0..1 --snapshot "
                        "'1/forward:model.drop/aten::mul.Tensor#0' -- python train.py");
    tb_diff_free(r);
    a.argv = b.argv = "./train";
    r = compare(&a, &b);
    assert_string_equal(r->roots[0].next, "twinbit run -n 2 --inputs --steps 0..1 --snapshot "
                                          "'1/forward:model.drop/aten::mul.Tensor#0' -- ./train");
    tb_diff_free(r);
    a.key = b.key = "snapshots"; /* and once they are known it does not lead back here */
    a.value = b.value = "1/forward:model.drop/aten::mul.Tensor#0";
    r = compare(&a, &b);
    assert_string_equal(r->roots[0].next, "twinbit run -n 2 --inputs -- ./train");
    tb_diff_free(r);
    a.key = b.key = "inputs";
    a.value = b.value = "yes";
    b.fault = JOB_MISSING;
    r = compare(&a, &b);
    assert_string_equal(r->roots[0].next, "twinbit run -n 3 --inputs -- ./train");
    tb_diff_free(r);
    job_clean();
}

/* What the runs differ in may be why: the comparison comes again, each run with its own. */
static void test_report__next_repeats_both_as_they_were(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = faulty(JOB_OUTPUT, 1);

    a.snapshot = b.snapshot = true;
    a.variable = "SEED=it is 1";
    b.variable = "SEED=2";
    struct tb_diff_report *r = compare(&a, &b);
    assert_true(r->roots[0].elements_known);
    assert_string_equal(r->roots[0].next,
                        "SEED='it is 1' twinbit run --force --inputs --steps 0..1 --snapshot "
                        "'1/forward:model.fc/aten::addmm#1' -o next-a.twinbit -- python train.py; "
                        "SEED='2' twinbit run --force --inputs --steps 0..1 --snapshot "
                        "'1/forward:model.fc/aten::addmm#1' -o next-b.twinbit -- python train.py; "
                        "twinbit diff next-a.twinbit next-b.twinbit");
    tb_diff_free(r);
    job_clean();
}

static void test_report__next_goes_to_the_folder_of_the_job(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = faulty(JOB_OUTPUT, 1);

    a.key = b.key = "cwd";
    a.value = b.value = "/the/job's place";
    struct tb_diff_report *r = compare(&a, &b);
    assert_ptr_equal(strstr(r->roots[0].next, "cd '/the/job'\\''s place' && twinbit run -n 2 "),
                     r->roots[0].next);
    tb_diff_free(r);
    b.variable = "SEED=2"; /* two commands */
    r = compare(&a, &b);
    const char *next = r->roots[0].next;
    assert_ptr_equal(strstr(next, "cd '/the/job'\\''s place' && { env -u SEED twinbit run "), next);
    assert_string_equal(next + strlen(next) - 3, "; }");
    tb_diff_free(r);
    job_clean();
}

/* ---------------------------------------------------------------- bad input */

static void fails(const char *a, const char *b, enum tb_status status, const char *word)
{
    struct tb_diff_report *r = NULL;
    struct tb_error err = {0};

    assert_int_equal(tb_diff_run(&r, a, b, NULL, &err), status);
    assert_null(r);
    if (!strstr(err.text, word))
        fail_msg("'%s' lacks '%s'", err.text, word);
}

static void test_report__bad_input_is_one_line(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = job_defaults();
    const char *pa = job_scratch("a.twinbit"), *pb = job_scratch("b.twinbit");
    int fd;

    job_write(&a, pa);
    fails(pa, job_scratch("none.twinbit"), TB_ERR_NOTFOUND, "none.twinbit");
    fd = open(pb, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_int_equal(write(fd, "text", 4), 4);
    (void)close(fd);
    fails(pa, pb, TB_ERR_FORMAT, "b.twinbit");
    assert_int_equal(mkdir(job_scratch("empty"), 0700), 0);
    fails(pa, job_scratch("empty"), TB_ERR_NOTFOUND, "empty");
    assert_int_equal(unlink(pb), 0);
    b.rank = 3; /* another process altogether */
    job_write(&b, pb);
    fails(pa, pb, TB_ERR_ARG, "unlike jobs");
}

static void test_report__a_flipped_byte_is_corruption_never_a_divergence(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = faulty(JOB_OUTPUT, 0);
    unsigned seen = 0;

    b.steps = a.steps = 3;
    struct tb_diff_report *clean = compare(&a, &b);
    assert_int_equal(clean->roots[0].cause, TB_CAUSE_UNEXPLAINED);
    tb_diff_free(clean);
    struct stat sb;
    const char *pa = job_scratch("a.twinbit"), *pb = job_scratch("b.twinbit");
    assert_int_equal(stat(pb, &sb), 0);
    for (off_t at = 100; at < sb.st_size; at += 1511) {
        struct tb_diff_options o = {.verify = true};
        struct tb_diff_report *r = NULL;
        struct tb_error err = {0};
        uint8_t byte;
        assert_int_equal(unlink(pb), 0); /* a damaged one is not replaced */
        job_write(&b, pb);
        int fd = open(pb, O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        (void)close(fd);
        enum tb_status st = tb_diff_run(&r, pa, pb, &o, &err);
        seen += st == TB_ERR_CORRUPT || st == TB_ERR_FORMAT;
        if (st == TB_OK && r->verdict == TB_DIFF_IDENTICAL)
            fail_msg("identical with byte %lld flipped", (long long)at);
        if (st == TB_OK) /* in a free page or a name: the divergence is still the same one */
            assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
        tb_diff_free(r);
    }
    assert_true(seen > 5);
}

/* ---------------------------------------------------------------- what is printed */

static char *printed(const struct tb_diff_report *r, bool json, bool colour)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    assert_non_null(f);
    if (json)
        tb_diff_json(r, f);
    else
        tb_diff_text(r, f, colour);
    assert_int_equal(fclose(f), 0);
    return text;
}

static void test_report__text_fits_a_screen(void **state)
{
    (void)state;
    struct job b = faulty(JOB_UNSEEN, 2);
    unsigned lines = 0;

    b.inputs = b.snapshot = true;
    struct tb_diff_report *r = one_root(b, TB_CAUSE_UNSEEN_WRITER, NULL);
    char *plain = printed(r, false, false), *colour = printed(r, false, true);
    for (const char *p = plain; *p; p++)
        lines += *p == '\n';
    assert_true(lines < 40);
    assert_null(strchr(plain, '\033'));
    assert_non_null(strchr(colour, '\033'));
    assert_non_null(strstr(plain, "DIVERGED"));
    assert_non_null(strstr(plain, "step 2, model.drop, forward, aten::mul.Tensor"));
    assert_non_null(strstr(plain, "/2/forward:model.fc/aten::addmm#0"));
    free(plain);
    free(colour);
    tb_diff_free(r);
}

static void test_report__json_escapes_what_it_must(void **state)
{
    (void)state;
    struct job a = job_defaults(), b = job_defaults();

    b.key = "note";
    b.value = "a \"quote\", a \\ and \x01 and \xff";
    struct tb_diff_report *r = compare(&a, &b);
    char *json = printed(r, true, false);
    assert_non_null(strstr(json, "a \\\"quote\\\", a \\\\ and \\u0001 and \xEF\xBF\xBD"));
    assert_non_null(strstr(json, "\"verdict\": \"identical\""));
    free(json);
    tb_diff_free(r);
}

static int clean(void **state)
{
    (void)state;
    job_clean();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report__equal_runs_are_identical),
        cmocka_unit_test(test_report__a_trace_is_identical_with_itself),
        cmocka_unit_test(test_report__an_output_that_differs_is_the_root),
        cmocka_unit_test(test_report__unseen_write_names_writer_and_reader),
        cmocka_unit_test(test_report__without_inputs_an_unseen_write_is_not_ruled_out),
        cmocka_unit_test(test_report__causes_are_told_apart),
        cmocka_unit_test(test_report__a_host_value_that_follows_is_infected),
        cmocka_unit_test(test_report__several_roots_are_ranked_by_step),
        cmocka_unit_test(test_report__fewer_roots_may_be_kept),
        cmocka_unit_test(test_report__maps_give_the_part),
        cmocka_unit_test(test_report__snapshots_give_the_elements),
        cmocka_unit_test(test_report__boundary_names_the_step),
        cmocka_unit_test(test_report__resumed_runs_are_aligned_by_step),
        cmocka_unit_test(test_report__no_common_step_is_unknown),
        cmocka_unit_test(test_report__a_run_that_ends_early_diverges),
        cmocka_unit_test(test_report__loss_is_never_identical),
        cmocka_unit_test(test_report__coverage_in_one_run_only_is_unknown),
        cmocka_unit_test(test_report__a_cut_trace_is_unknown),
        cmocka_unit_test(test_report__the_rank_that_parted_first_is_blamed),
        cmocka_unit_test(test_report__a_collective_alone_is_the_root),
        cmocka_unit_test(test_report__a_missing_process_is_said),
        cmocka_unit_test(test_report__the_environment_is_compared),
        cmocka_unit_test(test_report__a_generator_of_the_host_explains_its_data),
        cmocka_unit_test(test_report__threads_are_known_by_what_they_do),
        cmocka_unit_test(test_report__threads_explain_what_adds_up),
        cmocka_unit_test(test_report__next_leads_on),
        cmocka_unit_test(test_report__next_repeats_both_as_they_were),
        cmocka_unit_test(test_report__next_goes_to_the_folder_of_the_job),
        cmocka_unit_test(test_report__bad_input_is_one_line),
        cmocka_unit_test(test_report__a_flipped_byte_is_corruption_never_a_divergence),
        cmocka_unit_test(test_report__text_fits_a_screen),
        cmocka_unit_test(test_report__json_escapes_what_it_must),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
