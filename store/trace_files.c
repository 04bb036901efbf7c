/* Files that a trace keeps: their parts, one after the other. */
#include "store/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* struct reading - of one folder: the file whose parts come now */
struct reading {
    struct tb_trace *trace;
    sqlite3_stmt *st;
    char *buf; /* TB_STORE_PART bytes, and room for a NUL */
    char *path;
    struct tb_store_file file; /* path: this->path, NULL: none yet */
    uint64_t part, done;
};

static enum tb_status damaged(struct reading *r, struct tb_error *err)
{
    return tb_trace_damaged(r->trace, err, "file '%.160s', part %" PRIu64, r->path ? r->path : "?",
                            r->part);
}

/* A trace of an earlier writer has no such table */
static enum tb_status look(struct tb_trace *t, bool *there, struct tb_error *err)
{
    int got =
        sqlite3_table_column_metadata(t->db, NULL, "files", "path", NULL, NULL, NULL, NULL, NULL);

    *there = got == SQLITE_OK;
    return got == SQLITE_ERROR ? TB_OK : tb_trace_sql(t, got, err);
}

static enum tb_status open_reading(struct reading *r, const char *folder, struct tb_error *err)
{
    int got = sqlite3_prepare_v2(
        r->trace->db,
        "SELECT path, mode, part, totalBytes, data,"
        " rowCheck IS tb_check(folder,path,mode,part,totalBytes) FROM files WHERE folder=?"
        " ORDER BY path, part",
        -1, &r->st, NULL);
    if (got == SQLITE_OK)
        got = sqlite3_bind_text(r->st, 1, folder, -1, SQLITE_STATIC);
    return tb_trace_sql(r->trace, got, err);
}

/* Is the row the next part of the file, or the first one of another? */
static enum tb_status take_row(struct reading *r, struct tb_error *err)
{
    const char *path = tb_trace_column_text(r->st, 0);
    uint64_t part = (uint64_t)sqlite3_column_int64(r->st, 2);
    uint64_t bytes = (uint64_t)sqlite3_column_int64(r->st, 3);
    bool same = r->path && strcmp(r->path, path) == 0;
    bool ended = !r->path || r->done == r->file.bytes;

    if (!tb_trace_whole(r->st) ||
        (same ? part != r->part || ended || bytes != r->file.bytes : part != 0 || !ended))
        return same ? damaged(r, err) /* the one that should be here */
                    : tb_trace_damaged(r->trace, err, "file '%.160s', part %" PRIu64, path, part);
    if (same)
        return TB_OK;
    free(r->path);
    r->path = strdup(path);
    if (!r->path)
        return tb_trace_no_memory(r->trace, err);
    r->part = r->done = 0;
    r->file.path = r->path;
    r->file.mode = (uint32_t)sqlite3_column_int64(r->st, 1);
    r->file.bytes = bytes;
    return TB_OK;
}

static enum tb_status unpack_row(struct reading *r, uint64_t *n, struct tb_error *err)
{
    uint64_t left = r->file.bytes - r->done;
    uint64_t want = left < TB_STORE_PART ? left : TB_STORE_PART;

    if (!tb_trace_unpack(r->st, 4, r->buf, want, n) || *n != want)
        return damaged(r, err);
    return TB_OK;
}

enum tb_status tb_trace_files(struct tb_trace *t, const char *folder,
                              enum tb_status (*fn)(void *arg, const struct tb_store_file *file,
                                                   uint64_t part, const void *data, size_t n,
                                                   struct tb_error *err),
                              void *arg, struct tb_error *err)
{
    struct reading r = {.trace = t, .file = {.folder = folder}};
    bool there = false;
    uint64_t n = 0;
    int got = SQLITE_DONE;
    enum tb_status rc = look(t, &there, err);

    if (rc == TB_OK && there)
        rc = open_reading(&r, folder, err);
    if (rc == TB_OK && there && !(r.buf = malloc(TB_STORE_PART + 1)))
        rc = tb_trace_no_memory(t, err);
    while (rc == TB_OK && there && (got = sqlite3_step(r.st)) == SQLITE_ROW) {
        rc = take_row(&r, err);
        if (rc == TB_OK)
            rc = unpack_row(&r, &n, err);
        if (rc == TB_OK)
            rc = fn(arg, &r.file, r.part, r.buf, n, err);
        r.part++;
        r.done += n;
    }
    if (rc == TB_OK)
        rc = tb_trace_sql(t, got, err);
    if (rc == TB_OK && r.path && r.done != r.file.bytes)
        rc = damaged(&r, err);
    (void)sqlite3_finalize(r.st);
    free(r.path);
    free(r.buf);
    return rc;
}

static enum tb_status ignore_part(void *arg, const struct tb_store_file *file, uint64_t part,
                                  const void *data, size_t n, struct tb_error *err)
{
    (void)arg, (void)file, (void)part, (void)data, (void)n, (void)err;
    return TB_OK;
}

enum tb_status tb_trace_check_files(struct tb_trace *t, struct tb_error *err)
{
    sqlite3_stmt *st = NULL;
    bool there = false;
    enum tb_status rc = look(t, &there, err);

    if (rc != TB_OK || !there)
        return rc;
    int got = sqlite3_prepare_v2(t->db, "SELECT DISTINCT folder FROM files", -1, &st, NULL);
    while (got == SQLITE_OK && rc == TB_OK && (got = sqlite3_step(st)) == SQLITE_ROW) {
        rc = tb_trace_files(t, tb_trace_column_text(st, 0), ignore_part, NULL, err);
        got = SQLITE_OK;
    }
    if (rc == TB_OK)
        rc = tb_trace_sql(t, got, err);
    (void)sqlite3_finalize(st);
    return rc;
}
