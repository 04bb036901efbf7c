/*
 * A job for the tests of the preloaded library: prints what libc's functions give it. Its parts are
 * named on the command line and run in order; LIST is the default of most.
 *
 *   entropy          each function once        devices   each way to read /dev/urandom
 *   many N           N draws of 8 bytes        sizes A B ... draws of these sizes
 *   threads N        N threads, started at once, each slowed by chance, print at the end
 *   nested           a thread that makes threads, and one of thrd_create()
 *   fork exec vfork spawn system popen clone   children, each prints a draw; exec: this one anew
 *   race N           N children by vfork at once, slowed by chance
 *   list DIR  scan DIR  glob DIR  seek DIR  shared DIR   names of a folder
 *   temp DIR         names that are made there      crypto LIB  draws of that library, and of ours
 *   time             reads the clocks               errno       calls keep it
 *   signal           draws in a handler             closed      a device's number used again
 *   decide V1,V2,..  writes these values as decisions of one stream, prints those of the run before
 *   speed            one line: nanoseconds of an answered draw and of a system call
 *   kill             draws, then SIGKILL            draw        one draw (children run this)
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static char *self;

static void show(const char *what, const void *bytes, size_t n)
{
    char line[512];
    int at = snprintf(line, sizeof(line), "%s ", what);

    for (size_t i = 0; i < n && i < 200; i++)
        at += snprintf(line + at, sizeof(line) - (size_t)at, "%02x", ((const uint8_t *)bytes)[i]);
    printf("%s\n", line);
    fflush(stdout);
}

static void need(int good, const char *what)
{
    if (!good) {
        printf("failed: %s: %s\n", what, strerror(errno));
        exit(9);
    }
}

static uint64_t draw(void)
{
    uint64_t x = 0;

    need(getrandom(&x, sizeof(x), 0) == (ssize_t)sizeof(x), "getrandom");
    return x;
}

/* A time that no run repeats */
static void chance(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    usleep((useconds_t)((t.tv_nsec >> 4) % 3000));
}

static void entropy(void)
{
    uint8_t b[300] = {0};

    need(getrandom(b, 13, GRND_NONBLOCK) == 13, "getrandom");
    show("getrandom", b, 13);
    need(getentropy(b, 32) == 0, "getentropy");
    show("getentropy", b, 32);
    need(syscall(SYS_getrandom, b, 24, 0) == 24, "syscall");
    show("syscall", b, 24);
    need(syscall(SYS_getpid) == getpid(), "syscall getpid");
    need(getrandom(b, 0, 0) == 0, "getrandom of none");
    need(getrandom(b, 8, 0x4000) == -1 && errno == EINVAL, "getrandom with a wrong flag");
    need(syscall(SYS_getrandom, b, 8, 0x4000) == -1 && errno == EINVAL, "syscall, wrong flag");
    need(getentropy(b, 257) == -1 && errno == EIO, "getentropy of too many");
#if __GLIBC_PREREQ(2, 36)
    uint32_t x = arc4random(), y = arc4random_uniform(1000);
    show("arc4random", &x, 4);
    need(y < 1000 && arc4random_uniform(1) == 0 && arc4random_uniform(0) == 0, "uniform");
    show("arc4random_uniform", &y, 4);
    arc4random_buf(b, 40);
    show("arc4random_buf", b, 40);
#endif
}

static void from_fd(const char *what, int fd)
{
    uint8_t b[16], c[16];
    struct iovec parts[2] = {{b, 8}, {c, 16}};

    need(fd >= 0, what);
    need(read(fd, b, 16) == 16, what);
    show(what, b, 16);
    need(pread(fd, b, 12, 4) == 12, what);
    show("pread", b, 12);
    need(readv(fd, parts, 2) == 24, what);
    show("readv", c, 16);
    close(fd);
}

static void from_file(const char *what, FILE *f)
{
    uint8_t b[16];

    need(f != NULL, what);
    need(fread(b, 1, 16, f) == 16, what);
    show(what, b, 16);
    b[0] = (uint8_t)fgetc(f);
    show("fgetc", b, 1);
    need(read(fileno(f), b, 16) == 16, "read of fileno");
    show("fileno", b, 16);
    need(fclose(f) == 0, "fclose");
}

static void devices(void)
{
    struct stat st;
    char big[70000];

    from_fd("open", open("/dev/urandom", O_RDONLY));
    from_fd("open64", open64("/dev/random", O_RDONLY | O_CLOEXEC));
    int dev = open("/dev", O_RDONLY | O_DIRECTORY);
    from_fd("openat", openat(dev, "urandom", O_RDONLY));
    from_file("fopen", fopen("/dev/urandom", "rb"));
    from_file("fopen64", fopen64("/dev/random", "re"));
    int fd = open("/dev/urandom", O_RDONLY);
    need(fstat(fd, &st) == 0 && S_ISCHR(st.st_mode), "fstat");
    need(read(fd, big, sizeof(big)) == (ssize_t)sizeof(big), "a big read");
    show("big", big + sizeof(big) - 16, 16);
    from_fd("dup", dup(fd));
    from_fd("dup2", dup2(fd, 77));
    from_fd("fcntl", fcntl(fd, F_DUPFD, 100));
    from_file("fdopen", fdopen(fd, "r"));
    from_fd("syscall", (int)syscall(SYS_openat, AT_FDCWD, "/dev/urandom", O_RDONLY, 0));
    fd = open("/dev/urandom", O_RDONLY);
    need(syscall(SYS_read, fd, big, 16) == 16, "read by syscall");
    close(fd);
    show("syscall read", big, 16);
    (void)unlink("other-name");
    need(symlink("/dev/urandom", "other-name") == 0, "symlink");
    from_fd("symlink", open("other-name", O_RDONLY));
    from_file("symlink fopen", fopen("other-name", "r"));
    (void)unlink("other-name");
    need(syscall(SYS_read, -1, big, 16) == -1 && errno == EBADF, "a bad descriptor");
    need(open("/dev/random-is-not-here", O_RDONLY) == -1 && errno == ENOENT, "no such device");
}

/* Each opening gives another one, and each way of reading the same. */
static void uuids(void)
{
    static const char path[] = "/proc/sys/kernel/random/uuid";
    char text[64] = "", again[64] = "";
    FILE *f = fopen(path, "r");

    need(f && fgets(text, sizeof(text), f) && strlen(text) == 37, "fgets of an UUID");
    need(!fgets(again, sizeof(again), f), "its end");
    fclose(f);
    printf("fopen %s", text);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    need(fcntl(fd, F_GETFD) == FD_CLOEXEC, "close on exec");
    need(read(fd, text, 8) == 8 && pread(fd, again, 37, 0) == 37, "read of an UUID");
    need(memcmp(text, again, 8) == 0 && again[14] == '4' && again[36] == '\n', "one UUID");
    need(read(fd, text, sizeof(text)) == 29 && read(fd, text, 1) == 0, "the rest");
    close(fd);
    printf("open %s", again);
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
    need(fcntl(fd, F_GETFD) == 0 && read(fd, text, 64) == 37, "by syscall");
    close(fd);
    printf("syscall %.37s", text);
}

static void many(int n)
{
    uint64_t x = 0;

    for (int i = 0; i < n; i++)
        x = x * 31 + draw();
    show("many", &x, 8);
}

struct work {
    pthread_t thread;
    uint64_t got[3];
};

static void *worker(void *arg)
{
    struct work *w = arg;

    for (int i = 0; i < 3; i++) {
        chance();
        w->got[i] = draw();
    }
    return NULL;
}

static void run_threads(int n)
{
    struct work w[32];

    for (int i = 0; i < n; i++)
        need(pthread_create(&w[i].thread, NULL, worker, &w[i]) == 0, "pthread_create");
    for (int i = 0; i < n; i++)
        pthread_join(w[i].thread, NULL);
    for (int i = 0; i < n; i++)
        show("thread", w[i].got, sizeof(w[i].got));
}

static void *maker(void *arg)
{
    (void)arg;
    run_threads(3);
    return (void *)7;
}

static int c11(void *arg)
{
    *(uint64_t *)arg = draw();
    return 5;
}

static void nested(void)
{
    pthread_t t;
    thrd_t u;
    void *result;
    uint64_t x;
    int status;

    need(pthread_create(&t, NULL, maker, NULL) == 0, "pthread_create");
    pthread_join(t, &result);
    need(result == (void *)7, "a thread's result");
    need(thrd_create(&u, c11, &x) == thrd_success, "thrd_create");
    thrd_join(u, &status);
    need(status == 5, "a thread's result");
    show("thrd", &x, 8);
}

static void show_draw(const char *what)
{
    uint64_t x = draw();

    show(what, &x, 8);
}

static void wait_all(void)
{
    int status;

    while (wait(&status) > 0)
        need(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child");
}

static void forks(void)
{
    for (int i = 0; i < 2; i++) {
        if (fork() == 0) {
            show_draw("child");
            if (fork() == 0) {
                show_draw("grandchild");
                run_threads(2);
                _exit(0);
            }
            wait_all();
            show_draw("child again");
            _exit(0);
        }
        wait_all();
    }
    show_draw("parent");
}

static void vfork_one(void)
{
    char *argv[] = {self, "draw", NULL};

    if (vfork() == 0) {
        execve("/nowhere/at/all", argv, environ);
        execve(self, argv, environ);
        _exit(1);
    }
    wait_all();
}

static void spawn_one(void)
{
    char *argv[] = {self, "draw", NULL};
    pid_t pid = 0;

    need(posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0 && pid > 0, "posix_spawn");
    wait_all();
}

static void by_system(void)
{
    char command[4096];

    (void)snprintf(command, sizeof(command), "'%s' draw", self);
    need(system(command) == 0, "system");
}

static void draw_one(void)
{
    show_draw("draw");
}

static void kill_it(void)
{
    raise(SIGKILL);
}

static void vfork_with(char *const argv[])
{
    if (vfork() == 0) {
        execv(self, argv);
        _exit(1);
    }
}

/* N at once: each prints a line, which says whose it is by its rank */
static void race(int n)
{
    char *argv[] = {self, "slow", NULL, NULL};
    char number[32][16];
    pid_t pid;

    for (int i = 0; i < n && i < 32; i++) {
        (void)snprintf(number[i], 16, "%d", i);
        argv[2] = number[i];
        if (i % 2)
            need(posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0, "posix_spawn");
        else
            vfork_with(argv);
    }
    wait_all();
}

static void by_popen(void)
{
    char command[4096], line[256];

    (void)snprintf(command, sizeof(command), "'%s' draw", self);
    FILE *f = popen(command, "r");
    need(f && fgets(line, sizeof(line), f), "popen");
    pclose(f);
    printf("popen %s", line);
    fflush(stdout);
}

static void by_clone(void)
{
    for (int i = 0; i < 2; i++) {
        if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
            show_draw("clone");
            _exit(0);
        }
        wait_all();
    }
    show_draw("parent");
}

static void list(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;

    need(d != NULL, "opendir");
    errno = 0;
    while ((e = readdir(d)) != NULL)
        printf("%s ", e->d_name);
    need(errno == 0, "readdir");
    printf("\n");
    fflush(stdout);
    closedir(d);
}

static int no_order(const struct dirent **a, const struct dirent **b)
{
    (void)a;
    (void)b;
    return 0;
}

static void scan(const char *path)
{
    struct dirent **all = NULL;
    int n = scandir(path, &all, NULL, NULL);

    need(n >= 2, "scandir");
    for (int i = 0; i < n; i++)
        printf("%s ", all[i]->d_name);
    printf("\n");
    n = scandir(path, &all, NULL, no_order);
    printf("%s\n", all[n - 1]->d_name);
    fflush(stdout);
}

static void glob_it(const char *path)
{
    char pattern[4096];
    glob_t g;

    (void)snprintf(pattern, sizeof(pattern), "%s/*", path);
    need(glob(pattern, GLOB_NOSORT, NULL, &g) == 0, "glob");
    for (size_t i = 0; i < g.gl_pathc; i++)
        printf("%s ", strrchr(g.gl_pathv[i], '/') + 1);
    printf("\n");
    fflush(stdout);
    globfree(&g);
}

static void seek(const char *path)
{
    DIR *d = opendir(path);
    char names[64][256];
    long at[64];
    struct dirent *e, entry, *out;
    int n = 0;

    need(d != NULL, "opendir");
    for (at[0] = telldir(d); n < 63 && (e = readdir(d)) != NULL; at[n] = telldir(d))
        strcpy(names[n++], e->d_name);
    for (int i = n - 1; i >= 0; i--) {
        seekdir(d, at[i]);
        e = readdir(d);
        need(e && strcmp(e->d_name, names[i]) == 0, "seekdir");
    }
    rewinddir(d);
    seekdir(d, at[n - 1]);
    need((e = readdir(d)) && strcmp(e->d_name, names[n - 1]) == 0 && !readdir(d), "seek anew");
    rewinddir(d);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    for (int i = 0; i < n; i++)
        need(readdir_r(d, &entry, &out) == 0 && out == &entry &&
                 strcmp(entry.d_name, names[i]) == 0 && entry.d_ino != 0,
             "readdir_r");
    need(readdir_r(d, &entry, &out) == 0 && !out, "readdir_r at the end");
    need(dirfd(d) >= 0 && closedir(d) == 0, "closedir");
    printf("seek %d\n", n);
    fflush(stdout);
}

/** struct reader - a thread that reads a DIR which others read, too */
struct reader {
    pthread_t thread;
    DIR *dir;
    int count;
};

static void *read_shared(void *arg)
{
    struct reader *r = arg;

    while (readdir(r->dir))
        r->count++;
    return NULL;
}

static int rest_of(DIR *d)
{
    int n = 0;

    while (readdir(d))
        n++;
    return n;
}

/* A DIR that threads share gives each entry once; a forked child goes on where its parent was. */
static void shared_dir(const char *path)
{
    struct reader r[4] = {0};
    DIR *d = opendir(path), *volatile none = NULL;
    int all, sum = 0, status;

    need(d != NULL && readdir(d) && readdir(d), "opendir");
    all = 2 + rest_of(d);
    for (int round = 0; round < 200; round++) { /* who reads first is chance */
        rewinddir(d);
        sum = 0;
        for (int i = 0; i < 4; i++) {
            r[i] = (struct reader){.dir = d};
            need(pthread_create(&r[i].thread, NULL, read_shared, &r[i]) == 0, "pthread_create");
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(r[i].thread, NULL);
            sum += r[i].count;
        }
        need(sum == all, "each entry once");
    }
    rewinddir(d);
    need(readdir(d) && readdir(d) && readdir(d), "readdir");
    pid_t pid = fork();
    if (pid == 0)
        _exit(rest_of(d) == all - 3 ? 0 : 1);
    need(waitpid(pid, &status, 0) == pid && status == 0, "the rest in a child");
    need(rest_of(d) == all - 3 && closedir(d) == 0, "the rest");
    need(closedir(none) == -1 && errno == EINVAL, "closedir of none");
    printf("shared %d\n", all);
    fflush(stdout);
}

static void temp_one(const char *what, int fd, const char *path)
{
    struct stat st;

    need(fd >= 0 && stat(path, &st) == 0, what);
    if (fd > 0) {
        need((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR && (st.st_mode & 0777) == 0600, what);
        need(write(fd, "x", 1) == 1, what);
        close(fd);
    }
    printf("%s %s\n", what, strrchr(path, '/') + 1);
}

static void temp(const char *folder)
{
    char path[4096];
#define PATH(template) ((void)snprintf(path, sizeof(path), "%s/" template, folder), path)

    temp_one("mkstemp", mkstemp(PATH("a-XXXXXX")), path);
    temp_one("mkstemp again", mkstemp(PATH("a-XXXXXX")), path);
    temp_one("mkostemp", mkostemp(PATH("b-XXXXXX"), O_APPEND | O_CLOEXEC), path);
    temp_one("mkstemps", mkstemps(PATH("c-XXXXXX.txt"), 4), path);
    temp_one("mkdtemp", mkdtemp(PATH("d-XXXXXX")) ? 0 : -1, path);
    need(mkstemp(PATH("no-XXXX")) == -1 && errno == EINVAL, "a template without six X");
    need(mkstemp(PATH("no/such-XXXXXX")) == -1 && errno == ENOENT, "a folder that is not there");
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    char *name = tempnam(folder, "e");
    need(name && access(name, F_OK) != 0, "tempnam");
    printf("tempnam %s\n", name + strlen(name) - 6);
    free(name);
    name = tmpnam(NULL);
    printf("tmpnam %s\n", name);
    name = mktemp(PATH("f-XXXXXX"));
    printf("mktemp %s\n", strrchr(name, '/') + 1);
    fflush(stdout);
}

static void crypto(const char *library)
{
    void *lib = dlopen(library, RTLD_NOW);
    void (*give)(uint8_t *, int) = NULL;
    uint8_t b[16];

    need(lib != NULL, "dlopen");
    *(void **)&give = dlsym(lib, "crypto_draw");
    need(give != NULL, "dlsym");
    for (int way = 0; way < 5; way++) {
        give(b, way);
        show("crypto", b, 16);
    }
    show_draw("ours");
}

static void clocks(void)
{
    struct timespec t, m;
    struct timeval v;
    time_t a = time(NULL), b;

    need(a > 1600000000 && time(&b) >= a && b >= a, "time");
    need(gettimeofday(&v, NULL) == 0 && v.tv_sec >= a, "gettimeofday");
    for (int i = 0; i < 5; i++)
        need(clock_gettime(CLOCK_REALTIME, &t) == 0 && t.tv_sec >= a, "clock_gettime");
    need(clock_gettime(CLOCK_MONOTONIC, &m) == 0, "clock_gettime");
    need(clock_gettime((clockid_t)99, &m) == -1 && errno == EINVAL, "no such clock");
    printf("time\n");
}

static void keep_errno(void)
{
    uint64_t x;
    int fd = open("/dev/urandom", O_RDONLY);

    errno = 1234;
    (void)draw();
    need(errno == 1234, "errno after getrandom");
    need(read(fd, &x, 8) == 8 && errno == 1234, "errno after read");
    DIR *d = opendir("/");
    errno = 1234;
    while (readdir(d))
        ;
    need(errno == 1234, "errno after readdir");
    (void)time(NULL);
    need(errno == 1234, "errno after time");
    printf("errno kept\n");
}

static volatile sig_atomic_t handled;

static void on_signal(int s)
{
    uint64_t x;

    (void)s;
    if (getrandom(&x, sizeof(x), 0) == (ssize_t)sizeof(x) && x != 0)
        handled++;
}

static void signals(void)
{
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};

    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 3000000 && handled < 20; i++)
        (void)draw();
    setitimer(ITIMER_REAL, &never, NULL);
    need(handled >= 20, "draws in a handler");
    printf("signals\n");
}

/* Seeds that libc's generators are given: by the clock, the pid, both, and fixed ones */
static void seeds(void)
{
    struct random_data data = {0};
    struct drand48_data wide = {0};
    static char state[64], other[64]; /* libc goes on with them */
    struct timespec t;
    int32_t r = 0;
    long w = 0;

    clock_gettime(CLOCK_REALTIME, &t);
    srand((unsigned)time(NULL) ^ (unsigned)getpid());
    printf("srand %x%x\n", rand(), rand());
    srandom((unsigned)time(NULL) + (unsigned)getpid());
    printf("srandom %lx%lx\n", random(), random());
    srand48((long)t.tv_sec * 1000000000 + t.tv_nsec);
    printf("srand48 %lx%lx\n", mrand48(), mrand48());
    initstate_r(1, state, sizeof(state), &data);
    srandom_r((unsigned)((uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000), &data);
    random_r(&data, &r);
    printf("srandom_r %x", r);
    random_r(&data, &r);
    printf("%x\n", r);
    srand48_r((long)t.tv_sec * 1000 + t.tv_nsec / 1000000, &wide);
    mrand48_r(&wide, &w);
    printf("srand48_r %lx\n", w);
    initstate((unsigned)getpid(), other, sizeof(other));
    printf("initstate %lx%lx\n", random(), random());
}

static void words_of(unsigned short x[3], uint64_t low, uint64_t high)
{
    x[0] = (unsigned short)low;
    x[1] = (unsigned short)(low >> 16);
    x[2] = (unsigned short)high;
}

/* Parts of a moment, generators of three words, and those whose state is the caller's */
static void part_seeds(void)
{
    static char state[64];
    struct random_data data = {0};
    unsigned short x[7] = {0, 0, 0, 0xE66D, 0xDEEC, 5, 11};
    struct timespec t;
    struct timeval day;
    int32_t r = 0;

    clock_gettime(CLOCK_REALTIME, &t);
    unsigned low = (unsigned)t.tv_nsec;
    words_of(x, (uint64_t)time(NULL), (uint64_t)getpid());
    seed48(x);
    printf("seed48 %lx%lx\n", mrand48(), mrand48());
    words_of(x, low, (uint64_t)getpid());
    lcong48(x);
    printf("lcong48 %lx%lx\n", mrand48(), mrand48());
    words_of(x, 0x330E | (uint64_t)low << 16, low >> 16);
    printf("erand48 %a", erand48(x));
    printf(" %a\n", erand48(x));
    words_of(x, low, 1);
    printf("nrand48 %lx%lx\n", nrand48(x), jrand48(x));
    printf("rand_r %x", rand_r(&low));
    printf(" %x\n", rand_r(&low));
    gettimeofday(&day, NULL);
    initstate_r((unsigned)(day.tv_sec * day.tv_usec), state, sizeof(state), &data);
    random_r(&data, &r);
    printf("initstate_r %x", r);
    random_r(&data, &r);
    printf(" %x\n", r);
    srand((unsigned)t.tv_sec ^ (unsigned)t.tv_nsec);
    printf("srand %x%x\n", rand(), rand());
}

static void fixed_seeds(void)
{
    static const unsigned fixed[] = {0, 1, 42, 1234, 20260101, 485464505, 0xFFFFFFFF};

    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        srand(fixed[i]);
        printf("fixed %x\n", rand());
        srand48(fixed[i]);
        printf("fixed %lx\n", mrand48());
    }
}

/* A state that goes on is no new seed, wherever else one is. */
static void fixed_states(void)
{
    unsigned short x[3] = {1, 2, 3};
    unsigned seeds[200];

    for (unsigned i = 0; i < 200; i++)
        seeds[i] = i * 1000003u;
    for (unsigned k = 0; k < 400; k++)
        printf("%x %lx\n", rand_r(&seeds[k / 2]), jrand48(x));
    seed48(x);
    printf("%lx\n", mrand48());
}

/* The number of a device that was closed, behind libc's back or not, is a file's later. */
static void closed(const char *file)
{
    char b[8] = "";
    int fd = open("/dev/urandom", O_RDONLY);

    syscall(SYS_close, fd);
    need(open(file, O_RDONLY) == fd, "the same number");
    need(read(fd, b, 4) == 4 && memcmp(b, "file", 4) == 0, "what the file holds");
    printf("closed\n");
}

/* Each of @values as a decision, and what the run before had decided there */
static void decide(const char *values)
{
    int (*decides)(void) = dlsym(RTLD_DEFAULT, "twinbit_pins_decides");
    uint64_t (*thread)(void) = dlsym(RTLD_DEFAULT, "twinbit_pins_thread");
    int (*write_down)(unsigned, uint64_t, uint32_t, uint64_t, const void *, uint32_t) =
        dlsym(RTLD_DEFAULT, "twinbit_pins_decide");
    const char *(*before)(unsigned, uint64_t, uint32_t, uint64_t *) =
        dlsym(RTLD_DEFAULT, "twinbit_pins_decided");
    uint64_t at = 0;
    uint32_t n = 0;

    need(decides && thread && write_down && before, "the functions of the library");
    printf("mode %d, thread %d", decides(), (int)thread());
    for (const char *v = values; *v; n++, v += strcspn(v, ","), v += *v == ',') {
        const char *r = before(88, 7, n, &at);
        printf(" %.*s", r ? (int)*(const uint32_t *)(r + 28) : 1, r ? r + 64 : "-");
        (void)write_down(88, 7, n, 1, v, (uint32_t)strcspn(v, ","));
        if (n == 0)
            show_draw("between");
    }
    printf("\n");
}

static int with_argument(const char *name, const char *arg)
{
    static const struct {
        const char *name;
        void (*run)(const char *);
    } parts[] = {{"list", list},     {"scan", scan},         {"glob", glob_it},
                 {"seek", seek},     {"temp", temp},         {"crypto", crypto},
                 {"closed", closed}, {"shared", shared_dir}, {"decide", decide}};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strcmp(parts[i].name, name) == 0) {
            need(arg != NULL, name);
            parts[i].run(arg);
            return 1;
        }
    return 0;
}

static void without(const char *name)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"entropy", entropy},  {"devices", devices},     {"nested", nested}, {"fork", forks},
        {"popen", by_popen},   {"clone", by_clone},      {"time", clocks},   {"errno", keep_errno},
        {"signal", signals},   {"draw", draw_one},       {"kill", kill_it},  {"vfork", vfork_one},
        {"spawn", spawn_one},  {"system", by_system},    {"seeds", seeds},   {"fixed", fixed_seeds},
        {"parts", part_seeds}, {"states", fixed_states}, {"uuids", uuids}};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strcmp(parts[i].name, name) == 0) {
            parts[i].run();
            return;
        }
    printf("no part '%s'\n", name);
    exit(8);
}

static void sizes(char **argv)
{
    uint8_t b[8192];

    for (; *argv; argv++) {
        size_t n = (size_t)atoi(*argv);
        need(n <= sizeof(b) && getrandom(b, n, 0) == (ssize_t)n, "getrandom");
        show("size", b, n);
    }
}

/* Parts with a number; 0: it is none of them */
static int with_number(const char *name, const char *arg)
{
    int n = arg ? atoi(arg) : 0;

    if (strcmp(name, "many") == 0)
        many(n);
    else if (strcmp(name, "threads") == 0)
        run_threads(n);
    else if (strcmp(name, "race") == 0)
        race(n);
    else if (strcmp(name, "slow") == 0)
        chance(), show_draw(arg);
    else
        return 0;
    return 1;
}

int main(int argc, char **argv)
{
    self = argv[0];
    for (int i = 1; i < argc; i++) {
        const char *next = argv[i + 1];
        if (strcmp(argv[i], "sizes") == 0) {
            sizes(argv + i + 1);
            break;
        }
        if (strcmp(argv[i], "exec") == 0) {
            argv[i] = self;
            execv(self, argv + i);
            need(0, "execv");
        }
        if (with_number(argv[i], next) || with_argument(argv[i], next))
            i++;
        else
            without(argv[i]);
    }
    return 0;
}
