#include "store/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* The last column of each says whether the row still has its checksum. */
static const char *const sql[TB_GET_COUNT] = {
    [TB_GET_TEXT] = "SELECT part, totalBytes, data, rowCheck IS tb_check(name,part,totalBytes)"
                    " FROM texts WHERE name=? ORDER BY part",
    [TB_GET_STRING] = "SELECT value, rowCheck IS tb_check(id,value) FROM StringIds WHERE id=?",
    [TB_GET_SITE] = "SELECT text, hash, accessCount, rowCheck IS"
                    " tb_check(id,tapId,nameId,accessCount,hash,text) FROM sites WHERE id=?",
    [TB_GET_RANGE] = "SELECT phaseId, moduleId, userId, rowCheck IS"
                     " tb_check(id,phaseId,moduleId,userId) FROM ranges WHERE id=?",
    [TB_GET_SNAPSHOT] = "SELECT part, totalBytes, data, rowCheck IS"
                        " tb_check(accessId,part,totalBytes) FROM snapshots WHERE accessId=?"
                        " ORDER BY part",
    [TB_GET_MAP] = "SELECT bytes, sums, rowCheck IS tb_check(id,bytes,sums) FROM maps WHERE id=?",
    [TB_GET_STACK] = "SELECT textId, rowCheck IS tb_check(id,textId) FROM stacks WHERE id=?",
};

sqlite3_stmt *tb_trace_stmt(struct tb_trace *t, enum tb_trace_stmt id)
{
    if (t->stmt[id])
        (void)sqlite3_reset(t->stmt[id]);
    else
        (void)tb_trace_sql(
            t,
            sqlite3_prepare_v3(t->db, sql[id], -1, SQLITE_PREPARE_PERSISTENT, &t->stmt[id], NULL),
            &t->read_error);
    return t->stmt[id];
}

/* ---------------------------------------------------------------- meta and texts */

const char *tb_trace_meta(struct tb_trace *t, const char *key)
{
    for (size_t i = 0; i < t->pairs; i++)
        if (strcmp(t->pair[i].key, key) == 0)
            return t->pair[i].value;
    return NULL;
}

bool tb_trace_meta_at(struct tb_trace *t, size_t i, const char **key, const char **value)
{
    if (i >= t->pairs)
        return false;
    *key = t->pair[i].key;
    *value = t->pair[i].value;
    return true;
}

bool tb_trace_unpack(sqlite3_stmt *st, int column, char *out, uint64_t room, uint64_t *n)
{
    const void *data = sqlite3_column_blob(st, column);
    size_t size = (size_t)sqlite3_column_bytes(st, column);

    if (!data || size == 0)
        return false;
    size_t r = ZSTD_decompress(out, room < TB_STORE_PART ? room : TB_STORE_PART, data, size);
    *n = ZSTD_isError(r) ? 0 : r;
    return !ZSTD_isError(r);
}

/* All parts of a text or a snapshot: malloc'ed, one byte longer than *@n and zero there. */
static enum tb_status unpack_all(struct tb_trace *t, sqlite3_stmt *st, const char *what, char **out,
                                 uint64_t *n, struct tb_error *err)
{
    enum tb_status rc = TB_OK;
    uint64_t total = 0, done = 0, got;
    int64_t part = 0;
    char *buf = NULL;
    int r = SQLITE_DONE;

    while (rc == TB_OK && (r = sqlite3_step(st)) == SQLITE_ROW) {
        if (!tb_trace_whole(st) || sqlite3_column_int64(st, 0) != part ||
            (part > 0 && (uint64_t)sqlite3_column_int64(st, 1) != total)) {
            rc = tb_trace_damaged(t, err, "%s, part %" PRId64, what, part);
            break;
        }
        total = (uint64_t)sqlite3_column_int64(st, 1);
        if (!buf && !(buf = malloc(total + 1)))
            rc = tb_trace_no_memory(t, err);
        else if (!tb_trace_unpack(st, 2, buf + done, total - done, &got))
            rc = tb_trace_damaged(t, err, "%s, part %" PRId64, what, part);
        else
            done += got;
        part++;
    }
    if (rc == TB_OK)
        rc = tb_trace_sql(t, r, err);
    if (rc == TB_OK && !buf)
        rc = tb_fail(err, TB_ERR_NOTFOUND, "%s is not in '%s'", what, t->path);
    if (rc == TB_OK && done != total)
        rc = tb_trace_damaged(t, err, "%s: %" PRIu64 " of %" PRIu64 " bytes", what, done, total);
    (void)sqlite3_reset(st);
    if (rc || !buf) {
        free(buf);
        return rc;
    }
    buf[total] = '\0';
    *out = buf;
    *n = total;
    return TB_OK;
}

const char *tb_trace_text(struct tb_trace *t, const char *key, size_t *n)
{
    struct tb_trace_text *x = t->texts;
    char what[128], *bytes;
    uint64_t size;

    while (x && strcmp(x->key, key) != 0)
        x = x->next;
    if (!x) {
        sqlite3_stmt *st = tb_trace_stmt(t, TB_GET_TEXT);
        int r = st ? sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC) : SQLITE_NOMEM;
        if (r != SQLITE_OK) {
            (void)tb_trace_sql(t, r, &t->read_error);
            return NULL;
        }
        (void)snprintf(what, sizeof(what), "text '%.80s'", key);
        if (unpack_all(t, st, what, &bytes, &size, &t->read_error))
            return NULL;
        x = tb_trace_keep(&t->texts, key, bytes, size);
        free(bytes);
        t->starved = t->starved || !x;
        if (!x)
            return NULL;
    }
    if (n)
        *n = x->n;
    return x->bytes;
}

const struct tb_error *tb_trace_text_error(const struct tb_trace *t)
{
    return &t->read_error;
}

/* ---------------------------------------------------------------- strings, ranges, sites */

/* The one row with this id, or NULL: not there, damaged (then t->read_error says so). */
static sqlite3_stmt *row_of(struct tb_trace *t, enum tb_trace_stmt id, int64_t key,
                            const char *what)
{
    sqlite3_stmt *st = tb_trace_stmt(t, id);

    if (!st)
        return NULL;
    (void)sqlite3_bind_int64(st, 1, key);
    int r = sqlite3_step(st);
    if (r == SQLITE_ROW && tb_trace_whole(st))
        return st;
    if (r == SQLITE_ROW)
        (void)tb_trace_damaged(t, &t->read_error, "%s %" PRId64, what, key);
    else if (r != SQLITE_DONE)
        (void)tb_trace_sql(t, r, &t->read_error);
    (void)sqlite3_reset(st);
    return NULL;
}

const char *tb_trace_string(struct tb_trace *t, uint32_t id)
{
    if (id == 0 || id > t->strings)
        return NULL;
    if (!t->string[id - 1]) {
        sqlite3_stmt *st = row_of(t, TB_GET_STRING, id, "string");
        if (!st)
            return NULL;
        t->string[id - 1] = strdup(tb_trace_column_text(st, 0));
        t->starved = t->starved || !t->string[id - 1];
        if (t->string[id - 1])
            (void)tb_plain(t->string[id - 1], true);
        (void)sqlite3_reset(st);
    }
    return t->string[id - 1];
}

const char *tb_trace_range(struct tb_trace *t, uint32_t id)
{
    if (id == 0)
        return "";
    if (id > t->ranges)
        return NULL;
    if (!t->range[id - 1]) {
        const char *part[3] = {NULL};
        sqlite3_stmt *st = row_of(t, TB_GET_RANGE, id, "range");
        for (int i = 0; st && i < 3; i++)
            part[i] = tb_trace_string(t, (uint32_t)sqlite3_column_int64(st, i));
        if (st)
            (void)sqlite3_reset(st);
        if (!part[0] || !part[1] || !part[2] ||
            asprintf(&t->range[id - 1], "%s\t%s\t%s", part[0], part[1], part[2]) < 0) {
            t->range[id - 1] = NULL;
            t->starved = t->starved || (part[0] && part[1] && part[2]);
            return NULL;
        }
        for (char *c = t->range[id - 1]; (c = strchr(c, '\n'));)
            *c = '?';
    }
    return t->range[id - 1];
}

const struct tb_site_full *tb_trace_site_full(struct tb_trace *t, uint32_t id, struct tb_error *err)
{
    struct tb_site_full *full = NULL;

    if (id == 0 || id > t->sites)
        return NULL;
    if (t->site[id - 1])
        return t->site[id - 1];
    sqlite3_stmt *st = row_of(t, TB_GET_SITE, id, "site");
    if (!st)
        return NULL;
    size_t n = (size_t)sqlite3_column_bytes(st, 0);
    enum tb_status status = tb_site_parse(tb_trace_column_text(st, 0), n, &full, err);
    if (status == TB_OK) {
        const void *hash = sqlite3_column_blob(st, 1);
        if (sqlite3_column_bytes(st, 1) == 16 && memcmp(hash, full->site.hash, 16) == 0 &&
            sqlite3_column_int64(st, 2) == full->site.access_count) {
            full->site.id = id;
            t->site[id - 1] = full;
        } else {
            free(full);
        }
    } else if (status == TB_ERR_NOMEM) {
        t->starved = true;
    }
    (void)sqlite3_reset(st);
    return t->site[id - 1];
}

const struct tb_site *tb_trace_site(struct tb_trace *t, uint32_t id)
{
    const struct tb_site_full *f = tb_trace_site_full(t, id, &t->read_error);

    return f ? &f->site : NULL;
}

const char *tb_trace_stack(struct tb_trace *t, uint64_t event)
{
    sqlite3_stmt *st = row_of(t, TB_GET_STACK, (int64_t)event, "the stack of event");
    uint32_t id = st ? (uint32_t)sqlite3_column_int64(st, 0) : 0;

    if (st)
        (void)sqlite3_reset(st);
    return tb_trace_string(t, id);
}

/* ---------------------------------------------------------------- coverage, lost, of one access */

/* The texts of a coverage row, which SQLite owns, as copies that can be printed; false: no memory
 */
static bool plain_texts(struct tb_trace_coverage *row, char *copy[3])
{
    const char **const text[] = {&row->kind, &row->subject, &row->detail};

    for (int i = 0; i < 3; i++) {
        copy[i] = strdup(*text[i]);
        if (copy[i])
            *text[i] = tb_plain(copy[i], true);
    }
    return copy[0] && copy[1] && copy[2];
}

enum tb_status tb_trace_coverage(struct tb_trace *t, uint32_t process,
                                 bool (*fn)(void *arg, const struct tb_trace_coverage *row),
                                 void *arg, struct tb_error *err)
{
    sqlite3_stmt *st = NULL;
    enum tb_status rc = TB_OK;
    bool go = true;
    int r = sqlite3_prepare_v2(
        t->db,
        "SELECT processId, threadId, eventId, severity, kind, subject, detail, count, rowCheck IS"
        " tb_check(processId,threadId,eventId,severity,kind,subject,detail,count) FROM coverage"
        " WHERE ?1=0 OR processId=?1 ORDER BY id",
        -1, &st, NULL);

    if (r == SQLITE_OK)
        r = sqlite3_bind_int64(st, 1, process);
    while (r == SQLITE_OK && rc == TB_OK && go && (r = sqlite3_step(st)) == SQLITE_ROW) {
        struct tb_trace_coverage row = {
            .process = (uint32_t)sqlite3_column_int64(st, 0),
            .thread = (uint32_t)sqlite3_column_int64(st, 1),
            .event = (uint64_t)sqlite3_column_int64(st, 2),
            .severity = (uint32_t)sqlite3_column_int64(st, 3),
            .kind = tb_trace_column_text(st, 4),
            .subject = tb_trace_column_text(st, 5),
            .detail = tb_trace_column_text(st, 6),
            .count = (uint64_t)sqlite3_column_int64(st, 7),
        };
        bool starved = (sqlite3_errcode(t->db) & 0xff) == SQLITE_NOMEM;
        char *copy[3];
        if (!plain_texts(&row, copy) || starved)
            rc = tb_trace_no_memory(t, err);
        else if (tb_trace_whole(st))
            go = fn(arg, &row);
        else
            rc = tb_trace_damaged(t, err, "a coverage row of process %u", row.process);
        for (int i = 0; i < 3; i++)
            free(copy[i]);
        r = SQLITE_OK;
    }
    if (rc == TB_OK)
        rc = tb_trace_sql(t, r, err);
    (void)sqlite3_finalize(st);
    return rc;
}

bool tb_trace_lost(struct tb_trace *t, uint64_t *count, const char **why)
{
    if (count)
        *count = t->info.lost;
    if (why)
        *why = t->lost_why ? t->lost_why : "";
    return t->lost_why != NULL;
}

enum tb_status tb_trace_snapshot(struct tb_trace *t, uint64_t event, uint32_t access, void **data,
                                 uint64_t *n, struct tb_error *err)
{
    sqlite3_stmt *st = tb_trace_stmt(t, TB_GET_SNAPSHOT);
    char what[96], *bytes = NULL;

    if (!st)
        return tb_trace_sql(t, sqlite3_errcode(t->db), err);
    (void)sqlite3_bind_int64(st, 1, (sqlite3_int64)(event << TB_STORE_ACCESS_SHIFT | access));
    (void)snprintf(what, sizeof(what), "the snapshot of event %" PRIu64 ", access %u", event,
                   access);
    enum tb_status rc = unpack_all(t, st, what, &bytes, n, err);
    if (rc == TB_OK)
        *data = bytes;
    return rc;
}

enum tb_status tb_trace_map(struct tb_trace *t, uint64_t event, uint32_t access, uint64_t sums[32],
                            uint32_t *parts, struct tb_error *err)
{
    t->read_error = (struct tb_error){0};
    sqlite3_stmt *st = row_of(t, TB_GET_MAP, (int64_t)(event << TB_STORE_ACCESS_SHIFT | access),
                              "the map of access");

    if (!st)
        return t->read_error.status
                   ? tb_fail(err, t->read_error.status, "%s", t->read_error.text)
                   : tb_fail(err, TB_ERR_NOTFOUND, "no map of event %" PRIu64 ", access %u", event,
                             access);
    size_t n = (size_t)sqlite3_column_bytes(st, 1);
    uint64_t le[2 * TB_FP_MAP_MAX] = {0};
    if (n <= sizeof(le)) {
        if (n > 0)
            memcpy(le, sqlite3_column_blob(st, 1), n);
        for (size_t i = 0; i < n / 8; i++)
            sums[i] = le64toh(le[i]);
        *parts = (uint32_t)(n / 16);
    }
    (void)sqlite3_reset(st);
    return n <= sizeof(le) ? TB_OK : tb_trace_damaged(t, err, "the map of event %" PRIu64, event);
}
