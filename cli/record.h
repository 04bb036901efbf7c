/*
 * record.h - recording a job, as `run` and `bisect` both do it; private to cli/.
 */
#ifndef TB_CLI_RECORD_H
#define TB_CLI_RECORD_H

#include <stddef.h>

#include "cli/cli.h"
#include "collector/collector.h"
#include "deterministic/plan.h"

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
    const struct tb_pin_plan *pins; /* NULL: none */
    const char *replay;             /* the same */
    const char *frozen;             /* the same */
    uint64_t stress;                /* as struct tb_wire_config has it */
    uint32_t poison;                /* the same */
    struct tb_cli_list faults; /* of the software device, as `softgpu run --fault` takes them */
    const char *fault_log;     /* NULL: none */
    struct tb_cli_cuda {
        unsigned tap;     /* index into TB_CLI_TAPS */
        unsigned enqueue; /* index into TB_CLI_ENQUEUE */
        uint32_t sample;  /* of 65536 launches of a kernel; 0: all */
        uint64_t seed, launch_bytes;
        struct tb_cli_list kernels;
        bool learn;
    } cuda;
};

/* What a recording is when nothing is said. */
#define TB_CLI_RECORDING                                                                           \
    {                                                                                              \
        .level = TB_CLI_LEVEL_OP, .cuda = {.launch_bytes = 256u << 20 }                            \
    }

/* clang-format off */
/** TB_CLI_CUDA_OPTIONS - of a GPU's work; @rec: offset of the struct tb_cli_recording */
#define TB_CLI_CUDA_AT(rec, member) ((rec) + offsetof(struct tb_cli_recording, cuda.member))
#define TB_CLI_CUDA_OPTIONS(rec)                                                                   \
    {"--tap", NULL, TB_CLI_CHOICE, TB_CLI_CUDA_AT(rec, tap), TB_CLI_TAPS,                          \
     "a GPU's work is seen by a library before the driver (default), by CUPTI, or not"},           \
    {"--enqueue", NULL, TB_CLI_CHOICE, TB_CLI_CUDA_AT(rec, enqueue), TB_CLI_ENQUEUE,               \
     "with --tap cupti: hash from inside callbacks (default), or later where that is allowed"},    \
    {"--sample", NULL, TB_CLI_SHARE, TB_CLI_CUDA_AT(rec, sample), "R",                             \
     "hash a share of each kernel's launches, such as 0.01 (default 1)"},                          \
    {"--seed", NULL, TB_CLI_NUMBER, TB_CLI_CUDA_AT(rec, seed), "N",                                \
     "of that choice: the same seed chooses the same launches (default 0)"},                       \
    {"--kernel", NULL, TB_CLI_LIST, TB_CLI_CUDA_AT(rec, kernels), "PATTERN",                       \
     "hash these kernels only (* and ?), or with \"!...\" all but these; may be repeated"},        \
    {"--launch-bytes", NULL, TB_CLI_SIZE, TB_CLI_CUDA_AT(rec, launch_bytes), "SIZE",               \
     "hash at most so much for a launch; of more, a part (default 256M)"}
/* clang-format on */

#define TB_CLI_TAPS "shim|cupti|none"
#define TB_CLI_ENQUEUE "callback|deferred"
#define TB_CLI_LEVELS "boundary|op|kernel"
#define TB_CLI_ATTACH "preload|python|none"
#define TB_CLI_ON_FULL "wait|drop"
#define TB_CLI_DEVICE "host|softgpu"
enum { TB_CLI_DEVICE_HOST, TB_CLI_DEVICE_SOFTGPU };
enum { TB_CLI_LEVEL_BOUNDARY, TB_CLI_LEVEL_OP, TB_CLI_LEVEL_KERNEL };
enum { TB_CLI_TAP_SHIM, TB_CLI_TAP_CUPTI, TB_CLI_TAP_NONE };

/**
 * tb_cli_check_snapshots - TB_ERR_ARG if one of @list is not an event name
 * Accepted: [rank/process/role/]step/module-path/operator#k; what is before the step is dropped.
 */
enum tb_status tb_cli_check_snapshots(const struct tb_cli_list *list,
                                      struct tb_error *err) TB_MUST_CHECK;

/** tb_cli_check_kernels - TB_ERR_ARG, TB_ERR_LIMIT if @list is no list of kernel patterns */
enum tb_status tb_cli_check_kernels(const struct tb_cli_list *list,
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

/** tb_cli_record_aside - the same; what the job prints goes to standard error: results alone are on
 * standard output */
enum tb_status tb_cli_record_aside(const struct tb_cli_recording *r, const char *output,
                                   struct tb_collector_result *result,
                                   struct tb_error *err) TB_MUST_CHECK;

#endif
