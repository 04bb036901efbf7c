/*
 * record.h - recording a job, as `run` and `bisect` both do it; private to cli/.
 */
#ifndef TB_CLI_RECORD_H
#define TB_CLI_RECORD_H

#include "cli/cli.h"
#include "collector/collector.h"

/** struct tb_cli_recording - how a job is recorded; strings borrowed for the call */
struct tb_cli_recording {
    char *const *argv;  /* the job, NULL-terminated */
    const char *libdir; /* as tb_cli_libdir() takes it, NULL: found */
    unsigned attach;    /* index into TB_CLI_ATTACH */
    unsigned level;     /* index into TB_CLI_LEVELS */
    unsigned on_full;   /* index into TB_CLI_ON_FULL */
    unsigned device;    /* index into TB_CLI_DEVICE */
    bool inputs, map, stack, force, quiet;
    uint64_t max_size;         /* bytes, 0: no limit */
    struct tb_cli_steps steps; /* recorded at `level`; the others at boundary */
    struct tb_cli_list snapshots;
    struct tb_cli_list faults; /* of the software device, as `softgpu run --fault` takes them */
    const char *fault_log;     /* NULL: none */
};

#define TB_CLI_LEVELS "boundary|op"
#define TB_CLI_ATTACH "preload|python|none"
#define TB_CLI_ON_FULL "wait|drop"
#define TB_CLI_DEVICE "host|softgpu"
enum { TB_CLI_DEVICE_HOST, TB_CLI_DEVICE_SOFTGPU };
enum { TB_CLI_LEVEL_BOUNDARY, TB_CLI_LEVEL_OP };

/**
 * tb_cli_check_snapshots - TB_ERR_ARG if one of @list is not an event name
 * Accepted: [rank/process/role/]step/module-path/operator#k; what is before the step is dropped.
 */
enum tb_status tb_cli_check_snapshots(const struct tb_cli_list *list,
                                      struct tb_error *err) TB_MUST_CHECK;

/**
 * tb_cli_use_device - let the jobs that this process starts find the chosen device
 * softgpu: sets the environment of this process as `softgpu run` does.
 * Returns: TB_ERR_ARG for faults that are none, or of a device that is not the software one;
 * TB_ERR_UNSUPPORTED if the job cannot work there, with what mends it.
 */
enum tb_status tb_cli_use_device(const struct tb_cli_recording *r,
                                 struct tb_error *err) TB_MUST_CHECK;

/**
 * tb_cli_record - run the job once and write the trace to @output
 * Returns: as tb_collector_run(); whenever it fails result->exit_status is the status to exit with.
 */
enum tb_status tb_cli_record(const struct tb_cli_recording *r, const char *output,
                             struct tb_collector_result *result,
                             struct tb_error *err) TB_MUST_CHECK;

#endif
