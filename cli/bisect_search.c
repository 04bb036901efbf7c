/* bisect-pins: runs without pins, runs with all of them, then fewer and fewer. */
#include "cli/bisect_pins.h"

#include <stdlib.h>
#include <string.h>

#include "cli/pins.h"
#include "deterministic/ddmin.h"
#include "deterministic/odds.h"
#include "store/store.h"

#define RESULTS 8       /* of runs without pins that are told apart */
#define WITHOUT_MOST 20 /* runs without pins, at most this or 4 times --repeats */
#define FEW 5           /* runs with a set, which are not worth to be made fewer */
#define PASSES 8        /* sets that do, in a usual search: what --max-runs is shared out among */

/* ---------------------------------------------------------------- without pins */

struct results {
    struct tb_bp_run of[RESULTS]; /* a run of each result */
    unsigned runs[RESULTS], count;
};

static unsigned commonest(const struct results *r)
{
    unsigned most = 1; /* those beyond RESULTS came once, as far as is known */

    for (unsigned i = 0; i < r->count; i++)
        most = r->runs[i] > most ? r->runs[i] : most;
    return most;
}

/* One more run, and which result it had; false: there shall be no other */
static bool one_without(struct tb_bp *b, struct results *r)
{
    struct tb_bp_run run;
    enum tb_bp_outcome outcome = TB_BP_DIFFER;

    tb_bp_doing(b, "without pins");
    if (!tb_bp_once(b, NULL, &run))
        return false;
    if (b->without == 0) {
        b->status = run.status;
        memcpy(b->line_without, b->last_line, sizeof(b->line_without));
    }
    b->any_status |= run.status != b->status;
    for (unsigned i = 0; i < r->count && outcome == TB_BP_DIFFER; i++) {
        outcome = tb_bp_compare(b, &r->of[i], &run);
        r->runs[i] += outcome == TB_BP_SAME;
        if (outcome == TB_BP_DIFFER && !b->difference_without[0])
            memcpy(b->difference_without, b->difference, sizeof(b->difference));
    }
    if (outcome == TB_BP_STOPPED)
        return false;
    b->without++;
    if (outcome == TB_BP_DIFFER && r->count < RESULTS) {
        r->of[r->count] = run;
        r->runs[r->count++] = 1;
    } else {
        tb_bp_drop(b, &run);
    }
    b->commonest = commonest(r);
    return true;
}

static uint64_t enough(const struct tb_bp *b)
{
    uint64_t n = tb_odds_runs(tb_odds_share(b->commonest, b->without), TB_BP_MISSED);

    return n > b->repeats ? n : b->repeats;
}

/* Another run without pins pays if it makes fewer runs with them do */
static bool pays(const struct tb_bp *b)
{
    uint64_t most = 4 * b->repeats > WITHOUT_MOST ? 4 * b->repeats : WITHOUT_MOST;

    return b->without < most && enough(b) > FEW && enough(b) > b->repeats;
}

/* Runs until they are known to repeat, or until it is known how often they do not */
static bool run_without(struct tb_bp *b)
{
    struct results r = {.count = 0};
    bool more = true;

    while (more && (b->without < b->repeats || (r.count > 1 && pays(b))))
        more = one_without(b, &r);
    for (unsigned i = 0; i < r.count; i++)
        tb_bp_drop(b, &r.of[i]);
    if (more && r.count == 1)
        b->verdict = TB_BP_REPEATS;
    return more;
}

/* Runs a set must be equal in: as many as the rate asks for, and --max-runs has room for */
static void set_equal(struct tb_bp *b, uint64_t wanted)
{
    uint64_t spent = b->runs + 3 * b->rounds;
    uint64_t room = b->max_runs > spent ? (b->max_runs - spent) / PASSES : 0;

    room = room < 2 ? 2 : room;
    b->equal_is_less = wanted > room;
    b->equal = b->equal_is_less ? room : wanted;
}

/* ---------------------------------------------------------------- with all of them */

/* An order of what ends by itself, which a pin of no profile holds */
static bool is_free_order(char *field[TB_PIN_ROW_FIELDS])
{
    return strcmp(field[TB_PIN_ROW_ID], "data.completion_order") == 0 &&
           strcmp(field[TB_PIN_ROW_STATE], "read") == 0;
}

static void take_hint(struct tb_bp *b, char *field[TB_PIN_ROW_FIELDS])
{
    const char *state = field[TB_PIN_ROW_STATE];
    const char *says = strcmp(state, "job") == 0 ? "the job has a value of its own, which wins"
                       : strcmp(state, "changed") == 0 ? "the job changed it"
                       : strcmp(state, "missed") == 0  ? "it was set, and something else was seen"
                       : strcmp(state, "refused") == 0 ? "the system did not let it be set"
                       : is_free_order(field) ? "what ends first comes first; add it to --pin"
                                              : NULL;

    if (!says || b->hints == TB_BP_LINES)
        return;
    (void)snprintf(b->hint[b->hints++], TB_BP_TEXT, "%.60s %.100s: %s%s%.100s",
                   field[TB_PIN_ROW_ID], field[TB_PIN_ROW_SEEN], says,
                   field[TB_PIN_ROW_WHERE][0] ? " at " : "", field[TB_PIN_ROW_WHERE]);
}

/* Pins that did not hold: the likeliest reasons why a job still differs */
static void read_hints(struct tb_bp *b, const struct tb_bp_run *run)
{
    char path[4096], *field[TB_PIN_ROW_FIELDS];
    struct tb_trace *t = NULL;
    struct tb_error err = {0};
    size_t n = 0;

    b->hints = 0;
    if (tb_trace_open(&t, tb_bp_trace(b, run, path), &err) != TB_OK)
        return;
    const char *text = tb_trace_text(t, "pins", &n);
    char *copy = text ? strndup(text, n) : NULL, *rest = copy;
    for (char *line; rest && (line = strsep(&rest, "\n")) != NULL;)
        if (tb_pin_row_split(tb_plain(line, true), field))
            take_hint(b, field);
    free(copy);
    tb_trace_close(t);
}

/* Does the job end with another status under these pins? It does then with "PASS". */
static enum tb_ddmin_answer ask_unusable(const bool *in, void *arg)
{
    struct tb_bp *b = arg;
    struct tb_bp_run run;
    struct tb_bp_dropped *d = &b->dropped[b->drops];

    if (!tb_bp_once(b, in, &run))
        return TB_DDMIN_STOP;
    tb_bp_drop(b, &run);
    if (run.status == b->status)
        return TB_DDMIN_FAIL;
    *d = (struct tb_bp_dropped){.status = run.status};
    memcpy(d->line, b->last_line, sizeof(d->line));
    return TB_DDMIN_PASS;
}

static void let_needs_follow(const struct tb_bp *b, struct tb_ddmin *d)
{
    for (size_t i = 0; i < b->items; i++)
        for (size_t k = 0; k < b->items; k++)
            for (const char *const *need = b->all->choice[b->item[i]].pin->needs; *need; need++)
                if (strcmp(*need, b->all->choice[b->item[k]].pin->id) == 0)
                    tb_ddmin_need(d, i, k);
}

static bool drop_pin(struct tb_bp *b, const struct tb_pin *pin, struct tb_error *err)
{
    b->dropped[b->drops++].pin = pin;
    return tb_bp_items(b, err) == TB_OK;
}

/* The pin that makes the job fail is found and left out; of several together the dearest */
static bool drop_unusable(struct tb_bp *b, struct tb_error *err)
{
    bool *set = tb_bp_new_set(b, true);
    struct tb_ddmin *d = tb_ddmin_new(b->items, ask_unusable, b);
    enum tb_ddmin_answer answer = TB_DDMIN_STOP;
    size_t last = 0;

    tb_bp_doing(b, "which pin makes the job fail");
    if (set && d) {
        let_needs_follow(b, d);
        answer = tb_ddmin_run(d, set);
        for (size_t i = 0; i < b->items; i++)
            last = set[i] ? i : last;
    }
    tb_ddmin_free(d);
    free(set);
    return answer == TB_DDMIN_PASS && drop_pin(b, b->all->choice[b->item[last]].pin, err);
}

/* Operators that have no deterministic way may warn instead, where nobody said otherwise */
static bool warn_instead(struct tb_bp *b, const struct tb_bp_run *failed, struct tb_error *err)
{
    const struct tb_pin_choice *c = tb_pin_choice_of(b->all, "torch.deterministic");
    const struct tb_pin_choice *w = tb_pin_choice_of(b->all, "torch.warn_only");
    struct tb_bp_dropped *d = &b->dropped[b->drops];

    if (!c || !w || c->request != TB_PIN_SET || c->own || w->own || w->request != TB_PIN_LEAVE)
        return false;
    struct tb_error refused = {0};
    struct tb_pin_plan *plan = tb_bp_plan(b, w->pin->id, &refused), *before = b->all;
    if (!plan)
        return false;
    *d = (struct tb_bp_dropped){.pin = c->pin, .instead = w->pin->id, .status = failed->status};
    memcpy(d->line, b->last_line, sizeof(d->line));
    b->all = plan;
    bool *all = tb_bp_items(b, err) == TB_OK ? tb_bp_new_set(b, true) : NULL;
    struct tb_bp_run run = {.number = 0};
    tb_bp_doing(b, "with torch.warn_only");
    bool does = all && tb_bp_once(b, all, &run) && run.status == b->status;
    if (does)
        read_hints(b, &run);
    tb_bp_drop(b, &run);
    free(all);
    b->drops += does;
    b->all = does ? plan : before;
    tb_pin_plan_free(does ? before : plan);
    return tb_bp_items(b, err) == TB_OK && does;
}

/* A set of all pins with which the job ends as it does without any; false: there is none */
static bool make_usable(struct tb_bp *b, struct tb_error *err)
{
    struct tb_bp_run run = {.number = 0};

    for (bool asked = false; err->status == TB_OK;) {
        bool *all = tb_bp_new_set(b, true);
        tb_bp_doing(b, "with all %zu pins", b->items);
        b->all->decisions = true; /* for the hints; the runs that are compared have none */
        bool more = all && tb_bp_once(b, all, &run);
        b->all->decisions = false;
        free(all);
        if (!more)
            return false;
        if (b->any_status || run.status == b->status) {
            read_hints(b, &run);
            tb_bp_drop(b, &run);
            return true;
        }
        tb_bp_drop(b, &run);
        if (!asked && (asked = true) && warn_instead(b, &run, err))
            return true;
        if (b->drops + 1 >= TB_BP_LINES || !drop_unusable(b, err))
            return false;
    }
    return false;
}

/* ---------------------------------------------------------------- fewer and fewer */

static void take_all(struct tb_bp *b, enum tb_bp_outcome outcome)
{
    b->all_do = outcome == TB_BP_SAME;
    if (outcome == TB_BP_DIFFER)
        memcpy(b->difference_all, b->difference, sizeof(b->difference));
    else if (outcome == TB_BP_UNUSABLE)
        (void)snprintf(b->difference_all, sizeof(b->difference_all),
                       "the job fails now and then with them: %.200s", b->last_line);
}

static enum tb_ddmin_answer ask(const bool *in, void *arg)
{
    struct tb_bp *b = arg;
    size_t n = 0;

    for (size_t i = 0; i < b->items; i++)
        n += in[i];
    if (n == 0)
        return TB_DDMIN_FAIL; /* seen already */
    tb_bp_doing(b, "with %zu of %zu pins", n, b->items);
    enum tb_bp_outcome outcome = tb_bp_trial(b, in, b->equal);
    if (outcome == TB_BP_STOPPED)
        return TB_DDMIN_STOP;
    if (n == b->items)
        take_all(b, outcome);
    return outcome == TB_BP_SAME ? TB_DDMIN_PASS : TB_DDMIN_FAIL;
}

/* What was found is run as often again; if it differs now it is out, and sets that led to it are
 * doubted. */
static void shrink(struct tb_bp *b, struct tb_ddmin *d)
{
    for (;;) {
        for (size_t i = 0; i < b->items; i++)
            b->found[i] = true;
        enum tb_ddmin_answer answer = tb_ddmin_run(d, b->found);
        b->smallest = answer == TB_DDMIN_PASS;
        b->verdict = answer == TB_DDMIN_FAIL ? TB_BP_NONE : b->all_do ? TB_BP_FOUND : TB_BP_UNKNOWN;
        if (!b->smallest) /* the smallest until it was stopped */
            return;
        tb_bp_doing(b, "once more with what was found");
        enum tb_bp_outcome outcome = tb_bp_trial(b, b->found, b->equal);
        b->confirmed = outcome == TB_BP_SAME;
        if (outcome == TB_BP_SAME || outcome == TB_BP_STOPPED)
            return;
        memcpy(b->difference_all, b->difference, sizeof(b->difference));
        b->all_do = false;
        tb_ddmin_note(d, b->found, TB_DDMIN_FAIL);
    }
}

/* ---------------------------------------------------------------- all of it */

static enum tb_status search(struct tb_bp *b, struct tb_error *err)
{
    struct tb_ddmin *d = NULL;

    if (!run_without(b) || b->verdict == TB_BP_REPEATS)
        return err->status;
    bool usable = make_usable(b, err), stopped = b->stopped || b->at_limit || b->nothing;
    if (!stopped && err->status == TB_OK && b->err.status == TB_OK && (!usable || b->items == 0)) {
        b->verdict = TB_BP_NONE; /* one pin after the other made it fail */
        return TB_OK;
    }
    if (!usable)
        return err->status;
    set_equal(b, enough(b));
    b->found = tb_bp_new_set(b, true);
    b->cost = calloc(b->items + 1, sizeof(*b->cost));
    d = tb_ddmin_new(b->items, ask, b);
    if (!b->found || !b->cost || !d) {
        tb_ddmin_free(d);
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the list of pins");
    }
    let_needs_follow(b, d);
    shrink(b, d);
    if (b->verdict == TB_BP_FOUND)
        tb_bp_measure(b);
    tb_ddmin_free(d);
    return TB_OK;
}

enum tb_status tb_bp_search(struct tb_bp *b, struct tb_error *err)
{
    enum tb_status st = search(b, err);

    if (st == TB_OK && b->err.status != TB_OK) {
        *err = b->err;
        st = b->err.status;
    }
    return st;
}
