#include "tests/collector/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "recorder/wire.h"

static char folder[256], home[4096];

uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

const char *test_folder(void)
{
    if (!home[0])
        assert_non_null(getcwd(home, sizeof(home)));
    snprintf(folder, sizeof(folder), "/tmp/twinbit-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    return folder;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)type;
    (void)f;
    return remove(path);
}

void test_folder_done(void)
{
    assert_int_equal(chdir(home), 0);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int set_up(void **state)
{
    (void)state;
    test_folder();
    fprintf(stderr, "in %s\n", folder);
    setenv("TMPDIR", folder, 1); /* what a killed collector leaves goes with the folder */
    unsetenv("XDG_RUNTIME_DIR");
    setenv("FAKE_TORCH", TEST_TORCH, 1);
    setenv("TWINBIT_TAP", TEST_TAP, 1);
    unsetenv("LD_PRELOAD");
    unsetenv("FAULT");
    unsetenv("FAULT_LOG");
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 0); /* a sanitized driver behind the shim */
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    test_folder_done();
    return 0;
}

const char *job_path(void)
{
    return TEST_JOB;
}

const char *driver_path(void)
{
    return TEST_DRIVER;
}

const char *preload_path(void)
{
    return TEST_LIBDIR "/libtwinbit.so";
}

const char *shim_path(void)
{
    return TEST_SHIM;
}

pid_t start(const char *const *argv)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid)
        return pid;
    if (getenv("TB_TEST_OWN_GROUP")) /* a group whose leader has no parent in its session cannot be
                                        stopped */
        (void)setpgid(0, 0);
    int out = open("stdout", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int err = open("stderr", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(out, 1);
    dup2(err, 2);
    close_range(3, ~0u, 0);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(119);
}

static void read_text(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(out, 1, size - 1, f) : 0;

    out[n] = 0;
    if (f)
        fclose(f);
}

static void read_result(struct outcome *o)
{
    char text[8192], *p;
    struct {
        const char *name;
        uint64_t *value;
    } field[] = {{"\nevents ", &o->events},     {"\nlost ", &o->lost},
                 {"\ncoverage ", &o->coverage}, {"\nprocesses ", &o->processes},
                 {"\nsteps ", &o->steps},       {"\nnot_covered ", &o->not_covered}};

    read_text("result", text, sizeof(text));
    for (size_t i = 0; i < sizeof(field) / sizeof(field[0]); i++)
        if ((p = strstr(text, field[i].name)) != NULL)
            *field[i].value = strtoull(p + strlen(field[i].name), NULL, 10);
    if ((p = strstr(text, "\nwall_s ")) != NULL)
        o->wall_s = strtod(p + 8, NULL);
}

void finish(pid_t pid, struct outcome *o)
{
    memset(o, 0, sizeof(*o));
    assert_int_equal(waitpid(pid, &o->status, 0), pid);
    o->exit_status = WIFEXITED(o->status) ? WEXITSTATUS(o->status) : 128 + WTERMSIG(o->status);
    read_text("stdout", o->out, sizeof(o->out));
    read_text("stderr", o->err, sizeof(o->err));
    read_result(o);
}

/* Words of @text, split at spaces, into @argv from *@n on. */
static void split(const char *text, const char **argv, size_t *n)
{
    static char copies[8][8192];
    static unsigned turn;
    char *copy = copies[turn++ % 8];

    snprintf(copy, sizeof(copies[0]), "%s", text);
    for (char *save, *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
        argv[(*n)++] = w;
    argv[*n] = NULL;
}

void run_plain(struct outcome *o, const char *words)
{
    const char *argv[128] = {TEST_JOB};
    size_t n = 1;

    split(words, argv, &n);
    finish(start(argv), o);
}

pid_t start_under(const char *options, const char *words)
{
    const char *argv[128] = {TEST_DRIVER, "-o", "out.twinbit", "-R", "result", "-f"};
    size_t n = 6;

    unlink("result");
    split(options, argv, &n);
    argv[n++] = "--";
    argv[n++] = TEST_JOB;
    split(words, argv, &n);
    return start(argv);
}

void run_under(struct outcome *o, const char *options, const char *words)
{
    finish(start_under(options, words), o);
}

pid_t child_of(pid_t pid)
{
    char path[64], text[64];
    uint64_t end = now_ms() + 30000;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    while (now_ms() < end) {
        read_text(path, text, sizeof(text));
        pid_t child = (pid_t)strtol(text, NULL, 10);
        if (child > 0)
            return child;
        usleep(2000);
    }
    return 0;
}

void wait_for_file(const char *path)
{
    uint64_t end = now_ms() + 60000;

    while (access(path, F_OK) != 0) {
        assert_true(now_ms() < end);
        usleep(2000);
    }
}

struct tb_trace *open_trace(void)
{
    struct tb_trace *t = NULL;
    struct tb_error err = {0};

    if (tb_trace_open(&t, "out.twinbit", &err) != TB_OK)
        fail_msg("%s", err.text);
    return t;
}

struct tags process_tags(struct tb_trace *t, uint32_t process)
{
    struct tags tags = {NULL, 0};
    struct tb_cursor *c = NULL;
    const struct tb_trace_event *e;
    struct tb_error err = {0};
    uint64_t last = 0;

    if (tb_cursor_open_process(&c, t, process, 0, UINT64_MAX, &err) != TB_OK)
        fail_msg("%s", err.text);
    for (;;) {
        if (tb_cursor_next(c, &e, &err) != TB_OK)
            fail_msg("%s", err.text);
        if (!e)
            break;
        assert_true(tags.n == 0 || e->e.seq > last);
        last = e->e.seq;
        if ((tags.n & (tags.n - 1)) == 0)
            tags.tag = realloc(tags.tag, (tags.n ? tags.n * 2 : 1) * sizeof(*tags.tag));
        assert_non_null(tags.tag);
        tags.tag[tags.n++] = e->e.args;
    }
    tb_cursor_close(c);
    return tags;
}

void assert_run(const struct tags *t, uint64_t first, uint64_t n)
{
    uint64_t next = first;

    for (size_t i = 0; i < t->n; i++)
        if (t->tag[i] >> 32 == first >> 32) {
            assert_int_equal(t->tag[i], next);
            next++;
        }
    assert_int_equal(next - first, n);
}

struct wanted {
    const char *kind, *text;
    bool found;
};

static bool look(void *arg, const struct tb_trace_coverage *row)
{
    struct wanted *w = arg;

    if (strcmp(row->kind, w->kind) == 0 &&
        (strstr(row->subject, w->text) || strstr(row->detail, w->text)))
        w->found = true;
    return !w->found;
}

bool has_coverage(struct tb_trace *t, const char *kind, const char *text)
{
    struct wanted w = {kind, text, false};
    struct tb_error err = {0};

    if (tb_trace_coverage(t, 0, look, &w, &err) != TB_OK)
        fail_msg("%s", err.text);
    return w.found;
}
