#include "tests/softgpu/driver/driver_test.h"

static CUresult load(const char *text)
{
    CUmodule m = NULL;
    CUresult r = cuModuleLoadData(&m, text);

    if (r == CUDA_SUCCESS)
        ok(cuModuleUnload(m));
    else
        assert_null(m);
    return r;
}

static void test_module__gives_its_functions_and_variables(void **state)
{
    CUmodule m = load_test_module(), of = NULL;
    CUfunction f = function_of(m, "copy"), all[8] = {NULL};
    const char *name = NULL;
    unsigned count = 0, value = 0;
    CUdeviceptr p = 0;
    size_t n = 0;

    (void)state;
    ok(cuFuncGetName(&name, f));
    assert_string_equal(name, "copy");
    ok(cuFuncGetModule(&of, f));
    assert_ptr_equal(of, m);
    ok(cuModuleGetFunctionCount(&count, m));
    assert_int_equal(count, 4);
    ok(cuModuleEnumerateFunctions(all, 8, m));
    assert_true(all[3] && !all[4]);
    ok(cuModuleGetGlobal(&p, &n, m, "counter"));
    assert_int_equal(n, 4);
    ok(cuMemcpyDtoH(&value, p, 4));
    assert_int_equal(value, 41);
    ok(cuModuleGetGlobal(NULL, &n, m, "table"));
    assert_int_equal(n, 16);
    refused(cuModuleGetGlobal(&p, &n, m, "nothing"), CUDA_ERROR_NOT_FOUND);
    refused(cuModuleGetGlobal(NULL, NULL, m, "table"), CUDA_ERROR_INVALID_VALUE);
    refused(cuModuleGetFunction(&f, m, "nothing"), CUDA_ERROR_NOT_FOUND);
    refused(cuModuleGetFunction(&f, m, NULL), CUDA_ERROR_INVALID_VALUE);
    ok(cuModuleUnload(m));
}

static void test_module__stale_handles_are_refused(void **state)
{
    CUmodule m = load_test_module();
    CUfunction f = function_of(m, "copy");
    int value;

    (void)state;
    ok(cuModuleUnload(m));
    refused(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    refused(cuModuleGetFunction(&f, m, "copy"), CUDA_ERROR_INVALID_HANDLE);
    refused(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f), CUDA_ERROR_INVALID_HANDLE);
    refused(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    refused(cuModuleUnload(NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void test_load__each_kind_of_bad_image_has_its_error(void **state)
{
    static const char elf[64] = "\177ELF\2\1\1";
    CUmodule m;

    (void)state;
    refused(load("hello"), CUDA_ERROR_INVALID_IMAGE);
    refused(load(""), CUDA_ERROR_INVALID_IMAGE);
    refused(load("// nothing but a comment"), CUDA_ERROR_INVALID_IMAGE);
    refused(load(elf), CUDA_ERROR_NO_BINARY_FOR_GPU);
    refused(
        load(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k() { nonsense; }"),
        CUDA_ERROR_INVALID_PTX);
    refused(load(".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }"),
            CUDA_ERROR_INVALID_PTX);
    refused(load(".version 7.0\n.target sm_75\n.address_size 64\n.extern .func f();\n"
                 ".visible .entry k() { call f; ret; }"),
            CUDA_ERROR_INVALID_PTX);
    refused(cuModuleLoadData(&m, NULL), CUDA_ERROR_INVALID_VALUE);
    refused(cuModuleLoadData(NULL, test_ptx), CUDA_ERROR_INVALID_VALUE);
    refused(cuModuleLoad(&m, "no/such/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
}

/* Compilers are newer than drivers; what they write is mostly what they always wrote. */
static void test_load__newer_ptx_is_taken_if_its_instructions_are_known(void **state)
{
    (void)state;
    ok(load(".version 9.5\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }"));
    refused(load(".version 9.5\n.target sm_75\n.address_size 64\n"
                 ".visible .entry k() { frobnicate.u32; ret; }"),
            CUDA_ERROR_INVALID_PTX);
}

static void test_load__logs_tell_line_and_instruction(void **state)
{
    char error[512] = "untouched", info[64] = "untouched";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_WALL_TIME,        CU_JIT_OPTIMIZATION_LEVEL};
    void *values[] = {error, (void *)sizeof(error), info, (void *)sizeof(info), NULL, (void *)4};
    CUmodule m = NULL;

    (void)state;
    refused(cuModuleLoadDataEx(&m,
                               ".version 7.0\n.target sm_75\n.address_size 64\n"
                               ".visible .entry k()\n{\n frobnicate.u32 %r1;\n}\n",
                               6, options, values),
            CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(error, "frobnicate"));
    assert_non_null(strstr(error, "6"));
    assert_int_equal((size_t)values[1], strlen(error) + 1);
    assert_string_equal(info, "");
    values[1] = (void *)8; /* it is cut, and ended */
    refused(cuModuleLoadDataEx(&m, ".version 7.0\n.target sm_75\n.frobnicate", 6, options, values),
            CUDA_ERROR_INVALID_PTX);
    assert_int_equal(strlen(error), 7);
    values[1] = (void *)sizeof(error);
    ok(cuModuleLoadDataEx(&m, test_ptx, 6, options, values));
    assert_string_equal(error, "");
    assert_int_equal((size_t)values[1], 0);
    ok(cuModuleUnload(m));
    options[0] = (CUjit_option)999;
    refused(cuModuleLoadDataEx(&m, test_ptx, 6, options, values), CUDA_ERROR_INVALID_VALUE);
}

static void test_load__a_file_is_the_same_as_memory(void **state)
{
    char path[] = "softgpu-module-XXXXXX";
    int fd = mkstemp(path);
    CUmodule m = NULL;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, test_ptx, strlen(test_ptx)), (ssize_t)strlen(test_ptx));
    close(fd);
    ok(cuModuleLoad(&m, path));
    unlink(path);
    function_of(m, "twice");
    ok(cuModuleUnload(m));
}

static int attribute(CUfunction f, CUfunction_attribute a)
{
    int value = -7;

    ok(cuFuncGetAttribute(&value, a, f));
    return value;
}

static void test_function__attributes_say_what_it_needs(void **state)
{
    CUmodule m = load_test_module();
    CUfunction copy = function_of(m, "copy"), twice = function_of(m, "twice");
    int value;

    (void)state;
    assert_int_equal(attribute(copy, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    assert_int_equal(attribute(twice, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 128);
    assert_int_equal(attribute(twice, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 1024);
    assert_int_equal(attribute(copy, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 0);
    assert_int_equal(attribute(copy, CU_FUNC_ATTRIBUTE_BINARY_VERSION), 80);
    assert_int_equal(attribute(copy, CU_FUNC_ATTRIBUTE_PTX_VERSION), 75);
    assert_in_range(attribute(copy, CU_FUNC_ATTRIBUTE_NUM_REGS), 1, 255);
    assert_int_equal(attribute(copy, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 48 << 10);
    assert_int_equal(attribute(twice, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 47 << 10);
    assert_int_equal(attribute(copy, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT), -1);
    refused(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX, copy), CUDA_ERROR_INVALID_VALUE);
    refused(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, copy), CUDA_ERROR_INVALID_VALUE);
    ok(cuModuleUnload(m));
}

static void test_function__shared_memory_is_raised_up_to_the_device(void **state)
{
    const CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CUmodule m = load_test_module();
    CUfunction f = function_of(m, "twice");

    (void)state;
    ok(cuFuncSetAttribute(f, most, (163 << 10) - 1024));
    assert_int_equal(attribute(f, most), (163 << 10) - 1024);
    refused(cuFuncSetAttribute(f, most, (163 << 10) - 1023), CUDA_ERROR_INVALID_VALUE);
    refused(cuFuncSetAttribute(f, most, -1), CUDA_ERROR_INVALID_VALUE);
    refused(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, 4), CUDA_ERROR_INVALID_VALUE);
    refused(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101),
            CUDA_ERROR_INVALID_VALUE);
    ok(cuFuncSetCacheConfig(f, CU_FUNC_CACHE_PREFER_SHARED));
    refused(cuFuncSetCacheConfig(f, (CUfunc_cache)9), CUDA_ERROR_INVALID_VALUE);
    ok(cuModuleUnload(m));
}

static void test_function__parameters_are_laid_out_as_the_abi_says(void **state)
{
    static const size_t want[3][2] = {{0, 8}, {8, 4}, {16, 8}};
    CUmodule m = load_test_module();
    CUfunction f = function_of(m, "copy");
    CUfunctionLoadingState loaded = CU_FUNCTION_LOADING_STATE_UNLOADED;
    size_t offset, size;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        ok(cuFuncGetParamInfo(f, i, &offset, &size));
        assert_int_equal(offset, want[i][0]);
        assert_int_equal(size, want[i][1]);
    }
    ok(cuFuncGetParamInfo(f, 2, &offset, NULL));
    refused(cuFuncGetParamInfo(f, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    ok(cuFuncLoad(f));
    ok(cuFuncIsLoaded(&loaded, f));
    assert_int_equal(loaded, CU_FUNCTION_LOADING_STATE_LOADED);
    ok(cuModuleUnload(m));
}

static void test_function__belongs_to_its_context(void **state)
{
    CUmodule m = load_test_module();
    CUfunction f = function_of(m, "stop");
    CUcontext other;

    (void)state;
    ok(cuCtxCreate(&other, NULL, 0, 0));
    refused(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    ok(cuCtxDestroy(other));
    ok(cuModuleUnload(m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_module__gives_its_functions_and_variables),
        cmocka_unit_test(test_module__stale_handles_are_refused),
        cmocka_unit_test(test_load__each_kind_of_bad_image_has_its_error),
        cmocka_unit_test(test_load__newer_ptx_is_taken_if_its_instructions_are_known),
        cmocka_unit_test(test_load__logs_tell_line_and_instruction),
        cmocka_unit_test(test_load__a_file_is_the_same_as_memory),
        cmocka_unit_test(test_function__attributes_say_what_it_needs),
        cmocka_unit_test(test_function__shared_memory_is_raised_up_to_the_device),
        cmocka_unit_test(test_function__parameters_are_laid_out_as_the_abi_says),
        cmocka_unit_test(test_function__belongs_to_its_context),
    };

    setenv("SOFTGPU_LOG", "0", 1);
    return cmocka_run_group_tests(tests, start_device, stop_device);
}
