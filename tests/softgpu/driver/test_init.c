/* What cuInit reads: each case in a process of its own. */
#include "softgpu/driver/uuid.h"
#include "tests/softgpu/driver/driver_test.h"

#include <ctype.h>

static void expect_init(void *arg)
{
    CUresult r = cuInit(0);

    if (r != *(CUresult *)arg)
        fprintf(stderr, "cuInit gave %d\n", (int)r);
    need(r == *(CUresult *)arg);
}

static int init_gives(CUresult want, const char *const *env)
{
    return in_child(expect_init, &want, env);
}

static void before_init(void *arg)
{
    CUcontext ctx;
    CUdeviceptr p;
    int n;

    (void)arg;
    need(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED);
    need(cuCtxGetCurrent(&ctx) == CUDA_ERROR_NOT_INITIALIZED);
    need(cuMemAlloc(&p, 16) == CUDA_ERROR_NOT_INITIALIZED);
    need(cuCtxPopCurrent(&ctx) == CUDA_ERROR_NOT_INITIALIZED);
    need(cuDriverGetVersion(&n) == CUDA_SUCCESS && n == CUDA_VERSION);
    need(cuInit(1) == CUDA_ERROR_INVALID_VALUE);
    need(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED);
    need(cuInit(0) == CUDA_SUCCESS && cuInit(0) == CUDA_SUCCESS);
    need(cuDeviceGetCount(&n) == CUDA_SUCCESS && n == 1);
}

static void test_init__nothing_works_before_it(void **state)
{
    (void)state;
    assert_int_equal(in_child(before_init, NULL, NULL), 0);
}

static void test_init__options_that_make_no_sense_are_refused(void **state)
{
    static const char *const bad[][2] = {
        {"SOFTGPU_DEVICES", "0"},
        {"SOFTGPU_DEVICES", "9"},
        {"SOFTGPU_DEVICES", "two"},
        {"SOFTGPU_ARCH", "sm_60"},
        {"SOFTGPU_ARCH", "eighty"},
        {"SOFTGPU_MEMORY", "8X"},
        {"SOFTGPU_MEMORY", "1K"},
        {"SOFTGPU_ORDER", "random"},
        {"SOFTGPU_SEED", "-1"},
        {"SOFTGPU_SMS", "0"},
        {"SOFTGPU_LOG", "9"},
        {"SOFTGPU_WORKERS", "1.5"},
        {"SOFTGPU_FAULT", "sm=9 unit=int"},
        {"SOFTGPU_FAULT_LOG", "/tmp/x"},
        {"SOFTGPU_FAULT_REPLAY", "/nowhere/log"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(init_gives(CUDA_ERROR_INVALID_VALUE, ENV(bad[i][0], bad[i][1])), 0);
}

static void device_as_asked(void *arg)
{
    char name[64];
    size_t bytes;
    int n, value;

    (void)arg;
    need(cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&n) == CUDA_SUCCESS && n == 3);
    need(cuDeviceGetName(name, sizeof(name), 2) == CUDA_SUCCESS && !strcmp(name, "A Name"));
    need(cuDeviceTotalMem(&bytes, 1) == CUDA_SUCCESS && bytes == (size_t)512 << 20);
    need(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) == 0);
    need(value == 72);
    need(cuDeviceGetName(name, 3, 0) == CUDA_SUCCESS && !strcmp(name, "A "));
}

static void test_init__devices_are_as_the_options_say(void **state)
{
    (void)state;
    assert_int_equal(in_child(device_as_asked, NULL,
                              ENV("SOFTGPU_DEVICES", "3", "SOFTGPU_NAME", "A Name",
                                  "SOFTGPU_MEMORY", "512M", "SOFTGPU_SMS_REPORTED", "72")),
                     0);
}

/* ---- CUDA_VISIBLE_DEVICES ---- */

static void buses_are(void *arg)
{
    const char *want = arg; /* "21": bus 2, then bus 1 */
    int n = 0, bus;

    need(cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&n) == CUDA_SUCCESS);
    need((size_t)n == strlen(want));
    for (int i = 0; i < n; i++) {
        need(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i) == CUDA_SUCCESS);
        need(bus == want[i] - '0');
    }
}

static int visible(const char *list, const char *want)
{
    return in_child(buses_are, (void *)(uintptr_t)want,
                    ENV("SOFTGPU_DEVICES", "4", "CUDA_VISIBLE_DEVICES", list));
}

static void test_visible__indices_choose_and_order(void **state)
{
    (void)state;
    assert_int_equal(visible("2", "3"), 0);
    assert_int_equal(visible("3,0", "41"), 0);
    assert_int_equal(visible(" 1 , 2 ", "23"), 0);
    assert_int_equal(in_child(buses_are, "1234", ENV("SOFTGPU_DEVICES", "4")), 0);
}

static void test_visible__from_the_first_wrong_name_on_there_is_none(void **state)
{
    (void)state;
    assert_int_equal(visible("1,9,2", "2"), 0);
    assert_int_equal(visible("0,-1,2", "1"), 0);
    assert_int_equal(visible("2,2,1", "3"), 0);
    assert_int_equal(visible("1,x", "2"), 0);
}

static void test_visible__no_device_is_an_error_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(init_gives(CUDA_ERROR_NO_DEVICE, ENV("CUDA_VISIBLE_DEVICES", "")), 0);
    assert_int_equal(init_gives(CUDA_ERROR_NO_DEVICE, ENV("CUDA_VISIBLE_DEVICES", "-1")), 0);
    assert_int_equal(init_gives(CUDA_ERROR_NO_DEVICE, ENV("CUDA_VISIBLE_DEVICES", "NoDevFiles")),
                     0);
}

static void write_uuid(void *arg)
{
    CUuuid uuid;
    char text[SG_UUID_TEXT];

    need(cuInit(0) == CUDA_SUCCESS && cuDeviceGetUuid(&uuid, 1) == CUDA_SUCCESS);
    sg_uuid_text(&uuid, text);
    need(write(*(int *)arg, text, 40) == 40);
}

static void test_visible__a_uuid_or_its_beginning_names_a_device(void **state)
{
    char uuid[41] = "";
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(in_child(write_uuid, &ends[1], ENV("SOFTGPU_DEVICES", "4")), 0);
    assert_int_equal(read(ends[0], uuid, 40), 40);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(visible(uuid, "2"), 0);
    uuid[10] = '\0';
    assert_int_equal(visible(uuid, "2"), 0);
    for (char *p = uuid; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    assert_int_equal(visible(uuid, "2"), 0);
    assert_int_equal(init_gives(CUDA_ERROR_NO_DEVICE, ENV("CUDA_VISIBLE_DEVICES", "GPU-")), 0);
}

/* ---- the rest of a process ---- */

static void after_fork(void *arg)
{
    int n = 0;

    (void)arg;
    need(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED);
    need(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED);
}

static void fork_after_init(void *arg)
{
    int n = 0;

    (void)arg;
    need(cuInit(0) == CUDA_SUCCESS);
    need(in_child(after_fork, NULL, NULL) == 0);
    need(cuDeviceGetCount(&n) == CUDA_SUCCESS && n == 1); /* the parent goes on */
}

static void test_fork__a_child_of_a_started_process_has_no_device(void **state)
{
    (void)state;
    assert_int_equal(in_child(fork_after_init, NULL, NULL), 0);
}

static void injected(void *arg)
{
    const char *mark;

    (void)arg;
    need(getenv("SG_TEST_INJECTED") == NULL);
    need(cuInit(0) == CUDA_SUCCESS);
    mark = getenv("SG_TEST_INJECTED");
    need(mark && !strcmp(mark, "1"));
    need(cuInit(0) == CUDA_SUCCESS);
    need(!strcmp(getenv("SG_TEST_INJECTED"), "1"));
}

static void test_injection__the_library_is_told_once_at_init(void **state)
{
    const char *library = getenv("SG_TEST_INJECTION");

    (void)state;
    if (!library) {
        print_message("SG_TEST_INJECTION is not set: run it through ctest\n");
        skip();
    }
    assert_int_equal(in_child(injected, NULL, ENV("CUDA_INJECTION64_PATH", library)), 0);
    assert_int_equal(init_gives(CUDA_SUCCESS, ENV("CUDA_INJECTION64_PATH", "no/such/file")), 0);
}

static void loading_is(void *arg)
{
    CUmoduleLoadingMode mode;

    need(cuInit(0) == CUDA_SUCCESS && cuModuleGetLoadingMode(&mode) == CUDA_SUCCESS);
    need(mode == *(CUmoduleLoadingMode *)arg);
    need(cuModuleGetLoadingMode(NULL) == CUDA_ERROR_INVALID_VALUE);
}

static void test_loading__mode_is_what_the_environment_says(void **state)
{
    CUmoduleLoadingMode lazy = CU_MODULE_LAZY_LOADING, eager = CU_MODULE_EAGER_LOADING;

    (void)state;
    assert_int_equal(in_child(loading_is, &lazy, NULL), 0);
    assert_int_equal(in_child(loading_is, &lazy, ENV("CUDA_MODULE_LOADING", "LAZY")), 0);
    assert_int_equal(in_child(loading_is, &eager, ENV("CUDA_MODULE_LOADING", "EAGER")), 0);
}

static void test_errors__every_code_has_a_name_and_a_text(void **state)
{
    const char *name = NULL, *text = NULL;

    (void)state;
    ok(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
    assert_string_equal(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
    ok(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    assert_string_equal(text, "an illegal memory access was encountered");
    for (int code = 0, found = 0; code < 1000; code++) {
        CUresult r = cuGetErrorName((CUresult)code, &name);

        assert_int_equal(cuGetErrorString((CUresult)code, &text), r);
        found += r == CUDA_SUCCESS;
        if (r == CUDA_SUCCESS)
            assert_true(name && text && *text && strncmp(name, "CUDA_", 5) == 0);
        else
            assert_true(r == CUDA_ERROR_INVALID_VALUE && !name && !text);
        if (code == 999)
            assert_true(found > 80);
    }
    refused(cuGetErrorName(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init__nothing_works_before_it),
        cmocka_unit_test(test_init__options_that_make_no_sense_are_refused),
        cmocka_unit_test(test_init__devices_are_as_the_options_say),
        cmocka_unit_test(test_visible__indices_choose_and_order),
        cmocka_unit_test(test_visible__from_the_first_wrong_name_on_there_is_none),
        cmocka_unit_test(test_visible__no_device_is_an_error_of_its_own),
        cmocka_unit_test(test_visible__a_uuid_or_its_beginning_names_a_device),
        cmocka_unit_test(test_fork__a_child_of_a_started_process_has_no_device),
        cmocka_unit_test(test_injection__the_library_is_told_once_at_init),
        cmocka_unit_test(test_loading__mode_is_what_the_environment_says),
        cmocka_unit_test(test_errors__every_code_has_a_name_and_a_text),
    };

    setenv("SOFTGPU_LOG", "0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
