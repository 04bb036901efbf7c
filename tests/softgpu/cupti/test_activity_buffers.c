/* The buffers of the activity API: asked for, filled, given back; under load; in a forked child. */
#include "tests/softgpu/cupti/activity.h"

#include <stdatomic.h>

static size_t dropped(void)
{
    size_t n = 0;

    FINE(cuptiActivityGetNumDroppedRecords(NULL, 0, &n));
    return n;
}

static void marks(const struct queue *q, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        OK(queue_mark(q, NULL, i));
    OK(cuCtxSynchronize());
}

static void test_buffers__are_asked_for_when_the_first_record_comes(void **state)
{
    struct queue *q = *state;

    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    assert_int_equal(client.given, 0);
    marks(q, 1);
    assert_int_equal(client.given, 1);
    assert_int_equal(client.back, 0);
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(client.back, 1);
    FINE(cuptiActivityFlushAll(0)); /* there is none to give back */
    assert_int_equal(client.back, 1);
}

static void test_buffers__full_ones_are_given_back_at_once(void **state)
{
    struct queue *q = *state;

    client.size = 1024;
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    marks(q, 50);
    assert_true(client.back >= 7);
    assert_int_equal(client.back, client.given - 1);
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 50);
    assert_int_equal(dropped(), 0);
}

static void test_buffers__hold_no_more_records_than_was_said(void **state)
{
    struct queue *q = *state;

    client.most = 3;
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    marks(q, 7);
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(client.given, 3);
    assert_int_equal(client.n, 7);
}

static void test_buffers__that_are_too_small_drop_and_count(void **state)
{
    struct queue *q = *state;

    client.size = 64;
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    marks(q, 4);
    assert_int_equal(client.given, 4); /* each of them useless, and given back */
    assert_int_equal(client.back, 4);
    assert_int_equal(client.empty, 4);
    assert_int_equal(dropped(), 4);
    assert_int_equal(dropped(), 0); /* told once */
    client.size = 65536;
    marks(q, 2);
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(client.n, 2);
}

static void test_buffers__that_are_not_given_drop_and_count(void **state)
{
    struct queue *q = *state;
    size_t n = 7;

    client.size = 0;
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    marks(q, 3);
    FINE(cuptiActivityGetNumDroppedRecords(q->ctx, 1, &n)); /* none belongs to a context */
    assert_int_equal(n, 0);
    assert_int_equal(cuptiActivityGetNumDroppedRecords(NULL, 0, NULL),
                     CUPTI_ERROR_INVALID_PARAMETER);
    assert_int_equal(dropped(), 3);
    assert_int_equal(client.n, 0);
}

static void test_buffers__may_lie_anywhere(void **state)
{
    struct queue *q = *state;

    client.shift = 3;
    client.size = 777;
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    enable(CUPTI_ACTIVITY_KIND_DRIVER);
    marks(q, 20);
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 20);
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_DRIVER), 21);
}

static void test_buffers__all_go_back_at_the_end(void **state)
{
    struct queue *q = *state;

    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    marks(q, 1);
    FINE(cuptiFinalize());
    assert_int_equal(client.back, 1);
    assert_int_equal(client.n, 1);
    marks(q, 1); /* nothing is enabled */
    assert_int_equal(client.given, 1);
    assert_int_equal(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
    FINE(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed));
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    marks(q, 1);
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(client.n, 2);
}

static void test_buffers__need_functions_that_give_and_take_them(void **state)
{
    struct queue *q = *state;

    assert_int_equal(cuptiActivityRegisterCallbacks(NULL, buffer_completed),
                     CUPTI_ERROR_INVALID_PARAMETER);
    assert_int_equal(cuptiActivityRegisterCallbacks(buffer_requested, NULL),
                     CUPTI_ERROR_INVALID_PARAMETER);
    FINE(cuptiFinalize());
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    marks(q, 2);
    assert_int_equal(dropped(), 2);
    assert_int_equal(client.given, 0);
}

static void test_reading__ends_where_the_records_end(void **state)
{
    CUpti_ActivityMemset4 two[2];
    CUpti_Activity *r = NULL;
    uint8_t *buffer = (uint8_t *)two;

    (void)state;
    memset(two, 0, sizeof(two));
    two[0].kind = two[1].kind = CUPTI_ACTIVITY_KIND_MEMSET;
    assert_int_equal(cuptiActivityGetNextRecord(NULL, 8, &r), CUPTI_ERROR_INVALID_PARAMETER);
    assert_int_equal(cuptiActivityGetNextRecord(buffer, 0, &r), CUPTI_ERROR_MAX_LIMIT_REACHED);
    assert_int_equal(cuptiActivityGetNextRecord(buffer, sizeof(two[0]) - 1, &r),
                     CUPTI_ERROR_INVALID_KIND); /* cut */
    FINE(cuptiActivityGetNextRecord(buffer, sizeof(two), &r));
    assert_ptr_equal(r, &two[0]);
    FINE(cuptiActivityGetNextRecord(buffer, sizeof(two), &r));
    assert_ptr_equal(r, &two[1]);
    assert_int_equal(cuptiActivityGetNextRecord(buffer, sizeof(two), &r),
                     CUPTI_ERROR_MAX_LIMIT_REACHED);
    r = NULL;
    two[0].kind = CUPTI_ACTIVITY_KIND_INVALID; /* a buffer of zeroes */
    assert_int_equal(cuptiActivityGetNextRecord(buffer, sizeof(two), &r), CUPTI_ERROR_INVALID_KIND);
}

static void test_attributes__are_kept(void **state)
{
    size_t size = sizeof(size_t), value = 0;
    uint8_t byte = 0;

    (void)state;
    FINE(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size, &value));
    assert_int_equal(value, 250);
    value = 12345;
    FINE(cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &value));
    value = 0;
    FINE(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &value));
    assert_int_equal(value, 12345);
    FINE(cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &byte));
    assert_int_equal(size, 1);
    assert_int_equal(
        cuptiActivityGetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &size, &value),
        CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
    assert_int_equal(
        cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, NULL, &value),
        CUPTI_ERROR_INVALID_PARAMETER);
    assert_int_equal(cuptiActivitySetAttribute((CUpti_ActivityAttribute)99, &size, &value),
                     CUPTI_ERROR_INVALID_PARAMETER);
}

/* ---- threads ------------------------------------------------------------------------------------
 */

#define THREADS 4
#define LAUNCHES 300

struct load {
    const struct queue *q;
    atomic_bool stop;
    atomic_uint failed;
    bool flush, toggle;
};

static void *launch_many(void *arg)
{
    struct load *l = arg;
    CUdeviceptr d;
    CUstream s;
    bool good = cuCtxSetCurrent(l->q->ctx) == CUDA_SUCCESS && cuMemAlloc(&d, 64) == CUDA_SUCCESS &&
                cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;

    for (uint32_t i = 0; i < LAUNCHES && good; i++) {
        good = cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, i) ==
                   CUPTI_SUCCESS &&
               cuLaunchKernel(l->q->add, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&d, &i}, NULL) ==
                   CUDA_SUCCESS &&
               cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                                     NULL) == CUPTI_SUCCESS;
        if (good && i % 50 == 49)
            good = cuStreamSynchronize(s) == CUDA_SUCCESS;
    }
    good = good && cuStreamDestroy(s) == CUDA_SUCCESS && cuMemFree(d) == CUDA_SUCCESS;
    l->failed += !good;
    return NULL;
}

/* Somebody who flushes, or enables and disables, all the while. */
static void *disturb(void *arg)
{
    struct load *l = arg;

    while (!atomic_load(&l->stop)) {
        if (l->flush)
            l->failed += cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != CUPTI_SUCCESS;
        if (l->toggle) {
            l->failed += cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
            l->failed += cuptiActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER);
            l->failed += cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER);
            l->failed += cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
        }
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return NULL;
}

static void run_load(struct load *l)
{
    pthread_t threads[THREADS], other;

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_many, l), 0);
    assert_int_equal(pthread_create(&other, NULL, disturb, l), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&l->stop, true);
    pthread_join(other, NULL);
    assert_int_equal(l->failed, 0);
    collect();
}

static void enable_all(void)
{
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    enable(CUPTI_ACTIVITY_KIND_DRIVER);
    enable(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
}

/* No two kernels of a stream at once, and each launch has one kernel and one external id. */
static void check_all(void)
{
    static uint64_t until[4096];
    static uint8_t kernels[65536], externals[65536];
    const CUpti_ActivityExternalCorrelation *e;
    const CUpti_ActivityKernel9 *k;

    memset(until, 0, sizeof(until));
    memset(kernels, 0, sizeof(kernels));
    memset(externals, 0, sizeof(externals));
    for (unsigned i = 0; i < client.n; i++) {
        e = (const void *)client.records[i];
        k = (const void *)client.records[i];
        if (e->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
            externals[e->correlationId % 65536]++;
        } else if (e->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            kernels[k->correlationId % 65536]++;
            assert_true(k->streamId < 4096 && until[k->streamId] <= k->start && k->start <= k->end);
            until[k->streamId] = k->end;
        }
    }
    for (unsigned i = 0; i < 65536; i++) {
        assert_true(kernels[i] <= 1);
        assert_int_equal(kernels[i], externals[i]);
    }
}

static void test_load__of_many_threads_loses_nothing(void **state)
{
    struct load l = {.q = *state};

    client.size = 4096;
    enable_all();
    run_load(&l);
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), THREADS * LAUNCHES);
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION), THREADS * LAUNCHES);
    assert_int_equal(dropped(), 0);
    check_all();
}

static void test_load__with_somebody_who_flushes_loses_nothing(void **state)
{
    struct load l = {.q = *state, .flush = true};

    enable_all();
    run_load(&l);
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), THREADS * LAUNCHES);
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION), THREADS * LAUNCHES);
    assert_int_equal(dropped(), 0);
}

static void test_load__with_somebody_who_disables_goes_on(void **state)
{
    struct load l = {.q = *state, .flush = true, .toggle = true};

    enable_all();
    run_load(&l);
    assert_true(count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) <= THREADS * LAUNCHES);
    client.n = 0;
    marks(*state, 3); /* enabled at the end of each round */
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 3);
}

/* ---- fork ---------------------------------------------------------------------------------------
 */

/* What was recorded is the parent's; the child records anew, and only that. */
static int child(void)
{
    unsigned before = client.n;
    int n;

    if (cuptiActivityFlushAll(0) != CUPTI_SUCCESS || client.n != before)
        return 1;
    if (cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER) != CUPTI_SUCCESS ||
        cuDeviceGetCount(&n) == CUDA_SUCCESS)
        return 2;
    if (cuptiActivityFlushAll(0) != CUPTI_SUCCESS || client.n != before + 1)
        return 3;
    return 0;
}

static void test_fork__leaves_the_records_to_the_parent(void **state)
{
    struct queue *q = *state;
    int status = -1;
    pid_t pid;

    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    marks(q, 2);
    pid = fork();
    if (pid == 0)
        _exit(child());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    FINE(cuptiActivityFlushAll(0));
    assert_int_equal(client.n, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, client_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        TEST(buffers__are_asked_for_when_the_first_record_comes),
        TEST(buffers__full_ones_are_given_back_at_once),
        TEST(buffers__hold_no_more_records_than_was_said),
        TEST(buffers__that_are_too_small_drop_and_count),
        TEST(buffers__that_are_not_given_drop_and_count),
        TEST(buffers__may_lie_anywhere),
        TEST(buffers__all_go_back_at_the_end),
        TEST(buffers__need_functions_that_give_and_take_them),
        TEST(reading__ends_where_the_records_end),
        TEST(attributes__are_kept),
        TEST(load__of_many_threads_loses_nothing),
        TEST(load__with_somebody_who_flushes_loses_nothing),
        TEST(load__with_somebody_who_disables_goes_on),
        TEST(fork__leaves_the_records_to_the_parent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
