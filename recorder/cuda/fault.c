/* A kernel that failed: calls answer with its error from then on, whatever they ask for. */
#include <stdio.h>

#include "recorder/cuda/engine.h"

#define FAULT(error)                                                                               \
    {                                                                                              \
        error, #error                                                                              \
    }

/* Errors of the device, which stay until the context ends; not those of a call's own arguments. */
static const struct fault {
    int error;
    const char *name;
} faults[] = {
    FAULT(CUDA_ERROR_ECC_UNCORRECTABLE),    FAULT(CUDA_ERROR_ILLEGAL_ADDRESS),
    FAULT(CUDA_ERROR_LAUNCH_TIMEOUT),       FAULT(CUDA_ERROR_ASSERT),
    FAULT(CUDA_ERROR_HARDWARE_STACK_ERROR), FAULT(CUDA_ERROR_ILLEGAL_INSTRUCTION),
    FAULT(CUDA_ERROR_MISALIGNED_ADDRESS),   FAULT(CUDA_ERROR_INVALID_ADDRESS_SPACE),
    FAULT(CUDA_ERROR_INVALID_PC),           FAULT(CUDA_ERROR_LAUNCH_FAILED),
};

static const struct fault *find(int result)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(faults); i++)
        if (faults[i].error == result)
            return &faults[i];
    return NULL;
}

/* Once for each context, or what is taken for one: the same error from call to call is one fault.
 */
static bool is_news(int result)
{
    bool news;

    tb_cu_lock();
    news = tb_cu.fault != result;
    tb_cu.fault = result;
    tb_cu_unlock();
    return news;
}

void tb_cu_fault(const struct tb_cuda_call *c)
{
    const struct fault *f = find((int)c->result);
    const char *kernel = __atomic_load_n(&tb_cu.last_kernel, __ATOMIC_RELAXED);
    char text[320];

    if (!f || !is_news(f->error))
        return;
    (void)snprintf(text, sizeof(text),
                   "%.60s returned %s (%d): work on the device failed, and what was queued behind "
                   "it did not run; the last kernel launched was '%.100s'",
                   tb_cuda_id_name(c->id), f->name, f->error, kernel ? kernel : "none");
    tb_cu_cover(1, TB_REC_NO_SEQ, "fault", kernel ? kernel : "device", text);
    tb_cu.api->log(text);
}
