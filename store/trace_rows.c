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

static bool whole(sqlite3_stmt *st)
{
    return sqlite3_column_int(st, sqlite3_column_count(st) - 1) == 1;
}

static enum tb_status no_memory(struct tb_trace *t, struct tb_error *err)
{
    t->starved = true;
    return tb_fail(err, TB_ERR_NOMEM, "cannot read '%s': no memory", t->path);
}

/* ---------------------------------------------------------------- small tables */

typedef enum tb_status row_function(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err);

/* Calls @fn for each row; a row without its checksum is damage to "@what @id" (its first column).
 */
static enum tb_status each(struct tb_trace *t, const char *query, const char *what,
                           row_function *fn, struct tb_error *err)
{
    sqlite3_stmt *st = NULL;
    enum tb_status rc = TB_OK;
    int r = sqlite3_prepare_v2(t->db, query, -1, &st, NULL);

    while (r == SQLITE_OK && rc == TB_OK && (r = sqlite3_step(st)) == SQLITE_ROW) {
        const char *first = (const char *)sqlite3_column_text(st, 0);
        rc = whole(st) ? fn(t, st, err)
                       : tb_trace_damaged(t, err, "%s '%.80s'", what, first ? first : "?");
        r = SQLITE_OK;
    }
    if (rc == TB_OK)
        rc = tb_trace_sql(t, r, err);
    (void)sqlite3_finalize(st);
    return rc;
}

static const char *column_text(sqlite3_stmt *st, int i)
{
    const char *s = (const char *)sqlite3_column_text(st, i);

    return s ? s : "";
}

/* A copy that lives as long as the handle. */
static struct tb_trace_text *keep(struct tb_trace_text **list, const char *key, const void *bytes,
                                  size_t n)
{
    struct tb_trace_text *x = calloc(1, sizeof(*x) + n + 1);

    if (!x)
        return NULL;
    if (key && !(x->key = strdup(key))) {
        free(x);
        return NULL;
    }
    if (bytes)
        memcpy(x->bytes, bytes, n);
    x->n = n;
    x->next = *list;
    *list = x;
    return x;
}

static const char *keep_column(struct tb_trace *t, sqlite3_stmt *st, int i)
{
    const char *s = column_text(st, i);
    struct tb_trace_text *x = keep(&t->misc, NULL, s, strlen(s));

    return x ? x->bytes : NULL;
}

/* Room for item number @n of an array that doubles. */
static bool more(void *array, size_t n, size_t size)
{
    void *p;

    if (n & (n - 1) || n == 1)
        return true;
    memcpy(&p, array, sizeof(p));
    p = realloc(p, (n ? n * 2 : 2) * size);
    if (p)
        memcpy(array, &p, sizeof(p));
    return p != NULL;
}

static enum tb_status on_meta(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err)
{
    if (!more(&t->pair, t->pairs, sizeof(*t->pair)))
        return no_memory(t, err);
    struct tb_trace_pair *p = &t->pair[t->pairs];
    *p = (struct tb_trace_pair){strdup(column_text(st, 0)), strdup(column_text(st, 1))};
    t->pairs++;
    return p->key && p->value ? TB_OK : no_memory(t, err);
}

static enum tb_status on_process(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err)
{
    if (!more(&t->process, t->processes, sizeof(*t->process)))
        return no_memory(t, err);
    struct tb_trace_process *p = &t->process[t->processes++];
    *p = (struct tb_trace_process){
        .id = (uint32_t)sqlite3_column_int64(st, 0),
        .pid = sqlite3_column_int(st, 1),
        .parent = (uint32_t)sqlite3_column_int64(st, 2),
        .ordinal = (uint32_t)sqlite3_column_int64(st, 3),
        .rank = sqlite3_column_int(st, 4),
        .restart = sqlite3_column_int(st, 5),
        .worker = sqlite3_column_int(st, 6),
        .argv = keep_column(t, st, 7),
        .identity = keep_column(t, st, 8),
    };
    return p->argv && p->identity ? TB_OK : no_memory(t, err);
}

static enum tb_status on_thread(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err)
{
    if (!more(&t->thread, t->threads, sizeof(*t->thread)))
        return no_memory(t, err);
    struct tb_trace_thread *x = &t->thread[t->threads];
    *x = (struct tb_trace_thread){
        .id = (uint32_t)sqlite3_column_int64(st, 0),
        .process = (uint32_t)sqlite3_column_int64(st, 1),
        .ordinal = (uint32_t)sqlite3_column_int64(st, 2),
        .role = tb_trace_string(t, (uint32_t)sqlite3_column_int64(st, 3)),
        .events = (uint64_t)sqlite3_column_int64(st, 5),
    };
    if (!x->role)
        return tb_trace_damaged(t, err, "the role of thread %u", x->id);
    if (sqlite3_column_type(st, 4) != SQLITE_NULL &&
        (uint64_t)sqlite3_column_int64(st, 4) != x->events)
        return tb_trace_damaged(t, err, "the segments of thread %u", x->id);
    t->info.events += x->events;
    t->max_thread = x->id > t->max_thread ? x->id : t->max_thread;
    t->threads++;
    return TB_OK;
}

static enum tb_status on_lost(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err)
{
    const char *why = column_text(st, 2);
    char *joined = NULL;

    t->info.lost += (uint64_t)sqlite3_column_int64(st, 1);
    if (t->lost_why && strstr(t->lost_why, why))
        return TB_OK;
    if (asprintf(&joined, "%s%s%s", t->lost_why ? t->lost_why : "", t->lost_why ? "; " : "", why) <
        0)
        return no_memory(t, err);
    free(t->lost_why);
    t->lost_why = joined;
    return TB_OK;
}

/* Ids of these tables are 1..n without gaps. */
static enum tb_status on_counts(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err)
{
    static const char *const name[] = {"StringIds", "sites", "ranges"};
    uint32_t *const count[] = {&t->strings, &t->sites, &t->ranges};

    for (int i = 0; i < 3; i++) {
        int64_t n = sqlite3_column_int64(st, 2 * i);
        if (n != sqlite3_column_int64(st, 2 * i + 1) || n < 0 || n > INT32_MAX)
            return tb_trace_damaged(t, err, "table %s", name[i]);
        *count[i] = (uint32_t)n;
    }
    t->string = calloc(t->strings + 1u, sizeof(*t->string));
    t->site = calloc(t->sites + 1u, sizeof(struct tb_site_full *));
    t->range = calloc(t->ranges + 1u, sizeof(*t->range));
    return t->string && t->site && t->range ? TB_OK : no_memory(t, err);
}

enum tb_status tb_trace_load(struct tb_trace *t, struct tb_error *err)
{
    static const struct {
        const char *what, *query;
        row_function *fn;
    } tables[] = {
        {"meta", "SELECT name, value, rowCheck IS tb_check(name,value) FROM meta", on_meta},
        {"the tables",
         "SELECT (SELECT count(*) FROM StringIds), (SELECT coalesce(max(id),0) FROM StringIds),"
         " (SELECT count(*) FROM sites), (SELECT coalesce(max(id),0) FROM sites),"
         " (SELECT count(*) FROM ranges), (SELECT coalesce(max(id),0) FROM ranges), 1",
         on_counts},
        {"process",
         "SELECT id, pid, parentId, ordinal, rank, restart, worker, name, identity, rowCheck IS"
         " tb_check(id,globalPid,pid,parentId,ordinal,rank,restart,worker,name,identity)"
         " FROM processes ORDER BY id",
         on_process},
        {"thread",
         "SELECT id, processId, ordinal, nameId, eventCount, coalesce((SELECT sum(s.eventCount) "
         "FROM"
         " segments s WHERE s.threadId=t.id), 0), rowCheck IS"
         " tb_check(id,processId,ordinal,nameId,eventCount) FROM threads t ORDER BY id",
         on_thread},
        {"lost",
         "SELECT id, count, why, rowCheck IS tb_check(processId,threadId,count,why) FROM lost",
         on_lost},
    };
    enum tb_status rc = TB_OK;

    for (size_t i = 0; rc == TB_OK && i < TB_ARRAY_LEN(tables); i++)
        rc = each(t, tables[i].query, tables[i].what, tables[i].fn, err);
    if (rc)
        return rc;
    const char *state = tb_trace_meta(t, "state"), *base = tb_trace_meta(t, "startMonotonicNs");
    t->base_ns = base ? strtoull(base, NULL, 10) : 0;
    t->info.complete = state && strcmp(state, "complete") == 0;
    t->info.processes = (uint32_t)t->processes;
    t->info.threads = (uint32_t)t->threads;
    return TB_OK;
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

/* Decompress one part into @out, which has @room bytes; 0 bytes written means damage unless room is
 * 0. */
static bool unpack(sqlite3_stmt *st, char *out, uint64_t room, uint64_t *n)
{
    const void *data = sqlite3_column_blob(st, 2);
    size_t size = (size_t)sqlite3_column_bytes(st, 2);

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
    int r;

    while (rc == TB_OK && (r = sqlite3_step(st)) == SQLITE_ROW) {
        if (!whole(st) || sqlite3_column_int64(st, 0) != part ||
            (part > 0 && (uint64_t)sqlite3_column_int64(st, 1) != total)) {
            rc = tb_trace_damaged(t, err, "%s, part %" PRId64, what, part);
            break;
        }
        total = (uint64_t)sqlite3_column_int64(st, 1);
        if (!buf && !(buf = malloc(total + 1)))
            rc = no_memory(t, err);
        else if (!unpack(st, buf + done, total - done, &got))
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
    if (rc) {
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
        x = keep(&t->texts, key, bytes, size);
        free(bytes);
        t->starved = t->starved || !x;
        if (!x)
            return NULL;
    }
    if (n)
        *n = x->n;
    return x->bytes;
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
    if (r == SQLITE_ROW && whole(st))
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
        t->string[id - 1] = strdup(column_text(st, 0));
        t->starved = t->starved || !t->string[id - 1];
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
    enum tb_status status = tb_site_parse(column_text(st, 0), n, &full, err);
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

/* ---------------------------------------------------------------- processes, threads, segments */

const struct tb_trace_process *tb_trace_processes(struct tb_trace *t, size_t *n)
{
    *n = t->processes;
    return t->process;
}

const struct tb_trace_thread *tb_trace_threads(struct tb_trace *t, size_t *n)
{
    *n = t->threads;
    return t->thread;
}

size_t tb_trace_thread_index(const struct tb_trace *t, uint32_t id)
{
    size_t lo = 0, hi = t->threads;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (t->thread[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->threads && t->thread[lo].id == id ? lo : SIZE_MAX;
}

static void copy16(uint8_t out[16], sqlite3_stmt *st, int column)
{
    memset(out, 0, 16);
    if (sqlite3_column_bytes(st, column) == 16)
        memcpy(out, sqlite3_column_blob(st, column), 16);
}

static enum tb_status on_segment(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err)
{
    size_t i = tb_trace_thread_index(t, (uint32_t)sqlite3_column_int64(st, 1));

    if (i == SIZE_MAX)
        return tb_trace_damaged(t, err, "segment %lld: no such thread",
                                sqlite3_column_int64(st, 0));
    struct tb_trace_thread_segments *list = &t->segments[i];
    if (!more(&list->segment, list->n, sizeof(*list->segment)) ||
        !more(&list->check, list->n, sizeof(*list->check)))
        return no_memory(t, err);
    struct tb_trace_segment *s = &list->segment[list->n];
    *s = (struct tb_trace_segment){
        .id = (uint64_t)sqlite3_column_int64(st, 0),
        .thread = t->thread[i].id,
        .step = (uint64_t)sqlite3_column_int64(st, 2),
        .first = (uint64_t)sqlite3_column_int64(st, 3),
        .last = (uint64_t)sqlite3_column_int64(st, 4),
        .count = (uint64_t)sqlite3_column_int64(st, 5),
        .seq_first = (uint64_t)sqlite3_column_int64(st, 6),
        .detail = sqlite3_column_int(st, 10) != 0,
    };
    copy16(s->digest, st, 7);
    copy16(s->coverage, st, 8);
    list->check[list->n] = (struct tb_trace_check){.check = sqlite3_column_int64(st, 9)};
    if (s->first > s->last || (list->n > 0 && s[-1].last >= s->first))
        return tb_trace_damaged(t, err, "segment %" PRIu64 ": out of order", s->id);
    list->n++;
    return TB_OK;
}

enum tb_status tb_trace_load_segments(struct tb_trace *t, struct tb_error *err)
{
    if (t->segments)
        return TB_OK;
    t->segments = calloc(t->threads + 1, sizeof(*t->segments));
    if (!t->segments)
        return no_memory(t, err);
    enum tb_status rc =
        each(t,
             "SELECT id, threadId, step, firstId, lastId, eventCount, seqFirst, digest, coverage,"
             " eventCheck, detail, rowCheck IS tb_check(id,threadId,step,firstId,lastId,eventCount,"
             "seqFirst,digest,coverage,eventCheck,detail) FROM segments ORDER BY id",
             "segment", on_segment, err);
    if (rc) {
        for (size_t i = 0; i < t->threads; i++) {
            free(t->segments[i].segment);
            free(t->segments[i].check);
        }
        free(t->segments);
        t->segments = NULL;
    }
    return rc;
}

enum tb_status tb_trace_segments(struct tb_trace *t, uint32_t thread, struct tb_trace_segment **out,
                                 size_t *n, struct tb_error *err)
{
    size_t i = tb_trace_thread_index(t, thread);

    if (i == SIZE_MAX)
        return tb_fail(err, TB_ERR_NOTFOUND, "no thread %u in '%s'", thread, t->path);
    enum tb_status rc = tb_trace_load_segments(t, err);
    if (rc)
        return rc;
    size_t size = t->segments[i].n * sizeof(**out);
    struct tb_trace_segment *copy = malloc(size ? size : 1);
    if (!copy)
        return no_memory(t, err);
    if (size)
        memcpy(copy, t->segments[i].segment, size);
    *out = copy;
    *n = t->segments[i].n;
    return TB_OK;
}

/* ---------------------------------------------------------------- coverage, lost, of one access */

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
            .kind = column_text(st, 4),
            .subject = column_text(st, 5),
            .detail = column_text(st, 6),
            .count = (uint64_t)sqlite3_column_int64(st, 7),
        };
        if ((sqlite3_errcode(t->db) & 0xff) == SQLITE_NOMEM)
            rc = no_memory(t, err);
        else if (whole(st))
            go = fn(arg, &row);
        else
            rc = tb_trace_damaged(t, err, "a coverage row of process %u", row.process);
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
    char what[96], *bytes;

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
    uint64_t le[2 * TB_FP_MAP_MAX];
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
