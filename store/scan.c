#include "store/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Accesses of this many events are stepped over; farther ones are sought. */
#define SEEK_BEYOND 64

enum tb_status tb_scan_open(struct tb_scan *c, struct tb_trace *t, uint32_t process,
                            uint32_t thread, uint64_t first, uint64_t last, struct tb_error *err)
{
    static const char events[] =
        "SELECT id, threadId, kind, flags, siteId, rangeId, seqOffset, span, step, args, start"
        " FROM events WHERE id BETWEEN ? AND ? ORDER BY id";
    static const char accesses[] =
        "SELECT id, alloc, offset, fp FROM accesses WHERE id >= ? ORDER BY id";
    int rc;

    *c = (struct tb_scan){.trace = t, .thread = thread, .process = process};
    c->last = last > INT64_MAX ? INT64_MAX : last;
    rc = sqlite3_prepare_v2(t->db, events, -1, &c->events, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(t->db, accesses, -1, &c->accesses, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(c->events, 1, first > INT64_MAX ? INT64_MAX : (int64_t)first);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(c->events, 2, (int64_t)c->last);
    if (rc == SQLITE_OK)
        return TB_OK;
    tb_scan_close(c);
    return tb_trace_sql(t, rc, err);
}

void tb_scan_close(struct tb_scan *c)
{
    (void)sqlite3_finalize(c->events);
    (void)sqlite3_finalize(c->accesses);
    free(c->access);
    *c = (struct tb_scan){0};
}

static enum tb_status step_access(struct tb_scan *c, struct tb_error *err)
{
    int rc = sqlite3_step(c->accesses);

    c->at_access = rc == SQLITE_ROW;
    if (c->at_access)
        c->access_event = (uint64_t)sqlite3_column_int64(c->accesses, 0) >> TB_STORE_ACCESS_SHIFT;
    else
        c->access_event = UINT64_MAX;
    return tb_trace_sql(c->trace, rc, err);
}

/* Stand on the first access of an event >= @id. */
static enum tb_status go_to(struct tb_scan *c, uint64_t id, struct tb_error *err)
{
    enum tb_status rc = TB_OK;

    if (c->access_event == UINT64_MAX && !c->at_access)
        return TB_OK; /* past the end */
    if (c->access_event == 0 || c->access_event + SEEK_BEYOND < id) {
        (void)sqlite3_reset(c->accesses);
        (void)sqlite3_bind_int64(c->accesses, 1, (int64_t)id << TB_STORE_ACCESS_SHIFT);
        rc = step_access(c, err);
    }
    while (rc == TB_OK && c->access_event < id)
        rc = step_access(c, err);
    return rc;
}

static bool read_fp(sqlite3_stmt *st, struct tb_store_access *a, uint8_t trait)
{
    int n = sqlite3_column_bytes(st, 3);
    const uint8_t *p = sqlite3_column_blob(st, 3);

    memset(a->fp, 0, 16);
    a->fp_kind = TB_FP_NONE;
    if (sqlite3_column_type(st, 3) == SQLITE_NULL)
        return true;
    if (!p || (n != 16 && n != 17))
        return false;
    memcpy(a->fp, p, 16);
    a->fp_kind = n == 17 ? p[16] : trait & TB_TRAIT_KIND;
    return true;
}

static enum tb_status read_accesses(struct tb_scan *c, uint64_t id, const struct tb_site_full *site,
                                    struct tb_error *err)
{
    uint32_t n = site->site.access_count;
    enum tb_status rc = n > 0 ? go_to(c, id, err) : TB_OK;

    if (rc == TB_OK && n > c->room) {
        struct tb_store_access *p = realloc(c->access, n * sizeof(*p));
        if (!p)
            return tb_fail(err, TB_ERR_NOMEM, "cannot read '%s': no memory", c->trace->path);
        c->access = p;
        c->room = n;
    }
    for (uint32_t i = 0; rc == TB_OK && i < n; i++) {
        struct tb_store_access *a = &c->access[i];
        if (!c->at_access ||
            (uint64_t)sqlite3_column_int64(c->accesses, 0) != (id << TB_STORE_ACCESS_SHIFT | i))
            return tb_trace_damaged(c->trace, err, "event %" PRIu64 ": access %u is missing", id,
                                    i);
        a->alloc = (uint64_t)sqlite3_column_int64(c->accesses, 1);
        tb_store_unpack(a, (uint64_t)sqlite3_column_int64(c->accesses, 2));
        if (!read_fp(c->accesses, a, site->traits[i]))
            return tb_trace_damaged(c->trace, err, "event %" PRIu64 ", access %u", id, i);
        rc = step_access(c, err);
    }
    return rc;
}

static bool wanted(const struct tb_scan *c, uint32_t thread, size_t index)
{
    if (c->thread)
        return c->thread == thread;
    return c->process == 0 || (index != SIZE_MAX && c->trace->thread[index].process == c->process);
}

static void read_event(sqlite3_stmt *st, struct tb_store_event *e, uint64_t id, uint64_t base)
{
    *e = (struct tb_store_event){
        .thread = (uint32_t)sqlite3_column_int64(st, 1),
        .kind = (uint8_t)sqlite3_column_int(st, 2),
        .flags = (uint16_t)sqlite3_column_int(st, 3),
        .site = (uint32_t)sqlite3_column_int64(st, 4),
        .range = (uint32_t)sqlite3_column_int64(st, 5),
        .seq = id + (uint64_t)sqlite3_column_int64(st, 6),
        .step = (uint64_t)sqlite3_column_int64(st, 8),
        .args = (uint64_t)sqlite3_column_int64(st, 9),
        .time_ns = base + (uint64_t)sqlite3_column_int64(st, 10),
    };
    e->open = e->seq - (uint64_t)sqlite3_column_int64(st, 7);
}

enum tb_status tb_scan_next(struct tb_scan *c, struct tb_store_event *e, uint64_t *id,
                            const struct tb_site_full **site, struct tb_error *err)
{
    int r;

    *site = NULL;
    while ((r = sqlite3_step(c->events)) == SQLITE_ROW) {
        uint32_t thread = (uint32_t)sqlite3_column_int64(c->events, 1);
        size_t index = tb_trace_thread_index(c->trace, thread);
        *id = (uint64_t)sqlite3_column_int64(c->events, 0);
        if (index == SIZE_MAX)
            return tb_trace_damaged(c->trace, err, "event %" PRIu64 ": no thread %u", *id, thread);
        if (!wanted(c, thread, index))
            continue;
        read_event(c->events, e, *id, c->trace->base_ns);
        const struct tb_site_full *f = tb_trace_site_full(c->trace, e->site, err);
        if (!f)
            return tb_trace_damaged(c->trace, err, "event %" PRIu64 ": site %u", *id, e->site);
        if (!tb_trace_range(c->trace, e->range))
            return tb_trace_damaged(c->trace, err, "event %" PRIu64 ": range %u", *id, e->range);
        enum tb_status rc = read_accesses(c, *id, f, err);
        if (rc == TB_OK)
            *site = f;
        return rc;
    }
    return tb_trace_sql(c->trace, r, err);
}
