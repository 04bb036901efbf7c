/* bisect-pins: what the pins that were found cost, in wall time. */
#include "cli/bisect_pins.h"

#include <stdlib.h>
#include <string.h>

struct timing {
    const bool *in; /* NULL: without pins */
    double *ratio;  /* of each round */
    struct tb_bp_cost *to;
    bool *own; /* freed with this */
};

static int by_size(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return a < b ? -1 : a > b;
}

static void take_cost(struct timing *t, uint64_t rounds)
{
    qsort(t->ratio, rounds, sizeof(*t->ratio), by_size);
    double middle = t->ratio[rounds / 2];
    if (rounds % 2 == 0)
        middle = (middle + t->ratio[rounds / 2 - 1]) / 2;
    *t->to = (struct tb_bp_cost){true, middle, t->ratio[0], t->ratio[rounds - 1]};
}

/* One run of each, beside each other, in another order each time */
static bool one_round(struct tb_bp *b, struct timing *t, size_t n, uint64_t round)
{
    double wall[64], bare = 0;

    for (size_t k = 0; k < n; k++) {
        size_t i = (k + round) % n;
        struct tb_bp_run run;
        if (!tb_bp_once(b, t[i].in, &run))
            return false;
        tb_bp_drop(b, &run);
        wall[i] = run.wall_s;
        bare = t[i].in ? bare : run.wall_s;
    }
    for (size_t i = 0; i < n; i++)
        t[i].ratio[round] = bare > 0 ? wall[i] / bare : 1;
    return true;
}

/* A pin with all that it needs */
static bool *alone(const struct tb_bp *b, size_t item)
{
    bool *set = tb_bp_new_set(b, false);

    if (!set)
        return NULL;
    set[item] = true;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < b->items; i++)
            for (size_t k = 0; set[i] && k < b->items; k++)
                for (const char *const *n = b->all->choice[b->item[i]].pin->needs; *n; n++)
                    if (!set[k] && strcmp(*n, b->all->choice[b->item[k]].pin->id) == 0)
                        more = set[k] = true;
    }
    return set;
}

/* Recorded at step ends only, so that hashing hides little; with no room left: fewer rounds */
void tb_bp_measure(struct tb_bp *b)
{
    struct tb_bp_cost bare;
    struct timing t[64] = {{.to = &bare}, {.in = b->found, .to = &b->together}};
    size_t n = 2, pins = 0;
    uint64_t rounds = 0, most;
    unsigned level = b->rec.level;

    for (size_t i = 0; i < b->items; i++)
        pins += b->found[i];
    for (size_t i = 0; pins > 1 && i < b->items && n < TB_ARRAY_LEN(t); i++)
        if (b->found[i] && (t[n].own = alone(b, i)) != NULL) {
            t[n].in = t[n].own;
            t[n++].to = &b->cost[i];
        }
    most = (b->max_runs - b->runs) / n;
    most = most < b->rounds ? most : b->rounds;
    for (size_t i = 0; i < n; i++)
        if ((t[i].ratio = calloc(most + 1, sizeof(*t[i].ratio))) == NULL)
            most = 0;
    b->rec.level = TB_CLI_LEVEL_BOUNDARY;
    tb_bp_doing(b, "what they cost");
    while (rounds < most && one_round(b, t, n, rounds))
        rounds++;
    b->rec.level = level;
    for (size_t i = 0; i < n; i++) {
        if (rounds > 0)
            take_cost(&t[i], rounds);
        free(t[i].ratio);
        free(t[i].own);
    }
    for (size_t i = 0; pins == 1 && i < b->items; i++)
        if (b->found[i])
            b->cost[i] = b->together;
}
