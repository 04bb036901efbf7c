#include "store/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum tb_status tb_trace_compare(struct tb_trace *t, size_t thread, size_t i,
                                const struct tb_seghash *h, uint64_t count, struct tb_error *err)
{
    const struct tb_trace_segment *s = &t->segments[thread].segment[i];
    uint8_t digest[16];
    int64_t check;

    tb_seghash_get(h, digest, &check);
    if (count == s->count && memcmp(digest, s->digest, 16) == 0 &&
        check == t->segments[thread].check[i].check) {
        t->segments[thread].check[i].verified = true;
        return TB_OK;
    }
    return tb_trace_damaged(t, err,
                            "segment %" PRIu64 " (thread %u, step %" PRIu64 ", events %" PRIu64
                            "..%" PRIu64 "): its content does not give its digest",
                            s->id, s->thread, s->step, s->first, s->last);
}

enum tb_status tb_trace_check_segment(struct tb_trace *t, size_t thread, size_t i,
                                      struct tb_error *err)
{
    const struct tb_trace_segment *s = &t->segments[thread].segment[i];
    struct tb_seghash *h = tb_seghash_new();
    const struct tb_site_full *site = NULL;
    struct tb_store_event e;
    struct tb_scan scan;
    uint64_t id, count = 0;
    enum tb_status rc;

    if (!h)
        return tb_fail(err, TB_ERR_NOMEM, "cannot read '%s': no memory", t->path);
    rc = tb_scan_open(&scan, t, 0, s->thread, s->first, s->last, err);
    while (rc == TB_OK && (rc = tb_scan_next(&scan, &e, &id, &site, err)) == TB_OK && site) {
        tb_seghash_add(h, site, id, &e, scan.access);
        count++;
    }
    if (rc == TB_OK)
        rc = tb_trace_compare(t, thread, i, h, count, err);
    tb_scan_close(&scan);
    free(h);
    return rc;
}

/* ---------------------------------------------------------------- the whole */

static enum tb_status count_is(struct tb_trace *t, const char *query, uint64_t want,
                               const char *what, struct tb_error *err)
{
    sqlite3_stmt *st = NULL;
    uint64_t have = 0;
    int r = sqlite3_prepare_v2(t->db, query, -1, &st, NULL);

    if (r == SQLITE_OK && (r = sqlite3_step(st)) == SQLITE_ROW)
        have = (uint64_t)sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
    enum tb_status rc = tb_trace_sql(t, r, err);
    if (rc == TB_OK && have != want)
        rc = tb_trace_damaged(t, err, "%s: %" PRIu64 " rows instead of %" PRIu64, what, have, want);
    return rc;
}

/* Every event through a cursor, so that each segment's digest is recomputed. */
static enum tb_status read_events(struct tb_trace *t, uint64_t *events, uint64_t *accesses,
                                  struct tb_error *err)
{
    const struct tb_trace_event *e = NULL;
    struct tb_cursor *c = NULL;
    enum tb_status rc = tb_cursor_open_process(&c, t, 0, 0, UINT64_MAX, err);

    while (rc == TB_OK && (rc = tb_cursor_next(c, &e, err)) == TB_OK && e) {
        ++*events;
        *accesses += e->site->access_count;
    }
    tb_cursor_close(c);
    return rc;
}

static bool ignore_row(void *arg, const struct tb_trace_coverage *row)
{
    (void)arg, (void)row;
    return true;
}

/* Rows with a checksum of their own that nothing else reads; the query yields the bad ones. */
static enum tb_status check_rows(struct tb_trace *t, struct tb_error *err)
{
    static const struct {
        const char *what, *query;
    } tables[] = {
        {"table StringIds",
         "SELECT count(*) FROM StringIds WHERE rowCheck IS NOT tb_check(id,value)"},
        {"table ranges",
         "SELECT count(*) FROM ranges WHERE rowCheck IS NOT tb_check(id,phaseId,moduleId,userId)"},
        {"table maps", "SELECT count(*) FROM maps WHERE rowCheck IS NOT tb_check(id,bytes,sums)"},
        {"table stacks", "SELECT count(*) FROM stacks WHERE rowCheck IS NOT tb_check(id,textId)"},
        {"table stacks",
         "SELECT count(*) FROM stacks WHERE textId NOT IN (SELECT id FROM StringIds)"},
        {"table events",
         "SELECT count(*) FROM events WHERE threadId + kind + flags + siteId + rangeId +"
         " seqOffset * 0 + span * 0 + step * 0 + args * 0 + start * 0 IS NULL"},
        {"table accesses", "SELECT count(*) FROM accesses WHERE alloc IS NULL OR offset IS NULL"},
        {"table siteAccesses",
         "SELECT (SELECT total(accessCount) FROM sites) - (SELECT count(*) FROM siteAccesses)"},
    };
    enum tb_status rc = TB_OK;

    for (size_t i = 0; rc == TB_OK && i < TB_ARRAY_LEN(tables); i++)
        rc = count_is(t, tables[i].query, 0, tables[i].what, err);
    return rc;
}

/* "[2,3]" is @n numbers; NULL: there are none */
static bool same_dims(const unsigned char *text, const int64_t *dims, int n)
{
    const char *p = (const char *)text;
    char *end;

    if (!p)
        return !dims;
    if (!dims && n)
        return false;
    if (*p++ != '[')
        return false;
    for (int d = 0; d < n; d++, p = end) {
        if (d && *p++ != ',')
            return false;
        if (strtoll(p, &end, 10) != dims[d] || end == p)
            return false;
    }
    return strcmp(p, "]") == 0;
}

/* siteAccesses is what sites.text says, laid out for SQL. */
static enum tb_status check_site_access(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err)
{
    uint32_t id = (uint32_t)sqlite3_column_int64(st, 0), i = (uint32_t)sqlite3_column_int64(st, 1);
    const struct tb_site_full *f = tb_trace_site_full(t, id, err);

    if (f && i < f->site.access_count) {
        const struct tb_site_access *a = &f->site.access[i];
        const char *dtype = (const char *)sqlite3_column_text(st, 3);
        const char *device = tb_trace_string(t, (uint32_t)sqlite3_column_int64(st, 4));
        const char *name = tb_trace_string(t, (uint32_t)sqlite3_column_int64(st, 5));
        const char *mode = (const char *)sqlite3_column_text(st, 2);
        if (mode && *mode == a->mode && dtype &&
            strcmp(dtype, tb_dtype_name((enum tb_dtype)a->dtype)) == 0 && device &&
            strcmp(device, a->device) == 0 && name && strcmp(name, a->argument) == 0 &&
            (uint64_t)sqlite3_column_int64(st, 6) == a->elements &&
            (uint64_t)sqlite3_column_int64(st, 7) == a->bytes &&
            sqlite3_column_int(st, 8) == (f->traits[i] & TB_TRAIT_KIND) &&
            same_dims(sqlite3_column_text(st, 9), a->sizes, a->ndim) &&
            same_dims(sqlite3_column_text(st, 10), a->strides, a->ndim))
            return TB_OK;
    }
    return tb_trace_damaged(t, err, "site %u, access %u", id, i);
}

static enum tb_status check_sites(struct tb_trace *t, struct tb_error *err)
{
    sqlite3_stmt *st = NULL;
    enum tb_status rc = TB_OK;
    int r =
        sqlite3_prepare_v2(t->db,
                           "SELECT siteId, accessIndex, mode, dtype, deviceId, nameId, elements,"
                           " bytes, fpKind, shape, strides FROM siteAccesses",
                           -1, &st, NULL);

    for (uint32_t id = 1; rc == TB_OK && id <= t->sites; id++)
        if (!tb_trace_site_full(t, id, NULL))
            rc = tb_trace_damaged(t, err, "site %u", id);
    while (r == SQLITE_OK && rc == TB_OK && (r = sqlite3_step(st)) == SQLITE_ROW) {
        rc = check_site_access(t, st, err);
        r = SQLITE_OK;
    }
    if (rc == TB_OK)
        rc = tb_trace_sql(t, r, err);
    (void)sqlite3_finalize(st);
    return rc;
}

/* Unpack every text and every snapshot once. */
static enum tb_status check_packed(struct tb_trace *t, struct tb_error *err)
{
    sqlite3_stmt *st = NULL;
    enum tb_status rc = TB_OK;
    int r = sqlite3_prepare_v2(t->db,
                               "SELECT DISTINCT NULL, accessId FROM snapshots UNION ALL"
                               " SELECT DISTINCT name, 0 FROM texts",
                               -1, &st, NULL);

    while (r == SQLITE_OK && rc == TB_OK && (r = sqlite3_step(st)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        uint64_t id = (uint64_t)sqlite3_column_int64(st, 1), n;
        void *data = NULL;
        if (!name)
            rc = tb_trace_snapshot(t, id >> TB_STORE_ACCESS_SHIFT,
                                   (uint32_t)(id & (TB_STORE_MAX_ACCESSES - 1)), &data, &n, err);
        else if (!tb_trace_text(t, name, NULL))
            rc = tb_trace_damaged(t, err, "text '%.80s'", name);
        free(data);
        r = SQLITE_OK;
    }
    if (rc == TB_OK)
        rc = tb_trace_sql(t, r, err);
    (void)sqlite3_finalize(st);
    return rc;
}

static enum tb_status check_structure(struct tb_trace *t, struct tb_error *err)
{
    sqlite3_stmt *st = NULL;
    enum tb_status rc = TB_OK;
    int r = sqlite3_prepare_v2(t->db, "PRAGMA quick_check(1)", -1, &st, NULL);

    if (r == SQLITE_OK && (r = sqlite3_step(st)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(st, 0);
        if (text && strstr(text, "error code=7")) /* SQLITE_NOMEM, which it tells in words only */
            rc = tb_trace_sql(t, SQLITE_NOMEM, err);
        else if (!text || strcmp(text, "ok") != 0)
            rc = tb_trace_damaged(t, err, "%.200s", text ? text : "?");
    }
    if (rc == TB_OK)
        rc = tb_trace_sql(t, r, err);
    (void)sqlite3_finalize(st);
    return rc;
}

enum tb_status tb_trace_verify(struct tb_trace *t, struct tb_error *err)
{
    uint64_t events = 0, accesses = 0;
    enum tb_status rc = check_structure(t, err);

    if (rc == TB_OK)
        rc = tb_trace_load_segments(t, err);
    if (rc == TB_OK)
        rc = check_rows(t, err);
    if (rc == TB_OK)
        rc = check_sites(t, err);
    if (rc == TB_OK)
        rc = read_events(t, &events, &accesses, err);
    if (rc == TB_OK)
        rc = count_is(t, "SELECT count(*) FROM events", events, "table events", err);
    if (rc == TB_OK)
        rc = count_is(t, "SELECT count(*) FROM accesses", accesses, "table accesses", err);
    if (rc == TB_OK)
        rc = tb_trace_coverage(t, 0, ignore_row, NULL, err);
    if (rc == TB_OK)
        rc = tb_trace_check_files(t, err);
    return rc == TB_OK ? check_packed(t, err) : rc;
}
