/* The seam where a tool is told what kernels read and write, access by access. */
#include "tests/softgpu/driver/driver_test.h"

#include "softgpu/driver/seam.h"

#include <string.h>

/* One launch of "twice" by 32 threads, and what was told of it. */
static struct {
    unsigned begins, ends, reads, writes, outside;
    char name[32];
    uint64_t from, to, param;
} seen;

static void begin(void *arg, const char *kernel, const void *params, size_t bytes)
{
    (void)arg;
    seen.begins++;
    strncpy(seen.name, kernel, sizeof(seen.name) - 1);
    assert_int_equal(bytes, 8);
    memcpy(&seen.param, params, sizeof(seen.param));
}

static void access_to(void *arg, uint64_t address, uint64_t bytes, bool write)
{
    (void)arg;
    assert_int_equal(seen.begins, seen.ends + 1);
    seen.writes += write;
    seen.reads += !write;
    seen.outside += bytes != 4 || address < seen.from || address + bytes > seen.to;
}

static void end(void *arg)
{
    (void)arg;
    seen.ends++;
}

static void run_twice(CUdeviceptr p)
{
    CUmodule m = load_test_module();

    ok(cuLaunchKernel(function_of(m, "twice"), 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&p}, NULL));
    ok(cuCtxSynchronize());
    ok(cuModuleUnload(m));
}

static void test_accesses__each_is_told_between_begin_and_end(void **state)
{
    static const struct softgpu_access_hooks hooks = {begin, access_to, end, NULL};
    const struct softgpu_tools *tools = softgpu_find_tools(cuGetExportTable);
    struct softgpu_allocation a;
    CUdeviceptr p = 0;

    (void)state;
    ok(cuMemAlloc(&p, 128));
    ok(cuMemsetD32(p, 3, 32));
    seen.from = p;
    seen.to = p + 128;
    tools->set_accesses(&hooks);
    run_twice(p);
    tools->set_accesses(NULL);
    assert_string_equal(seen.name, "twice");
    assert_int_equal(seen.param, p);
    assert_int_equal(seen.begins, 1);
    assert_int_equal(seen.ends, 1);
    assert_int_equal(seen.reads, 32);
    assert_int_equal(seen.writes, 32);
    assert_int_equal(seen.outside, 0);
    run_twice(p); /* nobody listens */
    assert_int_equal(seen.begins, 1);
    assert_true(tools->allocation(p + 127, &a));
    assert_int_equal(a.address, p);
    assert_int_equal(a.size, 128);
    assert_false(a.variable);
    ok(cuMemFree(p));
    assert_false(tools->allocation(p, &a));
}

static void test_accesses__variables_of_modules_are_known(void **state)
{
    CUmodule m = load_test_module();
    struct softgpu_allocation a;
    CUdeviceptr p;
    size_t n;

    (void)state;
    ok(cuModuleGetGlobal(&p, &n, m, "counter"));
    assert_true(softgpu_find_tools(cuGetExportTable)->allocation(p, &a));
    assert_true(a.variable);
    assert_int_equal(a.address, p);
    ok(cuModuleUnload(m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_accesses__each_is_told_between_begin_and_end,
                                        start_device, stop_device),
        cmocka_unit_test_setup_teardown(test_accesses__variables_of_modules_are_known, start_device,
                                        stop_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
