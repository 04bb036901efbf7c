/* options - what the SOFTGPU_ variables say, for the driver at cuInit and for `softgpu run` before
 * it starts a program; and the architectures there are. */
#ifndef SG_DRIVER_OPTIONS_H
#define SG_DRIVER_OPTIONS_H

#include "common/common.h"
#include "softgpu/mem/mem.h"

#include <stdbool.h>
#include <stdint.h>

#define SG_MAX_DEVICES SG_MEM_MAX_DEVICES

enum sg_strict_mode { SG_STRICT_OFF = 0, SG_STRICT_REPORT, SG_STRICT_FAIL };

struct sg_options {        /* from the environment */
    unsigned devices;      /* SOFTGPU_DEVICES, 1 */
    uint32_t arch;         /* SOFTGPU_ARCH=sm_80 */
    unsigned sms;          /* SOFTGPU_SMS: simulated, 4 */
    unsigned sms_reported; /* SOFTGPU_SMS_REPORTED, 108 */
    uint64_t memory;       /* SOFTGPU_MEMORY=8G, a device */
    char name[96];         /* SOFTGPU_NAME */
    uint64_t seed;         /* SOFTGPU_SEED, 0 */
    bool in_order;    /* SOFTGPU_ORDER=index: blocks and warps by index, streams as submitted */
    unsigned workers; /* SOFTGPU_WORKERS, 0: all cores */
    bool launch_blocking;
    enum sg_strict_mode strict; /* SOFTGPU_STRICT: off, report, fail */
    bool races;                 /* SOFTGPU_STRICT_RACES=1: look for races in kernels */
    char tool_kernels[1024];    /* SOFTGPU_TOOL_KERNELS: patterns, ',' between them */
    char report[1024];          /* SOFTGPU_REPORT: file of the findings, "" for none */
    int log; /* SOFTGPU_LOG: 0 nothing, 1 refusals (default), 2 every launch, 3 every call */
};

/** sg_tool_kernel - is @name one of SOFTGPU_TOOL_KERNELS? They belong to a tool that watches the
 * program: they draw nothing from the seed, so that the program runs as without them */
bool sg_tool_kernel(const struct sg_options *opt, const char *name);
/** sg_options_read - TB_ERR_ARG names the variable and what it may be; @opt->log is set even so */
TB_MUST_CHECK enum tb_status sg_options_read(struct sg_options *opt, struct tb_error *err);
/** sg_parse_size - "8G", "512M", "1048576"; false if it is none */
bool sg_parse_size(const char *text, uint64_t *bytes);
/** sg_arch_from - the oldest architecture that is simulated and not older than @arch; 0: none */
uint32_t sg_arch_from(uint32_t arch);

#endif
