#include "memory_test.h"

#define GRAIN (2 * MIB)

static const CUmemAllocationProp on_device = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static CUmemGenericAllocationHandle create(size_t size)
{
    CUmemGenericAllocationHandle h = 0;

    ok(cuMemCreate(&h, size, &on_device, 0));
    return h;
}

static CUdeviceptr reserve(size_t size)
{
    CUdeviceptr p = 0;

    ok(cuMemAddressReserve(&p, size, 0, 0, 0));
    assert_int_equal(p % GRAIN, 0);
    return p;
}

static void allow(CUdeviceptr p, size_t size, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc = {device_place(0), flags};

    ok(cuMemSetAccess(p, size, &desc, 1));
}

static void test_memory_vmm__one_memory_is_mapped_at_two_addresses(void **state)
{
    size_t before = free_bytes();
    CUmemGenericAllocationHandle h = create(GRAIN);
    CUdeviceptr a = reserve(GRAIN), b = reserve(GRAIN);
    unsigned v = 0;

    (void)state;
    assert_int_equal(free_bytes(), before - GRAIN);
    ok(cuMemMap(a, GRAIN, 0, h, 0));
    ok(cuMemMap(b, GRAIN, 0, h, 0));
    allow(a, GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    allow(b, GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READ);
    ok(cuMemsetD32(a + 4096, 77, 1));
    ok(cuMemcpyDtoH(&v, b + 4096, 4));
    assert_int_equal(v, 77);
    invalid(cuMemsetD32(b, 1, 1)); /* read only */
    ok(cuMemRelease(h));
    ok(cuMemUnmap(a, GRAIN));
    ok(cuMemcpyDtoH(&v, b + 4096, 4));
    assert_int_equal(v, 77);
    assert_int_equal(free_bytes(), before - GRAIN);
    ok(cuMemUnmap(b, GRAIN));
    assert_int_equal(free_bytes(), before);
    invalid(cuMemRelease(h));
    ok(cuMemAddressFree(a, GRAIN));
    ok(cuMemAddressFree(b, GRAIN));
}

static void test_memory_vmm__a_reservation_grows_by_handles(void **state)
{
    CUdeviceptr p = reserve(8 * GRAIN), base = 0;
    CUmemGenericAllocationHandle h[3], same = 0;
    unsigned char *host = malloc(3 * GRAIN);
    size_t size = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        h[i] = create(GRAIN);
        for (int k = 0; k < i; k++)
            assert_true(h[i] != h[k]);
        ok(cuMemMap(p + (CUdeviceptr)i * GRAIN, GRAIN, 0, h[i], 0));
    }
    allow(p, 3 * GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ok(cuMemsetD8(p, 5, 3 * GRAIN)); /* over all three */
    ok(cuMemcpyDtoH(host, p, 3 * GRAIN));
    for (size_t i = 0; i < 3 * GRAIN; i += 4099)
        assert_int_equal(host[i], 5);
    invalid(cuMemsetD8(p, 5, 3 * GRAIN + 1));
    ok(cuMemGetAddressRange(&base, &size, p + GRAIN + 5));
    assert_int_equal(base, p + GRAIN);
    assert_int_equal(size, GRAIN);
    ok(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + GRAIN + 5));
    assert_int_equal(base, p);
    ok(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + GRAIN + 5));
    assert_int_equal(size, 8 * GRAIN);
    ok(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)(p + 2 * GRAIN + 9)));
    assert_int_equal(same, h[2]);
    ok(cuMemRelease(same));
    for (int i = 0; i < 3; i++)
        ok(cuMemRelease(h[i]));
    invalid(cuMemUnmap(p + 4096, GRAIN));
    invalid(cuMemUnmap(p, GRAIN / 2));
    invalid(cuMemUnmap(p, 4 * GRAIN));
    ok(cuMemUnmap(p, 3 * GRAIN));
    ok(cuMemAddressFree(p, 8 * GRAIN));
    free(host);
}

static void test_memory_vmm__without_access_nothing_is_touched(void **state)
{
    CUmemGenericAllocationHandle h = create(GRAIN);
    CUdeviceptr p = reserve(GRAIN), at = 0;
    CUmemLocation here = device_place(0), there = device_place(1);
    unsigned long long flags = 9;
    int mapped = 9;
    unsigned v;

    (void)state;
    ok(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, p));
    assert_int_equal(mapped, 0);
    invalid(cuMemcpyDtoH(&v, p, 4));
    ok(cuMemMap(p, GRAIN, 0, h, 0));
    ok(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, p));
    assert_int_equal(mapped, 1);
    invalid(cuMemcpyDtoH(&v, p, 4));
    invalid(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
    ok(cuMemGetAccess(&flags, &here, p));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    allow(p, GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ok(cuMemGetAccess(&flags, &here, p));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ok(cuMemGetAccess(&flags, &there, p));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    ok(cuMemcpyDtoH(&v, p, 4));
    allow(p, GRAIN, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    invalid(cuMemcpyDtoH(&v, p, 4));
    ok(cuMemUnmap(p, GRAIN));
    ok(cuMemRelease(h));
    ok(cuMemAddressFree(p, GRAIN));
}

static void test_memory_vmm__misuse_of_addresses_is_refused(void **state)
{
    CUdeviceptr p = 0, plain = alloc_or_die(GRAIN);

    (void)state;
    invalid(cuMemAddressReserve(NULL, GRAIN, 0, 0, 0));
    invalid(cuMemAddressReserve(&p, 0, 0, 0, 0));
    invalid(cuMemAddressReserve(&p, GRAIN + 1, 0, 0, 0));
    invalid(cuMemAddressReserve(&p, GRAIN, 3, 0, 0));
    invalid(cuMemAddressReserve(&p, GRAIN, 0, 0, 1));
    refused(cuMemAddressReserve(&p, (size_t)1 << 62, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemAddressReserve(&p, GRAIN, 4 * GRAIN, 0, 0));
    assert_int_equal(p % (4 * GRAIN), 0);
    invalid(cuMemAddressFree(p, 2 * GRAIN));
    invalid(cuMemAddressFree(p + 4096, GRAIN));
    invalid(cuMemAddressFree(plain, GRAIN));
    invalid(cuMemFree(p));
    ok(cuMemAddressFree(p, GRAIN));
    invalid(cuMemAddressFree(p, GRAIN));
    ok(cuMemFree(plain));
}

static void test_memory_vmm__misuse_of_handles_is_refused(void **state)
{
    CUmemAllocationProp bad = on_device, got;
    CUmemGenericAllocationHandle h = 0;
    size_t grain = 0;

    (void)state;
    ok(cuMemGetAllocationGranularity(&grain, &on_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(grain, GRAIN);
    invalid(cuMemGetAllocationGranularity(NULL, &on_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    invalid(cuMemGetAllocationGranularity(&grain, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    invalid(cuMemGetAllocationGranularity(&grain, &on_device, 2));
    invalid(cuMemCreate(&h, 0, &on_device, 0));
    invalid(cuMemCreate(&h, GRAIN - 1, &on_device, 0));
    invalid(cuMemCreate(NULL, GRAIN, &on_device, 0));
    invalid(cuMemCreate(&h, GRAIN, NULL, 0));
    invalid(cuMemCreate(&h, GRAIN, &on_device, 1));
    bad.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    invalid(cuMemCreate(&h, GRAIN, &bad, 0));
    bad = on_device;
    bad.location.id = 2;
    refused(cuMemCreate(&h, GRAIN, &bad, 0), CUDA_ERROR_INVALID_DEVICE);
    bad = on_device;
    bad.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    refused(cuMemCreate(&h, GRAIN, &bad, 0), CUDA_ERROR_NOT_SUPPORTED);
    refused(cuMemCreate(&h, DEVICE_MEMORY + GRAIN, &on_device, 0), CUDA_ERROR_OUT_OF_MEMORY);
    invalid(cuMemRelease(h));
    h = create(GRAIN);
    ok(cuMemGetAllocationPropertiesFromHandle(&got, h));
    assert_int_equal(got.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    invalid(cuMemGetAllocationPropertiesFromHandle(NULL, h));
    ok(cuMemRelease(h));
    invalid(cuMemRelease(h));
    invalid(cuMemRetainAllocationHandle(&h, &grain));
}

static void test_memory_vmm__misuse_of_mappings_is_refused(void **state)
{
    CUmemGenericAllocationHandle h = create(2 * GRAIN);
    CUdeviceptr p = reserve(2 * GRAIN), plain = alloc_or_die(4 * GRAIN);
    CUmemAccessDesc desc = {device_place(0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr inside = (plain + GRAIN) / GRAIN * GRAIN;

    (void)state;
    invalid(cuMemMap(p, 0, 0, h, 0));
    invalid(cuMemMap(p + 4096, GRAIN, 0, h, 0));
    invalid(cuMemMap(p, GRAIN, GRAIN, h, 0)); /* the manual: must be zero */
    invalid(cuMemMap(p, GRAIN, 0, h, 1));
    invalid(cuMemMap(p, GRAIN, 0, h + 1, 0));
    invalid(cuMemMap(p, 4 * GRAIN, 0, h, 0));
    invalid(cuMemMap(inside, GRAIN, 0, h, 0));   /* no reservation */
    invalid(cuMemSetAccess(p, GRAIN, &desc, 1)); /* nothing is mapped */
    ok(cuMemMap(p, 2 * GRAIN, 0, h, 0));
    invalid(cuMemMap(p + GRAIN, GRAIN, 0, h, 0)); /* mapped already */
    invalid(cuMemSetAccess(p, GRAIN, &desc, 1));  /* not all of a mapping */
    invalid(cuMemSetAccess(p, 2 * GRAIN, NULL, 1));
    invalid(cuMemSetAccess(p, 2 * GRAIN, &desc, 0));
    desc.location.id = 5;
    refused(cuMemSetAccess(p, 2 * GRAIN, &desc, 1), CUDA_ERROR_INVALID_DEVICE);
    desc.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
    invalid(cuMemSetAccess(p, 2 * GRAIN, &desc, 1));
    invalid(cuMemAddressFree(p, 2 * GRAIN)); /* still mapped */
    invalid(cuMemFree(p));
    ok(cuMemUnmap(p, 2 * GRAIN));
    invalid(cuMemUnmap(p, 2 * GRAIN));
    ok(cuMemAddressFree(p, 2 * GRAIN));
    ok(cuMemRelease(h));
    ok(cuMemFree(plain));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_memory_vmm__one_memory_is_mapped_at_two_addresses),
        T(test_memory_vmm__a_reservation_grows_by_handles),
        T(test_memory_vmm__without_access_nothing_is_touched),
        T(test_memory_vmm__misuse_of_addresses_is_refused),
        T(test_memory_vmm__misuse_of_handles_is_refused),
        T(test_memory_vmm__misuse_of_mappings_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
