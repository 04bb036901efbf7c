/* What the tests of the driver's memory half share: two devices of 256 MiB, and short asserts. They
 * call only what cuda.h declares. */
#ifndef SG_TESTS_MEMORY_TEST_H
#define SG_TESTS_MEMORY_TEST_H

#include <cuda.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/softgpu/driver/newest.h"

#define MIB ((size_t)1 << 20)
#define DEVICE_MEMORY (256 * MIB)

#define ok(call) assert_int_equal((call), CUDA_SUCCESS)
#define refused(call, why) assert_int_equal((call), (why))
#define invalid(call) refused(call, CUDA_ERROR_INVALID_VALUE)

struct fixture {
    CUcontext ctx[2];
    CUstream stream, other; /* of context 0 */
};

static inline int memory_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    setenv("SOFTGPU_DEVICES", "2", 1);
    setenv("SOFTGPU_MEMORY", "256M", 1);
    if (!f || cuInit(0) != CUDA_SUCCESS)
        return -1;
    for (int i = 0; i < 2; i++)
        if (cuDevicePrimaryCtxRetain(&f->ctx[i], i) != CUDA_SUCCESS)
            return -1;
    if (cuCtxSetCurrent(f->ctx[0]) != CUDA_SUCCESS ||
        cuStreamCreate(&f->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuStreamCreate(&f->other, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return -1;
    *state = f;
    return 0;
}

static inline int memory_teardown(void **state)
{
    struct fixture *f = *state;
    int bad =
        cuCtxSetCurrent(f->ctx[0]) != CUDA_SUCCESS || cuStreamDestroy(f->stream) != CUDA_SUCCESS ||
        cuStreamDestroy(f->other) != CUDA_SUCCESS || cuDevicePrimaryCtxRelease(0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRelease(1) != CUDA_SUCCESS;

    free(f);
    return bad ? -1 : 0;
}

static inline CUdeviceptr alloc_or_die(size_t n)
{
    CUdeviceptr p = 0;

    ok(cuMemAlloc(&p, n));
    assert_true(p != 0);
    return p;
}

static inline size_t free_bytes(void)
{
    size_t avail = 0, total = 0;

    ok(cuMemGetInfo(&avail, &total));
    assert_int_equal(total, DEVICE_MEMORY);
    return avail;
}

static inline CUmemLocation device_place(int id)
{
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = id};
}

#define T(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

#endif
