/*
 * settings - what NVML reports where software has nothing to measure, and SOFTGPU_NVML, which
 * changes it:
 *
 *   SOFTGPU_NVML='temperature=85 ecc.uncorrected=1; device=1 throttle=hw_thermal+sw_power'
 *
 * Groups are separated by ';'. A group that begins with device=N is about physical device N,
 * another about all; what comes later wins. SOFTGPU_NVML=@FILE: the text stands in FILE, where new
 * lines separate groups too, and is read anew at each call, so that a test can change it.
 */
#ifndef SG_NVML_SETTINGS_H
#define SG_NVML_SETTINGS_H

#include "common/common.h"

#include <stdbool.h>
#include <stdint.h>

#define SG_NVML_UNSET UINT64_MAX /* the utilizations: measured */

enum sg_nvml_setting {
    SG_NVML_TEMPERATURE,        /* degrees Celsius */
    SG_NVML_MEMORY_TEMPERATURE, /* the same */
    SG_NVML_POWER,              /* W */
    SG_NVML_POWER_LIMIT,        /* W */
    SG_NVML_CLOCK_SM,           /* MHz, as long as it runs */
    SG_NVML_CLOCK_MEMORY,       /* MHz */
    SG_NVML_UTILIZATION,        /* percent */
    SG_NVML_UTILIZATION_MEMORY, /* percent */
    SG_NVML_THROTTLE,           /* nvmlClocksEventReason bits */
    SG_NVML_PSTATE,
    SG_NVML_ECC_CORRECTED,
    SG_NVML_ECC_UNCORRECTED,
    SG_NVML_RETIRED_SINGLE, /* pages, before sm_80 */
    SG_NVML_RETIRED_DOUBLE,
    SG_NVML_RETIRED_PENDING,
    SG_NVML_REMAPPED_CORRECTED, /* rows, from sm_80 on */
    SG_NVML_REMAPPED_UNCORRECTED,
    SG_NVML_REMAPPED_PENDING,
    SG_NVML_REMAPPED_FAILED,
    SG_NVML_PCIE_REPLAYS,
    SG_NVML_XID,  /* number of one critical event, 0: none */
    SG_NVML_LOST, /* 1: every call that names the device says GPU_IS_LOST */
    SG_NVML_SETTINGS,
};

struct sg_nvml_settings {
    uint64_t value[SG_NVML_SETTINGS];
};

/** sg_nvml_settings_read - what holds for device @physical of @devices
 * TB_ERR_ARG: SOFTGPU_NVML is wrong; @err says what in it, and what may be there. Any thread. */
TB_MUST_CHECK enum tb_status sg_nvml_settings_read(unsigned physical, unsigned devices,
                                                   struct sg_nvml_settings *out,
                                                   struct tb_error *err);

#endif
