#include "cli/show.h"

#include <inttypes.h>
#include <string.h>

struct show {
    struct tb_cli_steps step;
    const char *op, *module, *thread;
    uint64_t limit;
    bool json;
};

#define AT(member) offsetof(struct show, member)

static const struct tb_cli_option options[] = {
    {"--step", NULL, TB_CLI_STEPS, AT(step), "N", "only this step, or A..B"},
    {"--op", NULL, TB_CLI_STRING, AT(op), "NAME", "only this operator: aten::add.Tensor, or add"},
    {"--module", NULL, TB_CLI_STRING, AT(module), "PATH", "only this module and what lies in it"},
    {"--thread", NULL, TB_CLI_STRING, AT(thread), "ROLE",
     "only this thread: main, autograd#0, ..."},
    {"--limit", NULL, TB_CLI_NUMBER, AT(limit), "N", "at most N rows"},
    {"--json", NULL, TB_CLI_FLAG, AT(json), NULL, "one JSON document, see docs/cli.md"},
};

static const struct tb_cli_command command = {
    .name = "show",
    .synopsis = "[options] TRACE [VIEW]",
    .about = "Looks into a trace. Views:\n"
             "  summary    what was recorded (this is the default)\n"
             "  events     a line an event: number, fingerprint of what it wrote, name\n"
             "  steps      a line a step: events and digest\n"
             "  tensors    a line an access: what was read and written, shape, fingerprint\n"
             "  coverage   what could not be seen\n"
             "  env        versions, machine, environment of the job\n"
             "  pins       what was asked for of each pin, and what became of it\n"
             "  processes  processes and threads\n"
             "  sites      the kinds of work in it, with layouts\n",
    .options = options,
    .option_count = TB_ARRAY_LEN(options),
    .notes = "--step, --op, --module and --thread choose among events and tensors; --step among "
             "steps too.\n"
             "A trace is an SQLite file: docs/ lists questions that sqlite3 answers by itself.\n",
};

static const struct view {
    const char *name;
    enum tb_status (*fn)(struct tb_show *s, struct tb_error *err);
    bool step, event; /* takes --step; takes the other filters */
} views[] = {
    {"summary", tb_show_summary, false, false},   {"events", tb_show_events, true, true},
    {"steps", tb_show_steps, true, false},        {"tensors", tb_show_tensors, true, true},
    {"coverage", tb_show_coverage, false, false}, {"env", tb_show_env, false, false},
    {"pins", tb_show_pins, false, false},         {"processes", tb_show_processes, false, false},
    {"sites", tb_show_sites, false, false},
};

static const struct view *find_view(const char *name)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(views); i++)
        if (strcmp(views[i].name, name) == 0)
            return &views[i];
    return NULL;
}

bool tb_show_row(struct tb_show *s)
{
    if (s->limit > 0 && s->rows == s->limit)
        return false;
    if (s->json)
        fputs(s->rows ? ",\n  " : "\n  ", stdout);
    s->rows++;
    return true;
}

void tb_show_field(const char *key, const char *text, bool first)
{
    printf("%s\"%s\": ", first ? "" : ", ", key);
    if (text)
        tb_json_string(stdout, text);
    else
        fputs("null", stdout);
}

void tb_show_number(const char *key, int64_t n)
{
    printf(", \"%s\": %" PRId64, key, n);
}

const char *tb_show_hex(const uint8_t bytes[16], char out[33])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 16; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[32] = '\0';
    return out;
}

bool tb_show_matches_op(const char *name, const char *wanted)
{
    const char *bare = strstr(name, "::");
    size_t len = strlen(wanted);

    for (const char *from = name; from; from = from == name && bare ? bare + 2 : NULL)
        if (strncmp(from, wanted, len) == 0 && (from[len] == '\0' || from[len] == '.'))
            return true;
    return false;
}

bool tb_show_matches_module(const char *path, const char *wanted)
{
    size_t len = strlen(wanted);
    return strncmp(path, wanted, len) == 0 && (path[len] == '\0' || path[len] == '.');
}

static enum tb_status show(struct tb_show *s, const struct view *view, const char *path,
                           struct tb_error *err)
{
    if (s->json) {
        fputs("{", stdout);
        tb_show_field("trace", path, true);
        tb_show_field("view", view->name, false);
        fputs(", \"rows\": [", stdout);
    }
    enum tb_status st = view->fn(s, err);
    if (s->json)
        printf("%s]}\n", s->rows ? "\n" : "");
    return st;
}

/* The view that is asked for; NULL after a line on stderr */
static const struct view *choose(const struct show *o, const struct tb_cli_rest *rest)
{
    const struct view *view = rest->count > 1 ? find_view(rest->item[1]) : &views[0];

    if (rest->count < 1)
        (void)tb_cli_usage(&command, "no trace named");
    else if (rest->count > 2)
        (void)tb_cli_usage(&command, "unexpected argument '%s'", rest->item[2]);
    else if (!view)
        (void)tb_cli_usage(&command, "unknown view '%s'", rest->item[1]);
    else if (o->step.given && !view->step)
        (void)tb_cli_usage(&command, "'%s' does not take --step", view->name);
    else if ((o->op || o->module || o->thread) && !view->event)
        (void)tb_cli_usage(&command, "'%s' does not take --op, --module or --thread", view->name);
    else
        return view;
    return NULL;
}

int tb_cmd_show(int argc, char **argv)
{
    struct show o = {.limit = 0};
    struct tb_error err = {0};
    struct tb_trace *trace = NULL;
    struct tb_cli_rest rest;
    int status;

    if (!tb_cli_parse(&command, argc, argv, &o, &rest, &status))
        return status;
    const struct view *view = choose(&o, &rest);
    if (!view)
        return TB_EXIT_ERROR;
    if (tb_trace_open(&trace, rest.item[0], &err) != TB_OK)
        return tb_cli_error("show", &err);
    const struct tb_trace_info *info = tb_trace_info(trace);
    if (info->warning)
        tb_log("show: %s", info->warning);
    struct tb_show s = {.trace = trace,
                        .step = o.step,
                        .op = o.op,
                        .module = o.module,
                        .thread = o.thread,
                        .limit = o.limit,
                        .json = o.json};
    status = TB_EXIT_OK;
    if (show(&s, view, rest.item[0], &err) != TB_OK)
        status = tb_cli_error("show", &err);
    tb_trace_close(trace);
    return tb_cli_flush(status);
}
