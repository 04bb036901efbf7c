/* Streams and CUDA events: which work is before which, by vector clocks over streams. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/cuda/engine.h"

#define PER_THREAD (1ull << 63)

static void own(struct tb_cu_stream *s, int device)
{
    bool said = device >= 0 && device < (int)TB_ORDER_DEVICE_MASK;

    s->device = device;
    s->bits = (s->legacy     ? TB_ORDER_LEGACY
               : s->blocking ? 0
                             : TB_ORDER_FREE) |
              (said ? (uint64_t)device + 1 : 0) << TB_ORDER_DEVICE;
}

/* Returns: has @into grown? */
static bool raise(uint64_t *into, const uint64_t *from)
{
    bool grown = false;

    for (uint32_t i = 0; i < tb_cu.stream_indices && i < TB_CU_STREAMS; i++)
        if (from[i] > into[i]) {
            into[i] = from[i];
            grown = true;
        }
    return grown;
}

static void join(struct tb_cu_clocks *into, const struct tb_cu_clocks *from)
{
    (void)raise(into->at, from->at);
    (void)raise(into->said, from->said);
}

/* ---------------------------------------------------------------- devices */

void tb_cu_saw_device(int device)
{
    if (__atomic_load_n(&tb_cu.first_device, __ATOMIC_RELAXED) == (uint32_t)device + 1)
        return;
    tb_cu_lock();
    if (!tb_cu.first_device) {
        __atomic_store_n(&tb_cu.first_device, (uint32_t)device + 1, __ATOMIC_RELAXED);
        own(&tb_cu.legacy, device);
    } else {
        __atomic_store_n(&tb_cu.devices, true, __ATOMIC_RELAXED);
        tb_cu.one_legacy = false;
    }
    tb_cu_unlock();
}

static bool one_device(const struct tb_cu_stream *a, int device)
{
    return a->device < 0 || device < 0 || a->device == device;
}

/* ---------------------------------------------------------------- which stream */

/* A thread's default stream has no handle of its own: thread and device, of further ones, are in
 * the key. */
static uint64_t key_of(CUstream handle, bool per_thread)
{
    int device = tb_cu_device_now();
    uint64_t further =
        device >= 0 && (uint32_t)device + 1 != tb_cu.first_device ? (uint64_t)device + 1 : 0;

    if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread))
        return PER_THREAD | further << 32 | (uint64_t)(uint32_t)syscall(SYS_gettid);
    return handle == CU_STREAM_LEGACY ? 0 : (uint64_t)(uintptr_t)handle;
}

static void begin(struct tb_cu_stream *s, uint64_t key, bool blocking)
{
    *s = (struct tb_cu_stream){.handle = key, .legacy = !key, .blocking = blocking};
    s->ordinal = s == &tb_cu.legacy ? 0 : ++tb_cu.stream_ordinals;
    s->index = tb_cu.stream_indices < TB_CU_STREAMS ? tb_cu.stream_indices++ : TB_CU_STREAMS - 1;
    own(s, -1);
}

/* The legacy stream of the first device is always the first. */
static void begin_first(void)
{
    if (tb_cu.stream_indices)
        return;
    begin(&tb_cu.legacy, 0, true);
    own(&tb_cu.legacy, (int)tb_cu.first_device - 1);
    tb_cu.one_legacy = !tb_cu.devices;
}

static struct tb_cu_stream *legacy_of(int device)
{
    struct tb_cu_stream *s = &tb_cu.legacy, *new;

    for (;; s = s->next) {
        if (one_device(s, device))
            return s;
        if (!s->next)
            break;
    }
    if (!(new = tb_cu_small(sizeof(*new))))
        return &tb_cu.legacy;
    begin(new, 0, true);
    own(new, device);
    s->next = new;
    return new;
}

static struct tb_cu_stream *by_key(uint64_t key, bool blocking)
{
    struct tb_cu_stream *s;

    begin_first();
    if (!key)
        return legacy_of(tb_cu_device_now());
    s = tb_cu_map_get(&tb_cu.streams, key);
    if (s || !(s = tb_cu_small(sizeof(*s))))
        return s ? s : &tb_cu.legacy;
    begin(s, key, blocking);
    if (key & PER_THREAD)
        own(s, tb_cu_device_now());
    tb_cu.blocking_streams += blocking;
    (void)tb_cu_map_put(&tb_cu.streams, key, s);
    return s;
}

struct tb_cu_stream *tb_cu_stream_find(CUstream handle, bool per_thread)
{
    return by_key(key_of(handle, per_thread), true);
}

void tb_cu_stream_owner(CUstream handle)
{
    struct tb_cu_stream *s = tb_cu_map_get(&tb_cu.streams, (uint64_t)(uintptr_t)handle);

    if (!s)
        return;
    own(s, tb_cu_tls.device);
    s->context = tb_cu_tls.context;
}

void tb_cu_stream_gone(CUstream handle)
{
    struct tb_cu_stream *s = tb_cu_map_take(&tb_cu.streams, (uint64_t)(uintptr_t)handle);

    if (!s)
        return;
    tb_cu.blocking_streams -= s->blocking;
    join(&tb_cu.gone, &s->known);
}

void tb_cu_stream_new(CUstream handle, bool blocking)
{
    uint64_t key = (uint64_t)(uintptr_t)handle;

    tb_cu_stream_gone(handle);
    (void)by_key(key, blocking);
}

/* ---------------------------------------------------------------- clocks */

static void join_legacy(struct tb_cu_stream *s)
{
    for (const struct tb_cu_stream *l = &tb_cu.legacy; l; l = l->next)
        if (l->known.at[l->index] && one_device(l, s->device))
            join(&s->known, &l->known);
}

/* A device's legacy stream waits for all its blocking ones, and they wait for it. */
static void join_blocking(struct tb_cu_stream *s)
{
    for (uint32_t i = 0; tb_cu.blocking_streams && i < tb_cu.streams.capacity; i++) {
        const struct tb_cu_slot *slot = &tb_cu.streams.slot[i];
        struct tb_cu_stream *other = slot->key ? tb_cu_map_get(&tb_cu.streams, slot->key) : NULL;
        if (other && other->blocking && one_device(other, s->device))
            join(&s->known, &other->known);
    }
}

uint64_t tb_cu_stream_join(struct tb_cu_stream *s)
{
    if (tb_unlikely(s->host_waits != tb_cu.host_waits))
        (void)raise(s->known.at, tb_cu.host.at);
    s->host_waits = tb_cu.host_waits;
    if (tb_unlikely(s->said_waits != tb_cu.said_waits) && tb_cu_is_main_thread()) {
        (void)raise(s->known.said, tb_cu.host.said);
        s->said_waits = tb_cu.said_waits;
    }
    if (s->legacy)
        join_blocking(s);
    else if (s->blocking)
        join_legacy(s);
    return s->known.said[s->index] = ++s->known.at[s->index];
}

struct tb_cu_event *tb_cu_event(CUevent handle)
{
    uint64_t key = (uint64_t)(uintptr_t)handle;
    struct tb_cu_event *e = tb_cu_map_get(&tb_cu.events, key);

    if (e || !(e = tb_cu_small(sizeof(*e))))
        return e;
    e->handle = key;
    e->ordinal = ++tb_cu.event_ordinals;
    (void)tb_cu_map_put(&tb_cu.events, key, e);
    return e;
}

void tb_cu_event_record(struct tb_cu_event *e, struct tb_cu_stream *s)
{
    (void)tb_cu_stream_tick(s);
    e->at = s->known;
    e->stream = s->index;
    e->recorded = true;
}

void tb_cu_event_wait(struct tb_cu_stream *s, const struct tb_cu_event *e)
{
    if (e->recorded)
        join(&s->known, &e->at);
}

bool tb_cu_host_found(const struct tb_cu_clocks *c)
{
    bool grown = raise(tb_cu.host.at, c->at);

    tb_cu.host_waits += grown;
    return grown;
}

bool tb_cu_host_waited(const struct tb_cu_clocks *c)
{
    if (tb_cu_is_main_thread())
        tb_cu.said_waits += raise(tb_cu.host.said, c->said);
    return tb_cu_host_found(c);
}

void tb_cu_host_waited_device(int device)
{
    (void)tb_cu_host_waited(&tb_cu.gone);
    for (const struct tb_cu_stream *l = &tb_cu.legacy; l; l = l->next)
        if (one_device(l, device))
            (void)tb_cu_host_waited(&l->known);
    for (uint32_t i = 0; i < tb_cu.streams.capacity; i++) {
        const struct tb_cu_slot *slot = &tb_cu.streams.slot[i];
        const struct tb_cu_stream *s = slot->key ? tb_cu_map_get(&tb_cu.streams, slot->key) : NULL;
        if (s && one_device(s, device))
            (void)tb_cu_host_waited(&s->known);
    }
}

void tb_cu_unsaid(uint32_t orders, uint64_t last)
{
    uint64_t count = (tb_cu.unsaid >> TB_ORDER_COUNT) + orders;

    __atomic_store_n(&tb_cu.unsaid,
                     (count & TB_ORDER_COUNT_MASK) << TB_ORDER_COUNT | last << TB_ORDER_LAST |
                         (tb_cu.unsaid & TB_ORDER_HOST),
                     __ATOMIC_RELAXED);
}

void tb_cu_host_function(void)
{
    tb_cu_lock();
    __atomic_store_n(&tb_cu.unsaid, tb_cu.unsaid | TB_ORDER_HOST, __ATOMIC_RELAXED);
    tb_cu_unlock();
}

bool tb_cu_meet(const struct tb_cu_stream *s, const struct tb_cu_use *use)
{
    return use->clock && use->clock > s->known.at[use->stream];
}

uint64_t tb_cu_capture_of(CUstream stream, bool per_thread)
{
    uint64_t key = key_of(stream, per_thread);
    const struct tb_cu_stream *s = key ? tb_cu_map_get(&tb_cu.streams, key) : NULL;

    return s ? s->capture : 0;
}

bool tb_cu_capture_lives(uint64_t number)
{
    for (uint32_t i = 0; number && i < tb_cu.streams.capacity; i++) {
        uint64_t key = tb_cu.streams.slot[i].key;
        const struct tb_cu_stream *s = key ? tb_cu_map_get(&tb_cu.streams, key) : NULL;
        if (s && s->capture == number)
            return true;
    }
    return false;
}

void tb_cu_capture_end(uint64_t number)
{
    for (uint32_t i = 0; number && i < tb_cu.streams.capacity; i++) {
        uint64_t key = tb_cu.streams.slot[i].key;
        struct tb_cu_stream *s = key ? tb_cu_map_get(&tb_cu.streams, key) : NULL;
        if (s && s->capture == number)
            s->capture = 0;
    }
}

/* As far as calls told it: inside a callback of CUPTI the driver must not be asked. */
static bool told_capturing(CUstream stream, bool per_thread)
{
    tb_cu_lock();
    uint64_t number = tb_cu_capture_of(stream, per_thread);
    tb_cu_unlock();
    return number != 0;
}

bool tb_cu_is_capturing(CUstream stream, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const struct tb_cu_driver *d = &tb_cu.driver;

    if (!tb_cu_tls.may_call)
        return told_capturing(stream, per_thread);
    if (!stream || stream == CU_STREAM_LEGACY) {
        if (!per_thread || !d->cuStreamIsCapturing_ptsz)
            return false; /* the legacy stream cannot be; asking would disturb a capture */
        return d->cuStreamIsCapturing_ptsz(stream, &status) == CUDA_SUCCESS && status;
    }
    return d->cuStreamIsCapturing && d->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}
