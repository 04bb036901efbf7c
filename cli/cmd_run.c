#include "cli/run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deterministic/plan.h"
#include "diff/diff.h"
#include "store/store.h"

#define AT(member) offsetof(struct tb_run, member)

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
     "run 3 times, fresh memory filled with byte A, A, B (not 0xff): is memory read that nobody "
     "wrote?"},
    {"--stress", NULL, TB_CLI_FLAG, AT(stress), NULL,
     "with -n N: N runs more with the order of threads and streams disturbed; how often do runs "
     "differ?"},
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

void tb_run_prefix(const struct tb_run *run, char *out, size_t size)
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

int tb_run_record(const struct tb_run *run, const char *path, struct tb_collector_result *result)
{
    struct tb_error err = {0};
    enum tb_status st = tb_cli_record(&run->rec, path, result, &err);

    if (st != TB_OK)
        (void)tb_cli_error("run", &err);
    return result->exit_status;
}

static int run_once(const struct tb_run *run)
{
    struct tb_collector_result result = {.exit_status = 0};
    struct tb_error err = {0};
    char prefix[4000], path[4096];

    if (run->output)
        return tb_run_record(run, run->output, &result);
    tb_run_prefix(run, prefix, sizeof(prefix));
    if (tb_cli_free_trace(prefix, path, sizeof(path), &err) != TB_OK) {
        (void)tb_cli_error("run", &err);
        return TB_EXIT_NOT_STARTED;
    }
    return tb_run_record(run, path, &result);
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

static enum tb_status check_poison(struct tb_run *run, struct tb_error *err)
{
    if (run->times != 1)
        return tb_fail(err, TB_ERR_ARG, "'--poison' and '-n' exclude each other");
    if (!parse_poison(run->poison, run->fill))
        return tb_fail(err, TB_ERR_ARG,
                       "option '--poison': two bytes that differ, such as 0xa5,0x5a");
    if (run->fill[0] == 0xff || run->fill[1] == 0xff)
        return tb_fail(err, TB_ERR_ARG,
                       "option '--poison': the C library cannot fill memory with 0xff: 0x00 to "
                       "0xfe are possible");
    return TB_OK;
}

/* A file may be another one when it is asked for again: what it says stands in its place */
static size_t say_choices(const struct tb_pin_plan *plan, char *out, size_t size)
{
    char item[400], word[1700];
    size_t n = (size_t)snprintf(out, size, "--pin %s", tb_pin_profile_text(plan->profile)->name);

    for (size_t i = 0; i < plan->count && n < size; i++) {
        const struct tb_pin_choice *c = &plan->choice[i];
        if (!c->own || c->request == TB_PIN_UNBUILT || (c->value && strchr(c->value, ',')))
            continue;
        if (c->request == TB_PIN_LEAVE)
            (void)snprintf(item, sizeof(item), "!%s", c->pin->id);
        else
            (void)snprintf(item, sizeof(item), "%s=%s", c->pin->id, c->value ? c->value : "");
        n += (size_t)snprintf(out + n, size - n, " --pin %s",
                              tb_shell_word(item, word, sizeof(word)));
    }
    return n;
}

/* What does not fit is not said: half of it would be another plan */
static void say_asked(const struct tb_run *run, struct tb_pin_plan *plan)
{
    char word[sizeof(plan->asked)], *out = plan->asked;
    size_t n = 0, size = sizeof(plan->asked);

    if (plan->of_file)
        n = say_choices(plan, out, size);
    for (size_t i = 0; !plan->of_file && i < run->pins.count && n < size; i++)
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

/* Would the n-th of its traces be @source? A folder is given a name that is free */
static bool overwrites(const struct tb_run *run, uint64_t n, const char *source)
{
    char prefix[4000], path[4096];

    if (run->times == 1)
        return tb_cli_one_file(run->output, source);
    tb_run_prefix(run, prefix, sizeof(prefix));
    (void)snprintf(path, sizeof(path), "%s-%llu.twinbit", prefix, (unsigned long long)n);
    return tb_cli_one_file(path, source);
}

/* A trace that a cache comes from must have it, better known now than when the job starts; and it
 * must outlive the run: without it nothing can be compared */
static enum tb_status check_source(const struct tb_run *run, const struct tb_pin *pin,
                                   const char *trace, struct tb_error *err)
{
    struct tb_trace *t = NULL;
    enum tb_status st = tb_trace_open(&t, trace, err);

    if (st == TB_OK)
        st = tb_caches_need(t, pin->id, err);
    tb_trace_close(t);
    for (uint64_t n = 1; st == TB_OK && run->output && n <= run->times; n++)
        if (overwrites(run, n, trace))
            st = tb_fail(err, TB_ERR_ARG,
                         "'%s' is the trace that '%s' is taken from: name another with -o", trace,
                         pin->id);
    return st;
}

static enum tb_status check_sources(const struct tb_run *run, const struct tb_pin_plan *plan,
                                    struct tb_error *err)
{
    enum tb_status st = TB_OK;

    for (size_t i = 0; st == TB_OK && i < plan->count; i++) {
        const char *trace = tb_pin_cache_from(&plan->choice[i]);
        if (trace)
            st = check_source(run, plan->choice[i].pin, trace, err);
    }
    return st;
}

/* NULL: @err says which word was wrong */
static struct tb_pin_plan *make_plan(const struct tb_run *run, struct tb_error *err)
{
    struct tb_pin_plan *plan = tb_pin_plan_new();

    if (!plan) {
        (void)tb_fail(err, TB_ERR_NOMEM, "no memory for the list of pins");
        return NULL;
    }
    enum tb_status st = tb_pin_plan_add(plan, "observe", err);

    for (size_t i = 0; st == TB_OK && i < run->pins.count; i++)
        st = tb_pin_plan_add(plan, run->pins.item[i], err);
    const struct tb_pin_choice *c = tb_pin_choice_of(plan, "system.malloc_fill");
    if (st == TB_OK && run->poison && c->own)
        st = tb_fail(err, TB_ERR_ARG,
                     "'--poison' fills memory itself: leave out the pin "
                     "system.malloc_fill");
    c = tb_pin_choice_of(plan, "torch.fill");
    if (st == TB_OK && run->poison &&
        c->request == TB_PIN_SET) /* it would hide what is looked for */
        st = tb_pin_plan_add(plan, "torch.fill=False", err);
    if (st == TB_OK)
        st = tb_pin_plan_finish(plan, run->pin_seed, err);
    if (st == TB_OK)
        st = check_sources(run, plan, err);
    if (st != TB_OK) {
        tb_pin_plan_free(plan);
        return NULL;
    }
    plan->force = run->force_pins;
    plan->decisions = run->pins.count > 0;
    say_asked(run, plan);
    if ((run->pins.count || run->pin_seed) && !plan->asked[0] && !run->rec.quiet)
        tb_log("run: the pins take more than %zu bytes to write down: 'twinbit replay' will not "
               "ask for them again",
               sizeof(plan->asked) - 1);
    for (size_t i = 0; i < plan->notes && !run->rec.quiet; i++)
        tb_log("%s", plan->note[i]);
    return plan;
}

int tb_cmd_run(int argc, char **argv)
{
    struct tb_run run = {.rec = TB_CLI_RECORDING, .from_step = UINT64_MAX, .times = 1};
    struct tb_error err = {0};
    struct tb_cli_rest rest;
    int status;

    if (!tb_cli_parse(&command, argc, argv, &run, &rest, &status))
        return status;
    if (rest.count == 0)
        return tb_cli_usage(&command, "no command to run");
    if (run.times == 0 || run.times > 1000)
        return tb_cli_usage(&command, "option '--times': 1 to 1000 are possible");
    if (run.pins.count == 0 && (run.force_pins || run.pin_seed))
        return tb_cli_usage(&command, "'--force-pins' and '--pin-seed' need '--pin'");
    if (run.poison && check_poison(&run, &err) != TB_OK)
        return tb_cli_usage(&command, "%s", err.text);
    if (run.poison)
        run.times = 3;
    if (run.stress && (run.poison || run.times < 2))
        return tb_cli_usage(&command,
                            "'--stress' needs '-n N', N 2 or more, and goes without '--poison'");
    if (run.stress)
        run.times *= 2;
    if (run.rec.max_size && run.rec.max_size < MAX_SIZE_LEAST)
        return tb_cli_usage(&command, "option '--max-size': 16M at least, or 0 for no limit");
    if (run.rec.steps.given && run.from_step != UINT64_MAX)
        return tb_cli_usage(&command, "'--steps' and '--from-step' exclude each other");
    if (tb_cli_check_snapshots(&run.rec.snapshots, &err) != TB_OK)
        return tb_cli_usage(&command, "%s", err.text);
    if (tb_cli_check_kernels(&run.rec.cuda.kernels, &err) != TB_OK)
        return tb_cli_usage(&command, "%s", err.text);
    run.rec.argv = rest.item;
    struct tb_pin_plan *plan = make_plan(&run, &err);
    if (!plan)
        return tb_cli_usage(&command, "%s", err.text);
    run.rec.pins = plan;
    if (run.from_step != UINT64_MAX)
        run.rec.steps = (struct tb_cli_steps){run.from_step, UINT64_MAX, true};
    if (tb_cli_use_device(&run.rec, &err) != TB_OK) {
        (void)tb_cli_error("run", &err);
        status = err.status == TB_ERR_ARG ? TB_EXIT_ERROR : TB_EXIT_NOT_STARTED;
    } else {
        status = run.times == 1 ? run_once(&run) : tb_run_times(&run);
    }
    tb_pin_plan_free(plan);
    return status;
}
