#include "memory_test.h"

static unsigned long long number(CUpointer_attribute attr, CUdeviceptr p)
{
    unsigned long long v = 0;

    ok(cuPointerGetAttribute(&v, attr, p));
    return v;
}

static CUdeviceptr address_of(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

enum kind { DEVICE, PINNED, REGISTERED, MANAGED, POOLED, KINDS };

static void make_all(CUdeviceptr p[KINDS], char *own)
{
    void *host = NULL;

    p[DEVICE] = alloc_or_die(1000);
    ok(cuMemAllocHost(&host, 1000));
    p[PINNED] = address_of(host);
    ok(cuMemHostRegister(own, 1000, 0));
    p[REGISTERED] = address_of(own);
    ok(cuMemAllocManaged(&p[MANAGED], 1000, CU_MEM_ATTACH_GLOBAL));
    ok(cuMemAllocAsync(&p[POOLED], 1000, NULL));
}

static void free_all(const CUdeviceptr p[KINDS])
{
    ok(cuMemFree(p[DEVICE]));
    ok(cuMemFreeHost((void *)(uintptr_t)p[PINNED]));
    ok(cuMemHostUnregister((void *)(uintptr_t)p[REGISTERED]));
    ok(cuMemFree(p[MANAGED]));
    ok(cuMemFree(p[POOLED]));
}

static void test_memory_pointer__says_what_an_inner_pointer_is(void **state)
{
    static const unsigned types[KINDS] = {
        [DEVICE] = CU_MEMORYTYPE_DEVICE,   [PINNED] = CU_MEMORYTYPE_HOST,
        [REGISTERED] = CU_MEMORYTYPE_HOST, [MANAGED] = CU_MEMORYTYPE_DEVICE,
        [POOLED] = CU_MEMORYTYPE_DEVICE,
    };
    struct fixture *f = *state;
    char *own = malloc(1000);
    CUdeviceptr p[KINDS];

    make_all(p, own);
    for (int k = 0; k < KINDS; k++) {
        CUdeviceptr inner = p[k] + 333;
        bool on_host = k == PINNED || k == REGISTERED || k == MANAGED;
        CUdeviceptr host = 0;

        assert_int_equal(number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inner), types[k]);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_CONTEXT, inner),
                         k == POOLED ? 0 : (uintptr_t)f->ctx[0]);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inner), inner);
        assert_int_equal(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, inner),
                         on_host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(host, on_host ? inner : 0);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_IS_MANAGED, inner), k == MANAGED);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inner), 0);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inner), p[k]);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inner), 1000);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_MAPPED, inner), 1);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, inner), p[k]);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, inner), 1000);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, inner),
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        assert_int_equal(number(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, inner) != 0, k == POOLED);
        for (int other = 0; other < k; other++)
            assert_true(number(CU_POINTER_ATTRIBUTE_BUFFER_ID, inner) !=
                        number(CU_POINTER_ATTRIBUTE_BUFFER_ID, p[other]));
    }
    free_all(p);
    free(own);
}

static void test_memory_pointer__ids_are_never_used_again(void **state)
{
    CUdeviceptr p = alloc_or_die(64), q;
    unsigned long long id = number(CU_POINTER_ATTRIBUTE_BUFFER_ID, p);

    (void)state;
    ok(cuMemFree(p));
    q = alloc_or_die(64);
    assert_int_equal(q, p);
    assert_true(number(CU_POINTER_ATTRIBUTE_BUFFER_ID, q) != id);
    ok(cuMemFree(q));
}

static void test_memory_pointer__unknown_memory_is_refused_or_zero(void **state)
{
    CUpointer_attribute attrs[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned long long v[5] = {~0ull, ~0ull & 0xffffffff, ~0ull, ~0ull, 0};
    void *data[5] = {&v[0], &v[1], &v[2], &v[3], &v[4]};
    CUdeviceptr gone = alloc_or_die(64);
    int local = 0;

    (void)state;
    ok(cuMemFree(gone));
    for (int a = 1; a <= 21; a++) {
        if (a == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
            continue;
        invalid(cuPointerGetAttribute(&v[0], (CUpointer_attribute)a, address_of(&local)));
        invalid(cuPointerGetAttribute(&v[0], (CUpointer_attribute)a, gone));
        invalid(cuPointerGetAttribute(&v[0], (CUpointer_attribute)a, 0));
    }
    ok(cuPointerGetAttributes(5, attrs, data, address_of(&local)));
    for (int i = 0; i < 4; i++)
        assert_int_equal(v[i], 0);
    assert_int_equal((int)v[4], CU_DEVICE_INVALID);
}

static void test_memory_pointer__many_at_once_give_null_where_one_would_fail(void **state)
{
    CUpointer_attribute attrs[] = {CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    CUdeviceptr p = alloc_or_die(64), host = 5, dev = 0;
    void *data[] = {&host, &dev}, *hole[] = {&host, NULL};

    (void)state;
    ok(cuPointerGetAttributes(2, attrs, data, p + 7));
    assert_int_equal(host, 0);
    assert_int_equal(dev, p + 7);
    invalid(cuPointerGetAttributes(0, attrs, data, p));
    invalid(cuPointerGetAttributes(2, NULL, data, p));
    invalid(cuPointerGetAttributes(2, attrs, NULL, p));
    invalid(cuPointerGetAttributes(2, attrs, hole, p));
    attrs[1] = (CUpointer_attribute)99;
    invalid(cuPointerGetAttributes(2, attrs, data, p));
    ok(cuMemFree(p));
}

static void test_memory_pointer__only_memops_can_be_set(void **state)
{
    CUdeviceptr p = alloc_or_die(64);
    unsigned on = 1, off = 0;

    (void)state;
    assert_int_equal(number(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 0);
    ok(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    assert_int_equal(number(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p + 63), 1);
    ok(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    assert_int_equal(number(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), 0);
    invalid(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    invalid(cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    invalid(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address_of(&on)));
    ok(cuMemFree(p));
}

static void test_memory_pointer__bad_questions_are_refused(void **state)
{
    struct fixture *f = *state;
    CUdeviceptr p = alloc_or_die(64), at = 0;
    unsigned type = 0;

    invalid(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    invalid(cuPointerGetAttribute(&at, (CUpointer_attribute)0, p));
    invalid(cuPointerGetAttribute(&at, (CUpointer_attribute)1000, p));
    ok(cuCtxSetCurrent(NULL));
    refused(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p),
            CUDA_ERROR_INVALID_CONTEXT);
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    ok(cuCtxSetCurrent(f->ctx[0]));
    ok(cuMemFree(p));
}

static void test_memory_pointer__peers_see_each_other_when_allowed(void **state)
{
    struct fixture *f = *state;
    CUdeviceptr p = alloc_or_die(64), q = 0, at = 0;

    ok(cuCtxSetCurrent(f->ctx[1]));
    invalid(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
    ok(cuCtxEnablePeerAccess(f->ctx[0], 0));
    ok(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
    ok(cuCtxSetCurrent(f->ctx[0]));
    q = alloc_or_die(64);
    ok(cuCtxSetCurrent(f->ctx[1]));
    ok(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, q));
    ok(cuCtxDisablePeerAccess(f->ctx[0]));
    invalid(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
    invalid(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, q));
    ok(cuCtxSetCurrent(f->ctx[0]));
    ok(cuMemFree(p));
    ok(cuMemFree(q));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_memory_pointer__says_what_an_inner_pointer_is),
        T(test_memory_pointer__ids_are_never_used_again),
        T(test_memory_pointer__unknown_memory_is_refused_or_zero),
        T(test_memory_pointer__many_at_once_give_null_where_one_would_fail),
        T(test_memory_pointer__only_memops_can_be_set),
        T(test_memory_pointer__bad_questions_are_refused),
        T(test_memory_pointer__peers_see_each_other_when_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
