/* What a library that is injected into jobs may import; for the tests that read its symbols. */
#ifndef TB_TESTS_RECORDER_EXPORTS_H
#define TB_TESTS_RECORDER_EXPORTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a shell prints; it must end with 0. */
static inline char *output_of(const char *command)
{
    static char text[1 << 17];
    FILE *f = popen(command, "r");

    assert_non_null(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = 0;
    assert_int_equal(pclose(f), 0);
    return text;
}

/* No function of @path ends the job, prints or allocates for it; @allowed: all the same, or NULL.
 */
static inline void check_imports(const char *path, const char *allowed)
{
    static const char *const forbidden[] = {
        "exit",         "_exit",          "_Exit",        "quick_exit",
        "abort",        "__assert_fail",  "raise",        "kill",
        "printf",       "puts",           "putchar",      "fprintf",
        "vprintf",      "vfprintf",       "fwrite",       "fputs",
        "write",        "perror",         "signal",       "sigaction",
        "dprintf",      "syslog",         "stdout",       "stderr",
        "longjmp",      "pthread_create", "pthread_kill", "malloc",
        "calloc",       "realloc",        "free",         "__stack_chk_fail",
        "__printf_chk", "setenv",         "putenv",       "unsetenv",
        "atexit",       "__cxa_atexit",   "pthread_exit",
    };
    char command[4500];
    size_t names = 0;

    (void)snprintf(command, sizeof(command),
                   "nm -D --undefined-only '%s' | awk '{sub(/@.*/, \"\", $2); print $2}'", path);
    char *text = output_of(command);
    for (char *save, *name = strtok_r(text, "\n", &save); name;
         name = strtok_r(NULL, "\n", &save)) {
        names++;
        for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
            if (strcmp(name, forbidden[i]) == 0 && (!allowed || strcmp(name, allowed) != 0))
                fail_msg("'%s' imports '%s'", path, name);
    }
    assert_true(names > 10); /* something was tested */
}

/* It needs libc and nothing else. */
static inline void check_needed(const char *path)
{
    char command[4500];

    (void)snprintf(command, sizeof(command),
                   "readelf -d '%s' | grep NEEDED | sed 's/.*\\[//;s/].*//' | grep -v '^ld-linux'",
                   path);
    assert_string_equal(output_of(command), "libc.so.6\n");
}

#endif
