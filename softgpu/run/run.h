/*
 * softgpu/run - puts a program on the software device: finds the stand-in libraries, sets the
 * environment that makes the loader take them, and says beforehand when a program cannot work.
 * Start at sg_run_prepare(); the `softgpu` program (main.c) is its first user.
 */
#ifndef SG_RUN_RUN_H
#define SG_RUN_RUN_H

#include "common/common.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_RUN_PATH 4096

struct sg_run_options { /* NULL, 0 and false: what the environment or softgpu itself says */
    const char *libdir; /* folder of libcuda.so.1 */
    const char *arch;   /* "sm_80" */
    const char *order;  /* "index" */
    uint64_t devices, memory, workers, sms;
    const char *seed, *log;    /* numbers, as text: 0 is a value */
    const char *strict;        /* "report", "fail" */
    const char *tool_kernels;  /* patterns: kernels of a tool that watches the program */
    bool races;                /* also races inside kernels */
    const char *report;        /* file of the findings; one that is there is removed */
    const char *const *faults; /* specifications, added to those of the environment */
    size_t nfaults;
    const char *fault_log;    /* file; one that is there is removed */
    const char *fault_replay; /* file */
    bool force;               /* run what cannot work, too */
    bool eager;               /* CPU bodies for PyTorch's eager operators; also: SOFTGPU_EAGER=1 */
};

/** sg_run_libdir - the folder of libcuda.so.1: @given, else $SOFTGPU_LIBDIR, else beside this
 * program; TB_ERR_NOTFOUND says where it was looked for. @out: SG_RUN_PATH bytes */
TB_MUST_CHECK enum tb_status sg_run_libdir(const char *given, char *out, struct tb_error *err);

/**
 * sg_run_prepare - check @argv[0] and set the environment of this process for it
 *
 * The caller executes @argv next; nothing of the system is changed.
 * Returns: TB_OK; TB_ERR_UNSUPPORTED: the program cannot work on softgpu, the text says why and
 * what mends it; TB_ERR_ARG: an option or SOFTGPU_ variable; TB_ERR_NOTFOUND: no libraries.
 */
TB_MUST_CHECK enum tb_status sg_run_prepare(const struct sg_run_options *opt, char *const *argv,
                                            struct tb_error *err);

/* ---- inspect.c: what is known of a program before it starts ---- */

struct sg_program {
    bool elf;         /* a dynamic or static ELF program; else a script or something else */
    bool device_code; /* it has fat binaries */
    char cudart[64];  /* the runtime library it needs, "" if none */
    unsigned fatbins, fatbins_with_ptx;
    uint32_t least_ptx;     /* the oldest architecture that it has PTX for, 0: none */
    uint32_t least_machine; /* the same for machine code */
};

/** sg_program_inspect - read an ELF file; what is no ELF file is reported as such, not refused */
TB_MUST_CHECK enum tb_status sg_program_inspect(const char *path, struct sg_program *out,
                                                struct tb_error *err);
/** sg_program_refuse - TB_ERR_UNSUPPORTED with advice if it cannot work; @libdir: ours */
TB_MUST_CHECK enum tb_status sg_program_refuse(const struct sg_program *p, const char *path,
                                               const char *libdir, uint32_t arch,
                                               struct tb_error *err);
/** sg_fatbin_fn - @relocatable: the driver links it with all others that are */
typedef void sg_fatbin_fn(void *arg, const void *fatbin, size_t size, bool relocatable);
/** sg_program_fatbins - call @fn for each fat binary of an ELF file */
TB_MUST_CHECK enum tb_status sg_program_fatbins(const char *path, sg_fatbin_fn *fn, void *arg,
                                                struct tb_error *err);

/* ---- subcommands ---- */
int sg_cmd_run(int argc, char **argv);
int sg_cmd_info(int argc, char **argv);
int sg_cmd_ptx(int argc, char **argv);

#endif
