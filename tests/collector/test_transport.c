/* Rings, sockets, threads, forks and execs: what DESIGN's "Transport" says of a run in which all is
 * well. */
#include "tests/collector/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void ok(const struct outcome *o)
{
    if (o->exit_status != 0)
        fprintf(stderr, "status %d\n%s%s", o->exit_status, o->out, o->err);
    assert_int_equal(o->exit_status, 0);
    assert_int_equal(o->lost, 0);
}

static void test_transport__every_event_arrives_in_order(void **state)
{
    struct outcome o;

    (void)state;
    run_under(&o, "", "ops 50000 step ops 7 errno");
    ok(&o);
    struct tb_trace *t = open_trace();
    assert_true(tb_trace_info(t)->complete);
    struct tags tags = process_tags(t, 1);
    assert_run(&tags, 0, 50008);
    assert_int_equal(o.steps, 1);
    free(tags.tag);
    tb_trace_close(t);
}

static void test_transport__rings_are_memfds_and_no_descriptor_stays_open(void **state)
{
    struct outcome o;
    char path[64], line[1024];
    int rings = 0, shm = 0;

    (void)state;
    pid_t driver = start_under("", "ops 10 fds print on write ready x waitfile go");
    wait_for_file("ready");
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)child_of(driver));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        rings += strstr(line, "/memfd:twinbit-ring") != NULL;
        shm += strstr(line, "/dev/shm") != NULL;
    }
    fclose(f);
    fclose(fopen("go", "w"));
    finish(driver, &o);
    ok(&o);
    assert_int_equal(rings, 1);
    assert_int_equal(shm, 0);
    assert_string_equal(o.out, "open descriptors: 0\non\n");
}

static void test_transport__without_memfd_a_file_under_tmpdir(void **state)
{
    struct outcome o;

    (void)state;
    setenv("LD_PRELOAD", shim_path(), 1);
    setenv("FAULT", "memfd_create:1-", 1);
    run_under(&o, "", "ops 5000 fds");
    ok(&o);
    assert_int_equal(o.events, 5000);
    assert_string_equal(o.out, "open descriptors: 0\n");
    setenv("FAULT", "memfd_create:1-,open:1-", 1); /* no O_TMPFILE either */
    run_under(&o, "", "ops 5000 threads 3 10");
    ok(&o);
    assert_int_equal(o.events, 5030);
}

static void test_transport__no_room_means_off_and_one_line(void **state)
{
    struct outcome o;

    (void)state;
    setenv("LD_PRELOAD", shim_path(), 1);
    setenv("FAULT", "fallocate:1-", 1);
    run_under(&o, "-v", "ops 5000 threads 3 10 print done exit 4");
    assert_int_equal(o.exit_status, 4);
    assert_string_equal(o.out, "done\n");
    assert_int_equal(o.events, 0);
    assert_true(o.lost >= 1);
    const char *line = strstr(o.err, "no room for a ring");
    assert_non_null(line);
    assert_null(strstr(line + 1, "no room for a ring"));
}

static void test_transport__a_file_size_limit_does_not_kill_the_job(void **state)
{
    const char *argv[] = {driver_path(), "-v", "--",
                          "sh",          "-c", "ulimit -f 60; exec \"$0\" ops 5000 print done",
                          job_path(),    NULL};
    struct outcome o;

    (void)state;
    finish(start(argv), &o);
    assert_int_equal(o.exit_status, 0);
    assert_string_equal(o.out, "done\n");
    assert_non_null(strstr(o.err, "file size limit"));
}

static void test_transport__many_threads_share_a_ring_beyond_the_limit(void **state)
{
    struct outcome o;
    size_t n = 0;

    (void)state;
    /* 4 rings of 64 KiB: 3 of their own, 97 threads on the last */
    run_under(&o, "-r 65536 -t 262144", "threads 100 500 maps");
    ok(&o);
    assert_string_equal(o.out, "ring mappings: 4\n");
    struct tb_trace *t = open_trace();
    struct tags tags = process_tags(t, 1);
    for (uint64_t k = 1; k <= 100; k++)
        assert_run(&tags, k << 32, 500);
    assert_int_equal(tags.n, 50000);
    const struct tb_trace_thread *threads = tb_trace_threads(t, &n);
    assert_int_equal(n, 100);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(threads[i].events, 500);
    free(tags.tag);
    tb_trace_close(t);
}

static void test_transport__at_most_16_mib_of_rings(void **state)
{
    struct outcome o;

    (void)state;
    run_under(&o, "", "threads 90 20 maps");
    ok(&o);
    assert_string_equal(o.out, "ring mappings: 64\n");
    assert_int_equal(o.events, 1800);
}

static void test_transport__a_ring_is_reused_when_its_thread_ends(void **state)
{
    struct outcome o;
    size_t n = 0;

    (void)state;
    run_under(&o, "", "ops 1 turns 200 20 maps");
    ok(&o);
    assert_string_equal(o.out, "ring mappings: 2\n");
    struct tb_trace *t = open_trace();
    struct tags tags = process_tags(t, 1);
    for (uint64_t k = 1; k <= 200; k++)
        assert_run(&tags, k << 32, 20);
    const struct tb_trace_thread *threads = tb_trace_threads(t, &n);
    assert_int_equal(n, 201);
    assert_string_equal(threads[0].role, "main");
    assert_string_equal(threads[1].role, "thread#0");
    assert_string_equal(threads[200].role, "thread#199");
    free(tags.tag);
    tb_trace_close(t);
}

static void test_transport__records_longer_than_a_ring_come_in_a_chain(void **state)
{
    struct outcome o;
    struct tb_cursor *c;
    const struct tb_trace_event *e;
    struct tb_error err = {0};

    (void)state;
    run_under(&o, "-r 65536", "ops 3 kind 2 2 ops 100 kind 9 1");
    ok(&o);
    struct tb_trace *t = open_trace();
    assert_int_equal(tb_cursor_open_process(&c, t, 1, 0, UINT64_MAX, &err), TB_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(tb_cursor_next(c, &e, &err), TB_OK);
    assert_int_equal(e->site->access_count, 5000);
    assert_string_equal(e->site->access[4999].argument, "self.4999");
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(e->access[i].alloc, i + 1);
    tb_cursor_close(c);
    assert_int_equal(strlen(tb_trace_meta(t, "long")), 20000);
    tb_trace_close(t);
}

static void test_transport__what_belongs_to_an_event_finds_it(void **state)
{
    struct outcome o;
    struct tb_cursor *c;
    const struct tb_trace_event *e;
    struct tb_error err = {0};
    uint64_t id[8], sums[32], n = 0;
    uint32_t parts = 0;
    void *data = NULL;

    (void)state;
    run_under(&o, "", "kind 3 1 kind 4 1 kind 5 1 kind 8 1 kind 6 1 ops 3");
    ok(&o);
    struct tb_trace *t = open_trace();
    assert_int_equal(tb_cursor_open_process(&c, t, 1, 0, UINT64_MAX, &err), TB_OK);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(tb_cursor_next(c, &e, &err), TB_OK);
        assert_string_equal(tb_trace_range(t, e->e.range), "forward\tblock.0\t");
        id[i] = e->id;
    }
    tb_cursor_close(c);
    assert_int_equal(tb_trace_map(t, id[0], 2, sums, &parts, &err), TB_OK);
    assert_int_equal(parts, 1);
    assert_int_equal(tb_trace_map(t, id[1], 2, sums, &parts, &err), TB_ERR_NOTFOUND);
    assert_int_equal(tb_trace_snapshot(t, id[1], 2, &data, &n, &err), TB_OK);
    assert_int_equal(n, 16);
    assert_memory_equal(data, ((float[]){0, 1, 2, 3}), 16);
    free(data);
    assert_true(has_coverage(t, "subclass", "says nothing"));
    assert_string_equal(tb_trace_stack(t, id[3]), "train.py:3 step\n");
    tb_trace_close(t);
}

/* ---------------------------------------------------------------- the socket, the environment */

static void test_transport__the_socket_lies_in_a_closed_folder_and_goes(void **state)
{
    struct outcome o;
    char path[64], text[65536], *socket;
    struct stat st;

    (void)state;
    pid_t driver = start_under("", "write ready x waitfile go");
    wait_for_file("ready");
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)child_of(driver));
    FILE *f = fopen(path, "r");
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = 0;
    socket = memmem(text, n, "TWINBIT_SOCKET=", 15);
    assert_non_null(socket);
    snprintf(path, sizeof(path), "%s", socket + 15);
    *strrchr(path, '/') = 0;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    fclose(fopen("go", "w"));
    finish(driver, &o);
    ok(&o);
    assert_int_equal(stat(path, &st), -1);
}

static void test_transport__a_job_that_closes_all_descriptors_is_recorded(void **state)
{
    struct outcome o;

    (void)state;
    run_under(&o, "", "ops 10 closefds ops 1000 threads 3 100 closefds fork 50 kind 4 1");
    ok(&o);
    assert_int_equal(o.events, 10 + 1000 + 300 + 50 + 1);
}

static void test_transport__children_with_a_cut_environment_are_named(void **state)
{
    struct outcome o;

    (void)state;
    run_under(&o, "-v", "ops 10 spawn cut ops 20 sleep 1200");
    ok(&o);
    assert_int_equal(o.events, 10);
    assert_int_equal(o.not_covered, 1);
    assert_non_null(strstr(o.err, "1 process not covered"));
    struct tb_trace *t = open_trace();
    assert_true(has_coverage(t, "process", "ops 20"));
    tb_trace_close(t);
}

static void test_transport__a_child_with_the_environment_attaches(void **state)
{
    struct outcome o;
    size_t n = 0;

    (void)state;
    run_under(&o, "", "ops 10 spawn keep ops 20 sleep 600");
    ok(&o);
    assert_int_equal(o.not_covered, 0);
    struct tb_trace *t = open_trace();
    const struct tb_trace_process *p = tb_trace_processes(t, &n);
    assert_int_equal(n, 2);
    assert_int_equal(p[1].parent, p[0].id);
    struct tags tags = process_tags(t, p[1].id);
    assert_run(&tags, 0, 20);
    free(tags.tag);
    tb_trace_close(t);
}

static void test_transport__nothing_is_done_before_libtorch_is_there(void **state)
{
    const char *argv[] = {driver_path(), "-o", "out.twinbit", "-R", "result",
                          "-v",          "--", "sh",          "-c", "ls -l / > /dev/null; echo hi",
                          NULL};
    struct outcome o;

    (void)state;
    setenv("LD_PRELOAD", shim_path(), 1); /* the job's own is kept */
    setenv("FAULT_LOG", "calls", 1);
    finish(start(argv), &o);
    assert_int_equal(o.exit_status, 0);
    assert_string_equal(o.out, "hi\n");
    assert_int_equal(access("calls", F_OK), -1);
    assert_int_equal(o.processes, 0);
    assert_non_null(strstr(o.err, "nothing was recorded"));
    run_under(&o, "", "ops 1"); /* the log works: with libtorch there are calls */
    assert_int_equal(access("calls", F_OK), 0);
}

/* ---------------------------------------------------------------- fork, exec */

static void test_transport__a_forked_child_attaches_by_itself(void **state)
{
    struct outcome o;
    size_t n = 0;

    (void)state;
    run_under(&o, "", "ops 100 forkmaps forks 4 1000 ops 100");
    ok(&o);
    assert_string_equal(o.out, "ring mappings: 0\n"); /* the parent's are not the child's */
    struct tb_trace *t = open_trace();
    const struct tb_trace_process *p = tb_trace_processes(t, &n);
    assert_int_equal(n, 5); /* forkmaps' child had no event: it is nobody */
    bool seen[4] = {false};
    for (size_t i = 1; i < n; i++) {
        struct tags tags = process_tags(t, p[i].id);
        uint64_t k = (tags.tag[0] >> 40) - 1;
        assert_run(&tags, (k + 1) << 40, 1000);
        assert_int_equal(p[i].parent, p[0].id);
        assert_int_equal(p[i].ordinal, k); /* by fork, not by attach */
        assert_int_equal(p[i].worker, k);
        seen[k] = true;
        free(tags.tag);
    }
    assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
    struct tags tags = process_tags(t, p[0].id);
    assert_run(&tags, 0, 200);
    free(tags.tag);
    tb_trace_close(t);
}

static void test_transport__fork_while_threads_record(void **state)
{
    struct outcome o;
    size_t n = 0;

    (void)state;
    run_under(&o, "-r 65536 -t 131072", "forkbusy 4 50");
    ok(&o);
    struct tb_trace *t = open_trace();
    const struct tb_trace_process *p = tb_trace_processes(t, &n);
    assert_int_equal(n, 21);
    for (size_t i = 1; i < n; i++) {
        struct tags tags = process_tags(t, p[i].id);
        assert_run(&tags, 1ull << 40, 50);
        free(tags.tag);
    }
    tb_trace_close(t);
}

static void test_transport__exec_is_a_new_image(void **state)
{
    struct outcome o;
    size_t n = 0;

    (void)state;
    run_under(&o, "", "ops 1000 exec ops 2000 exec ops 3");
    ok(&o);
    struct tb_trace *t = open_trace();
    const struct tb_trace_process *p = tb_trace_processes(t, &n);
    assert_int_equal(n, 3);
    assert_int_equal(p[0].pid, p[2].pid);
    assert_string_not_equal(p[1].identity, p[2].identity);
    for (size_t i = 0; i < 3; i++) {
        struct tags tags = process_tags(t, p[i].id);
        assert_run(&tags, 0, i == 0 ? 1000 : i == 1 ? 2000 : 3);
        free(tags.tag);
    }
    tb_trace_close(t);
}

static void test_transport__exec_from_a_thread_while_another_records(void **state)
{
    struct outcome o;

    (void)state;
    run_under(&o, "", "execmid ops 500");
    ok(&o);
    struct tb_trace *t = open_trace();
    struct tags tags = process_tags(t, 2);
    assert_run(&tags, 0, 500);
    free(tags.tag);
    tb_trace_close(t);
}

static void test_transport__what_still_lives_is_a_row(void **state)
{
    struct outcome o;
    uint64_t begin = now_ms();

    (void)state;
    run_under(&o, "", "ops 5 forkaway 50 9000");
    ok(&o);
    uint64_t took = now_ms() - begin;
    if (took < 4500 || took > 30000)
        fail_msg("took %llu ms: %s", (unsigned long long)took, o.err);
    assert_int_equal(o.events, 55);
    struct tb_trace *t = open_trace();
    assert_true(tb_trace_info(t)->complete);
    assert_true(has_coverage(t, "still running", "5 s after"));
    tb_trace_close(t);
}

#define T(name) cmocka_unit_test_setup_teardown(test_transport__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(every_event_arrives_in_order),
        T(rings_are_memfds_and_no_descriptor_stays_open),
        T(without_memfd_a_file_under_tmpdir),
        T(no_room_means_off_and_one_line),
        T(a_file_size_limit_does_not_kill_the_job),
        T(many_threads_share_a_ring_beyond_the_limit),
        T(at_most_16_mib_of_rings),
        T(a_ring_is_reused_when_its_thread_ends),
        T(records_longer_than_a_ring_come_in_a_chain),
        T(what_belongs_to_an_event_finds_it),
        T(the_socket_lies_in_a_closed_folder_and_goes),
        T(a_job_that_closes_all_descriptors_is_recorded),
        T(children_with_a_cut_environment_are_named),
        T(a_child_with_the_environment_attaches),
        T(nothing_is_done_before_libtorch_is_there),
        T(a_forked_child_attaches_by_itself),
        T(fork_while_threads_record),
        T(exec_is_a_new_image),
        T(exec_from_a_thread_while_another_records),
        T(what_still_lives_is_a_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
