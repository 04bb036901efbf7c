/* A cut or changed file opens or is refused with a message; it never crashes, never lies. */
#include "make.h"

#include <unistd.h>

/* A small trace with something in every table; returns its bytes. */
static char *make_trace(const char *path, size_t *n, struct model **model, struct written *out)
{
    struct model *m = model_new(make_seed(21), 2, 3, 1500, 12, 20);
    struct written w;
    struct tb_store *s;
    uint64_t sums[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    char bytes[5000];

    memset(bytes, 'x', sizeof(bytes));
    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    assert_ok(tb_store_meta(s, "argv", "python train.py", &make_error));
    assert_ok(tb_store_text(s, "environment", bytes, sizeof(bytes), &make_error));
    model_write(m, s, 0, &w);
    assert_ok(tb_store_coverage(s, 1, 1, w.id[3], 1, "sparse", "aten::mm", "no", 2, &make_error));
    assert_ok(tb_store_lost(s, 1, 0, 5, "ring full", &make_error));
    assert_ok(tb_store_map(s, w.id[9], 0, 77, sums, 4, &make_error));
    assert_ok(tb_store_snapshot(s, w.id[9], 0, bytes, sizeof(bytes), &make_error));
    assert_ok(tb_store_stack(s, w.id[9], "a.py:3 f\n", 9, &make_error));
    assert_ok(tb_store_file(s, &(struct tb_store_file){"cache", "a/b", 0644, sizeof(bytes)}, 0,
                            bytes, sizeof(bytes), &make_error));
    assert_ok(tb_store_close(s, &make_error));
    if (model) {
        *model = m;
        *out = w;
    } else {
        written_free(&w);
        model_free(m);
    }
    return make_read_file(path, n);
}

/* Everything a reader can ask; true if the trace passes tb_trace_verify(). */
static bool read_all(const char *path, struct tb_error *err)
{
    struct tb_trace *t;
    size_t n, k;
    uint64_t sums[32], size;
    uint32_t parts;
    void *data = NULL;

    if (tb_trace_open(&t, path, err) != TB_OK) {
        assert_true(strlen(err->text) > 0);
        return false;
    }
    const struct tb_trace_thread *th = tb_trace_threads(t, &n);
    for (size_t i = 0; i < n; i++) {
        struct tb_trace_segment *s = NULL;
        struct tb_error e = {0};
        if (tb_trace_segments(t, th[i].id, &s, &k, &e) == TB_OK)
            free(s);
    }
    (void)tb_trace_text(t, "environment", &k);
    (void)tb_trace_stack(t, 10);
    for (uint32_t i = 0; i < 40; i++) {
        (void)tb_trace_site(t, i);
        (void)tb_trace_range(t, i);
    }
    if (tb_trace_snapshot(t, 10, 0, &data, &size, NULL) == TB_OK)
        free(data);
    if (tb_trace_map(t, 10, 0, sums, &parts, NULL) == TB_OK)
        assert_true(parts <= 16);
    bool ok = tb_trace_verify(t, err) == TB_OK;
    assert_true(ok || strlen(err->text) > 0);
    tb_trace_close(t);
    return ok;
}

/* What passed as whole must be what was written. */
static void compare(const char *path, const struct model *m, const struct written *w)
{
    struct tb_trace *t;

    assert_ok(tb_trace_open(&t, path, &make_error));
    model_compare(m, w, t);
    tb_trace_close(t);
}

static void test_damage__a_file_cut_anywhere_is_refused(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "cut.twinbit");
    uint64_t r = make_seed(31);
    size_t n;
    char *whole = make_trace(make_path(folder, "a.twinbit"), &n, NULL, NULL);

    (void)state;
    for (int i = 0; i < 400; i++) {
        size_t cut = i < 120 ? (size_t)i : make_rand(&r) % n;
        struct tb_error err = {0};
        make_write_file(path, whole, cut);
        assert_false(read_all(path, &err));
        assert_true(err.status == TB_ERR_FORMAT || err.status == TB_ERR_CORRUPT);
        assert_non_null(strstr(err.text, "cut.twinbit"));
        if (cut >= 100)
            assert_non_null(strstr(err.text, "is cut"));
    }
    free(whole);
    make_clean(folder);
}

/*
 * One byte changed anywhere: either the reader says so, or the byte was in unused space, or it
 * carries nothing (then all events still come back equal).
 */
static void test_damage__a_flipped_byte_never_changes_what_is_read(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "flip.twinbit");
    unsigned flips = getenv("TB_TEST_FLIPS") ? (unsigned)atoi(getenv("TB_TEST_FLIPS")) : 1500;
    unsigned found = 0, named = 0;
    struct model *m;
    struct written w;
    uint64_t r = make_seed(32);
    size_t n;
    char *whole = make_trace(make_path(folder, "a.twinbit"), &n, &m, &w);

    (void)state;
    for (unsigned i = 0; i < flips; i++) {
        size_t at = i < 100 ? i : make_rand(&r) % n;
        char was = whole[at];
        struct tb_error err = {0};
        whole[at] ^= (char)(1 << make_rand(&r) % 8);
        make_write_file(path, whole, n);
        whole[at] = was;
        if (!read_all(path, &err)) {
            found++;
            named += strstr(err.text, "corrupted") != NULL;
        } else if (i % 4 == 0) {
            compare(path, m, &w);
        }
    }
    print_message("%u of %u changed bytes reported, %u as corruption\n", found, flips, named);
    assert_true(found > flips / 3);
    free(whole);
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

/*
 * Flip a bit in each copy of @needle. Copies that pages which were split have left in unused space
 * do not count: there everything must still come back equal. At least one copy is a row.
 */
static void flip_in_rows(const char *folder, const struct model *m, const struct written *w,
                         const void *needle, size_t len)
{
    const char *path = make_path(folder, "row.twinbit");
    size_t n, hits = 0, reported = 0;
    char *whole = make_read_file(make_path(folder, "a.twinbit"), &n);

    for (char *p = whole; (p = memmem(p, n - (size_t)(p - whole), needle, len)); p++) {
        struct tb_error err = {0};
        size_t at = (size_t)(p - whole) + hits % len;
        whole[at] ^= 0x10;
        make_write_file(path, whole, n);
        whole[at] ^= 0x10;
        if (read_all(path, &err)) {
            compare(path, m, w);
        } else {
            assert_int_equal(err.status, TB_ERR_CORRUPT);
            assert_non_null(strstr(err.text, "corrupted at"));
            reported++;
        }
        if (++hits == 20)
            break;
    }
    if (reported == 0)
        fail_msg("no change to '%.*s' was reported (%zu copies)", (int)len, (const char *)needle,
                 hits);
    free(whole);
}

static void test_damage__each_kind_of_row_is_protected(void **state)
{
    const char *folder = make_folder();
    struct model *m;
    struct written w;
    size_t n;
    char *whole = make_trace(make_path(folder, "a.twinbit"), &n, &m, &w);

    (void)state;
    flip_in_rows(folder, m, &w, "aten::op5", 9);        /* sites.text and StringIds */
    flip_in_rows(folder, m, &w, "layer.3.attn", 12);    /* a range's string */
    flip_in_rows(folder, m, &w, "identity 1", 10);      /* process */
    flip_in_rows(folder, m, &w, "python train.py", 15); /* meta */
    flip_in_rows(folder, m, &w, "ring full", 9);        /* lost */
    flip_in_rows(folder, m, &w, "sparse", 6);           /* coverage */
    flip_in_rows(folder, m, &w, "a.py:3 f", 8);         /* stack */
    for (uint32_t i = 0, done = 0; done < 10; i++)
        for (uint32_t k = 0; k < m->event[0][i].accesses && done < 10; k++)
            if (m->event[0][i].access[k].fp_kind && ++done)
                flip_in_rows(folder, m, &w, m->event[0][i].access[k].fp, 16);
    free(whole);
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

static void expect_refused(const char *path, enum tb_status status, const char *words)
{
    struct tb_error err = {0};
    struct tb_trace *t = NULL;

    assert_int_equal(tb_trace_open(&t, path, &err), status);
    assert_null(t);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, words));
}

static void test_open__refuses_what_is_not_a_trace(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "x");
    char text[200];

    (void)state;
    expect_refused(path, TB_ERR_NOTFOUND, "cannot open");
    expect_refused(folder, TB_ERR_FORMAT, "not a trace");
    make_write_file(path, "", 0);
    expect_refused(path, TB_ERR_FORMAT, "empty");
    make_write_file(path, "hello\n", 6);
    expect_refused(path, TB_ERR_FORMAT, "not a trace");
    memset(text, 0, sizeof(text));
    memcpy(text, "SQLite format 3", 16);
    make_write_file(path, text, sizeof(text));
    expect_refused(path, TB_ERR_FORMAT, "another program");
    make_clean(folder);
}

static void run_sql(const char *path, const char *sql)
{
    char command[1024];

    (void)snprintf(command, sizeof(command), "sqlite3 '%s' \"%s\"", path, sql);
    assert_int_equal(system(command), 0);
}

static void write_model(const char *path, const struct model *m)
{
    struct written w;
    struct tb_store *s;

    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    model_write(m, s, 0, &w);
    written_free(&w);
    assert_ok(tb_store_close(s, &make_error));
}

/* Rows that another one names and that are gone: said, never followed. */
static void test_damage__a_missing_row_is_corruption(void **state)
{
    static const char *const tables[] = {"ranges", "sites", "threads", "StringIds"};
    const char *folder = make_folder();
    struct model *m = model_new(make_seed(48), 1, 2, 3000, 30, 20);

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(tables); i++) {
        char path[512], sql[128];
        struct tb_error err = {0};
        struct tb_trace *t = NULL;
        struct tb_cursor *c = NULL;
        const struct tb_trace_event *e;
        (void)snprintf(path, sizeof(path), "%s/%zu.twinbit", folder, i);
        write_model(path, m);
        (void)snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE id = 2", tables[i]);
        run_sql(path, sql);
        enum tb_status st = tb_trace_open(&t, path, &err);
        if (st == TB_OK)
            st = tb_cursor_open_process(&c, t, 0, 0, UINT64_MAX, &err);
        for (e = NULL; st == TB_OK && (st = tb_cursor_next(c, &e, &err)) == TB_OK && e;)
            assert_non_null(tb_trace_range(t, e->e.range));
        assert_int_equal(st, TB_ERR_CORRUPT);
        assert_non_null(strstr(err.text, "trace corrupted at"));
        tb_cursor_close(c);
        tb_trace_close(t);
    }
    model_free(m);
    make_clean(folder);
}

/* Columns that no digest covers are compared with what does. */
static void test_damage__verifying_reads_every_column(void **state)
{
    static const char *const changes[] = {
        "UPDATE siteAccesses SET shape = '[97]' WHERE siteId = 1 AND accessIndex = 0",
        "UPDATE siteAccesses SET strides = '[1' WHERE siteId = 1 AND accessIndex = 0",
        "UPDATE events SET flags = NULL WHERE id = 3",
        "UPDATE accesses SET alloc = NULL WHERE id = (SELECT min(id) FROM accesses)",
    };
    const char *folder = make_folder();
    struct model *m = model_new(make_seed(49), 1, 1, 100, 10, 4);

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(changes); i++) {
        char path[512];
        struct tb_error err = {0};
        struct tb_trace *t;
        (void)snprintf(path, sizeof(path), "%s/%zu.twinbit", folder, i);
        write_model(path, m);
        assert_ok(tb_trace_open(&t, path, &make_error));
        assert_ok(tb_trace_verify(t, &make_error));
        tb_trace_close(t);
        run_sql(path, changes[i]);
        assert_ok(tb_trace_open(&t, path, &make_error));
        if (tb_trace_verify(t, &err) != TB_ERR_CORRUPT)
            fail_msg("not noticed: %s", changes[i]);
        tb_trace_close(t);
    }
    model_free(m);
    make_clean(folder);
}

/* A later writer's file: refused, or read if its writer says that this reader understands it. */
static void test_open__judges_the_version_by_the_oldest_reader_it_names(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "v.twinbit");
    struct tb_error err = {0};
    struct tb_trace *t = NULL;
    size_t n;
    char *whole;

    (void)state;
    if (system("command -v sqlite3 >/dev/null") != 0) {
        print_message("skipped: no sqlite3 shell\n");
        skip();
    }
    whole = make_trace(path, &n, NULL, NULL);
    run_sql(path, "PRAGMA user_version=7");
    assert_ok(tb_trace_open(&t, path, &make_error));
    tb_trace_close(t);
    t = NULL;
    /* a later writer's checksums mean nothing to us: minReader is looked at before them */
    run_sql(path, "UPDATE meta SET value='7', rowCheck=NULL WHERE name='minReader'");
    assert_int_equal(tb_trace_open(&t, path, &err), TB_ERR_VERSION);
    assert_non_null(strstr(err.text, "newer"));
    assert_null(t);
    make_write_file(path, whole, n);
    run_sql(path, "PRAGMA user_version=7");
    run_sql(path, "UPDATE meta SET value='4', rowCheck=NULL WHERE name='features'");
    assert_int_equal(tb_trace_open(&t, path, &err), TB_ERR_VERSION);
    free(whole);
    make_clean(folder);
}

static void test_open__changes_nothing_on_disk(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a.twinbit");
    struct tb_error err = {0};
    size_t n, after;
    char *whole = make_trace(path, &n, NULL, NULL), *again;

    (void)state;
    assert_true(read_all(path, &err));
    again = make_read_file(path, &after);
    assert_int_equal(n, after);
    assert_memory_equal(whole, again, n);
    assert_false(make_exists(make_path(folder, "a.twinbit-wal")));
    assert_false(make_exists(make_path(folder, "a.twinbit-shm")));
    assert_false(make_exists(make_path(folder, "a.twinbit-journal")));
    free(whole);
    free(again);
    make_clean(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage__a_file_cut_anywhere_is_refused),
        cmocka_unit_test(test_damage__a_flipped_byte_never_changes_what_is_read),
        cmocka_unit_test(test_damage__each_kind_of_row_is_protected),
        cmocka_unit_test(test_damage__a_missing_row_is_corruption),
        cmocka_unit_test(test_damage__verifying_reads_every_column),
        cmocka_unit_test(test_open__refuses_what_is_not_a_trace),
        cmocka_unit_test(test_open__judges_the_version_by_the_oldest_reader_it_names),
        cmocka_unit_test(test_open__changes_nothing_on_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
