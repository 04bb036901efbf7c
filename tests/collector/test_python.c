/*
 * Python jobs with a stand-in for torch: an extension module torch._C that links the fake
 * libtorch_cpu.so. How the library finds its moment, how the Python side is started, and that the
 * job notices neither.
 */
#include "tests/collector/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char libdir[4200];

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void must(const char *command)
{
    if (system(command) != 0)
        fail_msg("%s", command);
}

/* CPython's PyModuleDef by hand: no Python.h is needed to build this test. */
static const char extension[] =
    "struct def { long refcnt; void *type, *init; long index; void *copy; const char *name, *doc;\n"
    "  long size; void *methods, *slots, *traverse, *clear, *free; };\n"
    "static struct def d = {.refcnt = 1, .name = \"_C\", .size = -1};\n"
    "extern void *PyModule_Create2(void *, int); extern void fake_torch_op(unsigned long, int);\n"
    "__attribute__((visibility(\"default\"))) void *PyInit__C(void) { return PyModule_Create2(&d, "
    "1013); }\n"
    "void (*keep)(unsigned long, int) = fake_torch_op;\n";

static const char job[] =
    "import sys\nimport torch\nimport ctypes, os\n"
    "op = ctypes.CDLL(os.environ['FAKE_TORCH']).fake_torch_op\n"
    "op.argtypes = [ctypes.c_uint64, ctypes.c_int]\n"
    "for i in range(100):\n    op(i, 0)\n"
    "print(sorted(n for n in dir(sys.modules['__main__'])))\n"
    "print([p for p in sys.path if 'twinbit' in p and 'twinbit-test' not in p])\n"
    "print(getattr(sys, 'own', None), sys.exc_info())\n"
    "sys.exit(3)\n";

static int set_up_python(void **state)
{
    char command[16384], cwd[4000];
    int rc = set_up(state);

    assert_non_null(getcwd(cwd, sizeof(cwd)));
    snprintf(libdir, sizeof(libdir), "%s/lib", cwd);
    put("ext.c", extension);
    must("mkdir -p torch lib/python/twinbit");
    snprintf(command, sizeof(command),
             "gcc -w -shared -fPIC ext.c -o torch/_C.so '%s' -Wl,-rpath,$(dirname '%s') && "
             "cp '%s' lib/ && cp -r '" TEST_LIBDIR "/python/hook' lib/python/",
             getenv("FAKE_TORCH"), getenv("FAKE_TORCH"), preload_path());
    must(command);
    put("torch/__init__.py", "from . import _C\n");
    put("job.py", job);
    put("lib/python/twinbit/_glue.py",
        "def install(tap):\n    open('glue', 'w').write(tap + ' ' + __name__)\n");
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    return rc;
}

static void run_python(struct outcome *o, const char *attach, const char *flags)
{
    const char *argv[] = {driver_path(), "-d",          libdir,   "-f",     "-a", attach,
                          "-o",          "out.twinbit", "-R",     "result", "-v", "--",
                          "python3",     flags,         "job.py", NULL};

    finish(start(argv), o);
}

static void plain_python(struct outcome *o)
{
    finish(start((const char *[]){"python3", "-B", "job.py", NULL}), o);
    assert_int_equal(o->exit_status, 3);
}

static void test_python__is_recorded_and_does_not_notice(void **state)
{
    struct outcome plain, o;
    char text[2000] = "", wanted[2000];

    (void)state;
    plain_python(&plain);
    run_python(&o, "preload", "-B");
    assert_int_equal(o.exit_status, 3);
    assert_string_equal(o.out, plain.out);
    assert_int_equal(o.events, 100);
    FILE *f = fopen("glue", "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    fclose(f);
    snprintf(wanted, sizeof(wanted), "%s _twinbit_glue", getenv("TWINBIT_TAP"));
    assert_string_equal(text, wanted);
}

static void test_python__isolated_too(void **state)
{
    struct outcome o;

    (void)state;
    put("job.py", "import sys, os\nsys.path.insert(0, os.getcwd())\nimport torch\nimport ctypes\n"
                  "op = ctypes.CDLL(os.environ['FAKE_TORCH']).fake_torch_op\n"
                  "for i in range(10):\n    op(i, 0)\n");
    run_python(&o, "preload", "-IS");
    assert_int_equal(o.exit_status, 0);
    assert_int_equal(o.events, 10);
    assert_int_equal(access("glue", F_OK), 0);
}

static void test_python__what_the_glue_throws_is_logged(void **state)
{
    static const char *const throws[] = {"raise ValueError('broken glue')",
                                         "import sys; sys.exit(9)", "1 / 0", "syntax error here"};
    static const char *const said[] = {"ValueError: broken glue", "SystemExit: 9",
                                       "ZeroDivisionError", "SyntaxError"};
    struct outcome plain, o;

    (void)state;
    plain_python(&plain);
    for (size_t i = 0; i < 4; i++) {
        char text[200];
        snprintf(text, sizeof(text), "def install(tap):\n    %s\n", throws[i]);
        put("lib/python/twinbit/_glue.py", text);
        run_python(&o, "preload", "-B");
        assert_int_equal(o.exit_status, 3);
        assert_string_equal(o.out, plain.out);
        assert_int_equal(o.events, 100); /* the tap does without */
        assert_non_null(strstr(o.err, said[i]));
    }
    unlink("lib/python/twinbit/_glue.py");
    run_python(&o, "preload", "-B");
    assert_string_equal(o.out, plain.out);
    assert_non_null(strstr(o.err, "FileNotFoundError"));
}

static void test_python__an_interrupt_in_the_glue_is_the_jobs(void **state)
{
    struct outcome o;

    (void)state;
    put("lib/python/twinbit/_glue.py", "def install(tap):\n    raise KeyboardInterrupt\n");
    put("job.py", "try:\n    import torch\n    for i in range(100000): pass\n"
                  "except KeyboardInterrupt:\n    print('interrupted')\n");
    run_python(&o, "preload", "-B");
    assert_int_equal(o.exit_status, 0);
    assert_string_equal(o.out, "interrupted\n");
}

static void test_python__without_preloading_an_import_hook(void **state)
{
    struct outcome plain, o;

    (void)state;
    put("sitecustomize.py", "import sys\nsys.own = 'its own sitecustomize'\n");
    setenv("PYTHONPATH", ".", 1);
    plain_python(&plain);
    assert_non_null(strstr(plain.out, "its own sitecustomize"));
    run_python(&o, "python", "-B");
    unsetenv("PYTHONPATH");
    assert_int_equal(o.exit_status, 3);
    assert_string_equal(o.out, plain.out);
    assert_int_equal(o.events, 100);
    assert_int_equal(access("glue", F_OK), 0);
}

static void test_python__forked_workers_are_recorded(void **state)
{
    struct outcome o;
    size_t n = 0;

    (void)state;
    put("job.py", "import torch, ctypes, os\n"
                  "op = ctypes.CDLL(os.environ['FAKE_TORCH']).fake_torch_op\n"
                  "op.argtypes = [ctypes.c_uint64, ctypes.c_int]\n"
                  "import multiprocessing as mp\n"
                  "def work(k):\n    for i in range(50): op((k << 40) + i, 0)\n"
                  "c = mp.get_context('fork')\n"
                  "ps = [c.Process(target=work, args=(k + 1,)) for k in range(3)]\n"
                  "for p in ps: p.start()\nfor p in ps: p.join()\n"
                  "assert [p.exitcode for p in ps] == [0, 0, 0]\n");
    run_python(&o, "preload", "-B");
    assert_int_equal(o.exit_status, 0);
    assert_int_equal(o.not_covered, 0);
    struct tb_trace *t = open_trace();
    const struct tb_trace_process *p = tb_trace_processes(t, &n);
    assert_int_equal(n, 4);
    assert_string_equal(p[0].identity, "job.py#0");
    for (size_t i = 1; i < n; i++) {
        struct tags tags = process_tags(t, p[i].id);
        assert_run(&tags, (uint64_t)(p[i].worker + 1) << 40, 50);
        free(tags.tag);
    }
    tb_trace_close(t);
}

#define T(name) cmocka_unit_test_setup_teardown(test_python__##name, set_up_python, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(is_recorded_and_does_not_notice),   T(isolated_too),
        T(what_the_glue_throws_is_logged),    T(an_interrupt_in_the_glue_is_the_jobs),
        T(without_preloading_an_import_hook), T(forked_workers_are_recorded),
    };

    if (system("python3 -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 8))' && "
               "gcc --version > /dev/null") != 0) {
        puts("skipped: there is no python3, or no gcc");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
