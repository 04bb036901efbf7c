/*
 * Private to collector/: which files hold instructions whose results nobody can answer, as no
 * system and no library is between them and the program: random numbers of the CPU and its counter.
 *
 * Start at tb_code_look(), which looks into one file. code_elf.c reads its tables, code_scan.c
 * finds candidates and the functions that they are in, code_x86.c and code_arm.c know the
 * instructions. The bytes of one come by chance as well, inside of other instructions and in data:
 * a candidate counts if decoding from the begin of its function comes to it.
 */
#ifndef TB_COLLECTOR_CODE_H
#define TB_COLLECTOR_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/common.h"

enum tb_code_kind {
    TB_CODE_RANDOM, /* rdrand, rdseed; RNDR, RNDRRS */
    TB_CODE_CLOCK,  /* rdtsc, rdtscp; CNTVCT_EL0, CNTVCTSS_EL0 */
    TB_CODE_KINDS
};

#define TB_CODE_SPOTS (1u << 20)             /* candidates of one file */
#define TB_CODE_DECODED ((uint64_t)64 << 20) /* bytes of one file */
#define TB_CODE_NAMES 240u                   /* bytes of a list of functions */

/** struct tb_code_found - what a file holds */
struct tb_code_found {
    uint32_t count[TB_CODE_KINDS];
    char functions[TB_CODE_KINDS]
                  [TB_CODE_NAMES]; /* the first three with symbols: "seed_of, main" */
    uint64_t bytes;                /* of code */
    bool cut; /* candidates are left that were not looked at: there were more than TB_CODE_SPOTS of
               * them, or decoding came beyond TB_CODE_DECODED */
};

/**
 * tb_code_look - the instructions in the file at @path
 * @most: bytes of code that may be read
 *
 * Returns: TB_OK; TB_ERR_IO; TB_ERR_FORMAT: no 64-bit program or library for a CPU that this
 * twinbit knows; TB_ERR_LIMIT: it has more code than @most; TB_ERR_NOMEM. The file may change
 * meanwhile. Threads: any.
 */
enum tb_status tb_code_look(const char *path, uint64_t most, struct tb_code_found *out,
                            struct tb_error *err) TB_MUST_CHECK;

/* ---------------------------------------------------------------- code_x86.c, code_arm.c */

#define TB_CODE_AHEAD 16u /* bytes behind a candidate that must be there to decode it */

/** struct tb_code_cpu - what is known of one kind of CPU */
struct tb_code_cpu {
    uint16_t machine; /* EM_X86_64 and so on */
    /* offset of the next candidate in @n bytes, at @from or behind; @n: none. TB_CODE_AHEAD bytes
     * behind them can be read */
    size_t (*next)(const uint8_t *bytes, size_t n, size_t from);
    /* Decode from @*at, moved on, until behind @to, or as far as @n bytes of it (@end: there are no
     * more of them) go. True: what holds the byte @to is one of ours, @*kind */
    bool (*decode)(const uint8_t *bytes, size_t n, bool end, size_t *at, size_t to,
                   enum tb_code_kind *kind);
};

extern const struct tb_code_cpu tb_code_arm;
#ifdef __x86_64__
extern const struct tb_code_cpu tb_code_x86;
#endif

/* ---------------------------------------------------------------- code_elf.c */

struct tb_code_range {
    uint64_t address, offset, size;
};

/** struct tb_code_elf - an open file and where its tables are */
struct tb_code_elf {
    int fd;
    uint16_t machine;
    struct tb_code_range load[16], code[64]; /* what is mapped; what holds instructions */
    unsigned loads, codes;
    struct tb_code_symbols { /* .symtab, .dynsym */
        uint64_t offset, size, names, names_size;
    } symbols[2];
    unsigned tables;
    uint64_t base;          /* address of .eh_frame_hdr */
    int32_t (*function)[2]; /* its table: begin of a function and its entry, from @base; sorted */
    uint32_t functions;
};

/** tb_code_open - as tb_code_look(); closed with tb_code_close() */
enum tb_status tb_code_open(const char *path, struct tb_code_elf *out,
                            struct tb_error *err) TB_MUST_CHECK;
void tb_code_close(struct tb_code_elf *e);

/** tb_code_read - up to @n bytes at @offset; how many there were */
size_t tb_code_read(const struct tb_code_elf *e, uint64_t offset, void *out, size_t n);

/** tb_code_function - begin and end of the function that holds @address, by the table for
 * unwinding; false: it has none there */
bool tb_code_function(const struct tb_code_elf *e, uint64_t address, uint64_t *begin,
                      uint64_t *end);

/** tb_code_each_symbol - calls @fn for each function's symbol; @table and @name lead to its name */
void tb_code_each_symbol(const struct tb_code_elf *e,
                         void (*fn)(void *arg, uint64_t address, uint64_t size, unsigned table,
                                    uint32_t name),
                         void *arg);

/** tb_code_name - of a symbol, "" if it cannot be read */
void tb_code_name(const struct tb_code_elf *e, unsigned table, uint32_t name, char *out,
                  size_t size);

#endif
