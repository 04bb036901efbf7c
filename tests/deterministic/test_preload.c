/* The preloaded library in jobs: two runs of one seed are equal, of two seeds differ; who is left
 * alone; threads, children; what is written down; replay */
#include "tests/deterministic/pins_run.h"

#include <fcntl.h>
#include <sys/stat.h>

static struct pins_run a, b;

static void reset(void)
{
    pins_run_done(&a);
    pins_run_done(&b);
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
}

static int clean(void **state)
{
    (void)state;
    reset();
    return 0;
}

static void two(const char *parts, enum tb_preload_mode mode, uint64_t seed_a, uint64_t seed_b)
{
    reset();
    pins_run_mode(&a, mode, seed_a);
    pins_run_mode(&b, mode, seed_b);
    pins_run_job(&a, parts);
    pins_run_job(&b, parts);
}

/* Equal for one seed. All lines of @words words differ for two, and with nothing pinned. */
static void check_pinned(const char *parts)
{
    two(parts, TB_PRELOAD_PIN, 42, 42);
    assert_true(strlen(a.output) > 10);
    assert_string_equal(a.output, b.output);
    two(parts, TB_PRELOAD_PIN, 42, 43);
    char *save_a, *save_b, *x = strtok_r(a.output, "\n", &save_a);
    char *y = strtok_r(b.output, "\n", &save_b);
    for (; x && y; x = strtok_r(NULL, "\n", &save_a), y = strtok_r(NULL, "\n", &save_b))
        if (strlen(x) > 24 && strcmp(x, y) == 0)
            fail_msg("'%s' is the same for two seeds", x);
    two(parts, TB_PRELOAD_LOG, 42, 42);
    assert_string_not_equal(a.output, b.output);
}

static void test_preload__each_way_to_entropy_follows_the_seed(void **state)
{
    (void)state;
    check_pinned("entropy");
    check_pinned("devices");
}

static void test_preload__threads_are_told_apart_by_who_made_them(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        check_pinned("threads 8");
    check_pinned("nested");
}

static void test_preload__children_have_streams_of_their_own(void **state)
{
    static const char *const ways[] = {"fork",  "vfork", "spawn",    "system",
                                       "popen", "clone", "exec draw"};

    (void)state;
    for (size_t i = 0; i < TB_ARRAY_LEN(ways); i++)
        check_pinned(ways[i]);
    two("draw vfork vfork spawn spawn system system popen fork clone", TB_PRELOAD_PIN, 1, 1);
    assert_string_equal(a.output, b.output);
    char *seen[64], *save;
    size_t count = 0;
    for (char *w = strtok_r(a.output, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
        if (strlen(w) < 16)
            continue;
        for (size_t i = 0; i < count; i++)
            if (strcmp(seen[i], w) == 0)
                fail_msg("'%s' was given twice", w);
        seen[count++] = w;
    }
    assert_true(count >= 16);
}

static int by_text(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

static void sort_lines(char *text, char *out)
{
    char *lines[64], *save;
    size_t n = 0;

    for (char *x = strtok_r(text, "\n", &save); x && n < 64; x = strtok_r(NULL, "\n", &save))
        lines[n++] = x;
    qsort(lines, n, sizeof(*lines), by_text);
    out[0] = 0;
    for (size_t i = 0; i < n; i++)
        strcat(strcat(out, lines[i]), "\n");
}

static void test_preload__children_that_race_keep_their_streams(void **state)
{
    static char x[65536], y[65536];

    (void)state;
    for (int i = 0; i < 4; i++) {
        two("race 8", TB_PRELOAD_PIN, 5, 5);
        sort_lines(a.output, x);
        sort_lines(b.output, y);
        assert_true(strlen(x) > 8 * 16);
        assert_string_equal(x, y);
    }
}

static void crypto_lines(const char *parts, uint32_t flags)
{
    reset();
    pins_run_mode(&a, TB_PRELOAD_PIN, 9);
    pins_run_mode(&b, TB_PRELOAD_PIN, 9);
    a.config.flags = b.config.flags = flags;
    pins_run_job(&a, parts);
    pins_run_job(&b, parts);
}

static void find_values(const struct tb_preload_file *f, const struct tb_preload_event *e,
                        void *arg)
{
    (void)f;
    if (strncmp(e->module, "libcrypto", 9) != 0 || e->record->kind < TB_PRELOAD_GETRANDOM)
        return;
    assert_true(e->record->marks & TB_PRELOAD_EXEMPT);
    assert_true(e->record->marks & TB_PRELOAD_REAL);
    assert_int_equal(e->record->payload, 0);
    assert_int_equal(e->record->hash, 0);
    ++*(int *)arg;
}

static void test_preload__cryptographic_libraries_keep_real_entropy(void **state)
{
    int exempt = 0;

    (void)state;
    crypto_lines("crypto '" TEST_CRYPTO "'", 0);
    char *x = strstr(a.output, "ours"), *y = strstr(b.output, "ours");
    assert_string_equal(x, y);
    (void)pins_each(&a, find_values, &exempt);
    assert_int_equal(exempt, 3); /* what it reads from a device is not even seen */
    char *save_a, *save_b, *p = strtok_r(a.output, "\n", &save_a);
    char *q = strtok_r(b.output, "\n", &save_b);
    for (int i = 0; i < 5; i++) {
        assert_string_not_equal(p, q);
        p = strtok_r(NULL, "\n", &save_a);
        q = strtok_r(NULL, "\n", &save_b);
    }
    crypto_lines("crypto '" TEST_CRYPTO "'", TB_PRELOAD_ALL_CALLERS);
    assert_string_equal(a.output, b.output);
}

static void test_preload__exempt_draws_do_not_move_the_others(void **state)
{
    (void)state;
    pins_run_mode(&a, TB_PRELOAD_PIN, 9);
    pins_run_mode(&b, TB_PRELOAD_PIN, 9);
    pins_run_job(&a, "crypto '" TEST_CRYPTO "'");
    pins_run_job(&b, "draw");
    assert_string_equal(strstr(a.output, "ours") + 5, strstr(b.output, "draw") + 5);
}

static void test_preload__a_draw_does_not_depend_on_the_size_of_others(void **state)
{
    (void)state;
    pins_run_mode(&a, TB_PRELOAD_PIN, 9);
    pins_run_mode(&b, TB_PRELOAD_PIN, 9);
    pins_run_job(&a, "sizes 8 100 16");
    pins_run_job(&b, "sizes 8 24 16");
    assert_string_equal(strrchr(a.output, ' '), strrchr(b.output, ' '));
}

static void test_preload__what_it_must_keep_it_keeps(void **state)
{
    char parts[600];

    (void)state;
    pins_run_mode(&a, TB_PRELOAD_PIN, 3);
    pins_run_prepare(&a);
    (void)snprintf(parts, sizeof(parts), "%s/file", a.folder);
    FILE *f = fopen(parts, "w");
    assert_non_null(f);
    (void)fputs("file", f);
    (void)fclose(f);
    (void)snprintf(parts, sizeof(parts), "errno time signal closed '%s/file'", a.folder);
    pins_run_job(&a, parts);
    assert_string_equal(a.output, "errno kept\ntime\nsignals\nclosed\n");
}

static void test_preload__switched_off_it_passes_everything_on(void **state)
{
    (void)state;
    pins_run_prepare(&a); /* all modes OFF */
    pins_run_job(&a, "entropy devices threads 3 time");
    struct pins_sum sum = pins_sum(&a);
    assert_int_equal(sum.answers, 0);
    pins_run_done(&a);
    pins_run_mode(&b, TB_PRELOAD_PIN, 3);
    pins_run_prepare(&b);
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/config", b.folder);
    assert_int_equal(truncate(path, 100), 0); /* a configuration that is cut */
    pins_run_job(&b, "entropy devices threads 3 time");
}

/* ---------------------------------------------------------------- listings, names */

static void make_files(const char *folder, const char *const *names, size_t count)
{
    char path[600];

    (void)mkdir(folder, 0700);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        (void)close(fd);
    }
}

static const char *const names[] = {"b", "Z", "a10", "a9", "_", "zz", "m", "B", "00", "xyzzy"};

static void test_preload__listings_come_in_byte_order(void **state)
{
    static const char sorted[] = ". .. 00 B Z _ a10 a9 b m xyzzy zz \n";
    char parts[1024];

    (void)state;
    pins_run_mode(&a, TB_PRELOAD_PIN, 3);
    pins_run_prepare(&a);
    (void)snprintf(parts, sizeof(parts), "%s/d", a.folder);
    make_files(parts, names, TB_ARRAY_LEN(names));
    (void)snprintf(parts, sizeof(parts), "list '%s/d' scan '%s/d' glob '%s/d' seek '%s/d'",
                   a.folder, a.folder, a.folder, a.folder);
    pins_run_job(&a, parts);
    assert_memory_equal(a.output, sorted, strlen(sorted));
    assert_memory_equal(a.output + strlen(sorted), sorted, strlen(sorted));
    assert_string_equal(a.output + 2 * strlen(sorted),
                        "zz\n00 B Z _ a10 a9 b m xyzzy zz \nseek 12\n");
    struct pins_sum sum = pins_sum(&a);
    assert_int_equal(sum.kind[TB_PRELOAD_LISTING], 4); /* list, and thrice by seek */
}

static void test_preload__a_big_folder_is_listed_whole_and_once(void **state)
{
    char parts[600], path[700];
    int seen = 0;

    (void)state;
    pins_run_mode(&a, TB_PRELOAD_PIN, 3);
    pins_run_prepare(&a);
    (void)snprintf(parts, sizeof(parts), "%s/d", a.folder);
    (void)mkdir(parts, 0700);
    for (int i = 0; i < 4000; i++) {
        (void)snprintf(path, sizeof(path), "%s/%x", parts, (i * 7919) & 0xFFFF);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        (void)close(fd);
    }
    (void)snprintf(path, sizeof(path), "list '%s'", parts);
    pins_run_job(&a, path);
    const char *last = "";
    for (char *save, *w = strtok_r(a.output, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
        assert_true(strcmp(last, w) < 0);
        last = w;
        seen++;
    }
    assert_int_equal(seen, 4002);
    (void)snprintf(path, sizeof(path), "shared '%s'", parts);
    pins_run_job(&a, path);
    assert_string_equal(a.output, "shared 4002\n");
}

static void temp_names(struct pins_run *r, uint64_t seed, const char *folder)
{
    char parts[600];

    pins_run_mode(r, TB_PRELOAD_PIN, seed);
    (void)snprintf(parts, sizeof(parts), "temp '%s'", folder);
    pins_run_job(r, parts);
}

static void empty(const char *folder)
{
    char command[600];

    (void)snprintf(command, sizeof(command), "rm -rf '%s' && mkdir '%s'", folder, folder);
    assert_int_equal(system(command), 0);
}

static void test_preload__temporary_names_follow_the_seed_and_stay_unique(void **state)
{
    static struct pins_run c, d;
    char folder[] = "/tmp/twinbit-test-names-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(folder));
    temp_names(&a, 1, folder);
    assert_non_null(strstr(a.output, "mkstemp a-"));
    empty(folder);
    temp_names(&b, 1, folder);
    assert_string_equal(a.output, b.output);
    temp_names(&c, 1, folder); /* all names are taken now: the next ones, with nothing lost */
    assert_string_not_equal(b.output, c.output);
    empty(folder);
    temp_names(&d, 2, folder);
    assert_string_not_equal(a.output, d.output);
    struct pins_sum sum = pins_sum(&a);
    assert_int_equal(sum.kind[TB_PRELOAD_TEMPNAME], 9);
    assert_int_equal(sum.marks[7], 1); /* FAILED: the folder that is not there */
    pins_run_done(&c);
    pins_run_done(&d);
    (void)rmdir(folder);
    (void)snprintf(a.output, sizeof(a.output), "rm -rf '%s'", folder);
    assert_int_equal(system(a.output), 0);
}

static void test_preload__the_kernels_uuids_follow_the_seed_and_are_replayed(void **state)
{
    (void)state;
    check_pinned("uuids");
    reset();
    pins_run_mode(&a, TB_PRELOAD_LOG, 1);
    pins_run_job(&a, "uuids");
    pins_run_mode(&b, TB_PRELOAD_REPLAY, 2);
    (void)snprintf(b.config.replay, sizeof(b.config.replay), "%s", a.config.folder);
    pins_run_job(&b, "uuids");
    assert_string_equal(a.output, b.output);
}

/* ---------------------------------------------------------------- seeds */

static void test_preload__seeds_from_clock_and_pid_follow_the_seed(void **state)
{
    (void)state;
    check_pinned("seeds");
    struct pins_sum sum = pins_sum(&a);
    assert_int_equal(sum.kind[TB_PRELOAD_SEED], 7); /* one of them fixed */
}

static void test_preload__seeds_from_parts_of_a_moment_follow_the_seed(void **state)
{
    (void)state;
    check_pinned("parts");
    struct pins_sum sum = pins_sum(&a);
    assert_int_equal(sum.kind[TB_PRELOAD_SEED], 7);
}

static void test_preload__states_that_go_on_are_no_seeds(void **state)
{
    (void)state;
    reset();
    pins_run_mode(&a, TB_PRELOAD_PIN, 1);
    pins_run_job(&a, "states");
    pins_run_mode(&b, TB_PRELOAD_OFF, 0);
    pins_run_job(&b, "states");
    assert_true(strlen(a.output) > 400);
    assert_string_equal(a.output, b.output);
    struct pins_sum sum = pins_sum(&a);
    assert_in_range(sum.kind[TB_PRELOAD_SEED], 202, 300);
}

static void test_preload__seeds_of_the_jobs_own_choice_stay(void **state)
{
    (void)state;
    reset();
    pins_run_mode(&a, TB_PRELOAD_PIN, 1);
    pins_run_job(&a, "fixed");
    pins_run_mode(&b, TB_PRELOAD_OFF, 0);
    pins_run_job(&b, "fixed");
    assert_true(strlen(a.output) > 100);
    assert_string_equal(a.output, b.output);
    struct pins_sum sum = pins_sum(&a);
    assert_int_equal(sum.kind[TB_PRELOAD_SEED], 14);
    assert_int_equal(sum.marks[0], 14); /* REAL */
}

static void test_preload__seeds_are_replayed(void **state)
{
    (void)state;
    reset();
    pins_run_mode(&a, TB_PRELOAD_LOG, 1);
    pins_run_job(&a, "seeds fixed parts");
    pins_run_mode(&b, TB_PRELOAD_REPLAY, 2);
    (void)snprintf(b.config.replay, sizeof(b.config.replay), "%s", a.config.folder);
    pins_run_job(&b, "seeds fixed parts");
    assert_string_equal(a.output, b.output);
    struct pins_sum sum = pins_sum(&b);
    assert_int_equal(sum.kind[TB_PRELOAD_SEED], 28);
    assert_int_equal(sum.marks[2], 28); /* FROM_LOG */
    assert_int_equal(sum.marks[3], 0);  /* NOT_IN_LOG */
}

/* ---------------------------------------------------------------- the log */

static void count_time(const struct tb_preload_file *f, const struct tb_preload_event *e, void *arg)
{
    uint64_t *calls = arg;

    (void)f;
    if (e->record->kind == TB_PRELOAD_SITE && strcmp(e->module, TEST_JOB_NAME) == 0)
        *calls += e->record->served;
}

static void test_preload__time_is_counted_by_caller(void **state)
{
    uint64_t calls = 0;

    (void)state;
    pins_run_mode(&a, TB_PRELOAD_PIN, 3);
    a.config.entropy = a.config.listing = a.config.tempnames = TB_PRELOAD_OFF;
    pins_run_job(&a, "time");
    struct pins_sum sum = pins_sum(&a);
    assert_int_equal(sum.kind[TB_PRELOAD_TIME], 4); /* places in the job */
    (void)pins_each(&a, count_time, &calls);
    assert_int_equal(calls, 8); /* calls from them; monotonic ones are not among them */
}

static void test_preload__the_log_has_what_was_given(void **state)
{
    (void)state;
    two("entropy devices threads 4 fork vfork", TB_PRELOAD_PIN, 11, 11);
    struct pins_sum sum = pins_sum(&a), other = pins_sum(&b);
    assert_memory_equal(&sum, &other, sizeof(sum));
    assert_true(sum.kind[TB_PRELOAD_GETRANDOM] >= 20 && sum.kind[TB_PRELOAD_GETENTROPY] == 1);
    assert_true(sum.kind[TB_PRELOAD_SYSCALL] == 2 && sum.kind[TB_PRELOAD_DEVICE] >= 25);
    assert_int_equal(sum.kind[TB_PRELOAD_THREAD], 4 + 4);
    assert_int_equal(sum.kind[TB_PRELOAD_START], 6);
    assert_int_equal(sum.marks[5], 1); /* CUT: the big read */
}

static void test_preload__a_killed_job_leaves_its_log(void **state)
{
    (void)state;
    pins_run_mode(&a, TB_PRELOAD_PIN, 11);
    pins_run_start(&a, "'" TEST_JOB "' many 5000 kill");
    assert_true(WIFSIGNALED(a.status) && WTERMSIG(a.status) == 9);
    struct pins_sum sum = pins_sum(&a);
    assert_int_equal(sum.kind[TB_PRELOAD_GETRANDOM], 5000);
}

static void test_preload__a_log_that_is_full_counts_what_is_missing(void **state)
{
    struct tb_preload_logs *logs = NULL;
    struct tb_preload_log *log = NULL;
    struct tb_preload_event e;
    uint64_t found = 0;

    (void)state;
    pins_run_mode(&a, TB_PRELOAD_PIN, 11);
    pins_run_mode(&b, TB_PRELOAD_PIN, 11);
    a.config.log_limit = 100000;
    pins_run_job(&a, "many 5000");
    pins_run_job(&b, "many 5000");
    assert_string_equal(a.output, b.output);
    assert_int_equal(tb_preload_logs_open(a.config.folder, &logs, NULL), TB_OK);
    assert_int_equal(tb_preload_logs_count(logs), 1);
    assert_int_equal(tb_preload_log_at(logs, 0, &log, NULL), TB_OK);
    while (tb_preload_log_next(log, &e))
        found += e.record->kind == TB_PRELOAD_GETRANDOM;
    assert_true(found > 500);
    assert_int_equal(found + tb_preload_log_file(log)->dropped, 5000);
    tb_preload_log_close(log);
    tb_preload_logs_close(logs);
}

struct files {
    unsigned programs, libraries, ends;
};

static void take_file(const struct tb_preload_file *f, const struct tb_preload_event *e, void *arg)
{
    struct files *all = arg;
    const char *path = e->payload;

    (void)f;
    if (e->record->kind != TB_PRELOAD_FILE)
        return;
    all->ends += e->record->asked == 2;
    if (e->record->asked == 2)
        return;
    assert_true(e->record->payload > 1 && path[e->record->payload - 1] == 0 && path[0] == '/');
    assert_null(strstr(path, "/libc.so"));
    assert_null(strstr(path, "/libtwinbit_pins.so"));
    all->programs += e->record->asked == 1 && strcmp(path, TEST_JOB) == 0;
    all->libraries += !e->record->asked;
}

/* Once a program that starts, not again in what it forks, and not without being asked */
static void test_preload__files_of_a_program_are_written_down(void **state)
{
    struct files asked = {0}, more = {0}, none = {0};

    (void)state;
    pins_run_mode(&a, TB_PRELOAD_PIN, 11);
    pins_run_mode(&b, TB_PRELOAD_PIN, 11);
    a.config.flags |= TB_PRELOAD_FILES;
    pins_run_job(&a, "entropy threads 3 fork");
    pins_run_job(&b, "entropy threads 3 fork");
    assert_string_equal(a.output, b.output);
    (void)pins_each(&a, take_file, &asked);
    (void)pins_each(&b, take_file, &none);
    assert_true(asked.ends >= 2); /* the child that was forked, too */
    assert_true(asked.programs == 1 && none.ends == 0 && none.programs == 0 && none.libraries == 0);
    pins_run_done(&a);
    pins_run_mode(&a, TB_PRELOAD_PIN, 11);
    a.config.flags |= TB_PRELOAD_FILES;
    pins_run_start(&a, "env LD_PRELOAD='" TEST_PINS ":" TEST_CRYPTO "' '" TEST_JOB "' entropy");
    (void)pins_each(&a, take_file, &more);
    assert_true(more.libraries > asked.libraries);
}

static void test_preload__a_job_goes_on_where_no_log_can_be_made(void **state)
{
    char path[600];

    (void)state;
    pins_run_mode(&a, TB_PRELOAD_PIN, 11);
    pins_run_mode(&b, TB_PRELOAD_PIN, 11);
    pins_run_prepare(&a);
    (void)snprintf(path, sizeof(path), "rm -rf '%s/log'", a.folder);
    assert_int_equal(system(path), 0);
    pins_run_job(&a, "entropy threads 3 fork");
    pins_run_job(&b, "entropy threads 3 fork");
    assert_string_equal(a.output, b.output);
    pins_run_done(&b);
    /* and where files must not grow: no SIGXFSZ */
    pins_run_start(&b, "sh -c 'ulimit -f 4; exec \"" TEST_JOB "\" many 3000'");
    assert_int_equal(b.status, 0);
}

/* ---------------------------------------------------------------- replay */

/* Observes @parts in run a, then repeats it in run b with @again. */
static void observe_and_replay(const char *parts, const char *again)
{
    reset();
    pins_run_mode(&a, TB_PRELOAD_LOG, 0);
    pins_run_job(&a, parts);
    pins_run_mode(&b, TB_PRELOAD_REPLAY, 77);
    memcpy(b.config.replay, a.config.folder, sizeof(b.config.replay));
    pins_run_job(&b, again);
}

static void test_preload__decisions_are_written_and_found_again(void **state)
{
    (void)state;
    a.config.flags = b.config.flags = TB_PRELOAD_DECISIONS;
    pins_run_mode(&a, TB_PRELOAD_LOG, 0);
    pins_run_job(&a, "decide one,three,two entropy");
    assert_non_null(strstr(a.output, "mode 1, thread 1"));
    assert_non_null(strstr(a.output, " - -\n"));
    assert_int_equal(pins_sum(&a).kind[TB_PRELOAD_COMPLETION], 3);
    pins_run_mode(&b, TB_PRELOAD_REPLAY, 77);
    memcpy(b.config.replay, a.config.folder, sizeof(b.config.replay));
    pins_run_job(&b, "decide x,x,x,x entropy");
    assert_non_null(strstr(b.output, "mode 2, thread 1"));
    assert_non_null(strstr(b.output, "one"));
    assert_non_null(strstr(b.output, " three two -\n"));
    char *of_a = strstr(a.output, " - -\n"), *of_b = strstr(b.output, " two -\n");
    assert_string_equal(strchr(of_a, '\n'), strchr(of_b, '\n')); /* draws are not disturbed */
    assert_int_equal(pins_sum(&b).marks[3], 0);                  /* NOT_IN_LOG */
}

static void test_preload__decisions_that_nobody_asked_for_are_off(void **state)
{
    (void)state;
    pins_run_mode(&a, TB_PRELOAD_LOG, 0);
    pins_run_job(&a, "decide one");
    assert_non_null(strstr(a.output, "mode 0, thread 1"));
}

static void test_preload__what_was_observed_is_replayed(void **state)
{
    static const char parts[] = "entropy devices many 500 threads 6 nested fork vfork spawn system";

    (void)state;
    pins_run_mode(&a, TB_PRELOAD_LOG, 0);
    pins_run_mode(&b, TB_PRELOAD_REPLAY, 77);
    a.config.value_limit = 100000; /* the big read, too */
    pins_run_job(&a, parts);
    memcpy(b.config.replay, a.config.folder, sizeof(b.config.replay));
    pins_run_job(&b, parts);
    assert_string_equal(a.output, b.output);
    struct pins_sum sum = pins_sum(&b), seen = pins_sum(&a);
    assert_int_equal(sum.marks[3], 0);                           /* NOT_IN_LOG */
    assert_int_equal(sum.marks[4], 0);                           /* OTHER_CALLER */
    assert_int_equal(sum.marks[2], sum.answers - seen.marks[7]); /* FROM_LOG, but refused calls */
    assert_int_equal(seen.marks[0], seen.answers);               /* REAL */
}

static void last_missing(const struct tb_preload_file *f, const struct tb_preload_event *e,
                         void *arg)
{
    (void)f;
    if (e->record->marks & TB_PRELOAD_NOT_IN_LOG) {
        uint32_t *n = arg;
        assert_string_equal(e->module, TEST_JOB_NAME);
        assert_int_equal(e->record->asked, 24);
        *n = e->record->n;
    }
}

static void test_preload__what_the_log_does_not_have_is_marked(void **state)
{
    uint32_t n = 0;

    (void)state;
    observe_and_replay("sizes 8 100 16", "sizes 8 24 16"); /* the second: another size */
    struct pins_sum sum = pins_sum(&b);
    assert_int_equal(sum.marks[3], 1);
    assert_int_equal(sum.marks[2], 2);
    (void)pins_each(&b, last_missing, &n);
    assert_int_equal(n, 1);
    assert_string_equal(strrchr(a.output, ' '), strrchr(b.output, ' '));
    observe_and_replay("sizes 8", "sizes 8 24"); /* more than there were */
    sum = pins_sum(&b);
    assert_int_equal(sum.marks[3], 1);
    observe_and_replay("draw", "sizes 8"); /* another caller */
    sum = pins_sum(&b);
    assert_int_equal(sum.marks[4], 1);
    assert_int_equal(sum.marks[3], 0);
}

static void test_preload__a_listing_is_replayed_in_the_order_it_had(void **state)
{
    char folder[] = "/tmp/twinbit-test-list-XXXXXX", parts[600];
    static char first[65536];

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < TB_ARRAY_LEN(names); i++)
        make_files(folder, names + i, 1);
    (void)snprintf(parts, sizeof(parts), "list '%s'", folder);
    pins_run_mode(&a, TB_PRELOAD_LOG, 0);
    pins_run_job(&a, parts);
    strcpy(first, a.output);
    empty(folder); /* made in the other order: another one in most file systems */
    for (size_t i = TB_ARRAY_LEN(names); i-- > 0;)
        make_files(folder, names + i, 1);
    pins_run_mode(&b, TB_PRELOAD_REPLAY, 77);
    memcpy(b.config.replay, a.config.folder, sizeof(b.config.replay));
    pins_run_job(&b, parts);
    assert_string_equal(first, b.output);
    struct pins_sum sum = pins_sum(&b);
    assert_int_equal(sum.marks[2], 1);
    pins_run_done(&b);
    char twice[1300]; /* one more listing before it: the order is found all the same */
    (void)snprintf(twice, sizeof(twice), "list / %s", parts);
    pins_run_job(&b, twice);
    assert_string_equal(first, strchr(b.output, '\n') + 1);
    sum = pins_sum(&b);
    assert_true(sum.marks[2] == 1 && sum.marks[3] == 1);
    pins_run_done(&b);
    make_files(folder, (const char *const[]){"another"}, 1); /* other names: sorted, and marked */
    pins_run_job(&b, parts);
    assert_string_equal(b.output, ". .. 00 B Z _ a10 a9 another b m xyzzy zz \n");
    sum = pins_sum(&b);
    assert_int_equal(sum.marks[3], 1);
    (void)snprintf(parts, sizeof(parts), "rm -rf '%s'", folder);
    assert_int_equal(system(parts), 0);
}

/* Changes a byte in the payload of the first record of @kind in the log of the only process. */
static void damage(const struct pins_run *r, uint16_t kind)
{
    static char bytes[65536];
    struct tb_preload_logs *logs = NULL;
    const struct tb_preload_record *found;
    uint64_t at = TB_PRELOAD_LOG_START;
    char path[2048];

    assert_int_equal(tb_preload_logs_open(r->config.folder, &logs, NULL), TB_OK);
    assert_int_equal(tb_preload_logs_count(logs), 1);
    (void)snprintf(path, sizeof(path), "%s/%s", r->config.folder, tb_preload_logs_name(logs, 0));
    tb_preload_logs_close(logs);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof(bytes), f);
    while ((found = tb_preload_next(bytes, n, &at)) && found->kind != kind)
        ;
    assert_non_null(found);
    long where = (long)((const char *)(found + 1) - bytes);
    bytes[where] ^= 1;
    assert_int_equal(fseek(f, where, SEEK_SET), 0);
    assert_int_equal(fputc(bytes[where], f), (unsigned char)bytes[where]);
    (void)fclose(f);
}

static void test_preload__what_is_damaged_in_the_log_is_not_served(void **state)
{
    (void)state;
    pins_run_mode(&a, TB_PRELOAD_LOG, 0);
    pins_run_job(&a, "sizes 16");
    pins_run_mode(&b, TB_PRELOAD_REPLAY, 77);
    memcpy(b.config.replay, a.config.folder, sizeof(b.config.replay));
    damage(&a, TB_PRELOAD_GETRANDOM);
    pins_run_job(&b, "sizes 16");
    struct pins_sum sum = pins_sum(&b);
    assert_int_equal(sum.marks[3], 1);
    reset();
    pins_run_mode(&a, TB_PRELOAD_LOG, 0);
    pins_run_job(&a, "list /");
    pins_run_mode(&b, TB_PRELOAD_REPLAY, 77);
    memcpy(b.config.replay, a.config.folder, sizeof(b.config.replay));
    damage(&a, TB_PRELOAD_LISTING);
    pins_run_job(&b, "list /");
    sum = pins_sum(&b);
    assert_int_equal(sum.marks[3], 1);
    assert_int_equal(strlen(a.output), strlen(b.output));
}

static void test_preload__temporary_names_are_replayed(void **state)
{
    char folder[] = "/tmp/twinbit-test-names-XXXXXX", parts[600];

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(parts, sizeof(parts), "temp '%s'", folder);
    pins_run_mode(&a, TB_PRELOAD_LOG, 0);
    pins_run_job(&a, parts);
    empty(folder);
    pins_run_mode(&b, TB_PRELOAD_REPLAY, 77);
    memcpy(b.config.replay, a.config.folder, sizeof(b.config.replay));
    pins_run_job(&b, parts);
    assert_string_equal(a.output, b.output);
    (void)snprintf(parts, sizeof(parts), "rm -rf '%s'", folder);
    assert_int_equal(system(parts), 0);
}

#define TEST(name) cmocka_unit_test_teardown(test_preload__##name, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_way_to_entropy_follows_the_seed),
        TEST(threads_are_told_apart_by_who_made_them),
        TEST(children_have_streams_of_their_own),
        TEST(children_that_race_keep_their_streams),
        TEST(cryptographic_libraries_keep_real_entropy),
        TEST(exempt_draws_do_not_move_the_others),
        TEST(a_draw_does_not_depend_on_the_size_of_others),
        TEST(what_it_must_keep_it_keeps),
        TEST(switched_off_it_passes_everything_on),
        TEST(listings_come_in_byte_order),
        TEST(a_big_folder_is_listed_whole_and_once),
        TEST(temporary_names_follow_the_seed_and_stay_unique),
        TEST(the_kernels_uuids_follow_the_seed_and_are_replayed),
        TEST(seeds_from_clock_and_pid_follow_the_seed),
        TEST(seeds_from_parts_of_a_moment_follow_the_seed),
        TEST(states_that_go_on_are_no_seeds),
        TEST(seeds_of_the_jobs_own_choice_stay),
        TEST(seeds_are_replayed),
        TEST(time_is_counted_by_caller),
        TEST(the_log_has_what_was_given),
        TEST(a_killed_job_leaves_its_log),
        TEST(a_log_that_is_full_counts_what_is_missing),
        TEST(files_of_a_program_are_written_down),
        TEST(a_job_goes_on_where_no_log_can_be_made),
        TEST(what_was_observed_is_replayed),
        TEST(what_the_log_does_not_have_is_marked),
        TEST(a_listing_is_replayed_in_the_order_it_had),
        TEST(what_is_damaged_in_the_log_is_not_served),
        TEST(temporary_names_are_replayed),
        TEST(decisions_are_written_and_found_again),
        TEST(decisions_that_nobody_asked_for_are_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
