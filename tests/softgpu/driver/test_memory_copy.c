#include "memory_test.h"

#include <semaphore.h>

#define N 5000

static void ramp(unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(seed + i * 7 + (i >> 8) * 3);
}

static void test_memory_copy__plain_forms_move_bytes_both_ways(void **state)
{
    unsigned char in[N], out[N];
    CUdeviceptr a = alloc_or_die(N), b = alloc_or_die(N);
    CUdeviceptr host_in = (CUdeviceptr)(uintptr_t)in, host_out = (CUdeviceptr)(uintptr_t)out;

    (void)state;
    ramp(in, N, 1);
    ok(cuMemcpyHtoD(a, in, N));
    ok(cuMemcpyDtoD(b, a, N));
    ok(cuMemcpyDtoH(out, b, N));
    assert_memory_equal(in, out, N);
    ramp(in, N, 2);
    ok(cuMemcpy(a, host_in, N));
    ok(cuMemcpy(b, a, N));
    ok(cuMemcpy(host_out, b, N));
    assert_memory_equal(in, out, N);
    ramp(in, N, 3);
    ok(cuMemcpyHtoD(a + 13, in + 5, 100));
    ok(cuMemcpyDtoH(out, a + 13, 100));
    assert_memory_equal(in + 5, out, 100);
    ok(cuMemcpy(host_out, host_in, N)); /* host to host */
    assert_memory_equal(in, out, N);
    ok(cuMemFree(a));
    ok(cuMemFree(b));
}

static void CUDA_CB wait_for(void *sem)
{
    sem_wait(sem);
}

/* Pageable sources are read when the call is made, pinned ones when the stream gets there. */
static void test_memory_copy__only_pageable_sources_are_read_at_once(void **state)
{
    struct fixture *f = *state;
    CUdeviceptr a = alloc_or_die(4), b = alloc_or_die(4);
    unsigned pageable = 1, *pinned = NULL, out = 0;
    sem_t gate;

    sem_init(&gate, 0, 0);
    ok(cuMemAllocHost((void **)&pinned, 4));
    *pinned = 1;
    ok(cuLaunchHostFunc(f->stream, wait_for, &gate));
    ok(cuMemcpyHtoDAsync(a, &pageable, 4, f->stream));
    ok(cuMemcpyHtoDAsync(b, pinned, 4, f->stream));
    pageable = *pinned = 2;
    sem_post(&gate);
    ok(cuStreamSynchronize(f->stream));
    ok(cuMemcpyDtoH(&out, a, 4));
    assert_int_equal(out, 1);
    ok(cuMemcpyDtoH(&out, b, 4));
    assert_int_equal(out, 2);
    ok(cuMemFreeHost(pinned));
    ok(cuMemFree(a));
    ok(cuMemFree(b));
    sem_destroy(&gate);
}

static void test_memory_copy__to_pageable_memory_is_done_on_return(void **state)
{
    struct fixture *f = *state;
    CUdeviceptr a = alloc_or_die(N);
    unsigned char out[N];

    ok(cuMemsetD8Async(a, 0x5a, N, f->stream));
    ok(cuMemcpyDtoHAsync(out, a, N, f->stream));
    for (size_t i = 0; i < N; i++)
        assert_int_equal(out[i], 0x5a);
    ok(cuMemFree(a));
}

static void test_memory_copy__ranges_are_checked(void **state)
{
    CUdeviceptr a = alloc_or_die(1024), b = alloc_or_die(1024), gone = alloc_or_die(MIB);
    unsigned char host[4096];
    struct fixture *f = *state;
    char *pinned = NULL;

    ok(cuMemAllocHost((void **)&pinned, 1024));
    ok(cuMemFree(gone));
    invalid(cuMemcpyHtoD(a, host, 1025));
    invalid(cuMemcpyHtoD(a + 1000, host, 25));
    invalid(cuMemcpyDtoH(host, a - 1, 1));
    invalid(cuMemcpyDtoD(b, a, 2048));
    invalid(cuMemcpyHtoD(gone, host, 4));
    invalid(cuMemcpyDtoH(host, gone, 4));
    invalid(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)host, host, 4));
    invalid(cuMemcpyHtoDAsync(gone, host, 4, f->stream));
    invalid(cuMemcpyAsync(a, gone, 4, f->stream));
    invalid(cuMemcpyHtoD(a, NULL, 16));
    invalid(cuMemcpyDtoH(NULL, a, 16));
    invalid(cuMemcpyHtoD(0, host, 16));
    invalid(cuMemcpyDtoH(host, a, SIZE_MAX));
    invalid(cuMemcpyDtoH(pinned, a, 1025 + 4096));
    ok(cuMemcpyHtoD(a, NULL, 0));
    ok(cuMemcpyDtoH(NULL, a, 0));
    ok(cuMemcpyHtoD(0, host, 0));
    ok(cuCtxSynchronize()); /* none of it was fatal */
    ok(cuMemFreeHost(pinned));
    ok(cuMemFree(a));
    ok(cuMemFree(b));
}

/* ---- boxes ------------------------------------------------------------------------------------
 */

static void test_memory_copy__a_rectangle_leaves_the_rest_alone(void **state)
{
    unsigned char in[20 * 30], out[20 * 30], want[20 * 30];
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = in,
                       .srcPitch = 20,
                       .srcXInBytes = 3,
                       .srcY = 2,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstPitch = 512,
                       .dstXInBytes = 5,
                       .dstY = 1,
                       .WidthInBytes = 11,
                       .Height = 7};
    CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcPitch = 512,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = (CUdeviceptr)(uintptr_t)out,
                          .dstPitch = 20,
                          .WidthInBytes = 20,
                          .Height = 30};
    size_t pitch = 0;

    (void)state;
    ok(cuMemAllocPitch(&c.dstDevice, &pitch, 20, 30, 4));
    assert_int_equal(pitch, 512);
    back.srcDevice = c.dstDevice;
    ramp(in, sizeof(in), 9);
    memset(want, 0, sizeof(want));
    for (int y = 0; y < 7; y++)
        memcpy(want + (1 + y) * 20 + 5, in + (2 + y) * 20 + 3, 11);
    ok(cuMemcpy2D(&c));
    ok(cuMemcpy2DUnaligned(&back));
    assert_memory_equal(out, want, sizeof(want));
    ok(cuMemFree(c.dstDevice));
}

static void test_memory_copy__a_box_of_a_box(void **state)
{
    enum { X = 9, Y = 8, Z = 7 };
    unsigned char in[Z][Y][X], out[Z][Y][X];
    CUdeviceptr d = alloc_or_die(sizeof(in));
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = in,
                       .srcPitch = X,
                       .srcHeight = Y,
                       .srcXInBytes = 1,
                       .srcY = 2,
                       .srcZ = 3,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = d,
                       .dstPitch = X,
                       .dstHeight = Y,
                       .dstXInBytes = 4,
                       .dstY = 1,
                       .dstZ = 2,
                       .WidthInBytes = 5,
                       .Height = 6,
                       .Depth = 4};

    (void)state;
    ramp(&in[0][0][0], sizeof(in), 4);
    ok(cuMemcpy3D(&c));
    ok(cuMemcpyDtoH(out, d, sizeof(out)));
    for (int z = 0; z < Z; z++)
        for (int y = 0; y < Y; y++)
            for (int x = 0; x < X; x++) {
                bool inside = z >= 2 && z < 6 && y >= 1 && y < 7 && x >= 4;

                assert_int_equal(out[z][y][x], inside ? in[z + 1][y + 1][x - 3] : 0);
            }
    ok(cuMemFree(d));
}

static void test_memory_copy__malformed_boxes_are_refused(void **state)
{
    unsigned char host[4096];
    CUdeviceptr d = alloc_or_die(4096);
    const CUDA_MEMCPY3D good = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = host,
                                .srcPitch = 16,
                                .srcHeight = 4,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = d,
                                .dstPitch = 16,
                                .dstHeight = 4,
                                .WidthInBytes = 16,
                                .Height = 4,
                                .Depth = 2};
    CUDA_MEMCPY3D c;
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = d,
                          .WidthInBytes = 16,
                          .Height = 4};

    (void)state;
    ok(cuMemcpy3D(&good));
    invalid(cuMemcpy3D(NULL));
    invalid(cuMemcpy2D(NULL));
#define BAD(field, value)                                                                          \
    c = good;                                                                                      \
    c.field = value;                                                                               \
    invalid(cuMemcpy3D(&c))
    BAD(srcPitch, 15);
    BAD(dstPitch, 15);
    BAD(srcXInBytes, 1);
    BAD(dstPitch, (size_t)1 << 31);
    BAD(srcHeight, 3);
    BAD(dstHeight, 0);
    BAD(srcLOD, 1);
    BAD(dstLOD, 1);
    BAD(reserved0, host);
    BAD(srcMemoryType, (CUmemorytype)0);
    BAD(dstMemoryType, (CUmemorytype)5);
    BAD(dstZ, 63);
    BAD(dstZ, SIZE_MAX / 2);
    BAD(Depth, SIZE_MAX / 4);
    BAD(srcHost, NULL);
    c = good;
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    refused(cuMemcpy3D(&c), CUDA_ERROR_NOT_SUPPORTED);
    ok(cuMemcpy2D(&flat)); /* no pitch: tight */
    flat.dstPitch = 8;
    invalid(cuMemcpy2D(&flat));
    flat.dstPitch = 0;
    flat.Height = 0;
    ok(cuMemcpy2D(&flat));
    ok(cuMemFree(d));
}

/* ---- peers ------------------------------------------------------------------------------------
 */

static void test_memory_copy__goes_between_devices_without_peer_access(void **state)
{
    struct fixture *f = *state;
    CUdeviceptr a = alloc_or_die(N), b = 0;
    unsigned char in[N], out[N];
    CUDA_MEMCPY3D_PEER box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcPitch = 10,
                              .srcContext = f->ctx[1],
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstPitch = 10,
                              .dstContext = f->ctx[0],
                              .WidthInBytes = 10,
                              .Height = 5,
                              .Depth = 1};

    ok(cuCtxSetCurrent(f->ctx[1]));
    b = alloc_or_die(N);
    ok(cuCtxSetCurrent(f->ctx[0]));
    ramp(in, N, 6);
    ok(cuMemcpyHtoD(a, in, N));
    ok(cuMemcpyPeer(b, f->ctx[1], a, f->ctx[0], N));
    ok(cuMemsetD8(a, 0, N));
    ok(cuMemcpyPeerAsync(a, f->ctx[0], b, f->ctx[1], N, f->stream));
    ok(cuStreamSynchronize(f->stream));
    ok(cuMemcpyDtoH(out, a, N));
    assert_memory_equal(in, out, N);
    ok(cuMemsetD8(a, 0, N));
    box.srcDevice = b;
    box.dstDevice = a;
    ok(cuMemcpy3DPeer(&box));
    ok(cuMemcpyDtoH(out, a, N));
    assert_memory_equal(in, out, 50);
    assert_int_equal(out[50], 0);
    refused(cuMemcpyPeer(b, NULL, a, f->ctx[0], N), CUDA_ERROR_INVALID_CONTEXT);
    refused(cuMemcpyPeer(b, f->ctx[1], a, NULL, N), CUDA_ERROR_INVALID_CONTEXT);
    invalid(cuMemcpyPeer(b, f->ctx[1], a, f->ctx[0], N + 1));
    invalid(cuMemcpy3DPeer(NULL));
    ok(cuMemFree(a));
    ok(cuMemFree(b));
}

/* ---- batches ----------------------------------------------------------------------------------
 */

#if CUDA_VERSION >= 13000

static void test_memory_copy__a_batch_copies_all_or_nothing(void **state)
{
    struct fixture *f = *state;
    unsigned char in[300], out[300];
    CUdeviceptr d = alloc_or_die(300), dsts[3] = {d, d + 100, d + 200};
    CUdeviceptr srcs[3] = {(CUdeviceptr)(uintptr_t)in, (CUdeviceptr)(uintptr_t)(in + 100),
                           (CUdeviceptr)(uintptr_t)(in + 200)};
    size_t sizes[3] = {100, 100, 100}, firsts[2] = {0, 1};
    CUmemcpyAttributes attrs[2] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL},
                                   {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}};

    ramp(in, 300, 11);
    ok(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, firsts, 2, f->stream));
    ok(cuStreamSynchronize(f->stream));
    ok(cuMemcpyDtoH(out, d, 300));
    assert_memory_equal(in, out, 300);
    ok(cuMemsetD8(d, 0, 300));
    sizes[2] = 101;
    invalid(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, firsts, 2, f->stream));
    sizes[2] = 100;
    ok(cuMemcpyDtoH(out, d, 300));
    for (int i = 0; i < 300; i++)
        assert_int_equal(out[i], 0);
    invalid(cuMemcpyBatchAsync(dsts, srcs, sizes, 0, attrs, firsts, 2, f->stream));
    invalid(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, firsts, 0, f->stream));
    invalid(cuMemcpyBatchAsync(dsts, srcs, sizes, 1, attrs, firsts, 2, f->stream));
    invalid(cuMemcpyBatchAsync(NULL, srcs, sizes, 3, attrs, firsts, 2, f->stream));
    invalid(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, firsts, 2, NULL));
    firsts[0] = 1;
    invalid(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, firsts, 2, f->stream));
    firsts[0] = 0;
    attrs[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    invalid(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, firsts, 2, f->stream));
    ok(cuMemFree(d));
}

static void test_memory_copy__a_batch_of_boxes(void **state)
{
    struct fixture *f = *state;
    unsigned char in[64], out[64];
    CUdeviceptr d = alloc_or_die(64);
    CUDA_MEMCPY3D_BATCH_OP op = {
        .src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                .op.ptr = {.ptr = (CUdeviceptr)(uintptr_t)in, .rowLength = 8}},
        .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = d}},
        .extent = {4, 8, 1},
        .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY};

    ramp(in, 64, 12);
    ok(cuMemcpy3DBatchAsync(1, &op, 0, f->stream));
    ok(cuStreamSynchronize(f->stream));
    ok(cuMemcpyDtoH(out, d, 32));
    for (int y = 0; y < 8; y++)
        assert_memory_equal(out + y * 4, in + y * 8, 4);
    invalid(cuMemcpy3DBatchAsync(0, &op, 0, f->stream));
    invalid(cuMemcpy3DBatchAsync(1, NULL, 0, f->stream));
    invalid(cuMemcpy3DBatchAsync(1, &op, 1, f->stream));
    op.extent.depth = 0;
    invalid(cuMemcpy3DBatchAsync(1, &op, 0, f->stream));
    op.extent.depth = 1;
    op.src.op.ptr.rowLength = 3;
    invalid(cuMemcpy3DBatchAsync(1, &op, 0, f->stream));
    ok(cuMemFree(d));
}

#endif

/* ---- sets -------------------------------------------------------------------------------------
 */

static void test_memory_copy__sets_fill_what_they_name_and_no_more(void **state)
{
    CUdeviceptr d = alloc_or_die(4096);
    unsigned char got[4096];
    struct fixture *f = *state;

    ok(cuMemsetD8(d + 3, 0xab, 7));
    ok(cuMemsetD16(d + 100, 0x1234, 3));
    ok(cuMemsetD32(d + 200, 0xdeadbeef, 2));
    ok(cuMemsetD2D8Async(d + 512, 64, 1, 3, 4, f->stream));
    ok(cuMemsetD2D16Async(d + 1024, 64, 0x0202, 3, 4, f->stream));
    ok(cuMemsetD2D32Async(d + 2048, 64, 0x03030303, 3, 4, f->stream));
    ok(cuStreamSynchronize(f->stream));
    ok(cuMemcpyDtoH(got, d, sizeof(got)));
    for (int i = 0; i < 4096; i++) {
        int want = 0;

        if (i >= 3 && i < 10)
            want = 0xab;
        else if (i >= 100 && i < 106)
            want = i & 1 ? 0x12 : 0x34;
        else if (i >= 200 && i < 208)
            want = (unsigned char[]){0xef, 0xbe, 0xad, 0xde}[i & 3];
        for (int e = 0; e < 3; e++) {
            int at = i - (512 << e);

            if (at >= 0 && at < 4 * 64 && at % 64 < 3 << e)
                want = e + 1;
        }
        assert_int_equal(got[i], want);
    }
    ok(cuMemFree(d));
}

static void test_memory_copy__misaligned_and_outlying_sets_are_refused(void **state)
{
    CUdeviceptr d = alloc_or_die(1024);
    int local = 0;

    (void)state;
    invalid(cuMemsetD8(d, 0, 1025));
    invalid(cuMemsetD16(d + 1, 0, 4));
    invalid(cuMemsetD32(d + 2, 0, 4));
    invalid(cuMemsetD32(d, 0, 257));
    invalid(cuMemsetD32(d, 0, SIZE_MAX / 2));
    invalid(cuMemsetD2D8(d, 2, 0, 3, 2));
    invalid(cuMemsetD2D16(d, 7, 0, 3, 2));
    invalid(cuMemsetD2D32(d, 512, 0, 4, 3));
    invalid(cuMemsetD8(0, 0, 4));
    invalid(cuMemsetD8((CUdeviceptr)(uintptr_t)&local, 0, 4));
    ok(cuMemsetD8(d, 0, 0));
    ok(cuMemsetD2D8(d, 0, 0, 3, 0));
    ok(cuMemsetD2D32(d, 0, 0, 256, 1));
    ok(cuMemFree(d));
}

static void test_memory_copy__a_captured_copy_reads_its_source_at_each_launch(void **state)
{
    struct fixture *f = *state;
    CUdeviceptr d = alloc_or_die(4);
    unsigned src = 1, out = 0;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;

    ok(cuStreamBeginCapture(f->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemcpyHtoDAsync(d, &src, 4, f->stream));
    ok(cuMemcpyDtoHAsync(&out, d, 4, f->stream));
    ok(cuStreamEndCapture(f->stream, &graph));
    assert_int_equal(out, 0);
    ok(cuGraphInstantiate(&exec, graph, 0));
    for (src = 2; src < 5; src++) {
        ok(cuGraphLaunch(exec, f->stream));
        ok(cuStreamSynchronize(f->stream));
        assert_int_equal(out, src);
    }
    ok(cuGraphExecDestroy(exec));
    ok(cuGraphDestroy(graph));
    ok(cuMemFree(d));
}

/* ---- with kernels' memory gone ----------------------------------------------------------------
 */

static void test_memory_copy__free_waits_for_queued_work(void **state)
{
    struct fixture *f = *state;
    CUdeviceptr d = alloc_or_die(N);
    unsigned char *pinned = NULL;

    ok(cuMemAllocHost((void **)&pinned, N));
    ok(cuMemsetD8Async(d, 3, N, f->stream));
    ok(cuMemcpyDtoHAsync(pinned, d, N, f->stream));
    ok(cuMemFree(d));
    assert_int_equal(pinned[N - 1], 3);
    ok(cuMemFreeHost(pinned));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_memory_copy__plain_forms_move_bytes_both_ways),
        T(test_memory_copy__only_pageable_sources_are_read_at_once),
        T(test_memory_copy__to_pageable_memory_is_done_on_return),
        T(test_memory_copy__ranges_are_checked),
        T(test_memory_copy__a_rectangle_leaves_the_rest_alone),
        T(test_memory_copy__a_box_of_a_box),
        T(test_memory_copy__malformed_boxes_are_refused),
        T(test_memory_copy__goes_between_devices_without_peer_access),
#if CUDA_VERSION >= 13000
        T(test_memory_copy__a_batch_copies_all_or_nothing),
        T(test_memory_copy__a_batch_of_boxes),
#endif
        T(test_memory_copy__sets_fill_what_they_name_and_no_more),
        T(test_memory_copy__misaligned_and_outlying_sets_are_refused),
        T(test_memory_copy__a_captured_copy_reads_its_source_at_each_launch),
        T(test_memory_copy__free_waits_for_queued_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
