/* Work of a GPU: launches, copies and orders align and are judged like operators. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diff/diff_internal.h"
#include "tests/diff/gpu.h"
#include "tests/diff/job.h"

static struct tb_diff_report *compare(const struct gpu *a, const struct gpu *b)
{
    const char *pa = job_scratch("a.twinbit"), *pb = job_scratch("b.twinbit");
    struct tb_diff_report *r = NULL;
    struct tb_error err = {0};

    gpu_write(a, pa);
    gpu_write(b, pb);
    if (tb_diff_run(&r, pa, pb, NULL, &err) != TB_OK)
        fail_msg("%s", err.text);
    return r;
}

static void done(struct tb_diff_report *r)
{
    tb_diff_free(r);
    job_clean();
}

static bool says(const struct tb_diff_root *r, const char *words)
{
    for (unsigned i = 0; i < r->evidence_count; i++)
        if (strstr(r->evidence[i], words))
            return true;
    return false;
}

static void assert_evidence(const struct tb_diff_root *r, const char *words)
{
    for (unsigned i = 0; !says(r, words) && i < r->evidence_count; i++)
        print_message("evidence: %s\n", r->evidence[i]);
    assert_true(says(r, words));
}

static bool has_note(const struct tb_diff_report *r, const char *words)
{
    for (size_t i = 0; i < r->note_count; i++)
        if (strstr(r->notes[i].text, words))
            return true;
    return false;
}

static void assert_text(const struct tb_diff_report *r, const char *words)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    assert_non_null(f);
    tb_diff_text(r, f, false);
    (void)fclose(f);
    if (!strstr(text, words))
        fail_msg("no '%s' in:\n%s", words, text);
    free(text);
}

/* One root, in @step, of this cause and operator; whatever else differs follows from it. */
static const struct tb_diff_root *only_root(const struct tb_diff_report *r,
                                            enum tb_diff_cause cause, uint64_t step_at,
                                            const char *op)
{
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    assert_int_equal(r->root_count, 1);
    assert_int_equal(r->roots_more, 0);
    assert_int_equal(r->roots[0].cause, cause);
    assert_int_equal(r->roots[0].step, step_at);
    assert_string_equal(r->roots[0].a.name.op, op);
    return &r->roots[0];
}

static void test_device__equal_runs_are_identical(void **state)
{
    struct gpu g = {0};
    struct tb_diff_report *r = compare(&g, &g);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    done(r);
}

/* How often a program waits is chance. */
static void test_device__orders_are_no_divergence(void **state)
{
    struct gpu a = {.waits = 1}, b = {.waits = 3};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    assert_int_equal(r->only_a + r->only_b, 0);
    assert_int_equal(r->orders, 16);
    assert_true(has_note(r, "16 synchronisations"));
    done(r);
}

/* What a graph reads of its own writes comes first in time, wherever it is listed. */
static void test_device__a_graph_reads_before_it_writes(void **state)
{
    struct gpu a = {.graph = 1, .in_step_1 = true}, b = {.graph = 2, .in_step_1 = true};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    (void)only_root(r, TB_CAUSE_UNEXPLAINED, 1, "graph");
    done(r);
}

static void test_device__a_launch_with_equal_inputs_is_the_root(void **state)
{
    struct gpu a = {.snapshot = true}, b = {.snapshot = true, .launch = true, .in_step_1 = true};
    struct tb_diff_report *r = compare(&a, &b);
    const struct tb_diff_root *root = only_root(r, TB_CAUSE_UNEXPLAINED, 1, "gemm");

    (void)state;
    assert_true(root->launch.known);
    assert_string_equal(root->tensor.argument, "c");
    assert_int_equal(root->elements.differ, 1);
    assert_int_equal(root->elements.first, 5);
    assert_int_equal(root->launch.side[0].stream, 2);
    assert_text(r, "  kernel      void gemm<float>(float const*, float*, int)\n");
    assert_text(r, "  launch      grid 2,1,1, block 64,1,1, shared 1024, stream 2, on cuda:0\n");
    assert_text(r, "  tensor      c (written): f32 [16] on cuda:0\n");
    assert_text(r, "/1/forward:/gemm#0\n");
    done(r);
}

static void test_device__the_next_command_records_kernels_again(void **state)
{
    struct gpu a = {0}, b = {.launch = true};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_non_null(strstr(r->roots[0].next, "--level kernel --inputs"));
    assert_non_null(strstr(r->roots[0].next, "--snapshot '0/forward:/gemm#0'"));
    done(r);
    a.snapshot = b.snapshot = true; /* the elements are known: does it come again? */
    r = compare(&a, &b);
    assert_non_null(strstr(r->roots[0].next, "-n 3 --level kernel --inputs -- ./train"));
    done(r);
}

static void test_device__atomics_explain_what_only_they_can(void **state)
{
    struct gpu a = {0}, b = {.atomics = true, .in_step_1 = true};
    struct tb_diff_report *r = compare(&a, &b);
    const struct tb_diff_root *root = only_root(r, TB_CAUSE_ACCUMULATION, 1, "sum");

    (void)state;
    assert_evidence(root, "adds floats by atomics");
    done(r);
}

/* Every site of gemm has another hash then; its neighbours are what they were. */
static void test_device__other_code_is_an_algorithm(void **state)
{
    struct gpu a = {0}, b = {.image = "bbbb2222", .launch = true};
    struct tb_diff_report *r = compare(&a, &b);
    const struct tb_diff_root *root = only_root(r, TB_CAUSE_ALGORITHM, 0, "gemm");

    (void)state;
    assert_evidence(root, "the kernel's code differs: image aaaa1111 in A, bbbb2222 in B");
    assert_int_equal(r->only_a + r->only_b, 0);
    assert_text(r, "image aaaa1111 | bbbb2222");
    done(r);
}

static void test_device__another_instance_of_a_template_is_an_algorithm(void **state)
{
    struct gpu a = {0}, b = {.symbol = "_Z4gemmIiEvPKT_PS0_i", .launch = true};
    struct tb_diff_report *r = compare(&a, &b);
    const struct tb_diff_root *root = only_root(r, TB_CAUSE_ALGORITHM, 0, "gemm");

    (void)state;
    assert_evidence(root, "another kernel ran: void gemm<float>(float const*, float*, int) in A, "
                          "void gemm<int>(int const*, int*, int) in B");
    assert_text(r, "void gemm<float>(float const*, float*, int) | void gemm<int>(int const*");
    done(r);
}

static void test_device__other_code_with_equal_results_is_none(void **state)
{
    struct gpu a = {0}, b = {.image = "bbbb2222"};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    assert_int_equal(r->only_a + r->only_b, 0);
    done(r);
}

static void test_device__another_launch_shape_is_an_algorithm(void **state)
{
    struct gpu a = {0}, b = {.grid = "4,1,1", .launch = true, .in_step_1 = true};
    struct tb_diff_report *r = compare(&a, &b);
    const struct tb_diff_root *root = only_root(r, TB_CAUSE_ALGORITHM, 1, "gemm");

    (void)state;
    assert_evidence(root, "grid 2,1,1 block 64,1,1 shared 1024 in A, grid 4,1,1");
    assert_text(r, "grid 2,1,1 | 4,1,1");
    done(r);
}

static void test_device__another_kernel_in_an_operator_is_an_algorithm(void **state)
{
    struct gpu a = {0}, b = {.choose = true};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    assert_int_equal(r->roots[0].cause, TB_CAUSE_ALGORITHM);
    assert_string_equal(r->roots[0].a.name.op, "aten::addmm");
    assert_evidence(&r->roots[0], "ran other kernels inside");
    done(r);
}

/* Blame ends where bytes of the host came in. */
static void test_device__other_bytes_of_the_host_are_input_data(void **state)
{
    struct gpu a = {0}, b = {.batch = true, .in_step_1 = true};
    struct tb_diff_report *r = compare(&a, &b);
    const struct tb_diff_root *root = only_root(r, TB_CAUSE_INPUT_DATA, 1, "cuMemcpyHtoD");

    (void)state;
    assert_evidence(root, "'dst' of cuMemcpyHtoD came from memory of the host");
    done(r);
}

/* Managed memory changes without a call: that is no unseen writer, but data of the host. */
static void test_device__memory_that_the_host_writes_is_input_data(void **state)
{
    struct gpu a = {.hashed = true}, b = {.hashed = true, .table = true};
    struct tb_diff_report *r = compare(&a, &b);
    const struct tb_diff_root *root = only_root(r, TB_CAUSE_INPUT_DATA, 1, "lookup");

    (void)state;
    assert_string_equal(root->tensor.argument, "table");
    assert_evidence(root, "'table' of lookup came from memory of the host");
    done(r);
    a.hashed = b.hashed = false; /* then it is a suspicion */
    r = compare(&a, &b);
    root = only_root(r, TB_CAUSE_UNEXPLAINED, 1, "lookup");
    assert_evidence(root, "'table' is memory that the host may write");
    done(r);
}

/* The extent of a launch has bytes that it did not write: they are not its fault. */
static void test_device__bytes_that_a_launch_kept_are_infected(void **state)
{
    struct gpu a = {0}, b = {.part = true};
    struct tb_diff_report *r = compare(&a, &b);
    const struct tb_diff_root *root = only_root(r, TB_CAUSE_UNEXPLAINED, 1, "part");

    (void)state;
    assert_int_equal(root->a.name.k, 1);
    assert_int_equal(root->infected, 10); /* two more in step 1, four in each of 2 and 3 */
    done(r);
    b.other = true; /* for another output it may be to blame all the same */
    r = compare(&a, &b);
    assert_int_equal(r->root_count, 2);
    assert_string_equal(r->roots[0].a.name.op, "part");
    assert_string_equal(r->roots[1].a.name.op, "pair");
    assert_string_equal(r->roots[1].tensor.argument, "other");
    assert_int_equal(r->roots[1].step, 2);
    done(r);
}

/* What went to the host and came back otherwise follows from why it differed. */
static void test_device__bytes_that_come_back_are_infected(void **state)
{
    struct gpu a = {.twice = true}, b = {.twice = true, .launch = true, .in_step_1 = true};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    (void)only_root(r, TB_CAUSE_UNEXPLAINED, 1, "gemm");
    assert_true(r->infected > 6);
    done(r);
}

static void test_device__a_fingerprint_in_one_run_only_is_not_equal(void **state)
{
    struct gpu a = {0}, b = {.no_fp = true};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    assert_int_equal(r->unhashed, 4);
    assert_true(has_note(r, "4 outputs have a fingerprint in one run only"));
    done(r);
}

static void test_device__fingerprints_that_never_arrived_are_not_equal(void **state)
{
    struct gpu g = {.no_fp = true, .late = true};
    struct tb_diff_report *r = compare(&g, &g);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    assert_non_null(strstr(r->reason, "never arrived"));
    done(r);
}

static void test_device__sampled_ones_are_equal_as_far_as_they_go(void **state)
{
    struct gpu a = {.sampled = true}, b = {.sampled = true, .launch = true}, whole = {0};
    struct tb_diff_report *r = compare(&a, &a);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    assert_true(has_note(r, "equal as far as they go"));
    done(r);
    r = compare(&a, &b);
    (void)only_root(r, TB_CAUSE_UNEXPLAINED, 0, "gemm");
    done(r);
    b.budget = true; /* a share of other leaves */
    r = compare(&a, &b);
    assert_int_equal(r->root_count, 1);
    assert_string_equal(r->roots[0].a.name.op, "sum"); /* the first that is known to differ */
    assert_true(has_note(r, "4 outputs"));
    done(r);
    r = compare(&a, &whole); /* another way to hash is no other result */
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    done(r);
}

/* Whether bytes were hashed or believed to stay is chance: both are the same. */
static void test_device__what_was_left_alone_is_equal_however_it_is_known(void **state)
{
    struct gpu a = {.learnt = BELIEVED}, b = {.learnt = LOOKED_AT};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    assert_int_equal(r->compared, 0); /* the digests are the same */
    assert_true(has_note(r, "left the bytes alone (A 4, B 0): learnt, unproven"));
    done(r);
    b.launch = b.in_step_1 = true;
    r = compare(&a, &b);
    (void)only_root(r, TB_CAUSE_UNEXPLAINED, 1, "gemm");
    assert_int_equal(r->unproven, 0);
    done(r);
    a.learnt = WRITTEN; /* it wrote what lay there: the same bytes */
    b = (struct gpu){.learnt = LOOKED_AT};
    r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    done(r);
    b.learnt = FOUND_OTHER; /* what it left is not what the other wrote */
    r = compare(&a, &b);
    (void)only_root(r, TB_CAUSE_UNEXPLAINED, 0, "gemm");
    done(r);
}

/* One run saw a write where the other did not look: neither equal nor other. */
static void test_device__a_write_where_none_was_looked_for_is_unproven(void **state)
{
    struct gpu a = {.learnt = WRITTEN}, b = {.learnt = BELIEVED}, s = {.learnt = SURPRISE};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    assert_int_equal(r->root_count, 0);
    assert_int_equal(r->unproven, 4);
    assert_int_equal(r->unhashed, 0);
    assert_true(has_note(r, "learnt, unproven"));
    done(r);
    r = compare(&s, &s); /* in both runs: what was missed before it is not known */
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    assert_non_null(strstr(r->reason, "was believed to leave alone"));
    done(r);
    r = compare(&s, &a);
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    assert_int_equal(r->root_count, 0);
    done(r);
}

/* The reader is the first that is known to differ; the report says who may be to blame. */
static void test_device__a_writer_without_fingerprint_is_named(void **state)
{
    struct gpu a = {.fill_unhashed = true}, b = {.fill_unhashed = true, .launch = true};
    struct tb_diff_report *r = compare(&a, &b);
    const struct tb_diff_root *root = only_root(r, TB_CAUSE_UNEXPLAINED, 0, "gemm");

    (void)state;
    assert_evidence(root, "'b' was last written by 0/forward:/cuMemsetD8#0 without a fingerprint");
    done(r);
}

/* Kernels were recorded in one run only: that is another level, not another program. */
static void test_device__kernels_of_one_run_only_are_another_level(void **state)
{
    struct gpu a = {.level_op = true}, b = {0};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    assert_int_equal(r->setup, 4);
    assert_true(has_note(r, "outside what both runs recorded"));
    done(r);
}

/* A hashed read of a part of what was written: no write differs, and yet it does. */
static void test_device__a_hashed_read_that_differs_is_never_equal(void **state)
{
    struct gpu a = {.back = 1}, b = {.back = 2};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    (void)only_root(r, TB_CAUSE_UNSEEN_WRITER, 1, "cuMemcpyDtoH");
    done(r);
    r = compare(&a, &a);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    assert_int_equal(r->compared, 0); /* all was skipped by digest */
    done(r);
    b.back = 0; /* a run without --inputs */
    a.back = 0;
    r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    done(r);
}

/* A copy of another buffer: each holds what its writer left. */
static void test_device__a_copy_of_another_buffer_differs(void **state)
{
    struct gpu a = {.back = 1}, b = {.back = 3};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    (void)only_root(r, TB_CAUSE_ORDER, 1, "cuMemcpyDtoH");
    done(r);
}

/* The verdict is unknown for @why, and nothing is said to differ. */
static void assert_unknown(struct tb_diff_report *r, const char *why)
{
    if (r->verdict != TB_DIFF_UNKNOWN || !strstr(r->reason, why))
        tb_diff_text(r, stderr, false);
    assert_int_equal(r->verdict, TB_DIFF_UNKNOWN);
    assert_int_equal(r->root_count, 0);
    assert_non_null(strstr(r->reason, why));
}

/* Recording was paused: what ran meanwhile is missing, what comes after has its mates again. */
static void test_device__a_pause_is_no_divergence(void **state)
{
    struct gpu whole = {.count = 100}, paused = {.count = 100, .pause = "all processes"};
    unsigned long long seen = 0;

    (void)state;
    for (unsigned from = 0; from < 100; from += 7)
        for (unsigned n = 1; n < 60; n += 19) {
            paused.skip = from;
            paused.skip_to = from + n < 100 ? from + n : 100;
            struct tb_diff_report *r = compare(&whole, &paused);
            assert_unknown(r, "recording was paused in run B");
            assert_int_equal(r->gap, 3 * (paused.skip_to - from));
            seen += r->equal;
            done(r);
            r = compare(&paused, &whole);
            assert_unknown(r, "recording was paused in run A");
            done(r);
        }
    assert_true(seen > 0);
}

/* Both were paused, each at its own time. */
static void test_device__two_pauses_are_no_divergence(void **state)
{
    struct gpu a = {.count = 100, .skip = 10, .skip_to = 30, .pause = "all processes"};
    struct gpu b = {.count = 100, .skip = 50, .skip_to = 75, .pause = "all processes"};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_unknown(r, "135 events are missing");
    done(r);
}

static void test_device__what_differs_before_a_pause_differs(void **state)
{
    struct gpu a = {.count = 100};
    struct gpu b = {.count = 100, .wrong = 20, .skip = 40, .skip_to = 60, .pause = "all processes"};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    const struct tb_diff_root *root = only_root(r, TB_CAUSE_UNEXPLAINED, 0, "inc");
    assert_int_equal(root->a.name.k, 20);
    assert_int_equal(root->b.name.k, 20);
    done(r);
}

/* The program itself pauses, in both runs alike: what one of them lacks it did not do. */
static void test_device__a_program_that_pauses_may_diverge(void **state)
{
    struct gpu a = {.count = 100, .pause = "process"};
    struct gpu b = {.count = 100, .skip = 40, .skip_to = 60, .pause = "process"};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    done(r);
    a.pause = NULL;
    r = compare(&a, &b);
    assert_unknown(r, "recording was paused in run B");
    done(r);
}

static void test_device__lost_records_are_no_divergence(void **state)
{
    struct gpu a = {.count = 100}, b = {.count = 100, .skip = 40, .skip_to = 60, .lost = 60};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_unknown(r, "60 records of run B were lost");
    done(r);
}

/* The recorder was killed: the rest is missing, what came before is not forgiven. */
static void test_device__the_end_of_a_cut_trace_is_no_divergence(void **state)
{
    struct gpu whole = {.count = 50}, cut = {.count = 30, .cut = true};
    struct tb_diff_report *r = compare(&whole, &cut);

    (void)state;
    assert_unknown(r, "the recording of run B did not end in order");
    assert_int_equal(r->gap, 60);
    done(r);
    r = compare(&cut, &whole);
    assert_unknown(r, "the recording of run A did not end in order");
    done(r);
    cut.wrong = 20;
    r = compare(&whole, &cut);
    assert_int_equal(only_root(r, TB_CAUSE_UNEXPLAINED, 0, "inc")->b.name.k, 20);
    done(r);
    cut.wrong = 0;
    cut.skip = 10; /* it did not do it */
    cut.skip_to = 12;
    r = compare(&whole, &cut);
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    done(r);
}

static void test_device__nothing_hashed_is_unknown(void **state)
{
    struct gpu g = {.no_launch = true, .left_out = "filter"};
    struct tb_diff_report *r = compare(&g, &g);

    (void)state;
    assert_unknown(r, "no launch was hashed in run A: --kernel leaves all out");
    done(r);
    g.left_out = "sample";
    r = compare(&g, &g);
    assert_unknown(r, "no launch was hashed in run A: --sample leaves all out");
    done(r);
    g.no_launch = false;
    r = compare(&g, &g);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    done(r);
}

/* What one run was told to leave out ran in both; what differs elsewhere does. */
static void test_device__other_filters_are_no_control_flow(void **state)
{
    struct gpu whole = {0}, less = {.kernels = "!gemm", .left_out = "filter"};
    struct tb_diff_report *r = compare(&whole, &less);

    (void)state;
    assert_unknown(r, "launches that run B left out by --kernel are not compared: record both "
                      "runs with the same --kernel");
    assert_true(r->gap > 0);
    done(r);
    r = compare(&less, &whole);
    assert_unknown(r, "launches that run A left out by --kernel are not compared");
    done(r);
    r = compare(&less, &less);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    done(r);
    whole.batch = true;
    r = compare(&whole, &less);
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    done(r);
    whole = (struct gpu){.choose = true}; /* a kernel that no filter is said to have left out */
    r = compare(&whole, &less);
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    done(r);
}

/* Equal traces, and the jobs ended otherwise: something was not recorded. */
static void test_device__other_ends_are_not_identical(void **state)
{
    struct gpu a = {.ended = "0"}, b = {.ended = "9"};
    struct tb_diff_report *r = compare(&a, &b);

    (void)state;
    assert_unknown(r, "the job of run A ended with status 0, that of run B with 9");
    done(r);
    b.ended = "137";
    r = compare(&a, &b);
    assert_unknown(r, "that of run B with 137 (signal 9)");
    done(r);
    a.ended = "137";
    r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_IDENTICAL);
    assert_true(has_note(r, "the job of both runs ended with status 137 (signal 9)"));
    done(r);
    a.ended = "0"; /* what differs in the trace says more */
    b.launch = true;
    r = compare(&a, &b);
    assert_int_equal(r->verdict, TB_DIFF_DIVERGED);
    assert_true(has_note(r, "that of run B with 137 (signal 9)"));
    done(r);
}

static void test_device__names_are_demangled_or_left(void **state)
{
    char out[64], small[8];

    (void)state;
    assert_string_equal(tb_demangle("_Z5scalePfi", out, sizeof(out)), "scale(float*, int)");
    assert_string_equal(tb_demangle("scale", out, sizeof(out)), "scale");
    assert_string_equal(tb_demangle("_Znonsense", out, sizeof(out)), "_Znonsense");
    assert_string_equal(tb_demangle("_Z5scalePfi", small, sizeof(small)), "scale(f");
}

#define T(name) cmocka_unit_test(test_device__##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(equal_runs_are_identical),
        T(orders_are_no_divergence),
        T(a_launch_with_equal_inputs_is_the_root),
        T(a_graph_reads_before_it_writes),
        T(the_next_command_records_kernels_again),
        T(atomics_explain_what_only_they_can),
        T(other_code_is_an_algorithm),
        T(another_instance_of_a_template_is_an_algorithm),
        T(other_code_with_equal_results_is_none),
        T(another_launch_shape_is_an_algorithm),
        T(another_kernel_in_an_operator_is_an_algorithm),
        T(other_bytes_of_the_host_are_input_data),
        T(bytes_that_a_launch_kept_are_infected),
        T(memory_that_the_host_writes_is_input_data),
        T(bytes_that_come_back_are_infected),
        T(a_fingerprint_in_one_run_only_is_not_equal),
        T(fingerprints_that_never_arrived_are_not_equal),
        T(sampled_ones_are_equal_as_far_as_they_go),
        T(what_was_left_alone_is_equal_however_it_is_known),
        T(a_write_where_none_was_looked_for_is_unproven),
        T(a_writer_without_fingerprint_is_named),
        T(kernels_of_one_run_only_are_another_level),
        T(a_hashed_read_that_differs_is_never_equal),
        T(a_copy_of_another_buffer_differs),
        T(a_pause_is_no_divergence),
        T(two_pauses_are_no_divergence),
        T(what_differs_before_a_pause_differs),
        T(a_program_that_pauses_may_diverge),
        T(lost_records_are_no_divergence),
        T(the_end_of_a_cut_trace_is_no_divergence),
        T(nothing_hashed_is_unknown),
        T(other_filters_are_no_control_flow),
        T(other_ends_are_not_identical),
        T(names_are_demangled_or_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
