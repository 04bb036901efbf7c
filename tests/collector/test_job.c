/* The job's status, its signals, its terminal: as if twinbit were not there. */
#include "tests/collector/harness.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void run_argv(struct outcome *o, const char *const *job)
{
    const char *argv[32] = {driver_path(), "-o", "out.twinbit", "-R", "result", "-f", "--"};

    for (int i = 0; job[i]; i++)
        argv[7 + i] = job[i];
    finish(start(argv), o);
}

static void test_job__its_status_is_twinbits(void **state)
{
    struct outcome o;

    (void)state;
    run_under(&o, "", "ops 1 exit 0");
    assert_int_equal(o.exit_status, 0);
    run_under(&o, "", "ops 1 exit 77");
    assert_int_equal(o.exit_status, 77);
    run_under(&o, "", "ops 1 _exit 4");
    assert_int_equal(o.exit_status, 4);
    assert_int_equal(o.events, 1);
    run_under(&o, "", "ops 1 kill 11");
    assert_int_equal(o.exit_status, 139);
    run_under(&o, "", "ops 1 kill 15");
    assert_int_equal(o.exit_status, 143);
}

static void test_job__that_cannot_be_run(void **state)
{
    struct outcome o;

    (void)state;
    run_argv(&o, (const char *const[]){"no-such-command-here", NULL});
    assert_int_equal(o.exit_status, 127);
    assert_non_null(strstr(o.err, "no-such-command-here"));
    run_argv(&o, (const char *const[]){"./not/there", NULL});
    assert_int_equal(o.exit_status, 127);
    run_argv(&o, (const char *const[]){"/tmp", NULL});
    assert_int_equal(o.exit_status, 126);
    close(open("plain", O_CREAT | O_WRONLY, 0600));
    run_argv(&o, (const char *const[]){"./plain", NULL});
    assert_int_equal(o.exit_status, 126);
    assert_int_equal(access("out.twinbit", F_OK), -1); /* and no trace is left behind */
}

static void test_job__a_trace_is_not_overwritten(void **state)
{
    const char *argv[] = {driver_path(), "-o", "out.twinbit", "--", "touch", "ran", NULL};
    struct outcome o;

    (void)state;
    run_under(&o, "", "ops 3");
    finish(start(argv), &o);
    assert_int_equal(o.exit_status, 125);
    assert_int_equal(access("ran", F_OK), -1);
    argv[2] = "no/such/folder/x.twinbit";
    finish(start(argv), &o);
    assert_int_equal(o.exit_status, 125);
}

static void test_job__a_folder_gets_a_file_of_its_own(void **state)
{
    const char *argv[] = {driver_path(), "-o",       "traces/", "-R", "result",
                          "--",          job_path(), "ops",     "3",  NULL};
    struct outcome o;
    char path[300], host[65] = "";

    (void)state;
    setenv("SLURM_PROCID", "3", 1);
    finish(start(argv), &o);
    unsetenv("SLURM_PROCID");
    assert_int_equal(o.exit_status, 0);
    gethostname(host, sizeof(host) - 1);
    snprintf(path, sizeof(path), "traces/%s-3.twinbit", host);
    assert_int_equal(access(path, F_OK), 0);
}

static void test_job__a_script_without_interpreter_line_runs(void **state)
{
    struct outcome o;

    (void)state;
    FILE *f = fopen("script", "w");
    fputs("echo from a script; exit 9\n", f);
    fclose(f);
    chmod("script", 0700);
    run_argv(&o, (const char *const[]){"./script", NULL});
    assert_int_equal(o.exit_status, 9);
    assert_string_equal(o.out, "from a script\n");
}

/* ---------------------------------------------------------------- signals */

static const char *const traps[] = {
    "sh", "-c",
    "trap 'echo term' TERM; trap 'echo hup' HUP; trap 'echo int' INT; : > ready; "
    "while [ ! -e go ]; do sleep 0.05; done; exit 3",
    NULL};

static pid_t start_traps(void)
{
    const char *argv[16] = {driver_path(), "-o", "out.twinbit", "-R", "result", "-f", "--"};

    for (int i = 0; traps[i]; i++)
        argv[7 + i] = traps[i];
    pid_t driver = start(argv);
    wait_for_file("ready");
    return driver;
}

static void test_job__sigint_is_its_own_business(void **state)
{
    struct outcome o;

    (void)state;
    pid_t driver = start_traps();
    kill(driver, SIGINT);
    kill(driver, SIGQUIT);
    usleep(300000);
    fclose(fopen("go", "w"));
    finish(driver, &o);
    assert_int_equal(o.exit_status, 3);
    assert_string_equal(o.out, "");
}

/* The job's output, once it is as long as @want. */
static void wait_for_output(const char *want)
{
    uint64_t end = now_ms() + 60000;
    struct stat st;

    while (stat("stdout", &st) != 0 || (size_t)st.st_size < strlen(want)) {
        assert_true(now_ms() < end);
        usleep(2000);
    }
}

static void test_job__term_and_hup_are_forwarded_once(void **state)
{
    struct outcome o;

    (void)state;
    pid_t driver = start_traps();
    for (int i = 0; i < 3; i++) {
        kill(driver, SIGTERM);
        wait_for_output("term\n");
        kill(driver, SIGHUP);
        wait_for_output("term\nhup\n");
        usleep(100000); /* what is forwarded twice comes now */
    }
    fclose(fopen("go", "w"));
    finish(driver, &o);
    assert_int_equal(o.exit_status, 3);
    assert_string_equal(o.out, "term\nhup\n");
}

static void test_job__a_terminated_job_has_its_trace(void **state)
{
    struct outcome o;

    (void)state;
    pid_t driver = start_under("", "ops 50 write ready x waitfile never");
    wait_for_file("ready");
    kill(driver, SIGTERM);
    finish(driver, &o);
    assert_int_equal(o.exit_status, 143);
    assert_int_equal(o.events, 50);
    struct tb_trace *t = open_trace();
    assert_true(tb_trace_info(t)->complete);
    tb_trace_close(t);
}

static char state_of(pid_t pid)
{
    char path[64], c = '?';

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f) {
        (void)!fscanf(f, "%*d (%*[^)]) %c", &c);
        fclose(f);
    }
    return c;
}

static void wait_state(pid_t pid, bool stopped)
{
    uint64_t end = now_ms() + 60000;

    while ((state_of(pid) == 'T') != stopped) {
        assert_true(now_ms() < end);
        usleep(5000);
    }
}

static void test_job__stop_and_continue_are_followed(void **state)
{
    struct outcome o;

    (void)state;
    setenv("TB_TEST_OWN_GROUP", "1", 1);
    pid_t driver = start_under("", "ops 50 write ready x waitfile go ops 50");
    unsetenv("TB_TEST_OWN_GROUP");
    wait_for_file("ready");
    pid_t job = child_of(driver);
    for (int i = 0; i < 3; i++) {
        kill(driver, SIGTSTP);
        wait_state(job, true);
        wait_state(driver, true);
        kill(driver, SIGCONT);
        wait_state(driver, false);
        wait_state(job, false);
    }
    fclose(fopen("go", "w"));
    finish(driver, &o);
    assert_int_equal(o.exit_status, 0);
    assert_int_equal(o.events, 100);
    assert_int_equal(o.lost, 0);
}

static void test_job__stopped_by_its_own_pid_it_is_drained_on(void **state)
{
    struct outcome o;

    (void)state;
    pid_t driver = start_under("", "ops 50 write ready x waitfile go ops 50");
    wait_for_file("ready");
    pid_t job = child_of(driver);
    kill(job, SIGSTOP);
    wait_state(job, true);
    usleep(300000);
    assert_true(state_of(driver) != 'T');
    kill(job, SIGCONT);
    fclose(fopen("go", "w"));
    finish(driver, &o);
    assert_int_equal(o.events, 100);
}

/* In a terminal, as a shell runs it: ^Z stops both, ^C reaches the job alone. */
static void test_job__in_a_terminal(void **state)
{
    int master, status;

    (void)state;
    pid_t leader = forkpty(&master, NULL, NULL, NULL);
    if (leader == 0) {
        pid_t driver = fork();
        if (driver == 0) {
            setpgid(0, 0);
            signal(SIGTTOU, SIG_IGN);
            tcsetpgrp(0, getpid());
            signal(SIGTTOU, SIG_DFL);
            execl(driver_path(), "driver", "-R", "result", "--", job_path(), "ops", "5", "write",
                  "ready", "x", "waitfile", "go", "ops", "5", (char *)NULL);
            _exit(1);
        }
        signal(SIGHUP, SIG_IGN);
        FILE *f = fopen("driver.pid", "w");
        fprintf(f, "%d", (int)driver);
        fclose(f);
        rename("driver.pid", "driver");
        while (waitpid(driver, &status, WUNTRACED) == driver && WIFSTOPPED(status)) {
            fclose(fopen("stopped", "w"));
            while (access("resume", F_OK) != 0)
                usleep(1000);
            unlink("resume");
            kill(-driver, SIGCONT);
        }
        _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    }
    assert_true(leader > 0);
    wait_for_file("ready");
    assert_int_equal(write(master, "\x1a", 1), 1); /* ^Z */
    wait_for_file("stopped");
    fclose(fopen("resume", "w"));
    usleep(300000);
    assert_int_equal(write(master, "\x03", 1), 1); /* ^C */
    assert_int_equal(waitpid(leader, &status, 0), leader);
    close(master);
    assert_int_equal(WEXITSTATUS(status), 130);
    FILE *f = fopen("result", "r");
    char text[4096];
    text[fread(text, 1, sizeof(text) - 1, f)] = 0;
    fclose(f);
    assert_non_null(strstr(text, "\nevents 5\n"));
}

/* ---------------------------------------------------------------- what it sees */

static void test_job__output_is_the_same_with_and_without(void **state)
{
    static const char words[] =
        "ops 1000 errno print one threads 4 100 fork 10 print two fds exit 12";
    struct outcome plain, o;

    (void)state;
    run_plain(&plain, words);
    run_under(&o, "", words);
    assert_int_equal(o.exit_status, plain.exit_status);
    assert_string_equal(o.out, plain.out);
    assert_string_equal(o.err, plain.err);
}

static void test_job__its_own_preload_and_environment_stay(void **state)
{
    struct outcome o;
    char wanted[8192];

    (void)state;
    setenv("LD_PRELOAD", shim_path(), 1);
    run_argv(&o, (const char *const[]){"sh", "-c",
                                       "echo $LD_PRELOAD; env | grep -cE '^TWINBIT_(SOCKET|TAP)='",
                                       NULL});
    snprintf(wanted, sizeof(wanted), "%s:%s\n2\n", preload_path(), shim_path()); /* SOCKET, TAP */
    assert_string_equal(o.out, wanted);
}

static void test_job__attach_none_leaves_it_alone(void **state)
{
    const char *argv[] = {driver_path(), "-a",       "none", "-o", "out.twinbit", "-R",  "result",
                          "--",          job_path(), "ops",  "5",  "sleep",       "900", NULL};
    struct outcome o;

    (void)state;
    finish(start(argv), &o);
    assert_int_equal(o.exit_status, 0);
    assert_int_equal(o.processes, 0);
    assert_int_equal(o.not_covered, 1); /* it uses libtorch, and nobody saw what it did */
}

static void test_job__provenance_is_stored_and_secrets_are_not(void **state)
{
    struct outcome o;
    size_t n;

    (void)state;
    setenv("MY_API_KEY", "hunter2", 1);
    setenv("HTTP_PROXY_URL", "http://joe:hunter2@proxy:3128/x", 1);
    setenv("PLAIN_THING", "visible", 1);
    run_under(&o, "", "ops 1 print 'a'");
    unsetenv("MY_API_KEY");
    unsetenv("HTTP_PROXY_URL");
    struct tb_trace *t = open_trace();
    const char *env = tb_trace_text(t, "environment", &n);
    assert_non_null(env);
    assert_null(memmem(env, n, "hunter2", 7));
    assert_non_null(memmem(env, n, "MY_API_KEY=<redacted>", 21));
    assert_non_null(memmem(env, n, "http://<redacted>@proxy:3128/x", 30));
    assert_non_null(memmem(env, n, "PLAIN_THING=visible", 19));
    assert_non_null(strstr(tb_trace_meta(t, "argv"), "ops 1 print"));
    static const char *const keys[] = {"host",   "kernel",          "cpu.count",
                                       "cwd",    "twinbit.version", "start_time",
                                       "wall_s", "collector_cpu_s", "exit_status"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_non_null(tb_trace_meta(t, keys[i]));
    tb_trace_close(t);
}

static void test_job__git_state_of_its_folder(void **state)
{
    const char *setup[] = {"sh", "-c",
                           "git init -q . && echo a > f && git add f && git -c user.name=t -c "
                           "user.email=t@t commit -q -m x",
                           NULL};
    struct outcome o;

    (void)state;
    finish(start(setup), &o);
    if (o.exit_status != 0)
        skip();
    run_under(&o, "", "ops 1");
    struct tb_trace *t = open_trace();
    assert_int_equal(strlen(tb_trace_meta(t, "git.commit")), 40);
    assert_string_equal(tb_trace_meta(t, "git.dirty"), "no");
    tb_trace_close(t);
    FILE *f = fopen("f", "a");
    fputs("b\n", f);
    fclose(f);
    run_under(&o, "", "ops 1");
    t = open_trace();
    assert_string_equal(tb_trace_meta(t, "git.dirty"), "yes");
    assert_int_equal(strlen(tb_trace_meta(t, "git.diff")), 32);
    tb_trace_close(t);
}

#define T(name) cmocka_unit_test_setup_teardown(test_job__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(its_status_is_twinbits),
        T(that_cannot_be_run),
        T(a_trace_is_not_overwritten),
        T(a_folder_gets_a_file_of_its_own),
        T(a_script_without_interpreter_line_runs),
        T(sigint_is_its_own_business),
        T(term_and_hup_are_forwarded_once),
        T(a_terminated_job_has_its_trace),
        T(stop_and_continue_are_followed),
        T(stopped_by_its_own_pid_it_is_drained_on),
        T(in_a_terminal),
        T(output_is_the_same_with_and_without),
        T(its_own_preload_and_environment_stay),
        T(attach_none_leaves_it_alone),
        T(provenance_is_stored_and_secrets_are_not),
        T(git_state_of_its_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
