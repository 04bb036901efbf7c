/* The preloaded library in programs that other compilers and other C libraries make, and what it
 * cannot see: static programs, system call instructions */
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
    assert_true(sum.kind[TB_PRELOAD_DEVICE] >= 4);
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
