/*
 * bisect_pins.h - parts of `twinbit bisect-pins`; private to cli/.
 *
 * cmd_bisect_pins.c has the options and the order of things, bisect_trial.c runs the job with a set
 * of pins and compares runs, bisect_search.c looks for the set, bisect_cost.c
 * measures it, bisect_report.c prints. One thread.
 */
#ifndef TB_CLI_BISECT_PINS_H
#define TB_CLI_BISECT_PINS_H

#include "cli/record.h"

#define TB_BP_COMPARE "auto|trace|output"
enum { TB_BP_AUTO, TB_BP_TRACE, TB_BP_OUTPUT };

#define TB_BP_MISSED 0.05 /* how often a set that does not help may pass, at most */
#define TB_BP_TEXT 300
#define TB_BP_LINES 8

/** enum tb_bp_verdict - what came of it all */
enum tb_bp_verdict {
    TB_BP_UNKNOWN, /* ended before anything was known */
    TB_BP_REPEATS, /* no two runs differed without pins */
    TB_BP_FOUND,   /* a set of pins makes the runs equal */
    TB_BP_NONE,    /* runs differ with all of them, too */
};

/** enum tb_bp_outcome - what came of some runs with the same pins */
enum tb_bp_outcome {
    TB_BP_SAME,
    TB_BP_DIFFER,
    TB_BP_UNUSABLE, /* a run ended with another status than those without pins */
    TB_BP_STOPPED,  /* interrupted, at --max-runs, or tb_bp.err says what failed */
};

struct tb_bp_run {
    unsigned number; /* from 1; names its files in the folder */
    int status;
    double wall_s;
};

/** struct tb_bp_cost - wall time with some pins over that without, run beside each other */
struct tb_bp_cost {
    bool known;
    double ratio, low, high; /* median, least and largest of the rounds */
};

/** struct tb_bp_dropped - a pin that was not tried, or not as asked */
struct tb_bp_dropped {
    const struct tb_pin *pin;
    const char *instead; /* id of the pin that was taken in its place, NULL: none */
    int status;          /* of the job with it */
    char line[TB_BP_TEXT];
};

struct tb_bp {
    struct tb_cli_recording rec;
    struct tb_cli_list pins;
    uint64_t repeats, max_runs, rounds, pin_seed;
    unsigned compare;
    bool force_pins, json;

    struct tb_pin_plan *all, *none; /* what was asked for; nothing */
    struct tb_pin_plan set; /* of the run under way: a mix of both, with choices of its own */
    size_t items, *item;    /* what can be left out: places in all->choice, cheap ones first */
    size_t unbuilt;         /* asked for, but this version does not set them */
    struct tb_bp_dropped dropped[TB_BP_LINES];
    size_t drops;

    char folder[4000];
    int terminal; /* for progress, -1: stderr is none */
    unsigned runs;
    int stopped;         /* status of a run that was interrupted, 0: none was */
    bool at_limit;       /* --max-runs */
    struct tb_error err; /* status TB_OK: nothing failed */
    char doing[80];      /* for progress */

    bool decided, by_output;       /* what runs are compared by */
    bool nothing;                  /* --compare trace, and there is nothing in them */
    char uncovered[TB_BP_TEXT];    /* why "equal" does not mean all, "": it does */
    char difference[TB_BP_TEXT];   /* of the last two runs that differed */
    char last_line[TB_BP_TEXT];    /* of the last run's standard error */
    int status;                    /* of runs without pins */
    bool any_status;               /* ... they differ in that */
    unsigned without, commonest;   /* runs without pins, and those of the commonest result */
    char line_without[TB_BP_TEXT]; /* the last of the first of them, on standard error */
    char difference_without[TB_BP_TEXT], difference_all[TB_BP_TEXT];
    char hint[TB_BP_LINES][TB_BP_TEXT]; /* pins that did not hold in the runs with all of them */
    size_t hints;

    enum tb_bp_verdict verdict;
    uint64_t equal;                    /* runs that must be equal for a set to do */
    bool equal_is_less;                /* ... than the rate asks for, because of --max-runs */
    bool *found;                       /* of each item */
    bool all_do;                       /* runs with all pins were equal */
    bool smallest;                     /* each of them was seen to be needed */
    bool confirmed;                    /* runs of its own were equal, after the search */
    struct tb_bp_cost together, *cost; /* of all that were found; of each item by itself */
};

/* ---------------------------------------------------------------- bisect_trial.c */

/** tb_bp_items - which pins of b->all can be left out; TB_ERR_NOMEM */
enum tb_status tb_bp_items(struct tb_bp *b, struct tb_error *err) TB_MUST_CHECK;

/** tb_bp_new_set - all pins or none of them; NULL: no memory. Freed with free() */
bool *tb_bp_new_set(const struct tb_bp *b, bool in);

/**
 * tb_bp_once - run the job with the pins of @in (of each item; NULL: none)
 * Returns: false if it shall be the last: b->stopped, b->at_limit or b->err says why. Its files
 * stay until tb_bp_drop().
 */
bool tb_bp_once(struct tb_bp *b, const bool *in, struct tb_bp_run *out) TB_MUST_CHECK;
void tb_bp_drop(const struct tb_bp *b, const struct tb_bp_run *run);

/** tb_bp_compare - SAME, DIFFER (b->difference says where) or STOPPED (b->err) */
enum tb_bp_outcome tb_bp_compare(struct tb_bp *b, const struct tb_bp_run *x,
                                 const struct tb_bp_run *y);

/** tb_bp_trial - run with these pins until two runs differ, @n times at most */
enum tb_bp_outcome tb_bp_trial(struct tb_bp *b, const bool *in, uint64_t n);

/** tb_bp_trace - path of a run's trace; returns @out */
const char *tb_bp_trace(const struct tb_bp *b, const struct tb_bp_run *run, char out[4096]);

/** tb_bp_doing - what progress says from now on */
void tb_bp_doing(struct tb_bp *b, const char *fmt, ...) TB_PRINTF(2, 3);

/* ---------------------------------------------------------------- bisect_search.c */

/** tb_bp_search - all of it: b->verdict and what belongs to it; TB_OK also where it was stopped */
enum tb_status tb_bp_search(struct tb_bp *b, struct tb_error *err) TB_MUST_CHECK;

/* ---------------------------------------------------------------- bisect_cost.c */

/** tb_bp_measure - run with what was found and without it, beside each other: b->cost, b->together
 */
void tb_bp_measure(struct tb_bp *b);

/* ---------------------------------------------------------------- cmd_bisect_pins.c */

/** tb_bp_plan - the plan that the options ask for, and @more (NULL: nothing); NULL: @err */
struct tb_pin_plan *tb_bp_plan(const struct tb_bp *b, const char *more, struct tb_error *err);

/* ---------------------------------------------------------------- bisect_report.c */

/** tb_bp_print - the report as text; tb_bp_json - as docs/bisect-pins.schema.json has it */
void tb_bp_print(const struct tb_bp *b);
void tb_bp_json(const struct tb_bp *b, int status);

#endif
