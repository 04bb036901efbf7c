#include "store/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SLACK (4u << 20) /* room for one more batch */

/* Delete the events of one segment that is closed; the segment's row stays. */
static bool drop(struct tb_store *s, const int64_t row[5])
{
    int64_t id = row[0], thread = row[1], first = row[2], last = row[3];
    int64_t whole = last - first + 1 == row[4];

    return tb_writer_run(s, TB_SQL_DROP_ACCESSES, "iiii", first, last, whole, thread) &&
           tb_writer_run(s, TB_SQL_DROP_EVENTS, "iii", first, last, thread) &&
           tb_writer_run(s, TB_SQL_DROP_MAPS, "ii", first, last) &&
           tb_writer_run(s, TB_SQL_DROP_STACKS, "ii", first, last) &&
           tb_writer_run(s, TB_SQL_DROP_DETAIL, "i", id);
}

static bool is_open(const struct tb_store *s, int64_t id)
{
    for (uint32_t i = 0; i < s->threads; i++)
        if (s->thread[i].open.count > 0 && (int64_t)s->thread[i].open.id == id)
            return true;
    return false;
}

/* The oldest segments with detail, at most @room, that are closed and hold @events events in all.
 */
static uint32_t oldest(struct tb_store *s, int64_t (*row)[5], uint32_t room, uint64_t events)
{
    sqlite3_stmt *st = tb_writer_stmt(s, TB_SQL_OLDEST);
    uint32_t n = 0;
    int rc = SQLITE_DONE;

    while (st && events > 0 && n < room) {
        rc = sqlite3_step(st);
        if (rc != SQLITE_ROW)
            break;
        for (int c = 0; c < 5; c++)
            row[n][c] = sqlite3_column_int64(st, c);
        if (is_open(s, row[n][0]))
            continue;
        events -= (uint64_t)row[n][4] < events ? (uint64_t)row[n][4] : events;
        n++;
    }
    return st && tb_writer_finish(s, st, rc) ? n : 0;
}

void tb_writer_trim(struct tb_store *s)
{
    enum { ROOM = 4096 };
    char text[24];
    int64_t size[2]; /* bytes of all pages, of unused ones */

    if (s->max_size == 0 || s->failed || !tb_writer_query(s, TB_SQL_PAGES, size, 2, "") ||
        (uint64_t)size[0] + SLACK <= s->max_size || size[1] >= (int64_t)SLACK)
        return;
    int64_t(*row)[5] = malloc(ROOM * sizeof(*row));
    if (!row)
        return; /* tried again after the next batch */
    /* An eighth of what is there: deleting is amortised over many batches. */
    uint32_t n = oldest(s, row, ROOM, s->stored / 8 + 1);
    bool ok = n > 0;
    for (uint32_t i = 0; ok && i < n; i++) {
        ok = drop(s, row[i]);
        s->stored -= ok ? (uint64_t)row[i][4] : 0;
        s->dropped += ok ? (uint64_t)row[i][4] : 0;
    }
    free(row);
    (void)snprintf(text, sizeof(text), "%" PRIu64, s->dropped);
    if (ok)
        (void)tb_writer_run(s, TB_SQL_META, "tt", "trimmed", text);
    if (s->in_txn && tb_writer_run(s, TB_SQL_COMMIT, ""))
        s->in_txn = false;
}

uint64_t tb_store_trimmed(const struct tb_store *s)
{
    return s->dropped;
}
