/*
 * Which work of a GPU is before which, from the orders that a trace holds: streams, CUDA events
 * recorded and waited for, the host waiting. Vector clocks over streams, as the recorder has them.
 * What is not known for sure counts as an order: two works are called unordered only if nothing
 * that was seen, or may have been missed, stands between them.
 */
#include <stdlib.h>
#include <string.h>

#include "recorder/wire.h"
#include "store/store.h"

#define EVENTS 4096u /* CUDA events that are remembered, a power of two */

struct lane { /* a stream */
    uint64_t ordinal;
    bool free;       /* not ordered with the legacy stream */
    bool legacy;     /* it is one */
    uint32_t device; /* plus 1; 0: not known, so perhaps any */
    struct tb_clocks known, sure;
};

/* What a CUDA event stands for */
struct recorded {
    uint64_t ordinal;
    struct tb_clocks at, sure;
};

/*
 * A thread's work may have been queued at any time since the thread's last event: an event is
 * written when the call is over. So only what the host had waited for by then is surely before it.
 */
struct thread {
    uint64_t waits; /* when `host` was taken over */
    struct tb_clocks host;
};

struct tb_order {
    struct lane lane[TB_ORDER_STREAMS];
    uint32_t lanes;
    bool lost; /* more streams than that: nothing is said any more */
    bool begun;
    uint32_t unsaid; /* orders without an event, so far */
    struct tb_clocks host;
    uint64_t waits;         /* of the host, so far */
    struct thread **thread; /* by number, NULL: nothing yet */
    uint32_t thread_room, threads, first;
    struct recorded *event[EVENTS]; /* by ordinal; a later one takes an earlier one's place */
    bool forgot;
};

struct tb_order *tb_order_new(void)
{
    return calloc(1, sizeof(struct tb_order));
}

void tb_order_free(struct tb_order *o)
{
    for (uint32_t i = 0; o && i < EVENTS; i++)
        free(o->event[i]);
    for (uint32_t i = 0; o && i < o->thread_room; i++)
        free(o->thread[i]);
    if (o)
        free(o->thread);
    free(o);
}

static void join(struct tb_clocks *into, const struct tb_clocks *from)
{
    for (uint32_t i = 0; i < TB_ORDER_STREAMS; i++)
        if (from->at[i] > into->at[i])
            into->at[i] = from->at[i];
}

/* ---------------------------------------------------------------- threads */

static bool room_for(struct tb_order *o, uint32_t thread)
{
    uint32_t room = thread + 16;

    if (thread < o->thread_room)
        return true;
    struct thread **p = realloc(o->thread, room * sizeof(struct thread *));
    if (!p)
        return false;
    memset(p + o->thread_room, 0, (room - o->thread_room) * sizeof(struct thread *));
    o->thread = p;
    o->thread_room = room;
    return true;
}

/* NULL: no memory. Of one that begins it is not known when. */
static struct thread *thread_of(struct tb_order *o, uint32_t number)
{
    struct thread *t;

    if (!room_for(o, number))
        return NULL;
    if ((t = o->thread[number]))
        return t;
    if (!(t = calloc(1, sizeof(*t))))
        return NULL;
    if (!o->threads++)
        o->first = number;
    if (o->threads == 2)
        o->thread[o->first]->host = o->host;
    o->thread[number] = t;
    return t;
}

/* What is known now is what it goes on from. */
static void thread_goes_on(struct tb_order *o, struct thread *t)
{
    if (t && o->threads > 1 && t->waits != o->waits) {
        t->host = o->host;
        t->waits = o->waits;
    }
}

static void host_waited(struct tb_order *o, const struct tb_clocks *for_these)
{
    join(&o->host, for_these);
    o->waits++;
}

/* ---------------------------------------------------------------- streams */

static struct lane *lane_of(struct tb_order *o, uint64_t ordinal)
{
    for (uint32_t i = 0; i < o->lanes; i++)
        if (o->lane[i].ordinal == ordinal)
            return &o->lane[i];
    if (o->lanes == TB_ORDER_STREAMS) {
        o->lost = true;
        return &o->lane[0];
    }
    o->lane[o->lanes].ordinal = ordinal;
    o->lane[o->lanes].legacy = !ordinal;
    return &o->lane[o->lanes++];
}

/* @device: plus 1; 0: all */
static void wait_for_device(struct tb_order *o, uint32_t device)
{
    for (uint32_t i = 0; i < o->lanes; i++)
        if (!device || !o->lane[i].device || o->lane[i].device == device)
            host_waited(o, &o->lane[i].known);
}

static void wait_for_all(struct tb_order *o)
{
    wait_for_device(o, 0);
}

static bool one_device(const struct lane *a, const struct lane *b)
{
    return !a->device || !b->device || a->device == b->device;
}

/* A device's legacy stream waits for all its blocking ones, and they wait for it. */
static void tick(struct tb_order *o, struct lane *l, const struct thread *t)
{
    join(&l->known, &o->host);
    join(&l->sure, t && o->threads > 1 ? &t->host : &o->host);
    for (uint32_t i = 0; i < o->lanes; i++) {
        const struct lane *other = &o->lane[i];
        if (l->free || other->free || !(l->legacy || other->legacy) || !one_device(l, other))
            continue;
        join(&l->known, &other->known);
        join(&l->sure, &other->sure);
    }
    l->sure.at[l - o->lane] = ++l->known.at[l - o->lane];
}

/* ---------------------------------------------------------------- CUDA events */

static void record_event(struct tb_order *o, const struct lane *l, uint64_t ordinal)
{
    struct recorded **at = &o->event[ordinal & (EVENTS - 1)];

    if (!*at && !(*at = calloc(1, sizeof(**at)))) {
        o->lost = true;
        return;
    }
    o->forgot = o->forgot || ((*at)->ordinal && (*at)->ordinal != ordinal);
    **at = (struct recorded){ordinal, l->known, l->sure};
}

/* @into, and @sure where it is not NULL, go on behind what @ordinal stands for. One that was not
 * recorded here was recorded before all that is looked at, or is forgotten. */
static void wait_event(struct tb_order *o, struct tb_clocks *into, struct tb_clocks *sure,
                       uint64_t ordinal)
{
    const struct recorded *r = o->event[ordinal & (EVENTS - 1)];
    bool here = r && r->ordinal == ordinal;

    for (uint32_t i = 0; i < (here ? 1 : o->forgot ? o->lanes : 0); i++) {
        join(into, here ? &r->at : &o->lane[i].known);
        if (sure)
            join(sure, here ? &r->sure : &o->lane[i].known);
    }
}

static void host_waited_event(struct tb_order *o, uint64_t ordinal)
{
    wait_event(o, &o->host, NULL, ordinal);
    o->waits++;
}

/* ---------------------------------------------------------------- events of a trace */

static const struct tb_store_access *find(const struct tb_site *site,
                                          const struct tb_store_access *a, uint64_t base)
{
    for (uint32_t i = 0; i < site->access_count; i++)
        if (site->access[i].mode == 'q' && a[i].alloc >= base && a[i].alloc < base + TB_ALLOC_RNG)
            return &a[i];
    return NULL;
}

/* Orders that no event told of, up to here */
static void catch_up(struct tb_order *o, uint64_t bits)
{
    uint32_t count = (uint32_t)(bits >> TB_ORDER_COUNT) & TB_ORDER_COUNT_MASK;
    uint32_t more = (count - o->unsaid) & TB_ORDER_COUNT_MASK;
    uint64_t last = bits >> TB_ORDER_LAST;

    if (!o->begun) { /* all before is before all that follows */
        o->begun = true;
        o->unsaid = count;
        return;
    }
    if (!more || more > TB_ORDER_COUNT_MASK / 2) /* another thread's, said later */
        return;
    o->unsaid = count;
    if (more > 1)
        wait_for_all(o);
    else if (last & 1)
        host_waited_event(o, last / 2);
    else
        host_waited(o, &lane_of(o, last / 2)->known);
}

static void synchronisation(struct tb_order *o, const char *name, struct lane *l,
                            const struct thread *t, const struct tb_store_access *event,
                            const struct tb_store_access *device)
{
    uint64_t ordinal = event ? event->alloc - TB_ALLOC_EVENT : 0;

    if (l && event && strcmp(name, "cuEventRecord") == 0) {
        tick(o, l, t);
        record_event(o, l, ordinal);
    } else if (l && event && strcmp(name, "cuStreamWaitEvent") == 0) {
        wait_event(o, &l->known, &l->sure, ordinal);
    } else if (event && strcmp(name, "cuEventSynchronize") == 0) {
        host_waited_event(o, ordinal);
    } else if (l && strcmp(name, "cuStreamSynchronize") == 0) {
        if (l->legacy)
            tick(o, l, t); /* and for what it waits for */
        host_waited(o, &l->known);
    } else if (device) {
        wait_for_device(o, (uint32_t)(device->alloc - TB_ALLOC_DEVICE) + 1);
    } else {
        wait_for_all(o);
    }
}

static void place_work(struct tb_order *o, struct lane *l, const struct thread *t, uint64_t bits,
                       struct tb_work_order *w)
{
    tick(o, l, t);
    *w = (struct tb_work_order){.stream = l->ordinal,
                                .lane = (uint32_t)(l - o->lane),
                                .clock = l->known.at[l - o->lane],
                                .known = &l->known,
                                .sure = &l->sure};
    if (bits & TB_ORDER_WAITED)
        host_waited(o, &l->known);
}

static struct lane *stream_lane(struct tb_order *o, const struct tb_store_access *stream)
{
    struct lane *l = lane_of(o, stream->alloc - TB_ALLOC_STREAM);

    l->free = stream->offset & TB_ORDER_FREE;
    l->legacy = !l->ordinal || (stream->offset & TB_ORDER_LEGACY);
    l->device = (uint32_t)(stream->offset >> TB_ORDER_DEVICE) & TB_ORDER_DEVICE_MASK;
    return l;
}

bool tb_order_event(struct tb_order *o, const struct tb_store_event *e, const struct tb_site *site,
                    const struct tb_store_access *a, struct tb_work_order *w)
{
    const struct tb_store_access *stream = find(site, a, TB_ALLOC_STREAM);
    const struct tb_store_access *event = find(site, a, TB_ALLOC_EVENT);
    const struct tb_store_access *device = find(site, a, TB_ALLOC_DEVICE);

    if (e->kind < TB_EV_LAUNCH || e->kind > TB_EV_SYNC)
        return false;
    struct thread *t = thread_of(o, e->thread);
    if (stream || event || device)
        catch_up(o, (stream ? stream : event ? event : device)->offset);
    struct lane *l = stream ? stream_lane(o, stream) : NULL;
    bool work = e->kind != TB_EV_SYNC && l;
    if (e->kind == TB_EV_SYNC)
        synchronisation(o, site->name, l, t, event, device);
    else if (work)
        place_work(o, l, t, stream->offset, w);
    thread_goes_on(o, t);
    return work && !o->lost;
}
