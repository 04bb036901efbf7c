/*
 * deterministic/plan - which pins of the catalogue a run asks for, with which values, and why.
 *
 * Made in the parent of the job from what the user wrote (`--pin strict,!cpu.mkl_cbwr`). Start at
 * tb_pin_plan_new(), add what was written in the order in which it was written, then
 * tb_pin_plan_finish(); the choices are read from the struct. Nothing here sets a pin.
 *
 * Grammar of one addition, items with commas between them:
 *   observe | basic | strict | portable   a profile: begins anew with its values
 *   ID            a pin, at the value that the catalogue gives it alone
 *   ID=VALUE      at this value, up to the next comma; of a cache: a trace that has it frozen
 *   !ID           not this pin
 *   FILE          what holds a '/' or ends in ".pins": a file of a team's own, an item a line,
 * where "ID = VALUE" takes the rest of the line, commas too; '#' begins a comment entropy=all
 * libraries for cryptography get pinned bytes, too
 */
#ifndef TB_DETERMINISTIC_PLAN_H
#define TB_DETERMINISTIC_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/common.h"
#include "deterministic/catalogue.h"

enum tb_pin_request {
    TB_PIN_LEAVE,   /* not asked for; read back where that costs nothing */
    TB_PIN_READ,    /* @read, @log: nothing is set */
    TB_PIN_KEEP,    /* @keep: what the job has at first; a later change is reported */
    TB_PIN_SET,     /* value is put in */
    TB_PIN_UNBUILT, /* asked for, and tb_pin.missing says why it is not done */
};

/** enum tb_pin_state - what became of a pin, as who reads it back says (wire.h, TB_MSG_PIN) */
enum tb_pin_state {
    TB_PIN_WAS_READ,  /* read: nothing was to be set */
    TB_PIN_WAS_GIVEN, /* given: the variable is in the job; what its library made of it was not seen
                       */
    TB_PIN_WAS_HELD,  /* held: what was asked for is what was seen */
    TB_PIN_WAS_JOB,   /* job: the job has a value of its own, which won */
    TB_PIN_WAS_CHANGED, /* changed: by the job, after it was held or kept for a while */
    TB_PIN_WAS_MISSED,  /* missed: set, but something else was seen */
    TB_PIN_WAS_REFUSED, /* refused: the system did not let it be set */
    TB_PIN_WAS_UNSEEN,  /* unseen: set, and nobody could read it back */
    TB_PIN_WAS_UNBUILT, /* unbuilt: asked for; this version does not do it */
    TB_PIN_STATES
};

/** tb_pin_state_name - "held" and so on; "?" for none. tb_pin_state_find - false: no such name */
const char *tb_pin_state_name(enum tb_pin_state state);
bool tb_pin_state_find(const char *name, enum tb_pin_state *out) TB_MUST_CHECK;

/** struct tb_pin_choice - what is asked for of one pin */
struct tb_pin_choice {
    const struct tb_pin *pin;
    enum tb_pin_request request;
    bool add;           /* SET: value is added to what the variable holds ("@add TEXT") */
    bool own;           /* the user named this pin, it does not just come with a profile */
    const char *value;  /* SET: what is put in (seeds: a decimal number); KEEP, READ, UNBUILT: the
                           catalogue's word or value; LEAVE: NULL */
    const char *source; /* "strict", "--pin", "team.pins:12"; LEAVE: NULL */
};

struct tb_pin_plan {
    enum tb_pin_profile profile; /* the last that was named */
    uint64_t seed;               /* of the run; seeds of pins are derived from it and their ids */
    bool force;                  /* pins win over what the job sets by itself */
    bool decisions;              /* what the job draws from the system is written down */
    bool all_entropy;            /* libraries for cryptography, too */
    bool of_file;                /* a file of pins was added */
    char asked[2048]; /* the caller's: options that ask for it again, as words of a shell, or "" */
    size_t count;
    struct tb_pin_choice *choice; /* one a pin, in the order of tb_pins() */
    char **note;                  /* lines for the user, of tb_pin_plan_finish() */
    size_t notes;
    struct tb_pin_text_list *texts; /* private: what the strings above point into */
};

/** tb_pin_plan_new - nothing is asked for yet; NULL: no memory. Freed with tb_pin_plan_free() */
struct tb_pin_plan *tb_pin_plan_new(void);
void tb_pin_plan_free(struct tb_pin_plan *p);

/**
 * tb_pin_plan_add - one addition, as the head of this file has it
 * Returns: TB_ERR_ARG names the item and what was likely meant; TB_ERR_IO, TB_ERR_NOTFOUND for a
 * file; TB_ERR_NOMEM. On failure the plan may hold a part of it: free it.
 */
enum tb_status tb_pin_plan_add(struct tb_pin_plan *p, const char *text,
                               struct tb_error *err) TB_MUST_CHECK;

/**
 * tb_pin_plan_finish - settle what pins need and what they conflict with, and make seeds
 *
 * What a named pin needs is added, what it conflicts with is dropped, unless that was named as
 * well: TB_ERR_ARG. A pin of a profile whose need was taken out by name goes with it. Each such
 * step is a note.
 */
enum tb_status tb_pin_plan_finish(struct tb_pin_plan *p, uint64_t seed,
                                  struct tb_error *err) TB_MUST_CHECK;

/** tb_pin_choice_of - the choice of the pin with this id; NULL: no such pin */
const struct tb_pin_choice *tb_pin_choice_of(const struct tb_pin_plan *p, const char *id);

/** tb_pin_sets_cache - does choice @c set a cache? tb_pin_cache_from - the trace that has it
 * frozen; NULL: it begins empty, or is none */
bool tb_pin_sets_cache(const struct tb_pin_choice *c);
const char *tb_pin_cache_from(const struct tb_pin_choice *c);

/** tb_pin_seed - seed of pin @id in a run with seed @run, below 2^32 (NumPy takes no more) */
uint32_t tb_pin_seed(uint64_t run, const char *id);

/**
 * tb_pin_plan_needs - is a pin of this mechanism asked to be set? With TB_PIN_PYTHON and
 * TB_PIN_TORCH the job's interpreter must load our package first
 */
bool tb_pin_plan_needs(const struct tb_pin_plan *p, enum tb_pin_mechanism mechanism);

/**
 * tb_pin_plan_write - the plan as libraries and Python in the job read it
 *
 * Text. First line "twinbit-pins 1 SEED FORCE", FORCE 0 or 1; then a line a pin:
 * ID \t MECHANISM \t REQUEST \t SETS \t VALUE \n, REQUEST one of leave,
 * read, keep, set, add, job. "add": VALUE is a part of what the variable holds. "job": the job had
 * a value of its own, which wins (@jobs, may be NULL: of each pin, is it so?).
 */
void tb_pin_plan_write(const struct tb_pin_plan *p, const bool *jobs, FILE *out);

#endif
