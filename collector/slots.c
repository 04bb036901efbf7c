/*
 * Slot tables (recorder/wire.h): fingerprints that a device writes after the job wrote their event.
 * Nothing in a table is believed but a stamp that fits the ticket; what was taken is kept here, not
 * read back.
 */
#include "collector/collector_internal.h"

#include <stdlib.h>
#include <sys/mman.h>

#define MAX_COUNT (1u << 24)
#define MAX_TABLES 256u
/* A ticket so far ahead of the last one was never drawn. */
#define FAR_AHEAD (1ull << 32)
/* How long a table may be missing: its message was sent before the event, but on another way. */
#define TABLE_NS 5000000000u
/* A round that took longer (twinbit was stopped) counts no more than this. */
#define ROUND_NS 100000000u

static bool good_head(const struct tb_wire_slots *page, size_t bytes, uint32_t table,
                      uint64_t nonce)
{
    uint32_t count = page->count;

    return page->magic == TB_WIRE_MAGIC && page->version == TB_WIRE_VERSION &&
           page->nonce == nonce && page->table == table && table != 0 && count != 0 &&
           (count & (count - 1)) == 0 && count <= MAX_COUNT &&
           count <= (bytes - TB_WIRE_RING_PAGE) / sizeof(struct tb_wire_slot);
}

struct tb_slots *tb_slots_new(void *map, size_t bytes, uint32_t table, uint64_t nonce)
{
    struct tb_slots *s = calloc(1, sizeof(*s));

    if (!s || bytes <= TB_WIRE_RING_PAGE || !good_head(map, bytes, table, nonce))
        goto fail;
    s->count = ((const struct tb_wire_slots *)map)->count;
    if (bytes - TB_WIRE_RING_PAGE < s->count * sizeof(struct tb_wire_slot) || /* read once more */
        !(s->taken = calloc(s->count, sizeof(*s->taken))))
        goto fail;
    s->map = map;
    s->map_bytes = bytes;
    s->slot = (void *)((uint8_t *)map + TB_WIRE_RING_PAGE);
    s->table = table;
    return s;
fail:
    free(s);
    return NULL;
}

void tb_slots_free(struct tb_slots *s)
{
    if (!s)
        return;
    if (s->map)
        (void)munmap(s->map, s->map_bytes);
    free(s->taken);
    free(s);
}

static struct tb_slots *find(const struct tb_merge *m, uint64_t table)
{
    struct tb_slots *s = m->slots;

    while (s && s->table != table)
        s = s->next;
    return s;
}

bool tb_slots_add(struct tb_merge *m, struct tb_slots *s)
{
    struct tb_slots *old = find(m, s->table);

    if (old && old->map) /* that number is in use */
        return false;
    if (old) { /* it was given up: events to come may still use it */
        s->next = old->next;
        struct tb_slots empty = *old;
        *old = *s;
        *s = empty;
        tb_slots_free(s);
        return true;
    }
    if (m->slot_tables >= MAX_TABLES)
        return false;
    s->next = m->slots;
    m->slots = s;
    m->slot_tables++;
    return true;
}

/* Nobody sent it: none of its tickets is waited for any more. */
static void give_up(struct tb_merge *m, uint32_t table)
{
    struct tb_slots *s = m->slot_tables < MAX_TABLES ? calloc(1, sizeof(*s)) : NULL;

    m->table_waited = 0;
    if (!s)
        return;
    s->table = table;
    s->next = m->slots;
    m->slots = s;
    m->slot_tables++;
}

static enum tb_slot_state look(const struct tb_slots *s, uint64_t ticket)
{
    uint64_t i = ticket & (s->count - 1), stamp;

    if (ticket + 1 <= s->taken[i] || ticket > s->highest + FAR_AHEAD)
        return TB_SLOT_BAD;
    stamp = __atomic_load_n(&s->slot[i].stamp, __ATOMIC_ACQUIRE);
    if (stamp == ticket + 1)
        return TB_SLOT_THERE;
    return stamp > ticket + 1 ? TB_SLOT_LOST : TB_SLOT_WAIT;
}

enum tb_slot_state tb_slots_look(const struct tb_merge *m, uint64_t table, uint64_t ticket)
{
    const struct tb_slots *s = find(m, table);

    if (table == 0 || table > UINT32_MAX || (s && !s->map))
        return TB_SLOT_BAD;
    if (!s)
        return m->slot_tables < MAX_TABLES ? TB_SLOT_NO_TABLE : TB_SLOT_BAD;
    return look(s, ticket);
}

enum tb_slot_state tb_slots_take(struct tb_merge *m, uint64_t table, uint64_t ticket,
                                 struct tb_fp *fp)
{
    enum tb_slot_state state = tb_slots_look(m, table, ticket);

    if (state != TB_SLOT_THERE && state != TB_SLOT_LOST)
        return state;
    struct tb_slots *s = find(m, table);
    uint64_t i = ticket & (s->count - 1);
    struct tb_wire_slot *slot = &s->slot[i];
    *fp = (struct tb_fp){__atomic_load_n(&slot->a, __ATOMIC_ACQUIRE),
                         __atomic_load_n(&slot->b, __ATOMIC_ACQUIRE)};
    if (__atomic_load_n(&slot->stamp, __ATOMIC_RELAXED) != ticket + 1)
        state = TB_SLOT_LOST;
    s->taken[i] = ticket + 1;
    s->highest = ticket > s->highest ? ticket : s->highest;
    __atomic_store_n(&slot->taken, ticket + 1, __ATOMIC_RELEASE);
    return state;
}

bool tb_slots_passed(const struct tb_merge *m, uint64_t table, uint64_t ticket)
{
    const struct tb_slots *s = find(m, table);

    if (!s || !s->map || ticket == UINT64_MAX)
        return false;
    uint64_t i = ticket & (s->count - 1);
    return s->taken[i] >= ticket + 1 ||
           __atomic_load_n(&s->slot[i].stamp, __ATOMIC_ACQUIRE) >= ticket + 1;
}

/* ---------------------------------------------------------------- holding back */

/* A table that nobody sent is waited for, but not for good. */
static bool wait_for_table(struct tb_merge *m, uint32_t table, uint64_t now)
{
    uint64_t since = m->table_round ? now - m->table_round : 0;

    m->table_round = now;
    m->table_waited += since < ROUND_NS ? since : ROUND_NS;
    if (m->table_waited < TABLE_NS)
        return true;
    give_up(m, table);
    return false;
}

/* The ticket that is not there yet; a hash before the work comes first. */
static enum tb_slot_state look_at_both(const struct tb_merge *m, const struct tb_wire_access *p)
{
    uint64_t table = p->fp_b;
    enum tb_slot_state state = TB_SLOT_THERE;

    if (p->alloc & TB_ACCESS_CHANGE) {
        table &= UINT32_MAX;
        state = tb_slots_look(m, table, p->fp_a - (p->fp_b >> 32));
    }
    return state == TB_SLOT_WAIT || state == TB_SLOT_NO_TABLE ? state
                                                              : tb_slots_look(m, table, p->fp_a);
}

bool tb_slots_hold(struct tb_merge *m, struct tb_ring *r, const struct tb_wire_access *a,
                   uint32_t n, uint64_t now)
{
    for (; r->checked < n; r->checked++) {
        const struct tb_wire_access *p = &a[r->checked];
        if (!(p->alloc & TB_ACCESS_PENDING))
            continue;
        enum tb_slot_state state = look_at_both(m, p);
        if (state == TB_SLOT_WAIT)
            return true;
        if (state == TB_SLOT_NO_TABLE) {
            if (wait_for_table(m, (uint32_t)p->fp_b, now))
                return true;
            continue;
        }
        m->table_waited = m->table_round = 0;
    }
    return false;
}
