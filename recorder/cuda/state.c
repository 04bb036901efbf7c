/*
 * The state at a step's end: fingerprints of the memory that twinbit_tensor() has named, else of
 * all that was written in the step (mark.c). Where the step's work is recorded there is none.
 *
 * A hash is queued in the stream that wrote the memory last: behind all that wrote it, if streams
 * were ordered, and before what that stream does next. Nothing waits for it. What other streams
 * wrote at the same time, or write before they know of the hash, may tear it: a row, and such
 * memory is in an event of its own, whose site says so. So is memory of threads that cannot be told
 * apart: which of it is which is chance.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/cuda/graph.h"

/* Where the hash of an access is queued. */
struct place {
    struct tb_cu_stream *stream;
    CUstream handle;
    bool per_thread;
};

/* ---------------------------------------------------------------- what there is to hash */

static bool is_named(const struct tb_cu_alloc *a)
{
    return a->name && a->kind != TB_CU_GLOBAL;
}

static bool is_wanted(const struct tb_cu_alloc *a, bool named)
{
    if (a->kind == TB_CU_HOST || a->kind == TB_CU_REGISTERED || a->device < 0)
        return false;
    if (named)
        return is_named(a);
    return a->mark.stream && a->mark.step == tb_cu.state.step;
}

/* The host may use or take back such memory as soon as it has waited for the work of the step, and
 * the hash is behind that: both may fault. */
static bool is_safe(const struct tb_cu_alloc *a)
{
    const struct tb_cu_alloc *around = tb_cu_alloc_around(a->base);

    return a->kind != TB_CU_MANAGED && !a->mapped && !(around && around->mapped);
}

static void add(struct tb_cu_alloc *a, bool named)
{
    struct tb_cu_state *s = &tb_cu.state;

    if (!is_wanted(a, named) || s->n == s->room)
        return;
    if (is_safe(a))
        s->list[s->n++] = a;
    else
        s->unsafe++;
}

/* By thread and ordinal, for the ordinals of one thread have an order that is equal in equal runs:
 * addresses have none, and threads allocate by chance among each other. */
static bool is_before(const struct tb_cu_alloc *a, const struct tb_cu_alloc *b)
{
    return a->maker != b->maker ? a->maker < b->maker : a->ordinal < b->ordinal;
}

static void sort(struct tb_cu_alloc **list, uint32_t n)
{
    uint32_t gap = 1;

    while (gap < n / 3)
        gap = 3 * gap + 1;
    for (; gap; gap /= 3)
        for (uint32_t i = gap; i < n; i++) {
            struct tb_cu_alloc *a = list[i];
            uint32_t k = i;
            for (; k >= gap && is_before(a, list[k - gap]); k -= gap)
                list[k] = list[k - gap];
            list[k] = a;
        }
}

static bool any_named(void)
{
    for (uint32_t i = 0; i < tb_cu.allocs; i++)
        if (is_named(tb_cu.alloc[i]))
            return true;
    for (uint32_t i = 0; i < tb_cu.blocks; i++)
        if (is_named(tb_cu.block[i]))
            return true;
    return false;
}

/* Memory of several threads that nobody can tell apart: which of it comes first is chance. */
static bool is_by_chance(void)
{
    const struct tb_cu_state *s = &tb_cu.state;
    uint32_t tid = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct tb_cu_alloc *a = s->list[i];
        if (a->maker != TB_CU_OTHER_THREAD)
            continue;
        if (tid && a->tid != tid)
            return true;
        tid = a->tid;
    }
    return false;
}

/* Into tb_cu.state.list. Blocks without a name are parts of their allocation. Under the lock.
 * Returns: is it known what was written? Not where names have held until now. */
static bool collect(void)
{
    bool named = tb_cu.state.names && any_named(), known = named || !tb_cu.state.names;

    tb_cu.state.n = tb_cu.state.unsafe = 0;
    for (uint32_t i = 0; i < tb_cu.allocs; i++)
        add(tb_cu.alloc[i], named);
    for (uint32_t i = 0; named && i < tb_cu.blocks; i++)
        add(tb_cu.block[i], named);
    sort(tb_cu.state.list, tb_cu.state.n);
    tb_cu.state.by_chance = is_by_chance();
    if (!named)
        tb_cu.state.names = 0;
    return known;
}

/* Memory for the list; pages, so that most steps ask for none. */
static bool make_room(void)
{
    struct tb_cu_state *s = &tb_cu.state;
    uint32_t need = __atomic_load_n(&tb_cu.allocs, __ATOMIC_RELAXED) +
                    __atomic_load_n(&tb_cu.blocks, __ATOMIC_RELAXED);

    return tb_cu_graph_room((void **)&s->list, &s->room, 0, need, sizeof(*s->list));
}

/* ---------------------------------------------------------------- where */

#define PER_THREAD (1ull << 63) /* stream.c */

static bool lives(const struct tb_cu_stream *s)
{
    return s == &tb_cu.legacy || tb_cu_map_get(&tb_cu.streams, s->handle) == s;
}

/* The last writer's stream; where that is gone, or another thread's, the legacy one. Returns: may
 * the hash meet what wrote there? */
static bool place_of(const struct tb_cu_alloc *a, struct place *out)
{
    const struct tb_cu_mark *k = &a->mark;
    struct tb_cu_stream *s = k->stream ? k->stream : tb_cu.state.sole, *legacy;
    uint64_t clock = k->stream ? k->clock : s ? s->known.at[s->index] : 0;
    bool torn = (k->step == tb_cu.state.step && k->torn) || k->meets;

    *out = (struct place){.stream = s};
    if (s && lives(s)) {
        out->per_thread = s->handle & PER_THREAD;
        out->handle = out->per_thread ? NULL : (CUstream)(uintptr_t)s->handle;
        if (!out->per_thread ||
            (s->handle & ~PER_THREAD) == (uint64_t)(uint32_t)syscall(SYS_gettid))
            return torn;
    }
    legacy = tb_cu_stream(NULL, false);
    (void)tb_cu_stream_tick(legacy);
    *out = (struct place){.stream = legacy};
    return torn || (s && legacy->known.at[s->index] < clock);
}

/* ---------------------------------------------------------------- an event */

static bool same_place(const struct place *a, const struct place *b)
{
    return a->handle == b->handle && a->per_thread == b->per_thread;
}

/* Tickets of @w's accesses on @c's device. */
static void draw(struct tb_cu_work *w, struct tb_cu_ctx *c)
{
    tb_cu_await_slots(c, w->n);
    tb_cu_lock();
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & TB_CU_HASH) || a->alloc->device != c->device)
            continue;
        if (a->alloc->ordinal != a->ordinal)
            w->missing = "memory that another thread has freed meanwhile";
        else if (!tb_cu_draw(c, 1, &a->ticket))
            w->missing = "the table of fingerprints is full: the device lags far behind";
        else
            a->table = c->table;
        a->flags = a->table ? TB_CU_HASH : 0;
    }
    tb_cu_unlock();
}

/* One launch, of accesses from @first on in the stream of that one. */
static void hash_some(struct tb_cu_work *w, struct tb_cu_ctx *c, const struct place *place,
                      uint32_t first)
{
    uint32_t at[TB_FPD_MAX] = {0};
    struct tb_fpd_batch b;

    tb_cu_batch_begin(c, &b);
    for (uint32_t i = first; i < w->n && b.jobs < TB_FPD_MAX; i++) {
        struct tb_cu_access *a = &w->access[i];
        if (!(a->flags & TB_CU_HASH) || a->table != c->table ||
            !same_place(&place[i], &place[first]))
            continue;
        at[b.jobs] = i;
        b.job[b.jobs++] = (struct tb_fpd_job){.src = a->alloc->base + a->offset,
                                              .bytes = a->bytes,
                                              .ticket = a->ticket,
                                              .rate = a->rate};
        a->flags = 0;
    }
    if (tb_cu_launch_batch(c, place[first].handle, place[first].per_thread, &b))
        return;
    w->missing = "the hash could not be launched";
    for (uint32_t i = 0; i < b.jobs; i++) {
        tb_cu_undraw(c, w->access[at[i]].ticket);
        w->access[at[i]].table = 0;
    }
}

static void hash_all(struct tb_cu_work *w, const struct place *place)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct tb_cu_access *a = &w->access[i];
        struct tb_cu_visit was;
        if (!(a->flags & TB_CU_HASH))
            continue;
        struct tb_cu_ctx *c = tb_cu_enter_device(a->alloc->device, &was);
        if (c && !a->table)
            draw(w, c);
        if (c && a->table)
            hash_some(w, c, place, i);
        tb_cu_return(&was);
        if (!c)
            w->missing = "nothing can be hashed on this device";
        a->flags = 0;
    }
}

/* What is written from now on must be behind these hashes. */
static void note_readers(const struct tb_cu_work *w, const struct place *place)
{
    tb_cu_lock();
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_cu_access *a = &w->access[i];
        if (!a->table || a->alloc->ordinal != a->ordinal)
            continue;
        a->alloc->mark.reader = place[i].stream;
        a->alloc->mark.read_clock = tb_cu_stream_tick(place[i].stream);
        a->alloc->mark.read_seq = TB_REC_NO_SEQ;
    }
    tb_cu_unlock();
}

static void note_event(const struct tb_cu_work *w)
{
    tb_cu_lock();
    for (uint32_t i = 0; i < w->n; i++)
        if (w->access[i].alloc->ordinal == w->access[i].ordinal)
            w->access[i].alloc->mark.read_seq = w->seq;
    tb_cu_unlock();
}

/* Those of the list from *@at on that are torn, or are not; as many as an event has room for. */
static void fill(struct tb_cu_work *w, struct place *place, uint32_t *at, bool torn)
{
    tb_cu_lock();
    for (; *at < tb_cu.state.n && w->n < TB_CU_ACCESSES; ++*at) {
        struct tb_cu_alloc *a = tb_cu.state.list[*at];
        bool odd = tb_cu.state.by_chance && a->maker == TB_CU_OTHER_THREAD;
        if (!a->ordinal || (place_of(a, &place[w->n]) || odd) != torn)
            continue;
        struct tb_cu_access *x = &w->access[w->n++];
        *x = (struct tb_cu_access){.alloc = a,
                                   .ordinal = a->ordinal,
                                   .version = a->version,
                                   .bytes = a->bytes,
                                   .word = (uint16_t)*at,
                                   .mode = 's',
                                   .dtype = a->dtype ? a->dtype : TB_DT_UNKNOWN,
                                   .flags = TB_CU_HASH};
        tb_cu_budget(w, x);
    }
    tb_cu_unlock();
}

static void write_states(bool torn, uint64_t *hashed)
{
    struct place place[TB_CU_ACCESSES] = {{.stream = NULL}};
    struct tb_cu_work *w;

    for (uint32_t at = 0; at < tb_cu.state.n;) {
        if (!(w = tb_cu_work_new(TB_EV_STATE, "state", NULL, false)))
            return;
        w->hashed = *hashed;
        w->torn_state = torn;
        if (torn)
            tb_cu_detail(w, "\ttorn=1");
        fill(w, place, &at, torn);
        *hashed = w->hashed;
        if (w->n) {
            hash_all(w, place);
            note_readers(w, place);
            tb_cu_event_write(w);
            note_event(w);
        }
        tb_cu_work_drop(w);
    }
}

/* ---------------------------------------------------------------- a step ends */

static bool is_recorded_by_work(void)
{
    uint64_t step = tb_cu.api->step();

    return tb_cu.config->level >= TB_LEVEL_OP && step >= tb_cu.config->step_from &&
           step <= tb_cu.config->step_to;
}

static void record_state(void)
{
    uint64_t hashed = 0;

    if (__atomic_load_n(&tb_cu.captures, __ATOMIC_RELAXED)) {
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", "state",
                    "a step that ends while a stream is being captured: nothing is hashed");
        return;
    }
    if (!make_room())
        return;
    tb_cu_lock();
    bool known = collect();
    tb_cu_unlock();
    if (!known)
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", "state",
                    "all memory with names was freed: what else the step wrote is not hashed");
    if (tb_cu.state.by_chance)
        tb_cu_cover(
            1, TB_REC_NO_SEQ, "cuda", "state",
            "memory that several threads have allocated has no names that are equal in equal "
            "runs: 'twinbit run --pin observe' tells threads apart, twinbit_tensor() names it");
    if (tb_cu.state.unsafe)
        tb_cu_cover(1, TB_REC_NO_SEQ, "cuda", "state",
                    "managed or mapped memory is not hashed when a step ends");
    write_states(false, &hashed);
    write_states(true, &hashed);
}

void tb_cu_step_ends(void)
{
    if (__atomic_exchange_n(&tb_cu.state.busy, true, __ATOMIC_ACQUIRE))
        return; /* another thread's step */
    if (!is_recorded_by_work() && !tb_cu.api->paused())
        record_state();
    tb_cu_lock();
    tb_cu.state.step++;
    tb_cu_unlock();
    __atomic_store_n(&tb_cu.state.busy, false, __ATOMIC_RELEASE);
}
