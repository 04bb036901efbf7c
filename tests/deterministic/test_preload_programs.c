/* The preloaded library in programs that other compilers and other C libraries make, and what it
 * cannot see: static programs, system call instructions */
#include <fcntl.h>
#include <sys/stat.h>

#include "deterministic/preload/reach.h"
#include "tests/deterministic/pins_run.h"

static char folder[256];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/twinbit-test-pins-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[600];

    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

/* false: there is no such compiler, or it cannot. @text is made into @name. */
static bool build(const char *compiler, const char *file, const char *name, const char *text)
{
    char command[1200];

    (void)snprintf(command, sizeof(command), "%s/%s", folder, file);
    FILE *f = fopen(command, "w");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
    (void)snprintf(command, sizeof(command), "cd '%s' && %s %s -o %s -pthread 2>/dev/null", folder,
                   compiler, file, name);
    return system(command) == 0;
}

/* Two runs of one seed: equal or not? @sum: what the log of the second has */
static bool equal_runs(const char *name, struct pins_sum *sum)
{
    static struct pins_run a, b;
    char program[600];

    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    (void)snprintf(program, sizeof(program), "'%s/%s'", folder, name);
    pins_run_mode(&a, TB_PRELOAD_PIN, 42);
    pins_run_mode(&b, TB_PRELOAD_PIN, 42);
    pins_run_start(&a, program);
    pins_run_start(&b, program);
    if (a.status != 0 || b.status != 0 || strlen(a.output) < 8)
        fail_msg("'%s' ended with %d, %d: %s", name, a.status, b.status, b.output);
    memset(sum, 0, sizeof(*sum));
    (void)pins_each(&b, pins_sum_one, sum);
    bool equal = strcmp(a.output, b.output) == 0;
    pins_run_done(&a);
    pins_run_done(&b);
    return equal;
}

static const char draws[] =
    "#include <dirent.h>\n#include <pthread.h>\n#include <stdio.h>\n#include <sys/random.h>\n"
    "static unsigned y;\n"
    "static void *work(void *a) { return getrandom(&y, 4, 0) == 4 ? a : 0; }\n"
    "int main(void)\n{\n    unsigned x = 0, z = 0;\n    pthread_t t;\n"
    "    FILE *f = fopen(\"/dev/urandom\", \"r\");\n"
    "    if (getrandom(&x, 4, 0) != 4 || fread(&z, 4, 1, f) != 1)\n        return 1;\n"
    "    pthread_create(&t, 0, work, 0);\n    pthread_join(t, 0);\n"
    "    printf(\"%08x %08x %08x\\n\", x, y, z);\n    return 0;\n}\n";

static void test_preload_programs__a_static_program_is_not_seen(void **state)
{
    struct pins_sum sum;

    (void)state;
    if (!build("gcc -static", "main.c", "static", draws))
        skip();
    assert_false(equal_runs("static", &sum));
    assert_int_equal(sum.kind[TB_PRELOAD_START], 0);
}

static void test_preload_programs__an_instruction_is_not_seen(void **state)
{
    struct pins_sum sum;

    (void)state;
#if !defined(__x86_64__)
    skip();
#endif
    assert_true(build("gcc", "main.c", "direct",
                      "#include <stdio.h>\nint main(void)\n{\n    long x = 0, r;\n"
                      "    __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(318L), \"D\"(&x), "
                      "\"S\"(8L), \"d\"(0L) : \"rcx\", \"r11\", \"memory\");\n"
                      "    printf(\"%016lx %ld\\n\", x, r);\n    return 0;\n}\n"));
    assert_false(equal_runs("direct", &sum));
    assert_int_equal(sum.kind[TB_PRELOAD_START], 1);
    assert_int_equal(sum.answers, 0);
}

static void test_preload_programs__of_another_c_library(void **state)
{
    struct pins_sum sum;

    (void)state;
    if (!build("musl-gcc", "main.c", "musl", draws))
        skip();
    assert_true(equal_runs("musl", &sum));
    assert_true(sum.answers >= 3); /* its FILE reads in two parts */
}

static void test_preload_programs__with_a_sanitizer(void **state)
{
    struct pins_sum sum;

    (void)state;
    assert_true(build("gcc", "main.c", "plain", draws));
    assert_true(equal_runs("plain", &sum));
    assert_int_equal(sum.answers, 3);
    if (build("gcc -fsanitize=thread", "main.c", "tsan", draws))
        assert_true(equal_runs("tsan", &sum));
    (void)setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    if (build("gcc -fsanitize=address,undefined", "main.c", "asan", draws))
        assert_true(equal_runs("asan", &sum));
    (void)unsetenv("ASAN_OPTIONS");
}

static void test_preload_programs__of_cpp(void **state)
{
    struct pins_sum sum;

    (void)state;
    if (!build("g++ -std=c++17", "main.cc", "cpp",
               "#include <fstream>\n#include <iostream>\n#include <random>\n#include <thread>\n"
               "int main()\n{\n    std::random_device a(\"/dev/urandom\");\n"
               "    std::ifstream f(\"/dev/urandom\", std::ios::binary);\n    char big[20000];\n"
               "    unsigned x = 0, y = 0;\n    f.read(reinterpret_cast<char *>(&x), 4);\n"
               "    f.read(big, sizeof(big));\n"
               "    std::thread([&] { y = std::random_device(\"/dev/random\")(); }).join();\n"
               "    std::cout << a() << ' ' << x << ' ' << f.gcount() << ' ' << int(big[19999])\n"
               "              << ' ' << y << '\\n';\n    return f.gcount() != 20000;\n}\n"))
        skip();
    assert_true(equal_runs("cpp", &sum));
    assert_true(sum.kind[TB_PRELOAD_DEVICE] >= 2);
    assert_int_equal(sum.kind[TB_PRELOAD_RANDOM_DEVICE], 2);
}

/* ---------------------------------------------------------------- std::random_device */

static const char devices[] =
    "#include <cstdio>\n#include <random>\n#include <thread>\n#include <unistd.h>\n"
    "extern \"C\" int show(int broken)\n{\n    unsigned x = 0, y = 0;\n"
    "    std::random_device a, b(\"/dev/urandom\");\n"
    "    std::thread([&] { y = std::random_device{}(); }).join();\n    x = a();\n"
    "    for (int i = 3; broken && i < 20; i++)\n        close(i);\n    try {\n"
    "        std::printf(\"%08x %08x %08x %08x\\n\", x, y, b(), a());\n"
    "    } catch (const std::exception &) {\n        std::puts(\"thrown and caught\");\n    }\n"
    "    return 0;\n}\n"
    "#ifdef PROGRAM\nint main(int argc, char **) { return show(argc > 1); }\n#endif\n";

static const char opens[] = "#include <dlfcn.h>\nint main(void)\n{\n"
                            "    void *l = dlopen(\"DEVICES\", RTLD_NOW | RTLD_LOCAL);\n"
                            "    int (*show)(int) = l ? (int (*)(int))dlsym(l, \"show\") : 0;\n"
                            "    return show ? show(0) : 5;\n}\n";

/* In the program, or in a library that is opened late and brings libstdc++ along */
static bool build_devices(bool late)
{
    char text[1200];

    if (!late)
        return build("g++ -std=c++17 -DPROGRAM", "devices.cc", "devices", devices);
    if (!build("g++ -std=c++17 -shared -fPIC", "devices.cc", "late.so", devices))
        return false;
    const char *at = strstr(opens, "DEVICES");
    (void)snprintf(text, sizeof(text), "%.*s%s/late.so%s", (int)(at - opens), opens, folder,
                   at + strlen("DEVICES"));
    return build("gcc", "opens.c", "devices", text);
}

/* Observed in @a, then repeated in @b */
static void observe_and_repeat(struct pins_run *a, struct pins_run *b, const char *program)
{
    memset(a, 0, sizeof(*a));
    memset(b, 0, sizeof(*b));
    pins_run_mode(a, TB_PRELOAD_LOG, 0);
    pins_run_start(a, program);
    pins_run_mode(b, TB_PRELOAD_REPLAY, 7);
    memcpy(b->config.replay, a->config.folder, sizeof(b->config.replay));
    pins_run_start(b, program);
    assert_int_equal(a->status, 0);
}

static void test_preload_programs__a_random_device_is_answered(void **state)
{
    static struct pins_run a, b;
    struct pins_sum sum;
    char program[600];

    (void)state;
    (void)snprintf(program, sizeof(program), "'%s/devices'", folder);
    for (int late = 0; late < 2; late++) {
        if (!build_devices(late))
            skip();
        assert_true(equal_runs("devices", &sum));
        assert_int_equal(sum.kind[TB_PRELOAD_RANDOM_DEVICE], 4);
        assert_int_equal(sum.answers, 4);
        observe_and_repeat(&a, &b, program);
        assert_string_equal(a.output, b.output);
        sum = pins_sum(&b);
        assert_int_equal(sum.marks[2], 4); /* FROM_LOG */
        assert_int_equal(sum.marks[3] + sum.marks[4], 0);
        sum = pins_sum(&a);
        assert_int_equal(sum.kind[TB_PRELOAD_RANDOM_DEVICE], 3);
        assert_int_equal(sum.kind[TB_PRELOAD_DEVICE], 1);
        pins_run_done(&a);
        pins_run_done(&b);
    }
}

/* Passed on it may throw, through a function of ours; and the pin can be left out. */
static void test_preload_programs__a_random_device_is_passed_on(void **state)
{
    static struct pins_run a, b;
    char program[600];

    (void)state;
    if (!build_devices(false))
        skip();
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    (void)snprintf(program, sizeof(program), "'%s/devices' broken", folder);
    pins_run_mode(&a, TB_PRELOAD_LOG, 0);
    pins_run_start(&a, program);
    assert_string_equal(a.output, "thrown and caught\n");
    pins_run_done(&a);
    memset(&a, 0, sizeof(a));
    (void)snprintf(program, sizeof(program), "'%s/devices'", folder);
    pins_run_mode(&a, TB_PRELOAD_PIN, 42);
    pins_run_mode(&b, TB_PRELOAD_PIN, 42);
    a.config.flags = b.config.flags = TB_PRELOAD_NO_RANDOM_DEVICE;
    pins_run_start(&a, program);
    pins_run_start(&b, program);
    assert_string_not_equal(a.output, b.output);
    struct pins_sum sum = pins_sum(&a);
    assert_int_equal(sum.kind[TB_PRELOAD_RANDOM_DEVICE], 0);
    assert_int_equal(sum.kind[TB_PRELOAD_DEVICE], 1); /* that of the name */
    pins_run_done(&a);
    pins_run_done(&b);
}

/* ---------------------------------------------------------------- as libc leaves it */

static const char failing[] =
    "#define _GNU_SOURCE\n#include <errno.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
    "#include <string.h>\n#include <unistd.h>\n"
    "static void show(int r, const char *t)\n{\n    size_t n = strlen(t);\n"
    "    printf(\"%d %d %zu %d\\n\", r, errno, n, n > 6 && strcmp(t + n - 6, \"XXXXXX\") == "
    "0);\n}\n"
    "int main(void)\n{\n    char a[] = \"/absent/aXXXXXX\", b[] = \"/absent/bXXXXXX\";\n"
    "    char c[] = \"/absent/cXXXXXX.txt\", d[] = \"short\", e[] = \"/proc/version/eXXXXXX\";\n"
    "    show(mkstemp(a), a);\n    show(mkdtemp(b) != 0, b);\n    show(mkstemps(c, 4), \"\");\n"
    "    show(strncmp(c + 9, \"XXXXXX.\", 7) == 0, \"\");\n    show(mkstemp(d), d);\n"
    "    show(mktemp(e) == e, e);\n    return 0;\n}\n";

static void test_preload_programs__a_template_is_left_as_libc_leaves_it(void **state)
{
    static const char *const compilers[] = {"gcc -w", "musl-gcc -w"};
    static struct pins_run plain, pinned;
    char program[600];

    (void)state;
    (void)snprintf(program, sizeof(program), "'%s/failing'", folder);
    for (size_t i = 0; i < TB_ARRAY_LEN(compilers); i++) {
        memset(&plain, 0, sizeof(plain));
        memset(&pinned, 0, sizeof(pinned));
        if (!build(compilers[i], "failing.c", "failing", failing))
            continue;
        pins_run_mode(&pinned, TB_PRELOAD_PIN, 42);
        pins_run_start(&plain, program); /* all kinds off */
        pins_run_start(&pinned, program);
        assert_int_equal(plain.status, 0);
        assert_true(strlen(plain.output) > 30);
        assert_string_equal(pinned.output, plain.output);
        pins_run_done(&plain);
        pins_run_done(&pinned);
    }
}

/* ---------------------------------------------------------------- programs it is not in */

struct told {
    unsigned count[8]; /* by enum tb_preload_reach */
    char last[8][600];
};

static void take_told(const struct tb_preload_file *f, const struct tb_preload_event *e, void *arg)
{
    struct told *t = arg;

    (void)f;
    if (e->record->kind != TB_PRELOAD_UNREACHED)
        return;
    assert_true(e->record->asked < 8 && strnlen(e->payload, e->record->payload) < 600);
    t->count[e->record->asked]++;
    strcpy(t->last[e->record->asked], e->payload);
}

static struct told told_by(const char *command)
{
    static struct pins_run r;
    struct told t = {0};

    memset(&r, 0, sizeof(r));
    pins_run_mode(&r, TB_PRELOAD_LOG, 0);
    pins_run_start(&r, command);
    if (r.status != 0)
        fail_msg("'%s' ended with %d: %s", command, r.status, r.output);
    (void)pins_each(&r, take_told, &t);
    pins_run_done(&r);
    return t;
}

static const char starts[] =
    "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <spawn.h>\n#include <sys/wait.h>\n"
    "#include <unistd.h>\nextern char **environ;\n"
    "static int end(int n)\n{\n    int s;\n    while (n-- > 0)\n        wait(&s);\n    return "
    "0;\n}\n"
    "int main(void)\n{\n    char *v[] = {\"static\", 0}, *none[] = {0};\n    pid_t p;\n"
    "    posix_spawn(&p, \"./static\", 0, 0, v, environ);\n"
    "    posix_spawnp(&p, \"static\", 0, 0, v, environ);\n"
    "    posix_spawn(&p, \"./plain\", 0, 0, v, none);\n"
    "    if (vfork() == 0) {\n        execv(\"./absent\", v);\n        execvp(\"static\", v);\n"
    "        _exit(1);\n    }\n"
    "    if (fork() == 0) {\n        fexecve(open(\"static\", O_RDONLY | O_CLOEXEC), v, environ);\n"
    "        _exit(1);\n    }\n"
    "    if (fork() == 0) {\n        execle(\"./plain\", \"plain\", (char *)0, environ);\n"
    "        _exit(1);\n    }\n"
    "    if (fork() == 0) {\n        execle(\"./plain\", \"plain\", \"a\", (char *)0, none);\n"
    "        _exit(1);\n    }\n"
    "    if (vfork() == 0) {\n        execl(\"./static\", \"static\", \"a\", \"b\", (char *)0);\n"
    "        _exit(1);\n    }\n"
    "    if (fork() == 0) {\n"
    "        execlp(\"sh\", \"sh\", \"-c\", \"test $0$1$2 = abc || kill -9 $PPID\", \"a\", \"b\", "
    "\"c\",\n"
    "               (char *)0);\n"
    "        _exit(1);\n    }\n    return end(9);\n}\n";

static void test_preload_programs__what_it_will_not_be_in_is_written_down(void **state)
{
    char command[900], name[600];

    (void)state;
    if (!build("gcc -static", "main.c", "static", draws))
        skip();
    assert_true(build("gcc", "main.c", "plain", draws));
    assert_true(build("gcc -Wno-nonnull", "starts.c", "starts", starts));
    (void)snprintf(command, sizeof(command), "sh -c 'cd %s && PATH=.:$PATH && ./starts'", folder);
    struct told t = told_by(command);
    assert_int_equal(t.count[TB_REACH_STATIC], 5);
    assert_int_equal(t.count[TB_REACH_ENVIRONMENT], 2);
    (void)snprintf(name, sizeof(name), "%s/static", folder);
    assert_string_equal(t.last[TB_REACH_STATIC], name);
    (void)snprintf(name, sizeof(name), "%s/plain", folder);
    assert_string_equal(t.last[TB_REACH_ENVIRONMENT], name);

    (void)snprintf(command, sizeof(command), "sh -c 'cd %s && env -i ./plain; ./plain; exec true'",
                   folder);
    t = told_by(command);
    assert_int_equal(t.count[TB_REACH_ENVIRONMENT], 1);
    assert_int_equal(t.count[TB_REACH_STATIC], 0);
}

static enum tb_preload_reach reach_with(const char *name, const char *config)
{
    static char preload[] = "LD_PRELOAD=/x/libtwinbit_pins.so";
    char pins[700], path[600], program[600];
    char *env[] = {preload, pins, NULL};

    (void)snprintf(pins, sizeof(pins), TB_PRELOAD_ENV "=%s", config);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return tb_preload_reach(AT_FDCWD, path, env, program, sizeof(program));
}

/* The configuration can be read. */
static enum tb_preload_reach reach_of(const char *name)
{
    return reach_with(name, "/proc/self/exe");
}

/* ... and whether it will be in one is seen from its file */
static void test_preload_programs__a_file_tells_whether_it_will_be_in(void **state)
{
    char path[600];

    (void)state;
    assert_true(build("gcc", "main.c", "plain", draws));
    assert_int_equal(reach_of("plain"), TB_REACH_YES);
    assert_int_equal(reach_with("plain", "/x/config"), TB_REACH_GONE);
    assert_int_equal(reach_with("plain", "config"), TB_REACH_ENVIRONMENT);
    assert_int_equal(reach_of("absent"), TB_REACH_NO_PROGRAM);
    assert_int_equal(reach_of("main.c"), TB_REACH_NO_PROGRAM); /* not executable */
    if (build("gcc -static", "main.c", "static", draws))
        assert_int_equal(reach_of("static"), TB_REACH_STATIC);
    if (build("gcc -static-pie", "main.c", "pie", draws))
        assert_int_equal(reach_of("pie"), TB_REACH_STATIC);
    if (build("gcc -m32", "main.c", "old", draws))
        assert_int_equal(reach_of("old"), TB_REACH_MACHINE);
    (void)snprintf(path, sizeof(path), "%s/script", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(f, "#! %s/static -x\n", folder);
    (void)fclose(f);
    assert_int_equal(chmod(path, 0755), 0);
    if (reach_of("static") == TB_REACH_STATIC)
        assert_int_equal(reach_of("script"), TB_REACH_STATIC);
    (void)snprintf(path, sizeof(path), "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0755), 0);
    assert_int_equal(reach_of("fifo"), TB_REACH_NO_PROGRAM);
    (void)snprintf(path, sizeof(path), "%s/plain", folder);
    assert_int_equal(chmod(path, 04755), 0);
    assert_int_equal(reach_of("plain"), TB_REACH_YES); /* our own: nobody becomes another */
    if (chown(path, 65534, 65534) == 0 && chmod(path, 04755) == 0)
        assert_int_equal(reach_of("plain"), TB_REACH_PRIVILEGED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_preload_programs__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_static_program_is_not_seen),
        TEST(an_instruction_is_not_seen),
        TEST(of_another_c_library),
        TEST(with_a_sanitizer),
        TEST(of_cpp),
        TEST(a_random_device_is_answered),
        TEST(a_random_device_is_passed_on),
        TEST(a_template_is_left_as_libc_leaves_it),
        TEST(what_it_will_not_be_in_is_written_down),
        TEST(a_file_tells_whether_it_will_be_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
