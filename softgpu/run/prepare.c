#include "softgpu/broken/broken.h"
#include "softgpu/driver/options.h"
#include "softgpu/log/log.h"
#include "softgpu/nvml/settings.h"
#include "softgpu/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* No "libcudart.so" or "libcupti.so" in these: PyTorch looks for such names in its map. */
#define RUNTIME "libsoftgpu_rt.so"
#define CUPTI "libsoftgpu_cupti.so"
#define PTXAS "softgpu-ptxas"

/* ---- where things are ---- */

static bool has_driver(const char *dir)
{
    char lib[SG_RUN_PATH + 16];

    snprintf(lib, sizeof(lib), "%s/libcuda.so.1", dir);
    return access(lib, R_OK) == 0;
}

static bool resolve(const char *dir, char *out)
{
    return has_driver(dir) && realpath(dir, out);
}

/* The folder of the program that runs; @out: SG_RUN_PATH bytes. */
static enum tb_status own_folder(char *out, struct tb_error *err)
{
    ssize_t n = readlink("/proc/self/exe", out, SG_RUN_PATH - 1);

    if (n <= 0)
        return tb_fail_sys(err, TB_ERR_SYS, errno, "cannot read '/proc/self/exe'");
    out[n] = '\0';
    *strrchr(out, '/') = '\0';
    return TB_OK;
}

enum tb_status sg_run_libdir(const char *given, char *out, struct tb_error *err)
{
    static const char *const beside[] = {"../softgpu/lib", "../lib/softgpu"};
    const char *env = getenv("SOFTGPU_LIBDIR");
    char exe[SG_RUN_PATH], dir[SG_RUN_PATH + 32];

    if (given || (env && *env)) {
        if (resolve(given ? given : env, out))
            return TB_OK;
        return tb_fail(err, TB_ERR_NOTFOUND, "no libcuda.so.1 in '%s' (%s)", given ? given : env,
                       given ? "--libdir" : "SOFTGPU_LIBDIR");
    }
    enum tb_status st = own_folder(exe, err);
    if (st != TB_OK)
        return st;
    for (size_t i = 0; i < TB_ARRAY_LEN(beside); i++) {
        snprintf(dir, sizeof(dir), "%s/%s", exe, beside[i]);
        if (resolve(dir, out))
            return TB_OK;
    }
    return tb_fail(
        err, TB_ERR_NOTFOUND,
        "no libcuda.so.1 in ../softgpu/lib or ../lib/softgpu beside '%s'; SOFTGPU_LIBDIR "
        "says where it is, and so does --libdir of 'softgpu run'",
        exe);
}

/* The file that execvp() will take for @name; "" if there is none. */
static void find_command(const char *name, char *out)
{
    const char *path = getenv("PATH");

    out[0] = '\0';
    if (strchr(name, '/')) {
        snprintf(out, SG_RUN_PATH, "%s", name);
        return;
    }
    while (path && *path) {
        size_t n = strcspn(path, ":");

        snprintf(out, SG_RUN_PATH, "%.*s/%s", n ? (int)n : 1, n ? path : ".", name);
        if (access(out, X_OK) == 0)
            return;
        path += n + (path[n] == ':');
    }
    out[0] = '\0';
}

/* ---- environment ---- */

static enum tb_status set(const char *name, const char *value, struct tb_error *err)
{
    if (value && setenv(name, value, 1) != 0)
        return tb_fail_sys(err, TB_ERR_NOMEM, errno, "cannot set '%s'", name);
    return TB_OK;
}

static enum tb_status set_number(const char *name, uint64_t value, struct tb_error *err)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    return value ? set(name, text, err) : TB_OK;
}

/* @first, then what the variable held. */
static enum tb_status prepend(const char *name, const char *first, struct tb_error *err)
{
    const char *before = getenv(name);
    char *both = NULL;
    enum tb_status st;

    if (!before || !*before)
        return set(name, first, err);
    if (asprintf(&both, "%s:%s", first, before) < 0)
        return tb_fail(err, TB_ERR_NOMEM, "cannot set '%s'", name);
    st = set(name, both, err);
    free(both);
    return st;
}

static enum tb_status set_options(const struct sg_run_options *o, struct tb_error *err)
{
    const struct {
        const char *name, *text;
        uint64_t number;
    } all[] = {
        {"SOFTGPU_ARCH", o->arch, 0},       {"SOFTGPU_ORDER", o->order, 0},
        {"SOFTGPU_SEED", o->seed, 0},       {"SOFTGPU_LOG", o->log, 0},
        {"SOFTGPU_DEVICES", 0, o->devices}, {"SOFTGPU_MEMORY", 0, o->memory},
        {"SOFTGPU_WORKERS", 0, o->workers}, {"SOFTGPU_SMS", 0, o->sms},
        {"SOFTGPU_STRICT", o->strict, 0},   {"SOFTGPU_STRICT_RACES", 0, o->races},
        {"SOFTGPU_REPORT", o->report, 0},   {"SOFTGPU_TOOL_KERNELS", o->tool_kernels, 0},
    };
    enum tb_status st = TB_OK;

    for (size_t i = 0; i < TB_ARRAY_LEN(all) && st == TB_OK; i++) {
        st = set(all[i].name, all[i].text, err);
        if (st == TB_OK)
            st = set_number(all[i].name, all[i].number, err);
    }
    return st;
}

/* PyTorch's libraries have a DT_RPATH that LD_LIBRARY_PATH does not outdo. */
static enum tb_status preload(const char *libdir, const char *name, struct tb_error *err)
{
    char path[SG_RUN_PATH + 32];

    snprintf(path, sizeof(path), "%s/%s", libdir, name);
    return access(path, R_OK) == 0 ? prepend("LD_PRELOAD", path, err) : TB_OK;
}

/* @value, unless the user has set the variable. */
static enum tb_status set_default(const char *name, const char *value, struct tb_error *err)
{
    const char *before = getenv(name);

    return before && *before ? TB_OK : set(name, value, err);
}

/* A folder of softgpu's own for what a compiler keeps: a kernel that was compiled for a real GPU
 * must not be found here, nor the other way round. */
static enum tb_status set_cache(const char *variable, const char *folder, struct tb_error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    enum tb_status st;
    int n;

    if (cache && *cache)
        n = asprintf(&path, "%s/softgpu/%s", cache, folder);
    else if (home && *home)
        n = asprintf(&path, "%s/.cache/softgpu/%s", home, folder);
    else
        n = asprintf(&path, "/tmp/softgpu-%u/%s", (unsigned)getuid(), folder);
    if (n < 0)
        return tb_fail(err, TB_ERR_NOMEM, "cannot set '%s'", variable);
    st = set_default(variable, path, err);
    free(path);
    return st;
}

/* Triton compiles its kernels to PTX, which must reach us as such, and asks ldconfig for libcuda.
 */
static enum tb_status set_triton(const char *libdir, struct tb_error *err)
{
    char ptxas[SG_RUN_PATH + 32], cupti[SG_RUN_PATH + 32];
    enum tb_status st = set("TRITON_LIBCUDA_PATH", libdir, err);

    snprintf(ptxas, sizeof(ptxas), "%s/%s", libdir, PTXAS);
    if (st == TB_OK && access(ptxas, X_OK) == 0) {
        st = set_default("TRITON_PTXAS_PATH", ptxas, err);
        if (st == TB_OK)
            st = set_default("TRITON_PTXAS_BLACKWELL_PATH", ptxas, err);
    }
    snprintf(cupti, sizeof(cupti), "%s/%s", libdir, CUPTI);
    if (st == TB_OK && access(cupti, R_OK) == 0) /* its profiler looks for libcupti.so there */
        st = set_default("TRITON_CUPTI_LIB_PATH", libdir, err);
    if (st == TB_OK)
        st = set_cache("TRITON_CACHE_DIR", "triton", err);
    if (st == TB_OK)
        st = set_cache("TORCHINDUCTOR_CACHE_DIR", "inductor", err);
    return st;
}

/* Those of the environment and of the options, one behind the other. */
static enum tb_status set_faults(const struct sg_run_options *o, struct tb_error *err)
{
    enum tb_status st = set("SOFTGPU_FAULT_LOG", o->fault_log, err);

    if (st == TB_OK)
        st = set("SOFTGPU_FAULT_REPLAY", o->fault_replay, err);
    for (size_t i = 0; i < o->nfaults && st == TB_OK; i++) {
        const char *before = getenv("SOFTGPU_FAULT");
        char *both = NULL;

        if (!*o->faults[i])
            return tb_fail(err, TB_ERR_ARG, "an empty --fault");

        if (asprintf(&both, "%s%s%s", before ? before : "", before && *before ? ";" : "",
                     o->faults[i]) < 0)
            return tb_fail(err, TB_ERR_NOMEM, "cannot set 'SOFTGPU_FAULT'");
        st = set("SOFTGPU_FAULT", both, err);
        free(both);
    }
    return st;
}

/* Each process reads it again: here, so that what cannot be replayed is refused before CMD starts.
 */
static enum tb_status check_replay(const struct sg_options *o, struct tb_error *err)
{
    struct sg_broken_options b = {.replay = getenv("SOFTGPU_FAULT_REPLAY"),
                                  .sms = o->sms,
                                  .seed = o->seed,
                                  .in_order = o->in_order};

    if (!b.replay || !*b.replay || sg_broken_check_replay(&b, err) == TB_OK)
        return TB_OK;
    if (err)
        err->status = TB_ERR_ARG; /* whatever is wrong with it: the option is */
    return TB_ERR_ARG;
}

/* A file that is there would be taken for that of another process. */
static enum tb_status prepare_files(const struct sg_run_options *o, struct tb_error *err)
{
    enum tb_status st = TB_OK;

    if (o->fault_log)
        st = sg_log_file_prepare(o->fault_log, "{\"softgpu_faults\":", "log of faults", err);
    if (st == TB_OK && o->report)
        st = sg_log_file_prepare(o->report, "{\"softgpu_report\":", "report", err);
    return st;
}

static enum tb_status set_loading(const char *libdir, struct tb_error *err)
{
    enum tb_status st = prepend("LD_LIBRARY_PATH", libdir, err);

    if (st == TB_OK)
        st = set_triton(libdir, err);
    if (st == TB_OK)
        st = preload(libdir, CUPTI, err);
    return st == TB_OK ? preload(libdir, RUNTIME, err) : st;
}

/* Python runs the hook of this folder at its start, and that waits for torch. */
static enum tb_status set_eager(bool asked, struct tb_error *err)
{
    const char *env = getenv("SOFTGPU_EAGER");
    char exe[SG_RUN_PATH], hook[SG_RUN_PATH + 64], folder[SG_RUN_PATH];
    enum tb_status st;

    if (!asked && env && *env && strcmp(env, "0") != 0 && strcmp(env, "1") != 0)
        return tb_fail(err, TB_ERR_ARG, "SOFTGPU_EAGER='%s' is not 0 or 1", env);
    if (!asked && (!env || strcmp(env, "1") != 0))
        return TB_OK;
    st = own_folder(exe, err);
    if (st != TB_OK)
        return st;
    snprintf(hook, sizeof(hook), "%s/../lib/twinbit/python/eager", exe);
    if (!realpath(hook, folder))
        return tb_fail_sys(err, TB_ERR_NOTFOUND, errno, "no '%s', which --eager needs", hook);
    st = set("SOFTGPU_EAGER", "1", err);
    return st == TB_OK ? prepend("PYTHONPATH", folder, err) : st;
}

enum tb_status sg_run_prepare(const struct sg_run_options *opt, char *const *argv,
                              struct tb_error *err)
{
    char libdir[SG_RUN_PATH], program[SG_RUN_PATH];
    struct sg_nvml_settings settings;
    struct sg_options read;
    struct sg_program p;
    enum tb_status st = sg_run_libdir(opt->libdir, libdir, err);

    if (st == TB_OK)
        st = set_options(opt, err);
    if (st == TB_OK)
        st = set_faults(opt, err);
    if (st == TB_OK)
        st = sg_options_read(&read, err);
    if (st == TB_OK)
        st = sg_nvml_settings_read(0, read.devices, &settings, err);
    if (st == TB_OK)
        st = check_replay(&read, err);
    if (st == TB_OK)
        st = prepare_files(opt, err);
    if (st != TB_OK)
        return st;
    find_command(argv[0], program);
    if (program[0] && !opt->force && sg_program_inspect(program, &p, NULL) == TB_OK)
        st = sg_program_refuse(&p, program, libdir, read.arch, err);
    if (st == TB_OK)
        st = set_eager(opt->eager, err);
    return st == TB_OK ? set_loading(libdir, err) : st;
}
