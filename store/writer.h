/*
 * The writer's own state: writer.c opens and closes, writer_sql.c has the statements, writer_rows.c
 * writes the small tables, writer_events.c takes events and keeps segments, limit.c deletes the
 * oldest detail.
 *
 * Every write goes through tb_writer_run(). The first one that fails ends recording for good
 * (tb_writer_broke): the transaction is rolled back, what comes later is only counted, and
 * tb_store_close() writes the footer with the room that the ballast sets free.
 */
#ifndef TB_STORE_WRITER_H
#define TB_STORE_WRITER_H

#include <time.h>

#include "store/batch.h"
#include "store/store_internal.h"

/* One prepared statement each; their SQL is in writer_sql.c. */
enum tb_writer_stmt {
    TB_SQL_BEGIN, /* the first three open no transaction */
    TB_SQL_COMMIT,
    TB_SQL_PAGES,
    TB_SQL_EVENTS,
    TB_SQL_ACCESSES,
    TB_SQL_META,
    TB_SQL_META_SCHEMA,
    TB_SQL_TEXT,
    TB_SQL_TEXT_DELETE,
    TB_SQL_STRING,
    TB_SQL_PROCESS,
    TB_SQL_THREAD,
    TB_SQL_THREAD_COUNT,
    TB_SQL_SITE,
    TB_SQL_SITE_ACCESS,
    TB_SQL_RANGE,
    TB_SQL_SEGMENT,
    TB_SQL_SEGMENT_FIND,
    TB_SQL_SEGMENT_COVERAGE,
    TB_SQL_EVENT_THREAD,
    TB_SQL_COVERAGE,
    TB_SQL_LOST,
    TB_SQL_MAP,
    TB_SQL_SNAPSHOT,
    TB_SQL_STACK,
    TB_SQL_FILE,
    TB_SQL_OLDEST,
    TB_SQL_DROP_EVENTS,
    TB_SQL_DROP_ACCESSES,
    TB_SQL_DROP_MAPS,
    TB_SQL_DROP_STACKS,
    TB_SQL_DROP_DETAIL,
    TB_SQL_COUNT
};

/** struct tb_segment_row - a segment as it will be written */
struct tb_segment_row {
    uint64_t id, step, first, last, count, seq_first;
    uint32_t thread;
    uint8_t digest[16], coverage[16];
    int64_t check;
};

struct tb_writer_thread {
    uint32_t process;
    struct tb_segment_row open; /* count 0: none */
    struct tb_seghash *hash;
    bool dirty; /* open changed since it was last written */
};

struct tb_writer_process {
    uint64_t next_seq; /* events must not have a smaller one */
    uint64_t pending;  /* events since the last commit */
    uint64_t lost;     /* events that could not be written after a failure */
};

struct tb_store {
    sqlite3 *db;
    sqlite3_stmt *stmt[TB_SQL_COUNT];
    struct tb_batch batch;
    char *path;   /* where the user wants it */
    char *record; /* where it is recorded; equal to path unless `moved` */
    char *local;  /* temporary folder that holds it, NULL if recorded in place */
    int ballast;
    bool in_txn, failed, disk_full;
    bool aside;              /* what was there before is PATH.replaced */
    bool device;             /* the feature is said in table meta */
    int sql;                 /* result code of the failure */
    char why[TB_ERROR_TEXT]; /* what it was */

    struct tb_map site_map, range_map, string_map;
    struct tb_site_full **site; /* by id - 1 */
    uint32_t sites, sites_room, ranges, strings;
    struct tb_writer_thread *thread; /* by id - 1 */
    uint32_t threads, threads_room;
    struct tb_writer_process *process; /* by id - 1 */
    uint32_t processes, processes_room;
    struct tb_segment_row *closed; /* segments that ended since the last write */
    uint32_t closed_count, closed_room;

    uint64_t next_event, next_segment;    /* row ids */
    uint64_t in_batch, in_batch_accesses; /* since the last commit */
    uint64_t in_files;                    /* packed bytes of files since one was for them */
    uint64_t stored;                      /* events whose detail is in the file */
    uint64_t dropped;                     /* events whose detail was deleted */
    uint64_t max_size, base_ns;
    uint64_t committed_ns; /* clock at the last commit */
    struct tb_store_stats stats;
};

/** tb_writer_run - bind and step one statement; false once recording has failed. Format per
 * argument: i int64_t, t const char * (NULL: SQL NULL), s const char * and size_t, b const void *
 * and size_t */
bool tb_writer_run(struct tb_store *s, enum tb_writer_stmt id, const char *format, ...);
/** tb_writer_query - as tb_writer_run(); the row's first @columns numbers; false if there is no row
 */
bool tb_writer_query(struct tb_store *s, enum tb_writer_stmt id, int64_t *out, int columns,
                     const char *format, ...);
/** tb_writer_stmt - the prepared statement, NULL once recording has failed */
sqlite3_stmt *tb_writer_stmt(struct tb_store *s, enum tb_writer_stmt id);
/** tb_writer_finish - reset after a step that gave @rc; false once recording has failed */
bool tb_writer_finish(struct tb_store *s, sqlite3_stmt *st, int rc);
void tb_writer_broke(struct tb_store *s, int rc);
/** tb_writer_begin - open the transaction of the batch if there is none */
bool tb_writer_begin(struct tb_store *s);
/** tb_writer_drain - move the events that wait in memory into the transaction */
bool tb_writer_drain(struct tb_store *s);
/** tb_writer_segments - write segments that ended and the state of the open ones */
bool tb_writer_segments(struct tb_store *s);
/** tb_writer_commit - drain, write segments, commit, keep below max_size */
void tb_writer_commit(struct tb_store *s);
/** tb_writer_trim - delete the oldest detail if the file is about to pass max_size */
void tb_writer_trim(struct tb_store *s);
/** tb_writer_grow - @array with room for one more than @count, or NULL: then @array is as it was */
void *tb_writer_grow(void *array, uint32_t count, uint32_t *room, size_t size);
/** tb_writer_device - table meta says that work of a GPU is in it: the first version knew none */
void tb_writer_device(struct tb_store *s);
uint64_t tb_writer_clock(void);

#endif
