/* What the tests of NVML share. */
#ifndef SG_NVML_TEST_H
#define SG_NVML_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <nvml.h>

#define OK(call) assert_int_equal((call), NVML_SUCCESS)
#define FAILS(call, error) assert_int_equal((call), (error))

static inline int start_nvml(void **state)
{
    (void)state;
    return nvmlInit() == NVML_SUCCESS ? 0 : -1;
}

static inline int stop_nvml(void **state)
{
    (void)state;
    unsetenv("SOFTGPU_NVML");
    return nvmlShutdown() == NVML_SUCCESS ? 0 : -1;
}

static inline nvmlDevice_t device_at(unsigned index)
{
    nvmlDevice_t d = NULL;

    OK(nvmlDeviceGetHandleByIndex(index, &d));
    return d;
}

#endif
