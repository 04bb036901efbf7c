#include "cli/bisect_pins.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(struct tb_bp, member)

static const struct tb_cli_option options[] = {
    {"--pin", NULL, TB_CLI_LIST, AT(pins), "LIST",
     "the pins to choose from, as 'run --pin' takes them (default strict); may be repeated"},
    {"--pin-seed", NULL, TB_CLI_NUMBER, AT(pin_seed), "N",
     "of all seeds that are pinned (default 0)"},
    {"--force-pins", NULL, TB_CLI_FLAG, AT(force_pins), NULL,
     "pins win over what the job sets by itself"},
    {"--repeats", "-n", TB_CLI_NUMBER, AT(repeats), "N",
     "runs that must be equal, at least (default 5); more where the job differs rarely"},
    {"--max-runs", NULL, TB_CLI_NUMBER, AT(max_runs), "N", "of the job, in all (default 200)"},
    {"--rounds", NULL, TB_CLI_NUMBER, AT(rounds), "N",
     "measure the cost of the pins in N rounds (default 5, 0: not)"},
    {"--compare", NULL, TB_CLI_CHOICE, AT(compare), TB_BP_COMPARE,
     "runs by what is recorded of them, or by what they print; auto (default): the first if there "
     "is something"},
    {"--level", NULL, TB_CLI_CHOICE, AT(rec.level), TB_CLI_LEVELS,
     "detail that is recorded (default op)"},
    {"--json", NULL, TB_CLI_FLAG, AT(json), NULL,
     "the report as JSON, see docs/bisect-pins.schema.json"},
    {"--attach", NULL, TB_CLI_CHOICE, AT(rec.attach), TB_CLI_ATTACH,
     "how to get into the job (default preload)"},
    {"--device", NULL, TB_CLI_CHOICE, AT(rec.device), TB_CLI_DEVICE,
     "what the job finds as its GPU: what is there (default), or the software one"},
    TB_CLI_CUDA_OPTIONS(AT(rec)),
    {"--libdir", NULL, TB_CLI_STRING, AT(rec.libdir), "DIR",
     "folder of libtwinbit.so (also: TWINBIT_LIBDIR)"},
};

static const struct tb_cli_command command = {
    .name = "bisect-pins",
    .synopsis = "[options] -- CMD...",
    .about = "Finds the smallest set of pins that makes runs of CMD the same, and what it costs: "
             "runs it without\n"
             "pins, with all of them, then with fewer and fewer.\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
    .notes = "What CMD prints is not shown. A set that differed once is out for good; one that did "
             "not is run as\n"
             "often as the rate without pins asks for. Ctrl-C ends it with what is known.\n"
             "exit status: 0 the pins are named, or none is needed; 1 runs differ with all pins; 2 "
             "error;\n"
             "3 unknown: it was stopped too early, or not all was covered.\n",
    .job = true,
};

struct tb_pin_plan *tb_bp_plan(const struct tb_bp *b, const char *more, struct tb_error *err)
{
    struct tb_pin_plan *plan = tb_pin_plan_new();
    enum tb_status st = TB_OK;

    if (!plan) {
        (void)tb_fail(err, TB_ERR_NOMEM, "no memory");
        return NULL;
    }
    plan->force = b->force_pins;
    if (b->pins.count == 0)
        st = tb_pin_plan_add(plan, "strict", err);
    for (size_t i = 0; st == TB_OK && i < b->pins.count; i++)
        st = tb_pin_plan_add(plan, b->pins.item[i], err);
    if (st == TB_OK && more)
        st = tb_pin_plan_add(plan, more, err);
    if (st == TB_OK)
        st = tb_pin_plan_finish(plan, b->pin_seed, err);
    if (st == TB_OK)
        return plan;
    tb_pin_plan_free(plan);
    return NULL;
}

static enum tb_status make_plans(struct tb_bp *b, struct tb_error *err)
{
    b->none = tb_pin_plan_new();
    if (!b->none)
        return tb_fail(err, TB_ERR_NOMEM, "no memory");
    enum tb_status st = tb_pin_plan_add(b->none, "observe", err);
    if (st == TB_OK)
        st = tb_pin_plan_finish(b->none, b->pin_seed, err);
    if (st == TB_OK && !(b->all = tb_bp_plan(b, NULL, err)))
        st = err->status;
    if (st == TB_OK)
        st = tb_bp_items(b, err);
    if (st == TB_OK && b->items == 0)
        st = tb_fail(err, TB_ERR_ARG, "--pin: no pin is named that this version can set");
    for (size_t i = 0; st == TB_OK && i < b->all->notes; i++)
        tb_log("%s", b->all->note[i]);
    return st;
}

static int status_of(const struct tb_bp *b)
{
    if (b->stopped)
        return b->stopped;
    if (b->verdict == TB_BP_NONE)
        return TB_EXIT_DIFFERS;
    if (b->verdict == TB_BP_UNKNOWN || (b->uncovered[0] && !b->by_output))
        return TB_EXIT_UNKNOWN;
    return TB_EXIT_OK;
}

static int report(const struct tb_bp *b)
{
    int status = status_of(b);

    if (b->json)
        tb_bp_json(b, status);
    else
        tb_bp_print(b);
    return tb_cli_flush(status);
}

static int run(struct tb_bp *b)
{
    struct tb_error err = {0};
    enum tb_status st = tb_cli_use_device(&b->rec, &err);

    if (st == TB_OK)
        st = tb_cli_scratch_make("bisect-pins", b->folder, sizeof(b->folder), &err);
    if (st != TB_OK)
        return tb_cli_error("bisect-pins", &err);
    b->terminal = isatty(STDERR_FILENO) ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    st = tb_bp_search(b, &err);
    if (b->terminal >= 0) {
        (void)dprintf(b->terminal, "\r\033[K");
        (void)close(b->terminal);
    }
    int status = st == TB_OK ? report(b) : tb_cli_error("bisect-pins", &err);
    tb_cli_scratch_remove(b->folder);
    return status;
}

static void release(struct tb_bp *b)
{
    tb_pin_plan_free(b->all);
    tb_pin_plan_free(b->none);
    free(b->set.choice);
    free(b->item);
    free(b->found);
    free(b->cost);
    free(b);
}

int tb_cmd_bisect_pins(int argc, char **argv)
{
    struct tb_bp *b = calloc(1, sizeof(*b));
    struct tb_error err = {0};
    struct tb_cli_rest rest;
    int status = TB_EXIT_ERROR;

    if (!b)
        return status;
    b->rec = (struct tb_cli_recording)TB_CLI_RECORDING;
    b->rec.quiet = true;
    b->repeats = b->rounds = 5;
    b->max_runs = 200;
    if (!tb_cli_parse(&command, argc, argv, b, &rest, &status))
        goto out;
    b->rec.argv = rest.item;
    if (rest.count == 0)
        status = tb_cli_usage(&command, "no command to run");
    else if (b->repeats < 2 || b->repeats > 1000)
        status = tb_cli_usage(&command, "option '--repeats': 2 to 1000 are possible");
    else if (b->rounds > 1000)
        status = tb_cli_usage(&command, "option '--rounds': 0 to 1000 are possible");
    else if (b->max_runs < 2 * b->repeats || b->max_runs > 1000000)
        status =
            tb_cli_usage(&command, "option '--max-runs': twice --repeats to 1000000 are possible");
    else if (tb_cli_check_kernels(&b->rec.cuda.kernels, &err) != TB_OK ||
             make_plans(b, &err) != TB_OK)
        status = tb_cli_usage(&command, "%s", err.text);
    else
        status = run(b);
out:
    release(b);
    return status;
}
