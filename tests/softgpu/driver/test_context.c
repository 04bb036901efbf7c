#include "tests/softgpu/driver/driver_test.h"

#include <pthread.h>

static CUcontext current(void)
{
    CUcontext ctx = NULL;

    ok(cuCtxGetCurrent(&ctx));
    return ctx;
}

static CUcontext make(CUdevice device)
{
    CUcontext ctx = NULL;

    ok(cuCtxCreate(&ctx, NULL, 0, device));
    assert_non_null(ctx);
    return ctx;
}

static void test_stack__pops_end_with_an_error(void **state)
{
    CUcontext primary = current(), top = NULL, a = make(0), b = make(1);
    CUdevice d;

    (void)state;
    assert_ptr_equal(current(), b);
    ok(cuCtxGetDevice(&d));
    assert_int_equal(d, 1);
    ok(cuCtxPopCurrent(&top));
    assert_ptr_equal(top, b);
    assert_ptr_equal(current(), a);
    ok(cuCtxPushCurrent(b));
    ok(cuCtxPopCurrent(NULL));
    ok(cuCtxPopCurrent(&top));
    assert_ptr_equal(top, a);
    ok(cuCtxPopCurrent(&top));
    assert_ptr_equal(top, primary);
    refused(cuCtxPopCurrent(&top), CUDA_ERROR_INVALID_CONTEXT);
    assert_null(current());
    refused(cuCtxGetDevice(&d), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    ok(cuCtxDestroy(a));
    ok(cuCtxDestroy(b));
    ok(cuCtxSetCurrent(primary));
}

static void test_stack__a_full_one_is_refused(void **state)
{
    CUcontext ctx = current();
    unsigned n = 0;

    (void)state;
    while (n < 1000 && cuCtxPushCurrent(ctx) == CUDA_SUCCESS)
        n++;
    assert_in_range(n, 16, 999);
    refused(cuCtxPushCurrent(ctx), CUDA_ERROR_OUT_OF_MEMORY);
    while (n--)
        ok(cuCtxPopCurrent(NULL));
    assert_ptr_equal(current(), ctx);
}

static void test_set_current__replaces_the_top_and_null_pops(void **state)
{
    CUcontext primary = current(), a = make(0);

    (void)state;
    ok(cuCtxSetCurrent(primary));
    assert_ptr_equal(current(), primary);
    ok(cuCtxSetCurrent(NULL));
    assert_ptr_equal(current(), primary); /* the one below */
    ok(cuCtxDestroy(a));
}

static void test_destroy__a_dead_context_is_refused_everywhere(void **state)
{
    CUcontext primary = current(), a = make(0);
    CUdeviceptr p;

    (void)state;
    ok(cuCtxPushCurrent(primary));
    ok(cuCtxDestroy(a)); /* below the top */
    ok(cuCtxPopCurrent(NULL));
    refused(cuMemAlloc(&p, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ok(cuCtxPopCurrent(NULL));
    refused(cuCtxSetCurrent(a), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    refused(cuCtxDestroy(a), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    refused(cuCtxDestroy(primary), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuCtxDestroy(NULL), CUDA_ERROR_INVALID_CONTEXT);
    assert_ptr_equal(current(), primary);
}

static void test_destroy__frees_what_the_context_holds(void **state)
{
    size_t before, after, total;
    CUcontext a;
    CUdeviceptr p;
    CUmodule m;

    (void)state;
    ok(cuMemGetInfo(&before, &total));
    a = make(0);
    ok(cuMemAlloc(&p, 1 << 20));
    m = load_test_module();
    assert_non_null(m);
    ok(cuCtxDestroy(a));
    ok(cuMemGetInfo(&after, &total));
    assert_int_equal(before, after);
}

static void test_create__refuses_what_it_cannot_do(void **state)
{
    CUexecAffinityParam affinity = {.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT};
    CUctxCreateParams params = {.execAffinityParams = &affinity, .numExecAffinityParams = 1};
    CUcontext ctx;

    (void)state;
    refused(cuCtxCreate(&ctx, NULL, 0, 7), CUDA_ERROR_INVALID_DEVICE);
    refused(cuCtxCreate(NULL, NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
    refused(cuCtxCreate(&ctx, NULL, 0x100, 0), CUDA_ERROR_INVALID_VALUE);
    refused(cuCtxCreate(&ctx, NULL, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, 0),
            CUDA_ERROR_INVALID_VALUE);
    refused(cuCtxCreate(&ctx, &params, 0, 0), CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
}

static void test_settings__are_kept_by_context(void **state)
{
    CUcontext a;
    CUfunc_cache cache;
    unsigned flags, version;
    unsigned long long id, other;
    size_t value;
    int least, greatest;

    (void)state;
    ok(cuCtxGetId(NULL, &other));
    ok(cuCtxCreate(&a, NULL, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST, 0));
    ok(cuCtxGetFlags(&flags));
    assert_int_equal(flags, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST);
    ok(cuCtxSetFlags(CU_CTX_SCHED_SPIN));
    ok(cuCtxGetFlags(&flags));
    assert_int_equal(flags, CU_CTX_SCHED_SPIN);
    refused(cuCtxSetFlags(0x1000), CUDA_ERROR_INVALID_VALUE);
    ok(cuCtxGetId(a, &id));
    assert_int_not_equal(id, other);
    ok(cuCtxGetApiVersion(a, &version));
    assert_int_equal(version, 3020);
    ok(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    ok(cuCtxGetCacheConfig(&cache));
    assert_int_equal(cache, CU_FUNC_CACHE_PREFER_L1);
    ok(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4000));
    ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    assert_in_range(value, 4000, 4095);
    ok(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    assert_int_equal(value, 8 << 20);
    refused(cuCtxGetLimit(&value, CU_LIMIT_MAX), CUDA_ERROR_INVALID_VALUE);
    refused(cuCtxSetLimit((CUlimit)0x08, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
    ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest < least && least == 0);
    ok(cuCtxDestroy(a));
    ok(cuCtxGetCacheConfig(&cache));
    assert_int_equal(cache, CU_FUNC_CACHE_PREFER_NONE);
}

static void test_primary__lives_while_it_is_retained(void **state)
{
    CUcontext a, b;
    unsigned flags;
    int active;

    (void)state;
    ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 0);
    refused(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
    ok(cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_YIELD));
    ok(cuDevicePrimaryCtxRetain(&a, 1));
    ok(cuDevicePrimaryCtxRetain(&b, 1));
    assert_ptr_equal(a, b);
    ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 1);
    assert_int_equal(flags, CU_CTX_SCHED_YIELD);
    ok(cuDevicePrimaryCtxRelease(1));
    ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 1);
    ok(cuDevicePrimaryCtxRelease(1));
    ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_int_equal(active, 0);
    refused(cuCtxSetCurrent(a), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    refused(cuDevicePrimaryCtxRetain(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    refused(cuDevicePrimaryCtxRetain(&a, 5), CUDA_ERROR_INVALID_DEVICE);
}

static void trap_here(void)
{
    CUmodule m = load_test_module();

    ok(cuLaunchKernel(function_of(m, "stop"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

static void test_sticky__a_fault_kills_its_context_only(void **state)
{
    CUcontext primary = current(), a = make(0);
    CUdeviceptr p;
    CUstream s;

    (void)state;
    trap_here();
    refused(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    refused(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    refused(cuMemAlloc(&p, 16), CUDA_ERROR_LAUNCH_FAILED);
    refused(cuStreamCreate(&s, 0), CUDA_ERROR_LAUNCH_FAILED);
    assert_ptr_equal(current(), a);
    ok(cuCtxSetCurrent(primary));
    ok(cuMemAlloc(&p, 16));
    ok(cuMemFree(p));
    ok(cuCtxPopCurrent(NULL));
    ok(cuCtxDestroy(a));
    assert_ptr_equal(current(), primary);
}

static void test_sticky__reset_gives_a_new_primary_context(void **state)
{
    CUcontext primary = current(), again;
    CUdeviceptr p;

    (void)state;
    trap_here();
    refused(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    ok(cuDevicePrimaryCtxReset(0));
    refused(cuMemAlloc(&p, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ok(cuDevicePrimaryCtxRetain(&again, 0));
    ok(cuCtxSetCurrent(again));
    ok(cuMemAlloc(&p, 16));
    ok(cuMemFree(p));
    ok(cuCtxSynchronize());
    assert_ptr_equal(again, primary);
    ok(cuDevicePrimaryCtxRelease(0)); /* the one of before the reset */
    ok(cuMemAlloc(&p, 16));
    ok(cuMemFree(p));
}

static void *other_thread(void *arg)
{
    CUcontext *seen = arg;

    if (cuCtxGetCurrent(&seen[0]) != CUDA_SUCCESS || cuCtxSetCurrent(seen[1]) != CUDA_SUCCESS)
        return arg;
    return cuCtxSynchronize() == CUDA_SUCCESS ? NULL : arg;
}

static void test_threads__each_has_a_stack_of_its_own(void **state)
{
    CUcontext seen[2] = {(CUcontext)1, current()};
    pthread_t t;
    void *failed;

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, other_thread, seen), 0);
    assert_int_equal(pthread_join(t, &failed), 0);
    assert_null(failed);
    assert_null(seen[0]);
}

static void test_peer__access_is_enabled_once_and_one_way(void **state)
{
    CUcontext primary = current(), other = make(1), same = make(0);

    (void)state;
    ok(cuCtxSetCurrent(primary));
    refused(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    refused(cuCtxEnablePeerAccess(other, 1), CUDA_ERROR_INVALID_VALUE);
    refused(cuCtxEnablePeerAccess(primary, 0), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuCtxEnablePeerAccess(NULL, 0), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuCtxEnablePeerAccess(same, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    ok(cuCtxEnablePeerAccess(other, 0));
    refused(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    ok(cuCtxDisablePeerAccess(other));
    ok(cuCtxPopCurrent(NULL));
    ok(cuCtxSetCurrent(primary));
    ok(cuCtxPopCurrent(NULL));
    ok(cuCtxDestroy(same));
    ok(cuCtxDestroy(other));
    assert_ptr_equal(current(), primary);
}

static void test_attach__counts_uses(void **state)
{
    CUcontext a = make(0), b = NULL;

    (void)state;
    ok(cuCtxAttach(&b, 0));
    assert_ptr_equal(a, b);
    ok(cuCtxDetach(a));
    ok(cuCtxSynchronize());
    ok(cuCtxDetach(a));
    refused(cuCtxDetach(a), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stack__pops_end_with_an_error),
        cmocka_unit_test(test_stack__a_full_one_is_refused),
        cmocka_unit_test(test_set_current__replaces_the_top_and_null_pops),
        cmocka_unit_test(test_destroy__a_dead_context_is_refused_everywhere),
        cmocka_unit_test(test_destroy__frees_what_the_context_holds),
        cmocka_unit_test(test_create__refuses_what_it_cannot_do),
        cmocka_unit_test(test_settings__are_kept_by_context),
        cmocka_unit_test(test_primary__lives_while_it_is_retained),
        cmocka_unit_test(test_sticky__a_fault_kills_its_context_only),
        cmocka_unit_test(test_sticky__reset_gives_a_new_primary_context),
        cmocka_unit_test(test_threads__each_has_a_stack_of_its_own),
        cmocka_unit_test(test_peer__access_is_enabled_once_and_one_way),
        cmocka_unit_test(test_attach__counts_uses),
    };

    setenv("SOFTGPU_LOG", "0", 1);
    return cmocka_run_group_tests(tests, start_device, stop_device);
}
