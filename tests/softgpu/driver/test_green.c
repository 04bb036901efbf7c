/* Green contexts: SMs of a device in parts. */
#include "tests/softgpu/driver/driver_test.h"

static CUdevResource all_sms(void)
{
    CUdevResource r;

    ok(cuDeviceGetDevResource(0, &r, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(r.type, CU_DEV_RESOURCE_TYPE_SM);
    assert_int_equal(r.sm.smCount, 108);
    return r;
}

static void test_split__groups_are_rounded_and_equal(void **state)
{
    static const struct {
        unsigned least, want, groups, each, rest;
    } cases[] = {
        {8, 3, 3, 8, 84},  {7, 2, 2, 8, 92},   {1, 100, 27, 4, 0},  {0, 1, 1, 4, 104},
        {54, 2, 2, 54, 0}, {55, 2, 1, 56, 52}, {108, 1, 1, 108, 0},
    };
    CUdevResource all = all_sms(), parts[100], rest;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned n = cases[i].want;

        ok(cuDevSmResourceSplitByCount(parts, &n, &all, &rest, 0, cases[i].least));
        assert_int_equal(n, cases[i].groups);
        for (unsigned k = 0; k < n; k++)
            assert_int_equal(parts[k].sm.smCount, cases[i].each);
        assert_int_equal(rest.sm.smCount, cases[i].rest);
        assert_int_equal(rest.type,
                         cases[i].rest ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID);
    }
}

static void test_split__without_a_result_it_counts(void **state)
{
    CUdevResource all = all_sms(), part;
    unsigned n = 1;

    (void)state;
    ok(cuDevSmResourceSplitByCount(NULL, &n, &all, NULL, 0, 10));
    assert_int_equal(n, 10);
    n = 1;
    refused(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, 109), CUDA_ERROR_INVALID_VALUE);
    refused(cuDevSmResourceSplitByCount(&part, NULL, &all, NULL, 0, 4), CUDA_ERROR_INVALID_VALUE);
    refused(cuDevSmResourceSplitByCount(&part, &n, NULL, NULL, 0, 4), CUDA_ERROR_INVALID_VALUE);
    ok(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, 8));
    refused(cuDevSmResourceSplitByCount(&all, &n, &part, NULL, 0, 4),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    part.type = CU_DEV_RESOURCE_TYPE_INVALID;
    refused(cuDevSmResourceSplitByCount(&all, &n, &part, NULL, 0, 4),
            CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

static void test_desc__parts_must_be_of_one_split(void **state)
{
    CUdevResource all = all_sms(), parts[4];
    CUdevResourceDesc desc = NULL;
    unsigned n = 2;

    (void)state;
    ok(cuDevSmResourceSplitByCount(parts, &n, &all, NULL, 0, 8));
    ok(cuDevResourceGenerateDesc(&desc, parts, 2));
    n = 1;
    ok(cuDevSmResourceSplitByCount(parts + 1, &n, &all, NULL, 0, 8));
    refused(cuDevResourceGenerateDesc(&desc, parts, 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    refused(cuDevResourceGenerateDesc(&desc, parts, 0), CUDA_ERROR_INVALID_VALUE);
    memset(parts, 0, sizeof(parts));
    refused(cuDevResourceGenerateDesc(&desc, parts, 1), CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

static CUgreenCtx make_green(unsigned sms)
{
    CUdevResource all = all_sms(), part;
    CUdevResourceDesc desc = NULL;
    CUgreenCtx g = NULL;
    unsigned n = 1;

    ok(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, sms));
    ok(cuDevResourceGenerateDesc(&desc, &part, 1));
    refused(cuGreenCtxCreate(&g, desc, 1, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_ERROR_INVALID_DEVICE);
    refused(cuGreenCtxCreate(&g, desc, 0, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuGreenCtxCreate(&g, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    return g;
}

static void test_green__launches_see_their_share_of_the_device(void **state)
{
    CUgreenCtx g = make_green(54);
    CUmodule m = load_test_module(); /* of the primary context */
    CUfunction f = function_of(m, "sms");
    CUcontext primary, ctx = NULL;
    CUdevResource r;
    CUstream s;
    CUdeviceptr p;
    unsigned whole = 0, half = 0, by_stream = 0;
    void *params[] = {&p};

    (void)state;
    ok(cuCtxGetCurrent(&primary));
    ok(cuMemAlloc(&p, 4));
    ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    ok(cuMemcpyDtoH(&whole, p, 4));
    ok(cuCtxFromGreenCtx(&ctx, g));
    assert_ptr_not_equal(ctx, primary);
    ok(cuGreenCtxStreamCreate(&s, g, CU_STREAM_NON_BLOCKING, 0));
    refused(cuGreenCtxStreamCreate(&s, g, 0, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
    ok(cuStreamSynchronize(s));
    ok(cuMemcpyDtoH(&by_stream, p, 4));
    ok(cuStreamDestroy(s));
    ok(cuCtxSetCurrent(ctx));
    ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    ok(cuMemcpyDtoH(&half, p, 4));
    assert_int_equal(whole, 2 * half);
    assert_int_equal(by_stream, half);
    ok(cuCtxGetDevResource(ctx, &r, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(r.sm.smCount, 54);
    ok(cuGreenCtxGetDevResource(g, &r, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(r.sm.smCount, 54);
    ok(cuCtxSetCurrent(primary));
    ok(cuGreenCtxDestroy(g));
    refused(cuGreenCtxDestroy(g), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuCtxSetCurrent(ctx), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ok(cuMemFree(p));
    ok(cuModuleUnload(m));
}

static void test_green__keeps_the_primary_context_alive(void **state)
{
    CUdevResource r;
    CUdevResourceDesc desc;
    CUgreenCtx g;
    unsigned flags;
    int active;

    (void)state;
    ok(cuDeviceGetDevResource(1, &r, CU_DEV_RESOURCE_TYPE_SM));
    ok(cuDevResourceGenerateDesc(&desc, &r, 1));
    ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 0);
    ok(cuGreenCtxCreate(&g, desc, 1, CU_GREEN_CTX_DEFAULT_STREAM));
    ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 1);
    ok(cuGreenCtxDestroy(g));
    ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 0);
}

static void test_green__events_order_it_with_others(void **state)
{
    CUgreenCtx g = make_green(8);
    CUevent e;

    (void)state;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    ok(cuGreenCtxRecordEvent(g, e));
    ok(cuEventSynchronize(e));
    ok(cuGreenCtxWaitEvent(g, e));
    ok(cuGreenCtxDestroy(g));
    refused(cuGreenCtxRecordEvent(g, e), CUDA_ERROR_INVALID_CONTEXT);
    ok(cuEventDestroy(e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split__groups_are_rounded_and_equal),
        cmocka_unit_test(test_split__without_a_result_it_counts),
        cmocka_unit_test(test_desc__parts_must_be_of_one_split),
        cmocka_unit_test(test_green__launches_see_their_share_of_the_device),
        cmocka_unit_test(test_green__keeps_the_primary_context_alive),
        cmocka_unit_test(test_green__events_order_it_with_others),
    };

    setenv("SOFTGPU_LOG", "0", 1);
    setenv("SOFTGPU_SMS", "4", 1);
    return cmocka_run_group_tests(tests, start_device, stop_device);
}
