/* Overwriting, recording elsewhere, max_size, coverage, misuse, a trace that is being recorded. */
#include "make.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_small(const char *path, const struct tb_store_options *o, const char *mark)
{
    struct model *m = model_new(make_seed(51), 1, 2, 100, 6, 4);
    struct tb_store *s;
    struct written w;

    assert_ok(tb_store_create(&s, path, o, &make_error));
    assert_ok(tb_store_meta(s, "mark", mark, &make_error));
    model_write(m, s, 0, &w);
    assert_ok(tb_store_close(s, &make_error));
    written_free(&w);
    model_free(m);
}

static void expect_mark(const char *path, const char *mark)
{
    struct tb_trace *t;

    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_string_equal(tb_trace_meta(t, "mark"), mark);
    assert_null(tb_trace_meta(t, "no such key"));
    tb_trace_close(t);
}

static void expect_create(const char *path, bool force, enum tb_status status, const char *words)
{
    struct tb_store_options o = {.force = force};
    struct tb_error err = {0};
    struct tb_store *s = NULL;

    assert_int_equal(tb_store_create(&s, path, &o, &err), status);
    assert_null(s);
    assert_non_null(strstr(err.text, words));
}

static void test_create__overwrites_nothing_unless_forced(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a.twinbit");
    struct tb_store_options force = {.force = true};

    (void)state;
    write_small(path, NULL, "first");
    expect_create(path, false, TB_ERR_EXISTS, "--force");
    expect_mark(path, "first");
    write_small(path, &force, "second");
    expect_mark(path, "second");
    make_write_file(path, "precious\n", 9);
    expect_create(path, true, TB_ERR_EXISTS, "not a trace");
    assert_int_equal(unlink(path), 0);
    make_write_file(make_path(folder, "a.twinbit-wal"), "left over", 9);
    expect_create(path, false, TB_ERR_EXISTS, "-wal' exists");
    write_small(path, &force, "third");
    expect_mark(path, "third");
    make_clean(folder);
}

/* What is replaced comes back if nothing came of the new one, also with a -wal of a killed writer.
 */
static void test_create__what_is_replaced_stays_until_it_began(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a.twinbit");
    char replaced[600], wal[600];
    struct tb_store_options aside = {.force = true, .aside = true};
    struct tb_store *s = NULL;

    (void)state;
    (void)snprintf(replaced, sizeof(replaced), "%s.replaced", path);
    (void)snprintf(wal, sizeof(wal), "%s-wal", path);
    write_small(path, NULL, "first");
    assert_int_equal(tb_store_create(&s, path, &aside, NULL), TB_OK);
    expect_mark(replaced, "first"); /* whoever is killed now leaves it there */
    tb_store_drop(s);
    expect_mark(path, "first");
    assert_int_equal(access(replaced, F_OK), -1);
    assert_int_equal(access(wal, F_OK), -1);

    make_write_file(wal, "", 0);
    assert_int_equal(tb_store_create(&s, path, &aside, NULL), TB_OK);
    tb_store_drop(s);
    assert_int_equal(access(wal, F_OK), 0);
    expect_mark(path, "first");

    assert_int_equal(tb_store_create(&s, path, &aside, NULL), TB_OK);
    assert_int_equal(tb_store_meta(s, "mark", "second", NULL), TB_OK);
    tb_store_began(s);
    assert_int_equal(access(replaced, F_OK), -1);
    assert_int_equal(tb_store_close(s, NULL), TB_OK);
    expect_mark(path, "second");
    make_write_file(path, "precious\n", 9); /* refused: neither moved nor changed */
    assert_int_equal(tb_store_create(&s, path, &aside, NULL), TB_ERR_EXISTS);
    assert_int_equal(access(replaced, F_OK), -1);
    tb_store_drop(NULL);
    make_clean(folder);
}

static void test_create__says_why_it_cannot(void **state)
{
    const char *folder = make_folder();
    struct tb_error err = {0};
    struct tb_store *s = NULL;

    (void)state;
    expect_create(make_path(folder, "no/such/folder/a"), false, TB_ERR_IO, "cannot create");
    expect_create(folder, true, TB_ERR_EXISTS, "not a trace");
    assert_int_equal(tb_store_create(&s, "", NULL, &err), TB_ERR_ARG);
    assert_int_equal(tb_store_create(NULL, "x", NULL, &err), TB_ERR_ARG);
    make_clean(folder);
}

static void test_local__records_elsewhere_and_moves_at_the_end(void **state)
{
    const char *folder = make_folder();
    char path[512], local[512], moved[1024];
    struct tb_store_options o = {.local = local};
    struct tb_error err = {0};
    struct tb_trace *t = NULL;
    struct tb_store *s;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/a.twinbit", folder);
    (void)snprintf(local, sizeof(local), "%s/local", folder);
    assert_int_equal(mkdir(local, 0700), 0);
    assert_ok(tb_store_create(&s, path, &o, &make_error));
    assert_ok(tb_store_meta(s, "mark", "moved", &make_error));
    assert_ok(tb_store_flush(s, &make_error));
    assert_int_equal(tb_trace_open(&t, path, &err),
                     TB_ERR_FORMAT); /* a killed one says where it is */
    char *place = strstr(err.text, local);
    assert_non_null(place);
    (void)snprintf(moved, sizeof(moved), "%.*s", (int)strcspn(place, "'"), place);
    assert_true(make_exists(moved));
    assert_ok(tb_store_close(s, &make_error));
    expect_mark(path, "moved");
    assert_int_equal(rmdir(local), 0); /* nothing is left there */
    make_clean(folder);
}

static uint64_t size_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

/* Count what the segments promise and what is there. */
static void check_trimmed(const char *path, const struct written *w)
{
    size_t n, threads, deleted = 0, kept = 0;
    struct tb_trace_segment *s;
    struct tb_trace *t;

    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_int_equal(tb_trace_info(t)->events, w->n); /* segments tell of all */
    const struct tb_trace_thread *th = tb_trace_threads(t, &threads);
    for (size_t i = 0; i < threads; i++) {
        assert_ok(tb_trace_segments(t, th[i].id, &s, &n, &make_error));
        for (size_t k = 0; k < n; k++) {
            *(s[k].detail ? &kept : &deleted) += s[k].count;
            if (k > 0) /* the oldest goes first */
                assert_true(s[k].detail >= s[k - 1].detail);
        }
        free(s);
    }
    assert_int_equal(kept + deleted, w->n);
    assert_true(kept > 0 && deleted > 0);
    const struct tb_trace_event *e;
    struct tb_cursor *c;
    assert_ok(tb_cursor_open_process(&c, t, 0, 0, UINT64_MAX, &make_error));
    for (;; kept--) {
        assert_ok(tb_cursor_next(c, &e, &make_error));
        if (!e)
            break;
    }
    tb_cursor_close(c);
    assert_int_equal(kept, 0);
    assert_ok(tb_trace_verify(t, &make_error));
    tb_trace_close(t);
}

/* The trace says of how many events the detail is gone. */
static void check_said(const char *path, uint64_t trimmed)
{
    struct tb_trace *t = NULL;
    size_t threads, segments;
    uint64_t gone = 0;

    assert_ok(tb_trace_open(&t, path, &make_error));
    const struct tb_trace_thread *th = tb_trace_threads(t, &threads);
    for (size_t i = 0; i < threads; i++) {
        struct tb_trace_segment *seg = NULL;
        assert_ok(tb_trace_segments(t, th[i].id, &seg, &segments, &make_error));
        for (size_t k = 0; k < segments; k++)
            gone += seg[k].detail ? 0 : seg[k].count;
        free(seg);
    }
    assert_non_null(tb_trace_meta(t, "trimmed"));
    assert_int_equal(strtoull(tb_trace_meta(t, "trimmed"), NULL, 10), gone);
    assert_true(trimmed > 0 && trimmed <= gone);
    tb_trace_close(t);
}

static void test_max_size__deletes_the_oldest_detail_and_keeps_segments(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a.twinbit");
    struct tb_store_options o = {.max_size = 12u << 20};
    struct model *m = model_new(make_seed(52), 1, 3, 220000, 40, 8);
    struct tb_store *s;
    struct written w;

    (void)state;
    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    model_write(m, s, 0, &w);
    assert_ok(tb_store_close(s, &make_error));
    written_free(&w);
    assert_true(size_of(path) > o.max_size * 5 / 4); /* else nothing is tested */
    assert_int_equal(unlink(path), 0);
    assert_ok(tb_store_create(&s, path, &o, &make_error));
    model_write(m, s, 0, &w);
    assert_ok(tb_store_flush(s, &make_error));
    uint64_t trimmed = tb_store_trimmed(s);
    assert_ok(tb_store_close(s, &make_error));
    assert_true(size_of(path) <= o.max_size);
    assert_true(size_of(path) > o.max_size / 2);
    check_trimmed(path, &w);
    check_said(path, trimmed);
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

/* ---------------------------------------------------------------- coverage */

struct rows {
    size_t n;
    uint64_t count;
    char last[64];
};

static bool on_row(void *arg, const struct tb_trace_coverage *row)
{
    struct rows *r = arg;

    r->n++;
    r->count += row->count;
    (void)snprintf(r->last, sizeof(r->last), "%s", row->subject);
    return true;
}

/* Writes 3,000 events with coverage at the given event positions; returns the segments. */
static size_t covered(const char *path, const uint32_t *at, size_t n, const char *subject,
                      struct tb_trace_segment **out)
{
    struct model *m = model_new(7, 1, 1, 3000, 6, 4);
    struct tb_store *s;
    struct tb_trace *t;
    struct written w;
    struct rows rows = {0};
    size_t count;

    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    model_write(m, s, 0, &w);
    for (size_t i = 0; i < n; i++)
        assert_ok(tb_store_coverage(s, 1, i % 2, w.id[at[i]], 1, "sparse", subject, "why", 3,
                                    &make_error));
    assert_ok(tb_store_close(s, &make_error));
    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_ok(tb_trace_coverage(t, 1, on_row, &rows, &make_error));
    assert_int_equal(rows.count, 3 * n);
    assert_ok(tb_trace_coverage(t, 2, on_row, &rows, &make_error));
    assert_int_equal(rows.count, 3 * n);
    assert_ok(tb_trace_verify(t, &make_error));
    assert_ok(tb_trace_segments(t, 1, out, &count, &make_error));
    tb_trace_close(t);
    written_free(&w);
    model_free(m);
    return count;
}

static void test_coverage__is_digested_in_the_segment_of_its_event(void **state)
{
    static const uint8_t none[16];
    const uint32_t at[] = {5, 2900, 800}, turned[] = {2900, 800, 5};
    const char *folder = make_folder();
    struct tb_trace_segment *a, *b, *c;
    size_t n = covered(make_path(folder, "a"), at, 3, "aten::mm", &a), with = 0;

    (void)state;
    assert_int_equal(covered(make_path(folder, "b"), turned, 3, "aten::mm", &b), n);
    assert_int_equal(covered(make_path(folder, "c"), at, 3, "aten::bmm", &c), n);
    for (size_t i = 0; i < n; i++) {
        bool has = false;
        for (size_t k = 0; k < 3; k++)
            has = has || (at[k] + 1 >= a[i].first && at[k] + 1 <= a[i].last);
        with += has;
        assert_int_equal(memcmp(a[i].coverage, none, 16) != 0, has);
        assert_memory_equal(a[i].coverage, b[i].coverage, 16); /* their order does not matter */
        assert_int_equal(memcmp(a[i].coverage, c[i].coverage, 16) != 0, has);
        assert_memory_equal(a[i].digest, c[i].digest, 16);
    }
    assert_int_equal(with, 3);
    free(a);
    free(b);
    free(c);
    make_clean(folder);
}

static void test_coverage__equal_rows_are_counted_together(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a");
    struct tb_store_process p = {.identity = "0", .rank = -1, .worker = -1};
    struct rows rows = {0};
    struct tb_store *s;
    struct tb_trace *t;
    uint32_t id;

    (void)state;
    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    assert_ok(tb_store_add_process(s, &p, &id, &make_error));
    for (int i = 0; i < 10; i++)
        assert_ok(tb_store_coverage(s, id, 0, 0, 0, "kind", "subject", i % 2 ? "a" : "b", 2,
                                    &make_error));
    assert_ok(tb_store_close(s, &make_error));
    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_ok(tb_trace_coverage(t, 0, on_row, &rows, &make_error));
    assert_int_equal(rows.n, 2);
    assert_int_equal(rows.count, 20);
    tb_trace_close(t);
    make_clean(folder);
}

/* ---------------------------------------------------------------- readers meanwhile */

/* Closes a trace that a child has open from before until @ms after the closing began. */
static enum tb_status close_while_read(const char *path, unsigned ms, struct tb_error *err)
{
    struct tb_store_process p = {.identity = "0", .rank = -1, .worker = -1};
    struct tb_store *s;
    struct tb_trace *t;
    int ready[2];
    char byte = 0;
    uint32_t process;

    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    assert_ok(tb_store_add_process(s, &p, &process, &make_error));
    assert_ok(tb_store_flush(s, &make_error));
    assert_int_equal(pipe(ready), 0);
    pid_t reader = fork();
    if (reader == 0) {
        if (tb_trace_open(&t, path, NULL) != TB_OK || write(ready[1], "r", 1) != 1)
            _exit(1);
        (void)usleep(ms * 1000);
        tb_trace_close(t);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    enum tb_status rc = tb_store_close(s, err);
    if (ms > 60000)
        (void)kill(reader, SIGKILL);
    assert_int_equal(waitpid(reader, NULL, 0), reader);
    (void)close(ready[0]);
    (void)close(ready[1]);
    return rc;
}

static void test_close__waits_for_who_reads_the_trace(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a");
    struct tb_error err = {0};
    struct tb_trace *t;

    (void)state;
    assert_int_equal(close_while_read(path, 300, &err), TB_OK);
    assert_false(make_exists(make_path(folder, "a-wal")));
    path = make_path(folder, "b");
    assert_int_equal(close_while_read(path, 100000, &err), TB_ERR_BUSY);
    assert_non_null(strstr(err.text, "keep '"));
    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_true(tb_trace_info(t)->complete);
    assert_ok(tb_trace_verify(t, &make_error));
    tb_trace_close(t);
    make_clean(folder);
}

/* ---------------------------------------------------------------- misuse */

static void test_event__misuse_changes_nothing(void **state)
{
    static const char site[] = "torch\naten::mm\nw f32 cpu [2] - out\n";
    const char *folder = make_folder(), *path = make_path(folder, "a");
    struct tb_store_process p = {.identity = "0", .rank = -1, .worker = -1};
    struct tb_store_access a = {.fp_kind = 1}, odd = {.fp_kind = 9};
    uint32_t process, thread, id, other;
    struct tb_store *s;
    uint64_t row;

    (void)state;
    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    assert_ok(tb_store_add_process(s, &p, &process, &make_error));
    assert_ok(tb_store_add_thread(s, process, 0, "main", &thread, &make_error));
    assert_ok(tb_store_intern_site(s, site, sizeof(site) - 1, &id, &make_error));
    assert_ok(tb_store_intern_site(s, site, sizeof(site) - 1, &other, &make_error));
    assert_int_equal(id, other);
    struct tb_store_event e = {.thread = thread, .kind = 1, .site = id, .seq = 4, .open = 3}, bad;
    assert_ok(tb_store_event(s, &e, &a, 1, &row, &make_error));
    bad = e; /* the same seq again */
    assert_int_equal(tb_store_event(s, &bad, &a, 1, &row, NULL), TB_ERR_ARG);
    bad = (struct tb_store_event){.thread = 9, .site = id, .seq = 9};
    assert_int_equal(tb_store_event(s, &bad, &a, 1, &row, NULL), TB_ERR_ARG);
    bad = (struct tb_store_event){.thread = thread, .site = 9, .seq = 9};
    assert_int_equal(tb_store_event(s, &bad, &a, 1, &row, NULL), TB_ERR_ARG);
    bad = (struct tb_store_event){.thread = thread, .site = id, .seq = 9, .range = 3};
    assert_int_equal(tb_store_event(s, &bad, &a, 1, &row, NULL), TB_ERR_ARG);
    bad = (struct tb_store_event){.thread = thread, .site = id, .seq = 9, .open = 10};
    assert_int_equal(tb_store_event(s, &bad, &a, 1, &row, NULL), TB_ERR_ARG);
    e.seq = 9;
    assert_int_equal(tb_store_event(s, &e, &a, 2, &row, NULL), TB_ERR_ARG);
    assert_int_equal(tb_store_event(s, &e, NULL, 1, &row, NULL), TB_ERR_ARG);
    assert_int_equal(tb_store_event(s, &e, &odd, 1, &row, NULL), TB_ERR_ARG);
    assert_int_equal(tb_store_add_thread(s, 7, 0, "main", &thread, NULL), TB_ERR_ARG);
    assert_int_equal(tb_store_intern_range(s, "one\ttab", 7, &id, NULL), TB_ERR_FORMAT);
    assert_ok(tb_store_event(s, &e, &a, 1, &row, &make_error));
    assert_int_equal(row, 2);
    assert_ok(tb_store_close(s, &make_error));
    struct tb_trace *t;
    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_ok(tb_trace_verify(t, &make_error));
    assert_int_equal(tb_trace_info(t)->events, 2);
    tb_trace_close(t);
    make_clean(folder);
}

static void test_extras__maps_snapshots_stacks_texts_come_back(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a");
    struct model *m = model_new(8, 1, 1, 20, 6, 4);
    size_t big = (9u << 20) + 5, size; /* three parts */
    uint64_t sums[32], got[32], n, r = 3;
    uint32_t parts;
    char *data = malloc(big);
    void *back;
    struct tb_store *s;
    struct tb_trace *t;
    struct written w;

    (void)state;
    for (size_t i = 0; i < big; i++)
        data[i] = (char)(i % 3 ? make_rand(&r) : i);
    for (size_t i = 0; i < 32; i++)
        sums[i] = make_rand(&r);
    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    model_write(m, s, 0, &w);
    assert_ok(tb_store_snapshot(s, w.id[3], 1, data, big, &make_error));
    assert_ok(tb_store_snapshot(s, w.id[3], 2, NULL, 0, &make_error));
    assert_ok(tb_store_map(s, w.id[4], 1, 99, sums, 16, &make_error));
    assert_ok(tb_store_stack(s, w.id[5], "a.py:1 f\nb.py:2 g\n", 18, &make_error));
    assert_ok(tb_store_text(s, "t", data, big, &make_error));
    assert_ok(tb_store_text(s, "t", "shorter", 7, &make_error));
    assert_ok(tb_store_text(s, "empty", "", 0, &make_error));
    assert_ok(tb_store_close(s, &make_error));
    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_ok(tb_trace_snapshot(t, w.id[3], 1, &back, &n, &make_error));
    assert_int_equal(n, big);
    assert_memory_equal(back, data, big);
    free(back);
    assert_ok(tb_trace_snapshot(t, w.id[3], 2, &back, &n, &make_error));
    assert_int_equal(n, 0);
    free(back);
    assert_int_equal(tb_trace_snapshot(t, w.id[3], 3, &back, &n, NULL), TB_ERR_NOTFOUND);
    assert_ok(tb_trace_map(t, w.id[4], 1, got, &parts, &make_error));
    assert_int_equal(parts, 16);
    assert_memory_equal(got, sums, sizeof(sums));
    assert_int_equal(tb_trace_map(t, w.id[4], 2, got, &parts, NULL), TB_ERR_NOTFOUND);
    assert_string_equal(tb_trace_stack(t, w.id[5]), "a.py:1 f\nb.py:2 g\n");
    assert_null(tb_trace_stack(t, w.id[6]));
    assert_string_equal(tb_trace_text(t, "t", &size), "shorter");
    assert_int_equal(size, 7);
    assert_string_equal(tb_trace_text(t, "empty", &size), "");
    assert_null(tb_trace_text(t, "none", &size));
    assert_ok(tb_trace_verify(t, &make_error));
    tb_trace_close(t);
    free(data);
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

struct kept {
    const char *data; /* of the file with several parts */
    uint64_t done;
    char seen[64]; /* paths in order */
};

static enum tb_status look_at_part(void *arg, const struct tb_store_file *file, uint64_t part,
                                   const void *data, size_t n, struct tb_error *err)
{
    struct kept *k = arg;

    assert_string_equal(file->folder, "cache");
    if (part == 0) {
        (void)snprintf(k->seen + strlen(k->seen), sizeof(k->seen) - strlen(k->seen), "%s:%o;",
                       file->path, file->mode);
        k->done = 0;
    }
    if (strcmp(file->path, "big") == 0)
        assert_memory_equal(data, k->data + k->done, n);
    k->done += n;
    if (strcmp(file->path, "stop") == 0)
        return tb_fail(err, TB_ERR_LIMIT, "stopped");
    return TB_OK;
}

/* A file of several parts, an empty one, folders that do not mix; a part that is gone is damage */
static void test_extras__files_come_back(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a");
    size_t big = (9u << 20) + 5;
    char *data = malloc(big);
    struct tb_store_file file = {"cache", "big", 0755, big};
    struct kept k = {.data = data};
    struct tb_store *s;
    struct tb_trace *t;
    sqlite3 *db;
    uint64_t r = 5;

    (void)state;
    for (size_t i = 0; i < big; i++)
        data[i] = (char)make_rand(&r);
    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    for (uint64_t part = 0, done = 0; done < big; part++, done += TB_STORE_PART)
        assert_ok(tb_store_file(s, &file, part, data + done,
                                big - done < TB_STORE_PART ? big - done : TB_STORE_PART,
                                &make_error));
    file = (struct tb_store_file){"cache", "a/empty", 0600, 0};
    assert_ok(tb_store_file(s, &file, 0, NULL, 0, &make_error));
    file = (struct tb_store_file){"other", "stop", 0600, 1};
    assert_ok(tb_store_file(s, &file, 0, "x", 1, &make_error));
    assert_int_equal(tb_store_file(s, &file, 0, data, TB_STORE_PART + 1, NULL), TB_ERR_ARG);
    assert_ok(tb_store_close(s, &make_error));

    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_ok(tb_trace_files(t, "cache", look_at_part, &k, &make_error));
    assert_string_equal(k.seen, "a/empty:600;big:755;");
    assert_int_equal(k.done, big);
    assert_ok(tb_trace_files(t, "none", look_at_part, &k, &make_error));
    assert_ok(tb_trace_verify(t, &make_error));
    tb_trace_close(t);

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DELETE FROM files WHERE part=1", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_int_equal(tb_trace_files(t, "cache", look_at_part, &k, &make_error), TB_ERR_CORRUPT);
    assert_non_null(strstr(make_error.text, "file 'big', part 1"));
    assert_int_equal(tb_trace_verify(t, NULL), TB_ERR_CORRUPT);
    tb_trace_close(t);
    free(data);
    make_clean(folder);
}

static void test_extras__who_reads_files_may_stop(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a");
    struct kept k = {0};
    struct tb_store *s;
    struct tb_trace *t;

    (void)state;
    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    for (int i = 0; i < 2; i++) {
        const struct tb_store_file file = {"cache", i ? "stop" : "zz", 0600, 1};
        assert_ok(tb_store_file(s, &file, 0, "x", 1, &make_error));
    }
    assert_ok(tb_store_close(s, &make_error));
    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_int_equal(tb_trace_files(t, "cache", look_at_part, &k, NULL), TB_ERR_LIMIT);
    assert_string_equal(k.seen, "stop:600;");
    tb_trace_close(t);
    make_clean(folder);
}

/* ---------------------------------------------------------------- at the same time */

static void record_and_wait(const char *path, int ready)
{
    struct model *m = model_new(make_seed(53), 1, 2, 3000, 6, 4);
    struct tb_store *s;
    struct written w;

    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    model_write(m, s, 0, &w);
    assert_ok(tb_store_flush(s, &make_error));
    (void)!write(ready, "x", 1);
    (void)pause();
}

static void test_open__reads_a_trace_that_is_being_recorded(void **state)
{
    const char *folder = make_folder();
    char path[512], x;
    struct tb_trace *t;
    int ready[2];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/a.twinbit", folder);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        record_and_wait(path, ready[1]);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &x, 1), 1);
    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_false(tb_trace_info(t)->complete);
    assert_non_null(strstr(tb_trace_info(t)->warning, "being recorded"));
    assert_true(tb_trace_info(t)->events > 3000);
    assert_ok(tb_trace_verify(t, &make_error));
    tb_trace_close(t);
    expect_create(path, true, TB_ERR_BUSY, "being recorded");
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
    make_clean(folder);
}

static void test_open__many_handles_of_one_trace(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a");
    struct tb_trace *t[4];

    (void)state;
    write_small(path, NULL, "m");
    for (int i = 0; i < 4; i++)
        assert_ok(tb_trace_open(&t[i], path, &make_error));
    for (int i = 0; i < 4; i++)
        assert_ok(tb_trace_verify(t[i], &make_error));
    for (int i = 0; i < 4; i++)
        tb_trace_close(t[(i + 2) % 4]);
    tb_trace_close(NULL);
    tb_cursor_close(NULL);
    make_clean(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create__overwrites_nothing_unless_forced),
        cmocka_unit_test(test_create__what_is_replaced_stays_until_it_began),
        cmocka_unit_test(test_create__says_why_it_cannot),
        cmocka_unit_test(test_local__records_elsewhere_and_moves_at_the_end),
        cmocka_unit_test(test_max_size__deletes_the_oldest_detail_and_keeps_segments),
        cmocka_unit_test(test_coverage__is_digested_in_the_segment_of_its_event),
        cmocka_unit_test(test_coverage__equal_rows_are_counted_together),
        cmocka_unit_test(test_close__waits_for_who_reads_the_trace),
        cmocka_unit_test(test_event__misuse_changes_nothing),
        cmocka_unit_test(test_extras__maps_snapshots_stacks_texts_come_back),
        cmocka_unit_test(test_extras__files_come_back),
        cmocka_unit_test(test_extras__who_reads_files_may_stop),
        cmocka_unit_test(test_open__reads_a_trace_that_is_being_recorded),
        cmocka_unit_test(test_open__many_handles_of_one_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
