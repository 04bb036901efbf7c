#include "cli/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diff/diff.h"
#ifdef TB_HAVE_SOFTGPU
#include "softgpu/run/run.h"
#endif

/* Rings of a process, as ARCHITECTURE.md has them */
#define RING_TOTAL (16ull << 20)
#define RING_WAIT_MS 2000

/* The names that a job can know, "step/module-path/operator#k", a line each */
static enum tb_status join_snapshots(const struct tb_cli_list *list, char *out, size_t size,
                                     struct tb_error *err)
{
    struct tb_event_name name;
    char text[TB_EVENT_NAME_TEXT];
    size_t used = 0;

    for (size_t i = 0; i < list->count; i++) {
        enum tb_status st = tb_event_name_parse(list->item[i], &name, err);
        if (st != TB_OK)
            return st;
        tb_event_name_short(&name, text, sizeof(text));
        int n = snprintf(out + used, size - used, "%s%s", i ? "\n" : "", text);
        if (n < 0 || (size_t)n >= size - used)
            return tb_fail(err, TB_ERR_LIMIT,
                           "the names of snapshots are %zu bytes in all, at most", size - 1);
        used += (size_t)n;
    }
    return TB_OK;
}

enum tb_status tb_cli_check_snapshots(const struct tb_cli_list *list, struct tb_error *err)
{
    char text[sizeof(((struct tb_wire_config *)0)->snapshots)];

    return join_snapshots(list, text, sizeof(text), err);
}

/* A pattern a line */
static enum tb_status join_kernels(const struct tb_cli_list *list, char *out, size_t size,
                                   struct tb_error *err)
{
    size_t used = 0;

    for (size_t i = 0; i < list->count; i++) {
        const char *pattern = list->item[i];
        size_t n = strlen(pattern);

        if (strchr(pattern, '\n') || !pattern[pattern[0] == '!'])
            return tb_fail(err, TB_ERR_ARG, "--kernel '%s' is no pattern for a name", pattern);
        if (used + n + 2 > size)
            return tb_fail(err, TB_ERR_LIMIT,
                           "the patterns of --kernel are %zu bytes in all, at most", size - 1);
        if (used)
            out[used++] = '\n';
        memcpy(out + used, pattern, n + 1);
        used += n;
    }
    return TB_OK;
}

enum tb_status tb_cli_check_kernels(const struct tb_cli_list *list, struct tb_error *err)
{
    char text[sizeof(((struct tb_wire_config *)0)->kernels)];

    return join_kernels(list, text, sizeof(text), err);
}

static void fill_cuda(struct tb_wire_config *c, const struct tb_cli_cuda *o)
{
    static const enum tb_wire_cuda_tap taps[] = {TB_CUDA_TAP_SHIM, TB_CUDA_TAP_CUPTI,
                                                 TB_CUDA_TAP_NONE};

    c->cuda_tap = taps[o->tap];
    c->flags |= o->enqueue == 1 ? TB_CFG_DEFER : 0;
    c->flags |= o->learn ? TB_CFG_LEARN : 0;
    c->sample = o->sample < 65536 ? o->sample : 0;
    c->seed = o->seed;
    c->launch_bytes = o->launch_bytes;
}

static enum tb_status fill_config(struct tb_wire_config *c, const struct tb_cli_recording *r,
                                  struct tb_error *err)
{
    static const enum tb_wire_level levels[] = {TB_LEVEL_BOUNDARY, TB_LEVEL_OP, TB_LEVEL_KERNEL};

    *c = (struct tb_wire_config){
        .level = levels[r->level],
        .step_from = r->steps.given ? r->steps.from : 0,
        .step_to = r->steps.given ? r->steps.to : UINT64_MAX,
        .ring_bytes = TB_WIRE_RING_DATA,
        .ring_total = RING_TOTAL,
        .wait_ms = RING_WAIT_MS,
        .stress = r->stress,
        .poison = r->poison,
    };
    c->flags |= r->inputs ? TB_CFG_INPUTS : 0;
    c->flags |= r->on_full == 1 ? TB_CFG_DROP : 0;
    c->flags |= r->map ? TB_CFG_MAP : 0;
    c->flags |= r->stack ? TB_CFG_STACK : 0;
    c->snapshot_count = (uint32_t)r->snapshots.count;
    fill_cuda(c, &r->cuda);
    enum tb_status st = join_kernels(&r->cuda.kernels, c->kernels, sizeof(c->kernels), err);
    return st != TB_OK ? st
                       : join_snapshots(&r->snapshots, c->snapshots, sizeof(c->snapshots), err);
}

enum tb_status tb_cli_record(const struct tb_cli_recording *r, const char *output,
                             struct tb_collector_result *result, struct tb_error *err)
{
    static const char *const attach[] = {"preload", "python", "none"};
    char libdir[4096];
    struct tb_collector_options o = {
        .output = output,
        .force = r->force,
        .max_size = r->max_size,
        .argv = r->argv,
        .pins = r->pins,
        .replay = r->replay,
        .frozen = r->frozen,
        .libdir = libdir,
        .attach = attach[r->attach],
        .device = r->device == TB_CLI_DEVICE_SOFTGPU ? "softgpu" : NULL,
        .progress = !r->quiet && isatty(STDERR_FILENO),
        .quiet = r->quiet,
    };

    result->exit_status = TB_EXIT_NOT_STARTED;
    enum tb_status st = tb_cli_libdir(r->libdir, libdir, sizeof(libdir), err);
    if (st == TB_OK)
        st = fill_config(&o.config, r, err);
    if (st != TB_OK)
        return st;
    return tb_collector_run(&o, result, err);
}

enum tb_status tb_cli_record_aside(const struct tb_cli_recording *r, const char *output,
                                   struct tb_collector_result *result, struct tb_error *err)
{
    int saved;

    (void)fflush(stdout);
    saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (saved < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return tb_fail_sys(err, TB_ERR_SYS, errno, "cannot set the job's standard output aside");
    enum tb_status st = tb_cli_record(r, output, result, err);
    (void)dup2(saved, STDOUT_FILENO);
    (void)close(saved);
    return st;
}

#ifdef TB_HAVE_SOFTGPU
/* Our kernels hash whatever is there, and must not change the order in which the job's run. */
static enum tb_status name_own_kernels(struct tb_error *err)
{
    static const char variable[] = "SOFTGPU_TOOL_KERNELS", own[] = "twinbit_fp_*";
    const char *theirs = getenv(variable);
    char both[1024];
    int n = theirs && *theirs ? snprintf(both, sizeof(both), "%s,%s", theirs, own)
                              : snprintf(both, sizeof(both), "%s", own);

    if (n < 0 || (size_t)n >= sizeof(both) || setenv(variable, both, 1) != 0)
        return tb_fail(err, TB_ERR_LIMIT, "cannot add '%s' to %s: it is too long", own, variable);
    return TB_OK;
}

/* The device's own folders for compilers are not the user's: pins win over them */
static enum tb_status prepare(const struct tb_cli_recording *r, struct tb_error *err)
{
    const struct sg_run_options opt = {
        .faults = r->faults.item, .nfaults = r->faults.count, .fault_log = r->fault_log};
    size_t count = r->pins ? r->pins->count : 0;
    bool *unset = calloc(count + 1, sizeof(*unset));

    if (!unset)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the list of pins");
    for (size_t i = 0; i < count; i++)
        unset[i] = tb_pin_sets_cache(&r->pins->choice[i]) && !getenv(r->pins->choice[i].pin->sets);
    enum tb_status st = sg_run_prepare(&opt, r->argv, err);
    for (size_t i = 0; i < count; i++)
        if (unset[i])
            (void)unsetenv(r->pins->choice[i].pin->sets);
    free(unset);
    return st;
}

enum tb_status tb_cli_use_device(const struct tb_cli_recording *r, struct tb_error *err)
{
    if (r->device == TB_CLI_DEVICE_SOFTGPU) {
        enum tb_status st = name_own_kernels(err);
        return st == TB_OK ? prepare(r, err) : st;
    }
    if (r->faults.count != 0 || r->fault_log)
        return tb_fail(err, TB_ERR_ARG, "--fault breaks the software device: add --device softgpu");
    return TB_OK;
}
#else
enum tb_status tb_cli_use_device(const struct tb_cli_recording *r, struct tb_error *err)
{
    if (r->device == TB_CLI_DEVICE_HOST)
        return TB_OK;
    return tb_fail(err, TB_ERR_UNSUPPORTED,
                   "this twinbit was built without softgpu: no CUDA headers were found "
                   "(scripts/cuda_headers.sh fetches them)");
}
#endif
