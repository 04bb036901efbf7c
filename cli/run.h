/*
 * run.h - what `twinbit run` was told, and running a job several times; private to cli/.
 */
#ifndef TB_CLI_RUN_H
#define TB_CLI_RUN_H

#include "cli/record.h"

/** struct tb_run - strings borrowed from the command line */
struct tb_run {
    struct tb_cli_recording rec;
    const char *output;
    uint64_t from_step;
    uint64_t times;
    struct tb_cli_list pins;
    uint64_t pin_seed;
    bool force_pins;
    bool stress;
    const char *poison;
    uint32_t fill[2]; /* what it says */
};

/** tb_run_prefix - where the traces of the job go: "<prefix>-<n>.twinbit" */
void tb_run_prefix(const struct tb_run *run, char *out, size_t size);

/** tb_run_record - record once to @path; the status to leave with, after a line if it failed */
int tb_run_record(const struct tb_run *run, const char *path, struct tb_collector_result *result);

/** tb_run_times - run->times runs, each compared with the first (-n, --stress, --poison); the
 * status to leave with */
int tb_run_times(const struct tb_run *run);

#endif
