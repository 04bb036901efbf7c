/* Write failures, full disks and kills at every change to the files. */
#include "make.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"

static struct model *small_model(void)
{
    return model_new(make_seed(41), 2, 3, 900, 12, 20);
}

/*
 * A trace that could not be written to its end: what it holds is a prefix of what was written, all
 * of it checked, and what is missing is counted.
 */
static uint64_t compare_prefix(const char *path, const struct model *m, const struct written *w,
                               bool must_count)
{
    const struct tb_trace_event *x;
    struct tb_cursor *c;
    struct tb_trace *t;
    uint64_t n = 0, lost = 0;

    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_ok(tb_cursor_open_process(&c, t, 0, 0, UINT64_MAX, &make_error));
    for (;;) {
        assert_ok(tb_cursor_next(c, &x, &make_error));
        if (!x)
            break;
        assert_true(n < w->n);
        assert_int_equal(x->id, n + 1);
        assert_int_equal(x->e.seq, w->e[n].seq);
        assert_int_equal(x->e.args, w->e[n].args);
        assert_string_equal(x->site->text, m->site[w->from[n]->site]);
        n++;
    }
    tb_cursor_close(c);
    assert_ok(tb_trace_verify(t, &make_error));
    assert_int_equal(tb_trace_info(t)->events, n);
    (void)tb_trace_lost(t, &lost, NULL);
    if (must_count) {
        assert_true(tb_trace_info(t)->complete);
        assert_int_equal(n + lost, w->n);
    }
    if (!tb_trace_info(t)->complete)
        assert_non_null(tb_trace_info(t)->warning);
    tb_trace_close(t);
    return n;
}

/* What all writers below should have written, from a run without faults. */
static void reference(const char *folder, const struct model *m, struct written *w)
{
    struct tb_store *s;

    assert_ok(tb_store_create(&s, make_path(folder, "reference"), NULL, &make_error));
    model_write(m, s, 0, w);
    assert_ok(tb_store_close(s, &make_error));
}

/* Returns false once the fault did not come up any more. */
static bool write_with_fault(const char *path, const struct model *m, const struct written *want)
{
    struct tb_error err = {0};
    struct tb_store *s = NULL;
    struct written w;

    fault.seen = 0;
    if (tb_store_create(&s, path, NULL, &err) != TB_OK) {
        assert_null(s);
        assert_non_null(strstr(err.text, path));
        fault.mode = FAULT_OFF;
        assert_false(make_exists(path)); /* nothing half-made stays */
        return true;
    }
    model_write(m, s, 0, &w); /* asserts that no call fails */
    bool came = fault.seen >= fault.at;
    enum tb_status rc = tb_store_close(s, &err);
    bool late = !came && fault.seen >= fault.at; /* only the closing was hit */
    bool once = fault.mode == FAULT_ONCE;
    fault.mode = FAULT_OFF;
    if (came)
        assert_int_equal(rc, TB_ERR_IO);
    if (rc)
        assert_non_null(strstr(err.text, path));
    (void)compare_prefix(path, m, want, once && came);
    written_free(&w);
    return came || late;
}

static void fail_at_each(enum fault_mode mode, int code)
{
    const char *folder = make_folder();
    struct model *m = small_model();
    struct written w;
    unsigned n = 1;
    bool more = true;

    reference(folder, m, &w);
    fault_register();
    for (; more; n += n < 60 ? 1 : 7) {
        const char *path = make_path(folder, "f.twinbit");
        fault = (struct fault){.mode = mode, .at = n, .code = code};
        more = write_with_fault(path, m, &w);
        (void)unlink(path);
        (void)unlink(make_path(folder, "f.twinbit-wal"));
        (void)unlink(make_path(folder, "f.twinbit-shm"));
        (void)unlink(make_path(folder, "f.twinbit-journal"));
    }
    fault = (struct fault){0};
    fault_release();
    print_message("%u changes to files, each failed once\n", n);
    assert_true(n > 60);
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

static void test_fault__one_failed_write_costs_the_rest_and_nothing_else(void **state)
{
    (void)state;
    fail_at_each(FAULT_ONCE, SQLITE_IOERR_WRITE);
}

static void test_fault__a_disk_that_stays_full_fails_no_call_but_close(void **state)
{
    (void)state;
    fail_at_each(FAULT_FOREVER, SQLITE_FULL);
}

/* Run @body in a child; returns its wait status. */
static int in_child(void (*body)(void *arg), void *arg)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        (void)setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failed assertion must not go on here */
        body(arg);
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

struct killed {
    const char *path;
    const struct model *m;
    unsigned at;
};

static void write_and_die(void *arg)
{
    const struct killed *k = arg;
    struct tb_store *s;
    struct written w;

    fault_register();
    assert_ok(tb_store_create(&s, k->path, NULL, &make_error));
    fault = (struct fault){.mode = FAULT_KILL, .at = k->at};
    model_write(k->m, s, 0, &w);
    assert_ok(tb_store_close(s, &make_error));
}

static void test_kill__at_each_change_leaves_a_readable_prefix(void **state)
{
    const char *folder = make_folder();
    struct model *m = small_model();
    struct written w;
    unsigned n = 1, kills = 0;
    uint64_t last = 0;

    (void)state;
    reference(folder, m, &w);
    for (;; n += n < 60 ? 1 : 7) {
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/k%u.twinbit", folder, n);
        struct killed k = {path, m, n};
        int status = in_child(write_and_die, &k);
        if (!WIFSIGNALED(status))
            break;
        kills++;
        uint64_t got = compare_prefix(path, m, &w, false);
        assert_true(got >= last); /* what was flushed before stays */
        last = got;
    }
    print_message("%u kills\n", kills);
    assert_true(kills > 40);
    assert_int_equal(last, w.n); /* killed while closing: nothing is missing */
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

struct timed {
    const char *path;
    const struct model *m;
    volatile uint64_t *flushed; /* shared with the parent */
};

static void write_and_tell(void *arg)
{
    const struct timed *k = arg;
    struct tb_store *s;
    struct written w;

    assert_ok(tb_store_create(&s, k->path, NULL, &make_error));
    *k->flushed = 1;
    model_write(k->m, s, 0, &w);
    assert_ok(tb_store_flush(s, &make_error));
    *k->flushed = w.n;
    (void)pause();
}

static void test_kill__at_random_times_keeps_what_was_flushed(void **state)
{
    const char *folder = make_folder();
    struct model *m = model_new(make_seed(43), 2, 3, 8000, 30, 20);
    volatile uint64_t *flushed =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t r = make_seed(44);
    struct written w;

    (void)state;
    reference(folder, m, &w);
    for (int i = 0; i < 20; i++) {
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/r%d.twinbit", folder, i);
        struct timed k = {path, m, flushed};
        *flushed = 0;
        pid_t pid = fork();
        if (pid == 0) {
            write_and_tell(&k);
            _exit(0);
        }
        while (*flushed == 0) /* the file is there */
            (void)usleep(200);
        if (i == 19)
            while (*flushed != w.n)
                (void)usleep(1000);
        else
            (void)usleep((useconds_t)(make_rand(&r) % 40000));
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        uint64_t must = *flushed == w.n ? w.n : 0;
        assert_true(compare_prefix(path, m, &w, false) >= must);
    }
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

/* The -wal of a killed recording: cut or changed anywhere, or gone. */
static void test_kill__a_damaged_or_missing_wal_is_read_or_named(void **state)
{
    const char *folder = make_folder();
    struct model *m = small_model();
    uint64_t r = make_seed(45);
    char path[512], wal[520];
    struct tb_error err = {0};
    struct tb_trace *t;
    struct written w;
    size_t n;

    (void)state;
    reference(folder, m, &w);
    (void)snprintf(path, sizeof(path), "%s/w.twinbit", folder);
    (void)snprintf(wal, sizeof(wal), "%s-wal", path);
    struct killed k = {path, m, 60};
    assert_true(WIFSIGNALED(in_child(write_and_die, &k)));
    char *whole = make_read_file(wal, &n);
    for (int i = 0; i < 60; i++) {
        make_write_file(wal, whole, i < 5 ? (size_t)i * 8 : make_rand(&r) % n);
        (void)compare_prefix(path, m, &w, false);
    }
    for (int i = 0; i < 60; i++) { /* and changed anywhere */
        size_t at = make_rand(&r) % n;
        whole[at] ^= 4;
        make_write_file(wal, whole, n);
        whole[at] ^= 4;
        (void)compare_prefix(path, m, &w, false);
    }
    assert_int_equal(unlink(wal), 0);
    if (tb_trace_open(&t, path, &err) == TB_OK) {
        assert_non_null(strstr(tb_trace_info(t)->warning, "-wal' is missing"));
        tb_trace_close(t);
    } else {
        assert_non_null(strstr(err.text, "-wal' is missing"));
    }
    assert_false(make_exists(wal));
    free(whole);
    written_free(&w);
    model_free(m);
    make_clean(folder);
}

/* ---------------------------------------------------------------- at a segment's end */

/* Batches of one thread's events end where its segments end. */
static bool write_whole_segments(const char *path)
{
    static const char site[] = "torch\naten::mm\nw f32 cpu [2] - out\n";
    struct tb_store_process p = {.identity = "0", .rank = -1, .worker = -1};
    struct tb_store_access a = {.alloc = 1, .fp_kind = 1, .fp = "abc"};
    struct tb_store_stats stats;
    struct tb_error err = {0};
    uint32_t process, thread, id;
    struct tb_store *s;

    fault.seen = 0;
    if (tb_store_create(&s, path, NULL, &err) != TB_OK)
        return true;
    assert_ok(tb_store_add_process(s, &p, &process, &make_error));
    assert_ok(tb_store_add_thread(s, process, 0, "main", &thread, &make_error));
    assert_ok(tb_store_intern_site(s, site, sizeof(site) - 1, &id, &make_error));
    for (uint64_t i = 0; i < 30000; i++) {
        struct tb_store_event e = {.thread = thread, .kind = 1, .site = id, .seq = i, .open = i};
        assert_ok(tb_store_event(s, &e, &a, 1, NULL, &make_error));
    }
    bool came = fault.seen >= fault.at;
    tb_store_stats(s, &stats);
    enum tb_status rc = tb_store_close(s, &err);
    fault.mode = FAULT_OFF;
    assert_true(rc == TB_ERR_IO || (rc == TB_OK && stats.lost == 0));
    assert_int_equal(stats.events + stats.lost, 30000);
    struct tb_trace *t;
    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_ok(tb_trace_verify(t, &make_error));
    if (stats.lost > 0 && tb_trace_info(t)->complete) /* else closing may have lost more */
        assert_int_equal(tb_trace_info(t)->events, stats.events);
    tb_trace_close(t);
    return came;
}

static void test_fault__a_failure_at_a_segments_end_leaves_a_whole_trace(void **state)
{
    static const enum fault_mode modes[] = {FAULT_ONCE, FAULT_FOREVER};
    const char *folder = make_folder();

    (void)state;
    fault_register();
    for (size_t k = 0; k < 2; k++) {
        bool more = true;
        for (unsigned n = 1; more; n += n < 40 ? 13 : 37) {
            char path[512];
            (void)snprintf(path, sizeof(path), "%s/s%zu-%u.twinbit", folder, k, n);
            fault = (struct fault){.mode = modes[k], .at = n, .code = SQLITE_FULL};
            more = write_whole_segments(path);
        }
    }
    fault = (struct fault){0};
    fault_release();
    make_clean(folder);
}

/* ---------------------------------------------------------------- real limits */

static void write_many(const char *path, const struct model *m, unsigned rounds,
                       struct tb_error *err)
{
    struct tb_store_stats stats;
    struct tb_store *s;
    struct written w;

    assert_ok(tb_store_create(&s, path, NULL, &make_error));
    for (unsigned i = 0; i < rounds; i++) { /* each round: new processes and threads */
        model_write(m, s, 0, &w);
        written_free(&w);
    }
    tb_store_stats(s, &stats);
    if (!stats.disk_full)
        fail_msg("not a full disk: %s", tb_store_close(s, err) ? err->text : "no error");
    assert_true(stats.lost > 0);
    assert_int_equal(tb_store_close(s, err), TB_ERR_IO);
}

static void check_full(const char *path)
{
    const char *why;
    struct tb_trace *t;
    uint64_t lost;

    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_true(tb_trace_info(t)->complete);
    assert_true(tb_trace_lost(t, &lost, &why));
    assert_non_null(strstr(why, "disk was full"));
    assert_non_null(tb_trace_meta(t, "stopped"));
    assert_ok(tb_trace_verify(t, &make_error));
    assert_true(tb_trace_info(t)->events > 0);
    tb_trace_close(t);
}

static void test_full__a_small_disk_gets_a_whole_footer(void **state)
{
    const char *folder = make_folder();
    struct model *m = model_new(make_seed(46), 1, 1, 8000, 30, 20);
    char path[512];
    struct tb_error err = {0};

    (void)state;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=16m") != 0) {
        print_message("skipped: cannot mount a small file system: %s\n", strerror(errno));
        model_free(m);
        make_clean(folder);
        skip();
    }
    (void)snprintf(path, sizeof(path), "%s/a.twinbit", folder);
    write_many(path, m, 40, &err);
    assert_non_null(strstr(err.text, "disk was full"));
    check_full(path);
    assert_false(make_exists(make_path(folder, "a.twinbit-wal")));
    assert_int_equal(umount2(folder, MNT_DETACH), 0);
    model_free(m);
    make_clean(folder);
}

static void limited(void *arg)
{
    const struct killed *k = arg;
    struct rlimit limit = {3u << 20, 3u << 20};
    struct tb_error err = {0};

    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        _exit(3);
    write_many(k->path, k->m, 30, &err);
    assert_non_null(strstr(err.text, "ulimit -f"));
}

static void test_full__a_file_size_limit_ends_recording_like_a_full_disk(void **state)
{
    const char *folder = make_folder();
    struct model *m = model_new(make_seed(47), 1, 1, 8000, 30, 20);
    char path[512];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/a.twinbit", folder);
    struct killed k = {path, m, 0};
    assert_int_equal(in_child(limited, &k), 0);
    struct tb_trace *t;
    assert_ok(tb_trace_open(&t, path, &make_error));
    assert_ok(tb_trace_verify(t, &make_error));
    assert_true(tb_trace_info(t)->events > 0);
    tb_trace_close(t);
    model_free(m);
    make_clean(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fault__one_failed_write_costs_the_rest_and_nothing_else),
        cmocka_unit_test(test_fault__a_failure_at_a_segments_end_leaves_a_whole_trace),
        cmocka_unit_test(test_fault__a_disk_that_stays_full_fails_no_call_but_close),
        cmocka_unit_test(test_kill__at_each_change_leaves_a_readable_prefix),
        cmocka_unit_test(test_kill__at_random_times_keeps_what_was_flushed),
        cmocka_unit_test(test_kill__a_damaged_or_missing_wal_is_read_or_named),
        cmocka_unit_test(test_full__a_file_size_limit_ends_recording_like_a_full_disk),
        cmocka_unit_test(test_full__a_small_disk_gets_a_whole_footer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
