#include "collector/collector_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tb_sink_ok(struct tb_sink *sink, enum tb_status status, const struct tb_error *err)
{
    if (status != TB_OK && sink->error.status == TB_OK) {
        sink->error = *err;
        sink->error.status = status;
    }
    return sink->error.status == TB_OK;
}

/* Makes room for index @i in an array of zero-initialised elements. */
static bool ensure(void **array, uint32_t *size, uint32_t i, size_t elem)
{
    uint32_t n = *size ? *size : 64;

    if (i < *size)
        return true;
    while (n <= i)
        n *= 2;
    char *p = realloc(*array, n * elem);
    if (!p)
        return false;
    memset(p + *size * elem, 0, (n - *size) * elem);
    *array = p;
    *size = n;
    return true;
}

void tb_emit_cover(struct tb_sink *sink, uint32_t row, unsigned severity, const char *kind,
                   const char *subject, const char *detail)
{
    struct tb_error err = {0};

    if (sink->error.status != TB_OK)
        return;
    sink->dirty = true;
    (void)tb_sink_ok(
        sink, tb_store_coverage(sink->store, row, 0, 0, severity, kind, subject, detail, 1, &err),
        &err);
}

void tb_emit_lost(struct tb_merge *m, struct tb_sink *sink, uint64_t count, const char *why)
{
    struct tb_error err = {0};

    sink->dirty = true;
    if (sink->error.status == TB_OK)
        (void)tb_sink_ok(sink, tb_store_lost(sink->store, m->row, 0, count, why, &err), &err);
}

/* ---------------------------------------------------------------- threads */

/* Row of a thread, written when it has its first event: only then is its role known. */
static uint32_t thread_row(struct tb_merge *m, struct tb_sink *sink, uint32_t ordinal,
                           bool backward)
{
    struct tb_error err = {0};
    char role[32] = "main";

    if (!ensure((void **)&m->thread, &m->thread_size, ordinal, sizeof(*m->thread)))
        return 0;
    if (m->thread[ordinal])
        return m->thread[ordinal];
    if (ordinal != 0 && backward)
        (void)snprintf(role, sizeof(role), "autograd#%u", m->autograd++);
    else if (ordinal != 0)
        (void)snprintf(role, sizeof(role), "thread#%u", m->workers++);
    (void)tb_sink_ok(
        sink, tb_store_add_thread(sink->store, m->row, ordinal, role, &m->thread[ordinal], &err),
        &err);
    return m->thread[ordinal];
}

uint64_t tb_emit_row(const struct tb_merge *m, uint64_t seq)
{
    return seq < m->seq && m->seq - seq <= TB_MERGE_WINDOW ? m->id[seq % TB_MERGE_WINDOW] : 0;
}

/* ---------------------------------------------------------------- texts */

static void define(struct tb_sink *sink, struct tb_ring *r, bool site)
{
    struct tb_error err = {0};
    uint32_t id = 0;
    void **array = (void **)(site ? &r->site : &r->range);
    uint32_t *size = site ? &r->site_size : &r->range_size;
    enum tb_status st =
        site ? tb_store_intern_site(sink->store, r->text.text, r->text.len, &id, &err)
             : tb_store_intern_range(sink->store, r->text.text, r->text.len, &id, &err);

    if (st == TB_ERR_FORMAT ||
        r->text.id > (1u << 24)) { /* the tap's mistake: that site's events go */
        tb_emit_cover(sink, 0, 2, "record", "site", err.text);
        return;
    }
    if (tb_sink_ok(sink, st, &err) && ensure(array, size, r->text.id, sizeof(uint32_t)))
        (site ? r->site : r->range)[r->text.id] = id;
}

static void write_meta(struct tb_merge *m, struct tb_sink *sink, char *text)
{
    struct tb_error err = {0};
    char key[512];
    char *value = strchr(text, '\t');

    if (!value)
        return;
    *value++ = 0;
    if (strcmp(text, "rank") == 0)
        m->process->rank_said = (int32_t)strtol(value, NULL, 10);
    else if (strcmp(text, "worker_id") == 0)
        m->process->worker_said = (int32_t)strtol(value, NULL, 10);
    if (m->process->index == 1)
        (void)snprintf(key, sizeof(key), "%s", text);
    else
        (void)snprintf(key, sizeof(key), "process.%u.%s", m->row, text);
    (void)tb_sink_ok(sink, tb_store_meta(sink->store, key, value, &err), &err);
}

static void text_complete(struct tb_merge *m, struct tb_sink *sink, struct tb_ring *r)
{
    struct tb_error err = {0};
    uint64_t event;

    switch (r->text.kind) {
    case TB_REC_SITE:
    case TB_REC_RANGE:
        define(sink, r, r->text.kind == TB_REC_SITE);
        break;
    case TB_REC_META:
        write_meta(m, sink, r->text.text);
        break;
    case TB_REC_STACK:
        event = tb_emit_row(m, r->text.value);
        if (event)
            (void)tb_sink_ok(
                sink, tb_store_stack(sink->store, event, r->text.text, r->text.len, &err), &err);
        break;
    }
}

static void emit_text(struct tb_merge *m, struct tb_sink *sink, struct tb_ring *r,
                      const struct tb_wire_def *d)
{
    uint32_t len = d->len;

    if (len > r->current - sizeof(*d))
        return;
    if (!r->text.open || r->text.kind != d->rec.kind || r->text.id != d->id)
        r->text.len = 0;
    r->text.kind = d->rec.kind;
    r->text.id = d->id;
    r->text.value = d->value;
    if (r->text.len + len + 1 > r->text.size) {
        char *p = realloc(r->text.text, (r->text.len + len + 1) * 2);
        if (!p)
            return;
        r->text.text = p;
        r->text.size = (r->text.len + len + 1) * 2;
    }
    memcpy(r->text.text + r->text.len, d + 1, len);
    r->text.len += len;
    r->text.text[r->text.len] = 0;
    r->text.open = d->more != 0;
    if (!r->text.open && sink->error.status == TB_OK)
        text_complete(m, sink, r);
}

/* ---------------------------------------------------------------- what comes before its event */

static void keep_accesses(struct tb_ring *r, const struct tb_wire_def *d)
{
    uint32_t n = d->len / sizeof(struct tb_wire_access);

    if (d->len > r->current - sizeof(*d))
        return;
    if (d->id == 0)
        r->access_count = 0;
    if (d->id != r->access_count || n == 0 ||
        !ensure((void **)&r->access, &r->access_size, r->access_count + n, sizeof(*r->access)))
        return;
    memcpy(r->access + r->access_count, d + 1, n * sizeof(*r->access));
    r->access_count += n;
}

static void keep_map(struct tb_ring *r, const struct tb_wire_map *map)
{
    struct tb_wire_map head = *map;

    if (head.parts > 16 || sizeof(head) + head.parts * 16 > r->current)
        return;
    if (r->map_count && r->map[0].head.seq != head.seq)
        r->map_count = 0;
    if (!ensure((void **)&r->map, &r->map_size, r->map_count, sizeof(*r->map)))
        return;
    r->map[r->map_count].head = head;
    memcpy(r->map[r->map_count].sums, map + 1, head.parts * 16);
    r->map_count++;
}

void tb_emit_other(struct tb_merge *m, struct tb_sink *sink, struct tb_ring *r,
                   const struct tb_wire_rec *rec)
{
    sink->dirty = true;
    switch (rec->kind) {
    case TB_REC_SITE:
    case TB_REC_RANGE:
    case TB_REC_META:
    case TB_REC_STACK:
        emit_text(m, sink, r, (const void *)rec);
        break;
    case TB_REC_THREAD:
        r->thread = ((const struct tb_wire_def *)(const void *)rec)->id;
        break;
    case TB_REC_COVER:
        tb_pending_cover(m, sink, r, (const void *)rec);
        break;
    case TB_REC_MAP:
        keep_map(r, (const void *)rec);
        break;
    case TB_REC_MORE:
        keep_accesses(r, (const void *)rec);
        break;
    default:
        r->broken = true;
    }
}

/* ---------------------------------------------------------------- events */

/* Fingerprints of an event that are not there, by why. */
struct missing {
    uint32_t never, lost, bad;
    uint32_t surprises; /* not missing: changed, though believed not to be written */
    uint32_t surprise;  /* the first one's access */
};

/* What the device left in a slot of a pending access; false: nothing. */
static bool take_slot(struct tb_merge *m, uint64_t table, uint64_t ticket, struct tb_fp *fp,
                      struct missing *missing)
{
    switch (tb_slots_take(m, table, ticket, fp)) {
    case TB_SLOT_THERE:
        return true;
    case TB_SLOT_LOST:
        missing->lost++;
        break;
    case TB_SLOT_WAIT:
        missing->never++;
        break;
    case TB_SLOT_BAD:
    case TB_SLOT_NO_TABLE:
        missing->bad++;
        break;
    }
    return false;
}

/* The kind of a pending access, whose fingerprint is left in *@fp. */
static uint8_t take_pending(struct tb_merge *m, const struct tb_wire_access *in, uint32_t index,
                            struct tb_fp *fp, struct missing *missing)
{
    bool both = in->alloc & TB_ACCESS_CHANGE, known = false;
    uint64_t table = both ? in->fp_b & UINT32_MAX : in->fp_b;
    struct missing unused = {0}; /* what was not hashed before the work was so after it, too */
    struct tb_fp before;

    if (both)
        known = take_slot(m, table, in->fp_a - (in->fp_b >> 32), &before, &unused);
    if (!take_slot(m, table, in->fp_a, fp, missing))
        return TB_FP_NONE;
    if (known && tb_fp_equal(before, *fp))
        return TB_FP_UNCHANGED;
    if (known && (in->alloc & TB_ACCESS_DOUBT) && missing->surprises++ == 0)
        missing->surprise = index;
    return (uint8_t)(in->alloc >> 48);
}

static void convert_access(struct tb_merge *m, const struct tb_wire_access *in, uint32_t index,
                           struct tb_store_access *out, struct missing *missing)
{
    struct tb_fp fp = {in->fp_a, in->fp_b};

    out->alloc = in->alloc & TB_ALLOC_MASK;
    tb_store_unpack(out, in->offset);
    out->fp_kind = (uint8_t)(in->alloc >> 48);
    m->believed += out->fp_kind == TB_FP_UNCHANGED;
    if (in->alloc & TB_ACCESS_PENDING)
        out->fp_kind = take_pending(m, in, index, &fp, missing);
    m->sampled += out->fp_kind == TB_FP_SAMPLED;
    if (out->fp_kind == TB_FP_NONE)
        fp = (struct tb_fp){0, 0};
    tb_fp_store(out->fp, fp);
}

/* Counted by thread and what was done, not by event: of a job that was killed there may be many. */
static void cover_missing(struct tb_merge *m, struct tb_sink *sink, const struct tb_store_event *e,
                          const struct missing *missing)
{
    struct tb_error err = {0};
    const struct tb_site *site = tb_store_site(sink->store, e->site);
    const struct {
        uint32_t count;
        const char *detail;
    } row[] = {
        {missing->never, m->cut ? "never arrived: recording ended before its device wrote it"
                                : "never arrived: the process ended before its device wrote it"},
        {missing->lost, "never arrived: its slot was written over before it was read"},
        {missing->bad, "never arrived: no such ticket or slot table"},
    };

    sink->unarrived += missing->never + missing->lost + missing->bad;
    for (size_t i = 0; site && i < TB_ARRAY_LEN(row); i++)
        if (row[i].count && sink->error.status == TB_OK)
            (void)tb_sink_ok(sink,
                             tb_store_coverage(sink->store, m->row, e->thread, 0, 1, "fingerprint",
                                               site->name, row[i].detail, row[i].count, &err),
                             &err);
}

/* The recorder believed that the kernel leaves it alone, and looked again: it does not. */
static void cover_surprise(struct tb_merge *m, struct tb_sink *sink, const struct tb_store_event *e,
                           const struct missing *missing, uint64_t row)
{
    const struct tb_site *site = tb_store_site(sink->store, e->site);
    struct tb_error err = {0};
    char detail[256];

    if (!missing->surprises || !site || sink->error.status != TB_OK)
        return;
    (void)snprintf(detail, sizeof(detail), "a write that was not learnt: %.160s",
                   site->access[missing->surprise].argument);
    (void)tb_sink_ok(sink,
                     tb_store_coverage(sink->store, m->row, e->thread, row, 1, "learnt", site->name,
                                       detail, missing->surprises, &err),
                     &err);
}

static bool store_event(struct tb_merge *m, struct tb_sink *sink, struct tb_ring *r,
                        const struct tb_wire_event *e, const struct tb_wire_access *in,
                        uint64_t *row)
{
    struct tb_error err = {0};
    struct tb_store_access few[16], *a = few;
    struct missing missing = {0};
    struct tb_store_event out = {
        .thread = thread_row(m, sink, r->thread, e->flags & TB_EVF_BACKWARD),
        .kind = e->kind,
        .flags = e->flags,
        .site = e->site < r->site_size ? r->site[e->site] : 0,
        .range = e->range < r->range_size && e->range ? r->range[e->range] : 0,
        .seq = e->seq,
        .open = e->open,
        .step = e->step,
        .args = e->args,
        .time_ns = e->time_ns,
    };
    enum tb_status st;

    if (!out.site || !out.thread)
        return false;
    if (e->accesses > TB_ARRAY_LEN(few) && !(a = calloc(e->accesses, sizeof(*a))))
        return false;
    for (uint32_t i = 0; i < e->accesses; i++)
        convert_access(m, &in[i], i, &a[i], &missing);
    st = tb_store_event(sink->store, &out, a, e->accesses, row, &err);
    if (st == TB_OK) {
        cover_missing(m, sink, &out, &missing);
        cover_surprise(m, sink, &out, &missing, *row);
        tb_continuity_event(m, sink, &out, in, a, *row);
    }
    if (a != few)
        free(a);
    if (st == TB_ERR_ARG) { /* does not fit its site: the tap's mistake, not the store's end */
        tb_emit_cover(sink, m->row, 2, "record", "event", err.text);
        return false;
    }
    return tb_sink_ok(sink, st, &err);
}

static void store_maps(struct tb_sink *sink, struct tb_ring *r, uint64_t seq, uint64_t row)
{
    struct tb_error err = {0};

    for (uint32_t i = 0; i < r->map_count && row; i++) {
        const struct tb_pending_map *p = &r->map[i];
        if (p->head.seq == seq && sink->error.status == TB_OK)
            (void)tb_sink_ok(sink,
                             tb_store_map(sink->store, row, p->head.access, p->head.bytes, p->sums,
                                          p->head.parts, &err),
                             &err);
    }
    r->map_count = 0;
}

const struct tb_wire_access *tb_emit_accesses(struct tb_ring *r, const struct tb_wire_event *e,
                                              const struct tb_wire_access *behind)
{
    uint32_t more = r->access_count, rest;

    if (e->accesses < more || e->accesses > TB_STORE_MAX_ACCESSES)
        more = 0;
    rest = e->accesses - more;
    if (rest > (r->current - sizeof(*e)) / sizeof(*behind))
        return NULL;
    if (more == 0)
        return behind;
    if (!ensure((void **)&r->access, &r->access_size, e->accesses, sizeof(*r->access)))
        return NULL;
    memcpy(r->access + more, behind, rest * sizeof(*behind));
    return r->access;
}

void tb_emit_event(struct tb_merge *m, struct tb_sink *sink, struct tb_ring *r,
                   const struct tb_wire_event *record)
{
    struct tb_wire_event e = *record;
    const struct tb_wire_access *access = tb_emit_accesses(r, &e, (const void *)(record + 1));
    uint64_t row = 0;

    sink->dirty = true;
    if (!access) {
        r->broken = true;
        return;
    }
    if (sink->error.status == TB_OK) {
        if (store_event(m, sink, r, &e, access, &row)) {
            m->steps += e.kind == TB_EV_STEP;
            sink->steps = m->steps > sink->steps ? m->steps : sink->steps;
        } else if (sink->error.status == TB_OK) {
            tb_emit_lost(m, sink, 1, "event that its site does not fit");
        }
    }
    m->id[e.seq % TB_MERGE_WINDOW] = row;
    m->seq = e.seq + 1;
    if (m->pending)
        tb_pending_release(m, sink, e.seq, row);
    store_maps(sink, r, e.seq, row);
    r->access_count = 0;
}
