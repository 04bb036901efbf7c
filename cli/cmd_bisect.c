#include "cli/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diff/diff.h"

/*
 * A search records a run, then others until one differs from it; equality carries over, so all runs
 * are compared with each other that way. The first search is at boundary over the whole job; the
 * next ones look at a window of steps around the place that the last parting pair named, at op,
 * with snapshots of that place's tensors, until a pair parts at a place whose tensors are kept.
 */

#define SUSPECTS_MAX                                                                               \
    12 /* event names whose tensors are kept; more do not fit into the configuration */

struct bisect {
    struct tb_cli_recording rec;
    uint64_t pairs;
    const char *keep;
    bool json;
    char folder[4000];
    char suspect[SUSPECTS_MAX][TB_EVENT_NAME_TEXT];
    unsigned runs; /* so far */
    int stop;      /* status to leave with, once the job was interrupted or could not be started */
};

/** struct pair - two runs that differ, or the last two that were compared */
struct pair {
    unsigned a, b; /* numbers of the runs, from 1 */
    struct tb_diff_report *report;
    bool op; /* recorded at op within rec.steps */
};

#define AT(member) offsetof(struct bisect, member)

static const struct tb_cli_option options[] = {
    {"--pairs", NULL, TB_CLI_NUMBER, AT(pairs), "N",
     "compare at most N pairs of runs in each search (default 5)"},
    {"--keep", NULL, TB_CLI_STRING, AT(keep), "DIR", "keep the traces of pairs that part in DIR"},
    {"--json", NULL, TB_CLI_FLAG, AT(json), NULL, "the report as JSON, see docs/cli.md"},
    {"--attach", NULL, TB_CLI_CHOICE, AT(rec.attach), TB_CLI_ATTACH,
     "how to get into the job (default preload)"},
    {"--device", NULL, TB_CLI_CHOICE, AT(rec.device), TB_CLI_DEVICE,
     "what the job finds as its GPU: what is there (default), or the software one"},
    TB_CLI_CUDA_OPTIONS(AT(rec)),
    {"--stack", NULL, TB_CLI_FLAG, AT(rec.stack), NULL, "keep Python source lines"},
    {"--force", NULL, TB_CLI_FLAG, AT(rec.force), NULL, "overwrite traces in DIR"},
    {"--libdir", NULL, TB_CLI_STRING, AT(rec.libdir), "DIR",
     "folder of libtwinbit.so (also: TWINBIT_LIBDIR)"},
};

static const struct tb_cli_command command = {
    .name = "bisect",
    .synopsis = "[options] -- CMD...",
    .about = "Runs CMD again and again until two runs part, first at step ends over the whole job, "
             "then at\n"
             "every operator around the step where they parted, then with the tensors themselves, "
             "and reports\n"
             "the pair in which both values were seen.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
    .notes = "CMD runs 2 to N+1 times in each search; its standard output goes to standard error.\n"
             "exit status: 0 no two runs differed, 1 the place is named, 2 error, 3 unknown: none "
             "is known to\n"
             "differ, but something was lost or not covered.\n",
    .job = true,
};

/* ---------------------------------------------------------------- folder */

static enum tb_status make_folder(struct bisect *b, struct tb_error *err)
{
    if (!b->keep)
        return tb_cli_scratch_make("bisect", b->folder, sizeof(b->folder), err);
    (void)snprintf(b->folder, sizeof(b->folder), "%s", b->keep);
    if (mkdir(b->folder, 0777) != 0 && errno != EEXIST)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot make folder '%s'", b->folder);
    return TB_OK;
}

static void remove_folder(const struct bisect *b)
{
    if (!b->keep)
        tb_cli_scratch_remove(b->folder);
}

static const char *trace_of(const struct bisect *b, unsigned run, char out[4096])
{
    (void)snprintf(out, 4096, "%s/run-%u.twinbit", b->folder, run);
    return out;
}

static void drop_trace(const struct bisect *b, unsigned run)
{
    char path[4096];

    (void)unlink(trace_of(b, run, path));
}

/* ---------------------------------------------------------------- runs */

/* One more run; b->stop is set if there shall be no other */
static enum tb_status record(struct bisect *b, struct tb_error *err)
{
    struct tb_collector_result result = {.exit_status = TB_EXIT_ERROR};
    char path[4096];

    b->runs++;
    enum tb_status st = tb_cli_record_aside(&b->rec, trace_of(b, b->runs, path), &result, err);
    if (st != TB_OK)
        return st;
    if (result.exit_status == 126 || result.exit_status == 127)
        return tb_fail(err, TB_ERR_ARG, "'%s' cannot be run: status %d", b->rec.argv[0],
                       result.exit_status);
    if (result.exit_status == 128 + 2)
        b->stop = result.exit_status;
    if (result.exit_status != 0)
        tb_log("bisect: run %u ended with status %d", b->runs, result.exit_status);
    return TB_OK;
}

static enum tb_status compare(struct bisect *b, unsigned first, struct pair *p,
                              struct tb_error *err)
{
    char path_a[4096], path_b[4096];
    struct tb_diff_report *report = NULL;

    enum tb_status st =
        tb_diff_run(&report, trace_of(b, first, path_a), trace_of(b, b->runs, path_b), NULL, err);
    if (st != TB_OK)
        return st;
    tb_diff_free(p->report);
    *p = (struct pair){
        .a = first, .b = b->runs, .report = report, .op = b->rec.level == TB_CLI_LEVEL_OP};
    tb_log("bisect: runs %u and %u at %s: %s", p->a, p->b, p->op ? "op" : "boundary",
           report->reason);
    return TB_OK;
}

/*
 * Record and compare until a pair parts: *@verdict is DIVERGED then and @out that pair, whose
 * traces stay; else IDENTICAL or UNKNOWN and @out the last pair.
 */
static enum tb_status search(struct bisect *b, struct pair *out, enum tb_diff_verdict *verdict,
                             struct tb_error *err)
{
    struct pair p = {.report = NULL};
    bool unknown = false;
    enum tb_status st = record(b, err);
    unsigned first = b->runs;

    for (uint64_t i = 0; i < b->pairs && st == TB_OK && !b->stop; i++) {
        st = record(b, err);
        if (st == TB_OK && !b->stop)
            st = compare(b, first, &p, err);
        if (st != TB_OK || b->stop)
            break;
        if (p.report->verdict == TB_DIFF_DIVERGED) {
            tb_diff_free(out->report);
            *out = p;
            *verdict = TB_DIFF_DIVERGED;
            return TB_OK;
        }
        unknown |= p.report->verdict == TB_DIFF_UNKNOWN;
        drop_trace(b, b->runs);
    }
    drop_trace(b, first);
    *verdict = unknown ? TB_DIFF_UNKNOWN : TB_DIFF_IDENTICAL;
    if (out->report)
        tb_diff_free(p.report);
    else
        *out = p;
    return st;
}

/* ---------------------------------------------------------------- what to look at next */

static bool is_suspect(const struct bisect *b, const struct tb_diff_place *place)
{
    char text[TB_EVENT_NAME_TEXT];

    tb_event_name_short(&place->name, text, sizeof(text));
    for (size_t i = 0; i < b->rec.snapshots.count; i++)
        if (strcmp(b->suspect[i], text) == 0)
            return true;
    return false;
}

static bool add_suspect(struct bisect *b, const struct tb_diff_place *place)
{
    struct tb_cli_list *list = &b->rec.snapshots;

    if (!place->known || !place->name_known || is_suspect(b, place) || list->count == SUSPECTS_MAX)
        return false;
    tb_event_name_short(&place->name, b->suspect[list->count], TB_EVENT_NAME_TEXT);
    list->item[list->count] = b->suspect[list->count];
    list->count++;
    return true;
}

/* The steps around @step; true if they are not those recorded already */
static bool move_window(struct bisect *b, uint64_t step)
{
    struct tb_cli_steps *w = &b->rec.steps;

    if (w->given && step >= w->from && step <= w->to)
        return false;
    *w = (struct tb_cli_steps){.from = step > 0 ? step - 1 : 0, .to = step + 1, .given = true};
    return true;
}

/* A generator's state, a number that leaves for the host, and what could not be seen have none */
static bool has_elements(const struct tb_diff_tensor *t)
{
    return t->known && t->dtype != TB_DT_UNKNOWN && strchr("rws", t->mode);
}

/* Set up the next search from what the last pair showed; false if there is no more to be had */
static bool look_closer(struct bisect *b, const struct pair *p)
{
    bool more = !p->op;

    b->rec.level = TB_CLI_LEVEL_OP;
    if (p->report->root_count == 0)
        return more;
    const struct tb_diff_root *root = &p->report->roots[0];
    more |= move_window(b, root->step);
    if (!p->op || root->elements_known || !has_elements(&root->tensor))
        return more;
    more |= add_suspect(b, &root->a);
    more |= add_suspect(b, &root->b);
    more |= add_suspect(b, &root->writer_a);
    more |= add_suspect(b, &root->writer_b);
    return more;
}

static void drop_pair(const struct bisect *b, const struct pair *p)
{
    if (b->keep)
        return;
    drop_trace(b, p->a);
    drop_trace(b, p->b);
}

/* The job marks no steps: at their ends there is nothing to compare. */
static bool saw_nothing(const struct pair *p, enum tb_diff_verdict verdict)
{
    return verdict == TB_DIFF_UNKNOWN && p->report && !p->op && p->report->root_count == 0 &&
           p->report->run[0].processes && p->report->compared + p->report->skipped == 0;
}

/* All searches; *@verdict is the first one's that saw anything */
static enum tb_status bisect(struct bisect *b, struct pair *p, enum tb_diff_verdict *verdict,
                             struct tb_error *err)
{
    enum tb_status st = search(b, p, verdict, err);

    if (st == TB_OK && !b->stop && saw_nothing(p, *verdict)) {
        tb_log("bisect: the job marks no steps: all its events are looked at");
        tb_diff_free(p->report);
        *p = (struct pair){.report = NULL};
        b->rec.level = TB_CLI_LEVEL_OP;
        st = search(b, p, verdict, err);
    }
    if (st != TB_OK || *verdict != TB_DIFF_DIVERGED)
        return st;
    for (uint64_t round = 0; round < b->pairs + 2 && !b->stop && look_closer(b, p); round++) {
        struct pair old = *p;
        enum tb_diff_verdict now;
        p->report = NULL;
        st = search(b, p, &now, err);
        if (st != TB_OK || now != TB_DIFF_DIVERGED) {
            tb_diff_free(p->report);
            *p = old;
            break;
        }
        drop_pair(b, &old);
        tb_diff_free(old.report);
    }
    return st;
}

/* ---------------------------------------------------------------- report */

static const char *outcome(const struct bisect *b, const struct pair *p,
                           enum tb_diff_verdict verdict, char *out, size_t size)
{
    if (verdict == TB_DIFF_DIVERGED)
        (void)snprintf(out, size, "runs %u and %u of %u differ; what follows is about this pair",
                       p->a, p->b, b->runs);
    else if (verdict == TB_DIFF_IDENTICAL)
        (void)snprintf(out, size, "no two of %u runs differed", b->runs);
    else
        (void)snprintf(out, size, "no two of %u runs are known to differ, but not all was covered",
                       b->runs);
    return out;
}

static void print_text(const struct bisect *b, const struct pair *p, enum tb_diff_verdict verdict)
{
    char text[160];

    printf("bisect: %s\n", outcome(b, p, verdict, text, sizeof(text)));
    if (verdict == TB_DIFF_DIVERGED && !p->op)
        printf("bisect: no pair parted again at level op in %" PRIu64
               " tries: raise --pairs; this pair was recorded at step ends only\n",
               b->pairs);
    if (p->report && verdict != TB_DIFF_IDENTICAL)
        tb_diff_text(p->report, stdout, tb_cli_colour());
    if (verdict == TB_DIFF_DIVERGED && !b->keep)
        puts("bisect: the traces were not kept: --keep DIR keeps them");
}

static void print_json(const struct bisect *b, const struct pair *p, enum tb_diff_verdict verdict)
{
    static const char *const names[] = {"identical", "diverged", "", "unknown"};
    char text[160];

    printf("{\"verdict\": \"%s\", \"runs\": %u, \"text\": ", names[verdict], b->runs);
    tb_json_string(stdout, outcome(b, p, verdict, text, sizeof(text)));
    if (verdict == TB_DIFF_DIVERGED)
        printf(", \"pair\": [%u, %u], \"level\": \"%s\"", p->a, p->b, p->op ? "op" : "boundary");
    fputs(", \"report\": ", stdout);
    if (p->report)
        tb_diff_json(p->report, stdout);
    else
        fputs("null", stdout);
    puts("}");
}

static int run_bisect(struct bisect *b)
{
    struct pair p = {.report = NULL};
    enum tb_diff_verdict verdict = TB_DIFF_UNKNOWN;
    struct tb_error err = {0};
    enum tb_status st = make_folder(b, &err);
    int status;

    if (st == TB_OK)
        st = bisect(b, &p, &verdict, &err);
    status = (int)verdict;
    if (st != TB_OK)
        status = tb_cli_error("bisect", &err);
    else if (b->stop)
        status = b->stop;
    if (p.report && (verdict == TB_DIFF_DIVERGED || (st == TB_OK && !b->stop))) {
        if (b->json)
            print_json(b, &p, verdict);
        else
            print_text(b, &p, verdict);
        status = st == TB_OK ? tb_cli_flush(status) : status;
    }
    tb_diff_free(p.report);
    remove_folder(b);
    return status;
}

int tb_cmd_bisect(int argc, char **argv)
{
    struct bisect *b = calloc(1, sizeof(*b));
    struct tb_error err = {0};
    struct tb_cli_rest rest;
    int status = TB_EXIT_ERROR;

    if (!b)
        return status;
    b->rec = (struct tb_cli_recording)TB_CLI_RECORDING;
    b->rec.level = TB_CLI_LEVEL_BOUNDARY;
    b->rec.quiet = true;
    b->pairs = 5;
    if (!tb_cli_parse(&command, argc, argv, b, &rest, &status))
        goto out;
    if (rest.count == 0)
        status = tb_cli_usage(&command, "no command to run");
    else if (b->pairs == 0 || b->pairs > 1000)
        status = tb_cli_usage(&command, "option '--pairs': 1 to 1000 are possible");
    else if (tb_cli_check_kernels(&b->rec.cuda.kernels, &err) != TB_OK)
        status = tb_cli_usage(&command, "%s", err.text);
    else {
        b->rec.argv = rest.item;
        status = tb_cli_use_device(&b->rec, &err) == TB_OK ? run_bisect(b)
                                                           : tb_cli_error("bisect", &err);
    }
out:
    free(b);
    return status;
}
