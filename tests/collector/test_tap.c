/* The tap is built on first use, against the user's torch, cached, and replaced when anything
 * changes. */
#include "tests/collector/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/collector_internal.h"

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void shell(const char *command)
{
    assert_int_equal(system(command), 0);
}

static const char good_tap[] = "#include <torch/version.h>\n#include \"recorder/recorder.h\"\n"
                               "static_assert(TORCH_VERSION_MAJOR == 2, \"\");\n"
                               "extern \"C\" __attribute__((visibility(\"default\")))\n"
                               "int twinbit_tap_init(const tb_rec_api *api) {\n"
                               "  if (auto *t = api->self()) api->meta(t, \"std\", "
                               "__cplusplus >= 202002L ? \"20\" : \"17\");\n  return 0;\n}\n";

/* A folder as an installation of torch has it, one as ours, and an empty cache. */
static int set_up_tap(void **state)
{
    char command[4096];
    int rc = set_up(state);

    unsetenv("TWINBIT_TAP");
    shell("mkdir -p torch/lib torch/include/torch/csrc/api/include/torch lib/torch lib/include "
          "cache");
    snprintf(command, sizeof(command),
             "cp '%s' torch/lib/; cp -r '" TEST_LIBDIR "/include' lib/; cp '%s' lib/;"
             "printf 'int c10_fake;\\n' | gcc -shared -fPIC -x c - -o torch/lib/libc10.so",
             getenv("FAKE_TORCH"), preload_path());
    shell(command);
    put("torch/include/torch/csrc/api/include/torch/version.h",
        "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 4\n");
    put("lib/torch/tap.cc", good_tap);
    snprintf(command, sizeof(command), "%s/cache", getcwd((char[4000]){0}, 4000));
    setenv("XDG_CACHE_HOME", command, 1);
    snprintf(command, sizeof(command), "%s/torch/lib/libtorch_cpu.so",
             getcwd((char[4000]){0}, 4000));
    setenv("FAKE_TORCH", command, 1);
    return rc;
}

static int tear_down_tap(void **state)
{
    unsetenv("XDG_CACHE_HOME");
    unsetenv("CXX");
    return tear_down(state);
}

static enum tb_status build(char path[1024], struct tb_error *err)
{
    return tb_tap_build("lib", "torch/lib/libtorch_cpu.so", path, 1024, err);
}

static void must_build(char path[1024])
{
    struct tb_error err = {0};

    if (build(path, &err) != TB_OK)
        fail_msg("%s", err.text);
}

static void test_tap__is_built_once_and_found_again(void **state)
{
    char first[1024], second[1024];
    struct stat a, b;

    (void)state;
    must_build(first);
    assert_int_equal(stat(first, &a), 0);
    must_build(second);
    assert_string_equal(first, second);
    assert_int_equal(stat(second, &b), 0);
    assert_int_equal(a.st_ino, b.st_ino);
    assert_int_equal(stat("cache/twinbit", &a), 0);
    assert_int_equal(a.st_mode & 0777, 0700);
}

static void test_tap__anything_that_changes_makes_another(void **state)
{
    char one[1024], two[1024], three[1024];

    (void)state;
    must_build(one);
    put("lib/torch/extra.h", "// new\n");
    must_build(two);
    assert_string_not_equal(one, two);
    shell("printf 'int x;\\n' | gcc -shared -fPIC -Wl,--build-id=sha1 -Wl,-soname,libtorch_cpu.so "
          "-x c - -o torch/lib/libtorch_cpu.so");
    must_build(three);
    assert_string_not_equal(two, three);
    shell("printf 'int x;\\n' | gcc -shared -fPIC -Wl,--build-id=none -x c - "
          "-o torch/lib/libtorch_cpu.so");
    must_build(one); /* no build-id: by size, time and path */
    assert_string_not_equal(one, three);
}

/* CXX may be a command with arguments, as make takes it; other ones make another tap. */
static void test_tap__a_compiler_behind_a_wrapper(void **state)
{
    char one[1024], two[1024];

    (void)state;
    must_build(one);
    setenv("CXX", "env  WRAPPED=1 g++", 1);
    must_build(two);
    assert_string_not_equal(one, two);
}

/* Headers of CUDA are used where they are, and done without where they do not fit. */
static void test_tap__headers_of_cuda(void **state)
{
    char one[1024], two[1024], three[1024];

    (void)state;
    must_build(one);
    shell(
        "mkdir -p torch/include/c10/cuda nvidia/cu13/include/crt &&"
        "printf '#include <cuda_runtime_api.h>\\n' > torch/include/c10/cuda/CUDACachingAllocator.h "
        "&& touch torch/lib/libc10_cuda.so nvidia/cu13/include/crt/host_defines.h &&"
        "printf 'typedef int found_t;\\n' > nvidia/cu13/include/cuda_runtime_api.h &&"
        "printf '#ifdef TB_CUDA_HEADERS\\n#include <c10/cuda/CUDACachingAllocator.h>\\n"
        "extern \"C\" found_t with_cuda() { return 1; }\\n#endif\\n' >> lib/torch/tap.cc");
    must_build(two);
    assert_string_not_equal(one, two);
    (void)snprintf(three, sizeof(three), "nm %.900s | grep -q with_cuda", two);
    shell(three);
    put("nvidia/cu13/include/cuda_runtime_api.h", "#error does not fit\n");
    (void)remove(two);
    must_build(two);
    (void)snprintf(three, sizeof(three), "! nm %.900s | grep -q with_cuda", two);
    shell(three);
}

static void test_tap__the_job_gets_it(void **state)
{
    struct outcome o;
    const char *argv[] = {driver_path(), "-d", "lib",      "-o",  "out.twinbit", "-R",
                          "result",      "--", job_path(), "ops", "3",           NULL};
    char cwd[4000], libdir[4100];

    (void)state;
    snprintf(libdir, sizeof(libdir), "%s/lib", getcwd(cwd, sizeof(cwd)));
    argv[2] = libdir;
    finish(start(argv), &o);
    assert_int_equal(o.exit_status, 0);
    struct tb_trace *t = open_trace();
    assert_string_equal(tb_trace_meta(t, "std"), "17"); /* as torch 2.4 wants it */
    tb_trace_close(t);
    put("torch/include/torch/csrc/api/include/torch/version.h",
        "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 15\n");
    put("lib/torch/extra.h", "// a new key\n");
    unlink("out.twinbit");
    finish(start(argv), &o);
    t = open_trace();
    assert_string_equal(tb_trace_meta(t, "std"), "20");
    tb_trace_close(t);
}

static void test_tap__that_does_not_compile_is_said_and_harms_nobody(void **state)
{
    struct outcome o;
    struct tb_error err = {0};
    char cwd[4000], libdir[4100], path[1024];
    const char *argv[] = {driver_path(), "-d",   libdir, "-o",       "out.twinbit", "-R",
                          "result",      "-v",   "--",   job_path(), "ops",         "3",
                          "print",       "fine", "exit", "8",        NULL};

    (void)state;
    snprintf(libdir, sizeof(libdir), "%s/lib", getcwd(cwd, sizeof(cwd)));
    put("lib/torch/tap.cc", "#error no such luck\n");
    assert_int_equal(build(path, &err), TB_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no such luck"));
    finish(start(argv), &o);
    assert_int_equal(o.exit_status, 8);
    assert_string_equal(o.out, "fine\n");
    assert_non_null(strstr(o.err, "no such luck"));
    assert_int_equal(o.events, 0);
    assert_true(o.lost > 0);
}

static void test_tap__what_is_missing_is_named(void **state)
{
    struct tb_error err = {0};
    char path[1024] = "untouched";
    char *before = strdup(getenv("PATH"));

    (void)state;
    setenv("PATH", "/nowhere", 1);
    enum tb_status st = build(path, &err);
    setenv("PATH", before, 1);
    free(before);
    assert_int_equal(st, TB_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "apt-get install g++"));
    shell("rm -r torch/include");
    assert_int_equal(build(path, &err), TB_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no torch headers"));
    assert_string_equal(path, "untouched");
    assert_int_equal(tb_tap_build("lib", "not/there.so", path, 1024, &err), TB_ERR_IO);
}

static void test_tap__two_who_build_at_once_build_one(void **state)
{
    char path[1024];
    pid_t pid[4];
    int status;

    (void)state;
    for (int i = 0; i < 4; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            struct tb_error err = {0};
            _exit(build(path, &err) == TB_OK ? 0 : 1);
        }
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    shell("test $(ls cache/twinbit/*.so | wc -l) = 1");
    shell("test $(ls cache/twinbit/*.tmp 2>/dev/null | wc -l) = 0");
}

static void test_tap__a_cache_open_to_others_is_closed(void **state)
{
    char path[1024];
    struct stat st;

    (void)state;
    shell("mkdir cache/twinbit && chmod 777 cache/twinbit");
    must_build(path);
    assert_int_equal(stat("cache/twinbit", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void test_tap__which_string_a_library_uses_is_read_from_it(void **state)
{
    struct tb_elf_facts facts;
    struct tb_error err = {0};

    (void)state;
    put("s.cc", "#include <string>\nstd::string f(const std::string &s) { return s + s; }\n");
    shell("g++ -shared -fPIC -D_GLIBCXX_USE_CXX11_ABI=1 s.cc -o new.so");
    shell("g++ -shared -fPIC -D_GLIBCXX_USE_CXX11_ABI=0 s.cc -o old.so");
    assert_int_equal(tb_elf_read("new.so", &facts, &err), TB_OK);
    assert_true(facts.cxx11_abi);
    assert_int_equal(tb_elf_read("old.so", &facts, &err), TB_OK);
    assert_false(facts.cxx11_abi);
    /* torch 2.4's wheel: old strings of its own, new ones in what its toolset linked in */
    put("c10.cc", "#include <string>\nnamespace c10 { struct Device { std::string str() const; };\n"
                  "std::string Device::str() const { return \"cpu\"; } }\n");
    shell("g++ -c -fPIC -D_GLIBCXX_USE_CXX11_ABI=1 s.cc -o toolset.o");
    shell("g++ -shared -fPIC -D_GLIBCXX_USE_CXX11_ABI=0 c10.cc toolset.o -o mixed.so");
    assert_int_equal(tb_elf_read("mixed.so", &facts, &err), TB_OK);
    assert_false(facts.cxx11_abi);
    shell("g++ -shared -fPIC -D_GLIBCXX_USE_CXX11_ABI=1 c10.cc toolset.o -o mixed.so");
    assert_int_equal(tb_elf_read("mixed.so", &facts, &err), TB_OK);
    assert_true(facts.cxx11_abi);
    assert_int_equal(tb_elf_read("s.cc", &facts, &err), TB_ERR_FORMAT);
    put("empty", "");
    assert_int_equal(tb_elf_read("empty", &facts, &err), TB_ERR_FORMAT);
    shell("for n in 1 63 64 200 1000 5000; do head -c $n new.so > cut.$n; done");
    for (size_t i = 0; i < 6; i++) { /* cut anywhere: read or refused, never a crash */
        char name[16];
        snprintf(name, sizeof(name), "cut.%d", ((const int[]){1, 63, 64, 200, 1000, 5000})[i]);
        (void)!tb_elf_read(name, &facts, &err);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(test_tap__##name, set_up_tap, tear_down_tap)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(is_built_once_and_found_again),
        T(anything_that_changes_makes_another),
        T(a_compiler_behind_a_wrapper),
        T(headers_of_cuda),
        T(the_job_gets_it),
        T(that_does_not_compile_is_said_and_harms_nobody),
        T(what_is_missing_is_named),
        T(two_who_build_at_once_build_one),
        T(a_cache_open_to_others_is_closed),
        T(which_string_a_library_uses_is_read_from_it),
    };

    if (system("g++ --version > /dev/null 2>&1") != 0) {
        puts("skipped: there is no g++");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
