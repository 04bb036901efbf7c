/* How the CUDA recorder gets into a job: which tap is possible, and the variables that bring it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/collector_internal.h"
#include "recorder/cuda/find.h"

#define ENGINE "libtwinbit_cuda.so"
#define SHIM "shim/libcuda.so.1"
#define INJECTION "CUDA_INJECTION64_PATH"

/* Variables by which a program may be told the file of libcuda: Numba's, tinygrad's. */
static const char *const file_variables[] = {"NUMBA_CUDA_DRIVER", "CUDA_PATH"};

static bool has(const char *libdir, const char *file)
{
    char path[TB_COL_TEXT];
    int n = snprintf(path, sizeof(path), "%s/%s", libdir, file);

    return n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0;
}

/* The driver that the job would have found; one that was named as a file comes first. */
static bool find_driver(char *const *env, char *path, size_t size)
{
    for (size_t i = 0; i < TB_ARRAY_LEN(file_variables); i++) {
        const char *file = tb_environment_value(env, file_variables[i]);
        const char *slash = file ? strrchr(file, '/') : NULL;

        if (slash && strncmp(slash + 1, "libcuda.so", 10) == 0 && access(file, R_OK) == 0)
            return snprintf(path, size, "%s", file) < (int)size;
    }
    return tb_cuda_driver(path, size);
}

void tb_cuda_choose(struct tb_wire_config *w, char *const *env, const char *libdir, char *say,
                    size_t size)
{
    char driver[TB_COL_TEXT];
    const char *theirs = tb_environment_value(env, INJECTION);

    say[0] = 0;
    if (w->cuda_tap == TB_CUDA_TAP_NONE)
        return;
    if (!find_driver(env, driver, sizeof(driver))) {
        w->cuda_tap = TB_CUDA_TAP_NONE; /* a job without a GPU is left as it is */
        return;
    }
    if (!has(libdir, ENGINE) || !has(libdir, SHIM)) {
        w->cuda_tap = TB_CUDA_TAP_NONE;
        (void)snprintf(say, size,
                       "work of the GPU is not recorded: this twinbit was built without "
                       "CUDA headers (scripts/cuda_headers.sh fetches them)");
        return;
    }
    if (w->cuda_tap == TB_CUDA_TAP_CUPTI && theirs && theirs[0]) {
        w->cuda_tap = TB_CUDA_TAP_SHIM;
        (void)snprintf(say, size, INJECTION " names '%s' already and stays: --tap shim is used",
                       theirs);
    }
}

/* Names that a library in front of the driver must stand behind. */
static bool set_shim(char **env, size_t *n, const char *libdir)
{
    char driver[TB_COL_TEXT], folder[TB_COL_TEXT], file[TB_COL_TEXT];
    bool ok = find_driver(env, driver, sizeof(driver));

    (void)snprintf(folder, sizeof(folder), "%s/shim", libdir);
    (void)snprintf(file, sizeof(file), "%s/" SHIM, libdir);
    for (size_t i = 0; ok && i < TB_ARRAY_LEN(file_variables); i++) {
        const char *value = tb_environment_value(env, file_variables[i]);

        if (value && strcmp(value, driver) == 0)
            ok = tb_environment_set(env, n, file_variables[i], file, 0, true);
    }
    /* Triton asks ldconfig for the folder to link with, not the environment, unless it is told. */
    return ok && tb_environment_set(env, n, TB_CUDA_REAL_ENV, driver, 0, true) &&
           tb_environment_set(env, n, "LD_LIBRARY_PATH", folder, ':', true) &&
           tb_environment_set(env, n, "TRITON_LIBCUDA_PATH", folder, 0, true);
}

bool tb_cuda_environment(char **env, size_t *n, const struct tb_collector_options *o)
{
    const struct tb_wire_config *w = &o->config;
    const char *nvtx = tb_environment_value(env, "NVTX_INJECTION64_PATH");
    char engine[TB_COL_TEXT];
    bool ok = true;

    if (w->cuda_tap == TB_CUDA_TAP_NONE)
        return true;
    (void)snprintf(engine, sizeof(engine), "%s/" ENGINE, o->libdir);
    if (w->cuda_tap == TB_CUDA_TAP_SHIM || w->flags & TB_CFG_DEFER)
        ok = set_shim(env, n, o->libdir);
    if (ok && w->cuda_tap == TB_CUDA_TAP_CUPTI)
        ok = tb_environment_set(env, n, INJECTION, engine, 0, true);
    if (ok && (!nvtx || !nvtx[0])) /* another tool keeps its ranges */
        ok = tb_environment_set(env, n, "NVTX_INJECTION64_PATH", engine, 0, true);
    return ok;
}
