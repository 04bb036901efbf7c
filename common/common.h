/*
 * common - status codes, the error a caller owns, and the log; used by every other folder.
 *
 * Start at enum tb_status: whatever can fail returns it, results leave through pointers that stay
 * untouched on failure, and the last parameter is an optional struct tb_error with the detail.
 */
#ifndef TB_COMMON_COMMON_H
#define TB_COMMON_COMMON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Values are stored in traces: never reuse one. */
enum tb_status {
    TB_OK = 0,
    TB_ERR_ARG = -1,          /* the caller's argument is not acceptable; nothing was changed */
    TB_ERR_NOMEM = -2,        /* memory could not be had */
    TB_ERR_IO = -3,           /* reading or writing failed; errno in tb_error.sys */
    TB_ERR_FORMAT = -4,       /* stored bytes are not of the expected format */
    TB_ERR_VERSION = -5,      /* the format is of a version this program does not read */
    TB_ERR_CORRUPT = -6,      /* the format is right, its content contradicts itself */
    TB_ERR_NOTFOUND = -7,     /* the named thing does not exist */
    TB_ERR_EXISTS = -8,       /* the named thing exists and must not be overwritten */
    TB_ERR_LIMIT = -9,        /* a stated limit was reached */
    TB_ERR_SYS = -10,         /* a system call failed; errno in tb_error.sys */
    TB_ERR_UNSUPPORTED = -11, /* legal, but this build or machine cannot do it */
    TB_ERR_BUSY = -12,        /* somebody else holds it; try again */
    TB_ERR_CUDA = -13,        /* a CUDA call failed; its code in tb_error.sys */
};

#define TB_ERROR_TEXT 512

/** struct tb_error - detail of a failure; owned by the caller, zero-initialise before first use */
struct tb_error {
    enum tb_status status;
    int sys; /* errno or a library's code, 0 if there is none */
    char
        text[TB_ERROR_TEXT]; /* lower case, no full stop: what failed, the subject in quotes, why */
};

#define TB_MUST_CHECK __attribute__((warn_unused_result))
#define TB_PRINTF(a, b) __attribute__((format(printf, a, b)))
#define TB_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/**
 * tb_fail - fill @err and return @status
 * @err: may be NULL
 *
 * Threads: any. Allocates: no.
 */
enum tb_status tb_fail(struct tb_error *err, enum tb_status status, const char *fmt, ...)
    TB_PRINTF(3, 4);

/** tb_fail_sys - as tb_fail(), appends ": <strerror(sys)>" and stores @sys */
enum tb_status tb_fail_sys(struct tb_error *err, enum tb_status status, int sys, const char *fmt,
                           ...) TB_PRINTF(4, 5);

/** tb_status_name - "TB_ERR_IO" and so on; never NULL, static */
const char *tb_status_name(enum tb_status status);

/**
 * tb_log - one line on stderr, "twinbit: " before it and a newline after it, in one write(2)
 *
 * For the command line tool only; what runs inside a job has no stderr (recorder/).
 * Threads: any. Allocates: no. Keeps errno.
 */
void tb_log(const char *fmt, ...) TB_PRINTF(1, 2);

/** tb_control - bytes of the control character at @c, which a terminal would obey; 0: it is none */
static inline int tb_control(const char *c)
{
    const unsigned char *u = (const unsigned char *)c;

    if (u[0] < ' ' || u[0] == 0x7f)
        return u[0] ? 1 : 0;
    return u[0] == 0xc2 && (u[1] & 0xe0) == 0x80 ? 2 : 0; /* U+0080 to U+009F in UTF-8 */
}

/**
 * tb_plain - what comes from a job may hold anything: '?' for each byte of a control character
 * @lines:    newlines and tabs stay
 *
 * Returns @text. Threads: any. Allocates: no.
 */
static inline char *tb_plain(char *text, bool lines)
{
    for (char *c = text; *c; c++) {
        int n = lines && (*c == '\n' || *c == '\t') ? 0 : tb_control(c);
        if (n > 1)
            *c++ = '?';
        if (n)
            *c = '?';
    }
    return text;
}

/**
 * tb_shell_word - @text as one word of a shell command, in quotes where they are needed
 * tb_shell_file - the same for a name of a file, which may begin with '-'
 * tb_program    - how this program, or the one called @name beside it, is called from here: with
 * the path by which the user called twinbit
 *
 * Return @out; what does not fit is cut. Threads: any. Allocate: no.
 */
char *tb_shell_word(const char *text, char *out, size_t size);
char *tb_shell_file(const char *path, char *out, size_t size);
char *tb_program(const char *name, char *out, size_t size);

/**
 * tb_shell_next  - the next word of a command line that tb_shell_word() made, its quotes taken off
 * tb_shell_again - a command line that somebody else's trace brought, each of its words in quotes
 * anew: all of it is words, whatever it holds
 *
 * Return what stands behind the word, NULL at the end; false: @size is too small. Threads: any.
 * Allocate: no.
 */
const char *tb_shell_next(const char *line, char *word, size_t size);
bool tb_shell_again(const char *line, char *out, size_t size);

/** struct tb_proc_stat - @start: in ticks since the machine was started */
struct tb_proc_stat {
    pid_t ppid;
    char state;
    uint64_t start;
};

/**
 * tb_proc_read - up to @size - 1 bytes of /proc/@pid/@file, a NUL after them; -1 if it cannot be
 * read
 * tb_proc_stat - false: there is no such process, or it cannot be seen
 *
 * Threads: any. Allocate: no.
 */
ssize_t tb_proc_read(pid_t pid, const char *file, char *buf, size_t size);
bool tb_proc_stat(pid_t pid, struct tb_proc_stat *out);

/**
 * tb_leftover_make - the new folder BASE/.twinbit-UID/NAME-XXXXXX. That of the middle is this
 * user's and has one name for all runs: a job that lists its TMPDIR sees nothing that differs
 * @out: its path, "" if it cannot be made: false, errno says why
 * tb_leftover_place - BASE/.twinbit-UID; false: @size is too small
 * tb_leftover_left - @folder, made so, was removed: that of the middle is, too, if it is empty
 *
 * tb_leftover_own    - this process owns @folder, which it has made: a file in it says so
 * tb_leftover_disown - remove that file
 * tb_leftover_clear  - remove the folders in @base, which may be NULL, of owners that are dead: of
 * this user, and known to no process that lives
 * Threads: any.
 */
bool tb_leftover_place(const char *base, char *out, size_t size);
bool tb_leftover_make(const char *base, const char *name, char *out, size_t size);
void tb_leftover_left(const char *folder);
void tb_leftover_own(const char *folder);
void tb_leftover_disown(const char *folder);
void tb_leftover_clear(const char *base);

#endif
