/*
 * pins.h - what subcommands about pins share; private to cli/. Rows are those of a trace's text
 * "pins", as collector/pins.c writes them: after a first line about the run a line a pin and
 * process, fields with tabs between.
 */
#ifndef TB_CLI_PINS_H
#define TB_CLI_PINS_H

#include <stdbool.h>

#include "deterministic/catalogue.h"

enum tb_pin_row_field {
    TB_PIN_ROW_ID,
    TB_PIN_ROW_STATE,   /* "held" */
    TB_PIN_ROW_ASKED,   /* "" for nothing */
    TB_PIN_ROW_SEEN,    /* "" for nothing */
    TB_PIN_ROW_SOURCE,  /* "strict", "--pin" */
    TB_PIN_ROW_PROCESS, /* "" where none said anything */
    TB_PIN_ROW_STEP,    /* "-": not known */
    TB_PIN_ROW_WHERE,   /* "job.py:14" */
    TB_PIN_ROW_FIELDS
};

/** tb_pin_row_split - cut @line at its tabs, in place; false if it has too few fields */
bool tb_pin_row_split(char *line, char *field[TB_PIN_ROW_FIELDS]);

/**
 * tb_pins_verify - `twinbit pins --verify`: record a job under @profile and print what became of
 * each pin of the catalogue
 * @argv: the job, NULL-terminated; NULL: a small one of ours
 * Returns: the status to exit with.
 */
int tb_pins_verify(enum tb_pin_profile profile, bool json, char *const *argv);

#endif
