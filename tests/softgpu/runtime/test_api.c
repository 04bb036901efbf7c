/* Devices, errors, memory, copies, streams and events through the runtime's public API. */
#include "rt_test.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "softgpu/runtime/hooks.h"

/* ---- errors ---------------------------------------------------------------------------------- */

static void test_errors__are_kept_a_thread_until_asked(void **state)
{
    (void)state;
    assert_fails(cudaSetDevice(99), cudaErrorInvalidDevice);
    assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
    assert_ok(cudaSetDevice(0)); /* success does not clear */
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
}

static void *other_thread(void *arg)
{
    *(cudaError_t *)arg = cudaGetLastError();
    return NULL;
}

static void test_errors__of_one_thread_are_not_the_others(void **state)
{
    cudaError_t seen = cudaErrorUnknown;
    pthread_t t;

    (void)state;
    assert_int_equal(cudaSetDevice(99), cudaErrorInvalidDevice);
    assert_int_equal(pthread_create(&t, NULL, other_thread, &seen), 0);
    pthread_join(t, NULL);
    assert_int_equal(seen, cudaSuccess);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
}

static void test_errors__have_names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(cudaGetErrorName(cudaSuccess), "cudaSuccess");
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    assert_string_equal(cudaGetErrorName((cudaError_t)123456), "unrecognized error code");
    assert_string_equal(cudaGetErrorString((cudaError_t)123456), "unrecognized error code");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidConfiguration),
                        "invalid configuration argument");
    assert_string_equal(cudaGetErrorString(cudaErrorNoKernelImageForDevice),
                        "no kernel image is available for execution on the device");
}

static void test_unsupported__is_said_not_pretended(void **state)
{
    struct cudaChannelFormatDesc d = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaArray_t array = NULL;

    (void)state;
    assert_int_equal(d.x, 32);
    assert_fails(cudaMallocArray(&array, &d, 8, 8, 0), cudaErrorNotSupported);
    assert_null(array);
}

/* ---- devices --------------------------------------------------------------------------------- */

static void test_devices__are_counted_and_chosen_by_thread(void **state)
{
    int n = 0, d = -1;

    (void)state;
    assert_ok(cudaGetDeviceCount(&n));
    assert_int_equal(n, 2); /* SOFTGPU_DEVICES of this test */
    assert_ok(cudaGetDevice(&d));
    assert_int_equal(d, 0);
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaGetDevice(&d));
    assert_int_equal(d, 1);
    assert_ok(cudaSetDevice(0));
    assert_fails(cudaGetDevice(NULL), cudaErrorInvalidValue);
}

static void test_devices__make_their_primary_context_current(void **state)
{
    CUcontext before = NULL, primary = NULL;

    (void)state;
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaFree(NULL));
    assert_int_equal(cuCtxGetCurrent(&before), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&primary, 1), CUDA_SUCCESS);
    assert_ptr_equal(before, primary);
    assert_int_equal(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    assert_ok(cudaSetDevice(0));
}

static void test_devices__of_the_drivers_context_are_followed(void **state)
{
    CUcontext primary = NULL, popped = NULL;
    int d = -1;

    (void)state;
    assert_ok(cudaSetDevice(0));
    assert_int_equal(cuDevicePrimaryCtxRetain(&primary, 1), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(primary), CUDA_SUCCESS);
    assert_ok(cudaGetDevice(&d));
    assert_int_equal(d, 1);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_ok(cudaGetDevice(&d));
    assert_int_equal(d, 0);
    assert_int_equal(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

static void test_properties__agree_with_attributes(void **state)
{
    struct cudaDeviceProp p;
    int v = 0;
    size_t total = 0;
    char bus[32] = "";

    (void)state;
    memset(&p, 0xff, sizeof(p));
    assert_ok(cudaGetDeviceProperties(&p, 0));
    assert_true(strlen(p.name) > 0 && strlen(p.name) < sizeof(p.name));
    assert_int_equal(p.major, 8);
    assert_int_equal(p.minor, 0);
    assert_int_equal(p.warpSize, 32);
    assert_int_equal(p.maxThreadsPerBlock, 1024);
    assert_true(p.multiProcessorCount >= 68); /* PyTorch's Inductor asks */
    assert_ok(cudaDeviceGetAttribute(&v, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    assert_int_equal(p.sharedMemPerBlockOptin, v);
    assert_int_equal(v, 163 * 1024);
    assert_int_equal(cuDeviceTotalMem(&total, 0), CUDA_SUCCESS);
    assert_int_equal(p.totalGlobalMem, total);
    assert_int_equal(p.unifiedAddressing, 1);
    assert_ok(cudaDeviceGetPCIBusId(bus, sizeof(bus), 1));
    assert_ok(cudaDeviceGetByPCIBusId(&v, bus));
    assert_int_equal(v, 1);
    assert_fails(cudaGetDeviceProperties(&p, 2), cudaErrorInvalidDevice);
    assert_fails(cudaGetDeviceProperties(NULL, 0), cudaErrorInvalidValue);
    assert_ok(cudaChooseDevice(&v, &p));
    assert_int_equal(v, 0);
}

static void test_versions__are_the_headers(void **state)
{
    int v = 0;

    (void)state;
    assert_ok(cudaRuntimeGetVersion(&v));
    assert_int_equal(v, CUDART_VERSION);
    assert_ok(cudaDriverGetVersion(&v));
    assert_true(v >= CUDART_VERSION);
}

static void test_limits__are_set_and_read(void **state)
{
    size_t v = 0;

    (void)state;
    assert_ok(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
    assert_ok(cudaDeviceGetLimit(&v, cudaLimitMallocHeapSize));
    assert_int_equal(v, 16 << 20);
}

static void test_entry_points__are_the_drivers(void **state)
{
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    void *f = NULL;
    int n = 0;

    (void)state;
    assert_ok(
        cudaGetDriverEntryPointByVersion("cuDeviceGetCount", &f, 12000, cudaEnableDefault, &found));
    assert_int_equal(found, cudaDriverEntryPointSuccess);
    assert_non_null(f);
    assert_int_equal(((CUresult(*)(int *))f)(&n), CUDA_SUCCESS);
    assert_int_equal(n, 2);
    assert_ok(
        cudaGetDriverEntryPointByVersion("cuNoSuchThing", &f, 12000, cudaEnableDefault, &found));
    assert_int_equal(found, cudaDriverEntryPointSymbolNotFound);
    assert_null(f);
}

static struct cudaExtent extent(size_t w, size_t h, size_t d)
{
    return (struct cudaExtent){.width = w, .height = h, .depth = d};
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void test_memory__comes_and_goes(void **state)
{
    size_t free0 = 0, free1 = 0, total = 0;
    void *p = NULL;

    (void)state;
    assert_ok(cudaMemGetInfo(&free0, &total));
    assert_ok(cudaMalloc(&p, 64 << 20));
    assert_non_null(p);
    assert_ok(cudaMemGetInfo(&free1, &total));
    assert_true(free0 - free1 >= 64 << 20);
    assert_ok(cudaFree(p));
    assert_fails(cudaFree(p), cudaErrorInvalidValue);
    assert_fails(cudaMalloc(&p, (size_t)1 << 50), cudaErrorMemoryAllocation);
    assert_fails(cudaMalloc(NULL, 4), cudaErrorInvalidValue);
    assert_ok(cudaMalloc(&p, 0));
    assert_null(p);
    assert_ok(cudaFree(NULL));
    assert_ok(cudaFreeHost(NULL));
}

static void test_pointers__say_what_they_are(void **state)
{
    struct cudaPointerAttributes a;
    void *device = NULL, *pinned = NULL, *managed = NULL;
    int local = 0;

    (void)state;
    assert_ok(cudaMalloc(&device, 4096));
    assert_ok(cudaMallocHost(&pinned, 4096));
    assert_ok(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal));
    assert_ok(cudaPointerGetAttributes(&a, (char *)device + 100));
    assert_int_equal(a.type, cudaMemoryTypeDevice);
    assert_int_equal(a.device, 0);
    assert_ptr_equal(a.devicePointer, (char *)device + 100);
    assert_null(a.hostPointer);
    assert_ok(cudaPointerGetAttributes(&a, pinned));
    assert_int_equal(a.type, cudaMemoryTypeHost);
    assert_ptr_equal(a.hostPointer, pinned);
    assert_non_null(a.devicePointer);
    assert_ok(cudaPointerGetAttributes(&a, managed));
    assert_int_equal(a.type, cudaMemoryTypeManaged);
    assert_ptr_equal(a.devicePointer, managed);
    assert_ptr_equal(a.hostPointer, managed);
    assert_ok(cudaPointerGetAttributes(&a, &local));
    assert_int_equal(a.type, cudaMemoryTypeUnregistered);
    assert_null(a.devicePointer);
    assert_ptr_equal(a.hostPointer, &local);
    assert_ok(cudaFree(managed));
    assert_ok(cudaFreeHost(pinned));
    assert_ok(cudaFree(device));
}

static void test_host_memory__is_registered(void **state)
{
    struct cudaPointerAttributes a;
    unsigned flags = 0;
    void *p = aligned_alloc(4096, 8192), *d = NULL;

    (void)state;
    assert_non_null(p);
    assert_ok(cudaHostRegister(p, 8192, cudaHostRegisterMapped));
    assert_fails(cudaHostRegister(p, 8192, 0), cudaErrorHostMemoryAlreadyRegistered);
    assert_ok(cudaPointerGetAttributes(&a, p));
    assert_int_equal(a.type, cudaMemoryTypeHost);
    assert_ok(cudaHostGetDevicePointer(&d, p, 0));
    assert_non_null(d);
    assert_fails(cudaHostGetFlags(&flags, p), cudaErrorInvalidValue); /* not by cudaHostAlloc */
    assert_ok(cudaHostUnregister(p));
    assert_fails(cudaHostUnregister(p), cudaErrorHostMemoryNotRegistered);
    free(p);
}

static void test_copies__take_every_direction(void **state)
{
    uint32_t a[256], b[256];
    void *x = NULL, *y = NULL;

    (void)state;
    for (uint32_t i = 0; i < 256; i++)
        a[i] = i * 0x9e3779b9u;
    assert_ok(cudaMalloc(&x, sizeof(a)));
    assert_ok(cudaMalloc(&y, sizeof(a)));
    assert_ok(cudaMemcpy(x, a, sizeof(a), cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpy(y, x, sizeof(a), cudaMemcpyDeviceToDevice));
    memset(b, 0, sizeof(b));
    assert_ok(cudaMemcpy(b, y, sizeof(a), cudaMemcpyDeviceToHost));
    assert_memory_equal(a, b, sizeof(a));
    assert_ok(cudaMemset(x, 0x5a, sizeof(a)));
    assert_ok(cudaMemcpy(b, x, sizeof(a), cudaMemcpyDefault));
    assert_int_equal(b[255], 0x5a5a5a5a);
    assert_ok(cudaMemcpy(b, a, sizeof(a), cudaMemcpyHostToHost));
    assert_memory_equal(a, b, sizeof(a));
    assert_ok(cudaMemcpy(b, a, 0, cudaMemcpyHostToDevice));
    assert_fails(cudaMemcpy(x, a, 4, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    assert_fails(cudaMemcpy(NULL, a, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_ok(cudaFree(x));
    assert_ok(cudaFree(y));
}

static void test_copies__of_rows_and_slices(void **state)
{
    enum { W = 12, H = 5, D = 3 };
    unsigned char in[D][H][W], out[D][H][W];
    struct cudaPitchedPtr box;
    struct cudaMemcpy3DParms p = {0};
    void *rows = NULL;
    size_t pitch = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(in); i++)
        ((unsigned char *)in)[i] = (unsigned char)(i * 7);
    assert_ok(cudaMallocPitch(&rows, &pitch, W, H));
    assert_true(pitch >= W && pitch % 32 == 0);
    assert_ok(cudaMemcpy2D(rows, pitch, in, W, W, H, cudaMemcpyHostToDevice));
    assert_ok(cudaMemset2D((char *)rows + pitch, pitch, 9, 4, 2));
    assert_ok(cudaMemcpy2D(out, W, rows, pitch, W, H, cudaMemcpyDefault));
    assert_memory_equal(in[0][0], out[0][0], W);
    assert_int_equal(out[0][1][0], 9);
    assert_int_equal(out[0][2][3], 9);
    assert_int_equal(out[0][2][4], in[0][2][4]);
    assert_memory_equal(in[0][3], out[0][3], 2 * W);
    assert_fails(cudaMemcpy2D(rows, W - 1, in, W, W, H, cudaMemcpyHostToDevice),
                 cudaErrorInvalidPitchValue);

    assert_ok(cudaMalloc3D(&box, extent(W, H, D)));
    p.srcPtr = (struct cudaPitchedPtr){in, W, W, H};
    p.dstPtr = box;
    p.extent = extent(W, H, D);
    p.kind = cudaMemcpyHostToDevice;
    assert_ok(cudaMemcpy3D(&p));
    assert_ok(cudaMemset3D(box, 0x33, extent(2, 1, D)));
    p.srcPtr = box;
    p.dstPtr = (struct cudaPitchedPtr){out, W, W, H};
    p.kind = cudaMemcpyDeviceToHost;
    assert_ok(cudaMemcpy3DAsync(&p, NULL));
    assert_ok(cudaStreamSynchronize(NULL));
    for (int z = 0; z < D; z++) {
        assert_int_equal(out[z][0][0], 0x33);
        assert_int_equal(out[z][0][1], 0x33);
        assert_memory_equal(&in[z][0][2], &out[z][0][2], H * W - 2);
    }
    assert_ok(cudaFree(box.ptr));
    assert_ok(cudaFree(rows));
}

static void test_copies__between_devices(void **state)
{
    int can = 0, a = 42, b = 0;
    void *x = NULL, *y = NULL;

    (void)state;
    assert_ok(cudaSetDevice(1));
    assert_ok(cudaMalloc(&y, 4));
    assert_ok(cudaSetDevice(0));
    assert_ok(cudaMalloc(&x, 4));
    assert_ok(cudaMemcpy(x, &a, 4, cudaMemcpyHostToDevice));
    assert_ok(cudaMemcpyPeer(y, 1, x, 0, 4));
    assert_ok(cudaMemcpy(&b, y, 4, cudaMemcpyDefault));
    assert_int_equal(b, 42);
    assert_ok(cudaDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    assert_ok(cudaDeviceEnablePeerAccess(1, 0));
    assert_fails(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    assert_ok(cudaDeviceDisablePeerAccess(1));
    assert_fails(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    assert_fails(cudaMemcpyPeer(y, 7, x, 0, 4), cudaErrorInvalidDevice);
    assert_ok(cudaFree(x));
    assert_ok(cudaFree(y));
}

static void test_pools__allocate_in_stream_order(void **state)
{
    cudaMemPool_t pool = NULL;
    cudaStream_t s = NULL;
    uint64_t keep = UINT64_MAX, got = 0;
    void *p = NULL;

    (void)state;
    assert_ok(cudaStreamCreate(&s));
    assert_ok(cudaDeviceGetDefaultMemPool(&pool, 0));
    assert_ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    assert_ok(cudaMallocAsync(&p, 1 << 20, s));
    assert_ok(cudaMemsetAsync(p, 1, 1 << 20, s));
    assert_ok(cudaFreeAsync(p, s));
    assert_ok(cudaStreamSynchronize(s));
    assert_ok(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got));
    assert_true(got == keep);
    assert_ok(cudaStreamDestroy(s));
}

/* ---- streams --------------------------------------------------------------------------------- */

static void count_up(void *arg)
{
    ++*(int *)arg;
}

static void callback(cudaStream_t stream, cudaError_t status, void *arg)
{
    (void)stream;
    *(int *)arg += status == cudaSuccess ? 10 : 1000;
}

static void test_streams__run_host_functions_in_order(void **state)
{
    cudaStream_t s = NULL, t = NULL;
    cudaEvent_t e = NULL;
    int n = 0, least = 0, greatest = 0, priority = 0;
    unsigned flags = 0;

    (void)state;
    assert_ok(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest <= least);
    assert_ok(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest));
    assert_ok(cudaStreamCreate(&t));
    assert_ok(cudaStreamGetPriority(s, &priority));
    assert_int_equal(priority, greatest);
    assert_ok(cudaStreamGetFlags(s, &flags));
    assert_int_equal(flags, cudaStreamNonBlocking);
    assert_ok(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    assert_ok(cudaLaunchHostFunc(s, count_up, &n));
    assert_ok(cudaStreamAddCallback(s, callback, &n, 0));
    assert_ok(cudaEventRecord(e, s));
    assert_ok(cudaStreamWaitEvent(t, e, 0));
    assert_ok(cudaLaunchHostFunc(t, count_up, &n));
    assert_ok(cudaStreamSynchronize(t));
    assert_int_equal(n, 12);
    assert_ok(cudaStreamQuery(s));
    assert_ok(cudaEventQuery(e));
    assert_fails(cudaStreamAddCallback(s, callback, &n, 1), cudaErrorInvalidValue);
    assert_ok(cudaEventDestroy(e));
    assert_ok(cudaStreamDestroy(s));
    assert_ok(cudaStreamDestroy(t));
}

static void test_events__tell_time(void **state)
{
    cudaEvent_t a = NULL, b = NULL;
    float ms = -1;

    (void)state;
    assert_ok(cudaEventCreate(&a));
    assert_ok(cudaEventCreate(&b));
    assert_ok(cudaEventRecord(a, NULL));
    assert_ok(cudaEventRecord(b, NULL));
    assert_ok(cudaEventSynchronize(b));
    assert_ok(cudaEventElapsedTime(&ms, a, b));
    assert_true(ms >= 0 && ms < 10000);
    assert_ok(cudaEventDestroy(a));
    assert_ok(cudaEventDestroy(b));
}

/* ---- the seam for tools ---------------------------------------------------------------------- */

struct seen {
    int enters, exits;
    char name[64];
    size_t size;
    cudaError_t result;
};

static void on_enter(void *arg, struct sg_call *call)
{
    struct seen *s = arg;

    s->enters++;
    call->user = 77;
}

static void on_exit_(void *arg, struct sg_call *call)
{
    struct seen *s = arg;
    const struct {
        void **devPtr;
        size_t size;
    } *params = call->params;

    s->exits++;
    assert_int_equal(call->user, 77);
    strncpy(s->name, call->name, sizeof(s->name) - 1);
    s->size = params->size;
    s->result = (cudaError_t)call->result;
}

static void test_hooks__see_name_parameters_and_result(void **state)
{
    struct seen seen = {0};
    struct softgpu_call_hooks hooks = {.enter = on_enter, .exit = on_exit_, .arg = &seen};
    void *p = NULL;

    (void)state;
    softgpu_rt_set_hooks(&hooks);
    assert_int_equal(cudaMalloc(&p, (size_t)1 << 50), cudaErrorMemoryAllocation);
    softgpu_rt_set_hooks(NULL);
    assert_int_equal(seen.enters, 1);
    assert_int_equal(seen.exits, 1);
    assert_string_equal(seen.name, "cudaMalloc");
    assert_true(seen.size == (size_t)1 << 50);
    assert_int_equal(seen.result, cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_ok(cudaFree(NULL));
    assert_int_equal(seen.enters, 1);
}

static void test_reset__starts_a_device_anew(void **state)
{
    struct cudaPointerAttributes a;
    void *p = NULL;

    (void)state;
    assert_ok(cudaMalloc(&p, 4096));
    assert_ok(cudaDeviceReset());
    assert_ok(cudaPointerGetAttributes(&a, p));
    assert_int_equal(a.type, cudaMemoryTypeUnregistered);
    assert_ok(cudaMalloc(&p, 4096));
    assert_ok(cudaMemset(p, 0, 4096));
    assert_ok(cudaDeviceSynchronize());
    assert_ok(cudaFree(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors__are_kept_a_thread_until_asked),
        cmocka_unit_test(test_errors__of_one_thread_are_not_the_others),
        cmocka_unit_test(test_errors__have_names_and_texts),
        cmocka_unit_test(test_unsupported__is_said_not_pretended),
        cmocka_unit_test(test_devices__are_counted_and_chosen_by_thread),
        cmocka_unit_test(test_devices__make_their_primary_context_current),
        cmocka_unit_test(test_devices__of_the_drivers_context_are_followed),
        cmocka_unit_test(test_properties__agree_with_attributes),
        cmocka_unit_test(test_versions__are_the_headers),
        cmocka_unit_test(test_limits__are_set_and_read),
        cmocka_unit_test(test_entry_points__are_the_drivers),
        cmocka_unit_test(test_memory__comes_and_goes),
        cmocka_unit_test(test_pointers__say_what_they_are),
        cmocka_unit_test(test_host_memory__is_registered),
        cmocka_unit_test(test_copies__take_every_direction),
        cmocka_unit_test(test_copies__of_rows_and_slices),
        cmocka_unit_test(test_copies__between_devices),
        cmocka_unit_test(test_pools__allocate_in_stream_order),
        cmocka_unit_test(test_streams__run_host_functions_in_order),
        cmocka_unit_test(test_events__tell_time),
        cmocka_unit_test(test_hooks__see_name_parameters_and_result),
        cmocka_unit_test(test_reset__starts_a_device_anew),
    };

    return cmocka_run_group_tests_name("softgpu.runtime_api", tests, NULL, NULL);
}
