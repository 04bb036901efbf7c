/*
 * pins --verify: a job is recorded under a profile; a row for each pin of the catalogue says what
 * was requested, what was observed, and why a pin is not held.
 */
#include "cli/pins.h"

#include <stdlib.h>
#include <string.h>

#include "cli/doctor.h"
#include "cli/record.h"
#include "store/store.h"

/** struct row - what became of a pin: the worst that any process said of it */
struct row {
    const struct tb_pin_choice *choice;
    const char *state;    /* "held"; "unasked": the profile leaves it alone, and nobody read it */
    const char *observed; /* "" for nothing */
    const char *where;    /* who changed it, "" if that is not known */
    char reason[300];     /* "" where nothing is to be said */
};

/** struct verify - a job, what it found installed, and its rows */
struct verify {
    struct tb_pin_plan *plan;
    struct row *row; /* in the order of plan->choice */
    char *text;      /* rows point into it */
    char folder[4000];
    char python[4096];                   /* "": none */
    char numpy[64], torch[64], cuda[64]; /* versions; "-": not there, "": not known */
    bool own;                            /* the job is ours */
    bool isolated;                       /* its Python keeps our part out */
};

/* ---------------------------------------------------------------- the job */

static void read_facts(struct verify *v)
{
    char path[4096], name[16], version[64];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/facts", v->folder);
    if ((f = fopen(path, "re")) == NULL)
        return;
    while (fscanf(f, "%15s %63s", name, version) == 2) {
        char *to = strcmp(name, "numpy") == 0   ? v->numpy
                   : strcmp(name, "torch") == 0 ? v->torch
                   : strcmp(name, "cuda") == 0  ? v->cuda
                                                : NULL;
        if (to)
            memcpy(to, version, sizeof(version));
    }
    (void)fclose(f);
}

/* Our job needs a python; without one what any program can tell is read from /bin/true. */
static enum tb_status choose_job(struct verify *v, char *argv[4], char script[4200],
                                 char facts[4096], struct tb_error *err)
{
    static char nothing[] = "/bin/true";
    const char *env = getenv("TWINBIT_PYTHON");
    char libdir[4096];

    v->own = true;
    argv[0] = nothing;
    argv[1] = NULL;
    if (!tb_doctor_find(env && *env ? env : "python3", v->python, sizeof(v->python))) {
        v->python[0] = 0;
        tb_log("pins: no python was found: the job is /bin/true");
        return TB_OK;
    }
    enum tb_status st = tb_cli_libdir(NULL, libdir, sizeof(libdir), err);
    if (st != TB_OK)
        return st;
    (void)snprintf(script, 4200, "%s/python/twinbit/_verify_job.py", libdir);
    (void)snprintf(facts, 4096, "%.4000s/facts", v->folder);
    argv[0] = v->python;
    argv[1] = script;
    argv[2] = facts;
    argv[3] = NULL;
    return TB_OK;
}

static enum tb_status record(struct verify *v, char *const *argv, char trace[4096],
                             struct tb_error *err)
{
    struct tb_cli_recording rec = TB_CLI_RECORDING;
    struct tb_collector_result result = {.exit_status = 0};
    char script[4200], facts[4096], *own[4];

    if (!argv) {
        enum tb_status st = choose_job(v, own, script, facts, err);
        if (st != TB_OK)
            return st;
        argv = own;
    }
    (void)snprintf(trace, 4096, "%.4000s/verify.twinbit", v->folder);
    rec.level = TB_CLI_LEVEL_BOUNDARY;
    v->isolated = tb_isolated(argv) != 0;
    rec.argv = argv;
    rec.pins = v->plan;
    rec.quiet = true;
    enum tb_status st = tb_cli_record_aside(&rec, trace, &result, err);
    if (st == TB_OK && result.exit_status != 0)
        tb_log("pins: the job ended with status %d", result.exit_status);
    read_facts(v);
    return st;
}

/* ---------------------------------------------------------------- rows */

static bool bad(const char *state)
{
    return strcmp(state, "missed") == 0 || strcmp(state, "changed") == 0 ||
           strcmp(state, "refused") == 0;
}

/* Of two processes that speak of one pin the one with the worse news is shown */
static int rank(const char *state)
{
    static const char *const order[] = {"unasked", "unseen", "unbuilt", "read",   "given",
                                        "held",    "job",    "refused", "missed", "changed"};

    for (int i = 0; i < (int)TB_ARRAY_LEN(order); i++)
        if (strcmp(state, order[i]) == 0)
            return i;
    return -1;
}

static void take(struct verify *v, char *line)
{
    char *field[TB_PIN_ROW_FIELDS];

    if (!tb_pin_row_split(line, field))
        return;
    const struct tb_pin_choice *c = tb_pin_choice_of(v->plan, field[TB_PIN_ROW_ID]);
    if (!c)
        return;
    struct row *r = &v->row[c - v->plan->choice];
    int more = rank(field[TB_PIN_ROW_STATE]) - rank(r->state);
    if (more < 0 || (more == 0 && r->observed[0]))
        return;
    r->state = field[TB_PIN_ROW_STATE];
    r->observed = field[TB_PIN_ROW_SEEN];
    r->where = field[TB_PIN_ROW_WHERE];
}

static enum tb_status read_rows(struct verify *v, const char *path, struct tb_error *err)
{
    struct tb_trace *t = NULL;
    size_t n = 0;
    enum tb_status st = tb_trace_open(&t, path, err);

    if (st != TB_OK)
        return st;
    const char *text = tb_trace_text(t, "pins", &n);
    v->text = text ? strndup(text, n) : NULL;
    tb_trace_close(t);
    if (!v->text)
        return tb_fail(err, TB_ERR_NOTFOUND, "the trace of the job says nothing of pins");
    char *rest = v->text;
    (void)strsep(&rest, "\n"); /* about the run */
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        take(v, tb_plain(line, true));
    return TB_OK;
}

static const char *requested(const struct tb_pin_choice *c)
{
    return c->value ? c->value : "";
}

/* ---------------------------------------------------------------- why */

static bool in_group(const struct tb_pin *pin, const char *group)
{
    return strcmp(pin->group, group) == 0;
}

static const char *no_reading(const struct verify *v, const struct tb_pin *pin)
{
    bool torch =
        in_group(pin, "torch") || in_group(pin, "data") || pin->reader == TB_PIN_READER_TORCH;

    if (v->isolated && (torch || pin->reader == TB_PIN_READER_PYTHON))
        return "its Python does not read PYTHONPATH (-I, -E), or loads no site (-S): twinbit's "
               "part was not in; leave the option out";
    if (v->own && !v->python[0] && (torch || pin->reader == TB_PIN_READER_PYTHON))
        return "no python was found";
    if (strncmp(pin->id, "python.numpy", 12) == 0 && v->numpy[0] == '-')
        return "numpy is not installed";
    if (strcmp(pin->id, "torch.seed_cuda") == 0 && v->torch[0] != '-' && v->cuda[0] == '-')
        return "torch has no GPU to use";
    if (torch && v->torch[0] == '-')
        return "torch is not installed";
    if (in_group(pin, "cuda") && v->cuda[0] == '-')
        return "torch has no GPU to use";
    return pin->mechanism == TB_PIN_NONE ? "nothing in the job showed it"
                                         : "nothing in the job used it, or could tell";
}

/* What is only counted: nothing holds it */
static const char *by_chance(const struct tb_pin *pin)
{
    if (strcmp(pin->id, "system.time") == 0)
        return "it was real: no pin sets it";
    if (strcmp(pin->id, "data.completion_order") == 0 || strcmp(pin->id, "data.pool_threads") == 0)
        return "its order is chance: no pin sets it, and a replay repeats it";
    return "";
}

static void explain(const struct verify *v, struct row *r)
{
    const struct tb_pin *pin = r->choice->pin;
    const char *at = r->where[0] ? " at " : "", *why = "";

    if (strcmp(r->state, "unasked") == 0)
        (void)snprintf(r->reason, sizeof(r->reason), "profile %s leaves it alone",
                       tb_pin_profile_text(v->plan->profile)->name);
    else if (strcmp(r->state, "changed") == 0)
        (void)snprintf(r->reason, sizeof(r->reason), "%s changed it%s%s",
                       in_group(pin, "nccl") && r->where[0] ? "NCCL" : "the job", at, r->where);
    else if (strcmp(r->state, "job") == 0)
        (void)snprintf(r->reason, sizeof(r->reason), "%s has a value of its own, which wins%s%s",
                       v->own ? "the environment" : "the job", at, r->where);
    else if (pin->missing && strcmp(r->state, "held") != 0 && r->choice->request != TB_PIN_LEAVE)
        why = pin->missing;
    else if (strcmp(r->state, "given") == 0)
        why = pin->reader == TB_PIN_READER_NCCL ? "no collective of NCCL told what became of it"
                                                : "its library cannot be asked what it made of it";
    else if (strcmp(r->state, "refused") == 0)
        why = "the system did not let it be set (in a container, its filter)";
    else if (strcmp(r->state, "missed") == 0)
        why = "it was set, and something else was seen";
    else if (strcmp(r->state, "read") == 0)
        why = by_chance(pin);
    else if (strcmp(r->state, "unseen") == 0 && !r->observed[0]) /* else that says why */
        why = no_reading(v, pin);
    if (*why)
        (void)snprintf(r->reason, sizeof(r->reason), "%s", why);
}

static void start_rows(struct verify *v)
{
    for (size_t i = 0; i < v->plan->count; i++) {
        const struct tb_pin_choice *c = &v->plan->choice[i];
        v->row[i] = (struct row){.choice = c, .observed = "", .where = ""};
        v->row[i].state = c->request == TB_PIN_UNBUILT ? "unbuilt"
                          : c->request == TB_PIN_LEAVE ? "unasked"
                                                       : "unseen";
    }
}

/* ---------------------------------------------------------------- output */

static unsigned count(const struct verify *v, const char *state)
{
    unsigned n = 0;

    for (size_t i = 0; i < v->plan->count; i++)
        n += strcmp(v->row[i].state, state) == 0;
    return n;
}

static int status_of(const struct verify *v)
{
    bool any = false, wrong = false;

    for (size_t i = 0; i < v->plan->count; i++) {
        any |= v->row[i].observed[0] != 0;
        wrong |= bad(v->row[i].state);
    }
    return wrong ? TB_EXIT_DIFFERS : any ? TB_EXIT_OK : TB_EXIT_UNKNOWN;
}

static const char *or_dash(const char *text)
{
    return *text ? text : "-";
}

static void print_text(const struct verify *v)
{
    static const char *const states[] = {"held",   "given",   "read",   "job",     "changed",
                                         "missed", "refused", "unseen", "unbuilt", "unasked"};
    const char *comma = "";

    printf("%-8s %-28s %-28s %-24s %s\n", "state", "pin", "requested", "observed", "why");
    for (size_t i = 0; i < v->plan->count; i++) {
        const struct row *r = &v->row[i];
        printf("%-8s %-28s %-28s %-*s%s%s\n", r->state, r->choice->pin->id,
               or_dash(requested(r->choice)), r->reason[0] ? 24 : 0, or_dash(r->observed),
               r->reason[0] ? " " : "", r->reason);
    }
    printf("%s:", tb_pin_profile_text(v->plan->profile)->name);
    for (size_t i = 0; i < TB_ARRAY_LEN(states); i++)
        if (count(v, states[i])) {
            printf("%s %u %s", comma, count(v, states[i]), states[i]);
            comma = ",";
        }
    putchar('\n');
}

static void member(const char *name, const char *text, const char *before)
{
    printf("%s\"%s\": ", before, name);
    if (*text && strcmp(text, "-") != 0)
        tb_json_string(stdout, text);
    else
        fputs("null", stdout);
}

static void print_json(const struct verify *v)
{
    fputs("{\"report\": \"twinbit-pins-verify\", \"version\": 1", stdout);
    member("profile", tb_pin_profile_text(v->plan->profile)->name, ", ");
    printf(", \"status\": %d, \"installed\": {", status_of(v));
    member("numpy", v->numpy, "");
    member("torch", v->torch, ", ");
    member("cuda", v->cuda, ", ");
    fputs("},\n \"pins\": [", stdout);
    for (size_t i = 0; i < v->plan->count; i++) {
        const struct row *r = &v->row[i];
        fputs(i ? ",\n  {" : "\n  {", stdout);
        member("pin", r->choice->pin->id, "");
        member("state", r->state, ", ");
        member("requested", requested(r->choice), ", ");
        member("observed", r->observed, ", ");
        member("why", r->reason, ", ");
        putchar('}');
    }
    puts("\n]}");
}

/* ---------------------------------------------------------------- command */

static enum tb_status verify(struct verify *v, enum tb_pin_profile profile, char *const *argv,
                             struct tb_error *err)
{
    char trace[4096];

    v->plan = tb_pin_plan_new();
    v->row = v->plan ? calloc(v->plan->count, sizeof(*v->row)) : NULL;
    if (!v->row)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the list of pins");
    enum tb_status st = tb_pin_plan_add(v->plan, tb_pin_profile_text(profile)->name, err);
    if (st == TB_OK)
        st = tb_pin_plan_finish(v->plan, 0, err);
    v->plan->decisions =
        true; /* as "run --pin" has it: what can only be seen is in the rows, too */
    if (st == TB_OK)
        st = tb_cli_scratch_make("pins", v->folder, sizeof(v->folder), err);
    if (st == TB_OK)
        st = record(v, argv, trace, err);
    if (st != TB_OK)
        return st;
    start_rows(v);
    st = read_rows(v, trace, err);
    for (size_t i = 0; st == TB_OK && i < v->plan->count; i++)
        explain(v, &v->row[i]);
    return st;
}

int tb_pins_verify(enum tb_pin_profile profile, bool json, char *const *argv)
{
    struct verify *v = calloc(1, sizeof(*v));
    struct tb_error err = {0};
    int status = TB_EXIT_ERROR;

    if (!v)
        return status;
    if (verify(v, profile, argv, &err) != TB_OK) {
        status = tb_cli_error("pins", &err);
    } else {
        if (json)
            print_json(v);
        else
            print_text(v);
        status = tb_cli_flush(status_of(v));
    }
    tb_cli_scratch_remove(v->folder);
    tb_pin_plan_free(v->plan);
    free(v->row);
    free(v->text);
    free(v);
    return status;
}
