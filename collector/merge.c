#include "collector/collector_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What fifos of a process may hold before a missing number is given up. */
#define SPILL_LIMIT (64u << 20)
/* The same while the event that is due waits for its device: it is not given up, but no more is
 * taken out of the rings, and the producers wait. */
#define HOLD_LIMIT (256u << 20)
/* How long a number may be missing while the process lives and others wait behind it. */
#define GAP_NS 5000000000u
/* The same once no more is taken out of the rings, so that producers wait too: they do so for 2 s.
 */
#define FULL_NS 1000000000u

struct tb_merge *tb_merge_new(struct tb_sink *sink, struct tb_col_process *process)
{
    struct tb_merge *m = calloc(1, sizeof(*m));
    struct tb_store_process row;
    struct tb_error err = {0};

    if (!m || !(m->id = calloc(TB_MERGE_WINDOW, sizeof(*m->id)))) {
        free(m);
        return NULL;
    }
    m->process = process;
    m->hold_limit = HOLD_LIMIT;
    tb_process_row(process, &row);
    if (sink->error.status == TB_OK &&
        tb_sink_ok(sink, tb_store_add_process(sink->store, &row, &m->row, &err), &err))
        process->row = m->row;
    sink->dirty = true;
    return m;
}

void tb_merge_release(struct tb_merge *m)
{
    while (m->rings) {
        struct tb_ring *r = m->rings;
        m->rings = r->next;
        tb_ring_free(r);
    }
    m->last = NULL;
    while (m->slots) {
        struct tb_slots *s = m->slots;
        m->slots = s->next;
        tb_slots_free(s);
    }
}

void tb_merge_free(struct tb_merge *m)
{
    if (!m)
        return;
    tb_merge_release(m);
    tb_continuity_free(m->continuity);
    free(m->id);
    free(m->thread);
    free(m);
}

/* Everything up to the ring's next event or skip is written; true: its number is in r->front. */
static bool find_front(struct tb_merge *m, struct tb_sink *sink, struct tb_ring *r)
{
    const struct tb_wire_rec *rec;

    if (r->has_front)
        return true;
    while ((rec = tb_ring_peek(r)) != NULL) {
        if (rec->kind == TB_REC_EVENT)
            r->front = ((const struct tb_wire_event *)(const void *)rec)->seq;
        else if (rec->kind == TB_REC_SKIP)
            r->front = ((const struct tb_wire_def *)(const void *)rec)->value;
        if (rec->kind == TB_REC_EVENT || rec->kind == TB_REC_SKIP)
            return r->has_front = true;
        tb_emit_other(m, sink, r, rec);
        if (!r->broken)
            tb_ring_pop(r);
    }
    return false;
}

static struct tb_ring *ring_with(struct tb_merge *m, struct tb_sink *sink, uint64_t seq)
{
    if (m->last && find_front(m, sink, m->last) && m->last->front == seq)
        return m->last;
    for (struct tb_ring *r = m->rings; r; r = r->next)
        if (find_front(m, sink, r) && r->front <= seq)
            return r;
    return NULL;
}

/* The front of @r is the number that is due, or one that came after it was given up. */
static void take(struct tb_merge *m, struct tb_sink *sink, struct tb_ring *r)
{
    const struct tb_wire_rec *rec = tb_ring_peek(r);

    if (r->front < m->seq) {
        tb_emit_lost(m, sink, 1, "event that came too late");
    } else if (rec->kind == TB_REC_SKIP) {
        m->id[m->seq % TB_MERGE_WINDOW] = 0;
        m->seq++;
    } else {
        tb_emit_event(m, sink, r, (const void *)rec);
    }
    if (!r->broken)
        tb_ring_pop(r);
    r->has_front = false;
    m->last = r;
}

static void tell_all(struct tb_merge *m)
{
    m->spilled = 0;
    for (struct tb_ring *r = m->rings; r; r = r->next) {
        tb_ring_tell(r);
        m->spilled += r->fifo_end - r->fifo_start;
    }
}

/* Nothing can be written: keep the producers going. */
static void spill_rings(struct tb_merge *m, size_t limit)
{
    for (struct tb_ring *r = m->rings; r; r = r->next) {
        if (m->spilled >= limit || (tb_ring_pending(r) <= r->size / 4 && !tb_ring_is_urgent(r)))
            continue;
        size_t before = r->fifo_end - r->fifo_start;
        m->spilled += tb_ring_spill(r);
        if (before == 0)
            r->current = 0;
    }
}

/* No ring has the number that is due: give it up if it does not come. */
static void wait_for_number(struct tb_merge *m, struct tb_sink *sink, uint64_t now)
{
    uint64_t lowest = UINT64_MAX;

    for (struct tb_ring *r = m->rings; r; r = r->next)
        if (r->has_front && r->front < lowest)
            lowest = r->front;
    if (!m->stall_since) /* what an event that was held back left in the fifos does not count */
        m->stall_limit = m->spilled + SPILL_LIMIT;
    spill_rings(m, m->stall_limit);
    if (lowest == UINT64_MAX) {
        m->stall_since = m->full_since = 0;
        return;
    }
    if (!m->stall_since)
        m->stall_since = now;
    if (m->spilled < m->stall_limit)
        m->full_since = 0;
    else if (!m->full_since)
        m->full_since = now;
    if (now - m->stall_since < GAP_NS && (!m->full_since || now - m->full_since < FULL_NS))
        return;
    tb_emit_lost(m, sink, lowest - m->seq, "number that no ring had");
    m->seq = lowest;
    m->stall_since = m->full_since = 0;
}

/* Is the front of @r an event whose fingerprints are still to come? */
static bool is_held(struct tb_merge *m, struct tb_ring *r, uint64_t now)
{
    const struct tb_wire_rec *rec = tb_ring_peek(r);

    if (m->gone || rec->kind != TB_REC_EVENT || r->front < m->seq)
        return false;
    struct tb_wire_event e = *(const struct tb_wire_event *)(const void *)rec;
    const struct tb_wire_access *a =
        tb_emit_accesses(r, &e, (const void *)((const uint8_t *)rec + sizeof(e)));
    return a && tb_slots_hold(m, r, a, e.accesses, now);
}

/* Takes up to @budget numbers that are due; how many. */
static uint32_t take_due(struct tb_merge *m, struct tb_sink *sink, uint32_t budget, uint64_t now)
{
    struct tb_ring *r;
    uint32_t done = 0;

    m->held = false;
    while (done < budget && (r = ring_with(m, sink, m->seq)) != NULL) {
        m->held = is_held(m, r, now);
        if (m->held)
            break;
        take(m, sink, r);
        done++;
    }
    tell_all(m);
    return done;
}

uint32_t tb_merge_run(struct tb_merge *m, struct tb_sink *sink, uint32_t budget, uint64_t now)
{
    uint32_t done = take_due(m, sink, budget, now);

    if (done || m->held)
        m->stall_since = m->full_since = 0;
    if (m->held)
        spill_rings(m, m->hold_limit);
    else if (done < budget)
        wait_for_number(m, sink, now);
    tb_pending_late(m, sink);
    return done;
}

static void note_broken(struct tb_merge *m, struct tb_sink *sink, struct tb_ring *r)
{
    if (!r->broken || r->stop_seen)
        return;
    r->stop_seen = true;
    tb_emit_cover(sink, m->row, 2, "record", "ring", "a ring held what is no record");
    tb_emit_lost(m, sink, 1, "a ring held what is no record");
}

void tb_merge_stops(struct tb_merge *m, struct tb_sink *sink)
{
    for (struct tb_ring *r = m->rings; r; r = r->next) {
        uint64_t lost = __atomic_load_n(&r->page->lost, __ATOMIC_RELAXED);
        uint32_t flags = __atomic_load_n(&r->page->flags, __ATOMIC_ACQUIRE);
        char why[sizeof(r->page->stop_why) + 1] = "ring full, dropped";

        note_broken(m, sink, r);
        if (flags & TB_RING_STOPPED) {
            memcpy(why, r->page->stop_why, sizeof(r->page->stop_why));
            why[sizeof(why) - 1] = 0;
        }
        bool stop = (flags & TB_RING_STOPPED) && !m->stop_told;
        if (lost == r->lost_seen && !stop)
            continue;
        uint64_t count = lost - r->lost_seen;
        r->lost_seen = lost;
        tb_emit_lost(m, sink, count ? count : 1, why);
        if (stop) {
            m->stop_told = true;
            if (!sink->stopped[0])
                (void)snprintf(sink->stopped, sizeof(sink->stopped),
                               "process %d stopped recording: %.40s", (int)m->process->pid, why);
            tb_emit_cover(sink, m->row, 1, "stopped", "process", why);
        }
    }
}

/* The lowest number any ring still has; false: they are empty. */
static bool lowest_front(struct tb_merge *m, struct tb_sink *sink, uint64_t *out)
{
    bool found = false;

    for (struct tb_ring *r = m->rings; r; r = r->next)
        if (find_front(m, sink, r) && (!found || r->front < *out)) {
            *out = r->front;
            found = true;
        }
    return found;
}

static uint32_t ring_count(const struct tb_merge *m)
{
    uint32_t n = 0;

    for (const struct tb_ring *r = m->rings; r; r = r->next)
        n++;
    return n;
}

/* What is equal as far as it goes: diff has to say so. */
static void cover_partly(struct tb_merge *m, struct tb_sink *sink)
{
    struct tb_error err = {0};

    if (m->sampled && sink->error.status == TB_OK)
        (void)tb_sink_ok(sink,
                         tb_store_coverage(sink->store, m->row, 0, 0, 0, "sampled", "fingerprints",
                                           "of large buffers cover some of their bytes only",
                                           m->sampled, &err),
                         &err);
    if (m->believed && sink->error.status == TB_OK)
        (void)tb_sink_ok(
            sink,
            tb_store_coverage(sink->store, m->row, 0, 0, 0, "learnt", "writes",
                              "were not looked for where earlier launches left the bytes alone",
                              m->believed, &err),
            &err);
}

void tb_merge_finish(struct tb_merge *m, struct tb_sink *sink)
{
    uint64_t lowest = 0, gap = 0;

    m->gone = true;
    do {
        while (take_due(m, sink, UINT32_MAX, 0))
            ;
        if (!lowest_front(m, sink, &lowest))
            break;
        gap += lowest > m->seq ? lowest - m->seq : 0;
        m->seq = lowest;
    } while (true);
    /* Each thread may have been killed between drawing a number and writing its event: that is no
     * loss. */
    if (gap > ring_count(m) + 64)
        tb_emit_lost(m, sink, gap, "number that no ring had");
    tb_merge_stops(m, sink);
    m->finished = true;
    tb_pending_leftover(m, sink);
    tb_continuity_finish(m, sink);
    cover_partly(m, sink);
}

bool tb_merge_is_urgent(struct tb_merge *m)
{
    if (m->held && m->spilled >= m->hold_limit) /* only its device can help */
        return false;
    for (struct tb_ring *r = m->rings; r; r = r->next)
        if (tb_ring_is_urgent(r))
            return true;
    return false;
}
