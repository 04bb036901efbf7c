/*
 * harness - run a job under the collector in a folder of its own, and look at what came of it.
 * Start at run_under(). The folder is removed when the test passes; a failed one is kept and
 * printed.
 */
#ifndef TB_TESTS_HARNESS_H
#define TB_TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "store/store.h"

struct outcome {
    int status; /* of waitpid */
    int exit_status;
    char out[65536], err[65536];
    uint64_t events, lost, coverage, processes, not_covered, steps;
    double wall_s;
};

/** test_folder - a new folder, also the current one; test_folder_done - remove it */
const char *test_folder(void);
void test_folder_done(void);
/** set_up, tear_down - for cmocka_unit_test_setup_teardown: the folder, and the environment of the
 * fakes */
int set_up(void **state);
int tear_down(void **state);

/** job_path, driver_path, preload_path - what the build made */
const char *job_path(void);
const char *driver_path(void);
const char *preload_path(void);
const char *shim_path(void);

/** start - run @argv (NULL-terminated), stdout and stderr into files; its pid */
pid_t start(const char *const *argv);
/** finish - wait for it and read what it wrote; the driver's result too if it wrote one */
void finish(pid_t pid, struct outcome *o);
/** run_plain - the job alone; run_under - under the driver: "-o out.twinbit -R result", @options,
 * "--", job */
void run_plain(struct outcome *o, const char *words);
void run_under(struct outcome *o, const char *options, const char *words);
/** start_under - the same, not waited for. Words are split at spaces; "JOB" is not needed, it is
 * the job */
pid_t start_under(const char *options, const char *words);
/** child_of - pid of the first child of @pid, waited for up to 5 s; 0 if there is none */
pid_t child_of(pid_t pid);
void wait_for_file(const char *path);
uint64_t now_ms(void);

/* A trace, read whole. */
struct tags {
    uint64_t *tag; /* args of events, in the order of the process's seq */
    size_t n;
};
struct tb_trace *open_trace(void);
/** process_tags - args of all events of @process; free with free(tags.tag) */
struct tags process_tags(struct tb_trace *t, uint32_t process);
/** assert_run - @n tags from @first on are there, each once, in order, among those with the same
 * upper half */
void assert_run(const struct tags *t, uint64_t first, uint64_t n);
/** has_coverage - a row of that kind whose subject or detail contains @text */
bool has_coverage(struct tb_trace *t, const char *kind, const char *text);

#endif
