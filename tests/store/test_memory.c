/* Allocations that fail, at the 1st..nth call, in the store and in SQLite; and memory that stays
 * flat. */
#include "make.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the failing allocator */

static struct {
    bool on;
    unsigned at, seen;
} fail;

static bool fails(void)
{
    return fail.on && ++fail.seen == fail.at;
}

/* The linker sends the store's calls here (CMakeLists.txt: --wrap). */
void *__real_malloc(size_t n);
void *__real_calloc(size_t k, size_t n);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t k, size_t n);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);
int __wrap_asprintf(char **out, const char *fmt, ...) TB_PRINTF(2, 3);

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t k, size_t n)
{
    return fails() ? NULL : __real_calloc(k, n);
}
void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}
char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}
char *__wrap_strndup(const char *s, size_t n)
{
    return fails() ? NULL : __real_strndup(s, n);
}
int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
    return fails() ? ENOMEM : __real_posix_memalign(p, align, n);
}
int __wrap_asprintf(char **out, const char *fmt, ...)
{
    va_list ap;

    if (fails())
        return -1;
    va_start(ap, fmt);
    int n = vasprintf(out, fmt, ap);
    va_end(ap);
    return n;
}

static sqlite3_mem_methods real;

static void *sqlite_malloc(int n)
{
    return fails() ? NULL : real.xMalloc(n);
}
static void *sqlite_realloc(void *p, int n)
{
    return fails() ? NULL : real.xRealloc(p, n);
}

/* ---------------------------------------------------------------- the script */

/* What may happen to a call while memory runs out. */
static bool fine_at(enum tb_status rc, const struct tb_error *err, int line)
{
    if (rc != TB_OK && rc != TB_ERR_NOMEM)
        fail_msg("line %d, allocation %u: %s: %s", line, fail.at, tb_status_name(rc), err->text);
    return rc == TB_OK;
}

#define fine(call) fine_at((call), err, __LINE__)

static const char site[] = "torch\naten::mm\nr f32 cpu [2,3] [1,2] self\nw f32 cpu [2] - out\n";

static void write_events(struct tb_store *s, struct tb_error *err)
{
    struct tb_store_access a[2] = {{.alloc = 1}, {.alloc = 2, .fp_kind = TB_FP_BYTES, .fp = "xyz"}};
    uint64_t sums[4] = {1, 2, 3, 4}, id = 0;
    struct tb_store_process p = {.rank = -1, .worker = -1, .identity = "0", .argv = "a"};
    uint32_t process, thread, site_id, range = 0;

    if (!fine(tb_store_add_process(s, &p, &process, err)) ||
        !fine(tb_store_add_thread(s, process, 0, "main", &thread, err)) ||
        !fine(tb_store_intern_site(s, site, sizeof(site) - 1, &site_id, err)))
        return;
    (void)fine(tb_store_intern_range(s, "forward\tlayer\t", 14, &range, err));
    for (uint64_t i = 0; i < 1500; i++) {
        struct tb_store_event e = {
            .thread = thread, .kind = 1, .site = site_id, .range = range, .seq = i, .open = i};
        assert_int_equal(tb_store_event(s, &e, a, 2, &id, err), TB_OK);
    }
    (void)fine(tb_store_coverage(s, process, thread, id, 1, "k", "s", "d", 1, err));
    (void)fine(tb_store_coverage(s, process, 0, 3, 1, "k", "s", "d", 1, err));
    (void)fine(tb_store_map(s, id, 1, 8, sums, 2, err));
    (void)fine(tb_store_snapshot(s, id, 1, "abcdef", 6, err));
    (void)fine(tb_store_stack(s, id, "a.py:1 f\n", 9, err));
    (void)fine(tb_store_lost(s, process, 0, 1, "why", err));
    (void)fine(tb_store_flush(s, err));
}

static bool write_script(const char *path, struct tb_error *err)
{
    struct tb_store_options o = {.force = true};
    struct tb_store *s = NULL;
    enum tb_status rc;

    if (!fine(tb_store_create(&s, path, &o, err)))
        return false;
    (void)fine(tb_store_meta(s, "key", "value", err));
    (void)fine(tb_store_text(s, "text", "text", 4, err));
    (void)fine(tb_store_file(s, &(struct tb_store_file){"f", "a/b", 0644, 4}, 0, "text", 4, err));
    write_events(s, err);
    rc = tb_store_close(s, err);
    assert_true(rc == TB_OK || rc == TB_ERR_IO || rc == TB_ERR_NOMEM);
    return rc == TB_OK;
}

static bool read_script(const char *path, struct tb_error *err)
{
    const struct tb_trace_event *e = NULL;
    struct tb_trace_segment *s = NULL;
    struct tb_cursor *c = NULL;
    struct tb_trace *t = NULL;
    void *data = NULL;
    uint64_t n, events = 0;
    bool ok = true;
    size_t k;

    if (!fine(tb_trace_open(&t, path, err)))
        return false;
    ok &= tb_trace_text(t, "text", &k) != NULL;
    ok &= tb_trace_site(t, 1) != NULL;
    ok &= tb_trace_range(t, 1) != NULL;
    ok &= tb_trace_stack(t, 1500) != NULL;
    if (fine(tb_trace_segments(t, 1, &s, &k, err)))
        free(s);
    if (fine(tb_trace_snapshot(t, 1500, 1, &data, &n, err)))
        free(data);
    if (fine(tb_cursor_open(&c, t, 1, 0, UINT64_MAX, err)))
        while (fine(tb_cursor_next(c, &e, err)) && e)
            events++;
    tb_cursor_close(c);
    ok &= fine(tb_trace_verify(t, err)) && events == 1500;
    tb_trace_close(t);
    return ok;
}

static unsigned stride(unsigned n)
{
    return n < 200 ? 1 : 41;
}

static void test_memory__each_failed_allocation_of_the_writer_leaves_a_whole_trace(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a.twinbit");
    unsigned n, refused = 0;
    bool done = false;

    (void)state;
    for (n = 1; !done; n += stride(n)) {
        struct tb_error err = {0};
        struct tb_trace *t;
        fail.seen = 0;
        fail.at = n;
        fail.on = true;
        bool ok = write_script(path, &err);
        done = fail.seen < n;
        fail.on = false;
        if (done)
            assert_true(ok);
        refused += !ok;
        if (!make_exists(path))
            continue;
        assert_ok(tb_trace_open(&t, path, &make_error));
        assert_ok(tb_trace_verify(t, &make_error));
        tb_trace_close(t);
    }
    print_message("%u allocations, %u failures shown\n", n, refused);
    assert_true(n > 300 && refused > 50);
    make_clean(folder);
}

static void test_memory__each_failed_allocation_of_the_reader_is_said(void **state)
{
    const char *folder = make_folder(), *path = make_path(folder, "a.twinbit");
    unsigned n, refused = 0;
    struct tb_error err = {0};
    bool done = false;

    (void)state;
    assert_true(write_script(path, &err));
    for (n = 1; !done; n += stride(n)) {
        fail.seen = 0;
        fail.at = n;
        fail.on = true;
        bool ok = read_script(path, &err);
        done = fail.seen < n;
        fail.on = false;
        if (done)
            assert_true(ok);
        refused += !ok;
    }
    print_message("%u allocations, %u failures shown\n", n, refused);
    assert_true(n > 300 && refused > 50);
    make_clean(folder);
}

/* ---------------------------------------------------------------- flat */

/* Peak memory, in KiB, of a child that writes and reads @events events. */
static long peak(const char *path, uint64_t events)
{
    struct rusage usage;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct tb_store_access a[2] = {{.alloc = 1}, {.alloc = 2, .fp_kind = 1, .fp = "xyz"}};
        struct tb_store_process p = {.rank = -1, .worker = -1, .identity = "0", .argv = "a"};
        const struct tb_trace_event *x = NULL;
        struct tb_store_options o = {.force = true};
        uint32_t process, thread[3], id;
        uint64_t n = 0;
        struct tb_store *s;
        struct tb_trace *t;
        struct tb_cursor *c;
        (void)setenv("CMOCKA_TEST_ABORT", "1", 1);
        assert_ok(tb_store_create(&s, path, &o, &make_error));
        assert_ok(tb_store_add_process(s, &p, &process, &make_error));
        for (uint32_t i = 0; i < 3; i++)
            assert_ok(tb_store_add_thread(s, process, i, "t", &thread[i], &make_error));
        assert_ok(tb_store_intern_site(s, site, sizeof(site) - 1, &id, &make_error));
        for (uint64_t i = 0; i < events; i++) {
            uint32_t k = i % 1000 == 0 ? 2 : i % 3 == 0; /* one thread is rare */
            struct tb_store_event e = {
                .thread = thread[k], .kind = 1, .site = id, .seq = i, .open = i, .step = i / 4000};
            assert_ok(tb_store_event(s, &e, a, 2, NULL, &make_error));
        }
        assert_ok(tb_store_close(s, &make_error));
        assert_ok(tb_trace_open(&t, path, &make_error));
        assert_ok(tb_cursor_open_process(&c, t, process, 0, UINT64_MAX, &make_error));
        for (;; n++) {
            assert_ok(tb_cursor_next(c, &x, &make_error));
            if (!x)
                break;
        }
        assert_int_equal(n, events);
        tb_cursor_close(c);
        tb_trace_close(t);
        _exit(0);
    }
    assert_int_equal(wait4(pid, &status, 0, &usage), pid);
    assert_int_equal(status, 0);
    return usage.ru_maxrss;
}

static void test_memory__stays_flat_as_the_trace_grows(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    print_message("skipped: the sanitizer keeps what was freed\n");
    skip();
#endif
    const char *folder = make_folder(), *path = make_path(folder, "a.twinbit");
    long few = peak(path, 200000), many = peak(path, 1000000);

    (void)state;
    print_message("peak memory %ld KiB for 2e5 events, %ld KiB for 1e6\n", few, many);
    assert_true(many < few + 6 * 1024);
    make_clean(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory__stays_flat_as_the_trace_grows),
        cmocka_unit_test(test_memory__each_failed_allocation_of_the_writer_leaves_a_whole_trace),
        cmocka_unit_test(test_memory__each_failed_allocation_of_the_reader_is_said),
    };
    sqlite3_mem_methods failing;

    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real) != SQLITE_OK)
        return 1;
    failing = real;
    failing.xMalloc = sqlite_malloc;
    failing.xRealloc = sqlite_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &failing) != SQLITE_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
