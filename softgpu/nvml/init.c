/* Start and end, texts, and what is asked of the system as a whole. */
#include "softgpu/nvml/library.h"

#include "softgpu/log/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The one state: written under its lock by the first nvmlInit and the last nvmlShutdown. */
static struct {
    pthread_mutex_t lock;
    atomic_uint references;
    struct sg_options opt;
    /* What SOFTGPU_NVML said when it was right, for each device; under a lock of its own. */
    pthread_mutex_t last_lock;
    struct sg_nvml_settings last[SG_MAX_DEVICES];
    bool last_good;
} state = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .last_lock = PTHREAD_MUTEX_INITIALIZER, .opt = {.log = 1}};

struct nvmlDevice_st sg_nvml_devices[SG_MAX_DEVICES] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};

const struct sg_options *sg_nvml_options(void)
{
    return &state.opt;
}

void sg_nvml_log(int level, const char *fmt, ...)
{
    va_list ap;

    if (state.opt.log < level)
        return;
    va_start(ap, fmt);
    sg_log_line(fmt, ap);
    va_end(ap);
}

nvmlReturn_t sg_nvml_ready(void)
{
    return atomic_load(&state.references) ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t sg_nvml_device_check(nvmlDevice_t device)
{
    for (unsigned i = 0; i < state.opt.devices; i++)
        if (device == &sg_nvml_devices[i])
            return sg_nvml_get(device, SG_NVML_LOST) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t sg_nvml_unsupported(const char *name)
{
    sg_nvml_log(2, "%s is not supported", name);
    return NVML_ERROR_NOT_SUPPORTED;
}

uint64_t sg_nvml_get(nvmlDevice_t device, enum sg_nvml_setting setting)
{
    struct sg_nvml_settings s;
    struct tb_error err = {0};
    bool good = sg_nvml_settings_read(device->physical, state.opt.devices, &s, &err) == TB_OK;
    struct sg_nvml_settings *last = &state.last[device->physical];

    /* only a file can have become wrong since nvmlInit: while it is, what it said before holds */
    pthread_mutex_lock(&state.last_lock);
    if (!good && state.last_good)
        sg_nvml_log(1, "%s; until that is mended, what was there before holds", err.text);
    state.last_good = good;
    if (good)
        *last = s;
    s = *last;
    pthread_mutex_unlock(&state.last_lock);
    return s.value[setting];
}

/* Under the lock. */
static nvmlReturn_t start(void)
{
    struct tb_error err = {0};
    bool good = sg_options_read(&state.opt, &err) == TB_OK;

    for (unsigned i = 0; i < state.opt.devices && good; i++)
        good = sg_nvml_settings_read(i, state.opt.devices, &state.last[i], &err) == TB_OK;
    state.last_good = good;
    if (good)
        return NVML_SUCCESS;
    sg_nvml_log(1, "%s: NVML has no device", err.text);
    return NVML_ERROR_UNKNOWN;
}

nvmlReturn_t sg_nvmlInitWithFlags(unsigned flags)
{
    nvmlReturn_t r = NVML_SUCCESS;

    if (flags & ~(unsigned)(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH))
        return NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&state.lock);
    if (!atomic_load(&state.references))
        r = start();
    if (r == NVML_SUCCESS)
        atomic_fetch_add(&state.references, 1);
    pthread_mutex_unlock(&state.lock);
    return r;
}

nvmlReturn_t sg_nvmlInit_v2(void)
{
    return sg_nvmlInitWithFlags(0);
}

nvmlReturn_t sg_nvmlInit(void)
{
    return sg_nvmlInitWithFlags(0);
}

nvmlReturn_t sg_nvmlShutdown(void)
{
    nvmlReturn_t r = NVML_ERROR_UNINITIALIZED;

    pthread_mutex_lock(&state.lock);
    if (atomic_load(&state.references)) {
        atomic_fetch_sub(&state.references, 1);
        r = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&state.lock);
    return r;
}

const char *sg_nvmlErrorString(nvmlReturn_t result)
{
    static const char *const texts[] = {
        [NVML_SUCCESS] = "Success",
        [NVML_ERROR_UNINITIALIZED] = "Uninitialized",
        [NVML_ERROR_INVALID_ARGUMENT] = "Invalid Argument",
        [NVML_ERROR_NOT_SUPPORTED] = "Not Supported",
        [NVML_ERROR_NO_PERMISSION] = "Insufficient Permissions",
        [NVML_ERROR_ALREADY_INITIALIZED] = "Already Initialized",
        [NVML_ERROR_NOT_FOUND] = "Not Found",
        [NVML_ERROR_INSUFFICIENT_SIZE] = "Insufficient Size",
        [NVML_ERROR_INSUFFICIENT_POWER] = "Insufficient External Power",
        [NVML_ERROR_DRIVER_NOT_LOADED] = "Driver Not Loaded",
        [NVML_ERROR_TIMEOUT] = "Timeout",
        [NVML_ERROR_IRQ_ISSUE] = "Interrupt Request Issue",
        [NVML_ERROR_LIBRARY_NOT_FOUND] = "NVML Shared Library Not Found",
        [NVML_ERROR_FUNCTION_NOT_FOUND] = "Function Not Found",
        [NVML_ERROR_CORRUPTED_INFOROM] = "Corrupted infoROM",
        [NVML_ERROR_GPU_IS_LOST] = "GPU is lost",
        [NVML_ERROR_RESET_REQUIRED] = "GPU requires reset",
        [NVML_ERROR_OPERATING_SYSTEM] = "GPU access blocked by the operating system",
        [NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "Driver/library version mismatch",
        [NVML_ERROR_IN_USE] = "In use by another client",
        [NVML_ERROR_MEMORY] = "Insufficient Memory",
        [NVML_ERROR_NO_DATA] = "No data",
        [NVML_ERROR_VGPU_ECC_NOT_SUPPORTED] = "vGPU is not supported while ECC is on",
        [NVML_ERROR_INSUFFICIENT_RESOURCES] = "Insufficient resources",
        [NVML_ERROR_FREQ_NOT_SUPPORTED] = "Frequency not supported",
        [NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "Argument version mismatch",
        [NVML_ERROR_DEPRECATED] = "Deprecated",
        [NVML_ERROR_NOT_READY] = "Not ready",
        [NVML_ERROR_GPU_NOT_FOUND] = "No GPU found",
        [NVML_ERROR_INVALID_STATE] = "Invalid state",
    };

    if ((size_t)result < TB_ARRAY_LEN(texts) && texts[result])
        return texts[result];
    return "Unknown Error";
}

nvmlReturn_t sg_nvml_text(char *out, unsigned length, const char *text)
{
    size_t n = strlen(text) + 1;

    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (length < n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, n);
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvml_one(unsigned *count, unsigned *list, unsigned value)
{
    bool fits = count && *count >= 1;

    if (!count || (fits && !list))
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 1;
    if (!fits)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    list[0] = value;
    return NVML_SUCCESS;
}

/* ---- the system ---- */

/* The oldest driver that has this CUDA, as its release notes say. */
static unsigned driver_branch(void)
{
    return CUDA_VERSION >= 13000 ? 580 : CUDA_VERSION >= 12090 ? 575 : 570;
}

nvmlReturn_t sg_nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    char text[32];

    snprintf(text, sizeof(text), "%u.00.00", driver_branch());
    return sg_nvml_text(version, length, text);
}

nvmlReturn_t sg_nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    char text[32];

    snprintf(text, sizeof(text), "%d.%u.00.00", CUDA_VERSION / 1000, driver_branch());
    return sg_nvml_text(version, length, text);
}

nvmlReturn_t sg_nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = CUDA_VERSION;
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlSystemGetCudaDriverVersion(int *version)
{
    return sg_nvmlSystemGetCudaDriverVersion_v2(version);
}

nvmlReturn_t sg_nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    char path[32];
    FILE *f;
    size_t n;

    if (!name || !length)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    f = fopen(path, "re");
    if (!f)
        return NVML_ERROR_NOT_FOUND;
    n = fread(name, 1, length - 1, f); /* documented: cut where it is longer */
    name[n] = '\0';
    fclose(f);
    return NVML_SUCCESS;
}

/* no S-class units, no devices that an administrator has excluded */
nvmlReturn_t sg_nvmlUnitGetCount(unsigned *count)
{
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t sg_nvmlGetExcludedDeviceCount(unsigned *count)
{
    return sg_nvmlUnitGetCount(count);
}
