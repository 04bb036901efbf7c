/* What the tests of the activity API share: a client that gives buffers of a chosen size and keeps
 * a copy of every record it gets back. */
#ifndef TEST_SOFTGPU_ACTIVITY_H
#define TEST_SOFTGPU_ACTIVITY_H

#include "tests/softgpu/driver/queue.h"

#include <cupti.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORDS_MAX 20000
#define RECORD_BYTES 256

#define FINE(call) assert_int_equal(call, CUPTI_SUCCESS)

/* Under its lock: buffers come and go on any thread. */
struct client {
    pthread_mutex_t lock;
    size_t size, most; /* of the next buffer; size 0: none is given */
    unsigned shift;    /* bytes that buffers lie off an aligned address */
    unsigned given, back, empty;
    unsigned n;
    _Alignas(8) uint8_t records[RECORDS_MAX][RECORD_BYTES];
};
static struct client client = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size, size_t *most)
{
    pthread_mutex_lock(&client.lock);
    *buffer = NULL;
    *size = client.size;
    *most = client.most;
    if (client.size) {
        *buffer = (uint8_t *)aligned_alloc(64, (client.size + 64 + 63) / 64 * 64) + client.shift;
        client.given++;
    }
    pthread_mutex_unlock(&client.lock);
}

static size_t size_of_kind(CUpti_ActivityKind kind)
{
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return sizeof(CUpti_ActivityKernel9);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
        return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
        return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
        return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
        return sizeof(CUpti_ActivityCudaEvent2);
    case CUPTI_ACTIVITY_KIND_CONTEXT:
        return sizeof(CUpti_ActivityContext2);
    case CUPTI_ACTIVITY_KIND_STREAM:
        return sizeof(CUpti_ActivityStream);
    case CUPTI_ACTIVITY_KIND_DEVICE:
        return sizeof(CUpti_ActivityDevice4);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
        return sizeof(CUpti_ActivityGraphTrace2);
    default:
        return sizeof(CUpti_Activity);
    }
}

static void keep(uint8_t *buffer, size_t valid)
{
    CUpti_Activity *r = NULL;
    CUptiResult rc;

    while ((rc = cuptiActivityGetNextRecord(buffer, valid, &r)) == CUPTI_SUCCESS)
        if (client.n < RECORDS_MAX)
            memcpy(client.records[client.n++], r, size_of_kind(r->kind));
    assert_int_equal(rc, CUPTI_ERROR_MAX_LIMIT_REACHED);
}

static void CUPTIAPI buffer_completed(CUcontext ctx, uint32_t stream, uint8_t *buffer, size_t size,
                                      size_t valid)
{
    assert_null(ctx);
    assert_int_equal(stream, 0);
    assert_true(valid <= size);
    pthread_mutex_lock(&client.lock);
    keep(buffer, valid);
    client.back++;
    client.empty += valid == 0;
    pthread_mutex_unlock(&client.lock);
    free(buffer - client.shift);
}

/* The @nth record of a kind, NULL: there are not so many. */
static const void *record(CUpti_ActivityKind kind, unsigned nth)
{
    for (unsigned i = 0; i < client.n; i++)
        if (((CUpti_Activity *)client.records[i])->kind == kind && nth-- == 0)
            return client.records[i];
    return NULL;
}

static unsigned count(CUpti_ActivityKind kind)
{
    unsigned n = 0;

    while (record(kind, n))
        n++;
    return n;
}

/* The one record of a kind. */
static inline const void *only(CUpti_ActivityKind kind)
{
    assert_int_equal(count(kind), 1);
    return record(kind, 0);
}

/* The record of a call by its number, NULL: there is none. */
static inline const CUpti_ActivityAPI *call_record(CUpti_ActivityKind kind, uint32_t cbid)
{
    const CUpti_ActivityAPI *r;

    for (unsigned i = 0; (r = record(kind, i)); i++)
        if (r->cbid == cbid)
            return r;
    return NULL;
}

static inline void collect(void)
{
    OK(cuCtxSynchronize());
    FINE(cuptiActivityFlushAll(0));
}

static inline void enable(CUpti_ActivityKind kind)
{
    FINE(cuptiActivityEnable(kind));
}

static inline void client_reset(size_t size)
{
    client.size = size;
    client.most = 0;
    client.shift = 0;
    client.given = client.back = client.empty = client.n = 0;
}

static inline int client_setup(void **state)
{
    setenv("SOFTGPU_DEVICES", "2", 1);
    queue_setup(state);
    client_reset(65536);
    FINE(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed));
    return 0;
}

static inline int client_teardown(void **state)
{
    FINE(cuptiFinalize());
    assert_int_equal(client.given, client.back);
    return queue_teardown(state);
}

#endif
