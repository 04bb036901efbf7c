/*
 * The reader's own state: trace.c opens and closes, trace_load.c reads what is asked for all the
 * time, trace_rows.c and trace_files.c look up the rest, scan.c and cursor.c stream events,
 * verify.c checks.
 */
#ifndef TB_STORE_TRACE_H
#define TB_STORE_TRACE_H

#include "store/rovfs.h"
#include "store/store_internal.h"

/* One prepared statement each; their SQL is in trace_rows.c. */
enum tb_trace_stmt {
    TB_GET_META,
    TB_GET_TEXT,
    TB_GET_STRING,
    TB_GET_SITE,
    TB_GET_RANGE,
    TB_GET_SNAPSHOT,
    TB_GET_MAP,
    TB_GET_STACK,
    TB_GET_COUNT
};

/** struct tb_trace_text - a string that lives as long as the handle */
struct tb_trace_text {
    struct tb_trace_text *next;
    char *key;
    size_t n;
    char bytes[]; /* NUL-terminated */
};

struct tb_trace_pair {
    char *key, *value;
};

/** struct tb_trace_check - what segments have beyond their public row */
struct tb_trace_check {
    int64_t check;
    bool verified;
};

/** struct tb_trace_thread_segments - a thread's segments in order */
struct tb_trace_thread_segments {
    struct tb_trace_segment *segment;
    struct tb_trace_check *check;
    size_t n, room;
};

struct tb_trace {
    sqlite3 *db;
    sqlite3_stmt *stmt[TB_GET_COUNT];
    struct tb_rovfs vfs;
    char *path, *copy; /* copy: temporary folder that holds a copy, NULL: read where it lies */
    char *warning;
    struct tb_trace_info info;
    struct tb_trace_pair *pair;
    size_t pairs;
    struct tb_trace_process *process;
    struct tb_trace_thread *thread;
    size_t processes, threads;
    uint32_t max_thread; /* largest thread id */
    char *lost_why;
    uint64_t base_ns;           /* what `start` is counted from */
    struct tb_site_full **site; /* by id - 1, read when first asked for */
    uint32_t sites;
    char **string; /* by id - 1 */
    uint32_t strings;
    char **range; /* by id - 1 */
    uint32_t ranges;
    struct tb_trace_text *texts, *misc;
    struct tb_trace_thread_segments *segments; /* by index in thread; NULL: not read yet */
    bool starved;                              /* memory ran out: what seems damaged may not be */
    struct tb_error read_error;                /* of the lookups that only return NULL */
};

/** tb_trace_sql - map a result of SQLite to a status, with the trace's name */
enum tb_status tb_trace_sql(struct tb_trace *t, int rc, struct tb_error *err);
/** tb_trace_damaged - TB_ERR_CORRUPT "trace corrupted at ..."; TB_ERR_NOMEM if memory ran out
 * before */
enum tb_status tb_trace_damaged(struct tb_trace *t, struct tb_error *err, const char *fmt, ...)
    TB_PRINTF(3, 4);
enum tb_status tb_trace_no_memory(struct tb_trace *t, struct tb_error *err);
/** tb_trace_whole - the row's last column: does it still have its checksum? */
bool tb_trace_whole(sqlite3_stmt *st);
/** tb_trace_column_text - never NULL; tb_trace_keep - a copy that lives as long as the handle */
const char *tb_trace_column_text(sqlite3_stmt *st, int i);
struct tb_trace_text *tb_trace_keep(struct tb_trace_text **list, const char *key, const void *bytes,
                                    size_t n);
/** tb_trace_unpack - the part of something large in @column to @out, which has @room bytes (no more
 * than TB_STORE_PART are used); false: damaged. No bytes where there is room are damage, too */
bool tb_trace_unpack(sqlite3_stmt *st, int column, char *out, uint64_t room, uint64_t *n);
/** tb_trace_load - read meta, processes, threads, sums: what is asked for all the time */
enum tb_status tb_trace_load(struct tb_trace *t, struct tb_error *err) TB_MUST_CHECK;
enum tb_status tb_trace_load_segments(struct tb_trace *t, struct tb_error *err) TB_MUST_CHECK;
/** tb_trace_stmt - prepared and reset statement, or NULL */
sqlite3_stmt *tb_trace_stmt(struct tb_trace *t, enum tb_trace_stmt id);
/** tb_trace_site_full - as tb_trace_site(); *@rc tells a damaged row from one that is not there */
const struct tb_site_full *tb_trace_site_full(struct tb_trace *t, uint32_t id,
                                              struct tb_error *err);
/** tb_trace_thread_index - index of a thread id, SIZE_MAX: no such thread */
size_t tb_trace_thread_index(const struct tb_trace *t, uint32_t id);
/** tb_trace_string - value in StringIds, NULL if it is not there or damaged */
const char *tb_trace_string(struct tb_trace *t, uint32_t id);

/* ---------------------------------------------------------------- scan.c */

/** struct tb_scan - events in id order with their accesses; the base of cursors and checks */
struct tb_scan {
    struct tb_trace *trace;
    sqlite3_stmt *events, *accesses;
    uint32_t thread; /* 0: those of @process, or of all if that is 0 too */
    uint32_t process;
    uint64_t last;
    bool at_access;                 /* @accesses stands on a row */
    uint64_t access_event;          /* event of that row */
    struct tb_store_access *access; /* of the event returned last */
    uint32_t room;
};
enum tb_status tb_scan_open(struct tb_scan *c, struct tb_trace *t, uint32_t process,
                            uint32_t thread, uint64_t first, uint64_t last,
                            struct tb_error *err) TB_MUST_CHECK;
/** tb_scan_next - the next event; *@site NULL: no more */
enum tb_status tb_scan_next(struct tb_scan *c, struct tb_store_event *e, uint64_t *id,
                            const struct tb_site_full **site, struct tb_error *err) TB_MUST_CHECK;
void tb_scan_close(struct tb_scan *c);

/* ---------------------------------------------------------------- trace_files.c */

/** tb_trace_check_files - read all files that the trace keeps */
enum tb_status tb_trace_check_files(struct tb_trace *t, struct tb_error *err) TB_MUST_CHECK;

/* ---------------------------------------------------------------- verify.c */

/** tb_trace_check_segment - read segment @i of thread index @thread, compare its digest and
 * checksum */
enum tb_status tb_trace_check_segment(struct tb_trace *t, size_t thread, size_t i,
                                      struct tb_error *err) TB_MUST_CHECK;
/** tb_trace_compare - TB_ERR_CORRUPT unless @h and @count are those of the segment */
enum tb_status tb_trace_compare(struct tb_trace *t, size_t thread, size_t i,
                                const struct tb_seghash *h, uint64_t count,
                                struct tb_error *err) TB_MUST_CHECK;

#endif
