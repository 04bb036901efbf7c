/* The library before the driver: the same names, the same answers, ours where calls are to be seen.
 */
#include "tests/recorder/exports.h"

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include "common/common.h"
#include "recorder/cuda/names.h"

typedef CUresult (*get_fn)(const char *symbol, void **pfn, int version, cuuint64_t flags,
                           CUdriverProcAddressQueryResult *status);
typedef CUresult (*get_v1_fn)(const char *symbol, void **pfn, int version, cuuint64_t flags);

/* ---------------------------------------------------------------- names */

static void test_shim__exports_are_those_of_the_driver(void **state)
{
    (void)state;
    assert_string_equal(
        output_of("nm -D --defined-only " TEST_SHIM " | awk '{print $3}' | sort >shim.names; "
                  "nm -D --defined-only " TEST_DRIVER " | awk '{print $3}' | sort | "
                  "comm -3 - shim.names; wc -l <shim.names | awk '{exit $1 < 600}'"),
        "\ttwinbit_shim_symbol\n");
}

static void test_shim__exports_are_those_of_the_link_stub(void **state)
{
    static const char stub[] = "/usr/local/cuda/lib64/stubs/libcuda.so";

    (void)state;
    if (access(stub, R_OK) != 0)
        skip(); /* the toolkit's list of what programs may link with */
    assert_string_equal(output_of("nm -D --defined-only /usr/local/cuda/lib64/stubs/libcuda.so | "
                                  "awk '$2 == \"T\" {print $3}' | sort | comm -23 - shim.names"),
                        "");
}

static void test_shim__injected_libraries_export_what_is_looked_for(void **state)
{
    (void)state;
    assert_string_equal(
        output_of("nm -D --defined-only " TEST_ENGINE
                  " | awk '{print $3}' | sort | grep -v '^InitializeInjectionNvtx2$'"),
        "InitializeInjection\ntwinbit_cuda_attach\n");
    assert_string_equal(output_of("readlink -f " TEST_SHIM_FOLDER "/libcuda.so | sed 's#.*/##'"),
                        "libcuda.so.1\n");
}

static void test_shim__injected_libraries_import_libc_alone(void **state)
{
    (void)state;
    check_needed(TEST_SHIM);
    check_imports(TEST_SHIM, NULL);
    check_needed(TEST_ENGINE);
    check_imports(TEST_ENGINE, "__cxa_atexit"); /* gives device memory back */
}

/* ---------------------------------------------------------------- cuGetProcAddress */

struct libraries {
    void *shim, *real;
    get_fn of_shim, of_real;
    get_v1_fn v1_of_shim, v1_of_real;
};

static int open_both(void **state)
{
    static struct libraries l;

    if (setenv("TWINBIT_CUDA_REAL", TEST_DRIVER, 1) != 0)
        return -1;
    l.shim = dlopen(TEST_SHIM, RTLD_NOW);
    l.real = dlopen(TEST_DRIVER, RTLD_NOW);
    if (!l.shim || !l.real)
        return -1;
    *(void **)&l.of_shim = dlsym(l.shim, "cuGetProcAddress_v2");
    *(void **)&l.of_real = dlsym(l.real, "cuGetProcAddress_v2");
    *(void **)&l.v1_of_shim = dlsym(l.shim, "cuGetProcAddress");
    *(void **)&l.v1_of_real = dlsym(l.real, "cuGetProcAddress");
    *state = &l;
    return 0;
}

static bool is_hooked(const char *name)
{
    if (strncmp(name, "cuGetProcAddress", 16) == 0)
        return true;
    for (size_t i = 0; i < tb_cuda_names_count; i++)
        if (strcmp(tb_cuda_names[i].name, name) == 0)
            return tb_cuda_names[i].hooked;
    return false;
}

/* @real is what the driver hands out, @ours what the shim does: true if it is a hook of ours. */
static bool check_pair(const struct libraries *l, void *real, void *ours)
{
    Dl_info info;

    if (!real) {
        assert_null(ours);
        return false;
    }
    assert_true(dladdr(real, &info) && info.dli_sname && info.dli_saddr == real);
    if (!is_hooked(info.dli_sname)) {
        assert_ptr_equal(ours, real);
        return false;
    }
    if (ours != dlsym(l->shim, info.dli_sname))
        fail_msg("the shim hands out another function than its %s", info.dli_sname);
    return true;
}

static unsigned check_name(const struct libraries *l, const char *name)
{
    static const int versions[] = {0,     2000,  3020,  4000,  6050,  7000,  9020,  10000,
                                   11000, 11010, 11030, 12000, 12030, 12080, 12090, 13000};
    unsigned hooks = 0;

    for (size_t v = 0; v < TB_ARRAY_LEN(versions); v++)
        for (cuuint64_t flags = 0; flags <= 3; flags++) { /* 3: both streams, is refused */
            void *real = NULL, *ours = NULL;
            CUdriverProcAddressQueryResult a = 77, b = 77;
            CUresult r = l->of_real(name, &real, versions[v], flags, &a);

            assert_int_equal(l->of_shim(name, &ours, versions[v], flags, &b), r);
            assert_int_equal(a, b);
            hooks += check_pair(l, real, ours);
            real = ours = NULL;
            r = l->v1_of_real(name, &real, versions[v], flags);
            assert_int_equal(l->v1_of_shim(name, &ours, versions[v], flags), r);
            (void)check_pair(l, real, ours);
        }
    return hooks;
}

static void test_shim__cugetprocaddress_hands_out_hooks_of_each_version(void **state)
{
    const struct libraries *l = *state;
    char *names = output_of("nm -D --defined-only " TEST_DRIVER
                            " | awk '{sub(/_pt[ds][sz]$/, \"\", $3); sub(/_v[0-9]+$/, \"\", $3); "
                            "print $3}' | sort -u; echo cuNoSuchFunction");
    unsigned hooks = 0, count = 0;

    for (char *save, *name = strtok_r(names, "\n", &save); name;
         name = strtok_r(NULL, "\n", &save), count++)
        hooks += check_name(l, name);
    assert_true(count > 400 && hooks > 5000);
}

/* What the engine makes events of must be handed to it. Some names are ids of CUPTI's alone. */
static void test_shim__calls_of_the_engine_are_hooked(void **state)
{
    static const char *const calls[] = {
#define CALL(handler, name) #name,
#include "recorder/cuda/calls.def"
#undef CALL
    };

    const struct libraries *l = *state;

    for (size_t i = 0; i < TB_ARRAY_LEN(calls); i++)
        if (!is_hooked(calls[i]) && dlsym(l->real, calls[i]))
            fail_msg("recorder/cuda/hooked.txt does not let %s in", calls[i]);
}

static void test_shim__dlsym_finds_hooks(void **state)
{
    const struct libraries *l = *state;
    void *(*symbol)(const char *) = NULL;

    *(void **)&symbol = dlsym(l->shim, "twinbit_shim_symbol");
    assert_non_null(symbol);
    for (size_t i = 0; i < tb_cuda_names_count; i++) {
        const char *name = tb_cuda_names[i].name;
        void *real = dlsym(l->real, name);

        assert_ptr_equal(symbol(name), real);
        if (real)
            assert_ptr_not_equal(dlsym(l->shim, name), real);
    }
    assert_null(symbol("cuNoSuchFunction"));
    assert_null(symbol("twinbit_shim_symbol"));
}

static void test_shim__null_arguments_are_the_drivers_business(void **state)
{
    const struct libraries *l = *state;
    void *f = NULL;

    assert_int_equal(l->of_shim(NULL, &f, 12000, 0, NULL), l->of_real(NULL, &f, 12000, 0, NULL));
    assert_int_equal(l->of_shim("cuInit", NULL, 12000, 0, NULL),
                     l->of_real("cuInit", NULL, 12000, 0, NULL));
    assert_int_equal(l->of_shim("cuInit", &f, 12000, 0, NULL), CUDA_SUCCESS);
    assert_ptr_equal(f, dlsym(l->shim, "cuInit"));
}

/* ---------------------------------------------------------------- the driver behind it */

#define CLEAN "env -u TWINBIT_CUDA_REAL -u LD_LIBRARY_PATH "

static void probe(const char *environment, const char *arguments, const char *expected)
{
    char command[4500];

    (void)snprintf(command, sizeof(command), CLEAN "%s " TEST_PROBE " %s", environment, arguments);
    assert_string_equal(output_of(command), expected);
}

static void test_shim__finds_the_driver(void **state)
{
    static const char found[] = "cuInit 0\nin " TEST_SHIM "\n";

    (void)state;
    probe("TWINBIT_CUDA_REAL=" TEST_DRIVER, TEST_SHIM, found);
    probe("LD_LIBRARY_PATH=" TEST_SHIM_FOLDER ":" TEST_DRIVER_FOLDER, "libcuda.so.1", found);
    probe("LD_LIBRARY_PATH=" TEST_SHIM_FOLDER "::nowhere:" TEST_DRIVER_FOLDER, TEST_SHIM, found);
    probe("TWINBIT_CUDA_REAL=/nowhere LD_LIBRARY_PATH=" TEST_DRIVER_FOLDER, TEST_SHIM, found);
    /* itself is no driver, whatever it is told */
    probe("TWINBIT_CUDA_REAL=" TEST_SHIM " LD_LIBRARY_PATH=" TEST_DRIVER_FOLDER, TEST_SHIM, found);
    probe("LD_LIBRARY_PATH=" TEST_SHIM_FOLDER ":" TEST_DRIVER_FOLDER, "libcuda.so",
          "cuInit 0\nin " TEST_SHIM_FOLDER "/libcuda.so\n");
}

static void test_shim__another_shim_is_no_driver(void **state)
{
    (void)state;
    (void)output_of("mkdir -p copy && cp " TEST_SHIM " copy/libcuda.so.1");
    probe("LD_LIBRARY_PATH=$PWD/copy:" TEST_DRIVER_FOLDER, TEST_SHIM,
          "cuInit 0\nin " TEST_SHIM "\n");
    probe("TWINBIT_CUDA_REAL=$PWD/copy/libcuda.so.1 LD_LIBRARY_PATH=" TEST_DRIVER_FOLDER, TEST_SHIM,
          "cuInit 0\nin " TEST_SHIM "\n");
}

static void test_shim__without_a_driver_there_is_no_device(void **state)
{
    (void)state;
    if (system("ldconfig -p 2>/dev/null | grep -q libcuda.so.1") == 0)
        skip(); /* this machine has one */
    probe("", TEST_SHIM " cuCtxSynchronize cuDeviceGetCount",
          "cuInit 100\ncuCtxSynchronize 100\ncuDeviceGetCount 100\nin " TEST_SHIM "\n");
}

static void test_shim__what_the_driver_lacks_is_not_supported(void **state)
{
    (void)state;
    probe("TWINBIT_CUDA_REAL=" TEST_OLD_DRIVER, TEST_SHIM " cuCtxSynchronize cuDeviceGetCount",
          "cuInit 0\ncuCtxSynchronize 801\ncuDeviceGetCount 801\nin " TEST_SHIM "\n");
}

/* In a process of its own, which has the other driver. */
static int with_old_driver(void)
{
    void *shim = dlopen(TEST_SHIM, RTLD_NOW), *f = NULL;
    CUresult (*alloc)(CUdeviceptr *, size_t) = NULL;
    CUresult (*release)(CUdeviceptr) = NULL;
    get_fn get = NULL;
    CUdeviceptr p = 0;

    *(void **)&get = shim ? dlsym(shim, "cuGetProcAddress_v2") : NULL;
    if (!get)
        return 1;
    /* one that is not exported, known by name and version */
    if (get("cuMemAlloc", &f, 12000, 0, NULL) || f != dlsym(shim, "cuMemAlloc_v2"))
        return 2;
    *(void **)&alloc = f;
    if (alloc(&p, 16) != CUDA_SUCCESS || p != 17)
        return 3;
    *(void **)&release = dlsym(shim, "cuMemFree_v2");
    if (get("cuMemFree", &f, 12000, 0, NULL) || *(void **)&release != f || release(p))
        return 4;
    /* a later version of a known name, a name that is not known: as they are */
    *(void **)&alloc = NULL;
    if (get("cuMemAlloc", &f, 99000, 0, NULL) || !f || f == dlsym(shim, "cuMemAlloc_v2"))
        return 5;
    if (get("cuFuture", &f, 99000, 0, NULL) || !f)
        return 6;
    if (get("cuMemFree", &f, 99000, 0, NULL) || *(void **)&release != f)
        return 7; /* the same function as before */
    return get("cuGraphLaunch", &f, 12000, 0, NULL) || f ? 8 : 0;
}

static void test_shim__an_address_it_does_not_know_is_told_by_version(void **state)
{
    (void)state;
    if (system(CLEAN "TWINBIT_CUDA_REAL=" TEST_OLD_DRIVER " " TEST_SELF " old") != 0)
        fail_msg("with the other driver: see test_shim.c, with_old_driver()");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shim__exports_are_those_of_the_driver),
        cmocka_unit_test(test_shim__exports_are_those_of_the_link_stub),
        cmocka_unit_test(test_shim__injected_libraries_export_what_is_looked_for),
        cmocka_unit_test(test_shim__injected_libraries_import_libc_alone),
        cmocka_unit_test(test_shim__cugetprocaddress_hands_out_hooks_of_each_version),
        cmocka_unit_test(test_shim__calls_of_the_engine_are_hooked),
        cmocka_unit_test(test_shim__dlsym_finds_hooks),
        cmocka_unit_test(test_shim__null_arguments_are_the_drivers_business),
        cmocka_unit_test(test_shim__finds_the_driver),
        cmocka_unit_test(test_shim__another_shim_is_no_driver),
        cmocka_unit_test(test_shim__without_a_driver_there_is_no_device),
        cmocka_unit_test(test_shim__what_the_driver_lacks_is_not_supported),
        cmocka_unit_test(test_shim__an_address_it_does_not_know_is_told_by_version),
    };

    if (argc == 2 && strcmp(argv[1], "old") == 0)
        return with_old_driver();
    return cmocka_run_group_tests(tests, open_both, NULL);
}
