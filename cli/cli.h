/*
 * cli - the `twinbit` program: one table in main.c, one file a subcommand (cmd_<name>.c).
 *
 * Start at the table in main.c. A subcommand describes its options in a static const table
 * (struct tb_cli_option) and lets tb_cli_parse() fill a struct of its own; help is made of the same
 * table. Results go to stdout, all else through tb_log() to stderr.
 */
#ifndef TB_CLI_CLI_H
#define TB_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/common.h"

/* Exit statuses; `run` returns the job's own, or 125, 126, 127 as env(1) */
enum tb_exit {
    TB_EXIT_OK = 0,            /* same, passed */
    TB_EXIT_DIFFERS = 1,       /* differs, failed */
    TB_EXIT_ERROR = 2,         /* bad input, or twinbit could not do it */
    TB_EXIT_UNKNOWN = 3,       /* nothing was tested, or something needed was not covered */
    TB_EXIT_NOT_STARTED = 125, /* run: twinbit failed before the job began */
};

/* Subcommands: @argv[0] is the subcommand's name; the result is the program's exit status. */
int tb_cmd_run(int argc, char **argv);
int tb_cmd_diff(int argc, char **argv);
int tb_cmd_bisect(int argc, char **argv);
int tb_cmd_bisect_pins(int argc, char **argv);
int tb_cmd_show(int argc, char **argv);
int tb_cmd_doctor(int argc, char **argv);
int tb_cmd_pins(int argc, char **argv);
int tb_cmd_replay(int argc, char **argv);
int tb_cmd_version(int argc, char **argv);
int tb_cmd_help(int argc, char **argv);

/* ---------------------------------------------------------------- options.c */

enum tb_cli_kind {
    TB_CLI_FLAG,   /* bool, no value */
    TB_CLI_STRING, /* const char *, borrowed from argv */
    TB_CLI_LIST,   /* struct tb_cli_list; the option may be given several times */
    TB_CLI_NUMBER, /* uint64_t, decimal */
    TB_CLI_SIZE,   /* uint64_t, bytes; K, M, G, T are powers of 1024 */
    TB_CLI_SHARE,  /* uint32_t, of 65536: "0.25"; above 0, at most 1 */
    TB_CLI_STEPS,  /* struct tb_cli_steps: "7", "3..9", "3.." or "..9" */
    TB_CLI_CHOICE, /* unsigned: which of the words in `value`, which are separated by '|' */
};

#define TB_CLI_LIST_MAX 64

struct tb_cli_list {
    const char *item[TB_CLI_LIST_MAX];
    size_t count;
};

/** struct tb_cli_steps - both ends inclusive; `to` is UINT64_MAX where it is open */
struct tb_cli_steps {
    uint64_t from, to;
    bool given;
};

struct tb_cli_option {
    const char *name;   /* "--level" */
    const char *letter; /* "-l", NULL: none */
    enum tb_cli_kind kind;
    size_t offset;     /* of the member in the struct given to tb_cli_parse() */
    const char *value; /* what help calls the value; for CHOICE the words themselves */
    const char *help;  /* NULL: for tests, help leaves it out */
};

struct tb_cli_command {
    const char *program;  /* NULL: "twinbit" */
    const char *name;     /* "run" */
    const char *synopsis; /* "[options] -- CMD..." */
    const char *about;    /* what it does; lines as printed */
    const struct tb_cli_option *options;
    size_t option_count;
    const char *notes; /* printed after the options, NULL: none */
    bool job;          /* the first operand starts a command line of its own: options end there */
};

/** struct tb_cli_rest - operands, in order; points into argv, which tb_cli_parse() reorders */
struct tb_cli_rest {
    char **item; /* NULL-terminated */
    int count;
};

/**
 * tb_cli_parse - read a subcommand's options
 * @values: the subcommand's struct, filled with its defaults; untouched members keep them
 * @status: exit status when the result is false
 *
 * Returns: true to go on; false if help was printed (status 0) or the input was bad (one line on
 * stderr, status 2). Names are exact, `--name=value` and `--name value` are both accepted, "--"
 * ends options.
 */
bool tb_cli_parse(const struct tb_cli_command *cmd, int argc, char **argv, void *values,
                  struct tb_cli_rest *rest, int *status) TB_MUST_CHECK;

/** tb_cli_help - print the help of @cmd */
void tb_cli_help(const struct tb_cli_command *cmd, FILE *out);

/** tb_cli_usage - one line on stderr: "run: <text> (see 'twinbit run -h')". Returns TB_EXIT_ERROR
 */
int tb_cli_usage(const struct tb_cli_command *cmd, const char *fmt, ...) TB_PRINTF(2, 3);

/** tb_cli_error - one line on stderr: "run: <err->text>". Returns TB_EXIT_ERROR */
int tb_cli_error(const char *command, const struct tb_error *err);

/** tb_cli_parse_size / tb_cli_parse_number - false if @text is not wholly a number that fits */
bool tb_cli_parse_size(const char *text, uint64_t *out);
bool tb_cli_parse_number(const char *text, uint64_t *out);
/** tb_cli_parse_share - "0.25", "1", ".5"; false if it is not above 0 and at most 1 */
bool tb_cli_parse_share(const char *text, uint32_t *out);
/** tb_cli_parse_steps - "7", "3..9", "3..", "..9"; false if malformed or empty */
bool tb_cli_parse_steps(const char *text, struct tb_cli_steps *out);

/* ---------------------------------------------------------------- paths.c */

/**
 * tb_cli_libdir - folder of libtwinbit.so: @given, else $TWINBIT_LIBDIR, else ../lib/twinbit beside
 * the folder of this program
 * @out: at least 4096 bytes
 * Returns: TB_OK; TB_ERR_NOTFOUND, the text says where it was looked for.
 */
enum tb_status tb_cli_libdir(const char *given, char *out, size_t size,
                             struct tb_error *err) TB_MUST_CHECK;

/**
 * tb_cli_job_name - the stem a trace of this job is called by: that of the script where an
 * interpreter runs one ("python3 train.py" gives "train"), else of the program
 */
void tb_cli_job_name(char *const *argv, char *out, size_t size);

/**
 * tb_cli_free_trace - "<prefix>-<n>.twinbit" with the smallest n >= 1 that does not exist yet
 * Returns: TB_OK; TB_ERR_LIMIT after 9999 names.
 */
enum tb_status tb_cli_free_trace(const char *prefix, char *out, size_t size,
                                 struct tb_error *err) TB_MUST_CHECK;

/** tb_cli_one_file - is what would be written as @a the file that is read as @b? Links are followed
 */
bool tb_cli_one_file(const char *a, const char *b);

/**
 * tb_cli_scratch_make - a new folder "twinbit-<name>-XXXXXX" in $TMPDIR, else /tmp
 * The path is absolute, as a job may be told of it: a relative $TMPDIR is not followed.
 * tb_cli_scratch_remove - that folder with all that is in it; "" is none
 */
enum tb_status tb_cli_scratch_make(const char *name, char *out, size_t size,
                                   struct tb_error *err) TB_MUST_CHECK;
void tb_cli_scratch_remove(const char *folder);

/* ---------------------------------------------------------------- output.c */

/** tb_cli_flush - end of output; TB_EXIT_ERROR and a line on stderr if stdout could not be written
 */
int tb_cli_flush(int status);

/** tb_cli_colour - may stdout have colour? A terminal, and NO_COLOR is not set */
bool tb_cli_colour(void);

/** tb_json_string - @s in quotes with JSON's escapes; bytes that are not UTF-8 become U+FFFD */
void tb_json_string(FILE *out, const char *s);

/** tb_cli_bytes - "17 B", "1.2 MiB"; returns @buf */
const char *tb_cli_bytes(uint64_t n, char *buf, size_t size);

#endif
