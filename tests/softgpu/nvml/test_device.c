/* Handles and names: the same devices as the driver's, whatever CUDA_VISIBLE_DEVICES says. */
#include "softgpu/driver/uuid.h"
#include "tests/softgpu/nvml/nvml_test.h"

#include <cuda.h>

static void test_init__counts_and_ends(void **state)
{
    unsigned n;

    (void)state;
    FAILS(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
    FAILS(nvmlDeviceGetCount(&n), NVML_ERROR_UNINITIALIZED);
    OK(nvmlInit());
    OK(nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS));
    FAILS(nvmlInitWithFlags(64), NVML_ERROR_INVALID_ARGUMENT);
    OK(nvmlShutdown());
    OK(nvmlDeviceGetCount(&n));
    assert_int_equal(n, 2);
    OK(nvmlShutdown());
    FAILS(nvmlDeviceGetCount(&n), NVML_ERROR_UNINITIALIZED);
    FAILS(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

static void test_init__refuses_bad_options(void **state)
{
    (void)state;
    setenv("SOFTGPU_DEVICES", "many", 1);
    FAILS(nvmlInit(), NVML_ERROR_UNKNOWN);
    setenv("SOFTGPU_DEVICES", "2", 1);
    setenv("SOFTGPU_NVML", "temperature=hot", 1);
    FAILS(nvmlInit(), NVML_ERROR_UNKNOWN);
    unsetenv("SOFTGPU_NVML");
}

static void test_handles__are_found_by_every_name(void **state)
{
    char uuid[96], serial[64], tiny[4];
    nvmlDevice_t d;
    nvmlPciInfo_t pci;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        nvmlDevice_t want = device_at(i);
        unsigned index = 99;

        OK(nvmlDeviceGetUUID(want, uuid, sizeof(uuid)));
        OK(nvmlDeviceGetHandleByUUID(uuid, &d));
        assert_ptr_equal(d, want);
        OK(nvmlDeviceGetSerial(want, serial, sizeof(serial)));
        OK(nvmlDeviceGetHandleBySerial(serial, &d));
        assert_ptr_equal(d, want);
        OK(nvmlDeviceGetPciInfo(want, &pci));
        OK(nvmlDeviceGetHandleByPciBusId(pci.busId, &d));
        assert_ptr_equal(d, want);
        OK(nvmlDeviceGetHandleByPciBusId(pci.busIdLegacy, &d));
        assert_ptr_equal(d, want);
        OK(nvmlDeviceGetIndex(want, &index));
        assert_int_equal(index, i);
    }
    FAILS(nvmlDeviceGetHandleByIndex(2, &d), NVML_ERROR_INVALID_ARGUMENT);
    FAILS(nvmlDeviceGetHandleByUUID("GPU-0", &d), NVML_ERROR_NOT_FOUND);
    FAILS(nvmlDeviceGetHandleByPciBusId("0000:77:00.0", &d), NVML_ERROR_NOT_FOUND);
    FAILS(nvmlDeviceGetHandleByPciBusId("nowhere", &d), NVML_ERROR_INVALID_ARGUMENT);
    FAILS(nvmlDeviceGetUUID(device_at(0), tiny, sizeof(tiny)), NVML_ERROR_INSUFFICIENT_SIZE);
    FAILS(nvmlDeviceGetUUID((nvmlDevice_t)uuid, uuid, sizeof(uuid)), NVML_ERROR_INVALID_ARGUMENT);
    FAILS(nvmlDeviceGetUUID(NULL, uuid, sizeof(uuid)), NVML_ERROR_INVALID_ARGUMENT);
}

/* What CUDA says of its only visible device, number 1, is what NVML says of its device 1. */
static void test_device__is_the_drivers(void **state)
{
    nvmlDevice_t d = device_at(1);
    char name[96], cu_name[96], text[96], cu_text[SG_UUID_TEXT], bus[32];
    unsigned n, sm, memory_clock;
    int major, minor, version, cu_version, value;
    nvmlMemory_t memory;
    nvmlPciInfo_t pci;
    size_t total;
    CUuuid uuid;

    (void)state;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDeviceGetCount(&value), CUDA_SUCCESS);
    assert_int_equal(value, 1);
    OK(nvmlDeviceGetCount(&n));
    assert_int_equal(n, 2);

    OK(nvmlDeviceGetName(d, name, sizeof(name)));
    cuDeviceGetName(cu_name, sizeof(cu_name), 0);
    assert_string_equal(name, cu_name);
    OK(nvmlDeviceGetUUID(d, text, sizeof(text)));
    cuDeviceGetUuid_v2(&uuid, 0);
    sg_uuid_text(&uuid, cu_text);
    assert_string_equal(text, cu_text);
    OK(nvmlDeviceGetPciInfo(d, &pci));
    cuDeviceGetPCIBusId(bus, sizeof(bus), 0);
    assert_string_equal(pci.busIdLegacy, bus);
    OK(nvmlDeviceGetMemoryInfo(d, &memory));
    cuDeviceTotalMem(&total, 0);
    assert_int_equal(memory.total, total);
    OK(nvmlDeviceGetCudaComputeCapability(d, &major, &minor));
    cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    assert_int_equal(major, value);
    assert_int_equal(minor, 0);
    OK(nvmlSystemGetCudaDriverVersion(&version));
    cuDriverGetVersion(&cu_version);
    assert_int_equal(version, cu_version);
    OK(nvmlDeviceGetMaxClockInfo(d, NVML_CLOCK_SM, &sm));
    cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 0);
    assert_int_equal(sm * 1000, value);
    OK(nvmlDeviceGetMaxClockInfo(d, NVML_CLOCK_MEM, &memory_clock));
    cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 0);
    assert_int_equal(memory_clock * 1000, value);
    cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 0);
    assert_int_equal(value, 1);
    OK(nvmlDeviceGetNumGpuCores(d, &n));
    cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    assert_int_equal(n, 64 * value);
}

static void test_links__are_those_of_peers_without_nvlink(void **state)
{
    nvmlDevice_t a = device_at(0), b = device_at(1);
    nvmlGpuFabricInfoV_t fabric = {.version = nvmlGpuFabricInfo_v2};
    nvmlGpuP2PStatus_t status;
    nvmlEnableState_t active;
    nvmlPciInfo_t pci;
    unsigned now, later;

    (void)state;
    OK(nvmlDeviceGetP2PStatus(a, b, NVML_P2P_CAPS_INDEX_READ, &status));
    assert_int_equal(status, NVML_P2P_STATUS_OK);
    OK(nvmlDeviceGetP2PStatus(a, b, NVML_P2P_CAPS_INDEX_NVLINK, &status));
    assert_int_equal(status, NVML_P2P_STATUS_NOT_SUPPORTED);
    FAILS(nvmlDeviceGetP2PStatus(a, a, NVML_P2P_CAPS_INDEX_READ, &status),
          NVML_ERROR_INVALID_ARGUMENT);
    FAILS(nvmlDeviceGetNvLinkState(a, 0, &active), NVML_ERROR_NOT_SUPPORTED);
    FAILS(nvmlDeviceGetNvLinkState(a, 99, &active), NVML_ERROR_INVALID_ARGUMENT);
    FAILS(nvmlDeviceGetNvLinkRemotePciInfo(a, 0, &pci), NVML_ERROR_NOT_SUPPORTED);
    OK(nvmlDeviceGetGpuFabricInfoV(a, &fabric));
    assert_int_equal(fabric.state, NVML_GPU_FABRIC_STATE_NOT_SUPPORTED);
    fabric.version = 77;
    FAILS(nvmlDeviceGetGpuFabricInfoV(a, &fabric), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    OK(nvmlDeviceGetMigMode(a, &now, &later));
    assert_int_equal(now | later, NVML_DEVICE_MIG_DISABLE);
}

static void test_rest__is_refused_or_said_to_be_absent(void **state)
{
    nvmlDevice_t d = device_at(0);
    nvmlDriverModel_t model;
    unsigned speed, count = 0;

    (void)state;
    FAILS(nvmlDeviceGetFanSpeed(d, &speed), NVML_ERROR_NOT_SUPPORTED);
    FAILS(nvmlDeviceGetDriverModel(d, &model, &model), NVML_ERROR_NOT_SUPPORTED);
    FAILS(nvmlDeviceSetPersistenceMode(d, NVML_FEATURE_DISABLED), NVML_ERROR_NOT_SUPPORTED);
    FAILS(nvmlDeviceGetSupportedMemoryClocks(d, &count, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(count, 1);
    OK(nvmlDeviceGetSupportedMemoryClocks(d, &count, &speed));
    assert_int_equal(speed, 1215);
    assert_string_equal(nvmlErrorString(NVML_ERROR_NOT_SUPPORTED), "Not Supported");
    assert_string_equal(nvmlErrorString((nvmlReturn_t)12345), "Unknown Error");
}

int main(void)
{
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(test_init__counts_and_ends),
        cmocka_unit_test(test_init__refuses_bad_options),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handles__are_found_by_every_name),
        cmocka_unit_test(test_device__is_the_drivers),
        cmocka_unit_test(test_links__are_those_of_peers_without_nvlink),
        cmocka_unit_test(test_rest__is_refused_or_said_to_be_absent),
    };

    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    return cmocka_run_group_tests(alone, NULL, NULL) +
           cmocka_run_group_tests(tests, start_nvml, stop_nvml);
}
