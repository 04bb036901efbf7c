/*
 * Private to collector/: instructions in the programs of a job that nobody can answer (rdrand,
 * rdtsc), as rows of pins and of coverage (pins system.rdrand, system.rdtsc).
 *
 * Processes write down which files hold their code (preload/files.c). Once the job has ended each
 * file is looked into once (code.h), and each program is told of with the files that it had. Start
 * at tb_instructions_new(). instructions.c collects and looks, instructions_rows.c tells.
 */
#ifndef TB_COLLECTOR_INSTRUCTIONS_H
#define TB_COLLECTOR_INSTRUCTIONS_H

#include "collector/code.h"
#include "deterministic/plan.h"

struct tb_pins;
struct tb_store;

#define TB_INSTRUCTIONS_PROGRAMS 256u /* more are counted only */

/** struct tb_instructions_file - a program or library */
struct tb_instructions_file {
    char *path;
    uint64_t in[TB_INSTRUCTIONS_PROGRAMS / 64]; /* bits: the programs that had it */
    enum {
        TB_FILE_OWN,     /* of the job */
        TB_FILE_SYSTEM,  /* below /usr and the like */
        TB_FILE_PACKAGE, /* of a Python package */
        TB_FILE_KNOWN,   /* libc, cryptography: it is known what they hold */
        TB_FILE_KINDS
    } kind;
    bool looked;
    struct tb_code_found found;
};

struct tb_instructions {
    bool set;                                   /* std::random_device is answered */
    uint32_t program[TB_INSTRUCTIONS_PROGRAMS]; /* the file that it is */
    uint32_t programs, current;
    uint64_t more; /* programs for which there was no room */
    struct tb_instructions_file *file;
    uint32_t files, room;
    uint32_t *slot, slots;     /* a table of files by path, numbers from 1 */
    uint32_t looked, in_part;  /* files; in_part: of them those that were cut */
    uint32_t unread, late;     /* files that were not: they cannot be, or a limit was there */
    uint32_t processes, ended; /* that wrote files down; ... and their last ones as well */
    bool open;                 /* the process that is taken has not ended yet */
};

/** tb_instructions_new - NULL: nobody asks, or no memory. tb_instructions_free() takes NULL */
struct tb_instructions *tb_instructions_new(const struct tb_pin_plan *plan);
void tb_instructions_free(struct tb_instructions *t);

#define TB_INSTRUCTIONS_CODE ((uint64_t)2 << 30) /* bytes of all files */
#define TB_INSTRUCTIONS_SECONDS 10

/* What processes wrote down, one after the other; @t may be NULL in all of these. Files go to the
 * program before them */
void tb_instructions_process(struct tb_instructions *t);
void tb_instructions_add(struct tb_instructions *t, const char *path, bool program);
void tb_instructions_end(struct tb_instructions *t); /* it said that these are all */

/** tb_instructions_look - into all files; takes some tenths of a second for a job of torch */
void tb_instructions_look(struct tb_instructions *t);

/* Rows of @pins; rows of coverage; lines for the user, where the job's own files have some */
void tb_instructions_say(const struct tb_instructions *t, struct tb_pins *pins);
enum tb_status tb_instructions_store(const struct tb_instructions *t, struct tb_store *store,
                                     struct tb_error *err) TB_MUST_CHECK;
uint64_t tb_instructions_rows(const struct tb_instructions *t);
void tb_instructions_report(const struct tb_instructions *t,
                            void (*line)(void *arg, const char *text), void *arg);

#endif
