#include "memory_test.h"

static void test_memory_alloc__is_aligned_apart_and_zero(void **state)
{
    static const size_t sizes[] = {1, 511, 512, 513, 4096, 100000, MIB};
    CUdeviceptr p[7];
    unsigned char *host = malloc(MIB);

    (void)state;
    for (size_t i = 0; i < 7; i++) {
        p[i] = alloc_or_die(sizes[i]);
        assert_int_equal(p[i] % 512, 0);
        for (size_t k = 0; k < i; k++)
            assert_true(p[i] >= p[k] + sizes[k] + 65536 || p[k] >= p[i] + sizes[i] + 65536);
        memset(host, 0xff, sizes[i]);
        ok(cuMemcpyDtoH(host, p[i], sizes[i]));
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(host[k], 0);
    }
    for (size_t i = 0; i < 7; i++)
        ok(cuMemFree(p[i]));
    free(host);
}

static void test_memory_alloc__used_again_is_zero_again(void **state)
{
    CUdeviceptr a = alloc_or_die(10000), b;
    unsigned char host[10000];

    (void)state;
    ok(cuMemsetD8(a, 0xee, 10000));
    ok(cuMemFree(a));
    b = alloc_or_die(10000);
    assert_int_equal(b, a);
    ok(cuMemcpyDtoH(host, b, sizeof(host)));
    for (size_t i = 0; i < sizeof(host); i++)
        assert_int_equal(host[i], 0);
    ok(cuMemFree(b));
}

static void test_memory_alloc__bad_arguments_are_refused(void **state)
{
    CUdeviceptr p = 5;
    size_t pitch = 6;

    (void)state;
    invalid(cuMemAlloc(&p, 0));
    invalid(cuMemAlloc(NULL, 1));
    invalid(cuMemAllocPitch(NULL, &pitch, 4, 4, 4));
    invalid(cuMemAllocPitch(&p, NULL, 4, 4, 4));
    invalid(cuMemAllocPitch(&p, &pitch, 0, 4, 4));
    invalid(cuMemAllocPitch(&p, &pitch, 4, 0, 4));
    invalid(cuMemAllocPitch(&p, &pitch, 4, 4, 1));
    invalid(cuMemAllocPitch(&p, &pitch, 4, 4, 32));
    invalid(cuMemAllocPitch(&p, &pitch, (size_t)1 << 31, 4, 4));
    invalid(cuMemAllocPitch(&p, &pitch, SIZE_MAX, 4, 4));
    refused(cuMemAllocPitch(&p, &pitch, 4096, SIZE_MAX / 2, 4), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(p, 5);
    assert_int_equal(pitch, 6);
}

static void test_memory_alloc__pitch_keeps_rows_aligned(void **state)
{
    CUdeviceptr p = 0;
    size_t pitch = 0, size = 0;

    (void)state;
    ok(cuMemAllocPitch(&p, &pitch, 513, 7, 4));
    assert_int_equal(pitch, 1024);
    ok(cuMemGetAddressRange(NULL, &size, p));
    assert_true(size >= 7 * 1024);
    ok(cuMemFree(p));
}

static void test_memory_alloc__device_memory_is_bounded_and_refusal_is_no_disaster(void **state)
{
    size_t before = free_bytes();
    CUdeviceptr p = 0, q = 0;

    (void)state;
    refused(cuMemAlloc(&p, DEVICE_MEMORY + 1), CUDA_ERROR_OUT_OF_MEMORY);
    refused(cuMemAlloc(&p, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemAlloc(&p, 200 * MIB));
    assert_int_equal(free_bytes(), before - 200 * MIB);
    refused(cuMemAlloc(&q, 100 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemFree(p));
    assert_int_equal(free_bytes(), before);
    ok(cuMemAlloc(&q, 100 * MIB));
    ok(cuMemFree(q));
}

static void test_memory_alloc__only_the_beginning_of_device_memory_is_freed(void **state)
{
    CUdeviceptr p = alloc_or_die(4096), on_stack;
    void *host = NULL;
    int local = 0;

    (void)state;
    on_stack = (CUdeviceptr)(uintptr_t)&local;
    ok(cuMemAllocHost(&host, 64));
    invalid(cuMemFree(p + 512));
    invalid(cuMemFree(p + 4096 * 1024));
    invalid(cuMemFree(on_stack));
    invalid(cuMemFree((CUdeviceptr)(uintptr_t)host));
    invalid(cuMemFreeHost((void *)(uintptr_t)p));
    ok(cuMemFree(p));
    invalid(cuMemFree(p));
    ok(cuMemFree(0));
    ok(cuMemFreeHost(host));
    invalid(cuMemFreeHost(host));
    ok(cuMemFreeHost(NULL));
}

static void test_memory_alloc__the_range_of_an_inner_pointer_is_found(void **state)
{
    CUdeviceptr p = alloc_or_die(1000), base = 0;
    size_t size = 0;

    (void)state;
    ok(cuMemGetAddressRange(&base, &size, p + 999));
    assert_int_equal(base, p);
    assert_int_equal(size, 1000);
    ok(cuMemGetAddressRange(&base, NULL, p));
    refused(cuMemGetAddressRange(&base, &size, p + 1000), CUDA_ERROR_NOT_FOUND);
    refused(cuMemGetAddressRange(&base, &size, 0), CUDA_ERROR_NOT_FOUND);
    ok(cuMemFree(p));
    refused(cuMemGetAddressRange(&base, &size, p), CUDA_ERROR_NOT_FOUND);
}

static void test_memory_alloc__without_a_context_nothing_is_allocated(void **state)
{
    struct fixture *f = *state;
    CUdeviceptr p = 0;
    void *host = NULL;
    size_t a, b;

    ok(cuCtxSetCurrent(NULL));
    refused(cuMemAlloc(&p, 16), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuMemAllocHost(&host, 16), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuMemAllocManaged(&p, 16, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuMemFree(16), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuMemGetInfo(&a, &b), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuMemcpyDtoH(&a, 16, 4), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuMemsetD8(16, 0, 4), CUDA_ERROR_INVALID_CONTEXT);
    ok(cuCtxSetCurrent(f->ctx[0]));
}

static void test_memory_alloc__a_context_that_ends_frees_what_it_holds(void **state)
{
    struct fixture *f = *state;
    size_t before = free_bytes();
    CUdeviceptr p = 0;
    void *host = NULL;
    char *own = malloc(8192);
    CUcontext ctx = NULL;
    unsigned type = 0;

    ok(cuCtxCreate(&ctx, NULL, 0, 0));
    ok(cuMemAlloc(&p, 5 * MIB));
    ok(cuMemHostAlloc(&host, 4096, 0));
    ok(cuMemHostRegister(own, 8192, 0));
    ok(cuCtxDestroy(ctx));
    ok(cuCtxSetCurrent(f->ctx[0]));
    assert_int_equal(free_bytes(), before);
    invalid(cuMemFree(p));
    invalid(cuMemFreeHost(host));
    invalid(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  (CUdeviceptr)(uintptr_t)own));
    free(own);
}

/* ---- host memory ------------------------------------------------------------------------------
 */

static void test_memory_alloc__pinned_memory_is_usable_by_both_sides(void **state)
{
    unsigned *host = NULL, flags = 0;
    CUdeviceptr dev = 0;

    (void)state;
    ok(cuMemHostAlloc((void **)&host, 4096, CU_MEMHOSTALLOC_PORTABLE));
    host[3] = 7;
    ok(cuMemHostGetDevicePointer(&dev, host, 0));
    assert_int_equal(dev, (uintptr_t)host);
    ok(cuMemHostGetDevicePointer(&dev, host + 3, 0));
    assert_int_equal(dev, (uintptr_t)(host + 3));
    ok(cuMemHostGetFlags(&flags, host));
    assert_int_equal(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    ok(cuMemsetD32((CUdeviceptr)(uintptr_t)host, 9, 4));
    assert_int_equal(host[3], 9);
    ok(cuMemFreeHost(host));
}

static void test_memory_alloc__misuse_of_host_memory_is_refused(void **state)
{
    CUdeviceptr p = alloc_or_die(64), dev = 0;
    char *host = NULL;
    unsigned flags;
    int local = 0;
    void *none = &local;

    (void)state;
    invalid(cuMemHostAlloc(NULL, 16, 0));
    invalid(cuMemHostAlloc(&none, 16, 0x80));
    assert_ptr_equal(none, &local);
    ok(cuMemHostAlloc(&none, 0, 0));
    ok(cuMemFreeHost(none));
    ok(cuMemAllocHost((void **)&host, 64));
    invalid(cuMemHostGetDevicePointer(&dev, host, 1));
    invalid(cuMemHostGetDevicePointer(NULL, host, 0));
    invalid(cuMemHostGetDevicePointer(&dev, &local, 0));
    invalid(cuMemHostGetDevicePointer(&dev, (void *)(uintptr_t)p, 0));
    invalid(cuMemHostGetFlags(&flags, &local));
    invalid(cuMemHostGetFlags(NULL, host));
    invalid(cuMemFreeHost(host + 1));
    invalid(cuMemHostUnregister(host));
    ok(cuMemFreeHost(host));
    ok(cuMemFree(p));
}

static void test_memory_alloc__registering_follows_the_manual(void **state)
{
    char *own = malloc(100000);
    CUdeviceptr dev = 0;
    void *host = NULL;
    int local = 0;

    (void)state;
    invalid(cuMemHostRegister(NULL, 16, 0));
    invalid(cuMemHostRegister(own, 0, 0));
    invalid(cuMemHostRegister(own, 16, 0x100));
    invalid(cuMemHostRegister((void *)4096, 16, 0)); /* nothing is there */
    refused(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    ok(cuMemHostRegister(own + 1, 50000, CU_MEMHOSTREGISTER_DEVICEMAP));
    refused(cuMemHostRegister(own + 1, 50000, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    refused(cuMemHostRegister(own + 40000, 50000, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ok(cuMemHostGetDevicePointer(&dev, own + 77, 0));
    assert_int_equal(dev, (uintptr_t)(own + 77));
    invalid(cuMemHostUnregister(own + 2));
    invalid(cuMemFreeHost(own + 1));
    ok(cuMemHostUnregister(own + 1));
    refused(cuMemHostUnregister(own + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    refused(cuMemHostUnregister(&local), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    invalid(cuMemHostUnregister(NULL));
    ok(cuMemAllocHost(&host, 64));
    refused(cuMemHostRegister(host, 64, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ok(cuMemFreeHost(host));
    free(own);
}

/* ---- managed memory ---------------------------------------------------------------------------
 */

static void test_memory_alloc__managed_memory_says_what_it_was_told(void **state)
{
    int mostly = -1, place = 0, by[3] = {5, 5, 5}, type = -1;
    CUdeviceptr p = 0;

    (void)state;
    ok(cuMemAllocManaged(&p, 64 * 4096, CU_MEM_ATTACH_GLOBAL));
    assert_int_equal(p % 4096, 0); /* advice is for whole pages */
    *(int *)(uintptr_t)p = 3;
    ok(cuMemRangeGetAttribute(&place, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, 4096));
    assert_int_equal(place, CU_DEVICE_INVALID);
    ok(cuMemAdvise(p, 8192, CU_MEM_ADVISE_SET_READ_MOSTLY, device_place(0)));
    ok(cuMemRangeGetAttribute(&mostly, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 8192));
    assert_int_equal(mostly, 1);
    ok(cuMemRangeGetAttribute(&mostly, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 8193));
    assert_int_equal(mostly, 0);
    ok(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, device_place(1)));
    ok(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY,
                   (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST}));
    ok(cuMemRangeGetAttribute(by, 12, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 4096));
    assert_int_equal(by[0], 1);
    assert_int_equal(by[1], CU_DEVICE_CPU);
    assert_int_equal(by[2], CU_DEVICE_INVALID);
    ok(cuMemPrefetchAsync(p, 64 * 4096, device_place(1), 0, NULL));
    ok(cuMemRangeGetAttribute(&place, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 4096));
    assert_int_equal(place, 1);
    ok(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                   (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST}));
    ok(cuMemRangeGetAttribute(&type, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, p, 1));
    assert_int_equal(type, CU_MEM_LOCATION_TYPE_HOST);
    assert_int_equal(*(int *)(uintptr_t)p, 3);
    ok(cuMemFree(p));
}

static void test_memory_alloc__misuse_of_managed_memory_is_refused(void **state)
{
    CUmemLocation cpu = {.type = CU_MEM_LOCATION_TYPE_HOST}, odd = {.type = 9};
    CUdeviceptr p = 0, dev = alloc_or_die(4096);
    int v = 0;

    (void)state;
    invalid(cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL));
    invalid(cuMemAllocManaged(NULL, 16, CU_MEM_ATTACH_GLOBAL));
    invalid(cuMemAllocManaged(&p, 16, 0));
    invalid(cuMemAllocManaged(&p, 16, CU_MEM_ATTACH_SINGLE));
    ok(cuMemAllocManaged(&p, 8192, CU_MEM_ATTACH_HOST));
    invalid(cuMemPrefetchAsync(dev, 4096, cpu, 0, NULL));
    invalid(cuMemPrefetchAsync(p, 0, cpu, 0, NULL));
    invalid(cuMemPrefetchAsync(p, 8193, cpu, 0, NULL));
    invalid(cuMemPrefetchAsync(p, 8192, cpu, 1, NULL));
    invalid(cuMemPrefetchAsync(p, 8192, odd, 0, NULL));
    refused(cuMemPrefetchAsync(p, 8192, device_place(2), 0, NULL), CUDA_ERROR_INVALID_DEVICE);
    invalid(cuMemAdvise(dev, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, cpu));
    invalid(cuMemAdvise(p, 8192, (CUmem_advise)0, cpu));
    invalid(cuMemAdvise(p, 8192, (CUmem_advise)7, cpu));
    refused(cuMemAdvise(p, 8192, CU_MEM_ADVISE_SET_ACCESSED_BY, device_place(-3)),
            CUDA_ERROR_INVALID_DEVICE);
    invalid(cuMemRangeGetAttribute(&v, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4096));
    invalid(cuMemRangeGetAttribute(&v, 3, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 4096));
    invalid(cuMemRangeGetAttribute(NULL, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4096));
    invalid(cuMemRangeGetAttribute(&v, 4, (CUmem_range_attribute)99, p, 4096));
    invalid(cuMemRangeGetAttribute(&v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, dev, 4096));
    invalid(cuMemFreeHost((void *)(uintptr_t)p));
    ok(cuMemFree(p));
    ok(cuMemFree(dev));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_memory_alloc__is_aligned_apart_and_zero),
        T(test_memory_alloc__used_again_is_zero_again),
        T(test_memory_alloc__bad_arguments_are_refused),
        T(test_memory_alloc__pitch_keeps_rows_aligned),
        T(test_memory_alloc__device_memory_is_bounded_and_refusal_is_no_disaster),
        T(test_memory_alloc__only_the_beginning_of_device_memory_is_freed),
        T(test_memory_alloc__the_range_of_an_inner_pointer_is_found),
        T(test_memory_alloc__without_a_context_nothing_is_allocated),
        T(test_memory_alloc__a_context_that_ends_frees_what_it_holds),
        T(test_memory_alloc__pinned_memory_is_usable_by_both_sides),
        T(test_memory_alloc__misuse_of_host_memory_is_refused),
        T(test_memory_alloc__registering_follows_the_manual),
        T(test_memory_alloc__managed_memory_says_what_it_was_told),
        T(test_memory_alloc__misuse_of_managed_memory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
