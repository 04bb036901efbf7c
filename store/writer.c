#include "store/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_SIZE 8192
#define CHECKPOINT_BYTES (4u << 20)
#define BALLAST_BYTES (8u << 20) /* a -wal of CHECKPOINT_BYTES and a batch, written back once */
#define READERS_NS 3000000000u   /* how long closing waits for who reads the trace */
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

uint64_t tb_writer_clock(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---------------------------------------------------------------- failure */

static uint64_t file_size(const char *path, const char *suffix)
{
    char *file = tb_place_join(path, suffix);
    struct stat st;
    uint64_t size = file && stat(file, &st) == 0 ? (uint64_t)st.st_size : 0;

    free(file);
    return size;
}

/* Why there is no room for more, or NULL: something else failed. */
static const char *no_room(const struct tb_store *s, int rc)
{
    int sys = sqlite3_system_errno(s->db);
    uint64_t db = file_size(s->record, ""), wal = file_size(s->record, "-wal");
    struct rlimit limit;

    if ((rc & 0xff) == SQLITE_FULL || ((rc & 0xff) == SQLITE_IOERR && sys == ENOSPC))
        return "the disk was full";
    if ((rc & 0xff) == SQLITE_IOERR && sys == EDQUOT)
        return "the disk quota was used up";
    if ((rc & 0xff) == SQLITE_IOERR && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
        (db > wal ? db : wal) + PAGE_SIZE + 64 > limit.rlim_cur)
        return "the file size limit (ulimit -f) was reached";
    return NULL;
}

void tb_writer_broke(struct tb_store *s, int rc)
{
    if (s->failed)
        return;
    s->failed = true;
    s->sql = rc;
    const char *room = no_room(s, rc);
    s->disk_full = s->disk_full || room;
    if (!s->why[0])
        (void)snprintf(s->why, sizeof(s->why), "%s", room ? room : sqlite3_errstr(rc));
    for (size_t i = 0; i < TB_SQL_COUNT; i++)
        (void)sqlite3_reset(s->stmt[i]);
    if (!sqlite3_get_autocommit(s->db))
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    for (uint32_t i = 0; i < s->processes; i++) {
        s->process[i].lost += s->process[i].pending;
        s->process[i].pending = 0;
    }
    for (uint32_t i = 0; i < s->threads; i++)
        s->thread[i].dirty = false;
    s->stats.events -= s->in_batch;
    s->stats.accesses -= s->in_batch_accesses;
    s->stats.lost += s->in_batch;
    s->in_batch = s->in_batch_accesses = 0;
    s->batch.events = s->batch.accesses = 0;
    s->closed_count = 0;
    s->in_txn = false;
}

/* ---------------------------------------------------------------- create */

static enum tb_status no_memory(struct tb_error *err, const char *path)
{
    return tb_fail(err, TB_ERR_NOMEM, "cannot create '%s': no memory", path);
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* An existing file may go if it is empty, one of ours, or a placeholder of ours. */
static enum tb_status may_replace(const char *path, struct tb_error *err)
{
    char head[100] = {0};
    struct stat st;
    uint32_t id;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot replace '%s'", path);
    ssize_t n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, head, sizeof(head)) : -1;
    bool busy = tb_place_locked(fd);
    (void)close(fd);
    if (busy)
        return tb_fail(err, TB_ERR_BUSY, "cannot replace '%s': it is being recorded", path);
    memcpy(&id, head + 68, 4);
    if (n == 0 || (n == sizeof(head) && be32toh(id) == TB_STORE_APPLICATION_ID) ||
        strncmp(head, TB_STORE_ELSEWHERE, strlen(TB_STORE_ELSEWHERE)) == 0)
        return TB_OK;
    return tb_fail(err, TB_ERR_EXISTS, "cannot replace '%s': it is not a trace", path);
}

/* Make sure that neither @path nor what SQLite keeps beside it is there. */
static enum tb_status clear_path(const char *path, bool force, struct tb_error *err)
{
    static const char *const suffix[] = {"", "-wal", "-shm", "-journal"};
    enum tb_status rc = TB_OK;

    for (size_t i = 0; rc == TB_OK && i < TB_ARRAY_LEN(suffix); i++) {
        char *file = tb_place_join(path, suffix[i]);
        if (!file)
            return no_memory(err, path);
        if (exists(file)) {
            if (!force)
                rc = tb_fail(err, TB_ERR_EXISTS, "'%s' exists (--force overwrites it)", file);
            else if (i == 0)
                rc = may_replace(file, err);
            if (rc == TB_OK && unlink(file) != 0)
                rc = tb_fail_sys(err, TB_ERR_IO, errno, "cannot remove '%s'", file);
        }
        free(file);
    }
    return rc;
}

/* Take the name: nobody else may have made the file in the meantime. */
static enum tb_status claim(const char *path, const char *text, struct tb_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    if (fd < 0)
        return tb_fail_sys(err, errno == EEXIST ? TB_ERR_EXISTS : TB_ERR_IO, errno,
                           "cannot create '%s'", path);
    ssize_t n = write(fd, text, strlen(text));
    int sys = n < 0 ? errno : 0;
    (void)close(fd);
    if (sys)
        (void)unlink(path);
    return sys ? tb_fail_sys(err, TB_ERR_IO, sys, "cannot write '%s'", path) : TB_OK;
}

/* Record in a folder of our own below @base; the user's path holds a line that says where. */
static enum tb_status claim_elsewhere(struct tb_store *s, const char *base, struct tb_error *err)
{
    char host[256] = "?", *text = NULL;
    const char *name = strrchr(s->path, '/');
    enum tb_status rc;

    (void)gethostname(host, sizeof(host) - 1);
    name = name ? name + 1 : s->path;
    s->local = tb_place_join(base, "/twinbit-XXXXXX");
    if (!s->local)
        return no_memory(err, s->path);
    if (!mkdtemp(s->local)) {
        rc = tb_fail_sys(err, TB_ERR_IO, errno, "cannot create a folder in '%s'", base);
        free(s->local);
        s->local = NULL;
        return rc;
    }
    if (asprintf(&s->record, "%s/%s", s->local, name) < 0) {
        s->record = NULL;
        return no_memory(err, s->path);
    }
    if (asprintf(&text, "%shost %s\nfile %s\n", TB_STORE_ELSEWHERE, host, s->record) < 0)
        return no_memory(err, s->path);
    rc = claim(s->path, text, err);
    free(text);
    return rc ? rc : claim(s->record, "", err);
}

static enum tb_status claim_paths(struct tb_store *s, const struct tb_store_options *o,
                                  struct tb_error *err)
{
    const char *tmp = getenv("TMPDIR");
    enum tb_status rc = TB_OK;

    if (o->force && o->aside && exists(s->path)) {
        rc = may_replace(s->path, err);
        if (rc == TB_OK) {
            s->aside = true;
            rc = tb_replaced_aside(s->path, err);
        }
    }
    if (rc == TB_OK)
        rc = clear_path(s->path, o->force, err);
    if (rc)
        return rc;
    if (o->local)
        return claim_elsewhere(s, o->local, err);
    if (tb_place_network(s->path) && !tb_place_network(tmp && *tmp ? tmp : "/tmp/."))
        return claim_elsewhere(s, tmp && *tmp ? tmp : "/tmp", err);
    s->record = strdup(s->path);
    return s->record ? claim(s->path, "", err) : no_memory(err, s->path);
}

/* page_size must come before the file has a page, the journal mode after it. */
static const char setup[] = "PRAGMA page_size=" TEXT(
    PAGE_SIZE) ";"
               "PRAGMA cache_size=-16384;"
               "PRAGMA journal_mode=WAL;"
               "PRAGMA synchronous=OFF;"
               "PRAGMA temp_store=MEMORY;"
               "PRAGMA application_id=" TEXT(
                   TB_STORE_APPLICATION_ID) ";"
                                            "PRAGMA user_version=" TEXT(TB_STORE_VERSION) ";"
                                                                                          "BEGIN;";

static int open_database(struct tb_store *s)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    char *name = tb_place_sqlite(s->record);
    int rc = name ? sqlite3_open_v2(name, &s->db, flags, NULL) : SQLITE_NOMEM;

    free(name);
    if (rc == SQLITE_OK)
        rc = sqlite3_extended_result_codes(s->db, 1);
    if (rc == SQLITE_OK)
        rc = tb_hash_register(s->db);
    if (rc == SQLITE_OK)
        rc = tb_batch_register(s->db, &s->batch);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, setup, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, tb_schema_tables, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, tb_schema_views, NULL, NULL, NULL);
    return rc;
}

static void put_number(struct tb_store *s, const char *key, uint64_t v)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, v);
    (void)tb_writer_run(s, TB_SQL_META, "tt", key, text);
}

static enum tb_status create_failed(const struct tb_store *s, int rc, struct tb_error *err)
{
    bool memory = (rc & 0xff) == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM;

    return tb_fail(err, memory ? TB_ERR_NOMEM : TB_ERR_IO, "cannot create '%s': %s", s->record,
                   memory      ? "no memory"
                   : s->why[0] ? s->why
                               : sqlite3_errstr(rc));
}

/* Schema and head, written back to the main file, so that it is a trace from here on. */
static enum tb_status begin_file(struct tb_store *s, struct tb_error *err)
{
    struct timespec utc;
    int rc = open_database(s);

    (void)clock_gettime(CLOCK_REALTIME, &utc);
    s->base_ns = s->committed_ns = tb_writer_clock();
    if (rc == SQLITE_OK) {
        s->in_txn = true;
        (void)tb_writer_run(s, TB_SQL_META, "tt", "state", "incomplete");
        (void)tb_writer_run(s, TB_SQL_META_SCHEMA, "");
        put_number(s, "minReader", TB_STORE_MIN_READER);
        put_number(s, "features", 0);
        put_number(s, "startMonotonicNs", s->base_ns);
        put_number(s, "startUtcNs", (uint64_t)utc.tv_sec * 1000000000u + (uint64_t)utc.tv_nsec);
        tb_writer_commit(s);
        rc = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    if (rc == SQLITE_OK && !s->failed)
        rc = sqlite3_wal_autocheckpoint(s->db, CHECKPOINT_BYTES / PAGE_SIZE);
    if (rc != SQLITE_OK || s->failed)
        return create_failed(s, s->failed ? s->sql : rc, err);
    return TB_OK;
}

static void remove_files(const struct tb_store *s)
{
    static const char *const suffix[] = {"", "-wal", "-shm", "-journal"};

    for (size_t i = 0; s->record && i < TB_ARRAY_LEN(suffix); i++) {
        char *file = tb_place_join(s->record, suffix[i]);
        if (file)
            (void)unlink(file);
        free(file);
    }
    if (s->local)
        (void)rmdir(s->local);
}

static void store_free(struct tb_store *s)
{
    for (size_t i = 0; i < TB_SQL_COUNT; i++)
        (void)sqlite3_finalize(s->stmt[i]);
    (void)sqlite3_close(s->db);
    if (s->ballast >= 0)
        (void)close(s->ballast);
    for (uint32_t i = 0; i < s->sites; i++)
        free(s->site[i]);
    for (uint32_t i = 0; i < s->threads; i++)
        free(s->thread[i].hash);
    tb_map_release(&s->site_map);
    tb_map_release(&s->range_map);
    tb_map_release(&s->string_map);
    free(s->site);
    free(s->thread);
    free(s->process);
    free(s->closed);
    free(s->batch.event);
    free(s->batch.access);
    free(s->path);
    free(s->record);
    free(s->local);
    free(s);
}

static bool take_memory(struct tb_store *s, const char *path)
{
    s->ballast = -1;
    s->next_event = s->next_segment = 1;
    s->path = strdup(path);
    s->batch.event = malloc(TB_BATCH_EVENTS * sizeof(*s->batch.event));
    s->batch.access = malloc(TB_BATCH_ACCESSES * sizeof(*s->batch.access));
    s->batch.room = TB_BATCH_ACCESSES;
    return s->path && s->batch.event && s->batch.access;
}

enum tb_status tb_store_create(struct tb_store **out, const char *path,
                               const struct tb_store_options *options, struct tb_error *err)
{
    static const struct tb_store_options defaults;
    const struct tb_store_options *o = options ? options : &defaults;
    bool claimed = false;
    struct tb_store *s;
    enum tb_status rc;

    if (!out || !path || !*path)
        return tb_fail(err, TB_ERR_ARG, "a trace needs a path");
    if (!(s = calloc(1, sizeof(*s))))
        return no_memory(err, path);
    rc = take_memory(s, path) ? claim_paths(s, o, err) : no_memory(err, path);
    claimed = rc == TB_OK;
    if (rc == TB_OK)
        rc = begin_file(s, err);
    if (rc) {
        if (claimed) {
            remove_files(s);
            (void)unlink(s->path);
        } else if (s->local) {
            (void)rmdir(s->local);
        }
        if (s->aside)
            tb_replaced_back(s->path);
        store_free(s);
        return rc;
    }
    s->max_size = o->max_size;
    s->ballast = tb_place_ballast(s->record, BALLAST_BYTES);
    *out = s;
    return TB_OK;
}

void tb_store_began(struct tb_store *s)
{
    if (s->aside)
        tb_replaced_drop(s->path);
    s->aside = false;
}

void tb_store_drop(struct tb_store *s)
{
    if (!s)
        return;
    remove_files(s);
    (void)unlink(s->path);
    if (s->aside)
        tb_replaced_back(s->path);
    store_free(s);
}

/* ---------------------------------------------------------------- state, close */

void tb_store_stats(struct tb_store *s, struct tb_store_stats *out)
{
    s->stats.bytes = file_size(s->record, "") + file_size(s->record, "-wal");
    s->stats.disk_full = s->disk_full;
    *out = s->stats;
}

/* What is known only at the end; after a failure in the room of the ballast. */
static void write_footer(struct tb_store *s)
{
    bool stopped = s->failed;

    if (stopped) {
        if (s->ballast >= 0)
            (void)close(s->ballast);
        s->ballast = -1;
        /* What was committed goes home first: the -wal gives its room back. */
        (void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        s->failed = false;
        (void)tb_writer_run(s, TB_SQL_META, "tt", "stopped", s->why);
    }
    for (uint32_t i = 0; i < s->processes; i++)
        if (s->process[i].lost > 0)
            (void)tb_writer_run(s, TB_SQL_LOST, "iiit", (int64_t)i + 1, (int64_t)0,
                                (int64_t)s->process[i].lost, s->why);
    for (uint32_t i = 0; i < s->threads; i++)
        (void)tb_writer_run(s, TB_SQL_THREAD_COUNT, "i", (int64_t)i + 1);
    put_number(s, "events", s->stats.events);
    put_number(s, "accesses", s->stats.accesses);
    (void)tb_writer_run(s, TB_SQL_META, "tt", "state", "complete");
    tb_writer_commit(s);
}

static int leave_wal(struct tb_store *s)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(s->db, "PRAGMA journal_mode=DELETE", -1, &st, NULL);
    if (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW)
        rc = strcmp((const char *)sqlite3_column_text(st, 0), "delete") == 0 ? SQLITE_OK
                                                                             : SQLITE_BUSY;
    (void)sqlite3_finalize(st);
    return rc;
}

/* One file: everything back from the -wal, which goes away once nobody reads it any more. */
static int one_file(struct tb_store *s)
{
    uint64_t end = tb_writer_clock() + READERS_NS;
    int rc;

    for (size_t i = 0; i < TB_SQL_COUNT; i++) {
        (void)sqlite3_finalize(s->stmt[i]);
        s->stmt[i] = NULL;
    }
    while ((rc = leave_wal(s)) == SQLITE_BUSY && tb_writer_clock() < end)
        (void)poll(NULL, 0, 5);
    return rc;
}

static enum tb_status move_home(struct tb_store *s, struct tb_error *err)
{
    char *part = tb_place_join(s->path, ".part");
    enum tb_status rc = part ? tb_place_copy(s->record, part, false, err) : no_memory(err, s->path);

    if (rc == TB_OK && rename(part, s->path) != 0)
        rc = tb_fail_sys(err, TB_ERR_IO, errno, "cannot rename '%s'", part);
    if (rc == TB_OK)
        remove_files(s);
    else if (err)
        (void)tb_fail(err, rc, "%.300s; the trace is in '%.160s'", err->text, s->record);
    free(part);
    return rc;
}

enum tb_status tb_store_close(struct tb_store *s, struct tb_error *err)
{
    enum tb_status rc = TB_OK;
    bool stopped;
    int sql;

    if (!s)
        return TB_OK;
    tb_writer_commit(s);
    stopped = s->failed;
    write_footer(s);
    sql = s->failed ? SQLITE_IOERR : one_file(s);
    if (sqlite3_close(s->db) == SQLITE_OK)
        s->db = NULL;
    if (sql == SQLITE_BUSY) /* whole, but in two files */
        rc = tb_fail(err, TB_ERR_BUSY,
                     "'%s' is being read: it stays in two files, keep '%s-wal' beside it",
                     s->record, s->record);
    else if (sql != SQLITE_OK)
        rc = tb_fail(err, TB_ERR_IO, "cannot finish '%s': %s; keep '%s-wal' beside it", s->record,
                     s->failed ? s->why : sqlite3_errstr(sql), s->record);
    else if (stopped)
        rc = tb_fail(err, TB_ERR_IO, "'%s' is not whole: %s, %" PRIu64 " events were lost", s->path,
                     s->why, s->stats.lost);
    if (s->local && sql == SQLITE_OK) {
        enum tb_status moved = move_home(s, rc ? NULL : err);
        rc = rc ? rc : moved;
    }
    store_free(s);
    return rc;
}
