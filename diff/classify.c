/*
 * What a root was most likely caused by, the evidence, and what to run next.
 *
 * Nothing is claimed that the traces do not show: a one-off is a suspect at most.
 */
#include "diff/diff_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* ---------------------------------------------------------------- evidence */

void evidence(struct root *r, const char *fmt, ...)
{
    va_list ap;

    if (r->r.evidence_count == TB_DIFF_EVIDENCE)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(r->r.evidence[r->r.evidence_count++], sizeof(r->r.evidence[0]), fmt, ap);
    va_end(ap);
}

static const char *first_of(const struct tb_diff_report *rep, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *line = env_differs(rep, words[i]);
        if (line)
            return line;
    }
    return NULL;
}

static const char *threads_differ(const struct tb_diff_report *rep)
{
    static const char *const words[] = {
        "torch.num_threads",    "num_threads",         "OMP_NUM_THREADS", "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS", "num_interop_threads", "cpu.count"};

    return first_of(rep, words, TB_ARRAY_LEN(words));
}

static const char *algorithms_differ(const struct tb_diff_report *rep)
{
    static const char *const words[] = {"cpu_capability",
                                        "ATEN_CPU_CAPABILITY",
                                        "float32_matmul_precision",
                                        "deterministic_algorithms",
                                        "CUBLAS_WORKSPACE_CONFIG",
                                        "MKL_CBWR",
                                        "MKL_ENABLE_INSTRUCTIONS",
                                        "ONEDNN_",
                                        "DNNL_",
                                        "MKLDNN",
                                        "NVIDIA_TF32_OVERRIDE",
                                        "TORCH_ALLOW_TF32",
                                        "cudnn"};

    return first_of(rep, words, TB_ARRAY_LEN(words));
}

static const char *versions_differ(const struct tb_diff_report *rep)
{
    static const char *const words[] = {".version", "cpu.model", "gpu.model", "gpu.name", "kernel"};

    return first_of(rep, words, TB_ARRAY_LEN(words));
}

static const char *sources_differ(const struct tb_diff_report *rep)
{
    static const char *const words[] = {"source:", "git.commit", "git.diff", "argv"};

    return first_of(rep, words, TB_ARRAY_LEN(words));
}

static const char *name_of(const struct root *r)
{
    return r->site_a ? r->site_a->name : r->site_b ? r->site_b->name : "?";
}

/* ---------------------------------------------------------------- the kinds */

static bool one_flip(const struct tb_diff_root *r)
{
    return r->elements_known && r->elements.differ == 1 && r->elements.bits_all <= 2;
}

static void say_flip(struct root *r)
{
    evidence(r, "one element of %" PRIu64 " differs, by %" PRIu64 " bit%s; all inputs are equal",
             r->r.elements.count, r->r.elements.bits_all, r->r.elements.bits_all == 1 ? "" : "s");
    evidence(
        r, "a flipped bit or memory overwritten unseen; once seen proves neither: repeat it on the "
           "same device, then on another");
}

static bool small_steps(const struct tb_diff_root *r)
{
    return r->elements_known && r->elements.differ > 1 && r->elements.ulp_max <= 4096;
}

/* ---------------------------------------------------------------- work of a GPU */

static bool sides_differ(const char *a, const char *b)
{
    return a[0] && b[0] && strcmp(a, b) != 0;
}

/* The same kernel over the same data, but other code (of a template, too), or launched otherwise */
static bool by_code(struct root *r)
{
    const struct tb_diff_shape *a = &r->r.launch.side[0], *b = &r->r.launch.side[1];
    bool code = sides_differ(a->image, b->image);
    bool shape = sides_differ(a->grid, b->grid) || sides_differ(a->block, b->block) ||
                 sides_differ(a->shared, b->shared);
    bool other = sides_differ(r->r.launch.kernel, r->r.launch.other);

    if (other)
        evidence(r, "another kernel ran: %.100s in A, %.100s in B", r->r.launch.kernel,
                 r->r.launch.other);
    if (code)
        evidence(r, "%s: image %.40s in A, %.40s in B",
                 r->kind == TB_EV_GRAPH ? "its nodes differ: kernels, their code or grids"
                                        : "the kernel's code differs",
                 a->image, b->image);
    if (shape)
        evidence(r,
                 "it was launched otherwise: grid %.40s block %.40s shared %.24s in A, grid %.40s "
                 "block %.40s shared %.24s in B",
                 a->grid, a->block, a->shared, b->grid, b->block, b->shared);
    if (code || shape || other)
        r->r.cause = TB_CAUSE_ALGORITHM;
    return code || shape || other;
}

/* Its code adds floats by atomics, which come in another order each time */
static bool by_atomics(struct root *r, const char *name)
{
    bool atomics = (r->site_a && site_says(r->site_a, "atomics", "1")) ||
                   (r->site_b && site_says(r->site_b, "atomics", "1"));

    if (!atomics || (r->r.elements_known && r->r.elements.differ == 1 && r->r.elements.bits == 1 &&
                     r->r.elements.ulp > 4096))
        return false;
    r->r.cause = TB_CAUSE_ACCUMULATION;
    evidence(r, "%.120s adds floats by atomics: their order, and so the rounding, is chance", name);
    if (r->r.elements_known)
        evidence(r, "%" PRIu64 " element%s %s by at most %" PRIu64 " ULP; all inputs are equal",
                 r->r.elements.differ, plural(r->r.elements.differ),
                 r->r.elements.differ == 1 ? "differs" : "differ", r->r.elements.ulp_max);
    return true;
}

static bool by_environment(const struct report_builder *rb, struct root *r, const char *name)
{
    const char *line;
    bool sums = op_is_reduction(name) || op_is_product(name) || op_is_scatter(name);

    if (sums && (line = threads_differ(rb->rep))) {
        r->r.cause = TB_CAUSE_ACCUMULATION;
        evidence(r, "%s adds many numbers; its work is split by the number of threads", name);
        evidence(r, "differs: %.200s", line);
        return true;
    }
    if ((line = algorithms_differ(rb->rep))) {
        r->r.cause = TB_CAUSE_ALGORITHM;
        evidence(r, "which code computes %s depends on: %.180s", name, line);
        return true;
    }
    if ((line = versions_differ(rb->rep))) {
        r->r.cause = TB_CAUSE_ENVIRONMENT;
        evidence(r, "differs: %.200s", line);
        return true;
    }
    return false;
}

static bool by_operator(struct root *r, const char *name)
{
    if (op_is_scatter(name)) {
        r->r.cause = TB_CAUSE_ACCUMULATION;
        evidence(r, "%s adds to the same places from several threads, in no fixed order", name);
        return true;
    }
    if ((op_is_reduction(name) || op_is_product(name)) && small_steps(&r->r)) {
        r->r.cause = TB_CAUSE_ACCUMULATION;
        evidence(r,
                 "%s adds many numbers, and %" PRIu64 " elements differ by at most %" PRIu64 " ULP",
                 name, r->r.elements.differ, r->r.elements.ulp_max);
        return true;
    }
    return false;
}

static void say_unexplained(const struct report_builder *rb, struct root *r, const char *name)
{
    evidence(r,
             "tensors, arguments and generator states that %.120s read are equal, as far as they "
             "are recorded",
             name);
    if (op_is_reduction(name) || op_is_product(name))
        evidence(r, "%s depends on the order of additions; nothing recorded says that it differed",
                 name);
    if (rb->rep->environment_count == 0)
        evidence(r, "argv, environment, versions, threads and sources are equal");
    if (r->guessed) {
        char w[TB_EVENT_NAME_TEXT] = "an event before the compared ones";
        if (r->r.writer_a.name_known)
            tb_event_name_short(&r->r.writer_a.name, w, sizeof(w));
        evidence(r,
                 "'%.60s' was last written by %.120s without a fingerprint to compare: it may "
                 "differ already",
                 r->input, w);
    } else if (r->stale && !(r->r.elements_known && r->r.elements.differ == 1))
        evidence(
            r,
            "'%.80s' may also hold bytes that no recorded work wrote, here or before: what lay "
            "there by chance may be what differs",
            r->input);
    else if (r->shared)
        evidence(
            r,
            "'%.80s' is memory that the host may write, too, and was not hashed: it may differ "
            "(--inputs)",
            r->input);
    if (r->r.launch.known && r->r.tensor.mode == 'w' && strcmp(r->r.tensor.device, "cpu") == 0)
        evidence(r,
                 "'%.80s' is memory of the host, which may have written there before it was hashed "
                 "behind the kernel",
                 r->r.tensor.argument);
    else if (r->fresh_input)
        evidence(r,
                 "'%s' holds bytes that no recorded operator wrote and that were not hashed: they "
                 "may differ (--inputs)",
                 r->input);
    else if (r->reads_unhashed)
        evidence(r, "reads were not hashed: a write that nobody saw cannot be ruled out "
                    "(--inputs)");
}

struct search {
    const char *name;
    bool found;
};

static bool is_uninitialised(void *arg, const struct tb_trace_coverage *row)
{
    struct search *s = arg;

    s->found = s->found ||
               (strcmp(row->kind, "uninitialised read") == 0 && strcmp(row->subject, s->name) == 0);
    return !s->found;
}

/* Did the tap see this operator read bytes that nobody had written? */
static bool read_nothing(const struct report_builder *rb, const struct root *r)
{
    struct search s = {.name = name_of(r)};
    const struct run_process *p = &rb->a->proc[r->process];

    if (tb_trace_coverage(rb->a->trace[p->file], p->p->id, is_uninitialised, &s, NULL) != TB_OK)
        return false;
    if (s.found || p->mate < 0)
        return s.found;
    const struct run_process *q = &rb->b->proc[p->mate];
    return tb_trace_coverage(rb->b->trace[q->file], q->p->id, is_uninitialised, &s, NULL) ==
               TB_OK &&
           s.found;
}

/* Is there a race that would explain it? One that is only possible is no cause, nor is one of which
 * nothing shows but fingerprints that were taken meanwhile. */
static bool by_race(const struct report_builder *rb, struct root *r)
{
    if (!r->hunted || !find_race(rb, r, &r->r.race))
        return false;
    r->r.race.sure = r->r.race.sure && !r->r.torn;
    if (r->r.race.sure) {
        r->r.cause = TB_CAUSE_STREAM_RACE;
        say_race(r);
    }
    return r->r.race.sure;
}

/* Nothing shows that anything differs but fingerprints that another stream's work has met. */
static bool by_tearing(struct root *r)
{
    if (!r->r.torn)
        return false;
    evidence(
        r,
        "the fingerprint takes in all that '%.60s' may be for, and %s may have written a part of "
        "that meanwhile",
        r->r.tensor.argument,
        r->r.of_node ? "a node of its graph that nothing orders with it"
                     : "work of another stream");
    evidence(r, "nothing else differs, here or later");
    if (r->r.race.known)
        say_race(r);
    return true;
}

static void say_uninitialised(struct root *r)
{
    r->r.cause = TB_CAUSE_UNINITIALISED;
    evidence(r, "%s reads bytes of an empty tensor that nobody wrote: what lies there is chance",
             name_of(r));
}

/* Were the runs told to fill fresh memory, each with another byte (run --poison)? */
static bool by_poison(const struct report_builder *rb, struct root *r)
{
    uint8_t fill[2];

    if (!poisons(rb, fill))
        return false;
    r->r.cause = TB_CAUSE_UNINITIALISED;
    evidence(r,
             "fresh memory was filled with 0x%02x in A and with 0x%02x in B: %.120s, or what it "
             "reads, depends on bytes that nobody wrote",
             fill[0], fill[1], name_of(r));
    return true;
}

/* The bytes that are read were left as they were by who may have written them last, or moved there
 */
static bool read_by_poison(const struct report_builder *rb, struct root *r)
{
    char w[TB_EVENT_NAME_TEXT];

    if (!by_poison(rb, r))
        return false;
    if (r->r.writer_a.name_known)
        evidence(r,
                 "the last that may have written '%.40s' is %.120s: it has left such bytes there, "
                 "or has brought them",
                 r->r.tensor.argument, tb_event_name_short(&r->r.writer_a.name, w, sizeof(w)));
    return true;
}

/* A graph's copies brought bytes that nobody hashed: they may be what differs. A flipped bit would
 * look the same, but there is no cause to suspect one. */
static bool by_feeding(const struct report_builder *rb, struct root *r)
{
    if (!(r->site_a && site_says(r->site_a, "fed", "1")) &&
        !(r->site_b && site_says(r->site_b, "fed", "1")))
        return false;
    say_unexplained(rb, r, name_of(r));
    evidence(r, "copies inside of it brought bytes from the host, which were not hashed: other "
                "input data would look like this");
    return true;
}

static void classify_operator(const struct report_builder *rb, struct root *r)
{
    const char *name = name_of(r);

    if (read_nothing(rb, r)) {
        say_uninitialised(r);
    } else if (by_poison(rb, r)) {
        return;
    } else if (by_code(r) || by_race(rb, r) || by_tearing(r) || by_atomics(r, name)) {
        return;
    } else if (by_feeding(rb, r)) {
        return;
    } else if (one_flip(&r->r)) {
        say_flip(r);
    } else if (!by_environment(rb, r, name) && !by_operator(r, name)) {
        if (r->r.race.known)
            say_race(r);
        say_unexplained(rb, r, name);
    }
}

/* It differs where the host wrote: in a copy's target, or in memory that both use */
static bool is_of_host(const struct root *r)
{
    return is_device(r->kind) &&
           (r->r.tensor.mode == 'w' || strncmp(r->r.tensor.device, "cuda", 4) != 0);
}

/* What lies there came from work that the user did not want recorded, perhaps: no data from outside
 */
static void say_left_out_writer(const struct report_builder *rb, struct root *r)
{
    const char *argument = r->r.tensor.known ? r->r.tensor.argument : "";
    const char *quote = argument[0] ? "'" : "";

    r->r.cause = TB_CAUSE_UNEXPLAINED;
    evidence(r,
             "%s%.60s%s of %.60s was written by no work that both runs recorded: the writer may be "
             "among what was left out; record both runs without %s",
             quote, argument[0] ? argument : "memory", quote, name_of(r), rb->left_by);
}

/* What wrote it is in one trace only, in that form */
static void say_other_way(const struct report_builder *rb, struct root *r)
{
    r->r.cause = TB_CAUSE_UNEXPLAINED;
    evidence(r,
             "memory that %.60s read differs, and what wrote it was recorded in another way in "
             "each run%s",
             name_of(r), rb->ways.graphs ? ": record both with the same --tap" : "");
}

static void classify_input(const struct report_builder *rb, struct root *r)
{
    if (read_nothing(rb, r))
        say_uninitialised(r);
    else if (by_poison(rb, r))
        return;
    else if (rb->left_by[0] && (r->fresh_input || !is_of_host(r)))
        say_left_out_writer(rb, r);
    else if (r->fresh_input && (rb->ways.graphs || rb->ways.codes))
        say_other_way(rb, r);
    else if (r->fresh_input)
        evidence(r, "what lay in memory before the first compared step differs already: another "
                    "checkpoint, or one that does not restore all");
    else if (is_of_host(r))
        evidence(
            r,
            "'%.60s' of %.60s came from memory of the host: other bytes than in the other run, and "
            "nothing that differs had gone to the host before",
            r->r.tensor.argument, name_of(r));
    else
        evidence(r,
                 "'%s' of %s was written by no recorded operator: data of the host, a file, "
                 "or made before attach",
                 r->r.tensor.argument, name_of(r));
}

static void classify_control(const struct report_builder *rb, struct root *r)
{
    const char *line = sources_differ(rb->rep);

    if (r->r.summary[0])
        return;
    evidence(r, "%" PRIu64 " operator%s ran in A only, %" PRIu64 " in B only; the first is %s",
             r->r.only_a, plural(r->r.only_a), r->r.only_b, name_of(r));
    if (line)
        evidence(r, "differs: %.200s", line);
    else
        evidence(r, "no number that differs had left for the host before it");
}

static void classify_order(const struct report_builder *rb, struct root *r)
{
    const char *seed = env_differs(rb->rep, "PYTHONHASHSEED");
    char a[TB_EVENT_NAME_TEXT] = "something", b[TB_EVENT_NAME_TEXT] = "something else";

    if (r->r.writer_a.name_known)
        tb_event_name_short(&r->r.writer_a.name, a, sizeof(a));
    if (r->r.writer_b.name_known)
        tb_event_name_short(&r->r.writer_b.name, b, sizeof(b));
    if (r->input[0])
        evidence(r, "'%s' was written by %.90s in A, by %.90s in B", r->input, a, b);
    else
        evidence(r, "%s ran over tensors of the same shapes in another order", name_of(r));
    evidence(r, "both ran in both runs: the program takes them in another order (a set, a dict of "
                "objects, threads)");
    if (seed)
        evidence(r, "differs: %.200s", seed);
}

/* The last writer left no fingerprint: it may be the one to blame */
static void classify_unhashed(struct root *r, const char *writer, const char *reader)
{
    r->r.cause = TB_CAUSE_UNEXPLAINED;
    evidence(r,
             "last written by %.180s, without a fingerprint to compare: what it wrote may differ",
             writer);
    evidence(r, "found to differ by %.200s, which is not to blame", reader);
}

static void classify_unseen(const struct report_builder *rb, struct root *r)
{
    char w[TB_EVENT_NAME_TEXT] = "an operator before the compared steps",
         e[TB_EVENT_NAME_TEXT] = "?";

    if (r->r.writer_a.name_known)
        tb_event_name_short(&r->r.writer_a.name, w, sizeof(w));
    else if (r->r.writer_b.name_known)
        tb_event_name_short(&r->r.writer_b.name, w, sizeof(w));
    if (r->r.a.name_known)
        tb_event_name_short(&r->r.a.name, e, sizeof(e));
    if (r->guessed) {
        classify_unhashed(r, w, e);
        return;
    }
    evidence(r, "last written, equally, by %.220s", w);
    if (rb->left_by[0] && is_device(r->kind)) {
        r->r.cause = TB_CAUSE_UNEXPLAINED;
        evidence(r,
                 "found changed by %.200s: the writer may be among what was left out; record both "
                 "runs without %s",
                 e, rb->left_by);
        return;
    }
    evidence(r, "found changed by %.200s, which is not to blame", e);
    if (r->changed[0] != r->changed[1])
        evidence(r, "in run %c the bytes are no longer those that were written",
                 r->changed[0] ? 'A' : 'B');
    if (one_flip(&r->r))
        evidence(r,
                 "one element differs, by %" PRIu64
                 " bit(s): a flipped bit in memory looks like that, "
                 "and so does a stray write",
                 r->r.elements.bits_all);
    evidence(r, "an extension, NumPy on shared memory, a raw pointer, another process, or memory "
                "itself");
}

static void classify_rng(const struct report_builder *rb, struct root *r)
{
    const char *seed = env_differs(rb->rep, "seed");

    evidence(r,
             "the state of generator '%s' differs before %s; nothing recorded has drawn from it "
             "differently",
             r->r.tensor.argument, name_of(r));
    if (seed)
        evidence(r, "differs: %.200s", seed);
    else
        evidence(r, "not seeded, seeded from the clock, or used by code that is not recorded");
}

static void classify_host_value(struct root *r)
{
    if (r->not_compared)
        evidence(r, "its arguments that are not tensors differ; what it wrote cannot be compared, "
                    "for threads use parts of one allocation; what uses these bytes later differs");
    else
        evidence(r, "tensors are equal, arguments that are not tensors differ; no number that "
                    "differs had left for the host before");
}

static void classify_state(struct root *r)
{
    evidence(r,
             "%" PRIu32 " of %" PRIu32 " states recorded there differ; what wrote them was not "
             "recorded at this level",
             r->r.differ, r->r.of);
    if (r->r.torn)
        evidence(r, "streams write them at once: fingerprints may hold a part of that, and nothing "
                    "else differs, here or later");
}

static void classify_algorithm(const struct report_builder *rb, struct root *r)
{
    const char *line = algorithms_differ(rb->rep), *threads = threads_differ(rb->rep);
    const char *name = name_of(r);

    evidence(r, "%.80s ran other %s inside, %.80s first: another way through it was taken", name,
             r->inner_device ? "kernels" : "operators", r->inner);
    if ((op_is_reduction(name) || op_is_product(name) || op_is_scatter(name)) && threads) {
        r->r.cause = TB_CAUSE_ACCUMULATION;
        evidence(r, "%.80s adds many numbers; its work is split by the number of threads", name);
        line = threads;
    }
    if (line)
        evidence(r, "differs: %.200s", line);
}

void classify_root(const struct report_builder *rb, struct root *r)
{
    if (r->r.summary[0] && r->r.cause == TB_CAUSE_UNEXPLAINED)
        return;
    switch (r->r.cause) {
    case TB_CAUSE_UNEXPLAINED:
        classify_operator(rb, r);
        break;
    case TB_CAUSE_INPUT_DATA:
        if (!is_device(r->kind) || poisons(rb, NULL) || (!by_race(rb, r) && !by_tearing(r)))
            classify_input(rb, r);
        break;
    case TB_CAUSE_CONTROL_FLOW:
        classify_control(rb, r);
        break;
    case TB_CAUSE_ORDER:
        classify_order(rb, r);
        break;
    case TB_CAUSE_UNSEEN_WRITER:
        if (!read_by_poison(rb, r) && !by_race(rb, r) && !by_tearing(r))
            classify_unseen(rb, r);
        break;
    case TB_CAUSE_RNG:
        classify_rng(rb, r);
        break;
    case TB_CAUSE_STATE:
        classify_state(r);
        break;
    case TB_CAUSE_ALGORITHM:
        classify_algorithm(rb, r);
        break;
    case TB_CAUSE_HOST_VALUE:
        classify_host_value(r);
        break;
    case TB_CAUSE_COLLECTIVE:
        evidence(r, "what this rank gave is equal, and no other recorded rank gave anything else");
        break;
    default:
        break;
    }
}
