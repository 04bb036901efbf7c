/*
 * The batch: events and accesses that wait in memory, and two virtual tables that show them to
 * SQLite, so that one `INSERT INTO events SELECT * FROM batchEvents` moves thousands of rows (twice
 * as fast as binding and stepping a statement for each).
 */
#ifndef TB_STORE_BATCH_H
#define TB_STORE_BATCH_H

#include <sqlite3.h>
#include <stdint.h>

#define TB_BATCH_EVENTS 2048u
#define TB_BATCH_ACCESSES 16384u /* room at first; one event may need more */

/* A row of table events, in column order. */
enum tb_batch_column {
    TB_COL_ID,
    TB_COL_THREAD,
    TB_COL_KIND,
    TB_COL_FLAGS,
    TB_COL_SITE,
    TB_COL_RANGE,
    TB_COL_SEQ_OFFSET,
    TB_COL_SPAN,
    TB_COL_STEP,
    TB_COL_ARGS,
    TB_COL_START,
    TB_COL_COUNT
};
struct tb_batch_event {
    int64_t column[TB_COL_COUNT];
};
struct tb_batch_access {
    int64_t id, alloc, offset;
    uint8_t fp[17]; /* 17th byte: fp_kind, if the site implies another */
    uint8_t fp_len; /* 0: NULL, 16, 17 */
};
struct tb_batch {
    struct tb_batch_event *event;
    struct tb_batch_access *access;
    uint32_t events, accesses, room; /* room: accesses that fit */
};

/** tb_batch_register - make the tables batchEvents and batchAccesses of @b known to @db */
int tb_batch_register(sqlite3 *db, struct tb_batch *b);

#endif
