/* What nvcc's host code does: registration, launches, symbols; the fat binary is PTX text. */
#include "rt_test.h"

#include <string.h>

#if CUDART_VERSION < 13000
#define cudaGraphAddNode cudaGraphAddNode_v2 /* the form with edge data, which is CUDA 13's */
#endif

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".visible .global .align 4 .u32 scale = 3;\n"
                          ".visible .const .align 4 .u32 bias[2] = {10, 20};\n"
                          ".visible .global .attribute(.managed) .align 4 .u32 shared_count;\n"
                          ".visible .entry mul_add(.param .u64 out, .param .u32 n)\n"
                          ".maxntid 256, 1, 1\n"
                          "{\n"
                          "    .reg .pred %p<2>;\n    .reg .b32 %r<9>;\n    .reg .b64 %rd<4>;\n"
                          "    mov.u32 %r1, %ctaid.x;\n    mov.u32 %r2, %ntid.x;\n"
                          "    mov.u32 %r3, %tid.x;\n    mad.lo.s32 %r4, %r1, %r2, %r3;\n"
                          "    ld.param.u32 %r5, [n];\n    setp.ge.u32 %p1, %r4, %r5;\n"
                          "    @%p1 bra done;\n"
                          "    ld.param.u64 %rd1, [out];\n    cvta.to.global.u64 %rd1, %rd1;\n"
                          "    mul.wide.u32 %rd2, %r4, 4;\n    add.s64 %rd3, %rd1, %rd2;\n"
                          "    ld.global.u32 %r6, [scale];\n    ld.const.u32 %r7, [bias+4];\n"
                          "    mad.lo.s32 %r8, %r4, %r6, %r7;\n    st.global.u32 [%rd3], %r8;\n"
                          "    atom.global.add.u32 %r6, [shared_count], 1;\n"
                          "done:\n    ret;\n}\n"
                          ".visible .entry trap_here()\n{\n    trap;\n    ret;\n}\n";

/* stand-ins for what nvcc makes on the host side: only their addresses count */
static char mul_add, trap_here, unknown, scale, bias, gone;
static unsigned *shared_count;
static void **handle;

static int register_all(void **state)
{
    (void)state;
    handle = __cudaRegisterFatBinary((void *)(uintptr_t)ptx);
    __cudaRegisterFunction(handle, &mul_add, &mul_add, "mul_add", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, &trap_here, &trap_here, "trap_here", -1, NULL, NULL, NULL, NULL,
                           NULL);
    __cudaRegisterFunction(handle, &gone, &gone, "not_in_the_ptx", -1, NULL, NULL, NULL, NULL,
                           NULL);
    __cudaRegisterVar(handle, &scale, &scale, "scale", 0, 4, 0, 1);
    __cudaRegisterVar(handle, &bias, &bias, "bias", 0, 8, 1, 0);
    __cudaRegisterManagedVar(handle, (void **)&shared_count, (char *)&shared_count, "shared_count",
                             0, 4, 0, 1);
    __cudaRegisterFatBinaryEnd(handle);
    return handle == NULL ? -1 : 0;
}

static int unregister(void **state)
{
    cudaKernel_t k = NULL;

    (void)state;
    __cudaUnregisterFatBinary(handle);
    return cudaGetSymbolAddress((void **)&k, &scale) == cudaErrorInvalidSymbol ? 0 : -1;
}

static void check_launch(unsigned factor, unsigned offset, const unsigned *device, unsigned n)
{
    unsigned host[1000];

    assert_true(n <= 1000);
    assert_ok(cudaMemcpy(host, device, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(host[i], i * factor + offset);
}

static unsigned *new_output(unsigned n)
{
    void *p = NULL;

    assert_ok(cudaMalloc(&p, n * sizeof(unsigned)));
    assert_ok(cudaMemset(p, 0xee, n * sizeof(unsigned)));
    return p;
}

static void test_launch__runs_the_registered_kernel(void **state)
{
    unsigned n = 1000, *out = new_output(n);
    void *args[] = {&out, &n};
    dim3 grid = {4, 1, 1}, block = {256, 1, 1};

    (void)state;
    assert_ok(cudaLaunchKernel(&mul_add, grid, block, args, 0, NULL));
    assert_ok(cudaGetLastError());
    check_launch(3, 20, out, n);
    assert_ok(cudaFree(out));
}

/* Kernels and variables are a device's own; the host's handles are the same. */
static void test_launch__on_each_device_with_its_own_variables(void **state)
{
    unsigned n = 64, five = 5, *first = new_output(n), *second;
    void *args[] = {&first, &n};
    dim3 one = {1, 1, 1}, block = {64, 1, 1};
    cudaKernel_t kernel = NULL;

    (void)state;
    assert_ok(__cudaGetKernel(&kernel, &mul_add));
    assert_ok(cudaSetDevice(1));
    second = new_output(n);
    assert_ok(cudaMemcpyToSymbol(&scale, &five, 4, 0, cudaMemcpyHostToDevice));
    args[0] = &second;
    assert_ok(__cudaLaunchKernel(kernel, one, block, args, 0, NULL));
    check_launch(5, 20, second, n);
    assert_ok(cudaFree(second));
    assert_ok(cudaSetDevice(0));
    args[0] = &first;
    assert_ok(__cudaLaunchKernel(kernel, one, block, args, 0, NULL));
    check_launch(3, 20, first, n);
    assert_ok(cudaFree(first));
}

static void test_launch__by_kernel_handle_as_cuda_13_does(void **state)
{
    unsigned n = 64, *out = new_output(n);
    void *args[] = {&out, &n};
    dim3 grid = {1, 1, 1}, block = {64, 1, 1}, g, b;
    size_t shared = 99;
    cudaStream_t stream = NULL, made = NULL;
    cudaKernel_t kernel = NULL, again = NULL;

    (void)state;
    assert_ok(cudaStreamCreate(&made));
    assert_ok(__cudaGetKernel(&kernel, &mul_add));
    assert_int_equal(__cudaPushCallConfiguration(grid, block, 16, made), 0);
    assert_ok(__cudaPopCallConfiguration(&g, &b, &shared, &stream));
    assert_int_equal(shared, 16);
    assert_ptr_equal(stream, made);
    assert_ok(__cudaLaunchKernel(kernel, g, b, args, shared, stream));
    assert_ok(cudaStreamSynchronize(stream));
    check_launch(3, 20, out, n);
    assert_ok(cudaGetKernel(&again, &mul_add));
    assert_ptr_equal(kernel, again);
    assert_fails(__cudaPopCallConfiguration(&g, &b, &shared, &stream),
                 cudaErrorMissingConfiguration);
    assert_ok(cudaStreamDestroy(made));
    assert_ok(cudaFree(out));
}

static void test_launch__with_a_config_and_attributes(void **state)
{
    unsigned n = 128, *out = new_output(n);
    void *args[] = {&out, &n};
    cudaLaunchAttribute attr = {.id = cudaLaunchAttributeCooperative, .val = {.cooperative = 1}};
    cudaLaunchConfig_t config = {
        .gridDim = {2, 1, 1}, .blockDim = {64, 1, 1}, .attrs = &attr, .numAttrs = 1};

    (void)state;
    assert_ok(cudaLaunchKernelExC(&config, &mul_add, args));
    check_launch(3, 20, out, n);
    assert_ok(cudaMemset(out, 0, n * 4));
    assert_ok(
        cudaLaunchCooperativeKernel(&mul_add, config.gridDim, config.blockDim, args, 0, NULL));
    check_launch(3, 20, out, n);
    assert_fails(cudaLaunchKernelExC(NULL, &mul_add, args), cudaErrorInvalidValue);
    assert_ok(cudaFree(out));
}

static void test_launch__errors_are_the_documented_ones(void **state)
{
    unsigned n = 1, *out = new_output(n);
    void *args[] = {&out, &n};
    dim3 one = {1, 1, 1}, zero = {0, 1, 1}, wide = {2048, 1, 1}, more = {512, 1, 1};

    (void)state;
    assert_fails(cudaLaunchKernel(&mul_add, zero, one, args, 0, NULL),
                 cudaErrorInvalidConfiguration);
    assert_fails(cudaLaunchKernel(&mul_add, one, wide, args, 0, NULL),
                 cudaErrorInvalidConfiguration);
    assert_fails(cudaLaunchKernel(&mul_add, one, one, args, (size_t)1 << 40, NULL),
                 cudaErrorInvalidValue);
    assert_int_not_equal(cudaLaunchKernel(&mul_add, one, more, args, 0, NULL), cudaSuccess);
    assert_int_not_equal(cudaGetLastError(), cudaSuccess); /* more than .maxntid */
    assert_fails(cudaLaunchKernel(NULL, one, one, args, 0, NULL), cudaErrorInvalidDeviceFunction);
    assert_fails(cudaLaunchKernel(&gone, one, one, args, 0, NULL), cudaErrorInvalidDeviceFunction);
    assert_ok(cudaFree(out));
}

/* The launch stub ignores what __cudaGetKernel returns: the launch must fail too, every time. */
static void test_launch__of_what_cannot_be_loaded_fails_each_time(void **state)
{
    static char host;
    static const char bad[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                              ".visible .entry k()\n{\n    no.such.instruction;\n}\n";
    void **h = __cudaRegisterFatBinary((void *)(uintptr_t)bad);
    dim3 one = {1, 1, 1};
    cudaKernel_t kernel = NULL;
    cudaError_t err;

    (void)state;
    __cudaRegisterFunction(h, &host, &host, "k", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(h);
    err = __cudaGetKernel(&kernel, &host);
    assert_int_not_equal(err, cudaSuccess);
    (void)cudaGetLastError();
    for (int i = 0; i < 2; i++)
        assert_fails(__cudaLaunchKernel(kernel, one, one, NULL, 0, NULL), err);
    assert_fails(cudaLaunchKernel(&host, one, one, NULL, 0, NULL), err);
    __cudaUnregisterFatBinary(h);
}

static void test_attributes__of_a_kernel(void **state)
{
    struct cudaFuncAttributes a;
    const char *name = NULL;
    size_t offset = 99, size = 0, dynamic = 0;
    cudaFunction_t f = NULL;
    int blocks = 0;

    (void)state;
    memset(&a, 0xff, sizeof(a));
    assert_ok(cudaFuncGetAttributes(&a, &mul_add));
    assert_int_equal(a.maxThreadsPerBlock, 256);
    assert_true(a.numRegs > 0 && a.numRegs <= 255);
    assert_int_equal(a.sharedSizeBytes, 0);
    assert_int_equal(a.ptxVersion, 80);
    assert_ok(cudaFuncSetAttribute(&mul_add, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    assert_ok(cudaFuncGetAttributes(&a, &mul_add));
    assert_int_equal(a.maxDynamicSharedSizeBytes, 65536);
    assert_fails(
        cudaFuncSetAttribute(&mul_add, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20),
        cudaErrorInvalidValue);
    assert_ok(cudaFuncGetName(&name, &mul_add));
    assert_string_equal(name, "mul_add");
    assert_ok(cudaFuncGetParamInfo(&mul_add, 1, &offset, &size));
    assert_int_equal(offset, 8);
    assert_int_equal(size, 4);
    assert_fails(cudaFuncGetParamInfo(&mul_add, 2, &offset, &size), cudaErrorInvalidValue);
    assert_ok(cudaGetFuncBySymbol(&f, &mul_add));
    assert_non_null(f);
    assert_ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &mul_add, 256, 0));
    assert_true(blocks >= 1 && blocks <= 32);
    assert_ok(cudaOccupancyAvailableDynamicSMemPerBlock(&dynamic, &mul_add, 1, 256));
    assert_true(dynamic > 0);
    assert_fails(cudaFuncGetAttributes(&a, &unknown), cudaErrorInvalidDeviceFunction);
}

static void test_symbols__are_found_copied_and_bounded(void **state)
{
    unsigned two[2] = {7, 8}, got = 0, n = 4, *out = new_output(n);
    void *args[] = {&out, &n}, *p = NULL;
    dim3 one = {1, 1, 1}, four = {4, 1, 1};
    size_t size = 0;

    (void)state;
    assert_ok(cudaGetSymbolAddress(&p, &scale));
    assert_non_null(p);
    assert_ok(cudaGetSymbolSize(&size, &bias));
    assert_int_equal(size, 8);
    assert_ok(cudaMemcpyToSymbol(&bias, two, 8, 0, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpyToSymbol(&scale, two, 4, 0, cudaMemcpyDefault));
    assert_ok(cudaLaunchKernel(&mul_add, one, four, args, 0, NULL));
    check_launch(7, 8, out, n);
    assert_ok(cudaMemcpyFromSymbol(&got, &bias, 4, 4, cudaMemcpyDeviceToHost));
    assert_int_equal(got, 8);
    assert_fails(cudaMemcpyToSymbol(&bias, two, 8, 4, cudaMemcpyHostToDevice),
                 cudaErrorInvalidValue);
    assert_fails(cudaMemcpyToSymbol(&bias, two, 8, 0, cudaMemcpyDeviceToHost),
                 cudaErrorInvalidMemcpyDirection);
    assert_fails(cudaGetSymbolAddress(&p, &unknown), cudaErrorInvalidSymbol);
    two[0] = 3, two[1] = 20;
    assert_ok(cudaMemcpyToSymbol(&bias, &two[1], 4, 4, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpyToSymbol(&scale, two, 4, 0, cudaMemcpyHostToDevice));
    assert_ok(cudaFree(out));
}

static void test_managed__variable_is_the_hosts_too(void **state)
{
    unsigned n = 5, *out = new_output(n), before;
    void *args[] = {&out, &n};
    dim3 one = {1, 1, 1}, block = {32, 1, 1};

    (void)state;
    assert_int_equal(__cudaInitModule(handle), 1);
    assert_non_null(shared_count);
    assert_ok(cudaDeviceSynchronize());
    before = *shared_count;
    assert_ok(cudaLaunchKernel(&mul_add, one, block, args, 0, NULL));
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(*shared_count, before + 5);
    assert_ok(cudaFree(out));
}

static void test_registration__of_many_is_lazy_and_found(void **state)
{
    enum { N = 20000 };
    static char hosts[N];
    void **h = __cudaRegisterFatBinary((void *)(uintptr_t) "not looked at");
    struct cudaFuncAttributes a;

    (void)state;
    for (int i = 0; i < N; i++)
        __cudaRegisterFunction(h, &hosts[i], &hosts[i], "k", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(h);
    assert_ok(cudaFuncGetAttributes(&a, &mul_add)); /* others are still found */
    __cudaUnregisterFatBinary(h);
    assert_ok(cudaFuncGetAttributes(&a, &mul_add));
}

static void test_graph__holds_kernel_copy_set_and_host_nodes(void **state)
{
    unsigned n = 100, *out = new_output(n), host[100] = {0};
    void *args[] = {&out, &n};
    struct cudaKernelNodeParams kp = {
        .func = &mul_add, .gridDim = {1, 1, 1}, .blockDim = {128, 1, 1}, .kernelParams = args};
    struct cudaKernelNodeParams back;
    struct cudaMemsetParams sp = {
        .dst = out, .value = 0, .elementSize = 4, .width = 50, .height = 1, .pitch = 400};
    cudaGraphNode_t k = NULL, s = NULL, c = NULL;
    cudaGraph_t g = NULL;
    cudaGraphExec_t e = NULL;
    size_t nodes = 0;

    (void)state;
    assert_ok(cudaGraphCreate(&g, 0));
    assert_ok(cudaGraphAddKernelNode(&k, g, NULL, 0, &kp));
    assert_ok(cudaGraphAddMemsetNode(&s, g, &k, 1, &sp));
    assert_ok(
        cudaGraphAddMemcpyNode1D(&c, g, &s, 1, host, out, sizeof(host), cudaMemcpyDeviceToHost));
    assert_ok(cudaGraphGetNodes(g, NULL, &nodes));
    assert_int_equal(nodes, 3);
    assert_ok(cudaGraphKernelNodeGetParams(k, &back));
    assert_ptr_equal(back.func, &mul_add);
    assert_int_equal(back.blockDim.x, 128);
    assert_ok(cudaGraphInstantiate(&e, g, 0));
    assert_ok(cudaGraphLaunch(e, NULL));
    assert_ok(cudaStreamSynchronize(NULL));
    assert_int_equal(host[49], 0);
    assert_int_equal(host[50], 50 * 3 + 20);
    n = 60;
    assert_ok(cudaGraphExecKernelNodeSetParams(e, k, &kp));
    assert_ok(cudaMemset(out, 0, 400));
    assert_ok(cudaGraphLaunch(e, NULL));
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(host[59], 59 * 3 + 20);
    assert_int_equal(host[60], 0);
    assert_fails(cudaGraphAddMemcpyNode1D(&c, NULL, NULL, 0, host, out, 4, cudaMemcpyDeviceToHost),
                 cudaErrorInvalidValue);
    assert_ok(cudaGraphExecDestroy(e));
    assert_ok(cudaGraphDestroy(g));
    assert_ok(cudaFree(out));
}

static void test_graph__takes_nodes_of_any_kind_in_the_generic_form(void **state)
{
    unsigned n = 32, *out = new_output(n), host[32] = {0};
    void *args[] = {&out, &n};
    struct cudaGraphNodeParams p = {.type = cudaGraphNodeTypeKernel};
    cudaGraphNode_t k = NULL, c = NULL;
    cudaGraph_t g = NULL;
    cudaGraphExec_t e = NULL;
    enum cudaGraphNodeType type = cudaGraphNodeTypeEmpty;

    (void)state;
    assert_ok(cudaGraphCreate(&g, 0));
    p.kernel.func = &mul_add;
    p.kernel.gridDim = (dim3){1, 1, 1};
    p.kernel.blockDim = (dim3){32, 1, 1};
    p.kernel.kernelParams = args;
    assert_ok(cudaGraphAddNode(&k, g, NULL, NULL, 0, &p));
    p = (struct cudaGraphNodeParams){.type = cudaGraphNodeTypeMemcpy};
    p.memcpy.copyParams.srcPtr = (struct cudaPitchedPtr){out, 128, 128, 1};
    p.memcpy.copyParams.dstPtr = (struct cudaPitchedPtr){host, 128, 128, 1};
    p.memcpy.copyParams.extent = (struct cudaExtent){128, 1, 1};
    p.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
    assert_ok(cudaGraphAddNode(&c, g, &k, NULL, 1, &p));
    assert_ok(cudaGraphNodeGetType(c, &type));
    assert_int_equal(type, cudaGraphNodeTypeMemcpy);
    assert_ok(cudaGraphInstantiate(&e, g, 0));
    assert_ok(cudaGraphLaunch(e, NULL));
    assert_ok(cudaDeviceSynchronize());
    assert_int_equal(host[31], 31 * 3 + 20);
    p.type = cudaGraphNodeTypeExtSemaphoreWait;
    assert_fails(cudaGraphAddNode(&c, g, NULL, NULL, 0, &p), cudaErrorNotSupported);
    assert_fails(cudaGraphAddNode(&c, g, NULL, NULL, 0, NULL), cudaErrorInvalidValue);
    assert_ok(cudaGraphExecDestroy(e));
    assert_ok(cudaGraphDestroy(g));
    assert_ok(cudaFree(out));
}

static void test_capture__makes_the_same_graph(void **state)
{
    unsigned n = 100, *out = new_output(n), host[100] = {0};
    void *args[] = {&out, &n};
    dim3 one = {1, 1, 1}, block = {128, 1, 1};
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStream_t s = NULL;
    cudaGraph_t g = NULL;
    cudaGraphExec_t e = NULL;
    size_t nodes = 0;

    (void)state;
    assert_ok(cudaStreamCreate(&s));
    assert_ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    assert_ok(cudaStreamIsCapturing(s, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_ok(cudaLaunchKernel(&mul_add, one, block, args, 0, s));
    assert_ok(cudaMemcpyAsync(host, out, sizeof(host), cudaMemcpyDeviceToHost, s));
    assert_ok(cudaStreamEndCapture(s, &g));
    assert_ok(cudaGraphGetNodes(g, NULL, &nodes));
    assert_int_equal(nodes, 2);
    assert_int_equal(host[99], 0);
    assert_ok(cudaGraphInstantiateWithFlags(&e, g, 0));
    assert_ok(cudaGraphLaunch(e, s));
    assert_ok(cudaStreamSynchronize(s));
    assert_int_equal(host[99], 99 * 3 + 20);
    assert_ok(cudaGraphExecDestroy(e));
    assert_ok(cudaGraphDestroy(g));
    assert_ok(cudaStreamDestroy(s));
    assert_ok(cudaFree(out));
}

/* Last: it kills the context, and a reset brings the device back. */
static void test_sticky__errors_stay_until_the_device_is_reset(void **state)
{
    dim3 one = {1, 1, 1};
    void *p = NULL;

    (void)state;
    assert_ok(cudaLaunchKernel(&trap_here, one, one, NULL, 0, NULL));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    assert_int_equal(cudaMalloc(&p, 4), cudaErrorLaunchFailure);
    assert_ok(cudaDeviceReset());
    (void)cudaGetLastError();
    assert_ok(cudaMalloc(&p, 4));
    assert_ok(cudaGetLastError());
    assert_ok(cudaFree(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launch__runs_the_registered_kernel),
        cmocka_unit_test(test_launch__on_each_device_with_its_own_variables),
        cmocka_unit_test(test_launch__by_kernel_handle_as_cuda_13_does),
        cmocka_unit_test(test_launch__with_a_config_and_attributes),
        cmocka_unit_test(test_launch__errors_are_the_documented_ones),
        cmocka_unit_test(test_launch__of_what_cannot_be_loaded_fails_each_time),
        cmocka_unit_test(test_attributes__of_a_kernel),
        cmocka_unit_test(test_symbols__are_found_copied_and_bounded),
        cmocka_unit_test(test_managed__variable_is_the_hosts_too),
        cmocka_unit_test(test_registration__of_many_is_lazy_and_found),
        cmocka_unit_test(test_graph__holds_kernel_copy_set_and_host_nodes),
        cmocka_unit_test(test_graph__takes_nodes_of_any_kind_in_the_generic_form),
        cmocka_unit_test(test_capture__makes_the_same_graph),
        cmocka_unit_test(test_sticky__errors_stay_until_the_device_is_reset),
    };

    return cmocka_run_group_tests_name("softgpu.runtime_register", tests, register_all, unregister);
}
