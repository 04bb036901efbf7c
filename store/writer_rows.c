#include "store/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* ---------------------------------------------------------------- strings, meta, texts */

/* Id of a string in StringIds; the empty string has one too. 0: no memory. */
static uint32_t string_id(struct tb_store *s, const char *text, size_t n)
{
    uint8_t key[16];

    tb_hash128(text, n, key);
    uint32_t id = tb_map_get(&s->string_map, key);
    if (id)
        return id;
    id = s->strings + 1;
    if (!tb_map_put(&s->string_map, key, id))
        return 0;
    s->strings++;
    (void)tb_writer_run(s, TB_SQL_STRING, "is", (int64_t)id, text, n);
    return id;
}

static uint32_t string_of(struct tb_store *s, const char *text)
{
    return string_id(s, text, strlen(text));
}

static enum tb_status no_memory(struct tb_error *err)
{
    return tb_fail(err, TB_ERR_NOMEM, "cannot go on writing the trace: no memory");
}

enum tb_status tb_store_meta(struct tb_store *s, const char *key, const char *value,
                             struct tb_error *err)
{
    if (!s || !key || !value)
        return tb_fail(err, TB_ERR_ARG, "meta without key or value");
    (void)tb_writer_run(s, TB_SQL_META, "tt", key, value);
    return TB_OK;
}

/* zstd with a checksum of its own; malloc'ed, *@n bytes. */
static void *compress(const void *data, size_t size, size_t *n)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    size_t room = ZSTD_compressBound(size);
    void *out = malloc(room);

    if (c && out && !ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1)) &&
        !ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 1)))
        *n = ZSTD_compress2(c, out, room, data, size);
    else
        *n = 0;
    ZSTD_freeCCtx(c);
    if (*n > 0 && !ZSTD_isError(*n))
        return out;
    free(out);
    return NULL;
}

enum tb_status tb_store_text(struct tb_store *s, const char *key, const void *text, size_t n,
                             struct tb_error *err)
{
    if (!s || !key || (n > 0 && !text))
        return tb_fail(err, TB_ERR_ARG, "text without key or bytes");
    (void)tb_writer_run(s, TB_SQL_TEXT_DELETE, "t", key);
    for (size_t done = 0, part = 0; !s->failed && (done < n || part == 0); part++) {
        size_t size = n - done < TB_STORE_PART ? n - done : TB_STORE_PART, packed;
        void *data = compress((const char *)text + done, size, &packed);
        if (!data)
            return no_memory(err);
        (void)tb_writer_run(s, TB_SQL_TEXT, "tiib", key, (int64_t)part, (int64_t)n, data, packed);
        free(data);
        done += size;
    }
    return TB_OK;
}

/* ---------------------------------------------------------------- processes, threads */

static bool put_process(struct tb_store *s, uint32_t id, const struct tb_store_process *p)
{
    return tb_writer_run(s, TB_SQL_PROCESS, "iiiiiiiitt", (int64_t)id, (int64_t)p->pid * 0x1000000,
                         (int64_t)p->pid, (int64_t)p->parent, (int64_t)p->ordinal, (int64_t)p->rank,
                         (int64_t)p->restart, (int64_t)p->worker, p->argv ? p->argv : "",
                         p->identity);
}

enum tb_status tb_store_add_process(struct tb_store *s, const struct tb_store_process *p,
                                    uint32_t *id, struct tb_error *err)
{
    if (!s || !p || !p->identity || p->parent > s->processes)
        return tb_fail(err, TB_ERR_ARG, "process without identity or with unknown parent");
    void *grown = tb_writer_grow(s->process, s->processes, &s->processes_room, sizeof(*s->process));
    if (!grown)
        return no_memory(err);
    s->process = grown;
    s->process[s->processes++] = (struct tb_writer_process){0};
    (void)put_process(s, s->processes, p);
    *id = s->processes;
    return TB_OK;
}

enum tb_status tb_store_set_process(struct tb_store *s, uint32_t id,
                                    const struct tb_store_process *p, struct tb_error *err)
{
    if (!s || !p || !p->identity || id == 0 || id > s->processes || p->parent >= id)
        return tb_fail(err, TB_ERR_ARG, "unknown process %u or parent", id);
    (void)put_process(s, id, p);
    return TB_OK;
}

enum tb_status tb_store_add_thread(struct tb_store *s, uint32_t process, uint32_t ordinal,
                                   const char *role, uint32_t *id, struct tb_error *err)
{
    if (!s || !role || process == 0 || process > s->processes)
        return tb_fail(err, TB_ERR_ARG, "thread of unknown process %u", process);
    uint32_t name = string_of(s, role);
    void *grown = tb_writer_grow(s->thread, s->threads, &s->threads_room, sizeof(*s->thread));
    if (grown)
        s->thread = grown;
    if (!name || !grown)
        return no_memory(err);
    struct tb_seghash *hash = tb_seghash_new();
    if (!hash)
        return no_memory(err);
    s->thread[s->threads++] = (struct tb_writer_thread){.process = process, .hash = hash};
    (void)tb_writer_run(s, TB_SQL_THREAD, "iiii", (int64_t)s->threads, (int64_t)process,
                        (int64_t)ordinal, (int64_t)name);
    *id = s->threads;
    return TB_OK;
}

/* ---------------------------------------------------------------- sites, ranges */

/* "[2,3]" for people and SQL. */
static void dims_text(char *out, size_t room, const int64_t *dim, int n)
{
    size_t used = (size_t)snprintf(out, room, "[");

    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(out + used, room - used, i ? ",%lld" : "%lld", (long long)dim[i]);
    (void)snprintf(out + used, room - used, "]");
}

static bool put_site_access(struct tb_store *s, uint32_t id, const struct tb_site_full *f,
                            uint32_t i)
{
    const struct tb_site_access *a = &f->site.access[i];
    char shape[TB_FP_MAX_DIMS * 21 + 3], strides[TB_FP_MAX_DIMS * 21 + 3] = "-";

    dims_text(shape, sizeof(shape), a->sizes, a->ndim);
    if (a->strides)
        dims_text(strides, sizeof(strides), a->strides, a->ndim);
    return tb_writer_run(s, TB_SQL_SITE_ACCESS, "iistittiiii", (int64_t)id, (int64_t)i, &a->mode,
                         (size_t)1, tb_dtype_name((enum tb_dtype)a->dtype),
                         (int64_t)string_of(s, a->device), shape, a->strides ? strides : NULL,
                         (int64_t)string_of(s, a->argument), (int64_t)a->elements,
                         (int64_t)a->bytes, (int64_t)(f->traits[i] & TB_TRAIT_KIND));
}

static void put_site(struct tb_store *s, uint32_t id, const struct tb_site_full *f, size_t n)
{
    bool ok =
        tb_writer_run(s, TB_SQL_SITE, "iiiibs", (int64_t)id, (int64_t)string_of(s, f->site.tap),
                      (int64_t)string_of(s, f->site.name), (int64_t)f->site.access_count,
                      f->site.hash, (size_t)16, f->site.text, n);

    for (uint32_t i = 0; ok && i < f->site.access_count; i++)
        ok = put_site_access(s, id, f, i);
}

void tb_writer_device(struct tb_store *s)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", TB_STORE_FEATURE_DEVICE);
    s->device = s->device || tb_writer_run(s, TB_SQL_META, "tt", "features", text);
}

static bool is_device_site(const struct tb_site *site)
{
    bool device = *site->detail != '\0';

    for (uint32_t i = 0; !device && i < site->access_count; i++)
        device = site->access[i].mode == 'q';
    return device;
}

const struct tb_site *tb_store_site(const struct tb_store *s, uint32_t id)
{
    return s && id && id <= s->sites ? &s->site[id - 1]->site : NULL;
}

enum tb_status tb_store_intern_site(struct tb_store *s, const char *text, size_t n, uint32_t *id,
                                    struct tb_error *err)
{
    struct tb_site_full *full;
    uint8_t key[16];

    if (!s || !text)
        return tb_fail(err, TB_ERR_ARG, "no site text");
    tb_hash128(text, n, key);
    uint32_t have = tb_map_get(&s->site_map, key);
    if (have) {
        *id = have;
        return TB_OK;
    }
    enum tb_status rc = tb_site_parse(text, n, &full, err);
    if (rc)
        return rc;
    void *grown = tb_writer_grow(s->site, s->sites, &s->sites_room, sizeof(struct tb_site_full *));
    if (grown)
        s->site = grown;
    if (!grown || !tb_map_put(&s->site_map, key, s->sites + 1)) {
        free(full);
        return no_memory(err);
    }
    s->site[s->sites++] = full;
    full->site.id = s->sites;
    put_site(s, s->sites, full, n);
    if (is_device_site(&full->site))
        tb_writer_device(s);
    *id = s->sites;
    return TB_OK;
}

enum tb_status tb_store_intern_range(struct tb_store *s, const char *text, size_t n, uint32_t *id,
                                     struct tb_error *err)
{
    const char *tab1 = text ? memchr(text, '\t', n) : NULL;
    const char *tab2 = tab1 ? memchr(tab1 + 1, '\t', n - (size_t)(tab1 + 1 - text)) : NULL;
    uint8_t key[16];

    if (!s || !tab2)
        return tb_fail(err, TB_ERR_FORMAT, "range text without two tabs");
    tb_hash128(text, n, key);
    uint32_t have = tb_map_get(&s->range_map, key);
    if (!have) {
        have = s->ranges + 1;
        if (!tb_map_put(&s->range_map, key, have))
            return no_memory(err);
        s->ranges++;
        uint32_t phase = string_id(s, text, (size_t)(tab1 - text));
        uint32_t module = string_id(s, tab1 + 1, (size_t)(tab2 - tab1 - 1));
        uint32_t user = string_id(s, tab2 + 1, (size_t)(text + n - tab2 - 1));
        if (!phase || !module || !user)
            tb_writer_broke(s, SQLITE_NOMEM);
        (void)tb_writer_run(s, TB_SQL_RANGE, "iiii", (int64_t)have, (int64_t)phase, (int64_t)module,
                            (int64_t)user);
    }
    *id = have;
    return TB_OK;
}

/* ---------------------------------------------------------------- coverage, lost */

/* Add a row to the coverage digest of a segment that has been written already. */
static void cover_closed(struct tb_store *s, uint32_t thread, uint64_t event, unsigned severity,
                         const char *kind, const char *subject, const char *detail, uint64_t count)
{
    uint8_t sum[16] = {0};
    int64_t id = 0;
    int rc;

    if (!tb_writer_drain(s) || !tb_writer_segments(s))
        return;
    sqlite3_stmt *st = tb_writer_stmt(s, TB_SQL_SEGMENT_FIND);
    if (!st)
        return;
    (void)sqlite3_bind_int64(st, 1, thread);
    (void)sqlite3_bind_int64(st, 2, (sqlite3_int64)event);
    if ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        id = sqlite3_column_int64(st, 0);
        if (sqlite3_column_bytes(st, 1) == 16)
            memcpy(sum, sqlite3_column_blob(st, 1), 16);
    }
    if (!tb_writer_finish(s, st, rc) || id == 0)
        return;
    tb_coverage_add(sum, severity, kind, subject, detail, count);
    (void)tb_writer_run(s, TB_SQL_SEGMENT_COVERAGE, "ib", id, sum, (size_t)16);
}

enum tb_status tb_store_coverage(struct tb_store *s, uint32_t process, uint32_t thread,
                                 uint64_t event, unsigned severity, const char *kind,
                                 const char *subject, const char *detail, uint64_t count,
                                 struct tb_error *err)
{
    if (!s || !kind || !subject || !detail || process > s->processes || thread > s->threads)
        return tb_fail(err, TB_ERR_ARG, "coverage of an unknown process or thread");
    int64_t owner = thread;
    if (event && !thread && tb_writer_drain(s))
        (void)tb_writer_query(s, TB_SQL_EVENT_THREAD, &owner, 1, "i", (int64_t)event);
    s->stats.coverage += count;
    if (owner > 0 && owner <= s->threads) {
        struct tb_writer_thread *t = &s->thread[owner - 1];
        if (t->open.count > 0 && (event == 0 || event >= t->open.first)) {
            tb_coverage_add(t->open.coverage, severity, kind, subject, detail, count);
            t->dirty = true;
        } else if (event != 0) {
            cover_closed(s, (uint32_t)owner, event, severity, kind, subject, detail, count);
        }
    }
    (void)tb_writer_run(s, TB_SQL_COVERAGE, "iiiittti", (int64_t)process, (int64_t)thread,
                        (int64_t)event, (int64_t)severity, kind, subject, detail, (int64_t)count);
    return TB_OK;
}

enum tb_status tb_store_lost(struct tb_store *s, uint32_t process, uint32_t thread, uint64_t count,
                             const char *why, struct tb_error *err)
{
    if (!s || !why || process > s->processes || thread > s->threads)
        return tb_fail(err, TB_ERR_ARG, "loss in an unknown process or thread");
    s->stats.lost += count;
    (void)tb_writer_run(s, TB_SQL_LOST, "iiit", (int64_t)process, (int64_t)thread, (int64_t)count,
                        why);
    return TB_OK;
}

/* ---------------------------------------------------------------- of one access or event */

static int64_t access_id(uint64_t event, uint32_t access)
{
    return (int64_t)(event << TB_STORE_ACCESS_SHIFT | access);
}

enum tb_status tb_store_map(struct tb_store *s, uint64_t event, uint32_t access, uint64_t bytes,
                            const uint64_t *sums, uint32_t parts, struct tb_error *err)
{
    uint64_t le[2 * TB_FP_MAP_MAX];

    if (!s || !sums || parts > TB_FP_MAP_MAX || access >= TB_STORE_MAX_ACCESSES)
        return tb_fail(err, TB_ERR_ARG, "map of %u parts", parts);
    for (uint32_t i = 0; i < 2 * parts; i++)
        le[i] = htole64(sums[i]);
    if (event)
        (void)tb_writer_run(s, TB_SQL_MAP, "iib", access_id(event, access), (int64_t)bytes, le,
                            (size_t)parts * 16);
    return TB_OK;
}

enum tb_status tb_store_snapshot(struct tb_store *s, uint64_t event, uint32_t access,
                                 const void *data, uint64_t n, struct tb_error *err)
{
    if (!s || (n > 0 && !data) || access >= TB_STORE_MAX_ACCESSES)
        return tb_fail(err, TB_ERR_ARG, "snapshot without bytes");
    for (uint64_t done = 0, part = 0; event && !s->failed && (done < n || part == 0); part++) {
        uint64_t size = n - done < TB_STORE_PART ? n - done : TB_STORE_PART;
        size_t packed;
        void *bytes = compress((const char *)data + done, size, &packed);
        if (!bytes)
            return no_memory(err);
        (void)tb_writer_run(s, TB_SQL_SNAPSHOT, "iiib", access_id(event, access), (int64_t)part,
                            (int64_t)n, bytes, packed);
        free(bytes);
        done += size;
        tb_writer_commit(s); /* keeps the -wal small whatever the size of the tensor */
    }
    return TB_OK;
}

enum tb_status tb_store_stack(struct tb_store *s, uint64_t event, const char *text, size_t n,
                              struct tb_error *err)
{
    if (!s || (n > 0 && !text))
        return tb_fail(err, TB_ERR_ARG, "stack without text");
    uint32_t id = string_id(s, text, n);
    if (!id)
        return no_memory(err);
    if (event)
        (void)tb_writer_run(s, TB_SQL_STACK, "ii", (int64_t)event, (int64_t)id);
    return TB_OK;
}

enum tb_status tb_store_file(struct tb_store *s, const struct tb_store_file *file, uint64_t part,
                             const void *data, size_t n, struct tb_error *err)
{
    size_t packed;

    if (!s || !file || !file->folder || !file->path || n > TB_STORE_PART || (n > 0 && !data))
        return tb_fail(err, TB_ERR_ARG, "file without name or bytes");
    if (s->failed)
        return TB_OK;
    void *bytes = compress(data, n, &packed);
    if (!bytes)
        return no_memory(err);
    (void)tb_writer_run(s, TB_SQL_FILE, "ttiiib", file->folder, file->path, (int64_t)file->mode,
                        (int64_t)part, (int64_t)file->bytes, bytes, packed);
    free(bytes);
    s->in_files += packed;
    if (s->in_files >= TB_STORE_PART) { /* keeps the -wal small */
        s->in_files = 0;
        tb_writer_commit(s);
    }
    return TB_OK;
}
