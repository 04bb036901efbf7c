/* The seam where a stand-in for CUPTI attaches: what it is told of each call. */
#include "softgpu/driver/hooks.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#if HAVE_META
#include <generated_cuda_meta.h>
#endif

/* api_gen.h's names without a header's macros */
#undef cuMemAlloc
#undef cuMemcpyHtoD
CUresult CUDAAPI cuDeviceGetCount(int *count);
CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t n);

struct seen {
    unsigned enters, exits;
    char names[8][32];
    CUresult results[8];
    int *count; /* what cuDeviceGetCount was given */
};

static void enter(void *arg, struct sg_call *call)
{
    struct seen *s = arg;

    call->user = 1000 + s->enters;
    if (strcmp(call->name, "cuDeviceGetCount") == 0)
        s->count = ((struct sg_cuDeviceGetCount_params *)call->params)->count;
    if (s->enters < 8)
        strncpy(s->names[s->enters], call->name, sizeof(s->names[0]) - 1);
    s->enters++;
}

static void leave(void *arg, struct sg_call *call)
{
    struct seen *s = arg;

    assert_int_equal(call->user, 1000 + s->exits);
    assert_true(call->id != 0);
    if (s->exits < 8)
        s->results[s->exits] = call->result;
    s->exits++;
}

static void test_hooks__see_name_parameters_and_result(void **state)
{
    struct seen s = {0};
    struct softgpu_hooks hooks = {.enter = enter, .exit = leave, .arg = &s};
    const struct softgpu_tools *tools = softgpu_find_tools(cuGetExportTable);
    int n = 0;

    (void)state;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    tools->set_hooks(&hooks);
    assert_int_equal(cuDeviceGetCount(&n), CUDA_SUCCESS);
    assert_int_equal(cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyHtoD_v2_ptds(0, NULL, 0), CUDA_ERROR_INVALID_CONTEXT);
    tools->set_hooks(NULL);
    assert_int_equal(cuDeviceGetCount(&n), CUDA_SUCCESS);
    assert_int_equal(s.enters, 3);
    assert_int_equal(s.exits, 3);
    assert_string_equal(s.names[0], "cuDeviceGetCount");
    assert_string_equal(s.names[2], "cuMemcpyHtoD_v2_ptds");
    assert_int_equal(s.results[0], CUDA_SUCCESS);
    assert_int_equal(s.results[1], CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(s.results[2], CUDA_ERROR_INVALID_CONTEXT);
    assert_null(s.count);
}

static void test_params__are_laid_out_as_the_public_structs(void **state)
{
    (void)state;
#if HAVE_META
#define SAME(name)                                                                                 \
    assert_int_equal(sizeof(struct sg_##name##_params), sizeof(struct name##_params_st))
    SAME(cuInit);
    SAME(cuLaunchKernel);
    SAME(cuLaunchKernelEx_ptsz);
    SAME(cuMemcpy2D_v2);
    SAME(cuMemAllocManaged);
    SAME(cuGraphAddKernelNode_v2);
    SAME(cuStreamWaitValue64_v2_ptsz);
    SAME(cuLinkAddData_v2);
    assert_int_equal(offsetof(struct sg_cuLaunchKernel_params, kernelParams),
                     offsetof(struct cuLaunchKernel_params_st, kernelParams));
    assert_int_equal(offsetof(struct sg_cuLaunchKernel_params, sharedMemBytes),
                     offsetof(struct cuLaunchKernel_params_st, sharedMemBytes));
#else
    print_message("no generated_cuda_meta.h among the headers\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hooks__see_name_parameters_and_result),
        cmocka_unit_test(test_params__are_laid_out_as_the_public_structs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
