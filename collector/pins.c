/*
 * Pins of a run: put into the job's environment and process, handed to what reads them back, and
 * what that said. The plan itself is deterministic/plan.h's. The front's; one thread.
 */
#include "collector/pins.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/collector_internal.h"

#define MAX_ROWS 16384u

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
    memcpy(choice, plan->choice, plan->count * sizeof(*choice));
    copy->choice = choice;
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
    (void)snprintf(p->own[i], TB_PINS_VALUE, "%s", *value ? value : "(empty)");
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

/* The blocks that glibc keeps for each thread are not filled: then it keeps none */
static bool fill_small_blocks(const struct tb_pins *p, size_t i, char **env, size_t *count)
{
    return strcmp(p->plan->choice[i].pin->id, "system.malloc_fill") != 0 || p->jobs[i] ||
           tb_environment_set(env, count, "GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", ':',
                              false);
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

/* Must Python be met before the job's first line? It reads variables back, too. */
static bool needs_hook(const struct tb_pin_plan *plan)
{
    const struct tb_pin_choice *seeds = tb_pin_choice_of(plan, "system.time_seeds");

    return plan->decisions || tb_pin_plan_needs(plan, TB_PIN_PYTHON) ||
           tb_pin_plan_needs(plan, TB_PIN_TORCH) || tb_pin_plan_needs(plan, TB_PIN_ENV) ||
           (seeds && seeds->request == TB_PIN_SET);
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
    const char *own = tb_environment_value(env, TB_PINS_NCCL_PROFILER);
    char path[TB_COL_TEXT];

    if (!asks_nccl(p->plan))
        return true;
    if (own && *own) {
        (void)snprintf(p->profiler, sizeof(p->profiler), "%s", own);
        return true;
    }
    int n = snprintf(path, sizeof(path), "%s/libtwinbit_nccl.so", libdir);
    return n > NCCL_PATH || tb_environment_set(env, count, TB_PINS_NCCL_PROFILER, path, 0, true);
}

bool tb_pins_environment(struct tb_pins *p, char **env, size_t *count, const char *libdir)
{
    if (!p)
        return true;
    for (size_t i = 0; i < p->plan->count; i++) {
        const struct tb_pin_choice *c = &p->plan->choice[i];
        if (c->request != TB_PIN_SET)
            continue;
        if (c->pin->mechanism == TB_PIN_ENV &&
            (!set_variables(p, i, env, count) || !fill_small_blocks(p, i, env, count)))
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
static struct tb_pins_row *find_row(struct tb_pins *p, pid_t pid, size_t choice, const char *part)
{
    for (uint32_t i = 0; i < p->rows; i++)
        if (p->row[i].pid == pid && p->row[i].choice == choice && p->row[i].part == !!*part &&
            (!*part || strncmp(p->row[i].where, part, TB_PINS_VALUE - 1) == 0))
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
    struct tb_pins_row *r = &p->row[p->rows++];
    *r = (struct tb_pins_row){.pid = pid, .choice = choice, .part = *part != 0};
    return r;
}

/* Of two good states the stronger: a library's own word outweighs that of its variable */
static bool good(enum tb_pin_state state)
{
    return state == TB_PIN_WAS_READ || state == TB_PIN_WAS_GIVEN || state == TB_PIN_WAS_HELD;
}

/* What was lost stays lost, whatever is seen later; the first change is the one that is told. */
static void take(struct tb_pins_row *r, enum tb_pin_state state, const char *step,
                 const char *value, const char *where)
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
    struct tb_pins_row *r = find_row(p, pid, choice, part);
    if (!r)
        return;
    r->index = index ? index : r->index;
    if (!r->index && !r->argv[0])
        read_command(pid, r->argv, sizeof(r->argv));
    bool folder = c->value && c->value != tb_pins_value_of(p, choice) &&
                  strncmp(c->value, field[3], TB_PINS_VALUE - 8) == 0;
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
    struct tb_pins_row *r = c && c->request != TB_PIN_LEAVE
                                ? find_row(p, pid, (size_t)(c - p->plan->choice), "")
                                : NULL;

    if (!r)
        return;
    if (!r->argv[0])
        (void)snprintf(r->argv, sizeof(r->argv), "%s", program);
    if (r->state == TB_PIN_WAS_JOB && state == TB_PIN_WAS_READ && r->value[0]) {
        size_t used = strlen(r->value); /* what the job chose, and what came of it */
        (void)snprintf(r->value + used, sizeof(r->value) - used, "; %s", value);
        return;
    }
    take(r, state, "-", value, "");
}

static void started_with(struct tb_pins *p, pid_t pid, const char *id, bool held, const char *value)
{
    const struct tb_pin_choice *c = tb_pin_choice_of(p->plan, id);
    size_t choice = (size_t)(c - p->plan->choice);
    struct tb_pins_row *r = find_row(p, pid, choice, "");
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
    char text[TB_PINS_VALUE];

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
