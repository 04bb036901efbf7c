/* Who is looked at while it becomes another program */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/collector_internal.h"

static int go[2] = {-1, -1}; /* what the child waits for; -1: it has been let go */
static unsigned looks;

ssize_t __real_tb_proc_read(pid_t pid, const char *name, char *buf, size_t size);
ssize_t __wrap_tb_proc_read(pid_t pid, const char *name, char *buf, size_t size);

static void until_it_is(pid_t pid, const char *program)
{
    char link[64], exe[256];

    (void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
    for (int i = 0; i < 5000; i++) {
        ssize_t n = readlink(link, exe, sizeof(exe) - 1);
        exe[n > 0 ? n : 0] = 0;
        if (strstr(exe, program))
            return;
        (void)usleep(1000);
    }
    fail_msg("'%s' did not start", program);
}

/* Between the look at its libraries and the one at its image the child executes another program. */
ssize_t __wrap_tb_proc_read(pid_t pid, const char *name, char *buf, size_t size)
{
    if (strcmp(name, "auxv") == 0) {
        looks++;
        if (go[1] >= 0) {
            assert_int_equal(write(go[1], "x", 1), 1);
            assert_int_equal(close(go[1]), 0);
            go[1] = -1;
            until_it_is(pid, "sleep");
        }
    }
    return __real_tb_proc_read(pid, name, buf, size);
}

static void said(void *arg, const char *argv, const char *why)
{
    (void)arg;
    fail_msg("'%s' is not covered: %s", argv, why);
}

static void
test_watch__a_fork_that_becomes_another_program_has_no_libraries_of_the_old(void **state)
{
    int none = 0;
    char x;

    (void)state;
    assert_non_null(dlopen(TEST_TORCH, RTLD_NOW));
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)close(go[1]);
        if (read(go[0], &x, 1) == 1)
            execlp("sleep", "sleep", "30", (char *)NULL);
        _exit(1);
    }
    assert_int_equal(close(go[0]), 0);
    struct tb_watch *w = tb_watch_new(&none);
    assert_non_null(w);
    for (int i = 0; i < 3; i++)
        tb_watch_poll(w, child);
    assert_true(looks > 0 && go[1] < 0);
    assert_int_equal(tb_watch_result(w, NULL, TB_CUDA_TAP_NONE, said, NULL), 0);
    tb_watch_free(w);
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_watch__a_fork_that_becomes_another_program_has_no_libraries_of_the_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
