#include "store/writer.h"

#include <stdlib.h>
#include <string.h>

static const char *const sql[TB_SQL_COUNT] = {
    [TB_SQL_BEGIN] = "BEGIN",
    [TB_SQL_COMMIT] = "COMMIT",
    [TB_SQL_EVENTS] = "INSERT INTO events SELECT * FROM batchEvents",
    [TB_SQL_ACCESSES] = "INSERT INTO accesses SELECT * FROM batchAccesses",
    [TB_SQL_META] = "INSERT OR REPLACE INTO meta VALUES(?1,?2,tb_check(?1,?2))",
    [TB_SQL_META_SCHEMA] =
        "INSERT INTO meta SELECT 'schemaCheck', v, tb_check('schemaCheck', v) FROM"
        " (SELECT CAST(tb_check(group_concat(sql)) AS TEXT) AS v FROM"
        " (SELECT sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY name))",
    [TB_SQL_TEXT] = "INSERT INTO texts VALUES(NULL,?1,?2,?3,?4,tb_check(?1,?2,?3))",
    [TB_SQL_TEXT_DELETE] = "DELETE FROM texts WHERE name=?1",
    [TB_SQL_STRING] = "INSERT INTO StringIds VALUES(?1,?2,tb_check(?1,?2))",
    [TB_SQL_PROCESS] = "INSERT OR REPLACE INTO processes VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,"
                       "tb_check(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10))",
    [TB_SQL_THREAD] = "INSERT INTO threads VALUES(?1,?2,?3,?4,NULL,tb_check(?1,?2,?3,?4,NULL))",
    [TB_SQL_THREAD_COUNT] =
        "UPDATE threads SET eventCount = n, rowCheck = tb_check(id,processId,ordinal,nameId,n) FROM"
        " (SELECT coalesce((SELECT sum(eventCount) FROM segments WHERE threadId=?1), 0) AS n)"
        " WHERE id=?1",
    [TB_SQL_SITE] = "INSERT INTO sites VALUES(?1,?2,?3,?4,?5,?6,tb_check(?1,?2,?3,?4,?5,?6))",
    [TB_SQL_SITE_ACCESS] = "INSERT INTO siteAccesses VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    [TB_SQL_RANGE] = "INSERT INTO ranges VALUES(?1,?2,?3,?4,tb_check(?1,?2,?3,?4))",
    [TB_SQL_SEGMENT] = "INSERT OR REPLACE INTO segments VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,1,"
                       "tb_check(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,1))",
    [TB_SQL_SEGMENT_FIND] =
        "SELECT id, coverage FROM segments WHERE threadId=?1 AND firstId<=?2 AND lastId>=?2"
        " ORDER BY firstId DESC LIMIT 1",
    [TB_SQL_SEGMENT_COVERAGE] =
        "UPDATE segments SET coverage=?2, rowCheck=tb_check(id,threadId,step,firstId,lastId,"
        "eventCount,seqFirst,digest,?2,eventCheck,detail) WHERE id=?1",
    [TB_SQL_EVENT_THREAD] = "SELECT threadId FROM events WHERE id=?1",
    [TB_SQL_COVERAGE] = "INSERT INTO coverage "
                        "VALUES(NULL,?1,?2,?3,?4,?5,?6,?7,?8,tb_check(?1,?2,?3,?4,?5,?6,?7,?8))"
                        " ON CONFLICT DO UPDATE SET count=count+excluded.count,"
                        " rowCheck=tb_check(?1,?2,?3,?4,?5,?6,?7,count+excluded.count)",
    [TB_SQL_LOST] = "INSERT INTO lost VALUES(NULL,?1,?2,?3,?4,tb_check(?1,?2,?3,?4))",
    [TB_SQL_MAP] = "INSERT OR REPLACE INTO maps VALUES(?1,?2,?3,tb_check(?1,?2,?3))",
    [TB_SQL_SNAPSHOT] =
        "INSERT OR REPLACE INTO snapshots VALUES(NULL,?1,?2,?3,?4,tb_check(?1,?2,?3))",
    [TB_SQL_STACK] = "INSERT OR REPLACE INTO stacks VALUES(?1,?2,tb_check(?1,?2))",
    [TB_SQL_FILE] =
        "INSERT OR REPLACE INTO files VALUES(NULL,?1,?2,?3,?4,?5,?6,tb_check(?1,?2,?3,?4,?5))",
    [TB_SQL_PAGES] = "SELECT (SELECT page_count * page_size FROM pragma_page_count,"
                     " pragma_page_size), (SELECT freelist_count * page_size FROM"
                     " pragma_freelist_count, pragma_page_size)",
    [TB_SQL_OLDEST] =
        "SELECT id, threadId, firstId, lastId, eventCount FROM segments WHERE detail=1"
        " ORDER BY lastId LIMIT 4096",
    [TB_SQL_DROP_EVENTS] = "DELETE FROM events WHERE id BETWEEN ?1 AND ?2 AND threadId=?3",
    [TB_SQL_DROP_ACCESSES] =
        "DELETE FROM accesses WHERE id BETWEEN ?1<<16 AND (?2<<16|65535) AND"
        " (?3 OR (id>>16) IN (SELECT id FROM events WHERE id BETWEEN ?1 AND ?2 AND threadId=?4))",
    [TB_SQL_DROP_MAPS] = "DELETE FROM maps WHERE id BETWEEN ?1<<16 AND (?2<<16|65535) AND"
                         " (id>>16) NOT IN (SELECT id FROM events WHERE id BETWEEN ?1 AND ?2)",
    [TB_SQL_DROP_STACKS] = "DELETE FROM stacks WHERE id BETWEEN ?1 AND ?2 AND id NOT IN"
                           " (SELECT id FROM events WHERE id BETWEEN ?1 AND ?2)",
    [TB_SQL_DROP_DETAIL] = "UPDATE segments SET detail=0, "
                           "rowCheck=tb_check(id,threadId,step,firstId,lastId,eventCount,"
                           "seqFirst,digest,coverage,eventCheck,0) WHERE id=?1",
};

/* ---------------------------------------------------------------- statements */

sqlite3_stmt *tb_writer_stmt(struct tb_store *s, enum tb_writer_stmt id)
{
    if (!s->stmt[id]) {
        int rc =
            sqlite3_prepare_v3(s->db, sql[id], -1, SQLITE_PREPARE_PERSISTENT, &s->stmt[id], NULL);
        if (rc != SQLITE_OK)
            tb_writer_broke(s, rc);
    }
    return s->stmt[id];
}

static int bind_all(sqlite3_stmt *st, const char *format, va_list ap)
{
    int rc = SQLITE_OK;

    for (int i = 1; rc == SQLITE_OK && *format; format++, i++) {
        const void *p;
        size_t n;
        switch (*format) {
        case 'i':
            rc = sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
            break;
        case 't':
            rc = sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
            break;
        case 's':
            p = va_arg(ap, const char *);
            n = va_arg(ap, size_t);
            rc = sqlite3_bind_text64(st, i, p ? p : "", n, SQLITE_STATIC, SQLITE_UTF8);
            break;
        default:
            p = va_arg(ap, const void *);
            n = va_arg(ap, size_t);
            rc = p ? sqlite3_bind_blob64(st, i, p, n, SQLITE_STATIC) : sqlite3_bind_null(st, i);
        }
    }
    return rc;
}

/* Bind and step once; the row, if there is one, stays until the statement is reset. */
static sqlite3_stmt *start(struct tb_store *s, enum tb_writer_stmt id, int *rc, const char *format,
                           va_list ap)
{
    if (s->failed || (id > TB_SQL_PAGES && !tb_writer_begin(s)))
        return NULL;
    sqlite3_stmt *st = tb_writer_stmt(s, id);
    if (!st)
        return NULL;
    *rc = bind_all(st, format, ap);
    if (*rc == SQLITE_OK)
        *rc = sqlite3_step(st);
    return st;
}

bool tb_writer_finish(struct tb_store *s, sqlite3_stmt *st, int rc)
{
    (void)sqlite3_reset(st);
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        tb_writer_broke(s, rc);
    return !s->failed;
}

bool tb_writer_run(struct tb_store *s, enum tb_writer_stmt id, const char *format, ...)
{
    int rc = SQLITE_DONE;
    va_list ap;

    va_start(ap, format);
    sqlite3_stmt *st = start(s, id, &rc, format, ap);
    va_end(ap);
    return st && tb_writer_finish(s, st, rc);
}

bool tb_writer_query(struct tb_store *s, enum tb_writer_stmt id, int64_t *out, int columns,
                     const char *format, ...)
{
    int rc = SQLITE_DONE;
    va_list ap;

    va_start(ap, format);
    sqlite3_stmt *st = start(s, id, &rc, format, ap);
    va_end(ap);
    for (int i = 0; st && rc == SQLITE_ROW && i < columns; i++)
        out[i] = sqlite3_column_int64(st, i);
    return st && tb_writer_finish(s, st, rc) && rc == SQLITE_ROW;
}

bool tb_writer_begin(struct tb_store *s)
{
    if (!s->in_txn && !s->failed)
        s->in_txn = tb_writer_run(s, TB_SQL_BEGIN, "");
    return s->in_txn;
}

void *tb_writer_grow(void *array, uint32_t count, uint32_t *room, size_t size)
{
    uint32_t more = *room ? *room * 2 : 64;

    if (count < *room)
        return array;
    array = realloc(array, more * size);
    if (array)
        *room = more;
    return array;
}
