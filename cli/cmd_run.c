#include "cli/record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deterministic/plan.h"
#include "diff/diff.h"

struct run {
    struct tb_cli_recording rec;
    const char *output;
    uint64_t from_step;
    uint64_t times;
    struct tb_cli_list pins;
    uint64_t pin_seed;
    bool force_pins;
    const char *poison;
    uint32_t fill[2]; /* what it says */
};

#define AT(member) offsetof(struct run, member)

#define MAX_SIZE_LEAST (16ull << 20) /* room for what is written at once, and for some detail */

static const struct tb_cli_option options[] = {
    {"--output", "-o", TB_CLI_STRING, AT(output), "TRACE",
     "file to write, or a folder: <host>-<pid>.twinbit in it"},
    {"--level", NULL, TB_CLI_CHOICE, AT(rec.level), TB_CLI_LEVELS,
     "detail: step ends only, every operator (default), or every kernel in them too"},
    {"--inputs", NULL, TB_CLI_FLAG, AT(rec.inputs), NULL,
     "hash what is read too, and check that nobody wrote unseen"},
    {"--snapshot", NULL, TB_CLI_LIST, AT(rec.snapshots), "EVENT",
     "keep the tensors of this event whole; may be repeated"},
    {"--steps", NULL, TB_CLI_STEPS, AT(rec.steps), "A..B",
     "this level in these steps only, boundary in the others"},
    {"--from-step", NULL, TB_CLI_NUMBER, AT(from_step), "N", "the same as --steps N.."},
    {"--max-size", NULL, TB_CLI_SIZE, AT(rec.max_size), "SIZE",
     "of the trace, 16M at least; beyond it the oldest detail goes first"},
    {"--stack", NULL, TB_CLI_FLAG, AT(rec.stack), NULL, "keep Python source lines"},
    {"--map", NULL, TB_CLI_FLAG, AT(rec.map), NULL,
     "keep 16 partial sums of a write: diff names the part"},
    {"--on-full", NULL, TB_CLI_CHOICE, AT(rec.on_full), TB_CLI_ON_FULL,
     "when recording lags: the job waits (default), or events are lost"},
    {"--device", NULL, TB_CLI_CHOICE, AT(rec.device), TB_CLI_DEVICE,
     "what the job finds as its GPU: what is there (default), or the software one"},
    {"--fault", NULL, TB_CLI_LIST, AT(rec.faults), "SPEC",
     "break the software device, as 'softgpu run' does; may be repeated"},
    {"--fault-log", NULL, TB_CLI_STRING, AT(rec.fault_log), "FILE",
     "write the faults of the software device down"},
    TB_CLI_CUDA_OPTIONS(AT(rec)),
    {"--pin", NULL, TB_CLI_LIST, AT(pins), "LIST",
     "hold what can differ: a profile, pins, a file of pins (default: observe)"},
    {"--pin-seed", NULL, TB_CLI_NUMBER, AT(pin_seed), "N",
     "of all seeds that are pinned (default 0)"},
    {"--force-pins", NULL, TB_CLI_FLAG, AT(force_pins), NULL,
     "pins win over what the job sets by itself"},
    {"--poison", NULL, TB_CLI_STRING, AT(poison), "A,B",
     "run 3 times, fresh memory of the host filled with byte A, A, B: is memory read that nobody "
     "wrote?"},
    {"--times", "-n", TB_CLI_NUMBER, AT(times), "N",
     "run the job N times and say whether it repeats itself"},
    {"--attach", NULL, TB_CLI_CHOICE, AT(rec.attach), TB_CLI_ATTACH,
     "how to get into the job (default preload)"},
    {"--force", NULL, TB_CLI_FLAG, AT(rec.force), NULL, "overwrite an existing trace"},
    {"--quiet", NULL, TB_CLI_FLAG, AT(rec.quiet), NULL, "no progress, no closing paragraph"},
    {"--libdir", NULL, TB_CLI_STRING, AT(rec.libdir), "DIR",
     "folder of libtwinbit.so (also: TWINBIT_LIBDIR)"},
    {"--learn", NULL, TB_CLI_FLAG, AT(rec.cuda.learn), NULL, NULL}, /* TB_CFG_LEARN */
};

static const struct tb_cli_command command = {
    .name = "run",
    .synopsis = "[options] -- CMD...",
    .about = "Runs CMD and records what its operators write. The job itself is not changed: same "
             "output,\n"
             "same results, its own exit status.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
    .notes =
        "EVENT is step/module-path/operator#k, as show and diff print it.\n"
        "Without -o the trace is <job>-<n>.twinbit in the current folder, where <job> is the name "
        "of the\n"
        "script or program and <n> the first number that is free. With -n N and -o X.twinbit the "
        "traces\n"
        "are X-1.twinbit to X-N.twinbit; with -o DIR they are DIR/<job>-1.twinbit and so on.\n"
        "exit status: the job's own (128+n after signal n); 2 bad options; 125 twinbit failed "
        "before the\n"
        "job began; 126 CMD cannot be executed; 127 CMD was not found. With -n: 0 all runs are\n"
        "identical, 1 they differ, 3 unknown.\n",
    .job = true,
};

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Where the traces of a job go: "<prefix>-<n>.twinbit" */
static void prefix_of(const struct run *run, char *out, size_t size)
{
    char job[256];
    size_t len;

    tb_cli_job_name(run->rec.argv, job, sizeof(job));
    if (!run->output) {
        (void)snprintf(out, size, "%s", job);
        return;
    }
    len = strlen(run->output);
    if (is_folder(run->output) || run->output[len - 1] == '/') {
        (void)snprintf(out, size, "%s/%s", run->output, job);
        return;
    }
    if (len > 8 && strcmp(run->output + len - 8, ".twinbit") == 0)
        len -= 8;
    (void)snprintf(out, size, "%.*s", (int)len, run->output);
}

static int record(const struct run *run, const char *path, struct tb_collector_result *result)
{
    struct tb_error err = {0};
    enum tb_status st = tb_cli_record(&run->rec, path, result, &err);

    if (st != TB_OK)
        (void)tb_cli_error("run", &err);
    return result->exit_status;
}

static int run_once(const struct run *run)
{
    struct tb_collector_result result = {.exit_status = 0};
    struct tb_error err = {0};
    char prefix[4000], path[4096];

    if (run->output)
        return record(run, run->output, &result);
    prefix_of(run, prefix, sizeof(prefix));
    if (tb_cli_free_trace(prefix, path, sizeof(path), &err) != TB_OK) {
        (void)tb_cli_error("run", &err);
        return TB_EXIT_NOT_STARTED;
    }
    return record(run, path, &result);
}

/* ---------------------------------------------------------------- -n N */

struct repeat {
    const struct run *run;
    char prefix[4000];
    char first[4096], now[4096]; /* traces */
    int first_status;
    uint64_t number;
    bool control_failed; /* --poison: two runs that were alike were not equal */
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

/* The report of the first pair that is not identical stands in full, the others have their line */
static int compare(const struct repeat *r, int worst)
{
    struct tb_diff_report *report = NULL;
    struct tb_error err = {0};

    if (tb_diff_run(&report, r->first, r->now, NULL, &err) != TB_OK)
        return tb_cli_error("run", &err);
    int verdict = (int)report->verdict;
    printf("run 1 and run %llu: %s\n", (unsigned long long)r->number, report->reason);
    if (verdict != TB_EXIT_OK && worst == TB_EXIT_OK)
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
    if (r->run->poison)
        rec->poison = TB_COL_POISON | r->run->fill[r->number > 2];
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
    struct run run = *r->run;
    choose_poison(r, &run.rec);
    int status = record(&run, r->now, &result);
    *stop = status == 128 + 2 || (status >= TB_EXIT_NOT_STARTED && status <= 127);
    if (*stop)
        return status;
    (void)fflush(stdout);
    static_assert(sizeof(r->now) == sizeof(result.trace), "a path of the collector");
    memcpy(r->now, result.trace, sizeof(r->now));
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
    *stop = verdict == TB_EXIT_ERROR || (r->run->poison && verdict != TB_EXIT_OK);
    r->control_failed = r->run->poison && r->number == 2 && verdict != TB_EXIT_OK;
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
    else if (verdict == TB_EXIT_OK)
        printf(
            "no read of memory that nobody wrote was seen: the results do not depend on whether it "
            "holds 0x%02x or 0x%02x\n",
            fill[0], fill[1]);
    else
        printf("unknown: not all was covered\n");
    return verdict;
}

static int run_times(const struct run *run)
{
    struct repeat *r = calloc(1, sizeof(*r));
    struct tb_error err = {0};
    int status = TB_EXIT_OK, worst = TB_EXIT_OK;
    bool stop = false;

    if (!r)
        return TB_EXIT_NOT_STARTED;
    r->run = run;
    prefix_of(run, r->prefix, sizeof(r->prefix));
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
        status = tb_cli_flush(print_poison(r, r->control_failed ? status : worse(worst, status)));
    } else if (!stop) {
        print_verdict(worst, run->times);
        status = tb_cli_flush(worst);
    }
out:
    free(r);
    return status;
}

/* "0xa5,90" */
static bool parse_poison(const char *text, uint32_t out[2])
{
    char *end;

    for (int i = 0; i < 2; i++) {
        if (*text < '0' || *text > '9')
            return false;
        unsigned long v = strtoul(text, &end, 0);
        if (end == text || v > 255 || *end != (i ? 0 : ','))
            return false;
        out[i] = (uint32_t)v;
        text = end + 1;
    }
    return out[0] != out[1];
}

/* What does not fit is not said: half of it would be another plan */
static void say_asked(const struct run *run, struct tb_pin_plan *plan)
{
    char word[600], *out = plan->asked;
    size_t n = 0, size = sizeof(plan->asked);

    for (size_t i = 0; i < run->pins.count && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s--pin %s", i ? " " : "",
                              tb_shell_word(run->pins.item[i], word, sizeof(word)));
    if (run->pin_seed && n < size)
        n += (size_t)snprintf(out + n, size - n, "%s--pin-seed %llu", n ? " " : "",
                              (unsigned long long)run->pin_seed);
    if (run->force_pins && n < size)
        n += (size_t)snprintf(out + n, size - n, "%s--force-pins", n ? " " : "");
    if (n >= size)
        out[0] = 0;
}

/* NULL: @err says which word was wrong */
static struct tb_pin_plan *make_plan(const struct run *run, struct tb_error *err)
{
    struct tb_pin_plan *plan = tb_pin_plan_new();

    if (!plan) {
        (void)tb_fail(err, TB_ERR_NOMEM, "no memory for the list of pins");
        return NULL;
    }
    enum tb_status st = tb_pin_plan_add(plan, "observe", err);

    for (size_t i = 0; st == TB_OK && i < run->pins.count; i++)
        st = tb_pin_plan_add(plan, run->pins.item[i], err);
    const struct tb_pin_choice *c = tb_pin_choice_of(plan, "torch.fill");
    if (st == TB_OK && run->poison &&
        c->request == TB_PIN_SET) /* it would hide what is looked for */
        st = tb_pin_plan_add(plan, "torch.fill=False", err);
    if (st == TB_OK)
        st = tb_pin_plan_finish(plan, run->pin_seed, err);
    if (st != TB_OK) {
        tb_pin_plan_free(plan);
        return NULL;
    }
    plan->force = run->force_pins;
    say_asked(run, plan);
    for (size_t i = 0; i < plan->notes && !run->rec.quiet; i++)
        tb_log("%s", plan->note[i]);
    return plan;
}

int tb_cmd_run(int argc, char **argv)
{
    struct run run = {.rec = TB_CLI_RECORDING, .from_step = UINT64_MAX, .times = 1};
    struct tb_error err = {0};
    struct tb_cli_rest rest;
    int status;

    if (!tb_cli_parse(&command, argc, argv, &run, &rest, &status))
        return status;
    if (rest.count == 0)
        return tb_cli_usage(&command, "no command to run");
    if (run.times == 0 || run.times > 1000)
        return tb_cli_usage(&command, "option '--times': 1 to 1000 are possible");
    if (run.poison && (run.times != 1 || !parse_poison(run.poison, run.fill)))
        return tb_cli_usage(&command, run.times != 1
                                          ? "'--poison' and '-n' exclude each other"
                                          : "option '--poison': two bytes that differ, such "
                                            "as 0xa5,0x5a");
    if (run.poison)
        run.times = 3;
    if (run.rec.max_size && run.rec.max_size < MAX_SIZE_LEAST)
        return tb_cli_usage(&command, "option '--max-size': 16M at least, or 0 for no limit");
    if (run.rec.steps.given && run.from_step != UINT64_MAX)
        return tb_cli_usage(&command, "'--steps' and '--from-step' exclude each other");
    if (tb_cli_check_snapshots(&run.rec.snapshots, &err) != TB_OK)
        return tb_cli_usage(&command, "%s", err.text);
    if (tb_cli_check_kernels(&run.rec.cuda.kernels, &err) != TB_OK)
        return tb_cli_usage(&command, "%s", err.text);
    struct tb_pin_plan *plan = make_plan(&run, &err);
    if (!plan)
        return tb_cli_usage(&command, "%s", err.text);
    run.rec.pins = plan;
    run.rec.argv = rest.item;
    if (run.from_step != UINT64_MAX)
        run.rec.steps = (struct tb_cli_steps){run.from_step, UINT64_MAX, true};
    if (tb_cli_use_device(&run.rec, &err) != TB_OK) {
        (void)tb_cli_error("run", &err);
        status = err.status == TB_ERR_ARG ? TB_EXIT_ERROR : TB_EXIT_NOT_STARTED;
    } else {
        status = run.times == 1 ? run_once(&run) : run_times(&run);
    }
    tb_pin_plan_free(plan);
    return status;
}
