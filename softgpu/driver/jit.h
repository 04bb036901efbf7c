/* Options of the just-in-time compiler that a program passes: where to put the log, and limits. */
#ifndef SG_DRIVER_JIT_H
#define SG_DRIVER_JIT_H

#include "softgpu/driver/driver.h"

struct sg_jit_log {
    char *buffer;
    size_t size;
    void **written; /* the option's value: bytes filled go there */
};

struct sg_jit {
    struct sg_jit_log info, error;
    void **wall_time, **threads;
    uint32_t max_regs; /* CU_JIT_MAX_REGISTERS; 0: not given */
};

/** sg_jit_read - CUDA_ERROR_INVALID_VALUE for an unknown option; @jit points into @values */
CUresult sg_jit_read(unsigned n, const CUjit_option *options, void **values, struct sg_jit *jit);
/** sg_jit_report - fill the logs; @error NULL: it went well */
void sg_jit_report(const struct sg_jit *jit, const char *error);

#endif
