/* A process is the same in another run by its place in the tree, never by pid or by who came first.
 */
#include "tests/collector/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/collector_internal.h"

struct given {
    int parent; /* index in the array, -1: none */
    const char *name;
    uint64_t parent_nonce, start;
    uint32_t fork_ordinal;
    int32_t rank, restart, worker;
    pid_t pid;
    const char *want;
};

/* Attached in the order of @order; names must not depend on it as long as parents come first. */
static void check(const struct given *g, size_t n, const size_t *order)
{
    struct tb_col_process p[16];

    memset(p, 0, sizeof(p));
    for (size_t i = 0; i < n; i++) {
        p[i].pidfd = -1;
        p[i].next = i + 1 < n ? &p[i + 1] : NULL;
        p[i].index = (uint32_t)order[i] + 1;
        p[i].parent = g[i].parent >= 0 ? &p[g[i].parent] : NULL;
        p[i].parent_nonce = g[i].parent_nonce;
        p[i].fork_ordinal = g[i].fork_ordinal;
        p[i].start = g[i].start;
        p[i].rank = g[i].rank;
        p[i].rank_said = -1;
        p[i].restart = g[i].restart;
        p[i].worker_said = g[i].worker;
        p[i].pid = g[i].pid;
        snprintf(p[i].name, sizeof(p[i].name), "%s", g[i].name);
    }
    tb_process_name_all(p);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(p[i].identity, g[i].want);
}

static void test_identity__order_of_attach_and_pids_do_not_matter(void **state)
{
    static const struct given g[] = {
        {-1, "torchrun", 0, 10, 0, -1, 0, -1, 900, "torchrun#0"},
        {0, "train.py", 0, 20, 0, 1, 0, -1, 800, "torchrun#0/train.py:rank1#0"},
        {0, "train.py", 0, 20, 0, 0, 0, -1, 700, "torchrun#0/train.py:rank0#0"},
        {0, "train.py", 0, 90, 0, 0, 1, -1, 600, "torchrun#0/train.py:rank0:restart1#0"},
        {1, "x", 5, 30, 2, 1, 0, -1, 500, "torchrun#0/train.py:rank1#0/fork#1"},
        {1, "x", 5, 30, 1, 1, 0, -1, 501, "torchrun#0/train.py:rank1#0/fork#0"},
        {-1, "eval.py", 0, 15, 0, -1, 0, -1, 400, "eval.py#1"},
        {-1, "eval.py", 0, 12, 0, -1, 0, -1, 401, "eval.py#0"},
    };

    (void)state;
    check(g, 8, (const size_t[]){0, 1, 2, 3, 4, 5, 6, 7});
    check(g, 8, (const size_t[]){0, 3, 1, 2, 7, 6, 5, 4});
}

static void test_identity__names_are_unique_even_if_nothing_tells_them_apart(void **state)
{
    static const struct given g[] = {
        {-1, "a", 0, 10, 0, -1, 0, -1, 9, "a#1"},
        {-1, "a", 0, 10, 0, -1, 0, -1, 8, "a#0"},
        {1, "a", 7, 11, 0, -1, 0, -1, 5, "a#0/fork#0"},
        {1, "a", 7, 11, 0, -1, 0, -1, 6, "a#0/fork#1"},
    };

    (void)state;
    check(g, 4, (const size_t[]){0, 1, 2, 3});
}

static void test_identity__rank_and_restart_come_from_the_environment(void **state)
{
    struct outcome o;
    size_t n = 0;

    (void)state;
    setenv("RANK", "3", 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
    run_under(&o, "", "ops 5 fork 5");
    unsetenv("RANK");
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    struct tb_trace *t = open_trace();
    const struct tb_trace_process *p = tb_trace_processes(t, &n);
    assert_int_equal(n, 2);
    assert_int_equal(p[0].rank, 3);
    assert_int_equal(p[0].restart, 2);
    assert_int_equal(p[0].worker, -1);
    assert_int_equal(p[1].worker, 0);
    assert_string_equal(p[0].identity, "fake_job:rank3:restart2#0");
    assert_string_equal(p[1].identity, "fake_job:rank3:restart2#0/fork#0");
    tb_trace_close(t);
}

static void test_identity__is_the_same_in_each_run(void **state)
{
    struct outcome o;
    char first[8][512];
    size_t n = 0;

    (void)state;
    for (int run = 0; run < 5; run++) {
        run_under(&o, "", "ops 5 forks 4 50 spawn keep ops 3 forks 2 5");
        struct tb_trace *t = open_trace();
        const struct tb_trace_process *p = tb_trace_processes(t, &n);
        assert_int_equal(n, 8);
        for (size_t i = 0; i < n; i++) {
            bool found = run == 0;
            for (size_t k = 0; run && k < n; k++)
                found = found || strcmp(first[k], p[i].identity) == 0;
            assert_true(found);
            if (run == 0)
                snprintf(first[i], sizeof(first[0]), "%s", p[i].identity);
        }
        tb_trace_close(t);
    }
}

static void test_identity__an_orphan_is_still_its_parents_child(void **state)
{
    struct outcome o;
    size_t n = 0;

    (void)state;
    run_under(&o, "", "ops 5 orphan 20 sleep 900");
    struct tb_trace *t = open_trace();
    const struct tb_trace_process *p = tb_trace_processes(t, &n);
    assert_int_equal(n, 2);
    assert_int_equal(p[1].parent, p[0].id);
    struct tags tags = process_tags(t, p[1].id);
    assert_run(&tags, 1ull << 50, 20);
    free(tags.tag);
    tb_trace_close(t);
}

static void test_identity__arguments_are_quoted(void **state)
{
    char out[64];

    (void)state;
    tb_argv_join("python\0a b\0it's\0\0--x=1", 23, out, sizeof(out));
    assert_string_equal(out, "python 'a b' 'it'\\''s' '' --x=1");
    tb_argv_join("python\0a b\0it's", 16, out, 10);
    assert_string_equal(out, "python ''"); /* cut, and still whole words */
}

#define T(name) cmocka_unit_test_setup_teardown(test_identity__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(order_of_attach_and_pids_do_not_matter),
        T(names_are_unique_even_if_nothing_tells_them_apart),
        T(rank_and_restart_come_from_the_environment),
        T(is_the_same_in_each_run),
        T(an_orphan_is_still_its_parents_child),
        T(arguments_are_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
