/*
 * The 1st..nth of each call that the recorder makes fails: the job's output and status stay what
 * they are, and what could not be recorded is said.
 */
#include "tests/collector/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char words[] =
    "ops 200 errno print one threads 3 100 fork 10 kind 4 1 kind 2 1 kind 3 1 "
    "print two turns 3 5 fds exit 12";

/* Calls of that name in a run in which nothing fails. */
static unsigned count_calls(const char *name)
{
    struct outcome o;
    char line[64];
    unsigned n = 0;

    setenv("FAULT_LOG", "calls", 1);
    unsetenv("FAULT");
    run_under(&o, "-t 524288", words);
    unsetenv("FAULT_LOG");
    FILE *f = fopen("calls", "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = 0;
        n += strcmp(line, name) == 0;
    }
    fclose(f);
    unlink("calls");
    return n;
}

static void same_as(const struct outcome *plain, const struct outcome *o, const char *fault)
{
    if (o->exit_status != plain->exit_status || strcmp(o->out, plain->out) != 0 ||
        strcmp(o->err, plain->err) != 0)
        fail_msg("with %s: status %d, stdout '%s', stderr '%s'", fault, o->exit_status, o->out,
                 o->err);
}

static void fail_each(const char *name, bool fatal)
{
    struct outcome plain, o;
    char fault[64];

    setenv("LD_PRELOAD", shim_path(), 1);
    unsetenv("FAULT");
    run_plain(&plain, words);
    unsigned calls = count_calls(name);
    assert_true(calls > 0);
    for (unsigned i = 1; i <= calls + 1; i++)
        for (int later = 0; later < 2; later++) {
            snprintf(fault, sizeof(fault), "%s:%u%s", name, i, later ? "-" : "");
            setenv("FAULT", fault, 1);
            run_under(&o, "-t 524288", words);
            same_as(&plain, &o, fault);
            if (i == 1 && later && fatal) /* it did fail: nothing could be recorded */
                assert_int_equal(o.events, 0);
            if (i > calls) /* not reached: all is recorded */
                assert_int_equal(o.lost, 0);
        }
}

#define EACH(call, fatal)                                                                          \
    static void test_faults__##call(void **state)                                                  \
    {                                                                                              \
        (void)state;                                                                               \
        fail_each(#call, fatal);                                                                   \
    }

EACH(mmap, true)
EACH(memfd_create, false)
EACH(fallocate, true)
EACH(socket, true)
EACH(connect, true)
EACH(sendmsg, true)
EACH(recvmsg, true)
EACH(poll, true)
EACH(dlopen, true)
EACH(madvise, false)
EACH(pthread_setspecific, false)
EACH(pthread_key_create, true)

static void test_faults__no_socket_at_all(void **state)
{
    struct outcome plain, o;

    (void)state;
    run_plain(&plain, words);
    setenv("LD_PRELOAD", preload_path(), 1); /* as a child that outlives twinbit has it */
    unsetenv("TWINBIT_SOCKET");
    run_plain(&o, words);
    same_as(&plain, &o, "no TWINBIT_SOCKET");
    setenv("TWINBIT_SOCKET", "/nowhere/s", 1);
    run_plain(&o, words);
    same_as(&plain, &o, "a socket that is not there");
    setenv("TWINBIT_SOCKET", "relative", 1);
    run_plain(&o, words);
    same_as(&plain, &o, "a relative socket");
    unsetenv("TWINBIT_SOCKET");
}

static void test_faults__two_at_a_time(void **state)
{
    static const char *const faults[] = {"memfd_create:1-,open:1-,mkostemp:1-",
                                         "memfd_create:2-,open:1-,mkostemp:1", "mmap:9-,connect:4-",
                                         "recvmsg:2-,sendmsg:4-", "madvise:1-,memfd_create:1-"};
    struct outcome plain, o;

    (void)state;
    setenv("LD_PRELOAD", shim_path(), 1);
    run_plain(&plain, words);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        setenv("FAULT", faults[i], 1);
        run_under(&o, "", words);
        same_as(&plain, &o, faults[i]);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(test_faults__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(mmap),
        T(memfd_create),
        T(fallocate),
        T(socket),
        T(connect),
        T(sendmsg),
        T(recvmsg),
        T(poll),
        T(dlopen),
        T(madvise),
        T(pthread_setspecific),
        T(pthread_key_create),
        T(no_socket_at_all),
        T(two_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
