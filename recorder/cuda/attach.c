/* Where the recorder of the process is, and what it wants of a front end. */
#include "recorder/cuda/attach.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* libtwinbit.so, which lies beside this library; in most jobs it has been preloaded. */
static void *open_recorder(void)
{
    char path[PATH_MAX];
    Dl_info own;
    const char *slash;

    if (!dladdr((const void *)(uintptr_t)open_recorder, &own) || !own.dli_fname)
        return NULL;
    slash = strrchr(own.dli_fname, '/');
    size_t n = slash ? (size_t)(slash - own.dli_fname) + 1 : 0;
    if (n + sizeof("libtwinbit.so") > sizeof(path))
        return NULL;
    memcpy(path, own.dli_fname, n);
    memcpy(path + n, "libtwinbit.so", sizeof("libtwinbit.so"));
    void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    return handle ? handle : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

const struct tb_rec_api *tb_cuda_runtime(void)
{
    const struct tb_rec_api *(*runtime)(void) = NULL;
    const struct tb_rec_api *api = NULL;
    int saved = errno;
    void *handle = open_recorder();

    if (handle)
        *(void **)&runtime = dlsym(handle, "twinbit_runtime");
    if (runtime)
        api = runtime();
    else
        (void)dlerror(); /* the job's own next question must not get our answer */
    errno = saved;
    return api && api->version == TB_REC_API_VERSION && api->size == sizeof(*api) ? api : NULL;
}

static enum tb_cuda_mode mode_of(const struct tb_wire_config *c)
{
    if (c->cuda_tap == TB_CUDA_TAP_SHIM)
        return TB_CUDA_SEE;
    return c->cuda_tap == TB_CUDA_TAP_CUPTI && (c->flags & TB_CFG_DEFER) ? TB_CUDA_LEGAL
                                                                         : TB_CUDA_OFF;
}

EXPORT enum tb_cuda_mode twinbit_cuda_attach(const struct tb_cuda_front *front,
                                             struct tb_cuda_engine *out)
{
    const struct tb_rec_api *api = out->size == sizeof(*out) ? tb_cuda_runtime() : NULL;
    enum tb_cuda_mode mode = api ? mode_of(api->config) : TB_CUDA_OFF;

    if (mode == TB_CUDA_SEE && !tb_cuda_start(front, api))
        mode = TB_CUDA_OFF;
    if (mode != TB_CUDA_OFF)
        *out = (struct tb_cuda_engine){.size = sizeof(*out),
                                       .enter = tb_cuda_enter,
                                       .exit = tb_cuda_exit,
                                       .legal = tb_cuda_legal,
                                       .unknown = tb_cuda_unknown};
    return mode;
}
