#include "memory_test.h"

#include <semaphore.h>

static uint64_t get(CUmemoryPool pool, CUmemPool_attribute attr)
{
    cuuint64_t v = 0;

    ok(cuMemPoolGetAttribute(pool, attr, &v));
    return v;
}

static CUmemoryPool make_pool(int device)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = device_place(device)};
    CUmemoryPool pool = NULL;

    ok(cuMemPoolCreate(&pool, &props));
    return pool;
}

static void set_threshold(CUmemoryPool pool, cuuint64_t v)
{
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
}

static CUdeviceptr pool_alloc(CUmemoryPool pool, size_t n, CUstream s)
{
    CUdeviceptr p = 0;

    ok(cuMemAllocFromPoolAsync(&p, n, pool, s));
    return p;
}

static void test_memory_pool__counts_what_it_holds(void **state)
{
    struct fixture *f = *state;
    CUmemoryPool pool = make_pool(0);
    cuuint64_t zero = 0, one = 1;
    CUdeviceptr p, q;

    set_threshold(pool, UINT64_MAX);
    p = pool_alloc(pool, MIB, f->stream);
    q = pool_alloc(pool, 2 * MIB, f->stream);
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 3 * MIB);
    assert_true(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 3 * MIB);
    ok(cuMemFreeAsync(q, f->stream));
    ok(cuStreamSynchronize(f->stream));
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), MIB);
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 3 * MIB);
    assert_true(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 3 * MIB);
    invalid(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one));
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), MIB);
    ok(cuMemPoolTrimTo(pool, 0));
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), MIB);
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), MIB);
    ok(cuMemFreeAsync(p, f->stream));
    ok(cuStreamSynchronize(f->stream));
    ok(cuMemPoolDestroy(pool));
}

static void test_memory_pool__gives_back_above_its_threshold_when_synchronised(void **state)
{
    struct fixture *f = *state;
    size_t before = free_bytes();
    CUmemoryPool pool = make_pool(0);
    CUdeviceptr p = pool_alloc(pool, 8 * MIB, f->stream);

    assert_int_equal(free_bytes(), before - 8 * MIB);
    ok(cuMemFreeAsync(p, f->stream));
    ok(cuStreamSynchronize(f->stream));
    assert_int_equal(free_bytes(), before);
    set_threshold(pool, 4 * MIB);
    p = pool_alloc(pool, 4 * MIB, f->stream);
    ok(cuMemFreeAsync(p, f->stream));
    ok(cuCtxSynchronize());
    assert_int_equal(free_bytes(), before - 4 * MIB);
    ok(cuMemPoolDestroy(pool));
    assert_int_equal(free_bytes(), before);
}

static void test_memory_pool__reuse_follows_the_order_of_streams(void **state)
{
    struct fixture *f = *state;
    CUmemoryPool pool = make_pool(0);
    CUdeviceptr p, q, r;

    set_threshold(pool, UINT64_MAX);
    p = pool_alloc(pool, MIB, f->stream);
    ok(cuMemFreeAsync(p, f->stream));
    q = pool_alloc(pool, MIB, f->other); /* not ordered after the free */
    assert_true(q != p);
    r = pool_alloc(pool, MIB, f->stream);
    assert_int_equal(r, p);
    ok(cuMemFreeAsync(r, f->stream));
    ok(cuMemFreeAsync(q, f->other));
    ok(cuStreamSynchronize(f->stream));
    assert_int_equal(pool_alloc(pool, MIB, f->other), p); /* the lowest of both */
    assert_int_equal(pool_alloc(pool, MIB, f->other), q);
    ok(cuMemFreeAsync(p, f->other));
    ok(cuMemFree(q));
    ok(cuStreamSynchronize(f->other));
    ok(cuMemPoolDestroy(pool));
}

static void test_memory_pool__reused_memory_stays_usable_when_the_old_free_runs(void **state)
{
    struct fixture *f = *state;
    CUdeviceptr p = 0, q = 0;
    unsigned v = 0;

    ok(cuMemAllocAsync(&p, 4096, f->stream));
    ok(cuMemsetD32Async(p, 1, 1024, f->stream));
    ok(cuMemFreeAsync(p, f->stream));
    ok(cuMemAllocAsync(&q, 4096, f->stream));
    assert_int_equal(q, p);
    ok(cuMemsetD32Async(q, 2, 1024, f->stream));
    ok(cuMemcpyDtoHAsync(&v, q + 4092, 4, f->stream));
    ok(cuStreamSynchronize(f->stream));
    assert_int_equal(v, 2);
    ok(cuMemFreeAsync(q, f->stream));
    ok(cuStreamSynchronize(f->stream));
    invalid(cuMemsetD32Async(q, 3, 1024, f->stream));
}

static void CUDA_CB wait_for(void *sem)
{
    sem_wait(sem);
}

static void test_memory_pool__work_after_the_free_is_a_fatal_fault(void **state)
{
    struct fixture *f = *state;
    CUcontext ctx = NULL;
    CUstream s = NULL;
    CUdeviceptr p = 0;
    sem_t gate;
    int v;

    sem_init(&gate, 0, 0);
    ok(cuCtxCreate(&ctx, NULL, 0, 0));
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuMemAllocAsync(&p, 4096, s));
    ok(cuLaunchHostFunc(s, wait_for, &gate));
    ok(cuMemFreeAsync(p, s));
    ok(cuMemsetD8Async(p, 0, 4096, s)); /* not freed yet: accepted */
    sem_post(&gate);
    refused(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    refused(cuMemAlloc(&p, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
    refused(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    ok(cuCtxDestroy(ctx));
    ok(cuCtxSetCurrent(f->ctx[0]));
    p = alloc_or_die(4096);
    ok(cuMemcpyDtoH(&v, p, 4));
    ok(cuMemFree(p));
    sem_destroy(&gate);
}

static void test_memory_pool__pools_of_a_device_can_be_switched(void **state)
{
    struct fixture *f = *state;
    CUmemoryPool normal = NULL, now = NULL, own = make_pool(0), far = make_pool(1), at = NULL;
    CUdeviceptr p = 0;

    ok(cuDeviceGetDefaultMemPool(&normal, 0));
    ok(cuDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, normal);
    invalid(cuDeviceSetMemPool(0, far));
    ok(cuDeviceSetMemPool(0, own));
    ok(cuMemAllocAsync(&p, 100, f->stream));
    ok(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p + 50));
    assert_ptr_equal(at, own);
    ok(cuMemFree(p));
    invalid(cuMemPoolDestroy(normal));
    ok(cuMemPoolDestroy(own));
    ok(cuDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, normal);
    refused(cuDeviceGetMemPool(&now, 2), CUDA_ERROR_INVALID_DEVICE);
    ok(cuMemPoolDestroy(far));
}

static void test_memory_pool__memory_outlives_the_pool(void **state)
{
    struct fixture *f = *state;
    size_t before = free_bytes();
    CUmemoryPool pool = make_pool(0);
    CUdeviceptr p = pool_alloc(pool, MIB, f->stream);

    ok(cuMemPoolDestroy(pool));
    ok(cuMemsetD8Async(p, 1, MIB, f->stream));
    ok(cuMemFreeAsync(p, f->stream));
    ok(cuStreamSynchronize(f->stream));
    assert_int_equal(free_bytes(), before);
}

static void test_memory_pool__access_of_other_devices_is_given_and_taken(void **state)
{
    struct fixture *f = *state;
    CUmemoryPool pool = make_pool(0);
    CUmemAccessDesc desc = {device_place(1), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemLocation other = device_place(1), own = device_place(0);
    CUmemAccess_flags flags = 0;
    CUdeviceptr p = pool_alloc(pool, 4096, f->stream), at = 0;

    ok(cuMemPoolGetAccess(&flags, pool, &own));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ok(cuMemPoolGetAccess(&flags, pool, &other));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    ok(cuCtxSetCurrent(f->ctx[1]));
    invalid(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
    ok(cuMemPoolSetAccess(pool, &desc, 1));
    ok(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
    assert_int_equal(at, p);
    desc.location.id = 2;
    refused(cuMemPoolSetAccess(pool, &desc, 1), CUDA_ERROR_INVALID_DEVICE);
    desc = (CUmemAccessDesc){device_place(0), CU_MEM_ACCESS_FLAGS_PROT_NONE};
    invalid(cuMemPoolSetAccess(pool, &desc, 1));
    invalid(cuMemPoolSetAccess(pool, NULL, 1));
    ok(cuCtxSetCurrent(f->ctx[0]));
    ok(cuMemFree(p));
    ok(cuMemPoolDestroy(pool));
}

static void test_memory_pool__misuse_is_refused(void **state)
{
    struct fixture *f = *state;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = device_place(0)},
                   bad = props;
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0;
    cuuint64_t v = 0;

    invalid(cuMemPoolCreate(NULL, &props));
    invalid(cuMemPoolCreate(&pool, NULL));
    bad.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
    invalid(cuMemPoolCreate(&pool, &bad));
    bad = props;
    bad.location.id = 7;
    invalid(cuMemPoolCreate(&pool, &bad));
    bad.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    invalid(cuMemPoolCreate(&pool, &bad));
    pool = make_pool(0);
    invalid(cuMemAllocFromPoolAsync(&p, 0, pool, f->stream));
    invalid(cuMemAllocFromPoolAsync(NULL, 16, pool, f->stream));
    invalid(cuMemAllocFromPoolAsync(&p, 16, NULL, f->stream));
    invalid(cuMemAllocAsync(&p, 0, f->stream));
    invalid(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)0, &v));
    invalid(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &v));
    invalid(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, NULL));
    invalid(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v));
    invalid(cuMemPoolTrimTo(NULL, 0));
    p = alloc_or_die(16);
    invalid(cuMemFreeAsync(p + 1, f->stream));
    ok(cuMemFreeAsync(p, f->stream));
    invalid(cuMemFreeAsync(p, f->stream));
    invalid(cuMemFree(p));
    ok(cuStreamSynchronize(f->stream));
    ok(cuMemAllocAsync(&p, 16, f->stream));
    ok(cuMemFreeAsync(p, f->stream));
    invalid(cuMemFreeAsync(p, f->stream));
    invalid(cuMemFree(p));
    ok(cuStreamSynchronize(f->stream));
    ok(cuMemPoolDestroy(pool));
    invalid(cuMemPoolDestroy(pool));
    invalid(cuMemPoolTrimTo(pool, 0));
}

static void test_memory_pool__is_bounded_by_the_device_and_by_its_own_maximum(void **state)
{
    struct fixture *f = *state;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = device_place(0),
                            .maxSize = 4 * MIB};
    CUmemoryPool pool = NULL, keeper = make_pool(0);
    CUdeviceptr p = 0, q = 0;

    ok(cuMemPoolCreate(&pool, &props));
    p = pool_alloc(pool, 3 * MIB, f->stream);
    refused(cuMemAllocFromPoolAsync(&q, 2 * MIB, pool, f->stream), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemFree(p));
    q = pool_alloc(pool, 4 * MIB, f->stream);
    ok(cuMemFree(q));
    ok(cuMemPoolDestroy(pool));
    refused(cuMemAllocAsync(&p, DEVICE_MEMORY + 1, f->stream), CUDA_ERROR_OUT_OF_MEMORY);
    /* what a pool only keeps is given to who needs it */
    set_threshold(keeper, UINT64_MAX);
    p = pool_alloc(keeper, 200 * MIB, f->stream);
    ok(cuMemFreeAsync(p, f->stream));
    q = alloc_or_die(200 * MIB);
    ok(cuMemFree(q));
    ok(cuMemPoolDestroy(keeper));
}

static void test_memory_pool__captured_memory_lives_from_launch_to_free(void **state)
{
    struct fixture *f = *state;
    size_t before = free_bytes();
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    CUdeviceptr p = 0, plain = alloc_or_die(16);
    unsigned v = 0;

    ok(cuStreamBeginCapture(f->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemAllocAsync(&p, MIB, f->stream));
    ok(cuMemsetD32Async(p, 5, MIB / 4, f->stream));
    ok(cuStreamEndCapture(f->stream, &graph));
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphLaunch(exec, f->stream));
    ok(cuMemcpyDtoHAsync(&v, p + MIB - 4, 4, f->stream));
    ok(cuStreamSynchronize(f->stream));
    assert_int_equal(v, 5);
    invalid(cuGraphLaunch(exec, f->stream)); /* still allocated */
    ok(cuMemFreeAsync(p, f->stream));
    ok(cuGraphLaunch(exec, f->stream));
    ok(cuMemFree(p));
    invalid(cuMemFree(p));
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    ok(cuStreamBeginCapture(f->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    invalid(cuMemFreeAsync(plain, f->stream)); /* no graph's */
    ok(cuStreamEndCapture(f->stream, &graph));
    ok(cuGraphDestroy(graph));
    ok(cuMemFree(plain));
    assert_int_equal(free_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_memory_pool__counts_what_it_holds),
        T(test_memory_pool__gives_back_above_its_threshold_when_synchronised),
        T(test_memory_pool__reuse_follows_the_order_of_streams),
        T(test_memory_pool__reused_memory_stays_usable_when_the_old_free_runs),
        T(test_memory_pool__work_after_the_free_is_a_fatal_fault),
        T(test_memory_pool__pools_of_a_device_can_be_switched),
        T(test_memory_pool__memory_outlives_the_pool),
        T(test_memory_pool__access_of_other_devices_is_given_and_taken),
        T(test_memory_pool__misuse_is_refused),
        T(test_memory_pool__captured_memory_lives_from_launch_to_free),
        T(test_memory_pool__is_bounded_by_the_device_and_by_its_own_maximum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
