#include "store/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tb_trace_whole(sqlite3_stmt *st)
{
    return sqlite3_column_int(st, sqlite3_column_count(st) - 1) == 1;
}

enum tb_status tb_trace_no_memory(struct tb_trace *t, struct tb_error *err)
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
        rc = tb_trace_whole(st) ? fn(t, st, err)
                                : tb_trace_damaged(t, err, "%s '%.80s'", what, first ? first : "?");
        r = SQLITE_OK;
    }
    if (rc == TB_OK)
        rc = tb_trace_sql(t, r, err);
    (void)sqlite3_finalize(st);
    return rc;
}

const char *tb_trace_column_text(sqlite3_stmt *st, int i)
{
    const char *s = (const char *)sqlite3_column_text(st, i);

    return s ? s : "";
}

/* A copy that lives as long as the handle. */
struct tb_trace_text *tb_trace_keep(struct tb_trace_text **list, const char *key, const void *bytes,
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
    const char *s = tb_trace_column_text(st, i);
    struct tb_trace_text *x = tb_trace_keep(&t->misc, NULL, s, strlen(s));

    return x ? tb_plain(x->bytes, true) : NULL;
}

/* @array with room for item number @n, doubling; NULL: no memory, @array is as it was. */
static void *more(void *array, size_t n, size_t size)
{
    if ((n & (n - 1)) != 0 || n == 1)
        return array;
    return realloc(array, (n ? n * 2 : 2) * size);
}

static enum tb_status on_meta(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err)
{
    void *grown = more(t->pair, t->pairs, sizeof(*t->pair));
    if (!grown)
        return tb_trace_no_memory(t, err);
    t->pair = grown;
    struct tb_trace_pair *p = &t->pair[t->pairs];
    *p = (struct tb_trace_pair){strdup(tb_trace_column_text(st, 0)),
                                strdup(tb_trace_column_text(st, 1))};
    t->pairs++;
    return p->key && p->value ? TB_OK : tb_trace_no_memory(t, err);
}

static enum tb_status on_process(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err)
{
    void *grown = more(t->process, t->processes, sizeof(*t->process));
    if (!grown)
        return tb_trace_no_memory(t, err);
    t->process = grown;
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
    return p->argv && p->identity ? TB_OK : tb_trace_no_memory(t, err);
}

static enum tb_status on_thread(struct tb_trace *t, sqlite3_stmt *st, struct tb_error *err)
{
    void *grown = more(t->thread, t->threads, sizeof(*t->thread));
    if (!grown)
        return tb_trace_no_memory(t, err);
    t->thread = grown;
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
    (void)tb_plain(t->string[sqlite3_column_int64(st, 3) - 1], false);
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
    const char *why = tb_trace_column_text(st, 2);
    char *joined = NULL;

    t->info.lost += (uint64_t)sqlite3_column_int64(st, 1);
    if (t->lost_why && strstr(t->lost_why, why))
        return TB_OK;
    if (asprintf(&joined, "%s%s%s", t->lost_why ? t->lost_why : "", t->lost_why ? "; " : "", why) <
        0)
        return tb_trace_no_memory(t, err);
    free(t->lost_why);
    t->lost_why = tb_plain(joined, false);
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
    return t->string && t->site && t->range ? TB_OK : tb_trace_no_memory(t, err);
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
    void *grown = more(list->segment, list->n, sizeof(*list->segment));
    if (grown)
        list->segment = grown;
    void *checks = grown ? more(list->check, list->n, sizeof(*list->check)) : NULL;
    if (!checks)
        return tb_trace_no_memory(t, err);
    list->check = checks;
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
        return tb_trace_no_memory(t, err);
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
        return tb_trace_no_memory(t, err);
    if (size)
        memcpy(copy, t->segments[i].segment, size);
    *out = copy;
    *n = t->segments[i].n;
    return TB_OK;
}
