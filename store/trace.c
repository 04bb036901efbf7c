#include "store/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the first 100 bytes of an SQLite database say (its file format, section 1.3). */
struct head {
    uint64_t size; /* of the file */
    uint64_t page, pages;
    uint32_t application, version;
    bool wal, wal_file, journal_file, locked;
};

enum tb_status tb_trace_sql(struct tb_trace *t, int rc, struct tb_error *err)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW:
        return TB_OK;
    case SQLITE_NOMEM:
        t->starved = true;
        return tb_fail(err, TB_ERR_NOMEM, "cannot read '%s': no memory", t->path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return tb_fail(err, TB_ERR_BUSY, "cannot read '%s': another process works on it", t->path);
    case SQLITE_IOERR:
        if (rc == SQLITE_IOERR_SHORT_READ)
            break;
        if (rc == SQLITE_IOERR_NOMEM)
            return tb_trace_sql(t, SQLITE_NOMEM, err);
        /* fall through */
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return tb_fail(err, TB_ERR_IO, "cannot read '%s': %s", t->path, sqlite3_errstr(rc));
    default:
        break;
    }
    return tb_fail(err, TB_ERR_CORRUPT, "trace '%s' corrupted: %s", t->path,
                   t->db ? sqlite3_errmsg(t->db) : sqlite3_errstr(rc));
}

enum tb_status tb_trace_damaged(struct tb_trace *t, struct tb_error *err, const char *fmt, ...)
{
    char where[256];
    va_list ap;

    if (t->starved || (sqlite3_errcode(t->db) & 0xff) == SQLITE_NOMEM) {
        t->starved = false;
        return tb_fail(err, TB_ERR_NOMEM, "cannot read '%s': no memory", t->path);
    }
    va_start(ap, fmt);
    (void)vsnprintf(where, sizeof(where), fmt, ap);
    va_end(ap);
    return tb_fail(err, TB_ERR_CORRUPT, "trace corrupted at %s in '%s'", where, t->path);
}

/* ---------------------------------------------------------------- first look */

static bool beside(const char *path, const char *suffix)
{
    char *file = tb_place_join(path, suffix);
    struct stat st;
    bool found = file && stat(file, &st) == 0 && st.st_size > 0;

    free(file);
    return found;
}

static uint32_t be32(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return be32toh(v);
}

static enum tb_status elsewhere(const char *path, char *text, struct tb_error *err)
{
    char *host = strstr(text, "host "), *file = strstr(text, "file ");

    if (!host || !file)
        return tb_fail(err, TB_ERR_FORMAT, "'%s' is not a trace", path);
    host[strcspn(host, "\n")] = file[strcspn(file, "\n")] = '\0';
    return tb_fail(
        err, TB_ERR_FORMAT,
        "'%s' holds no trace yet: it was recorded on %.200s and not moved, open '%.200s'", path,
        host, file + 5);
}

static enum tb_status read_head(const char *path, struct head *h, struct tb_error *err)
{
    unsigned char b[1024] = {0};
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return tb_fail_sys(err, errno == ENOENT ? TB_ERR_NOTFOUND : TB_ERR_IO, errno,
                           "cannot open '%s'", path);
    ssize_t n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, b, sizeof(b) - 1) : -1;
    h->locked = n >= 0 && tb_place_locked(fd);
    (void)close(fd);
    if (n < 0)
        return tb_fail(err, TB_ERR_FORMAT, "'%s' is not a trace: not a readable file", path);
    if (strncmp((char *)b, TB_STORE_ELSEWHERE, strlen(TB_STORE_ELSEWHERE)) == 0)
        return elsewhere(path, (char *)b, err);
    if (n == 0 || memcmp(b, "SQLite format 3", n < 16 ? (size_t)n : 16) != 0)
        return tb_fail(err, TB_ERR_FORMAT, "'%s' is not a trace%s", path, n ? "" : ": it is empty");
    if (n < 100)
        return tb_fail(err, TB_ERR_CORRUPT, "'%s' is cut: it has %zd bytes", path, n);
    h->application = be32(b + 68);
    h->version = be32(b + 60);
    h->page = (uint64_t)(b[16] << 8 | b[17]);
    h->page = h->page == 1 ? 65536 : h->page;
    h->pages = be32(b + 28);
    h->wal = b[18] == 2 || b[19] == 2;
    h->size = (uint64_t)st.st_size;
    h->wal_file = beside(path, "-wal");
    h->journal_file = beside(path, "-journal");
    return TB_OK;
}

static enum tb_status judge_head(const char *path, const struct head *h, struct tb_error *err)
{
    if (h->application != TB_STORE_APPLICATION_ID)
        return tb_fail(err, TB_ERR_FORMAT, "'%s' is not a trace: a database of another program",
                       path);
    if (h->wal || h->journal_file || h->size >= h->page * h->pages)
        return TB_OK;
    return tb_fail(err, TB_ERR_CORRUPT, "'%s' is cut: it has %" PRIu64 " of %" PRIu64 " bytes",
                   path, h->size, h->page * h->pages);
}

/* ---------------------------------------------------------------- open */

static const char reading[] = "PRAGMA locking_mode=EXCLUSIVE;"
                              "PRAGMA cache_size=-8192;"
                              "PRAGMA temp_store=MEMORY;"
                              "PRAGMA trusted_schema=OFF;"
                              "PRAGMA cell_size_check=ON;"
                              "BEGIN;";

/* Copy the file and what is beside it to a folder of ours, where SQLite may write. */
static enum tb_status copy_aside(struct tb_trace *t, char **path, struct tb_error *err)
{
    static const char *const suffix[] = {"", "-wal", "-journal"};
    const char *tmp = getenv("TMPDIR");
    enum tb_status rc = TB_OK;

    t->copy = tb_place_join(tmp && *tmp ? tmp : "/tmp", "/twinbit-read-XXXXXX");
    if (!t->copy || !mkdtemp(t->copy)) {
        free(t->copy);
        t->copy = NULL;
        return tb_fail_sys(err, TB_ERR_IO, errno, "cannot copy '%s' aside", t->path);
    }
    *path = tb_place_join(t->copy, "/trace");
    for (size_t i = 0; *path && rc == TB_OK && i < TB_ARRAY_LEN(suffix); i++) {
        char *from = tb_place_join(t->path, suffix[i]), *to = tb_place_join(*path, suffix[i]);
        if (!from || !to)
            rc = tb_fail(err, TB_ERR_NOMEM, "cannot copy '%s' aside: no memory", t->path);
        else if (i == 0 || beside(t->path, suffix[i]))
            rc = tb_place_copy(from, to, true, err);
        free(from);
        free(to);
    }
    return *path ? rc : tb_fail(err, TB_ERR_NOMEM, "cannot read '%s': no memory", t->path);
}

/*
 * Three ways. A closed trace, or a killed one with its -wal: through the read-only file system,
 * nothing is written. One that another process is recording: SQLite's own way, with its locks. One
 * with a journal to be rolled back (killed while closing): a copy.
 */
static enum tb_status open_database(struct tb_trace *t, const struct head *h, struct tb_error *err)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READONLY, rc;
    const char *vfs = NULL;
    char *path = NULL, *name;
    enum tb_status st = TB_OK;

    if (h->journal_file && !h->locked) {
        st = copy_aside(t, &path, err);
        flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE;
    } else if (!h->locked) {
        if ((rc = tb_rovfs_register(&t->vfs)) != SQLITE_OK)
            return tb_trace_sql(t, rc, err);
        vfs = t->vfs.name;
    }
    if (st == TB_OK) {
        name = tb_place_sqlite(path ? path : t->path);
        rc = name ? sqlite3_open_v2(name, &t->db, flags, vfs) : SQLITE_NOMEM;
        free(name);
        if (rc == SQLITE_OK)
            rc = sqlite3_extended_result_codes(t->db, 1);
        if (rc == SQLITE_OK)
            rc = sqlite3_db_config(t->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        if (rc == SQLITE_OK)
            rc = tb_hash_register(t->db);
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(t->db, h->locked ? strstr(reading, "PRAGMA cache") : reading, NULL,
                              NULL, NULL);
        st = tb_trace_sql(t, rc, err);
    }
    free(path);
    return st;
}

/* A number in table meta, whose columns `name` and `value` stay in all versions; TB_ERR_NOTFOUND.
 */
static enum tb_status meta_number(struct tb_trace *t, const char *name, unsigned long long *out,
                                  struct tb_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(t->db, "SELECT value FROM meta WHERE name=?", -1, &st, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(st, 0);
        *out = text ? strtoull(text, NULL, 10) : 0;
        rc = text ? rc : sqlite3_errcode(t->db);
    }
    (void)sqlite3_finalize(st);
    return rc == SQLITE_DONE ? TB_ERR_NOTFOUND : tb_trace_sql(t, rc, err);
}

/* Before anything else is read: a later writer may have laid out all other tables differently. */
static enum tb_status judge_version(struct tb_trace *t, const struct head *h, struct tb_error *err)
{
    unsigned long long oldest = 0, features = 0;
    bool later = h->version > TB_STORE_VERSION;
    enum tb_status rc = meta_number(t, "minReader", &oldest, err);

    if (rc == TB_OK)
        rc = meta_number(t, "features", &features, err);
    if (rc == TB_ERR_NOTFOUND && !later)
        rc = tb_trace_damaged(t, err, "table meta");
    if (later && (rc == TB_ERR_NOTFOUND || (rc == TB_OK && oldest > TB_STORE_VERSION)))
        rc = tb_fail(err, TB_ERR_VERSION,
                     "'%s' is of format %u, this twinbit reads up to %d: use a newer one", t->path,
                     h->version, TB_STORE_VERSION);
    features &= 0xffffffffu & ~(unsigned long long)TB_STORE_FEATURES;
    if (rc == TB_OK && later && features)
        rc = tb_fail(err, TB_ERR_VERSION, "'%s' uses features %#llx that this twinbit lacks",
                     t->path, features);
    return rc;
}

static enum tb_status make_warning(struct tb_trace *t, const struct head *h, struct tb_error *err)
{
    int n = 0;

    if (h->locked)
        n = asprintf(&t->warning, "'%s' is being recorded: read as far as it is written", t->path);
    else if (h->wal && !h->wal_file && !t->info.complete)
        n = asprintf(&t->warning,
                     "'%s-wal' is missing: what was recorded last is not in '%s' alone", t->path,
                     t->path);
    else if (!t->info.complete)
        n = asprintf(&t->warning,
                     "'%s' was not closed (the recorder was killed): %" PRIu64 " events recovered",
                     t->path, t->info.events);
    if (n >= 0)
        return TB_OK;
    t->warning = NULL;
    return tb_fail(err, TB_ERR_NOMEM, "cannot open '%s': no memory", t->path);
}

enum tb_status tb_trace_open(struct tb_trace **out, const char *path, struct tb_error *err)
{
    struct head h = {0};
    struct tb_trace *t;
    enum tb_status rc;

    if (!out || !path)
        return tb_fail(err, TB_ERR_ARG, "no path");
    if ((rc = read_head(path, &h, err)) || (rc = judge_head(path, &h, err)))
        return rc;
    t = calloc(1, sizeof(*t));
    if (!t || !(t->path = strdup(path))) {
        free(t);
        return tb_fail(err, TB_ERR_NOMEM, "cannot open '%s': no memory", path);
    }
    t->info.path = t->path;
    if ((rc = open_database(t, &h, err)) == TB_OK)
        rc = judge_version(t, &h, err);
    if (rc == TB_OK)
        rc = tb_trace_load(t, err);
    if (rc == TB_OK)
        rc = make_warning(t, &h, err);
    if (rc == TB_ERR_CORRUPT && h.wal && !h.wal_file)
        rc = tb_fail(err, TB_ERR_CORRUPT,
                     "'%s' was not closed and '%.180s-wal' is missing: put it beside the trace",
                     path, path);
    if (rc) {
        tb_trace_close(t);
        return rc;
    }
    t->info.warning = t->warning;
    *out = t;
    return TB_OK;
}

/* ---------------------------------------------------------------- close */

static void free_texts(struct tb_trace_text *x)
{
    while (x) {
        struct tb_trace_text *next = x->next;
        free(x->key);
        free(x);
        x = next;
    }
}

static void free_strings(char **string, uint32_t n)
{
    for (uint32_t i = 0; string && i < n; i++)
        free(string[i]);
    free(string);
}

static void remove_copy(const char *folder)
{
    static const char *const name[] = {"/trace", "/trace-wal", "/trace-shm", "/trace-journal"};

    for (size_t i = 0; i < TB_ARRAY_LEN(name); i++) {
        char *file = tb_place_join(folder, name[i]);
        if (file)
            (void)unlink(file);
        free(file);
    }
    (void)rmdir(folder);
}

void tb_trace_close(struct tb_trace *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < TB_GET_COUNT; i++)
        (void)sqlite3_finalize(t->stmt[i]);
    (void)sqlite3_close(t->db);
    tb_rovfs_release(&t->vfs);
    if (t->copy)
        remove_copy(t->copy);
    for (size_t i = 0; i < t->pairs; i++) {
        free(t->pair[i].key);
        free(t->pair[i].value);
    }
    for (size_t i = 0; t->segments && i < t->threads; i++) {
        free(t->segments[i].segment);
        free(t->segments[i].check);
    }
    for (uint32_t i = 0; t->site && i < t->sites; i++)
        free(t->site[i]);
    free_strings(t->string, t->strings);
    free_strings(t->range, t->ranges);
    free_texts(t->texts);
    free_texts(t->misc);
    free(t->segments);
    free(t->site);
    free(t->pair);
    free(t->process);
    free(t->thread);
    free(t->lost_why);
    free(t->warning);
    free(t->path);
    free(t->copy);
    free(t);
}

const struct tb_trace_info *tb_trace_info(const struct tb_trace *t)
{
    return &t->info;
}
