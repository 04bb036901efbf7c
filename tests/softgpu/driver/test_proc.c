/* cuGetProcAddress: names, versions, flags. */
#include "tests/softgpu/driver/driver_test.h"

#include <dlfcn.h>

static void *find(const char *name, int version, cuuint64_t flags,
                  CUdriverProcAddressQueryResult want)
{
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    void *f = (void *)1;

    ok(cuGetProcAddress(name, &f, version, flags, &status));
    assert_int_equal(status, want);
    return f;
}

static void *exported(const char *name)
{
    void *f = dlsym(RTLD_DEFAULT, name);

    assert_non_null(f);
    return f;
}

static void test_proc__the_version_chooses_the_form(void **state)
{
    static const struct {
        const char *name;
        int version;
        const char *want;
    } cases[] = {
        {"cuCtxCreate", 2000, "cuCtxCreate"},
        {"cuCtxCreate", 3010, "cuCtxCreate"},
        {"cuCtxCreate", 3020, "cuCtxCreate_v2"},
        {"cuCtxCreate", 11030, "cuCtxCreate_v2"},
        {"cuCtxCreate", 11040, "cuCtxCreate_v3"},
        {"cuCtxCreate", 12050, "cuCtxCreate_v4"},
        {"cuMemAlloc", 3020, "cuMemAlloc_v2"},
        {"cuMemAlloc", 3010, "cuMemAlloc"},
        {"cuInit", 2000, "cuInit"},
        {"cuInit", CUDA_VERSION, "cuInit"},
        {"cuGetProcAddress", 11030, "cuGetProcAddress"},
        {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
        {"cuGraphInstantiate", 10000, "cuGraphInstantiate"},
        {"cuGraphInstantiate", 11000, "cuGraphInstantiate_v2"},
        {"cuGraphAddKernelNode", 10000, "cuGraphAddKernelNode"},
        {"cuGraphAddKernelNode", 12000, "cuGraphAddKernelNode_v2"},
        {"cuProfilerStart", 4000, "cuProfilerStart"},
        {"cuIpcGetMemHandle", 12000, "cuIpcGetMemHandle"}, /* exported, though not supported */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_ptr_equal(find(cases[i].name, cases[i].version, 0, CU_GET_PROC_ADDRESS_SUCCESS),
                         exported(cases[i].want));
}

static void test_proc__flags_choose_the_default_stream(void **state)
{
    const cuuint64_t legacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    const cuuint64_t own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

    (void)state;
    assert_ptr_equal(find("cuMemcpyHtoD", 12000, own, CU_GET_PROC_ADDRESS_SUCCESS),
                     exported("cuMemcpyHtoD_v2_ptds"));
    assert_ptr_equal(find("cuMemcpyHtoD", 12000, legacy, CU_GET_PROC_ADDRESS_SUCCESS),
                     exported("cuMemcpyHtoD_v2"));
    assert_ptr_equal(find("cuLaunchKernel", 12000, own, CU_GET_PROC_ADDRESS_SUCCESS),
                     exported("cuLaunchKernel_ptsz"));
    assert_ptr_equal(find("cuLaunchKernel", 4000, own, CU_GET_PROC_ADDRESS_SUCCESS),
                     exported("cuLaunchKernel")); /* before there was another */
    assert_ptr_equal(find("cuInit", 12000, own, CU_GET_PROC_ADDRESS_SUCCESS), exported("cuInit"));
}

static void test_proc__what_is_not_there_is_null_with_a_reason(void **state)
{
    CUdriverProcAddressQueryResult status;
    void *f = (void *)1;

    (void)state;
    assert_null(find("cuNonsense", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
    assert_null(find("cuMemAlloc_v2", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
    assert_null(find("", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
    assert_null(find("cuMemAllocAsync", 11010, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
    ok(cuGetProcAddress("cuNonsense", &f, 12000, 0, NULL));
    assert_null(f);
    refused(cuGetProcAddress(NULL, &f, 12000, 0, &status), CUDA_ERROR_INVALID_VALUE);
    refused(cuGetProcAddress("cuInit", NULL, 12000, 0, &status), CUDA_ERROR_INVALID_VALUE);
    refused(cuGetProcAddress("cuInit", &f, CUDA_VERSION + 1000, 0, &status),
            CUDA_ERROR_INVALID_VALUE);
    refused(cuGetProcAddress("cuInit", &f, 12000, 8, &status), CUDA_ERROR_INVALID_VALUE);
}

static void test_proc__the_first_form_returns_an_error(void **state)
{
    CUresult (*old)(const char *, void **, int, cuuint64_t);
    void *f = (void *)1, *at = find("cuGetProcAddress", 11030, 0, CU_GET_PROC_ADDRESS_SUCCESS);

    (void)state;
    memcpy(&old, &at, sizeof(old));
    ok(old("cuInit", &f, 11030, 0));
    assert_ptr_equal(f, exported("cuInit"));
    refused(old("cuNonsense", &f, 11030, 0), CUDA_ERROR_NOT_FOUND);
    assert_null(f);
}

static void test_unsupported__calls_answer_so_and_do_no_harm(void **state)
{
    CUipcMemHandle handle;
    const void *table = NULL;
    CUuuid id = {{0}};

    (void)state;
    refused(cuIpcGetMemHandle(&handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    refused(cuIpcGetMemHandle(&handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    refused(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_SUPPORTED);
    assert_null(table);
}

static void test_tools__what_programs_call_at_start_and_end_succeeds(void **state)
{
    static const char *const names[] = {"cuProfilerStart", "cuProfilerStop"};
    CUresult (*call)(void);

    (void)state;
    for (unsigned i = 0; i < 2; i++) { /* cudaProfiler.h is not with every cuda.h */
        void *at = exported(names[i]);

        memcpy(&call, &at, sizeof(call));
        ok(call());
    }
}

/* The last calls must go through the names themselves, as a process with its own thread does. */
static void test_ptds__names_work_like_the_plain_ones(void **state)
{
    CUresult (*copy)(CUdeviceptr, const void *, size_t);
    void *at = exported("cuMemcpyHtoD_v2_ptds");
    CUdeviceptr p;
    int in = 7, out = 0;

    (void)state;
    memcpy(&copy, &at, sizeof(copy));
    ok(cuMemAlloc(&p, 4));
    ok(copy(p, &in, 4));
    ok(cuMemcpyDtoH(&out, p, 4));
    assert_int_equal(out, 7);
    ok(cuMemFree(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proc__the_version_chooses_the_form),
        cmocka_unit_test(test_proc__flags_choose_the_default_stream),
        cmocka_unit_test(test_proc__what_is_not_there_is_null_with_a_reason),
        cmocka_unit_test(test_proc__the_first_form_returns_an_error),
        cmocka_unit_test(test_unsupported__calls_answer_so_and_do_no_harm),
        cmocka_unit_test(test_tools__what_programs_call_at_start_and_end_succeeds),
        cmocka_unit_test(test_ptds__names_work_like_the_plain_ones),
    };

    setenv("SOFTGPU_LOG", "0", 1);
    return cmocka_run_group_tests(tests, start_device, stop_device);
}
