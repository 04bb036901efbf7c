#include "softgpu/driver/jit.h"

#include <stdio.h>
#include <string.h>

CUresult sg_jit_read(unsigned n, const CUjit_option *options, void **values, struct sg_jit *jit)
{
    *jit = (struct sg_jit){0};
    if (n && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        switch (options[i]) {
        case CU_JIT_INFO_LOG_BUFFER:
            jit->info.buffer = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            jit->info.size = (unsigned)(uintptr_t)values[i];
            jit->info.written = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            jit->error.buffer = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            jit->error.size = (unsigned)(uintptr_t)values[i];
            jit->error.written = &values[i];
            break;
        case CU_JIT_MAX_REGISTERS:
            jit->max_regs = (uint32_t)(uintptr_t)values[i];
            break;
        case CU_JIT_WALL_TIME:
            jit->wall_time = &values[i];
            break;
        case CU_JIT_THREADS_PER_BLOCK:
            jit->threads = &values[i];
            break;
        default:
            if ((int)options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
                return CUDA_ERROR_INVALID_VALUE;
            break;
        }
    }
    return CUDA_SUCCESS;
}

static void fill(const struct sg_jit_log *log, const char *text)
{
    size_t n = strlen(text) + 1;

    if (!log->written)
        return;
    if (!log->buffer || !log->size || n == 1) {
        if (log->buffer && log->size)
            log->buffer[0] = 0;
        *log->written = NULL;
        return;
    }
    if (n > log->size)
        n = log->size;
    memcpy(log->buffer, text, n - 1);
    log->buffer[n - 1] = 0;
    *log->written = (void *)(uintptr_t)n;
}

void sg_jit_report(const struct sg_jit *jit, const char *error)
{
    fill(&jit->info, "");
    fill(&jit->error, error ? error : "");
    if (jit->wall_time) {
        const float none = 0;

        memcpy(jit->wall_time, &none, sizeof(none));
    }
    if (jit->threads && (uintptr_t)*jit->threads > 1024)
        *jit->threads = (void *)(uintptr_t)1024;
}
