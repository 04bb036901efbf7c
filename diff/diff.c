#include "diff/diff_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROOTS_SHOWN 32u

static const struct {
    const char *id, *text;
} causes[TB_CAUSE_COUNT] = {
    [TB_CAUSE_UNEXPLAINED] = {"unexplained", "unexplained"},
    [TB_CAUSE_INPUT_DATA] = {"input_data", "input data"},
    [TB_CAUSE_HOST_VALUE] = {"host_value", "host value"},
    [TB_CAUSE_RNG] = {"rng", "RNG"},
    [TB_CAUSE_CONTROL_FLOW] = {"control_flow", "control flow, or another program"},
    [TB_CAUSE_ORDER] = {"order", "control flow: order of operands"},
    [TB_CAUSE_ALGORITHM] = {"algorithm", "algorithm choice"},
    [TB_CAUSE_ACCUMULATION] = {"accumulation_order", "accumulation order"},
    [TB_CAUSE_UNINITIALISED] = {"uninitialised_memory", "uninitialised memory"},
    [TB_CAUSE_STREAM_RACE] = {"stream_race", "stream race"},
    [TB_CAUSE_COLLECTIVE] = {"collective", "collective"},
    [TB_CAUSE_ENVIRONMENT] = {"environment", "environment"},
    [TB_CAUSE_UNSEEN_WRITER] = {"unseen_writer", "unseen writer"},
    [TB_CAUSE_HARDWARE] = {"hardware_suspect", "hardware suspect or memory overwritten"},
    [TB_CAUSE_STATE] = {"state", "state at a step's end (what wrote it was not recorded)"},
};

const char *tb_diff_cause_text(enum tb_diff_cause cause)
{
    return (unsigned)cause < TB_CAUSE_COUNT ? causes[cause].text : "?";
}

const char *tb_diff_cause_id(enum tb_diff_cause cause)
{
    return (unsigned)cause < TB_CAUSE_COUNT ? causes[cause].id : "?";
}

/* ---------------------------------------------------------------- the runs */

static void describe_run(struct report_builder *rb, int side)
{
    const struct run *r = side ? rb->b : rb->a;
    struct tb_diff_run_info *o = &rb->rep->run[side];

    (void)snprintf(o->path, sizeof(o->path), "%s", r->path);
    o->files = (uint32_t)r->files;
    o->processes = (uint32_t)r->procs;
    o->complete = true;
    if (r->procs)
        (void)snprintf(o->command, sizeof(o->command), "%s", r->proc[0].p->argv);
    for (size_t i = 0; i < r->files; i++) {
        const struct tb_trace_info *info = tb_trace_info(r->trace[i]);
        uint64_t lost = 0;
        const char *why = NULL;
        o->events += info->events;
        o->threads += info->threads;
        o->complete = o->complete && info->complete;
        if (tb_trace_lost(r->trace[i], &lost, &why)) {
            o->lost += lost;
            note_incomplete(rb, "%" PRIu64 " record%s of run %c %s lost: %.150s", lost,
                            plural(lost), side ? 'B' : 'A', were(lost),
                            why ? why : "reason not recorded");
        }
        if (!info->complete)
            note_incomplete(rb, "the recording of run %c did not end in order%s%.150s",
                            side ? 'B' : 'A', info->warning ? ": " : "",
                            info->warning ? info->warning : "");
    }
    const char *argv = r->files ? tb_trace_meta(r->trace[0], "argv") : NULL;
    if (argv)
        (void)snprintf(o->command, sizeof(o->command), "%s", argv);
    if (r->files)
        run_options(r->trace[0], o->options, sizeof(o->options));
}

static enum tb_status note_processes(struct report_builder *rb)
{
    struct tb_diff_report *rep = rb->rep;
    const struct run *run[2] = {rb->a, rb->b};
    enum tb_status st = TB_OK;

    for (int side = 0; side < 2; side++)
        for (size_t i = 0; st == TB_OK && i < run[side]->procs; i++) {
            const struct run_process *p = &run[side]->proc[i];
            if (p->mate < 0) {
                note_incomplete(rb, "process '%.100s' is in run %c only", p->label,
                                side ? 'B' : 'A');
                st =
                    add_line(&rep->notes, &rep->note_count, 1, "process '%.300s' is in run %c only",
                             p->p->identity, side ? 'B' : 'A');
            }
        }
    return st;
}

static enum tb_status note_cost(struct report_builder *rb)
{
    struct tb_diff_report *rep = rb->rep;
    enum tb_status st = TB_OK;

    for (int side = 0; st == TB_OK && side < 2; side++) {
        struct run *r = side ? rb->b : rb->a;
        const char *wall = r->files ? tb_trace_meta(r->trace[0], "wall_s") : NULL;
        const char *cpu = r->files ? tb_trace_meta(r->trace[0], "collector_cpu_s") : NULL;
        if (wall && cpu)
            st = add_line(&rep->cost, &rep->cost_count, 0,
                          "run %c: %s s wall, of which the collector used %s s of CPU",
                          side ? 'B' : 'A', wall, cpu);
    }
    return st;
}

static enum tb_status verify(struct run *r, struct tb_error *err)
{
    enum tb_status st = TB_OK;

    for (size_t i = 0; st == TB_OK && i < r->files; i++)
        st = tb_trace_verify(r->trace[i], err);
    return st;
}

static bool has_fingerprints(struct run *r)
{
    const struct tb_site *s;

    for (size_t f = 0; f < r->files; f++)
        for (uint32_t id = 1; (s = tb_trace_site(r->trace[f], id)); id++)
            for (uint32_t i = 0; i < s->access_count; i++)
                if (strchr("whsg", s->access[i].mode))
                    return true;
    return false;
}

bool run_has_launches(const struct run *r)
{
    const struct tb_site *s;

    for (size_t f = 0; f < r->files; f++)
        for (uint32_t id = 1; (s = tb_trace_site(r->trace[f], id)); id++)
            if (site_launches(s))
                return true;
    return false;
}

/* ---------------------------------------------------------------- processes */

static enum tb_status keep_roots(struct all_roots *all, size_t process, struct blame_result *res)
{
    struct root *p = realloc(all->r, (all->n + res->root_count + 1) * sizeof(*p));

    if (!p)
        return TB_ERR_NOMEM;
    all->r = p;
    all->of[process] = (struct found){.colls = res->colls,
                                      .coll_count = res->coll_count,
                                      .root_base = all->n,
                                      .root_count = res->root_count};
    res->colls = NULL;
    for (size_t i = 0; i < res->root_count; i++) {
        p[all->n] = res->roots[i];
        p[all->n].process = process;
        p[all->n].r.settled = p[all->n].r.torn && res->settled;
        all->n++;
    }
    return TB_OK;
}

static void add_counts(struct report_builder *rb, size_t process, const struct blame_result *res)
{
    struct tb_diff_report *rep = rb->rep;

    rep->roots_more += res->roots_more;
    rep->compared += res->compared;
    rep->equal += res->equal;
    rep->infected += res->infected;
    rep->healed += res->healed;
    rep->moved += res->moved;
    rep->only_a += res->only_a;
    rep->only_b += res->only_b;
    rep->args_only += res->args_only;
    rep->setup += res->setup;
    rep->gap += res->gap;
    rep->states_infected += res->states_infected;
    rep->orders += res->orders;
    rep->unhashed += res->unhashed;
    rep->unproven += res->unproven;
    rep->cut += res->cut;
    rep->cut_open += res->settled ? 0 : res->cut;
    if (!res->host.known || (rep->host.known && rep->host.step <= res->host.step))
        return;
    rep->host = res->host;
    rep->host.a.trace = rb->a->proc[process].file;
}

static enum tb_status compare_processes(struct report_builder *rb, struct all_roots *all,
                                        struct tb_error *err)
{
    enum tb_status st = TB_OK;

    all->of = calloc(rb->a->procs ? rb->a->procs : 1, sizeof(*all->of));
    if (!all->of)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for %zu processes", rb->a->procs);
    for (size_t i = 0; st == TB_OK && i < rb->a->procs; i++) {
        if (rb->a->proc[i].mate < 0)
            continue;
        struct blame *b = blame_new();
        if (!b)
            return tb_fail(err, TB_ERR_NOMEM, "no memory to compare processes");
        st = compare_process(rb, i, b, err);
        if (st == TB_OK) {
            add_counts(rb, i, blame_result(b));
            st = keep_roots(all, i, blame_result(b));
        }
        blame_free(b);
    }
    return st;
}

/* ---------------------------------------------------------------- verdict */

static enum tb_status note_trimmed(struct report_builder *rb)
{
    struct tb_diff_report *rep = rb->rep;
    enum tb_status st = TB_OK;

    for (int side = 0; side < 2; side++) {
        const struct run *r = side ? rb->b : rb->a;
        for (size_t i = 0; st == TB_OK && i < r->files; i++) {
            const char *n = tb_trace_meta(r->trace[i], "trimmed");
            if (n)
                st = add_line(&rep->notes, &rep->note_count, 0,
                              "the detail of the oldest %.20s events of run %c was deleted "
                              "(--max-size): of them only digests are compared",
                              n, side ? 'B' : 'A');
        }
    }
    return st;
}

static enum tb_status note_rest(struct report_builder *rb)
{
    struct tb_diff_report *rep = rb->rep;
    enum tb_status st = note_trimmed(rb);

    if (st == TB_OK && rep->moved)
        st = add_line(&rep->notes, &rep->note_count, 0,
                      "%" PRIu64 " operator%s ran in another order, each with equal results",
                      rep->moved, plural(rep->moved));
    if (st == TB_OK && rep->args_only)
        st = add_line(&rep->notes, &rep->note_count, 0,
                      "%" PRIu64 " operator%s got other arguments, with equal results",
                      rep->args_only, plural(rep->args_only));
    if (st == TB_OK && rep->orders)
        st = add_line(&rep->notes, &rep->note_count, 0,
                      "%" PRIu64 " synchronisation%s or waits %s in one run only: by itself no "
                      "divergence",
                      rep->orders, plural(rep->orders), are(rep->orders));
    if (st == TB_OK && rep->unhashed)
        st = add_line(&rep->notes, &rep->note_count, 1,
                      "%" PRIu64 " output%s %s a fingerprint in one run only, or of some of their "
                      "bytes: not compared",
                      rep->unhashed, plural(rep->unhashed), rep->unhashed == 1 ? "has" : "have");
    if (st == TB_OK && rep->cut)
        st =
            add_line(&rep->notes, &rep->note_count, 1,
                     "%" PRIu64 " fingerprint%s of more bytes in one run than in the other, for "
                     "threads use parts of one allocation: not compared%s",
                     rep->cut, rep->cut == 1 ? " is" : "s are",
                     rep->cut_open ? "" : "; those that were taken of these bytes later are equal");
    if (st == TB_OK && rep->unproven)
        st = add_line(&rep->notes, &rep->note_count, 1,
                      "%" PRIu64 " output%s %s written in one run, where the other had learnt that "
                      "nothing is and did not look (learnt, unproven): not compared",
                      rep->unproven, plural(rep->unproven), were(rep->unproven));
    if (st == TB_OK && rep->setup)
        st = add_line(&rep->notes, &rep->note_count, 0,
                      "%" PRIu64 " event%s %s outside what both runs recorded", rep->setup,
                      plural(rep->setup), are(rep->setup));
    return st;
}

/*
 * A fingerprint takes all that a pointer may be for. Where another stream may write there at the
 * same time, a difference that leads to no other may be nothing but the moment at which it was
 * taken.
 */
static bool all_may_be_torn(const struct tb_diff_report *rep)
{
    for (size_t i = 0; i < rep->root_count; i++)
        if (!rep->roots[i].torn)
            return false;
    return rep->root_count > 0 && rep->roots_more == 0;
}

static bool all_settled(const struct tb_diff_report *rep)
{
    for (size_t i = 0; i < rep->root_count; i++)
        if (!rep->roots[i].settled)
            return false;
    return all_may_be_torn(rep);
}

/* What may be torn and was hashed again, equally, behind all that could tear it: no divergence */
static enum tb_status drop_settled(struct tb_diff_report *rep)
{
    uint64_t n = 0;

    if (!all_settled(rep))
        return TB_OK;
    for (size_t i = 0; i < rep->root_count; i++)
        n += rep->roots[i].count;
    enum tb_status st = add_line(
        &rep->notes, &rep->note_count, 1,
        "%" PRIu64 " fingerprint%s differ%s, taken while another stream or node of its "
        "graph may have written there; those that were taken behind both are equal (first: %.120s)",
        n, plural(n), n == 1 ? "s" : "", rep->roots[0].summary);
    free(rep->roots);
    rep->roots = NULL;
    rep->root_count = 0;
    return st;
}

static const char *nothing_recorded(const struct report_builder *rb)
{
    const char *level = rb->a->files ? tb_trace_meta(rb->a->trace[0], "level") : NULL;

    return level && strcmp(level, "boundary") == 0
               ? "nothing was recorded that can be compared: call twinbit_step() of twinbit.h "
                 "(twinbit.step() in Python) at the end of each step, or record at level op"
               : "nothing was recorded that can be compared";
}

static void set_verdict(struct report_builder *rb)
{
    struct tb_diff_report *rep = rb->rep;
    uint64_t n = rep->compared + rep->skipped;

    if (all_may_be_torn(rep)) {
        rep->verdict = TB_DIFF_UNKNOWN;
        (void)snprintf(rep->reason, sizeof(rep->reason),
                       "%.100s differs, and nothing after it: it may hold what another %s wrote "
                       "meanwhile, in a part that twinbit cannot tell from its own",
                       rep->roots[0].summary,
                       rep->roots[0].of_node ? "node of its graph" : "stream");
    } else if (rep->root_count && !rb->ways.graphs) {
        rep->verdict = TB_DIFF_DIVERGED;
        (void)snprintf(rep->reason, sizeof(rep->reason), "%zu root%s, first: %.200s",
                       rep->root_count + (size_t)rep->roots_more,
                       rep->root_count + rep->roots_more == 1 ? "" : "s", rep->roots[0].summary);
    } else if (rb->incomplete) {
        rep->verdict = TB_DIFF_UNKNOWN;
        (void)snprintf(rep->reason, sizeof(rep->reason), "%s", rb->incomplete_why);
    } else if (n == 0 || !has_fingerprints(rb->a)) {
        rep->verdict = TB_DIFF_UNKNOWN;
        (void)snprintf(rep->reason, sizeof(rep->reason), "%s", nothing_recorded(rb));
    } else {
        rep->verdict = TB_DIFF_IDENTICAL;
        (void)snprintf(rep->reason, sizeof(rep->reason),
                       "%" PRIu64 " event%s %s equal, nothing was lost", n, plural(n), are(n));
    }
}

static enum tb_status compare_runs(struct report_builder *rb, const struct tb_diff_options *o,
                                   struct all_roots *all, struct tb_error *err)
{
    unsigned max = o && o->max_roots ? o->max_roots : ROOTS_SHOWN;
    enum tb_status st = run_match(rb->a, rb->b, err);

    if (st != TB_OK)
        return st;
    describe_run(rb, 0);
    describe_run(rb, 1);
    if ((st = note_ways(rb, err)) != TB_OK)
        return st;
    if (o && o->verify &&
        ((st = verify(rb->a, err)) != TB_OK || (st = verify(rb->b, err)) != TB_OK))
        return st;
    if ((st = note_processes(rb)) != TB_OK || (st = compare_environment(rb)) != TB_OK ||
        (st = compare_coverage(rb, err)) != TB_OK ||
        (st = compare_processes(rb, all, err)) != TB_OK)
        return st;
    if (rb->rep->gap)
        note_incomplete(rb, "%" PRIu64 " event%s %s missing in a run whose recording had a gap",
                        rb->rep->gap, plural(rb->rep->gap), are(rb->rep->gap));
    if (rb->rep->unhashed)
        note_incomplete(rb, "%" PRIu64 " output%s %s hashed in one run only", rb->rep->unhashed,
                        plural(rb->rep->unhashed), were(rb->rep->unhashed));
    if (rb->rep->cut_open)
        note_incomplete(rb,
                        "%" PRIu64 " fingerprint%s of more bytes in one run than in the other, "
                        "and not all of these were hashed again",
                        rb->rep->cut_open, rb->rep->cut_open == 1 ? " is" : "s are");
    if (rb->rep->unproven)
        note_incomplete(rb, "%" PRIu64 " output%s %s looked at in one run only (learnt, unproven)",
                        rb->rep->unproven, plural(rb->rep->unproven), were(rb->rep->unproven));
    if ((st = note_ends(rb)) != TB_OK)
        return st;
    if ((st = rank_roots(rb, all)) != TB_OK || (st = finish_roots(rb, all, max, err)) != TB_OK ||
        (st = drop_settled(rb->rep)) != TB_OK || (st = note_rest(rb)) != TB_OK ||
        (st = note_cost(rb)) != TB_OK)
        return st;
    set_verdict(rb);
    return TB_OK;
}

static double seconds_since(const struct timespec *from)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - from->tv_sec) + (double)(now.tv_nsec - from->tv_nsec) / 1e9;
}

static void free_found(struct all_roots *all, size_t procs)
{
    for (size_t i = 0; all->of && i < procs; i++)
        free(all->of[i].colls);
    free(all->of);
    free(all->r);
}

enum tb_status tb_diff_run(struct tb_diff_report **out, const char *a, const char *b,
                           const struct tb_diff_options *options, struct tb_error *err)
{
    struct run ra = {0}, rb = {0};
    struct all_roots all = {0};
    struct tb_error local = {0};
    struct timespec begin;
    struct tb_error *e = err ? err : &local;
    struct report_builder builder = {.a = &ra, .b = &rb};
    enum tb_status st;

    *e = (struct tb_error){0};
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    builder.rep = calloc(1, sizeof(*builder.rep));
    if (!builder.rep)
        return tb_fail(e, TB_ERR_NOMEM, "no memory for a report");
    if ((st = run_open(&ra, a, e)) == TB_OK && (st = run_open(&rb, b, e)) == TB_OK)
        st = compare_runs(&builder, options, &all, e);
    if (st == TB_ERR_NOMEM && e->status == TB_OK)
        (void)tb_fail(e, st, "no memory to compare '%.200s' with '%.200s'", a, b);
    free_found(&all, ra.procs);
    ways_release(&builder.ways);
    run_close(&ra);
    run_close(&rb);
    if (st != TB_OK) {
        tb_diff_free(builder.rep);
        return st;
    }
    builder.rep->seconds = seconds_since(&begin);
    *out = builder.rep;
    return TB_OK;
}

void tb_diff_free(struct tb_diff_report *r)
{
    if (!r)
        return;
    free(r->environment);
    free(r->notes);
    free(r->coverage);
    free(r->cost);
    free(r->roots);
    free(r);
}
