/*
 * collector - the parent of the job: starts it, drains the rings of its processes, writes the
 * trace.
 *
 * Start at tb_collector_run(). One thread talks to the job (socket, signals, children), one drains
 * rings and writes the store; the tap is built, when it must be, in a child process of its own.
 */
#ifndef TB_COLLECTOR_COLLECTOR_H
#define TB_COLLECTOR_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/common.h"
#include "recorder/wire.h"

struct tb_pin_plan;
struct tb_trace;

/* Texts of a trace: names of logs of deterministic/preload/, a line each; and each log by its name
 */
#define TB_DRAWS_LIST "pins.logs"
#define TB_DRAWS_LOG "pins.log/"
/* ... and of folders of files that were frozen (store/FORMAT.md) */
#define TB_CACHES_LIST "pins.caches"

/** struct tb_collector_options - what `twinbit run` was told; strings borrowed for the call */
struct tb_collector_options {
    const char *output; /* a file, or a folder (then <host>-<SLURM_PROCID or pid>.twinbit inside) */
    bool force;         /* overwrite */
    uint64_t max_size;  /* bytes, 0: no limit */
    char *const *argv;  /* the job, NULL-terminated */
    struct tb_wire_config config;
    const char *libdir; /* folder of libtwinbit.so, the tap's source and the Python package */
    const char *device; /* "softgpu", the software one; NULL: what the host has */
    const struct tb_pin_plan
        *pins; /* finished (deterministic/plan.h); NULL: none, none read back */
    const char
        *replay; /* folder of logs of what another run drew, which this one draws again; or NULL */
    const char *frozen; /* trace from which pins "@cache" take their files; NULL: their own values,
                           else none */
    const char *attach; /* "preload" (or NULL), "python" (import hook by PYTHONPATH), "none" */
    bool progress;      /* stderr is a terminal: show events/s, size, overhead */
    bool quiet;         /* no closing paragraph */
};

/** struct tb_collector_result - what the closing paragraph says */
struct tb_collector_result {
    int exit_status; /* the job's own, 128 + n after a signal; 125, 126, 127 as DESIGN */
    uint64_t events, accesses, steps, coverage, lost, bytes;
    uint32_t processes, not_covered;
    double wall_s, collector_cpu_s;
    uint64_t unarrived;  /* fingerprints that a device never wrote: a fault, or it was killed */
    uint64_t trimmed;    /* events whose detail was deleted (max_size) */
    bool boundary;       /* recorded at that level */
    const char *no_cuda; /* why work of a GPU was not looked for; NULL: it was */
    char trace[4096];    /* the file that was written, "" if none */
};

/**
 * tb_collector_run - run a job and record it
 * Returns: TB_OK whenever the job was started (result->exit_status is the job's), else an error and
 * the status to exit with in result->exit_status (125, 126, 127). Prints coverage and the closing
 * paragraph on stderr unless quiet. Blocks until the job has ended.
 * Threads: one per process (signals, children).
 */
enum tb_status tb_collector_run(const struct tb_collector_options *options,
                                struct tb_collector_result *result,
                                struct tb_error *err) TB_MUST_CHECK;

/** tb_isolated - the option by which the Python that this command line starts keeps our part out:
 * 'I', 'E' or 'S'; 0: none does, or it starts no Python. Threads: any. Allocate: no. */
char tb_isolated(char *const *argv);

/** tb_caches_need - TB_ERR_NOTFOUND if the trace has no frozen folder of the pin @id */
enum tb_status tb_caches_need(struct tb_trace *t, const char *id,
                              struct tb_error *err) TB_MUST_CHECK;

/**
 * tb_tap_build - path of the torch tap for the libtorch_cpu.so at @libtorch, built if the cache
 * lacks it
 * @path: at least 1024 bytes. Cache: $XDG_CACHE_HOME/twinbit or ~/.cache/twinbit, 0700, keyed by
 * the library's build-id, the compiler and the tap's sources; made under a lock. If TWINBIT_TAP is
 * set to a path, that tap is used as it is.
 *
 * Returns: TB_ERR_UNSUPPORTED with the command that mends it, if there is no C++ compiler or no
 * headers.
 */
enum tb_status tb_tap_build(const char *libdir, const char *libtorch, char *path, size_t size,
                            struct tb_error *err) TB_MUST_CHECK;

#endif
