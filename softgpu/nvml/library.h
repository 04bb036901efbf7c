/*
 * softgpu/nvml - libnvidia-ml.so.1 for software devices: what its .c files share.
 *
 * Every function of nvml.h is exported by a generated trampoline (gen_nvml.py), which answers
 * NVML_ERROR_UNINITIALIZED before nvmlInit, NVML_ERROR_INVALID_ARGUMENT for a handle that is none,
 * and otherwise calls sg_<name>() if some file here defines it, else answers
 * NVML_ERROR_NOT_SUPPORTED. Nothing here needs cuInit, starts a thread or loads libcuda.so.1:
 * devices come from the SOFTGPU_ variables (driver/options.h), their use from other processes'
 * pages (driver/usage.h). CUDA_VISIBLE_DEVICES does not hide devices from NVML, as documented.
 */
#ifndef SG_NVML_LIBRARY_H
#define SG_NVML_LIBRARY_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

/* prototypes of sg_<name>(), written by gen_nvml.py into the build */
#if __has_include("softgpu/nvml/api_gen.h")
#include "softgpu/nvml/api_gen.h"
#endif

#include "common/common.h"
#include "softgpu/driver/identity.h"
#include "softgpu/driver/options.h"
#include "softgpu/nvml/settings.h"

struct nvmlDevice_st {
    unsigned physical; /* its position in sg_nvml_devices: what NVML calls the index */
};
extern struct nvmlDevice_st sg_nvml_devices[SG_MAX_DEVICES];

/** sg_nvml_options - as they were at nvmlInit; constant until the last nvmlShutdown */
const struct sg_options *sg_nvml_options(void);

/* what the generated exports ask */
nvmlReturn_t sg_nvml_ready(void);
nvmlReturn_t sg_nvml_device_check(nvmlDevice_t device);
nvmlReturn_t sg_nvml_unsupported(const char *name);

/** sg_nvml_get - one value of SOFTGPU_NVML, or what holds without it */
uint64_t sg_nvml_get(nvmlDevice_t device, enum sg_nvml_setting setting);
/** sg_nvml_log - one line on stderr, "softgpu: " before it, if SOFTGPU_LOG >= level */
void sg_nvml_log(int level, const char *fmt, ...) TB_PRINTF(2, 3);

/** sg_nvml_text - @text into the caller's buffer; NVML_ERROR_INSUFFICIENT_SIZE if it does not fit
 */
nvmlReturn_t sg_nvml_text(char *out, unsigned length, const char *text);
/** sg_nvml_one - the protocol of functions that return lists, here of one number */
nvmlReturn_t sg_nvml_one(unsigned *count, unsigned *list, unsigned value);

/* A function of one result that is never refused. */
#define SG_NVML_GETTER(name, type, expression)                                                     \
    nvmlReturn_t sg_##name(nvmlDevice_t device, type *out)                                         \
    {                                                                                              \
        (void)device;                                                                              \
        if (!out)                                                                                  \
            return NVML_ERROR_INVALID_ARGUMENT;                                                    \
        *out = (type)(expression);                                                                 \
        return NVML_SUCCESS;                                                                       \
    }

#endif
