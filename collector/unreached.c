/*
 * Programs in which libtwinbit_pins.so was not: what they draw, list and name is real, and no log
 * has it. Told by whoever executed them (a record in its log), or seen by looking. The front's.
 */
#include "collector/collector_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "deterministic/plan.h"
#include "deterministic/preload/reach.h"

static struct tb_unreached_row *find(struct tb_unreached *u, const char *program, const char *why)
{
    for (uint32_t i = 0; i < u->count; i++)
        if (strcmp(u->row[i].program, program) == 0 && (!why || strcmp(u->row[i].why, why) == 0))
            return &u->row[i];
    return NULL;
}

/* Static programs that draw nothing, and that nearly every job of Python starts */
static bool draws_nothing(const char *program)
{
    const char *slash = strrchr(program, '/');

    return strcmp(slash ? slash + 1 : program, "ldconfig") == 0;
}

void tb_unreached_add(struct tb_unreached *u, const char *program, const char *why, uint64_t times)
{
    char plain[sizeof(u->row[0].program)];

    if (draws_nothing(program))
        return;
    (void)snprintf(plain, sizeof(plain), "%s", program);
    (void)tb_plain(plain, false);
    struct tb_unreached_row *r = find(u, plain, why);
    if (!r && u->count < TB_ARRAY_LEN(u->row)) {
        r = &u->row[u->count++];
        memcpy(r->program, plain, sizeof(plain));
        (void)snprintf(r->why, sizeof(r->why), "%s", why);
        r->python = strcmp(why, tb_preload_reach_text(TB_REACH_ISOLATED)) == 0;
    }
    if (r)
        r->times += times;
    else
        u->more += times;
}

void tb_unreached_merge(struct tb_unreached *u, const struct tb_unreached *seen)
{
    uint32_t told = u->count;

    for (uint32_t i = 0; i < seen->count; i++) {
        const struct tb_unreached_row *r = &seen->row[i];
        struct tb_unreached_row *there = find(u, r->program, NULL);
        if (!there || there >= u->row + told)
            tb_unreached_add(u, r->program, r->why, r->times);
    }
}

void tb_unreached_answered(struct tb_unreached *u, const struct tb_syscalls *s)
{
    for (uint32_t i = 0; i < u->count; i++)
        u->row[i].entropy = tb_syscalls_answered(s, u->row[i].program);
}

enum tb_status tb_unreached_store(const struct tb_unreached *u, struct tb_store *store,
                                  struct tb_error *err)
{
    char detail[200];
    enum tb_status st = TB_OK;

    for (uint32_t i = 0; st == TB_OK && i < u->count; i++) {
        const struct tb_unreached_row *r = &u->row[i];
        if (r->python)
            (void)snprintf(detail, sizeof(detail),
                           "pins of Python and torch are neither set nor seen in it: %s", r->why);
        else
            (void)snprintf(detail, sizeof(detail),
                           "its %sorder of folders and temporary names are not pinned: %s",
                           r->entropy ? "" : "entropy, ", r->why);
        st = tb_store_coverage(store, 0, 0, 0, 0, "pins", r->program, detail, r->times, err);
    }
    return st;
}

/* Nobody knows whether it drew anything */
void tb_unreached_say(const struct tb_unreached *u, struct tb_pins *pins)
{
    static const char *const ids[] = {"system.entropy", "system.readdir", "system.tempnames"};
    char text[150];

    for (uint32_t i = 0; i < u->count; i++)
        for (size_t k = 0; k < TB_ARRAY_LEN(ids) && !u->row[i].python; k++) {
            if (k == 0 && u->row[i].entropy)
                continue;
            (void)snprintf(text, sizeof(text), "nothing: %s", u->row[i].why);
            tb_pins_say(pins, -2 - (pid_t)i, u->row[i].program, ids[k], TB_PIN_WAS_UNSEEN, text);
        }
}

static void say_row(const struct tb_unreached_row *r, char *text, size_t size)
{
    const char *option = strrchr(r->program, '-');

    if (r->python)
        (void)snprintf(text, size,
                       "pins: '%.60s' keeps twinbit's part in Python out (%" PRIu64
                       " time%s; %s): pins of Python and torch are neither set nor seen in it; "
                       "start the job without %s%s",
                       r->program, r->times, r->times == 1 ? "" : "s", r->why,
                       option ? option : "it",
                       option && option[1] == 'I' ? ", -s -P do the rest of it" : "");
    else
        (void)snprintf(text, size,
                       "pins: not in '%.400s' (%" PRIu64 " time%s): its %sorder of folders and "
                       "temporary names are real: %s",
                       r->program, r->times, r->times == 1 ? "" : "s",
                       r->entropy ? "" : "entropy, ", r->why);
}

void tb_unreached_report(const struct tb_unreached *u, void (*line)(void *arg, const char *text),
                         void *arg)
{
    enum { LINES = 5 };
    char text[700];
    uint64_t more = u->more;

    for (uint32_t i = 0; i < u->count; i++) {
        const struct tb_unreached_row *r = &u->row[i];
        if (i >= LINES) {
            more += r->times;
            continue;
        }
        say_row(r, text, sizeof(text));
        line(arg, text);
    }
    if (more) {
        (void)snprintf(text, sizeof(text),
                       "pins: ... nor in %" PRIu64 " programs more: 'twinbit show' has all under "
                       "coverage",
                       more);
        line(arg, text);
    }
}
