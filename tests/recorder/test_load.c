/* Being in every process of a job must change nothing: how symbols and libraries are found, who can
 * run. */
#include "tests/collector/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int shell(const char *command)
{
    return system(command);
}

static void must(const char *command)
{
    if (shell(command) != 0)
        fail_msg("%s", command);
}

/* The program alone, behind the library, and under twinbit: output and status are the same. */
static void same_everywhere(const char *program)
{
    const char *alone[] = {program, NULL};
    const char *under[] = {driver_path(), "-f", "--", program, NULL};
    struct outcome plain, o;

    finish(start(alone), &plain);
    setenv("LD_PRELOAD", preload_path(), 1);
    finish(start(alone), &o);
    unsetenv("LD_PRELOAD");
    assert_string_equal(o.out, plain.out);
    assert_string_equal(o.err, plain.err);
    assert_int_equal(o.status, plain.status);
    finish(start(under), &o);
    assert_string_equal(o.out, plain.out);
    assert_string_equal(o.err, plain.err);
    assert_int_equal(o.exit_status, plain.exit_status);
}

static void test_load__runpath_of_the_caller_is_searched(void **state)
{
    struct outcome o;

    (void)state;
    put("hidden.c", "int hidden(void) { return 42; }\n");
    put("user.c", "#include <dlfcn.h>\nint user(void) { int (*f)(void) = 0;\n"
                  "void *h = dlopen(\"libhidden.so\", RTLD_NOW); if (!h) return -1;\n"
                  "*(void **)&f = dlsym(h, \"hidden\"); return f ? f() : -2; }\n");
    put("main.c", "#include <stdio.h>\nint user(void);\n"
                  "int main(void) { printf(\"%d\\n\", user()); return 0; }\n");
    must("mkdir sub && gcc -shared -fPIC hidden.c -o sub/libhidden.so && "
         "gcc -shared -fPIC user.c -o libuser.so -Wl,-rpath,'$ORIGIN/sub',--enable-new-dtags && "
         "gcc main.c -o main -L. -luser -Wl,-rpath,'$ORIGIN'");
    same_everywhere("./main");
    finish(start((const char *[]){"./main", NULL}), &o);
    assert_string_equal(o.out, "42\n");
}

static void test_load__rtld_next_means_next_after_the_caller(void **state)
{
    struct outcome o;

    (void)state;
    put("a.c", "#define _GNU_SOURCE\n#include <dlfcn.h>\nconst char *who(void) { return \"a\"; }\n"
               "const char *after_a(void) { const char *(*f)(void);\n"
               "*(void **)&f = dlsym(RTLD_NEXT, \"who\"); return f ? f() : \"none\"; }\n"
               "const char *usual(void) { const char *(*f)(void);\n"
               "*(void **)&f = dlsym(RTLD_DEFAULT, \"who\"); return f(); }\n");
    put("b.c", "#define _GNU_SOURCE\n#include <dlfcn.h>\nconst char *who(void) { return \"b\"; }\n"
               "const char *after_b(void) { const char *(*f)(void);\n"
               "*(void **)&f = dlsym(RTLD_NEXT, \"who\"); return f ? f() : \"none\"; }\n");
    put("main.c", "#include <stdio.h>\nconst char *after_a(void), *after_b(void), *usual(void);\n"
                  "int main(void) { printf(\"%s %s %s\\n\", after_a(), after_b(), usual()); }\n");
    must("gcc -shared -fPIC a.c -o liba.so && gcc -shared -fPIC b.c -o libb.so && "
         "gcc main.c -o main -L. -la -lb -Wl,-rpath,'$ORIGIN'");
    same_everywhere("./main");
    finish(start((const char *[]){"./main", NULL}), &o);
    assert_string_equal(o.out, "b none a\n");
}

static void test_load__another_preloaded_dlsym_is_still_asked(void **state)
{
    struct outcome o;

    (void)state;
    put("spy.c",
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <string.h>\nstatic int mine = 7;\n"
        "void *dlsym(void *h, const char *n) {\n"
        "  static void *(*real)(void *, const char *);\n"
        "  if (!real) *(void **)&real = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.34\");\n"
        "  return strcmp(n, \"spied\") == 0 ? &mine : real(h, n); }\n");
    put("main.c", "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n"
                  "int main(void) { int *p = dlsym(RTLD_DEFAULT, \"spied\");\n"
                  "printf(\"%d\\n\", p ? *p : 0); return 0; }\n");
    must("gcc -shared -fPIC spy.c -o libspy.so && gcc main.c -o main");
    finish(start((const char *[]){driver_path(), "--", "sh", "-c",
                                  "LD_PRELOAD=$LD_PRELOAD:./libspy.so exec ./main", NULL}),
           &o);
    assert_string_equal(o.out, "7\n");
}

static void test_load__a_program_that_links_libtorch_attaches_before_main(void **state)
{
    struct outcome o;
    char command[8192];

    (void)state;
    put("main.c", "#include <stdint.h>\nvoid fake_torch_op(uint64_t, int);\n"
                  "int main(void) { for (uint64_t i = 0; i < 100; i++) fake_torch_op(i, 0); }\n");
    snprintf(command, sizeof(command), "gcc main.c -o main '%s' -Wl,-rpath,$(dirname '%s')",
             getenv("FAKE_TORCH"), getenv("FAKE_TORCH"));
    must(command);
    finish(start((const char *[]){driver_path(), "-o", "out.twinbit", "-R", "result", "--",
                                  "./main", NULL}),
           &o);
    assert_int_equal(o.exit_status, 0);
    assert_int_equal(o.events, 100);
}

/* A constructor of libtorch that asks dlsym is no moment to attach: the tap would meet half a
 * library. */
static void test_load__not_in_the_middle_of_libtorchs_constructors(void **state)
{
    struct outcome o;

    (void)state;
    put("torch.c",
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdint.h>\n#include <stdlib.h>\n"
        "static int built; static void (*cb)(uint64_t, int);\n"
        "void fake_torch_observe(void (*f)(uint64_t, int)) { if (!built) abort(); cb = f; }\n"
        "void fake_torch_op(uint64_t t, int k) { if (cb) cb(t, k); }\n"
        "__attribute__((constructor)) static void c(void) {\n"
        "  dlsym(RTLD_DEFAULT, \"malloc\"); dlsym(RTLD_DEFAULT, \"free\"); built = 1; }\n");
    must("mkdir t && gcc -shared -fPIC torch.c -o t/libtorch_cpu.so -Wl,-soname,libtorch_cpu.so");
    setenv("FAKE_TORCH", "./t/libtorch_cpu.so", 1);
    setenv("LD_LIBRARY_PATH", "./t", 1);
    run_under(&o, "", "ops 25");
    unsetenv("LD_LIBRARY_PATH");
    assert_int_equal(o.exit_status, 0);
    assert_int_equal(o.events, 25);
}

static void test_load__sanitizer_builds_run(void **state)
{
    (void)state;
    put("main.c", "#include <stdio.h>\n#include <stdlib.h>\n"
                  "int main(void) { puts(getenv(\"HOME\") ? \"ran\" : \"?\"); return 5; }\n");
    if (shell("gcc -fsanitize=address main.c -o main 2> /dev/null") != 0)
        skip();
    const char *under[] = {driver_path(), "-f", "--", "./main", NULL};
    struct outcome o;
    finish(start(under), &o);
    assert_string_equal(o.out, "ran\n");
    assert_int_equal(o.exit_status, 5);
    if (shell("gcc -fsanitize=thread main.c -o main2 2> /dev/null") == 0) {
        under[3] = "./main2";
        finish(start(under), &o);
        assert_string_equal(o.out, "ran\n");
    }
}

static void test_load__static_and_musl_programs_run(void **state)
{
    (void)state;
    put("main.c", "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 6; }\n");
    if (shell("gcc -static main.c -o main 2> /dev/null") == 0)
        same_everywhere("./main");
    if (shell("musl-gcc main.c -o main2 2> /dev/null") == 0)
        same_everywhere("./main2");
}

static void test_load__a_job_in_another_language_of_threads(void **state)
{
    struct outcome o;

    (void)state;
    /* dlsym from many threads while libtorch is being loaded by one: attaches once, hangs never */
    put("main.c",
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <pthread.h>\n#include <stdint.h>\n"
        "#include <stdlib.h>\nstatic volatile int stop;\n"
        "static void *ask(void *a) { while (!stop) dlsym(RTLD_DEFAULT, \"malloc\"); return a; }\n"
        "int main(void) { pthread_t t[6]; for (int i = 0; i < 6; i++)\n"
        "  pthread_create(&t[i], 0, ask, 0);\n"
        "  void *h = dlopen(getenv(\"FAKE_TORCH\"), RTLD_NOW); void (*op)(uint64_t, int);\n"
        "  *(void **)&op = dlsym(h, \"fake_torch_op\");\n"
        "  for (int i = 0; i < 2000 && !stop; i++) op(i, 0);\n"
        "  stop = 1; for (int i = 0; i < 6; i++) pthread_join(t[i], 0); return 0; }\n");
    must("gcc -O1 main.c -o main -lpthread");
    for (int i = 0; i < 10; i++) {
        finish(start((const char *[]){driver_path(), "-f", "-o", "out.twinbit", "-R", "result",
                                      "--", "./main", NULL}),
               &o);
        assert_int_equal(o.exit_status, 0);
        assert_int_equal(o.processes, 1);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(test_load__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(runpath_of_the_caller_is_searched),
        T(rtld_next_means_next_after_the_caller),
        T(another_preloaded_dlsym_is_still_asked),
        T(a_program_that_links_libtorch_attaches_before_main),
        T(not_in_the_middle_of_libtorchs_constructors),
        T(sanitizer_builds_run),
        T(static_and_musl_programs_run),
        T(a_job_in_another_language_of_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
