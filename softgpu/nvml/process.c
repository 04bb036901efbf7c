/* Who uses the devices: the pages of driver/usage.h that this user may read, in whatever process.
 * Each process has devices of its own, in its own memory; what they use of a device is added up
 * here. */
#include "softgpu/driver/usage.h"
#include "softgpu/nvml/library.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEMFD "/memfd:" SG_USAGE_FILE

typedef void page_fn(void *arg, const struct sg_usage *page);

/* The page behind one entry of /proc/PID/fd, if it is one. */
static bool read_page(int dir, const char *entry, uint32_t pid, struct sg_usage *page)
{
    char target[64];
    ssize_t n = readlinkat(dir, entry, target, sizeof(target) - 1);
    bool ok = false;
    int fd;

    if (n < (ssize_t)strlen(MEMFD) || strncmp(target, MEMFD, strlen(MEMFD)) != 0)
        return false;
    fd = openat(dir, entry, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ok = pread(fd, page, sizeof(*page), 0) == (ssize_t)sizeof(*page) &&
         page->magic == SG_USAGE_MAGIC && page->version == 1 && page->pid == pid;
    close(fd);
    return ok;
}

static void each_of_process(const char *pid, page_fn *fn, void *arg)
{
    char path[300];
    struct sg_usage page;
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        if (isdigit((unsigned char)e->d_name[0]) &&
            read_page(dirfd(d), e->d_name, (uint32_t)strtoul(pid, NULL, 10), &page)) {
            fn(arg, &page);
            break;
        }
    }
    if (d)
        closedir(d);
}

static void each_page(page_fn *fn, void *arg)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;

    while (proc && (e = readdir(proc)))
        if (isdigit((unsigned char)e->d_name[0]))
            each_of_process(e->d_name, fn, arg);
    if (proc)
        closedir(proc);
}

/* ---- processes ---- */

struct list {
    unsigned physical, found, room;
    nvmlProcessInfo_t *infos; /* NULL: only count */
};

static void list_page(void *arg, const struct sg_usage *page)
{
    struct list *l = arg;
    const struct sg_usage_device *d = &page->devices[l->physical];

    if (!atomic_load(&d->contexts))
        return;
    if (l->found < l->room)
        l->infos[l->found] = (nvmlProcessInfo_t){.pid = page->pid,
                                                 .usedGpuMemory = atomic_load(&d->used),
                                                 .gpuInstanceId = UINT32_MAX,
                                                 .computeInstanceId = UINT32_MAX};
    l->found++;
}

nvmlReturn_t sg_nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                        nvmlProcessInfo_t *infos)
{
    struct list l = {.physical = device->physical, .infos = infos};

    if (!count || (*count && !infos))
        return NVML_ERROR_INVALID_ARGUMENT;
    l.room = *count;
    each_page(list_page, &l);
    *count = l.found;
    return l.found > l.room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count,
                                                        nvmlProcessInfo_v2_t *infos)
{
    return sg_nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

/* The first form has no instances. */
nvmlReturn_t sg_nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count,
                                                     nvmlProcessInfo_v1_t *infos)
{
    nvmlProcessInfo_t *whole;
    nvmlReturn_t r;

    if (!count || (*count && !infos))
        return NVML_ERROR_INVALID_ARGUMENT;
    whole = calloc(*count ? *count : 1, sizeof(*whole));
    if (!whole)
        return NVML_ERROR_MEMORY;
    r = sg_nvmlDeviceGetComputeRunningProcesses_v3(device, count, whole);
    for (unsigned i = 0; r == NVML_SUCCESS && i < *count; i++)
        infos[i] = (nvmlProcessInfo_v1_t){whole[i].pid, whole[i].usedGpuMemory};
    free(whole);
    return r;
}

/* There are neither graphics nor MPS clients. */
static nvmlReturn_t none(unsigned *count)
{
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                         nvmlProcessInfo_t *infos)
{
    (void)device;
    (void)infos;
    return none(count);
}

nvmlReturn_t sg_nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                           nvmlProcessInfo_t *infos)
{
    (void)device;
    (void)infos;
    return none(count);
}

/* ---- memory and utilization ---- */

struct sum {
    unsigned physical;
    uint64_t used, busy, now;
};

static void sum_page(void *arg, const struct sg_usage *page)
{
    struct sum *s = arg;
    const struct sg_usage_device *d = &page->devices[s->physical];

    if (!atomic_load(&d->contexts))
        return;
    s->used += atomic_load(&d->used);
    s->busy += sg_usage_busy(d, s->now);
}

static struct sum sum_up(nvmlDevice_t device)
{
    struct sum s = {.physical = device->physical};
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    s.now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    each_page(sum_page, &s);
    if (s.used > sg_nvml_options()->memory) /* several processes, each with all of it */
        s.used = sg_nvml_options()->memory;
    if (s.busy > SG_USAGE_WINDOW)
        s.busy = SG_USAGE_WINDOW;
    return s;
}

nvmlReturn_t sg_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    uint64_t total = sg_nvml_options()->memory, used;

    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    used = sum_up(device).used;
    *memory = (nvmlMemory_t){.total = total, .free = total - used, .used = used};
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlMemory_t v1;
    nvmlReturn_t r;

    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    r = sg_nvmlDeviceGetMemoryInfo(device, &v1);
    if (r == NVML_SUCCESS)
        *memory = (nvmlMemory_v2_t){
            .version = nvmlMemory_v2, .total = v1.total, .free = v1.free, .used = v1.used};
    return r;
}

nvmlReturn_t sg_nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out)
{
    uint64_t gpu, memory;
    unsigned busy;

    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    gpu = sg_nvml_get(device, SG_NVML_UTILIZATION);
    memory = sg_nvml_get(device, SG_NVML_UTILIZATION_MEMORY);
    busy = (unsigned)(sum_up(device).busy * 100 / SG_USAGE_WINDOW);
    out->gpu = gpu == SG_NVML_UNSET ? busy : (unsigned)gpu;
    out->memory = memory == SG_NVML_UNSET ? busy : (unsigned)memory;
    return NVML_SUCCESS;
}
