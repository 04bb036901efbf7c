/* Runs a program under the preloaded library, for its tests: a folder a run, what it printed, its
 * log. */
#ifndef TB_TESTS_DETERMINISTIC_PINS_RUN_H
#define TB_TESTS_DETERMINISTIC_PINS_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deterministic/preload/config.h"
#include "deterministic/preload/log.h"

#ifndef TEST_PINS
#define TEST_PINS "libtwinbit_pins.so"
#define TEST_JOB "pins_job"
#endif

/** struct pins_run - one run; zero-initialise */
struct pins_run {
    struct tb_preload_config config; /* what a test sets stays; folder is filled in */
    char folder[256];                /* of the run: made, and taken away by pins_run_done() */
    char output[65536];
    int status; /* as wait(2) has it */
};

static inline void pins_run_prepare(struct pins_run *r)
{
    struct tb_error err = {0};
    char path[512];

    (void)snprintf(r->folder, sizeof(r->folder), "/tmp/twinbit-test-pins-XXXXXX");
    assert_non_null(mkdtemp(r->folder));
    (void)snprintf(r->config.folder, sizeof(r->config.folder), "%s/log", r->folder);
    (void)snprintf(path, sizeof(path), "%s/config", r->folder);
    if (tb_preload_config_write(path, &r->config, &err) != TB_OK)
        fail_msg("%s", err.text);
}

/* All kinds in @mode */
static inline void pins_run_mode(struct pins_run *r, enum tb_preload_mode mode, uint64_t seed)
{
    r->config.entropy = r->config.listing = r->config.tempnames = (uint32_t)mode;
    r->config.seeds = (uint32_t)mode;
    r->config.time = TB_PRELOAD_LOG;
    r->config.seed = seed;
}

enum { PINS_RUN_OTHER_PID = 99 };

/* What @line prints and how it ends */
static inline void pins_run_read(struct pins_run *r, const char *line)
{
    FILE *f = popen(line, "r");

    assert_non_null(f);
    size_t n = fread(r->output, 1, sizeof(r->output) - 1, f);
    r->output[n] = 0;
    r->status = pclose(f);
}

/* @command: words for a shell, which itself is not preloaded. Never as a process below 1000, whose
 * number is not taken for a seed by itself, nor as 1234, which a test has as one of its own choice
 */
static inline void pins_run_start(struct pins_run *r, const char *command)
{
    char line[8192];

    if (!r->folder[0])
        pins_run_prepare(r);
    (void)snprintf(line, sizeof(line),
                   "[ $$ -ge 1000 ] && [ $$ -ne 1234 ] || exit %d; " TB_PRELOAD_ENV
                   "='%s/config' LD_PRELOAD='" TEST_PINS "' exec %s 2>&1",
                   PINS_RUN_OTHER_PID, r->folder, command);
    do
        pins_run_read(r, line);
    while (WIFEXITED(r->status) && WEXITSTATUS(r->status) == PINS_RUN_OTHER_PID);
}

static inline void pins_run_job(struct pins_run *r, const char *parts)
{
    char command[4096];

    (void)snprintf(command, sizeof(command), "'" TEST_JOB "' %s", parts);
    pins_run_start(r, command);
    if (r->status != 0)
        fail_msg("'%s' ended with %d: %s", parts, r->status, r->output);
}

static inline void pins_run_done(struct pins_run *r)
{
    char command[512];

    if (r->folder[0]) {
        (void)snprintf(command, sizeof(command), "rm -rf '%s'", r->folder);
        assert_int_equal(system(command), 0);
    }
    r->folder[0] = 0;
}

/** pins_each - all events of the run's processes */
static inline size_t pins_each(const struct pins_run *r,
                               void (*see)(const struct tb_preload_file *,
                                           const struct tb_preload_event *, void *),
                               void *arg)
{
    struct tb_preload_logs *logs = NULL;
    struct tb_error err = {0};

    if (tb_preload_logs_open(r->config.folder, &logs, &err) != TB_OK)
        fail_msg("%s", err.text);
    size_t count = tb_preload_logs_count(logs);
    for (size_t i = 0; i < count; i++) {
        struct tb_preload_log *log = NULL;
        struct tb_preload_event e;
        if (tb_preload_log_at(logs, i, &log, &err) != TB_OK)
            fail_msg("%s", err.text);
        assert_int_equal(tb_preload_log_file(log)->dropped, 0);
        while (tb_preload_log_next(log, &e))
            see(tb_preload_log_file(log), &e, arg);
        tb_preload_log_close(log);
    }
    tb_preload_logs_close(logs);
    return count;
}

/** struct pins_sum - records of a run, counted */
struct pins_sum {
    size_t kind[65536 / 256]; /* by kind, all of which are below 256 */
    size_t marks[16];         /* by number of the bit; of answers only */
    size_t answers;
};

static inline void pins_sum_one(const struct tb_preload_file *f, const struct tb_preload_event *e,
                                void *arg)
{
    struct pins_sum *sum = arg;

    (void)f;
    assert_true(e->record->kind < 256);
    sum->kind[e->record->kind]++;
    if (e->record->kind < TB_PRELOAD_GETRANDOM)
        return;
    sum->answers++;
    assert_true(tb_preload_is_decision(e->record->kind) || (e->module[0] != 0 && e->offset > 0));
    for (int i = 0; i < 16; i++)
        sum->marks[i] += (e->record->marks >> i) & 1;
}

static inline struct pins_sum pins_sum(const struct pins_run *r)
{
    struct pins_sum sum = {0};

    assert_true(pins_each(r, pins_sum_one, &sum) > 0);
    return sum;
}

#endif
