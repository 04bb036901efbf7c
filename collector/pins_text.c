/* What became of each pin: the text in the trace, and what the user sees when the run ends. */
#include "collector/pins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/collector_internal.h"

#define MAX_LINES 12u

/* ---------------------------------------------------------------- the trace */

static bool was_asked(const struct tb_pin_choice *c)
{
    return c->request == TB_PIN_SET || c->request == TB_PIN_UNBUILT;
}

static bool seen(const struct tb_pins *p, size_t choice)
{
    for (uint32_t i = 0; i < p->rows; i++)
        if (p->row[i].choice == choice)
            return true;
    return false;
}

/* State of a pin of which no process said anything */
static enum tb_pin_state unsaid(const struct tb_pins *p, size_t i)
{
    return p->plan->choice[i].request == TB_PIN_UNBUILT ? TB_PIN_WAS_UNBUILT
           : p->jobs[i]                                 ? TB_PIN_WAS_JOB
                                                        : TB_PIN_WAS_UNSEEN;
}

/* @c: as it was asked for */
static void put_row(FILE *f, const char *process, const struct tb_pin_choice *c,
                    enum tb_pin_state state, const char *value, const char *step, const char *where)
{
    const char *asked = was_asked(c) ? c->value : c->request == TB_PIN_KEEP ? "@keep" : "";

    (void)fprintf(f, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c->pin->id, tb_pin_state_name(state),
                  asked, value, c->source ? c->source : "", process, step, where);
}

static const char *process_of(const struct tb_pins_row *r, const struct tb_col_process *all)
{
    for (; all; all = all->next)
        if (r->index ? all->index == r->index : all->pid == r->pid)
            return all->identity[0] ? all->identity : all->argv;
    return r->argv[0] ? r->argv : "the job";
}

/* Rows of whole processes first: readers take the first for the run's */
static void put_rows(const struct tb_pins *p, FILE *f, const struct tb_col_process *all, size_t i,
                     bool parts)
{
    for (uint32_t k = 0; k < p->rows; k++) {
        const struct tb_pins_row *r = &p->row[k];
        if (r->choice == i && r->part == parts)
            put_row(f, process_of(r, all), &p->asked->choice[i], r->state, r->value, r->step,
                    r->where);
    }
}

char *tb_pins_text(const struct tb_pins *p, const struct tb_col_process *all, size_t *n)
{
    char *text = NULL;
    FILE *f = p ? open_memstream(&text, n) : NULL;

    if (!f)
        return NULL;
    (void)fprintf(f, "profile\t%s\tseed\t%llu\tforce\t%d\n",
                  tb_pin_profile_text(p->plan->profile)->name, (unsigned long long)p->plan->seed,
                  p->plan->force);
    for (size_t i = 0; i < p->plan->count; i++) {
        const struct tb_pin_choice *c = &p->asked->choice[i];
        if (!seen(p, i) && was_asked(c))
            put_row(f, "", c, unsaid(p, i), p->jobs[i] ? p->own[i] : "", "-", "");
        if (p->profiler[0] && strcmp(c->pin->id, "nccl.channels") == 0)
            put_row(f, "", c, TB_PIN_WAS_JOB, p->profiler, "-",
                    TB_PINS_NCCL_PROFILER " of the job");
        put_rows(p, f, all, i, false);
        put_rows(p, f, all, i, true);
    }
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---------------------------------------------------------------- what the user sees */

/* The worst that any process said of it */
static enum tb_pin_state worst(const struct tb_pins *p, size_t choice,
                               const struct tb_pins_row **which)
{
    static const int rank[TB_PIN_STATES] = {
        [TB_PIN_WAS_READ] = 0,    [TB_PIN_WAS_GIVEN] = 1,   [TB_PIN_WAS_HELD] = 2,
        [TB_PIN_WAS_UNSEEN] = 2,  [TB_PIN_WAS_UNBUILT] = 2, [TB_PIN_WAS_JOB] = 3,
        [TB_PIN_WAS_REFUSED] = 4, [TB_PIN_WAS_MISSED] = 5,  [TB_PIN_WAS_CHANGED] = 6,
    };
    enum tb_pin_state state = TB_PIN_WAS_READ;

    *which = NULL;
    for (uint32_t i = 0; i < p->rows; i++)
        if (p->row[i].choice == choice && (!*which || rank[p->row[i].state] > rank[state])) {
            state = p->row[i].state;
            *which = &p->row[i];
        }
    return *which ? state : unsaid(p, choice);
}

static void warn(const struct tb_pins *p, size_t i, enum tb_pin_state state,
                 const struct tb_pins_row *r, void (*line)(void *arg, const char *text), void *arg)
{
    const struct tb_pin_choice *c = &p->plan->choice[i];
    const char *value = r ? r->value : p->own[i];
    const char *kept = c->request == TB_PIN_SET ? tb_pins_value_of(p, i) : "what it was";
    const char *who = r && r->part ? "NCCL" : "the job";
    char text[700], place[TB_PINS_VALUE + 48] = "";

    if (r && r->where[0])
        (void)snprintf(place, sizeof(place), " at %s%s%s", r->where,
                       r->step[0] == '-' ? "" : " in step ", r->step[0] == '-' ? "" : r->step);
    else if (r && r->step[0] != '-')
        (void)snprintf(place, sizeof(place), " in step %s", r->step);
    if (state == TB_PIN_WAS_CHANGED)
        (void)snprintf(text, sizeof(text), "pin %s: %s changed it from %s to %s%s", c->pin->id, who,
                       kept, value, place);
    else if (state == TB_PIN_WAS_JOB)
        (void)snprintf(text, sizeof(text), "pin %s: the job has %s%s, which wins over %s%s",
                       c->pin->id, value, place, kept,
                       c->pin->mechanism == TB_PIN_ENV && p->jobs[i]
                           ? " (--force-pins turns that round)"
                           : "");
    else if (state == TB_PIN_WAS_REFUSED)
        (void)snprintf(text, sizeof(text), "pin %s: requested, refused: it is %s", c->pin->id,
                       value);
    else
        (void)snprintf(text, sizeof(text), "pin %s: set to %s, but %s was seen%s", c->pin->id, kept,
                       value, place);
    line(arg, text);
}

static bool warns(enum tb_pin_state state)
{
    return state == TB_PIN_WAS_CHANGED || state == TB_PIN_WAS_JOB || state == TB_PIN_WAS_MISSED ||
           state == TB_PIN_WAS_REFUSED;
}

/* @n: held, of all, given, not as asked, not kept, unseen, unbuilt */
static void sum_up(const struct tb_pins *p, char *const *argv, const uint32_t n[7], char *out,
                   size_t size)
{
    const char *const what[] = {
        "given to libraries that do not tell", "not as asked", "that were to stay and did not",
        tb_isolated(argv) ? "that nothing told of" : "not seen (not used, or nothing could tell)",
        "that this version cannot set"};
    size_t used = (size_t)snprintf(out, size, "pins (%s): %u of %u seen to hold",
                                   tb_pin_profile_text(p->plan->profile)->name, n[0], n[1]);

    for (size_t i = 0; i < TB_ARRAY_LEN(what) && used < size; i++)
        if (n[2 + i])
            used += (size_t)snprintf(out + used, size - used, ", %u %s", n[2 + i], what[i]);
}

/* What a profile only counts: it was real, or by chance. Of the draws that libraries for
 * cryptography made: their number stands before @mark, else at the begin. */
static const struct real {
    const char *id, *mark, *what, *one;
    uint64_t from; /* fewer have no order */
} reals[] = {
    {"data.completion_order", NULL, "hand-outs", "hand-out", 2},
    {"data.in_order", " arrivals", "arrivals of batches", "arrival of a batch", 2},
    {"data.pool_threads", NULL, "tasks of pools", "task of a pool", 2},
    {"data.pool_threads", " pools of multiprocessing", "pools of multiprocessing",
     "pool of multiprocessing", 1},
    {"system.entropy", " real ones of cryptography", "draws of cryptography",
     "draw of cryptography", 1},
    {"system.time", NULL, "readers of the clock", "reader of the clock", 1},
};

static uint64_t number_of(const char *value, const char *mark)
{
    const char *at = mark ? strstr(value, mark) : value;

    if (!at)
        return 0;
    for (; mark && at > value && at[-1] >= '0' && at[-1] <= '9'; at--)
        ;
    return strtoull(at, NULL, 10);
}

static uint64_t count_real(const struct tb_pins *p, const struct real *real)
{
    const struct tb_pin_choice *c = tb_pin_choice_of(p->plan, real->id);
    uint64_t n = 0;

    for (uint32_t i = 0; i < p->rows; i++) {
        const struct tb_pins_row *r = &p->row[i];
        uint64_t of = number_of(r->value, real->mark);
        if (r->choice == (size_t)(c - p->plan->choice) && of >= real->from &&
            (real->mark || r->state == TB_PIN_WAS_READ))
            n += of;
    }
    return n;
}

/* One line, however much it was */
static void tell_real(const struct tb_pins *p, void (*line)(void *arg, const char *text), void *arg)
{
    char text[400] = "pins: real, or ordered by chance, as no pin sets it:";
    size_t used = strlen(text), before = used;

    for (size_t i = 0; i < TB_ARRAY_LEN(reals) && used < sizeof(text); i++) {
        uint64_t n = count_real(p, &reals[i]);
        if (n)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s %s (%llu %s)",
                                     used > before ? "," : "", reals[i].id, (unsigned long long)n,
                                     n == 1 ? reals[i].one : reals[i].what);
    }
    if (used == before || used >= sizeof(text))
        return;
    (void)snprintf(text + used, sizeof(text) - used, "; see 'twinbit show TRACE pins'");
    line(arg, text);
}

void tb_pins_report(const struct tb_pins *p, char *const *argv,
                    void (*line)(void *arg, const char *text), void *arg)
{
    uint32_t held = 0, given = 0, unseen = 0, unbuilt = 0, told = 0, asked = 0, kept = 0;
    const struct tb_pins_row *r;
    char text[300];

    for (size_t i = 0; p && i < p->plan->count; i++) {
        const struct tb_pin_choice *c = &p->plan->choice[i];
        if (!was_asked(c) && c->request != TB_PIN_KEEP)
            continue;
        enum tb_pin_state state = worst(p, i, &r);
        asked += was_asked(c);
        kept += !was_asked(c) && r && warns(state);
        held += was_asked(c) && state == TB_PIN_WAS_HELD;
        given += was_asked(c) && state == TB_PIN_WAS_GIVEN;
        unseen += was_asked(c) && state == TB_PIN_WAS_UNSEEN;
        unbuilt += was_asked(c) && state == TB_PIN_WAS_UNBUILT;
        bool follows = state == TB_PIN_WAS_JOB && c->value && strcmp(c->value, "@seed") == 0;
        bool cache = state == TB_PIN_WAS_MISSED && tb_pin_is_cache(c->pin); /* told at length */
        if ((was_asked(c) || r) && warns(state) && !follows && !cache && told++ < MAX_LINES)
            warn(p, i, state, r, line, arg);
    }
    if (told > MAX_LINES) {
        (void)snprintf(text, sizeof(text), "... and %u pins more", told - MAX_LINES);
        line(arg, text);
    }
    if (p && p->profiler[0]) {
        (void)snprintf(
            text, sizeof(text),
            "NCCL takes one profiler plugin, and the job has '%.160s': what NCCL chooses "
            "is not read",
            p->profiler);
        line(arg, text);
    }
    if (!asked)
        return;
    sum_up(p, argv,
           (const uint32_t[]){held, asked, given, asked - held - given - unseen - unbuilt, kept,
                              unseen, unbuilt},
           text, sizeof(text));
    line(arg, text);
    if (p->plan->profile != TB_PIN_OBSERVE) /* a single pin promises nothing of others */
        tell_real(p, line, arg);
}
