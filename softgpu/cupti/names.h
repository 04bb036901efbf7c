/* Names that gen_cupti.py takes from CUPTI's headers: callback ids and results. */
#ifndef SG_CUPTI_NAMES_H
#define SG_CUPTI_NAMES_H

#include <stdint.h>

/* By callback id; NULL where there is none. Runtime names end in the version: cudaMalloc_v3020. */
extern const char *const sg_cupti_driver_names[], *const sg_cupti_runtime_names[],
                                                      *const sg_cupti_nvtx_names[];
extern const uint32_t sg_cupti_driver_names_count, sg_cupti_runtime_names_count,
    sg_cupti_nvtx_names_count;

struct sg_cupti_result_name {
    int value;
    const char *name, *text;
};
extern const struct sg_cupti_result_name sg_cupti_results[];
extern const uint32_t sg_cupti_results_count;

#endif
