/* Where a trace comes from: command, environment, machine, state of the job's folder in git. */
#include "collector/collector_internal.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "deterministic/plan.h"
#include "fingerprint/fingerprint.h"

#define GIT_MS 3000u
#define GIT_MAX (64u << 20)

#ifndef TB_VERSION
#define TB_VERSION "0"
#endif

extern char **environ;

static void meta(struct tb_store *store, const char *key, const char *value)
{
    struct tb_error err = {0};

    if (tb_store_meta(store, key, value, &err) != TB_OK)
        tb_log("%s", err.text);
}

static void command_line(struct tb_store *store, char *const *argv)
{
    char text[TB_COL_TEXT];
    char *flat = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&flat, &n);

    if (!f)
        return;
    for (; *argv; argv++)
        (void)fwrite(*argv, 1, strlen(*argv) + 1, f);
    if (fclose(f) == 0) {
        tb_argv_join(flat, n, text, sizeof(text));
        meta(store, "argv", text);
    }
    free(flat);
}

static void environment(struct tb_store *store)
{
    struct tb_error err = {0};
    size_t n = 0;
    char *text = tb_environment_redact(environ, &n);

    if (text && tb_store_text(store, "environment", text, n, &err) != TB_OK)
        tb_log("%s", err.text);
    free(text);
}

static void cpu(struct tb_store *store)
{
    char line[512], text[32];
    FILE *f = fopen("/proc/cpuinfo", "re");

    while (f && fgets(line, sizeof(line), f)) {
        char *value = strchr(line, ':');
        if (value && strncmp(line, "model name", 10) == 0) {
            value[strcspn(value, "\n")] = 0;
            meta(store, "cpu.model", value + 2);
            break;
        }
    }
    if (f)
        (void)fclose(f);
    (void)snprintf(text, sizeof(text), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    meta(store, "cpu.count", text);
}

/* As NVIDIA's driver names them, in the order of their bus addresses */
static void gpus(struct tb_store *store)
{
    glob_t found;
    char line[256], key[40];

    if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *f = fopen(found.gl_pathv[i], "re");
        while (f && fgets(line, sizeof(line), f)) {
            if (strncmp(line, "Model:", 6) != 0)
                continue;
            line[strcspn(line, "\n")] = 0;
            (void)snprintf(key, sizeof(key), "gpu.%zu.model", i);
            meta(store, key, line + 6 + strspn(line + 6, " \t"));
        }
        if (f)
            (void)fclose(f);
    }
    globfree(&found);
}

static void machine(struct tb_store *store)
{
    struct utsname u;
    char text[256];

    if (uname(&u) == 0) {
        meta(store, "host", u.nodename);
        (void)snprintf(text, sizeof(text), "%.60s %.80s %.60s", u.sysname, u.release, u.machine);
        meta(store, "kernel", text);
    }
    if (confstr(_CS_GNU_LIBC_VERSION, text, sizeof(text)) > 0)
        meta(store, "libc.version", text);
    cpu(store);
    gpus(store);
}

static void start_time(struct tb_store *store)
{
    time_t now = time(NULL);
    struct tm tm;
    char text[40];

    if (gmtime_r(&now, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
        meta(store, "start_time", text);
}

/* "git --no-optional-locks <a> <b> <c>": nothing is written into the job's repository. */
static char *git(const char *const *words, size_t *n)
{
    char *argv[10] = {(char *)(uintptr_t) "git", (char *)(uintptr_t) "--no-optional-locks"};
    int status;

    for (size_t i = 0; i < 7 && words[i]; i++)
        argv[2 + i] = (char *)(uintptr_t)words[i];
    char *text = tb_command_output(argv, GIT_MS, GIT_MAX, &status, n);
    if (text && status == 0)
        return text;
    free(text);
    return NULL;
}

static void git_state(struct tb_store *store)
{
    size_t n = 0;
    char text[40];
    char *commit = git((const char *const[]){"rev-parse", "HEAD", NULL}, &n);

    if (!commit)
        return;
    commit[strcspn(commit, "\n")] = 0;
    meta(store, "git.commit", commit);
    free(commit);
    char *diff =
        git((const char *const[]){"diff", "--no-ext-diff", "--no-color", "HEAD", NULL}, &n);
    meta(store, "git.dirty", !diff ? "unknown" : n ? "yes" : "no");
    if (diff && n) {
        struct tb_fp fp = tb_fp_host(diff, n, 0);
        (void)snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)fp.a,
                       (unsigned long long)fp.b);
        meta(store, "git.diff", text);
    }
    free(diff);
}

static void what_was_asked_of_cuda(struct tb_store *store, const struct tb_wire_config *c)
{
    bool cupti = c->cuda_tap == TB_CUDA_TAP_CUPTI;
    char text[64];

    meta(store, "cuda.tap", cupti ? "cupti" : "shim");
    if (cupti)
        meta(store, "cuda.enqueue", c->flags & TB_CFG_DEFER ? "deferred" : "callback");
    if (c->sample) {
        (void)snprintf(text, sizeof(text), "%.5g", c->sample / 65536.0);
        meta(store, "cuda.sample", text);
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)c->seed);
        meta(store, "cuda.seed", text);
    }
    if (c->kernels[0])
        meta(store, "cuda.kernels", c->kernels);
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)c->launch_bytes);
    meta(store, "cuda.launch_bytes", text);
}

static void what_was_asked(struct tb_store *store, const struct tb_collector_options *o)
{
    static const char *const levels[] = {"off", "boundary", "op", "kernel"};
    const struct tb_wire_config *c = &o->config;
    char text[64];

    meta(store, "twinbit.version", TB_VERSION);
    meta(store, "level", levels[c->level <= TB_LEVEL_KERNEL ? c->level : TB_LEVEL_OFF]);
    meta(store, "inputs", c->flags & TB_CFG_INPUTS ? "yes" : "no");
    if (c->step_from != 0 || c->step_to != UINT64_MAX) {
        (void)snprintf(text, sizeof(text), "%llu..%llu", (unsigned long long)c->step_from,
                       (unsigned long long)c->step_to);
        meta(store, "steps", text);
    }
    if (c->stress) {
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)c->stress);
        meta(store, "stress", text);
    }
    if (c->poison) {
        (void)snprintf(text, sizeof(text), "0x%02x", TB_POISON_BYTE(c->poison));
        meta(store, "poison", text);
    }
    if (c->snapshots[0])
        meta(store, "snapshots", c->snapshots);
    if (o->device)
        meta(store, "device", o->device);
    if (o->pins && o->pins->asked[0])
        meta(store, "pins.asked", o->pins->asked);
    if (c->cuda_tap != TB_CUDA_TAP_NONE)
        what_was_asked_of_cuda(store, c);
}

void tb_provenance_write(struct tb_store *store, const struct tb_collector_options *o)
{
    char cwd[TB_COL_TEXT];

    command_line(store, o->argv);
    if (getcwd(cwd, sizeof(cwd)))
        meta(store, "cwd", cwd);
    start_time(store);
    what_was_asked(store, o);
    machine(store);
    environment(store);
    git_state(store);
}
