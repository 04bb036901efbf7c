/* The callback API: who may subscribe, what is enabled, and what an API call delivers. */
#include "tests/softgpu/cupti/subscriber.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRIVER CUPTI_CB_DOMAIN_DRIVER_API
#define RUNTIME CUPTI_CB_DOMAIN_RUNTIME_API
#define ALLOC CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2
#define FREE CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2

static void enable(CUpti_CallbackDomain domain, uint32_t id)
{
    FINE(cuptiEnableCallback(1, box.handle, domain, id));
}

static void alloc_and_free(void)
{
    CUdeviceptr p;

    OK(cuMemAlloc(&p, 16));
    OK(cuMemFree(p));
}

/* ---- subscribing ----------------------------------------------------------------------------- */

#ifdef CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN
static void test_subscribe__one_subscriber_whose_name_the_next_is_told(void **state)
{
    char old[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "", little[8] = "";
    CUpti_SubscriberParams p = {.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                .subscriberName = "first"};
    CUpti_SubscriberHandle a, b;

    (void)state;
    FINE(cuptiUnsubscribe(box.handle));
    FINE(cuptiSubscribe_v2(&a, on_callback, &box, &p));
    assert_int_equal(cuptiSubscribe(&b, on_callback, &box),
                     CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    p.subscriberName = "second";
    p.oldSubscriberName = old;
    p.oldSubscriberSize = sizeof(old);
    assert_int_equal(cuptiSubscribe_v2(&b, on_callback, &box, &p),
                     CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    assert_string_equal(old, "CUPTI for first");
    p.oldSubscriberName = little;
    p.oldSubscriberSize = sizeof(little);
    assert_int_equal(cuptiSubscribe_v2(&b, on_callback, &box, &p),
                     CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    assert_string_equal(little, "CUPTI f");
    FINE(cuptiUnsubscribe(a));
    FINE(cuptiSubscribe_v2(&b, on_callback, &box, NULL));
    BAD(cuptiUnsubscribe(a)); /* of the one before */
    BAD(cuptiEnableCallback(1, a, DRIVER, ALLOC));
    FINE(cuptiUnsubscribe(b));
    p.structSize = 0;
    BAD(cuptiSubscribe_v2(&b, on_callback, &box, &p));
}
#endif

static void test_subscribe__bad_parameters_are_refused(void **state)
{
    uint32_t on;

    (void)state;
    BAD(cuptiUnsubscribe(NULL));
    BAD(cuptiEnableCallback(1, NULL, DRIVER, ALLOC));
    BAD(cuptiEnableCallback(1, box.handle, DRIVER, 0));
    BAD(cuptiEnableCallback(1, box.handle, DRIVER, CUPTI_DRIVER_TRACE_CBID_SIZE));
    BAD(cuptiEnableCallback(1, box.handle, CUPTI_CB_DOMAIN_INVALID, 1));
    BAD(cuptiEnableDomain(1, box.handle, CUPTI_CB_DOMAIN_SIZE));
    BAD(cuptiEnableDomain(1, NULL, DRIVER));
    BAD(cuptiEnableAllDomains(1, NULL));
    BAD(cuptiGetCallbackState(NULL, box.handle, DRIVER, ALLOC));
    BAD(cuptiGetCallbackState(&on, NULL, DRIVER, ALLOC));
    FINE(cuptiUnsubscribe(box.handle));
    BAD(cuptiUnsubscribe(box.handle));
    BAD(cuptiEnableCallback(1, box.handle, DRIVER, ALLOC));
    BAD(cuptiSubscribe(NULL, on_callback, &box));
}

/* ---- enabling -------------------------------------------------------------------------------- */

static void test_enable__only_what_is_enabled_is_told(void **state)
{
    uint32_t on = 7;

    (void)state;
    alloc_and_free();
    assert_int_equal(box.n, 0);
    enable(DRIVER, ALLOC);
    FINE(cuptiGetCallbackState(&on, box.handle, DRIVER, ALLOC));
    assert_int_equal(on, 1);
    FINE(cuptiGetCallbackState(&on, box.handle, DRIVER, FREE));
    assert_int_equal(on, 0);
    alloc_and_free();
    assert_int_equal(box.n, 2);
    assert_int_equal(box.all[1].id, ALLOC);
    FINE(cuptiEnableCallback(0, box.handle, DRIVER, ALLOC));
    alloc_and_free();
    assert_int_equal(box.n, 2);
}

static void test_enable__a_domain_and_then_one_id_less(void **state)
{
    (void)state;
    FINE(cuptiEnableDomain(1, box.handle, DRIVER));
    FINE(cuptiEnableCallback(0, box.handle, DRIVER, FREE));
    alloc_and_free();
    assert_int_equal(box.n, 2);
    FINE(cuptiEnableDomain(1, box.handle, DRIVER));
    alloc_and_free();
    assert_int_equal(box.n, 6);
    FINE(cuptiEnableAllDomains(0, box.handle));
    alloc_and_free();
    assert_int_equal(box.n, 6);
}

static void test_domains__are_all_supported(void **state)
{
    CUpti_DomainTable table;
    size_t n;

    (void)state;
    FINE(cuptiSupportedDomains(&n, &table));
    assert_int_equal(n, CUPTI_CB_DOMAIN_SIZE - 1);
    for (size_t i = 0; i < n; i++)
        FINE(cuptiEnableDomain(1, box.handle, table[i]));
    BAD(cuptiSupportedDomains(NULL, &table));
    BAD(cuptiSupportedDomains(&n, NULL));
}

/* ---- what an API call delivers --------------------------------------------------------------- */

static void test_call__has_name_parameters_context_and_result(void **state)
{
    const struct seen *in = &box.all[0], *out = &box.all[1];
    uint32_t uid;
    CUdeviceptr p;

    (void)state;
    FINE(cuptiGetContextId(box.ctx, &uid));
    enable(DRIVER, ALLOC);
    OK(cuMemAlloc(&p, 16));
    assert_int_equal(in->call.callbackSite, CUPTI_API_ENTER);
    assert_int_equal(out->call.callbackSite, CUPTI_API_EXIT);
    assert_string_equal(in->call.functionName, "cuMemAlloc_v2");
    assert_null(in->call.symbolName);
    assert_null(in->call.functionReturnValue);
    assert_ptr_equal(in->call.context, box.ctx);
    assert_int_equal(in->call.contextUid, uid);
    assert_int_equal(out->result, CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(NULL, 16), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(box.all[3].result, CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
}

static void write_data(const struct seen *s)
{
    if (s->call.callbackSite == CUPTI_API_ENTER) {
        const cuMemAlloc_v2_params *p = s->call.functionParams;

        assert_int_equal(*s->call.correlationData, 0);
        *s->call.correlationData = p->bytesize;
    }
}

static void read_data(const struct seen *s)
{
    write_data(s);
    if (s->call.callbackSite == CUPTI_API_EXIT)
        assert_int_equal(*s->call.correlationData, 48);
}

static void test_call__correlation_data_goes_from_enter_to_exit(void **state)
{
    CUdeviceptr p;

    (void)state;
    enable(DRIVER, ALLOC);
    box.also = read_data;
    OK(cuMemAlloc(&p, 48));
    OK(cuMemFree(p));
    assert_int_equal(box.n, 2);
}

static void test_call__each_has_a_correlation_id_of_its_own(void **state)
{
    (void)state;
    FINE(cuptiEnableDomain(1, box.handle, DRIVER));
    alloc_and_free();
    assert_int_equal(box.n, 4);
    assert_int_equal(box.all[0].call.correlationId, box.all[1].call.correlationId);
    assert_int_equal(box.all[2].call.correlationId, box.all[3].call.correlationId);
    assert_int_not_equal(box.all[0].call.correlationId, box.all[2].call.correlationId);
    assert_int_not_equal(box.all[0].call.correlationId, 0);
}

static void test_launch__has_the_kernels_name(void **state)
{
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};

    (void)state;
    FINE(cuptiEnableDomain(1, box.handle, DRIVER));
    OK(cuLaunchKernel(box.nothing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuLaunchKernelEx(&config, box.nothing, NULL, NULL));
    assert_int_equal(box.n, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_string_equal(box.all[i].call.symbolName, "nothing");
    assert_int_equal(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_null(box.all[4].call.symbolName);
}

/* The driver's launch is inside the runtime's, with the same number. */
static void test_runtime__holds_the_drivers_call_with_its_id(void **state)
{
    cudaLibrary_t library;
    cudaKernel_t kernel;
    uint32_t id;

    (void)state;
    assert_int_equal(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), cudaSuccess);
    assert_int_equal(cudaLibraryGetKernel(&kernel, library, "nothing"), cudaSuccess);
    FINE(cuptiEnableDomain(1, box.handle, DRIVER));
    FINE(cuptiEnableDomain(1, box.handle, RUNTIME));
    assert_int_equal(
        cudaLaunchKernel((void *)kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL),
        cudaSuccess);
    assert_int_equal(box.n, 4);
    id = box.all[0].call.correlationId;
    assert_int_equal(box.all[0].domain, RUNTIME);
    assert_int_equal(box.all[0].id, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
    assert_string_equal(box.all[0].call.functionName, "cudaLaunchKernel");
    assert_int_equal(box.all[1].domain, DRIVER);
    assert_int_equal(box.all[1].id, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
    assert_int_equal(box.all[2].call.callbackSite, CUPTI_API_EXIT);
    assert_int_equal(box.all[3].domain, RUNTIME);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(box.all[i].call.correlationId, id);
        assert_string_equal(box.all[i].call.symbolName, "nothing");
    }
    assert_int_equal(cudaLibraryUnload(library), cudaSuccess);
}

#if CUDA_VERSION >= 13000
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t stream);

/* What nvcc's host code calls for <<<>>>. */
static void test_runtime__a_launch_of_nvccs_has_an_id_of_its_own(void **state)
{
    cudaLibrary_t library;
    cudaKernel_t kernel;

    (void)state;
    assert_int_equal(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), cudaSuccess);
    assert_int_equal(cudaLibraryGetKernel(&kernel, library, "nothing"), cudaSuccess);
    enable(RUNTIME, CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000);
    assert_int_equal(__cudaLaunchKernel(kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL),
                     cudaSuccess);
    assert_int_equal(box.n, 2);
    assert_string_equal(box.all[0].call.functionName, "__cudaLaunchKernel");
    assert_string_equal(box.all[0].call.symbolName, "nothing");
    assert_int_equal(cudaLibraryUnload(library), cudaSuccess);
}
#endif

/* ---- inside a callback ----------------------------------------------------------------------- */

static void call_inside(const struct seen *s)
{
    uint64_t now;

    if (s->id == ALLOC && s->call.callbackSite == CUPTI_API_ENTER) {
        OK(cuCtxSynchronize());
        FINE(cuptiGetTimestamp(&now));
    }
}

/* What a tool calls is a call like others: told, with an id of its own. */
static void test_inside__calls_are_told_and_leave_the_outer_call_alone(void **state)
{
    (void)state;
    FINE(cuptiEnableDomain(1, box.handle, DRIVER));
    box.also = call_inside;
    alloc_and_free();
    assert_int_equal(box.n, 6);
    assert_int_equal(box.all[1].id, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize);
    assert_int_equal(box.all[3].id, ALLOC);
    assert_int_equal(box.all[0].call.correlationId, box.all[3].call.correlationId);
    assert_int_not_equal(box.all[0].call.correlationId, box.all[1].call.correlationId);
}

static void unsubscribe_inside(const struct seen *s)
{
    (void)s;
    box.also = NULL;
    FINE(cuptiUnsubscribe(box.handle));
}

static void test_inside__unsubscribing_ends_it(void **state)
{
    (void)state;
    FINE(cuptiEnableDomain(1, box.handle, DRIVER));
    box.also = unsubscribe_inside;
    alloc_and_free();
    assert_int_equal(box.n, 1);
    FINE(cuptiSubscribe(&box.handle, on_callback, &box));
    enable(DRIVER, ALLOC);
    alloc_and_free();
    assert_int_equal(box.n, 3);
}

static void finalize_at_exit(const struct seen *s)
{
    if (s->call.callbackSite == CUPTI_API_EXIT) {
        box.also = NULL;
        FINE(cuptiFinalize());
    }
}

static void test_inside__finalize_at_exit_detaches(void **state)
{
    (void)state;
    FINE(cuptiEnableDomain(1, box.handle, DRIVER));
    box.also = finalize_at_exit;
    alloc_and_free();
    assert_int_equal(box.n, 2);
    FINE(cuptiSubscribe(&box.handle, on_callback, &box));
    enable(DRIVER, ALLOC);
    alloc_and_free();
    assert_int_equal(box.n, 4);
}

/* ---- threads and processes ------------------------------------------------------------------- */

static atomic_uint_least64_t told;

static void count(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                  const void *data)
{
    static __thread uint32_t inside; /* the id at enter, of this thread */
    const CUpti_CallbackData *d = data;

    (void)userdata, (void)domain, (void)id;
    if (d->callbackSite == CUPTI_API_ENTER)
        inside = d->correlationId;
    else if (inside != d->correlationId)
        abort();
    atomic_fetch_add(&told, 1);
}

static void *worker(void *arg)
{
    OK(cuCtxSetCurrent(box.ctx));
    for (unsigned i = 0; i < 500; i++)
        alloc_and_free();
    return arg;
}

static void test_threads__each_has_its_calls(void **state)
{
    pthread_t threads[4];

    (void)state;
    FINE(cuptiUnsubscribe(box.handle));
    FINE(cuptiSubscribe(&box.handle, count, NULL));
    enable(DRIVER, ALLOC);
    enable(DRIVER, FREE);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, NULL), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&told), 4 * 500 * 4);
}

/* Unsubscribing while others are told: nobody is told afterwards. */
static void test_threads__nobody_is_told_after_unsubscribing(void **state)
{
    pthread_t thread;
    uint64_t at_the_end;

    (void)state;
    FINE(cuptiUnsubscribe(box.handle));
    FINE(cuptiSubscribe(&box.handle, count, NULL));
    enable(DRIVER, ALLOC);
    atomic_store(&told, 0);
    assert_int_equal(pthread_create(&thread, NULL, worker, NULL), 0);
    while (atomic_load(&told) < 20) {
    }
    FINE(cuptiUnsubscribe(box.handle));
    at_the_end = atomic_load(&told);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&told), at_the_end);
}

static void test_fork__a_child_is_told_of_its_own_calls(void **state)
{
    int status;
    pid_t child;

    (void)state;
    enable(DRIVER, ALLOC);
    child = fork();
    if (child == 0) {
        CUdeviceptr p;
        CUresult r = cuMemAlloc(&p, 16);

        _exit(r == CUDA_ERROR_NOT_INITIALIZED && box.n == 2 &&
                      cuptiUnsubscribe(box.handle) == CUPTI_SUCCESS
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(box.n, 0);
    alloc_and_free();
    assert_int_equal(box.n, 2);
}

/* ---- names and errors ------------------------------------------------------------------------ */

static void test_names__are_those_of_the_ids(void **state)
{
    const char *text = NULL;
    uint32_t version;

    (void)state;
    FINE(cuptiGetCallbackName(DRIVER, ALLOC, &text));
    assert_string_equal(text, "cuMemAlloc_v2");
    FINE(cuptiGetCallbackName(RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, &text));
    assert_string_equal(text, "cudaMalloc_v3020");
    BAD(cuptiGetCallbackName(RUNTIME, CUPTI_RUNTIME_TRACE_CBID_SIZE, &text));
    assert_null(text);
    BAD(cuptiGetCallbackName(CUPTI_CB_DOMAIN_RESOURCE, 1, &text));
    BAD(cuptiGetCallbackName(DRIVER, 0, &text));
    BAD(cuptiGetCallbackName(DRIVER, ALLOC, NULL));
    FINE(cuptiGetResultString(CUPTI_ERROR_NOT_READY, &text));
    assert_string_equal(text, "CUPTI_ERROR_NOT_READY");
    FINE(cuptiGetErrorMessage(CUPTI_ERROR_NOT_READY, &text));
    assert_true(strlen(text) > 10);
    BAD(cuptiGetResultString((CUptiResult)12345, &text));
    FINE(cuptiGetVersion(&version));
    assert_int_equal(version, CUPTI_API_VERSION);
    BAD(cuptiGetVersion(NULL));
}

static void test_last_error__is_told_once_and_a_thread(void **state)
{
    uint32_t id;

    (void)state;
    (void)cuptiGetLastError();
    assert_int_equal(cuptiGetContextId(NULL, &id), CUPTI_ERROR_INVALID_CONTEXT);
    FINE(cuptiGetVersion(&id));
    assert_int_equal(cuptiGetLastError(), CUPTI_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuptiGetLastError(), CUPTI_SUCCESS);
}

static void test_ids__of_contexts_devices_and_streams(void **state)
{
    uint32_t a, b, c, device = 9;
    CUcontext other;
    CUstream s;

    (void)state;
    FINE(cuptiGetContextId(box.ctx, &a));
    OK(cuCtxCreate(&other, NULL, 0, 0));
    FINE(cuptiGetContextId(other, &b));
    assert_int_equal(b, a + 1);
    FINE(cuptiGetDeviceId(other, &device));
    assert_int_equal(device, 0);
    OK(cuStreamCreate(&s, 0));
    FINE(cuptiGetStreamIdEx(other, s, 0, &a));
    FINE(cuptiGetStreamIdEx(other, NULL, 0, &b));
    FINE(cuptiGetStreamIdEx(other, NULL, 1, &c));
    assert_int_not_equal(a, b);
    assert_int_not_equal(b, c);
    assert_int_equal(cuptiGetStreamIdEx(box.ctx, s, 0, &a), CUPTI_ERROR_INVALID_STREAM);
    OK(cuCtxDestroy(other));
    assert_int_equal(cuptiGetStreamIdEx(NULL, (CUstream)&s, 0, &a), CUPTI_ERROR_INVALID_STREAM);
    OK(cuCtxSetCurrent(box.ctx));
}

static void test_devices__are_supported(void **state)
{
    CUpti_DeviceVirtualizationMode mode;
    int yes = 0;

    (void)state;
    FINE(cuptiDeviceSupported(0, &yes));
    assert_int_equal(yes, 1);
    assert_int_equal(cuptiDeviceSupported(99, &yes), CUPTI_ERROR_INVALID_DEVICE);
    FINE(cuptiComputeCapabilitySupported(8, 0, &yes));
    assert_int_equal(yes, 1);
    FINE(cuptiComputeCapabilitySupported(3, 5, &yes));
    assert_int_equal(yes, 0);
    BAD(cuptiComputeCapabilitySupported(8, 0, NULL));
    FINE(cuptiDeviceVirtualizationMode(0, &mode));
    assert_int_equal(mode, CUPTI_DEVICE_VIRTUALIZATION_MODE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN
        TEST(test_subscribe__one_subscriber_whose_name_the_next_is_told),
#endif
        TEST(test_subscribe__bad_parameters_are_refused),
        TEST(test_enable__only_what_is_enabled_is_told),
        TEST(test_enable__a_domain_and_then_one_id_less),
        TEST(test_domains__are_all_supported),
        TEST(test_call__has_name_parameters_context_and_result),
        TEST(test_call__correlation_data_goes_from_enter_to_exit),
        TEST(test_call__each_has_a_correlation_id_of_its_own),
        TEST(test_launch__has_the_kernels_name),
        TEST(test_runtime__holds_the_drivers_call_with_its_id),
#if CUDA_VERSION >= 13000
        TEST(test_runtime__a_launch_of_nvccs_has_an_id_of_its_own),
#endif
        TEST(test_inside__calls_are_told_and_leave_the_outer_call_alone),
        TEST(test_inside__unsubscribing_ends_it),
        TEST(test_inside__finalize_at_exit_detaches),
        TEST(test_threads__each_has_its_calls),
        TEST(test_threads__nobody_is_told_after_unsubscribing),
        TEST(test_fork__a_child_is_told_of_its_own_calls),
        TEST(test_names__are_those_of_the_ids),
        TEST(test_last_error__is_told_once_and_a_thread),
        TEST(test_ids__of_contexts_devices_and_streams),
        TEST(test_devices__are_supported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
