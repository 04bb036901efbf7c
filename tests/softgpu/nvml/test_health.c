/* Sensors, errors and events, as they are by themselves and as SOFTGPU_NVML has them. */
#include "tests/softgpu/nvml/nvml_test.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int clear(void **state)
{
    (void)state;
    return unsetenv("SOFTGPU_NVML");
}

static unsigned temperature(unsigned index)
{
    unsigned t = 0;

    OK(nvmlDeviceGetTemperature(device_at(index), NVML_TEMPERATURE_GPU, &t));
    return t;
}

static void test_sensors__are_what_is_said(void **state)
{
    nvmlDevice_t d = device_at(1);
    unsigned n;
    unsigned long long reasons, before, after;

    (void)state;
    assert_int_equal(temperature(1), 40);
    OK(nvmlDeviceGetPowerUsage(d, &n));
    assert_int_equal(n, 75000);
    OK(nvmlDeviceGetTotalEnergyConsumption(d, &before));
    setenv("SOFTGPU_NVML",
           "temperature=85 ; device=1 power=300 clock.sm=210 throttle=hw_thermal+sw_power", 1);
    assert_int_equal(temperature(0), 85);
    assert_int_equal(temperature(1), 85);
    OK(nvmlDeviceGetPowerUsage(d, &n));
    assert_int_equal(n, 300000);
    OK(nvmlDeviceGetPowerUsage(device_at(0), &n));
    assert_int_equal(n, 75000);
    OK(nvmlDeviceGetClockInfo(d, NVML_CLOCK_SM, &n));
    assert_int_equal(n, 210);
    OK(nvmlDeviceGetMaxClockInfo(d, NVML_CLOCK_SM, &n));
    assert_int_equal(n, 1410);
    OK(nvmlDeviceGetCurrentClocksEventReasons(d, &reasons));
    assert_int_equal(reasons,
                     nvmlClocksThrottleReasonHwThermalSlowdown | nvmlClocksEventReasonSwPowerCap);
    OK(nvmlDeviceGetTotalEnergyConsumption(d, &after));
    assert_true(after > before);
    FAILS(nvmlDeviceGetTemperature(d, (nvmlTemperatureSensors_t)7, &n),
          NVML_ERROR_INVALID_ARGUMENT);
    FAILS(nvmlDeviceGetTemperature(d, NVML_TEMPERATURE_GPU, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static void test_errors__are_none_until_said(void **state)
{
    nvmlDevice_t d = device_at(0);
    nvmlFieldValue_t fields[3] = {{.fieldId = NVML_FI_DEV_ECC_DBE_VOL_TOTAL},
                                  {.fieldId = NVML_FI_DEV_REMAPPED_PENDING},
                                  {.fieldId = NVML_FI_DEV_RETIRED_PENDING}};
    nvmlRowRemapperHistogramValues_t banks;
    unsigned long long n;
    unsigned corrected, uncorrected, pending, failed, pages = 0;

    (void)state;
    OK(nvmlDeviceGetTotalEccErrors(d, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &n));
    assert_int_equal(n, 0);
    setenv("SOFTGPU_NVML", "device=0 ecc.uncorrected=2 remapped.uncorrected=3 remapped.pending=1",
           1);
    OK(nvmlDeviceGetTotalEccErrors(d, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &n));
    assert_int_equal(n, 2);
    OK(nvmlDeviceGetMemoryErrorCounter(d, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC,
                                       NVML_MEMORY_LOCATION_DRAM, &n));
    assert_int_equal(n, 2);
    OK(nvmlDeviceGetMemoryErrorCounter(d, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC,
                                       NVML_MEMORY_LOCATION_L2_CACHE, &n));
    assert_int_equal(n, 0);
    OK(nvmlDeviceGetTotalEccErrors(device_at(1), NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                   NVML_VOLATILE_ECC, &n));
    assert_int_equal(n, 0);
    OK(nvmlDeviceGetRemappedRows(d, &corrected, &uncorrected, &pending, &failed));
    assert_int_equal(uncorrected, 3);
    assert_int_equal(pending, 1);
    assert_int_equal(corrected | failed, 0);
    OK(nvmlDeviceGetRowRemapperHistogram(d, &banks));
    assert_int_equal(banks.high, 3);
    OK(nvmlDeviceGetFieldValues(d, 3, fields));
    assert_int_equal(fields[0].value.ullVal, 2);
    assert_int_equal(fields[1].value.ullVal, 1);
    assert_int_equal(fields[2].nvmlReturn, NVML_ERROR_NOT_SUPPORTED); /* sm_80 remaps */
    FAILS(
        nvmlDeviceGetRetiredPages(d, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR, &pages, NULL),
        NVML_ERROR_NOT_SUPPORTED);
}

static void test_lost_device__answers_nothing_else(void **state)
{
    nvmlDevice_t d = device_at(1), again;
    unsigned n;

    (void)state;
    setenv("SOFTGPU_NVML", "device=1 lost=1", 1);
    FAILS(nvmlDeviceGetTemperature(d, NVML_TEMPERATURE_GPU, &n), NVML_ERROR_GPU_IS_LOST);
    FAILS(nvmlDeviceGetHandleByIndex(1, &again), NVML_ERROR_GPU_IS_LOST);
    assert_int_equal(temperature(0), 40);
}

static void test_file__is_read_anew(void **state)
{
    char path[] = "/tmp/softgpu-nvml-XXXXXX", value[64];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    snprintf(value, sizeof(value), "@%s", path);
    setenv("SOFTGPU_NVML", value, 1);
    assert_int_equal(temperature(0), 40);
    assert_int_equal(write(fd, "device=0 temperature=91\ndevice=1 temperature=55\n", 48), 48);
    assert_int_equal(temperature(0), 91);
    assert_int_equal(temperature(1), 55);
    /* half written, and gone: what was there holds */
    assert_int_equal(ftruncate(fd, 20), 0);
    assert_int_equal(temperature(0), 91);
    assert_int_equal(temperature(1), 55);
    close(fd);
    unlink(path);
    assert_int_equal(temperature(1), 55);
}

static void test_events__come_once_or_time_out(void **state)
{
    struct timespec a, b;
    nvmlEventData_t data;
    nvmlEventSet_t set;

    (void)state;
    OK(nvmlEventSetCreate(&set));
    FAILS(nvmlDeviceRegisterEvents(device_at(0), nvmlEventTypePState, set),
          NVML_ERROR_NOT_SUPPORTED);
    OK(nvmlDeviceRegisterEvents(device_at(1), nvmlEventTypeXidCriticalError, set));
    clock_gettime(CLOCK_MONOTONIC, &a);
    FAILS(nvmlEventSetWait(set, &data, 120), NVML_ERROR_TIMEOUT);
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_true((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 >= 119);
    setenv("SOFTGPU_NVML", "xid=79", 1); /* device 0 is not registered */
    OK(nvmlEventSetWait(set, &data, 0));
    assert_ptr_equal(data.device, device_at(1));
    assert_int_equal(data.eventType, nvmlEventTypeXidCriticalError);
    assert_int_equal(data.eventData, 79);
    FAILS(nvmlEventSetWait(set, &data, 0), NVML_ERROR_TIMEOUT);
    OK(nvmlEventSetFree(set));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_sensors__are_what_is_said, clear),
        cmocka_unit_test_teardown(test_errors__are_none_until_said, clear),
        cmocka_unit_test_teardown(test_lost_device__answers_nothing_else, clear),
        cmocka_unit_test_teardown(test_file__is_read_anew, clear),
        cmocka_unit_test_teardown(test_events__come_once_or_time_out, clear),
    };

    return cmocka_run_group_tests(tests, start_nvml, stop_nvml);
}
