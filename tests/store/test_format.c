/* FORMAT.md by a second hand: digests and checksums made anew from the rows, with nothing of
 * store/. */
#include "make.h"

#include <sqlite3.h>
#include <xxhash.h>

struct bytes {
    uint8_t *p;
    size_t n, room;
};

static void put(struct bytes *b, const void *data, size_t n)
{
    if (b->n + n > b->room) {
        b->room = (b->n + n) * 2;
        b->p = realloc(b->p, b->room);
        assert_non_null(b->p);
    }
    if (data && n > 0)
        memcpy(b->p + b->n, data, n);
    b->n += n;
}

static void put_le(struct bytes *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++, v >>= 8)
        put(b, &(uint8_t){(uint8_t)v}, 1);
}

static uint64_t number(sqlite3_stmt *st, int i)
{
    return (uint64_t)sqlite3_column_int64(st, i);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    return st;
}

static bool in_digest(const char *mode, uint64_t kind, bool reads)
{
    return strchr("whsg", *mode) != NULL || (reads && *mode == 'r' && kind != 0);
}

/* One event's accesses into both streams; @reads: hashed reads are part of the digest. */
static void add_accesses(sqlite3_stmt *a, uint64_t id, bool reads, struct bytes *digest,
                         struct bytes *check)
{
    static const uint8_t none[16];

    (void)sqlite3_reset(a);
    (void)sqlite3_bind_int64(a, 1, (sqlite3_int64)id);
    while (sqlite3_step(a) == SQLITE_ROW) {
        int n = sqlite3_column_bytes(a, 2);
        const uint8_t *fp = sqlite3_column_blob(a, 2);
        uint64_t kind = n == 0 ? 0 : n == 16 ? number(a, 4) : fp[16];
        put_le(check, number(a, 0), 8);
        put_le(check, number(a, 1), 8);
        put_le(check, kind, 1);
        put(check, n ? fp : none, 16);
        if (!in_digest((const char *)sqlite3_column_text(a, 3), kind, reads))
            continue;
        put_le(digest, kind, 1);
        put(digest, n ? fp : none, 16);
    }
}

static void hash_segment(sqlite3 *db, uint64_t thread, uint64_t first, uint64_t last, uint64_t base,
                         uint8_t digest[16], int64_t *check)
{
    sqlite3_stmt *e = prepare(
        db, "SELECT e.id, kind, flags, siteId, rangeId, id + seqOffset, span, step, args, start,"
            " (SELECT hash FROM sites s WHERE s.id = siteId) FROM events e"
            " WHERE threadId=? AND id BETWEEN ? AND ? ORDER BY id");
    sqlite3_stmt *a =
        prepare(db, "SELECT alloc, offset, fp, mode, fpKind FROM accesses a, events e,"
                    " siteAccesses s WHERE e.id = ?1 AND a.id >> 16 = e.id AND"
                    " a.id BETWEEN e.id << 16 AND e.id << 16 | 65535 AND"
                    " s.siteId = e.siteId AND s.accessIndex = a.id & 65535 ORDER BY a.id");
    struct bytes d = {0}, c = {0};

    (void)sqlite3_bind_int64(e, 1, (sqlite3_int64)thread);
    (void)sqlite3_bind_int64(e, 2, (sqlite3_int64)first);
    (void)sqlite3_bind_int64(e, 3, (sqlite3_int64)last);
    while (sqlite3_step(e) == SQLITE_ROW) {
        put(&d, sqlite3_column_blob(e, 10), 16);
        put_le(&d, number(e, 8), 8);
        put_le(&d, number(e, 1), 1);
        put_le(&d, number(e, 2) & ~(uint64_t)TB_EVF_READS_HASHED, 2);
        put_le(&c, number(e, 0), 8);
        put_le(&c, thread, 8);
        put_le(&c, number(e, 1) | number(e, 2) << 8, 8);
        put_le(&c, number(e, 3) | number(e, 4) << 32, 8);
        put_le(&c, number(e, 5), 8);
        put_le(&c, number(e, 5) - number(e, 6), 8);
        put_le(&c, number(e, 7), 8);
        put_le(&c, number(e, 8), 8);
        put_le(&c, number(e, 9) + base, 8);
        bool reads = number(e, 1) >= TB_EV_LAUNCH && number(e, 1) <= TB_EV_GRAPH;
        add_accesses(a, number(e, 0), reads, &d, &c);
    }
    XXH128_hash_t h = XXH3_128bits(d.p, d.n);
    struct bytes out = {0};
    put_le(&out, h.low64, 8);
    put_le(&out, h.high64, 8);
    memcpy(digest, out.p, 16);
    *check = (int64_t)XXH3_64bits(c.p, c.n);
    free(out.p);
    free(d.p);
    free(c.p);
    (void)sqlite3_finalize(e);
    (void)sqlite3_finalize(a);
}

static void test_format__segments_hash_to_what_the_text_says(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a");
    struct model *m = model_new(make_seed(71), 2, 3, 2500, 30, 40);
    struct tb_store *s;
    struct written w;
    sqlite3 *db;
    unsigned n = 0;

    (void)state;
    for (uint32_t i = 0; i < m->events[0]; i++) { /* work of a GPU in one of the threads */
        m->event[0][i].kind = (uint8_t)(TB_EV_LAUNCH + i % 5);
        m->event[0][i].flags ^= i & 8 ? TB_EVF_READS_HASHED : 0;
    }
    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    model_write(m, s, 0, &w);
    assert_ok(tb_store_close(s, &make_error));
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite3_stmt *st =
        prepare(db, "SELECT threadId, firstId, lastId, digest, eventCheck, (SELECT value"
                    " FROM meta WHERE name='startMonotonicNs') FROM segments");
    for (; sqlite3_step(st) == SQLITE_ROW; n++) {
        uint8_t digest[16];
        int64_t check;
        hash_segment(db, number(st, 0), number(st, 1), number(st, 2), number(st, 5), digest,
                     &check);
        assert_memory_equal(digest, sqlite3_column_blob(st, 3), 16);
        assert_int_equal(check, sqlite3_column_int64(st, 4));
    }
    assert_true(n > 5);
    (void)sqlite3_finalize(st);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

/* The hash of a row's columns but the first @skip and the last, which is its rowCheck. */
static int64_t hash_row(sqlite3_stmt *st, int skip)
{
    struct bytes b = {0};

    for (int i = skip; i + 1 < sqlite3_column_count(st); i++) {
        int type = sqlite3_column_type(st, i);
        size_t n = (size_t)sqlite3_column_bytes(st, i);
        put_le(&b, (uint64_t)type, 1);
        if (type == SQLITE_INTEGER) {
            put_le(&b, number(st, i), 8);
        } else {
            put_le(&b, n, 8);
            put(&b, type == SQLITE_NULL ? NULL : sqlite3_column_blob(st, i), n);
        }
    }
    int64_t h = (int64_t)XXH3_64bits(b.p, b.n);
    free(b.p);
    return h;
}

static void test_format__rows_hash_to_what_the_text_says(void **state)
{
    static const struct {
        const char *sql;
        int skip;
    } tables[] = {
        {"SELECT * FROM meta", 0},
        {"SELECT * FROM StringIds", 0},
        {"SELECT * FROM processes", 0},
        {"SELECT * FROM threads", 0},
        {"SELECT * FROM sites", 0},
        {"SELECT * FROM ranges", 0},
        {"SELECT * FROM segments", 0},
        {"SELECT * FROM coverage", 1},
        {"SELECT * FROM lost", 1},
        {"SELECT * FROM maps", 0},
        {"SELECT * FROM stacks", 0},
        {"SELECT name, part, totalBytes, rowCheck FROM texts", 0},
        {"SELECT accessId, part, totalBytes, rowCheck FROM snapshots", 0},
        {"SELECT folder, path, mode, part, totalBytes, rowCheck FROM files", 0},
    };
    const char *folder = make_folder(), *path = make_path(folder, "a");
    struct model *m = model_new(make_seed(72), 2, 3, 200, 10, 4);
    uint64_t sums[4] = {1, 2, 3, 4};
    struct tb_store *s;
    struct written w;
    sqlite3 *db;

    (void)state;
    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    assert_ok(tb_store_text(s, "t", "text", 4, &make_error));
    model_write(m, s, 0, &w);
    for (int i = 0; i < 3; i++)
        assert_ok(tb_store_coverage(s, 1, 1, w.id[3], 1, "k", "s", "d", 2, &make_error));
    assert_ok(tb_store_lost(s, 1, 0, 5, "why", &make_error));
    assert_ok(tb_store_map(s, w.id[3], 0, 77, sums, 2, &make_error));
    assert_ok(tb_store_snapshot(s, w.id[3], 0, "bytes", 5, &make_error));
    assert_ok(tb_store_stack(s, w.id[3], "a.py:3 f\n", 9, &make_error));
    const struct tb_store_file file = {"cache", "a/b", 0644, 5};
    assert_ok(tb_store_file(s, &file, 0, "bytes", 5, &make_error));
    assert_ok(tb_store_close(s, &make_error));
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    for (size_t i = 0; i < TB_ARRAY_LEN(tables); i++) {
        sqlite3_stmt *st = prepare(db, tables[i].sql);
        unsigned n = 0;
        for (; sqlite3_step(st) == SQLITE_ROW; n++)
            if (hash_row(st, tables[i].skip) !=
                sqlite3_column_int64(st, sqlite3_column_count(st) - 1))
                fail_msg("row %u of %s", n, tables[i].sql);
        if (n == 0)
            fail_msg("no row in %s", tables[i].sql);
        (void)sqlite3_finalize(st);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format__segments_hash_to_what_the_text_says),
        cmocka_unit_test(test_format__rows_hash_to_what_the_text_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
