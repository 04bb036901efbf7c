/* Stopped and killed collectors, killed jobs, full disks: what is lost is said, and the job is
 * unharmed. */
#include "tests/collector/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEDS 50

static uint64_t random_of(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

/* Every thread's tags are a prefix of what it ran. */
static uint64_t assert_prefixes(struct tb_trace *t, uint32_t process)
{
    struct tags tags = process_tags(t, process);
    uint64_t next[16] = {0}, n = tags.n;

    for (size_t i = 0; i < tags.n; i++) {
        uint64_t k = tags.tag[i] >> 32;
        assert_true(k < 16);
        assert_int_equal(tags.tag[i] & UINT32_MAX, next[k]);
        next[k]++;
    }
    free(tags.tag);
    return n;
}

/* ---------------------------------------------------------------- a collector that does not run */

static void test_loss__a_short_stop_loses_nothing(void **state)
{
    struct outcome o;

    (void)state;
    pid_t driver = start_under("-r 65536", "ops 10 write ready x waitfile go ops 100000");
    wait_for_file("ready");
    kill(driver, SIGSTOP);
    fclose(fopen("go", "w"));
    usleep(800000);
    kill(driver, SIGCONT);
    finish(driver, &o);
    assert_int_equal(o.exit_status, 0);
    assert_int_equal(o.lost, 0);
    assert_int_equal(o.events, 100010);
}

static void test_loss__a_collector_stopped_for_5_s_ends_the_recording(void **state)
{
    struct outcome o;
    uint64_t count;
    const char *why;

    (void)state;
    pid_t driver =
        start_under("-r 65536", "ops 10 write ready x waitfile go ops 100000 write done x exit 5");
    wait_for_file("ready");
    kill(driver, SIGSTOP);
    uint64_t begin = now_ms();
    fclose(fopen("go", "w"));
    wait_for_file("done");
    uint64_t took = now_ms() - begin;
    assert_true(took >= 1900 && took < 15000); /* waited 2 s in all, once */
    usleep((useconds_t)(took < 5000 ? 5000 - took : 0) * 1000);
    kill(driver, SIGCONT);
    finish(driver, &o);
    assert_int_equal(o.exit_status, 5);
    assert_true(o.lost >= 1);
    struct tb_trace *t = open_trace();
    assert_true(tb_trace_lost(t, &count, &why));
    assert_non_null(strstr(why, "no progress"));
    assert_true(assert_prefixes(t, 1) >= 10);
    tb_trace_close(t);
}

static void test_loss__drop_waits_for_nobody_and_counts(void **state)
{
    struct outcome o;

    (void)state;
    pid_t driver =
        start_under("-r 65536 -D", "ops 10 write ready x waitfile go ops 100000 write done x");
    wait_for_file("ready");
    kill(driver, SIGSTOP);
    fclose(fopen("go", "w"));
    wait_for_file("done"); /* who waits loses 2 s and stops: counted below */
    kill(driver, SIGCONT);
    finish(driver, &o);
    assert_int_equal(o.exit_status, 0);
    assert_true(o.lost > 50000);
    assert_int_equal(o.lost + o.events, 100010);
}

static void test_loss__the_tap_may_stop(void **state)
{
    struct outcome o;

    (void)state;
    run_under(&o, "-v", "ops 10 kind 7 1 ops 100 threads 2 5");
    assert_int_equal(o.exit_status, 0);
    assert_int_equal(o.events, 10);
    assert_int_equal(o.lost, 1);
    assert_non_null(strstr(o.err, "stopped recording: the tap wants no more"));
    struct tb_trace *t = open_trace();
    assert_true(has_coverage(t, "stopped", "the tap wants no more"));
    tb_trace_close(t);
}

/* ---------------------------------------------------------------- kills */

static void assert_nothing_lost(const struct outcome *o)
{
    uint64_t count = 0;
    const char *why = "?";

    if (o->lost == 0)
        return;
    struct tb_trace *t = open_trace();
    (void)tb_trace_lost(t, &count, &why);
    fail_msg("%llu lost: %s\n%s", (unsigned long long)o->lost, why, o->err);
}

/* A recording that goes on: until more than @n events of it are on the disk. */
static void wait_for_events(uint64_t n)
{
    uint64_t end = now_ms() + 60000, seen = 0;

    while (seen <= n) {
        struct tb_trace *t = NULL;
        struct tb_error err = {0};
        if (tb_trace_open(&t, "out.twinbit", &err) == TB_OK)
            seen = tb_trace_info(t)->events;
        tb_trace_close(t);
        assert_true(now_ms() < end);
        usleep(5000);
    }
}

static void test_loss__a_killed_job_loses_nothing_that_was_in_the_ring(void **state)
{
    struct outcome o;
    uint64_t seed = 1, counted = 0;
    char words[200];

    (void)state;
    for (int i = 0; i < SEEDS; i++) {
        snprintf(words, sizeof(words), "count n %llu kill 9",
                 (unsigned long long)(random_of(&seed) % 20000 + 1));
        run_under(&o, i % 2 ? "-r 65536" : "", words);
        assert_int_equal(o.exit_status, 137);
        assert_nothing_lost(&o);
        FILE *f = fopen("n", "r");
        assert_int_equal(fread(&counted, 8, 1, f), 1);
        fclose(f);
        assert_int_equal(o.events, counted);
    }
}

static void test_loss__a_job_killed_anywhere_leaves_whole_prefixes(void **state)
{
    struct outcome o;
    uint64_t seed = 2, most = 0;

    (void)state;
    for (int i = 0; i < SEEDS; i++) {
        pid_t driver = start_under("-r 65536", "write ready x threads 4 10000000");
        wait_for_file("ready");
        usleep((useconds_t)(random_of(&seed) % 60000));
        if (i == SEEDS - 1) /* however slow the machine is, one is killed after a commit */
            wait_for_events(1000);
        kill(child_of(driver), SIGKILL);
        finish(driver, &o);
        unlink("ready");
        assert_int_equal(o.exit_status, 137);
        assert_nothing_lost(&o);
        if (o.processes == 0)
            continue;
        struct tb_trace *t = open_trace();
        uint64_t n = assert_prefixes(t, 1);
        most = n > most ? n : most;
        tb_trace_close(t);
    }
    assert_true(most > 1000);
}

/* The collector has been waiting for the number of a killed thread when the job dies: no loss. */
static void test_loss__a_number_that_a_killed_thread_had_drawn_is_none(void **state)
{
    struct outcome o;

    (void)state;
    run_under(&o, "", "ops 10 hold ops 100 sleep 1000 kill 9");
    assert_int_equal(o.exit_status, 137);
    assert_nothing_lost(&o);
    assert_int_equal(o.events, 110);
}

static pid_t grandchild(pid_t driver)
{
    pid_t job = child_of(driver);

    assert_true(job > 0);
    return job;
}

static bool lives(pid_t pid)
{
    char path[64], state = 'Z';

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    if (f)
        fclose(f);
    return state != 'Z' && state != 'X'; /* nobody may be there to reap it */
}

static void wait_gone(pid_t pid)
{
    uint64_t end = now_ms() + 60000;

    while (lives(pid) && now_ms() < end)
        usleep(1000);
    assert_true(now_ms() < end);
}

static void test_loss__a_killed_twinbit_leaves_a_trace_and_an_unharmed_job(void **state)
{
    struct outcome plain, o;
    uint64_t seed = 3, most = 0;
    static const char words[] = "write ready x ops 60000 threads 2 20000 print result write end ok";

    (void)state;
    run_plain(&plain, words);
    for (int i = 0; i < SEEDS; i++) {
        unlink("ready");
        unlink("end");
        unlink("out.twinbit");
        pid_t driver = start_under("-r 65536", words);
        wait_for_file("ready");
        pid_t job = grandchild(driver);
        usleep((useconds_t)(random_of(&seed) % 150000));
        if (i == SEEDS - 1)
            wait_for_events(100);
        kill(driver, SIGKILL);
        finish(driver, &o); /* a killed collector is gone when its memory is */
        uint64_t begin = now_ms();
        wait_gone(job);
        uint64_t took = now_ms() - begin; /* no record waits for who is gone */
        if (took > 10000) /* 2 s each for 3 threads, if they waited, and the rest of its work */
            fail_msg("seed %d: the job ended %llu ms after its collector", i,
                     (unsigned long long)took);
        FILE *f = fopen("stdout", "r");
        char text[64] = "";
        assert_non_null(fgets(text, sizeof(text), f));
        fclose(f);
        assert_string_equal(text, plain.out);
        assert_int_equal(access("end", F_OK), 0);
        struct tb_trace *t = open_trace();
        if (tb_trace_info(t)->processes) {
            uint64_t n = assert_prefixes(t, 1);
            most = n > most ? n : most;
        }
        tb_trace_close(t);
    }
    assert_true(most > 100);
}

static void test_loss__both_killed_at_once(void **state)
{
    struct outcome o;
    uint64_t seed = 4;

    (void)state;
    for (int i = 0; i < SEEDS; i++) {
        unlink("ready");
        pid_t driver = start_under("-r 65536", "write ready x threads 3 10000000");
        wait_for_file("ready");
        pid_t job = grandchild(driver);
        usleep((useconds_t)(random_of(&seed) % 80000));
        kill(i % 2 ? driver : job, SIGKILL);
        kill(i % 2 ? job : driver, SIGKILL);
        finish(driver, &o);
        wait_gone(job);
        struct tb_trace *t = open_trace();
        if (tb_trace_info(t)->processes)
            (void)assert_prefixes(t, 1);
        tb_trace_close(t);
    }
}

/* ---------------------------------------------------------------- a full disk */

static void test_loss__a_full_disk_changes_the_footer_only(void **state)
{
    const char *argv[] = {driver_path(), "-o",       "small/out.twinbit",
                          "-R",          "result",   "-v",
                          "--",          job_path(), "ops",
                          "60000",       "print",    "done",
                          "exit",        "6",        NULL};
    struct outcome o;

    (void)state;
    assert_int_equal(mkdir("small", 0700), 0);
    if (mount("none", "small", "tmpfs", 0, "size=2m") != 0) {
        fprintf(stderr, "skipped: no permission to mount a small file system\n");
        skip();
    }
    finish(start(argv), &o);
    struct tb_trace *t = NULL;
    struct tb_error err = {0};
    enum tb_status st = tb_trace_open(&t, "small/out.twinbit", &err);
    uint64_t lost = 0;
    const char *why = "";
    bool has_lost = st == TB_OK && tb_trace_lost(t, &lost, &why);
    tb_trace_close(t);
    assert_int_equal(umount2("small", MNT_DETACH), 0);
    assert_int_equal(o.exit_status, 6);
    assert_string_equal(o.out, "done\n");
    assert_non_null(strstr(o.err, "full"));
    assert_int_equal(st, TB_OK);
    assert_true(has_lost || o.lost > 0);
}

#define T(name) cmocka_unit_test_setup_teardown(test_loss__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_short_stop_loses_nothing),
        T(a_collector_stopped_for_5_s_ends_the_recording),
        T(drop_waits_for_nobody_and_counts),
        T(the_tap_may_stop),
        T(a_killed_job_loses_nothing_that_was_in_the_ring),
        T(a_job_killed_anywhere_leaves_whole_prefixes),
        T(a_number_that_a_killed_thread_had_drawn_is_none),
        T(a_killed_twinbit_leaves_a_trace_and_an_unharmed_job),
        T(both_killed_at_once),
        T(a_full_disk_changes_the_footer_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
