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

/* " --steps A..B " around the root; the numbers of steps are those of the job */
static const char *steps_of(const struct root *r, char *out, size_t size)
{
    uint64_t to = r->r.step, from = to ? to - 1 : 0;

    out[0] = 0;
    if (to != UINT64_MAX)
        (void)snprintf(out, size, "--steps %" PRIu64 "..%" PRIu64, from, to);
    return out;
}

/* Traces of a report that came of such a command are not written over: "next", "next-2", ... */
static void free_name(const struct report_builder *rb, char *out, size_t size)
{
    const char *cwd = rb->a->files ? tb_trace_meta(rb->a->trace[0], "cwd") : NULL;
    char a[4200], b[4200];

    (void)snprintf(out, size, "next");
    for (unsigned n = 2; n < 1000; n++) {
        (void)snprintf(a, sizeof(a), "%.4100s/%s-a.twinbit", cwd ? cwd : ".", out);
        (void)snprintf(b, sizeof(b), "%.4100s/%s-b.twinbit", cwd ? cwd : ".", out);
        if (access(a, F_OK) != 0 && access(b, F_OK) != 0)
            return;
        (void)snprintf(out, size, "next-%u", n);
    }
}

static void one_of_two(const struct report_builder *rb, struct root *r, int side,
                       const char *program, const char *more, const char *name)
{
    char words[NEXT];

    add_setting(rb, r, side);
    add(r, "%s run %s--force %s%s%s-o %s-%c.twinbit -- %s; ", program, rb->rep->run[side].options,
        level_of(rb, r), more, more[0] ? " " : "", name, side ? 'b' : 'a', job(rb, side, words));
}

static bool same_settings(const struct report_builder *rb)
{
    const struct tb_diff_run_info *a = &rb->rep->run[0], *b = &rb->rep->run[1];

    return strcmp(a->command, b->command) == 0 && strcmp(a->options, b->options) == 0 &&
           strcmp(rb->setting[0], rb->setting[1]) == 0;
}

/* "--poison A,B ": the bytes the runs had; or ours where they read what nobody wrote, unless a pin
 * of theirs fills memory itself */
static bool by_poison(const struct report_builder *rb, const struct root *r, char *out, size_t size)
{
    uint8_t fill[2] = {0xa5, 0x5a};
    bool had = poisons(rb, NULL);

    if (had)
        (void)poisons(rb, fill);
    else if (r->r.cause != TB_CAUSE_UNINITIALISED ||
             strstr(rb->rep->run[0].options, "system.malloc_fill"))
        return false;
    (void)snprintf(out, size, "--poison 0x%02x,0x%02x ", fill[0], fill[1]);
    return true;
}

/* One command that records the job of run A several times and compares */
static void several_runs(const struct report_builder *rb, struct root *r, const char *times,
                         const char *more)
{
    char program[512], words[NEXT];

    add(r, "%s run %s%s%s%s%s-- %s", tb_program("twinbit", program, sizeof(program)), times,
        rb->rep->run[0].options, level_of(rb, r), more, more[0] ? " " : "", job(rb, 0, words));
}

static void two_runs(const struct report_builder *rb, struct root *r, const char *more)
{
    const char *folder = r->r.next[0] ? "{ " : "";
    char program[512], name[32];

    (void)tb_program("twinbit", program, sizeof(program));
    free_name(rb, name, sizeof(name));
    add(r, "%s", folder);
    one_of_two(rb, r, 0, program, more, name);
    one_of_two(rb, r, 1, program, more, name);
    add(r, "%s diff %s-a.twinbit %s-b.twinbit%s", program, name, name, folder[0] ? "; }" : "");
    if (rb->settings_cut)
        evidence(r, "next: too many variables of the environment differ for one command: it sets "
                    "some of them");
}

/* The comparison once more, recorded with @more: @times where the runs had one command line,
 * options and environment; else each with its own, and diff */
static void compare_again(const struct report_builder *rb, struct root *r, const char *times,
                          const char *more)
{
    char poison[40];
    bool same = same_settings(rb);

    change_folder(rb, r);
    if (by_poison(rb, r, poison, sizeof(poison))) {
        add_setting(rb, r, 0);
        several_runs(rb, r, poison, more);
        if (!same)
            evidence(r, "next: run A's command is enough: --poison runs it three times and "
                        "compares it with itself");
    } else if (same) {
        several_runs(rb, r, times, more);
    } else {
        two_runs(rb, r, more);
    }
}

static void pair_of_runs(const struct report_builder *rb, struct root *r, const char *more)
{
    compare_again(rb, r, "-n 2 ", more);
}

/* Were both runs recorded within @steps, "--steps A..B"? */
static bool had_steps(const struct report_builder *rb, const char *steps)
{
    const struct run *const run[2] = {rb->a, rb->b};

    for (int side = 0; side < 2; side++) {
        const char *had = run[side]->files ? tb_trace_meta(run[side]->trace[0], "steps") : NULL;
        if (!had || strcmp(steps + strcspn(steps, " ") + (steps[0] != 0), had) != 0)
            return false;
    }
    return true;
}

/* bisect knows one command and no pins: of other runs, every operator around that step */
static void bisect(const struct report_builder *rb, struct root *r)
{
    const char *options = rb->rep->run[0].options;
    char program[512], words[NEXT], steps[64];

    if (!same_settings(rb) || poisons(rb, NULL) || strstr(options, "--pin ")) {
        if (!had_steps(rb, steps_of(r, steps, sizeof(steps))))
            pair_of_runs(rb, r, steps);
        else if (!recorded_inputs(rb))
            pair_of_runs(rb, r, "--inputs");
        return;
    }
    change_folder(rb, r);
    add(r, "%s bisect %s-- %s", tb_program("twinbit", program, sizeof(program)), options,
        job(rb, 0, words));
}

/* " --snapshot NAME" */
static void ask_snapshot(const struct tb_event_name *n, char *out, size_t size)
{
    char name[TB_EVENT_NAME_TEXT], word[4 * TB_EVENT_NAME_TEXT];

    tb_event_name_short(n, name, sizeof(name));
    (void)snprintf(out, size, " --snapshot %s", tb_shell_word(name, word, sizeof(word)));
}

static const struct tb_diff_place *place_of(const struct root *r)
{
    return r->r.a.name_known ? &r->r.a : &r->r.b;
}

static bool asked_for(const struct report_builder *rb, const struct tb_diff_place *p)
{
    char name[TB_EVENT_NAME_TEXT];

    return asked_before(rb, tb_event_name_short(&p->name, name, sizeof(name)));
}

/* Can the bytes of the root's event be had, and were they not asked for yet? */
static bool can_ask(const struct report_builder *rb, const struct root *r)
{
    const struct tb_diff_place *p = place_of(r);

    return p->name_known && !is_node(r) && !asked_for(rb, p);
}

/* Memory that nobody wrote: what is there is filled in anew each time */
static bool fills(const struct report_builder *rb, const struct root *r)
{
    char poison[40];

    return by_poison(rb, r, poison, sizeof(poison));
}

/* @first: options before those that ask for the bytes. Nothing if both runs had all of it */
static void ask(const struct report_builder *rb, struct root *r, const char *first)
{
    const struct tb_diff_place *w = r->r.writer_a.name_known ? &r->r.writer_a : &r->r.writer_b;
    bool ask_writer = r->r.cause == TB_CAUSE_UNSEEN_WRITER && w->name_known;
    char options[NEXT], of[NEXT] = "", writer[NEXT] = "", steps[64];

    if (asked_for(rb, place_of(r)) && (!ask_writer || asked_for(rb, w)) && !fills(rb, r))
        return;
    ask_snapshot(&place_of(r)->name, of, sizeof(of));
    if (ask_writer)
        ask_snapshot(&w->name, writer, sizeof(writer));
    (void)snprintf(options, sizeof(options), "%s%s%s%s", first, steps_of(r, steps, sizeof(steps)),
                   of, writer);
    pair_of_runs(rb, r, options);
}

/* All that can be seen was: does it come again? Not -n 3 with the bytes, which it would lack; and
 * two runs that differ in what they were started with would tell the same for ever */
static void repeat(const struct report_builder *rb, struct root *r)
{
    bool same = same_settings(rb);
    bool bytes = r->r.elements_known && !is_node(r) && place_of(r)->name_known;

    if ((!same || r->r.cause == TB_CAUSE_UNINITIALISED) && bytes)
        ask(rb, r, "--inputs ");
    else if (same || !recorded_inputs(rb) || fills(rb, r))
        compare_again(rb, r, "-n 3 ", "--inputs");
}

static void with_snapshots(const struct report_builder *rb, struct root *r)
{
    if (can_ask(rb, r))
        ask(rb, r, "--inputs ");
    else if (!recorded_inputs(rb) || r->r.cause == TB_CAUSE_UNINITIALISED)
        pair_of_runs(rb, r, "--inputs");
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
    if (!same_settings(rb))
        evidence(r, "next: run %c's command is enough: the race is in it, whatever the other does",
                 r->r.race.in_b ? 'B' : 'A');
}

/* What the host did otherwise: the lines of its Python code, or what it got from the device */
static void look_at_host(const struct report_builder *rb, struct root *r)
{
    bool stack = !r->r.stack[0] && is_python(rb);
    char options[128], steps[64];

    if (r->r.cause == TB_CAUSE_HOST_VALUE && !r->r.elements_known && can_ask(rb, r)) {
        ask(rb, r, stack ? "--inputs --stack " : "--inputs "); /* a value shows in bytes */
    } else if (stack) {
        (void)snprintf(options, sizeof(options), "--stack %s", steps_of(r, steps, sizeof(steps)));
        pair_of_runs(rb, r, options);
    } else if (!recorded_inputs(rb)) {
        pair_of_runs(rb, r, "--inputs");
    } else {
        repeat(rb, r);
    }
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
    else if (r->r.elements_known || r->r.cause == TB_CAUSE_UNINITIALISED)
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
