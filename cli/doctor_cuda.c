/* Checks of what recording a GPU needs: the driver, and which tap can stand before it. */
#include "cli/doctor.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/cuda/find.h"

#define TRY_S 30 /* drivers have been seen to wait for a device for ever */

/* What a child process found out; the driver must not get into this one. */
struct attempt {
    int loaded, result, devices;
};

/* In the child. */
static void call_shim(const char *shim, const char *driver, struct attempt *a)
{
    int (*init)(unsigned) = NULL, (*count)(int *) = NULL;
    void *handle;

    (void)alarm(TRY_S);
    if (setenv(TB_CUDA_REAL_ENV, driver, 1) != 0 || !(handle = dlopen(shim, RTLD_NOW)))
        return;
    *(void **)&init = dlsym(handle, "cuInit");
    *(void **)&count = dlsym(handle, "cuDeviceGetCount");
    a->loaded = init && count;
    a->result = a->loaded ? init(0) : 0;
    if (a->loaded && a->result == 0)
        a->result = count(&a->devices);
}

static struct attempt try_shim(const char *shim, const char *driver)
{
    struct attempt a = {.loaded = 0};
    int ends[2];

    if (pipe(ends) != 0)
        return a;
    pid_t pid = fork();
    if (pid == 0) {
        call_shim(shim, driver, &a);
        (void)!write(ends[1], &a, sizeof(a));
        _exit(0);
    }
    close(ends[1]);
    if (pid > 0) {
        if (read(ends[0], &a, sizeof(a)) != (ssize_t)sizeof(a))
            a.loaded = 0;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    close(ends[0]);
    return a;
}

/* The one beside torch, else what the system has; "" if there is none. */
static void find_cupti(const struct tb_doctor *d, char *out, size_t size)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11"};
    char pattern[1100];
    glob_t found;
    void *handle = NULL;

    out[0] = '\0';
    const char *site = strstr(d->libtorch, "/torch/lib/");
    (void)snprintf(pattern, sizeof(pattern), "%.*s/nvidia/cu*/lib/libcupti.so.*",
                   site ? (int)(site - d->libtorch) : 0, d->libtorch);
    if (site && glob(pattern, 0, NULL, &found) == 0) {
        (void)snprintf(out, size, "%s", found.gl_pathv[0]);
        globfree(&found);
    }
    for (size_t i = 0; !out[0] && i < TB_ARRAY_LEN(names); i++)
        if ((handle = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL)) != NULL) {
            (void)snprintf(out, size, "%s", names[i]);
            (void)dlclose(handle);
        }
}

static void say_taps(const struct tb_doctor *d, struct tb_doctor_check *c, const char *driver,
                     const struct attempt *a)
{
    char cupti[1024], real[4096];

    find_cupti(d, cupti, sizeof(cupti));
    if (!realpath(driver, real)) /* its name has the version */
        (void)snprintf(real, sizeof(real), "%s", driver);
    tb_doctor_say(c, TB_DOCTOR_OK, "%.200s, %d device%s; taps: shim%s%.120s%s", real, a->devices,
                  a->devices == 1 ? "" : "s", cupti[0] ? ", cupti (" : "; no CUPTI was found",
                  cupti, cupti[0] ? ")" : "");
}

void tb_doctor_cuda(struct tb_doctor *d, struct tb_doctor_check *c)
{
    char driver[4096], shim[4200];

    if (!tb_cuda_driver(driver, sizeof(driver))) {
        tb_doctor_say(c, TB_DOCTOR_OK, "no driver (libcuda.so.1): nothing of a GPU to be recorded");
        return;
    }
    (void)snprintf(shim, sizeof(shim), "%s/shim/libcuda.so.1", d->libdir);
    if (!d->libdir[0] || access(shim, R_OK) != 0) {
        tb_doctor_say(c, TB_DOCTOR_NOTE,
                      "%.200s is there, but this twinbit records no GPU: it was "
                      "built without CUDA headers",
                      driver);
        tb_doctor_mend(c, "scripts/cuda_headers.sh && make build");
        return;
    }
    struct attempt a = try_shim(shim, driver);
    if (!a.loaded)
        tb_doctor_say(c, TB_DOCTOR_NOTE, "%.200s cannot be opened, or did not answer in %d s",
                      driver, TRY_S);
    else if (a.result != 0)
        tb_doctor_say(c, TB_DOCTOR_NOTE, "%.200s finds no device (cuInit: %d)", driver, a.result);
    else
        say_taps(d, c, driver, &a);
}
