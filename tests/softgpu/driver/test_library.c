/* Libraries, their kernels, and cuLink. */
#include "tests/softgpu/driver/driver_test.h"

static const char managed_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .global .attribute(.managed) .align 4 .u32 total = 5;\n"
    ".visible .global .align 4 .u32 own = 1;\n"
    ".visible .entry bump()\n{\n .reg .u64 %rd<2>;\n .reg .u32 %r<2>;\n"
    " mov.u64 %rd0, total;\n ld.global.u32 %r0, [%rd0];\n add.u32 %r0, %r0, 1;\n"
    " st.global.u32 [%rd0], %r0;\n ret;\n}\n";

static CUlibrary load(const char *text)
{
    CUlibrary lib = NULL;

    ok(cuLibraryLoadData(&lib, text, NULL, NULL, 0, NULL, NULL, 0));
    assert_non_null(lib);
    return lib;
}

static void test_library__lists_its_kernels(void **state)
{
    CUlibrary lib = load(test_ptx), of = NULL;
    CUkernel k = NULL, all[8] = {NULL};
    const char *name = NULL;
    unsigned count = 0;
    size_t offset, size;

    (void)state;
    ok(cuLibraryGetKernelCount(&count, lib));
    assert_int_equal(count, 4);
    ok(cuLibraryEnumerateKernels(all, 8, lib));
    assert_true(all[3] && !all[4]);
    ok(cuLibraryGetKernel(&k, lib, "copy"));
    ok(cuKernelGetName(&name, k));
    assert_string_equal(name, "copy");
    ok(cuKernelGetLibrary(&of, k));
    assert_ptr_equal(of, lib);
    ok(cuKernelGetParamInfo(k, 2, &offset, &size));
    assert_true(offset == 16 && size == 8);
    refused(cuLibraryGetKernel(&k, lib, "nothing"), CUDA_ERROR_NOT_FOUND);
    ok(cuLibraryUnload(lib));
    refused(cuLibraryUnload(lib), CUDA_ERROR_INVALID_HANDLE);
    refused(cuKernelGetName(&name, k), CUDA_ERROR_INVALID_HANDLE);
}

static void test_library__loads_without_a_context(void **state)
{
    CUlibrary lib = NULL;
    CUcontext ctx = NULL;
    CUfunction f = NULL;
    CUkernel k = NULL;

    (void)state;
    ok(cuCtxPopCurrent(&ctx));
    lib = load(test_ptx);
    ok(cuLibraryGetKernel(&k, lib, "copy"));
    refused(cuKernelGetFunction(&f, k), CUDA_ERROR_INVALID_CONTEXT);
    ok(cuCtxSetCurrent(ctx));
    ok(cuKernelGetFunction(&f, k));
    assert_non_null(f);
    ok(cuLibraryUnload(lib));
}

static void test_kernel__is_launched_in_the_streams_context(void **state)
{
    CUlibrary lib = load(test_ptx);
    CUcontext other;
    CUkernel k = NULL;
    CUdeviceptr p;
    uint64_t got[2], b = 77;
    unsigned a = 5;
    void *params[] = {&p, &a, &b};

    (void)state;
    ok(cuLibraryGetKernel(&k, lib, "copy"));
    for (int device = 0; device < 2; device++) {
        ok(cuCtxCreate(&other, NULL, 0, device));
        ok(cuMemAlloc(&p, 16));
        ok(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        ok(cuMemcpyDtoH(got, p, 16));
        assert_true(got[0] == 5 && got[1] == 77);
        ok(cuCtxDestroy(other));
    }
    ok(cuLibraryUnload(lib));
}

static void test_library__module_is_its_own_and_stays_with_it(void **state)
{
    CUlibrary lib = load(managed_ptx);
    CUmodule m = NULL;
    CUdeviceptr p = 0;
    size_t n = 0;

    (void)state;
    ok(cuLibraryGetModule(&m, lib));
    refused(cuModuleUnload(m), CUDA_ERROR_NOT_PERMITTED);
    ok(cuLibraryGetGlobal(&p, &n, lib, "own"));
    assert_int_equal(n, 4);
    refused(cuLibraryGetGlobal(&p, &n, lib, "nothing"), CUDA_ERROR_NOT_FOUND);
    refused(cuLibraryGetManaged(&p, &n, lib, "own"), CUDA_ERROR_NOT_FOUND);
    ok(cuLibraryUnload(lib));
    refused(cuModuleGetGlobal(&p, &n, m, "own"), CUDA_ERROR_INVALID_HANDLE);
}

static void test_library__managed_variables_are_one_for_all_devices(void **state)
{
    CUlibrary lib = load(managed_ptx);
    CUdeviceptr p = 0, again = 0;
    CUcontext other;
    CUkernel k;
    size_t n = 0;
    volatile unsigned *total;

    (void)state;
    ok(cuLibraryGetManaged(&p, &n, lib, "total"));
    assert_int_equal(n, 4);
    total = (volatile unsigned *)(uintptr_t)p;
    assert_int_equal(*total, 5);
    ok(cuLibraryGetKernel(&k, lib, "bump"));
    ok(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ok(cuCtxSynchronize());
    assert_int_equal(*total, 6);
    ok(cuCtxCreate(&other, NULL, 0, 1));
    ok(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ok(cuCtxSynchronize());
    assert_int_equal(*total, 7); /* not set anew by the second device's copy of the code */
    ok(cuLibraryGetManaged(&again, NULL, lib, "total"));
    assert_int_equal(p, again);
    ok(cuCtxDestroy(other));
    ok(cuLibraryUnload(lib));
}

static void test_kernel__attributes_are_of_a_device(void **state)
{
    const CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CUlibrary lib = load(test_ptx);
    CUfunction f = NULL;
    CUkernel k = NULL;
    int value = 0;

    (void)state;
    ok(cuLibraryGetKernel(&k, lib, "copy"));
    ok(cuKernelSetAttribute(most, 100000, k, 1));
    ok(cuKernelGetAttribute(&value, most, k, 0));
    assert_int_equal(value, 48 << 10);
    ok(cuKernelGetAttribute(&value, most, k, 1));
    assert_int_equal(value, 100000);
    ok(cuKernelSetAttribute(most, 60000, k, 0));
    ok(cuKernelGetFunction(&f, k));
    ok(cuFuncGetAttribute(&value, most, f));
    assert_int_equal(value, 60000);
    ok(cuFuncSetAttribute(f, most, 70000));
    ok(cuKernelSetAttribute(most, 50000, k, 0)); /* the function's own stays */
    ok(cuFuncGetAttribute(&value, most, f));
    assert_int_equal(value, 70000);
    ok(cuKernelGetAttribute(&value, most, k, 0));
    assert_int_equal(value, 50000);
    refused(cuKernelSetAttribute(most, 1 << 20, k, 0), CUDA_ERROR_INVALID_VALUE);
    refused(cuKernelSetAttribute(most, 1, k, 4), CUDA_ERROR_INVALID_DEVICE);
    ok(cuLibraryUnload(lib));
}

static void test_library__refusals_come_at_load(void **state)
{
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    char error[256] = "";
    CUjit_option jit[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {error, (void *)sizeof(error)};
    CUlibrary lib = NULL;

    (void)state;
    refused(cuLibraryLoadData(&lib, ".version 7.0\n.target sm_75\n.bogus", jit, values, 2, NULL,
                              NULL, 0),
            CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(error, "bogus"));
    refused(cuLibraryLoadData(&lib, "junk", NULL, NULL, 0, NULL, NULL, 0),
            CUDA_ERROR_INVALID_IMAGE);
    refused(cuLibraryLoadFromFile(&lib, "x.ptx", NULL, NULL, 0, &option, NULL, 1),
            CUDA_ERROR_INVALID_VALUE);
    refused(cuLibraryLoadFromFile(&lib, "no/such/file", NULL, NULL, 0, NULL, NULL, 0),
            CUDA_ERROR_FILE_NOT_FOUND);
    assert_null(lib);
}

/* ---- cuLink ---- */

static const char caller[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .b32 r) triple (.param .b32 x);\n"
    ".visible .entry k(.param .u64 p)\n{\n .reg .u64 %rd;\n .reg .u32 %r<2>;\n"
    " ld.param.u64 %rd, [p];\n mov.u32 %r0, 14;\n"
    " { .param .b32 a; .param .b32 q;\n st.param.b32 [a], %r0;\n"
    " call.uni (q), triple, (a);\n ld.param.b32 %r1, [q]; }\n"
    " st.global.u32 [%rd], %r1;\n ret;\n}\n";
static const char callee[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .func (.param .b32 r) triple (.param .b32 x)\n{\n .reg .u32 %r<2>;\n"
    " ld.param.b32 %r0, [x];\n mul.lo.u32 %r1, %r0, 3;\n st.param.b32 [r], %r1;\n ret;\n}\n";

static void add(CUlinkState link, const char *text)
{
    char *copy = strdup(text); /* "no reference is retained" */

    ok(cuLinkAddData(link, CU_JIT_INPUT_PTX, copy, strlen(copy) + 1, "part", 0, NULL, NULL));
    memset(copy, 'x', strlen(copy));
    free(copy);
}

static void test_link__two_texts_become_one_module(void **state)
{
    char archive[] = "!<arch>\nanything";
    CUlinkState link = NULL;
    CUmodule m = NULL;
    CUdeviceptr p;
    void *image = NULL, *params[] = {&p};
    unsigned got = 0;
    size_t size = 0;

    (void)state;
    ok(cuLinkCreate(0, NULL, NULL, &link));
    add(link, caller);
    add(link, callee);
    ok(cuLinkAddData(link, CU_JIT_INPUT_LIBRARY, archive, sizeof(archive), "libcudadevrt.a", 0,
                     NULL, NULL));
    ok(cuLinkComplete(link, &image, &size));
    assert_true(image && size > strlen(caller));
    ok(cuModuleLoadData(&m, image));
    ok(cuLinkDestroy(link));
    ok(cuMemAlloc(&p, 4));
    ok(cuLaunchKernel(function_of(m, "k"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    ok(cuMemcpyDtoH(&got, p, 4));
    assert_int_equal(got, 42);
    ok(cuMemFree(p));
    ok(cuModuleUnload(m));
    refused(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
}

static void test_link__what_is_missing_is_named(void **state)
{
    char error[512] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {error, (void *)sizeof(error)}, *image = NULL;
    CUlinkState link = NULL;
    size_t size = 0;

    (void)state;
    ok(cuLinkCreate(2, options, values, &link));
    add(link, caller);
    refused(cuLinkComplete(link, &image, &size), CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(error, "triple"));
    assert_null(image);
    add(link, callee); /* it may go on */
    ok(cuLinkComplete(link, &image, &size));
    ok(cuLinkDestroy(link));
}

/* Two kernels that keep 64 values at a time, @second with launch bounds. */
static char *many_registers(void)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    fprintf(f, ".version 7.0\n.target sm_75\n.address_size 64\n");
    for (int k = 0; k < 2; k++) {
        fprintf(f,
                ".visible .entry %s(.param .u64 p)\n%s{\n .reg .u64 %%rd;\n .reg .u32 %%r<64>;\n",
                k ? "second" : "first", k ? ".maxntid 128, 1, 1\n" : "");
        fprintf(f, " ld.param.u64 %%rd, [p];\n");
        for (int i = 0; i < 64; i++)
            fprintf(f, " ld.global.u32 %%r%d, [%%rd+%d];\n", i, 4 * i);
        for (int i = 0; i < 64; i++)
            fprintf(f, " st.global.u32 [%%rd+%d], %%r%d;\n", 4 * i, 63 - i);
        fprintf(f, " ret;\n}\n");
    }
    assert_int_equal(fclose(f), 0);
    return text;
}

static int regs(CUmodule m, const char *name)
{
    int n = 0;

    ok(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_NUM_REGS, function_of(m, name)));
    return n;
}

static void test_link__most_registers_are_kept(void **state)
{
    CUjit_option options[] = {CU_JIT_MAX_REGISTERS};
    void *forty[] = {(void *)(uintptr_t)40}, *fifty[] = {(void *)(uintptr_t)50}, *image = NULL;
    char *text = many_registers();
    CUlinkState link = NULL;
    CUmodule m = NULL;
    size_t size = 0;

    (void)state;
    ok(cuModuleLoadData(&m, text));
    assert_true(regs(m, "first") > 50);
    ok(cuModuleUnload(m));
    ok(cuModuleLoadDataEx(&m, text, 1, options, fifty));
    assert_int_equal(regs(m, "first"), 50);
    assert_true(regs(m, "second") > 50);
    ok(cuModuleUnload(m));
    ok(cuLinkCreate(1, options, forty, &link));
    add(link, text);
    ok(cuLinkComplete(link, &image, &size));
    ok(cuModuleLoadData(&m, image));
    assert_int_equal(regs(m, "first"), 40);
    assert_true(regs(m, "second") > 50);
    ok(cuModuleUnload(m));
    ok(cuLinkDestroy(link));
    free(text);
}

static void test_library__most_registers_are_kept(void **state)
{
    CUjit_option options[] = {CU_JIT_MAX_REGISTERS};
    void *values[] = {(void *)(uintptr_t)40};
    char *text = many_registers();
    CUlibrary lib = NULL;
    CUkernel kernel = NULL;
    CUdevice dev;
    int n = 0;

    (void)state;
    ok(cuCtxGetDevice(&dev));
    ok(cuLibraryLoadData(&lib, text, options, values, 1, NULL, NULL, 0));
    ok(cuLibraryGetKernel(&kernel, lib, "first"));
    ok(cuKernelGetAttribute(&n, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, dev));
    assert_int_equal(n, 40);
    ok(cuLibraryUnload(lib));
    free(text);
}

static void test_link__bad_inputs_are_refused(void **state)
{
    char junk[] = "junk", elf[64] = "\177ELF\2\1\1";
    CUlinkState link = NULL;

    (void)state;
    ok(cuLinkCreate(0, NULL, NULL, &link));
    refused(cuLinkAddData(link, CU_JIT_INPUT_PTX, junk, sizeof(junk), NULL, 0, NULL, NULL),
            CUDA_ERROR_INVALID_IMAGE);
    refused(cuLinkAddData(link, CU_JIT_INPUT_CUBIN, elf, sizeof(elf), NULL, 0, NULL, NULL),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
    refused(cuLinkAddData(link, (CUjitInputType)77, junk, sizeof(junk), NULL, 0, NULL, NULL),
            CUDA_ERROR_INVALID_VALUE);
    refused(cuLinkAddFile(link, CU_JIT_INPUT_PTX, "no/such/file", 0, NULL, NULL),
            CUDA_ERROR_FILE_NOT_FOUND);
    ok(cuLinkDestroy(link));
    refused(cuLinkAddData(link, CU_JIT_INPUT_PTX, junk, sizeof(junk), NULL, 0, NULL, NULL),
            CUDA_ERROR_INVALID_HANDLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library__lists_its_kernels),
        cmocka_unit_test(test_library__loads_without_a_context),
        cmocka_unit_test(test_kernel__is_launched_in_the_streams_context),
        cmocka_unit_test(test_library__module_is_its_own_and_stays_with_it),
        cmocka_unit_test(test_library__managed_variables_are_one_for_all_devices),
        cmocka_unit_test(test_kernel__attributes_are_of_a_device),
        cmocka_unit_test(test_library__refusals_come_at_load),
        cmocka_unit_test(test_link__two_texts_become_one_module),
        cmocka_unit_test(test_link__what_is_missing_is_named),
        cmocka_unit_test(test_link__most_registers_are_kept),
        cmocka_unit_test(test_library__most_registers_are_kept),
        cmocka_unit_test(test_link__bad_inputs_are_refused),
    };

    setenv("SOFTGPU_LOG", "0", 1);
    return cmocka_run_group_tests(tests, start_device, stop_device);
}
