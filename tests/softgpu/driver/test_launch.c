#include "tests/softgpu/driver/driver_test.h"

struct fixture {
    CUmodule module;
    CUfunction copy, twice, sms;
    CUdeviceptr p;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f || cuModuleLoadData(&f->module, test_ptx) || cuMemAlloc(&f->p, 4096) ||
        cuModuleGetFunction(&f->copy, f->module, "copy") ||
        cuModuleGetFunction(&f->twice, f->module, "twice") ||
        cuModuleGetFunction(&f->sms, f->module, "sms"))
        return -1;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    int bad = cuMemFree(f->p) || cuModuleUnload(f->module);

    free(f);
    return bad;
}

static void expect(const struct fixture *f, uint64_t a, uint64_t b)
{
    uint64_t got[2] = {0};

    ok(cuMemcpyDtoH(got, f->p, sizeof(got)));
    assert_true(got[0] == a && got[1] == b);
}

static void test_params__come_as_an_array_of_pointers(void **state)
{
    struct fixture *f = *state;
    unsigned a = 3;
    uint64_t b = UINT64_MAX;
    void *params[] = {&f->p, &a, &b}, *hole[] = {&f->p, NULL, &b};

    ok(cuLaunchKernel(f->copy, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    a = 99; /* the values were taken at the launch */
    expect(f, 3, UINT64_MAX);
    refused(cuLaunchKernel(f->copy, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
            CUDA_ERROR_INVALID_VALUE);
    refused(cuLaunchKernel(f->copy, 1, 1, 1, 1, 1, 1, 0, NULL, hole, NULL),
            CUDA_ERROR_INVALID_VALUE);
}

static void test_params__come_as_a_packed_buffer(void **state)
{
    struct fixture *f = *state;
    struct {
        CUdeviceptr p;
        unsigned a;
        uint64_t b;
    } block = {f->p, 11, 12};
    size_t size = sizeof(block);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    void *params[] = {&block.p, &block.a, &block.b};

    ok(cuLaunchKernel(f->copy, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    expect(f, 11, 12);
    refused(cuLaunchKernel(f->copy, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra),
            CUDA_ERROR_INVALID_VALUE);
    size = 20;
    refused(cuLaunchKernel(f->copy, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
            CUDA_ERROR_INVALID_VALUE);
    size = 4000;
    refused(cuLaunchKernel(f->copy, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    extra[0] = (void *)99;
    refused(cuLaunchKernel(f->copy, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
            CUDA_ERROR_INVALID_VALUE);
}

static void test_limits__each_gives_its_error(void **state)
{
    struct fixture *f = *state;
    static const struct {
        unsigned grid[3], block[3], shared;
        CUresult want;
    } cases[] = {
        {{0, 1, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 0, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 1, 0}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 65536, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 65536}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{0x80000000u, 1, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1025, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {32, 32, 2}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 1, 65}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 1, 1}, (48 << 10) + 1, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 1, 1}, 48 << 10, CUDA_SUCCESS},
        {{1, 65535, 1}, {1, 1, 1}, 0, CUDA_SUCCESS},
        {{1, 1, 1}, {1, 16, 64}, 0, CUDA_SUCCESS},
    };
    unsigned a = 1;
    uint64_t b = 2;
    void *params[] = {&f->p, &a, &b}, *one[] = {&f->p};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        refused(cuLaunchKernel(f->copy, cases[i].grid[0], cases[i].grid[1], cases[i].grid[2],
                               cases[i].block[0], cases[i].block[1], cases[i].block[2],
                               cases[i].shared, NULL, params, NULL),
                cases[i].want);
    /* .maxntid 128 */
    refused(cuLaunchKernel(f->twice, 1, 1, 1, 129, 1, 1, 0, NULL, one, NULL),
            CUDA_ERROR_INVALID_VALUE);
    refused(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
            CUDA_ERROR_INVALID_HANDLE);
    refused(cuLaunchKernel((CUfunction)(void *)&a, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
            CUDA_ERROR_INVALID_HANDLE);
    refused(cuLaunchKernel(f->copy, 1, 1, 1, 1, 1, 1, 0, (CUstream)(void *)&a, params, NULL),
            CUDA_ERROR_INVALID_HANDLE);
    ok(cuCtxSynchronize()); /* nothing of it was sticky */
    ok(cuFuncSetAttribute(f->copy, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 163 << 10));
    ok(cuLaunchKernel(f->copy, 1, 1, 1, 1, 1, 1, 163 << 10, NULL, params, NULL));
    ok(cuCtxSynchronize());
}

static CUresult launch_with(const struct fixture *f, CUlaunchAttribute *attrs, unsigned n)
{
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = attrs,
                             .numAttrs = n};
    unsigned a = 21;
    uint64_t b = 22;
    void *params[] = {(void *)(uintptr_t)&f->p, &a, &b};

    return cuLaunchKernelEx(&config, f->copy, params, NULL);
}

static void test_attributes__are_accepted_or_named_wrong(void **state)
{
    struct fixture *f = *state;
    CUlaunchAttribute good[4] = {
        {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1},
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
         .value.programmaticStreamSerializationAllowed = 1},
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {1, 1, 1}},
        {.id = CU_LAUNCH_ATTRIBUTE_IGNORE}};
    CUlaunchAttribute bad = {.id = (CUlaunchAttributeID)60};

    ok(launch_with(f, good, 4));
    expect(f, 21, 22);
    refused(launch_with(f, &bad, 1), CUDA_ERROR_INVALID_VALUE);
    refused(launch_with(f, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    refused(cuLaunchKernelEx(NULL, f->copy, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    bad = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                              .value.clusterDim = {2, 1, 1}};
    refused(launch_with(f, &bad, 1), CUDA_ERROR_NOT_SUPPORTED); /* sm_80 */
    bad.value.clusterDim.x = 0;
    refused(launch_with(f, &bad, 1), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    bad = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
                              .value.syncPolicy = (CUsynchronizationPolicy)40};
    refused(launch_with(f, &bad, 1), CUDA_ERROR_INVALID_VALUE);
}

static void test_attributes__an_event_is_recorded_with_the_launch(void **state)
{
    struct fixture *f = *state;
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    CUevent event;

    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    attr.value.programmaticEvent.event = event;
    ok(launch_with(f, &attr, 1));
    ok(cuEventSynchronize(event));
    expect(f, 21, 22);
    ok(cuEventDestroy(event));
    refused(launch_with(f, &attr, 1), CUDA_ERROR_INVALID_HANDLE);
}

static void test_cooperative__all_blocks_must_fit(void **state)
{
    struct fixture *f = *state;
    unsigned a = 1, sms = 108;
    uint64_t b = 2;
    int blocks = 0;
    void *params[] = {&f->p, &a, &b};

    ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f->copy, 1024, 0));
    assert_in_range(blocks, 1, 2);
    ok(cuLaunchCooperativeKernel(f->copy, (unsigned)blocks * sms, 1, 1, 1024, 1, 1, 0, NULL,
                                 params));
    refused(cuLaunchCooperativeKernel(f->copy, (unsigned)blocks * sms + 1, 1, 1, 1024, 1, 1, 0,
                                      NULL, params),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    ok(cuCtxSynchronize());
}

static void test_legacy__the_old_calls_keep_their_state(void **state)
{
    struct fixture *f = *state;
    uint64_t b = 32;

    ok(cuFuncSetBlockShape(f->copy, 4, 2, 1));
    ok(cuFuncSetSharedSize(f->copy, 64));
    ok(cuParamSetv(f->copy, 0, &f->p, sizeof(f->p)));
    ok(cuParamSeti(f->copy, 8, 31));
    ok(cuParamSetv(f->copy, 16, &b, sizeof(b)));
    ok(cuParamSetSize(f->copy, 24));
    ok(cuLaunchGrid(f->copy, 2, 2));
    expect(f, 31, 32);
    ok(cuParamSetf(f->copy, 8, 1.0f));
    ok(cuLaunch(f->copy));
    expect(f, 0x3f800000, 32);
    refused(cuFuncSetBlockShape(f->copy, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
    refused(cuParamSetv(f->copy, 4095, &b, 8), CUDA_ERROR_INVALID_VALUE);
    refused(cuLaunchGrid(f->copy, -1, 1), CUDA_ERROR_INVALID_VALUE);
}

static void test_launch__many_threads_each_do_their_part(void **state)
{
    struct fixture *f = *state;
    unsigned values[128];
    void *one[] = {&f->p};

    for (unsigned i = 0; i < 128; i++)
        values[i] = i;
    ok(cuMemcpyHtoD(f->p, values, sizeof(values)));
    ok(cuLaunchKernel(f->twice, 1, 1, 1, 128, 1, 1, 0, NULL, one, NULL));
    ok(cuMemcpyDtoH(values, f->p, sizeof(values)));
    for (unsigned i = 0; i < 128; i++)
        assert_int_equal(values[i], 2 * i);
}

/* ---- options that need a process of their own ---- */

static void blocking(void *arg)
{
    CUcontext ctx;
    CUmodule m;
    CUfunction f;

    (void)arg;
    need(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&ctx, 0) == 0 && cuCtxSetCurrent(ctx) == 0);
    need(cuModuleLoadData(&m, test_ptx) == 0 && cuModuleGetFunction(&f, m, "stop") == 0);
    cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    /* it has run: no synchronisation is needed to learn of it */
    need(cuCtxSetCurrent(ctx) == 0);
    need(cuMemAlloc(&(CUdeviceptr){0}, 16) == CUDA_ERROR_LAUNCH_FAILED);
}

static void test_blocking__launches_have_run_when_they_return(void **state)
{
    (void)state;
    assert_int_equal(in_child(blocking, NULL, ENV("CUDA_LAUNCH_BLOCKING", "1")), 0);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest forked[] = {
        cmocka_unit_test(test_blocking__launches_have_run_when_they_return),
    };
    const struct CMUnitTest tests[] = {
        HERE(test_params__come_as_an_array_of_pointers),
        HERE(test_params__come_as_a_packed_buffer),
        HERE(test_limits__each_gives_its_error),
        HERE(test_attributes__are_accepted_or_named_wrong),
        HERE(test_attributes__an_event_is_recorded_with_the_launch),
        HERE(test_cooperative__all_blocks_must_fit),
        HERE(test_legacy__the_old_calls_keep_their_state),
        HERE(test_launch__many_threads_each_do_their_part),
    };
    int failed;

    setenv("SOFTGPU_LOG", "0", 1);
    failed = cmocka_run_group_tests(forked, NULL, NULL);
    return cmocka_run_group_tests(tests, start_device, stop_device) + failed;
}
