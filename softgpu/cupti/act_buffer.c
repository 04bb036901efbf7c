/*
 * Buffers of the client. One is filled at a time. The thread whose record finds it full completes
 * it and asks for another one, without the lock; so two threads may ask at once, and the second
 * buffer is kept for later. FlushAll completes what has records in it and waits for completions of
 * other threads.
 */
#include "softgpu/cupti/act.h"

#include "softgpu/cupti/api_gen.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define ALIGN 8u /* of records: PACKED_ALIGNMENT of the header */
#define SPARES 8

struct buffer {
    uint8_t *base; /* NULL: none */
    size_t size, used;
    size_t records, most; /* most 0: no limit */
};

/* Under its lock, the clock excepted; who writes: whoever records, flushes or registers. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t completed;
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    struct buffer now, spares[SPARES];
    unsigned nspares;
    unsigned completing; /* buffers that are on their way back to the client */
    size_t dropped;
    _Atomic(CUpti_TimestampCallbackFunc) clock;
    atomic_uint_least64_t latest;
} act = {.lock = PTHREAD_MUTEX_INITIALIZER, .completed = PTHREAD_COND_INITIALIZER};

static _Thread_local unsigned in_client;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

bool sg_act_in_client(void)
{
    return in_client != 0;
}

uint64_t sg_cupti_now(void)
{
    CUpti_TimestampCallbackFunc clock = atomic_load_explicit(&act.clock, memory_order_acquire);
    uint64_t now, latest = atomic_load(&act.latest);
    struct timespec t;

    if (clock)
        return clock();
    clock_gettime(CLOCK_REALTIME, &t); /* which may be set back */
    now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    while (now > latest && !atomic_compare_exchange_weak(&act.latest, &latest, now))
        ;
    return now > latest ? now : latest;
}

/* ---- the client's functions, without the lock ---------------------------------------------------
 */

static uint8_t *first_record(uint8_t *base)
{
    return (uint8_t *)(((uintptr_t)base + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
}

static struct buffer request(CUpti_BuffersCallbackRequestFunc fn)
{
    struct buffer b = {0};

    in_client++;
    fn(&b.base, &b.size, &b.most);
    in_client--;
    if (b.base)
        b.used = (size_t)(first_record(b.base) - b.base);
    return b;
}

/* @b was counted in act.completing. */
static void complete(CUpti_BuffersCallbackCompleteFunc fn, const struct buffer *b)
{
    in_client++;
    fn(NULL, 0, b->base, b->size, b->records ? b->used : 0);
    in_client--;
    pthread_mutex_lock(&act.lock);
    act.completing--;
    pthread_cond_broadcast(&act.completed);
    pthread_mutex_unlock(&act.lock);
}

/* ---- recording ----------------------------------------------------------------------------------
 */

static bool append(struct buffer *b, const void *record, size_t bytes)
{
    if (!b->base || b->size < b->used || bytes > b->size - b->used ||
        (b->most && b->records == b->most))
        return false;
    memcpy(b->base + b->used, record, bytes);
    b->used += bytes;
    b->records++;
    return true;
}

/* Make the next spare one the current buffer; false: there was none. */
static bool next_buffer(void)
{
    act.now = (struct buffer){0};
    if (!act.nspares)
        return false;
    act.now = act.spares[--act.nspares];
    return true;
}

/* A buffer of the client's has come; @back: there is no place for it. */
static void adopt(const struct buffer *b, struct buffer *back)
{
    if (!b->base)
        return;
    if (!act.now.base) {
        act.now = *b;
    } else if (act.nspares < SPARES) {
        act.spares[act.nspares++] = *b;
    } else {
        *back = *b;
        act.completing++;
    }
}

void sg_act_put(const void *record, size_t bytes)
{
    bool asked = false;

    if (in_client) /* what it calls itself is not recorded */
        return;
    pthread_mutex_lock(&act.lock);
    while (!append(&act.now, record, bytes)) {
        struct buffer full = act.now, fresh = {0}, back = {0};
        CUpti_BuffersCallbackRequestFunc ask = act.request;
        CUpti_BuffersCallbackCompleteFunc done = act.complete;
        bool have = next_buffer();

        if (!full.base && !have && (asked || !ask)) {
            act.dropped++;
            break;
        }
        act.completing += full.base != NULL;
        pthread_mutex_unlock(&act.lock);
        if (full.base)
            complete(done, &full);
        if (!have && !asked && ask) {
            fresh = request(ask);
            asked = true;
        }
        pthread_mutex_lock(&act.lock);
        adopt(&fresh, &back);
        if (back.base) {
            pthread_mutex_unlock(&act.lock);
            complete(done, &back);
            pthread_mutex_lock(&act.lock);
        }
    }
    pthread_mutex_unlock(&act.lock);
}

/* ---- giving back --------------------------------------------------------------------------------
 */

/* Take buffers out, into @list; @all: empty ones too. With the lock. */
static unsigned take(struct buffer *list, bool all)
{
    unsigned n = 0, kept = 0;

    if (act.now.base && (all || act.now.records)) {
        list[n++] = act.now;
        act.now = (struct buffer){0};
    }
    for (unsigned i = 0; i < act.nspares; i++) {
        if (all || act.spares[i].records)
            list[n++] = act.spares[i];
        else
            act.spares[kept++] = act.spares[i];
    }
    act.nspares = kept;
    act.completing += n;
    return n;
}

static CUptiResult flush(bool all)
{
    struct buffer list[1 + SPARES];
    CUpti_BuffersCallbackCompleteFunc done;
    unsigned n;

    pthread_mutex_lock(&act.lock);
    done = act.complete;
    n = done ? take(list, all) : 0;
    pthread_mutex_unlock(&act.lock);
    if (!done)
        return CUPTI_ERROR_INVALID_OPERATION;
    for (unsigned i = 0; i < n; i++)
        complete(done, &list[i]);
    pthread_mutex_lock(&act.lock);
    while (act.completing && !in_client) /* by other threads */
        pthread_cond_wait(&act.completed, &act.lock);
    pthread_mutex_unlock(&act.lock);
    return CUPTI_SUCCESS;
}

/* Records enter a buffer when they are complete, so a forced flush finds the same as any other. */
CUptiResult sg_cuptiActivityFlushAll(uint32_t flag)
{
    return flag & ~(uint32_t)CUPTI_ACTIVITY_FLAG_FLUSH_FORCED ? CUPTI_ERROR_INVALID_PARAMETER
                                                              : flush(false);
}

CUptiResult sg_cuptiActivityFlush(CUcontext context, uint32_t stream, uint32_t flag)
{
    (void)context;
    (void)stream;
    return sg_cuptiActivityFlushAll(flag);
}

/* What a periodic flush may return are full buffers, and those are returned as they fill. */
CUptiResult sg_cuptiActivityFlushPeriod(uint32_t ms)
{
    (void)ms;
    return CUPTI_SUCCESS;
}

/* ---- fork ---------------------------------------------------------------------------------------
 */

static void fork_prepare(void)
{
    pthread_mutex_lock(&act.lock);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&act.lock);
}

/* What was recorded is the parent's, and a child has no device. */
static void fork_child(void)
{
    act.now = (struct buffer){0};
    act.nspares = act.completing = 0;
    act.dropped = 0;
    in_client = 0;
    pthread_cond_init(&act.completed, NULL);
    pthread_mutex_unlock(&act.lock);
    sg_act_kinds_forked();
    sg_act_names_forked();
}

static void fork_init(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- the API ------------------------------------------------------------------------------------
 */

CUptiResult sg_cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                              CUpti_BuffersCallbackCompleteFunc completed)
{
    if (!requested || !completed)
        return CUPTI_ERROR_INVALID_PARAMETER;
    pthread_once(&fork_once, fork_init);
    pthread_mutex_lock(&act.lock);
    act.request = requested;
    act.complete = completed;
    pthread_mutex_unlock(&act.lock);
    return CUPTI_SUCCESS;
}

/* All buffers belong to no context. */
CUptiResult sg_cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
                                                 size_t *dropped)
{
    (void)stream;
    if (!dropped)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *dropped = 0;
    if (context)
        return CUPTI_SUCCESS;
    pthread_mutex_lock(&act.lock);
    *dropped = act.dropped;
    act.dropped = 0;
    pthread_mutex_unlock(&act.lock);
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
    uint8_t *at;
    size_t left, size;

    if (!buffer || !record)
        return CUPTI_ERROR_INVALID_PARAMETER;
    at = first_record(buffer);
    if (*record) {
        at = (uint8_t *)*record;
        size = sg_act_record_size((*record)->kind);
        if (at < buffer || at >= buffer + valid || !size)
            return CUPTI_ERROR_INVALID_KIND;
        at += size;
    }
    if (at >= buffer + valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    left = (size_t)(buffer + valid - at);
    size = left < ALIGN ? 0 : sg_act_record_size(((CUpti_Activity *)at)->kind);
    if (!size || size > left)
        return CUPTI_ERROR_INVALID_KIND;
    *record = (CUpti_Activity *)at;
    return CUPTI_SUCCESS;
}

CUptiResult sg_cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock)
{
    if (!clock)
        return CUPTI_ERROR_INVALID_PARAMETER;
    atomic_store_explicit(&act.clock, clock, memory_order_release);
    return CUPTI_SUCCESS;
}

/* All buffers go back, nothing is enabled. */
void sg_cupti_activity_finalize(void)
{
    sg_act_kinds_clear();
    sg_act_options_clear();
    flush(true);
    pthread_mutex_lock(&act.lock);
    act.request = NULL;
    act.complete = NULL;
    act.dropped = 0;
    pthread_mutex_unlock(&act.lock);
    atomic_store(&act.clock, NULL);
}
