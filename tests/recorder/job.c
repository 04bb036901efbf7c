/*
 * A job for the tests: loads the fake libtorch and runs the parts named on its command line, in
 * order. Prints what a job prints; its output and status must be the same with and without twinbit.
 *
 *   ops N            N operators in this thread             threads T N      T threads, N each, at
 * once turns T N        T threads one after the other, N each   kind K N         N operators of
 * fake_kind K step             the end of a step                      fork N           a child that
 * runs N, waited for forks K N        K children at once, N operators each    forkbusy T N     fork
 * while T threads record closefds         close every descriptor but 0 1 2        exec ARGS... exec
 * this program with ARGS execmid ARGS...  the same from a thread                 spawn ENV ARGS..
 * run this program, env cut if ENV=cut orphan N         a grandchild that is reparented print TEXT
 * a line on stdout sleep MS         write FILE TEXT   kill SIG   exit N   _exit N   waitfile FILE
 * stopself slow N US        N operators, US microseconds apart      errno            a dlsym must
 * keep errno forkaway N MS    a child that runs N, lives on for MS and is not waited for count FILE
 * N     N operators; FILE (8 bytes, mapped) has the number of those that returned maps, forkmaps
 * lines of /proc/self/maps that name a ring
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/recorder/fake_torch.h"

static void (*op)(uint64_t tag, int kind);
static char **program;
static uint64_t next_tag;

static void load(void)
{
    const char *path = getenv("FAKE_TORCH");
    void *lib = dlopen(path ? path : "libtorch_cpu.so", RTLD_NOW | RTLD_LOCAL);

    if (!lib) {
        fprintf(stderr, "job: %s\n", dlerror());
        exit(99);
    }
    *(void **)&op = dlsym(lib, "fake_torch_op");
    if (!op)
        exit(98);
}

static void ops(uint64_t n, int kind)
{
    for (uint64_t i = 0; i < n; i++)
        op(next_tag++, kind);
}

struct work {
    uint64_t base, n;
    pthread_barrier_t *barrier;
};

static void *thread_main(void *arg)
{
    struct work *w = arg;

    if (w->barrier)
        pthread_barrier_wait(w->barrier);
    for (uint64_t i = 0; i < w->n; i++)
        op(w->base + i, FAKE_ADD);
    if (w->barrier)
        pthread_barrier_wait(w->barrier);
    return NULL;
}

/* Tags of thread k (from 1) begin at k << 32. */
static void threads(unsigned count, uint64_t n, int together)
{
    pthread_t *id = calloc(count, sizeof(*id));
    struct work *w = calloc(count, sizeof(*w));
    pthread_barrier_t barrier;

    pthread_barrier_init(&barrier, NULL, count);
    for (unsigned k = 0; k < count; k++) {
        w[k] = (struct work){(uint64_t)(k + 1) << 32, n, together ? &barrier : NULL};
        if (pthread_create(&id[k], NULL, thread_main, &w[k]) != 0)
            exit(97);
        if (!together)
            pthread_join(id[k], NULL);
    }
    for (unsigned k = 0; together && k < count; k++)
        pthread_join(id[k], NULL);
    pthread_barrier_destroy(&barrier);
    free(id);
    free(w);
}

static void *held_main(void *arg)
{
    op(1ull << 32, FAKE_HELD);
    return arg;
}

/* A thread draws a number and never writes its event. */
static void hold(void)
{
    pthread_t id;

    if (pthread_create(&id, NULL, held_main, NULL) != 0)
        exit(87);
    usleep(200000);
}

static void wait_ok(pid_t pid)
{
    int status = -1;

    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "job: child ended with %d\n", status);
        exit(96);
    }
}

static void forks(unsigned count, uint64_t n)
{
    pid_t *pid = calloc(count, sizeof(*pid));

    for (unsigned k = 0; k < count; k++) {
        pid[k] = fork();
        if (pid[k] == 0) {
            next_tag = ((uint64_t)k + 1) << 40;
            ops(n, FAKE_ADD);
            _exit(0);
        }
    }
    for (unsigned k = 0; k < count; k++)
        wait_ok(pid[k]);
    free(pid);
}

static volatile int quit;

static void *busy_main(void *arg)
{
    uint64_t base = (uint64_t)(uintptr_t)arg << 32;

    while (!quit)
        op(base++, FAKE_ADD);
    return NULL;
}

static void fork_busy(unsigned count, uint64_t n)
{
    pthread_t id[64];

    for (unsigned k = 0; k < count; k++)
        pthread_create(&id[k], NULL, busy_main, (void *)(uintptr_t)(k + 1));
    for (int round = 0; round < 20; round++)
        forks(1, n);
    quit = 1;
    for (unsigned k = 0; k < count; k++)
        pthread_join(id[k], NULL);
}

static void close_fds(void)
{
    for (int fd = 3; fd < 4096; fd++)
        close(fd);
}

/* What is open beyond 0, 1, 2: nothing of twinbit may be. */
static void print_fds(void)
{
    struct stat st;
    int n = 0;

    for (int fd = 3; fd < 4096; fd++)
        n += fstat(fd, &st) == 0;
    printf("open descriptors: %d\n", n);
}

static char **with_program(char **args)
{
    static char *argv[64];

    argv[0] = program[0];
    for (int i = 0; i < 62 && (argv[i + 1] = args[i]) != NULL; i++)
        ;
    return argv;
}

static void *exec_main(void *arg)
{
    execv("/proc/self/exe", with_program(arg));
    _exit(95);
}

static void exec_from_thread(char **args)
{
    pthread_t id;

    pthread_create(&id, NULL, exec_main, args);
    for (;;)
        op(next_tag++, FAKE_ADD);
}

static void spawn(int cut, char **args)
{
    char torch[4200];
    char *env[] = {torch, NULL};
    extern char **environ;

    snprintf(torch, sizeof(torch), "FAKE_TORCH=%s", getenv("FAKE_TORCH"));
    pid_t pid = fork();
    if (pid == 0) {
        execve("/proc/self/exe", with_program(args), cut ? env : environ);
        _exit(94);
    }
    wait_ok(pid);
}

static void orphan(uint64_t n)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (fork() == 0) {
            usleep(300000);
            next_tag = 1ull << 50;
            ops(n, FAKE_ADD);
            sleep(1);
        }
        _exit(0);
    }
    wait_ok(pid);
}

static void check_errno(void)
{
    errno = 77;
    (void)dlsym(RTLD_DEFAULT, "malloc");
    if (errno != 77)
        exit(93);
    if (dlsym(RTLD_DEFAULT, "no_such_symbol") || !dlerror() || dlerror())
        exit(92);
}

/* The page survives whatever kills us. */
static void counted(const char *path, uint64_t n)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || ftruncate(fd, 8) != 0)
        exit(88);
    volatile uint64_t *count = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    for (uint64_t i = 0; i < n; i++) {
        op(next_tag++, FAKE_ADD);
        *count = i + 1;
    }
}

static void print_ring_maps(void)
{
    char line[1024];
    FILE *f = fopen("/proc/self/maps", "r");
    int n = 0;

    while (f && fgets(line, sizeof(line), f))
        n += strstr(line, "twinbit-ring") != NULL;
    printf("ring mappings: %d\n", n);
    fflush(stdout);
    if (f)
        fclose(f);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        exit(91);
}

static uint64_t number(const char *text)
{
    return text ? strtoull(text, NULL, 10) : 0;
}

/* One part; returns how many words it took. */
static int part(char **a)
{
    if (!strcmp(a[0], "ops"))
        return ops(number(a[1]), FAKE_ADD), 2;
    if (!strcmp(a[0], "kind"))
        return ops(number(a[2]), (int)number(a[1])), 3;
    if (!strcmp(a[0], "step"))
        return op(next_tag++, FAKE_STEP), 1;
    if (!strcmp(a[0], "threads"))
        return threads((unsigned)number(a[1]), number(a[2]), 1), 3;
    if (!strcmp(a[0], "turns"))
        return threads((unsigned)number(a[1]), number(a[2]), 0), 3;
    if (!strcmp(a[0], "fork"))
        return forks(1, number(a[1])), 2;
    if (!strcmp(a[0], "forks"))
        return forks((unsigned)number(a[1]), number(a[2])), 3;
    if (!strcmp(a[0], "forkbusy"))
        return fork_busy((unsigned)number(a[1]), number(a[2])), 3;
    if (!strcmp(a[0], "closefds"))
        return close_fds(), 1;
    if (!strcmp(a[0], "fds"))
        return print_fds(), 1;
    if (!strcmp(a[0], "print"))
        return printf("%s\n", a[1]), fflush(stdout), 2;
    if (!strcmp(a[0], "hold"))
        return hold(), 1;
    if (!strcmp(a[0], "errno"))
        return check_errno(), 1;
    if (!strcmp(a[0], "orphan"))
        return orphan(number(a[1])), 2;
    if (!strcmp(a[0], "sleep"))
        return usleep((useconds_t)number(a[1]) * 1000), 2;
    if (!strcmp(a[0], "write"))
        return write_file(a[1], a[2]), 3;
    if (!strcmp(a[0], "kill"))
        return raise((int)number(a[1])), 2;
    if (!strcmp(a[0], "exit"))
        exit((int)number(a[1]));
    if (!strcmp(a[0], "_exit"))
        _exit((int)number(a[1]));
    return 0;
}

static int waiting_part(char **a)
{
    if (!strcmp(a[0], "waitfile")) {
        while (access(a[1], F_OK) != 0)
            usleep(2000);
        return 2;
    }
    if (!strcmp(a[0], "count"))
        return counted(a[1], number(a[2])), 3;
    if (!strcmp(a[0], "maps"))
        return print_ring_maps(), 1;
    if (!strcmp(a[0], "forkaway")) { /* a child that outlives us */
        if (fork() == 0) {
            next_tag = 1ull << 40;
            ops(number(a[1]), FAKE_ADD);
            usleep((useconds_t)number(a[2]) * 1000);
            _exit(0);
        }
        return 3;
    }
    if (!strcmp(a[0], "forkmaps")) { /* in a child, before its first operator */
        pid_t pid = fork();
        if (pid == 0) {
            print_ring_maps();
            _exit(0);
        }
        return wait_ok(pid), 1;
    }
    if (!strcmp(a[0], "slow")) {
        for (uint64_t i = number(a[1]); i > 0; i--) {
            op(next_tag++, FAKE_ADD);
            usleep((useconds_t)number(a[2]));
        }
        return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    program = argv;
    load();
    for (int i = 1; i < argc;) {
        if (!strcmp(argv[i], "exec")) {
            execv("/proc/self/exe", with_program(argv + i + 1));
            _exit(90);
        }
        if (!strcmp(argv[i], "execmid"))
            exec_from_thread(argv + i + 1);
        if (!strcmp(argv[i], "spawn")) {
            spawn(!strcmp(argv[i + 1], "cut"), argv + i + 2);
            break;
        }
        int n = part(argv + i);
        n = n ? n : waiting_part(argv + i);
        if (!n) {
            fprintf(stderr, "job: no such part: %s\n", argv[i]);
            return 89;
        }
        i += n;
    }
    return 0;
}
