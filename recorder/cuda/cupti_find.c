/* Which of the CUPTI libraries on a machine is the job's. */
#include "recorder/cuda/cupti_internal.h"

#include <dlfcn.h>
#include <link.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAJOR_MIN 11
#define MAJOR_MAX 19

struct search {
    char name[24];         /* "libcupti.so.13" */
    char beside[PATH_MAX]; /* folder of the CUDA runtime of the process, with a slash; "" */
};

static void *quietly(const char *path, int flags)
{
    void *handle = dlopen(path, flags);

    if (!handle)
        (void)dlerror();
    return handle;
}

static void *open_in(const char *folder, const char *below, const char *name)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s%s%s", folder, below, name);

    if (n < 0 || (size_t)n >= sizeof(path))
        return NULL;
    return quietly(path, RTLD_NOW | RTLD_LOCAL);
}

static int look_for_runtime(struct dl_phdr_info *o, size_t size, void *arg)
{
    struct search *s = arg;
    const char *slash = o->dlpi_name ? strrchr(o->dlpi_name, '/') : NULL;
    size_t n = slash ? (size_t)(slash - o->dlpi_name) + 1 : 0;

    (void)size;
    if (!slash || strncmp(slash + 1, "libcudart.so", 12) != 0 || n >= sizeof(s->beside))
        return 0;
    memcpy(s->beside, o->dlpi_name, n);
    s->beside[n] = 0;
    return 1;
}

static void *open_major(struct search *s, bool loaded)
{
    static const char *const below[] = {"/extras/CUPTI/lib64/", "/lib64/", "/lib/"};
    const char *homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    void *handle = quietly(s->name, RTLD_NOW | RTLD_NOLOAD);

    if (handle || loaded)
        return handle;
    if (s->beside[0])
        handle = open_in(s->beside, "", s->name);
    if (!handle)
        handle = quietly(s->name, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !handle && i < sizeof(homes) / sizeof(homes[0]); i++)
        for (size_t k = 0; !handle && homes[i] && k < sizeof(below) / sizeof(below[0]); k++)
            handle = open_in(homes[i], below[k], s->name);
    return handle;
}

static void set_name(struct search *s, int major)
{
    static const char stem[] = "libcupti.so.";

    memcpy(s->name, stem, sizeof(stem));
    s->name[sizeof(stem) - 1] = (char)('0' + major / 10);
    s->name[sizeof(stem)] = (char)('0' + major % 10);
    s->name[sizeof(stem) + 1] = 0;
}

/* From the driver's major version downwards. */
static void *open_from(struct search *s, int major, bool loaded)
{
    void *handle = NULL;

    for (int m = major; !handle && m >= MAJOR_MIN; m--) {
        set_name(s, m);
        handle = open_major(s, loaded);
    }
    return handle;
}

void *tb_cupti_open(void *driver_version)
{
    struct search s = {.beside = ""};
    int (*version)(int *) = NULL;
    int major = 0;

    *(void **)&version = driver_version;
    if (version && version(&major) == 0)
        major /= 1000;
    if (major < MAJOR_MIN || major > MAJOR_MAX)
        major = MAJOR_MAX;
    (void)dl_iterate_phdr(look_for_runtime, &s);
    void *handle = open_from(&s, MAJOR_MAX, true);
    return handle ? handle : open_from(&s, major, false);
}
