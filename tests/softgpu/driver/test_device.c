#include "tests/softgpu/driver/driver_test.h"

static int attribute(CUdevice_attribute a, CUdevice d)
{
    int value = -1;

    return cuDeviceGetAttribute(&value, a, d) == CUDA_SUCCESS ? value : -1;
}

static void test_device__clients_find_what_they_gate_on(void **state)
{
    static const struct {
        CUdevice_attribute attribute;
        int value;
    } want[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 108},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 163 << 10},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 164 << 10},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4 << 20},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
        {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
        {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        assert_int_equal(attribute(want[i].attribute, 0), want[i].value);
}

static void test_attribute__unknown_ones_and_devices_are_refused(void **state)
{
    int value;

    (void)state;
    refused(cuDeviceGetAttribute(&value, (CUdevice_attribute)0, 0), CUDA_ERROR_INVALID_VALUE);
    refused(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
    refused(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), CUDA_ERROR_INVALID_VALUE);
    refused(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 2),
            CUDA_ERROR_INVALID_DEVICE);
    refused(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1),
            CUDA_ERROR_INVALID_DEVICE);
    for (int a = 1; a < (int)CU_DEVICE_ATTRIBUTE_MAX; a++)
        ok(cuDeviceGetAttribute(&value, (CUdevice_attribute)a, 1));
}

static void test_device__two_of_them_are_told_apart(void **state)
{
    CUuuid a, b, again;
    CUdevice d = -1;
    char id[16];
    int bus[2];

    (void)state;
    ok(cuDeviceGetUuid(&a, 0));
    ok(cuDeviceGetUuid(&b, 1));
    ok(cuDeviceGetUuid(&again, 0));
    assert_memory_not_equal(&a, &b, sizeof(a));
    assert_memory_equal(&a, &again, sizeof(a));
    for (int i = 0; i < 2; i++) {
        bus[i] = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i);
        ok(cuDeviceGetPCIBusId(id, sizeof(id), i));
        ok(cuDeviceGetByPCIBusId(&d, id));
        assert_int_equal(d, i);
    }
    assert_int_not_equal(bus[0], bus[1]);
    ok(cuDeviceGetByPCIBusId(&d, "02:00.0"));
    assert_int_equal(d, 1);
    refused(cuDeviceGetByPCIBusId(&d, "0000:77:00.0"), CUDA_ERROR_INVALID_DEVICE);
    refused(cuDeviceGetByPCIBusId(&d, "nonsense"), CUDA_ERROR_INVALID_VALUE);
    refused(cuDeviceGetPCIBusId(id, 5, 0), CUDA_ERROR_INVALID_VALUE);
}

static void test_device__old_calls_agree_with_attributes(void **state)
{
    CUdevprop prop;
    int major, minor;

    (void)state;
    ok(cuDeviceGetProperties(&prop, 0));
    assert_int_equal(prop.maxThreadsPerBlock, 1024);
    assert_int_equal(prop.maxThreadsDim[2], 64);
    assert_int_equal(prop.maxGridSize[1], 65535);
    assert_int_equal(prop.SIMDWidth, 32);
    assert_int_equal(prop.regsPerBlock, 65536);
    assert_int_equal(prop.clockRate, attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 0));
    ok(cuDeviceComputeCapability(&major, &minor, 0));
    assert_int_equal(major * 10 + minor, 80);
}

static void test_peer__devices_reach_each_other_but_not_themselves(void **state)
{
    int can = -1, value = -1;

    (void)state;
    ok(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    ok(cuDeviceCanAccessPeer(&can, 1, 1));
    assert_int_equal(can, 0);
    ok(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
    assert_int_equal(value, 1);
    refused(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0),
            CUDA_ERROR_INVALID_DEVICE);
    refused(cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)77, 0, 1),
            CUDA_ERROR_INVALID_VALUE);
}

static void test_affinity__is_not_supported_and_says_so(void **state)
{
    CUexecAffinityParam param = {.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT};
    int supported = -1;

    (void)state;
    ok(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
    assert_int_equal(supported, 0);
    refused(cuCtxGetExecAffinity(&param, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
            CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device__clients_find_what_they_gate_on),
        cmocka_unit_test(test_attribute__unknown_ones_and_devices_are_refused),
        cmocka_unit_test(test_device__two_of_them_are_told_apart),
        cmocka_unit_test(test_device__old_calls_agree_with_attributes),
        cmocka_unit_test(test_peer__devices_reach_each_other_but_not_themselves),
        cmocka_unit_test(test_affinity__is_not_supported_and_says_so),
    };

    return cmocka_run_group_tests(tests, start_device, stop_device);
}
