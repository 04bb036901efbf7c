/*
 * Pins of a run: put into the job's environment and process, handed to what reads them back, and
 * what that said. The plan itself is deterministic/plan.h's. The front's; one thread.
 */
#include "collector/collector_internal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deterministic/plan.h"

#define MAX_ROWS 16384u
#define MAX_LINES 12u
#define VALUE_TEXT 160
#define NCCL_PROFILER "NCCL_PROFILER_PLUGIN"

/* What one process said of one pin, the newest that matters */
struct row {
    pid_t pid;
    uint32_t index; /* order of attach of the process then known by this pid, 0: none */
    size_t choice;
    bool part; /* of several that the process said of this pin, told apart by `where` */
    enum tb_pin_state state;
    uint64_t changes;
    char step[24], value[VALUE_TEXT], where[VALUE_TEXT];
    char argv[VALUE_TEXT]; /* of a process that had not attached then */
};

struct tb_pins {
    struct tb_pin_plan *plan;        /* a copy: what "@cache" stands for is put into it */
    const struct tb_pin_plan *asked; /* as it was asked for */
    struct tb_pin *variable;         /* of each choice that another variable holds, its pin */
    bool *jobs;              /* of each choice: the job's environment or process has its own */
    char (*own)[VALUE_TEXT]; /* ... and this */
    bool refused_aslr;
    char path[160];
    char profiler[VALUE_TEXT]; /* of NCCL, which the job has by itself; "": it gets ours */
    struct row *row;
    uint32_t rows, room;
};

static struct tb_pin_plan *copy_plan(const struct tb_pin_plan *plan)
{
    struct tb_pin_plan *copy = malloc(sizeof(*copy));
    struct tb_pin_choice *choice = calloc(plan->count, sizeof(*choice));

    if (!copy || !choice) {
        free(copy);
        free(choice);
        return NULL;
    }
    *copy = *plan;
    copy->choice = memcpy(choice, plan->choice, plan->count * sizeof(*choice));
    return copy;
}

struct tb_pins *tb_pins_new(const struct tb_pin_plan *plan, const char *folder)
{
    struct tb_pins *p = plan ? calloc(1, sizeof(*p)) : NULL;

    if (!p)
        return NULL;
    p->asked = plan;
    p->plan = copy_plan(plan);
    p->variable = calloc(plan->count, sizeof(*p->variable));
    p->jobs = calloc(plan->count, sizeof(*p->jobs));
    p->own = calloc(plan->count, sizeof(*p->own));
    (void)snprintf(p->path, sizeof(p->path), "%.120s/pins", folder);
    if (p->plan && p->variable && p->jobs && p->own)
        return p;
    tb_pins_free(p);
    return NULL;
}

void tb_pins_free(struct tb_pins *p)
{
    if (!p)
        return;
    (void)unlink(p->path);
    free(p->plan ? p->plan->choice : NULL);
    free(p->plan);
    free(p->variable);
    free(p->jobs);
    free(p->own);
    free(p->row);
    free(p);
}

/* ---------------------------------------------------------------- before the job */

void tb_pins_give(struct tb_pins *p, const char *id, const char *name, const char *value)
{
    const struct tb_pin_choice *found = tb_pin_choice_of(p->plan, id);
    size_t i = (size_t)(found - p->plan->choice);

    p->plan->choice[i].value = value;
    if (!name)
        return;
    p->variable[i] = *found->pin;
    p->variable[i].sets = name;
    p->plan->choice[i].pin = &p->variable[i];
}

/* What a user calls the value: not the folder that this run made */
static const char *value_of(const struct tb_pins *p, size_t i)
{
    return p->asked->choice[i].value;
}

/* The next name of "A, B"; NULL at the end */
static const char *next_name(const char *at, char *name, size_t size)
{
    size_t n = strcspn(at, ",");

    if (!*at || n >= size)
        return NULL;
    memcpy(name, at, n);
    name[n] = 0;
    return at + n + strspn(at + n, ", ");
}

/* Does the job have it already, and another? Then it wins, unless pins are forced. */
static bool jobs_own(struct tb_pins *p, size_t i, const char *value)
{
    const struct tb_pin_choice *c = &p->plan->choice[i];

    if (!value || c->add || strcmp(value, c->value) == 0)
        return false;
    (void)snprintf(p->own[i], VALUE_TEXT, "%s", *value ? value : "(empty)");
    p->jobs[i] = !p->plan->force;
    return p->jobs[i];
}

static bool set_variables(struct tb_pins *p, size_t i, char **env, size_t *count)
{
    const struct tb_pin_choice *c = &p->plan->choice[i];
    char name[128];

    for (const char *at = c->pin->sets; (at = next_name(at, name, sizeof(name))) != NULL;)
        if (jobs_own(p, i, tb_environment_value(env, name)))
            return true;
    for (const char *at = c->pin->sets; (at = next_name(at, name, sizeof(name))) != NULL;) {
        const char *before = tb_environment_value(env, name);
        if (c->add && before && strstr(before, c->value))
            continue;
        if (!tb_environment_set(env, count, name, c->value, c->add ? ' ' : 0, false))
            return false;
    }
    return true;
}

size_t tb_pins_room(const struct tb_pins *p)
{
    return p ? 2 * p->plan->count + 3 : 0;
}

static void look_at_umask(struct tb_pins *p, size_t i)
{
    mode_t now = umask(077), wanted = (mode_t)strtoul(p->plan->choice[i].value, NULL, 8);
    char text[8];

    (void)umask(now);
    (void)snprintf(text, sizeof(text), "%03o", (unsigned)now & 0777u);
    if ((now | wanted) != wanted) /* stricter than ours */
        (void)jobs_own(p, i, text);
}

static bool write_plan(struct tb_pins *p)
{
    FILE *f = fopen(p->path, "wxe");

    if (!f)
        return false;
    tb_pin_plan_write(p->plan, p->jobs, f);
    return fclose(f) == 0;
}

/* Must Python be met before the job's first line? */
static bool needs_hook(const struct tb_pin_plan *plan)
{
    const struct tb_pin_choice *seeds = tb_pin_choice_of(plan, "system.time_seeds");

    return plan->decisions || tb_pin_plan_needs(plan, TB_PIN_PYTHON) ||
           tb_pin_plan_needs(plan, TB_PIN_TORCH) || (seeds && seeds->request == TB_PIN_SET);
}

static bool asks_nccl(const struct tb_pin_plan *plan)
{
    if (!plan->decisions && plan->profile == TB_PIN_OBSERVE)
        return false; /* nobody asked for pins */
    for (size_t i = 0; i < plan->count; i++)
        if (plan->choice[i].pin->reader == TB_PIN_READER_NCCL &&
            plan->choice[i].request != TB_PIN_LEAVE)
            return true;
    return false;
}

/* What reads back what NCCL chose is a plugin of it, and NCCL takes one: the job's own stays. It
 * cuts longer paths. */
static bool set_profiler(struct tb_pins *p, char **env, size_t *count, const char *libdir)
{
    enum { NCCL_PATH = 254 };
    const char *own = tb_environment_value(env, NCCL_PROFILER);
    char path[TB_COL_TEXT];

    if (!asks_nccl(p->plan))
        return true;
    if (own && *own) {
        (void)snprintf(p->profiler, sizeof(p->profiler), "%s", own);
        return true;
    }
    int n = snprintf(path, sizeof(path), "%s/libtwinbit_nccl.so", libdir);
    return n > NCCL_PATH || tb_environment_set(env, count, NCCL_PROFILER, path, 0, true);
}

bool tb_pins_environment(struct tb_pins *p, char **env, size_t *count, const char *libdir)
{
    if (!p)
        return true;
    for (size_t i = 0; i < p->plan->count; i++) {
        const struct tb_pin_choice *c = &p->plan->choice[i];
        if (c->request != TB_PIN_SET)
            continue;
        if (c->pin->mechanism == TB_PIN_ENV && !set_variables(p, i, env, count))
            return false;
        if (strcmp(c->pin->id, "system.umask") == 0)
            look_at_umask(p, i);
    }
    if (!write_plan(p)) /* then nothing reads back: each pin is "unseen" */
        return true;
    if (!tb_environment_set(env, count, TB_WIRE_PINS, p->path, 0, true) ||
        !set_profiler(p, env, count, libdir))
        return false;
    return !needs_hook(p->plan) || tb_environment_hook(env, count, libdir);
}

static const struct tb_pin_choice *set_choice(const struct tb_pins *p, const char *id)
{
    const struct tb_pin_choice *c = tb_pin_choice_of(p->plan, id);

    return c && c->request == TB_PIN_SET && !p->jobs[c - p->plan->choice] ? c : NULL;
}

bool tb_pins_is_jobs(const struct tb_pins *p, const char *id)
{
    return p->jobs[tb_pin_choice_of(p->plan, id) - p->plan->choice];
}

/* "0-3,8" */
static bool cpus_of(const char *text, cpu_set_t *out)
{
    CPU_ZERO(out);
    for (char *end; *text; text = end + (*end == ',')) {
        unsigned long from = strtoul(text, &end, 10), to = from;
        if (end == text)
            return false;
        if (*end == '-') {
            text = end + 1;
            to = strtoul(text, &end, 10);
        }
        if (end == text || (*end && *end != ',') || to < from || to >= CPU_SETSIZE)
            return false;
        for (; from <= to; from++)
            CPU_SET(from, out);
    }
    return true;
}

static void cpus_text(const cpu_set_t *set, char *out, size_t size)
{
    size_t used = 0;

    out[0] = 0;
    for (unsigned from = 0, to; from < CPU_SETSIZE && used < size; from = to + 1) {
        to = from;
        if (!CPU_ISSET(from, set))
            continue;
        while (to + 1 < CPU_SETSIZE && CPU_ISSET(to + 1, set))
            to++;
        used +=
            (size_t)(to > from
                         ? snprintf(out + used, size - used, "%s%u-%u", used ? "," : "", from, to)
                         : snprintf(out + used, size - used, "%s%u", used ? "," : "", from));
    }
}

void tb_pins_in_child(const struct tb_pins *p, struct tb_pins_began *out)
{
    const struct tb_pin_choice *c;

    *out = (struct tb_pins_began){.umask = 0};
    if (p && set_choice(p, "system.aslr"))
        (void)personality((unsigned long)personality(0xffffffff) | ADDR_NO_RANDOMIZE);
    if (p && (c = set_choice(p, "system.umask")) != NULL)
        (void)umask((mode_t)strtoul(c->value, NULL, 8));
    if (p && (c = set_choice(p, "cpu.affinity")) != NULL && cpus_of(c->value, &out->cpus))
        (void)sched_setaffinity(0, sizeof(out->cpus), &out->cpus);
    out->fixed = personality(0xffffffff) & ADDR_NO_RANDOMIZE;
    out->umask = umask(0);
    (void)umask((mode_t)out->umask);
    (void)sched_getaffinity(0, sizeof(out->cpus), &out->cpus);
}

/* ---------------------------------------------------------------- what came of it */

/* @part: the place that tells it from other rows of this pin, "" for the one of the whole process
 */
static struct row *find_row(struct tb_pins *p, pid_t pid, size_t choice, const char *part)
{
    for (uint32_t i = 0; i < p->rows; i++)
        if (p->row[i].pid == pid && p->row[i].choice == choice && p->row[i].part == !!*part &&
            (!*part || strncmp(p->row[i].where, part, VALUE_TEXT - 1) == 0))
            return &p->row[i];
    if (p->rows == MAX_ROWS)
        return NULL;
    if (p->rows == p->room) {
        uint32_t room = p->room ? 2 * p->room : 256;
        void *grown = realloc(p->row, room * sizeof(*p->row));
        if (!grown)
            return NULL;
        p->row = grown;
        p->room = room;
    }
    struct row *r = &p->row[p->rows++];
    *r = (struct row){.pid = pid, .choice = choice, .part = *part != 0};
    return r;
}

/* Of two good states the stronger: a library's own word outweighs that of its variable */
static bool good(enum tb_pin_state state)
{
    return state == TB_PIN_WAS_READ || state == TB_PIN_WAS_GIVEN || state == TB_PIN_WAS_HELD;
}

/* What was lost stays lost, whatever is seen later; the first change is the one that is told. */
static void take(struct row *r, enum tb_pin_state state, const char *step, const char *value,
                 const char *where)
{
    if (state == TB_PIN_WAS_CHANGED && r->changes++)
        return;
    if (r->value[0] && good(state) && (!good(r->state) || state < r->state))
        return;
    r->state = state;
    (void)snprintf(r->step, sizeof(r->step), "%s", step);
    (void)snprintf(r->value, sizeof(r->value), "%s", value);
    (void)snprintf(r->where, sizeof(r->where), "%s", where);
}

static void read_command(pid_t pid, char *out, size_t size)
{
    char text[TB_COL_TEXT];
    ssize_t n = tb_proc_read(pid, "cmdline", text, sizeof(text));

    if (n > 0)
        tb_argv_join(text, (size_t)n, out, size);
}

static void take_line(struct tb_pins *p, pid_t pid, uint32_t index, char *line)
{
    char *field[5] = {line};
    enum tb_pin_state state;

    for (size_t i = 1; i < TB_ARRAY_LEN(field); i++) {
        char *tab = strchr(field[i - 1], '\t');
        if (!tab)
            return;
        *tab = 0;
        field[i] = tab + 1;
    }
    const struct tb_pin_choice *c = tb_pin_choice_of(p->plan, field[0]);
    if (!c || !tb_pin_state_find(field[1], &state))
        return;
    size_t choice = (size_t)(c - p->plan->choice);
    const char *part = strcmp(c->pin->group, "nccl") == 0 ? field[4] : "";
    if (p->jobs[choice] && state == TB_PIN_WAS_READ && !*part)
        state = TB_PIN_WAS_JOB;
    if (c->request == TB_PIN_UNBUILT)
        state = TB_PIN_WAS_UNBUILT;
    struct row *r = find_row(p, pid, choice, part);
    if (!r)
        return;
    r->index = index ? index : r->index;
    if (!r->index && !r->argv[0])
        read_command(pid, r->argv, sizeof(r->argv));
    bool folder = c->value && c->value != value_of(p, choice) &&
                  strncmp(c->value, field[3], VALUE_TEXT - 8) == 0;
    take(r, state, field[2], folder ? "a folder of this run" : field[3], field[4]);
}

void tb_pins_message(struct tb_pins *p, pid_t pid, uint32_t index, const char *text)
{
    char copy[sizeof(((struct tb_wire_msg *)0)->text)], *rest = copy;

    if (!p)
        return;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    (void)tb_plain(copy, true);
    for (char *line; (line = strsep(&rest, "\n")) != NULL;)
        if (*line)
            take_line(p, pid, index, line);
}

void tb_pins_say(struct tb_pins *p, pid_t pid, const char *program, const char *id,
                 enum tb_pin_state state, const char *value)
{
    const struct tb_pin_choice *c = p ? tb_pin_choice_of(p->plan, id) : NULL;
    struct row *r = c && c->request != TB_PIN_LEAVE
                        ? find_row(p, pid, (size_t)(c - p->plan->choice), "")
                        : NULL;

    if (!r)
        return;
    if (!r->argv[0])
        (void)snprintf(r->argv, sizeof(r->argv), "%s", program);
    take(r, state, "-", value, "");
}

static void started_with(struct tb_pins *p, pid_t pid, const char *id, bool held, const char *value)
{
    const struct tb_pin_choice *c = tb_pin_choice_of(p->plan, id);
    size_t choice = (size_t)(c - p->plan->choice);
    struct row *r = find_row(p, pid, choice, "");
    bool set = c->request == TB_PIN_SET;

    if (r)
        take(r,
             !set              ? TB_PIN_WAS_READ
             : p->jobs[choice] ? TB_PIN_WAS_JOB
             : held            ? TB_PIN_WAS_HELD
                               : TB_PIN_WAS_REFUSED,
             "-", value, "");
}

void tb_pins_started(struct tb_pins *p, pid_t pid, const struct tb_pins_began *began)
{
    const struct tb_pin_choice *c;
    char text[VALUE_TEXT];

    if (!p)
        return;
    started_with(p, pid, "system.aslr", began->fixed, began->fixed ? "on" : "off");
    c = tb_pin_choice_of(p->plan, "system.umask");
    (void)snprintf(text, sizeof(text), "%03o", began->umask & 0777u);
    started_with(p, pid, "system.umask", c->value && strcmp(c->value, text) == 0, text);
    cpu_set_t wanted;
    c = tb_pin_choice_of(p->plan, "cpu.affinity");
    cpus_text(&began->cpus, text, sizeof(text));
    started_with(p, pid, "cpu.affinity",
                 c->request == TB_PIN_SET && cpus_of(c->value, &wanted) &&
                     CPU_EQUAL(&wanted, &began->cpus),
                 text);
}

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

static const char *process_of(const struct row *r, const struct tb_col_process *all)
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
        const struct row *r = &p->row[k];
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
            put_row(f, "", c, TB_PIN_WAS_JOB, p->profiler, "-", NCCL_PROFILER " of the job");
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
static enum tb_pin_state worst(const struct tb_pins *p, size_t choice, const struct row **which)
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

static void warn(const struct tb_pins *p, size_t i, enum tb_pin_state state, const struct row *r,
                 void (*line)(void *arg, const char *text), void *arg)
{
    const struct tb_pin_choice *c = &p->plan->choice[i];
    const char *value = r ? r->value : p->own[i];
    const char *kept = c->request == TB_PIN_SET ? value_of(p, i) : "what it was";
    const char *who = r && r->part ? "NCCL" : "the job";
    char text[700], place[VALUE_TEXT + 48] = "";

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
                       c->pin->mechanism == TB_PIN_ENV ? " (--force-pins turns that round)" : "");
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
static void sum_up(const struct tb_pins *p, const uint32_t n[7], char *out, size_t size)
{
    static const char *const what[] = {
        "given to libraries that do not tell", "not as asked", "that were to stay and did not",
        "of what the job did not use", "that this version cannot set"};
    size_t used = (size_t)snprintf(out, size, "pins (%s): %u of %u seen to hold",
                                   tb_pin_profile_text(p->plan->profile)->name, n[0], n[1]);

    for (size_t i = 0; i < TB_ARRAY_LEN(what) && used < size; i++)
        if (n[2 + i])
            used += (size_t)snprintf(out + used, size - used, ", %u %s", n[2 + i], what[i]);
}

void tb_pins_report(const struct tb_pins *p, void (*line)(void *arg, const char *text), void *arg)
{
    uint32_t held = 0, given = 0, unseen = 0, unbuilt = 0, told = 0, asked = 0, kept = 0;
    const struct row *r;
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
    sum_up(p,
           (const uint32_t[]){held, asked, given, asked - held - given - unseen - unbuilt, kept,
                              unseen, unbuilt},
           text, sizeof(text));
    line(arg, text);
}
