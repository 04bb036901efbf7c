#include "queue.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define STREAMS 128

/* ---- when work runs ---------------------------------------------- */

static void test_queue__submitting_runs_nothing(void **state)
{
    const struct queue *q = *state;
    uint32_t before;
    bool prompt;

    do {
        uint64_t begin = queue_now_ms();
        queue_forget(q);
        OK(queue_mark(q, NULL, 7));
        before = queue_count(q);
        prompt = queue_was_prompt(&begin);
        OK(cuStreamSynchronize(NULL));
    } while (!prompt);
    assert_int_equal(before, 0);
    ASSERT_MARKS(q, 7);
}

static void test_queue__work_runs_after_a_silence_of_the_host(void **state)
{
    const struct queue *q = *state;
    int ms = 0;

    OK(queue_mark(q, NULL, 1));
    OK(queue_mark(q, NULL, 2));
    for (; queue_count(q) < 2 && ms < 20000; ms++) /* a host that spins makes no call */
        queue_sleep_ms(1);
    assert_int_equal(queue_count(q), 2);
    OK(cuStreamQuery(NULL));
}

static void test_queue__a_stream_keeps_its_order(void **state)
{
    const struct queue *q = *state;
    CUstream s = queue_stream(CU_STREAM_NON_BLOCKING);

    for (uint32_t i = 0; i < 50; i++)
        OK(queue_mark(q, s, i));
    OK(cuStreamSynchronize(s));
    assert_int_equal(queue_count(q), 50);
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(q->log[1 + i], i);
    OK(cuStreamDestroy(s));
}

static void test_queue__waiting_for_a_context_waits_for_all_its_streams(void **state)
{
    const struct queue *q = *state;
    CUstream s[STREAMS];

    for (uint32_t i = 0; i < STREAMS; i++) {
        s[i] = queue_stream(i % 2 ? CU_STREAM_NON_BLOCKING : 0);
        OK(queue_mark(q, s[i], i));
    }
    OK(cuCtxSynchronize());
    assert_int_equal(queue_count(q), STREAMS);
    for (uint32_t i = 0; i < STREAMS; i++) {
        assert_int_not_equal(queue_at(q, i), 0);
        OK(cuStreamDestroy(s[i]));
    }
}

/* Queries of @s until its @n marks have run; @prompt: none of them came late. */
static unsigned count_queries(const struct queue *q, CUstream s, uint32_t n, bool *prompt)
{
    uint64_t begin = queue_now_ms();
    unsigned not_ready = 0;
    CUresult r;

    *prompt = true;
    queue_forget(q);
    for (uint32_t i = 0; i < n; i++)
        OK(queue_mark(q, s, i));
    while ((r = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY && not_ready < 1000) {
        *prompt &= queue_was_prompt(&begin);
        not_ready++;
    }
    *prompt &= queue_was_prompt(&begin);
    assert_int_equal(r, CUDA_SUCCESS);
    assert_int_equal(queue_count(q), n);
    return not_ready;
}

static void test_queue__queries_make_progress(void **state)
{
    const struct queue *q = *state;
    CUstream s = queue_stream(0);
    unsigned not_ready;
    bool prompt;

    do
        not_ready = count_queries(q, s, 40, &prompt);
    while (!prompt);
    assert_in_range(not_ready, 10, 80); /* some at a time, not all */
    OK(cuStreamDestroy(s));
}

/* Kernels that wait for the host: neither asking nor silence may hold the host up. */
static void test_queue__kernels_may_wait_for_the_host(void **state)
{
    const struct queue *q = *state;
    CUdeviceptr flag = (CUdeviceptr)(uintptr_t)&q->log[LOG_MAX];

    SKIP_IF_RACES_ARE_ERRORS();
    OK(queue_wait(q, NULL, flag));
    OK(queue_mark(q, NULL, 1));
    for (int i = 0; i < 3; i++)
        FAILS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    queue_sleep_ms(300);
    assert_int_equal(queue_count(q), 0);
    __atomic_store_n(&q->log[LOG_MAX], 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(NULL));
    ASSERT_MARKS(q, 1);
}

/* Waiting for one stream returns though a kernel of another one never ends; copies go past it. */
static void test_queue__a_kernel_that_waits_does_not_hold_up_copies(void **state)
{
    const struct queue *q = *state;
    CUstream a = queue_stream(CU_STREAM_NON_BLOCKING), b = queue_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr flag;

    SKIP_IF_RACES_ARE_ERRORS();
    OK(cuMemAlloc(&flag, 4));
    for (int round = 0; round < 3; round++) {
        OK(cuMemsetD32(flag, 0, 1));
        OK(cuStreamSynchronize(NULL)); /* sets of device memory are asynchronous */
        OK(queue_wait(q, a, flag));
        OK(queue_mark(q, a, 1));
        OK(cuMemsetD32Async(flag, 1, 1, b));
        if (round == 0)
            OK(cuStreamSynchronize(b));
        else if (round == 1) /* the host is silent: both run in the background */
            for (int ms = 0; queue_count(q) < 2 && ms < 20000; ms++)
                queue_sleep_ms(1);
        OK(cuStreamSynchronize(a));
        assert_int_equal(queue_count(q), round + 1);
    }
    OK(cuMemFree(flag));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

static void test_queue__a_full_queue_executes_while_submitting(void **state)
{
    const struct queue *q = *state;
    CUdeviceptr p;
    uint32_t n = 1, sum = 0;

    OK(cuMemAlloc(&p, 4));
    OK(cuMemsetD32(p, 0, 1));
    for (unsigned i = 0; i < 10000; i++)
        OK(cuLaunchKernel(q->add, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p, &n}, NULL));
    OK(cuMemcpyDtoH(&sum, p, 4));
    assert_int_equal(sum, 10000);
    OK(cuMemFree(p));
}

/* ---- what orders streams ----------------------------------------- */

static void test_streams__the_legacy_stream_joins_blocking_streams(void **state)
{
    const struct queue *q = *state;
    CUstream a = queue_stream(0), b = queue_stream(0);

    OK(queue_mark(q, a, 1));
    OK(queue_mark(q, NULL, 2));
    OK(queue_mark(q, b, 3));
    OK(queue_mark(q, CU_STREAM_LEGACY, 4));
    OK(queue_mark(q, a, 5));
    OK(cuStreamSynchronize(a));
    ASSERT_MARKS(q, 1, 2, 3, 4, 5);
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

static void test_streams__waiting_for_the_legacy_stream_waits_for_blocking_ones(void **state)
{
    const struct queue *q = *state;
    CUstream a = queue_stream(0);

    OK(cuStreamWaitValue32(a, (CUdeviceptr)(uintptr_t)&q->log[LOG_MAX], 1,
                           CU_STREAM_WAIT_VALUE_EQ));
    OK(queue_mark(q, a, 1));
    for (int i = 0; i < 3; i++)
        FAILS(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    __atomic_store_n(&q->log[LOG_MAX], 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(NULL));
    ASSERT_MARKS(q, 1);
    OK(cuStreamDestroy(a));
}

static void test_streams__an_event_orders_two_streams(void **state)
{
    const struct queue *q = *state;
    CUstream a = queue_stream(CU_STREAM_NON_BLOCKING), b = queue_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = queue_event();

    for (uint32_t i = 0; i < 20; i++) {
        CUstream first = i % 2 ? b : a, second = i % 2 ? a : b;

        OK(queue_mark(q, first, 2 * i));
        OK(cuEventRecord(e, first));
        OK(cuStreamWaitEvent(second, e, 0));
        OK(queue_mark(q, second, 2 * i + 1));
    }
    OK(cuStreamSynchronize(a));
    OK(cuStreamSynchronize(b));
    for (uint32_t i = 0; i < 20; i++)
        assert_true(queue_at(q, 2 * i) < queue_at(q, 2 * i + 1));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

/* A wait means the record that was the latest when it was called. */
static void test_streams__a_wait_does_not_see_later_records(void **state)
{
    const struct queue *q = *state;
    CUstream a = queue_stream(CU_STREAM_NON_BLOCKING), b = queue_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = queue_event();

    OK(queue_mark(q, a, 1));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuStreamWaitValue32(a, (CUdeviceptr)(uintptr_t)&q->log[LOG_MAX], 1,
                           CU_STREAM_WAIT_VALUE_EQ));
    OK(cuEventRecord(e, a)); /* never comes before this thread writes */
    OK(queue_mark(q, b, 2));
    OK(cuStreamSynchronize(b));
    ASSERT_MARKS(q, 1, 2);
    FAILS(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    __atomic_store_n(&q->log[LOG_MAX], 1, __ATOMIC_RELEASE);
    OK(cuEventSynchronize(e));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

static void test_streams__context_events_cover_and_hold_up_all_streams(void **state)
{
    const struct queue *q = *state;
    CUstream a = queue_stream(CU_STREAM_NON_BLOCKING), b = queue_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = queue_event();

    OK(queue_mark(q, a, 1));
    OK(queue_mark(q, b, 2));
    OK(cuCtxRecordEvent(q->ctx, e));
    OK(cuEventSynchronize(e));
    assert_int_equal(queue_count(q), 2);
    OK(cuStreamWaitValue32(a, (CUdeviceptr)(uintptr_t)&q->log[LOG_MAX], 1,
                           CU_STREAM_WAIT_VALUE_EQ));
    OK(queue_mark(q, a, 3));
    OK(cuEventRecord(e, a));
    OK(cuCtxWaitEvent(q->ctx, e));
    OK(queue_mark(q, b, 4));
    FAILS(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    FAILS(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    assert_int_equal(queue_count(q), 2);
    __atomic_store_n(&q->log[LOG_MAX], 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(b));
    ASSERT_MARKS(q, queue_at(q, 1) == 1 ? 1 : 2, queue_at(q, 1) == 1 ? 2 : 1, 3, 4);
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

static void test_streams__destroying_one_completes_its_work(void **state)
{
    const struct queue *q = *state;
    CUstream s = queue_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = queue_event();

    OK(queue_mark(q, s, 1));
    OK(cuEventRecord(e, s));
    OK(queue_mark(q, s, 2));
    OK(cuStreamDestroy(s));
    FAILS(queue_mark(q, s, 3), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuStreamDestroy(s), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventSynchronize(e));
    OK(cuEventDestroy(e));
    FAILS(cuEventDestroy(e), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxSynchronize());
    ASSERT_MARKS(q, 1, 2);
}

/* ---- events ------------------------------------------------------ */

static void test_events__an_unrecorded_one_is_complete(void **state)
{
    CUevent e = queue_event(), f = queue_event();
    float ms;

    (void)state;
    OK(cuEventQuery(e));
    OK(cuEventSynchronize(e));
    OK(cuStreamWaitEvent(NULL, e, 0));
    FAILS(cuEventElapsedTime(&ms, e, f), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(e));
    OK(cuEventDestroy(f));
}

static void test_events__time_passes_between_two(void **state)
{
    const struct queue *q = *state;
    CUevent e = queue_event(), f = queue_event(), untimed;
    float ms = -1;

    OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    OK(cuEventRecord(e, NULL));
    OK(queue_mark(q, NULL, 1));
    OK(cuEventRecord(f, NULL));
    OK(cuEventRecord(untimed, NULL));
    FAILS(cuEventElapsedTime(&ms, e, f), CUDA_ERROR_NOT_READY);
    OK(cuEventSynchronize(f));
    OK(cuEventElapsedTime(&ms, e, f));
    assert_true(ms > 0 && ms < 60000);
    OK(cuEventElapsedTime(&ms, f, e));
    assert_true(ms < 0);
    FAILS(cuEventElapsedTime(NULL, e, f), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuEventElapsedTime(&ms, e, untimed), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(e));
    OK(cuEventDestroy(f));
    OK(cuEventDestroy(untimed));
}

static void test_events__misuse_is_told(void **state)
{
    CUevent e = NULL;
    CUcontext other, own;
    CUstream s;

    (void)state;
    FAILS(cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuEventCreate(&e, 1u << 20), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuEventCreate(&e, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING),
          CUDA_ERROR_NOT_SUPPORTED);
    FAILS(cuEventQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuEventRecord((CUevent)(uintptr_t)0x1234, NULL), CUDA_ERROR_INVALID_HANDLE);
    e = queue_event();
    FAILS(cuEventRecordWithFlags(e, NULL, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuEventRecordWithFlags(e, NULL, 64), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamWaitEvent(NULL, e, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamWaitEvent(NULL, NULL, 0), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxGetCurrent(&own));
    OK(cuCtxCreate(&other, NULL, 0, 0));
    s = queue_stream(0);
    FAILS(cuEventRecord(e, s), CUDA_ERROR_INVALID_HANDLE); /* another context's */
    OK(cuStreamWaitEvent(s, e, 0));
    OK(cuCtxDestroy(other));
    FAILS(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(e));
}

static void test_events__destroying_a_pending_one_is_legal(void **state)
{
    const struct queue *q = *state;
    CUstream a = queue_stream(CU_STREAM_NON_BLOCKING), b = queue_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = queue_event();

    OK(queue_mark(q, a, 1));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuEventDestroy(e));
    OK(queue_mark(q, b, 2));
    OK(cuStreamSynchronize(b));
    ASSERT_MARKS(q, 1, 2);
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

/* ---- streams as objects ------------------------------------------ */

static void test_streams__tell_what_they_are(void **state)
{
    const struct queue *q = *state;
    unsigned long long id[3];
    unsigned flags;
    CUstream s;
    CUcontext ctx;
    CUdevice dev = -1;
    int p, least, greatest;

    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -1000));
    OK(cuStreamGetPriority(s, &p));
    assert_int_equal(p, greatest);
    OK(cuStreamGetFlags(s, &flags));
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetId(s, &id[0]));
    OK(cuStreamGetId(NULL, &id[1]));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &id[2]));
    assert_true(id[0] != id[1] && id[1] != id[2] && id[0] != id[2]);
    OK(cuStreamGetCtx(s, &ctx));
    assert_ptr_equal(ctx, q->ctx);
    OK(cuStreamGetDevice(s, &dev));
    assert_int_equal(dev, 0);
    OK(cuStreamGetPriority(NULL, &p));
    assert_int_equal(p, least);
    FAILS(cuStreamGetFlags(s, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamGetFlags((CUstream)(uintptr_t)64, &flags), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuStreamCreate(&s, 2), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamDestroy(s));
    FAILS(cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuStreamDestroy(CU_STREAM_PER_THREAD), CUDA_ERROR_INVALID_HANDLE);
}

static void test_streams__attributes_are_set_and_copied(void **state)
{
    CUstream a = queue_stream(0), b = queue_stream(0);
    CUstreamAttrValue v;

    (void)state;
    memset(&v, 0, sizeof(v));
    OK(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
    assert_int_equal(v.syncPolicy, CU_SYNC_POLICY_AUTO);
    v.syncPolicy = CU_SYNC_POLICY_YIELD;
    OK(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
    v.priority = -3;
    OK(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    OK(cuStreamCopyAttributes(b, a));
    OK(cuStreamGetAttribute(b, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
    assert_int_equal(v.syncPolicy, CU_SYNC_POLICY_YIELD);
    OK(cuStreamGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    assert_int_equal(v.priority, -3);
    v.syncPolicy = 99;
    FAILS(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

/* ---- host functions ---------------------------------------------- */

struct host_call {
    const struct queue *q;
    uint32_t id;
    CUresult inside, status;
    CUstream stream;
    unsigned calls;
};

static void note(void *arg)
{
    struct host_call *h = arg;
    CUevent e;

    h->q->log[++h->q->log[0]] = h->id;
    h->inside = cuEventCreate(&e, 0);
    h->calls++;
}

static void CUDA_CB note_status(CUstream s, CUresult status, void *arg)
{
    struct host_call *h = arg;

    h->stream = s;
    h->status = status;
    note(arg);
}

static void test_host_functions__keep_the_streams_order(void **state)
{
    const struct queue *q = *state;
    CUstream s = queue_stream(0);
    struct host_call h = {.q = q, .id = 2}, k = {.q = q, .id = 4};

    OK(queue_mark(q, s, 1));
    OK(cuLaunchHostFunc(s, note, &h));
    OK(queue_mark(q, s, 3));
    OK(cuStreamAddCallback(s, note_status, &k, 0));
    OK(queue_mark(q, s, 5));
    OK(cuStreamSynchronize(s));
    ASSERT_MARKS(q, 1, 2, 3, 4, 5);
    assert_int_equal(h.calls + k.calls, 2);
    assert_int_equal(h.inside, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(k.inside, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(k.status, CUDA_SUCCESS);
    assert_ptr_equal(k.stream, s);
    FAILS(cuLaunchHostFunc(s, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamAddCallback(s, note_status, &k, 1), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamAddCallback(s, NULL, &k, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamDestroy(s));
}

static void wait_for_flag(void *arg)
{
    atomic_flag_test_and_set((atomic_flag *)arg);
    for (int ms = 0; atomic_flag_test_and_set((atomic_flag *)arg) && ms < 20000; ms++)
        queue_sleep_ms(1);
}

/* A host function waits for what this thread does after it has waited for another stream. */
static void test_host_functions__do_not_hold_up_other_streams(void **state)
{
    const struct queue *q = *state;
    CUstream a = queue_stream(CU_STREAM_NON_BLOCKING), b = queue_stream(CU_STREAM_NON_BLOCKING);
    atomic_flag held = ATOMIC_FLAG_INIT;

    OK(cuLaunchHostFunc(a, wait_for_flag, &held));
    OK(queue_mark(q, a, 2));
    for (uint32_t i = 0; i < 10; i++)
        OK(queue_mark(q, b, 1));
    OK(cuStreamSynchronize(b));
    assert_int_equal(queue_count(q), 10);
    while (cuStreamQuery(a) == CUDA_ERROR_NOT_READY)
        atomic_flag_clear(&held);
    assert_int_equal(queue_at(q, 2), 11);
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

/* ---- memory operations ------------------------------------------- */

static void *write_later(void *p)
{
    queue_sleep_ms(30);
    __atomic_store_n((uint32_t *)p, 5, __ATOMIC_RELEASE);
    return NULL;
}

static void test_memory_operations__hold_a_stream_until_the_value_is_there(void **state)
{
    const struct queue *q = *state;
    uint32_t *flag = &q->log[LOG_MAX];
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)flag;
    pthread_t t;

    OK(cuStreamWaitValue32(NULL, at, 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(queue_mark(q, NULL, 1));
    OK(cuStreamWriteValue32(NULL, at, 9, 0));
    FAILS(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    assert_int_equal(queue_count(q), 0);
    assert_int_equal(pthread_create(&t, NULL, write_later, flag), 0);
    OK(cuStreamSynchronize(NULL));
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(queue_count(q), 1);
    assert_int_equal(*flag, 9);
}

static void test_memory_operations__every_condition(void **state)
{
    const struct {
        unsigned flags;
        uint64_t have, want;
        bool wide, holds;
    } cases[] = {
        {CU_STREAM_WAIT_VALUE_EQ, 3, 3, false, true},
        {CU_STREAM_WAIT_VALUE_EQ, 3, 4, false, false},
        {CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0, 0xffffffef, false, true},
        {CU_STREAM_WAIT_VALUE_GEQ, 3, 0xfffffff0, false, true}, /* cyclic */
        {CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0, 3, false, false},
        {CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0, 3, true, true},
        {CU_STREAM_WAIT_VALUE_AND, 6, 2, false, true},
        {CU_STREAM_WAIT_VALUE_AND, 4, 2, false, false},
        {CU_STREAM_WAIT_VALUE_AND, UINT64_C(1) << 40, UINT64_C(3) << 39, true, true},
        {CU_STREAM_WAIT_VALUE_NOR, 0xffff0000, 0xffff, false, false},
        {CU_STREAM_WAIT_VALUE_NOR, 0xffff0000, 0xfffe, false, true},
    };
    const struct queue *q = *state;
    uint64_t *word = (uint64_t *)(void *)&q->log[LOG_MAX - 1];
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)word;

    assert_int_equal(at % 8, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CUstream s = queue_stream(CU_STREAM_NON_BLOCKING);

        __atomic_store_n(word, cases[i].have, __ATOMIC_RELEASE);
        if (cases[i].wide)
            OK(cuStreamWaitValue64(s, at, cases[i].want, cases[i].flags));
        else
            OK(cuStreamWaitValue32(s, at, (cuuint32_t)cases[i].want, cases[i].flags));
        for (int k = 0; k < 20 && cuStreamQuery(s) == CUDA_ERROR_NOT_READY; k++)
            ;
        assert_int_equal(cuStreamQuery(s), cases[i].holds ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
        /* let the rest go: this word satisfies all that failed above */
        __atomic_store_n(word, cases[i].wide ? cases[i].want : (uint32_t)cases[i].want,
                         __ATOMIC_RELEASE);
        if (cases[i].flags == CU_STREAM_WAIT_VALUE_NOR)
            __atomic_store_n(word, 0, __ATOMIC_RELEASE);
        OK(cuStreamSynchronize(s));
        OK(cuStreamDestroy(s));
    }
}

static void test_memory_operations__batches_are_checked_and_run_in_order(void **state)
{
    const struct queue *q = *state;
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)&q->log[LOG_MAX];
    CUstreamBatchMemOpParams ops[3];

    memset(ops, 0, sizeof(ops));
    ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = at;
    ops[0].writeValue.value = 4;
    ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[1].waitValue.address = at;
    ops[1].waitValue.value = 4;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[2].writeValue.address = at;
    ops[2].writeValue.value = 5;
    OK(cuStreamBatchMemOp(NULL, 3, ops, 0));
    OK(cuStreamSynchronize(NULL));
    assert_int_equal(q->log[LOG_MAX], 5);
    FAILS(cuStreamBatchMemOp(NULL, 3, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamBatchMemOp(NULL, 256, ops, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamBatchMemOp(NULL, 3, ops, 1), CUDA_ERROR_INVALID_VALUE);
    ops[1].waitValue.address = at + 1;
    FAILS(cuStreamBatchMemOp(NULL, 3, ops, 0), CUDA_ERROR_INVALID_VALUE);
    ops[1].waitValue.address = 4096;
    FAILS(cuStreamBatchMemOp(NULL, 3, ops, 0), CUDA_ERROR_INVALID_VALUE);
    ops[1].operation = 77;
    FAILS(cuStreamBatchMemOp(NULL, 3, ops, 0), CUDA_ERROR_INVALID_VALUE);
    ops[1].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
    FAILS(cuStreamBatchMemOp(NULL, 3, ops, 0), CUDA_ERROR_NOT_SUPPORTED);
}

/* ---- errors ------------------------------------------------------ */

static void test_errors__a_fault_ends_the_context_and_its_work(void **state)
{
    const struct queue *q = *state;
    CUstream a = queue_stream(CU_STREAM_NON_BLOCKING), b = queue_stream(CU_STREAM_NON_BLOCKING);
    struct host_call h = {.q = q, .id = 2}, k = {.q = q, .id = 3};
    CUevent e = queue_event();

    OK(queue_trap(q, a));
    OK(queue_mark(q, a, 1));
    OK(cuLaunchHostFunc(a, note, &h));
    OK(cuStreamAddCallback(a, note_status, &k, 0));
    OK(cuEventRecord(e, a));
    FAILS(cuStreamSynchronize(a), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(cuStreamQuery(b), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(cuEventQuery(e), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(cuEventSynchronize(e), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(queue_mark(q, b, 1), CUDA_ERROR_LAUNCH_FAILED);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(h.calls, 0); /* only callbacks are told */
    assert_int_equal(k.calls, 1);
    assert_int_equal(k.status, CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(queue_at(q, 1), 0);
}

static void test_errors__a_new_context_works_again(void **state)
{
    struct queue *q = *state;

    OK(queue_trap(q, NULL));
    FAILS(cuStreamSynchronize(NULL), CUDA_ERROR_LAUNCH_FAILED);
    queue_close();
    queue_open(q);
    OK(queue_mark(q, NULL, 1));
    OK(cuStreamSynchronize(NULL));
    ASSERT_MARKS(q, 1);
}

/* ---- threads and processes --------------------------------------- */

#define THREADS 4
#define ROUNDS 50

struct worker {
    const struct queue *q;
    CUdeviceptr p;
    CUevent shared;
    uint32_t sum;
    bool per_thread;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    CUstream s = CU_STREAM_PER_THREAD;
    uint32_t n = 1;

    OK(cuCtxSetCurrent(w->q->ctx));
    if (!w->per_thread)
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD32Async(w->p, 0, 1, s));
    for (int i = 0; i < ROUNDS; i++) {
        OK(cuLaunchKernel(w->q->add, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&w->p, &n}, NULL));
        OK(cuStreamWaitEvent(s, w->shared, 0));
        OK(cuEventRecord(w->shared, s));
        if (i % 10 == 9)
            OK(cuStreamSynchronize(s));
        else
            cuStreamQuery(s);
    }
    OK(cuMemcpyDtoHAsync(&w->sum, w->p, 4, s));
    OK(cuStreamSynchronize(s));
    if (!w->per_thread)
        OK(cuStreamDestroy(s));
    return NULL;
}

static void test_threads__submit_and_wait_at_once(void **state)
{
    const struct queue *q = *state;
    struct worker w[THREADS];
    pthread_t t[THREADS];
    CUevent shared = queue_event();

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < THREADS; i++) {
            w[i] = (struct worker){.q = q, .shared = shared, .per_thread = round == 1};
            OK(cuMemAlloc(&w[i].p, 4));
            assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(t[i], NULL), 0);
            assert_int_equal(w[i].sum, ROUNDS);
            OK(cuMemFree(w[i].p));
        }
    }
    OK(cuEventDestroy(shared));
}

static void test_processes__a_forked_child_has_no_device(void **state)
{
    const struct queue *q = *state;
    int status = -1;
    pid_t pid;

    OK(queue_mark(q, NULL, 1));
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(cuStreamSynchronize(NULL) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    OK(cuStreamSynchronize(NULL));
    ASSERT_MARKS(q, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, queue_setup, queue_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_queue__submitting_runs_nothing),
        TEST(test_queue__work_runs_after_a_silence_of_the_host),
        TEST(test_queue__a_stream_keeps_its_order),
        TEST(test_queue__waiting_for_a_context_waits_for_all_its_streams),
        TEST(test_queue__queries_make_progress),
        TEST(test_queue__kernels_may_wait_for_the_host),
        TEST(test_queue__a_kernel_that_waits_does_not_hold_up_copies),
        TEST(test_queue__a_full_queue_executes_while_submitting),
        TEST(test_streams__the_legacy_stream_joins_blocking_streams),
        TEST(test_streams__waiting_for_the_legacy_stream_waits_for_blocking_ones),
        TEST(test_streams__an_event_orders_two_streams),
        TEST(test_streams__a_wait_does_not_see_later_records),
        TEST(test_streams__context_events_cover_and_hold_up_all_streams),
        TEST(test_streams__destroying_one_completes_its_work),
        TEST(test_events__an_unrecorded_one_is_complete),
        TEST(test_events__time_passes_between_two),
        TEST(test_events__misuse_is_told),
        TEST(test_events__destroying_a_pending_one_is_legal),
        TEST(test_streams__tell_what_they_are),
        TEST(test_streams__attributes_are_set_and_copied),
        TEST(test_host_functions__keep_the_streams_order),
        TEST(test_host_functions__do_not_hold_up_other_streams),
        TEST(test_memory_operations__hold_a_stream_until_the_value_is_there),
        TEST(test_memory_operations__every_condition),
        TEST(test_memory_operations__batches_are_checked_and_run_in_order),
        TEST(test_errors__a_fault_ends_the_context_and_its_work),
        TEST(test_errors__a_new_context_works_again),
        TEST(test_threads__submit_and_wait_at_once),
        TEST(test_processes__a_forked_child_has_no_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
