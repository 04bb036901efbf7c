/*
 * deterministic/catalogue - the pins that twinbit knows: what each takes hold of, its value in each
 * profile, how it is read back, what it costs, what it collides with. Constant data made from
 * pins.txt by gen_pins.py; nothing here sets a pin.
 *
 * Start at struct tb_pin, then tb_pin_find() and tb_pin_value(). pins.txt explains each field.
 * Everything returned is static: it lives as long as the process and is never freed.
 * Threads: any. Allocates: no. Needs libc alone, so that what runs in a job may use it.
 */
#ifndef TB_DETERMINISTIC_CATALOGUE_H
#define TB_DETERMINISTIC_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/common.h"

/** enum tb_pin_profile - each but the first includes the one before it, from strict on */
enum tb_pin_profile {
    TB_PIN_OBSERVE,  /* sets nothing: reads back, and writes decisions down */
    TB_PIN_BASIC,    /* costs nothing */
    TB_PIN_STRICT,   /* repeatable on the same kind of machine */
    TB_PIN_PORTABLE, /* and on other x86-64 CPUs */
    TB_PIN_PROFILES
};

/** enum tb_pin_mechanism - how a pin takes hold; tb_pin_mechanism_text() explains each */
enum tb_pin_mechanism {
    TB_PIN_ENV,
    TB_PIN_PROCESS,
    TB_PIN_PYTHON,
    TB_PIN_TORCH,
    TB_PIN_PRELOAD,
    TB_PIN_CUDA,
    TB_PIN_NONE,
    TB_PIN_MECHANISMS
};

/** enum tb_pin_reader - who reads back what became of a pin; tb_pin_reader_text() explains each */
enum tb_pin_reader {
    TB_PIN_READER_PARENT,
    TB_PIN_READER_RUNTIME,
    TB_PIN_READER_PRELOAD,
    TB_PIN_READER_PYTHON,
    TB_PIN_READER_TORCH,
    TB_PIN_READER_CUDA,
    TB_PIN_READER_NCCL,
    TB_PIN_READERS
};

enum tb_pin_cost {
    TB_PIN_COST_NONE,
    TB_PIN_COST_SMALL,
    TB_PIN_COST_LARGE,
    TB_PIN_COST_VARIES, /* with the job */
    TB_PIN_COST_UNKNOWN,
    TB_PIN_COSTS
};

/** enum tb_pin_confirmed - how far what is said of a pin is known */
enum tb_pin_confirmed {
    TB_PIN_CONFIRMED_YES, /* seen in the library's source or binary, or tried */
    TB_PIN_CONFIRMED_DOC, /* documentation or maintainers say so */
    TB_PIN_CONFIRMED_NO,  /* believed; tb_pin.doubt says what is not known */
    TB_PIN_CONFIRMED_COUNT
};

/** struct tb_pin_text - a name and what it stands for */
struct tb_pin_text {
    const char *name, *text;
};

struct tb_pin_conflict {
    bool job;          /* with a setting of the job, else with another pin */
    const char *other; /* the setting, or the other pin's id; NULL ends the list */
    const char *why;
};

/** struct tb_pin - one row; what may be NULL says so */
struct tb_pin {
    const char *id;    /* "python.hashseed" */
    const char *group; /* "python", see tb_pin_groups() */
    const char *pins;  /* what it takes hold of, one line */
    enum tb_pin_mechanism mechanism;
    const char *sets;                   /* the variable, call or attribute */
    const char *since;                  /* version */
    const char *value[TB_PIN_PROFILES]; /* literal, or a word ("@seed"); NULL: left alone */
    const char *single; /* value where only this pin is asked for; NULL: that of the first profile
                           that sets it */
    const char *form;   /* "number 0..255", what a value looks like (pins.txt); NULL: any text */
    enum tb_pin_reader reader;
    const char *verify; /* how it is read back */
    enum tb_pin_cost cost;
    const char *cost_note;
    const char *const *needs; /* ids, ends with NULL */
    const struct tb_pin_conflict *conflicts;
    const char *note;    /* may be NULL */
    const char *missing; /* what this version does not do of it: it is never set; NULL: built */
    enum tb_pin_confirmed confirmed;
    const char *doubt;          /* may be NULL */
    const char *const *sources; /* ends with NULL, at least one */
};

/** tb_pins - all pins, by group; @count: how many */
const struct tb_pin *tb_pins(size_t *count);

/** tb_pin_find - the pin of this id; NULL if there is none */
const struct tb_pin *tb_pin_find(const char *id);

/**
 * tb_pin_near - pins that somebody who typed @text may have meant, the likeliest first
 *
 * Looks for ids that differ in few letters or hold @text, and for what pins set ("PYTHONHASHSEED").
 * Returns: how many of @max were put into @out; 0 if none is near.
 */
size_t tb_pin_near(const char *text, const struct tb_pin **out, size_t max);

/** tb_pin_value - value of @pin in @profile; NULL: the profile leaves it alone */
const char *tb_pin_value(const struct tb_pin *pin, enum tb_pin_profile profile);

/**
 * tb_pin_changes - does this value change what a job does by itself?
 * @value: of tb_pin_value(); NULL, "@read", "@log" and "@keep" do not
 */
bool tb_pin_changes(const char *value);

/**
 * tb_pin_alone - value of @pin where it is asked for alone, without a value: tb_pin.single, else
 * that of the first profile which sets it
 * Returns: NULL if there is nothing to set.
 */
const char *tb_pin_alone(const struct tb_pin *pin);

/** tb_pin_is_cache - is its word "@cache"? A literal value is then a trace that has it frozen */
bool tb_pin_is_cache(const struct tb_pin *pin);

/**
 * tb_pin_fits - has @value, which is no word, the form of @pin?
 * tb_pin_form_text - what it looks like, in words: "a number from 0 to 255"
 */
bool tb_pin_fits(const struct tb_pin *pin, const char *value);
void tb_pin_form_text(const struct tb_pin *pin, char *out, size_t size);

/** tb_pin_conflicting - why @a and @b do not go together, whichever of them says so; NULL: they do
 */
const char *tb_pin_conflicting(const struct tb_pin *a, const struct tb_pin *b);

/**
 * tb_pin_word - the word that @value begins with, and its meaning
 * @argument: what stands behind the word ("@add TEXT"), "" if nothing; may be NULL
 * Returns: NULL if @value is a literal.
 */
const struct tb_pin_text *tb_pin_word(const char *value, const char **argument);

/** tb_pin_profile_find - false if there is no profile of this name */
bool tb_pin_profile_find(const char *name, enum tb_pin_profile *out) TB_MUST_CHECK;

/* Groups (name and title) and words of values, in the order of pins.txt */
const struct tb_pin_text *tb_pin_groups(size_t *count);
const struct tb_pin_text *tb_pin_words(size_t *count);

/* Names and meanings, each in an array by the values of its enum; NULL for what is none of them */
const struct tb_pin_text *tb_pin_profile_text(enum tb_pin_profile profile);
const struct tb_pin_text *tb_pin_mechanism_text(enum tb_pin_mechanism mechanism);
const struct tb_pin_text *tb_pin_reader_text(enum tb_pin_reader reader);

/* "none", "small", ...; "yes", "doc", "no"; "?" for a value that is none of the enum */
const char *tb_pin_cost_name(enum tb_pin_cost cost);
const char *tb_pin_confirmed_name(enum tb_pin_confirmed confirmed);

#endif
