#include "store/batch.h"

#include <stdbool.h>

#include "store/store_internal.h"

/* One module serves both tables: the bound pointer says which. */
struct source {
    const struct tb_batch *batch;
    bool accesses;
};
struct table {
    sqlite3_vtab base;
    const struct source *source;
};
struct cursor {
    sqlite3_vtab_cursor base;
    const struct source *source;
    uint32_t at, count;
};

static int on_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                      char **msg)
{
    const struct source *source = aux;
    struct table *t = sqlite3_malloc(sizeof(*t));

    (void)argc, (void)argv, (void)msg;
    if (!t)
        return SQLITE_NOMEM;
    *t = (struct table){.source = source};
    int rc = sqlite3_declare_vtab(
        db, source->accesses
                ? "CREATE TABLE x(id, alloc, offset, fp)"
                : "CREATE TABLE x(id, threadId, kind, flags, siteId, rangeId, seqOffset,"
                  " span, step, args, start)");
    if (rc == SQLITE_OK)
        *out = &t->base;
    else
        sqlite3_free(t);
    return rc;
}

static int on_disconnect(sqlite3_vtab *t)
{
    sqlite3_free(t);
    return SQLITE_OK;
}

static int on_best_index(sqlite3_vtab *t, sqlite3_index_info *info)
{
    (void)t;
    info->estimatedCost = 1;
    return SQLITE_OK;
}

static int on_open(sqlite3_vtab *t, sqlite3_vtab_cursor **out)
{
    struct cursor *c = sqlite3_malloc(sizeof(*c));

    if (!c)
        return SQLITE_NOMEM;
    *c = (struct cursor){.source = ((struct table *)t)->source};
    *out = &c->base;
    return SQLITE_OK;
}

static int on_close(sqlite3_vtab_cursor *c)
{
    sqlite3_free(c);
    return SQLITE_OK;
}

static int on_filter(sqlite3_vtab_cursor *base, int idx, const char *name, int argc,
                     sqlite3_value **argv)
{
    struct cursor *c = (struct cursor *)base;

    (void)idx, (void)name, (void)argc, (void)argv;
    c->at = 0;
    c->count = c->source->accesses ? c->source->batch->accesses : c->source->batch->events;
    return SQLITE_OK;
}

static int on_next(sqlite3_vtab_cursor *c)
{
    ((struct cursor *)c)->at++;
    return SQLITE_OK;
}

static int on_eof(sqlite3_vtab_cursor *c)
{
    return ((struct cursor *)c)->at >= ((struct cursor *)c)->count;
}

static int on_event_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int i)
{
    const struct cursor *c = (const struct cursor *)base;

    sqlite3_result_int64(ctx, c->source->batch->event[c->at].column[i]);
    return SQLITE_OK;
}

static int on_access_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int i)
{
    const struct cursor *c = (const struct cursor *)base;
    const struct tb_batch_access *a = &c->source->batch->access[c->at];

    if (i < 3)
        sqlite3_result_int64(ctx, i == 0 ? a->id : i == 1 ? a->alloc : a->offset);
    else if (a->fp_len)
        sqlite3_result_blob(ctx, a->fp, a->fp_len, SQLITE_STATIC);
    return SQLITE_OK;
}

static int on_rowid(sqlite3_vtab_cursor *c, sqlite3_int64 *out)
{
    *out = ((struct cursor *)c)->at;
    return SQLITE_OK;
}

#define MODULE(column)                                                                             \
    {                                                                                              \
        .iVersion = 1, .xConnect = on_connect, .xDisconnect = on_disconnect,                       \
        .xBestIndex = on_best_index, .xOpen = on_open, .xClose = on_close, .xFilter = on_filter,   \
        .xNext = on_next, .xEof = on_eof, .xColumn = column, .xRowid = on_rowid                    \
    }
static const sqlite3_module event_module = MODULE(on_event_column);
static const sqlite3_module access_module = MODULE(on_access_column);

static int add(sqlite3 *db, const char *name, const sqlite3_module *module, struct tb_batch *b,
               bool accesses)
{
    struct source *source = sqlite3_malloc(sizeof(*source));

    if (!source)
        return SQLITE_NOMEM;
    *source = (struct source){.batch = b, .accesses = accesses};
    return sqlite3_create_module_v2(db, name, module, source, sqlite3_free);
}

int tb_batch_register(sqlite3 *db, struct tb_batch *b)
{
    int rc = add(db, "batchEvents", &event_module, b, false);

    return rc == SQLITE_OK ? add(db, "batchAccesses", &access_module, b, true) : rc;
}
