/* run -n N, --stress, --poison: several runs, each compared with the first. */
#include "cli/run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diff/diff.h"
#include "store/store.h"

struct repeat {
    const struct tb_run *run;
    char prefix[4000];
    char first[4096], now[4096]; /* traces */
    int first_status;
    uint64_t number;
    uint64_t differ[2];  /* runs that differ from the first: without, with stress */
    bool own_seed;       /* of the software device: the user has set one */
    bool control_failed; /* --poison: two runs that were alike were not equal */
    bool recorded;       /* any run had an event */
};

static enum tb_status name_next(struct repeat *r, struct tb_error *err)
{
    if (!r->run->output) /* free names, so that earlier traces of the job stay */
        return tb_cli_free_trace(r->prefix, r->now, sizeof(r->now), err);
    (void)snprintf(r->now, sizeof(r->now), "%s-%llu.twinbit", r->prefix,
                   (unsigned long long)r->number);
    if (access(r->now, F_OK) == 0 && !r->run->rec.force)
        return tb_fail(err, TB_ERR_EXISTS, "'%s' exists: name others with -o, or give --force",
                       r->now);
    return TB_OK;
}

/* All names are looked at before the first run: the last one must not fail on its name */
static enum tb_status check_names(struct repeat *r, struct tb_error *err)
{
    enum tb_status st = TB_OK;

    for (r->number = 1; r->number <= r->run->times && st == TB_OK; r->number++)
        st = name_next(r, err);
    return st;
}

/* The report of the first pair that is not identical stands in full, and the first of one that
 * differs; the others have their line */
static int compare(const struct repeat *r, int worst)
{
    struct tb_diff_report *report = NULL;
    struct tb_error err = {0};

    if (tb_diff_run(&report, r->first, r->now, NULL, &err) != TB_OK)
        return tb_cli_error("run", &err);
    int verdict = (int)report->verdict;
    printf("run 1 and run %llu: %s\n", (unsigned long long)r->number, report->reason);
    if ((verdict != TB_EXIT_OK && worst == TB_EXIT_OK) ||
        (verdict == TB_EXIT_DIFFERS && worst == TB_EXIT_UNKNOWN))
        tb_diff_text(report, stdout, tb_cli_colour());
    tb_diff_free(report);
    return verdict;
}

static int worse(int a, int b)
{
    static const int order[] = {TB_EXIT_OK, TB_EXIT_UNKNOWN, TB_EXIT_DIFFERS, TB_EXIT_ERROR};

    for (size_t i = TB_ARRAY_LEN(order); i-- > 0;)
        if (order[i] == a || order[i] == b)
            return order[i];
    return TB_EXIT_ERROR;
}

/* The first two runs are equal in all that twinbit can do: a job that parts there would part anyway
 */
static void choose_poison(struct repeat *r, struct tb_cli_recording *rec)
{
    *rec = r->run->rec;
    const uint32_t *fill = r->run->fill;

    if (r->run->poison)
        rec->poison = TB_POISON(fill[r->number > 2], fill[0], fill[1]);
}

/* The software device's order follows from a seed: another one for each run under stress, unless
 * the user wants a certain one */
static void choose_stress(const struct repeat *r, struct tb_cli_recording *rec)
{
    char seed[24];

    if (!r->run->stress || r->number <= r->run->times / 2)
        return;
    rec->stress = r->number;
    (void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)r->number);
    if (rec->device == TB_CLI_DEVICE_SOFTGPU && !r->own_seed)
        (void)setenv("SOFTGPU_SEED", seed, 1);
}

/* One more run, compared with the first; *@stop if there shall be no other */
static int repeat_once(struct repeat *r, int worst, bool *stop)
{
    struct tb_collector_result result = {.exit_status = 0};
    struct tb_error err = {0};

    *stop = name_next(r, &err) != TB_OK;
    if (*stop) {
        (void)tb_cli_error("run", &err);
        return TB_EXIT_NOT_STARTED;
    }
    struct tb_run run = *r->run;
    choose_poison(r, &run.rec);
    choose_stress(r, &run.rec);
    int status = tb_run_record(&run, r->now, &result);
    *stop = status == 128 + 2 || (status >= TB_EXIT_NOT_STARTED && status <= 127);
    if (*stop)
        return status;
    (void)fflush(stdout);
    static_assert(sizeof(r->now) == sizeof(result.trace), "a path of the collector");
    memcpy(r->now, result.trace, sizeof(r->now));
    r->recorded = r->recorded || result.events;
    if (r->number == 1) {
        memcpy(r->first, r->now, sizeof(r->first));
        r->first_status = status;
        return TB_EXIT_OK;
    }
    int verdict = compare(r, worst);
    if (status != r->first_status) {
        printf("run 1 and run %llu: status %d and %d\n", (unsigned long long)r->number,
               r->first_status, status);
        verdict = worse(verdict, TB_EXIT_DIFFERS);
    }
    r->differ[run.rec.stress != 0] += verdict == TB_EXIT_DIFFERS;
    *stop = verdict == TB_EXIT_ERROR || (r->run->poison && verdict == TB_EXIT_DIFFERS);
    r->control_failed = r->run->poison && r->number == 2 && verdict == TB_EXIT_DIFFERS;
    return verdict;
}

static void print_verdict(int worst, uint64_t times)
{
    unsigned long long n = times;

    if (worst == TB_EXIT_OK)
        printf("repeatable: all %llu runs are identical\n", n);
    else if (worst == TB_EXIT_DIFFERS)
        printf("not repeatable: of %llu runs some differ\n", n);
    else
        printf("unknown: of %llu runs none is known to differ, but not all was covered\n", n);
}

static bool is_unfilled(void *arg, const struct tb_trace_coverage *row)
{
    bool *found = arg;

    *found = *found || strcmp(row->kind, "poison") == 0;
    if (strcmp(row->kind, "poison") == 0)
        printf("not covered: %s: %s\n", row->subject, row->detail);
    return true;
}

/* Was there fresh memory that could not be filled? Says which */
static bool print_unfilled(const char *trace)
{
    struct tb_trace *t = NULL;
    struct tb_error err = {0};
    bool found = false;

    if (tb_trace_open(&t, trace, &err) == TB_OK &&
        tb_trace_coverage(t, 0, is_unfilled, &found, &err) != TB_OK)
        found = true;
    tb_trace_close(t);
    return found;
}

/* Of --poison; the status to leave with */
static int print_poison(const struct repeat *r, int verdict)
{
    const uint32_t *fill = r->run->fill;

    if (r->control_failed) {
        printf(
            "unknown: two runs with fresh memory 0x%02x differ by themselves: make the job repeat "
            "itself first (--pin strict)\n",
            fill[0]);
        return TB_EXIT_UNKNOWN;
    }
    if (verdict == TB_EXIT_DIFFERS)
        printf(
            "memory is read that nobody wrote: runs with fresh memory 0x%02x are equal, one with "
            "0x%02x is not\n",
            fill[0], fill[1]);
    else if (print_unfilled(r->now))
        verdict = TB_EXIT_UNKNOWN;
    else if (verdict == TB_EXIT_OK)
        printf(
            "no read of memory that nobody wrote was seen: the results do not depend on whether it "
            "holds 0x%02x or 0x%02x\n",
            fill[0], fill[1]);
    if (verdict == TB_EXIT_UNKNOWN)
        printf("unknown: not all was covered\n");
    return verdict;
}

static void print_stress(const struct repeat *r)
{
    unsigned long long half = r->run->times / 2;

    if (r->run->stress)
        printf("differ from run 1: %llu of %llu runs as they are, %llu of %llu under stress\n",
               (unsigned long long)r->differ[0], half - 1, (unsigned long long)r->differ[1], half);
}

/* What the job prints goes through untouched, and is nobody's to compare. */
static void print_next(const struct repeat *r)
{
    if (r->recorded)
        return;
    if (r->run->poison)
        printf("next: what the job prints is not compared; see yourself whether run 3, with 0x%02x "
               "in fresh memory, printed what runs 1 and 2 did, with 0x%02x\n",
               r->run->fill[1], r->run->fill[0]);
    else
        printf("next: what the job prints is not compared; 'twinbit bisect-pins --compare output "
               "-- CMD' does that\n");
}

int tb_run_times(const struct tb_run *run)
{
    struct repeat *r = calloc(1, sizeof(*r));
    struct tb_error err = {0};
    int status = TB_EXIT_OK, worst = TB_EXIT_OK;
    bool stop = false;

    if (!r)
        return TB_EXIT_NOT_STARTED;
    r->run = run;
    r->own_seed = getenv("SOFTGPU_SEED") != NULL;
    tb_run_prefix(run, r->prefix, sizeof(r->prefix));
    if (check_names(r, &err) != TB_OK) {
        (void)tb_cli_error("run", &err);
        status = TB_EXIT_NOT_STARTED;
        goto out;
    }
    for (r->number = 1; r->number <= run->times && !stop; r->number++) {
        status = repeat_once(r, worst, &stop);
        worst = stop ? worst : worse(worst, status);
    }
    bool told =
        run->poison && r->number > 2 && status <= TB_EXIT_UNKNOWN && status != TB_EXIT_ERROR;
    if (told) {
        status = print_poison(r, r->control_failed ? status : worse(worst, status));
        print_next(r);
        status = tb_cli_flush(status);
    } else if (!stop) {
        print_stress(r);
        print_verdict(worst, run->times);
        print_next(r);
        status = tb_cli_flush(worst);
    }
out:
    free(r);
    return status;
}
