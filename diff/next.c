/* The command that tells most about a root. */
#include "diff/diff_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define NEXT sizeof(((struct tb_diff_root *)0)->next)

static void add(struct root *r, const char *fmt, ...) TB_PRINTF(2, 3);

static void add(struct root *r, const char *fmt, ...)
{
    size_t n = strlen(r->r.next);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(r->r.next + n, sizeof(r->r.next) - n, fmt, ap);
    va_end(ap);
}

/* Kernels inside of operators are seen at that level only */
static const char *level_of(const struct report_builder *rb, const struct root *r)
{
    const char *level = rb->a->files ? tb_trace_meta(rb->a->trace[0], "level") : NULL;

    return is_device(r->kind) && level && strcmp(level, "kernel") == 0 ? "--level kernel " : "";
}

static bool recorded_inputs(const struct report_builder *rb)
{
    const char *inputs = rb->a->files ? tb_trace_meta(rb->a->trace[0], "inputs") : NULL;

    return inputs && strcmp(inputs, "yes") == 0;
}

/* What snapshots keep are bytes of launches, not of the nodes of graphs */
static bool is_node(const struct root *r)
{
    size_t n = 0;

    return (r->site_a && tb_site_value(r->site_a, "graph", &n)) ||
           (r->site_b && tb_site_value(r->site_b, "graph", &n));
}

/* Both runs asked for the bytes of @name already: once more they would not come either */
static bool asked_before(const struct report_builder *rb, const char *name)
{
    const struct run *const run[2] = {rb->a, rb->b};

    for (int side = 0; side < 2; side++) {
        const char *had = run[side]->files ? tb_trace_meta(run[side]->trace[0], "snapshots") : NULL;
        const char *at = had ? strstr(had, name) : NULL;
        size_t n = strlen(name);
        while (at && ((at != had && at[-1] != '\n') || (at[n] && at[n] != '\n')))
            at = strstr(at + 1, name);
        if (!at)
            return false;
    }
    return true;
}

/* The recorder knows lines of Python only */
static bool is_python(const struct report_builder *rb)
{
    for (size_t i = 0; i < rb->a->procs; i++)
        if (strstr(rb->a->proc[i].p->argv, "python") || strstr(rb->a->proc[i].p->argv, ".py"))
            return true;
    return false;
}

/* The job ran in another folder */
static void change_folder(const struct report_builder *rb, struct root *r)
{
    const char *cwd = rb->a->files ? tb_trace_meta(rb->a->trace[0], "cwd") : NULL;
    char here[4096], word[4096];

    if (cwd && getcwd(here, sizeof(here)) && strcmp(here, cwd) != 0)
        add(r, "cd %s && ", tb_shell_word(cwd, word, sizeof(word)));
}

/* Variables that the run had otherwise than its mate */
static void add_setting(const struct report_builder *rb, struct root *r, int side)
{
    add(r, "%s%s", rb->setting[side][0] == '-' ? "env " : "", rb->setting[side]);
}

/* The job of a run. All of it are words: a trace may come from anywhere */
static const char *job(const struct report_builder *rb, int side, char out[NEXT])
{
    const char *command = rb->rep->run[side].command;
    bool whole = strlen(command) + 1 < sizeof(rb->rep->run[side].command);

    if (!whole || !tb_shell_again(command, out, NEXT))
        (void)snprintf(out, NEXT, "%*s", (int)NEXT - 1, ""); /* too long: see next_command() */
    return out;
}

static void one_of_two(const struct report_builder *rb, struct root *r, int side,
                       const char *program, const char *more)
{
    char words[NEXT];

    add_setting(rb, r, side);
    add(r, "%s run %s--force %s%s -o next-%c.twinbit -- %s; ", program, rb->rep->run[side].options,
        level_of(rb, r), more, side ? 'b' : 'a', job(rb, side, words));
}

static bool same_settings(const struct report_builder *rb)
{
    const struct tb_diff_run_info *a = &rb->rep->run[0], *b = &rb->rep->run[1];

    return strcmp(a->command, b->command) == 0 && strcmp(a->options, b->options) == 0 &&
           strcmp(rb->setting[0], rb->setting[1]) == 0;
}

/* Bytes of --poison, where the runs had one each */
static const char *how_often(const struct report_builder *rb, char *out, size_t size)
{
    uint8_t fill[2];

    if (poisons(rb, fill))
        (void)snprintf(out, size, "--poison 0x%02x,0x%02x ", fill[0], fill[1]);
    else
        (void)snprintf(out, size, "-n 2 ");
    return out;
}

/* The same job recorded twice more with @more and compared; two commands where they differ */
static void pair_of_runs(const struct report_builder *rb, struct root *r, const char *more)
{
    char program[512], words[NEXT];

    (void)tb_program("twinbit", program, sizeof(program));
    change_folder(rb, r);
    if (same_settings(rb)) {
        char times[40];
        add(r, "%s run %s%s%s%s -- %s", program, how_often(rb, times, sizeof(times)),
            rb->rep->run[0].options, level_of(rb, r), more, job(rb, 0, words));
        return;
    }
    const char *folder = r->r.next[0] ? "{ " : "";
    add(r, "%s", folder);
    one_of_two(rb, r, 0, program, more);
    one_of_two(rb, r, 1, program, more);
    add(r, "%s diff next-a.twinbit next-b.twinbit%s", program, folder[0] ? "; }" : "");
}

/* Run A again and again, with its own variables: does it come without what the runs differ in? */
static void repeat(const struct report_builder *rb, struct root *r)
{
    char program[512], words[NEXT];

    change_folder(rb, r);
    add_setting(rb, r, 0);
    add(r, "%s run -n 3 %s%s--inputs -- %s", tb_program("twinbit", program, sizeof(program)),
        rb->rep->run[0].options, level_of(rb, r), job(rb, 0, words));
}

static void bisect(const struct report_builder *rb, struct root *r)
{
    char program[512], words[NEXT];

    change_folder(rb, r);
    add(r, "%s bisect %s-- %s", tb_program("twinbit", program, sizeof(program)),
        rb->rep->run[0].options, job(rb, 0, words));
}

/* " --snapshot NAME" */
static void ask_snapshot(const struct tb_event_name *n, char *out, size_t size)
{
    char name[TB_EVENT_NAME_TEXT], word[4 * TB_EVENT_NAME_TEXT];

    tb_event_name_short(n, name, sizeof(name));
    (void)snprintf(out, size, " --snapshot %s", tb_shell_word(name, word, sizeof(word)));
}

static void with_snapshots(const struct report_builder *rb, struct root *r)
{
    const struct tb_diff_place *p = r->r.a.name_known ? &r->r.a : &r->r.b;
    const struct tb_diff_place *w = r->r.writer_a.name_known ? &r->r.writer_a : &r->r.writer_b;
    char options[NEXT], name[TB_EVENT_NAME_TEXT], of[NEXT] = "", writer[NEXT] = "";

    if (is_node(r) || asked_before(rb, tb_event_name_short(&p->name, name, sizeof(name)))) {
        if (!recorded_inputs(rb))
            pair_of_runs(rb, r, "--inputs");
        return;
    }
    ask_snapshot(&p->name, of, sizeof(of));
    if (r->r.cause == TB_CAUSE_UNSEEN_WRITER && w->name_known)
        ask_snapshot(&w->name, writer, sizeof(writer));
    uint64_t to = p->name.step, from = to ? to - 1 : 0;
    (void)snprintf(options, sizeof(options), "--inputs --steps %" PRIu64 "..%" PRIu64 "%s%s", from,
                   to, of, writer);
    pair_of_runs(rb, r, options);
}

/* The software device says itself what is not ordered; on a GPU runs are alike once each launch is
 * waited for */
static void prove_race(const struct report_builder *rb, struct root *r)
{
    const struct tb_diff_run_info *run = &rb->rep->run[r->r.race.in_b];
    bool software = strstr(run->options, "--device softgpu ") != NULL;
    char program[512], words[NEXT];

    change_folder(rb, r);
    add_setting(rb, r, r->r.race.in_b);
    job(rb, r->r.race.in_b, words);
    if (software)
        add(r, "%s run --strict report -- %s", tb_program("softgpu", program, sizeof(program)),
            words);
    else
        add(r, "CUDA_LAUNCH_BLOCKING=1 %s run -n 3 %s%s-- %s",
            tb_program("twinbit", program, sizeof(program)), run->options, level_of(rb, r), words);
}

/* What the host did otherwise: the lines of its Python code, or what it got from the device */
static void look_at_host(const struct report_builder *rb, struct root *r)
{
    uint64_t from = r->r.step ? r->r.step - 1 : 0;
    char options[128];

    if (!r->r.stack[0] && is_python(rb))
        (void)snprintf(options, sizeof(options), "--stack --steps %" PRIu64 "..%" PRIu64, from,
                       r->r.step);
    else if (!recorded_inputs(rb))
        (void)snprintf(options, sizeof(options), "--inputs");
    else {
        repeat(rb, r);
        return;
    }
    pair_of_runs(rb, r, options);
}

static void propose(const struct report_builder *rb, struct root *r)
{
    bool named = r->r.a.name_known || r->r.b.name_known;

    if (r->r.torn && r->r.race.known) {
        prove_race(rb, r);
        return;
    }
    switch (r->r.cause) {
    case TB_CAUSE_STATE:
        bisect(rb, r);
        return;
    case TB_CAUSE_CONTROL_FLOW:
    case TB_CAUSE_ORDER:
    case TB_CAUSE_HOST_VALUE:
    case TB_CAUSE_RNG:
        look_at_host(rb, r);
        return;
    case TB_CAUSE_STREAM_RACE:
        prove_race(rb, r);
        return;
    default:
        break;
    }
    if (r->r.tensor.known && !r->r.elements_known && named)
        with_snapshots(rb, r);
    else if (r->r.elements_known)
        repeat(rb, r);
    else
        bisect(rb, r);
}

void next_command(const struct report_builder *rb, struct root *r)
{
    propose(rb, r);
    if (strlen(r->r.next) + 1 >= sizeof(r->r.next)) /* the begin of a command is none */
        r->r.next[0] = '\0';
}
