/*
 * Whether cuBLAS may add with atomics: NOT_ALLOWED for each handle, which is its default. A job
 * that asks for ALLOWED has it, unless pins are forced, and is told so.
 */
#include <errno.h>

#include "deterministic/cublas/cublas.h"
#include "deterministic/cublas/cublas_internal.h"

#define MOST_ASKED 16u /* times that are written down: the first is what is told */

/* How many of each event this process has, changed atomically; a child of fork() goes on */
static uint32_t events[2];

static void say(enum tb_cublas_event event, int mode, int status, const void *pc)
{
    struct tb_cublas_atomics value = {(uint32_t)event, (uint32_t)mode, (uint32_t)status, 0};
    uint32_t n = __atomic_fetch_add(&events[event], 1, __ATOMIC_RELAXED);

    if (event == TB_CUBLAS_CREATED || n < MOST_ASKED)
        tb_cublas_say(TB_PRELOAD_ATOMICS, (uint64_t)event, n, &value, sizeof(value), pc);
}

static int create(void **handle, const void *pc)
{
    struct tb_cublas_real real;

    tb_cublas_real(pc, &real);
    if (!real.create)
        return TB_CUBLAS_NOT_INITIALIZED;
    int status = real.create(handle), mode = -1, saved = errno;
    if (status != TB_CUBLAS_SUCCESS || !tb_cublas_wanted()->atomics)
        return status;
    int set = real.set_mode ? real.set_mode(*handle, TB_CUBLAS_NOT_ALLOWED) : -1;
    if (!real.get_mode || real.get_mode(*handle, &mode) != TB_CUBLAS_SUCCESS)
        mode = -1;
    say(TB_CUBLAS_CREATED, mode, set, pc);
    errno = saved;
    return status;
}

static int set_mode(void *handle, int mode, const void *pc)
{
    const struct tb_cublas_wanted *wanted = tb_cublas_wanted();
    struct tb_cublas_real real;
    bool asked = wanted->atomics && mode != TB_CUBLAS_NOT_ALLOWED;

    tb_cublas_real(pc, &real);
    if (!real.set_mode)
        return TB_CUBLAS_NOT_INITIALIZED;
    if (asked && wanted->force)
        mode = TB_CUBLAS_NOT_ALLOWED;
    int status = real.set_mode(handle, mode), saved = errno;
    if (asked && status == TB_CUBLAS_SUCCESS)
        say(TB_CUBLAS_ASKED, mode, status, pc);
    errno = saved;
    return status;
}

int cublasCreate_v2(void **handle)
{
    return create(handle, TB_HERE);
}

int cublasSetAtomicsMode(void *handle, int mode)
{
    return set_mode(handle, mode, TB_HERE);
}
