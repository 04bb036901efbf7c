/*
 * Folders that go into a trace and come back: what leads out of the folder, is no plain file or is
 * too much is refused, and what comes back is what was there.
 */
#include "collector/frozen.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/store/make.h"

static char root[256]; /* of one test; written by its setup */

static const char *at(const char *name)
{
    static char text[4][600];
    static unsigned next;
    char *out = text[next++ % 4];

    (void)snprintf(out, sizeof(text[0]), "%s/%s", root, name);
    return out;
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "%s", make_folder());
    return mkdir(at("in"), 0700) || mkdir(at("out"), 0700);
}

static int teardown(void **state)
{
    (void)state;
    make_clean(root);
    return 0;
}

static void write_file(const char *name, const void *data, size_t n, mode_t mode)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void assert_file(const char *name, const void *data, size_t n, mode_t mode)
{
    struct stat st;
    char *got = malloc(n + 1);
    int fd = open(at(name), O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    assert_int_equal(read(fd, got, n + 1), n);
    assert_memory_equal(got, data, n);
    (void)close(fd);
    free(got);
}

/* A trace with one file, as somebody else may have written it */
static struct tb_trace *trace_with(const char *path, uint64_t bytes, uint32_t mode)
{
    const struct tb_store_file file = {"cache", path, mode, bytes};
    struct tb_store *s;
    struct tb_trace *t;

    assert_ok(tb_store_create(&s, at("t"), &(struct tb_store_options){.force = true}, &make_error));
    assert_ok(tb_store_file(s, &file, 0, "12345", bytes < 5 ? bytes : 5, &make_error));
    assert_ok(tb_store_close(s, &make_error));
    assert_ok(tb_trace_open(&t, at("t"), &make_error));
    return t;
}

static enum tb_status unpack(struct tb_trace *t, const char *was, struct tb_frozen *f)
{
    *f = (struct tb_frozen){0};
    enum tb_status st = tb_frozen_unpack(f, t, "cache", was, at("out"), &make_error);
    tb_trace_close(t);
    return st;
}

static void freeze(struct tb_frozen *f)
{
    struct tb_store *s;

    *f = (struct tb_frozen){0};
    assert_ok(tb_frozen_look(f, at("in"), &make_error));
    assert_ok(tb_store_create(&s, at("t"), &(struct tb_store_options){.force = true}, &make_error));
    assert_ok(tb_frozen_keep(f, at("in"), s, "cache", &make_error));
    assert_ok(tb_store_close(s, &make_error));
}

static void test_frozen__what_was_there_comes_back(void **state)
{
    size_t big = (5u << 20) + 7;
    char *data = malloc(big);
    struct tb_frozen before, after = {0};
    struct tb_trace *t;
    uint64_t r = 9;

    (void)state;
    for (size_t i = 0; i < big; i++)
        data[i] = (char)make_rand(&r);
    assert_int_equal(mkdir(at("in/a b"), 0755) | mkdir(at("in/a b/c"), 0700), 0);
    write_file("in/a b/c/big", data, big, 0755);
    write_file("in/a b/empty", "", 0, 0600);
    write_file("in/set", "x", 1, 04711); /* no such permission comes back */
    write_file("in/locked", "y", 1, 0444);
    freeze(&before);
    assert_int_equal(before.count, 4);
    assert_int_equal(before.bytes, big + 2);
    assert_ok(tb_trace_open(&t, at("t"), &make_error));
    assert_ok(unpack(t, "/elsewhere", &after));
    assert_file("out/a b/c/big", data, big, 0755);
    assert_file("out/a b/empty", "", 0, 0600);
    assert_file("out/set", "x", 1, 0711);
    assert_file("out/locked", "y", 1, 0644);
    assert_int_equal(after.count, 4);
    for (size_t i = 0; i < after.count; i++) {
        const struct tb_frozen_file *f = tb_frozen_find(&before, after.file[i].path);
        assert_non_null(f);
        assert_int_equal(f->bytes, after.file[i].bytes);
        assert_true(tb_fp_equal(f->fp, after.file[i].fp));
    }
    assert_null(tb_frozen_find(&before, "a b"));
    tb_frozen_release(&before);
    tb_frozen_release(&after);
    free(data);
}

static void test_frozen__links_and_special_files_are_left_out(void **state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct tb_frozen f;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    write_file("in/file", "x", 1, 0600);
    assert_int_equal(symlink("/etc/passwd", at("in/link")), 0);
    assert_int_equal(symlink("/", at("in/root")), 0);
    assert_int_equal(mkfifo(at("in/fifo"), 0600), 0);
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", at("in/s"));
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    freeze(&f);
    assert_int_equal(f.count, 1);
    assert_string_equal(f.file[0].path, "file");
    assert_int_equal(f.special, 4);
    tb_frozen_release(&f);
    (void)close(fd);
}

/* Between looking and reading a file may go, or become another thing */
static void test_frozen__what_changes_meanwhile_is_left_out(void **state)
{
    struct tb_frozen f = {0};
    struct tb_store *s;

    (void)state;
    for (char name[] = "in/a"; name[3] <= 'd'; name[3]++)
        write_file(name, "12345", 5, 0600);
    assert_ok(tb_frozen_look(&f, at("in"), &make_error));
    assert_int_equal(unlink(at("in/a")) | unlink(at("in/b")) | truncate(at("in/c"), 2), 0);
    assert_int_equal(symlink("d", at("in/b")), 0);
    assert_ok(tb_store_create(&s, at("t"), NULL, &make_error));
    assert_ok(tb_frozen_keep(&f, at("in"), s, "cache", &make_error));
    assert_ok(tb_store_close(s, &make_error));
    assert_int_equal(f.count, 1);
    assert_string_equal(f.file[0].path, "d");
    tb_frozen_release(&f);
}

static void test_frozen__paths_that_lead_out_are_refused(void **state)
{
    static const char *const bad[] = {"",          ".",    "..",   "/etc/x", "../x",
                                      "a/../../x", "a/..", "a//b", "a/./b",  "/",
                                      "a/",        "./a",  "../",  "a/../b", "../out/x"};
    struct tb_frozen f;
    char lengthy[3000];

    (void)state;
    memset(lengthy, 'x', sizeof(lengthy));
    lengthy[sizeof(lengthy) - 1] = 0;
    for (size_t i = 0; i <= TB_ARRAY_LEN(bad); i++) {
        const char *path = i < TB_ARRAY_LEN(bad) ? bad[i] : lengthy;
        assert_int_equal(unpack(trace_with(path, 5, 0600), "/was", &f), TB_ERR_CORRUPT);
        assert_non_null(strstr(make_error.text, "leads out of its folder"));
        tb_frozen_release(&f);
    }
    assert_int_equal(rmdir(at("out")), 0); /* nothing was made in it */
    assert_int_equal(access(at("x"), F_OK), -1);
    assert_int_equal(mkdir(at("out"), 0700), 0);
    assert_ok(unpack(trace_with("..a/b..", 5, 0600), "/was", &f)); /* names like others */
    assert_file("out/..a/b..", "12345", 5, 0600);
    tb_frozen_release(&f);
}

static void test_frozen__too_much_is_refused(void **state)
{
    struct tb_frozen f;

    (void)state;
    assert_int_equal(unpack(trace_with("a", TB_FROZEN_BYTES + 1, 0600), "/was", &f),
                     TB_ERR_CORRUPT); /* it has not even what it says */
    tb_frozen_release(&f);
    f = (struct tb_frozen){.bytes = TB_FROZEN_BYTES};
    assert_true(tb_frozen_fits(&f, UINT64_MAX));
    assert_false(tb_frozen_fits(&f, TB_FROZEN_BYTES - 1));
    f.bytes++;
    assert_false(tb_frozen_fits(&f, UINT64_MAX));
    f = (struct tb_frozen){.count = TB_FROZEN_FILES + 1};
    assert_false(tb_frozen_fits(&f, UINT64_MAX));
}

/* Triton's lists alone, whole folders alone, as often as they come */
static void test_frozen__whole_paths_follow_the_folder(void **state)
{
    static const char text[] = "\"/was/a\" /was/b /wasp /was";
    struct tb_frozen f;
    struct tb_trace *t;
    char want[1300];

    (void)state;
    assert_int_equal(mkdir(at("in/k"), 0700), 0);
    write_file("in/k/__grp__x.json", text, sizeof(text) - 1, 0600);
    write_file("in/k/x.json", text, sizeof(text) - 1, 0600);
    freeze(&f);
    tb_frozen_release(&f);
    assert_ok(tb_trace_open(&t, at("t"), &make_error));
    assert_ok(unpack(t, "/was", &f));
    int n = snprintf(want, sizeof(want), "\"%s/a\" %s/b /wasp /was", at("out"), at("out"));
    assert_file("out/k/__grp__x.json", want, (size_t)n, 0600);
    assert_file("out/k/x.json", text, sizeof(text) - 1, 0600);
    const struct tb_frozen_file *moved = tb_frozen_find(&f, "k/__grp__x.json");
    assert_int_equal(moved->bytes, n);
    assert_true(tb_fp_equal(moved->fp, tb_fp_host(want, (size_t)n, 0)));
    tb_frozen_release(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_frozen__##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_there_comes_back),
        TEST(links_and_special_files_are_left_out),
        TEST(what_changes_meanwhile_is_left_out),
        TEST(paths_that_lead_out_are_refused),
        TEST(too_much_is_refused),
        TEST(whole_paths_follow_the_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
